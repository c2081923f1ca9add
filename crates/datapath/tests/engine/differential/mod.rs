//! Random plans and random traffic through the [engine and the reference](crate::trio), with changes in between.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use sluice_intent::plan::{Plan, Teaming};
use sluice_wire::MacAddr;

use crate::common::dice::Dice;
use crate::common::plans;
use crate::common::traffic::Traffic;
use crate::trio::Trio;

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
const NUMBERS: usize = 60;

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
        // A burst to be decided, and another one to be replayed.
        for _ in 0..2 {
            trio.receive(port, &[frame.clone(), frame.clone()]).map_err(TestCaseError::fail)?;
        }
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
        teamings in prop::collection::vec(teaming(), 8),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut plan = plan;
        for (segment, teaming) in plan.segments.iter_mut().zip(&teamings) {
            segment.teaming = teaming.unwrap_or(segment.teaming);
        }
        run([&plan, &plan], &steps)?;
    }
}

/// Another way to choose a TEP than that of the document.
fn teaming() -> impl Strategy<Value = Option<Teaming>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(Teaming::SourcePort)),
        1 => Just(Some(Teaming::SourceMac)),
    ]
}
