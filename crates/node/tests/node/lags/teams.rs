//! Failover teams: a TEP that moves between two uplinks of a switch or from a LAG to a single link, and an interface that a named teaming pins.

use std::time::Duration;

use sluice_control::{HostSwitch, Request};
use sluice_wire::MacAddr;
use sluice_wire::arp::{Arp, ArpOperation};

use super::{alarms, lag, wait_for_active, wait_for_alarm, wait_for_no_alarm};
use crate::support::link::{Link, arp, arp_frame};
use crate::support::network::{in_network, ip};
use crate::support::node::{Node, answer};
use crate::support::wait_for;
use crate::tep_groups::{NONE, probe, sent};

/// Interfaces of the workloads, of the first node's uplinks, and of the second node's one.
const PORTS: [&str; 5] = ["web-1", "web-2", "fp-eth0", "fp-eth1", "far-eth0"];
const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 9, 9]);
const TEAMING: &str = "failover-order, active: [uplink-1], standby: [uplink-2]";

/// A host with two uplinks and a TEP that names none of them.
fn document() -> String {
    let document = super::document("node-1", "web-1", &["fp-eth0", "fp-eth1"], 10, 20);
    let (before, rest) = document.split_once("lags:").unwrap();
    let (_, after) = rest.split_once("teps:").unwrap();
    let after = after.replace(", uplink: uplink-1, vlan: 120", "");
    format!(
        "{before}uplinks:\n  - {{name: uplink-1, port: fp-eth0}}\n  - {{name: uplink-2, port: fp-eth1}}\n\
         uplink-profile:\n  teaming: {{policy: {TEAMING}}}\n  transport-vlan: 120\nteps:{after}"
    )
}

/// The node at the other end, with one port.
fn other() -> String {
    super::document("node-2", "web-2", &["far-eth0"], 20, 10)
        .replace("lags:\n  - {name: lag-1, ports: [fp-eth0], timeout: fast}\n", "")
        .replace("port: lag-1", "port: fp-eth0")
}

/// A switch that all uplinks are plugged into.
fn make_switch() {
    ip("link add switch mtu 1700 type bridge");
    ip("link set switch addrgenmode none");
    ip("link set switch up");
    for port in ["fp-eth0-peer", "fp-eth1-peer", "far-eth0-peer"] {
        ip(&format!("link set {port} master switch"));
    }
}

fn host_switch(node: &Node) -> HostSwitch {
    answer!(node, &Request::GetHostSwitches, HostSwitches).remove(0)
}

fn wait_for_uplink(node: &Node, uplink: &str) {
    wait_for(&format!("the TEP to be on {uplink}"), || {
        let switch = host_switch(node);
        (switch.teps[0].uplink == uplink && switch.teamings[0].uplink == uplink).then_some(())
    });
}

#[test]
fn a_tep_moves_to_the_uplink_that_stands_by_and_back() {
    in_network("lags::teams::a_tep_moves_to_the_uplink_that_stands_by_and_back", &PORTS, || {
        make_switch();
        let [web_1, web_2] = ["web-1", "web-2"].map(Link::open);
        let nodes = [Node::start(&document()), Node::start(&other())];
        let [node, _] = &nodes;
        nodes.iter().for_each(|node| node.wait_for_tunnels(|| {}));
        let switch = host_switch(node);
        assert_eq!((switch.transport_vlan, switch.teps[0].vlan), (Some(120), Some(120)));
        assert_eq!((switch.teps[0].teaming.as_str(), switch.teamings.len()), ("default-teaming", 1));
        wait_for_uplink(node, "uplink-1");
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(300), || {}), NONE);
        // What the switch floods comes in on both uplinks; on one of them it counts.
        let before = node.drops("inactive-link");
        let request = Arp::request(ROUTER, [172, 16, 1, 99].into(), [172, 16, 1, 10].into());
        let request = arp_frame(ROUTER, MacAddr::BROADCAST, request);
        let request = [&request[..12], &[0x81, 0, 0, 120], &request[12..]].concat();
        let flood = Link::on("switch");
        (0..10).for_each(|_| flood.send(&request));
        wait_for("the second copies to be dropped", || {
            (node.drops("inactive-link") >= before + 10).then_some(())
        });

        for (cut, uplink, silent) in [("down", "uplink-2", 0), ("up", "uplink-1", 1)] {
            let lost =
                probe(&web_1, &web_2, Duration::from_secs(2), || ip(&format!("link set fp-eth0-peer {cut}")));
            println!("the first uplink went {cut} under 1,000 packets a second: {} lost", lost.len());
            assert!(
                lost.iter().all(|number| *number < 1_500),
                "the flows go on by the other uplink: {lost:?}"
            );
            wait_for_uplink(node, uplink);
            let before = sent(node);
            assert_eq!(probe(&web_1, &web_2, Duration::from_millis(200), || {}), NONE);
            assert_eq!(sent(node)[silent], before[silent], "nothing goes by the other uplink");
        }
        assert_eq!(alarms(node), []);

        // With both down the TEP is; the first one that works gets it.
        ["fp-eth0-peer", "fp-eth1-peer"].into_iter().for_each(|link| ip(&format!("link set {link} down")));
        wait_for_alarm(node, "tep-faulty", "tep-1", "its link is down");
        ip("link set fp-eth1-peer up");
        wait_for_uplink(node, "uplink-2");
        wait_for("nothing to be wrong but the other uplink", || {
            let open: Vec<String> = alarms(node).into_iter().map(|alarm| alarm.object).collect();
            (open == ["uplink-1"]).then_some(())
        });
        node.wait_for_tunnels(|| {});
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(200), || {}), NONE);
    });
}

