//! Captures whose answer is known: frames are built, their times chosen, and the files written as pcap and pcapng.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use pcap_file::{Endianness, TsResolution};
use sluice_wire::frame::FrameBuilder;
use sluice_wire::geneve::{Geneve, GeneveOption};
use sluice_wire::tcp::{Tcp, TcpFlags};
use sluice_wire::vxlan::Vxlan;
use sluice_wire::{MacAddr, Vni};
use tempfile::TempDir;

use super::*;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 10);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 12);
/// Bytes of each request and each response.
const BYTES: u32 = 1024;

/// What carries a frame at a point.
#[derive(Clone, Copy)]
enum Outer {
    Plain,
    Vxlan,
    Geneve,
}

/// The request of a transaction or its response, as it looks at a point.
fn frame(transaction: u32, request: bool, outer: Outer) -> Vec<u8> {
    let builder = match outer {
        Outer::Plain => FrameBuilder::new(),
        Outer::Vxlan => underlay().vxlan(50_000, Vxlan { vni: Vni::new(5001).ok() }),
        Outer::Geneve => {
            let mut header = Geneve::new(Vni::new(5001).unwrap());
            header.push_option(GeneveOption { class: 0x0101, kind: 1, data: &[1, 2, 3, 4] }).unwrap();
            underlay().geneve(50_000, header)
        }
    };
    let builder = builder.ethernet(A, B);
    let (ends, tcp) = segment(transaction, request);
    builder.ipv4(ends[0], ends[1]).tcp_header(tcp).payload(&[7; BYTES as usize]).build().unwrap()
}

fn underlay() -> FrameBuilder {
    FrameBuilder::new().ethernet(B, A).ipv4([172, 16, 1, 10].into(), [172, 16, 2, 10].into())
}

fn segment(transaction: u32, request: bool) -> ([Ipv4Addr; 2], Tcp) {
    let passed = transaction * BYTES;
    // The client's numbers run over during the connection.
    let (own, other) = (0_u32.wrapping_sub(3 * BYTES).wrapping_add(passed), 77 + passed);
    let flags = TcpFlags::PSH.and(TcpFlags::ACK);
    if request {
        let tcp = Tcp { sequence: own, acknowledgment: other, ..Tcp::new(40_000, 5201, flags) };
        ([CLIENT, SERVER], tcp)
    } else {
        let acknowledgment = own.wrapping_add(BYTES);
        let tcp = Tcp { sequence: other, acknowledgment, ..Tcp::new(5201, 40_000, flags) };
        ([SERVER, CLIENT], tcp)
    }
}

/// Frames of one point with their times, µs.
type Frames = Vec<(Vec<u8>, u64)>;

/// Four points; requests pass them 1, 3 and 6 µs apart, the server takes 20 µs, responses 5, 4 and 2 µs. Later transactions take `slower` µs
/// more in the server each. Between the second and third point frames are encapsulated.
fn points(transactions: u32, slower: u64, outer: Outer) -> [Frames; 4] {
    let mut points = [const { Vec::new() }; 4];
    for transaction in 0..transactions {
        let begin = 1_000_000 + u64::from(transaction) * 1_000;
        let served = 30 + u64::from(transaction) * slower;
        let out = [0, 1, 4, 10];
        let back = [served + 11, served + 9, served + 5, served];
        for (at, point) in points.iter_mut().enumerate() {
            let outer = if (1..=2).contains(&at) { outer } else { Outer::Plain };
            point.push((frame(transaction, true, outer), begin + out[at]));
            point.push((frame(transaction, false, outer), begin + back[at]));
        }
    }
    points
}

/// A classic pcap file that keeps so many octets of each frame.
fn pcap(folder: &TempDir, name: &str, frames: &Frames, snap: usize) -> Point {
    let path = folder.path().join(name);
    let header = PcapHeader {
        ts_resolution: TsResolution::NanoSecond,
        endianness: Endianness::native(),
        snaplen: snap as u32,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(File::create(&path).unwrap(), header).unwrap();
    for (frame, at) in frames {
        let kept = &frame[..frame.len().min(snap)];
        let packet = PcapPacket::new(Duration::from_micros(*at), frame.len() as u32, kept);
        writer.write_packet(&packet).unwrap();
    }
    drop(writer);
    read(&path).unwrap()
}

/// A pcapng file, in the unit that its interface names.
fn pcapng(folder: &TempDir, name: &str, frames: &Frames, resolution: Option<(u8, u64)>) -> Point {
    let path = folder.path().join(name);
    let mut writer = PcapNgWriter::new(File::create(&path).unwrap()).unwrap();
    let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 0);
    interface.options.extend(resolution.map(|(digits, _)| InterfaceDescriptionOption::IfTsResol(digits)));
    writer.write_pcapng_block(interface).unwrap();
    for (frame, at) in frames {
        writer
            .write_pcapng_block(EnhancedPacketBlock {
                interface_id: 0,
                // The library writes nanoseconds as they are, whatever the unit is.
                timestamp: Duration::from_nanos(at * resolution.map_or(1, |(_, units)| units)),
                original_len: frame.len() as u32,
                data: frame.as_slice().into(),
                options: Vec::new(),
            })
            .unwrap();
    }
    drop(writer);
    read(&path).unwrap()
}

fn read_all(frames: &[Frames; 4]) -> Vec<Point> {
    let folder = tempfile::tempdir().unwrap();
    frames.iter().enumerate().map(|(at, frames)| pcap(&folder, &at.to_string(), frames, 192)).collect()
}

fn merged(points: &[Point]) -> (Option<Breakdown>, Counts) {
    let names: Vec<String> =
        ["client", "left", "right", "server"][..points.len()].iter().map(|name| (*name).into()).collect();
    merge(points, &names)
}

