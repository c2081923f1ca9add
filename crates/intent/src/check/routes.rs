//! Static routes: every next hop is behind an interface of the gateway or on a segment connected to it.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::addresses::{family, is_link_local, require_unicast, reserved_in, same_family};
use super::{Scope, each};
use crate::document::{NextHop, StaticRoute, TierNumber};
use crate::draft::Gateway;
use crate::plan::{self, SegmentIndex, Via};
use crate::problem::{Findings, Path};

pub(super) fn check(
    scope: &Scope<'_>,
    index: usize,
    gateway: &Gateway,
    findings: &mut Findings,
) -> Vec<Option<plan::StaticRoute>> {
    let neighbourhood = Neighbourhood::of(scope, index, gateway);
    let mut prefixes = HashMap::new();
    each(&gateway.static_routes, |position, route| {
        let path = || Path::entry("gateways", index).field("static-routes").index(position);
        check_prefix(route.prefix, path().field("prefix"), findings);
        let first = *prefixes.entry(route.prefix.trunc()).or_insert(position);
        if first != position {
            let message = format!(
                "{} is also the prefix of static-routes[{first}]; put the next hops of both into one route",
                route.prefix
            );
            findings.report(path().field("prefix"), message);
        }
        check_kind(route, path(), findings);
        let hops = route.next_hops.iter().enumerate();
        let next_hops: Vec<_> = hops
            .map(|(hop, next_hop)| {
                let path = path().field("next-hops").index(hop);
                if route.next_hops[..hop].contains(next_hop) {
                    let message = format!("{} is given twice; remove one of the two", next_hop.address);
                    findings.report(path.clone(), message);
                }
                check_next_hop(&neighbourhood, route.prefix, next_hop, path, findings)
            })
            .collect();
        Some(plan::StaticRoute { prefix: route.prefix, next_hops: super::complete(next_hops)? })
    })
}

/// The neighbours that BFD watches: each on an interface, and once.
pub(super) fn check_bfd_peers(
    scope: &Scope<'_>,
    index: usize,
    gateway: &Gateway,
    findings: &mut Findings,
) -> Vec<Option<plan::BfdPeer>> {
    if gateway.tier == TierNumber::One {
        return Vec::new();
    }
    let neighbourhood = Neighbourhood::of(scope, index, gateway);
    let mut addresses = HashMap::new();
    each(&gateway.bfd_peers, |position, peer| {
        let path = Path::entry("gateways", index).field("bfd-peers").index(position).field("address");
        let first = *addresses.entry(peer.address).or_insert(position);
        if first != position {
            let message = format!("{} is already at bfd-peers[{first}]; remove one of the two", peer.address);
            findings.report(path, message);
            return None;
        }
        if !require_unicast(peer.address, &path, findings) {
            return None;
        }
        if is_link_local(peer.address) {
            let message = format!(
                "{} is link-local, so it may be on any interface; give another address",
                peer.address
            );
            findings.report(path, message);
            return None;
        }
        let Via::Interface(interface) = by_address(&neighbourhood, peer.address, path.clone(), findings)?
        else {
            let message = format!(
                "{} is behind a segment; BFD watches neighbours on interfaces, so remove it",
                peer.address
            );
            findings.report(path, message);
            return None;
        };
        let addresses = &gateway.interfaces.get(usize::from(interface))?.addresses;
        Some(plan::BfdPeer {
            address: peer.address,
            local: addresses.iter().find(|subnet| subnet.contains(&peer.address))?.addr(),
            interface,
            interval_ms: peer.interval_ms,
            multiplier: peer.multiplier,
        })
    })
}

fn check_prefix(prefix: IpNet, path: Path, findings: &mut Findings) {
    if prefix != prefix.trunc() {
        let message = format!("{prefix} has bits set behind its prefix; write {}", prefix.trunc());
        findings.report(path, message);
    } else if prefix.addr().is_multicast() {
        findings.report(path, format!("{prefix} is a multicast prefix; static routes are for unicast"));
    }
}

fn check_kind(route: &StaticRoute, path: Path, findings: &mut Findings) {
    match (route.blackhole, route.next_hops.is_empty()) {
        (true, false) => {
            let message = "a blackhole route has no next hops; remove them, or blackhole";
            findings.report(path.field("blackhole"), message);
        }
        (false, true) => {
            let message = format!(
                "the route to {} leads nowhere; add next-hops, or blackhole: true to discard",
                route.prefix
            );
            findings.report(path, message);
        }
        _ => {}
    }
}

/// What is directly reachable from a gateway.
struct Neighbourhood<'d> {
    gateway: &'d str,
    /// Name, how the plan names it, and its addresses.
    links: Vec<(&'d str, Via, &'d [IpNet])>,
    /// Some interfaces or segments could not be read, so that nothing can be called unreachable.
    incomplete: bool,
}

