//! The logical pipeline: what is to happen to the packets of a flow.
//!
//! [`decide`] sees the flow key, the snapshot, the neighbours and, where flows are placed by load, the loads of the TEPs; nothing else, and it
//! changes nothing. The engine calls it for every flow that its cache does not know; the control thread calls it to trace a packet. The stages,
//! in order:
//!
//! ```text
//! workload port ─→ switch ──(MAC of a workload)──────────────────────────→ port or tunnel
//!                    └──(MAC of the gateway)─→ route: tier-1 ⇄ tier-0 ─┬─→ segment: port or tunnel
//! tunnel ─→ switch (as above), or from the transit segment ─→ route    ├─→ uplink interface: neighbour
//! uplink ─→ route                                                      └─→ transit: tunnel to a service router
//! ```

mod placement;
mod route;
pub(crate) mod switch;
pub(crate) mod trace;

use std::net::IpAddr;

use sluice_wire::EtherType;

use crate::drops::DropReason;
use crate::flow::{FlowKey, TUNNEL_BFD};
use crate::neighbor::{NeighborId, NeighborKey, NeighborTable};
use crate::profile::Stage;
use crate::rewrite::uses::TepAddresses;
use crate::rewrite::{Egress, Rewrite};
use crate::snapshot::segment::Addresses;
use crate::snapshot::{IngressKind, RouterId, SegmentId, Snapshot, TunnelGroupId};
use crate::tep_load::LoadsNow;
use trace::{Step, Tracer};

/// What a decision may depend on, besides the flow key.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) neighbors: &'a NeighborTable,
    /// The TEPs that the flow had so far, where it goes on without a pause: it keeps those if it was placed by load.
    pub(crate) kept: Option<TepAddresses>,
    /// The loads of TEPs, where flows may be placed by them: where the decision is remembered.
    pub(crate) loads: Option<LoadsNow<'a>>,
}

/// What is to happen to the packets of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Every packet of the flow leaves in the same way. The only decision that is cached.
    Forward(Rewrite),
    /// A copy for every receiver of the segment.
    Replicate { segment: SegmentId },
    /// The packet is for a gateway or TEP of this node.
    Deliver { router: Option<RouterId>, arrival: Addresses },
    /// An ARP packet or neighbour discovery message on a segment.
    SegmentNeighbor { segment: SegmentId },
    /// The same on an uplink: the control thread's.
    UplinkNeighbor,
    /// BFD of a tunnel that ends here: the control thread's.
    TunnelBfd,
    /// The next hop's MAC address is not known.
    Resolve(NeighborKey),
    /// Dropped, and the sender told (RFC 1812 section 4.3.3.1).
    Unreachable { reason: DropReason, router: RouterId, arrival: Addresses },
    /// The time to live ran out in this router.
    TtlExpired { router: RouterId, arrival: Addresses },
    /// Dropped.
    Drop(DropReason),
}

/// Decides a flow. `ttl`, where given, is the time to live of one packet, and the decision may be that it runs out; without it the
/// decision is for every packet that lives long enough.
pub(crate) fn decide(view: View<'_>, key: &FlowKey, ttl: Option<u8>, tracer: &mut impl Tracer) -> Decision {
    let ingress = view.snapshot.ingress(key.ingress());
    tracer.step(|| Step::Ingress(ingress.kind));
    match ingress.kind {
        IngressKind::Workload { segment, .. } | IngressKind::Tunnel { segment } => {
            switch::from_segment(view, key, ingress.kind, segment, ttl, tracer)
        }
        IngressKind::Uplink { interface, .. } => from_uplink(view, key, interface, ttl, tracer),
        IngressKind::Transit { router } => {
            if key.destination_mac().to_u64() != 0 {
                return Decision::Drop(DropReason::NotForThisNode);
            }
            if !key.is_ip() {
                return Decision::Drop(DropReason::NoService);
            }
            let arrival = view.snapshot.router(router).transit;
            // The distributed part of the same tier-0, on the sending node, has counted the hop.
            route::route(view, key, route::Start { router, arrival, first_hop_counts: false, ttl }, tracer)
        }
        IngressKind::SegmentOrigination { segment } => switch::from_gateway(view, key, segment),
        IngressKind::Origination { router } => {
            let start =
                route::Start { router, arrival: Addresses::default(), first_hop_counts: false, ttl: None };
            route::route(view, key, start, tracer)
        }
    }
}

