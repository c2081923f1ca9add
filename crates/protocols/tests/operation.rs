//! Configuration, link states, limits: what an operator does to a resolver, and an attacker.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::time::Duration;

use sluice_protocols::Timestamp;
use sluice_protocols::neighbor::{Interface, Link, NeighborKey, NeighborState, Resolver, ResolverConfig};
use sluice_wire::MacAddr;
use support::{ArpFrame, DiscoveryFrame, SOLICITED, describe_action, key, station};

const LINK: Link = Link::untagged(0);
const OTHER: Link = Link::untagged(1);
const NOW: Timestamp = Timestamp::from_secs(100);

fn interface(link: Link, mac: u8, addresses: &[&str]) -> Interface {
    Interface {
        link,
        mac: station(mac),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
    }
}

fn actions(resolver: &mut Resolver<u32>) -> Vec<String> {
    std::iter::from_fn(|| resolver.next_action()).map(|action| describe_action(&action)).collect()
}

/// The addresses of 10.0.0.1/16, that of the resolver left out.
fn neighbor(number: u16) -> NeighborKey {
    let [high, low] = (number + 2).to_be_bytes();
    NeighborKey { link: LINK, address: [10, 0, high, low].into() }
}

/// A resolver at 10.0.0.1/16 on port 0 and 10.1.0.1/16 on port 1, both up.
fn resolver(config: ResolverConfig, keep: Vec<NeighborKey>) -> Resolver<u32> {
    let mut resolver = Resolver::new(config);
    resolver.configure(interfaces(), keep, NOW);
    for port in [0, 1] {
        resolver.link_state(port, true, NOW);
    }
    actions(&mut resolver);
    resolver
}

fn interfaces() -> Vec<Interface> {
    vec![interface(LINK, 1, &["10.0.0.1/16"]), interface(OTHER, 2, &["10.1.0.1/16"])]
}

/// The neighbour answers.
fn answer(resolver: &mut Resolver<u32>, key: NeighborKey, number: u8, now: Timestamp) {
    let (own, mac) = if key.link == LINK { ("10.0.0.1", 1) } else { ("10.1.0.1", 2) };
    let frame = ArpFrame::reply(station(number), &key.address.to_string(), station(mac), own);
    resolver.receive(key.link, &frame.octets(), now);
}

fn state(resolver: &Resolver<u32>, wanted: NeighborKey) -> Option<NeighborState> {
    resolver.neighbors().find(|(key, _)| **key == wanted).map(|(_, view)| view.state)
}

#[test]
fn a_link_that_goes_down_takes_its_neighbors_along() {
    let (kept, passing, open, elsewhere) = (neighbor(1), neighbor(2), neighbor(3), key(OTHER, "10.1.0.9"));
    let mut resolver = resolver(ResolverConfig::default(), vec![kept]);
    for (key, number) in [(kept, 11), (passing, 12), (elsewhere, 13)] {
        resolver.resolve(key, 0, NOW);
        answer(&mut resolver, key, number, NOW);
    }
    resolver.resolve(open, 1, NOW);
    actions(&mut resolver);

    resolver.link_state(0, false, NOW);
    assert_eq!(actions(&mut resolver), ["lost 10.0.0.3", "lost 10.0.0.4", "discard 1 Unreachable"]);
    resolver.link_state(0, false, NOW);
    resolver.resolve(kept, 2, NOW);
    resolver.resolve(passing, 3, NOW);
    answer(&mut resolver, kept, 11, NOW);
    assert_eq!(actions(&mut resolver), ["discard 2 Unreachable", "discard 3 Unreachable"]);
    assert_eq!(state(&resolver, kept), Some(NeighborState::Failed));
    assert_eq!(state(&resolver, passing), None);
    assert_eq!(state(&resolver, elsewhere), Some(NeighborState::Reachable));

    resolver.link_state(0, true, NOW);
    let lines = actions(&mut resolver);
    assert_eq!(lines.len(), 3, "two announcements and one question: {lines:?}");
    assert_eq!(lines[2], "send 0 #1>all ARP request 10.0.0.1 at #1, 10.0.0.3 at -");
}

