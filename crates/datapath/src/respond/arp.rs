//! ARP on a segment (RFC 826): the gateway's own addresses, and suppression: requests for workloads that the plan knows are
//! answered here instead of being sent to every node.

use std::net::IpAddr;

use sluice_wire::arp::{ArpOperation, ArpPacket};
use sluice_wire::{EtherType, MacAddr};

use crate::drops::DropReason;
use crate::snapshot::IngressKind;
use crate::snapshot::segment::{Place, Segment};

/// What is to happen to an ARP packet or a neighbour solicitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer<const N: usize> {
    /// This frame goes back to the sender.
    Reply([u8; N]),
    /// The packet goes on through the switch.
    Switch,
    /// Nothing is left to do.
    Drop(DropReason),
}

/// An Ethernet header and an ARP packet.
pub(crate) const FRAME: usize = 14 + 28;

/// Decides on an ARP packet that came in at `from`; `packet` begins behind the Ethernet header.
pub(crate) fn answer(segment: &Segment, from: IngressKind, packet: &[u8]) -> Answer<FRAME> {
    let Ok(arp) = ArpPacket::parse(packet) else { return Answer::Drop(DropReason::Malformed) };
    if arp.operation() != ArpOperation::REQUEST {
        return Answer::Switch;
    }
    let target = IpAddr::V4(arp.target_address());
    match owner(segment, from, target, IpAddr::V4(arp.sender_address())) {
        Owner::Known { mac, .. } => Answer::Reply(reply(arp, mac)),
        Owner::Unknown => Answer::Switch,
        Owner::Elsewhere => Answer::Drop(DropReason::Consumed),
    }
}

/// Who has an address, and whether it is this node that says so.
pub(crate) enum Owner {
    Known {
        mac: MacAddr,
        gateway: bool,
    },
    /// Ask the segment.
    Unknown,
    /// Somebody else answers.
    Elsewhere,
}

/// Who answers for `target` towards a sender with address `sender` at `from`.
pub(crate) fn owner(segment: &Segment, from: IngressKind, target: IpAddr, sender: IpAddr) -> Owner {
    let tunnel = matches!(from, IngressKind::Tunnel { .. });
    if let Some(gateway) = &segment.gateway
        && gateway.addresses.contains(&target)
    {
        return if tunnel && !gateway.answers_tunnels {
            Owner::Elsewhere
        } else {
            Owner::Known { mac: gateway.mac, gateway: true }
        };
    }
    // An announcement is for everybody (RFC 5227 section 3); what comes from another node was not suppressed there.
    if tunnel || sender == target {
        return Owner::Unknown;
    }
    match (segment.workloads.get(&target), from) {
        // The workload asks for its own address before it uses it (RFC 5227 section 2.1.1).
        (Some((_, Place::Local { port, vlan })), IngressKind::Workload { port: same, vlan: tag, .. })
            if (*port, *vlan) == (same, tag) =>
        {
            Owner::Unknown
        }
        (Some((mac, _)), _) => Owner::Known { mac: *mac, gateway: false },
        (None, _) => Owner::Unknown,
    }
}

fn reply(request: &ArpPacket, mac: MacAddr) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    let (ethernet, arp) = frame.split_at_mut(14);
    ethernet[..6].copy_from_slice(&request.sender_mac().octets());
    ethernet[6..12].copy_from_slice(&mac.octets());
    ethernet[12..].copy_from_slice(&EtherType::ARP.0.to_be_bytes());
    arp[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 2]);
    arp[8..14].copy_from_slice(&mac.octets());
    arp[14..18].copy_from_slice(&request.target_address().octets());
    arp[18..24].copy_from_slice(&request.sender_mac().octets());
    arp[24..].copy_from_slice(&request.sender_address().octets());
    frame
}
