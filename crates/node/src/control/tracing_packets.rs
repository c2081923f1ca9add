//! Packets to trace: from the words of a request to a frame, and from the engine's report to an answer.

use std::net::IpAddr;

use anyhow::Context;
use sluice_control::{Trace, TracePacket, TracePayload, TraceProtocol, TraceStep};
use sluice_datapath::trace::trace as follow;
use sluice_intent::plan::{Location, PortIndex, Workload};
use sluice_wire::frame::FrameBuilder;
use sluice_wire::icmpv4::Icmpv4;
use sluice_wire::icmpv6::Icmpv6;
use sluice_wire::ipv4::Ipv4;
use sluice_wire::ipv6::Ipv6;
use sluice_wire::tcp::TcpFlags;
use sluice_wire::{IpProtocol, MacAddr, VlanId, dissect};

use super::answers::segment_of;
use super::node::Node;

/// A source MAC address for packets from a neighbour that nobody has named.
const SOME_NEIGHBOR: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);

/// Follows a packet through this node.
pub(super) fn trace(node: &Node, packet: TracePacket) -> anyhow::Result<Trace> {
    let (port, frame) = match packet {
        TracePacket::Frame { port, frame } => (port_named(node, &port)?, hexadecimal(&frame)?),
        TracePacket::FromWorkload { workload, destination, payload } => {
            from_workload(node, &workload, destination, payload)?
        }
        TracePacket::FromUplink { port, vlan, source, destination, payload } => {
            let number = port_named(node, &port)?;
            let running = node.dataplane.as_ref().context("the data plane is not running")?;
            let mac = running.mac(&node.plan, number);
            let vlan = vlan.map(VlanId::new).transpose()?;
            (number, build(SOME_NEIGHBOR, mac, vlan, source, destination, payload)?)
        }
    };
    let report = follow(&node.snapshot, node.neighbors.table(), port, &frame)?;
    let name = |port: PortIndex| node.plan.port_name(port);
    Ok(Trace {
        packet: format!("on {}: {}", name(port), dissect(&frame)),
        steps: report
            .stages
            .into_iter()
            .map(|stage| TraceStep { stage: stage.name, detail: stage.detail })
            .collect(),
        verdict: report.verdict,
        output: report
            .frames
            .iter()
            .map(|(port, frame)| format!("{}: {}", name(*port), dissect(frame)))
            .collect(),
    })
}

fn port_named(node: &Node, name: &str) -> anyhow::Result<PortIndex> {
    let plan = &node.plan;
    let names = || {
        let names = plan.port_indices().filter(|port| !plan.is_team(*port)).map(|port| plan.port_name(port));
        names.collect::<Vec<_>>().join(", ")
    };
    let port = plan.port_of_name(name);
    let port = port.with_context(|| format!("there is no port '{name}'; this node has {}", names()))?;
    // What a link of a LAG receives is the LAG's.
    Ok(plan.lag_of(port).map_or(port, |lag| plan.lag_port(lag)))
}

fn hexadecimal(text: &str) -> anyhow::Result<Vec<u8>> {
    let digits: String =
        text.chars().filter(|character| !character.is_whitespace() && *character != ':').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or(""), 16).ok();
    let bytes: Option<Vec<u8>> =
        digits.as_bytes().chunks(2).map(|pair| byte(pair).filter(|_| pair.len() == 2)).collect();
    bytes.context("a frame is two hexadecimal digits a byte")
}

/// The frame that a workload would send: straight to a neighbour on its segment, otherwise to the gateway.
fn from_workload(
    node: &Node,
    name: &str,
    destination: IpAddr,
    payload: TracePayload,
) -> anyhow::Result<(PortIndex, Vec<u8>)> {
    let (workload, segment) = segment_of(node, name)?;
    let Location::Port { port, vlan } = workload.location else {
        anyhow::bail!("workload '{name}' is on another node; trace there");
    };
    let source = workload.addresses.iter().find(|address| address.is_ipv4() == destination.is_ipv4());
    let source =
        source.with_context(|| format!("workload '{name}' has no address of the destination's family"))?;
    let on_segment = segment.gateway_addresses.iter().any(|subnet| subnet.contains(&destination));
    let gateway = segment.gateway_addresses.iter().any(|own| own.addr() == destination);
    let neighbor =
        |other: &&Workload| other.segment == workload.segment && other.addresses.contains(&destination);
    let found = node.plan.workloads.iter().find(neighbor);
    let mac = match found {
        Some(found) => found.mac,
        None if on_segment && !gateway => {
            anyhow::bail!("no workload on segment '{}' has {destination}", segment.name)
        }
        None if segment.gateway.is_none() => anyhow::bail!(
            "segment '{}' has no gateway, and none of its workloads has {destination}: no packet of '{name}' goes there",
            segment.name
        ),
        None => node.plan.router_mac,
    };
    Ok((port, build(workload.mac, mac, vlan, *source, destination, payload)?))
}

fn build(
    source_mac: MacAddr,
    destination_mac: MacAddr,
    vlan: Option<VlanId>,
    source: IpAddr,
    destination: IpAddr,
    payload: TracePayload,
) -> anyhow::Result<Vec<u8>> {
    let mut frame = FrameBuilder::new().ethernet(source_mac, destination_mac);
    if let Some(vlan) = vlan {
        frame = frame.vlan(vlan);
    }
    let ip = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = Ipv4 { ttl: payload.ttl, ..Ipv4::new(source, destination, IpProtocol::UDP) };
            frame = frame.ipv4_header(header);
            20
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = Ipv6 { hop_limit: payload.ttl, ..Ipv6::new(source, destination, IpProtocol::UDP) };
            frame = frame.ipv6_header(header);
            40
        }
        _ => anyhow::bail!("source {source} and destination {destination} are of different families"),
    };
    let (ports, header) =
        ((payload.source_port, payload.destination_port), transport_header(payload.protocol));
    frame = match (payload.protocol, source.is_ipv4()) {
        (TraceProtocol::Udp, _) => frame.udp(ports.0, ports.1),
        (TraceProtocol::Tcp, _) => frame.tcp(ports.0, ports.1, TcpFlags::SYN),
        (TraceProtocol::Icmp, true) => frame.icmpv4(Icmpv4::EchoRequest { identifier: 1, sequence: 1 }),
        (TraceProtocol::Icmp, false) => frame.icmpv6(Icmpv6::EchoRequest { identifier: 1, sequence: 1 }),
    };
    let rest = usize::from(payload.length).saturating_sub(ip + header);
    Ok(frame.payload(&vec![0; rest]).build()?)
}

fn transport_header(protocol: TraceProtocol) -> usize {
    match protocol {
        TraceProtocol::Tcp => 20,
        TraceProtocol::Udp | TraceProtocol::Icmp => 8,
    }
}