#[test]
fn a_link_that_vanishes_takes_its_neighbors_along() {
    let (here, there) = (neighbor(1), key(OTHER, "10.1.0.9"));
    let mut resolver = resolver(ResolverConfig::default(), vec![there]);
    resolver.resolve(here, 0, NOW);
    answer(&mut resolver, here, 11, NOW);
    answer(&mut resolver, there, 12, NOW);
    actions(&mut resolver);
    resolver.configure(interfaces()[..1].to_vec(), vec![there], NOW);
    assert_eq!(actions(&mut resolver), ["lost 10.1.0.9"]);
    assert_eq!(resolver.neighbor_count(), 1);
    resolver.resolve(there, 5, NOW);
    assert_eq!(actions(&mut resolver), ["discard 5 Unreachable"]);

    resolver.configure(interfaces(), vec![there], NOW);
    let lines = actions(&mut resolver);
    assert!(lines.contains(&"send 1 #2>all ARP request 10.1.0.1 at #2, 10.1.0.9 at -".into()), "{lines:?}");
    assert!(lines.iter().all(|line| !line.starts_with("send 0")), "nothing new on port 0: {lines:?}");
}

#[test]
fn a_subnet_that_vanishes_takes_its_neighbors_along_unless_they_are_kept() {
    let (kept, passing) = (neighbor(1), neighbor(2));
    let mut resolver = resolver(ResolverConfig::default(), vec![kept]);
    for key in [kept, passing] {
        resolver.resolve(key, 0, NOW);
        answer(&mut resolver, key, 11, NOW);
    }
    actions(&mut resolver);
    resolver.configure(vec![interface(LINK, 1, &["192.0.2.1/24"])], vec![kept], NOW);
    let lines = actions(&mut resolver);
    assert_eq!(lines.iter().filter(|line| line.starts_with("lost")).collect::<Vec<_>>(), ["lost 10.0.0.4"]);
    assert_eq!(state(&resolver, kept), Some(NeighborState::Reachable));
    resolver.configure(vec![interface(LINK, 1, &["2001:db8::1/64"])], vec![kept], NOW);
    assert!(actions(&mut resolver).contains(&"lost 10.0.0.3".into()), "no IPv4 address to ask from");
}

#[test]
fn the_same_configuration_again_does_nothing() {
    let kept = neighbor(1);
    let mut resolver = resolver(ResolverConfig::default(), vec![kept]);
    answer(&mut resolver, kept, 11, NOW);
    actions(&mut resolver);
    resolver.configure(interfaces(), vec![kept, kept], NOW);
    assert_eq!(actions(&mut resolver), [""; 0]);
}

#[test]
fn another_mac_address_or_address_is_announced() {
    let mut resolver = resolver(ResolverConfig::default(), vec![]);
    resolver.poll(NOW.after(Duration::from_secs(60)));
    actions(&mut resolver);
    resolver.configure(vec![interface(LINK, 7, &["10.0.0.1/16"]), interfaces().remove(1)], vec![], NOW);
    assert_eq!(
        actions(&mut resolver),
        [
            "send 0 #7>all ARP request 10.0.0.1 at #7, 10.0.0.1 at -",
            "send 0 #7>33:33:00:00:00:01 NA fe80::ff:fe00:7>ff02::1 RO fe80::ff:fe00:7 at #7",
        ]
    );
    resolver.receive(LINK, &ArpFrame::request(station(9), "10.0.0.9", "10.0.0.1").octets(), NOW);
    assert_eq!(actions(&mut resolver)[0], "send 0 #7>#9 ARP reply 10.0.0.1 at #7, 10.0.0.9 at #9");
}

#[test]
fn a_neighbor_that_is_no_longer_kept_lives_on_as_others_do() {
    let (reachable, failed, down) = (neighbor(1), neighbor(2), key(OTHER, "10.1.0.9"));
    let mut resolver = resolver(ResolverConfig::default(), vec![reachable, failed, down]);
    answer(&mut resolver, reachable, 11, NOW);
    for seconds in 1..=3 {
        resolver.poll(NOW.after(Duration::from_secs(seconds)));
    }
    resolver.link_state(1, false, NOW);
    actions(&mut resolver);
    resolver.configure(interfaces(), vec![], NOW);
    assert_eq!(actions(&mut resolver), [""; 0]);
    assert_eq!(state(&resolver, down), None, "nothing would ever happen to it");
    assert_eq!(state(&resolver, failed), Some(NeighborState::Failed));
    resolver.poll(NOW.after(Duration::from_secs(4)));
    assert_eq!(state(&resolver, failed), None);
    assert_eq!(state(&resolver, reachable), Some(NeighborState::Reachable));
}

