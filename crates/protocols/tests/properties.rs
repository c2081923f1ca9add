//! What holds whatever happens: any frames, packets, link states and configurations, in any order.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;
use sluice_protocols::Timestamp;
use sluice_protocols::neighbor::{
    Action, DiscardReason, Interface, Link, NeighborKey, NeighborState, Resolver, ResolverConfig,
};
use sluice_wire::MacAddr;
use support::{ArpFrame, DiscoveryFrame, describe, ip, station};

const LINKS: [Link; 3] = [Link::untagged(0), Link::untagged(1), Link::untagged(2)];
const ADDRESSES: [&str; 12] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "10.0.0.4",
    "10.0.0.5",
    "10.9.0.1",
    "2001:db8::1",
    "2001:db8::2",
    "2001:db8::3",
    "fe80::ff:fe00:1",
    "fe80::2",
    "0.0.0.0",
];
const LIMIT: usize = 4;
const WAITING: usize = 2;
const WAITING_IN_ALL: usize = 5;
const UNUSED: usize = 2;

/// A frame, as far as it is chosen; what cannot be so is made all the same.
#[derive(Clone, Debug)]
struct FrameChoice {
    kind: u8,
    source: u8,
    destination: u8,
    sender: usize,
    target: usize,
    mac: u8,
    flags: u8,
    damage: Option<(usize, u8)>,
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Poll,
    Packet(usize, usize),
    Frame(usize, FrameChoice),
    Noise(usize, Vec<u8>),
    LinkState(u16, bool),
    Configure(u8, u8, Vec<(usize, usize)>),
    Forget(usize, usize),
}

