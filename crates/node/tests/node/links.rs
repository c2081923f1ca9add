//! Links of ports on the kernel's interfaces, which their drivers say nothing about.

use crate::forwarding::Ends;
use crate::support::documents::{self, DB_1, PORTS, ROUTER_MAC, WEB_1};
use crate::support::frames::{numbered, routed};
use crate::support::network::{in_network, ip};
use crate::support::node::Node;
use crate::support::wait_for;

/// How often the log says that the port's link changed to a state.
fn told(node: &Node, port: &str, state: &str) -> usize {
    let line = |line: &&str| {
        line.contains("link state")
            && line.contains(&format!("port=\"{port}\""))
            && line.contains(&format!("\"{state}\""))
    };
    node.log().lines().filter(line).count()
}

#[test]
fn a_lost_carrier_is_seen_and_told_once() {
    in_network("links::a_lost_carrier_is_seen_and_told_once", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        PORTS.iter().for_each(|port| node.wait_for_link(port, "up"));
        for round in 1..=2 {
            ip("link set db-1-peer down");
            node.wait_for_link("db-1", "down");
            wait_for("the log", || (told(&node, "db-1", "down") == round).then_some(()));
            ip("link set db-1-peer up");
            node.wait_for_link("db-1", "up");
            wait_for("the log", || (told(&node, "db-1", "up") == round + 1).then_some(()));
        }
        assert_eq!(told(&node, "web-1", "down"), 0, "{}", node.log());

        // What is behind an uplink that is down is told as such.
        ip("link set fp-eth0-peer down");
        node.wait_for_link("fp-eth0", "down");
        wait_for("the TEP to be down", || {
            let teps = crate::support::node::answer!(node, &sluice_control::Request::GetVteps, Vteps);
            (teps[0].state == "down").then_some(())
        });
        let frame = numbered(WEB_1, DB_1.0, 1);
        let expected = routed(&frame, ROUTER_MAC, DB_1.1);
        ends.web_1.send(&frame);
        ends.db_1.expect("the datagram", |frame| (frame == expected).then_some(()));
    });
}

#[test]
fn an_interface_that_goes_away_is_down_until_a_restart() {
    in_network("links::an_interface_that_goes_away_is_down_until_a_restart", &PORTS, || {
        let node = Node::start(&documents::on_interfaces());
        node.wait_for_link("fp-eth1", "up");
        ip("link delete fp-eth1");
        node.wait_for_link("fp-eth1", "down");
        let remedy = "make it again, then 'restart service dataplane'";
        wait_for("the log", || node.log().contains(remedy).then_some(()));
        // Another interface of this name is not the port's.
        ip("link add fp-eth1 type veth peer name fp-eth1-peer");
        ip("link set fp-eth1 up");
        ip("link set fp-eth1-peer up");
        assert_eq!(node.link("fp-eth1"), "down");
        crate::support::node::answer!(node, &sluice_control::Request::RestartDataplane, Done);
        node.wait_for_link("fp-eth1", "up");
        assert_eq!((told(&node, "fp-eth1", "down"), node.log().matches(remedy).count()), (1, 1));
    });
}
