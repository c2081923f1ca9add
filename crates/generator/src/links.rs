//! The two memif links.

use std::path::Path;

use anyhow::Context;
use sluice_dpdk::{
    Eal, MemifRole, MemifSettings, Mempool, MempoolConfig, Port, PortConfig, PortKind, Queues,
};

/// Packets of a burst.
pub(crate) const BURST: usize = 64;

/// Names of the links, by number.
const NAMES: [&str; 2] = ["uplink", "downlink"];

/// A started port.
pub(crate) struct Link {
    // Queues before their port, ports before their pool.
    pub(crate) queues: Queues,
    pub(crate) port: Port,
}

/// Opens both links as one side of them.
pub(crate) fn open(
    eal: &Eal,
    socket: &Path,
    role: MemifRole,
    zero_copy: bool,
    receive_queues: u16,
    pool: &Mempool,
) -> anyhow::Result<[Link; 2]> {
    let open = |id: u32| -> anyhow::Result<Link> {
        let settings = MemifSettings { zero_copy, ..MemifSettings::new(socket, id, role) };
        let mut port = Port::new(eal, NAMES[id as usize], &PortKind::Memif(settings))?;
        let config =
            PortConfig { receive_queues, mtu: 1700, one_pool: zero_copy, ..PortConfig::new(pool.clone()) };
        port.configure(&config)?;
        let queues = port.start()?;
        Ok(Link { queues, port })
    };
    Ok([open(0)?, open(1)?])
}

/// A pool for `count` packets, with a cache from which bursts are taken and to which they come back while they are still in the
/// core's cache.
pub(crate) fn pool(eal: &Eal, name: &str, count: u32) -> anyhow::Result<Mempool> {
    let config = MempoolConfig { count, cache: 256, ..MempoolConfig::default() };
    Mempool::new(eal, name, config).context("packet memory")
}
