//! What the tests of neighbours share: frames made and read octet by octet, independently of the crate under test.

#![allow(dead_code, reason = "each test program uses a part of this module")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_protocols::neighbor::{Action, Link, NeighborKey};
use sluice_wire::MacAddr;

/// The station number `number` of the test network.
pub(crate) fn station(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number])
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn key(link: Link, address: &str) -> NeighborKey {
    NeighborKey { link, address: ip(address) }
}

fn ethernet(source: MacAddr, destination: MacAddr, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&destination.octets()[..], &source.octets(), &ether_type.to_be_bytes(), payload].concat()
}

/// An ARP packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArpFrame {
    pub(crate) ethernet_source: MacAddr,
    pub(crate) ethernet_destination: MacAddr,
    pub(crate) operation: u8,
    pub(crate) sender: (MacAddr, Ipv4Addr),
    pub(crate) target: (MacAddr, Ipv4Addr),
}

impl ArpFrame {
    /// `sender` asks everybody for `target`.
    pub(crate) fn request(sender: MacAddr, address: &str, target: &str) -> Self {
        Self {
            ethernet_source: sender,
            ethernet_destination: MacAddr::BROADCAST,
            operation: 1,
            sender: (sender, address.parse().unwrap()),
            target: (MacAddr::ZERO, target.parse().unwrap()),
        }
    }

    /// `sender` tells `receiver` that `address` is its own.
    pub(crate) fn reply(sender: MacAddr, address: &str, receiver: MacAddr, target: &str) -> Self {
        Self {
            ethernet_source: sender,
            ethernet_destination: receiver,
            operation: 2,
            sender: (sender, address.parse().unwrap()),
            target: (receiver, target.parse().unwrap()),
        }
    }

    pub(crate) fn octets(&self) -> Vec<u8> {
        let packet = [
            &[0, 1, 8, 0, 6, 4, 0, self.operation][..],
            &self.sender.0.octets(),
            &self.sender.1.octets(),
            &self.target.0.octets(),
            &self.target.1.octets(),
            &[0; 18],
        ];
        ethernet(self.ethernet_source, self.ethernet_destination, 0x0806, &packet.concat())
    }
}

/// A neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiscoveryFrame {
    pub(crate) ethernet_source: MacAddr,
    pub(crate) ethernet_destination: MacAddr,
    pub(crate) hop_limit: u8,
    pub(crate) source: Ipv6Addr,
    pub(crate) destination: Ipv6Addr,
    pub(crate) kind: u8,
    pub(crate) code: u8,
    pub(crate) flags: u8,
    pub(crate) target: Ipv6Addr,
    pub(crate) option: Option<(u8, MacAddr)>,
    /// What is added to the checksum.
    pub(crate) damage: u16,
}

pub(crate) const SOLICITED: u8 = 0x40;
pub(crate) const OVERRIDE: u8 = 0x20;

impl DiscoveryFrame {
    /// `sender` asks the group of `target` for it.
    pub(crate) fn solicitation(sender: MacAddr, source: &str, target: &str) -> Self {
        let target: Ipv6Addr = target.parse().unwrap();
        let [.., a, b, c] = target.octets();
        let mut group = "ff02::1:ff00:0".parse::<Ipv6Addr>().unwrap().octets();
        group[13..].copy_from_slice(&[a, b, c]);
        Self {
            ethernet_source: sender,
            ethernet_destination: MacAddr([0x33, 0x33, 0xff, a, b, c]),
            hop_limit: 255,
            source: source.parse().unwrap(),
            destination: group.into(),
            kind: 135,
            code: 0,
            flags: 0,
            target,
            option: Some((1, sender)),
            damage: 0,
        }
    }

    /// `sender` tells `receiver` that `target` is its own.
    pub(crate) fn advertisement(
        sender: MacAddr,
        target: &str,
        receiver: MacAddr,
        destination: &str,
        flags: u8,
    ) -> Self {
        Self {
            ethernet_source: sender,
            ethernet_destination: receiver,
            hop_limit: 255,
            source: target.parse().unwrap(),
            destination: destination.parse().unwrap(),
            kind: 136,
            code: 0,
            flags,
            target: target.parse().unwrap(),
            option: Some((2, sender)),
            damage: 0,
        }
    }

    /// `sender` tells all nodes that `target` is its own.
    pub(crate) fn unsolicited(sender: MacAddr, target: &str, flags: u8) -> Self {
        Self::advertisement(sender, target, MacAddr([0x33, 0x33, 0, 0, 0, 1]), "ff02::1", flags)
    }

