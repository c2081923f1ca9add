//! Routers: tier-0 and tier-1 gateways with their forwarding tables.

use std::net::IpAddr;

use ipnet::IpNet;
use sluice_intent::plan::{GatewayIndex, PortIndex};
use sluice_wire::MacAddr;

use super::segment::Addresses;
use super::{NextHopId, SegmentId, TunnelGroupId};
use crate::lpm::Lpm;

/// Number of a [`Router`] in its snapshot: the plan's number of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouterId(pub(crate) u16);

impl RouterId {
    /// Position of the gateway in the plan.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A gateway as this node sees it.
#[derive(Debug)]
pub struct Router {
    pub(crate) name: String,
    pub(crate) gateway: GatewayIndex,
    pub(crate) is_tier0: bool,
    pub(crate) v4: Lpm,
    pub(crate) v6: Lpm,
    pub(crate) routes: Vec<Route>,
    pub(crate) interfaces: Vec<RouterInterface>,
    /// Addresses of the service router that runs here: the source of ICMP errors to packets from the transit segment.
    pub(crate) transit: Addresses,
}

impl Router {
    /// The gateway in the plan.
    pub fn gateway(&self) -> GatewayIndex {
        self.gateway
    }

    /// The gateway's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The forwarding table: every route with its target.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The route for a destination.
    #[inline]
    pub(crate) fn lookup(&self, destination: IpAddr) -> Option<&Route> {
        let table = if destination.is_ipv4() { &self.v4 } else { &self.v6 };
        self.routes.get(table.lookup(destination)? as usize)
    }
}

/// An interface of a tier-0 on an uplink.
#[derive(Debug)]
pub(crate) struct RouterInterface {
    pub(crate) name: String,
    pub(crate) port: PortIndex,
    pub(crate) vlan: u16,
    pub(crate) mac: MacAddr,
    pub(crate) mtu: u16,
    pub(crate) source: Addresses,
    pub(crate) subnets: Vec<IpNet>,
}

/// A route of a gateway's forwarding table.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Destination.
    pub prefix: IpNet,
    /// Where it leads.
    pub target: Target,
    /// Where it comes from, in the terms of the CLI.
    pub origin: Origin,
}

/// Where a route leads.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// An address of the gateway itself.
    Local,
    /// A segment that is connected to the gateway: the workload with the destination address.
    Segment(SegmentId),
    /// The subnet of an uplink interface: the destination itself is the next hop.
    Subnet {
        /// Number of the interface in the gateway.
        interface: u16,
    },
    /// Another gateway of this node, reached over a router link.
    Link(Link),
    /// Next hops of equal cost.
    NextHops(Vec<Hop>),
    /// Service routers of this tier-0 on edges, of equal cost, over the transit segment.
    ServiceRouters(Vec<TransitHop>),
    /// Discarded.
    Blackhole,
}

/// The far end of a router link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// The gateway at the far end.
    pub router: RouterId,
    /// Addresses of the far end, the source of its ICMP errors.
    pub(crate) arrival: Addresses,
}

/// A next hop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hop {
    /// Its address.
    pub address: IpAddr,
    /// How it is reached.
    pub via: HopVia,
    /// Where its state is, if it is watched.
    pub(crate) next_hop: Option<NextHopId>,
}

/// How a next hop is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HopVia {
    /// An uplink interface of the same gateway.
    Interface(u16),
    /// A segment connected to the same gateway.
    Segment(SegmentId),
}

/// A service router on an edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransitHop {
    /// Its MAC address on the transit segment.
    pub mac: MacAddr,
    /// The tunnels to its edge.
    pub tunnels: TunnelGroupId,
    /// Where its state is.
    pub(crate) next_hop: NextHopId,
}

/// Where a route comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A connected subnet or address.
    Connected,
    /// Written in the node document.
    Static,
    /// A subnet of a linked gateway.
    Linked,
    /// A static route of a linked tier-1, known to its tier-0.
    LinkedStatic,
    /// The way to the service routers.
    ServiceRouter,
}

impl Origin {
    /// The letters of the CLI's route listing, for a route of a tier-0 or of a tier-1: those of the tier that it comes from. What a tier-1
    /// reaches over its router link is a static route there.
    pub const fn code(self, tier0: bool) -> &'static str {
        match (self, tier0) {
            (Self::Connected, true) => "t0c",
            (Self::Static, true) => "t0s",
            (Self::Connected, false) | (Self::Linked, true) => "t1c",
            (Self::LinkedStatic, _) | (Self::Static | Self::Linked, false) => "t1s",
            (Self::ServiceRouter, _) => "isr",
        }
    }
}
