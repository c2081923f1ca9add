//! Checks and opens one port of a plan.

use std::fs::File;
use std::path::Path;

use sluice_dpdk::{Eal, MemifRole, MemifSettings, Mempool, Port, PortConfig, PortError, PortKind, Queues};
use sluice_intent::plan;
use sluice_wire::MacAddr;

use super::{DataplaneError, OpenPort, Rings};

/// File that a pcap port writes to if the document names none.
const NOWHERE: &str = "/dev/null";

/// Checks what can be checked of a port before anything is opened or closed for it.
pub(super) fn check(planned: &plan::Port, workers: u16) -> Result<(), DataplaneError> {
    let port = || planned.name.clone();
    let folder_exists = |path: &Path| match path.parent() {
        Some(folder) if folder == Path::new("") || folder.is_dir() => Ok(()),
        _ => Err(PortError::NoFolder { port: port(), path: path.to_owned() }),
    };
    match &planned.kind {
        plan::PortKind::AfXdp { interface } | plan::PortKind::AfPacket { interface } => {
            if nix::net::if_::if_nametoindex(interface.as_str()).is_err() {
                return Err(PortError::NoInterface { port: port(), interface: interface.clone() }.into());
            }
            if (1..workers).contains(&planned.queues) {
                return Err(DataplaneError::Queues { port: port(), offered: planned.queues, workers });
            }
        }
        plan::PortKind::Memif { socket, .. } | plan::PortKind::Vhost { socket } => folder_exists(socket)?,
        plan::PortKind::Pcap { receive, transmit } => {
            if let Some(path) = receive
                && let Err(source) = File::open(path)
            {
                return Err(PortError::NoFile { port: port(), path: path.clone(), source }.into());
            }
            transmit.as_deref().map_or(Ok(()), folder_exists)?;
        }
        plan::PortKind::Pci { .. } | plan::PortKind::Tap { .. } => {}
    }
    Ok(())
}

/// Opens a port with a queue each way for every worker, as far as it has them, and starts it.
pub(super) fn open(
    eal: &Eal,
    planned: &plan::Port,
    pool: Mempool,
    rings: Rings,
    workers: u16,
) -> Result<(OpenPort, Queues), DataplaneError> {
    let wanted = if planned.queues == 0 { workers } else { planned.queues };
    let mut port = Port::new(eal, &planned.name, &kind(planned, wanted, rings))?;
    let info = port.info()?;
    if info.max_transmit_queues < workers {
        let offered = info.max_transmit_queues;
        return Err(DataplaneError::Queues { port: planned.name.clone(), offered, workers });
    }
    let queues = wanted.min(info.max_receive_queues);
    port.configure(&PortConfig {
        receive_queues: queues,
        transmit_queues: workers,
        receive_descriptors: rings.rx,
        transmit_descriptors: rings.tx,
        mtu: planned.mtu,
        mempool: pool,
        promiscuous: true,
        one_pool: false,
    })?;
    let mac = planned.mac.unwrap_or(MacAddr(info.mac));
    let started = port.start()?;
    Ok((OpenPort { planned: planned.clone(), port, info, mac, queues, stayed: false }, started))
}

/// The device behind a port, in the terms of the driver.
fn kind(planned: &plan::Port, queues: u16, rings: Rings) -> PortKind {
    match planned.kind.clone() {
        plan::PortKind::Pci { address } => PortKind::Pci { address },
        plan::PortKind::Memif { socket, id, role, zero_copy } => PortKind::Memif(MemifSettings {
            socket,
            id,
            role: match role {
                plan::MemifRole::Server => MemifRole::Server,
                plan::MemifRole::Client => MemifRole::Client,
            },
            zero_copy,
            ring_size_log2: rings.rx.max(rings.tx).ilog2() as u8,
            buffer_bytes: (planned.mtu + 22).next_multiple_of(64).max(2048),
        }),
        plan::PortKind::AfXdp { interface } => PortKind::AfXdp { interface, queues },
        plan::PortKind::AfPacket { interface } => {
            let slot_bytes = u32::from(planned.mtu + 22 + 96).next_power_of_two().max(2048);
            PortKind::AfPacket { interface, queues, slot_bytes, slots: rings.rx.max(rings.tx).into() }
        }
        plan::PortKind::Tap { interface } => PortKind::Tap { interface },
        plan::PortKind::Vhost { socket } => PortKind::Vhost { socket, queues },
        plan::PortKind::Pcap { receive, transmit } => {
            PortKind::Pcap { receive, transmit: transmit.unwrap_or_else(|| NOWHERE.into()) }
        }
    }
}
