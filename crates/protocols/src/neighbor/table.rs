//! The neighbours, when each is due, and which gives its place to another.
//!
//! Only the resolver comes here. Ordered maps throughout: their work is bounded whatever addresses an attacker chooses,
//! and the order of actions is the same in every run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sluice_wire::MacAddr;

use super::{Link, NeighborKey, NeighborState, NeighborView};
use crate::Timestamp;

/// What is known of a neighbour. A MAC address stands exactly where the neighbour is usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Asked for, so many times.
    Incomplete { requests: u32 },
    /// Answered lately.
    Reachable { mac: MacAddr },
    /// Has a MAC address that nothing has confirmed.
    Stale { mac: MacAddr },
    /// Asked whether it is still there, so many times.
    Probe { mac: MacAddr, requests: u32 },
    /// Does not answer, or its link is down.
    Failed,
}

impl Phase {
    /// The neighbour's MAC address, if it is usable.
    pub(super) fn mac(self) -> Option<MacAddr> {
        match self {
            Self::Reachable { mac } | Self::Stale { mac } | Self::Probe { mac, .. } => Some(mac),
            Self::Incomplete { .. } | Self::Failed => None,
        }
    }

    fn state(self) -> NeighborState {
        match self {
            Self::Incomplete { .. } => NeighborState::Incomplete,
            Self::Reachable { .. } => NeighborState::Reachable,
            Self::Stale { .. } => NeighborState::Stale,
            Self::Probe { .. } => NeighborState::Probe,
            Self::Failed => NeighborState::Failed,
        }
    }
}

/// The order in which neighbours give up their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Unresolved,
    /// Nothing was ever sent to it.
    Unused,
    Stale,
    Confirmed,
}

/// Who on this node uses a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// The configuration: it is kept.
    Configuration,
    /// A packet.
    Packet,
    /// Nobody: it only asked for an own address.
    Nobody,
}

/// A neighbour.
#[derive(Debug)]
pub(super) struct Entry<P> {
    phase: Phase,
    since: Timestamp,
    /// Since when the MAC address is looked for, or held: what counts for giving up the place.
    ranked: Timestamp,
    deadline: Option<Timestamp>,
    kept: bool,
    /// It is or was kept, or a packet asked for it. The others only asked us.
    used: bool,
    waiting: VecDeque<P>,
    /// Tries in a row that failed.
    pub(super) failures: u32,
    /// When the MAC address was last replaced by another.
    pub(super) changed: Option<Timestamp>,
}

impl<P> Entry<P> {
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// The neighbour is resolved whether or not there is traffic.
    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    /// When the entry is due; `None` if nothing is to happen by itself.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// The neighbour for people.
    pub(super) fn view(&self) -> NeighborView {
        NeighborView {
            mac: self.phase.mac(),
            state: self.phase.state(),
            kept: self.kept,
            used: self.used,
            waiting: self.waiting.len(),
            since: self.since,
        }
    }

    /// Somebody on this node uses the neighbour, so that changes of it are reported.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    fn rank(&self) -> Rank {
        match self.phase {
            Phase::Incomplete { .. } | Phase::Failed => Rank::Unresolved,
            _ if !self.used => Rank::Unused,
            Phase::Stale { .. } => Rank::Stale,
            Phase::Reachable { .. } | Phase::Probe { .. } => Rank::Confirmed,
        }
    }

    /// Its position among those that give up their places; none while it does not.
    fn place(&self, key: NeighborKey) -> Option<(Rank, Timestamp, NeighborKey)> {
        (!self.kept && self.waiting.is_empty()).then_some((self.rank(), self.ranked, key))
    }
}

/// All neighbours.
#[derive(Debug)]
pub(super) struct Table<P> {
    entries: BTreeMap<NeighborKey, Entry<P>>,
    /// The entries that have a deadline.
    deadlines: BTreeSet<(Timestamp, NeighborKey)>,
    /// The entries that are not kept and that no packet waits for, in the order in which they give up their places.
    replaceable: BTreeSet<(Rank, Timestamp, NeighborKey)>,
    /// Entries that nobody on this node uses.
    unused: usize,
    /// Packets that wait, in all.
    waiting: usize,
}

impl<P> Table<P> {
    pub(super) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            replaceable: BTreeSet::new(),
            unused: 0,
            waiting: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Neighbours that nobody on this node uses.
    pub(super) fn unused(&self) -> usize {
        self.unused
    }

