//! Single-hop BFD with a neighbour on an interface of the tier-0: BIRD, which this project did not write. Static routes leave the neighbour out
//! while it is not reached, and a node that reaches no other node takes its own session down.
//!
//! ```text
//! web-1 ─ node-1 ─ fp-eth1 198.51.100.2 ──┬── 198.51.100.1 BIRD, watched
//!                                         └── 198.51.100.3 the test, not watched
//! ```

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sluice_control::{Alarm, BfdSession, Request};
use sluice_wire::MacAddr;
use tempfile::TempDir;

use crate::support::documents::{self, PORTS, ROUTER_MAC, WEB_1, changed};
use crate::support::frames::flow;
use crate::support::link::Link;
use crate::support::network::{in_network, ip};
use crate::support::node::{Node, answer};
use crate::support::wait_for;

const BIRD_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0xff, 1]);
const OTHER: (Ipv4Addr, MacAddr) = (Ipv4Addr::new(198, 51, 100, 3), MacAddr([2, 0, 0, 0, 0xff, 3]));

const BIRD: &str = r#"
router id 198.51.100.1;
protocol device { }
protocol bfd {
  interface "fp-eth1-peer" { interval 300 ms; idle tx interval 1 s; multiplier 5; };
  neighbor 198.51.100.2 dev "fp-eth1-peer" local 198.51.100.1;
}
"#;

/// A running BIRD.
struct Bird {
    child: Child,
    folder: TempDir,
}

impl Bird {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("bird.conf"), BIRD).unwrap();
        let mut command = Command::new("bird");
        command.arg("-f").arg("-c").arg(file("bird.conf")).arg("-s").arg(file("socket"));
        command.arg("-P").arg(file("pid")).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().unwrap(), folder }
    }

    fn sessions(&self) -> String {
        let socket: &Path = &self.folder.path().join("socket");
        let output =
            Command::new("birdc").arg("-s").arg(socket).args(["show", "bfd", "sessions"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn wait_for_state(&self, state: &str) {
        wait_for(&format!("BIRD to say {state}"), || {
            let said = self.sessions();
            said.lines().any(|line| line.contains("198.51.100.2") && line.contains(state)).then_some(())
        });
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn document() -> String {
    let document = changed(&documents::on_interfaces(), "198.51.100.2/30", "198.51.100.2/29");
    let watched = "bfd-peers: [{address: 198.51.100.1, interval-ms: 300}]\n    static-routes:";
    let hops = "next-hops: [{address: 198.51.100.1}, {address: 198.51.100.3}]";
    changed(&changed(&document, "static-routes:", watched), "next-hops: [{address: 198.51.100.1}]", hops)
}

fn session(node: &Node) -> BfdSession {
    answer!(node, &Request::GetBfdSessions, BfdSessions).sessions.remove(0)
}

fn alarms(node: &Node) -> Vec<(String, String)> {
    let alarms: Vec<Alarm> = answer!(node, &Request::GetAlarms, Alarms);
    alarms.into_iter().map(|alarm| (alarm.kind, alarm.object)).collect()
}

/// How many of forty flows leave to BIRD and to the other neighbour. None is lost.
fn taken(web_1: &Link, north: &Link) -> [usize; 2] {
    let mut counts = [0; 2];
    for source_port in 1..=40 {
        let marker = format!("flow {source_port}");
        web_1.send(&flow(WEB_1, ROUTER_MAC, Ipv4Addr::new(203, 0, 113, 9), source_port, marker.as_bytes()));
        let to = north
            .expect("the datagram", |frame| frame.ends_with(marker.as_bytes()).then(|| frame[..6].to_vec()));
        counts[usize::from(to != BIRD_MAC.octets())] += 1;
    }
    counts
}

#[test]
fn a_neighbor_is_used_while_its_session_is_up_and_told_when_the_node_is_isolated() {
    let name = "bfd_neighbors::a_neighbor_is_used_while_its_session_is_up_and_told_when_the_node_is_isolated";
    let installed = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !installed("bird") || !installed("birdc") {
        println!("{name}: SKIPPED, since bird and birdc (package bird2) are not installed");
        return;
    }
    in_network(name, &PORTS, || {
        ip(&format!("link set fp-eth1-peer address {BIRD_MAC}"));
        ip("address add 198.51.100.1/29 dev fp-eth1-peer");
        // BIRD's kernel is to complete its checksums itself: what the port reads is as on a wire.
        let off = Command::new("ethtool").args(["-K", "fp-eth1-peer", "tx", "off"]).output().unwrap();
        assert!(off.status.success(), "{off:?}");
        let web_1 = Link::open("web-1");
        let mut north = Link::open("fp-eth1");
        north.answer_for(OTHER.0, OTHER.1);
        let bird = Bird::start();
        let node = Node::start(&document());
        wait_for("the session", || (session(&node).state == "Up").then_some(()));
        bird.wait_for_state("Up");
        assert_eq!((session(&node).tep.as_str(), session(&node).encap.as_str()), ("t0/to-router", ""));
        // Until the other neighbour's MAC address is known its flows wait.
        let answer_arp = || {
            north.glance();
            let neighbors = answer!(node, &Request::GetNeighbor, Neighbors);
            neighbors
                .iter()
                .any(|neighbor| neighbor.address == OTHER.0 && neighbor.mac == OTHER.1.to_string())
                .then_some(())
        };
        wait_for("the other neighbour", answer_arp);
        let [bird_has, other_has] = taken(&web_1, &north);
        assert!(bird_has > 5 && other_has > 5, "{bird_has} and {other_has} of 40 flows");

        // BIRD dies: no link shows it.
        drop(bird);
        let down = ("neighbor-down".to_owned(), "198.51.100.2 to 198.51.100.1".to_owned());
        wait_for("the alarm", || (alarms(&node) == [down.clone()]).then_some(()));
        assert_eq!(taken(&web_1, &north), [0, 40]);
        let bird = Bird::start();
        wait_for("the end of the alarm", || alarms(&node).is_empty().then_some(()));
        assert_eq!(taken(&web_1, &north), [bird_has, other_has], "every flow is back");

        // The only TEP loses its link: the node reaches nobody, and says so to its neighbour.
        bird.wait_for_state("Up");
        ip("link set fp-eth0-peer down");
        bird.wait_for_state("Down");
        let kinds: Vec<String> = alarms(&node).into_iter().map(|(kind, _)| kind).collect();
        assert!(kinds.contains(&"node-isolated".to_owned()), "{kinds:?}");
        assert_eq!(session(&node).state, "Down");
        ip("link set fp-eth0-peer up");
        bird.wait_for_state("Up");
        wait_for("no alarm", || alarms(&node).is_empty().then_some(()));
    });
}
