//! Builds the valid document that belongs to some choices: ports, TEPs, segments and workloads.
//!
//! Address plan: segment i is 10.1.i.0/24 and 2001:db8:1:i::/64, interface i 198.18.i.0/24 and 2001:db8:2:i::/64, link i
//! 100.64.i.0/31 and 2001:db8:3:i::/127, service router i 169.254.0.i and 2001:db8:4::i, TEP i 172.16.i.10/24 and
//! 2001:db8:5:i::10/64, remote TEP i 172.17.0.i and 2001:db8:6::i.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use sluice_wire::{MacAddr, VlanId, Vni};

use super::{Choices, Families, SegmentChoice, WorkloadChoice, routing};
use crate::document::{
    Bfd, Document, Name, Port, PortKindName, RemoteTepGroup, Segment, Tep, TepGroup, TepHighAvailability,
    Uplink, Workload,
};
use crate::plan::{Placement, Replication, Role};

pub(super) fn document(role: Role, choices: &Choices) -> Document {
    let mut document = Document::new(choices.name.clone(), role);
    document.ports = ports(choices);
    document.uplinks = (0..choices.uplinks)
        .map(|index| Uplink { name: name("uplink", index), port: name("up", index) })
        .collect();
    document.teps = teps(choices);
    document.tep_group = tep_group(choices);
    document.remote_tep_groups = remote_tep_groups(choices);
    let watched = choices.groups.1 && !choices.teps.is_empty();
    document.bfd = watched.then_some(Bfd { interval_ms: 300, multiplier: 4 });
    document.tep_high_availability = (watched && choices.groups.0).then(TepHighAvailability::default);
    document.segments =
        choices.segments.iter().enumerate().map(|(i, choice)| segment(choices, i, choice)).collect();
    document.workloads = workloads(choices);
    document.gateways = routing::gateways(role, choices, &document.segments);
    document
}

pub(super) fn name(prefix: &str, index: usize) -> Name {
    format!("{prefix}-{index}").parse().expect("a prefix and a number are a name")
}

pub(super) fn mac(kind: u8, index: usize) -> MacAddr {
    MacAddr([0x02, 0, 0, kind, (index >> 8) as u8, index as u8])
}

pub(super) fn vlan(number: usize) -> Option<VlanId> {
    u16::try_from(number).ok().and_then(|number| VlanId::new(number).ok())
}

/// The VNI of the segment at `index`.
pub(super) fn vni(choices: &Choices, index: usize) -> Vni {
    Vni::new(choices.base_vni + index as u32).expect("the base leaves room for every segment")
}

pub(super) fn v4(second: u8, third: usize, host: u8) -> IpAddr {
    let first = match second {
        16 | 17 => 172,
        18 => 198,
        64 => 100,
        254 => 169,
        _ => 10,
    };
    Ipv4Addr::new(first, second, third as u8, host).into()
}

pub(super) fn v6(kind: u16, index: usize, host: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, kind, index as u16, 0, 0, 0, host).into()
}

pub(super) fn subnet(address: IpAddr, prefix_len: u8) -> IpNet {
    IpNet::new(address, prefix_len).expect("the prefix length fits the family")
}

/// Addresses of the families: of IPv4 with the first prefix length, of IPv6 with the second.
pub(super) fn subnets(families: Families, v4: (IpAddr, u8), v6: (IpAddr, u8)) -> Vec<IpNet> {
    let v4 = families.v4().then(|| subnet(v4.0, v4.1));
    let v6 = families.v6.then(|| subnet(v6.0, v6.1));
    v4.into_iter().chain(v6).collect()
}

fn ports(choices: &Choices) -> Vec<Port> {
    let uplink_mtu = if choices.jumbo { 9000 } else { 1700 };
    let uplinks =
        (0..choices.uplinks).map(|index| port(name("up", index), PortKindName::AfPacket, uplink_mtu, index));
    let workloads = (0..choices.workload_ports).map(|index| {
        let kinds = [
            PortKindName::Vhost,
            PortKindName::Memif,
            PortKindName::Tap,
            PortKindName::Pci,
            PortKindName::Pcap,
        ];
        port(name("port", index), kinds[index % kinds.len()], 9000, 8 + index)
    });
    uplinks.chain(workloads).collect()
}

fn port(name: Name, kind: PortKindName, mtu: u16, index: usize) -> Port {
    let mut port = Port {
        name,
        kind,
        address: None,
        socket: None,
        id: None,
        role: None,
        zero_copy: None,
        interface: None,
        receive: None,
        transmit: None,
        mtu,
        mac: index.is_multiple_of(2).then(|| mac(1, index)),
        queues: 0,
    };
    match kind {
        PortKindName::Pci => port.address = format!("0000:19:{index:02x}.0").parse().ok(),
        PortKindName::Memif => {
            port.socket = Some("/run/sluice/memif.sock".into());
            port.id = Some(index as u32);
            port.role = Some(crate::plan::MemifRole::Client);
            port.zero_copy = Some(index.is_multiple_of(2));
        }
        PortKindName::AfXdp | PortKindName::AfPacket | PortKindName::Tap => {
            port.interface = format!("eth{index}").parse().ok();
        }
        PortKindName::Vhost => port.socket = Some(format!("/run/sluice/vm-{index}.sock").into()),
        PortKindName::Pcap => port.transmit = Some(format!("/tmp/port-{index}.pcap").into()),
    }
    port
}

