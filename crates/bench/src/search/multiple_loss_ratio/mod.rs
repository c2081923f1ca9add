//! Multiple Loss Ratio search (RFC 9971): several goals in one search, each with a lower and an upper bound.
//!
//! A trial of one second says little of a software data plane: the same load passes once and fails once. So a load is judged by many
//! short trials. A [`Goal`] says which share of them may lose more than it tolerates (the exceed ratio), and for how long
//! trials go on (the duration sum). `load.rs` is the classification of RFC 9971 appendix A and the conditional throughput of
//! appendix B, `stage.rs` the choice of the next load; this file holds them together.
//!
//! 1. A trial at the maximum load, which is not judged, warms up device and generator. Another one, which is, gives a forwarding rate:
//!    the guess to start from.
//! 2. *Exploring*: for each goal, an interval of several times its width is found with one trial a load.
//! 3. *Confirming*: the ends of that interval are measured until they are classified, then it is narrowed to the goal's width. Where
//!    an end turns out to be on the other side, the search moves outwards in steps that double.
//!
//! Each trial counts for every goal, so that a later goal finds much of its work done.

mod goal;
mod load;
mod stage;

pub use goal::Goal;
pub use load::Classification;

use load::{Loads, Measured};
use stage::{Bounds, Next, Stage};

use std::time::Duration;

use super::error::{Faults, LimitReached, SearchError};
use super::run::{Prospect, Run};
use super::{Conditions, Device, Fault, Impossible, LimitedBy, Phase, Progress, Trial};

/// An interval that is explored is so many times as wide as the goal's in the end.
const EXPLORED_WIDTHS: f64 = 4.0;
/// Most goals of a search.
const MOST_GOALS: u64 = 16;

/// How to search.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Lowest load, frames a second.
    pub minimum: f64,
    /// Highest load, frames a second.
    pub maximum: f64,
    /// What to look for.
    pub goals: Vec<Goal>,
    /// What holds for every trial.
    pub conditions: Conditions,
}

impl Settings {
    /// The usual two goals: [`Goal::NDR`] and [`Goal::PDR`].
    pub fn ndr_and_pdr(minimum: f64, maximum: f64) -> Self {
        Self { minimum, maximum, goals: vec![Goal::NDR, Goal::PDR], conditions: Conditions::default() }
    }

    /// The same with [`Goal::quick`]: some tens of seconds instead of some minutes, with less to rest on.
    pub fn quick(minimum: f64, maximum: f64) -> Self {
        let goals = vec![Goal::NDR.quick(), Goal::PDR.quick()];
        Self { goals, ..Self::ndr_and_pdr(minimum, maximum) }
    }

    fn check(&self) -> Result<(), Impossible> {
        let mut faults = Faults::default();
        let limit = self.conditions.limits.sending;
        let shortest = self.goals.iter().map(|goal| goal.trial).min();
        match shortest {
            Some(trial) => faults.rates_and_duration(self.minimum, self.maximum, trial, limit),
            None => faults.add(Fault::Missing { setting: "goal" }),
        }
        faults.range("number of goals", self.goals.len() as f64, 0.0, MOST_GOALS as f64);
        for goal in &self.goals {
            goal.check(limit, &mut faults);
        }
        faults.finish()
    }
}

/// How the search for one goal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A regular goal result: both bounds exist, no farther apart than the goal's width.
    Regular,
    /// An irregular one: the minimum load is an upper bound. There is no number to report.
    BelowMinimum,
    /// An irregular one: the maximum load is a lower bound. The device was not brought to its limit.
    AtLeastMaximum,
    /// An irregular one: the limits of the search were reached first. The bounds are farther apart, or missing.
    LimitReached,
}

/// What was found for one goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// How it ended.
    pub ending: Ending,
    /// The largest load below the upper bound that is classified as a lower bound, frames a second.
    pub relevant_lower_bound: Option<f64>,
    /// The smallest load that is classified as an upper bound, frames a second.
    pub relevant_upper_bound: Option<f64>,
    /// What makes it an upper bound: if it is the sender, the device may do better.
    pub limited_by: Option<LimitedBy>,
    /// The forwarding rate to expect at the lower bound, frames a second.
    pub conditional_throughput: Option<f64>,
}

/// What was found, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct MultipleLossRatio {
    /// A result for each goal, in the order of the settings.
    pub goals: Vec<GoalResult>,
    /// What ended the search before its time, if anything did.
    pub limit_reached: Option<LimitReached>,
    /// Every trial, in order; the first is the warm-up.
    pub trials: Vec<Trial>,
}

