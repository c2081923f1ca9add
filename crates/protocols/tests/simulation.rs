//! Resolvers that talk to each other over a link that loses, repeats, delays and reorders frames, in simulated time.
//!
//! Everything follows from a seed. While they run, every station is checked after every step: its usable neighbours
//! follow from its actions, each packet meets one fate, no deadline is missed.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use sluice_protocols::Timestamp;
use sluice_protocols::neighbor::{
    Action, DiscardReason, Interface, Link, NeighborKey, NeighborState, Resolver, ResolverConfig,
};
use sluice_wire::MacAddr;
use support::{Random, describe, station};

const LINK: Link = Link::untagged(0);
const STATIONS: usize = 5;

/// Runs of every simulation.
const SEEDS: u64 = 6;

/// Ordered pairs of stations times the address families: the neighbours that all stations have together.
const NEIGHBORS: u64 = (STATIONS * (STATIONS - 1) * 2) as u64;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waits,
    Released,
    Discarded(DiscardReason),
}

struct Station {
    resolver: Resolver<u32>,
    mac: MacAddr,
    up: bool,
    /// What the data path would know: the usable neighbours as the actions tell.
    usable: BTreeMap<NeighborKey, MacAddr>,
}

/// How the link treats a frame, in thousandths and milliseconds.
#[derive(Clone, Copy)]
struct Weather {
    loss: u64,
    repeats: u64,
    delay: u64,
}

const CALM: Weather = Weather { loss: 0, repeats: 0, delay: 5 };
const STORM: Weather = Weather { loss: 300, repeats: 50, delay: 400 };

struct World {
    stations: Vec<Station>,
    now: Timestamp,
    in_flight: BTreeMap<(Timestamp, u64), (usize, Vec<u8>)>,
    frames_sent: u64,
    fates: Vec<Fate>,
    weather: Weather,
    /// A station that drops most of what it receives before its resolver sees it, and tells it so.
    overloaded: Option<usize>,
    random: Random,
}

fn addresses(number: usize) -> [IpAddr; 2] {
    [format!("10.0.0.{}", number + 1).parse().unwrap(), format!("2001:db8::{}", number + 1).parse().unwrap()]
}

fn interface(number: usize, mac: MacAddr) -> Interface {
    let [v4, v6] = addresses(number);
    let addresses = vec![format!("{v4}/24").parse().unwrap(), format!("{v6}/64").parse().unwrap()];
    Interface { link: LINK, mac, addresses }
}

/// All addresses of the others.
fn others(number: usize) -> Vec<NeighborKey> {
    let others = (0..STATIONS).filter(|other| *other != number).flat_map(addresses);
    others.map(|address| NeighborKey { link: LINK, address }).collect()
}

impl World {
    /// Stations that keep each other, or not.
    fn new(seed: u64, weather: Weather, keep: bool) -> Self {
        let now = Timestamp::from_secs(1);
        let stations = (0..STATIONS).map(|number| {
            let config = ResolverConfig { seed: seed * 100 + number as u64, ..ResolverConfig::default() };
            let mac = station(number as u8 + 1);
            let mut resolver = Resolver::new(config);
            resolver.configure(vec![interface(number, mac)], if keep { others(number) } else { vec![] }, now);
            Station { resolver, mac, up: false, usable: BTreeMap::new() }
        });
        let mut world = Self {
            stations: stations.collect(),
            now,
            in_flight: BTreeMap::new(),
            frames_sent: 0,
            fates: Vec::new(),
            weather,
            overloaded: None,
            random: Random::new(seed),
        };
        (0..STATIONS).for_each(|number| world.link_state(number, true));
        world
    }

    fn link_state(&mut self, number: usize, up: bool) {
        self.stations[number].up = up;
        self.stations[number].resolver.link_state(0, up, self.now);
        self.act(number);
    }

    /// The station gets another MAC address.
    fn change_mac(&mut self, number: usize, mac: MacAddr) {
        let keep = others(number);
        self.stations[number].mac = mac;
        self.stations[number].resolver.configure(vec![interface(number, mac)], keep, self.now);
        self.act(number);
    }

    /// Station `number` has a packet for an address of another station.
    fn packet(&mut self, number: usize) {
        let choices = others(number);
        let key = choices[self.random.below(choices.len() as u64) as usize];
        let packet = self.fates.len() as u32;
        self.fates.push(Fate::Waits);
        self.stations[number].resolver.resolve(key, packet, self.now);
        self.act(number);
    }

