//! IPv4 (RFC 791): header, options, fragments, and the difference between a packet and the frame's padding.
//!
//! [`Ipv4View::parse`] does not look at the header checksum, because a NIC may have checked it already;
//! callers that must know ask [`Ipv4View::verify_checksum`].

use core::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{self, PseudoHeader, Sum};
use crate::error::{Layer, Problem, WireError};
use crate::options::{OptionBytes, RawOptions};
use crate::{Dscp, Ecn, IpProtocol};

/// Octets of a header without options.
pub const HEADER_LEN: usize = 20;

/// Octets that options can take at most.
pub const MAX_OPTIONS_LEN: usize = 40;

/// Option kinds (RFC 791 §3.1 and the IANA registry).
pub mod option_kind {
    /// Padding.
    pub const NO_OPERATION: u8 = 1;
    /// Record route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Internet timestamp.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source and record route.
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Strict source and record route.
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Router alert (RFC 2113).
    pub const ROUTER_ALERT: u8 = 148;
}

const RESERVED_FLAG: u16 = 0x8000;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// The fixed part of the header, as it stands in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ipv4Header {
    version_and_length: u8,
    dscp_and_ecn: u8,
    total_length: U16,
    identification: U16,
    flags_and_offset: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    source: [u8; 4],
    destination: [u8; 4],
}

impl Ipv4Header {
    /// The fixed header at the start of `packet`, and what follows it. No field is checked: this is for
    /// octets that [`Ipv4View::parse`] accepted before.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    #[inline]
    pub fn ref_from_prefix(packet: &[u8]) -> Result<(&Self, &[u8]), WireError> {
        Layer::Ipv4.header(packet)
    }

    /// As [`Ipv4Header::ref_from_prefix`], to be changed in place.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    #[inline]
    pub fn mut_from_prefix(packet: &mut [u8]) -> Result<(&mut Self, &mut [u8]), WireError> {
        Layer::Ipv4.header_mut(packet)
    }

    /// The version; 4 in every packet that was parsed.
    pub const fn version(&self) -> u8 {
        self.version_and_length >> 4
    }

    /// Octets of the header with its options, 20 to 60.
    pub const fn header_len(&self) -> usize {
        (self.version_and_length & 0x0f) as usize * 4
    }

    /// Differentiated services code point.
    pub const fn dscp(&self) -> Dscp {
        Dscp::from_traffic_class(self.dscp_and_ecn)
    }

