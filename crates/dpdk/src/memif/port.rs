//! A memif port, as [`crate::Port`] uses it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;

use super::attachment::{Counters, SharedStatus, Status, channel};
use super::control::{Control, Registration};
use super::conversation::MOST_RINGS;
use super::layout::Demand;
use super::ring::MOST_SLOTS_LOG2;
use super::{Receiver, Transmitter};
use crate::port::config::FRAME_OVERHEAD;
use crate::port::kind::check_range;
use crate::{
    Eal, ExtendedStatistic, Link, MemifRole, MemifSettings, MemoryBacking, PortConfig, PortError, PortInfo,
    Statistics,
};

/// Longest path of a Unix socket, without its zero byte.
const LONGEST_PATH: usize = 107;

/// A shared-memory port.
#[derive(Debug)]
pub(crate) struct MemifPort {
    name: String,
    settings: MemifSettings,
    mac: [u8; 6],
    control: Arc<Control>,
    status: SharedStatus,
    config: Option<PortConfig>,
    receive: Vec<Arc<Counters>>,
    transmit: Vec<Arc<Counters>>,
    _eal: Eal,
}

/// A port that runs. Stops it when dropped: the port and each of its queues hold it.
#[derive(Debug)]
pub(crate) struct Running {
    control: Arc<Control>,
    number: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.unregister(self.number);
    }
}

