//! The node document of a topology, as a person would write it.
//!
//! Written as text, so that what `--show-document` prints can be read and changed by hand; read back through `sluice-intent`, so that it
//! is never one that a node refuses.

use std::fmt::Write as _;

use sluice_trial::ports::PortName;
use sluice_trial::topology::*;
use sluice_trial::traffic::Encapsulation;

use crate::error::{BenchError, Result};

/// What a node's document says beside the topology.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeSettings {
    pub(crate) topology: Topology,
    pub(crate) uplinks: Vec<PortName>,
    pub(crate) downlinks: Vec<PortName>,
    /// Cores of its workers.
    pub(crate) cores: Vec<u16>,
    pub(crate) huge_pages: bool,
    /// Whether its memif ports lend their packet memory.
    pub(crate) zero_copy: bool,
    /// Descriptors of each ring.
    pub(crate) ring_size: u16,
    pub(crate) flow_cache: bool,
    /// Workloads and routes beside those that packets go to.
    pub(crate) more: bool,
}

/// Descriptors of each ring, unless a scenario says otherwise.
pub(crate) const RING_SIZE: u16 = 1024;

impl NodeSettings {
    /// The document.
    ///
    /// # Errors
    ///
    /// [`BenchError::Document`] for settings that no node accepts: cores that there are not, ports twice.
    pub(crate) fn document(&self) -> Result<String> {
        let text = self.text();
        match sluice_intent::parse(&text, "the bench's node document") {
            Ok(_) => Ok(text),
            Err(problems) => Err(BenchError::Document(problems.to_string())),
        }
    }

    fn text(&self) -> String {
        let mut text = String::from("version: 1\nname: bench-edge\nrole: edge\n");
        let size = self.ring_size;
        let pages = if self.huge_pages { "auto" } else { "off" };
        let _ = write!(
            text,
            "\ndataplane:\n  cores: {:?}\n  ring-size: {{rx: {size}, tx: {size}}}\n  idle-sleep-us: 0\n  memory-mib: 256\n  huge-pages: {pages}\n",
            self.cores
        );
        if !self.flow_cache {
            text.push_str("  flow-cache: {enabled: false}\n");
        }
        self.ports(&mut text);
        if self.topology.encapsulation != Encapsulation::None {
            self.overlay(&mut text);
        }
        self.gateway(&mut text);
        text
    }

    fn ports(&self, text: &mut String) {
        text.push_str("\nports:\n");
        let macs = (0..).map(uplink_mac).take(self.uplinks.len());
        let macs = macs.chain((0..).map(downlink_mac).take(self.downlinks.len()));
        for (at, (port, mac)) in self.uplinks.iter().chain(&self.downlinks).zip(macs).enumerate() {
            let device = self.device(port);
            let _ = writeln!(text, "  - {{name: fp-eth{at}, {device}, mtu: 1700, mac: \"{mac}\"}}");
        }
        let links = self.uplinks.len() + self.downlinks.len();
        if self.topology.lag {
            let names: Vec<String> = (self.uplinks.len()..links).map(|at| format!("fp-eth{at}")).collect();
            let _ = writeln!(text, "\nlags:\n  - {{name: lag-1, ports: [{}]}}", names.join(", "));
        }
        text.push_str("\nuplinks:\n");
        // Those of the downlinks carry TEPs.
        for at in 0..self.uplinks.len() + usize::from(self.topology.teps()) {
            let lag = self.topology.lag && at == self.uplinks.len();
            let port = if lag { "lag-1".to_owned() } else { format!("fp-eth{at}") };
            let _ = writeln!(text, "  - {{name: uplink-{}, port: {port}}}", at + 1);
        }
    }

    fn device(&self, port: &PortName) -> String {
        match port {
            PortName::Pci(address) => format!("kind: pci, address: \"{address}\""),
            PortName::Memif { socket, id } => {
                let zero_copy = if self.zero_copy { ", zero-copy: true" } else { "" };
                format!("kind: memif, socket: \"{}\", id: {id}, role: client{zero_copy}", socket.display())
            }
            PortName::AfXdp(interface) => format!("kind: af_xdp, interface: {interface}"),
            PortName::AfPacket(interface) => format!("kind: af_packet, interface: {interface}"),
            PortName::Tap(interface) => format!("kind: tap, interface: {interface}"),
            PortName::Vhost(socket) => format!("kind: vhost, socket: \"{}\"", socket.display()),
        }
    }

