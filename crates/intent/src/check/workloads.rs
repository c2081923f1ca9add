//! Workloads: their addresses, and where they are.

use std::collections::HashMap;
use std::net::IpAddr;

use sluice_wire::{MacAddr, VlanId};

use super::addresses::{family, is_link_local, require_unicast, require_unicast_mac, reserved_in};
use super::segments::{Reach, subnet_for};
use super::{Scope, each, teps};
use crate::document::{Segment, Workload};
use crate::plan::{self, Location, PortIndex, SegmentIndex};
use crate::problem::{Findings, Path};

/// A port and the VLAN on it, if any: where frames are told apart.
type Attachment = (usize, Option<VlanId>);

pub(super) fn check(
    scope: &Scope<'_>,
    reach: &[Reach],
    findings: &mut Findings,
) -> Vec<Option<plan::Workload>> {
    let mut seen = Seen { attachments: uplink_attachments(scope), ..Seen::default() };
    each(&scope.draft.workloads, |index, workload| {
        let path = || Path::entry("workloads", index);
        let segment = scope.segments.resolve(workload.segment.as_str(), path().field("segment"), findings);
        check_mac(scope, index, workload, segment, &mut seen, findings);
        for (position, address) in workload.addresses.iter().enumerate() {
            let path = path().field("addresses").index(position);
            if require_unicast(*address, &path, findings)
                && let Some(position) = segment
                && let Some(segment) = scope.draft.segments.get(position)
            {
                let key = (position, *address);
                if let Some(first) = seen.addresses.insert(key, index) {
                    let message =
                        format!("{address} is also an address of {}; give each its own", name(scope, first));
                    findings.report(path.clone(), message);
                }
                check_in_segment(segment, *address, path, findings);
            }
        }
        let location = location(scope, index, workload, segment, reach, &mut seen, findings)?;
        Some(plan::Workload {
            name: workload.name.to_string(),
            segment: SegmentIndex(u16::try_from(segment?).ok()?),
            mac: workload.mac,
            addresses: workload.addresses.clone(),
            location,
        })
    })
}

/// What workloads have taken so far, by the position of the workload.
#[derive(Default)]
struct Seen {
    macs: HashMap<(usize, MacAddr), usize>,
    addresses: HashMap<(usize, IpAddr), usize>,
    attachments: HashMap<Attachment, String>,
}

fn name(scope: &Scope<'_>, workload: usize) -> String {
    scope
        .draft
        .workloads
        .get(workload)
        .map(|workload| format!("workload '{}'", workload.name))
        .unwrap_or_default()
}

/// «port 'p1' untagged» or «VLAN 10 of port 'p1'».
fn describe(port: &str, vlan: Option<VlanId>) -> String {
    vlan.map_or_else(|| format!("port '{port}' untagged"), |vlan| format!("VLAN {vlan} of port '{port}'"))
}

/// What TEPs and tier-0 interfaces use of ports.
fn uplink_attachments(scope: &Scope<'_>) -> HashMap<Attachment, String> {
    let teps = scope.draft.teps.iter().map(|(_, tep)| (&tep.uplink, tep.vlan, format!("TEP '{}'", tep.name)));
    let interfaces = scope.draft.gateways.iter().flat_map(|(_, gateway)| {
        gateway.interfaces.iter().map(move |(_, interface)| {
            let owner = format!("interface '{}' of '{}'", interface.name, gateway.name);
            (&interface.uplink, interface.vlan, owner)
        })
    });
    let port_of =
        |uplink: &str| scope.ports.find(scope.draft.uplinks.get(scope.uplinks.find(uplink)?)?.port.as_str());
    teps.chain(interfaces)
        .filter_map(|(uplink, vlan, owner)| {
            let vlan = vlan.filter(|vlan| !vlan.is_untagged());
            Some(((port_of(uplink.as_str())?, vlan), owner))
        })
        .collect()
}

