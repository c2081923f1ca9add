//! How much traffic goes by each local TEP and to each remote one, for placing flows on the least loaded.
//!
//! The load of a TEP, or of a pair of them, is what was sent by it, in bytes, the past counting half for each [`HALF_LIFE`] that it lies
//! back. What was placed and has not sent yet counts in advance, so that flows that begin together do not all choose the same. Each worker
//! has a view of its own, made from what all workers counted; used when a flow begins, and by what moves flows ([`crate::engine`]).
//!
//! Of a remote TEP a node knows what it sends there itself, not what others do. Where several nodes send to the same ones, each spreads
//! its own flows evenly, and where it begins follows from its own seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluice_intent::plan::{MAX_TEPS, TepIndex};

use crate::counters::EngineCounters;
use crate::flow::FlowKey;
use crate::snapshot::{Snapshot, TepPairId, Tunnel, TunnelGroupId, TunnelId};
use crate::time::Timestamp;

/// Nanoseconds after which traffic counts half: several round trips, a fraction of what a person notices.
const HALF_LIFE: f64 = 64e6;
/// Bytes that a flow counts in advance at least: ten full packets, what a TCP connection may send at once (RFC 6928).
const EXPECTED: f64 = 15_000.0;
/// Share of all traffic that a flow counts in advance.
const EXPECTED_SHARE: f64 = 1.0 / 8.0;
/// Nanoseconds within which a flow may have a companion.
const COMPANION_WITHIN: u64 = 1_000_000_000;
/// Bytes below which a flow has carried next to nothing: a connection's set-up.
const NEXT_TO_NOTHING: u64 = 4_000;
/// Flows that are remembered as having begun.
const BEGINNINGS: usize = 64;
/// Pairs that one call of [`TepLoads::keep_up`] looks at.
const STEP: usize = 256;

/// Bytes of inner frames that all workers sent between each pair of TEPs of a snapshot: added to at housekeeping, read when a flow is
/// placed.
#[derive(Debug, Default)]
pub(crate) struct PairTraffic(Box<[AtomicU64]>);

impl PairTraffic {
    /// Nothing sent between so many pairs.
    pub(crate) fn new(pairs: usize) -> Self {
        Self((0..pairs).map(|_| AtomicU64::new(0)).collect())
    }

