//! What changes a node or follows packets through it: requests, questions and answers.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod support;

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sluice_control::{
    Answer, CaptureDirection, Reply, Request, RingDirection, TracePacket, TracePayload, TraceProtocol,
};
use support::{Event, FakeNode, PATIENCE, Reaction, answers, ran, run, sluice};

fn example(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

#[test]
fn settings_are_requests() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    let run = |line| run(directory.path(), line).succeeded();
    assert_eq!(
        run("set dataplane ring-size rx 1024"),
        "receive rings will have 1024 descriptors after 'restart service dataplane'; to keep that, write it into the node document\n"
    );
    run("set dataplane ring-size tx 4096");
    assert_eq!(
        run("set dataplane flow-cache disabled"),
        "the flow cache is disabled: every packet is decided afresh\n"
    );
    assert_eq!(
        run("set dataplane flow-cache enabled --json"),
        "{\n  \"done\": \"the flow cache is enabled\"\n}\n"
    );
    assert_eq!(run("set dataplane profile enabled"), "the profile is enabled\n");
    assert_eq!(run("set dataplane profile disabled"), "the profile is disabled\n");
    assert_eq!(run("set tep tep-2 recover"), "TEP 'tep-2' is used again\n");
    assert_eq!(
        node.requests(),
        [
            Request::SetRingSize { direction: RingDirection::Rx, size: 1024 },
            Request::SetRingSize { direction: RingDirection::Tx, size: 4096 },
            Request::SetFlowCache { enabled: false },
            Request::SetFlowCache { enabled: true },
            Request::SetProfile { enabled: true },
            Request::SetProfile { enabled: false },
            Request::RecoverTep { name: "tep-2".into() },
        ]
    );
}

#[test]
fn a_restart_without_a_terminal_needs_yes() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    let error = run(directory.path(), "restart service dataplane").failed(2);
    assert!(error.contains("--yes"), "{error}");
    assert_eq!(node.requests(), []);
    let done = run(directory.path(), "restart service dataplane --yes").succeeded();
    assert_eq!(done, "the data plane was restarted\n");
    assert_eq!(node.requests(), [Request::RestartDataplane]);
}

#[test]
fn a_valid_document_goes_to_the_node_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    let file = example("edge.yaml");
    let document = std::fs::read_to_string(&file).unwrap();
    let shown = ran(sluice(directory.path()).arg("apply").arg(&file)).succeeded();
    assert_eq!(
        shown,
        "Configuration 8 is in force.\n  segment web was added\n  workload vm-3 moved to 172.16.1.11\n"
    );

    let mut child = sluice(directory.path())
        .args(["apply", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(document.as_bytes()).unwrap();
    let shown: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(shown["generation"], json!(8));

    let apply = |file: &str| Request::Apply { document: document.clone(), file: file.into() };
    assert_eq!(node.requests(), [apply(file.to_str().unwrap()), apply("standard input")]);
}

#[test]
fn a_wrong_document_shows_every_mistake_and_never_reaches_the_node() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    let file = directory.path().join("wrong.yaml");
    std::fs::write(&file, "version: 1\nname: host-1\nrole: hosts\nportz: []\n").unwrap();
    let error = ran(sluice(directory.path()).arg("apply").arg(&file)).failed(1);
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(lines[0].starts_with("error: ") && lines[0].contains("is not valid"), "{error}");
    let file = file.display();
    assert!(lines[1].starts_with(&format!("{file}:3: role: 'hosts' is not one of")), "{error}");
    assert!(lines[2].starts_with(&format!("{file}:4: portz")), "{error}");

    for (name, contents) in
        [("binary.yaml", &b"\xff\xfe\0"[..]), ("empty.yaml", b""), ("list.yaml", b"- 1\n")]
    {
        let file = directory.path().join(name);
        std::fs::write(&file, contents).unwrap();
        let error = ran(sluice(directory.path()).arg("apply").arg(&file)).failed(1);
        assert!(error.contains(name), "{error}");
    }
    let error = ran(sluice(directory.path()).arg("apply").arg(directory.path())).failed(1);
    assert!(error.contains("cannot be read"), "{error}");
    let error = run(directory.path(), "apply /nowhere/node.yaml").failed(1);
    assert!(error.contains("/nowhere/node.yaml cannot be read"), "{error}");
    assert_eq!(node.requests(), []);
}

#[test]
fn a_dry_run_needs_no_node() {
    let directory = tempfile::tempdir().unwrap();
    let check = |name| ran(sluice(directory.path()).args(["apply", "--dry-run"]).arg(example(name)));
    let shown = check("edge.yaml").succeeded();
    assert!(
        shown.ends_with(
            "edge.yaml is valid: edge edge-1 with 2 ports, 1 TEP, 1 segment, 1 workload, 1 gateway\n"
        ),
        "{shown}"
    );
    check("host.yaml").succeeded();
    check("everything.yaml").succeeded();
}

#[test]
fn the_schema_is_a_json_schema() {
    let directory = tempfile::tempdir().unwrap();
    let shown = run(directory.path(), "schema").succeeded();
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), sluice_intent::schema());
    assert!(shown.contains("https://json-schema.org/draft/2020-12/schema"), "{shown}");
}

