//! Flows placed by the loads of TEPs: local and remote ones, where they begin, and how those that turn out large move.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sluice_datapath::time::Timestamp;
use sluice_intent::plan::{Placement, Plan, PortIndex, TepIndex};

use crate::common::bytes::{self, IpHeader};
use crate::common::node::{Node, port_mac};
use crate::common::plans::{UPLINK, address};
use crate::tep_groups::{LOCALS, STRANGER, grouped, node, states, way};

/// The way of a packet: port, local and remote TEP.
pub(crate) type Way = (PortIndex, IpAddr, IpAddr);
/// Two workloads behind the host with two TEPs, on segments of their own.
const WORKLOADS: [&str; 2] = ["10.1.0.12", "10.2.0.11"];

pub(crate) fn by_load() -> Plan {
    let mut plan = grouped(Placement::LoadAware);
    (plan.segments[1].teps, plan.segments[1].teaming) =
        (plan.segments[0].teps.clone(), plan.segments[0].teaming);
    plan
}

/// From the physical network to one of the workloads.
pub(crate) fn to(workload: usize, flow: u16, payload: usize) -> Vec<u8> {
    from("198.18.0.1", workload, flow, payload)
}

/// The same from somebody.
pub(crate) fn from(source: &str, workload: usize, flow: u16, payload: usize) -> Vec<u8> {
    let udp = bytes::udp(flow, 53, &vec![0; payload]);
    let packet = bytes::ip(&IpHeader::new(17), address(source), address(WORKLOADS[workload]), &udp);
    bytes::ethernet(port_mac(0), STRANGER, bytes::IPV4, &packet)
}

/// One packet of a flow, and the way that it took.
pub(crate) fn send(node: &mut Node, frame: &[u8]) -> Way {
    let done = node.receive_one(UPLINK, frame);
    assert_eq!((done.sent.len(), done.punted.len(), done.discarded.len()), (1, 0, 0), "{done:?}");
    way(&done.sent[0])
}

/// Lets time pass, with housekeeping as a worker has it.
pub(crate) fn pass(node: &mut Node, nanoseconds: u64) {
    let before = node.now.as_nanos();
    node.now = Timestamp::from_nanos(before + nanoseconds);
    if before / 2_000_000 != node.now.as_nanos() / 2_000_000 {
        node.engine.housekeeping(node.now);
    }
}

/// Sends `packets` packets of a flow, 100 µs apart.
pub(crate) fn carry(node: &mut Node, flow: u16, packets: usize) -> BTreeSet<Way> {
    let mut ways = BTreeSet::new();
    for _ in 0..packets {
        pass(node, 100_000);
        ways.insert(send(node, &to(0, flow, 64)));
    }
    ways
}

/// The only way of some.
pub(crate) fn only(ways: BTreeSet<Way>) -> Way {
    assert_eq!(ways.len(), 1, "no flow changes its way: {ways:?}");
    ways.into_iter().next().expect("one way")
}

fn counted<T: Ord>(all: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts
}

#[test]
fn flows_that_begin_together_take_both_ends_in_turn() {
    for first in 1..200 {
        let mut node = node(&by_load());
        pass(&mut node, 10_000_000);
        let source = |flow: u16| format!("198.18.1.{flow}");
        let frame = |flow| from(&source(flow), 0, first + flow, 64);
        let ways: Vec<Way> = (0..8).map(|flow| send(&mut node, &frame(flow))).collect();
        for two in ways.chunks(2).take(1) {
            assert!(two[0].1 != two[1].1 && two[0].2 != two[1].2, "{two:?}");
        }
        let locals = counted(ways.iter().map(|way| way.1));
        let remotes = counted(ways.iter().map(|way| way.2));
        assert!(locals.values().chain(remotes.values()).all(|flows| *flows == 4), "{ways:?}");
    }
}