    /// Adds bytes.
    pub(crate) fn add(&self, pair: TepPairId, bytes: u64) {
        if let Some(counter) = self.0.get(pair.index()) {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes so far.
    pub(crate) fn get(&self, pair: TepPairId) -> u64 {
        self.0.get(pair.index()).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// Pairs.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A load as it was at a moment, and the counter from which it goes on.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    bytes: f64,
    counted: u64,
    at: Timestamp,
    /// The counter at the last look; see [`TepLoads::look`].
    looked: u64,
}

impl Load {
    /// What it is by now. What was sent meanwhile is taken to have been sent evenly.
    fn now(&self, now: Timestamp, counted: u64) -> f64 {
        let halves = now.nanos_since(self.at) as f64 / HALF_LIFE;
        let fresh = counted.saturating_sub(self.counted) as f64;
        let kept = (-halves).exp2();
        // The mean of what is kept over the time that has passed.
        let mean = if halves > 1e-6 { (1.0 - kept) / (halves * std::f64::consts::LN_2) } else { 1.0 };
        self.bytes * kept + fresh * mean
    }

    /// Goes on from now.
    fn keep_up(&mut self, now: Timestamp, counted: u64) {
        *self = Self { bytes: self.now(now, counted), counted, at: now, ..*self };
    }
}

/// A flow that has begun.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    /// [`FlowKey::ends`].
    ends: u64,
    tunnel: TunnelId,
    group: TunnelGroupId,
    pair: TepPairId,
    at: Timestamp,
    /// What the pair had carried by then.
    carried: u64,
}

/// The loads of the node's TEPs and of the pairs that they make as one worker sees them.
pub(crate) struct TepLoads {
    teps: [Load; MAX_TEPS],
    pairs: Box<[Load]>,
    /// The pair with which the next call of [`Self::keep_up`] begins.
    next: usize,
    looked: Timestamp,
    /// The latest flows without a companion, by their ends.
    beginnings: [Option<Beginning>; BEGINNINGS],
}

impl TepLoads {
    /// No traffic yet, for a snapshot with so many pairs of TEPs.
    pub(crate) fn new(pairs: usize) -> Self {
        Self {
            teps: [Load::default(); MAX_TEPS],
            pairs: vec![Load::default(); pairs].into(),
            next: 0,
            looked: Timestamp::default(),
            beginnings: [None; BEGINNINGS],
        }
    }

    /// Takes over the loads of the TEPs from a view of another snapshot; the pairs are others.
    pub(crate) fn succeed(&mut self, other: &Self) {
        (self.teps, self.looked) = (other.teps, other.looked);
    }

    /// Brings the TEPs and the next [`STEP`] pairs up to date, so that what went by one long ago is told from what goes by it now, also where
    /// no flow begins for long.
    pub(crate) fn keep_up(&mut self, counted: Counted<'_>) {
        for (tep, load) in self.teps.iter_mut().take(counted.teps).enumerate() {
            load.keep_up(counted.now, counted.by_tep(TepIndex(tep as u16)));
        }
        for _ in 0..STEP.min(self.pairs.len()) {
            let pair = TepPairId(self.next as u32);
            self.pairs[self.next].keep_up(counted.now, counted.traffic.get(pair));
            self.next = (self.next + 1) % self.pairs.len();
        }
    }

    /// The tunnel of a flow between the same ends that has just begun and carried next to nothing. Programs open a small connection before a large
    /// one (iperf3, FTP, SIP): counted as two flows, they would take the TEPs in turn, and the large ones of two workloads would meet on one.
    fn companion(&self, ends: u64, group: TunnelGroupId, counted: Counted<'_>) -> Option<TunnelId> {
        let begun = self.beginnings[ends as usize % BEGINNINGS]?;
        let fresh = counted.now.nanos_since(begun.at) < COMPANION_WITHIN
            && counted.traffic.get(begun.pair).saturating_sub(begun.carried) < NEXT_TO_NOTHING;
        (begun.ends == ends && begun.group == group && fresh).then_some(begun.tunnel)
    }

    /// Counts a flow that was placed in a tunnel in advance, unless it goes with its companion, which was counted.
    pub(crate) fn place(&mut self, key: &FlowKey, id: TunnelId, tunnel: &Tunnel, counted: Counted<'_>) {
        let (ends, group, pair) = (key.ends(), tunnel.group, tunnel.pair);
        let slot = ends as usize % BEGINNINGS;
        if self.companion(ends, group, counted) == Some(id) {
            self.beginnings[slot] = None;
            return;
        }
        let carried = counted.traffic.get(pair);
        self.beginnings[slot] = Some(Beginning { ends, tunnel: id, group, pair, at: counted.now, carried });
        let all: f64 = (0..counted.teps as u16).map(|tep| self.of_tep(TepIndex(tep), counted)).sum();
        let expected = EXPECTED.max(all * EXPECTED_SHARE);
        if let Some(load) = self.teps.get_mut(tunnel.tep.index()) {
            load.keep_up(counted.now, counted.by_tep(tunnel.tep));
            load.bytes += expected;
        }
        if let Some(load) = self.pairs.get_mut(tunnel.pair.index()) {
            load.keep_up(counted.now, counted.traffic.get(tunnel.pair));
            load.bytes += expected;
        }
    }

    /// Begins to reckon anew what is carried from now on.
    pub(crate) fn look(&mut self, counted: Counted<'_>) {
        self.looked = counted.now;
        for (tep, load) in self.teps.iter_mut().take(counted.teps).enumerate() {
            load.looked = counted.by_tep(TepIndex(tep as u16));
        }
        for (pair, load) in self.pairs.iter_mut().enumerate() {
            load.looked = counted.traffic.get(TepPairId(pair as u32));
        }
    }

    /// When that was last.
    pub(crate) fn looked(&self) -> Timestamp {
        self.looked
    }

    /// Bytes that a local TEP has sent since then.
    pub(crate) fn carried_by_tep(&self, tep: TepIndex, counted: Counted<'_>) -> f64 {
        self.teps.get(tep.index()).map_or(0.0, |load| counted.by_tep(tep).saturating_sub(load.looked) as f64)
    }

    /// Bytes that were sent between a pair since then.
    pub(crate) fn carried_by_pair(&self, pair: TepPairId, counted: Counted<'_>) -> f64 {
        let carried = |load: &Load| counted.traffic.get(pair).saturating_sub(load.looked) as f64;
        self.pairs.get(pair.index()).map_or(0.0, carried)
    }

    fn of_tep(&self, tep: TepIndex, counted: Counted<'_>) -> f64 {
        self.teps.get(tep.index()).map_or(0.0, |load| load.now(counted.now, counted.by_tep(tep)))
    }

    fn of_pair(&self, pair: TepPairId, counted: Counted<'_>) -> f64 {
        self.pairs.get(pair.index()).map_or(0.0, |load| load.now(counted.now, counted.traffic.get(pair)))
    }
}

/// What all workers of the node have counted by a moment.
#[derive(Clone, Copy)]
pub(crate) struct Counted<'a> {
    pub(crate) now: Timestamp,
    /// TEPs of the node.
    pub(crate) teps: usize,
    pub(crate) workers: &'a [Arc<EngineCounters>],
    pub(crate) traffic: &'a PairTraffic,
}

impl<'a> Counted<'a> {
    /// What these workers counted of a snapshot's tunnels.
    pub(crate) fn by(snapshot: &'a Snapshot, workers: &'a [Arc<EngineCounters>], now: Timestamp) -> Self {
        Self { now, teps: snapshot.plan().teps.len(), workers, traffic: snapshot.pair_traffic() }
    }

