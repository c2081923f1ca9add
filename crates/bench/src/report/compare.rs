//! What changed between two reports of one scenario.
//!
//! Cells are matched by section, row and column. A number changed if it did by a least share *and* by more than its trials are apart anyway
//! (see `statistics`); it became better or worse by its column's sense. Only measured numbers are compared. Which conditions differ is said
//! first, since numbers of different machines do not compare.

mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::model::{Report, Section, Severity};
use super::statistics::{follow, noise};
use super::table::{Cell, Column, Sense};
use super::terminal::{started, traffic_facts};
use crate::environment::UNKNOWN;

/// Least change that is told, percent, unless the command line says otherwise.
pub const LEAST_CHANGE: f64 = 2.0;
/// Clocks that differ by less than this share are the same; the kernel measures the same one a little differently after each start.
const SAME_CLOCK: f64 = 1e-3;
/// The fact about the load average, which is never quite the same.
const LOAD: &str = "load average";
/// Load averages that differ by less than this, a busy thread, are the same.
const SAME_LOAD: f64 = 1.0;

/// Two reports cannot be compared.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{a_name} is a report of {a} and {b_name} one of {b}: compare two reports of the same scenario")]
pub struct DifferentScenarios {
    a_name: String,
    a: String,
    b_name: String,
    b: String,
}

/// What changed from report A to report B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The scenario of both.
    pub scenario: String,
    /// The earlier report, or the one that the other is judged by.
    pub a: Side,
    /// The other one.
    pub b: Side,
    /// Least change that is told, percent.
    pub least_change_percent: f64,
    /// What differs between the runs.
    pub differences: Vec<Difference>,
    /// Cells that both have.
    pub changes: Vec<Change>,
    /// Cells that only A measured.
    pub only_in_a: Vec<String>,
    /// Cells that only B measured.
    pub only_in_b: Vec<String>,
}

/// One of two reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// How it was named.
    pub name: String,
    /// When its run began.
    pub started: String,
    /// Whether it measured everything.
    pub complete: bool,
    /// How many things happened that must not.
    pub errors: usize,
}

/// Something besides the results that differs between two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What.
    pub name: String,
    /// In A.
    pub a: String,
    /// In B.
    pub b: String,
    /// Whether it changes results by itself, so that a change says little about the software.
    pub condition: bool,
}

/// One cell in both reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Key of the section.
    pub section: String,
    /// The row's labels.
    pub row: String,
    /// Key of the column.
    pub column: String,
    /// Heading of the column.
    pub heading: String,
    /// Unit of the numbers.
    pub unit: String,
    /// In A.
    pub a: f64,
    /// In B.
    pub b: f64,
    /// From A to B, percent of A; `None` if A is zero and B is not.
    pub change_percent: Option<f64>,
    /// The largest difference that the trials' noise explains, in the unit; `None` where neither report has trials.
    pub noise: Option<f64>,
    /// What that means.
    pub verdict: Verdict,
    /// Marks of the cell in either report.
    pub marks: Vec<String>,
    /// Digits behind the decimal point that are shown.
    #[serde(skip)]
    pub(super) digits: u8,
}

/// What became of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing beyond noise.
    Same,
    /// It changed in its good direction.
    Better,
    /// It changed in its bad direction.
    Worse,
    /// It changed and has no good direction.
    Changed,
}

impl Comparison {
    /// Compares two reports; each comes with the name that it is shown under.
    ///
    /// # Errors
    ///
    /// They are of different scenarios.
    pub fn of(
        a: (&str, &Report),
        b: (&str, &Report),
        least_change_percent: f64,
    ) -> Result<Self, DifferentScenarios> {
        if a.1.scenario != b.1.scenario {
            let ((a_name, a), (b_name, b)) = (a, b);
            return Err(DifferentScenarios {
                a_name: a_name.to_owned(),
                a: a.scenario.clone(),
                b_name: b_name.to_owned(),
                b: b.scenario.clone(),
            });
        }
        let (measured_a, measured_b) = (measured(a.1), measured(b.1));
        let names = |own: &BTreeMap<Place, Measured<'_>>, other: &BTreeMap<Place, Measured<'_>>| {
            own.iter().filter(|(place, _)| !other.contains_key(place)).map(|(_, cell)| cell.name()).collect()
        };
        let mut changes: Vec<(usize, Change)> = Vec::new();
        for (place, cell) in &measured_a {
            if let Some(other) = measured_b.get(place) {
                changes.push((cell.order, change(place, cell, other, least_change_percent)));
            }
        }
        changes.sort_by_key(|(order, _)| *order);
        Ok(Self {
            scenario: a.1.scenario.clone(),
            a: Side::of(a.0, a.1),
            b: Side::of(b.0, b.1),
            least_change_percent,
            differences: differences(a.1, b.1),
            changes: changes.into_iter().map(|(_, change)| change).collect(),
            only_in_a: names(&measured_a, &measured_b),
            only_in_b: names(&measured_b, &measured_a),
        })
    }

    /// Numbers with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.changes.iter().filter(|change| change.verdict == verdict).count()
    }

    /// Whether anything became worse: a number, or something happened in B that must not and did not in A.
    pub fn is_worse(&self) -> bool {
        self.count(Verdict::Worse) > 0 || (self.a.errors == 0 && self.b.errors > 0)
    }

    /// As JSON, with a line end.
    pub fn to_json(&self) -> String {
        let worse = self.is_worse();
        let mut json = serde_json::json!(self);
        json["worse"] = serde_json::json!(worse);
        format!("{json:#}\n")
    }
}

