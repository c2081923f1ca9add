//! Search goals (RFC 9971, goal terms).

use std::time::Duration;

use super::super::Fault;
use super::super::error::Faults;

/// Narrowest relative width.
const NARROWEST: f64 = 1e-6;
/// Most trials that a load may need.
const MOST_TRIALS_A_LOAD: f64 = 100_000.0;

/// What a search looks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// A trial that loses more than this share is a high-loss trial, 0 to 1 (but not 1).
    pub loss_ratio: f64,
    /// The share of trials, by duration, that may be high-loss at a lower bound, 0 to 1 (but not 1).
    pub exceed_ratio: f64,
    /// How far the bounds may be apart: (upper − lower) / upper. Not below the loss ratio, recommends the RFC.
    pub relative_width: f64,
    /// Length of a trial. Shorter trials, which another goal asked for, count less.
    pub trial: Duration,
    /// For how long a load is measured until it is certain to be classified.
    pub duration_sum: Duration,
}

impl Goal {
    /// Non-drop rate: no loss in half of the trials.
    pub const NDR: Self = Self {
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        relative_width: 0.005,
        trial: Duration::from_secs(1),
        duration_sum: Duration::from_secs(21),
    };
    /// Partial drop rate: at most 0.5 % lost in half of the trials.
    pub const PDR: Self = Self { loss_ratio: 0.005, ..Self::NDR };

    /// The same with trials of 0.2 s, at most five of them a load, and bounds twice as far apart.
    #[must_use]
    pub const fn quick(self) -> Self {
        Self {
            relative_width: self.relative_width * 2.0,
            trial: Duration::from_millis(200),
            duration_sum: Duration::from_secs(1),
            ..self
        }
    }

    /// Whether two loads are close enough.
    pub fn is_narrow(&self, lower: f64, upper: f64) -> bool {
        upper - lower <= self.relative_width * upper
    }

    /// A goal that a single trial decides, with a wider interval: to find the region in which this goal's bounds are.
    pub(super) fn explored(&self, widths: f64) -> Self {
        Self {
            relative_width: (self.relative_width * widths).min(0.5).max(self.relative_width),
            duration_sum: self.trial,
            ..*self
        }
    }

    /// About how many trials it takes.
    pub(super) fn usual_trials(&self) -> u32 {
        // A few loads that are classified with trials of one kind, and a few single trials.
        self.trials_a_load().saturating_mul(5).saturating_add(10)
    }

    /// The trials that classify a load when they are all of one kind: as many as settle it whatever the rest would show.
    pub(super) fn trials_a_load(&self) -> u32 {
        let trials = self.duration_sum.as_secs_f64() / self.trial.as_secs_f64();
        (trials * self.exceed_ratio.max(1.0 - self.exceed_ratio)).ceil() as u32
    }

    pub(super) fn check(&self, limit: Duration, faults: &mut Faults) {
        faults.range("loss ratio", self.loss_ratio, 0.0, 1.0f64.next_down());
        faults.range("exceed ratio", self.exceed_ratio, 0.0, 1.0f64.next_down());
        faults.range("relative width", self.relative_width, NARROWEST, 0.9);
        if faults.duration(self.trial, limit) {
            let trials = self.duration_sum.as_secs_f64() / self.trial.as_secs_f64();
            if self.duration_sum < self.trial {
                faults.add(Fault::SumBelowTrial { sum: self.duration_sum, trial: self.trial });
            }
            faults.range("number of trials in a duration sum", trials, 0.0, MOST_TRIALS_A_LOAD);
        }
    }
}
