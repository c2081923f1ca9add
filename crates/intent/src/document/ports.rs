//! Ports.
//!
//! The fields of a port's kind stand flat beside the common ones; [`fields_by_kind`] adds to the schema which kind takes which.

use std::path::PathBuf;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use sluice_wire::MacAddr;

use super::names::{InterfaceName, Name, PciAddress};
use crate::plan::{MAX_CORES, MAX_MTU, MIN_MTU, MemifRole};

/// A port: where frames enter and leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(transform = fields_by_kind)]
pub struct Port {
    /// Name of the port in commands and statistics.
    pub name: Name,
    /// The kind of device behind the port. It decides which further fields there are.
    pub kind: PortKindName,
    /// `pci`: address of the network card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<PciAddress>,
    /// `memif`: path of the control socket. `vhost`: path of the vhost-user socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 107), extend("examples" = ["/run/sluice/memif.sock"]))]
    pub socket: Option<PathBuf>,
    /// `memif`: interface id on the socket. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// `memif`: which side of the socket this node is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<MemifRole>,
    /// `memif`, client only: lend the packet memory itself instead of copying. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_copy: Option<bool>,
    /// `af_xdp`, `af_packet`: the kernel interface. `tap`: the kernel interface that the node creates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfaceName>,
    /// `pcap`: file that frames are read from. Without it nothing is received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4095))]
    pub receive: Option<PathBuf>,
    /// `pcap`: file that frames are written to. Without it what is sent is discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4095))]
    pub transmit: Option<PathBuf>,
    /// Largest layer-3 packet in bytes, VLAN tag and Ethernet header not counted.
    #[serde(default = "default_mtu")]
    #[schemars(range(min = MIN_MTU, max = MAX_MTU))]
    pub mtu: u16,
    /// MAC address instead of the device's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<MacAddr>,
    /// Receive and transmit queues; 0 is one for each worker.
    #[serde(default)]
    #[schemars(range(max = MAX_CORES))]
    pub queues: u16,
}

/// The kind of device behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PortKindName {
    /// A network card, driven by a poll-mode driver.
    Pci,
    /// Shared memory between two processes.
    Memif,
    /// An AF_XDP socket on a kernel interface.
    AfXdp,
    /// An AF_PACKET socket on a kernel interface.
    AfPacket,
    /// A TAP interface that the node creates.
    Tap,
    /// A vhost-user socket for a virtual machine.
    Vhost,
    /// Frames read from and written to files.
    Pcap,
}

/// The fields that belong to kinds of ports.
const KIND_FIELDS: [&str; 8] =
    ["address", "socket", "id", "role", "zero-copy", "interface", "receive", "transmit"];

/// For each kind: its name, the fields that it needs, and those that it takes besides.
const KINDS: [(&str, &[&str], &[&str]); 7] = [
    ("pci", &["address"], &[]),
    ("memif", &["socket", "role"], &["id", "zero-copy"]),
    ("af_xdp", &["interface"], &[]),
    ("af_packet", &["interface"], &[]),
    ("tap", &["interface"], &[]),
    ("vhost", &["socket"], &[]),
    ("pcap", &[], &["receive", "transmit"]),
];

/// Adds to the schema of [`Port`], for each kind, the fields that it needs and those that it does not have.
fn fields_by_kind(schema: &mut Schema) {
    let rules: Vec<_> = KINDS
        .iter()
        .map(|(kind, needed, optional)| {
            let foreign: serde_json::Map<_, _> = KIND_FIELDS
                .iter()
                .filter(|field| !needed.contains(field) && !optional.contains(field))
                .map(|field| ((*field).to_owned(), serde_json::Value::Bool(false)))
                .collect();
            serde_json::json!({
                "if": { "properties": { "kind": { "const": kind } }, "required": ["kind"] },
                "then": { "required": needed, "properties": foreign },
            })
        })
        .collect();
    schema.insert("allOf".to_owned(), rules.into());
}

fn default_mtu() -> u16 {
    1500
}
