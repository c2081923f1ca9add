//! LAGs of whole nodes: flows spread, a link that is cut, partners that are wrong, and what outlives a change.

mod bonding;
pub(crate) mod teams;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sluice_control::{Alarm, Lag, LagLink, Request};
use sluice_wire::MacAddr;
use sluice_wire::arp::Arp;
use sluice_wire::ethernet::EthernetView;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::lacp::{Lacp, LacpState, PortInfo};
use sluice_wire::slow_protocols::{MULTICAST, SlowProtocol};

use crate::support::link::{Link, arp_frame};
use crate::support::network::{in_network, ip};
use crate::support::node::{Node, answer};
use crate::support::wait_for;
use crate::tep_groups::{NONE, probe, sent};

/// Interfaces of the workloads and of the links; the second node has the far ends of those.
const PORTS: [&str; 5] = ["web-1", "web-2", "fp-eth0", "fp-eth1", "fp-eth2"];
/// A system that is neither node's.
const STRANGER: MacAddr = MacAddr([2, 0, 0, 0, 0xbb, 1]);

/// One of two nodes with a LAG between them, over these interfaces: `own` and `other` are the last octets of their TEPs.
pub(crate) fn document(name: &str, workload: &str, interfaces: &[&str], own: u8, other: u8) -> String {
    let other_workload = if workload == "web-1" { "web-2" } else { "web-1" };
    let [(mac, address), (other_mac, other_address)] =
        [workload, other_workload].map(|workload| match workload {
            "web-1" => ("02:00:00:00:0a:0b", "10.10.10.11"),
            _ => ("02:00:00:00:0a:0c", "10.10.10.12"),
        });
    let port = |(number, interface): (usize, &&str)| {
        format!("  - {{name: fp-eth{number}, kind: af_packet, interface: {interface}, mtu: 1700}}\n")
    };
    let ports: String = interfaces.iter().enumerate().map(port).collect();
    let names: Vec<String> = (0..interfaces.len()).map(|number| format!("fp-eth{number}")).collect();
    format!(
        r#"version: 1
name: {name}
role: host
dataplane: {{flow-cache: {{size: 4096}}, memory-mib: 128, huge-pages: "off"}}
ports:
  - {{name: {workload}, kind: af_packet, interface: {workload}}}
{ports}lags:
  - {{name: lag-1, ports: [{}], timeout: fast}}
uplinks:
  - {{name: uplink-1, port: lag-1}}
teps:
  - {{name: tep-1, address: 172.16.1.{own}/24, uplink: uplink-1, vlan: 120}}
segments:
  - {{name: web, vni: 5001}}
workloads:
  - {{name: {workload}, segment: web, mac: "{mac}", addresses: [{address}], port: {workload}}}
  - {{name: {other_workload}, segment: web, mac: "{other_mac}", addresses: [{other_address}], remote-tep: 172.16.1.{other}}}
"#,
        names.join(", ")
    )
}

fn first(links: usize) -> String {
    document("node-1", "web-1", &["fp-eth0", "fp-eth1", "fp-eth2"][..links], 10, 20)
}

fn second(links: &[&str]) -> String {
    document("node-2", "web-2", links, 20, 10)
}

pub(crate) fn lag(node: &Node) -> Lag {
    answer!(node, &Request::GetLags, Lags).remove(0)
}

fn link(node: &Node, port: &str) -> LagLink {
    lag(node).links.into_iter().find(|link| link.port == port).unwrap()
}

/// Waits until exactly these links carry traffic.
pub(crate) fn wait_for_active(node: &Node, ports: &[&str]) {
    wait_for(&format!("the links {ports:?} and no others to carry traffic"), || {
        let lag = lag(node);
        let active = lag.links.iter().filter(|link| link.active).map(|link| link.port.as_str());
        active.eq(ports.iter().copied()).then_some(())
    });
}

pub(crate) fn alarms(node: &Node) -> Vec<Alarm> {
    answer!(node, &Request::GetAlarms, Alarms)
}

pub(crate) fn wait_for_alarm(node: &Node, kind: &str, object: &str, sentence: &str) {
    wait_for(&format!("the alarm {kind} of {object}"), || {
        let open = alarms(node);
        let found = open.iter().find(|alarm| alarm.kind == kind && alarm.object == object)?;
        assert!(found.description.contains(sentence), "{found:?}");
        Some(())
    });
}

