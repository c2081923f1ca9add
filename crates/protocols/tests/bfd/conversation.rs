//! The state machine, packet by packet (RFC 5880 §6.2, §6.8.6), and every refusal.

use std::collections::BTreeSet;
use std::time::Duration;

use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{
    Action, Concatenated, PORT, Path, Received, Refusal, SessionConfig, SessionError, Sessions,
    SessionsConfig, Via,
};
use sluice_protocols::neighbor::Link;
use sluice_wire::VlanId;
use sluice_wire::bfd::{Bfd, BfdDiagnostic, BfdState};

use crate::support::{Conversation, PEER, ms, path, read, received, written};

#[test]
fn three_packets_bring_a_session_up() {
    let mut conversation = Conversation::new(SessionConfig::every(ms(300), 3));
    conversation.tell(|packet| packet.your_discriminator = 0).unwrap();
    assert_eq!(conversation.actions(), ["Down→Init: no diagnostic", "Init diag 0 x3 >77 1000/300"]);
    conversation.say(BfdState::Up).unwrap();
    // Up at once with the wanted interval, which the poll sequence tells.
    assert_eq!(conversation.actions(), ["Init→Up: no diagnostic", "Up diag 0 x3 >77 300/300 P"]);
    let view = conversation.view();
    assert_eq!((view.remote_state, view.remote_discriminator), (BfdState::Up, PEER));
    assert_eq!((view.transmit_interval, view.detection_time), (Some(ms(300)), Some(ms(900))));
    assert_eq!((view.counters.ups, view.counters.downs, view.counters.received), (1, 0, 2));
}

#[test]
fn every_pair_of_states_leads_where_the_rfc_says() {
    use BfdState::{AdminDown, Down, Init, Up};
    // What is heard, and the state that follows in Down, Init and Up.
    let table = [
        (AdminDown, [Down, Down, Down]),
        (Down, [Init, Init, Down]),
        (Init, [Up, Up, Up]),
        (Up, [Down, Up, Up]),
    ];
    for (heard, states) in table {
        for (from, to) in [Down, Init, Up].into_iter().zip(states) {
            let mut conversation = Conversation::new(SessionConfig::default());
            match from {
                Init => conversation.say(Down).unwrap(),
                Up => conversation.say(Init).unwrap(),
                _ => {}
            }
            assert_eq!(conversation.view().state, from);
            conversation.say(heard).unwrap();
            assert_eq!(conversation.view().state, to, "{from} hears {heard}");
        }
    }
}

#[test]
fn the_neighbour_takes_the_session_down() {
    let mut conversation = Conversation::up();
    conversation.tell(|packet| packet.diagnostic = BfdDiagnostic::PATH_DOWN).unwrap();
    let lines = ["Up→Down: neighbor signaled session down", "Down diag 3 x3 >77 1000/300"];
    assert_eq!(conversation.actions(), lines);
    let view = conversation.view();
    assert_eq!(view.remote_diagnostic, BfdDiagnostic::PATH_DOWN);
    assert_eq!(view.counters.last_down_diagnostic, BfdDiagnostic::NEIGHBOR_SIGNALED_SESSION_DOWN);
    assert_eq!((view.counters.downs, view.counters.last_down), (1, Some(conversation.now)));
}

#[test]
fn polls_are_answered_at_once_and_final_never_polls() {
    let mut conversation = Conversation::up();
    conversation.tell(|packet| (packet.state, packet.poll_flag) = (BfdState::Up, true)).unwrap();
    assert_eq!(conversation.actions(), ["Up diag 0 x3 >77 300/300 F"]);
    conversation.sessions.update(&path(1, 2), SessionConfig::every(ms(400), 3), conversation.now).unwrap();
    conversation.tell(|packet| (packet.state, packet.poll_flag) = (BfdState::Up, true)).unwrap();
    assert_eq!(conversation.actions(), ["Up diag 0 x3 >77 400/400 F"], "in a poll sequence of its own too");
}

