//! LAGs that talk to each other over links that delay, lose, fail and are plugged in wrongly, in simulated time.

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_protocols::Timestamp;
use sluice_protocols::damping::QUIET;
use sluice_protocols::lacp::{Action, Exclusion, Lag, LagConfig, PortConfig};
use sluice_wire::MacAddr;

use crate::random::Random;
use crate::support::secs;

/// One end of a cable: a LAG and its port.
type End = (usize, u16);

struct World {
    lags: Vec<Lag>,
    /// Whom each end's cable leads to.
    cables: BTreeMap<End, End>,
    now: Timestamp,
    in_flight: BTreeMap<(Timestamp, u64), (End, Vec<u8>)>,
    sent: u64,
    loss: u64,
    delay: u64,
    /// Frames of this end are lost although its link is up.
    mute: Option<End>,
    /// Changes: when, which end, active or not.
    changes: Vec<(Timestamp, End, bool)>,
    random: Random,
}

fn system(number: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, number as u8])
}

fn config(number: usize, ports: u16, fast: bool) -> LagConfig {
    let ports = (0..ports).map(|port| PortConfig::new(port, MacAddr([2, 0, 0, 2, number as u8, port as u8])));
    LagConfig { fast, ..LagConfig::new(system(number), 10 + number as u16, ports.collect()) }
}

impl World {
    fn new(seed: u64, configs: Vec<LagConfig>, cables: &[(End, End)]) -> Self {
        let both = cables.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
        let mut world = Self {
            lags: configs.into_iter().map(|config| Lag::new(config).unwrap()).collect(),
            cables: both.collect(),
            now: Timestamp::from_secs(1),
            in_flight: BTreeMap::new(),
            sent: 0,
            loss: 0,
            delay: 20,
            mute: None,
            changes: vec![],
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        };
        cables.iter().for_each(|(end, _)| world.link(*end, true));
        world
    }

    /// Two LAGs with as many links between them as both have ports.
    fn pair(seed: u64, one: LagConfig, other: LagConfig) -> Self {
        let cables: Vec<_> = (0..one.ports.len() as u16).map(|port| ((0, port), (1, port))).collect();
        Self::new(seed, vec![one, other], &cables)
    }

    /// The cable at `end` carries or not: both of its ends see that.
    fn link(&mut self, end: End, up: bool) {
        for (lag, port) in [end, self.cables[&end]] {
            self.lags[lag].link_state(port, up.then_some(25_000), self.now);
            self.act(lag);
        }
    }

    fn act(&mut self, lag: usize) {
        while let Some(action) = self.lags[lag].next_action() {
            match action {
                Action::Send { port, frame } => {
                    self.sent += 1;
                    let end = (lag, port);
                    let to = self.cables[&end];
                    if self.random.below(1000) >= self.loss && self.mute != Some(end) {
                        let arrival =
                            self.now.after(Duration::from_millis(1 + self.random.below(self.delay)));
                        self.in_flight.insert((arrival, self.sent), (to, frame));
                    }
                }
                Action::PortChanged { port, active } => self.changes.push((self.now, (lag, port), active)),
                _ => {}
            }
        }
        // An active port's partner is the LAG's, so that no two ports of a LAG lead to different systems.
        let view = self.lags[lag].view();
        for port in view.ports.iter().filter(|port| port.active) {
            assert_eq!(Some(port.partner.system), view.partner.map(|partner| partner.system));
            assert_eq!(port.partner.system, system(self.cables[&(lag, port.port)].0), "as it is plugged in");
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now.after(time);
        loop {
            let events = self.lags.iter().filter_map(Lag::next_event);
            let arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = events.chain(arrival).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let ((lag, port), frame) = entry.remove();
                let _ = self.lags[lag].receive(port, &frame, self.now);
                self.act(lag);
            }
            for lag in 0..self.lags.len() {
                self.lags[lag].advance(self.now);
                self.act(lag);
            }
        }
        self.now = end;
    }

    fn active(&self, lag: usize) -> Vec<u16> {
        self.lags[lag].active_ports().collect()
    }
}

#[test]
fn all_links_are_active_within_seconds_and_stay_so() {
    for seed in 0..30 {
        let ports = 1 + (seed % 8) as u16;
        let (fast_0, fast_1) = (seed & 1 == 0, seed & 2 == 0);
        let other = LagConfig { active: seed & 4 == 0, ..config(1, ports, fast_1) };
        let mut world = World::pair(seed, config(0, ports, fast_0), other);
        world.run(secs(4));
        let all: Vec<_> = (0..ports).collect();
        assert_eq!((world.active(0), world.active(1)), (all.clone(), all), "seed {seed}");
        world.changes.clear();
        world.sent = 0;
        world.run(secs(600));
        assert_eq!(world.changes, [], "seed {seed}");
        // Each end is sent to as often as it asked for.
        let expected: u64 = [fast_0, fast_1].iter().map(|fast| if *fast { 600 } else { 20 }).sum();
        let each = world.sent / u64::from(ports);
        assert!(each.abs_diff(expected) <= 6, "seed {seed}: {each} instead of {expected}");
        assert!(world.lags.iter().all(|lag| lag.refusals().total() == 0));
    }
}

