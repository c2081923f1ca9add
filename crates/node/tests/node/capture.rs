//! Packet captures to a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use sluice_control::{Answer, CaptureDirection, Captured, Client, ClientError, Request, RequestsEnd};

use crate::forwarding::{Ends, read_pcap};
use crate::lifecycle::quiet_folder;
use crate::support::documents::{self, DB_1, PORTS, ROUTER_MAC, WEB_1};
use crate::support::frames::{numbered, routed};
use crate::support::link::Link;
use crate::support::network::in_network;
use crate::support::node::Node;
use crate::support::wait_for;

/// Bytes that a pcap file begins with.
const HEADER: u64 = 24;

fn capture(interface: &str, file: &Path, count: Option<u64>, direction: CaptureDirection) -> Request {
    Request::StartCapture {
        interface: interface.into(),
        file: file.into(),
        count,
        direction,
        overwrite: false,
    }
}

/// What the end of a capture is answered with.
fn captured(answer: Answer) -> Captured {
    match answer {
        Answer::Captured(captured) => captured,
        other => panic!("{other:?} is not the end of a capture"),
    }
}

/// Sends datagrams one after the other, each when the one before has come through.
fn send(ends: &Ends, numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    let one = |number| {
        let frame = numbered(WEB_1, DB_1.0, number);
        let expected = routed(&frame, ROUTER_MAC, DB_1.1);
        ends.web_1.send(&frame);
        ends.db_1.expect("the datagram", |frame| (frame == expected).then_some(()));
        frame
    };
    numbers.map(one).collect()
}

/// Ends a capture when the test is done with it, or fails.
struct End(RequestsEnd);

impl Drop for End {
    fn drop(&mut self) {
        // Closed already in tests of the end.
        let _ = self.0.close();
    }
}

/// Waits until a capture to a file runs.
fn wait_for_header(file: &Path) {
    wait_for("the file's header", || {
        std::fs::metadata(file).is_ok_and(|found| found.len() >= HEADER).then_some(())
    });
}

/// Starts a capture on a connection of its own, runs `traffic` once it is running, and waits for its end.
fn during(node: &Node, request: &Request, file: &Path, traffic: impl FnOnce(&dyn Fn())) -> Captured {
    let mut client = Client::connect(&node.socket()).unwrap();
    let end = End(client.requests_end().unwrap());
    std::thread::scope(|scope| {
        let end = end;
        let answer = scope.spawn(move || client.ask(request).unwrap());
        wait_for_header(file);
        // The workers were told right before: an answer comes behind that.
        node.status();
        traffic(&|| end.0.close().unwrap());
        captured(answer.join().unwrap())
    })
}

#[test]
fn so_many_frames_are_captured() {
    in_network("capture::so_many_frames_are_captured", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        let file = node.folder().join("count.pcap");
        let mut sent = Vec::new();
        let request = capture("web-1", &file, Some(10), CaptureDirection::Input);
        let result = during(&node, &request, &file, |_| sent = send(&ends, 0..15));
        assert_eq!(result, Captured { frames: 10, missed: 0, file: file.display().to_string() });
        assert_eq!(read_pcap(&file), sent[..10]);
        assert_read_by_tshark(&file, 10);

        // Once more, in its place.
        let Request::StartCapture { interface, file: path, direction, .. } = request else { unreachable!() };
        let request =
            Request::StartCapture { interface, file: path, count: Some(1), direction, overwrite: true };
        let long = std::fs::metadata(&file).unwrap().len();
        let mut client = Client::connect(&node.socket()).unwrap();
        std::thread::scope(|scope| {
            let answer = scope.spawn(move || client.ask(&request).unwrap());
            wait_for("the file to be replaced", || {
                let length = std::fs::metadata(&file).unwrap().len();
                (HEADER..long).contains(&length).then_some(())
            });
            sent = send(&ends, 20..21);
            assert_eq!(captured(answer.join().unwrap()).frames, 1);
        });
        assert_eq!(read_pcap(&file), sent);
    });
}

#[test]
fn a_capture_ends_with_its_connection() {
    in_network("capture::a_capture_ends_with_its_connection", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        let file = node.folder().join("output.pcap");
        let request = capture("db-1", &file, None, CaptureDirection::Output);
        let mut sent = Vec::new();
        let result = during(&node, &request, &file, |close| {
            let second = node.refused(&capture(
                "web-1",
                &node.folder().join("second.pcap"),
                None,
                CaptureDirection::Dual,
            ));
            assert_eq!(second, format!("a capture to {} is running; end it first", file.display()));
            sent = send(&ends, 0..5);
            close();
        });
        assert_eq!((result.frames, result.missed), (5, 0));
        let expected: Vec<Vec<u8>> = sent.iter().map(|frame| routed(frame, ROUTER_MAC, DB_1.1)).collect();
        assert_eq!(read_pcap(&file), expected);
        assert_read_by_tshark(&file, 5);

        // Nothing is left of it: the next one starts, and a client that is gone ends it as well.
        let file = node.folder().join("gone.pcap");
        let mut client = std::os::unix::net::UnixStream::connect(node.socket()).unwrap();
        let request = serde_json::to_string(&capture("web-1", &file, None, CaptureDirection::Dual)).unwrap();
        std::io::Write::write_all(&mut client, format!("{request}\n").as_bytes()).unwrap();
        wait_for_header(&file);
        drop(client);
        let third = node.folder().join("third.pcap");
        let request = capture("web-1", &third, Some(1), CaptureDirection::Dual);
        wait_for("the capture of the client that is gone to end", || {
            let mut client = Client::connect(&node.socket()).unwrap();
            std::thread::scope(|scope| {
                let ask = scope.spawn(|| match client.ask(&request) {
                    Err(ClientError::Refused(said)) if said.contains("is running") => None,
                    answer => Some(answer.unwrap()),
                });
                while !ask.is_finished() {
                    send(&ends, 100..101);
                }
                ask.join().unwrap()
            })
        });
        assert_eq!(read_pcap(&third).len(), 1);
    });
}

