//! BFD sessions and the health of TEPs together, as a node joins them: two nodes with two TEPs each, full mesh.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{
    Action as BfdAction, PORT, Path, Received, SessionConfig, Sessions, SessionsConfig, TTL, Via,
};
use sluice_protocols::tep_health::{Action, Cause, Health, TepHealth, TepHealthConfig, TepId, TepInputs};
use sluice_wire::bfd::BfdState;

const TEPS: u16 = 2;

/// The address of a node's TEP.
fn address(node: usize, tep: u16) -> IpAddr {
    [10, 0, node as u8, tep as u8].into()
}

fn tep_of(address: IpAddr) -> TepId {
    let IpAddr::V4(address) = address else { panic!("{address} is no TEP") };
    TepId(u16::from(address.octets()[3]))
}

/// What a node does with both machines.
struct Node {
    sessions: Sessions,
    health: TepHealth,
    links: [bool; TEPS as usize],
    /// What the health of TEPs told, and when.
    told: Vec<(Timestamp, Action)>,
}

impl Node {
    fn new(number: usize, now: Timestamp) -> Self {
        let config = SessionsConfig { seed: number as u64, ..SessionsConfig::default() };
        let mut sessions = Sessions::new(config);
        for (local, remote) in (0..TEPS).flat_map(|local| (0..TEPS).map(move |remote| (local, remote))) {
            let via = Via::Tunnel { vni: None };
            let path = Path { via, local: address(number, local), remote: address(1 - number, remote) };
            sessions.add(path, SessionConfig::default(), now).unwrap();
        }
        let config = TepHealthConfig { enabled: true, ..TepHealthConfig::default() };
        let mut node =
            Self { sessions, health: TepHealth::new(config).unwrap(), links: [true; 2], told: vec![] };
        node.judge(now);
        node
    }

    /// Tells the health of TEPs what links and sessions are like.
    fn judge(&mut self, now: Timestamp) {
        for tep in 0..TEPS {
            let own = self.sessions.sessions().filter(|view| tep_of(view.path.local) == TepId(tep));
            let (sessions, sessions_up) =
                own.fold((0, 0), |(all, up), view| (all + 1, up + usize::from(view.state == BfdState::Up)));
            let link_up = self.links[usize::from(tep)];
            self.health.set(TepId(tep), TepInputs { has_address: true, link_up, sessions, sessions_up }, now);
        }
        self.told.extend(std::iter::from_fn(|| self.health.next_action()).map(|action| (now, action)));
    }

    fn link(&mut self, tep: u16, up: bool, now: Timestamp) {
        self.links[usize::from(tep)] = up;
        let which = |path: &Path| tep_of(path.local) == TepId(tep);
        if up {
            self.sessions.path_up(which, now);
        } else {
            self.sessions.path_down(which, now);
        }
    }

    fn next_event(&self) -> Option<Timestamp> {
        self.sessions.next_event().into_iter().chain(self.health.next_event()).min()
    }
}

struct World {
    nodes: [Node; 2],
    now: Timestamp,
    in_flight: BTreeMap<(Timestamp, u64), (Path, [u8; 24])>,
    sent: u64,
    /// Addresses whose packets are lost, although their links are up.
    lost: BTreeSet<IpAddr>,
}

impl World {
    fn new() -> Self {
        let now = Timestamp::from_secs(1);
        let nodes = [0, 1].map(|number| Node::new(number, now));
        Self { nodes, now, in_flight: BTreeMap::new(), sent: 0, lost: BTreeSet::new() }
    }

    fn act(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let mut changed = false;
        while let Some(action) = node.sessions.next_action() {
            match action {
                BfdAction::StateChanged { .. } => changed = true,
                BfdAction::Send { path, payload, .. } => {
                    let carried = node.links[usize::from(tep_of(path.local).0)];
                    if carried && !self.lost.contains(&path.local) && !self.lost.contains(&path.remote) {
                        self.sent += 1;
                        self.in_flight
                            .insert((self.now.after(Duration::from_millis(1)), self.sent), (path, payload));
                    }
                }
            }
        }
        if changed {
            node.judge(self.now);
        }
    }

