//! Overlapping subnets: within one tree of routers an address leads to one place.
//!
//! A tree is a tier-0 with the tier-1s linked to it, or a tier-1 without a link. Its connected subnets are those of the segments
//! connected to its gateways, of its uplink interfaces and of its links. TEPs are in the transport network and not among them.

use std::collections::HashMap;

use ipnet::IpNet;

use super::Scope;
use crate::draft::Slot;
use crate::problem::{Findings, Path};

/// A connected subnet and who has it.
struct Connected {
    subnet: IpNet,
    owner: String,
    path: Path,
}

pub(super) fn check(scope: &Scope<'_>, findings: &mut Findings) {
    let mut trees: HashMap<usize, Vec<Connected>> = HashMap::new();
    for (index, gateway) in scope.draft.gateways.iter() {
        let root = match &gateway.link {
            Slot::Present(link) => scope.gateways.find(link.tier0.as_str()).unwrap_or(index),
            Slot::Absent | Slot::Broken => index,
        };
        collect(scope, index, trees.entry(root).or_default());
    }
    let mut trees: Vec<_> = trees.into_iter().collect();
    trees.sort_by_key(|(root, _)| *root);
    for (_, connected) in trees {
        report_overlaps(connected, findings);
    }
}

/// Adds the connected subnets of a gateway.
fn collect(scope: &Scope<'_>, index: usize, connected: &mut Vec<Connected>) {
    let Some(gateway) = scope.draft.gateways.get(index) else { return };
    let path = || Path::entry("gateways", index);
    let mut add = |addresses: &[IpNet], owner: &str, path: Path| {
        for (position, address) in addresses.iter().enumerate() {
            let (subnet, path) = (address.trunc(), path.clone().index(position));
            connected.push(Connected { subnet, owner: owner.to_owned(), path });
        }
    };
    for segment in &scope.attached[index] {
        if let Some(draft) = scope.draft.segments.get(*segment) {
            let path = Path::entry("segments", *segment).field("gateway-addresses");
            add(&draft.gateway_addresses, &format!("segment '{}'", draft.name), path);
        }
    }
    for (position, interface) in gateway.interfaces.iter() {
        let owner = format!("interface '{}' of '{}'", interface.name, gateway.name);
        add(&interface.addresses, &owner, path().field("interfaces").index(position).field("addresses"));
    }
    if let Slot::Present(link) = &gateway.link {
        // Both ends share their subnets, which is checked with the link.
        let owner = format!("the link of '{}' to '{}'", gateway.name, link.tier0);
        add(&link.tier1_addresses, &owner, path().field("link").field("tier-1-addresses"));
    }
    if let Slot::Present(transit) = &gateway.transit {
        for (position, router) in transit.service_routers.iter().enumerate() {
            let addresses: Vec<IpNet> =
                router.addresses.iter().map(|address| IpNet::from(*address)).collect();
            let owner = format!("the service router on '{}'", router.edge);
            let path = path().field("transit").field("service-routers").index(position).field("addresses");
            add(&addresses, &owner, path);
        }
    }
}

/// Notes every subnet that lies in another one. Sorted by address and then from wide to narrow, the subnets around one are those
/// on the stack.
fn report_overlaps(mut connected: Vec<Connected>, findings: &mut Findings) {
    connected.sort_by_key(|entry| (entry.subnet.network(), entry.subnet.prefix_len()));
    let mut around: Vec<&Connected> = Vec::new();
    for entry in &connected {
        while around.last().is_some_and(|outer| !outer.subnet.contains(&entry.subnet)) {
            around.pop();
        }
        if let Some(outer) = around.last() {
            findings.report(entry.path.clone(), overlap(outer, entry));
        }
        around.push(entry);
    }
}

fn overlap(outer: &Connected, inner: &Connected) -> String {
    let is_host = |subnet: IpNet| subnet.prefix_len() == subnet.max_prefix_len();
    let (shown, noun) = if is_host(inner.subnet) {
        (inner.subnet.addr().to_string(), "address")
    } else {
        (inner.subnet.to_string(), "subnet")
    };
    let relation = if outer.subnet == inner.subnet {
        format!("is also the {noun} of {}", outer.owner)
    } else {
        format!("lies in {}, the subnet of {}", outer.subnet, outer.owner)
    };
    format!("{shown} {relation}; give {} another {noun}", inner.owner)
}
