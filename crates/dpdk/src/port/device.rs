//! A port that is a device of DPDK's: a NIC, or a virtual device with a poll-mode driver.
//!
//! [`Started`] is held by the port and by each of its queues: whoever is last stops the device, and only then is it closed and
//! removed. So a device never stops under a worker's hands, whatever is dropped first.

use std::ffi::CString;
use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::config::{PciIdentity, PortConfig, PortInfo};
use super::kernel_memory::{self, KernelMemory};
use super::kind::{self, Device, PortKind};
use crate::ffi::{
    self, RawExtendedName, RawExtendedValue, RawLink, RawPortConfig, RawPortInfo, RawStatistics,
};
use crate::queue::{DeviceRxQueue, DeviceTxQueue};
use crate::{Eal, ExtendedStatistic, Link, Mempool, PortError, Statistics, log};

/// A device as a port.
#[derive(Debug)]
pub(crate) struct DevicePort {
    started: Option<Arc<Started>>,
    inner: Arc<Inner>,
}

/// A device that exists in the EAL.
#[derive(Debug)]
struct Inner {
    name: String,
    id: u16,
    bus: &'static str,
    device: CString,
    arguments: CString,
    /// Index of the kernel's interface that it is made on.
    interface: Option<u32>,
    /// Whether the driver gives its packet memory to the kernel.
    shares_with_kernel: bool,
    /// That memory, once the port was configured.
    kernel_memory: Option<KernelMemory>,
    configuration: Option<Configuration>,
    removed: bool,
    /// The device is EAL's: it stays while the port does.
    _eal: Eal,
}

#[derive(Debug)]
struct Configuration {
    receive_queues: u16,
    transmit_queues: u16,
    fast_free: bool,
    mempool: Mempool,
}

/// A device that runs. Stops it when dropped.
#[derive(Debug)]
pub(crate) struct Started {
    inner: Arc<Inner>,
}