#[test]
fn every_forged_packet_is_refused_and_counted() {
    let mut conversation = Conversation::up();
    let good = received(path(1, 2));
    let elsewhere = Via::Link(Link::new(1, VlanId::UNTAGGED));
    let mut packet = conversation.peer;
    packet.state = BfdState::Up;
    packet.your_discriminator = conversation.view().local_discriminator;
    let octets = written(&packet);
    let with = |at: usize, value: u8| {
        let mut octets = octets;
        octets[at] = value;
        octets
    };
    let zeroed = |from: usize| {
        let mut octets = octets;
        octets[from..from + 4].fill(0);
        octets
    };
    let mut strange = octets;
    strange[8] ^= 1;
    let mut down = zeroed(8);
    down[1] = 0x40;
    let cases = [
        (Refusal::Port, received(path(1, 2)), octets),
        (Refusal::Ttl, good, octets),
        (Refusal::Version, good, with(0, 0x40)),
        (Refusal::Length, good, with(3, 23)),
        (Refusal::Truncated, good, with(3, 25)),
        (Refusal::DetectMultiplier, good, with(2, 0)),
        (Refusal::Multipoint, good, with(1, 0xc1)),
        (Refusal::MyDiscriminator, good, zeroed(4)),
        (Refusal::YourDiscriminator, good, zeroed(8)),
        (Refusal::Authenticated, good, with(1, 0xc4)),
        (Refusal::UnknownDiscriminator, good, strange),
        (Refusal::UnknownPath, received(path(1, 3)), down),
        (Refusal::OtherPath, received(path(1, 3)), octets),
        (Refusal::OtherPath, received(path(3, 2)), octets),
        (Refusal::OtherPath, Received { via: elsewhere, ..good }, octets),
    ];
    let before = conversation.view();
    for (reason, mut meta, octets) in cases {
        match reason {
            Refusal::Port => meta.destination_port = PORT + 1,
            Refusal::Ttl => meta.ttl = 254,
            _ => {}
        }
        let counted = conversation.sessions.refusals().count(reason);
        assert_eq!(conversation.sessions.receive(&meta, &octets, conversation.now), Err(reason));
        assert_eq!(conversation.sessions.refusals().count(reason), counted + 1);
    }
    assert_eq!(conversation.sessions.refusals().total(), 15);
    assert_eq!(conversation.actions(), [""; 0]);
    assert_eq!(conversation.view(), before, "no forged packet leaves a trace in the session");
    assert_eq!(conversation.sessions.receive(&good, &octets, conversation.now), Ok(()));
}

#[test]
fn sessions_of_the_same_addresses_are_told_apart_by_where_packets_go() {
    let now = Timestamp::from_secs(1);
    let mut sessions = Sessions::new(SessionsConfig::default());
    let vni = |number: u32| Via::Tunnel { vni: Some(sluice_wire::Vni::new(number).unwrap()) };
    let vlan = |number: u16| Via::Link(Link::new(1, VlanId::new(number).unwrap()));
    let places = [Via::Tunnel { vni: None }, vni(1), vni(2), Via::Link(Link::untagged(1)), vlan(5), vlan(6)];
    let (local, remote) = ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
    let paths = places.map(|via| Path { via, local, remote });
    for path in paths {
        sessions.add(path, SessionConfig::default(), now).unwrap();
    }
    let mut packet = Conversation::new(SessionConfig::default()).peer;
    for (number, path) in paths.iter().enumerate() {
        packet.my_discriminator = 100 + number as u32;
        sessions.receive(&received(*path), &written(&packet), now).unwrap();
        let known = paths.map(|path| sessions.get(&path).unwrap().remote_discriminator != 0);
        assert_eq!(known.iter().filter(|known| **known).count(), number + 1);
        assert_eq!(sessions.get(path).unwrap().remote_discriminator, 100 + number as u32);
    }
}

#[test]
fn a_path_that_is_down_takes_the_session_down_at_once() {
    let mut conversation = Conversation::up();
    conversation.sessions.path_down(|ends| ends.local == path(9, 2).local, conversation.now);
    assert_eq!(conversation.actions(), [""; 0], "another TEP's");
    conversation.sessions.path_down(|ends| ends.local == path(1, 2).local, conversation.now);
    assert_eq!(conversation.actions(), ["Up→Down: path down", "Down diag 5 x3 >0 1000/300"]);
    assert_eq!(conversation.say(BfdState::Down), Err(Refusal::PathDown));
    conversation.sessions.path_up(|_| true, conversation.now);
    conversation.say(BfdState::Down).unwrap();
    conversation.say(BfdState::Init).unwrap();
    assert_eq!(conversation.view().state, BfdState::Up);
}

