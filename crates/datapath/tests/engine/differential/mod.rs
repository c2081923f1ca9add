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
    /// The numbers that a frame is drawn from.
    Frame(Vec<u16>),
    /// An earlier frame, drawn with one number changed: often the same flow with another length, time to live or traffic class.
    Again { frame: usize, number: usize, value: u16 },
    /// A neighbour of the plan: forgotten, or at another MAC address.
    Neighbor(usize, Option<u8>),
    /// The other plan is installed.
    Install,
}

/// Numbers that a frame is drawn from.
const NUMBERS: usize = 48;

fn step() -> impl Strategy<Value = Step> {
    let numbers = prop::collection::vec(any::<u16>(), NUMBERS);
    prop_oneof![
        20 => numbers.prop_map(Step::Frame),
        20 => (0usize..64, 0..NUMBERS, any::<u16>()).prop_map(|(frame, number, value)| Step::Again { frame, number, value }),
        2 => (0usize..24, prop::option::weighted(0.7, any::<u8>())).prop_map(|(number, mac)| Step::Neighbor(number, mac)),
        1 => Just(Step::Install),
    ]
}

fn run(plans: [&Plan; 2], steps: &[Step]) -> TestCaseResult {
    let mut trio = Trio::new(plans[0]);
    let mut current = 0;
    let mut drawn: Vec<Vec<u16>> = vec![vec![0; NUMBERS]];
    for step in steps {
        let numbers = match step {
            Step::Frame(numbers) => numbers.clone(),
            Step::Again { frame, number, value } => {
                let mut numbers = drawn[frame % drawn.len()].clone();
                numbers[*number] = *value;
                numbers
            }
            Step::Neighbor(number, mac) => {
                trio.set_neighbor(*number, mac.map(|mac| MacAddr([2, 0xdf, 0, 0, 0, mac])));
                continue;
            }
            // Neighbours belong to ports: only plans with the same ports follow each other.
            Step::Install if plans[0].ports == plans[1].ports => {
                current = 1 - current;
                trio.install(plans[current]);
                continue;
            }
            Step::Install => continue,
        };
        let (port, frame) = Traffic::new(plans[current]).frame(&mut Dice::new(&numbers));
        // Once to be decided, and in one batch several times to be replayed.
        trio.receive(port, std::slice::from_ref(&frame))?;
        trio.receive(port, &[frame.clone(), frame])?;
        drawn.push(numbers);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_edge_agrees_with_the_reference(steps in prop::collection::vec(step(), 1..60)) {
        run([&plans::edge(), &plans::host()], &steps)?;
    }

    #[test]
    fn a_host_agrees_with_the_reference(steps in prop::collection::vec(step(), 1..60)) {
        run([&plans::host(), &plans::edge()], &steps)?;
    }

    #[test]
    fn any_node_agrees_with_the_reference(
        plan in sluice_intent::testing::arbitrary_plan(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        run([&plan, &plan], &steps)?;
    }
}
