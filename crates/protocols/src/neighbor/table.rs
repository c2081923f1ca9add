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

    fn rank(self) -> Rank {
        match self {
            Self::Incomplete { .. } | Self::Failed => Rank::Unresolved,
            Self::Stale { .. } => Rank::Stale,
            Self::Reachable { .. } | Self::Probe { .. } => Rank::Confirmed,
        }
    }
}

/// The order in which neighbours give up their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Unresolved,
    Stale,
    Confirmed,
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
            waiting: self.waiting.len(),
            since: self.since,
        }
    }

    fn place(&self, key: NeighborKey) -> (Rank, Timestamp, NeighborKey) {
        (self.phase.rank(), self.ranked, key)
    }
}

/// All neighbours.
#[derive(Debug)]
pub(super) struct Table<P> {
    entries: BTreeMap<NeighborKey, Entry<P>>,
    /// The entries that have a deadline.
    deadlines: BTreeSet<(Timestamp, NeighborKey)>,
    /// The entries that are not kept, in the order in which they give up their places.
    replaceable: BTreeSet<(Rank, Timestamp, NeighborKey)>,
    /// Packets that wait, in all.
    waiting: usize,
}

impl<P> Table<P> {
    pub(super) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            replaceable: BTreeSet::new(),
            waiting: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
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
        kept: bool,
        phase: Phase,
        deadline: Option<Timestamp>,
        now: Timestamp,
    ) {
        let entry = Entry {
            phase,
            since: now,
            ranked: now,
            deadline,
            kept,
            waiting: VecDeque::new(),
            failures: 0,
            changed: None,
        };
        self.deadlines.extend(deadline.map(|deadline| (deadline, key)));
        if !kept {
            self.replaceable.insert(entry.place(key));
        }
        self.entries.insert(key, entry);
    }

    /// Takes the neighbour out, with the packets that wait for it.
    pub(super) fn remove(&mut self, key: &NeighborKey) -> VecDeque<P> {
        let Some(entry) = self.entries.remove(key) else { return VecDeque::new() };
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, *key));
        }
        self.replaceable.remove(&entry.place(*key));
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
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let Some(old) = entry.deadline {
            self.deadlines.remove(&(old, *key));
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, *key)));
        self.replaceable.remove(&entry.place(*key));
        if phase.rank() != entry.phase.rank() {
            entry.ranked = now;
        }
        // Another request does not make an unanswered neighbour younger.
        if phase.state() != entry.phase.state() {
            entry.since = now;
        }
        entry.phase = phase;
        entry.deadline = deadline;
        if !entry.kept {
            self.replaceable.insert(entry.place(*key));
        }
    }

    /// Keeps the neighbour, or no longer.
    pub(super) fn set_kept(&mut self, key: &NeighborKey, kept: bool) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.kept = kept;
        if kept {
            self.replaceable.remove(&entry.place(*key));
        } else {
            self.replaceable.insert(entry.place(*key));
        }
    }

    /// Lets a packet wait for the neighbour, of at most `limit`. Returns the packet for which there is no room: the
    /// one that has waited for the longest time.
    pub(super) fn wait(&mut self, key: &NeighborKey, packet: P, limit: usize) -> Option<P> {
        let Some(entry) = self.entries.get_mut(key) else { return Some(packet) };
        entry.waiting.push_back(packet);
        if entry.waiting.len() > limit {
            return entry.waiting.pop_front();
        }
        self.waiting += 1;
        None
    }

    /// How many packets wait for the neighbour.
    pub(super) fn waiting_for(&self, key: &NeighborKey) -> usize {
        self.entries.get(key).map_or(0, |entry| entry.waiting.len())
    }

    /// Takes the packets that wait for the neighbour.
    pub(super) fn take_waiting(&mut self, key: &NeighborKey) -> VecDeque<P> {
        let waiting =
            self.entries.get_mut(key).map(|entry| std::mem::take(&mut entry.waiting)).unwrap_or_default();
        self.waiting -= waiting.len();
        waiting
    }
}
