//! What a worker does when there is nothing to do: spin for a moment, then sleep for growing short times, so that several nodes can
//! share a machine's cores.
//!
//! The moment is one of time and not of polls: an empty poll takes some ten nanoseconds on shared memory, and a microsecond where the driver
//! asks the kernel. With a number of polls three nodes on AF_XDP ports kept two cores busy with a thousandth of what they can forward.

use std::time::Duration;

use super::CycleClock;

/// How long nothing comes before the first sleep, nanoseconds.
const SPIN: u64 = 20_000;

/// Growing sleeps.
#[derive(Debug)]
pub(crate) struct Idle {
    longest: Duration,
    /// Cycles of [`SPIN`].
    spin: u64,
    /// Cycle counter at the first empty poll.
    since: Option<u64>,
    next: Duration,
}

impl Idle {
    /// Sleeps of at most `longest_us` microseconds; 0: spins for ever.
    pub(crate) fn new(longest_us: u32, clock: CycleClock) -> Self {
        let longest = Duration::from_micros(longest_us.into());
        Self { longest, spin: clock.cycles(SPIN), since: None, next: Duration::ZERO }
    }

    /// There was work.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.since = None;
        self.next = Duration::ZERO;
    }

    /// There was none in a poll that began at `now` of the cycle counter.
    #[inline]
    pub(crate) fn wait(&mut self, now: u64) {
        let since = *self.since.get_or_insert(now);
        if now.wrapping_sub(since) < self.spin || self.longest.is_zero() {
            std::hint::spin_loop();
            return;
        }
        self.next = (self.next * 2).clamp(Duration::from_micros(1), self.longest);
        std::thread::sleep(self.next);
    }
}
