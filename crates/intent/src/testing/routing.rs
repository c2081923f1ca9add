//! Builds the gateways of a document: interfaces, transit segment, links and static routes.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::build::{mac, name, pin, remote_tep, subnet, subnets, v4, v6, vlan, vni};
use super::{Choices, RouteChoice, SegmentChoice, Tier0Choice, Tier1Choice, TransitChoice};
use crate::document::{
    BfdPeer, Gateway, Interface, Name, NextHop, RouterLink, Segment, ServiceRouter, StaticRoute, TierNumber,
    Transit,
};
use crate::plan::Role;

/// The gateway that a segment is connected to: the tier-0, if there is one, or a tier-1.
pub(super) fn gateway_of(choices: &Choices, segment: &SegmentChoice) -> Option<Name> {
    let tier0 = choices.tier0.iter().map(|_| name("t0", 0));
    let gateways: Vec<Name> = tier0.chain((0..choices.tier1s.len()).map(|index| name("t1", index))).collect();
    let choice = segment.gateway?;
    (!gateways.is_empty()).then(|| gateways[choice % gateways.len()].clone())
}

pub(super) fn gateways(role: Role, choices: &Choices, segments: &[Segment]) -> Vec<Gateway> {
    let tier0 = choices.tier0.iter().map(|choice| tier0(role, choices, choice, segments));
    let tier1s =
        choices.tier1s.iter().enumerate().map(|(index, choice)| tier1(choices, index, choice, segments));
    tier0.chain(tier1s).collect()
}

fn tier0(role: Role, choices: &Choices, choice: &Tier0Choice, segments: &[Segment]) -> Gateway {
    let name = name("t0", 0);
    let interfaces = if role == Role::Host { Vec::new() } else { interfaces(choices, choice) };
    Gateway {
        static_routes: routes(&choice.routes, &neighbours(&name, &interfaces, segments)),
        bfd_peers: bfd_peers(&interfaces),
        transit: choice.transit.as_ref().and_then(|transit| transit_of(role, choices, transit)),
        name,
        tier: TierNumber::Zero,
        interfaces,
        link: None,
    }
}

fn tier1(choices: &Choices, index: usize, choice: &Tier1Choice, segments: &[Segment]) -> Gateway {
    let own = name("t1", index);
    let ends =
        |host: u8| subnets(choice.families, (v4(64, index, host), 31), (v6(3, index, host.into()), 127));
    let link = (choice.linked && choices.tier0.is_some()).then(|| RouterLink {
        tier0: name("t0", 0),
        tier0_addresses: ends(0),
        tier1_addresses: ends(1),
    });
    Gateway {
        static_routes: routes(&choice.routes, &neighbours(&own, &[], segments)),
        bfd_peers: Vec::new(),
        name: own,
        tier: TierNumber::One,
        interfaces: Vec::new(),
        transit: None,
        link,
    }
}

fn interfaces(choices: &Choices, choice: &Tier0Choice) -> Vec<Interface> {
    let mut untagged = HashSet::new();
    let interfaces = choice.interfaces.iter().enumerate();
    interfaces
        .map(|(index, interface)| {
            let uplink = index % choices.uplinks;
            // One interface at most is untagged on an uplink.
            let tagged = interface.tagged || !untagged.insert(uplink);
            Interface {
                name: name("interface", index),
                uplink: Some(name("uplink", uplink)),
                teaming: None,
                vlan: if tagged { vlan(200 + index) } else { None },
                addresses: subnets(interface.families, (v4(18, index, 2), 24), (v6(2, index, 2), 64)),
                mtu: index.is_multiple_of(2).then_some(1500),
            }
        })
        .collect()
}

/// A neighbour on each interface.
fn bfd_peers(interfaces: &[Interface]) -> Vec<BfdPeer> {
    let indices = interfaces.iter().enumerate();
    let address = |(index, interface): (usize, &Interface)| match interface.addresses.first()?.addr() {
        IpAddr::V4(_) => Some(v4(18, index, 1)),
        IpAddr::V6(_) => Some(v6(2, index, 1)),
    };
    let peer = |address| BfdPeer { address, interval_ms: 300, multiplier: 3 };
    indices.filter_map(address).map(peer).collect()
}

