//! Conversations with a resolver, word for word: what happens when, and every action that follows.
//!
//! The resolver is station 1, 192.0.2.1/24 and 2001:db8::1/64, on the untagged frames of port 0.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::time::Duration;

use sluice_protocols::Timestamp;
use sluice_protocols::neighbor::{Interface, Link, NeighborState, NeighborView, Resolver, ResolverConfig};
use sluice_wire::{MacAddr, VlanId};
use support::{ArpFrame, DiscoveryFrame, OVERRIDE, SOLICITED, describe_action, key, station, tagged};

const LINK: Link = Link::untagged(0);
const LINK_LOCAL: &str = "fe80::ff:fe00:1";
const ASK: &str = "send 0 #1>all ARP request 192.0.2.1 at #1, 192.0.2.2 at -";
const PROBE: &str = "send 0 #1>#2 ARP request 192.0.2.1 at #1, 192.0.2.2 at -";

/// A resolver, its clock, and what it did that nobody looked at yet.
struct Talk {
    resolver: Resolver<u32>,
    now: Timestamp,
}

impl Talk {
    /// Port 0 is up and everything announced.
    fn new(config: ResolverConfig, keep: &[&str]) -> Self {
        let mut talk = Self { resolver: Resolver::new(config), now: Timestamp::from_secs(100) };
        talk.configure(1, &["192.0.2.1/24", "2001:db8::1/64"], keep);
        assert_eq!(talk.actions(), [""; 0]);
        talk.resolver.link_state(0, true, talk.now);
        talk
    }

    /// As [`Talk::new`] with the default configuration and no kept neighbours, two announcements ago.
    fn quiet() -> Self {
        Self::quiet_with(ResolverConfig::default())
    }

    fn quiet_with(config: ResolverConfig) -> Self {
        let mut talk = Self::new(config, &[]);
        talk.wait(3000);
        assert_eq!(talk.actions().len(), 6, "two announcements of three addresses");
        talk
    }

    fn configure(&mut self, mac: u8, addresses: &[&str], keep: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let interface = Interface { link: LINK, mac: station(mac), addresses };
        let keep = keep.iter().map(|address| key(LINK, address)).collect();
        self.resolver.configure(vec![interface], keep, self.now);
    }

    fn packet(&mut self, address: &str, packet: u32) {
        self.resolver.resolve(key(LINK, address), packet, self.now);
    }

    fn hear(&mut self, frame: &[u8]) {
        self.resolver.receive(LINK, frame, self.now);
    }

    /// Station 2 answers the question for 192.0.2.2.
    fn reply(&mut self) {
        self.hear(&ArpFrame::reply(station(2), "192.0.2.2", station(1), "192.0.2.1").octets());
    }

    /// Resolves 192.0.2.2.
    fn resolved() -> Self {
        let mut talk = Self::quiet();
        talk.packet("192.0.2.2", 0);
        talk.reply();
        assert_eq!(talk.actions(), [ASK, "resolved 192.0.2.2 at #2", "release 0"]);
        talk
    }

    /// Lets time pass, polling at every deadline.
    fn wait(&mut self, milliseconds: u64) {
        let end = self.now.after(Duration::from_millis(milliseconds));
        while let Some(deadline) = self.resolver.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.resolver.poll(self.now);
        }
        self.now = end;
    }

    fn actions(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.resolver.next_action()).map(|action| describe_action(&action)).collect()
    }

    fn view(&self, address: &str) -> Option<NeighborView> {
        let wanted = key(LINK, address);
        self.resolver.neighbors().find(|(key, _)| **key == wanted).map(|(_, view)| view)
    }

    fn state(&self, address: &str) -> Option<NeighborState> {
        self.view(address).map(|view| view.state)
    }
}

