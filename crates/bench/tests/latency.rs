//! The latency scenario on this machine: labs, nodes and ends as processes, under the ordinary scheduler. What is judged is that every case is
//! measured and that nothing is left behind, however the bench ends; not how long a transaction takes.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sluice_lab::Lab;
use support::program;
use tempfile::TempDir;

/// How long an event may take before the test fails.
const LIMIT: Duration = Duration::from_secs(60);
const CASES: [&str; 7] = [
    "layer 2",
    "routed",
    "1 node, switched",
    "1 node, routed",
    "2 nodes, no overlay",
    "2 nodes, overlay",
    "2 nodes, overlay, routed",
];

/// One run at a time: each takes both cores.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this machine lets the test make namespaces; says so where it does not.
fn namespaces() -> bool {
    let root = nix::unistd::geteuid().is_root();
    let arguments =
        if root { &["-n", "-m", "-p", "-f", "true"][..] } else { &["-U", "-r", "-n", "true"][..] };
    let possible = Command::new("unshare").args(arguments).status().is_ok_and(|status| status.success());
    if !possible {
        eprintln!("NOT TESTED: no namespaces here");
    }
    possible
}

/// The command, with a folder of its own for everything that it makes.
fn latency(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    let sluiced = program().ancestors().nth(2).unwrap().join("sluiced");
    command.args(["bench", "latency", "--no-realtime", "--json", "--sluiced"]).arg(sluiced).args(arguments);
    command.env("TMPDIR", folder.path()).stdin(Stdio::null());
    command
}

fn lab_of(bench: &Child) -> String {
    format!("bench-latency-{}", bench.id())
}

fn until(what: &str, mut event: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !event() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::yield_now();
    }
}

/// A run that does not end by itself, once its lab is up.
fn running(folder: &TempDir) -> Child {
    let mut command = latency(folder, &["--repeat", "100", "--trial-ms", "100"]);
    let bench = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ready = || Lab::open(&lab_of(&bench)).and_then(|lab| lab.status()).is_ok_and(|status| status.ready);
    until("the lab", ready);
    bench
}

fn section<'a>(report: &'a Value, key: &str) -> &'a Vec<Value> {
    let sections = report["sections"].as_array().unwrap();
    let section = sections.iter().find(|section| section["key"] == key);
    section.unwrap_or_else(|| panic!("{key}: {report}"))["table"]["rows"].as_array().unwrap()
}

fn value(row: &Value, cell: &str) -> f64 {
    row["cells"][cell]["value"].as_f64().unwrap_or_else(|| panic!("{cell}: {row}"))
}

#[test]
fn every_case_is_measured_captured_and_removed() {
    if !namespaces() {
        return;
    }
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let capture = Command::new("dumpcap").arg("--version").output().is_ok();
    let mut arguments = vec!["--repeat", "2", "--trial-ms", "2000", "--transactions", "200"];
    if capture {
        arguments.push("--pcap");
    } else {
        eprintln!("NOT TESTED: captures, since dumpcap is not installed");
    }
    let bench = latency(&folder, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lab = lab_of(&bench);
    let output = bench.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["complete"], true);
    for key in ["rr", "crr"] {
        let rows = section(&report, key);
        let names: Vec<&str> =
            rows.iter().map(|row| row["cells"]["case"]["text"].as_str().unwrap()).collect();
        assert_eq!(names, CASES);
        for row in rows {
            assert_eq!(row["cells"]["time-p50"]["samples"].as_array().unwrap().len(), 2, "{row}");
            assert!(
                value(row, "time-min") > 1.0 && value(row, "time-min") <= value(row, "time-max"),
                "{row}"
            );
            assert!(value(row, "by-rate") >= value(row, "time-min"), "{row}");
        }
    }
    let added = section(&report, "added");
    assert_eq!(added.len(), 12);
    assert!(added.iter().all(|row| row["cells"]["added"]["samples"].as_array().unwrap().len() == 2));
    let document = added.iter().filter(|row| row["cells"]["from"]["kind"] == "document");
    assert_eq!(document.count(), 3, "the document's ranges stand beside what it ran");
    for case in CASES.iter().filter(|_| capture) {
        let rows = section(&report, &format!("legs-{}", case.replace([' ', ','], "-")));
        // Four points have seven legs and the whole, two points three legs.
        assert_eq!(rows.len(), if case.starts_with('1') { 4 } else { 8 }, "{case}");
        let (whole, legs) = rows.split_last().unwrap();
        let sum: f64 = legs.iter().map(|leg| value(leg, "mean")).sum();
        assert!((sum / value(whole, "mean") - 1.0).abs() < 0.01, "{case}: {sum} of {whole}");
    }
    assert!(!Lab::names().unwrap().contains(&lab), "the lab is gone");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn an_interrupt_leaves_a_partial_report_and_no_lab() {
    if !namespaces() {
        return;
    }
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let bench = running(&folder);
    let lab = lab_of(&bench);
    kill(Pid::from_raw(bench.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = bench.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["complete"], false);
    assert!(report["incomplete_because"].as_str().unwrap().starts_with("interrupted"), "{report}");
    assert!(!Lab::names().unwrap().contains(&lab), "the lab is gone");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_bench_that_is_killed_leaves_no_lab() {
    if !namespaces() {
        return;
    }
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let mut bench = running(&folder);
    let lab = lab_of(&bench);
    let init = Lab::open(&lab).unwrap().status().unwrap().init;
    bench.kill().unwrap();
    bench.wait().unwrap();
    until("the end of the lab", || !init.is_alive() && !Lab::names().unwrap().contains(&lab));
}

#[test]
fn a_lab_that_cannot_be_built_is_told_in_one_sentence() {
    if !namespaces() {
        return;
    }
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    // A program that ends at once in the place of the node.
    let output = Command::new(program())
        .args(["bench", "latency", "--json", "--sluiced", "/bin/false"])
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("sluiced of node host-1 ended with code 1"), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn arguments_that_say_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, sentence) in [
        (&["--family", "ipv6"][..], "--family says nothing here"),
        (&["--encapsulation", "none"], "--encapsulation is vxlan or geneve"),
        (&["--pcap", "one.pcap"], "two captures at least are needed"),
        (&["--pcap", "/nonexistent/a.pcap", "/nonexistent/b.pcap"], "the capture /nonexistent/a.pcap"),
    ] {
        let output = latency(&folder, arguments).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(sentence), "{message}");
    }
}

#[test]
fn the_document_that_is_shown_is_a_topology() {
    let folder = tempfile::tempdir().unwrap();
    let output = latency(&folder, &["--show-document", "--encapsulation", "geneve"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let topology = sluice_lab::Topology::parse("shown", &text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(topology.daemons().count(), 2);
}
