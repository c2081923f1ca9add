//! Frames of ARP and neighbour discovery: what is read of them, and how they are made.

use std::net::{IpAddr, Ipv6Addr};

use sluice_wire::arp::{Arp, ArpOperation, ArpPacket};
use sluice_wire::ethernet::EthernetView;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::icmpv6::Icmpv6View;
use sluice_wire::ipv6::{Ipv6, Ipv6View};
use sluice_wire::neighbor::{
    NeighborAdvertisement, NeighborMessage, NeighborOption, NeighborView, solicited_node,
};
use sluice_wire::{EtherType, IpProtocol, MacAddr, VlanId};

/// Shortest frame of Ethernet without its frame check sequence (IEEE 802.3 §3.2.8).
const MIN_FRAME_LEN: usize = 60;

/// The hop limit of neighbour discovery: no router lets a packet with it pass (RFC 4861 §3.1).
const HOP_LIMIT: u8 = 255;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A frame that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    /// Who sent the frame.
    pub(super) source: MacAddr,
    /// Whom it is for.
    pub(super) destination: MacAddr,
    /// What it says.
    pub(super) message: Message,
}

/// A valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// An ARP request.
    Request(Arp),
    /// An ARP reply.
    Reply(Arp),
    /// A neighbour solicitation.
    Solicitation {
        /// Who asks; unspecified for duplicate address detection (RFC 4862 §5.4.2).
        source: Ipv6Addr,
        /// Where the message went.
        destination: Ipv6Addr,
        /// The MAC address of who asks.
        mac: Option<MacAddr>,
        /// Who is asked for.
        target: Ipv6Addr,
    },
    /// A neighbour advertisement.
    Advertisement {
        /// Where the message went.
        destination: Ipv6Addr,
        /// The MAC address of the target.
        mac: Option<MacAddr>,
        /// The message's own fields.
        fields: NeighborAdvertisement,
    },
}

/// Reads a frame of `vlan`, which may still have its tag. `None` for everything that is no valid request, reply,
/// solicitation or advertisement.
pub(super) fn read(vlan: Option<VlanId>, frame: &[u8]) -> Option<Received> {
    let ethernet = EthernetView::parse(frame).ok()?;
    let tag_fits = ethernet.outer_tag().is_none_or(|tag| tag.id == vlan.unwrap_or(VlanId::UNTAGGED));
    if !tag_fits || ethernet.inner_tag().is_some() {
        return None;
    }
    let message = match ethernet.ether_type() {
        EtherType::ARP => read_arp(ethernet.payload())?,
        EtherType::IPV6 => read_discovery(ethernet.payload())?,
        _ => return None,
    };
    Some(Received { source: ethernet.source(), destination: ethernet.destination(), message })
}

fn read_arp(packet: &[u8]) -> Option<Message> {
    let packet = ArpPacket::parse(packet).ok()?;
    match packet.operation() {
        ArpOperation::REQUEST => Some(Message::Request(packet.into())),
        ArpOperation::REPLY => Some(Message::Reply(packet.into())),
        _ => None,
    }
}

/// The checks of RFC 4861 §7.1.1 and §7.1.2.
fn read_discovery(packet: &[u8]) -> Option<Message> {
    let packet = Ipv6View::parse(packet).ok()?;
    if packet.next_header() != IpProtocol::ICMPV6 || packet.hop_limit() != HOP_LIMIT {
        return None;
    }
    Icmpv6View::parse(packet.payload()).ok()?.verify_checksum(packet.pseudo_header()).ok()?;
    let view = NeighborView::parse(packet.payload()).ok()?;
    let (source, destination) = (packet.source(), packet.destination());
    match view.message() {
        NeighborMessage::NeighborSolicitation { target } => {
            let mac = view.options().find_map(|option| match option {
                NeighborOption::SourceLinkLayer(mac) => Some(mac),
                _ => None,
            });
            let detection = source.is_unspecified();
            let valid = !target.is_multicast()
                && (!detection || mac.is_none() && destination == solicited_node(target));
            valid.then_some(Message::Solicitation { source, destination, mac, target })
        }
        NeighborMessage::NeighborAdvertisement(fields) => {
            let mac = view.options().find_map(|option| match option {
                NeighborOption::TargetLinkLayer(mac) => Some(mac),
                _ => None,
            });
            let valid = !(fields.target.is_multicast() || fields.solicited && destination.is_multicast());
            valid.then_some(Message::Advertisement { destination, mac, fields })
        }
        _ => None,
    }
}

