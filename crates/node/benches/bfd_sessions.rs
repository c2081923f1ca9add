//! What 10,000 BFD sessions at 300 ms cost a whole node: processor time of its control thread and of its worker, and whether any of them goes down.
//!
//! `cargo bench -p sluice-node --bench bfd_sessions` starts `sluiced` with eight TEPs in a network namespace of its own, and is the 1,250 TEPs on
//! the other end of its uplink: it answers ARP, and runs the other end of each session over Geneve. Everything goes through the
//! kernel's veth and the node's rings. Needs root, and takes about a minute.

#![allow(clippy::unwrap_used, reason = "in a bench a panic is the report")]
#![allow(dead_code, unused_imports, unused_macros, reason = "the tests' support has more than this needs")]

#[path = "../tests/node/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluice_control::Request;
use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{
    Action, PORT, Path, Received, SessionConfig, Sessions, SessionsConfig, TTL, Via,
};
use sluice_wire::ethernet::EthernetView;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::geneve::{Geneve, GeneveView};
use sluice_wire::ipv4::{Ipv4, Ipv4View};
use sluice_wire::udp::UdpView;
use sluice_wire::{EtherType, IpProtocol, MacAddr, Vni};

use support::link::{Link, arp, arp_frame};
use support::network::in_network;
use support::node::{Node, answer};

const LOCALS: u8 = 8;
const REMOTES: u16 = 1_250;
const SESSIONS: usize = LOCALS as usize * REMOTES as usize;
const INTERVAL: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_secs(20);
const NODE_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0xee, 0]);
const INNER_MAC: MacAddr = MacAddr([0, 0, 0x5e, 0, 0x52, 2]);

fn local(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 16, 0, 1 + number)
}

fn remote(number: u16) -> Ipv4Addr {
    Ipv4Addr::from(0xac10_1000 + u32::from(number))
}

fn remote_mac(address: Ipv4Addr) -> MacAddr {
    let [a, b, c, d] = address.octets();
    MacAddr([2, 1, a, b, c, d])
}

fn document() -> String {
    let mut document = String::from(
        "version: 1\nname: node-1\nrole: edge\ndataplane: {flow-cache: {size: 4096}, ring-size: {rx: 4096, tx: 4096}, memory-mib: 128, huge-pages: \"off\"}\n\
         ports:\n  - {name: fp-eth0, kind: af_packet, interface: fp-eth0, mtu: 1700, mac: \"02:00:00:00:ee:00\"}\n\
         uplinks: [{name: uplink-1, port: fp-eth0}]\nbfd: {interval-ms: 300}\nteps:\n",
    );
    for number in 0..LOCALS {
        let address = local(number);
        writeln!(document, "  - {{name: tep-{number}, address: {address}/16, uplink: uplink-1, mtu: 1700}}")
            .unwrap();
    }
    let remotes: Vec<String> = (0..REMOTES).map(|number| remote(number).to_string()).collect();
    writeln!(document, "segments:\n  - {{name: web, vni: 5001, remote-teps: [{}]}}", remotes.join(", "))
        .unwrap();
    document
}

/// The other ends of all sessions.
struct Others {
    sessions: Sessions,
    link: Link,
    start: Instant,
}

impl Others {
    fn new(link: Link) -> Self {
        let mut sessions = Sessions::new(SessionsConfig { seed: 7, ..SessionsConfig::default() });
        for number in 0..REMOTES {
            for tep in 0..LOCALS {
                let path = Path {
                    via: Via::Tunnel { vni: None },
                    local: remote(number).into(),
                    remote: local(tep).into(),
                };
                let config = SessionConfig::every(INTERVAL, 3);
                sessions.add(path, config, Timestamp::default()).unwrap();
            }
        }
        Self { sessions, link, start: Instant::now() }
    }

