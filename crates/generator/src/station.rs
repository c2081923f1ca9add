//! The generator's orders: ports opened once, trials run on every core, what they counted added up.
//!
//! A trial has three parts, all of them bounded: sending for its time, waiting until nothing more comes back, and the adding up. Only
//! then are counters read: those of a wire that still carries packets tell of losses that there are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver as Orders, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use arrayvec::ArrayVec;
use sluice_dpdk::{Eal, MemifRole, Port, WorkerRegistration, cycles, pin_to_core};
use sluice_trial::message::{Answer, Command, Load, StreamCounts, TrialOrder, TrialResult};
use sluice_trial::ports::PortName;
use sluice_trial::topology::Topology;
use sluice_wire::MacAddr;

use crate::aggregation::Aggregation;
use crate::clock::Clock;
use crate::lane::{Lane, LaneLink, LaneResult, Others};
use crate::latency::Latencies;
use crate::neighbors::{self, DeviceMacs};
use crate::plan::{Part, Plan};
use crate::ports::{self, Opening};
use crate::receiver::Receipts;
use crate::sender::SendPool;
use crate::settling::{Settling, SettlingCore};
use crate::tell;

/// How often the links are looked at between orders.
const IDLE: Duration = Duration::from_millis(1);
/// How long a device may take to answer before it is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How often they are looked at in a trial.
const WATCH: Duration = Duration::from_millis(10);
/// Longest trial.
const LONGEST_TRIAL: Duration = Duration::from_secs(600);
/// Longest trial at the highest rate, whose packets 32 bits must be able to number.
const LONGEST_AT_MOST: Duration = Duration::from_secs(120);
/// Packets that one sender can number.
const MOST_PACKETS: f64 = u32::MAX as f64;
/// From the order to the first packet, so that every core is there.
const LEAD: Duration = Duration::from_micros(200);

/// What the generator works with.
pub(crate) struct Equipment {
    pub(crate) uplinks: Vec<PortName>,
    pub(crate) downlinks: Vec<PortName>,
    pub(crate) topology: Topology,
    /// The first one is this thread's.
    pub(crate) cores: Vec<usize>,
    /// At least one for each core; more where the peer has more transmit queues.
    pub(crate) receive_queues: u16,
}