#[test]
fn a_failure_behind_the_path_is_told_and_leaves_the_session_up() {
    let mut conversation = Conversation::up();
    let told = |conversation: &mut Conversation, failure| {
        conversation.sessions.concatenated(&path(1, 2), failure, conversation.now).unwrap();
        conversation.actions()
    };
    assert_eq!(told(&mut conversation, Some(Concatenated::Down)), ["Up diag 6 x3 >77 300/300"]);
    assert_eq!(told(&mut conversation, Some(Concatenated::Down)), [""; 0]);
    assert_eq!(told(&mut conversation, Some(Concatenated::ReverseDown)), ["Up diag 8 x3 >77 300/300"]);
    assert_eq!(told(&mut conversation, None), ["Up diag 0 x3 >77 300/300"]);
    let unknown = conversation.sessions.concatenated(&path(1, 9), None, conversation.now);
    assert_eq!(unknown, Err(SessionError::Unknown));
}

#[test]
fn switched_off_it_tells_so_and_hears_nothing() {
    let mut conversation = Conversation::up();
    let off = SessionConfig { enabled: false, ..SessionConfig::every(ms(300), 3) };
    conversation.sessions.update(&path(1, 2), off, conversation.now).unwrap();
    let told = "AdminDown diag 7 x3 >77 1000/300";
    assert_eq!(conversation.actions(), ["Up→AdminDown: administratively down", told]);
    assert_eq!(conversation.say(BfdState::Down), Err(Refusal::AdminDown));
    let lines = conversation.pass(ms(5000));
    assert!(
        (5..=7).contains(&lines.len()) && lines.iter().all(|line| line.starts_with("AdminDown diag 7")),
        "{lines:?}"
    );
    let on = SessionConfig::every(ms(300), 3);
    conversation.sessions.update(&path(1, 2), on, conversation.now).unwrap();
    assert_eq!(conversation.actions(), ["AdminDown→Down: no diagnostic", "Down diag 0 x3 >0 1000/300"]);
}

#[test]
fn a_removed_session_says_so_for_a_detection_time_and_is_gone() {
    let mut conversation = Conversation::new(SessionConfig::every(ms(1000), 3));
    (conversation.peer.desired_min_tx, conversation.peer.required_min_rx) = (1_000_000, 1_000_000);
    conversation.say(BfdState::Init).unwrap();
    conversation.actions();
    conversation.sessions.remove(&path(1, 2), conversation.now).unwrap();
    assert_eq!(conversation.actions()[0], "Up→AdminDown: administratively down");
    assert_eq!(conversation.sessions.get(&path(1, 2)), None);
    assert_eq!(conversation.sessions.sessions().count(), 0);
    assert_eq!(conversation.sessions.remove(&path(1, 2), conversation.now), Err(SessionError::Unknown));
    let lines = conversation.pass(ms(60_000));
    assert!((3..=4).contains(&lines.len()), "{lines:?}");
    assert!(lines.iter().all(|line| line.starts_with("AdminDown diag 7")));
    assert_eq!(conversation.sessions.next_event(), None);
}

#[test]
fn a_session_made_again_does_not_wait_for_the_old_one() {
    let mut conversation = Conversation::up();
    let old = conversation.view().local_discriminator;
    conversation.sessions.remove(&path(1, 2), conversation.now).unwrap();
    conversation.sessions.add(path(1, 2), SessionConfig::default(), conversation.now).unwrap();
    conversation.actions();
    let view = conversation.view();
    assert_ne!(view.local_discriminator, old);
    let to_the_old = conversation.tell(|packet| packet.your_discriminator = old);
    assert_eq!(to_the_old, Err(Refusal::UnknownDiscriminator));
    let lines = conversation.pass(ms(3000));
    assert!(lines.iter().all(|line| line.starts_with("Down diag 0")), "{lines:?}");
}

