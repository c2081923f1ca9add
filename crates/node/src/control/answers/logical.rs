//! Segments and gateways, and the VRF of the tunnels.

use std::net::IpAddr;

use anyhow::Context;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sluice_control::{
    ForwardingEntry, LogicalRouter, LogicalSwitch, Route, RouterForwarding, RouterRoutes, Workload,
};
use sluice_datapath::neighbor::NeighborKey;
use sluice_datapath::snapshot::Router;
use sluice_datapath::snapshot::router::{HopVia, Origin, Route as RouterRoute, Target};
use sluice_intent::plan::{Gateway, Location, Plan, Teaming, Tep, Tier, UplinkIndex, UplinkInterface};
use sluice_wire::{MacAddr, VlanId, Vni};

use super::ports::encapsulation;
use super::{Node, uuid};

/// VRF 0 is that of the tunnels: the transport network. Gateways follow.
const TUNNEL_VRF: u16 = 0;
const FIRST_GATEWAY_VRF: u16 = 1;

/// Name of the VRF of the tunnels.
const TUNNEL: &str = "TUNNEL";

pub(super) fn switches(node: &Node) -> Vec<LogicalSwitch> {
    let plan = &node.plan;
    let tep =
        |teps: &[sluice_intent::plan::TepIndex]| teps.first().map(|tep| plan.teps[tep.index()].name.clone());
    let group = |teaming| match teaming {
        Teaming::Group(_) => plan.tep_group.map(|group| group.id),
        Teaming::FailoverOrder | Teaming::SourcePort | Teaming::SourceMac => None,
    };
    let workloads = |segment: usize, local: bool| {
        let here = |workload: &&sluice_intent::plan::Workload| {
            workload.segment.index() == segment && matches!(workload.location, Location::Port { .. }) == local
        };
        plan.workloads.iter().filter(here).count() as u32
    };
    let segments = plan.segments.iter().enumerate().map(|(number, segment)| LogicalSwitch {
        uuid: uuid("segment", &segment.name),
        vni: segment.vni.get(),
        encap: encapsulation(segment.encapsulation),
        tep_group: group(segment.teaming),
        name: segment.name.clone(),
        global_vni: None,
        tep: tep(&segment.teps),
        local_workloads: workloads(number, true),
        remote_workloads: workloads(number, false),
    });
    let transits = plan.gateways.iter().filter_map(|gateway| {
        let Tier::Tier0 { transit: Some(transit), .. } = &gateway.tier else { return None };
        let name = transit_name(gateway);
        Some(LogicalSwitch {
            uuid: uuid("segment", &name),
            vni: transit.vni.get(),
            encap: encapsulation(transit.encapsulation),
            tep_group: group(transit.teaming),
            name,
            global_vni: None,
            tep: tep(&transit.teps),
            local_workloads: 0,
            remote_workloads: 0,
        })
    });
    segments.chain(transits).collect()
}

fn transit_name(gateway: &Gateway) -> String {
    format!("transit-{}", gateway.name)
}

/// Name of the segment or transit segment with a VNI.
pub(super) fn switch_name(plan: &Plan, vni: Vni) -> String {
    if let Some(segment) = plan.segments.iter().find(|segment| segment.vni == vni) {
        return segment.name.clone();
    }
    let has = |gateway: &&Gateway| matches!(&gateway.tier, Tier::Tier0 { transit: Some(transit), .. } if transit.vni == vni);
    plan.gateways.iter().find(has).map_or_else(String::new, transit_name)
}

pub(super) fn workloads(node: &Node) -> Vec<Workload> {
    let plan = &node.plan;
    let workload = |workload: &sluice_intent::plan::Workload| {
        let (port, vlan, remote_tep) = match workload.location {
            Location::Port { port, vlan } => {
                (Some(plan.ports[port.index()].name.clone()), vlan.map(VlanId::get), None)
            }
            Location::RemoteTep(tep) => (None, None, Some(tep)),
        };
        Workload {
            name: workload.name.clone(),
            segment: plan.segments[workload.segment.index()].name.clone(),
            mac: workload.mac.to_string(),
            addresses: workload.addresses.clone(),
            port,
            vlan,
            remote_tep,
        }
    };
    plan.workloads.iter().map(workload).collect()
}

