//! The data plane closed and opened: what stays open, what is checked before anything closes, and what the node says when it does not run.

use std::path::Path;

use sluice_control::{DataplaneState, Request, RingDirection};

use crate::lifecycle::quiet_folder;
use crate::support::documents::{self, DB_1, PORTS, ROUTER_MAC, WEB_1, changed};
use crate::support::frames::{numbered, routed};
use crate::support::link::Link;
use crate::support::network::{in_network, ip};
use crate::support::node::{Node, answer, apply};
use crate::support::wait_for;

/// Lines of the log that are errors.
fn errors(node: &Node) -> usize {
    node.log().lines().filter(|line| line.contains("ERROR")).count()
}

/// Number of an interface: another one of the same name has another.
fn index(interface: &str) -> u32 {
    nix::net::if_::if_nametoindex(interface).unwrap()
}

/// Sends a datagram from web-1 to db-1 and waits until it is there.
fn forward(web_1: &Link, db_1: &Link, number: u64) {
    let frame = numbered(WEB_1, DB_1.0, number);
    let expected = routed(&frame, ROUTER_MAC, DB_1.1);
    web_1.send(&frame);
    db_1.expect("the routed datagram", |frame| (frame == expected).then_some(()));
}

#[test]
fn a_data_plane_that_does_not_run_is_told_of_and_started_by_the_next_document() {
    let node = Node::start_in(quiet_folder());
    let good = documents::on_files(node.folder());
    assert_eq!(node.status().dataplane, DataplaneState::Running);
    // A folder in place of a file that a port writes: nothing that is checked before, and in the way of the old ports as well.
    let path = node.folder().join("db-1-out.pcap");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let said = node.refused(&Request::RestartDataplane);
    assert!(said.contains("port `db-1`") && said.contains("does not run"), "{said}");
    assert_eq!(errors(&node), 1, "{}", node.log());

    let stopped = |what: &str| match node.status() {
        status if status.generation != 1 => panic!("{what}: {status:?}"),
        status => match status.dataplane {
            DataplaneState::NotRunning { reason, .. } => reason,
            DataplaneState::Running => panic!("{what}: it runs"),
        },
    };
    assert_eq!(stopped("after the restart"), said);
    let answered = node.refused(&Request::GetPhysicalPorts);
    assert!(answered.contains("the data plane is not running"), "{answered}");
    // The document that it has, and another one: neither is in force.
    let other = changed(&good, "name: web-3", "name: web-9");
    for document in [&good, &other] {
        let said = node.refused(&apply(document));
        assert!(said.contains("port `db-1`"), "{said}");
        assert_eq!(stopped("after a document"), said);
    }
    assert_eq!(errors(&node), 3, "{}", node.log());
    assert!(node.log().contains("the document was refused, the data plane does not run"), "{}", node.log());

    std::fs::remove_dir(&path).unwrap();
    let applied = node.apply(&good);
    assert_eq!(applied.generation, 2);
    assert_eq!(applied.changes, ["the data plane, which did not run, was started"]);
    assert_eq!(node.status().dataplane, DataplaneState::Running);
    assert_eq!(answer!(node, &Request::GetPhysicalPorts, PhysicalPorts).len(), 4);
}

