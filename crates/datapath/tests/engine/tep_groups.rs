//! TEP groups: how flows are spread over pairs of TEPs, and what becomes of them when TEPs fail and come back.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sluice_datapath::snapshot::Snapshot;
use sluice_intent::plan::{
    Location, Placement, Plan, PortIndex, RemoteTepGroup, Teaming, Tep, TepGroup, TepIndex, UplinkIndex,
    Workload,
};
use sluice_wire::{MacAddr, VlanId};

use crate::common::bytes::{self, IpHeader};
use crate::common::node::{Node, port_mac};
use crate::common::plans::{self, FABRIC, UPLINK, address, net};

pub(crate) const STRANGER: MacAddr = MacAddr([0x02, 0xee, 0, 0, 0, 1]);
/// The remote TEPs of one node.
pub(crate) const REMOTES: [&str; 2] = ["172.16.0.2", "172.16.0.3"];

/// An edge with two TEPs on two uplinks, of which the segment `web` is not pinned to either, and a host with two.
pub(crate) fn grouped(placement: Placement) -> Plan {
    let mut plan = plans::edge();
    plan.teps.push(Tep {
        name: "tep-3".into(),
        address: net("172.16.3.1/24"),
        gateway: Some(address("172.16.3.254")),
        uplink: UplinkIndex(0),
        vlan: VlanId::new(20).ok(),
        mtu: 1700,
    });
    plan.tep_group = Some(TepGroup { id: 7, placement, rebalance: false });
    let teps = REMOTES.map(address).to_vec();
    plan.remote_tep_groups = vec![RemoteTepGroup { name: "host-2".into(), teps }];
    plan.segments[0].teps = vec![TepIndex(0), TepIndex(2)];
    plan.segments[0].teaming = Teaming::Group(placement);
    plan
}

/// The local TEPs of the group, with the ports that they leave through.
pub(crate) const LOCALS: [(TepIndex, PortIndex); 2] = [(TepIndex(0), FABRIC), (TepIndex(2), UPLINK)];

/// A node with every next hop of its tunnels resolved.
pub(crate) fn node(plan: &Plan) -> Node {
    let mut node = Node::new(plan, true);
    let hops: BTreeSet<_> = node
        .engine
        .snapshot()
        .tunnels()
        .iter()
        .map(|tunnel| (tunnel.next_hop.port, tunnel.next_hop.vlan, tunnel.next_hop.address))
        .collect();
    for (number, (port, vlan, address)) in hops.into_iter().enumerate() {
        let key = sluice_datapath::neighbor::NeighborKey { port, vlan, address };
        node.set_neighbor(key, Some(plans::neighbor_mac(number)));
    }
    node
}

/// From the physical network to the workload `10.1.0.12`, which is behind the host with two TEPs.
fn inbound(flow: u16) -> Vec<u8> {
    let packet = bytes::ip(
        &IpHeader::new(17),
        address("198.18.0.1"),
        address("10.1.0.12"),
        &bytes::udp(flow, 53, &[0; 64]),
    );
    bytes::ethernet(port_mac(0), STRANGER, bytes::IPV4, &packet)
}

/// The pair of TEPs that a frame goes between, and the port that it leaves through.
pub(crate) fn way((port, frame): &(PortIndex, Vec<u8>)) -> (PortIndex, IpAddr, IpAddr) {
    let network = if frame[12..14] == [0x81, 0x00] { 18 } else { 14 };
    let at = |from: usize| {
        let octets: [u8; 4] = frame[network + from..network + from + 4].try_into().expect("an IPv4 header");
        IpAddr::from(octets)
    };
    (*port, at(12), at(16))
}

/// The way of each of so many flows.
fn ways(node: &mut Node, flows: u16) -> Vec<(PortIndex, IpAddr, IpAddr)> {
    let frames: Vec<Vec<u8>> = (1..=flows).map(inbound).collect();
    let done = node.receive(UPLINK, &frames);
    done.iter()
        .map(|done| {
            assert_eq!((done.sent.len(), done.punted.len(), done.discarded.len()), (1, 0, 0), "{done:?}");
            way(&done.sent[0])
        })
        .collect()
}

pub(crate) fn states(node: &Node) -> &Snapshot {
    node.engine.snapshot()
}