    fn deliver(&mut self, path: Path, payload: &[u8]) {
        let number = usize::from(path.remote == address(1, 0) || path.remote == address(1, 1));
        if self.nodes[number].links[usize::from(tep_of(path.remote).0)] {
            let received = Received {
                via: path.via,
                source: path.local,
                destination: path.remote,
                destination_port: PORT,
                ttl: TTL,
            };
            self.nodes[number].sessions.receive(&received, payload, self.now).unwrap();
            self.act(number);
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now.after(time);
        loop {
            let events = self.nodes.iter().filter_map(Node::next_event);
            let arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = events.chain(arrival).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (path, payload) = entry.remove();
                self.deliver(path, &payload);
            }
            for number in 0..2 {
                self.nodes[number].sessions.advance(self.now);
                self.act(number);
                self.nodes[number].health.advance(self.now);
                self.nodes[number].judge(self.now);
            }
        }
        self.now = end;
    }

    fn link(&mut self, number: usize, tep: u16, up: bool) {
        let now = self.now;
        self.nodes[number].link(tep, up, now);
        self.act(number);
        self.nodes[number].judge(now);
    }

    /// What node `number` told since the last time.
    fn told(&mut self, number: usize) -> Vec<(Timestamp, Action)> {
        std::mem::take(&mut self.nodes[number].told)
    }

    fn all_healthy(&self) -> bool {
        let mut views = self.nodes.iter().flat_map(|node| node.health.teps());
        views.all(|view| view.health == Health::Healthy)
    }
}

#[test]
fn a_tep_that_nobody_hears_is_left_and_only_that() {
    let mut world = World::new();
    world.run(Duration::from_secs(10));
    assert!(world.all_healthy() && world.told(0).is_empty() && world.told(1).is_empty());
    let failed = world.now;
    // Its link is up, and something behind it drops every packet.
    world.lost.insert(address(0, 1));
    world.run(Duration::from_secs(60));
    let told = world.told(0);
    let [(at, Action::Faulty { tep: TepId(1), cause: Cause::SessionsDown, retry: Some(retry) })] = told[..]
    else {
        panic!("{told:?}")
    };
    // Three packets of a second each, then the failover timeout of 5 s.
    let took = at.since(failed);
    assert!((Duration::from_secs(7)..=Duration::from_millis(8_010)).contains(&took), "{took:?}");
    assert!(world.told(1).is_empty(), "each TEP of the other node has a session that is up");
    world.lost.clear();
    world.run(retry.since(world.now));
    assert_eq!(world.told(0).len(), 1, "recovered at the first try");
    assert!(world.all_healthy());
}

#[test]
fn a_link_that_goes_down_is_left_at_once() {
    let mut world = World::new();
    world.run(Duration::from_secs(10));
    let failed = world.now;
    world.link(0, 0, false);
    let fault = Action::Faulty { tep: TepId(0), cause: Cause::LinkDown, retry: None };
    assert_eq!(world.told(0), [(failed, fault)]);
    world.run(Duration::from_secs(30));
    world.link(0, 0, true);
    world.run(Duration::from_secs(5));
    let told = world.told(0);
    assert!(matches!(told[..], [(_, Action::Recovered { tep: TepId(0), .. })]), "{told:?}");
    assert!(world.all_healthy() && world.told(1).is_empty());
}

#[test]
fn a_node_that_is_cut_off_is_isolated_and_so_is_its_only_peer() {
    let mut world = World::new();
    world.run(Duration::from_secs(10));
    world.link(0, 0, false);
    world.link(0, 1, false);
    assert_eq!(world.told(0).last().unwrap().1, Action::Isolated(true));
    world.run(Duration::from_secs(20));
    assert_eq!(world.told(1).last().unwrap().1, Action::Isolated(true));
    world.link(0, 1, true);
    world.run(Duration::from_secs(5));
    assert_eq!(world.told(0).last().unwrap().1, Action::Isolated(false));
}
