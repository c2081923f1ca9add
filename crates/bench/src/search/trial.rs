//! One trial: what is asked of a device, what it counted, and whether that can be.

use std::time::Duration;

use super::error::Invalid;
use super::{Conditions, LimitedBy, Preparation};

/// What a search measures: it runs one trial at a time.
pub trait Device {
    /// Why a trial could not be run.
    type Error: std::error::Error + 'static;

    /// Prepares, sends, waits until late frames have come, and counts.
    ///
    /// # Errors
    ///
    /// Where there are no counts. What went wrong *within* a trial (a link went down, a signal came) is part of the [`Outcome`].
    fn trial(&mut self, request: &Request) -> Result<Outcome, Self::Error>;
}

/// What a trial sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// A constant load.
    Load {
        /// Frames a second, all directions together. Any positive number: a generator may round load times duration to whole frames in
        /// each direction, but not the frames of each second.
        frames_per_second: f64,
        /// How long to send.
        duration: Duration,
    },
    /// Frames back to back, as fast as the medium takes them.
    Burst {
        /// Number of frames, all directions together.
        frames: u64,
    },
}

/// A trial that is to be run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// What to send.
    pub traffic: Traffic,
    /// What to do before.
    pub preparation: Preparation,
}

impl std::fmt::Display for Traffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Load { frames_per_second, duration } => {
                write!(f, "{frames_per_second:.0} frames a second for {duration:?}")
            }
            Self::Burst { frames } => write!(f, "a burst of {frames} frames"),
        }
    }
}

/// Counters of a generator, summed over all directions. They only ever grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that the medium took.
    pub sent: u64,
    /// Frames of these that came back, each counted once.
    pub received: u64,
    /// Frames that came back once more.
    pub duplicates: u64,
    /// Frames, of those received, that came behind later ones of their flow.
    pub reordered: u64,
    /// Frames that the test did not send.
    pub foreign: u64,
    /// Frames that came back changed in what no device may change.
    pub corrupted: u64,
    /// Frames of an earlier trial.
    pub stale: u64,
}

/// A counter has a smaller value than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the counter of {counter} frames went backwards, from {before} to {after}")]
pub struct CounterWentBackwards {
    /// Its name.
    pub counter: &'static str,
    /// Its value before.
    pub before: u64,
    /// Its value after.
    pub after: u64,
}

impl Counters {
    /// What was counted since `before`.
    ///
    /// # Errors
    ///
    /// For a counter that is smaller than it was.
    pub fn since(&self, before: &Self) -> Result<Self, CounterWentBackwards> {
        let grown = |counter, before: u64, after: u64| {
            after.checked_sub(before).ok_or(CounterWentBackwards { counter, before, after })
        };
        Ok(Self {
            sent: grown("sent", before.sent, self.sent)?,
            received: grown("received", before.received, self.received)?,
            duplicates: grown("duplicate", before.duplicates, self.duplicates)?,
            reordered: grown("reordered", before.reordered, self.reordered)?,
            foreign: grown("foreign", before.foreign, self.foreign)?,
            corrupted: grown("corrupted", before.corrupted, self.corrupted)?,
            stale: grown("stale", before.stale, self.stale)?,
        })
    }
}

/// What a device says of a trial that it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Frames that the generator set out to send: load times duration, whole frames in each direction.
    pub intended: u64,
    /// The counters before the first frame. All 0 where the generator counts each trial for itself.
    pub before: Counters,
    /// The counters when late frames had come.
    pub after: Counters,
    /// How long frames were being sent.
    pub sending: Duration,
    /// A signal or a person ended the trial before its time.
    pub interrupted: bool,
    /// A link was down for some of the time.
    pub link_went_down: bool,
    /// The clock was set, or stood still (a suspended machine), during the trial.
    pub clock_jumped: bool,
}

impl Outcome {
    /// An undisturbed trial of a generator that counts each trial for itself.
    pub fn counted(intended: u64, counted: Counters, sending: Duration) -> Self {
        Self {
            intended,
            before: Counters::default(),
            after: counted,
            sending,
            interrupted: false,
            link_went_down: false,
            clock_jumped: false,
        }
    }
}

/// A trial whose counts can be: the only form in which searches see one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// What was sent.
    pub traffic: Traffic,
    /// Frames that were to be sent.
    pub intended: u64,
    /// Frames of these that were not sent, or not in the time of the trial, beyond the grace of [`Conditions::unsent_grace`].
    pub unsent: u64,
    /// What was counted.
    pub counted: Counters,
    /// How long frames were being sent.
    pub sending: Duration,
}

/// A generator that ends so much later than asked, in proportion, has still sent at the intended load.
const LATE_END: f64 = 0.001;
/// A generator may round the load in each direction to whole frames: its intention may differ from the request by so many frames, or
/// by [`INTENDED_RATIO`] of them.
const INTENDED_FRAMES: f64 = 16.0;
/// See [`INTENDED_FRAMES`].
const INTENDED_RATIO: f64 = 0.001;
/// Sending that ends before this share of the time that its frames take at the intended load was not at that load.
const EARLY_END: f64 = 0.9;
/// Frames that a generator may hand to the medium at once, in all directions: it may be ahead of its pace by so many.
const FRAMES_AT_ONCE: u64 = 1_024;

