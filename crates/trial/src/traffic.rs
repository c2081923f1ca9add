//! The frames of a trial: what is sent, and what has to come back.
//!
//! Pure: made once before a trial, used by the generator, judged by tests through the parsers of `sluice-wire`.
//!
//! ```text
//!   workload's frame    Ethernet │ IPv4 or IPv6 │ UDP │ tag 14 │ zeros
//!   as its host sends   Ethernet │ IPv4 or IPv6 │ UDP │ Geneve or VXLAN │ workload's frame
//! ```
//!
//! IPv4 flows carry no UDP checksum, as RFC 768 allows; IPv6 flows have one.

pub mod tag;

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use sluice_wire::frame::{FrameBuilder, FrameError};
use sluice_wire::geneve::Geneve;
use sluice_wire::ipv4::Ipv4;
use sluice_wire::ipv6::Ipv6;
use sluice_wire::vxlan::Vxlan;
use sluice_wire::{IpProtocol, MacAddr, checksum};

use crate::topology::*;
use tag::TAG_BYTES;

/// Longest workload frame: 1,500 bytes of IP packet behind its Ethernet header.
pub const LONGEST_FRAME: usize = 1514;

/// Octets of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Octets of a UDP header.
pub const UDP_BYTES: usize = 8;
/// Octets of a Geneve header without options, and of a VXLAN header.
const TUNNEL_BYTES: usize = 8;
/// Time to live that packets start with.
const TTL: u8 = 64;

/// Which way packets pass the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the tester to the workloads: routed and encapsulated.
    Encap,
    /// From the workloads to the tester: decapsulated and routed.
    Decap,
    /// From the tester to the workloads, which send each frame back to the tester: both, one after the other.
    Loop,
}

/// Family of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// What carries workloads' frames between TEPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Encapsulation {
    /// Geneve (RFC 8926), without options.
    Geneve,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// Nothing: the host routes plain packets.
    None,
}

/// How frames are to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// Routed, and encapsulated or decapsulated, on the other side.
    Routed,
    /// As they were sent, on the other side.
    Unchanged,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Encap => "encap",
            Self::Decap => "decap",
            Self::Loop => "loop",
        })
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}

impl fmt::Display for Encapsulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Geneve => "Geneve",
            Self::Vxlan => "VXLAN",
            Self::None => "none",
        })
    }
}

impl Encapsulation {
    /// The name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Geneve => "geneve",
            Self::Vxlan => "vxlan",
            Self::None => "none",
        }
    }
}

impl Family {
    /// The name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        }
    }

    /// Shortest workload frame that has room for its tag, and that Ethernet allows.
    pub const fn shortest_frame(self) -> usize {
        let shortest = ETHERNET_BYTES + self.header_bytes() + UDP_BYTES + TAG_BYTES;
        if shortest < 60 { 60 } else { shortest }
    }

    /// Octets of an IP header of the family.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Ipv4 => 20,
            Self::Ipv6 => 40,
        }
    }
}

/// Frames that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrafficError {
    /// A length out of range.
    #[error("a frame of {bytes} bytes cannot be sent: with {family} it has {shortest} to {LONGEST_FRAME}")]
    Length {
        /// What was asked for.
        bytes: usize,
        /// Family of the packets.
        family: Family,
        /// The least that works.
        shortest: usize,
    },
    /// A frame that the builder refuses.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Who sends a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// The generator, as a router or as the host.
    Generator,
    /// What is measured.
    Edge,
}

/// Packets of [`FLOWS`] flows in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    topology: Topology,
    direction: Direction,
    family: Family,
    frame_bytes: usize,
    trial: u8,
}

impl Stream {
    /// A stream whose workloads send or receive frames of `frame_bytes` (without frame check sequence).
    ///
    /// # Errors
    ///
    /// [`TrafficError::Length`] for frames outside [`Family::shortest_frame`] to [`LONGEST_FRAME`].
    pub fn new(
        topology: Topology,
        direction: Direction,
        family: Family,
        frame_bytes: usize,
    ) -> Result<Self, TrafficError> {
        let shortest = family.shortest_frame();
        if !(shortest..=LONGEST_FRAME).contains(&frame_bytes) {
            return Err(TrafficError::Length { bytes: frame_bytes, family, shortest });
        }
        Ok(Self { topology, direction, family, frame_bytes, trial: 0 })
    }

    /// The same stream in a numbered trial, so that what is left of the trial before is known by its number.
    #[must_use]
    pub const fn in_trial(self, trial: u8) -> Self {
        Self { trial, ..self }
    }

    /// Number of the trial that it belongs to.
    pub const fn trial(&self) -> u8 {
        self.trial
    }

    /// Which way its packets pass the edge.
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Family of its workloads' packets.
    pub const fn family(&self) -> Family {
        self.family
    }

    /// The link that frames of a flow are sent on.
    pub const fn link(&self, flow: u16) -> usize {
        match self.sent_on() {
            Side::Uplink => self.topology.uplink_of_flow(flow) as usize,
            Side::Downlink => {
                self.topology.uplinks as usize + self.topology.downlink_of(flow % WORKLOADS) as usize
            }
        }
    }

