//! Frames that workloads send, and what the tests read from those that the node sends.

use std::net::Ipv4Addr;

use sluice_wire::ethernet::EthernetView;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::geneve::GeneveView;
use sluice_wire::ipv4::{Ipv4, Ipv4View};
use sluice_wire::udp::UdpView;
use sluice_wire::vxlan::VxlanView;
use sluice_wire::{EtherType, IpProtocol, MacAddr};

use super::documents::{LOCAL_TEP, ROUTER_MAC, Station};

/// A UDP datagram from one station to the MAC address of its next hop.
pub(crate) fn datagram(from: Station, next_hop: MacAddr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    flow(from, next_hop, to, 4000, payload)
}

/// The same from a source port, so that it is of another flow.
pub(crate) fn flow(
    from: Station,
    next_hop: MacAddr,
    to: Ipv4Addr,
    source_port: u16,
    payload: &[u8],
) -> Vec<u8> {
    let header = Ipv4::new(from.0, to, IpProtocol::UDP);
    let frame = FrameBuilder::new().ethernet(from.1, next_hop).ipv4_header(header);
    frame.udp(source_port, 5000).payload(payload).build().unwrap()
}

/// The same with a number as payload, to the gateway.
pub(crate) fn numbered(from: Station, to: Ipv4Addr, number: u64) -> Vec<u8> {
    datagram(from, ROUTER_MAC, to, &number.to_be_bytes())
}

/// What a routed frame looks like where it leaves: one hop less to live, between other MAC addresses.
pub(crate) fn routed(frame: &[u8], source: MacAddr, destination: MacAddr) -> Vec<u8> {
    let ethernet = EthernetView::parse(frame).unwrap();
    let packet = Ipv4View::parse(ethernet.payload()).unwrap();
    let header = Ipv4 { ttl: packet.ttl() - 1, ..Ipv4::from(packet) };
    let udp = UdpView::parse(packet.payload()).unwrap();
    let builder = FrameBuilder::new().ethernet(source, destination).ipv4_header(header);
    builder.udp(udp.source_port(), udp.destination_port()).payload(udp.payload()).build().unwrap()
}

/// The number in the payload of a UDP datagram of these tests.
pub(crate) fn number(frame: &[u8]) -> Option<u64> {
    let packet = ipv4(frame)?;
    let udp = UdpView::parse(packet.payload()).ok().filter(|udp| udp.destination_port() == 5000)?;
    udp.payload().try_into().ok().map(u64::from_be_bytes)
}

fn ipv4(frame: &[u8]) -> Option<Ipv4View<'_>> {
    let ethernet =
        EthernetView::parse(frame).ok().filter(|ethernet| ethernet.ether_type() == EtherType::IPV4)?;
    Ipv4View::parse(ethernet.payload()).ok()
}

/// A frame from the node's TEP: where it goes, and what it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tunnelled {
    pub(crate) mac: MacAddr,
    pub(crate) remote: Ipv4Addr,
    pub(crate) source_port: u16,
    pub(crate) vxlan: bool,
    pub(crate) vni: u32,
    pub(crate) inner: Vec<u8>,
}

/// Reads a tunnel packet of the node, and checks what is the same in each.
pub(crate) fn tunnelled(frame: &[u8]) -> Option<Tunnelled> {
    let ethernet = EthernetView::parse(frame).ok()?;
    let packet = ipv4(frame).filter(|packet| packet.source() == LOCAL_TEP)?;
    packet.verify_checksum().unwrap();
    assert!(packet.dont_fragment(), "tunnel packets are never fragmented");
    let udp = UdpView::parse(packet.payload()).ok()?;
    udp.verify_checksum(packet.pseudo_header()).unwrap();
    let (vxlan, vni, inner) = match udp.destination_port() {
        6081 => {
            let geneve = GeneveView::parse(udp.payload()).unwrap();
            (false, geneve.vni(), geneve.payload())
        }
        4789 => {
            let vxlan = VxlanView::parse(udp.payload()).unwrap();
            (true, vxlan.vni(), vxlan.payload())
        }
        other => panic!("UDP port {other} is no tunnel's"),
    };
    Some(Tunnelled {
        mac: ethernet.destination(),
        remote: packet.destination(),
        source_port: udp.source_port(),
        vxlan,
        vni: vni.unwrap().get(),
        inner: inner.to_vec(),
    })
}
