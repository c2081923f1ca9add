//! What every fault cost: a table, and JSON.

use std::fmt;

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use serde::Serialize;

use super::outage::Outage;

/// A run in which the probe itself was held up for longer than this, milliseconds, tells of the machine as well.
const HELD_UP_MS: f64 = 10.0;

/// What one run of a fault cost in one direction.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Row {
    /// Direction and part of the fault.
    what: String,
    sent: u64,
    lost: u64,
    /// Longest time in which a flow lost everything.
    outage_ms: u64,
    /// Most that the outage may be; none where that is not what is judged.
    limit_ms: Option<u64>,
    /// Where the limit comes from, or what is expected.
    expected: &'static str,
    /// Whether it is as expected; none where it is told and not judged.
    met: Option<bool>,
    /// By how much the probe was held up at most.
    held_up_ms: f64,
    /// More that was found.
    found: Option<String>,
}

impl Row {
    /// An outage shorter than a limit.
    pub(super) fn within(what: &str, outage: Outage, limit_ms: u64, expected: &'static str) -> Self {
        let met = Some(outage.longest_ms < limit_ms);
        Self { limit_ms: Some(limit_ms), met, ..Self::new(what, outage, expected) }
    }

    /// Something that is told and not judged.
    pub(super) fn told(what: &str, outage: Outage, found: String, expected: &'static str) -> Self {
        Self::new(what, outage, expected).telling(found)
    }

    /// Something that is judged by something else than its outage.
    pub(super) fn judged(
        what: &str,
        outage: Outage,
        found: String,
        met: bool,
        expected: &'static str,
    ) -> Self {
        Self { met: Some(met), ..Self::told(what, outage, found, expected) }
    }

    /// The same with more that was found.
    pub(super) fn telling(self, found: String) -> Self {
        Self { found: Some(found), ..self }
    }

    fn new(what: &str, outage: Outage, expected: &'static str) -> Self {
        let Outage { sent, lost, longest_ms: outage_ms, late_ms: held_up_ms } = outage;
        let what = what.to_owned();
        Self { what, sent, lost, outage_ms, limit_ms: None, expected, met: None, held_up_ms, found: None }
    }

    fn is_undisturbed(&self) -> bool {
        self.held_up_ms <= HELD_UP_MS
    }
}

/// The rows of all runs.
#[derive(Default)]
pub(super) struct Report {
    /// By fault, in the order in which they were broken.
    rows: Vec<(&'static str, Row)>,
    realtime: bool,
}

/// The runs of one fault in one direction.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Line<'a> {
    fault: &'static str,
    what: &'a str,
    verdict: &'static str,
    runs: Vec<&'a Row>,
}

impl Report {
    /// Says whether nodes and probes ran under the real-time scheduler.
    pub(super) fn set_realtime(&mut self, realtime: bool) {
        self.realtime = realtime;
    }

    /// Adds what a run of a fault found.
    pub(super) fn add(&mut self, fault: &'static str, row: Row) {
        self.rows.push((fault, row));
    }

    /// Whether every run that the machine did not disturb was as expected.
    pub(super) fn is_met(&self) -> bool {
        self.rows.iter().all(|(_, row)| row.met != Some(false) || !row.is_undisturbed())
    }

    /// All runs.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.lines()).unwrap_or_default()
    }

    fn lines(&self) -> Vec<Line<'_>> {
        let mut lines: Vec<Line<'_>> = Vec::new();
        for (fault, row) in &self.rows {
            match lines.iter_mut().find(|line| line.fault == *fault && line.what == row.what) {
                Some(line) => line.runs.push(row),
                None => lines.push(Line { fault, what: &row.what, verdict: "", runs: vec![row] }),
            }
        }
        for line in &mut lines {
            line.verdict = verdict(&line.runs);
        }
        lines
    }
}

fn verdict(runs: &[&Row]) -> &'static str {
    let missed = |row: &&&Row| row.met == Some(false);
    if runs.iter().all(|row| row.met.is_none()) {
        "–"
    } else if runs.iter().any(|row| missed(&row) && row.is_undisturbed()) {
        "MISSED"
    } else if runs.iter().any(|row| missed(&row)) {
        "met but for *"
    } else {
        "met"
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header([
            "fault",
            "direction",
            "packets lost",
            "outage ms",
            "limit ms",
            "",
            "expected, and found",
        ]);
        let mut last = "";
        for line in self.lines() {
            let all = |number: fn(&Row) -> u64| {
                let mark = |row: &Row| if row.is_undisturbed() { "" } else { "*" };
                line.runs
                    .iter()
                    .map(|row| format!("{}{}", number(row), mark(row)))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let first = line.runs.first();
            let limit =
                first.and_then(|row| row.limit_ms).map_or(String::new(), |limit| format!("< {limit}"));
            let expected = first.map_or("", |row| row.expected);
            let found = line.runs.iter().filter_map(|row| row.found.as_deref());
            let text = std::iter::once(expected).chain(found).collect::<Vec<_>>().join("\n");
            let fault = if line.fault == last { "" } else { line.fault };
            last = line.fault;
            table.add_row([
                fault,
                line.what,
                &all(|row| row.lost),
                &all(|row| row.outage_ms),
                &limit,
                line.verdict,
                &text,
            ]);
        }
        writeln!(f, "{table}")?;
        let scheduler = if self.realtime { "real-time" } else { "ordinary" };
        writeln!(f, "Nodes and probes run under the {scheduler} scheduler.")?;
        write!(
            f,
            "Each number is a run: {} numbered packets a second in {} flows. An outage is the longest time in which one flow lost \
             everything.",
            super::flight::RATE,
            super::flight::FLOWS
        )?;
        if self.lines().iter().any(|line| line.runs.iter().any(|row| !row.is_undisturbed())) {
            write!(
                f,
                "\n* the machine held the probe up for more than {HELD_UP_MS} ms in this run, and perhaps the nodes as well."
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(longest_ms: u64, late_ms: f64) -> Outage {
        Outage { sent: 1000, lost: longest_ms / 4, longest_ms, late_ms }
    }

    #[test]
    fn a_miss_counts_unless_the_machine_held_the_probe_up() {
        let mut report = Report::default();
        report.add("cut-link", Row::within("a", outage(4, 0.0), 10, "by link"));
        report.add("cut-link", Row::within("a", outage(28, 25.0), 10, "by link"));
        assert!(report.is_met());
        let text = report.to_string();
        assert!(text.contains("4, 28*") && text.contains("met but for *") && text.contains("< 10"), "{text}");
        report.add("cut-link", Row::within("a", outage(12, 1.0), 10, "by link"));
        assert!(!report.is_met());
        assert!(report.to_string().contains("MISSED"));
    }

    #[test]
    fn what_is_only_told_is_not_judged() {
        let mut report = Report::default();
        report.add("loss", Row::told("b", outage(400, 0.0), "7 times".into(), "often"));
        assert!(report.is_met() && report.to_string().contains("7 times"));
        report.add("loss", Row::judged("c", outage(400, 0.0), "once".into(), false, "never"));
        assert!(!report.is_met());
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(
            (json[1]["verdict"].as_str(), json[1]["runs"][0]["outage-ms"].as_u64()),
            (Some("MISSED"), Some(400))
        );
    }
}
