//! Service routers on other nodes: flows leave one that no tunnel reaches, and return to it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sluice_datapath::snapshot::{Snapshot, TepPairId};
use sluice_intent::plan::{DEFAULT_ROUTER_MAC, Location, TepIndex};

use crate::common::bytes::{self, IpHeader};
use crate::common::node::Node;
use crate::common::plans::{self, ACCESS, address, workload_mac};

const EDGES: [&str; 3] = ["172.16.0.8", "172.16.0.9", "172.17.0.9"];
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
