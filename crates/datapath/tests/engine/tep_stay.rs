//! Flows that were placed by the loads of TEPs stay where they are while they send, whatever has to be decided again.

use std::collections::BTreeSet;

use sluice_datapath::neighbor::NeighborKey;
use sluice_datapath::time::Timestamp;
use sluice_intent::plan::{DEFAULT_ROUTER_MAC, Plan, PortIndex};
use sluice_wire::MacAddr;

use crate::common::bytes::{self, IpHeader};
use crate::common::node::{CACHE, Node, port_mac};
use crate::common::plans::{self, ACCESS, UPLINK, address, workload_mac};
use crate::tep_groups::{STRANGER, node, way};
use crate::tep_loads::{Way, by_load, carry, from, only, pass, send, to};

/// Rewrites that an engine holds.
const REWRITES: u32 = 1 << 16;

fn later(node: &mut Node, seconds: u64) {
    node.now = Timestamp::from_nanos(node.now.as_nanos() + seconds * 1_000_000_000);
}

/// A packet of the flow that [`to`] makes, with another header and payload.
fn other_packet(flow: u16, header: IpHeader, payload: usize) -> Vec<u8> {
    let udp = bytes::udp(flow, 53, &vec![0; payload]);
    let packet = bytes::ip(&header, address("198.18.0.1"), address("10.1.0.12"), &udp);
    bytes::ethernet(port_mac(0), STRANGER, bytes::IPV4, &packet)
}

#[test]
fn a_packet_that_its_rewrite_does_not_fit_leaves_its_flow_where_it_is() {
    for flow in 1..100 {
        let mut node = node(&by_load());
        let way_of_all = only(carry(&mut node, flow, 100));
        let done =
            node.receive_one(UPLINK, &other_packet(flow, IpHeader { ttl: 1, ..IpHeader::new(17) }, 64));
        assert!(done.sent.iter().all(|(port, _)| *port == UPLINK), "its sender is told: {done:?}");
        assert_eq!(
            send(&mut node, &to(0, flow, 64)),
            way_of_all,
            "flow {flow} after a packet that did not live"
        );
        let done = node.receive_one(UPLINK, &other_packet(flow, IpHeader::new(17), 2_000));
        assert!(done.sent.len() > 1, "in fragments: {done:?}");
        assert!(done.sent.iter().all(|sent| way(sent) == way_of_all), "flow {flow} in fragments: {done:?}");
        assert_eq!(send(&mut node, &to(0, flow, 64)), way_of_all, "flow {flow} after one that was too big");
    }
}

/// Forty flows of which the first carry more than the others; their ways.
fn placed(node: &mut Node) -> Vec<Way> {
    pass(node, 10_000_000);
    let sources = (0..40).map(|flow| (flow, format!("198.18.2.{flow}")));
    let frames: Vec<Vec<u8>> = sources.map(|(flow, source)| from(&source, 0, 1000 + flow, 64)).collect();
    let ways: Vec<Way> = frames.iter().map(|frame| send(node, frame)).collect();
    for (flow, frame) in frames.iter().enumerate() {
        for _ in 0..80 - flow * 2 {
            pass(node, 100_000);
            send(node, frame);
        }
    }
    ways
}

/// Their ways now.
fn ways_now(node: &mut Node) -> Vec<Way> {
    let frame = |flow: u16| from(&format!("198.18.2.{flow}"), 0, 1000 + flow, 64);
    (0..40).map(|flow| send(node, &frame(flow))).collect()
}

#[test]
fn a_new_document_moves_no_flow_that_sends() {
    let mut plan = by_load();
    let mut node = node(&plan);
    let before = placed(&mut node);
    // Other numbers for the same TEPs and tunnels.
    plan.segments.iter_mut().take(2).for_each(|segment| segment.teps.reverse());
    plan.remote_tep_groups[0].teps.reverse();
    plan.segments[0].remote_teps.reverse();
    for document in 0..3 {
        node.install(&plan);
        assert_eq!(ways_now(&mut node), before, "after document {document}");
    }
    // Without one of the TEPs its flows are placed anew, and only those.
    plan.remote_tep_groups[0].teps.remove(0);
    let gone = address(crate::tep_groups::REMOTES[1]);
    node.install(&plan);
    for (before, now) in before.iter().zip(ways_now(&mut node)) {
        assert_eq!(now.2, address(crate::tep_groups::REMOTES[0]));
        assert!(before.2 == gone || *before == now, "{before:?} {now:?}");
    }
}

