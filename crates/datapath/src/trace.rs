//! Follows one packet through every stage and says why it went where.
//!
//! For the operator: called by the control thread with the snapshot and the neighbours that the workers use, on a copy of the packet; it
//! disturbs no worker and no counter.

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluice_intent::plan::PortIndex;

use crate::buffer::{BATCH, HeapBuffer, PacketBuffer, Transmit};
use crate::counters::{EngineCounters, LogicalCounters};
use crate::drops::DropReason;
use crate::engine::{Engine, EngineConfig};
use crate::flow::{FRAGMENT, FlowKey, MANY_EXTENSIONS};
use crate::neighbor::NeighborTable;
use crate::parse::{Entrance, Parsed, RecentTunnels};
use crate::pipeline::trace::{Recorder, Step};
use crate::pipeline::{Decision, View, decide};
use crate::profile::Profile;
use crate::punt::{Punt, PuntKind};
use crate::respond::icmp;
use crate::rewrite::{Egress, Ethernet, Rewrite};
use crate::snapshot::router::{HopVia, Origin, Route, Target};
use crate::snapshot::segment::Place;
use crate::snapshot::{IngressKind, Snapshot};
use crate::time::Timestamp;

/// A packet's way through the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The stages that it passed, in order.
    pub stages: Vec<Stage>,
    /// What became of it.
    pub verdict: String,
    /// The frames that leave, each with its port.
    pub frames: Vec<(PortIndex, Vec<u8>)>,
}

/// A stage of a packet's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The stage, as `gateway t1-blue`.
    pub name: String,
    /// What it found and did.
    pub detail: String,
}

/// Follows `frame`, as if it had come in on `port`.
pub fn trace(
    snapshot: &Arc<Snapshot>,
    neighbors: &Arc<NeighborTable>,
    port: PortIndex,
    frame: &[u8],
) -> std::io::Result<Report> {
    let mut report = Report::default();
    let outcome = replay(snapshot, neighbors, port, frame)?;
    let mut parsed = Parsed::default();
    let mut told = None;
    let entrance = Entrance::of(snapshot, port).ok_or(DropReason::UnknownVlan);
    let entered = entrance.and_then(|entrance| entrance.parse(frame, &mut RecentTunnels::new(), &mut parsed));
    match entered {
        Err(reason) => report.stage("parse", format!("refused: {}", reason.description())),
        Ok(()) => {
            let names = Names(snapshot);
            report.stage("parse", names.parsed(&parsed));
            let mut recorder = Recorder::default();
            let view = View { snapshot, neighbors, kept: None, loads: None };
            let ttl = Some(parsed.ttl).filter(|_| parsed.key.is_ip());
            let decision = decide(view, &parsed.key, ttl, &mut recorder);
            for step in &recorder.0 {
                let (name, detail) = names.step(step);
                report.stage(&name, detail);
            }
            report.stage("decision", names.decision(&decision));
            if let Decision::Forward(rewrite) = &decision
                && rewrite.mtu < u16::MAX
            {
                report.stage("mtu", outcome.fits(rewrite, &parsed));
            }
            told =
                outcome.error_about(&decision, &parsed, frame).map(|error| error.name(parsed.key.is_ipv6()));
        }
    }
    report.verdict = outcome.verdict(told.as_deref());
    report.frames = outcome.frames;
    Ok(report)
}

/// Sends the packet through an engine of its own, to see what leaves.
fn replay(
    snapshot: &Arc<Snapshot>,
    neighbors: &Arc<NeighborTable>,
    port: PortIndex,
    frame: &[u8],
) -> std::io::Result<Sink> {
    let config = EngineConfig { flow_cache: false, flow_cache_size: 2, idle_timeout: 1 };
    let counters = Arc::new(EngineCounters::default());
    let logical = Arc::new(LogicalCounters::new(snapshot));
    let mut engine =
        Engine::new(config, Arc::clone(snapshot), Arc::clone(neighbors), Arc::clone(&counters), logical)?;
    let mut sink = Sink::default();
    let mut batch: ArrayVec<HeapBuffer, BATCH> = ArrayVec::new();
    batch.push(HeapBuffer::new(frame, 2048));
    engine.process(port, &mut batch, Timestamp::from_secs(1), &mut sink);
    let counted = |reason: &DropReason| counters.drops(*reason) > 0;
    sink.dropped = DropReason::ALL.iter().copied().filter(counted).collect();
    Ok(sink)
}

