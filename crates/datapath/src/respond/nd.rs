//! Neighbour discovery on a segment (RFC 4861): what [`super::arp`] is for IPv4.

use std::net::{IpAddr, Ipv6Addr};

use sluice_wire::checksum::PseudoHeader;
use sluice_wire::neighbor::solicited_node;
use sluice_wire::{EtherType, IpProtocol, MacAddr};

use super::arp::{Answer, Owner, owner};
use crate::drops::DropReason;
use crate::snapshot::IngressKind;
use crate::snapshot::segment::Segment;

/// Ethernet, IPv6, neighbour advertisement, target link-layer address option.
pub(crate) const FRAME: usize = 14 + 40 + 24 + 8;

const SOLICITATION: u8 = 135;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Decides on a neighbour discovery message; `frame` begins with the Ethernet header, its IPv6 packet at `network`.
pub(crate) fn answer(segment: &Segment, from: IngressKind, frame: &[u8], network: usize) -> Answer<FRAME> {
    let Some(solicitation) = Solicitation::parse(frame, network) else {
        let is_solicitation = frame.get(network + 40) == Some(&SOLICITATION);
        return if is_solicitation { Answer::Drop(DropReason::Malformed) } else { Answer::Switch };
    };
    match owner(segment, from, solicitation.target.into(), IpAddr::V6(solicitation.source)) {
        Owner::Known { mac, gateway } => Answer::Reply(advertisement(&solicitation, mac, gateway)),
        Owner::Unknown => Answer::Switch,
        Owner::Elsewhere => Answer::Drop(DropReason::Consumed),
    }
}

struct Solicitation {
    sender: MacAddr,
    source: Ipv6Addr,
    target: Ipv6Addr,
}

impl Solicitation {
    /// A valid neighbour solicitation without extension headers (RFC 4861 section 7.1.1).
    fn parse(frame: &[u8], network: usize) -> Option<Self> {
        let sender = MacAddr(*frame.get(6..)?.first_chunk()?);
        let header: &[u8; 40] = frame.get(network..)?.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let message = frame.get(network + 40..network + 40 + length)?;
        let source = Ipv6Addr::from(*header[8..].first_chunk::<16>()?);
        let destination = Ipv6Addr::from(*header[24..].first_chunk::<16>()?);
        let target = Ipv6Addr::from(*message.get(8..)?.first_chunk::<16>()?);
        let hop_limit = header[7];
        let plain = header[6] == IpProtocol::ICMPV6.0 && message[0] == SOLICITATION && message[1] == 0;
        let intact = PseudoHeader::ipv6(source, destination).verify_icmpv6(message);
        let tells_source = tells_link_layer_address(message.get(24..)?)?;
        let detection = destination == solicited_node(target) && !tells_source;
        let valid = plain && intact && hop_limit == 255 && !target.is_multicast();
        (valid && (detection || !source.is_unspecified())).then_some(Self { sender, source, target })
    }
}

/// Whether the sender's link-layer address is among the options; none if an option has no length or ends behind the message.
fn tells_link_layer_address(mut options: &[u8]) -> Option<bool> {
    const SOURCE: u8 = 1;
    let mut tells = false;
    while let Some(kind) = options.first() {
        let length = usize::from(*options.get(1)?) * 8;
        tells |= *kind == SOURCE;
        options = options.get(length..).filter(|_| length > 0)?;
    }
    Some(tells)
}

fn advertisement(solicitation: &Solicitation, mac: MacAddr, gateway: bool) -> [u8; FRAME] {
    const OVERRIDE: u8 = 0x20;
    const SOLICITED: u8 = 0x40;
    const ROUTER: u8 = 0x80;
    // Duplicate address detection asks without an address, and is answered to all (RFC 4861 section 7.2.4). The frame goes to the one that
    // asks (RFC 6085): everybody else on the segment knows this address already, and there may be tunnels in between.
    let detection = solicitation.source.is_unspecified();
    let destination = if detection { ALL_NODES } else { solicitation.source };
    let mut flags = OVERRIDE;
    if !detection {
        flags |= SOLICITED;
    }
    if gateway {
        flags |= ROUTER;
    }
    let mut frame = [0; FRAME];
    frame[..6].copy_from_slice(&solicitation.sender.octets());
    frame[6..12].copy_from_slice(&mac.octets());
    frame[12..14].copy_from_slice(&EtherType::IPV6.0.to_be_bytes());
    frame[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, 32, IpProtocol::ICMPV6.0, 255]);
    frame[22..38].copy_from_slice(&solicitation.target.octets());
    frame[38..54].copy_from_slice(&destination.octets());
    let message = &mut frame[54..];
    message[0] = 136;
    message[4] = flags;
    message[8..24].copy_from_slice(&solicitation.target.octets());
    message[24..26].copy_from_slice(&[2, 1]);
    message[26..32].copy_from_slice(&mac.octets());
    let checksum = PseudoHeader::ipv6(solicitation.target, destination).icmpv6(message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    frame
}
