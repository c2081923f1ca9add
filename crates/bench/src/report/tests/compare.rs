//! Comparisons of reports.

use proptest::prelude::*;

use super::super::compare::{Comparison, LEAST_CHANGE, Verdict};
use super::super::terminal::Screen;
use super::*;

fn compare(a: &Report, b: &Report) -> Comparison {
    Comparison::of(("a.json", a), ("b.json", b), LEAST_CHANGE).unwrap()
}

/// A report with a rate, a cost and a plain count in each row.
fn report(rows: &[[Vec<f64>; 3]]) -> Report {
    let mut table = Table::new([
        Column::label("case", "case"),
        Column::measured("rate", "rate", "Mpps").digits(2).higher_is_better(),
        Column::measured("cost", "cost", "cycles").lower_is_better(),
        Column::measured("count", "count", ""),
    ]);
    for (at, [rate, cost, count]) in rows.iter().enumerate() {
        let row = Row::new().label("case", at);
        table.push(
            row.measured("rate", rate.clone())
                .measured("cost", cost.clone())
                .measured("count", count.clone()),
        );
    }
    let mut report = Report::start("s", "t").in_environment(environment());
    report.section(Section::new("main", "Main").table(table));
    report.finish();
    report
}

fn one(rate: &[f64], cost: &[f64]) -> Report {
    report(&[[rate.to_vec(), cost.to_vec(), vec![1.0]]])
}

fn verdicts(comparison: &Comparison) -> Vec<Verdict> {
    comparison.changes.iter().map(|change| change.verdict).collect()
}

#[test]
fn the_same_report_has_not_changed() {
    let mut report = sample();
    report.notes.clear();
    let comparison = compare(&report, &report);
    assert_eq!(comparison.count(Verdict::Same), comparison.changes.len());
    assert!(comparison.changes.len() > 20 && !comparison.is_worse());
    assert!(
        comparison.differences.is_empty()
            && comparison.only_in_a.is_empty()
            && comparison.only_in_b.is_empty()
    );
    let text = comparison.render(Screen::default());
    assert!(
        text.contains("Nothing changed by 2.0 % and beyond noise") && text.contains("the same conditions"),
        "{text}"
    );
}

#[test]
fn noise_is_no_change_however_large() {
    let a = one(&[10.0, 9.0, 11.0, 10.4, 9.5], &[200.0, 215.0, 190.0, 204.0, 196.0]);
    let b = one(&[9.4, 10.1, 8.8, 10.5, 9.9], &[205.0, 192.0, 218.0, 199.0, 210.0]);
    assert_eq!(verdicts(&compare(&a, &b)), [Verdict::Same; 3]);
}

#[test]
fn a_real_change_is_found_in_its_direction() {
    let a = one(&[10.0, 10.05, 9.95, 10.02, 9.99], &[200.0, 201.0, 199.0, 200.5, 199.5]);
    let b = one(&[9.0, 9.04, 8.97, 9.01, 8.99], &[180.0, 181.0, 179.0, 180.5, 179.5]);
    let comparison = compare(&a, &b);
    assert_eq!(verdicts(&comparison), [Verdict::Worse, Verdict::Better, Verdict::Same]);
    assert!(comparison.is_worse());
    let rate = &comparison.changes[0];
    assert!((rate.change_percent.unwrap() + 10.0).abs() < 1e-9, "{rate:?}");
    let text = comparison.render(Screen::default());
    for part in ["rate Mpps", "-10.0 %", "worse", "1 worse, 1 better, of 3 numbers"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&comparison.to_json()).unwrap();
    assert_eq!((&json["worse"], &json["changes"][0]["verdict"]), (&true.into(), &"worse".into()));
}

#[test]
fn a_small_change_is_none_even_without_noise() {
    let comparison = compare(&one(&[10.0], &[100.0]), &one(&[9.81], &[103.0]));
    assert_eq!(verdicts(&comparison), [Verdict::Same, Verdict::Changed, Verdict::Same]);
    assert_eq!(comparison.changes[0].noise, None);
    let text = comparison.render(Screen::default());
    assert!(text.contains("unknown"), "without trials the noise is unknown: {text}");
    assert!(text.contains("1 of the numbers that changed are of one measurement"), "{text}");
}

