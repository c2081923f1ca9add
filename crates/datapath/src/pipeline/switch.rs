//! The logical switch of a segment.

use sluice_wire::MacAddr;

use super::trace::{Silent, Step, Tracer};
use super::{Decision, IntoTunnel, View, into_tunnel, is_neighbor_protocol, route};
use crate::drops::DropReason;
use crate::flow::{FlowKey, PRIORITY_TAG};
use crate::profile::Stage;
use crate::rewrite::{Egress, EqualCost, Ethernet, Rewrite};
use crate::snapshot::segment::Place;
use crate::snapshot::{IngressKind, SegmentId};

/// A frame on a segment, from a workload or a tunnel.
pub(super) fn from_segment(
    view: View<'_>,
    key: &FlowKey,
    from: IngressKind,
    id: SegmentId,
    ttl: Option<u8>,
    tracer: &mut impl Tracer,
) -> Decision {
    tracer.enter(Stage::Switch);
    let segment = view.snapshot.segment(id);
    let destination = key.destination_mac();
    if key.source_mac().is_multicast() {
        return Decision::Drop(DropReason::GroupSource);
    }
    if is_reserved(destination) {
        return Decision::Drop(DropReason::ReservedAddress);
    }
    if is_neighbor_protocol(key) {
        return Decision::SegmentNeighbor { segment: id };
    }
    if let Some(gateway) = &segment.gateway
        && destination == gateway.mac
    {
        if !key.is_ip() {
            return Decision::Drop(DropReason::NoService);
        }
        if gateway.addresses.contains(&key.destination()) {
            if route::is_martian_source(key.source()) {
                return Decision::Drop(DropReason::MartianSource);
            }
            return Decision::Deliver { router: Some(gateway.router), arrival: gateway.source };
        }
        let start =
            route::Start { router: gateway.router, arrival: gateway.source, first_hop_counts: true, ttl };
        return route::route(view, key, start, tracer);
    }
    to_mac(view, key, from, id, tracer)
}

/// The addresses of protocols between neighbours on a link, spanning tree, LACP, 802.1X and LLDP among them, which no bridge forwards to
/// (IEEE 802.1Q section 8.6.3).
fn is_reserved(destination: MacAddr) -> bool {
    matches!(destination.octets(), [0x01, 0x80, 0xc2, 0x00, 0x00, 0x00..=0x0f])
}

/// A frame for a MAC address on the segment that is not the gateway's.
pub(crate) fn to_mac(
    view: View<'_>,
    key: &FlowKey,
    from: IngressKind,
    id: SegmentId,
    tracer: &mut impl Tracer,
) -> Decision {
    let destination = key.destination_mac();
    match view.snapshot.segment(id).macs.get(&destination) {
        Some(place) => {
            tracer.step(|| Step::Switch { segment: id, destination, place: *place });
            bridge(view, key, from, *place, tracer)
        }
        None if destination == MacAddr([0; 6]) => Decision::Drop(DropReason::Malformed),
        None => {
            tracer.step(|| Step::Replicate { segment: id });
            Decision::Replicate { segment: id }
        }
    }
}

/// A frame that the segment's gateway or proxy sends itself.
pub(super) fn from_gateway(view: View<'_>, key: &FlowKey, id: SegmentId) -> Decision {
    let from = IngressKind::SegmentOrigination { segment: id };
    match view.snapshot.segment(id).macs.get(&key.destination_mac()) {
        Some(place) => bridge(view, key, from, *place, &mut Silent),
        None => Decision::Drop(DropReason::NoReceiver),
    }
}

/// Forwards a frame to a place on the segment, as it is but for VLAN tags.
pub(crate) fn bridge(
    view: View<'_>,
    key: &FlowKey,
    from: IngressKind,
    place: Place,
    tracer: &mut impl Tracer,
) -> Decision {
    let tagged = match from {
        IngressKind::Workload { vlan, .. } => vlan != 0 || key.flags() & PRIORITY_TAG != 0,
        _ => false,
    };
    let rewrite = |retag: bool, egress, mtu, neighbor| {
        Decision::Forward(Rewrite {
            ingress: key.ingress(),
            ethernet: if retag { Ethernet::Retagged } else { Ethernet::Kept },
            egress,
            mtu,
            neighbor,
            equal_cost: EqualCost::default(),
        })
    };
    match place {
        Place::Local { port, vlan } => {
            if matches!(from, IngressKind::Workload { port: same, vlan: tag, .. } if (same, tag) == (port, vlan))
            {
                return Decision::Drop(DropReason::Hairpin);
            }
            rewrite(tagged || vlan != 0, Egress::Port { port, vlan }, u16::MAX, None)
        }
        Place::Remote(id) => {
            if matches!(from, IngressKind::Tunnel { .. }) {
                return Decision::Drop(DropReason::SplitHorizon);
            }
            match into_tunnel(view, key, id, tracer) {
                Ok(IntoTunnel { egress, mtu, neighbor }) => rewrite(tagged, egress, mtu, Some(neighbor)),
                Err(decision) => decision,
            }
        }
        Place::Unreachable => Decision::Drop(DropReason::NoReceiver),
    }
}