    /// Explicit congestion notification.
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_traffic_class(self.dscp_and_ecn)
    }

    /// Octets of the packet, header included.
    pub fn total_len(&self) -> usize {
        usize::from(self.total_length.get())
    }

    /// What the fragments of one packet have in common.
    pub fn identification(&self) -> u16 {
        self.identification.get()
    }

    /// No router may fragment the packet.
    pub fn dont_fragment(&self) -> bool {
        self.flags_and_offset.get() & DONT_FRAGMENT != 0
    }

    /// Another fragment of the packet follows this one's payload.
    pub fn more_fragments(&self) -> bool {
        self.flags_and_offset.get() & MORE_FRAGMENTS != 0
    }

    /// Where the payload stands in the payload of the whole packet, in octets; a multiple of 8.
    pub fn fragment_offset(&self) -> u16 {
        (self.flags_and_offset.get() & OFFSET_MASK) << 3
    }

    /// The packet is a part of another one. Only a part at offset 0 begins with a transport header.
    pub fn is_fragment(&self) -> bool {
        self.flags_and_offset.get() & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Hops that the packet may still travel.
    pub const fn ttl(&self) -> u8 {
        self.ttl
    }

    /// What the payload is.
    pub const fn protocol(&self) -> IpProtocol {
        IpProtocol(self.protocol)
    }

    /// The header checksum.
    pub fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// The host that sent the packet.
    pub fn source(&self) -> Ipv4Addr {
        self.source.into()
    }

    /// The host, or group of hosts, that the packet is for.
    pub fn destination(&self) -> Ipv4Addr {
        self.destination.into()
    }

    /// What transport checksums cover of this header, where it has no source route option: with one, the
    /// destination that they cover is the route's end.
    pub fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::ipv4(self.source(), self.destination())
    }

    /// Lowers the time to live by `hops` and keeps the checksum right. `false`, and nothing changed, where
    /// fewer than `hops` + 1 are left: such a packet must not be forwarded (RFC 1812 §5.3.1).
    #[inline]
    pub fn lower_ttl(&mut self, hops: u8) -> bool {
        if self.ttl <= hops {
            return false;
        }
        self.ttl -= hops;
        self.checksum.set(checksum::lower_ttl(self.checksum.get(), hops));
        true
    }

    /// Changes the source address and keeps the header checksum right; transport checksums are the caller's.
    #[inline]
    pub fn set_source(&mut self, source: Ipv4Addr) {
        let (old, new) = (u32::from_be_bytes(self.source), u32::from(source));
        self.checksum.set(checksum::update_u32(self.checksum.get(), old, new));
        self.source = source.octets();
    }

    /// Changes the destination address and keeps the header checksum right; transport checksums are the
    /// caller's.
    #[inline]
    pub fn set_destination(&mut self, destination: Ipv4Addr) {
        let (old, new) = (u32::from_be_bytes(self.destination), u32::from(destination));
        self.checksum.set(checksum::update_u32(self.checksum.get(), old, new));
        self.destination = destination.octets();
    }

    /// Changes the total length and the identification, as an encapsulation does to a prebuilt header, and
    /// keeps the checksum right.
    #[inline]
    pub fn set_length_and_identification(&mut self, total_length: u16, identification: u16) {
        let delta = checksum::Delta::NONE
            .replace_u16(self.total_length.get(), total_length)
            .replace_u16(self.identification.get(), identification);
        self.checksum.set(delta.apply(self.checksum.get()));
        self.total_length.set(total_length);
        self.identification.set(identification);
    }

    /// Changes the ECN field and keeps the checksum right, as a tunnel's end does (RFC 6040 §4).
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        let old = u16::from_be_bytes([self.version_and_length, self.dscp_and_ecn]);
        self.dscp_and_ecn = self.dscp().traffic_class(ecn);
        let new = u16::from_be_bytes([self.version_and_length, self.dscp_and_ecn]);
        self.checksum.set(checksum::update_u16(self.checksum.get(), old, new));
    }
}

/// A checked view of a packet: header, options, payload.
///
/// The fields of the fixed header are reached through it by dereference.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'a> {
    header: &'a Ipv4Header,
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4View<'a> {
    /// The packet at the start of `bytes`. What follows its total length is padding of the frame, and left
    /// out.
    ///
    /// # Errors
    ///
    /// [`Problem::Version`], [`Problem::Length`] where the header or total length is less than the header,
    /// and [`Problem::Truncated`] where either is more than there is.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let view = Self::parse_quoted(bytes)?;
        if bytes.len() < view.total_len() {
            return Err(
                Layer::Ipv4.error(Problem::Truncated { needed: view.total_len(), available: bytes.len() })
            );
        }
        Ok(view)
    }

    /// As [`Ipv4View::parse`], for a packet whose end may be missing: what an ICMP error quotes (RFC 792).
    ///
    /// # Errors
    ///
    /// As [`Ipv4View::parse`], but only the header must be complete.
    #[inline]
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, _) = Ipv4Header::ref_from_prefix(bytes)?;
        if header.version() != 4 {
            return Err(Layer::Ipv4.error(Problem::Version(header.version())));
        }
        let (header_len, total_len) = (header.header_len(), header.total_len());
        if header_len < HEADER_LEN {
            return Err(Layer::Ipv4.length("header length", header_len));
        }
        if total_len < header_len {
            return Err(Layer::Ipv4.length("total length", total_len));
        }
        let packet = bytes.get(..total_len).unwrap_or(bytes);
        let (with_options, payload) = Layer::Ipv4.split(packet, header_len)?;
        Ok(Self { header, options: with_options.get(HEADER_LEN..).unwrap_or_default(), payload })
    }

    /// The header's checksum is right.
    ///
    /// # Errors
    ///
    /// [`Problem::Checksum`].
    #[inline]
    pub fn verify_checksum(&self) -> Result<(), WireError> {
        let sum = Sum::new().add_bytes(self.header.as_bytes()).add_bytes(self.options);
        if sum.is_valid() { Ok(()) } else { Err(Layer::Ipv4.error(Problem::Checksum)) }
    }

    /// The options, one by one.
    pub const fn options(&self) -> RawOptions<'a> {
        RawOptions::new(Layer::Ipv4, self.options)
    }

    /// The octets of the options, padding included.
    pub const fn option_bytes(&self) -> &'a [u8] {
        self.options
    }

    /// What the packet carries. For a quoted packet, as much of it as there is.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The fixed header, for as long as the packet itself lives.
    pub const fn header(&self) -> &'a Ipv4Header {
        self.header
    }
}

