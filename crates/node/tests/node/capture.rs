//! Packet captures to a file.

use std::path::Path;
use std::process::Command;

use sluice_control::{Answer, CaptureDirection, Captured, Client, Request};

use crate::forwarding::{Ends, read_pcap};
use crate::lifecycle::quiet_folder;
use crate::support::documents::{DB_1, PORTS, ROUTER_MAC, WEB_1};
use crate::support::frames::{numbered, routed};
use crate::support::network::in_network;
use crate::support::node::Node;
use crate::support::wait_for;

fn capture(interface: &str, file: &Path, count: Option<u64>, direction: CaptureDirection) -> Request {
    Request::StartCapture { interface: interface.into(), file: file.into(), count, direction }
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

/// Starts a capture on a connection of its own, runs `traffic` once it is running, and waits for its end.
fn during(node: &Node, request: &Request, file: &Path, traffic: impl FnOnce(&dyn Fn())) -> Captured {
    let mut client = Client::connect(&node.socket()).unwrap();
    let end = client.requests_end().unwrap();
    std::thread::scope(|scope| {
        let answer = scope.spawn(move || client.ask(request).unwrap());
        wait_for("the file", || file.exists().then_some(()));
        // The workers were told right after the file was made, in the same breath: an answer comes behind that.
        node.status();
        traffic(&|| end.close().unwrap());
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
        wait_for("the file", || file.exists().then_some(()));
        drop(client);
        let third = node.folder().join("third.pcap");
        let request = capture("web-1", &third, Some(1), CaptureDirection::Dual);
        wait_for("the capture of the client that is gone to end", || {
            let mut client = Client::connect(&node.socket()).unwrap();
            std::thread::scope(|scope| {
                let ask = scope.spawn(|| client.ask(&request).ok());
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
