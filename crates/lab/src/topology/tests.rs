//! Tests of the checks: every refusal by its text, several problems at once, and the documents that are part of the program.

use super::*;

/// Two nodes and a link, to be made wrong.
const SMALL: &str = r#"
version: 1
name: small
nodes:
  - name: a
    interfaces:
      - name: eth0
        mac: "02:00:00:00:00:01"
        addresses: [192.0.2.1/24, "2001:db8::1/64"]
    routes:
      - {prefix: 198.51.100.0/24, via: 192.0.2.2}
    sysctls: {net.ipv4.ip_forward: 1}
  - name: b
    interfaces:
      - name: eth0
        addresses: [192.0.2.2/24]
links:
  - {ends: ["a:eth0", "b:eth0"], mtu: 1400, rate: 100mbit}
"#;

/// A node that runs sluiced with two workers, and a workload.
const DATA_PATH: &str = r#"
version: 1
name: small
nodes:
  - name: h
    interfaces: [{name: w}]
    sluiced:
      version: 1
      name: h
      role: host
      dataplane: {cores: [0, 1]}
      ports: [{name: w, interface: w}]
      segments: [{name: s, vni: 5001}]
      workloads: [{name: w, segment: s, port: w, mac: "02:00:00:00:00:01", addresses: [10.0.0.1]}]
  - name: w
    interfaces: [{name: eth0, mac: "02:00:00:00:00:01", addresses: [10.0.0.1/24]}]
links:
  - {ends: ["h:w", "w:eth0"]}
"#;

fn problems(source: &str) -> Vec<String> {
    match Topology::parse("test", source) {
        Err(LabError::Topology { problems, .. }) => problems,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => Vec::new(),
    }
}

/// The one problem of a document after a replacement.
fn problem(source: &str, from: &str, to: &str) -> String {
    assert!(source.contains(from), "{from} is not in the document");
    let problems = problems(&source.replace(from, to));
    assert_eq!(problems.len(), 1, "{to}: {problems:#?}");
    problems[0].clone()
}

#[test]
fn small_document_is_read() {
    let topology = Topology::parse("test", SMALL).unwrap();
    let a = topology.node("a").unwrap();
    assert_eq!(a.address(false).unwrap().to_string(), "192.0.2.1");
    assert_eq!(a.address(true).unwrap().to_string(), "2001:db8::1");
    assert_eq!(a.sysctls, [("net.ipv4.ip_forward".to_string(), "1".to_string())]);
    let link = &topology.links[0];
    assert_eq!((link.mtu, link.rate, link.offloads), (1400, Some(100_000_000), true));
}

#[test]
fn data_path_gives_queues_to_both_ends_and_takes_offloads_away() {
    let topology = Topology::parse("test", DATA_PATH).unwrap();
    for (node, interface) in topology.links[0].ends {
        assert_eq!(topology.nodes[node].interfaces[interface].queues, 2);
    }
    assert!(!topology.links[0].offloads);
    assert!(topology.node("h").unwrap().interfaces[0].data_path);
    assert!(!topology.node("w").unwrap().interfaces[0].data_path);
    let explicit = DATA_PATH.replace("interface: w}", "interface: w, queues: 4}");
    let topology = Topology::parse("test", &explicit).unwrap();
    assert_eq!(topology.node("w").unwrap().interfaces[0].queues, 4);
}

