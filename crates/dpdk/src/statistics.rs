//! Counters and link state of a port, as plain values.

use crate::ffi::{RawLink, RawStatistics};

/// Basic counters of a port since it was created or reset. Not every driver counts everything; what it does not count is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Packets received.
    pub received_packets: u64,
    /// Packets sent.
    pub transmitted_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub transmitted_bytes: u64,
    /// Packets that the device dropped because no receive descriptor was free.
    pub missed_packets: u64,
    /// Packets that arrived damaged.
    pub receive_errors: u64,
    /// Packets that could not be sent.
    pub transmit_errors: u64,
    /// Packets that were lost because the memory pool was empty.
    pub no_mbuf: u64,
}

impl From<RawStatistics> for Statistics {
    fn from(raw: RawStatistics) -> Self {
        Self {
            received_packets: raw.received_packets,
            transmitted_packets: raw.transmitted_packets,
            received_bytes: raw.received_bytes,
            transmitted_bytes: raw.transmitted_bytes,
            missed_packets: raw.missed,
            receive_errors: raw.receive_errors,
            transmit_errors: raw.transmit_errors,
            no_mbuf: raw.no_mbuf,
        }
    }
}

/// One counter of a port that only its driver has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedStatistic {
    /// DPDK's name, such as `rx_q0_packets`.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// State of a port's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Whether packets can pass.
    pub up: bool,
    /// Speed, Mb/s; `None` where the driver does not know.
    pub megabits_per_second: Option<u32>,
    /// Whether both directions pass at once.
    pub full_duplex: bool,
    /// Whether the kernel's interface that the port was made on is gone. One of its name that comes later is another one: the port has
    /// to be made anew.
    pub gone: bool,
}

impl Link {
    /// The link of a port on a kernel interface. `running` is what the shim says of the interface: 1 or 0, or a negative errno. The
    /// drivers themselves call a link up for as long as the port runs.
    pub(crate) fn limited_by(self, running: i32) -> Self {
        let gone = nix::errno::Errno::from_raw(-running) == nix::errno::Errno::ENODEV;
        Self { up: self.up && running > 0, gone, ..self }
    }
}

impl From<RawLink> for Link {
    fn from(raw: RawLink) -> Self {
        let known = raw.megabits_per_second != 0 && raw.megabits_per_second != u32::MAX;
        Self {
            up: raw.up != 0,
            megabits_per_second: known.then_some(raw.megabits_per_second),
            full_duplex: raw.full_duplex != 0,
            gone: false,
        }
    }
}
