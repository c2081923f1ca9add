//! Makes workers, and holds the control thread's ends of their rings.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, RingBuffer};
use sluice_datapath::counters::{EngineCounters, LogicalCounters};
use sluice_datapath::engine::{Engine, EngineConfig};
use sluice_datapath::neighbor::NeighborTable;
use sluice_datapath::snapshot::Snapshot;
use sluice_dpdk::{Eal, Mempool, Queues, RxQueue, TxQueue};
use sluice_intent::plan::{Plan, PortIndex, PortKind};

use super::DataplaneError;
use crate::worker::{
    Command, CycleClock, Idle, PortIo, Punted, Receiver, Retired, Worker, WorkerCounters, WorkerIo,
};

/// Packets of the ring from a worker to the control thread.
pub(crate) const PUNT_RING: usize = 512;
/// Commands that may wait for a worker.
const COMMAND_RING: usize = 1024;
/// Tables that may wait to be freed.
const RETIRED_RING: usize = 64;

/// The control thread's side of a worker.
pub(crate) struct WorkerHandle {
    pub(crate) core: u16,
    pub(crate) commands: Producer<Command>,
    pub(crate) punts: Consumer<Punted>,
    pub(crate) retired: Consumer<Retired>,
    pub(crate) counters: Arc<WorkerCounters>,
    /// Counters of the snapshot that the worker was last told to use.
    pub(crate) logical: Arc<LogicalCounters>,
    /// Receive queues that it polls.
    pub(crate) receive_queues: u16,
    thread: Option<JoinHandle<()>>,
}

impl WorkerHandle {
    /// Sends a command; false, and the command is lost, if the worker is too far behind to take it.
    pub(crate) fn command(&mut self, command: Command) -> bool {
        self.commands.push(command).is_ok()
    }

    /// Sends a command that must not be lost: waits for room where the worker is behind.
    pub(crate) fn deliver(&mut self, mut command: Command) {
        while let Err(rtrb::PushError::Full(back)) = self.commands.push(command) {
            if self.commands.is_abandoned() {
                return;
            }
            command = back;
            std::thread::yield_now();
        }
    }

    /// Waits until the worker decides with the snapshot of this generation: a batch, or an idle worker's sleep. Gives up if the worker ended.
    pub(crate) fn wait_for_generation(&self, generation: u64) {
        while self.counters.generation.load(Ordering::Acquire) < generation && !self.commands.is_abandoned() {
            std::thread::yield_now();
        }
    }

    /// Ends the worker and waits for it.
    pub(crate) fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let mut stop = Command::Stop;
        while let Err(rtrb::PushError::Full(back)) = self.commands.push(stop) {
            if thread.is_finished() {
                break;
            }
            stop = back;
            std::thread::yield_now();
        }
        if thread.join().is_err() {
            tracing::error!(core = self.core, "the worker ended by a panic");
        }
    }
}

/// The queues of one worker.
#[derive(Default)]
pub(super) struct WorkerQueues {
    receive: Vec<(PortIndex, RxQueue, bool)>,
    transmit: Vec<TxQueue>,
}

/// Deals the queues of all ports out to the workers: receive queues in turn, and one transmit queue of every port for each.
pub(super) fn distribute(plan: &Plan, queues: Vec<Queues>, workers: usize) -> Vec<WorkerQueues> {
    let mut per_worker: Vec<WorkerQueues> = (0..workers).map(|_| WorkerQueues::default()).collect();
    for (number, queues) in queues.into_iter().enumerate() {
        let cold = matches!(plan.ports[number].kind, PortKind::Pci { .. });
        for (position, queue) in queues.receive.into_iter().enumerate() {
            per_worker[position % workers].receive.push((PortIndex(number as u16), queue, cold));
        }
        for (worker, queue) in per_worker.iter_mut().zip(queues.transmit) {
            worker.transmit.push(queue);
        }
    }
    per_worker
}

/// Makes and starts a worker.
pub(super) fn start(
    eal: &Eal,
    core: u16,
    queues: WorkerQueues,
    snapshot: &Arc<Snapshot>,
    neighbors: &Arc<NeighborTable>,
    pool: &Mempool,
    clock: CycleClock,
) -> Result<WorkerHandle, DataplaneError> {
    let settings = &snapshot.plan().dataplane;
    let config = EngineConfig {
        flow_cache: settings.flow_cache.enabled,
        flow_cache_size: settings.flow_cache.size as usize,
        idle_timeout: settings.flow_cache.idle_timeout_s,
    };
    let (commands, commands_in) = RingBuffer::new(COMMAND_RING);
    let (punts_out, punts) = RingBuffer::new(PUNT_RING);
    let (retired_out, retired) = RingBuffer::new(RETIRED_RING);
    let engine_counters = Arc::new(EngineCounters::default());
    let logical = Arc::new(LogicalCounters::new(snapshot));
    let counters =
        Arc::new(WorkerCounters { engine: Arc::clone(&engine_counters), ..WorkerCounters::default() });
    let engine = Engine::new(
        config,
        Arc::clone(snapshot),
        Arc::clone(neighbors),
        engine_counters,
        Arc::clone(&logical),
    )?;
    let transmit =
        queues.transmit.into_iter().map(|queue| PortIo { queue, waiting: ArrayVec::new() }).collect();
    let receivers: Vec<Receiver> =
        queues.receive.into_iter().map(|(port, queue, cold)| Receiver { port, queue, cold }).collect();
    let receive_queues = receivers.len() as u16;
    let worker = Worker {
        core,
        receivers,
        io: WorkerIo::new(transmit, pool.clone(), punts_out, clock, Arc::clone(&counters)),
        engine,
        commands: commands_in,
        retired: retired_out,
        counters: Arc::clone(&counters),
        clock,
        idle: Idle::new(settings.idle_sleep_us),
    };
    let thread = Some(worker.start(eal)?);
    Ok(WorkerHandle { core, commands, punts, retired, counters, logical, receive_queues, thread })
}
