//! Tables of a report: columns that say what they hold, rows of cells that say what they are.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use sluice_trial::message;

use super::statistics::median;

/// Columns, and rows with a cell for some or all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Columns in the order in which they are shown.
    pub columns: Vec<Column>,
    /// Rows in the order in which they are shown.
    #[serde(default)]
    pub rows: Vec<Row>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Further columns, for example [`Latency::columns`].
    #[must_use]
    pub fn columns(mut self, columns: impl IntoIterator<Item = Column>) -> Self {
        self.columns.extend(columns);
        self
    }

    /// Adds a row. A cell of a column that the table does not have is a mistake in the scenario, and so are two rows with the same labels:
    /// a build with debug assertions panics.
    pub fn push(&mut self, mut row: Row) {
        row.last = None;
        debug_assert!(
            row.cells.keys().all(|key| self.columns.iter().any(|column| column.key == *key)),
            "no such column: {row:?}"
        );
        debug_assert!(
            self.rows.iter().all(|other| self.key(other) != self.key(&row)),
            "two rows with the labels {}",
            self.key(&row)
        );
        self.rows.push(row);
    }

    /// What tells a row from the others: the text of its labels.
    pub fn key(&self, row: &Row) -> String {
        let labels = self.columns.iter().filter_map(|column| match row.cells.get(&column.key)? {
            Cell::Label { text } => Some(text.as_str()),
            _ => None,
        });
        labels.collect::<Vec<_>>().join(" ")
    }

    /// The cell of a row; one that is absent was not measured.
    pub fn cell<'a>(&self, row: &'a Row, column: &Column) -> &'a Cell {
        static ABSENT: Cell = Cell::NotMeasured { reason: None };
        row.cells.get(&column.key).unwrap_or(&ABSENT)
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Name for programs, unique in the table and stable between versions: two reports are compared by it.
    pub key: String,
    /// What people read above it.
    pub heading: String,
    /// Unit of its numbers, for example `Mpps`; empty without one.
    #[serde(default)]
    pub unit: String,
    /// Digits behind the decimal point that are shown.
    #[serde(default)]
    pub digits: u8,
    /// Which way is better.
    #[serde(default)]
    pub sense: Sense,
    /// What its cells are.
    #[serde(default)]
    pub kind: ColumnKind,
}

impl Column {
    /// Words or numbers that tell rows apart, such as a frame size.
    pub fn label(key: &str, heading: &str) -> Self {
        Self::new(key, heading, "", ColumnKind::Label)
    }

    /// Numbers that this run measured.
    pub fn measured(key: &str, heading: &str, unit: &str) -> Self {
        Self::new(key, heading, unit, ColumnKind::Measured)
    }

    /// Numbers that follow from the conditions by arithmetic, such as a line rate.
    pub fn calculated(key: &str, heading: &str, unit: &str) -> Self {
        Self::new(key, heading, unit, ColumnKind::Calculated)
    }

    /// Numbers that the reproduced document publishes.
    pub fn document(key: &str, heading: &str, unit: &str) -> Self {
        Self::new(key, heading, unit, ColumnKind::Document)
    }

    fn new(key: &str, heading: &str, unit: &str, kind: ColumnKind) -> Self {
        Self {
            key: key.to_owned(),
            heading: heading.to_owned(),
            unit: unit.to_owned(),
            digits: 0,
            sense: Sense::Neither,
            kind,
        }
    }

    /// The unit of its numbers.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        unit.clone_into(&mut self.unit);
        self
    }

    /// Digits behind the decimal point; none unless said.
    #[must_use]
    pub fn digits(mut self, digits: u8) -> Self {
        self.digits = digits;
        self
    }

    /// More is better, as with a rate.
    #[must_use]
    pub fn higher_is_better(mut self) -> Self {
        self.sense = Sense::HigherIsBetter;
        self
    }

    /// Less is better, as with a latency.
    #[must_use]
    pub fn lower_is_better(mut self) -> Self {
        self.sense = Sense::LowerIsBetter;
        self
    }
}

