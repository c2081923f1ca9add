//! The measured network: an edge between testers on its uplinks and a host, with 20 workloads, on its downlinks.
//!
//! ```text
//!   router of path 0, 192.0.2.1 ── uplink 0 ── 192.0.2.2 │ 172.16.0.1 ── downlink 0 ── 172.16.0.2 ┐
//!   router of path 1 …                     edge, tier-0  │  TEP 0                        TEP       ├ host, 20 workloads on the segments
//!   (64 addresses behind all of them)                    │ 172.16.1.1 ── downlink 1 ── 172.16.1.2 ┘ web-0, web-1
//! ```
//!
//! The generator plays the routers (behind which the tester is) and the host; the bench writes the node's document from the same
//! functions, and a test holds the two together.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use sluice_wire::{MacAddr, Vni};

use crate::traffic::{Encapsulation, Family};

/// MAC address of the distributed router: the one that a node has unless its document names another.
pub const ROUTER_MAC: MacAddr = MacAddr([0x02, 0x50, 0x56, 0x56, 0x44, 0x52]);
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
/// Most uplinks, and most paths to the tester: the next hops that a route takes.
pub const MOST_PATHS: u8 = 8;
/// Most downlinks.
pub const MOST_DOWNLINKS: u8 = 2;
/// Prefix length of an uplink's IPv4 subnet, in which 29 routers have room.
pub const UPLINK_PREFIX: u8 = 27;

/// How many links and paths there are, and how workloads' frames are carried on the downlinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Uplinks, 1 to [`MOST_PATHS`].
    pub uplinks: u8,
    /// Downlinks, 1 to [`MOST_DOWNLINKS`]. The edge has a TEP on each, and the workloads are spread over a segment for each; but see `lag`.
    pub downlinks: u8,
    /// The downlinks are a LAG: they have one TEP and one segment together, and everything on them is numbered as on the first.
    pub lag: bool,
    /// Next hops of the edge's default routes, from the number of uplinks to [`MOST_PATHS`]; they take the uplinks in turn.
    pub paths: u8,
    /// What carries frames on the downlinks.
    pub encapsulation: Encapsulation,
    /// Family of the TEPs.
    pub outer: Family,
    /// MAC addresses of the edge.
    pub edge: EdgeMacs,
}

impl Topology {
    /// One uplink, one downlink, Geneve over IPv4; the edge is a node.
    pub const ONE: Self = Self {
        uplinks: 1,
        downlinks: 1,
        lag: false,
        paths: 1,
        encapsulation: Encapsulation::Geneve,
        outer: Family::Ipv4,
        edge: EdgeMacs::NODE,
    };
}

impl Default for Topology {
    /// [`Topology::ONE`].
    fn default() -> Self {
        Self::ONE
    }
}

/// MAC addresses of the edge. A node has those of its document; what another device has is found out before the first trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeMacs {
    /// Its ports on the uplinks.
    pub uplinks: [MacAddr; MOST_PATHS as usize],
    /// Its ports on the downlinks.
    pub downlinks: [MacAddr; MOST_DOWNLINKS as usize],
    /// Its router on the segments: where workloads send to, behind a tunnel.
    pub router: MacAddr,
}

impl EdgeMacs {
    /// Those of a node.
    pub const NODE: Self = {
        let mut macs = Self {
            uplinks: [uplink_mac(0); MOST_PATHS as usize],
            downlinks: [downlink_mac(0); MOST_DOWNLINKS as usize],
            router: ROUTER_MAC,
        };
        let mut link = 1;
        while link < MOST_PATHS {
            macs.uplinks[link as usize] = uplink_mac(link);
            link += 1;
        }
        macs.downlinks[1] = downlink_mac(1);
        macs
    };

    /// That of the port on a link.
    pub const fn set(&mut self, (side, number): (Side, u8), mac: MacAddr) {
        match side {
            Side::Uplink => self.uplinks[number as usize] = mac,
            Side::Downlink => self.downlinks[number as usize] = mac,
        }
    }
}

/// The two sides of the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Towards the tester.
    Uplink,
    /// Towards the workloads.
    Downlink,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
        })
    }
}

impl Topology {
    /// All links: the uplinks, then the downlinks.
    pub const fn links(&self) -> usize {
        self.uplinks as usize + self.downlinks as usize
    }

    /// TEPs of the edge, and segments of the workloads: one for each downlink, or one for all of them together.
    pub const fn teps(&self) -> u8 {
        if self.lag { 1 } else { self.downlinks }
    }

    /// Which side a link is on, and its number there; that of every link of a LAG is 0.
    pub const fn side(&self, link: usize) -> (Side, u8) {
        if link < self.uplinks as usize {
            (Side::Uplink, link as u8)
        } else if self.lag {
            (Side::Downlink, 0)
        } else {
            (Side::Downlink, (link - self.uplinks as usize) as u8)
        }
    }

    /// The uplink that a path's router is on.
    pub const fn uplink_of(&self, path: u8) -> u8 {
        path % self.uplinks
    }

    /// The downlink that a workload is reached over; of a LAG the first one stands for all.
    pub const fn downlink_of(&self, workload: u16) -> u8 {
        (workload % self.teps() as u16) as u8
    }

    /// The uplink that the tester's frames of a flow come in on.
    pub const fn uplink_of_flow(&self, flow: u16) -> u8 {
        ((flow / WORKLOADS + flow % WORKLOADS) % self.uplinks as u16) as u8
    }

