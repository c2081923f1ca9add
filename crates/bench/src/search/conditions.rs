//! What holds for every trial of a search: how the device is prepared, which irregularities are accepted, when to give up.

use std::time::Duration;

/// What is to be done before the frames of a trial are counted.
///
/// A device with state (firewall, NAT, SD-WAN) answers differently to flows that it knows. Each of its trials starts with a ramp-up
/// or from a reset state, never with neither, so that trials do not depend on those before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preparation {
    /// Nothing: a device without state.
    #[default]
    Nothing,
    /// Send a packet of each flow first, at a rate that the device copes with, uncounted.
    RampUp,
    /// Reset the state of the device first, so that each trial begins with unknown flows.
    ResetState,
}

/// Irregularities in counts that a search accepts. By default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Frames that come back more than once. Usual where a multi-path device repeats frames on purpose. The copies never count as received.
    pub duplicates: bool,
    /// Frames of an earlier trial. They counted as lost then, and do not count now.
    pub stale: bool,
    /// Frames that nobody of the test sent, at most so many a trial. A network card on a real segment hears its neighbours' protocols.
    pub foreign: u64,
}

/// Bounds on a whole search, which ends it with [`LimitReached`](super::LimitReached).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of trials.
    pub trials: u32,
    /// Time of sending, all trials together. What the device needs besides (preparation, waiting for late frames) is not known here.
    pub sending: Duration,
}

impl Default for Limits {
    /// 10,000 trials, one day.
    fn default() -> Self {
        Self { trials: 10_000, sending: Duration::from_secs(24 * 60 * 60) }
    }
}

/// What holds for every trial of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// What precedes a trial.
    pub preparation: Preparation,
    /// What is no reason to refuse a trial.
    pub accepted: Accepted,
    /// So many frames as this time is worth at the intended load may stay unsent without counting as loss: 10 µs, as the reference
    /// implementation of RFC 9971 has it. A generator that fills bursts cannot end on the very frame. A burst may take as much longer.
    pub unsent_grace: Duration,
    /// When to give up.
    pub limits: Limits,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            preparation: Preparation::default(),
            accepted: Accepted::default(),
            unsent_grace: Duration::from_micros(10),
            limits: Limits::default(),
        }
    }
}