#[test]
fn flows_take_all_pairs_evenly_and_each_keeps_its_own() {
    let mut node = node(&grouped(Placement::Hash));
    let first = ways(&mut node, 1000);
    let mut counts = BTreeMap::new();
    first.iter().for_each(|way| *counts.entry(*way).or_insert(0u32) += 1);
    assert_eq!(counts.len(), 4, "two local TEPs and two remote ones: {counts:?}");
    for (way, count) in &counts {
        // Four standard deviations of 1,000 throws at a quarter.
        assert!((195..=305).contains(count), "{way:?} has {count} of 1000 flows");
        let (_, port) = LOCALS[usize::from(way.1 == address("172.16.3.1"))];
        assert_eq!(way.0, port, "each TEP leaves through its own uplink");
    }
    assert_eq!(ways(&mut node, 1000), first);
    assert_eq!(node.counters.cache_hits.get(), 1000);
    let mut uncached = self::node(&grouped(Placement::Hash));
    uncached.engine.enable_flow_cache(false);
    assert_eq!(ways(&mut uncached, 1000), first, "decided again, the same");
}

#[test]
fn a_segment_that_is_pinned_stays_on_its_tep_and_takes_both_remote_ones() {
    let mut plan = grouped(Placement::Hash);
    plan.segments[0].teaming = Teaming::FailoverOrder;
    let taken: BTreeSet<_> = ways(&mut node(&plan), 500).into_iter().map(|way| (way.1, way.2)).collect();
    assert_eq!(taken, REMOTES.map(|remote| (address("172.16.0.1"), address(remote))).into());
}

#[test]
fn a_segment_that_is_pinned_leaves_a_tep_that_fails_and_returns_to_it() {
    let mut plan = grouped(Placement::Hash);
    plan.segments[0].teps = vec![TepIndex(2), TepIndex(0)];
    plan.segments[0].teaming = Teaming::FailoverOrder;
    let mut node = node(&plan);
    let locals =
        |ways: &[(PortIndex, IpAddr, IpAddr)]| -> BTreeSet<_> { ways.iter().map(|way| way.1).collect() };
    let before = ways(&mut node, 200);
    let decided = node.counters.cache_misses.get();
    assert_eq!(locals(&before), [address("172.16.3.1")].into());
    states(&node).set_tep(TepIndex(2), false);
    let during = ways(&mut node, 200);
    assert_eq!(locals(&during), [address("172.16.0.1")].into());
    let remotes: BTreeSet<_> = during.iter().map(|way| way.2).collect();
    assert_eq!(remotes, REMOTES.map(address).into(), "they still take both TEPs of the other node");
    states(&node).set_tep(TepIndex(2), true);
    assert_eq!(ways(&mut node, 200), before);
    assert_eq!(node.counters.cache_misses.get(), decided, "the flow cache was not touched");
    // One of the ways from the first TEP: the other one from there comes before the next TEP.
    let pairs = node.engine.snapshot().tunnels().iter();
    let pair = pairs.filter(|tunnel| tunnel.tep == TepIndex(2)).map(|tunnel| tunnel.pair).next();
    states(&node).set_pair(pair.expect("a pair has tunnels"), false);
    assert_eq!(locals(&ways(&mut node, 200)), [address("172.16.3.1")].into());
}

/// The local TEPs that the flows of one of two workloads leave by, each on a port of its own.
fn locals_of(plan: &Plan, workload: usize, flows: u16) -> BTreeSet<IpAddr> {
    let mut node = node(plan);
    let Location::Port { port, vlan } = plan.workloads[workload].location else { panic!("a local workload") };
    let source = plan.workloads[workload].addresses[0];
    let frames = (1..=flows).map(|flow| {
        let body = bytes::udp(flow, 53, &[0; 64]);
        let packet = bytes::ip(&IpHeader::new(17), source, address("10.1.0.12"), &body);
        let frame =
            bytes::ethernet(plans::workload_mac(2), plan.workloads[workload].mac, bytes::IPV4, &packet);
        bytes::on_vlan(frame, vlan.map_or(0, u16::from))
    });
    let done = node.receive(port, &frames.collect::<Vec<_>>());
    done.iter().map(|done| way(&done.sent[0]).1).collect()
}

