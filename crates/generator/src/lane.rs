//! One core of the generator at work: its queue of every port, its share of the flows.
//!
//! ```text
//!   round:  senders ─▶ ports          what is due
//!           ports ─▶ receivers        frames of a stream: counted, compared, timed
//!                 └▶ reflector ─▶     frames that reach a workload which sends them back
//!                 ├▶ aggregation      LACP, where the downlinks are a LAG
//!                 └▶ neighbors        the rest: questions are answered, others counted as foreign
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrayvec::ArrayVec;
use sluice_dpdk::{Mbuf, Mempool, RxQueue, TxQueue, cycles};
use sluice_trial::message::StreamCounts;
use sluice_trial::topology::{Side, Topology};

use crate::aggregation::{Aggregation, Outgoing, is_slow_protocols};
use crate::clock::{Clock, Moment};
use crate::latency::Latencies;
use crate::neighbors::{DeviceMacs, Resolution, resolve};
use crate::plan::Part;
use crate::ports::BURST;
use crate::receiver::Receipts;
use crate::sender::{SendPool, Sender};
use crate::settling::SettlingCore;

/// Most bursts that are sent when the time is up: what became due in the last round.
const LAST_BURSTS: u32 = 8;
/// Rounds of the loop between two looks at whether it is to end.
const ROUNDS: u32 = 256;

/// This core's queues of one link.
pub(crate) struct LaneLink {
    receive: Vec<RxQueue>,
    transmit: TxQueue,
    /// Frames on their way back from the workloads that the port had no room for yet.
    returning: ArrayVec<Mbuf, BURST>,
}

impl LaneLink {
    pub(crate) const fn new(receive: Vec<RxQueue>, transmit: TxQueue) -> Self {
        Self { receive, transmit, returning: ArrayVec::new_const() }
    }
}

/// One core.
pub(crate) struct Lane {
    pub(crate) topology: Topology,
    pub(crate) clock: Clock,
    pub(crate) links: Vec<LaneLink>,
    /// For frames that are sent on uplinks, and on downlinks.
    pub(crate) pools: [SendPool; 2],
    pub(crate) answers: Mempool,
    /// What the edge says of itself.
    pub(crate) device: Arc<DeviceMacs>,
    /// The other end of the edge's LAG, if it has one.
    pub(crate) aggregation: Option<Arc<Aggregation>>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) batch: ArrayVec<Mbuf, BURST>,
}

/// What one core counted in a trial.
pub(crate) struct LaneResult {
    /// By direction, in the order of the command.
    pub(crate) streams: Vec<StreamCounts>,
    pub(crate) latencies: Option<Latencies>,
    pub(crate) paths: Vec<u64>,
    /// Sequence number and nanoseconds since the start of each frame, where they were asked for.
    pub(crate) arrivals: Vec<(u32, u64)>,
    /// Which numbers it received; of a generator with one core none.
    pub(crate) receipts: Vec<Receipts>,
    pub(crate) others: Others,
    pub(crate) sending_ns: u64,
    pub(crate) clock_difference_ns: i64,
}

/// Frames that were of no stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Others {
    pub(crate) foreign: u64,
    pub(crate) neighbor_requests: u64,
}

impl Lane {
    /// Runs this core's part from `start` on (cycles), and then until nothing more comes to any core. `watch` is called now and then
    /// while packets are sent.
    pub(crate) fn run(
        &mut self,
        mut part: Part,
        start: u64,
        duration: Duration,
        settling: SettlingCore<'_>,
        mut watch: impl FnMut(),
    ) -> anyhow::Result<LaneResult> {
        while cycles() < start {
            std::hint::spin_loop();
        }
        let moment = Moment::now();
        let mut others = Others::default();
        let end = start + self.clock.cycles_of(duration);
        let sending = self.send(&mut part, start, end, &mut others, &mut watch);
        let clock_difference_ns = moment.difference_ns(self.clock);
        part.end_sending();
        self.settle(&mut part, &mut others, settling);
        self.result(part, start, sending, others, clock_difference_ns)
    }

