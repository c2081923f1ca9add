//! The gateways: routes as the plan's documentation has them, looked up by a scan over all of them.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use sluice_datapath::drops::DropReason;
use sluice_datapath::neighbor::NeighborKey;
use sluice_intent::plan::{NextHop, PortIndex, ServiceRouter, Tier, Transit, Via};
use sluice_wire::MacAddr;

use super::packet::Ip;
use super::respond::IcmpError;
use super::tunnel::{Overlay, Tunnel};
use super::{Arrived, Ingress, Run};

/// Where a route leads.
#[derive(Clone, Debug)]
enum Target {
    Local,
    Blackhole,
    Segment(usize),
    Interface(usize),
    NextHops(Vec<NextHop>),
    /// Another gateway, and the addresses of its end of the link.
    Gateway(usize, Vec<IpAddr>),
    ServiceRouters,
}

/// Which of two routes to the same prefix counts: the later one here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Default,
    LinkedStatic,
    Linked,
    Connected,
    Broadcast,
    Static,
    Own,
}

/// What the gateways decided.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    Leave(Leaving),
    Resolve(NeighborKey),
    Deliver { gateway: usize, arrival: Vec<IpAddr> },
    Refuse { error: IcmpError, reason: DropReason, gateway: usize, arrival: Vec<IpAddr> },
    Drop(DropReason),
}

/// A packet that a gateway forwards.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    /// Gateways passed.
    pub(super) hops: u8,
    /// The last of them, and where the packet arrived there.
    pub(super) gateway: usize,
    pub(super) arrival: Vec<IpAddr>,
    pub(super) mtu: usize,
    pub(super) destination: MacAddr,
    pub(super) source: MacAddr,
    pub(super) to: To,
}

/// Where it leaves.
#[derive(Clone, Debug)]
pub(super) enum To {
    Port(PortIndex, u16),
    Tunnel(Tunnel, MacAddr),
}

/// Addresses by which no packet may claim to be sent (RFC 1812 section 5.3.7, RFC 4291 section 2.7).
pub(super) fn is_martian_source(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_multicast() || v4.is_broadcast() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_multicast() || v6.is_unspecified(),
    }
}

/// Link-local: stays on its link (RFC 3927 section 7, RFC 4291 section 2.5.6).
pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[..2] == [169, 254],
        IpAddr::V6(v6) => v6.octets()[0] == 0xfe && v6.octets()[1] & 0xc0 == 0x80,
    }
}

/// The link-local address that a router with this MAC address has (RFC 4291 appendix A).
pub(super) fn link_local_of(mac: MacAddr) -> IpAddr {
    let [a, b, c, d, e, f] = mac.octets();
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]).into()
}

/// The addresses of some interface addresses.
pub(super) fn addresses_of(nets: &[IpNet]) -> Vec<IpAddr> {
    nets.iter().map(IpNet::addr).collect()
}

