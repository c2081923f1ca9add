//! IPv6 extension headers (RFC 8200 section 4).

use sluice_wire::IpProtocol;

use super::bytes_at;
use crate::drops::DropReason;

/// Extension headers that are walked before a packet is refused.
const MAX_EXTENSION_HEADERS: usize = 8;
/// Longest payload of an IPv6 packet, a reassembled one as well (RFC 8200 section 4.5).
const MAX_PAYLOAD: usize = 65_535;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

/// Hop-by-hop options, routing, fragment, authentication, destination options, mobility, HIP, shim6 (RFC 7045 section 4).
pub(super) const fn is_extension(protocol: u8) -> bool {
    matches!(protocol, 0 | 43 | FRAGMENT | AUTHENTICATION | 60 | 135 | 139 | 140)
}

/// What was found behind the fixed header.
pub(super) struct Walked {
    pub(super) count: usize,
    pub(super) fragment: bool,
    pub(super) protocol: u8,
    pub(super) transport: usize,
}

/// Walks the extension headers of an IPv6 packet of `total` bytes, as far as they are the same in all fragments.
#[cold]
pub(super) fn walk(data: &[u8], network: usize, total: usize, first: u8) -> Result<Walked, DropReason> {
    let packet = data.get(..network + total).ok_or(DropReason::Truncated)?;
    let mut walked = Walked { count: 0, fragment: false, protocol: first, transport: network + 40 };
    while is_extension(walked.protocol) {
        walked.count += 1;
        if walked.count > MAX_EXTENSION_HEADERS {
            return Err(DropReason::TooManyExtensionHeaders);
        }
        let [next, length]: [u8; 2] = bytes_at(packet, walked.transport).ok_or(DropReason::Truncated)?;
        let header = walked.transport;
        walked.transport += size(walked.protocol, length);
        if walked.transport > packet.len() {
            return Err(DropReason::Truncated);
        }
        if walked.protocol == FRAGMENT {
            let [high, low]: [u8; 2] = bytes_at(packet, header + 2).ok_or(DropReason::Truncated)?;
            // An offset, or more fragments: an atomic fragment (RFC 6946) is a whole packet.
            walked.fragment = high | (low & !6) != 0;
            // The fragment header is not in the reassembled packet; all before it is.
            if total - 40 - 8 + offset(high, low) > MAX_PAYLOAD {
                return Err(DropReason::Malformed);
            }
        }
        walked.protocol = next;
        if walked.fragment {
            break;
        }
    }
    Ok(walked)
}

/// The upper-layer protocol of an IPv6 packet, and its header and data; no bytes of it in a fragment that is not the first. `None` where the
/// packet does not tell.
pub(crate) fn upper_layer(packet: &[u8]) -> Option<(IpProtocol, &[u8])> {
    let (mut protocol, mut rest) = (*packet.get(6)?, packet.get(40..)?);
    while is_extension(protocol) {
        let [next, length, high, low] = *rest.first_chunk()?;
        if protocol == FRAGMENT && offset(high, low) > 0 {
            return (!is_extension(next)).then_some((IpProtocol(next), &[]));
        }
        rest = rest.get(size(protocol, length)..)?;
        protocol = next;
    }
    Some((IpProtocol(protocol), rest))
}

/// Bytes of an extension header whose second byte is `length`.
fn size(protocol: u8, length: u8) -> usize {
    match protocol {
        FRAGMENT => 8,
        AUTHENTICATION => (usize::from(length) + 2) * 4,
        _ => (usize::from(length) + 1) * 8,
    }
}

/// Offset of a fragment in bytes.
fn offset(high: u8, low: u8) -> usize {
    usize::from(u16::from_be_bytes([high, low]) & 0xfff8)
}
