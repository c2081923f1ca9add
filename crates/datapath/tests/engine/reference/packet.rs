//! Frames and IP packets taken apart into owned values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_datapath::drops::DropReason;
use sluice_wire::MacAddr;
use sluice_wire::checksum;

use super::Flow;
use crate::common::bytes::{IPV4, IPV6};

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;

/// A frame without tags.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) destination: MacAddr,
    pub(super) source: MacAddr,
    pub(super) ethertype: u16,
    /// Everything behind the Ethernet header, padding included.
    pub(super) payload: Vec<u8>,
    /// What the payload says, if it is IP.
    pub(super) ip: Option<Ip>,
}

/// What an IP packet says of itself.
#[derive(Clone, Debug)]
pub(super) struct Ip {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// The upper-layer protocol; of no meaning behind several extension headers.
    pub(super) protocol: u8,
    pub(super) fragment: bool,
    /// More than one IPv6 extension header.
    pub(super) many_extensions: bool,
    /// Bytes of the packet.
    pub(super) length: usize,
    pub(super) ttl: u8,
    pub(super) class: u8,
    /// Offset of the upper-layer header.
    pub(super) upper: usize,
    /// Ports of UDP and TCP, where every packet of the flow has them.
    pub(super) ports: (u16, u16),
    /// Type of an ICMPv6 message.
    pub(super) icmpv6: Option<u8>,
}

impl Frame {
    /// Takes a frame apart that has no tag or whose tag was taken out. `own` is the MAC address that is routed.
    pub(super) fn parse(bytes: &[u8], own: Option<MacAddr>) -> Result<Self, DropReason> {
        let header: [u8; 14] =
            bytes.get(..14).and_then(|header| header.try_into().ok()).ok_or(DropReason::Truncated)?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, high, low] = header;
        let destination = MacAddr([d0, d1, d2, d3, d4, d5]);
        let ethertype = u16::from_be_bytes([high, low]);
        let payload = bytes[14..].to_vec();
        let routed = own == Some(destination);
        let ip = match ethertype {
            IPV4 => Some(Ip::parse_v4(&payload, routed)?),
            IPV6 => Some(Ip::parse_v6(&payload)?),
            _ => None,
        };
        Ok(Self { destination, source: MacAddr([s0, s1, s2, s3, s4, s5]), ethertype, payload, ip })
    }

    /// The layer-3 packet: without padding if it is IP.
    pub(super) fn packet(&self) -> &[u8] {
        match &self.ip {
            Some(ip) => &self.payload[..ip.length],
            None => &self.payload,
        }
    }

    pub(super) fn flow(&self) -> Flow {
        self.ip.as_ref().map_or_else(Flow::default, Ip::flow)
    }
}

fn word(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

impl Ip {
    pub(super) fn is_v6(&self) -> bool {
        self.source.is_ipv6()
    }

    /// Fragments by addresses and protocol; several extension headers by addresses alone.
    fn flow(&self) -> Flow {
        let protocol = if self.many_extensions { 0 } else { self.protocol };
        Flow { addresses: Some((self.source, self.destination)), protocol, ports: self.ports }
    }

    /// RFC 791 section 3.1, RFC 1812 section 5.2.2.
    fn parse_v4(bytes: &[u8], routed: bool) -> Result<Self, DropReason> {
        if bytes.len() < 20 {
            return Err(DropReason::Truncated);
        }
        let length = word(bytes, 2);
        if length > bytes.len() {
            return Err(DropReason::Truncated);
        }
        let header_length = usize::from(bytes[0] & 0x0f) * 4;
        if bytes[0] >> 4 != 4 || header_length < 20 {
            return Err(DropReason::Malformed);
        }
        if header_length > bytes.len() {
            return Err(DropReason::Truncated);
        }
        if header_length > 20 {
            check_checksum(&bytes[..header_length], routed)?;
            check_options(&bytes[20..header_length], routed)?;
        }
        if length < header_length {
            return Err(DropReason::Malformed);
        }
        check_checksum(&bytes[..header_length], routed)?;
        let fragment = word(bytes, 6) & 0x3fff != 0;
        // RFC 791 section 3.1: the total length of the datagram that the fragment is put into has 16 bits.
        if (word(bytes, 6) & 0x1fff) * 8 + length > 65_535 {
            return Err(DropReason::Malformed);
        }
        let protocol = bytes[9];
        let mut ports = (0, 0);
        if !fragment && (protocol == UDP || protocol == TCP) {
            if length < header_length + 8 {
                return Err(DropReason::Truncated);
            }
            ports = (word(bytes, header_length) as u16, word(bytes, header_length + 2) as u16);
        }
        let address =
            |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]).into();
        Ok(Self {
            source: address(12),
            destination: address(16),
            protocol,
            fragment,
            many_extensions: false,
            length,
            ttl: bytes[8],
            class: bytes[1],
            upper: header_length,
            ports,
            icmpv6: None,
        })
    }

    /// RFC 8200 sections 3 and 4.
    fn parse_v6(bytes: &[u8]) -> Result<Self, DropReason> {
        if bytes.len() < 40 {
            return Err(DropReason::Truncated);
        }
        if bytes[0] >> 4 != 6 {
            return Err(DropReason::Malformed);
        }
        let length = 40 + word(bytes, 4);
        if length > bytes.len() {
            return Err(DropReason::Truncated);
        }
        let packet = &bytes[..length];
        let (mut protocol, mut upper, mut count, mut fragment) = (bytes[6], 40, 0, false);
        while is_extension_header(protocol) && !fragment {
            count += 1;
            if count > 8 {
                return Err(DropReason::TooManyExtensionHeaders);
            }
            let header = packet.get(upper..).filter(|rest| rest.len() >= 2).ok_or(DropReason::Truncated)?;
            let size = match protocol {
                44 => 8,
                51 => (usize::from(header[1]) + 2) * 4,
                _ => (usize::from(header[1]) + 1) * 8,
            };
            if header.len() < size {
                return Err(DropReason::Truncated);
            }
            // RFC 8200 section 4.5: the payload length of the packet that the fragment is put into is that of this one without its fragment
            // header, the data of those before it counted in.
            if protocol == 44 && word(bytes, 4) - 8 + (word(header, 2) >> 3) * 8 > 65_535 {
                return Err(DropReason::Malformed);
            }
            // An offset or more fragments: a packet that is its own only fragment is whole (RFC 6946).
            fragment = protocol == 44 && word(header, 2) & 0xfff9 != 0;
            protocol = header[0];
            upper += size;
        }
        let many_extensions = count > 1;
        let whole = !fragment && !many_extensions;
        let (mut ports, mut icmpv6) = ((0, 0), None);
        if whole && (protocol == UDP || protocol == TCP) {
            if length < upper + 8 {
                return Err(DropReason::Truncated);
            }
            ports = (word(packet, upper) as u16, word(packet, upper + 2) as u16);
        }
        if whole && protocol == ICMPV6 {
            icmpv6 = Some(*packet.get(upper).ok_or(DropReason::Truncated)?);
        }
        let address = |at: usize| {
            let octets: [u8; 16] = bytes[at..at + 16].try_into().expect("16 bytes");
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        Ok(Self {
            source: address(8),
            destination: address(24),
            protocol,
            fragment: fragment && !many_extensions,
            many_extensions,
            length,
            ttl: bytes[7],
            class: bytes[0] << 4 | bytes[1] >> 4,
            upper,
            ports,
            icmpv6,
        })
    }
}