/// None on a node without TEPs, where nothing could be reached.
fn transit_of(role: Role, choices: &Choices, choice: &TransitChoice) -> Option<Transit> {
    let (tep, pinned) = pin(choices, choice.tep, choice.named)?;
    let router = |edge: Name, index: usize, tep: IpAddr| ServiceRouter {
        edge,
        mac: mac(3, index),
        addresses: subnets(
            choice.families,
            (v4(254, 0, 1 + index as u8), 32),
            (v6(4, 0, 1 + index as u16), 128),
        )
        .into_iter()
        .map(|address| address.addr())
        .collect(),
        tep,
    };
    // A host has no service router of its own, so that there is at least one on another node.
    let others = choice.other_edges.max(usize::from(role == Role::Host));
    let mut service_routers: Vec<_> = (0..others)
        .map(|index| router(other_edge(choices, index), index, remote_tep(choices, tep, 10 + index)))
        .collect();
    if role != Role::Host {
        let local = if choices.teps[tep].v6 { v6(5, tep, 0x10) } else { v4(16, tep, 10) };
        service_routers.insert(others / 2, router(choices.name.clone(), others, local));
    }
    Some(Transit {
        vni: vni(choices, choices.segments.len()),
        encapsulation: Some(choice.encapsulation),
        tep: pinned,
        service_routers,
    })
}

/// The name of another edge, which the node's own name never is: it is longer.
fn other_edge(choices: &Choices, index: usize) -> Name {
    format!("{}-other-{index}", choices.name).parse().expect("a name with a suffix is a name")
}

/// Next hops that a gateway can have: neighbours on its interfaces and on the segments connected to it, and in IPv6 also by
/// their link-local addresses.
fn neighbours(gateway: &Name, interfaces: &[Interface], segments: &[Segment]) -> Vec<NextHop> {
    let interfaces = interfaces.iter().map(|interface| (&interface.name, &interface.addresses));
    let segments = segments.iter().filter(|segment| segment.gateway.as_ref() == Some(gateway));
    let segments = segments.map(|segment| (&segment.name, &segment.gateway_addresses));
    let mut neighbours = Vec::new();
    for (link, addresses) in interfaces.chain(segments) {
        for address in addresses {
            for host in [200, 201, 202] {
                let (address, link_local) = match address.addr() {
                    IpAddr::V4(own) => (Ipv4Addr::from(own.to_bits() & !0xff | host).into(), None),
                    IpAddr::V6(own) => {
                        let host = u128::from(host);
                        let near: IpAddr = Ipv6Addr::from(own.to_bits() & !0xffff | host).into();
                        (near, Some(Ipv6Addr::from(0xfe80_u128 << 112 | host).into()))
                    }
                };
                let named = (host == 201).then(|| link.clone());
                neighbours.push(NextHop { address, interface: named });
                neighbours
                    .extend(link_local.map(|address| NextHop { address, interface: Some(link.clone()) }));
            }
        }
    }
    neighbours
}

/// Routes with distinct prefixes; without a neighbour of the family they discard.
fn routes(choices: &[RouteChoice], neighbours: &[NextHop]) -> Vec<StaticRoute> {
    let mut seen = HashSet::new();
    let mut routes = Vec::new();
    for choice in choices {
        let prefix = prefix(choice);
        if prefix.addr().is_multicast() || !seen.insert(prefix) {
            continue;
        }
        let family: Vec<_> = neighbours.iter().filter(|hop| hop.address.is_ipv6() == choice.v6).collect();
        let mut next_hops: Vec<NextHop> = Vec::new();
        for number in &choice.next_hops {
            let hop = (!family.is_empty()).then(|| family[number % family.len()].clone());
            next_hops.extend(hop.filter(|hop| !next_hops.contains(hop)));
        }
        let blackhole = next_hops.is_empty();
        routes.push(StaticRoute { prefix, next_hops, blackhole });
    }
    routes
}

fn prefix(choice: &RouteChoice) -> IpNet {
    if choice.v6 {
        subnet(Ipv6Addr::from(choice.bits).into(), choice.length).trunc()
    } else {
        subnet(Ipv4Addr::from(choice.bits as u32).into(), choice.length % 33).trunc()
    }
}
