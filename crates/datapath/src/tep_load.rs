//! How much traffic each local TEP of the node carries, for placing flows on the least loaded one.
//!
//! The load of a TEP is what its tunnels sent, in bytes, the past counting half for each [`HALF_LIFE`] that it lies back. What was
//! placed and has not sent yet counts in advance, so that flows that begin together do not all choose the same TEP. Each worker has a
//! view of its own, made from what all workers counted; used on the slow path only, when a flow begins.

use sluice_intent::plan::{MAX_TEPS, TepIndex};

use crate::time::Timestamp;

/// Nanoseconds after which traffic counts half: several round trips, a fraction of what a person notices.
const HALF_LIFE: f64 = 64e6;
/// Bytes that a flow counts in advance at least: ten full packets, what a TCP connection may send at once (RFC 6928).
const EXPECTED: f64 = 15_000.0;
/// Share of all traffic that a flow counts in advance.
const EXPECTED_SHARE: f64 = 1.0 / 8.0;

/// The loads of the node's TEPs as one worker sees them.
pub(crate) struct TepLoads {
    loads: [f64; MAX_TEPS],
    /// Bytes that were counted when the loads were last brought up to date.
    counted: [u64; MAX_TEPS],
    at: Timestamp,
}

impl TepLoads {
    /// No traffic yet.
    pub(crate) fn new() -> Self {
        Self { loads: [0.0; MAX_TEPS], counted: [0; MAX_TEPS], at: Timestamp::default() }
    }

    /// Brings the loads of the first `teps` TEPs up to date, with the bytes that each has sent in all.
    pub(crate) fn update(&mut self, now: Timestamp, teps: usize, sent: impl Fn(usize) -> u64) {
        let elapsed = now.as_nanos().saturating_sub(self.at.as_nanos());
        self.at = now;
        let kept = (-(elapsed as f64) / HALF_LIFE).exp2();
        for (tep, (load, counted)) in self.loads.iter_mut().zip(&mut self.counted).take(teps).enumerate() {
            let sent = sent(tep);
            *load = *load * kept + sent.saturating_sub(*counted) as f64;
            *counted = sent;
        }
    }

    /// Counts a flow that was placed on a TEP in advance.
    pub(crate) fn place(&mut self, tep: TepIndex) {
        let all: f64 = self.loads.iter().sum();
        if let Some(load) = self.loads.get_mut(tep.index()) {
            *load += EXPECTED.max(all * EXPECTED_SHARE);
        }
    }

    /// The least loaded of some TEPs, of equals the first.
    pub(crate) fn least(&self, teps: impl Iterator<Item = TepIndex>) -> Option<TepIndex> {
        let load = |tep: &TepIndex| self.loads.get(tep.index()).copied().unwrap_or_default();
        teps.min_by(|left, right| load(left).total_cmp(&load(right)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_nanos(milliseconds * 1_000_000)
    }

    fn both() -> impl Iterator<Item = TepIndex> {
        [TepIndex(0), TepIndex(1)].into_iter()
    }

    /// Places a flow as the engine does.
    fn place(loads: &mut TepLoads) -> u16 {
        let tep = loads.least(both()).unwrap();
        loads.place(tep);
        tep.0
    }

    #[test]
    fn flows_that_begin_together_take_turns() {
        let mut loads = TepLoads::new();
        loads.update(at(1), 2, |_| 0);
        let placed: Vec<u16> = (0..6).map(|_| place(&mut loads)).collect();
        assert_eq!(placed, [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn a_new_flow_takes_the_idle_tep_whatever_came_before() {
        let mut loads = TepLoads::new();
        loads.update(at(1), 2, |_| 0);
        assert_eq!(place(&mut loads), 0);
        // 1 Gb/s on the first TEP, for 100 ms; and connections that carry nothing.
        for millisecond in 2..100 {
            loads.update(at(millisecond), 2, |tep| if tep == 0 { millisecond * 125_000 } else { 0 });
        }
        assert_eq!(
            (place(&mut loads), place(&mut loads)),
            (1, 1),
            "two small ones are less than a large one"
        );
        // The first is silent, the second carries as much as it did.
        for millisecond in 100..1000 {
            let second = (millisecond - 100) * 125_000;
            loads.update(at(millisecond), 2, |tep| if tep == 0 { 99 * 125_000 } else { second });
        }
        assert_eq!(place(&mut loads), 0);
    }
}