    fn run(mut self, ends: &AtomicBool, sent: &AtomicU64) {
        while !ends.load(Ordering::Relaxed) {
            let mut quiet = true;
            for _ in 0..256 {
                let Some(frame) = self.link.waiting() else { break };
                quiet = false;
                self.take(&frame);
            }
            let now = self.now();
            self.sessions.advance(now);
            while let Some(action) = self.sessions.next_action() {
                if let Action::Send { path, source_port, payload } = action
                    && let (IpAddr::V4(from), IpAddr::V4(to)) = (path.local, path.remote)
                {
                    self.link.send(&frame(from, to, source_port, &payload));
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            }
            if quiet {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::default().after(self.start.elapsed())
    }

    fn take(&mut self, frame: &[u8]) {
        if let Some(request) = arp(frame) {
            if request.target_address.octets()[2] >= 16 {
                let mac = remote_mac(request.target_address);
                self.link.send(&arp_frame(mac, request.sender_mac, request.reply(mac)));
            }
            return;
        }
        let Some((received, payload)) = bfd(frame) else { return };
        let now = self.now();
        // What is refused is seen as a session that is not up.
        let _ = self.sessions.receive(&received, payload, now);
    }
}

fn frame(from: Ipv4Addr, to: Ipv4Addr, source_port: u16, payload: &[u8]) -> Vec<u8> {
    let geneve = Geneve { vni: None, control: true, ..Geneve::new(Vni::MIN) };
    let outer = FrameBuilder::new().ethernet(remote_mac(from), NODE_MAC).ipv4(from, to);
    let inner = Ipv4 { ttl: TTL, ..Ipv4::new(from, to, IpProtocol::UDP) };
    let frame = outer.geneve(source_port, geneve).ethernet(remote_mac(from), INNER_MAC).ipv4_header(inner);
    frame.udp(source_port, PORT).payload(payload).build().unwrap()
}

/// The BFD packet in a tunnel packet of the node.
fn bfd(frame: &[u8]) -> Option<(Received, &[u8])> {
    let ethernet = EthernetView::parse(frame).ok().filter(|view| view.ether_type() == EtherType::IPV4)?;
    let outer = UdpView::parse(Ipv4View::parse(ethernet.payload()).ok()?.payload()).ok()?;
    let inner = EthernetView::parse(GeneveView::parse(outer.payload()).ok()?.payload()).ok()?;
    let packet = Ipv4View::parse(inner.payload()).ok()?;
    let udp = UdpView::parse(packet.payload()).ok()?;
    let received = Received {
        via: Via::Tunnel { vni: None },
        source: packet.source().into(),
        destination: packet.destination().into(),
        destination_port: udp.destination_port(),
        ttl: packet.ttl(),
    };
    Some((received, udp.payload()))
}

/// Processor time of each thread of a process, by its name.
fn processor_time(pid: u32) -> Vec<(String, Duration)> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let time = |folder: std::path::PathBuf| {
        let name = std::fs::read_to_string(folder.join("comm")).ok()?.trim().to_owned();
        // The first number is the nanoseconds that the thread ran.
        let ran = std::fs::read_to_string(folder.join("schedstat")).ok()?;
        Some((name, Duration::from_nanos(ran.split_whitespace().next()?.parse().ok()?)))
    };
    threads.filter_map(|thread| time(thread.ok()?.path())).collect()
}

/// Gives every thread of a process the first turn on its core, where the system allows it: what else the machine does is not measured. All of them
/// sleep when there is nothing to do.
fn take_turns_first(pid: u32) {
    let output = Command::new("chrt").args(["--all-tasks", "--rr", "--pid", "10", &pid.to_string()]).output();
    if !output.is_ok_and(|output| output.status.success()) {
        println!("at normal priority, so that what else the machine does counts too");
    }
}

fn main() {
    in_network("bfd_sessions", &["fp-eth0"], || {
        let ends = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let others = Others::new(Link::open("fp-eth0"));
        let thread = {
            let (ends, sent) = (Arc::clone(&ends), Arc::clone(&sent));
            std::thread::spawn(move || others.run(&ends, &sent))
        };
        let node = Node::start(&document());
        take_turns_first(node.pid());
        take_turns_first(std::process::id());
        measure(&node, &sent);
        ends.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    });
}

fn measure(node: &Node, sent: &AtomicU64) {
    let sessions = || answer!(node, &Request::GetBfdSessions, BfdSessions).sessions;
    let begun = Instant::now();
    loop {
        let paced = sessions().iter().filter(|session| session.detection_time_ms == Some(900)).count();
        eprintln!(
            "{paced} of {SESSIONS} sessions are up at 300 ms x 3, {:.0?} after the start",
            begun.elapsed()
        );
        if paced == SESSIONS {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the sessions do not come up");
        std::thread::sleep(Duration::from_secs(1));
    }
    // The first packets, of which there is a storm, are not what is measured.
    std::thread::sleep(Duration::from_secs(3));
    let downs =
        |sessions: &[sluice_control::BfdSession]| sessions.iter().map(|session| session.downs).sum::<u64>();
    let counts = |sessions: &[sluice_control::BfdSession]| {
        sessions
            .iter()
            .fold((0, 0), |(sent, received), session| (sent + session.sent, received + session.received))
    };
    let before = sessions();
    let (times, packets) = (processor_time(node.pid()), sent.load(Ordering::Relaxed));
    let begun = Instant::now();
    std::thread::sleep(MEASURED);
    let (elapsed, now) = (begun.elapsed(), processor_time(node.pid()));
    let packets = sent.load(Ordering::Relaxed) - packets;
    let after = sessions();
    let a_second = |count: u64| count as f64 / elapsed.as_secs_f64();
    let (before_counts, after_counts) = (counts(&before), counts(&after));
    println!("{} sessions at 300 ms x 3 over {:.0} s", after.len(), elapsed.as_secs_f64());
    println!(
        "packets a second: {:.0} sent, {:.0} received, {:.0} sent by the other ends",
        a_second(after_counts.0 - before_counts.0),
        a_second(after_counts.1 - before_counts.1),
        a_second(packets)
    );
    println!("sessions that went down: {}", downs(&after) - downs(&before));
    for ((name, now), (_, before)) in now.iter().zip(&times) {
        let share = (*now - *before).as_secs_f64() / elapsed.as_secs_f64();
        println!("thread {name}: {:.1} % of a core", share * 100.0);
    }
}
