//! The flow key: all of a packet that a decision may depend on.
//!
//! The logical pipeline decides from the key alone, so a decision is by construction the same for every packet with that key,
//! and caching it is exact. What may differ between packets of one flow (time to live, length, traffic class) is checked and
//! patched when the decision is replayed.
//!
//! ```text
//! word 0-3  IPv6 source (0, 1) and destination (2, 3); IPv4: word 0 = source | destination << 32, rest 0
//! word 4    ingress (low 24) | protocol << 24 | source port | destination port
//! word 5    destination MAC << 16 | flags
//! word 6    source MAC << 16 | selector
//! ```
//!
//! Addresses, MACs and ports stand in wire order, loaded little-endian. The MACs are 0 where only routed packets enter. The
//! selector is the EtherType of what is not IP, and the type of ICMPv6 messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_wire::{EtherType, IpProtocol, MacAddr};

use crate::snapshot::IngressId;

/// The packet is IPv6.
pub(crate) const IPV6: u8 = 1;
/// The packet is a fragment; its ports are 0 in the key, for the first fragment as well.
pub(crate) const FRAGMENT: u8 = 2;
/// The packet is not IP.
pub(crate) const NOT_IP: u8 = 4;
/// The packet has more than one IPv6 extension header; protocol and ports are 0 in the key.
pub(crate) const MANY_EXTENSIONS: u8 = 8;
/// The frame has a priority tag (VLAN 0) that is taken off.
pub(crate) const PRIORITY_TAG: u8 = 16;
/// The packet is BFD of a tunnel that ends here; the key is that of the outer packet, without its ports.
pub(crate) const TUNNEL_BFD: u8 = 32;

/// Greatest [`IngressId`] that a key holds.
pub(crate) const MAX_INGRESS: u32 = (1 << 24) - 1;

/// All of a packet that a decision may depend on; see the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowKey(pub(crate) [u64; 7]);

impl FlowKey {
    /// Where the packet entered the logical network.
    #[inline]
    pub fn ingress(&self) -> IngressId {
        IngressId(self.0[4] as u32 & MAX_INGRESS)
    }

