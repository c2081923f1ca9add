//! Next hops that can be left out: service routers on other nodes that no tunnel reaches, and neighbours whose BFD sessions are down.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sluice_datapath::drops::DropReason;
use sluice_datapath::punt::PuntKind;
use sluice_datapath::snapshot::{Snapshot, TepPairId};
use sluice_intent::plan::{BfdPeer, DEFAULT_ROUTER_MAC, Location, TepIndex};
use sluice_wire::MacAddr;

use crate::common::bytes::{self, IpHeader};
use crate::common::node::{Node, port_mac};
use crate::common::plans::{self, ACCESS, UPLINK, address, workload_mac};

const EDGES: [&str; 3] = ["172.16.0.8", "172.16.0.9", "172.17.0.9"];
const STRANGER: MacAddr = MacAddr([0x02, 0xee, 0, 0, 0, 1]);
const FLOWS: u16 = 300;

/// A host with three service routers elsewhere, every next hop resolved.
fn host() -> Node {
    let plan = plans::host();
    assert!(matches!(plan.workloads[0].location, Location::Port { port: ACCESS, vlan: None }));
    let mut node = Node::new(&plan, true);
    for (number, key) in plans::neighbors(&plan).into_iter().enumerate() {
        node.set_neighbor(key, Some(plans::neighbor_mac(number)));
    }
    node
}

/// The edge that each flow to the physical network is sent to.
fn edges(node: &mut Node) -> Vec<IpAddr> {
    let frame = |flow: u16| {
        let body = bytes::udp(1024 + flow, 53, &[0; 64]);
        let packet = bytes::ip(&IpHeader::new(17), address("10.1.0.10"), address("198.18.0.1"), &body);
        bytes::ethernet(DEFAULT_ROUTER_MAC, workload_mac(0), bytes::IPV4, &packet)
    };
    let done = node.receive(ACCESS, &(0..FLOWS).map(frame).collect::<Vec<_>>());
    done.iter()
        .map(|done| {
            assert_eq!((done.sent.len(), done.punted.len(), done.discarded.len()), (1, 0, 0), "{done:?}");
            let octets: [u8; 4] = done.sent[0].1[30..34].try_into().expect("an IPv4 header");
            IpAddr::from(octets)
        })
        .collect()
}

/// The pair of TEPs that leads to an edge.
fn pair(snapshot: &Snapshot, remote: &str) -> TepPairId {
    let mut tunnels = snapshot.tunnels().iter();
    tunnels.find(|tunnel| tunnel.remote == address(remote)).expect("a tunnel to the edge").pair
}

#[test]
fn what_is_told_at_once_is_announced_once_and_not_where_its_tep_is_down_already() {
    let mut node = host();
    let before = edges(&mut node);
    let changes = |node: &Node, change: &dyn Fn(&Snapshot)| {
        let snapshot = node.engine.snapshot();
        let before = snapshot.tunnel_states().version();
        change(snapshot);
        snapshot.tunnel_states().version() - before
    };
    let pairs: Vec<_> = EDGES[1..].iter().map(|edge| pair(node.engine.snapshot(), edge)).collect();
    let all = |usable: bool| pairs.iter().map(|pair| (*pair, usable)).collect::<Vec<_>>();
    assert_eq!(changes(&node, &|snapshot| snapshot.set_reachable(&all(false), &[])), 1);
    assert_eq!(changes(&node, &|snapshot| snapshot.set_reachable(&all(false), &[])), 0, "no news");
    assert!(edges(&mut node).iter().all(|edge| *edge == address(EDGES[0])));
    assert_eq!(changes(&node, &|snapshot| snapshot.set_tep(TepIndex(0), false)), 1);
    assert_eq!(
        changes(&node, &|snapshot| snapshot.set_reachable(&all(true), &[])),
        0,
        "no flow goes by them"
    );
    assert_eq!(changes(&node, &|snapshot| snapshot.set_tep(TepIndex(0), true)), 1);
    assert_eq!(edges(&mut node), before, "they are known to be reached");
}

#[test]
fn flows_leave_a_service_router_that_is_not_reached_and_return_to_it() {
    let mut node = host();
    let before = edges(&mut node);
    assert_eq!(before.iter().copied().collect::<BTreeSet<_>>(), EDGES.map(address).into());
    for edge in EDGES {
        let pair = pair(node.engine.snapshot(), edge);
        node.engine.snapshot().set_pair(pair, false);
        let during = edges(&mut node);
        let mut taken = BTreeSet::new();
        for (before, during) in before.iter().zip(&during) {
            assert_ne!(*during, address(edge));
            if *before == address(edge) {
                taken.insert(*during);
            } else {
                assert_eq!(before, during, "flows of the others stay where they are");
            }
        }
        assert_eq!(taken.len(), 2, "both others take their share");
        node.engine.snapshot().set_pair(pair, true);
        assert_eq!(edges(&mut node), before, "every flow is back");
    }
}

