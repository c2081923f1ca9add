//! The resolver as its caller sees it: what configuration, packets, link states and time do to the neighbours.
//!
//! What received frames do is in [`super::receive`]; the steps that all of them take are in [`super::transition`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sluice_wire::MacAddr;

use super::presence::Presence;
use super::table::{Phase, Table, User};
use super::{
    Action, DiscardReason, Interface, Link, NeighborKey, NeighborView, ResolverConfig, ResolverStatistics,
};
use crate::Timestamp;
use crate::random::Random;

/// Resolves the addresses of neighbours for packets of type `P`.
///
/// Every call may leave actions, which the caller takes with [`Resolver::next_action`] before the next call; they are
/// bounded by what the call did: a few for a frame or a packet, a few per neighbour for the others. `now` never goes
/// back.
///
/// ```
/// use sluice_protocols::Timestamp;
/// use sluice_protocols::neighbor::{Action, Interface, Link, NeighborKey, Resolver, ResolverConfig};
/// use sluice_wire::MacAddr;
///
/// let link = Link::untagged(0);
/// let mac = MacAddr([0x02, 0, 0, 0, 0, 1]);
/// let mut resolver = Resolver::new(ResolverConfig::default());
/// resolver.link_state(0, true, Timestamp::from_secs(0));
/// let addresses = vec!["192.0.2.1/24".parse()?];
/// resolver.configure(vec![Interface { link, mac, addresses }], vec![], Timestamp::from_secs(0));
/// resolver.resolve(NeighborKey { link, address: "192.0.2.2".parse()? }, "a packet", Timestamp::from_secs(1));
/// let mut frames = 0;
/// while let Some(action) = resolver.next_action() {
///     if let Action::Send { .. } = action {
///         frames += 1;
///     }
/// }
/// assert_eq!(frames, 3, "announcements of two addresses, and the request for 192.0.2.2");
/// assert_eq!(resolver.next_deadline(), Some(Timestamp::from_secs(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Resolver<P> {
    pub(super) config: ResolverConfig,
    pub(super) links: BTreeMap<Link, Presence>,
    /// MAC addresses of the node's interfaces on all links: what comes from them was sent by this node.
    pub(super) own_macs: BTreeSet<MacAddr>,
    pub(super) table: Table<P>,
    pub(super) statistics: ResolverStatistics,
    pub(super) actions: VecDeque<Action<P>>,
    pub(super) ports_up: BTreeSet<u16>,
    /// Links on which own addresses are announced again: how many times, and when next.
    pub(super) announcing: BTreeMap<Link, (u32, Timestamp)>,
    /// When frames that may be answers were last shed.
    pub(super) shed: Option<Timestamp>,
    pub(super) random: Random,
}

impl<P> Resolver<P> {
    /// A resolver without interfaces, all of whose ports are down.
    pub fn new(config: ResolverConfig) -> Self {
        Self {
            random: Random::new(config.seed),
            config: config.raised(),
            links: BTreeMap::new(),
            own_macs: BTreeSet::new(),
            table: Table::new(),
            statistics: ResolverStatistics::default(),
            actions: VecDeque::new(),
            ports_up: BTreeSet::new(),
            announcing: BTreeMap::new(),
            shed: None,
        }
    }

    /// Replaces interfaces and kept neighbours.
    ///
    /// `keep` are the neighbours that are resolved ahead of traffic and tried for ever: TEPs of other nodes, next hops of
    /// static routes. They need not be on a subnet of the link. Those that the interfaces do not allow, on a link without
    /// interface or own address of their family, are left out.
    ///
    /// Neighbours that are still possible stay as they are; the others are lost, and those with a MAC address that is the node's own now. New addresses, and those whose MAC
    /// address is another one, are announced.
    pub fn configure(&mut self, interfaces: Vec<Interface>, keep: Vec<NeighborKey>, now: Timestamp) {
        let mut links = Presence::on_links(interfaces);
        let mut news = Vec::new();
        for (link, presence) in &mut links {
            if self.links.get(link).is_none_or(|old| presence.inherit(old)) {
                news.push(*link);
            }
        }
        self.links = links;
        self.own_macs = self.links.values().flat_map(Presence::owned).map(|owned| owned.mac).collect();
        self.announcing.retain(|link, _| self.links.contains_key(link));
        let keep = keep.into_iter().collect();
        self.drop_impossible(&keep, now);
        self.keep(keep, now);
        for link in news {
            self.announce(link, now);
        }
    }

