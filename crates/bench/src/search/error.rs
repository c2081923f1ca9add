//! Why a search has no result, each in one sentence.

use std::time::Duration;

use super::trial::{CounterWentBackwards, Traffic};

/// A search without a result.
#[derive(Debug, thiserror::Error)]
pub enum SearchError<E: std::error::Error + 'static> {
    /// Settings that no search can follow. No trial was run.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// A trial could not be run.
    #[error("trial {trial} ({traffic}) could not be run: {source}")]
    Device {
        /// Number of the trial, from 1.
        trial: u32,
        /// What it was to send.
        traffic: Traffic,
        /// The reason.
        source: E,
    },
    /// The counts of a trial mean nothing; neither would a result that rests on them.
    #[error("trial {trial} ({traffic}) is invalid: {reason}")]
    Invalid {
        /// Number of the trial, from 1.
        trial: u32,
        /// What it sent.
        traffic: Traffic,
        /// The reason.
        reason: Invalid,
    },
    /// The search was not done when its limits were reached.
    #[error(transparent)]
    LimitReached(LimitReached),
}

/// A search that was ended by its [`Limits`](super::Limits), with what it knew by then.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "the search was not done after {trials} trials and {sending:?} of sending, its limit{}: allow more trials or time, or ask for less precision",
    so_far(*.lower, *.upper)
)]
pub struct LimitReached {
    /// Trials that were run.
    pub trials: u32,
    /// Time of sending.
    pub sending: Duration,
    /// The highest rate (frames a second) or burst (frames) that was known to pass.
    pub lower: Option<f64>,
    /// The lowest rate or burst that was known to fail.
    pub upper: Option<f64>,
}

fn so_far(lower: Option<f64>, upper: Option<f64>) -> String {
    match (lower, upper) {
        (None, None) => String::new(),
        (Some(lower), None) => format!(" (at least {lower:.0})"),
        (None, Some(upper)) => format!(" (less than {upper:.0})"),
        (Some(lower), Some(upper)) => format!(" (between {lower:.0} and {upper:.0})"),
    }
}

/// Why the counts of a trial mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// It was ended before its time.
    #[error("it was interrupted")]
    Interrupted,
    /// A link was down.
    #[error("a link went down; look at the ports of the device and of the generator")]
    LinkWentDown,
    /// The clock cannot be trusted.
    #[error("the clock jumped; let nothing set the time during a test, and do not suspend the machine")]
    ClockJumped,
    /// A counter shrank.
    #[error("{0}; it was reset or wrapped, or the generator started anew")]
    CounterWentBackwards(#[from] CounterWentBackwards),
    /// More was sent than should have been.
    #[error("{sent} frames were sent where {intended} were intended")]
    SentMoreThanIntended {
        /// Frames sent.
        sent: u64,
        /// Frames intended.
        intended: u64,
    },
    /// More came back than was sent.
    #[error("{received} frames came back of {sent} that were sent; duplicates are counted as received")]
    ReceivedMoreThanSent {
        /// Frames received.
        received: u64,
        /// Frames sent.
        sent: u64,
    },
    /// Reordered frames are a part of those received.
    #[error("{reordered} frames were reordered, but only {received} received")]
    ReorderedMoreThanReceived {
        /// Frames reordered.
        reordered: u64,
        /// Frames received.
        received: u64,
    },
    /// The generator set out to send something else.
    #[error("{intended} frames were intended where {asked:.0} were asked for")]
    AnotherIntention {
        /// Frames intended.
        intended: u64,
        /// Frames asked for.
        asked: f64,
    },
    /// The load was higher than asked.
    #[error("frames that take {expected:?} at the load asked for were sent in {sending:?}")]
    SentTooFast {
        /// How long sending took.
        sending: Duration,
        /// How long it takes.
        expected: Duration,
    },
    /// A burst was not sent whole.
    #[error("{sent} frames were sent of a burst of {intended}; the generator has to hold all of them ready")]
    BurstIncomplete {
        /// Frames sent.
        sent: u64,
        /// Frames intended.
        intended: u64,
    },
    /// A burst was not back to back.
    #[error(
        "a burst that takes {expected:?} at the maximum frame rate was sent in {sending:?}; it was not back to back"
    )]
    BurstTooSlow {
        /// How long sending took.
        sending: Duration,
        /// How long it takes.
        expected: Duration,
    },
    /// Frames came back changed.
    #[error("{frames} frames came back corrupted")]
    Corrupted {
        /// How many.
        frames: u64,
    },
    /// Frames came that nobody sent.
    #[error("{frames} frames came that were not of the test; is anybody else on the link?")]
    Foreign {
        /// How many.
        frames: u64,
    },
    /// Frames came twice.
    #[error(
        "{frames} frames came back more than once; accept duplicates if the device repeats frames on purpose"
    )]
    Duplicates {
        /// How many.
        frames: u64,
    },
    /// Frames of an earlier trial came.
    #[error(
        "{frames} frames of an earlier trial came, after they were counted as lost; wait longer after each trial"
    )]
    Stale {
        /// How many.
        frames: u64,
    },
}

