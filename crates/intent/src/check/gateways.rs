//! Gateways: what each tier may have, interfaces and links.

use std::collections::HashMap;

use super::addresses::require_interface;
use super::{Scope, each, routes, teps, transit};
use crate::document::{Interface, RouterLink, TierNumber};
use crate::draft::{Gateway, Slot};
use crate::plan::{
    self, GatewayIndex, MAX_STATIC_ROUTES, MIN_IPV6_MTU, Role, TeamingPolicy, Tier, UplinkIndex,
};
use crate::problem::{Findings, Path};

pub(super) fn check(scope: &Scope<'_>, findings: &mut Findings) -> Vec<Option<plan::Gateway>> {
    let routes: usize = scope.draft.gateways.iter().map(|(_, gateway)| gateway.static_routes.len()).sum();
    if routes > MAX_STATIC_ROUTES {
        let message =
            format!("there are {routes} static routes in all; at most {MAX_STATIC_ROUTES} are possible");
        findings.report(Path::root().field("gateways"), message);
    }
    let mut used = HashMap::new();
    each(&scope.draft.gateways, |index, gateway| {
        check_tier(index, gateway, findings);
        let interfaces = check_interfaces(scope, index, gateway, &mut used, findings);
        let tier = match gateway.tier {
            TierNumber::Zero => Some(Tier::Tier0 {
                interfaces: super::complete(interfaces).unwrap_or_default(),
                transit: match &gateway.transit {
                    Slot::Present(transit) => {
                        let local = gateway.interfaces.len() > 0;
                        Some(transit::check(scope, index, transit, local, findings))
                    }
                    Slot::Absent | Slot::Broken => None,
                },
            }),
            TierNumber::One => match &gateway.link {
                Slot::Present(link) => {
                    check_link(scope, index, link, findings).map(|link| Tier::Tier1 { link: Some(link) })
                }
                Slot::Absent | Slot::Broken => Some(Tier::Tier1 { link: None }),
            },
        };
        let static_routes = routes::check(scope, index, gateway, findings);
        let bfd_peers = routes::check_bfd_peers(scope, index, gateway, findings);
        Some(plan::Gateway {
            name: gateway.name.to_string(),
            tier: tier?,
            static_routes: super::complete(static_routes)?,
            bfd_peers: super::complete(bfd_peers)?,
        })
    })
}

/// Notes parts that the gateway's tier does not have.
fn check_tier(index: usize, gateway: &Gateway, findings: &mut Findings) {
    let path = Path::entry("gateways", index);
    match gateway.tier {
        TierNumber::Zero => {
            if !matches!(gateway.link, Slot::Absent) {
                let message =
                    "a tier-0 gateway has no link; tier-1 gateways name it in theirs, so remove this one";
                findings.report(path.field("link"), message);
            }
        }
        TierNumber::One => {
            if gateway.interfaces.len() > 0 {
                let message = "a tier-1 gateway has no interfaces on uplinks; put them on its tier-0, or make this tier 0";
                findings.report(path.clone().field("interfaces"), message);
            }
            if gateway.bfd_peers.len() > 0 {
                let message = "a tier-1 gateway has no neighbours on interfaces; put them on its tier-0";
                findings.report(path.clone().field("bfd-peers"), message);
            }
            if !matches!(gateway.transit, Slot::Absent) {
                let message = "a tier-1 gateway has no transit segment; put it on its tier-0";
                findings.report(path.field("transit"), message);
            }
        }
    }
}

fn check_interfaces(
    scope: &Scope<'_>,
    index: usize,
    gateway: &Gateway,
    used: &mut HashMap<(usize, u16), String>,
    findings: &mut Findings,
) -> Vec<Option<plan::UplinkInterface>> {
    let path = || Path::entry("gateways", index).field("interfaces");
    if gateway.interfaces.len() > 0 && scope.draft.role == Some(Role::Host) {
        let message = "a host has no interfaces on uplinks, only an edge or a branch has; remove them, or change the \
                       role of the node";
        findings.report(path(), message);
    }
    let mut names = HashMap::new();
    each(&gateway.interfaces, |position, interface| {
        let path = || path().index(position);
        let first = *names.entry(interface.name.clone()).or_insert(position);
        if first != position {
            let message = format!(
                "'{}' is also the name of interfaces[{first}]; give each interface of the gateway its own",
                interface.name
            );
            findings.report(path().field("name"), message);
        }
        check_interface(scope, gateway, interface, path(), used, findings)
    })
}

