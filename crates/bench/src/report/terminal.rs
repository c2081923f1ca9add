//! A report on a terminal: its tables, and in a few lines what they depend on.

use std::io::{IsTerminal, stdout};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Attribute, Cell as GridCell, CellAlignment, Color, Table as Grid};

use super::format::{duration, number};
use super::model::{Generator, Report, Section, Severity, Traffic};
use super::table::{Column, ColumnKind};
use super::view::{Shown, View, origin};
use crate::environment::UNKNOWN;

/// Columns that text and tables should fit in, unless a terminal is wider.
const WIDTH: usize = 100;

/// What a report is shown on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns.
    pub width: usize,
    /// Whether colours are wanted.
    pub colour: bool,
}

impl Screen {
    /// Standard output: coloured where it is a terminal and `NO_COLOR` is not set.
    pub fn of_stdout() -> Self {
        let size = terminal_size::terminal_size().filter(|_| stdout().is_terminal());
        let colour = anstream::AutoStream::choice(&stdout()) != anstream::ColorChoice::Never;
        Self { width: size.map_or(WIDTH, |(width, _)| usize::from(width.0).max(40)), colour }
    }
}

impl Default for Screen {
    /// As wide as printed text should be, without colours.
    fn default() -> Self {
        Self { width: WIDTH, colour: false }
    }
}

/// The report as text with a line end.
pub fn render(report: &Report, screen: Screen) -> String {
    let mut text = Text::new(screen);
    text.line(Some(Style::Bold), &printable(&format!("{}: {}", report.scenario, report.title)));
    if let Some(source) = &report.reproduces {
        text.paragraph(&format!("Reproduces {}, {}.", source.document, source.part));
    }
    if let Some(result) = &report.result {
        text.paragraph(result);
    }
    if !report.complete {
        let reason = report.incomplete_because.as_deref().unwrap_or("no reason is known");
        text.styled_paragraph(Some(Style::Red), &format!("INCOMPLETE: {reason}."));
    }
    for section in &report.sections {
        render_section(&mut text, section);
    }
    if !report.notes.is_empty() {
        text.gap();
    }
    for note in &report.notes {
        let (style, prefix) = match note.severity {
            Severity::Note => (None, ""),
            Severity::Warning => (Some(Style::Yellow), "warning: "),
            Severity::Error => (Some(Style::Red), "error: "),
        };
        text.styled_paragraph(style, &format!("{prefix}{}", note.text));
    }
    text.gap();
    for line in conditions(report) {
        text.paragraph(&line);
    }
    text.into_string()
}

fn render_section(text: &mut Text, section: &Section) {
    text.gap();
    text.line(Some(Style::Bold), &printable(&section.heading));
    if !section.text.is_empty() {
        text.paragraph(&section.text);
    }
    let Some(table) = &section.table else {
        if !section.charts.is_empty() {
            text.paragraph("Only charts: see the page that --html writes.");
        }
        return;
    };
    if table.rows.is_empty() {
        text.paragraph("Nothing was measured.");
        return;
    }
    let view = View::of(table);
    for grid in grids(&view, text.screen) {
        text.block(&grid);
    }
    for (sign, meaning) in &view.footnotes {
        text.paragraph(&format!("{sign} {meaning}"));
    }
    if let Some(spread) = &view.spread {
        text.paragraph(spread);
    }
    if view.columns.iter().any(|column| column.kind == ColumnKind::Document) {
        text.paragraph("(In brackets: published in the document, not measured here.)");
    }
}

/// The tables that one table is shown as: one where the screen is wide enough; else with rows and columns changed where that fits; else the
/// columns in groups, each with the labels.
fn grids(view: &View<'_>, screen: Screen) -> Vec<String> {
    let (labels, numbers): (Vec<usize>, Vec<usize>) =
        (0..view.columns.len()).partition(|at| view.columns[*at].kind == ColumnKind::Label);
    let all: Vec<usize> = (0..view.columns.len()).collect();
    let grid = upright(view, &all, screen);
    if width(&grid) <= screen.width || numbers.len() < 2 {
        return vec![grid];
    }
    if view.rows.len() < numbers.len() {
        let turned = turned(view, &labels, &numbers, screen);
        if width(&turned) <= screen.width {
            return vec![turned];
        }
    }
    let mut groups: Vec<String> = Vec::new();
    let mut group = labels.clone();
    for at in numbers {
        let wider = [&group[..], &[at]].concat();
        if group.len() > labels.len() && width(&upright(view, &wider, screen)) > screen.width {
            groups.push(upright(view, &group, screen));
            group = [&labels[..], &[at]].concat();
        } else {
            group = wider;
        }
    }
    groups.push(upright(view, &group, screen));
    groups
}