impl Drop for Started {
    fn drop(&mut self) {
        // SAFETY: the port exists, since `inner` does, and no queue does, since each would hold this.
        unsafe { ffi::sluice_port_stop(self.inner.id) };
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Inner {
    /// Closes and removes the device, unless that has been done. It is stopped, and nobody else knows of it.
    fn remove(&mut self) {
        let Ok(bus) = CString::new(self.bus) else { return };
        if std::mem::replace(&mut self.removed, true) {
            return;
        }
        // SAFETY: the port is stopped and this was the last to know it. Its pool, in `configuration`, is dropped after it.
        unsafe {
            ffi::sluice_port_close(self.id);
            ffi::sluice_device_remove(bus.as_ptr(), self.device.as_ptr());
        }
        if let Some(memory) = self.kernel_memory.take() {
            memory.release();
        }
    }
}

impl DevicePort {
    /// Creates a port, or takes over a PCI device. `name` is its name in messages and in DPDK's tools.
    ///
    /// # Errors
    /// What is missing (interface, file, device, driver), names and numbers that are wrong, and the driver's own refusal.
    pub(super) fn new(eal: &Eal, name: &str, kind: &PortKind, device: Device) -> Result<Self, PortError> {
        if let PortKind::Pci { address } = kind
            && !eal.allows_pci(address)
        {
            return Err(PortError::PciNotAllowed { port: name.to_owned(), address: address.clone() });
        }
        let refused =
            |reason: String| PortError::Driver { port: name.to_owned(), action: "create the device", reason };
        let bus = CString::new(device.bus).map_err(|error| refused(error.to_string()))?;
        let text = CString::new(device.name).map_err(|error| refused(error.to_string()))?;
        let arguments = CString::new(device.arguments).map_err(|error| refused(error.to_string()))?;

        // EAL probes the allowed PCI devices when it starts: those need not be added, unless they were removed in between.
        let existing = port_by_name(&text);
        if existing.is_some() && device.bus == "vdev" {
            return Err(PortError::Exists(name.to_owned()));
        }
        if existing.is_none() {
            let added = add_device(eal, &bus, &text, &arguments);
            added.map_err(|reason| pci_driver_error(name, kind).unwrap_or_else(|| refused(reason)))?;
        }
        let id = port_by_name(&text).ok_or_else(|| {
            pci_driver_error(name, kind).unwrap_or_else(|| refused("it made no network port".to_owned()))
        })?;
        let (name, bus, interface, _eal) = (name.to_owned(), device.bus, kind.interface_index(), eal.clone());
        Ok(Self {
            started: None,
            inner: Arc::new(Inner {
                name,
                id,
                bus,
                device: text,
                arguments,
                interface,
                shares_with_kernel: matches!(kind, PortKind::AfXdp { .. }),
                kernel_memory: None,
                configuration: None,
                removed: false,
                _eal,
            }),
        })
    }

    /// The name it was given.
    pub(super) fn name(&self) -> &str {
        &self.inner.name
    }

    /// DPDK's number of the port, as in [`crate::Mbuf::port`].
    pub(super) fn id(&self) -> u16 {
        self.inner.id
    }

    /// What the device is and can do.
    ///
    /// # Errors
    /// Only if the driver does not answer.
    pub(super) fn info(&self) -> Result<PortInfo, PortError> {
        let raw = self.raw_info()?;
        let text = |bytes: &[u8; 64]| {
            String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or(&[])).into_owned()
        };
        let device = text(&raw.device);
        let pci = (self.inner.bus == "pci").then(|| pci_identity(&kind::pci_folder(&device))).flatten();
        Ok(PortInfo {
            driver: text(&raw.driver),
            device,
            mac: raw.mac,
            numa_node: u32::try_from(raw.numa_node).ok(),
            pci,
            max_receive_queues: raw.max_receive_queues,
            max_transmit_queues: raw.max_transmit_queues,
            mtu: raw.mtu,
            min_mtu: raw.min_mtu,
            max_mtu: largest_mtu(&raw),
            max_frame: raw.max_receive_frame,
            receive_offloads: raw.receive_offloads,
            transmit_offloads: raw.transmit_offloads,
            rss_functions: raw.rss_functions,
        })
    }

    /// Sets the port up. It must be stopped; what it was configured with before is replaced.
    ///
    /// # Errors
    /// Numbers that the device cannot have, a pool whose buffers are too small for the MTU, and the driver's own refusal.
    pub(super) fn configure(&mut self, config: &PortConfig) -> Result<(), PortError> {
        let end = Instant::now() + kernel_memory::RELEASE_LIMIT;
        loop {
            let result = self.configure_once(config);
            let busy = matches!(result, Err(PortError::Driver { .. })) && self.inner.shares_with_kernel;
            if !busy || Instant::now() > end {
                return result;
            }
            // Perhaps the kernel has not let go of the interface yet. The driver cannot try twice with one device.
            std::thread::sleep(kernel_memory::RETRY);
            self.recreate()?;
        }
    }

    /// Removes the device and creates it anew.
    fn recreate(&mut self) -> Result<(), PortError> {
        let Some(inner) = Arc::get_mut(&mut self.inner) else { return Ok(()) };
        inner.remove();
        let refused =
            |reason| PortError::Driver { port: inner.name.clone(), action: "create the device", reason };
        let bus = CString::new(inner.bus).map_err(|error| refused(error.to_string()))?;
        log::forget();
        // SAFETY: the EAL runs while the port does; the texts live during the call.
        let result =
            unsafe { ffi::sluice_device_add(bus.as_ptr(), inner.device.as_ptr(), inner.arguments.as_ptr()) };
        let id = port_by_name(&inner.device).filter(|_| result == 0);
        inner.id = id.ok_or_else(|| refused(log::explain(result)))?;
        inner.removed = false;
        Ok(())
    }

    fn configure_once(&mut self, config: &PortConfig) -> Result<(), PortError> {
        let info = self.raw_info()?;
        let raw = raw_config(&self.inner.name, config, &info, self.inner.bus)?;
        let name = self.inner.name.clone();
        let Some(inner) = Arc::get_mut(&mut self.inner) else {
            return Err(PortError::State {
                port: name,
                state: "started",
                remedy: "stop it before it is configured",
            });
        };
        if inner.shares_with_kernel && inner.kernel_memory.is_none() {
            let queues = raw.receive_queues;
            let memory =
                KernelMemory::new(&inner._eal, inner.id, queues, raw.receive_descriptors, &config.mempool);
            inner.kernel_memory = Some(memory.map_err(|error| {
                let reason = error.to_string();
                PortError::Driver { port: name, action: "get packet memory", reason }
            })?);
        }
        log::forget();
        let id = inner.id;
        // SAFETY: the port exists and is stopped: a started one would share `inner`. The pool outlives its use, since it is kept.
        let configure =
            |pool: &Mempool| unsafe { ffi::sluice_port_configure(id, &raw const raw, pool.raw()) };
        let result = match &mut inner.kernel_memory {
            Some(memory) => memory.watch(configure),
            None => configure(&config.mempool),
        };
        if result != 0 {
            return Err(inner.driver_error("be configured", result));
        }
        inner.configuration = Some(Configuration {
            receive_queues: raw.receive_queues,
            transmit_queues: raw.transmit_queues,
            fast_free: raw.transmit_offloads & ffi::TX_FAST_FREE != 0,
            mempool: config.mempool.clone(),
        });
        // SAFETY: the port exists. A driver without the mode is always promiscuous, as virtual ports are.
        unsafe { ffi::sluice_port_promiscuous(inner.id, i32::from(config.promiscuous)) };
        Ok(())
    }

    /// Starts the port and hands out its queues. A memif port may still wait for its peer: see [`DevicePort::link`] and [`MemifRole`].
    ///
    /// # Errors
    /// A port that is not configured or runs already, and the driver's own refusal.
    pub(super) fn start(&mut self) -> Result<(Vec<DeviceRxQueue>, Vec<DeviceTxQueue>), PortError> {
        let state = |state, remedy| PortError::State { port: self.inner.name.clone(), state, remedy };
        if self.started.is_some() {
            return Err(state("started already", "stop it first"));
        }
        let Some(configuration) = &self.inner.configuration else {
            return Err(state("not configured", "configure it before it starts"));
        };
        let started = Arc::new(self.inner.start()?);
        let (id, pool) = (self.inner.id, configuration.mempool.raw().cast_const());
        let pool = configuration.fast_free.then_some(pool);
        let copied_into = self.inner.shares_with_kernel.then(|| configuration.mempool.clone());
        let receive = (0..configuration.receive_queues)
            .map(|queue| DeviceRxQueue::new(id, queue, copied_into.clone(), Arc::clone(&started)));
        let transmit = (0..configuration.transmit_queues)
            .map(|queue| DeviceTxQueue::new(id, queue, pool, Arc::clone(&started)));
        let queues = (receive.collect(), transmit.collect());
        self.started = Some(started);
        Ok(queues)
    }

    /// Stops the port. Without effect on one that does not run.
    ///
    /// # Errors
    /// [`PortError::QueuesInUse`] while a queue of it exists.
    pub(super) fn stop(&mut self) -> Result<(), PortError> {
        match self.started.take().map(Arc::try_unwrap) {
            None | Some(Ok(_)) => Ok(()),
            Some(Err(shared)) => {
                self.started = Some(shared);
                Err(PortError::QueuesInUse(self.inner.name.clone()))
            }
        }
    }

    /// State of the link now, without waiting. That of a kernel interface is the kernel's: up, with a carrier.
    ///
    /// # Errors
    /// Only if the driver does not answer.
    pub(super) fn link(&self) -> Result<Link, PortError> {
        self.inner.link()
    }

    /// Basic counters. Never stops the workers.
    ///
    /// # Errors
    /// Only if the driver does not answer.
    pub(super) fn statistics(&self) -> Result<Statistics, PortError> {
        let mut raw = RawStatistics::default();
        // SAFETY: the port exists; `raw` lives during the call.
        match unsafe { ffi::sluice_port_statistics(self.inner.id, &raw mut raw) } {
            0 => Ok(raw.into()),
            error => Err(self.inner.driver_error("tell its statistics", error)),
        }
    }

    /// All counters that the driver has, by name.
    ///
    /// # Errors
    /// Only if the driver does not answer.
    pub(super) fn extended_statistics(&self) -> Result<Vec<ExtendedStatistic>, PortError> {
        let failed = |error| self.inner.driver_error("tell its extended statistics", error);
        // SAFETY: the port exists.
        let count = unsafe { ffi::sluice_port_extended_count(self.inner.id) };
        let count = u32::try_from(count).map_err(|_| failed(count))?;
        let mut names = vec![RawExtendedName { name: [0; 64] }; count as usize];
        let mut values = vec![RawExtendedValue { id: 0, value: 0 }; count as usize];
        // SAFETY: the port exists; both arrays have `count` elements.
        let filled = unsafe {
            ffi::sluice_port_extended(self.inner.id, values.as_mut_ptr(), names.as_mut_ptr(), count)
        };
        let filled = usize::try_from(filled).map_err(|_| failed(filled))?.min(count as usize);
        let named = |value: &RawExtendedValue| {
            let name = &names.get(usize::try_from(value.id).ok()?)?.name;
            let text = name.split(|byte| *byte == 0).next()?;
            Some(ExtendedStatistic { name: String::from_utf8_lossy(text).into_owned(), value: value.value })
        };
        Ok(values[..filled].iter().filter_map(named).collect())
    }

    fn raw_info(&self) -> Result<RawPortInfo, PortError> {
        let mut raw = MaybeUninit::<RawPortInfo>::zeroed();
        // SAFETY: the port exists; the shim fills the structure, all of whose bit patterns are valid.
        unsafe {
            match ffi::sluice_port_information(self.inner.id, raw.as_mut_ptr()) {
                0 => Ok(raw.assume_init()),
                error => Err(self.inner.driver_error("say what it can do", error)),
            }
        }
    }
}

impl Inner {
    fn start(self: &Arc<Self>) -> Result<Started, PortError> {
        log::forget();
        // SAFETY: the port exists and is configured.
        match unsafe { ffi::sluice_port_start(self.id) } {
            0 => Ok(Started { inner: Arc::clone(self) }),
            error => Err(self.driver_error("start", error)),
        }
    }

