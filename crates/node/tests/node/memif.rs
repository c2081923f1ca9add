//! Ports in shared memory: two nodes with a memif between them, whichever comes first and whichever goes.

use std::path::Path;

use nix::sys::signal::Signal;

use crate::support::documents::{self, DB_1, WEB_1, WEB_2};
use crate::support::frames::{datagram, numbered};
use crate::support::link::Link;
use crate::support::network::in_network;
use crate::support::node::Node;
use crate::support::wait_for;

/// Interfaces of both nodes; the uplinks between them need none.
const PORTS: [&str; 4] = ["web-1", "db-1", "fp-eth1", "web-2"];

fn memif(folder: &Path, role: &str) -> String {
    format!("kind: memif, socket: {}, role: {role}", folder.join("memif.sock").display())
}

/// Frames between the workloads of the two nodes, both ways, byte for byte.
pub(crate) fn exchange(web_1: &Link, web_2: &Link) {
    for number in 0..100u64 {
        let there = datagram(WEB_1, WEB_2.1, WEB_2.0, &number.to_be_bytes());
        web_1.send(&there);
        web_2.expect("the datagram at web-2", |frame| (frame == there).then_some(()));
        let back = datagram(WEB_2, WEB_1.1, WEB_1.0, &number.to_be_bytes());
        web_2.send(&back);
        web_1.expect("the datagram at web-1", |frame| (frame == back).then_some(()));
    }
}

pub(crate) fn wait_for_tunnel(node: &Node) {
    wait_for("the tunnel to the other node", || {
        let tunnels =
            crate::support::node::answer!(node, &sluice_control::Request::GetTunnelPorts, TunnelPorts);
        let to_other = |tunnel: &&sluice_control::TunnelPort| tunnel.vni == 5001 && tunnel.state == "up";
        tunnels.iter().any(|tunnel| to_other(&tunnel)).then_some(())
    });
}

#[test]
fn a_client_connects_when_its_server_comes_and_comes_again() {
    in_network("memif::a_client_connects_when_its_server_comes_and_comes_again", &PORTS, || {
        let folder = tempfile::tempdir().unwrap();
        let [web_1, web_2] = ["web-1", "web-2"].map(Link::open);
        let server = documents::other_node(&memif(folder.path(), "server"));
        let mut client = Node::start(&documents::with_device("fp-eth0", &memif(folder.path(), "client")));
        client.wait_for_link("web-1", "up");
        assert_eq!(client.link("fp-eth0"), "down", "there is no server yet");
        for round in 0..3 {
            let mut other = Node::start(&server);
            client.wait_for_link("fp-eth0", "up");
            other.wait_for_link("fp-eth0", "up");
            wait_for_tunnel(&client);
            wait_for_tunnel(&other);
            exchange(&web_1, &web_2);
            // In order once, and by force: then its socket is left behind.
            other.terminate(if round == 0 { Signal::SIGTERM } else { Signal::SIGKILL });
            client.wait_for_link("fp-eth0", "down");
        }
        let told = |state: &str| {
            let line = format!("link state port=\"fp-eth0\" link=\"{state}\"");
            client.log().matches(&line).count()
        };
        assert_eq!((told("up"), told("down")), (3, 4), "{}", client.log());
        assert!(client.terminate(Signal::SIGTERM).success());
    });
}

#[test]
fn frames_to_a_port_without_a_server_are_dropped_for_a_reason() {
    let ports = ["web-1", "fp-eth0", "fp-eth1"];
    in_network("memif::frames_to_a_port_without_a_server_are_dropped_for_a_reason", &ports, || {
        let folder = tempfile::tempdir().unwrap();
        let web_1 = Link::open("web-1");
        let node = Node::start(&documents::with_device("db-1", &memif(folder.path(), "client")));
        node.wait_for_link("web-1", "up");
        (0..3).for_each(|number| web_1.send(&numbered(WEB_1, DB_1.0, number)));
        wait_for("the drops", || (node.drops("port-down") == 3).then_some(()));
        assert_eq!(node.port_statistics("db-1").tx_packets, 0);
    });
}

#[test]
fn a_server_takes_its_client_again() {
    in_network("memif::a_server_takes_its_client_again", &PORTS, || {
        let folder = tempfile::tempdir().unwrap();
        let [web_1, web_2] = ["web-1", "web-2"].map(Link::open);
        let server = Node::start(&documents::with_device("fp-eth0", &memif(folder.path(), "server")));
        for _ in 0..2 {
            let mut client = Node::start(&documents::other_node(&memif(folder.path(), "client")));
            client.wait_for_link("fp-eth0", "up");
            server.wait_for_link("fp-eth0", "up");
            wait_for_tunnel(&client);
            wait_for_tunnel(&server);
            exchange(&web_1, &web_2);
            client.terminate(Signal::SIGKILL);
            server.wait_for_link("fp-eth0", "down");
        }
    });
}

#[test]
fn what_listens_and_is_no_memif_does_not_hold_the_node_up() {
    in_network("memif::what_listens_and_is_no_memif_does_not_hold_the_node_up", &PORTS, || {
        use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memif.sock");
        // Takes connections as far as its queue goes, and never answers any.
        let silent = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(silent.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&silent, Backlog::new(0).unwrap()).unwrap();
        let [web_1, web_2] = ["web-1", "web-2"].map(Link::open);
        let client = Node::start(&documents::with_device("fp-eth0", &memif(folder.path(), "client")));
        client.wait_for_link("db-1", "up");
        assert_eq!(client.link("fp-eth0"), "down");
        drop(silent);
        let _server = Node::start(&documents::other_node(&memif(folder.path(), "server")));
        client.wait_for_link("fp-eth0", "up");
        wait_for_tunnel(&client);
        exchange(&web_1, &web_2);
    });
}
