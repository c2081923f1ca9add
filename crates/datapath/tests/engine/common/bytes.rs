//! Headers as bytes, written by hand: the tests must not share a builder with the engine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_wire::MacAddr;
use sluice_wire::checksum::{PseudoHeader, checksum};

pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
pub(crate) const VLAN: u16 = 0x8100;

/// An Ethernet frame without padding.
pub(crate) fn ethernet(destination: MacAddr, source: MacAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&destination.octets()[..], &source.octets(), &ethertype.to_be_bytes(), payload].concat()
}

/// The frame with a tag of this type behind its MAC addresses.
pub(crate) fn tagged(frame: &[u8], ethertype: u16, control: u16) -> Vec<u8> {
    [&frame[..12], &ethertype.to_be_bytes(), &control.to_be_bytes(), &frame[12..]].concat()
}

/// The frame with a tag for the VLAN; as it is for VLAN 0.
pub(crate) fn on_vlan(frame: Vec<u8>, vlan: u16) -> Vec<u8> {
    if vlan == 0 { frame } else { tagged(&frame, VLAN, vlan) }
}

/// What the header of an IP packet says besides its addresses and lengths.
#[derive(Clone, Debug)]
pub(crate) struct IpHeader {
    pub(crate) ttl: u8,
    pub(crate) class: u8,
    pub(crate) protocol: u8,
    /// IPv4: identification.
    pub(crate) identification: u16,
    /// IPv4: flags and fragment offset as they stand in the header.
    pub(crate) fragment: u16,
    /// IPv4: options, a multiple of four bytes.
    pub(crate) options: Vec<u8>,
    /// IPv6: flow label.
    pub(crate) label: u32,
}

impl IpHeader {
    pub(crate) fn new(protocol: u8) -> Self {
        Self { ttl: 64, class: 0, protocol, identification: 0, fragment: 0, options: Vec::new(), label: 0 }
    }
}

/// An IP packet of the family of its addresses.
pub(crate) fn ip(header: &IpHeader, source: IpAddr, destination: IpAddr, payload: &[u8]) -> Vec<u8> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4(header, source, destination, payload),
        (IpAddr::V6(source), IpAddr::V6(destination)) => ipv6(header, source, destination, payload),
        _ => panic!("addresses of two families"),
    }
}

fn ipv4(fields: &IpHeader, source: Ipv4Addr, destination: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let header_length = 20 + fields.options.len();
    let mut header = vec![0x40 | (header_length / 4) as u8, fields.class];
    header.extend(((header_length + payload.len()) as u16).to_be_bytes());
    header.extend(fields.identification.to_be_bytes());
    header.extend(fields.fragment.to_be_bytes());
    header.extend([fields.ttl, fields.protocol, 0, 0]);
    header.extend(source.octets());
    header.extend(destination.octets());
    header.extend(&fields.options);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header, payload.to_vec()].concat()
}

fn ipv6(fields: &IpHeader, source: Ipv6Addr, destination: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let first = 6 << 28 | u32::from(fields.class) << 20 | fields.label & 0xf_ffff;
    let mut packet = first.to_be_bytes().to_vec();
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([fields.protocol, fields.ttl]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(payload);
    packet
}

/// A UDP datagram without a checksum.
pub(crate) fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

/// The first 20 bytes of a TCP connection, and a payload.
pub(crate) fn tcp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let rest = [0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0];
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &rest, payload].concat()
}

/// An ICMP message of the family of the addresses, with its checksum.
pub(crate) fn icmp(
    source: IpAddr,
    destination: IpAddr,
    kind: u8,
    code: u8,
    rest: [u8; 4],
    payload: &[u8],
) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0][..], &rest, payload].concat();
    let sum = match (source, destination) {
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            PseudoHeader::ipv6(source, destination).icmpv6(&message)
        }
        _ => checksum(&message),
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// An ARP packet (RFC 826): 1 asks, 2 answers.
pub(crate) fn arp(operation: u16, sender: (MacAddr, Ipv4Addr), target: (MacAddr, Ipv4Addr)) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4];
    packet.extend(operation.to_be_bytes());
    for (mac, address) in [sender, target] {
        packet.extend(mac.octets());
        packet.extend(address.octets());
    }
    packet
}

/// The body of a neighbour discovery message behind its first four bytes: target and options.
pub(crate) fn neighbor_body(target: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    [&target.octets()[..], options].concat()
}

/// A Geneve header (RFC 8926 section 3.4) and what it carries.
pub(crate) fn geneve(vni: u32, flags: u8, protocol: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let [high, low] = protocol.to_be_bytes();
    let mut header = vec![(options.len() / 4) as u8, flags, high, low];
    header.extend((vni << 8).to_be_bytes());
    [&header, options, payload].concat()
}

/// A VXLAN header (RFC 7348 section 5) and what it carries.
pub(crate) fn vxlan(vni: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    [&[flags, 0, 0, 0][..], &(vni << 8).to_be_bytes(), payload].concat()
}