#[test]
fn where_the_first_flow_of_all_goes_follows_from_its_hash() {
    let firsts = (1..400).map(|flow| send(&mut node(&by_load()), &to(0, flow, 64)));
    let counts = counted(firsts);
    assert_eq!(counts.len(), 4, "all pairs: {counts:?}");
    // Five standard deviations of 399 throws at a quarter.
    assert!(counts.values().all(|flows| (56..=143).contains(flows)), "{counts:?}");
}

#[test]
fn two_heavy_flows_share_neither_end_while_the_others_are_idle() {
    for first in (1..1000).step_by(2) {
        let mut node = node(&by_load());
        let one = only(carry(&mut node, first, 100));
        let other = only(carry(&mut node, first + 1, 100));
        assert!(one.1 != other.1 && one.2 != other.2, "flows {first} and {}: {one:?} {other:?}", first + 1);
    }
}

#[test]
fn no_flow_begins_on_a_pair_that_is_down() {
    let mut node = node(&by_load());
    let snapshot = std::sync::Arc::clone(node.engine.snapshot());
    let down = &snapshot.tunnels()[0];
    states(&node).set_pair(down.pair, false);
    for flow in 1..200 {
        let way = send(&mut node, &to(0, flow, 64));
        assert_ne!((way.1, way.2), (down.local, down.remote), "flow {flow}");
    }
    states(&node).set_tep(TepIndex(0), false);
    for flow in 200..300 {
        assert_eq!(send(&mut node, &to(0, flow, 64)).0, LOCALS[1].1, "flow {flow}");
    }
}

#[test]
fn a_flow_that_paused_is_placed_anew() {
    let mut node = node(&by_load());
    let quiet = only(carry(&mut node, 1, 60));
    let loud = only(carry(&mut node, 2, 100));
    assert_ne!(quiet.1, loud.1);
    // The first goes on now and then, the second falls silent for longer than a pause.
    for _ in 0..30 {
        node.now = Timestamp::from_nanos(node.now.as_nanos() + 150_000_000);
        node.engine.housekeeping(node.now);
        assert_eq!(only(carry(&mut node, 1, 20)), quiet, "a flow that goes on stays");
    }
    assert_ne!(only(carry(&mut node, 2, 10)).1, quiet.1);
    carry(&mut node, 3, 200);
    let busy = only(carry(&mut node, 2, 1));
    assert_ne!(busy.1, quiet.1, "still with its own, which is not loaded by then");
}

/// For two seconds each of these flows sends a large packet each millisecond: the ways that each takes in each half of a second.
fn rush(node: &mut Node, flows: &[(usize, u16)]) -> Vec<Vec<BTreeSet<Way>>> {
    let half = |node: &mut Node| {
        let mut ways = vec![BTreeSet::new(); flows.len()];
        for _ in 0..500 {
            for (ways, (workload, flow)) in ways.iter_mut().zip(flows) {
                pass(node, 1_000_000 / flows.len() as u64);
                ways.insert(send(node, &to(*workload, *flow, 1_200)));
            }
        }
        ways
    };
    (0..4).map(|_| half(node)).collect()
}

#[test]
fn large_flows_that_began_on_one_tep_part_and_stay_where_they_are() {
    let mut moved = 0;
    for first in 1..20 {
        let mut plan = by_load();
        plan.tep_group.as_mut().expect("a group").rebalance = true;
        let mut node = node(&plan);
        pass(&mut node, 10_000_000);
        // A small flow of somebody else before each of the large ones takes the other TEP.
        let flows = [(0, first * 10), (0, first * 10 + 1), (1, first * 10 + 2), (1, first * 10 + 3)];
        let sources = ["198.18.0.2", "198.18.0.1", "198.18.0.3", "198.18.0.1"];
        let mut begin = flows
            .iter()
            .zip(sources)
            .map(|((workload, flow), source)| send(&mut node, &from(source, *workload, *flow, 64)));
        let begin: [Way; 4] = std::array::from_fn(|_| begin.next().expect("four flows"));
        let together = begin[1].1 == begin[3].1 || begin[1].2 == begin[3].2;
        let halves = rush(&mut node, &[flows[1], flows[3]]);
        let [one, other] = [0, 1].map(|flow| only(halves[2][flow].clone()));
        assert!(one.1 != other.1 && one.2 != other.2, "{begin:?} {halves:?}");
        assert_eq!(halves[3], halves[2], "nothing moves any more");
        let changes = [0, 1].map(|flow| usize::from(begin[2 * flow + 1] != [one, other][flow]));
        assert!(changes.iter().sum::<usize>() <= 1, "one flow moves at most: {begin:?} {halves:?}");
        assert_eq!(changes.contains(&1), together, "and only if it has to: {begin:?} {halves:?}");
        moved += changes.iter().sum::<usize>();
    }
    assert!(moved > 0, "some began together");
}

