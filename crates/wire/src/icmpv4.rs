//! ICMP for IPv4 (RFC 792).
//!
//! Limits: the length that RFC 4884 puts into an unused octet of error messages is neither read nor written.

use core::net::Ipv4Addr;

use zerocopy::IntoBytes;

use crate::checksum;
use crate::error::{Layer, Problem, WireError};
use crate::icmp::{echo, echo_octets};

pub use crate::icmp::{HEADER_LEN, IcmpHeader};

/// Message types.
pub mod kind {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const DESTINATION_UNREACHABLE: u8 = 3;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// Codes of destination unreachable.
pub mod unreachable {
    /// No route to the network.
    pub const NETWORK: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// The host does not know the protocol.
    pub const PROTOCOL: u8 = 2;
    /// Nobody listens on the port.
    pub const PORT: u8 = 3;
    /// The packet is too long for a link and must not be fragmented (RFC 1191).
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// A firewall refuses (RFC 1812 §5.2.7.1).
    pub const ADMINISTRATIVELY_PROHIBITED: u8 = 13;
}

/// A checked view of a message: header and payload.
///
/// The fields of the header are reached through it by dereference.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv4View<'a> {
    header: &'a IcmpHeader,
    message: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Icmpv4View<'a> {
    /// The message in `bytes`, all of which belong to it.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, payload) = Layer::Icmpv4.header(bytes)?;
        Ok(Self { header, message: bytes, payload })
    }

    /// What follows the header: echo data, or for [`Icmpv4View::is_error`] the quoted packet, which
    /// [`crate::ipv4::Ipv4View::parse_quoted`] reads.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The message reports an error about the packet that it quotes; none is ever sent about it (RFC 1122
    /// §3.2.2).
    pub const fn is_error(&self) -> bool {
        matches!(
            self.header.kind(),
            kind::DESTINATION_UNREACHABLE
                | 4
                | kind::REDIRECT
                | kind::TIME_EXCEEDED
                | kind::PARAMETER_PROBLEM
        )
    }

    /// The checksum is right.
    ///
    /// # Errors
    ///
    /// [`Problem::Checksum`].
    pub fn verify_checksum(&self) -> Result<(), WireError> {
        if checksum::verify(self.message) { Ok(()) } else { Err(Layer::Icmpv4.error(Problem::Checksum)) }
    }
}

impl core::ops::Deref for Icmpv4View<'_> {
    type Target = IcmpHeader;

    fn deref(&self) -> &IcmpHeader {
        self.header
    }
}