    /// Flags of the packet: [`IPV6`], [`FRAGMENT`], [`NOT_IP`], [`MANY_EXTENSIONS`], [`TUNNEL_BFD`].
    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        self.0[5] as u8
    }

    /// Whether the packet is IP.
    pub fn is_ip(&self) -> bool {
        self.flags() & NOT_IP == 0
    }

    /// Whether the packet is IPv6.
    #[inline]
    pub fn is_ipv6(&self) -> bool {
        self.flags() & IPV6 != 0
    }

    /// EtherType of what the frame carries.
    pub(crate) fn ethertype(&self) -> EtherType {
        match (self.is_ip(), self.is_ipv6()) {
            (true, false) => EtherType::IPV4,
            (true, true) => EtherType::IPV6,
            (false, _) => EtherType(self.selector()),
        }
    }

    /// IP protocol; 0 where there is none or where it does not take part in the flow.
    pub fn protocol(&self) -> IpProtocol {
        IpProtocol((self.0[4] >> 24) as u8)
    }

    /// EtherType of what is not IP, type of an ICMPv6 message, otherwise 0.
    pub(crate) fn selector(&self) -> u16 {
        self.0[6] as u16
    }

    /// Destination MAC address; all 0 where only routed packets enter.
    pub fn destination_mac(&self) -> MacAddr {
        mac_from_word(self.0[5] >> 16)
    }

    /// Source MAC address; all 0 where only routed packets enter.
    pub fn source_mac(&self) -> MacAddr {
        mac_from_word(self.0[6] >> 16)
    }

    /// Source address; meaningless if the packet is not IP.
    pub fn source(&self) -> IpAddr {
        if self.is_ipv6() {
            v6_from_words(self.0[0], self.0[1]).into()
        } else {
            v4_from_word(self.0[0] as u32).into()
        }
    }

    /// Destination address; meaningless if the packet is not IP.
    pub fn destination(&self) -> IpAddr {
        if self.is_ipv6() {
            v6_from_words(self.0[2], self.0[3]).into()
        } else {
            v4_from_word((self.0[0] >> 32) as u32).into()
        }
    }

    /// Source and destination port; 0 where the protocol has none or they do not take part in the flow.
    pub fn ports(&self) -> (u16, u16) {
        (u16::from_be((self.0[4] >> 32) as u16), u16::from_be((self.0[4] >> 48) as u16))
    }

    /// Hash of the addresses, the protocol and the ports: what spreads flows over equal paths and becomes the entropy of the
    /// outer headers. It does not depend on MAC addresses or on where the packet entered.
    #[inline]
    pub(crate) fn flow_hash(&self, seed: u64) -> u64 {
        let [w0, w1, w2, w3, w4, w5, _] = self.0;
        let transport = w4 >> 24;
        if w5 as u8 & IPV6 == 0 {
            return mix(w0 ^ seed, transport ^ K1);
        }
        mix(mix(w0 ^ seed, w1 ^ K0) ^ mix(w2 ^ K2, w3 ^ K3), transport ^ K1)
    }

    /// Hash of the two addresses alone, in their order: the same for every flow from one end to the other.
    pub(crate) fn ends(&self) -> u64 {
        let [w0, w1, w2, w3, ..] = self.0;
        if self.is_ipv6() { mix(mix(w0 ^ K1, w1 ^ K0) ^ mix(w2 ^ K2, w3 ^ K3), K1) } else { mix(w0 ^ K0, K1) }
    }

    /// Hash of the source address: the same for every flow from one end.
    pub(crate) fn source_hash(&self) -> u64 {
        let [w0, w1, ..] = self.0;
        if self.is_ipv6() { mix(w0 ^ K1, w1 ^ K0) } else { number_hash(w0 & 0xffff_ffff) }
    }

    /// Which of `ways` equal ways the flow takes.
    pub(crate) fn way(&self, seed: u64, ways: usize) -> usize {
        way(self.flow_hash(seed), ways)
    }

    /// Hash of the whole key, from the hash of its flow.
    #[inline]
    pub(crate) fn table_hash(&self, flow_hash: u64) -> u64 {
        let [_, _, _, _, w4, w5, w6] = self.0;
        mix(flow_hash ^ w5, w6 ^ w4 << 40 ^ K2)
    }
}

/// Odd constants with no pattern: the first digits of the fractional parts of the square roots of 2, 3, 5 and 7.
const K0: u64 = 0x6a09_e667_f3bc_c909;
const K1: u64 = 0xbb67_ae85_84ca_a73b;
const K2: u64 = 0x3c6e_f372_fe94_f82b;
const K3: u64 = 0xa54f_f53a_5f1d_36f1;

/// Both halves of the 128-bit product, folded: the mixing step of the wyhash family.
#[inline(always)]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Which of `ways` equal ways what has this hash takes. One multiplication leaves a pattern in the hash of neighbouring addresses and ports that
/// shows where few ways are told apart; a second one evens it out.
pub(crate) fn way(hash: u64, ways: usize) -> usize {
    let even = mix(hash ^ K2, K3);
    (((even >> 32) * ways as u64) >> 32) as usize
}

/// Hash of a number.
pub(crate) fn number_hash(number: u64) -> u64 {
    mix(number ^ K0, K1)
}

/// The low 48 bits of a word hold a MAC address in wire order, loaded little-endian.
pub(crate) fn mac_from_word(word: u64) -> MacAddr {
    let [a, b, c, d, e, f, _, _] = word.to_le_bytes();
    MacAddr([a, b, c, d, e, f])
}

/// A MAC address as the low 48 bits of a word.
pub(crate) fn mac_to_word(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

fn v4_from_word(word: u32) -> Ipv4Addr {
    Ipv4Addr::from(word.to_le_bytes())
}

fn v6_from_words(low: u64, high: u64) -> Ipv6Addr {
    Ipv6Addr::from((u128::from(low) | u128::from(high) << 64).to_le_bytes())
}
