//! The frames of a trial: what is sent, and what has to come back.
//!
//! Pure: made once before a trial, used by the generator, judged by tests through the parsers of `sluice-wire`.
//!
//! ```text
//!   workload's frame    Ethernet │ IPv4 or IPv6 │ UDP │ mark 1 │ trial 1 │ flow 2 │ sequence 4 │ its complement 4 │ zeros
//!   as its host sends   Ethernet │ IPv4 │ UDP │ Geneve │ workload's frame
//! ```
//!
//! Sequence number and complement cancel out in the UDP checksum, so that it stays right whatever the number is. IPv4 flows carry
//! no UDP checksum, as RFC 768 allows; IPv6 flows have one.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use sluice_wire::frame::{FrameBuilder, FrameError};
use sluice_wire::geneve::Geneve;
use sluice_wire::ipv4::Ipv4;
use sluice_wire::ipv6::Ipv6;
use sluice_wire::{IpProtocol, checksum};

use crate::topology::*;

/// First octet of every payload.
pub const MARK: u8 = 0x51;
/// Octets of mark, trial, flow, sequence number and its complement.
pub const TAG_BYTES: usize = 12;
/// Longest workload frame: 1,500 bytes of IP packet behind its Ethernet header.
pub const LONGEST_FRAME: usize = 1514;
/// Octets that encapsulation adds: Ethernet, IPv4, UDP and Geneve headers.
pub const ENCAPSULATION_BYTES: usize = 14 + 20 + 8 + 8;

const ETHERNET: usize = 14;
const UDP: usize = 8;
const IPV4: usize = 20;
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
}

/// Family of the inner packets. The outer ones are IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// How frames are to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// Routed, and encapsulated or decapsulated, on the other port.
    Routed,
    /// As they were sent, on the other port.
    Unchanged,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Encap => "encap",
            Self::Decap => "decap",
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

impl Family {
    /// Shortest workload frame that has room for what a trial writes into it, and that Ethernet allows.
    pub const fn shortest_frame(self) -> usize {
        match self {
            Self::Ipv4 => 60,
            Self::Ipv6 => ETHERNET + self.header_bytes() + UDP + TAG_BYTES,
        }
    }

