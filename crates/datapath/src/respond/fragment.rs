//! Fragmentation of IPv4 packets that are longer than the MTU of where they go (RFC 791 section 3.2, RFC 1812 section 5.2.6).

use sluice_wire::checksum;

use crate::buffer::{PacketBuffer, Transmit};
use crate::parse::{OUTER_ECN, Parsed};

/// Whether the packet may be fragmented here: IPv4, without the don't-fragment bit, and without options (which would have to be
/// sorted into those that every fragment carries and those that only the first does).
pub(crate) fn may_fragment(data: &[u8], parsed: &Parsed) -> bool {
    let header = data.get(parsed.network()..).and_then(<[u8]>::first_chunk::<20>);
    parsed.key.is_ip() && header.is_some_and(|header| header[0] == 0x45 && header[6] & 0x40 == 0)
}

/// Calls `send` with each fragment of at most `mtu` bytes, in a buffer of its own that begins with room for an Ethernet header. False if memory
/// ran out; the fragments sent by then are lost on the receiver, as RFC 791 has it.
pub(crate) fn fragment<B: PacketBuffer, T: Transmit<B>>(
    data: &[u8],
    parsed: &Parsed,
    mtu: u16,
    io: &mut T,
    mut send: impl FnMut(B, &Parsed, &mut T),
) -> bool {
    let network = parsed.network();
    let Some(packet) = data.get(network..network + usize::from(parsed.network_length)) else { return false };
    let Some((header, payload)) = packet.split_first_chunk::<20>() else { return false };
    let flags = u16::from_be_bytes([header[6], header[7]]);
    let (more, first) = (flags & 0x2000, flags & 0x1fff);
    let step = (usize::from(mtu).saturating_sub(20)) & !7;
    if step == 0 {
        return false;
    }
    let count = payload.len().div_ceil(step);
    for (number, piece) in payload.chunks(step).enumerate() {
        let Some(mut buffer) = io.allocate() else { return false };
        let length = 20 + piece.len();
        let Some(frame) = buffer.extend_back(14 + length) else { return false };
        frame[..12].fill(0);
        frame[12..14].copy_from_slice(&sluice_wire::EtherType::IPV4.0.to_be_bytes());
        let packet = &mut frame[14..];
        packet[..20].copy_from_slice(header);
        packet[20..].copy_from_slice(piece);
        let last = number + 1 == count;
        let offset = first + (number * step / 8) as u16;
        let flags = offset | if last { more } else { 0x2000 };
        packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        packet[6..8].copy_from_slice(&flags.to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let parsed = Parsed {
            network: 14,
            end: 14 + length as u16,
            network_length: length as u16,
            marks: parsed.marks & OUTER_ECN,
            ..*parsed
        };
        send(buffer, &parsed, io);
    }
    true
}
