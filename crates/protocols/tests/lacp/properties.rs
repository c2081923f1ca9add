//! What holds whatever is received, plugged, configured and waited for.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_protocols::Timestamp;
use sluice_protocols::lacp::{Action, Exclusion, Lag, LagConfig, Selected};
use sluice_wire::MacAddr;
use sluice_wire::lacp::{Lacp, LacpState, PortInfo};

use crate::support::{OWN, PARTNER, STRANGER, config, mac, secs, written};

const PORTS: u16 = 4;

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Link(u16, Option<u32>),
    Hear { port: u16, system: usize, key: u16, state: u8, knows: bool },
    Noise(u16, Vec<u8>),
    Configure { ports: u16, max: usize, key: u16, fast: bool, active: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let port = 0..PORTS;
    let link = prop_oneof![1 => Just(None), 3 => Just(Some(10_000)), 1 => Just(Some(1_000))];
    // Mostly partners that are ready, so that links come up.
    let state = prop_oneof![3 => Just(0x3d), 1 => Just(0x0f), 1 => any::<u8>()];
    let system = prop_oneof![6 => Just(0usize), 1 => Just(1), 1 => Just(2)];
    let hear = (port.clone(), system, 1u16..3, state, prop::bool::weighted(0.9));
    prop_oneof![
        5 => (0u64..4000).prop_map(Step::Wait),
        1 => (0u64..200_000).prop_map(Step::Wait),
        3 => (port.clone(), link).prop_map(|(port, link)| Step::Link(port, link)),
        12 => hear.prop_map(|(port, system, key, state, knows)| Step::Hear { port, system, key, state, knows }),
        1 => (port, prop::collection::vec(any::<u8>(), 0..140)).prop_map(|(port, octets)| Step::Noise(port, octets)),
        1 => (2..=PORTS, 1usize..4, 1u16..3, any::<bool>(), any::<bool>())
            .prop_map(|(ports, max, key, fast, active)| Step::Configure { ports, max, key, fast, active }),
    ]
}

struct World {
    lag: Lag,
    now: Timestamp,
    max_links: usize,
    /// What the actions tell.
    active: BTreeSet<u16>,
    excluded: BTreeMap<u16, Exclusion>,
    up: bool,
    /// When LACPDUs were sent.
    sent: BTreeMap<u16, Vec<Timestamp>>,
}

