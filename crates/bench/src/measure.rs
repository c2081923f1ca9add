//! One case measured: trials, and the counters of what is measured before and after each.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use sluice_trial::message::{Load, TrialOrder, TrialResult};
use sluice_trial::traffic::{Direction, Expected, Family};

use crate::error::{BenchError, Result};
use crate::frame_sizes::{FrameSizes, FrameSizesError, Genome};
use crate::generator::Generator;
use crate::machine::{Realtime, waited_for_core};
use crate::report::{FrameFaults, median};
use crate::subject::{Counters, Subject};

/// Octets of a frame check sequence, which counts in sizes and bits but is not in memory.
pub(crate) const FRAME_CHECK_BYTES: usize = 4;
/// Longest IP packet of a workload.
const MTU: u32 = 1500;
/// The trial that fills caches and is not counted.
const WARM_UP: Duration = Duration::from_millis(40);

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
    /// From the tester to the workloads, which send every frame back.
    Loop,
}

impl Directions {
    pub(crate) fn streams(self) -> Vec<Direction> {
        match self {
            Self::Encap => vec![Direction::Encap],
            Self::Decap => vec![Direction::Decap],
            Self::Both => vec![Direction::Encap, Direction::Decap],
            Self::Loop => vec![Direction::Loop],
        }
    }
}

impl fmt::Display for Directions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Encap => "encap",
            Self::Decap => "decap",
            Self::Both => "both",
            Self::Loop => "loop",
        })
    }
}

/// What is measured in one row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) directions: Directions,
    pub(crate) family: Family,
    /// Sizes of workloads' frames, with their frame check sequence.
    pub(crate) sizes: FrameSizes,
    /// The sequence of frames that is sent, over and over.
    pub(crate) genome: Genome,
}

impl Case {
    /// A case whose frames can be sent.
    ///
    /// # Errors
    ///
    /// [`FrameSizesError`] for sizes that have no room for what a trial writes into them, or that are too long.
    pub(crate) fn new(
        directions: Directions,
        family: Family,
        sizes: FrameSizes,
    ) -> std::result::Result<Self, FrameSizesError> {
        sizes.check((family.shortest_frame() + FRAME_CHECK_BYTES) as u32, MTU)?;
        Ok(Self { directions, family, genome: sizes.genome(), sizes })
    }

    /// A case with frames of one size, or of the shortest that there are if those are longer.
    ///
    /// # Errors
    ///
    /// As of [`Case::new`].
    pub(crate) fn at_least(
        directions: Directions,
        family: Family,
        bytes: u32,
    ) -> std::result::Result<Self, FrameSizesError> {
        let bytes = bytes.max((family.shortest_frame() + FRAME_CHECK_BYTES) as u32);
        Self::new(directions, family, FrameSizes::fixed(bytes)?)
    }

    /// Average bits of a workload's frame, with its frame check sequence.
    pub(crate) fn bits(&self) -> f64 {
        8.0 * self.genome.average()
    }

    fn order(&self, expected: Expected, load: Load, duration: Duration, latency: bool) -> TrialOrder {
        let frame_bytes = self.genome.sequence().map(|bytes| bytes as usize - FRAME_CHECK_BYTES).collect();
        TrialOrder {
            directions: self.directions.streams(),
            family: self.family,
            frame_bytes,
            expected,
            load,
            duration_ms: duration.as_millis() as u64,
            latency,
            arrivals: false,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.directions, self.family, self.sizes)
    }
}

/// One trial and what its subject counted in it.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) result: TrialResult,
    pub(crate) counters: Counters,
    /// Share of the time of sending that the subject's cores were not idle, 0 to 1.
    pub(crate) busy: f64,
    /// Cores that forwarded.
    pub(crate) cores: usize,
    /// How long measured threads waited for a core that another program had.
    pub(crate) waited: Duration,
}

/// A core that was busy for less than this share of a trial had to wait for the generator.
const SATURATED: f64 = 0.9;
/// A result from this share of the ceiling up is the generator's rather than the subject's.
const NEAR_CEILING: f64 = 0.9;

/// Longest wait for a core that a trial bears: rings hold so much.
const CALM: Duration = Duration::from_micros(50);
/// Trials, at most, until one is not disturbed by other programs.
const TRIES: u32 = 5;

