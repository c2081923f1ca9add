//! What is counted adds up, and nothing is allocated.

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluice_datapath::buffer::{BATCH, HEADROOM, PacketBuffer, Transmit};
use sluice_datapath::drops::DropReason;
use sluice_datapath::profile::{Profile, Profiler, Stage, StageCounters};
use sluice_datapath::punt::Punt;
use sluice_datapath::time::Timestamp;
use sluice_intent::plan::{DEFAULT_ROUTER_MAC, PortIndex};
use sluice_wire::MacAddr;

use crate::common::bytes::{self, IpHeader};
use crate::common::node::{CACHE, IDLE_TIMEOUT, Looks, Node, port_mac};
use crate::common::plans::{self, ACCESS, UPLINK, address, workload_mac};

const STRANGER: MacAddr = MacAddr([0x02, 0xee, 0, 0, 0, 1]);

fn node() -> Node {
    let plan = plans::edge();
    let mut node = Node::new(&plan, true);
    let keys = plans::neighbors(&plan).into_iter().enumerate();
    let all: Vec<_> = keys.map(|(number, key)| (key, Some(plans::neighbor_mac(number)))).collect();
    node.set_neighbors(&all);
    node
}

fn inbound(destination: &str, port: u16, payload: usize) -> Vec<u8> {
    let datagram = bytes::udp(port, 53, &vec![0; payload]);
    let packet = bytes::ip(&IpHeader::new(17), address("198.18.0.1"), address(destination), &datagram);
    bytes::ethernet(port_mac(0), STRANGER, bytes::IPV4, &packet)
}

/// Enough calls to visit every entry of the cache, and to count them from the first to the last.
fn sweep(node: &mut Node) {
    for _ in 0..CACHE / 64 {
        node.engine.housekeeping(node.now);
    }
}

#[test]
fn packets_are_sent_dropped_or_punted_and_counted_once() {
    let mut node = node();
    let mut frames = Vec::new();
    for number in 0..50u16 {
        frames.push(inbound("10.1.0.12", number, 10));
        frames.push(inbound("10.2.0.11", number, 20));
        frames.push(inbound("192.0.2.77", number, 0));
        frames.push(inbound("203.0.113.7", number, 0));
        let mut damaged = inbound("10.1.0.12", number, 10);
        damaged[24] ^= 1;
        frames.push(damaged);
        frames.push(bytes::on_vlan(inbound("10.1.0.12", number, 10), 77));
        let question =
            bytes::arp(1, (STRANGER, [192, 0, 2, 1].into()), (MacAddr([0; 6]), [192, 0, 2, 2].into()));
        frames.push(bytes::ethernet(MacAddr([0xff; 6]), STRANGER, bytes::ARP, &question));
    }
    let (mut sent, mut punted, mut dropped) = (0, 0, 0);
    for _ in 0..3 {
        for done in node.receive(UPLINK, &frames) {
            assert_eq!(done.sent.len() + done.punted.len() + done.discarded.len(), 1, "{done:?}");
            (sent, punted, dropped) =
                (sent + done.sent.len(), punted + done.punted.len(), dropped + done.discarded.len());
        }
    }
    assert_eq!((sent, punted, dropped), (300, 300, 450));
    let counters = &node.counters;
    let counted_punts: u64 = counters.punts.iter().map(|counter| counter.get()).sum();
    assert_eq!((counters.received.get(), counted_punts), (1050, 300));
    let expected =
        [(DropReason::BadChecksum, 150), (DropReason::UnknownVlan, 150), (DropReason::Blackhole, 150)];
    let mut drops = node.drops();
    drops.sort_unstable();
    assert_eq!(drops, expected);
    // Two packets of three of each forwarded flow are replayed; what parsing refused is never looked up.
    assert_eq!((counters.cache_hits.get(), counters.cache_misses.get()), (200, 550));
    assert_eq!(
        (counters.cache_insertions.get(), counters.cache_evictions.get(), counters.cache_skips.get()),
        (100, 0, 0)
    );
    sweep(&mut node);
    assert_eq!((node.counters.cache_flows.get(), node.counters.rewrites.get()), (100, 2));
}

/// Also where the flow was known and its neighbour has moved.
#[test]
fn a_burst_of_one_flow_is_decided_once() {
    let mut node = node();
    let burst: Vec<Vec<u8>> = (0..BATCH).map(|_| inbound("10.1.0.12", 1, 0)).collect();
    let counts = |node: &Node| {
        let counters = &node.counters;
        (counters.cache_misses.get(), counters.cache_insertions.get(), counters.cache_hits.get())
    };
    assert!(node.receive(UPLINK, &burst).iter().all(|done| done.sent.len() == 1));
    assert_eq!(counts(&node), (1, 1, 63));
    let tep = plans::neighbors(&plans::edge()).into_iter().find(|key| key.address == address("172.16.0.2"));
    node.set_neighbor(tep.expect("the plan has that TEP"), Some(STRANGER));
    let done = node.receive(UPLINK, &burst);
    assert!(done.iter().all(|done| done.sent[0].1[..6] == STRANGER.octets()));
    assert_eq!(counts(&node), (2, 2, 126));
    node.engine.enable_flow_cache(false);
    node.receive(UPLINK, &burst);
    assert_eq!(counts(&node), (66, 2, 126), "without the cache each is decided");
}

