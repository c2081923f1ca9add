//! Frames through the node, byte for byte.

use std::fs::File;
use std::path::Path;

use nix::sys::signal::Signal;
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use sluice_control::Request;
use sluice_wire::Vni;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::geneve::Geneve;
use sluice_wire::vxlan::Vxlan;

use crate::lifecycle::quiet_folder;
use crate::support::documents::{
    self, DB_1, DB_2, DB_VNI, LOCAL_TEP, NORTH_MAC, PORTS, ROUTER_MAC, TEP_A, TEP_B, UPLINK_MAC, WEB_1,
    WEB_2, WEB_VNI,
};
use crate::support::frames::{datagram, numbered, routed, tunnelled};
use crate::support::link::Link;
use crate::support::network::in_network;
use crate::support::node::{Node, answer};
use crate::support::wait_for;

/// The tests' ends of the node's ports.
pub(crate) struct Ends {
    pub(crate) web_1: Link,
    pub(crate) db_1: Link,
    pub(crate) underlay: Link,
    pub(crate) north: Link,
}

impl Ends {
    /// Opens all of them; nobody answers ARP requests.
    pub(crate) fn open() -> Self {
        let [web_1, db_1, underlay, north] = PORTS.map(Link::open);
        Self { web_1, db_1, underlay, north }
    }

    /// The same, with the TEPs of the other nodes on the underlay and the router north.
    pub(crate) fn with_stations() -> Self {
        let mut ends = Self::open();
        for (address, mac) in [TEP_A, TEP_B] {
            ends.underlay.answer_for(address, mac);
        }
        ends.north.answer_for([198, 51, 100, 1].into(), NORTH_ROUTER);
        ends
    }

    /// A node on these ends, with every tunnel up.
    pub(crate) fn node(&self) -> Node {
        let node = Node::start(&documents::on_interfaces());
        wait_for("every neighbour to be reachable", || {
            self.underlay.glance();
            self.north.glance();
            let neighbors = answer!(node, &Request::GetNeighbor, Neighbors);
            (neighbors.len() == 3 && neighbors.iter().all(|neighbor| neighbor.state == "reachable"))
                .then_some(())
        });
        node.wait_for_tunnels(|| {});
        node
    }
}

/// The router beyond the uplink of the tier-0 gateway.
const NORTH_ROUTER: sluice_wire::MacAddr = sluice_wire::MacAddr([2, 0, 0, 0, 0xff, 1]);

/// Writes frames as a capture file.
pub(crate) fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let header = PcapHeader { datalink: DataLink::ETHERNET, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(File::create(path).unwrap(), header).unwrap();
    for frame in frames {
        writer.write_packet(&PcapPacket::new(std::time::Duration::ZERO, frame.len() as u32, frame)).unwrap();
    }
}

/// The frames of a capture file.
pub(crate) fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(File::open(path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.unwrap().data.into_owned());
    }
    frames
}

/// A tunnel packet from the TEP of another node.
pub(crate) fn geneve(from: documents::Station, vni: u32, inner: &[u8]) -> Vec<u8> {
    let outer = FrameBuilder::new().ethernet(from.1, UPLINK_MAC).ipv4(from.0, LOCAL_TEP);
    outer.geneve(50_000, Geneve::new(Vni::new(vni).unwrap())).payload(inner).build().unwrap()
}

fn vxlan(from: documents::Station, vni: u32, inner: &[u8]) -> Vec<u8> {
    let outer = FrameBuilder::new().ethernet(from.1, UPLINK_MAC).ipv4(from.0, LOCAL_TEP);
    outer.vxlan(50_000, Vxlan { vni: Some(Vni::new(vni).unwrap()) }).payload(inner).build().unwrap()
}

