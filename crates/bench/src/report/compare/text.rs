//! A comparison on a terminal.

use comfy_table::{Cell as GridCell, CellAlignment, Color};

use super::{Change, Comparison, Verdict};
use crate::report::format::number;
use crate::report::terminal::{Screen, Style, Text, empty_grid, header, printable};

/// Names of cells that are listed before the rest is only counted.
const NAMES: usize = 8;

impl Comparison {
    /// The comparison as text with a line end: what differs in the conditions, what changed, and what that comes to.
    pub fn render(&self, screen: Screen) -> String {
        let mut text = Text::new(screen);
        text.line(Some(Style::Bold), &printable(&format!("{}: what changed from A to B", self.scenario)));
        for (name, side) in [("A", &self.a), ("B", &self.b)] {
            let incomplete = if side.complete { "" } else { ", incomplete" };
            text.paragraph(&format!("{name} = {}, {}{incomplete}", side.name, side.started));
        }
        self.render_differences(&mut text);
        self.render_changes(&mut text);
        for (name, cells) in [("A", &self.only_in_a), ("B", &self.only_in_b)] {
            if !cells.is_empty() {
                let rest = cells.len().saturating_sub(NAMES);
                let more = if rest == 0 { String::new() } else { format!("; and {rest} more") };
                let named = cells[..cells.len().min(NAMES)].join("; ");
                text.paragraph(&format!("Only measured in {name}: {named}{more}."));
            }
        }
        for (name, side, other) in [("A", &self.a, &self.b), ("B", &self.b, &self.a)] {
            if side.errors > 0 {
                let style = (other.errors == 0).then_some(Style::Red);
                text.styled_paragraph(
                    style,
                    &format!("In {name} happened what must not: {} errors in its report.", side.errors),
                );
            }
        }
        let unknown = |change: &&Change| change.verdict == Verdict::Changed && change.noise.is_none();
        let single = self.changes.iter().filter(unknown).count();
        if single > 0 {
            text.paragraph(&format!(
                "{single} of the numbers that changed are of one measurement in both reports: how much noise is in them is unknown, so they are called neither worse nor better. More trials, or searches, of each case (--repeat) tell."
            ));
        }
        text.styled_paragraph(Some(Style::Bold), &self.verdict());
        text.into_string()
    }

    fn render_differences(&self, text: &mut Text) {
        if self.differences.is_empty() {
            text.paragraph("Both ran under the same conditions, as far as these are known.");
            return;
        }
        let mut grid = empty_grid(text.screen());
        grid.set_header(["differs", "A", "B"].map(header));
        let room = u16::try_from(text.screen().width).unwrap_or(u16::MAX);
        grid.set_content_arrangement(comfy_table::ContentArrangement::Dynamic).set_width(room);
        for difference in &self.differences {
            let row =
                [&difference.name, &difference.a, &difference.b].map(|part| GridCell::new(printable(part)));
            grid.add_row(row);
        }
        text.block(&grid.to_string());
        if self.differences.iter().any(|difference| difference.condition) {
            text.styled_paragraph(
                Some(Style::Yellow),
                "The conditions differ: what changed may be due to them rather than to the software.",
            );
        }
    }

    fn render_changes(&self, text: &mut Text) {
        let changes: Vec<&Change> =
            self.changes.iter().filter(|change| change.verdict != Verdict::Same).collect();
        if changes.is_empty() {
            return;
        }
        let mut grid = empty_grid(text.screen());
        // Where all are of one section, its name says nothing.
        let sections = usize::from(changes.iter().all(|change| change.section == changes[0].section));
        let headings = ["section", "row", "number", "A", "B", "change", "noise", ""];
        grid.set_header(headings.into_iter().skip(sections).map(header));
        for change in &changes {
            grid.add_row(cells(change).into_iter().skip(sections));
        }
        text.block(&grid.to_string());
        let mut marks: Vec<&String> = changes.iter().flat_map(|change| &change.marks).collect();
        marks.sort();
        marks.dedup();
        for mark in marks {
            text.paragraph(&format!("* among the reports' marks: {mark}"));
        }
    }

    fn verdict(&self) -> String {
        let (worse, better, changed) =
            (self.count(Verdict::Worse), self.count(Verdict::Better), self.count(Verdict::Changed));
        let compared = self.changes.len();
        let least = number(self.least_change_percent, 1);
        if compared == 0 {
            return "The reports have no measured number in common.".into();
        }
        if worse + better + changed == 0 {
            return format!("Nothing changed by {least} % and beyond noise, of {compared} numbers.");
        }
        let neither = if changed == 0 { String::new() } else { format!(", {changed} otherwise changed") };
        format!(
            "{worse} worse, {better} better{neither}, of {compared} numbers; changed means by {least} % and beyond noise."
        )
    }
}

fn cells(change: &Change) -> Vec<GridCell> {
    let show = |value| number(value, change.digits);
    let (verdict, colour) = match change.verdict {
        Verdict::Worse => ("worse", Some(Color::Red)),
        Verdict::Better => ("better", Some(Color::Green)),
        Verdict::Changed => ("changed", None),
        Verdict::Same => ("same", None),
    };
    let percent = change.change_percent.map_or_else(|| "from zero".into(), signed_percent);
    let noise = change.noise.map_or_else(|| "unknown".into(), |noise| format!("±{}", show(noise)));
    let unit = if change.unit.is_empty() { String::new() } else { format!(" {}", change.unit) };
    let mark = if change.marks.is_empty() { "" } else { " *" };
    let words = [change.section.clone(), change.row.clone(), format!("{}{unit}{mark}", change.heading)];
    let numbers = [show(change.a), show(change.b), percent, noise];
    let right = |text: String| GridCell::new(text).set_alignment(CellAlignment::Right);
    let verdict = GridCell::new(verdict);
    let verdict = match colour {
        Some(colour) => verdict.fg(colour),
        None => verdict,
    };
    let words = words.into_iter().map(|text| GridCell::new(printable(&text)));
    words.chain(numbers.into_iter().map(right)).chain([verdict]).collect()
}

fn signed_percent(percent: f64) -> String {
    let sign = if percent > 0.0 { "+" } else { "" };
    format!("{sign}{} %", number(percent, 1))
}