/// Searches for all goals.
///
/// # Errors
///
/// [`SearchError`], but [`SearchError::LimitReached`] only where the limits do not allow for the warm-up: later the results so far are
/// given, marked with [`Ending::LimitReached`].
pub fn search<D: Device>(
    settings: &Settings,
    device: &mut D,
    observer: &mut dyn FnMut(&Progress),
) -> Result<MultipleLossRatio, SearchError<D::Error>> {
    settings.check()?;
    let mut controller = Controller {
        settings,
        run: Run::new(device, observer, &settings.conditions),
        loads: Loads::default(),
    };
    controller.warm_up()?;
    let limit_reached = match controller.all_goals() {
        Ok(()) => None,
        Err(SearchError::LimitReached(limit)) => Some(limit),
        Err(error) => return Err(error),
    };
    let goals = settings.goals.iter().map(|goal| controller.result(goal)).collect();
    Ok(MultipleLossRatio { goals, limit_reached, trials: controller.run.into_trials() })
}

struct Controller<'a, 'r, D> {
    settings: &'a Settings,
    run: Run<'r, D>,
    loads: Loads,
}

impl<D: Device> Controller<'_, '_, D> {
    /// The length of trials that belong to no goal in particular.
    fn longest_trial(&self) -> Duration {
        self.settings.goals.iter().map(|goal| goal.trial).max().unwrap_or_default()
    }

    /// The first trial, whose result is forgotten.
    fn warm_up(&mut self) -> Result<(), SearchError<D::Error>> {
        let prospect =
            Prospect { phase: Phase::WarmUp, lower: None, upper: None, trials_left: self.estimate(0) };
        self.run.load(self.settings.maximum, self.longest_trial(), prospect)?;
        Ok(())
    }

    fn all_goals(&mut self) -> Result<(), SearchError<D::Error>> {
        let maximum = self.settings.maximum;
        let prospect =
            Prospect { phase: Phase::Maximum, lower: None, upper: None, trials_left: self.estimate(0) };
        let first = self.measure(maximum, self.longest_trial(), prospect)?;
        // What comes back at the maximum is about what could be sent without loss, if overload costs the device nothing.
        let guess = first.forwarding_rate().clamp(self.settings.minimum, maximum);
        for (index, goal) in self.settings.goals.iter().enumerate() {
            let explored = goal.explored(EXPLORED_WIDTHS);
            let around = Bounds { lower: Some(guess), upper: None };
            let interval = self.pursue(index, &explored, around, Phase::Exploring { goal: index })?;
            self.pursue(index, goal, interval, Phase::Confirming { goal: index })?;
        }
        // Trials for a later goal may have changed what a load is to an earlier one.
        while let Some(index) = self.settings.goals.iter().position(|goal| self.ending(goal).is_none()) {
            let goal = &self.settings.goals[index];
            let bounds = self.loads.relevant_bounds(goal);
            self.pursue(index, goal, bounds, Phase::Confirming { goal: index })?;
        }
        Ok(())
    }

    /// Measures loads until a goal has its bounds.
    fn pursue(
        &mut self,
        index: usize,
        goal: &Goal,
        hint: Bounds,
        phase: Phase,
    ) -> Result<Bounds, SearchError<D::Error>> {
        let mut stage = Stage::new(goal, self.settings.minimum, self.settings.maximum, hint);
        loop {
            let bounds = stage.bounds(&self.loads);
            let Next::Measure(load) = stage.next(&self.loads) else { return Ok(bounds) };
            let trials_left = stage.trials_left(bounds).saturating_add(self.estimate(index + 1));
            let prospect = Prospect { phase, lower: bounds.lower, upper: bounds.upper, trials_left };
            self.measure(load, goal.trial, prospect)?;
        }
    }

    fn measure(
        &mut self,
        load: f64,
        duration: Duration,
        prospect: Prospect,
    ) -> Result<Trial, SearchError<D::Error>> {
        let trial = self.run.load(load, duration, prospect)?;
        let (loss_ratio, limited_by) = (trial.loss_ratio(), trial.limited_by());
        self.loads.add(load, Measured { duration, loss_ratio, limited_by });
        Ok(trial)
    }

    /// About how many trials the goals from an index on take, nothing being known.
    fn estimate(&self, from: usize) -> u32 {
        self.settings
            .goals
            .iter()
            .skip(from)
            .fold(0, |sum: u32, goal| sum.saturating_add(goal.usual_trials()))
    }

    /// How the search for a goal has ended, if it has.
    fn ending(&self, goal: &Goal) -> Option<Ending> {
        let Settings { minimum, maximum, .. } = *self.settings;
        self.loads.relevant_bounds(goal).ending(goal, minimum, maximum)
    }

    fn result(&self, goal: &Goal) -> GoalResult {
        let Bounds { lower, upper } = self.loads.relevant_bounds(goal);
        GoalResult {
            goal: *goal,
            ending: self.ending(goal).unwrap_or(Ending::LimitReached),
            relevant_lower_bound: lower,
            relevant_upper_bound: upper,
            limited_by: upper.and_then(|load| self.loads.limited_by(load, goal)),
            conditional_throughput: lower.and_then(|load| self.loads.conditional_throughput(load, goal)),
        }
    }
}

#[cfg(test)]
mod tests;
