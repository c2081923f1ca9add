//! The report value: what was run, where, with what traffic, and what came out.
//!
//! Fields that a later version adds have defaults here, and unknown ones are ignored, so that reports of different versions can be read;
//! [`FORMAT`] changes only where that does not do.

use std::time::Instant;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::statistics::median;
use super::table::{Latency, Table};
use crate::environment::Environment;

/// Name and version of the format, the first field of every report.
pub const FORMAT: &str = "sluice-bench-report/1";

/// What a report says of itself until it is finished.
const NOT_FINISHED: &str = "the run had not ended when this was written";

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// Name of the scenario on the command line.
    pub scenario: String,
    /// What it measures, a heading.
    pub title: String,
    /// The published measurement that it reproduces.
    #[serde(default)]
    pub reproduces: Option<Source>,
    /// The result in one sentence.
    #[serde(default)]
    pub result: Option<String>,
    /// When the run began.
    pub started: Timestamp,
    /// How long it took, seconds.
    #[serde(default)]
    pub duration_s: f64,
    /// Whether it measured all that it was asked to.
    pub complete: bool,
    /// Why it did not.
    #[serde(default)]
    pub incomplete_because: Option<String>,
    /// The machine and the programs.
    #[serde(default)]
    pub environment: Environment,
    /// What was sent.
    #[serde(default)]
    pub traffic: Traffic,
    /// What the generator can do by itself.
    #[serde(default)]
    pub generator: Generator,
    /// The results.
    #[serde(default)]
    pub sections: Vec<Section>,
    /// What has to be said about them.
    #[serde(default)]
    pub notes: Vec<Note>,
    /// Documents of the nodes that were measured.
    #[serde(default)]
    pub documents: Vec<Document>,
    #[serde(skip)]
    began: Option<Instant>,
}

impl Report {
    /// A report of a run that begins now. It is incomplete until [`Report::finish`].
    pub fn start(scenario: &str, title: &str) -> Self {
        Self {
            format: FORMAT.to_owned(),
            scenario: scenario.to_owned(),
            title: title.to_owned(),
            reproduces: None,
            result: None,
            started: Timestamp::now(),
            duration_s: 0.0,
            complete: false,
            incomplete_because: Some(NOT_FINISHED.to_owned()),
            environment: Environment::default(),
            traffic: Traffic::default(),
            generator: Generator::default(),
            sections: Vec::new(),
            notes: Vec::new(),
            documents: Vec::new(),
            began: Some(Instant::now()),
        }
    }

    /// The document whose measurement this reproduces, and which table or test of it.
    #[must_use]
    pub fn reproduces(mut self, document: &str, part: &str) -> Self {
        self.reproduces = Some(Source { document: document.to_owned(), part: part.to_owned() });
        self
    }

    /// The machine and the programs; see [`Environment::gather`].
    #[must_use]
    pub fn in_environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// What is sent.
    #[must_use]
    pub fn with_traffic(mut self, traffic: Traffic) -> Self {
        self.traffic = traffic;
        self
    }

    /// The document of a node that is measured.
    #[must_use]
    pub fn with_document(mut self, name: &str, text: &str) -> Self {
        self.documents.push(Document { name: name.to_owned(), text: text.to_owned() });
        self
    }

    /// Adds a part of the results.
    pub fn section(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// The result in one sentence.
    pub fn result(&mut self, sentence: impl Into<String>) {
        self.result = Some(sentence.into());
    }

    /// Something worth knowing.
    pub fn note(&mut self, text: impl Into<String>) {
        self.tell(Severity::Note, text.into());
    }

    /// Something that makes results doubtful.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.tell(Severity::Warning, text.into());
    }

    /// Something that must not happen.
    pub fn complain(&mut self, text: impl Into<String>) {
        self.tell(Severity::Error, text.into());
    }

    /// A complaint for each kind of frame that came back as it must not, of what `case` names; none where all were right.
    pub fn check_frames(&mut self, case: &str, faults: &FrameFaults) {
        let FrameFaults { compared, wrong, duplicates, reordered, foreign } = *faults;
        let counts =
            [("wrong", wrong), ("duplicated", duplicates), ("reordered", reordered), ("foreign", foreign)];
        for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.complain(format!("{case}: {count} frames were {what} ({compared} compared)"));
        }
    }

    fn tell(&mut self, severity: Severity, text: String) {
        self.notes.push(Note { severity, text });
    }

    /// Whether something happened that must not; the exit code of the command is then 1.
    pub fn has_errors(&self) -> bool {
        self.notes.iter().any(|note| note.severity == Severity::Error)
    }

    /// The run measured all that it was asked to.
    pub fn finish(&mut self) {
        self.end();
        self.complete = true;
        self.incomplete_because = None;
    }

    /// The run ends early, for example because the user interrupted it. What was measured stays.
    pub fn interrupt(&mut self, reason: impl Into<String>) {
        self.end();
        self.complete = false;
        self.incomplete_because = Some(reason.into());
    }

    fn end(&mut self) {
        if let Some(began) = self.began.take() {
            self.duration_s = began.elapsed().as_secs_f64();
            self.environment.end();
        }
    }

    /// The report as JSON, in a stable order, with a line end.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }
}

