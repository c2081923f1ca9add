//! Reports on a terminal.

use super::super::terminal::{Screen, render};
use super::*;

fn shown(report: &Report) -> String {
    render(report, Screen::default())
}

#[test]
fn a_report_reads_like_this() {
    insta::assert_snapshot!(shown(&sample()));
}

#[test]
fn lines_fit() {
    for width in [60, 80, 100] {
        let text = render(&sample(), Screen { width, colour: false });
        for line in text.lines() {
            assert!(textwrap::core::display_width(line) <= width, "{width}: {line}");
        }
    }
}

#[test]
fn colours_come_only_where_they_are_wanted() {
    assert!(!shown(&sample()).contains('\u{1b}'));
    let coloured = render(&sample(), Screen { width: 100, colour: true });
    assert!(coloured.contains("\u{1b}[1;31merror: "), "{coloured}");
}

#[test]
fn a_partial_and_an_empty_report_say_so() {
    let mut report = Report::start("bme-1", "Nothing");
    report.section(Section::new("s", "Section").table(Table::new([Column::measured("a", "a", "")])));
    report.interrupt("interrupted");
    let text = shown(&report);
    for part in ["INCOMPLETE: interrupted.", "Nothing was measured.", "Unknown: "] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn a_wide_table_is_turned_or_split() {
    let columns = |count: usize| {
        (0..count).map(|at| Column::measured(&format!("c{at}"), &format!("column {at}"), "Mpps").digits(2))
    };
    let table = |rows: usize| {
        let mut table = Table::new([Column::label("row", "row")]).columns(columns(12));
        for at in 0..rows {
            let row = Row::new().label("row", format!("row {at}"));
            table.push((0..12).fold(row, |row, column| row.value(&format!("c{column}"), f64::from(column))));
        }
        let mut report = Report::start("s", "t");
        report.section(Section::new("s", "s").table(table));
        shown(&report)
    };
    let turned = table(3);
    assert_eq!(turned.matches("row 2").count(), 1, "{turned}");
    assert!(turned.contains("column 11 Mpps"), "a column is a row: {turned}");
    let split = table(20);
    assert!(split.matches("row 19").count() >= 2, "each part has the labels: {split}");
    assert_eq!(split.matches("column 11").count(), 1, "{split}");
}

#[test]
fn what_would_drive_the_terminal_is_not_printed() {
    let mut report = Report::start("s", "title\u{1b}[2J");
    let mut table = Table::new([Column::label("l", "l\u{7}")]);
    table.push(Row::new().label("l", "a\u{1b}]0;x"));
    report.section(Section::new("s", "s\r").table(table));
    report.note("note\u{1b}[31m");
    report.finish();
    let text = shown(&report);
    assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
}

#[test]
fn huge_and_tiny_numbers_keep_their_magnitude() {
    let mut table = Table::new([Column::label("row", "row"), Column::measured("n", "n", "")]);
    for value in [1.7e308, 9_007_199_254_740_991.0, 123_456_789.0, 1e-12] {
        table.push(Row::new().label("row", value).value("n", value));
    }
    table.push(Row::new().label("row", "infinite").value("n", f64::MAX * 10.0));
    let mut report = Report::start("s", "t");
    report.section(Section::new("s", "s").table(table));
    let text = shown(&report);
    for part in ["9.007e15", "123,456,789", "1.0e-12", "not measured: the result is no number"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert_eq!(read(&report.to_json(), Path::new("a")).unwrap().sections, report.sections);
}
