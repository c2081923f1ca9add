//! The time stamp counter as a clock: distances between frames, ages of frames, and whether it can be believed.

use std::time::{Duration, Instant};

use sluice_dpdk::cycles;
use sluice_trial::traffic::tag::CYCLES_PER_TICK;

/// Converts between cycles and time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    cycles_per_second: u64,
}

impl Clock {
    pub(crate) const fn new(cycles_per_second: u64) -> Self {
        Self { cycles_per_second }
    }

    pub(crate) const fn cycles_per_second(self) -> u64 {
        self.cycles_per_second
    }

    pub(crate) fn cycles_of(self, duration: Duration) -> u64 {
        (duration.as_nanos() * u128::from(self.cycles_per_second) / 1_000_000_000) as u64
    }

    pub(crate) fn nanoseconds_of(self, cycles: u64) -> u64 {
        (u128::from(cycles) * 1_000_000_000 / u128::from(self.cycles_per_second)) as u64
    }

    /// Nanoseconds of one unit of a tag's time.
    pub(crate) fn nanoseconds_a_tick(self) -> f64 {
        CYCLES_PER_TICK as f64 * 1e9 / self.cycles_per_second as f64
    }
}

/// A tag's time of a moment.
#[inline]
pub(crate) const fn tick(cycles: u64) -> u32 {
    (cycles / CYCLES_PER_TICK) as u32
}

/// Both clocks at one moment, to be compared with both at a later one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    cycles: u64,
    system: Instant,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { cycles: cycles(), system: Instant::now() }
    }

    /// By how much the time stamp counter says more than the system's clock, since this moment, nanoseconds.
    pub(crate) fn difference_ns(self, clock: Clock) -> i64 {
        let now = Self::now();
        let counted = clock.nanoseconds_of(now.cycles.wrapping_sub(self.cycles)).cast_signed();
        let told = i64::try_from(now.system.duration_since(self.system).as_nanos()).unwrap_or(i64::MAX);
        counted.saturating_sub(told)
    }
}