#[test]
fn only_the_flows_of_what_fails_and_returns_are_decided_again() {
    let (mut host, mut edge) = (host(), edge());
    let before = edges(&mut host);
    let mut decided = host.counters.cache_misses.get();
    for failing in EDGES {
        let pair = pair(host.engine.snapshot(), failing);
        let concerned = before.iter().filter(|edge| **edge == address(failing)).count() as u64;
        for usable in [false, true] {
            host.engine.snapshot().set_pair(pair, usable);
            edges(&mut host);
            decided += concerned;
            assert_eq!(host.counters.cache_misses.get(), decided, "{failing}, usable: {usable}");
        }
    }
    let before = vlans(&mut edge);
    let mut decided = edge.counters.cache_misses.get();
    for (failing, tagged) in [("192.0.2.1", false), ("198.51.100.1", true)] {
        let mut all = edge.engine.snapshot().bfd_neighbors().iter();
        let next_hop = all.find(|bfd| bfd.neighbor.address == address(failing)).expect("watched").next_hop;
        let concerned = before.iter().filter(|other| **other == tagged).count() as u64;
        for reachable in [false, true] {
            edge.engine.snapshot().set_next_hop(next_hop, reachable);
            vlans(&mut edge);
            decided += concerned;
            assert_eq!(edge.counters.cache_misses.get(), decided, "{failing}, reachable: {reachable}");
        }
    }
}

#[test]
fn the_last_one_is_kept_and_so_is_the_first_that_returns() {
    let mut node = host();
    let before = edges(&mut node);
    node.engine.snapshot().set_tep(TepIndex(0), false);
    assert_eq!(edges(&mut node), before, "without any that is reached flows stay where they are");
    node.engine.snapshot().set_tep(TepIndex(0), true);
    let [first, second, third] = EDGES.map(|edge| pair(node.engine.snapshot(), edge));
    node.engine.snapshot().set_pair(first, false);
    node.engine.snapshot().set_pair(third, false);
    assert!(edges(&mut node).iter().all(|edge| *edge == address(EDGES[1])));
    node.engine.snapshot().set_pair(second, false);
    assert_eq!(edges(&mut node), before);
    node.engine.snapshot().set_pair(third, true);
    assert!(edges(&mut node).iter().all(|edge| *edge == address(EDGES[2])));
}

/// An edge whose default route has two neighbours, both of them watched.
fn edge() -> Node {
    let mut plan = plans::edge();
    let second = BfdPeer {
        address: address("198.51.100.1"),
        local: address("198.51.100.2"),
        interface: 1,
        ..plan.gateways[0].bfd_peers[0]
    };
    plan.gateways[0].bfd_peers.push(second);
    let mut node = Node::new(&plan, true);
    for (number, key) in plans::neighbors(&plan).into_iter().enumerate() {
        node.set_neighbor(key, Some(plans::neighbor_mac(number)));
    }
    node
}

/// The VLAN that each flow to the physical network leaves on.
fn vlans(node: &mut Node) -> Vec<bool> {
    let frame = |flow: u16| {
        let body = bytes::udp(1024 + flow, 53, &[0; 64]);
        let packet = bytes::ip(&IpHeader::new(17), address("10.1.0.10"), address("198.18.0.1"), &body);
        bytes::ethernet(DEFAULT_ROUTER_MAC, workload_mac(0), bytes::IPV4, &packet)
    };
    let done = node.receive(ACCESS, &(0..FLOWS).map(frame).collect::<Vec<_>>());
    done.iter().map(|done| done.sent[0].1[12..14] == [0x81, 0]).collect()
}

#[test]
fn flows_leave_a_neighbor_that_bfd_says_is_not_reached_and_return_to_it() {
    let mut node = edge();
    let before = vlans(&mut node);
    assert!(before.contains(&true) && before.contains(&false), "both neighbours are used");
    let snapshot = node.engine.snapshot();
    let watched = |text: &str| {
        let mut all = snapshot.bfd_neighbors().iter();
        all.find(|bfd| bfd.neighbor.address == address(text)).expect("it is watched").next_hop
    };
    let (first, second) = (watched("192.0.2.1"), watched("198.51.100.1"));
    node.engine.snapshot().set_next_hop(first, false);
    assert!(vlans(&mut node).iter().all(|tagged| *tagged));
    node.engine.snapshot().set_next_hop(second, false);
    assert_eq!(vlans(&mut node), before, "without any that is reached flows stay where they are");
    node.engine.snapshot().set_next_hop(first, true);
    assert!(vlans(&mut node).iter().all(|tagged| !*tagged));
    node.engine.snapshot().set_next_hop(second, true);
    assert_eq!(vlans(&mut node), before);
}

#[test]
fn bfd_of_a_neighbor_is_for_the_control_thread_and_what_was_forwarded_is_not_bfd() {
    let mut node = edge();
    let frame = |source: &str, destination: &str, ttl: u8| {
        let packet = bytes::ip(
            &IpHeader { ttl, ..IpHeader::new(17) },
            address(source),
            address(destination),
            &bytes::udp(50_000, 3784, &[0x20; 24]),
        );
        bytes::ethernet(port_mac(UPLINK.index()), STRANGER, bytes::IPV4, &packet)
    };
    let done = node.receive_one(UPLINK, &frame("192.0.2.1", "192.0.2.2", 255));
    assert_eq!(done.punted[0].0.kind, PuntKind::Bfd);
    let done = node.receive_one(UPLINK, &frame("192.0.2.1", "192.0.2.2", 254));
    assert!(done.punted.is_empty() && done.discarded[0] == DropReason::BfdForwarded, "{done:?}");
    for (source, destination) in [("192.0.2.7", "192.0.2.2"), ("192.0.2.1", "198.51.100.2")] {
        let done = node.receive_one(UPLINK, &frame(source, destination, 255));
        let to_control = done.punted.iter().any(|(punt, _)| punt.kind == PuntKind::Bfd);
        assert!(!to_control, "{source} to {destination} is nobody that is watched: {done:?}");
    }
}
