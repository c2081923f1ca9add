//! One test for each mistake that was found, with what is right and where that is written.

mod errors;
mod fragments;
mod segments;
mod tunnels;

use std::net::IpAddr;

use sluice_datapath::drops::DropReason;
use sluice_datapath::punt::PuntKind;
use sluice_intent::plan::{DEFAULT_ROUTER_MAC, Plan, PortIndex};
use sluice_wire::MacAddr;
use sluice_wire::checksum::verify;

use crate::common::bytes::{self, IpHeader};
use crate::common::node::{Done, Node, port_mac};
use crate::common::plans::{self, ACCESS, ACCESS_2, FABRIC, UPLINK, address, workload_mac};

const STRANGER: MacAddr = MacAddr([0x02, 0xee, 0, 0, 0, 1]);
/// Where the IP packet begins in a frame without a tag.
const IP: usize = 14;
/// Where the inner frame begins in an untagged packet of a tunnel over IPv4.
const INNER: usize = 14 + 20 + 8 + 8;
/// The gateway's link-local address on every segment.
const GATEWAY_LINK_LOCAL: &str = "fe80::50:56ff:fe56:4452";

fn node(plan: &Plan) -> Node {
    let mut node = Node::new(plan, true);
    let keys = plans::neighbors(plan).into_iter().enumerate();
    let all: Vec<_> = keys.map(|(number, key)| (key, Some(plans::neighbor_mac(number)))).collect();
    node.set_neighbors(&all);
    node
}

fn edge() -> Node {
    node(&plans::edge())
}

fn ethertype(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 4 { bytes::IPV4 } else { bytes::IPV6 }
}

/// From the first workload, which is on [`ACCESS`] without a VLAN, to its gateway's MAC address.
fn from_workload(packet: &[u8]) -> Vec<u8> {
    bytes::ethernet(DEFAULT_ROUTER_MAC, workload_mac(0), ethertype(packet), packet)
}

fn from_physical_network(packet: &[u8]) -> Vec<u8> {
    bytes::ethernet(port_mac(0), STRANGER, ethertype(packet), packet)
}

/// From the workload behind the first remote TEP.
fn from_remote(inner: &[u8], outer_class: u8) -> Vec<u8> {
    let payload = bytes::geneve(plans::GENEVE_VNI, 0, 0x6558, &[], inner);
    let header = IpHeader { class: outer_class, ..IpHeader::new(17) };
    let outer =
        bytes::ip(&header, address("172.16.0.2"), address("172.16.0.1"), &bytes::udp(50_000, 6081, &payload));
    bytes::ethernet(port_mac(1), STRANGER, bytes::IPV4, &outer)
}

fn remote_packet(header: IpHeader, destination: &str, payload: usize) -> Vec<u8> {
    let datagram = bytes::udp(1, 2, &vec![0; payload]);
    let packet = bytes::ip(&header, address("10.1.0.12"), address(destination), &datagram);
    bytes::ethernet(DEFAULT_ROUTER_MAC, workload_mac(2), bytes::IPV4, &packet)
}

fn echo(source: &str, destination: &str, ttl: u8, rest: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let (source, destination) = (address(source), address(destination));
    let (protocol, kind) = if source.is_ipv4() { (1, 8) } else { (58, 128) };
    let message = bytes::icmp(source, destination, kind, 0, rest, payload);
    bytes::ip(&IpHeader { ttl, ..IpHeader::new(protocol) }, source, destination, &message)
}

/// Type and code of the only frame that was sent, an ICMP message without a tag.
fn icmp(done: &Done) -> (u8, u8) {
    assert_eq!(done.sent.len(), 1, "{done:?}");
    let packet = &done.sent[0].1[IP..];
    let message = if packet[0] >> 4 == 4 { 20 } else { 40 };
    (packet[message], packet[message + 1])
}

fn dropped(done: &Done, reason: DropReason) {
    let nothing = Done { discarded: vec![reason], ..Done::default() };
    assert_eq!(*done, nothing);
}

