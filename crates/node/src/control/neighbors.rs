//! Between the resolver (`sluice-protocols`) and the data path: punted packets in, frames and tables of neighbours out.

use std::sync::Arc;

use sluice_datapath::neighbor::{NeighborKey, NeighborTable};
use sluice_datapath::punt::{Entry, PuntKind};
use sluice_datapath::snapshot::Snapshot;
use sluice_datapath::snapshot::router::{HopVia, Target};
use sluice_dpdk::Mbuf;
use sluice_intent::plan::{Plan, PortIndex, Tier};
use sluice_protocols::neighbor::{
    self as protocol, Action, Interface, Link, NeighborView, Resolver, ResolverConfig,
};
use sluice_wire::ethernet::EthernetView;
use sluice_wire::{EtherType, VlanId};

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
    /// Packets that waited in vain.
    pub(super) unreachable: u64,
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
            unreachable: 0,
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
        *self = Self { unreachable: self.unreachable, ..Self::new(self.seed) };
    }

    /// A port came up or went down.
    pub(super) fn link_state(&mut self, port: PortIndex, up: bool, clock: CycleClock) {
        self.resolver.link_state(port.0, up, timestamp(clock));
    }

    /// Takes a packet that a worker handed over.
    pub(super) fn punted(&mut self, worker: usize, punted: Punted, snapshot: &Snapshot, clock: CycleClock) {
        let Punted { punt, packet } = punted;
        let now = timestamp(clock);
        match punt.kind {
            PuntKind::Resolve(key) => {
                let waiting =
                    Waiting { worker, entry: punt.entry, generation: snapshot.generation(), packet };
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
    pub(super) fn advance(&mut self, dataplane: &mut Dataplane) {
        self.resolver.poll(timestamp(dataplane.clock));
        let mut released = Vec::new();
        while let Some(action) = self.resolver.next_action() {
            match action {
                Action::Send { link, frame } => send(dataplane, link, &frame),
                Action::Resolved { key, mac } => {
                    Arc::make_mut(&mut self.table).set(datapath_key(&key), Some(mac))
                }
                Action::Lost { key } => Arc::make_mut(&mut self.table).set(datapath_key(&key), None),
                Action::Release { packet, .. } => released.push(packet),
                Action::Discard { .. } => self.unreachable += 1,
                Action::Conflict { key, mac } => {
                    tracing::warn!(address = %key.address, %mac, "another station uses an address of this node");
                }
            }
        }
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
                let mac = dataplane.ports[port.index()].mac;
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

fn timestamp(clock: CycleClock) -> sluice_protocols::Timestamp {
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