pub(crate) fn wait_for_no_alarm(node: &Node) {
    wait_for("the alarms to end", || alarms(node).is_empty().then_some(()));
}

/// Two nodes with a LAG of two links, both of which carry traffic, and whose TEPs know each other.
fn nodes() -> [Node; 2] {
    let nodes = [Node::start(&first(2)), Node::start(&second(&["fp-eth0-peer", "fp-eth1-peer"]))];
    for node in &nodes {
        wait_for_active(node, &["fp-eth0", "fp-eth1"]);
        node.wait_for_tunnels(|| {});
    }
    nodes
}

#[test]
fn flows_are_spread_and_those_of_a_cut_link_move() {
    in_network("lags::flows_are_spread_and_those_of_a_cut_link_move", &PORTS, || {
        let [web_1, web_2] = ["web-1", "web-2"].map(Link::open);
        let [node, other] = nodes();
        for node in [&node, &other] {
            assert_eq!((lag(node).state.as_str(), alarms(node)), ("up", vec![]));
        }
        assert_eq!(lag(&node).partner.unwrap().system, lag(&other).system);
        let vtep = answer!(node, &Request::GetVteps, Vteps).remove(0);
        assert_eq!((vtep.port.as_str(), vtep.state.as_str(), vtep.mac), ("lag-1", "up", lag(&node).mac));

        let before = sent(&node);
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(600), || {}), NONE);
        let after = sent(&node);
        for (before, after) in before.iter().zip(after) {
            assert!(after - before > 100, "both links carry flows: {before} {after}");
        }
        let lost = probe(&web_1, &web_2, Duration::from_secs(2), || ip("link set fp-eth0-peer down"));
        println!("a link of a LAG was cut under 1,000 packets a second: {} lost", lost.len());
        // A glance at the links is 4 ms away at most; the rest is for a busy machine, on which frames wait in the ring of the link that is cut.
        assert!(lost.iter().all(|number| *number < 1_500), "the flows go on by the other link: {lost:?}");
        wait_for_active(&node, &["fp-eth1"]);
        let before = sent(&node);
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(200), || {}), NONE);
        assert_eq!(sent(&node)[0], before[0], "nothing goes by the cut link");
        assert_eq!(lag(&node).state, "up", "one link is enough");
        wait_for_alarm(&node, "lag-degraded", "lag-1", "1 of its 2 links, which is down (fp-eth0)");

        // Nor does the second node mind that the addresses on the LAG are those of the link that is gone.
        ip("link set fp-eth0-peer up");
        [&node, &other].into_iter().for_each(|node| wait_for_active(node, &["fp-eth0", "fp-eth1"]));
        let before = sent(&node);
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(600), || {}), NONE);
        let after = sent(&node);
        assert!(
            after[0] - before[0] > 100 && after[1] - before[1] > 100,
            "flows are back: {before:?} {after:?}"
        );

        ["fp-eth0-peer", "fp-eth1-peer"].into_iter().for_each(|link| ip(&format!("link set {link} down")));
        wait_for_alarm(&node, "lag-down", "lag-1", "0 of its 2 links carry traffic");
        wait_for_alarm(&node, "tep-faulty", "tep-1", "its link is down");
        ["fp-eth0-peer", "fp-eth1-peer"].into_iter().for_each(|link| ip(&format!("link set {link} up")));
        wait_for_no_alarm(&node);
    });
}

