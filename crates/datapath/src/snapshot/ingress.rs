//! Where packets enter the logical network: ports with their VLANs, tunnels by VNI, and the node itself.

use arrayvec::ArrayVec;
use hashbrown::HashMap;
use sluice_intent::plan::PortIndex;

use super::{RouterId, SegmentId};

/// Number of an [`Ingress`] in its snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IngressId(pub(crate) u32);

/// TEPs that one uplink and VLAN may carry.
pub(crate) const TEPS_PER_INGRESS: usize = 8;

/// A place where packets enter.
#[derive(Debug)]
pub(crate) struct Ingress {
    pub(crate) kind: IngressKind,
    /// Frames to this MAC address (as the low 48 bits of a word) are routed.
    pub(crate) mac: u64,
    /// Only routed frames enter: their MAC addresses take no part in the flow.
    pub(crate) layer3: bool,
    /// Local TEPs that are reached here, IPv4, wire order loaded little-endian.
    pub(crate) teps_v4: ArrayVec<u32, TEPS_PER_INGRESS>,
    /// The same for IPv6.
    pub(crate) teps_v6: ArrayVec<u128, TEPS_PER_INGRESS>,
}

/// What kind of place it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IngressKind {
    /// A local workload's port.
    Workload { segment: SegmentId, port: PortIndex, vlan: u16 },
    /// Tunnels of a segment.
    Tunnel { segment: SegmentId },
    /// Tunnels of the transit segment to the service router that runs here.
    Transit { router: RouterId },
    /// An uplink and VLAN (0: untagged), with the interface of a tier-0 on it if there is one.
    Uplink { interface: Option<(RouterId, u16)>, vlan: u16 },
    /// A segment of this node: frames that its gateway or its proxy sends itself.
    SegmentOrigination { segment: SegmentId },
    /// A gateway of this node: packets that it sends itself.
    Origination { router: RouterId },
}

/// How the frames of one port find their [`Ingress`].
#[derive(Debug, Default)]
pub(crate) struct PortIngress {
    pub(crate) untagged: Option<IngressId>,
    pub(crate) tagged: HashMap<u16, IngressId, foldhash::fast::RandomState>,
}