fn frame_choice() -> impl Strategy<Value = FrameChoice> {
    let damage = prop::option::weighted(0.1, (0usize..100, any::<u8>()));
    (0u8..4, 0u8..6, 0u8..6, 0..ADDRESSES.len(), 0..ADDRESSES.len(), 0u8..6, any::<u8>(), damage).prop_map(
        |(kind, source, destination, sender, target, mac, flags, damage)| FrameChoice {
            kind,
            source,
            destination,
            sender,
            target,
            mac,
            flags,
            damage,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..LINKS.len(), 0..ADDRESSES.len());
    prop_oneof![
        4 => (0u64..40_000).prop_map(Step::Wait),
        4 => (0u64..1500).prop_map(Step::Wait),
        4 => Just(Step::Poll),
        12 => place().prop_map(|(link, address)| Step::Packet(link, address)),
        16 => (0..LINKS.len(), frame_choice()).prop_map(|(link, frame)| Step::Frame(link, frame)),
        1 => (0..LINKS.len(), prop::collection::vec(any::<u8>(), 0..120)).prop_map(|(link, o)| Step::Noise(link, o)),
        2 => (0u16..3, prop::bool::weighted(0.7)).prop_map(|(port, up)| Step::LinkState(port, up)),
        1 => (0u8..8, 1u8..3, prop::collection::vec(place(), 0..7)).prop_map(|(l, m, k)| Step::Configure(l, m, k)),
        1 => place().prop_map(|(link, address)| Step::Forget(link, address)),
    ]
}

fn key(link: usize, address: usize) -> NeighborKey {
    NeighborKey { link: LINKS[link], address: ip(ADDRESSES[address]) }
}

fn mac(number: u8) -> MacAddr {
    match number {
        0 => MacAddr::BROADCAST,
        5 => MacAddr([0x33, 0x33, 0, 0, 0, 1]),
        number => station(number),
    }
}

fn octets(choice: &FrameChoice) -> Vec<u8> {
    let v4 = |index: usize| if ip(ADDRESSES[index]).is_ipv4() { ADDRESSES[index] } else { "10.0.0.1" };
    let v6 = |index: usize| if ip(ADDRESSES[index]).is_ipv6() { ADDRESSES[index] } else { "2001:db8::1" };
    let source = mac(choice.source);
    let mut frame = match choice.kind {
        0 | 1 => {
            let mut arp = if choice.kind == 0 {
                ArpFrame::request(source, v4(choice.sender), v4(choice.target))
            } else {
                ArpFrame::reply(source, v4(choice.sender), mac(choice.destination), v4(choice.target))
            };
            arp.sender.0 = mac(choice.mac);
            arp.octets()
        }
        2 => {
            let mut solicitation = DiscoveryFrame::solicitation(source, v6(choice.sender), v6(choice.target));
            solicitation.option = (choice.flags & 1 == 0).then(|| (1, mac(choice.mac)));
            solicitation.octets()
        }
        _ => {
            let destination = mac(choice.destination);
            let mut advertisement = DiscoveryFrame::advertisement(
                source,
                v6(choice.sender),
                destination,
                v6(choice.target),
                choice.flags,
            );
            advertisement.option = (choice.flags & 1 == 0).then(|| (2, mac(choice.mac)));
            advertisement.octets()
        }
    };
    if let Some((at, value)) = choice.damage {
        let at = at % frame.len();
        frame[at] = value;
    }
    frame
}

/// A resolver and what is known of it from its actions alone.
struct Model {
    resolver: Resolver<u32>,
    now: Timestamp,
    packets: u32,
    waiting: BTreeSet<u32>,
    usable: BTreeMap<NeighborKey, MacAddr>,
    up: [bool; 3],
    interfaces: Vec<Interface>,
    keep: BTreeSet<NeighborKey>,
    /// Kept neighbours may stand above the limit, and stay there when they are no longer kept.
    most_kept: usize,
}

impl Model {
    fn new(seed: u64) -> Self {
        let config = ResolverConfig {
            neighbors: LIMIT,
            waiting: WAITING,
            waiting_in_all: WAITING_IN_ALL,
            unused: UNUSED,
            seed,
            ..ResolverConfig::default()
        };
        Self {
            resolver: Resolver::new(config),
            now: Timestamp::from_secs(10),
            packets: 0,
            waiting: BTreeSet::new(),
            usable: BTreeMap::new(),
            up: [false; 3],
            interfaces: vec![],
            keep: BTreeSet::new(),
            most_kept: 0,
        }
    }

    /// Does the step; returns the most actions that it may cause.
    fn take(&mut self, step: Step) -> usize {
        let everything = 4 * (LIMIT + 7) + WAITING_IN_ALL + 9;
        match step {
            Step::Wait(milliseconds) => self.now = self.now.after(Duration::from_millis(milliseconds)),
            Step::Poll => {
                self.resolver.poll(self.now);
                assert!(self.resolver.next_deadline().is_none_or(|deadline| deadline > self.now));
                return everything;
            }
            Step::Packet(link, address) => {
                self.waiting.insert(self.packets);
                self.resolver.resolve(key(link, address), self.packets, self.now);
                self.packets += 1;
                // Every neighbour that is not kept gives way, where kept ones were above the limit.
                return 3 + 7 + WAITING_IN_ALL;
            }
            Step::Frame(link, choice) => {
                self.resolver.receive(LINKS[link], &octets(&choice), self.now);
                return 2 + WAITING;
            }
            Step::Noise(link, octets) => self.resolver.receive(LINKS[link], &octets, self.now),
            Step::LinkState(port, up) => {
                self.up[usize::from(port)] = up;
                self.resolver.link_state(port, up, self.now);
                return everything;
            }
            Step::Configure(links, mac, keep) => {
                self.configure(links, mac, keep);
                return everything;
            }
            Step::Forget(link, address) => {
                self.resolver.forget(key(link, address), self.now);
                return 2 + WAITING;
            }
        }
        0
    }

    fn configure(&mut self, links: u8, mac: u8, keep: Vec<(usize, usize)>) {
        let with = (0..LINKS.len()).filter(|index| links & 1 << index != 0);
        let interface = |index: usize| {
            let addresses = ["10.0.0.1/24", "2001:db8::1/64"].map(|text| text.parse().unwrap()).to_vec();
            Interface { link: LINKS[index], mac: station(if index == 0 { mac } else { 1 }), addresses }
        };
        self.interfaces = with.map(interface).collect();
        let keep: Vec<_> = keep.into_iter().map(|(link, address)| key(link, address)).collect();
        self.resolver.configure(self.interfaces.clone(), keep.clone(), self.now);
        let own = ["10.0.0.1", "2001:db8::1", "0.0.0.0"].map(ip);
        let possible = |key: &NeighborKey| {
            let interface = self.interfaces.iter().find(|interface| interface.link == key.link);
            interface.is_some_and(|interface| {
                !own.contains(&key.address) && !is_own_link_local(interface, key.address)
            })
        };
        self.keep = keep.into_iter().filter(possible).collect();
        self.most_kept = self.most_kept.max(self.keep.len());
    }

    /// Takes and checks the actions, of at most `limit`.
    fn check_actions(&mut self, limit: usize) {
        let mut count = 0;
        while let Some(action) = self.resolver.next_action() {
            count += 1;
            match action {
                Action::Send { link, frame } => {
                    describe(&frame);
                    assert!(self.up[usize::from(link.port)], "sent on a port that is down");
                    let own = |interface: &&Interface| {
                        interface.link == link && interface.mac.octets() == frame[6..12]
                    };
                    assert!(self.interfaces.iter().any(|interface| own(&interface)));
                }
                Action::Resolved { key, mac } => {
                    assert!(mac.is_unicast() && self.interfaces.iter().all(|interface| interface.mac != mac));
                    assert_ne!(self.usable.insert(key, mac), Some(mac), "nothing new");
                }
                Action::Lost { key } => assert!(self.usable.remove(&key).is_some(), "lost before resolved"),
                Action::Release { key, packet } => {
                    assert!(self.usable.contains_key(&key));
                    assert!(self.waiting.remove(&packet), "packet {packet} twice");
                }
                Action::Discard { packet, reason } => {
                    assert!(self.waiting.remove(&packet), "packet {packet} twice");
                    let newest = packet + 1 == self.packets;
                    assert!(
                        newest || reason != DiscardReason::TableFull,
                        "a neighbour with a packet gave way"
                    );
                }
                Action::Conflict { key, mac } => {
                    assert!(
                        self.interfaces
                            .iter()
                            .any(|interface| interface.link == key.link && interface.mac != mac)
                    );
                }
            }
        }
        assert!(count <= limit, "{count} actions of a step that may cause {limit}");
    }

    fn check_neighbors(&self) {
        let (mut waiting, mut unused) = (0, 0);
        let mut usable = BTreeMap::new();
        let mut kept = BTreeSet::new();
        for (key, view) in self.resolver.neighbors() {
            let has_mac = !matches!(view.state, NeighborState::Incomplete | NeighborState::Failed);
            assert_eq!(view.mac.is_some(), has_mac, "{view:?}");
            assert!(
                view.waiting <= WAITING && (view.waiting == 0 || view.state == NeighborState::Incomplete)
            );
            assert!(view.since <= self.now);
            assert!(self.up[usize::from(key.link.port)] || view.state == NeighborState::Failed && view.kept);
            waiting += view.waiting;
            usable.extend(view.mac.filter(|_| view.used).map(|mac| (*key, mac)));
            unused += usize::from(!view.used);
            assert!(view.used || !view.kept && view.waiting == 0 && view.mac.is_some(), "{view:?}");
            kept.extend(view.kept.then_some(*key));
        }
        assert_eq!(usable, self.usable);
        assert_eq!(kept, self.keep);
        assert_eq!((waiting, waiting), (self.waiting.len(), self.resolver.waiting_count()));
        assert!(waiting <= WAITING_IN_ALL);
        assert!(self.resolver.neighbor_count() <= LIMIT + self.most_kept);
        assert!(unused <= UNUSED);
    }
}

/// Many link-local addresses.
fn many(number: u16) -> NeighborKey {
    NeighborKey { link: LINKS[0], address: ip(&format!("fe80::77:{number:x}")) }
}

fn is_own_link_local(interface: &Interface, address: IpAddr) -> bool {
    let number = interface.mac.octets()[5];
    address == ip(&format!("fe80::ff:fe00:{number:x}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_after_every_step(seed: u64, steps in prop::collection::vec(step(), 1..120)) {
        let mut model = Model::new(seed);
        let ready = [
            Step::Configure(7, 1, vec![(0, 3), (0, 7)]),
            Step::LinkState(0, true),
            Step::LinkState(1, true),
        ];
        for step in ready.into_iter().chain(steps) {
            let limit = model.take(step);
            model.check_actions(limit);
            model.check_neighbors();
        }
    }

    #[test]
    fn any_number_of_stations_stays_within_the_bounds(
        seed: u64,
        steps in prop::collection::vec((0u8..8, 0u16..400, 0u64..400), 1..400),
    ) {
        const BOUND: usize = 40;
        const UNUSED: usize = 10;
        let config = ResolverConfig { neighbors: BOUND, unused: UNUSED, waiting_in_all: 20, seed, ..ResolverConfig::default() };
        let mut resolver = Resolver::new(config);
        let mut now = Timestamp::from_secs(10);
        let addresses = vec!["fe80::1/64".parse().unwrap(), "2001:db8::1/64".parse().unwrap()];
        let kept: Vec<_> = (0..5u16).map(|number| many(1000 + number)).collect();
        resolver.configure(vec![Interface { link: LINKS[0], mac: station(1), addresses }], kept.clone(), now);
        resolver.link_state(0, true, now);
        let mut usable = BTreeMap::new();
        for (packet, (what, number, pause)) in steps.into_iter().enumerate() {
            now = now.after(Duration::from_millis(pause));
            let key = many(number);
            let from = key.address.to_string();
            match what {
                0 => resolver.poll(now),
                1 | 2 => resolver.resolve(key, packet, now),
                3 => {
                    let answer = DiscoveryFrame::advertisement(station(9), &from, station(1), "fe80::1", 0x40);
                    resolver.receive(LINKS[0], &answer.octets(), now);
                }
                4 => resolver.frames_shed(now),
                _ => {
                    let question = DiscoveryFrame::solicitation(station(9), &from, "fe80::1");
                    resolver.receive(LINKS[0], &question.octets(), now);
                }
            }
            while let Some(action) = resolver.next_action() {
                match action {
                    Action::Resolved { key, mac } => prop_assert_ne!(usable.insert(key, mac), Some(mac)),
                    Action::Lost { key } => prop_assert!(usable.remove(&key).is_some()),
                    _ => {}
                }
            }
            let unused = resolver.neighbors().filter(|(_, view)| !view.used).count();
            prop_assert!(unused <= UNUSED && resolver.neighbor_count() <= BOUND + kept.len());
            let waiting: usize = resolver.neighbors().map(|(_, view)| view.waiting).sum();
            prop_assert!(waiting <= 20 && waiting == resolver.waiting_count());
            prop_assert_eq!(resolver.neighbors().filter(|(_, view)| view.kept).count(), kept.len());
        }
        let known = resolver.neighbors().filter(|(_, view)| view.used);
        let known: BTreeMap<_, _> = known.filter_map(|(key, view)| Some((*key, view.mac?))).collect();
        prop_assert_eq!(known, usable, "what the data path was told is what it needs");
    }

    #[test]
    fn no_octets_do_harm(octets in prop::collection::vec(any::<u8>(), 0..200), arp: bool) {
        let mut model = Model::new(0);
        model.take(Step::Configure(7, 1, vec![(0, 3), (0, 7)]));
        model.take(Step::LinkState(0, true));
        model.check_actions(usize::MAX);
        let start: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd];
        let mut frame = start.to_vec();
        if arp {
            frame[12..14].copy_from_slice(&[8, 6]);
        }
        frame.extend(octets);
        model.take(Step::Noise(0, frame));
        model.check_actions(2);
        model.check_neighbors();
    }
}
