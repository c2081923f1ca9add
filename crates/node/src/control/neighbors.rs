//! Between the resolver (`sluice-protocols`) and the data path: punted packets in, frames and tables of neighbours out.

use std::sync::Arc;

use sluice_datapath::neighbor::{NeighborKey, NeighborTable};
use sluice_datapath::punt::{Entry, PuntKind};
use sluice_datapath::snapshot::Snapshot;
use sluice_datapath::snapshot::router::{HopVia, Target};
use sluice_dpdk::Mbuf;
use sluice_intent::plan::{Plan, PortIndex, Tier};
use sluice_protocols::neighbor::{
    self as protocol, Action, DiscardReason, Interface, Link, NeighborView, Resolver, ResolverConfig,
};
use sluice_wire::ethernet::EthernetView;
use sluice_wire::{EtherType, VlanId};

use super::alarms::Alarms;
use super::conflicts::Conflicts;
use crate::dataplane::Dataplane;
use crate::worker::{Command, CycleClock, Punted};

/// Shortest frame that is sent, without frame check sequence (IEEE 802.3 section 4A.4).
const SHORTEST_FRAME: usize = 60;

/// A packet that waits for its next hop.
pub(super) struct Waiting {
    worker: usize,
    entry: Entry,
    /// Snapshot that the entry's numbers belong to.
    generation: u64,
    packet: Mbuf,
}

/// The neighbours of a node.
pub(super) struct Neighbors {
    resolver: Resolver<Waiting>,
    table: Arc<NeighborTable>,
    /// What the workers were last sent.
    published: u64,
    generation: u64,
    seed: u64,
    /// Addresses of this node that others use too.
    conflicts: Conflicts,
    /// What the workers had counted as possible answers that did not get here.
    answers_shed: u64,
    /// Packets that were not delivered.
    pub(super) discarded: Discarded,
}

/// Packets of the workers that the resolver discarded, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Discarded {
    /// The next hop did not answer, or its link is down.
    pub(super) unreachable: u64,
    /// Too many packets waited for next hops.
    pub(super) queue_full: u64,
    /// There were too many next hops.
    pub(super) table_full: u64,
}

impl Discarded {
    fn count(&mut self, reason: DiscardReason) {
        *match reason {
            DiscardReason::Unreachable => &mut self.unreachable,
            DiscardReason::QueueFull => &mut self.queue_full,
            DiscardReason::TableFull => &mut self.table_full,
        } += 1;
    }
}

