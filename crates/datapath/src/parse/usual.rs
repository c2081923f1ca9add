//! The usual packets: untagged, UDP or TCP in one piece, IPv4 without options or IPv6 without extension headers, bare or in a plain
//! Geneve or VXLAN packet over IPv4.
//!
//! Nearly all of the traffic, so it reads the headers as arrays of a fixed size, whose every offset the compiler checks once.
//! Whatever is unusual, or wrong, is left to the general parser, which alone says what is wrong. For what is parsed here both agree
//! to the bit.

use sluice_intent::plan::Encapsulation;

use super::{GENEVE_PORT, MAC, Parsed, TCP, UDP, VXLAN_PORT, checksum_holds};
use crate::flow::IPV6;
use crate::snapshot::tunnel::vni_key;
use crate::snapshot::{Ingress, IngressId, Snapshot};

/// Ethernet, IPv4 and the ports behind it.
const V4: usize = 14 + 20 + 8;
/// Ethernet, IPv6 and the ports behind it.
const V6: usize = 14 + 40 + 8;
/// Ethernet, IPv4, UDP and the tunnel header.
const OUTER: usize = 14 + 20 + 8 + 8;

const TYPE_V4: [u8; 2] = [0x08, 0x00];
const TYPE_V6: [u8; 2] = [0x86, 0xdd];
const TYPE_ETHERNET: [u8; 2] = [0x65, 0x58];

/// Parses a usual packet that entered at `id`; false, with `parsed` undefined, for any other.
#[inline(always)]
pub(super) fn parse(snapshot: &Snapshot, id: IngressId, data: &[u8], parsed: &mut Parsed) -> bool {
    let ingress = snapshot.ingress(id);
    let Some(header) = data.first_chunk::<V4>() else { return false };
    let port = [header[36], header[37]];
    if ingress.layer3 && (port == GENEVE_PORT || port == VXLAN_PORT) {
        // Perhaps a tunnel; if it turns out to be something else the general parser knows it.
        return parse_tunnel(snapshot, ingress, data, parsed);
    }
    parsed.frame = 0;
    parsed.outer_traffic_class = 0;
    parse_inner::<0>(ingress, id, data, data.len(), parsed)
}

/// The outer headers of a tunnel over IPv4 that ends here, and what is inside.
#[inline(always)]
fn parse_tunnel(snapshot: &Snapshot, ingress: &Ingress, data: &[u8], parsed: &mut Parsed) -> bool {
    let Some(header) = data.first_chunk::<OUTER>() else { return false };
    let ip: &[u8; 20] = match header[14..34].first_chunk() {
        Some(ip) => ip,
        None => return false,
    };
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let usual = word(header, 0) & MAC == ingress.mac
        && ingress.layer3
        && [header[12], header[13]] == TYPE_V4
        && ip[0] == 0x45
        && (ip[6] & 0x3f) | ip[7] == 0
        && ip[9] == UDP
        && 14 + total <= data.len();
    if !usual || !checksum_holds(ip) {
        return false;
    }
    let addresses = word(header, 26);
    if !ingress.teps_v4.contains(&((addresses >> 32) as u32)) || !snapshot.is_remote_tep_v4(addresses as u32)
    {
        return false;
    }
    let tunnel = &header[42..50];
    let encapsulation = if [header[36], header[37]] == GENEVE_PORT {
        if tunnel[..4] != [0, 0, TYPE_ETHERNET[0], TYPE_ETHERNET[1]] {
            return false;
        }
        Encapsulation::Geneve
    } else {
        if tunnel[0] & 0x08 == 0 {
            return false;
        }
        Encapsulation::Vxlan
    };
    let vni = u32::from_be_bytes([0, tunnel[4], tunnel[5], tunnel[6]]);
    let Some(id) = snapshot.tunnel_ingress(vni_key(vni, encapsulation)) else { return false };
    parsed.frame = OUTER as u16;
    parsed.outer_traffic_class = ip[1];
    parse_inner::<OUTER>(snapshot.ingress(id), id, data, 14 + total, parsed)
}

/// The frame at offset `AT`, of a packet that ends at `end`.
#[inline(always)]
fn parse_inner<const AT: usize>(
    ingress: &Ingress,
    id: IngressId,
    data: &[u8],
    end: usize,
    parsed: &mut Parsed,
) -> bool {
    let Some(frame) = data.get(AT..) else { return false };
    let Some(header) = frame.first_chunk::<V4>() else { return false };
    let destination = word(header, 0) & MAC;
    // In the key, no MAC address stands for this node's.
    if destination == 0 {
        return false;
    }
    let routed = destination == ingress.mac;
    // Routed frames of layer 3 are the same flow whatever their MAC addresses.
    let bridged = u64::from(!(routed && ingress.layer3)).wrapping_neg();
    let key = &mut parsed.key.0;
    key[5] = destination << 16 & bridged;
    key[6] = (word(header, 4) >> 16) << 16 & bridged;
    parsed.network = (AT + 14) as u16;
    match [header[12], header[13]] {
        TYPE_V4 => {
            let ip: &[u8; 20] = match header[14..34].first_chunk() {
                Some(ip) => ip,
                None => return false,
            };
            let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            let usual = ip[0] == 0x45
                && (ip[6] & 0x3f) | ip[7] == 0
                && (ip[9] == UDP || ip[9] == TCP)
                && total >= 28
                && AT + 14 + total <= end;
            if !usual || (routed && !checksum_holds(ip)) {
                return false;
            }
            parsed.network_length = total as u16;
            key[0] = word(header, 26);
            (key[1], key[2], key[3]) = (0, 0, 0);
            key[4] = u64::from(id.0) | word(header, 34) << 32;
            key[5] |= u64::from(ip[9]) << 8;
            true
        }
        TYPE_V6 => {
            let Some(header) = frame.first_chunk::<V6>() else { return false };
            let total = 40 + usize::from(u16::from_be_bytes([header[18], header[19]]));
            let usual = header[14] >> 4 == 6
                && (header[20] == UDP || header[20] == TCP)
                && total >= 48
                && AT + 14 + total <= end;
            let port = [header[56], header[57]];
            let tunnel = AT == 0 && ingress.layer3 && (port == GENEVE_PORT || port == VXLAN_PORT);
            if !usual || tunnel {
                return false;
            }
            parsed.network_length = total as u16;
            (key[0], key[1]) = (word(header, 22), word(header, 30));
            (key[2], key[3]) = (word(header, 38), word(header, 46));
            key[4] = u64::from(id.0) | word(header, 54) << 32;
            key[5] |= u64::from(header[20]) << 8 | u64::from(IPV6);
            true
        }
        _ => false,
    }
}

/// Eight bytes at a constant offset, little-endian.
#[inline(always)]
fn word<const N: usize>(bytes: &[u8; N], offset: usize) -> u64 {
    bytes[offset..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}
