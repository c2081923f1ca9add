//! A generator of two cores against an echo, over two veth pairs in a network namespace of their own. The kernel spreads what comes back over
//! the queues of both cores by its flows, not by who sent it: most of the frames come to another core than the one that numbered them.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use sluice_trial::message::{Answer, Command as Order, Load, TrialOrder, TrialResult};
use sluice_trial::traffic::{Direction, Expected, Family};

/// Makes the links, and runs an echo and the generator on them, each in a namespace of its own: the groups that AF_PACKET ports with several
/// queues join have numbers that two processes of one namespace may share by chance. The generator has this script's input and output.
const SCRIPT: &str = r#"set -e
    program=$1
    mkfifo echo
    # Its input is open as long as this shell runs, with which the namespace of processes ends.
    exec 3<>echo
    unshare --net sh -c '
        sysctl -qw net.ipv6.conf.default.disable_ipv6=1
        until ip link set e-up up 2>/dev/null && ip link set e-down up 2>/dev/null; do :; done
        exec "$0" echo --uplink af_packet:e-up --downlink af_packet:e-down --cores 1 --huge-pages off
    ' "$program" <echo >echo.log 2>&1 &
    until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
    sysctl -qw net.ipv6.conf.default.disable_ipv6=1
    for side in up down; do
        ip link add g-$side type veth peer name e-$side netns $!
        ip link set g-$side up
    done
    "$program" traffic --uplink af_packet:g-up --downlink af_packet:g-down --cores 0,1 --huge-pages off 3<&-
"#;

struct Generator {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Generator {
    fn answer(&mut self) -> Answer {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn ask(&mut self, order: &Order) -> Answer {
        writeln!(self.input, "{}", serde_json::to_string(order).unwrap()).unwrap();
        self.answer()
    }

    fn trial(&mut self, directions: &[Direction]) -> TrialResult {
        let order = TrialOrder {
            directions: directions.to_vec(),
            family: Family::Ipv4,
            frame_bytes: vec![60, 594],
            expected: Expected::Unchanged,
            load: Load::Rate { packets_per_second: 10_000.0 },
            duration_ms: 400,
            latency: true,
            arrivals: false,
        };
        match self.ask(&Order::Trial(order)) {
            Answer::Trial(result) => result,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_comes_to_another_core_than_it_was_sent_from_is_counted_once() {
    let namespace = ["--user", "--map-root-user", "--net", "--mount-proc", "--fork", "--pid", "--kill-child"];
    let possible = Command::new("unshare").args(namespace).arg("true").output().unwrap();
    if !possible.status.success() {
        eprintln!("NOT TESTED: no namespaces here: {}", String::from_utf8_lossy(&possible.stderr));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("unshare")
        .args(namespace)
        .args(["sh", "-c", SCRIPT, "sh", env!("CARGO_BIN_EXE_sluice-generator")])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut generator = Generator { child, input, output };
    let started = generator.answer();
    assert!(matches!(started, Answer::Started { .. }), "{started:?}");
    assert_eq!(generator.ask(&Order::WaitForLinks { timeout_ms: 10_000 }), Answer::LinksUp);
    for directions in [&[Direction::Encap, Direction::Decap][..], &[Direction::Encap]] {
        let result = generator.trial(directions);
        for stream in &result.streams {
            assert!((3_990..=4_010).contains(&stream.intended), "{result:?}");
            assert!(stream.received * 10 > stream.sent * 9 && stream.received <= stream.sent, "{result:?}");
            assert_eq!((stream.wrong, stream.duplicates, stream.too_late), (0, 0, 0), "{result:?}");
        }
        assert_eq!((result.foreign, result.link_down), (0, false), "{result:?}");
        let frames = result.latency.unwrap().frames;
        assert_eq!(frames, result.sum(|stream| stream.received));
    }
    drop(generator.input);
    assert!(generator.child.wait().unwrap().success());
}
