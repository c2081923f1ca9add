//! An engine under test with neighbours, counters and a record of everything it does.

use std::cell::Cell;
use std::sync::Arc;

use arrayvec::ArrayVec;
use sluice_datapath::buffer::{BATCH, HeapBuffer, PacketBuffer, Transmit};
use sluice_datapath::counters::{EngineCounters, LogicalCounters};
use sluice_datapath::drops::DropReason;
use sluice_datapath::engine::{Engine, EngineConfig, Installation};
use sluice_datapath::neighbor::{NeighborKey, NeighborTable};
use sluice_datapath::profile::{CycleCounter, Profile, Profiler, Stage, StageCounters};
use sluice_datapath::punt::Punt;
use sluice_datapath::snapshot::{PortFacts, Snapshot};
use sluice_datapath::time::Timestamp;
use sluice_intent::plan::{Plan, PortIndex};
use sluice_wire::MacAddr;

/// Flows that the cache of a test holds.
pub(crate) const CACHE: usize = 1 << 12;
/// Seconds after which it forgets them.
pub(crate) const IDLE_TIMEOUT: u16 = 60;

/// The MAC address that a port of a test has.
pub(crate) fn port_mac(port: usize) -> MacAddr {
    MacAddr([0x02, 0xaa, 0, 0, 0, port as u8])
}

/// Compiles a plan for ports with the addresses of [`port_mac`].
pub(crate) fn compile(plan: &Plan, generation: u64) -> Arc<Snapshot> {
    let facts: Vec<PortFacts> = (0..plan.ports.len()).map(|port| PortFacts { mac: port_mac(port) }).collect();
    Arc::new(
        Snapshot::compile(Arc::new(plan.clone()), &facts, generation, 0x5eed).expect("the plan compiles"),
    )
}

/// A buffer that remembers which packet of the batch it came in with; none for those that the engine allocated.
#[derive(Clone, Debug)]
pub(crate) struct Marked {
    buffer: HeapBuffer,
    packet: Option<usize>,
}

impl PacketBuffer for Marked {
    fn data(&self) -> &[u8] {
        self.buffer.data()
    }

    fn data_mut(&mut self) -> &mut [u8] {
        self.buffer.data_mut()
    }

    fn reframe(&mut self, pop: usize, push: usize, keep: usize) -> Option<&mut [u8]> {
        self.buffer.reframe(pop, push, keep)
    }

    fn extend_back(&mut self, count: usize) -> Option<&mut [u8]> {
        self.buffer.extend_back(count)
    }
}

/// What became of one received packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Done {
    /// Frames that left, in their order.
    pub(crate) sent: Vec<(PortIndex, Vec<u8>)>,
    /// Frames that went to the control thread.
    pub(crate) punted: Vec<(Punt, Vec<u8>)>,
    /// Reasons of the buffers that were given back.
    pub(crate) discarded: Vec<DropReason>,
}

/// Counts on by one at each look, so that a stage has as many cycles as time stamps.
#[derive(Debug, Default)]
pub(crate) struct Looks(Cell<u64>);

impl CycleCounter for Looks {
    fn cycles(&self) -> u64 {
        self.0.replace(self.0.get() + 1)
    }
}

/// Records what the engine does, by packet: the last thing that happens to a packet happens to its own buffer.
#[derive(Debug, Default)]
struct Record {
    done: Vec<Done>,
    current: Done,
    allocated: usize,
    released: usize,
    profiler: Option<Profiler<Looks>>,
}

impl Record {
    fn release(&mut self, buffer: &Marked) {
        self.released += 1;
        if buffer.packet.is_some() {
            assert_eq!(buffer.packet, Some(self.done.len()), "packets leave in the order in which they came");
            self.done.push(std::mem::take(&mut self.current));
        }
    }
}

impl Profile for Record {
    fn enter(&mut self, stage: Stage, packets: usize) -> Stage {
        self.profiler.as_mut().map_or(Stage::Other, |profiler| profiler.enter(stage, packets))
    }

    fn amend(&mut self, stage: Stage, packets: usize) {
        if let Some(profiler) = &mut self.profiler {
            profiler.amend(stage, packets);
        }
    }
}

impl Transmit<Marked> for Record {
    fn transmit(&mut self, port: PortIndex, buffer: Marked) {
        self.current.sent.push((port, buffer.data().to_vec()));
        self.release(&buffer);
    }

    fn punt(&mut self, punt: Punt, buffer: Marked) {
        self.current.punted.push((punt, buffer.data().to_vec()));
        self.release(&buffer);
    }

    fn discard(&mut self, reason: DropReason, buffer: Marked) {
        self.current.discarded.push(reason);
        self.release(&buffer);
    }

    fn allocate(&mut self) -> Option<Marked> {
        self.allocated += 1;
        Some(Marked { buffer: HeapBuffer::new(&[], 16_384), packet: None })
    }
}

/// An engine and what surrounds it.
pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) counters: Arc<EngineCounters>,
    pub(crate) logical: Arc<LogicalCounters>,
    pub(crate) neighbors: NeighborTable,
    pub(crate) now: Timestamp,
    generation: u64,
    profiler: Option<Profiler<Looks>>,
}

