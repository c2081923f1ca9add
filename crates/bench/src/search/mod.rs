//! The searches of a bench: which trials to run, and what follows from their counts.
//!
//! Pure: a search is a function over a [`Device`], which runs one [`Request`] at a time and answers with counts. Nothing here does
//! I/O, sleeps, reads a clock or knows processes; time is the sum of what trials say they took. The bench implements [`Device`]
//! over its generator; tests implement it over devices whose true answer is known.
//!
//! ```text
//!   settings ──check──▶ search ──Request──▶ Device
//!                         │  ◀──Outcome──┘
//!             Progress ◀──┴──▶ result: a verdict, its bounds, every trial
//! ```
//!
//! | module | method | question |
//! |---|---|---|
//! | [`throughput`] | RFC 2544 section 26.1 | the highest rate at which no more than a tolerated share is lost |
//! | [`latency`] | RFC 2544 section 26.2 | at which loads to measure latency |
//! | [`frame_loss`] | RFC 2544 section 26.3 | how much is lost at which load |
//! | [`back_to_back`] | RFC 2544 section 26.4, RFC 9004 | the longest burst without loss, and the buffer time that follows |
//! | [`reset`] | RFC 2544 section 26.6, RFC 6201 | how long a reset interrupts forwarding |
//! | [`multiple_loss_ratio`] | RFC 9971 | several loss ratios at once, each with a lower and an upper bound |
//! | [`maximum_receive_rate`] | RFC 2285 section 3.6, RFC 2889 | the highest forwarding rate at any offered load |
//!
//! Rates are frames a second, summed over all directions. Three things hold for every search:
//!
//! - **It ends.** The number of trials has a bound that follows from the settings, and [`Limits`] bound trials and time besides.
//! - **It is not fooled.** Counts that cannot be, frames that nobody sent, a link that went down or a clock that jumped end the search
//!   with [`SearchError::Invalid`], which says what was wrong in which trial. A search never goes on with such a trial.
//! - **It says what it does not know.** A device that fails at the lowest rate has no number, and one that was never brought to
//!   its limit has "at least".

pub mod back_to_back;
mod conditions;
mod error;
pub mod frame_loss;
pub mod latency;
pub mod maximum_receive_rate;
pub mod multiple_loss_ratio;
mod progress;
pub mod reset;
mod run;
#[cfg(test)]
mod simulated;
pub mod throughput;
mod trial;

pub use conditions::{Accepted, Conditions, Limits, Preparation};
pub use error::{Fault, Impossible, Invalid, LimitReached, SearchError};
pub use progress::{Phase, Progress};
pub use trial::{CounterWentBackwards, Counters, Device, Outcome, Request, Traffic, Trial};

/// What kept a rate from being sustained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedBy {
    /// The device lost frames.
    Device,
    /// The generator did not send what was intended; the device might do better.
    Sender,
}