#[test]
fn own_and_impossible_addresses_are_no_neighbors() {
    let impossible = ["10.0.0.1", "10.0.255.255", "224.0.0.5", "10.1.0.1", "2001:db8::1", "::", "127.0.0.1"];
    let mut resolver = resolver(ResolverConfig::default(), vec![key(LINK, "10.0.0.1"), key(LINK, "ff02::1")]);
    for address in impossible {
        resolver.resolve(key(LINK, address), 4, NOW);
        assert_eq!(actions(&mut resolver), ["discard 4 Unreachable"], "{address}");
    }
    resolver.resolve(key(Link::untagged(9), "10.0.0.9"), 4, NOW);
    assert_eq!(actions(&mut resolver), ["discard 4 Unreachable"]);
    assert_eq!(resolver.neighbor_count(), 0);
}

#[test]
fn two_ports_on_one_switch_do_not_mistake_each_other_for_strangers() {
    let interfaces = vec![interface(LINK, 1, &["10.0.0.1/16"]), interface(OTHER, 2, &["10.0.0.2/16"])];
    let mut resolver = Resolver::<u32>::new(ResolverConfig::default());
    resolver.configure(interfaces, vec![], NOW);
    resolver.link_state(0, true, NOW);
    resolver.link_state(1, true, NOW);
    resolver.resolve(key(LINK, "10.0.0.9"), 1, NOW);
    let sent: Vec<_> = std::iter::from_fn(|| resolver.next_action()).collect();
    for action in &sent {
        if let sluice_protocols::neighbor::Action::Send { link, frame } = action {
            let other = if *link == LINK { OTHER } else { LINK };
            resolver.receive(other, frame, NOW);
        }
    }
    assert_eq!((sent.len(), actions(&mut resolver).len()), (5, 0));
    resolver.receive(OTHER, &ArpFrame::request(station(9), "10.0.0.9", "10.0.0.1").octets(), NOW);
    assert_eq!(actions(&mut resolver), [""; 0], "each port answers for its own addresses");
}

#[test]
fn each_neighbor_lets_few_packets_wait() {
    let mut resolver = resolver(ResolverConfig::default(), vec![]);
    for packet in 0..6 {
        resolver.resolve(neighbor(1), packet, NOW);
    }
    assert_eq!(actions(&mut resolver)[1..], ["discard 0 QueueFull", "discard 1 QueueFull"]);
    answer(&mut resolver, neighbor(1), 11, NOW);
    assert_eq!(actions(&mut resolver)[1..], ["release 2", "release 3", "release 4", "release 5"]);
    assert_eq!(resolver.waiting_count(), 0);
}

#[test]
fn all_neighbors_let_so_many_packets_wait() {
    let config = ResolverConfig { waiting: 2, waiting_in_all: 3, ..ResolverConfig::default() };
    let mut resolver = resolver(config, vec![]);
    for packet in 0..4 {
        resolver.resolve(neighbor((packet % 2) as u16), packet, NOW);
    }
    assert_eq!(actions(&mut resolver).last().unwrap(), "discard 3 QueueFull");
    resolver.resolve(neighbor(0), 4, NOW);
    assert_eq!(actions(&mut resolver), ["discard 0 QueueFull"], "its own oldest makes room");
    assert_eq!(resolver.waiting_count(), 3);
}

#[test]
fn a_scan_replaces_the_oldest_unresolved_and_never_a_confirmed_neighbor() {
    let config = ResolverConfig { neighbors: 10, waiting_in_all: 2, ..ResolverConfig::default() };
    let (kept, reachable, waited) = (neighbor(1000), neighbor(1001), [neighbor(1002), neighbor(1003)]);
    let mut resolver = resolver(config, vec![kept]);
    for key in waited {
        resolver.resolve(key, 0, NOW);
    }
    resolver.resolve(reachable, 0, NOW);
    answer(&mut resolver, reachable, 11, NOW);
    actions(&mut resolver);
    for number in 0..500 {
        let now = NOW.after(Duration::from_millis(number));
        resolver.resolve(neighbor(number as u16), number as u32, now);
        let lines = actions(&mut resolver);
        assert_eq!(lines.len(), 2, "one question a packet: {lines:?}");
        assert_eq!(lines[1], format!("discard {number} QueueFull"), "others wait already");
        let oldest = number.checked_sub(6).map(|oldest| state(&resolver, neighbor(oldest as u16)));
        assert!(oldest.is_none_or(|state| state.is_none()), "the oldest gives way");
    }
    assert_eq!(resolver.neighbor_count(), 10);
    assert_eq!(resolver.statistics().evicted, 494);
    for key in waited {
        assert_eq!(state(&resolver, key), Some(NeighborState::Incomplete), "a packet waits for it");
    }
    assert_eq!(state(&resolver, kept), Some(NeighborState::Incomplete));
    assert_eq!(state(&resolver, reachable), Some(NeighborState::Reachable));
}

