//! The machines of one port: Receive, Periodic, Mux, Transmit, churn detection, markers, refusals.

use sluice_protocols::lacp::{LagConfig, LagError, MuxState, PortConfig, ReceiveState, Refusal};
use sluice_wire::MacAddr;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::lacp::{Lacp, LacpState};
use sluice_wire::marker::{Marker, MarkerKind, MarkerPacket};
use sluice_wire::slow_protocols::MULTICAST;
use sluice_wire::{EtherType, VlanId};

use crate::support::{Conversation, OWN, READY, config, mac, secs, state, written};

#[test]
fn a_link_comes_up_with_its_partner() {
    let mut conversation = Conversation::new(config(1));
    // Defaulted and Expired; the other end is asked to be fast.
    assert_eq!(conversation.actions(), ["0 sends AGFE to T"]);
    conversation.hear(0, "AGS");
    assert_eq!(conversation.port(0).mux, MuxState::Waiting);
    let lines = conversation.pass(secs(2));
    // In sync and distributing at once, since the partner is in sync already.
    assert_eq!(lines, ["0 active", "LAG up", "0 sends AGSCD to AGS"]);
    let view = conversation.port(0);
    assert_eq!((view.receive, view.mux), (ReceiveState::Current, MuxState::CollectingDistributing));
    assert_eq!(conversation.lag.partner().unwrap().system, crate::support::PARTNER);
}

#[test]
fn nothing_is_sent_on_a_link_before_the_partner_is_in_sync() {
    let mut conversation = Conversation::new(config(1));
    conversation.hear(0, "AG");
    conversation.pass(secs(2));
    assert_eq!(conversation.port(0).mux, MuxState::Attached);
    assert_eq!(conversation.pass(secs(10)).iter().filter(|line| line.contains("active")).count(), 0);
    conversation.hear(0, READY);
    assert_eq!(conversation.news(), ["0 active", "LAG up"]);
    conversation.hear(0, "AG");
    assert_eq!(conversation.news(), ["0 inactive", "LAG down"]);
    assert_eq!(conversation.port(0).mux, MuxState::Attached);
}

#[test]
fn a_partner_that_takes_this_end_for_another_is_not_in_sync() {
    let mut conversation = Conversation::up(config(1));
    let mut pdu = conversation.pdu(0, READY);
    pdu.partner.port = 9;
    conversation.tell(0, pdu).unwrap();
    assert_eq!(conversation.news(), ["0 inactive", "LAG down"]);
    assert!(!conversation.port(0).partner.state.contains(LacpState::SYNCHRONIZATION));
    // A partner that neither speaks by itself nor hears that this end does would not be maintained.
    let mut conversation = Conversation::up(config(1));
    let mut pdu = conversation.pdu(0, "GS");
    pdu.partner.state = state("GS");
    conversation.tell(0, pdu).unwrap();
    assert_eq!(conversation.news(), ["0 inactive", "LAG down"]);
}

#[test]
fn links_that_are_given_up_say_so() {
    let mut conversation = Conversation::up(config(3));
    conversation.link(1, None);
    conversation.actions();
    // The last port leaves the LAG: out of sync, where the others stay as they are.
    conversation.lag.configure(config(2), conversation.now).unwrap();
    assert_eq!(conversation.actions(), ["2 sends AG to AGS", "2 inactive"]);
    // Nothing is said on the link that is down.
    conversation.lag.leave();
    assert_eq!(conversation.actions(), ["0 sends AG to AGS"]);
}

#[test]
fn a_link_that_goes_down_is_inactive_in_the_same_call() {
    let mut conversation = Conversation::up(config(2));
    conversation.link(1, None);
    assert_eq!(conversation.actions(), ["1 inactive"]);
    let view = conversation.port(1);
    assert_eq!((view.receive, view.mux), (ReceiveState::PortDisabled, MuxState::Detached));
    assert!(!view.partner.state.contains(LacpState::SYNCHRONIZATION));
    conversation.link(0, None);
    assert_eq!(conversation.actions(), ["0 inactive", "LAG down"]);
    assert_eq!(conversation.lag.next_event(), None, "nothing to wait for without a link");
}