impl World {
    fn new() -> Self {
        Self {
            lag: Lag::new(config(PORTS)).unwrap(),
            now: Timestamp::from_secs(5),
            max_links: 32,
            active: BTreeSet::new(),
            excluded: BTreeMap::new(),
            up: false,
            sent: BTreeMap::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        let now = self.now;
        match step {
            Step::Wait(time) => self.wait(*time),
            Step::Link(port, megabits) => {
                self.lag.link_state(*port, *megabits, now);
                assert!(
                    megabits.is_some() || !self.lag.active_ports().any(|active| active == *port),
                    "at once"
                );
            }
            Step::Hear { port, system, key, state, knows } => {
                let view = self.lag.view();
                let ours = view.ports.iter().find(|view| view.port == *port).map(|view| view.actor);
                let actor = PortInfo {
                    system_priority: 0x8000,
                    system: [PARTNER, STRANGER, OWN][*system],
                    key: *key,
                    port_priority: 10 * (PORTS - port),
                    port: port + 1,
                    state: LacpState::from_bits(*state),
                };
                let partner = ours.filter(|_| *knows).unwrap_or_default();
                let frame = written(mac(200), Lacp { actor, partner, collector_max_delay: 0 });
                let accepted = self.lag.receive(*port, &frame, now);
                assert!(*system != 2 || accepted.is_err(), "a loop is refused");
            }
            Step::Noise(port, octets) => {
                assert!(self.lag.receive(*port, octets, now).is_err());
            }
            Step::Configure { ports, max, key, fast, active } => {
                let config =
                    LagConfig { max_links: *max, key: *key, fast: *fast, active: *active, ..config(*ports) };
                self.max_links = *max;
                self.lag.configure(config, now).unwrap();
                self.sent.retain(|port, _| port < ports);
            }
        }
        self.check();
    }

    fn wait(&mut self, time: u64) {
        let end = self.now.after(std::time::Duration::from_millis(time));
        while let Some(event) = self.lag.next_event().filter(|event| *event <= end) {
            assert!(event > self.now || event == end);
            self.now = event;
            self.lag.advance(event);
            assert!(self.lag.next_event().is_none_or(|next| next > event));
            self.check();
        }
        self.now = end;
    }

    fn check(&mut self) {
        let mut actions = 0;
        while let Some(action) = self.lag.next_action() {
            actions += 1;
            match action {
                Action::Send { port, .. } => self.count_sent(port),
                Action::PortChanged { port, active: true } => assert!(self.active.insert(port)),
                Action::PortChanged { port, active: false } => assert!(self.active.remove(&port)),
                Action::StateChanged { up } => {
                    assert_ne!(up, self.up);
                    self.up = up;
                }
                Action::Excluded { port, reason: Some(reason) } => {
                    assert_ne!(self.excluded.insert(port, reason), Some(reason));
                }
                Action::Excluded { port, reason: None } => assert!(self.excluded.remove(&port).is_some()),
                Action::Churn { .. } => {}
            }
        }
        assert!(actions <= 6 * usize::from(PORTS), "{actions} actions of one step");
        self.check_view();
    }

    fn count_sent(&mut self, port: u16) {
        let sent = self.sent.entry(port).or_default();
        sent.push(self.now);
        if let [.., first, _, _, last] = sent[..] {
            assert!(last.since(first) > secs(1), "more than three LACPDUs in a second");
        }
    }

    fn check_view(&self) {
        let view = self.lag.view();
        let told: BTreeSet<_> = view.ports.iter().filter(|port| port.active).map(|port| port.port).collect();
        assert_eq!(told, self.active, "the actions tell what is");
        assert_eq!(view.up, self.up);
        assert!(told.len() <= self.max_links);
        let mut speeds = BTreeSet::new();
        for port in &view.ports {
            assert_eq!(self.excluded.get(&port.port), port.exclusion.as_ref());
            let distributing = LacpState::COLLECTING.and(LacpState::DISTRIBUTING);
            assert_eq!(port.actor.state.contains(distributing), port.active);
            assert_ne!(port.partner.system, OWN);
            if port.active {
                assert!(port.partner.state.contains(LacpState::SYNCHRONIZATION), "{port:?}");
                assert!(port.actor.state.contains(LacpState::SYNCHRONIZATION));
                assert_eq!((port.selected, port.exclusion), (Selected::Selected, None));
                let partner = view.partner.unwrap();
                assert_eq!((port.partner.system, port.partner.key), (partner.system, partner.key));
                speeds.insert(port.megabits.unwrap());
            }
        }
        assert!(speeds.len() <= 1, "links of one speed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_happens(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
    }

    #[test]
    fn a_ready_partner_is_active_within_the_wait(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.take(step));
        // Whatever was before: links that are new, and a partner that is ready, are a LAG of all its links.
        world.take(&Step::Configure { ports: PORTS, max: 3, key: 1, fast: false, active: true });
        (0..PORTS).for_each(|port| world.take(&Step::Link(port, None)));
        // None of them is left out for flapping.
        world.take(&Step::Wait(10_000));
        (0..PORTS).for_each(|port| world.take(&Step::Link(port, Some(25_000))));
        for _ in 0..6 {
            let ready = |port| Step::Hear { port, system: 0, key: 1, state: 0x3d, knows: true };
            (0..PORTS).for_each(|port| world.take(&ready(port)));
            world.take(&Step::Wait(500));
        }
        prop_assert_eq!(world.active.len(), 3);
        prop_assert_eq!(world.lag.partner().map(|partner| partner.system), Some(MacAddr([2, 0, 0, 0, 0, 0x20])));
    }
}
