//! ICMP of the gateways: echo replies (RFC 792, RFC 4443 section 4.2) and errors (RFC 1812 section 4.3, RFC 4443 section 2.4).

use std::net::{IpAddr, Ipv4Addr};

use sluice_wire::checksum::{self, PseudoHeader};
use sluice_wire::{EtherType, IpProtocol};

use crate::buffer::PacketBuffer;
use crate::drops::DropReason;
use crate::flow::{FRAGMENT, MANY_EXTENSIONS};
use crate::parse::{self, Parsed};

/// Time to live of what the node sends.
const TTL: u8 = 64;
/// An ICMP error is no longer than this, its IPv4 header included (RFC 1812 section 4.3.2.3).
const MAX_V4: usize = 576;
/// The same for IPv6 (RFC 4443 section 2.4).
const MAX_V6: usize = 1280;
/// Precedence of ICMP errors: internetwork control (RFC 1812 section 4.3.2.5).
const CONTROL: u8 = 0xc0;

/// An ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// No route, or no such neighbour; the code differs.
    NoRoute,
    /// The route leads to the segment, where the host is not.
    HostUnreachable,
    /// Nothing listens on the port here.
    PortUnreachable,
    /// This node does not speak the protocol.
    ProtocolUnreachable,
    /// The time to live ran out.
    TimeExceeded,
    /// Longer than this MTU, and not to be fragmented.
    TooBig(u16),
}

impl Error {
    /// What a router says that drops packets because their destination is not reached.
    pub(crate) fn unreachable(reason: DropReason) -> Self {
        match reason {
            DropReason::UnknownWorkload => Self::HostUnreachable,
            _ => Self::NoRoute,
        }
    }

    /// Its name in RFC 792, RFC 1122 and RFC 4443.
    pub(crate) fn name(self, v6: bool) -> String {
        let name = match (self, v6) {
            (Self::NoRoute, false) => "network unreachable",
            (Self::NoRoute, true) => "no route to destination",
            (Self::HostUnreachable, false) => "host unreachable",
            (Self::HostUnreachable, true) => "address unreachable",
            (Self::PortUnreachable, _) => "port unreachable",
            (Self::ProtocolUnreachable, false) => "protocol unreachable",
            (Self::ProtocolUnreachable, true) => "unrecognized next header type",
            (Self::TimeExceeded, false) => "time to live exceeded in transit",
            (Self::TimeExceeded, true) => "hop limit exceeded in transit",
            (Self::TooBig(mtu), false) => return format!("fragmentation needed, MTU {mtu}"),
            (Self::TooBig(mtu), true) => return format!("packet too big, MTU {mtu}"),
        };
        name.to_owned()
    }

    /// Type, code and the four bytes after the checksum (RFC 792, RFC 1191 section 4).
    fn v4(self) -> (u8, u8, [u8; 4]) {
        match self {
            Self::NoRoute => (3, 0, [0; 4]),
            Self::HostUnreachable => (3, 1, [0; 4]),
            Self::ProtocolUnreachable => (3, 2, [0; 4]),
            Self::PortUnreachable => (3, 3, [0; 4]),
            Self::TimeExceeded => (11, 0, [0; 4]),
            Self::TooBig(mtu) => {
                let [high, low] = mtu.to_be_bytes();
                (3, 4, [0, 0, high, low])
            }
        }
    }

    /// The same for ICMPv6 (RFC 4443 section 3).
    fn v6(self) -> (u8, u8, [u8; 4]) {
        match self {
            Self::NoRoute => (1, 0, [0; 4]),
            Self::HostUnreachable => (1, 3, [0; 4]),
            Self::PortUnreachable => (1, 4, [0; 4]),
            // Unrecognised next header; the pointer is that of the fixed header's field.
            Self::ProtocolUnreachable => (4, 1, 6u32.to_be_bytes()),
            Self::TimeExceeded => (3, 0, [0; 4]),
            Self::TooBig(mtu) => (2, 0, u32::from(mtu).to_be_bytes()),
        }
    }
}

