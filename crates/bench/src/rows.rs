//! What is printed and written: a table for people, JSON for programs.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;

use crate::machine::Conditions;
use crate::measure::{Case, Directions, Sample, median};
use crate::reload::{ReloadReport, Times};
use crate::subject::list;
use crate::traffic::Family;

/// A result from this share of the ceiling up is the generator's rather than the node's.
const NEAR_CEILING: f64 = 0.9;
/// A core that was busy for less than this share of a trial had to wait for the generator.
const SATURATED: f64 = 0.9;

/// The medians of one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Directions, family and size in one text.
    pub(crate) case: String,
    pub(crate) device: String,
    pub(crate) directions: Directions,
    pub(crate) family: Family,
    /// Bytes of a workload's frame with its frame check sequence.
    pub(crate) size: usize,
    /// Million packets a second, all directions together.
    pub(crate) mpps: f64,
    /// Gigabits a second of workloads' frames, all directions together.
    pub(crate) gbps: f64,
    /// Frames lost of all sent at the highest rate, 0 to 1.
    pub(crate) loss: f64,
    /// Frames lost of all sent at `check_mpps`; `None` if that was not tried.
    pub(crate) loss_at_check: Option<f64>,
    /// Rate of the check for loss.
    pub(crate) check_mpps: Option<f64>,
    /// Busy cycles a packet.
    pub(crate) cycles_per_packet: Option<f64>,
    /// The least and the most of the trials.
    pub(crate) cycles_range: Option<[f64; 2]>,
    /// Those cycles in proportion to another device's in the same rounds; `None` without another.
    pub(crate) cycles_ratio: Option<f64>,
    /// Heap allocations of the forwarding threads a packet, the most of the trials; `None` where they are not counted.
    pub(crate) allocations_per_packet: Option<f64>,
    /// Packets whose decision was in the flow cache, 0 to 1.
    pub(crate) hit_rate: Option<f64>,
    /// Share of the time in which the measured core was not idle, 0 to 1.
    pub(crate) busy: f64,
    /// What the generator and the links reach with an echo.
    pub(crate) ceiling_mpps: Option<f64>,
    /// Whether the generator rather than the device limits the rate.
    pub(crate) limited_by_generator: bool,
    /// Frames compared byte for byte, and those of them that were wrong, in all trials.
    pub(crate) compared: u64,
    /// Wrong frames.
    pub(crate) wrong: u64,
    /// Frames that came back more than once.
    pub(crate) duplicates: u64,
    /// Frames that came back behind later ones of their flow.
    pub(crate) reordered: u64,
    /// Frames of nobody.
    pub(crate) foreign: u64,
}

impl Row {
    /// The medians of some trials, of which there is at least one.
    pub(crate) fn new(case: &Case, device: &str, samples: &[Sample], ceiling: Option<f64>) -> Self {
        let size = case.genome.longest() as usize;
        let mpps =
            median(samples.iter().map(|sample| sample.result.packets_per_second() / 1e6)).unwrap_or(0.0);
        let cycles: Vec<f64> =
            samples.iter().filter_map(|sample| sample.counters.cycles_per_packet()).collect();
        let busy = median(samples.iter().map(|sample| sample.busy.min(1.0))).unwrap_or(0.0);
        let sum = |count: fn(&crate::message::StreamCounts) -> u64| {
            samples.iter().map(|sample| sample.result.sum(count)).sum()
        };
        Self {
            case: case.to_string(),
            device: device.to_owned(),
            directions: case.directions,
            family: case.family,
            size,
            mpps,
            gbps: mpps * size as f64 * 8.0 / 1e3,
            loss: median(samples.iter().map(|sample| sample.result.loss())).unwrap_or(0.0),
            loss_at_check: None,
            check_mpps: None,
            cycles_range: cycles.iter().copied().fold(None, |range, value| {
                let [least, most] = range.unwrap_or([value, value]);
                Some([value.min(least), value.max(most)])
            }),
            cycles_per_packet: median(cycles),
            cycles_ratio: None,
            allocations_per_packet: samples
                .iter()
                .filter_map(|sample| sample.counters.allocations_per_packet())
                .reduce(f64::max),
            hit_rate: median(samples.iter().filter_map(|sample| sample.counters.hit_rate())),
            busy,
            ceiling_mpps: ceiling,
            limited_by_generator: busy < SATURATED
                || ceiling.is_some_and(|ceiling| mpps > NEAR_CEILING * ceiling),
            compared: sum(|stream| stream.compared),
            wrong: sum(|stream| stream.wrong),
            duplicates: sum(|stream| stream.duplicates),
            reordered: sum(|stream| stream.reordered),
            foreign: samples.iter().map(|sample| sample.result.foreign).sum(),
        }
    }

