//! BFD packets of a tunnel itself: told from what tunnels carry for segments.
//!
//! Such a packet has VNI 0, which no segment has; in Geneve also the O bit (RFC 8926 section 3.4, RFC 9521 section 4), in VXLAN nothing else
//! (RFC 8971 section 4 leaves the management VNI to the operator). Inside is an untagged frame with UDP to port 3784 (RFC 5881 section 4),
//! in IPv4 without options or IPv6 without extension headers. Everything further is for the control thread to judge.

use sluice_intent::plan::Encapsulation;
use sluice_wire::{EtherType, udp};

use super::{UDP, bytes_at, check_geneve_options};

/// Whether the tunnel packet whose UDP header begins at `udp`, and ends with the data, is a BFD packet of the tunnel.
#[inline(always)]
pub(super) fn is_bfd(encapsulation: Encapsulation, data: &[u8], udp: usize) -> bool {
    bytes_at(data, udp + 12) == Some([0; 3]) && has_bfd(encapsulation, data, udp)
}

#[cold]
#[inline(never)]
fn has_bfd(encapsulation: Encapsulation, data: &[u8], udp: usize) -> bool {
    inner_frame(encapsulation, data, udp).and_then(udp_port).is_some_and(|port| port == udp::port::BFD)
}

/// The frame in a tunnel packet with the marks of BFD, its VNI aside.
fn inner_frame(encapsulation: Encapsulation, data: &[u8], udp: usize) -> Option<&[u8]> {
    let header: [u8; 8] = bytes_at(data, udp + 8)?;
    let at = udp + 16;
    let options = match encapsulation {
        Encapsulation::Geneve => {
            let ethernet = header[2..4] == EtherType::TRANSPARENT_ETHERNET.0.to_be_bytes();
            let marked = header[0] >> 6 == 0 && header[1] & 0x80 != 0 && ethernet;
            marked.then(|| check_geneve_options(header, data, at).ok())??
        }
        Encapsulation::Vxlan => (header[0] & 0x08 != 0).then_some(0)?,
    };
    data.get(at + options..)
}

/// The destination port of the whole UDP datagram in an untagged frame.
fn udp_port(frame: &[u8]) -> Option<u16> {
    let packet = frame.get(14..)?;
    let (header, length) = match EtherType(u16::from_be_bytes(bytes_at(frame, 12)?)) {
        EtherType::IPV4 => {
            let header: [u8; 20] = bytes_at(packet, 0)?;
            let whole = (header[6] & 0x3f) | header[7] == 0;
            (header[0] == 0x45 && whole && header[9] == UDP)
                .then(|| (20, usize::from(u16::from_be_bytes([header[2], header[3]]))))?
        }
        EtherType::IPV6 => {
            let header: [u8; 40] = bytes_at(packet, 0)?;
            (header[0] >> 4 == 6 && header[6] == UDP)
                .then(|| (40, 40 + usize::from(u16::from_be_bytes([header[4], header[5]]))))?
        }
        _ => return None,
    };
    let datagram = packet.get(header..length).filter(|datagram| datagram.len() >= 8)?;
    bytes_at(datagram, 2).map(u16::from_be_bytes)
}
