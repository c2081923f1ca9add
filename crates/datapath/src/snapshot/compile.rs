//! Compiles a plan into a snapshot. Runs on the control thread; may allocate and take its time.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use arrayvec::ArrayVec;
use hashbrown::HashMap;
use ipnet::IpNet;
use sluice_intent::plan::{
    Gateway, Location, NextHop, Placement, Plan, PortIndex, Replication, Role, SegmentIndex, TepIndex, Tier,
    Transit, Via,
};
use sluice_wire::{MacAddr, Vni};

use super::ingress::TEPS_PER_INGRESS;
use super::router::{Hop, HopVia, Link, Origin, Route, RouterInterface, Target, TransitHop};
use super::segment::{Addresses, Place, SegmentGateway};
use super::tunnel::vni_key;
use super::{
    BfdNeighbor, ExactTable, Ingress, IngressId, IngressKind, NextHopId, NextHopStates, PortFacts,
    PortIngress, Router, RouterId, Segment, SegmentId, Snapshot, TepPair, TepPairId, Tunnel, TunnelGroup,
    TunnelGroupId, TunnelStates,
};
use crate::flow::{MAX_INGRESS, mac_to_word};
use crate::lpm::Lpm;
use crate::neighbor::NeighborKey;
use crate::tep_load::PairTraffic;

mod tunnels;

use tunnels::{Overlay, remote_groups, remote_teps};

/// Why a plan cannot be compiled for the ports that it is to run on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The facts of some port are missing.
    #[error(
        "the plan has {planned} ports, LAGs and teams among them, but {given} are open; open every port before the plan is compiled"
    )]
    Ports {
        /// Ports of the plan.
        planned: usize,
        /// Ports whose facts were given.
        given: usize,
    },
    /// More TEPs than one uplink can carry.
    #[error(
        "port '{port}' carries more than {TEPS_PER_INGRESS} TEPs of one family on one VLAN; move some to another uplink"
    )]
    Teps {
        /// The port.
        port: String,
    },
}

impl Snapshot {
    /// Compiles `plan` for ports with these facts, in the plan's order, logical ports behind the physical ones. `generation` must grow from snapshot to snapshot; `seed` makes
    /// the flow hashes of this node differ from those of others.
    pub fn compile(
        plan: Arc<Plan>,
        facts: &[PortFacts],
        generation: u64,
        seed: u64,
    ) -> Result<Self, CompileError> {
        if facts.len() != plan.port_count() {
            return Err(CompileError::Ports { planned: plan.port_count(), given: facts.len() });
        }
        let mut compiler = Compiler {
            plan: &plan,
            facts,
            tunnels: Vec::new(),
            tunnel_groups: Vec::new(),
            group_ids: HashMap::default(),
            tep_pairs: Vec::new(),
            next_hops: 0,
            service_routers: Vec::new(),
            bfd_neighbors: Vec::new(),
            pair_ids: HashMap::default(),
            remote_groups: remote_groups(&plan),
            ingresses: Vec::new(),
            ports: plan.port_indices().map(|_| PortIngress::default()).collect(),
        };
        let segments = compiler.segments();
        let routers = compiler.routers();
        let vnis = compiler.tunnel_ingresses();
        compiler.workload_ingresses();
        compiler.uplink_ingresses()?;
        let originations = compiler.originations();
        let segment_originations = compiler.segment_originations();
        let Compiler {
            tunnels,
            tunnel_groups,
            tep_pairs,
            ingresses,
            ports,
            next_hops,
            service_routers,
            bfd_neighbors,
            ..
        } = compiler;
        let (remote_teps_v4, remote_teps_v6) = remote_teps(&plan);
        let by_load = plan.tep_group.is_some_and(|group| group.placement == Placement::LoadAware);
        Ok(Self {
            generation,
            seed,
            ports,
            ingresses,
            vnis: ExactTable::build(&vnis),
            remote_teps_v4: ExactTable::build(&remote_teps_v4),
            remote_teps_v6: remote_teps_v6.into_iter().collect(),
            segments,
            routers,
            tunnels: tunnels.into(),
            tunnel_groups,
            tunnel_states: TunnelStates::new(tep_pairs.len()),
            pair_traffic: PairTraffic::new(if by_load { tep_pairs.len() } else { 0 }),
            next_hops: NextHopStates::new(next_hops as usize),
            service_routers,
            bfd_neighbors,
            tep_pairs,
            originations,
            segment_originations,
            plan,
        })
    }
}

