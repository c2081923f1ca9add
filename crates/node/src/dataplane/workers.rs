//! Makes workers, and holds the control thread's ends of their rings.
//!
//! The control thread never waits for a worker without a limit: a driver may hold a worker up, and the node is to say so then.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer, RingBuffer};
use sluice_datapath::counters::{Counter, EngineCounters, LogicalCounters};
use sluice_datapath::engine::{Engine, EngineConfig};
use sluice_datapath::neighbor::NeighborTable;
use sluice_datapath::profile::StageCounters;
use sluice_datapath::snapshot::Snapshot;
use sluice_dpdk::{Eal, Mempool, Queues};
use sluice_intent::plan::PortIndex;

use super::DataplaneError;
use crate::worker::{
    ActiveMembers, Command, CycleClock, Idle, LogicalPorts, PortIo, Profiler, Punted, Receiver, Retired,
    TimeStampCounter, Worker, WorkerCounters, WorkerIo, WorkerQueues,
};

/// Packets of the ring from a worker to the control thread.
pub(crate) const PUNT_RING: usize = 512;
/// Packets of the ring for BFD from a worker to the control thread: a tenth of a second of 10,000 sessions at 300 ms.
pub(crate) const BFD_RING: usize = 4096;
/// Commands that may wait for a worker, packets to send among them: as many as of BFD.
const COMMAND_RING: usize = 4096;
/// Tables that may wait to be freed.
const RETIRED_RING: usize = 64;
/// How long a worker may do nothing at all, its sleep not counted, before it counts as held up. A batch takes microseconds.
const QUIET_LIMIT: Duration = Duration::from_secs(2);
/// Between two looks at whether a worker has ended.
const GLANCE: Duration = Duration::from_millis(1);

/// The control thread's side of a worker.
pub(crate) struct WorkerHandle {
    pub(crate) core: u16,
    pub(crate) commands: Commands,
    pub(crate) punts: Consumer<Punted>,
    pub(crate) bfd: Consumer<Punted>,
    pub(crate) retired: Consumer<Retired>,
    pub(crate) counters: Arc<WorkerCounters>,
    /// Counters of the snapshot that the worker was last told to use.
    pub(crate) logical: Arc<LogicalCounters>,
    /// Cycles by stage, of the profile that was begun last.
    pub(crate) stages: Option<Arc<StageCounters>>,
    /// Receive queues that it polls while every port runs.
    pub(crate) receive_queues: u16,
    watch: Watch,
    thread: Option<JoinHandle<WorkerQueues>>,
}

/// The way to a worker.
pub(crate) struct Commands {
    ring: Producer<Command>,
    /// Commands that must not be lost and found no room.
    backlog: VecDeque<Command>,
    /// Packets that found no room.
    pub(crate) lost_packets: u64,
}

/// What every worker of a data plane has alike.
pub(super) struct Common<'a> {
    pub(super) pool: &'a Mempool,
    pub(super) links_down: &'a Arc<AtomicU32>,
    pub(super) active: &'a Arc<ActiveMembers>,
    pub(super) clock: CycleClock,
    /// What the engines of all workers count, in their order.
    pub(super) engines: &'a Arc<[Arc<EngineCounters>]>,
}

impl Common<'_> {
    fn logical_ports(&self, snapshot: &Snapshot) -> Box<LogicalPorts> {
        Box::new(LogicalPorts::new(snapshot.plan(), Arc::clone(self.active), snapshot.seed()))
    }
}

/// Whether a worker goes on, judged by its cycle counters.
#[derive(Debug)]
struct Watch {
    limit: Duration,
    seen: u64,
    since: Instant,
    held_up: bool,
}

impl WorkerHandle {
    /// Sends a command; false, and the command is lost, if the worker is too far behind to take it. A packet that is lost with it is counted.
    pub(crate) fn command(&mut self, command: Command) -> bool {
        self.commands.send(command)
    }

    /// Sends a command that must not be lost: now, or from [`Self::advance`] where the worker is behind. What waits is bounded, since a
    /// newer command replaces an older one that it leaves nothing of.
    pub(crate) fn deliver(&mut self, command: Command) {
        self.commands.deliver(command);
    }

    /// Has cycles attributed to stages from the next batch on, from zero, or ends that.
    pub(crate) fn set_profile(&mut self, enabled: bool) {
        let profiler = enabled.then(|| {
            let counters = self.stages.insert(Arc::default());
            Box::new(Profiler::new(TimeStampCounter, Arc::clone(counters)))
        });
        self.deliver(Command::Profile(profiler));
    }

