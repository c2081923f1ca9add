//! The answers that the examples of `docs/cli.md` are made of are those of a real node.
//!
//! A node with the document `edge-1.yaml` of the CLI's tests is asked what the examples ask, in their order, and what it answers is compared with
//! `edge-1.json` beside that document, which the CLI's tests answer from. Numbers that depend on time and traffic are left out of the
//! comparison. With `SLUICE_UPDATE_DOCS=1` the file is written anew instead; `docs/cli.md` is then written by the CLI's test of the same.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use sluice_control::{
    CaptureDirection, Client, ClientError, Reply, Request, RingDirection, TracePacket, TracePayload,
    TraceProtocol,
};
use sluice_protocols::Timestamp;
use sluice_protocols::lacp::{Action, Lag, LagConfig, PortConfig};
use sluice_wire::MacAddr;

use crate::support::documents::{ROUTER_MAC, Station, changed};
use crate::support::frames::datagram;
use crate::support::link::Link;
use crate::support::network::in_network;
use crate::support::node::{Node, answer, apply};
use crate::support::{LIMIT, wait_for};

const PORTS: [&str; 5] = ["fp-eth0", "fp-eth1", "vm-1", "fp-eth2", "fp-eth3"];
/// The links of the node's LAG among them.
const LAG_PORTS: [&str; 2] = ["fp-eth2", "fp-eth3"];
/// Whom they lead to.
const PARTNER: MacAddr = MacAddr([2, 0, 0, 0, 0x0c, 1]);
const VM_1: Station = (std::net::Ipv4Addr::new(10, 10, 20, 10), MacAddr([2, 0, 0, 0, 0, 1]));

/// Numbers, and lists of numbers, that are not the same in every run.
const VARYING: [&str; 33] = [
    "pid",
    "uptime_s",
    "core",
    "corelist",
    "rx_pps",
    "tx_pps",
    "slowpath_pps",
    "usage_percent",
    "cycles_per_packet",
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "busy_cycles",
    "other_cycles",
    "time_stamp_cycles",
    "cycles",
    "time_stamps",
    "heap_allocations",
    "buffers_in_use",
    "hits",
    "misses",
    "hit_rate_percent",
    "insertions",
    "flows",
    "rewrites",
    "packets",
    "sent",
    "received",
    "last_received_s",
    "since_s",
    "local_discriminator",
    "extended",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/fixtures").join(name)
}

/// The value without what varies: numbers are 0.
fn steady(value: &mut Value) {
    fn zero(value: &mut Value) {
        match value {
            Value::Number(_) => *value = json!(0),
            Value::Array(values) => values.iter_mut().for_each(zero),
            _ => {}
        }
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if VARYING.contains(&name.as_str()) { zero(field) } else { steady(field) }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(steady),
        _ => {}
    }
}

fn reply(node: &Node, request: &Request) -> Value {
    let reply = match Client::connect(&node.socket()).unwrap().ask(request) {
        Ok(answer) => Reply::Answer(answer),
        Err(ClientError::Refused(sentence)) => Reply::Error(sentence),
        Err(error) => panic!("{request:?}: {error}"),
    };
    serde_json::to_value(reply).unwrap()
}

