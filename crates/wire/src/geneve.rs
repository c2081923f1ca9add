//! Geneve (RFC 8926): the header between UDP and the inner packet, and its options.
//!
//! ```text
//!  0                   1                   2                   3
//! |Ver|  Opt Len  |O|C|    Rsvd.  |          Protocol Type        |
//! |        Virtual Network Identifier (VNI)       |    Reserved   |
//! |                    Variable-Length Options                    |
//! ```
//!
//! A VNI of 0 names no segment and reads as `None`; tunnel endpoints use it among themselves, for example for
//! BFD.

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Layer, Problem, WireError};
use crate::options::{OptionBytes, OptionBytesError};
use crate::{EtherType, Vni};

/// Octets of a header without options.
pub const HEADER_LEN: usize = 8;

/// Octets that options can take at most: 63 words (RFC 8926 §3.4).
pub const MAX_OPTIONS_LEN: usize = 252;

/// Octets that the data of one option can take at most: 31 words (RFC 8926 §3.5).
pub const MAX_OPTION_DATA_LEN: usize = 124;

const CONTROL: u8 = 0x80;
const CRITICAL: u8 = 0x40;
const OPTION_CRITICAL: u8 = 0x80;
const LENGTH_MASK: u8 = 0x1f;

/// The fixed part of the header, as it stands in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GeneveHeader {
    version_and_length: u8,
    flags: u8,
    protocol: U16,
    vni: [u8; 3],
    reserved: u8,
}

impl GeneveHeader {
    /// The fixed header at the start of `bytes`, and what follows it. No field is checked.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    #[inline]
    pub fn ref_from_prefix(bytes: &[u8]) -> Result<(&Self, &[u8]), WireError> {
        Layer::Geneve.header(bytes)
    }

    /// The version; 0 in every packet that was parsed.
    pub const fn version(&self) -> u8 {
        self.version_and_length >> 6
    }

    /// Octets of the options, 0 to 252.
    pub const fn options_len(&self) -> usize {
        (self.version_and_length & 0x3f) as usize * 4
    }

    /// The flag O: a control packet, for the tunnel endpoint itself and never forwarded to a workload.
    pub const fn is_control(&self) -> bool {
        self.flags & CONTROL != 0
    }

    /// The flag C: options are present that an endpoint must understand or drop the packet.
    pub const fn has_critical_options(&self) -> bool {
        self.flags & CRITICAL != 0
    }

    /// What the inner packet is; [`EtherType::TRANSPARENT_ETHERNET`] for a frame.
    pub fn protocol(&self) -> EtherType {
        EtherType(self.protocol.get())
    }

    /// The segment of the inner packet; `None` for 0, which names no segment.
    pub fn vni(&self) -> Option<Vni> {
        Vni::from_octets(self.vni).ok()
    }
}

/// What an option begins with, as it stands in the packet.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OptionHeader {
    class: U16,
    kind: u8,
    length: u8,
}

/// One option (RFC 8926 §3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneveOption<'a> {
    /// The namespace of the type, assigned by IANA.
    pub class: u16,
    /// The type, its highest bit included, which says that the option is critical.
    pub kind: u8,
    /// The data: whole 32-bit words, at most [`MAX_OPTION_DATA_LEN`] octets.
    pub data: &'a [u8],
}

impl GeneveOption<'_> {
    /// An endpoint that does not know the option must drop the packet.
    pub const fn is_critical(&self) -> bool {
        self.kind & OPTION_CRITICAL != 0
    }
}

/// The options of a packet in their order.
#[derive(Clone, Debug)]
pub struct GeneveOptions<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for GeneveOptions<'a> {
    type Item = GeneveOption<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (header, rest) = OptionHeader::ref_from_prefix(self.rest).ok()?;
        let (data, rest) = rest.split_at_checked(usize::from(header.length & LENGTH_MASK) * 4)?;
        self.rest = rest;
        Some(GeneveOption { class: header.class.get(), kind: header.kind, data })
    }
}

