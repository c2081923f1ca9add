//! Throughput (RFC 2544 section 26.1): the highest rate at which no more than a tolerated share of the frames is lost.
//!
//! The RFC tolerates no loss; the bare-metal document tolerates 0.01 %. The search tries the maximum, then the minimum, then halves the
//! interval between the highest rate that passed and the lowest that failed. A rate fails when its first trial and all
//! retries do; it passes with the first trial that does.
//!
//! What is certain in the end, whatever the device: the lower bound passed, the upper bound failed, and they are no farther apart
//! than the resolution. Where loss does not grow with the rate there may be other such pairs.

use std::time::Duration;

use super::error::{Faults, HIGHEST_RATE};
use super::run::{Prospect, Run};
use super::{Conditions, Device, Impossible, LimitedBy, Phase, Progress, SearchError, Trial};

/// Finest resolution, of the maximum rate.
const FINEST: f64 = 1e-9;
/// Most retries.
const MOST_RETRIES: u32 = 100;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Lowest rate that is tried, frames a second.
    pub minimum: f64,
    /// Highest rate that is tried, frames a second: usually that of the medium.
    pub maximum: f64,
    /// How close the bounds have to come, frames a second.
    pub resolution: f64,
    /// Share of frames that may be lost, 0 to 1 (but not 1).
    pub loss_tolerance: f64,
    /// How long a trial sends. The RFC asks for 60 s at least in the trials that count; the bare-metal document takes 90 s.
    pub trial: Duration,
    /// How often a rate that fails is tried again before it counts as failed.
    pub retries: u32,
    /// What holds for every trial.
    pub conditions: Conditions,
}

impl Settings {
    /// As the bare-metal document has it: 1 to 100 % of the maximum, 0.01 % of loss, trials of 90 s, 3 retries. The resolution is a
    /// thousandth of the maximum.
    pub fn bare_metal(maximum: f64) -> Self {
        Self {
            minimum: maximum / 100.0,
            maximum,
            resolution: maximum / 1_000.0,
            loss_tolerance: 0.000_1,
            trial: Duration::from_secs(90),
            retries: 3,
            conditions: Conditions::default(),
        }
    }

    /// The most trials that a search with these settings takes.
    pub fn most_trials(&self) -> u32 {
        self.trials_for(2 + halvings(self.maximum - self.minimum, self.resolution))
    }

    fn trials_for(&self, rates: u32) -> u32 {
        rates.saturating_mul(self.retries.saturating_add(1))
    }

    fn check(&self) -> Result<(), Impossible> {
        let mut faults = Faults::default();
        faults.rates_and_duration(self.minimum, self.maximum, self.trial, self.conditions.limits.sending);
        let finest = if self.maximum.is_finite() { self.maximum * FINEST } else { 0.0 };
        faults.range("resolution", self.resolution, finest, HIGHEST_RATE);
        faults.range("loss tolerance", self.loss_tolerance, 0.0, 1.0f64.next_down());
        faults.range("number of retries", f64::from(self.retries), 0.0, f64::from(MOST_RETRIES));
        faults.finish()
    }
}

/// How often an interval is to be halved, at most, until it is no wider than the resolution.
fn halvings(width: f64, resolution: f64) -> u32 {
    // A little more than the ratio: halves are rounded, and the last one may be a trifle wider than it should.
    let ratio = width / resolution * (1.0 + 1e-6);
    if ratio > 1.0 { ratio.log2().ceil() as u32 } else { 0 }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The minimum failed: there is no throughput to report.
    BelowMinimum {
        /// What kept it from passing.
        limited_by: LimitedBy,
    },
    /// The throughput, to the resolution.
    Found {
        /// The highest rate that passed, frames a second: the throughput.
        throughput: f64,
        /// The lowest rate that failed, frames a second.
        upper: f64,
        /// What kept that one from passing.
        limited_by: LimitedBy,
    },
    /// The maximum passed: the device was not brought to its limit.
    AtLeastMaximum,
}

/// What was found, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Throughput {
    /// What was found.
    pub verdict: Verdict,
    /// Every trial, in order.
    pub trials: Vec<Trial>,
}

/// Searches for the throughput.
///
/// # Errors
///
/// [`SearchError`].
pub fn search<D: Device>(
    settings: &Settings,
    device: &mut D,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Throughput, SearchError<D::Error>> {
    settings.check()?;
    let mut run = Run::new(device, observer, &settings.conditions);
    let verdict = bisect(settings, &mut run)?;
    Ok(Throughput { verdict, trials: run.into_trials() })
}

fn bisect<D: Device>(settings: &Settings, run: &mut Run<'_, D>) -> Result<Verdict, SearchError<D::Error>> {
    let Settings { minimum, maximum, resolution, .. } = *settings;
    let left = settings.most_trials();
    let prospect = Prospect { phase: Phase::Maximum, lower: None, upper: None, trials_left: left };
    let Some(mut limited_by) = fails(settings, run, maximum, prospect)? else {
        return Ok(Verdict::AtLeastMaximum);
    };
    if minimum == maximum {
        return Ok(Verdict::BelowMinimum { limited_by });
    }
    let (mut lower, mut upper) = (minimum, maximum);
    let left = settings.trials_for(1 + halvings(upper - lower, resolution));
    let prospect = Prospect { phase: Phase::Minimum, lower: None, upper: Some(upper), trials_left: left };
    if let Some(limited_by) = fails(settings, run, minimum, prospect)? {
        return Ok(Verdict::BelowMinimum { limited_by });
    }
    while upper - lower > resolution {
        let rate = lower + (upper - lower) / 2.0;
        let prospect = Prospect {
            phase: Phase::Narrowing,
            lower: Some(lower),
            upper: Some(upper),
            trials_left: settings.trials_for(halvings(upper - lower, resolution)),
        };
        match fails(settings, run, rate, prospect)? {
            None => lower = rate,
            Some(by) => (upper, limited_by) = (rate, by),
        }
    }
    Ok(Verdict::Found { throughput: lower, upper, limited_by })
}

/// Whether a rate fails, and because of whom.
fn fails<D: Device>(
    settings: &Settings,
    run: &mut Run<'_, D>,
    rate: f64,
    prospect: Prospect,
) -> Result<Option<LimitedBy>, SearchError<D::Error>> {
    let mut retry = 0;
    loop {
        let phase = if retry == 0 { prospect.phase } else { Phase::Retrying { retry } };
        let trials_left = prospect.trials_left.saturating_sub(retry);
        let trial = run.load(rate, settings.trial, Prospect { phase, trials_left, ..prospect })?;
        if trial.loss_ratio() <= settings.loss_tolerance {
            return Ok(None);
        }
        if retry == settings.retries {
            return Ok(Some(trial.limited_by()));
        }
        retry += 1;
    }
}

#[cfg(test)]
mod tests;