    /// Packets that wait, in all.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn get(&self, key: &NeighborKey) -> Option<&Entry<P>> {
        self.entries.get(key)
    }

    /// The entry, of which the caller may change what has no index.
    pub(super) fn get_mut(&mut self, key: &NeighborKey) -> Option<&mut Entry<P>> {
        self.entries.get_mut(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&NeighborKey, &Entry<P>)> {
        self.entries.iter()
    }

    /// The neighbours on the links of a port.
    pub(super) fn on_port(&self, port: u16) -> impl Iterator<Item = (&NeighborKey, &Entry<P>)> {
        let first =
            NeighborKey { link: Link::untagged(port), address: std::net::Ipv4Addr::UNSPECIFIED.into() };
        self.entries.range(first..).take_while(move |(key, _)| key.link.port == port)
    }

    /// The first deadline.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The neighbours whose deadlines have come at `now`, the first first.
    pub(super) fn due(&self, now: Timestamp) -> impl Iterator<Item = NeighborKey> {
        self.deadlines.iter().take_while(move |(deadline, _)| *deadline <= now).map(|(_, key)| *key)
    }

    /// The neighbour that shall give its place to one that a packet needs, or, `for_kept`, to one that is kept.
    pub(super) fn first_replaceable(&self, for_kept: bool) -> Option<NeighborKey> {
        let (rank, _, key) = self.replaceable.first()?;
        (for_kept || *rank < Rank::Confirmed).then_some(*key)
    }

    /// A neighbour that is not in the table yet, in `phase` until `deadline`.
    pub(super) fn insert(
        &mut self,
        key: NeighborKey,
        user: User,
        phase: Phase,
        deadline: Option<Timestamp>,
        now: Timestamp,
    ) {
        let entry = Entry {
            phase,
            since: now,
            ranked: now,
            deadline,
            kept: user == User::Configuration,
            used: user != User::Nobody,
            waiting: VecDeque::new(),
            failures: 0,
            changed: None,
        };
        self.deadlines.extend(deadline.map(|deadline| (deadline, key)));
        self.replaceable.extend(entry.place(key));
        self.unused += usize::from(!entry.used);
        self.entries.insert(key, entry);
    }

    /// Takes the neighbour out, with the packets that wait for it.
    pub(super) fn remove(&mut self, key: &NeighborKey) -> VecDeque<P> {
        let Some(entry) = self.entries.remove(key) else { return VecDeque::new() };
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, *key));
        }
        if let Some(place) = entry.place(*key) {
            self.replaceable.remove(&place);
        }
        self.unused -= usize::from(!entry.used);
        self.waiting -= entry.waiting.len();
        entry.waiting
    }

    /// Puts the neighbour into `phase` until `deadline`.
    pub(super) fn set_phase(
        &mut self,
        key: &NeighborKey,
        phase: Phase,
        deadline: Option<Timestamp>,
        now: Timestamp,
    ) {
        if let Some(old) = self.entries.get(key).and_then(Entry::deadline) {
            self.deadlines.remove(&(old, *key));
        }
        self.change(key, |entry| {
            let rank = entry.rank();
            // Another request does not make an unanswered neighbour younger.
            if phase.state() != entry.phase.state() {
                entry.since = now;
            }
            entry.phase = phase;
            entry.deadline = deadline;
            if rank != entry.rank() {
                entry.ranked = now;
            }
        });
        if self.entries.contains_key(key) {
            self.deadlines.extend(deadline.map(|deadline| (deadline, *key)));
        }
    }

    /// Keeps the neighbour, or no longer.
    pub(super) fn set_kept(&mut self, key: &NeighborKey, kept: bool) {
        self.change(key, |entry| entry.kept = kept);
    }

    /// The neighbour is used from now on. Returns its MAC address if it is usable and was not used before.
    pub(super) fn set_used(&mut self, key: &NeighborKey, now: Timestamp) -> Option<MacAddr> {
        let entry = self.entries.get(key).filter(|entry| !entry.used)?;
        let mac = entry.phase.mac();
        self.unused -= 1;
        self.change(key, |entry| {
            entry.used = true;
            entry.ranked = now;
        });
        mac
    }

    /// Lets a packet wait for the neighbour, of at most `limit`. Returns the packet for which there is no room: the
    /// one that has waited for the longest time.
    pub(super) fn wait(&mut self, key: &NeighborKey, packet: P, limit: usize) -> Option<P> {
        let Some(entry) = self.entries.get(key) else { return Some(packet) };
        let full = entry.waiting.len() >= limit;
        let mut replaced = None;
        self.change(key, |entry| {
            entry.waiting.push_back(packet);
            replaced = if full { entry.waiting.pop_front() } else { None };
        });
        self.waiting += usize::from(!full);
        replaced
    }

    /// How many packets wait for the neighbour.
    pub(super) fn waiting_for(&self, key: &NeighborKey) -> usize {
        self.entries.get(key).map_or(0, |entry| entry.waiting.len())
    }

    /// Takes the packets that wait for the neighbour.
    pub(super) fn take_waiting(&mut self, key: &NeighborKey) -> VecDeque<P> {
        let mut waiting = VecDeque::new();
        self.change(key, |entry| waiting = std::mem::take(&mut entry.waiting));
        self.waiting -= waiting.len();
        waiting
    }

    /// Changes an entry and keeps its place in order.
    fn change(&mut self, key: &NeighborKey, change: impl FnOnce(&mut Entry<P>)) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let before = entry.place(*key);
        change(entry);
        let after = entry.place(*key);
        if before != after {
            if let Some(place) = before {
                self.replaceable.remove(&place);
            }
            self.replaceable.extend(after);
        }
    }
}
