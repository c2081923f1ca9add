//! Neighbour discovery (RFC 4861): solicitations and advertisements of neighbours and routers, and their
//! options.
//!
//! These are ICMPv6 messages; [`crate::icmpv6::Icmpv6View`] checks their checksum. The rule that the hop
//! limit is 255 (RFC 4861 §6.1, §7.1) concerns the IPv6 header and is the caller's.
//!
//! Limits: link-layer addresses are those of Ethernet. Redirects (§4.5) are not read.

use core::net::Ipv6Addr;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::PseudoHeader;
use crate::error::{Layer, WireError};
use crate::icmp::IcmpHeader;
use crate::icmpv6::kind;

pub use crate::neighbor_option::{NeighborOption, NeighborOptions, PrefixInformation};

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const MANAGED: u8 = 0x80;
const OTHER_CONFIGURATION: u8 = 0x40;

/// What follows the ICMPv6 header of a router advertisement.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RouterTimers {
    reachable_time: U32,
    retransmit_timer: U32,
}

/// What follows the ICMPv6 header of a neighbour solicitation or advertisement.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Target {
    address: [u8; 16],
}

/// The fields of a router advertisement (RFC 4861 §4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouterAdvertisement {
    /// The hop limit that hosts shall use; 0 leaves it to them.
    pub hop_limit: u8,
    /// Addresses are given by DHCPv6.
    pub managed: bool,
    /// Other configuration is given by DHCPv6.
    pub other_configuration: bool,
    /// How long the sender is a default router, in seconds; 0 if it is none.
    pub router_lifetime: u16,
    /// How long a neighbour counts as reachable after a confirmation, in milliseconds; 0 leaves it to the
    /// host.
    pub reachable_time: u32,
    /// The time between solicitations, in milliseconds; 0 leaves it to the host.
    pub retransmit_timer: u32,
}

/// The fields of a neighbour advertisement (RFC 4861 §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeighborAdvertisement {
    /// The sender is a router.
    pub router: bool,
    /// The message answers a solicitation.
    pub solicited: bool,
    /// What the receiver has cached shall be replaced.
    pub override_cache: bool,
    /// The address that is advertised.
    pub target: Ipv6Addr,
}

/// A neighbour discovery message without its options, owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeighborMessage {
    /// Asks routers to advertise themselves.
    RouterSolicitation,
    /// A router advertises itself and the link's parameters.
    RouterAdvertisement(RouterAdvertisement),
    /// Asks for the link-layer address of `target`.
    NeighborSolicitation {
        /// The address whose owner is sought.
        target: Ipv6Addr,
    },
    /// Advertises the sender's link-layer address.
    NeighborAdvertisement(NeighborAdvertisement),
}

/// A checked view of a message: its fields and its options.
#[derive(Clone, Copy, Debug)]
pub struct NeighborView<'a> {
    message: NeighborMessage,
    options: &'a [u8],
}

impl<'a> NeighborView<'a> {
    /// The ICMPv6 message in `bytes`, its ICMPv6 header included.
    ///
    /// # Errors
    ///
    /// [`crate::Problem::Truncated`], [`crate::Problem::Field`] for a message of another type and for a code
    /// other than 0, and [`crate::Problem::Option`] where an option has no length or ends behind the message.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        const LAYER: Layer = Layer::NeighborDiscovery;
        let (header, body) = LAYER.header::<IcmpHeader>(bytes)?;
        if header.code() != 0 {
            return Err(LAYER.field("code", u32::from(header.code())));
        }
        let (message, options) = match header.kind() {
            kind::ROUTER_SOLICITATION => (NeighborMessage::RouterSolicitation, body),
            kind::ROUTER_ADVERTISEMENT => {
                let (timers, options) = LAYER.header(body)?;
                (router_advertisement(header, timers), options)
            }
            kind::NEIGHBOR_SOLICITATION => {
                let (target, options) = LAYER.header::<Target>(body)?;
                (NeighborMessage::NeighborSolicitation { target: target.address.into() }, options)
            }
            kind::NEIGHBOR_ADVERTISEMENT => {
                let (target, options) = LAYER.header(body)?;
                (neighbor_advertisement(header, target), options)
            }
            other => return Err(LAYER.field("type", u32::from(other))),
        };
        NeighborOptions::check(options)?;
        Ok(Self { message, options })
    }

    /// The fields of the message.
    pub const fn message(&self) -> NeighborMessage {
        self.message
    }

    /// The options in their order.
    pub const fn options(&self) -> NeighborOptions<'a> {
        NeighborOptions::new(self.options)
    }
}

