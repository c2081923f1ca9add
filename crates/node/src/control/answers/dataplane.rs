//! Cores, rings, flow cache, stages and drops.

use std::time::Instant;

use sluice_control::{
    CoreStages, CpuStats, Dataplane, Device, Drop, FlowCacheConfig, FlowCacheStats, StageStats, Stages,
};
use sluice_datapath::drops::DropReason;
use sluice_datapath::profile::{Stage, StageCounters};
use sluice_dpdk::MemoryBacking;

use super::{Node, running};
use crate::dataplane::{BFD_RING, PUNT_RING};
use crate::worker::WorkerCounters;

/// What a worker had counted when it was last asked.
#[derive(Clone, Copy)]
pub(in crate::control) struct CpuSample {
    at: Instant,
    received: u64,
    transmitted: u64,
    misses: u64,
    busy: u64,
    heap_allocations: u64,
}

impl CpuSample {
    fn take(counters: &WorkerCounters) -> Self {
        Self {
            at: Instant::now(),
            received: counters.received.get(),
            transmitted: counters.transmitted.get(),
            misses: counters.engine.cache_misses.get(),
            busy: counters.busy_cycles.get(),
            heap_allocations: counters.heap_allocations.get(),
        }
    }
}

pub(super) fn dataplane(node: &Node) -> anyhow::Result<Dataplane> {
    let running = running(node)?;
    let device = |open: &crate::dataplane::OpenPort| Device {
        name: open.port.name().to_owned(),
        driver: open.info.driver.clone(),
        device_id: open.info.pci.map_or_else(String::new, |pci| format!("{:#06x}", pci.device)),
        vendor: open.info.pci.map_or_else(String::new, |pci| format!("{:#06x}", pci.vendor)),
        pci: open.info.pci.map_or_else(String::new, |_| open.info.device.clone()),
        numa_node: open.info.numa_node.map_or(-1, |node| node as i32),
    };
    let changed = |next: u16, now: u16| (next != now).then_some(next);
    let settings = &node.plan.dataplane;
    Ok(Dataplane {
        rx_ring_size: running.rings.rx,
        tx_ring_size: running.rings.tx,
        rx_ring_size_after_restart: changed(node.next_rings.rx, running.rings.rx),
        tx_ring_size_after_restart: changed(node.next_rings.tx, running.rings.tx),
        slowpath_ring_size: PUNT_RING as u32,
        bfd_ring_size: BFD_RING as u32,
        corelist: running.cores.clone(),
        flow_cache_size: settings.flow_cache.size,
        flow_cache_enabled: node.flow_cache,
        packet_memory_mib: settings.memory_mib,
        hugepages: matches!(node.eal.memory_backing(), MemoryBacking::HugePages { .. }),
        buffers: running.pool.config().count,
        buffers_in_use: running.pool.in_use(),
        idle_sleep_us: settings.idle_sleep_us,
        rx_queue_per_core: running.workers.iter().map(|worker| worker.receive_queues).max().unwrap_or(0),
        devices: running.ports.iter().map(device).collect(),
    })
}

pub(super) fn cpu_stats(node: &mut Node) -> anyhow::Result<Vec<CpuStats>> {
    let (started, clock_rate) = (node.started, node.eal.cycles_per_second());
    let running = running(node)?;
    let samples: Vec<(u16, CpuSample)> =
        running.workers.iter().map(|worker| (worker.core, CpuSample::take(&worker.counters))).collect();
    let mut all = Vec::new();
    for (core, now) in samples {
        let start =
            CpuSample { at: started, received: 0, transmitted: 0, misses: 0, busy: 0, heap_allocations: 0 };
        let before = node.cpu_samples.insert(core, now).unwrap_or(start);
        let seconds = (now.at - before.at).as_secs_f64().max(1e-6);
        let rate = |now: u64, before: u64| (now.saturating_sub(before) as f64 / seconds) as u64;
        let busy = now.busy.saturating_sub(before.busy);
        let packets = now.received.saturating_sub(before.received);
        all.push(CpuStats {
            core,
            rx_pps: rate(now.received, before.received),
            tx_pps: rate(now.transmitted, before.transmitted),
            slowpath_pps: rate(now.misses, before.misses),
            usage_percent: (busy as f64 / (seconds * clock_rate as f64) * 100.0).min(100.0),
            cycles_per_packet: if packets > 0 { busy as f64 / packets as f64 } else { 0.0 },
            rx_packets: now.received,
            tx_packets: now.transmitted,
            busy_cycles: now.busy,
            heap_allocations: now.heap_allocations,
        });
    }
    Ok(all)
}

