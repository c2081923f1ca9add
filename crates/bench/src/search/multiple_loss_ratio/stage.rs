//! Which load to measure next, for one goal.

use super::Ending;
use super::goal::Goal;
use super::load::{Classification, Loads};

/// The two ends of an interval of loads, frames a second, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    pub(super) lower: Option<f64>,
    pub(super) upper: Option<f64>,
}

impl Bounds {
    /// How a search between two loads has ended for a goal with these relevant bounds, if it has.
    pub(super) fn ending(self, goal: &Goal, minimum: f64, maximum: f64) -> Option<Ending> {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) if goal.is_narrow(lower, upper) => Some(Ending::Regular),
            (None, Some(upper)) if upper <= minimum => Some(Ending::BelowMinimum),
            (Some(lower), None) if lower >= maximum => Some(Ending::AtLeastMaximum),
            _ => None,
        }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// Run a trial at this load.
    Measure(f64),
    /// Nothing: the goal has its bounds, or cannot have them between minimum and maximum.
    Finished,
}

/// The search for one goal's bounds, from a hint on where they may be.
///
/// A load that was chosen stays chosen until it is classified, since the choice depends on the bounds alone. Then it is a bound, and the
/// interval shrinks, or where one end is missing, the next step outwards is twice as wide. So the number of loads is bounded by the
/// logarithm of the range over the width.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    goal: &'a Goal,
    minimum: f64,
    maximum: f64,
    hint: Bounds,
    /// How far to step outwards next, relative.
    step: f64,
    /// The bounds from which the step was last doubled.
    stepped_from: Option<Bounds>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(goal: &'a Goal, minimum: f64, maximum: f64, hint: Bounds) -> Self {
        Self { goal, minimum, maximum, hint, step: goal.relative_width / 2.0, stepped_from: None }
    }

    pub(super) fn bounds(&self, loads: &Loads) -> Bounds {
        loads.relevant_bounds(self.goal)
    }

    pub(super) fn next(&mut self, loads: &Loads) -> Next {
        let bounds = self.bounds(loads);
        if bounds.ending(self.goal, self.minimum, self.maximum).is_some() {
            return Next::Finished;
        }
        Next::Measure(match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) => self.between(lower, upper, loads),
            (None, Some(upper)) => self.below(upper, bounds, loads),
            (Some(lower), None) => self.above(lower, bounds, loads),
            (None, None) => self.hint.lower.or(self.hint.upper).unwrap_or(self.maximum),
        })
    }

    /// About how many trials are left.
    pub(super) fn trials_left(&self, bounds: Bounds) -> u32 {
        let lower = bounds.lower.or(self.hint.lower).unwrap_or(self.minimum);
        let upper = bounds.upper.or(self.hint.upper).unwrap_or(self.maximum);
        let widths = (upper / lower).ln().max(0.0) / self.goal.relative_width;
        let missing = u32::from(bounds.lower.is_none()) + u32::from(bounds.upper.is_none());
        let halvings = widths.max(1.0).log2().ceil() as u32;
        (halvings + missing).max(1).saturating_mul(self.goal.trials_a_load())
    }

    /// A load inside the interval: the ends of the hint, if they are there, otherwise the middle in proportion.
    fn between(&self, lower: f64, upper: f64, loads: &Loads) -> f64 {
        [self.hint.lower, self.hint.upper]
            .into_iter()
            .flatten()
            .find(|&hint| lower < hint && hint < upper && self.is_undecided(hint, loads))
            .unwrap_or_else(|| (lower * upper).sqrt())
    }

    /// A load below the smallest upper bound.
    fn below(&mut self, upper: f64, bounds: Bounds, loads: &Loads) -> f64 {
        if let Some(hint) = self.hint.lower.filter(|&hint| hint < upper && self.is_undecided(hint, loads)) {
            return hint;
        }
        let step = self.step_outwards(bounds);
        (upper * (1.0 - step)).max(self.minimum)
    }

    /// A load above the largest lower bound.
    fn above(&mut self, lower: f64, bounds: Bounds, loads: &Loads) -> f64 {
        if let Some(hint) = self.hint.upper.filter(|&hint| lower < hint && self.is_undecided(hint, loads)) {
            return hint;
        }
        let step = self.step_outwards(bounds);
        (lower / (1.0 - step)).min(self.maximum)
    }

    fn step_outwards(&mut self, bounds: Bounds) -> f64 {
        if self.stepped_from != Some(bounds) {
            self.stepped_from = Some(bounds);
            self.step = (self.step * 2.0).min(0.5);
        }
        self.step
    }

    fn is_undecided(&self, load: f64, loads: &Loads) -> bool {
        loads.classify(load, self.goal) == Classification::Undecided
    }
}
