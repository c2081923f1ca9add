//! The whole bench on this machine: generator, node and echo as processes, in ordinary pages and under the ordinary scheduler, so that
//! it runs for any user. What is judged is that packets pass and are right, not how fast.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// How long an event may take before the test fails.
const LIMIT: Duration = Duration::from_secs(60);

/// The program that mounts the command, after it and what it starts were built like this test. The folder above it holds the others.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.ancestors().nth(2).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "sluice-node", "-p", "sluice-generator", "-p", "sluice-bench"]);
        cargo.args(["--bin", "sluiced", "--bin", "sluice-generator", "--example", "bench"]);
        cargo.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "the programs under test were built");
        profile.join("examples/bench")
    })
}

/// The command, with a folder of its own for everything that it makes.
fn forward(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["bench", "forward", "--no-huge-pages", "--no-realtime", "--json"]).args(arguments);
    command.env("TMPDIR", folder).stdin(Stdio::null());
    command
}

#[test]
fn packets_of_both_families_pass_both_ways_and_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--sizes", "64,1500", "--direction", "both", "--trial-ms", "1000", "--repeat", "1"];
    let output = forward(folder.path(), &arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let cases: Vec<&str> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
    assert_eq!(cases, ["both IPv4 64", "both IPv4 1500", "both IPv6 80", "both IPv6 1500"]);
    for row in rows {
        let number = |field: &str| row[field].as_f64().unwrap_or_else(|| panic!("{field}: {row}"));
        assert!(number("mpps") > 0.01 && number("ceiling_mpps") > 0.01, "{row}");
        assert!(number("cycles_per_packet") > 10.0, "{row}");
        assert!(number("hit_rate") > 0.9, "1,280 flows a direction are decided once: {row}");
        assert!(number("compared") > 500.0, "{row}");
        for never in ["wrong", "duplicates", "reordered", "foreign"] {
            assert_eq!(number(never), 0.0, "{never}: {row}");
        }
        assert!(number("loss") < 0.5 && number("loss_at_check") < 0.5, "{row}");
    }
    // On a shared machine the generator may be kept from receiving; what is lost then is what the node had no room for.
    for drop in report["drops"].as_array().unwrap() {
        assert_eq!(drop[0], "transmit-ring-full", "{report}");
    }
    assert_eq!(report["conditions"]["memory"], "ordinary pages");
    assert_eq!(report["conditions"]["realtime"], false);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn an_interrupt_ends_everything() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--sizes", "64", "--direction", "encap", "--family", "ipv4", "--trial-ms", "60000"];
    let mut bench =
        forward(folder.path(), &arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", bench.id());
    let end = Instant::now() + LIMIT;
    let started: Vec<i32> = loop {
        assert!(Instant::now() < end, "generator and node did not start");
        let text = std::fs::read_to_string(&children).unwrap();
        let pids: Vec<i32> = text.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        if pids.len() == 2 {
            break pids;
        }
        std::thread::yield_now();
    };
    kill(Pid::from_raw(bench.id().cast_signed()), Signal::SIGINT).unwrap();
    while bench.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "the bench did not end");
        std::thread::yield_now();
    }
    let output = bench.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("interrupted: everything that was started has been ended"), "{message}");
    for pid in started {
        assert!(kill(Pid::from_raw(pid), None).is_err(), "process {pid} still runs");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn the_document_that_is_shown_is_a_node_document() {
    let output = Command::new(program()).args(["bench", "forward", "--show-document"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let plan = sluice_intent::parse(&text, "shown.yaml").unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((plan.name.as_str(), plan.ports.len(), plan.workloads.len()), ("bench-edge", 2, 20));
}

#[test]
fn cores_that_cannot_be_used_are_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let output = forward(folder.path(), &["--generator-cores", "0", "--device-cores", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("name them with --generator-cores and --device-cores"), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
