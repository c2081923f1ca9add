//! `peers`: the same work on a node and on its peers, in turn, A B C A B C, while the others stand still.
//!
//! What is compared was measured in the same round of the same run: a ratio is the median of the rounds' ratios, so that a machine that is
//! slower for a while is slower for all. A peer that is not installed is left out, and the report says so.

use std::path::Path;

use serde_json::json;

use crate::error::{BenchError, Result};
use crate::measure::{Case, Directions, Sample, median};
use crate::report::{
    Axis, Cell, Chart, Column, FrameFaults, OutputFile, Report, Row, Section, Series, Table, marks,
};
use crate::scenario::Scenario;
use crate::session::Session;
use crate::subject::{Echo, Node, PEERS, Subject, Variant};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "peers",
    title: "The same work on a node and on its peers",
    about: "The same packets through a node, Open vSwitch with DPDK and others, in turn: rates, cycles, ratios",
    reproduces: None,
    sizes: &[64],
    examples: "Examples:
  sluice bench peers
  sluice bench peers --repeat 15 --html peers.html
  sluice bench peers --direction both --sizes 64,1500",
    mebibytes: 256 + 512 + 256 + 5 * 64,
    run,
};

/// Where the rows are written for programs that only want them.
const ROWS: &str = "target/bench/peers.json";

fn run(session: &mut Session<'_>, report: &mut Report) -> Result<()> {
    if let Some(folder) = Path::new(ROWS).parent() {
        std::fs::create_dir_all(folder).map_err(|source| BenchError::System {
            action: format!("creating {}", folder.display()),
            source,
        })?;
    }
    let rows = OutputFile::check(Path::new(ROWS))?;
    session.needs_shared_memory()?;
    let topology = session.arguments.topology();
    let cases = session.cases(&[Directions::Encap, Directions::Decap, Directions::Both], report)?;
    let setting = &session.bench.setting;
    let mut devices: Vec<Box<dyn Subject>> = vec![Box::new(Node::start(setting, Variant::new(topology))?)];
    for peer in PEERS {
        pause(&devices);
        session.message(format!("starting {}", peer.name));
        match (peer.start)(setting, &topology) {
            Ok(device) => devices.push(device),
            Err(BenchError::NoProgram { name, remedy, .. }) => {
                report.warn(format!("{} was not measured: {name} is not there; {remedy}", peer.name));
            }
            Err(error) => return Err(error),
        }
    }
    pause(&devices);
    devices.push(Box::new(Echo::start(setting, &topology)?));
    session.describe(devices[0].as_mut(), report);
    let mut subjects: Vec<&mut dyn Subject> = devices.iter_mut().map(|device| device.as_mut() as _).collect();
    let samples = session.in_turn(&mut subjects, &cases)?;
    let names: Vec<&str> = devices.iter().map(|device| device.name()).collect();
    for (device, of_device) in names.iter().zip(&samples) {
        for (case, samples) in cases.iter().zip(of_device) {
            report.check_frames(&format!("{device} {case}"), &FrameFaults::of(samples));
        }
    }
    let section = section(&names, &cases, &samples);
    if let Some(table) = &section.table {
        rows.write(&format!("{:#}\n", plain_rows(table)))?;
        report.result(sentence(table));
    }
    report.section(section);
    Ok(())
}

fn pause(devices: &[Box<dyn Subject>]) {
    for device in devices {
        device.pause();
    }
}

/// A table with a row for each device and case. The first device is the node, the last one the echo.
fn section(names: &[&str], cases: &[Case], samples: &[Vec<Vec<Sample>>]) -> Section {
    let mut table = Table::new([
        Column::label("case", "case"),
        Column::label("device", "device"),
        Column::measured("mpps", "forwarded", "Mpps").digits(2).higher_is_better(),
        Column::measured("loss", "loss", "%").digits(2),
        Column::measured("cycles_per_packet", "cycles", "/packet").digits(0).lower_is_better(),
        Column::measured("busy", "busy", "%").digits(0),
        Column::measured("of-rate", "node's rate, of its", "").digits(2).higher_is_better(),
        Column::measured("of-cycles", "node's cycles, of its", "").digits(2).lower_is_better(),
    ]);
    let mut chart = Chart::bars("Packets a second", cases, Axis::new("forwarded", "Mpps"))
        .caption("The echo forwards frames unread: what generator and links can do.");
    for (name, of_device) in names.iter().zip(samples) {
        let rates = of_device.iter().map(|samples| median(samples.iter().map(mpps)));
        chart = chart.series(Series::measured(name, rates));
    }
    for (at, case) in cases.iter().enumerate() {
        let (node, echo) = (&samples[0][at], &samples[samples.len() - 1][at]);
        for (name, of_device) in names.iter().zip(samples) {
            table.push(row(case, name, &of_device[at], node, echo));
        }
    }
    Section::new("peers", "Side by side")
        .text("Medians of the rounds. The last two columns are the node's rate and cycles in proportion to those of the device, the median of the rounds' ratios. Cycles are those of polls that found packets, receiving and sending included.")
        .table(table)
        .chart(chart)
}

