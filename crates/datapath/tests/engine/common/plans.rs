//! Plans built by hand that have a bit of everything, and the neighbours that a plan can need.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use sluice_datapath::neighbor::NeighborKey;
use sluice_intent::plan::*;
use sluice_wire::{MacAddr, VlanId, Vni};

/// Uplink of the edge, with a tier-0's interfaces on it.
pub(crate) const UPLINK: PortIndex = PortIndex(0);
/// Port of the TEPs.
pub(crate) const FABRIC: PortIndex = PortIndex(1);
/// Port of local workloads.
pub(crate) const ACCESS: PortIndex = PortIndex(2);
/// Another one.
pub(crate) const ACCESS_2: PortIndex = PortIndex(3);

pub(crate) const GENEVE_VNI: u32 = 71_680;
pub(crate) const VXLAN_VNI: u32 = 71_681;
pub(crate) const TRANSIT_VNI: u32 = 71_690;

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|_| panic!("{text} is no address"))
}

pub(crate) fn net(text: &str) -> IpNet {
    text.parse().unwrap_or_else(|_| panic!("{text} is no prefix"))
}

/// MAC address of the workload with this number in its plan.
pub(crate) fn workload_mac(number: usize) -> MacAddr {
    MacAddr([0x02, 0xbb, 0, 0, (number >> 8) as u8, number as u8])
}

/// MAC address of the service router with this number.
pub(crate) fn service_router_mac(number: usize) -> MacAddr {
    MacAddr([0x02, 0xcc, 0, 0, 0, number as u8])
}

fn port(name: &str) -> Port {
    let kind = PortKind::Pcap { receive: None, transmit: None };
    Port { name: name.into(), kind, mtu: 9000, mac: None, queues: 1 }
}

fn tep(name: &str, own: &str, gateway: &str, vlan: Option<u16>, mtu: u16) -> Tep {
    let vlan = vlan.and_then(|vlan| VlanId::new(vlan).ok());
    let gateway = (!gateway.is_empty()).then(|| address(gateway));
    Tep { name: name.into(), address: net(own), gateway, uplink: UplinkIndex(1), vlan, mtu }
}

fn segment(
    name: &str,
    vni: u32,
    encapsulation: Encapsulation,
    tep: u16,
    gateway: Option<u16>,
    addresses: &[&str],
) -> Segment {
    Segment {
        name: name.into(),
        vni: Vni::new(vni).expect("a VNI"),
        encapsulation,
        teps: vec![TepIndex(tep), TepIndex(1 - tep)],
        teaming: Teaming::FailoverOrder,
        mtu: 1500,
        gateway: gateway.map(GatewayIndex),
        gateway_addresses: addresses.iter().map(|text| net(text)).collect(),
        replication: Replication::Source,
        remote_teps: Vec::new(),
    }
}

pub(crate) fn via_interface(hop: &str, interface: u16) -> NextHop {
    NextHop { address: address(hop), via: Via::Interface(interface) }
}

pub(crate) fn route(prefix: &str, next_hops: Vec<NextHop>) -> StaticRoute {
    StaticRoute { prefix: net(prefix), next_hops }
}

fn interface(name: &str, vlan: Option<u16>, addresses: &[&str], mtu: u16) -> UplinkInterface {
    let vlan = vlan.and_then(|vlan| VlanId::new(vlan).ok());
    let addresses = addresses.iter().map(|text| net(text)).collect();
    UplinkInterface { name: name.into(), uplink: UplinkIndex(0), vlan, addresses, mtu }
}

fn link(tier0: u16, tier0_addresses: &[&str], tier1_addresses: &[&str]) -> Option<RouterLink> {
    let nets = |texts: &[&str]| texts.iter().map(|text| net(text)).collect();
    Some(RouterLink {
        tier0: GatewayIndex(tier0),
        tier0_addresses: nets(tier0_addresses),
        tier1_addresses: nets(tier1_addresses),
    })
}

fn tier1(name: &str, link: Option<RouterLink>, static_routes: Vec<StaticRoute>) -> Gateway {
    Gateway { name: name.into(), tier: Tier::Tier1 { link }, static_routes }
}

fn service_router(number: usize, edge: &str, tep: &str) -> ServiceRouter {
    let host = number + 1;
    let addresses = vec![address(&format!("169.254.0.{host}")), address(&format!("2001:db8:fe::{host}"))];
    ServiceRouter { edge: edge.into(), mac: service_router_mac(number), addresses, tep: address(tep) }
}