fn transit_of(gateway: &Gateway) -> Option<&Transit> {
    match &gateway.tier {
        Tier::Tier0 { transit, .. } => transit.as_ref(),
        Tier::Tier1 { .. } => None,
    }
}

struct Compiler<'a> {
    plan: &'a Plan,
    facts: &'a [PortFacts],
    tunnels: Vec<Tunnel>,
    tunnel_groups: Vec<TunnelGroup>,
    /// By VNI and first TEP of the remote node; none where no local TEP reaches it.
    group_ids: HashMap<(Vni, IpAddr), Option<TunnelGroupId>, foldhash::fast::RandomState>,
    tep_pairs: Vec<TepPair>,
    /// Next hops whose states are known, so far.
    next_hops: u32,
    service_routers: Vec<(NextHopId, TunnelGroupId)>,
    bfd_neighbors: Vec<BfdNeighbor>,
    pair_ids: HashMap<(TepIndex, IpAddr), TepPairId, foldhash::fast::RandomState>,
    remote_groups: HashMap<IpAddr, usize, foldhash::fast::RandomState>,
    ingresses: Vec<Ingress>,
    ports: Vec<PortIngress>,
}

impl Compiler<'_> {
    fn segments(&mut self) -> Vec<Segment> {
        let plan = self.plan;
        let mut segments: Vec<Segment> = plan.segments.iter().map(|segment| self.segment(segment)).collect();
        for workload in &plan.workloads {
            let planned = &plan.segments[workload.segment.index()];
            let place = match workload.location {
                Location::Port { port, vlan } => Place::Local { port, vlan: vlan.map_or(0, u16::from) },
                Location::RemoteTep(remote) => self
                    .tunnel_group(Overlay::of_segment(planned), remote)
                    .map_or(Place::Unreachable, Place::Remote),
            };
            let segment = &mut segments[workload.segment.index()];
            if let Place::Local { port, vlan } = place {
                segment.local.push((port, vlan));
            }
            segment.macs.insert(workload.mac, place);
            segment
                .workloads
                .extend(workload.addresses.iter().map(|address| (*address, (workload.mac, place))));
        }
        segments
    }

    fn segment(&mut self, planned: &sluice_intent::plan::Segment) -> Segment {
        let remote_teps: &[IpAddr] = match planned.replication {
            Replication::Source => &planned.remote_teps,
            Replication::None => &[],
        };
        let mut replication: Vec<TunnelGroupId> = Vec::new();
        for remote in remote_teps {
            // One copy for each node, however many of its TEPs are named.
            let group = self.tunnel_group(Overlay::of_segment(planned), *remote);
            replication.extend(group.filter(|group| !replication.contains(group)));
        }
        let gateway = planned.gateway.filter(|_| !planned.gateway_addresses.is_empty()).map(|gateway| {
            let mac = self.plan.router_mac;
            let addresses = planned.gateway_addresses.iter().map(IpNet::addr);
            SegmentGateway {
                router: RouterId(gateway.0),
                mac,
                addresses: addresses.clone().chain([link_local(mac).into()]).collect(),
                source: Addresses::of(addresses),
                answers_tunnels: self.plan.role != Role::Host,
            }
        });
        Segment {
            name: planned.name.clone(),
            mtu: planned.mtu,
            macs: HashMap::default(),
            workloads: HashMap::default(),
            local: Vec::new(),
            replication,
            gateway,
        }
    }

    fn routers(&mut self) -> Vec<Router> {
        let plan = self.plan;
        let count = plan.gateways.len() as u16;
        (0..count).map(|number| self.router(RouterId(number))).collect()
    }

    fn router(&mut self, id: RouterId) -> Router {
        let plan = self.plan;
        let gateway = &plan.gateways[usize::from(id.0)];
        let interfaces = self.interfaces(gateway);
        let peers = self.bfd_peers(gateway, &interfaces);
        let mut routes = Routes::default();
        // Later routes win over earlier ones to the same prefix: defaults first, what is written in the document last but for
        // the gateway's own addresses.
        match &gateway.tier {
            Tier::Tier0 { transit, .. } => {
                self.service_router_routes(transit.as_ref(), &mut routes);
                linked_routes(plan, id, &mut routes);
            }
            Tier::Tier1 { link } => {
                if let Some(link) = link {
                    let arrival = Addresses::of(link.tier0_addresses.iter().map(IpNet::addr));
                    let target = Target::Link(Link { router: RouterId(link.tier0.0), arrival });
                    routes.any(target.clone(), Origin::Linked);
                    routes.hosts(&link.tier0_addresses, &target, Origin::Linked);
                    routes.hosts(&link.tier1_addresses, &Target::Local, Origin::Connected);
                }
            }
        }
        for (number, segment) in connected_segments(plan, id) {
            let target = Target::Segment(SegmentId(number.0));
            routes.subnets(&segment.gateway_addresses, &target);
        }
        for (number, interface) in interfaces.iter().enumerate() {
            routes.subnets(&interface.subnets, &Target::Subnet { interface: number as u16 });
        }
        for route in &gateway.static_routes {
            let target = match route.next_hops.as_slice() {
                [] => Target::Blackhole,
                hops => Target::NextHops(hops.iter().map(|planned| hop(planned, &peers)).collect()),
            };
            routes.push(route.prefix.trunc(), target, Origin::Static);
        }
        let own = transit_of(gateway)
            .and_then(|transit| transit.service_routers.iter().find(|r| r.edge == plan.name));
        let own: Vec<IpAddr> = own.map_or_else(Vec::new, |router| router.addresses.clone());
        let own_hosts: Vec<IpNet> = own.iter().copied().map(IpNet::from).collect();
        routes.hosts(&own_hosts, &Target::Local, Origin::Connected);
        for (_, segment) in connected_segments(plan, id) {
            routes.hosts(&segment.gateway_addresses, &Target::Local, Origin::Connected);
        }
        for interface in &interfaces {
            routes.hosts(&interface.subnets, &Target::Local, Origin::Connected);
        }
        let table = |v4: bool| {
            let numbered =
                routes.0.iter().zip(0..).filter(move |(route, _)| route.prefix.addr().is_ipv4() == v4);
            Lpm::build(numbered.map(|(route, number)| (route.prefix, number)))
        };
        Router {
            name: gateway.name.clone(),
            gateway: sluice_intent::plan::GatewayIndex(id.0),
            is_tier0: matches!(gateway.tier, Tier::Tier0 { .. }),
            v4: table(true),
            v6: table(false),
            routes: routes.0,
            interfaces,
            transit: Addresses::of(own),
        }
    }

    /// The neighbours of a gateway that BFD watches, by interface and address.
    fn bfd_peers(
        &mut self,
        gateway: &Gateway,
        interfaces: &[RouterInterface],
    ) -> Vec<(u16, IpAddr, NextHopId)> {
        let mut peers = Vec::new();
        for peer in &gateway.bfd_peers {
            let RouterInterface { port, vlan, mac, .. } = interfaces[usize::from(peer.interface)];
            let next_hop = self.next_hop();
            peers.push((peer.interface, peer.address, next_hop));
            self.bfd_neighbors.push(BfdNeighbor {
                next_hop,
                neighbor: NeighborKey { port, vlan, address: peer.address },
                local: peer.local,
                source_mac: mac,
                interval_ms: peer.interval_ms,
                multiplier: peer.multiplier,
            });
        }
        peers
    }

    fn interfaces(&self, gateway: &Gateway) -> Vec<RouterInterface> {
        let Tier::Tier0 { interfaces, .. } = &gateway.tier else { return Vec::new() };
        let interface = |planned: &sluice_intent::plan::UplinkInterface| {
            let port = self.plan.uplinks[planned.uplink.index()].port;
            RouterInterface {
                name: planned.name.clone(),
                port,
                vlan: planned.vlan.map_or(0, u16::from),
                mac: self.facts[port.index()].mac,
                mtu: planned.mtu,
                source: Addresses::of(planned.addresses.iter().map(IpNet::addr)),
                subnets: planned.addresses.clone(),
            }
        };
        interfaces.iter().map(interface).collect()
    }

    /// On a node without a service router of this tier-0, everything unknown goes to those of the edges.
    fn service_router_routes(&mut self, transit: Option<&Transit>, routes: &mut Routes) {
        let Some(transit) = transit else { return };
        if transit.service_routers.iter().any(|router| router.edge == self.plan.name) {
            return;
        }
        let hops: Vec<TransitHop> = transit
            .service_routers
            .iter()
            .filter_map(|router| {
                let overlay = Overlay::of_transit(transit);
                let tunnels = self.tunnel_group(overlay, router.tep)?;
                let next_hop = self.next_hop();
                self.service_routers.push((next_hop, tunnels));
                Some(TransitHop { mac: router.mac, tunnels, next_hop })
            })
            .collect();
        if !hops.is_empty() {
            routes.any(Target::ServiceRouters(hops), Origin::ServiceRouter);
        }
    }

    fn next_hop(&mut self) -> NextHopId {
        self.next_hops += 1;
        NextHopId(self.next_hops - 1)
    }

    fn add(&mut self, kind: IngressKind, mac: MacAddr, layer3: bool) -> IngressId {
        // Segments and gateways count in 16 bits, and 16 ports have 4,096 VLANs each: far fewer than a flow key can tell apart.
        debug_assert!(self.ingresses.len() < MAX_INGRESS as usize);
        let id = IngressId(self.ingresses.len() as u32);
        let (teps_v4, teps_v6) = (ArrayVec::new(), ArrayVec::new());
        self.ingresses.push(Ingress { kind, mac: mac_to_word(mac), layer3, teps_v4, teps_v6 });
        id
    }

    fn tunnel_ingresses(&mut self) -> Vec<(u32, u32)> {
        let plan = self.plan;
        let mut vnis = Vec::new();
        for (number, segment) in plan.segments.iter().enumerate() {
            let kind = IngressKind::Tunnel { segment: SegmentId(number as u16) };
            let id = self.add(kind, plan.router_mac, false);
            vnis.push((vni_key(segment.vni.into(), segment.encapsulation), id.0));
        }
        for (number, gateway) in plan.gateways.iter().enumerate() {
            let Some(transit) = transit_of(gateway) else { continue };
            let Some(own) = transit.service_routers.iter().find(|router| router.edge == plan.name) else {
                continue;
            };
            let id = self.add(IngressKind::Transit { router: RouterId(number as u16) }, own.mac, true);
            vnis.push((vni_key(transit.vni.into(), transit.encapsulation), id.0));
        }
        vnis
    }

    fn workload_ingresses(&mut self) {
        let plan = self.plan;
        for workload in &plan.workloads {
            let Location::Port { port, vlan } = workload.location else { continue };
            let vlan = vlan.map_or(0, u16::from);
            let kind = IngressKind::Workload { segment: SegmentId(workload.segment.0), port, vlan };
            let id = self.add(kind, plan.router_mac, false);
            self.attach(port, vlan, id);
        }
    }

    fn uplink_ingresses(&mut self) -> Result<(), CompileError> {
        let plan = self.plan;
        for (number, gateway) in plan.gateways.iter().enumerate() {
            for (position, interface) in self.interfaces(gateway).iter().enumerate() {
                let kind = IngressKind::Uplink {
                    interface: Some((RouterId(number as u16), position as u16)),
                    vlan: interface.vlan,
                };
                let id = self.add(kind, interface.mac, true);
                self.attach(interface.port, interface.vlan, id);
            }
        }
        for tep in &plan.teps {
            let port = plan.uplinks[tep.uplink.index()].port;
            let vlan = tep.vlan.map_or(0, u16::from);
            let id = match self.attached(port, vlan) {
                Some(id) => id,
                None => {
                    let mac = self.facts[port.index()].mac;
                    let id = self.add(IngressKind::Uplink { interface: None, vlan }, mac, true);
                    self.attach(port, vlan, id);
                    id
                }
            };
            let ingress = &mut self.ingresses[id.0 as usize];
            let full = match tep.address.addr() {
                IpAddr::V4(address) => {
                    ingress.teps_v4.try_push(u32::from_le_bytes(address.octets())).is_err()
                }
                IpAddr::V6(address) => {
                    ingress.teps_v6.try_push(u128::from_le_bytes(address.octets())).is_err()
                }
            };
            if full {
                return Err(CompileError::Teps { port: plan.port_name(port).to_owned() });
            }
        }
        Ok(())
    }

    fn originations(&mut self) -> Vec<IngressId> {
        let count = self.plan.gateways.len() as u16;
        let mac = self.plan.router_mac;
        (0..count)
            .map(|number| self.add(IngressKind::Origination { router: RouterId(number) }, mac, true))
            .collect()
    }

    fn segment_originations(&mut self) -> Vec<IngressId> {
        let count = self.plan.segments.len() as u16;
        let mac = self.plan.router_mac;
        let kind = |number| IngressKind::SegmentOrigination { segment: SegmentId(number) };
        (0..count).map(|number| self.add(kind(number), mac, false)).collect()
    }

    fn attach(&mut self, port: PortIndex, vlan: u16, id: IngressId) {
        let ingress = &mut self.ports[port.index()];
        if vlan == 0 {
            ingress.untagged = Some(id);
        } else {
            ingress.tagged.insert(vlan, id);
        }
    }

    fn attached(&self, port: PortIndex, vlan: u16) -> Option<IngressId> {
        let ingress = &self.ports[port.index()];
        if vlan == 0 { ingress.untagged } else { ingress.tagged.get(&vlan).copied() }
    }
}