pub(super) fn routers(node: &Node) -> Vec<LogicalRouter> {
    let plan = &node.plan;
    let tunnel = LogicalRouter {
        uuid: uuid("gateway", "tunnel"),
        vrf: TUNNEL_VRF,
        lr_id: TUNNEL_VRF,
        name: TUNNEL.to_owned(),
        kind: TUNNEL.to_owned(),
        ports: plan.teps.len() as u32,
        neighbors: neighbors(
            node,
            plan.teps.iter().map(|tep| (tep.uplink, tep.vlan, std::slice::from_ref(&tep.address))),
        ),
    };
    let gateways = plan.gateways.iter().enumerate().map(|(number, gateway)| {
        let vrf = number as u16 + FIRST_GATEWAY_VRF;
        let connected =
            plan.segments.iter().filter(|segment| segment.gateway.is_some_and(|own| own.index() == number));
        let interfaces = interfaces(gateway);
        let links = plan.gateways.iter().filter(|other| links(other, number)).count();
        let own_link = usize::from(matches!(&gateway.tier, Tier::Tier1 { link: Some(_) }));
        LogicalRouter {
            uuid: uuid("gateway", &gateway.name),
            vrf,
            lr_id: vrf,
            name: gateway.name.clone(),
            kind: kind(gateway, &plan.name).to_owned(),
            ports: (connected.count() + interfaces.len() + links + own_link) as u32,
            neighbors: neighbors(
                node,
                interfaces.iter().map(|own| (own.uplink, own.vlan, own.addresses.as_slice())),
            ),
        }
    });
    std::iter::once(tunnel).chain(gateways).collect()
}

fn kind(gateway: &Gateway, node: &str) -> &'static str {
    match &gateway.tier {
        Tier::Tier1 { .. } => "DISTRIBUTED_ROUTER_TIER1",
        Tier::Tier0 { interfaces, transit } => {
            let serves = |router: &sluice_intent::plan::ServiceRouter| router.edge == node;
            let here = transit.as_ref().is_some_and(|transit| transit.service_routers.iter().any(serves));
            if here || !interfaces.is_empty() { "SERVICE_ROUTER_TIER0" } else { "DISTRIBUTED_ROUTER_TIER0" }
        }
    }
}

fn links(gateway: &Gateway, tier0: usize) -> bool {
    matches!(&gateway.tier, Tier::Tier1 { link: Some(link) } if link.tier0.index() == tier0)
}

fn interfaces(gateway: &Gateway) -> &[UplinkInterface] {
    match &gateway.tier {
        Tier::Tier0 { interfaces, .. } => interfaces,
        Tier::Tier1 { .. } => &[],
    }
}

/// Resolved neighbours on the subnets of interfaces: uplink, VLAN and own addresses of each.
fn neighbors<'a>(
    node: &Node,
    interfaces: impl Iterator<Item = (UplinkIndex, Option<VlanId>, &'a [IpNet])> + Clone,
) -> u32 {
    let on = |key: &NeighborKey| {
        interfaces.clone().any(|(uplink, vlan, subnets)| {
            let link = (node.plan.uplinks[uplink.index()].port, vlan.map_or(0, |vlan| vlan.get()));
            link == (key.port, key.vlan) && subnets.iter().any(|subnet| subnet.contains(&key.address))
        })
    };
    node.neighbors.table().iter().filter(|(key, _)| on(key)).count() as u32
}

/// What a request means by the name of a gateway, or by the number of its VRF.
struct Chosen<'a> {
    /// The VRF of the tunnels.
    tunnel: bool,
    routers: Vec<(u16, &'a Router)>,
}

/// Every gateway if none is named.
fn chosen<'a>(node: &'a Node, name: Option<&str>) -> anyhow::Result<Chosen<'a>> {
    let all = node.snapshot.routers().iter().zip(FIRST_GATEWAY_VRF..).map(|(router, vrf)| (vrf, router));
    let Some(name) = name else { return Ok(Chosen { tunnel: false, routers: all.collect() }) };
    let number = name.parse::<u16>().ok();
    let tunnel = name == TUNNEL || number == Some(TUNNEL_VRF);
    let routers: Vec<_> = all.filter(|(vrf, router)| router.name() == name || number == Some(*vrf)).collect();
    if !tunnel && routers.is_empty() {
        let names: Vec<&str> = node.snapshot.routers().iter().map(Router::name).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        anyhow::bail!("there is no gateway '{name}'; this node has {names}");
    }
    Ok(Chosen { tunnel, routers })
}