    fn result(
        &self,
        mut part: Part,
        start: u64,
        sending: u64,
        others: Others,
        clock_difference_ns: i64,
    ) -> anyhow::Result<LaneResult> {
        for sender in &mut part.senders {
            sender.discard();
            let counts = &mut part.counts[sender.stream()];
            counts.sent += sender.sent();
            counts.intended += sender.intended(sending);
        }
        let mut paths = vec![0; usize::from(self.topology.paths)];
        let (mut latencies, mut arrivals): (Option<Latencies>, _) = (None, Vec::new());
        let mut receipts = Vec::new();
        for mut receiver in part.receivers.into_iter().flatten() {
            receipts.extend(receiver.take_receipts());
            for (total, path) in paths.iter_mut().zip(receiver.paths) {
                *total += path;
            }
            let since = |at: u64| self.clock.nanoseconds_of(at.saturating_sub(start));
            arrivals.extend(receiver.arrivals.into_iter().map(|(sequence, at)| (sequence, since(at))));
            match (&mut latencies, receiver.latencies) {
                (Some(latencies), Some(more)) => latencies.add(&more)?,
                (latencies @ None, more) => *latencies = more,
                (Some(_), None) => {}
            }
        }
        Ok(LaneResult {
            streams: part.counts,
            latencies,
            paths,
            arrivals,
            receipts,
            others,
            sending_ns: self.clock.nanoseconds_of(sending),
            clock_difference_ns,
        })
    }

    /// Sends until `end`, or until every burst is out, and returns how long that was.
    fn send(
        &mut self,
        part: &mut Part,
        start: u64,
        end: u64,
        others: &mut Others,
        watch: &mut impl FnMut(),
    ) -> u64 {
        let mut rounds = 0;
        let is_burst = part.senders.iter().any(Sender::is_burst);
        loop {
            let now = cycles();
            if now >= end {
                self.send_rest(part, end, end - start);
                return end - start;
            }
            let mut done = true;
            for sender in &mut part.senders {
                let link = sender.link();
                let pool = &mut self.pools[self.topology.side(link).0 as usize];
                sender.send(now, now - start, &mut self.links[link].transmit, pool);
                done &= sender.is_done();
            }
            if done {
                return cycles() - start;
            }
            // A burst is sent as fast as this core can; what comes back waits in the rings meanwhile.
            if is_burst {
                continue;
            }
            self.poll(part, others);
            rounds += 1;
            if rounds == ROUNDS {
                rounds = 0;
                watch();
                self.aggregate();
                if self.stop.load(Ordering::Relaxed) {
                    return cycles() - start;
                }
            }
        }
    }

    /// Sends what became due in the last round, a bounded number of times.
    fn send_rest(&mut self, part: &mut Part, now: u64, elapsed: u64) {
        for sender in part.senders.iter_mut().filter(|sender| sender.has_rate()) {
            let link = sender.link();
            let pool = &mut self.pools[self.topology.side(link).0 as usize];
            for _ in 0..LAST_BURSTS {
                if sender.send(now, elapsed - 1, &mut self.links[link].transmit, pool) == 0 {
                    break;
                }
            }
        }
    }

    /// Receives until nothing has come to any core for a while.
    fn settle(&mut self, part: &mut Part, others: &mut Others, settling: SettlingCore<'_>) {
        settling.end_sending(cycles(), part.sent(), part.received());
        loop {
            let received = self.poll(part, others);
            self.aggregate();
            let now = cycles();
            if received > 0 {
                settling.arrived(now, part.received());
            }
            if settling.is_over(now) {
                break;
            }
        }
        for link in &mut self.links {
            Mbuf::free_bulk(&mut link.returning);
        }
    }

    /// Answers neighbours, and speaks LACP, between trials.
    pub(crate) fn idle(&mut self) {
        self.aggregate();
        self.poll(&mut Part::default(), &mut Others::default());
    }

    /// Lets LACP's timers act, where the downlinks are a LAG.
    #[inline]
    fn aggregate(&mut self) {
        let frames = match &self.aggregation {
            Some(aggregation) if aggregation.is_due() => aggregation.advance(),
            _ => return,
        };
        self.send_all(frames);
    }

