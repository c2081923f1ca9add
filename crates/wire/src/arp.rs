//! ARP for IPv4 addresses on Ethernet (RFC 826). Other hardware and protocols are refused.

use core::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Layer, WireError};
use crate::{EtherType, MacAddr};

/// Octets of an ARP packet for IPv4 on Ethernet.
pub const PACKET_LEN: usize = 28;

/// The hardware type of Ethernet.
const ETHERNET: u16 = 1;

/// What an ARP packet asks or says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArpOperation(pub u16);

impl ArpOperation {
    /// Who has the target address?
    pub const REQUEST: Self = Self(1);
    /// The sender has the sender address.
    pub const REPLY: Self = Self(2);
}

/// The packet, as it stands in the frame. Only [`ArpPacket::parse`] makes one, so its types and lengths are
/// checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ArpPacket {
    hardware_type: U16,
    protocol_type: U16,
    hardware_len: u8,
    protocol_len: u8,
    operation: U16,
    sender_mac: MacAddr,
    sender_address: [u8; 4],
    target_mac: MacAddr,
    target_address: [u8; 4],
}

impl ArpPacket {
    /// The packet at the start of `bytes`; what follows is the frame's padding.
    ///
    /// # Errors
    ///
    /// [`crate::Problem::Truncated`], and [`crate::Problem::Field`] for other hardware than Ethernet and
    /// other protocols than IPv4.
    pub fn parse(bytes: &[u8]) -> Result<&Self, WireError> {
        let (packet, _) = Layer::Arp.header::<Self>(bytes)?;
        let fields = [
            ("hardware type", packet.hardware_type.get(), ETHERNET),
            ("protocol type", packet.protocol_type.get(), EtherType::IPV4.0),
            ("hardware address length", u16::from(packet.hardware_len), 6),
            ("protocol address length", u16::from(packet.protocol_len), 4),
        ];
        match fields.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(packet),
            Some((field, found, _)) => Err(Layer::Arp.field(field, u32::from(found))),
        }
    }

    /// Request, reply, or another operation.
    pub fn operation(&self) -> ArpOperation {
        ArpOperation(self.operation.get())
    }

    /// The sender's MAC address.
    pub const fn sender_mac(&self) -> MacAddr {
        self.sender_mac
    }

    /// The sender's IPv4 address; 0.0.0.0 in a probe (RFC 5227 §1.1).
    pub fn sender_address(&self) -> Ipv4Addr {
        self.sender_address.into()
    }

    /// The target's MAC address; of no meaning in a request.
    pub const fn target_mac(&self) -> MacAddr {
        self.target_mac
    }

    /// The target's IPv4 address.
    pub fn target_address(&self) -> Ipv4Addr {
        self.target_address.into()
    }
}

/// An ARP packet, owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arp {
    /// Request, reply, or another operation.
    pub operation: ArpOperation,
    /// The sender's MAC address.
    pub sender_mac: MacAddr,
    /// The sender's IPv4 address.
    pub sender_address: Ipv4Addr,
    /// The target's MAC address; [`MacAddr::ZERO`] in a request.
    pub target_mac: MacAddr,
    /// The target's IPv4 address.
    pub target_address: Ipv4Addr,
}

impl Arp {
    /// The request for the MAC address of `target`.
    pub const fn request(sender_mac: MacAddr, sender: Ipv4Addr, target: Ipv4Addr) -> Self {
        Self {
            operation: ArpOperation::REQUEST,
            sender_mac,
            sender_address: sender,
            target_mac: MacAddr::ZERO,
            target_address: target,
        }
    }

    /// The reply to this request: the address asked for is at `mac`.
    #[must_use]
    pub const fn reply(&self, mac: MacAddr) -> Self {
        Self {
            operation: ArpOperation::REPLY,
            sender_mac: mac,
            sender_address: self.target_address,
            target_mac: self.sender_mac,
            target_address: self.sender_address,
        }
    }

    /// A gratuitous announcement (RFC 5227 §2.3): `address` is at `mac`.
    pub const fn announcement(mac: MacAddr, address: Ipv4Addr) -> Self {
        Self::request(mac, address, address)
    }

    /// Octets that [`Arp::emit`] writes.
    pub const fn packet_len(&self) -> usize {
        PACKET_LEN
    }

    /// Writes the packet at the start of `buffer`; returns [`PACKET_LEN`].
    ///
    /// # Errors
    ///
    /// [`crate::Problem::BufferTooSmall`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let packet = ArpPacket {
            hardware_type: U16::new(ETHERNET),
            protocol_type: U16::new(EtherType::IPV4.0),
            hardware_len: 6,
            protocol_len: 4,
            operation: U16::new(self.operation.0),
            sender_mac: self.sender_mac,
            sender_address: self.sender_address.octets(),
            target_mac: self.target_mac,
            target_address: self.target_address.octets(),
        };
        Layer::Arp.write(buffer, &[packet.as_bytes()])
    }
}

impl From<&ArpPacket> for Arp {
    fn from(packet: &ArpPacket) -> Self {
        Self {
            operation: packet.operation(),
            sender_mac: packet.sender_mac(),
            sender_address: packet.sender_address(),
            target_mac: packet.target_mac(),
            target_address: packet.target_address(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Problem;

    /// 10.0.0.1 at 02:..:0a asks for 10.0.0.2.
    const REQUEST: [u8; 28] =
        [0, 1, 0x08, 0x00, 6, 4, 0, 1, 0x02, 0, 0, 0, 0, 0x0a, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];

    #[test]
    fn request_and_reply() {
        let sender = MacAddr([2, 0, 0, 0, 0, 0x0a]);
        let request = Arp::request(sender, Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let mut bytes = [0xff; 46];
        assert_eq!(request.emit(&mut bytes), Ok(28));
        assert_eq!(bytes[..28], REQUEST);
        assert_eq!(Arp::from(ArpPacket::parse(&bytes).unwrap()), request);

        let reply = request.reply(MacAddr([2, 0, 0, 0, 0, 0x0b]));
        assert_eq!(reply.operation, ArpOperation::REPLY);
        assert_eq!((reply.target_mac, reply.target_address), (sender, Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(reply.sender_address, Ipv4Addr::new(10, 0, 0, 2));
    }

    #[test]
    fn refused_packets() {
        assert_eq!(
            ArpPacket::parse(&REQUEST[..27]).unwrap_err().problem,
            Problem::Truncated { needed: 28, available: 27 }
        );
        for (at, field) in [
            (1, "hardware type"),
            (2, "protocol type"),
            (4, "hardware address length"),
            (5, "protocol address length"),
        ] {
            let mut bytes = REQUEST;
            bytes[at] ^= 0x40;
            let problem = ArpPacket::parse(&bytes).unwrap_err().problem;
            assert!(matches!(problem, Problem::Field { field: found, .. } if found == field), "{problem}");
        }
        assert!(Arp::from(ArpPacket::parse(&REQUEST).unwrap()).emit(&mut [0; 27]).is_err());
    }

    proptest! {
        #[test]
        fn accepted_packets_emit_the_same_bytes(mut bytes: [u8; 28], plausible: bool) {
            if plausible {
                bytes[..6].copy_from_slice(&REQUEST[..6]);
            }
            if let Ok(packet) = ArpPacket::parse(&bytes) {
                let mut out = [0; 28];
                Arp::from(packet).emit(&mut out).unwrap();
                prop_assert_eq!(out, bytes);
            } else {
                prop_assert!(!plausible);
            }
        }
    }
}
