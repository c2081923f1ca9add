//! A device that the bench neither starts nor asks: an operator's own router between two ports of the generator.
//!
//! ```text
//!   generator, uplink ports ── cables ── device ── cables ── generator, downlink ports
//! ```
//!
//! It has to have the addresses and routes of the topology ([`requirements`]); its MAC addresses are asked for, unless they are named. What it
//! counts is not known, and so no cycles are told.

use std::fmt::Write as _;
use std::time::Duration;

use sluice_trial::topology::*;
use sluice_trial::traffic::Encapsulation;
use sluice_wire::MacAddr;

use super::{LINKS_LIMIT, Setting, Subject};
use crate::error::Result;
use crate::generator::Generator;
use crate::process::Process;

/// How long the device may take to say its MAC addresses: the time in which a switch between may learn, and spanning tree begin to forward.
const FIND_LIMIT: Duration = Duration::from_secs(40);

/// MAC addresses of a device that were named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedMacs {
    /// By link, uplinks first; those that are absent are asked for.
    pub(crate) links: Vec<Option<MacAddr>>,
    /// Its router on the segments.
    pub(crate) router: Option<MacAddr>,
}

/// The generator on both sides of the device.
#[derive(Debug)]
pub(crate) struct External {
    generator: Generator,
    /// What the device has to be set up with.
    requirements: String,
}

impl External {
    /// Starts the generator and finds the device.
    pub(crate) fn start(setting: &Setting, topology: &Topology, macs: &NamedMacs) -> Result<Self> {
        let folder = setting.folder_of("external")?;
        let links = setting.links(&folder, topology)?;
        let mut generator = setting.start_traffic(&folder, &links.generator, topology, 1)?;
        generator.wait_for_links(LINKS_LIMIT)?;
        generator.find_device(macs, FIND_LIMIT)?;
        Ok(Self { generator, requirements: requirements(topology) })
    }
}

impl Subject for External {
    fn name(&self) -> &'static str {
        "external"
    }

    fn generator(&mut self) -> &mut Generator {
        &mut self.generator
    }

    fn document(&self) -> Option<&str> {
        Some(&self.requirements)
    }

    fn processes(&self) -> Vec<&Process> {
        vec![self.generator.process()]
    }
}

/// What a device has to be set up with for a topology, for people.
pub(crate) fn requirements(topology: &Topology) -> String {
    let mut text =
        String::from("# What the device has to have. Its MAC addresses are asked for.\n\nports:\n");
    for uplink in 0..topology.uplinks {
        let (v4, v6) = (uplink_ipv4(uplink), uplink_ipv6(uplink));
        let _ = writeln!(text, "  uplink {uplink}: address {v4}/{UPLINK_PREFIX}, {v6}/64; MTU 1500 or more");
    }
    let is_plain = topology.encapsulation == Encapsulation::None;
    let mtu = if is_plain { 1500 } else { 1600 };
    for downlink in 0..topology.teps() {
        let edge = topology.edge_tep(downlink);
        let prefix = if edge.is_ipv4() { 24 } else { 64 };
        let what = if is_plain { "address" } else { "TEP" };
        let link = match topology.lag {
            true => format!("a LAG of {} downlinks (LACP)", topology.downlinks),
            false => format!("downlink {downlink}"),
        };
        let _ = writeln!(text, "  {link}: {what} {edge}/{prefix}; MTU {mtu} or more");
    }
    text.push_str("routes:\n");
    let routers = |of: &dyn Fn(u8) -> String| (0..topology.paths).map(of).collect::<Vec<_>>().join(", ");
    let v4 = routers(&|path| topology.router_ipv4(path).to_string());
    let v6 = routers(&|path| topology.router_ipv6(path).to_string());
    let _ = writeln!(text, "  198.18.0.0/26 via {v4}\n  2001:db8:ffff::/64 via {v6}");
    for downlink in 0..topology.teps() {
        let (host, v4, v6) = (topology.host_tep(downlink), gateway_ipv4(downlink), gateway_ipv6(downlink));
        if is_plain {
            let [a, b, c, _] = v4.octets();
            let subnet = if host.is_ipv4() { format!("{a}.{b}.{c}.0/24") } else { subnet_ipv6(downlink) };
            let _ = writeln!(text, "  {subnet} via {host}");
            continue;
        }
        if downlink == 0 {
            text.push_str("segments:\n");
        }
        let _ = writeln!(
            text,
            "  {} VNI {}, remote TEP {host}: gateway {v4}/24, {v6}/64, MAC address {} (or --device-router-mac)",
            topology.encapsulation,
            vni(downlink).get(),
            topology.edge.router
        );
        for workload in (0..WORKLOADS).filter(|workload| topology.downlink_of(*workload) == downlink) {
            let (v4, v6) = (workload_ipv4(downlink, workload), workload_ipv6(downlink, workload));
            let _ = writeln!(text, "    neighbour {} at {v4}, {v6}", workload_mac(workload));
        }
    }
    text
}

/// The subnet of the workloads behind a downlink.
fn subnet_ipv6(downlink: u8) -> String {
    let mut segments = gateway_ipv6(downlink).segments();
    segments[7] = 0;
    format!("{}/64", std::net::Ipv6Addr::from(segments))
}

#[cfg(test)]
mod tests {
    use sluice_trial::traffic::Family;

    use super::*;

    #[test]
    fn a_person_is_told_what_the_device_has_to_have() {
        let plain = Topology { encapsulation: Encapsulation::None, ..Topology::default() };
        let text = requirements(&plain);
        for line in [
            "  uplink 0: address 192.0.2.2/27, 2001:db8:2::2/64; MTU 1500 or more",
            "  downlink 0: address 172.16.0.1/24; MTU 1500 or more",
            "  198.18.0.0/26 via 192.0.2.1",
            "  10.10.20.0/24 via 172.16.0.2",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        let six = requirements(&Topology { outer: Family::Ipv6, downlinks: 2, ..plain });
        assert!(six.contains("  2001:db8:20:1::/64 via 2001:db8:10:1::2\n"), "{six}");
        let tunnels = requirements(&Topology { uplinks: 2, paths: 2, ..Topology::default() });
        assert!(tunnels.contains("198.18.0.0/26 via 192.0.2.1, 192.0.2.33\n"), "{tunnels}");
        assert!(
            tunnels.contains("Geneve VNI 71680, remote TEP 172.16.0.2: gateway 10.10.20.1/24"),
            "{tunnels}"
        );
        assert_eq!(tunnels.lines().filter(|line| line.contains("neighbour")).count(), 20);
    }
}