/// Which way a column's numbers are better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sense {
    /// As with a rate.
    HigherIsBetter,
    /// As with a latency.
    LowerIsBetter,
    /// A fact about the run, neither good nor bad.
    #[default]
    Neither,
}

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnKind {
    /// What tells rows apart.
    Label,
    /// Measured in this run.
    #[default]
    Measured,
    /// Followed from the conditions by arithmetic.
    Calculated,
    /// Published in the reproduced document.
    Document,
}

/// A row: cells by the keys of their columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The cells.
    pub cells: BTreeMap<String, Cell>,
    /// The cell that [`Row::mark`] is about.
    #[serde(skip)]
    last: Option<String>,
}

impl Row {
    /// A row without cells.
    pub fn new() -> Self {
        Self::default()
    }

    /// A label.
    #[must_use]
    pub fn label(self, column: &str, text: impl Display) -> Self {
        self.cell(column, Cell::Label { text: text.to_string() })
    }

    /// What the trials measured, in the column's unit: the median is shown, all are kept. Of no trial, or of one that is no number, the cell
    /// says that nothing was measured.
    #[must_use]
    pub fn measured(self, column: &str, samples: impl IntoIterator<Item = f64>) -> Self {
        self.cell(column, Cell::of_samples(samples.into_iter().collect()))
    }

    /// As [`Row::measured`]; of no trial the cell says `reason`.
    #[must_use]
    pub fn known(self, column: &str, samples: impl IntoIterator<Item = f64>, reason: &str) -> Self {
        let mut samples = samples.into_iter().peekable();
        match samples.peek() {
            None => self.not_measured(column, reason),
            Some(_) => self.measured(column, samples),
        }
    }

    /// As [`Row::measured`], but the average is shown, where a method asks for it.
    #[must_use]
    pub fn average(self, column: &str, samples: impl IntoIterator<Item = f64>) -> Self {
        let samples: Vec<f64> = samples.into_iter().collect();
        let average = samples.iter().sum::<f64>() / samples.len() as f64;
        let cell = match Cell::of_samples(samples) {
            Cell::Measured { samples, marks, .. } => Cell::Measured { value: average, samples, marks },
            nothing => nothing,
        };
        self.cell(column, cell)
    }

    /// As [`Row::measured`] of searches, marked where only some of `searches` found a number.
    #[must_use]
    pub fn found(self, column: &str, found: Vec<f64>, searches: usize) -> Self {
        let some = found.len() < searches;
        self.measured(column, found).mark_if(some, super::marks::SOME_SEARCHES)
    }

    /// One number that this run measured or counted, without trials behind it.
    #[must_use]
    pub fn value(self, column: &str, value: f64) -> Self {
        self.cell(column, Cell::of_value(value, Vec::new()))
    }

    /// One number if it was measured; else why not.
    #[must_use]
    pub fn value_or(self, column: &str, value: Option<f64>, reason: &str) -> Self {
        match value {
            Some(value) => self.value(column, value),
            None => self.not_measured(column, reason),
        }
    }

    /// Why this run has no number here.
    #[must_use]
    pub fn not_measured(self, column: &str, reason: impl Into<String>) -> Self {
        self.cell(column, Cell::NotMeasured { reason: Some(reason.into()) })
    }

    /// A number that follows by arithmetic.
    #[must_use]
    pub fn calculated(self, column: &str, value: f64) -> Self {
        self.cell(column, Cell::Calculated { value })
    }

    /// A number of the reproduced document.
    #[must_use]
    pub fn document(self, column: &str, value: f64) -> Self {
        self.cell(column, Cell::Document { value })
    }

    /// The latencies of some trials in the columns of [`Latency::columns`] with the same prefix.
    #[must_use]
    pub fn latency(mut self, prefix: &str, trials: &[Latency]) -> Self {
        for (at, (name, _)) in Latency::PERCENTILES.iter().enumerate() {
            self = self.measured(&format!("{prefix}-{name}"), trials.iter().map(|trial| trial.values()[at]));
        }
        self
    }

    /// Marks the measured cell that was given last, for example with one of [`super::marks`].
    #[must_use]
    pub fn mark(mut self, mark: &str) -> Self {
        let cell = self.last.as_ref().and_then(|key| self.cells.get_mut(key));
        if let Some(Cell::Measured { marks, .. }) = cell {
            marks.push(mark.to_owned());
        }
        self
    }

