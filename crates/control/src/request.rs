//! What can be asked of a node.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A request; its answer is the variant of [`crate::Answer`] named at each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Who answers: [`crate::Answer::Status`].
    GetStatus,
    /// Rings, cores, memory and devices: [`crate::Answer::Dataplane`].
    GetDataplane,
    /// Load of each worker's core: [`crate::Answer::CpuStats`].
    GetCpuStats,
    /// Settings of the flow cache: [`crate::Answer::FlowCacheConfig`].
    GetFlowCacheConfig,
    /// Counts of the flow cache by core: [`crate::Answer::FlowCacheStats`].
    GetFlowCacheStats,
    /// Cycles by stage of the data path, by core: [`crate::Answer::Stages`].
    GetStages,
    /// Segments and transit segments: [`crate::Answer::LogicalSwitches`].
    GetLogicalSwitches,
    /// Workloads on this node and on others: [`crate::Answer::Workloads`].
    GetWorkloads,
    /// Gateways: [`crate::Answer::LogicalRouters`].
    GetLogicalRouters,
    /// Routing table: [`crate::Answer::Routes`].
    GetRoute {
        /// The gateway; every gateway if it is left out.
        router: Option<String>,
    },
    /// Forwarding table, each route with the interfaces and addresses that packets leave with: [`crate::Answer::Forwarding`].
    GetForwarding {
        /// The gateway; every gateway if it is left out.
        router: Option<String>,
    },
    /// Ports with their devices and link states: [`crate::Answer::PhysicalPorts`].
    GetPhysicalPorts,
    /// Counters of one port: [`crate::Answer::PhysicalPortStats`].
    GetPhysicalPortStats {
        /// Name of the port.
        name: String,
    },
    /// The host switch with uplinks, teamings and TEPs, one for each node: [`crate::Answer::HostSwitches`].
    GetHostSwitches,
    /// LAGs with their links: [`crate::Answer::Lags`].
    GetLags,
    /// The node's own TEPs: [`crate::Answer::Vteps`].
    GetVteps,
    /// Tunnels to the TEPs of other nodes: [`crate::Answer::TunnelPorts`].
    GetTunnelPorts,
    /// TEPs of this node and of others by group, and which of them are used: [`crate::Answer::TnTepGroups`].
    GetTnTepGroups,
    /// BFD sessions with the TEPs of other nodes: [`crate::Answer::BfdSessions`].
    GetBfdSessions,
    /// What is wrong now: [`crate::Answer::Alarms`].
    GetAlarms,
    /// Neighbours on uplinks and the underlay: [`crate::Answer::Neighbors`].
    GetNeighbor,
    /// Dropped packets by reason: [`crate::Answer::Drops`].
    GetDrops,
    /// Ring size after the next restart of the data plane: [`crate::Answer::Done`].
    SetRingSize {
        /// Receive or transmit rings.
        direction: RingDirection,
        /// Descriptors: 512, 1024, 2048 or 4096.
        size: u16,
    },
    /// Turns the flow cache on or off at once: [`crate::Answer::Done`].
    SetFlowCache {
        /// Whether decisions are cached.
        enabled: bool,
    },
    /// Begins to attribute the workers' cycles to stages, from zero, or ends it: [`crate::Answer::Done`]. It costs cycles while it is on, and none
    /// while it is off.
    SetProfile {
        /// Whether cycles are attributed.
        enabled: bool,
    },
    /// Uses a faulty TEP again without waiting for its recovery: [`crate::Answer::Done`].
    RecoverTep {
        /// Name of the TEP.
        name: String,
    },
    /// Closes and opens all ports; traffic is interrupted: [`crate::Answer::Done`].
    RestartDataplane,
    /// Takes a new node document, whole or not at all: [`crate::Answer::Applied`].
    Apply {
        /// The document's text.
        document: String,
        /// Its name in error messages.
        file: String,
    },
    /// Copies the frames of a port into a pcap file, until `count` are written or the client closes its sending side
    /// of the connection ([`crate::RequestsEnd::close`]):
    /// [`crate::Answer::Captured`] at the end.
    StartCapture {
        /// The port.
        interface: String,
        /// File that the node writes.
        file: PathBuf,
        /// Frames to capture; unlimited if left out.
        count: Option<u64>,
        /// Which frames.
        #[serde(default)]
        direction: CaptureDirection,
        /// Whether a file that is there already, and is not empty, is replaced; otherwise the capture is refused.
        #[serde(default)]
        overwrite: bool,
    },
    /// Follows a packet through the pipeline: [`crate::Answer::Trace`].
    Trace(TracePacket),
}

/// Receive or transmit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RingDirection {
    /// Receive rings.
    Rx,
    /// Transmit rings.
    Tx,
}

/// Which frames of a port are captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaptureDirection {
    /// Frames that the port receives.
    Input,
    /// Frames that the port sends.
    Output,
    /// Both.
    #[default]
    Dual,
}

/// A packet to follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "packet", rename_all = "kebab-case", rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum TracePacket {
    /// Bytes as they would come in on a port.
    Frame {
        /// The port.
        port: String,
        /// The frame, two hexadecimal digits a byte.
        frame: String,
    },
    /// A packet that a local workload would send; the node chooses the MAC addresses as the workload would.
    FromWorkload {
        /// The workload.
        workload: String,
        /// Destination address.
        destination: IpAddr,
        /// What it carries.
        #[serde(flatten)]
        payload: TracePayload,
    },
    /// A packet that would come in on an uplink, addressed to the gateway's interface there.
    FromUplink {
        /// The port.
        port: String,
        /// VLAN, if tagged.
        vlan: Option<u16>,
        /// Source address.
        source: IpAddr,
        /// Destination address.
        destination: IpAddr,
        /// What it carries.
        #[serde(flatten)]
        payload: TracePayload,
    },
}

/// What a traced packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracePayload {
    /// Transport protocol.
    pub protocol: TraceProtocol,
    /// Source port of UDP and TCP.
    pub source_port: u16,
    /// Destination port of UDP and TCP.
    pub destination_port: u16,
    /// Time to live.
    pub ttl: u8,
    /// Bytes of the IP packet.
    pub length: u16,
}

/// Transport protocol of a traced packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceProtocol {
    /// Echo request.
    Icmp,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}