pub(super) fn routes(node: &Node, router: Option<&str>) -> anyhow::Result<Vec<RouterRoutes>> {
    let of = |(vrf, router): (u16, &Router)| {
        let tier0 = matches!(node.plan.gateways[router.gateway().index()].tier, Tier::Tier0 { .. });
        let route = |route: &RouterRoute| {
            let ways = ways(node, router, &route.target);
            let mut interfaces: Vec<String> = ways.iter().map(|way| way.interface.clone()).collect();
            interfaces.dedup();
            Route {
                origin: route.origin.code(tier0).to_owned(),
                network: route.prefix.to_string(),
                gateways: ways.into_iter().map(|way| way.gateway).collect(),
                interface: interfaces.join(", "),
            }
        };
        let routes = listed(node, router).into_iter().map(route).collect();
        RouterRoutes { router: router.name().to_owned(), vrf, routes }
    };
    let chosen = chosen(node, router)?;
    let tunnel = chosen.tunnel.then(|| RouterRoutes {
        router: TUNNEL.to_owned(),
        vrf: TUNNEL_VRF,
        routes: transport_routes(node).into_iter().map(TransportRoute::route).collect(),
    });
    Ok(tunnel.into_iter().chain(chosen.routers.into_iter().map(of)).collect())
}

pub(super) fn forwarding(node: &Node, router: Option<&str>) -> anyhow::Result<Vec<RouterForwarding>> {
    let of = |(vrf, router): (u16, &Router)| {
        let entries = listed(node, router).into_iter().flat_map(|route| {
            ways(node, router, &route.target).into_iter().map(|way| ForwardingEntry {
                ip_prefix: route.prefix.to_string(),
                gateway_ip: if way.kind == "route" { way.gateway } else { String::new() },
                kind: way.kind.to_owned(),
                interface: way.interface,
                mac: way.mac.map_or_else(String::new, |mac| mac.to_string()),
                state: way.state.to_owned(),
            })
        });
        RouterForwarding { router: router.name().to_owned(), vrf, entries: entries.collect() }
    };
    let chosen = chosen(node, router)?;
    let tunnel = chosen.tunnel.then(|| RouterForwarding {
        router: TUNNEL.to_owned(),
        vrf: TUNNEL_VRF,
        entries: transport_routes(node).into_iter().map(|route| route.entry(node)).collect(),
    });
    Ok(tunnel.into_iter().chain(chosen.routers.into_iter().map(of)).collect())
}

/// The routes of a gateway by destination, IPv4 first. Defaults that every gateway has for both families are left out where no gateway of the
/// node has anything else of the family.
fn listed<'a>(node: &Node, router: &'a Router) -> Vec<&'a RouterRoute> {
    let derived = |route: &RouterRoute| {
        route.prefix.prefix_len() == 0 && matches!(route.origin, Origin::Linked | Origin::ServiceRouter)
    };
    let all = || node.snapshot.routers().iter().flat_map(Router::routes);
    let in_use = |ipv4: bool| all().any(|route| route.prefix.addr().is_ipv4() == ipv4 && !derived(route));
    let families = [in_use(false), in_use(true)];
    let shown =
        |route: &&RouterRoute| !derived(route) || families[usize::from(route.prefix.addr().is_ipv4())];
    let mut routes: Vec<_> = router.routes().iter().filter(shown).collect();
    routes.sort_by_key(|route| route.prefix);
    routes
}

/// A route of the transport network.
struct TransportRoute<'a> {
    prefix: IpNet,
    /// None: the subnet of the TEP.
    gateway: Option<IpAddr>,
    tep: &'a Tep,
}

/// Subnets of the node's TEPs, and the gateways to others.
fn transport_routes(node: &Node) -> Vec<TransportRoute<'_>> {
    let mut routes = Vec::new();
    for tep in &node.plan.teps {
        routes.push(TransportRoute { prefix: tep.address.trunc(), gateway: None, tep });
        let Some(gateway) = tep.gateway else { continue };
        let prefix = if gateway.is_ipv4() { Ipv4Net::default().into() } else { Ipv6Net::default().into() };
        routes.push(TransportRoute { prefix, gateway: Some(gateway), tep });
    }
    routes.sort_by_key(|route| route.prefix);
    routes
}

