//! IPv6 (RFC 8200): the header and the walk over its extension headers.
//!
//! ```text
//! IPv6 | hop-by-hop ? | destination options, routing, fragment, AH ... ? | upper layer
//!      ^ extension_headers()                                             ^ upper_layer_offset()
//! ```
//!
//! [`Ipv6View::parse`] walks once, over at most [`MAX_EXTENSION_HEADERS`], and keeps what it found. The walk
//! ends at the first header that is no extension header, at ESP (what follows is encrypted), and at a
//! fragment header with an offset (what follows is the middle of a payload).
//!
//! Limits: no jumbograms (RFC 2675); their payload length of 0 is taken as it stands.

use core::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::PseudoHeader;
use crate::error::{Layer, Problem, WireError};
use crate::{Dscp, Ecn, IpProtocol};

pub use crate::ipv6_extension::{ExtensionHeader, ExtensionHeaders, Fragment, MAX_EXTENSION_HEADERS};

/// Octets of the header without extension headers.
pub const HEADER_LEN: usize = 40;

/// The header, as it stands in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ipv6Header {
    version_class_flow: U32,
    payload_length: U16,
    next_header: u8,
    hop_limit: u8,
    source: [u8; 16],
    destination: [u8; 16],
}

impl Ipv6Header {
    /// The header at the start of `packet`, and what follows it. No field is checked: this is for octets that
    /// [`Ipv6View::parse`] accepted before.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    #[inline]
    pub fn ref_from_prefix(packet: &[u8]) -> Result<(&Self, &[u8]), WireError> {
        Layer::Ipv6.header(packet)
    }

    /// As [`Ipv6Header::ref_from_prefix`], to be changed in place.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    #[inline]
    pub fn mut_from_prefix(packet: &mut [u8]) -> Result<(&mut Self, &mut [u8]), WireError> {
        Layer::Ipv6.header_mut(packet)
    }

    /// The version; 6 in every packet that was parsed.
    pub fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }

    /// Differentiated services code point.
    pub fn dscp(&self) -> Dscp {
        Dscp::from_traffic_class(self.traffic_class())
    }

    /// Explicit congestion notification.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_traffic_class(self.traffic_class())
    }

    /// The flow label, 20 bits; 0 where the source does not label.
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & 0x000f_ffff
    }

    /// Octets that follow this header, extension headers included.
    pub fn payload_len(&self) -> u16 {
        self.payload_length.get()
    }

    /// What follows this header: an extension header or the upper layer.
    pub const fn next_header(&self) -> IpProtocol {
        IpProtocol(self.next_header)
    }

    /// Hops that the packet may still travel.
    pub const fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// The host that sent the packet.
    pub fn source(&self) -> Ipv6Addr {
        self.source.into()
    }

    /// The host, or group of hosts, that the packet is for; behind a routing header, the next stop.
    pub fn destination(&self) -> Ipv6Addr {
        self.destination.into()
    }

    /// What transport checksums cover of this header, where no routing header stands between.
    pub fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::ipv6(self.source(), self.destination())
    }

    /// Lowers the hop limit by `hops`. `false`, and nothing changed, where fewer than `hops` + 1 are left:
    /// such a packet must not be forwarded (RFC 8200 §3).
    #[inline]
    pub fn lower_hop_limit(&mut self, hops: u8) -> bool {
        if self.hop_limit <= hops {
            return false;
        }
        self.hop_limit -= hops;
        true
    }

    /// Changes the source address; transport checksums are the caller's.
    pub fn set_source(&mut self, source: Ipv6Addr) {
        self.source = source.octets();
    }

    /// Changes the destination address; transport checksums are the caller's.
    pub fn set_destination(&mut self, destination: Ipv6Addr) {
        self.destination = destination.octets();
    }

    /// Changes the payload length, as an encapsulation does to a prebuilt header.
    pub fn set_payload_len(&mut self, payload_len: u16) {
        self.payload_length.set(payload_len);
    }

    /// Changes the ECN field, as a tunnel's end does (RFC 6040 §4).
    pub fn set_ecn(&mut self, ecn: Ecn) {
        let rest = self.version_class_flow.get() & !(3 << 20);
        self.version_class_flow.set(rest | (ecn as u32) << 20);
    }

    fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }
}

/// A checked view of a packet: header, extension headers, upper layer.
///
/// The fields of the header are reached through it by dereference.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6View<'a> {
    header: &'a Ipv6Header,
    payload: &'a [u8],
    extension_header_count: u8,
    fragment: Option<Fragment>,
    upper_layer: IpProtocol,
    upper_payload: &'a [u8],
}