fn check_interface(
    scope: &Scope<'_>,
    gateway: &Gateway,
    interface: &Interface,
    path: Path,
    used: &mut HashMap<(usize, u16), String>,
    findings: &mut Findings,
) -> Option<plan::UplinkInterface> {
    for (position, address) in interface.addresses.iter().enumerate() {
        let path = path.clone().field("addresses").index(position);
        if require_interface(*address, &path, findings)
            && let Some((tep, _)) = scope.local_teps().find(|(_, tep)| *tep == address.addr())
        {
            let tep = scope.draft.teps.get(tep).map(|tep| tep.name.as_str()).unwrap_or_default();
            let message =
                format!("{} is also the address of TEP '{tep}'; give the interface its own", address.addr());
            findings.report(path, message);
        }
    }
    let uplink = check_uplink(scope, interface, &path, findings)?;
    let vlan = interface.vlan.filter(|vlan| !vlan.is_untagged());
    let owner = format!("interface '{}' of '{}'", interface.name, gateway.name);
    if let Some(other) = used.get(&(uplink, vlan.map_or(0, |vlan| vlan.get()))) {
        let what = vlan.map_or_else(|| "untagged".to_owned(), |vlan| format!("with VLAN {vlan}"));
        let message = format!(
            "uplink '{}' {what} is already used by {other}; give each interface its own VLAN or uplink",
            scope.uplink_name(uplink)
        );
        findings.report(path.clone().field("uplink"), message);
    } else {
        used.insert((uplink, vlan.map_or(0, |vlan| vlan.get())), owner);
    }
    let mtu = interface.mtu.or_else(|| scope.mtu_of_uplink(uplink).map(|(_, mtu)| mtu))?;
    teps::check_mtu(scope, uplink, mtu, path.clone().field("mtu"), findings);
    if mtu < MIN_IPV6_MTU && interface.addresses.iter().any(|address| address.addr().is_ipv6()) {
        let message = format!("{mtu} is less than IPv6 needs; give {MIN_IPV6_MTU} or more");
        findings.report(path.field("mtu"), message);
    }
    Some(plan::UplinkInterface {
        name: interface.name.to_string(),
        uplink: UplinkIndex(u16::try_from(uplink).ok()?),
        vlan,
        addresses: interface.addresses.clone(),
        mtu,
    })
}

/// The uplink that carries the interface, or the team.
fn check_uplink(
    scope: &Scope<'_>,
    interface: &Interface,
    path: &Path,
    findings: &mut Findings,
) -> Option<usize> {
    match (&interface.uplink, &interface.teaming) {
        (Some(_), Some(_)) => {
            let message = "the interface has both uplink and teaming; the teaming names its uplinks, so remove one of the two";
            findings.report(path.clone(), message);
        }
        (Some(name), None) => {
            scope.uplinks.resolve(name.as_str(), path.clone().field("uplink"), findings);
        }
        (None, Some(name)) => {
            let path = path.clone().field("teaming");
            scope.teaming_names.resolve(name.as_str(), path.clone(), findings);
            let policy = scope.teaming(name.as_str()).map(|teaming| teaming.policy);
            if policy.is_some_and(|policy| policy != TeamingPolicy::FailoverOrder) {
                let message = format!(
                    "teaming '{name}' spreads over its uplinks, and an interface is on one at a time; name a teaming with the policy \
                     'failover-order'"
                );
                findings.report(path, message);
            }
        }
        (None, None) => {
            let message = "nothing says which uplink carries the interface; add uplink or teaming";
            findings.report(path.clone(), message);
        }
    }
    scope.uplink_of_interface(interface)
}

fn check_link(
    scope: &Scope<'_>,
    index: usize,
    link: &RouterLink,
    findings: &mut Findings,
) -> Option<plan::RouterLink> {
    let path = || Path::entry("gateways", index).field("link");
    let ends = [("tier-0-addresses", &link.tier0_addresses), ("tier-1-addresses", &link.tier1_addresses)];
    for (end, (field, addresses)) in ends.iter().enumerate() {
        let others = ends[1 - end].1;
        for (position, address) in addresses.iter().enumerate() {
            let path = path().field(*field).index(position);
            if !require_interface(*address, &path, findings) {
                continue;
            }
            let peer = others.iter().find(|other| other.trunc() == address.trunc());
            let message = match peer {
                None => format!(
                    "the other end of the link has no address in {}; give it one in {}",
                    address.trunc(),
                    ends[1 - end].0
                ),
                // Both ends would report it; once is enough.
                Some(peer) if peer.addr() == address.addr() && end == 1 => {
                    format!(
                        "{} is also the address of the tier-0's end; give each end its own",
                        address.addr()
                    )
                }
                Some(_) => continue,
            };
            findings.report(path, message);
        }
    }
    let tier0 = scope.gateways.resolve(link.tier0.as_str(), path().field("tier-0"), findings)?;
    if scope.draft.gateways.get(tier0).is_some_and(|gateway| gateway.tier != TierNumber::Zero) {
        let message = format!("'{}' is a tier-1 gateway; a link leads to a tier-0, so name one", link.tier0);
        findings.report(path().field("tier-0"), message);
    }
    Some(plan::RouterLink {
        tier0: GatewayIndex(u16::try_from(tier0).ok()?),
        tier0_addresses: link.tier0_addresses.clone(),
        tier1_addresses: link.tier1_addresses.clone(),
    })
}