    /// A packet needs the neighbour `key`: it is released at once if the neighbour is usable, and otherwise waits for it
    /// or is discarded.
    ///
    /// A packet that is released although the caller does not find the neighbour usable must not come back here without
    /// end: the caller's keys differ from those of the resolver.
    pub fn resolve(&mut self, key: NeighborKey, packet: P, now: Timestamp) {
        let entry = self.table.get(&key);
        // A kept neighbour whose turn has not come yet.
        let not_asked_yet = entry.is_some_and(|entry| entry.failures == 0) && self.is_up(key.link);
        match entry.map(|entry| entry.phase()) {
            Some(Phase::Failed) if not_asked_yet => {
                self.ask(key, 0, now);
                self.wait(key, packet);
            }
            Some(Phase::Failed) => self.discard(packet, DiscardReason::Unreachable),
            Some(Phase::Incomplete { .. }) => self.wait(key, packet),
            Some(phase) => {
                self.use_neighbor(key, now);
                if let Phase::Stale { mac } = phase {
                    self.probe(key, mac, 0, now);
                }
                self.actions.push_back(Action::Release { key, packet });
            }
            None if !self.is_up(key.link) || !self.is_possible(&key, false) => {
                self.discard(packet, DiscardReason::Unreachable);
            }
            None if !self.make_room(false) => self.discard(packet, DiscardReason::TableFull),
            None => {
                self.table.insert(key, User::Packet, Phase::Failed, None, now);
                self.ask(key, 0, now);
                self.wait(key, packet);
            }
        }
    }

    /// The link of `port` came up or went down. Ports are down until this says otherwise.
    ///
    /// Down: the port's neighbours are lost at once. Up: own addresses are announced and kept neighbours resolved, at
    /// most 256 of them at once and 10,000 a second.
    pub fn link_state(&mut self, port: u16, up: bool, now: Timestamp) {
        if up {
            if self.ports_up.insert(port) {
                self.port_up(port, now);
            }
        } else if self.ports_up.remove(&port) {
            self.port_down(port, now);
        }
    }

    /// Announces the own addresses on every link of `port`, which is up, again: what carries it changed, and the stations and switches
    /// around are to learn the way.
    pub fn announce_port(&mut self, port: u16, now: Timestamp) {
        let links: Vec<Link> = self.links.keys().filter(|link| link.port == port).copied().collect();
        links.into_iter().for_each(|link| self.announce(link, now));
    }

    /// Frames that may have been answers to questions of this resolver were received and dropped before
    /// [`Resolver::receive`] saw them, until `now`.
    ///
    /// A kept neighbour that is usable is not lost for probes without answer in that time: it is probed again until three
    /// probes in a row ([`ResolverConfig::attempts`]) stay without answer while nothing is shed.
    pub fn frames_shed(&mut self, now: Timestamp) {
        self.shed = Some(now);
    }

    /// Forgets a neighbour that no traffic uses, or that an operator clears. A kept one is resolved again.
    pub fn forget(&mut self, key: NeighborKey, now: Timestamp) {
        let kept = self.table.get(&key).is_some_and(|entry| entry.is_kept());
        self.remove(key, DiscardReason::Unreachable);
        if kept {
            self.keep([key], now);
        }
    }

    /// Does what is due at `now`. Afterwards every deadline is later than `now`.
    pub fn poll(&mut self, now: Timestamp) {
        let due: Vec<_> = self.table.due(now).collect();
        for key in due {
            self.expire(key, now);
        }
        let due = |(_, (_, at)): &(&Link, &(u32, Timestamp))| *at <= now;
        let due: Vec<_> =
            self.announcing.iter().filter(due).map(|(link, (left, _))| (*link, *left)).collect();
        for (link, left) in due {
            self.announce_once(link, left, now);
        }
    }

    /// When [`Resolver::poll`] is to be called next; `None` while there is nothing to wait for.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.announcing.values().map(|(_, at)| *at).chain(self.table.next_deadline()).min()
    }

    /// Takes the next thing to do.
    pub fn next_action(&mut self) -> Option<Action<P>> {
        self.actions.pop_front()
    }

    /// The neighbours in the order of their links and addresses.
    pub fn neighbors(&self) -> impl Iterator<Item = (&NeighborKey, NeighborView)> {
        self.table.iter().map(|(key, entry)| (key, entry.view()))
    }

    /// How many neighbours there are, usable or not; see [`ResolverConfig::neighbors`].
    pub fn neighbor_count(&self) -> usize {
        self.table.len()
    }

    /// How many packets wait; see [`ResolverConfig::waiting_in_all`].
    pub fn waiting_count(&self) -> usize {
        self.table.waiting()
    }

    /// What was done so far.
    pub fn statistics(&self) -> ResolverStatistics {
        self.statistics
    }
}
