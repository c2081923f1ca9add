//! Ports and the devices behind them.

use std::collections::HashMap;

use super::addresses::require_unicast_mac;
use super::{Scope, each};
use crate::document::{Port, PortKindName};
use crate::plan::{self, MemifRole, PortKind};
use crate::problem::{Findings, Path};

pub(super) fn check(scope: &Scope<'_>, findings: &mut Findings) -> Vec<Option<plan::Port>> {
    let mut devices = HashMap::new();
    each(&scope.draft.ports, |index, port| {
        let path = || Path::entry("ports", index);
        if let Some(mac) = port.mac {
            require_unicast_mac(mac, path().field("mac"), findings);
        }
        let Some(kind) = kind(port) else {
            findings.report(path(), "a field that the port's kind needs is missing; add it");
            return None;
        };
        check_kind(&kind, path(), findings);
        for (field, device) in devices_of(&kind) {
            let first = *devices.entry(device.clone()).or_insert(index);
            if first != index {
                let other = scope.draft.ports.get(first).map(|port| port.name.as_str()).unwrap_or_default();
                let message = format!("{device} is also that of port '{other}'; give each port its own");
                findings.report(path().field(field), message);
            }
        }
        Some(plan::Port {
            name: port.name.to_string(),
            kind,
            mtu: port.mtu,
            mac: port.mac,
            queues: port.queues,
        })
    })
}

/// The kind with its fields; none where one is missing, which the schema reports.
fn kind(port: &Port) -> Option<PortKind> {
    let interface = || port.interface.as_ref().map(ToString::to_string);
    Some(match port.kind {
        PortKindName::Pci => PortKind::Pci { address: port.address.as_ref()?.to_string() },
        PortKindName::Memif => PortKind::Memif {
            socket: port.socket.clone()?,
            id: port.id.unwrap_or(0),
            role: port.role?,
            zero_copy: port.zero_copy.unwrap_or(false),
        },
        PortKindName::AfXdp => PortKind::AfXdp { interface: interface()? },
        PortKindName::AfPacket => PortKind::AfPacket { interface: interface()? },
        PortKindName::Tap => PortKind::Tap { interface: interface()? },
        PortKindName::Vhost => PortKind::Vhost { socket: port.socket.clone()? },
        PortKindName::Pcap => {
            PortKind::Pcap { receive: port.receive.clone(), transmit: port.transmit.clone() }
        }
    })
}

fn check_kind(kind: &PortKind, path: Path, findings: &mut Findings) {
    match kind {
        PortKind::Memif { role: MemifRole::Server, zero_copy: true, .. } => {
            let message = "only a client can lend its memory; remove zero-copy, or make this side the client";
            findings.report(path.field("zero-copy"), message);
        }
        PortKind::Pcap { receive: None, transmit: None } => {
            findings.report(path, "a pcap port without files does nothing; give receive, transmit or both");
        }
        PortKind::Pcap { receive: Some(receive), transmit: Some(transmit) } if receive == transmit => {
            let message = "is also the file that frames are read from; write to another file";
            findings.report(path.field("transmit"), message);
        }
        _ => {}
    }
}

/// What only one port can have: the field that names it, and its description.
fn devices_of(kind: &PortKind) -> Vec<(&'static str, String)> {
    match kind {
        PortKind::Pci { address } => vec![("address", format!("PCI address {address}"))],
        PortKind::Memif { socket, id, .. } => vec![("id", format!("memif {id} on {}", socket.display()))],
        PortKind::AfXdp { interface } | PortKind::AfPacket { interface } | PortKind::Tap { interface } => {
            vec![("interface", format!("kernel interface {interface}"))]
        }
        PortKind::Vhost { socket } => vec![("socket", format!("socket {}", socket.display()))],
        PortKind::Pcap { transmit, .. } => {
            let file = transmit.as_ref().map(|file| ("transmit", format!("output file {}", file.display())));
            file.into_iter().collect()
        }
    }
}
