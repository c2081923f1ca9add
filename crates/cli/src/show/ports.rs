//! Ports and their counters.

use sluice_control::{PhysicalPort, PhysicalPortStats};

use crate::output::{Block, Column, Kind, Table, thousands};

pub(super) fn ports(ports: &[PhysicalPort]) -> Vec<Block> {
    const COLUMNS: [Column; 8] = [
        Column("Name", Kind::Words),
        Column("Kind", Kind::Whole),
        Column("MAC", Kind::Whole),
        Column("MTU", Kind::Number),
        Column("Link", Kind::State),
        Column("Speed (Mb/s)", Kind::Number),
        Column("Queues", Kind::Number),
        Column("Used by", Kind::Words),
    ];
    let rows = ports.iter().map(|port| {
        [
            port.name.clone(),
            port.kind.clone(),
            port.mac.clone(),
            thousands(port.mtu.into()),
            port.link.clone(),
            if port.speed_mbps == 0 { "unknown".to_owned() } else { thousands(port.speed_mbps.into()) },
            port.queues.to_string(),
            port.used_by.join(", "),
        ]
    });
    vec![Block::Table(Table::new(&COLUMNS, rows, "The node has no ports."))]
}

pub(super) fn stats(stats: &PhysicalPortStats) -> Vec<Block> {
    const COLUMNS: [Column; 2] = [Column("Counter", Kind::Whole), Column("Value", Kind::Number)];
    let counters = [
        ("rx_packets", stats.rx_packets),
        ("rx_bytes", stats.rx_bytes),
        ("rx_misses", stats.rx_misses),
        ("rx_errors", stats.rx_errors),
        ("rx_no_buffer", stats.rx_no_buffer),
        ("tx_packets", stats.tx_packets),
        ("tx_bytes", stats.tx_bytes),
        ("tx_errors", stats.tx_errors),
        ("tx_drops", stats.tx_drops),
    ];
    let counters = counters.map(|(name, value)| (name.to_owned(), value)).into_iter();
    let rows = counters.chain(stats.extended.iter().cloned()).map(|(name, value)| [name, thousands(value)]);
    vec![Block::Heading(stats.name.clone()), Block::Table(Table::new(&COLUMNS, rows, ""))]
}