/// A published measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Title of the document.
    pub document: String,
    /// Its table or test.
    pub part: String,
}

/// A document of a node, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Which node.
    pub name: String,
    /// The document.
    pub text: String,
}

/// What was sent. What is absent does not apply or was not said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Bytes of the frames with their frame check sequence.
    pub frame_bytes: Vec<u32>,
    /// The sizes of a mix and their proportions (RFC 6985).
    pub imix: Vec<ImixPart>,
    /// Flows in each direction.
    pub flows: Option<u64>,
    /// Length of each trial, seconds.
    pub trial_s: Option<f64>,
    /// Trials of each case.
    pub trials: Option<u32>,
    /// Searches of each case.
    pub searches: Option<u32>,
    /// Share of the frames that may be lost at the throughput, 0 to 1.
    pub loss_tolerance: Option<f64>,
    /// Anything else, in words.
    pub description: Option<String>,
}

/// One size of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImixPart {
    /// Bytes of the frame with its frame check sequence.
    pub frame_bytes: u32,
    /// How many frames of this size are in one round of the mix.
    pub weight: u32,
}

/// What the generator and the links do without what is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Generator {
    /// The highest rate in a loop, millions of frames a second, by what it was measured with (such as `64 B`).
    pub ceiling_mpps: Vec<(String, f64)>,
    /// Latency of the generator and the links in a loop. It is part of every latency of this report.
    pub own_latency: Option<Latency>,
}

/// A part of the results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Name for programs, unique in the report and stable between versions: two reports are compared by it.
    pub key: String,
    /// The heading.
    pub heading: String,
    /// How to read it.
    #[serde(default)]
    pub text: String,
    /// The numbers.
    #[serde(default)]
    pub table: Option<Table>,
    /// The numbers as pictures; on pages only.
    #[serde(default)]
    pub charts: Vec<Chart>,
}

impl Section {
    /// An empty section.
    pub fn new(key: &str, heading: &str) -> Self {
        Self { key: key.to_owned(), heading: heading.to_owned(), ..Self::default() }
    }

    /// How to read it.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// The numbers.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        self.table = Some(table);
        self
    }

    /// A picture of them.
    #[must_use]
    pub fn chart(mut self, chart: Chart) -> Self {
        self.charts.push(chart);
        self
    }
}

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// How it is drawn.
    pub kind: ChartKind,
    /// What it shows.
    pub title: String,
    /// What one sees in it.
    #[serde(default)]
    pub caption: String,
    /// The axis of the points' `x`. Of bars: the one along which their categories stand.
    pub x: Axis,
    /// The axis of the points' `y`. Of bars: their length.
    pub y: Axis,
    /// Names of `x` = 0, 1, 2 and so on; empty where `x` is a number.
    #[serde(default)]
    pub categories: Vec<String>,
    /// What is drawn, in the order of the legend.
    #[serde(default)]
    pub series: Vec<Series>,
}

impl Chart {
    /// A chart of lines over numbers.
    pub fn lines(title: &str, x: Axis, y: Axis) -> Self {
        Self {
            kind: ChartKind::Lines,
            title: title.to_owned(),
            caption: String::new(),
            x,
            y,
            categories: Vec::new(),
            series: Vec::new(),
        }
    }

    /// A chart of bars, side by side in each category.
    pub fn bars(title: &str, categories: impl IntoIterator<Item = impl ToString>, y: Axis) -> Self {
        let chart = Self::lines(title, Axis::new("", ""), y).over(categories);
        Self { kind: ChartKind::Bars, ..chart }
    }

    /// Throughput by frame size, a line a device; add the line rate as [`Series::calculated`].
    pub fn throughput_by_size(title: &str, unit: &str, sizes: impl IntoIterator<Item = u32>) -> Self {
        Self::lines(title, Axis::new("frame", "B"), Axis::new("throughput", unit)).over(sizes)
    }

    /// Latencies by percentile; the series are [`Series::latency`].
    pub fn latency_percentiles(title: &str) -> Self {
        let percentiles = Latency::PERCENTILES.map(|(_, name)| name);
        let latency = Axis::new("latency", "µs").logarithmic();
        Self::lines(title, Axis::new("share of the frames that were as fast or faster", ""), latency)
            .over(percentiles)
    }