    const fn header_bytes(self) -> usize {
        match self {
            Self::Ipv4 => IPV4,
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

/// Packets of [`FLOWS`] flows in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
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
    pub fn new(direction: Direction, family: Family, frame_bytes: usize) -> Result<Self, TrafficError> {
        let shortest = family.shortest_frame();
        if !(shortest..=LONGEST_FRAME).contains(&frame_bytes) {
            return Err(TrafficError::Length { bytes: frame_bytes, family, shortest });
        }
        Ok(Self { direction, family, frame_bytes, trial: 0 })
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

    /// The frame that is sent for a flow, from 0 to [`FLOWS`], with sequence number 0.
    ///
    /// # Errors
    ///
    /// None for lengths that [`Stream::new`] allows.
    pub fn sent(&self, flow: u16) -> Result<Vec<u8>, TrafficError> {
        self.build(flow, TTL, self.direction == Direction::Decap, false)
    }

    /// The frame that has to come back for a flow. Of an outer header only what [`Stream::is_as_expected`] compares is meant.
    ///
    /// # Errors
    ///
    /// None for lengths that [`Stream::new`] allows.
    pub fn returned(&self, flow: u16, expected: Expected) -> Result<Vec<u8>, TrafficError> {
        match expected {
            Expected::Unchanged => self.sent(flow),
            Expected::Routed => self.build(flow, TTL - 1, self.direction == Direction::Encap, true),
        }
    }

    /// Where the mark stands in frames that are sent.
    pub const fn sent_tag(&self) -> usize {
        self.tag(matches!(self.direction, Direction::Decap))
    }

    /// Where the mark stands in frames that come back.
    pub const fn returned_tag(&self, expected: Expected) -> usize {
        match expected {
            Expected::Unchanged => self.sent_tag(),
            Expected::Routed => self.tag(matches!(self.direction, Direction::Encap)),
        }
    }

    /// Whether a frame that came back is `template`, the one of its flow from [`Stream::returned`], in all that a router may not
    /// choose freely. Free are an outer header's identification, flags, time to live and UDP source port (RFC 8926 section 3.3).
    pub fn is_as_expected(&self, frame: &[u8], template: &[u8], expected: Expected) -> bool {
        let tag = self.returned_tag(expected);
        let same = |range: Range<usize>| {
            frame.get(range.clone()).is_some_and(|part| template.get(range) == Some(part))
        };
        if !(expected == Expected::Routed && self.direction == Direction::Encap) {
            return same(0..tag + 4);
        }
        // Ethernet, version and length, protocol, addresses; UDP port and length; Geneve and everything inside.
        let outer_ip = ETHERNET..ETHERNET + IPV4;
        same(0..15)
            && same(16..18)
            && same(23..24)
            && same(26..34)
            && same(36..40)
            && same(42..tag + 4)
            && frame.get(22).is_some_and(|ttl| *ttl > 0)
            && frame.get(outer_ip).is_some_and(checksum::verify)
    }

    const fn tag(&self, encapsulated: bool) -> usize {
        let outer = if encapsulated { ENCAPSULATION_BYTES } else { 0 };
        outer + ETHERNET + self.family.header_bytes() + UDP
    }

    fn build(&self, flow: u16, ttl: u8, encapsulated: bool, by_edge: bool) -> Result<Vec<u8>, TrafficError> {
        let (workload, tester) = (flow % WORKLOADS, flow / WORKLOADS);
        let mut frame = FrameBuilder::new();
        if encapsulated {
            let (source_mac, destination_mac, source, destination) = match by_edge {
                true => (DOWNLINK_MAC, HOST_MAC, EDGE_TEP, HOST_TEP),
                false => (HOST_MAC, DOWNLINK_MAC, HOST_TEP, EDGE_TEP),
            };
            frame = frame
                .ethernet(source_mac, destination_mac)
                .ipv4(source, destination)
                .geneve(0xc000 | flow, Geneve::new(VNI));
        }
        let (source_mac, destination_mac) = match (self.direction, by_edge) {
            (Direction::Encap, false) => (TESTER_MAC, UPLINK_MAC),
            (Direction::Encap, true) => (ROUTER_MAC, workload_mac(workload)),
            (Direction::Decap, false) => (workload_mac(workload), ROUTER_MAC),
            (Direction::Decap, true) => (UPLINK_MAC, TESTER_MAC),
        };
        frame = frame.ethernet(source_mac, destination_mac);
        let outbound = self.direction == Direction::Encap;
        let (from, to) = if outbound { (TESTER_PORT, WORKLOAD_PORT) } else { (WORKLOAD_PORT, TESTER_PORT) };
        frame = match self.family {
            Family::Ipv4 => {
                let ends = (tester_ipv4(tester), workload_ipv4(workload));
                let (source, destination) = if outbound { ends } else { (ends.1, ends.0) };
                let header = Ipv4 { ttl, ..Ipv4::new(source, destination, IpProtocol::UDP) };
                frame.ipv4_header(header).udp_without_checksum(from, to)
            }
            Family::Ipv6 => {
                let ends = (tester_ipv6(tester), workload_ipv6(workload));
                let (source, destination) = if outbound { ends } else { (ends.1, ends.0) };
                let header = Ipv6 { hop_limit: ttl, ..Ipv6::new(source, destination, IpProtocol::UDP) };
                frame.ipv6_header(header).udp(from, to)
            }
        };
        Ok(frame.payload(&self.payload(flow)).build()?)
    }

    fn payload(&self, flow: u16) -> Vec<u8> {
        let mut payload = vec![0; self.frame_bytes - ETHERNET - self.family.header_bytes() - UDP];
        payload[..2].copy_from_slice(&[MARK, self.trial]);
        payload[2..4].copy_from_slice(&flow.to_be_bytes());
        payload[4..TAG_BYTES].copy_from_slice(&sequence_octets(0));
        payload
    }
}

/// A sequence number and its complement, as they stand in a payload.
#[inline]
pub const fn sequence_octets(sequence: u32) -> [u8; 8] {
    (((sequence as u64) << 32) | (!sequence as u64)).to_be_bytes()
}

/// What a payload says of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Number of the trial.
    pub trial: u8,
    /// The flow, from 0 to [`FLOWS`].
    pub flow: u16,
    /// Number of the frame in its stream.
    pub sequence: u32,
}

/// The tag in the octets from the mark on; `None` where they are of no trial.
#[inline]
pub fn read_tag(octets: &[u8]) -> Option<Tag> {
    let head = u32::from_be_bytes(*octets.first_chunk()?);
    let numbers = u64::from_be_bytes(*octets.get(4..)?.first_chunk()?);
    let (sequence, complement) = ((numbers >> 32) as u32, numbers as u32);
    let (mark, trial, flow) = ((head >> 24) as u8, (head >> 16) as u8, head as u16);
    (mark == MARK && sequence == !complement && flow < FLOWS).then_some(Tag { trial, flow, sequence })
}

#[cfg(test)]
mod tests;