impl Sample {
    /// What came back as it must not in some trials.
    pub(crate) fn faults<'a>(trials: impl IntoIterator<Item = &'a Self>) -> FrameFaults {
        trials.into_iter().fold(FrameFaults::default(), |sum, Self { result, .. }| FrameFaults {
            compared: sum.compared + result.sum(|stream| stream.compared),
            wrong: sum.wrong + result.sum(|stream| stream.wrong),
            duplicates: sum.duplicates + result.sum(|stream| stream.duplicates),
            reordered: sum.reordered + result.sum(|stream| stream.reordered),
            foreign: sum.foreign + result.foreign,
        })
    }

    /// Frames that came back while frames were being sent, millions a second.
    pub(crate) fn mpps(&self) -> f64 {
        self.result.packets_per_second() / 1e6
    }

    /// Cycles a packet of each of some trials that tell them.
    pub(crate) fn cycles(trials: &[Self]) -> Vec<f64> {
        trials.iter().filter_map(|trial| trial.counters.cycles_per_packet()).collect()
    }

    /// Whether another program had a core for so long that frames were lost or late because of it.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.waited > CALM
    }
}

/// What generator and links can do in a case: what comes back from an echo.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ceiling {
    /// Millions of frames a second, of each trial.
    pub(crate) mpps: Vec<f64>,
}

impl Ceiling {
    /// Of some trials of an echo.
    pub(crate) fn of(trials: &[Sample]) -> Self {
        Self { mpps: trials.iter().map(Sample::mpps).collect() }
    }

    /// What the generator sent in some trials at the highest rate.
    pub(crate) fn of_sending(trials: &[Sample]) -> Self {
        let sent = |result: &TrialResult| result.sent() as f64 * 1e3 / result.sending_ns.max(1) as f64;
        Self { mpps: trials.iter().map(|trial| sent(&trial.result)).collect() }
    }

    /// Frames a second: the median; 0 of no trial.
    pub(crate) fn rate(&self) -> f64 {
        median(self.mpps.iter().copied()).unwrap_or_default() * 1e6
    }

    /// Whether a rate is so near that generator or links were its limit.
    pub(crate) fn is_near(&self, rate: f64) -> bool {
        !self.mpps.is_empty() && rate > NEAR_CEILING * self.rate()
    }

    /// Whether generator or links rather than the subject were the limit of trials at the highest rate: it comes near, or the subject's cores had
    /// to wait.
    pub(crate) fn limits(&self, trials: &[Sample]) -> bool {
        let busy = median(trials.iter().map(|sample| sample.busy)).unwrap_or_default();
        let rate = median(trials.iter().map(|sample| sample.result.packets_per_second()));
        busy < SATURATED || rate.is_some_and(|rate| self.is_near(rate))
    }
}

/// Clocks that differ by this much, and by this share of the trial, are not to be believed.
const CLOCK_TOLERANCE: (Duration, f64) = (Duration::from_millis(2), 0.001);

/// Runs trials.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measuring {
    pub(crate) trial_ms: u64,
    pub(crate) realtime: Realtime,
}

impl Measuring {
    /// One trial at the highest rate, behind one that is not counted; repeated while other programs take the cores.
    pub(crate) fn sample(&self, subject: &mut dyn Subject, case: &Case) -> Result<Sample> {
        self.unmeasured(subject, case, Load::Most, WARM_UP)?;
        self.calm_trial(subject, case, Load::Most, Duration::from_millis(self.trial_ms), false)
    }

    /// One trial at a given rate, all directions together.
    pub(crate) fn at_rate(
        &self,
        subject: &mut dyn Subject,
        case: &Case,
        packets_per_second: f64,
    ) -> Result<Sample> {
        let load =
            Load::Rate { packets_per_second: packets_per_second / case.directions.streams().len() as f64 };
        self.trial(subject, case, load, Duration::from_millis(self.trial_ms), false)
    }

    /// One trial whose counts nobody reads.
    pub(crate) fn unmeasured(
        &self,
        subject: &mut dyn Subject,
        case: &Case,
        load: Load,
        duration: Duration,
    ) -> Result<()> {
        let order = case.order(subject.expected(), load, duration, false);
        subject.generator().trial(&order).map(drop)
    }

    /// One trial of a single sender, with the arrival of each frame; nothing is asked of the subject.
    pub(crate) fn arrivals(
        &self,
        generator: &mut Generator,
        case: &Case,
        load: Load,
        duration: Duration,
    ) -> Result<TrialResult> {
        let order = TrialOrder { arrivals: true, ..case.order(Expected::Routed, load, duration, false) };
        generator.trial(&order)
    }

    /// A trial like [`Measuring::trial`], repeated a few times while other programs take the cores: the least disturbed one.
    pub(crate) fn calm_trial(
        &self,
        subject: &mut dyn Subject,
        case: &Case,
        load: Load,
        duration: Duration,
        latency: bool,
    ) -> Result<Sample> {
        let mut calmest = self.trial(subject, case, load, duration, latency)?;
        for _ in 1..self.tries() {
            if !calmest.is_disturbed() {
                break;
            }
            let again = self.trial(subject, case, load, duration, latency)?;
            if again.waited < calmest.waited {
                calmest = again;
            }
        }
        Ok(calmest)
    }

