//! The other end of the edge's LAG: LACP on the downlinks, where they are one.
//!
//! Any core may receive an LACPDU; whichever it is tells the state machine of `sluice-protocols`, under a lock that nothing else of a trial
//! comes near, and sends what it wants to send. Frames for workloads come over any downlink, and go back over the one that they came by.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sluice_dpdk::cycles;
use sluice_protocols::Timestamp;
use sluice_protocols::lacp::{Action, Lag, LagConfig, LagError, PortConfig};
use sluice_trial::topology::{Topology, host_mac};
use sluice_wire::EtherType;
use sluice_wire::ethernet::EthernetView;

use crate::clock::Clock;

/// Speed of a downlink in megabits a second: all have the same.
const SPEED: u32 = 10_000;

/// A frame to send, and the link to send it on.
pub(crate) type Outgoing = (usize, Vec<u8>);

/// The LAG of the downlinks.
pub(crate) struct Aggregation {
    lag: Mutex<Lag>,
    clock: Clock,
    /// The first downlink among all links.
    first: usize,
    /// When the timers are to be looked at next, cycles.
    due: AtomicU64,
}

impl Aggregation {
    /// The LAG of a topology that has one.
    pub(crate) fn new(topology: &Topology, clock: Clock) -> Result<Option<Self>, LagError> {
        if !topology.lag {
            return Ok(None);
        }
        let ports =
            (0..topology.downlinks).map(|downlink| PortConfig::new(downlink.into(), host_mac(downlink)));
        let mut lag = Lag::new(LagConfig::new(host_mac(0), 1, ports.collect()))?;
        let now = Timestamp::from_nanos(clock.nanoseconds_of(cycles()));
        for downlink in 0..topology.downlinks {
            lag.link_state(downlink.into(), Some(SPEED), now);
        }
        let (lag, due) = (Mutex::new(lag), AtomicU64::new(0));
        Ok(Some(Self { lag, clock, first: topology.uplinks.into(), due }))
    }

    /// Whether the timers are to be looked at.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        cycles() >= self.due.load(Ordering::Relaxed)
    }

    /// Lets the timers act; what is to be sent.
    #[cold]
    pub(crate) fn advance(&self) -> Vec<Outgoing> {
        self.with(|lag, now| lag.advance(now))
    }

    /// Takes a frame of the slow protocols that came in on a downlink; what is to be sent.
    #[cold]
    pub(crate) fn receive(&self, link: usize, frame: &[u8]) -> Vec<Outgoing> {
        let port = link.saturating_sub(self.first) as u16;
        // What is refused has no effect; an echo that sends back what it gets is such a case.
        self.with(|lag, now| {
            let _ = lag.receive(port, frame, now);
        })
    }

    fn with(&self, act: impl FnOnce(&mut Lag, Timestamp)) -> Vec<Outgoing> {
        // A core that failed holding it has ended the trial already.
        let mut lag = self.lag.lock().unwrap_or_else(PoisonError::into_inner);
        let now = cycles();
        act(&mut lag, Timestamp::from_nanos(self.clock.nanoseconds_of(now)));
        let next = lag.next_event().map(Timestamp::as_nanos).unwrap_or(u64::MAX);
        let left = next.saturating_sub(self.clock.nanoseconds_of(now));
        let left = self.clock.cycles_of(std::time::Duration::from_nanos(left));
        self.due.store(now.saturating_add(left), Ordering::Relaxed);
        let mut frames = Vec::new();
        while let Some(action) = lag.next_action() {
            if let Action::Send { port, frame } = action {
                frames.push((self.first + usize::from(port), frame));
            }
        }
        frames
    }
}

/// Whether a frame is one of the slow protocols.
pub(crate) fn is_slow_protocols(frame: &[u8]) -> bool {
    EthernetView::parse(frame).is_ok_and(|ethernet| ethernet.ether_type() == EtherType::SLOW_PROTOCOLS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    /// Two generators whose downlinks lead to each other come to agree within the usual time.
    #[test]
    fn both_downlinks_are_offered_and_answered() {
        let topology = Topology { uplinks: 2, downlinks: 2, lag: true, ..Topology::default() };
        let clock = Clock::new(1_000_000_000);
        assert!(Aggregation::new(&Topology::default(), clock).unwrap().is_none(), "no LAG");
        let aggregation = Aggregation::new(&topology, clock).unwrap().unwrap();
        assert!(aggregation.is_due());
        let frames = aggregation.advance();
        assert_eq!(frames.iter().map(|(link, _)| *link).collect::<Vec<_>>(), [2, 3]);
        assert!(frames.iter().all(|(_, frame)| is_slow_protocols(frame)));
        // Its own LACPDU is refused, and another system's is answered.
        assert_eq!(aggregation.receive(2, &frames[0].1), []);
        let other =
            LagConfig::new(sluice_trial::topology::downlink_mac(0), 3, vec![PortConfig::new(0, host_mac(9))]);
        let mut other = Lag::new(other).unwrap();
        let now = Timestamp::from_secs(1);
        other.link_state(0, Some(SPEED), now);
        let Some(Action::Send { frame, .. }) = other.next_action() else { panic!("an LACPDU") };
        let answers = aggregation.receive(3, &frame);
        assert_eq!(answers.iter().map(|(link, _)| *link).collect::<Vec<_>>(), [3]);
        other.receive(0, &answers[0].1, now).unwrap();
        assert_eq!(other.view().ports[0].partner.system, host_mac(0));
    }
}
