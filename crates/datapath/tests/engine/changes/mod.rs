//! Changes under cached flows: neighbours that move, plans that are replaced. The next packet already follows them.

use std::net::IpAddr;

use sluice_datapath::neighbor::NeighborKey;
use sluice_datapath::punt::PuntKind;
use sluice_intent::plan::{Encapsulation, Location, Plan, PortIndex, SegmentIndex, Tier};
use sluice_wire::{MacAddr, Vni};

use crate::common::bytes::{self, IpHeader};
use crate::common::node::{Node, port_mac};
use crate::common::plans::{self, ACCESS, FABRIC, UPLINK, address, workload_mac};

const STRANGER: MacAddr = MacAddr([0x02, 0xee, 0, 0, 0, 1]);

/// A node with every neighbour of its plan resolved.
fn node(plan: &Plan) -> Node {
    let mut node = Node::new(plan, true);
    let keys = plans::neighbors(plan).into_iter().enumerate();
    let all: Vec<_> = keys.map(|(number, key)| (key, Some(plans::neighbor_mac(number)))).collect();
    node.set_neighbors(&all);
    node
}

fn udp_packet(source: &str, destination: IpAddr, port: u16) -> Vec<u8> {
    bytes::ip(&IpHeader::new(17), address(source), destination, &bytes::udp(port, 53, &[1, 2, 3, 4]))
}

/// From the physical network to an address on the overlay.
fn inbound(destination: &str, port: u16) -> Vec<u8> {
    let packet = udp_packet("198.18.0.1", address(destination), port);
    bytes::ethernet(port_mac(0), STRANGER, bytes::IPV4, &packet)
}

/// From the workload on [`ACCESS`] without VLAN to an address elsewhere.
fn outbound(destination: IpAddr, port: u16) -> Vec<u8> {
    let packet = udp_packet("10.1.0.10", destination, port);
    bytes::ethernet(sluice_intent::plan::DEFAULT_ROUTER_MAC, workload_mac(0), bytes::IPV4, &packet)
}

fn destination_mac(frame: &[u8]) -> MacAddr {
    MacAddr(frame[..6].try_into().expect("six bytes"))
}

fn tep_neighbor(address: &str) -> NeighborKey {
    NeighborKey { port: FABRIC, vlan: 0, address: plans::address(address) }
}

#[test]
fn a_neighbor_that_moves_is_followed_by_the_next_packet() {
    let mut node = node(&plans::edge());
    let (frame, tep) = (inbound("10.1.0.12", 1), tep_neighbor("172.16.0.2"));
    for step in 0..20u8 {
        let mac = MacAddr([2, 0xdf, 0, 0, 0, step]);
        node.set_neighbor(tep, Some(mac));
        for _ in 0..3 {
            let done = node.receive_one(UPLINK, &frame);
            assert_eq!(done.sent.len(), 1);
            assert_eq!((done.sent[0].0, destination_mac(&done.sent[0].1)), (FABRIC, mac));
        }
    }
    assert_eq!(node.counters.cache_hits.get(), 40, "two of three packets are replayed");
    node.set_neighbor(tep, None);
    let done = node.receive_one(UPLINK, &frame);
    assert_eq!(done.punted[0].0.kind, PuntKind::Resolve(tep));
    assert_eq!(done.punted[0].1, frame, "punted as it came");
}

/// Half of the hosts of an uplink's subnet come and go, and change their MAC addresses; slots of rewrites are freed and used again
/// all the time.
#[test]
fn flapping_neighbors_never_leak_into_other_flows() {
    let mut node = node(&plans::edge());
    let hosts: Vec<IpAddr> = (10..138).map(|host| address(&format!("192.0.2.{host}"))).collect();
    let frames: Vec<Vec<u8>> = hosts.iter().map(|host| outbound(*host, 7)).collect();
    let mut macs: Vec<Option<MacAddr>> = vec![None; hosts.len()];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut resolved = 0;
    for round in 0..60u8 {
        let mut changes = Vec::new();
        for (number, host) in hosts.iter().enumerate() {
            macs[number] = match random() % 4 {
                0 => None,
                1 => Some(MacAddr([2, 0xdf, 0, round, 0, number as u8])),
                _ => continue,
            };
            changes.push((NeighborKey { port: UPLINK, vlan: 0, address: *host }, macs[number]));
        }
        node.set_neighbors(&changes);
        for _ in 0..2 {
            let done = node.receive(ACCESS, &frames);
            for (number, done) in done.iter().enumerate() {
                let sent =
                    done.sent.first().map(|(_, frame)| (destination_mac(frame), frame[30..34].to_vec()));
                let IpAddr::V4(host) = hosts[number] else { unreachable!("the hosts are IPv4") };
                assert_eq!(
                    sent,
                    macs[number].map(|mac| (mac, host.octets().to_vec())),
                    "round {round}, {host}"
                );
                assert_eq!(done.punted.len(), usize::from(macs[number].is_none()));
                resolved += u64::from(macs[number].is_some());
            }
        }
    }
    assert!(node.counters.cache_hits.get() > resolved / 4, "most second packets are replayed");
}

