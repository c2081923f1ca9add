//! Segments, workloads, TEPs and tunnels.

use sluice_control::{LogicalSwitch, TunnelPort, Vtep, Workload};

use super::or_none;
use crate::output::{Block, Column, Kind, Table, thousands};

pub(super) fn logical_switches(switches: &[LogicalSwitch]) -> Vec<Block> {
    const COLUMNS: [Column; 6] = [
        Column("UUID", Kind::Whole),
        Column("VNI", Kind::Whole),
        Column("ENCAP", Kind::Whole),
        Column("TEP_GROUP", Kind::Whole),
        Column("NAME", Kind::Words),
        Column("GLOBAL_VNI(FED)", Kind::Whole),
    ];
    let rows = switches.iter().map(|switch| {
        [
            switch.uuid.clone(),
            switch.vni.to_string(),
            switch.encap.clone(),
            or_none(switch.tep_group),
            switch.name.clone(),
            or_none(switch.global_vni),
        ]
    });
    vec![Block::Table(Table::new(&COLUMNS, rows, "The node has no segments."))]
}

pub(super) fn workloads(workloads: &[Workload]) -> Vec<Block> {
    const COLUMNS: [Column; 7] = [
        Column("Name", Kind::Words),
        Column("Segment", Kind::Words),
        Column("MAC", Kind::Whole),
        Column("Address", Kind::Whole),
        Column("Port", Kind::Words),
        Column("VLAN", Kind::Number),
        Column("Remote TEP", Kind::Whole),
    ];
    let rows = workloads.iter().map(|workload| {
        let addresses: Vec<_> = workload.addresses.iter().map(ToString::to_string).collect();
        [
            workload.name.clone(),
            workload.segment.clone(),
            workload.mac.clone(),
            addresses.join("\n"),
            or_none(workload.port.as_ref()),
            or_none(workload.vlan),
            or_none(workload.remote_tep),
        ]
    });
    vec![Block::Table(Table::new(&COLUMNS, rows, "The node knows no workloads."))]
}

pub(super) fn vteps(vteps: &[Vtep]) -> Vec<Block> {
    const COLUMNS: [Column; 9] = [
        Column("Name", Kind::Words),
        Column("Address", Kind::Whole),
        Column("Gateway", Kind::Whole),
        Column("MAC", Kind::Whole),
        Column("VLAN", Kind::Number),
        Column("Uplink", Kind::Words),
        Column("Port", Kind::Words),
        Column("MTU", Kind::Number),
        Column("State", Kind::State),
    ];
    let rows = vteps.iter().map(|vtep| {
        [
            vtep.name.clone(),
            vtep.address.clone(),
            or_none(vtep.gateway),
            vtep.mac.clone(),
            or_none(vtep.vlan),
            vtep.uplink.clone(),
            vtep.port.clone(),
            thousands(vtep.mtu.into()),
            vtep.state.clone(),
        ]
    });
    vec![Block::Table(Table::new(&COLUMNS, rows, "The node has no TEPs."))]
}

pub(super) fn tunnel_ports(tunnels: &[TunnelPort]) -> Vec<Block> {
    const COLUMNS: [Column; 9] = [
        Column("Segment", Kind::Words),
        Column("VNI", Kind::Whole),
        Column("Encap", Kind::Whole),
        Column("Local", Kind::Whole),
        Column("Remote", Kind::Whole),
        Column("Next hop MAC", Kind::Whole),
        Column("State", Kind::State),
        Column("Tx packets", Kind::Number),
        Column("Tx bytes", Kind::Number),
    ];
    let rows = tunnels.iter().map(|tunnel| {
        [
            tunnel.segment.clone(),
            tunnel.vni.to_string(),
            tunnel.encap.clone(),
            tunnel.local.to_string(),
            tunnel.remote.to_string(),
            tunnel.next_hop_mac.clone(),
            tunnel.state.clone(),
            thousands(tunnel.tx_packets),
            thousands(tunnel.tx_bytes),
        ]
    });
    vec![Block::Table(Table::new(&COLUMNS, rows, "The node has no tunnels: no workload is on another node."))]
}
