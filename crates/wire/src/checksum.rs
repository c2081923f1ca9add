//! The Internet checksum: RFC 1071 sums, pseudo headers, and RFC 1624 incremental updates.
//!
//! Pure functions over slices. [`Delta`] is what a cached rewrite keeps of a translation: computed once a
//! flow and applied to each packet in a few instructions, whatever the packet holds.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::IpProtocol;

/// A one's complement sum in the making. Everything but the last slice added must have an even length.
///
/// The sum is kept in the byte order of the machine, which RFC 1071 §2(B) shows to be harmless, and folded at
/// the end. Limit: 16 GiB of octets in all, above which the 64 bits that it is kept in could overflow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// An empty sum.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds the 16-bit words of `bytes`; an odd last octet counts as if a zero octet followed it.
    #[inline]
    #[must_use]
    pub fn add_bytes(mut self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            let word = u64::from_ne_bytes(*word);
            self.0 += (word & 0xffff_ffff) + (word >> 32);
        }
        // Fewer than eight octets are left: at most one of each, so that short headers meet no loop.
        let (double, rest) = rest.as_chunks::<4>();
        if let [double] = double {
            self.0 += u64::from(u32::from_ne_bytes(*double));
        }
        let (pair, odd) = rest.as_chunks::<2>();
        if let [pair] = pair {
            self.0 += u64::from(u16::from_ne_bytes(*pair));
        }
        if let [last] = odd {
            self.0 += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        self
    }

    /// Adds one 16-bit word.
    #[inline]
    #[must_use]
    pub fn add_u16(self, value: u16) -> Self {
        Self(self.0 + u64::from(value.to_be()))
    }

    /// Adds the two 16-bit words of `value`.
    #[inline]
    #[must_use]
    pub fn add_u32(self, value: u32) -> Self {
        Self(self.0 + u64::from(value.to_be()))
    }

    /// The sum folded to 16 bits, not complemented.
    #[inline]
    pub fn fold(self) -> u16 {
        u16::from_be(fold(self.0))
    }

    /// The checksum: the complement of the folded sum.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.fold()
    }

    /// The sum is that of octets which include their own, correct checksum (RFC 1071 §1(3)).
    #[inline]
    pub fn is_valid(self) -> bool {
        self.fold() == 0xffff
    }
}

/// The checksum of `bytes` (RFC 1071 §1). The checksum field within them must be zero.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().add_bytes(bytes).checksum()
}

/// `bytes`, which include their checksum, are intact: an IPv4 header (RFC 791 §3.1) or an ICMPv4 message (RFC
/// 792).
#[inline]
pub fn verify(bytes: &[u8]) -> bool {
    Sum::new().add_bytes(bytes).is_valid()
}

/// The addresses of the pseudo header that transport checksums cover (RFC 9293 §3.1, RFC 8200 §8.1).
#[derive(Clone, Copy, Debug)]
pub struct PseudoHeader {
    addresses: Sum,
    zero_udp_allowed: bool,
}

impl PseudoHeader {
    /// The pseudo header of IPv4.
    pub fn ipv4(source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        let addresses = Sum::new().add_bytes(&source.octets()).add_bytes(&destination.octets());
        Self { addresses, zero_udp_allowed: true }
    }

    /// The pseudo header of IPv6. Behind a routing header, `destination` is the final destination (RFC 8200
    /// §8.1).
    pub fn ipv6(source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        let addresses = Sum::new().add_bytes(&source.octets()).add_bytes(&destination.octets());
        Self { addresses, zero_udp_allowed: false }
    }

    /// The sum of the whole pseudo header for `length` octets of `protocol`.
    ///
    /// Its fold is also what a NIC expects in the checksum field of a packet whose checksum it shall
    /// complete.
    #[inline]
    pub fn sum(self, protocol: IpProtocol, length: u32) -> Sum {
        self.addresses.add_u16(u16::from(protocol.0)).add_u32(length)
    }