    /// The side that frames are sent on.
    pub const fn sent_on(&self) -> Side {
        match self.direction {
            Direction::Encap | Direction::Loop => Side::Uplink,
            Direction::Decap => Side::Downlink,
        }
    }

    /// The side on which frames come back.
    pub const fn received_on(&self) -> Side {
        match self.direction {
            Direction::Encap => Side::Downlink,
            Direction::Decap | Direction::Loop => Side::Uplink,
        }
    }

    /// The frame that is sent for a flow, from 0 to [`FLOWS`], with sequence number and time 0.
    ///
    /// # Errors
    ///
    /// None for lengths that [`Stream::new`] allows.
    pub fn sent(&self, flow: u16) -> Result<Vec<u8>, TrafficError> {
        self.build(flow, self.sent_on(), Sender::Generator, TTL)
    }

    /// The frame that has to come back for a flow, over path 0. Of an outer header only what [`Stream::is_as_expected`] compares is meant.
    ///
    /// # Errors
    ///
    /// None for lengths that [`Stream::new`] allows.
    pub fn returned(&self, flow: u16, expected: Expected) -> Result<Vec<u8>, TrafficError> {
        let hops = if self.direction == Direction::Loop { 2 } else { 1 };
        match expected {
            Expected::Unchanged => self.sent(flow),
            Expected::Routed => self.build(flow, self.received_on(), Sender::Edge, TTL - hops),
        }
    }

    /// Where the tag stands in frames that are sent.
    pub const fn sent_tag(&self) -> usize {
        self.tag_on(self.sent_on())
    }

    /// Where the tag stands in frames that come back.
    pub const fn returned_tag(&self, expected: Expected) -> usize {
        match expected {
            Expected::Unchanged => self.sent_tag(),
            Expected::Routed => self.tag_on(self.received_on()),
        }
    }

    /// Where the tag stands in frames on one side.
    pub const fn tag_on(&self, side: Side) -> usize {
        self.outer_bytes(side) + ETHERNET_BYTES + self.family.header_bytes() + UDP_BYTES
    }

    /// Octets that encapsulation puts before workloads' frames on one side.
    pub const fn outer_bytes(&self, side: Side) -> usize {
        match (side, self.topology.encapsulation) {
            (Side::Uplink, _) | (_, Encapsulation::None) => 0,
            (Side::Downlink, Encapsulation::Geneve | Encapsulation::Vxlan) => {
                ETHERNET_BYTES + self.topology.outer.header_bytes() + UDP_BYTES + TUNNEL_BYTES
            }
        }
    }

    /// Whether a frame that came back is `template`, the one of its flow from [`Stream::returned`], in all that a router may not
    /// choose freely. Free are an outer header's identification, flags, flow label, time to live and UDP source port (RFC 8926 section
    /// 3.3), and which of its paths an edge takes to the tester.
    pub fn is_as_expected(&self, frame: &[u8], template: &[u8], expected: Expected) -> bool {
        let end = self.returned_tag(expected) + tag::STAMP_AT;
        let same = |range: Range<usize>| {
            frame.get(range.clone()).is_some_and(|part| template.get(range) == Some(part))
        };
        let padding = self.returned_tag(expected) + TAG_BYTES;
        if !frame.get(padding..).is_some_and(|padding| padding.iter().all(|octet| *octet == 0)) {
            return false;
        }
        if expected == Expected::Unchanged {
            return same(0..end);
        }
        match self.received_on() {
            Side::Uplink => self.is_on_a_path(frame) && same(12..end),
            Side::Downlink => {
                let outer = self.outer_bytes(Side::Downlink);
                (outer == 0 || self.has_outer_headers(frame, &same)) && same(outer..end)
            }
        }
    }

    /// Whether a frame goes from an uplink of the edge to the router of one of that uplink's paths.
    fn is_on_a_path(&self, frame: &[u8]) -> bool {
        let Some([destination, source]) = frame.first_chunk::<12>().map(|octets| {
            let (destination, source) = octets.split_at(6);
            [destination, source].map(|mac| MacAddr(mac.try_into().unwrap_or_default()))
        }) else {
            return false;
        };
        path_of(destination).is_some_and(|path| {
            path < self.topology.paths && source == self.edge_on_uplink(self.topology.uplink_of(path))
        })
    }

    const fn edge_on_uplink(&self, uplink: u8) -> MacAddr {
        self.topology.edge.uplinks[uplink as usize]
    }

    const fn edge_on_downlink(&self, downlink: u8) -> MacAddr {
        self.topology.edge.downlinks[downlink as usize]
    }

