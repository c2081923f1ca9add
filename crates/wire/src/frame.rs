//! Whole frames in a `Vec`, for tests, benches and probes; the data path never comes here.
//!
//! A [`FrameBuilder`] is told the layers from the outermost to the innermost, and fills in what follows from
//! them: types and next headers, lengths, the UDP ports of tunnels, the flag C of Geneve, checksums.
//!
//! ```
//! use sluice_wire::frame::FrameBuilder;
//! use sluice_wire::geneve::Geneve;
//! use sluice_wire::{MacAddr, Vni};
//!
//! let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
//! let frame = FrameBuilder::new()
//!     .ethernet(a, b)
//!     .ipv4([192, 0, 2, 1].into(), [192, 0, 2, 2].into())
//!     .geneve(50_000, Geneve::new(Vni::new(5001)?))
//!     .ethernet(b, a)
//!     .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
//!     .udp(4000, 53)
//!     .payload(b"hello")
//!     .build()?;
//! assert_eq!(frame.len(), 14 + 20 + 8 + 8 + 14 + 20 + 8 + 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: behind a routing header, transport checksums are over the IPv6 header's destination all the same.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::arp::{self, Arp};
use crate::bfd::Bfd;
use crate::checksum::PseudoHeader;
use crate::ethernet::{Ethernet, VlanTag};
use crate::geneve::Geneve;
use crate::icmpv4::Icmpv4;
use crate::icmpv6::Icmpv6;
use crate::ipv4::Ipv4;
use crate::ipv6::{ExtensionHeader, Fragment, Ipv6};
use crate::lacp::Lacp;
use crate::marker::Marker;
use crate::neighbor::{NeighborMessage, NeighborOption};
use crate::tcp::{Tcp, TcpFlags};
use crate::udp::{self, Udp};
use crate::vxlan::Vxlan;
use crate::{EtherType, IpProtocol, Layer, MacAddr, VlanId, WireError};

/// Ethernet type of a payload that nothing was said about: local experiments (IEEE 802).
const EXPERIMENTAL_TYPE: EtherType = EtherType(0x88b5);

/// IP protocol of a payload that nothing was said about: experiments (RFC 3692 §2.1).
const EXPERIMENTAL_PROTOCOL: IpProtocol = IpProtocol(253);

/// A frame that cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A header refuses what it was given.
    #[error(transparent)]
    Header(#[from] WireError),
    /// What a header carries is longer than its length field can say.
    #[error("{layer}: {len} octets of payload are too many")]
    TooLong {
        /// The header.
        layer: Layer,
        /// Octets that it would carry.
        len: usize,
    },
    /// A checksum needs the addresses of an IP header, and none stands before.
    #[error("{0}: no IP header stands before it")]
    NoIpHeader(Layer),
    /// A VLAN tag or Ethernet type was given elsewhere than right behind an Ethernet header, or a third tag.
    #[error("a VLAN tag or Ethernet type needs an Ethernet header with room for it right before it")]
    NoEthernetHeader,
}