fn workload(number: usize, segment: u16, addresses: &[&str], location: Location) -> Workload {
    Workload {
        name: format!("vm-{number}"),
        segment: SegmentIndex(segment),
        mac: workload_mac(number),
        addresses: addresses.iter().map(|text| address(text)).collect(),
        location,
    }
}

fn local(port: PortIndex, vlan: Option<u16>) -> Location {
    Location::Port { port, vlan: vlan.and_then(|vlan| VlanId::new(vlan).ok()) }
}

fn remote(tep: &str) -> Location {
    Location::RemoteTep(address(tep))
}

/// Four segments (Geneve and VXLAN, over IPv4 and IPv6), two tier-1s and a tier-0; workloads on ports with and without VLAN and
/// behind three TEPs.
fn common(name: &str, role: Role) -> Plan {
    let mut segments = vec![
        segment("web", GENEVE_VNI, Encapsulation::Geneve, 0, Some(1), &["10.1.0.1/24", "2001:db8:1::1/64"]),
        segment("db", VXLAN_VNI, Encapsulation::Vxlan, 0, Some(2), &["10.2.0.1/24"]),
        segment(
            "dmz",
            VXLAN_VNI + 1,
            Encapsulation::Geneve,
            1,
            Some(0),
            &["10.3.0.1/24", "2001:db8:3::1/64"],
        ),
        segment("flat", VXLAN_VNI + 2, Encapsulation::Vxlan, 1, None, &[]),
    ];
    segments[0].remote_teps = vec![address("172.16.0.2"), address("172.17.0.3")];
    segments[1].remote_teps = vec![address("172.16.0.2")];
    segments[1].mtu = 1400;
    segments[2].remote_teps = vec![address("2001:db8:16::2")];
    segments[3].remote_teps = vec![address("2001:db8:16::2"), address("2001:db8:17::3")];
    segments[2].replication = Replication::None;
    let v6 = |number: usize| format!("2001:db8:1::{number:x}");
    let workloads = vec![
        workload(0, 0, &["10.1.0.10", &v6(0x10), "fe80::10"], local(ACCESS, None)),
        workload(1, 0, &["10.1.0.11", &v6(0x11)], local(ACCESS, Some(101))),
        workload(2, 0, &["10.1.0.12", &v6(0x12)], remote("172.16.0.2")),
        workload(3, 0, &["10.1.0.13", &v6(0x13), "fe80::13"], remote("172.17.0.3")),
        workload(4, 1, &["10.2.0.10"], local(ACCESS, Some(102))),
        workload(5, 1, &["10.2.0.11", "10.2.0.12"], remote("172.16.0.2")),
        workload(6, 2, &["10.3.0.10", "2001:db8:3::10"], local(ACCESS_2, None)),
        workload(7, 2, &["10.3.0.11", "2001:db8:3::11"], remote("2001:db8:16::2")),
        workload(8, 3, &[], local(ACCESS_2, Some(103))),
        workload(9, 3, &[], remote("2001:db8:17::3")),
    ];
    Plan {
        name: name.into(),
        role,
        dataplane: Dataplane {
            cores: vec![1],
            rx_ring_size: 512,
            tx_ring_size: 512,
            flow_cache: FlowCache { enabled: true, size: 1 << 12, idle_timeout_s: 60 },
            idle_sleep_us: 0,
            memory_mib: 256,
            huge_pages: HugePages::Auto,
        },
        ports: vec![port("fp-eth0"), port("fp-eth1"), port("vm-0"), port("vm-1")],
        uplinks: vec![
            Uplink { name: "uplink-1".into(), port: UPLINK },
            Uplink { name: "uplink-2".into(), port: FABRIC },
        ],
        teps: vec![
            tep("tep-1", "172.16.0.1/24", "172.16.0.254", None, 1700),
            tep("tep-2", "2001:db8:16::1/64", "2001:db8:16::fe", Some(16), 1700),
        ],
        tep_group: None,
        remote_tep_groups: Vec::new(),
        bfd: None,
        tep_high_availability: None,
        segments,
        workloads,
        gateways: Vec::new(),
        router_mac: DEFAULT_ROUTER_MAC,
    }
}