impl Neighbors {
    /// No neighbours yet. `seed` spreads the timers of nodes that start together.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            resolver: Resolver::new(ResolverConfig { seed, ..ResolverConfig::default() }),
            seed,
            table: Arc::default(),
            published: 0,
            generation: 0,
            conflicts: Conflicts::default(),
            answers_shed: 0,
            discarded: Discarded::default(),
        }
    }

    /// The table that workers are to start with.
    pub(super) fn table(&self) -> &Arc<NeighborTable> {
        &self.table
    }

    /// Every neighbour, for the CLI.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&protocol::NeighborKey, NeighborView)> {
        self.resolver.neighbors()
    }

    /// Takes the interfaces and next hops of a new snapshot.
    pub(super) fn configure(&mut self, snapshot: &Snapshot, dataplane: &Dataplane) {
        self.generation = snapshot.generation();
        let keep = kept(snapshot).into_iter().map(protocol_key).collect();
        let now = timestamp(dataplane.clock);
        self.resolver.configure(interfaces(snapshot.plan(), dataplane), keep, now);
    }

    /// Forgets every neighbour and frees every waiting packet, before the ports close.
    pub(super) fn forget(&mut self) {
        *self = Self { discarded: self.discarded, ..Self::new(self.seed) };
    }

    /// A port came up or went down.
    pub(super) fn link_state(&mut self, port: PortIndex, up: bool, clock: CycleClock) {
        self.resolver.link_state(port.0, up, timestamp(clock));
    }

    /// What is on a port goes another way now: the switches are to learn it.
    pub(super) fn announce(&mut self, port: PortIndex, clock: CycleClock) {
        self.resolver.announce_port(port.0, timestamp(clock));
    }

    /// Takes a packet that a worker handed over.
    pub(super) fn punted(&mut self, worker: usize, punted: Punted, clock: CycleClock) {
        let Punted { generation, punt, packet } = punted;
        let now = timestamp(clock);
        match punt.kind {
            // Come by a ring of their own, to their own places.
            PuntKind::Bfd | PuntKind::SlowProtocols => {}
            PuntKind::Resolve(key) => {
                let waiting = Waiting { worker, entry: punt.entry, generation, packet };
                self.resolver.resolve(protocol_key(key), waiting, now);
            }
            PuntKind::Arp | PuntKind::NeighborDiscovery => {
                let Entry::Port(port) = punt.entry else { return };
                let Ok(frame) = EthernetView::parse(packet.data()) else { return };
                let vlan = frame.outer_tag().map(|tag| tag.id).filter(|id| !id.is_untagged());
                self.resolver.receive(Link { port: port.0, vlan }, packet.data(), now);
            }
        }
    }

    /// Lets the timers act and carries out what the resolver wants.
    pub(super) fn advance(&mut self, dataplane: &mut Dataplane, alarms: &mut Alarms) {
        let now = timestamp(dataplane.clock);
        // Before the timers: whoever seems not to answer may have done so.
        let shed = dataplane.workers.iter().map(|worker| worker.counters.answers_shed.get()).sum();
        if shed != self.answers_shed {
            self.answers_shed = shed;
            self.resolver.frames_shed(now);
        }
        self.resolver.poll(now);
        let mut released = Vec::new();
        while let Some(action) = self.resolver.next_action() {
            match action {
                Action::Send { link, frame } => send(dataplane, link, &frame),
                Action::Resolved { key, mac } => {
                    Arc::make_mut(&mut self.table).set(datapath_key(&key), Some(mac))
                }
                Action::Lost { key } => Arc::make_mut(&mut self.table).set(datapath_key(&key), None),
                Action::Release { packet, .. } => released.push(packet),
                Action::Discard { reason, .. } => self.discarded.count(reason),
                Action::Conflict { key, mac } => {
                    self.conflicts.heard(key.address, mac, alarms, now);
                }
            }
        }
        self.conflicts.advance(alarms, now);
        if self.table.version() != self.published {
            self.published = self.table.version();
            for worker in &mut dataplane.workers {
                // One copy each, so that no worker ever frees a table.
                worker.deliver(Command::Neighbors(Arc::clone(&self.table)));
            }
        }
        // Behind the table that resolves them, in the same ring.
        for Waiting { worker, entry, generation, packet } in released {
            let stale = generation != self.generation && matches!(entry, Entry::Gateway(_));
            if let Some(worker) = dataplane.workers.get_mut(worker).filter(|_| !stale) {
                worker.command(Command::Inject { entry, packet });
            }
        }
    }
}

/// Where the node itself is a neighbour: its TEPs and the uplink interfaces of its gateways.
fn interfaces(plan: &Plan, dataplane: &Dataplane) -> Vec<Interface> {
    let mut all: Vec<Interface> = Vec::new();
    let mut add = |port: PortIndex, vlan: Option<VlanId>, addresses: &[ipnet::IpNet]| {
        let link = Link { port: port.0, vlan };
        match all.iter_mut().find(|interface| interface.link == link) {
            Some(interface) => interface.addresses.extend(addresses),
            None => {
                let mac = dataplane.mac(plan, port);
                all.push(Interface { link, mac, addresses: addresses.to_vec() });
            }
        }
    };
    for tep in &plan.teps {
        add(plan.uplinks[tep.uplink.index()].port, tep.vlan, &[tep.address]);
    }
    for gateway in &plan.gateways {
        if let Tier::Tier0 { interfaces, .. } = &gateway.tier {
            for interface in interfaces {
                add(plan.uplinks[interface.uplink.index()].port, interface.vlan, &interface.addresses);
            }
        }
    }
    all
}