#[test]
fn a_table_of_confirmed_neighbors_takes_kept_ones_only() {
    let config = ResolverConfig { neighbors: 4, ..ResolverConfig::default() };
    let mut resolver = resolver(config, vec![]);
    for number in 0..4 {
        resolver.resolve(neighbor(number), 0, NOW);
        answer(&mut resolver, neighbor(number), 11, NOW.after(Duration::from_millis(number.into())));
    }
    actions(&mut resolver);
    resolver.resolve(neighbor(9), 1, NOW);
    assert_eq!(actions(&mut resolver), ["discard 1 TableFull"]);
    resolver.receive(LINK, &ArpFrame::request(station(9), "10.0.0.99", "10.0.0.1").octets(), NOW);
    let lines = actions(&mut resolver);
    assert_eq!(lines, ["send 0 #1>#9 ARP reply 10.0.0.1 at #1, 10.0.0.99 at #9"], "answered, not learned");

    let keep: Vec<_> = (20..26).map(neighbor).collect();
    resolver.configure(interfaces(), keep.clone(), NOW);
    let lost: Vec<_> = actions(&mut resolver).into_iter().filter(|line| line.starts_with("lost")).collect();
    assert_eq!(lost, ["lost 10.0.0.2", "lost 10.0.0.3", "lost 10.0.0.4", "lost 10.0.0.5"]);
    assert!(resolver.neighbors().map(|(key, _)| *key).eq(keep), "above the limit, all of them kept");
}

#[test]
fn stale_neighbors_give_way_to_packets() {
    let config = ResolverConfig { neighbors: 3, probe: false, ..ResolverConfig::default() };
    let mut resolver = resolver(config, vec![]);
    let ask = |resolver: &mut Resolver<u32>, number| {
        let asker = neighbor(number).address.to_string();
        resolver.receive(LINK, &ArpFrame::request(station(9), &asker, "10.0.0.1").octets(), NOW);
    };
    for number in [7, 8, 9] {
        ask(&mut resolver, number);
    }
    resolver.resolve(neighbor(8), 0, NOW);
    actions(&mut resolver);
    // Those that this node never used first, though they were heard of last.
    for (number, gone) in [(1, 7), (2, 9)] {
        resolver.resolve(neighbor(number), number.into(), NOW);
        assert_eq!(state(&resolver, neighbor(gone)), None);
        assert_eq!(actions(&mut resolver).len(), 1, "a question");
    }
    resolver.resolve(neighbor(3), 3, NOW);
    assert_eq!(actions(&mut resolver)[0], "lost 10.0.0.10");
    // The others have packets that wait for them.
    resolver.resolve(neighbor(4), 4, NOW);
    assert_eq!(actions(&mut resolver), ["discard 4 TableFull"]);
}

#[test]
fn one_station_with_countless_addresses_takes_few_places() {
    let mut resolver = resolver(ResolverConfig::default(), vec![]);
    let own = resolver_link_local(1);
    for number in 0..30_000u64 {
        let now = NOW.after(Duration::from_millis(number));
        let asker = format!("fe80::9:{:x}:{:x}", number >> 16, number & 0xffff);
        let solicitation = DiscoveryFrame::solicitation(station(9), &asker, &own).octets();
        resolver.receive(LINK, &solicitation, now);
        assert!(resolver.neighbor_count() <= ResolverConfig::default().unused);
        if number.is_multiple_of(1000) {
            // It answers every question, so that its addresses count as reachable.
            resolver.poll(now);
            let probed: Vec<_> = resolver.neighbors().map(|(key, _)| key.address.to_string()).collect();
            for address in probed {
                let answer = DiscoveryFrame::advertisement(station(9), &address, station(1), &own, SOLICITED);
                resolver.receive(LINK, &answer.octets(), now);
            }
        }
        let told = actions(&mut resolver).into_iter().filter(|line| !line.starts_with("send"));
        assert_eq!(told.collect::<Vec<_>>(), [""; 0], "the data path hears of none");
    }
    assert_eq!(resolver.neighbor_count(), 1024);
    // A packet finds a place all the same, and so does a next hop that is kept.
    let now = NOW.after(Duration::from_secs(31));
    resolver.resolve(neighbor(1), 1, now);
    answer(&mut resolver, neighbor(1), 11, now);
    assert!(actions(&mut resolver).contains(&"release 1".to_owned()));
}

