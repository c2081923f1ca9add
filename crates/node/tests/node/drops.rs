//! Frames that no node may forward: each is counted under its reason, and the node goes on.

use sluice_wire::MacAddr;

use crate::forwarding::{Ends, geneve};
use crate::support::documents::{self, DB_1, PORTS, ROUTER_MAC, Station, TEP_A, WEB_1, WEB_2, WEB_VNI};
use crate::support::frames::{datagram, numbered, routed};
use crate::support::link::Link;
use crate::support::network::in_network;
use crate::support::node::Node;
use crate::support::wait_for;

/// Where the outer UDP header of a tunnel packet begins.
const UDP: usize = 14 + 20;
/// Where the tunnel's own header begins.
const TUNNEL: usize = UDP + 8;

/// A good tunnel packet, made bad: the outer UDP checksum is left out (RFC 768), since what it covers changes.
fn bad_tunnel(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let inner = datagram(WEB_2, WEB_1.1, WEB_1.0, b"from another node");
    let mut frame = geneve(TEP_A, WEB_VNI, &inner);
    frame[UDP + 6..UDP + 8].fill(0);
    change(&mut frame);
    frame
}

/// A good datagram of web-1, made bad; the IPv4 header checksum is made good again.
fn bad_datagram(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = numbered(WEB_1, DB_1.0, 1);
    change(&mut frame);
    sum(&mut frame);
    frame
}

/// Writes the checksum of the first IPv4 header.
fn sum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = sluice_wire::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn bad_frames_are_counted_by_reason() {
    in_network("drops::bad_frames_are_counted_by_reason", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        let stranger: Station = ([172, 16, 1, 99].into(), MacAddr([2, 0, 0, 0, 1, 99]));
        let inner = datagram(WEB_2, WEB_1.1, WEB_1.0, b"from another node");
        let workload = &ends.web_1;
        let underlay = &ends.underlay;
        let cases: [(&str, &Link, Vec<u8>); 13] = [
            ("malformed", workload, bad_datagram(|frame| frame[14] = 0x65)),
            (
                "truncated",
                workload,
                bad_datagram(|frame| frame[16..18].copy_from_slice(&1400u16.to_be_bytes())),
            ),
            ("bad-checksum", workload, {
                let mut frame = numbered(WEB_1, DB_1.0, 1);
                frame[25] ^= 1;
                frame
            }),
            (
                "martian-source",
                workload,
                bad_datagram(|frame| frame[26..30].copy_from_slice(&[127, 0, 0, 1])),
            ),
            (
                "martian-destination",
                workload,
                bad_datagram(|frame| frame[30..34].copy_from_slice(&[127, 0, 0, 1])),
            ),
            ("unknown-workload", workload, datagram(WEB_1, ROUTER_MAC, [10, 10, 20, 99].into(), b"nobody")),
            ("not-for-this-node", underlay, {
                let mut frame = geneve(TEP_A, WEB_VNI, &inner);
                frame[..6].copy_from_slice(&[2, 0, 0, 0, 0x99, 9]);
                frame
            }),
            ("unknown-tep", underlay, geneve(stranger, WEB_VNI, &inner)),
            ("unknown-vni", underlay, geneve(TEP_A, 4242, &inner)),
            ("geneve-version", underlay, bad_tunnel(|frame| frame[TUNNEL] |= 0x40)),
            ("geneve-control", underlay, bad_tunnel(|frame| frame[TUNNEL + 1] |= 0x80)),
            ("geneve-critical-option", underlay, {
                // One option, of a class and type that nobody has: four bytes more, and marked critical.
                let mut frame = bad_tunnel(|frame| {
                    frame[TUNNEL] |= 1;
                    frame[TUNNEL + 1] |= 0x40;
                    frame.splice(TUNNEL + 8..TUNNEL + 8, [0xff, 0xff, 0x80, 0]);
                    let length = frame.len() - 14;
                    frame[16..18].copy_from_slice(&(length as u16).to_be_bytes());
                    frame[UDP + 4..UDP + 6].copy_from_slice(&((length - 20) as u16).to_be_bytes());
                });
                sum(&mut frame);
                frame
            }),
            (
                "tunnel-payload",
                underlay,
                bad_tunnel(|frame| frame[TUNNEL + 2..TUNNEL + 4].copy_from_slice(&[8, 0])),
            ),
        ];
        for (reason, end, frame) in cases {
            let before = node.drops(reason);
            (0..3).for_each(|_| end.send(&frame));
            wait_for(reason, || (node.drops(reason) == before + 3).then_some(()));
        }
        let said = crate::support::node::answer!(node, &sluice_control::Request::GetDrops, Drops);
        assert!(said.iter().all(|drop| drop.packets > 0 && drop.description.ends_with('.')), "{said:?}");
        assert!(said.is_sorted_by(|a, b| a.packets >= b.packets), "{said:?}");

        // And good ones still pass, with none of the bad ones before them.
        let frame = numbered(WEB_1, DB_1.0, 77);
        ends.web_1.send(&frame);
        let next = ends.db_1.expect("the good datagram", |frame| Some(frame.to_vec()));
        assert_eq!(next, routed(&frame, ROUTER_MAC, DB_1.1));
    });
}

#[test]
fn frames_to_a_port_whose_link_is_down_are_its_own_and_counted_as_such() {
    let name = "drops::frames_to_a_port_whose_link_is_down_are_its_own_and_counted_as_such";
    in_network(name, &["web-1", "fp-eth0", "fp-eth1"], || {
        let folder = tempfile::tempdir().unwrap();
        let memif = format!("kind: memif, socket: {}/memif.sock, role: server", folder.path().display());
        let node = Node::start(&documents::with_device("db-1", &memif));
        // The node has seen that nobody is connected.
        wait_for("the link state", || {
            node.log().contains("link state port=\"db-1\" link=\"down\"").then_some(())
        });
        let web_1 = Link::open("web-1");
        (0..5).for_each(|number| web_1.send(&numbered(WEB_1, DB_1.0, number)));
        wait_for("the drops", || (node.drops("port-down") == 5).then_some(()));
        assert_eq!(node.drops("transmit-ring-full"), 0);
        assert_eq!(node.port_statistics("db-1").tx_drops, 5);
        for port in ["web-1", "fp-eth0", "fp-eth1"] {
            assert_eq!(node.port_statistics(port).tx_drops, 0, "{port}");
        }
    });
}

#[test]
fn packets_that_too_many_others_wait_with_are_counted_as_such() {
    in_network("drops::packets_that_too_many_others_wait_with_are_counted_as_such", &PORTS, || {
        let ends = Ends::open();
        let node = Node::start(&documents::on_interfaces());
        ends.underlay.expect_arp_request(TEP_A.0);
        // Four may wait for one neighbour; those that came first go.
        (0..20).for_each(|_| ends.web_1.send(&datagram(WEB_1, WEB_2.1, WEB_2.0, b"waiting")));
        wait_for("the drops", || {
            let counted = (node.drops("neighbor-queue-full"), node.drops("neighbor-unreachable"));
            (counted == (16, 4)).then_some(())
        });
    });
}