#[test]
fn tunnels_count_what_went_through_them() {
    let mut node = node();
    let frames: Vec<Vec<u8>> =
        (0..40).map(|number| inbound("10.1.0.12", number, usize::from(number))).collect();
    let mut bytes = 0;
    for _ in 0..5 {
        bytes += node.receive(UPLINK, &frames).iter().map(|done| done.sent[0].1.len() as u64).sum::<u64>();
    }
    sweep(&mut node);
    let tunnels = node.engine.snapshot().tunnels().iter().zip(&node.logical.tunnels);
    let counted: Vec<_> = tunnels
        .filter(|(_, traffic)| traffic.packets.get() > 0)
        .map(|(tunnel, traffic)| {
            (tunnel.remote, u32::from(tunnel.vni), traffic.packets.get(), traffic.bytes.get())
        })
        .collect();
    assert_eq!(counted, [(address("172.16.0.2"), plans::GENEVE_VNI, 200, bytes)]);
}

#[test]
fn replaced_counters_are_complete() {
    let mut node = node();
    let frame = inbound("10.1.0.12", 1, 0);
    let total = |logical: &sluice_datapath::counters::LogicalCounters| -> u64 {
        logical.tunnels.iter().map(|traffic| traffic.packets.get()).sum()
    };
    for _ in 0..7 {
        node.receive_one(UPLINK, &frame);
    }
    let old = Arc::clone(&node.logical);
    node.install(&plans::edge());
    assert_eq!(total(&old), 7, "counted before the counters are given back, without any housekeeping");
    for _ in 0..3 {
        node.receive_one(UPLINK, &frame);
    }
    let tep = plans::neighbors(&plans::edge()).into_iter().find(|key| key.address == address("172.16.0.2"));
    node.set_neighbor(tep.expect("the plan has that TEP"), None);
    assert_eq!((total(&old), total(&node.logical)), (7, 3), "a rewrite that goes is counted first");
}

#[test]
fn silent_flows_and_their_rewrites_are_forgotten() {
    let mut node = node();
    let frames: Vec<Vec<u8>> = (0..30).map(|number| inbound("10.1.0.12", number, 0)).collect();
    node.receive(UPLINK, &frames);
    sweep(&mut node);
    assert_eq!((node.counters.cache_flows.get(), node.counters.rewrites.get()), (30, 1));
    // Ten of them go on.
    node.now = Timestamp::from_secs(100 + u64::from(IDLE_TIMEOUT));
    node.receive(UPLINK, &frames[..10]);
    assert_eq!(node.counters.cache_hits.get(), 10);
    sweep(&mut node);
    node.now = Timestamp::from_secs(101 + u64::from(IDLE_TIMEOUT));
    sweep(&mut node);
    assert_eq!((node.counters.cache_flows.get(), node.counters.rewrites.get()), (10, 1));
    let misses = node.counters.cache_misses.get();
    node.receive(UPLINK, &frames[10..]);
    assert_eq!(node.counters.cache_misses.get() - misses, 20, "the others are decided again");
    sweep(&mut node);
    node.now = Timestamp::from_secs(300 + 2 * u64::from(IDLE_TIMEOUT));
    sweep(&mut node);
    sweep(&mut node);
    assert_eq!((node.counters.cache_flows.get(), node.counters.rewrites.get()), (0, 0));
}

#[test]
fn icmp_errors_are_limited() {
    let mut node = node();
    let frames: Vec<Vec<u8>> = (0..2500).map(|number| inbound("10.1.0.200", number, 0)).collect();
    let answered =
        |node: &mut Node| node.receive(UPLINK, &frames).iter().filter(|done| !done.sent.is_empty()).count();
    assert_eq!(answered(&mut node), 1000, "a burst of a thousand");
    assert_eq!(answered(&mut node), 0);
    node.now = Timestamp::from_millis(100_100);
    assert_eq!(answered(&mut node), 100, "a tenth of a second later");
    assert_eq!(node.drops(), [(DropReason::UnknownWorkload, 7500)], "every packet has its reason, and one");
    assert_eq!(node.counters.errors_suppressed.get(), 7500 - 1100);
}

/// A packet in memory that is used again for the next one.
struct Slot {
    memory: Box<[u8; 2048]>,
    start: usize,
    end: usize,
}

impl Slot {
    fn load(&mut self, frame: &[u8]) {
        (self.start, self.end) = (HEADROOM, HEADROOM + frame.len());
        self.memory[self.start..self.end].copy_from_slice(frame);
    }
}