#[test]
fn each_mistake_is_named_with_its_place() {
    let cases = [
        ("version: 1", "version: 2", "version: 2 is not known"),
        ("name: small", "name: Small", "name: 'Small' cannot name a lab"),
        ("name: small", "name: small\nnoodles: 1", "unknown field 'noodles'"),
        ("mac: \"02", "mtu: 9000\n        mac: \"02", "nodes[a]: unknown field 'interfaces.0.mtu'"),
        ("\"02:00:00:00:00:01\"", "\"02:00\"", "nodes[a].interfaces[eth0].mac: '02:00' is not a MAC"),
        ("\"02:00:00:00:00:01\"", "\"03:00:00:00:00:01\"", "is not a unicast address"),
        (
            "192.0.2.2/24]",
            "192.0.2.2/40]",
            "nodes[b].interfaces[eth0].addresses[0]: '192.0.2.2/40' is not an address",
        ),
        ("192.0.2.2/24]", "192.0.2.2/24, 192.0.2.2/25]", "192.0.2.2 is there twice"),
        ("via: 192.0.2.2", "via: 203.0.113.1", "nodes[a].routes[0].via: 203.0.113.1 is in no subnet"),
        ("via: 192.0.2.2", "via: \"2001:db8::2\"", "different address families"),
        ("198.51.100.0/24", "198.51.100.7/24", "has host bits; write 198.51.100.0/24"),
        ("net.ipv4.ip_forward", "kernel.panic", "only kernel parameters below 'net.'"),
        ("net.ipv4.ip_forward", "net./../../kernel", "only kernel parameters below 'net.'"),
        ("ip_forward: 1", "ip_forward: [1]", "must be a number or a text"),
        ("- name: b", "- name: b!", "nodes[b!]: 'b!' cannot name a node"),
        ("\"b:eth0\"]", "\"c:eth0\"]", "links[0].ends: there is no node 'c'"),
        ("\"b:eth0\"]", "\"b:eth1\"]", "links[0].ends: node 'b' has no interface 'eth1'"),
        ("\"b:eth0\"]", "\"b-eth0\"]", "'b-eth0' is not NODE:INTERFACE"),
        ("mtu: 1400", "mtu: 60", "links[0].mtu: must be at least 68 bytes"),
        ("mtu: 1400", "mtu: large", "links[0].mtu: invalid type"),
        ("100mbit", "fast", "links[0].rate: 'fast' is not a rate"),
        ("100mbit", "1bit", "links[0].rate: '1bit' is not a rate"),
        ("version: 1", "version: 1\ndemonstration: {tester: z, workloads: [a]}", "there is no node 'z'"),
    ];
    for (from, to, expected) in cases {
        let source = SMALL.replace(from, to);
        let found = problems(&source);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{to}: {found:#?}");
    }
}

#[test]
fn interfaces_belong_to_exactly_one_link() {
    let spare =
        SMALL.replace("  - name: b\n    interfaces:", "  - name: b\n    interfaces:\n      - name: spare");
    assert_eq!(problems(&spare), ["nodes[b].interfaces[spare]: is not an end of any link"]);
    let twice = format!("{SMALL}  - {{ends: [\"a:eth0\", \"b:eth0\"]}}\n");
    assert_eq!(problems(&twice).len(), 2);
    assert!(problems(&twice)[0].contains("'a:eth0' is an end of links[0] already"));
    let same = SMALL.replace("\"b:eth0\"]", "\"a:eth0\"]");
    assert!(problems(&same).iter().any(|problem| problem.contains("both ends are the same")));
}

#[test]
fn data_path_mistakes_are_named() {
    let interface = "interface: w}";
    assert!(
        problem(DATA_PATH, interface, "interface: x}")
            .contains("sluiced.ports[w]: the node has no interface 'x'")
    );
    assert!(
        problem(DATA_PATH, "[{name: w}]", "[{name: w, addresses: [10.0.0.9/24]}]")
            .contains("belongs to the data path")
    );
    assert!(
        problem(DATA_PATH, "name: h\n      role", "name: g\n      role")
            .contains("must be 'h', the name of the node")
    );
    assert!(problem(DATA_PATH, "\"w:eth0\"]", "\"w:eth0\"], mtu: 9000").contains("at most 3498 bytes"));
    assert!(problem(DATA_PATH, "\"w:eth0\"]", "\"w:eth0\"], offloads: true").contains("must be off"));
    assert!(
        problem(DATA_PATH, "[10.0.0.1]}", "[10.0.0.2]}")
            .contains("node 'w' does not have the address 10.0.0.2")
    );
    let other_mac =
        problem(DATA_PATH, "port: w, mac: \"02:00:00:00:00:01\"", "port: w, mac: \"02:00:00:00:00:02\"");
    assert!(other_mac.contains("02:00:00:00:00:02 is the MAC address of no interface of node 'w'"));
}

#[test]
fn node_documents_are_checked_as_nodes_do() {
    let found = problems(&DATA_PATH.replace("role: host", "role: hosts\n      portz: []"));
    assert!(found.iter().any(|problem| problem.starts_with("nodes[h].sluiced.role: ")), "{found:#?}");
    assert!(found.iter().any(|problem| problem.contains("portz")), "{found:#?}");
}

#[test]
fn port_kind_is_filled_in_only_where_missing() {
    let document = serde_json::json!({"ports": [
        {"name": "a", "interface": "eth0"},
        {"name": "b", "interface": "eth1", "kind": "tap"},
        {"name": "c", "kind": "pci", "address": "0000:00:01.0"},
    ]});
    let filled = with_port_kind(document.as_object().unwrap(), PortKind::AfXdp);
    let kinds: Vec<_> = filled["ports"].as_array().unwrap().iter().map(|port| &port["kind"]).collect();
    assert_eq!(kinds, ["af_xdp", "tap", "pci"]);
}

#[test]
fn devices_are_checked() {
    let with =
        |extra: &str| problems(&SMALL.replace("  - name: b\n", &format!("  - name: b\n    {extra}\n")));
    assert!(
        with("bridges: [{name: br, members: [eth7]}]")[0]
            .contains("nodes[b].bridges[br].members: the node has no interface")
    );
    assert!(
        with("vxlans: [{name: vx, vni: 16777216, local: 192.0.2.2, remotes: []}]")[0]
            .contains("does not fit 24 bits")
    );
    assert!(
        with("vxlans: [{name: vx, vni: 1, local: 192.0.2.2, remotes: [\"::1\"]}]")[0]
            .contains("address family of 'local'")
    );
    assert!(
        with("vxlans: [{name: eth0, vni: 1, local: 192.0.2.2, remotes: []}]")[0]
            .contains("two interfaces named 'eth0'")
    );
    assert!(
        with("bridges: [{name: much-too-long-name, members: []}]")[0].contains("cannot name an interface")
    );
}

#[test]
fn all_problems_are_told_at_once() {
    let source = SMALL
        .replace("version: 1", "version: 3\nextra: 1")
        .replace("192.0.2.2/24]", "nonsense]\n        typo: 1")
        .replace("mtu: 1400", "mtu: large")
        .replace("via: 192.0.2.2", "via: nowhere");
    let found = problems(&source);
    for expected in [
        "unknown field 'extra'",
        "version: 3",
        "'nonsense'",
        "'interfaces.0.typo'",
        "links[0].mtu",
        "'nowhere'",
    ] {
        assert!(
            found.iter().any(|problem| problem.contains(expected)),
            "{expected} is missing in {found:#?}"
        );
    }
    let error = Topology::parse("x.yaml", &source).unwrap_err().to_string();
    assert!(
        error.starts_with("the topology x.yaml has ") && error.lines().count() == found.len() + 1,
        "{error}"
    );
}

#[test]
fn what_is_no_yaml_or_no_document_is_refused() {
    assert!(!problems("a: [").is_empty());
    assert!(!problems("- 1").is_empty());
    assert!(!problems("").is_empty());
    assert!(matches!(Topology::load("no-such-topology"), Err(LabError::UnknownTopology(..))));
}

#[test]
fn built_in_topologies_are_right() {
    for name in built_in() {
        let topology = Topology::load(name).unwrap();
        assert_eq!(topology.name, name);
        assert_eq!(topology.demonstration.is_some(), matches!(name, "demo" | "linux"), "{name}");
    }
    assert_eq!(Topology::load("demo").unwrap().daemons().count(), 3);
    assert_eq!(Topology::load("linux").unwrap().daemons().count(), 0);
    assert_eq!(Topology::load("tep").unwrap().daemons().count(), 3);
    assert_eq!(Topology::load("edges").unwrap().daemons().count(), 4);
}

#[test]
fn documented_example_is_right() {
    let text = include_str!("../../../../docs/lab.md");
    let example = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let topology = Topology::parse("docs/lab.md", example).unwrap();
    assert_eq!(topology.nodes.len(), 3);
    assert_eq!(topology.links[1].rate, Some(100_000_000));
}

#[test]
fn the_other_end_of_a_data_path_port_is_named_where_the_kernel_does_not_receive() {
    let topology = Topology::load("demo").unwrap();
    let check = |node: &str, interface: &str| {
        topology
            .check_kernel_receives(topology.node(node).unwrap(), interface)
            .map_err(|error| error.to_string())
    };
    let told = check("edge-1", "fp-eth0").unwrap_err();
    assert!(told.contains("is a port of its data path") && told.contains("(tor tep-edges)"), "{told}");
    assert_eq!((check("tor", "tep-edges"), check("tor", "lo")), (Ok(()), Ok(())));
}