#[test]
fn a_document_that_cannot_be_taken_closes_nothing() {
    let ports = ["db-1", "fp-eth0", "fp-eth1"];
    in_network("restart::a_document_that_cannot_be_taken_closes_nothing", &ports, || {
        let good = documents::with_device("web-1", "kind: tap, interface: tap-web-1");
        let node = Node::start(&good);
        ip("link set tap-web-1 addrgenmode none");
        ip("link set tap-web-1 up");
        let tap = index("tap-web-1");
        let cases = [
            ("interface: fp-eth1", "interface: ph9", "interface ph9 does not exist"),
            ("dataplane: {", "dataplane: {cores: [1023], ", "core 1023 does not exist"),
            ("dataplane: {", "dataplane: {ring-size: {rx: 4096, tx: 4096}, ", "dataplane.memory-mib"),
            (
                "kind: af_packet, interface: db-1",
                "kind: memif, socket: /nowhere/db.sock, role: server",
                "the folder of /nowhere/db.sock does not exist",
            ),
            (
                "kind: af_packet, interface: db-1",
                "kind: pcap, receive: /nowhere/db.pcap",
                "/nowhere/db.pcap cannot be read",
            ),
        ];
        for (from, to, said) in cases {
            let refusal = node.refused(&apply(&changed(&good, from, to)));
            assert!(refusal.contains(said), "{refusal}");
        }
        assert_eq!((index("tap-web-1"), node.status().generation), (tap, 1));
        assert_eq!(node.log().matches("port open").count(), PORTS.len(), "{}", node.log());
        assert_eq!(errors(&node), cases.len(), "{}", node.log());
        let (web_1, db_1) = (Link::on("tap-web-1"), Link::open("db-1"));
        node.wait_for_link("web-1", "up");
        forward(&web_1, &db_1, 1);

        // An interface that is gone is found before the others are closed for it, too.
        ip("link delete fp-eth1");
        let refusal = node.refused(&Request::RestartDataplane);
        assert!(refusal.contains("interface fp-eth1 does not exist"), "{refusal}");
        assert_eq!((index("tap-web-1"), node.status().generation), (tap, 1));
        forward(&web_1, &db_1, 2);
    });
}

#[test]
fn ports_that_stay_the_same_stay_open() {
    in_network("restart::ports_that_stay_the_same_stay_open", &["db-1", "fp-eth0", "fp-eth1"], || {
        let good = documents::with_device("web-1", "kind: tap, interface: tap-web-1");
        let node = Node::start(&good);
        ip("link set tap-web-1 addrgenmode none");
        ip("link set tap-web-1 up");
        let tap = index("tap-web-1");
        let (web_1, db_1) = (Link::on("tap-web-1"), Link::open("db-1"));
        node.wait_for_link("web-1", "up");
        forward(&web_1, &db_1, 1);

        // Another port changes, one goes, and one comes: this one is the same, at another place.
        let mut document = changed(&good, "interface: fp-eth1, mac", "interface: fp-eth1, mtu: 1400, mac");
        for number in 2..5 {
            let applied = node.apply(&document);
            assert_eq!(applied.generation, number);
            assert_eq!(index("tap-web-1"), tap, "the interface was made anew");
            forward(&web_1, &db_1, number);
            document = match number {
                2 => changed(
                    &good,
                    "\nports:\n",
                    "\nports:\n  - {name: extra, kind: tap, interface: tap-extra}\n",
                ),
                _ => good.clone(),
            };
        }
        assert_eq!(node.port_statistics("web-1").tx_drops, 0);

        // Where its own entry changes, or the rings do, it is made anew; and one that then fails leaves what was.
        node.apply(&changed(&good, "interface: tap-web-1, mtu: 1500", "interface: tap-web-1, mtu: 1600"));
        let again = index("tap-web-1");
        assert_ne!(again, tap);
        answer!(node, &Request::RestartDataplane, Done);
        assert_ne!(index("tap-web-1"), again, "a restart opens every port again");
        assert_eq!(node.status().generation, 5);
    });
}

#[test]
fn a_port_that_cannot_be_opened_leaves_those_that_stay_alone() {
    in_network("restart::a_port_that_cannot_be_opened_leaves_those_that_stay_alone", &PORTS[1..], || {
        let good = documents::with_device("web-1", "kind: tap, interface: tap-web-1");
        let node = Node::start(&good);
        ip("link set tap-web-1 addrgenmode none");
        ip("link set tap-web-1 up");
        let tap = index("tap-web-1");
        // A name that a device which is no TAP has: only the driver finds out, when others are closed.
        let bad = changed(&good, "kind: af_packet, interface: fp-eth1", "kind: tap, interface: db-1-peer");
        let refusal = node.refused(&apply(&bad));
        assert!(refusal.contains("port `fp-eth1`"), "{refusal}");
        assert_eq!(node.status().dataplane, DataplaneState::Running);
        assert_eq!((index("tap-web-1"), node.status().generation), (tap, 1));
        let (web_1, db_1) = (Link::on("tap-web-1"), Link::open("db-1"));
        ["web-1", "db-1"].iter().for_each(|port| node.wait_for_link(port, "up"));
        forward(&web_1, &db_1, 1);
        assert_eq!(errors(&node), 1, "{}", node.log());
    });
}