/// What became of the packet.
#[derive(Default)]
struct Sink {
    frames: Vec<(PortIndex, Vec<u8>)>,
    /// Reasons that were counted: for the packet, or for copies of it.
    dropped: Vec<DropReason>,
    punted: Option<PuntKind>,
}

impl Sink {
    /// What became of the packet; `told` is what its sender is told where it is dropped and a frame leaves.
    fn verdict(&self, told: Option<&str>) -> String {
        let sent = match self.frames.len() {
            0 => None,
            1 => Some("1 frame leaves".to_owned()),
            count => Some(format!("{count} frames leave")),
        };
        let waiting = self.punted.map(|kind| match kind {
            PuntKind::Resolve(key) => {
                format!("waits in the control thread until the MAC address of {} is known", key.address)
            }
            kind => format!("handed to the control thread as {}", PuntKind::NAMES[kind.index()]),
        });
        let describe = |reason: &DropReason| format!("{} ({})", reason.name(), reason.description());
        let reasons = self.dropped.iter().map(describe).collect::<Vec<_>>().join(", ");
        match (reasons.is_empty(), sent, waiting, told) {
            (true, sent, waiting, _) => waiting.or(sent).unwrap_or_else(|| "nothing leaves".to_owned()),
            (false, None, None, _) => format!("dropped: {reasons}"),
            (false, Some(_), _, Some(error)) => {
                format!("dropped: {reasons}; the sender is told with an ICMP error: {error}")
            }
            (false, None, Some(waiting), Some(error)) => {
                format!("dropped: {reasons}; the ICMP error for the sender, {error}, {waiting}")
            }
            (false, sent, waiting, None) => {
                let others = sent.or(waiting).unwrap_or_default();
                format!("{others}; dropped: {reasons}")
            }
        }
    }

    /// The ICMP error that a router sends about a packet that it drops after this decision.
    fn error_about(&self, decision: &Decision, parsed: &Parsed, frame: &[u8]) -> Option<icmp::Error> {
        match decision {
            Decision::Forward(rewrite) if self.dropped.contains(&DropReason::TooBig) => {
                Some(icmp::Error::TooBig(rewrite.mtu))
            }
            Decision::Unreachable { reason, .. } => Some(icmp::Error::unreachable(*reason)),
            Decision::TtlExpired { .. } => Some(icmp::Error::TimeExceeded),
            Decision::Deliver { .. } => match icmp::deliver(&mut HeapBuffer::new(frame, 0), parsed) {
                Err(icmp::Undelivered::Error(error)) => Some(error),
                _ => None,
            },
            _ => None,
        }
    }

    /// How the packet fits into the MTU of where it goes.
    fn fits(&self, rewrite: &Rewrite, parsed: &Parsed) -> String {
        // A frame that is bridged as it is keeps its padding.
        let length = match rewrite.ethernet {
            Ethernet::Kept => parsed.end.saturating_sub(parsed.network),
            Ethernet::Retagged | Ethernet::New(_) => parsed.network_length,
        };
        let mtu = rewrite.mtu;
        if length <= mtu {
            format!("{length} bytes; up to {mtu} may leave")
        } else if self.dropped.is_empty() {
            format!("{length} bytes, where up to {mtu} may leave: sent in {} fragments", self.frames.len())
        } else {
            format!("{length} bytes, where up to {mtu} may leave: refused")
        }
    }
}

impl Profile for Sink {}

impl Transmit<HeapBuffer> for Sink {
    fn transmit(&mut self, port: PortIndex, buffer: HeapBuffer) {
        self.frames.push((port, buffer.data().to_vec()));
    }

