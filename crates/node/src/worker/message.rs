//! What the control thread and a worker send each other.

use std::sync::Arc;

use rtrb::Producer;
use sluice_datapath::engine::Installation;
use sluice_datapath::neighbor::NeighborTable;
use sluice_datapath::punt::{Entry, Punt};
use sluice_dpdk::{Mbuf, TxQueue};
use sluice_intent::plan::PortIndex;

use super::{LogicalPorts, Profiler, Receiver};

/// From the control thread to a worker, in effect before the worker's next batch.
pub(crate) enum Command {
    /// Decide with this snapshot, whose logical ports these are.
    Install(Box<Installation>, Box<LogicalPorts>),
    /// Resolve with these neighbours.
    Neighbors(Arc<NeighborTable>),
    /// Turn the flow cache on or off.
    EnableFlowCache(bool),
    /// Attribute cycles to stages, from zero, or stop doing so.
    Profile(Option<Box<Profiler>>),
    /// Process a packet as if it had come in there.
    Inject { entry: Entry, packet: Mbuf },
    /// Send a frame as it is.
    Transmit { port: PortIndex, packet: Mbuf },
    /// Copy frames to the control thread, or stop doing so.
    Capture(Option<Capture>),
    /// Poll one more queue.
    Receive(Receiver),
    /// Send by this queue.
    SendBy { port: PortIndex, queue: TxQueue },
    /// End.
    Stop,
}

/// A running capture, at the worker's end.
pub(crate) struct Capture {
    pub(crate) port: PortIndex,
    pub(crate) received: bool,
    pub(crate) transmitted: bool,
    pub(crate) frames: Producer<Captured>,
    /// Frames that found the ring full.
    pub(crate) missed: Arc<sluice_datapath::counters::Counter>,
}

/// A copy of a frame.
pub(crate) struct Captured {
    /// Time stamp counter at the copy.
    pub(crate) cycles: u64,
    /// Length of the original in bytes.
    pub(crate) length: u32,
    pub(crate) frame: Mbuf,
}

impl Command {
    /// Whether it leaves nothing of an older command that the worker has not taken yet.
    pub(crate) fn supersedes(&self, older: &Self) -> bool {
        let alike = std::mem::discriminant(self) == std::mem::discriminant(older);
        alike
            && matches!(
                self,
                Self::Install(..)
                    | Self::Neighbors(_)
                    | Self::EnableFlowCache(_)
                    | Self::Profile(_)
                    | Self::Capture(_)
                    | Self::Stop
            )
    }
}

/// A packet for the control thread.
pub(crate) struct Punted {
    /// Generation of the snapshot that it was decided with.
    pub(crate) generation: u64,
    pub(crate) punt: Punt,
    pub(crate) packet: Mbuf,
}

/// What a worker no longer uses, to be freed by the control thread.
pub(crate) enum Retired {
    /// A snapshot and what belonged to it.
    Installation(Box<Installation>),
    /// The logical ports that belonged to it.
    LogicalPorts(#[expect(dead_code, reason = "only dropped")] Box<LogicalPorts>),
    /// A table of neighbours.
    Neighbors(#[expect(dead_code, reason = "only dropped")] Arc<NeighborTable>),
    /// A capture that was replaced.
    Capture(#[expect(dead_code, reason = "only dropped")] Option<Capture>),
    /// A profiler that was replaced or is not used any more.
    Profiler(#[expect(dead_code, reason = "only dropped")] Box<Profiler>),
}