fn check_mac(
    scope: &Scope<'_>,
    index: usize,
    workload: &Workload,
    segment: Option<usize>,
    seen: &mut Seen,
    findings: &mut Findings,
) {
    let mac = workload.mac;
    let path = || Path::entry("workloads", index).field("mac");
    if !require_unicast_mac(mac, path(), findings) {
        return;
    }
    if scope.draft.router_mac == Some(mac) {
        let message =
            format!("{mac} is the MAC address of the distributed routers; give the workload its own");
        findings.report(path(), message);
    }
    let Some(segment) = segment else { return };
    let first = *seen.macs.entry((segment, mac)).or_insert(index);
    if first != index {
        let message = format!(
            "{mac} is also the MAC address of {} on the segment; give each its own",
            name(scope, first)
        );
        findings.report(path(), message);
    }
}

/// Notes a workload's address that its segment's gateway could not reach, or that is the gateway's own. Link-local addresses are
/// on every segment.
fn check_in_segment(segment: &Segment, address: IpAddr, path: Path, findings: &mut Findings) {
    if segment.gateway_addresses.is_empty() || is_link_local(address) {
        return;
    }
    let subnets = || segment.gateway_addresses.iter();
    let message = if subnets().any(|subnet| subnet.addr() == address) {
        format!("{address} is the gateway's address on segment '{}'; give the workload another", segment.name)
    } else if let Some(subnet) = subnets().find(|subnet| subnet.contains(&address)) {
        let Some(what) = reserved_in(*subnet, address) else { return };
        format!("{address} is {what} of {}; give the workload another", subnet.trunc())
    } else if let Some(subnet) = subnet_for(segment, address) {
        format!(
            "{address} is not in a subnet of segment '{}'; give an address of {}, or add a gateway address",
            segment.name,
            subnet.trunc()
        )
    } else {
        let (name, family) = (&segment.name, family(address));
        format!("{address} is {family}, but segment '{name}' has no {family} subnet; add a gateway address")
    };
    findings.report(path, message);
}

/// Where the workload is.
fn location(
    scope: &Scope<'_>,
    index: usize,
    workload: &Workload,
    segment: Option<usize>,
    reach: &[Reach],
    seen: &mut Seen,
    findings: &mut Findings,
) -> Option<Location> {
    let path = || Path::entry("workloads", index);
    match (&workload.port, workload.remote_tep) {
        (Some(_), Some(_)) => {
            let message = "the workload has both port and remote-tep; it is either here or there, so remove one of the two";
            findings.report(path(), message);
            None
        }
        (None, None) => {
            let message =
                "nothing says where the workload is; add port if it is on this node, else remote-tep";
            findings.report(path(), message);
            None
        }
        (None, Some(remote)) => {
            if workload.vlan.is_some() {
                let message = "the VLAN is that of a port of this node; remove it, since the workload is behind a remote TEP";
                findings.report(path().field("vlan"), message);
            }
            if let Some(segment) = segment {
                let path = path().field("remote-tep");
                teps::check_remote(scope, remote, reach[segment].carriers.first(), &path, findings);
            }
            Some(Location::RemoteTep(remote))
        }
        (Some(_), None) => on_port(scope, index, workload, segment, seen, findings),
    }
}

fn on_port(
    scope: &Scope<'_>,
    index: usize,
    workload: &Workload,
    segment: Option<usize>,
    seen: &mut Seen,
    findings: &mut Findings,
) -> Option<Location> {
    let path = || Path::entry("workloads", index).field("port");
    let port = scope.ports.resolve(workload.port.as_ref()?.as_str(), path(), findings)?;
    let vlan = workload.vlan.filter(|vlan| !vlan.is_untagged());
    let draft = scope.draft.ports.get(port)?;
    let owner = format!("workload '{}'", workload.name);
    if let Some(other) = seen.attachments.get(&(port, vlan)) {
        let what = describe(draft.name.as_str(), vlan);
        let message =
            format!("{what} is already used by {other}; give the workload a port or VLAN of its own");
        findings.report(path(), message);
    } else {
        seen.attachments.insert((port, vlan), owner);
    }
    if let Some(segment) = segment.and_then(|segment| scope.draft.segments.get(segment))
        && segment.mtu > draft.mtu
    {
        let message = format!(
            "port '{}' carries {} bytes, less than the MTU {} of segment '{}'; raise the port's MTU, or lower the segment's",
            draft.name, draft.mtu, segment.mtu, segment.name
        );
        findings.report(path(), message);
    }
    Some(Location::Port { port: PortIndex(u16::try_from(port).ok()?), vlan })
}