/// Next hops that are resolved ahead of traffic: of tunnels and of static routes.
fn kept(snapshot: &Snapshot) -> Vec<NeighborKey> {
    let mut keys: Vec<NeighborKey> = snapshot.tunnels().iter().map(|tunnel| tunnel.next_hop).collect();
    let plan = snapshot.plan();
    for router in snapshot.routers() {
        let Tier::Tier0 { interfaces, .. } = &plan.gateways[router.gateway().index()].tier else { continue };
        for route in router.routes() {
            let Target::NextHops(hops) = &route.target else { continue };
            for hop in hops {
                let HopVia::Interface(number) = hop.via else { continue };
                let Some(interface) = interfaces.get(usize::from(number)) else { continue };
                let port = plan.uplinks[interface.uplink.index()].port;
                let vlan = interface.vlan.map_or(0, |vlan| vlan.get());
                keys.push(NeighborKey { port, vlan, address: hop.address });
            }
        }
    }
    keys.sort_by_key(|key| (key.port, key.vlan, key.address));
    keys.dedup();
    keys
}

fn protocol_key(key: NeighborKey) -> protocol::NeighborKey {
    let vlan = VlanId::new(key.vlan).ok().filter(|id| !id.is_untagged());
    protocol::NeighborKey { link: Link { port: key.port.0, vlan }, address: key.address }
}

fn datapath_key(key: &protocol::NeighborKey) -> NeighborKey {
    let vlan = key.link.vlan.map_or(0, |vlan| vlan.get());
    NeighborKey { port: PortIndex(key.link.port), vlan, address: key.address }
}

/// The time for state machines of `sluice-protocols`.
pub(super) fn timestamp(clock: CycleClock) -> sluice_protocols::Timestamp {
    sluice_protocols::Timestamp::from_nanos(clock.now().as_nanos())
}

