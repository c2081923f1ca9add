//! A report as one page that needs nothing besides itself: no script, no font, no image from anywhere, so that it can be handed on and kept.
//!
//! The report's JSON is part of the page ([`embedded_json`]), so that pages can be compared like files of JSON.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::charts::{NARROW, WIDE, axis_name, draw};
use super::format::duration;
use super::model::{Chart, ChartKind, Origin, Report, Section, Severity};
use super::palette::{SERIES, dark_rules};
use super::table::{Column, ColumnKind, Table};
use super::terminal::{generator_facts, started, traffic_facts};
use super::view::{Shown, View, origin};
use crate::environment::UNKNOWN;

/// What stands before and behind the JSON. Neither can be within it, since it holds no `<`, nor elsewhere, since all text is escaped.
const JSON_BEGIN: &str = r#"<script type="application/json" id="sluice-bench-report">"#;
const JSON_END: &str = "</script>";

/// The report as a page.
pub fn page(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content="sluice bench";
                title { (report.title) " · " (report.scenario) }
                style { (PreEscaped(style())) }
            }
            body {
                main {
                    (head(report))
                    (notes(report))
                    @for section in &report.sections { (section_of(section)) }
                    (conditions(report))
                    (documents(report))
                }
                (PreEscaped(JSON_BEGIN)) (PreEscaped(harmless_json(report))) (PreEscaped(JSON_END))
            }
        }
    };
    page.into_string()
}

/// The JSON of the report that a page holds; `None` of other text.
pub fn embedded_json(page: &str) -> Option<&str> {
    let (_, behind) = page.split_once(JSON_BEGIN)?;
    Some(behind.split_once(JSON_END)?.0)
}

/// JSON in which nothing can be taken for HTML. Outside of strings JSON has none of these characters.
fn harmless_json(report: &Report) -> String {
    report.to_json().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

fn style() -> String {
    let series: String = SERIES
        .iter()
        .enumerate()
        .map(|(at, colour)| {
            format!(
                ".series-{at}{{color:#{:06X}}}@media screen and (prefers-color-scheme:dark){{.series-{at}{{color:#{:06X}}}}}",
                colour.light, colour.dark
            )
        })
        .collect();
    let dark = format!("@media screen and (prefers-color-scheme:dark){{{}}}", dark_rules());
    format!("{}{series}{dark}", include_str!("page.css"))
}

fn head(report: &Report) -> Markup {
    html! {
        header {
            p.kicker { "sluice bench " (report.scenario) }
            h1 { (report.title) }
            @if let Some(result) = &report.result { p.result { (result) } }
            @if !report.complete {
                p.incomplete role="alert" {
                    strong { "Incomplete" } ": "
                    (report.incomplete_because.as_deref().unwrap_or("no reason is known")) "."
                }
            }
            @if let Some(source) = &report.reproduces {
                p.source { "Reproduces " cite { (source.document) } ", " (source.part) "." }
            }
            p.source { (started(report)) " · " (duration(report.duration_s)) " · " (machine(report)) }
        }
    }
}

/// The machine in one line.
fn machine(report: &Report) -> String {
    let environment = &report.environment;
    let version = |version: &Option<String>| version.clone().unwrap_or_else(|| UNKNOWN.into());
    format!(
        "{} · sluice {}, DPDK {}",
        environment.processor.as_deref().unwrap_or("unknown processor"),
        version(&environment.sluice),
        version(&environment.dpdk)
    )
}

fn notes(report: &Report) -> Markup {
    let mut notes: Vec<_> = report.notes.iter().collect();
    notes.sort_by_key(|note| std::cmp::Reverse(note.severity));
    html! {
        @if !notes.is_empty() {
            ul.notes {
                @for note in notes {
                    @let (class, name) = match note.severity {
                        Severity::Note => ("note", "Note"),
                        Severity::Warning => ("warning", "Warning"),
                        Severity::Error => ("error", "Error"),
                    };
                    li class=(class) { strong { (name) } " " (note.text) }
                }
            }
        }
    }
}

fn section_of(section: &Section) -> Markup {
    html! {
        section {
            h2 { (section.heading) }
            @if !section.text.is_empty() { p { (section.text) } }
            @for chart in &section.charts { (figure(chart)) }
            @if let Some(table) = &section.table { (table_of(table)) }
        }
    }
}

fn figure(chart: &Chart) -> Markup {
    let pictures = draw(chart, WIDE).zip(draw(chart, NARROW));
    let measure = match chart.kind {
        ChartKind::Lines => axis_name(&chart.y),
        _ => String::new(),
    };
    html! {
        figure {
            h3 { (chart.title) }
            (legend(chart))
            @if !measure.is_empty() { p.axis { (measure) } }
            @match pictures {
                Some((wide, narrow)) => {
                    div.wide role="img" aria-label=(chart.title) { (PreEscaped(wide)) }
                    div.narrow role="img" aria-label=(chart.title) { (PreEscaped(narrow)) }
                }
                None => p.empty { "There is nothing to be drawn." }
            }
            @if !chart.caption.is_empty() { figcaption { (chart.caption) } }
        }
    }
}

fn legend(chart: &Chart) -> Markup {
    html! {
        ul.legend {
            @for (at, series) in chart.series.iter().enumerate() {
                li class={ "series-" (at % SERIES.len()) } {
                    (swatch(chart.kind, series.origin, at))
                    span { (series.name) @if let Some(origin) = named(series.origin) { " (" (origin) ")" } }
                }
            }
        }
    }
}

/// What a series looks like in its chart, in the colour of the text around it.
fn swatch(kind: ChartKind, origin: Origin, at: usize) -> Markup {
    let shape = match at % 4 {
        0 => "M16 3.5a4.5 4.5 0 1 0 .01 0z",
        1 => "M16 2l5.5 10h-11z",
        2 => "M12 4h8v8h-8z",
        _ => "M16 2l6 6-6 6-6-6z",
    };
    let fill = if origin == Origin::Measured { "currentColor" } else { "none" };
    let dashes = if origin == Origin::Measured { "none" } else { "5 4" };
    html! {
        svg width="32" height="16" viewBox="0 0 32 16" aria-hidden="true" {
            @if kind == ChartKind::Lines {
                path d="M0 8h32" stroke="currentColor" stroke-width="2" stroke-dasharray=(dashes) {}
                @if origin != Origin::Calculated {
                    path d=(shape) fill=(fill) stroke="currentColor" stroke-width="2" {}
                }
            } @else {
                path d="M9 2h14v12h-14z" fill=(fill) stroke="currentColor" stroke-width="2" {}
            }
        }
    }
}

const fn named(origin: Origin) -> Option<&'static str> {
    match origin {
        Origin::Measured => None,
        Origin::Calculated => Some("calculated"),
        Origin::Document => Some("document"),
    }
}

