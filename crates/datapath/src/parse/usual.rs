//! The usual packets: untagged, UDP or TCP in one piece, IPv4 without options or IPv6 without extension headers, bare or in a plain
//! Geneve or VXLAN packet over IPv4.
//!
//! Nearly all of the traffic, so it reads the headers as arrays of a fixed size, whose every offset the compiler checks once.
//! Whatever is unusual, or wrong, is left to the general parser, which alone says what is wrong. For what is parsed here both agree
//! to the bit.

use sluice_intent::plan::Encapsulation;

use super::recent::RecentTunnels;
use super::{Entrance, GENEVE_PORT, MAC, OUTER_ECN, Parsed, TCP, UDP, VXLAN_PORT, checksum_holds};
use crate::flow::{FlowKey, IPV6};
use crate::snapshot::tunnel::vni_key;
use crate::snapshot::{Ingress, IngressId};

/// Ethernet, IPv4 and the ports behind it.
const V4: usize = 14 + 20 + 8;
/// Ethernet, IPv6 and the ports behind it.
const V6: usize = 14 + 40 + 8;
/// Ethernet, IPv4, UDP and the tunnel header.
const OUTER: usize = 14 + 20 + 8 + 8;

/// Bytes 12 to 19 of a frame with an IPv4 packet: EtherType, version and header length without options.
const V4_BEGINS: Pattern = Pattern::new([0xff, 0xff, 0xff, 0, 0, 0, 0, 0], [0x08, 0x00, 0x45, 0, 0, 0, 0, 0]);
/// Bytes 20 to 27 of such a frame: not a fragment.
const V4_WHOLE: Pattern = Pattern::new([0x3f, 0xff, 0, 0, 0, 0, 0, 0], [0; 8]);
/// The same, and UDP.
const V4_WHOLE_UDP: Pattern = Pattern::new([0x3f, 0xff, 0, 0xff, 0, 0, 0, 0], [0, 0, 0, UDP, 0, 0, 0, 0]);
/// Bytes 12 to 19 of a frame with an IPv6 packet: EtherType, version.
const V6_BEGINS: Pattern = Pattern::new([0xff, 0xff, 0xf0, 0, 0, 0, 0, 0], [0x86, 0xdd, 0x60, 0, 0, 0, 0, 0]);
/// The first bytes of a Geneve header without options or flags, before an Ethernet frame.
const GENEVE_PLAIN: Pattern =
    Pattern::new([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], [0, 0, 0x65, 0x58, 0, 0, 0, 0]);
/// The flag of a VXLAN header that says that there is a VNI.
const VXLAN_VALID: Pattern = Pattern::new([0x08, 0, 0, 0, 0, 0, 0, 0], [0x08, 0, 0, 0, 0, 0, 0, 0]);

/// What some bits of eight bytes must be: several fields are checked at once.
#[derive(Clone, Copy)]
struct Pattern {
    mask: u64,
    bits: u64,
}

impl Pattern {
    const fn new(mask: [u8; 8], bits: [u8; 8]) -> Self {
        Self { mask: u64::from_le_bytes(mask), bits: u64::from_le_bytes(bits) }
    }

    #[inline(always)]
    fn fits(self, word: u64) -> bool {
        word & self.mask == self.bits
    }
}

/// What must be known of the ingress of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) id: IngressId,
    /// Frames to this MAC address are routed.
    pub(super) mac: u64,
    /// All ones where the MAC addresses of routed frames take no part in the flow.
    pub(super) layer3: u64,
}

impl Destination {
    #[inline(always)]
    pub(super) fn of(id: IngressId, ingress: &Ingress) -> Self {
        Self { id, mac: ingress.mac, layer3: u64::from(ingress.layer3).wrapping_neg() }
    }
}

/// Parses a usual packet that entered at the untagged ingress `at`; false, with `parsed` undefined, for any other.
#[inline(always)]
pub(super) fn parse(
    entrance: &Entrance<'_>,
    at: Destination,
    data: &[u8],
    recent: &mut RecentTunnels,
    parsed: &mut Parsed,
) -> bool {
    let Some(header) = data.first_chunk::<V4>() else { return false };
    let port = [header[36], header[37]];
    if at.layer3 != 0 && (port == GENEVE_PORT || port == VXLAN_PORT) {
        // Perhaps a tunnel; if it turns out to be something else the general parser knows it.
        return parse_tunnel(entrance, at, data, recent, parsed);
    }
    parse_inner::<0>(at, data, data.len(), 0, parsed)
}

/// The outer headers of a tunnel over IPv4 that ends here, and what is inside.
#[inline(always)]
fn parse_tunnel(
    entrance: &Entrance<'_>,
    at: Destination,
    data: &[u8],
    recent: &mut RecentTunnels,
    parsed: &mut Parsed,
) -> bool {
    // With at least the headers of an IPv4 packet inside: one check for all that is read here.
    let Some(header) = data.first_chunk::<{ OUTER + V4 }>() else { return false };
    let total = u16::from_be_bytes([header[16], header[17]]);
    let end = 14 + usize::from(total);
    // A datagram as long as the packet, without a checksum, as is usual for tunnels over IPv4 (RFC 8926 section 3.3, RFC 7348 section 5).
    let length_without_checksum = u32::from(total.wrapping_sub(20).swap_bytes());
    let usual = word(header, 0) & MAC == at.mac
        && V4_BEGINS.fits(word(header, 12))
        && V4_WHOLE_UDP.fits(word(header, 20))
        && u32::from_le_bytes([header[38], header[39], header[40], header[41]]) == length_without_checksum
        && end <= data.len();
    let Some(ip) = header[14..34].first_chunk() else { return false };
    if !usual || !checksum_holds(ip) {
        return false;
    }
    let tunnel = Tunnel {
        addresses: word(header, 26),
        header: word(header, 42),
        underlay: u64::from(at.id.0) | u64::from(u16::from_le_bytes([header[36], header[37]])) << 32,
    };
    let inner = match recent.find(tunnel) {
        Some(inner) => inner,
        None => match learn(tunnel, entrance, recent) {
            Some(inner) => inner,
            None => return false,
        },
    };
    parse_inner::<OUTER>(inner, data, end, header[15] & OUTER_ECN, parsed)
}