impl TransportRoute<'_> {
    fn route(self) -> Route {
        Route {
            origin: if self.gateway.is_some() { "s" } else { "c" }.to_owned(),
            network: self.prefix.to_string(),
            gateways: vec![
                self.gateway.map_or_else(|| "connected".to_owned(), |gateway| gateway.to_string()),
            ],
            interface: self.tep.name.clone(),
        }
    }

    fn entry(self, node: &Node) -> ForwardingEntry {
        let port = node.plan.uplinks[self.tep.uplink.index()].port;
        let vlan = self.tep.vlan.map_or(0, |vlan| vlan.get());
        let resolved = self.gateway.map(|address| {
            node.neighbors.table().resolve(&NeighborKey { port, vlan, address }).map(|(_, mac)| mac)
        });
        let state = match resolved {
            None => "",
            Some(None) => "unresolved",
            Some(Some(_)) => "resolved",
        };
        ForwardingEntry {
            ip_prefix: self.prefix.to_string(),
            gateway_ip: self.gateway.map_or_else(String::new, |gateway| gateway.to_string()),
            kind: if self.gateway.is_some() { "route" } else { "connected" }.to_owned(),
            interface: self.tep.name.clone(),
            mac: resolved.flatten().map_or_else(String::new, |mac| mac.to_string()),
            state: state.to_owned(),
        }
    }
}

/// One of the ways that a route leads.
struct Way {
    kind: &'static str,
    gateway: String,
    interface: String,
    mac: Option<MacAddr>,
    state: &'static str,
}

impl Way {
    fn plain(kind: &'static str, interface: String) -> Self {
        Self { kind, gateway: kind.to_owned(), interface, mac: None, state: "" }
    }
}

fn ways(node: &Node, router: &Router, target: &Target) -> Vec<Way> {
    let plan = &node.plan;
    let segment_name =
        |segment: sluice_datapath::snapshot::SegmentId| plan.segments[segment.index()].name.clone();
    let uplinks = interfaces(&plan.gateways[router.gateway().index()]);
    let interface_name =
        |number: u16| uplinks.get(usize::from(number)).map_or_else(String::new, |i| i.name.clone());
    match target {
        Target::Local => vec![Way::plain("local", String::new())],
        Target::Blackhole => vec![Way::plain("blackhole", String::new())],
        Target::Segment(segment) => vec![Way::plain("connected", segment_name(*segment))],
        Target::Subnet { interface } => vec![Way::plain("connected", interface_name(*interface))],
        Target::Link(link) => vec![Way::plain("link", plan.gateways[link.router.index()].name.clone())],
        Target::NextHops(hops) => hops
            .iter()
            .map(|hop| match hop.via {
                HopVia::Segment(segment) => {
                    let state = "";
                    Way {
                        kind: "route",
                        gateway: hop.address.to_string(),
                        interface: segment_name(segment),
                        mac: None,
                        state,
                    }
                }
                HopVia::Interface(number) => {
                    let mac = uplinks.get(usize::from(number)).and_then(|uplink| {
                        let port = plan.uplinks[uplink.uplink.index()].port;
                        let vlan = uplink.vlan.map_or(0, |vlan| vlan.get());
                        node.neighbors.table().resolve(&NeighborKey { port, vlan, address: hop.address })
                    });
                    let mac = mac.map(|(_, mac)| mac);
                    let state = if mac.is_some() { "resolved" } else { "unresolved" };
                    Way {
                        kind: "route",
                        gateway: hop.address.to_string(),
                        interface: interface_name(number),
                        mac,
                        state,
                    }
                }
            })
            .collect(),
        Target::ServiceRouters(hops) => hops
            .iter()
            .map(|hop| {
                let group = node.snapshot.tunnel_group(hop.tunnels);
                let tunnels: Vec<_> = group.tunnels().map(|id| node.snapshot.tunnel(id)).collect();
                let table = node.neighbors.table();
                let resolved = tunnels.iter().any(|tunnel| table.resolve(&tunnel.next_hop).is_some());
                let mut remotes: Vec<_> = tunnels.iter().map(|tunnel| tunnel.remote.to_string()).collect();
                remotes.sort_unstable();
                remotes.dedup();
                Way {
                    kind: "service-router",
                    gateway: remotes.join(", "),
                    interface: tunnels
                        .first()
                        .map_or_else(String::new, |tunnel| switch_name(plan, tunnel.vni)),
                    mac: Some(hop.mac),
                    state: if resolved { "resolved" } else { "unresolved" },
                }
            })
            .collect(),
    }
}

/// The gateway that a trace to a workload's own gateway passes first.
pub(in crate::control) fn segment_of<'a>(
    node: &'a Node,
    workload: &str,
) -> anyhow::Result<(&'a sluice_intent::plan::Workload, &'a sluice_intent::plan::Segment)> {
    let names =
        || node.plan.workloads.iter().map(|workload| workload.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = node.plan.workloads.iter().find(|own| own.name == workload);
    let found =
        found.with_context(|| format!("there is no workload '{workload}'; this node knows {}", names()))?;
    Ok((found, &node.plan.segments[found.segment.index()]))
}