/// Asks for `target` from the own address `source` at `mac`: everybody, or only the station `known`. `None` where
/// source and target are not of one family.
pub(super) fn question(
    mac: MacAddr,
    source: IpAddr,
    target: IpAddr,
    known: Option<MacAddr>,
) -> Option<Vec<u8>> {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            arp(mac, known.unwrap_or(MacAddr::BROADCAST), Arp::request(mac, source, target))
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let group = solicited_node(target);
            let (station, destination) = known.map_or((group_mac(group), group), |mac| (mac, target));
            let message = NeighborMessage::NeighborSolicitation { target };
            discovery(mac, station, source, destination, message, NeighborOption::SourceLinkLayer(mac))
        }
        _ => None,
    }
}

/// Answers the ARP request `request`: its target is at `mac`.
pub(super) fn reply(mac: MacAddr, request: &Arp) -> Option<Vec<u8>> {
    arp(mac, request.sender_mac, request.reply(mac))
}

/// Says that `target` is at `mac`: to `asker` and its MAC address, or to all nodes where nobody asked or the asker has
/// no address yet (RFC 4861 §7.2.4).
pub(super) fn advertisement(
    mac: MacAddr,
    target: Ipv6Addr,
    asker: Option<(Ipv6Addr, MacAddr)>,
) -> Option<Vec<u8>> {
    let (destination, station) = asker.unwrap_or((ALL_NODES, group_mac(ALL_NODES)));
    let message = NeighborMessage::NeighborAdvertisement(NeighborAdvertisement {
        // The node forwards. Hosts drop a default router that says that it is none (RFC 4861 §7.2.5).
        router: true,
        solicited: asker.is_some(),
        override_cache: true,
        target,
    });
    discovery(mac, station, target, destination, message, NeighborOption::TargetLinkLayer(mac))
}

/// Announces that the own address `address` is at `mac` (RFC 5227 §2.3, RFC 4861 §7.2.6).
pub(super) fn announcement(mac: MacAddr, address: IpAddr) -> Option<Vec<u8>> {
    match address {
        IpAddr::V4(address) => arp(mac, MacAddr::BROADCAST, Arp::announcement(mac, address)),
        IpAddr::V6(address) => advertisement(mac, address, None),
    }
}

fn arp(source: MacAddr, destination: MacAddr, packet: Arp) -> Option<Vec<u8>> {
    padded(&FrameBuilder::new().ethernet(source, destination).arp(packet))
}

fn discovery(
    mac: MacAddr,
    station: MacAddr,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    message: NeighborMessage,
    option: NeighborOption<'_>,
) -> Option<Vec<u8>> {
    let header = Ipv6 { hop_limit: HOP_LIMIT, ..Ipv6::new(source, destination, IpProtocol::ICMPV6) };
    padded(&FrameBuilder::new().ethernet(mac, station).ipv6_header(header).neighbor(message, &[option]))
}

/// The frame; these few layers of fixed length are never refused.
fn padded(frame: &FrameBuilder) -> Option<Vec<u8>> {
    let mut octets = frame.build().ok()?;
    octets.resize(octets.len().max(MIN_FRAME_LEN), 0);
    Some(octets)
}

/// The MAC address of an IPv6 multicast group (RFC 2464 §7).
fn group_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}
