//! The slow path: what is to be answered, replicated or refused, or is sent without the flow cache.

use sluice_intent::plan::{GatewayIndex, PortIndex};

use super::State;
use crate::buffer::{PacketBuffer, Transmit};
use crate::drops::DropReason;
use crate::parse::{self, Parsed};
use crate::pipeline::trace::{Silent, Step, Tracer};
use crate::pipeline::{Decision, decide, switch};
use crate::profile::Stage;
use crate::punt::{Entry, Punt, PuntKind};
use crate::respond::arp::Answer;
use crate::respond::{self, arp, bfd, fragment, icmp, nd};
use crate::rewrite::Rewrite;
use crate::rewrite::compiled::{Compiled, Refused};
use crate::rewrite::table::RewriteRef;
use crate::snapshot::segment::{Addresses, Place};
use crate::snapshot::{IngressKind, RouterId, SegmentId};

/// A packet on the slow path.
pub(super) struct Slow<B> {
    pub(super) entry: Entry,
    pub(super) parsed: Parsed,
    pub(super) flow_hash: u64,
    pub(super) buffer: B,
}

impl<B: PacketBuffer> Slow<B> {
    /// Time to live or hop limit of an IP packet.
    pub(super) fn ttl(&self) -> Option<u8> {
        Some(self.parsed.ttl).filter(|_| self.parsed.key.is_ip())
    }
}

