//! What received frames do to the neighbours (RFC 826, RFC 5227, RFC 4861 §7.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_wire::MacAddr;
use sluice_wire::arp::Arp;
use sluice_wire::neighbor::NeighborAdvertisement;

use super::message::{self, Message, Received};
use super::table::Phase;
use super::{Action, Link, NeighborKey, Resolver};
use crate::Timestamp;

/// Something about a neighbour that was heard.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// Its MAC address, where the message says it.
    mac: Option<MacAddr>,
    /// The message answers a question.
    answer: bool,
    /// A MAC address that is known already shall be replaced.
    overrides: bool,
}

impl<P> Resolver<P> {
    /// A frame came in on `link`: the whole Ethernet frame, its VLAN tag removed or not; a tag that is there must be the
    /// link's. Frames other than ARP and neighbour discovery are ignored, as are those of ports that are down.
    ///
    /// Requests for own addresses are answered, and who asks is learned (RFC 826, RFC 4861 §7.2.3). Answers and
    /// announcements change neighbours that are known or asked for and never add any.
    pub fn receive(&mut self, link: Link, frame: &[u8], now: Timestamp) {
        let received = message::read(link.vlan, frame).filter(|received| self.is_for_us(link, received));
        let valid = received.is_some_and(|received| match received.message {
            Message::Request(arp) => self.on_arp(link, &arp, false, now),
            Message::Reply(arp) => self.on_arp(link, &arp, true, now),
            Message::Solicitation { source, destination, mac, target } => {
                self.listens_to(link, destination)
                    && self.on_solicitation(link, source, mac, received.source, target, now)
            }
            Message::Advertisement { destination, mac, fields } => {
                self.listens_to(link, destination)
                    && self.on_advertisement(link, mac, received.source, fields, now)
            }
        });
        if !valid {
            self.statistics.ignored += 1;
        }
    }

    /// The frame was sent by another station, to us or to a group.
    fn is_for_us(&self, link: Link, received: &Received) -> bool {
        let Received { source, destination, .. } = *received;
        let to_us = |mac| self.links.get(&link).is_some_and(|presence| presence.has_mac(mac));
        self.is_up(link) && self.is_foreign(source) && (destination.is_multicast() || to_us(destination))
    }

    /// `mac` can be that of another station.
    fn is_foreign(&self, mac: MacAddr) -> bool {
        mac.is_unicast() && !self.own_macs.contains(&mac)
    }

    /// IPv6 packets to `destination` are for us.
    fn listens_to(&self, link: Link, destination: Ipv6Addr) -> bool {
        destination.is_multicast() || self.own_mac(link, destination.into()).is_some()
    }

    /// The MAC address of an own address.
    fn own_mac(&self, link: Link, address: IpAddr) -> Option<MacAddr> {
        self.links.get(&link)?.owner(address)
    }

    /// Whether the packet is valid: its sender is another station and a neighbour.
    fn on_arp(&mut self, link: Link, arp: &Arp, reply: bool, now: Timestamp) -> bool {
        if !self.is_foreign(arp.sender_mac) {
            return false;
        }
        let asked = self.own_mac(link, arp.target_address.into());
        if arp.sender_address == Ipv4Addr::UNSPECIFIED {
            // A probe (RFC 5227 §2.1.1): its sender has no address to be learned.
            let probed = asked.filter(|_| !reply);
            probed.inspect(|own| {
                self.answer(link, message::reply(*own, arp), now);
            });
            return probed.is_some();
        }
        let Some(key) = self.sender(link, arp.sender_address.into(), arp.sender_mac, now) else {
            return false;
        };
        let request_to_us = asked.filter(|_| !reply);
        let answered = request_to_us.is_some_and(|own| self.answer(link, message::reply(own, arp), now));
        let claim = Claim { mac: Some(arp.sender_mac), answer: reply && asked.is_some(), overrides: true };
        if !self.hear(key, claim, now) && answered {
            self.learn(key, arp.sender_mac, now);
        }
        true
    }

