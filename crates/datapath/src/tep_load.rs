//! How much traffic goes by each local TEP and to each remote one, for placing flows on the least loaded.
//!
//! The load of a TEP, or of a pair of them, is what was sent by it, in bytes, the past counting half for each [`HALF_LIFE`] that it lies
//! back. What was placed and has not sent yet counts in advance, so that flows that begin together, on whichever workers, do not all choose the
//! same. Each worker has a view of its own, made from what all workers counted; used when a flow begins, and by what moves flows
//! ([`crate::engine`]).
//!
//! Programs open a small connection before a large one (iperf3, FTP, SIP): counted as two flows they would take the TEPs in turn, and the large
//! ones of two workloads would meet on one. Such a flow and its companion go together and count once. What tells them from flows that are
//! opened side by side, which each count: the first has been answered before the second begins, since a program learns from it what to open;
//! it is the first one between its ends for a while; and it has sent little, in small packets.
//!
//! Of a remote TEP a node knows what it sends there itself, not what others do. Where several nodes send to the same ones, each spreads
//! its own flows evenly, and where it begins follows from its own seed.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use sluice_intent::plan::{MAX_TEP_GROUP, MAX_TEPS, TepIndex};

use crate::counters::{Counter, EngineCounters};
use crate::rewrite::table::RewriteRef;
use crate::snapshot::{Snapshot, TepPairId, TunnelGroup, TunnelGroupId, TunnelId};
use crate::time::Timestamp;

/// Nanoseconds after which traffic counts half: several round trips, a fraction of what a person notices.
const HALF_LIFE: f64 = 64e6;
/// Bytes that a flow counts in advance at least: ten full packets, what a TCP connection may send at once (RFC 6928).
const EXPECTED: f64 = 15_000.0;
/// Share of all traffic that a flow counts in advance.
const EXPECTED_SHARE: f64 = 1.0 / 8.0;
/// Nanoseconds within which a flow may have a companion.
const COMPANION_WITHIN: u64 = 1_000_000_000;
/// Bytes that are counted of a packet besides its own at most: Ethernet with a tag, IPv6, UDP, tunnel header, Ethernet with a tag.
const HEADERS: u64 = 18 + 40 + 8 + 8 + 18;
/// Nanoseconds within which two flows begin at once: an answer and what a program makes of it take longer.
const AT_ONCE: u64 = 250_000;
/// Bytes of a first packet with which a flow is not a small one.
const LARGE_PACKET: u16 = 1_000;
/// Bytes below which a flow has carried next to nothing: a connection's set-up.
const NEXT_TO_NOTHING: u64 = 4_000;
/// Flows that are remembered as having begun.
const BEGINNINGS: usize = 64;
/// Pairs that one call of [`TepLoads::keep_up`] looks at.
const STEP: usize = 256;

/// Bytes between each pair of TEPs of a snapshot, of all workers: read when a flow is placed.
#[derive(Debug, Default)]
pub(crate) struct PairTraffic {
    /// Of inner frames that were sent: added to at housekeeping.
    sent: Box<[AtomicU64]>,
    /// What flows count in advance: added to when one is placed.
    expected: Box<[AtomicU64]>,
}

impl PairTraffic {
    /// Nothing sent between so many pairs.
    pub(crate) fn new(pairs: usize) -> Self {
        let zeroed = || (0..pairs).map(|_| AtomicU64::new(0)).collect();
        Self { sent: zeroed(), expected: zeroed() }
    }

