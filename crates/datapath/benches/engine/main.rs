//! What the engine costs alone: cycles and allocations a packet, with the flow cache and without, for few flows and for many.
//!
//! `cargo bench -p sluice-datapath` prints three tables: each direction with the cache on and off, what TEP groups cost, and a growing number of
//! flows with what they need of memory. Packets are 60-byte frames (74 bytes with IPv6) in heap memory; I/O is not in the figures. What a table compares
//! is measured in turns, round by round, and a ratio is the median of the rounds' ratios, so that whatever else the machine does strikes both
//! sides. With `--profile` it prints instead where the cycles of each direction go, stage by stage.
//! `cargo bench -p sluice-datapath --bench engine -- --help` tells the arguments.

mod fixture;
mod stages;
mod subject;

use std::path::PathBuf;

use clap::Parser;
use serde::Serialize;
use sluice_datapath::buffer::BATCH;
use sluice_datapath::profile::Unprofiled;

use fixture::{Direction, Wanted};
use sluice_intent::plan::Placement;
use stages::{Case, StageRow};
use subject::{Round, Subject};

/// Rounds that the packets of a row are divided into.
const ROUNDS: usize = 16;
/// Flows of the rows that compare the cache on and off.
const FLOWS: usize = 1_280;
/// Every direction.
const DIRECTIONS: [Direction; 4] =
    [Direction::Encap, Direction::Decap, Direction::EncapIpv6, Direction::DecapIpv6];
/// Numbers of flows that are compared with [`FLOWS`].
const MANY_FLOWS: [usize; 3] = [16_384, 262_144, 1_900_000];

/// A row of the report.
#[derive(Serialize)]
struct Row {
    direction: &'static str,
    flows: usize,
    flow_cache: bool,
    /// How flows are placed on two TEPs at either end.
    teps: &'static str,
    cycles_per_packet: f64,
    allocations_per_packet: f64,
    hit_rate: f64,
    memory_mib: f64,
    /// With the cache on, against off: what the cache saves of the cycles. With TEP groups: the cycles against those without. With many flows: the
    /// rate against that of the fewest.
    ratio: Option<f64>,
}

/// What the command line asks for.
#[derive(clap::Parser)]
struct Selection {
    /// Without the large numbers of flows.
    #[arg(long)]
    quick: bool,
    /// Where the cycles go, stage by stage, in place of the other tables; measuring that costs cycles of its own.
    #[arg(long)]
    profile: bool,
    /// Packets of each row, rounded up to whole batches in every round.
    #[arg(long, default_value_t = 4 << 20, value_parser = clap::value_parser!(u32).range(1..))]
    packets: u32,
    /// File that the rows are written to as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Words that the names of the wanted rows have, such as `decap` or "IPv4, cache on".
    words: Vec<String>,
    /// What cargo adds.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Selection {
    /// Packets of a round.
    fn round(&self) -> usize {
        (self.packets as usize).next_multiple_of(BATCH * ROUNDS) / ROUNDS
    }

    fn wants(&self, wanted: &Wanted) -> bool {
        let (direction, flows) = (wanted.direction.name(), wanted.flows);
        let cache = if wanted.cache { "on" } else { "off" };
        let name = format!("{direction}, cache {cache}, {flows} flows, {}", teps(wanted.placement));
        self.words.iter().all(|word| name.contains(word.as_str()))
    }

    /// Measures subjects in turns. The ratio of each is that of the first one's cycles to its own, round by round.
    fn compare(&self, wanted: &[Wanted]) -> std::io::Result<Vec<Row>> {
        let wanted = wanted.iter().filter(|wanted| self.wants(wanted));
        let subjects = wanted.map(|wanted| Subject::new(*wanted, Unprofiled));
        let mut subjects = subjects.collect::<std::io::Result<Vec<Subject>>>()?;
        let mut rounds: Vec<Vec<Round>> = subjects.iter().map(|_| Vec::with_capacity(ROUNDS)).collect();
        for _ in 0..ROUNDS {
            for (subject, rounds) in subjects.iter_mut().zip(&mut rounds) {
                rounds.push(subject.round(self.round()));
            }
        }
        let row = |(subject, own): (&Subject, &Vec<Round>)| {
            let ratios = own
                .iter()
                .zip(&rounds[0])
                .map(|(own, first)| first.cycles_per_packet / own.cycles_per_packet);
            Row {
                direction: subject.wanted.direction.name(),
                flows: subject.wanted.flows,
                flow_cache: subject.wanted.cache,
                teps: teps(subject.wanted.placement),
                cycles_per_packet: median(own.iter().map(|round| round.cycles_per_packet)),
                allocations_per_packet: own
                    .iter()
                    .map(|round| round.allocations_per_packet)
                    .fold(0.0, f64::max),
                hit_rate: median(own.iter().map(|round| round.hit_rate)),
                memory_mib: subject.memory as f64 / 1_048_576.0,
                ratio: Some(median(ratios)),
            }
        };
        Ok(subjects.iter().zip(&rounds).map(row).collect())
    }
}

