use std::collections::HashSet;

use sluice_wire::ethernet::EthernetView;
use sluice_wire::geneve::GeneveView;
use sluice_wire::ipv4::Ipv4View;
use sluice_wire::ipv6::Ipv6View;
use sluice_wire::udp::UdpView;
use sluice_wire::{EtherType, Vni};

use super::tag::Tag;
use super::*;

const DIRECTIONS: [Direction; 2] = [Direction::Encap, Direction::Decap];
const ONE: Topology = Topology {
    edge: EdgeMacs::NODE,
    uplinks: 1,
    downlinks: 1,
    lag: false,
    paths: 1,
    encapsulation: Encapsulation::Geneve,
    outer: Family::Ipv4,
};
/// Octets that encapsulation adds there.
const OUTER: usize = 50;
const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

fn tag(flow: u16, sequence: u32) -> Tag {
    Tag { trial: 0, flow, sequence, time: 0 }
}

/// The inner Ethernet frame, after everything outside of it was checked.
fn decapsulated(frame: &[u8], vni: Vni) -> &[u8] {
    let ethernet = EthernetView::parse(frame).unwrap();
    assert_eq!(ethernet.ether_type(), EtherType::IPV4);
    let ip = Ipv4View::parse(ethernet.payload()).unwrap();
    ip.verify_checksum().unwrap();
    let udp = UdpView::parse(ip.payload()).unwrap();
    assert_eq!((udp.destination_port(), udp.checksum()), (6081, 0));
    let geneve = GeneveView::parse(udp.payload()).unwrap();
    assert_eq!(geneve.vni(), Some(vni));
    assert_eq!(geneve.protocol(), EtherType::TRANSPARENT_ETHERNET);
    let start = frame.len() - geneve.payload().len();
    &frame[start..]
}

/// Source, destination, time to live and UDP payload of a workload's frame, whose checksums are right.
fn inner(frame: &[u8]) -> (String, String, u8, Vec<u8>) {
    let ethernet = EthernetView::parse(frame).unwrap();
    if ethernet.ether_type() == EtherType::IPV4 {
        let ip = Ipv4View::parse(ethernet.payload()).unwrap();
        ip.verify_checksum().unwrap();
        let udp = UdpView::parse(ip.payload()).unwrap();
        assert_eq!(udp.checksum(), 0);
        return (ip.source().to_string(), ip.destination().to_string(), ip.ttl(), udp.payload().to_vec());
    }
    let ip = Ipv6View::parse(ethernet.payload()).unwrap();
    let udp = UdpView::parse(ip.upper_payload()).unwrap();
    udp.verify_checksum(ip.pseudo_header()).unwrap();
    (ip.source().to_string(), ip.destination().to_string(), ip.hop_limit(), udp.payload().to_vec())
}

#[test]
fn lengths_are_those_of_the_workloads_frames() {
    for family in FAMILIES {
        for bytes in [family.shortest_frame(), 508, LONGEST_FRAME] {
            for direction in DIRECTIONS {
                let stream = Stream::new(ONE, direction, family, bytes).unwrap();
                let (plain, tunnelled) = (bytes, bytes + OUTER);
                let lengths =
                    (stream.sent(7).unwrap().len(), stream.returned(7, Expected::Routed).unwrap().len());
                let expected =
                    if direction == Direction::Encap { (plain, tunnelled) } else { (tunnelled, plain) };
                assert_eq!(lengths, expected);
            }
        }
    }
    assert!(Stream::new(ONE, Direction::Encap, Family::Ipv6, 60).is_err());
    let sentence = Stream::new(ONE, Direction::Encap, Family::Ipv4, 1515).unwrap_err().to_string();
    assert_eq!(sentence, "a frame of 1515 bytes cannot be sent: with IPv4 it has 60 to 1514");
}

