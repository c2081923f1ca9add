//! What a worker does when there is nothing to do: spin for a while, then sleep for growing short times, so that several nodes can
//! share a machine's cores.

use std::time::Duration;

/// Empty polls in a row before the first sleep.
const SPINS: u32 = 512;

/// Growing sleeps.
#[derive(Debug)]
pub(crate) struct Idle {
    longest: Duration,
    empty_polls: u32,
    next: Duration,
}

impl Idle {
    /// Sleeps of at most `longest_us` microseconds; 0: spins for ever.
    pub(crate) fn new(longest_us: u32) -> Self {
        Self { longest: Duration::from_micros(longest_us.into()), empty_polls: 0, next: Duration::ZERO }
    }

    /// There was work.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.empty_polls = 0;
        self.next = Duration::ZERO;
    }

    /// There was none.
    #[inline]
    pub(crate) fn wait(&mut self) {
        self.empty_polls = self.empty_polls.saturating_add(1);
        if self.empty_polls < SPINS || self.longest.is_zero() {
            std::hint::spin_loop();
            return;
        }
        self.next = (self.next * 2).clamp(Duration::from_micros(1), self.longest);
        std::thread::sleep(self.next);
    }
}