    /// Adds bytes that were sent.
    pub(crate) fn add(&self, pair: TepPairId, bytes: u64) {
        if let Some(counter) = self.sent.get(pair.index()) {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes sent so far.
    pub(crate) fn get(&self, pair: TepPairId) -> u64 {
        self.sent.get(pair.index()).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    fn expect(&self, pair: TepPairId, bytes: u64) {
        if let Some(counter) = self.expected.get(pair.index()) {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// What the load of a pair is made of: what was sent, and what was counted in advance.
    fn load(&self, pair: TepPairId) -> u64 {
        let expected = self.expected.get(pair.index()).map_or(0, |counter| counter.load(Ordering::Relaxed));
        self.get(pair) + expected
    }

    /// Pairs.
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }
}

/// A load as it was at a moment, and the counter from which it goes on.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    bytes: f64,
    counted: u64,
    at: Timestamp,
    /// What was sent by the last look, and between that and the one before; see [`crate::engine`].
    looked: u64,
    carried: u64,
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

    /// Begins to reckon anew what is carried from now on.
    fn look(&mut self, sent: u64) {
        self.carried = sent.saturating_sub(self.looked);
        self.looked = sent;
    }

    /// Goes on from now.
    fn keep_up(&mut self, now: Timestamp, counted: u64) {
        *self = Self { bytes: self.now(now, counted), counted, at: now, ..*self };
    }
}

/// A flow that begins, and where it was placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    /// [`crate::flow::FlowKey::ends`].
    pub(crate) ends: u64,
    /// Its own tunnel, and what that is part of.
    pub(crate) tunnel: TunnelId,
    pub(crate) group: TunnelGroupId,
    pub(crate) tep: TepIndex,
    pub(crate) pair: TepPairId,
    /// Its rewrite.
    pub(crate) rewrite: RewriteRef,
    /// Its first packet at layer 3, in bytes.
    pub(crate) length: u16,
    /// That packet opens a TCP connection or accepts one (RFC 9293 section 3.5): the next one comes when it was answered.
    pub(crate) opens: bool,
}

/// A flow that has begun.
#[derive(Clone, Copy, Debug)]
struct Begun {
    flow: Beginning,
    at: Timestamp,
    /// What the pair had carried by then.
    carried: u64,
    /// None has begun since between the same ends.
    alone: bool,
}

impl Begun {
    /// Bytes that went the way of the flow since it began: its own, and those of others there.
    fn carried_since(&self, counted: Counted<'_>, pending: impl Fn(RewriteRef) -> u64) -> u64 {
        let carried = counted.traffic.get(self.flow.pair) + pending(self.flow.rewrite);
        carried.saturating_sub(self.carried)
    }
}

/// The loads of the node's TEPs and of the pairs that they make as one worker sees them.
pub(crate) struct TepLoads {
    teps: [Load; MAX_TEPS],
    pairs: Box<[Load]>,
    /// The pair with which the next call of [`Self::keep_up`] begins.
    next: usize,
    /// The latest flows without a companion, by their ends.
    beginnings: [Option<Begun>; BEGINNINGS],
}

impl TepLoads {
    /// No traffic yet, for a snapshot with so many pairs of TEPs.
    pub(crate) fn new(pairs: usize) -> Self {
        Self {
            teps: [Load::default(); MAX_TEPS],
            pairs: vec![Load::default(); pairs].into(),
            next: 0,
            beginnings: [None; BEGINNINGS],
        }
    }

    /// Takes over the loads of the TEPs from a view of another snapshot; the pairs are others.
    pub(crate) fn succeed(&mut self, other: &Self) {
        self.teps = other.teps;
    }

    /// Brings the TEPs and the next [`STEP`] pairs up to date, so that what went by one long ago is told from what goes by it now, also where
    /// no flow begins for long.
    pub(crate) fn keep_up(&mut self, counted: Counted<'_>) {
        for (tep, load) in self.teps.iter_mut().take(counted.teps).enumerate() {
            load.keep_up(counted.now, counted.load_of_tep(TepIndex(tep as u16)));
        }
        for _ in 0..STEP.min(self.pairs.len()) {
            let pair = TepPairId(self.next as u32);
            self.pairs[self.next].keep_up(counted.now, counted.traffic.load(pair));
            self.next = (self.next + 1) % self.pairs.len();
        }
    }

    /// The group and tunnel of the flow that one between these ends is the companion of; see the [module](self). `pending`: bytes that a rewrite
    /// has carried and housekeeping has not seen.
    pub(crate) fn companion(
        &self,
        ends: u64,
        counted: Counted<'_>,
        pending: impl Fn(RewriteRef) -> u64,
    ) -> Option<(TunnelGroupId, TunnelId)> {
        let begun = self.begun(ends, counted.now)?;
        let carried = begun.carried_since(counted, pending);
        let answered = match begun.flow.opens {
            true => carried > u64::from(begun.flow.length) + HEADERS,
            false => counted.now.nanos_since(begun.at) >= AT_ONCE,
        };
        let small = carried < NEXT_TO_NOTHING && begun.flow.length < LARGE_PACKET;
        (begun.alone && answered && small).then_some((begun.flow.group, begun.flow.tunnel))
    }

    /// The flow that began between these ends lately.
    fn begun(&self, ends: u64, now: Timestamp) -> Option<&Begun> {
        let begun = self.beginnings[ends as usize % BEGINNINGS].as_ref()?;
        (begun.flow.ends == ends && now.nanos_since(begun.at) < COMPANION_WITHIN).then_some(begun)
    }

    /// Counts a flow that was placed in advance, among what this worker counts, unless it goes with its companion, which was counted.
    pub(crate) fn place(
        &mut self,
        flow: Beginning,
        counted: Counted<'_>,
        own: &EngineCounters,
        pending: impl Fn(RewriteRef) -> u64,
    ) {
        let companion = self.companion(flow.ends, counted, &pending);
        let small = |begun: &&Begun| begun.carried_since(counted, &pending) < NEXT_TO_NOTHING;
        let known = self.begun(flow.ends, counted.now).filter(small).is_some();
        let place = &mut self.beginnings[flow.ends as usize % BEGINNINGS];
        match place {
            Some(begun) if known => begun.alone = false,
            _ => {
                let carried = counted.traffic.get(flow.pair) + pending(flow.rewrite);
                *place = Some(Begun { flow, at: counted.now, carried, alone: true });
            }
        }
        if companion == Some((flow.group, flow.tunnel)) {
            return;
        }
        let all: f64 = (0..counted.teps as u16).map(|tep| self.of_tep(TepIndex(tep), counted)).sum();
        let expected = EXPECTED.max(all * EXPECTED_SHARE) as u64;
        // What was counted in the meantime is taken to lie back; this does not.
        if let Some(load) = self.teps.get_mut(flow.tep.index()) {
            load.keep_up(counted.now, counted.load_of_tep(flow.tep));
        }
        if let Some(load) = self.pairs.get_mut(flow.pair.index()) {
            load.keep_up(counted.now, counted.traffic.load(flow.pair));
        }
        if let Some(counter) = own.tep_expected.get(flow.tep.index()) {
            counter.add(expected);
        }
        counted.traffic.expect(flow.pair, expected);
    }

    /// Begins to reckon anew what each local TEP carries from now on; what it was until now.
    pub(crate) fn look_at_teps(&mut self, counted: Counted<'_>) -> [f64; MAX_TEPS] {
        for (tep, load) in self.teps.iter_mut().take(counted.teps).enumerate() {
            load.look(counted.by_tep(TepIndex(tep as u16)));
        }
        self.teps.map(|load| load.carried as f64)
    }

    /// Does so for pairs, at most `count` from one on; the one that is next, none after the last.
    pub(crate) fn look_at_pairs(
        &mut self,
        first: usize,
        count: usize,
        counted: Counted<'_>,
    ) -> Option<usize> {
        for (pair, load) in self.pairs.iter_mut().enumerate().skip(first).take(count) {
            load.look(counted.traffic.get(TepPairId(pair as u32)));
        }
        Some(first + count).filter(|next| *next < self.pairs.len())
    }

    /// Bytes that were sent between a pair from the last look but one to the last.
    pub(crate) fn carried_by_pair(&self, pair: TepPairId) -> f64 {
        self.pairs.get(pair.index()).map_or(0.0, |load| load.carried as f64)
    }

    fn of_tep(&self, tep: TepIndex, counted: Counted<'_>) -> f64 {
        self.teps.get(tep.index()).map_or(0.0, |load| load.now(counted.now, counted.load_of_tep(tep)))
    }

    fn of_pair(&self, pair: TepPairId, counted: Counted<'_>) -> f64 {
        self.pairs.get(pair.index()).map_or(0.0, |load| load.now(counted.now, counted.traffic.load(pair)))
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
        let sent = |worker: &Arc<EngineCounters>| worker.tep_bytes.get(tep.index()).map(Counter::get);
        self.workers.iter().filter_map(sent).sum()
    }

    /// What the load of a local TEP is made of: what was sent, and what was counted in advance.
    fn load_of_tep(&self, tep: TepIndex) -> u64 {
        let expected = |worker: &Arc<EngineCounters>| worker.tep_expected.get(tep.index()).map(Counter::get);
        self.by_tep(tep) + self.workers.iter().filter_map(expected).sum::<u64>()
    }
}

/// The loads at a moment, for a decision.
#[derive(Clone, Copy)]
pub(crate) struct LoadsNow<'a> {
    pub(crate) known: &'a TepLoads,
    pub(crate) counted: Counted<'a>,
    /// The tunnel that the flow takes with its companion, and the group that it is of, if it has one.
    pub(crate) companion: Option<(TunnelGroupId, TunnelId)>,
}

impl LoadsNow<'_> {
    /// Load of a local TEP.
    pub(crate) fn of_tep(&self, tep: TepIndex) -> f64 {
        self.known.of_tep(tep, self.counted)
    }