    /// Lost frames (%) by offered load (`unit`).
    pub fn loss_by_load(title: &str, unit: &str) -> Self {
        Self::lines(title, Axis::new("offered load", unit), Axis::new("lost frames", "%"))
    }

    /// Cycles a packet by stage, one bar for each of `cases`; a series is a stage.
    pub fn cycles_by_stage(title: &str, cases: impl IntoIterator<Item = impl ToString>) -> Self {
        let chart = Self::bars(title, cases, Axis::new("cycles", "cycles/packet"));
        Self { kind: ChartKind::StackedBars, ..chart }
    }

    /// What one sees in it, a sentence.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Another line, or another bar in each category.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    fn over(mut self, categories: impl IntoIterator<Item = impl ToString>) -> Self {
        self.categories = categories.into_iter().map(|category| category.to_string()).collect();
        self
    }
}

/// How a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChartKind {
    /// Points joined by lines.
    Lines,
    /// Bars side by side.
    Bars,
    /// Bars whose series follow each other.
    StackedBars,
    /// Of a later version of this program; not drawn.
    #[serde(other)]
    Unknown,
}

/// An axis of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// Its unit; empty without one.
    pub unit: String,
    /// How its numbers are spread.
    pub scale: Scale,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: &str, unit: &str) -> Self {
        Self { label: label.to_owned(), unit: unit.to_owned(), scale: Scale::Linear }
    }

    /// Each power of ten takes the same length; for numbers above zero.
    #[must_use]
    pub fn logarithmic(mut self) -> Self {
        self.scale = Scale::Logarithmic;
        self
    }
}

/// How the numbers of an axis are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By powers of ten.
    Logarithmic,
}

/// A line of a chart, or one bar in each category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// Where its numbers are from.
    #[serde(default)]
    pub origin: Origin,
    /// The points, with `x` in ascending order.
    #[serde(default)]
    pub points: Vec<Point>,
}

impl Series {
    /// Numbers that this run measured, one for each category; none where there is no number.
    pub fn measured(name: &str, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self::of_values(name, Origin::Measured, values)
    }

    /// Numbers that follow by arithmetic, one for each category.
    pub fn calculated(name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        Self::of_values(name, Origin::Calculated, values.into_iter().map(Some))
    }

    /// Numbers of the reproduced document, one for each category.
    pub fn document(name: &str, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self::of_values(name, Origin::Document, values)
    }

    /// Trials of this run, some for each category: the point is their median, the line through it their range.
    pub fn trials<'a>(name: &str, trials: impl IntoIterator<Item = &'a [f64]>) -> Self {
        let points = trials.into_iter().enumerate().filter_map(|(at, trials)| {
            let y = median(trials.iter().copied())?;
            let extreme = |choose: fn(f64, f64) -> f64| trials.iter().copied().reduce(choose);
            Some(Point { x: at as f64, y, low: extreme(f64::min), high: extreme(f64::max) })
        });
        Self::new(name, Origin::Measured, points)
    }

    /// Latencies of this run for [`Chart::latency_percentiles`].
    pub fn latency(name: &str, latency: &Latency) -> Self {
        Self::measured(name, latency.values().map(Some))
    }

    /// Measured points (x, y).
    pub fn points(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let point = |(x, y)| Point { x, y, low: None, high: None };
        Self::new(name, Origin::Measured, points.into_iter().map(point))
    }

    fn of_values(name: &str, origin: Origin, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        let point =
            |(at, y): (usize, Option<f64>)| Some(Point { x: at as f64, y: y?, low: None, high: None });
        Self::new(name, origin, values.into_iter().enumerate().filter_map(point))
    }

    /// JSON has no infinite numbers, and a picture no place for them.
    fn new(name: &str, origin: Origin, points: impl IntoIterator<Item = Point>) -> Self {
        let points = points.into_iter().filter(|point| point.x.is_finite() && point.y.is_finite()).collect();
        Self { name: name.to_owned(), origin, points }
    }
}

/// Where numbers are from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Measured in this run.
    #[default]
    Measured,
    /// Followed from the conditions by arithmetic.
    Calculated,
    /// Published in the reproduced document.
    Document,
}

/// A point of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// A number, or the index of a category.
    pub x: f64,
    /// A number.
    pub y: f64,
    /// The lowest trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The highest trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// Something said about the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// How much it matters.
    pub severity: Severity,
    /// What is said, a sentence.
    pub text: String,
}

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Makes results doubtful.
    Warning,
    /// Must not happen.
    Error,
}

/// Frames that came back as they must not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameFaults {
    /// Frames compared byte for byte.
    pub compared: u64,
    /// Frames among those that were not what they should be.
    pub wrong: u64,
    /// Frames that came back more than once.
    pub duplicates: u64,
    /// Frames that came back behind later ones of their flow.
    pub reordered: u64,
    /// Frames of nobody.
    pub foreign: u64,
}
