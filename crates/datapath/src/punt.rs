//! What the data path hands to the control thread.
//!
//! A punted packet is unchanged: the control thread sees the frame as it came in, and may feed it to the engine again once it
//! has done its part (resolved a next hop, for instance).

use sluice_intent::plan::{GatewayIndex, PortIndex};

use crate::neighbor::NeighborKey;

/// A packet's way to the control thread: what kind it is and where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Punt {
    /// What the control thread is to do with it.
    pub kind: PuntKind,
    /// Where it entered the engine.
    pub entry: Entry,
}

/// Where a packet entered the engine, and is fed in again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A port.
    Port(PortIndex),
    /// A gateway of this node, which made it.
    Gateway(GatewayIndex),
}

/// What the control thread is to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PuntKind {
    /// An ARP packet on an uplink.
    Arp,
    /// A neighbour discovery packet on an uplink.
    NeighborDiscovery,
    /// A BFD packet of a tunnel that ends here, from a TEP that the node knows, or of a neighbour on an interface that is watched.
    Bfd,
    /// An LACPDU or a marker on a link of a LAG. Told by whoever polls the ports, before the engine sees the frame; its entry is the link.
    SlowProtocols,
    /// A packet whose next hop has no known MAC address: resolve it, then feed the packet in again.
    Resolve(NeighborKey),
}

impl PuntKind {
    /// Number of kinds.
    pub const COUNT: usize = 5;
    /// Names of the kinds, in the order of [`PuntKind::index`].
    pub const NAMES: [&'static str; Self::COUNT] =
        ["arp", "neighbor-discovery", "resolve", "bfd", "slow-protocols"];

    /// Position of the kind among the counters and rate limits.
    pub const fn index(self) -> usize {
        match self {
            Self::Arp => 0,
            Self::NeighborDiscovery => 1,
            Self::Resolve(_) => 2,
            Self::Bfd => 3,
            Self::SlowProtocols => 4,
        }
    }
}
