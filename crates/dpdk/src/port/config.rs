//! How a port is used, and what its device says of itself.

use super::kind::check_range;
use crate::{Mempool, PortError, ffi};

/// Bytes of a frame beside its payload: Ethernet header and one 802.1Q tag pair (802.1ad); the frame check sequence is not in memory.
pub(crate) const FRAME_OVERHEAD: u16 = 14 + 8;

/// How a port is used.
#[derive(Debug, Clone)]
pub struct PortConfig {
    /// Receive queues. With several, flows are spread over them by RSS where the device can.
    pub receive_queues: u16,
    /// Transmit queues.
    pub transmit_queues: u16,
    /// Descriptors a receive queue; fitted to what the driver takes.
    pub receive_descriptors: u16,
    /// Descriptors a transmit queue; fitted to what the driver takes.
    pub transmit_descriptors: u16,
    /// Longest payload of a frame, bytes. Virtual ports take frames up to the size of their buffers whatever this says.
    pub mtu: u16,
    /// Pool that packets are received into.
    pub mempool: Mempool,
    /// Whether to receive frames for other MAC addresses too.
    pub promiscuous: bool,
    /// A promise that all packets sent on this port are of `mempool` and in one segment, which some drivers repay (MBUF_FAST_FREE).
    /// A packet that breaks it is dropped and counted ([`crate::TxQueue::unfit_packets`]).
    pub one_pool: bool,
}

impl PortConfig {
    /// One queue each way with 1,024 descriptors, MTU 1,500, promiscuous.
    pub fn new(mempool: Mempool) -> Self {
        Self {
            receive_queues: 1,
            transmit_queues: 1,
            receive_descriptors: 1024,
            transmit_descriptors: 1024,
            mtu: 1500,
            mempool,
            promiscuous: true,
            one_pool: false,
        }
    }
}

impl PortConfig {
    /// Checks that the longest frame fits a buffer of the pool: a packet is to be in one segment.
    pub(crate) fn check_room(&self, port: &str) -> Result<(), PortError> {
        let room = self.mempool.config().data_room.saturating_sub(ffi::HEADROOM + FRAME_OVERHEAD);
        let setting = "the MTU, for the buffers of its memory pool,";
        check_range(port, setting, u64::from(self.mtu), 68, u64::from(room))
    }
}

/// What a device is and can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// Poll-mode driver of DPDK's, such as `net_tap`, or `memif`, which is our own.
    pub driver: String,
    /// DPDK's name of the device.
    pub device: String,
    /// MAC address.
    pub mac: [u8; 6],
    /// NUMA node that the device is on; `None` where there is no such thing.
    pub numa_node: Option<u32>,
    /// PCI vendor and device, for a device on PCI.
    pub pci: Option<PciIdentity>,
    /// Most receive queues.
    pub max_receive_queues: u16,
    /// Most transmit queues.
    pub max_transmit_queues: u16,
    /// MTU now.
    pub mtu: u16,
    /// Smallest MTU.
    pub min_mtu: u16,
    /// Largest MTU that the driver takes.
    pub max_mtu: u16,
    /// Longest frame that the driver says it takes, bytes.
    pub max_frame: u32,
    /// Receive offloads, DPDK's bits (`RTE_ETH_RX_OFFLOAD_*`).
    pub receive_offloads: u64,
    /// Transmit offloads, DPDK's bits (`RTE_ETH_TX_OFFLOAD_*`).
    pub transmit_offloads: u64,
    /// What the device can spread flows by, DPDK's bits (`RTE_ETH_RSS_*`); 0 if it cannot.
    pub rss_functions: u64,
}

/// What a PCI device says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciIdentity {
    /// Vendor number.
    pub vendor: u16,
    /// The vendor's device number.
    pub device: u16,
}
