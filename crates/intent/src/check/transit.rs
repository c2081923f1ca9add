//! Transit segments and the service routers on them.

use std::collections::HashMap;
use std::net::IpAddr;

use super::Scope;
use super::addresses::{family, require_routable, require_unicast_mac};
use super::teps::{self, Wanted};
use crate::document::{Segment, ServiceRouter, Transit};
use crate::plan::{self, Role};
use crate::problem::{Findings, Path};

/// Checks the transit segment of the gateway at `index`. `local` says that the gateway has interfaces on this node.
pub(super) fn check(
    scope: &Scope<'_>,
    index: usize,
    transit: &Transit,
    local: bool,
    findings: &mut Findings,
) -> plan::Transit {
    let path = || Path::entry("gateways", index).field("transit");
    let own = |router: &&ServiceRouter| Some(&router.edge) == scope.draft.name.as_ref();
    let remotes: Vec<IpAddr> =
        transit.service_routers.iter().filter(|router| !own(router)).map(|router| router.tep).collect();
    let pin = transit.tep.as_ref().map(|name| name.as_str());
    let greatest = greatest(scope, index);
    let mtu = greatest.map_or(0, |segment| segment.mtu);
    let wanted = Wanted { pin, vni: transit.vni, mtu, remotes: &remotes };
    let carriers = teps::carriers(scope, &wanted, path().field("tep"), findings);

    let mut seen = Seen::default();
    for (position, router) in transit.service_routers.iter().enumerate() {
        let path = path().field("service-routers").index(position);
        check_unique(router, &path, &mut seen, findings);
        check_router(scope, router, &path, findings);
        if own(&router) {
            check_own(scope, router, path, findings);
        } else {
            teps::check_remote(scope, router.tep, carriers.first(), &path.field("tep"), findings);
        }
    }
    let absent =
        !transit.service_routers.is_empty() && !transit.service_routers.iter().any(|router| own(&router));
    if let (true, true, Some(name)) = (local, absent, &scope.draft.name) {
        let message = format!(
            "the gateway has interfaces on this node, but none of its service routers is on '{name}'; add the one of this node"
        );
        findings.report(path().field("service-routers"), message);
    }
    if let Some(segment) = greatest {
        let what = format!("the MTU of segment '{}', whose packets cross the transit segment,", segment.name);
        teps::check_reserve(scope, carriers.required(), mtu, &what, path().field("tep"), findings);
    }
    plan::Transit {
        vni: transit.vni,
        encapsulation: transit.encapsulation,
        teaming: carriers.teaming,
        teps: carriers.teps,
        service_routers: transit.service_routers.iter().map(service_router).collect(),
    }
}

fn service_router(router: &ServiceRouter) -> plan::ServiceRouter {
    plan::ServiceRouter {
        edge: router.edge.to_string(),
        mac: router.mac,
        addresses: router.addresses.clone(),
        tep: router.tep,
    }
}

/// What the service routers of one transit segment have taken so far.
#[derive(Default)]
struct Seen {
    /// Kind of the thing and the thing, with the edge that has it.
    taken: HashMap<(&'static str, String), String>,
}

fn check_unique(router: &ServiceRouter, path: &Path, seen: &mut Seen, findings: &mut Findings) {
    let mut take = |what: &'static str, value: String, path: Path| {
        let key = (what, value);
        if let Some(edge) = seen.taken.get(&key) {
            let message = match what {
                "the edge" => format!("'{edge}' already has a service router here; name each edge once"),
                _ => format!("{} is also {what} of the service router on '{edge}'; give each its own", key.1),
            };
            findings.report(path, message);
        } else {
            seen.taken.insert(key, router.edge.to_string());
        }
    };
    take("the edge", router.edge.to_string(), path.clone().field("edge"));
    take("the MAC address", router.mac.to_string(), path.clone().field("mac"));
    take("the TEP", router.tep.to_string(), path.clone().field("tep"));
    // Addresses are compared with all others of the router tree, by the check of its subnets.
}

fn check_router(scope: &Scope<'_>, router: &ServiceRouter, path: &Path, findings: &mut Findings) {
    if require_unicast_mac(router.mac, path.clone().field("mac"), findings)
        && scope.draft.router_mac == Some(router.mac)
    {
        let message = format!(
            "{} is the MAC address of the distributed routers; give the service router its own",
            router.mac
        );
        findings.report(path.clone().field("mac"), message);
    }
    for (position, address) in router.addresses.iter().enumerate() {
        let path = path.clone().field("addresses").index(position);
        require_routable(*address, &path, findings);
        if router.addresses[..position].iter().any(|other| other.is_ipv4() == address.is_ipv4()) {
            let message =
                format!("{address} is the second {} address; give one of each family", family(*address));
            findings.report(path, message);
        }
    }
}

/// The service router that runs on this node.
fn check_own(scope: &Scope<'_>, router: &ServiceRouter, path: Path, findings: &mut Findings) {
    if scope.draft.role == Some(Role::Host) {
        let message = format!(
            "'{}' is this node, but hosts run no service routers; name an edge, or make the role of this node edge",
            router.edge
        );
        findings.report(path.field("edge"), message);
    } else if !scope.local_teps().any(|(_, address)| address == router.tep) && !scope.teps.incomplete() {
        let message = format!(
            "the service router is on this node, but {} is none of its TEPs; give one of teps",
            router.tep
        );
        findings.report(path.field("tep"), message);
    }
}

/// The segment with the greatest MTU whose packets cross the transit segment of the gateway at `index`.
fn greatest<'a>(scope: &Scope<'a>, index: usize) -> Option<&'a Segment> {
    let linked = scope.linked(index);
    let segments = std::iter::once(index).chain(linked).flat_map(|gateway| &scope.attached[gateway]);
    segments.filter_map(|segment| scope.draft.segments.get(*segment)).max_by_key(|segment| segment.mtu)
}