/// On a tier-0: the subnets of the tier-1s that are linked to it, and their static routes but for default routes, which would lead back what
/// came from there. Of equal prefixes the later counts: a subnet before another tier-1's static route.
fn linked_routes(plan: &Plan, tier0: RouterId, routes: &mut Routes) {
    let linked = || {
        plan.gateways.iter().enumerate().filter_map(|(number, gateway)| {
            let Tier::Tier1 { link: Some(link) } = &gateway.tier else { return None };
            let tier1 = RouterId(number as u16);
            let arrival = Addresses::of(link.tier1_addresses.iter().map(IpNet::addr));
            let target = Target::Link(Link { router: tier1, arrival });
            (link.tier0.0 == tier0.0).then_some((tier1, gateway, link, target))
        })
    };
    for (_, gateway, _, target) in linked() {
        for route in gateway.static_routes.iter().filter(|route| route.prefix.prefix_len() > 0) {
            routes.push(route.prefix.trunc(), target.clone(), Origin::LinkedStatic);
        }
    }
    for (tier1, _, link, target) in linked() {
        for (_, segment) in connected_segments(plan, tier1) {
            for subnet in &segment.gateway_addresses {
                routes.push(subnet.trunc(), target.clone(), Origin::Linked);
            }
        }
        routes.hosts(&link.tier1_addresses, &target, Origin::Linked);
        routes.hosts(&link.tier0_addresses, &Target::Local, Origin::Connected);
    }
}