#[test]
fn every_flow_is_another_pair_of_workload_and_tester_both_ways() {
    for family in FAMILIES {
        let mut pairs = HashSet::new();
        let (encap, decap) = (
            Stream::new(ONE, Direction::Encap, family, 100).unwrap(),
            Stream::new(ONE, Direction::Decap, family, 100).unwrap(),
        );
        for flow in 0..FLOWS {
            let sent = encap.sent(flow).unwrap();
            let (source, destination, ttl, payload) = inner(&sent);
            assert_eq!((ttl, tag::read(&payload)), (64, Some(tag(flow, 0))));
            let back = decap.sent(flow).unwrap();
            let reply = inner(decapsulated(&back, vni(0)));
            assert_eq!((&reply.0, &reply.1), (&destination, &source));
            pairs.insert((source, destination));
        }
        assert_eq!(pairs.len(), 1280);
    }
}

#[test]
fn what_comes_back_is_routed_once() {
    for family in FAMILIES {
        let encap = Stream::new(ONE, Direction::Encap, family, 200).unwrap();
        let returned = encap.returned(21, Expected::Routed).unwrap();
        let inside = decapsulated(&returned, vni(0));
        let ethernet = EthernetView::parse(inside).unwrap();
        assert_eq!((ethernet.source(), ethernet.destination()), (ROUTER_MAC, workload_mac(1)));
        assert_eq!(inner(inside).2, 63);

        let decap = Stream::new(ONE, Direction::Decap, family, 200).unwrap();
        let returned = decap.returned(21, Expected::Routed).unwrap();
        let ethernet = EthernetView::parse(&returned).unwrap();
        assert_eq!((ethernet.source(), ethernet.destination()), (uplink_mac(0), path_mac(0)));
        assert_eq!(inner(&returned).2, 63);
    }
}

#[test]
fn tags_stand_where_they_are_said_to() {
    for family in FAMILIES {
        for direction in DIRECTIONS {
            let stream = Stream::new(ONE, direction, family, 90).unwrap();
            let read = |frame: &[u8], at: usize| tag::read(&frame[at..]);
            assert_eq!(read(&stream.sent(9).unwrap(), stream.sent_tag()), Some(tag(9, 0)));
            for expected in [Expected::Routed, Expected::Unchanged] {
                let returned = stream.returned(9, expected).unwrap();
                assert_eq!(read(&returned, stream.returned_tag(expected)), Some(tag(9, 0)));
            }
        }
    }
}

#[test]
fn a_stamp_leaves_the_checksum_right() {
    let stream = Stream::new(ONE, Direction::Encap, Family::Ipv6, 120).unwrap().in_trial(200);
    let mut frame = stream.sent(3).unwrap();
    let at = stream.sent_tag();
    for (sequence, time) in [(1, 0), (0xffff, 0xffff_ffff), (0xdead_beef, 7), (u32::MAX, u32::MAX)] {
        frame[at + tag::STAMP_AT..at + TAG_BYTES].copy_from_slice(&tag::stamp(sequence, time));
        assert_eq!(tag::read(&inner(&frame).3), Some(Tag { trial: 200, flow: 3, sequence, time }));
    }
}

#[test]
fn a_router_may_choose_some_outer_fields_and_nothing_else() {
    let stream = Stream::new(ONE, Direction::Encap, Family::Ipv4, 60).unwrap();
    let template = stream.returned(5, Expected::Routed).unwrap();
    let accepted = |frame: &[u8]| stream.is_as_expected(frame, &template, Expected::Routed);
    assert!(accepted(&template));

    let mut chosen = template.clone();
    chosen[18..20].copy_from_slice(&[0x12, 0x34]);
    chosen[22] = 9;
    chosen[24..26].copy_from_slice(&[0, 0]);
    let sum = checksum::checksum(&chosen[14..34]);
    chosen[24..26].copy_from_slice(&sum.to_be_bytes());
    chosen[34] ^= 0x55;
    assert!(accepted(&chosen), "identification, time to live and UDP source port are free");

    let fixed = (0..15)
        .chain([16, 17, 23, 24])
        .chain(26..34)
        .chain(36..40)
        .chain(40..stream.returned_tag(Expected::Routed) + 4);
    for at in fixed {
        let mut wrong = template.clone();
        wrong[at] ^= 1;
        assert!(!accepted(&wrong), "octet {at} may not differ");
    }
    assert!(!accepted(&template[..60]));

    let long = Stream::new(ONE, Direction::Decap, Family::Ipv4, LONGEST_FRAME).unwrap();
    let template = long.returned(5, Expected::Routed).unwrap();
    for at in [long.returned_tag(Expected::Routed) + TAG_BYTES, 800, LONGEST_FRAME - 1] {
        let mut wrong = template.clone();
        assert!(long.is_as_expected(&wrong, &template, Expected::Routed));
        wrong[at] ^= 1;
        assert!(!long.is_as_expected(&wrong, &template, Expected::Routed), "octet {at} of the payload");
    }
}

