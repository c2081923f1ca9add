//! Ports, TEPs, tunnels and neighbours.

use anyhow::Context;
use sluice_control::{Neighbor, PhysicalPort, PhysicalPortStats, TunnelPort, Vtep};
use sluice_intent::plan::{Encapsulation, Location, LogicalPort, PortIndex, PortKind};

use sluice_protocols::neighbor::{NeighborKey, NeighborState, NeighborView};

use super::uplinks::uplink_of;
use super::{Node, running};

pub(super) fn physical_ports(node: &Node) -> anyhow::Result<Vec<PhysicalPort>> {
    let running = running(node)?;
    let port = |(number, open): (usize, &crate::dataplane::OpenPort)| {
        let planned = &node.plan.ports[number];
        let link = open.port.link().ok();
        PhysicalPort {
            name: planned.name.clone(),
            kind: kind(&planned.kind).to_owned(),
            mac: open.mac.to_string(),
            mtu: planned.mtu,
            link: state(link.as_ref().is_some_and(|link| link.up)),
            speed_mbps: speed(&planned.kind, link.as_ref()),
            queues: open.queues,
            used_by: users(node, PortIndex(number as u16)),
        }
    };
    Ok(running.ports.iter().enumerate().map(port).collect())
}

/// Speed in megabits a second, 0 if it is not known: the drivers of everything but NICs name a fixed number.
fn speed(kind: &PortKind, link: Option<&sluice_dpdk::Link>) -> u32 {
    match kind {
        PortKind::Pci { .. } => link.and_then(|link| link.megabits_per_second).unwrap_or(0),
        _ => 0,
    }
}

fn kind(kind: &PortKind) -> &'static str {
    match kind {
        PortKind::Pci { .. } => "pci",
        PortKind::Memif { .. } => "memif",
        PortKind::AfXdp { .. } => "af_xdp",
        PortKind::AfPacket { .. } => "af_packet",
        PortKind::Tap { .. } => "tap",
        PortKind::Vhost { .. } => "vhost",
        PortKind::Pcap { .. } => "pcap",
    }
}

/// How the state of a link is written in the CLI.
pub(super) fn state(up: bool) -> String {
    if up { "up" } else { "down" }.to_owned()
}

fn users(node: &Node, port: PortIndex) -> Vec<String> {
    let plan = &node.plan;
    let uplinks = plan.uplinks.iter().filter(|uplink| uplink.port == port).map(|uplink| uplink.name.clone());
    let lag = plan.lag_of(port).map(|position| plan.lags[position].name.clone());
    let uplinks = uplinks.chain(lag);
    let here = |location: &Location| matches!(location, Location::Port { port: own, .. } if *own == port);
    let workloads = plan.workloads.iter().filter(|workload| here(&workload.location));
    uplinks.chain(workloads.map(|workload| workload.name.clone())).collect()
}

/// Names under which DPDK repeats the basic counters among the extended ones.
const BASIC_COUNTERS: [&str; 8] = [
    "rx_good_packets",
    "rx_good_bytes",
    "rx_missed_errors",
    "rx_errors",
    "rx_mbuf_allocation_errors",
    "tx_good_packets",
    "tx_good_bytes",
    "tx_errors",
];

pub(super) fn statistics(node: &Node, name: &str) -> anyhow::Result<PhysicalPortStats> {
    let running = running(node)?;
    let names = || node.plan.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
    let open = running.ports.iter().find(|open| open.port.name() == name);
    let open = open.with_context(|| format!("there is no port '{name}'; this node has {}", names()))?;
    let counted = open.port.statistics()?;
    let extended = open.port.extended_statistics().unwrap_or_default();
    let number = running.ports.iter().position(|other| other.port.name() == name).unwrap_or_default();
    let dropped = |worker: &crate::dataplane::WorkerHandle| {
        worker.counters.transmit_drops.get(number).map_or(0, |drops| drops.get())
    };
    Ok(PhysicalPortStats {
        name: name.to_owned(),
        rx_packets: counted.received_packets,
        rx_bytes: counted.received_bytes,
        rx_misses: counted.missed_packets,
        rx_errors: counted.receive_errors,
        rx_no_buffer: counted.no_mbuf,
        tx_packets: counted.transmitted_packets,
        tx_bytes: counted.transmitted_bytes,
        tx_errors: counted.transmit_errors,
        tx_drops: running.workers.iter().map(dropped).sum(),
        extended: extended
            .into_iter()
            .map(|counter| (counter.name, counter.value))
            .filter(|(name, _)| !BASIC_COUNTERS.contains(&name.as_str()))
            .collect(),
    })
}

