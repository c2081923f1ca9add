//! Tables of the gateways and of the transport network, and counters of ports, as the CLI shows them.

use sluice_control::{ForwardingEntry, Request, Route};

use crate::forwarding::Ends;
use crate::lifecycle::quiet_folder;
use crate::support::documents::{self, PORTS, changed};
use crate::support::network::in_network;
use crate::support::node::{Node, answer, sluiced};

/// Origin, destination, next hops and interface of each route of a gateway.
fn routes(node: &Node, router: &str) -> Vec<(String, String, String, String)> {
    let tables = answer!(node, &Request::GetRoute { router: Some(router.into()) }, Routes);
    assert_eq!(tables.len(), 1, "{tables:?}");
    let row = |route: &Route| {
        (route.origin.clone(), route.network.clone(), route.gateways.join(","), route.interface.clone())
    };
    tables[0].routes.iter().map(row).collect()
}

fn rows(rows: &[(&str, &str, &str, &str)]) -> Vec<(String, String, String, String)> {
    rows.iter().map(|(a, b, c, d)| ((*a).into(), (*b).into(), (*c).into(), (*d).into())).collect()
}

#[test]
fn routes_are_in_order_and_of_their_tier() {
    let node = Node::start_in(quiet_folder());
    let tier1 = [
        ("t1s", "0.0.0.0/0", "link", "t0"),
        ("t1c", "10.10.10.0/24", "connected", "web"),
        ("t1c", "10.10.10.0/32", "blackhole", ""),
        ("t1c", "10.10.10.1/32", "local", ""),
        ("t1c", "10.10.10.255/32", "blackhole", ""),
        ("t1c", "10.10.20.0/24", "connected", "db"),
        ("t1c", "10.10.20.0/32", "blackhole", ""),
        ("t1c", "10.10.20.1/32", "local", ""),
        ("t1c", "10.10.20.255/32", "blackhole", ""),
        ("t1s", "100.64.0.0/32", "link", "t0"),
        ("t1c", "100.64.0.1/32", "local", ""),
    ];
    assert_eq!(routes(&node, "t1"), rows(&tier1), "and no ::/0, as nothing here has IPv6");
    let tier0 = routes(&node, "t0");
    assert_eq!(tier0[0], rows(&[("t0s", "0.0.0.0/0", "198.51.100.1", "to-router")])[0]);
    assert!(tier0.contains(&rows(&[("t1c", "10.10.10.0/24", "link", "t1")])[0]), "{tier0:?}");
    assert!(tier0.contains(&rows(&[("t0c", "198.51.100.0/30", "connected", "to-router")])[0]), "{tier0:?}");
    let prefix = |network: &String| network.parse::<ipnet::IpNet>().unwrap();
    assert!(tier0.is_sorted_by_key(|(_, network, ..)| prefix(network)), "{tier0:?}");

    // With IPv6 on one segment the default route is there for both families, behind those of IPv4.
    let document = changed(
        &documents::on_files(node.folder()),
        "gateway-addresses: [10.10.10.1/24]",
        "gateway-addresses: [10.10.10.1/24, 2001:db8:10::1/64]",
    );
    node.apply(&document);
    let both = routes(&node, "t1");
    assert_eq!(both[..tier1.len()], rows(&tier1));
    assert_eq!(both[tier1.len()], rows(&[("t1s", "::/0", "link", "t0")])[0]);
    assert!(both.is_sorted_by_key(|(_, network, ..)| prefix(network)), "{both:?}");
}

#[test]
fn the_first_vrf_is_that_of_the_tunnels() {
    in_network("tables::the_first_vrf_is_that_of_the_tunnels", &PORTS, || {
        let node = Ends::with_stations().node();
        let routers = answer!(node, &Request::GetLogicalRouters, LogicalRouters);
        let named: Vec<_> = routers.iter().map(|r| (r.vrf, r.name.as_str(), r.neighbors)).collect();
        // Two TEPs of other nodes; the router beyond the uplink is the tier-0's.
        assert_eq!(named, [(0, "TUNNEL", 2), (1, "t0", 1), (2, "t1", 0)]);
        assert_eq!(routers[0].kind, "TUNNEL");

        let expected =
            [("s", "0.0.0.0/0", "172.16.1.1", "tep-1"), ("c", "172.16.1.0/24", "connected", "tep-1")];
        for name in ["TUNNEL", "0"] {
            assert_eq!(routes(&node, name), rows(&expected));
        }
        let tables = answer!(node, &Request::GetForwarding { router: Some("TUNNEL".into()) }, Forwarding);
        let entry = |ip_prefix: &str, gateway_ip: &str, kind: &str, state: &str| ForwardingEntry {
            ip_prefix: ip_prefix.into(),
            gateway_ip: gateway_ip.into(),
            kind: kind.into(),
            interface: "tep-1".into(),
            mac: String::new(),
            state: state.into(),
        };
        assert_eq!(
            tables[0].entries,
            [
                entry("0.0.0.0/0", "172.16.1.1", "route", "unresolved"),
                entry("172.16.1.0/24", "", "connected", "")
            ]
        );
        assert_eq!(
            node.refused(&Request::GetRoute { router: Some("9".into()) }),
            "there is no gateway '9'; this node has t0, t1"
        );
    });
}

#[test]
fn each_counter_of_a_port_is_there_once_and_an_unknown_speed_is_no_number() {
    let node = Node::start_in(quiet_folder());
    let counters = node.port_statistics("fp-eth0").extended;
    let basic = ["rx_errors", "tx_errors", "rx_good_packets", "rx_missed_errors"];
    assert!(counters.iter().all(|(name, _)| !basic.contains(&name.as_str())), "{counters:?}");
    assert!(counters.iter().any(|(name, _)| name == "rx_q0_packets"), "{counters:?}");
    let ports = answer!(node, &Request::GetPhysicalPorts, PhysicalPorts);
    assert!(ports.iter().all(|port| port.speed_mbps == 0), "a file has no speed: {ports:?}");
}

#[test]
fn the_program_tells_its_version_under_its_name() {
    let output = sluiced().arg("--version").stdout(std::process::Stdio::piped()).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        concat!("sluiced ", env!("CARGO_PKG_VERSION"), "\n")
    );
}