/// The medians of all legs, to a tenth of a microsecond (a histogram has three digits).
fn medians(breakdown: &Breakdown) -> Vec<f64> {
    breakdown.legs.iter().map(|leg| (leg.latency.p50 * 10.0).round() / 10.0).collect()
}

#[test]
fn legs_are_the_times_between_the_points() {
    for outer in [Outer::Plain, Outer::Vxlan, Outer::Geneve] {
        let (breakdown, counts) = merged(&read_all(&points(5, 10, outer)));
        assert_eq!(counts, Counts { transactions: 5, ..Counts::default() });
        let breakdown = breakdown.unwrap();
        // The server took 20 to 60 µs.
        assert_eq!(medians(&breakdown), [1.0, 3.0, 6.0, 40.0, 5.0, 4.0, 2.0]);
        let names: Vec<&str> = breakdown.legs.iter().map(|leg| leg.name.as_str()).collect();
        assert_eq!(names[..4], ["client ▸ left", "left ▸ right", "right ▸ server", "behind server"]);
        assert_eq!(names[4..], ["server ▸ right", "right ▸ left", "left ▸ client"]);
        let server = &breakdown.legs[3];
        assert!((server.latency.min - 20.0).abs() < 0.1 && (server.latency.max - 60.0).abs() < 0.1);
        let sum: f64 = breakdown.legs.iter().map(|leg| leg.mean).sum();
        assert!((breakdown.whole.mean - 61.0).abs() < 0.1 && (sum - breakdown.whole.mean).abs() < 0.2);
    }
}

#[test]
fn both_formats_and_every_unit_of_time_give_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let frames = points(3, 0, Outer::Vxlan);
    let read = [
        pcap(&folder, "0", &frames[0], 65_535),
        pcapng(&folder, "1", &frames[1], None),
        pcapng(&folder, "2", &frames[2], Some((9, 1_000))),
        pcapng(&folder, "3", &frames[3], Some((6, 1))),
    ];
    let (breakdown, counts) = merged(&read);
    assert_eq!(counts.transactions, 3);
    assert_eq!(medians(&breakdown.unwrap()), [1.0, 3.0, 6.0, 20.0, 5.0, 4.0, 2.0]);
}

#[test]
fn what_is_not_certain_is_counted_and_left_out() {
    let mut frames = points(6, 0, Outer::Vxlan);
    // Frames of a point alternate: request 0, response 0, request 1 and so on.
    frames[1].remove(9);
    let again = frames[2][2].clone();
    frames[2].push((again.0, again.1 + 200));
    frames[1][0].1 += 5;
    frames[3].push((FrameBuilder::new().ethernet(A, B).ipv4(CLIENT, SERVER).udp(1, 2).build().unwrap(), 0));
    frames[3].push((vec![0; 20], 0));
    let (breakdown, counts) = merged(&read_all(&frames));
    // Of transactions 0, 1 and 4 one half each is of no use; the other half stays alone.
    let expected = Counts { transactions: 3, missed: 1, repeated: 1, disordered: 1, unpaired: 3, others: 2 };
    assert_eq!(counts, expected);
    assert_eq!(medians(&breakdown.unwrap()), [1.0, 3.0, 6.0, 20.0, 5.0, 4.0, 2.0]);
    let sentence = expected.sentence();
    assert!(sentence.starts_with("3 transactions matched. Not matched: 1 segments not seen"), "{sentence}");
}

#[test]
fn two_points_on_one_side_do() {
    let frames = points(4, 0, Outer::Plain);
    let folder = tempfile::tempdir().unwrap();
    let read = [pcap(&folder, "0", &frames[0], 64), pcap(&folder, "1", &frames[2], 64)];
    let (breakdown, _) = merged(&read);
    assert_eq!(medians(&breakdown.unwrap()), [4.0, 31.0, 6.0]);
}

#[test]
fn captures_of_different_connections_match_nothing() {
    let frames = points(2, 0, Outer::Plain);
    let folder = tempfile::tempdir().unwrap();
    let later: Frames = points(4, 0, Outer::Plain)[3].split_off(4);
    let read = [pcap(&folder, "0", &frames[0], 192), pcap(&folder, "1", &later, 192)];
    let (breakdown, counts) = merged(&read);
    assert!(breakdown.is_none());
    assert_eq!(counts, Counts { missed: 8, ..Counts::default() });
}

#[test]
fn segments_of_ipv6_with_a_vlan_tag_are_known() {
    let (a, b): (Ipv6Addr, Ipv6Addr) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let (_, tcp) = segment(0, true);
    let plain =
        FrameBuilder::new().ethernet(A, B).ipv6(a, b).tcp_header(tcp).payload(&[1; 900]).build().unwrap();
    let mut tagged = plain[..12].to_vec();
    tagged.extend([0x81, 0x00, 0x00, 0x64]);
    tagged.extend(&plain[12..]);
    let segment = ethernet(&plain[..90], 0).unwrap();
    assert_eq!(
        (segment.length, segment.flow.source, segment.sequence),
        (900, (a.into(), 40_000), tcp.sequence)
    );
    assert_eq!(ethernet(&tagged, 0), Some(segment));
}

#[test]
fn files_that_are_no_captures_are_refused_with_their_name() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("empty.pcap", &b""[..]),
        ("text.pcap", b"not a capture at all, but a text"),
        ("cut.pcapng", &PCAPNG),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let sentence = read(&path).unwrap_err().to_string();
        assert!(sentence.contains(name), "{sentence}");
    }
    let sentence = read(Path::new("/nonexistent.pcap")).unwrap_err().to_string();
    assert!(sentence.contains("/nonexistent.pcap"), "{sentence}");
}
