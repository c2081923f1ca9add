//! The steps of the state machine: what a neighbour goes through, whatever brought it there.

use std::collections::BTreeSet;
use std::time::Duration;

use sluice_wire::MacAddr;

use super::presence::Owned;
use super::table::{Phase, User};
use super::{Action, DiscardReason, Link, NeighborKey, Resolver, message};
use crate::Timestamp;

/// Announcements of an own address (ANNOUNCE_NUM of RFC 5227 §1.1; RFC 4861 §7.2.6 allows three).
const ANNOUNCEMENTS: u32 = 2;

/// Time between two announcements (ANNOUNCE_INTERVAL of RFC 5227 §1.1).
const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_secs(2);

/// Questions for kept neighbours that are sent one right after the other: a fraction of a port's transmit queue.
const QUESTIONS_AT_ONCE: usize = 256;

/// The time between [`QUESTIONS_AT_ONCE`] questions and the next.
const QUESTION_PAUSE: Duration = Duration::from_millis(25);

impl<P> Resolver<P> {
    /// The link's port is up.
    pub(super) fn is_up(&self, link: Link) -> bool {
        self.ports_up.contains(&link.port)
    }

    /// `key` can be a neighbour; a kept one on no subnet of the link too.
    pub(super) fn is_possible(&self, key: &NeighborKey, kept: bool) -> bool {
        self.links.get(&key.link).is_some_and(|presence| {
            presence.is_on_link(key.address) || kept && presence.could_be_neighbor(key.address)
        })
    }

    /// Announces the own addresses on the port's links and asks for the neighbours there: kept ones, as a port that is
    /// down has no others.
    pub(super) fn port_up(&mut self, port: u16, now: Timestamp) {
        let links: Vec<_> = self.links.keys().copied().filter(|link| link.port == port).collect();
        for link in links {
            self.announce(link, now);
        }
        let kept: Vec<_> = self.table.on_port(port).map(|(key, _)| *key).collect();
        self.ask_in_turn(&kept, now);
    }

    /// Loses the neighbours on the port's links; kept ones wait for the port.
    pub(super) fn port_down(&mut self, port: u16, now: Timestamp) {
        self.announcing.retain(|link, _| link.port != port);
        let neighbors: Vec<_> =
            self.table.on_port(port).map(|(key, entry)| (*key, entry.is_kept())).collect();
        for (key, kept) in neighbors {
            if kept {
                self.lose(key);
                self.discard_waiting(key);
                self.table.set_phase(&key, Phase::Failed, None, now);
            } else {
                self.remove(key, DiscardReason::Unreachable);
            }
        }
    }

    /// Drops the neighbours that the configuration does not allow any more, and takes over which of the others are
    /// kept.
    pub(super) fn drop_impossible(&mut self, keep: &BTreeSet<NeighborKey>, now: Timestamp) {
        // A MAC address that is an own one now was a station's before.
        let is_own = |mac| self.own_macs.contains(&mac);
        let known: Vec<_> = self
            .table
            .iter()
            .map(|(key, entry)| (*key, entry.is_kept(), entry.phase().mac().is_some_and(is_own)))
            .collect();
        for (key, was_kept, is_own) in known {
            let kept = keep.contains(&key);
            if is_own || !self.is_possible(&key, kept) || !kept && !self.is_up(key.link) {
                self.remove(key, DiscardReason::Unreachable);
            } else if kept != was_kept {
                self.table.set_kept(&key, kept);
                self.use_neighbor(key, now);
            }
        }
    }

    /// Resolves neighbours ahead of traffic, unless they are known already.
    pub(super) fn keep(&mut self, keys: impl IntoIterator<Item = NeighborKey>, now: Timestamp) {
        let mut added = Vec::new();
        for key in keys {
            if self.table.get(&key).is_none() && self.is_possible(&key, true) {
                // Where nobody gives way, this one comes on top.
                self.make_room(true);
                self.table.insert(key, User::Configuration, Phase::Failed, None, now);
                added.push(key);
            }
        }
        added.retain(|key| self.is_up(key.link));
        self.ask_in_turn(&added, now);
    }

    /// Asks for neighbours as if they had never failed, not faster than a port's queue takes the questions.
    pub(super) fn ask_in_turn(&mut self, keys: &[NeighborKey], now: Timestamp) {
        let mut turn = now;
        for keys in keys.chunks(QUESTIONS_AT_ONCE) {
            for key in keys {
                if turn == now {
                    self.ask_anew(*key, now);
                } else {
                    self.reset_failures(key);
                    self.table.set_phase(key, Phase::Failed, Some(turn), now);
                }
            }
            turn = turn.after(QUESTION_PAUSE);
        }
    }

