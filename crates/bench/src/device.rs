//! A subject as the searches see it: one trial at a time, its counts and its counters.

use std::time::Duration;

use sluice_trial::message::{COMPLETE_QUIET, Load, QUIET, TrialResult};

use crate::error::BenchError;
use crate::measure::{Case, Measuring, Sample};
use crate::report::median;
use crate::search::{Counters, Device, Outcome, Preparation, Request, SearchError, Traffic};
use crate::subject::Subject;

/// Rate of a ramp-up, packets a second in each direction: slow enough for a device that decides each packet afresh.
const RAMP_UP_RATE: f64 = 100_000.0;
/// Length of a ramp-up: at that rate each flow has three packets.
const RAMP_UP: Duration = Duration::from_millis(40);
/// Bursts of which the pace is the median, and tries of a burst that has to be as fast.
const BURSTS: u32 = 21;
/// A burst that takes so many times as long was held up.
const SLOWER: f64 = 1.08;

/// A subject under the load of one case.
pub(crate) struct UnderTest<'a> {
    subject: &'a mut dyn Subject,
    case: &'a Case,
    measuring: Measuring,
    /// Frames a second of a burst, where bursts have to be as fast.
    pace: Option<f64>,
    /// Trials that were repeated because another program had one of the cores.
    pub(crate) disturbed: u32,
    /// Every trial that was judged, with the load that it had.
    pub(crate) samples: Vec<(Traffic, Sample)>,
}

impl<'a> UnderTest<'a> {
    pub(crate) const fn new(subject: &'a mut dyn Subject, case: &'a Case, measuring: Measuring) -> Self {
        Self { subject, case, measuring, pace: None, disturbed: 0, samples: Vec::new() }
    }

    /// Time that a trial takes besides sending, where frames are lost: what precedes it, and the wait for late frames. Preparations whose time
    /// is the device's are left out.
    pub(crate) fn overhead(preparation: Preparation) -> Duration {
        QUIET
            + match preparation {
                Preparation::RampUp => RAMP_UP + COMPLETE_QUIET,
                Preparation::Nothing | Preparation::ResetState => Duration::ZERO,
            }
    }

    /// The last trial at a load.
    pub(crate) fn sample_at(&self, frames_per_second: f64) -> Option<&Sample> {
        let at = |traffic: &Traffic| matches!(traffic, Traffic::Load { frames_per_second: rate, .. } if *rate == frames_per_second);
        self.samples.iter().rev().find(|(traffic, _)| at(traffic)).map(|(_, sample)| sample)
    }

    /// Finds out how fast the generator sends bursts of so many frames: frames a second of each of some. The bursts of searches have to be as fast
    /// as their median.
    pub(crate) fn set_burst_pace(&mut self, frames: u64) -> Result<Vec<f64>, BenchError> {
        let mut rates = Vec::new();
        for _ in 0..BURSTS {
            let sample = self.run(Traffic::Burst { frames })?;
            rates.push(sample.result.sent() as f64 * 1e9 / sample.result.sending_ns.max(1) as f64);
        }
        self.pace = median(rates.iter().copied());
        Ok(rates)
    }

    /// Share of a burst that is lost, 0 to 1.
    pub(crate) fn burst_loss(&mut self, frames: u64) -> Result<f64, BenchError> {
        let result = self.paced(Traffic::Burst { frames })?.result;
        let intended = result.sum(|stream| stream.intended);
        Ok(1.0 - result.sum(|stream| stream.received) as f64 / intended.max(1) as f64)
    }

    /// A trial behind what has to precede it.
    fn prepared(&mut self, request: &Request) -> Result<Sample, BenchError> {
        match request.preparation {
            Preparation::Nothing => {}
            Preparation::RampUp => {
                let load = Load::Rate { packets_per_second: RAMP_UP_RATE };
                self.measuring.unmeasured(self.subject, self.case, load, RAMP_UP)?;
            }
            Preparation::ResetState => self.subject.reset_state()?,
        }
        self.paced(request.traffic)
    }

    fn run(&mut self, traffic: Traffic) -> Result<Sample, BenchError> {
        let (load, duration) = self.load(traffic);
        self.measuring.trial(self.subject, self.case, load, duration, true)
    }