#[test]
fn an_uplink_that_flaps_is_not_used_until_it_is_quiet() {
    in_network("lags::teams::an_uplink_that_flaps_is_not_used_until_it_is_quiet", &PORTS, || {
        let node = Node::start(&document());
        wait_for_uplink(&node, "uplink-1");
        for flap in 1..=4 {
            ip("link set fp-eth0-peer down");
            wait_for_uplink(&node, "uplink-2");
            wait_for_alarm(&node, "uplink-down", "uplink-1", "the link of port 'fp-eth0'");
            let flapping = alarms(&node).iter().any(|alarm| alarm.kind == "link-flapping");
            assert_eq!(flapping, flap == 4, "three are forgiven");
            ip("link set fp-eth0-peer up");
            // Only when the team is back has the node seen this flap: the next one is not to melt into it.
            if flap < 4 {
                wait_for_uplink(&node, "uplink-1");
            }
        }
        wait_for_alarm(&node, "link-flapping", "fp-eth0", "until it has been quiet");
        assert_eq!(host_switch(&node).teps[0].uplink, "uplink-2");
        wait_for_uplink(&node, "uplink-1");
        wait_for_no_alarm(&node);
    });
}

/// One of two nodes whose TEP is on a LAG of the first two links, with the third in reserve.
fn lag_and_link(name: &str, workload: &str, interfaces: [&str; 3], own: u8, other: u8) -> String {
    super::document(name, workload, &interfaces, own, other)
        .replace("ports: [fp-eth0, fp-eth1, fp-eth2]", "ports: [fp-eth0, fp-eth1]")
        .replace("teps:\n", &format!("  - {{name: uplink-2, port: fp-eth2}}\nuplink-profile:\n  teaming: {{policy: {TEAMING}}}\nteps:\n"))
        .replace(", uplink: uplink-1, vlan: 120", "")
}

