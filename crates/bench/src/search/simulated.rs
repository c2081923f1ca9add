//! Devices whose true answer is known, for the tests of the searches.

use std::time::Duration;

use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::trial::{Counters, Device, Outcome, Request, Traffic};

/// What is wrong with a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    ReceivedMoreThanSent,
    /// Frames are lost, and as many others come twice.
    DuplicatesForLost,
    MoreReorderedThanReceived,
    Foreign,
    Corrupted,
    Stale,
    CounterGoesBackwards,
    SentMoreThanIntended,
    IntendsLess,
    SendsTooFast,
    SendsLess,
    LinkGoesDown,
    ClockJumps,
    IsInterrupted,
    Fails,
}

/// The error of a device that cannot run a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the generator has ended")]
pub(super) struct Broken;

/// A device that forwards up to its knee and has a buffer, with what may go wrong, behind a generator that may be slow.
#[derive(Debug)]
pub(super) struct Simulated {
    /// Highest rate that is forwarded without loss, frames a second.
    knee: f64,
    /// Frames that wait while more come than are forwarded.
    buffer: u64,
    /// Frame rate of a burst.
    line_rate: f64,
    /// How far the knee moves from trial to trial, relative, either way.
    jitter: f64,
    /// Most frames that are lost at random, of those sent.
    random_loss: f64,
    /// Frames that are lost at any rate, of those sent.
    constant_loss: f64,
    /// Frames not forwarded for each frame beyond the knee.
    collapse: f64,
    /// Once overloaded, it drops a tenth until offered no more than this.
    recovers_at: Option<f64>,
    overloaded: bool,
    /// Trials that lose a tenth because the device is cold.
    cold_trials: u32,
    /// Trials that lose a hundredth.
    losing_trials: Vec<u32>,
    /// Highest rate that the generator sends.
    sends_at_most: f64,
    /// The generator takes longer instead of sending less.
    stretches: bool,
    lie: Option<(Lie, u32)>,
    random: TestRng,
    counters: Counters,
    /// Trials run.
    pub(super) trials: u32,
    /// Requests seen.
    pub(super) requests: Vec<Request>,
}

impl Simulated {
    /// Forwards everything up to the knee, and the knee beyond.
    pub(super) fn steady(knee: f64) -> Self {
        Self {
            knee,
            buffer: 0,
            line_rate: 1e9,
            jitter: 0.0,
            random_loss: 0.0,
            constant_loss: 0.0,
            collapse: 0.0,
            recovers_at: None,
            overloaded: false,
            cold_trials: 0,
            losing_trials: Vec::new(),
            sends_at_most: f64::INFINITY,
            stretches: false,
            lie: None,
            random: TestRng::from_seed(RngAlgorithm::XorShift, b"the same always!"),
            // Counters of a generator that has run before.
            counters: Counters { sent: 1_000, received: 900, foreign: 3, ..Counters::default() },
            trials: 0,
            requests: Vec::new(),
        }
    }

    pub(super) fn with_buffer(self, buffer: u64, line_rate: f64) -> Self {
        Self { buffer, line_rate, ..self }
    }

    pub(super) fn noisy(self, jitter: f64, random_loss: f64, seed: [u8; 16]) -> Self {
        Self { jitter, random_loss, random: TestRng::from_seed(RngAlgorithm::XorShift, &seed), ..self }
    }

    pub(super) fn losing(self, constant_loss: f64) -> Self {
        Self { constant_loss, ..self }
    }

    pub(super) fn collapsing(self, collapse: f64) -> Self {
        Self { collapse, ..self }
    }

    pub(super) fn recovering_at(self, rate: f64) -> Self {
        Self { recovers_at: Some(rate), ..self }
    }

    pub(super) fn cold(self, cold_trials: u32) -> Self {
        Self { cold_trials, ..self }
    }

    pub(super) fn losing_trials(self, trials: &[u32]) -> Self {
        Self { losing_trials: trials.to_vec(), ..self }
    }

    pub(super) fn sending_at_most(self, rate: f64, stretches: bool) -> Self {
        Self { sends_at_most: rate, stretches, ..self }
    }

    /// Lies in the trial of this number, from 1.
    pub(super) fn lying(self, lie: Lie, trial: u32) -> Self {
        Self { lie: Some((lie, trial)), ..self }
    }

