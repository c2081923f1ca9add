//! The snapshot: a plan compiled into the tables that packets are decided with.
//!
//! Shared by all workers, and immutable but for [`TunnelStates`] and the states of [next hops](next_hop), atomics by which the control thread says
//! which tunnels and next hops can be used. A new
//! document makes a new snapshot, which workers take before their next batch. Built by [`Snapshot::compile`] on the control thread; read by the
//! parser ([`ingress`]), the logical pipeline and the rewrite compiler.
//!
//! ```text
//! (port, VLAN) ─→ Ingress ─→ Segment ─→ Router (tier-1) ─→ Router (tier-0) ─→ interface or transit
//! (VNI, encapsulation) ─→ Ingress                                         └→ Tunnel
//! ```

mod compile;
pub(crate) mod ingress;
pub(crate) mod next_hop;
pub mod router;
pub(crate) mod segment;
pub(crate) mod table;
pub(crate) mod tunnel;

use std::sync::Arc;

use sluice_intent::plan::{Placement, Plan, PortIndex, Teaming, TepIndex};
use sluice_wire::MacAddr;

use crate::tep_load::PairTraffic;

pub use ingress::IngressId;
pub(crate) use ingress::{Ingress, IngressKind, PortIngress};
pub(crate) use next_hop::NextHopStates;
pub use next_hop::{BfdNeighbor, NextHopId};
pub use router::{Router, RouterId};
pub(crate) use segment::Segment;
pub use segment::SegmentId;
pub(crate) use table::ExactTable;
pub use tunnel::{TepPair, TepPairId, Tunnel, TunnelGroup, TunnelGroupId, TunnelId, TunnelStates};

/// What the plan does not say of a port because only its device knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// MAC address that the port answers to.
    pub mac: MacAddr,
}

/// A compiled plan; see the [module](self).
#[derive(Debug)]
pub struct Snapshot {
    plan: Arc<Plan>,
    generation: u64,
    /// Makes flow hashes differ between nodes, so that a cascade of nodes does not choose in step.
    seed: u64,
    ports: Vec<PortIngress>,
    ingresses: Vec<Ingress>,
    /// Ingress of each (VNI, encapsulation), by [`tunnel::vni_key`].
    vnis: ExactTable<u32>,
    remote_teps_v4: ExactTable<()>,
    remote_teps_v6: hashbrown::HashSet<u128, foldhash::fast::RandomState>,
    segments: Vec<Segment>,
    routers: Vec<Router>,
    tunnels: Arc<[Tunnel]>,
    tunnel_groups: Vec<TunnelGroup>,
    tep_pairs: Vec<TepPair>,
    tunnel_states: TunnelStates,
    /// What was sent between each pair; of no pair where no flow is placed by load.
    pair_traffic: PairTraffic,
    next_hops: NextHopStates,
    /// Service routers on other nodes, and the tunnels to each.
    service_routers: Vec<(NextHopId, TunnelGroupId)>,
    bfd_neighbors: Vec<BfdNeighbor>,
    /// The ingress of packets that each router originates, in the order of the routers.
    originations: Vec<IngressId>,
    /// The ingress of frames that each segment's proxy originates, in the order of the segments.
    segment_originations: Vec<IngressId>,
}