    /// Marks it where `condition` holds.
    #[must_use]
    pub fn mark_if(self, condition: bool, mark: &str) -> Self {
        if condition { self.mark(mark) } else { self }
    }

    fn cell(mut self, column: &str, cell: Cell) -> Self {
        self.cells.insert(column.to_owned(), cell);
        self.last = Some(column.to_owned());
        self
    }
}

/// A cell of a table. What kind of number it is can be read from the cell alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cell {
    /// Tells the row from others.
    Label {
        /// The label.
        text: String,
    },
    /// Measured in this run.
    Measured {
        /// The median of the samples (of some columns their average), or the one number that there is, in the column's unit.
        value: f64,
        /// What each trial measured; empty where there is only the one number.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        samples: Vec<f64>,
        /// What has to be known about the number.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        marks: Vec<String>,
    },
    /// There is no number.
    NotMeasured {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Not measured: it follows from the conditions by arithmetic.
    Calculated {
        /// The number, in the column's unit.
        value: f64,
    },
    /// Not measured: the reproduced document publishes it.
    Document {
        /// The number, in the column's unit.
        value: f64,
    },
    /// Of a later version of this program.
    #[serde(other)]
    Unknown,
}

impl Cell {
    /// The number that this run measured; none of any other kind.
    pub const fn measured(&self) -> Option<f64> {
        match self {
            Self::Measured { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// The median of some samples. JSON has no infinite number, and a mean over none is no measurement.
    fn of_samples(samples: Vec<f64>) -> Self {
        match median(samples.iter().copied()) {
            Some(value) if samples.iter().all(|sample| sample.is_finite()) => Self::of_value(value, samples),
            None => Self::NotMeasured { reason: Some("no trial".into()) },
            Some(_) => Self::NotMeasured { reason: Some("a trial gave no number".into()) },
        }
    }

    fn of_value(value: f64, samples: Vec<f64>) -> Self {
        if value.is_finite() {
            Self::Measured { value, samples, marks: Vec::new() }
        } else {
            Self::NotMeasured { reason: Some("the result is no number".into()) }
        }
    }
}

/// Latencies of one trial, µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The shortest.
    pub min: f64,
    /// Half were no longer.
    pub p50: f64,
    /// 90 % were no longer.
    pub p90: f64,
    /// 99 % were no longer.
    pub p99: f64,
    /// 99.9 % were no longer.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl From<message::Latency> for Latency {
    /// From nanoseconds.
    fn from(measured: message::Latency) -> Self {
        let micros = |nanoseconds: f64| nanoseconds / 1e3;
        Self {
            min: micros(measured.minimum),
            p50: micros(measured.median),
            p90: micros(measured.p90),
            p99: micros(measured.p99),
            p999: micros(measured.p99_9),
            max: micros(measured.maximum),
        }
    }
}

impl Latency {
    /// Names of the percentiles for programs and for people, in the order of [`Latency::values`].
    pub const PERCENTILES: [(&'static str, &'static str); 6] = [
        ("min", "min"),
        ("p50", "50 %"),
        ("p90", "90 %"),
        ("p99", "99 %"),
        ("p999", "99.9 %"),
        ("max", "max"),
    ];

    /// The median of each percentile over some trials; none of no trial.
    pub fn median(trials: &[Self]) -> Option<Self> {
        let of = |percentile: fn(&Self) -> f64| median(trials.iter().map(percentile));
        Some(Self {
            min: of(|trial| trial.min)?,
            p50: of(|trial| trial.p50)?,
            p90: of(|trial| trial.p90)?,
            p99: of(|trial| trial.p99)?,
            p999: of(|trial| trial.p999)?,
            max: of(|trial| trial.max)?,
        })
    }

    /// The percentiles from the shortest to the longest, µs.
    pub const fn values(&self) -> [f64; 6] {
        [self.min, self.p50, self.p90, self.p99, self.p999, self.max]
    }

    /// Columns for [`Row::latency`], whose keys begin with `prefix`.
    pub fn columns(prefix: &str) -> Vec<Column> {
        let column = |(name, heading): &(&str, &str)| {
            Column::measured(&format!("{prefix}-{name}"), heading, "µs").digits(1).lower_is_better()
        };
        Self::PERCENTILES.iter().map(column).collect()
    }
}
