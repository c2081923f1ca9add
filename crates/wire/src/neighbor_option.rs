//! The options of neighbour discovery (RFC 4861 §4.6).

use core::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::MacAddr;
use crate::error::{Layer, Problem, WireError};

const LAYER: Layer = Layer::NeighborDiscovery;

/// Octets of one unit of an option's length.
const UNIT: usize = 8;

const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
const PREFIX_INFORMATION: u8 = 3;
const MTU: u8 = 5;

const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;

/// The data of a prefix information option, as it stands in the packet.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PrefixData {
    prefix_len: u8,
    flags: u8,
    valid_lifetime: U32,
    preferred_lifetime: U32,
    reserved: U32,
    prefix: [u8; 16],
}

/// The data of an MTU option, as it stands in the packet.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct MtuData {
    reserved: U16,
    mtu: U32,
}

/// A prefix of the link (RFC 4861 §4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefixInformation {
    /// The prefix; bits behind its length are zero.
    pub prefix: Ipv6Addr,
    /// Bits of the prefix that are valid, 0 to 128.
    pub prefix_len: u8,
    /// Addresses of the prefix are on this link.
    pub on_link: bool,
    /// Hosts may make their own addresses of the prefix (RFC 4862).
    pub autonomous: bool,
    /// How long the prefix is on the link, in seconds; all ones for ever.
    pub valid_lifetime: u32,
    /// How long addresses of the prefix are preferred, in seconds; all ones for ever.
    pub preferred_lifetime: u32,
}

/// An option of a neighbour discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighborOption<'a> {
    /// The link-layer address of the sender.
    SourceLinkLayer(MacAddr),
    /// The link-layer address of the target.
    TargetLinkLayer(MacAddr),
    /// A prefix of the link.
    PrefixInformation(PrefixInformation),
    /// The most octets that a packet on the link may have.
    Mtu(u32),
    /// Any other option, and one of those above with a length that is not its own.
    Other {
        /// The option's type.
        kind: u8,
        /// What follows type and length: 6 octets, or 8, 16, ... more.
        data: &'a [u8],
    },
}

impl<'a> NeighborOption<'a> {
    /// Octets that [`NeighborOption::emit`] writes.
    pub const fn option_len(&self) -> usize {
        2 + match self {
            Self::SourceLinkLayer(_) | Self::TargetLinkLayer(_) => size_of::<MacAddr>(),
            Self::PrefixInformation(_) => size_of::<PrefixData>(),
            Self::Mtu(_) => size_of::<MtuData>(),
            Self::Other { data, .. } => data.len(),
        }
    }

    /// Writes the option at the start of `buffer`; returns [`NeighborOption::option_len`].
    ///
    /// # Errors
    ///
    /// [`Problem::BufferTooSmall`], and [`Problem::Length`] where the option is not a multiple of 8 octets or
    /// too long.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let error = LAYER.length("option", self.option_len());
        if !self.option_len().is_multiple_of(UNIT) {
            return Err(error);
        }
        let units = u8::try_from(self.option_len() / UNIT).map_err(|_| error)?;
        let mut write = |kind: u8, data: &[u8]| LAYER.write(buffer, &[&[kind, units], data]);
        match self {
            Self::SourceLinkLayer(mac) => write(SOURCE_LINK_LAYER, mac.as_bytes()),
            Self::TargetLinkLayer(mac) => write(TARGET_LINK_LAYER, mac.as_bytes()),
            Self::PrefixInformation(prefix) => write(PREFIX_INFORMATION, PrefixData::from(prefix).as_bytes()),
            Self::Mtu(mtu) => write(MTU, MtuData { reserved: U16::ZERO, mtu: U32::new(*mtu) }.as_bytes()),
            Self::Other { kind, data } => write(*kind, data),
        }
    }

    fn read(kind: u8, data: &'a [u8]) -> Self {
        let known = match kind {
            SOURCE_LINK_LAYER => MacAddr::read_from_bytes(data).ok().map(Self::SourceLinkLayer),
            TARGET_LINK_LAYER => MacAddr::read_from_bytes(data).ok().map(Self::TargetLinkLayer),
            PREFIX_INFORMATION => {
                PrefixData::ref_from_bytes(data).ok().map(|data| Self::PrefixInformation(data.into()))
            }
            MTU => MtuData::ref_from_bytes(data).ok().map(|data| Self::Mtu(data.mtu.get())),
            _ => None,
        };
        known.unwrap_or(Self::Other { kind, data })
    }
}

impl From<&PrefixInformation> for PrefixData {
    fn from(prefix: &PrefixInformation) -> Self {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        Self {
            prefix_len: prefix.prefix_len,
            flags: flag(prefix.on_link, ON_LINK) | flag(prefix.autonomous, AUTONOMOUS),
            valid_lifetime: U32::new(prefix.valid_lifetime),
            preferred_lifetime: U32::new(prefix.preferred_lifetime),
            reserved: U32::ZERO,
            prefix: prefix.prefix.octets(),
        }
    }
}

impl From<&PrefixData> for PrefixInformation {
    fn from(data: &PrefixData) -> Self {
        Self {
            prefix: data.prefix.into(),
            prefix_len: data.prefix_len,
            on_link: data.flags & ON_LINK != 0,
            autonomous: data.flags & AUTONOMOUS != 0,
            valid_lifetime: data.valid_lifetime.get(),
            preferred_lifetime: data.preferred_lifetime.get(),
        }
    }
}

/// The options of a message in their order.
#[derive(Clone, Debug)]
pub struct NeighborOptions<'a> {
    rest: &'a [u8],
}

impl<'a> NeighborOptions<'a> {
    /// `options` were accepted by [`NeighborOptions::check`].
    pub(crate) const fn new(options: &'a [u8]) -> Self {
        Self { rest: options }
    }

    /// Every option has a length and ends within `options` (RFC 4861 §6.1, §7.1).
    pub(crate) fn check(options: &[u8]) -> Result<(), WireError> {
        let mut all = NeighborOptions::new(options);
        while all.next().is_some() {}
        if all.rest.is_empty() {
            return Ok(());
        }
        Err(LAYER.error(Problem::Option { offset: options.len() - all.rest.len() }))
    }
}

impl<'a> Iterator for NeighborOptions<'a> {
    type Item = NeighborOption<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&[kind, units], _) = self.rest.split_first_chunk::<2>()?;
        let (option, rest) = self.rest.split_at_checked(usize::from(units) * UNIT)?;
        // Fails for an option of length 0, which would never end.
        let data = option.get(2..)?;
        self.rest = rest;
        Some(NeighborOption::read(kind, data))
    }
}