/// Opens the ports and obeys until the orders end.
pub(crate) fn run(eal: &Eal, equipment: &Equipment, orders: Orders<Command>) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("watching for signals")?;
    }
    let mut station = Station::open(eal, equipment, Arc::clone(&stop))?;
    let cycles_per_second = eal.cycles_per_second();
    let (memory, dpdk) = (eal.memory_backing().to_string(), eal.version());
    tell(&Answer::Started { memory, cycles_per_second, dpdk })?;
    loop {
        match orders.recv_timeout(IDLE) {
            Ok(command) => {
                let answer = station.obey(&command);
                tell(&answer.unwrap_or_else(|error| Answer::Failed { message: format!("{error:#}") }))?;
            }
            Err(RecvTimeoutError::Timeout) => station.lane.idle(),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// Does `work` for each task until there are no more, and between them, as often as the links are to be looked at, `idle`.
fn serve<S, T>(
    state: &mut S,
    tasks: &Orders<T>,
    mut work: impl FnMut(&mut S, T),
    mut idle: impl FnMut(&mut S),
) {
    loop {
        match tasks.recv_timeout(IDLE) {
            Ok(task) => work(state, task),
            Err(RecvTimeoutError::Timeout) => idle(state),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The ports and the cores.
struct Station {
    // Queues before their ports.
    lane: Lane,
    others: Vec<OtherCore>,
    ports: Vec<Port>,
    topology: Topology,
    clock: Clock,
    stop: Arc<AtomicBool>,
    /// Number of the latest trial.
    trial: u8,
}

/// A core beside the one that takes orders. Its thread ends when the channel of its tasks does.
struct OtherCore {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

/// One core's part of a trial.
struct Task {
    plan: Arc<Plan>,
    /// Cores that are ready.
    ready: Arc<AtomicU64>,
    /// When to begin, cycles; 0 until that is known.
    start: Arc<AtomicU64>,
    duration: Duration,
    settling: Arc<Settling>,
    result: Sender<anyhow::Result<LaneResult>>,
}

impl Station {
    fn open(eal: &Eal, equipment: &Equipment, stop: Arc<AtomicBool>) -> anyhow::Result<Self> {
        let cores = equipment.cores.len() as u16;
        let opening = Opening {
            role: MemifRole::Server,
            zero_copy: false,
            receive_queues: equipment.receive_queues.max(cores),
            transmit_queues: cores,
        };
        let named: Vec<PortName> = equipment.uplinks.iter().chain(&equipment.downlinks).cloned().collect();
        let pool = ports::pool(eal, "received", ports::buffers(&named, opening.receive_queues))?;
        let (mut ports, mut queues) = (Vec::new(), Vec::new());
        for (at, name) in named.iter().enumerate() {
            let (port, own) = opening.open(eal, &format!("link{at}"), name, &pool)?;
            ports.push(port);
            queues.push((own.receive.into_iter(), own.transmit.into_iter()));
        }
        // A cache-sized pool for ports that copy; rings hold what is sent on the others.
        let count = if ports::are_shared_memory(&named) { 1023 } else { ports::buffers(&named, 1) };
        let clock = Clock::new(eal.cycles_per_second());
        let device = Arc::new(DeviceMacs::new(named.len()));
        let aggregation = Aggregation::new(&equipment.topology, clock)?.map(Arc::new);
        let mut lanes = Vec::new();
        for lane in 0..usize::from(cores) {
            // What the peer sends on more queues than there are cores is the first core's.
            let more = if lane == 0 { usize::from(opening.receive_queues - cores) } else { 0 };
            let mut links = Vec::new();
            for (receive, transmit) in &mut queues {
                let receive = receive.by_ref().take(1 + more).collect();
                links.push(LaneLink::new(receive, transmit.next().context("a transmit queue")?));
            }
            let send_pool = |side| ports::pool(eal, format_args!("{side}{lane}"), count).map(SendPool::new);
            lanes.push(Lane {
                topology: equipment.topology,
                clock,
                links,
                pools: [send_pool("uplink")?, send_pool("downlink")?],
                answers: ports::pool(eal, format_args!("answers{lane}"), 511)?,
                device: Arc::clone(&device),
                aggregation: aggregation.clone(),
                stop: Arc::clone(&stop),
                batch: ArrayVec::new(),
            });
        }
        let mut lanes = lanes.into_iter();
        let lane = lanes.next().context("the generator needs a core")?;
        let others = (1..).zip(lanes).map(|(at, lane)| OtherCore::start(eal, equipment.cores[at], at, lane));
        Ok(Self {
            others: others.collect::<anyhow::Result<_>>()?,
            lane,
            ports,
            topology: equipment.topology,
            clock,
            stop,
            trial: 0,
        })
    }

    fn obey(&mut self, command: &Command) -> anyhow::Result<Answer> {
        match command {
            Command::WaitForLinks { timeout_ms } => self.wait_for_links(Duration::from_millis(*timeout_ms)),
            Command::FindDevice { macs, router, timeout_ms } => {
                self.topology.edge.router = router.unwrap_or(self.topology.edge.router);
                self.find_device(macs, Duration::from_millis(*timeout_ms))
            }
            Command::Trial(order) => self.trial(order).map(Answer::Trial),
            Command::GetForwarded => anyhow::bail!("this process generates traffic and forwards none"),
        }
    }

    fn wait_for_links(&mut self, limit: Duration) -> anyhow::Result<Answer> {
        let end = Instant::now() + limit;
        loop {
            self.lane.idle();
            if are_up(&self.ports) {
                return Ok(Answer::LinksUp);
            }
            if Instant::now() > end || self.stop.load(Ordering::Relaxed) {
                anyhow::bail!(
                    "the peer did not connect all links within {} ms; its log says why",
                    limit.as_millis()
                );
            }
            std::thread::sleep(IDLE);
        }
    }

    /// Asks for the MAC addresses of the edge that are not known, until all are told.
    fn find_device(&mut self, known: &[Option<MacAddr>], limit: Duration) -> anyhow::Result<Answer> {
        let links = self.ports.len();
        anyhow::ensure!(known.len() == links, "there are {links} links, not {}", known.len());
        let end = Instant::now() + limit;
        let mut ask_at = Instant::now();
        loop {
            let device = Arc::clone(&self.lane.device);
            let macs: Vec<Option<MacAddr>> =
                known.iter().enumerate().map(|(link, mac)| mac.or_else(|| device.of(link))).collect();
            let Some(silent) = macs.iter().position(Option::is_none) else {
                let macs: Vec<MacAddr> = macs.into_iter().flatten().collect();
                for (link, mac) in macs.iter().enumerate() {
                    self.topology.edge.set(self.topology.side(link), *mac);
                }
                return Ok(Answer::Device { macs });
            };
            if Instant::now() >= end || self.stop.load(Ordering::Relaxed) {
                let (side, number) = self.topology.side(silent);
                let addresses: Vec<String> =
                    self.topology.edge_addresses(silent).iter().map(ToString::to_string).collect();
                anyhow::bail!(
                    "on {side} {number} nobody says within {} s to have {}: give the device this address there, bring its port up, or name its MAC address",
                    limit.as_secs(),
                    addresses.join(" or ")
                );
            }
            if Instant::now() >= ask_at {
                ask_at = Instant::now() + ASK_AGAIN;
                for link in (0..links).filter(|link| macs[*link].is_none()) {
                    for question in neighbors::questions(&self.topology, link) {
                        self.lane.send_one(link, &question);
                    }
                }
            }
            self.lane.idle();
            std::thread::sleep(IDLE);
        }
    }

    fn trial(&mut self, order: &TrialOrder) -> anyhow::Result<TrialResult> {
        let duration = self.check(order)?;
        self.trial = self.trial.wrapping_add(1);
        let plan = Arc::new(Plan::new(order, self.topology, self.trial, 1 + self.others.len())?);
        let (start, ready) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let settling = Arc::new(Settling::new(1 + self.others.len(), self.clock));
        let (sender, results) = channel();
        for other in &self.others {
            let (plan, start, ready) = (Arc::clone(&plan), Arc::clone(&start), Arc::clone(&ready));
            let (settling, result) = (Arc::clone(&settling), sender.clone());
            other.give(Task { plan, ready, start, duration, settling, result })?;
        }
        drop(sender);
        let part = Part::new(&plan, 0, self.clock);
        // A core that could not make its part ready counts as well, and says so by its result.
        while ready.load(Ordering::Acquire) < self.others.len() as u64 {
            anyhow::ensure!(
                self.others.iter().all(OtherCore::is_alive),
                "a thread of the generator has ended"
            );
            std::thread::yield_now();
        }
        let begin = cycles() + self.clock.cycles_of(LEAD);
        start.store(begin, Ordering::Release);
        let (ports, mut link_down) = (&self.ports, !are_up(&self.ports));
        let (distance, mut next) = (self.clock.cycles_of(WATCH), begin);
        let watch = || {
            let now = cycles();
            if now >= next {
                next = now + distance;
                link_down |= !are_up(ports);
            }
        };
        let own = part_of_trial(&mut self.lane, part, begin, duration, settling.core(0), watch);
        let others: Vec<_> = results.iter().collect();
        anyhow::ensure!(others.len() == self.others.len(), "a thread of the generator has ended in a trial");
        link_down |= !are_up(&self.ports);
        let results = std::iter::once(own).chain(others).collect::<anyhow::Result<Vec<_>>>()?;
        let interrupted = self.stop.load(Ordering::Relaxed);
        self.add_up(results, link_down, interrupted)
    }

    fn check(&self, order: &TrialOrder) -> anyhow::Result<Duration> {
        let duration = Duration::from_millis(order.duration_ms);
        anyhow::ensure!(duration <= LONGEST_TRIAL, "a trial lasts at most {} s", LONGEST_TRIAL.as_secs());
        let too_many = match order.load {
            Load::Most => duration > LONGEST_AT_MOST,
            Load::Rate { packets_per_second } => packets_per_second * duration.as_secs_f64() > MOST_PACKETS,
            Load::Burst { frames } => frames as f64 > MOST_PACKETS,
        };
        anyhow::ensure!(
            !too_many,
            "a trial has at most {MOST_PACKETS} packets in each direction, and at the highest rate lasts at most {} s",
            LONGEST_AT_MOST.as_secs()
        );
        Ok(duration)
    }

    fn add_up(
        &self,
        results: Vec<LaneResult>,
        link_down: bool,
        interrupted: bool,
    ) -> anyhow::Result<TrialResult> {
        let mut results = results.into_iter();
        let mut sum = results.next().context("a core's result")?;
        for more in results {
            sum.receipts.extend(more.receipts);
            for (counts, more) in sum.streams.iter_mut().zip(&more.streams) {
                StreamCounts::add(counts, more);
            }
            for (path, more) in sum.paths.iter_mut().zip(&more.paths) {
                *path += more;
            }
            if let (Some(latencies), Some(more)) = (&mut sum.latencies, &more.latencies) {
                Latencies::add(latencies, more)?;
            }
            let Others { foreign, neighbor_requests } = more.others;
            sum.others.foreign += foreign;
            sum.others.neighbor_requests += neighbor_requests;
            sum.sending_ns = sum.sending_ns.max(more.sending_ns);
            if more.clock_difference_ns.unsigned_abs() > sum.clock_difference_ns.unsigned_abs() {
                sum.clock_difference_ns = more.clock_difference_ns;
            }
        }
        Receipts::take_duplicates_off(sum.receipts, &mut sum.streams);
        Ok(TrialResult {
            sending_ns: sum.sending_ns,
            streams: sum.streams,
            latency: sum.latencies.and_then(|latencies| latencies.summary(self.clock)),
            arrivals: sum.arrivals,
            paths: sum.paths,
            link_down,
            clock_difference_ns: sum.clock_difference_ns,
            foreign: sum.others.foreign,
            neighbor_requests: sum.others.neighbor_requests,
            interrupted,
        })
    }
}

/// One core's part of a trial. One that could not be made ready sends nothing, and nobody waits for it.
fn part_of_trial(
    lane: &mut Lane,
    part: anyhow::Result<Part>,
    start: u64,
    duration: Duration,
    settling: SettlingCore<'_>,
    watch: impl FnMut(),
) -> anyhow::Result<LaneResult> {
    match part {
        Ok(part) => lane.run(part, start, duration, settling, watch),
        Err(error) => {
            settling.end_sending(start, 0, 0);
            Err(error)
        }
    }
}

/// Whether all links are up. A port that does not tell is not.
fn are_up(ports: &[Port]) -> bool {
    ports.iter().all(|port| port.link().is_ok_and(|link| link.up))
}

impl OtherCore {
    fn start(eal: &Eal, core: usize, at: usize, mut lane: Lane) -> anyhow::Result<Self> {
        let (tasks, orders) = channel::<Task>();
        let eal = eal.clone();
        let thread = std::thread::Builder::new().name(format!("generator-{core}")).spawn(move || {
            let pinned = pin_to_core(core).and_then(|()| WorkerRegistration::new(&eal));
            let work = |lane: &mut Lane, task: Task| {
                let usable = pinned.as_ref().map_err(|error| anyhow::anyhow!("core {core}: {error}"));
                let part = usable.and_then(|_| Part::new(&task.plan, at, lane.clock));
                task.ready.fetch_add(1, Ordering::AcqRel);
                while task.start.load(Ordering::Acquire) == 0 {
                    std::hint::spin_loop();
                }
                let start = task.start.load(Ordering::Acquire);
                let settling = task.settling.core(at);
                let result = part_of_trial(lane, part, start, task.duration, settling, || {});
                // Nobody listens only when the process ends.
                let _ = task.result.send(result);
            };
            // Neighbours ask on any queue.
            let idle = |lane: &mut Lane| {
                if pinned.is_ok() {
                    lane.idle();
                }
            };
            serve(&mut lane, &orders, work, idle);
        });
        Ok(Self { tasks: Some(tasks), thread: Some(thread.context("starting a thread")?) })
    }

    fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn give(&self, task: Task) -> anyhow::Result<()> {
        let given = self.tasks.as_ref().is_some_and(|tasks| tasks.send(task).is_ok());
        anyhow::ensure!(given, "a thread of the generator has ended");
        Ok(())
    }
}

impl Drop for OtherCore {
    fn drop(&mut self) {
        drop(self.tasks.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the peer asks between two trials comes to any core's queues.
    #[test]
    fn a_core_looks_at_its_queues_between_tasks() {
        let (tasks, orders) = channel();
        let mut tasks = Some(tasks);
        let mut done = Vec::new();
        serve(
            &mut done,
            &orders,
            |done, task| done.push(Some(task)),
            |done| {
                done.push(None);
                match (done.len(), tasks.take()) {
                    (1, Some(sender)) => {
                        sender.send(7).unwrap();
                        tasks = Some(sender);
                    }
                    // The orders end.
                    (_, sender) => drop(sender),
                }
            },
        );
        assert_eq!(done, [None, Some(7), None]);
    }
}