    /// The checksum of a UDP datagram, header and payload. What the checksum field holds is ignored. Never 0,
    /// which would mean "no checksum" (RFC 768).
    pub fn udp(self, datagram: &[u8]) -> u16 {
        match self.without_field(IpProtocol::UDP, datagram, UDP_CHECKSUM) {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// The checksum of a TCP segment, header and payload. What the checksum field holds is ignored.
    pub fn tcp(self, segment: &[u8]) -> u16 {
        self.without_field(IpProtocol::TCP, segment, TCP_CHECKSUM)
    }

    /// The checksum of an ICMPv6 message (RFC 4443 §2.3). What the checksum field holds is ignored.
    pub fn icmpv6(self, message: &[u8]) -> u16 {
        self.without_field(IpProtocol::ICMPV6, message, ICMP_CHECKSUM)
    }

    /// The checksum of a UDP datagram is right. A checksum of 0 is right over IPv4 (RFC 768) and wrong over
    /// IPv6 (RFC 8200 §8.1); tunnels that use the exception of RFC 6935 look at the field before they ask.
    pub fn verify_udp(self, datagram: &[u8]) -> bool {
        match datagram.get(UDP_CHECKSUM..UDP_CHECKSUM + 2) {
            Some([0, 0]) => self.zero_udp_allowed,
            Some(_) => self.verify(IpProtocol::UDP, datagram),
            None => false,
        }
    }

    /// The checksum of a TCP segment is right.
    pub fn verify_tcp(self, segment: &[u8]) -> bool {
        self.verify(IpProtocol::TCP, segment)
    }

    /// The checksum of an ICMPv6 message is right.
    pub fn verify_icmpv6(self, message: &[u8]) -> bool {
        self.verify(IpProtocol::ICMPV6, message)
    }

    fn verify(self, protocol: IpProtocol, bytes: &[u8]) -> bool {
        u32::try_from(bytes.len()).is_ok_and(|length| self.sum(protocol, length).add_bytes(bytes).is_valid())
    }

    /// The checksum of `bytes` with the field at `field` taken as zero. IP carries less than 2³² octets, so
    /// the length saturates for no packet.
    fn without_field(self, protocol: IpProtocol, bytes: &[u8], field: usize) -> u16 {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let before = bytes.get(..field).unwrap_or(bytes);
        let after = bytes.get(field + 2..).unwrap_or_default();
        self.sum(protocol, length).add_bytes(before).add_bytes(after).checksum()
    }
}

/// Where the checksum field stands in a UDP header.
const UDP_CHECKSUM: usize = 6;
/// Where the checksum field stands in a TCP header.
const TCP_CHECKSUM: usize = 16;
/// Where the checksum field stands in an ICMP header.
const ICMP_CHECKSUM: usize = 2;

/// A change of some fields, as the difference that it makes to a checksum which covers them (RFC 1624 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta(u16);

impl Delta {
    /// No change.
    pub const NONE: Self = Self(0);

    /// This change and that of a 16-bit field from `old` to `new`.
    #[inline]
    #[must_use]
    pub fn replace_u16(self, old: u16, new: u16) -> Self {
        Self(fold(u64::from(self.0) + u64::from(!old) + u64::from(new)))
    }

    /// This change and that of two adjacent 16-bit words, such as an IPv4 address, from `old` to `new`.
    #[inline]
    #[must_use]
    pub fn replace_u32(self, old: u32, new: u32) -> Self {
        Self(fold(u64::from(self.0) + u64::from(!old) + u64::from(new)))
    }

    /// This change and that of an IPv6 address.
    #[must_use]
    pub fn replace_ipv6(self, old: Ipv6Addr, new: Ipv6Addr) -> Self {
        let old = Sum::new().add_bytes(&old.octets()).fold();
        self.replace_u16(old, Sum::new().add_bytes(&new.octets()).fold())
    }

    /// This change and `other`.
    #[inline]
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(fold(u64::from(self.0) + u64::from(other.0)))
    }

    /// The checksum after the change, of a header whose checksum was `checksum` before it (RFC 1624 §3,
    /// equation 3).
    ///
    /// This is what a whole sum gives, unless the change leaves nothing but zeros: their checksum is ffff,
    /// and comes out as 0. No IP header, and nothing with a pseudo header, is all zeros.
    #[inline]
    pub fn apply(self, checksum: u16) -> u16 {
        !fold(u64::from(!checksum) + u64::from(self.0))
    }

    /// As [`Delta::apply`], for UDP: a datagram without a checksum stays without, and no other becomes so
    /// (RFC 768).
    #[inline]
    pub fn apply_udp(self, checksum: u16) -> u16 {
        match (checksum, self.apply(checksum)) {
            (0, _) => 0,
            (_, 0) => 0xffff,
            (_, changed) => changed,
        }
    }
}

/// The checksum after a 16-bit word that it covers changed from `old` to `new`.
#[inline]
pub fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    Delta::NONE.replace_u16(old, new).apply(checksum)
}

/// The checksum after two adjacent 16-bit words that it covers changed from `old` to `new`.
#[inline]
pub fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    Delta::NONE.replace_u32(old, new).apply(checksum)
}

/// The IPv4 header checksum after the time to live was lowered by `hops`.
///
/// The time to live is the upper half of its word, so the change is the same whatever it was: it must have
/// been `hops` or more.
#[inline]
pub fn lower_ttl(checksum: u16, hops: u8) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!(u16::from(hops) << 8)))
}

/// The one's complement sum of the four 16-bit words of `sum`.
#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    // Two halves of 16 bits leave at most one carry, which this last addition takes in.
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
#[path = "checksum_tests.rs"]
mod tests;
