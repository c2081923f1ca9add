//! The logical routers: tier-1 and tier-0, one after the other, until the packet leaves or is dropped.

use std::net::IpAddr;

use sluice_wire::{EtherType, MacAddr};

use super::trace::{Step, Tracer};
use super::{Decision, View, into_tunnel};
use crate::drops::DropReason;
use crate::flow::FlowKey;
use crate::neighbor::NeighborKey;
use crate::profile::Stage;
use crate::rewrite::{Egress, EqualCost, Ethernet, Header, Rewrite};
use crate::snapshot::router::{Hop, HopVia, Router, Target};
use crate::snapshot::segment::{Addresses, Place};
use crate::snapshot::{NextHopId, RouterId, SegmentId, TunnelGroupId};

/// Routers that a packet passes in one node at most; tier-1, tier-0 and another tier-1 are the longest sensible way.
const MAX_ROUTERS: u8 = 4;

/// Makes the second choice of a flow independent of its first: first digits of the fractional part of the square root of 17.
const AGAIN: u64 = 0x1f83_d9ab_fb41_bd6b;

/// Where routing begins.
pub(super) struct Start {
    pub(super) router: RouterId,
    /// Addresses of the interface that the packet arrived at: the source of ICMP errors.
    pub(super) arrival: Addresses,
    /// Whether the first router takes one from the time to live.
    pub(super) first_hop_counts: bool,
    /// Time to live of the packet, if it is to be watched.
    pub(super) ttl: Option<u8>,
}

/// State of a packet on its way through the routers.
struct Way<'a> {
    view: View<'a>,
    key: &'a FlowKey,
    router: RouterId,
    arrival: Addresses,
    hops: u8,
    equal_cost: EqualCost,
}

/// Routes a packet.
pub(super) fn route(view: View<'_>, key: &FlowKey, start: Start, tracer: &mut impl Tracer) -> Decision {
    let (source, destination) = (key.source(), key.destination());
    let refused = is_martian_source(source) || is_link_local_v6(source);
    if refused
        && !matches!(
            view.snapshot.ingress(key.ingress()).kind,
            crate::snapshot::IngressKind::Origination { .. }
        )
    {
        return Decision::Drop(DropReason::MartianSource);
    }
    if is_martian_destination(destination) {
        return Decision::Drop(DropReason::MartianDestination);
    }
    let (router, arrival) = (start.router, start.arrival);
    let mut way = Way { view, key, router, arrival, hops: 0, equal_cost: EqualCost::default() };
    for passed in 0..MAX_ROUTERS {
        let router = view.snapshot.router(way.router);
        tracer.enter(if router.is_tier0 { Stage::Tier0 } else { Stage::Tier1 });
        let route = router.lookup(destination);
        tracer.step(|| Step::Route { router: way.router, arrival: way.arrival, route: route.cloned() });
        if route.is_some_and(|route| route.target == Target::Local) {
            return Decision::Deliver { router: Some(way.router), arrival: way.arrival };
        }
        // Gateways may have IPv4 link-local addresses between them; nobody else is reached by one (RFC 3927 section 7).
        let exact = route.is_some_and(|route| route.prefix.prefix_len() == route.prefix.max_prefix_len());
        if is_link_local_v4(destination) && !exact {
            return Decision::Drop(DropReason::MartianDestination);
        }
        if passed > 0 || start.first_hop_counts {
            // RFC 1812 section 5.3.1: checked before the packet is forwarded, and never for what is delivered here.
            if start.ttl.is_some_and(|ttl| ttl <= way.hops + 1) {
                return Decision::TtlExpired { router: way.router, arrival: way.arrival };
            }
            way.hops += 1;
        }
        let Some(route) = route else { return way.unreachable(DropReason::NoRoute) };
        match &route.target {
            Target::Link(link) => {
                (way.router, way.arrival) = (link.router, link.arrival);
            }
            Target::Local => {}
            Target::Blackhole => return Decision::Drop(DropReason::Blackhole),
            Target::Segment(segment) => return way.to_segment(*segment, destination, tracer),
            Target::Subnet { interface } => return way.to_interface(router, *interface, destination, tracer),
            Target::NextHops(hops) => {
                let Some(hop) = way.choose(hops, |hop| hop.next_hop, tracer) else {
                    return way.unreachable(DropReason::NoRoute);
                };
                let Hop { address, via, .. } = *hop;
                return match via {
                    HopVia::Interface(interface) => way.to_interface(router, interface, address, tracer),
                    HopVia::Segment(segment) => way.to_segment(segment, address, tracer),
                };
            }
            Target::ServiceRouters(hops) => {
                let Some(hop) = way.choose(hops, |hop| Some(hop.next_hop), tracer) else {
                    return way.unreachable(DropReason::NoRoute);
                };
                return way.to_tunnel(hop.tunnels, hop.mac, u16::MAX, tracer);
            }
        }
    }
    Decision::Drop(DropReason::RoutingLoop)
}