#[test]
fn a_lag_outlives_new_documents_and_restarts() {
    in_network("lags::a_lag_outlives_new_documents_and_restarts", &PORTS, || {
        let [web_1, web_2] = ["web-1", "web-2"].map(Link::open);
        // With the long timeout no end misses the other while a busy machine restarts it.
        let slow = |document: String| document.replace("timeout: fast", "timeout: slow");
        let far = ["fp-eth0-peer", "fp-eth1-peer"];
        let [node, other] = [Node::start(&slow(first(2))), Node::start(&slow(second(&far)))];
        for node in [&node, &other] {
            wait_for_active(node, &["fp-eth0", "fp-eth1"]);
            node.wait_for_tunnels(|| {});
        }
        let document = slow(first(2));
        // The last one moves the ports to other places in the document, and the LAG with them.
        let hash = document.replace("timeout: slow", "timeout: slow, load-balancing: source-mac");
        let web = "  - {name: web-1, kind: af_packet, interface: web-1}\n";
        let moved = document.replace(web, "").replace("lags:\n", &format!("{web}lags:\n"));
        for (next, restarts) in [(&hash, false), (&document, false), (&moved, true)] {
            let applied = node.apply(next);
            let restarted = applied.changes.iter().any(|change| change.contains("restarted"));
            assert_eq!(restarted, restarts, "{applied:?}");
            node.wait_for_tunnels(|| {});
            let before = sent(&node);
            assert_eq!(probe(&web_1, &web_2, Duration::from_millis(300), || {}), NONE);
            let after = sent(&node);
            let spread = after[0] - before[0] > 50 && after[1] - before[1] > 50;
            assert_eq!(spread, next != &hash, "the source MAC address is the TEP's: {before:?} {after:?}");
        }
        answer!(node, &Request::RestartDataplane, Done);
        wait_for_active(&node, &["fp-eth0", "fp-eth1"]);
        node.wait_for_tunnels(|| {});
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(300), || {}), NONE);
        for (end, node) in [("this", &node), ("the other", &other)] {
            for link in lag(node).links {
                assert_eq!((link.activations, link.deactivations), (1, 0), "at {end} end: {link:?}");
            }
            assert_eq!(alarms(node), []);
        }
        let request = Request::StartCapture {
            interface: "lag-1".into(),
            file: node.folder().join("lag.pcap"),
            count: Some(1),
            direction: sluice_control::CaptureDirection::Dual,
            overwrite: false,
        };
        assert!(node.refused(&request).contains("capture one of fp-eth0, fp-eth1"));

        // A document without the LAG, and one that has it again: the ports have been up all the time.
        let lag_line = "  - {name: lag-1, ports: [fp-eth0, fp-eth1], timeout: slow}\n";
        let plain =
            moved.replace(lag_line, "").replace("lags:\n", "").replace("port: lag-1", "port: fp-eth0");
        assert!(node.apply(&plain).changes.contains(&"lags: 1 removed".to_owned()));
        wait_for("the other end to miss its partner", || (lag(&other).state == "down").then_some(()));
        node.apply(&moved);
        [&node, &other].into_iter().for_each(|node| wait_for_active(node, &["fp-eth0", "fp-eth1"]));
        node.wait_for_tunnels(|| {});
        assert_eq!(probe(&web_1, &web_2, Duration::from_millis(300), || {}), NONE);
    });
}

#[test]
fn a_lag_that_is_given_up_says_so() {
    in_network("lags::a_lag_that_is_given_up_says_so", &PORTS, || {
        // With the long timeout the other end would go on for 90 seconds, longer than anything here is waited for.
        let slow = |document: String| document.replace("timeout: fast", "timeout: slow");
        let all = ["fp-eth0", "fp-eth1", "fp-eth2"];
        let mut node = Node::start(&slow(first(3)));
        let other = Node::start(&slow(second(
            &all.map(|port| format!("{port}-peer")).each_ref().map(String::as_str),
        )));
        let agreed =
            |ports: &[&str]| [&node, &other].into_iter().for_each(|node| wait_for_active(node, ports));
        agreed(&all);

        node.apply(&slow(first(3)).replace("ports: [fp-eth0, ", "ports: ["));
        agreed(&all[1..]);
        node.apply(&slow(first(3)));
        agreed(&all);

        let lag_line = "lags:\n  - {name: lag-1, ports: [fp-eth0, fp-eth1, fp-eth2], timeout: slow}\n";
        node.apply(&slow(first(3)).replace(lag_line, "").replace("port: lag-1", "port: fp-eth0"));
        wait_for_active(&other, &[]);
        node.apply(&slow(first(3)));
        agreed(&all);

        assert!(node.terminate(Signal::SIGTERM).success());
        wait_for_active(&other, &[]);
        assert_eq!(link(&other, "fp-eth0").link, "up");
    });
}

/// Who speaks LACP to the first node on a link.
fn lacpdu(system: MacAddr) -> Vec<u8> {
    let state = LacpState::ACTIVITY.and(LacpState::TIMEOUT).and(LacpState::AGGREGATION);
    let state = state.and(LacpState::SYNCHRONIZATION);
    let actor = PortInfo { system_priority: 1, system, key: 9, port_priority: 1, port: 7, state };
    let pdu = Lacp { actor, ..Lacp::default() };
    FrameBuilder::new().ethernet(STRANGER, MULTICAST).lacp(pdu).build().unwrap()
}

