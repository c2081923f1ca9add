//! Next hops on the underlay: how they are found, waited for, followed and lost.

use sluice_control::{Neighbor, Request};
use sluice_wire::MacAddr;
use sluice_wire::arp::{Arp, ArpOperation};

use crate::forwarding::Ends;
use crate::support::documents::{self, LOCAL_TEP, PORTS, TEP_A, TEP_B, UPLINK_MAC, WEB_1, WEB_2, WEB_VNI};
use crate::support::frames::{datagram, number, tunnelled};
use crate::support::link::{arp, arp_frame};
use crate::support::network::in_network;
use crate::support::node::{Node, answer};
use crate::support::wait_for;

fn neighbor(node: &Node, address: std::net::Ipv4Addr) -> Option<Neighbor> {
    let all = answer!(node, &Request::GetNeighbor, Neighbors);
    all.into_iter().find(|neighbor| neighbor.address == address)
}

fn wait_for_state(node: &Node, address: std::net::Ipv4Addr, state: &str) {
    wait_for(&format!("{address} to be {state}"), || {
        neighbor(node, address).filter(|seen| seen.state == state)
    });
}

/// A datagram to web-2 that stays on the segment: the payload is a number.
fn to_web_2(number: u64) -> Vec<u8> {
    datagram(WEB_1, WEB_2.1, WEB_2.0, &number.to_be_bytes())
}

#[test]
fn packets_wait_for_their_next_hop_and_none_is_lost() {
    in_network("neighbors::packets_wait_for_their_next_hop_and_none_is_lost", &PORTS, || {
        let ends = Ends::open();
        let node = Node::start(&documents::on_interfaces());
        let request = ends.underlay.expect_arp_request(TEP_A.0);
        assert_eq!(request, Arp::request(UPLINK_MAC, LOCAL_TEP, TEP_A.0));
        wait_for_state(&node, TEP_A.0, "incomplete");

        // As many as may wait for one neighbour.
        (0..4).for_each(|number| ends.web_1.send(&to_web_2(number)));
        wait_for("the packets to be read", || (node.port_statistics("web-1").rx_packets == 4).then_some(()));
        ends.underlay.send(&arp_frame(TEP_A.1, UPLINK_MAC, request.reply(TEP_A.1)));
        for expected in 0..4 {
            let outer = ends.underlay.expect("a packet that waited", tunnelled);
            assert_eq!((outer.remote, outer.mac), TEP_A);
            assert_eq!(number(&outer.inner), Some(expected));
        }
        wait_for_state(&node, TEP_A.0, "reachable");
        let known = neighbor(&node, TEP_A.0).unwrap();
        assert_eq!((known.interface.as_str(), known.mac), ("fp-eth0", TEP_A.1.to_string()));
        assert_eq!(node.drops("neighbor-unreachable"), 0);
    });
}

#[test]
fn packets_to_a_next_hop_that_never_answers_are_counted() {
    in_network("neighbors::packets_to_a_next_hop_that_never_answers_are_counted", &PORTS, || {
        let ends = Ends::open();
        let node = Node::start(&documents::on_interfaces());
        ends.underlay.expect_arp_request(TEP_A.0);
        (0..3).for_each(|number| ends.web_1.send(&to_web_2(number)));
        for _ in 0..2 {
            ends.underlay.expect_arp_request(TEP_A.0);
        }
        wait_for("the packets to be counted", || (node.drops("neighbor-unreachable") == 3).then_some(()));
        wait_for_state(&node, TEP_A.0, "failed");
        let tunnels = answer!(node, &Request::GetTunnelPorts, TunnelPorts);
        assert!(
            tunnels.iter().all(|tunnel| tunnel.state == "down" && tunnel.next_hop_mac.is_empty()),
            "{tunnels:?}"
        );
    });
}

#[test]
fn requests_for_the_nodes_own_addresses_are_answered() {
    in_network("neighbors::requests_for_the_nodes_own_addresses_are_answered", &PORTS, || {
        let ends = Ends::with_stations();
        let _node = ends.node();
        let request = Arp::request(TEP_B.1, TEP_B.0, LOCAL_TEP);
        ends.underlay.send(&arp_frame(TEP_B.1, MacAddr::BROADCAST, request));
        let reply = ends.underlay.expect("the reply", |frame| {
            arp(frame).filter(|arp| arp.operation == ArpOperation::REPLY && arp.target_address == TEP_B.0)
        });
        assert_eq!(reply, request.reply(UPLINK_MAC));
    });
}

#[test]
fn a_neighbour_that_moves_is_followed() {
    in_network("neighbors::a_neighbour_that_moves_is_followed", &PORTS, || {
        let mut ends = Ends::with_stations();
        let node = ends.node();
        let moved = MacAddr([2, 0, 0, 0, 0x77, 1]);
        ends.underlay.answer_for(TEP_A.0, moved);
        let announcement = arp_frame(moved, MacAddr::BROADCAST, Arp::announcement(moved, TEP_A.0));
        wait_for("the new address to be known", || {
            ends.underlay.send(&announcement);
            ends.underlay.glance();
            neighbor(&node, TEP_A.0).filter(|known| known.mac == moved.to_string())
        });
        // A packet that was sent before says nothing.
        ends.web_1.send(&to_web_2(99));
        let outer = ends
            .underlay
            .expect("packet 99", |frame| tunnelled(frame).filter(|outer| number(&outer.inner) == Some(99)));
        assert_eq!((outer.remote, outer.mac), (TEP_A.0, moved));
    });
}

#[test]
fn another_station_with_the_address_of_a_tep_is_told() {
    in_network("neighbors::another_station_with_the_address_of_a_tep_is_told", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        let other = MacAddr([2, 0, 0, 0, 0x77, 9]);
        let claim = arp_frame(other, MacAddr::BROADCAST, Arp::announcement(other, LOCAL_TEP));
        ends.underlay.send(&claim);
        let alarm = wait_for("the alarm", || {
            answer!(node, &Request::GetAlarms, Alarms)
                .into_iter()
                .find(|alarm| alarm.kind == "address-conflict")
        });
        assert_eq!(alarm.object, LOCAL_TEP.to_string());
        assert!(alarm.description.contains(&other.to_string()), "{}", alarm.description);
        // The node keeps its address: packets to it still arrive.
        ends.underlay.send(&crate::forwarding::geneve(
            TEP_A,
            WEB_VNI,
            &datagram(WEB_2, WEB_1.1, WEB_1.0, b"still here"),
        ));
        ends.web_1.expect("the packet", |frame| frame.ends_with(b"still here").then_some(()));
    });
}
