//! Segments: identifiers, TEPs, gateway addresses and replication.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::addresses::{require_interface, same_family};
use super::teps::{self, Carriers, Wanted};
use super::{Scope, each};
use crate::document::Segment;
use crate::draft::Slot;
use crate::plan::{self, GatewayIndex, MIN_IPV6_MTU, Replication, TepIndex};
use crate::problem::{Findings, Path};

/// VNIs of segments and transit segments: each its own.
pub(super) fn check_vnis(scope: &Scope<'_>, findings: &mut Findings) {
    let segments = scope.draft.segments.iter().map(|(index, segment)| {
        let owner = format!("segment '{}'", segment.name);
        (segment.vni, owner, Path::entry("segments", index).field("vni"))
    });
    let transits = scope.draft.gateways.iter().filter_map(|(index, gateway)| {
        let Slot::Present(transit) = &gateway.transit else { return None };
        let owner = format!("the transit segment of '{}'", gateway.name);
        Some((transit.vni, owner, Path::entry("gateways", index).field("transit").field("vni")))
    });
    let mut owners = HashMap::new();
    for (vni, owner, path) in segments.chain(transits) {
        if let Some(first) = owners.get(&vni) {
            let message = format!("{vni} is also the VNI of {first}; give each segment its own VNI");
            findings.report(path, message);
        } else {
            owners.insert(vni, owner);
        }
    }
}

/// What the checks of workloads need to know of a segment besides the document.
pub(super) struct Reach {
    /// The local TEPs that may carry the segment.
    pub(super) carriers: Carriers,
    /// Remote TEPs of the document, then those of the segment's workloads, without repetition.
    pub(super) remote_teps: Vec<IpAddr>,
}

/// For each segment, its TEP and the remote TEPs of it and its workloads.
pub(super) fn reach(scope: &Scope<'_>, findings: &mut Findings) -> Vec<Reach> {
    let mut seen = HashSet::new();
    let mut remote_teps: Vec<Vec<IpAddr>> = vec![Vec::new(); scope.draft.segments.len()];
    let mut add = |segment: usize, remote: IpAddr| {
        if seen.insert((segment, remote)) {
            remote_teps[segment].push(remote);
        }
    };
    for (index, segment) in scope.draft.segments.iter() {
        segment.remote_teps.iter().for_each(|remote| add(index, *remote));
    }
    for (_, workload) in scope.draft.workloads.iter() {
        if let (Some(segment), Some(remote)) =
            (scope.segments.find(workload.segment.as_str()), workload.remote_tep)
        {
            add(segment, remote);
        }
    }
    let mut reach: Vec<Reach> = remote_teps
        .into_iter()
        .map(|remote_teps| Reach { carriers: Carriers::none(), remote_teps })
        .collect();
    for (index, segment) in scope.draft.segments.iter() {
        let pin = segment.tep.as_ref().map(|name| name.as_str());
        let path = Path::entry("segments", index).field("tep");
        let wanted = Wanted { pin, vni: segment.vni, mtu: segment.mtu, remotes: &reach[index].remote_teps };
        reach[index].carriers = teps::carriers(scope, &wanted, path, findings);
    }
    reach
}

pub(super) fn check(
    scope: &Scope<'_>,
    reach: &[Reach],
    findings: &mut Findings,
) -> Vec<Option<plan::Segment>> {
    each(&scope.draft.segments, |index, segment| {
        let path = || Path::entry("segments", index);
        let carriers = &reach[index].carriers;
        let gateway = check_gateway(scope, segment, path(), findings);
        check_gateway_addresses(segment, path().field("gateway-addresses"), findings);
        check_remote_teps(scope, segment, carriers.first(), path().field("remote-teps"), findings);
        teps::check_reserve(
            scope,
            carriers.required(),
            segment.mtu,
            "the segment's MTU",
            path().field("mtu"),
            findings,
        );
        let remote_teps = match segment.replication {
            Replication::Source => reach[index].remote_teps.clone(),
            Replication::None => Vec::new(),
        };
        Some(plan::Segment {
            name: segment.name.to_string(),
            vni: segment.vni,
            encapsulation: segment.encapsulation,
            teps: carriers.teps.clone(),
            teaming: carriers.teaming,
            mtu: segment.mtu,
            gateway,
            gateway_addresses: segment.gateway_addresses.clone(),
            replication: segment.replication,
            remote_teps,
        })
    })
}

/// Resolves the gateway. A gateway without addresses, or addresses without a gateway, are noted.
fn check_gateway(
    scope: &Scope<'_>,
    segment: &Segment,
    path: Path,
    findings: &mut Findings,
) -> Option<GatewayIndex> {
    let Some(name) = &segment.gateway else {
        if !segment.gateway_addresses.is_empty() {
            let message =
                "the segment has gateway addresses but no gateway; name it in gateway, or remove them";
            findings.report(path.field("gateway-addresses"), message);
        }
        return None;
    };
    if segment.gateway_addresses.is_empty() {
        let message = format!("'{name}' has no address on the segment; add gateway-addresses");
        findings.report(path.clone().field("gateway"), message);
    }
    let gateway = scope.gateways.resolve(name.as_str(), path.field("gateway"), findings)?;
    u16::try_from(gateway).ok().map(GatewayIndex)
}

fn check_gateway_addresses(segment: &Segment, path: Path, findings: &mut Findings) {
    for (position, address) in segment.gateway_addresses.iter().enumerate() {
        let path = path.clone().index(position);
        require_interface(*address, &path, findings);
        if address.addr().is_ipv6() && segment.mtu < MIN_IPV6_MTU {
            let mtu = segment.mtu;
            let message = format!("IPv6 needs an MTU of {MIN_IPV6_MTU}; raise the segment's MTU {mtu} to it");
            findings.report(path, message);
        }
    }
}

fn check_remote_teps(
    scope: &Scope<'_>,
    segment: &Segment,
    tep: Option<TepIndex>,
    path: Path,
    findings: &mut Findings,
) {
    if segment.replication == Replication::None && !segment.remote_teps.is_empty() {
        let message =
            "nothing is replicated to these with replication 'none'; remove them, or replicate by 'source'";
        findings.report(path.clone(), message);
    }
    let mut seen = HashMap::new();
    for (position, remote) in segment.remote_teps.iter().enumerate() {
        let path = path.clone().index(position);
        if let Some(first) = seen.insert(remote, position) {
            let message = format!("{remote} is already given at remote-teps[{first}]; remove one of the two");
            findings.report(path, message);
        } else {
            teps::check_remote(scope, *remote, tep, &path, findings);
        }
    }
}

/// The first gateway address of the family of `address`, for examples in messages.
pub(super) fn subnet_for(segment: &Segment, address: IpAddr) -> Option<ipnet::IpNet> {
    segment.gateway_addresses.iter().copied().find(|subnet| same_family(subnet.addr(), address))
}
