//! Ports: created and removed while the process runs, configured, started and stopped by the control thread.
//!
//! ```text
//!   Port::new ─▶ configure ─▶ start ─▶ Queues to the workers ─▶ (workers drop them) ─▶ stop ─▶ configure or start again
//!                                                                                        └──▶ drop: device removed
//! ```
//!
//! A port is a device of DPDK's ([`device`]) or shared memory, whose driver is our own ([`crate::memif`]). Either is stopped by whoever
//! is last to drop what belongs to it, the port or a queue.

pub(crate) mod config;
mod device;
mod kernel_memory;
pub(crate) mod kind;

use std::sync::Arc;

pub use config::{PciIdentity, PortConfig, PortInfo};
pub(crate) use device::Started;
pub use kind::{MemifRole, MemifSettings, PortKind};

use crate::memif::{MemifPort, Running};
use crate::{Eal, ExtendedStatistic, Link, PortError, RxQueue, Statistics, TxQueue};
use device::DevicePort;
use kind::Driver;

/// The queues of a started port. Each goes to the worker that polls it.
#[derive(Debug)]
pub struct Queues {
    /// Receive queues, in order.
    pub receive: Vec<RxQueue>,
    /// Transmit queues, in order.
    pub transmit: Vec<TxQueue>,
}

/// A network port. Dropping it stops, closes and removes the device once its queues are gone too.
#[derive(Debug)]
pub struct Port(Backend);

#[derive(Debug)]
enum Backend {
    Device(DevicePort),
    Memif { running: Option<Arc<Running>>, port: Box<MemifPort> },
}

impl Port {
    /// Creates a port, or takes over a PCI device. `name` is its name in messages and in DPDK's tools.
    ///
    /// # Errors
    /// What is missing (interface, file, device, driver), names and numbers that are wrong, and the driver's own refusal.
    pub fn new(eal: &Eal, name: &str, kind: &PortKind) -> Result<Self, PortError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > 32 || !name.bytes().all(plain) {
            return Err(PortError::Name(name.to_owned()));
        }
        Ok(Self(match kind.driver(name)? {
            Driver::Device(device) => Backend::Device(DevicePort::new(eal, name, kind, device)?),
            Driver::Memif(settings) => {
                let port = Box::new(MemifPort::new(eal, name, settings)?);
                Backend::Memif { running: None, port }
            }
        }))
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        match &self.0 {
            Backend::Device(device) => device.name(),
            Backend::Memif { port, .. } => port.name(),
        }
    }

    /// DPDK's number of the port, as in [`crate::Mbuf::port`]; none for shared memory, which is no device of DPDK's.
    pub fn id(&self) -> Option<u16> {
        match &self.0 {
            Backend::Device(device) => Some(device.id()),
            Backend::Memif { .. } => None,
        }
    }

    /// What the device is and can do.
    ///
    /// # Errors
    /// Only if the driver does not answer.
    pub fn info(&self) -> Result<PortInfo, PortError> {
        match &self.0 {
            Backend::Device(device) => device.info(),
            Backend::Memif { port, .. } => Ok(port.info()),
        }
    }

    /// Sets the port up. It must be stopped; what it was configured with before is replaced.
    ///
    /// # Errors
    /// Numbers that the device cannot have, a pool whose buffers are too small for the MTU, and the driver's own refusal.
    pub fn configure(&mut self, config: &PortConfig) -> Result<(), PortError> {
        config.check_room(self.name())?;
        match &mut self.0 {
            Backend::Device(device) => device.configure(config),
            Backend::Memif { running: None, port } => port.configure(config),
            Backend::Memif { running: Some(_), port } => {
                let (port, remedy) = (port.name().to_owned(), "stop it before it is configured");
                Err(PortError::State { port, state: "started", remedy })
            }
        }
    }

    /// Starts the port and hands out its queues. Shared memory has no link yet: its client connects as soon as there is a server, and again
    /// whenever it was gone; until then its queues have nothing and take nothing.
    ///
    /// # Errors
    /// A port that is not configured or runs already, and the driver's own refusal.
    pub fn start(&mut self) -> Result<Queues, PortError> {
        match &mut self.0 {
            Backend::Device(device) => {
                let (receive, transmit) = device.start()?;
                Ok(Queues {
                    receive: receive.into_iter().map(RxQueue::of_device).collect(),
                    transmit: transmit.into_iter().map(TxQueue::of_device).collect(),
                })
            }
            Backend::Memif { running: Some(_), port } => {
                let (port, remedy) = (port.name().to_owned(), "stop it first");
                Err(PortError::State { port, state: "started already", remedy })
            }
            Backend::Memif { running, port } => {
                let (runs, receivers, transmitters) = port.start()?;
                let runs = running.insert(Arc::new(runs));
                let receivers = receivers.into_iter().zip(0..);
                let transmitters = transmitters.into_iter().zip(0..);
                Ok(Queues {
                    receive: receivers
                        .map(|(receiver, queue)| RxQueue::of_memif(queue, receiver, Arc::clone(runs)))
                        .collect(),
                    transmit: transmitters
                        .map(|(transmitter, queue)| TxQueue::of_memif(queue, transmitter, Arc::clone(runs)))
                        .collect(),
                })
            }
        }
    }

    /// Stops the port. Without effect on one that does not run.
    ///
    /// # Errors
    /// [`PortError::QueuesInUse`] while a queue of it exists.
    pub fn stop(&mut self) -> Result<(), PortError> {
        match &mut self.0 {
            Backend::Device(device) => device.stop(),
            Backend::Memif { running, port } => match running.take().map(Arc::try_unwrap) {
                None | Some(Ok(_)) => Ok(()),
                Some(Err(shared)) => {
                    *running = Some(shared);
                    Err(PortError::QueuesInUse(port.name().to_owned()))
                }
            },
        }
    }

    /// State of the link now, without waiting. That of a kernel interface is the kernel's: up, with a carrier. That of shared memory is up
    /// while a peer is connected.
    ///
    /// # Errors
    /// Only if the driver does not answer.
    pub fn link(&self) -> Result<Link, PortError> {
        match &self.0 {
            Backend::Device(device) => device.link(),
            Backend::Memif { port, .. } => Ok(port.link()),
        }
    }

    /// Basic counters. Never stops the workers.
    ///
    /// # Errors
    /// Only if the driver does not answer.
    pub fn statistics(&self) -> Result<Statistics, PortError> {
        match &self.0 {
            Backend::Device(device) => device.statistics(),
            Backend::Memif { port, .. } => Ok(port.statistics()),
        }
    }

    /// All counters that the driver has, by name.
    ///
    /// # Errors
    /// Only if the driver does not answer.
    pub fn extended_statistics(&self) -> Result<Vec<ExtendedStatistic>, PortError> {
        match &self.0 {
            Backend::Device(device) => device.extended_statistics(),
            Backend::Memif { port, .. } => Ok(port.extended_statistics()),
        }
    }
}
