//! When a trial is over: the wire is quiet for all cores of the generator.
//!
//! What one core sends another may receive, so no core can know by itself that nothing more comes, or that all has come back. Each core says
//! when it has ended sending, and from then on when something came; it reads what the others say. Nothing of this is touched while a core
//! sends.

use std::sync::atomic::{AtomicU64, Ordering};

use sluice_trial::message::{COMPLETE_QUIET, QUIET, SETTLING_LIMIT};

use crate::clock::Clock;

/// The time of a core that still sends.
const SENDING: u64 = 0;

/// What all cores of a trial say.
pub(crate) struct Settling {
    cores: Vec<Said>,
    quiet: u64,
    complete_quiet: u64,
    limit: u64,
}

/// What one core says, in a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Said {
    /// When it ended sending, cycles; [`SENDING`] until then.
    ended: AtomicU64,
    /// When something came last, or when it ended sending, cycles.
    latest: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// One core of a trial.
#[derive(Clone, Copy)]
pub(crate) struct SettlingCore<'a> {
    all: &'a Settling,
    own: &'a Said,
}

impl Settling {
    /// Of a trial that so many cores are about to begin.
    pub(crate) fn new(cores: usize, clock: Clock) -> Self {
        Self {
            cores: (0..cores).map(|_| Said::default()).collect(),
            quiet: clock.cycles_of(QUIET),
            complete_quiet: clock.cycles_of(COMPLETE_QUIET),
            limit: clock.cycles_of(SETTLING_LIMIT),
        }
    }

    /// The part of one of them.
    pub(crate) fn core(&self, core: usize) -> SettlingCore<'_> {
        SettlingCore { all: self, own: &self.cores[core] }
    }
}

impl SettlingCore<'_> {
    /// It has ended sending, or has nothing to send, and these many frames were sent and received by then.
    pub(crate) fn end_sending(self, now: u64, sent: u64, received: u64) {
        self.own.sent.store(sent, Ordering::Relaxed);
        self.own.received.store(received, Ordering::Relaxed);
        self.own.latest.store(now, Ordering::Relaxed);
        // The others read this one first.
        self.own.ended.store(now.max(SENDING + 1), Ordering::Release);
    }

    /// Something came, and with it these many frames of the trial in all.
    pub(crate) fn arrived(self, now: u64, received: u64) {
        self.own.received.store(received, Ordering::Relaxed);
        self.own.latest.store(now, Ordering::Relaxed);
    }

    /// Whether nothing more is to be expected.
    pub(crate) fn is_over(self, now: u64) -> bool {
        let (mut ended, mut latest, mut sent, mut received) = (0, 0, 0, 0);
        for core in &self.all.cores {
            match core.ended.load(Ordering::Acquire) {
                SENDING => return false,
                time => ended = time.max(ended),
            }
            latest = core.latest.load(Ordering::Relaxed).max(latest);
            sent += core.sent.load(Ordering::Relaxed);
            received += core.received.load(Ordering::Relaxed);
        }
        let quiet = if received >= sent { self.all.complete_quiet } else { self.all.quiet };
        now.saturating_sub(latest) >= quiet || now.saturating_sub(ended) >= self.all.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock of which a cycle is a microsecond.
    const CLOCK: Clock = Clock::new(1_000_000);
    const MILLISECOND: u64 = 1_000;

    #[test]
    fn nothing_is_over_while_another_core_sends_or_receives() {
        let settling = Settling::new(2, CLOCK);
        let [one, other] = [0, 1].map(|core| settling.core(core));
        one.end_sending(MILLISECOND, 100, 40);
        assert!(!one.is_over(60_000 * MILLISECOND), "the other one may still send what this one receives");
        other.end_sending(1_000 * MILLISECOND, 100, 150);
        assert!(!one.is_over(1_100 * MILLISECOND), "10 frames are missing");
        other.arrived(1_150 * MILLISECOND, 151);
        assert!(!one.is_over(1_300 * MILLISECOND), "they come, to the other one");
        assert!(one.is_over(1_350 * MILLISECOND) && other.is_over(1_350 * MILLISECOND));
    }

    #[test]
    fn when_all_has_come_back_copies_are_awaited_for_a_little_while() {
        let settling = Settling::new(2, CLOCK);
        let [one, other] = [0, 1].map(|core| settling.core(core));
        one.end_sending(10 * MILLISECOND, 100, 0);
        other.end_sending(10 * MILLISECOND, 0, 99);
        assert!(!one.is_over(20 * MILLISECOND));
        other.arrived(20 * MILLISECOND, 100);
        assert!(!one.is_over(24 * MILLISECOND) && one.is_over(25 * MILLISECOND));
    }

    #[test]
    fn a_wire_that_is_never_quiet_is_left_in_the_end() {
        let settling = Settling::new(1, CLOCK);
        let core = settling.core(0);
        core.end_sending(0, 100, 0);
        for time in (0..1_000).step_by(100) {
            core.arrived(time * MILLISECOND, time);
            assert!(!core.is_over(time * MILLISECOND));
        }
        core.arrived(1_001 * MILLISECOND, 99);
        assert!(core.is_over(1_001 * MILLISECOND));
    }
}
