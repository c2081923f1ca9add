//! The edge of the bare-metal document's test bed: one uplink, one downlink, 20 workloads behind one host's TEP; or two downlinks and two
//! TEPs at either end, in groups.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use sluice_datapath::neighbor::{NeighborKey, NeighborTable};
use sluice_datapath::snapshot::{PortFacts, Snapshot};
use sluice_intent::plan::*;
use sluice_wire::{MacAddr, Vni};

type Frame = Vec<u8>;

/// Frames of one length, one behind the other.
pub(crate) struct Frames {
    bytes: Vec<u8>,
    length: usize,
}

impl Frames {
    pub(crate) fn get(&self, number: usize) -> &[u8] {
        &self.bytes[number * self.length..][..self.length]
    }
}

/// Which way packets go through the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Encap,
    Decap,
    EncapIpv6,
    DecapIpv6,
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) direction: Direction,
    pub(crate) flows: usize,
    pub(crate) cache: bool,
    /// How flows are placed on the TEPs of groups; none: one TEP at either end.
    pub(crate) placement: Option<Placement>,
}

const UPLINK: PortIndex = PortIndex(0);
const DOWNLINK: PortIndex = PortIndex(1);
const SECOND_DOWNLINK: PortIndex = PortIndex(2);
const UPLINK_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const DOWNLINK_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const SECOND_DOWNLINK_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const ROUTER_MAC: MacAddr = DEFAULT_ROUTER_MAC;
const TESTER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 9, 1]);
const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 9, 2]);
const TEP: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);
const HOST_TEP: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 2);
const SECOND_HOST_TEP: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 4);
const VNI: u32 = 71680;
const WORKLOADS: u16 = 20;

impl Direction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Encap => "encap IPv4",
            Self::Decap => "decap IPv4",
            Self::EncapIpv6 => "encap IPv6",
            Self::DecapIpv6 => "decap IPv6",
        }
    }

    pub(crate) fn port(self) -> PortIndex {
        match self {
            Self::Encap | Self::EncapIpv6 => UPLINK,
            Self::Decap | Self::DecapIpv6 => DOWNLINK,
        }
    }
}

fn workload_mac(number: u16) -> MacAddr {
    MacAddr([2, 0, 0, 1, (number >> 8) as u8, number as u8])
}

fn workload_v4(number: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 10, 20, 10 + number as u8)
}

fn workload_v6(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 20, 0, 0, 0, 0, 0x10 + number)
}

fn tester_v6(number: u32) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, (number >> 16) as u16, number as u16)
}

fn port(name: &str) -> Port {
    let kind = PortKind::Pcap { receive: None, transmit: None };
    Port { name: name.into(), kind, mtu: 1700, mac: None, queues: 1 }
}

fn tep(name: &str, address: &str, uplink: u16) -> Tep {
    Tep {
        name: name.into(),
        address: address.parse().expect("prefix"),
        gateway: None,
        uplink: UplinkIndex(uplink),
        vlan: None,
        mtu: 1700,
    }
}

pub(crate) fn snapshot(placement: Option<Placement>) -> Snapshot {
    let mut plan = plan();
    if let Some(placement) = placement {
        group(&mut plan, placement);
    }
    let facts = [UPLINK_MAC, DOWNLINK_MAC, SECOND_DOWNLINK_MAC].map(|mac| PortFacts { mac });
    Snapshot::compile(Arc::new(plan), &facts, 1, 0x5eed).expect("the fixture compiles")
}

/// Gives both ends a second TEP, and makes groups of them.
fn group(plan: &mut Plan, placement: Placement) {
    plan.teps.push(tep("tep-2", "172.16.0.3/24", 2));
    plan.tep_group = Some(TepGroup { id: 1, placement, rebalance: false });
    let teps = vec![HOST_TEP.into(), SECOND_HOST_TEP.into()];
    plan.remote_tep_groups.push(RemoteTepGroup { name: "host-1".into(), teps });
    for segment in &mut plan.segments {
        segment.teps = vec![TepIndex(0), TepIndex(1)];
        segment.teaming = Teaming::Group(placement);
    }
}