#[test]
fn own_addresses_are_announced_twice() {
    let mut talk = Talk::new(ResolverConfig::default(), &[]);
    let announcements = [
        "send 0 #1>all ARP request 192.0.2.1 at #1, 192.0.2.1 at -",
        "send 0 #1>33:33:00:00:00:01 NA 2001:db8::1>ff02::1 RO 2001:db8::1 at #1",
        "send 0 #1>33:33:00:00:00:01 NA fe80::ff:fe00:1>ff02::1 RO fe80::ff:fe00:1 at #1",
    ];
    assert_eq!(talk.actions(), announcements);
    talk.wait(1999);
    assert_eq!(talk.actions(), [""; 0]);
    talk.wait(1);
    assert_eq!(talk.actions(), announcements);
    talk.wait(100_000);
    assert_eq!(talk.actions(), [""; 0]);
    assert_eq!(talk.resolver.next_deadline(), None);
    talk.resolver.link_state(0, true, talk.now);
    assert_eq!(talk.actions(), [""; 0], "the port was up already");
}

#[test]
fn packets_wait_for_the_answer_in_their_order() {
    let mut talk = Talk::quiet();
    talk.packet("192.0.2.2", 1);
    assert_eq!(talk.actions(), [ASK]);
    talk.packet("192.0.2.2", 2);
    assert_eq!(talk.actions(), [""; 0], "one question for both");
    assert_eq!(talk.state("192.0.2.2"), Some(NeighborState::Incomplete));
    talk.reply();
    assert_eq!(talk.actions(), ["resolved 192.0.2.2 at #2", "release 1", "release 2"]);
    talk.packet("192.0.2.2", 3);
    assert_eq!(talk.actions(), ["release 3"]);
    assert_eq!(talk.state("192.0.2.2"), Some(NeighborState::Reachable));
    assert_eq!(talk.view("192.0.2.2").unwrap().mac, Some(station(2)));
}

#[test]
fn lost_requests_are_repeated() {
    let mut talk = Talk::quiet();
    talk.packet("192.0.2.2", 1);
    talk.wait(2999);
    assert_eq!(talk.actions(), [ASK; 3]);
    talk.reply();
    assert_eq!(talk.actions(), ["resolved 192.0.2.2 at #2", "release 1"]);
}

#[test]
fn who_does_not_answer_fails_and_is_forgotten() {
    let mut talk = Talk::quiet();
    talk.packet("192.0.2.2", 1);
    talk.wait(2999);
    assert_eq!(talk.actions(), [ASK; 3]);
    assert_eq!(talk.view("192.0.2.2").unwrap().age(talk.now), Duration::from_millis(2999));
    talk.wait(1);
    assert_eq!(talk.actions(), ["discard 1 Unreachable"]);
    assert_eq!(talk.state("192.0.2.2"), Some(NeighborState::Failed));
    talk.packet("192.0.2.2", 2);
    assert_eq!(talk.actions(), ["discard 2 Unreachable"], "not asked again so soon");
    talk.wait(1000);
    assert_eq!((talk.actions(), talk.state("192.0.2.2")), (vec![], None));
    talk.packet("192.0.2.2", 3);
    assert_eq!(talk.actions(), [ASK]);
}

#[test]
fn a_reachable_neighbor_is_probed_and_stays_usable() {
    let mut talk = Talk::resolved();
    let start = talk.now;
    while talk.actions().is_empty() {
        talk.wait(1000);
    }
    let seconds = talk.now.since(start).as_secs();
    assert!((15..=46).contains(&seconds), "{seconds} s");
    assert_eq!(talk.state("192.0.2.2"), Some(NeighborState::Probe));
    talk.packet("192.0.2.2", 7);
    talk.reply();
    assert_eq!(talk.actions(), ["release 7"]);
    assert_eq!(talk.state("192.0.2.2"), Some(NeighborState::Reachable));
}

#[test]
fn a_neighbor_that_answers_no_probe_is_lost() {
    let mut talk = Talk::resolved();
    talk.wait(60_000);
    assert_eq!(talk.actions(), [PROBE, PROBE, PROBE, "lost 192.0.2.2"]);
    assert_eq!(talk.state("192.0.2.2"), None);
    talk.packet("192.0.2.2", 1);
    assert_eq!(talk.actions(), [ASK], "everybody is asked: it may have another MAC address");
}

