//! What holds whatever is received, configured and waited for.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{Action, Received, SessionConfig, Sessions, SessionsConfig};
use sluice_wire::bfd::{Bfd, BfdDiagnostic, BfdState};

use crate::support::{ms, path, read, received, written};

const STATES: [BfdState; 4] = [BfdState::AdminDown, BfdState::Down, BfdState::Init, BfdState::Up];

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Add(u8, u64, u8, bool),
    Update(u8, u64, u8, bool),
    Remove(u8),
    Path(u8, bool),
    Packet { remote: u8, state: usize, your: bool, flags: u8, multiplier: u8, intervals: [u32; 2], ttl: u8 },
    Noise(u8, Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let remote = 2u8..6;
    let config = (remote.clone(), 50u64..2000, 1u8..17, any::<bool>());
    let interval = prop_oneof![Just(0u32), 10_000u32..3_000_000, any::<u32>()];
    let packet =
        (remote.clone(), 0usize..4, any::<bool>(), 0u8..8, 1u8..6, [interval.clone(), interval], 254u8..);
    prop_oneof![
        4 => (0u64..3000).prop_map(Step::Wait),
        2 => config.clone().prop_map(|(remote, interval, multiplier, flag)| Step::Add(remote, interval, multiplier, flag)),
        1 => config.prop_map(|(remote, interval, multiplier, flag)| Step::Update(remote, interval, multiplier, flag)),
        1 => remote.clone().prop_map(Step::Remove),
        1 => (remote.clone(), any::<bool>()).prop_map(|(remote, up)| Step::Path(remote, up)),
        8 => packet.prop_map(|(remote, state, your, flags, multiplier, intervals, ttl)|
            Step::Packet { remote, state, your, flags, multiplier, intervals, ttl: if ttl == 254 { 64 } else { 255 } }),
        1 => (remote, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(remote, octets)| Step::Noise(remote, octets)),
    ]
}

struct World {
    sessions: Sessions,
    now: Timestamp,
    /// The paths' states as the actions tell.
    up: BTreeSet<u8>,
}

impl World {
    fn take(&mut self, step: &Step) {
        let now = self.now;
        match step {
            Step::Wait(time) => self.wait(*time),
            Step::Add(remote, interval, multiplier, passive) => {
                let config =
                    SessionConfig { passive: *passive, ..SessionConfig::every(ms(*interval), *multiplier) };
                let _ = self.sessions.add(path(1, *remote), config, now);
            }
            Step::Update(remote, interval, multiplier, enabled) => {
                let config =
                    SessionConfig { enabled: *enabled, ..SessionConfig::every(ms(*interval), *multiplier) };
                let _ = self.sessions.update(&path(1, *remote), config, now);
            }
            Step::Remove(remote) => {
                let _ = self.sessions.remove(&path(1, *remote), now);
            }
            Step::Path(remote, true) => self.sessions.path_up(|p| *p == path(1, *remote), now),
            Step::Path(remote, false) => self.sessions.path_down(|p| *p == path(1, *remote), now),
            Step::Packet { remote, state, your, flags, multiplier, intervals, ttl } => {
                let discriminator =
                    self.sessions.get(&path(1, *remote)).map_or(9, |view| view.local_discriminator);
                let packet = Bfd {
                    state: STATES[*state],
                    diagnostic: BfdDiagnostic::NONE,
                    poll_flag: flags & 1 != 0,
                    final_flag: flags & 2 != 0,
                    control_plane_independent: false,
                    demand: flags & 4 != 0,
                    detect_multiplier: *multiplier,
                    my_discriminator: 1 + u32::from(*remote),
                    your_discriminator: if *your { discriminator } else { 0 },
                    desired_min_tx: intervals[0],
                    required_min_rx: intervals[1],
                    required_min_echo_rx: 0,
                };
                let meta = Received { ttl: *ttl, ..received(path(1, *remote)) };
                let before = self.sessions.refusals().total();
                let result = self.sessions.receive(&meta, &written(&packet), now);
                assert_eq!(self.sessions.refusals().total() - before, u64::from(result.is_err()));
                assert!(*ttl == 255 || result.is_err());
            }
            Step::Noise(remote, octets) => {
                let _ = self.sessions.receive(&received(path(1, *remote)), octets, now);
            }
        }
        self.check();
    }

    fn wait(&mut self, time: u64) {
        let end = self.now.after(ms(time));
        while let Some(event) = self.sessions.next_event().filter(|event| *event <= end) {
            self.now = self.now.max(event);
            self.sessions.advance(self.now);
            assert!(self.sessions.next_event().is_none_or(|next| next > self.now));
            self.check();
        }
        self.now = end;
    }

    fn check(&mut self) {
        while let Some(action) = self.sessions.next_action() {
            match action {
                Action::Send { path, payload, source_port } => {
                    let packet = read(&payload);
                    assert!(!(packet.poll_flag && packet.final_flag) && source_port >= 49_152);
                    assert!(packet.desired_min_tx >= 1_000_000 || packet.state == BfdState::Up, "slow start");
                    assert!(path.local != path.remote);
                }
                Action::StateChanged { path, from, to, .. } => {
                    let std::net::IpAddr::V4(remote) = path.remote else { unreachable!() };
                    let remote = remote.octets()[3];
                    assert_ne!(from, to);
                    assert_eq!(from == BfdState::Up, self.up.contains(&remote));
                    match to {
                        BfdState::Up => self.up.insert(remote),
                        _ => self.up.remove(&remote),
                    };
                }
            }
        }
        let mut discriminators = BTreeSet::new();
        for view in self.sessions.sessions() {
            let std::net::IpAddr::V4(remote) = view.path.remote else { unreachable!() };
            assert_eq!(
                view.state == BfdState::Up,
                self.up.contains(&remote.octets()[3]),
                "what the actions tell"
            );
            assert!(view.local_discriminator != 0 && discriminators.insert(view.local_discriminator));
            assert!(view.since <= self.now);
            assert!(view.state == BfdState::Up || !view.polling);
            assert!(view.transmit_interval.is_none_or(|interval| interval >= ms(50)));
            if view.state == BfdState::Up {
                let heard = view.counters.last_received.unwrap();
                assert!(self.now.since(heard) <= view.detection_time.unwrap(), "up means heard in time");
            }
            assert_eq!(view.counters.ups - view.counters.downs, u64::from(view.state == BfdState::Up));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_happens(steps in prop::collection::vec(step(), 1..80), seed: u64) {
        let sessions = Sessions::new(SessionsConfig { sessions: 3, seed });
        let mut world = World { sessions, now: Timestamp::from_secs(5), up: BTreeSet::new() };
        for step in &steps {
            world.take(step);
        }
    }
}
