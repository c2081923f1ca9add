//! Latencies of one trial: an HdrHistogram of ticks, read out in nanoseconds.
//!
//! A frame's time is the one at which it was to be sent, not the one at which there was room for it: waiting counts (what is known as
//! coordinated omission otherwise).

use anyhow::Context;
use hdrhistogram::Histogram;
use sluice_trial::message::Latency;

use crate::clock::{Clock, tick};

/// Significant digits.
const DIGITS: u8 = 3;
/// Longest time that is told from longer ones: a tag's time has 32 bits.
const LONGEST: u64 = u32::MAX as u64;

/// Ages of frames.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    /// None yet.
    pub(crate) fn new() -> anyhow::Result<Self> {
        // The memory for all values is taken here: recording takes none.
        Histogram::new_with_bounds(1, LONGEST, DIGITS).map(Self).context("a histogram")
    }

    /// Records the age of a frame that was to be sent at `time`.
    #[inline]
    pub(crate) fn record(&mut self, time: u32, now: u64) {
        // Counters of two cores may differ by some cycles: a frame that came before it was sent took no time.
        let age = tick(now).wrapping_sub(time).cast_signed().max(1);
        self.0.saturating_record(u64::from(age.cast_unsigned()));
    }

    /// Adds those of another core.
    pub(crate) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.0.add(&other.0).context("adding histograms")
    }

    /// What was recorded; none of nothing.
    pub(crate) fn summary(&self, clock: Clock) -> Option<Latency> {
        let unit = clock.nanoseconds_a_tick();
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 * unit;
        (!self.0.is_empty()).then(|| Latency {
            frames: self.0.len(),
            minimum: self.0.min() as f64 * unit,
            mean: self.0.mean() * unit,
            median: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            maximum: self.0.max() as f64 * unit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_nanoseconds_and_survive_the_end_of_the_counter() {
        let clock = Clock::new(2_000_000_000);
        let mut latencies = Latencies::new().unwrap();
        assert_eq!(latencies.summary(clock), None);
        // 16 cycles are 8 ns. The second frame was to be sent just before the tag's 32 bits began again.
        latencies.record(tick(1_600), 1_600 + 160);
        latencies.record(u32::MAX - 4, 16 * (1 << 32) + 80);
        let summary = latencies.summary(clock).unwrap();
        assert_eq!((summary.frames, summary.minimum, summary.maximum), (2, 80.0, 80.0));
        latencies.record(tick(1_600), 1_600 - 32);
        assert_eq!(latencies.summary(clock).unwrap().minimum, 8.0, "before it was sent");
        let mut latencies = Latencies::new().unwrap();
        latencies.record(tick(1_600), 1_600 + 160);
        latencies.record(u32::MAX - 4, 16 * (1 << 32) + 80);
        let mut more = Latencies::new().unwrap();
        more.record(0, 16 * 1_000);
        latencies.add(&more).unwrap();
        let summary = latencies.summary(clock).unwrap();
        assert_eq!((summary.frames, summary.median), (3, 80.0));
        assert!((summary.maximum - 8_000.0).abs() < 8.0, "{summary:?}");
    }
}