#[test]
fn kept_neighbors_are_resolved_without_traffic_and_tried_for_ever() {
    let mut talk = Talk::new(ResolverConfig::default(), &["192.0.2.2"]);
    talk.wait(3000);
    assert_eq!(talk.actions().iter().filter(|line| *line == ASK).count(), 3);
    let start = talk.now;
    let mut rests = Vec::new();
    while rests.len() < 8 {
        let before = talk.now;
        while talk.actions().is_empty() {
            talk.wait(1000);
        }
        rests.push(talk.now.since(before).as_secs());
        talk.wait(2000);
        assert_eq!(talk.actions(), [ASK; 2]);
        talk.wait(1000);
    }
    assert_eq!(rests, [1, 2, 4, 8, 16, 30, 30, 30]);
    assert_eq!(talk.now.since(start).as_secs(), 121 + 8 * 3);
    assert!(talk.view("192.0.2.2").unwrap().kept);

    talk.wait(30_000);
    talk.reply();
    assert_eq!(talk.actions(), [ASK, "resolved 192.0.2.2 at #2"]);
    talk.wait(50_000);
    let lines = talk.actions();
    assert_eq!(lines[..5], [PROBE, PROBE, PROBE, "lost 192.0.2.2", ASK]);
    assert!(lines.len() > 5 + 2, "the first rest is short again: {lines:?}");
}

#[test]
fn a_kept_next_hop_may_be_on_no_subnet() {
    let mut talk = Talk::new(ResolverConfig::default(), &["203.0.113.1"]);
    let ask = "send 0 #1>all ARP request 192.0.2.1 at #1, 203.0.113.1 at -";
    assert!(talk.actions().iter().any(|line| line == ask));
    talk.hear(&ArpFrame::reply(station(2), "203.0.113.1", station(1), "192.0.2.1").octets());
    assert_eq!(talk.actions(), ["resolved 203.0.113.1 at #2"]);
    talk.packet("203.0.113.2", 1);
    assert_eq!(talk.actions(), ["discard 1 Unreachable"]);
}

#[test]
fn ipv6_neighbors() {
    let mut talk = Talk::quiet();
    talk.packet("2001:db8::2", 1);
    talk.packet("fe80::2", 2);
    assert_eq!(
        talk.actions(),
        [
            "send 0 #1>33:33:ff:00:00:02 NS 2001:db8::1>ff02::1:ff00:2 2001:db8::2? from #1",
            "send 0 #1>33:33:ff:00:00:02 NS fe80::ff:fe00:1>ff02::1:ff00:2 fe80::2? from #1",
        ]
    );
    let flags = SOLICITED | OVERRIDE;
    let answer = |target, destination| {
        DiscoveryFrame::advertisement(station(2), target, station(1), destination, flags).octets()
    };
    talk.hear(&answer("2001:db8::2", "2001:db8::1"));
    talk.hear(&answer("fe80::2", LINK_LOCAL));
    assert_eq!(
        talk.actions(),
        ["resolved 2001:db8::2 at #2", "release 1", "resolved fe80::2 at #2", "release 2"]
    );
    talk.wait(47_000);
    let lines = talk.actions();
    let probe = "send 0 #1>#2 NS 2001:db8::1>2001:db8::2 2001:db8::2? from #1";
    assert!(lines.iter().any(|line| line == probe), "{lines:?}");
}

#[test]
fn an_answer_to_a_probe_may_leave_out_the_mac_address() {
    let mut talk = Talk::quiet();
    talk.packet("2001:db8::2", 1);
    let mut answer = DiscoveryFrame::advertisement(
        station(2),
        "2001:db8::2",
        station(1),
        "2001:db8::1",
        SOLICITED | OVERRIDE,
    );
    answer.option = None;
    talk.hear(&answer.octets());
    assert_eq!(talk.state("2001:db8::2"), Some(NeighborState::Incomplete), "nothing to use (RFC 4861 7.2.5)");
    answer.option = Some((2, station(2)));
    talk.hear(&answer.octets());
    while talk.state("2001:db8::2") != Some(NeighborState::Probe) {
        talk.wait(1000);
    }
    answer.option = None;
    talk.hear(&answer.octets());
    assert_eq!(talk.view("2001:db8::2").unwrap().mac, Some(station(2)));
    assert_eq!(talk.state("2001:db8::2"), Some(NeighborState::Reachable));
}