#[test]
fn frames_from_files_leave_to_files_byte_for_byte() {
    let folder = quiet_folder();
    let local: Vec<Vec<u8>> = (0..300).map(|number| numbered(WEB_1, DB_1.0, number)).collect();
    let bridged: Vec<Vec<u8>> =
        (0..100).map(|number| datagram(WEB_2, WEB_1.1, WEB_1.0, &[number; 900])).collect();
    let vxlan_inner = datagram(DB_2, DB_1.1, DB_1.0, b"over VXLAN");
    let mut tunnelled: Vec<Vec<u8>> = bridged.iter().map(|inner| geneve(TEP_A, WEB_VNI, inner)).collect();
    tunnelled.push(vxlan(TEP_A, DB_VNI, &vxlan_inner));
    write_pcap(&folder.path().join("web-1-in.pcap"), &local);
    write_pcap(&folder.path().join("fp-eth0-in.pcap"), &tunnelled);
    let mut node = Node::start_in(folder);
    wait_for("both files to be read", || {
        let received = |port| node.port_statistics(port).rx_packets;
        (received("web-1") == 300 && received("fp-eth0") == 101).then_some(())
    });
    assert!(node.terminate(Signal::SIGTERM).success());

    let at_db_1 = read_pcap(&node.folder().join("db-1-out.pcap"));
    let (over_vxlan, routed_locally): (Vec<_>, Vec<_>) =
        at_db_1.into_iter().partition(|frame| *frame == vxlan_inner);
    assert_eq!(over_vxlan.len(), 1);
    let expected: Vec<Vec<u8>> = local.iter().map(|frame| routed(frame, ROUTER_MAC, DB_1.1)).collect();
    assert_eq!(routed_locally, expected, "routed between two segments, in order");
    assert_eq!(
        read_pcap(&node.folder().join("web-1-out.pcap")),
        bridged,
        "as it was within the tunnel, in order"
    );
}

#[test]
fn frames_to_other_nodes_are_encapsulated() {
    in_network("forwarding::frames_to_other_nodes_are_encapsulated", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        let next = || ends.underlay.expect("a tunnel packet", tunnelled);

        let bridged = datagram(WEB_1, WEB_2.1, WEB_2.0, b"on the segment");
        ends.web_1.send(&bridged);
        let outer = next();
        assert_eq!((outer.remote, outer.mac), TEP_A);
        assert_eq!((outer.vxlan, outer.vni, outer.inner), (false, WEB_VNI, bridged));

        // Routed to the VXLAN segment, again and again over the same path.
        let mut ports = std::collections::BTreeSet::new();
        for number in 0..10 {
            let frame = numbered(WEB_1, DB_2.0, number);
            ends.web_1.send(&frame);
            let outer = next();
            assert_eq!((outer.remote, outer.mac), TEP_A);
            assert_eq!((outer.vxlan, outer.vni), (true, DB_VNI));
            assert_eq!(outer.inner, routed(&frame, ROUTER_MAC, DB_2.1));
            ports.insert(outer.source_port);
        }
        assert_eq!(ports.len(), 1, "one flow, one source port");
        assert!(ports.iter().all(|port| *port >= 49_152), "RFC 7348 section 5: {ports:?}");

        let counted = || {
            let tunnels = answer!(node, &Request::GetTunnelPorts, TunnelPorts);
            tunnels.iter().find(|tunnel| tunnel.vni == DB_VNI).map(|db| (db.tx_packets, db.tx_bytes))
        };
        // A worker writes its counters now and then.
        wait_for("all packets to be counted", || counted().filter(|(packets, _)| *packets == 10));
        assert_eq!(counted(), Some((10, 10 * (50 + 14 + 20 + 8 + 8))));
    });
}

#[test]
fn the_physical_network_is_reached_through_both_tiers_and_back() {
    in_network("forwarding::the_physical_network_is_reached_through_both_tiers_and_back", &PORTS, || {
        let ends = Ends::with_stations();
        let _node = ends.node();
        let frame = numbered(WEB_1, [192, 0, 2, 7].into(), 1);
        ends.web_1.send(&frame);
        // Two gateways, so two hops.
        let expected = routed(&routed(&frame, NORTH_MAC, NORTH_ROUTER), NORTH_MAC, NORTH_ROUTER);
        ends.north.expect("the datagram", |frame| (frame == expected).then_some(()));

        let outside = ([192, 0, 2, 7].into(), NORTH_ROUTER);
        let back = datagram(outside, NORTH_MAC, WEB_1.0, b"to a workload here");
        ends.north.send(&back);
        let expected = routed(&routed(&back, ROUTER_MAC, WEB_1.1), ROUTER_MAC, WEB_1.1);
        ends.web_1.expect("the answer", |frame| (frame == expected).then_some(()));

        let back = datagram(outside, NORTH_MAC, WEB_2.0, b"to a workload there");
        ends.north.send(&back);
        let outer = ends.underlay.expect("a tunnel packet", tunnelled);
        assert_eq!((outer.remote, outer.vni), (TEP_A.0, WEB_VNI));
        assert_eq!(outer.inner, routed(&routed(&back, ROUTER_MAC, WEB_2.1), ROUTER_MAC, WEB_2.1));
    });
}
