//! Where the cycles of a packet go: the engine under a profile, stage by stage.

use std::sync::Arc;

use quanta::Clock;
use serde::Serialize;
use sluice_datapath::profile::{CycleCounter, Profiler, Stage, StageCounters};

use crate::fixture::Wanted;
use crate::subject::Subject;

/// The processor's time-stamp counter.
pub(crate) struct TimeStampCounter(Clock);

impl CycleCounter for TimeStampCounter {
    #[inline(always)]
    fn cycles(&self) -> u64 {
        self.0.raw()
    }
}

/// What one stage costs of one case, by packet that the engine was given.
#[derive(Serialize)]
pub(crate) struct StageRow {
    direction: &'static str,
    flow_cache: bool,
    stage: &'static str,
    cycles_per_packet: f64,
    /// How often a packet passes the stage.
    passes_per_packet: f64,
    time_stamps_per_packet: f64,
    /// What one time stamp costs, contained in the cycles and taken off nowhere.
    cycles_per_time_stamp: u64,
}

/// Counts of one stage, or what they grew by.
#[derive(Clone, Copy, Default)]
struct Counts {
    cycles: u64,
    packets: u64,
    time_stamps: u64,
}

/// An engine under a profile.
pub(crate) struct Case {
    subject: Subject<Profiler<TimeStampCounter>>,
    counters: Arc<StageCounters>,
    /// What the engine's first look at its flows had counted.
    before: Vec<Counts>,
    busy_before: u64,
    packets: usize,
}

impl Case {
    pub(crate) fn new(wanted: Wanted) -> std::io::Result<Self> {
        let counters = Arc::<StageCounters>::default();
        let mut profiler = Profiler::new(TimeStampCounter(Clock::new()), Arc::clone(&counters));
        profiler.calibrate();
        let subject = Subject::new(wanted, profiler)?;
        let (before, busy_before) = (counts(&counters), counters.busy_cycles.get());
        Ok(Self { subject, counters, before, busy_before, packets: 0 })
    }

    /// Sends some more packets.
    pub(crate) fn round(&mut self, packets: usize) {
        self.subject.round(packets);
        self.packets += packets;
    }

    /// The stages that were passed, with what none of them claims, and the sum.
    pub(crate) fn rows(&self) -> Vec<StageRow> {
        let each = |total: u64| total as f64 / self.packets.max(1) as f64;
        let row = |stage, counts: Counts| StageRow {
            direction: self.subject.wanted.direction.name(),
            flow_cache: self.subject.wanted.cache,
            stage,
            cycles_per_packet: each(counts.cycles),
            passes_per_packet: each(counts.packets),
            time_stamps_per_packet: each(counts.time_stamps),
            cycles_per_time_stamp: self.counters.time_stamp_cycles.get(),
        };
        let grown = counts(&self.counters).into_iter().zip(&self.before).map(|(now, before)| Counts {
            cycles: now.cycles - before.cycles,
            packets: now.packets - before.packets,
            time_stamps: now.time_stamps - before.time_stamps,
        });
        let passed = Stage::ALL.iter().zip(grown).filter(|(_, counts)| counts.time_stamps > 0);
        let passed: Vec<_> = passed.collect();
        let attributed = passed.iter().map(|(_, counts)| counts.cycles).sum();
        let busy = self.counters.busy_cycles.get() - self.busy_before;
        let mut rows: Vec<_> = passed.iter().map(|(stage, counts)| row(stage.name(), *counts)).collect();
        let whole = |cycles| Counts { cycles, ..Counts::default() };
        rows.push(row(Stage::Other.name(), whole(busy.saturating_sub(attributed))));
        let stamps = passed.iter().map(|(_, counts)| counts.time_stamps).sum();
        rows.push(row("all", Counts { cycles: busy, packets: self.packets as u64, time_stamps: stamps }));
        rows
    }
}

fn counts(counters: &StageCounters) -> Vec<Counts> {
    let counters = Stage::ALL.iter().filter_map(|stage| counters.stage(*stage));
    let counts = counters.map(|counter| Counts {
        cycles: counter.cycles.get(),
        packets: counter.packets.get(),
        time_stamps: counter.time_stamps.get(),
    });
    counts.collect()
}

/// A table for each case.
pub(crate) fn print(rows: &[StageRow]) {
    for case in
        rows.chunk_by(|one, next| (one.direction, one.flow_cache) == (next.direction, next.flow_cache))
    {
        let Some(first) = case.first() else { continue };
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
        table.set_header(["stage", "cycles/packet", "passes/packet", "time stamps/packet"]);
        for row in case {
            table.add_row([
                row.stage.to_owned(),
                format!("{:.1}", row.cycles_per_packet),
                format!("{:.3}", row.passes_per_packet),
                format!("{:.3}", row.time_stamps_per_packet),
            ]);
        }
        let cache = if first.flow_cache { "on" } else { "off" };
        println!(
            "{}, flow cache {cache}; a time stamp costs {} cycles, which its stage contains\n{table}",
            first.direction, first.cycles_per_time_stamp
        );
    }
}