pub(super) fn vteps(node: &Node) -> anyhow::Result<Vec<Vtep>> {
    let running = running(node)?;
    let plan = &node.plan;
    let vtep = |tep: &sluice_intent::plan::Tep| {
        let uplink = &plan.uplinks[tep.uplink.index()];
        Vtep {
            name: tep.name.clone(),
            address: tep.address.to_string(),
            gateway: tep.gateway,
            mac: running.mac(plan, uplink.port).to_string(),
            vlan: tep.vlan.map(|vlan| vlan.get()),
            uplink: uplink_of(node, uplink.port),
            port: plan.port_name(carrier(node, uplink.port)).to_owned(),
            mtu: tep.mtu,
            state: match node.teps.health_of(&tep.name) {
                Some(view) if node.links.is_up(uplink.port) && !view.is_usable() => "faulty".to_owned(),
                _ => state(node.links.is_up(uplink.port)),
            },
        }
    };
    Ok(plan.teps.iter().map(vtep).collect())
}

/// The port or LAG that carries what is on a port: of a team the one that it is on now.
pub(super) fn carrier(node: &Node, port: PortIndex) -> PortIndex {
    let Some(LogicalPort::Team(team)) = node.plan.logical_port(port) else { return port };
    let position = port.index() - node.plan.ports.len();
    let active = node.dataplane.as_ref().map_or(1, |running| running.active.get(position));
    team.ports.get(active.trailing_zeros() as usize).copied().unwrap_or(port)
}

/// How an encapsulation is written in the CLI.
pub(super) fn encapsulation(encapsulation: Encapsulation) -> String {
    match encapsulation {
        Encapsulation::Geneve => "GENEVE",
        Encapsulation::Vxlan => "VXLAN",
    }
    .to_owned()
}

pub(super) fn tunnel_ports(node: &Node) -> Vec<TunnelPort> {
    let totals = node.tunnel_totals();
    let table = node.neighbors.table();
    let states = node.snapshot.tunnel_states();
    let port = |tunnel: &sluice_datapath::snapshot::Tunnel| {
        let mac = table.resolve(&tunnel.next_hop).map(|(_, mac)| mac);
        let (packets, bytes) =
            totals.get(&(tunnel.vni.get(), tunnel.local, tunnel.remote)).copied().unwrap_or_default();
        TunnelPort {
            segment: super::logical::switch_name(&node.plan, tunnel.vni),
            vni: tunnel.vni.get(),
            encap: encapsulation(tunnel.encapsulation),
            local: tunnel.local,
            remote: tunnel.remote,
            next_hop_mac: mac.map_or_else(String::new, |mac| mac.to_string()),
            state: state(mac.is_some() && node.links.is_up(tunnel.port) && states.is_usable(tunnel)),
            tx_packets: packets,
            tx_bytes: bytes,
        }
    };
    node.snapshot.tunnels().iter().map(port).collect()
}

/// How a neighbour's state is written in the CLI.
fn state_name(state: NeighborState) -> &'static str {
    match state {
        NeighborState::Incomplete => "incomplete",
        NeighborState::Reachable => "reachable",
        NeighborState::Stale => "stale",
        NeighborState::Probe => "probe",
        NeighborState::Failed => "failed",
    }
}

pub(super) fn neighbors(node: &Node) -> Vec<Neighbor> {
    let neighbor = |(key, view): (&NeighborKey, NeighborView)| Neighbor {
        interface: node.plan.port_name(PortIndex(key.link.port)).to_owned(),
        vlan: key.link.vlan.map(|vlan| vlan.get()),
        address: key.address,
        mac: view.mac.map_or_else(String::new, |mac| mac.to_string()),
        state: state_name(view.state).to_owned(),
    };
    let mut all: Vec<Neighbor> = node.neighbors.iter().map(neighbor).collect();
    all.sort_by(|a, b| (&a.interface, a.vlan, a.address).cmp(&(&b.interface, b.vlan, b.address)));
    all
}
