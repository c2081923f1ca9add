//! How much packet memory a plan needs, and how it is divided.

use sluice_dpdk::MempoolConfig;
use sluice_intent::plan::{Plan, Port, PortKind};

use super::{DataplaneError, Rings};

/// Bytes of a frame besides its layer-3 packet: Ethernet header and two tags.
const FRAME_OVERHEAD: u32 = 14 + 8;
/// Headroom of a buffer, as DPDK is built in Debian and as the engine needs it.
const HEADROOM: u32 = 128;
/// Bytes that DPDK keeps for a buffer besides its data.
const BUFFER_OVERHEAD: u32 = 128 + 64;
/// Bytes of a page that is not huge.
const ORDINARY_PAGE: u32 = 4096;
/// Buffers that a worker and the control thread keep in flight: bursts, caches, punted packets, captures.
const IN_FLIGHT: u32 = 2048;
/// Buffers that an AF_XDP port keeps for the kernel, a queue, besides its receive ring.
const KERNEL_BUFFERS: u32 = 8192;
/// Buffers that a worker caches.
const CACHE: u32 = 256;
/// Most buffers of a pool: more do not help and cost cache.
const MOST: u32 = 262_143;

/// What the rings of a plan's ports hold, in buffers.
struct Demand {
    /// Bytes of each buffer's data.
    data_room: u16,
    /// Buffers of the shared pool.
    shared: u32,
    /// Buffers of the pools that the kernel fills.
    kernel: u32,
    /// Bytes that a buffer takes.
    buffer: u32,
    /// Buffers that packet memory has room for.
    budget: u32,
}

impl Demand {
    fn of(plan: &Plan, rings: Rings, workers: u16, huge_pages: bool) -> Self {
        let mtu = plan.ports.iter().map(|port| u32::from(port.mtu)).max().unwrap_or(1500);
        let data_room =
            (HEADROOM + (mtu + FRAME_OVERHEAD).next_multiple_of(64).max(2048)).min(u32::from(u16::MAX));
        let workers = u32::from(workers);
        let filled_by_kernel = |port: &&Port| matches!(port.kind, PortKind::AfXdp { .. });
        let kernel_queues: u32 = plan
            .ports
            .iter()
            .filter(filled_by_kernel)
            .map(|port| if port.queues == 0 { workers } else { u32::from(port.queues) })
            .sum();
        let per_port = workers * (u32::from(rings.rx) + u32::from(rings.tx));
        let bytes = data_room + BUFFER_OVERHEAD;
        // No buffer crosses the end of a page; in a huge one that makes no difference.
        let buffer = if huge_pages { bytes } else { bytes.next_multiple_of(ORDINARY_PAGE) };
        // A fifth is left for rings, drivers and the allocator.
        let budget = u64::from(plan.dataplane.memory_mib) * (1 << 20) * 4 / 5 / u64::from(buffer);
        Self {
            data_room: data_room as u16,
            shared: plan.ports.len() as u32 * per_port + (workers + 1) * IN_FLIGHT,
            kernel: kernel_queues * (KERNEL_BUFFERS + u32::from(rings.rx)),
            buffer,
            budget: budget as u32,
        }
    }
}

/// The pool that a plan's ports share; those that the kernel fills have one of their own besides, for which memory is left.
pub(super) fn shared_pool(
    plan: &Plan,
    rings: Rings,
    workers: u16,
    huge_pages: bool,
) -> Result<MempoolConfig, DataplaneError> {
    let Demand { data_room, shared: needed, kernel, buffer, budget } =
        Demand::of(plan, rings, workers, huge_pages);
    let available = budget.saturating_sub(kernel);
    if available < needed {
        let memory_mib = plan.dataplane.memory_mib;
        let bytes = u64::from(needed + kernel) * u64::from(buffer) * 5 / 4;
        let remedy_mib = (bytes >> 20) as u32 + 1;
        return Err(DataplaneError::Memory { needed, available, memory_mib, remedy_mib });
    }
    // What is handed out last was used last and is still in the cache: a pool larger than what is in use costs nothing, but a ring
    // of buffers that is walked in turn does. So no more than twice what the rings hold.
    let count = available.min(needed * 2).min(MOST);
    Ok(MempoolConfig { count, cache: CACHE, data_room, numa_node: None })
}

/// Whether a pool that exists does for a plan's ports, and leaves memory for those that the kernel fills.
pub(super) fn suffices(
    pool: &MempoolConfig,
    plan: &Plan,
    rings: Rings,
    workers: u16,
    huge_pages: bool,
) -> bool {
    let demand = Demand::of(plan, rings, workers, huge_pages);
    pool.data_room >= demand.data_room
        && pool.count >= demand.shared.min(MOST)
        && u64::from(pool.count) + u64::from(demand.kernel) <= u64::from(demand.budget)
}
