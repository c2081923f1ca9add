//! The engine against itself without its cache, and both against the [reference](crate::reference); with a profile and without in turns.

use sluice_datapath::drops::DropReason;
use sluice_datapath::neighbor::NeighborKey;
use sluice_intent::plan::{Plan, PortIndex};
use sluice_wire::MacAddr;

use crate::common::node::{Done, Node, port_mac};
use crate::common::plans;
use crate::reference::{Outcome, Reference};

/// The engine with its cache, the engine without, and the reference, in the same state.
pub(crate) struct Trio {
    cached: Node,
    plain: Node,
    reference: Reference,
    keys: Vec<NeighborKey>,
    turn: usize,
}

impl Trio {
    pub(crate) fn new(plan: &Plan) -> Self {
        let macs = (0..plan.ports.len()).map(port_mac).collect();
        let mut trio = Self {
            cached: Node::new(plan, true),
            plain: Node::new(plan, false),
            reference: Reference::new(plan, macs),
            keys: plans::neighbors(plan),
            turn: 0,
        };
        trio.resolve();
        trio
    }

    /// Most neighbours that the plan needs and that are not known yet.
    fn resolve(&mut self) {
        for number in 0..self.keys.len() {
            if number % 5 != 4 && !self.reference.neighbors.contains_key(&self.keys[number]) {
                self.set_neighbor(number, Some(plans::neighbor_mac(number)));
            }
        }
    }

    pub(crate) fn set_neighbor(&mut self, number: usize, mac: Option<MacAddr>) {
        let Some(key) = self.keys.get(number) else { return };
        self.cached.set_neighbor(*key, mac);
        self.plain.set_neighbor(*key, mac);
        match mac {
            Some(mac) => self.reference.neighbors.insert(*key, mac),
            None => self.reference.neighbors.remove(key),
        };
    }

    pub(crate) fn install(&mut self, plan: &Plan) {
        self.cached.install(plan);
        self.plain.install(plan);
        self.reference.plan = plan.clone();
        self.keys = plans::neighbors(plan);
        self.resolve();
    }

    /// Sends the same frames through all three and compares; says what differs.
    pub(crate) fn receive(&mut self, port: PortIndex, frames: &[Vec<u8>]) -> Result<(), String> {
        self.take_turns();
        let before = self.plain.drops();
        let cached = self.cached.receive(port, frames);
        let plain = self.plain.receive(port, frames);
        let mut explained = Vec::new();
        for ((frame, cached), plain) in frames.iter().zip(&cached).zip(&plain) {
            let what = || format!("port {}: {}\n{frame:02x?}", port.0, sluice_wire::dissect(frame));
            if cached != plain {
                return Err(format!("{}\nwith the cache {cached:02x?}\nwithout {plain:02x?}", what()));
            }
            let outcomes = self.reference.outcomes(port, frame);
            let right: Vec<&Outcome> =
                outcomes.iter().filter(|outcome| self.matches(outcome, plain)).collect();
            if right.is_empty() {
                return Err(format!("{}\nexpected {:#02x?}\ngot {plain:#02x?}", what(), outcomes[0]));
            }
            self.note(&right, plain).map_err(|error| format!("{}\n{error}", what()))?;
            explained.push(right.into_iter().map(|outcome| outcome.drops.clone()).collect());
        }
        self.compare_drops(&before, &explained).map_err(|error| format!("{error} for {frames:02x?}"))
    }

    /// Begins and ends profiles, so that each of the engines runs with one and without beside the other with one and without.
    fn take_turns(&mut self) {
        self.turn += 1;
        for (node, period) in [(&mut self.cached, 2), (&mut self.plain, 4)] {
            if self.turn % period < period / 2 {
                node.profile();
            } else {
                node.end_profile();
            }
        }
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

    /// Holds the engine to its choices from now on: to those that can be told from what it did, which all outcomes that match have in common.
    fn note(&mut self, right: &[&Outcome], done: &Done) -> Result<(), String> {
        let Some((outcome, others)) = right.split_first() else { return Ok(()) };
        for taken in &outcome.taken {
            if others.iter().all(|other| other.taken.contains(taken)) {
                let (flow, ways, way) = taken;
                self.reference.chosen.insert((flow.clone(), ways.clone()), *way);
            }
        }
        for (expected, (_, frame)) in outcome.sent.iter().zip(&done.sent) {
            if let Some(outer) = &expected.outer {
                self.reference.check_entropy(outer, &mut frame.clone())?;
            }
        }
        Ok(())
    }

    /// Which packet was dropped for which reason is not told, only how many were. `explained`: the reasons of each outcome that matches, frame by
    /// frame; ways that differ in nothing but the reason are told apart by nothing else.
    fn compare_drops(
        &self,
        before: &[(DropReason, u64)],
        explained: &[Vec<Vec<DropReason>>],
    ) -> Result<(), String> {
        let (cached, plain) = (self.cached.drops(), self.plain.drops());
        if cached != plain {
            return Err(format!("counted {cached:?} with the cache, {plain:?} without"));
        }
        let count = |drops: &[(DropReason, u64)], reason| {
            drops.iter().find(|drop| drop.0 == reason).map_or(0, |drop| drop.1)
        };
        let mut counted = Vec::new();
        for reason in DropReason::ALL {
            let new = count(&plain, *reason) - count(before, *reason);
            counted.extend((0..new).map(|_| *reason));
        }
        if explain(&counted, explained) {
            Ok(())
        } else {
            Err(format!("counted {counted:?}, expected one of each of {explained:?}"))
        }
    }
}

/// Whether one outcome of each frame accounts for all that was counted.
fn explain(counted: &[DropReason], explained: &[Vec<Vec<DropReason>>]) -> bool {
    let Some((first, others)) = explained.split_first() else { return counted.is_empty() };
    first.iter().any(|reasons| {
        let mut left = counted.to_vec();
        let found = reasons.iter().all(|reason| {
            left.iter().position(|counted| counted == reason).map(|at| left.swap_remove(at)).is_some()
        });
        found && explain(&left, others)
    })
}