/// Settings that no search can follow: all that is wrong with them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the search cannot be done: {}", .faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("; "))]
pub struct Impossible {
    /// What is wrong, at least one thing.
    pub faults: Vec<Fault>,
}

/// One thing that is wrong with settings.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// A number that is infinite or none.
    #[error("the {setting} is not a finite number")]
    NotFinite {
        /// The setting.
        setting: &'static str,
    },
    /// A number out of its range.
    #[error("the {setting} is {value}, outside {least} to {most}")]
    OutOfRange {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: f64,
        /// The least that is possible.
        least: f64,
        /// The most that is possible.
        most: f64,
    },
    /// The bounds are the wrong way round.
    #[error("the {setting} is at most {maximum} but at least {minimum}")]
    MaximumBelowMinimum {
        /// What has these bounds.
        setting: &'static str,
        /// The lower bound.
        minimum: f64,
        /// The upper bound.
        maximum: f64,
    },
    /// Trials that would send nothing.
    #[error("a trial of {duration:?} at {frames_per_second} frames a second sends no frame")]
    NoFrame {
        /// Length of a trial.
        duration: Duration,
        /// The lowest rate.
        frames_per_second: f64,
    },
    /// One trial takes longer than the whole search may.
    #[error("a trial of {duration:?} does not fit into the {limit:?} that the search may take")]
    LongerThanLimit {
        /// Length of a trial.
        duration: Duration,
        /// The limit.
        limit: Duration,
    },
    /// A sum of durations that is less than one of them.
    #[error("the duration sum of {sum:?} is shorter than one trial of {trial:?}")]
    SumBelowTrial {
        /// The sum.
        sum: Duration,
        /// Length of a trial.
        trial: Duration,
    },
    /// Nothing to search for.
    #[error("there is no {setting}")]
    Missing {
        /// What is missing.
        setting: &'static str,
    },
}

/// Highest rate, frames a second: a thousand times what a 400 Gb/s link carries, and small enough that a day's frames can be counted.
pub(super) const HIGHEST_RATE: f64 = 1e12;
/// Lowest rate, frames a second: about one a day.
const LOWEST_RATE: f64 = 1e-5;
/// Longest trial.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Collects what is wrong with settings.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    /// A number of a closed range; says whether it is.
    pub(super) fn range(&mut self, setting: &'static str, value: f64, least: f64, most: f64) -> bool {
        if !value.is_finite() {
            self.add(Fault::NotFinite { setting });
        } else if !(least..=most).contains(&value) {
            self.add(Fault::OutOfRange { setting, value, least, most });
        } else {
            return true;
        }
        false
    }

    /// A number of things, at least one.
    pub(super) fn count(&mut self, setting: &'static str, value: u64, most: u64) -> bool {
        self.range(setting, value as f64, 1.0, most as f64)
    }

    /// A rate.
    pub(super) fn rate(&mut self, setting: &'static str, frames_per_second: f64) -> bool {
        self.range(setting, frames_per_second, LOWEST_RATE, HIGHEST_RATE)
    }

    /// The bounds of a search, and the length of its trials.
    pub(super) fn rates_and_duration(
        &mut self,
        minimum: f64,
        maximum: f64,
        duration: Duration,
        limit: Duration,
    ) {
        let minimum_is_rate = self.rate("minimum rate", minimum);
        let maximum_is_rate = self.rate("maximum rate", maximum);
        if minimum_is_rate && maximum_is_rate && maximum < minimum {
            self.add(Fault::MaximumBelowMinimum { setting: "rate", minimum, maximum });
        }
        let is_duration = self.duration(duration, limit);
        if minimum_is_rate && is_duration && minimum * duration.as_secs_f64() < 1.0 {
            self.add(Fault::NoFrame { duration, frames_per_second: minimum });
        }
    }

    /// The length of a trial.
    pub(super) fn duration(&mut self, duration: Duration, limit: Duration) -> bool {
        let (seconds, longest) = (duration.as_secs_f64(), LONGEST.as_secs_f64());
        let possible = self.range("trial duration in seconds", seconds, 1e-6, longest);
        if possible && duration > limit {
            self.add(Fault::LongerThanLimit { duration, limit });
        }
        possible
    }

    pub(super) fn finish(self) -> Result<(), Impossible> {
        if self.0.is_empty() { Ok(()) } else { Err(Impossible { faults: self.0 }) }
    }
}