    /// Lets time pass, with about `packets` packets at random moments and stations.
    fn run(&mut self, duration: Duration, packets: u64) {
        let start = self.now;
        let end = start.after(duration);
        let mut moments: BTreeSet<_> = (0..packets)
            .map(|_| start.after(Duration::from_nanos(self.random.below(duration.as_nanos() as u64))))
            .collect();
        loop {
            let frame = self.in_flight.first_key_value().map(|((at, _), _)| *at);
            let deadline = self.stations.iter().filter_map(|station| station.resolver.next_deadline()).min();
            let packet = moments.first().copied();
            let Some(next) = [frame, deadline, packet].into_iter().flatten().min().filter(|at| *at <= end)
            else {
                break;
            };
            assert!(next >= self.now, "a deadline in the past");
            self.now = next;
            if packet == Some(next) {
                moments.pop_first();
                let number = self.random.below(STATIONS as u64) as usize;
                self.packet(number);
            } else if frame == Some(next) {
                let (_, (number, frame)) = self.in_flight.pop_first().unwrap();
                if self.overloaded == Some(number) && self.random.chance(990) {
                    self.stations[number].resolver.frames_shed(next);
                } else {
                    self.stations[number].resolver.receive(LINK, &frame, next);
                }
                self.act(number);
            } else {
                (0..STATIONS).for_each(|number| self.poll(number));
            }
        }
        self.now = end;
    }

    fn poll(&mut self, number: usize) {
        let resolver = &mut self.stations[number].resolver;
        resolver.poll(self.now);
        assert!(resolver.next_deadline().is_none_or(|deadline| deadline > self.now));
        self.act(number);
    }

    /// Does what the station's resolver wants, and checks that it may want it.
    fn act(&mut self, number: usize) {
        while let Some(action) = self.stations[number].resolver.next_action() {
            let station = &mut self.stations[number];
            match action {
                Action::Send { frame, .. } => self.send(number, &frame),
                Action::Resolved { key, mac } => {
                    assert_ne!(station.usable.insert(key, mac), Some(mac), "resolved twice");
                }
                Action::Lost { key } => {
                    assert!(station.usable.remove(&key).is_some(), "lost before resolved")
                }
                Action::Release { key, packet } => {
                    assert!(station.usable.contains_key(&key), "released for a neighbour that is not usable");
                    self.decide(packet, Fate::Released);
                }
                Action::Discard { packet, reason } => self.decide(packet, Fate::Discarded(reason)),
                Action::Conflict { key, mac } => panic!("conflict of {key:?} with {mac}"),
            }
        }
        let station = &self.stations[number];
        let used = station.resolver.neighbors().filter(|(_, view)| view.used);
        let shown = used.filter_map(|(key, view)| Some((*key, view.mac?)));
        assert!(shown.eq(station.usable.iter().map(|(key, mac)| (*key, *mac))));
    }

    fn decide(&mut self, packet: u32, fate: Fate) {
        let known = &mut self.fates[packet as usize];
        assert_eq!(*known, Fate::Waits, "packet {packet} met two fates");
        *known = fate;
    }

    /// The frame goes to every other station, as a switch floods it, or to nobody.
    fn send(&mut self, from: usize, frame: &[u8]) {
        describe(frame);
        assert!(self.stations[from].up, "a frame on a link that is down");
        self.frames_sent += 1;
        for number in (0..STATIONS).filter(|number| *number != from) {
            let copies = 1 + u64::from(self.random.chance(self.weather.repeats));
            for _ in 0..copies {
                if !self.random.chance(self.weather.loss) {
                    let delay = Duration::from_micros(self.random.below(1000 * self.weather.delay + 1));
                    let at = (self.now.after(delay), self.random.below(u64::MAX >> 20));
                    self.in_flight.insert(at, (number, frame.to_vec()));
                }
            }
        }
    }

    /// Whether every station knows the right MAC address of each of the others that are up, and of no other.
    fn is_converged(&self) -> bool {
        let truth: BTreeMap<_, _> = (0..STATIONS)
            .filter(|number| self.stations[*number].up)
            .flat_map(|number| addresses(number).map(|address| (address, self.stations[number].mac)))
            .collect();
        (0..STATIONS).filter(|number| self.stations[*number].up).all(|number| {
            let own = addresses(number);
            let known = self.stations[number].usable.iter().map(|(key, mac)| (key.address, *mac));
            let global = known.filter(|(address, _)| !address.to_string().starts_with("fe80"));
            global.eq(truth.iter().filter(|(address, _)| !own.contains(address)).map(|(a, mac)| (*a, *mac)))
        })
    }

    fn count(&self, fate: Fate) -> usize {
        self.fates.iter().filter(|known| **known == fate).count()
    }
}

#[test]
fn a_calm_link_loses_no_packet() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, CALM, false);
        world.run(Duration::from_secs(120), 300);
        world.run(Duration::from_secs(5), 0);
        assert_eq!(world.count(Fate::Released), world.fates.len(), "seed {seed}");
    }
}

#[test]
fn a_stormy_link_converges_and_every_packet_meets_one_fate() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, STORM, true);
        world.run(Duration::from_secs(300), 1000);
        // The longest rest of a kept neighbour and one try.
        world.weather = CALM;
        world.run(Duration::from_secs(35), 0);
        assert!(world.is_converged(), "seed {seed}");
        assert_eq!(world.count(Fate::Waits), 0, "seed {seed}");
        let released = world.count(Fate::Released);
        let failed = world.count(Fate::Discarded(DiscardReason::Unreachable));
        let crowded = world.count(Fate::Discarded(DiscardReason::QueueFull));
        assert_eq!(released + failed + crowded, world.fates.len());
        assert!(
            released > 900,
            "seed {seed}: {released} released, {failed} unreachable, {crowded} crowded out"
        );
    }
}

