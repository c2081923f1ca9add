//! ICMP for IPv6 (RFC 4443). Neighbour discovery, which is a part of it, is in [`crate::neighbor`].

use zerocopy::IntoBytes;

use crate::IpProtocol;
use crate::checksum::PseudoHeader;
use crate::error::{Layer, Problem, WireError};
use crate::icmp::{echo, echo_octets};

pub use crate::icmp::{HEADER_LEN, IcmpHeader};

/// Message types.
pub mod kind {
    /// Destination unreachable.
    pub const DESTINATION_UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Router solicitation (RFC 4861 §4.1).
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router advertisement (RFC 4861 §4.2).
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbour solicitation (RFC 4861 §4.3).
    pub const NEIGHBOR_SOLICITATION: u8 = 135;
    /// Neighbour advertisement (RFC 4861 §4.4).
    pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
}

/// Codes of destination unreachable (RFC 4443 §3.1).
pub mod unreachable {
    /// No route.
    pub const NO_ROUTE: u8 = 0;
    /// A firewall refuses.
    pub const ADMINISTRATIVELY_PROHIBITED: u8 = 1;
    /// The host does not answer.
    pub const ADDRESS: u8 = 3;
    /// Nobody listens on the port.
    pub const PORT: u8 = 4;
}

/// A checked view of a message: header and payload.
///
/// The fields of the header are reached through it by dereference.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv6View<'a> {
    header: &'a IcmpHeader,
    message: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Icmpv6View<'a> {
    /// The message in `bytes`, all of which belong to it.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, payload) = Layer::Icmpv6.header(bytes)?;
        Ok(Self { header, message: bytes, payload })
    }

    /// What follows the header: echo data, or for [`Icmpv6View::is_error`] the quoted packet, which
    /// [`crate::ipv6::Ipv6View::parse_quoted`] reads.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The message reports an error about the packet that it quotes; none is ever sent about it (RFC 4443
    /// §2.4 e.1).
    pub const fn is_error(&self) -> bool {
        self.header.kind() < 128
    }

    /// The message belongs to neighbour discovery, redirects included (RFC 4861 §4).
    pub const fn is_neighbor_discovery(&self) -> bool {
        matches!(self.header.kind(), 133..=137)
    }

    /// The checksum is right.
    ///
    /// # Errors
    ///
    /// [`Problem::Checksum`].
    pub fn verify_checksum(&self, pseudo: PseudoHeader) -> Result<(), WireError> {
        if pseudo.verify_icmpv6(self.message) { Ok(()) } else { Err(Layer::Icmpv6.error(Problem::Checksum)) }
    }
}

impl core::ops::Deref for Icmpv6View<'_> {
    type Target = IcmpHeader;

    fn deref(&self) -> &IcmpHeader {
        self.header
    }
}

/// An ICMPv6 message without its payload, owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Icmpv6 {
    /// The quoted packet could not be delivered.
    DestinationUnreachable {
        /// Why: one of [`mod@unreachable`].
        code: u8,
    },
    /// The quoted packet is too long for a link.
    PacketTooBig {
        /// The most octets that the link carries.
        mtu: u32,
    },
    /// The quoted packet ran out of hops (code 0), or not all of its fragments came (code 1).
    TimeExceeded {
        /// Which of both.
        code: u8,
    },
    /// The quoted packet's headers are wrong.
    ParameterProblem {
        /// 0 wrong field, 1 unknown next header, 2 unknown option.
        code: u8,
        /// The wrong octet.
        pointer: u32,
    },
    /// Asks for its payload to be sent back.
    EchoRequest {
        /// Tells the requests of several programs apart.
        identifier: u16,
        /// Tells the requests of one program apart.
        sequence: u16,
    },
    /// Answers an echo request.
    EchoReply {
        /// As in the request.
        identifier: u16,
        /// As in the request.
        sequence: u16,
    },
    /// Any other message.
    Other {
        /// The type.
        kind: u8,
        /// Its variant.
        code: u8,
        /// The last four octets of the header.
        rest: [u8; 4],
    },
}

impl Icmpv6 {
    /// Octets that [`Icmpv6::emit`] writes before the payload.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the message with `payload` and its checksum at the start of `buffer`; returns the octets
    /// written.
    ///
    /// # Errors
    ///
    /// [`Problem::BufferTooSmall`].
    pub fn emit(&self, payload: &[u8], pseudo: PseudoHeader, buffer: &mut [u8]) -> Result<usize, WireError> {
        let mut header = self.header();
        // No packet of 2³² octets exists, so the length saturates for none.
        let length = u32::try_from(HEADER_LEN + payload.len()).unwrap_or(u32::MAX);
        let sum = pseudo.sum(IpProtocol::ICMPV6, length).add_bytes(header.as_bytes()).add_bytes(payload);
        header.set_checksum(sum.checksum());
        Layer::Icmpv6.write(buffer, &[header.as_bytes(), payload])
    }

