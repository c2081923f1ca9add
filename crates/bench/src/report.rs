//! The report of a bench: one value that says everything needed to judge a result, and how it is shown, written, read and compared.
//!
//! ```text
//!   scenario ──fills──▶ Report ──▶ terminal::render   tables of at most 100 columns
//!                         │  ▲ ──▶ to_json             one JSON document
//!                         │  └─── read_file            a JSON document, or a page, whose JSON is embedded
//!                         └─────▶ html::page           one page without external resources
//! ```
//!
//! Everything here is generic over [`Report`]: it knows no scenario, and a scenario knows nothing of terminals and pages. A scenario is one
//! file that runs trials and reads from top to bottom:
//!
//! ```
//! use sluice_bench::environment::Environment;
//! use sluice_bench::line_rate::{FrameBytes, LinkSpeed};
//! use sluice_bench::report::{Chart, Column, Report, Row, Section, Series, Table, marks};
//!
//! let mut report = Report::start("frame-sizes", "Throughput by frame size")
//!     .reproduces("VMware NSX Bare Metal Edge Performance", "Test Case Scenario 1")
//!     .in_environment(Environment::gather());
//! let mut table = Table::new([
//!     Column::label("size", "frame").unit("B"),
//!     Column::measured("throughput", "throughput", "Mpps").digits(2).higher_is_better(),
//!     Column::calculated("line-rate", "line rate", "Mpps").digits(2),
//!     Column::document("published", "throughput", "Gb/s").digits(1),
//! ]);
//! let mut points = Vec::new();
//! for size in [256, 512] {
//!     let trials = [4.1, 4.2, 4.15]; // what the trials of this size measured
//!     table.push(
//!         Row::new()
//!             .label("size", size)
//!             .measured("throughput", trials)
//!             .mark(marks::LIMITED_BY_GENERATOR)
//!             .calculated("line-rate", LinkSpeed::GIGABITS_100.frames_per_second(FrameBytes::new(f64::from(size))?) / 1e6)
//!             .document("published", 79.8),
//!     );
//!     points.push(Some(4.15));
//! }
//! let chart = Chart::throughput_by_size("Throughput", "Mpps", [256, 512]).series(Series::measured("node", points));
//! report.section(Section::new("throughput", "Throughput").table(table).chart(chart));
//! report.result("256-byte frames pass at 4.15 Mpps without loss.");
//! report.finish(); // until then, the report says of itself that it is incomplete; after Ctrl-C: report.interrupt("…")
//! println!("{}", report.to_json());
//! # Ok::<(), sluice_bench::line_rate::LineRateError>(())
//! ```
//!
//! What a cell's number is can never be in doubt, since each kind of [`Cell`] is a case of its own: measured in this run, not measured (and
//! why), calculated, or published in the document that the scenario reproduces.
//!
//! Limits: numbers are `f64`; counts above 2^53 lose their last digits. A report is held in memory as a whole.

mod charts;
pub mod compare;
mod file;
mod format;
pub mod html;
mod model;
mod palette;
mod statistics;
mod table;
pub mod terminal;
mod view;

pub use file::{FileError, OutputFile, read, read_file};
pub use model::{
    Axis, Chart, ChartKind, Document, FORMAT, FrameFaults, Generator, ImixPart, Note, Origin, Point, Report,
    Scale, Section, Series, Severity, Source, Traffic,
};
pub use statistics::median;
pub use table::{Cell, Column, ColumnKind, Latency, Row, Sense, Table};

/// Marks that several scenarios give to cells. A mark is a sentence's worth of text, explained below its table.
pub mod marks {
    /// The generator or the links were the limit, not what was measured.
    pub const LIMITED_BY_GENERATOR: &str = "limited by the generator or the links, not by what is measured";
    /// Other programs were in the way.
    pub const DISTURBED: &str = "another program had one of the cores for a while";
    /// The search was not allowed to go higher.
    pub const LIMITED_BY_SEARCH: &str = "limited by the search's maximum";
    /// Some searches have no number.
    pub const SOME_SEARCHES: &str = "the median of those searches that found a number; others found none";
    /// Not even the lowest rate of the search passed.
    pub const BELOW_MINIMUM: &str = "below the minimum rate of the search";
}

#[cfg(test)]
mod tests;