fn resolver_link_local(mac: u8) -> String {
    format!("fe80::ff:fe00:{mac:x}")
}

#[test]
fn a_kept_neighbor_is_not_lost_for_answers_that_were_shed() {
    let (kept, passing) = (neighbor(1), neighbor(2));
    let mut resolver = resolver(ResolverConfig::default(), vec![kept]);
    for key in [kept, passing] {
        resolver.resolve(key, 0, NOW);
        answer(&mut resolver, key, 11, NOW);
    }
    actions(&mut resolver);
    // Nothing is heard of either for ten minutes, and something is dropped unseen in every second of them.
    let mut now = NOW;
    let end = NOW.after(Duration::from_secs(600));
    while now < end {
        now = now.after(Duration::from_millis(500));
        resolver.frames_shed(now);
        resolver.poll(now);
    }
    let told: Vec<_> = actions(&mut resolver).into_iter().filter(|line| !line.starts_with("send")).collect();
    assert_eq!(told, ["lost 10.0.0.4"], "only the kept one is spared");
    assert_eq!(state(&resolver, kept), Some(NeighborState::Probe));
    assert!(resolver.statistics().requests_sent < 2 + 600 + 3, "a question a second");
    // As soon as nothing is shed any more it has as many tries as ever.
    resolver.poll(now.after(Duration::from_secs(2)));
    assert_eq!(state(&resolver, kept), Some(NeighborState::Probe));
    let mut lost_after = None;
    for second in 0..10 {
        let now = now.after(Duration::from_secs(second));
        resolver.poll(now);
        if lost_after.is_none() && actions(&mut resolver).contains(&"lost 10.0.0.3".to_owned()) {
            lost_after = Some(second);
        }
    }
    assert!(lost_after.is_some_and(|seconds| (3..=7).contains(&seconds)), "{lost_after:?}");
}

#[test]
fn a_storm_of_requests_is_answered_in_part_and_fills_nothing() {
    let config = ResolverConfig { answers_per_second: 100, ..ResolverConfig::default() };
    let mut resolver = resolver(config, vec![]);
    for number in 0..20_000u16 {
        let asker = neighbor(number).address.to_string();
        let now = NOW.after(Duration::from_micros(100) * u32::from(number));
        resolver.receive(LINK, &ArpFrame::request(station(9), &asker, "10.0.0.1").octets(), now);
    }
    let statistics = resolver.statistics();
    assert_eq!(statistics.answers_sent + statistics.answers_withheld, 20_000);
    assert!((295..=301).contains(&statistics.answers_sent), "2 s and a burst: {statistics:?}");
    assert!(resolver.neighbor_count() <= 301);
    let mut last = NOW.after(Duration::from_secs(2));
    while let Some(deadline) = resolver.next_deadline() {
        last = last.max(deadline);
        resolver.poll(last);
    }
    assert!(resolver.statistics().requests_sent <= 3 * 301);
    assert_eq!(resolver.neighbor_count(), 0);
}

#[test]
fn another_configuration_does_not_renew_the_limit_of_answers() {
    let config = ResolverConfig { answers_per_second: 10, ..ResolverConfig::default() };
    let mut resolver = resolver(config, vec![]);
    for configured in [false, true] {
        for _ in 0..20 {
            resolver.receive(LINK, &ArpFrame::request(station(9), "10.0.0.9", "10.0.0.1").octets(), NOW);
        }
        assert_eq!(resolver.statistics().answers_sent, 10, "configured again: {configured}");
        resolver.configure(interfaces(), vec![], NOW);
    }
}

