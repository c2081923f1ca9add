//! The addresses of the measured network: an edge between a tester on its uplink and a host, with 20 workloads, on its downlink.
//!
//! ```text
//!   tester 192.0.2.1 ── uplink ── edge 192.0.2.2 │ 172.16.0.1 ── downlink ── 172.16.0.2 host ── 20 workloads on segment `web`
//!   (64 addresses behind it)      tier-0 gateway │ TEP                       TEP
//! ```
//!
//! The generator plays the tester and the host. The node document in `documents/edge.yaml` says the same to a node; a test holds
//! the two together.

use std::net::{Ipv4Addr, Ipv6Addr};

use sluice_wire::{MacAddr, Vni};

/// MAC address of the edge's uplink port.
pub const UPLINK_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// MAC address of the edge's downlink port.
pub const DOWNLINK_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// MAC address of the distributed router.
pub const ROUTER_MAC: MacAddr = sluice_intent::plan::DEFAULT_ROUTER_MAC;
/// MAC address of the tester, the edge's next hop on the uplink.
pub const TESTER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 9, 1]);
/// MAC address of the host's TEP.
pub const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 9, 2]);
/// The tester on the uplink.
pub const TESTER_IPV4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The tester on the uplink, IPv6.
pub const TESTER_IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1);
/// The edge's TEP.
pub const EDGE_TEP: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);
/// The host's TEP.
pub const HOST_TEP: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 2);
/// The segment's virtual network identifier.
pub const VNI: Vni = match Vni::new(71_680) {
    Ok(vni) => vni,
    Err(_) => panic!("within 24 bits"),
};
/// Workloads behind the host.
pub const WORKLOADS: u16 = 20;
/// Addresses behind the tester. Each talks to each workload.
pub const TESTER_ADDRESSES: u16 = 64;
/// Flows in one direction.
pub const FLOWS: u16 = WORKLOADS * TESTER_ADDRESSES;
/// UDP port of the tester's side of each flow.
pub const TESTER_PORT: u16 = 1024;
/// UDP port of the workload's side of each flow.
pub const WORKLOAD_PORT: u16 = 5001;

/// MAC address of a workload, counted from 0.
pub fn workload_mac(workload: u16) -> MacAddr {
    let [high, low] = workload.to_be_bytes();
    MacAddr([2, 0, 0, 1, high, low])
}

/// IPv4 address of a workload, counted from 0.
pub fn workload_ipv4(workload: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 10, 20, 10)) + u32::from(workload))
}

/// IPv6 address of a workload, counted from 0.
pub fn workload_ipv6(workload: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0x20, 0, 0, 0, 0, 0x10 + workload)
}

/// IPv4 address behind the tester, counted from 0, in the range for benchmarks (RFC 2544 appendix C.2.2).
pub fn tester_ipv4(tester: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + u32::from(tester))
}

/// IPv6 address behind the tester, counted from 0.
pub fn tester_ipv6(tester: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, tester)
}