impl Snapshot {
    /// The plan that it was compiled from.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The same, to share.
    pub fn plan_arc(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Number of this snapshot; a later one has a greater number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Seed of the flow hashes.
    #[inline]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    #[inline]
    pub(crate) fn port(&self, port: PortIndex) -> Option<&PortIngress> {
        self.ports.get(port.index())
    }

    /// Ids are made by the compiler of the same snapshot, so they index its tables.
    #[inline]
    pub(crate) fn ingress(&self, id: IngressId) -> &Ingress {
        &self.ingresses[id.0 as usize]
    }

    pub(crate) fn ingresses(&self) -> impl Iterator<Item = (IngressId, &Ingress)> {
        self.ingresses.iter().enumerate().map(|(position, ingress)| (IngressId(position as u32), ingress))
    }

    #[inline(always)]
    pub(crate) fn tunnel_ingress(&self, key: u32) -> Option<IngressId> {
        self.vnis.get(key).map(IngressId)
    }

    /// Whether an IPv4 address (wire order, loaded little-endian) is the TEP of another node.
    #[inline(always)]
    pub(crate) fn is_remote_tep_v4(&self, address: u32) -> bool {
        self.remote_teps_v4.get(address).is_some()
    }

    /// Whether an IPv6 address (wire order, loaded little-endian) is the TEP of another node.
    pub(crate) fn is_remote_tep_v6(&self, address: u128) -> bool {
        self.remote_teps_v6.contains(&address)
    }

    pub(crate) fn segment(&self, id: SegmentId) -> &Segment {
        &self.segments[id.0 as usize]
    }

    pub(crate) fn router(&self, id: RouterId) -> &Router {
        &self.routers[id.0 as usize]
    }

    /// Logical gateways, in the plan's order.
    pub fn routers(&self) -> &[Router] {
        &self.routers
    }

    /// A tunnel of [`Self::tunnels`].
    pub fn tunnel(&self, id: TunnelId) -> &Tunnel {
        &self.tunnels[id.0 as usize]
    }

    /// The ways to one remote node over one segment.
    pub fn tunnel_group(&self, id: TunnelGroupId) -> &TunnelGroup {
        &self.tunnel_groups[id.0 as usize]
    }

    /// Pairs of a local and a remote TEP with tunnels between them.
    pub fn tep_pairs(&self) -> &[TepPair] {
        &self.tep_pairs
    }

    /// Which tunnels are usable: all of them, until somebody says otherwise.
    pub fn tunnel_states(&self) -> &TunnelStates {
        &self.tunnel_states
    }

    /// Says whether a local TEP can be used. Workers see it at their next batch.
    pub fn set_tep(&self, tep: TepIndex, usable: bool) {
        if self.tunnel_states.set_tep(tep, usable) {
            self.follow_service_routers();
            self.tunnel_states.announce();
        }
    }

    /// Says whether a remote TEP can be reached from a local one. Workers see it at their next batch.
    pub fn set_pair(&self, pair: TepPairId, usable: bool) {
        self.set_reachable(&[(pair, usable)], &[]);
    }

    /// A service router is reached while one of the tunnels to it is usable.
    fn follow_service_routers(&self) {
        for (next_hop, group) in &self.service_routers {
            let mut tunnels = self.tunnel_group(*group).tunnels();
            self.next_hops.set(*next_hop, tunnels.any(|id| self.tunnel_states.is_usable(self.tunnel(id))));
        }
    }

    /// Says whether a next hop can be reached. Workers see it at their next batch.
    pub fn set_next_hop(&self, next_hop: NextHopId, reachable: bool) {
        self.set_reachable(&[], &[(next_hop, reachable)]);
    }

    /// Says of many pairs and next hops whether they can be reached. Workers see it at their next batch, and go through what they have for it
    /// once; not at all where only pairs changed whose local TEP is not used in any case.
    pub fn set_reachable(&self, pairs: &[(TepPairId, bool)], next_hops: &[(NextHopId, bool)]) {
        let mut news = false;
        for (pair, usable) in pairs {
            let matters = self
                .tep_pairs
                .get(pair.index())
                .is_some_and(|pair| self.tunnel_states.is_tep_usable(pair.tep));
            news |= self.tunnel_states.set_pair(*pair, *usable) && matters;
        }
        if news {
            self.follow_service_routers();
        }
        for (next_hop, reachable) in next_hops {
            news |= self.next_hops.set(*next_hop, *reachable);
        }
        if news {
            self.tunnel_states.announce();
        }
    }

    /// Neighbours on interfaces that BFD watches.
    pub fn bfd_neighbors(&self) -> &[BfdNeighbor] {
        &self.bfd_neighbors
    }

    /// Which next hops can be reached: all of them, until somebody says otherwise.
    pub(crate) fn next_hops(&self) -> &NextHopStates {
        &self.next_hops
    }

    /// The tunnel in the place of one that a flow has for its own: that one while it is usable, otherwise another of its group, in failover
    /// order one from the first local TEP with any. Without any that is usable, the flow stays where it is.
    pub(crate) fn usable_tunnel(&self, own: TunnelId) -> TunnelId {
        let (tunnel, states) = (self.tunnel(own), &self.tunnel_states);
        if states.is_usable(tunnel) {
            return own;
        }
        let group = self.tunnel_group(tunnel.group);
        let is_usable = |id: &TunnelId| states.is_usable(self.tunnel(*id));
        let first = match group.teaming {
            Teaming::FailoverOrder => group.tunnels().find(is_usable).map(|id| self.tunnel(id).tep),
            _ => None,
        };
        let fits = |id: &TunnelId| first.is_none_or(|tep| self.tunnel(*id).tep == tep);
        let usable = || group.tunnels().filter(|id| is_usable(id) && fits(id));
        let position = group.tunnels().position(|id| id == own).unwrap_or_default();
        // The flows of a tunnel that failed are few or many: those of different ones go different ways.
        usable().nth(position.checked_rem(usable().count()).unwrap_or_default()).unwrap_or(own)
    }

    /// What was sent between each of the pairs.
    pub(crate) fn pair_traffic(&self) -> &PairTraffic {
        &self.pair_traffic
    }

    /// Tunnels to the TEPs of other nodes: for each segment, one for each pair of TEPs that its flows may take.
    pub fn tunnels(&self) -> &[Tunnel] {
        &self.tunnels
    }

    /// The same, to share.
    pub(crate) fn tunnels_arc(&self) -> &Arc<[Tunnel]> {
        &self.tunnels
    }

    /// Whether flows of a tunnel's group take one of several tunnels by the loads of TEPs.
    pub(crate) fn is_placed_by_load(&self, tunnel: TunnelId) -> bool {
        let group = self.tunnel_group(self.tunnel(tunnel).group);
        group.teaming == Teaming::Group(Placement::LoadAware) && group.tunnels().nth(1).is_some()
    }

    /// The ingress of packets that the router itself sends; none if another snapshot had more routers.
    pub(crate) fn origination(&self, router: RouterId) -> Option<IngressId> {
        self.originations.get(router.0 as usize).copied()
    }

    /// The ingress of frames that the segment's proxy sends.
    pub(crate) fn segment_origination(&self, segment: SegmentId) -> IngressId {
        self.segment_originations[segment.0 as usize]
    }
}