    /// Trials, at most, until one is not disturbed. The ordinary scheduler lets other programs in all the time: waiting for a trial without them
    /// would be in vain, and they are a part of the result.
    pub(crate) const fn tries(&self) -> u32 {
        if self.realtime.is_on() { TRIES } else { 1 }
    }

    /// One trial, and what the subject counted meanwhile.
    pub(crate) fn trial(
        &self,
        subject: &mut dyn Subject,
        case: &Case,
        load: Load,
        duration: Duration,
        latency: bool,
    ) -> Result<Sample> {
        let order = case.order(subject.expected(), load, duration, latency);
        let before = subject.counters()?;
        let threads = [subject.generator_threads(), subject.forwarding_threads()].concat();
        let raised = self.realtime.raise(threads.iter().copied());
        let waited = waited_for_core(&threads);
        let result = subject.generator().trial(&order);
        let waited = waited_for_core(&threads).saturating_sub(waited);
        drop(raised);
        let result = result?;
        check_circumstances(&result)?;
        let counters = subject.counters()?.since(&before);
        let cycles = result.sending_ns as f64 * subject.generator().cycles_per_second() as f64 / 1e9;
        let cores = subject.forwarding_threads().len().max(1);
        let busy = counters.busy_cycles as f64 / (cycles * cores as f64).max(1.0);
        Ok(Sample { result, counters, busy, cores, waited })
    }
}

/// A trial in which a link went down, or whose clocks do not agree, has no result.
fn check_circumstances(result: &TrialResult) -> Result<()> {
    if result.link_down {
        return Err(BenchError::Search(
            "a link went down during a trial; look at the ports of the device and of the generator".into(),
        ));
    }
    let difference = Duration::from_nanos(result.clock_difference_ns.unsigned_abs());
    let (least, share) = CLOCK_TOLERANCE;
    if difference > least + Duration::from_nanos(result.sending_ns).mul_f64(share) {
        return Err(BenchError::Search(format!(
            "the clock jumped by {difference:?} during a trial: let nothing set the time meanwhile, and do not suspend the machine"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sluice_trial::message::StreamCounts;

    use super::*;

    fn sample(packets: u64, busy: f64) -> Sample {
        let counts = StreamCounts { received_while_sending: packets, ..StreamCounts::new(Direction::Encap) };
        let result = TrialResult { sending_ns: 1_000_000, streams: vec![counts], ..TrialResult::default() };
        Sample { result, counters: Counters::default(), busy, cores: 1, waited: Duration::ZERO }
    }

    #[test]
    fn a_core_that_waits_or_a_near_ceiling_means_the_generator_is_the_limit() {
        let limited = |busy, ceiling| Ceiling::of(&[sample(ceiling, 1.0)]).limits(&[sample(5_000, busy)]);
        assert!(limited(0.7, 20_000), "the core had to wait");
        assert!(limited(1.0, 5_400), "the ceiling is near");
        assert!(!limited(1.0, 5_600));
    }

    #[test]
    fn a_trial_without_a_link_or_with_a_clock_that_jumped_has_no_result() {
        let good = TrialResult { sending_ns: 1_000_000_000, ..TrialResult::default() };
        check_circumstances(&TrialResult { clock_difference_ns: -2_900_000, ..good.clone() }).unwrap();
        for difference in [-3_100_000, 3_100_000] {
            let jumped = TrialResult { clock_difference_ns: difference, ..good.clone() };
            assert!(check_circumstances(&jumped).unwrap_err().to_string().contains("the clock jumped"));
        }
        let down = TrialResult { link_down: true, ..good };
        assert!(check_circumstances(&down).unwrap_err().to_string().contains("a link went down"));
    }

    #[test]
    fn sizes_count_the_frame_check_sequence() {
        let case = |family, bytes| Case::at_least(Directions::Both, family, bytes).unwrap();
        let bytes = |case: Case| case.order(Expected::Routed, Load::Most, WARM_UP, false).frame_bytes;
        assert_eq!(bytes(case(Family::Ipv4, 64)), [60]);
        assert_eq!(bytes(case(Family::Ipv4, 1518)), [1514]);
        assert_eq!(case(Family::Ipv6, 64).to_string(), "both IPv6 80", "the shortest that holds its tag");
        let short = FrameSizes::fixed(64).unwrap();
        assert!(Case::new(Directions::Both, Family::Ipv6, short).is_err());
        let mix = Case::new(Directions::Both, Family::Ipv4, "imix:ab(a=64,b=1518)".parse().unwrap()).unwrap();
        assert_eq!(mix.bits(), 8.0 * 791.0);
        assert_eq!(bytes(mix), [60, 1514]);
    }
}
