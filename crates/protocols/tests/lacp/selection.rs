//! The Selection logic: which links form the aggregate.

use sluice_protocols::lacp::{Exclusion, LagConfig, MuxState, PortConfig, Selected};
use sluice_wire::lacp::Lacp;

use crate::support::{Conversation, PARTNER, READY, STRANGER, config, mac, secs};

fn stranger(conversation: &Conversation, port: u16) -> Lacp {
    let mut pdu = conversation.pdu(port, READY);
    pdu.actor.system = STRANGER;
    pdu
}

#[test]
fn links_that_come_up_together_attach_together() {
    let mut conversation = Conversation::new(config(2));
    conversation.hear(0, READY);
    conversation.pass(secs(1));
    conversation.hear(1, READY);
    let lines = conversation.pass(secs(1));
    assert!(!lines.iter().any(|line| line.contains("active")), "port 1 still waits: {lines:?}");
    let lines = conversation.pass(secs(1));
    assert!(lines.starts_with(&["0 active", "1 active", "LAG up"].map(String::from)), "{lines:?}");
}

#[test]
fn a_link_to_another_system_is_left_out_counted_and_told() {
    let mut conversation = Conversation::up(config(3));
    let pdu = stranger(&conversation, 2);
    conversation.tell(2, pdu).unwrap();
    let told = format!("2 excluded: OtherPartner {{ system: {STRANGER}, key: 5 }}");
    assert_eq!(conversation.news(), ["2 inactive".to_owned(), told]);
    for _ in 0..10 {
        conversation.pass(secs(1));
        let pdu = stranger(&conversation, 2);
        conversation.tell(2, pdu).unwrap();
    }
    let view = conversation.port(2);
    assert_eq!((view.selected, view.mux), (Selected::Unselected, MuxState::Detached));
    assert_eq!(view.counters.other_partner, 11);
    assert_eq!(conversation.lag.active_ports().collect::<Vec<_>>(), [0, 1]);
    // Plugged in rightly, it joins after the usual wait.
    conversation.hear(2, READY);
    assert_eq!(conversation.news(), ["2 no longer excluded"]);
    conversation.pass(secs(2));
    conversation.hear(2, READY);
    assert_eq!(conversation.lag.active_ports().count(), 3);
}

#[test]
fn another_key_of_the_same_system_is_another_aggregate() {
    let mut conversation = Conversation::up(config(2));
    let mut pdu = conversation.pdu(1, READY);
    pdu.actor.key = 6;
    conversation.tell(1, pdu).unwrap();
    let told = format!("1 excluded: OtherPartner {{ system: {PARTNER}, key: 6 }}");
    assert_eq!(conversation.news(), ["1 inactive".to_owned(), told]);
}

#[test]
fn when_the_whole_aggregate_moves_the_lag_moves_with_it() {
    let mut conversation = Conversation::up(config(2));
    for port in 0..2 {
        let pdu = stranger(&conversation, port);
        conversation.tell(port, pdu).unwrap();
    }
    conversation.pass(secs(2));
    for port in 0..2 {
        let pdu = stranger(&conversation, port);
        conversation.tell(port, pdu).unwrap();
    }
    assert_eq!(conversation.lag.active_ports().count(), 2);
    assert_eq!(conversation.lag.partner().unwrap().system, STRANGER);
    assert!(conversation.lag.view().ports.iter().all(|port| port.exclusion.is_none()));
}