/// RFC 1624 section 3: the checksum is never the zero that no sum of a header makes.
#[test]
fn a_checksum_after_the_time_to_live_is_the_one_that_computing_it_gives() {
    let mut node = edge();
    for identification in 0..=u16::MAX {
        let header = IpHeader { ttl: 64, identification, ..IpHeader::new(17) };
        let packet = bytes::ip(&header, address("10.1.0.10"), address("10.2.0.10"), &bytes::udp(1, 2, &[]));
        // Three gateways are passed: with three less, the rest of the header sums to all ones.
        if packet[10..12] != [0xfc, 0xff] {
            continue;
        }
        let done = node.receive_one(ACCESS, &from_workload(&packet));
        let sent = &done.sent[0].1[18..];
        let right = bytes::ip(
            &IpHeader { ttl: 61, ..header },
            address("10.1.0.10"),
            address("10.2.0.10"),
            &bytes::udp(1, 2, &[]),
        );
        assert_eq!((sent, &right[10..12]), (&right[..], &[0, 0][..]));
        return;
    }
    panic!("no header with that sum");
}

/// The reply to an echo request without identifier, number and data is all zeros but for its checksum.
#[test]
fn an_echo_reply_of_zeros_has_a_right_checksum() {
    let done = edge().receive_one(ACCESS, &from_workload(&echo("10.1.0.10", "10.1.0.1", 64, [0; 4], &[])));
    assert_eq!(icmp(&done), (0, 0));
    assert!(verify(&done.sent[0].1[IP + 20..]));
}

/// RFC 6040 section 4.2: congestion on the way through the tunnel is carried on by each fragment.
#[test]
fn fragments_carry_congestion_of_the_tunnel_on() {
    let mut node = edge();
    let inner = remote_packet(IpHeader { class: 2, ..IpHeader::new(17) }, "10.2.0.10", 1450);
    let done = node.receive_one(FABRIC, &from_remote(&inner, 3));
    let classes: Vec<u8> = done.sent.iter().map(|(_, frame)| frame[18 + 1]).collect();
    assert_eq!(classes, [3, 3]);
}

/// RFC 6040 section 4.2: dropped, whatever is at the destination.
#[test]
fn congestion_that_cannot_be_carried_on_drops_the_packet_before_anything_else() {
    let mut node = edge();
    for destination in ["10.2.0.10", "10.1.0.1", "10.1.0.200", "203.0.113.1", "198.18.0.1"] {
        for (ttl, payload) in [(64, 0), (1, 0), (64, 1450)] {
            let inner = remote_packet(IpHeader { ttl, ..IpHeader::new(17) }, destination, payload);
            dropped(&node.receive_one(FABRIC, &from_remote(&inner, 3)), DropReason::CongestionUnmarkable);
        }
    }
    let broadcast = [&[0xff; 6][..], &remote_packet(IpHeader::new(17), "10.1.0.11", 0)[6..]].concat();
    dropped(&node.receive_one(FABRIC, &from_remote(&broadcast, 3)), DropReason::CongestionUnmarkable);
    assert_eq!(
        node.counters.drops(DropReason::CongestionUnmarkable),
        16,
        "once for each packet, not for each copy"
    );
}

/// RFC 1812 section 5.2.1.2: the time to live comes before the length.
#[test]
fn a_long_packet_that_does_not_live_is_told_of_its_time() {
    let mut node = edge();
    for fragment in [0, 0x4000] {
        let header = IpHeader { ttl: 1, fragment, ..IpHeader::new(17) };
        let packet =
            bytes::ip(&header, address("10.1.0.10"), address("10.2.0.10"), &bytes::udp(1, 2, &[0; 1450]));
        assert_eq!(icmp(&node.receive_one(ACCESS, &from_workload(&packet))), (11, 0));
    }
}

