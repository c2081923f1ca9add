//! Traced packets: what the operator is told of a packet's way.

use sluice_control::{Request, Trace, TracePacket, TracePayload, TraceProtocol};

use crate::forwarding::{Ends, geneve};
use crate::support::documents::{DB_1, PORTS, TEP_A, WEB_1, WEB_2, WEB_VNI};
use crate::support::frames::{datagram, numbered};
use crate::support::network::in_network;
use crate::support::node::{Node, answer};

const UDP: TracePayload = TracePayload {
    protocol: TraceProtocol::Udp,
    source_port: 4000,
    destination_port: 5000,
    ttl: 64,
    length: 100,
};

fn from_workload(workload: &str, destination: &str, payload: TracePayload) -> TracePacket {
    TracePacket::FromWorkload {
        workload: workload.into(),
        destination: destination.parse().unwrap(),
        payload,
    }
}

fn from_uplink(port: &str, destination: &str) -> TracePacket {
    let destination = destination.parse().unwrap();
    let source = "192.0.2.7".parse().unwrap();
    TracePacket::FromUplink { port: port.into(), vlan: None, source, destination, payload: UDP }
}

fn frame(port: &str, bytes: &[u8]) -> TracePacket {
    let frame = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    TracePacket::Frame { port: port.into(), frame }
}

fn trace(node: &Node, packet: TracePacket) -> Trace {
    let trace = answer!(node, &Request::Trace(packet), Trace);
    assert!(!trace.steps.is_empty(), "{trace:?}");
    assert!(trace.steps.iter().all(|step| !step.stage.is_empty() && !step.detail.is_empty()), "{trace:?}");
    trace
}

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

#[test]
fn packets_are_followed_and_nothing_is_disturbed() {
    in_network("trace::packets_are_followed_and_nothing_is_disturbed", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        let before = node.flow_cache();

        let local = trace(&node, from_workload("web-1", "10.10.20.11", UDP));
        assert_contains(&local.packet, &["on web-1", "10.10.10.11 > 10.10.20.11", "ttl 64", "4000 > 5000"]);
        assert!(local.steps.iter().any(|step| step.stage.contains("t1")), "{local:?}");
        assert_eq!(local.output.len(), 1);
        assert_contains(&local.output[0], &["db-1: ", "02:00:00:00:14:0b", "ttl 63"]);

        let remote = trace(&node, from_workload("web-1", "10.10.10.12", UDP));
        assert_contains(&remote.output[0], &["fp-eth0: ", "172.16.1.10 > 172.16.1.20", "Geneve", "5001"]);
        let tcp = TracePayload { protocol: TraceProtocol::Tcp, ..UDP };
        let north = trace(&node, from_workload("web-1", "192.0.2.7", tcp));
        assert_contains(&north.output[0], &["fp-eth1: ", "TCP", "ttl 62"]);

        let echo = TracePayload { protocol: TraceProtocol::Icmp, ..UDP };
        let gateway = trace(&node, from_workload("web-1", "10.10.10.1", echo));
        assert_contains(&gateway.output[0], &["web-1: ", "10.10.10.1 > 10.10.10.11"]);
        let expired = trace(&node, from_workload("web-1", "10.10.20.11", TracePayload { ttl: 1, ..UDP }));
        assert_contains(&expired.output[0], &["web-1: ", "10.10.10.1 > 10.10.10.11"]);

        let back = trace(&node, from_uplink("fp-eth1", "10.10.10.12"));
        assert_contains(&back.output[0], &["fp-eth0: ", "172.16.1.20", "192.0.2.7 > 10.10.10.12", "ttl 62"]);
        let nowhere = trace(&node, from_uplink("fp-eth1", "10.99.0.1"));
        assert!(nowhere.output.iter().all(|frame| frame.starts_with("fp-eth1: ")), "{nowhere:?}");

        let inner = datagram(WEB_2, WEB_1.1, WEB_1.0, b"inner");
        let from_tunnel = trace(&node, frame("fp-eth0", &geneve(TEP_A, WEB_VNI, &inner)));
        assert_contains(&from_tunnel.packet, &["on fp-eth0", "172.16.1.20 > 172.16.1.10"]);
        assert_contains(&from_tunnel.output[0], &["web-1: "]);
        let unknown = trace(&node, frame("fp-eth0", &geneve(TEP_A, 9999, &inner)));
        assert_contains(&unknown.verdict, &["dropped", "unknown-vni"]);
        assert_eq!(unknown.output, [""; 0]);
        let cut = trace(&node, frame("web-1", &numbered(WEB_1, DB_1.0, 1)[..30]));
        assert_contains(&cut.verdict, &["dropped"]);

        let after = node.flow_cache();
        assert_eq!((after.hits, after.misses, after.flows), (before.hits, before.misses, before.flows));
        assert_eq!(node.drops("unknown-vni"), 0, "a traced packet is not counted");
    });
}

#[test]
fn packets_that_cannot_be_are_refused() {
    let node = Node::start_in(crate::lifecycle::quiet_folder());
    let refused = |packet| node.refused(&Request::Trace(packet));
    assert_contains(&refused(from_workload("web-9", "10.10.20.11", UDP)), &["web-9"]);
    let there = refused(from_workload("web-2", "10.10.20.11", UDP));
    assert_eq!(there, "workload 'web-2' is on another node; trace there");
    let family = refused(from_workload("web-1", "2001:db8::1", UDP));
    assert_eq!(family, "workload 'web-1' has no address of the destination's family");
    let stranger = refused(from_workload("web-1", "10.10.10.99", UDP));
    assert_eq!(stranger, "no workload on segment 'web' has 10.10.10.99");
    let port = refused(from_uplink("eth7", "10.10.10.11"));
    assert_eq!(port, "there is no port 'eth7'; this node has web-1, db-1, fp-eth0, fp-eth1");
    let families = refused(from_uplink("fp-eth1", "2001:db8::1"));
    assert_contains(&families, &["of different families"]);
    for text in ["0", "0g", "frame", "é"] {
        let said = refused(TracePacket::Frame { port: "web-1".into(), frame: text.into() });
        assert_eq!(said, "a frame is two hexadecimal digits a byte", "{text}");
    }
}
