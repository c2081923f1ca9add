//! A token bucket: so much a second, and so much at once.
//!
//! Limits the ICMP errors that an engine sends, and in `sluice-node` the packets that a worker hands to the control thread.

use crate::time::Timestamp;

/// See the [module](self).
#[derive(Debug)]
pub struct TokenBucket {
    rate: u64,
    burst: u64,
    tokens: u64,
    filled: Timestamp,
}

impl TokenBucket {
    /// A full bucket: `rate` tokens a second (at least 1), and `burst` at most at once.
    pub const fn full(rate: u64, burst: u64) -> Self {
        Self { rate, burst, tokens: burst, filled: Timestamp::from_nanos(0) }
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Timestamp) -> bool {
        let elapsed = now.nanos_since(self.filled);
        let earned = (u128::from(elapsed) * u128::from(self.rate) / 1_000_000_000) as u64;
        if earned > 0 {
            self.tokens = self.tokens.saturating_add(earned).min(self.burst);
            // Not to this moment: what is too short for a token counts towards the next.
            let used = (u128::from(earned) * 1_000_000_000).div_ceil(u128::from(self.rate));
            self.filled = Timestamp::from_nanos(self.filled.as_nanos() + used as u64);
        }
        let granted = self.tokens > 0;
        self.tokens -= u64::from(granted);
        granted
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = TokenBucket::full(1000, 1000);
        let mut granted = |nanoseconds: u64, tries: usize| {
            let now = Timestamp::from_nanos(nanoseconds);
            (0..tries).filter(|_| bucket.take(now)).count()
        };
        assert_eq!(granted(0, 1500), 1000);
        assert_eq!(granted(999_999, 5), 0);
        assert_eq!(granted(1_000_000, 5), 1);
        assert_eq!(granted(11_000_000, 50), 10);
        assert_eq!(granted(3_600_000_000_000, 5000), 1000, "no more than a burst is saved");
    }

    proptest! {
        /// Whoever asks all the time gets the rate, at whatever intervals.
        #[test]
        fn the_rate_is_kept_and_used(rate in 15u64..5000, intervals in prop::collection::vec(1u64..3_000_000, 1..300)) {
            let mut bucket = TokenBucket::full(rate, rate);
            let mut now = 0;
            let mut granted = 0;
            while bucket.take(Timestamp::from_nanos(now)) {
                granted += 1;
            }
            prop_assert_eq!(granted, rate);
            for interval in intervals {
                now += interval;
                while bucket.take(Timestamp::from_nanos(now)) {
                    granted += 1;
                }
                let earned = (u128::from(now) * u128::from(rate) / 1_000_000_000) as u64;
                prop_assert!(granted <= rate + earned);
                prop_assert!(granted + 2 >= rate + earned, "{} of {}", granted, rate + earned);
            }
        }
    }
}