#[test]
fn requests_are_answered_and_their_senders_learned() {
    let mut talk = Talk::quiet();
    talk.hear(&ArpFrame::request(station(2), "192.0.2.2", "192.0.2.1").octets());
    assert_eq!(talk.actions(), ["send 0 #1>#2 ARP reply 192.0.2.1 at #1, 192.0.2.2 at #2"]);
    talk.hear(&DiscoveryFrame::solicitation(station(3), "2001:db8::3", "2001:db8::1").octets());
    assert_eq!(talk.actions(), ["send 0 #1>#3 NA 2001:db8::1>2001:db8::3 RSO 2001:db8::1 at #1"]);
    assert_eq!(talk.state("192.0.2.2"), Some(NeighborState::Stale));
    talk.wait(4999);
    assert_eq!(talk.actions(), [""; 0]);
    talk.wait(1);
    let probe = "send 0 #1>#3 NS 2001:db8::1>2001:db8::3 2001:db8::3? from #1";
    assert_eq!(talk.actions(), [PROBE, probe]);
    talk.reply();
    talk.wait(3000);
    assert_eq!(talk.actions(), [probe, probe], "nobody used it, so nobody is told that it is lost");
    assert_eq!(talk.state("2001:db8::3"), None);
    assert_eq!(talk.state("192.0.2.2"), Some(NeighborState::Reachable));
}

#[test]
fn a_packet_for_a_neighbor_that_was_learned_reports_it_and_starts_the_probe() {
    let mut talk = Talk::quiet();
    talk.hear(&ArpFrame::request(station(2), "192.0.2.2", "192.0.2.1").octets());
    talk.actions();
    assert!(!talk.view("192.0.2.2").unwrap().used);
    talk.packet("192.0.2.2", 1);
    assert_eq!(talk.actions(), ["resolved 192.0.2.2 at #2", PROBE, "release 1"]);
    assert!(talk.view("192.0.2.2").unwrap().used);
    talk.packet("192.0.2.2", 2);
    assert_eq!(talk.actions(), ["release 2"]);
    talk.wait(3000);
    assert_eq!(talk.actions(), [PROBE, PROBE, "lost 192.0.2.2"]);
}

#[test]
fn requests_for_others_teach_nothing() {
    let mut talk = Talk::quiet();
    talk.hear(&ArpFrame::request(station(2), "192.0.2.2", "192.0.2.3").octets());
    talk.hear(&DiscoveryFrame::solicitation(station(2), "2001:db8::2", "2001:db8::3").octets());
    assert_eq!((talk.actions(), talk.resolver.neighbor_count()), (vec![], 0));
}

#[test]
fn who_has_no_address_yet_is_answered_and_not_learned() {
    let mut talk = Talk::quiet();
    talk.hear(&ArpFrame::request(station(2), "0.0.0.0", "192.0.2.1").octets());
    let mut detection = DiscoveryFrame::solicitation(station(2), "::", "2001:db8::1");
    detection.option = None;
    talk.hear(&detection.octets());
    assert_eq!(
        talk.actions(),
        [
            "send 0 #1>#2 ARP reply 192.0.2.1 at #1, 0.0.0.0 at #2",
            "send 0 #1>33:33:00:00:00:01 NA 2001:db8::1>ff02::1 RO 2001:db8::1 at #1",
        ]
    );
    assert_eq!(talk.resolver.neighbor_count(), 0);
}

