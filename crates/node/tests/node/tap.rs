//! Ports on TAP interfaces, which the node makes: the kernel, or whoever uses the interface, is the workload.

use crate::support::documents::{self, DB_1, ROUTER_MAC, WEB_1};
use crate::support::frames::{numbered, routed};
use crate::support::link::Link;
use crate::support::network::{in_network, ip};
use crate::support::node::{Node, answer};
use crate::support::wait_for;

#[test]
fn a_workload_on_a_tap_interface_is_reached_and_reaches() {
    let ports = ["db-1", "fp-eth0", "fp-eth1"];
    in_network("tap::a_workload_on_a_tap_interface_is_reached_and_reaches", &ports, || {
        let db_1 = Link::open("db-1");
        let node = Node::start(&documents::with_device("web-1", "kind: tap, interface: tap-web-1"));
        // Nothing that the kernel would send by itself.
        ip("link set tap-web-1 addrgenmode none");
        ip("link set tap-web-1 up");
        node.wait_for_link("web-1", "up");
        let web_1 = Link::on("tap-web-1");
        for number in 0..100 {
            let there = numbered(WEB_1, DB_1.0, number);
            web_1.send(&there);
            let expected = routed(&there, ROUTER_MAC, DB_1.1);
            db_1.expect("the datagram at db-1", |frame| (frame == expected).then_some(()));
            let back = numbered(DB_1, WEB_1.0, number);
            db_1.send(&back);
            let expected = routed(&back, ROUTER_MAC, WEB_1.1);
            web_1.expect("the datagram at web-1", |frame| (frame == expected).then_some(()));
        }
        let port = node.port_statistics("web-1");
        wait_for("the counters", || (node.port_statistics("web-1").tx_packets == 100).then_some(()));
        assert!(port.rx_packets >= 100, "{port:?}");

        ip("link set tap-web-1 down");
        node.wait_for_link("web-1", "down");
        let device = &answer!(node, &sluice_control::Request::GetDataplane, Dataplane).devices[0];
        assert_eq!((device.name.as_str(), device.driver.as_str()), ("web-1", "net_tap"));
        drop(node);
        wait_for("the interface to go with its node", || {
            let gone = !std::process::Command::new("ip")
                .args(["link", "show", "tap-web-1"])
                .output()
                .unwrap()
                .status
                .success();
            gone.then_some(())
        });
    });
}