#[test]
fn links_of_another_speed_are_left_out() {
    let mut conversation = Conversation::new(config(3));
    conversation.link(0, Some(1_000));
    (0..3).for_each(|port| conversation.hear(port, READY));
    assert!(conversation.news().contains(&"0 excluded: Speed { megabits: 1000 }".to_owned()));
    conversation.pass(secs(2));
    assert_eq!(conversation.lag.active_ports().collect::<Vec<_>>(), [1, 2]);
    // What carries traffic is not given up for more bandwidth.
    conversation.link(0, Some(100_000));
    conversation.hear(0, READY);
    conversation.pass(secs(3));
    assert_eq!(conversation.lag.active_ports().collect::<Vec<_>>(), [1, 2]);
    conversation.link(1, None);
    conversation.link(2, None);
    conversation.hear(0, READY);
    conversation.pass(secs(2));
    assert_eq!(conversation.lag.active_ports().collect::<Vec<_>>(), [0]);
}

#[test]
fn an_individual_link_is_alone_or_left_out() {
    let mut conversation = Conversation::new(config(1));
    conversation.hear(0, "AS");
    conversation.pass(secs(2));
    assert_eq!(conversation.lag.active_ports().collect::<Vec<_>>(), [0]);
    let mut conversation = Conversation::up(config(2));
    conversation.hear(1, "AS");
    assert_eq!(conversation.news(), ["1 inactive", "1 excluded: Individual"]);
}

/// Four ports of which two may be used; the last port is the best one for this end, the first one for the other.
fn limited(own_priority: u16) -> Conversation {
    let ports = (0..4).map(|port| PortConfig { priority: 100 - port, ..PortConfig::new(port, mac(port)) });
    let config =
        LagConfig { system_priority: own_priority, max_links: 2, ports: ports.collect(), ..config(4) };
    let mut conversation = Conversation::new(config);
    hear_all(&mut conversation);
    conversation.pass(secs(2));
    hear_all(&mut conversation);
    conversation.news();
    conversation
}

fn hear_all(conversation: &mut Conversation) {
    (0..4).for_each(|port| conversation.hear(port, READY));
}

fn active(conversation: &Conversation) -> Vec<u16> {
    conversation.lag.active_ports().collect()
}

#[test]
fn the_deciding_system_says_which_links_stand_by() {
    assert_eq!(active(&limited(0x7fff)), [2, 3], "this end decides");
    assert_eq!(active(&limited(0x8001)), [0, 1], "the other end decides");
    // Of two systems of one priority, the lower address decides: this one's.
    assert_eq!(active(&limited(0x8000)), [2, 3]);
}

#[test]
fn a_link_that_stands_by_takes_over_and_gives_back() {
    let mut conversation = limited(1);
    assert_eq!(conversation.port(1).selected, Selected::Standby);
    conversation.link(3, None);
    // It waited already, and its partner is in sync: no time is lost.
    assert_eq!(conversation.news(), ["1 active", "3 inactive"]);
    conversation.pass(secs(20));
    conversation.link(3, Some(10_000));
    hear_all(&mut conversation);
    conversation.pass(secs(2));
    hear_all(&mut conversation);
    assert_eq!(active(&conversation), [2, 3]);
    let lines = conversation.pass(secs(80));
    assert!(!lines.iter().any(|line| line.contains("churn")), "standing by is no churn: {lines:?}");
}

#[test]
fn too_few_links_are_a_lag_that_is_down() {
    let mut conversation = Conversation::up(LagConfig { min_links: 2, ..config(3) });
    conversation.link(0, None);
    assert_eq!(conversation.news(), ["0 inactive"]);
    conversation.actions();
    conversation.link(1, None);
    assert_eq!(
        conversation.actions(),
        ["1 inactive", "2 inactive", "LAG down", "2 sends AG to AGS"],
        "the other end, which may need fewer links, is told that none is in use"
    );
    conversation.lag.configure(config(3), conversation.now).unwrap();
    assert_eq!(conversation.news(), ["2 active", "LAG up"]);
}