#[test]
fn announcements_change_neighbors_and_add_none() {
    let mut talk = Talk::resolved();
    for frame in [
        ArpFrame::request(station(9), "192.0.2.9", "192.0.2.9").octets(),
        ArpFrame::reply(station(9), "192.0.2.9", MacAddr::BROADCAST, "192.0.2.9").octets(),
        ArpFrame::reply(station(9), "192.0.2.9", station(1), "192.0.2.1").octets(),
        DiscoveryFrame::unsolicited(station(9), "2001:db8::9", OVERRIDE).octets(),
        DiscoveryFrame::advertisement(
            station(9),
            "2001:db8::9",
            station(1),
            "2001:db8::1",
            SOLICITED | OVERRIDE,
        )
        .octets(),
    ] {
        talk.hear(&frame);
    }
    assert_eq!((talk.actions(), talk.resolver.neighbor_count()), (vec![], 1));
    talk.hear(&ArpFrame::request(station(3), "192.0.2.2", "192.0.2.2").octets());
    assert_eq!(talk.actions(), ["resolved 192.0.2.2 at #3"]);
    assert_eq!(talk.state("192.0.2.2"), Some(NeighborState::Stale));
    talk.wait(5000);
    assert_eq!(talk.actions(), ["send 0 #1>#3 ARP request 192.0.2.1 at #1, 192.0.2.2 at -"]);
}

