//! A rate limit with bursts.

use std::time::Duration;

use crate::Timestamp;

/// Lets a number of events a second pass, and as many at once after a second of rest: the generic cell rate algorithm
/// (ITU-T I.371).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateLimit {
    /// When the event would be due if all events so far had come evenly.
    due: Timestamp,
}

impl RateLimit {
    /// Whether an event at `now` passes, of at most `per_second` a second.
    pub(crate) fn pass(&mut self, per_second: u32, now: Timestamp) -> bool {
        let burst = Duration::from_secs(1);
        let due = self.due.max(now);
        let next = due.after(burst / per_second.max(1));
        let passes = next <= now.after(burst);
        if passes {
            self.due = next;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_an_even_rate() {
        let mut limit = RateLimit::default();
        let start = Timestamp::from_secs(5);
        assert_eq!((0..100).filter(|_| limit.pass(10, start)).count(), 10);
        let in_two_seconds =
            (0..2000).filter(|ms| limit.pass(10, start.after(Duration::from_millis(*ms)))).count();
        assert_eq!(in_two_seconds, 19);
        assert!((0..10).all(|_| limit.pass(10, Timestamp::from_secs(60))));
    }
}