#[test]
fn a_link_that_is_plugged_into_another_port_attaches_anew() {
    for change in [|pdu: &mut Lacp| pdu.actor.port = 77, |pdu: &mut Lacp| pdu.actor.port_priority = 77] {
        let mut conversation = Conversation::up(config(1));
        let mut pdu = conversation.pdu(0, READY);
        change(&mut pdu);
        conversation.tell(0, pdu).unwrap();
        assert_eq!(conversation.news(), ["0 inactive", "LAG down"]);
        assert_eq!(conversation.port(0).mux, MuxState::Waiting);
        conversation.pass(secs(2));
        pdu.partner = conversation.port(0).actor;
        conversation.tell(0, pdu).unwrap();
        assert!(conversation.lag.is_up());
    }
}

#[test]
fn silence_counts_after_90_seconds_or_3() {
    for (fast, timeout) in [(false, 90), (true, 3)] {
        let mut conversation = Conversation::up(LagConfig { fast, ..config(1) });
        let news =
            |lines: Vec<String>| lines.into_iter().filter(|line| !line.contains("sends")).collect::<Vec<_>>();
        conversation.hear(0, READY);
        assert_eq!(news(conversation.pass(secs(timeout - 1))), [""; 0]);
        assert_eq!(news(conversation.pass(secs(1))), ["0 inactive", "LAG down"]);
        assert_eq!(conversation.port(0).receive, ReceiveState::Expired);
        assert!(conversation.port(0).actor.state.contains(LacpState::EXPIRED));
        conversation.pass(secs(3));
        let view = conversation.port(0);
        assert_eq!((view.receive, view.mux), (ReceiveState::Defaulted, MuxState::Detached));
        assert!(view.actor.state.contains(LacpState::DEFAULTED));
        assert_eq!((view.partner.system, conversation.lag.partner()), (MacAddr::ZERO, None));
    }
}

#[test]
fn a_partner_that_comes_back_while_expired_is_active_without_a_wait() {
    let mut conversation = Conversation::up(LagConfig { fast: true, ..config(1) });
    conversation.pass(secs(4));
    assert_eq!(conversation.port(0).receive, ReceiveState::Expired);
    conversation.actions();
    conversation.hear(0, READY);
    assert_eq!(conversation.news(), ["0 active", "LAG up"]);
}

#[test]
fn the_partner_says_how_often() {
    let mut conversation = Conversation::up(config(1));
    conversation.hear(0, "ATGSCD");
    conversation.actions();
    let mut count = |seconds: u64, letters: &str| {
        let mut sent = 0;
        for _ in 0..seconds {
            conversation.hear(0, letters);
            sent += conversation.pass(secs(1)).len();
        }
        sent
    };
    assert_eq!(count(60, "ATGSCD"), 60);
    let slow = count(60, "AGSCD");
    assert!((2..=3).contains(&slow), "{slow}");
}

#[test]
fn a_partner_that_is_behind_is_told_at_once() {
    let mut conversation = Conversation::up(config(1));
    conversation.pass(secs(5));
    conversation.hear(0, READY);
    assert_eq!(conversation.actions(), [""; 0], "nothing to tell");
    for old in ["AG", "GSCD", "ATGSCD", "ASCD"] {
        conversation.pass(secs(2));
        let mut pdu = conversation.pdu(0, READY);
        pdu.partner.state = state(old);
        conversation.tell(0, pdu).unwrap();
        let sent = conversation.actions();
        assert_eq!(sent.iter().filter(|line| line.contains("sends AGS")).count(), 1, "{old}: {sent:?}");
        conversation.hear(0, READY);
    }
}

#[test]
fn a_passive_end_waits_to_be_spoken_to() {
    let mut conversation = Conversation::new(LagConfig { active: false, ..config(1) });
    assert!(conversation.pass(secs(300)).iter().all(|line| line.contains("churn")));
    conversation.hear(0, "GS");
    let lines = conversation.pass(secs(60));
    assert!(lines.iter().all(|line| line.contains("churn")), "two passive ends do not aggregate: {lines:?}");
    conversation.hear(0, READY);
    let lines = conversation.pass(secs(3));
    assert!(lines.iter().any(|line| line.starts_with("0 sends G")), "{lines:?}");
    assert!(conversation.lag.is_up());
}