fn mpps(sample: &Sample) -> f64 {
    sample.result.packets_per_second() / 1e6
}

fn row(case: &Case, name: &str, samples: &[Sample], node: &[Sample], echo: &[Sample]) -> Row {
    let cycles = |sample: &Sample| sample.counters.cycles_per_packet();
    let pairs = || node.iter().zip(samples);
    let of_cycles = pairs().filter_map(|(node, other)| Some(cycles(node)? / cycles(other)?));
    let of_rate = pairs().map(|(node, other)| mpps(node) / mpps(other));
    let is_echo = std::ptr::eq(samples, echo);
    let limited = !is_echo && Sample::are_limited_by_generator(samples, echo);
    let row = Row::new()
        .label("case", case)
        .label("device", name)
        .measured("mpps", samples.iter().map(mpps))
        .mark_if(limited, marks::LIMITED_BY_GENERATOR)
        .measured("loss", samples.iter().map(|sample| sample.result.loss() * 100.0))
        .measured("cycles_per_packet", samples.iter().filter_map(cycles))
        .measured("busy", samples.iter().map(|sample| sample.busy.min(1.0) * 100.0));
    if std::ptr::eq(samples, node) {
        return row.not_measured("of-rate", "this is the node").not_measured("of-cycles", "this is the node");
    }
    row.measured("of-rate", of_rate).measured("of-cycles", of_cycles)
}

/// Rows with case, device, packets a second and cycles, and nothing else.
fn plain_rows(table: &Table) -> serde_json::Value {
    let row = |row: &Row| {
        let label = |column: &str| match row.cells.get(column) {
            Some(Cell::Label { text }) => text.clone(),
            _ => String::new(),
        };
        let number = |column: &str| row.cells.get(column).and_then(Cell::measured);
        json!({
            "case": label("case"),
            "device": label("device"),
            "mpps": number("mpps"),
            "cycles_per_packet": number("cycles_per_packet"),
        })
    };
    table.rows.iter().map(row).collect()
}

/// The node's cycles in proportion to each device's, case by case.
fn sentence(table: &Table) -> String {
    let mut parts = Vec::new();
    for row in &table.rows {
        if let (Some(Cell::Label { text: case }), Some(Cell::Label { text: device }), Some(ratio)) = (
            row.cells.get("case"),
            row.cells.get("device"),
            row.cells.get("of-cycles").and_then(Cell::measured),
        ) && device != "echo"
        {
            parts.push(format!("{case}: {ratio:.2} of {device}'s"));
        }
    }
    format!("The node's cycles a packet in proportion to its peers' — {}.", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::TrialResult;
    use crate::subject::Counters;
    use crate::traffic::Family;

    fn sample(cycles: u64) -> Sample {
        let result = TrialResult { sending_ns: 1, ..TrialResult::default() };
        let counters =
            Counters { packets: 10, busy_cycles: 10 * cycles, heap_allocations: None, cache: None };
        Sample { result, counters, busy: 1.0, cores: 1, waited: std::time::Duration::ZERO }
    }

    #[test]
    fn the_ratio_is_that_of_rounds_not_of_medians() {
        // The machine was twice as slow in the second round, for both.
        let (node, peer) = ([200, 400, 210].map(sample), [400, 800, 300].map(sample));
        let echo = [100, 200, 100].map(sample);
        let case = Case::at_least(Directions::Both, Family::Ipv4, 64).unwrap();
        let samples = [vec![node.to_vec()], vec![peer.to_vec()], vec![echo.to_vec()]];
        let table = section(&["sluice", "peer", "echo"], &[case], &samples).table.unwrap();
        assert_eq!(table.rows[1].cells["of-cycles"].measured(), Some(0.5));
        assert_eq!(table.rows[0].cells["of-cycles"].measured(), None, "of itself nothing is told");
        assert!(sentence(&table).contains("both IPv4 64: 0.50 of peer's"), "{}", sentence(&table));
        let rows = plain_rows(&table);
        assert_eq!(rows[1]["device"], "peer");
        assert_eq!(rows[1]["cycles_per_packet"], 400.0);
    }
}
