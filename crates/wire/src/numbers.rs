//! Protocol numbers: what the next header is.
//!
//! Every value of these fields is legal on the wire, so the types have public fields and no error.

use core::fmt;

/// An Ethernet type (IEEE 802.3 §3.2.6). Values below 0x0600 are lengths of 802.3 frames, not types.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: Self = Self(0x0800);
    /// ARP (RFC 826).
    pub const ARP: Self = Self(0x0806);
    /// An Ethernet frame inside a tunnel (Transparent Ethernet Bridging; the protocol type of Geneve, RFC
    /// 8926 §3.4).
    pub const TRANSPARENT_ETHERNET: Self = Self(0x6558);
    /// A customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// IPv6 (RFC 2464).
    pub const IPV6: Self = Self(0x86dd);
    /// Slow protocols: LACP and its marker protocol (IEEE 802.3 annex 57A).
    pub const SLOW_PROTOCOLS: Self = Self(0x8809);
    /// A service VLAN tag, the outer one of QinQ (IEEE 802.1Q, formerly 802.1ad).
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// LLDP (IEEE 802.1AB).
    pub const LLDP: Self = Self(0x88cc);

    /// A VLAN tag follows.
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN)
    }

    /// The value is the length of an IEEE 802.3 frame with an LLC header, not a type.
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }
}

impl From<u16> for EtherType {
    fn from(value: u16) -> Self {
        Self(value)
    }
}

impl From<EtherType> for u16 {
    fn from(value: EtherType) -> Self {
        value.0
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::IPV4 => "IPv4",
            Self::ARP => "ARP",
            Self::TRANSPARENT_ETHERNET => "Ethernet",
            Self::VLAN => "802.1Q",
            Self::IPV6 => "IPv6",
            Self::SLOW_PROTOCOLS => "slow protocols",
            Self::SERVICE_VLAN => "802.1ad",
            Self::LLDP => "LLDP",
            Self(other) => return write!(f, "0x{other:04x}"),
        })
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtherType(0x{:04x})", self.0)
    }
}

/// An IP protocol number: the protocol field of IPv4 and the next header field of IPv6 (RFC 5237 registry).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// IPv6 hop-by-hop options (RFC 8200 §4.3).
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: Self = Self(1);
    /// IGMP (RFC 3376).
    pub const IGMP: Self = Self(2);
    /// IPv4 in IP (RFC 2003).
    pub const IPV4: Self = Self(4);
    /// TCP (RFC 9293).
    pub const TCP: Self = Self(6);
    /// UDP (RFC 768).
    pub const UDP: Self = Self(17);
    /// IPv6 in IP (RFC 2473).
    pub const IPV6: Self = Self(41);
    /// IPv6 routing header (RFC 8200 §4.4).
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header (RFC 8200 §4.5).
    pub const FRAGMENT: Self = Self(44);
    /// GRE (RFC 2784).
    pub const GRE: Self = Self(47);
    /// IPsec ESP (RFC 4303).
    pub const ESP: Self = Self(50);
    /// IPsec AH (RFC 4302).
    pub const AH: Self = Self(51);
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: Self = Self(58);
    /// Nothing follows (RFC 8200 §4.7).
    pub const NO_NEXT_HEADER: Self = Self(59);
    /// IPv6 destination options (RFC 8200 §4.6).
    pub const DESTINATION_OPTIONS: Self = Self(60);
    /// OSPF (RFC 2328, RFC 5340).
    pub const OSPF: Self = Self(89);
    /// VRRP (RFC 9568).
    pub const VRRP: Self = Self(112);
    /// SCTP (RFC 9260).
    pub const SCTP: Self = Self(132);

    /// An IPv6 extension header that the header walk steps over: hop-by-hop, routing, fragment, destination
    /// options or AH. ESP is not among them, because what follows it is encrypted.
    pub const fn is_ipv6_extension(self) -> bool {
        matches!(
            self,
            Self::HOP_BY_HOP | Self::ROUTING | Self::FRAGMENT | Self::DESTINATION_OPTIONS | Self::AH
        )
    }
}

impl From<u8> for IpProtocol {
    fn from(value: u8) -> Self {
        Self(value)
    }
}

impl From<IpProtocol> for u8 {
    fn from(value: IpProtocol) -> Self {
        value.0
    }
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::HOP_BY_HOP => "hop-by-hop",
            Self::ICMP => "ICMP",
            Self::IGMP => "IGMP",
            Self::IPV4 => "IPv4",
            Self::TCP => "TCP",
            Self::UDP => "UDP",
            Self::IPV6 => "IPv6",
            Self::ROUTING => "routing",
            Self::FRAGMENT => "fragment",
            Self::GRE => "GRE",
            Self::ESP => "ESP",
            Self::AH => "AH",
            Self::ICMPV6 => "ICMPv6",
            Self::NO_NEXT_HEADER => "no next header",
            Self::DESTINATION_OPTIONS => "destination options",
            Self::OSPF => "OSPF",
            Self::VRRP => "VRRP",
            Self::SCTP => "SCTP",
            Self(other) => return write!(f, "{other}"),
        })
    }
}

impl fmt::Debug for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IpProtocol({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        assert!(EtherType(0x8100).is_vlan() && EtherType(0x88a8).is_vlan() && !EtherType::IPV4.is_vlan());
        assert!(
            EtherType(0x05dc).is_length() && EtherType(0x05ff).is_length() && !EtherType(0x0600).is_length()
        );
        let walked: Vec<u8> = (0..=255).filter(|&number| IpProtocol(number).is_ipv6_extension()).collect();
        assert_eq!(walked, [0, 43, 44, 51, 60]);
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(EtherType::IPV6.to_string(), "IPv6");
        assert_eq!(EtherType(0x1234).to_string(), "0x1234");
        assert_eq!(IpProtocol::UDP.to_string(), "UDP");
        assert_eq!(IpProtocol(200).to_string(), "200");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_as_numbers() {
        assert_eq!(serde_json::to_string(&(EtherType::ARP, IpProtocol::TCP)).unwrap(), "[2054,6]");
        assert_eq!(serde_json::from_str::<IpProtocol>("17").unwrap(), IpProtocol::UDP);
    }
}
