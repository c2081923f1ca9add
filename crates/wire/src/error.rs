//! What can be wrong with octets that claim to be a header, and with a header that shall become octets.

use core::fmt;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bfd::BfdProblem;

/// A header that was refused: which format, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{layer}: {problem}")]
pub struct WireError {
    /// The format that refused.
    pub layer: Layer,
    /// What it refused.
    pub problem: Problem,
}

/// A packet format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// Ethernet II.
    Ethernet,
    /// An 802.1Q or 802.1ad tag.
    Vlan,
    /// ARP for IPv4 over Ethernet.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6 with its extension headers.
    Ipv6,
    /// ICMP for IPv4.
    Icmpv4,
    /// ICMP for IPv6.
    Icmpv6,
    /// Neighbour discovery within ICMPv6.
    NeighborDiscovery,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// Geneve.
    Geneve,
    /// VXLAN.
    Vxlan,
    /// BFD control packets.
    Bfd,
    /// The slow protocols' subtype.
    SlowProtocols,
    /// LACP.
    Lacp,
    /// The marker protocol of link aggregation.
    Marker,
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The octets end before the header, or before what the header says follows it.
    #[error("truncated: {needed} octets needed, {available} present")]
    Truncated {
        /// Octets that the format needs.
        needed: usize,
        /// Octets that are there.
        available: usize,
    },
    /// The version is not the one of this format.
    #[error("version {0} is not known")]
    Version(u8),
    /// A length field contradicts the format itself, whatever follows.
    #[error("{field} of {value} is impossible")]
    Length {
        /// The field's name.
        field: &'static str,
        /// What it says, in octets.
        value: usize,
    },
    /// The checksum does not match the octets.
    #[error("the checksum is wrong")]
    Checksum,
    /// An IPv6 packet has more extension headers than [`crate::ipv6::MAX_EXTENSION_HEADERS`].
    #[error("too many extension headers")]
    TooManyExtensionHeaders,
    /// An IPv6 hop-by-hop header stands elsewhere than first (RFC 8200 §4.1).
    #[error("the hop-by-hop header is not the first extension header")]
    HopByHopNotFirst,
    /// An option is cut short or its length is impossible.
    #[error("malformed option at octet {offset} of the options")]
    Option {
        /// Where the option begins, in octets from the first option.
        offset: usize,
    },
    /// A field holds a value that the format, or this implementation of it, does not allow.
    #[error("{field} of {value} is not allowed")]
    Field {
        /// The field's name.
        field: &'static str,
        /// What it holds.
        value: u32,
    },
    /// A BFD control packet fails a check of reception (RFC 5880 §6.8.6).
    #[error(transparent)]
    Bfd(#[from] BfdProblem),
    /// The buffer to write into is shorter than what shall be written.
    #[error("the buffer is too small: {needed} octets needed, {available} present")]
    BufferTooSmall {
        /// Octets to be written.
        needed: usize,
        /// Octets that the buffer has.
        available: usize,
    },
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "Ethernet",
            Self::Vlan => "VLAN",
            Self::Arp => "ARP",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Icmpv4 => "ICMP",
            Self::Icmpv6 => "ICMPv6",
            Self::NeighborDiscovery => "neighbour discovery",
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Geneve => "Geneve",
            Self::Vxlan => "VXLAN",
            Self::Bfd => "BFD",
            Self::SlowProtocols => "slow protocols",
            Self::Lacp => "LACP",
            Self::Marker => "marker protocol",
        })
    }
}

impl Layer {
    /// The error of this layer with `problem`.
    pub(crate) const fn error(self, problem: Problem) -> WireError {
        WireError { layer: self, problem }
    }

    /// The error of a field that holds a value that is not allowed.
    pub(crate) const fn field(self, field: &'static str, value: u32) -> WireError {
        self.error(Problem::Field { field, value })
    }

    /// The error of a length field that contradicts the format.
    pub(crate) const fn length(self, field: &'static str, value: usize) -> WireError {
        self.error(Problem::Length { field, value })
    }

    /// The fixed header `T` at the start of `bytes`, and what follows it.
    #[inline]
    pub(crate) fn header<T>(self, bytes: &[u8]) -> Result<(&T, &[u8]), WireError>
    where
        T: FromBytes + Immutable + KnownLayout + Unaligned,
    {
        T::ref_from_prefix(bytes).map_err(|_| self.truncated(size_of::<T>(), bytes.len()))
    }

    /// The fixed header `T` at the start of `bytes`, to be changed in place, and what follows it.
    #[inline]
    pub(crate) fn header_mut<T>(self, bytes: &mut [u8]) -> Result<(&mut T, &mut [u8]), WireError>
    where
        T: FromBytes + zerocopy::IntoBytes + KnownLayout + Unaligned,
    {
        let available = bytes.len();
        T::mut_from_prefix(bytes).map_err(|_| self.truncated(size_of::<T>(), available))
    }

    /// `bytes` divided after `at` octets.
    #[inline]
    pub(crate) fn split(self, bytes: &[u8], at: usize) -> Result<(&[u8], &[u8]), WireError> {
        bytes.split_at_checked(at).ok_or_else(|| self.truncated(at, bytes.len()))
    }

    /// The first `needed` octets of `buffer`, to be written into.
    pub(crate) fn room(self, buffer: &mut [u8], needed: usize) -> Result<&mut [u8], WireError> {
        let available = buffer.len();
        buffer.get_mut(..needed).ok_or_else(|| self.error(Problem::BufferTooSmall { needed, available }))
    }

    /// Writes `parts` one after the other at the start of `buffer`; returns the octets written.
    pub(crate) fn write(self, buffer: &mut [u8], parts: &[&[u8]]) -> Result<usize, WireError> {
        let needed = parts.iter().map(|part| part.len()).sum();
        let mut rest = self.room(buffer, needed)?;
        for part in parts {
            let Some((head, tail)) = rest.split_at_mut_checked(part.len()) else { break };
            head.copy_from_slice(part);
            rest = tail;
        }
        Ok(needed)
    }

    const fn truncated(self, needed: usize, available: usize) -> WireError {
        self.error(Problem::Truncated { needed, available })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sentences() {
        let truncated = Layer::Ipv4.error(Problem::Truncated { needed: 20, available: 7 });
        assert_eq!(truncated.to_string(), "IPv4: truncated: 20 octets needed, 7 present");
        assert_eq!(
            Layer::Vlan.field("VLAN identifier", 4095).to_string(),
            "VLAN: VLAN identifier of 4095 is not allowed"
        );
    }

    #[test]
    fn writing_needs_room_for_every_part() {
        let mut buffer = [0; 4];
        assert_eq!(Layer::Udp.write(&mut buffer, &[&[1, 2], &[3]]), Ok(3));
        assert_eq!(buffer, [1, 2, 3, 0]);
        let error = Layer::Udp.write(&mut buffer, &[&[9, 9, 9], &[9, 9]]).unwrap_err();
        assert_eq!(error.problem, Problem::BufferTooSmall { needed: 5, available: 4 });
        assert_eq!(buffer, [1, 2, 3, 0], "nothing is written where not everything fits");
    }
}