impl<'a> Ipv6View<'a> {
    /// The packet at the start of `bytes`. What follows its payload length is padding of the frame, and left
    /// out.
    ///
    /// # Errors
    ///
    /// [`Problem::Version`], [`Problem::Truncated`], [`Problem::Length`] of an AH, and those of the header
    /// chain: [`Problem::TooManyExtensionHeaders`], [`Problem::HopByHopNotFirst`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let view = Self::parse_quoted(bytes)?;
        let needed = HEADER_LEN + usize::from(view.payload_len());
        if bytes.len() < needed {
            return Err(Layer::Ipv6.error(Problem::Truncated { needed, available: bytes.len() }));
        }
        Ok(view)
    }

    /// As [`Ipv6View::parse`], for a packet whose end may be missing: what an ICMPv6 error quotes (RFC 4443
    /// §2.4).
    ///
    /// # Errors
    ///
    /// As [`Ipv6View::parse`], but only the headers must be complete.
    #[inline]
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = Ipv6Header::ref_from_prefix(bytes)?;
        if header.version() != 6 {
            return Err(Layer::Ipv6.error(Problem::Version(header.version())));
        }
        let payload = rest.get(..usize::from(header.payload_len())).unwrap_or(rest);
        let mut view = Self {
            header,
            payload,
            extension_header_count: 0,
            fragment: None,
            upper_layer: header.next_header(),
            upper_payload: payload,
        };
        if view.upper_layer.is_ipv6_extension() {
            view.walk()?;
        }
        Ok(view)
    }

    fn walk(&mut self) -> Result<(), WireError> {
        let mut headers = self.extension_headers();
        for header in headers.by_ref() {
            self.extension_header_count += 1;
            self.fragment = self.fragment.or(header?.fragment());
        }
        self.upper_layer = headers.next_header();
        self.upper_payload = headers.rest();
        Ok(())
    }

    /// The extension headers in their order. Those of a parsed packet are all well-formed.
    pub const fn extension_headers(&self) -> ExtensionHeaders<'a> {
        ExtensionHeaders::new(self.header.next_header(), self.payload)
    }

    /// How many extension headers the packet has, at most [`MAX_EXTENSION_HEADERS`].
    pub const fn extension_header_count(&self) -> u8 {
        self.extension_header_count
    }

    /// What the first fragment header says, if there is one.
    pub const fn fragment(&self) -> Option<Fragment> {
        self.fragment
    }

    /// What follows the extension headers. In a fragment with an offset, what the whole packet has there: the
    /// octets are then the middle of it and begin with no header.
    pub const fn upper_layer(&self) -> IpProtocol {
        self.upper_layer
    }

    /// Where the upper layer begins, in octets from the start of the packet.
    pub const fn upper_layer_offset(&self) -> usize {
        HEADER_LEN + self.payload.len() - self.upper_payload.len()
    }

    /// The upper layer's octets. For a quoted packet, as many as there are.
    pub const fn upper_payload(&self) -> &'a [u8] {
        self.upper_payload
    }

    /// Everything behind the header, extension headers included.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The header, for as long as the packet itself lives.
    pub const fn header(&self) -> &'a Ipv6Header {
        self.header
    }
}

impl core::ops::Deref for Ipv6View<'_> {
    type Target = Ipv6Header;

    fn deref(&self) -> &Ipv6Header {
        self.header
    }
}

/// An IPv6 header without its extension headers, owned. Those are [`ExtensionHeader`]s, which emit
/// themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6 {
    /// The host that sends the packet.
    pub source: Ipv6Addr,
    /// The host, or group of hosts, that the packet is for.
    pub destination: Ipv6Addr,
    /// What follows this header.
    pub next_header: IpProtocol,
    /// Hops that the packet may travel.
    pub hop_limit: u8,
    /// Differentiated services code point.
    pub dscp: Dscp,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// The flow label, below 2²⁰.
    pub flow_label: u32,
    /// Octets that follow this header, extension headers included.
    pub payload_len: u16,
}

impl Ipv6 {
    /// The header of a packet of hop limit 64, without flow label and without payload yet.
    pub const fn new(source: Ipv6Addr, destination: Ipv6Addr, next_header: IpProtocol) -> Self {
        Self {
            source,
            destination,
            next_header,
            hop_limit: 64,
            dscp: Dscp::DEFAULT,
            ecn: Ecn::NotCapable,
            flow_label: 0,
            payload_len: 0,
        }
    }

    /// Octets that [`Ipv6::emit`] writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header at the start of `buffer`; returns [`HEADER_LEN`].
    ///
    /// # Errors
    ///
    /// [`Problem::BufferTooSmall`], and [`Problem::Field`] for a flow label of more than 20 bits.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        if self.flow_label > 0x000f_ffff {
            return Err(Layer::Ipv6.field("flow label", self.flow_label));
        }
        let traffic_class = u32::from(self.dscp.traffic_class(self.ecn));
        let header = Ipv6Header {
            version_class_flow: U32::new(6 << 28 | traffic_class << 20 | self.flow_label),
            payload_length: U16::new(self.payload_len),
            next_header: self.next_header.0,
            hop_limit: self.hop_limit,
            source: self.source.octets(),
            destination: self.destination.octets(),
        };
        Layer::Ipv6.write(buffer, &[header.as_bytes()])
    }
}

impl From<Ipv6View<'_>> for Ipv6 {
    fn from(view: Ipv6View<'_>) -> Self {
        Self {
            source: view.source(),
            destination: view.destination(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            dscp: view.dscp(),
            ecn: view.ecn(),
            flow_label: view.flow_label(),
            payload_len: view.payload_len(),
        }
    }
}

#[cfg(test)]
#[path = "ipv6_tests.rs"]
mod tests;
