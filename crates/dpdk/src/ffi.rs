//! Declarations of `csrc/shim.c`, and the layout of what both sides see. Used by the other modules of this crate only.

use std::ffi::{c_char, c_int, c_void};

/// The C function that receives EAL's log lines.
pub(crate) type LogLine = extern "C" fn(level: u32, text: *const c_char, length: usize);

/// `struct rte_mempool`, opaque.
#[repr(C)]
pub(crate) struct RawMempool {
    private: [u8; 0],
}

/// The first 80 bytes of `struct rte_mbuf`; `shim.c` asserts every offset and size.
#[repr(C, align(64))]
pub(crate) struct MbufHeader {
    pub(crate) buffer: *mut u8,
    pub(crate) buffer_iova: u64,
    pub(crate) data_offset: u16,
    pub(crate) references: u16,
    pub(crate) segments: u16,
    pub(crate) port: u16,
    pub(crate) offload_flags: u64,
    pub(crate) packet_type: u32,
    pub(crate) packet_length: u32,
    pub(crate) data_length: u16,
    pub(crate) vlan_tci: u16,
    pub(crate) rss_hash: u32,
    pub(crate) hash_high: u32,
    pub(crate) vlan_tci_outer: u16,
    pub(crate) buffer_length: u16,
    pub(crate) pool: *mut RawMempool,
    pub(crate) next: *mut MbufHeader,
    pub(crate) transmit_offload: u64,
    rest: [u64; 6],
}

impl MbufHeader {
    /// Makes an mbuf that was taken from its pool a packet of `length` bytes behind the headroom, as drivers do: what a pool
    /// guarantees of its mbufs (one reference, one segment, none behind it) stays as it is.
    ///
    /// # Safety
    /// The mbuf is ours and from a pool, with a buffer that holds so many bytes.
    #[inline(always)]
    pub(crate) unsafe fn begin(mbuf: *mut Self, length: usize) {
        // SAFETY: the caller's; fields are written in the order in which they lie, so that the compiler can join them.
        unsafe {
            (*mbuf).data_offset = HEADROOM;
            (*mbuf).references = 1;
            (*mbuf).segments = 1;
            (*mbuf).port = u16::MAX;
            (*mbuf).offload_flags = 0;
            (*mbuf).packet_type = 0;
            (*mbuf).packet_length = length as u32;
            (*mbuf).data_length = length as u16;
            (*mbuf).vlan_tci = 0;
            (*mbuf).rss_hash = 0;
        }
    }
}

// The same numbers as in shim.c, so that a slip on either side does not compile.
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(offset_of!(MbufHeader, data_offset) == 16 && offset_of!(MbufHeader, references) == 18);
    assert!(offset_of!(MbufHeader, segments) == 20 && offset_of!(MbufHeader, port) == 22);
    assert!(offset_of!(MbufHeader, offload_flags) == 24 && offset_of!(MbufHeader, packet_type) == 32);
    assert!(offset_of!(MbufHeader, packet_length) == 36 && offset_of!(MbufHeader, data_length) == 40);
    assert!(offset_of!(MbufHeader, vlan_tci) == 42 && offset_of!(MbufHeader, rss_hash) == 44);
    assert!(offset_of!(MbufHeader, vlan_tci_outer) == 52 && offset_of!(MbufHeader, buffer_length) == 54);
    assert!(offset_of!(MbufHeader, pool) == 56 && offset_of!(MbufHeader, next) == 64);
    assert!(offset_of!(MbufHeader, transmit_offload) == 72 && size_of::<MbufHeader>() == 128);
};

/// `offload_flags` bit: `rss_hash` is valid.
pub(crate) const RX_RSS_HASH: u64 = 1 << 1;
/// `offload_flags` bits: the mbuf's data is in the buffer of another one, or in none of a pool.
pub(crate) const FOREIGN_BUFFER: u64 = 1 << 62 | 1 << 61;
/// Transmit offload: all mbufs of the queue come from one pool, have one segment and one reference.
pub(crate) const TX_FAST_FREE: u64 = 0x1_0000;
/// Transmit offload: packets may have several segments.
pub(crate) const TX_MULTI_SEGMENT: u64 = 0x8000;
/// Headroom of a fresh mbuf, bytes.
pub(crate) const HEADROOM: u16 = 128;
/// `SOCKET_ID_ANY`, and the lcore id of a thread that EAL does not know.
pub(crate) const ANY_NUMA_NODE: i32 = -1;

/// What a driver says about a port.
#[repr(C)]
pub(crate) struct RawPortInfo {
    pub(crate) driver: [u8; 64],
    pub(crate) device: [u8; 64],
    pub(crate) receive_offloads: u64,
    pub(crate) transmit_offloads: u64,
    pub(crate) rss_functions: u64,
    pub(crate) numa_node: i32,
    pub(crate) max_receive_frame: u32,
    pub(crate) max_receive_queues: u16,
    pub(crate) max_transmit_queues: u16,
    pub(crate) min_mtu: u16,
    pub(crate) max_mtu: u16,
    pub(crate) mtu: u16,
    pub(crate) mac: [u8; 6],
}

/// What a port is configured with.
#[repr(C)]
pub(crate) struct RawPortConfig {
    pub(crate) transmit_offloads: u64,
    pub(crate) rss_functions: u64,
    pub(crate) receive_queues: u16,
    pub(crate) transmit_queues: u16,
    pub(crate) receive_descriptors: u16,
    pub(crate) transmit_descriptors: u16,
    pub(crate) mtu: u16,
    pub(crate) promiscuous: u8,
    pub(crate) reserved: u8,
}