    /// A path's router on its uplink's subnet.
    pub fn router_ipv4(&self, path: u8) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(uplink_ipv4(self.uplink_of(path))) - 2 + u32::from(self.host_part(path)))
    }

    /// A path's router on its uplink's subnet.
    pub fn router_ipv6(&self, path: u8) -> Ipv6Addr {
        let mut segments = uplink_ipv6(self.uplink_of(path)).segments();
        segments[7] = u16::from(self.host_part(path));
        Ipv6Addr::from(segments)
    }

    /// The edge on a link: of an uplink both families, of a downlink its TEP.
    pub fn edge_addresses(&self, link: usize) -> Vec<IpAddr> {
        match self.side(link) {
            (Side::Uplink, uplink) => vec![uplink_ipv4(uplink).into(), uplink_ipv6(uplink).into()],
            (Side::Downlink, downlink) => vec![self.edge_tep(downlink)],
        }
    }

    /// A TEP of the edge.
    pub fn edge_tep(&self, downlink: u8) -> IpAddr {
        self.tep(downlink, 1)
    }

    /// A TEP of the host.
    pub fn host_tep(&self, downlink: u8) -> IpAddr {
        self.tep(downlink, 2)
    }

    fn tep(&self, downlink: u8, host: u8) -> IpAddr {
        match self.outer {
            Family::Ipv4 => Ipv4Addr::new(172, 16, downlink, host).into(),
            Family::Ipv6 => Ipv6Addr::new(0x2001, 0xdb8, 16, downlink.into(), 0, 0, 0, host.into()).into(),
        }
    }

    /// The edge itself has 2 on each uplink.
    const fn host_part(&self, path: u8) -> u8 {
        match path / self.uplinks {
            0 => 1,
            more => 2 + more,
        }
    }
}

/// MAC address of the edge's port on an uplink.
pub const fn uplink_mac(uplink: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, uplink << 4, 1])
}

/// MAC address of the edge's port on a downlink.
pub const fn downlink_mac(downlink: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, downlink << 4, 2])
}

/// MAC address of a path's router.
pub const fn path_mac(path: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, path << 4 | 9, 1])
}

/// The path whose router has this MAC address.
pub const fn path_of(mac: MacAddr) -> Option<u8> {
    match mac.0 {
        [2, 0, 0, 0, path, 1] if path & 0xf == 9 && path >> 4 < MOST_PATHS => Some(path >> 4),
        _ => None,
    }
}

/// MAC address of the host on a downlink.
pub const fn host_mac(downlink: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, downlink << 4 | 9, 2])
}

/// The edge on an uplink.
pub fn uplink_ipv4(uplink: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, (uplink << 5) + 2)
}

/// The edge on an uplink.
pub fn uplink_ipv6(uplink: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 2, uplink.into(), 0, 0, 0, 2)
}

/// Virtual network identifier of the segment whose workloads are reached over a downlink.
pub fn vni(downlink: u8) -> Vni {
    // Within 24 bits for every downlink.
    Vni::new(71_680 + u32::from(downlink)).unwrap_or(Vni::MAX)
}

/// MAC address of a workload, counted from 0.
pub fn workload_mac(workload: u16) -> MacAddr {
    let [high, low] = workload.to_be_bytes();
    MacAddr([2, 0, 0, 1, high, low])
}

/// IPv4 address of a workload, counted from 0, on the subnet of the segment of its downlink.
pub fn workload_ipv4(downlink: u8, workload: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 10, 20 + downlink, 10)) + u32::from(workload))
}

/// IPv6 address of a workload, counted from 0, on the subnet of the segment of its downlink.
pub fn workload_ipv6(downlink: u8, workload: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0x20, downlink.into(), 0, 0, 0, 0x10 + workload)
}

/// IPv4 address of the gateway on the subnet of a downlink's segment.
pub fn gateway_ipv4(downlink: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 10, 20 + downlink, 1)
}

/// IPv6 address of the gateway on the subnet of a downlink's segment.
pub fn gateway_ipv6(downlink: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0x20, downlink.into(), 0, 0, 0, 1)
}

/// IPv4 address behind the tester, counted from 0, in the range for benchmarks (RFC 2544 appendix C.2.2).
pub fn tester_ipv4(tester: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + u32::from(tester))
}

/// IPv6 address behind the tester, counted from 0.
pub fn tester_ipv6(tester: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, tester)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_path_has_a_router_of_its_own_beside_the_edge() {
        for (uplinks, paths) in [(1, 1), (1, 8), (2, 2), (2, 8), (3, 8), (8, 8)] {
            let topology = Topology { uplinks, paths, ..Topology::default() };
            let mut addresses = BTreeSet::new();
            for path in 0..paths {
                let (edge, router) = (uplink_ipv4(topology.uplink_of(path)), topology.router_ipv4(path));
                assert_eq!(u32::from(edge) >> 5, u32::from(router) >> 5, "path {path} of {topology:?}");
                assert_ne!(edge, router);
                addresses.insert(router);
                assert_eq!(path_of(path_mac(path)), Some(path));
            }
            assert_eq!(addresses.len(), usize::from(paths));
        }
        assert_eq!(Topology::default().router_ipv4(0), Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!(path_of(uplink_mac(1)), None);
        assert_eq!(path_of(host_mac(1)), None);
    }

    #[test]
    fn links_are_the_uplinks_and_then_the_downlinks() {
        let topology = Topology { uplinks: 2, downlinks: 2, ..Topology::default() };
        let sides: Vec<_> = (0..topology.links()).map(|link| topology.side(link)).collect();
        assert_eq!(sides, [(Side::Uplink, 0), (Side::Uplink, 1), (Side::Downlink, 0), (Side::Downlink, 1)]);
        let of_uplink = (0..FLOWS).filter(|flow| topology.uplink_of_flow(*flow) == 0).count();
        assert_eq!(of_uplink, usize::from(FLOWS) / 2);
    }
}