fn is_extension_header(protocol: u8) -> bool {
    matches!(protocol, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140)
}

/// Whether an IPv6 packet is an ICMPv6 error or redirect (RFC 4443 section 2.4 e); none where it does not tell: its headers end too early, or it
/// is a fragment that is not the first and whose data may be of ICMPv6.
pub(super) fn is_icmpv6_error(packet: &[u8]) -> Option<bool> {
    let mut chain = vec![packet[6]];
    let mut at = 40;
    loop {
        match chain.last()? {
            44 => {
                let header = packet.get(at..at + 8)?;
                chain.push(header[0]);
                if word(header, 2) >> 3 != 0 {
                    let unclear = is_extension_header(header[0]) || header[0] == ICMPV6;
                    return if unclear { None } else { Some(false) };
                }
                at += 8;
            }
            51 => {
                let length = 4 * (2 + usize::from(*packet.get(at + 1)?));
                chain.push(packet.get(at..at + length)?[0]);
                at += length;
            }
            &ICMPV6 => {
                let kind = *packet.get(at)?;
                return Some(kind < 128 || kind == 137);
            }
            &other if is_extension_header(other) => {
                let length = 8 * (1 + usize::from(*packet.get(at + 1)?));
                chain.push(packet.get(at..at + length)?[0]);
                at += length;
            }
            _ => return Some(false),
        }
    }
}

fn check_checksum(header: &[u8], routed: bool) -> Result<(), DropReason> {
    if routed && !checksum::verify(header) { Err(DropReason::BadChecksum) } else { Ok(()) }
}

fn check_options(mut options: &[u8], routed: bool) -> Result<(), DropReason> {
    while let Some(kind) = options.first() {
        let length = match kind {
            0 => return Ok(()),
            1 => 1,
            131 | 137 if routed => return Err(DropReason::SourceRouted),
            _ => usize::from(*options.get(1).ok_or(DropReason::Malformed)?),
        };
        if (length < 2 && *kind != 1) || length > options.len() {
            return Err(DropReason::Malformed);
        }
        options = &options[length..];
    }
    Ok(())
}

/// The checksum after a word that it covers changed (RFC 1624, equation 3).
fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn change_v4(packet: &mut [u8], at: usize, change: impl FnOnce(&mut [u8])) {
    let before = word(packet, at) as u16;
    change(&mut packet[at..at + 2]);
    let sum = updated(word(packet, 10) as u16, before, word(packet, at) as u16);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Takes `hops` from the time to live.
pub(super) fn lower_ttl(packet: &mut [u8], hops: u8) {
    if packet[0] >> 4 == 6 {
        packet[7] -= hops;
    } else if hops > 0 {
        change_v4(packet, 8, |word| word[0] -= hops);
    }
}

/// The ECN field of the inner header after decapsulation (RFC 6040 section 4.2, figure 4); none where the packet must be dropped.
pub(super) fn decapsulated_ecn(inner: u8, outer: u8) -> Option<u8> {
    const TABLE: [[Option<u8>; 4]; 4] = [
        // By the outer field: Not-ECT, ECT(1), ECT(0), CE.
        [Some(0), Some(0), Some(0), None],
        [Some(1), Some(1), Some(1), Some(3)],
        [Some(2), Some(1), Some(2), Some(3)],
        [Some(3), Some(3), Some(3), Some(3)],
    ];
    TABLE[usize::from(inner & 3)][usize::from(outer & 3)]
}

/// Writes the ECN field of an IP packet.
pub(super) fn set_ecn(packet: &mut [u8], ecn: u8) {
    if packet[0] >> 4 == 6 {
        packet[1] = packet[1] & !0x30 | ecn << 4;
    } else {
        change_v4(packet, 0, |word| word[1] = word[1] & !3 | ecn);
    }
}