    /// A trial; a burst is repeated when the generator's core was taken from it on the way, since it was not back to back then.
    fn paced(&mut self, traffic: Traffic) -> Result<Sample, BenchError> {
        let mut sample = self.run(traffic)?;
        if let (Traffic::Burst { frames }, Some(pace)) = (traffic, self.pace) {
            for _ in 0..BURSTS {
                let expected = frames as f64 / pace;
                if sample.result.sending_ns as f64 / 1e9 <= expected * SLOWER {
                    break;
                }
                sample = self.run(traffic)?;
            }
        }
        Ok(sample)
    }

    fn load(&self, traffic: Traffic) -> (Load, Duration) {
        let directions = self.case.directions.streams().len();
        match traffic {
            Traffic::Load { frames_per_second, duration } => {
                let packets_per_second = frames_per_second / directions as f64;
                (Load::Rate { packets_per_second }, duration)
            }
            // Longer than any burst lasts: the trial ends with it.
            Traffic::Burst { frames } => (Load::Burst { frames }, Duration::from_secs(10)),
        }
    }
}

impl Device for UnderTest<'_> {
    type Error = BenchError;

    fn trial(&mut self, request: &Request) -> Result<Outcome, BenchError> {
        let mut sample = self.prepared(request)?;
        // Whether another program had a core decides, not what came of it: to repeat what was lossy would make any device look good.
        for _ in 1..self.measuring.tries() {
            if !sample.is_disturbed() || has_faults(&sample.result) {
                break;
            }
            self.disturbed += 1;
            sample = self.prepared(request)?;
        }
        let outcome = outcome(&sample.result, request.traffic);
        self.samples.push((request.traffic, sample));
        Ok(outcome)
    }
}

/// Frames that no repetition may hide.
fn has_faults(result: &TrialResult) -> bool {
    result.foreign > 0 || result.sum(|stream| stream.wrong + stream.duplicates) > 0
}

fn outcome(result: &TrialResult, traffic: Traffic) -> Outcome {
    let sending = Duration::from_nanos(result.sending_ns);
    let intended = result.sum(|stream| stream.intended);
    let counted = Counters {
        // What a full ring refused of a burst was offered to the device, and lost by it.
        sent: if matches!(traffic, Traffic::Burst { .. }) { intended } else { result.sent() },
        received: result.sum(|stream| stream.received),
        duplicates: result.sum(|stream| stream.duplicates),
        reordered: result.sum(|stream| stream.reordered),
        foreign: result.foreign,
        corrupted: result.sum(|stream| stream.wrong),
        stale: result.sum(|stream| stream.stale),
    };
    // Trials without a link or a clock never come here: they are errors.
    Outcome { interrupted: result.interrupted, ..Outcome::counted(intended, counted, sending) }
}

/// An interruption is one wherever it came; everything else is said in the search's words.
impl From<SearchError<Self>> for BenchError {
    fn from(error: SearchError<Self>) -> Self {
        match error {
            SearchError::Device { source: Self::Interrupted, .. } => Self::Interrupted,
            SearchError::Device { source, .. } => source,
            other => Self::Search(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_trial::message::StreamCounts;
    use sluice_trial::traffic::Direction;

    use super::*;

    fn result() -> TrialResult {
        let counts = |direction| StreamCounts {
            intended: 1_000,
            sent: 990,
            received: 980,
            wrong: 1,
            ..StreamCounts::new(direction)
        };
        TrialResult {
            sending_ns: 1_000_000_000,
            streams: vec![counts(Direction::Encap), counts(Direction::Decap)],
            foreign: 3,
            ..TrialResult::default()
        }
    }

    const LOAD: Traffic = Traffic::Load { frames_per_second: 2_000.0, duration: Duration::from_secs(1) };

    #[test]
    fn what_a_full_ring_refuses_of_a_burst_is_lost() {
        let outcome = outcome(&result(), Traffic::Burst { frames: 2_000 });
        assert_eq!((outcome.after.sent, outcome.after.received), (2_000, 1_960));
    }

    #[test]
    fn counts_are_those_of_all_directions() {
        let outcome = outcome(&result(), LOAD);
        let counted = outcome.after;
        assert_eq!((outcome.intended, counted.sent, counted.received), (2_000, 1_980, 1_960));
        assert_eq!((counted.corrupted, counted.foreign), (2, 3));
    }
}