/// The end of a way through a tunnel: where the frames go, the MTU of their packets, and the neighbour whose address is in the outer header.
struct IntoTunnel {
    egress: Egress,
    mtu: u16,
    neighbor: NeighborId,
}

/// Chooses a flow's tunnel of a group, and resolves its next hop.
fn into_tunnel(
    view: View<'_>,
    key: &FlowKey,
    group: TunnelGroupId,
    tracer: &mut impl Tracer,
) -> Result<IntoTunnel, Decision> {
    tracer.enter(Stage::Tunnel);
    let own = placement::own_tunnel(view, key, group).ok_or(Decision::Drop(DropReason::NoReceiver))?;
    let chosen = view.snapshot.usable_tunnel(own);
    let tunnel = view.snapshot.tunnel(chosen);
    let ways = view.snapshot.tunnel_group(group).tunnels().count();
    if ways > 1 {
        tracer.step(|| Step::Tunnel {
            local: tunnel.local,
            remote: tunnel.remote,
            of: ways,
            replaced: chosen != own,
        });
    }
    let resolved = view.neighbors.resolve(&tunnel.next_hop);
    tracer.step(|| Step::Neighbor { key: tunnel.next_hop, mac: resolved.map(|(_, mac)| mac) });
    let (neighbor, destination) = resolved.ok_or(Decision::Resolve(tunnel.next_hop))?;
    let egress = Egress::Tunnel { tunnel: chosen, own, destination };
    Ok(IntoTunnel { egress, mtu: tunnel.inner_mtu(), neighbor })
}

fn from_uplink(
    view: View<'_>,
    key: &FlowKey,
    interface: Option<(RouterId, u16)>,
    ttl: Option<u8>,
    tracer: &mut impl Tracer,
) -> Decision {
    if key.flags() & TUNNEL_BFD != 0 {
        return Decision::TunnelBfd;
    }
    if is_neighbor_protocol(key) {
        return Decision::UplinkNeighbor;
    }
    // A flow to this node's MAC address carries no MAC addresses in its key.
    if key.destination_mac().to_u64() != 0 {
        return Decision::Drop(DropReason::NotForThisNode);
    }
    if !key.is_ip() {
        return Decision::Drop(DropReason::NoService);
    }
    if is_tep(view.snapshot, key) {
        if route::is_martian_source(key.source()) {
            return Decision::Drop(DropReason::MartianSource);
        }
        return Decision::Deliver { router: None, arrival: Addresses::of([key.destination()]) };
    }
    let Some((router, number)) = interface else { return Decision::Drop(DropReason::NotForThisNode) };
    let arrival = view.snapshot.router(router).interfaces[usize::from(number)].source;
    route::route(view, key, route::Start { router, arrival, first_hop_counts: true, ttl }, tracer)
}

/// Whether the packet is for a TEP of this node on the uplink that it came in on.
fn is_tep(snapshot: &Snapshot, key: &FlowKey) -> bool {
    let ingress = snapshot.ingress(key.ingress());
    match key.destination() {
        IpAddr::V4(address) => ingress.teps_v4.contains(&u32::from_le_bytes(address.octets())),
        IpAddr::V6(address) => ingress.teps_v6.contains(&u128::from_le_bytes(address.octets())),
    }
}

/// ARP, or a neighbour discovery message (RFC 4861 section 4).
pub(crate) fn is_neighbor_protocol(key: &FlowKey) -> bool {
    if key.is_ip() {
        key.is_ipv6() && matches!(key.selector(), 133..=137)
    } else {
        key.selector() == EtherType::ARP.0
    }
}
