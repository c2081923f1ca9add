//! Address resolution: which MAC address a neighbour has, by ARP for IPv4 and neighbour discovery for IPv6.
//!
//! The neighbours of a node are the TEPs of other nodes and the next hops of its routes. The data path hands in the
//! packets whose neighbour it does not know and the ARP and neighbour discovery frames that it receives; the node's
//! control thread, the only caller, publishes what comes out.
//!
//! | state | usable | comes from | leaves it |
//! |---|---|---|---|
//! | Incomplete | no | a packet, a kept neighbour | answer: Reachable; other frame of it: Stale; no answer: Failed |
//! | Reachable | yes | an answer | time: Probe; a changed or doubtful MAC address: Stale |
//! | Stale | yes | a request to us, an announcement | a packet handed in, time: Probe |
//! | Probe | yes | Reachable, Stale | answer: Reachable; no answer: lost, and Incomplete if kept |
//! | Failed | no | Incomplete, a link that is down; kept and not asked for yet | time: Incomplete if kept, or forgotten; any frame of it: Stale |
//!
//! Traffic goes on while a usable neighbour is asked again; only when it does not answer is it lost.
//!
//! This is neighbour unreachability detection (RFC 4861 §7.3) for both families, with these simplifications:
//!
//! - Whether traffic flows is not known here, so every neighbour is asked again when its time is over, not only one in
//!   use. [`Resolver::forget`] ends that for one that the node knows to be idle.
//! - A kept neighbour is not lost for probes without answer while received frames are shed: see
//!   [`Resolver::frames_shed`].
//! - An answer counts as such only while a question is open; at any other time it is an announcement.
//! - A MAC address changes at most once in [`ResolverConfig::change_interval`], so that forged announcements cannot
//!   make the data path rebuild its rewrites all the time.
//!
//! Memory is bounded whatever is received: at most [`ResolverConfig::neighbors`] (50,000) neighbours beside the kept
//! ones, of which at most [`ResolverConfig::unused`] (1,024) are there only because they asked for an own address.
//!
//! Limits: own addresses are announced and defended (RFC 5227 §2.3, §2.4 c) but not probed before use, as RFC 5227 §2.1
//! and RFC 4862 §5.4 ask of hosts: a node's addresses are configured, and a conflict is reported. Router
//! advertisements and redirects are not read. No membership of solicited-node groups is reported (RFC 3810): a switch
//! that snoops has to flood them, as it does with groups that it knows no member of. Proxies, anycast addresses, inverse ARP and SEND are not supported.
//! Neighbour discovery behind IPv6 extension headers is ignored (RFC 6980 forbids it for fragments).

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use sluice_wire::{MacAddr, VlanId};

use crate::Timestamp;

mod config;
mod message;
mod presence;
mod receive;
mod resolver;
mod table;
mod transition;

pub use config::ResolverConfig;
pub use resolver::Resolver;

/// Where neighbours live: a VLAN of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// The node's number of the port.
    pub port: u16,
    /// The VLAN; `None` for untagged. [`Link::new`] never leaves [`VlanId::UNTAGGED`] here, which would be another link.
    pub vlan: Option<VlanId>,
}

impl Link {
    /// The VLAN `vlan` of `port`, or its untagged frames for [`VlanId::UNTAGGED`].
    pub const fn new(port: u16, vlan: VlanId) -> Self {
        Self { port, vlan: if vlan.is_untagged() { None } else { Some(vlan) } }
    }

    /// The untagged frames of `port`.
    pub const fn untagged(port: u16) -> Self {
        Self { port, vlan: None }
    }
}

/// Which neighbour: its link and its address there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NeighborKey {
    /// The link that it is on.
    pub link: Link,
    /// Its IPv4 or IPv6 address.
    pub address: IpAddr,
}