#[test]
fn a_small_connection_and_the_large_one_after_it_are_one_for_placing() {
    for first in 1..200 {
        let mut node = node(&by_load());
        pass(&mut node, 10_000_000);
        // As four connections of two iperf3 begin: both small ones, then both large ones.
        let flows = [(0, first), (1, first + 1), (0, first + 2), (1, first + 3)];
        let begin = flows.map(|(workload, flow)| {
            pass(&mut node, 300_000);
            send(&mut node, &to(workload, flow, 64))
        });
        assert_eq!((begin[0].1, begin[0].2), (begin[2].1, begin[2].2));
        assert!(
            begin[2].1 != begin[3].1 && begin[2].2 != begin[3].2,
            "the large ones share no end: {begin:?}"
        );
        // A third and a fourth between the same ends each count.
        let more = [1000, 2000].map(|flow| send(&mut node, &to(0, first + flow, 64)));
        assert!(more[0].1 != more[1].1 && more[0].2 != more[1].2, "{more:?}");
        let halves = rush(&mut node, &[flows[2], flows[3]]);
        assert!(halves.iter().flatten().all(|ways| ways.len() == 1), "nothing moves: {halves:?}");
    }
}

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A packet of a TCP connection between the ends of [`to`].
fn tcp(workload: usize, flow: u16, flags: u8, payload: usize) -> Vec<u8> {
    let mut segment = bytes::tcp(flow, 5001, &vec![0; payload]);
    segment[13] = flags;
    let packet = bytes::ip(&IpHeader::new(6), address("198.18.0.1"), address(WORKLOADS[workload]), &segment);
    bytes::ethernet(port_mac(0), STRANGER, bytes::IPV4, &packet)
}

/// How many of some ways have each local and each remote TEP.
fn shares(ways: &[Way]) -> [Vec<usize>; 2] {
    let of = |counts: BTreeMap<IpAddr, usize>| counts.into_values().collect();
    [of(counted(ways.iter().map(|way| way.1))), of(counted(ways.iter().map(|way| way.2)))]
}

#[test]
fn connections_opened_side_by_side_are_no_companions() {
    for first in 1..100 {
        // As long as the answer takes; more than a millisecond of it has nothing to do with programs.
        for round_trip in [100_000, 2_000_000, 20_000_000] {
            let mut node = node(&by_load());
            pass(&mut node, 10_000_000);
            let flows = [first, first + 1, first + 2, first + 3];
            let begin = flows.map(|flow| {
                pass(&mut node, round_trip / 5);
                send(&mut node, &tcp(0, flow, SYN, 0))
            });
            assert!(begin[0].1 != begin[1].1 && begin[0].2 != begin[1].2, "{begin:?}");
            assert_eq!(shares(&begin), [[2, 2], [2, 2]], "flows from {first}, {round_trip} ns: {begin:?}");
            for _ in 0..10 {
                pass(&mut node, 1_000_000);
                assert_eq!(flows.map(|flow| send(&mut node, &tcp(0, flow, ACK, 1_400))), begin, "none moves");
            }
        }
    }
}

#[test]
fn streams_of_datagrams_that_begin_at_once_are_no_companions() {
    for first in 1..200 {
        for (apart, payload) in [(50_000, 64), (50_000, 1_400), (5_000_000, 1_400)] {
            let mut node = node(&by_load());
            pass(&mut node, 10_000_000);
            let one = send(&mut node, &to(0, first, payload));
            pass(&mut node, apart);
            let other = send(&mut node, &to(0, first + 1, payload));
            assert!(
                one.1 != other.1 && one.2 != other.2,
                "{payload} bytes, {apart} ns apart: {one:?} {other:?}"
            );
        }
    }
}

