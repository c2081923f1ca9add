//! What a search is doing, for a progress bar.

use std::time::Duration;

use super::trial::Traffic;

/// What a trial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A trial that brings device and generator to working temperature and is not judged.
    WarmUp,
    /// Whether the device reaches the maximum at all.
    Maximum,
    /// Whether it works at the minimum.
    Minimum,
    /// Narrowing the interval in which the answer is.
    Narrowing,
    /// A trial that failed is repeated.
    Retrying {
        /// Number of the repetition, from 1.
        retry: u32,
    },
    /// One of a series of given loads.
    Step {
        /// Number of the step, from 1.
        step: u32,
    },
    /// Looking for a goal with single trials.
    Exploring {
        /// Index of the goal in the settings.
        goal: usize,
    },
    /// Confirming bounds of a goal.
    Confirming {
        /// Index of the goal in the settings.
        goal: usize,
    },
    /// One of several whole searches.
    Repetition {
        /// Its number, from 1.
        repetition: u32,
    },
}

/// What a search is doing. Told before each trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What the trial is for.
    pub phase: Phase,
    /// What it sends.
    pub traffic: Traffic,
    /// The highest rate (frames a second) or burst (frames) known to pass.
    pub lower: Option<f64>,
    /// The lowest rate or burst known to fail.
    pub upper: Option<f64>,
    /// Trials done.
    pub trials_done: u32,
    /// Trials that are left, this one included: an estimate, which may grow.
    pub trials_left: u32,
    /// Time of sending so far.
    pub sending_done: Duration,
    /// Time of sending that is left: an estimate, which may grow.
    pub sending_left: Duration,
}

impl Progress {
    /// The share that is done, 0 to 1.
    pub fn share(&self) -> f64 {
        let done = f64::from(self.trials_done);
        done / (done + f64::from(self.trials_left.max(1)))
    }
}
