//! Rings, cores, packet memory, devices, the flow cache and the stages.
//!
//! Field names are those of the node CLI of NSX. Its data plane has two caches, for single flows (micro) and for patterns of flows (mega);
//! ours holds single flows, so its size and state stand under the micro names.

use sluice_control::{CoreStages, CpuStats, Dataplane, Device, FlowCacheConfig, FlowCacheStats, Stages};

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
            ("Bfd_ring_size", dataplane.bfd_ring_size.to_string()),
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

pub(super) fn stages(stages: &Stages) -> Vec<Block> {
    if stages.cores.is_empty() {
        let sentence = "No cycles were attributed; 'set dataplane profile enabled' begins with it.";
        return vec![Block::Text(sentence.to_owned())];
    }
    let mut blocks = Vec::new();
    if !stages.profile {
        blocks.push(Block::Text("The profile is disabled; this is what it counted.".to_owned()));
    }
    blocks.extend(stages.cores.iter().flat_map(core_stages));
    blocks
}

/// The stages that something was counted in, and below them what none of them claims.
fn core_stages(core: &CoreStages) -> [Block; 3] {
    const COLUMNS: [Column; 6] = [
        Column("Stage", Kind::Whole),
        Column("Cycles", Kind::Number),
        Column("Share (%)", Kind::Number),
        Column("Packets", Kind::Number),
        Column("Cycles/packet", Kind::Number),
        Column("Time stamps", Kind::Number),
    ];
    let share = |cycles: u64| match core.busy_cycles {
        0 => String::new(),
        busy => format!("{:.2}", cycles as f64 / busy as f64 * 100.0),
    };
    let each = |cycles: u64, packets: u64| match packets {
        0 => String::new(),
        packets => format!("{:.1}", cycles as f64 / packets as f64),
    };
    let counted = core.stages.iter().filter(|stage| stage.time_stamps > 0).map(|stage| {
        [
            stage.stage.clone(),
            thousands(stage.cycles),
            share(stage.cycles),
            thousands(stage.packets),
            each(stage.cycles, stage.packets),
            thousands(stage.time_stamps),
        ]
    });
    let whole = |name: &str, cycles: u64| {
        [name.to_owned(), thousands(cycles), share(cycles), String::new(), String::new(), String::new()]
    };
    let rest = [whole("other", core.other_cycles), whole("busy", core.busy_cycles)];
    let cost = format!(
        "Each time stamp cost about {} cycles, which its stage contains.",
        thousands(core.time_stamp_cycles)
    );
    [
        Block::Heading(format!("Core {}", core.core)),
        Block::Table(Table::new(&COLUMNS, counted.chain(rest), "No packet came.")),
        Block::Text(cost),
    ]
}

fn on_off(enabled: bool) -> String {
    if enabled { "enabled" } else { "disabled" }.to_owned()
}
