//! Flows over equal paths: even spread, one way for each flow, entropy in the outer header.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use sluice_datapath::neighbor::NeighborKey;
use sluice_intent::plan::{DEFAULT_ROUTER_MAC, Plan};
use sluice_wire::MacAddr;

use crate::common::bytes::{self, IpHeader};
use crate::common::node::{Done, Node, port_mac};
use crate::common::plans::{self, ACCESS, UPLINK, address, workload_mac};

const FLOWS: u16 = 10_000;

/// An edge whose default route has `ways` next hops, each with a MAC address of its own.
fn edge_with(ways: u8) -> Node {
    let mut plan: Plan = plans::edge();
    let hop = |host: u8| plans::via_interface(&format!("192.0.2.{}", 10 + host), 0);
    plan.gateways[0].static_routes[0].next_hops = (0..ways).map(hop).collect();
    let mut node = Node::new(&plan, true);
    for host in 0..ways {
        let key = NeighborKey { port: UPLINK, vlan: 0, address: address(&format!("192.0.2.{}", 10 + host)) };
        node.set_neighbor(key, Some(MacAddr([2, 0xdf, 0, 0, 0, host])));
    }
    node
}

fn outbound(packet: &[u8]) -> Vec<u8> {
    bytes::ethernet(DEFAULT_ROUTER_MAC, workload_mac(0), bytes::IPV4, packet)
}

fn flow(number: u16, ttl: u8, payload: usize) -> Vec<u8> {
    let header = IpHeader { ttl, identification: number, ..IpHeader::new(17) };
    let destination = std::net::Ipv4Addr::from(0xc612_0000 + u32::from(number / 100)).into();
    outbound(&bytes::ip(
        &header,
        address("10.1.0.10"),
        destination,
        &bytes::udp(1024 + number, 53, &vec![0; payload]),
    ))
}

fn way(done: &Done) -> u8 {
    assert_eq!(done.sent.len(), 1, "{done:?}");
    done.sent[0].1[5]
}

/// How flows differ from each other in practice: in one field that is counted up.
const PATTERNS: [fn(u16) -> Vec<u8>; 3] = [
    |number| flow(number, 64, 0),
    |number| {
        let source = std::net::Ipv4Addr::from(0x0a01_0000 | u32::from(number)).into();
        outbound(&bytes::ip(&IpHeader::new(17), source, address("198.18.0.1"), &bytes::udp(5000, 53, &[])))
    },
    |number| {
        let destination = std::net::Ipv4Addr::from(0xc612_0000 | u32::from(number) << 4).into();
        outbound(&bytes::ip(
            &IpHeader::new(6),
            address("10.1.0.10"),
            destination,
            &bytes::tcp(5000, 443, &[]),
        ))
    },
];

/// Whether counts are as even as chance makes them: one in a hundred thousand even spreads over eight ways lies beyond 36.
fn assert_even(counts: &[u32], what: &str) {
    let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    let chi_square: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    assert!(chi_square < 36.0, "{what}: {counts:?}, chi-square {chi_square:.1}");
}

#[test]
fn flows_spread_evenly_over_one_to_eight_next_hops() {
    for (number, pattern) in PATTERNS.iter().enumerate() {
        let frames: Vec<Vec<u8>> = (0..FLOWS).map(pattern).collect();
        for ways in 1..=8u8 {
            let mut node = edge_with(ways);
            let mut counts = vec![0u32; usize::from(ways)];
            for done in node.receive(ACCESS, &frames) {
                counts[usize::from(way(&done))] += 1;
            }
            assert_even(&counts, &format!("pattern {number} over {ways} next hops"));
        }
    }
}

