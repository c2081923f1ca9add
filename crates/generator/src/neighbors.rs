//! Answers for the addresses that the generator plays: the routers on the uplinks, the host's TEPs on the downlinks.
//!
//! ARP (RFC 826) and neighbour solicitations (RFC 4861 section 7.2.4), nothing else. The MAC addresses of a node are known; those of another device
//! are asked for in the same way ([`questions`]), before the first trial, and learned from its answers ([`DeviceMacs`]).

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::aggregation::Outgoing;
use sluice_trial::topology::{Side, Topology, host_mac, path_mac};
use sluice_wire::arp::{Arp, ArpOperation, ArpPacket};
use sluice_wire::ethernet::EthernetView;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::ipv6::{Ipv6, Ipv6View};
use sluice_wire::neighbor::{
    NeighborAdvertisement, NeighborMessage, NeighborOption, NeighborView, solicited_node,
};
use sluice_wire::{EtherType, IpProtocol, MacAddr};

/// Shortest frame without frame check sequence.
const SHORTEST_FRAME: usize = 60;

/// What a frame is to neighbour resolution.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// A question, and the frame that answers it.
    Answer(Vec<u8>),
    /// The edge says which MAC address it has on the link.
    Edge(MacAddr),
    /// LACP, which has these frames to say.
    Aggregation(Vec<Outgoing>),
    /// Part of it, but no question to us.
    Silent,
    /// Something else.
    Other,
}

/// Looks at a frame that came in on a link.
pub(crate) fn resolve(topology: &Topology, link: usize, frame: &[u8]) -> Resolution {
    let Ok(ethernet) = EthernetView::parse(frame) else { return Resolution::Other };
    match ethernet.ether_type() {
        EtherType::ARP => arp(topology, link, ethernet.payload()),
        EtherType::IPV6 => solicitation(topology, link, &ethernet),
        _ => Resolution::Other,
    }
}

/// The MAC address that the generator has for an address on a link.
fn mac_of(topology: &Topology, link: usize, address: IpAddr) -> Option<MacAddr> {
    match topology.side(link) {
        (Side::Uplink, uplink) => {
            let is_its = |path: &u8| {
                let (v4, v6) = (topology.router_ipv4(*path).into(), topology.router_ipv6(*path).into());
                topology.uplink_of(*path) == uplink && [v4, v6].contains(&address)
            };
            (0..topology.paths).find(is_its).map(path_mac)
        }
        (Side::Downlink, downlink) => (topology.host_tep(downlink) == address).then(|| host_mac(downlink)),
    }
}

fn arp(topology: &Topology, link: usize, packet: &[u8]) -> Resolution {
    let Ok(packet) = ArpPacket::parse(packet) else { return Resolution::Other };
    let sender = packet.sender_address().into();
    if packet.operation() == ArpOperation::REPLY && topology.edge_addresses(link).contains(&sender) {
        return Resolution::Edge(packet.sender_mac());
    }
    let mac = mac_of(topology, link, packet.target_address().into());
    let Some(mac) = mac.filter(|_| packet.operation() == ArpOperation::REQUEST) else {
        return Resolution::Silent;
    };
    let reply = Arp::from(packet).reply(mac);
    answer(FrameBuilder::new().ethernet(mac, packet.sender_mac()).arp(reply))
}

