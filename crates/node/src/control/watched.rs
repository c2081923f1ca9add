//! What BFD watches: the pairs of TEPs that tunnels lead between, and the neighbours on interfaces of tier-0 gateways that the document names.
//! How packets to each leave the node, and what is known of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use sluice_datapath::neighbor::NeighborKey;
use sluice_datapath::snapshot::{NextHopId, Snapshot, TepPairId};
use sluice_intent::plan::PortIndex;
use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{Path, PathState, SessionConfig, Sessions, Via};
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
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    pub(super) watches: Watches,
    pub(super) route: Route,
    pub(super) state: PathState,
}

/// Every path that is watched, when each is to be looked at, and what the snapshot was not told yet.
#[derive(Debug, Default)]
pub(super) struct Paths {
    watched: HashMap<Path, Watched>,
    due: BTreeSet<(Timestamp, Path)>,
    untold: Vec<Path>,
    /// TEPs of nodes that are known to have BFD.
    speakers: HashSet<IpAddr>,
}

impl Paths {
    /// One of them.
    pub(super) fn get(&self, path: &Path) -> Option<&Watched> {
        self.watched.get(path)
    }

    /// All of them, in no order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Path> {
        self.watched.keys()
    }

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> HashMap<Path, Watched> {
        self.due.clear();
        self.untold.clear();
        std::mem::take(&mut self.watched)
    }

    /// Adds one that is not there.
    pub(super) fn insert(&mut self, path: Path, watched: Watched) {
        self.due.extend(watched.state.next_event().map(|due| (due, path)));
        self.watched.insert(path, watched);
    }

    /// Changes the state of one. Returns whether what `change` says is to be told.
    pub(super) fn change(&mut self, path: &Path, change: impl FnOnce(&mut PathState) -> bool) -> bool {
        let Some(watched) = self.watched.get_mut(path) else { return false };
        let before = watched.state.next_event();
        let tells = change(&mut watched.state);
        let after = watched.state.next_event();
        if before != after {
            before.map(|due| self.due.remove(&(due, *path)));
            self.due.extend(after.map(|due| (due, *path)));
        }
        if tells {
            self.untold.push(*path);
        }
        tells
    }

    /// Whether the other end of a path is known to have BFD: the document says so of neighbours, and a session with another of its TEPs of a node.
    pub(super) fn is_expected(&self, path: &Path) -> bool {
        is_of_neighbor(path) || self.speakers.contains(&path.remote)
    }

    /// A session with one of these TEPs, which are those of one node, is up: the others have to come up as well.
    pub(super) fn expect(&mut self, node: &[IpAddr], sessions: &Sessions, now: Timestamp) {
        if node.iter().all(|tep| self.speakers.contains(tep)) {
            return;
        }
        self.speakers.extend(node);
        let of_node = |path: &&Path| !is_of_neighbor(path) && node.contains(&path.remote);
        let paths: Vec<Path> = self.watched.keys().filter(of_node).copied().collect();
        for (path, session) in paths.iter().filter_map(|path| Some((path, sessions.get(path)?))) {
            self.change(path, |state| {
                state.expect(&session, now);
                false
            });
        }
    }

    /// Forgets nodes that no path leads to.
    pub(super) fn forget_others(&mut self) {
        let remotes: HashSet<IpAddr> = self.watched.keys().map(|path| path.remote).collect();
        self.speakers.retain(|tep| remotes.contains(tep));
    }

    /// One that is to be looked at by `now`. It stays so until it is changed.
    pub(super) fn next_due(&self, now: Timestamp) -> Option<Path> {
        self.due.first().filter(|(due, _)| *due <= now).map(|(_, path)| *path)
    }

    /// Tells a snapshot what changed since the last time, all at once.
    pub(super) fn tell_changes(&mut self, snapshot: &Snapshot) {
        if !self.untold.is_empty() {
            tell(snapshot, self.untold.iter().filter_map(|path| self.watched.get(path)));
            self.untold.clear();
        }
    }

    /// Tells a snapshot all that is known.
    pub(super) fn tell_all(&mut self, snapshot: &Snapshot) {
        tell(snapshot, self.watched.values());
        self.untold.clear();
    }
}

fn tell<'a>(snapshot: &Snapshot, paths: impl Iterator<Item = &'a Watched>) {
    let (mut pairs, mut next_hops) = (Vec::new(), Vec::new());
    for Watched { watches, state, .. } in paths {
        match watches {
            Watches::Pair(pair) => pairs.push((*pair, state.is_usable())),
            Watches::NextHop(next_hop) => next_hops.push((*next_hop, state.is_usable())),
        }
    }
    snapshot.set_reachable(&pairs, &next_hops);
}

/// Whether a path leads to a neighbour, not through a tunnel.
pub(super) const fn is_of_neighbor(path: &Path) -> bool {
    matches!(path.via, Via::Link(_))
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
