//! ICMP errors: which packets they are sent about, and what a trace says of them.

use std::sync::Arc;

use sluice_datapath::trace::{Report, trace};

use super::*;
use crate::common::node::compile;

/// Towards an uplink with an MTU of 1400: the extension headers are given as (kind, content), and the last one says what `payload` is.
fn long_v6(extensions: &[(u8, [u8; 7])], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut chain = Vec::new();
    for (number, (_, content)) in extensions.iter().enumerate() {
        chain.push(extensions.get(number + 1).map_or(protocol, |next| next.0));
        chain.extend(content);
    }
    chain.extend(payload);
    chain.resize(1420, 0x5a);
    let first = extensions.first().map_or(protocol, |first| first.0);
    let packet =
        bytes::ip(&IpHeader::new(first), address("2001:db8:1::10"), address("2001:db8:b::1"), &chain);
    from_workload(&packet)
}

const OPTIONS: (u8, [u8; 7]) = (60, [0, 1, 4, 0, 0, 0, 0]);
const FIRST: (u8, [u8; 7]) = (44, [0, 0, 1, 0, 0, 0, 7]);
const LATER: (u8, [u8; 7]) = (44, [0, 8, 1, 0, 0, 0, 7]);

/// RFC 4443 section 2.4 (e) and RFC 8201: without the message, the sender never learns the MTU of the way.
#[test]
fn the_sender_of_any_ipv6_packet_is_told_the_mtu() {
    let mut node = edge();
    let udp = bytes::udp(1, 2, &[]);
    let packets = [
        long_v6(&[], 17, &udp),
        long_v6(&[OPTIONS], 17, &udp),
        long_v6(&[OPTIONS, OPTIONS, OPTIONS], 17, &udp),
        long_v6(&[FIRST], 17, &udp),
        long_v6(&[FIRST, OPTIONS], 17, &udp),
        long_v6(&[OPTIONS, FIRST], 17, &udp),
        long_v6(&[LATER], 17, &[]),
        long_v6(&[OPTIONS, LATER], 6, &[]),
        long_v6(&[FIRST], 58, &[128, 0]),
        long_v6(&[OPTIONS, OPTIONS], 58, &[129, 0]),
        long_v6(&[OPTIONS, OPTIONS], 50, &[]),
        long_v6(&[OPTIONS, OPTIONS], 59, &[]),
    ];
    for (number, frame) in packets.iter().enumerate() {
        let done = node.receive_one(ACCESS, frame);
        assert_eq!(icmp(&done), (2, 0), "packet {number}");
        let sent = &done.sent[0].1[IP..];
        assert_eq!(sent[44..48], 1400u32.to_be_bytes(), "packet {number}");
        assert_eq!(sent[48..], frame[IP..IP + 1280 - 48], "as much as fits into the least MTU");
    }
    assert_eq!(node.drops(), [(DropReason::TooBig, packets.len() as u64)]);
}

/// RFC 4443 section 2.4 (e.1) and (e.2): not about an error or a redirect, wherever in the packet it stands, nor about what may be one.
#[test]
fn what_may_be_an_icmpv6_error_is_not_answered() {
    let mut node = edge();
    let chain_without_end = [60, 255, 0, 0, 0, 0, 0, 0];
    let packets = [
        long_v6(&[OPTIONS, OPTIONS], 58, &[1, 0]),
        long_v6(&[OPTIONS, OPTIONS], 58, &[137, 0]),
        long_v6(&[FIRST], 58, &[3, 0]),
        long_v6(&[FIRST, OPTIONS], 58, &[2, 0]),
        long_v6(&[LATER], 58, &[128, 0]),
        long_v6(&[LATER], 60, &[]),
        long_v6(&[FIRST], 60, &chain_without_end),
    ];
    for frame in &packets {
        dropped(&node.receive_one(ACCESS, frame), DropReason::TooBig);
    }
}