fn solicitation(topology: &Topology, link: usize, ethernet: &EthernetView<'_>) -> Resolution {
    let Ok(ip) = Ipv6View::parse(ethernet.payload()) else { return Resolution::Other };
    if ip.upper_layer() != IpProtocol::ICMPV6 {
        return Resolution::Other;
    }
    let Ok(message) = NeighborView::parse(ip.upper_payload()) else { return Resolution::Other };
    let target = match message.message() {
        NeighborMessage::NeighborSolicitation { target } => target,
        NeighborMessage::NeighborAdvertisement(NeighborAdvertisement { target, .. })
            if topology.edge_addresses(link).contains(&target.into()) =>
        {
            // An answer to one alone may leave the option out (RFC 4861 section 4.4).
            let option = message.options().find_map(|option| match option {
                NeighborOption::TargetLinkLayer(mac) => Some(mac),
                _ => None,
            });
            return Resolution::Edge(option.unwrap_or(ethernet.source()));
        }
        _ => return Resolution::Silent,
    };
    // The unspecified source is another's check for duplicates (RFC 4862 section 5.4), who has the address to himself here.
    let mac = mac_of(topology, link, target.into()).filter(|_| !ip.source().is_unspecified());
    let Some(mac) = mac else { return Resolution::Silent };
    let advertisement = NeighborAdvertisement { router: true, solicited: true, override_cache: true, target };
    let option = [NeighborOption::TargetLinkLayer(mac)];
    let header = Ipv6 { hop_limit: 255, ..Ipv6::new(target, ip.source(), IpProtocol::ICMPV6) };
    answer(
        FrameBuilder::new()
            .ethernet(mac, ethernet.source())
            .ipv6_header(header)
            .neighbor(NeighborMessage::NeighborAdvertisement(advertisement), &option),
    )
}

fn answer(frame: FrameBuilder) -> Resolution {
    built(frame).map_or(Resolution::Silent, Resolution::Answer)
}

fn built(frame: FrameBuilder) -> Option<Vec<u8>> {
    let mut bytes = frame.build().ok()?;
    bytes.resize(bytes.len().max(SHORTEST_FRAME), 0);
    Some(bytes)
}

/// Frames that ask for the edge's MAC address on a link, one for each of its addresses.
pub(crate) fn questions(topology: &Topology, link: usize) -> Vec<Vec<u8>> {
    let own = match topology.side(link) {
        (Side::Uplink, path) => {
            (path_mac(path), vec![topology.router_ipv4(path).into(), topology.router_ipv6(path).into()])
        }
        (Side::Downlink, downlink) => (host_mac(downlink), vec![topology.host_tep(downlink)]),
    };
    let (mac, addresses) = own;
    let question = |(own, edge): (IpAddr, IpAddr)| match (own, edge) {
        (IpAddr::V4(own), IpAddr::V4(edge)) => {
            let request = Arp::request(mac, own, edge);
            built(FrameBuilder::new().ethernet(mac, MacAddr::BROADCAST).arp(request))
        }
        (IpAddr::V6(own), IpAddr::V6(edge)) => {
            let group = solicited_node(edge);
            let header = Ipv6 { hop_limit: 255, ..Ipv6::new(own, group, IpProtocol::ICMPV6) };
            let frame = FrameBuilder::new().ethernet(mac, multicast_mac(group)).ipv6_header(header);
            let message = NeighborMessage::NeighborSolicitation { target: edge };
            built(frame.neighbor(message, &[NeighborOption::SourceLinkLayer(mac)]))
        }
        _ => None,
    };
    addresses.into_iter().zip(topology.edge_addresses(link)).filter_map(question).collect()
}

/// The MAC address of an IPv6 multicast group (RFC 2464 section 7).
const fn multicast_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// What an edge has said of its MAC addresses, by link; every core of the generator may hear it.
pub(crate) struct DeviceMacs(Vec<AtomicU64>);

impl DeviceMacs {
    /// Nothing heard yet.
    pub(crate) fn new(links: usize) -> Self {
        Self((0..links).map(|_| AtomicU64::new(0)).collect())
    }

    /// Notes what was heard on a link.
    pub(crate) fn learn(&self, link: usize, mac: MacAddr) {
        let [a, b, c, d, e, f] = mac.0;
        self.0[link].store(u64::from_be_bytes([0, 0, a, b, c, d, e, f]), Ordering::Relaxed);
    }