#[test]
fn without_interfaces_there_is_nothing_to_wait_for() {
    let mut resolver = resolver(ResolverConfig::default(), vec![neighbor(1)]);
    assert!(resolver.next_deadline().is_some());
    resolver.configure(vec![], vec![neighbor(1)], NOW);
    assert_eq!((resolver.next_deadline(), resolver.neighbor_count()), (None, 0));
}

#[test]
fn a_flood_of_announcements_and_forged_answers_leaves_no_trace() {
    let mut resolver = resolver(ResolverConfig::default(), vec![]);
    for number in 0..20_000u16 {
        let address = neighbor(number).address.to_string();
        resolver.receive(LINK, &ArpFrame::request(station(9), &address, &address).octets(), NOW);
        resolver.receive(LINK, &ArpFrame::reply(station(9), &address, station(1), "10.0.0.1").octets(), NOW);
    }
    assert_eq!((actions(&mut resolver), resolver.neighbor_count()), (vec![], 0));
}

#[test]
fn thousands_of_kept_neighbors_are_asked_for_in_turn() {
    let keep: Vec<_> = (0..6000).map(neighbor).collect();
    let mut resolver = resolver(ResolverConfig::default(), keep.clone());
    assert_eq!(resolver.statistics().requests_sent, 256);
    resolver.resolve(keep[5999], 1, NOW);
    assert_eq!(actions(&mut resolver), ["send 0 #1>all ARP request 10.0.0.1 at #1, 10.0.23.113 at -"]);
    let mut polls = 0;
    while let Some(deadline) = resolver.next_deadline().filter(|at| *at < NOW.after(Duration::from_secs(1))) {
        let before = resolver.statistics().requests_sent;
        resolver.poll(deadline);
        assert!(resolver.statistics().requests_sent - before <= 256);
        polls += 1;
    }
    assert_eq!((polls, resolver.statistics().requests_sent), (23, 6000));
    for seconds in 1..6 {
        resolver.poll(NOW.after(Duration::from_secs(seconds)));
    }
    assert!(resolver.neighbors().all(|(_, view)| view.state != NeighborState::Reachable), "all of them fail");
    let (before, later) = (resolver.statistics().requests_sent, NOW.after(Duration::from_secs(60)));
    resolver.link_state(0, false, later);
    resolver.link_state(0, true, later);
    assert_eq!(resolver.statistics().requests_sent, before + 256);
    actions(&mut resolver);
    resolver.resolve(keep[5999], 2, later);
    assert_eq!(actions(&mut resolver).len(), 1, "asked for before its turn, in spite of the failures");
    assert_eq!(resolver.waiting_count(), 1);
}

#[test]
fn a_link_that_comes_back_starts_the_rests_anew() {
    let mut resolver = resolver(ResolverConfig::default(), vec![neighbor(1)]);
    let polls = |resolver: &mut Resolver<u32>, from: u64, to: u64| {
        let before = resolver.statistics().requests_sent;
        (from..=to).for_each(|seconds| resolver.poll(NOW.after(Duration::from_secs(seconds))));
        resolver.statistics().requests_sent - before
    };
    assert_eq!(polls(&mut resolver, 1, 30), 2 + 3 + 3 + 3 + 3, "rests of 1, 2, 4, and 8 s");
    let now = NOW.after(Duration::from_secs(30));
    resolver.link_state(0, false, now);
    resolver.link_state(0, true, now);
    assert_eq!(polls(&mut resolver, 31, 35), 2 + 2, "a rest of 1 s");
}

#[test]
fn a_repeated_question_makes_nobody_younger() {
    let config = ResolverConfig { neighbors: 3, waiting_in_all: 1, ..ResolverConfig::default() };
    let mut resolver = resolver(config, vec![]);
    resolver.resolve(neighbor(9), 0, NOW);
    resolver.resolve(neighbor(1), 1, NOW);
    resolver.resolve(neighbor(2), 2, NOW.after(Duration::from_millis(500)));
    resolver.poll(NOW.after(Duration::from_millis(1100)));
    actions(&mut resolver);
    resolver.resolve(neighbor(3), 3, NOW.after(Duration::from_millis(1200)));
    assert_eq!(state(&resolver, neighbor(1)), None, "the oldest that no packet waits for");
    assert_eq!(state(&resolver, neighbor(2)), Some(NeighborState::Incomplete));
}