#[test]
fn what_cannot_be_captured_is_refused() {
    let node = Node::start_in(quiet_folder());
    let any = CaptureDirection::Dual;
    let said = node.refused(&capture("eth7", &node.folder().join("a.pcap"), None, any));
    assert_eq!(said, "there is no port 'eth7'; this node has web-1, db-1, fp-eth0, fp-eth1");
    let said = node.refused(&capture("web-1", &node.folder().join("nowhere/a.pcap"), None, any));
    assert!(
        said.contains("nowhere/a.pcap cannot be written; name a file that the node may create"),
        "{said}"
    );
    assert!(!node.folder().join("a.pcap").exists());

    let there = node.folder().join("there.pcap");
    std::fs::write(&there, "somebody's work").unwrap();
    let said = node.refused(&capture("web-1", &there, None, any));
    let expected = "exists and is not empty, so it is left alone; name another file, or say that it is to be overwritten";
    assert_eq!(said, format!("{} {expected}", there.display()));
    assert_eq!(std::fs::read(&there).unwrap(), b"somebody's work");
    for special in [node.folder(), Path::new("/dev/null"), &node.socket()] {
        let said = node.refused(&capture("web-1", special, None, any));
        assert!(said.contains("is neither a file nor a pipe"), "{said}");
    }
}

#[test]
fn a_pipe_without_a_reader_does_not_hold_the_node_up() {
    let node = Node::start_in(quiet_folder());
    let pipe = node.folder().join("pipe");
    mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let said = node.refused(&capture("web-1", &pipe, None, CaptureDirection::Dual));
    assert_eq!(said, format!("nobody reads the pipe {}; start its reader first", pipe.display()));
    assert_eq!(node.status().generation, 1);
}

#[test]
fn a_capture_to_a_pipe_is_read_while_it_runs_and_a_reader_that_stops_is_not_waited_for() {
    in_network(
        "capture::a_capture_to_a_pipe_is_read_while_it_runs_and_a_reader_that_stops_is_not_waited_for",
        &PORTS,
        || {
            let ends = Ends::with_stations();
            let node = ends.node();
            let path = node.folder().join("pipe");
            mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
            let mut pipe = File::options().read(true).write(true).open(&path).unwrap();
            let mut client = Client::connect(&node.socket()).unwrap();
            let end = End(client.requests_end().unwrap());
            let request = capture("web-1", &path, None, CaptureDirection::Input);
            std::thread::scope(|scope| {
                let end = end;
                let answer = scope.spawn(move || client.ask(&request));
                let mut header = [0; HEADER as usize];
                pipe.read_exact(&mut header).unwrap();
                node.status();
                let sent = send(&ends, 0..1);
                let mut record = vec![0; 16 + sent[0].len()];
                pipe.read_exact(&mut record).unwrap();
                assert_eq!(record[16..], sent[0]);

                // More than a pipe holds, which is 64 KiB: the node goes on, and says in the end that not everything was taken.
                send(&ends, 1..1500);
                assert_eq!(node.status().generation, 1);
                drop(end);
                let said = answer.join().unwrap().unwrap_err().to_string();
                assert!(said.contains("pipe cannot be written: its reader takes nothing"), "{said}");
            });
            // Nothing is left of it.
            let file = node.folder().join("next.pcap");
            let request = capture("web-1", &file, Some(1), CaptureDirection::Input);
            let result = during(&node, &request, &file, |_| drop(send(&ends, 30..31)));
            assert_eq!((result.frames, result.missed), (1, 0));
        },
    );
}

#[test]
fn frames_that_a_port_does_not_take_are_not_captured() {
    in_network(
        "capture::frames_that_a_port_does_not_take_are_not_captured",
        &["web-1", "fp-eth0", "fp-eth1"],
        || {
            let folder = tempfile::tempdir().unwrap();
            let memif = format!("kind: memif, socket: {}/memif.sock, role: server", folder.path().display());
            let node = Node::start(&documents::with_device("db-1", &memif));
            let web_1 = Link::open("web-1");
            let file = node.folder().join("output.pcap");
            let request = capture("db-1", &file, None, CaptureDirection::Output);
            let result = during(&node, &request, &file, |close| {
                (0..10).for_each(|number| web_1.send(&numbered(WEB_1, DB_1.0, number)));
                wait_for("the port's drops", || (node.port_statistics("db-1").tx_drops == 10).then_some(()));
                close();
            });
            assert_eq!((result.frames, result.missed), (0, 0), "no memif client is there to take them");
        },
    );
}

/// tshark, which is not ours, reads so many UDP datagrams with good checksums.
fn assert_read_by_tshark(file: &Path, frames: usize) {
    let mut command = Command::new("tshark");
    command.args(["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-r"]).arg(file);
    command.args([
        "-T",
        "fields",
        "-e",
        "ip.checksum.status",
        "-e",
        "udp.checksum.status",
        "-e",
        "udp.dstport",
    ]);
    let Ok(output) = command.env("WIRESHARK_CONFIG_DIR", file.with_extension("wireshark")).output() else {
        println!("tshark is not installed: the capture was read by this test only");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    assert_eq!(text.lines().collect::<Vec<_>>(), vec!["1\t1\t5000"; frames], "{complaint}");
}