/// An ICMP message without its payload, owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Icmpv4 {
    /// Answers an echo request.
    EchoReply {
        /// As in the request.
        identifier: u16,
        /// As in the request.
        sequence: u16,
    },
    /// Asks for its payload to be sent back.
    EchoRequest {
        /// Tells the requests of several programs apart.
        identifier: u16,
        /// Tells the requests of one program apart.
        sequence: u16,
    },
    /// The quoted packet could not be delivered.
    DestinationUnreachable {
        /// Why: one of [`mod@unreachable`].
        code: u8,
        /// With [`unreachable::FRAGMENTATION_NEEDED`], the most octets that the link carries (RFC 1191 §4);
        /// else 0.
        next_hop_mtu: u16,
    },
    /// A better next hop than the sender of this message exists.
    Redirect {
        /// For which packets: 0 network, 1 host.
        code: u8,
        /// The better next hop.
        gateway: Ipv4Addr,
    },
    /// The quoted packet ran out of hops (code 0), or not all of its fragments came (code 1).
    TimeExceeded {
        /// Which of both.
        code: u8,
    },
    /// The quoted packet's header is wrong.
    ParameterProblem {
        /// 0 where the pointer is valid.
        code: u8,
        /// The wrong octet.
        pointer: u8,
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

impl Icmpv4 {
    /// Octets that [`Icmpv4::emit`] writes before the payload.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the message with `payload` and its checksum at the start of `buffer`; returns the octets
    /// written.
    ///
    /// # Errors
    ///
    /// [`Problem::BufferTooSmall`].
    pub fn emit(&self, payload: &[u8], buffer: &mut [u8]) -> Result<usize, WireError> {
        let mut header = self.header();
        let sum = checksum::Sum::new().add_bytes(header.as_bytes()).add_bytes(payload);
        header.set_checksum(sum.checksum());
        Layer::Icmpv4.write(buffer, &[header.as_bytes(), payload])
    }

    fn header(&self) -> IcmpHeader {
        match *self {
            Self::EchoReply { identifier, sequence } => {
                IcmpHeader::new(kind::ECHO_REPLY, 0, echo_octets(identifier, sequence))
            }
            Self::EchoRequest { identifier, sequence } => {
                IcmpHeader::new(kind::ECHO_REQUEST, 0, echo_octets(identifier, sequence))
            }
            Self::DestinationUnreachable { code, next_hop_mtu } => {
                IcmpHeader::new(kind::DESTINATION_UNREACHABLE, code, u32::from(next_hop_mtu).to_be_bytes())
            }
            Self::Redirect { code, gateway } => IcmpHeader::new(kind::REDIRECT, code, gateway.octets()),
            Self::TimeExceeded { code } => IcmpHeader::new(kind::TIME_EXCEEDED, code, [0; 4]),
            Self::ParameterProblem { code, pointer } => {
                IcmpHeader::new(kind::PARAMETER_PROBLEM, code, [pointer, 0, 0, 0])
            }
            Self::Other { kind, code, rest } => IcmpHeader::new(kind, code, rest),
        }
    }
}

impl From<Icmpv4View<'_>> for Icmpv4 {
    fn from(view: Icmpv4View<'_>) -> Self {
        let (code, rest) = (view.code(), view.rest());
        let (identifier, sequence) = echo(rest);
        match (view.kind(), code) {
            (kind::ECHO_REPLY, 0) => Self::EchoReply { identifier, sequence },
            (kind::ECHO_REQUEST, 0) => Self::EchoRequest { identifier, sequence },
            (kind::DESTINATION_UNREACHABLE, _) => {
                Self::DestinationUnreachable { code, next_hop_mtu: sequence }
            }
            (kind::REDIRECT, _) => Self::Redirect { code, gateway: rest.into() },
            (kind::TIME_EXCEEDED, _) => Self::TimeExceeded { code },
            (kind::PARAMETER_PROBLEM, _) => {
                let [pointer, ..] = rest;
                Self::ParameterProblem { code, pointer }
            }
            (kind, _) => Self::Other { kind, code, rest },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary::octets;

    #[test]
    fn echo_by_hand() {
        // Words 0800 1234 0001 6162 add up to 7b97, whose complement is 8468.
        let bytes = [8, 0, 0x84, 0x68, 0x12, 0x34, 0x00, 0x01, b'a', b'b'];
        let view = Icmpv4View::parse(&bytes).unwrap();
        assert_eq!(view.verify_checksum(), Ok(()));
        assert_eq!((view.kind(), view.code(), view.identifier(), view.payload()), (8, 0, 0x1234, &b"ab"[..]));
        let message = Icmpv4::from(view);
        assert_eq!(message, Icmpv4::EchoRequest { identifier: 0x1234, sequence: 1 });
        let mut out = [0; 10];
        assert_eq!(message.emit(b"ab", &mut out), Ok(10));
        assert_eq!(out, bytes);
        assert_eq!(
            message.emit(b"ab", &mut [0; 9]),
            Err(Layer::Icmpv4.error(Problem::BufferTooSmall { needed: 10, available: 9 }))
        );
    }

    #[test]
    fn fragmentation_needed() {
        let message =
            Icmpv4::DestinationUnreachable { code: unreachable::FRAGMENTATION_NEEDED, next_hop_mtu: 1450 };
        let mut out = [0; 8];
        message.emit(&[], &mut out).unwrap();
        assert_eq!((&out[..2], &out[4..]), (&[3, 4][..], &[0, 0, 0x05, 0xaa][..]));
        let view = Icmpv4View::parse(&out).unwrap();
        assert!(view.is_error());
        assert_eq!(Icmpv4::from(view), message);
    }

    #[test]
    fn errors_are_told_from_queries() {
        let errors: Vec<u8> = (0..=255)
            .filter(|&kind| Icmpv4View::parse(&[kind, 0, 0, 0, 0, 0, 0, 0]).unwrap().is_error())
            .collect();
        assert_eq!(errors, [3, 4, 5, 11, 12]);
    }

    #[test]
    fn refused_messages() {
        let error = Icmpv4View::parse(&[8, 0, 0, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(error, Layer::Icmpv4.error(Problem::Truncated { needed: 8, available: 7 }));
    }

    proptest! {
        #[test]
        fn any_message_round_trips(
            kind in prop_oneof![0u8..13, any::<u8>()], code: u8, rest: [u8; 4], payload in octets(0..40),
        ) {
            let other = Icmpv4::Other { kind, code, rest };
            let mut bytes = vec![0; 8 + payload.len()];
            other.emit(&payload, &mut bytes).unwrap();
            let view = Icmpv4View::parse(&bytes).unwrap();
            prop_assert_eq!(view.verify_checksum(), Ok(()));
            prop_assert_eq!(view.payload(), &payload[..]);
            let message = Icmpv4::from(view);
            let mut again = vec![0; bytes.len()];
            message.emit(&payload, &mut again).unwrap();
            // Unused octets are not sent on; the meaning is the same.
            prop_assert_eq!(Icmpv4::from(Icmpv4View::parse(&again).unwrap()), message);
            prop_assert_eq!(&again[..2], &bytes[..2]);
            let drops_unused = matches!(
                message,
                Icmpv4::DestinationUnreachable { .. } | Icmpv4::TimeExceeded { .. } | Icmpv4::ParameterProblem { .. }
            );
            prop_assert!(drops_unused || again == bytes);
        }

        #[test]
        fn changed_identifiers_keep_the_checksum(identifier: u16, changed: u16, payload in octets(0..40)) {
            let mut bytes = vec![0; 8 + payload.len()];
            Icmpv4::EchoRequest { identifier, sequence: 7 }.emit(&payload, &mut bytes).unwrap();
            IcmpHeader::mut_from_prefix(Layer::Icmpv4, &mut bytes).unwrap().0.set_identifier(changed);
            let view = Icmpv4View::parse(&bytes).unwrap();
            prop_assert_eq!(view.verify_checksum(), Ok(()));
            prop_assert_eq!(Icmpv4::from(view), Icmpv4::EchoRequest { identifier: changed, sequence: 7 });
        }
    }
}