#[test]
fn a_trace_reads_as_a_path() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "host-1");
    let shown =
        run(directory.path(), "trace from vm-1 to 192.0.2.10 --protocol tcp --port 80 --ttl 9").succeeded();
    insta::assert_snapshot!("trace", shown);
    let uplink =
        "trace uplink fp-eth1 --vlan 7 --source 2001:db8::1 --destination 2001:db8::2 --protocol icmp --json";
    let shown: Value = serde_json::from_str(&run(directory.path(), uplink).succeeded()).unwrap();
    assert_eq!(shown["steps"].as_array().unwrap().len(), 4);
    run(directory.path(), "trace frame fp-eth1 ffffffffffff 02:00:00:00:00:01 0806").succeeded();

    let payload = |protocol, source_port, destination_port, ttl| TracePayload {
        protocol,
        source_port,
        destination_port,
        ttl,
        length: 100,
    };
    assert_eq!(
        node.requests(),
        [
            Request::Trace(TracePacket::FromWorkload {
                workload: "vm-1".into(),
                destination: "192.0.2.10".parse().unwrap(),
                payload: payload(TraceProtocol::Tcp, 49152, 80, 9),
            }),
            Request::Trace(TracePacket::FromUplink {
                port: "fp-eth1".into(),
                vlan: Some(7),
                source: "2001:db8::1".parse().unwrap(),
                destination: "2001:db8::2".parse().unwrap(),
                payload: payload(TraceProtocol::Icmp, 0, 0, 64),
            }),
            Request::Trace(TracePacket::Frame {
                port: "fp-eth1".into(),
                frame: "ffffffffffff0200000000010806".into()
            }),
        ]
    );
    let error = run(directory.path(), "trace frame fp-eth1 zz").failed(2);
    assert!(error.contains("no hexadecimal digit"), "{error}");
}

#[test]
fn a_capture_ends_with_its_count() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    let line = "start capture interface fp-eth0 count 4200 direction input file uplink.pcap";
    let shown = ran(sluice(directory.path()).current_dir(directory.path()).args(line.split(' '))).succeeded();
    let file = directory.path().canonicalize().unwrap().join("uplink.pcap");
    assert_eq!(
        shown,
        format!("4,200 frames in {}; 3 frames came faster than they could be written\n", file.display())
    );
    assert_eq!(
        node.requests(),
        [Request::StartCapture {
            interface: "fp-eth0".into(),
            file,
            count: Some(4200),
            direction: CaptureDirection::Input,
            overwrite: false,
        }]
    );
    let error = run(directory.path(), "start capture interface fp-eth0 count 5").failed(2);
    assert!(error.contains("add 'file FILE'"), "{error}");
}

#[test]
fn a_capture_does_not_replace_a_file_unasked() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    let file = directory.path().join("a.pcap");
    std::fs::write(&file, "the only copy").unwrap();
    let line = format!("start capture interface fp-eth0 file {} count 4200", file.display());
    let error = run(directory.path(), &line).failed(1);
    assert!(error.contains("is there already; name another file, or add --overwrite"), "{error}");
    assert_eq!(node.requests(), []);
    run(directory.path(), &format!("{line} --overwrite")).succeeded();
    assert_eq!(node.requests().len(), 1);
}

fn start_capture(directory: &std::path::Path) -> Child {
    sluice(directory)
        .args("start capture interface fp-eth0 file /nowhere/all.pcap".split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
}

#[test]
fn interrupting_a_capture_prints_what_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::reacting(directory.path(), "edge-1", |_| {
        Reaction::ReplyAtEnd(Box::new(Reply::Answer(Answer::Captured(answers::captured(
            "/nowhere/all.pcap".into(),
        )))))
    });
    let child = start_capture(directory.path());
    assert_eq!(node.events.recv_timeout(PATIENCE), Ok(Event::Request));
    interrupt(&child);
    assert_eq!(node.events.recv_timeout(PATIENCE), Ok(Event::End));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("4,200 frames in /nowhere/all.pcap"));
}

#[test]
fn a_second_interrupt_does_not_wait_for_the_node() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::reacting(directory.path(), "edge-1", |_| Reaction::Silence);
    let mut child = start_capture(directory.path());
    assert_eq!(node.events.recv_timeout(PATIENCE), Ok(Event::Request));
    interrupt(&child);
    assert_eq!(node.events.recv_timeout(PATIENCE), Ok(Event::End));
    interrupt(&child);
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal(), stdout.as_str()), (Some(130), None, ""));
}

#[test]
fn the_lab_is_mounted() {
    let directory = tempfile::tempdir().unwrap();
    let help = run(directory.path(), "lab --help").succeeded();
    assert!(help.contains("sluice lab demo"), "{help}");
    // A whole command of the lab, in a state directory that holds no lab.
    let error = ran(sluice(directory.path()).env("XDG_RUNTIME_DIR", directory.path()).args([
        "lab",
        "status",
        "--name",
        "no-such-lab",
    ]))
    .failed(1);
    assert!(error.contains("lab 'no-such-lab' is not up"), "{error}");
}