pub(super) fn flow_cache_config(node: &Node) -> FlowCacheConfig {
    let cache = &node.plan.dataplane.flow_cache;
    FlowCacheConfig { enabled: node.flow_cache, size: cache.size, idle_timeout_s: cache.idle_timeout_s }
}

pub(super) fn flow_cache_stats(node: &Node) -> anyhow::Result<Vec<FlowCacheStats>> {
    let stats = |worker: &crate::dataplane::WorkerHandle| {
        let engine = &worker.counters.engine;
        let (hits, misses) = (engine.cache_hits.get(), engine.cache_misses.get());
        FlowCacheStats {
            core: worker.core,
            flows: engine.cache_flows.get(),
            size: engine.cache_size.get(),
            hits,
            misses,
            hit_rate_percent: if hits + misses > 0 {
                hits as f64 / (hits + misses) as f64 * 100.0
            } else {
                0.0
            },
            insertions: engine.cache_insertions.get(),
            evictions: engine.cache_evictions.get(),
            skipped: engine.cache_skips.get(),
            rewrites: engine.rewrites.get(),
        }
    };
    Ok(running(node)?.workers.iter().map(stats).collect())
}

pub(super) fn stages(node: &Node) -> anyhow::Result<Stages> {
    let counted = running(node)?.workers.iter();
    let cores = counted.filter_map(|worker| Some(core_stages(worker.core, worker.stages.as_ref()?)));
    Ok(Stages { profile: node.profile, cores: cores.collect() })
}

fn core_stages(core: u16, counters: &StageCounters) -> CoreStages {
    let stats = |stage: &Stage| {
        let counter = counters.stage(*stage)?;
        Some(StageStats {
            stage: stage.name().to_owned(),
            cycles: counter.cycles.get(),
            packets: counter.packets.get(),
            time_stamps: counter.time_stamps.get(),
            description: stage.description().to_owned(),
        })
    };
    let stages: Vec<StageStats> = Stage::ALL.iter().filter_map(stats).collect();
    let attributed: u64 = stages.iter().map(|stage| stage.cycles).sum();
    // Read last, as it is written first: a loop that ends meanwhile is in here at least.
    let busy_cycles = counters.busy_cycles.get();
    CoreStages {
        core,
        busy_cycles,
        other_cycles: busy_cycles.saturating_sub(attributed),
        time_stamp_cycles: counters.time_stamp_cycles.get(),
        stages,
    }
}

/// Reasons that packets were dropped for, the most frequent first.
pub(super) fn drops(node: &Node) -> anyhow::Result<Vec<Drop>> {
    let running = running(node)?;
    let count = |reason: DropReason| {
        let workers = running.workers.iter().map(|worker| worker.counters.engine.drops(reason)).sum::<u64>();
        let discarded = &node.neighbors.discarded;
        let control = match reason {
            DropReason::NeighborUnreachable => discarded.unreachable,
            DropReason::NeighborQueueFull => discarded.queue_full,
            DropReason::NeighborTableFull => discarded.table_full,
            DropReason::CommandRingFull => {
                running.workers.iter().map(|worker| worker.commands.lost_packets).sum()
            }
            _ => 0,
        };
        workers + control
    };
    let counted =
        DropReason::ALL.iter().map(|reason| (*reason, count(*reason))).filter(|(_, packets)| *packets > 0);
    let mut drops: Vec<Drop> = counted
        .map(|(reason, packets)| Drop {
            reason: reason.name().to_owned(),
            packets,
            description: reason.description().to_owned(),
        })
        .collect();
    drops.sort_by_key(|drop| std::cmp::Reverse(drop.packets));
    Ok(drops)
}
