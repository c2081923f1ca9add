use std::collections::HashSet;

use proptest::prelude::*;
use sluice_wire::ethernet::EthernetView;
use sluice_wire::geneve::GeneveView;
use sluice_wire::ipv4::Ipv4View;
use sluice_wire::ipv6::Ipv6View;
use sluice_wire::udp::UdpView;
use sluice_wire::{EtherType, Vni};

use super::*;

const DIRECTIONS: [Direction; 2] = [Direction::Encap, Direction::Decap];
const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

fn tag(flow: u16, sequence: u32) -> Tag {
    Tag { trial: 0, flow, sequence }
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
                let stream = Stream::new(direction, family, bytes).unwrap();
                let (plain, tunnelled) = (bytes, bytes + ENCAPSULATION_BYTES);
                let lengths =
                    (stream.sent(7).unwrap().len(), stream.returned(7, Expected::Routed).unwrap().len());
                let expected =
                    if direction == Direction::Encap { (plain, tunnelled) } else { (tunnelled, plain) };
                assert_eq!(lengths, expected);
            }
        }
    }
    assert!(Stream::new(Direction::Encap, Family::Ipv6, 60).is_err());
    let sentence = Stream::new(Direction::Encap, Family::Ipv4, 1515).unwrap_err().to_string();
    assert_eq!(sentence, "a frame of 1515 bytes cannot be sent: with IPv4 it has 60 to 1514");
}

#[test]
fn every_flow_is_another_pair_of_workload_and_tester_both_ways() {
    for family in FAMILIES {
        let mut pairs = HashSet::new();
        let (encap, decap) = (
            Stream::new(Direction::Encap, family, 100).unwrap(),
            Stream::new(Direction::Decap, family, 100).unwrap(),
        );
        for flow in 0..FLOWS {
            let sent = encap.sent(flow).unwrap();
            let (source, destination, ttl, payload) = inner(&sent);
            assert_eq!((ttl, read_tag(&payload)), (64, Some(tag(flow, 0))));
            let back = decap.sent(flow).unwrap();
            let reply = inner(decapsulated(&back, VNI));
            assert_eq!((&reply.0, &reply.1), (&destination, &source));
            pairs.insert((source, destination));
        }
        assert_eq!(pairs.len(), 1280);
    }
}

#[test]
fn what_comes_back_is_routed_once() {
    for family in FAMILIES {
        let encap = Stream::new(Direction::Encap, family, 200).unwrap();
        let returned = encap.returned(21, Expected::Routed).unwrap();
        let inside = decapsulated(&returned, VNI);
        let ethernet = EthernetView::parse(inside).unwrap();
        assert_eq!((ethernet.source(), ethernet.destination()), (ROUTER_MAC, workload_mac(1)));
        assert_eq!(inner(inside).2, 63);

        let decap = Stream::new(Direction::Decap, family, 200).unwrap();
        let returned = decap.returned(21, Expected::Routed).unwrap();
        let ethernet = EthernetView::parse(&returned).unwrap();
        assert_eq!((ethernet.source(), ethernet.destination()), (UPLINK_MAC, TESTER_MAC));
        assert_eq!(inner(&returned).2, 63);
    }
}

#[test]
fn tags_stand_where_they_are_said_to() {
    for family in FAMILIES {
        for direction in DIRECTIONS {
            let stream = Stream::new(direction, family, 90).unwrap();
            let read = |frame: &[u8], at: usize| read_tag(&frame[at..]);
            assert_eq!(read(&stream.sent(9).unwrap(), stream.sent_tag()), Some(tag(9, 0)));
            for expected in [Expected::Routed, Expected::Unchanged] {
                let returned = stream.returned(9, expected).unwrap();
                assert_eq!(read(&returned, stream.returned_tag(expected)), Some(tag(9, 0)));
            }
        }
    }
}

#[test]
fn a_sequence_number_leaves_the_checksum_right() {
    let stream = Stream::new(Direction::Encap, Family::Ipv6, 120).unwrap().in_trial(200);
    let mut frame = stream.sent(3).unwrap();
    let at = stream.sent_tag() + 4;
    for sequence in [1, 0xffff, 0xdead_beef, u32::MAX] {
        frame[at..at + 8].copy_from_slice(&sequence_octets(sequence));
        assert_eq!(read_tag(&inner(&frame).3), Some(Tag { trial: 200, flow: 3, sequence }));
    }
}

#[test]
fn a_router_may_choose_some_outer_fields_and_nothing_else() {
    let stream = Stream::new(Direction::Encap, Family::Ipv4, 60).unwrap();
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
        .chain(42..stream.returned_tag(Expected::Routed) + 4);
    for at in fixed {
        let mut wrong = template.clone();
        wrong[at] ^= 1;
        assert!(!accepted(&wrong), "octet {at} may not differ");
    }
    assert!(!accepted(&template[..60]));
}

proptest! {
    #[test]
    fn no_octets_break_the_reader(octets in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Some(tag) = read_tag(&octets) {
            prop_assert!(tag.flow < FLOWS);
            prop_assert_eq!(&octets[4..12], &sequence_octets(tag.sequence)[..]);
        }
    }
}
