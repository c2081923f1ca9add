//! What the control thread and a worker send each other.

use std::sync::Arc;

use rtrb::Producer;
use sluice_datapath::counters::LogicalCounters;
use sluice_datapath::neighbor::NeighborTable;
use sluice_datapath::punt::{Entry, Punt};
use sluice_datapath::snapshot::Snapshot;
use sluice_dpdk::Mbuf;
use sluice_intent::plan::PortIndex;

/// From the control thread to a worker, in effect before the worker's next batch.
pub(crate) enum Command {
    /// Decide with this snapshot.
    Install { snapshot: Arc<Snapshot>, logical: Arc<LogicalCounters> },
    /// Resolve with these neighbours.
    Neighbors(Arc<NeighborTable>),
    /// Turn the flow cache on or off.
    EnableFlowCache(bool),
    /// Process a packet as if it had come in there.
    Inject { entry: Entry, packet: Mbuf },
    /// Send a frame as it is.
    Transmit { port: PortIndex, packet: Mbuf },
    /// Copy frames to the control thread, or stop doing so.
    Capture(Option<Capture>),
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

/// A packet for the control thread.
pub(crate) struct Punted {
    pub(crate) punt: Punt,
    pub(crate) packet: Mbuf,
}

/// What a worker no longer uses, to be freed by the control thread.
pub(crate) enum Retired {
    /// A snapshot and its counters, which are final now.
    Snapshot { snapshot: Arc<Snapshot>, logical: Arc<LogicalCounters> },
    /// A table of neighbours.
    Neighbors(#[expect(dead_code, reason = "only dropped")] Arc<NeighborTable>),
    /// A capture that was replaced.
    Capture(#[expect(dead_code, reason = "only dropped")] Option<Capture>),
}
