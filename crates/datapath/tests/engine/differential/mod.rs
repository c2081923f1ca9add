//! The engine against itself without its cache, and both against the [reference](crate::reference).

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use sluice_datapath::drops::DropReason;
use sluice_datapath::neighbor::NeighborKey;
use sluice_intent::plan::{Plan, PortIndex};
use sluice_wire::MacAddr;

use crate::common::dice::Dice;
use crate::common::node::{Done, Node, port_mac};
use crate::common::plans;
use crate::common::traffic::Traffic;
use crate::reference::{Outcome, Reference};

/// The engine with its cache, the engine without, and the reference, in the same state.
struct Trio {
    cached: Node,
    plain: Node,
    reference: Reference,
    keys: Vec<NeighborKey>,
}

impl Trio {
    fn new(plan: &Plan) -> Self {
        let macs = (0..plan.ports.len()).map(port_mac).collect();
        let mut trio = Self {
            cached: Node::new(plan, true),
            plain: Node::new(plan, false),
            reference: Reference::new(plan, macs),
            keys: plans::neighbors(plan),
        };
        for number in 0..trio.keys.len() {
            // Some are not resolved to begin with.
            if number % 5 != 4 {
                trio.set_neighbor(number, Some(plans::neighbor_mac(number)));
            }
        }
        trio
    }

    fn set_neighbor(&mut self, number: usize, mac: Option<MacAddr>) {
        let Some(key) = self.keys.get(number) else { return };
        self.cached.set_neighbor(*key, mac);
        self.plain.set_neighbor(*key, mac);
        match mac {
            Some(mac) => self.reference.neighbors.insert(*key, mac),
            None => self.reference.neighbors.remove(key),
        };
    }

    fn install(&mut self, plan: &Plan) {
        self.cached.install(plan);
        self.plain.install(plan);
        self.reference.plan = plan.clone();
    }

    /// Sends the same frames through all three and compares.
    fn receive(&mut self, port: PortIndex, frames: &[Vec<u8>]) -> TestCaseResult {
        let before = self.plain.drops();
        let cached = self.cached.receive(port, frames);
        let plain = self.plain.receive(port, frames);
        let mut counted = Vec::new();
        for ((frame, cached), plain) in frames.iter().zip(&cached).zip(&plain) {
            prop_assert_eq!(cached, plain, "with and without the cache: port {} {:02x?}", port.0, frame);
            let outcomes = self.reference.outcomes(port, frame);
            let matching = outcomes.iter().find(|outcome| self.matches(outcome, plain));
            let Some(outcome) = matching else {
                let expected = &outcomes[0];
                let dissected = sluice_wire::dissect(frame);
                prop_assert!(false, "port {}: {dissected}\n{frame:02x?}\nexpected {expected:#02x?}\ngot {plain:#02x?}", port.0);
                continue;
            };
            let checked = self.note(&outcome.clone(), plain);
            prop_assert!(checked.is_ok(), "{checked:?}: {frame:02x?}");
            counted.extend(outcome.drops.iter().copied());
        }
        self.compare_drops(&before, counted, frames)
    }

    fn matches(&self, outcome: &Outcome, done: &Done) -> bool {
        let sent = outcome.sent.len() == done.sent.len()
            && outcome.sent.iter().zip(&done.sent).all(|(expected, (port, frame))| {
                let mut frame = frame.clone();
                let mut reference = self.reference.clone();
                let entropy = expected.outer.as_ref().map(|outer| reference.check_entropy(outer, &mut frame));
                expected.port == *port && expected.frame == frame && !matches!(entropy, Some(Err(_)))
            });
        let punted = outcome.punted.len() == done.punted.len()
            && outcome.punted.iter().zip(&done.punted).all(|((kind, entry, frame), (punt, punted))| {
                (*kind, *entry, frame) == (punt.kind, punt.entry, punted)
            });
        sent && punted
    }

    /// Holds the engine to its choices from now on.
    fn note(&mut self, outcome: &Outcome, done: &Done) -> Result<(), String> {
        for (flow, ways, way) in &outcome.taken {
            self.reference.chosen.insert((flow.clone(), *ways), *way);
        }
        for (expected, (_, frame)) in outcome.sent.iter().zip(&done.sent) {
            if let Some(outer) = &expected.outer {
                self.reference.check_entropy(outer, &mut frame.clone())?;
            }
        }
        Ok(())
    }

    fn compare_drops(&self, before: &[(DropReason, u64)], mut expected: Vec<DropReason>, frames: &[Vec<u8>]) -> TestCaseResult {
        prop_assert_eq!(self.cached.drops(), self.plain.drops(), "counted with and without the cache: {:02x?}", frames);
        let count = |drops: &[(DropReason, u64)], reason| drops.iter().find(|drop| drop.0 == reason).map_or(0, |drop| drop.1);
        let after = self.plain.drops();
        let mut counted = Vec::new();
        for reason in DropReason::ALL {
            let new = count(&after, *reason) - count(before, *reason);
            counted.extend((0..new).map(|_| *reason));
        }
        expected.sort_unstable();
        prop_assert_eq!(counted, expected, "reasons counted and expected: {:02x?}", frames);
        Ok(())
    }
}

