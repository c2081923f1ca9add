//! What a node answers.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::availability::{Alarm, BfdSessions, TnTepGroup};
use crate::uplinks::{HostSwitch, Lag};

/// An answer or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The answer.
    Answer(Answer),
    /// One sentence (or one a line) on what is wrong and what to do.
    Error(String),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`crate::Request::GetStatus`].
    Status(Status),
    /// To [`crate::Request::GetDataplane`].
    Dataplane(Dataplane),
    /// To [`crate::Request::GetCpuStats`].
    CpuStats(Vec<CpuStats>),
    /// To [`crate::Request::GetFlowCacheConfig`].
    FlowCacheConfig(FlowCacheConfig),
    /// To [`crate::Request::GetFlowCacheStats`].
    FlowCacheStats(Vec<FlowCacheStats>),
    /// To [`crate::Request::GetStages`].
    Stages(Stages),
    /// To [`crate::Request::GetLogicalSwitches`].
    LogicalSwitches(Vec<LogicalSwitch>),
    /// To [`crate::Request::GetWorkloads`].
    Workloads(Vec<Workload>),
    /// To [`crate::Request::GetLogicalRouters`].
    LogicalRouters(Vec<LogicalRouter>),
    /// To [`crate::Request::GetRoute`].
    Routes(Vec<RouterRoutes>),
    /// To [`crate::Request::GetForwarding`].
    Forwarding(Vec<RouterForwarding>),
    /// To [`crate::Request::GetPhysicalPorts`].
    PhysicalPorts(Vec<PhysicalPort>),
    /// To [`crate::Request::GetPhysicalPortStats`].
    PhysicalPortStats(PhysicalPortStats),
    /// To [`crate::Request::GetHostSwitches`].
    HostSwitches(Vec<HostSwitch>),
    /// To [`crate::Request::GetLags`].
    Lags(Vec<Lag>),
    /// To [`crate::Request::GetVteps`].
    Vteps(Vec<Vtep>),
    /// To [`crate::Request::GetTunnelPorts`].
    TunnelPorts(Vec<TunnelPort>),
    /// To [`crate::Request::GetTnTepGroups`].
    TnTepGroups(Vec<TnTepGroup>),
    /// To [`crate::Request::GetBfdSessions`].
    BfdSessions(BfdSessions),
    /// To [`crate::Request::GetAlarms`].
    Alarms(Vec<Alarm>),
    /// To [`crate::Request::GetNeighbor`].
    Neighbors(Vec<Neighbor>),
    /// To [`crate::Request::GetDrops`].
    Drops(Vec<Drop>),
    /// To requests that change something: what was done, and what is still to do.
    Done(String),
    /// To [`crate::Request::Apply`].
    Applied(Applied),
    /// To [`crate::Request::StartCapture`].
    Captured(Captured),
    /// To [`crate::Request::Trace`].
    Trace(Trace),
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Name of the node.
    pub name: String,
    /// `host`, `edge` or `branch`.
    pub role: String,
    /// Version of `sluiced`.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Number of the configuration in use; every accepted document raises it.
    pub generation: u64,
    /// Whether the data plane runs.
    pub dataplane: DataplaneState,
}

/// Whether the data plane of a node runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub enum DataplaneState {
    /// Its ports are open and its workers forward.
    Running,
    /// No port is open: a restart failed, and the ports that were open could not be opened again.
    NotRunning {
        /// Seconds since then.
        for_s: u64,
        /// What failed and what to do.
        reason: String,
    },
}

impl std::fmt::Display for DataplaneState {
    /// As in the CLI: `running`, or since when it is not and why.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Running => formatter.write_str("running"),
            Self::NotRunning { for_s, reason } => write!(formatter, "not running for {for_s} s: {reason}"),
        }
    }
}

/// Rings, cores, memory and devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dataplane {
    /// Descriptors of each receive ring.
    pub rx_ring_size: u16,
    /// Descriptors of each transmit ring.
    pub tx_ring_size: u16,
    /// Receive descriptors after the next restart, where they differ.
    pub rx_ring_size_after_restart: Option<u16>,
    /// Transmit descriptors after the next restart, where they differ.
    pub tx_ring_size_after_restart: Option<u16>,
    /// Packets of the ring to the control thread, for each worker.
    pub slowpath_ring_size: u32,
    /// BFD packets of the ring to the control thread, for each worker.
    pub bfd_ring_size: u32,
    /// Cores of the workers.
    pub corelist: Vec<u16>,
    /// Flows that each worker's cache holds.
    pub flow_cache_size: u32,
    /// Whether the flow cache is on.
    pub flow_cache_enabled: bool,
    /// Packet memory in MiB.
    pub packet_memory_mib: u32,
    /// Whether it is in huge pages.
    pub hugepages: bool,
    /// Packet buffers in all, and those in use.
    pub buffers: u32,
    /// Packet buffers in use.
    pub buffers_in_use: u32,
    /// Longest sleep of an idle worker in microseconds; 0: polls without sleeping.
    pub idle_sleep_us: u32,
    /// Receive queues that each core polls.
    pub rx_queue_per_core: u16,
    /// The devices behind the ports.
    pub devices: Vec<Device>,
}