fn table_of(table: &Table) -> Markup {
    if table.rows.is_empty() {
        return html! { p.empty { "Nothing was measured." } };
    }
    let view = View::of(table);
    let has_document = view.columns.iter().any(|column| column.kind == ColumnKind::Document);
    html! {
        div.table tabindex="0" {
            table {
                thead { tr { @for column in view.columns { (heading(column)) } } }
                tbody {
                    @for row in &view.rows {
                        tr { @for shown in row { (cell(shown)) } }
                    }
                }
            }
        }
        @if !view.footnotes.is_empty() || view.spread.is_some() || has_document {
            div.footnotes {
                @for (sign, meaning) in &view.footnotes { p { b { (sign) } " " (meaning) } }
                @if let Some(spread) = &view.spread { p { (spread) } }
                @if has_document {
                    p { "Numbers " span.document { "in this style" } " are those that the document publishes; they were not measured here." }
                }
            }
        }
    }
}

fn heading(column: &Column) -> Markup {
    html! {
        th scope="col" class=(class(column.kind)) {
            @if let Some(origin) = origin(column.kind) { span.origin { (origin) } }
            span.heading { (column.heading) }
            @if !column.unit.is_empty() { span.unit { (column.unit) } }
        }
    }
}

fn cell(shown: &Shown) -> Markup {
    let content = html! {
        span { (shown.text) @if !shown.signs.is_empty() { sup { (shown.signs) } } }
        @if let Some(range) = &shown.range { small { (range) } }
    };
    html! {
        @if shown.kind == ColumnKind::Label {
            th scope="row" class="label" { (content) }
        } @else {
            td class=(class(shown.kind)) { (content) }
        }
    }
}

const fn class(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Label => "label",
        ColumnKind::Measured => "measured",
        ColumnKind::Calculated => "calculated",
        ColumnKind::Document => "document",
    }
}

fn conditions(report: &Report) -> Markup {
    let environment = report.environment.facts();
    let environment = environment.into_iter().map(|fact| (fact.name, fact.value)).collect();
    html! {
        section.conditions {
            h2 { "What these numbers depend on" }
            p { "Results of different machines, or of one machine under other conditions, do not compare." }
            (facts("Traffic", traffic_facts(&report.traffic)))
            (facts("Generator and links alone", generator_facts(&report.generator)))
            (facts("Environment", environment))
        }
    }
}

fn facts(heading: &str, facts: Vec<(&'static str, String)>) -> Markup {
    html! {
        @if !facts.is_empty() {
            h3 { (heading) }
            dl {
                @for (name, value) in facts {
                    div { dt { (name) } dd class=[(value == UNKNOWN).then_some("unknown")] { (value) } }
                }
            }
        }
    }
}

fn documents(report: &Report) -> Markup {
    html! {
        section.documents {
            @for document in &report.documents {
                details { summary { "Node document: " (document.name) } pre { (document.text) } }
            }
            details { summary { "This report as JSON" } pre { (report.to_json()) } }
            p.source { "This page holds its numbers: " code { "sluice bench compare" } " reads it like a file of JSON." }
        }
    }
}