/// One step of a case.
#[derive(Clone, Debug)]
enum Step {
    /// The numbers that a frame is drawn from, and how often it is sent at once.
    Frame(Vec<u16>, usize),
    /// A neighbour of the plan: forgotten, or at another MAC address.
    Neighbor(usize, Option<u8>),
    /// The other plan is installed.
    Install,
}

fn step() -> impl Strategy<Value = Step> {
    let numbers = prop::collection::vec(any::<u16>(), 48);
    prop_oneof![
        30 => (numbers, 1usize..4).prop_map(|(numbers, times)| Step::Frame(numbers, times)),
        2 => (0usize..24, prop::option::weighted(0.7, any::<u8>())).prop_map(|(number, mac)| Step::Neighbor(number, mac)),
        1 => Just(Step::Install),
    ]
}

fn run(plans: [&Plan; 2], steps: &[Step]) -> TestCaseResult {
    let mut trio = Trio::new(plans[0]);
    let mut current = 0;
    for step in steps {
        match step {
            Step::Frame(numbers, times) => {
                let (port, frame) = Traffic::new(plans[current]).frame(&mut Dice::new(numbers));
                trio.receive(port, &vec![frame; *times])?;
            }
            Step::Neighbor(number, mac) => {
                trio.set_neighbor(*number, mac.map(|mac| MacAddr([2, 0xdf, 0, 0, 0, mac])));
            }
            // Neighbours belong to ports, which stay the same: only plans with the same ports follow each other.
            Step::Install if plans[0].ports == plans[1].ports => {
                current = 1 - current;
                trio.install(plans[current]);
            }
            Step::Install => {}
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn an_edge_agrees_with_the_reference(steps in prop::collection::vec(step(), 1..60)) {
        run([&plans::edge(), &plans::host()], &steps)?;
    }

    #[test]
    fn a_host_agrees_with_the_reference(steps in prop::collection::vec(step(), 1..60)) {
        run([&plans::host(), &plans::edge()], &steps)?;
    }

    #[test]
    fn any_node_agrees_with_the_reference(plan in sluice_intent::testing::arbitrary_plan(), steps in prop::collection::vec(step(), 1..40)) {
        run([&plan, &plan], &steps)?;
    }
}

#[test]
fn survey() {
    use std::collections::BTreeMap;
    let seed: u64 = std::env::var("SURVEY").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let count: usize = std::env::var("SURVEY_N").ok().and_then(|s| s.parse().ok()).unwrap_or(20000);
    let mut state = seed.wrapping_mul(0x9e3779b97f4a7c15) | 1;
    let mut next = move || { state ^= state << 13; state ^= state >> 7; state ^= state << 17; (state >> 20) as u16 };
    let mut seen: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut stats: BTreeMap<String, usize> = BTreeMap::new();
    for plan in [plans::edge(), plans::host()] {
        let mut trio = Trio::new(&plan);
        for n in 0..count {
            if n % 500 == 0 { trio = Trio::new(&plan); }
            let numbers: Vec<u16> = (0..64).map(|_| next()).collect();
            let (port, frame) = Traffic::new(&plan).frame(&mut Dice::new(&numbers));
            let before = trio.plain.drops();
            let cached = trio.cached.receive_one(port, &frame);
            let plain = trio.plain.receive_one(port, &frame);
            assert_eq!(cached, plain);
            let outcomes = trio.reference.outcomes(port, &frame);
            let count = |drops: &[(DropReason, u64)], reason| drops.iter().find(|drop| drop.0 == reason).map_or(0, |drop| drop.1);
            let after = trio.plain.drops();
            let mut counted = Vec::new();
            for reason in DropReason::ALL { for _ in 0..count(&after, *reason) - count(&before, *reason) { counted.push(*reason); } }
            let shape = |sent: usize, punts: usize, drops: &[DropReason]| { let mut d = drops.to_vec(); d.sort(); format!("sent {sent} punt {punts} {d:?}") };
            *stats.entry(shape(plain.sent.len().min(2), plain.punted.len(), &counted)).or_default() += 1;
            let o = outcomes.iter().find(|o| trio.matches(o, &plain));
            if let Some(o) = o {
                let mut d = o.drops.clone(); d.sort();
                trio.note(&o.clone(), &plain).unwrap();
                if d == counted { continue; }
            }
            let e = &outcomes[0];
            let key = format!("want {} got {}", shape(e.sent.len(), e.punted.len(), &e.drops), shape(plain.sent.len(), plain.punted.len(), &counted));
            let detail = format!("port {} {}\n   want {}\n   got {}", port.0, sluice_wire::dissect(&frame), e.sent.first().map_or(String::new(), |s| format!("{} {}", s.port.0, sluice_wire::dissect(&s.frame))), plain.sent.first().map_or(String::new(), |s| format!("{} {}", s.0.0, sluice_wire::dissect(&s.1))));
            seen.entry(key).or_insert((0, detail)).0 += 1;
        }
    }
    for (k, v) in &stats { println!("{v:6} {k}"); }
    for (k, (n, d)) in &seen { println!("== {n} {k}\n   {d}"); }
}
