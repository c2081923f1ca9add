//! The ports of both sides: opened once, a queue pair of each for every core.

use std::fmt;

use anyhow::Context;
use sluice_dpdk::{
    Eal, MemifRole, MemifSettings, Mempool, MempoolConfig, Port, PortConfig, PortKind, Queues,
};
use sluice_trial::ports::PortName;

/// Packets of a burst.
pub(crate) const BURST: usize = 64;

/// Descriptors of each ring of ports that have them.
const DESCRIPTORS: u16 = 1024;
/// Room for the longest frame of a workload with every encapsulation there is.
const MTU: u16 = 1700;
/// Bytes of an AF_PACKET slot, which hold the longest frame and its header, and slots of a ring: locked memory, of which an ordinary user has
/// 8 MiB.
const SLOT: (u32, u32) = (2048, 512);
/// Buffers that an AF_XDP port shares with the kernel, a queue.
const AF_XDP_BUFFERS: u32 = 8192 + DESCRIPTORS as u32;

/// How ports are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// Which side of shared memory this process is.
    pub(crate) role: MemifRole,
    /// Whether a memif client lends its packet memory.
    pub(crate) zero_copy: bool,
    pub(crate) receive_queues: u16,
    pub(crate) transmit_queues: u16,
}

impl Opening {
    /// Opens one port as `name`, which receives into `pool`.
    pub(crate) fn open(
        &self,
        eal: &Eal,
        name: &str,
        port: &PortName,
        pool: &Mempool,
    ) -> anyhow::Result<(Port, Queues)> {
        let mut opened = Port::new(eal, name, &self.kind(port))?;
        let config = PortConfig {
            receive_queues: self.receive_queues,
            transmit_queues: self.transmit_queues,
            receive_descriptors: DESCRIPTORS,
            transmit_descriptors: DESCRIPTORS,
            mtu: MTU,
            ..PortConfig::new(pool.clone())
        };
        opened.configure(&config)?;
        let queues = opened.start()?;
        Ok((opened, queues))
    }

    fn kind(&self, port: &PortName) -> PortKind {
        let queues = self.receive_queues.max(self.transmit_queues);
        match port.clone() {
            PortName::Pci(address) => PortKind::Pci { address },
            PortName::Memif { socket, id } => {
                let zero_copy = self.zero_copy;
                PortKind::Memif(MemifSettings { zero_copy, ..MemifSettings::new(socket, id, self.role) })
            }
            PortName::AfXdp(interface) => PortKind::AfXdp { interface, queues },
            PortName::AfPacket(interface) => {
                PortKind::AfPacket { interface, queues, slot_bytes: SLOT.0, slots: SLOT.1 }
            }
            PortName::Tap(interface) => PortKind::Tap { interface },
            PortName::Vhost(socket) => PortKind::Vhost { socket, queues },
        }
    }
}

/// Whether all ports are shared memory, which copies packets and holds none.
pub(crate) fn are_shared_memory(ports: &[PortName]) -> bool {
    ports.iter().all(|port| matches!(port, PortName::Memif { .. }))
}

/// Addresses of those that are PCI devices.
pub(crate) fn pci_devices(ports: &[PortName]) -> Vec<String> {
    let address = |port: &PortName| match port {
        PortName::Pci(address) => Some(address.clone()),
        _ => None,
    };
    ports.iter().filter_map(address).collect()
}

/// Packets that the rings of `ports` can hold with so many queues, beside those under way.
pub(crate) fn buffers(ports: &[PortName], queues: u16) -> u32 {
    let rings = ports.len() as u32 * u32::from(queues) * u32::from(DESCRIPTORS);
    // DPDK uses memory best with 2ⁿ − 1.
    (rings + 4096).next_power_of_two() - 1
}

/// Packet memory that the pools of so many cores take, MiB.
pub(crate) fn memory_mebibytes(ports: &[PortName], cores: usize) -> u32 {
    let cores = cores as u32;
    let sent = if are_shared_memory(ports) { 1024 } else { buffers(ports, 1) };
    let shared_with_kernel = ports.iter().filter(|port| matches!(port, PortName::AfXdp(_))).count() as u32;
    let packets = buffers(ports, cores as u16 + 1)
        + cores * (2 * sent + 512)
        + shared_with_kernel * (cores + 1) * AF_XDP_BUFFERS;
    // 2.5 KiB a packet with all that belongs to it; as much again for rings, drivers and what pools leave unused between each other.
    (packets * 5 / 1024 + 32).max(64)
}

/// A pool for `count` packets, with a cache from which bursts are taken and to which they come back while they are still in the
/// core's cache.
pub(crate) fn pool(eal: &Eal, name: impl fmt::Display, count: u32) -> anyhow::Result<Mempool> {
    let config = MempoolConfig { count, cache: 256, ..MempoolConfig::default() };
    Mempool::new(eal, &name.to_string(), config).context("packet memory")
}
