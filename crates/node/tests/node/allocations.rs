//! Workers make no heap allocations for packets, whether they decide them or find the decision in the flow cache, with a profile or without.

use sluice_control::Request;

use crate::forwarding::Ends;
use crate::lifecycle::quiet_folder;
use crate::support::documents::{DB_1, PORTS, ROUTER_MAC, WEB_1, WEB_2};
use crate::support::frames::{flow, numbered, routed, tunnelled};
use crate::support::network::in_network;
use crate::support::node::{Node, answer};
use crate::support::wait_for;

/// Flows of the test, each of them decided once.
const FLOWS: u64 = 200;

/// Heap allocations of the only worker.
fn allocations(node: &Node) -> u64 {
    answer!(node, &Request::GetCpuStats, CpuStats)[0].heap_allocations
}

/// Sends a datagram from one workload to the other and waits for it.
fn through(ends: &Ends, number: u64) {
    let frame = numbered(WEB_1, DB_1.0, number);
    let expected = routed(&frame, ROUTER_MAC, DB_1.1);
    ends.web_1.send(&frame);
    ends.db_1.expect("the datagram", |frame| (frame == expected).then_some(()));
}

#[test]
fn forwarding_allocates_nothing() {
    in_network("allocations::forwarding_allocates_nothing", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        // Each loop of the worker tells its count when it ends, so that of the packet before is there.
        through(&ends, 0);
        through(&ends, 1);
        let before = allocations(&node);
        let misses = node.flow_cache().misses;
        for number in 0..FLOWS {
            // Half of the flows without a profile, half with one; each beginning is a new one.
            if number >= FLOWS / 2 && number % 10 == 0 {
                answer!(node, &Request::SetProfile { enabled: true }, Done);
            }
            let frame = flow(WEB_1, WEB_2.1, WEB_2.0, 10_000 + number as u16, b"into a tunnel");
            for _ in 0..3 {
                ends.web_1.send(&frame);
                ends.underlay.expect("a tunnel packet", tunnelled);
            }
            through(&ends, number);
        }
        answer!(node, &Request::SetProfile { enabled: false }, Done);
        through(&ends, FLOWS);
        through(&ends, FLOWS + 1);
        let cache = node.flow_cache();
        assert!(
            cache.misses >= misses + FLOWS && cache.hits >= 2 * FLOWS,
            "both paths were taken: {cache:?}"
        );
        assert_eq!(allocations(&node), before, "{} packets later", 4 * FLOWS);
    });
}

#[test]
fn what_a_worker_allocates_is_seen() {
    // Writing a log line allocates, and the first one is the worker's own.
    let node = Node::start_logging(quiet_folder(), "debug");
    wait_for("the worker's allocations", || (allocations(&node) > 0).then_some(()));
}
