//! How sessions are configured, and what is wrong with a configuration.

use std::time::Duration;

/// Numbers of a [`super::Sessions`] table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionsConfig {
    /// Sessions at most, without those that are on their way out; a further one is refused. 16,384, so that each has a source port of its own.
    pub sessions: usize,
    /// Where discriminators and jitter begin; give every node another number, one that others cannot guess. 0.
    pub seed: u64,
}

impl Default for SessionsConfig {
    fn default() -> Self {
        Self { sessions: 16_384, seed: 0 }
    }
}

/// How a session works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// The interval that this end wants to send at while the session is up, 50 ms to 60 s. 1 s.
    pub desired_min_tx: Duration,
    /// The least interval that this end can receive at, 50 ms to 60 s. 1 s.
    pub required_min_rx: Duration,
    /// How many packets in a row may be missing before the other end takes the session down, 1 to 16. 3.
    pub detect_multiplier: u8,
    /// Send nothing before the other end is heard (the passive role of RFC 5880 §6.1). Off.
    pub passive: bool,
    /// Off: the session is in AdminDown and tells so. On.
    pub enabled: bool,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self::every(Duration::from_secs(1), 3)
    }
}

impl SessionConfig {
    /// The least interval.
    pub const MIN_INTERVAL: Duration = Duration::from_millis(50);
    /// The greatest interval.
    pub const MAX_INTERVAL: Duration = Duration::from_secs(60);
    /// The greatest detection time multiplier.
    pub const MAX_MULTIPLIER: u8 = 16;

    /// An active session with the same interval in both directions.
    pub const fn every(interval: Duration, detect_multiplier: u8) -> Self {
        Self {
            desired_min_tx: interval,
            required_min_rx: interval,
            detect_multiplier,
            passive: false,
            enabled: true,
        }
    }

    pub(super) fn check(&self) -> Result<(), SessionError> {
        for interval in [self.desired_min_tx, self.required_min_rx] {
            if !(Self::MIN_INTERVAL..=Self::MAX_INTERVAL).contains(&interval) {
                return Err(SessionError::Interval(interval));
            }
        }
        match self.detect_multiplier {
            1..=Self::MAX_MULTIPLIER => Ok(()),
            multiplier => Err(SessionError::Multiplier(multiplier)),
        }
    }
}

/// A session that cannot be made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// An interval is out of its range.
    #[error("a BFD interval of {0:?} is out of range: give one from 50 ms to 60 s")]
    Interval(Duration),
    /// The detection time multiplier is out of its range.
    #[error("a BFD detection time multiplier of {0} is out of range: give one from 1 to 16")]
    Multiplier(u8),
    /// The two addresses are not of one family.
    #[error("a BFD session needs two addresses of one family, both IPv4 or both IPv6")]
    Family,
    /// There is a session for the path.
    #[error("there is a BFD session for this path already: change that one")]
    Exists,
    /// There is no session for the path.
    #[error("there is no BFD session for this path")]
    Unknown,
    /// The table is full.
    #[error("there are {0} BFD sessions already, as many as there may be: remove some, or raise the limit")]
    Full(usize),
}