impl MemifPort {
    /// A port that does nothing yet.
    ///
    /// # Errors
    /// Numbers out of range, paths that cannot be sockets, and a server that is to lend memory.
    pub(crate) fn new(eal: &Eal, name: &str, settings: &MemifSettings) -> Result<Self, PortError> {
        let port = || name.to_owned();
        let slots = u64::from(settings.ring_size_log2);
        check_range(name, "the ring size (log2)", slots, 1, MOST_SLOTS_LOG2.into())?;
        check_range(name, "the buffer size", settings.buffer_bytes.into(), 64, 65_535)?;
        let length = settings.socket.as_os_str().len();
        if length == 0 || length > LONGEST_PATH {
            let value = settings.socket.display().to_string();
            return Err(PortError::Setting { port: port(), setting: "the socket", value });
        }
        match settings.socket.parent() {
            Some(folder) if folder == Path::new("") || folder.is_dir() => {}
            _ => return Err(PortError::NoFolder { port: port(), path: settings.socket.clone() }),
        }
        if settings.zero_copy {
            let reason = if settings.role == MemifRole::Server {
                Some("only the client side of a memif can, which owns the memory")
            } else if eal.memory_backing() == MemoryBacking::OrdinaryPages {
                Some("packet memory is in ordinary pages: start with huge pages, or let the port copy")
            } else {
                None
            };
            if let Some(reason) = reason {
                return Err(PortError::ZeroCopy { port: port(), reason });
            }
        }
        let control = Control::start(eal.cores()).map_err(|error| PortError::Driver {
            port: port(),
            action: "start its control thread",
            reason: error.to_string(),
        })?;
        Ok(Self {
            name: port(),
            settings: settings.clone(),
            mac: random_mac(),
            status: Arc::new(Status::new(control.wake())),
            control,
            config: None,
            receive: Vec::new(),
            transmit: Vec::new(),
            _eal: eal.clone(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn info(&self) -> PortInfo {
        let max_mtu = u16::MAX - FRAME_OVERHEAD;
        PortInfo {
            driver: "memif".to_owned(),
            device: format!("{} id {}", self.settings.socket.display(), self.settings.id),
            mac: self.mac,
            numa_node: None,
            pci: None,
            max_receive_queues: MOST_RINGS,
            max_transmit_queues: MOST_RINGS,
            mtu: self.config.as_ref().map_or(1500, |config| config.mtu),
            min_mtu: 68,
            max_mtu,
            max_frame: u32::from(u16::MAX),
            receive_offloads: 0,
            transmit_offloads: 0,
            rss_functions: 0,
        }
    }

    /// Sets the port up. It does not run.
    ///
    /// # Errors
    /// Numbers out of range.
    pub(crate) fn configure(&mut self, config: &PortConfig) -> Result<(), PortError> {
        let rings = u64::from(MOST_RINGS);
        check_range(&self.name, "the number of receive queues", config.receive_queues.into(), 1, rings)?;
        check_range(&self.name, "the number of transmit queues", config.transmit_queues.into(), 1, rings)?;
        self.receive = (0..config.receive_queues).map(|_| Arc::default()).collect();
        self.transmit = (0..config.transmit_queues).map(|_| Arc::default()).collect();
        self.config = Some(config.clone());
        Ok(())
    }

    /// Starts to listen or to connect; the queues have nothing until a peer is there.
    ///
    /// # Errors
    /// A port that is not configured, and a socket that cannot be made.
    pub(crate) fn start(&self) -> Result<(Running, Vec<Receiver>, Vec<Transmitter>), PortError> {
        let Some(config) = &self.config else {
            let (port, remedy) = (self.name.clone(), "configure it before it starts");
            return Err(PortError::State { port, state: "not configured", remedy });
        };
        let MemifSettings { socket, id, role, zero_copy, ring_size_log2, buffer_bytes } =
            self.settings.clone();
        let (to_receivers, receivers) = self
            .receive
            .iter()
            .map(|counters| {
                let (there, here) = channel();
                (
                    there,
                    Receiver::new(here, config.mempool.clone(), Arc::clone(counters), self.status.clone()),
                )
            })
            .unzip();
        let (to_transmitters, transmitters) = self
            .transmit
            .iter()
            .map(|counters| {
                let (there, here) = channel();
                (there, Transmitter::new(here, Arc::clone(counters), self.status.clone()))
            })
            .unzip();
        let number = self.control.register(Registration {
            name: self.name.clone(),
            socket: socket.clone(),
            id,
            role,
            zero_copy,
            demand: Demand {
                to_server: config.transmit_queues,
                to_client: config.receive_queues,
                size_log2: ring_size_log2,
                buffer_bytes,
            },
            receive: to_receivers,
            transmit: to_transmitters,
            status: self.status.clone(),
            _pool: config.mempool.clone(),
        });
        let number = number.map_err(|errno| self.listen_error(errno))?;
        Ok((Running { control: Arc::clone(&self.control), number }, receivers, transmitters))
    }

    fn listen_error(&self, errno: Errno) -> PortError {
        let socket = self.settings.socket.display();
        let reason = match errno {
            Errno::EADDRINUSE => {
                format!("{socket} is in use: end the program that listens there, or choose another path")
            }
            Errno::EEXIST => {
                format!(
                    "another port of this process has id {} at {socket}: give each its own",
                    self.settings.id
                )
            }
            errno => format!("{socket} cannot be made ({errno}): choose a folder that may be written"),
        };
        PortError::Driver { port: self.name.clone(), action: "start", reason }
    }

    pub(crate) fn link(&self) -> Link {
        Link { up: self.status.is_up(), megabits_per_second: None, full_duplex: true, gone: false }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let sum = |counters: &[Arc<Counters>], of: fn(&Counters) -> u64| {
            counters.iter().map(|counters| of(counters)).sum()
        };
        Statistics {
            received_packets: sum(&self.receive, |counters| counters.packets.get()),
            transmitted_packets: sum(&self.transmit, |counters| counters.packets.get()),
            received_bytes: sum(&self.receive, |counters| counters.bytes.get()),
            transmitted_bytes: sum(&self.transmit, |counters| counters.bytes.get()),
            missed_packets: 0,
            receive_errors: sum(&self.receive, |counters| counters.errors.get()),
            transmit_errors: sum(&self.transmit, |counters| counters.errors.get()),
            no_mbuf: sum(&self.receive, |counters| counters.no_mbuf.get()),
        }
    }

    pub(crate) fn extended_statistics(&self) -> Vec<ExtendedStatistic> {
        let of = |direction: &str, queue: usize, counters: &Counters| {
            [
                ("packets", counters.packets.get()),
                ("bytes", counters.bytes.get()),
                ("errors", counters.errors.get()),
            ]
            .map(|(what, value)| ExtendedStatistic { name: format!("{direction}_q{queue}_{what}"), value })
        };
        let receive = self.receive.iter().enumerate().flat_map(|(queue, counters)| of("rx", queue, counters));
        let transmit =
            self.transmit.iter().enumerate().flat_map(|(queue, counters)| of("tx", queue, counters));
        receive.chain(transmit).collect()
    }
}

/// A locally administered unicast address, another one each time.
fn random_mac() -> [u8; 6] {
    let random = RandomState::new().hash_one(0).to_ne_bytes();
    [random[0] & !1 | 2, random[1], random[2], random[3], random[4], random[5]]
}