    fn has_outer_headers(&self, frame: &[u8], same: &impl Fn(Range<usize>) -> bool) -> bool {
        let ip = ETHERNET_BYTES;
        let udp = ip + self.topology.outer.header_bytes();
        let network = match self.topology.outer {
            // Version and length, total length, protocol, addresses.
            Family::Ipv4 => {
                same(ip..ip + 1)
                    && same(ip + 2..ip + 4)
                    && same(ip + 9..ip + 10)
                    && same(ip + 12..udp)
                    && frame.get(ip + 8).is_some_and(|ttl| *ttl > 0)
                    && frame.get(ip..udp).is_some_and(checksum::verify)
            }
            // Version, payload length, next header, addresses.
            Family::Ipv6 => {
                frame.get(ip).is_some_and(|octet| octet >> 4 == 6)
                    && same(ip + 4..ip + 7)
                    && same(ip + 8..udp)
                    && frame.get(ip + 7).is_some_and(|limit| *limit > 0)
            }
        };
        // Ethernet; UDP destination port and length; checksum (zero) and tunnel header.
        same(0..ip) && network && same(udp + 2..udp + UDP_BYTES + TUNNEL_BYTES)
    }

    fn build(&self, flow: u16, side: Side, sender: Sender, ttl: u8) -> Result<Vec<u8>, TrafficError> {
        let (workload, tester) = (flow % WORKLOADS, flow / WORKLOADS);
        let mut frame = FrameBuilder::new();
        if self.outer_bytes(side) > 0 {
            frame = self.encapsulate(frame, flow, sender);
        }
        let (source_mac, destination_mac) = self.macs(flow, side, sender);
        frame = frame.ethernet(source_mac, destination_mac);
        // What the tester sends goes to a workload; what the edge sends on an uplink, and the host on a downlink, comes from one.
        let to_workload =
            matches!((side, sender), (Side::Uplink, Sender::Generator) | (Side::Downlink, Sender::Edge));
        let (from, to) =
            if to_workload { (TESTER_PORT, WORKLOAD_PORT) } else { (WORKLOAD_PORT, TESTER_PORT) };
        let downlink = self.topology.downlink_of(workload);
        frame = match self.family {
            Family::Ipv4 => {
                let ends = (tester_ipv4(tester), workload_ipv4(downlink, workload));
                let (source, destination) = if to_workload { ends } else { (ends.1, ends.0) };
                let header = Ipv4 { ttl, ..Ipv4::new(source, destination, IpProtocol::UDP) };
                frame.ipv4_header(header).udp_without_checksum(from, to)
            }
            Family::Ipv6 => {
                let ends = (tester_ipv6(tester), workload_ipv6(downlink, workload));
                let (source, destination) = if to_workload { ends } else { (ends.1, ends.0) };
                let header = Ipv6 { hop_limit: ttl, ..Ipv6::new(source, destination, IpProtocol::UDP) };
                frame.ipv6_header(header).udp(from, to)
            }
        };
        Ok(frame.payload(&self.payload(flow)).build()?)
    }

    /// Source and destination of a workload's frame, or of a plain one on a link.
    fn macs(&self, flow: u16, side: Side, sender: Sender) -> (MacAddr, MacAddr) {
        let workload = flow % WORKLOADS;
        let downlink = self.topology.downlink_of(workload);
        let (edge, other) = match side {
            // Which path the edge takes is not known; of what it sends, the template takes the first one.
            Side::Uplink if sender == Sender::Edge => (self.edge_on_uplink(0), path_mac(0)),
            Side::Uplink => {
                let uplink = self.topology.uplink_of_flow(flow);
                (self.edge_on_uplink(uplink), path_mac(uplink))
            }
            Side::Downlink if self.topology.encapsulation == Encapsulation::None => {
                (self.edge_on_downlink(downlink), host_mac(downlink))
            }
            Side::Downlink => (self.topology.edge.router, workload_mac(workload)),
        };
        match sender {
            Sender::Generator => (other, edge),
            Sender::Edge => (edge, other),
        }
    }

    fn encapsulate(&self, frame: FrameBuilder, flow: u16, sender: Sender) -> FrameBuilder {
        let downlink = self.topology.downlink_of(flow % WORKLOADS);
        let edge = (self.edge_on_downlink(downlink), self.topology.edge_tep(downlink));
        let host = (host_mac(downlink), self.topology.host_tep(downlink));
        let (source, destination) = if sender == Sender::Edge { (edge, host) } else { (host, edge) };
        let frame = frame.ethernet(source.0, destination.0);
        let frame = match (source.1, destination.1) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => frame.ipv4(source, destination),
            (IpAddr::V6(source), IpAddr::V6(destination)) => frame.ipv6(source, destination),
            // TEPs are of one family.
            _ => frame,
        };
        match self.topology.encapsulation {
            Encapsulation::Vxlan => frame.vxlan(0xc000 | flow, Vxlan { vni: Some(vni(downlink)) }),
            Encapsulation::Geneve | Encapsulation::None => {
                frame.geneve(0xc000 | flow, Geneve::new(vni(downlink)))
            }
        }
    }

    fn payload(&self, flow: u16) -> Vec<u8> {
        let mut payload = vec![0; self.frame_bytes - ETHERNET_BYTES - self.family.header_bytes() - UDP_BYTES];
        payload[..tag::STAMP_AT].copy_from_slice(&tag::head(self.trial, flow));
        payload[tag::STAMP_AT..TAG_BYTES].copy_from_slice(&tag::stamp(0, 0));
        payload
    }
}

#[cfg(test)]
mod tests;