/// Turns an echo request for this node into the reply: an Ethernet header whose MAC addresses are still to be set, and the packet. What is
/// not an echo request becomes the error that says so.
pub(crate) fn deliver<B: PacketBuffer>(buffer: &mut B, parsed: &Parsed) -> Result<(), Undelivered> {
    let key = &parsed.key;
    if key.flags() & (FRAGMENT | MANY_EXTENSIONS) != 0 {
        return Err(Undelivered::Drop(DropReason::NoService));
    }
    let ethertype = key.ethertype();
    let length = usize::from(parsed.network_length);
    let echo = {
        let network = parsed.network();
        let packet = buffer.data().get(network..network + length).unwrap_or(&[]);
        is_echo_request(packet)
    };
    match (echo, key.protocol()) {
        (Some(true), _) => {}
        (Some(false), _) => return Err(Undelivered::Drop(DropReason::BadChecksum)),
        (None, IpProtocol::UDP | IpProtocol::TCP) => return Err(Undelivered::Error(Error::PortUnreachable)),
        (None, IpProtocol::ICMP | IpProtocol::ICMPV6) => {
            return Err(Undelivered::Drop(DropReason::NoService));
        }
        (None, _) => return Err(Undelivered::Error(Error::ProtocolUnreachable)),
    }
    let Some(data) = buffer.replace_front(parsed.network(), 14) else {
        return Err(Undelivered::Drop(DropReason::NoBuffer));
    };
    let (ethernet, packet) = data.split_at_mut(14);
    ethernet.fill(0);
    ethernet[12..].copy_from_slice(&ethertype.0.to_be_bytes());
    if key.is_ipv6() {
        turn_v6(packet, length);
    } else {
        turn_v4(packet, length);
    }
    buffer.truncate(14 + length);
    Ok(())
}

/// Why a packet for this node gets no answer of its own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// An ICMP error tells the sender.
    Error(Error),
    /// Nobody is told.
    Drop(DropReason),
}

/// `Some(true)`: an echo request; `Some(false)`: one with a wrong checksum.
fn is_echo_request(packet: &[u8]) -> Option<bool> {
    let first = *packet.first()?;
    if first >> 4 == 4 {
        let message = packet.get(usize::from(first & 0xf) * 4..)?;
        let echo = packet.get(9) == Some(&IpProtocol::ICMP.0) && message.len() >= 8 && message[..2] == [8, 0];
        return echo.then(|| checksum::verify(message));
    }
    let message = packet.get(40..)?;
    let echo = packet.get(6) == Some(&IpProtocol::ICMPV6.0) && message.len() >= 8 && message[..2] == [128, 0];
    let (source, destination) =
        (packet.get(8..)?.first_chunk::<16>()?, packet.get(24..)?.first_chunk::<16>()?);
    echo.then(|| PseudoHeader::ipv6((*source).into(), (*destination).into()).verify_icmpv6(message))
}