impl core::ops::Deref for Ipv4View<'_> {
    type Target = Ipv4Header;

    fn deref(&self) -> &Ipv4Header {
        self.header
    }
}

/// An IPv4 header with its options, owned.
///
/// `Ipv4::new` gives one that is neither a fragment nor has options; other fields are set by struct update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// The host that sends the packet.
    pub source: Ipv4Addr,
    /// The host, or group of hosts, that the packet is for.
    pub destination: Ipv4Addr,
    /// What the payload is.
    pub protocol: IpProtocol,
    /// Hops that the packet may travel.
    pub ttl: u8,
    /// Differentiated services code point.
    pub dscp: Dscp,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// What the fragments of one packet have in common.
    pub identification: u16,
    /// The reserved flag, zero but in tests of other systems (RFC 791 §3.1).
    pub reserved_flag: bool,
    /// No router may fragment the packet.
    pub dont_fragment: bool,
    /// Another fragment follows.
    pub more_fragments: bool,
    /// Where the payload stands in that of the whole packet: octets, a multiple of 8, at most 65,528.
    pub fragment_offset: u16,
    /// Octets that follow the header.
    pub payload_len: u16,
    /// The options.
    pub options: OptionBytes<MAX_OPTIONS_LEN>,
}

impl Ipv4 {
    /// The header of a whole packet of time to live 64, with Don't Fragment, no options and no payload yet.
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr, protocol: IpProtocol) -> Self {
        Self {
            source,
            destination,
            protocol,
            ttl: 64,
            dscp: Dscp::DEFAULT,
            ecn: Ecn::NotCapable,
            identification: 0,
            reserved_flag: false,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: 0,
            options: OptionBytes::EMPTY,
        }
    }

    /// Octets that [`Ipv4::emit`] writes.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header with its options and checksum at the start of `buffer`; returns
    /// [`Ipv4::header_len`].
    ///
    /// # Errors
    ///
    /// [`Problem::BufferTooSmall`], [`Problem::Length`] where header and payload exceed 65,535 octets, and
    /// [`Problem::Field`] for a fragment offset that is no multiple of 8.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let header_len = self.header_len();
        let total_len = header_len + usize::from(self.payload_len);
        let total_length =
            u16::try_from(total_len).map_err(|_| Layer::Ipv4.length("total length", total_len))?;
        if !self.fragment_offset.is_multiple_of(8) {
            return Err(Layer::Ipv4.field("fragment offset", u32::from(self.fragment_offset)));
        }
        let flag = |set: bool, bit: u16| if set { bit } else { 0 };
        let mut header = Ipv4Header {
            version_and_length: 0x40 | (header_len / 4) as u8,
            dscp_and_ecn: self.dscp.traffic_class(self.ecn),
            total_length: U16::new(total_length),
            identification: U16::new(self.identification),
            flags_and_offset: U16::new(
                flag(self.reserved_flag, RESERVED_FLAG)
                    | flag(self.dont_fragment, DONT_FRAGMENT)
                    | flag(self.more_fragments, MORE_FRAGMENTS)
                    | self.fragment_offset >> 3,
            ),
            ttl: self.ttl,
            protocol: self.protocol.0,
            checksum: U16::ZERO,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        header.checksum.set(Sum::new().add_bytes(header.as_bytes()).add_bytes(&self.options).checksum());
        Layer::Ipv4.write(buffer, &[header.as_bytes(), &self.options])
    }
}

impl From<Ipv4View<'_>> for Ipv4 {
    fn from(view: Ipv4View<'_>) -> Self {
        Self {
            source: view.source(),
            destination: view.destination(),
            protocol: view.protocol(),
            ttl: view.ttl(),
            dscp: view.dscp(),
            ecn: view.ecn(),
            identification: view.identification(),
            reserved_flag: view.header.flags_and_offset.get() & RESERVED_FLAG != 0,
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            payload_len: view.header.total_length.get() - view.header_len() as u16,
            options: OptionBytes::of_checked_header(view.options),
        }
    }
}

#[cfg(test)]
#[path = "ipv4_tests.rs"]
mod tests;