/// The node's own presence on a link: TEP addresses, addresses of tier-0 uplinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The link. Several interfaces, with different MAC addresses, may be on one.
    pub link: Link,
    /// The MAC address of all of the interface's addresses.
    pub mac: MacAddr,
    /// Own addresses, each with the prefix length of its subnet: the addresses of the subnet are neighbours. Where no
    /// IPv6 link-local address is among them, the one that follows from the MAC address is added (RFC 4291 appendix A).
    /// Of two interfaces of a link with the same address, the first has it.
    pub addresses: Vec<IpNet>,
}

/// What the caller of a [`Resolver`] is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<P> {
    /// Send a frame.
    Send {
        /// The link to send it on.
        link: Link,
        /// The whole Ethernet frame without VLAN tag, padded to 60 octets.
        frame: Vec<u8>,
    },
    /// The neighbour, which is kept or which a packet asked for, is usable, or has another MAC address than before.
    Resolved {
        /// The neighbour.
        key: NeighborKey,
        /// Its MAC address.
        mac: MacAddr,
    },
    /// The neighbour, which was usable as [`Action::Resolved`] said, is no longer.
    Lost {
        /// The neighbour.
        key: NeighborKey,
    },
    /// Feed the packet in again; its neighbour is usable. Comes after [`Action::Resolved`].
    Release {
        /// The neighbour that it waited for.
        key: NeighborKey,
        /// The packet.
        packet: P,
    },
    /// The packet cannot be delivered.
    Discard {
        /// The packet.
        packet: P,
        /// Why.
        reason: DiscardReason,
    },
    /// Another station claims an own address. Reported at most once in 10 s per address; the address was announced
    /// once more in its defence (RFC 5227 §2.4 c).
    Conflict {
        /// The own address and its link.
        key: NeighborKey,
        /// The MAC address of the other station.
        mac: MacAddr,
    },
}

/// Why a packet that waited for a neighbour was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiscardReason {
    /// The neighbour does not answer, its link is down, or no own address is on a subnet with it.
    Unreachable,
    /// Too many packets wait, for this neighbour or in all.
    QueueFull,
    /// There are too many neighbours.
    TableFull,
}

/// What is known of a neighbour (RFC 4861 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeighborState {
    /// It was asked for its MAC address and has not answered yet.
    Incomplete,
    /// It answered lately.
    Reachable,
    /// It has a MAC address that nothing has confirmed lately.
    Stale,
    /// It is being asked whether it is still there.
    Probe,
    /// It did not answer, its link is down, or it is kept and its turn to be asked for has not come.
    Failed,
}

/// A neighbour for people and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborView {
    /// The MAC address; there is one exactly in the states Reachable, Stale and Probe.
    pub mac: Option<MacAddr>,
    /// What is known of it.
    pub state: NeighborState,
    /// It is resolved whether or not there is traffic for it.
    pub kept: bool,
    /// This node uses it: it is or was kept, or a packet asked for it. Only of such neighbours [`Action::Resolved`] and
    /// [`Action::Lost`] tell; the others asked for an own address, and are known in case they are needed.
    pub used: bool,
    /// Packets that wait for it.
    pub waiting: usize,
    /// When it entered its state.
    pub since: Timestamp,
}

impl NeighborView {
    /// How long the neighbour has been in its state.
    pub fn age(&self, now: Timestamp) -> Duration {
        now.since(self.since)
    }
}

/// What a [`Resolver`] has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolverStatistics {
    /// Requests and solicitations sent.
    pub requests_sent: u64,
    /// Replies and solicited advertisements sent.
    pub answers_sent: u64,
    /// Announcements of own addresses sent.
    pub announcements_sent: u64,
    /// Requests for own addresses that were not answered because of [`ResolverConfig::answers_per_second`].
    pub answers_withheld: u64,
    /// Frames that were ignored: malformed, forged, of stations that are no neighbours, or with a claim to an own
    /// address.
    pub ignored: u64,
    /// Neighbours that gave their place in the full table to others.
    pub evicted: u64,
    /// Frames that claimed own addresses.
    pub conflicts: u64,
}
