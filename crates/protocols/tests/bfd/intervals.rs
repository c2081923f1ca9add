//! When packets are sent and when silence counts (RFC 5880 §6.8.2 to §6.8.4, §6.8.7).

use sluice_protocols::bfd::SessionConfig;
use sluice_wire::bfd::BfdState;

use crate::support::{Conversation, ms, path};

/// The moments of packets within `time`, in milliseconds from the last one, with a peer that is heard all the time.
fn gaps(conversation: &mut Conversation, time: u64) -> Vec<u64> {
    let mut gaps = Vec::new();
    let mut last = conversation.now;
    for step in 0..time {
        if step % 100 == 0 {
            conversation.say(BfdState::Up).unwrap();
        }
        if !conversation.pass(ms(1)).is_empty() {
            gaps.push(conversation.now.since(last).as_millis() as u64);
            last = conversation.now;
        }
    }
    gaps
}

#[test]
fn a_session_that_is_down_sends_once_a_second() {
    let mut conversation = Conversation::new(SessionConfig::every(ms(50), 3));
    let lines = conversation.pass(ms(60_000));
    // Between 75 and 100 % of a second.
    assert!((60..=80).contains(&lines.len()), "{} packets", lines.len());
    assert!(lines.iter().all(|line| line == "Down diag 0 x3 >0 1000/50"));
}

#[test]
fn jitter_is_a_quarter_and_with_multiplier_one_at_least_a_tenth() {
    for (multiplier, most) in [(3, 300), (1, 270)] {
        let mut conversation = Conversation::up();
        let config = SessionConfig::every(ms(300), multiplier);
        conversation.sessions.update(&path(1, 2), config, conversation.now).unwrap();
        let gaps = &gaps(&mut conversation, 60_000)[2..];
        let (least, greatest) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
        assert!(*least >= 225 && *greatest <= most, "{least} to {greatest} of at most {most}");
        assert!(*least < 232 && *greatest > most - 7, "the whole range is used: {least} to {greatest}");
    }
}

#[test]
fn the_slower_of_wish_and_ability_counts() {
    let mut conversation = Conversation::up();
    conversation.peer.required_min_rx = 500_000;
    conversation.say(BfdState::Up).unwrap();
    assert_eq!(conversation.view().transmit_interval, Some(ms(500)));
    let gaps = &gaps(&mut conversation, 20_000)[2..];
    assert!(gaps.iter().all(|gap| (375..=500).contains(gap)), "{gaps:?}");
}

#[test]
fn silence_counts_after_the_peers_multiplier_of_intervals() {
    let mut conversation = Conversation::up();
    (conversation.peer.detect_multiplier, conversation.peer.desired_min_tx) = (5, 400_000);
    conversation.say(BfdState::Up).unwrap();
    let start = conversation.now;
    assert_eq!(conversation.view().detection_time, Some(ms(2000)));
    let quiet = conversation.pass(ms(1999));
    assert!(quiet.iter().all(|line| line.starts_with("Up")), "{quiet:?}");
    let lines = conversation.pass(ms(1));
    let down = ["Up→Down: control detection time expired", "Down diag 1 x3 >0 1000/300"];
    assert!(lines.ends_with(&down.map(String::from)), "{lines:?}");
    let view = conversation.view();
    assert_eq!((view.remote_discriminator, view.detection_time), (0, None));
    assert_eq!(view.counters.last_down, Some(start.after(ms(2000))));
}

#[test]
fn a_peer_that_was_heard_and_is_not_is_forgotten_in_every_state() {
    let mut conversation = Conversation::new(SessionConfig::every(ms(300), 3));
    conversation.say(BfdState::Up).unwrap();
    assert_eq!((conversation.view().state, conversation.view().remote_discriminator), (BfdState::Down, 0x77));
    conversation.pass(ms(899));
    assert_eq!(conversation.view().remote_discriminator, 0x77);
    conversation.pass(ms(1));
    assert_eq!(conversation.view().remote_discriminator, 0);
}

#[test]
fn a_slower_pace_waits_for_the_answer_to_the_poll() {
    let mut conversation = Conversation::up();
    let slower = SessionConfig::every(ms(1000), 3);
    conversation.sessions.update(&path(1, 2), slower, conversation.now).unwrap();
    let lines = conversation.pass_heard(ms(1500));
    assert!(lines.len() >= 4, "at the old interval still: {lines:?}");
    assert!(lines.iter().all(|line| line == "Up diag 0 x3 >77 1000/1000 P"), "{lines:?}");
    // What is received less often is believed at once: detection waits for the longer time.
    assert_eq!(conversation.view().detection_time, Some(ms(3000)));
    conversation.tell(|packet| (packet.state, packet.final_flag) = (BfdState::Up, true)).unwrap();
    assert_eq!(conversation.view().transmit_interval, Some(ms(1000)));
    let lines = conversation.pass_heard(ms(4000));
    assert!((4..=6).contains(&lines.len()) && lines.iter().all(|line| !line.ends_with('P')), "{lines:?}");
}