/// Checked by the caller: a whole IPv4 packet with an echo request.
fn turn_v4(packet: &mut [u8], length: usize) {
    let header_length = usize::from(packet[0] & 0xf) * 4;
    let (source, destination) = packet[12..20].split_at_mut(4);
    source.swap_with_slice(destination);
    packet[8] = TTL;
    packet[10..12].fill(0);
    let sum = checksum::checksum(&packet[..header_length]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let message = &mut packet[header_length..length];
    message[0] = 0;
    // Summed anew: a reply may be all zeros, and the checksum of that cannot be had from the request's (RFC 1624 section 3).
    message[2..4].fill(0);
    let sum = checksum::checksum(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Checked by the caller: a whole IPv6 packet with an echo request.
fn turn_v6(packet: &mut [u8], length: usize) {
    let (source, destination) = packet[8..40].split_at_mut(16);
    source.swap_with_slice(destination);
    packet[7] = TTL;
    let message = &mut packet[40..length];
    // The pseudo header's sum does not change when its addresses change places.
    message[0] = 129;
    let sum = checksum::update_u16(u16::from_be_bytes([message[2], message[3]]), 0x8000, 0x8100);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Whether a router may answer the packet with this error: not if it is one itself, or sent to or from many; in IPv4 not if it is a later
/// fragment (RFC 1812 section 4.3.2.7), in IPv6 not if it cannot be told from an error (RFC 4443 section 2.4 e).
pub(crate) fn may_answer(error: Error, data: &[u8], parsed: &Parsed) -> bool {
    let key = &parsed.key;
    if !key.is_ip() {
        return false;
    }
    let network = parsed.network();
    let packet = data.get(network..network + usize::from(parsed.network_length)).unwrap_or(&[]);
    let (source, destination) = (key.source(), key.destination());
    let of_nobody = |address: IpAddr| {
        address.is_unspecified() || address.is_loopback() || address == IpAddr::V4(Ipv4Addr::BROADCAST)
    };
    if of_nobody(source) || of_nobody(destination) || source.is_multicast() {
        return false;
    }
    // The MTU of the way to a group is found like any other (RFC 8201 section 3).
    let of_group = key.is_ipv6() && matches!(error, Error::TooBig(_));
    if !of_group && (destination.is_multicast() || key.destination_mac().is_multicast()) {
        return false;
    }
    if key.is_ipv6() { !may_be_icmpv6_error(packet) } else { may_answer_v4(packet) }
}

fn may_answer_v4(packet: &[u8]) -> bool {
    let Some(header) = packet.first_chunk::<20>() else { return false };
    if (header[6] & 0x1f) | header[7] != 0 {
        return false;
    }
    let kind = packet.get(usize::from(header[0] & 0xf) * 4);
    // Only queries are answered with errors: echo, timestamp, router solicitation and their replies.
    header[9] != IpProtocol::ICMP.0 || kind.is_some_and(|kind| matches!(kind, 0 | 8 | 9 | 10 | 13..=18))
}

/// Whether an IPv6 packet is, or may be, an error or a redirect, which counts as one.
fn may_be_icmpv6_error(packet: &[u8]) -> bool {
    match parse::upper_layer(packet) {
        None => true,
        Some((IpProtocol::ICMPV6, message)) => message.first().is_none_or(|kind| *kind < 128 || *kind == 137),
        Some(_) => false,
    }
}

/// Turns a packet into the error about it, from `source`: an Ethernet header whose MAC addresses are still to be set, and the packet. False
/// if the buffer has no room.
pub(crate) fn error<B: PacketBuffer>(buffer: &mut B, parsed: &Parsed, source: IpAddr, error: Error) -> bool {
    let quoted = usize::from(parsed.network_length);
    let ip = if source.is_ipv4() { 20 } else { 40 };
    let limit = if source.is_ipv4() { MAX_V4 } else { MAX_V6 };
    let length = (ip + 8 + quoted).min(limit);
    let Some(data) = buffer.replace_front(parsed.network(), 14 + ip + 8) else { return false };
    let Some(data) = data.get_mut(..14 + length) else { return false };
    let (ethernet, packet) = data.split_at_mut(14);
    let ethertype = if source.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    ethernet.fill(0);
    ethernet[12..].copy_from_slice(&ethertype.0.to_be_bytes());
    let (header, message) = packet.split_at_mut(ip);
    let (kind, code, rest) = if source.is_ipv4() { error.v4() } else { error.v6() };
    message[..4].copy_from_slice(&[kind, code, 0, 0]);
    message[4..8].copy_from_slice(&rest);
    let sum = match (source, parsed.key.source()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let [high, low] = (length as u16).to_be_bytes();
            let protocol = IpProtocol::ICMP.0;
            header[..12].copy_from_slice(&[0x45, CONTROL, high, low, 0, 0, 0x40, 0, TTL, protocol, 0, 0]);
            header[12..16].copy_from_slice(&source.octets());
            header[16..].copy_from_slice(&destination.octets());
            let sum = checksum::checksum(header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            checksum::checksum(message)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let [high, low] = ((length - 40) as u16).to_be_bytes();
            let class = [0x60 | CONTROL >> 4, CONTROL << 4];
            header[..8].copy_from_slice(&[class[0], class[1], 0, 0, high, low, IpProtocol::ICMPV6.0, TTL]);
            header[8..24].copy_from_slice(&source.octets());
            header[24..].copy_from_slice(&destination.octets());
            PseudoHeader::ipv6(source, destination).icmpv6(message)
        }
        // The source was chosen by the packet's family.
        _ => return false,
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    buffer.truncate(14 + length);
    true
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::flow::{FlowKey, IPV6};

    fn udp_packet(source: Ipv6Addr, destination: Ipv6Addr, mac: [u8; 6]) -> (Vec<u8>, Parsed) {
        let mut packet = vec![0x60, 0, 0, 0, 0, 8, IpProtocol::UDP.0, 64];
        packet.extend(source.octets());
        packet.extend(destination.octets());
        packet.extend([0; 8]);
        let word = |at: usize| packet[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let [a, b, c, d, e, f] = mac;
        let flags = u64::from_le_bytes([IPV6, 0, a, b, c, d, e, f]);
        let key = FlowKey([word(8), word(16), word(24), word(32), 0, flags, 0]);
        let parsed = Parsed { key, network_length: packet.len() as u16, ..Parsed::default() };
        (packet, parsed)
    }

    /// RFC 4443 section 2.4 (e.3) to (e.6): only what is too big for the way to a group is told, and only to one sender.
    #[test]
    fn packets_to_a_group_are_answered_if_they_are_too_big() {
        let sender = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        let group = Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 1);
        let (station, group_mac) = ([2, 0, 0, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]);
        let answered = |error, source, destination, mac| {
            let (packet, parsed) = udp_packet(source, destination, mac);
            may_answer(error, &packet, &parsed)
        };
        for (destination, mac) in [(group, group_mac), (group, station), (sender, group_mac)] {
            assert!(answered(Error::TooBig(1400), sender, destination, mac));
            assert!(!answered(Error::TimeExceeded, sender, destination, mac));
            assert!(!answered(Error::TooBig(1400), Ipv6Addr::UNSPECIFIED, destination, mac));
            assert!(!answered(Error::TooBig(1400), group, destination, mac));
        }
        assert!(answered(Error::TimeExceeded, sender, sender, station));
    }
}