/// A tier-0 with a service router and interfaces here: ECMP to the physical network, a blackhole, a route to a workload.
pub(crate) fn edge() -> Plan {
    let mut plan = common("edge-1", Role::Edge);
    let interfaces = vec![
        interface("up-1", None, &["192.0.2.2/24", "2001:db8:a::2/64"], 1500),
        interface("up-2", Some(300), &["198.51.100.2/24", "2001:db8:b::2/64"], 1400),
    ];
    let transit = Transit {
        vni: Vni::new(TRANSIT_VNI).expect("a VNI"),
        encapsulation: Encapsulation::Geneve,
        teps: vec![TepIndex(0), TepIndex(1)],
        teaming: Teaming::FailoverOrder,
        service_routers: vec![
            service_router(0, "edge-1", "172.16.0.1"),
            service_router(1, "edge-2", "172.16.0.9"),
        ],
    };
    let behind_workload = NextHop { address: address("10.3.0.10"), via: Via::Segment(SegmentIndex(2)) };
    let static_routes = vec![
        route("0.0.0.0/0", vec![via_interface("192.0.2.1", 0), via_interface("198.51.100.1", 1)]),
        route("::/0", vec![via_interface("2001:db8:a::1", 0), via_interface("2001:db8:b::1", 1)]),
        route("203.0.113.0/24", vec![]),
        route("100.100.0.0/16", vec![behind_workload]),
        route("2001:db8:dead::/48", vec![]),
    ];
    plan.gateways = vec![
        Gateway {
            name: "t0".into(),
            tier: Tier::Tier0 { interfaces, transit: Some(transit) },
            static_routes,
        },
        tier1(
            "t1-web",
            link(0, &["100.64.0.0/31", "2001:db8:64::/127"], &["100.64.0.1/31", "2001:db8:64::1/127"]),
            vec![route("10.99.0.0/16", vec![])],
        ),
        tier1("t1-db", link(0, &["100.64.0.2/31"], &["100.64.0.3/31"]), vec![]),
    ];
    plan
}

/// The same network on a host: everything unknown goes to one of three service routers. No TEP is on a VLAN.
pub(crate) fn host() -> Plan {
    let mut plan = common("host-1", Role::Host);
    let transit = Transit {
        vni: Vni::new(TRANSIT_VNI).expect("a VNI"),
        encapsulation: Encapsulation::Geneve,
        teps: vec![TepIndex(0), TepIndex(1)],
        teaming: Teaming::FailoverOrder,
        service_routers: vec![
            service_router(0, "edge-1", "172.16.0.8"),
            service_router(1, "edge-2", "172.16.0.9"),
            service_router(2, "edge-3", "172.17.0.9"),
        ],
    };
    plan.teps[1].vlan = None;
    plan.gateways = edge().gateways;
    plan.gateways[0].tier = Tier::Tier0 { interfaces: Vec::new(), transit: Some(transit) };
    plan.gateways[0].static_routes = vec![route("203.0.113.0/24", vec![])];
    plan
}

/// Every neighbour that packets of the plan may have to be sent to, a few hosts on each uplink interface among them.
pub(crate) fn neighbors(plan: &Plan) -> Vec<NeighborKey> {
    let mut keys = BTreeSet::new();
    let of_segments = plan.segments.iter().flat_map(|segment| segment.remote_teps.iter().copied());
    let of_workloads = plan.workloads.iter().filter_map(|workload| match workload.location {
        Location::RemoteTep(tep) => Some(tep),
        Location::Port { .. } => None,
    });
    let mut remotes: Vec<IpAddr> = of_segments.chain(of_workloads).collect();
    let mut hops = Vec::new();
    for gateway in &plan.gateways {
        let Tier::Tier0 { interfaces, transit } = &gateway.tier else { continue };
        remotes.extend(
            transit.iter().flat_map(|transit| transit.service_routers.iter().map(|router| router.tep)),
        );
        for (number, interface) in interfaces.iter().enumerate() {
            let place = (plan.uplinks[interface.uplink.index()].port.0, interface.vlan.map_or(0, u16::from));
            for address in &interface.addresses {
                hops.extend(address.hosts().skip(199).take(2).map(|host| (place, host)));
            }
            for next in gateway.static_routes.iter().flat_map(|route| &route.next_hops) {
                if next.via == Via::Interface(number as u16) {
                    hops.push((place, next.address));
                }
            }
        }
    }
    for tep in &plan.teps {
        let place = (plan.uplinks[tep.uplink.index()].port.0, tep.vlan.map_or(0, u16::from));
        hops.extend(
            remotes.iter().filter(|remote| tep.address.contains(*remote)).map(|remote| (place, *remote)),
        );
        hops.extend(tep.gateway.map(|gateway| (place, gateway)));
    }
    keys.extend(hops);
    let key = |((port, vlan), address)| NeighborKey { port: PortIndex(port), vlan, address };
    keys.into_iter().map(key).collect()
}

/// The MAC address of the neighbour with this number among those of [`neighbors`].
pub(crate) fn neighbor_mac(number: usize) -> MacAddr {
    MacAddr([0x02, 0xdd, 0, 0, (number >> 8) as u8, number as u8])
}
