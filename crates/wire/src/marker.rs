//! Marker PDUs and their responses (IEEE 802.1AX-2014 §6.5.3).
//!
//! A system that moves a conversation from one link of an aggregate to another sends a marker behind its last frame, and
//! waits for the response. Version, pad and reserved octets are not looked at, as the standard asks.

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::MacAddr;
use crate::error::{Layer, WireError};
use crate::slow_protocols::{self, PDU_LEN};

const VERSION: u8 = 1;

/// Octets of the TLV.
const INFORMATION_LEN: u8 = 16;

/// What a Marker PDU is: its TLV type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MarkerKind {
    /// Marker Information: asks for a response.
    Marker = 1,
    /// Marker Response Information.
    Response = 2,
}

/// The packet, as it stands behind the Ethernet header. Only [`MarkerPacket::parse`] makes one, so it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MarkerPacket {
    subtype: u8,
    version: u8,
    kind: u8,
    length: u8,
    requester_port: U16,
    requester_system: MacAddr,
    requester_transaction: U32,
    pad: [u8; 2],
    /// The terminator and reserved octets.
    rest: [u8; 92],
}

impl MarkerPacket {
    /// The Marker PDU at the start of `bytes`, which is the payload of an Ethernet frame.
    ///
    /// # Errors
    ///
    /// [`crate::Problem::Truncated`]; [`crate::Problem::Field`] for another subtype, or a TLV that is neither a marker
    /// nor a response; [`crate::Problem::Length`] where that TLV's length is another one.
    pub fn parse(bytes: &[u8]) -> Result<&Self, WireError> {
        let (packet, _) = Layer::Marker.header::<Self>(bytes)?;
        if packet.subtype != slow_protocols::MARKER {
            Err(Layer::Marker.field("subtype", packet.subtype.into()))
        } else if !matches!(packet.kind, 1 | 2) {
            Err(Layer::Marker.field("TLV type", packet.kind.into()))
        } else if packet.length != INFORMATION_LEN {
            Err(Layer::Marker.length("marker information length", packet.length.into()))
        } else {
            Ok(packet)
        }
    }

    /// A marker or a response.
    pub const fn kind(&self) -> MarkerKind {
        if self.kind == MarkerKind::Marker as u8 { MarkerKind::Marker } else { MarkerKind::Response }
    }

    /// The port that asks.
    pub fn requester_port(&self) -> u16 {
        self.requester_port.get()
    }

    /// The system that asks.
    pub const fn requester_system(&self) -> MacAddr {
        self.requester_system
    }

    /// The asking system's number of the question.
    pub fn requester_transaction(&self) -> u32 {
        self.requester_transaction.get()
    }
}

/// A Marker PDU, owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marker {
    /// A marker or a response.
    pub kind: MarkerKind,
    /// The port that asks.
    pub requester_port: u16,
    /// The system that asks.
    pub requester_system: MacAddr,
    /// The asking system's number of the question.
    pub requester_transaction: u32,
}

impl Marker {
    /// The response to this marker.
    #[must_use]
    pub const fn response(self) -> Self {
        Self { kind: MarkerKind::Response, ..self }
    }

    /// Octets that [`Marker::emit`] writes.
    pub const fn packet_len(&self) -> usize {
        PDU_LEN
    }

    /// Writes the packet at the start of `buffer`; returns [`PDU_LEN`].
    ///
    /// # Errors
    ///
    /// [`crate::Problem::BufferTooSmall`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let packet = MarkerPacket {
            subtype: slow_protocols::MARKER,
            version: VERSION,
            kind: self.kind as u8,
            length: INFORMATION_LEN,
            requester_port: self.requester_port.into(),
            requester_system: self.requester_system,
            requester_transaction: self.requester_transaction.into(),
            pad: [0; 2],
            rest: [0; 92],
        };
        Layer::Marker.write(buffer, &[packet.as_bytes()])
    }
}

impl From<&MarkerPacket> for Marker {
    fn from(packet: &MarkerPacket) -> Self {
        Self {
            kind: packet.kind(),
            requester_port: packet.requester_port(),
            requester_system: packet.requester_system(),
            requester_transaction: packet.requester_transaction(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Problem;
    use crate::arbitrary::{marker, octets};

    fn whole() -> [u8; PDU_LEN] {
        let mut bytes = [0; PDU_LEN];
        bytes[..16].copy_from_slice(&[2, 1, 1, 16, 0, 5, 2, 0, 0, 0, 0, 0x0a, 1, 2, 3, 4]);
        bytes
    }

    #[test]
    fn marker_and_response_by_hand() {
        let request = Marker {
            kind: MarkerKind::Marker,
            requester_port: 5,
            requester_system: MacAddr([2, 0, 0, 0, 0, 0x0a]),
            requester_transaction: 0x0102_0304,
        };
        assert_eq!(Marker::from(MarkerPacket::parse(&whole()).unwrap()), request);
        let mut out = [0xff; PDU_LEN];
        assert_eq!(request.response().emit(&mut out), Ok(request.packet_len()));
        assert_eq!(out[2], 2, "a response differs in its type alone");
        out[2] = 1;
        assert_eq!(out, whole());
    }

    #[test]
    fn refused_packets() {
        let refused = |at: usize, value: u8| {
            let mut bytes = whole();
            bytes[at] = value;
            MarkerPacket::parse(&bytes).unwrap_err()
        };
        assert_eq!(refused(0, 1), Layer::Marker.field("subtype", 1));
        assert_eq!(refused(2, 0), Layer::Marker.field("TLV type", 0));
        assert_eq!(refused(2, 3), Layer::Marker.field("TLV type", 3));
        assert_eq!(refused(3, 15), Layer::Marker.length("marker information length", 15));
        let short = MarkerPacket::parse(&whole()[..109]).unwrap_err();
        assert_eq!(short.problem, Problem::Truncated { needed: 110, available: 109 });
    }

    proptest! {
        #[test]
        fn emitted_packets_parse_as_they_were(packet in marker(), noise in octets(PDU_LEN)) {
            let mut bytes = [0; PDU_LEN];
            prop_assert_eq!(packet.emit(&mut bytes), Ok(PDU_LEN));
            prop_assert_eq!(Marker::from(MarkerPacket::parse(&bytes).unwrap()), packet);
            bytes[1] = noise[1];
            bytes[16..].copy_from_slice(&noise[16..]);
            prop_assert_eq!(Marker::from(MarkerPacket::parse(&bytes).unwrap()), packet);
        }

        #[test]
        fn any_bytes_are_refused_or_read(mut bytes in octets(0..130), plausible: bool) {
            if plausible && bytes.len() >= PDU_LEN {
                (bytes[0], bytes[2], bytes[3]) = (2, 1 + bytes[2] % 2, 16);
            }
            match MarkerPacket::parse(&bytes) {
                Ok(packet) => {
                    let mut out = [0; PDU_LEN];
                    Marker::from(packet).emit(&mut out).unwrap();
                    prop_assert_eq!(&out[2..16], &bytes[2..16]);
                }
                Err(_) => prop_assert!(!plausible || bytes.len() < PDU_LEN),
            }
        }
    }
}