impl Side {
    fn of(name: &str, report: &Report) -> Self {
        Self {
            name: name.to_owned(),
            started: started(report),
            complete: report.complete,
            errors: report.notes.iter().filter(|note| note.severity == Severity::Error).count(),
        }
    }
}

/// Section, row and column; rows of the same labels are counted.
type Place = (String, String, usize, String);

/// A measured cell and where it is from.
struct Measured<'a> {
    section: &'a Section,
    column: &'a Column,
    row: String,
    value: f64,
    samples: &'a [f64],
    marks: &'a [String],
    /// Its turn in the report.
    order: usize,
}

impl Measured<'_> {
    fn name(&self) -> String {
        let parts = [&self.section.heading, &self.row, &self.column.heading];
        parts.into_iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", ")
    }
}

fn measured(report: &Report) -> BTreeMap<Place, Measured<'_>> {
    let mut cells = BTreeMap::new();
    for section in &report.sections {
        let Some(table) = &section.table else { continue };
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for row in &table.rows {
            let key = table.key(row);
            let turn = seen.entry(key.clone()).or_default();
            *turn += 1;
            for column in &table.columns {
                if let Cell::Measured { value, samples, marks } = table.cell(row, column) {
                    let place = (section.key.clone(), key.clone(), *turn, column.key.clone());
                    let (row, order) = (key.clone(), cells.len());
                    cells.insert(
                        place,
                        Measured { section, column, row, value: *value, samples, marks, order },
                    );
                }
            }
        }
    }
    cells
}

fn change(place: &Place, a: &Measured<'_>, b: &Measured<'_>, least_percent: f64) -> Change {
    let (section, row, _, column) = place;
    let difference = b.value - a.value;
    let noise = noise(a.samples, b.samples);
    // In proportion to the larger one, so that the two reports may change places.
    let share = difference.abs() / a.value.abs().max(b.value.abs());
    let changed = difference != 0.0
        && share * 100.0 >= least_percent
        && noise.is_none_or(|noise| difference.abs() > noise)
        && follow(a.samples, b.samples, difference > 0.0);
    let verdict = match (changed, b.column.sense) {
        (false, _) => Verdict::Same,
        // Of single values nobody knows whether they differ by more than noise does: they changed, for better or worse is not told.
        (true, Sense::Neither) => Verdict::Changed,
        (true, _) if noise.is_none() => Verdict::Changed,
        (true, Sense::HigherIsBetter) if difference > 0.0 => Verdict::Better,
        (true, Sense::LowerIsBetter) if difference < 0.0 => Verdict::Better,
        (true, _) => Verdict::Worse,
    };
    let marks: BTreeSet<&String> = a.marks.iter().chain(b.marks).collect();
    Change {
        section: section.clone(),
        row: row.clone(),
        column: column.clone(),
        heading: b.column.heading.clone(),
        unit: b.column.unit.clone(),
        a: a.value,
        b: b.value,
        change_percent: match a.value {
            0.0 if difference == 0.0 => Some(0.0),
            0.0 => None,
            value => Some(difference / value.abs() * 100.0),
        },
        noise,
        verdict,
        marks: marks.into_iter().cloned().collect(),
        digits: b.column.digits,
    }
}

/// What differs besides the results: conditions first.
fn differences(a: &Report, b: &Report) -> Vec<Difference> {
    let facts = |report: &Report| {
        let traffic = traffic_facts(&report.traffic).into_iter().map(|(name, value)| (name, value, true));
        let environment = report.environment.facts().into_iter();
        let environment = environment.map(|fact| (fact.name, fact.value, fact.condition));
        let facts = environment.chain(traffic);
        facts.collect::<Vec<_>>()
    };
    let (facts_a, facts_b) = (facts(a), facts(b));
    let names: Vec<(&str, bool)> =
        facts_a.iter().chain(&facts_b).map(|(name, _, condition)| (*name, *condition)).collect();
    let value = |facts: &[(&str, String, bool)], name: &str| {
        let fact = facts.iter().find(|(other, ..)| *other == name);
        fact.map_or_else(|| UNKNOWN.to_owned(), |(_, value, _)| value.clone())
    };
    let mut differences: Vec<Difference> = Vec::new();
    for (name, condition) in names {
        let (value_a, value_b) = (value(&facts_a, name), value(&facts_b, name));
        let known = differences.iter().any(|difference| difference.name == name);
        let same = match name {
            "clock (TSC)" => same_clock(a, b),
            LOAD => same_load(a, b),
            _ => false,
        };
        if value_a == value_b || known || same {
            continue;
        }
        let condition = condition || name == LOAD;
        differences.push(Difference { name: name.to_owned(), a: value_a, b: value_b, condition });
    }
    differences.sort_by_key(|difference| !difference.condition);
    differences
}

fn same_clock(a: &Report, b: &Report) -> bool {
    let clocks = a.environment.cycles_per_second.zip(b.environment.cycles_per_second);
    clocks.is_some_and(|(a, b)| a.abs_diff(b) as f64 <= SAME_CLOCK * a.max(b) as f64)
}

fn same_load(a: &Report, b: &Report) -> bool {
    let same = |a: Option<f64>, b: Option<f64>| a.zip(b).is_none_or(|(a, b)| (a - b).abs() < SAME_LOAD);
    let (a, b) = (&a.environment, &b.environment);
    same(a.load_before, b.load_before) && same(a.load_after, b.load_after)
}
