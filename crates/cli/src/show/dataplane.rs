//! Rings, cores, packet memory, devices and the flow cache.
//!
//! Field names are those of the node CLI of NSX. Its data plane has two caches, for single flows (micro) and for patterns of flows (mega);
//! ours holds single flows, so its size and state stand under the micro names.

use sluice_control::{CpuStats, Dataplane, Device, FlowCacheConfig, FlowCacheStats};

use crate::output::{Block, Column, Kind, Table, thousands};

pub(super) fn dataplane(dataplane: &Dataplane) -> Vec<Block> {
    let ring = |size: u16, after: Option<u16>| match after {
        Some(after) => format!("{size} ({after} after 'restart service dataplane')"),
        None => size.to_string(),
    };
    let cores: Vec<_> = dataplane.corelist.iter().map(u16::to_string).collect();
    let sleep = match dataplane.idle_sleep_us {
        0 => "0 (polls without sleeping)".to_owned(),
        sleep => sleep.to_string(),
    };
    let memory = format!("{} MiB", dataplane.packet_memory_mib);
    let (huge, small) = if dataplane.hugepages { (memory, "0 MiB".into()) } else { ("0 MiB".into(), memory) };
    let buffers = format!(
        "{} of {} in use",
        thousands(dataplane.buffers_in_use.into()),
        thousands(dataplane.buffers.into())
    );
    let mut blocks = vec![
        Block::fields([
            ("Rx_ring_size", ring(dataplane.rx_ring_size, dataplane.rx_ring_size_after_restart)),
            ("Slowpath_ring_size", dataplane.slowpath_ring_size.to_string()),
            ("Tx_ring_size", ring(dataplane.tx_ring_size, dataplane.tx_ring_size_after_restart)),
            ("Corelist", cores.join(",")),
            ("Fc_micro_cache_size", dataplane.flow_cache_size.to_string()),
            ("Flow_cache_micro", on_off(dataplane.flow_cache_enabled)),
            ("Hugepage_mem", huge),
            ("Ordinary_page_mem", small),
            ("Packet_buffers", buffers),
            ("Idle_sleep_us", sleep),
            ("Rx_queue_per_core", dataplane.rx_queue_per_core.to_string()),
        ]),
        Block::Heading("Devices:".to_owned()),
    ];
    if dataplane.devices.is_empty() {
        blocks.push(Block::Text("none".to_owned()));
    }
    blocks.extend(dataplane.devices.iter().map(device));
    blocks
}

fn device(device: &Device) -> Block {
    Block::fields([
        ("Device_id", device.device_id.clone()),
        ("Driver", device.driver.clone()),
        ("Name", device.name.clone()),
        ("Numa_node", device.numa_node.to_string()),
        ("Pci", device.pci.clone()),
        ("Vendor", device.vendor.clone()),
    ])
}

pub(super) fn cpu_stats(cores: &[CpuStats]) -> Vec<Block> {
    const COLUMNS: [Column; 7] = [
        Column("Core", Kind::Number),
        Column("Rx (pps)", Kind::Number),
        Column("Tx (pps)", Kind::Number),
        Column("Slowpath (pps)", Kind::Number),
        Column("Usage (%)", Kind::Number),
        Column("Cycles/packet", Kind::Number),
        Column("Heap allocations", Kind::Number),
    ];
    let rows = cores.iter().map(|core| {
        [
            core.core.to_string(),
            thousands(core.rx_pps),
            thousands(core.tx_pps),
            thousands(core.slowpath_pps),
            format!("{:.2}", core.usage_percent),
            format!("{:.1}", core.cycles_per_packet),
            thousands(core.heap_allocations),
        ]
    });
    vec![Block::Table(Table::new(&COLUMNS, rows, "No worker runs."))]
}

pub(super) fn flow_cache_config(config: &FlowCacheConfig) -> Vec<Block> {
    vec![Block::fields([
        ("Enabled", if config.enabled { "true" } else { "false" }.to_owned()),
        ("Micro_size", config.size.to_string()),
        ("Idle_timeout_s", config.idle_timeout_s.to_string()),
    ])]
}

pub(super) fn flow_cache_stats(cores: &[FlowCacheStats]) -> Vec<Block> {
    const COLUMNS: [Column; 9] = [
        Column("Core", Kind::Number),
        Column("Total", Kind::Number),
        Column("Hit rate (%)", Kind::Number),
        Column("Hits", Kind::Number),
        Column("Misses", Kind::Number),
        Column("Insertions", Kind::Number),
        Column("Evictions", Kind::Number),
        Column("Skipped", Kind::Number),
        Column("Rewrites", Kind::Number),
    ];
    let rows = cores.iter().map(|core| {
        [
            core.core.to_string(),
            format!("{}/{}", core.flows, core.size),
            format!("{:.4}", core.hit_rate_percent),
            thousands(core.hits),
            thousands(core.misses),
            thousands(core.insertions),
            thousands(core.evictions),
            thousands(core.skipped),
            thousands(core.rewrites),
        ]
    });
    vec![Block::Table(Table::new(&COLUMNS, rows, "No worker runs."))]
}

fn on_off(enabled: bool) -> String {
    if enabled { "enabled" } else { "disabled" }.to_owned()
}