#[test]
fn a_mac_address_changes_at_most_once_a_second() {
    let mut talk = Talk::resolved();
    for round in 0..100 {
        for number in [3, 4] {
            talk.hear(&ArpFrame::request(station(number), "192.0.2.2", "192.0.2.2").octets());
        }
        talk.wait(100);
        assert!(talk.view("192.0.2.2").unwrap().mac.is_some(), "round {round}");
    }
    let lines = talk.actions();
    let changes = lines.iter().filter(|line| line.starts_with("resolved")).count();
    assert_eq!(changes, 10, "{lines:?}");
    assert!(lines.len() < 25, "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("send")), "it is probed all the same: {lines:?}");
    talk.wait(10_000);
    assert_eq!(talk.state("192.0.2.2"), None, "neither forger answers probes");
}

#[test]
fn an_advertisement_without_override_raises_doubt_only() {
    let mut talk = Talk::quiet();
    talk.packet("2001:db8::2", 1);
    let flags = SOLICITED | OVERRIDE;
    talk.hear(
        &DiscoveryFrame::advertisement(station(2), "2001:db8::2", station(1), "2001:db8::1", flags).octets(),
    );
    talk.actions();
    talk.hear(&DiscoveryFrame::unsolicited(station(3), "2001:db8::2", 0).octets());
    assert_eq!(talk.actions(), [""; 0]);
    assert_eq!(talk.state("2001:db8::2"), Some(NeighborState::Stale));
    assert_eq!(talk.view("2001:db8::2").unwrap().mac, Some(station(2)));
    talk.hear(&DiscoveryFrame::unsolicited(station(3), "2001:db8::2", OVERRIDE).octets());
    assert_eq!(talk.actions(), ["resolved 2001:db8::2 at #3"]);
}

#[test]
fn answers_that_nobody_asked_for_confirm_nothing() {
    let mut talk = Talk::resolved();
    talk.wait(10_000);
    let since = talk.view("192.0.2.2").unwrap().since;
    talk.reply();
    assert_eq!(talk.view("192.0.2.2").unwrap().since, since);
    assert_eq!(talk.view("192.0.2.2").unwrap().age(talk.now), Duration::from_secs(10));
    assert_eq!(talk.actions(), [""; 0]);
    talk.hear(&ArpFrame::reply(station(3), "192.0.2.2", station(1), "192.0.2.1").octets());
    assert_eq!(talk.actions(), ["resolved 192.0.2.2 at #3"]);
    assert_eq!(talk.state("192.0.2.2"), Some(NeighborState::Stale));
}

#[test]
fn another_station_with_an_own_address_is_a_conflict() {
    let mut talk = Talk::quiet();
    let claims = [
        ArpFrame::request(station(9), "192.0.2.1", "192.0.2.1").octets(),
        ArpFrame::request(station(9), "192.0.2.1", "192.0.2.7").octets(),
        ArpFrame::reply(station(9), "192.0.2.1", station(1), "192.0.2.1").octets(),
    ];
    for _ in 0..10 {
        claims.iter().for_each(|frame| talk.hear(frame));
        talk.wait(500);
    }
    let report = ["conflict 192.0.2.1 with #9", "send 0 #1>all ARP request 192.0.2.1 at #1, 192.0.2.1 at -"];
    assert_eq!(talk.actions(), report);
    assert_eq!(talk.resolver.statistics().conflicts, 30);
    talk.wait(5000);
    talk.hear(&claims[0]);
    assert_eq!(talk.actions(), report, "10 s later, once more");

    talk.hear(&DiscoveryFrame::unsolicited(station(9), "2001:db8::1", OVERRIDE).octets());
    talk.hear(&DiscoveryFrame::solicitation(station(9), LINK_LOCAL, "2001:db8::7").octets());
    assert_eq!(
        talk.actions(),
        [
            "conflict 2001:db8::1 with #9",
            "send 0 #1>33:33:00:00:00:01 NA 2001:db8::1>ff02::1 RO 2001:db8::1 at #1",
            "conflict fe80::ff:fe00:1 with #9",
            "send 0 #1>33:33:00:00:00:01 NA fe80::ff:fe00:1>ff02::1 RO fe80::ff:fe00:1 at #1",
        ]
    );
    assert_eq!(talk.resolver.neighbor_count(), 0);
}

/// Frames that must change nothing, each with what is wrong with it.
fn forgeries() -> Vec<(&'static str, Vec<u8>)> {
    let arp = ArpFrame::reply(station(3), "192.0.2.2", station(1), "192.0.2.1");
    let ask = ArpFrame::request(station(3), "192.0.2.3", "192.0.2.1");
    let flags = SOLICITED | OVERRIDE;
    let advertisement =
        DiscoveryFrame::advertisement(station(3), "2001:db8::2", station(1), "2001:db8::1", flags);
    let solicitation = DiscoveryFrame::solicitation(station(3), "2001:db8::3", "2001:db8::1");
    let multicast = MacAddr([3, 0, 0, 0, 0, 1]);
    let sent_by = |mac| ArpFrame { sender: (mac, arp.sender.1), ..arp }.octets();
    let asked_by = |text: &str| ArpFrame { sender: (station(3), text.parse().unwrap()), ..ask }.octets();
    let mut truncated = advertisement.octets();
    truncated.pop();
    // A whole packet with a fragment header of its own (RFC 6980 §5).
    let mut fragment = advertisement.octets();
    fragment.splice(54..54, [58, 0, 0, 0, 0, 0, 0, 1]);
    (fragment[19], fragment[20]) = (40, 44);
    // The length of 0 instead of 1 makes the right checksum greater by 1.
    let mut unfinished = DiscoveryFrame { damage: 1, ..advertisement }.octets();
    let len = unfinished.len();
    unfinished[len - 7] = 0;
    vec![
        ("sender is a group", sent_by(multicast)),
        ("sender is everybody", sent_by(MacAddr::BROADCAST)),
        ("sender is nobody", sent_by(MacAddr::ZERO)),
        ("sender is this station", sent_by(station(1))),
        ("frame from this station", ArpFrame { ethernet_source: station(1), ..arp }.octets()),
        ("frame from a group", ArpFrame { ethernet_source: multicast, ..arp }.octets()),
        ("frame to another station", ArpFrame { ethernet_destination: station(7), ..arp }.octets()),
        ("other operation", ArpFrame { operation: 3, ..arp }.octets()),
        ("reply from no address", ArpFrame { sender: (station(3), [0; 4].into()), ..arp }.octets()),
        ("asked from another subnet", asked_by("198.51.100.1")),
        ("asked from a multicast address", asked_by("224.0.0.1")),
        ("asked from the broadcast address", asked_by("192.0.2.255")),
        ("asked from the subnet's address", asked_by("192.0.2.0")),
        ("ARP cut short", arp.octets()[..41].to_vec()),
        ("tag of another VLAN", tagged(&arp.octets(), 7)),
        ("two tags", tagged(&tagged(&arp.octets(), 0), 0)),
        ("hop limit", DiscoveryFrame { hop_limit: 254, ..advertisement }.octets()),
        ("checksum", DiscoveryFrame { damage: 1, ..advertisement }.octets()),
        ("code", DiscoveryFrame { code: 1, ..advertisement }.octets()),
        (
            "target is a group",
            DiscoveryFrame { target: "ff02::2".parse().unwrap(), ..advertisement }.octets(),
        ),
        (
            "solicited, but to all",
            DiscoveryFrame { destination: "ff02::1".parse().unwrap(), ..advertisement }.octets(),
        ),
        (
            "to another address",
            DiscoveryFrame { destination: "2001:db8::7".parse().unwrap(), ..advertisement }.octets(),
        ),
        ("MAC address of a group", DiscoveryFrame { option: Some((2, multicast)), ..advertisement }.octets()),
        (
            "MAC address of this station",
            DiscoveryFrame { option: Some((2, station(1))), ..advertisement }.octets(),
        ),
        ("no octets left for an option", truncated),
        ("fragment", fragment),
        ("option of no length", unfinished),
        ("solicitation with hop limit", DiscoveryFrame { hop_limit: 64, ..solicitation }.octets()),
        (
            "solicitation from a group",
            DiscoveryFrame { source: "ff02::3".parse().unwrap(), ..solicitation }.octets(),
        ),
        (
            "solicitation from another subnet",
            DiscoveryFrame { source: "2001:db8:7::3".parse().unwrap(), ..solicitation }.octets(),
        ),
        (
            "detection with a MAC address",
            DiscoveryFrame { source: "::".parse().unwrap(), ..solicitation }.octets(),
        ),
        (
            "detection to one station",
            DiscoveryFrame {
                source: "::".parse().unwrap(),
                destination: "2001:db8::1".parse().unwrap(),
                option: None,
                ..solicitation
            }
            .octets(),
        ),
        ("router advertisement", DiscoveryFrame { kind: 134, ..advertisement }.octets()),
        ("redirect", DiscoveryFrame { kind: 137, ..advertisement }.octets()),
        ("another protocol", [&arp.octets()[..12], &[0x88, 0xcc, 0, 0]].concat()),
        ("no frame", vec![]),
    ]
}

#[test]
fn invalid_frames_change_nothing() {
    let mut talk = Talk::quiet();
    talk.packet("192.0.2.2", 1);
    talk.packet("2001:db8::2", 2);
    talk.actions();
    for (index, (fault, frame)) in forgeries().into_iter().enumerate() {
        talk.hear(&frame);
        assert_eq!(talk.actions(), [""; 0], "{fault}");
        assert_eq!(talk.resolver.neighbor_count(), 2, "{fault}");
        assert_eq!(talk.resolver.statistics().ignored, index as u64 + 1, "{fault}");
    }
    talk.reply();
    talk.hear(
        &DiscoveryFrame::advertisement(station(2), "2001:db8::2", station(1), "2001:db8::1", SOLICITED)
            .octets(),
    );
    assert_eq!(talk.actions().len(), 4, "the questions were still open");
}

#[test]
fn a_frame_may_have_the_tag_of_its_link() {
    let vlan = VlanId::new(20).unwrap();
    let link = Link::new(0, vlan);
    let now = Timestamp::from_secs(1);
    let mut resolver = Resolver::<u32>::new(ResolverConfig::default());
    let addresses = vec!["192.0.2.1/24".parse().unwrap()];
    resolver.configure(vec![Interface { link, mac: station(1), addresses }], vec![], now);
    resolver.link_state(0, true, now);
    let ask = ArpFrame::request(station(2), "192.0.2.2", "192.0.2.1").octets();
    for (frame, answers) in [(&ask, 1), (&tagged(&ask, 20), 2), (&tagged(&ask, 21), 2), (&tagged(&ask, 0), 2)]
    {
        resolver.receive(link, frame, now);
        assert_eq!(resolver.statistics().answers_sent, answers);
    }
    resolver.receive(Link::untagged(0), &ask, now);
    assert_eq!(resolver.statistics().answers_sent, 2, "no interface on that link");
    assert_eq!(Link::new(0, VlanId::UNTAGGED), LINK);
}