/// The device behind a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Name of the port.
    pub name: String,
    /// Its driver, as `net_tap`; `memif` for shared memory.
    pub driver: String,
    /// PCI device id, as `0x1019`; empty for virtual devices.
    pub device_id: String,
    /// PCI vendor id, as `0x15b3`; empty for virtual devices.
    pub vendor: String,
    /// PCI address; empty for virtual devices.
    pub pci: String,
    /// NUMA node; -1: unknown.
    pub numa_node: i32,
}

/// Load of one worker's core, over the time since the previous request or since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuStats {
    /// The core.
    pub core: u16,
    /// Packets received a second.
    pub rx_pps: u64,
    /// Packets sent a second.
    pub tx_pps: u64,
    /// Packets that had to be decided, a second.
    pub slowpath_pps: u64,
    /// Share of the time that was not spent waiting, in percent.
    pub usage_percent: f64,
    /// Cycles (of the time stamp counter) that a packet took on average, polls without packets not counted.
    pub cycles_per_packet: f64,
    /// Packets received in all.
    pub rx_packets: u64,
    /// Packets sent in all.
    pub tx_packets: u64,
    /// Cycles spent on packets in all.
    pub busy_cycles: u64,
    /// Heap allocations of the worker in all, those of its start among them; forwarding makes none.
    pub heap_allocations: u64,
}

/// Settings of the flow cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowCacheConfig {
    /// Whether decisions are cached.
    pub enabled: bool,
    /// Flows that each worker's cache holds.
    pub size: u32,
    /// Seconds without a packet after which a flow is forgotten.
    pub idle_timeout_s: u16,
}

/// Counts of one worker's flow cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowCacheStats {
    /// The core.
    pub core: u16,
    /// Flows in the cache.
    pub flows: u64,
    /// Flows that it holds at most.
    pub size: u64,
    /// Packets whose decision was in the cache.
    pub hits: u64,
    /// Packets that had to be decided.
    pub misses: u64,
    /// Hits of all packets, in percent.
    pub hit_rate_percent: f64,
    /// Flows put in.
    pub insertions: u64,
    /// Live flows that had to make room.
    pub evictions: u64,
    /// Decisions that were not cached because the table of rewrites was full.
    pub skipped: u64,
    /// Distinct rewrites that the flows share.
    pub rewrites: u64,
}

/// Cycles of the workers by stage of the data path, since the profile began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stages {
    /// Whether cycles are attributed now. If not, the counts are those of the last profile.
    pub profile: bool,
    /// The workers' counts; none where there was no profile since the data plane was started.
    pub cores: Vec<CoreStages>,
}

/// Cycles of one worker by stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreStages {
    /// The core.
    pub core: u16,
    /// Cycles (of the time stamp counter) of polls that found packets or commands.
    pub busy_cycles: u64,
    /// What the stages leave of them: attributed to none.
    pub other_cycles: u64,
    /// What one time stamp costs in cycles, as measured when the profile began.
    pub time_stamp_cycles: u64,
    /// Every stage, in the order in which a packet passes them.
    pub stages: Vec<StageStats>,
}

/// Counts of one stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageStats {
    /// The stage, as `flow-cache`.
    pub stage: String,
    /// Cycles, those of its time stamps among them.
    pub cycles: u64,
    /// Packets that passed it, each as often as it did.
    pub packets: u64,
    /// Time stamps: one a batch, or one a packet in the stages of packets that have to be decided.
    pub time_stamps: u64,
    /// What belongs to it.
    pub description: String,
}

/// A segment or transit segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogicalSwitch {
    /// Identifier, derived from node-independent facts: name and VNI.
    pub uuid: String,
    /// VNI.
    pub vni: u32,
    /// `GENEVE` or `VXLAN`.
    pub encap: String,
    /// TEP group; none: pinned to one TEP.
    pub tep_group: Option<u32>,
    /// Name.
    pub name: String,
    /// VNI in a federation; none: not federated.
    pub global_vni: Option<u32>,
    /// The TEP that it is pinned to.
    pub tep: Option<String>,
    /// Workloads on this node.
    pub local_workloads: u32,
    /// Workloads on other nodes.
    pub remote_workloads: u32,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Name.
    pub name: String,
    /// Segment.
    pub segment: String,
    /// MAC address.
    pub mac: String,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
    /// The port of this node that it is on; none: on another node.
    pub port: Option<String>,
    /// VLAN on that port, if tagged.
    pub vlan: Option<u16>,
    /// TEP of the other node that it is on; none: on this node.
    pub remote_tep: Option<IpAddr>,
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogicalRouter {
    /// Identifier.
    pub uuid: String,
    /// Number of its VRF, for `vrf N`.
    pub vrf: u16,
    /// Number of the logical router.
    pub lr_id: u16,
    /// Name.
    pub name: String,
    /// `TUNNEL`, `SERVICE_ROUTER_TIER0`, `DISTRIBUTED_ROUTER_TIER0` or `DISTRIBUTED_ROUTER_TIER1`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Interfaces.
    pub ports: u32,
    /// Resolved neighbours on them.
    pub neighbors: u32,
}

