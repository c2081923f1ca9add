//! Tunnels: what a frame is wrapped in on its way to the TEP of another node, and which of several ways it takes.
//!
//! Every node that is reached over a segment has a [`TunnelGroup`]: a tunnel for each pair of a local and a remote TEP, one pair where there
//! are no TEP groups. A flow has one tunnel of it for its own, which its packets take as long as that is usable. What is not usable says
//! [`TunnelStates`], which belongs to the snapshot and is the only thing of it that changes: a TEP that fails costs a store there, and each
//! worker then turns the rewrites that go through it to another tunnel of their group. Flow cache entries stay as they are.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use sluice_intent::plan::{Encapsulation, PortIndex, Teaming, TepIndex};
use sluice_wire::{MacAddr, Vni};

use crate::neighbor::NeighborKey;

/// Number of a [`Tunnel`] in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TunnelId(pub(crate) u32);

/// Number of a [`TunnelGroup`] in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TunnelGroupId(pub(crate) u32);

/// Number of a pair of TEPs, [`TepPair`], in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TepPairId(pub(crate) u32);

impl TepPairId {
    /// Position in [`super::Snapshot::tep_pairs`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A local TEP and a remote one that tunnels lead to from it: what BFD watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TepPair {
    /// The local TEP.
    pub tep: TepIndex,
    /// The remote TEP.
    pub remote: IpAddr,
    /// Encapsulation of the first segment that uses it.
    pub encapsulation: Encapsulation,
}

/// The ways to one remote node over one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelGroup {
    /// How a flow's local TEP is chosen.
    pub(crate) teaming: Teaming,
    /// The tunnels from each local TEP, next to each other; in the order of preference.
    pub(crate) locals: Vec<FromTep>,
}

/// Tunnels from one local TEP to the remote TEPs of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FromTep {
    pub(crate) tep: TepIndex,
    first: TunnelId,
    count: u8,
}

impl FromTep {
    pub(crate) fn new(tep: TepIndex, first: TunnelId, count: usize) -> Self {
        Self { tep, first, count: count as u8 }
    }

    /// Tunnels from this TEP.
    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// One of them, by its position.
    pub(crate) fn tunnel(&self, position: usize) -> TunnelId {
        TunnelId(self.first.0 + position as u32)
    }
}

impl TunnelGroup {
    /// The tunnels of all pairs.
    pub fn tunnels(&self) -> impl Iterator<Item = TunnelId> {
        self.locals.iter().flat_map(|from| (0..from.count()).map(|position| from.tunnel(position)))
    }
}

/// Which tunnels are usable: written by the control thread, read by every worker before each batch.
#[derive(Debug, Default)]
pub struct TunnelStates {
    /// Counts the changes.
    version: AtomicU32,
    /// Local TEPs that are not usable, one bit each.
    teps_down: AtomicU64,
    /// Pairs that are not.
    pairs_down: Box<[AtomicBool]>,
}

impl TunnelStates {
    /// All of so many pairs usable.
    pub(crate) fn new(pairs: usize) -> Self {
        Self { pairs_down: (0..pairs).map(|_| AtomicBool::new(false)).collect(), ..Self::default() }
    }

    /// Says whether a local TEP can be used, and returns whether that is news, which is to be announced.
    pub(super) fn set_tep(&self, tep: TepIndex, usable: bool) -> bool {
        let bit = 1 << tep.0;
        let before = match usable {
            true => self.teps_down.fetch_and(!bit, Ordering::Relaxed),
            false => self.teps_down.fetch_or(bit, Ordering::Relaxed),
        };
        (before & bit == 0) != usable
    }

    /// Says whether a remote TEP can be reached from a local one, and returns whether that is news, which is to be announced.
    pub(super) fn set_pair(&self, pair: TepPairId, usable: bool) -> bool {
        let down = self.pairs_down.get(pair.index());
        down.is_some_and(|down| down.swap(!usable, Ordering::Relaxed) == usable)
    }

    /// Has the workers look at what has changed.
    pub(super) fn announce(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Changes so far.
    #[inline(always)]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether a local TEP can be used.
    pub fn is_tep_usable(&self, tep: TepIndex) -> bool {
        self.teps_down.load(Ordering::Relaxed) & (1 << tep.0) == 0
    }

    /// Whether a tunnel can be used.
    pub fn is_usable(&self, tunnel: &Tunnel) -> bool {
        let pair = self.pairs_down.get(tunnel.pair.index());
        self.is_tep_usable(tunnel.tep) && !pair.is_some_and(|down| down.load(Ordering::Relaxed))
    }
}

/// The way to a remote TEP for one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Encapsulation of the segment.
    pub encapsulation: Encapsulation,
    /// VNI of the segment.
    pub vni: Vni,
    /// The local TEP.
    pub tep: TepIndex,
    /// The group that it is one way of.
    pub group: TunnelGroupId,
    /// The pair of TEPs that it is between.
    pub pair: TepPairId,
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
