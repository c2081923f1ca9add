//! Ports with VLAN tags (IEEE 802.1Q): workloads that share a port, a TEP and an uplink interface on VLANs.

use nix::sys::signal::Signal;
use sluice_wire::ethernet::EthernetView;

use crate::forwarding::{geneve, read_pcap, write_pcap};
use crate::lifecycle::quiet_folder;
use crate::support::documents::{
    self, DB_1, LOCAL_TEP, NORTH_MAC, ROUTER_MAC, TEP_A, WEB_1, WEB_2, WEB_VNI, changed,
};
use crate::support::frames::{datagram, numbered, routed};
use crate::support::link::{Link, arp};
use crate::support::network::in_network;
use crate::support::node::Node;
use crate::support::wait_for;

/// The frame with a tag behind its addresses.
fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    [&frame[..12], &[0x81, 0], &vlan.to_be_bytes(), &frame[12..]].concat()
}

/// The VLAN of a frame and the frame without its tag.
fn untagged(frame: &[u8]) -> Option<(u16, Vec<u8>)> {
    let vlan = EthernetView::parse(frame).unwrap().outer_tag()?.id.get();
    Some((vlan, [&frame[..12], &frame[16..]].concat()))
}

/// Both workloads on port web-1, and a VLAN for everything.
fn on_vlans(document: &str) -> String {
    let document = changed(
        document,
        "addresses: [10.10.10.11], port: web-1",
        "addresses: [10.10.10.11], port: web-1, vlan: 10",
    );
    let document = changed(
        &document,
        "addresses: [10.10.20.11], port: db-1",
        "addresses: [10.10.20.11], port: web-1, vlan: 20",
    );
    let document =
        changed(&document, "uplink: uplink-1, mtu: 1700", "uplink: uplink-1, mtu: 1700, vlan: 120");
    changed(&document, "uplink: uplink-2, addresses", "uplink: uplink-2, vlan: 200, addresses")
}

#[test]
fn tags_tell_workloads_apart_and_are_made_anew_on_each_port() {
    let folder = quiet_folder();
    let document = on_vlans(&documents::on_files(folder.path()));
    std::fs::write(folder.path().join("node.yaml"), document).unwrap();
    let local = numbered(WEB_1, DB_1.0, 1);
    let bridged = datagram(WEB_2, WEB_1.1, WEB_1.0, b"through the tunnel");
    let wrong = datagram(WEB_2, WEB_1.1, WEB_1.0, b"through no tunnel of this node's");
    let north = datagram(([192, 0, 2, 7].into(), NORTH_ROUTER), NORTH_MAC, WEB_1.0, b"from outside");
    let input = |port: &str, frames: &[Vec<u8>]| {
        write_pcap(&folder.path().join(format!("{port}-in.pcap")), frames);
    };
    // A frame on a VLAN that no workload is on, and one without a tag, are nobody's.
    input("web-1", &[tagged(&local, 30), local.clone(), tagged(&local, 10)]);
    input("fp-eth0", &[geneve(TEP_A, WEB_VNI, &wrong), tagged(&geneve(TEP_A, WEB_VNI, &bridged), 120)]);
    input("fp-eth1", &[north.clone(), tagged(&north, 201), tagged(&north, 200)]);
    let mut node = Node::start_in(folder);
    wait_for("the files to be read", || {
        let received = ["web-1", "fp-eth0", "fp-eth1"].map(|port| node.port_statistics(port).rx_packets);
        (received == [3, 2, 3]).then_some(())
    });
    wait_for("the node to make itself known and to ask for next hops", || {
        let sent = ["fp-eth0", "fp-eth1"].map(|port| node.port_statistics(port).tx_packets);
        (sent[0] >= 2 && sent[1] >= 1).then_some(())
    });
    assert!(node.terminate(Signal::SIGTERM).success());

    let output = |port: &str| read_pcap(&node.folder().join(format!("{port}-out.pcap")));
    let mut at_workloads: Vec<_> = output("web-1").iter().map(|frame| untagged(frame).unwrap()).collect();
    at_workloads.sort();
    let from_north = routed(&routed(&north, ROUTER_MAC, WEB_1.1), ROUTER_MAC, WEB_1.1);
    let mut expected = [(10, bridged), (10, from_north), (20, routed(&local, ROUTER_MAC, DB_1.1))];
    expected.sort();
    assert_eq!(at_workloads, expected);
    assert_eq!(output("db-1"), Vec::<Vec<u8>>::new());
    for (port, vlan, sender) in [("fp-eth0", 120, LOCAL_TEP), ("fp-eth1", 200, [198, 51, 100, 2].into())] {
        let untagged =
            |frame: &Vec<u8>| untagged(frame).unwrap_or_else(|| panic!("{port} sent without a tag"));
        let frames: Vec<_> = output(port).iter().map(untagged).collect();
        assert!(frames.iter().all(|(on, _)| *on == vlan), "{port}");
        let senders: Vec<_> =
            frames.iter().filter_map(|(_, frame)| Some(arp(frame)?.sender_address)).collect();
        assert!(
            !senders.is_empty() && senders.iter().all(|address| *address == sender),
            "{port}: {senders:?}"
        );
    }
}