#[test]
fn a_tep_leaves_a_lag_only_when_all_its_links_are_down() {
    let name = "lags::teams::a_tep_leaves_a_lag_only_when_all_its_links_are_down";
    in_network(name, &super::PORTS, || {
        let [web_1, web_2] = ["web-1", "web-2"].map(Link::open);
        let far = ["fp-eth0-peer", "fp-eth1-peer", "fp-eth2-peer"];
        let nodes = [
            Node::start(&lag_and_link("node-1", "web-1", ["fp-eth0", "fp-eth1", "fp-eth2"], 10, 20)),
            Node::start(&lag_and_link("node-2", "web-2", far, 20, 10)),
        ];
        let [node, _] = &nodes;
        let wait_for_lag = || {
            for node in &nodes {
                wait_for_active(node, &["fp-eth0", "fp-eth1"]);
                wait_for_uplink(node, "uplink-1");
                node.wait_for_tunnels(|| {});
            }
        };
        wait_for_lag();
        let packets = |port: &str| node.port_statistics(port).tx_packets;
        let reserve = packets("fp-eth2");
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(300), || {}), NONE);
        assert_eq!(packets("fp-eth2"), reserve, "the link in reserve is silent");

        ip("link set fp-eth0-peer down");
        nodes.iter().for_each(|node| wait_for_active(node, &["fp-eth1"]));
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(300), || {}), NONE);
        assert_eq!(host_switch(node).teps[0].uplink, "uplink-1");
        wait_for_alarm(node, "lag-degraded", "lag-1", "fp-eth0");
        assert_eq!(packets("fp-eth2"), reserve, "half a LAG is still better than the link in reserve");

        let lost = probe(&web_1, &web_2, Duration::from_secs(2), || ip("link set fp-eth1-peer down"));
        println!("the last link of a LAG was cut under 1,000 packets a second: {} lost", lost.len());
        assert!(lost.iter().all(|number| *number < 1_500), "the flows go on by the other uplink: {lost:?}");
        nodes.iter().for_each(|node| wait_for_uplink(node, "uplink-2"));
        wait_for_alarm(node, "lag-down", "lag-1", "0 of its 2 links carry traffic");
        assert!(alarms(node).iter().all(|alarm| alarm.kind != "tep-faulty"), "the TEP has an uplink");
        let silent = lag(node).links.iter().map(|link| packets(&link.port)).sum::<u64>();
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(300), || {}), NONE);
        assert_eq!(lag(node).links.iter().map(|link| packets(&link.port)).sum::<u64>(), silent);

        ["fp-eth0-peer", "fp-eth1-peer"].into_iter().for_each(|link| ip(&format!("link set {link} up")));
        wait_for_lag();
        wait_for_no_alarm(node);
        let reserve = packets("fp-eth2");
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(300), || {}), NONE);
        assert_eq!(packets("fp-eth2"), reserve);
    });
}

/// An edge whose interface on VLAN 200 is pinned to its first uplink, with the second in reserve.
fn edge() -> String {
    let document = document().replace("role: host", "role: edge");
    let named = format!("  named-teamings:\n    - {{name: north, policy: {TEAMING}}}\n  transport-vlan");
    document.replacen("  transport-vlan", &named, 1)
        + "gateways:\n  - name: t0\n    tier: 0\n    interfaces:\n      - {name: up, teaming: north, vlan: 200, addresses: [192.0.2.2/24]}\n"
}

/// An ARP request for the interface on its VLAN.
fn question(vlan: u8) -> Vec<u8> {
    let request = Arp::request(ROUTER, [192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let request = arp_frame(ROUTER, MacAddr::BROADCAST, request);
    [&request[..12], &[0x81, 0, 0, vlan], &request[12..]].concat()
}

#[test]
fn a_named_teaming_pins_the_vlan_of_an_interface() {
    in_network("lags::teams::a_named_teaming_pins_the_vlan_of_an_interface", &PORTS, || {
        let [first, second] = ["fp-eth0", "fp-eth1"].map(Link::open);
        let node = Node::start(&edge());
        wait_for_uplink(&node, "uplink-1");
        // The test's raw sockets see no tags: the kernel takes them off.
        let own = |arp: &Arp| arp.sender_address == std::net::Ipv4Addr::new(192, 0, 2, 2);
        let answer = |frame: &[u8]| arp(frame).filter(|arp| own(arp) && arp.operation == ArpOperation::REPLY);
        first.send(&question(200));
        let mac = first.expect("the answer", answer).sender_mac;
        let before = node.drops("inactive-link");
        second.send(&question(200));
        wait_for("the frame to be dropped", || (node.drops("inactive-link") > before).then_some(()));
        let other_vlan = node.drops("unknown-vlan");
        second.send(&question(201));
        wait_for("a VLAN of nobody", || (node.drops("unknown-vlan") > other_vlan).then_some(()));

        ip("link set fp-eth0-peer down");
        let announced =
            |frame: &[u8]| arp(frame).filter(|arp| own(arp) && arp.target_address == arp.sender_address);
        assert_eq!(
            second.expect("an announcement", announced).sender_mac,
            mac,
            "the address moves with its MAC address"
        );
        second.send(&question(200));
        assert_eq!(second.expect("the answer", answer).sender_mac, mac);
        ip("link set fp-eth0-peer up");
        first.expect("an announcement", announced);
        first.send(&question(200));
        first.expect("the answer", answer);
    });
}