    /// Frames of `sent` that come back when they come at `rate` for `seconds`.
    fn forwarded(&mut self, sent: u64, rate: f64, seconds: f64) -> u64 {
        let knee = self.knee * (1.0 + self.jitter * self.random.random_range(-1.0..=1.0));
        let excess = (rate - knee).max(0.0);
        let capacity = (knee - excess * self.collapse).max(0.0) * seconds + self.buffer as f64;
        // What is offered is counted in whole frames: a load at the knee is not beyond it.
        let mut forwarded = if excess == 0.0 { sent } else { sent.min(capacity as u64) };
        if let Some(recovers_at) = self.recovers_at {
            self.overloaded = rate > knee || (self.overloaded && rate > recovers_at);
            if self.overloaded {
                forwarded = forwarded.min(sent - sent / 10);
            }
        }
        let mut ratio = self.constant_loss + self.random_loss * self.random.random_range(0.0..=1.0);
        if self.trials <= self.cold_trials {
            ratio += 0.1;
        }
        if self.losing_trials.contains(&self.trials) {
            ratio += 0.01;
        }
        forwarded - ((sent as f64 * ratio).round() as u64).min(forwarded)
    }

    fn run(&mut self, traffic: &Traffic) -> (u64, Counters, Duration) {
        match *traffic {
            Traffic::Burst { frames } => {
                let rate = self.line_rate.min(self.sends_at_most);
                let seconds = frames as f64 / rate;
                let received = self.forwarded(frames, rate, seconds);
                let counted = Counters { sent: frames, received, ..Counters::default() };
                (frames, counted, Duration::from_secs_f64((frames - 1) as f64 / rate))
            }
            Traffic::Load { frames_per_second, duration } => {
                let seconds = duration.as_secs_f64();
                let intended = (frames_per_second * seconds) as u64;
                let rate = frames_per_second.min(self.sends_at_most);
                let (sent, seconds) = match self.stretches {
                    true => (intended, seconds * frames_per_second / rate),
                    false => (intended.min((rate * seconds) as u64), seconds),
                };
                let received = self.forwarded(sent, rate, seconds);
                let counted = Counters { sent, received, ..Counters::default() };
                (intended, counted, Duration::from_secs_f64(seconds))
            }
        }
    }
}

impl Device for Simulated {
    type Error = Broken;

    fn trial(&mut self, request: &Request) -> Result<Outcome, Broken> {
        self.trials += 1;
        assert!(self.trials < 1_000_000, "a search without end");
        self.requests.push(*request);
        let (intended, counted, sending) = self.run(&request.traffic);
        let before = self.counters;
        let after = Counters {
            sent: before.sent + counted.sent,
            received: before.received + counted.received,
            ..before
        };
        let mut outcome = Outcome {
            intended,
            before,
            after,
            sending,
            interrupted: false,
            link_went_down: false,
            clock_jumped: false,
        };
        if let Some((lie, _)) = self.lie.filter(|(_, trial)| *trial == self.trials) {
            if lie == Lie::Fails {
                return Err(Broken);
            }
            tell(lie, &mut outcome);
        }
        self.counters = outcome.after;
        Ok(outcome)
    }
}

/// Falsifies an outcome.
fn tell(lie: Lie, outcome: &mut Outcome) {
    let after = &mut outcome.after;
    match lie {
        Lie::ReceivedMoreThanSent => after.received = outcome.before.received + outcome.intended + 1,
        Lie::DuplicatesForLost => {
            after.received -= 10;
            after.duplicates += 10;
        }
        Lie::MoreReorderedThanReceived => after.reordered += outcome.intended + 1,
        Lie::Foreign => after.foreign += 5,
        Lie::Corrupted => after.corrupted += 1,
        Lie::Stale => after.stale += 2,
        Lie::CounterGoesBackwards => after.foreign -= 1,
        Lie::SentMoreThanIntended => after.sent += 1_000_000_000,
        Lie::IntendsLess => {
            outcome.intended /= 2;
            after.sent = outcome.before.sent + outcome.intended;
            after.received = outcome.before.received + outcome.intended;
        }
        Lie::SendsLess => {
            after.sent -= 1;
            after.received -= 1;
        }
        Lie::SendsTooFast => outcome.sending /= 2,
        Lie::LinkGoesDown => outcome.link_went_down = true,
        Lie::ClockJumps => outcome.clock_jumped = true,
        Lie::IsInterrupted => outcome.interrupted = true,
        Lie::Fails => {}
    }
}