#[test]
fn a_storm_of_the_link_is_no_storm_of_messages() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, STORM, true);
        world.run(Duration::from_secs(300), 3000);
        // At most one question a second for each neighbour; one answer for each copy of a question that arrives.
        let asked: u64 =
            world.stations.iter().map(|station| station.resolver.statistics().requests_sent).sum();
        let answered: u64 =
            world.stations.iter().map(|station| station.resolver.statistics().answers_sent).sum();
        assert!(asked < NEIGHBORS * 300 / 5, "seed {seed}: {asked} questions");
        assert!(answered <= asked * 11 / 10, "seed {seed}: {asked} questions, {answered} answers");
        let announced = STATIONS as u64 * 3 * 2;
        assert_eq!(world.frames_sent, asked + answered + announced, "seed {seed}");
    }
}

#[test]
fn a_converged_link_carries_few_messages() {
    let mut world = World::new(7, CALM, true);
    world.run(Duration::from_secs(10), 0);
    assert!(world.is_converged());
    let before = world.frames_sent;
    world.run(Duration::from_secs(600), 10_000);
    let frames = world.frames_sent - before;
    // A question and an answer for each neighbour in 15 to 45 s.
    assert!((NEIGHBORS * 2 * 600 / 45..=NEIGHBORS * 2 * 600 / 15).contains(&frames), "{frames}");
    assert_eq!(world.count(Fate::Released), world.fates.len());
}

#[test]
fn another_mac_address_is_found_even_if_no_announcement_arrives() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, CALM, true);
        world.run(Duration::from_secs(10), 0);
        world.weather.loss = 1000;
        world.change_mac(2, station(99));
        world.run(Duration::from_secs(2), 0);
        assert!(!world.is_converged(), "the announcements were lost");
        world.weather.loss = 0;
        // The longest time that an answer counts, three probes, one question.
        world.run(Duration::from_secs(45 + 3 + 1), 0);
        assert!(world.is_converged(), "seed {seed}");
    }
}

#[test]
fn another_mac_address_is_known_at_once_by_its_announcement() {
    let mut world = World::new(3, CALM, true);
    world.run(Duration::from_secs(10), 0);
    world.change_mac(2, station(99));
    world.run(Duration::from_millis(5), 0);
    assert!(world.is_converged());
    world.run(Duration::from_secs(100), 500);
    assert_eq!(world.count(Fate::Released), world.fates.len());
}

#[test]
fn a_station_that_leaves_is_lost_and_one_that_comes_back_is_found() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, CALM, true);
        world.run(Duration::from_secs(10), 0);
        world.link_state(4, false);
        world.run(Duration::from_secs(45 + 3), 0);
        assert!(world.is_converged(), "seed {seed}: everybody has lost it");
        let before = world.frames_sent;
        world.run(Duration::from_secs(330), 0);
        let frames = world.frames_sent - before;
        // Two neighbours of four stations: three questions every 33 s; and the others among themselves.
        let (leaver, rest) = (4 * 2 * 3 * (330 / 33 + 5), 4 * 3 * 2 * 2 * (330 / 15));
        assert!(frames <= leaver + rest, "seed {seed}: {frames}");
        let failed = |station: &Station| {
            station.resolver.neighbors().filter(|(_, view)| view.state == NeighborState::Failed).count()
        };
        assert!(world.stations[..4].iter().all(|station| failed(station) <= 2));
        world.link_state(4, true);
        world.run(Duration::from_millis(20), 0);
        assert!(world.is_converged(), "seed {seed}: found by its announcement and its questions");
    }
}

#[test]
fn a_station_that_sheds_frames_keeps_its_neighbors() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, CALM, true);
        world.run(Duration::from_secs(10), 0);
        let before = world.stations[0].usable.clone();
        assert!(world.is_converged());
        world.overloaded = Some(0);
        for _ in 0..30 {
            world.run(Duration::from_secs(10), 50);
            assert_eq!(world.stations[0].usable, before, "seed {seed}");
        }
        // One that has left meanwhile is lost when nothing is shed any more.
        world.link_state(4, false);
        world.overloaded = None;
        world.run(Duration::from_secs(45 + 6), 0);
        assert!(world.is_converged(), "seed {seed}");
    }
}

#[test]
fn links_that_flap_in_a_storm_come_to_rest() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, STORM, true);
        for round in 0..60 {
            let number = world.random.below(STATIONS as u64) as usize;
            match world.random.below(4) {
                0 => world.change_mac(number, station(100 + round)),
                choice => world.link_state(number, choice == 1),
            }
            let pause = Duration::from_millis(world.random.below(10_000));
            world.run(pause, 20);
        }
        (0..STATIONS).for_each(|number| world.link_state(number, true));
        world.weather = CALM;
        world.run(Duration::from_secs(60), 100);
        assert!(world.is_converged(), "seed {seed}");
        world.run(Duration::from_secs(5), 0);
        assert_eq!(world.count(Fate::Waits), 0, "seed {seed}");
    }
}
