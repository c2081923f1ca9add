//! One engine under measurement, with its packets and a surrounding that takes them back.

use std::sync::Arc;

use arrayvec::ArrayVec;
use quanta::Clock;
use sluice_datapath::buffer::{BATCH, PacketBuffer, Transmit};
use sluice_datapath::counters::{EngineCounters, LogicalCounters};
use sluice_datapath::drops::DropReason;
use sluice_datapath::engine::{Engine, EngineConfig};
use sluice_datapath::profile::{Profile, Stage, Unprofiled};
use sluice_datapath::punt::Punt;
use sluice_datapath::time::Timestamp;
use sluice_intent::plan::PortIndex;

use crate::fixture::{self, Frames, Wanted};

/// A packet as a driver hands it over: a pointer to memory that begins with where the frame is.
struct Slot(Box<Memory>);

struct Memory {
    start: usize,
    end: usize,
    bytes: [u8; 384],
}

impl Slot {
    fn new() -> Self {
        Self(Box::new(Memory { start: 128, end: 128, bytes: [0; 384] }))
    }

    fn load(&mut self, frame: &[u8]) {
        self.0.start = 128;
        self.0.end = 128 + frame.len();
        self.0.bytes[128..128 + frame.len()].copy_from_slice(frame);
    }
}

impl PacketBuffer for Slot {
    fn data(&self) -> &[u8] {
        &self.0.bytes[self.0.start..self.0.end]
    }

    fn data_mut(&mut self) -> &mut [u8] {
        let Memory { start, end, bytes } = &mut *self.0;
        &mut bytes[*start..*end]
    }

    fn reframe(&mut self, pop: usize, push: usize, keep: usize) -> Option<&mut [u8]> {
        let kept = self.0.start + pop;
        if kept + keep > self.0.end || push > kept {
            return None;
        }
        (self.0.start, self.0.end) = (kept - push, kept + keep);
        Some(self.data_mut())
    }

    fn extend_back(&mut self, _: usize) -> Option<&mut [u8]> {
        None
    }
}

/// Takes the packets back for the next batch, and tells a profile of the stages.
struct Sink<P> {
    pool: ArrayVec<Slot, BATCH>,
    sent: u64,
    profile: P,
}

impl<P: Profile> Profile for Sink<P> {
    #[inline(always)]
    fn enter(&mut self, stage: Stage, packets: usize) -> Stage {
        self.profile.enter(stage, packets)
    }

    #[inline(always)]
    fn amend(&mut self, stage: Stage, packets: usize) {
        self.profile.amend(stage, packets);
    }
}

impl<P: Profile> Transmit<Slot> for Sink<P> {
    #[inline]
    fn transmit(&mut self, _: PortIndex, buffer: Slot) {
        self.sent += 1;
        self.pool.push(buffer);
    }

    fn punt(&mut self, _: Punt, buffer: Slot) {
        self.pool.push(buffer);
    }

    fn discard(&mut self, _: DropReason, buffer: Slot) {
        self.pool.push(buffer);
    }

    fn allocate(&mut self) -> Option<Slot> {
        None
    }
}

/// What one round measured.
pub(crate) struct Round {
    pub(crate) cycles_per_packet: f64,
    pub(crate) allocations_per_packet: f64,
    pub(crate) hit_rate: f64,
}

/// An engine that has seen each of its flows.
pub(crate) struct Subject<P = Unprofiled> {
    pub(crate) wanted: Wanted,
    /// What the engine with its flow cache and rewrites occupies, bytes.
    pub(crate) memory: u64,
    engine: Engine,
    counters: Arc<EngineCounters>,
    frames: Frames,
    next: usize,
    sink: Sink<P>,
    clock: Clock,
}

impl<P: Profile> Subject<P> {
    /// Makes the engine and sends it every flow twice.
    pub(crate) fn new(wanted: Wanted, profile: P) -> std::io::Result<Self> {
        let Wanted { direction, flows, cache, placement } = wanted;
        let frames = fixture::frames(direction, flows);
        let before = resident()?;
        let snapshot = Arc::new(fixture::snapshot(placement));
        let neighbors = Arc::new(fixture::neighbors());
        let counters = Arc::new(EngineCounters::default());
        let logical = Arc::new(LogicalCounters::new(&snapshot));
        let config = EngineConfig {
            flow_cache: cache,
            flow_cache_size: (flows * 2).next_power_of_two().max(1 << 18),
            idle_timeout: 60,
        };
        let engine = Engine::new(config, snapshot, neighbors, Arc::clone(&counters), logical)?;
        let pool = (0..BATCH).map(|_| Slot::new()).collect();
        let sink = Sink { pool, sent: 0, profile };
        let (next, clock) = (0, Clock::new());
        let mut subject = Self { wanted, memory: 0, engine, counters, frames, next, sink, clock };
        subject.send(flows.next_multiple_of(BATCH) * 2);
        subject.memory = resident()?.saturating_sub(before);
        Ok(subject)
    }

    /// Measures `packets`, a multiple of [`BATCH`], with the next flows.
    pub(crate) fn round(&mut self, packets: usize) -> Round {
        let (sent, hits) = (self.sink.sent, self.counters.cache_hits.get());
        let mut cycles = 0;
        let allocated = allocation_counter::measure(|| cycles = self.send(packets));
        assert_eq!(self.sink.sent - sent, packets as u64, "every packet must be forwarded");
        let each = |total: u64| total as f64 / packets as f64;
        Round {
            cycles_per_packet: each(cycles),
            allocations_per_packet: each(allocated.count_total),
            hit_rate: each(self.counters.cache_hits.get() - hits),
        }
    }

    /// Sends packets in batches; cycles of the time stamp counter spent in [`Engine::process`], so that laying them out is not counted.
    fn send(&mut self, packets: usize) -> u64 {
        let mut cycles = 0;
        for _ in 0..packets / BATCH {
            let mut batch = ArrayVec::new();
            for mut slot in self.sink.pool.drain(..) {
                slot.load(self.frames.get(self.next));
                self.next = if self.next + 1 == self.wanted.flows { 0 } else { self.next + 1 };
                batch.push(slot);
            }
            let start = self.clock.raw();
            self.engine.process(
                self.wanted.direction.port(),
                &mut batch,
                Timestamp::from_secs(1),
                &mut self.sink,
            );
            let taken = self.clock.raw() - start;
            self.sink.profile.end_loop(true, taken);
            cycles += taken;
        }
        cycles
    }
}

/// Memory of this process that is resident, bytes (proc(5), `VmRSS`).
fn resident() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kibibytes.map(|count| count * 1024).ok_or_else(|| std::io::Error::other("/proc/self/status has no VmRSS"))
}