#[test]
fn by_source_all_flows_of_a_workload_take_the_same_tep() {
    for teaming in [Teaming::SourcePort, Teaming::SourceMac] {
        let mut plan = grouped(Placement::Hash);
        plan.segments[0].teaming = teaming;
        let here = |workload: &Workload| {
            workload.segment.0 == 0 && matches!(workload.location, Location::Port { .. })
        };
        let local: Vec<usize> = (0..plan.workloads.len()).filter(|n| here(&plan.workloads[*n])).collect();
        let ways: Vec<_> = local.iter().map(|workload| locals_of(&plan, *workload, 100)).collect();
        assert!(ways.iter().all(|teps| teps.len() == 1), "{teaming:?}: {ways:?}");
    }
}

/// Workloads whose VLANs and MAC addresses lie `step` apart, behind the first of the ports for them.
fn workloads_in_steps(plan: &mut Plan, step: u16) -> Vec<usize> {
    (0..60)
        .map(|number| {
            let mut workload = plan.workloads[0].clone();
            workload.name = format!("step-{number}");
            let place = 200 + number * step;
            workload.mac = MacAddr([0x02, 0xbd, 0, 0, (place >> 8) as u8, place as u8]);
            workload.addresses = vec![address(&format!("10.1.0.{}", 100 + number))];
            workload.location = Location::Port { port: plans::ACCESS, vlan: VlanId::new(place).ok() };
            plan.workloads.push(workload);
            plan.workloads.len() - 1
        })
        .collect()
}

#[test]
fn by_source_workloads_are_spread_however_they_are_numbered() {
    for teaming in [Teaming::SourcePort, Teaming::SourceMac] {
        for step in [1, 2, 3, 4, 5, 8, 10, 16, 50] {
            let mut plan = grouped(Placement::Hash);
            plan.segments[0].teaming = teaming;
            let workloads = workloads_in_steps(&mut plan, step);
            let mut counts = BTreeMap::new();
            for workload in workloads {
                let teps = locals_of(&plan, workload, 4);
                assert_eq!(teps.len(), 1, "{teaming:?}, a workload has one TEP: {teps:?}");
                *counts.entry(teps.into_iter().next()).or_insert(0u32) += 1;
            }
            // Five standard deviations of 60 throws at a half.
            let even = counts.len() == 2 && counts.values().all(|count| (11..=49).contains(count));
            assert!(even, "{teaming:?} in steps of {step}: {counts:?}");
        }
    }
}

#[test]
fn by_source_what_enters_by_one_uplink_takes_both_teps_and_each_source_one() {
    for teaming in [Teaming::SourcePort, Teaming::SourceMac] {
        let mut plan = grouped(Placement::Hash);
        plan.segments[0].teaming = teaming;
        let mut node = node(&plan);
        let mut locals_of = |source: u16| -> BTreeSet<IpAddr> {
            let source = address(&format!("198.18.{}.{}", source >> 8, source & 255));
            let frame = |flow: u16| {
                let body = bytes::udp(flow, 53, &[0; 64]);
                let packet = bytes::ip(&IpHeader::new(17), source, address("10.1.0.12"), &body);
                bytes::ethernet(port_mac(0), STRANGER, bytes::IPV4, &packet)
            };
            let done = node.receive(UPLINK, &(1..=10).map(frame).collect::<Vec<_>>());
            done.iter().map(|done| way(&done.sent[0]).1).collect()
        };
        let taken: Vec<_> = (0..400).map(|source| locals_of(source * 2)).collect();
        assert!(taken.iter().all(|teps| teps.len() == 1), "{teaming:?}: a source has one TEP");
        let first = taken.iter().filter(|teps| teps.contains(&address("172.16.0.1"))).count();
        // Five standard deviations of 400 throws at a half.
        assert!((150..=250).contains(&first), "{teaming:?}: {first} of 400 sources take the first TEP");
    }
}

