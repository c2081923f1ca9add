//! Tables of sessions that talk to each other over links that delay, lose and fail, in simulated time.

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{Action, SessionConfig, Sessions, SessionsConfig};
use sluice_wire::bfd::{BfdDiagnostic, BfdState};

use crate::random::Random;
use crate::support::{ms, path, received};

/// A packet on its way: to which table, over which of the links.
type Flight = (usize, u8, [u8; 24]);

/// Two nodes and the links between them, one session over each.
struct World {
    nodes: [Sessions; 2],
    now: Timestamp,
    in_flight: BTreeMap<(Timestamp, u64), Flight>,
    sent: u64,
    /// Packets lost of a thousand, and the greatest delay in milliseconds.
    loss: u64,
    delay: u64,
    /// Links that carry nothing in the direction to the node of this number.
    cut: [Vec<u8>; 2],
    /// Changes of state: when, of which node, on which link, to what.
    changes: Vec<(Timestamp, usize, u8, BfdState, BfdDiagnostic)>,
    random: Random,
}

const LINKS: u8 = 8;

/// The path over a link, as the node sees it.
fn path_of(node: usize, link: u8) -> sluice_protocols::bfd::Path {
    if node == 0 { path(1, 100 + link) } else { path(100 + link, 1) }
}

impl World {
    fn new(seed: u64, interval: Duration, multiplier: u8) -> Self {
        let now = Timestamp::from_secs(1);
        let nodes = [0, 1].map(|node| {
            let mut sessions =
                Sessions::new(SessionsConfig { seed: seed * 2 + node as u64, ..SessionsConfig::default() });
            for link in 0..LINKS {
                sessions.add(path_of(node, link), SessionConfig::every(interval, multiplier), now).unwrap();
            }
            sessions
        });
        Self {
            nodes,
            now,
            in_flight: BTreeMap::new(),
            sent: 0,
            loss: 0,
            delay: 10,
            cut: [vec![], vec![]],
            changes: vec![],
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        }
    }

    fn act(&mut self, node: usize) {
        while let Some(action) = self.nodes[node].next_action() {
            let link_of = |path: sluice_protocols::bfd::Path| {
                (0..LINKS).find(|link| path_of(node, *link) == path).unwrap()
            };
            match action {
                Action::Send { path, payload, .. } => {
                    self.sent += 1;
                    let (link, to) = (link_of(path), 1 - node);
                    if self.random.below(1000) >= self.loss && !self.cut[to].contains(&link) {
                        let arrival = self.now.after(ms(1 + self.random.below(self.delay)));
                        self.in_flight.insert((arrival, self.sent), (to, link, payload));
                    }
                }
                Action::StateChanged { path, to, diagnostic, .. } => {
                    self.changes.push((self.now, node, link_of(path), to, diagnostic));
                }
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now.after(time);
        loop {
            let events = self.nodes.iter().filter_map(Sessions::next_event);
            let arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = events.chain(arrival).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, link, payload) = entry.remove();
                let _ = self.nodes[to].receive(&received(path_of(to, link)), &payload, self.now);
                self.act(to);
            }
            for node in 0..2 {
                self.nodes[node].advance(self.now);
                self.act(node);
            }
        }
        self.now = end;
    }

    fn states(&self) -> Vec<BfdState> {
        self.nodes.iter().flat_map(|node| node.sessions().map(|view| view.state)).collect()
    }

    fn all_up(&self) -> bool {
        self.states().iter().all(|state| *state == BfdState::Up)
    }
}

