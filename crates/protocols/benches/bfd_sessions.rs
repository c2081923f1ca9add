//! What 10,000 BFD sessions at 300 ms cost: one end's work, with the other end's packets made beforehand.
//!
//! `cargo bench -p sluice-protocols --bench bfd_sessions` plays seconds of protocol as fast as it can, in steps of 1 ms as a
//! thread of the node would, and prints what a call costs and which part of a core that is. The packets of the other end
//! go through [`Sessions::receive`] with all checks; what is sent is taken from the queue and dropped.

use std::time::{Duration, Instant};

use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{
    Action, PORT, Path, Received, SessionConfig, Sessions, SessionsConfig, TTL, Via,
};
use sluice_wire::bfd::{Bfd, BfdDiagnostic, BfdPacket, BfdState};

const SESSIONS: u32 = 10_000;
const INTERVAL: Duration = Duration::from_millis(300);
/// Packets of one session come this often: in the middle of the range that jitter gives them.
const PEER_MILLISECONDS: u32 = 262;
const MEASURED_SECONDS: u64 = 20;

/// What was counted and timed.
#[derive(Default)]
struct Cost {
    advance: Duration,
    longest_advance: Duration,
    receive: Duration,
    steps: u64,
    sent: u64,
    received: u64,
}

fn path(number: u32) -> Path {
    let [_, high, middle, low] = number.to_be_bytes();
    Path {
        via: Via::Tunnel { vni: None },
        local: [10, 255, 0, 1].into(),
        remote: [10, high, middle, low].into(),
    }
}

fn meta(path: &Path) -> Received {
    Received { via: path.via, source: path.remote, destination: path.local, destination_port: PORT, ttl: TTL }
}

/// The other end's packet for each session.
fn peer_packet(number: u32, discriminator: u32, state: BfdState, final_flag: bool) -> [u8; 24] {
    let interval = INTERVAL.as_micros() as u32;
    let packet = Bfd {
        state,
        diagnostic: BfdDiagnostic::NONE,
        poll_flag: false,
        final_flag,
        control_plane_independent: false,
        demand: false,
        detect_multiplier: 3,
        my_discriminator: number + 1,
        your_discriminator: discriminator,
        desired_min_tx: interval,
        required_min_rx: interval,
        required_min_echo_rx: 0,
    };
    let mut octets = [0; 24];
    packet.emit(&mut octets).expect("the buffer has the packet's length");
    octets
}

/// A table of sessions that are all up and have ended their poll sequences.
fn sessions_up(now: Timestamp) -> Sessions {
    let mut sessions = Sessions::new(SessionsConfig { seed: 1, ..SessionsConfig::default() });
    for number in 0..SESSIONS {
        let path = path(number);
        sessions.add(path, SessionConfig::every(INTERVAL, 3), now).expect("a new path");
        let discriminator = sessions.get(&path).expect("it was added").local_discriminator;
        for (state, end) in [(BfdState::Init, false), (BfdState::Up, true)] {
            let packet = peer_packet(number, discriminator, state, end);
            sessions.receive(&meta(&path), &packet, now).expect("a good packet");
        }
    }
    while sessions.next_action().is_some() {}
    sessions
}

/// One millisecond: the packets that came in, then what is due.
fn step(sessions: &mut Sessions, packets: &[(Received, [u8; 24])], now: Timestamp, cost: &mut Cost) {
    let begin = Instant::now();
    for (meta, packet) in packets {
        sessions.receive(meta, packet, now).expect("a good packet");
    }
    let received = Instant::now();
    sessions.advance(now);
    while let Some(action) = sessions.next_action() {
        match action {
            Action::Send { payload, .. } => {
                assert!(BfdPacket::parse(&payload).is_ok());
                cost.sent += 1;
            }
            Action::StateChanged { path, to, .. } => panic!("{path:?} is {to}"),
        }
    }
    let advance = received.elapsed();
    cost.advance += advance;
    cost.longest_advance = cost.longest_advance.max(advance);
    cost.receive += received - begin;
    cost.steps += 1;
    cost.received += packets.len() as u64;
}

fn main() {
    let start = Timestamp::from_secs(1);
    let mut sessions = sessions_up(start);
    let mut packets = vec![Vec::new(); PEER_MILLISECONDS as usize];
    for number in 0..SESSIONS {
        let discriminator = sessions.get(&path(number)).expect("it was added").local_discriminator;
        let packet = peer_packet(number, discriminator, BfdState::Up, false);
        packets[(number % PEER_MILLISECONDS) as usize].push((meta(&path(number)), packet));
    }
    // A second to spread the timers, then what is measured.
    let mut cost = Cost::default();
    for millisecond in 1..=(MEASURED_SECONDS + 1) * 1000 {
        if millisecond == 1001 {
            cost = Cost::default();
        }
        let now = start.after(Duration::from_millis(millisecond));
        let arrived = &packets[(millisecond % u64::from(PEER_MILLISECONDS)) as usize];
        step(&mut sessions, arrived, now, &mut cost);
    }
    let seconds = cost.steps as f64 / 1000.0;
    let part = (cost.advance + cost.receive).as_secs_f64() / seconds * 100.0;
    println!("{SESSIONS} sessions at {INTERVAL:?}, {seconds} s of protocol");
    println!(
        "advance     {:>9.3} µs a call, the longest {:.1} µs",
        micros(cost.advance, cost.steps),
        micros(cost.longest_advance, 1)
    );
    println!("receive     {:>9.3} µs a packet", micros(cost.receive, cost.received));
    println!("sent        {:>9.0} packets a second", cost.sent as f64 / seconds);
    println!("received    {:>9.0} packets a second", cost.received as f64 / seconds);
    println!("one core    {part:>9.2} % busy");
}

fn micros(time: Duration, calls: u64) -> f64 {
    time.as_secs_f64() * 1e6 / calls as f64
}