    /// What was heard last.
    pub(crate) fn of(&self, link: usize) -> Option<MacAddr> {
        match self.0[link].load(Ordering::Relaxed).to_be_bytes() {
            [0, 0, 0, 0, 0, 0, 0, 0] => None,
            [_, _, mac @ ..] => Some(MacAddr(mac)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sluice_trial::topology::{EdgeMacs, uplink_ipv4, uplink_ipv6, uplink_mac};
    use sluice_trial::traffic::Family;

    use super::*;

    /// Two uplinks with three paths, two downlinks.
    const TOPOLOGY: Topology = Topology {
        uplinks: 2,
        downlinks: 2,
        lag: false,
        paths: 3,
        encapsulation: sluice_trial::traffic::Encapsulation::Geneve,
        outer: Family::Ipv4,
        edge: EdgeMacs::NODE,
    };

    fn request(target: Ipv4Addr) -> Vec<u8> {
        let arp = Arp::request(uplink_mac(0), uplink_ipv4(0), target);
        FrameBuilder::new().ethernet(uplink_mac(0), MacAddr::BROADCAST).arp(arp).build().unwrap()
    }

    fn solicitation(source: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
        let message = NeighborMessage::NeighborSolicitation { target };
        let header = Ipv6 { hop_limit: 255, ..Ipv6::new(source, solicited_node(target), IpProtocol::ICMPV6) };
        let frame = FrameBuilder::new().ethernet(uplink_mac(0), MacAddr::BROADCAST).ipv6_header(header);
        frame.neighbor(message, &[NeighborOption::SourceLinkLayer(uplink_mac(0))]).build().unwrap()
    }

    #[test]
    fn each_link_answers_for_its_own_addresses() {
        let tep = |downlink| match TOPOLOGY.host_tep(downlink) {
            IpAddr::V4(tep) => tep,
            IpAddr::V6(_) => panic!("of the other family"),
        };
        let mine = [
            (0, TOPOLOGY.router_ipv4(0), path_mac(0)),
            (0, TOPOLOGY.router_ipv4(2), path_mac(2)),
            (1, TOPOLOGY.router_ipv4(1), path_mac(1)),
            (2, tep(0), host_mac(0)),
            (3, tep(1), host_mac(1)),
        ];
        for (link, address, mac) in mine {
            let Resolution::Answer(reply) = resolve(&TOPOLOGY, link, &request(address)) else {
                panic!("no answer for {address}")
            };
            assert_eq!(reply.len(), 60);
            let ethernet = EthernetView::parse(&reply).unwrap();
            assert_eq!((ethernet.source(), ethernet.destination()), (mac, uplink_mac(0)));
            let packet = ArpPacket::parse(ethernet.payload()).unwrap();
            assert_eq!((packet.operation(), packet.sender_mac()), (ArpOperation::REPLY, mac));
            assert_eq!((packet.sender_address(), packet.target_address()), (address, uplink_ipv4(0)));
            for other in (0..4).filter(|other| *other != link) {
                assert_eq!(resolve(&TOPOLOGY, other, &request(address)), Resolution::Silent);
            }
            assert_eq!(resolve(&TOPOLOGY, link, &reply), Resolution::Silent);
        }
    }

    #[test]
    fn every_link_of_a_lag_answers_for_its_one_tep() {
        let topology = Topology { lag: true, ..TOPOLOGY };
        let IpAddr::V4(tep) = topology.host_tep(0) else { panic!("of the other family") };
        for link in [2, 3] {
            assert!(matches!(resolve(&topology, link, &request(tep)), Resolution::Answer(_)), "{link}");
        }
        assert_eq!(resolve(&topology, 1, &request(tep)), Resolution::Silent);
    }

    #[test]
    fn a_solicitation_is_answered_with_an_advertisement() {
        let (source, target) = (uplink_ipv6(0), TOPOLOGY.router_ipv6(2));
        let Resolution::Answer(reply) = resolve(&TOPOLOGY, 0, &solicitation(source, target)) else {
            panic!("no answer")
        };
        let ethernet = EthernetView::parse(&reply).unwrap();
        let ip = Ipv6View::parse(ethernet.payload()).unwrap();
        assert_eq!((ip.source(), ip.destination(), ip.hop_limit()), (target, source, 255));
        let view = NeighborView::parse(ip.upper_payload()).unwrap();
        let options: Vec<_> = view.options().collect();
        assert_eq!(options, [NeighborOption::TargetLinkLayer(path_mac(2))]);
        let NeighborMessage::NeighborAdvertisement(advertisement) = view.message() else {
            panic!("no advertisement")
        };
        assert!(advertisement.solicited && advertisement.target == target);
        assert_eq!(resolve(&TOPOLOGY, 1, &solicitation(source, target)), Resolution::Silent);
        let unspecified = solicitation(Ipv6Addr::UNSPECIFIED, target);
        assert_eq!(resolve(&TOPOLOGY, 0, &unspecified), Resolution::Silent);
        let six = Topology { outer: Family::Ipv6, ..TOPOLOGY };
        let IpAddr::V6(tep) = six.host_tep(1) else { panic!("of the other family") };
        assert!(matches!(resolve(&six, 3, &solicitation(source, tep)), Resolution::Answer(_)));
        assert_eq!(resolve(&six, 0, &[0; 60]), Resolution::Other);
    }

    /// The edge answers as we would: what it says is heard, and nothing that others say.
    #[test]
    fn the_edge_is_asked_on_every_link_and_heard() {
        let device = MacAddr([0x02, 7, 7, 7, 7, 7]);
        let six = Topology { outer: Family::Ipv6, ..TOPOLOGY };
        for (topology, link, count) in [(TOPOLOGY, 0, 2), (TOPOLOGY, 1, 2), (TOPOLOGY, 3, 1), (six, 2, 1)] {
            let asked = questions(&topology, link);
            assert_eq!(asked.len(), count);
            for question in asked {
                let ethernet = EthernetView::parse(&question).unwrap();
                let answer = match ethernet.ether_type() {
                    EtherType::ARP => {
                        let packet = ArpPacket::parse(ethernet.payload()).unwrap();
                        assert_eq!(topology.edge_addresses(link)[0], packet.target_address());
                        let reply = Arp::from(packet).reply(device);
                        FrameBuilder::new().ethernet(device, ethernet.source()).arp(reply).build().unwrap()
                    }
                    _ => {
                        let ip = Ipv6View::parse(ethernet.payload()).unwrap();
                        assert!(ip.hop_limit() == 255 && ethernet.destination().0[..3] == [0x33, 0x33, 0xff]);
                        let view = NeighborView::parse(ip.upper_payload()).unwrap();
                        let NeighborMessage::NeighborSolicitation { target } = view.message() else {
                            panic!("no solicitation")
                        };
                        assert!(topology.edge_addresses(link).contains(&target.into()));
                        advertisement(device, target, ip.source())
                    }
                };
                assert_eq!(resolve(&topology, link, &answer), Resolution::Edge(device));
                let other = usize::from(link == 0);
                assert_eq!(resolve(&topology, other, &answer), Resolution::Silent, "it is of another link");
            }
        }
        let macs = DeviceMacs::new(2);
        macs.learn(1, device);
        assert_eq!([macs.of(0), macs.of(1)], [None, Some(device)]);
    }

    fn advertisement(device: MacAddr, target: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
        let told = NeighborAdvertisement { router: true, solicited: true, override_cache: true, target };
        let header = Ipv6 { hop_limit: 255, ..Ipv6::new(target, to, IpProtocol::ICMPV6) };
        let frame = FrameBuilder::new().ethernet(device, host_mac(0)).ipv6_header(header);
        frame.neighbor(NeighborMessage::NeighborAdvertisement(told), &[]).build().unwrap()
    }
}
