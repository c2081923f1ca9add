//! Next hops that a route of several can do without: service routers on other nodes, and neighbours that BFD watches.
//!
//! A route of equal-cost next hops leaves out those that cannot be reached, as long as there are others: only their flows go elsewhere. Which
//! can be reached says [`NextHopStates`], which belongs to the snapshot. When one changes, the flows that it takes from or gives back to are
//! decided again: those of a next hop that is lost, and its own when it returns.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sluice_wire::MacAddr;

use crate::neighbor::NeighborKey;

/// Number of a next hop whose state is known, in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHopId(pub(crate) u32);

/// A neighbour on an interface of a tier-0 that single-hop BFD watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfdNeighbor {
    /// Its state as a next hop.
    pub next_hop: NextHopId,
    /// The neighbour.
    pub neighbor: NeighborKey,
    /// The node's address on the same link.
    pub local: IpAddr,
    /// The node's MAC address there.
    pub source_mac: MacAddr,
    /// Milliseconds between two packets, in both directions.
    pub interval_ms: u16,
    /// Packets in a row that may be missing.
    pub multiplier: u8,
}

/// Which next hops can be reached: written by the control thread, read by every worker.
#[derive(Debug, Default)]
pub(crate) struct NextHopStates {
    /// Counts the changes.
    version: AtomicU32,
    unreachable: Box<[AtomicBool]>,
}

impl NextHopStates {
    /// All of so many reachable.
    pub(crate) fn new(count: usize) -> Self {
        Self { version: AtomicU32::new(0), unreachable: (0..count).map(|_| AtomicBool::new(false)).collect() }
    }

    /// Says whether one can be reached, and returns whether that is news.
    pub(crate) fn set(&self, id: NextHopId, reachable: bool) -> bool {
        let state = self.unreachable.get(id.0 as usize);
        let changed = state.is_some_and(|state| state.swap(!reachable, Ordering::Relaxed) == reachable);
        if changed {
            self.version.fetch_add(1, Ordering::Release);
        }
        changed
    }

    /// Whether one can be reached.
    pub(crate) fn is_reachable(&self, id: NextHopId) -> bool {
        !self.unreachable.get(id.0 as usize).is_some_and(|state| state.load(Ordering::Relaxed))
    }

    /// Changes so far.
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }
}