#[test]
fn sessions_come_up_within_seconds_and_stay_up() {
    for seed in 0..20 {
        let mut world = World::new(seed, ms(300), 3);
        world.run(ms(2_100));
        assert!(world.all_up(), "seed {seed}: {:?}", world.states());
        world.run(Duration::from_secs(120));
        let changes = usize::from(LINKS) * 2;
        // Down, Init, Up; or straight to Up where the other end was first.
        assert!(world.changes.len() <= 2 * changes, "seed {seed}: {:?}", world.changes);
        assert!(world.nodes.iter().flat_map(|node| node.sessions()).all(|view| !view.polling));
        // At 300 ms, 262 ms in the middle: 460 packets of each session in two minutes, both ways.
        let packets: u64 = world.nodes[0].sessions().map(|view| view.counters.sent).sum();
        assert!((420..=500).contains(&(packets / u64::from(LINKS))), "{packets}");
        assert_eq!(world.nodes[1].refusals().total(), 0);
    }
}

#[test]
fn a_cut_is_seen_by_the_deaf_end_in_the_detection_time_and_told_to_the_other() {
    for seed in 0..20 {
        let mut world = World::new(seed, ms(100), 3);
        world.run(ms(5_000));
        assert!(world.all_up());
        world.changes.clear();
        let cut = world.now;
        world.cut[1] = vec![3];
        world.run(ms(1_000));
        let [(first, 1, 3, BfdState::Down, why), (second, 0, 3, BfdState::Down, told)] = world.changes[..]
        else {
            panic!("seed {seed}: {:?}", world.changes)
        };
        assert_eq!(why, BfdDiagnostic::CONTROL_DETECTION_TIME_EXPIRED);
        assert_eq!(told, BfdDiagnostic::NEIGHBOR_SIGNALED_SESSION_DOWN);
        // The last packet before the cut came up to an interval earlier, and may have been on its way.
        assert!((ms(200)..=ms(311)).contains(&first.since(cut)), "seed {seed}: {:?}", first.since(cut));
        assert!(second.since(first) <= ms(11));
        world.cut[1].clear();
        world.run(ms(3_000));
        assert!(world.all_up(), "seed {seed}: {:?}", world.states());
    }
}

#[test]
fn a_lossy_path_flaps_rarely_and_a_calm_one_heals() {
    for seed in 0..10 {
        let mut world = World::new(seed, ms(100), 4);
        world.loss = 200;
        world.run(Duration::from_secs(60));
        // Four losses in a row of one in five: one in 625, of some 690 packets each way.
        let downs: u64 =
            world.nodes.iter().flat_map(|node| node.sessions()).map(|view| view.counters.downs).sum();
        assert!((1..=100).contains(&downs), "seed {seed}: {downs}");
        world.loss = 0;
        world.run(ms(4_000));
        assert!(world.all_up(), "seed {seed}: {:?}", world.states());
    }
}

#[test]
fn a_removed_session_goes_down_at_the_other_end_within_the_delay() {
    let mut world = World::new(1, ms(1_000), 3);
    world.run(ms(5_000));
    world.changes.clear();
    let removed = world.now;
    world.nodes[0].remove(&path_of(0, 2), removed).unwrap();
    world.act(0);
    world.run(ms(1_000));
    let (at, node, link, state, why) = world.changes[1];
    assert_eq!((node, link, state), (1, 2, BfdState::Down));
    assert_eq!(why, BfdDiagnostic::NEIGHBOR_SIGNALED_SESSION_DOWN);
    assert!(at.since(removed) <= ms(11));
}

#[test]
fn new_intervals_are_agreed_on_without_a_flap() {
    for seed in 0..10 {
        let mut world = World::new(seed, ms(1_000), 3);
        world.run(ms(4_000));
        assert!(world.all_up());
        world.changes.clear();
        for (node, interval) in [(0, 50), (1, 60_000), (0, 60_000), (1, 50), (0, 50)] {
            for link in 0..LINKS {
                let config = SessionConfig::every(ms(interval), 3);
                world.nodes[node].update(&path_of(node, link), config, world.now).unwrap();
            }
            world.run(Duration::from_secs(150));
            assert_eq!(world.changes, [], "seed {seed}, {interval} ms");
        }
        let view = world.nodes[1].sessions().next().unwrap();
        assert_eq!((view.transmit_interval, view.detection_time), (Some(ms(50)), Some(ms(150))));
    }
}
