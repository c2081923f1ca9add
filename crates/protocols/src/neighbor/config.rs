//! The numbers that a resolver works with.

use std::time::Duration;

/// Least interval of any timer.
const LEAST: Duration = Duration::from_millis(1);

/// Intervals and limits of a [`super::Resolver`]. The default is right for most networks.
///
/// [`super::Resolver::new`] raises intervals below 1 ms to 1 ms and counts of 0 to 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverConfig {
    /// Time between two requests for one neighbour (RetransTimer of RFC 4861 §10). 1 s.
    pub retransmit: Duration,
    /// Requests without answer after which a neighbour counts as failed or lost (MAX_MULTICAST_SOLICIT and
    /// MAX_UNICAST_SOLICIT). 3.
    pub attempts: u32,
    /// How long an answer counts (BaseReachableTime). Each neighbour's time is chosen between half and one and a half
    /// of it, so that neighbours found together are not probed together (RFC 4861 §6.3.2). 30 s.
    pub reachable: Duration,
    /// Probe a neighbour when the time of its answer is over, and one whose MAC address is in doubt. Otherwise such a
    /// neighbour stays stale and usable until something else is heard of it or a full table needs its place. On.
    pub probe: bool,
    /// How long a neighbour stays stale before it is probed (DELAY_FIRST_PROBE_TIME). 5 s.
    pub probe_delay: Duration,
    /// How long a failed neighbour is not asked again, its packets being discarded at once; for kept neighbours the
    /// first such time, which doubles up to [`ResolverConfig::retry_at_most`]. 1 s.
    pub retry: Duration,
    /// The longest time before a kept neighbour that failed is asked again. 30 s.
    pub retry_at_most: Duration,
    /// The least time between two changes of a neighbour's MAC address. A change that comes sooner makes the
    /// neighbour stale, and it is probed. 1 s.
    pub change_interval: Duration,
    /// Packets that may wait for one neighbour; a further one replaces the oldest (RFC 4861 §7.2.2). 4.
    pub waiting: usize,
    /// Packets that may wait in all, at most as many as there may be neighbours; a further one is discarded. 4,096.
    pub waiting_in_all: usize,
    /// Neighbours at most.
    ///
    /// A packet for a further neighbour takes the place of the one that has been unresolved for the longest time, or
    /// else of the one that has been known for the longest time and not used by this node, or else of the one that has
    /// been stale for the longest time, or else is discarded. Kept neighbours are never replaced, nor those that packets
    /// wait for. Kept ones always find a place: that of any other neighbour that no packet waits for, or one above the
    /// limit. Requests of others replace nothing. So there are never more than this number and the kept ones. 50,000.
    pub neighbors: usize,
    /// Neighbours at most that are known only because they asked for an own address: with IPv6 one station can have as
    /// many addresses as it likes. Further ones are answered and not remembered. 1,024.
    pub unused: usize,
    /// Requests for own addresses that are answered per second on each link; as many may come at once. 1,000.
    pub answers_per_second: u32,
    /// Where the choice of times begins; give every node another number. 0.
    pub seed: u64,
}

impl Default for ResolverConfig {
    fn default() -> Self {
        Self {
            retransmit: Duration::from_secs(1),
            attempts: 3,
            reachable: Duration::from_secs(30),
            probe: true,
            probe_delay: Duration::from_secs(5),
            retry: Duration::from_secs(1),
            retry_at_most: Duration::from_secs(30),
            change_interval: Duration::from_secs(1),
            waiting: 4,
            waiting_in_all: 4096,
            neighbors: 50_000,
            unused: 1024,
            answers_per_second: 1000,
            seed: 0,
        }
    }
}

impl ResolverConfig {
    /// The configuration with every number at or above its least.
    pub(super) fn raised(mut self) -> Self {
        for interval in [
            &mut self.retransmit,
            &mut self.reachable,
            &mut self.probe_delay,
            &mut self.retry,
            &mut self.retry_at_most,
            &mut self.change_interval,
        ] {
            *interval = LEAST.max(*interval);
        }
        for count in [&mut self.waiting, &mut self.waiting_in_all, &mut self.neighbors] {
            *count = 1.max(*count);
        }
        // So that those that packets wait for can never be more than the places.
        self.waiting_in_all = self.waiting_in_all.min(self.neighbors);
        self.attempts = self.attempts.max(1);
        self.answers_per_second = self.answers_per_second.max(1);
        self
    }

    /// How long a kept neighbour rests after its `failures`th failure in a row.
    pub(super) fn retry_after(&self, failures: u32) -> Duration {
        let factor = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.retry.saturating_mul(factor).min(self.retry_at_most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_the_limit() {
        let config = ResolverConfig::default();
        let rests: Vec<_> = (1..8).map(|failures| config.retry_after(failures).as_secs()).collect();
        assert_eq!(rests, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(config.retry_after(u32::MAX), Duration::from_secs(30));
    }

    #[test]
    fn nothing_is_zero() {
        let zero = ResolverConfig {
            retransmit: Duration::ZERO,
            attempts: 0,
            neighbors: 0,
            waiting: 0,
            ..ResolverConfig::default()
        };
        let raised = zero.raised();
        assert_eq!((raised.retransmit, raised.attempts), (LEAST, 1));
        assert_eq!((raised.neighbors, raised.waiting), (1, 1));
        assert_eq!(raised.reachable, Duration::from_secs(30));
    }
}
