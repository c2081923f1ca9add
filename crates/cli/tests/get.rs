//! Every `get` against a node: what people see, what programs see, and what the node was asked.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod support;

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_control::{Reply, Request};
use support::{FakeNode, Reaction, answers, ran, run, sluice};

/// Every `get`, its request and the name of its snapshot.
fn gets() -> Vec<(&'static str, Request)> {
    vec![
        ("get status", Request::GetStatus),
        ("get dataplane", Request::GetDataplane),
        ("get dataplane cpu stats", Request::GetCpuStats),
        ("get dataplane flow-cache config", Request::GetFlowCacheConfig),
        ("get dataplane flow-cache stats", Request::GetFlowCacheStats),
        ("get dataplane stages", Request::GetStages),
        ("get logical-switches", Request::GetLogicalSwitches),
        ("get workloads", Request::GetWorkloads),
        ("get logical-routers", Request::GetLogicalRouters),
        ("get route", Request::GetRoute { router: None }),
        ("get route t0", Request::GetRoute { router: Some("t0".into()) }),
        ("get forwarding", Request::GetForwarding { router: None }),
        ("get forwarding t0", Request::GetForwarding { router: Some("t0".into()) }),
        ("get physical-ports", Request::GetPhysicalPorts),
        ("get physical-port fp-eth0 stats", Request::GetPhysicalPortStats { name: "fp-eth0".into() }),
        ("get host-switches", Request::GetHostSwitches),
        ("get lags", Request::GetLags),
        ("get vteps", Request::GetVteps),
        ("get tunnel-ports", Request::GetTunnelPorts),
        ("get tunnel-ports stats", Request::GetTunnelPorts),
        ("get tn-tep-groups", Request::GetTnTepGroups),
        ("get bfd-sessions", Request::GetBfdSessions),
        ("get alarms", Request::GetAlarms),
        ("get neighbor", Request::GetNeighbor),
        ("get drops", Request::GetDrops),
    ]
}

/// The contents of an answer: what is inside the mapping of its kind.
fn contents(request: &Request) -> Value {
    let Reply::Answer(answer) = answers::reply(request) else { panic!("{request:?} is refused") };
    let value = serde_json::to_value(answer).unwrap();
    value.as_object().unwrap().values().next().unwrap().clone()
}

#[test]
fn people_see_tables() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    for (line, request) in gets() {
        let shown = run(directory.path(), line).succeeded();
        insta::assert_snapshot!(line.replace(' ', "-"), shown);
        assert_eq!(node.requests().last(), Some(&request), "{line}");
    }
}

#[test]
fn programs_see_exactly_what_the_node_sent() {
    let directory = tempfile::tempdir().unwrap();
    let _node = FakeNode::start(directory.path(), "edge-1");
    for (line, request) in gets() {
        let shown = run(directory.path(), &format!("{line} --json")).succeeded();
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), contents(&request), "{line}");
    }
}

#[test]
fn the_greatest_counts_are_exact() {
    let directory = tempfile::tempdir().unwrap();
    let _node = FakeNode::reacting(directory.path(), "edge-1", |_| {
        Reaction::Line(
            r#"{"answer":{"drops":[{"reason":"no-route","packets":18446744073709551615,"description":"x"}]}}"#,
        )
    });
    let json = run(directory.path(), "get drops --json").succeeded();
    assert!(json.contains("\"packets\": 18446744073709551615"), "{json}");
    let table = run(directory.path(), "get drops").succeeded();
    assert!(table.contains("18,446,744,073,709,551,615"), "{table}");
}

#[test]
fn pipes_work_quoted_and_as_words() {
    let directory = tempfile::tempdir().unwrap();
    let _node = FakeNode::start(directory.path(), "edge-1");
    let expected = "\
Rx_ring_size      : 512 (1024 after 'restart service dataplane')
Bfd_ring_size     : 256
Slowpath_ring_size: 2048
Tx_ring_size      : 512
";
    let quoted = |line: &str| ran(sluice(directory.path()).arg(line)).succeeded();
    assert_eq!(quoted("get dataplane | find ring"), expected);
    assert_eq!(quoted("get dataplane | find RING"), expected);
    assert_eq!(run(directory.path(), "get dataplane | find ring").succeeded(), expected);
    assert_eq!(quoted("get dataplane | find ring | find tx_"), "Tx_ring_size: 512\n");
    assert_eq!(quoted("get status | json"), run(directory.path(), "get status --json").succeeded());
    assert_eq!(
        run(directory.path(), "get status | json | find name").succeeded(),
        "  \"name\": \"edge-1\",\n"
    );
    assert_eq!(quoted("get drops | find nothing-like-this"), "");
    let down = quoted("get tunnel-ports | find down");
    assert!(
        down.starts_with("Segment") && down.contains("172.16.1.11") && !down.contains("172.16.1.10 "),
        "{down}"
    );
    let route = quoted("get route | find 169.254");
    assert!(route.starts_with("t0 (VRF 2)\nOrigin") && route.lines().count() == 3, "{route}");
}

