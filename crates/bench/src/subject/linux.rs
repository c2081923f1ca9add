//! Plain Linux forwarding with VXLAN, in a network namespace of its own, between virtual Ethernet interfaces.
//!
//! The kernel routes as the node does: between an uplink and a VXLAN interface with the router's MAC address, with routes, neighbours and
//! the remote TEP set by hand, so that nothing has to be resolved.
//!
//! ```text
//!   veth ── uplink 192.0.2.2 ── routes ── vxlan 10.10.20.1 (VNI, remote TEP) ┈ downlink 172.16.0.1 ── veth
//! ```
//!
//! The kernel forwards what arrives on a veth on the core of who sends it, in the sender's system call: the generator's core does
//! its own work and the kernel's. So only a rate is told, of one core for both, and no cycles. Handing the frames to threads on another
//! core (threaded NAPI, receive packet steering) let the sender run ahead: half of the frames were lost, and now and then a port of the
//! generator received nothing more.

use std::fmt::Write as _;
use std::net::IpAddr;

use sluice_trial::topology::*;
use sluice_trial::traffic::Encapsulation;

use super::veth::Veth;
use super::{LINKS_LIMIT, Peer, PeerPorts, Setting, Subject};
use crate::error::{BenchError, Result};
use crate::generator::Generator;
use crate::process::Process;

const NAME: &str = "linux-vxlan";
/// Destination port (RFC 7348 section 5).
const VXLAN_PORT: u16 = 4789;

pub(super) const PEER: Peer = Peer {
    name: NAME,
    ports: PeerPorts::Veth,
    start: |setting, topology| Ok(Box::new(Linux::start(setting, topology)?)),
};

/// The namespaces and the generator.
#[derive(Debug)]
pub(crate) struct Linux {
    generator: Generator,
    // Behind the generator, whose ports are there.
    _veth: Veth,
}

impl Linux {
    /// Sets the namespace up and starts the generator.
    fn start(setting: &Setting, topology: &Topology) -> Result<Self> {
        let usual = Topology { encapsulation: Encapsulation::Vxlan, ..Topology::default() };
        if *topology != usual {
            return Err(BenchError::Arguments("Linux is set up for VXLAN over IPv4 alone".into()));
        }
        let veth = Veth::new(setting, NAME)?;
        let device = &veth.device;
        for (file, value) in SETTINGS {
            device.write(&format!("/proc/sys/net/{file}"), value)?;
        }
        device.ip(&configuration(topology))?;
        let folder = setting.folder_of(NAME)?;
        let own = veth.setting(setting);
        let links = own.links(&folder, topology)?;
        let mut generator = own.start_traffic(&folder, &links.generator, topology, 1)?;
        generator.wait_for_links(LINKS_LIMIT)?;
        Ok(Self { generator, _veth: veth })
    }
}

/// Forwarding of both families, from wherever a packet comes; no packets that nobody asked for.
const SETTINGS: [(&str, &str); 9] = [
    ("ipv4/conf/all/forwarding", "1"),
    // The groups that interfaces join are told at once (milliseconds), before anything is measured.
    ("ipv6/conf/default/mldv2_unsolicited_report_interval", "1"),
    ("ipv6/conf/uplink/mldv2_unsolicited_report_interval", "1"),
    ("ipv6/conf/default/disable_ipv6", "0"),
    ("ipv6/conf/uplink/disable_ipv6", "0"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/uplink/rp_filter", "0"),
];

/// Lines for `ip -batch`: addresses, the VXLAN interface, neighbours, routes.
fn configuration(topology: &Topology) -> String {
    let mut text = String::new();
    let (edge, host, vni) = (topology.edge_tep(0), topology.host_tep(0), vni(0).get());
    let _ = writeln!(text, "address add {}/{UPLINK_PREFIX} dev uplink", uplink_ipv4(0));
    let _ = writeln!(text, "address add {}/64 dev uplink nodad", uplink_ipv6(0));
    let _ = writeln!(text, "address add {edge}/24 dev downlink");
    // No outer UDP checksum, as the node sends it.
    let _ = writeln!(
        text,
        "link add vxlan address {ROUTER_MAC} mtu 1500 type vxlan id {vni} local {edge} remote {host} dev downlink dstport {VXLAN_PORT} noudpcsum nolearning"
    );
    let _ = writeln!(text, "link set vxlan addrgenmode none\nlink set vxlan up");
    let _ = writeln!(text, "address add {}/24 dev vxlan", gateway_ipv4(0));
    let _ = writeln!(text, "address add {}/64 dev vxlan nodad", gateway_ipv6(0));
    let mut neighbor = |address: IpAddr, mac, interface| {
        let _ = writeln!(text, "neighbor add {address} lladdr {mac} dev {interface} nud permanent");
    };
    let routers = [topology.router_ipv4(0).into(), topology.router_ipv6(0).into()];
    for router in routers {
        neighbor(router, path_mac(0), "uplink");
    }
    neighbor(host, host_mac(0), "downlink");
    for workload in 0..WORKLOADS {
        neighbor(workload_ipv4(0, workload).into(), workload_mac(workload), "vxlan");
        neighbor(workload_ipv6(0, workload).into(), workload_mac(workload), "vxlan");
    }
    for (prefix, router) in ["0.0.0.0/0", "::/0"].iter().zip(routers) {
        let _ = writeln!(text, "route add {prefix} via {router}");
    }
    text
}

impl Subject for Linux {
    fn name(&self) -> &'static str {
        NAME
    }

    fn generator(&mut self) -> &mut Generator {
        &mut self.generator
    }

    /// The kernel forwards what is sent.
    /// What the kernel does is a part of the generator's time.
    fn processes(&self) -> Vec<&Process> {
        vec![self.generator.process()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_the_addresses_of_the_topology() {
        let text = configuration(&Topology { encapsulation: Encapsulation::Vxlan, ..Topology::default() });
        let has = |line: &str| assert!(text.lines().any(|one| one == line), "{line}: {text}");
        has("address add 192.0.2.2/27 dev uplink");
        has(
            "link add vxlan address 02:50:56:56:44:52 mtu 1500 type vxlan id 71680 local 172.16.0.1 remote 172.16.0.2 dev downlink dstport 4789 noudpcsum nolearning",
        );
        has("neighbor add 172.16.0.2 lladdr 02:00:00:00:09:02 dev downlink nud permanent");
        has("neighbor add 10.10.20.29 lladdr 02:00:00:01:00:13 dev vxlan nud permanent");
        has("neighbor add 2001:db8:20::23 lladdr 02:00:00:01:00:13 dev vxlan nud permanent");
        has("route add ::/0 via 2001:db8:2::1");
        assert_eq!(text.lines().count(), 3 + 3 + 2 + 3 + 40 + 2);
    }
}