    /// Whether the message is valid: its sender is another station and a neighbour. `station` sent the frame.
    fn on_solicitation(
        &mut self,
        link: Link,
        source: Ipv6Addr,
        mac: Option<MacAddr>,
        station: MacAddr,
        target: Ipv6Addr,
        now: Timestamp,
    ) -> bool {
        if mac.is_some_and(|mac| !self.is_foreign(mac)) {
            return false;
        }
        let asked = self.own_mac(link, target.into());
        if source.is_unspecified() {
            if let Some(own) = asked {
                self.answer(link, message::advertisement(own, target, None), now);
            }
            return true;
        }
        let Some(key) = self.sender(link, source.into(), mac.unwrap_or(station), now) else { return false };
        let Some(own) = asked else { return true };
        let asker = (source, mac.unwrap_or(station));
        let answered = self.answer(link, message::advertisement(own, target, Some(asker)), now);
        let Some(mac) = mac else { return true };
        if !self.hear(key, Claim { mac: Some(mac), answer: false, overrides: true }, now) && answered {
            self.learn(key, mac, now);
        }
        true
    }

    /// Whether the message is valid: its target is another station and a neighbour. `station` sent the frame.
    fn on_advertisement(
        &mut self,
        link: Link,
        mac: Option<MacAddr>,
        station: MacAddr,
        fields: NeighborAdvertisement,
        now: Timestamp,
    ) -> bool {
        if mac.is_some_and(|mac| !self.is_foreign(mac)) {
            return false;
        }
        let Some(key) = self.sender(link, fields.target.into(), mac.unwrap_or(station), now) else {
            return false;
        };
        self.hear(key, Claim { mac, answer: fields.solicited, overrides: fields.override_cache }, now);
        true
    }

    /// The neighbour that claims `address` and `mac`. `None` if it can be none; a claim to an own address is a conflict.
    fn sender(&mut self, link: Link, address: IpAddr, mac: MacAddr, now: Timestamp) -> Option<NeighborKey> {
        let key = NeighborKey { link, address };
        if self.own_mac(link, address).is_some() {
            self.statistics.conflicts += 1;
            if let Some(own) = self.links.get_mut(&link).and_then(|presence| presence.defend(address, now)) {
                self.actions.push_back(Action::Conflict { key, mac });
                self.announce_address(link, own);
            }
            return None;
        }
        let kept = self.table.get(&key).is_some_and(|entry| entry.is_kept());
        self.is_possible(&key, kept).then_some(key)
    }

    /// Sends the answer to a request, unless there were too many lately.
    fn answer(&mut self, link: Link, frame: Option<Vec<u8>>, now: Timestamp) -> bool {
        let limit = self.config.answers_per_second;
        if !self.links.get_mut(&link).is_some_and(|presence| presence.answers.pass(limit, now)) {
            self.statistics.answers_withheld += 1;
            return false;
        }
        self.statistics.answers_sent += 1;
        self.send(link, frame)
    }

    /// Takes in a claim about a neighbour (RFC 4861 §7.2.5, and for ARP accordingly). False if there is no such
    /// neighbour.
    fn hear(&mut self, key: NeighborKey, claim: Claim, now: Timestamp) -> bool {
        let Some(entry) = self.table.get(&key) else { return false };
        let open_question = matches!(entry.phase(), Phase::Incomplete { .. } | Phase::Probe { .. });
        let answer = claim.answer && open_question;
        match (entry.phase().mac(), claim.mac) {
            (None, None) => {}
            (None, Some(mac)) => {
                self.settle(key, mac, answer, now);
                self.report_resolved(key, mac);
            }
            (Some(known), Some(mac)) if mac != known => self.hear_change(key, known, mac, claim, now),
            (Some(known), _) if answer => self.reached(key, known, now),
            (Some(_), _) => {}
        }
        true
    }

    /// A usable neighbour is said to have another MAC address than the one that is known.
    fn hear_change(&mut self, key: NeighborKey, known: MacAddr, mac: MacAddr, claim: Claim, now: Timestamp) {
        let interval = self.config.change_interval;
        let Some(entry) = self.table.get_mut(&key) else { return };
        let too_soon = entry.changed.is_some_and(|last| now.since(last) < interval);
        if claim.overrides && !too_soon {
            entry.changed = Some(now);
            let answer = claim.answer && matches!(entry.phase(), Phase::Probe { .. });
            self.settle(key, mac, answer, now);
            self.report_resolved(key, mac);
        } else if matches!(entry.phase(), Phase::Reachable { .. }) {
            self.doubt(key, known, now);
        }
    }

    fn settle(&mut self, key: NeighborKey, mac: MacAddr, answer: bool, now: Timestamp) {
        if answer {
            self.reached(key, mac, now);
        } else {
            self.doubt(key, mac, now);
        }
    }
}