/// Sends an untagged frame on a link, by the first worker.
fn send(dataplane: &mut Dataplane, link: Link, frame: &[u8]) {
    let mut bytes = Vec::with_capacity(SHORTEST_FRAME.max(frame.len() + 4));
    let (addresses, rest) = frame.split_at(12.min(frame.len()));
    bytes.extend_from_slice(addresses);
    if let Some(vlan) = link.vlan {
        bytes.extend_from_slice(&EtherType::VLAN.0.to_be_bytes());
        bytes.extend_from_slice(&vlan.get().to_be_bytes());
    }
    bytes.extend_from_slice(rest);
    bytes.resize(bytes.len().max(SHORTEST_FRAME), 0);
    let Some(packet) = dataplane.pool.allocate_with(&bytes) else { return };
    if let Some(worker) = dataplane.workers.first_mut() {
        worker.command(Command::Transmit { port: PortIndex(link.port), packet });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use std::collections::BTreeSet;
    use std::time::Duration;

    use sluice_protocols::Timestamp;
    use sluice_wire::MacAddr;
    use sluice_wire::arp::{Arp, ArpOperation, ArpPacket};
    use sluice_wire::frame::FrameBuilder;

    use super::*;
    use crate::worker::PuntLimits;
    use sluice_datapath::punt::Punt;

    const LINK: Link = Link { port: 0, vlan: None };
    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const STRANGER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
    /// Between two frames of a storm of 47,000 a second.
    const GAP: Duration = Duration::from_nanos(1_000_000_000 / 47_000);

    fn frame(destination: MacAddr, arp: Arp) -> Vec<u8> {
        FrameBuilder::new().ethernet(arp.sender_mac, destination).arp(arp).payload(&[0; 18]).build().unwrap()
    }

    /// A worker's limits and the resolver behind them, with other nodes that answer every question at once.
    struct Underlay {
        limits: PuntLimits,
        resolver: Resolver<()>,
        now: Timestamp,
        usable: BTreeSet<protocol::NeighborKey>,
        lost: usize,
    }

    impl Underlay {
        fn new(teps: &[protocol::NeighborKey]) -> Self {
            let now = Timestamp::from_secs(1000);
            let mut resolver = Resolver::new(ResolverConfig::default());
            let own = Interface { link: LINK, mac: OWN, addresses: vec!["172.16.0.10/24".parse().unwrap()] };
            resolver.configure(vec![own], teps.to_vec(), now);
            resolver.link_state(LINK.port, true, now);
            Self { limits: PuntLimits::new(1), resolver, now, usable: BTreeSet::new(), lost: 0 }
        }

        /// A frame comes in on the worker's uplink.
        fn receive(&mut self, frame: &[u8]) {
            let now = sluice_datapath::time::Timestamp::from_nanos(self.now.as_nanos());
            let punt = Punt { kind: PuntKind::Arp, entry: Entry::Port(PortIndex(0)) };
            if self.limits.allow(&punt, frame, now) {
                self.resolver.receive(LINK, frame, self.now);
            }
        }

        fn advance(&mut self) {
            self.resolver.poll(self.now);
            while let Some(action) = self.resolver.next_action() {
                match action {
                    Action::Send { frame, .. } => self.answer(&frame),
                    Action::Resolved { key, .. } => drop(self.usable.insert(key)),
                    Action::Lost { key } => {
                        self.usable.remove(&key);
                        self.lost += 1;
                    }
                    _ => {}
                }
            }
        }

        /// The other nodes answer, each from its own MAC address.
        fn answer(&mut self, question: &[u8]) {
            let ethernet = EthernetView::parse(question).unwrap();
            let Ok(arp) = ArpPacket::parse(ethernet.payload()).map(Arp::from) else { return };
            let announcement = arp.sender_address == arp.target_address;
            if arp.operation == ArpOperation::REQUEST && !announcement {
                let mac = MacAddr([2, 0, 0, 0, 1, arp.target_address.octets()[3]]);
                self.receive(&frame(arp.sender_mac, arp.reply(mac)));
            }
        }
    }

    #[test]
    fn a_storm_of_requests_for_others_takes_no_tep_down() {
        let teps: Vec<_> = (11..=30)
            .map(|last| protocol::NeighborKey { link: LINK, address: [172, 16, 0, last].into() })
            .collect();
        let mut underlay = Underlay::new(&teps);
        underlay.advance();
        // Two minutes: every TEP is asked again at least twice.
        let end = underlay.now.after(Duration::from_secs(120));
        let request = Arp::request(STRANGER, [172, 16, 0, 99].into(), [172, 16, 0, 200].into());
        let storm = frame(MacAddr::BROADCAST, request);
        let mut resolved_once = false;
        while underlay.now < end {
            underlay.now = underlay.now.after(GAP);
            underlay.receive(&storm);
            if underlay.resolver.next_deadline().is_some_and(|deadline| deadline <= underlay.now) {
                underlay.advance();
            }
            resolved_once |= underlay.usable.len() == teps.len();
        }
        assert!(resolved_once && underlay.usable.len() == teps.len(), "{:?}", underlay.usable);
        assert_eq!(underlay.lost, 0);
        assert!(underlay.resolver.statistics().requests_sent >= 20 * 3, "asked again and again");
    }

    #[test]
    fn discarded_packets_are_counted_by_reason() {
        let mut discarded = Discarded::default();
        let reasons = [DiscardReason::QueueFull, DiscardReason::TableFull, DiscardReason::QueueFull];
        reasons.into_iter().for_each(|reason| discarded.count(reason));
        assert_eq!(discarded, Discarded { unreachable: 0, queue_full: 2, table_full: 1 });
    }
}