    fn punt(&mut self, punt: Punt, _: HeapBuffer) {
        self.punted = Some(punt.kind);
    }

    fn discard(&mut self, _: DropReason, _: HeapBuffer) {}

    fn allocate(&mut self) -> Option<HeapBuffer> {
        Some(HeapBuffer::new(&[], 9600))
    }
}

impl Report {
    fn stage(&mut self, name: &str, detail: String) {
        self.stages.push(Stage { name: name.to_owned(), detail });
    }
}

/// Puts names to the numbers of a snapshot.
struct Names<'a>(&'a Snapshot);

impl Names<'_> {
    fn parsed(&self, parsed: &Parsed) -> String {
        let way = if parsed.frame() > 0 { "the tunnel ends here; inside is " } else { "" };
        format!("{way}{}", flow(&parsed.key))
    }

    fn step(&self, step: &Step) -> (String, String) {
        match step {
            Step::Ingress(kind) => ("ingress".to_owned(), self.ingress(kind)),
            Step::Route { router, route, .. } => {
                let name = format!("gateway {}", self.0.router(*router).name());
                (name, route.as_ref().map_or_else(|| "no route".to_owned(), |route| self.route(route)))
            }
            Step::EqualCost { chosen, of } => (
                "ecmp".to_owned(),
                format!("way {} of {of}, by the hash of addresses, protocol and ports", chosen + 1),
            ),
            Step::Tunnel { local, remote, of, replaced } => {
                let why = if *replaced { ", since the flow's own is not usable" } else { "" };
                ("tep-group".to_owned(), format!("from {local} to {remote}, one of {of} ways{why}"))
            }
            Step::Neighbor { key, mac } => {
                let port = self.0.plan().port_name(key.port);
                let found = mac.map_or_else(|| "not resolved yet".to_owned(), |mac| format!("is {mac}"));
                ("neighbor".to_owned(), format!("{} on {port} {found}", key.address))
            }
            Step::Switch { segment, destination, place } => (
                format!("segment {}", self.0.segment(*segment).name),
                format!("{destination} is {}", self.place(place)),
            ),
            Step::Replicate { segment } => {
                let segment = self.0.segment(*segment);
                let (local, remote) = (segment.local.len(), segment.replication.len());
                let detail = format!(
                    "a copy to each of {local} local workloads and {remote} remote TEPs but the sender"
                );
                (format!("segment {}", segment.name), detail)
            }
        }
    }

    fn ingress(&self, kind: &IngressKind) -> String {
        let tag = |vlan: u16| if vlan == 0 { String::new() } else { format!(" in VLAN {vlan}") };
        match kind {
            IngressKind::Workload { segment, port, vlan } => {
                let port = self.0.plan().port_name(*port);
                format!("workload port {port}{} on segment {}", tag(*vlan), self.0.segment(*segment).name)
            }
            IngressKind::Tunnel { segment } => format!("tunnel of segment {}", self.0.segment(*segment).name),
            IngressKind::Transit { router } => {
                format!("transit segment to the service router of {}", self.0.router(*router).name())
            }
            IngressKind::Uplink { interface: Some((router, number)), vlan } => {
                let router = self.0.router(*router);
                let interface = &router.interfaces[usize::from(*number)].name;
                format!("interface {interface} of {}{}", router.name(), tag(*vlan))
            }
            IngressKind::Uplink { interface: None, vlan } => format!("underlay uplink{}", tag(*vlan)),
            IngressKind::SegmentOrigination { segment } => {
                format!("segment {} itself", self.0.segment(*segment).name)
            }
            IngressKind::Origination { router } => {
                format!("gateway {} itself", self.0.router(*router).name())
            }
        }
    }

    fn route(&self, route: &Route) -> String {
        let how = match route.origin {
            Origin::Connected => "connected",
            Origin::Static => "static",
            Origin::Linked => "over the router link",
            Origin::LinkedStatic => "static on a tier-1, over the router link",
            Origin::ServiceRouter => "default to the service routers",
        };
        let target = match &route.target {
            Target::Local => "one of its own addresses".to_owned(),
            Target::Segment(segment) => format!("segment {}", self.0.segment(*segment).name),
            Target::Subnet { .. } => "the subnet of an uplink interface".to_owned(),
            Target::Link(link) => format!("gateway {}", self.0.router(link.router).name()),
            Target::NextHops(hops) => {
                let hop = |hop: &crate::snapshot::router::Hop| match hop.via {
                    HopVia::Interface(_) => hop.address.to_string(),
                    HopVia::Segment(segment) => {
                        format!("{} on {}", hop.address, self.0.segment(segment).name)
                    }
                };
                format!("next hop {}", hops.iter().map(hop).collect::<Vec<_>>().join(" or "))
            }
            Target::ServiceRouters(hops) => format!("{} service router(s) on edges", hops.len()),
            Target::Blackhole => "nowhere: blackhole".to_owned(),
        };
        format!("{} ({how}) leads to {target}", route.prefix)
    }

    fn place(&self, place: &Place) -> String {
        match place {
            Place::Local { port, .. } => format!("on port {}", self.0.plan().port_name(*port)),
            Place::Remote(group) => {
                let group = self.0.tunnel_group(*group);
                let mut remotes: Vec<_> = group.tunnels().map(|id| self.0.tunnel(id).remote).collect();
                remotes.sort_unstable();
                remotes.dedup();
                let remotes: Vec<String> = remotes.iter().map(ToString::to_string).collect();
                format!("behind TEP {}", remotes.join(" or "))
            }
            Place::Unreachable => "behind a TEP of a family that no local TEP has".to_owned(),
        }
    }

    fn decision(&self, decision: &Decision) -> String {
        match decision {
            Decision::Forward(rewrite) => {
                let hops = rewrite.ethernet.header().map_or(0, |header| header.hops);
                let ttl = if hops > 0 { format!(", time to live less {hops}") } else { String::new() };
                match rewrite.egress {
                    Egress::Port { port, .. } => {
                        format!("leave through {}{ttl}", self.0.plan().port_name(port))
                    }
                    Egress::Tunnel { tunnel, .. } => {
                        let tunnel = self.0.tunnel(tunnel);
                        let (vni, local, remote) = (tunnel.vni, tunnel.local, tunnel.remote);
                        let encapsulation = tunnel.encapsulation;
                        format!("encapsulate ({encapsulation}, VNI {vni}, {local} to {remote}){ttl}")
                    }
                }
            }
            Decision::Replicate { .. } => "replicate".to_owned(),
            Decision::Deliver { .. } => "for this node itself".to_owned(),
            Decision::SegmentNeighbor { .. } => {
                "answer for what is known on the segment, otherwise switch".to_owned()
            }
            Decision::UplinkNeighbor => "address resolution: the control thread's".to_owned(),
            Decision::TunnelBfd => "BFD of a tunnel: the control thread's".to_owned(),
            Decision::Resolve(key) => format!("resolve {} first", key.address),
            Decision::Unreachable { reason, .. } => {
                format!("drop and tell the sender: {}", reason.description())
            }
            Decision::TtlExpired { router, .. } => {
                format!(
                    "drop and tell the sender: the time to live runs out in {}",
                    self.0.router(*router).name()
                )
            }
            Decision::Drop(reason) => format!("drop: {}", reason.description()),
        }
    }
}

fn flow(key: &FlowKey) -> String {
    if !key.is_ip() {
        return format!("{} from {} to {}", key.ethertype(), key.source_mac(), key.destination_mac());
    }
    let (source, destination) = (key.source(), key.destination());
    if key.flags() & MANY_EXTENSIONS != 0 {
        return format!("IPv6 from {source} to {destination} with several extension headers");
    }
    let protocol = key.protocol();
    if key.flags() & FRAGMENT != 0 {
        return format!("a fragment of {protocol} from {source} to {destination}");
    }
    match key.ports() {
        (0, 0) => format!("{protocol} from {source} to {destination}"),
        (from, to) => format!("{protocol} from {source} port {from} to {destination} port {to}"),
    }
}
