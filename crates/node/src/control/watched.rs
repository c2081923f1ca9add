//! What BFD watches: the pairs of TEPs that tunnels lead between, and the neighbours on interfaces of tier-0 gateways that the document names.
//! How packets to each leave the node.

use std::collections::HashMap;
use std::time::Duration;

use sluice_datapath::neighbor::NeighborKey;
use sluice_datapath::snapshot::{NextHopId, Snapshot, TepPairId};
use sluice_intent::plan::PortIndex;
use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{Path, SessionConfig, Via};
use sluice_wire::VlanId;

use super::bfd_frames::{self, Outer};

/// What a session says something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watches {
    /// A pair of TEPs.
    Pair(TepPairId),
    /// A neighbour that static routes lead to.
    NextHop(NextHopId),
}

/// How packets of a session leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) port: PortIndex,
    pub(super) next_hop: NeighborKey,
    /// All but the next hop's MAC address.
    pub(super) outer: Outer,
}

/// A session that is to be, and what it is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) watches: Watches,
    pub(super) route: Route,
    pub(super) config: SessionConfig,
}

/// What is known of a path besides its session.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) watches: Watches,
    pub(super) route: Route,
    pub(super) usable: bool,
    /// Since when the session is overdue, where it has never been up: the other node is heard and does not hear this one, or a neighbour that is to
    /// be watched does not answer.
    pub(super) overdue: Option<Timestamp>,
}

/// Whether a path leads to a neighbour, not through a tunnel.
pub(super) const fn is_of_neighbor(path: &Path) -> bool {
    matches!(path.via, Via::Link(_))
}

/// What an alarm of a path concerns.
pub(super) fn object(path: &Path) -> String {
    format!("{} to {}", path.local, path.remote)
}

/// The sessions that a snapshot wants, by their paths.
pub(super) fn wanted(snapshot: &Snapshot) -> HashMap<Path, Wanted> {
    let mut wanted = HashMap::new();
    if let Some(bfd) = snapshot.plan().bfd {
        let config = every(bfd.interval_ms, bfd.multiplier);
        for tunnel in snapshot.tunnels() {
            let path = bfd_frames::path(tunnel.local, tunnel.remote);
            wanted.entry(path).or_insert_with(|| {
                let outer = Outer {
                    source: tunnel.source_mac,
                    next_hop: tunnel.source_mac,
                    vlan: tag(tunnel.vlan),
                    encapsulation: Some(snapshot.tep_pairs()[tunnel.pair.index()].encapsulation),
                };
                let route = Route { port: tunnel.port, next_hop: tunnel.next_hop, outer };
                Wanted { watches: Watches::Pair(tunnel.pair), route, config }
            });
        }
    }
    for bfd in snapshot.bfd_neighbors() {
        let NeighborKey { port, vlan, address } = bfd.neighbor;
        let via = Via::Link(bfd_frames::link(port, vlan));
        let outer =
            Outer { source: bfd.source_mac, next_hop: bfd.source_mac, vlan: tag(vlan), encapsulation: None };
        let route = Route { port, next_hop: bfd.neighbor, outer };
        let config = every(bfd.interval_ms, bfd.multiplier);
        let path = Path { via, local: bfd.local, remote: address };
        wanted.insert(path, Wanted { watches: Watches::NextHop(bfd.next_hop), route, config });
    }
    wanted
}

fn every(milliseconds: u16, multiplier: u8) -> SessionConfig {
    SessionConfig::every(Duration::from_millis(milliseconds.into()), multiplier)
}

fn tag(vlan: u16) -> Option<VlanId> {
    VlanId::new(vlan).ok().filter(|vlan| !vlan.is_untagged())
}
