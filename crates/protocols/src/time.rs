//! Time as the protocols see it: an argument.

use std::time::Duration;

/// A moment on a clock that never goes back, in nanoseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// A moment `nanoseconds` after the clock's start.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// A moment `milliseconds` after the clock's start; the clock's last moment where that is further than it counts
    /// (584 years).
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000))
    }

    /// A moment `seconds` after the clock's start; the clock's last moment where that is further than it counts.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the clock's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment `duration` later; the clock's last moment where that is further than it counts.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_durations() {
        let start = Timestamp::from_secs(2);
        let later = start.after(Duration::from_millis(1500));
        assert_eq!(later, Timestamp::from_millis(3500));
        assert_eq!(later.since(start), Duration::from_millis(1500));
        assert_eq!(start.since(later), Duration::ZERO);
    }

    #[test]
    fn the_end_of_the_clock_is_not_passed() {
        let end = Timestamp::from_nanos(u64::MAX);
        assert_eq!(end.after(Duration::from_nanos(1)), end);
        assert_eq!(Timestamp::from_nanos(7).after(Duration::MAX), end);
        assert_eq!(Timestamp::from_secs(u64::MAX), end);
    }
}
