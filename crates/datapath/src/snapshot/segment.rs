//! Segments: the logical switches.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hashbrown::HashMap;
use sluice_intent::plan::PortIndex;
use sluice_wire::MacAddr;

use super::{RouterId, TunnelGroupId};

/// Number of a [`Segment`] in its snapshot: the plan's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentId(pub(crate) u16);

impl SegmentId {
    /// Position of the segment in the plan.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One address of each family, where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) v4: Option<Ipv4Addr>,
    pub(crate) v6: Option<Ipv6Addr>,
}

impl Addresses {
    /// The first address of each family.
    pub(crate) fn of(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut all = Self::default();
        for address in addresses {
            match address {
                IpAddr::V4(v4) => all.v4 = all.v4.or(Some(v4)),
                IpAddr::V6(v6) => all.v6 = all.v6.or(Some(v6)),
            }
        }
        all
    }

    /// The address of the same family as `other`.
    pub(crate) fn of_family(&self, other: IpAddr) -> Option<IpAddr> {
        if other.is_ipv4() { self.v4.map(IpAddr::V4) } else { self.v6.map(IpAddr::V6) }
    }
}

/// A logical switch as this node sees it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) name: String,
    /// Largest layer-3 packet of its workloads in bytes.
    pub(crate) mtu: u16,
    pub(crate) macs: HashMap<MacAddr, Place, foldhash::fast::RandomState>,
    pub(crate) workloads: HashMap<IpAddr, (MacAddr, Place), foldhash::fast::RandomState>,
    /// Local ports, each once: receivers of replicated frames.
    pub(crate) local: Vec<(PortIndex, u16)>,
    /// Other nodes that replicated frames are sent to.
    pub(crate) replication: Vec<TunnelGroupId>,
    /// The gateway and its presence on the segment.
    pub(crate) gateway: Option<SegmentGateway>,
}

/// A gateway's presence on a segment.
#[derive(Debug)]
pub(crate) struct SegmentGateway {
    pub(crate) router: RouterId,
    pub(crate) mac: MacAddr,
    /// All its addresses there, the IPv6 link-local one included.
    pub(crate) addresses: Vec<IpAddr>,
    /// The source of its ICMP errors.
    pub(crate) source: Addresses,
    /// Whether it answers ARP and neighbour solicitations that come through a tunnel: on edges, whose peers may have no
    /// distributed router of their own.
    pub(crate) answers_tunnels: bool,
}

/// Where a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a port of this node; VLAN 0: untagged.
    Local { port: PortIndex, vlan: u16 },
    /// Behind one of these tunnels.
    Remote(TunnelGroupId),
    /// Behind a TEP that no local TEP can reach.
    Unreachable,
}