#[test]
fn three_frames_a_second_at_most() {
    let mut conversation = Conversation::up(config(1));
    conversation.pass(secs(5));
    let mut sent = Vec::new();
    for _ in 0..100 {
        // The partner has something wrong each time, which asks for an answer.
        let mut pdu = conversation.pdu(0, READY);
        pdu.partner.key = 77;
        conversation.tell(0, pdu).unwrap();
        let lines = conversation.pass(std::time::Duration::from_millis(50));
        sent.extend(lines.iter().filter(|line| line.contains("sends")).map(|_| conversation.now));
    }
    assert!((13..=16).contains(&sent.len()), "{} in five seconds", sent.len());
    assert!(sent.windows(4).all(|four| four[3].since(four[0]) >= secs(1)));
}

#[test]
fn ends_that_do_not_agree_for_a_minute_churn() {
    let mut conversation = Conversation::new(config(1));
    let mut hear_for = |seconds: u64, letters: &str| {
        let mut lines = Vec::new();
        for _ in 0..seconds {
            conversation.hear(0, letters);
            lines.extend(conversation.pass(secs(1)).into_iter().filter(|line| line.contains("churn")));
        }
        lines
    };
    assert_eq!(hear_for(59, "AG"), [""; 0]);
    assert_eq!(hear_for(2, "AG"), ["0 Partner churn true"]);
    assert_eq!(hear_for(2, READY), ["0 Partner churn false"]);

    // Without anybody at the other end neither side comes into sync.
    let mut conversation = Conversation::new(config(1));
    let lines = conversation.pass(secs(61));
    let churn: Vec<_> = lines.into_iter().filter(|line| line.contains("churn")).collect();
    assert_eq!(churn, ["0 Actor churn true", "0 Partner churn true"]);
    conversation.link(0, None);
    assert_eq!(conversation.news(), ["0 Actor churn false", "0 Partner churn false"]);
}

fn marker(kind: MarkerKind, transaction: u32) -> Vec<u8> {
    let marker = Marker {
        kind,
        requester_port: 101,
        requester_system: MacAddr([2, 0, 0, 0, 0, 0x20]),
        requester_transaction: transaction,
    };
    FrameBuilder::new().ethernet(mac(200), MULTICAST).marker(marker).build().unwrap()
}

#[test]
fn markers_are_answered_five_times_a_second() {
    let mut conversation = Conversation::up(config(1));
    conversation.pass(secs(5));
    let mut answers = 0;
    for transaction in 0..100 {
        let frame = marker(MarkerKind::Marker, transaction);
        conversation.lag.receive(0, &frame, conversation.now).unwrap();
        while let Some(action) = conversation.lag.next_action() {
            let sluice_protocols::lacp::Action::Send { port: 0, frame } = action else {
                panic!("{action:?}")
            };
            assert_eq!(&frame[6..12], mac(0).octets());
            let answer = Marker::from(MarkerPacket::parse(&frame[14..]).unwrap());
            assert_eq!((answer.kind, answer.requester_transaction), (MarkerKind::Response, transaction));
            assert_eq!(answer.requester_port, 101);
            answers += 1;
        }
    }
    assert_eq!(answers, 5);
    let counters = conversation.port(0).counters;
    assert_eq!((counters.markers, counters.markers_withheld), (100, 95));
    let response = conversation.lag.receive(0, &marker(MarkerKind::Response, 1), conversation.now);
    assert_eq!(response, Err(Refusal::UnexpectedResponse));
}

