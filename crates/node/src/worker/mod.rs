//! A worker: one thread on one core that polls its queues and runs the engine, to completion, for as long as the data plane runs.
//!
//! ```text
//! loop: commands (new snapshot, neighbours, injected packets) → for each receive queue: receive ≤ 64 → engine → transmit
//!       nothing received for a while → sleep, a little longer each time
//! ```
//!
//! It owns its queues, its engine and the worker's end of four rings to the control thread: commands in, punted packets, BFD packets and retired
//! tables out. It shares nothing else but its counters, which only it writes. It never locks, blocks (but for the idle sleep) or allocates.
//!
//! Its program exists twice: with a profile that attributes cycles to stages, and without. A command makes it go from one to the other, so that
//! the one without has nothing to ask and nothing to skip.

mod idle;
mod io;
mod logical_ports;
mod message;
mod profiler;
mod punt_limits;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer};
use sluice_datapath::buffer::BATCH;
use sluice_datapath::counters::{Counter, EngineCounters};
use sluice_datapath::drops::DropReason;
use sluice_datapath::engine::Engine;
use sluice_datapath::profile::{Profile, Stage, Unprofiled};
use sluice_datapath::punt::Entry;
use sluice_datapath::time::Timestamp;
use sluice_dpdk::{
    CoreError, Eal, Mbuf, RxQueue, TxQueue, WorkerRegistration, cycles, heap_allocations, pin_to_core,
};
use sluice_intent::plan::PortIndex;

pub(crate) use idle::Idle;
pub(crate) use io::{PortIo, WorkerIo};
pub(crate) use logical_ports::{ActiveMembers, LogicalPorts};
pub(crate) use message::{Capture, Captured, Command, Punted, Retired};
pub(crate) use profiler::{Profiler, TimeStampCounter};
#[cfg(test)]
pub(crate) use punt_limits::PuntLimits;

/// Nanoseconds between two calls of the engine's housekeeping.
const HOUSEKEEPING_INTERVAL: u64 = 2_000_000;

/// What a worker counts besides its engine. Only the worker writes.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounters {
    /// Cycles of loops that found packets or commands.
    pub(crate) busy_cycles: Counter,
    /// Cycles of loops that found nothing, sleeps included.
    pub(crate) idle_cycles: Counter,
    pub(crate) received: Counter,
    pub(crate) transmitted: Counter,
    /// Packets that each port was to send and did not: its ring was full, its link down, or the packet not one that it can send.
    pub(crate) transmit_drops: Box<[Counter]>,
    /// Packets that may have been answers to the control thread's ARP requests and solicitations and did not reach it.
    pub(crate) answers_shed: Counter,
    /// Heap allocations of the thread since it began.
    pub(crate) heap_allocations: Counter,
    pub(crate) engine: Arc<EngineCounters>,
    /// Generation of the snapshot in use: packets received after it was written are decided with it.
    pub(crate) generation: AtomicU64,
}

/// Turns the time stamp counter into nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CycleClock {
    /// Nanoseconds a cycle, times 2³².
    scale: u64,
}

impl CycleClock {
    pub(crate) fn new(cycles_per_second: u64) -> Self {
        Self { scale: ((1_000_000_000u128 << 32) / u128::from(cycles_per_second.max(1))) as u64 }
    }

    /// Cycles in so many nanoseconds.
    pub(crate) fn cycles(self, nanoseconds: u64) -> u64 {
        ((u128::from(nanoseconds) << 32) / u128::from(self.scale.max(1))) as u64
    }

    pub(crate) fn at(self, cycles: u64) -> Timestamp {
        Timestamp::from_nanos(((u128::from(cycles) * u128::from(self.scale)) >> 32) as u64)
    }

    pub(crate) fn now(self) -> Timestamp {
        self.at(cycles())
    }
}

/// A receive queue and the port that it belongs to.
pub(crate) struct Receiver {
    pub(crate) port: PortIndex,
    pub(crate) queue: RxQueue,
    /// Whether received bytes are in no cache of this core yet, as from a NIC.
    pub(crate) cold: bool,
    /// Whether the port is a member of a logical port.
    pub(crate) member: bool,
    /// Packets that the queue had lost for want of memory when last seen.
    uncopied: u64,
}

impl Receiver {
    pub(crate) fn new(port: PortIndex, queue: RxQueue, cold: bool) -> Self {
        Self { port, cold, member: false, uncopied: queue.uncopied_packets(), queue }
    }

    /// Counts what the queue has lost since the last call.
    fn count_uncopied(&mut self, counters: &EngineCounters) {
        let lost = self.queue.uncopied_packets();
        (self.uncopied..lost).for_each(|_| counters.count_drop(DropReason::NoBuffer));
        self.uncopied = lost;
    }
}

/// Every queue that a worker had.
#[derive(Default)]
pub(crate) struct WorkerQueues {
    pub(crate) receive: Vec<Receiver>,
    pub(crate) transmit: Vec<(PortIndex, TxQueue)>,
}