/// Basic counters of a port.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RawStatistics {
    pub(crate) received_packets: u64,
    pub(crate) transmitted_packets: u64,
    pub(crate) received_bytes: u64,
    pub(crate) transmitted_bytes: u64,
    pub(crate) missed: u64,
    pub(crate) receive_errors: u64,
    pub(crate) transmit_errors: u64,
    pub(crate) no_mbuf: u64,
}

/// A file that packet memory is in, and where it is mapped.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawMemoryFile {
    pub(crate) base: *mut u8,
    pub(crate) length: usize,
    pub(crate) file: c_int,
    pub(crate) reserved: u32,
}

/// Link state of a port.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RawLink {
    pub(crate) megabits_per_second: u32,
    pub(crate) up: u8,
    pub(crate) full_duplex: u8,
    pub(crate) reserved: [u8; 2],
}

/// `struct rte_eth_xstat`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawExtendedValue {
    pub(crate) id: u64,
    pub(crate) value: u64,
}

/// `struct rte_eth_xstat_name`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawExtendedName {
    pub(crate) name: [u8; 64],
}

const _: () = {
    use std::mem::size_of;
    assert!(size_of::<RawPortInfo>() == 176 && size_of::<RawPortConfig>() == 32);
    assert!(size_of::<RawStatistics>() == 64 && size_of::<RawLink>() == 8);
    assert!(size_of::<RawMemoryFile>() == 24);
    assert!(size_of::<RawExtendedValue>() == 16 && size_of::<RawExtendedName>() == 64);
};

unsafe extern "C" {
    pub(crate) fn sluice_log_open(line: LogLine, level: u32) -> c_int;
    pub(crate) fn sluice_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub(crate) fn sluice_eal_cleanup() -> c_int;
    pub(crate) safe fn sluice_version() -> *const c_char;
    pub(crate) safe fn sluice_cycles_per_second() -> u64;
    pub(crate) safe fn sluice_huge_pages_available(bytes: usize, page_size_log2: u32) -> c_int;
    pub(crate) fn sluice_memory_files(files: *mut RawMemoryFile, capacity: u32) -> c_int;
    pub(crate) safe fn sluice_file_duplicate(file: c_int) -> c_int;
    pub(crate) fn sluice_thread_register() -> c_int;
    pub(crate) fn sluice_thread_unregister();
    pub(crate) safe fn sluice_lcore_id() -> u32;

    pub(crate) fn sluice_mempool_create(
        name: *const c_char,
        count: u32,
        cache: u32,
        data_room: u16,
        numa_node: c_int,
        error: *mut c_int,
    ) -> *mut RawMempool;
    pub(crate) fn sluice_mempool_free_if_full(pool: *mut RawMempool) -> c_int;
    pub(crate) fn sluice_mempool_put_back(pool: *mut RawMempool);
    pub(crate) fn sluice_mempool_available(pool: *const RawMempool) -> u32;
    pub(crate) fn sluice_mempool_in_use(pool: *const RawMempool) -> u32;
    pub(crate) fn sluice_mbuf_take(pool: *mut RawMempool, mbufs: *mut c_void, count: u32) -> c_int;
    pub(crate) fn sluice_mbuf_put(pool: *mut RawMempool, mbufs: *mut c_void, count: u32);
    pub(crate) fn sluice_mbuf_free(mbuf: *mut MbufHeader);
    pub(crate) fn sluice_mbuf_free_bulk(mbufs: *mut c_void, count: u32);
    pub(crate) fn sluice_mbuf_linearize(mbuf: *mut MbufHeader) -> c_int;
    pub(crate) fn sluice_mbuf_truncate_chain(mbuf: *mut MbufHeader, length: u32);
    pub(crate) fn sluice_mbuf_read(mbuf: *const MbufHeader, to: *mut u8, length: u32);
    pub(crate) fn sluice_mbuf_chain(head: *mut MbufHeader, tail: *mut MbufHeader) -> c_int;

    pub(crate) fn sluice_device_add(
        bus: *const c_char,
        name: *const c_char,
        arguments: *const c_char,
    ) -> c_int;
    pub(crate) fn sluice_device_remove(bus: *const c_char, name: *const c_char) -> c_int;
    pub(crate) fn sluice_port_by_name(name: *const c_char, port: *mut u16) -> c_int;
    pub(crate) fn sluice_port_information(port: u16, info: *mut RawPortInfo) -> c_int;
    pub(crate) fn sluice_port_configure(
        port: u16,
        config: *const RawPortConfig,
        pool: *mut RawMempool,
    ) -> c_int;
    pub(crate) fn sluice_port_start(port: u16) -> c_int;
    pub(crate) fn sluice_port_stop(port: u16) -> c_int;
    pub(crate) fn sluice_port_close(port: u16) -> c_int;
    pub(crate) fn sluice_port_promiscuous(port: u16, enable: c_int) -> c_int;
    pub(crate) fn sluice_port_link(port: u16, link: *mut RawLink) -> c_int;
    pub(crate) safe fn sluice_interface_running(index: u32) -> c_int;
    pub(crate) fn sluice_port_statistics(port: u16, statistics: *mut RawStatistics) -> c_int;
    pub(crate) fn sluice_port_extended_count(port: u16) -> c_int;
    pub(crate) fn sluice_port_extended(
        port: u16,
        values: *mut RawExtendedValue,
        names: *mut RawExtendedName,
        count: u32,
    ) -> c_int;
    pub(crate) fn sluice_receive(port: u16, queue: u16, mbufs: *mut c_void, count: u16) -> u16;
    pub(crate) fn sluice_transmit(port: u16, queue: u16, mbufs: *mut c_void, count: u16) -> u16;
}