#[test]
fn links_come_back_together_when_there_are_enough() {
    let mut conversation = Conversation::up(LagConfig { min_links: 2, ..config(2) });
    conversation.link(0, None);
    assert_eq!(conversation.news(), ["0 inactive", "1 inactive", "LAG down"]);
    // The other end waits for this one to be in sync, and is so itself.
    conversation.hear(1, READY);
    assert_eq!(conversation.news(), Vec::<String>::new());
    conversation.link(0, Some(10_000));
    conversation.hear(0, READY);
    assert_eq!(conversation.pass(secs(2)).iter().filter(|line| line.contains("active")).count(), 2);
    assert_eq!(active(&conversation), [0, 1]);
    assert!(conversation.lag.is_up());
    // It was not the second link that flapped.
    for _ in 0..4 {
        conversation.link(0, None);
        conversation.link(0, Some(10_000));
        conversation.hear(0, READY);
        conversation.pass(secs(2));
        conversation.hear(0, READY);
    }
    assert_eq!(
        (conversation.port(0).exclusion, conversation.port(1).exclusion),
        (Some(Exclusion::Flapping), None)
    );
}

#[test]
fn links_that_all_flap_are_used_where_there_is_no_other() {
    let mut conversation = Conversation::up(config(2));
    let flap = |conversation: &mut Conversation, port: u16| {
        conversation.hear(port, "AG");
        conversation.hear(port, READY);
    };
    (0..4).for_each(|_| flap(&mut conversation, 0));
    assert_eq!(active(&conversation), [1], "one is left out while there is another");
    (0..4).for_each(|_| flap(&mut conversation, 1));
    conversation.pass(secs(3));
    assert_eq!(active(&conversation), [0, 1], "a link that flaps is better than none");
    assert!(conversation.lag.is_up());
}

#[test]
fn a_new_configuration_keeps_what_it_can() {
    let mut conversation = Conversation::up(config(3));
    let fast = LagConfig { fast: true, ..config(3) };
    conversation.lag.configure(fast, conversation.now).unwrap();
    // No link is interrupted, and the partner is told.
    assert_eq!(conversation.actions(), [0, 1, 2].map(|port| format!("{port} sends ATGSCD to AGS")));
    let two = LagConfig { fast: true, ..config(2) };
    conversation.lag.configure(two, conversation.now).unwrap();
    assert_eq!(conversation.news(), ["2 inactive"]);
    let key = LagConfig { key: 9, ..config(2) };
    conversation.lag.configure(key, conversation.now).unwrap();
    assert_eq!(
        conversation.news(),
        ["0 inactive", "1 inactive", "LAG down"],
        "another key is another aggregate"
    );
    assert!(conversation.lag.configure(config(33), conversation.now).is_err());
    assert_eq!(conversation.lag.view().ports.len(), 2);
}

#[test]
fn a_link_that_flaps_stays_out_until_it_is_quiet_and_the_other_end_knows() {
    let mut conversation = Conversation::up(config(2));
    for _ in 0..3 {
        conversation.hear(1, "AG");
        assert_eq!(conversation.news(), ["1 inactive"]);
        conversation.pass(secs(1));
        conversation.hear(1, READY);
        assert_eq!(conversation.news(), ["1 active"]);
    }
    conversation.hear(1, "AG");
    assert_eq!(conversation.news(), ["1 inactive", "1 excluded: Flapping"]);
    assert!(!conversation.port(1).actor.state.contains(sluice_wire::lacp::LacpState::SYNCHRONIZATION));
    for _ in 0..9 {
        conversation.hear(1, READY);
        conversation.pass(secs(1));
        assert!(!conversation.port(1).active && conversation.port(0).active);
    }
    // The link itself goes down: it was not quiet.
    conversation.link(1, None);
    conversation.link(1, Some(10_000));
    conversation.hear(1, READY);
    conversation.pass(secs(9));
    assert_eq!(conversation.news(), Vec::<String>::new());
    conversation.hear(1, READY);
    conversation.pass(secs(1));
    assert_eq!(conversation.news(), Vec::<String>::new(), "told as it passed");
    conversation.pass(secs(2));
    conversation.hear(1, READY);
    assert!(conversation.port(1).active);
}
