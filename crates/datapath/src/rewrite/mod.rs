//! Rewrites: what a decision does to the packets of its flows.
//!
//! A [`Rewrite`] is what the pipeline decided, in terms of addresses and tunnels. [`compiled::Compiled`] is the same as bytes: how many
//! to take off the front, which to put there, which fields to patch. The [`table`] holds each compiled rewrite once, however many
//! flows share it; flow cache entries name its slots.

pub(crate) mod compiled;
pub(crate) mod table;
pub(crate) mod uses;

use sluice_intent::plan::PortIndex;
use sluice_wire::{EtherType, MacAddr};

use crate::neighbor::NeighborId;
use crate::snapshot::{IngressId, NextHopId, TunnelId};

/// What happens to the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rewrite {
    /// Where the packets enter; counted there.
    pub(crate) ingress: IngressId,
    /// What happens to the Ethernet header.
    pub(crate) ethernet: Ethernet,
    /// Where they leave.
    pub(crate) egress: Egress,
    /// Largest layer-3 packet that may leave, in bytes, encapsulation not counted; a tunnel may allow less.
    pub(crate) mtu: u16,
    /// The neighbour whose address is in the rewrite.
    pub(crate) neighbor: Option<NeighborId>,
    /// Which next hop of several its flows take.
    pub(crate) equal_cost: EqualCost,
}

/// The choice of a next hop of equal cost, as far as the states of those are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct EqualCost {
    /// The one that flows take.
    pub(crate) taken: Option<NextHopId>,
    /// The one that they take as long as it can be reached.
    pub(crate) own: Option<NextHopId>,
}

/// What happens to the Ethernet header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ethernet {
    /// The frame stays as it is.
    Kept,
    /// A VLAN tag goes, or one is put on, or both; the rest stays. The addresses are not part of it, so that there is one such rewrite
    /// for each pair of places and not one for each pair of stations.
    Retagged,
    /// A new header.
    New(Header),
}

impl Ethernet {
    /// The new header, if there is one.
    pub(crate) fn header(&self) -> Option<&Header> {
        match self {
            Self::New(header) => Some(header),
            Self::Kept | Self::Retagged => None,
        }
    }
}

/// A new Ethernet header, and what the routers on the way do to the packet behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Header {
    pub(crate) destination: MacAddr,
    pub(crate) source: MacAddr,
    pub(crate) ethertype: EtherType,
    /// Routers passed, each of which takes one from the time to live.
    pub(crate) hops: u8,
}

/// Where packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Egress {
    /// Through a port, as they are; VLAN 0: untagged.
    Port { port: PortIndex, vlan: u16 },
    /// Through a tunnel; `own` is the one that its flows take as long as it is usable.
    Tunnel { tunnel: TunnelId, own: TunnelId, destination: MacAddr },
}
