//! What ICMP (RFC 792) and ICMPv6 (RFC 4443) have in common: the first eight octets.

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum;
use crate::error::{Layer, WireError};

/// Octets of the header. ICMPv6 fixes only four, but all of its messages have eight or more.
pub const HEADER_LEN: usize = 8;

/// The header, as it stands in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IcmpHeader {
    kind: u8,
    code: u8,
    checksum: U16,
    rest: [u8; 4],
}

impl IcmpHeader {
    pub(crate) const fn new(kind: u8, code: u8, rest: [u8; 4]) -> Self {
        Self { kind, code, checksum: U16::ZERO, rest }
    }

    /// The header at the start of `message`, to be changed in place, and what follows it. `layer` is what an
    /// error shall name: [`Layer::Icmpv4`] or [`Layer::Icmpv6`].
    ///
    /// # Errors
    ///
    /// [`crate::Problem::Truncated`].
    #[inline]
    pub fn mut_from_prefix(layer: Layer, message: &mut [u8]) -> Result<(&mut Self, &mut [u8]), WireError> {
        layer.header_mut(message)
    }

    /// The message's type.
    pub const fn kind(&self) -> u8 {
        self.kind
    }

    /// The type's variant.
    pub const fn code(&self) -> u8 {
        self.code
    }

    /// The checksum.
    pub fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// The four octets whose meaning depends on the type.
    pub const fn rest(&self) -> [u8; 4] {
        self.rest
    }

    /// The identifier of an echo request or reply; of no meaning in other messages.
    pub const fn identifier(&self) -> u16 {
        let [high, low, ..] = self.rest;
        u16::from_be_bytes([high, low])
    }

    /// Changes the identifier of an echo request or reply and keeps the checksum right.
    pub fn set_identifier(&mut self, identifier: u16) {
        self.checksum.set(checksum::update_u16(self.checksum.get(), self.identifier(), identifier));
        let [_, _, c, d] = self.rest;
        let [a, b] = identifier.to_be_bytes();
        self.rest = [a, b, c, d];
    }

    /// Changes the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        self.checksum.set(checksum);
    }
}

/// Identifier and sequence number of an echo message.
pub(crate) const fn echo(rest: [u8; 4]) -> (u16, u16) {
    let [a, b, c, d] = rest;
    (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

/// The four octets of an echo message.
pub(crate) const fn echo_octets(identifier: u16, sequence: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (identifier.to_be_bytes(), sequence.to_be_bytes());
    [a, b, c, d]
}