    pub(crate) fn octets(&self) -> Vec<u8> {
        let mut message = vec![self.kind, self.code, 0, 0, self.flags, 0, 0, 0];
        message.extend(self.target.octets());
        if let Some((kind, mac)) = self.option {
            message.extend([kind, 1]);
            message.extend(mac.octets());
        }
        let checksum = icmpv6_checksum(self.source, self.destination, &message).wrapping_add(self.damage);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        let mut packet = vec![0x60, 0, 0, 0, 0, message.len() as u8, 58, self.hop_limit];
        packet.extend(self.source.octets());
        packet.extend(self.destination.octets());
        packet.extend(message);
        ethernet(self.ethernet_source, self.ethernet_destination, 0x86dd, &packet)
    }
}

/// The checksum that `message`, whose own checksum is zero, shall have; 0 if it has one that is right.
pub(crate) fn icmpv6_checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let pseudo =
        [&source.octets()[..], &destination.octets(), &(message.len() as u32).to_be_bytes(), &[0, 0, 0, 58]];
    let octets = [&pseudo.concat()[..], message].concat();
    let words = octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// `frame` with a VLAN tag behind its addresses.
pub(crate) fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    let [high, low] = vlan.to_be_bytes();
    [&frame[..12], &[0x81, 0, high, low], &frame[12..]].concat()
}

/// A MAC address in short: the number of a test station, a group, or everybody.
fn short(mac: MacAddr) -> String {
    match mac {
        MacAddr::BROADCAST => "all".into(),
        MacAddr::ZERO => "-".into(),
        MacAddr([2, 0, 0, 0, 0, number]) => format!("#{number}"),
        other => other.to_string(),
    }
}

fn mac_at(octets: &[u8], at: usize) -> String {
    short(MacAddr(octets[at..at + 6].try_into().unwrap()))
}

fn v6_at(octets: &[u8], at: usize) -> Ipv6Addr {
    <[u8; 16]>::try_from(&octets[at..at + 16]).unwrap().into()
}

/// A frame in one line. Panics on frames that are no correct ARP or neighbour discovery.
pub(crate) fn describe(frame: &[u8]) -> String {
    assert!(frame.len() >= 60, "frame of {} octets", frame.len());
    let way = format!("{}>{}", mac_at(frame, 6), mac_at(frame, 0));
    match frame[12..14] {
        [0x08, 0x06] => format!("{way} {}", describe_arp(&frame[14..])),
        [0x86, 0xdd] => format!("{way} {}", describe_discovery(&frame[14..])),
        _ => panic!("{way}: neither ARP nor IPv6"),
    }
}

fn describe_arp(packet: &[u8]) -> String {
    assert_eq!(packet[..7], [0, 1, 8, 0, 6, 4, 0]);
    let address = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
    let operation = ["request", "reply"][usize::from(packet[7]) - 1];
    let (sender, target) = (mac_at(packet, 8), mac_at(packet, 18));
    format!("ARP {operation} {} at {sender}, {} at {target}", address(14), address(24))
}

fn describe_discovery(packet: &[u8]) -> String {
    let (source, destination) = (v6_at(packet, 8), v6_at(packet, 24));
    let length = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    let message = &packet[40..40 + length];
    assert_eq!((packet[0], packet[6], packet[7], message[1]), (0x60, 58, 255, 0));
    assert_eq!(icmpv6_checksum(source, destination, message), 0, "checksum");
    assert_eq!((message.len(), message[25]), (32, 1), "one option of 8 octets");
    let target = v6_at(message, 8);
    let mac = mac_at(message, 26);
    match (message[0], message[24]) {
        (135, 1) => format!("NS {source}>{destination} {target}? from {mac}"),
        (136, 2) => {
            let flags: String = [(0x80, 'R'), (0x40, 'S'), (0x20, 'O')]
                .iter()
                .filter(|(bit, _)| message[4] & bit != 0)
                .map(|f| f.1)
                .collect();
            format!("NA {source}>{destination} {flags} {target} at {mac}")
        }
        other => panic!("message type and option {other:?}"),
    }
}

/// An action in one line.
pub(crate) fn describe_action(action: &Action<u32>) -> String {
    match action {
        Action::Send { link, frame } => format!("send {} {}", link.port, describe(frame)),
        Action::Resolved { key, mac } => format!("resolved {} at {}", key.address, short(*mac)),
        Action::Lost { key } => format!("lost {}", key.address),
        Action::Release { packet, .. } => format!("release {packet}"),
        Action::Discard { packet, reason } => format!("discard {packet} {reason:?}"),
        Action::Conflict { key, mac } => format!("conflict {} with {}", key.address, short(*mac)),
    }
}

/// Numbers that look random and are the same in every run (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % end
    }

    /// True `per_mille` times in a thousand.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}