fn teps(choices: &Choices) -> Vec<Tep> {
    let teps = choices.teps.iter().enumerate();
    teps.map(|(index, choice)| {
        let (address, gateway) = match choice.v6 {
            false => (subnet(v4(16, index, 10), 24), v4(16, index, 1)),
            true => (subnet(v6(5, index, 0x10), 64), v6(5, index, 1)),
        };
        Tep {
            name: name("tep", index),
            address,
            gateway: choice.gateway.then_some(gateway),
            uplink: Some(name("uplink", choice.uplink % choices.uplinks)),
            vlan: choice.vlan.and_then(|number| vlan(number.into())),
            mtu: index.is_multiple_of(2).then_some(if choices.jumbo { 9000 } else { 1700 }),
        }
    })
    .collect()
}

fn tep_group(choices: &Choices) -> Option<TepGroup> {
    let v6 = choices.teps.iter().filter(|tep| tep.v6).count();
    let enough = v6 >= 2 || choices.teps.len() - v6 >= 2;
    (choices.groups.0 && enough).then_some(TepGroup { id: 7, placement: Placement::Hash, rebalance: false })
}

/// The first TEPs of other nodes, two and two, the last one alone.
fn remote_tep_groups(choices: &Choices) -> Vec<RemoteTepGroup> {
    let group = |family: &str, number: usize, address: fn(usize) -> IpAddr| RemoteTepGroup {
        name: name(family, number),
        teps: (2 * number..2 * number + 2).map(address).filter(|_| choices.groups.1).collect(),
    };
    let v4s = (0..2).map(|number| group("v4", number, |index| v4(17, 0, 1 + index as u8)));
    let v6s = (0..2).map(|number| group("v6", number, |index| v6(6, 0, 1 + index as u16)));
    v4s.chain(v6s).filter(|group| !group.teps.is_empty()).collect()
}

/// The address of a TEP of another node, of the family of the local TEP at `tep`.
pub(super) fn remote_tep(choices: &Choices, tep: usize, index: usize) -> IpAddr {
    if choices.teps[tep].v6 { v6(6, 0, 1 + index as u16) } else { v4(17, 0, 1 + index as u8) }
}

/// The local TEP that a choice means, and whether it must be named because the default would be another one.
pub(super) fn pin(choices: &Choices, tep: usize, named: bool) -> Option<(usize, Option<Name>)> {
    let tep = (!choices.teps.is_empty()).then(|| tep % choices.teps.len())?;
    let first_of_family = choices.teps.iter().position(|other| other.v6 == choices.teps[tep].v6);
    // Without remote TEPs the first of all is the default, whatever its family.
    let named = named || first_of_family != Some(tep) || tep != 0;
    Some((tep, named.then(|| name("tep", tep))))
}

fn segment(choices: &Choices, index: usize, choice: &SegmentChoice) -> Segment {
    let pin = pin(choices, choice.tep, choice.named);
    let gateway = routing::gateway_of(choices, choice);
    let addresses = subnets(choice.families, (v4(1, index, 1), 24), (v6(1, index, 1), 64));
    let remote_teps = match (&pin, choice.replication) {
        (Some((tep, _)), Replication::Source) => {
            (0..choice.remote_teps).map(|remote| remote_tep(choices, *tep, 2 + remote)).collect()
        }
        _ => Vec::new(),
    };
    let mtus = [1280, 1400, 1500, if choices.jumbo { 8800 } else { 1500 }];
    Segment {
        name: name("segment", index),
        vni: vni(choices, index),
        encapsulation: Some(choice.encapsulation),
        teaming: None,
        tep: pin.and_then(|(_, name)| name),
        mtu: mtus[choice.mtu % mtus.len()],
        gateway_addresses: if gateway.is_some() { addresses } else { Vec::new() },
        gateway,
        replication: choice.replication,
        remote_teps,
    }
}

fn workloads(choices: &Choices) -> Vec<Workload> {
    let mut taken = HashMap::new();
    let mut workloads = Vec::new();
    for (segment, choice) in choices.segments.iter().enumerate() {
        let tep = pin(choices, choice.tep, choice.named).map(|(tep, _)| tep);
        for (index, workload) in choice.workloads.iter().enumerate() {
            let number = workloads.len();
            let mut built = Workload {
                name: name("workload", number),
                segment: name("segment", segment),
                mac: mac(2, number),
                addresses: addresses(choice, segment, index, workload),
                port: None,
                vlan: None,
                remote_tep: None,
            };
            match (workload.remote, tep) {
                (Some(remote), Some(tep)) => built.remote_tep = Some(remote_tep(choices, tep, remote)),
                _ => {
                    let port = number % choices.workload_ports;
                    // One workload at most is untagged on a port.
                    let tagged = workload.tagged || taken.insert(port, number).is_some();
                    built.port = Some(name("port", port));
                    built.vlan = if tagged { vlan(100 + number) } else { None };
                }
            }
            workloads.push(built);
        }
    }
    workloads
}

fn addresses(
    segment: &SegmentChoice,
    position: usize,
    index: usize,
    workload: &WorkloadChoice,
) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for number in 0..workload.addresses {
        let host = 10 + 2 * index + number;
        let families =
            subnets(segment.families, (v4(1, position, host as u8), 32), (v6(1, position, host as u16), 128));
        addresses.extend(families.into_iter().map(|subnet| subnet.addr()));
    }
    if workload.link_local {
        addresses.push(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 10 + index as u16).into());
    }
    addresses
}
