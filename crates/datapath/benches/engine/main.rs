//! What the engine costs alone: cycles and allocations a packet, with the flow cache and without, for few flows and for many.
//!
//! `cargo bench -p sluice-datapath` prints the table; `-- --quick` leaves out the large numbers of flows, `-- --packets 16384` makes the rows short
//! (for a profiler), and `-- decap` keeps the rows whose direction says so. Packets are 60-byte frames in heap memory; I/O is
//! not in the figures. Each row is the median over rounds of batches of 64; the time stamp counter is read around
//! [`Engine::process`] alone, so that laying out the packets is not counted.

mod fixture;

use std::sync::Arc;

use arrayvec::ArrayVec;
use quanta::Clock;
use sluice_datapath::buffer::{BATCH, PacketBuffer, Transmit};
use sluice_datapath::counters::{EngineCounters, LogicalCounters};
use sluice_datapath::drops::DropReason;
use sluice_datapath::engine::{Engine, EngineConfig};
use sluice_datapath::punt::Punt;
use sluice_datapath::time::Timestamp;
use sluice_intent::plan::PortIndex;

use fixture::{Direction, Frame, frames};

/// Packets measured for each row, unless the command line says otherwise.
const PACKETS: usize = 4 << 20;
/// Rounds that the packets of a row are divided into; the median round counts.
const ROUNDS: usize = 16;

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

    fn load(&mut self, frame: &Frame) {
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

/// Takes the packets back for the next batch.
#[derive(Default)]
struct Sink {
    pool: ArrayVec<Slot, BATCH>,
    sent: u64,
}

impl Transmit<Slot> for Sink {
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

struct Row {
    direction: Direction,
    flows: usize,
    cache: bool,
    cycles: f64,
    allocations: f64,
    hit_rate: f64,
}

fn measure(direction: Direction, flows: usize, cache: bool, total: usize) -> std::io::Result<Row> {
    let snapshot = Arc::new(fixture::snapshot());
    let neighbors = Arc::new(fixture::neighbors(&snapshot));
    let counters = Arc::new(EngineCounters::default());
    let logical = Arc::new(LogicalCounters::new(&snapshot));
    let config = EngineConfig {
        flow_cache: cache,
        flow_cache_size: (flows * 2).next_power_of_two().max(1 << 18),
        idle_timeout: 60,
    };
    let mut engine = Engine::new(config, snapshot, neighbors, Arc::clone(&counters), logical)?;
    let frames = frames(direction, flows);
    let mut sink = Sink::default();
    for _ in 0..BATCH {
        sink.pool.push(Slot::new());
    }
    let clock = Clock::new();
    let now = Timestamp::from_secs(1);
    let mut next = 0;
    let mut run = |packets: usize, sink: &mut Sink| {
        let mut cycles = 0;
        for _ in 0..packets / BATCH {
            let mut batch = ArrayVec::new();
            for mut slot in sink.pool.drain(..) {
                slot.load(&frames[next]);
                next = (next + 1) % frames.len();
                batch.push(slot);
            }
            let start = clock.raw();
            engine.process(direction.port(), &mut batch, now, sink);
            cycles += clock.raw() - start;
        }
        cycles as f64 / packets as f64
    };
    run(flows.next_multiple_of(BATCH) * 2, &mut sink);
    let (hits, sent) = (counters.cache_hits.get(), sink.sent);
    let mut rounds = Vec::with_capacity(ROUNDS);
    let allocated = allocation_counter::measure(|| {
        for _ in 0..ROUNDS {
            rounds.push(run(total / ROUNDS, &mut sink));
        }
    });
    let packets = (sink.sent - sent) as f64;
    assert_eq!(packets as usize, total, "every packet must be forwarded");
    rounds.sort_by(f64::total_cmp);
    Ok(Row {
        direction,
        flows,
        cache,
        cycles: rounds[ROUNDS / 2],
        allocations: allocated.count_total as f64 / packets,
        hit_rate: (counters.cache_hits.get() - hits) as f64 / packets,
    })
}

/// What the command line asks for.
struct Selection {
    quick: bool,
    packets: usize,
    words: Vec<String>,
}

impl Selection {
    fn from_arguments() -> Self {
        let mut selection = Self { quick: false, packets: PACKETS, words: Vec::new() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => selection.quick = true,
                "--packets" => {
                    let number = arguments.next().and_then(|number| number.parse().ok());
                    selection.packets = number.unwrap_or(PACKETS).next_multiple_of(BATCH * ROUNDS);
                }
                // What cargo adds.
                "--bench" => {}
                _ => selection.words.push(argument),
            }
        }
        selection
    }

    fn rows(&self) -> Vec<(Direction, usize, bool)> {
        let directions = [Direction::Encap, Direction::Decap, Direction::EncapIpv6, Direction::DecapIpv6];
        let mut rows: Vec<_> =
            directions.into_iter().flat_map(|d| [(d, 1_280, true), (d, 1_280, false)]).collect();
        if !self.quick {
            rows.extend([16_384, 262_144, 1_900_000].map(|flows| (Direction::Encap, flows, true)));
        }
        let name = |(direction, _, cache): &(Direction, usize, bool)| {
            format!("{}, cache {}", direction.name(), if *cache { "on" } else { "off" })
        };
        rows.retain(|row| self.words.iter().all(|word| name(row).contains(word.as_str())));
        rows
    }
}

fn main() -> std::io::Result<()> {
    let selection = Selection::from_arguments();
    let mut rows = Vec::new();
    for (direction, flows, cache) in selection.rows() {
        rows.push(measure(direction, flows, cache, selection.packets)?);
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_header(["direction", "flows", "flow cache", "cycles/packet", "allocations/packet", "hit rate"]);
    for row in &rows {
        table.add_row([
            row.direction.name().to_owned(),
            row.flows.to_string(),
            if row.cache { "on" } else { "off" }.to_owned(),
            format!("{:.1}", row.cycles),
            format!("{:.6}", row.allocations),
            format!("{:.1} %", row.hit_rate * 100.0),
        ]);
    }
    println!("{table}");
    for [on, off] in rows.as_chunks::<2>().0 {
        if on.cache && !off.cache {
            let saved = (1.0 - on.cycles / off.cycles) * 100.0;
            println!("{}: the cache saves {saved:.0} % of the cycles", on.direction.name());
        }
    }
    Ok(())
}