/// Some columns of a table.
fn upright(view: &View<'_>, columns: &[usize], screen: Screen) -> String {
    let mut grid = empty_grid(screen);
    grid.set_header(columns.iter().map(|at| {
        let column = &view.columns[*at];
        header(&heading(column, "\n")).set_alignment(alignment(column.kind))
    }));
    for row in &view.rows {
        grid.add_row(columns.iter().map(|at| cell(&row[*at])));
    }
    grid.to_string()
}

/// A table with a column for each of its rows.
fn turned(view: &View<'_>, labels: &[usize], numbers: &[usize], screen: Screen) -> String {
    let mut grid = empty_grid(screen);
    let names: Vec<String> = labels.iter().map(|at| heading(&view.columns[*at], " ")).collect();
    let name = |row: &Vec<Shown>| {
        let name: Vec<String> = labels.iter().map(|at| printable(&row[*at].text)).collect();
        header(&name.join("\n")).set_alignment(CellAlignment::Right)
    };
    grid.set_header(std::iter::once(header(&names.join("\n"))).chain(view.rows.iter().map(name)));
    for at in numbers {
        let first = GridCell::new(heading(&view.columns[*at], " "));
        grid.add_row(std::iter::once(first).chain(view.rows.iter().map(|row| cell(&row[*at]))));
    }
    grid.to_string()
}

pub(super) fn empty_grid(screen: Screen) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(UTF8_FULL_CONDENSED).force_no_tty();
    if screen.colour {
        grid.enforce_styling();
    }
    grid
}

pub(super) fn header(text: &str) -> GridCell {
    GridCell::new(text).add_attribute(Attribute::Bold)
}

fn heading(column: &Column, between: &str) -> String {
    let parts = [origin(column.kind).unwrap_or(""), &column.heading, &column.unit];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).map(printable).collect();
    parts.join(between)
}

fn cell(shown: &Shown) -> GridCell {
    let text = printable(&shown.text);
    let text = if shown.kind == ColumnKind::Document { format!("({text})") } else { text };
    let sign = if shown.signs.is_empty() { String::new() } else { format!(" {}", shown.signs) };
    let cell = GridCell::new(text + &sign).set_alignment(alignment(shown.kind));
    match shown.kind {
        ColumnKind::Document => cell.fg(Color::Cyan).add_attribute(Attribute::Italic),
        ColumnKind::Calculated => cell.fg(Color::DarkGrey),
        ColumnKind::Label | ColumnKind::Measured if shown.signs.is_empty() => cell,
        ColumnKind::Label | ColumnKind::Measured => cell.fg(Color::Yellow),
    }
}

const fn alignment(kind: ColumnKind) -> CellAlignment {
    match kind {
        ColumnKind::Label => CellAlignment::Left,
        _ => CellAlignment::Right,
    }
}

/// Columns of the widest line, without what colours it.
fn width(grid: &str) -> usize {
    let plain = |line| textwrap::core::display_width(line);
    grid.lines().map(plain).max().unwrap_or(0)
}

/// What the results depend on, in a few lines.
fn conditions(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let known = |facts: Vec<(&str, String)>| {
        let facts: Vec<String> = facts.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        facts.join("; ")
    };
    let traffic = traffic_facts(&report.traffic);
    if !traffic.is_empty() {
        lines.push(format!("Traffic: {}.", known(traffic)));
    }
    let generator = generator_facts(&report.generator);
    if !generator.is_empty() {
        lines.push(format!("Generator alone: {}.", known(generator)));
    }
    let (mut facts, mut unknown) = (Vec::new(), Vec::new());
    for fact in report.environment.facts() {
        if fact.value == UNKNOWN {
            unknown.push(fact.name);
        } else {
            facts.push((fact.name, fact.value));
        }
    }
    lines.push(format!("Environment: {}.", known(facts)));
    if !unknown.is_empty() {
        lines.push(format!("Unknown: {}.", unknown.join(", ")));
    }
    lines.push(format!("Started {}, took {}.", started(report), duration(report.duration_s)));
    lines
}