impl PacketBuffer for Slot {
    fn data(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    fn data_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.end]
    }

    fn reframe(&mut self, pop: usize, push: usize, keep: usize) -> Option<&mut [u8]> {
        let kept = self.start + pop;
        if kept + keep > self.end || push > kept {
            return None;
        }
        (self.start, self.end) = (kept - push, kept + keep);
        Some(&mut self.memory[self.start..self.end])
    }

    fn extend_back(&mut self, count: usize) -> Option<&mut [u8]> {
        let end = self.end + count;
        let added = self.memory.get_mut(self.end..end)?;
        self.end = end;
        Some(added)
    }
}

/// Takes buffers back, and counts.
struct Pool {
    free: Vec<Slot>,
    sent: usize,
    punted: usize,
    discarded: usize,
    profiler: Profiler<Looks>,
}

impl Profile for Pool {
    fn enter(&mut self, stage: Stage, packets: usize) -> Stage {
        self.profiler.enter(stage, packets)
    }

    fn amend(&mut self, stage: Stage, packets: usize) {
        self.profiler.amend(stage, packets);
    }
}

impl Transmit<Slot> for Pool {
    fn transmit(&mut self, _: PortIndex, buffer: Slot) {
        self.sent += 1;
        self.free.push(buffer);
    }

    fn punt(&mut self, _: Punt, buffer: Slot) {
        self.punted += 1;
        self.free.push(buffer);
    }

    fn discard(&mut self, _: DropReason, buffer: Slot) {
        self.discarded += 1;
        self.free.push(buffer);
    }

    fn allocate(&mut self) -> Option<Slot> {
        let mut slot = self.free.pop()?;
        slot.load(&[]);
        Some(slot)
    }
}

/// Ten thousand packets that are replayed, decided, answered, replicated, fragmented, punted and dropped, under a profile.
#[test]
fn no_packet_allocates_memory() {
    let mut node = node();
    let workload = workload_mac(0);
    let request = bytes::arp(1, (workload, [10, 1, 0, 10].into()), (MacAddr([0; 6]), [10, 1, 0, 1].into()));
    let own = address("10.1.0.10");
    let echo = bytes::icmp(own, address("10.1.0.1"), 8, 0, [0, 1, 0, 1], &[7; 20]);
    let echo = bytes::ip(&IpHeader::new(1), own, address("10.1.0.1"), &echo);
    let oversize = bytes::ip(&IpHeader::new(17), own, address("10.2.0.10"), &bytes::udp(1, 2, &[0; 1450]));
    let from_workload = [
        bytes::ethernet(MacAddr([0xff; 6]), workload, bytes::ARP, &request),
        bytes::ethernet(MacAddr([0xff; 6]), workload, 0x88cc, &[0; 60]),
        bytes::ethernet(DEFAULT_ROUTER_MAC, workload, bytes::IPV4, &echo),
        bytes::ethernet(DEFAULT_ROUTER_MAC, workload, bytes::IPV4, &oversize),
    ];
    let mut from_uplink: Vec<Vec<u8>> = (0..2000).map(|number| inbound("10.1.0.12", number, 0)).collect();
    from_uplink.extend((0..500).map(|number| inbound("10.1.0.200", number, 0)));
    from_uplink.extend((0..500).map(|number| inbound("192.0.2.99", number, 0)));
    let slot = || Slot { memory: Box::new([0; 2048]), start: 0, end: 0 };
    let stages = Arc::<StageCounters>::default();
    let profiler = Profiler::new(Looks::default(), Arc::clone(&stages));
    let mut pool =
        Pool { free: (0..256).map(|_| slot()).collect(), sent: 0, punted: 0, discarded: 0, profiler };
    let mut packets = 0;
    let allocated = allocation_counter::measure(|| {
        for (port, frames, rounds) in [(ACCESS, &from_workload[..], 250), (UPLINK, &from_uplink[..], 3)] {
            for frame in (0..rounds).flat_map(|_| frames.chunks(BATCH)) {
                let mut batch = ArrayVec::new();
                for frame in frame {
                    let mut slot = pool.free.pop().expect("buffers come back");
                    slot.load(frame);
                    batch.push(slot);
                    packets += 1;
                }
                node.engine.process(port, &mut batch, node.now, &mut pool);
                pool.profiler.end_loop(true, 0);
                node.engine.housekeeping(node.now);
            }
        }
    });
    let parsed = stages.stage(Stage::Parse).map(|parse| parse.packets.get());
    assert_eq!(parsed, Some(10_000));
    assert_eq!((allocated.count_total, packets), (0, 10_000));
    assert!(node.counters.cache_hits.get() > 3000 && node.counters.cache_misses.get() > 3000);
    assert!(pool.sent > 6000 && pool.punted == 1500 && pool.discarded > 500, "every path was taken");
    assert_eq!(pool.free.len(), 256, "no buffer is lost");
}