#[test]
fn frames_that_are_refused() {
    let mut conversation = Conversation::up(config(2));
    conversation.link(1, None);
    conversation.actions();
    let good = conversation.pdu(0, READY);
    let frame = written(mac(200), good);
    let with = |at: usize, octets: &[u8]| {
        let mut frame = frame.clone();
        frame[at..at + octets.len()].copy_from_slice(octets);
        frame
    };
    let group = Lacp { actor: sluice_wire::lacp::PortInfo { system: MULTICAST, ..good.actor }, ..good };
    let tagged = FrameBuilder::new().ethernet(mac(200), MULTICAST).vlan(VlanId::new(5).unwrap()).lacp(good);
    let cases = [
        (Refusal::UnknownPort, 7, frame.clone()),
        (Refusal::LinkDown, 1, frame.clone()),
        (Refusal::OtherFrame, 0, with(0, &mac(0).octets())),
        (Refusal::OtherFrame, 0, with(12, &EtherType::IPV4.0.to_be_bytes())),
        (Refusal::OtherFrame, 0, tagged.build().unwrap()),
        (Refusal::Malformed, 0, frame[..123].to_vec()),
        (Refusal::Malformed, 0, frame[..10].to_vec()),
        (Refusal::Malformed, 0, with(17, &[19])),
        (Refusal::OtherProtocol, 0, with(14, &[3])),
        (Refusal::System, 0, written(mac(200), group)),
    ];
    let before = conversation.lag.view();
    for (reason, port, frame) in cases {
        let counted = conversation.lag.refusals().count(reason);
        assert_eq!(conversation.lag.receive(port, &frame, conversation.now), Err(reason));
        assert_eq!(conversation.lag.refusals().count(reason), counted + 1);
    }
    assert_eq!(conversation.lag.view(), before, "no refused frame leaves a trace");
    assert_eq!(conversation.actions(), [""; 0]);
    let later_version = with(15, &[2]);
    assert_eq!(conversation.lag.receive(0, &later_version, conversation.now), Ok(()));
}

#[test]
fn a_loop_is_left_out_and_told() {
    let mut conversation = Conversation::up(config(2));
    let own = Lacp { actor: conversation.port(1).actor, ..conversation.pdu(1, READY) };
    assert_eq!(conversation.tell(1, own), Err(Refusal::Loopback));
    assert_eq!(conversation.news(), ["1 inactive", "1 excluded: Loopback"]);
    assert_eq!(conversation.port(1).counters.loopbacks, 1);
    // One of this system's ports plugged into another is a loop as well.
    let crossed = Lacp { actor: conversation.port(1).actor, ..conversation.pdu(0, READY) };
    assert_eq!(conversation.tell(0, crossed), Err(Refusal::Loopback));
    assert_eq!(conversation.news(), ["0 inactive", "0 excluded: Loopback", "LAG down"]);
    for _ in 0..89 {
        conversation.hear(0, READY);
        let lines = conversation.pass(secs(1));
        assert!(lines.iter().all(|line| line.contains("sends") || line.contains("Actor churn")), "{lines:?}");
    }
    conversation.hear(0, READY);
    let lines = conversation.pass(secs(4));
    assert!(
        lines.contains(&"0 no longer excluded".to_owned()) && lines.contains(&"0 active".to_owned()),
        "{lines:?}"
    );
}

#[test]
fn configurations_that_are_refused() {
    let check = |config: LagConfig| sluice_protocols::lacp::Lag::new(config).map(|_| ());
    let ports = |count: u16| (0..count).map(|port| PortConfig::new(port, mac(port))).collect::<Vec<_>>();
    assert_eq!(check(LagConfig::new(OWN, 1, ports(32))), Ok(()));
    assert_eq!(check(LagConfig::new(OWN, 1, ports(33))), Err(LagError::Ports(33)));
    assert_eq!(check(LagConfig::new(OWN, 1, vec![])), Err(LagError::Ports(0)));
    assert_eq!(check(LagConfig::new(OWN, 0, ports(2))), Err(LagError::Key));
    assert_eq!(check(LagConfig::new(MULTICAST, 1, ports(2))), Err(LagError::System(MULTICAST)));
    assert_eq!(check(LagConfig { max_links: 0, ..config(2) }), Err(LagError::MaxLinks(0)));
    assert_eq!(check(LagConfig { max_links: 33, ..config(2) }), Err(LagError::MaxLinks(33)));
    let links = LagConfig { max_links: 2, min_links: 3, ..config(4) };
    assert_eq!(check(links), Err(LagError::MinLinks { min: 3, max: 2 }));
    let twice = vec![PortConfig::new(4, mac(4)), PortConfig::new(4, mac(4))];
    assert_eq!(check(LagConfig::new(OWN, 1, twice)), Err(LagError::Port(4)));
    assert_eq!(LagError::Ports(33).to_string(), "a LAG has 1 to 32 ports, not 33");
}
