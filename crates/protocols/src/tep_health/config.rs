//! The TEP high availability profile, and what is wrong with one.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The numbers of a TEP high availability profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TepHealthConfig {
    /// BFD sessions count, and failed TEPs wait before they are used again. Off.
    pub enabled: bool,
    /// How long all BFD sessions of a TEP are down before it is faulty, 0 to 60 s. 5 s.
    pub failover_timeout: Duration,
    /// Try faulty TEPs again; otherwise they come back by hand only, but for a lost address or link. On.
    pub auto_recovery: bool,
    /// The time from a fault to the first try, 300 to 3,600 s. 300 s.
    pub initial_wait: Duration,
    /// The longest time between two tries, 3,600 to 86,400 s. 86,400 s.
    pub max_backoff: Duration,
}

impl Default for TepHealthConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            failover_timeout: Duration::from_secs(5),
            auto_recovery: true,
            initial_wait: Duration::from_secs(300),
            max_backoff: Duration::from_secs(86_400),
        }
    }
}

impl TepHealthConfig {
    /// Range of [`TepHealthConfig::failover_timeout`].
    pub const FAILOVER_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);
    /// Range of [`TepHealthConfig::initial_wait`].
    pub const INITIAL_WAIT: RangeInclusive<Duration> = Duration::from_secs(300)..=Duration::from_secs(3_600);
    /// Range of [`TepHealthConfig::max_backoff`].
    pub const MAX_BACKOFF: RangeInclusive<Duration> =
        Duration::from_secs(3_600)..=Duration::from_secs(86_400);

    pub(super) fn check(&self) -> Result<(), TepHealthError> {
        let fields = [
            ("failover timeout", self.failover_timeout, Self::FAILOVER_TIMEOUT),
            ("initial wait", self.initial_wait, Self::INITIAL_WAIT),
            ("maximum back-off", self.max_backoff, Self::MAX_BACKOFF),
        ];
        match fields.into_iter().find(|(_, value, range)| !range.contains(value)) {
            None => Ok(()),
            Some((field, value, range)) => {
                Err(TepHealthError::Range { field, value, least: *range.start(), most: *range.end() })
            }
        }
    }

    /// The time until the next try, after one of `backoff`; the first one where there was none.
    pub(super) fn next_backoff(&self, backoff: Option<Duration>) -> Duration {
        backoff.map_or(self.initial_wait, |backoff| backoff.saturating_mul(2)).min(self.max_backoff)
    }
}

/// What cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TepHealthError {
    /// A number of the profile is out of its range.
    #[error(
        "the {field} of a TEP high availability profile cannot be {} s: give a time from {} to {} s",
        value.as_secs_f64(), least.as_secs(), most.as_secs()
    )]
    Range {
        /// The number's name.
        field: &'static str,
        /// What it is.
        value: Duration,
        /// The least that it may be.
        least: Duration,
        /// The most that it may be.
        most: Duration,
    },
    /// There is no such TEP.
    #[error("the node has no TEP {0}")]
    Unknown(u16),
    /// The TEP is to recover and is not faulty.
    #[error("TEP {0} is not faulty: there is nothing to recover")]
    NotFaulty(u16),
    /// The TEP is to recover and does not work.
    #[error(
        "TEP {0} does not work yet: it needs an address, a link that is up, and a BFD session that is up"
    )]
    NotWorking(u16),
}
