//! What `get` shows.

use clap::{Subcommand, ValueEnum};

/// A part of a node's state.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Get {
    /// Rings, cores, packet memory and devices; below it the load of the cores, the flow cache and the stages
    #[command(after_help = "Examples:
  sluice get dataplane
  sluice 'get dataplane | find ring'
  sluice get dataplane cpu stats
  sluice get dataplane flow-cache stats
  sluice get dataplane stages")]
    Dataplane {
        #[command(subcommand)]
        part: Option<DataplanePart>,
    },
    /// Segments and the transit segments of tier-0 gateways, with VNI and TEP group
    #[command(
        visible_aliases = ["segments", "segment"],
        alias = "logical-switch",
        after_help = "Examples:
  sluice get logical-switches
  sluice 'get segments | find transit'"
    )]
    LogicalSwitches,
    /// Workloads with their segments, and where they are
    #[command(after_help = "Examples:
  sluice get workloads
  sluice 'get workloads | find web'")]
    Workloads,
    /// Gateways with their VRFs
    #[command(
        visible_aliases = ["gateways", "gateway"],
        alias = "logical-router",
        after_help = "Examples:
  sluice get logical-routers
  sluice get gateways --json"
    )]
    LogicalRouters,
    /// Routing tables: every route and where it comes from
    #[command(after_help = "Examples:
  sluice get route          every gateway
  sluice get route t0       one gateway
  sluice vrf 1 get route    one gateway, by the number of its VRF

Origins: t0c and t1c connected, t0s and t1s static, isr between service routers;
c and s on the transport network (VRF 0).")]
    Route {
        /// The gateway; every gateway if left out
        router: Option<String>,
    },
    /// Forwarding tables: what packets to each destination leave with
    #[command(after_help = "Examples:
  sluice get forwarding t0
  sluice vrf 1 get forwarding")]
    Forwarding {
        /// The gateway; every gateway if left out
        router: Option<String>,
    },
    /// Ports with devices, MTU and link state
    #[command(after_help = "Examples:
  sluice get physical-ports")]
    PhysicalPorts,
    /// One port
    #[command(after_help = "Examples:
  sluice get physical-port fp-eth0 stats")]
    PhysicalPort {
        /// Name of the port
        name: String,
        /// What of it
        what: PortPart,
    },
    /// The node's host switch: uplinks and their links, teamings, transport VLAN, MTU, encapsulation, TEPs
    #[command(
        visible_alias = "host-switch",
        after_help = "Examples:
  sluice get host-switches
  sluice 'get host-switches | find down'
  sluice get host-switches --json"
    )]
    HostSwitches,
    /// LAGs: state, LACP partner, and each link with what LACP says of it
    #[command(
        visible_alias = "lag",
        after_help = "Examples:
  sluice get lags
  sluice 'get lags | find fp-eth1'
  sluice get lags --json"
    )]
    Lags,
    /// The node's own TEPs
    #[command(
        alias = "vtep",
        after_help = "Examples:
  sluice get vteps"
    )]
    Vteps,
    /// Tunnels to the TEPs of other nodes
    #[command(
        alias = "tunnel-port",
        after_help = "Examples:
  sluice get tunnel-ports
  sluice get tunnel-ports stats
  sluice 'get tunnel-ports | find down'"
    )]
    TunnelPorts {
        /// The same: what each tunnel carried is in its row
        what: Option<PortPart>,
    },
    /// TEPs of this node and of others by group, and which of them are used
    #[command(
        visible_alias = "tep-groups",
        after_help = "Examples:
  sluice get tn-tep-groups
  sluice 'get tn-tep-groups | find faulty'"
    )]
    TnTepGroups,
    /// BFD sessions with the TEPs of other nodes, and with neighbours on interfaces
    #[command(
        alias = "bfd-session",
        after_help = "Examples:
  sluice get bfd-sessions
  sluice 'get bfd-sessions | find Down'
  sluice get bfd-sessions --json"
    )]
    BfdSessions,
    /// What is wrong now
    #[command(
        alias = "alarm",
        after_help = "Examples:
  sluice get alarms"
    )]
    Alarms,
    /// Neighbours on uplinks and on the transport network
    #[command(
        visible_alias = "neighbors",
        after_help = "Examples:
  sluice get neighbor
  sluice 'get neighbor | find failed'"
    )]
    Neighbor,
    /// Dropped packets by reason
    #[command(after_help = "Examples:
  sluice get drops")]
    Drops,
    /// Name, role, version and running time of the node
    #[command(after_help = "Examples:
  sluice get status")]
    Status,
}

/// A part of the data plane.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum DataplanePart {
    /// The cores of the workers
    #[command(after_help = "Examples:
  sluice get dataplane cpu stats")]
    Cpu {
        #[command(subcommand)]
        part: CpuPart,
    },
    /// The flow cache
    #[command(after_help = "Examples:
  sluice get dataplane flow-cache config
  sluice get dataplane flow-cache stats")]
    FlowCache {
        #[command(subcommand)]
        part: FlowCachePart,
    },
    /// Cycles of the workers by stage, from receiving to sending, while the profile is on
    #[command(after_help = "Examples:
  sluice set dataplane profile enabled
  sluice get dataplane stages
  sluice 'get dataplane stages | find rx'
  sluice get dataplane stages --json")]
    Stages,
}

/// What of the cores.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CpuPart {
    /// Packets a second, usage and cycles a packet of each core, since the previous request
    #[command(after_help = "Examples:
  sluice get dataplane cpu stats")]
    Stats,
}

/// What of the flow cache.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum FlowCachePart {
    /// Its settings
    #[command(after_help = "Examples:
  sluice get dataplane flow-cache config")]
    Config,
    /// Hits, misses and flows of each core
    #[command(after_help = "Examples:
  sluice get dataplane flow-cache stats")]
    Stats,
}

/// What of a port.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PortPart {
    /// Its counters
    Stats,
}

/// A table of a gateway.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RouterTable {
    /// Every route and where it comes from
    Route,
    /// What packets to each destination leave with
    Forwarding,
}