/// What underlay switches and receive queues make of the outer source port: by any three of its bits, no class of the eight
/// has a tenth more than its share of the flows.
#[test]
fn outer_source_ports_are_even() {
    let mut node = Node::new(&plans::edge(), true);
    for (number, key) in plans::neighbors(&plans::edge()).into_iter().enumerate() {
        node.set_neighbor(key, Some(plans::neighbor_mac(number)));
    }
    for pattern in 0..3 {
        let frames: Vec<Vec<u8>> = (0..FLOWS)
            .map(|number| {
                let source = std::net::Ipv4Addr::from(
                    0xc612_0000 + if pattern > 0 { u32::from(number) << (4 * (pattern - 1)) } else { 0 },
                );
                let port = if pattern > 0 { 5000 } else { 1024 + number };
                let packet = bytes::ip(
                    &IpHeader::new(17),
                    source.into(),
                    address("10.1.0.12"),
                    &bytes::udp(port, 53, &[]),
                );
                bytes::ethernet(port_mac(0), MacAddr([2, 0xee, 0, 0, 0, 1]), bytes::IPV4, &packet)
            })
            .collect();
        let done = node.receive(UPLINK, &frames);
        for shift in [0, 3, 6, 9, 11] {
            let mut counts = [0u32; 8];
            for done in &done {
                let port = u16::from_be_bytes([done.sent[0].1[34], done.sent[0].1[35]]);
                counts[usize::from(port >> shift & 7)] += 1;
            }
            let most = counts.iter().max().copied().unwrap_or(0);
            assert!(
                most < u32::from(FLOWS) / 8 * 11 / 10,
                "pattern {pattern}, bits from {shift} of the port: {counts:?}"
            );
        }
    }
}

#[test]
fn every_packet_of_a_flow_goes_the_same_way() {
    let mut node = edge_with(8);
    let mut ways = HashMap::new();
    for round in 0..4u8 {
        let frames: Vec<Vec<u8>> =
            (0..500).map(|number| flow(number, 64 - round, usize::from(round) * 100)).collect();
        for (number, done) in node.receive(ACCESS, &frames).iter().enumerate() {
            assert_eq!(*ways.entry(number).or_insert(way(done)), way(done), "flow {number} in round {round}");
        }
        node.engine.enable_flow_cache(round % 2 == 0);
    }
}

#[test]
fn fragments_go_the_way_of_the_first() {
    let mut node = edge_with(8);
    let mut seen = HashSet::new();
    for host in 0..100u8 {
        let destination = address(&format!("198.18.3.{host}"));
        let piece = |fragment, ports: u16| {
            let header = IpHeader { fragment, identification: 9, ..IpHeader::new(17) };
            outbound(&bytes::ip(
                &header,
                address("10.1.0.10"),
                destination,
                &bytes::udp(ports, ports, &[0; 8]),
            ))
        };
        let pieces = [piece(0x2000, 1), piece(0x2002, 0xffff), piece(0x0004, 77)];
        let ways: HashSet<u8> = node.receive(ACCESS, &pieces).iter().map(way).collect();
        assert_eq!(ways.len(), 1, "{destination}: later fragments have no ports to go by");
        seen.extend(ways);
    }
    assert_eq!(seen.len(), 8, "different destinations spread");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// The outer source port comes from the inner flow alone: the same for each of its packets, and different among flows.
    #[test]
    fn the_outer_source_port_is_the_flows(class: u8, ttl in 3u8..=255, payload in 0usize..200) {
        let mut node = Node::new(&plans::edge(), true);
        for (number, key) in plans::neighbors(&plans::edge()).into_iter().enumerate() {
            node.set_neighbor(key, Some(plans::neighbor_mac(number)));
        }
        let inbound = |source_port: u16, header: IpHeader, payload: usize| {
            let datagram = bytes::udp(source_port, 53, &vec![0; payload]);
            let packet = bytes::ip(&header, address("198.18.0.1"), address("10.1.0.12"), &datagram);
            bytes::ethernet(port_mac(0), MacAddr([2, 0xee, 0, 0, 0, 1]), bytes::IPV4, &packet)
        };
        let outer_port = |done: &Done| u16::from_be_bytes([done.sent[0].1[34], done.sent[0].1[35]]);
        let mut ports = HashSet::new();
        for number in 0..64 {
            let plain = inbound(number, IpHeader::new(17), 0);
            let varied = inbound(number, IpHeader { ttl, class, fragment: 0x4000, ..IpHeader::new(17) }, payload);
            let done = node.receive(UPLINK, &[plain, varied]);
            prop_assert_eq!(outer_port(&done[0]), outer_port(&done[1]));
            prop_assert!(outer_port(&done[0]) >= 49_152);
            prop_assert_eq!(done[1].sent[0].1[15], class, "the traffic class is copied to the outer header");
            ports.insert(outer_port(&done[0]));
        }
        prop_assert!(ports.len() > 56, "64 flows have {} ports", ports.len());
    }
}