/// The system in a frame with an LACPDU.
fn system(frame: &[u8]) -> Option<MacAddr> {
    let ethernet = EthernetView::parse(frame).ok().filter(|frame| frame.destination() == MULTICAST)?;
    match SlowProtocol::parse(ethernet.payload()).ok()? {
        SlowProtocol::Lacp(packet) => Some(Lacp::from(packet).actor.system),
        _ => None,
    }
}

#[test]
fn wrong_partners_are_left_out_and_told_and_nothing_comes_in_from_them() {
    let name = "lags::wrong_partners_are_left_out_and_told_and_nothing_comes_in_from_them";
    in_network(name, &PORTS, || {
        let wrong = Link::open("fp-eth1");
        let node = Node::start(&first(3));
        let other = Node::start(&second(&["fp-eth0-peer", "fp-eth2-peer"]));
        wait_for_active(&node, &["fp-eth0", "fp-eth2"]);
        wait_for_active(&other, &["fp-eth0", "fp-eth1"]);
        // What was refused before is another number each time.
        let speak = |what: &[u8], until: &str, mut done: Box<dyn FnMut() -> bool + '_>| {
            let mut next = Instant::now();
            wait_for(until, || {
                if Instant::now() >= next {
                    next += Duration::from_millis(500);
                    wrong.send(what);
                }
                done().then_some(())
            });
        };
        let foreign = lacpdu(STRANGER);
        speak(&foreign, "the stranger to be counted", Box::new(|| link(&node, "fp-eth1").other_partner >= 2));
        wait_for_alarm(&node, "link-excluded", "fp-eth1", &format!("it leads to system {STRANGER} key 9"));
        let left_out = link(&node, "fp-eth1");
        assert_eq!((left_out.active, left_out.mux.as_str()), (false, "detached"));
        assert!(left_out.reason.contains("plug it in where they are"), "{left_out:?}");

        // A request that would be answered, were it the LAG's, and tagged as the TEP is.
        let request = Arp::request(STRANGER, [172, 16, 1, 99].into(), [172, 16, 1, 10].into());
        let request = arp_frame(STRANGER, MacAddr::BROADCAST, request);
        let request = [&request[..12], &[0x81, 0, 0, 120], &request[12..]].concat();
        let before = node.drops("inactive-link");
        (0..50).for_each(|_| wrong.send(&request));
        wait_for("the frames to be dropped", || (node.drops("inactive-link") >= before + 50).then_some(()));
        let came = std::iter::from_fn(|| wrong.waiting());
        let foreign_frames: Vec<_> = came
            .filter(|frame| system(frame).is_none())
            .map(|frame| sluice_wire::dissect(&frame).to_string())
            .collect();
        assert_eq!(foreign_frames, Vec::<String>::new(), "nothing but LACP goes out there");

        // The node hears itself.
        let own = lag(&node).system.parse().unwrap();
        speak(&lacpdu(own), "the loop to be counted", Box::new(|| link(&node, "fp-eth1").loopbacks >= 2));
        wait_for_alarm(&node, "link-excluded", "fp-eth1", "hears itself");
        assert_eq!(
            (lag(&node).state.as_str(), lag(&node).partner.unwrap().system),
            ("up", lag(&other).system)
        );
        let refused = lag(&node).refused;
        assert!(refused.iter().any(|refusal| refusal.reason.contains("itself")), "{refused:?}");
    });
}

#[test]
fn a_link_that_flaps_is_left_out_until_it_is_quiet() {
    in_network("lags::a_link_that_flaps_is_left_out_until_it_is_quiet", &PORTS, || {
        let [node, other] = nodes();
        for round in 1..=4 {
            // Seen by LACP, which looks every few milliseconds.
            for state in ["down", "up"] {
                ip(&format!("link set fp-eth1-peer {state}"));
                wait_for("LACP to see it", || (link(&node, "fp-eth1").link == state).then_some(()));
            }
            let alarms = alarms(&node);
            assert_eq!(alarms.iter().any(|alarm| alarm.kind == "link-flapping"), round == 4, "{alarms:?}");
        }
        wait_for_alarm(&node, "link-flapping", "fp-eth1", "until it has been quiet for 10 seconds");
        assert_eq!(lag(&node).state, "up");
        let start = Instant::now();
        [&node, &other].into_iter().for_each(|node| wait_for_active(node, &["fp-eth0", "fp-eth1"]));
        assert!(start.elapsed() > Duration::from_secs(8), "it came back after {:?}", start.elapsed());
        wait_for_no_alarm(&node);
    });
}