    fn header(&self) -> IcmpHeader {
        match *self {
            Self::DestinationUnreachable { code } => {
                IcmpHeader::new(kind::DESTINATION_UNREACHABLE, code, [0; 4])
            }
            Self::PacketTooBig { mtu } => IcmpHeader::new(kind::PACKET_TOO_BIG, 0, mtu.to_be_bytes()),
            Self::TimeExceeded { code } => IcmpHeader::new(kind::TIME_EXCEEDED, code, [0; 4]),
            Self::ParameterProblem { code, pointer } => {
                IcmpHeader::new(kind::PARAMETER_PROBLEM, code, pointer.to_be_bytes())
            }
            Self::EchoRequest { identifier, sequence } => {
                IcmpHeader::new(kind::ECHO_REQUEST, 0, echo_octets(identifier, sequence))
            }
            Self::EchoReply { identifier, sequence } => {
                IcmpHeader::new(kind::ECHO_REPLY, 0, echo_octets(identifier, sequence))
            }
            Self::Other { kind, code, rest } => IcmpHeader::new(kind, code, rest),
        }
    }
}

impl From<Icmpv6View<'_>> for Icmpv6 {
    fn from(view: Icmpv6View<'_>) -> Self {
        let (code, rest) = (view.code(), view.rest());
        let (identifier, sequence) = echo(rest);
        match (view.kind(), code) {
            (kind::DESTINATION_UNREACHABLE, _) => Self::DestinationUnreachable { code },
            // RFC 4443 §3.2: the code is ignored.
            (kind::PACKET_TOO_BIG, _) => Self::PacketTooBig { mtu: u32::from_be_bytes(rest) },
            (kind::TIME_EXCEEDED, _) => Self::TimeExceeded { code },
            (kind::PARAMETER_PROBLEM, _) => {
                Self::ParameterProblem { code, pointer: u32::from_be_bytes(rest) }
            }
            (kind::ECHO_REQUEST, 0) => Self::EchoRequest { identifier, sequence },
            (kind::ECHO_REPLY, 0) => Self::EchoReply { identifier, sequence },
            (kind, _) => Self::Other { kind, code, rest },
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary::octets;

    #[test]
    fn echo_by_hand() {
        // ::1 → ::1, 8 octets: words 0001 0001 0008 003a | 8000 0001 0002 add up to 8047, whose complement is
        // 7fb8.
        let bytes = [128, 0, 0x7f, 0xb8, 0, 1, 0, 2];
        let pseudo = PseudoHeader::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        let view = Icmpv6View::parse(&bytes).unwrap();
        assert_eq!(view.verify_checksum(pseudo), Ok(()));
        assert_eq!(Icmpv6::from(view), Icmpv6::EchoRequest { identifier: 1, sequence: 2 });
        let mut out = [0; 8];
        assert_eq!(Icmpv6::from(view).emit(&[], pseudo, &mut out), Ok(8));
        assert_eq!(out, bytes);
        let elsewhere = PseudoHeader::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        assert_eq!(view.verify_checksum(elsewhere), Err(Layer::Icmpv6.error(Problem::Checksum)));
    }

    #[test]
    fn classes() {
        let view = |kind: u8| -> (bool, bool) {
            let bytes = [kind, 0, 0, 0, 0, 0, 0, 0];
            let view = Icmpv6View::parse(&bytes).unwrap();
            (view.is_error(), view.is_neighbor_discovery())
        };
        assert_eq!(view(kind::PACKET_TOO_BIG), (true, false));
        assert_eq!(view(127), (true, false));
        assert_eq!(view(kind::ECHO_REQUEST), (false, false));
        assert_eq!(view(132), (false, false));
        assert_eq!(view(kind::ROUTER_SOLICITATION), (false, true));
        assert_eq!(view(137), (false, true));
        assert_eq!(view(138), (false, false));
    }

    #[test]
    fn refused_messages() {
        let error = Icmpv6View::parse(&[128, 0, 0, 0]).unwrap_err();
        assert_eq!(error, Layer::Icmpv6.error(Problem::Truncated { needed: 8, available: 4 }));
        let pseudo = PseudoHeader::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        assert!(Icmpv6::PacketTooBig { mtu: 1280 }.emit(&[0; 8], pseudo, &mut [0; 15]).is_err());
    }

    proptest! {
        #[test]
        fn any_message_round_trips(
            kind in prop_oneof![0u8..5, 128u8..130, any::<u8>()], code: u8, rest: [u8; 4], addresses: [[u8; 16]; 2],
            payload in octets(0..40),
        ) {
            let pseudo = PseudoHeader::ipv6(addresses[0].into(), addresses[1].into());
            let mut bytes = vec![0; 8 + payload.len()];
            Icmpv6::Other { kind, code, rest }.emit(&payload, pseudo, &mut bytes).unwrap();
            let view = Icmpv6View::parse(&bytes).unwrap();
            prop_assert_eq!(view.verify_checksum(pseudo), Ok(()));
            let message = Icmpv6::from(view);
            let mut again = vec![0; bytes.len()];
            message.emit(view.payload(), pseudo, &mut again).unwrap();
            let again_view = Icmpv6View::parse(&again).unwrap();
            prop_assert_eq!(again_view.verify_checksum(pseudo), Ok(()));
            prop_assert_eq!(Icmpv6::from(again_view), message);
            let drops_unused = matches!(
                message,
                Icmpv6::DestinationUnreachable { .. } | Icmpv6::TimeExceeded { .. } | Icmpv6::PacketTooBig { .. }
            );
            prop_assert!(drops_unused || again == bytes);
        }
    }
}