    /// Makes room for a neighbour; false if all places are those of neighbours that do not give way.
    pub(super) fn make_room(&mut self, for_kept: bool) -> bool {
        while self.table.len() >= self.config.neighbors {
            let Some(key) = self.table.first_replaceable(for_kept) else { return false };
            self.remove(key, DiscardReason::TableFull);
            self.statistics.evicted += 1;
        }
        true
    }

    /// The deadline of the neighbour has come.
    pub(super) fn expire(&mut self, key: NeighborKey, now: Timestamp) {
        let Some(entry) = self.table.get(&key) else { return };
        let (phase, kept) = (entry.phase(), entry.is_kept());
        match phase {
            Phase::Incomplete { requests } if requests < self.config.attempts => self.ask(key, requests, now),
            Phase::Incomplete { .. } => self.fail(key, now),
            Phase::Reachable { mac } if !self.config.probe => {
                self.table.set_phase(&key, Phase::Stale { mac }, None, now);
            }
            Phase::Reachable { mac } | Phase::Stale { mac } => self.probe(key, mac, 0, now),
            Phase::Probe { mac, requests } if requests < self.config.attempts => {
                self.probe(key, mac, requests, now);
            }
            // Its answers may have been among the frames that were shed.
            Phase::Probe { mac, .. } if kept && self.sheds(now) => self.probe(key, mac, 0, now),
            Phase::Probe { .. } if kept => {
                // Its MAC address may be another one now (RFC 4861 §7.3.3).
                self.lose(key);
                self.ask_anew(key, now);
            }
            Phase::Failed if kept => self.ask(key, 0, now),
            Phase::Probe { .. } | Phase::Failed => self.remove(key, DiscardReason::Unreachable),
        }
    }

    /// Asks everybody on the link for the neighbour, which `requests` requests did already.
    pub(super) fn ask(&mut self, key: NeighborKey, requests: u32, now: Timestamp) {
        let deadline = now.after(self.config.retransmit);
        self.table.set_phase(&key, Phase::Incomplete { requests: requests + 1 }, Some(deadline), now);
        self.send_question(key, None);
    }

    /// Asks for the neighbour as if it had never failed.
    pub(super) fn ask_anew(&mut self, key: NeighborKey, now: Timestamp) {
        self.reset_failures(&key);
        self.ask(key, 0, now);
    }

    /// Asks the neighbour at `mac` whether it is still there (RFC 1122 §2.3.2.2, RFC 4861 §7.3.3), which `requests`
    /// requests did already.
    pub(super) fn probe(&mut self, key: NeighborKey, mac: MacAddr, requests: u32, now: Timestamp) {
        if self.config.probe {
            let deadline = now.after(self.config.retransmit);
            self.table.set_phase(&key, Phase::Probe { mac, requests: requests + 1 }, Some(deadline), now);
            self.send_question(key, Some(mac));
        }
    }

    /// The neighbour has the MAC address `mac`: it answered.
    pub(super) fn reached(&mut self, key: NeighborKey, mac: MacAddr, now: Timestamp) {
        let deadline = now.after(self.reachable_time());
        self.table.set_phase(&key, Phase::Reachable { mac }, Some(deadline), now);
    }

    /// The neighbour's MAC address is `mac`, but nothing confirms that. It is probed when the delay is over, or earlier
    /// if a usable neighbour was due earlier: one that changes all the time is probed all the same.
    pub(super) fn doubt(&mut self, key: NeighborKey, mac: MacAddr, now: Timestamp) {
        let usable = self.table.get(&key).filter(|entry| entry.phase().mac().is_some());
        let delayed = now.after(self.config.probe_delay);
        let due = usable.and_then(|entry| entry.deadline()).map_or(delayed, |due| due.min(delayed));
        self.table.set_phase(&key, Phase::Stale { mac }, self.config.probe.then_some(due), now);
    }

    /// Frames that may be answers were shed during the last tries of a neighbour that is to be lost at `now`.
    fn sheds(&self, now: Timestamp) -> bool {
        let tries = self.config.retransmit.saturating_mul(self.config.attempts);
        self.shed.is_some_and(|shed| now.since(shed) <= tries)
    }

    /// Somebody on this node uses the neighbour from now on: says so if it is usable.
    pub(super) fn use_neighbor(&mut self, key: NeighborKey, now: Timestamp) {
        if let Some(mac) = self.table.set_used(&key, now) {
            self.actions.push_back(Action::Resolved { key, mac });
        }
    }

    /// The neighbour became usable, or has another MAC address: says so if anybody uses it, and lets go what waits for
    /// it.
    pub(super) fn report_resolved(&mut self, key: NeighborKey, mac: MacAddr) {
        if self.table.get(&key).is_none_or(|entry| !entry.is_used()) {
            return;
        }
        self.actions.push_back(Action::Resolved { key, mac });
        let packets = self.table.take_waiting(&key);
        self.actions.extend(packets.into_iter().map(|packet| Action::Release { key, packet }));
    }