/// A checked view of a Geneve header: fixed part, options, and the packet behind it.
///
/// The fields of the fixed header are reached through it by dereference.
#[derive(Clone, Copy, Debug)]
pub struct GeneveView<'a> {
    header: &'a GeneveHeader,
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> GeneveView<'a> {
    /// The header at the start of `bytes`, which is the payload of UDP. Reserved bits are ignored, as the RFC
    /// asks.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`], [`Problem::Version`], and [`Problem::Option`] where an option ends behind the
    /// options' total length: such a packet must be dropped (RFC 8926 §3.5).
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = GeneveHeader::ref_from_prefix(bytes)?;
        if header.version() != 0 {
            return Err(Layer::Geneve.error(Problem::Version(header.version())));
        }
        let (options, payload) = Layer::Geneve.split(rest, header.options_len())?;
        let view = Self { header, options, payload };
        let mut all = view.options();
        while all.next().is_some() {}
        if all.rest.is_empty() {
            return Ok(view);
        }
        Err(Layer::Geneve.error(Problem::Option { offset: options.len() - all.rest.len() }))
    }

    /// The options, one by one.
    pub const fn options(&self) -> GeneveOptions<'a> {
        GeneveOptions { rest: self.options }
    }

    /// The octets of the options.
    pub const fn option_bytes(&self) -> &'a [u8] {
        self.options
    }

    /// Octets of the header with its options, 8 to 260.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// The inner packet.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

impl core::ops::Deref for GeneveView<'_> {
    type Target = GeneveHeader;

    fn deref(&self) -> &GeneveHeader {
        self.header
    }
}

/// A Geneve header with its options, owned. Reserved bits are written as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geneve {
    /// The segment; `None` is written as 0.
    pub vni: Option<Vni>,
    /// What the inner packet is.
    pub protocol: EtherType,
    /// The flag O: a control packet.
    pub control: bool,
    /// The flag C: critical options are present. [`Geneve::push_option`] sets it.
    pub critical: bool,
    /// The options.
    pub options: OptionBytes<MAX_OPTIONS_LEN>,
}

/// An option that a Geneve header has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeneveOptionError {
    /// The option's data is too long or not in whole words.
    #[error("{0} octets of option data: at most 124 are possible, in whole 32-bit words")]
    Data(usize),
    /// The options together are too long.
    #[error(transparent)]
    Options(#[from] OptionBytesError),
}

impl Geneve {
    /// The header of an Ethernet frame in `vni`, without options.
    pub const fn new(vni: Vni) -> Self {
        Self {
            vni: Some(vni),
            protocol: EtherType::TRANSPARENT_ETHERNET,
            control: false,
            critical: false,
            options: OptionBytes::EMPTY,
        }
    }

    /// Appends `option`, and sets the flag C where it is critical.
    ///
    /// # Errors
    ///
    /// [`GeneveOptionError`] where there is no room; the header is then as it was.
    pub fn push_option(&mut self, option: GeneveOption<'_>) -> Result<(), GeneveOptionError> {
        let len = option.data.len();
        if len > MAX_OPTION_DATA_LEN || !len.is_multiple_of(4) {
            return Err(GeneveOptionError::Data(len));
        }
        let header =
            OptionHeader { class: U16::new(option.class), kind: option.kind, length: (len / 4) as u8 };
        let mut options = self.options;
        options.extend(header.as_bytes())?;
        options.extend(option.data)?;
        self.options = options;
        self.critical |= option.is_critical();
        Ok(())
    }

    /// Octets that [`Geneve::emit`] writes.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header with its options at the start of `buffer`; returns [`Geneve::header_len`].
    ///
    /// # Errors
    ///
    /// [`Problem::BufferTooSmall`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let header = GeneveHeader {
            version_and_length: (self.options.len() / 4) as u8,
            flags: flag(self.control, CONTROL) | flag(self.critical, CRITICAL),
            protocol: U16::new(self.protocol.0),
            vni: self.vni.map_or([0; 3], Vni::octets),
            reserved: 0,
        };
        Layer::Geneve.write(buffer, &[header.as_bytes(), &self.options])
    }
}

impl From<GeneveView<'_>> for Geneve {
    fn from(view: GeneveView<'_>) -> Self {
        Self {
            vni: view.vni(),
            protocol: view.protocol(),
            control: view.is_control(),
            critical: view.has_critical_options(),
            options: OptionBytes::of_checked_header(view.options),
        }
    }
}

#[cfg(test)]
#[path = "geneve_tests.rs"]
mod tests;