/// One reason a packet, whether or not its sender is told.
#[test]
fn an_error_that_is_not_sent_is_not_another_drop() {
    let mut node = edge();
    let frame = from_workload(&echo("10.1.0.10", "10.1.0.200", 64, [0; 4], &[]));
    for _ in 0..1005 {
        node.receive_one(ACCESS, &frame);
    }
    assert_eq!(node.drops(), [(DropReason::UnknownWorkload, 1005)]);
    assert_eq!(node.counters.errors_suppressed.get(), 5);
}

fn traced(port: PortIndex, frame: &[u8]) -> Report {
    let node = edge();
    trace(&compile(&plans::edge(), 1), &Arc::new(node.neighbors.clone()), port, frame).expect("a trace")
}

fn mtu_stage(report: &Report) -> &str {
    &report.stages.iter().find(|stage| stage.name == "mtu").expect("the MTU was looked at").detail
}

/// What a trace says became of a packet is what became of it, also where an ICMP error leaves in its place.
#[test]
fn a_trace_tells_the_packet_from_the_error_about_it() {
    let to_small_segment = |fragment, length| {
        let header = IpHeader { fragment, ..IpHeader::new(17) };
        let datagram = bytes::udp(1, 2, &vec![0; length]);
        from_workload(&bytes::ip(&header, address("10.1.0.10"), address("10.2.0.10"), &datagram))
    };
    let report = traced(ACCESS, &to_small_segment(0x4000, 1450));
    assert_eq!(mtu_stage(&report), "1478 bytes, where up to 1400 may leave: refused");
    assert!(report.verdict.starts_with("dropped: too-big ("), "{}", report.verdict);
    assert!(report.verdict.ends_with("with an ICMP error: fragmentation needed, MTU 1400"), "{report:?}");
    assert_eq!((report.frames.len(), report.frames[0].0), (1, ACCESS));

    let report = traced(ACCESS, &to_small_segment(0, 1450));
    assert_eq!(mtu_stage(&report), "1478 bytes, where up to 1400 may leave: sent in 2 fragments");
    assert_eq!(report.verdict, "2 frames leave");

    let report = traced(ACCESS, &to_small_segment(0, 1372));
    assert_eq!(mtu_stage(&report), "1400 bytes; up to 1400 may leave");
    assert_eq!(report.verdict, "1 frame leaves");

    let report = traced(ACCESS, &long_v6(&[], 17, &bytes::udp(1, 2, &[])));
    assert!(report.verdict.starts_with("dropped: too-big ("), "{}", report.verdict);
    assert!(report.verdict.ends_with("packet too big, MTU 1400"), "{}", report.verdict);

    let expired = traced(ACCESS, &from_workload(&echo("10.1.0.10", "10.2.0.10", 1, [0; 4], &[])));
    assert!(expired.verdict.starts_with("dropped: ttl-expired ("), "{}", expired.verdict);
    assert!(expired.verdict.ends_with("time to live exceeded in transit"), "{}", expired.verdict);

    let unknown = traced(ACCESS, &from_workload(&echo("10.1.0.10", "10.2.0.200", 64, [0; 4], &[])));
    assert!(unknown.verdict.starts_with("dropped: unknown-workload ("), "{}", unknown.verdict);
    assert!(unknown.verdict.ends_with("host unreachable"), "{}", unknown.verdict);

    let datagram = bytes::udp(1, 2, &[]);
    let to_gateway = bytes::ip(&IpHeader::new(17), address("10.1.0.10"), address("10.1.0.1"), &datagram);
    let refused = traced(ACCESS, &from_workload(&to_gateway));
    assert!(refused.verdict.starts_with("dropped: no-service ("), "{}", refused.verdict);
    assert!(refused.verdict.ends_with("port unreachable"), "{}", refused.verdict);

    let answered = traced(ACCESS, &from_workload(&echo("10.1.0.10", "10.1.0.1", 64, [0; 4], &[])));
    assert_eq!(answered.verdict, "1 frame leaves");
    let malformed = traced(ACCESS, &from_workload(&[0x45; 20]));
    assert!(malformed.verdict.starts_with("dropped: truncated ("), "{}", malformed.verdict);
}