    /// Adds the proportion to another device's cycles.
    pub(crate) fn with_ratio(self, cycles_ratio: Option<f64>) -> Self {
        Self { cycles_ratio, ..self }
    }

    /// Adds the check for loss below the highest rate.
    pub(crate) fn with_check(mut self, packets_per_second: f64, sample: &Sample) -> Self {
        self.check_mpps = Some(packets_per_second / 1e6);
        self.loss_at_check = Some(sample.result.loss());
        self.wrong += sample.result.sum(|stream| stream.wrong);
        self
    }
}

/// The result of `sluice bench forward`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ForwardReport {
    pub(crate) conditions: Conditions,
    pub(crate) rows: Vec<Row>,
    /// Packets that the node dropped, by reason, in the whole run.
    pub(crate) drops: Vec<(String, u64)>,
}

/// One row of a comparison's file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PeerRow {
    pub(crate) case: String,
    pub(crate) device: String,
    pub(crate) mpps: f64,
    pub(crate) cycles_per_packet: Option<f64>,
}

impl From<&Row> for PeerRow {
    fn from(row: &Row) -> Self {
        Self {
            case: row.case.clone(),
            device: row.device.clone(),
            mpps: row.mpps,
            cycles_per_packet: row.cycles_per_packet,
        }
    }
}

/// The rows of a forwarding bench.
pub(crate) fn forward_table(report: &ForwardReport) -> String {
    let mut table = table(&[
        "case",
        "Mpps",
        "Gb/s",
        "loss",
        "loss at 80 %",
        "cycles/packet",
        "least-most",
        "allocations/packet",
        "hits",
        "ceiling Mpps",
    ]);
    for row in &report.rows {
        let mark = if row.limited_by_generator { " *" } else { "" };
        table.add_row(numbers([
            row.case.clone(),
            format!("{:.2}{mark}", row.mpps),
            format!("{:.2}", row.gbps),
            percent(Some(row.loss)),
            percent(row.loss_at_check),
            number(row.cycles_per_packet, 0),
            range(row.cycles_range),
            number(row.allocations_per_packet, 6),
            percent(row.hit_rate),
            number(row.ceiling_mpps, 2),
        ]));
    }
    let mut text = table.to_string();
    text.push('\n');
    if report.rows.iter().any(|row| row.limited_by_generator) {
        text.push_str("* limited by the generator or the links, not by the node: its core had to wait, or the ceiling is near\n");
    }
    text.push_str("Cycles are those of polls that found packets, memif included.\n");
    for (reason, packets) in &report.drops {
        text.push_str(&format!("dropped by the node in the whole run: {reason} {packets}\n"));
    }
    text + &conditions(&report.conditions) + &complaints(&report.rows)
}

