//! TCP (RFC 9293): header and options.

use core::fmt;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{self, PseudoHeader};
use crate::error::{Layer, Problem, WireError};
use crate::options::{OptionBytes, RawOption, RawOptions};

/// Octets of a header without options.
pub const HEADER_LEN: usize = 20;

/// Octets that options can take at most.
pub const MAX_OPTIONS_LEN: usize = 40;

/// The control bits of a segment (RFC 9293 §3.1, RFC 3168 §6.1, RFC 9768 for AE).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(u16);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronize sequence numbers: the first segment of each direction.
    pub const SYN: Self = Self(0x002);
    /// Reset the connection.
    pub const RST: Self = Self(0x004);
    /// Push.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer is valid.
    pub const URG: Self = Self(0x020);
    /// ECN echo.
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN, formerly NS.
    pub const AE: Self = Self(0x100);

    const NAMES: [(Self, &'static str); 9] = [
        (Self::FIN, "FIN"),
        (Self::SYN, "SYN"),
        (Self::RST, "RST"),
        (Self::PSH, "PSH"),
        (Self::ACK, "ACK"),
        (Self::URG, "URG"),
        (Self::ECE, "ECE"),
        (Self::CWR, "CWR"),
        (Self::AE, "AE"),
    ];

    /// The lowest nine bits of `bits`.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x1ff)
    }

    /// The nine bits, FIN the lowest.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// All flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = Self::NAMES.iter().filter(|(flag, _)| self.contains(*flag));
        for (index, (_, name)) in set.enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            f.write_str(name)?;
        }
        if self.0 == 0 { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpFlags({self})")
    }
}

/// The fixed part of the header, as it stands in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TcpHeader {
    source_port: U16,
    destination_port: U16,
    sequence: U32,
    acknowledgment: U32,
    offset_and_flags: U16,
    window: U16,
    checksum: U16,
    urgent_pointer: U16,
}

impl TcpHeader {
    /// The fixed header at the start of `segment`, and what follows it. No field is checked.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    #[inline]
    pub fn ref_from_prefix(segment: &[u8]) -> Result<(&Self, &[u8]), WireError> {
        Layer::Tcp.header(segment)
    }

    /// As [`TcpHeader::ref_from_prefix`], to be changed in place.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    #[inline]
    pub fn mut_from_prefix(segment: &mut [u8]) -> Result<(&mut Self, &mut [u8]), WireError> {
        Layer::Tcp.header_mut(segment)
    }

    /// The sender's port.
    pub fn source_port(&self) -> u16 {
        self.source_port.get()
    }

    /// The receiver's port.
    pub fn destination_port(&self) -> u16 {
        self.destination_port.get()
    }

    /// The number of the first octet of data, or of the SYN.
    pub fn sequence(&self) -> u32 {
        self.sequence.get()
    }

    /// The number of the next octet that the sender expects; valid with [`TcpFlags::ACK`].
    pub fn acknowledgment(&self) -> u32 {
        self.acknowledgment.get()
    }

    /// Octets of the header with its options, 20 to 60.
    pub fn header_len(&self) -> usize {
        usize::from(self.offset_and_flags.get() >> 12) * 4
    }

    /// The control bits.
    pub fn flags(&self) -> TcpFlags {
        TcpFlags::from_bits(self.offset_and_flags.get())
    }

    /// The receive window, before scaling.
    pub fn window(&self) -> u16 {
        self.window.get()
    }

    /// The checksum.
    pub fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// Where urgent data ends, relative to the sequence number; valid with [`TcpFlags::URG`].
    pub fn urgent_pointer(&self) -> u16 {
        self.urgent_pointer.get()
    }

    /// Changes the sender's port and keeps the checksum right.
    #[inline]
    pub fn set_source_port(&mut self, port: u16) {
        self.checksum.set(checksum::update_u16(self.checksum.get(), self.source_port.get(), port));
        self.source_port.set(port);
    }

    /// Changes the receiver's port and keeps the checksum right.
    #[inline]
    pub fn set_destination_port(&mut self, port: u16) {
        self.checksum.set(checksum::update_u16(self.checksum.get(), self.destination_port.get(), port));
        self.destination_port.set(port);
    }

    /// Changes the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        self.checksum.set(checksum);
    }
}

/// A TCP option by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Padding.
    NoOperation,
    /// The largest segment that the sender can receive, in octets (RFC 9293 §3.7.1).
    MaximumSegmentSize(u16),
    /// The power of two that windows are scaled by (RFC 7323 §2).
    WindowScale(u8),
    /// Selective acknowledgment may be used (RFC 2018 §2).
    SackPermitted,
    /// Blocks received out of order: pairs of 32-bit edges (RFC 2018 §3).
    Sack(&'a [u8]),
    /// Timestamps (RFC 7323 §3).
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The latest value received.
        echo: u32,
    },
    /// Any other option, and one of those above with a length that is not its own.
    Other(RawOption<'a>),
}

