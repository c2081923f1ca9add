//! Back-to-back frames (RFC 2544 section 26.4, RFC 9004): the longest burst at the maximum frame rate that is not lost, and what
//! it says about the device's buffer.
//!
//! Each repetition is a binary search over the length of the burst; the average over all is the result (the RFC asks for 50). While a
//! burst fills the buffer, the device goes on emptying it at its throughput. The implied buffer time forgets that; the corrected one
//! (RFC 9004) does not:
//!
//! ```text
//!   implied buffer time   = average burst / maximum frame rate
//!   corrected buffer time = implied buffer time × (1 − throughput / maximum frame rate)
//! ```
//!
//! A device whose throughput is the maximum frame rate has no longest burst; RFC 9004 does not test it.

use std::time::Duration;

use super::error::{Faults, HIGHEST_RATE, SearchError};
use super::run::{Prospect, Run};
use super::{Conditions, Device, Fault, Impossible, Invalid, Phase, Progress, Trial};

/// Most frames of a burst.
const MOST_FRAMES: u64 = 1 << 40;
/// A burst may take so much longer than at the maximum frame rate, in proportion, and still be back to back.
const PACE_TOLERANCE: f64 = 0.1;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Shortest burst that is tried, frames.
    pub minimum: u64,
    /// Longest burst that is tried, frames. RFC 2544 wants at least 2 s worth of frames before a device counts as without limit.
    pub maximum: u64,
    /// How close the bounds have to come, frames.
    pub resolution: u64,
    /// How often the search is repeated.
    pub repetitions: u32,
    /// The highest frame rate of the medium at this frame size, frames a second: that of a burst.
    pub maximum_frame_rate: f64,
    /// The device's throughput at this frame size, frames a second, from [`super::throughput`].
    pub throughput: f64,
    /// What holds for every trial.
    pub conditions: Conditions,
}

impl Settings {
    /// Bursts of up to 2 s, to the frame, 50 times.
    pub fn rfc_9004(maximum_frame_rate: f64, throughput: f64) -> Self {
        Self {
            minimum: 1,
            maximum: (maximum_frame_rate * 2.0) as u64,
            resolution: 1,
            repetitions: 50,
            maximum_frame_rate,
            throughput,
            conditions: Conditions::default(),
        }
    }

    /// The most trials that a search with these settings takes.
    pub fn most_trials(&self) -> u32 {
        let width = self.maximum.saturating_sub(self.minimum);
        self.repetitions.saturating_mul(2 + halvings(width, self.resolution))
    }

    fn check(&self) -> Result<(), Impossible> {
        let mut faults = Faults::default();
        let minimum_is_count = faults.count("shortest burst", self.minimum, MOST_FRAMES);
        let maximum_is_count = faults.count("longest burst", self.maximum, MOST_FRAMES);
        if minimum_is_count && maximum_is_count && self.maximum < self.minimum {
            faults.add(Fault::MaximumBelowMinimum {
                setting: "burst",
                minimum: self.minimum as f64,
                maximum: self.maximum as f64,
            });
        }
        faults.count("resolution", self.resolution, MOST_FRAMES);
        faults.count("number of repetitions", u64::from(self.repetitions), 10_000);
        let is_rate = faults.rate("maximum frame rate", self.maximum_frame_rate);
        let most = if is_rate { self.maximum_frame_rate } else { HIGHEST_RATE };
        faults.range("throughput", self.throughput, 0.0, most);
        if is_rate && maximum_is_count {
            faults.duration(self.time(self.maximum), self.conditions.limits.sending);
        }
        faults.finish()
    }

    /// How long a burst takes at the maximum frame rate.
    fn time(&self, frames: u64) -> Duration {
        Duration::from_secs_f64(frames as f64 / self.maximum_frame_rate)
    }
}

/// How often an interval is to be halved until it is no wider than the resolution.
fn halvings(width: u64, resolution: u64) -> u32 {
    let steps = width.div_ceil(resolution.max(1)).max(1);
    u64::BITS - (steps - 1).leading_zeros()
}

/// What was found, of all repetitions.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// In one repetition or more the shortest burst was lost: there is no number.
    BelowMinimum {
        /// In how many.
        repetitions: u32,
    },
    /// The longest bursts.
    Found(Bursts),
    /// In one repetition or more the longest burst of the settings was not lost: the device holds at least these.
    AtLeast {
        /// The longest bursts that were tried and not lost.
        bursts: Bursts,
        /// In how many repetitions the maximum was reached.
        repetitions: u32,
    },
}

/// The longest bursts without loss, over all repetitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Bursts {
    /// The longest burst of each repetition, frames.
    pub lengths: Vec<u64>,
    /// Average, frames.
    pub average: f64,
    /// Least, frames.
    pub least: u64,
    /// Most, frames.
    pub most: u64,
    /// Standard deviation (of a sample), frames; 0 for a single repetition.
    pub standard_deviation: f64,
    /// Average burst over maximum frame rate.
    pub implied_buffer_time: Duration,
    /// The same without what was forwarded meanwhile.
    pub corrected_buffer_time: Duration,
}