/// What the examples ask, in the order in which it is recorded.
fn requests() -> Vec<Request> {
    let table = |router: Option<&str>| router.map(str::to_owned);
    let routers = [None, Some("t0"), Some("t1"), Some("TUNNEL"), Some("t9")];
    let payload = TracePayload {
        protocol: TraceProtocol::Udp,
        source_port: 49152,
        destination_port: 443,
        ttl: 64,
        length: 100,
    };
    let trace = |destination: &str| {
        let destination = destination.parse().unwrap();
        Request::Trace(TracePacket::FromWorkload { workload: "vm-1".into(), destination, payload })
    };
    let mut all = vec![
        Request::SetRingSize { direction: RingDirection::Rx, size: 1024 },
        Request::GetStatus,
        Request::GetDataplane,
        Request::GetCpuStats,
        Request::GetFlowCacheConfig,
        Request::GetFlowCacheStats,
        Request::GetStages,
        Request::GetLogicalSwitches,
        Request::GetWorkloads,
        Request::GetLogicalRouters,
        Request::GetPhysicalPorts,
        Request::GetPhysicalPortStats { name: "fp-eth0".into() },
        Request::GetHostSwitches,
        Request::GetLags,
        Request::GetVteps,
        Request::GetTunnelPorts,
        Request::GetTnTepGroups,
        Request::GetBfdSessions,
        Request::GetAlarms,
        Request::GetNeighbor,
        Request::GetDrops,
        trace("10.10.30.10"),
        trace("203.0.113.10"),
    ];
    all.extend(routers.map(|router| Request::GetRoute { router: table(router) }));
    all.extend(routers.map(|router| Request::GetForwarding { router: table(router) }));
    all.extend([Request::SetFlowCache { enabled: false }, Request::SetFlowCache { enabled: true }]);
    all.push(Request::SetProfile { enabled: false });
    all.push(Request::RecoverTep { name: "tep-1".into() });
    all
}

/// The far ends: the gateway of the transport network, another node's TEP, and one router of two.
struct Ends {
    transport: Link,
    north: Link,
    vm_1: Link,
    links: [Link; 2],
    /// The other end of the LAG.
    partner: RefCell<Lag>,
    start: Instant,
}

impl Ends {
    fn open() -> Self {
        let [mut transport, mut north, vm_1] = [PORTS[0], PORTS[1], PORTS[2]].map(Link::open);
        transport.answer_for([172, 16, 2, 1].into(), MacAddr([2, 0, 0, 0, 9, 1]));
        transport.answer_for([172, 16, 2, 11].into(), MacAddr([2, 0, 0, 0, 9, 11]));
        north.answer_for([192, 0, 2, 1].into(), MacAddr([2, 0, 0, 0, 2, 1]));
        let ports = (0..2).map(|port| PortConfig::new(port, MacAddr([2, 0, 0, 0, 0x0c, 1 + port as u8])));
        let config = LagConfig { fast: true, ..LagConfig::new(PARTNER, 5, ports.collect()) };
        let mut partner = Lag::new(config).unwrap();
        (0..2).for_each(|port| partner.link_state(port, Some(10_000), Timestamp::default()));
        let links = LAG_PORTS.map(Link::open);
        Self { transport, north, vm_1, links, partner: RefCell::new(partner), start: Instant::now() }
    }

    /// Answers what was asked.
    fn glance(&self) {
        self.transport.glance();
        self.north.glance();
        let (mut partner, now) =
            (self.partner.borrow_mut(), Timestamp::default().after(self.start.elapsed()));
        for (port, link) in (0..).zip(&self.links) {
            while let Some(frame) = link.waiting() {
                // What is none of the slow protocols is not for it, nor is what it sent itself.
                let _ = partner.receive(port, &frame, now);
            }
        }
        partner.advance(now);
        while let Some(action) = partner.next_action() {
            if let Action::Send { port, frame } = action {
                self.links[usize::from(port)].send(&frame);
            }
        }
    }

    fn send(&self, to: [u8; 4]) {
        self.vm_1.send(&datagram(VM_1, ROUTER_MAC, to.into(), b"some payload of a datagram"));
    }

    /// Sends datagrams, ten at a time so that no ring overflows.
    fn send_all(&self, node: &Node, to: [u8; 4], tens: u64) {
        for _ in 0..tens {
            let before = node.port_statistics("vm-1").rx_packets;
            (0..10).for_each(|_| self.send(to));
            wait_for("the datagrams", || {
                self.glance();
                (node.port_statistics("vm-1").rx_packets == before + 10).then_some(())
            });
        }
    }

