//! The frames, read by tshark, which this project did not write.

use std::io::Write;
use std::process::{Command, Stdio};

use sluice_protocols::lacp::Action;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::marker::{Marker, MarkerKind};
use sluice_wire::slow_protocols::MULTICAST;

use crate::support::{Conversation, OWN, PARTNER, READY, config, mac, secs};

/// What tshark is asked for, one column each.
const FIELDS: [&str; 12] = [
    "eth.src",
    "eth.dst",
    "lacp.version",
    "lacp.actor.sysid",
    "lacp.actor.key",
    "lacp.actor.port",
    "lacp.actor.state",
    "lacp.partner.sysid",
    "lacp.partner.port",
    "lacp.partner.state",
    "marker.tlvType",
    "_ws.malformed",
];

/// A capture file (the format of libpcap 2.4) with these frames.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for frame in frames {
        file.extend(words(&[0, 0, frame.len() as u32, frame.len() as u32]));
        file.extend(frame);
    }
    file
}

/// The columns of each frame; `None` where tshark is not installed.
fn tshark(frames: &[Vec<u8>]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.args(["-r", "-", "-n", "-T", "fields", "-E", "separator=/t", "-E", "occurrence=f"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = spawned.ok()?;
    child.stdin.take().unwrap().write_all(&pcap(frames)).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "tshark failed");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

fn frames_of(conversation: &mut Conversation) -> Vec<Vec<u8>> {
    let actions = std::iter::from_fn(|| conversation.lag.next_action());
    actions
        .filter_map(|action| if let Action::Send { frame, .. } = action { Some(frame) } else { None })
        .collect()
}

#[test]
fn tshark_reads_what_was_meant() {
    let mut conversation = Conversation::new(config(1));
    let mut frames = frames_of(&mut conversation);
    conversation.hear(0, READY);
    conversation.now = conversation.now.after(secs(2));
    conversation.lag.advance(conversation.now);
    frames.extend(frames_of(&mut conversation));
    let marker = Marker {
        kind: MarkerKind::Marker,
        requester_port: 1,
        requester_system: PARTNER,
        requester_transaction: 5,
    };
    let frame = FrameBuilder::new().ethernet(mac(200), MULTICAST).marker(marker).build().unwrap();
    conversation.lag.receive(0, &frame, conversation.now).unwrap();
    frames.extend(frames_of(&mut conversation));

    let (source, destination) = (mac(0).to_string(), MULTICAST.to_string());
    let (own, partner, none) = (OWN.to_string(), PARTNER.to_string(), "00:00:00:00:00:00");
    let Some(lines) = tshark(&frames) else {
        println!("tshark_reads_what_was_meant: SKIPPED, since tshark is not installed");
        return;
    };
    let line = |columns: [&str; 10]| -> Vec<String> {
        [source.as_str(), &destination].into_iter().chain(columns).map(str::to_owned).collect()
    };
    assert_eq!(lines.first(), Some(&line(["0x01", &own, "1", "1", "0xc5", none, "0", "0x02", "", ""])));
    let active = line(["0x01", &own, "1", "1", "0x3d", &partner, "100", "0x0d", "", ""]);
    assert!(lines.contains(&active), "{lines:?}");
    assert_eq!(lines.last(), Some(&line(["", "", "", "", "", "", "", "", "0x02", ""])));
}
