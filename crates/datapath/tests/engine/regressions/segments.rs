//! The switch of a segment: addresses that are not switched, and questions for the gateway that come through a tunnel.

use super::*;

/// IEEE 802.1Q section 8.6.3: spanning tree, LACP, 802.1X and LLDP end at the next bridge, here the node; the addresses behind are ordinary.
#[test]
fn frames_to_reserved_addresses_stay_on_their_link() {
    let mut node = edge();
    for last in 0..=0x10 {
        let frame = |source| bytes::ethernet(MacAddr([1, 0x80, 0xc2, 0, 0, last]), source, 0x88cc, &[1; 50]);
        let from_workload = node.receive_one(ACCESS, &frame(workload_mac(0)));
        let from_tunnel = node.receive_one(FABRIC, &from_remote(&frame(workload_mac(2)), 0));
        if last < 0x10 {
            dropped(&from_workload, DropReason::ReservedAddress);
            dropped(&from_tunnel, DropReason::ReservedAddress);
        } else {
            assert_eq!((from_workload.sent.len(), from_tunnel.sent.len()), (3, 2));
        }
        // Of the physical network, the node is a neighbour.
        dropped(&node.receive_one(UPLINK, &frame(STRANGER)), DropReason::NotForThisNode);
    }
}

/// IEEE 802.3 section 3.2.3: a source is one station. What such a frame carries does not matter.
#[test]
fn frames_from_group_addresses_are_dropped() {
    let mut node = edge();
    let question =
        bytes::arp(1, (workload_mac(0), [10, 1, 0, 10].into()), (MacAddr([0; 6]), [10, 1, 0, 1].into()));
    for group in [MacAddr([0xff; 6]), MacAddr([1, 0, 0x5e, 0, 0, 5]), MacAddr([3, 0, 0, 0, 0, 1])] {
        let packet =
            bytes::ip(&IpHeader::new(17), address("10.1.0.10"), address("10.2.0.10"), &bytes::udp(1, 2, &[]));
        for frame in [
            bytes::ethernet(MacAddr([0xff; 6]), group, bytes::ARP, &question),
            bytes::ethernet(workload_mac(1), group, 0x88b5, &[1; 50]),
            bytes::ethernet(DEFAULT_ROUTER_MAC, group, bytes::IPV4, &packet),
            bytes::ethernet(MacAddr([1, 0x80, 0xc2, 0, 0, 0]), group, 0x88cc, &[1; 50]),
        ] {
            dropped(&node.receive_one(ACCESS, &frame), DropReason::GroupSource);
            dropped(&node.receive_one(FABRIC, &from_remote(&frame, 0)), DropReason::GroupSource);
        }
    }
}

/// A workload behind a tunnel that wants the gateway's address for itself is told by an edge (RFC 5227 section 2.1.1, RFC 4862 section 5.4.3). A host
/// leaves that to the node of the workload, which has the same gateway.
#[test]
fn a_probe_for_the_gateways_address_through_a_tunnel_is_answered_by_an_edge() {
    let asker = workload_mac(2);
    let probe = bytes::arp(1, (asker, [0, 0, 0, 0].into()), (MacAddr([0; 6]), [10, 1, 0, 1].into()));
    let probe = bytes::ethernet(MacAddr([0xff; 6]), asker, bytes::ARP, &probe);
    let (source, group) = (address("::"), address("ff02::1:ff00:1"));
    let target = "2001:db8:1::1".parse().expect("an address");
    let message = bytes::icmp(source, group, 135, 0, [0; 4], &bytes::neighbor_body(target, &[]));
    let packet = bytes::ip(&IpHeader { ttl: 255, ..IpHeader::new(58) }, source, group, &message);
    let detection = bytes::ethernet(MacAddr([0x33, 0x33, 0xff, 0, 0, 1]), asker, bytes::IPV6, &packet);

    // With and without workloads of its own on the segment.
    let mut without = plans::edge();
    without
        .workloads
        .retain(|workload| !matches!(workload.location, sluice_intent::plan::Location::Port { .. }));
    for mut node in [edge(), node(&without)] {
        let answer = |done: &Done| {
            assert_eq!((done.sent.len(), done.sent[0].0), (1, FABRIC), "{done:?}");
            let frame = &done.sent[0].1;
            assert_eq!(frame[30..34], [172, 16, 0, 2], "to the TEP of the asker");
            frame[INNER..].to_vec()
        };
        let reply = answer(&node.receive_one(FABRIC, &from_remote(&probe, 0)));
        let expected =
            bytes::arp(2, (DEFAULT_ROUTER_MAC, [10, 1, 0, 1].into()), (asker, [0, 0, 0, 0].into()));
        assert_eq!(reply, bytes::ethernet(asker, DEFAULT_ROUTER_MAC, bytes::ARP, &expected));
        let advertisement = answer(&node.receive_one(FABRIC, &from_remote(&detection, 0)));
        assert_eq!(advertisement[..6], asker.octets(), "to the asker alone (RFC 6085)");
        assert_eq!((advertisement[54], advertisement[58]), (136, 0xa0), "router and override, not solicited");
        let to = IpAddr::from(<[u8; 16]>::try_from(&advertisement[38..54]).expect("16 bytes"));
        assert_eq!(to, address("ff02::1"), "RFC 4861 section 7.2.4");
        assert_eq!(node.drops(), []);
    }
    let mut host = node(&plans::host());
    for frame in [probe, detection] {
        dropped(&host.receive_one(FABRIC, &from_remote(&frame, 0)), DropReason::Consumed);
    }
}

/// A tag that goes or comes concerns two places, not two stations: one workload with many addresses must not use up the rewrites of all.
#[test]
fn many_stations_share_the_rewrite_that_takes_a_tag_off() {
    let mut node = edge();
    let frame = |station: u32| {
        let [_, a, b, c] = station.to_be_bytes();
        bytes::ethernet(workload_mac(1), MacAddr([2, 0xaa, 0, a, b, c]), 0x88b5, &[1; 50])
    };
    let sent: usize =
        (0..1_000).map(|station| node.receive_one(FABRIC, &from_remote(&frame(station), 0)).sent.len()).sum();
    node.engine.housekeeping(node.now);
    let done = node.receive_one(FABRIC, &from_remote(&frame(1_000), 0));
    let (_, last) = &done.sent[0];
    assert_eq!(sent, 1_000);
    assert_eq!(last[..12], frame(1_000)[..12], "the addresses are the frame's own");
    assert!(node.counters.rewrites.get() < 10, "{} rewrites", node.counters.rewrites.get());
}

/// What is behind a static route of a tier-1 is reached from its tier-0; a default route of it is not.
#[test]
fn a_tier_0_knows_the_static_routes_of_its_tier_1s() {
    let packet = |destination: &str| {
        let header = IpHeader::new(17);
        bytes::ip(&header, address("192.0.2.9"), address(destination), &bytes::udp(1, 2, &[0; 30]))
    };
    let mut node = edge();
    dropped(&node.receive_one(UPLINK, &from_physical_network(&packet("10.99.1.1"))), DropReason::Blackhole);
    let mut plan = plans::edge();
    plan.gateways[0].static_routes.clear();
    plan.gateways[1].static_routes = vec![plans::route("0.0.0.0/0", vec![])];
    let mut node = self::node(&plan);
    node.receive_one(UPLINK, &from_physical_network(&packet("10.99.1.1")));
    assert_eq!(node.drops(), [(DropReason::NoRoute, 1)], "the tier-0 does not send it to the tier-1");
}
