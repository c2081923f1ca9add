//! Any packets, configurations and pauses: the sessions' states are those that the actions tell, every packet is accepted
//! or counted as refused, and nothing panics.
//!
//! The input is a list of steps: a byte that says which, a byte for the pause before it, and for a packet its 24 bytes.

#![no_main]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{
    Action, PORT, Path, Received, SessionConfig, Sessions, SessionsConfig, TTL, Via,
};
use sluice_wire::bfd::{BfdPacket, BfdState};

fn path(number: u8) -> Path {
    let remote = IpAddr::from([192, 0, 2, 2 + number % 4]);
    Path { via: Via::Tunnel { vni: None }, local: [192, 0, 2, 1].into(), remote }
}

/// A packet of the input, for a session whose discriminator it cannot guess.
fn packet(sessions: &Sessions, path: &Path, bytes: &[u8], known: bool) -> Vec<u8> {
    let mut octets = bytes.to_vec();
    if let (true, Some(field), Some(view)) = (known, octets.get_mut(8..12), sessions.get(path)) {
        field.copy_from_slice(&view.local_discriminator.to_be_bytes());
    }
    octets
}

fn check(sessions: &mut Sessions, up: &mut BTreeSet<Path>) {
    while let Some(action) = sessions.next_action() {
        match action {
            Action::Send { payload, .. } => {
                drop(BfdPacket::parse(&payload).expect("what is sent is well-formed"))
            }
            Action::StateChanged { path, to: BfdState::Up, .. } => assert!(up.insert(path)),
            Action::StateChanged { path, from, .. } => assert_eq!(up.remove(&path), from == BfdState::Up),
        }
    }
    let really: BTreeSet<_> =
        sessions.sessions().filter(|view| view.state == BfdState::Up).map(|view| view.path).collect();
    assert_eq!(really, *up);
}

fuzz_target!(|input: &[u8]| {
    let mut sessions = Sessions::new(SessionsConfig { sessions: 3, seed: 1 });
    let (mut now, mut up, mut rest) = (Timestamp::from_secs(1), BTreeSet::new(), input);
    while let [kind, pause, tail @ ..] = rest {
        rest = tail;
        now = now.after(Duration::from_millis(u64::from(*pause) * u64::from(*pause)));
        let path = path(kind >> 3);
        let config = SessionConfig {
            passive: pause & 1 != 0,
            enabled: pause & 6 != 6,
            ..SessionConfig::every(Duration::from_millis(50 + 10 * u64::from(*pause)), 1 + pause % 16)
        };
        match kind % 8 {
            0 => drop(sessions.add(path, config, now)),
            1 => drop(sessions.update(&path, config, now)),
            2 if pause & 16 == 0 => drop(sessions.remove(&path, now)),
            2 => sessions.path_down(|candidate| *candidate == path, now),
            3 => sessions.path_up(|_| true, now),
            4 => {}
            _ => {
                let (bytes, tail) = rest.split_at(rest.len().min(24));
                rest = tail;
                let received = Received {
                    via: path.via,
                    source: path.remote,
                    destination: path.local,
                    destination_port: PORT,
                    ttl: TTL,
                };
                let refused = sessions.refusals().total();
                let octets = packet(&sessions, &path, bytes, kind % 8 > 5);
                let result = sessions.receive(&received, &octets, now);
                assert_eq!(sessions.refusals().total() - refused, u64::from(result.is_err()));
            }
        }
        check(&mut sessions, &mut up);
        sessions.advance(now);
        assert!(sessions.next_event().is_none_or(|next| next > now));
        check(&mut sessions, &mut up);
    }
});