impl Trial {
    /// Judges an outcome.
    pub(super) fn judge(
        request: &Request,
        outcome: &Outcome,
        conditions: &Conditions,
    ) -> Result<Self, Invalid> {
        let Outcome { intended, sending, .. } = *outcome;
        if outcome.interrupted {
            return Err(Invalid::Interrupted);
        }
        if outcome.link_went_down {
            return Err(Invalid::LinkWentDown);
        }
        if outcome.clock_jumped {
            return Err(Invalid::ClockJumped);
        }
        let counted = outcome.after.since(&outcome.before)?;
        check_counts(intended, &counted, conditions)?;
        check_intention(&request.traffic, intended)?;
        let unsent = match request.traffic {
            Traffic::Burst { .. } if counted.sent < intended => {
                return Err(Invalid::BurstIncomplete { sent: counted.sent, intended });
            }
            Traffic::Burst { .. } => 0,
            Traffic::Load { frames_per_second, duration } => {
                check_pace(frames_per_second, counted.sent, sending)?;
                let unsent = intended - counted.sent + sent_late(counted.sent, duration, sending);
                let grace = frames_per_second * conditions.unsent_grace.as_secs_f64();
                if unsent as f64 <= grace { 0 } else { unsent }
            }
        };
        Ok(Self { traffic: request.traffic, intended, unsent, counted, sending })
    }

    /// Frames lost: those that did not come back, and those that were not sent in time.
    pub fn lost(&self) -> u64 {
        (self.counted.sent - self.counted.received).saturating_add(self.unsent).min(self.intended)
    }

    /// Lost frames of those intended, 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        // Searches refuse settings with which a trial would have no frame.
        self.lost() as f64 / self.intended.max(1) as f64
    }

    /// Frames a second that were sent, over the time of sending: the offered load (RFC 2285 section 3.5.2); 0 if there was none.
    pub fn offered_load(&self) -> f64 {
        self.per_second(self.counted.sent)
    }

    /// Frames a second that came back, over the time of sending (RFC 2285 section 3.6.1); 0 if there was none.
    pub fn forwarding_rate(&self) -> f64 {
        self.per_second(self.counted.received)
    }

    fn per_second(&self, frames: u64) -> f64 {
        let seconds = self.sending.as_secs_f64();
        if seconds > 0.0 { frames as f64 / seconds } else { 0.0 }
    }

    /// What lost more frames.
    pub fn limited_by(&self) -> LimitedBy {
        let by_device = self.counted.sent - self.counted.received;
        if self.unsent > by_device { LimitedBy::Sender } else { LimitedBy::Device }
    }
}

/// Counts that contradict one another, and frames that are a sign of something else than the test.
fn check_counts(intended: u64, counted: &Counters, conditions: &Conditions) -> Result<(), Invalid> {
    let Counters { sent, received, duplicates, reordered, foreign, corrupted, stale } = *counted;
    let accepted = &conditions.accepted;
    if sent > intended {
        return Err(Invalid::SentMoreThanIntended { sent, intended });
    }
    if received > sent {
        return Err(Invalid::ReceivedMoreThanSent { received, sent });
    }
    if reordered > received {
        return Err(Invalid::ReorderedMoreThanReceived { reordered, received });
    }
    if corrupted > 0 {
        return Err(Invalid::Corrupted { frames: corrupted });
    }
    if foreign > accepted.foreign {
        return Err(Invalid::Foreign { frames: foreign });
    }
    if duplicates > 0 && !accepted.duplicates {
        return Err(Invalid::Duplicates { frames: duplicates });
    }
    if stale > 0 && !accepted.stale {
        return Err(Invalid::Stale { frames: stale });
    }
    Ok(())
}

/// A generator that set out to send something else than it was asked.
fn check_intention(traffic: &Traffic, intended: u64) -> Result<(), Invalid> {
    let (asked, tolerated) = match *traffic {
        Traffic::Burst { frames } => (frames as f64, 0.0),
        Traffic::Load { frames_per_second, duration } => {
            let asked = frames_per_second * duration.as_secs_f64();
            (asked, INTENDED_FRAMES.max(asked * INTENDED_RATIO))
        }
    };
    if intended == 0 || (intended as f64 - asked).abs() > tolerated {
        return Err(Invalid::AnotherIntention { intended, asked });
    }
    Ok(())
}

/// Frames that were sent faster than they were to be: from the first to the last pass as many gaps as there are frames, but for those
/// that are handed over at once.
fn check_pace(frames_per_second: f64, sent: u64, sending: Duration) -> Result<(), Invalid> {
    let expected = sent.saturating_sub(FRAMES_AT_ONCE) as f64 / frames_per_second;
    if sending.as_secs_f64() < expected * EARLY_END {
        return Err(Invalid::SentTooFast { sending, expected: Duration::from_secs_f64(expected) });
    }
    Ok(())
}

/// Frames that were sent when the trial should have been over. A load that is stretched is a lower load; without this, a slow
/// generator would let a device appear fast.
fn sent_late(sent: u64, duration: Duration, sending: Duration) -> u64 {
    let (duration, sending) = (duration.as_secs_f64(), sending.as_secs_f64());
    if sending <= duration * (1.0 + LATE_END) {
        return 0;
    }
    sent - ((sent as f64 * duration / sending) as u64).min(sent)
}
