//! The TEP group scenario and the lab's faults on this machine: labs and nodes as processes. What is judged is what a busy machine bears: that
//! everything is measured, that two TEPs share the load, that outages end, and that nothing is left behind.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use sluice_lab::Lab;
use support::program;

/// One lab at a time: each takes both cores.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this machine lets the test make namespaces and has the programs that it takes; says so where not.
fn possible(programs: &[&str]) -> bool {
    let root = nix::unistd::geteuid().is_root();
    let arguments =
        if root { &["-n", "-m", "-p", "-f", "true"][..] } else { &["-U", "-r", "-n", "true"][..] };
    let runs = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !runs("unshare", arguments) {
        eprintln!("NOT TESTED: no namespaces here");
        return false;
    }
    let missing: Vec<_> = programs.iter().filter(|program| !runs(program, &["--version"])).collect();
    if !missing.is_empty() {
        eprintln!("NOT TESTED: not installed: {missing:?}");
    }
    missing.is_empty()
}

fn run(arguments: &[&str]) -> Output {
    let sluiced = program().ancestors().nth(2).unwrap().join("sluiced");
    let mut command = Command::new(program());
    command.args(arguments).arg("--json").arg("--sluiced").arg(sluiced).stdin(Stdio::null());
    command.output().unwrap()
}

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}: {errors}", output.status))
}

fn rows<'a>(report: &'a Value, key: &str) -> &'a Vec<Value> {
    let sections = report["sections"].as_array().unwrap();
    let section = sections.iter().find(|section| section["key"] == key);
    section.unwrap_or_else(|| panic!("{key}: {report}"))["table"]["rows"].as_array().unwrap()
}

fn value(row: &Value, cell: &str) -> f64 {
    row["cells"][cell]["value"].as_f64().unwrap_or_else(|| panic!("{cell}: {row}"))
}

/// Both directions: with one TEP one uplink carries all, with flows placed by load both carry some. How much more that is in all, the bench has to
/// say on a machine that does nothing else.
#[test]
fn two_teps_share_the_load_where_flows_are_placed_by_it() {
    if !possible(&["iperf3"]) {
        return;
    }
    let _turn = turn();
    for direction in [&[][..], &["--reverse"]] {
        let mut arguments = vec!["bench", "tep-group", "--repeat", "1", "--trial-s", "5"];
        arguments.extend(direction);
        let output = run(&arguments);
        let report = json(&output);
        assert!(output.status.success() && report["complete"] == true, "{report}");
        let rates = rows(&report, "rates");
        assert_eq!(rates.len(), 5, "four workloads and their sum");
        let total = rates.last().unwrap();
        let streams: f64 = rates[..4].iter().map(|row| value(row, "load-aware")).sum();
        assert!((streams / value(total, "load-aware") - 1.0).abs() < 1e-6);
        assert_eq!(value(total, "document-group"), 4430.0);
        let factors = rows(&report, "factors");
        let [single, load_aware] = [&factors[0], &factors[2]];
        assert!(value(single, "uplink-1") > 99.0 || value(single, "uplink-2") > 99.0, "{single}");
        assert!(value(load_aware, "factor") > 0.0, "{load_aware}");
        assert!(value(load_aware, "uplink-1") > 10.0 && value(load_aware, "uplink-2") > 10.0, "{load_aware}");
        assert_eq!(rows(&report, "runs").len(), 1);
    }
    assert!(!Lab::names().unwrap().iter().any(|name| name.starts_with("bench-tep")), "the lab is gone");
}

/// The runs of one fault, by direction.
fn faults(name: &str) -> Vec<Value> {
    let output = run(&["lab", "faults", name, "--repeat", "1"]);
    let report = json(&output);
    println!("{report:#}");
    assert!(!Lab::names().unwrap().iter().any(|name| name.starts_with("faults-")), "the lab is gone");
    report.as_array().unwrap().clone()
}

/// The only run of a direction.
fn run_of<'a>(lines: &'a [Value], what: &str) -> &'a Value {
    let line = lines.iter().find(|line| line["what"] == what).unwrap_or_else(|| panic!("{what}: {lines:?}"));
    assert!(["met", "MISSED", "met but for *", "–"].contains(&line["verdict"].as_str().unwrap()));
    &line["runs"][0]
}

fn number(run: &Value, field: &str) -> u64 {
    run[field].as_u64().unwrap_or_else(|| panic!("{field}: {run}"))
}

/// An outage that ends well before its fault does, and loses no more than the flows that it is about.
fn ends(run: &Value) {
    assert!(number(run, "outage-ms") < 1_500, "{run}");
    assert!(number(run, "sent") > 1_500, "{run}");
}

#[test]
fn a_cut_link_is_left_by_whoever_sees_it_and_by_bfd() {
    if !possible(&[]) {
        return;
    }
    let _turn = turn();
    let lines = faults("cut-link");
    for what in ["edge → hosts, cut", "hosts → edge, cut", "edge → hosts, mended", "hosts → edge, mended"]
    {
        ends(run_of(&lines, what));
    }
    assert!(number(run_of(&lines, "hosts → edge, cut"), "lost") > 20, "BFD takes its time");
}

#[test]
fn a_path_that_swallows_everything_is_left_by_bfd() {
    if !possible(&[]) {
        return;
    }
    let _turn = turn();
    let lines = faults("black-hole");
    let swallowed = run_of(&lines, "hosts → edge, swallowed");
    ends(swallowed);
    assert!(number(swallowed, "lost") > 20, "{swallowed}");
    ends(run_of(&lines, "hosts → edge, mended"));
}

#[test]
fn a_path_that_loses_packets_loses_some_and_the_other_none() {
    if !possible(&[]) {
        return;
    }
    let _turn = turn();
    let lines = faults("loss");
    for multiplier in [3, 10] {
        let run = run_of(&lines, &format!("hosts → edge, multiplier {multiplier}"));
        let share = number(run, "lost") as f64 / number(run, "sent") as f64;
        assert!(share > 0.01 && share < 0.5, "{run}");
        assert!(run["found"].as_str().unwrap().contains("sessions went down"), "{run}");
    }
}

#[test]
fn a_link_that_flaps_costs_what_a_cut_does_each_time_at_most() {
    if !possible(&[]) {
        return;
    }
    let _turn = turn();
    let lines = faults("flap");
    for what in ["edge → hosts", "hosts → edge"] {
        let run = run_of(&lines, what);
        ends(run);
        assert!(number(run, "lost") < number(run, "sent") / 2, "{run}");
    }
}

#[test]
fn a_node_that_is_killed_is_left_for_another_and_found_again() {
    if !possible(&[]) {
        return;
    }
    let _turn = turn();
    let lines = faults("kill-node");
    ends(run_of(&lines, "hosts → edges, killed"));
    let again = run_of(&lines, "hosts → edges, started again");
    assert!(number(again, "lost") < number(again, "sent") / 2, "{again}");
}