    /// Bytes that a local TEP has sent.
    pub(crate) fn by_tep(&self, tep: TepIndex) -> u64 {
        self.workers
            .iter()
            .filter_map(|worker| worker.tep_bytes.get(tep.index()))
            .map(|bytes| bytes.get())
            .sum()
    }
}

/// The loads at a moment, for a decision.
#[derive(Clone, Copy)]
pub(crate) struct LoadsNow<'a> {
    pub(crate) known: &'a TepLoads,
    pub(crate) counted: Counted<'a>,
}

impl LoadsNow<'_> {
    /// The tunnel of a companion of the flow, see [`TepLoads::companion`].
    pub(crate) fn companion(&self, key: &FlowKey, group: TunnelGroupId) -> Option<TunnelId> {
        self.known.companion(key.ends(), group, self.counted)
    }

    /// Load of a local TEP.
    pub(crate) fn of_tep(&self, tep: TepIndex) -> f64 {
        self.known.of_tep(tep, self.counted)
    }

    /// Load of a pair of TEPs.
    pub(crate) fn of_pair(&self, pair: TepPairId) -> f64 {
        self.known.of_pair(pair, self.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    #[test]
    fn what_lies_back_counts_half_for_each_half_life() {
        let load = Load { bytes: 1000.0, counted: 500, ..Load::default() };
        assert_eq!(load.now(at(0), 700), 1200.0);
        assert_eq!(load.now(at(64), 500), 500.0);
        assert_eq!(load.now(at(128), 500), 250.0);
    }

    #[test]
    fn a_steady_rate_has_the_same_load_however_often_it_is_looked_at() {
        let rate = 125_000;
        let mut often = Load::default();
        for millisecond in 1..=1000 {
            often.keep_up(at(millisecond), millisecond * rate);
        }
        let once = Load::default().now(at(1000), 1000 * rate);
        assert!((often.bytes / once - 1.0).abs() < 0.01, "{} {once}", often.bytes);
        // 64 ms / ln 2 of it.
        assert!((often.bytes / (rate as f64 * 92.33) - 1.0).abs() < 0.01, "{}", often.bytes);
    }
}