/// When a run began, to the second.
pub(super) fn started(report: &Report) -> String {
    report.started.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// What is known of the traffic.
pub(super) fn traffic_facts(traffic: &Traffic) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !traffic.frame_bytes.is_empty() {
        let sizes: Vec<String> = traffic.frame_bytes.iter().map(u32::to_string).collect();
        facts.push(("frames", format!("{} B", sizes.join(", "))));
    }
    if !traffic.imix.is_empty() {
        let part = |part: &super::ImixPart| format!("{} × {} B", part.weight, part.frame_bytes);
        facts.push(("mix", traffic.imix.iter().map(part).collect::<Vec<_>>().join(" + ")));
    }
    if let Some(flows) = traffic.flows {
        facts.push(("flows in each direction", number(flows as f64, 0)));
    }
    if let Some(seconds) = traffic.trial_s {
        facts.push(("length of a trial", duration(seconds)));
    }
    if let Some(trials) = traffic.trials {
        facts.push(("trials of a case", trials.to_string()));
    }
    if let Some(searches) = traffic.searches {
        facts.push(("searches of a case", searches.to_string()));
    }
    if let Some(share) = traffic.loss_tolerance {
        facts.push(("loss tolerance", format!("{} %", number(share * 100.0, 3))));
    }
    if let Some(description) = &traffic.description {
        facts.push(("kind", description.clone()));
    }
    facts
}

/// What is known of the generator.
pub(super) fn generator_facts(generator: &Generator) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !generator.ceiling_mpps.is_empty() {
        let ceiling = |(case, mpps): &(String, f64)| format!("{} Mpps ({case})", number(*mpps, 2));
        facts.push(("ceiling", generator.ceiling_mpps.iter().map(ceiling).collect::<Vec<_>>().join(", ")));
    }
    if let Some(latency) = &generator.own_latency {
        let [min, p50, p90, p99, p999, max] = latency.values().map(|value| number(value, 1));
        facts.push((
            "own latency",
            format!("min {min}, 50 % {p50}, 90 % {p90}, 99 % {p99}, 99.9 % {p999}, max {max} µs"),
        ));
    }
    facts
}

/// Without control characters, which a terminal would obey.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Text that grows.
pub(super) struct Text {
    screen: Screen,
    text: String,
}

/// How a line stands out.
#[derive(Clone, Copy)]
pub(super) enum Style {
    Bold,
    Yellow,
    Red,
}

impl Text {
    pub(super) const fn new(screen: Screen) -> Self {
        Self { screen, text: String::new() }
    }

    pub(super) const fn screen(&self) -> Screen {
        self.screen
    }

    pub(super) fn into_string(self) -> String {
        self.text
    }

    /// An empty line.
    fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Lines as they are.
    pub(super) fn block(&mut self, lines: &str) {
        self.text.push_str(lines);
        self.text.push('\n');
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.styled_paragraph(None, text);
    }

    pub(super) fn styled_paragraph(&mut self, style: Option<Style>, text: &str) {
        let text = printable(text);
        for line in textwrap::wrap(&text, textwrap::Options::new(self.screen.width).subsequent_indent("  ")) {
            self.line(style, &line);
        }
    }

    pub(super) fn line(&mut self, style: Option<Style>, text: &str) {
        let code = match style {
            Some(Style::Bold) => "1",
            Some(Style::Yellow) => "33",
            Some(Style::Red) => "1;31",
            None => "",
        };
        if code.is_empty() || !self.screen.colour {
            self.text.push_str(text);
        } else {
            self.text.push_str(&format!("\u{1b}[{code}m{text}\u{1b}[0m"));
        }
        self.text.push('\n');
    }
}