/// A tier-1 takes one from the time to live; what the tier-0 behind it would say is not for a packet that ends before.
#[test]
fn time_runs_out_in_the_first_gateway_whatever_is_behind_it() {
    let mut node = edge();
    let sources = |done: &Done| {
        IpAddr::from(<[u8; 4]>::try_from(&done.sent[0].1[IP + 12..IP + 16]).expect("four bytes"))
    };
    // The tier-0's own address, no such workload, a next hop that is not resolved.
    for destination in ["192.0.2.2", "10.3.0.200", "192.0.2.99"] {
        let done = node.receive_one(ACCESS, &from_workload(&echo("10.1.0.10", destination, 1, [0; 4], &[1])));
        assert_eq!((icmp(&done), sources(&done)), ((11, 0), address("10.1.0.1")), "{destination}");
    }
    let done = node.receive_one(ACCESS, &from_workload(&echo("10.1.0.10", "192.0.2.99", 2, [0; 4], &[1])));
    assert_eq!(
        (icmp(&done), sources(&done)),
        ((11, 0), address("100.64.0.0")),
        "the tier-0's end of the link"
    );
    let done = node.receive_one(ACCESS, &from_workload(&echo("10.1.0.10", "192.0.2.99", 3, [0; 4], &[1])));
    assert!(matches!(done.punted[0].0.kind, PuntKind::Resolve(_)));
}

/// Transit segments have IPv4 link-local addresses; the node's own ones answer. Nobody else is reached by one (RFC 3927 section 7).
#[test]
fn the_service_router_answers_on_its_link_local_address() {
    let mut node = edge();
    let done =
        node.receive_one(UPLINK, &from_physical_network(&echo("192.0.2.1", "169.254.0.1", 64, [0; 4], &[1])));
    assert_eq!(icmp(&done), (0, 0));
    for other in ["169.254.0.2", "169.254.77.1"] {
        let done =
            node.receive_one(UPLINK, &from_physical_network(&echo("192.0.2.1", other, 64, [0; 4], &[1])));
        dropped(&done, DropReason::MartianDestination);
    }
}

/// RFC 1122 section 3.2.1.3: nobody is answered at an address that no host has.
#[test]
fn impossible_sources_are_not_answered() {
    let mut node = edge();
    for source in ["0.0.0.0", "127.0.0.1", "224.0.0.5", "255.255.255.255"] {
        let to_gateway =
            node.receive_one(ACCESS, &from_workload(&echo(source, "10.1.0.1", 64, [0; 4], &[1])));
        dropped(&to_gateway, DropReason::MartianSource);
        let to_tep = bytes::ethernet(
            port_mac(1),
            STRANGER,
            bytes::IPV4,
            &echo(source, "172.16.0.1", 64, [0; 4], &[1]),
        );
        dropped(&node.receive_one(FABRIC, &to_tep), DropReason::MartianSource);
    }
    for source in ["::", "::1", "ff02::1"] {
        let done =
            node.receive_one(ACCESS, &from_workload(&echo(source, GATEWAY_LINK_LOCAL, 64, [0; 4], &[1])));
        dropped(&done, DropReason::MartianSource);
    }
}

/// RFC 4291 section 2.5.6: what has a link-local source stays on its link, so the reply goes back instead of being routed.
#[test]
fn a_reply_from_a_link_local_address_stays_on_the_link() {
    let request = echo("2001:db8:3::10", GATEWAY_LINK_LOCAL, 64, [0; 4], &[1]);
    let done = edge().receive_one(ACCESS, &from_workload(&request));
    assert_eq!((icmp(&done), done.sent[0].0), ((129, 0), ACCESS));
}

