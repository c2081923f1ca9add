//! Builds the links, devices, addresses, routes, offloads and rate limits of a topology, with the system's own programs.
//!
//! What is to be run is computed first (and tested without running it), then run node by node inside the node's namespaces. The
//! programs go in batch mode, so a topology costs a few dozen processes, and their errors name the line that failed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ipnet::IpNet;

use crate::error::{LabError, Result, While};
use crate::namespaces::NodeNamespaces;
use crate::process::ProcessIdentity;
use crate::program::{batch, run};
use crate::topology::{Link, Node, Route, Topology, Vxlan};

/// Set in every namespace before its interfaces exist: the kernel copies some of the machine's own values into a new namespace,
/// and duplicate address detection would hold every IPv6 address back for a second. TCP is that of RFC 5681, which every kernel
/// has, so that what one machine measures another can: BBR, for one, lets a full link run empty now and then to see its delay.
const DEFAULTS: [(&str, &str); 7] = [
    ("net.ipv4.tcp_congestion_control", "reno"),
    ("net.ipv4.ip_forward", "0"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv6.conf.all.forwarding", "0"),
    ("net.ipv6.conf.all.accept_dad", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
];

/// Longest time that a rate limiter keeps a frame queued.
const TBF_LATENCY: &str = "50ms";

/// Builds everything of the topology that is not a process, in the namespaces of its nodes, given in their order. Called by
/// init, whose identity is `init`.
pub(crate) fn build(topology: &Topology, namespaces: &[NodeNamespaces], init: ProcessIdentity) -> Result<()> {
    for node in namespaces {
        node.inside(|| set_all(DEFAULTS.iter().copied()))?;
    }
    let paths: Vec<_> = namespaces.iter().map(|node| node.network_path(init)).collect();
    batch("ip", &topology.links.iter().map(|link| create_pair(topology, &paths, link)).collect::<Vec<_>>())?;
    for (n, node) in topology.nodes.iter().enumerate() {
        namespaces[n].inside(|| configure(node, &ends(topology, n))).map_err(|error| at(node, error))?;
    }
    // Only now is every next hop's interface up.
    for (node, namespaces) in topology.nodes.iter().zip(namespaces) {
        namespaces.inside(|| batch("ip", &routes(node))).map_err(|error| at(node, error))?;
    }
    Ok(())
}

fn configure(node: &Node, ends: &[(usize, &Link)]) -> Result<()> {
    offloads(node, ends)?;
    batch("ip", &devices(node))?;
    set_all(node.sysctls.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    set_all(data_path_parameters(node).iter().map(|(name, value)| (name.as_str(), *value)))?;
    batch("ip", &addresses(node))?;
    batch("bridge", &flood_lists(node))?;
    batch("tc", &rate_limits(node, ends))
}

fn at(node: &Node, error: LabError) -> LabError {
    LabError::Step(format!("node {}: {error}", node.name))
}

/// The node's interfaces and their links.
fn ends(topology: &Topology, node: usize) -> Vec<(usize, &Link)> {
    let both = topology.links.iter().flat_map(|link| link.ends.iter().map(move |end| (end, link)));
    both.filter(|(end, _)| end.0 == node).map(|(end, link)| (end.1, link)).collect()
}

fn create_pair(topology: &Topology, namespaces: &[PathBuf], link: &Link) -> String {
    let [a, b] = link.ends.map(|(n, i)| {
        let interface = &topology.nodes[n].interfaces[i];
        let mac = interface.mac.map_or(String::new(), |mac| format!(" address {mac}"));
        format!(
            "name {} netns {} mtu {}{mac} numtxqueues {queues} numrxqueues {queues}",
            interface.name,
            namespaces[n].display(),
            link.mtu,
            queues = interface.queues,
        )
    });
    format!("link add {a} type veth peer {b}")
}

fn devices(node: &Node) -> Vec<String> {
    let mut lines = Vec::new();
    for vxlan in &node.vxlans {
        let Vxlan { name, vni, local, .. } = vxlan;
        lines.push(format!("link add name {name} type vxlan id {vni} local {local} dstport 4789"));
        lines.extend(vxlan.mtu.map(|mtu| format!("link set dev {} mtu {mtu}", vxlan.name)));
    }
    for bridge in &node.bridges {
        let mac = bridge.mac.map_or(String::new(), |mac| format!(" address {mac}"));
        lines.push(format!(
            "link add name {}{mac} type bridge forward_delay 0 stp_state 0 mcast_snooping 0",
            bridge.name
        ));
        for member in &bridge.members {
            lines.push(format!("link set dev {member} master {}", bridge.name));
        }
        lines.extend(bridge.mtu.map(|mtu| format!("link set dev {} mtu {mtu}", bridge.name)));
    }
    lines
}

/// The kernel leaves a data path's interfaces alone: it would answer neighbour discovery with an address of its own.
fn data_path_parameters(node: &Node) -> Vec<(String, &'static str)> {
    let interfaces = node.interfaces.iter().filter(|interface| interface.data_path);
    interfaces.map(|interface| (format!("net.ipv6.conf.{}.disable_ipv6", interface.name), "1")).collect()
}

/// What sets an interface up, and gives it back what the kernel took when it went down: its IPv6 addresses, and the node's routes
/// through it.
pub(crate) fn set_up(node: &Node, name: &str) -> Vec<String> {
    let interfaces = node.interfaces.iter().map(|interface| (&interface.name, &interface.addresses));
    let bridges = node.bridges.iter().map(|bridge| (&bridge.name, &bridge.addresses));
    let addresses: Vec<_> = interfaces
        .chain(bridges)
        .filter(|(own, _)| *own == name)
        .flat_map(|(_, addresses)| addresses)
        .collect();
    let through = |route: &&Route| addresses.iter().any(|address| address.contains(&route.via));
    let mut lines = vec![format!("link set dev {name} up")];
    lines.extend(addresses.iter().map(|address| set_address("replace", name, address)));
    lines.extend(node.routes.iter().filter(through).map(|route| set_route("replace", route)));
    lines
}

fn addresses(node: &Node) -> Vec<String> {
    let add = |name: &str, address: &IpNet| set_address("add", name, address);
    let mut lines = vec!["link set dev lo up".to_string()];
    for interface in &node.interfaces {
        lines.extend(interface.addresses.iter().map(|address| add(&interface.name, address)));
        lines.push(format!("link set dev {} up", interface.name));
    }
    for bridge in &node.bridges {
        lines.extend(bridge.addresses.iter().map(|address| add(&bridge.name, address)));
    }
    let devices =
        node.vxlans.iter().map(|vxlan| &vxlan.name).chain(node.bridges.iter().map(|bridge| &bridge.name));
    lines.extend(devices.map(|name| format!("link set dev {name} up")));
    lines
}

/// The endpoints to which each VXLAN device copies what it has no address for; it learns the others from what arrives.
fn flood_lists(node: &Node) -> Vec<String> {
    let remotes =
        node.vxlans.iter().flat_map(|vxlan| vxlan.remotes.iter().map(move |remote| (&vxlan.name, remote)));
    remotes.map(|(name, remote)| format!("fdb append 00:00:00:00:00:00 dev {name} dst {remote}")).collect()
}

fn routes(node: &Node) -> Vec<String> {
    node.routes.iter().map(|route| set_route("add", route)).collect()
}

fn set_address(how: &str, interface: &str, address: &IpNet) -> String {
    let flags = if address.addr().is_ipv6() { " nodad" } else { "" };
    format!("address {how} {address} dev {interface}{flags}")
}

fn set_route(how: &str, route: &Route) -> String {
    format!("route {how} {} via {}", route.prefix, route.via)
}

fn rate_limits(node: &Node, ends: &[(usize, &Link)]) -> Vec<String> {
    let limited =
        ends.iter().filter_map(|(interface, link)| Some((&node.interfaces[*interface].name, link.rate?)));
    limited
        .map(|(name, rate)| {
            // A token bucket that holds 4 ms at the rate, and at least one large segment, reaches its rate on any timer.
            let burst = (rate / 8 / 250).max(64 * 1024);
            format!("qdisc add dev {name} root tbf rate {rate}bit burst {burst} latency {TBF_LATENCY}")
        })
        .collect()
}

/// What has an interface lose a share of what it receives; none for nothing.
pub(crate) fn loss(interface: &str, percent: u8) -> Option<String> {
    // Of 2^32 random numbers, those that mean a loss.
    let lost = (u64::from(percent.min(100)) << 32) / 100;
    // ld random (SKF_AD_RANDOM); jge #lost, pass, drop; pass: TC_ACT_OK; drop: TC_ACT_SHOT.
    let program = match lost {
        0 => return None,
        lost if lost > u64::from(u32::MAX) => "1,6 0 0 2".into(),
        lost => format!("4,32 0 0 4294963256,53 0 1 {lost},6 0 0 0,6 0 0 2"),
    };
    let filter = format!("filter add dev {interface} ingress bpf direct-action bytecode \"{program}\"");
    Some(format!("qdisc add dev {interface} clsact\n{filter}\n"))
}

fn offloads(node: &Node, ends: &[(usize, &Link)]) -> Result<()> {
    for (interface, _) in ends.iter().filter(|(_, link)| !link.offloads) {
        let name = &node.interfaces[*interface].name;
        let switches = ["rx", "off", "tx", "off", "tso", "off", "gso", "off", "gro", "off"];
        run(Command::new("ethtool").args(["-K", name]).args(switches), "")?;
    }
    Ok(())
}

/// Writes kernel parameters; the name's dots are slashes of the path.
fn set_all<'a>(parameters: impl Iterator<Item = (&'a str, &'a str)>) -> Result<()> {
    for (name, value) in parameters {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        fs::write(&path, value).doing(|| format!("setting {name} to {value}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linux() -> Topology {
        Topology::load("linux").unwrap()
    }

    #[test]
    fn pair_is_made_inside_its_namespaces() {
        let topology = linux();
        let paths: Vec<_> = (0..topology.nodes.len()).map(|n| PathBuf::from(format!("/ns/{n}"))).collect();
        let web = topology.links.iter().find(|link| topology.nodes[link.ends[1].0].name == "web-1").unwrap();
        assert_eq!(
            create_pair(&topology, &paths, web),
            "link add name web-1 netns /ns/4 mtu 1500 numtxqueues 1 numrxqueues 1 type veth peer \
             name eth0 netns /ns/6 mtu 1500 address 02:00:00:00:0a:0b numtxqueues 1 numrxqueues 1"
        );
    }

    #[test]
    fn rate_limit_is_for_both_ends_with_a_burst_of_four_milliseconds() {
        let mut topology = linux();
        topology.links[0].rate = Some(1_000_000_000);
        for name in ["tester", "tor"] {
            let n = topology.nodes.iter().position(|node| node.name == name).unwrap();
            let lines = rate_limits(&topology.nodes[n], &ends(&topology, n));
            let [line] = lines.as_slice() else { panic!("{lines:?}") };
            assert!(line.ends_with("root tbf rate 1000000000bit burst 500000 latency 50ms"), "{line}");
        }
        topology.links[0].rate = Some(1_000_000);
        let n = topology.nodes.iter().position(|node| node.name == "tester").unwrap();
        assert!(rate_limits(&topology.nodes[n], &ends(&topology, n))[0].contains("burst 65536"));
    }

    #[test]
    fn loss_is_a_share_of_all_random_numbers() {
        assert_eq!(loss("eth0", 0), None);
        assert!(loss("eth0", 100).unwrap().contains("\"1,6 0 0 2\""), "drops without a look");
        assert!(loss("eth0", 50).unwrap().contains(&format!("53 0 1 {}", 1u64 << 31)));
    }

    #[test]
    fn interface_that_goes_up_gets_its_addresses_and_only_its_routes() {
        let topology = Topology::load("demo").unwrap();
        let tor = topology.node("tor").unwrap();
        assert_eq!(
            set_up(tor, "uplink"),
            [
                "link set dev uplink up",
                "address replace 198.51.100.1/30 dev uplink",
                "address replace 2001:db8:0:100::1/64 dev uplink nodad",
                "route replace 10.10.0.0/16 via 198.51.100.2",
                "route replace 100.64.0.0/16 via 198.51.100.2",
                "route replace 2001:db8:10::/48 via 2001:db8:0:100::2",
            ]
        );
        assert_eq!(
            set_up(tor, "tep-edges"),
            ["link set dev tep-edges up", "address replace 172.16.0.1/24 dev tep-edges"]
        );
        // One of the data path, and one that no topology knows.
        let host = topology.node("host-1").unwrap();
        assert_eq!(set_up(host, "fp-eth0"), ["link set dev fp-eth0 up"]);
        assert_eq!(set_up(host, "tap0"), ["link set dev tap0 up"]);
    }

    #[test]
    fn kernel_keeps_off_interfaces_of_a_data_path() {
        let topology = Topology::load("demo").unwrap();
        let host = topology.node("host-1").unwrap();
        let names: Vec<_> = data_path_parameters(host).into_iter().map(|(name, _)| name).collect();
        let expected = ["fp-eth0", "web-1", "db-1"].map(|name| format!("net.ipv6.conf.{name}.disable_ipv6"));
        assert_eq!(names, expected);
        assert!(data_path_parameters(topology.node("tor").unwrap()).is_empty());
    }
}
