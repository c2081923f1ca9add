//! The generator at work: obeys orders, runs trials, and answers neighbours all the while.
//!
//! A trial has three parts, all of them bounded: sending for its time, waiting until nothing more comes back, and the counting up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Orders, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context;
use arrayvec::ArrayVec;
use sluice_bench::message::{Answer, Command, StreamCounts, TrialOrder, TrialResult};
use sluice_bench::traffic::{Direction, Stream};
use sluice_dpdk::{Eal, Mbuf, MemifRole, Mempool, cycles};

use crate::links::{self, BURST, Link};
use crate::neighbors::{Resolution, resolve};
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::tell;

/// How often the links are looked at between orders.
const IDLE: Duration = Duration::from_millis(1);
/// The wire is quiet when nothing came for so long.
const QUIET: Duration = Duration::from_millis(50);
/// Longest wait for a quiet wire.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);
/// Longest trial.
const LONGEST_TRIAL: Duration = Duration::from_secs(600);
/// Numbers of a stream: sequence numbers have 32 bits.
const MOST_PACKETS: u64 = u32::MAX as u64 - 2 * BURST as u64;
/// Rounds of the loop between two looks at the interrupt flag.
const ROUNDS: u32 = 256;

/// Opens the links and obeys until the orders end.
pub(crate) fn run(
    eal: &Eal,
    socket: &Path,
    receive_queues: u16,
    orders: Orders<Command>,
) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("watching for signals")?;
    }
    let receive_pool = links::pool(eal, "received", 8191)?;
    let send_pool = links::pool(eal, "sent", 1023)?;
    let links = links::open(eal, socket, MemifRole::Server, false, receive_queues, &receive_pool)?;
    let cycles_per_second = eal.cycles_per_second();
    let mut station = Station { links, send_pool, cycles_per_second, stop, trial: 0, batch: ArrayVec::new() };
    tell(&Answer::Started { memory: eal.memory_backing().to_string(), cycles_per_second })?;
    loop {
        match orders.recv_timeout(IDLE) {
            Ok(command) => {
                let answer = station.obey(&command);
                tell(&answer.unwrap_or_else(|error| Answer::Failed { message: format!("{error:#}") }))?;
            }
            Err(RecvTimeoutError::Timeout) => drop(station.poll(&mut [])),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if station.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// The two links and what goes over them.
struct Station {
    links: [Link; 2],
    send_pool: Mempool,
    cycles_per_second: u64,
    stop: Arc<AtomicBool>,
    /// Number of the latest trial.
    trial: u8,
    batch: ArrayVec<Mbuf, BURST>,
}

/// One direction of a trial.
struct Flow {
    sender: Sender,
    receiver: Receiver,
    counts: StreamCounts,
    /// Number of the link that packets are sent on; they come back on the other one.
    link: usize,
}

/// Frames that were of no stream.
#[derive(Default)]
struct Others {
    received: usize,
    foreign: u64,
    neighbor_requests: u64,
}

impl Others {
    fn add(&mut self, other: &Others) {
        self.foreign += other.foreign;
        self.neighbor_requests += other.neighbor_requests;
    }
}

impl Station {
    fn obey(&mut self, command: &Command) -> anyhow::Result<Answer> {
        match command {
            Command::WaitForLinks { timeout_ms } => self.wait_for_links(Duration::from_millis(*timeout_ms)),
            Command::Trial(order) => self.trial(order).map(Answer::Trial),
            Command::GetForwarded => anyhow::bail!("this process generates traffic and forwards none"),
        }
    }

    fn wait_for_links(&mut self, limit: Duration) -> anyhow::Result<Answer> {
        let end = Instant::now() + limit;
        loop {
            self.poll(&mut []);
            if self.links[0].port.link()?.up && self.links[1].port.link()?.up {
                return Ok(Answer::LinksUp);
            }
            if Instant::now() > end || self.stop.load(Ordering::Relaxed) {
                anyhow::bail!(
                    "the peer did not connect both links within {} ms; its log says why",
                    limit.as_millis()
                );
            }
            std::thread::sleep(IDLE);
        }
    }

    fn trial(&mut self, order: &TrialOrder) -> anyhow::Result<TrialResult> {
        let duration = Duration::from_millis(order.duration_ms);
        anyhow::ensure!(duration <= LONGEST_TRIAL, "a trial lasts at most {} s", LONGEST_TRIAL.as_secs());
        self.trial = self.trial.wrapping_add(1);
        let mut flows = order
            .directions
            .iter()
            .map(|direction| flow(*direction, order, self.trial))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut others = Others::default();
        let sending_ns = self.send(&mut flows, order.packets_per_second, duration, &mut others);
        for flow in &mut flows {
            flow.sender.discard();
            flow.counts.received_while_sending = flow.counts.received;
        }
        self.settle(&mut flows, &mut others);
        Ok(TrialResult {
            sending_ns,
            streams: flows.iter().map(|flow| flow.counts).collect(),
            foreign: others.foreign,
            neighbor_requests: others.neighbor_requests,
            interrupted: self.stop.load(Ordering::Relaxed),
        })
    }

    /// Sends for `duration`, and returns how long it was in nanoseconds.
    fn send(
        &mut self,
        flows: &mut [Flow],
        rate: Option<u64>,
        duration: Duration,
        others: &mut Others,
    ) -> u64 {
        let per_second = u128::from(self.cycles_per_second);
        let start = cycles();
        let last = (duration.as_nanos() * per_second / 1_000_000_000) as u64;
        let mut rounds = 0;
        loop {
            let elapsed = cycles().wrapping_sub(start);
            if elapsed >= last {
                return (u128::from(elapsed) * 1_000_000_000 / per_second) as u64;
            }
            let due = rate.map_or(MOST_PACKETS, |rate| {
                ((u128::from(elapsed) * u128::from(rate) / per_second) as u64).min(MOST_PACKETS)
            });
            for flow in flows.iter_mut() {
                let ahead = due.saturating_sub(flow.counts.sent);
                // With a rate only whole bursts, so that the ports see the same bursts at every rate.
                if ahead >= BURST as u64 {
                    let queue = &mut self.links[flow.link].queues.transmit[0];
                    flow.sender.send(BURST, queue, &self.send_pool, &mut flow.counts);
                }
            }
            others.add(&self.poll(flows));
            rounds += 1;
            if rounds == ROUNDS {
                rounds = 0;
                if self.stop.load(Ordering::Relaxed) {
                    let elapsed = cycles().wrapping_sub(start);
                    return (u128::from(elapsed) * 1_000_000_000 / per_second) as u64;
                }
            }
        }
    }

    /// Receives until nothing has come for a while.
    fn settle(&mut self, flows: &mut [Flow], others: &mut Others) {
        let end = Instant::now() + SETTLE_LIMIT;
        let mut quiet_since = Instant::now();
        while quiet_since.elapsed() < QUIET && Instant::now() < end {
            let seen = self.poll(flows);
            if seen.received > 0 {
                quiet_since = Instant::now();
            }
            others.add(&seen);
        }
    }

    /// Receives one burst of each queue.
    #[inline]
    fn poll(&mut self, flows: &mut [Flow]) -> Others {
        let mut others = Others::default();
        for link in 0..self.links.len() {
            for queue in 0..self.links[link].queues.receive.len() {
                let received = self.links[link].queues.receive[queue].receive(&mut self.batch);
                if received == 0 {
                    continue;
                }
                others.received += received;
                let mut flow = flows.iter_mut().find(|flow| flow.link != link);
                for at in 0..received {
                    let frame = self.batch[at].data();
                    let taken = flow.as_mut().is_some_and(|flow| flow.receiver.take(frame, &mut flow.counts));
                    if !taken {
                        let frame = self.batch[at].to_vec();
                        self.other(link, &frame, &mut others);
                    }
                }
                Mbuf::free_bulk(&mut self.batch);
            }
        }
        others
    }

    #[cold]
    fn other(&mut self, link: usize, frame: &[u8], others: &mut Others) {
        match resolve(link, frame) {
            Resolution::Answer(reply) => {
                others.neighbor_requests += 1;
                let mut batch: ArrayVec<Mbuf, 1> = ArrayVec::new();
                batch.extend(self.send_pool.allocate_with(&reply));
                // Should there be no room, the asker asks again.
                self.links[link].queues.transmit[0].transmit(&mut batch);
            }
            Resolution::Silent => {}
            Resolution::Other => others.foreign += 1,
        }
    }
}

fn flow(direction: Direction, order: &TrialOrder, trial: u8) -> anyhow::Result<Flow> {
    let stream = Stream::new(direction, order.family, order.frame_bytes)?.in_trial(trial);
    Ok(Flow {
        sender: Sender::new(&stream)?,
        receiver: Receiver::new(&stream, order.expected)?,
        counts: StreamCounts::new(direction),
        link: match direction {
            Direction::Encap => 0,
            Direction::Decap => 1,
        },
    })
}