    fn link(&self) -> Result<Link, PortError> {
        let mut raw = RawLink::default();
        // SAFETY: the port exists; `raw` lives during the call.
        match unsafe { ffi::sluice_port_link(self.id, &raw mut raw) } {
            0 => {
                let link = Link::from(raw);
                let limited = |index| link.limited_by(ffi::sluice_interface_running(index));
                Ok(self.interface.map_or(link, limited))
            }
            error => Err(self.driver_error("tell its link state", error)),
        }
    }

    fn driver_error(&self, action: &'static str, errno: i32) -> PortError {
        PortError::Driver { port: self.name.clone(), action, reason: log::explain(errno) }
    }
}

/// Adds a device to the EAL; otherwise why that failed.
fn add_device(_: &Eal, bus: &CString, device: &CString, arguments: &CString) -> Result<(), String> {
    log::forget();
    // SAFETY: the EAL runs, since there is a handle to it; the texts live during the call.
    match unsafe { ffi::sluice_device_add(bus.as_ptr(), device.as_ptr(), arguments.as_ptr()) } {
        0 => Ok(()),
        error => Err(log::explain(error)),
    }
}

fn port_by_name(device: &CString) -> Option<u16> {
    let mut id = 0;
    // SAFETY: both live during the call, which only looks the name up.
    (unsafe { ffi::sluice_port_by_name(device.as_ptr(), &raw mut id) } == 0).then_some(id)
}

/// The largest MTU that the driver takes, as rte_ethdev itself derives it from the longest frame.
fn largest_mtu(info: &RawPortInfo) -> u16 {
    let stated = u32::from(info.max_mtu);
    let overhead = match info.max_receive_frame.checked_sub(stated) {
        Some(overhead) if info.max_mtu != u16::MAX => overhead,
        _ => 18,
    };
    stated.min(info.max_receive_frame.saturating_sub(overhead)).min(u32::from(u16::MAX)) as u16
}

fn raw_config(
    port: &str,
    config: &PortConfig,
    info: &RawPortInfo,
    bus: &str,
) -> Result<RawPortConfig, PortError> {
    let (receive, transmit) = (u64::from(config.receive_queues), u64::from(config.transmit_queues));
    kind::check_range(port, "the number of receive queues", receive, 1, u64::from(info.max_receive_queues))?;
    kind::check_range(
        port,
        "the number of transmit queues",
        transmit,
        1,
        u64::from(info.max_transmit_queues),
    )?;
    let largest = largest_mtu(info);
    if bus == "pci" {
        kind::check_range(
            port,
            "the MTU",
            u64::from(config.mtu),
            u64::from(info.min_mtu),
            u64::from(largest),
        )?;
    }
    let offered = |offload: u64| info.transmit_offloads & offload;
    Ok(RawPortConfig {
        transmit_offloads: if config.one_pool && offered(ffi::TX_FAST_FREE) != 0 {
            ffi::TX_FAST_FREE
        } else {
            offered(ffi::TX_MULTI_SEGMENT)
        },
        rss_functions: info.rss_functions,
        receive_queues: config.receive_queues,
        transmit_queues: config.transmit_queues,
        receive_descriptors: config.receive_descriptors,
        transmit_descriptors: config.transmit_descriptors,
        // Virtual drivers state a limit that they do not keep: their buffers are what limits a frame.
        mtu: config.mtu.min(largest),
        promiscuous: u8::from(config.promiscuous),
        reserved: 0,
    })
}

fn pci_driver_error(port: &str, kind: &PortKind) -> Option<PortError> {
    let PortKind::Pci { address } = kind else { return None };
    let bound = fs::read_link(kind::pci_folder(address).join("driver")).ok();
    let kernel_driver = bound
        .and_then(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .unwrap_or_else(|| "none".to_owned());
    Some(PortError::PciDriver { port: port.to_owned(), address: address.clone(), kernel_driver })
}

fn pci_identity(folder: &Path) -> Option<PciIdentity> {
    let number = |file: &str| {
        let text = fs::read_to_string(folder.join(file)).ok()?;
        u16::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
    };
    Some(PciIdentity { vendor: number("vendor")?, device: number("device")? })
}