#[test]
fn the_words_of_newer_releases_are_understood() {
    let directory = tempfile::tempdir().unwrap();
    let _node = FakeNode::start(directory.path(), "edge-1");
    let switches = run(directory.path(), "get logical-switches").succeeded();
    let routers = run(directory.path(), "get logical-routers").succeeded();
    for word in ["segment", "segments", "logical-switch"] {
        assert_eq!(run(directory.path(), &format!("get {word}")).succeeded(), switches);
    }
    for word in ["gateway", "gateways", "logical-router"] {
        assert_eq!(run(directory.path(), &format!("get {word}")).succeeded(), routers);
    }
}

#[test]
fn a_vrf_is_one_of_the_gateways_of_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let node = FakeNode::start(directory.path(), "edge-1");
    let shown = run(directory.path(), "vrf 2 get route").succeeded();
    assert!(shown.starts_with("t0 (VRF 2)\n") && shown.contains("169.254.0.2"), "{shown}");
    assert!(!shown.contains("VRF 1"), "{shown}");
    assert_eq!(
        node.requests(),
        [Request::GetLogicalRouters, Request::GetRoute { router: Some("t0".into()) }]
    );
    let forwarding = run(directory.path(), "vrf 1 get forwarding").succeeded();
    assert!(forwarding.contains("blackhole"), "{forwarding}");
    let error = run(directory.path(), "vrf 9 get route").failed(1);
    assert_eq!(error, "error: there is no VRF 9; the node has 0 (TUNNEL), 1 (t0), 2 (t0), 3 (t1)\n");
    let error = run(directory.path(), "vrf 1").failed(2);
    assert!(error.contains("'vrf 1 get route'"), "{error}");
}

#[test]
fn an_empty_node_says_so_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let _node = FakeNode::reacting(directory.path(), "edge-1", |request| {
        Reaction::Line(match request {
            Request::GetLogicalSwitches => r#"{"answer":{"logical_switches":[]}}"#,
            Request::GetRoute { .. } => r#"{"answer":{"routes":[]}}"#,
            Request::GetStages => r#"{"answer":{"stages":{"profile":false,"cores":[]}}}"#,
            Request::GetTunnelPorts => r#"{"answer":{"tunnel_ports":[]}}"#,
            Request::GetTnTepGroups => r#"{"answer":{"tn_tep_groups":[]}}"#,
            Request::GetBfdSessions => r#"{"answer":{"bfd_sessions":{"sessions":[],"refused":[]}}}"#,
            Request::GetAlarms => r#"{"answer":{"alarms":[]}}"#,
            _ => r#"{"answer":{"drops":[]}}"#,
        })
    });
    for (line, sentence) in [
        ("get logical-switches", "The node has no segments.\n"),
        ("get route", "The node has no gateways.\n"),
        ("get tunnel-ports", "The node has no tunnels: no workload is on another node.\n"),
        (
            "get dataplane stages",
            "No cycles were attributed; 'set dataplane profile enabled' begins with it.\n",
        ),
        ("get tn-tep-groups", "The node has no TEPs.\n"),
        (
            "get bfd-sessions",
            "The node has no BFD sessions: its document has no 'bfd', or there are no tunnels.\n",
        ),
        ("get alarms", "Nothing is wrong.\n"),
        ("get drops", "No packet was dropped.\n"),
        ("get drops --json", "[]\n"),
    ] {
        assert_eq!(run(directory.path(), line).succeeded(), sentence);
    }
}

/// Names of NSX's `get dataplane` whose meaning this data plane has.
const KNOWN_FIELDS: [&str; 13] = [
    "Bfd_ring_size",
    "Rx_ring_size",
    "Slowpath_ring_size",
    "Tx_ring_size",
    "Corelist",
    "Fc_micro_cache_size",
    "Hugepage_mem",
    "Rx_queue_per_core",
    "Device_id",
    "Name",
    "Numa_node",
    "Pci",
    "Vendor",
];
/// What NSX has no name for.
const OWN_FIELDS: [&str; 5] =
    ["Flow_cache_micro", "Ordinary_page_mem", "Packet_buffers", "Idle_sleep_us", "Driver"];

#[test]
fn the_data_plane_has_the_fields_of_nsx_that_mean_something_here() {
    let directory = tempfile::tempdir().unwrap();
    let _node = FakeNode::start(directory.path(), "edge-1");
    let shown = run(directory.path(), "get dataplane").succeeded();
    let fields: BTreeSet<&str> =
        shown.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    let expected: BTreeSet<&str> = KNOWN_FIELDS.into_iter().chain(OWN_FIELDS).chain(["Devices"]).collect();
    assert_eq!(fields, expected);
}

#[test]
fn colours_are_only_for_terminals() {
    let directory = tempfile::tempdir().unwrap();
    let _node = FakeNode::start(directory.path(), "edge-1");
    assert!(!run(directory.path(), "get tunnel-ports").succeeded().contains('\u{1b}'));
    let forced =
        ran(sluice(directory.path()).env("CLICOLOR_FORCE", "1").args(["get", "tunnel-ports"])).succeeded();
    assert!(forced.contains('\u{1b}'), "{forced}");
    let refused =
        ran(sluice(directory.path()).env("NO_COLOR", "1").args(["get", "tunnel-ports"])).succeeded();
    assert!(!refused.contains('\u{1b}'), "{refused}");
}