#[test]
fn what_the_workloads_send_back_was_routed_twice() {
    for family in FAMILIES {
        let stream = Stream::new(ONE, Direction::Loop, family, 200).unwrap();
        let encap = Stream::new(ONE, Direction::Encap, family, 200).unwrap();
        assert_eq!(stream.sent(21), encap.sent(21));
        let (sent, returned) = (stream.sent(21).unwrap(), stream.returned(21, Expected::Routed).unwrap());
        assert_eq!(sent.len(), returned.len());
        let ((source, destination, ..), reply) = (inner(&sent), inner(&returned));
        assert_eq!((reply.0, reply.1, reply.2), (destination, source, 62));
    }
}

#[test]
fn an_edge_may_take_each_of_its_paths_and_no_other() {
    let topology = Topology { uplinks: 2, paths: 3, ..ONE };
    let stream = Stream::new(topology, Direction::Decap, Family::Ipv4, 60).unwrap();
    let template = stream.returned(5, Expected::Routed).unwrap();
    let over = |destination: MacAddr, source: MacAddr| {
        let mut frame = template.clone();
        frame[..6].copy_from_slice(&destination.0);
        frame[6..12].copy_from_slice(&source.0);
        stream.is_as_expected(&frame, &template, Expected::Routed)
    };
    assert!(over(path_mac(0), uplink_mac(0)) && over(path_mac(1), uplink_mac(1)));
    assert!(over(path_mac(2), uplink_mac(0)));
    assert!(!over(path_mac(2), uplink_mac(1)), "from the wrong uplink");
    assert!(!over(path_mac(3), uplink_mac(1)), "a path that there is not");
    assert!(!over(MacAddr::BROADCAST, uplink_mac(0)));
}

#[test]
fn tunnels_of_every_kind_are_what_they_say() {
    for (encapsulation, port) in [(Encapsulation::Geneve, 6081), (Encapsulation::Vxlan, 4789)] {
        for outer in FAMILIES {
            let topology = Topology { encapsulation, outer, downlinks: 2, ..ONE };
            let stream = Stream::new(topology, Direction::Encap, Family::Ipv4, 60).unwrap();
            let template = stream.returned(5, Expected::Routed).unwrap();
            assert_eq!(template.len(), 60 + stream.outer_bytes(Side::Downlink));
            let ethernet = EthernetView::parse(&template).unwrap();
            assert_eq!((ethernet.source(), ethernet.destination()), (downlink_mac(1), host_mac(1)));
            let udp = match outer {
                Family::Ipv4 => Ipv4View::parse(ethernet.payload()).unwrap().payload(),
                Family::Ipv6 => Ipv6View::parse(ethernet.payload()).unwrap().upper_payload(),
            };
            assert_eq!(UdpView::parse(udp).unwrap().destination_port(), port);
            assert!(stream.is_as_expected(&template, &template, Expected::Routed));
            for at in (0..6).chain(50..52) {
                let mut wrong = template.clone();
                wrong[at] ^= 1;
                assert!(!stream.is_as_expected(&wrong, &template, Expected::Routed), "octet {at}");
            }
        }
    }
    let plain = Topology { encapsulation: Encapsulation::None, ..ONE };
    let stream = Stream::new(plain, Direction::Decap, Family::Ipv4, 60).unwrap();
    let ethernet = stream.sent(0).unwrap();
    let ethernet = EthernetView::parse(&ethernet).unwrap();
    assert_eq!((ethernet.source(), ethernet.destination()), (host_mac(0), downlink_mac(0)));
}