/// One layer of a frame.
#[derive(Clone, Debug)]
enum Part {
    Ethernet(Ethernet),
    Arp(Arp),
    Ipv4(Ipv4),
    Ipv6(Ipv6),
    Extension { protocol: IpProtocol, body: Vec<u8> },
    Udp(Udp, UdpChecksum),
    Tcp(Tcp),
    Icmpv4(Icmpv4),
    Icmpv6(Icmpv6),
    Neighbor(NeighborMessage, Vec<u8>),
    Geneve(Box<Geneve>),
    Vxlan(Vxlan),
    Bfd(Bfd),
    Lacp(Lacp),
    Marker(Marker),
    Payload(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UdpChecksum {
    Computed,
    Absent,
}

/// Builds a frame from its layers, outermost first. What goes wrong is said by [`FrameBuilder::build`].
#[derive(Clone, Debug, Default)]
pub struct FrameBuilder {
    parts: Vec<Part>,
    error: Option<FrameError>,
}

impl FrameBuilder {
    /// No layers yet.
    pub const fn new() -> Self {
        Self { parts: Vec::new(), error: None }
    }

    /// An Ethernet header; within a tunnel, that of the inner frame.
    #[must_use]
    pub fn ethernet(self, source: MacAddr, destination: MacAddr) -> Self {
        let header = Ethernet { destination, source, tags: [None; 2], ether_type: EXPERIMENTAL_TYPE };
        self.with(Part::Ethernet(header))
    }

    /// An 802.1Q tag of priority 0 for the Ethernet header right before.
    #[must_use]
    pub fn vlan(self, id: VlanId) -> Self {
        self.tag(VlanTag::new(id))
    }

    /// A VLAN tag for the Ethernet header right before, behind the tags that it has.
    #[must_use]
    pub fn tag(self, tag: VlanTag) -> Self {
        self.edit_ethernet(|header| {
            let slot = header.tags.iter_mut().find(|slot| slot.is_none());
            slot.map(|slot| *slot = Some(tag)).is_some()
        })
    }

    /// The Ethernet type of a payload that this builder does not know, for the Ethernet header right before.
    #[must_use]
    pub fn ether_type(self, ether_type: EtherType) -> Self {
        self.edit_ethernet(|header| {
            header.ether_type = ether_type;
            true
        })
    }

    /// An ARP packet.
    #[must_use]
    pub fn arp(self, packet: Arp) -> Self {
        self.with(Part::Arp(packet))
    }

    /// An IPv4 header as [`Ipv4::new`] makes it.
    #[must_use]
    pub fn ipv4(self, source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        self.ipv4_header(Ipv4::new(source, destination, EXPERIMENTAL_PROTOCOL))
    }

    /// An IPv4 header. Its length is filled in, and its protocol where a layer follows that has one.
    #[must_use]
    pub fn ipv4_header(self, header: Ipv4) -> Self {
        self.with(Part::Ipv4(header))
    }

    /// An IPv6 header as [`Ipv6::new`] makes it.
    #[must_use]
    pub fn ipv6(self, source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        self.ipv6_header(Ipv6::new(source, destination, EXPERIMENTAL_PROTOCOL))
    }

    /// An IPv6 header. Its length is filled in, and its next header where a layer follows that has one;
    /// behind extension headers, the next header given here ends the chain where no such layer follows.
    #[must_use]
    pub fn ipv6_header(self, header: Ipv6) -> Self {
        self.with(Part::Ipv6(header))
    }

    /// An IPv6 extension header: what stands behind its next header and length octets.
    #[must_use]
    pub fn extension(self, protocol: IpProtocol, body: &[u8]) -> Self {
        self.with(Part::Extension { protocol, body: body.to_vec() })
    }

    /// An IPv6 fragment header.
    #[must_use]
    pub fn fragment(self, fragment: Fragment) -> Self {
        let mut bytes = [0; 8];
        match fragment.emit(EXPERIMENTAL_PROTOCOL, &mut bytes) {
            Ok(_) => self.extension(IpProtocol::FRAGMENT, &bytes[2..]),
            Err(error) => self.failed(error.into()),
        }
    }

    /// A UDP header.
    #[must_use]
    pub fn udp(self, source_port: u16, destination_port: u16) -> Self {
        let header = Udp { source_port, destination_port, payload_len: 0, checksum: 0 };
        self.with(Part::Udp(header, UdpChecksum::Computed))
    }

    /// A UDP header whose checksum is 0, as tunnels may send it (RFC 8926 §3.3, RFC 6935).
    #[must_use]
    pub fn udp_without_checksum(self, source_port: u16, destination_port: u16) -> Self {
        let header = Udp { source_port, destination_port, payload_len: 0, checksum: 0 };
        self.with(Part::Udp(header, UdpChecksum::Absent))
    }

    /// A TCP header as [`Tcp::new`] makes it.
    #[must_use]
    pub fn tcp(self, source_port: u16, destination_port: u16, flags: TcpFlags) -> Self {
        self.tcp_header(Tcp::new(source_port, destination_port, flags))
    }

    /// A TCP header. Its checksum is filled in.
    #[must_use]
    pub fn tcp_header(self, header: Tcp) -> Self {
        self.with(Part::Tcp(header))
    }

    /// An ICMP message.
    #[must_use]
    pub fn icmpv4(self, message: Icmpv4) -> Self {
        self.with(Part::Icmpv4(message))
    }

    /// An ICMPv6 message.
    #[must_use]
    pub fn icmpv6(self, message: Icmpv6) -> Self {
        self.with(Part::Icmpv6(message))
    }

    /// A neighbour discovery message with its options.
    #[must_use]
    pub fn neighbor(self, message: NeighborMessage, options: &[NeighborOption<'_>]) -> Self {
        let mut bytes = vec![0; options.iter().map(NeighborOption::option_len).sum()];
        let mut at = 0;
        for option in options {
            match option.emit(&mut bytes[at..]) {
                Ok(len) => at += len,
                Err(error) => return self.failed(error.into()),
            }
        }
        self.with(Part::Neighbor(message, bytes))
    }

    /// A UDP header from `source_port` to the port of Geneve, without checksum, and the Geneve header. Its
    /// protocol is filled in where an Ethernet, IPv4 or IPv6 header follows.
    #[must_use]
    pub fn geneve(self, source_port: u16, header: Geneve) -> Self {
        self.udp_without_checksum(source_port, udp::port::GENEVE).geneve_header(header)
    }

    /// A Geneve header alone: behind [`FrameBuilder::udp`], for a checksum or another port.
    #[must_use]
    pub fn geneve_header(self, header: Geneve) -> Self {
        self.with(Part::Geneve(Box::new(header)))
    }

    /// A UDP header from `source_port` to the port of VXLAN, without checksum, and the VXLAN header.
    #[must_use]
    pub fn vxlan(self, source_port: u16, header: Vxlan) -> Self {
        self.udp_without_checksum(source_port, udp::port::VXLAN).vxlan_header(header)
    }

    /// A VXLAN header alone: behind [`FrameBuilder::udp`], for a checksum or another port.
    #[must_use]
    pub fn vxlan_header(self, header: Vxlan) -> Self {
        self.with(Part::Vxlan(header))
    }

    /// A BFD control packet: behind [`FrameBuilder::udp`] to [`udp::port::BFD`].
    #[must_use]
    pub fn bfd(self, packet: Bfd) -> Self {
        self.with(Part::Bfd(packet))
    }

    /// An LACPDU.
    #[must_use]
    pub fn lacp(self, packet: Lacp) -> Self {
        self.with(Part::Lacp(packet))
    }

    /// A Marker PDU or a response.
    #[must_use]
    pub fn marker(self, packet: Marker) -> Self {
        self.with(Part::Marker(packet))
    }

    /// Octets of no layer.
    #[must_use]
    pub fn payload(self, bytes: &[u8]) -> Self {
        self.with(Part::Payload(bytes.to_vec()))
    }

    /// The frame.
    ///
    /// # Errors
    ///
    /// [`FrameError`]: the first thing that went wrong.
    pub fn build(&self) -> Result<Vec<u8>, FrameError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut bytes = Vec::new();
        for index in (0..self.parts.len()).rev() {
            bytes = self.wrap(index, bytes)?;
        }
        Ok(bytes)
    }

    fn with(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    fn failed(mut self, error: FrameError) -> Self {
        self.error = self.error.or(Some(error));
        self
    }

    fn edit_ethernet(mut self, edit: impl FnOnce(&mut Ethernet) -> bool) -> Self {
        let edited = match self.parts.last_mut() {
            Some(Part::Ethernet(header)) => edit(header),
            _ => false,
        };
        if edited { self } else { self.failed(FrameError::NoEthernetHeader) }
    }

    /// The layer at `index` with `inner`, the layers behind it.
    fn wrap(&self, index: usize, inner: Vec<u8>) -> Result<Vec<u8>, FrameError> {
        let pseudo = |layer| self.pseudo_header(index).ok_or(FrameError::NoIpHeader(layer));
        Ok(match &self.parts[index] {
            Part::Ethernet(header) => {
                let header =
                    Ethernet { ether_type: self.ether_type_behind(index, header.ether_type), ..*header };
                emitted(header.header_len(), |buffer| header.emit(buffer), inner)?
            }
            Part::Arp(packet) => emitted(arp::PACKET_LEN, |buffer| packet.emit(buffer), inner)?,
            Part::Ipv4(header) => {
                let payload_len = length(Layer::Ipv4, &inner)?;
                let header =
                    Ipv4 { payload_len, protocol: self.protocol_behind(index, header.protocol), ..*header };
                emitted(header.header_len(), |buffer| header.emit(buffer), inner)?
            }
            Part::Ipv6(header) => {
                let payload_len = length(Layer::Ipv6, &inner)?;
                let next_header = self.protocol_behind(index, header.next_header);
                let header = Ipv6 { payload_len, next_header, ..*header };
                emitted(header.header_len(), |buffer| header.emit(buffer), inner)?
            }
            Part::Extension { protocol, body } => {
                let next_header = self.protocol_behind(index, self.declared_upper_layer(index));
                let header = ExtensionHeader { protocol: *protocol, next_header, body };
                emitted(header.header_len(), |buffer| header.emit(buffer), inner)?
            }
            Part::Udp(header, checksum) => {
                let header = Udp { payload_len: length(Layer::Udp, &inner)?, ..*header };
                let mut bytes = emitted(header.header_len(), |buffer| header.emit(buffer), inner)?;
                if *checksum == UdpChecksum::Computed {
                    let value = pseudo(Layer::Udp)?.udp(&bytes);
                    udp::UdpHeader::mut_from_prefix(&mut bytes)?.0.set_checksum(value);
                }
                bytes
            }
            Part::Tcp(header) => {
                let mut bytes = emitted(header.header_len(), |buffer| header.emit(buffer), inner)?;
                let value = pseudo(Layer::Tcp)?.tcp(&bytes);
                crate::tcp::TcpHeader::mut_from_prefix(&mut bytes)?.0.set_checksum(value);
                bytes
            }
            Part::Icmpv4(message) => emitted(
                message.header_len() + inner.len(),
                |buffer| message.emit(&inner, buffer),
                Vec::new(),
            )?,
            Part::Icmpv6(message) => {
                let pseudo = pseudo(Layer::Icmpv6)?;
                let len = message.header_len() + inner.len();
                emitted(len, |buffer| message.emit(&inner, pseudo, buffer), Vec::new())?
            }
            Part::Neighbor(message, options) => {
                let pseudo = pseudo(Layer::NeighborDiscovery)?;
                let mut bytes =
                    emitted(message.header_len(), |buffer| message.emit(&[], pseudo, buffer), inner)?;
                bytes.splice(message.header_len()..message.header_len(), options.iter().copied());
                let value = pseudo.icmpv6(&bytes);
                crate::icmpv6::IcmpHeader::mut_from_prefix(Layer::Icmpv6, &mut bytes)?.0.set_checksum(value);
                bytes
            }
            Part::Geneve(header) => {
                let header = Geneve { protocol: self.ether_type_behind(index, header.protocol), ..**header };
                emitted(header.header_len(), |buffer| header.emit(buffer), inner)?
            }
            Part::Vxlan(header) => emitted(header.header_len(), |buffer| header.emit(buffer), inner)?,
            Part::Bfd(packet) => emitted(packet.packet_len(), |buffer| packet.emit(buffer), inner)?,
            Part::Lacp(packet) => emitted(packet.packet_len(), |buffer| packet.emit(buffer), inner)?,
            Part::Marker(packet) => emitted(packet.packet_len(), |buffer| packet.emit(buffer), inner)?,
            Part::Payload(bytes) => [bytes, &inner[..]].concat(),
        })
    }

    /// The type of the layer behind `index`, or `otherwise` where it has none.
    fn ether_type_behind(&self, index: usize, otherwise: EtherType) -> EtherType {
        match self.parts.get(index + 1) {
            Some(Part::Ethernet(_)) => EtherType::TRANSPARENT_ETHERNET,
            Some(Part::Arp(_)) => EtherType::ARP,
            Some(Part::Ipv4(_)) => EtherType::IPV4,
            Some(Part::Ipv6(_)) => EtherType::IPV6,
            Some(Part::Lacp(_) | Part::Marker(_)) => EtherType::SLOW_PROTOCOLS,
            _ => otherwise,
        }
    }

    /// The IP protocol of the layer behind `index`, or `otherwise` where it has none.
    fn protocol_behind(&self, index: usize, otherwise: IpProtocol) -> IpProtocol {
        match self.parts.get(index + 1) {
            Some(Part::Ipv4(_)) => IpProtocol::IPV4,
            Some(Part::Ipv6(_)) => IpProtocol::IPV6,
            Some(Part::Extension { protocol, .. }) => *protocol,
            Some(Part::Udp(..)) => IpProtocol::UDP,
            Some(Part::Tcp(_)) => IpProtocol::TCP,
            Some(Part::Icmpv4(_)) => IpProtocol::ICMP,
            Some(Part::Icmpv6(_) | Part::Neighbor(..)) => IpProtocol::ICMPV6,
            _ => otherwise,
        }
    }

    /// The next header that the IPv6 header before `index` was given.
    fn declared_upper_layer(&self, index: usize) -> IpProtocol {
        let header = self.parts[..index].iter().rev().find_map(|part| match part {
            Part::Ipv6(header) => Some(header.next_header),
            _ => None,
        });
        header.unwrap_or(EXPERIMENTAL_PROTOCOL)
    }

    /// That of the nearest IP header before `index`.
    fn pseudo_header(&self, index: usize) -> Option<PseudoHeader> {
        self.parts[..index].iter().rev().find_map(|part| match part {
            Part::Ipv4(header) => Some(PseudoHeader::ipv4(header.source, header.destination)),
            Part::Ipv6(header) => Some(PseudoHeader::ipv6(header.source, header.destination)),
            _ => None,
        })
    }
}

/// A header of `len` octets that `emit` writes, and `inner` behind it.
fn emitted(
    len: usize,
    emit: impl FnOnce(&mut [u8]) -> Result<usize, WireError>,
    inner: Vec<u8>,
) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; len];
    emit(&mut bytes)?;
    bytes.extend_from_slice(&inner);
    Ok(bytes)
}

fn length(layer: Layer, inner: &[u8]) -> Result<u16, FrameError> {
    u16::try_from(inner.len()).map_err(|_| FrameError::TooLong { layer, len: inner.len() })
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