impl State {
    /// Does with a packet what was decided.
    pub(super) fn carry_out<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        decision: Decision,
        slow: Slow<B>,
        io: &mut T,
    ) {
        match decision {
            Decision::Forward(rewrite) => self.forward(&rewrite, None, slow, io),
            Decision::Replicate { segment } => self.replicate(segment, slow, io),
            Decision::Deliver { router, arrival } => self.deliver(router, arrival, slow, io),
            Decision::SegmentNeighbor { segment } => self.segment_neighbor(segment, slow, io),
            Decision::UplinkNeighbor => {
                let kind = if slow.parsed.key.is_ip() { PuntKind::NeighborDiscovery } else { PuntKind::Arp };
                self.punt(kind, slow, io);
            }
            Decision::TunnelBfd => self.punt(PuntKind::Bfd, slow, io),
            Decision::Resolve(key) => self.punt(PuntKind::Resolve(key), slow, io),
            Decision::Unreachable { reason, router, arrival } => {
                let error = icmp::Error::unreachable(reason);
                self.answer_error(error, reason, router, arrival, slow, io);
            }
            Decision::TtlExpired { router, arrival } => {
                self.answer_error(
                    icmp::Error::TimeExceeded,
                    DropReason::TtlExpired,
                    router,
                    arrival,
                    slow,
                    io,
                );
            }
            Decision::Drop(reason) => self.discard(reason, slow.buffer, io),
        }
    }

    fn punt<B: PacketBuffer, T: Transmit<B>>(&mut self, kind: PuntKind, slow: Slow<B>, io: &mut T) {
        self.counters.punts[kind.index()].add(1);
        io.punt(Punt { kind, entry: slow.entry }, slow.buffer);
    }

    /// Sends a packet as was decided, with the compiled rewrite if there is one already.
    pub(super) fn forward<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        rewrite: &Rewrite,
        cached: Option<RewriteRef>,
        mut slow: Slow<B>,
        io: &mut T,
    ) {
        let sent = match cached.and_then(|reference| self.rewrites.get(reference)) {
            Some(compiled) => {
                io.enter(Stage::Rewrite, 0);
                replay(compiled, &mut slow.buffer, &slow.parsed, slow.flow_hash)
            }
            None => {
                io.enter(Stage::Compile, 1);
                let mut compiled = Compiled::new(rewrite, &self.snapshot);
                io.enter(Stage::Rewrite, 0);
                let sent = replay(&mut compiled, &mut slow.buffer, &slow.parsed, slow.flow_hash);
                self.ledger().add(rewrite, &compiled);
                sent
            }
        };
        match sent {
            Ok(port) => {
                io.amend(Stage::Rewrite, 1);
                io.transmit(port, slow.buffer);
            }
            Err(Refused::TtlExpired) => self.ttl_expired(slow, io),
            Err(Refused::TooBig) => self.too_big(rewrite, slow, io),
            Err(refused) => self.discard(reason(refused), slow.buffer, io),
        }
    }

    /// Decides again with the packet's own time to live, to find the router in which it runs out.
    fn ttl_expired<B: PacketBuffer, T: Transmit<B>>(&mut self, slow: Slow<B>, io: &mut T) {
        io.enter(Stage::Answer, 1);
        match decide(self.view(), &slow.parsed.key, slow.ttl(), &mut Silent) {
            expired @ Decision::TtlExpired { .. } => self.carry_out(expired, slow, io),
            _ => self.discard(DropReason::TtlExpired, slow.buffer, io),
        }
    }

    /// Fragments the packet, or tells the sender the MTU. The time to live comes first (RFC 1812 section 5.2.1.2).
    fn too_big<B: PacketBuffer, T: Transmit<B>>(&mut self, rewrite: &Rewrite, slow: Slow<B>, io: &mut T) {
        io.enter(Stage::Answer, 1);
        let mut last = LastRouter(None);
        let decision = decide(self.view(), &slow.parsed.key, slow.ttl(), &mut last);
        if let Decision::TtlExpired { .. } = decision {
            return self.carry_out(decision, slow, io);
        }
        let Some((router, arrival)) = last.0 else {
            return self.discard(DropReason::TooBig, slow.buffer, io);
        };
        if !fragment::may_fragment(slow.buffer.data(), &slow.parsed) {
            let error = icmp::Error::TooBig(rewrite.mtu);
            return self.answer_error(error, DropReason::TooBig, router, arrival, slow, io);
        }
        let mut compiled = Compiled::new(rewrite, &self.snapshot);
        let Slow { parsed, flow_hash, buffer, .. } = slow;
        let fragmented =
            fragment::fragment(buffer.data(), &parsed, rewrite.mtu, io, |mut buffer: B, parsed, io| {
                match replay(&mut compiled, &mut buffer, parsed, flow_hash) {
                    Ok(port) => io.transmit(port, buffer),
                    Err(refused) => {
                        io.discard(reason(refused), buffer);
                        return Err(refused);
                    }
                }
                Ok(())
            });
        self.ledger().add(rewrite, &compiled);
        match fragmented {
            Ok(()) => io.discard(DropReason::Consumed, buffer),
            // Without one of them the others are of no use: the packet is lost, and counted once.
            Err(refused) => self.discard(reason(refused), buffer, io),
        }
    }

    /// Sends a copy to every receiver of the segment but the one that it came from.
    fn replicate<B: PacketBuffer, T: Transmit<B>>(&mut self, id: SegmentId, slow: Slow<B>, io: &mut T) {
        let snapshot = std::sync::Arc::clone(&self.snapshot);
        let from = snapshot.ingress(slow.parsed.key.ingress()).kind;
        let segment = snapshot.segment(id);
        let local = segment.local.iter().map(|(port, vlan)| Place::Local { port: *port, vlan: *vlan });
        let remote = segment.replication.iter().map(|tunnel| Place::Remote(*tunnel));
        let mut copies = 0;
        for place in local.chain(remote) {
            let rewrite = match switch::bridge(self.view(), &slow.parsed.key, from, place, &mut Silent) {
                Decision::Forward(rewrite) => rewrite,
                Decision::Resolve(_) => {
                    self.counters.count_drop(DropReason::NeighborUnreachable);
                    continue;
                }
                // Where it came from, or from a tunnel back into tunnels.
                _ => continue,
            };
            let Some(buffer) = copy(slow.buffer.data(), io) else {
                self.counters.count_drop(DropReason::NoBuffer);
                break;
            };
            copies += 1;
            let copy = Slow { entry: slow.entry, parsed: slow.parsed, flow_hash: slow.flow_hash, buffer };
            self.forward(&rewrite, None, copy, io);
            io.enter(Stage::Answer, 0);
        }
        if copies == 0 {
            self.discard(DropReason::NoReceiver, slow.buffer, io);
        } else {
            io.discard(DropReason::Consumed, slow.buffer);
        }
    }

    /// Answers a packet for this node itself.
    fn deliver<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        router: Option<RouterId>,
        arrival: Addresses,
        mut slow: Slow<B>,
        io: &mut T,
    ) {
        let from = self.snapshot.ingress(slow.parsed.key.ingress()).kind;
        match bfd::claim(&self.snapshot, from, &slow.parsed) {
            bfd::Claim::Watched => return self.punt(PuntKind::Bfd, slow, io),
            bfd::Claim::Forwarded => return self.discard(DropReason::BfdForwarded, slow.buffer, io),
            bfd::Claim::None => {}
        }
        let macs = slow.buffer.data().get(slow.parsed.frame()..).and_then(<[u8]>::first_chunk::<12>).copied();
        match icmp::deliver(&mut slow.buffer, &slow.parsed) {
            Ok(()) => {}
            Err(icmp::Undelivered::Drop(reason)) => return self.discard(reason, slow.buffer, io),
            Err(icmp::Undelivered::Error(error)) => {
                let Some(router) = router else {
                    return self.discard(DropReason::NoService, slow.buffer, io);
                };
                return self.answer_error(error, DropReason::NoService, router, arrival, slow, io);
            }
        }
        // A reply from or to a link-local address, or from a TEP, goes back the way it came; any other is routed.
        let ends = [slow.parsed.key.source(), slow.parsed.key.destination()];
        let on_link =
            ends.iter().any(|end| matches!(end, std::net::IpAddr::V6(v6) if v6.is_unicast_link_local()));
        match router {
            Some(router) if !on_link => self.originate(router, slow.buffer, io),
            _ => {
                let Some(macs) = macs else { return self.discard(DropReason::Truncated, slow.buffer, io) };
                if let Some(header) = slow.buffer.data_mut().first_chunk_mut::<12>() {
                    header[..6].copy_from_slice(&macs[6..]);
                    header[6..].copy_from_slice(&macs[..6]);
                }
                self.send_back(from, slow.entry, slow.buffer, io);
            }
        }
    }

    /// ARP or neighbour discovery on a segment: answered, or switched like any other frame.
    fn segment_neighbor<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        id: SegmentId,
        mut slow: Slow<B>,
        io: &mut T,
    ) {
        let snapshot = std::sync::Arc::clone(&self.snapshot);
        let from = snapshot.ingress(slow.parsed.key.ingress()).kind;
        let segment = snapshot.segment(id);
        let (start, network) = (slow.parsed.frame(), slow.parsed.network());
        // What is behind the frame belongs to the tunnel packet.
        let frame = slow.buffer.data().get(start..usize::from(slow.parsed.end)).unwrap_or(&[]);
        let replaced = if slow.parsed.key.is_ip() {
            match nd::answer(segment, from, frame, network - start) {
                Answer::Reply(frame) => Ok(respond::replace(&mut slow.buffer, start, &frame)),
                Answer::Switch => Err(None),
                Answer::Drop(reason) => Err(Some(reason)),
            }
        } else {
            match arp::answer(segment, from, frame.get(network - start..).unwrap_or(&[])) {
                Answer::Reply(frame) => Ok(respond::replace(&mut slow.buffer, start, &frame)),
                Answer::Switch => Err(None),
                Answer::Drop(reason) => Err(Some(reason)),
            }
        };
        match replaced {
            Ok(true) => self.send_back(from, slow.entry, slow.buffer, io),
            Ok(false) => self.discard(DropReason::NoBuffer, slow.buffer, io),
            Err(Some(reason)) => self.discard(reason, slow.buffer, io),
            Err(None) => {
                let gateway = segment.gateway.as_ref().map(|gateway| gateway.mac);
                if gateway == Some(slow.parsed.key.destination_mac()) {
                    return self.discard(DropReason::Consumed, slow.buffer, io);
                }
                let decision = switch::to_mac(self.view(), &slow.parsed.key, from, id, &mut Silent);
                self.carry_out(decision, slow, io);
            }
        }
    }

    /// Sends an untagged frame that answers one from `from` back to where that came from.
    fn send_back<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        from: IngressKind,
        entry: Entry,
        mut buffer: B,
        io: &mut T,
    ) {
        match (from, entry) {
            (IngressKind::Workload { port, vlan, .. }, _) => {
                if vlan != 0 && !respond::insert_tag(&mut buffer, vlan) {
                    return self.discard(DropReason::NoBuffer, buffer, io);
                }
                io.transmit(port, buffer);
            }
            (IngressKind::Tunnel { segment }, entry) => {
                let ingress = self.snapshot.segment_origination(segment);
                self.send_from(ingress, entry, buffer, io);
            }
            (IngressKind::Uplink { vlan, .. }, Entry::Port(port)) => {
                if vlan != 0 && !respond::insert_tag(&mut buffer, vlan) {
                    return self.discard(DropReason::NoBuffer, buffer, io);
                }
                io.transmit(port, buffer);
            }
            _ => self.discard(DropReason::NoService, buffer, io),
        }
    }

    /// Turns a packet into an ICMP error, if one may be sent, and counts the packet as dropped for `reason`.
    fn answer_error<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        error: icmp::Error,
        reason: DropReason,
        router: RouterId,
        arrival: Addresses,
        mut slow: Slow<B>,
        io: &mut T,
    ) {
        let answerable = icmp::may_answer(error, slow.buffer.data(), &slow.parsed);
        let source = arrival.of_family(slow.parsed.key.source());
        let (true, Some(source)) = (answerable, source) else {
            return self.discard(reason, slow.buffer, io);
        };
        if !self.errors.take(self.now) {
            self.counters.errors_suppressed.add(1);
            return self.discard(reason, slow.buffer, io);
        }
        if !icmp::error(&mut slow.buffer, &slow.parsed, source, error) {
            return self.discard(DropReason::NoBuffer, slow.buffer, io);
        }
        self.counters.count_drop(reason);
        self.originate(router, slow.buffer, io);
    }

    /// Routes a packet that a gateway of this node sends.
    pub(super) fn originate<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        router: RouterId,
        buffer: B,
        io: &mut T,
    ) {
        let Some(ingress) = self.snapshot.origination(router) else {
            return self.discard(DropReason::NoRoute, buffer, io);
        };
        self.send_from(ingress, Entry::Gateway(GatewayIndex(router.0)), buffer, io);
    }

    fn send_from<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        ingress: crate::snapshot::IngressId,
        entry: Entry,
        buffer: B,
        io: &mut T,
    ) {
        let parsed = match parse::parse_at(&self.snapshot, ingress, buffer.data()) {
            Ok(parsed) => parsed,
            Err(reason) => return self.discard(reason, buffer, io),
        };
        let flow_hash = parsed.key.flow_hash(self.snapshot.seed());
        let slow = Slow { entry, parsed, flow_hash, buffer };
        match decide(self.view(), &parsed.key, None, &mut Silent) {
            Decision::Forward(rewrite) => self.forward(&rewrite, None, slow, io),
            Decision::Resolve(key) => match entry {
                Entry::Gateway(_) => self.punt(PuntKind::Resolve(key), slow, io),
                // A proxy's frame has no place where it could be fed in again.
                Entry::Port(_) => self.discard(DropReason::NeighborUnreachable, slow.buffer, io),
            },
            Decision::Drop(reason) | Decision::Unreachable { reason, .. } => {
                self.discard(reason, slow.buffer, io)
            }
            // What the node sends is neither for itself nor for everybody.
            _ => self.discard(DropReason::NoReceiver, slow.buffer, io),
        }
    }
}