/// The routing table of a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouterRoutes {
    /// The gateway.
    pub router: String,
    /// Number of its VRF.
    pub vrf: u16,
    /// Its routes.
    pub routes: Vec<Route>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Where it comes from: `t0c`, `t0s`, `t1c`, `t1s`, `isr`; `c` and `s` on the transport network.
    pub origin: String,
    /// Destination.
    pub network: String,
    /// Next hops; or `local`, `connected`, `link` (to the gateway that `interface` names) or `blackhole`.
    pub gateways: Vec<String>,
    /// The interface or segment.
    pub interface: String,
}

/// The forwarding table of a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouterForwarding {
    /// The gateway.
    pub router: String,
    /// Number of its VRF.
    pub vrf: u16,
    /// Its entries.
    pub entries: Vec<ForwardingEntry>,
}

/// What packets to a destination leave with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForwardingEntry {
    /// Destination.
    pub ip_prefix: String,
    /// Next hop address; empty if the destination itself is it.
    pub gateway_ip: String,
    /// `route`, `connected`, `local`, `link`, `blackhole` or `service-router`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Port, segment or gateway that packets leave through.
    pub interface: String,
    /// MAC address that they leave to; empty if it differs by destination or is not known.
    pub mac: String,
    /// `resolved`, `unresolved` or empty where nothing is to be resolved.
    pub state: String,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhysicalPort {
    /// Name.
    pub name: String,
    /// Kind of device, as in the node document.
    pub kind: String,
    /// MAC address.
    pub mac: String,
    /// Largest layer-3 packet in bytes.
    pub mtu: u16,
    /// `up` or `down`.
    pub link: String,
    /// Megabits a second; 0: unknown.
    pub speed_mbps: u32,
    /// Receive and transmit queues.
    pub queues: u16,
    /// Uplinks and workloads that use it.
    pub used_by: Vec<String>,
}

/// Counters of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhysicalPortStats {
    /// Name of the port.
    pub name: String,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets that the device had no descriptor for.
    pub rx_misses: u64,
    /// Packets received in error.
    pub rx_errors: u64,
    /// Packets that the device had no buffer for.
    pub rx_no_buffer: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Packets that the port was to send and did not take: its transmit ring was full or its link down.
    pub tx_drops: u64,
    /// Further counters of the driver, by name.
    pub extended: Vec<(String, u64)>,
}

/// A TEP of this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vtep {
    /// Name.
    pub name: String,
    /// Address and prefix length.
    pub address: String,
    /// Gateway to other subnets.
    pub gateway: Option<IpAddr>,
    /// MAC address.
    pub mac: String,
    /// Transport VLAN.
    pub vlan: Option<u16>,
    /// Uplink.
    pub uplink: String,
    /// Port.
    pub port: String,
    /// Largest outer packet in bytes.
    pub mtu: u16,
    /// `up`, `down` (its link is) or `faulty` (its BFD sessions are down).
    pub state: String,
}

/// A tunnel to the TEP of another node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunnelPort {
    /// Segment.
    pub segment: String,
    /// VNI.
    pub vni: u32,
    /// `GENEVE` or `VXLAN`.
    pub encap: String,
    /// Local TEP address.
    pub local: IpAddr,
    /// Remote TEP address.
    pub remote: IpAddr,
    /// MAC address that outer frames go to; empty: not resolved.
    pub next_hop_mac: String,
    /// `up` if the next hop is resolved, otherwise `down`.
    pub state: String,
    /// Packets sent through it.
    pub tx_packets: u64,
    /// Bytes sent through it, outer headers included.
    pub tx_bytes: u64,
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbor {
    /// Port.
    pub interface: String,
    /// VLAN on it.
    pub vlan: Option<u16>,
    /// Address.
    pub address: IpAddr,
    /// MAC address; empty while it is being resolved.
    pub mac: String,
    /// `reachable`, `stale`, `probe`, `incomplete` or `failed`.
    pub state: String,
}

/// Packets dropped for a reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drop {
    /// The reason, as `no-route`.
    pub reason: String,
    /// Packets.
    pub packets: u64,
    /// What it means.
    pub description: String,
}

/// A document that is now in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// Number of the configuration.
    pub generation: u64,
    /// What was changed, one sentence each.
    pub changes: Vec<String>,
}

/// A finished capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Captured {
    /// Frames written.
    pub frames: u64,
    /// Frames that came faster than they could be written.
    pub missed: u64,
    /// The file.
    pub file: String,
}

/// A packet's way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The packet as it came in, in one line.
    pub packet: String,
    /// The stages, in order.
    pub steps: Vec<TraceStep>,
    /// What became of it, in one sentence.
    pub verdict: String,
    /// The frames that leave, each in one line with its port.
    pub output: Vec<String>,
}

/// A stage of a packet's way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceStep {
    /// The stage, as `tier-1 t1-blue`.
    pub stage: String,
    /// What it did and why.
    pub detail: String,
}