    /// Load of a pair of TEPs.
    pub(crate) fn of_pair(&self, pair: TepPairId) -> f64 {
        self.known.of_pair(pair, self.counted)
    }
}

/// What goes to each remote TEP of a group.
pub(crate) struct RemoteLoads(ArrayVec<(IpAddr, f64), MAX_TEP_GROUP>);

impl RemoteLoads {
    /// The sums of what goes by each pair of a group.
    pub(crate) fn of(snapshot: &Snapshot, group: &TunnelGroup, of_pair: impl Fn(TepPairId) -> f64) -> Self {
        let mut remotes: ArrayVec<(IpAddr, f64), MAX_TEP_GROUP> = ArrayVec::new();
        for tunnel in group.tunnels().map(|id| snapshot.tunnel(id)) {
            let load = of_pair(tunnel.pair);
            match remotes.iter_mut().find(|(remote, _)| *remote == tunnel.remote) {
                Some((_, all)) => *all += load,
                None => remotes.push((tunnel.remote, load)),
            }
        }
        Self(remotes)
    }

    /// That of one of them.
    pub(crate) fn get(&self, remote: IpAddr) -> f64 {
        self.0.iter().find(|(address, _)| *address == remote).map_or(0.0, |(_, load)| *load)
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

    /// Each pair is asked for once in a look, however many steps that takes, and counts from one look to the next.
    #[test]
    fn a_look_at_the_pairs_goes_on_where_it_stopped() {
        let traffic = PairTraffic::new(2500);
        let counted = Counted { now: at(0), teps: 0, workers: &[], traffic: &traffic };
        let mut loads = TepLoads::new(2500);
        for bytes in [1, 10, 100] {
            (0..2500).for_each(|pair| traffic.add(TepPairId(pair), bytes * u64::from(pair)));
            assert_eq!(loads.look_at_pairs(0, 1000, counted), Some(1000));
            assert_eq!(loads.look_at_pairs(1000, 1000, counted), Some(2000));
            let carried = |pair| loads.carried_by_pair(TepPairId(pair)) as u64;
            assert_eq!([999, 1999].map(carried), [999 * bytes, 1999 * bytes]);
            assert_eq!(carried(2499), bytes / 10 * 2499, "not yet");
            assert_eq!(loads.look_at_pairs(2000, 1000, counted), None);
            assert_eq!(loads.carried_by_pair(TepPairId(2499)) as u64, bytes * 2499);
        }
    }
}
