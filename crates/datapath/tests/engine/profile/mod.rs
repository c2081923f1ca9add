//! Which stages packets are counted in, and how often a profile looks at its counter.

use sluice_datapath::buffer::BATCH;
use sluice_datapath::profile::{Stage, StageCounters};
use sluice_intent::plan::{DEFAULT_ROUTER_MAC, PortIndex};
use sluice_wire::MacAddr;

use crate::common::bytes::{self, IpHeader};
use crate::common::node::{Node, port_mac};
use crate::common::plans::{self, ACCESS, UPLINK, address, workload_mac};

/// Stages that only packets pass that have to be decided.
const DECIDING: [Stage; 10] = [
    Stage::Ingress,
    Stage::Switch,
    Stage::Tier1,
    Stage::Tier0,
    Stage::EqualCost,
    Stage::Neighbor,
    Stage::Tunnel,
    Stage::Compile,
    Stage::Insert,
    Stage::Answer,
];

fn node(flow_cache: bool) -> Node {
    let plan = plans::edge();
    let mut node = Node::new(&plan, flow_cache);
    let keys = plans::neighbors(&plan).into_iter().enumerate();
    let all: Vec<_> = keys.map(|(number, key)| (key, Some(plans::neighbor_mac(number)))).collect();
    node.set_neighbors(&all);
    node
}

/// From the physical network to a workload behind a tunnel.
fn inbound(destination: &str, port: u16) -> Vec<u8> {
    let packet = bytes::ip(
        &IpHeader::new(17),
        address("198.18.0.1"),
        address(destination),
        &bytes::udp(port, 53, &[]),
    );
    bytes::ethernet(port_mac(0), MacAddr([0x02, 0xee, 0, 0, 0, 1]), bytes::IPV4, &packet)
}

/// From a local workload.
fn outbound(destination: &str) -> Vec<u8> {
    let packet =
        bytes::ip(&IpHeader::new(17), address("10.1.0.10"), address(destination), &bytes::udp(1, 53, &[]));
    bytes::ethernet(DEFAULT_ROUTER_MAC, workload_mac(0), bytes::IPV4, &packet)
}

fn packets(stages: &StageCounters, stage: Stage) -> u64 {
    stages.stage(stage).expect("a stage").packets.get()
}

/// The stages that packets were counted in, with how many, in their order.
fn passed(stages: &StageCounters) -> Vec<(&'static str, u64)> {
    let counts = Stage::ALL.iter().map(|stage| (stage.name(), packets(stages, *stage)));
    counts.filter(|(_, packets)| *packets > 0).collect()
}

/// The stages that a frame passes alone, with a cache that does not know it, and how often it does.
fn way(port: PortIndex, frame: &[u8]) -> Vec<(&'static str, u64)> {
    let mut node = node(true);
    let stages = node.profile();
    node.receive_one(port, frame);
    passed(&stages)
}

#[test]
fn packets_pass_the_stages_of_their_way() {
    let around = |deciding: &[(&'static str, u64)]| {
        let before = [("parse", 1), ("flow-cache", 1), ("ingress", 1)];
        [&before, deciding, &[("compile", 1), ("insert", 1), ("rewrite", 1)]].concat()
    };
    assert_eq!(
        way(UPLINK, &inbound("10.1.0.12", 1)),
        around(&[("switch", 1), ("tier-1", 1), ("tier-0", 1), ("tunnel", 1)]),
        "to a workload behind a tunnel"
    );
    assert_eq!(
        way(ACCESS, &outbound("198.18.0.1")),
        around(&[("switch", 1), ("tier-1", 1), ("tier-0", 1), ("ecmp", 1), ("neighbor", 1)]),
        "out through one of two next hops"
    );
    assert_eq!(
        way(UPLINK, &inbound("203.0.113.7", 1)),
        [("parse", 1), ("flow-cache", 1), ("ingress", 1), ("tier-0", 2), ("answer", 1)],
        "into a blackhole, decided again with the time to live"
    );
}

#[test]
fn every_packet_is_parsed_once_and_only_misses_are_decided() {
    let mut node = node(true);
    let stages = node.profile();
    let frames: Vec<Vec<u8>> = (0..BATCH as u16).map(|port| inbound("10.1.0.12", port)).collect();
    let batch = BATCH as u64;
    node.receive(UPLINK, &frames);
    let deciding: Vec<u64> = DECIDING.iter().map(|stage| packets(&stages, *stage)).collect();
    for stage in [Stage::Parse, Stage::FlowCache, Stage::Ingress, Stage::Tier0, Stage::Insert, Stage::Rewrite]
    {
        assert_eq!(packets(&stages, stage), batch, "{}", stage.name());
    }
    for round in 2..10 {
        node.receive(UPLINK, &frames);
        for stage in [Stage::Parse, Stage::FlowCache, Stage::Rewrite] {
            assert_eq!(packets(&stages, stage), round * batch, "{}", stage.name());
        }
    }
    let after: Vec<u64> = DECIDING.iter().map(|stage| packets(&stages, *stage)).collect();
    assert_eq!(after, deciding, "hits are not decided");
    assert_eq!((node.counters.cache_hits.get(), node.counters.cache_misses.get()), (8 * batch, batch));
}

#[test]
fn without_the_cache_every_packet_is_decided() {
    let mut node = node(false);
    let stages = node.profile();
    let frame = inbound("10.1.0.12", 1);
    for _ in 0..3 {
        node.receive(UPLINK, &[frame.clone(), frame.clone()]);
    }
    for stage in [Stage::Parse, Stage::Ingress, Stage::Tier1, Stage::Compile, Stage::Rewrite] {
        assert_eq!(packets(&stages, stage), 6, "{}", stage.name());
    }
    assert_eq!((packets(&stages, Stage::FlowCache), packets(&stages, Stage::Insert)), (0, 0));
}

/// So that a hit costs nothing of its own.
#[test]
fn a_batch_of_hits_takes_as_many_time_stamps_as_one_hit() {
    let mut node = node(true);
    let frames: Vec<Vec<u8>> = (0..BATCH as u16).map(|port| inbound("10.1.0.12", port)).collect();
    node.receive(UPLINK, &frames);
    let mut looks = |frames: &[Vec<u8>]| {
        let stages = node.profile();
        node.receive(UPLINK, frames);
        let stamps = |stage: &Stage| stages.stage(*stage).expect("a stage").time_stamps.get();
        Stage::ALL.iter().map(stamps).collect::<Vec<_>>()
    };
    let one = looks(&frames[..1]);
    assert_eq!(looks(&frames), one);
    assert_eq!(one.iter().sum::<u64>(), 3, "parse, flow cache and rewrite");
}

/// No cycle is counted twice, and none is lost between two stages.
#[test]
fn every_look_at_the_counter_ends_one_stage() {
    let mut node = node(true);
    let stages = node.profile();
    let frames: Vec<Vec<u8>> = (0..200)
        .map(|number| inbound(if number % 3 == 0 { "10.1.0.200" } else { "10.1.0.12" }, number))
        .collect();
    node.receive(UPLINK, &frames);
    for stage in Stage::ALL {
        let counter = stages.stage(*stage).expect("a stage");
        assert_eq!(counter.cycles.get(), counter.time_stamps.get(), "{}", stage.name());
    }
    assert_eq!(packets(&stages, Stage::Answer), 67, "each is told that there is no such workload");
}