#[test]
fn a_full_table_gives_new_sessions_the_places_of_removed_ones() {
    let now = Timestamp::from_secs(1);
    let limit = 64;
    let mut sessions = Sessions::new(SessionsConfig { sessions: limit.into(), seed: 1 });
    let config = SessionConfig::every(ms(1000), 3);
    let hear = |sessions: &mut Sessions, path| {
        let packet = Bfd { state: BfdState::Down, your_discriminator: 0, ..Conversation::new(config).peer };
        sessions.receive(&received(path), &written(&packet), now).unwrap();
    };
    for remote in 1..=limit {
        sessions.add(path(1, remote), config, now).unwrap();
        // So that it has somebody to take leave of.
        hear(&mut sessions, path(1, remote));
    }
    while sessions.next_action().is_some() {}
    // The local TEP gets another address.
    (1..=limit).for_each(|remote| sessions.remove(&path(1, remote), now).unwrap());
    (1..=limit).for_each(|remote| sessions.add(path(2, remote), config, now).unwrap());
    assert_eq!(sessions.add(path(2, limit + 1), config, now), Err(SessionError::Full(limit.into())));
    assert_eq!(
        sessions.sessions().filter(|view| view.path.local == path(2, 1).local).count(),
        usize::from(limit)
    );
    let mut left = BTreeSet::new();
    let mut ports = BTreeSet::new();
    for second in 0..3 {
        sessions.advance(now.after(Duration::from_secs(second)));
        while let Some(action) = sessions.next_action() {
            let Action::Send { path, source_port, payload } = action else { continue };
            if read(&payload).state == BfdState::AdminDown {
                left.insert(path);
            } else {
                ports.insert(source_port);
            }
        }
    }
    assert_eq!(
        (left.len(), ports.len()),
        (usize::from(limit), usize::from(limit)),
        "all were told; a port for each"
    );
}

#[test]
fn who_left_on_purpose_is_known_to_have_until_it_says_something_else() {
    let mut conversation = Conversation::up();
    assert!(!conversation.view().remote_left);
    conversation.say(BfdState::AdminDown).unwrap();
    assert!(conversation.view().remote_left);
    conversation.pass(ms(60_000));
    let view = conversation.view();
    assert_eq!((view.remote_state, view.detection_time), (BfdState::Down, None), "it is heard no more");
    assert!(view.remote_left);
    conversation.tell(|packet| (packet.state, packet.your_discriminator) = (BfdState::Down, 0)).unwrap();
    assert!(!conversation.view().remote_left);
    conversation.pass(ms(60_000));
    assert!(!conversation.view().remote_left, "now it is lost");
}

#[test]
fn configurations_that_are_refused() {
    let now = Timestamp::from_secs(1);
    let limit = SessionsConfig { sessions: 2, seed: 0 };
    let mut sessions = Sessions::new(limit);
    let add = |sessions: &mut Sessions, remote: u8, interval: u64, multiplier: u8| {
        sessions.add(path(1, remote), SessionConfig::every(ms(interval), multiplier), now)
    };
    assert_eq!(add(&mut sessions, 2, 49, 3), Err(SessionError::Interval(ms(49))));
    assert_eq!(add(&mut sessions, 2, 60_001, 3), Err(SessionError::Interval(ms(60_001))));
    assert_eq!(add(&mut sessions, 2, 50, 0), Err(SessionError::Multiplier(0)));
    assert_eq!(add(&mut sessions, 2, 50, 17), Err(SessionError::Multiplier(17)));
    assert_eq!(add(&mut sessions, 2, 50, 1), Ok(()));
    assert_eq!(add(&mut sessions, 2, 50, 1), Err(SessionError::Exists));
    assert_eq!(add(&mut sessions, 3, 60_000, 16), Ok(()));
    assert_eq!(add(&mut sessions, 4, 1000, 3), Err(SessionError::Full(2)));
    sessions.remove(&path(1, 3), now).unwrap();
    let mixed = Path { remote: "2001:db8::1".parse().unwrap(), ..path(1, 2) };
    assert_eq!(sessions.add(mixed, SessionConfig::default(), now), Err(SessionError::Family));
    assert_eq!(sessions.update(&path(1, 9), SessionConfig::default(), now), Err(SessionError::Unknown));
    let text = SessionError::Interval(ms(49)).to_string();
    assert_eq!(text, "a BFD interval of 49ms is out of range: give one from 50 ms to 60 s");
}
