//! Gateways, their tables and neighbours.

use sluice_control::{LogicalRouter, Neighbor, RouterForwarding, RouterRoutes};

use super::or_none;
use crate::output::{Block, Column, Kind, Table, thousands};

pub(super) fn logical_routers(routers: &[LogicalRouter]) -> Vec<Block> {
    const COLUMNS: [Column; 7] = [
        Column("UUID", Kind::Whole),
        Column("VRF", Kind::Number),
        Column("LR-ID", Kind::Number),
        Column("Name", Kind::Words),
        Column("Type", Kind::Whole),
        Column("Ports", Kind::Number),
        Column("Neighbors", Kind::Number),
    ];
    let rows = routers.iter().map(|router| {
        [
            router.uuid.clone(),
            router.vrf.to_string(),
            router.lr_id.to_string(),
            router.name.clone(),
            router.kind.clone(),
            thousands(router.ports.into()),
            thousands(router.neighbors.into()),
        ]
    });
    vec![Block::Table(Table::new(&COLUMNS, rows, NO_GATEWAYS))]
}

pub(super) fn routes(routers: &[RouterRoutes]) -> Vec<Block> {
    const COLUMNS: [Column; 4] = [
        Column("Origin", Kind::Whole),
        Column("Network", Kind::Whole),
        Column("Gateway", Kind::Words),
        Column("Interface", Kind::Words),
    ];
    let table = |router: &RouterRoutes| {
        let rows = router.routes.iter().map(|route| {
            [route.origin.clone(), route.network.clone(), route.gateways.join("\n"), route.interface.clone()]
        });
        [heading(&router.router, router.vrf), Block::Table(Table::new(&COLUMNS, rows, "no routes"))]
    };
    or_no_gateways(routers.iter().flat_map(table).collect())
}

pub(super) fn forwarding(routers: &[RouterForwarding]) -> Vec<Block> {
    const COLUMNS: [Column; 6] = [
        Column("IP prefix", Kind::Whole),
        Column("Gateway IP", Kind::Whole),
        Column("Type", Kind::Whole),
        Column("Interface", Kind::Words),
        Column("MAC", Kind::Whole),
        Column("State", Kind::State),
    ];
    let table = |router: &RouterForwarding| {
        let rows = router.entries.iter().map(|entry| {
            [
                entry.ip_prefix.clone(),
                entry.gateway_ip.clone(),
                entry.kind.clone(),
                entry.interface.clone(),
                entry.mac.clone(),
                entry.state.clone(),
            ]
        });
        [heading(&router.router, router.vrf), Block::Table(Table::new(&COLUMNS, rows, "no entries"))]
    };
    or_no_gateways(routers.iter().flat_map(table).collect())
}

pub(super) fn neighbors(neighbors: &[Neighbor]) -> Vec<Block> {
    const COLUMNS: [Column; 5] = [
        Column("Interface", Kind::Words),
        Column("VLAN", Kind::Number),
        Column("Address", Kind::Whole),
        Column("MAC", Kind::Whole),
        Column("State", Kind::State),
    ];
    let rows = neighbors.iter().map(|neighbor| {
        [
            neighbor.interface.clone(),
            or_none(neighbor.vlan),
            neighbor.address.to_string(),
            neighbor.mac.clone(),
            neighbor.state.clone(),
        ]
    });
    vec![Block::Table(Table::new(&COLUMNS, rows, "The node knows no neighbours."))]
}

const NO_GATEWAYS: &str = "The node has no gateways.";

fn heading(router: &str, vrf: u16) -> Block {
    Block::Heading(format!("{router} (VRF {vrf})"))
}

fn or_no_gateways(blocks: Vec<Block>) -> Vec<Block> {
    if blocks.is_empty() { vec![Block::Text(NO_GATEWAYS.to_owned())] } else { blocks }
}
