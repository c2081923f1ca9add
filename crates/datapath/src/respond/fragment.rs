//! Fragmentation of IPv4 packets that are longer than the MTU of where they go (RFC 791 section 3.2, RFC 1812 section 5.2.6).

use sluice_wire::{EtherType, checksum};

use crate::buffer::{PacketBuffer, Transmit};
use crate::drops::DropReason;
use crate::parse::{OUTER_ECN, Parsed};
use crate::rewrite::compiled::Refused;

/// Longest IPv4 header.
const MAX_HEADER: usize = 60;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
/// In an option's type: every fragment carries it.
const COPIED: u8 = 0x80;

/// Whether the packet may be fragmented here: IPv4, without the don't-fragment bit.
pub(crate) fn may_fragment(data: &[u8], parsed: &Parsed) -> bool {
    let header = data.get(parsed.network()..).and_then(<[u8]>::first_chunk::<20>);
    parsed.key.is_ip() && !parsed.key.is_ipv6() && header.is_some_and(|header| header[6] & 0x40 == 0)
}

/// Calls `send` with each fragment of at most `mtu` bytes, in a buffer of its own that begins with room for an Ethernet header. Ends at the first
/// refusal, or with [`Refused::NoRoom`] if memory ran out; the fragments sent by then are lost on the receiver, as RFC 791 has it.
pub(crate) fn fragment<B: PacketBuffer, T: Transmit<B>>(
    data: &[u8],
    parsed: &Parsed,
    mtu: u16,
    io: &mut T,
    mut send: impl FnMut(B, &Parsed, &mut T) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let network = parsed.network();
    let packet = data.get(network..network + usize::from(parsed.network_length)).unwrap_or(&[]);
    let (mut header, mut rest) = Header::split(packet).ok_or(Refused::TooBig)?;
    let later = header.of_later_fragments();
    let field = header.flags_and_offset();
    let (flags, mut offset) = (field & !OFFSET, field & OFFSET);
    while !rest.is_empty() {
        let room = usize::from(mtu).saturating_sub(header.length);
        // All fragments but the last are a multiple of eight bytes long.
        let size = if rest.len() <= room { rest.len() } else { room & !7 };
        let (piece, left) = rest.split_at(size);
        if piece.is_empty() {
            return Err(Refused::TooBig);
        }
        // Of a fragment, the last piece is not the last of the packet.
        header.set(size, offset | flags | if left.is_empty() { 0 } else { MORE_FRAGMENTS });
        let length = (header.length + size) as u16;
        let parsed = Parsed {
            network: 14,
            end: 14 + length,
            network_length: length,
            marks: parsed.marks & OUTER_ECN,
            ..*parsed
        };
        send(header.frame(piece, io)?, &parsed, io)?;
        offset += (size / 8) as u16;
        (header, rest) = (later, left);
    }
    Ok(())
}

/// The header of a fragment.
#[derive(Clone, Copy)]
struct Header {
    bytes: [u8; MAX_HEADER],
    length: usize,
}

impl Header {
    /// The header of a packet, and the data behind it.
    fn split(packet: &[u8]) -> Option<(Self, &[u8])> {
        let length = usize::from(packet.first()? & 0xf) * 4;
        let (header, data) = packet.split_at_checked(length)?;
        let mut bytes = [0; MAX_HEADER];
        bytes.get_mut(..length)?.copy_from_slice(header);
        (length >= 20).then_some((Self { bytes, length }, data))
    }

    /// The same with those options only that are not for the first fragment alone, and padded with zeros, which end the list.
    fn of_later_fragments(&self) -> Self {
        let (mut later, mut end) = (Self { bytes: [0; MAX_HEADER], length: 0 }, 20);
        later.bytes[..20].copy_from_slice(&self.bytes[..20]);
        let mut options = &self.bytes[20..self.length];
        // The parser has seen that each option has a length and ends in the header.
        while let [kind @ 1..=255, rest @ ..] = options {
            let length = if *kind == 1 { 1 } else { rest.first().map_or(0, |length| usize::from(*length)) };
            let Some((option, others)) = options.split_at_checked(length.max(1)) else { break };
            if kind & COPIED != 0 {
                later.bytes[end..end + option.len()].copy_from_slice(option);
                end += option.len();
            }
            options = others;
        }
        later.length = end.next_multiple_of(4);
        later.bytes[0] = 0x40 | (later.length / 4) as u8;
        later
    }

    fn flags_and_offset(&self) -> u16 {
        u16::from_be_bytes([self.bytes[6], self.bytes[7]])
    }

    /// Makes it the header of `size` bytes with these flags at this offset.
    fn set(&mut self, size: usize, flags_and_offset: u16) {
        self.bytes[2..4].copy_from_slice(&((self.length + size) as u16).to_be_bytes());
        self.bytes[6..8].copy_from_slice(&flags_and_offset.to_be_bytes());
        self.bytes[10..12].fill(0);
        let sum = checksum::checksum(&self.bytes[..self.length]);
        self.bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    /// A new buffer with room for an Ethernet header, this one, and the data behind it.
    fn frame<B: PacketBuffer, T: Transmit<B>>(&self, data: &[u8], io: &mut T) -> Result<B, Refused> {
        let mut buffer = io.allocate().ok_or(Refused::NoRoom)?;
        let Some(frame) = buffer.extend_back(14 + self.length + data.len()) else {
            io.discard(DropReason::NoBuffer, buffer);
            return Err(Refused::NoRoom);
        };
        let (ethernet, packet) = frame.split_at_mut(14);
        ethernet.fill(0);
        ethernet[12..].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
        packet[..self.length].copy_from_slice(&self.bytes[..self.length]);
        packet[self.length..].copy_from_slice(data);
        Ok(buffer)
    }
}