/// As iperf3 does: a connection for control, then those for data, each opened when the one before is answered, which send when all are open.
#[test]
fn a_small_connection_goes_with_the_first_large_one_and_the_others_count() {
    for (first, streams) in (1..100).flat_map(|first| [(first, 1), (first, 2), (first, 4)]) {
        let mut node = node(&by_load());
        pass(&mut node, 10_000_000);
        let open = |node: &mut Node, workload: usize, flow: u16, packets: usize| {
            let way = send(node, &tcp(workload, flow, SYN, 0));
            for payload in [0, 37, 150, 20].into_iter().take(packets) {
                pass(node, 100_000);
                assert_eq!(send(node, &tcp(workload, flow, ACK, payload)), way);
            }
            way
        };
        let control = open(&mut node, 0, first, 4);
        let data: Vec<Way> = (1..=streams).map(|flow| open(&mut node, 0, first + flow, 2)).collect();
        assert_eq!(data[0], control);
        let shares = shares(&data);
        if streams > 1 {
            let half = usize::from(streams) / 2;
            assert_eq!(shares, [[half, half], [half, half]], "flows from {first}: {data:?}");
        } else {
            let other = open(&mut node, 1, first, 4);
            assert!(other.1 != control.1 && other.2 != control.2, "{control:?} {other:?}");
            assert_eq!(open(&mut node, 1, first + 1, 2), other);
        }
    }
}

#[test]
fn flows_that_begin_on_two_workers_know_of_each_other() {
    for first in 1..200 {
        let mut one = node(&by_load());
        let mut other = one.second_worker();
        for worker in [&mut one, &mut other] {
            pass(worker, 10_000_000);
        }
        let mut ways = Vec::new();
        for flow in 0..4 {
            let source = |worker: u16| format!("198.18.{worker}.{flow}");
            ways.push(send(&mut one, &from(&source(1), 0, first, 64)));
            ways.push(send(&mut other, &from(&source(2), 0, first, 64)));
        }
        assert!(ways[0].1 != ways[1].1 && ways[0].2 != ways[1].2, "{ways:?}");
        assert_eq!(shares(&ways), [[4, 4], [4, 4]], "flows {first}: {ways:?}");
    }
}

#[test]
fn no_flow_moves_unless_the_document_asks_for_it() {
    for first in 1..20 {
        let mut node = node(&by_load());
        pass(&mut node, 10_000_000);
        send(&mut node, &from("198.18.0.2", 0, first, 64));
        let one = send(&mut node, &to(0, first, 64));
        send(&mut node, &from("198.18.0.3", 1, first, 64));
        let other = send(&mut node, &to(1, first, 64));
        let halves = rush(&mut node, &[(0, first), (1, first)]);
        for half in halves {
            assert_eq!(half, [BTreeSet::from([one]), BTreeSet::from([other])]);
        }
    }
}

#[test]
fn a_large_flow_alone_and_small_ones_do_not_move() {
    let mut plan = by_load();
    plan.tep_group.as_mut().expect("a group").rebalance = true;
    let mut node = node(&plan);
    pass(&mut node, 10_000_000);
    let begin = send(&mut node, &to(0, 1, 64));
    for half in rush(&mut node, &[(0, 1)]) {
        assert_eq!(half, [BTreeSet::from([begin])]);
    }
    let begin: Vec<Way> =
        (0..20).map(|flow| send(&mut node, &to(usize::from(flow % 2), 100 + flow, 64))).collect();
    for _ in 0..200 {
        for (flow, begin) in (0..20).zip(&begin) {
            pass(&mut node, 500_000);
            assert_eq!(send(&mut node, &to(usize::from(flow % 2), 100 + flow, 64)), *begin, "flow {flow}");
        }
    }
}