/// The result of `sluice bench reload`.
pub(crate) fn reload_table(report: &ReloadReport) -> String {
    let mut table = table(&[
        "rate",
        "swaps",
        "Mpps",
        "sent",
        "lost",
        "ring full",
        "wrong",
        "duplicated",
        "reordered",
        "of the rate without",
    ]);
    for rate in &report.rates {
        for (swaps, totals, ratio) in [(0, &rate.plain, None), (rate.swaps, &rate.swapping, rate.ratio)] {
            table.add_row(numbers([
                rate.name.to_owned(),
                swaps.to_string(),
                format!("{:.2}", totals.mpps),
                totals.sent.to_string(),
                totals.lost.to_string(),
                totals.ring_full.to_string(),
                totals.wrong.to_string(),
                totals.duplicates.to_string(),
                totals.reordered.to_string(),
                percent(ratio),
            ]));
        }
    }
    let Times { median, longest } = report.swap_ms;
    let mut text = format!(
        "{}\n{table}\na document was in force {median:.1} ms after the request (median of {}), {longest:.1} ms at the longest\n",
        report.case, report.swaps
    );
    text.push_str("lost: of those that the node took. Ring full: the generator did not read because another thread had its core.\n");
    for (reason, packets) in &report.drops {
        text.push_str(&format!("dropped by the node in the whole run: {reason} {packets}\n"));
    }
    text + &conditions(&report.conditions)
}

/// The rows of a comparison, devices side by side.
pub(crate) fn peers_table(state: &Conditions, rows: &[Row]) -> String {
    let mut table = table(&[
        "case",
        "device",
        "Mpps",
        "loss",
        "cycles/packet",
        "least-most",
        "busy",
        "of ovs-dpdk's cycles",
    ]);
    for row in rows {
        let mark = if row.limited_by_generator { " *" } else { "" };
        table.add_row(numbers([
            row.case.clone(),
            row.device.clone(),
            format!("{:.2}{mark}", row.mpps),
            percent(Some(row.loss)),
            number(row.cycles_per_packet, 0),
            range(row.cycles_range),
            percent(Some(row.busy)),
            number(row.cycles_ratio, 2),
        ]));
    }
    format!(
        "{table}\n* its core had to wait for the generator, or the ceiling is near\n{}{}",
        conditions(state),
        complaints(rows)
    )
}

fn conditions(conditions: &Conditions) -> String {
    let Conditions { processor, cycles_per_second, load_average, memory, realtime, trial_ms, repeat, .. } =
        conditions;
    let scheduler = if *realtime {
        "real-time scheduler"
    } else {
        "ordinary scheduler: other work on these cores counts in the cycles"
    };
    format!(
        "{processor}, {:.2} GHz; generator on core {}, device on core {}; {memory}; {scheduler}; load average {:.1} to {:.1}; medians of {repeat} trials of {trial_ms} ms\n",
        *cycles_per_second as f64 / 1e9,
        list(&conditions.generator_cores),
        list(&conditions.device_cores),
        load_average[0],
        load_average[1],
    )
}

/// What must not happen at all.
fn complaints(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let counts = [
            ("wrong", row.wrong),
            ("duplicated", row.duplicates),
            ("reordered", row.reordered),
            ("foreign", row.foreign),
        ];
        for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            text.push_str(&format!(
                "{} {}: {count} frames were {what} ({} compared)\n",
                row.device, row.case, row.compared
            ));
        }
    }
    text
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header.to_vec());
    table
}

/// Numbers stand right, the case left.
fn numbers<const N: usize>(texts: [String; N]) -> Vec<Cell> {
    let align = |(at, text): (usize, String)| {
        Cell::new(text).set_alignment(if at == 0 { CellAlignment::Left } else { CellAlignment::Right })
    };
    texts.into_iter().enumerate().map(align).collect()
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
}

fn range(range: Option<[f64; 2]>) -> String {
    range.map_or_else(|| "-".into(), |[least, most]| format!("{least:.0}-{most:.0}"))
}

/// A share as a percentage, with enough digits that a small loss does not look like none.
fn percent(share: Option<f64>) -> String {
    match share {
        None => "-".into(),
        Some(0.0) => "0 %".into(),
        Some(share) if share < 0.0001 => format!("{:.1e} %", share * 100.0),
        Some(share) => format!("{:.2} %", share * 100.0),
    }
}

#[cfg(test)]
mod tests;