/// What was found, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct BackToBack {
    /// What was found.
    pub verdict: Verdict,
    /// Every trial, in order.
    pub trials: Vec<Trial>,
}

/// The end of one repetition.
enum Longest {
    BelowMinimum,
    Found(u64),
    AtLeastMaximum,
}

/// Searches for the longest burst without loss.
///
/// # Errors
///
/// [`SearchError`]; a burst that was not sent back to back is [`Invalid::BurstTooSlow`], one that was not sent whole
/// [`Invalid::BurstIncomplete`].
pub fn search<D: Device>(
    settings: &Settings,
    device: &mut D,
    observer: &mut dyn FnMut(&Progress),
) -> Result<BackToBack, SearchError<D::Error>> {
    settings.check()?;
    let mut bursts = Bisection { settings, run: Run::new(device, observer, &settings.conditions), trials: 0 };
    let (mut lengths, mut below, mut at_maximum) = (Vec::new(), 0, 0);
    for repetition in 1..=settings.repetitions {
        match bursts.longest(repetition)? {
            Longest::BelowMinimum => below += 1,
            Longest::Found(frames) => lengths.push(frames),
            Longest::AtLeastMaximum => {
                lengths.push(settings.maximum);
                at_maximum += 1;
            }
        }
    }
    let verdict = match (below, at_maximum) {
        (0, 0) => Verdict::Found(Bursts::of(&lengths, settings)),
        (0, repetitions) => Verdict::AtLeast { bursts: Bursts::of(&lengths, settings), repetitions },
        (repetitions, _) => Verdict::BelowMinimum { repetitions },
    };
    Ok(BackToBack { verdict, trials: bursts.run.into_trials() })
}

/// The binary searches of all repetitions.
struct Bisection<'a, 'r, D> {
    settings: &'a Settings,
    run: Run<'r, D>,
    trials: u32,
}

impl<D: Device> Bisection<'_, '_, D> {
    fn longest(&mut self, repetition: u32) -> Result<Longest, SearchError<D::Error>> {
        let Settings { minimum, maximum, resolution, .. } = *self.settings;
        if self.passes(repetition, maximum, None, None)? {
            return Ok(Longest::AtLeastMaximum);
        }
        if minimum == maximum || !self.passes(repetition, minimum, None, Some(maximum))? {
            return Ok(Longest::BelowMinimum);
        }
        let (mut lower, mut upper) = (minimum, maximum);
        while upper - lower > resolution {
            let frames = lower + (upper - lower) / 2;
            match self.passes(repetition, frames, Some(lower), Some(upper))? {
                true => lower = frames,
                false => upper = frames,
            }
        }
        Ok(Longest::Found(lower))
    }

    /// Whether a burst came back whole.
    fn passes(
        &mut self,
        repetition: u32,
        frames: u64,
        lower: Option<u64>,
        upper: Option<u64>,
    ) -> Result<bool, SearchError<D::Error>> {
        let prospect = Prospect {
            phase: Phase::Repetition { repetition },
            lower: lower.map(|frames| frames as f64),
            upper: upper.map(|frames| frames as f64),
            trials_left: self.settings.most_trials().saturating_sub(self.trials),
        };
        self.trials += 1;
        let trial = self.run.burst(frames, self.settings.time(frames), prospect)?;
        let expected = self.settings.time(frames - 1);
        let slowest = expected.mul_f64(1.0 + PACE_TOLERANCE) + self.settings.conditions.unsent_grace;
        if trial.sending > slowest {
            return Err(SearchError::Invalid {
                trial: self.trials,
                traffic: trial.traffic,
                reason: Invalid::BurstTooSlow { sending: trial.sending, expected },
            });
        }
        Ok(trial.lost() == 0)
    }
}

impl Bursts {
    /// Of at least one length.
    fn of(lengths: &[u64], settings: &Settings) -> Self {
        let count = lengths.len() as f64;
        let average = lengths.iter().map(|&frames| frames as f64).sum::<f64>() / count;
        let squares: f64 = lengths.iter().map(|&frames| (frames as f64 - average).powi(2)).sum();
        let standard_deviation = if lengths.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        let implied = average / settings.maximum_frame_rate;
        let corrected = implied * (1.0 - settings.throughput / settings.maximum_frame_rate);
        Self {
            lengths: lengths.to_vec(),
            average,
            least: lengths.iter().copied().min().unwrap_or(0),
            most: lengths.iter().copied().max().unwrap_or(0),
            standard_deviation,
            implied_buffer_time: Duration::from_secs_f64(implied),
            corrected_buffer_time: Duration::from_secs_f64(corrected),
        }
    }
}

#[cfg(test)]
mod tests;