    fn overlay(&self, text: &mut String) {
        let Topology { uplinks, encapsulation, .. } = self.topology;
        let downlinks = self.topology.teps();
        let encapsulation = if encapsulation == Encapsulation::Vxlan { "vxlan" } else { "geneve" };
        text.push_str("\nteps:\n");
        for downlink in 0..downlinks {
            let (tep, uplink) = (self.topology.edge_tep(downlink), uplinks + downlink + 1);
            let prefix = if tep.is_ipv4() { 24 } else { 64 };
            let _ = writeln!(
                text,
                "  - {{name: tep-{downlink}, address: \"{tep}/{prefix}\", uplink: uplink-{uplink}}}"
            );
        }
        text.push_str("\nsegments:\n");
        for downlink in 0..downlinks {
            let (vni, v4, v6) = (vni(downlink).get(), gateway_ipv4(downlink), gateway_ipv6(downlink));
            let _ = writeln!(
                text,
                "  - {{name: web-{downlink}, vni: {vni}, encapsulation: {encapsulation}, tep: tep-{downlink}, gateway: t0, gateway-addresses: [{v4}/24, \"{v6}/64\"]}}"
            );
        }
        text.push_str("\nworkloads:\n");
        for workload in 0..WORKLOADS + u16::from(self.more) {
            let downlink = self.topology.downlink_of(workload);
            let (mac, tep) = (workload_mac(workload), self.topology.host_tep(downlink));
            let (v4, v6) = (workload_ipv4(downlink, workload), workload_ipv6(downlink, workload));
            let _ = writeln!(
                text,
                "  - {{name: vm-{workload}, segment: web-{downlink}, mac: \"{mac}\", addresses: [{v4}, \"{v6}\"], remote-tep: \"{tep}\"}}"
            );
        }
    }