fn plan() -> Plan {
    let hop = |address: &str| NextHop { address: address.parse().expect("address"), via: Via::Interface(0) };
    let route = |prefix: &str, next: &str| StaticRoute {
        prefix: prefix.parse().expect("prefix"),
        next_hops: vec![hop(next)],
    };
    Plan {
        name: "edge-1".into(),
        role: Role::Edge,
        dataplane: Dataplane {
            cores: vec![1],
            rx_ring_size: 512,
            tx_ring_size: 512,
            flow_cache: FlowCache { enabled: true, size: 1 << 18, idle_timeout_s: 60 },
            idle_sleep_us: 0,
            memory_mib: 256,
            huge_pages: HugePages::Auto,
        },
        ports: vec![port("fp-eth0"), port("fp-eth1"), port("fp-eth2")],
        uplinks: vec![
            Uplink { name: "uplink-1".into(), port: UPLINK },
            Uplink { name: "uplink-2".into(), port: DOWNLINK },
            Uplink { name: "uplink-3".into(), port: SECOND_DOWNLINK },
        ],
        teps: vec![tep("tep-1", "172.16.0.1/24", 1)],
        lags: Vec::new(),
        teams: Vec::new(),
        uplink_profile: None,
        tep_group: None,
        remote_tep_groups: Vec::new(),
        bfd: None,
        tep_high_availability: None,
        segments: vec![Segment {
            name: "web".into(),
            vni: Vni::new(VNI).expect("vni"),
            encapsulation: Encapsulation::Geneve,
            teps: vec![TepIndex(0)],
            teaming: Teaming::FailoverOrder,
            mtu: 1500,
            gateway: Some(GatewayIndex(0)),
            gateway_addresses: vec![
                "10.10.20.1/24".parse().expect("prefix"),
                "2001:db8:20::1/64".parse().expect("prefix"),
            ],
            replication: Replication::Source,
            remote_teps: vec![HOST_TEP.into()],
        }],
        workloads: (0..WORKLOADS)
            .map(|number| Workload {
                name: format!("vm-{number}"),
                segment: SegmentIndex(0),
                mac: workload_mac(number),
                addresses: vec![workload_v4(number).into(), workload_v6(number).into()],
                location: Location::RemoteTep(HOST_TEP.into()),
            })
            .collect(),
        gateways: vec![Gateway {
            name: "t0".into(),
            tier: Tier::Tier0 {
                interfaces: vec![UplinkInterface {
                    name: "up".into(),
                    uplink: UplinkIndex(0),
                    vlan: None,
                    addresses: vec![
                        "192.0.2.2/24".parse().expect("prefix"),
                        "2001:db8:2::2/64".parse().expect("prefix"),
                    ],
                    mtu: 1500,
                }],
                transit: None,
            },
            static_routes: vec![route("0.0.0.0/0", "192.0.2.1"), route("::/0", "2001:db8:2::1")],
            bfd_peers: Vec::new(),
        }],
        router_mac: ROUTER_MAC,
    }
}

pub(crate) fn neighbors() -> NeighborTable {
    let mut table = NeighborTable::default();
    let mut set = |port, address: &str, mac| {
        let address: IpAddr = address.parse().expect("address");
        table.set(NeighborKey { port, vlan: 0, address }, Some(mac));
    };
    set(UPLINK, "192.0.2.1", TESTER_MAC);
    set(UPLINK, "2001:db8:2::1", TESTER_MAC);
    for port in [DOWNLINK, SECOND_DOWNLINK] {
        set(port, "172.16.0.2", HOST_MAC);
        set(port, "172.16.0.4", HOST_MAC);
    }
    table
}

/// One 60-byte frame for each flow (74 bytes for IPv6), in an order that visits workloads in turn.
pub(crate) fn frames(direction: Direction, flows: usize) -> Frames {
    let length = frame(direction, 0).len();
    let mut bytes = Vec::with_capacity(length * flows);
    for flow in 0..flows as u32 {
        bytes.extend_from_slice(&frame(direction, flow));
    }
    assert_eq!(bytes.len(), length * flows, "frames of one direction have one length");
    Frames { bytes, length }
}

fn frame(direction: Direction, flow: u32) -> Frame {
    let workload = (flow % u32::from(WORKLOADS)) as u16;
    let tester = flow / u32::from(WORKLOADS);
    let v4 = Ipv4Addr::from(0xc612_0000 + tester);
    match direction {
        Direction::Encap => {
            ethernet(UPLINK_MAC, TESTER_MAC, 0x0800, &udp4(v4, workload_v4(workload), 1024, 5001, 18))
        }
        Direction::EncapIpv6 => {
            ethernet(UPLINK_MAC, TESTER_MAC, 0x86dd, &udp6(tester_v6(tester), workload_v6(workload), 12))
        }
        Direction::Decap => {
            let packet = udp4(workload_v4(workload), v4, 5001, 1024, 18);
            geneve(&ethernet(ROUTER_MAC, workload_mac(workload), 0x0800, &packet), flow)
        }
        Direction::DecapIpv6 => {
            let packet = udp6(workload_v6(workload), tester_v6(tester), 12);
            geneve(&ethernet(ROUTER_MAC, workload_mac(workload), 0x86dd, &packet), flow)
        }
    }
}

fn geneve(inner: &[u8], flow: u32) -> Frame {
    let mut header = vec![0, 0, 0x65, 0x58];
    header.extend_from_slice(&(VNI << 8).to_be_bytes());
    header.extend_from_slice(inner);
    let outer = ipv4(HOST_TEP, TEP, 17, &udp(0xc000 | flow as u16 & 0x3fff, 6081, &header));
    ethernet(DOWNLINK_MAC, HOST_MAC, 0x0800, &outer)
}

fn ethernet(destination: MacAddr, source: MacAddr, ethertype: u16, packet: &[u8]) -> Frame {
    [&destination.octets()[..], &source.octets(), &ethertype.to_be_bytes(), packet].concat()
}

fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

fn udp4(source: Ipv4Addr, destination: Ipv4Addr, from: u16, to: u16, payload: usize) -> Vec<u8> {
    ipv4(source, destination, 17, &udp(from, to, &vec![0; payload]))
}

fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    header[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    header.extend_from_slice(&source.octets());
    header.extend_from_slice(&destination.octets());
    let sum = sluice_wire::checksum::checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header, payload.to_vec()].concat()
}

fn udp6(source: Ipv6Addr, destination: Ipv6Addr, payload: usize) -> Vec<u8> {
    let datagram = udp(1024, 5001, &vec![0; payload]);
    let [high, low] = (datagram.len() as u16).to_be_bytes();
    [&[0x60, 0, 0, 0, high, low, 17, 64][..], &source.octets(), &destination.octets(), &datagram].concat()
}