#[test]
fn a_tep_that_fails_is_left_by_the_next_packet_without_a_decision_and_found_again() {
    let mut node = node(&grouped(Placement::Hash));
    let before = ways(&mut node, 1000);
    let decided = node.counters.cache_misses.get();
    for (tep, _) in LOCALS {
        states(&node).set_tep(tep, false);
        let during = ways(&mut node, 1000);
        let local = node.engine.snapshot().plan().teps[tep.index()].address.addr();
        for (before, during) in before.iter().zip(&during) {
            assert_ne!(during.1, local, "nothing leaves by what has failed");
            if before.1 != local {
                assert_eq!(before, during, "flows of the other TEP stay where they are");
            }
        }
        states(&node).set_tep(tep, true);
        assert_eq!(ways(&mut node, 1000), before, "every flow is back on its own");
    }
    assert_eq!(node.counters.cache_misses.get(), decided, "the flow cache was not touched");
    let carried: u64 = node.counters.tep_bytes.iter().map(sluice_datapath::counters::Counter::get).sum();
    node.engine.housekeeping(node.now);
    let all: u64 = node.counters.tep_bytes.iter().map(sluice_datapath::counters::Counter::get).sum();
    let frame = 14 + 20 + 8 + 8 + 14 + 20 + 8 + 64;
    let packets = 5 * 1000;
    assert!(carried < all, "what housekeeping had not seen yet");
    assert!(
        all >= packets * frame && all <= packets * (frame + 4),
        "{all} bytes, some of them in tagged frames"
    );
}

#[test]
fn a_pair_that_fails_is_left_alone() {
    let mut node = node(&grouped(Placement::Hash));
    let before = ways(&mut node, 1000);
    let pairs = node.engine.snapshot().tep_pairs().to_vec();
    for (number, pair) in pairs.iter().enumerate() {
        let local = node.engine.snapshot().plan().teps[pair.tep.index()].address.addr();
        let id = node.engine.snapshot().tunnels().iter().find(|t| t.pair.index() == number).map(|t| t.pair);
        states(&node).set_pair(id.expect("a pair has tunnels"), false);
        for (before, during) in before.iter().zip(ways(&mut node, 1000)) {
            let failed = (before.1, before.2) == (local, pair.remote);
            assert_eq!(failed, *before != during, "{before:?} {during:?} with {pair:?} down");
        }
        states(&node).set_pair(id.expect("a pair has tunnels"), true);
    }
    assert_eq!(ways(&mut node, 1000), before);
}

#[test]
fn without_any_usable_tunnel_flows_stay_where_they_are() {
    let mut node = node(&grouped(Placement::Hash));
    let before = ways(&mut node, 200);
    LOCALS.iter().for_each(|(tep, _)| states(&node).set_tep(*tep, false));
    assert_eq!(ways(&mut node, 200), before);
}

#[test]
fn a_way_whose_next_hop_is_not_known_is_asked_for() {
    let mut node = node(&grouped(Placement::Hash));
    ways(&mut node, 200);
    let gateway =
        node.engine.snapshot().tunnels().iter().map(|tunnel| tunnel.next_hop).find(|hop| hop.port == UPLINK);
    let gateway = gateway.expect("a tunnel by the second TEP");
    node.set_neighbor(gateway, None);
    states(&node).set_tep(TepIndex(0), false);
    let done = node.receive(UPLINK, &[inbound(1)]);
    assert_eq!(done[0].punted.len(), 1, "{done:?}");
    assert_eq!(done[0].punted[0].0.kind, sluice_datapath::punt::PuntKind::Resolve(gateway));
}

#[test]
fn a_node_gets_one_copy_of_what_is_replicated() {
    let mut plan = grouped(Placement::Hash);
    plan.segments[0].remote_teps = REMOTES.map(address).into_iter().chain([address("172.17.0.3")]).collect();
    let mut node = node(&plan);
    let body = bytes::udp(1, 53, &[0; 8]);
    let packet = bytes::ip(&IpHeader::new(17), address("10.1.0.10"), address("10.1.0.255"), &body);
    let frame = bytes::ethernet(MacAddr([0xff; 6]), plans::workload_mac(0), bytes::IPV4, &packet);
    let done = node.receive_one(plans::ACCESS, &frame);
    let remotes: Vec<IpAddr> =
        done.sent.iter().filter(|(port, _)| *port != plans::ACCESS).map(|sent| way(sent).2).collect();
    assert_eq!(remotes.len(), 2, "{remotes:?}");
    assert!(REMOTES.map(address).contains(&remotes[0]) && remotes[1] == address("172.17.0.3"));
}
