//! One case measured: trials, and the counters of what is measured before and after each.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use crate::error::Result;
use crate::machine::Realtime;
use crate::message::{Load, TrialOrder, TrialResult};
use crate::subject::{Counters, Subject};
use crate::traffic::{Direction, Family};

/// Octets of a frame check sequence, which counts in sizes and bits but is not in memory.
const FRAME_CHECK_BYTES: usize = 4;
/// Milliseconds of the trial that fills caches and is not counted.
const WARM_UP_MS: u64 = 40;

/// Directions of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Directions {
    /// From the tester to the workloads.
    Encap,
    /// From the workloads to the tester.
    Decap,
    /// Both at once.
    Both,
}

impl Directions {
    fn streams(self) -> Vec<Direction> {
        match self {
            Self::Encap => vec![Direction::Encap],
            Self::Decap => vec![Direction::Decap],
            Self::Both => vec![Direction::Encap, Direction::Decap],
        }
    }
}

impl fmt::Display for Directions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Encap => "encap",
            Self::Decap => "decap",
            Self::Both => "both",
        })
    }
}

/// What is measured in one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Case {
    pub(crate) directions: Directions,
    pub(crate) family: Family,
    /// Bytes of a workload's frame with its frame check sequence. IPv6 frames have 80 at least.
    pub(crate) size: usize,
}

impl Case {
    /// Bytes of a workload's frame in memory.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.size.saturating_sub(FRAME_CHECK_BYTES).max(self.family.shortest_frame())
    }

    fn order(&self, subject: &dyn Subject, load: Load, duration_ms: u64) -> TrialOrder {
        TrialOrder {
            directions: self.directions.streams(),
            family: self.family,
            frame_bytes: vec![self.frame_bytes()],
            expected: subject.expected(),
            load,
            duration_ms,
            latency: false,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.directions, self.family, self.frame_bytes() + FRAME_CHECK_BYTES)
    }
}

/// One trial and what its subject counted in it.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) result: TrialResult,
    pub(crate) counters: Counters,
    /// Share of the time of sending that the subject was not idle, 0 to 1.
    pub(crate) busy: f64,
}

/// Runs trials.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measuring {
    pub(crate) trial_ms: u64,
    pub(crate) realtime: Realtime,
}

impl Measuring {
    /// One trial at the highest rate, behind one that is not counted.
    pub(crate) fn sample(&self, subject: &mut dyn Subject, case: &Case) -> Result<Sample> {
        let warm_up = case.order(subject, Load::Most, WARM_UP_MS);
        subject.generator().trial(&warm_up)?;
        let order = case.order(subject, Load::Most, self.trial_ms);
        self.run(subject, &order)
    }

    /// One trial at a given rate, all directions together.
    pub(crate) fn at_rate(
        &self,
        subject: &mut dyn Subject,
        case: &Case,
        packets_per_second: f64,
    ) -> Result<Sample> {
        let streams = case.directions.streams().len() as f64;
        let load = Load::Rate { packets_per_second: packets_per_second / streams };
        let order = case.order(subject, load, self.trial_ms);
        self.run(subject, &order)
    }

    fn run(&self, subject: &mut dyn Subject, order: &TrialOrder) -> Result<Sample> {
        let before = subject.counters()?;
        let generator = subject.generator().process().pid();
        let threads = subject.forwarding_threads();
        let raised = self.realtime.raise(threads.into_iter().chain([generator]));
        let result = subject.generator().trial(order);
        drop(raised);
        let result = result?;
        let counters = subject.counters()?.since(&before);
        let cycles = result.sending_ns as f64 * subject.generator().cycles_per_second() as f64 / 1e9;
        Ok(Sample { busy: counters.busy_cycles as f64 / cycles.max(1.0), counters, result })
    }
}

/// The middle of some numbers (the mean of the two in the middle of an even count); `None` of none.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 3.0, 4.0]), Some(3.5));
    }

    #[test]
    fn sizes_count_the_frame_check_sequence() {
        let case = |family, size| Case { directions: Directions::Both, family, size };
        assert_eq!(case(Family::Ipv4, 64).frame_bytes(), 60);
        assert_eq!(case(Family::Ipv4, 1518).frame_bytes(), 1514);
        assert_eq!(case(Family::Ipv6, 64).to_string(), "both IPv6 80", "the shortest that holds its tag");
    }
}