#[test]
fn a_memif_keeps_its_connection_while_other_ports_change() {
    let name = "restart::a_memif_keeps_its_connection_while_other_ports_change";
    in_network(name, &["web-1", "db-1", "fp-eth1"], || {
        let folder = tempfile::tempdir().unwrap();
        let memif = |role: &str| memif(folder.path(), role);
        let document = documents::with_device("fp-eth0", &memif("server"));
        let server = Node::start(&document);
        // A TAP, since the driver of packet sockets names groups of queues by process and interface, which two nodes of one network may share.
        let other = documents::other_node(&memif("client"));
        let tap = "kind: tap, interface: tap-web-2";
        let client = Node::start(&changed(&other, "kind: af_packet, interface: web-2", tap));
        ip("link set tap-web-2 addrgenmode none");
        ip("link set tap-web-2 up");
        client.wait_for_link("web-2", "up");
        [&server, &client].iter().for_each(|node| node.wait_for_link("fp-eth0", "up"));
        let changes = |node: &Node| node.log().matches("link state port=\"fp-eth0\"").count();
        let up = "link state port=\"fp-eth0\" link=\"up\"";
        let before = wait_for("the log", || client.log().contains(up).then(|| changes(&client)));
        server.apply(&changed(&document, "interface: db-1, mtu: 1500", "interface: db-1, mtu: 1600"));
        assert_eq!(server.link("fp-eth0"), "up");
        crate::memif::wait_for_tunnel(&server);
        crate::memif::wait_for_tunnel(&client);
        crate::memif::exchange(&Link::open("web-1"), &Link::on("tap-web-2"));
        assert_eq!(changes(&client), before, "the client saw its server go: {}", client.log());
    });
}

fn memif(folder: &Path, role: &str) -> String {
    format!("kind: memif, socket: {}, role: {role}", folder.join("memif.sock").display())
}

#[test]
fn ports_of_kind_af_xdp_are_restarted_again_and_again() {
    let name = "restart::ports_of_kind_af_xdp_are_restarted_again_and_again";
    in_network(name, &PORTS, || {
        if !nix::unistd::Uid::effective().is_root()
            || std::env::var_os("SLUICE_TEST_IN_USER_NAMESPACE").is_some()
        {
            println!("{name}: SKIPPED, since AF_XDP needs root");
            return;
        }
        let document = changed(
            &documents::on_interfaces(),
            "kind: af_packet, interface: web-1",
            "kind: af_xdp, interface: web-1",
        );
        let document =
            changed(&document, "kind: af_packet, interface: db-1", "kind: af_xdp, interface: db-1");
        let node = Node::start(&changed(&document, "memory-mib: 96", "memory-mib: 256"));
        let (web_1, db_1) = (Link::open("web-1"), Link::open("db-1"));
        let drivers = || {
            let devices = answer!(node, &Request::GetDataplane, Dataplane).devices;
            devices.into_iter().filter(|device| device.driver == "net_af_xdp").count()
        };
        for number in 0..5 {
            ["web-1", "db-1"].iter().for_each(|port| node.wait_for_link(port, "up"));
            assert_eq!(drivers(), 2);
            forward(&web_1, &db_1, number);
            if number == 3 {
                answer!(node, &Request::SetRingSize { direction: RingDirection::Rx, size: 1024 }, Done);
            }
            answer!(node, &Request::RestartDataplane, Done);
        }
        assert_eq!(answer!(node, &Request::GetDataplane, Dataplane).rx_ring_size, 1024);
        assert_eq!(node.status().generation, 1);
        assert_eq!(errors(&node), 0, "{}", node.log());
    });
}