impl Node {
    /// A node with a plan and no neighbours.
    pub(crate) fn new(plan: &Plan, flow_cache: bool) -> Self {
        let snapshot = compile(plan, 1);
        let counters = Arc::new(EngineCounters::default());
        let logical = Arc::new(LogicalCounters::new(&snapshot));
        let neighbors = NeighborTable::default();
        let config = EngineConfig { flow_cache, flow_cache_size: CACHE, idle_timeout: IDLE_TIMEOUT };
        let table = Arc::new(neighbors.clone());
        let engine = Engine::new(config, snapshot, table, Arc::clone(&counters), Arc::clone(&logical));
        let engine = engine.expect("memory for an engine");
        Self {
            engine,
            counters,
            logical,
            neighbors,
            now: Timestamp::from_secs(100),
            generation: 1,
            profiler: None,
        }
    }

    /// Another worker of the same node, with an engine and counters of its own; both know of each other what they carry.
    pub(crate) fn second_worker(&mut self) -> Self {
        let snapshot = Arc::clone(self.engine.snapshot());
        let counters = Arc::new(EngineCounters::default());
        let logical = Arc::new(LogicalCounters::new(&snapshot));
        let config = EngineConfig { flow_cache: true, flow_cache_size: CACHE, idle_timeout: IDLE_TIMEOUT };
        let table = Arc::new(self.neighbors.clone());
        let engine = Engine::new(config, snapshot, table, Arc::clone(&counters), Arc::clone(&logical));
        let mut engine = engine.expect("memory for an engine");
        let workers: Arc<[_]> = [Arc::clone(&self.counters), Arc::clone(&counters)].into();
        engine.share_loads(Arc::clone(&workers));
        self.engine.share_loads(workers);
        let (neighbors, now, generation) = (self.neighbors.clone(), self.now, self.generation);
        Self { engine, counters, logical, neighbors, now, generation, profiler: None }
    }

    /// Begins a profile, and returns where it counts.
    pub(crate) fn profile(&mut self) -> Arc<StageCounters> {
        let counters = Arc::<StageCounters>::default();
        self.profiler = Some(Profiler::new(Looks::default(), Arc::clone(&counters)));
        counters
    }

    /// Ends the profile.
    pub(crate) fn end_profile(&mut self) {
        self.profiler = None;
    }

    /// Publishes a change of one neighbour.
    pub(crate) fn set_neighbor(&mut self, key: NeighborKey, mac: Option<MacAddr>) {
        self.set_neighbors(&[(key, mac)]);
    }

    /// Publishes changes of neighbours.
    pub(crate) fn set_neighbors(&mut self, changes: &[(NeighborKey, Option<MacAddr>)]) {
        for (key, mac) in changes {
            self.neighbors.set(*key, *mac);
        }
        self.engine.set_neighbors(Arc::new(self.neighbors.clone()));
    }

    /// Installs another plan, with counters of its own.
    pub(crate) fn install(&mut self, plan: &Plan) {
        self.generation += 1;
        let snapshot = compile(plan, self.generation);
        self.logical = Arc::new(LogicalCounters::new(&snapshot));
        let mut installation = Installation::new(snapshot, Arc::clone(&self.logical));
        self.engine.install(&mut installation);
        installation.settle();
    }

    /// Sends frames in at a port, in batches, and tells what became of each.
    pub(crate) fn receive<F: AsRef<[u8]>>(&mut self, port: PortIndex, frames: &[F]) -> Vec<Done> {
        frames.chunks(BATCH).flat_map(|frames| self.batch(port, frames)).collect()
    }

    fn batch<F: AsRef<[u8]>>(&mut self, port: PortIndex, frames: &[F]) -> Vec<Done> {
        let mut record = Record { profiler: self.profiler.take(), ..Record::default() };
        let marked = |(number, frame): (usize, &F)| Marked {
            buffer: HeapBuffer::new(frame.as_ref(), 256),
            packet: Some(number),
        };
        let mut batch: ArrayVec<Marked, BATCH> = frames.iter().enumerate().map(marked).collect();
        self.engine.process(port, &mut batch, self.now, &mut record);
        self.profiler = record.profiler;
        if let Some(profiler) = &mut self.profiler {
            assert_eq!(
                profiler.enter(Stage::Other, 0),
                Stage::Other,
                "the engine leaves the stage that it found"
            );
            profiler.end_loop(true, 0);
        }
        assert!(batch.is_empty(), "the batch is empty afterwards");
        assert_eq!(record.done.len(), frames.len(), "each packet ends once");
        assert_eq!(record.released, frames.len() + record.allocated, "each buffer ends once");
        record.done
    }

    /// One frame.
    pub(crate) fn receive_one(&mut self, port: PortIndex, frame: &[u8]) -> Done {
        self.receive(port, &[frame]).remove(0)
    }

    /// Dropped packets for each reason that occurred.
    pub(crate) fn drops(&self) -> Vec<(DropReason, u64)> {
        let counts = DropReason::ALL.iter().map(|reason| (*reason, self.counters.drops(*reason)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}
