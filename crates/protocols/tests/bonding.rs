//! A LAG whose other end is DPDK's bonding driver in mode 4 (802.3ad), which this project did not write.
//!
//! `dpdk-testpmd` runs in a network namespace of the test's own, its bonding device over two veth pairs whose other ends
//! this test has raw sockets on. Without the program or the right to make a namespace the test says so and ends.
//!
//! The driver sends its LACPDUs when its device is asked to send something, so testpmd is told ten times a second to send
//! one packet.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/network.rs"]
mod network;
#[path = "support/testpmd_bonding.rs"]
mod testpmd_bonding;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use network::{Link, in_network};
use sluice_protocols::Timestamp;
use sluice_protocols::lacp::{Action, Lag, LagConfig, PortConfig};
use sluice_wire::MacAddr;
use sluice_wire::lacp::{LacpState, PortInfo};
use testpmd_bonding::Bonding;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(40);

const PORTS: u16 = 2;
const SYSTEM: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// The LAG at this end, in the time that the clock tells.
struct Node {
    lag: Lag,
    links: Vec<Link>,
    start: Instant,
}

impl Node {
    fn new() -> Self {
        let links = (0..PORTS).map(|port| Link::new(&format!("bond{port}"), &format!("lag{port}"))).collect();
        let ports =
            (0..PORTS).map(|port| PortConfig::new(port, MacAddr([2, 0, 0, 0, 1, port as u8]))).collect();
        Self { lag: Lag::new(LagConfig::new(SYSTEM, 7, ports)).unwrap(), links, start: Instant::now() }
    }

    fn now(&self) -> Timestamp {
        Timestamp::default().after(self.start.elapsed())
    }

    /// Runs the LAG until `done`.
    fn run_until(&mut self, what: &str, done: impl Fn(&Lag) -> bool) {
        let end = Instant::now() + LIMIT;
        while !done(&self.lag) {
            assert!(Instant::now() < end, "waited {LIMIT:?} for {what}: {:#?}", self.lag.view());
            for port in 0..PORTS {
                if let Some(frame) = self.links[usize::from(port)].receive() {
                    // What testpmd sends besides is refused as none of the slow protocols.
                    let _ = self.lag.receive(port, &frame, self.now());
                }
            }
            self.lag.advance(self.now());
            while let Some(action) = self.lag.next_action() {
                if let Action::Send { port, frame } = action {
                    self.links[usize::from(port)].send(&frame);
                }
            }
        }
    }

    fn link_state(&mut self, port: u16, up: bool) {
        let now = self.now();
        self.lag.link_state(port, up.then_some(10_000), now);
    }

    fn partners(&self) -> Vec<PortInfo> {
        self.lag.view().ports.iter().map(|port| port.partner).collect()
    }
}

/// What the other end says of a port: it collects and distributes.
fn carries(partner: &PortInfo) -> bool {
    partner.state.contains(LacpState::COLLECTING.and(LacpState::DISTRIBUTING))
}

#[test]
fn links_to_dpdk_bonding_aggregate() {
    let version = Command::new("dpdk-testpmd").arg("--version").stdin(Stdio::null()).output();
    if version.is_err() {
        println!(
            "links_to_dpdk_bonding_aggregate: SKIPPED, since dpdk-testpmd (package dpdk) is not installed"
        );
        return;
    }
    in_network("links_to_dpdk_bonding_aggregate", || {
        let mut node = Node::new();
        let bonding = Bonding::over(["bond0", "bond1"]);
        (0..PORTS).for_each(|port| node.link_state(port, true));
        node.run_until("two links that both ends use", |lag| {
            lag.active_ports().count() == 2 && lag.view().ports.iter().all(|port| carries(&port.partner))
        });
        let partners = node.partners();
        assert_eq!(partners[0].system, partners[1].system);
        assert_eq!(partners[0].key, partners[1].key);
        assert_ne!(partners[0].port, partners[1].port);

        // A link that this end takes out, and puts in again.
        node.link_state(1, false);
        assert_eq!(node.lag.active_ports().collect::<Vec<_>>(), [0]);
        node.link_state(1, true);
        node.run_until("the second link again", |lag| {
            lag.active_ports().count() == 2 && lag.view().ports.iter().all(|port| carries(&port.partner))
        });
        let said = bonding.finish("show bonding lacp info 2\n");
        let own = SYSTEM.to_string().to_uppercase();
        let partners = said.lines().filter(|line| line.contains(&own)).count();
        assert_eq!(partners, 2, "the driver knows its partner on both ports: {said}");
    });
}
