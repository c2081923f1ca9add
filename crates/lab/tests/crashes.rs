//! Labs whose parts die: sluiced, init, and `up` itself. A stub takes sluiced's place; what is tested is the lab.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{As, HOST, PAIR, Runner, text, until, with};

/// A sluiced that never listens.
const SILENT: &str = "#!/bin/sh\necho waiting for the device\nexec sleep 600\n";

fn pid(value: &Value) -> i32 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no pid")) as i32
}

fn end(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

fn daemons(lab: &mut Runner) {
    let (file, stub) = (lab.file("host.yaml", HOST), lab.example("stub_node"));
    let name = lab.up("daemon", &file, &["--sluiced", &stub]);
    let status = lab.status(&name).unwrap();
    let kind = status["port_kind"].as_str().unwrap();
    assert!(["af_xdp", "af_packet"].contains(&kind), "{kind}");
    assert!(!status["port_kind_reason"].as_str().unwrap().is_empty());
    let node = lab.node(&name, "host-1");
    assert_eq!((&node["kind"], &node["state"]), (&"sluiced".into(), &"up".into()));
    let process = pid(&node["pid"]);
    let line = std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap().replace('\0', " ");
    let state = lab.state(&name);
    let state = state.display();
    assert!(
        line.ends_with(&format!("--config {state}/nodes/host-1.yaml --socket {state}/run/host-1.sock ")),
        "{line}"
    );
    // The stub shows the document that it was given.
    let log = std::fs::read_to_string(format!("{state}/log/host-1.log")).unwrap();
    assert!(log.contains(&format!("kind: {kind}")) && log.contains("name: host-1"), "{log}");
    for queues in ["rx-0", "rx-1", "tx-0", "tx-1"] {
        let path = format!("/sys/class/net/eth0/queues/{queues}");
        assert!(lab.exec(&name, "web-1", &["test", "-d", &path]).status.success(), "{path}");
    }
    let features = text(&lab.exec(&name, "web-1", &["ethtool", "-k", "eth0"]));
    for feature in [
        "tx-checksumming",
        "tcp-segmentation-offload",
        "generic-receive-offload",
        "generic-segmentation-offload",
    ] {
        assert!(features.contains(&format!("{feature}: off")), "{features}");
    }

    let traces = lab.traces(&name);
    end(process, Signal::SIGKILL);
    until("the end of sluiced in the status", || {
        lab.node(&name, "host-1")["state"] == "was ended by SIGKILL"
    });
    assert_eq!(lab.node(&name, "host-1")["pid"], Value::Null);
    lab.ok(&["down", "--name", &name]);
    traces.assert_gone();
}

#[test]
fn daemon_is_started_watched_and_ended_as_root() {
    with(As::Root, daemons);
}

#[test]
fn daemon_is_started_watched_and_ended_as_user() {
    with(As::User, daemons);
}

fn port_kind_is_chosen(lab: &mut Runner) {
    let (file, stub) = (lab.file("host.yaml", HOST), lab.example("stub_node"));
    let name = lab.up("kind", &file, &["--sluiced", &stub, "--port-kind", "af_packet"]);
    let status = lab.status(&name).unwrap();
    assert_eq!(
        (&status["port_kind"], &status["port_kind_reason"]),
        (&"af_packet".into(), &"as asked for".into())
    );
    let document = std::fs::read_to_string(lab.state(&name).join("nodes/host-1.yaml")).unwrap();
    assert!(document.contains("kind: af_packet"), "{document}");
}

#[test]
fn port_kind_can_be_chosen() {
    with(As::User, port_kind_is_chosen);
}

#[test]
fn user_without_rights_to_load_programs_gets_af_packet() {
    with(As::User, |lab| {
        let (file, stub) = (lab.file("host.yaml", HOST), lab.example("stub_node"));
        let name = lab.up("probe", &file, &["--sluiced", &stub]);
        let status = lab.status(&name).unwrap();
        assert_eq!(status["user_namespace"], true);
        // CAP_BPF of the first user namespace is not to be had here, whatever the kernel.
        assert_eq!(status["port_kind"], "af_packet", "{status}");
        assert!(
            status["port_kind_reason"].as_str().unwrap().starts_with("AF_XDP does not work here: "),
            "{status}"
        );
    });
}

fn failing_daemon(lab: &mut Runner) {
    let file = lab.file("host.yaml", HOST);
    let name = lab.name("fails");
    let up = |program: &str, seconds: &str| {
        lab.refused(&[
            "up",
            "--topology",
            &file,
            "--name",
            &name,
            "--sluiced",
            program,
            "--ready-timeout",
            seconds,
        ])
    };
    let error = up(&lab.file("dies", "#!/bin/sh\necho 'port web-1: no such device' >&2\nexit 3\n"), "30");
    assert!(error.contains("sluiced of node host-1 ended with code 3"), "{error}");
    assert!(error.contains("port web-1: no such device"), "{error}");
    assert!(!lab.state(&name).exists());

    let error = up(&lab.file("silent", SILENT), "1");
    assert!(error.contains("did not answer on its socket within 1000 ms"), "{error}");
    assert!(error.contains("waiting for the device"), "{error}");
    assert!(!lab.state(&name).exists());

    // A socket that accepts is not enough: a node listens before its ports are open.
    let stub = lab.example("stub_node");
    let error = up(&lab.file("mute", &format!("#!/bin/sh\nexec {stub} --silent \"$@\"\n")), "1");
    assert!(error.contains("did not answer on its socket within 1000 ms"), "{error}");
    assert!(!lab.state(&name).exists());

    let error = up("/nonexistent/sluiced", "1");
    assert!(error.contains("give --sluiced PATH"), "{error}");
}

#[test]
fn failing_daemon_shows_its_last_words_and_leaves_nothing_as_root() {
    with(As::Root, failing_daemon);
}

#[test]
fn failing_daemon_shows_its_last_words_and_leaves_nothing_as_user() {
    with(As::User, failing_daemon);
}

#[test]
fn daemon_that_ignores_sigterm_is_killed_after_five_seconds() {
    with(As::Root, |lab| {
        let stub = lab.example("stub_node");
        // Ignored signals stay ignored across exec.
        let stubborn = lab.file("stubborn", &format!("#!/bin/sh\ntrap '' TERM\nexec {stub} \"$@\"\n"));
        let file = lab.file("host.yaml", HOST);
        let name = lab.up("stubborn", &file, &["--sluiced", &stubborn]);
        let traces = lab.traces(&name);
        let begun = Instant::now();
        lab.ok(&["down", "--name", &name]);
        let took = begun.elapsed();
        assert!((Duration::from_secs(5)..Duration::from_secs(8)).contains(&took), "{took:?}");
        traces.assert_gone();
    });
}

fn killed_init(lab: &mut Runner) {
    let (file, stub) = (lab.file("host.yaml", HOST), lab.example("stub_node"));
    let name = lab.up("init", &file, &["--sluiced", &stub]);
    let traces = lab.traces(&name);
    assert_eq!(traces.seen(), traces.namespaces.len());
    let daemon = pid(&lab.node(&name, "host-1")["pid"]);
    end(pid(&lab.status(&name).unwrap()["init"]["pid"]), Signal::SIGKILL);
    until("the end of sluiced", || !std::path::Path::new(&format!("/proc/{daemon}")).exists());
    assert!(lab.refused(&["status", "--name", &name]).contains("is not up"));
    assert!(lab.state(&name).exists());
    assert!(lab.ok(&["down", "--name", &name]).contains("is down"));
    traces.assert_gone();
}

#[test]
fn down_after_killed_init_leaves_nothing_as_root() {
    with(As::Root, killed_init);
}

#[test]
fn down_after_killed_init_leaves_nothing_as_user() {
    with(As::User, killed_init);
}

fn stale(lab: &mut Runner) {
    let file = lab.file("pair.yaml", PAIR);
    let name = lab.up("stale", &file, &[]);
    let traces = lab.traces(&name);
    let init = pid(&lab.status(&name).unwrap()["init"]["pid"]);
    end(init, Signal::SIGKILL);
    until("the end of init", || lab.status(&name).is_none());
    lab.ok(&["up", "--topology", &file, "--name", &name]);
    assert_ne!(pid(&lab.status(&name).unwrap()["init"]["pid"]), init);
    assert!(lab.exec(&name, "a", &["ping", "-c", "1", "-w", "3", "192.0.2.2"]).status.success());
    traces.assert_no_holders();
}

#[test]
fn up_cleans_what_a_dead_lab_left_as_root() {
    with(As::Root, stale);
}

#[test]
fn up_cleans_what_a_dead_lab_left_as_user() {
    with(As::User, stale);
}

/// `up` that waits for a sluiced that never listens; the lab stands half built.
fn half_way(lab: &mut Runner, purpose: &str) -> (String, std::process::Child) {
    let (file, silent) = (lab.file("host.yaml", HOST), lab.file("silent", SILENT));
    let name = lab.name(purpose);
    let mut up = lab.command(&["up", "--topology", &file, "--name", &name, "--sluiced", &silent]);
    let child = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("a started sluiced", || {
        lab.status(&name).is_some_and(|status| status["nodes"][0]["pid"].is_i64() && status["ready"] == false)
    });
    (name, child)
}

fn killed_up(lab: &mut Runner) {
    let (name, mut up) = half_way(lab, "half");
    let traces = lab.traces(&name);
    up.kill().unwrap();
    up.wait().unwrap();
    lab.ok(&["down", "--name", &name]);
    traces.assert_gone();
}

#[test]
fn down_after_killed_up_leaves_nothing_as_root() {
    with(As::Root, killed_up);
}

#[test]
fn down_after_killed_up_leaves_nothing_as_user() {
    with(As::User, killed_up);
}

fn interrupted_up(lab: &mut Runner) {
    let (name, mut up) = half_way(lab, "sigint");
    let traces = lab.traces(&name);
    end(up.id().cast_signed(), Signal::SIGINT);
    assert_eq!(up.wait().unwrap().code(), Some(130));
    traces.assert_gone();
}

#[test]
fn interrupted_up_takes_everything_down_as_root() {
    with(As::Root, interrupted_up);
}

#[test]
fn interrupted_up_takes_everything_down_as_user() {
    with(As::User, interrupted_up);
}

/// Killed at many moments of its short life, `up` never leaves anything that `down` does not remove.
#[test]
fn up_killed_at_any_moment_is_cleaned() {
    with(As::Root, |lab| {
        let file = lab.file("pair.yaml", PAIR);
        let name = lab.name("moments");
        for milliseconds in (0..60).step_by(3) {
            let mut up = lab.command(&["up", "--topology", &file, "--name", &name]);
            let mut up = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // The moments are what is tested; nothing is waited for.
            std::thread::sleep(Duration::from_millis(milliseconds));
            up.kill().unwrap();
            up.wait().unwrap();
            let output = lab.lab(&["down", "--name", &name]);
            assert!(output.status.success(), "after {milliseconds} ms: {}", text(&output));
            until("the end of everything of the lab", || !mentioned(&name));
            assert!(!lab.state(&name).exists(), "after {milliseconds} ms");
        }
    });
}

/// Whether a process has the lab's directory in its arguments: init and what launches it do.
fn mentioned(name: &str) -> bool {
    let output = Command::new("ps").args(["-e", "-o", "args"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().any(|line| line.contains(&format!("sluice/lab/{name}")))
}