#[test]
fn thousands_of_kept_neighbors_are_not_probed_at_once() {
    let keep: Vec<_> = (0..6000).map(neighbor).collect();
    let mut resolver = resolver(ResolverConfig::default(), keep.clone());
    let asked = NOW.after(Duration::from_millis(900));
    resolver.poll(asked);
    for key in keep {
        answer(&mut resolver, key, 9, asked);
    }
    actions(&mut resolver);
    let mut busiest = 0;
    for seconds in 15..46 {
        let before = resolver.statistics().requests_sent;
        resolver.poll(NOW.after(Duration::from_secs(seconds)));
        let probed: Vec<_> = resolver
            .neighbors()
            .filter(|(_, view)| view.state == NeighborState::Probe)
            .map(|(key, _)| *key)
            .collect();
        for key in probed {
            answer(&mut resolver, key, 9, NOW.after(Duration::from_secs(seconds)));
        }
        busiest = busiest.max(resolver.statistics().requests_sent - before);
    }
    assert!((150..400).contains(&busiest), "{busiest} probes in one second; 200 if spread evenly over 30 s");
    assert!(!actions(&mut resolver).iter().any(|line| line.starts_with("lost")));
}

#[test]
fn forgetting_loses_a_neighbor_and_asks_again_for_a_kept_one() {
    let (kept, passing) = (neighbor(1), neighbor(2));
    let mut resolver = resolver(ResolverConfig::default(), vec![kept]);
    for key in [kept, passing] {
        resolver.resolve(key, 0, NOW);
        answer(&mut resolver, key, 11, NOW);
    }
    actions(&mut resolver);
    resolver.forget(passing, NOW);
    resolver.forget(neighbor(3), NOW);
    assert_eq!(actions(&mut resolver), ["lost 10.0.0.4"]);
    resolver.forget(kept, NOW);
    assert_eq!(
        actions(&mut resolver),
        ["lost 10.0.0.3", "send 0 #1>all ARP request 10.0.0.1 at #1, 10.0.0.3 at -"]
    );
    assert_eq!(resolver.neighbor_count(), 1);
}

#[test]
fn without_probes_neighbors_stay_usable() {
    let config = ResolverConfig { probe: false, ..ResolverConfig::default() };
    let mut resolver = resolver(config, vec![]);
    resolver.resolve(neighbor(1), 0, NOW);
    answer(&mut resolver, neighbor(1), 11, NOW);
    resolver.receive(LINK, &ArpFrame::request(station(9), "10.0.0.9", "10.0.0.1").octets(), NOW);
    let questions = resolver.statistics().requests_sent;
    while let Some(deadline) = resolver.next_deadline() {
        resolver.poll(deadline);
    }
    assert_eq!(resolver.statistics().requests_sent, questions);
    assert!(resolver.neighbors().all(|(_, view)| view.state == NeighborState::Stale));
    actions(&mut resolver);
    resolver.resolve(neighbor(1), 7, NOW.after(Duration::from_secs(3600)));
    assert_eq!(actions(&mut resolver), ["release 7"]);
}

#[test]
fn several_interfaces_on_one_link_have_their_own_mac_addresses() {
    let interfaces = vec![interface(LINK, 1, &["10.0.0.1/16"]), interface(LINK, 2, &["192.0.2.1/24"])];
    let mut resolver = Resolver::<u32>::new(ResolverConfig::default());
    resolver.configure(interfaces, vec![], NOW);
    resolver.link_state(0, true, NOW);
    actions(&mut resolver);
    resolver.resolve(key(LINK, "192.0.2.9"), 1, NOW);
    resolver.receive(LINK, &ArpFrame::request(station(9), "10.0.0.9", "10.0.0.1").octets(), NOW);
    assert_eq!(
        actions(&mut resolver)[..2],
        [
            "send 0 #2>all ARP request 192.0.2.1 at #2, 192.0.2.9 at -",
            "send 0 #1>#9 ARP reply 10.0.0.1 at #1, 10.0.0.9 at #9",
        ]
    );
    let frame = ArpFrame::reply(MacAddr([6; 6]), "192.0.2.9", station(2), "192.0.2.1").octets();
    resolver.receive(LINK, &frame, NOW);
    assert_eq!(actions(&mut resolver)[1..], ["release 1"]);
}
