//! The whole bench on this machine: generator, node and echo as processes, in ordinary pages and under the ordinary scheduler, so that
//! it runs for any user. What is judged is that packets pass and are right, not how fast.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::program;

/// How long an event may take before the test fails.
const LIMIT: Duration = Duration::from_secs(60);

/// A scenario, with a folder of its own for everything that it makes.
fn scenario(folder: &Path, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["bench", name, "--no-huge-pages", "--no-realtime", "--json"]).args(arguments);
    command.env("TMPDIR", folder).current_dir(folder).stdin(Stdio::null());
    command
}

/// The report of a scenario that ends well, and leaves nothing behind but `files`.
fn report(name: &str, arguments: &[&str], files: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let output = scenario(folder.path(), name, arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}{errors}", String::from_utf8_lossy(&output.stdout));
    let mut left: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort_unstable();
    assert_eq!(left, files, "what is left behind");
    for file in files.iter().filter(|file| file.ends_with(".html")) {
        let page = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains(name));
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((report["scenario"].as_str(), report["complete"].as_bool()), (Some(name), Some(true)));
    assert_eq!(report["environment"]["packet_memory"], "ordinary pages");
    assert_eq!(report["environment"]["scheduler"], "ordinary");
    let complaints = report["notes"].as_array().unwrap().iter().filter(|note| note["severity"] == "error");
    assert_eq!(complaints.count(), 0, "{report}");
    report
}

/// The rows of a section's table.
fn rows<'a>(report: &'a Value, section: &str) -> &'a [Value] {
    let sections = report["sections"].as_array().unwrap();
    let found = sections.iter().find(|found| found["key"] == section);
    let found = found.unwrap_or_else(|| panic!("no section {section}: {report}"));
    found["table"]["rows"].as_array().unwrap()
}

/// A label of a row.
fn label<'a>(row: &'a Value, column: &str) -> &'a str {
    row["cells"][column]["text"].as_str().unwrap_or_else(|| panic!("{column}: {row}"))
}

/// A number that was measured.
fn measured(row: &Value, column: &str) -> f64 {
    let cell = &row["cells"][column];
    assert_eq!(cell["kind"], "measured", "{column}: {row}");
    cell["value"].as_f64().unwrap()
}

#[test]
fn packets_of_both_families_pass_both_ways_and_are_right() {
    let arguments = ["--sizes", "80,1500", "--direction", "both", "--family", "ipv4,ipv6"];
    let more = ["--trial-ms", "1000", "--repeat", "1"];
    let report = report("forward", &[&arguments[..], &more].concat(), &[]);
    let rows = rows(&report, "forward");
    let cases: Vec<&str> = rows.iter().map(|row| label(row, "case")).collect();
    assert_eq!(cases, ["both IPv4 80", "both IPv4 1500", "both IPv6 80", "both IPv6 1500"]);
    for row in rows {
        assert!(measured(row, "mpps") > 0.0 && measured(row, "ceiling") > 0.0, "{row}");
        assert!(measured(row, "cycles") > 10.0, "{row}");
        assert!(measured(row, "hits") > 80.0, "1,280 flows a direction are decided once: {row}");
    }
}

/// A node that keeps up with so few frames loses none of them: with tunnels of the other kind, over the other family, in a mix of sizes.
#[test]
fn workloads_send_back_what_the_tester_sends() {
    let rates =
        ["--link-speed", "0.01", "--minimum-rate", "50", "--loss-tolerance", "50", "--trial-s", "0.2"];
    for (sizes, tunnels) in [
        ("256", &["--encapsulation", "geneve"][..]),
        ("imix-simple", &["--encapsulation", "vxlan", "--outer", "ipv6", "--family", "ipv6"]),
        ("96", &["--encapsulation", "none"]),
    ] {
        let sizes = if sizes == "imix-simple" { "imix:abc(a=96,b=594,c=1518)" } else { sizes };
        let arguments = [&["--quick", "--html", "page.html", "--sizes", sizes], &rates[..], tunnels].concat();
        let report = report("bme-1", &arguments, &["page.html"]);
        let row = &rows(&report, "throughput")[0];
        assert!(measured(row, "throughput") > 0.0, "{row}");
        let latencies = rows(&report, "latency");
        assert_eq!(latencies.len(), 3, "at 10, 50 and 90 % of the throughput");
        for row in latencies {
            assert!(measured(row, "latency-p50") <= measured(row, "latency-max"), "{row}");
        }
    }
}