    /// Sends what found no room before, and looks whether the worker goes on; called every few milliseconds. Tells of a worker that
    /// is held up once, and once when it goes on.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.commands.send_backlog();
        let core = self.core;
        match (self.watch.held_up, self.watch.look(cycles_of(&self.counters), now)) {
            (false, true) => tracing::error!(
                core,
                "the worker does not go on, a device holds it up most likely; end sluiced and start it again if it stays so"
            ),
            (true, false) => tracing::info!(core, "the worker goes on again"),
            _ => {}
        }
    }

    /// Whether it has done nothing for longer than it ever should.
    pub(crate) fn is_held_up(&self) -> bool {
        self.watch.held_up
    }

    /// Whether it decides with the snapshot of this generation, or has ended.
    pub(crate) fn has_taken(&self, generation: u64) -> bool {
        self.counters.generation.load(Ordering::Acquire) >= generation || self.commands.ring.is_abandoned()
    }

    /// Waits until the worker goes on; false if it does not within its limit. Moments, and the sleep of an idle worker.
    pub(crate) fn goes_on(&self) -> bool {
        let before = cycles_of(&self.counters);
        let end = Instant::now() + self.watch.limit;
        while cycles_of(&self.counters) == before && !self.commands.ring.is_abandoned() {
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(GLANCE);
        }
        true
    }

    /// Whether it ended though nobody told it to: no thread reads its commands.
    pub(crate) fn has_ended(&self) -> bool {
        self.commands.ring.is_abandoned()
    }

    /// Ends the worker and waits for it, and returns its queues. None: it is held up, and left alone with its queues, so that their ports
    /// stay open.
    pub(crate) fn stop(&mut self) -> Option<WorkerQueues> {
        let Some(thread) = self.thread.take() else { return Some(WorkerQueues::default()) };
        self.deliver(Command::Stop);
        let end = Instant::now() + self.watch.limit;
        while !thread.is_finished() && Instant::now() < end {
            std::thread::sleep(GLANCE);
            self.commands.send_backlog();
        }
        if !thread.is_finished() {
            return None;
        }
        let queues = thread.join();
        if queues.is_err() {
            tracing::error!(core = self.core, "the worker ended by a panic");
        }
        Some(queues.unwrap_or_default())
    }
}

impl Commands {
    fn new(ring: Producer<Command>) -> Self {
        Self { ring, backlog: VecDeque::new(), lost_packets: 0 }
    }

    fn send(&mut self, command: Command) -> bool {
        let packet = matches!(command, Command::Inject { .. } | Command::Transmit { .. });
        let taken = self.backlog.is_empty() && self.ring.push(command).is_ok();
        self.lost_packets += u64::from(packet && !taken);
        taken
    }

    fn deliver(&mut self, command: Command) {
        self.backlog.retain(|older| !command.supersedes(older));
        self.backlog.push_back(command);
        self.send_backlog();
    }

    fn send_backlog(&mut self) {
        while let Some(command) = self.backlog.pop_front() {
            if let Err(rtrb::PushError::Full(back)) = self.ring.push(command) {
                self.backlog.push_front(back);
                return;
            }
        }
    }
}

impl Watch {
    /// For a worker that sleeps so long at most.
    fn new(idle_sleep_us: u32) -> Self {
        let limit = QUIET_LIMIT + Duration::from_micros(idle_sleep_us.into());
        Self { limit, seen: 0, since: Instant::now(), held_up: false }
    }

    /// Whether the worker is held up, now that its counters are at `cycles`.
    fn look(&mut self, cycles: u64, now: Instant) -> bool {
        if cycles != self.seen {
            (self.seen, self.since) = (cycles, now);
        }
        self.held_up = now.saturating_duration_since(self.since) >= self.limit;
        self.held_up
    }
}

/// Cycles that the worker has counted: they grow with each of its loops.
fn cycles_of(counters: &WorkerCounters) -> u64 {
    counters.busy_cycles.get().wrapping_add(counters.idle_cycles.get())
}

/// Hands the queues of ports out to the workers: one transmit queue of every port for each, and receive queues in turn. Those to send by come
/// first, so that what is received finds its way out.
pub(super) fn hand_out(
    workers: &mut [WorkerHandle],
    ports: impl IntoIterator<Item = (PortIndex, bool, Queues)>,
) {
    let count = workers.len().max(1);
    let mut received = Vec::new();
    for (port, cold, queues) in ports {
        for (worker, queue) in workers.iter_mut().zip(queues.transmit) {
            worker.deliver(Command::SendBy { port, queue });
        }
        received.extend(
            queues
                .receive
                .into_iter()
                .enumerate()
                .map(|(position, queue)| (position % count, Receiver::new(port, queue, cold))),
        );
    }
    for (worker, receiver) in received {
        workers[worker].deliver(Command::Receive(receiver));
    }
}