/// What a table says of a placement.
const fn teps(placement: Option<Placement>) -> &'static str {
    match placement {
        None => "one TEP",
        Some(Placement::Hash) => "group, hash",
        Some(Placement::LoadAware) => "group, load-aware",
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Each direction with the cache off and on, the latter with what it saves.
fn cache_rows(selection: &Selection) -> std::io::Result<Vec<Row>> {
    let mut all = Vec::new();
    for direction in DIRECTIONS {
        let case = |cache| Wanted { direction, flows: FLOWS, cache, placement: None };
        let mut rows = selection.compare(&[case(false), case(true)])?;
        let compared = rows.len() == 2;
        for row in &mut rows {
            row.ratio = row.ratio.filter(|_| compared && row.flow_cache).map(|times| 1.0 - 1.0 / times);
        }
        all.append(&mut rows);
    }
    Ok(all)
}

/// Each direction with the cache off and on, stage by stage.
fn stage_rows(selection: &Selection) -> std::io::Result<Vec<StageRow>> {
    let all = DIRECTIONS.into_iter().flat_map(|direction| {
        [false, true].map(|cache| Wanted { direction, flows: FLOWS, cache, placement: None })
    });
    let cases = all.filter(|wanted| selection.wants(wanted)).map(Case::new);
    let mut cases = cases.collect::<std::io::Result<Vec<Case>>>()?;
    for _ in 0..ROUNDS {
        cases.iter_mut().for_each(|case| case.round(selection.round()));
    }
    Ok(cases.iter().flat_map(Case::rows).collect())
}

/// Each direction over Geneve with one TEP at either end, and with groups of two: the cycles against those without a group.
fn group_rows(selection: &Selection) -> std::io::Result<Vec<Row>> {
    let mut all = Vec::new();
    for (direction, cache) in
        [Direction::Encap, Direction::Decap].into_iter().flat_map(|way| [(way, true), (way, false)])
    {
        let placements = [None, Some(Placement::Hash), Some(Placement::LoadAware)];
        let cases = placements.map(|placement| Wanted { direction, flows: FLOWS, cache, placement });
        let mut rows = selection.compare(&cases)?;
        for row in &mut rows {
            row.ratio = row.ratio.map(|rate| 1.0 / rate);
        }
        all.append(&mut rows);
    }
    Ok(all)
}

/// Few flows and many, each with its rate against that with the fewest.
fn flow_rows(selection: &Selection) -> std::io::Result<Vec<Row>> {
    if selection.quick {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for direction in [Direction::Encap, Direction::Decap] {
        let case = |flows| Wanted { direction, flows, cache: true, placement: None };
        let wanted: Vec<Wanted> = std::iter::once(FLOWS).chain(MANY_FLOWS).map(case).collect();
        all.append(&mut selection.compare(&wanted)?);
    }
    Ok(all)
}

fn print(title: &str, ratio: &str, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    let header = [
        "direction",
        "flows",
        "flow cache",
        "TEPs",
        "cycles/packet",
        "allocations/packet",
        "hit rate",
        "memory MiB",
        ratio,
    ];
    table.set_header(header);
    for row in rows {
        table.add_row([
            row.direction.to_owned(),
            row.flows.to_string(),
            if row.flow_cache { "on" } else { "off" }.to_owned(),
            row.teps.to_owned(),
            format!("{:.1}", row.cycles_per_packet),
            format!("{:.6}", row.allocations_per_packet),
            format!("{:.1} %", row.hit_rate * 100.0),
            format!("{:.0}", row.memory_mib),
            row.ratio.map_or_else(String::new, |ratio| format!("{:.1} %", ratio * 100.0)),
        ]);
    }
    println!("{title}\n{table}");
}

fn main() -> std::io::Result<()> {
    let selection = Selection::parse();
    if selection.profile {
        let rows = stage_rows(&selection)?;
        stages::print(&rows);
        return write(&selection, &rows);
    }
    let mut rows = cache_rows(&selection)?;
    print("With the flow cache and without", "saved", &rows);
    let groups = group_rows(&selection)?;
    print("One TEP at either end, and groups of two", "of one TEP's cycles", &groups);
    rows.extend(groups);
    let flows = flow_rows(&selection)?;
    print("Few flows and many, each packet of another flow than the one before", "rate", &flows);
    rows.extend(flows);
    write(&selection, &rows)
}

/// Writes the rows to the file that is to have them, if one is.
fn write(selection: &Selection, rows: &[impl Serialize]) -> std::io::Result<()> {
    match &selection.json {
        Some(path) => std::fs::write(path, serde_json::to_string_pretty(rows)?),
        None => Ok(()),
    }
}