/// With several searches of a case each number keeps what every one of them found, so that `compare` can tell change from noise.
#[test]
fn searches_that_are_repeated_are_kept() {
    let rates =
        ["--link-speed", "0.01", "--minimum-rate", "50", "--loss-tolerance", "50", "--trial-s", "0.2"];
    let arguments = [&["--quick", "--sizes", "256", "--repeat", "3"], &rates[..]].concat();
    let report = report("bme-1", &arguments, &[]);
    assert_eq!((&report["traffic"]["searches"], &report["traffic"]["trials"]), (&3.into(), &Value::Null));
    let row = &rows(&report, "throughput")[0];
    for column in ["throughput", "frames", "loss", "cpu", "core", "cycles", "ceiling"] {
        assert_eq!(row["cells"][column]["samples"].as_array().map(Vec::len), Some(3), "{column}: {row}");
    }
    for row in rows(&report, "latency") {
        assert_eq!(row["cells"]["latency-p50"]["samples"].as_array().map(Vec::len), Some(3), "{row}");
    }
}

#[test]
fn all_links_and_paths_are_used() {
    let rates =
        ["--link-speed", "0.01", "--minimum-rate", "50", "--loss-tolerance", "50", "--trial-s", "0.2"];
    let arguments = [&["--quick", "--sizes", "128"], &rates[..]].concat();
    assert_eq!(rows(&report("bme-2", &arguments, &[]), "throughput").len(), 1);
    let report = report("ecmp", &["--repeat", "1", "--trial-ms", "300"], &[]);
    let rows = rows(&report, "ecmp-64");
    assert_eq!(rows.len(), 8);
    let ceiling = &report["generator"]["ceiling_mpps"][0];
    assert!(ceiling[0] == "decap IPv4 64" && ceiling[1].as_f64().unwrap() > 0.0, "{ceiling}");
    for (paths, row) in (1..).zip(rows) {
        assert_eq!(label(row, "paths"), paths.to_string());
        let (least, most) = (measured(row, "least"), measured(row, "most"));
        assert!(
            least > 0.0 && least <= 100.0 / f64::from(paths) && most >= 100.0 / f64::from(paths),
            "{row}"
        );
    }
}

#[test]
fn a_flow_cache_that_is_off_is_hit_by_nothing() {
    let report = report("flow-cache", &["--repeat", "3", "--trial-ms", "300", "--direction", "encap"], &[]);
    let row = &rows(&report, "flow-cache")[0];
    assert!(measured(row, "hits") > 80.0, "{row}");
    assert!(measured(row, "on") < measured(row, "off") && measured(row, "ceiling") > 0.0, "{row}");
    let stages: Vec<&str> = rows(&report, "stages").iter().map(|row| label(row, "stage")).collect();
    for stage in ["rx", "parse", "flow-cache", "tier-0", "rewrite", "tx"] {
        assert!(stages.contains(&stage), "{stage} of {stages:?}");
    }
}

/// Documents are swapped while frames pass, and none of them is lost: an ordinary scenario with an argument of its own.
#[test]
fn a_new_document_costs_no_packet() {
    let arguments = ["--swaps", "2", "--trial-ms", "500", "--direction", "encap", "--html", "page.html"];
    let report = report("reload", &arguments, &["page.html"]);
    let packets = rows(&report, "reload");
    let labels: Vec<_> = packets.iter().map(|row| (label(row, "rate"), label(row, "documents"))).collect();
    let rates = ["the highest", "half of it"];
    assert_eq!(labels, rates.map(|rate| [(rate, "none"), (rate, "swapped in")]).concat());
    for row in packets.iter().filter(|row| label(row, "documents") == "swapped in") {
        assert!(measured(row, "sent") > 0.0 && measured(row, "lost") == 0.0, "{row}");
    }
    for row in rows(&report, "in-force") {
        assert_eq!(row["cells"]["median"]["samples"].as_array().unwrap().len(), 2, "{row}");
    }
    assert_eq!(report["documents"][0]["name"], "sluice");
}

/// What a process started, once there are so many.
fn children(of: u32, count: usize) -> Vec<i32> {
    let children = format!("/proc/{of}/task/{of}/children");
    let end = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < end, "{count} processes did not start");
        let text = std::fs::read_to_string(&children).unwrap();
        let pids: Vec<i32> = text.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        if pids.len() >= count {
            return pids;
        }
        std::thread::yield_now();
    }
}