impl Run<'_> {
    pub(super) fn transit(&self, gateway: usize) -> Option<&Transit> {
        match &self.plan.gateways[gateway].tier {
            Tier::Tier0 { transit, .. } => transit.as_ref(),
            Tier::Tier1 { .. } => None,
        }
    }

    /// The service router of a tier-0 that runs here.
    pub(super) fn own_service_router(&self, gateway: usize) -> Option<&ServiceRouter> {
        self.transit(gateway)?.service_routers.iter().find(|router| router.edge == self.plan.name)
    }

    /// The ways to the service routers on other nodes.
    fn service_routers(&self, gateway: usize) -> Vec<(MacAddr, Overlay, IpAddr)> {
        let Some(transit) = self.transit(gateway) else { return Vec::new() };
        let overlay = Overlay::of_transit(transit);
        let reached = |router: &&ServiceRouter| !self.tunnels(&overlay, router.tep).is_empty();
        let routers = transit.service_routers.iter().filter(reached);
        routers.map(|router| (router.mac, overlay.clone(), router.tep)).collect()
    }

    fn routes(&self, gateway: usize) -> Vec<(IpNet, Rank, Target)> {
        let mut routes = Vec::new();
        let all: [IpNet; 2] = ["0.0.0.0/0".parse().expect("a prefix"), "::/0".parse().expect("a prefix")];
        let host = |address: IpAddr| IpNet::from(address);
        for (number, segment) in self.plan.segments.iter().enumerate() {
            if segment.gateway.map(|index| index.index()) == Some(gateway) {
                for subnet in &segment.gateway_addresses {
                    connected(&mut routes, *subnet, Target::Segment(number));
                }
            }
        }
        match &self.plan.gateways[gateway].tier {
            Tier::Tier0 { interfaces, .. } => {
                for (number, interface) in interfaces.iter().enumerate() {
                    for subnet in &interface.addresses {
                        connected(&mut routes, *subnet, Target::Interface(number));
                    }
                }
                if self.own_service_router(gateway).is_none() && !self.service_routers(gateway).is_empty() {
                    routes.extend(all.map(|prefix| (prefix, Rank::Default, Target::ServiceRouters)));
                }
                self.linked(gateway, &mut routes);
            }
            Tier::Tier1 { link: Some(link) } => {
                let up = Target::Gateway(link.tier0.index(), addresses_of(&link.tier0_addresses));
                routes.extend(all.map(|prefix| (prefix, Rank::Default, up.clone())));
                routes.extend(
                    link.tier0_addresses.iter().map(|net| (host(net.addr()), Rank::Linked, up.clone())),
                );
                routes.extend(
                    link.tier1_addresses.iter().map(|net| (host(net.addr()), Rank::Own, Target::Local)),
                );
            }
            Tier::Tier1 { link: None } => {}
        }
        for route in &self.plan.gateways[gateway].static_routes {
            let target = match route.next_hops.is_empty() {
                true => Target::Blackhole,
                false => Target::NextHops(route.next_hops.clone()),
            };
            routes.push((route.prefix, Rank::Static, target));
        }
        let own = self.own_service_router(gateway).map(|router| router.addresses.clone()).unwrap_or_default();
        routes.extend(own.into_iter().map(|address| (host(address), Rank::Own, Target::Local)));
        routes
    }

    /// What a tier-0 knows of the tier-1s that are linked to it.
    fn linked(&self, tier0: usize, routes: &mut Vec<(IpNet, Rank, Target)>) {
        for (number, gateway) in self.plan.gateways.iter().enumerate() {
            let Tier::Tier1 { link: Some(link) } = &gateway.tier else { continue };
            if link.tier0.index() != tier0 {
                continue;
            }
            let down = Target::Gateway(number, addresses_of(&link.tier1_addresses));
            let specific = gateway.static_routes.iter().filter(|route| route.prefix.prefix_len() > 0);
            routes.extend(specific.map(|route| (route.prefix, Rank::LinkedStatic, down.clone())));
            let segments = self.plan.segments.iter();
            let segments =
                segments.filter(|segment| segment.gateway.map(|index| index.index()) == Some(number));
            for subnet in segments.flat_map(|segment| &segment.gateway_addresses) {
                routes.push((subnet.trunc(), Rank::Linked, down.clone()));
            }
            routes.extend(
                link.tier1_addresses.iter().map(|net| (net.addr().into(), Rank::Linked, down.clone())),
            );
            routes
                .extend(link.tier0_addresses.iter().map(|net| (net.addr().into(), Rank::Own, Target::Local)));
        }
    }

    /// The longest prefix that covers the destination.
    fn lookup(&self, gateway: usize, destination: IpAddr) -> Option<(IpNet, Target)> {
        let routes = self.routes(gateway);
        let covering = routes.into_iter().filter(|(prefix, ..)| prefix.contains(&destination));
        covering
            .max_by_key(|(prefix, rank, _)| (prefix.prefix_len(), *rank))
            .map(|(prefix, _, target)| (prefix, target))
    }

    /// Routes a packet that arrived at a gateway's interface with addresses `arrival`.
    pub(super) fn route(
        &mut self,
        arrived: &Arrived,
        ip: &Ip,
        gateway: usize,
        arrival: Vec<IpAddr>,
    ) -> Verdict {
        let own = arrived.ingress == Ingress::Gateway;
        let link_local_source = ip.is_v6() && is_link_local(ip.source);
        if !own && (is_martian_source(ip.source) || link_local_source) {
            return Verdict::Drop(DropReason::MartianSource);
        }
        // The source addresses that nobody has are no destinations either.
        let link_local = is_link_local(ip.destination);
        if is_martian_source(ip.destination) || (link_local && ip.is_v6()) {
            return Verdict::Drop(DropReason::MartianDestination);
        }
        let (mut gateway, mut arrival, mut hops) = (gateway, arrival, 0);
        for passed in 0..4 {
            let route = self.lookup(gateway, ip.destination);
            if let Some((_, Target::Local)) = route {
                return Verdict::Deliver { gateway, arrival };
            }
            // Gateways may have IPv4 link-local addresses between them, which are reached by their own routes only.
            let exact =
                route.as_ref().is_some_and(|(prefix, _)| prefix.prefix_len() == prefix.max_prefix_len());
            if link_local && !exact {
                return Verdict::Drop(DropReason::MartianDestination);
            }
            // The service router is one router with the distributed one that sent the packet over the transit segment.
            if passed > 0 || !(own || matches!(arrived.ingress, Ingress::Transit { .. })) {
                if !own && ip.ttl <= hops + 1 {
                    let (error, reason) = (IcmpError::TimeExceeded, DropReason::TtlExpired);
                    return Verdict::Refuse { error, reason, gateway, arrival };
                }
                hops += 1;
            }
            match route.map(|(_, target)| target) {
                Some(Target::Gateway(next, its_end)) => (gateway, arrival) = (next, its_end),
                target => return self.leave(arrived, ip, target, hops, gateway, arrival),
            }
        }
        Verdict::Drop(DropReason::RoutingLoop)
    }

    fn leave(
        &mut self,
        arrived: &Arrived,
        ip: &Ip,
        target: Option<Target>,
        hops: u8,
        gateway: usize,
        arrival: Vec<IpAddr>,
    ) -> Verdict {
        let flow = arrived.frame.flow();
        let refused = |error, reason| Verdict::Refuse { error, reason, gateway, arrival: arrival.clone() };
        let leaving = |mtu, destination, source, to| {
            Verdict::Leave(Leaving { hops, gateway, arrival: arrival.clone(), mtu, destination, source, to })
        };
        let (hop, via) = match target {
            None | Some(Target::Local | Target::Gateway(..)) => {
                return refused(IcmpError::NoRoute, DropReason::NoRoute);
            }
            Some(Target::Blackhole) => return Verdict::Drop(DropReason::Blackhole),
            Some(Target::Segment(segment)) => {
                (ip.destination, Via::Segment(sluice_intent::plan::SegmentIndex(segment as u16)))
            }
            Some(Target::Interface(number)) => (ip.destination, Via::Interface(number as u16)),
            Some(Target::NextHops(hops)) => match self.choose(&flow, &hops) {
                Some(hop) => (hop.address, hop.via),
                None => return refused(IcmpError::NoRoute, DropReason::NoRoute),
            },
            Some(Target::ServiceRouters) => {
                let chosen = self.choose(&flow, &self.service_routers(gateway));
                let Some((mac, overlay, remote)) = chosen else {
                    return refused(IcmpError::NoRoute, DropReason::NoRoute);
                };
                let Some(tunnel) = self.tunnel(arrived, &flow, &overlay, remote) else {
                    return refused(IcmpError::NoRoute, DropReason::NoRoute);
                };
                return match self.neighbor(&tunnel.next_hop) {
                    None => Verdict::Resolve(tunnel.next_hop),
                    Some(next) => {
                        leaving(tunnel.inner_mtu(), mac, self.plan.router_mac, To::Tunnel(tunnel, next))
                    }
                };
            }
        };
        match via {
            Via::Interface(number) => {
                let Tier::Tier0 { interfaces, .. } = &self.plan.gateways[gateway].tier else {
                    return refused(IcmpError::NoRoute, DropReason::NoRoute);
                };
                let interface = &interfaces[usize::from(number)];
                let port = self.plan.uplinks[interface.uplink.index()].port;
                let vlan = interface.vlan.map_or(0, u16::from);
                let key = NeighborKey { port, vlan, address: hop };
                let Some(mac) = self.neighbor(&key) else { return Verdict::Resolve(key) };
                leaving(
                    usize::from(interface.mtu),
                    mac,
                    self.reference.macs[port.index()],
                    To::Port(port, vlan),
                )
            }
            Via::Segment(segment) => {
                let planned = &self.plan.segments[segment.index()];
                let mtu = usize::from(planned.mtu);
                let workload =
                    self.plan.workloads.iter().find(|w| w.segment == segment && w.addresses.contains(&hop));
                let unknown = || refused(IcmpError::HostUnreachable, DropReason::UnknownWorkload);
                let Some(workload) = workload else { return unknown() };
                match workload.location {
                    sluice_intent::plan::Location::Port { port, vlan } => {
                        let to = To::Port(port, vlan.map_or(0, u16::from));
                        leaving(mtu, workload.mac, self.plan.router_mac, to)
                    }
                    sluice_intent::plan::Location::RemoteTep(remote) => {
                        let tunnel = self.tunnel(arrived, &flow, &Overlay::of_segment(planned), remote);
                        let Some(tunnel) = tunnel else { return unknown() };
                        let Some(next) = self.neighbor(&tunnel.next_hop) else {
                            return Verdict::Resolve(tunnel.next_hop);
                        };
                        leaving(
                            mtu.min(tunnel.inner_mtu()),
                            workload.mac,
                            self.plan.router_mac,
                            To::Tunnel(tunnel, next),
                        )
                    }
                }
            }
        }
    }
}

/// The routes of an interface: its subnet, its own address, and in IPv4 the broadcast addresses that are not forwarded to (RFC 2644).
fn connected(routes: &mut Vec<(IpNet, Rank, Target)>, subnet: IpNet, target: Target) {
    routes.push((subnet.trunc(), Rank::Connected, target));
    routes.push((subnet.addr().into(), Rank::Own, Target::Local));
    if subnet.addr().is_ipv4() && subnet.prefix_len() < 31 {
        for address in [subnet.network(), subnet.broadcast()] {
            routes.push((address.into(), Rank::Broadcast, Target::Blackhole));
        }
    }
}