/// RFC 4861 section 7.1.1.
#[test]
fn invalid_solicitations_are_not_answered() {
    let mut node = edge();
    let target = "2001:db8:1::1".parse().expect("an address");
    let group = "ff02::1:ff00:1";
    let link_layer = [&[1, 1][..], &workload_mac(0).octets()].concat();
    let solicitation = |source: &str, destination: &str, options: &[u8]| {
        let (source, destination) = (address(source), address(destination));
        let message =
            bytes::icmp(source, destination, 135, 0, [0; 4], &bytes::neighbor_body(target, options));
        let packet = bytes::ip(&IpHeader { ttl: 255, ..IpHeader::new(58) }, source, destination, &message);
        bytes::ethernet(MacAddr([0x33, 0x33, 0xff, 0, 0, 1]), workload_mac(0), bytes::IPV6, &packet)
    };
    for right in [solicitation("2001:db8:1::10", group, &link_layer), solicitation("::", group, &[])] {
        assert_eq!(icmp(&node.receive_one(ACCESS, &right)), (136, 0));
    }
    let mut forwarded = solicitation("2001:db8:1::10", group, &link_layer);
    forwarded[IP + 7] = 254;
    let wrong = [
        forwarded,
        solicitation("2001:db8:1::10", group, &[1, 0, 0, 0, 0, 0, 0, 0]),
        solicitation("2001:db8:1::10", group, &[1, 2, 0, 0, 0, 0, 0, 0]),
        solicitation("::", group, &link_layer),
        solicitation("::", "2001:db8:1::1", &[]),
    ];
    for frame in wrong {
        dropped(&node.receive_one(ACCESS, &frame), DropReason::Malformed);
    }
}

/// Fragments of tunnel packets are refused over IPv6 as over IPv4, and those to another node's MAC address are none of ours.
#[test]
fn fragments_of_tunnel_packets_are_refused() {
    let mut node = edge();
    let v4 = |mac| {
        let header = IpHeader { fragment: 0x2000, ..IpHeader::new(17) };
        let packet = bytes::ip(
            &header,
            address("172.16.0.2"),
            address("172.16.0.1"),
            &bytes::udp(50_000, 6081, &[0; 64]),
        );
        bytes::ethernet(mac, STRANGER, bytes::IPV4, &packet)
    };
    dropped(&node.receive_one(FABRIC, &v4(port_mac(1))), DropReason::OuterFragment);
    dropped(&node.receive_one(FABRIC, &v4(STRANGER)), DropReason::NotForThisNode);
    let extension = [&[17, 0, 0, 1, 0, 0, 0, 9][..], &bytes::udp(50_000, 6081, &[0; 64])].concat();
    let packet =
        bytes::ip(&IpHeader::new(44), address("2001:db8:16::2"), address("2001:db8:16::1"), &extension);
    let frame = bytes::on_vlan(bytes::ethernet(port_mac(1), STRANGER, bytes::IPV6, &packet), 16);
    dropped(&node.receive_one(FABRIC, &frame), DropReason::OuterFragment);
}

/// Also where the outer packet is untagged and has no extension header, as most do.
#[test]
fn a_tunnel_over_ipv6_ends_here_with_and_without_a_tag() {
    for (plan, vlan) in [(plans::edge(), 16), (plans::host(), 0)] {
        let inner = bytes::ethernet(workload_mac(6), workload_mac(7), 0x88cc, &[1; 50]);
        let payload = bytes::geneve(plans::VXLAN_VNI + 1, 0, 0x6558, &[], &inner);
        let outer = bytes::udp(50_000, 6081, &payload);
        let packet =
            bytes::ip(&IpHeader::new(17), address("2001:db8:16::2"), address("2001:db8:16::1"), &outer);
        let frame = bytes::on_vlan(bytes::ethernet(port_mac(1), STRANGER, bytes::IPV6, &packet), vlan);
        assert_eq!(node(&plan).receive_one(FABRIC, &frame).sent, [(ACCESS_2, inner)]);
    }
}

/// The MAC address of all zeros is nobody's.
#[test]
fn a_frame_to_the_zero_address_is_not_routed() {
    let mut node = edge();
    let packet =
        bytes::ip(&IpHeader::new(17), address("198.18.0.1"), address("10.1.0.10"), &bytes::udp(1, 2, &[]));
    let frame = bytes::ethernet(MacAddr([0; 6]), STRANGER, bytes::IPV4, &packet);
    dropped(&node.receive_one(UPLINK, &frame), DropReason::NotForThisNode);
}