#[test]
fn an_interrupt_ends_everything_and_leaves_a_report_of_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        ["--sizes", "64", "--direction", "encap", "--trial-ms", "60000", "--output", "partial.json"];
    let mut bench = scenario(folder.path(), "forward", &arguments);
    let mut bench = bench.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let started = children(bench.id(), 2);
    kill(Pid::from_raw(bench.id().cast_signed()), Signal::SIGINT).unwrap();
    let end = Instant::now() + LIMIT;
    while bench.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "the bench did not end");
        std::thread::yield_now();
    }
    let output = bench.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("interrupted: everything that was started has been ended"), "{message}");
    for pid in started {
        assert!(kill(Pid::from_raw(pid), None).is_err(), "process {pid} still runs");
    }
    let partial = std::fs::read_to_string(folder.path().join("partial.json")).unwrap();
    let partial: Value = serde_json::from_str(&partial).unwrap();
    assert_eq!(partial["complete"], false);
    assert!(partial["incomplete_because"].as_str().unwrap().contains("interrupted"), "{partial}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}

/// The link goes down in the middle of a search; the search ends, and says why.
#[test]
fn a_node_that_dies_ends_the_search_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--sizes", "256", "--trial-s", "10", "--link-speed", "0.01", "--output", "partial.json"];
    let mut bench = scenario(folder.path(), "bme-1", &arguments);
    let bench = bench.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < end, "no node was under load");
        let under_load = |pid: &&i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let ticks =
                stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(11)?.parse().ok());
            // Its worker polls from the beginning: two seconds of it are in the middle of the first trial.
            name.trim() == "sluiced" && ticks.unwrap_or(0u64) >= 200
        };
        if let Some(node) = children(bench.id(), 1).iter().find(under_load) {
            kill(Pid::from_raw(*node), Signal::SIGKILL).unwrap();
            break;
        }
        std::thread::yield_now();
    }
    let output = bench.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("a link went down during a trial"), "{message}");
    let partial = std::fs::read_to_string(folder.path().join("partial.json")).unwrap();
    let partial: Value = serde_json::from_str(&partial).unwrap();
    assert_eq!(
        (&partial["complete"], &partial["sections"]),
        (&Value::Bool(false), &Value::Array(Vec::new()))
    );
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    for (arguments, sentences) in [
        (&["--generator-cores", "0", "--device-cores", "0"][..], &["name them with --generator-cores"][..]),
        (&["--sizes", "63,9000,tiny"], &["63", "9000", "tiny"]),
        (&["--sizes", "64,1519", "--family", "ipv6"], &["64", "1519"]),
        (&["--html", "no/such/folder/page.html"], &["no/such/folder"]),
        (&["--link-speed", "0"], &["above 0"]),
        (&["--loss-tolerance", "100"], &["below 100"]),
        (&["--trial-s", "nan"], &["above 0"]),
        (&["--uplink", "eth0", "--downlink", "af_packet:x"], &["af_packet:INTERFACE"]),
        (&["--uplink", "af_packet:x", "--downlink", "af_packet:x"], &["af_packet:x is named twice"]),
        (&["--uplink", "af_packet:x", "--downlink", "af_packet:y"], &["--device-uplink"]),
        (&["--direction", "loop"], &["no direction `loop`"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = scenario(folder.path(), "forward", arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        for sentence in sentences {
            assert!(message.contains(sentence), "{arguments:?}: {message}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn arguments_that_a_scenario_does_not_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        scenario(folder.path(), "reload", &["--retries", "3", "--loss-tolerance", "1"]).output().unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("--loss-tolerance, --retries says nothing here"), "{message}");
}

#[test]
fn the_document_that_is_shown_is_a_node_document() {
    let output = Command::new(program()).args(["bench", "forward", "--show-document"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let plan = sluice_intent::parse(&text, "shown.yaml").unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((plan.name.as_str(), plan.ports.len(), plan.workloads.len()), ("bench-edge", 2, 20));
}

/// Runs a bench behind a script that makes its links, in namespaces that end with it; none where there are no namespaces.
fn in_namespaces(folder: &Path, links: &str, bench: &Command) -> Option<Output> {
    let namespaces =
        Command::new("unshare").args(["--user", "--map-root-user", "--net", "true"]).output().unwrap();
    if !namespaces.status.success() {
        eprintln!("NOT TESTED: no namespaces here: {}", String::from_utf8_lossy(&namespaces.stderr));
        return None;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--net", "--mount-proc", "--fork", "--pid"]);
    unshare.args(["sh", "-c", links, "sh"]).arg(bench.get_program()).args(bench.get_args());
    unshare.env("TMPDIR", folder).current_dir(folder).stdin(Stdio::null());
    Some(unshare.output().unwrap())
}

/// Two veth pairs in a network namespace of their own: the generator at one end of each, the node at the other.
#[test]
fn ports_of_the_kernel_are_links_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let links = "set -e
        for side in up down; do
            ip link add g-$side type veth peer name d-$side
            sysctl -qw net.ipv6.conf.g-$side.disable_ipv6=1 net.ipv6.conf.d-$side.disable_ipv6=1
            ip link set g-$side up; ip link set d-$side up
        done
        exec \"$@\"";
    let bench = scenario(
        folder.path(),
        "bme-1",
        &[
            &["--quick", "--sizes", "256", "--link-speed", "0.002", "--minimum-rate", "50"][..],
            &["--loss-tolerance", "50", "--trial-s", "0.3", "--trial-ms", "300"],
            &["--uplink", "af_packet:g-up", "--device-uplink", "af_packet:d-up"],
            &["--downlink", "af_packet:g-down", "--device-downlink", "af_packet:d-down"],
        ]
        .concat(),
    );
    let Some(output) = in_namespaces(folder.path(), links, &bench) else { return };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{errors}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(measured(&rows(&report, "throughput")[0], "throughput") > 0.0, "{report}");
    let ports: Vec<&str> = report["environment"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| port["name"].as_str().unwrap())
        .collect();
    assert_eq!(ports, ["af_packet:g-up", "af_packet:g-down"]);
}

/// Linux as a router between two ports of the generator, in a namespace of its own: it is set up as `--show-document` says, started by nobody, and
/// found by its answers.
#[test]
fn a_device_that_is_no_node_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let router = "set -e
        unshare --net sleep infinity & device=$!
        until [ \"$(readlink /proc/$device/ns/net)\" != \"$(readlink /proc/self/ns/net)\" ]; do :; done
        in_device() { nsenter --net=/proc/$device/ns/net \"$@\"; }
        sysctl -qw net.ipv6.conf.default.disable_ipv6=1
        in_device sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv4.ip_forward=1
        for side in up down; do
            ip link add g-$side type veth peer name d-$side netns $device
            ip link set g-$side up; in_device ip link set d-$side up
        done
        in_device ip address add 192.0.2.2/27 dev d-up
        in_device ip address add 172.16.0.1/24 dev d-down
        in_device ip route add 198.18.0.0/26 via 192.0.2.1
        in_device ip route add 10.10.20.0/24 via 172.16.0.2
        \"$@\"";
    let ports = ["--uplink", "af_packet:g-up", "--downlink", "af_packet:g-down", "--encapsulation", "none"];
    let rates = ["--link-speed", "0.002", "--minimum-rate", "50", "--loss-tolerance", "50"];
    let arguments =
        [&["--device", "external", "--quick", "--sizes", "256", "--trial-s", "0.3"], &ports[..], &rates]
            .concat();
    let bench = scenario(folder.path(), "bme-1", &arguments);
    let Some(output) = in_namespaces(folder.path(), router, &bench) else { return };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{errors}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &rows(&report, "throughput")[0];
    assert!(measured(row, "throughput") > 0.0 && measured(row, "ceiling") > 0.0, "{row}");
    assert_eq!(row["cells"]["cycles"]["kind"], "not-measured", "nobody asks it: {row}");
    assert_eq!(rows(&report, "latency").len(), 3);
    let cores = report["environment"]["cores"].as_array().unwrap();
    assert_eq!(cores.len(), 1, "the generator's alone: {cores:?}");
    let setup = &report["documents"][0];
    assert_eq!(setup["name"], "external");
    assert!(setup["text"].as_str().unwrap().contains("10.10.20.0/24 via 172.16.0.2"), "{setup}");
}

/// A device that does not answer is told by its link and address; an address of the wrong kind of device by its argument.
#[test]
fn a_device_that_is_not_there_is_told() {
    for (name, arguments, sentence) in [
        ("forward", &["--device", "external"][..], "leave out --device external, or run bme-1"),
        ("bme-1", &["--device", "external"], "name those of the generator with --uplink and --downlink"),
        ("bme-1", &["--device-router-mac", "02:00:00:00:00:01"], "with --device external alone"),
        (
            "bme-2",
            &["--device", "external", "--uplink", "af_packet:a", "--downlink", "af_packet:b"],
            "this needs 2 uplinks and 2 downlinks",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = scenario(folder.path(), name, arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(sentence), "{arguments:?}: {message}");
    }
    let show = ["bench", "bme-2", "--device", "external", "--show-document", "--encapsulation", "none"];
    let output = Command::new(program()).args(show).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("uplink 1: address 192.0.2.34/27"), "{text}");
    assert!(text.contains("a LAG of 2 downlinks (LACP): address 172.16.0.1/24"), "{text}");
}

/// Behind the first round there is something to tell.
#[test]
fn an_interrupted_scenario_tells_what_it_has_measured() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--sizes", "64", "--direction", "encap", "--trial-ms", "200", "--repeat", "100"];
    let mut bench = scenario(folder.path(), "forward", &arguments);
    let bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Generator and node, generator and echo; a round is over when the echo was paused once more than at its start.
    let started = children(bench.id(), 4);
    let cpu = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(11)?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let end = Instant::now() + LIMIT;
    while cpu(started[3]) < 100 {
        assert!(Instant::now() < end, "the echo was not under load");
        std::thread::yield_now();
    }
    kill(Pid::from_raw(bench.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = bench.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["complete"], false);
    let row = &rows(&report, "forward")[0];
    assert!(
        measured(row, "cycles") > 10.0 && row["cells"]["loss-at-check"]["kind"] == "not-measured",
        "{row}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}