    /// Waits until every neighbour is in the state that it stays in, and until what is sent then was counted.
    fn settle(&self, node: &Node) {
        wait_for("the neighbours", || {
            self.glance();
            let neighbors = answer!(node, &Request::GetNeighbor, Neighbors);
            let in_state = |state: &str| neighbors.iter().filter(|n| n.state == state).count();
            (in_state("reachable") == 3 && in_state("failed") == 1).then_some(())
        });
        wait_for("the LAG", || {
            self.glance();
            let lag = answer!(node, &Request::GetLags, Lags).remove(0);
            lag.links.iter().all(|link| link.active).then_some(())
        });
        self.send_all(node, [10, 10, 30, 10], 123);
        self.send_all(node, [203, 0, 113, 9], 3);
        self.send_all(node, [10, 10, 20, 77], 2);
        wait_for("the drops", || {
            let dropped = |reason| node.drops(reason);
            (dropped("blackhole") == 30 && dropped("unknown-workload") == 20).then_some(())
        });
    }
}

/// A capture of frames that come while it runs.
fn captured(node: &Node, ends: &Ends) -> Value {
    let file = node.folder().join("uplink.pcap");
    let request = Request::StartCapture {
        interface: "vm-1".into(),
        file: file.clone(),
        count: Some(100),
        direction: CaptureDirection::Input,
        overwrite: false,
    };
    let mut reply = std::thread::scope(|scope| {
        let capture = scope.spawn(|| reply(node, &request));
        while !capture.is_finished() {
            ends.send([10, 10, 30, 10]);
            ends.glance();
        }
        capture.join().unwrap()
    });
    reply["answer"]["captured"]["file"] = json!("uplink.pcap");
    reply
}

/// What was recorded and what is answered, of a request.
fn compare(recorded: &Value, mut look: impl FnMut() -> Value) {
    let mut expected = recorded.clone();
    steady(&mut expected);
    // A neighbour that does not answer is failed, asked for some seconds, and failed again.
    let end = Instant::now() + LIMIT;
    loop {
        let mut answered = look();
        steady(&mut answered);
        if answered == expected {
            return;
        }
        assert!(
            Instant::now() < end,
            "recorded: {expected:#}\nanswered: {answered:#}\nrecord anew with SLUICE_UPDATE_DOCS=1"
        );
    }
}

#[test]
fn the_answers_in_the_documentation_are_those_of_a_node() {
    in_network("recorded::the_answers_in_the_documentation_are_those_of_a_node", &PORTS, || {
        let document = std::fs::read_to_string(fixture("edge-1.yaml")).unwrap();
        let ends = Ends::open();
        // The document that the examples apply is the whole one.
        let node = Node::start(&changed(&document, "remote-tep: 172.16.2.11", "remote-tep: 172.16.1.11"));
        let before = answer!(node, &Request::GetStatus, Status).generation;
        assert_eq!(before, 1);
        let applied = reply(&node, &apply(&document));
        let profile = Request::SetProfile { enabled: true };
        let profiled = reply(&node, &profile);
        ends.settle(&node);

        let update = std::env::var_os("SLUICE_UPDATE_DOCS").is_some();
        let file = fixture("edge-1.json");
        let recorded: Value =
            std::fs::read(&file).map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap());
        let mut anew = Vec::new();
        let mut check = |request: Value, look: &mut dyn FnMut() -> Value| {
            if update {
                anew.push(json!({ "request": request, "reply": look() }));
                return;
            }
            let entries = recorded.as_array().expect("answers were recorded");
            let entry = entries.iter().find(|entry| entry["request"] == request);
            compare(&entry.unwrap_or_else(|| panic!("{request} was not recorded"))["reply"], look);
        };
        check(json!({ "request": "apply" }), &mut || applied.clone());
        check(serde_json::to_value(&profile).unwrap(), &mut || profiled.clone());
        for request in requests() {
            check(serde_json::to_value(&request).unwrap(), &mut || {
                ends.glance();
                reply(&node, &request)
            });
        }
        check(json!({ "request": "start-capture" }), &mut || captured(&node, &ends));
        let restart = serde_json::to_value(Request::RestartDataplane).unwrap();
        check(restart, &mut || reply(&node, &Request::RestartDataplane));
        if update {
            std::fs::write(&file, format!("{:#}\n", Value::Array(anew))).unwrap();
        }
    });
}