    fn gateway(&self, text: &mut String) {
        text.push_str("\ngateways:\n  - name: t0\n    tier: 0\n    interfaces:\n");
        for uplink in 0..self.topology.uplinks {
            let (v4, v6, number) = (uplink_ipv4(uplink), uplink_ipv6(uplink), uplink + 1);
            let _ = writeln!(
                text,
                "      - {{name: to-tester-{uplink}, uplink: uplink-{number}, addresses: [{v4}/{UPLINK_PREFIX}, \"{v6}/64\"], mtu: 1500}}"
            );
        }
        let plain = self.topology.encapsulation == Encapsulation::None;
        for downlink in (0..self.topology.teps()).filter(|_| plain) {
            let number = self.topology.uplinks + downlink + 1;
            let tep = self.topology.edge_tep(downlink);
            let prefix = if tep.is_ipv4() { 24 } else { 64 };
            let _ = writeln!(
                text,
                "      - {{name: to-host-{downlink}, uplink: uplink-{number}, addresses: [\"{tep}/{prefix}\"], mtu: 1500}}"
            );
        }
        text.push_str("    static-routes:\n");
        let route = |text: &mut String, prefix: &str, hops: Vec<String>| {
            let hops: Vec<String> = hops.iter().map(|hop| format!("{{address: \"{hop}\"}}")).collect();
            let _ = writeln!(text, "      - {{prefix: \"{prefix}\", next-hops: [{}]}}", hops.join(", "));
        };
        let paths = || 0..self.topology.paths;
        route(text, "0.0.0.0/0", paths().map(|path| self.topology.router_ipv4(path).to_string()).collect());
        route(text, "::/0", paths().map(|path| self.topology.router_ipv6(path).to_string()).collect());
        if self.more {
            route(text, "203.0.113.0/24", vec![self.topology.router_ipv4(0).to_string()]);
        }
        for downlink in (0..self.topology.teps()).filter(|_| plain) {
            let host = self.topology.host_tep(downlink);
            let subnet = match host {
                std::net::IpAddr::V4(_) => format!("10.10.{}.0/24", 20 + downlink),
                std::net::IpAddr::V6(_) => format!("2001:db8:20:{downlink}::/64"),
            };
            route(text, &subnet, vec![host.to_string()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::IpAddr;

    use sluice_intent::plan::{self, Location, MemifRole, Plan, PortKind};
    use sluice_trial::traffic::Family;

    use super::*;

    fn settings(topology: Topology) -> NodeSettings {
        let memif = |id| PortName::Memif { socket: "/tmp/x.sock".into(), id };
        let (uplinks, downlinks) = (u32::from(topology.uplinks), u32::from(topology.downlinks));
        NodeSettings {
            topology,
            uplinks: (0..uplinks).map(memif).collect(),
            downlinks: (uplinks..uplinks + downlinks).map(memif).collect(),
            cores: vec![3],
            huge_pages: false,
            zero_copy: false,
            ring_size: 2048,
            flow_cache: true,
            more: false,
        }
    }

    fn plan(settings: &NodeSettings) -> Plan {
        let text = settings.document().unwrap();
        sluice_intent::parse(&text, "edge.yaml").unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn the_document_is_a_plan_of_the_topology() {
        for (downlinks, outer) in [(1, Family::Ipv4), (2, Family::Ipv4), (2, Family::Ipv6)] {
            let topology = Topology { uplinks: 2, downlinks, paths: 5, outer, ..Topology::default() };
            let plan = plan(&settings(topology));
            assert_eq!((&plan.dataplane.cores[..], plan.dataplane.rx_ring_size), (&[3][..], 2048));
            assert_eq!(plan.dataplane.huge_pages, plan::HugePages::Off);
            assert_eq!(plan.router_mac, ROUTER_MAC);
            let macs: Vec<_> = plan.ports.iter().map(|port| port.mac.unwrap()).collect();
            let expected = [uplink_mac(0), uplink_mac(1), downlink_mac(0), downlink_mac(1)];
            assert_eq!(macs, expected[..2 + usize::from(downlinks)]);
            for (id, port) in (0..).zip(&plan.ports) {
                let (socket, role) = ("/tmp/x.sock".into(), MemifRole::Client);
                assert_eq!(port.kind, PortKind::Memif { socket, id, role, zero_copy: false });
            }
            for downlink in 0..downlinks {
                let at = usize::from(downlink);
                assert_eq!(plan.teps[at].address.addr(), topology.edge_tep(downlink));
                assert_eq!(plan.segments[at].vni, vni(downlink));
            }
            assert_eq!(plan.workloads.len(), usize::from(WORKLOADS));
            for workload in 0..WORKLOADS {
                let downlink = topology.downlink_of(workload);
                let addresses: BTreeSet<IpAddr> =
                    [workload_ipv4(downlink, workload).into(), workload_ipv6(downlink, workload).into()]
                        .into();
                let entry = plan.workloads.iter().find(|entry| entry.mac == workload_mac(workload)).unwrap();
                assert_eq!(entry.addresses.iter().copied().collect::<BTreeSet<_>>(), addresses);
                assert_eq!(entry.location, Location::RemoteTep(topology.host_tep(downlink)));
            }
            let hops = |route: usize| -> BTreeSet<IpAddr> {
                plan.gateways[0].static_routes[route].next_hops.iter().map(|hop| hop.address).collect()
            };
            let v4: BTreeSet<IpAddr> = (0..5).map(|path| topology.router_ipv4(path).into()).collect();
            let v6: BTreeSet<IpAddr> = (0..5).map(|path| topology.router_ipv6(path).into()).collect();
            assert!([hops(0), hops(1)].contains(&v4) && [hops(0), hops(1)].contains(&v6));
        }
    }

    #[test]
    fn the_downlinks_of_a_lag_have_one_tep() {
        let topology = Topology { uplinks: 2, downlinks: 2, lag: true, paths: 2, ..Topology::default() };
        let plan = plan(&settings(topology));
        let [lag] = plan.lags.as_slice() else { panic!("one LAG: {:?}", plan.lags) };
        assert_eq!(lag.ports.iter().map(|port| port.index()).collect::<Vec<_>>(), [2, 3]);
        assert_eq!((plan.uplinks.len(), plan.teps.len(), plan.segments.len()), (3, 1, 1));
        assert_eq!(plan.uplinks[plan.teps[0].uplink.index()].port, plan.lag_port(0));
        assert_eq!(plan.port_mac(plan.first_port(plan.lag_port(0))), Some(downlink_mac(0)));
        assert_eq!(plan.workloads.len(), usize::from(WORKLOADS));
    }

    #[test]
    fn every_topology_has_a_document() {
        for encapsulation in [Encapsulation::Geneve, Encapsulation::Vxlan, Encapsulation::None] {
            for outer in [Family::Ipv4, Family::Ipv6] {
                for (uplinks, paths) in [(1, 1), (1, 8), (8, 8)] {
                    let topology = Topology {
                        uplinks,
                        downlinks: 2,
                        paths,
                        encapsulation,
                        outer,
                        ..Topology::default()
                    };
                    let plan = plan(&settings(topology));
                    assert_eq!(plan.segments.is_empty(), encapsulation == Encapsulation::None);
                }
            }
        }
    }

    #[test]
    fn the_other_document_differs_in_the_logical_network_alone() {
        let settings = settings(Topology::default());
        let (one, other) = (plan(&settings), plan(&NodeSettings { more: true, ..settings }));
        assert_eq!((&one.ports, &one.dataplane), (&other.ports, &other.dataplane));
        assert_eq!(other.workloads.len(), one.workloads.len() + 1);
        assert_eq!(other.gateways[0].static_routes.len(), one.gateways[0].static_routes.len() + 1);
    }

    #[test]
    fn settings_reach_the_node() {
        let lent = NodeSettings {
            zero_copy: true,
            huge_pages: true,
            flow_cache: false,
            ring_size: 4096,
            ..settings(Topology::default())
        };
        let plan = plan(&lent);
        assert!(plan.ports.iter().all(|port| matches!(port.kind, PortKind::Memif { zero_copy: true, .. })));
        assert_eq!(plan.dataplane.tx_ring_size, 4096);
        assert!(!plan.dataplane.flow_cache.enabled);
        let wrong = NodeSettings { cores: vec![3, 3], ..lent };
        assert!(wrong.document().unwrap_err().to_string().contains("core"));
    }
}