#[test]
fn links_that_flap_come_back_and_the_others_never_notice() {
    for seed in 0..20 {
        let mut world = World::pair(seed, config(0, 4, seed & 1 == 0), config(1, 4, true));
        world.run(secs(10));
        world.changes.clear();
        for _ in 0..20 {
            let port = world.random.below(2) as u16;
            world.link((0, port), false);
            assert!(!world.active(0).contains(&port) && !world.active(1).contains(&port));
            let pause = world.random.below(4_000);
            world.run(Duration::from_millis(pause));
            world.link((1, port), true);
            let pause = world.random.below(8_000);
            world.run(Duration::from_millis(pause));
        }
        // Those that flapped too often come back once they have been quiet.
        world.run(QUIET + secs(5));
        assert_eq!((world.active(0).len(), world.active(1).len()), (4, 4), "seed {seed}");
        assert!(world.changes.iter().all(|(_, (_, port), _)| *port < 2), "seed {seed}: {:?}", world.changes);
    }
}

#[test]
fn a_link_that_carries_one_way_only_is_given_up_by_both_ends() {
    for (fast, least, most) in [(true, 2, 4), (false, 59, 91)] {
        for seed in 0..10 {
            let mut world = World::pair(seed, config(0, 2, fast), config(1, 2, fast));
            world.run(secs(200));
            world.changes.clear();
            let cut = world.now;
            world.mute = Some((0, 1));
            world.run(secs(100));
            let ends: Vec<_> =
                world.changes.iter().filter(|(.., active)| !active).map(|(_, end, _)| *end).collect();
            assert!(ends.contains(&(1, 1)) && ends.contains(&(0, 1)), "seed {seed}: {:?}", world.changes);
            let (first, end, _) = world.changes[0];
            let seen = first.since(cut);
            assert_eq!(end, (1, 1), "the deaf end sees it");
            assert!((secs(least)..=secs(most)).contains(&seen), "seed {seed}: {seen:?}");
            // It tells the other end, whose frames still come through, once it has given up: 3 s later (§6.4.12).
            let told = world.changes.iter().find(|(_, end, _)| *end == (0, 1)).unwrap();
            assert!(told.0.since(first) <= Duration::from_millis(3100), "seed {seed}");
            assert_eq!((world.active(0), world.active(1)), (vec![0], vec![0]));
            world.mute = None;
            world.run(secs(40));
            assert_eq!((world.active(0).len(), world.active(1).len()), (2, 2), "seed {seed}");
        }
    }
}

#[test]
fn lost_frames_delay_and_do_not_prevent() {
    for seed in 0..20 {
        let mut world = World::pair(seed, config(0, 4, true), config(1, 4, true));
        world.loss = 300;
        world.run(secs(120));
        world.loss = 0;
        world.run(secs(10));
        assert_eq!((world.active(0).len(), world.active(1).len()), (4, 4), "seed {seed}");
    }
}

#[test]
fn cables_to_two_systems_are_one_lag_and_two_alarms() {
    for seed in 0..20 {
        // Four ports; the last two lead to another system, one of whose cables is plugged later.
        let cables = [((0, 0), (1, 0)), ((0, 1), (1, 1)), ((0, 2), (1, 2)), ((0, 3), (2, 0))];
        let configs = vec![config(0, 4, true), config(1, 3, true), config(2, 1, true)];
        let mut world = World::new(seed, configs, &cables);
        world.run(secs(60));
        assert_eq!(world.active(0), [0, 1, 2], "seed {seed}");
        assert_eq!(world.active(2), [0; 0], "the other system is told that its link is not in sync");
        let view = world.lags[0].view();
        assert_eq!(view.ports[3].exclusion, Some(Exclusion::OtherPartner { system: system(2), key: 12 }));
        assert!(view.ports[3].counters.other_partner > 20);
        (0..3).for_each(|port| world.link((0, port), false));
        world.run(secs(10));
        assert_eq!(
            (world.active(0), world.active(2)),
            (vec![3], vec![0]),
            "seed {seed}: better than nothing"
        );
        assert!(world.lags[0].view().ports.iter().all(|port| port.exclusion.is_none()));
    }
}

#[test]
fn both_ends_agree_which_links_stand_by() {
    for seed in 0..20 {
        let mut random = Random(seed * 77 + 1);
        let mut limited = |number: usize| {
            let mut config = config(number, 6, true);
            config.ports.iter_mut().for_each(|port| port.priority = random.below(4) as u16);
            LagConfig {
                max_links: 1 + random.below(6) as usize,
                system_priority: random.below(2) as u16,
                ..config
            }
        };
        let (one, other) = (limited(0), limited(1));
        let links = one.max_links.min(other.max_links);
        let mut world = World::pair(seed, one, other);
        for _ in 0..10 {
            world.run(secs(10));
            assert_eq!(world.active(0), world.active(1), "seed {seed}");
            assert_eq!(world.active(0).len(), links, "seed {seed}");
            let failed = world.active(0)[0];
            if links < 6 {
                world.link((0, failed), false);
                world.run(secs(5));
                assert_eq!(world.active(0).len(), links, "seed {seed}: another link takes over");
                world.link((0, failed), true);
            }
        }
    }
}

#[test]
fn a_cable_from_a_system_to_itself_carries_nothing() {
    let cables = [((0, 0), (0, 1)), ((0, 2), (1, 0))];
    let mut world = World::new(1, vec![config(0, 3, true), config(1, 1, true)], &cables);
    world.run(secs(30));
    assert_eq!(world.active(0), [2]);
    let view = world.lags[0].view();
    assert_eq!([0, 1].map(|port: usize| view.ports[port].exclusion), [Some(Exclusion::Loopback); 2]);
}