#[test]
fn a_neighbor_that_changes_moves_no_flow_that_sends() {
    let mut node = node(&by_load());
    let before = placed(&mut node);
    let hops: BTreeSet<_> = {
        let tunnels = node.engine.snapshot().tunnels().iter();
        tunnels.map(|tunnel| (tunnel.next_hop.port, tunnel.next_hop.vlan, tunnel.next_hop.address)).collect()
    };
    for round in 0..3 {
        for (number, (port, vlan, address)) in hops.iter().copied().enumerate() {
            let key = NeighborKey { port, vlan, address };
            node.set_neighbor(key, Some(MacAddr([2, 0xdf, 0, round, 0, number as u8])));
        }
        assert_eq!(ways_now(&mut node), before, "after the neighbours changed, round {round}");
    }
}

/// From a workload to a host on the uplink.
fn outbound(host: u32) -> Vec<u8> {
    let destination = format!("2001:db8:a::{:x}:{:x}", 1 + (host >> 16), host & 0xffff);
    let udp = bytes::udp(1, 53, &[0; 8]);
    let packet = bytes::ip(&IpHeader::new(17), address("2001:db8:1::10"), address(&destination), &udp);
    bytes::ethernet(DEFAULT_ROUTER_MAC, workload_mac(0), bytes::IPV6, &packet)
}

#[test]
fn without_room_for_a_rewrite_a_flow_has_one_way() {
    let mut node = node(&by_load());
    let neighbor = |host: u32| {
        let destination = address(&format!("2001:db8:a::{:x}:{:x}", 1 + (host >> 16), host & 0xffff));
        (
            NeighborKey { port: UPLINK, vlan: 0, address: destination },
            Some(plans::neighbor_mac(host as usize)),
        )
    };
    node.set_neighbors(&(0..REWRITES).map(neighbor).collect::<Vec<_>>());
    let frames: Vec<Vec<u8>> = (0..REWRITES).map(outbound).collect();
    node.receive(ACCESS, &frames);
    assert_eq!((node.counters.cache_skips.get(), node.drops()), (0, Vec::new()));
    later(&mut node, 5);
    let packets = 40;
    for flow in 1..20 {
        only(carry(&mut node, flow, packets));
    }
    assert_eq!(node.counters.cache_skips.get(), 19 * packets as u64, "no rewrite had room");
}

/// Twice as many flows as the cache has places send in turn: one that makes room for another is decided again and again.
#[test]
fn where_flows_crowd_each_other_out_each_moves_once_at_most() {
    let mut node = node(&by_load());
    let flows = 2 * CACHE as u16;
    let frames: Vec<Vec<u8>> = (1..=flows).map(|flow| to(0, flow, 64)).collect();
    let mut last: Vec<Option<Way>> = vec![None; frames.len()];
    let mut moves = vec![0; frames.len()];
    for _ in 0..6 {
        pass(&mut node, 10_000_000);
        for (number, done) in node.receive(UPLINK, &frames).iter().enumerate() {
            let now = way(&done.sent[0]);
            moves[number] += usize::from(last[number].replace(now).is_some_and(|last| last != now));
        }
    }
    assert!(node.counters.cache_evictions.get() > u64::from(flows), "they do crowd each other out");
    assert!(moves.iter().all(|moves| *moves <= 1), "{:?} moves of one flow", moves.iter().max());
}

#[test]
fn a_flow_that_paused_is_placed_anew_however_large_the_cache_is() {
    for first in (1..400).step_by(3) {
        let mut node = node(&by_load());
        carry(&mut node, first, 40);
        later(&mut node, 4);
        // Little time, of which housekeeping has not come around the cache.
        let other = only(carry(&mut node, first + 1, 40));
        let anew = send(&mut node, &to(0, first, 64));
        assert!(anew.1 != other.1 && anew.2 != other.2, "flow {first}: {anew:?} {other:?}");
    }
}

#[test]
fn a_flow_that_is_not_placed_by_load_goes_on_after_a_pause() {
    let plan: Plan = by_load();
    let mut node = node(&plan);
    for (number, key) in plans::neighbors(&plan).into_iter().enumerate() {
        node.set_neighbor(key, Some(plans::neighbor_mac(number)));
    }
    let frame = {
        let udp = bytes::udp(1, 53, &[0; 8]);
        let packet = bytes::ip(&IpHeader::new(17), address("10.1.0.10"), address("198.18.0.1"), &udp);
        bytes::ethernet(DEFAULT_ROUTER_MAC, workload_mac(0), bytes::IPV4, &packet)
    };
    let ports = |node: &mut Node| -> Vec<PortIndex> {
        node.receive_one(ACCESS, &frame).sent.iter().map(|(port, _)| *port).collect()
    };
    assert_eq!(ports(&mut node), [UPLINK]);
    for pauses in 1..5 {
        later(&mut node, 10);
        assert_eq!(ports(&mut node), [UPLINK]);
        assert_eq!((node.counters.cache_misses.get(), node.counters.cache_hits.get()), (1, pauses));
    }
}