#[test]
fn a_workload_that_moves_is_followed_by_the_next_packet() {
    let mut plan = plans::edge();
    let mut node = node(&plan);
    let frame = inbound("10.1.0.12", 1);
    let outer_destination =
        |frame: &[u8]| IpAddr::from(<[u8; 4]>::try_from(&frame[30..34]).expect("four bytes"));
    let done = node.receive(UPLINK, &[&frame, &frame]);
    assert_eq!(outer_destination(&done[1].sent[0].1), address("172.16.0.2"));
    plan.workloads[2].location = Location::RemoteTep(address("172.17.0.3"));
    node.install(&plan);
    let done = node.receive_one(UPLINK, &frame);
    assert_eq!(outer_destination(&done.sent[0].1), address("172.17.0.3"));
    plan.workloads[2].location = Location::Port { port: PortIndex(3), vlan: None };
    plan.workloads[6].location = Location::RemoteTep(address("2001:db8:16::2"));
    node.install(&plan);
    let done = node.receive_one(UPLINK, &frame);
    assert_eq!((done.sent[0].0, destination_mac(&done.sent[0].1)), (PortIndex(3), workload_mac(2)));
    plan.workloads[2].location = Location::RemoteTep(address("172.16.0.2"));
    plan.segments[0].vni = Vni::new(4711).expect("a VNI");
    plan.segments[0].encapsulation = Encapsulation::Vxlan;
    node.install(&plan);
    let done = node.receive_one(UPLINK, &frame);
    assert_eq!(done.sent[0].1[36..38], 4789u16.to_be_bytes());
    assert_eq!(done.sent[0].1[46..49], [0, 0x12, 0x67]);
}

#[test]
fn a_route_that_changes_is_followed_by_the_next_packet() {
    let mut plan = plans::edge();
    let mut node = node(&plan);
    let frame = outbound(address("198.18.9.9"), 1);
    let vlan_of = |frame: &[u8]| {
        if frame[12..14] == [0x81, 0] { u16::from_be_bytes([frame[14], frame[15]]) } else { 0 }
    };
    for interface in [0, 1, 0] {
        let hop = ["192.0.2.1", "198.51.100.1"][interface];
        plan.gateways[0].static_routes[0].next_hops = vec![plans::via_interface(hop, interface as u16)];
        node.install(&plan);
        for done in node.receive(ACCESS, &[&frame, &frame]) {
            assert_eq!((done.sent[0].0, vlan_of(&done.sent[0].1)), (UPLINK, [0, 300][interface]));
        }
    }
    plan.gateways[0].static_routes.remove(0);
    node.install(&plan);
    let done = node.receive_one(ACCESS, &frame);
    assert_eq!(done.sent[0].0, ACCESS, "only the ICMP error is sent, back to the workload");
    assert_eq!(done.sent[0].1[34..36], [3, 0], "net unreachable");
}

#[test]
fn a_segment_that_goes_takes_its_flows_along() {
    let mut plan = plans::edge();
    let mut node = node(&plan);
    let frame = inbound("10.2.0.11", 1);
    assert_eq!(node.receive(UPLINK, &[&frame, &frame])[1].sent.len(), 1);
    plan.workloads.retain(|workload| workload.segment != SegmentIndex(1));
    plan.segments[1].gateway = None;
    plan.segments[1].gateway_addresses.clear();
    node.install(&plan);
    let done = node.receive_one(UPLINK, &frame);
    assert!(done.sent.iter().all(|(port, _)| *port == UPLINK), "no longer to the fabric: {done:?}");
}

#[test]
fn an_unrelated_change_costs_no_packet() {
    let mut plan = plans::edge();
    let mut node = node(&plan);
    let frames: Vec<Vec<u8>> = (0..200)
        .map(|port| inbound(["10.1.0.12", "10.1.0.13", "10.2.0.11"][port % 3], port as u16))
        .collect();
    let before = node.receive(UPLINK, &frames);
    for number in 0..10 {
        if let Tier::Tier0 { interfaces, .. } = &mut plan.gateways[0].tier {
            interfaces[1].mtu = 1300 + number;
        }
        node.install(&plan);
        assert_eq!(node.receive(UPLINK, &frames), before, "the very same frames");
    }
    assert!(node.drops().is_empty());
}

#[test]
fn the_flow_cache_can_be_turned_off_and_on() {
    let mut node = node(&plans::edge());
    let frame = inbound("10.1.0.12", 1);
    let first = node.receive_one(UPLINK, &frame);
    for enabled in [false, true] {
        node.engine.enable_flow_cache(enabled);
        let hits = node.counters.cache_hits.get();
        assert_eq!(node.receive_one(UPLINK, &frame), first);
        assert_eq!(node.counters.cache_hits.get() - hits, u64::from(enabled));
    }
}
