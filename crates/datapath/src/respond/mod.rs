//! Packets that the node itself sends in answer to others: ARP and neighbour advertisements for gateways and known workloads, echo
//! replies, ICMP errors; and fragments of what is too long.
//!
//! Called by the engine's slow path. Answers are built in the buffer of the packet that caused them.

pub(crate) mod arp;
pub(crate) mod bfd;
pub(crate) mod fragment;
pub(crate) mod icmp;
pub(crate) mod nd;

use crate::buffer::PacketBuffer;

/// Makes the buffer hold exactly `frame`, which replaces everything from its `start` on. False if there is no room.
pub(crate) fn replace<B: PacketBuffer>(buffer: &mut B, start: usize, frame: &[u8]) -> bool {
    if buffer.replace_front(start, 0).is_none() {
        return false;
    }
    let length = buffer.data().len();
    if length < frame.len() && buffer.extend_back(frame.len() - length).is_none() {
        return false;
    }
    buffer.truncate(frame.len());
    buffer.data_mut().copy_from_slice(frame);
    true
}

/// Puts `tag` behind the MAC addresses of an untagged frame. False if there is no room.
pub(crate) fn insert_tag<B: PacketBuffer>(buffer: &mut B, tag: u16) -> bool {
    let Some(data) = buffer.replace_front(0, 4) else { return false };
    if data.len() < 18 {
        return false;
    }
    data.copy_within(4..16, 0);
    data[12..14].copy_from_slice(&sluice_wire::EtherType::VLAN.0.to_be_bytes());
    data[14..16].copy_from_slice(&tag.to_be_bytes());
    true
}
