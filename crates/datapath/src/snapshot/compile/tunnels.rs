//! Compiles tunnels: who is reached, from which local TEPs, and how.

use std::net::IpAddr;

use hashbrown::HashMap;
use sluice_intent::plan::{Encapsulation, Location, Plan, Segment, Teaming, TepIndex, Transit};
use sluice_wire::Vni;

use super::{Compiler, transit_of};
use crate::neighbor::NeighborKey;
use crate::snapshot::tunnel::FromTep;
use crate::snapshot::{TepPair, TepPairId, Tunnel, TunnelGroup, TunnelGroupId, TunnelId};

/// Every TEP of another node that the plan names, in wire order loaded little-endian.
pub(super) fn remote_teps(plan: &Plan) -> (Vec<(u32, ())>, Vec<u128>) {
    let of_segments = plan.segments.iter().flat_map(|segment| segment.remote_teps.iter().copied());
    let of_workloads = plan.workloads.iter().filter_map(|workload| match workload.location {
        Location::RemoteTep(address) => Some(address),
        Location::Port { .. } => None,
    });
    let of_routers =
        plan.gateways.iter().filter_map(transit_of).flat_map(|transit| transit.service_routers.iter());
    let of_groups = plan.remote_tep_groups.iter().flat_map(|group| group.teps.iter().copied());
    let mut all: Vec<IpAddr> =
        of_segments.chain(of_workloads).chain(of_routers.map(|router| router.tep)).chain(of_groups).collect();
    all.retain(|remote| plan.teps.iter().all(|tep| tep.address.addr() != *remote));
    all.sort_unstable();
    all.dedup();
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for address in all {
        match address {
            IpAddr::V4(address) => v4.push((u32::from_le_bytes(address.octets()), ())),
            IpAddr::V6(address) => v6.push(u128::from_le_bytes(address.octets())),
        }
    }
    (v4, v6)
}

/// For each remote TEP that is in a group, the number of that.
pub(super) fn remote_groups(plan: &Plan) -> HashMap<IpAddr, usize, foldhash::fast::RandomState> {
    let groups = plan.remote_tep_groups.iter().enumerate();
    groups.flat_map(|(number, group)| group.teps.iter().map(move |address| (*address, number))).collect()
}

/// What tunnels need to know of a segment or a transit segment.
#[derive(Clone, Copy)]
pub(super) struct Overlay<'a> {
    vni: Vni,
    encapsulation: Encapsulation,
    teps: &'a [TepIndex],
    teaming: Teaming,
}

impl<'a> Overlay<'a> {
    pub(super) fn of_segment(segment: &'a Segment) -> Self {
        let Segment { vni, encapsulation, teaming, .. } = *segment;
        Self { vni, encapsulation, teps: &segment.teps, teaming }
    }

    pub(super) fn of_transit(transit: &'a Transit) -> Self {
        let Transit { vni, encapsulation, teaming, .. } = *transit;
        Self { vni, encapsulation, teps: &transit.teps, teaming }
    }
}

impl Compiler<'_> {
    /// The ways to the node with this TEP over a segment: from every local TEP of its family that may carry that, to each TEP of the remote group.
    pub(super) fn tunnel_group(&mut self, overlay: Overlay<'_>, remote: IpAddr) -> Option<TunnelGroupId> {
        let plan = self.plan;
        let alone = [remote];
        let remotes: &[IpAddr] = match self.remote_groups.get(&remote) {
            Some(group) => &plan.remote_tep_groups[*group].teps,
            None => &alone,
        };
        let key = (overlay.vni, *remotes.first()?);
        if let Some(id) = self.group_ids.get(&key) {
            return *id;
        }
        let id = TunnelGroupId(self.tunnel_groups.len() as u32);
        let mut group = TunnelGroup { teaming: overlay.teaming, locals: Vec::new() };
        let same = |tep: &&TepIndex| plan.teps[tep.index()].address.addr().is_ipv4() == remote.is_ipv4();
        for tep in overlay.teps.iter().filter(same).copied() {
            let first = TunnelId(self.tunnels.len() as u32);
            for remote in remotes {
                self.add_tunnel(overlay, id, tep, *remote);
            }
            let count = self.tunnels.len() - first.0 as usize;
            if count > 0 {
                group.locals.push(FromTep::new(tep, first, count));
            }
        }
        let id = (!group.locals.is_empty()).then(|| {
            self.tunnel_groups.push(group);
            id
        });
        self.group_ids.insert(key, id);
        id
    }

    /// Adds the tunnel between two TEPs, if the local one can reach the other.
    fn add_tunnel(&mut self, overlay: Overlay<'_>, group: TunnelGroupId, tep: TepIndex, remote: IpAddr) {
        let local = &self.plan.teps[tep.index()];
        let port = self.plan.uplinks[local.uplink.index()].port;
        let vlan = local.vlan.map_or(0, u16::from);
        let on_link = local.address.contains(&remote);
        let Some(next_hop) = (if on_link { Some(remote) } else { local.gateway }) else { return };
        let Overlay { vni, encapsulation, .. } = overlay;
        let pair = *self.pair_ids.entry((tep, remote)).or_insert_with(|| {
            self.tep_pairs.push(TepPair { tep, remote, encapsulation });
            TepPairId(self.tep_pairs.len() as u32 - 1)
        });
        self.tunnels.push(Tunnel {
            encapsulation,
            vni,
            tep,
            group,
            pair,
            local: local.address.addr(),
            remote,
            port,
            vlan,
            source_mac: self.facts[port.index()].mac,
            next_hop: NeighborKey { port, vlan, address: next_hop },
            mtu: local.mtu,
        });
    }
}