/// Why the thread of a worker does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// It could not be pinned to its core or made known to DPDK.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// There is no thread.
    #[error("{0}: raise the limit of threads, or free memory")]
    Thread(#[from] std::io::Error),
    /// It ended before it said anything.
    #[error("its thread ended at once: end sluiced and start it again")]
    Ended,
}

/// Everything a worker is made of.
pub(crate) struct Worker<P = Unprofiled> {
    pub(crate) core: u16,
    /// With room for as many as there will ever be.
    pub(crate) receivers: Vec<Receiver>,
    pub(crate) io: WorkerIo<P>,
    pub(crate) engine: Engine,
    pub(crate) commands: Consumer<Command>,
    pub(crate) retired: Producer<Retired>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) clock: CycleClock,
    pub(crate) idle: Idle,
}

impl Worker {
    /// Starts the worker on its core, and waits until it is there. It ends at [`Command::Stop`], or when the control thread drops its end of the
    /// commands, and gives its queues back.
    pub(crate) fn start(self, eal: &Eal) -> Result<JoinHandle<WorkerQueues>, StartError> {
        let (core, eal) = (self.core, eal.clone());
        let prepare = move || {
            pin_to_core(usize::from(core))?;
            WorkerRegistration::new(&eal)
        };
        spawn(core, prepare, move |_registration| self.run())
    }

    /// Runs until it is told to end, with a profile or without.
    fn run(mut self) -> WorkerQueues {
        tracing::debug!(core = self.core, receivers = self.receivers.len(), "the worker polls");
        loop {
            match self.poll() {
                Ended::Stop => return self.into_queues(),
                Ended::Profile(None) => {}
                Ended::Profile(Some(profiler)) => match self.run_profiled(profiler) {
                    Ok(unprofiled) => self = unprofiled,
                    Err(queues) => return queues,
                },
            }
        }
    }

    /// Runs with a profile: until it is to go on without, or with its queues to its end.
    fn run_profiled(self, profiler: Box<Profiler>) -> Result<Self, WorkerQueues> {
        let (mut worker, _) = self.with_profile(profiler);
        loop {
            worker.io.profile.calibrate();
            match worker.poll() {
                Ended::Stop => return Err(worker.into_queues()),
                Ended::Profile(Some(next)) => {
                    let old = std::mem::replace(&mut worker.io.profile, next);
                    worker.retire(Retired::Profiler(old));
                }
                Ended::Profile(None) => {
                    let (mut unprofiled, old) = worker.with_profile(Unprofiled);
                    unprofiled.retire(Retired::Profiler(old));
                    return Ok(unprofiled);
                }
            }
        }
    }
}

impl<P: Profile> Worker<P> {
    /// The same with another profile, and the one that it had: moves, nothing is allocated.
    fn with_profile<Q>(self, profile: Q) -> (Worker<Q>, P) {
        let Self { core, receivers, io, engine, commands, retired, counters, clock, idle } = self;
        let (io, old) = io.with_profile(profile);
        (Worker { core, receivers, io, engine, commands, retired, counters, clock, idle }, old)
    }

    /// Polls until a command ends it.
    fn poll(&mut self) -> Ended {
        let mut batch = ArrayVec::<Mbuf, BATCH>::new();
        let mut start = cycles();
        let interval = self.clock.cycles(HOUSEKEEPING_INTERVAL);
        let mut housekeeping = start;
        loop {
            let mut work = 0;
            if !self.commands.is_empty() {
                work += 1;
                if let Some(ended) = self.obey(self.clock.at(start)) {
                    return ended;
                }
            }
            for receiver in &mut self.receivers {
                self.io.enter(Stage::Receive, 0);
                let received = receiver.queue.receive(&mut batch);
                if received == 0 {
                    self.io.amend(Stage::EmptyPolls, 0);
                    continue;
                }
                if receiver.cold {
                    batch.iter().for_each(Mbuf::prefetch_headers);
                }
                work += received;
                self.counters.received.add(received as u64);
                self.io.capture_received(receiver.port, &batch);
                self.io.amend(Stage::Receive, received);
                let now = self.clock.at(start);
                if receiver.member {
                    process_members(&mut self.engine, receiver.port, &mut batch, now, &mut self.io);
                } else {
                    self.engine.process(receiver.port, &mut batch, now, &mut self.io);
                }
                self.io.amend(Stage::Other, 0);
            }
            self.io.enter(Stage::Other, 0);
            self.io.flush();
            if start.wrapping_sub(housekeeping) >= interval {
                housekeeping = start;
                self.engine.housekeeping(self.clock.at(start));
                self.receivers.iter_mut().for_each(|receiver| receiver.count_uncopied(&self.counters.engine));
            }
            if work == 0 {
                if self.commands.is_abandoned() {
                    return Ended::Stop;
                }
                self.idle.wait(start);
            } else {
                self.idle.reset();
            }
            let now = cycles();
            let counter = if work == 0 { &self.counters.idle_cycles } else { &self.counters.busy_cycles };
            counter.add(now.wrapping_sub(start));
            self.io.end_loop(work > 0, now.wrapping_sub(start));
            self.counters.heap_allocations.set(heap_allocations());
            start = now;
        }
    }