    fn send_all(&mut self, frames: Vec<Outgoing>) {
        for (link, frame) in frames {
            self.send_one(link, &frame);
        }
    }

    /// Receives one burst from each queue, and returns how many packets those were.
    #[inline]
    fn poll(&mut self, part: &mut Part, others: &mut Others) -> usize {
        let mut total = 0;
        for link in 0..self.links.len() {
            let side = self.topology.side(link).0;
            for queue in 0..self.links[link].receive.len() {
                if !self.return_rest(link) {
                    break;
                }
                let received = self.links[link].receive[queue].receive(&mut self.batch);
                if received == 0 {
                    continue;
                }
                total += received;
                match part.reflector {
                    Some(_) if side == Side::Downlink => self.reflect(link, part, others),
                    _ => self.take(link, side, part, others),
                }
            }
        }
        total
    }

    /// Hands the frames of the batch to the receiver of the side.
    #[inline]
    fn take(&mut self, link: usize, side: Side, part: &mut Part, others: &mut Others) {
        let now = cycles();
        for at in 0..self.batch.len() {
            let frame = self.batch[at].data();
            let taken = part.receivers[side as usize].as_mut().is_some_and(|receiver| {
                let counts = &mut part.counts[receiver.stream()];
                receiver.take(frame, now, counts)
            });
            if !taken {
                let resolution = self.resolve(link, self.batch[at].data());
                self.other(link, resolution, others);
            }
        }
        Mbuf::free_bulk(&mut self.batch);
    }

    /// Sends the frames of the batch back, those that are for workloads.
    #[inline]
    fn reflect(&mut self, link: usize, part: &mut Part, others: &mut Others) {
        let Some(reflector) = part.reflector else { return };
        while let Some(mut packet) = self.batch.pop() {
            // The batch is turned over by this; it is put right below, so that frames stay in order.
            if reflector.turn(packet.data_mut()) {
                self.links[link].returning.push(packet);
            } else {
                let resolution = self.resolve(link, packet.data());
                self.other(link, resolution, others);
            }
        }
        self.links[link].returning.reverse();
        self.return_rest(link);
    }

    /// Sends what is on its way back from the workloads of a link. False while the port has no room for all of it: until then nothing more
    /// is received there, as by a host that cannot keep up.
    #[inline]
    fn return_rest(&mut self, link: usize) -> bool {
        let LaneLink { transmit, returning, .. } = &mut self.links[link];
        if !returning.is_empty() {
            transmit.transmit(returning);
        }
        returning.is_empty()
    }

    /// What a frame that is of no stream is to the generator.
    #[cold]
    fn resolve(&self, link: usize, frame: &[u8]) -> Resolution {
        if !is_slow_protocols(frame) {
            return resolve(&self.topology, link, frame);
        }
        match &self.aggregation {
            Some(aggregation) if self.topology.side(link).0 == Side::Downlink => {
                Resolution::Aggregation(aggregation.receive(link, frame))
            }
            _ => Resolution::Silent,
        }
    }

    #[cold]
    fn other(&mut self, link: usize, resolution: Resolution, others: &mut Others) {
        match resolution {
            Resolution::Answer(reply) => {
                others.neighbor_requests += 1;
                self.send_one(link, &reply);
            }
            Resolution::Edge(mac) => {
                // What is heard on one link of a LAG is true of all.
                let all = |other: &usize| self.topology.side(*other) == self.topology.side(link);
                (0..self.topology.links()).filter(all).for_each(|link| self.device.learn(link, mac));
            }
            Resolution::Aggregation(frames) => self.send_all(frames),
            Resolution::Silent => {}
            Resolution::Other => others.foreign += 1,
        }
    }

    /// Sends a question or an answer of neighbour resolution. Should there be no room, whoever asks asks again.
    pub(crate) fn send_one(&mut self, link: usize, frame: &[u8]) {
        let mut batch: ArrayVec<Mbuf, 1> = ArrayVec::new();
        batch.extend(self.answers.allocate_with(frame));
        self.links[link].transmit.transmit(&mut batch);
    }
}
