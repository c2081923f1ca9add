//! A BFD session whose other end is BIRD, which this project did not write.
//!
//! BIRD runs in a network namespace of the test's own, behind a veth pair whose other end this test has a raw socket on.
//! Without the programs `bird` and `birdc` (package bird2), or the right to make a namespace, the test says so and ends.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/network.rs"]
mod network;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use network::{Link, in_network, ip};
use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{
    Action, PORT, Path, Received, SessionConfig, SessionView, Sessions, SessionsConfig, TTL, Via,
};
use sluice_wire::bfd::{BfdDiagnostic, BfdState};
use sluice_wire::ethernet::EthernetView;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::ipv4::{Ipv4, Ipv4View};
use sluice_wire::udp::UdpView;
use sluice_wire::{EtherType, IpProtocol, MacAddr};

const LIMIT: Duration = Duration::from_secs(20);

const OWN: (MacAddr, Ipv4Addr) = (MacAddr([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 9, 0, 1));
const BIRD: (MacAddr, Ipv4Addr) = (MacAddr([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(10, 9, 0, 2));

const CONFIGURATION: &str = r#"
router id 10.9.0.2;
protocol device { }
protocol bfd {
  interface "bird" { min rx interval 200 ms; min tx interval 150 ms; idle tx interval 1 s; multiplier 20; };
  neighbor 10.9.0.1 dev "bird" local 10.9.0.2;
}
"#;

/// A running BIRD, in a folder of its own.
struct Bird {
    child: Child,
    folder: PathBuf,
}

impl Bird {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("sluice-bird-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("bird.conf"), CONFIGURATION).unwrap();
        let mut command = Command::new("bird");
        command.arg("-f").arg("-c").arg(folder.join("bird.conf")).arg("-s").arg(folder.join("socket"));
        command.arg("-P").arg(folder.join("pid")).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().unwrap(), folder }
    }

    fn sessions(&self) -> String {
        let mut command = Command::new("birdc");
        command.arg("-s").arg(self.folder.join("socket")).args(["show", "bfd", "sessions"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn path() -> Path {
    let via = Via::Link(sluice_protocols::neighbor::Link::untagged(0));
    Path { via, local: OWN.1.into(), remote: BIRD.1.into() }
}

/// This end, in the time that the clock tells.
struct Node {
    sessions: Sessions,
    link: Link,
    start: Instant,
    /// Nothing is sent.
    mute: bool,
}

impl Node {
    fn now(&self) -> Timestamp {
        Timestamp::default().after(self.start.elapsed())
    }

    fn view(&self) -> SessionView {
        self.sessions.get(&path()).unwrap()
    }

    fn update(&mut self, interval: u64, multiplier: u8) {
        let config = SessionConfig::every(Duration::from_millis(interval), multiplier);
        let now = self.now();
        self.sessions.update(&path(), config, now).unwrap();
    }

    fn run_until(&mut self, what: &str, done: impl Fn(&SessionView) -> bool) {
        let end = Instant::now() + LIMIT;
        while !done(&self.view()) {
            assert!(Instant::now() < end, "waited {LIMIT:?} for {what}: {:#?}", self.view());
            self.step();
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.step();
        }
    }

    fn step(&mut self) {
        if let Some(frame) = self.link.receive()
            && let Some((received, payload)) = datagram(&frame)
        {
            self.sessions.receive(&received, &payload, self.now()).unwrap();
        }
        self.sessions.advance(self.now());
        while let Some(action) = self.sessions.next_action() {
            if let (Action::Send { source_port, payload, .. }, false) = (action, self.mute) {
                let header = Ipv4 { ttl: TTL, ..Ipv4::new(OWN.1, BIRD.1, IpProtocol::UDP) };
                let frame = FrameBuilder::new().ethernet(OWN.0, BIRD.0).ipv4_header(header);
                self.link.send(&frame.udp(source_port, PORT).payload(&payload).build().unwrap());
            }
        }
    }
}

/// The BFD packet in a frame, and what it came with.
fn datagram(frame: &[u8]) -> Option<(Received, Vec<u8>)> {
    let ethernet = EthernetView::parse(frame).ok().filter(|view| view.ether_type() == EtherType::IPV4)?;
    let packet =
        Ipv4View::parse(ethernet.payload()).ok().filter(|view| view.protocol() == IpProtocol::UDP)?;
    let udp = UdpView::parse(packet.payload()).ok().filter(|view| view.destination_port() == PORT)?;
    let received = Received {
        via: path().via,
        source: IpAddr::V4(packet.source()),
        destination: IpAddr::V4(packet.destination()),
        destination_port: udp.destination_port(),
        ttl: packet.ttl(),
    };
    Some((received, udp.payload().to_vec()))
}

#[test]
fn a_session_with_bird() {
    let installed = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !installed("bird") || !installed("birdc") {
        println!("a_session_with_bird: SKIPPED, since bird and birdc (package bird2) are not installed");
        return;
    }
    in_network("a_session_with_bird", || {
        let link = Link::new("bird", "own");
        ip(&format!("link set bird address {}", BIRD.0));
        ip(&format!("address add {}/24 dev bird", BIRD.1));
        ip(&format!("neighbor add {} lladdr {} dev bird", OWN.1, OWN.0));
        let bird = Bird::start();
        let sessions = Sessions::new(SessionsConfig { seed: 3, ..SessionsConfig::default() });
        let mut node = Node { sessions, link, start: Instant::now(), mute: false };
        let config = SessionConfig::every(Duration::from_millis(100), 10);
        node.sessions.add(path(), config, node.now()).unwrap();

        node.run_until("both ends up and agreed", |view| {
            (view.state, view.remote_state, view.polling) == (BfdState::Up, BfdState::Up, false)
        });
        // BIRD receives every 200 ms at the soonest, and sends twenty packets, one every 150 ms, in the detection time.
        node.run_until("BIRD's intervals", |view| view.detection_time == Some(Duration::from_secs(3)));
        assert_eq!(node.view().transmit_interval, Some(Duration::from_millis(200)));
        let said = bird.sessions();
        assert!(
            said.contains("Up") && said.contains("0.150") && said.contains("2.000"),
            "interval, timeout: {said}"
        );

        // Other intervals, by a poll sequence, without a flap.
        node.update(500, 5);
        node.run_until("the end of the poll sequence", |view| !view.polling);
        node.run_for(Duration::from_secs(2));
        assert_eq!(node.view().transmit_interval, Some(Duration::from_millis(500)));
        let said = bird.sessions();
        assert!(said.contains("0.500") && said.contains("2.500"), "interval, timeout: {said}");
        assert_eq!(node.view().counters.downs, 0);

        // Silence of this end: BIRD's detection time passes, and it says so.
        node.mute = true;
        node.run_until("BIRD to notice", |view| view.state == BfdState::Down);
        let view = node.view();
        assert_eq!(view.remote_diagnostic, BfdDiagnostic::CONTROL_DETECTION_TIME_EXPIRED);
        assert_eq!(view.diagnostic, BfdDiagnostic::NEIGHBOR_SIGNALED_SESSION_DOWN);
        node.mute = false;
        node.run_until("both ends up again", |view| {
            (view.state, view.remote_state) == (BfdState::Up, BfdState::Up)
        });

        // Silence of BIRD.
        drop(bird);
        node.run_until("silence", |view| view.state == BfdState::Down);
        assert_eq!(node.view().diagnostic, BfdDiagnostic::CONTROL_DETECTION_TIME_EXPIRED);
        assert_eq!(node.sessions.refusals().total(), 0);
    });
}
