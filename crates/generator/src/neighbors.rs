//! Answers for the addresses that the generator plays: the tester on the uplink, the host's TEP on the downlink.
//!
//! ARP (RFC 826) and neighbour solicitations (RFC 4861 section 7.2.4), nothing else: the generator asks nobody, since it knows all MAC addresses.

use sluice_bench::topology::{HOST_MAC, HOST_TEP, TESTER_IPV4, TESTER_IPV6, TESTER_MAC};
use sluice_wire::arp::{Arp, ArpOperation, ArpPacket};
use sluice_wire::ethernet::EthernetView;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::ipv6::Ipv6View;
use sluice_wire::neighbor::{NeighborAdvertisement, NeighborMessage, NeighborOption, NeighborView};
use sluice_wire::{EtherType, IpProtocol};

/// Shortest frame without frame check sequence.
const SHORTEST_FRAME: usize = 60;

/// What a frame is to neighbour resolution.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// A question, and the frame that answers it.
    Answer(Vec<u8>),
    /// Part of it, but no question to us.
    Silent,
    /// Something else.
    Other,
}

/// Looks at a frame that came in on a link.
pub(crate) fn resolve(link: usize, frame: &[u8]) -> Resolution {
    let Ok(ethernet) = EthernetView::parse(frame) else { return Resolution::Other };
    match ethernet.ether_type() {
        EtherType::ARP => arp(link, ethernet.payload()),
        EtherType::IPV6 => solicitation(link, &ethernet),
        _ => Resolution::Other,
    }
}

fn arp(link: usize, packet: &[u8]) -> Resolution {
    let Ok(packet) = ArpPacket::parse(packet) else { return Resolution::Other };
    let (address, mac) = if link == 0 { (TESTER_IPV4, TESTER_MAC) } else { (HOST_TEP, HOST_MAC) };
    if packet.operation() != ArpOperation::REQUEST || packet.target_address() != address {
        return Resolution::Silent;
    }
    let reply = Arp::from(packet).reply(mac);
    answer(FrameBuilder::new().ethernet(mac, packet.sender_mac()).arp(reply))
}

fn solicitation(link: usize, ethernet: &EthernetView<'_>) -> Resolution {
    let Ok(ip) = Ipv6View::parse(ethernet.payload()) else { return Resolution::Other };
    if ip.upper_layer() != IpProtocol::ICMPV6 {
        return Resolution::Other;
    }
    let Ok(message) = NeighborView::parse(ip.upper_payload()) else { return Resolution::Other };
    let NeighborMessage::NeighborSolicitation { target } = message.message() else {
        return Resolution::Silent;
    };
    // The unspecified source is another's check for duplicates (RFC 4862 section 5.4), who has the address to himself here.
    if link != 0 || target != TESTER_IPV6 || ip.source().is_unspecified() {
        return Resolution::Silent;
    }
    let advertisement = NeighborAdvertisement { router: true, solicited: true, override_cache: true, target };
    let option = [NeighborOption::TargetLinkLayer(TESTER_MAC)];
    let header = sluice_wire::ipv6::Ipv6 {
        hop_limit: 255,
        ..sluice_wire::ipv6::Ipv6::new(target, ip.source(), IpProtocol::ICMPV6)
    };
    answer(
        FrameBuilder::new()
            .ethernet(TESTER_MAC, ethernet.source())
            .ipv6_header(header)
            .neighbor(NeighborMessage::NeighborAdvertisement(advertisement), &option),
    )
}

fn answer(frame: FrameBuilder) -> Resolution {
    match frame.build() {
        Ok(mut bytes) => {
            bytes.resize(bytes.len().max(SHORTEST_FRAME), 0);
            Resolution::Answer(bytes)
        }
        Err(_) => Resolution::Silent,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use sluice_bench::topology::{EDGE_TEP, UPLINK_MAC};
    use sluice_wire::MacAddr;
    use sluice_wire::neighbor::solicited_node;

    use super::*;

    fn request(target: std::net::Ipv4Addr) -> Vec<u8> {
        let arp = Arp::request(UPLINK_MAC, EDGE_TEP, target);
        FrameBuilder::new().ethernet(UPLINK_MAC, MacAddr::BROADCAST).arp(arp).build().unwrap()
    }

    #[test]
    fn each_link_answers_for_its_own_address() {
        for (link, address, other, mac) in
            [(0, TESTER_IPV4, HOST_TEP, TESTER_MAC), (1, HOST_TEP, TESTER_IPV4, HOST_MAC)]
        {
            let Resolution::Answer(reply) = resolve(link, &request(address)) else { panic!("no answer") };
            assert_eq!(reply.len(), 60);
            let ethernet = EthernetView::parse(&reply).unwrap();
            assert_eq!((ethernet.source(), ethernet.destination()), (mac, UPLINK_MAC));
            let packet = ArpPacket::parse(ethernet.payload()).unwrap();
            assert_eq!((packet.operation(), packet.sender_mac()), (ArpOperation::REPLY, mac));
            assert_eq!((packet.sender_address(), packet.target_address()), (address, EDGE_TEP));
            assert_eq!(resolve(link, &request(other)), Resolution::Silent);
            assert_eq!(resolve(link, &reply), Resolution::Silent);
        }
    }

    #[test]
    fn a_solicitation_is_answered_with_an_advertisement() {
        let source: Ipv6Addr = "2001:db8:2::2".parse().unwrap();
        let solicit = |source: Ipv6Addr| {
            let message = NeighborMessage::NeighborSolicitation { target: TESTER_IPV6 };
            let header = sluice_wire::ipv6::Ipv6 {
                hop_limit: 255,
                ..sluice_wire::ipv6::Ipv6::new(source, solicited_node(TESTER_IPV6), IpProtocol::ICMPV6)
            };
            let frame = FrameBuilder::new().ethernet(UPLINK_MAC, MacAddr::BROADCAST).ipv6_header(header);
            frame.neighbor(message, &[NeighborOption::SourceLinkLayer(UPLINK_MAC)]).build().unwrap()
        };
        let Resolution::Answer(reply) = resolve(0, &solicit(source)) else { panic!("no answer") };
        let ethernet = EthernetView::parse(&reply).unwrap();
        let ip = Ipv6View::parse(ethernet.payload()).unwrap();
        assert_eq!((ip.source(), ip.destination(), ip.hop_limit()), (TESTER_IPV6, source, 255));
        let view = NeighborView::parse(ip.upper_payload()).unwrap();
        let options: Vec<_> = view.options().collect();
        assert_eq!(options, [NeighborOption::TargetLinkLayer(TESTER_MAC)]);
        assert!(matches!(
            view.message(),
            NeighborMessage::NeighborAdvertisement(NeighborAdvertisement {
                solicited: true,
                target: TESTER_IPV6,
                ..
            })
        ));
        assert_eq!(resolve(1, &solicit(source)), Resolution::Silent);
        assert_eq!(resolve(0, &solicit(Ipv6Addr::UNSPECIFIED)), Resolution::Silent);
        assert_eq!(resolve(0, &[0; 60]), Resolution::Other);
    }
}
