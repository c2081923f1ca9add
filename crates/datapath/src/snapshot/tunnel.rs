//! Tunnels: what a frame is wrapped in on its way to the TEP of another node.

use std::net::IpAddr;

use sluice_intent::plan::{Encapsulation, PortIndex, TepIndex};
use sluice_wire::{MacAddr, Vni};

use crate::neighbor::NeighborKey;

/// Number of a [`Tunnel`] in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TunnelId(pub(crate) u32);

/// The way to a remote TEP for one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Encapsulation of the segment.
    pub encapsulation: Encapsulation,
    /// VNI of the segment.
    pub vni: Vni,
    /// The local TEP.
    pub tep: TepIndex,
    /// Outer source address: that of the local TEP.
    pub local: IpAddr,
    /// Outer destination address: the remote TEP.
    pub remote: IpAddr,
    /// Port of the local TEP's uplink.
    pub port: PortIndex,
    /// Transport VLAN; 0: untagged.
    pub vlan: u16,
    /// Outer source MAC address.
    pub source_mac: MacAddr,
    /// Who receives the outer frame: the remote TEP itself or the gateway towards it.
    pub next_hop: NeighborKey,
    /// Largest outer IP packet in bytes.
    pub mtu: u16,
}

impl Tunnel {
    /// Bytes that are put in front of the inner Ethernet header after the outer one: outer IP, UDP and tunnel header.
    pub const fn overhead(&self) -> u16 {
        let ip = if self.remote.is_ipv4() { 20 } else { 40 };
        ip + 8 + 8
    }

    /// Largest inner layer-3 packet in bytes.
    pub const fn inner_mtu(&self) -> u16 {
        self.mtu.saturating_sub(self.overhead() + 14)
    }
}

/// Key of a VNI and its encapsulation in the table of tunnel ingresses.
#[inline]
pub(crate) const fn vni_key(vni: u32, encapsulation: Encapsulation) -> u32 {
    vni << 1 | matches!(encapsulation, Encapsulation::Vxlan) as u32
}