impl<'a> From<RawOption<'a>> for TcpOption<'a> {
    fn from(option: RawOption<'a>) -> Self {
        match (option.kind, option.data) {
            (1, _) => Self::NoOperation,
            (2, &[a, b]) => Self::MaximumSegmentSize(u16::from_be_bytes([a, b])),
            (3, &[shift]) => Self::WindowScale(shift),
            (4, []) => Self::SackPermitted,
            (5, blocks) if blocks.len().is_multiple_of(8) => Self::Sack(blocks),
            (8, &[a, b, c, d, e, f, g, h]) => Self::Timestamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            },
            _ => Self::Other(option),
        }
    }
}

/// A checked view of a segment: header, options, payload.
///
/// The fields of the fixed header are reached through it by dereference.
#[derive(Clone, Copy, Debug)]
pub struct TcpView<'a> {
    header: &'a TcpHeader,
    segment: &'a [u8],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> TcpView<'a> {
    /// The segment in `bytes`, all of which belong to it.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`], and [`Problem::Length`] where the data offset is less than the fixed header.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, _) = TcpHeader::ref_from_prefix(bytes)?;
        let header_len = header.header_len();
        if header_len < HEADER_LEN {
            return Err(Layer::Tcp.length("data offset", header_len));
        }
        let (with_options, payload) = Layer::Tcp.split(bytes, header_len)?;
        let options = with_options.get(HEADER_LEN..).unwrap_or_default();
        Ok(Self { header, segment: bytes, options, payload })
    }

    /// The options, one by one and as they stand; [`TcpOption::from`] gives their meaning.
    pub const fn options(&self) -> RawOptions<'a> {
        RawOptions::new(Layer::Tcp, self.options)
    }

    /// The octets of the options, padding included.
    pub const fn option_bytes(&self) -> &'a [u8] {
        self.options
    }

    /// What the segment carries.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The fixed header, for as long as the packet itself lives.
    pub const fn header(&self) -> &'a TcpHeader {
        self.header
    }

    /// The checksum is right.
    ///
    /// # Errors
    ///
    /// [`Problem::Checksum`].
    pub fn verify_checksum(&self, pseudo: PseudoHeader) -> Result<(), WireError> {
        if pseudo.verify_tcp(self.segment) { Ok(()) } else { Err(Layer::Tcp.error(Problem::Checksum)) }
    }
}

impl core::ops::Deref for TcpView<'_> {
    type Target = TcpHeader;

    fn deref(&self) -> &TcpHeader {
        self.header
    }
}

/// A TCP header with its options, owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// The number of the first octet of data, or of the SYN.
    pub sequence: u32,
    /// The number of the next octet that the sender expects.
    pub acknowledgment: u32,
    /// The control bits.
    pub flags: TcpFlags,
    /// The receive window, before scaling.
    pub window: u16,
    /// The checksum as it shall be written: what [`PseudoHeader::tcp`] gives for the whole segment.
    pub checksum: u16,
    /// Where urgent data ends, relative to the sequence number.
    pub urgent_pointer: u16,
    /// The options.
    pub options: OptionBytes<MAX_OPTIONS_LEN>,
}

impl Tcp {
    /// A header with `flags`, a full window and everything else zero.
    pub const fn new(source_port: u16, destination_port: u16, flags: TcpFlags) -> Self {
        Self {
            source_port,
            destination_port,
            sequence: 0,
            acknowledgment: 0,
            flags,
            window: 0xffff,
            checksum: 0,
            urgent_pointer: 0,
            options: OptionBytes::EMPTY,
        }
    }

    /// Octets that [`Tcp::emit`] writes.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header with its options at the start of `buffer`; returns [`Tcp::header_len`]. Reserved
    /// bits are written as zero.
    ///
    /// # Errors
    ///
    /// [`Problem::BufferTooSmall`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let words = (self.header_len() / 4) as u16;
        let header = TcpHeader {
            source_port: U16::new(self.source_port),
            destination_port: U16::new(self.destination_port),
            sequence: U32::new(self.sequence),
            acknowledgment: U32::new(self.acknowledgment),
            offset_and_flags: U16::new(words << 12 | self.flags.bits()),
            window: U16::new(self.window),
            checksum: U16::new(self.checksum),
            urgent_pointer: U16::new(self.urgent_pointer),
        };
        Layer::Tcp.write(buffer, &[header.as_bytes(), &self.options])
    }
}

impl From<TcpView<'_>> for Tcp {
    fn from(view: TcpView<'_>) -> Self {
        Self {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            sequence: view.sequence(),
            acknowledgment: view.acknowledgment(),
            flags: view.flags(),
            window: view.window(),
            checksum: view.checksum(),
            urgent_pointer: view.urgent_pointer(),
            options: OptionBytes::of_checked_header(view.options),
        }
    }
}

#[cfg(test)]
#[path = "tcp_tests.rs"]
mod tests;
