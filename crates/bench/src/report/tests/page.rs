//! Reports as pages.

use html5ever::tendril::TendrilSink;
use markup5ever_rcdom::{Handle, NodeData, RcDom};

use super::*;

/// What a text says that must never become markup.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&<!--";

fn parse(page: &str) -> RcDom {
    html5ever::parse_document(RcDom::default(), html5ever::ParseOpts::default()).one(page)
}

/// An element: name, attributes, and text directly in it.
type Element = (String, Vec<(String, String)>, String);

/// Every element of a page.
fn elements(page: &str) -> Vec<Element> {
    let dom = parse(page);
    let mut found = Vec::new();
    let mut open: Vec<Handle> = vec![dom.document.clone()];
    while let Some(node) = open.pop() {
        if let NodeData::Element { name, attrs, .. } = &node.data {
            let attributes = attrs.borrow();
            let attributes = attributes
                .iter()
                .map(|attribute| (attribute.name.local.to_string(), attribute.value.to_string()));
            let text = node
                .children
                .borrow()
                .iter()
                .filter_map(|child| match &child.data {
                    NodeData::Text { contents } => Some(contents.borrow().to_string()),
                    _ => None,
                })
                .collect();
            found.push((name.local.to_string(), attributes.collect(), text));
        }
        open.extend(node.children.borrow().iter().cloned());
    }
    found
}

/// A report whose every text is hostile.
fn hostile() -> Report {
    fn strike(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => text.push_str(HOSTILE),
            serde_json::Value::Array(values) => values.iter_mut().for_each(strike),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(strike),
            _ => {}
        }
    }
    let mut report = sample();
    for text in [&mut report.scenario, &mut report.title] {
        text.push_str(HOSTILE);
    }
    report.result = Some(HOSTILE.into());
    report.incomplete_because = Some(HOSTILE.into());
    report.complete = false;
    for note in &mut report.notes {
        note.text.push_str(HOSTILE);
    }
    for document in &mut report.documents {
        document.text.push_str(HOSTILE);
        document.name.push_str(HOSTILE);
    }
    report.environment.command = Some(HOSTILE.into());
    report.reproduces = Some(Source { document: HOSTILE.into(), part: HOSTILE.into() });
    for section in &mut report.sections {
        section.heading.push_str(HOSTILE);
        section.text.push_str(HOSTILE);
        for chart in &mut section.charts {
            for text in [&mut chart.title, &mut chart.caption, &mut chart.x.label, &mut chart.y.unit] {
                text.push_str(HOSTILE);
            }
            chart.categories.iter_mut().for_each(|name| *name = HOSTILE.into());
            chart.series.iter_mut().for_each(|series| series.name.push_str(HOSTILE));
        }
        for row in section.table.iter_mut().flat_map(|table| &mut table.rows) {
            for cell in row.cells.values_mut() {
                match cell {
                    Cell::Label { text } => text.push_str(HOSTILE),
                    Cell::Measured { marks, .. } => marks.push(HOSTILE.into()),
                    Cell::NotMeasured { reason } => *reason = Some(HOSTILE.into()),
                    _ => {}
                }
            }
        }
        for column in section.table.iter_mut().flat_map(|table| &mut table.columns) {
            column.heading.push_str(HOSTILE);
            column.unit.push_str(HOSTILE);
        }
    }
    let mut json = serde_json::json!(report.environment.cores);
    strike(&mut json);
    report.environment.cores = serde_json::from_value(json).unwrap();
    report
}

#[test]
fn pages_are_well_formed() {
    let mut empty = Report::start("s", "t");
    empty.interrupt("interrupted");
    for report in [sample(), hostile(), empty] {
        let dom = parse(&html::page(&report));
        let errors = dom.errors.borrow();
        assert!(errors.is_empty(), "{errors:?}");
    }
}

#[test]
fn pages_need_nothing_from_elsewhere_and_run_nothing() {
    for report in [sample(), hostile()] {
        let page = html::page(&report);
        for (name, attributes, _) in elements(&page) {
            assert!(
                !["link", "img", "iframe", "object", "embed", "base", "form"].contains(&name.as_str()),
                "{name}"
            );
            for (attribute, value) in &attributes {
                assert!(!attribute.starts_with("on"), "{name} {attribute}={value}");
                assert!(
                    !["src", "href", "style"].contains(&attribute.as_str()),
                    "{name} {attribute}={value}"
                );
            }
            if name == "script" {
                assert!(attributes.contains(&("type".into(), "application/json".into())), "{attributes:?}");
            }
        }
        let style = elements(&page).into_iter().find(|(name, ..)| name == "style").unwrap().2;
        assert!(!style.contains("url(") && !style.contains("@import"));
    }
}

#[test]
fn hostile_texts_stay_texts() {
    let report = hostile();
    let page = html::page(&report);
    let found = elements(&page);
    assert_eq!(found.iter().filter(|(name, ..)| name == "script").count(), 1);
    let text_of = |element: &str| found.iter().find(|(name, ..)| name == element).unwrap().2.clone();
    assert!(text_of("h1").ends_with(HOSTILE));
    assert!(
        found.iter().any(|(name, _, text)| name == "pre" && text.ends_with(HOSTILE)),
        "the node document"
    );
    assert_eq!(read(&page, Path::new("page.html")).unwrap(), report, "the embedded JSON is whole");
}

#[test]
fn the_document_s_numbers_stand_apart() {
    let cells = elements(&html::page(&sample()));
    let of = |class: &str| {
        let has = |attributes: &[(String, String)]| attributes.contains(&("class".into(), class.into()));
        cells.iter().filter(|(name, attributes, _)| name == "td" && has(attributes)).count()
    };
    assert_eq!((of("document"), of("calculated")), (4, 4));
    assert!(cells.iter().any(|(name, _, text)| name == "span" && text == "document"), "its header says it");
}

#[test]
fn everything_that_is_needed_to_judge_it_is_on_the_page() {
    let page = html::page(&sample());
    for part in [
        "Frames of 1500 bytes pass at 6.93 Mpps",
        "Test Case Scenario 1",
        "A Processor of Tests",
        "2 frames were wrong (58000 compared)",
        "limited by the generator",
        "not measured: the counters were not read",
        "7 × 64 B + 4 × 576 B",
        "0.01 %",
        "31.20 Mpps (256 B)",
        "L1d 48 KiB, L2 2 MiB",
        "name: edge",
        "No stage takes more than a third",
    ] {
        let escaped = part.replace('&', "&amp;");
        assert!(page.contains(&escaped), "{part}");
    }
    let scheduler = elements(&page).iter().any(|(name, attributes, text)| {
        name == "dd" && text == "unknown" && attributes.contains(&("class".into(), "unknown".into()))
    });
    assert!(scheduler, "the scheduler is unknown");
}