    /// Carries out the commands that are waiting, at the time of the loop, which is that of the packets after them. Those behind one that
    /// ends the polling are left.
    #[cold]
    fn obey(&mut self, now: Timestamp) -> Option<Ended> {
        while let Ok(command) = self.commands.pop() {
            match command {
                Command::Install(mut installation, mut logical_ports) => {
                    let generation = installation.snapshot().generation();
                    // In its own box, so that nothing is allocated or freed here.
                    self.engine.install(&mut installation);
                    self.counters.generation.store(generation, Ordering::Release);
                    self.retire(Retired::Installation(installation));
                    self.io.exchange_logical_ports(&mut logical_ports);
                    self.retire(Retired::LogicalPorts(logical_ports));
                    for receiver in &mut self.receivers {
                        receiver.member = self.io.is_member(receiver.port);
                    }
                }
                Command::Neighbors(table) => {
                    let old = self.engine.set_neighbors(table);
                    self.retire(Retired::Neighbors(old));
                }
                Command::EnableFlowCache(enabled) => self.engine.enable_flow_cache(enabled),
                Command::Profile(profiler) => return Some(Ended::Profile(profiler)),
                Command::Inject { entry: Entry::Port(port), packet } => {
                    let mut batch = ArrayVec::new();
                    batch.push(packet);
                    self.engine.process(port, &mut batch, now, &mut self.io);
                }
                Command::Inject { entry: Entry::Gateway(gateway), packet } => {
                    self.engine.originate(gateway, packet, now, &mut self.io);
                }
                Command::Transmit { port, packet } => self.io.send(port, packet),
                Command::Capture(capture) => {
                    let old = self.io.set_capture(capture);
                    self.retire(Retired::Capture(old));
                }
                // There is room for it since the worker began.
                Command::Receive(mut receiver) => {
                    receiver.member = self.io.is_member(receiver.port);
                    self.receivers.push(receiver);
                }
                Command::SendBy { port, queue } => self.io.set_queue(port, queue),
                Command::Stop => {
                    self.io.flush();
                    return Some(Ended::Stop);
                }
            }
        }
        None
    }

    fn into_queues(self) -> WorkerQueues {
        WorkerQueues { receive: self.receivers, transmit: self.io.into_queues() }
    }

    /// Hands memory back to the control thread, so that it is freed there. Should the ring be full, it is freed here: late once in a while
    /// is better than never.
    fn retire(&mut self, retired: Retired) {
        drop(self.retired.push(retired));
    }
}

/// Processes what a member of logical ports received: as theirs, by port, and nothing where the member carries no traffic.
fn process_members<P: Profile>(
    engine: &mut Engine,
    port: PortIndex,
    batch: &mut ArrayVec<Mbuf, BATCH>,
    now: Timestamp,
    io: &mut WorkerIo<P>,
) {
    let mut owned = ArrayVec::<(PortIndex, Mbuf), BATCH>::new();
    batch.drain(..).for_each(|packet| owned.extend(io.take_in(port, packet)));
    while let Some((owner, _)) = owned.first() {
        let owner = *owner;
        // All of them, nearly always.
        let mut others = ArrayVec::new();
        for (other, packet) in owned.drain(..) {
            if other == owner { batch.push(packet) } else { others.push((other, packet)) }
        }
        engine.process(owner, batch, now, io);
        owned = others;
    }
}

/// Why a worker does not poll as it did.
enum Ended {
    /// It is to end.
    Stop,
    /// It is to go on with this profile, or with none.
    Profile(Option<Box<Profiler>>),
}

/// Starts a worker's thread and waits until it is prepared: what `prepare` has to say against it is the answer here.
fn spawn<P, T: Default + Send + 'static>(
    core: u16,
    prepare: impl FnOnce() -> Result<P, CoreError> + Send + 'static,
    run: impl FnOnce(P) -> T + Send + 'static,
) -> Result<JoinHandle<T>, StartError> {
    let (ready, prepared) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(format!("worker-{core}")).spawn(move || {
        let (preparation, said) = match prepare() {
            Ok(preparation) => (Some(preparation), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // Whoever started it waits for this.
        drop(ready.send(said));
        preparation.map_or_else(T::default, run)
    })?;
    prepared.recv().map_err(|_| StartError::Ended)??;
    Ok(thread)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn a_thread_that_cannot_be_prepared_is_told_of_and_does_not_run() {
        let refused =
            || Err::<(), _>(CoreError::Pin { core: 7, source: std::io::ErrorKind::PermissionDenied.into() });
        let error = spawn(7, refused, |()| panic!("it runs")).map(|_: JoinHandle<()>| ()).unwrap_err();
        let sentence = error.to_string();
        assert!(
            sentence.contains("pinned to core 7") && sentence.contains("name another core"),
            "{sentence}"
        );

        let error = spawn(7, || -> Result<(), CoreError> { panic!("at once") }, |()| ()).unwrap_err();
        assert!(matches!(error, StartError::Ended), "{error}");
        assert_eq!(spawn(7, || Ok(3), |three| three + 1).unwrap().join().unwrap(), 4);
    }
}