fn connected_segments(
    plan: &Plan,
    router: RouterId,
) -> impl Iterator<Item = (SegmentIndex, &sluice_intent::plan::Segment)> {
    let numbered =
        plan.segments.iter().enumerate().map(|(number, segment)| (SegmentIndex(number as u16), segment));
    numbered.filter(move |(_, segment)| segment.gateway.is_some_and(|gateway| gateway.0 == router.0))
}

/// A next hop, with its state where `peers` has it.
fn hop(planned: &NextHop, peers: &[(u16, IpAddr, NextHopId)]) -> Hop {
    let via = match planned.via {
        Via::Interface(number) => HopVia::Interface(number),
        Via::Segment(segment) => HopVia::Segment(SegmentId(segment.0)),
    };
    let watched = |(interface, address, _): &&(u16, IpAddr, NextHopId)| {
        planned.via == Via::Interface(*interface) && planned.address == *address
    };
    let next_hop = peers.iter().find(watched).map(|(_, _, next_hop)| *next_hop);
    Hop { address: planned.address, via, next_hop }
}

/// The link-local address that follows from a MAC address (RFC 4291 appendix A).
fn link_local(mac: MacAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let word = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(0xfe80, 0, 0, 0, word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f))
}

#[derive(Default)]
struct Routes(Vec<Route>);

impl Routes {
    fn push(&mut self, prefix: IpNet, target: Target, origin: Origin) {
        self.0.push(Route { prefix, target, origin });
    }

    /// A default route of each family.
    fn any(&mut self, target: Target, origin: Origin) {
        for any in [IpNet::V4(ipnet::Ipv4Net::default()), IpNet::V6(ipnet::Ipv6Net::default())] {
            self.push(any, target.clone(), origin);
        }
    }

    /// The addresses themselves.
    fn hosts(&mut self, addresses: &[IpNet], target: &Target, origin: Origin) {
        for address in addresses {
            self.push(address.addr().into(), target.clone(), origin);
        }
    }

    /// Connected subnets. What is sent to their broadcast addresses is not forwarded (RFC 2644).
    fn subnets(&mut self, addresses: &[IpNet], target: &Target) {
        for subnet in addresses {
            self.push(subnet.trunc(), target.clone(), Origin::Connected);
            if let IpNet::V4(v4) = subnet
                && v4.prefix_len() < 31
            {
                for address in [v4.network(), v4.broadcast()] {
                    self.push(IpAddr::V4(address).into(), Target::Blackhole, Origin::Connected);
                }
            }
        }
    }
}