#[test]
fn a_faster_pace_is_sent_at_once_and_expected_after_the_answer() {
    let mut conversation = Conversation::up();
    conversation.peer.desired_min_tx = 50_000;
    conversation.peer.required_min_rx = 50_000;
    conversation.say(BfdState::Up).unwrap();
    let faster = SessionConfig::every(ms(100), 3);
    conversation.sessions.update(&path(1, 2), faster, conversation.now).unwrap();
    assert_eq!(conversation.view().transmit_interval, Some(ms(100)));
    assert_eq!(conversation.view().detection_time, Some(ms(900)));
    conversation.tell(|packet| (packet.state, packet.final_flag) = (BfdState::Up, true)).unwrap();
    assert_eq!(conversation.view().detection_time, Some(ms(300)));
    let lines = conversation.pass(ms(300));
    assert!(lines.iter().any(|line| line.starts_with("Up→Down")), "{lines:?}");
}

#[test]
fn a_change_during_a_poll_sequence_is_polled_for_again() {
    let mut conversation = Conversation::up();
    let update = |conversation: &mut Conversation, interval| {
        let config = SessionConfig::every(ms(interval), 3);
        conversation.sessions.update(&path(1, 2), config, conversation.now).unwrap();
    };
    update(&mut conversation, 1000);
    update(&mut conversation, 2000);
    let answer = |conversation: &mut Conversation| {
        conversation.tell(|packet| (packet.state, packet.final_flag) = (BfdState::Up, true)).unwrap();
        (conversation.view().polling, conversation.view().transmit_interval.unwrap())
    };
    assert_eq!(answer(&mut conversation), (true, ms(300)), "an answer to the first poll");
    assert_eq!(answer(&mut conversation), (false, ms(2000)));
}

#[test]
fn a_passive_session_waits_to_be_spoken_to() {
    let config = SessionConfig { passive: true, ..SessionConfig::every(ms(300), 3) };
    let mut conversation = Conversation::new(config);
    assert_eq!((conversation.pass(ms(10_000)), conversation.sessions.next_event()), (vec![], None));
    conversation.tell(|packet| packet.your_discriminator = 0).unwrap();
    assert_eq!(conversation.actions(), ["Down→Init: no diagnostic", "Init diag 0 x3 >77 1000/300"]);
    conversation.say(BfdState::Init).unwrap();
    assert_eq!(conversation.view().state, BfdState::Up);
    let lines = conversation.pass(ms(10_000));
    let down = lines.iter().position(|line| line.starts_with("Up→Down")).unwrap();
    assert!(lines.len() - down <= 1, "silent after the peer is: {:?}", &lines[down..]);
}

#[test]
fn demand_and_a_required_interval_of_zero_stop_periodic_packets() {
    let mut conversation = Conversation::up();
    conversation.peer.demand = true;
    assert_eq!(conversation.pass_heard(ms(3000)), [""; 0]);
    // A poll sequence is sent all the same, and ends.
    conversation.sessions.update(&path(1, 2), SessionConfig::every(ms(200), 3), conversation.now).unwrap();
    assert!(!conversation.pass_heard(ms(1000)).is_empty());
    conversation.tell(|p| (p.state, p.final_flag, p.demand) = (BfdState::Up, true, true)).unwrap();
    assert_eq!(conversation.pass_heard(ms(1000)), [""; 0]);
    conversation.peer.demand = false;
    assert!(!conversation.pass_heard(ms(1000)).is_empty());
    conversation.peer.required_min_rx = 0;
    conversation.say(BfdState::Up).unwrap();
    conversation.pass(ms(1));
    assert_eq!(conversation.view().transmit_interval, None);
    assert_eq!(conversation.pass_heard(ms(3000)), [""; 0]);
    conversation.say(BfdState::Down).unwrap();
    assert_eq!(conversation.actions().len(), 2, "a change of state is told nevertheless");
}

#[test]
fn a_thread_that_was_busy_sends_once_and_not_in_arrears() {
    let mut conversation = Conversation::up();
    conversation.now = conversation.now.after(ms(850));
    conversation.say(BfdState::Up).unwrap();
    conversation.sessions.advance(conversation.now);
    assert_eq!(conversation.actions(), ["Up diag 0 x3 >77 300/300"]);
    assert_eq!(conversation.view().state, BfdState::Up, "the packet that waited was handed in first");
}