/// No outer packet is longer than the TEP's MTU, also where a short packet stands in a long frame.
#[test]
fn padding_does_not_make_a_tunnel_packet_too_long() {
    let mut node = edge();
    let room = 1700 - 20 - 8 - 8 - 14;
    for (length, passes) in [(room, true), (room + 1, false)] {
        let mut payload =
            bytes::ip(&IpHeader::new(17), address("10.1.0.10"), address("10.1.0.12"), &bytes::udp(1, 2, &[]));
        payload.resize(length, 0);
        let done = node
            .receive_one(ACCESS, &bytes::ethernet(workload_mac(2), workload_mac(0), bytes::IPV4, &payload));
        if passes {
            assert_eq!(done.sent[0].1.len(), 14 + 1700);
            assert_eq!(done.sent[0].1[INNER + 14..], payload);
        } else {
            dropped(&done, DropReason::TooBig);
        }
    }
}

/// What a segment's proxy answers through a tunnel has no place to be fed in again, so it does not wait for the next hop.
#[test]
fn an_answer_through_an_unresolved_tunnel_is_dropped() {
    let mut node = edge();
    let tep = plans::neighbors(&plans::edge()).into_iter().find(|key| key.address == address("172.16.0.2"));
    node.set_neighbor(tep.expect("the plan has that TEP"), None);
    let asker = workload_mac(2);
    let question = bytes::arp(1, (asker, [10, 1, 0, 12].into()), (MacAddr([0; 6]), [10, 1, 0, 1].into()));
    let inner = bytes::ethernet(MacAddr([0xff; 6]), asker, bytes::ARP, &question);
    dropped(&node.receive_one(FABRIC, &from_remote(&inner, 0)), DropReason::NeighborUnreachable);
}

/// RFC 4443 section 2.4 (e.2).
#[test]
fn a_redirect_is_not_answered_with_an_error() {
    let mut node = edge();
    let (source, destination) = (address("2001:db8:1::12"), address("2001:db8:3::200"));
    for (kind, told) in [(128, 1), (137, 0)] {
        let message = bytes::icmp(source, destination, kind, 0, [0; 4], &[0; 32]);
        let packet = bytes::ip(&IpHeader::new(58), source, destination, &message);
        let inner = bytes::ethernet(plans::service_router_mac(0), DEFAULT_ROUTER_MAC, bytes::IPV6, &packet);
        let payload = bytes::geneve(plans::TRANSIT_VNI, 0, 0x6558, &[], &inner);
        let outer = bytes::udp(50_000, 6081, &payload);
        let outer = bytes::ip(&IpHeader::new(17), address("172.16.0.9"), address("172.16.0.1"), &outer);
        let done = node.receive_one(FABRIC, &bytes::ethernet(port_mac(1), STRANGER, bytes::IPV4, &outer));
        assert_eq!(done.sent.len(), told, "type {kind}: {done:?}");
    }
}

/// A tag of VLAN 0 is taken off before a frame is bridged.
#[test]
fn a_priority_tag_does_not_leave_the_port() {
    let mut node = edge();
    let frame = bytes::ethernet(workload_mac(8), workload_mac(6), 0x88cc, &[1; 50]);
    let done = node.receive(ACCESS_2, &[frame.clone(), bytes::tagged(&frame, bytes::VLAN, 0xe000)]);
    // The other segment's workload is nobody here, and the segment has no other receiver.
    assert!(done.iter().all(|done| done.discarded == [DropReason::NoReceiver]));
    let frame = bytes::ethernet(workload_mac(1), workload_mac(0), 0x88cc, &[1; 50]);
    let done = node.receive(ACCESS, &[frame.clone(), bytes::tagged(&frame, bytes::VLAN, 0xe000)]);
    assert_eq!(done[0].sent, done[1].sent);
    assert_eq!(done[0].sent, [(PortIndex(2), bytes::on_vlan(frame, 101))]);
}