    /// A neighbour at `mac` that asked us gets a place if one of those for unused neighbours is free.
    pub(super) fn learn(&mut self, key: NeighborKey, mac: MacAddr, now: Timestamp) {
        if self.table.unused() < self.config.unused && self.table.len() < self.config.neighbors {
            let due = self.config.probe.then(|| now.after(self.config.probe_delay));
            self.table.insert(key, User::Nobody, Phase::Stale { mac }, due, now);
        }
    }

    /// Says that the neighbour is lost, if it was usable and used. The caller changes its state.
    pub(super) fn lose(&mut self, key: NeighborKey) {
        if self.table.get(&key).is_some_and(|entry| entry.is_used() && entry.phase().mac().is_some()) {
            self.actions.push_back(Action::Lost { key });
        }
    }

    /// Takes the neighbour out of the table and discards what waits for it.
    pub(super) fn remove(&mut self, key: NeighborKey, reason: DiscardReason) {
        self.lose(key);
        let packets = self.table.remove(&key);
        self.actions.extend(packets.into_iter().map(|packet| Action::Discard { packet, reason }));
    }

    /// Lets the packet wait for the neighbour.
    pub(super) fn wait(&mut self, key: NeighborKey, packet: P) {
        let limit = self.config.waiting;
        let replaces = self.table.waiting_for(&key) >= limit;
        let too_many = if replaces || self.table.waiting() < self.config.waiting_in_all {
            self.table.wait(&key, packet, limit)
        } else {
            Some(packet)
        };
        if let Some(packet) = too_many {
            self.discard(packet, DiscardReason::QueueFull);
        }
    }

    /// Discards what waits for a neighbour that does not answer.
    pub(super) fn discard_waiting(&mut self, key: NeighborKey) {
        for packet in self.table.take_waiting(&key) {
            self.discard(packet, DiscardReason::Unreachable);
        }
    }

    pub(super) fn discard(&mut self, packet: P, reason: DiscardReason) {
        self.actions.push_back(Action::Discard { packet, reason });
    }

    /// Queues a frame; false if it could not be made.
    pub(super) fn send(&mut self, link: Link, frame: Option<Vec<u8>>) -> bool {
        debug_assert!(frame.is_some(), "every frame of these protocols can be built");
        let made = frame.is_some();
        self.actions.extend(frame.map(|frame| Action::Send { link, frame }));
        made
    }

    /// Announces the own addresses on a link that is up, now and once more later.
    pub(super) fn announce(&mut self, link: Link, now: Timestamp) {
        if self.is_up(link) {
            self.announce_once(link, ANNOUNCEMENTS, now);
        }
    }

    /// Announces the own addresses on a link; `left` announcements are left, this one included.
    pub(super) fn announce_once(&mut self, link: Link, left: u32, now: Timestamp) {
        let owned = self.links.get(&link).map(|presence| presence.owned().to_vec()).unwrap_or_default();
        for owned in owned {
            self.announce_address(link, owned);
        }
        match left {
            0 | 1 => self.announcing.remove(&link),
            _ => self.announcing.insert(link, (left - 1, now.after(ANNOUNCEMENT_INTERVAL))),
        };
    }

    /// Announces one own address.
    pub(super) fn announce_address(&mut self, link: Link, owned: Owned) {
        if self.send(link, message::announcement(owned.mac, owned.address())) {
            self.statistics.announcements_sent += 1;
        }
    }

    fn reset_failures(&mut self, key: &NeighborKey) {
        if let Some(entry) = self.table.get_mut(key) {
            entry.failures = 0;
        }
    }

    /// Nobody answers for the neighbour: it rests before it is asked for again.
    fn fail(&mut self, key: NeighborKey, now: Timestamp) {
        self.discard_waiting(key);
        let Some(entry) = self.table.get_mut(&key) else { return };
        entry.failures = entry.failures.saturating_add(1);
        let rest = if entry.is_kept() { self.config.retry_after(entry.failures) } else { self.config.retry };
        self.table.set_phase(&key, Phase::Failed, Some(now.after(rest)), now);
    }

    fn send_question(&mut self, key: NeighborKey, known: Option<MacAddr>) {
        let source = self.links.get(&key.link).and_then(|presence| presence.source_for(key.address));
        let frame = source.and_then(|own| message::question(own.mac, own.address(), key.address, known));
        if self.send(key.link, frame) {
            self.statistics.requests_sent += 1;
        }
    }

    /// How long an answer counts: between half and one and a half of the configured time, evenly (RFC 4861 §6.3.2).
    fn reachable_time(&mut self) -> Duration {
        let base = self.config.reachable;
        let fraction = (self.random.next() >> 48) as u32;
        (base / 2).saturating_add(base.saturating_mul(fraction) / (1 << 16))
    }
}
