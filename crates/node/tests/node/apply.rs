//! New documents for a running node.

use std::path::Path;

use nix::sys::signal::Signal;
use sluice_control::{Answer, Request};

use crate::forwarding::{Ends, read_pcap};
use crate::lifecycle::quiet_folder;
use crate::support::documents::{self, DB_1, PORTS, ROUTER_MAC, WEB_1, changed};
use crate::support::frames::{numbered, routed};
use crate::support::network::in_network;
use crate::support::node::{Node, answer, apply};
use crate::support::wait_for;

/// What a node says that only a document may change.
fn answers(node: &Node) -> Vec<Answer> {
    let requests = [
        Request::GetFlowCacheConfig,
        Request::GetLogicalSwitches,
        Request::GetLogicalRouters,
        Request::GetRoute { router: None },
        Request::GetForwarding { router: None },
        Request::GetPhysicalPorts,
        Request::GetVteps,
        Request::GetTunnelPorts,
    ];
    requests.iter().map(|request| node.ask(request)).collect()
}

#[test]
fn a_wrong_document_is_refused_whole() {
    let node = Node::start_in(quiet_folder());
    let good = documents::on_files(node.folder());
    let before = answers(&node);
    let bad = changed(&good, "vni: 5002", "vni: 5001");
    let bad = changed(&bad, "addresses: [10.10.20.12]", "addresses: [10.10.10.12]");
    let bad = changed(&bad, "prefix: 0.0.0.0/0", "prefix: 0.0.0.0/40");
    let said = node.refused(&apply(&bad));
    for part in ["new.yaml", "5001", "10.10.10.12", "0.0.0.0/40"] {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
    let said = node.refused(&apply("version: 1\n  name: [\n"));
    assert!(said.contains("new.yaml"), "{said}");
    assert_eq!(answers(&node), before);
    assert_eq!(node.status().generation, 1);
}

#[test]
fn a_right_document_is_taken_and_what_changed_is_told() {
    let node = Node::start_in(quiet_folder());
    let good = documents::on_files(node.folder());
    let same = node.apply(&good);
    assert_eq!((same.generation, same.changes.as_slice()), (2, [].as_slice()));

    let line = r#"  - {name: web-4, segment: web, mac: "02:00:00:00:0a:0e", addresses: [10.10.10.14], remote-tep: 172.16.1.22}"#;
    let other = changed(&good, "gateways:\n", &format!("{line}\ngateways:\n"));
    let other = changed(&other, documents::WEB_2_LINE, &documents::WEB_2_LINE.replace(".20}", ".21}"));
    let applied = node.apply(&other);
    assert_eq!(applied.generation, 3);
    assert_eq!(applied.changes, ["segments: 1 changed", "workloads: 1 added, 1 changed"]);
    assert_eq!(node.status().generation, 3);
    let switches = answer!(node, &Request::GetLogicalSwitches, LogicalSwitches);
    assert_eq!(switches[0].remote_workloads, 3);
    let tunnels = answer!(node, &Request::GetTunnelPorts, TunnelPorts);
    assert!(tunnels.iter().any(|tunnel| tunnel.remote.to_string() == "172.16.1.22"), "{tunnels:?}");

    let off = changed(&good, "flow-cache: {", "flow-cache: {enabled: false, ");
    let applied = node.apply(&off);
    assert_eq!(
        applied.changes,
        ["segments: 1 changed", "workloads: 1 removed, 1 changed", "dataplane: 1 changed"]
    );
    assert!(!answer!(node, &Request::GetFlowCacheConfig, FlowCacheConfig).enabled);
}

#[test]
fn the_document_of_another_node_is_refused() {
    let node = Node::start_in(quiet_folder());
    let other = changed(&documents::on_files(node.folder()), "name: node-1", "name: node-2");
    let said = node.refused(&apply(&other));
    let expected = "the document is for node 'node-2' and this node is 'node-1'; apply it there, or start sluiced with it";
    assert_eq!(said, expected);
    assert_eq!((node.status().name.as_str(), node.status().generation), ("node-1", 1));
}

#[test]
fn a_change_of_ports_says_that_it_restarts_the_data_plane() {
    let node = Node::start_in(quiet_folder());
    let good = documents::on_files(node.folder());
    let applied = node.apply(&changed(&good, "web-1-out.pcap, mtu: 1500", "web-1-out.pcap, mtu: 1600"));
    let restarted =
        "the data plane was restarted, since ports, LAGs, teamings, cores, rings or tables changed";
    assert_eq!(applied.changes, ["ports: 1 changed", restarted]);
    assert_eq!(answer!(node, &Request::GetPhysicalPorts, PhysicalPorts)[0].mtu, 1600);

    let rings = changed(&good, "dataplane: {", "dataplane: {ring-size: {rx: 1024, tx: 512}, ");
    let applied = node.apply(&rings);
    assert_eq!(applied.changes, ["ports: 1 changed", "dataplane: 1 changed", restarted]);
    assert_eq!(answer!(node, &Request::GetDataplane, Dataplane).rx_ring_size, 1024);
    assert_eq!(node.status().generation, 3);
}

#[test]
fn ports_that_cannot_be_opened_leave_the_old_ones_forwarding() {
    in_network("apply::ports_that_cannot_be_opened_leave_the_old_ones_forwarding", &PORTS, || {
        let ends = Ends::open();
        let good = documents::on_interfaces();
        let node = Node::start(&good);
        let before = answers(&node);
        let said = node.refused(&apply(&changed(&good, "interface: db-1", "interface: db-7")));
        assert!(
            said.contains("port `db-1`: interface db-7 does not exist in this network namespace"),
            "{said}"
        );
        let said = node.refused(&apply(&changed(&good, "dataplane: {", "dataplane: {cores: [1023], ")));
        assert!(said.contains("core 1023 does not exist"), "{said}");
        let said = node.refused(&apply(&changed(
            &good,
            "dataplane: {",
            "dataplane: {ring-size: {rx: 4096, tx: 4096}, ",
        )));
        assert!(said.contains("dataplane.memory-mib: the rings of the ports need"), "{said}");
        wait_for("the ports to be as before", || (answers(&node) == before).then_some(()));
        let frame = numbered(WEB_1, DB_1.0, 1);
        ends.web_1.send(&frame);
        let expected = routed(&frame, ROUTER_MAC, DB_1.1);
        ends.db_1.expect("the routed datagram", |frame| (frame == expected).then_some(()));
    });
}

#[test]
fn what_a_process_takes_at_its_start_is_not_changed_while_it_runs() {
    let node = Node::start_in(quiet_folder());
    let good = documents::on_files(node.folder());
    let before = answers(&node);
    let refused = |from: &str, to: &str, what: &str| {
        let expected = format!(
            "what a process takes when it starts cannot change while it runs: {what}; nothing has changed: end sluiced and start it again \
             with this document"
        );
        assert_eq!(node.refused(&apply(&changed(&good, from, to))), expected);
    };
    refused("memory-mib: 96", "memory-mib: 128", "dataplane.memory-mib (96 here)");
    refused("huge-pages: \"off\"", "huge-pages: auto", "dataplane.huge-pages ('off' here)");
    let both = "dataplane.memory-mib (96 here), dataplane.huge-pages ('off' here)";
    refused("memory-mib: 96, huge-pages: \"off\"", "memory-mib: 64, huge-pages: required", both);
    let (from, to) = ("\nuplinks:", "  - {name: fp-eth2, kind: pci, address: \"0000:ff:1f.7\"}\n\nuplinks:");
    refused(from, to, "the PCI device 0000:ff:1f.7 (not among the ports that it started with)");
    assert_eq!(answers(&node), before);
    assert_eq!(node.status().generation, 1, "nothing was closed for it");
    assert_eq!(answer!(node, &Request::GetDataplane, Dataplane).packet_memory_mib, 96);

    std::fs::write(node.document(), changed(&good, "memory-mib: 96", "memory-mib: 128")).unwrap();
    node.signal(Signal::SIGHUP);
    let said = "nothing has changed: what a process takes when it starts";
    wait_for("the refusal in the log", || node.log().contains(said).then_some(()));
    // A restart of the data plane does not make up for it.
    answer!(node, &Request::RestartDataplane, Done);
    assert_eq!(answer!(node, &Request::GetDataplane, Dataplane).packet_memory_mib, 96);
}

fn wait_for_generation(node: &Node, generation: u64) {
    wait_for("the generation", || (node.status().generation == generation).then_some(()));
}

#[test]
fn sighup_takes_the_document_again() {
    let node = Node::start_in(quiet_folder());
    let good = documents::on_files(node.folder());
    let write = |document: &str| std::fs::write(node.document(), document).unwrap();

    write(&changed(&good, "name: web-3", "name: web-9"));
    node.signal(Signal::SIGHUP);
    wait_for_generation(&node, 2);
    wait_for("the log", || node.log().contains("workloads: 1 added, 1 removed").then_some(()));

    write(&changed(&good, "segment: db", "segment: bd"));
    node.signal(Signal::SIGHUP);
    let refused = "the document was refused, nothing has changed";
    wait_for("the refusal in the log", || node.log().contains(refused).then_some(()));
    assert_eq!(node.status().generation, 2);

    write(&good);
    node.signal(Signal::SIGHUP);
    wait_for_generation(&node, 3);
}

#[test]
fn a_restart_reads_the_files_of_pcap_ports_again() {
    let folder = quiet_folder();
    let frame = numbered(WEB_1, DB_1.0, 7);
    crate::forwarding::write_pcap(&folder.path().join("web-1-in.pcap"), std::slice::from_ref(&frame));
    let mut node = Node::start_in(folder);
    let received = || node.port_statistics("web-1").rx_packets;
    let sent = || node.port_statistics("db-1").tx_packets;
    wait_for("the file to be read", || ((received(), sent()) == (1, 1)).then_some(()));
    // Another port's file is no reason to read this one again.
    node.apply(&changed(&documents::on_files(node.folder()), "db-1-out.pcap", "db-1-new.pcap"));
    assert_eq!((received(), sent()), (1, 0));
    answer!(node, &Request::RestartDataplane, Done);
    wait_for("the file to be read again", || ((received(), sent()) == (1, 1)).then_some(()));
    assert!(node.terminate(Signal::SIGTERM).success());
    let sent = |name: &str| read_pcap(&Path::new(node.folder()).join(name));
    let expected = [routed(&frame, ROUTER_MAC, DB_1.1)];
    assert_eq!((sent("db-1-out.pcap"), sent("db-1-new.pcap")), (expected.to_vec(), expected.to_vec()));
}
