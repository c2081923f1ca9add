//! What people see of a table, the same on terminals and pages: texts of cells, footnotes, how far trials are apart.

use super::format::{number, sign};
use super::statistics::median;
use super::table::{Cell, Column, ColumnKind, Row, Table};

/// What is shown where there is no number.
const NOTHING: &str = "–";

/// A table as texts.
pub(super) struct View<'a> {
    pub(super) columns: &'a [Column],
    /// Cells of each row, one for each column.
    pub(super) rows: Vec<Vec<Shown>>,
    /// Signs and what they mean, in the order of appearance.
    pub(super) footnotes: Vec<(String, String)>,
    /// How far the trials are apart, a sentence; none where no cell has several.
    pub(super) spread: Option<String>,
}

/// A cell as text.
pub(super) struct Shown {
    pub(super) text: String,
    /// Signs of footnotes behind it.
    pub(super) signs: String,
    /// The lowest and the highest trial, where they look different.
    pub(super) range: Option<String>,
    /// What the cell itself says that it is.
    pub(super) kind: ColumnKind,
}

impl<'a> View<'a> {
    pub(super) fn of(table: &'a Table) -> Self {
        let mut footnotes = Footnotes::default();
        let show = |row: &Row, footnotes: &mut Footnotes| {
            let cell = |column: &Column| Shown::of(table.cell(row, column), column, footnotes);
            table.columns.iter().map(cell).collect()
        };
        let rows = table.rows.iter().map(|row| show(row, &mut footnotes)).collect();
        let footnotes = footnotes.0.into_iter().enumerate().map(|(at, text)| (sign(at), text)).collect();
        Self { columns: &table.columns, rows, footnotes, spread: spread(table) }
    }
}

impl Shown {
    fn of(cell: &Cell, column: &Column, footnotes: &mut Footnotes) -> Self {
        let plain = |text: String, kind| Self { text, signs: String::new(), range: None, kind };
        let number = |value: f64| number(value, column.digits);
        match cell {
            Cell::Label { text } => plain(text.clone(), ColumnKind::Label),
            Cell::Measured { value, samples, marks } => Self {
                signs: marks.iter().map(|mark| footnotes.sign(mark)).collect(),
                range: range(samples)
                    .map(|(low, high)| (number(low), number(high)))
                    .filter(|(low, high)| low != high)
                    .map(|(low, high)| format!("{low} to {high}")),
                ..plain(number(*value), ColumnKind::Measured)
            },
            Cell::NotMeasured { reason } => {
                let signs = reason.as_ref().map(|reason| footnotes.sign(&format!("not measured: {reason}")));
                Self { signs: signs.unwrap_or_default(), ..plain(NOTHING.into(), column.kind) }
            }
            Cell::Calculated { value } => plain(number(*value), ColumnKind::Calculated),
            Cell::Document { value } => plain(number(*value), ColumnKind::Document),
            Cell::Unknown => Self {
                signs: footnotes.sign("of a kind that this version of sluice does not know"),
                ..plain(NOTHING.into(), column.kind)
            },
        }
    }
}

/// Texts that cells refer to, each once.
#[derive(Default)]
struct Footnotes(Vec<String>);

impl Footnotes {
    fn sign(&mut self, text: &str) -> String {
        let at = self.0.iter().position(|known| known == text).unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        sign(at)
    }
}

/// The lowest and the highest of several trials.
fn range(samples: &[f64]) -> Option<(f64, f64)> {
    let extreme = |choose: fn(f64, f64) -> f64| samples.iter().copied().reduce(choose);
    if samples.len() < 2 { None } else { extreme(f64::min).zip(extreme(f64::max)) }
}

/// How far the trials of a number are apart, in proportion to it: typically, and at most.
fn spread(table: &Table) -> Option<String> {
    let mut spreads = Vec::new();
    for row in &table.rows {
        for column in &table.columns {
            if let Cell::Measured { value, samples, .. } = table.cell(row, column)
                && let Some((low, high)) = range(samples)
                && *value != 0.0
            {
                spreads.push(((high - low) / value.abs() * 100.0, table.key(row), column));
            }
        }
    }
    let typical = median(spreads.iter().map(|(spread, ..)| *spread))?;
    let (most, row, column) = spreads.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    if most == 0.0 {
        return Some(
            "Measured numbers are medians, where nothing else is said, and the trials of each number agree."
                .into(),
        );
    }
    Some(format!(
        "Measured numbers are medians, where nothing else is said. The lowest and the highest trial of a number are typically {} % of it apart, at most {} % ({}{}).",
        number(typical, 1),
        number(most, 1),
        column.heading,
        if row.is_empty() { row } else { format!(", {row}") },
    ))
}

/// What stands above a column to say where its numbers are from.
pub(super) const fn origin(kind: ColumnKind) -> Option<&'static str> {
    match kind {
        ColumnKind::Label | ColumnKind::Measured => None,
        ColumnKind::Calculated => Some("calculated"),
        ColumnKind::Document => Some("document"),
    }
}