fn copy<B: PacketBuffer, T: Transmit<B>>(data: &[u8], io: &mut T) -> Option<B> {
    let mut buffer = io.allocate()?;
    match buffer.extend_back(data.len()) {
        Some(frame) => {
            frame.copy_from_slice(data);
            Some(buffer)
        }
        None => {
            io.discard(DropReason::NoBuffer, buffer);
            None
        }
    }
}

/// Replays a rewrite on a packet, counts it there, and returns the port that it leaves through.
pub(super) fn replay<B: PacketBuffer>(
    rewrite: &mut Compiled,
    buffer: &mut B,
    parsed: &Parsed,
    flow_hash: u64,
) -> Result<PortIndex, Refused> {
    let length = rewrite.replay(buffer, parsed, flow_hash)?;
    rewrite.packets += 1;
    rewrite.bytes += length as u64;
    Ok(rewrite.port)
}

/// Why a packet is dropped that a rewrite refused.
fn reason(refused: Refused) -> DropReason {
    match refused {
        Refused::TtlExpired => DropReason::TtlExpired,
        Refused::TooBig => DropReason::TooBig,
        Refused::Unmarkable => DropReason::CongestionUnmarkable,
        Refused::NoRoom => DropReason::NoBuffer,
    }
}

/// Remembers the last router that a packet passed.
struct LastRouter(Option<(RouterId, Addresses)>);

impl Tracer for LastRouter {
    fn step(&mut self, step: impl FnOnce() -> Step) {
        if let Step::Route { router, arrival, .. } = step() {
            self.0 = Some((router, arrival));
        }
    }
}