impl Way<'_> {
    fn unreachable(&self, reason: DropReason) -> Decision {
        Decision::Unreachable { reason, router: self.router, arrival: self.arrival }
    }

    /// One of several equal ways, by the flow's hash: all packets of a flow take the same. The flows of one that cannot be reached are spread
    /// over those that can, if there are any; the others stay where they are.
    fn choose<'a, T>(
        &mut self,
        ways: &'a [T],
        next_hop: impl Fn(&T) -> Option<NextHopId>,
        tracer: &mut impl Tracer,
    ) -> Option<&'a T> {
        if ways.len() > 1 {
            tracer.enter(Stage::EqualCost);
        }
        let (snapshot, key) = (self.view.snapshot, self.key);
        let states = snapshot.next_hops();
        let is_reachable = |way: &T| next_hop(way).is_none_or(|id| states.is_reachable(id));
        let own = key.way(snapshot.seed(), ways.len());
        let mut chosen = own;
        if !ways.get(chosen).is_some_and(is_reachable) {
            let reachable = || ways.iter().enumerate().filter(|(_, way)| is_reachable(way));
            let other = key.way(snapshot.seed() ^ AGAIN, reachable().count());
            chosen = reachable().nth(other).map_or(chosen, |(position, _)| position);
        }
        if ways.len() > 1 {
            tracer.step(|| Step::EqualCost { chosen, of: ways.len() });
        }
        let state_of = |position| ways.get(position).and_then(&next_hop);
        self.equal_cost = EqualCost { taken: state_of(chosen), own: state_of(own) };
        ways.get(chosen)
    }

    /// To the workload with `address` on a segment.
    fn to_segment(&self, id: SegmentId, address: IpAddr, tracer: &mut impl Tracer) -> Decision {
        tracer.enter(Stage::Switch);
        let segment = self.view.snapshot.segment(id);
        let Some((mac, place)) = segment.workloads.get(&address) else {
            return self.unreachable(DropReason::UnknownWorkload);
        };
        tracer.step(|| Step::Switch { segment: id, destination: *mac, place: *place });
        match *place {
            Place::Local { port, vlan } => {
                self.forward(*mac, self.gateway_mac(id), Egress::Port { port, vlan }, segment.mtu, None)
            }
            Place::Remote(tunnels) => self.to_tunnel(tunnels, *mac, segment.mtu, tracer),
            Place::Unreachable => self.unreachable(DropReason::UnknownWorkload),
        }
    }

    fn gateway_mac(&self, id: SegmentId) -> MacAddr {
        self.view.snapshot.segment(id).gateway.as_ref().map_or(MacAddr([0; 6]), |gateway| gateway.mac)
    }

    /// To a neighbour on an uplink interface.
    fn to_interface(
        &self,
        router: &Router,
        interface: u16,
        address: IpAddr,
        tracer: &mut impl Tracer,
    ) -> Decision {
        tracer.enter(Stage::Neighbor);
        let Some(interface) = router.interfaces.get(usize::from(interface)) else {
            return self.unreachable(DropReason::NoRoute);
        };
        let key = NeighborKey { port: interface.port, vlan: interface.vlan, address };
        let resolved = self.view.neighbors.resolve(&key);
        tracer.step(|| Step::Neighbor { key, mac: resolved.map(|(_, mac)| mac) });
        let Some((neighbor, mac)) = resolved else { return Decision::Resolve(key) };
        let egress = Egress::Port { port: interface.port, vlan: interface.vlan };
        self.forward(mac, interface.mac, egress, interface.mtu, Some(neighbor))
    }

    /// Through a tunnel, to the owner of `mac` on the far side.
    fn to_tunnel(&self, id: TunnelGroupId, mac: MacAddr, mtu: u16, tracer: &mut impl Tracer) -> Decision {
        let way = match into_tunnel(self.view, self.key, id, tracer) {
            Ok(way) => way,
            Err(decision) => return decision,
        };
        let source = self.view.snapshot.plan().router_mac;
        self.forward(mac, source, way.egress, mtu.min(way.mtu), Some(way.neighbor))
    }

    fn forward(
        &self,
        destination: MacAddr,
        source: MacAddr,
        egress: Egress,
        mtu: u16,
        neighbor: Option<crate::neighbor::NeighborId>,
    ) -> Decision {
        let ethertype = if self.key.is_ipv6() { EtherType::IPV6 } else { EtherType::IPV4 };
        let ethernet = Ethernet::New(Header { destination, source, ethertype, hops: self.hops });
        let equal_cost = self.equal_cost;
        Decision::Forward(Rewrite {
            ingress: self.key.ingress(),
            ethernet,
            egress,
            mtu,
            neighbor,
            equal_cost,
        })
    }
}

/// Sources that no host may use (RFC 1812 section 5.3.7, RFC 4291 section 2.5).
pub(super) fn is_martian_source(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_multicast() || v4.is_broadcast() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_multicast() || v6.is_unspecified(),
    }
}

/// Valid on its link, but never forwarded (RFC 4291 section 2.5.6).
fn is_link_local_v6(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn is_link_local_v4(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.is_link_local())
}

/// Destinations that are not routed.
fn is_martian_destination(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_multicast() || v4.is_broadcast() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => {
            v6.is_loopback() || v6.is_multicast() || v6.is_unspecified() || v6.is_unicast_link_local()
        }
    }
}