/// How many of these receive queues of one port each of `workers` workers polls, for the worker of this number.
pub(super) fn share(queues: u16, workers: usize, worker: usize) -> u16 {
    (0..usize::from(queues)).filter(|position| position % workers.max(1) == worker).count() as u16
}

/// Makes and starts the worker of this position and core without queues, with room for `receive_queues` of them.
pub(super) fn start(
    eal: &Eal,
    (position, core): (usize, u16),
    receive_queues: u16,
    snapshot: &Arc<Snapshot>,
    neighbors: &Arc<NeighborTable>,
    common: &Common<'_>,
) -> Result<WorkerHandle, DataplaneError> {
    let Common { pool, links_down, clock, engines, .. } = *common;
    let settings = &snapshot.plan().dataplane;
    let config = EngineConfig {
        flow_cache: settings.flow_cache.enabled,
        flow_cache_size: settings.flow_cache.size as usize,
        idle_timeout: settings.flow_cache.idle_timeout_s,
    };
    let (commands, commands_in) = RingBuffer::new(COMMAND_RING);
    let (punts_out, punts) = RingBuffer::new(PUNT_RING);
    let (bfd_out, bfd) = RingBuffer::new(BFD_RING);
    let (retired_out, retired) = RingBuffer::new(RETIRED_RING);
    let engine_counters = Arc::clone(&engines[position]);
    let logical = Arc::new(LogicalCounters::new(snapshot));
    let counters = Arc::new(WorkerCounters {
        engine: Arc::clone(&engine_counters),
        generation: AtomicU64::new(snapshot.generation()),
        transmit_drops: snapshot.plan().ports.iter().map(|_| Counter::default()).collect(),
        ..WorkerCounters::default()
    });
    let mut engine = Engine::new(
        config,
        Arc::clone(snapshot),
        Arc::clone(neighbors),
        engine_counters,
        Arc::clone(&logical),
    )?;
    engine.share_loads(Arc::clone(engines));
    let transmit = snapshot.plan().ports.iter().map(|_| PortIo::default()).collect();
    let worker = Worker {
        core,
        receivers: Vec::with_capacity(receive_queues.into()),
        io: WorkerIo::new(
            transmit,
            common.logical_ports(snapshot),
            Arc::clone(links_down),
            pool.clone(),
            [punts_out, bfd_out],
            clock,
            Arc::clone(&counters),
        ),
        engine,
        commands: commands_in,
        retired: retired_out,
        counters: Arc::clone(&counters),
        clock,
        idle: Idle::new(settings.idle_sleep_us, clock),
    };
    let thread = Some(worker.start(eal).map_err(|source| DataplaneError::Thread { core, source })?);
    let watch = Watch::new(settings.idle_sleep_us);
    Ok(WorkerHandle {
        core,
        commands: Commands::new(commands),
        punts,
        bfd,
        retired,
        counters,
        logical,
        stages: None,
        receive_queues,
        watch,
        thread,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use sluice_dpdk::{EalOptions, HugePages, MempoolConfig};

    use super::*;

    #[test]
    fn packets_that_a_worker_has_no_room_for_are_counted() {
        let options = EalOptions { memory_mebibytes: 64, huge_pages: HugePages::Off, ..Default::default() };
        let eal = Eal::init(options).unwrap();
        let config = MempoolConfig { count: 63, cache: 0, ..Default::default() };
        let pool = Mempool::new(&eal, "packets", config).unwrap();
        let transmit =
            || Command::Transmit { port: PortIndex(0), packet: pool.allocate_with(&[0; 60]).unwrap() };
        let (ring, mut taken) = RingBuffer::new(1);
        let mut commands = Commands::new(ring);
        assert!(commands.send(transmit()));
        assert!(!commands.send(transmit()) && !commands.send(transmit()));
        assert!(!commands.send(Command::Capture(None)), "no packet");
        assert_eq!((commands.lost_packets, pool.in_use()), (2, 1));
        assert!(taken.pop().is_ok() && commands.send(transmit()));
        assert_eq!(commands.lost_packets, 2);
    }
}
