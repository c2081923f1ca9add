//! IPv6 extension headers (RFC 8200 §4, RFC 4302 for AH), one by one.
//!
//! The walk of [`crate::ipv6::Ipv6View`] and its iterator are the same code, so they cannot disagree.

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::IpProtocol;
use crate::error::{Layer, Problem, WireError};

/// Extension headers that a packet may have. RFC 8504 §5.3 lets a host bound them; a sender needs at most
/// seven (RFC 8200 §4.1).
pub const MAX_EXTENSION_HEADERS: u8 = 8;

/// Octets that every extension header has at least.
const UNIT: usize = 8;

/// Octets of an AH without its integrity check value.
const AH_FIXED_LEN: usize = 12;

/// What all extension headers begin with.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Start {
    next_header: u8,
    length: u8,
}

/// The fragment header, as it stands in the packet.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FragmentHeader {
    next_header: u8,
    reserved: u8,
    offset_and_more: U16,
    identification: U32,
}

/// What a fragment header says (RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Where the payload stands in that of the whole packet: octets, a multiple of 8, at most 65,528.
    pub offset: u16,
    /// Another fragment follows this one's payload.
    pub more_fragments: bool,
    /// What the fragments of one packet have in common.
    pub identification: u32,
}

impl Fragment {
    /// The packet is whole although it has a fragment header (an atomic fragment, RFC 6946).
    pub const fn is_atomic(self) -> bool {
        self.offset == 0 && !self.more_fragments
    }

    /// Octets that [`Fragment::emit`] writes.
    pub const fn header_len(self) -> usize {
        UNIT
    }

    /// Writes a fragment header, followed by `next_header`, at the start of `buffer`; returns its 8 octets.
    ///
    /// # Errors
    ///
    /// [`Problem::BufferTooSmall`], and [`Problem::Field`] for an offset that is no multiple of 8.
    pub fn emit(self, next_header: IpProtocol, buffer: &mut [u8]) -> Result<usize, WireError> {
        if !self.offset.is_multiple_of(8) {
            return Err(Layer::Ipv6.field("fragment offset", u32::from(self.offset)));
        }
        let header = FragmentHeader {
            next_header: next_header.0,
            reserved: 0,
            offset_and_more: U16::new(self.offset | u16::from(self.more_fragments)),
            identification: U32::new(self.identification),
        };
        Layer::Ipv6.write(buffer, &[header.as_bytes()])
    }
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensionHeader<'a> {
    /// Which one it is: a protocol for which [`IpProtocol::is_ipv6_extension`].
    pub protocol: IpProtocol,
    /// What follows it.
    pub next_header: IpProtocol,
    /// What stands behind the next header and length octets: options, a routing type and its data, and so on.
    pub body: &'a [u8],
}

impl ExtensionHeader<'_> {
    /// What it says, if it is a fragment header.
    pub fn fragment(&self) -> Option<Fragment> {
        if self.protocol != IpProtocol::FRAGMENT {
            return None;
        }
        let (offset_and_more, rest) = self.body.split_first_chunk::<2>()?;
        let identification = rest.first_chunk::<4>()?;
        let offset_and_more = u16::from_be_bytes(*offset_and_more);
        Some(Fragment {
            offset: offset_and_more & !7,
            more_fragments: offset_and_more & 1 != 0,
            identification: u32::from_be_bytes(*identification),
        })
    }

    /// Octets that [`ExtensionHeader::emit`] writes.
    pub const fn header_len(&self) -> usize {
        2 + self.body.len()
    }

    /// Writes the header at the start of `buffer`; returns [`ExtensionHeader::header_len`].
    ///
    /// # Errors
    ///
    /// [`Problem::BufferTooSmall`], [`Problem::Length`] where the body has a length that the header cannot
    /// say, and [`Problem::Field`] where the protocol is no extension header.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let start = Start { next_header: self.next_header.0, length: self.length_octet()? };
        Layer::Ipv6.write(buffer, &[start.as_bytes(), self.body])
    }

    /// What the second octet says: 8-octet units behind the first, or 4-octet units less 2 for AH (RFC 4302
    /// §2.2).
    fn length_octet(&self) -> Result<u8, WireError> {
        let len = self.header_len();
        let (unit, minimum, subtract) = match self.protocol {
            IpProtocol::FRAGMENT if len == UNIT => return Ok(0),
            IpProtocol::AH => (4, AH_FIXED_LEN, 2),
            IpProtocol::HOP_BY_HOP | IpProtocol::ROUTING | IpProtocol::DESTINATION_OPTIONS => (UNIT, UNIT, 1),
            IpProtocol::FRAGMENT => return Err(Layer::Ipv6.length("fragment header", len)),
            other => return Err(Layer::Ipv6.field("extension header", u32::from(other.0))),
        };
        let length = u8::try_from((len / unit).wrapping_sub(subtract)).ok();
        length
            .filter(|_| len >= minimum && len.is_multiple_of(unit))
            .ok_or(Layer::Ipv6.length("extension header", len))
    }
}

/// The extension headers of a packet in their order. A malformed one is the last item.
#[derive(Clone, Debug)]
pub struct ExtensionHeaders<'a> {
    next_header: IpProtocol,
    rest: &'a [u8],
    seen: u8,
    ended: bool,
}

impl<'a> ExtensionHeaders<'a> {
    pub(crate) const fn new(next_header: IpProtocol, payload: &'a [u8]) -> Self {
        Self { next_header, rest: payload, seen: 0, ended: false }
    }

    /// What follows the headers that the iterator has passed.
    pub const fn next_header(&self) -> IpProtocol {
        self.next_header
    }

    /// The octets behind the headers that the iterator has passed.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn split(&self) -> Result<(ExtensionHeader<'a>, &'a [u8]), WireError> {
        if self.seen == MAX_EXTENSION_HEADERS {
            return Err(Layer::Ipv6.error(Problem::TooManyExtensionHeaders));
        }
        if self.next_header == IpProtocol::HOP_BY_HOP && self.seen > 0 {
            return Err(Layer::Ipv6.error(Problem::HopByHopNotFirst));
        }
        let (start, _) = Layer::Ipv6.header::<Start>(self.rest)?;
        let length = usize::from(start.length);
        let len = match self.next_header {
            IpProtocol::FRAGMENT => UNIT,
            IpProtocol::AH => (length + 2) * 4,
            _ => (length + 1) * UNIT,
        };
        if self.next_header == IpProtocol::AH && len < AH_FIXED_LEN {
            return Err(Layer::Ipv6.length("AH", len));
        }
        let (header, rest) = Layer::Ipv6.split(self.rest, len)?;
        let body = header.get(size_of::<Start>()..).unwrap_or_default();
        let next_header = IpProtocol(start.next_header);
        Ok((ExtensionHeader { protocol: self.next_header, next_header, body }, rest))
    }
}

impl<'a> Iterator for ExtensionHeaders<'a> {
    type Item = Result<ExtensionHeader<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended || !self.next_header.is_ipv6_extension() {
            return None;
        }
        let split = self.split();
        match &split {
            Ok((header, rest)) => {
                self.next_header = header.next_header;
                self.rest = rest;
                self.seen += 1;
                // Behind a fragment header with an offset stands the middle of a payload, not a header.
                self.ended = header.fragment().is_some_and(|fragment| fragment.offset > 0);
            }
            Err(_) => self.ended = true,
        }
        Some(split.map(|(header, _)| header))
    }
}