fn router_advertisement(header: &IcmpHeader, timers: &RouterTimers) -> NeighborMessage {
    let [hop_limit, flags, lifetime @ ..] = header.rest();
    NeighborMessage::RouterAdvertisement(RouterAdvertisement {
        hop_limit,
        managed: flags & MANAGED != 0,
        other_configuration: flags & OTHER_CONFIGURATION != 0,
        router_lifetime: u16::from_be_bytes(lifetime),
        reachable_time: timers.reachable_time.get(),
        retransmit_timer: timers.retransmit_timer.get(),
    })
}

fn neighbor_advertisement(header: &IcmpHeader, target: &Target) -> NeighborMessage {
    let [flags, ..] = header.rest();
    NeighborMessage::NeighborAdvertisement(NeighborAdvertisement {
        router: flags & ROUTER != 0,
        solicited: flags & SOLICITED != 0,
        override_cache: flags & OVERRIDE != 0,
        target: target.address.into(),
    })
}

impl NeighborMessage {
    /// Octets that [`NeighborMessage::emit`] writes before the options.
    pub const fn header_len(&self) -> usize {
        size_of::<IcmpHeader>()
            + match self {
                Self::RouterSolicitation => 0,
                Self::RouterAdvertisement(_) => size_of::<RouterTimers>(),
                Self::NeighborSolicitation { .. } | Self::NeighborAdvertisement(_) => size_of::<Target>(),
            }
    }

    /// Writes the message with `options` and its checksum at the start of `buffer`; returns the octets
    /// written.
    ///
    /// # Errors
    ///
    /// [`crate::Problem::BufferTooSmall`], and [`crate::Problem::Length`] for an option that is not a
    /// multiple of 8 octets.
    pub fn emit(
        &self,
        options: &[NeighborOption<'_>],
        pseudo: PseudoHeader,
        buffer: &mut [u8],
    ) -> Result<usize, WireError> {
        let mut len = self.emit_header(buffer)?;
        for option in options {
            len += option.emit(buffer.get_mut(len..).unwrap_or_default())?;
        }
        let message = Layer::NeighborDiscovery.room(buffer, len)?;
        let checksum = pseudo.icmpv6(message);
        IcmpHeader::mut_from_prefix(Layer::NeighborDiscovery, message)?.0.set_checksum(checksum);
        Ok(len)
    }

    fn emit_header(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let (kind, rest) = match self {
            Self::RouterSolicitation => (kind::ROUTER_SOLICITATION, [0; 4]),
            Self::RouterAdvertisement(router) => {
                let flags =
                    flag(router.managed, MANAGED) | flag(router.other_configuration, OTHER_CONFIGURATION);
                let [high, low] = router.router_lifetime.to_be_bytes();
                (kind::ROUTER_ADVERTISEMENT, [router.hop_limit, flags, high, low])
            }
            Self::NeighborSolicitation { .. } => (kind::NEIGHBOR_SOLICITATION, [0; 4]),
            Self::NeighborAdvertisement(neighbor) => {
                let flags = flag(neighbor.router, ROUTER)
                    | flag(neighbor.solicited, SOLICITED)
                    | flag(neighbor.override_cache, OVERRIDE);
                (kind::NEIGHBOR_ADVERTISEMENT, [flags, 0, 0, 0])
            }
        };
        let header = IcmpHeader::new(kind, 0, rest);
        let mut write = |body: &[u8]| Layer::NeighborDiscovery.write(buffer, &[header.as_bytes(), body]);
        match self {
            Self::RouterSolicitation => write(&[]),
            Self::RouterAdvertisement(router) => {
                let timers = RouterTimers {
                    reachable_time: U32::new(router.reachable_time),
                    retransmit_timer: U32::new(router.retransmit_timer),
                };
                write(timers.as_bytes())
            }
            Self::NeighborSolicitation { target }
            | Self::NeighborAdvertisement(NeighborAdvertisement { target, .. }) => write(&target.octets()),
        }
    }
}

impl From<NeighborView<'_>> for NeighborMessage {
    fn from(view: NeighborView<'_>) -> Self {
        view.message
    }
}

/// The multicast address that the owner of `target` listens on (RFC 4291 §2.7.1).
pub const fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = target.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a as u16, (b as u16) << 8 | c as u16)
}

#[cfg(test)]
#[path = "neighbor_tests.rs"]
mod tests;