/// The router beyond the uplink of the tier-0 gateway.
const NORTH_ROUTER: sluice_wire::MacAddr = sluice_wire::MacAddr([2, 0, 0, 0, 0xff, 1]);

#[test]
fn two_nodes_meet_on_the_transport_vlan_of_an_interface() {
    let ports = ["web-1", "db-1", "fp-eth0", "fp-eth1", "web-2"];
    in_network("vlan::two_nodes_meet_on_the_transport_vlan_of_an_interface", &ports, || {
        let [web_1, web_2] = ["web-1", "web-2"].map(Link::open);
        let vlan = |document: &str, vlan: u16| {
            let tagged = format!("uplink: uplink-1, mtu: 1700, vlan: {vlan}");
            changed(document, "uplink: uplink-1, mtu: 1700", &tagged)
        };
        let other = documents::other_node("kind: af_packet, interface: fp-eth0-peer");
        let here = Node::start(&vlan(&documents::on_interfaces(), 120));
        let there = Node::start(&vlan(&other, 120));
        let neighbor = |node: &Node, address: &str| {
            let neighbors =
                crate::support::node::answer!(node, &sluice_control::Request::GetNeighbor, Neighbors);
            let found = neighbors.into_iter().find(|neighbor| neighbor.address.to_string() == address);
            found.filter(|neighbor| neighbor.state == "reachable").map(|neighbor| neighbor.vlan)
        };
        assert_eq!(wait_for("the other TEP", || neighbor(&here, "172.16.1.20")), Some(120));
        assert_eq!(wait_for("the first TEP", || neighbor(&there, "172.16.1.10")), Some(120));
        for payload in 0..50u64 {
            let frame = datagram(WEB_1, WEB_2.1, WEB_2.0, &payload.to_be_bytes());
            web_1.send(&frame);
            web_2.expect("the datagram at web-2", |received| (received == frame).then_some(()));
            let frame = datagram(WEB_2, WEB_1.1, WEB_1.0, &payload.to_be_bytes());
            web_2.send(&frame);
            web_1.expect("the datagram at web-1", |received| (received == frame).then_some(()));
        }
        // On another VLAN they do not meet.
        there.apply(&vlan(&other, 121));
        wait_for("the other TEP to be out of reach", || {
            let neighbors =
                crate::support::node::answer!(&there, &sluice_control::Request::GetNeighbor, Neighbors);
            let first = neighbors.into_iter().find(|neighbor| neighbor.vlan == Some(121))?;
            (first.mac.is_empty() && first.state != "reachable").then_some(())
        });
    });
}
