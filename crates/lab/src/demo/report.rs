//! The final table: one row for each check.

use std::fmt;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use crate::error::Result;

/// Characters in a line of the column that says what was found.
const WIDTH: usize = 90;
/// Lines of that column in one row.
const LINES: usize = 6;

/// The rows so far.
#[derive(Default)]
pub(super) struct Report {
    rows: Vec<Row>,
    notes: Vec<&'static str>,
}

struct Row {
    /// None: not judged, for a reason that the row says.
    passed: Option<bool>,
    what: String,
    found: String,
}

impl Report {
    /// A check: what was measured when it passed, why not when it failed.
    pub(super) fn add(&mut self, what: impl Into<String>, result: Result<String>) {
        let passed = Some(result.is_ok());
        let found = result.unwrap_or_else(|error| error.to_string());
        self.rows.push(Row { passed, what: what.into(), found });
    }

    /// A check that this machine cannot make.
    pub(super) fn cannot(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.rows.push(Row { passed: None, what: what.into(), found: why.into() });
    }

    /// What a reader of the table has to know, below it; the same is said once.
    pub(super) fn note(&mut self, text: &'static str) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Whether there were checks and none failed.
    pub(super) fn all_passed(&self) -> bool {
        self.rows.iter().any(|row| row.passed == Some(true))
            && self.rows.iter().all(|row| row.passed != Some(false))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(["", "check", "found"]);
        for row in &self.rows {
            let mark = match row.passed {
                Some(true) => "✓",
                Some(false) => "✗",
                None => "–",
            };
            table.add_row([mark, &row.what, &wrap(&row.found)]);
        }
        if let Some(column) = table.column_mut(0) {
            column.set_cell_alignment(CellAlignment::Center);
        }
        let count = |passed| self.rows.iter().filter(|row| row.passed == passed).count();
        let (passed, failed, open) = (count(Some(true)), count(Some(false)), count(None));
        writeln!(f, "{table}")?;
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        write!(f, "{passed} passed, {failed} failed, {open} could not be judged here")
    }
}

/// Breaks a long explanation at spaces into lines of about [`WIDTH`] characters, at most [`LINES`] of them.
fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        if let Some(line) = lines.last_mut().filter(|line| line.is_empty() || line.len() + word.len() < WIDTH)
        {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        } else {
            lines.push(word.into());
        }
    }
    if lines.len() > LINES {
        lines.truncate(LINES);
        lines.push("…".into());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LabError;

    #[test]
    fn one_failure_fails_all_and_nothing_checked_is_no_pass() {
        let mut report = Report::default();
        assert!(!report.all_passed());
        report.cannot("capture", "tshark is not installed");
        assert!(!report.all_passed());
        report.add("echo", Ok("0.1 ms".into()));
        assert!(report.all_passed());
        report.note("about rates");
        report.note("about rates");
        report.add("trace", Err(LabError::Step("no answer".into())));
        assert!(!report.all_passed());
        let text = report.to_string();
        assert_eq!(text.matches("about rates\n").count(), 1, "{text}");
        assert!(
            text.contains("✓") && text.contains("✗") && text.contains("1 passed, 1 failed, 1 could not"),
            "{text}"
        );
    }
}