impl<'d> Neighbourhood<'d> {
    fn of(scope: &Scope<'d>, index: usize, gateway: &'d Gateway) -> Self {
        let interfaces = gateway.interfaces.iter().filter_map(|(position, interface)| {
            let via = Via::Interface(u16::try_from(position).ok()?);
            Some((interface.name.as_str(), via, interface.addresses.as_slice()))
        });
        let segments = scope.attached[index].iter().filter_map(|position| {
            let segment = scope.draft.segments.get(*position)?;
            let via = Via::Segment(SegmentIndex(u16::try_from(*position).ok()?));
            Some((segment.name.as_str(), via, segment.gateway_addresses.as_slice()))
        });
        Self {
            gateway: gateway.name.as_str(),
            links: interfaces.chain(segments).collect(),
            incomplete: gateway.interfaces.incomplete() || scope.segments.incomplete(),
        }
    }

    /// The link called `name`.
    fn named(&self, name: &str) -> Option<&(&'d str, Via, &'d [IpNet])> {
        self.links.iter().find(|(link, ..)| *link == name)
    }

    /// The link with a subnet that has `address`.
    fn containing(&self, address: IpAddr) -> Option<(Via, IpNet)> {
        self.links.iter().find_map(|(_, via, subnets)| {
            let subnet = subnets.iter().find(|subnet| subnet.contains(&address))?;
            Some((*via, *subnet))
        })
    }
}

fn check_next_hop(
    neighbourhood: &Neighbourhood<'_>,
    prefix: IpNet,
    next_hop: &NextHop,
    path: Path,
    findings: &mut Findings,
) -> Option<plan::NextHop> {
    let address = next_hop.address;
    let at_address = path.clone().field("address");
    if !require_unicast(address, &at_address, findings) {
        return None;
    }
    if !same_family(address, prefix.addr()) {
        let message = format!(
            "{address} is {}, but the route's prefix {prefix} is {}; give a next hop of the prefix's family",
            family(address),
            family(prefix.addr())
        );
        findings.report(at_address, message);
        return None;
    }
    let via = match &next_hop.interface {
        Some(name) => by_name(neighbourhood, name.as_str(), address, path, findings)?,
        None => by_address(neighbourhood, address, at_address, findings)?,
    };
    Some(plan::NextHop { address, via })
}

/// The link that the next hop names.
fn by_name(
    neighbourhood: &Neighbourhood<'_>,
    name: &str,
    address: IpAddr,
    path: Path,
    findings: &mut Findings,
) -> Option<Via> {
    let gateway = neighbourhood.gateway;
    let Some((_, via, subnets)) = neighbourhood.named(name) else {
        if !neighbourhood.incomplete {
            let hint = crate::suggest::did_you_mean(name, neighbourhood.links.iter().map(|(link, ..)| *link));
            let hint = if hint.is_empty() { "; correct the name".to_owned() } else { hint };
            let message = format!(
                "'{name}' is neither an interface of '{gateway}' nor a segment connected to it{hint}"
            );
            findings.report(path.field("interface"), message);
        }
        return None;
    };
    let message = if is_link_local(address) {
        if subnets.iter().any(|subnet| subnet.addr().is_ipv6()) {
            return Some(*via);
        }
        format!("{address} is IPv6, but '{name}' has no IPv6 address; add one, or give another next hop")
    } else {
        match subnets.iter().find(|subnet| subnet.contains(&address)) {
            None => format!("{address} is in no subnet of '{name}'; correct one of the two"),
            Some(subnet) => match own_or_reserved(subnet, address) {
                None => return Some(*via),
                Some(message) => message,
            },
        }
    };
    findings.report(path.field("address"), message);
    None
}

/// The link that has the next hop in one of its subnets.
fn by_address(
    neighbourhood: &Neighbourhood<'_>,
    address: IpAddr,
    path: Path,
    findings: &mut Findings,
) -> Option<Via> {
    let gateway = neighbourhood.gateway;
    let message = if is_link_local(address) {
        format!("{address} is link-local, so it may be behind any interface; name the one in interface")
    } else if let Some((via, subnet)) = neighbourhood.containing(address) {
        match own_or_reserved(&subnet, address) {
            None => return Some(via),
            Some(message) => message,
        }
    } else if neighbourhood.incomplete {
        return None;
    } else {
        format!(
            "{address} is in no subnet that is connected to '{gateway}'; give the address of a neighbour on one of its \
             interfaces or segments"
        )
    };
    findings.report(path, message);
    None
}

/// Why an address in a connected subnet is no neighbour there.
fn own_or_reserved(subnet: &IpNet, address: IpAddr) -> Option<String> {
    if subnet.addr() == address {
        return Some(format!("{address} is the gateway's own address; give the address of a neighbour"));
    }
    let what = reserved_in(*subnet, address)?;
    Some(format!("{address} is {what} of {}; give the address of a neighbour", subnet.trunc()))
}
