//! How much packet memory a plan needs, and how it is divided.

use sluice_dpdk::MempoolConfig;
use sluice_intent::plan::{Plan, PortKind};

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
/// Buffers that an AF_XDP queue keeps for the kernel for good.
const KERNEL_BUFFERS: u32 = 2048;
/// Buffers that a worker caches.
const CACHE: u32 = 256;
/// Most buffers of a pool: more do not help and cost cache.
const MOST: u32 = 262_143;

/// Sizes of the pools.
pub(super) struct Sizing {
    /// The pool that ports share.
    pub(super) shared: MempoolConfig,
    /// The pool of each port that keeps buffers for good.
    pub(super) own: Option<MempoolConfig>,
}

/// Whether the port's driver keeps buffers of its pool as long as the process lives.
pub(super) fn keeps_buffers(kind: &PortKind) -> bool {
    matches!(kind, PortKind::AfXdp { .. })
}

impl Sizing {
    /// Divides the plan's memory.
    pub(super) fn of(
        plan: &Plan,
        rings: Rings,
        workers: u16,
        huge_pages: bool,
    ) -> Result<Self, DataplaneError> {
        let mtu = plan.ports.iter().map(|port| u32::from(port.mtu)).max().unwrap_or(1500);
        let data_room =
            (HEADROOM + (mtu + FRAME_OVERHEAD).next_multiple_of(64).max(2048)).min(u32::from(u16::MAX));
        let pool =
            |count| MempoolConfig { count, cache: CACHE, data_room: data_room as u16, numa_node: None };
        let workers = u32::from(workers);
        let keeping = plan.ports.iter().filter(|port| keeps_buffers(&port.kind)).count() as u32;
        let own_count = workers * (KERNEL_BUFFERS + u32::from(rings.rx)) + IN_FLIGHT;
        let per_port = workers * (u32::from(rings.rx) + u32::from(rings.tx));
        let needed = (plan.ports.len() as u32 - keeping) * per_port + (workers + 1) * IN_FLIGHT;
        let bytes = data_room + BUFFER_OVERHEAD;
        // No buffer crosses the end of a page; in a huge one that makes no difference.
        let buffer = if huge_pages { bytes } else { bytes.next_multiple_of(ORDINARY_PAGE) };
        let memory_mib = plan.dataplane.memory_mib;
        // A fifth is left for rings, drivers and the allocator.
        let budget = u64::from(memory_mib) * (1 << 20) * 4 / 5 / u64::from(buffer);
        let available = (budget as u32).saturating_sub(keeping * own_count);
        if available < needed {
            let bytes = u64::from(needed + keeping * own_count) * u64::from(buffer) * 5 / 4;
            let remedy_mib = (bytes >> 20) as u32 + 1;
            return Err(DataplaneError::Memory { needed, available, memory_mib, remedy_mib });
        }
        // What is handed out last was used last and is still in the cache: a pool larger than what is in use costs nothing, but a ring
        // of buffers that is walked in turn does. So no more than twice what the rings hold.
        let count = available.min(needed * 2).min(MOST);
        Ok(Self { shared: pool(count), own: (keeping > 0).then(|| pool(own_count)) })
    }
}