#[test]
fn from_nothing_to_something_is_a_change() {
    let comparison = compare(&one(&[0.0], &[0.0]), &one(&[0.0], &[0.01]));
    assert_eq!(verdicts(&comparison), [Verdict::Same, Verdict::Changed, Verdict::Same]);
    assert_eq!(
        (comparison.changes[0].change_percent, comparison.changes[1].change_percent),
        (Some(0.0), None)
    );
    assert!(comparison.render(Screen::default()).contains("from zero"));
}

#[test]
fn what_only_one_measured_is_named_and_the_document_is_not_compared() {
    let (a, mut b) = (sample(), sample());
    let table = b.sections[0].table.as_mut().unwrap();
    table.rows.truncate(3);
    for row in &mut table.rows {
        row.cells.insert("published".into(), Cell::Document { value: 1.0 });
    }
    let comparison = compare(&a, &b);
    assert_eq!(
        comparison.only_in_a,
        ["Throughput, 1500, throughput", "Throughput, 1500, throughput"].map(String::from)
    );
    assert_eq!(comparison.count(Verdict::Same), comparison.changes.len());
    assert!(comparison.render(Screen::default()).contains("Only measured in A: Throughput, 1500"));
}

#[test]
fn other_conditions_are_told() {
    let (a, mut b) = (sample(), sample());
    b.environment.processor = Some("Another Processor".into());
    b.environment.cycles_per_second = Some(2_000_100_000);
    b.environment.commit = Some("4567cdef".into());
    b.environment.load_before = Some(0.9);
    b.traffic.flows = Some(10);
    let comparison = compare(&a, &b);
    let names: Vec<(&str, bool)> =
        comparison.differences.iter().map(|it| (it.name.as_str(), it.condition)).collect();
    assert_eq!(names, [("processor", true), ("flows in each direction", true), ("commit", false)]);
    let text = comparison.render(Screen::default());
    assert!(text.contains("Another Processor") && text.contains("The conditions differ"), "{text}");
    b.environment.cycles_per_second = Some(3_000_000_000);
    b.environment.load_before = Some(9.0);
    for name in ["clock (TSC)", "load average"] {
        assert!(compare(&a, &b).differences.iter().any(|it| it.name == name && it.condition), "{name}");
    }
}

#[test]
fn new_errors_are_worse_and_gone_ones_are_not() {
    let (with, mut without) = (sample(), sample());
    without.notes.clear();
    assert!(compare(&without, &with).is_worse());
    assert!(!compare(&with, &without).is_worse());
    assert!(!compare(&with, &with).is_worse());
}

#[test]
fn different_scenarios_are_refused_in_one_sentence() {
    let mut other = sample();
    other.scenario = "latency".into();
    let sentence = Comparison::of(("a.json", &sample()), ("b.json", &other), 2.0).unwrap_err().to_string();
    assert_eq!(
        sentence,
        "a.json is a report of bme-1 and b.json one of latency: compare two reports of the same scenario"
    );
}

fn trials() -> impl Strategy<Value = Vec<f64>> {
    let value = prop_oneof![Just(0.0), -1e3..1e3_f64, 99.0..101.0_f64, -1e300..1e300_f64];
    proptest::collection::vec(value, 0..7)
}

proptest! {
    #[test]
    fn swapping_the_reports_swaps_better_and_worse(
        a in proptest::collection::vec([trials(), trials(), trials()], 1..5),
        b in proptest::collection::vec([trials(), trials(), trials()], 1..5),
    ) {
        let (a, b) = (report(&a), report(&b));
        let (there, back) = (compare(&a, &b), compare(&b, &a));
        let swapped: Vec<Verdict> = verdicts(&back).into_iter().map(|verdict| match verdict {
            Verdict::Better => Verdict::Worse,
            Verdict::Worse => Verdict::Better,
            other => other,
        }).collect();
        prop_assert_eq!(verdicts(&there), swapped);
        prop_assert_eq!((&there.only_in_a, &there.only_in_b), (&back.only_in_b, &back.only_in_a));
        for change in &there.changes {
            prop_assert_eq!(change.noise, back.changes.iter().find(|other| (&other.row, &other.column) == (&change.row, &change.column)).unwrap().noise);
        }
    }
}