#[cold]
#[inline(never)]
fn learn(tunnel: Tunnel, entrance: &Entrance<'_>, recent: &mut RecentTunnels) -> Option<Destination> {
    let inner = tunnel.resolve(entrance)?;
    recent.remember(tunnel, inner);
    Some(inner)
}

/// The fields of the outer headers that say in which tunnel a packet came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tunnel {
    /// Source and destination address, as they stand in the IPv4 header.
    pub(super) addresses: u64,
    /// The Geneve or VXLAN header.
    pub(super) header: u64,
    /// The ingress of the outer packet, and its UDP port (never 0) above it.
    pub(super) underlay: u64,
}

impl Tunnel {
    /// The ingress of what is inside; none if the tunnel is unusual or wrong.
    fn resolve(&self, entrance: &Entrance<'_>) -> Option<Destination> {
        let Entrance { snapshot, untagged, .. } = entrance;
        let (_, underlay) = (*untagged)?;
        let (source, destination) = (self.addresses as u32, (self.addresses >> 32) as u32);
        let encapsulation = if ((self.underlay >> 32) as u16).to_le_bytes() == GENEVE_PORT {
            GENEVE_PLAIN.fits(self.header).then_some(Encapsulation::Geneve)?
        } else {
            VXLAN_VALID.fits(self.header).then_some(Encapsulation::Vxlan)?
        };
        let [_, _, _, _, high, middle, low, _] = self.header.to_le_bytes();
        let vni = u32::from_be_bytes([0, high, middle, low]);
        let id = snapshot.tunnel_ingress(vni_key(vni, encapsulation))?;
        let here = underlay.teps_v4.contains(&destination) && snapshot.is_remote_tep_v4(source);
        here.then(|| Destination::of(id, snapshot.ingress(id)))
    }
}

/// The frame at offset `AT`, of a packet that ends at `end`.
#[inline(always)]
fn parse_inner<const AT: usize>(
    at: Destination,
    data: &[u8],
    end: usize,
    marks: u8,
    parsed: &mut Parsed,
) -> bool {
    let Some(frame) = data.get(AT..) else { return false };
    let Some(header) = frame.first_chunk::<V4>() else { return false };
    let destination = word(header, 0) & MAC;
    // In the key, no MAC address stands for this node's.
    if destination == 0 {
        return false;
    }
    let routed = destination == at.mac;
    // Routed frames of layer 3 are the same flow whatever their MAC addresses.
    let bridged = if routed { !at.layer3 } else { u64::MAX };
    let source = (word(header, 4) >> 16) << 16 & bridged;
    let destination = destination << 16 & bridged;
    let first = word(header, 12);
    if V4_BEGINS.fits(first) {
        let total = usize::from(u16::from_be_bytes([header[16], header[17]]));
        let protocol = header[23];
        let usual = V4_WHOLE.fits(word(header, 20))
            && (protocol == UDP || protocol == TCP)
            && total >= 28
            && AT + 14 + total <= end;
        let Some(ip) = header[14..34].first_chunk() else { return false };
        if !usual || (routed && !checksum_holds(ip)) {
            return false;
        }
        let transport = u64::from(at.id.0) | u64::from(protocol) << 24 | word(header, 34) << 32;
        let key = [word(header, 26), 0, 0, 0, transport, destination, source];
        *parsed = Parsed {
            key: FlowKey(key),
            network: AT as u16 + 14,
            end: end as u16,
            network_length: total as u16,
            ttl: header[22],
            marks,
        };
        true
    } else if V6_BEGINS.fits(first) {
        let Some(header) = frame.first_chunk::<V6>() else { return false };
        let total = 40 + usize::from(u16::from_be_bytes([header[18], header[19]]));
        let protocol = header[20];
        let usual = (protocol == UDP || protocol == TCP) && total >= 48 && AT + 14 + total <= end;
        let port = [header[56], header[57]];
        let tunnel = AT == 0 && at.layer3 != 0 && (port == GENEVE_PORT || port == VXLAN_PORT);
        if !usual || tunnel {
            return false;
        }
        let transport = u64::from(at.id.0) | u64::from(protocol) << 24 | word(header, 54) << 32;
        let destination = destination | u64::from(IPV6);
        let (from, to) = ((word(header, 22), word(header, 30)), (word(header, 38), word(header, 46)));
        *parsed = Parsed {
            key: FlowKey([from.0, from.1, to.0, to.1, transport, destination, source]),
            network: AT as u16 + 14,
            end: end as u16,
            network_length: total as u16,
            ttl: header[21],
            marks,
        };
        true
    } else {
        false
    }
}

/// Eight bytes at a constant offset, little-endian.
#[inline(always)]
fn word<const N: usize>(bytes: &[u8; N], offset: usize) -> u64 {
    bytes[offset..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}
