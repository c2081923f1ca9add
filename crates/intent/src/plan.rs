//! The plan: a node document that has passed every check, with names resolved to indices.
//!
//! Produced only by [`crate::parse`] and its kin; read by the engine (`sluice-datapath`), which compiles it into a snapshot,
//! and by the node, which opens its ports. Every index is valid, every name unique, every address inside the subnet that it claims, and
//! every limit kept, so readers index without checking. All collections keep the order of the document.

mod uplinks;

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sluice_wire::{MacAddr, VlanId, Vni};

pub use uplinks::{
    DEFAULT_TEAMING, LacpActivity, LacpTimeout, Lag, LoadBalancing, LogicalPort, MAX_NAMED_TEAMINGS,
    MIN_LAG_PORTS, Team, TeamingPolicy, UplinkProfile, UplinkTeaming,
};

/// Most ports a node may have (the bare-metal edge's own limit).
pub const MAX_PORTS: usize = 16;
/// Most cores a node may have in all, data path and control together.
pub const MAX_CORES: usize = 64;
/// Most next hops of one route: the ECMP width.
pub const MAX_ECMP: usize = 8;
/// Most TEPs of a node.
pub const MAX_TEPS: usize = 64;
/// Most TEPs of one group: ways to a node are as many as pairs of its own and the other's.
pub const MAX_TEP_GROUP: usize = 8;
/// Most other nodes whose TEPs are known as groups.
pub const MAX_REMOTE_TEP_GROUPS: usize = 4096;
/// Most segments that a node spans.
pub const MAX_SEGMENTS: usize = 4096;
/// Most workloads that a node knows, local and remote.
pub const MAX_WORKLOADS: usize = 262_144;
/// Most gateways of a node.
pub const MAX_GATEWAYS: usize = 4096;
/// Most interfaces of a tier-0 gateway on one node.
pub const MAX_INTERFACES: usize = 256;
/// Most neighbours of a gateway that BFD watches.
pub const MAX_BFD_PEERS: usize = 256;
/// BFD packets at most that a worker hands over in a second. A document whose sessions would need more is refused.
pub const MAX_BFD_PACKETS: u32 = 50_000;
/// Most static routes of all gateways together.
pub const MAX_STATIC_ROUTES: usize = 1_048_576;
/// Least MTU of anything that has one: what every IPv4 host accepts (RFC 791 section 3.1).
pub const MIN_MTU: u16 = 576;
/// Least MTU of what carries IPv6 (RFC 8200 section 5).
pub const MIN_IPV6_MTU: u16 = 1280;
/// Greatest MTU of anything that has one.
pub const MAX_MTU: u16 = 9216;
/// Bytes that a TEP's MTU must leave above the MTU of the workloads, for the encapsulation and its options.
pub const ENCAPSULATION_RESERVE: u16 = 200;
/// MAC address of every distributed router when the document does not name another.
pub const DEFAULT_ROUTER_MAC: MacAddr = MacAddr([0x02, 0x50, 0x56, 0x56, 0x44, 0x52]);

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u16);

        impl $name {
            /// The position in the plan's list.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(
    /// A port: a position in [`Plan::ports`], or behind those a logical port ([`Plan::logical_port`]).
    PortIndex
);
index!(
    /// Position of an uplink in [`Plan::uplinks`].
    UplinkIndex
);
index!(
    /// Position of a TEP in [`Plan::teps`].
    TepIndex
);
index!(
    /// Position of a segment in [`Plan::segments`].
    SegmentIndex
);
index!(
    /// Position of a gateway in [`Plan::gateways`].
    GatewayIndex
);

/// The checked desired state of one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The node's name; edges are named by it in [`ServiceRouter::edge`].
    pub name: String,
    /// What the node is for.
    pub role: Role,
    /// Cores, rings and the flow cache.
    pub dataplane: Dataplane,
    /// Physical and virtual ports, at most [`MAX_PORTS`].
    pub ports: Vec<Port>,
    /// Ports that are one link together.
    pub lags: Vec<Lag>,
    /// Uplinks: the names under which TEPs and tier-0 interfaces use ports. Behind those of the document, one for each team.
    pub uplinks: Vec<Uplink>,
    /// Failover teams of uplinks that TEPs and tier-0 interfaces follow.
    pub teams: Vec<Team>,
    /// How the node uses its uplinks; none: TEPs and interfaces name theirs.
    pub uplink_profile: Option<UplinkProfile>,
    /// The node's own tunnel endpoints.
    pub teps: Vec<Tep>,
    /// Spreads flows over the TEPs; none: each segment is pinned to one.
    pub tep_group: Option<TepGroup>,
    /// TEPs of other nodes that belong together, no address in two groups.
    pub remote_tep_groups: Vec<RemoteTepGroup>,
    /// Watches the tunnels between TEPs; none: only link states tell of failures.
    pub bfd: Option<Bfd>,
    /// Takes TEPs out of use whose BFD sessions are all down; none: sessions do not count for that.
    pub tep_high_availability: Option<TepHighAvailability>,
    /// Overlay segments that this node spans, the transit segments of its tier-0 gateways not among them.
    pub segments: Vec<Segment>,
    /// Workloads on those segments, local and remote.
    pub workloads: Vec<Workload>,
    /// Tier-0 and tier-1 gateways.
    pub gateways: Vec<Gateway>,
    /// MAC address that every distributed router answers with.
    pub router_mac: MacAddr,
}

/// What a node is for. One data path serves all roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Hosts workloads.
    Host,
    /// Connects the overlay to the physical network.
    Edge,
    /// Connects a branch over several links.
    Branch,
}

/// Cores, rings and the flow cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dataplane {
    /// Cores of the workers; empty: the node chooses half of the machine's cores, at least one.
    pub cores: Vec<u16>,
    /// Receive descriptors a queue: 512, 1024, 2048 or 4096.
    pub rx_ring_size: u16,
    /// Transmit descriptors a queue: 512, 1024, 2048 or 4096.
    pub tx_ring_size: u16,
    /// The flow cache of each worker.
    pub flow_cache: FlowCache,
    /// Longest sleep of an idle worker in microseconds; 0 polls without sleeping.
    pub idle_sleep_us: u32,
    /// Packet memory of the node in MiB.
    pub memory_mib: u32,
    /// Use of huge pages.
    pub huge_pages: HugePages,
}

/// Whether packet memory is in huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HugePages {
    /// Where there are enough free ones.
    Auto,
    /// Always; the node does not start without.
    Required,
    /// Never.
    Off,
}

/// The flow cache of each worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlowCache {
    /// Whether decisions are cached at all.
    pub enabled: bool,
    /// Flows that it holds, a power of two from 1,024 to 16,777,216.
    pub size: u32,
    /// Seconds without a packet after which a flow is forgotten.
    pub idle_timeout_s: u16,
}

/// A port: where frames enter and leave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Port {
    /// Name in the CLI, as `fp-eth0`.
    pub name: String,
    /// The device behind it.
    pub kind: PortKind,
    /// Largest layer-3 packet in bytes.
    pub mtu: u16,
    /// MAC address instead of the device's own.
    pub mac: Option<MacAddr>,
    /// Receive and transmit queues; 0: one for each worker.
    pub queues: u16,
}

/// The device behind a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PortKind {
    /// A network card at a PCI address, as `0000:19:00.0`.
    Pci {
        /// The PCI address.
        address: String,
    },
    /// Shared memory between two processes.
    Memif {
        /// Path of the control socket.
        socket: PathBuf,
        /// Interface id on that socket.
        id: u32,
        /// Which side listens.
        role: MemifRole,
        /// Client only: lend the packet memory itself instead of copying.
        zero_copy: bool,
    },
    /// An AF_XDP socket on a kernel interface.
    AfXdp {
        /// Kernel interface.
        interface: String,
    },
    /// An AF_PACKET socket on a kernel interface.
    AfPacket {
        /// Kernel interface.
        interface: String,
    },
    /// A TAP interface that the node creates.
    Tap {
        /// Kernel interface.
        interface: String,
    },
    /// A vhost-user socket for a virtual machine.
    Vhost {
        /// Path of the socket.
        socket: PathBuf,
    },
    /// Frames read from and written to files.
    Pcap {
        /// File that frames are read from; none: nothing is received.
        receive: Option<PathBuf>,
        /// File that frames are written to; none: what is sent is discarded.
        transmit: Option<PathBuf>,
    },
}

/// Which side of a memif listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemifRole {
    /// Listens on the socket.
    Server,
    /// Connects to it.
    Client,
}

/// A name under which TEPs and tier-0 interfaces use a port.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Uplink {
    /// The name, as `uplink-1`; of a team the name of its teaming.
    pub name: String,
    /// The port, physical or logical.
    pub port: PortIndex,
}

/// A tunnel endpoint of this node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tep {
    /// The name, as `tep-1`.
    pub name: String,
    /// Address and subnet.
    pub address: IpNet,
    /// Next hop to TEPs outside the subnet.
    pub gateway: Option<IpAddr>,
    /// The uplink that carries it, or the team of uplinks.
    pub uplink: UplinkIndex,
    /// Transport VLAN, if tagged.
    pub vlan: Option<VlanId>,
    /// Largest outer IP packet in bytes.
    pub mtu: u16,
}

/// The node's TEPs as one group, at most [`MAX_TEP_GROUP`] of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TepGroup {
    /// Number of the group in listings.
    pub id: u32,
    /// Which TEP of the group a flow takes.
    pub placement: Placement,
    /// Whether flows that turn out large are moved from a loaded TEP to one that carries less.
    pub rebalance: bool,
}

/// Which TEP of a group a flow takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The one that the hash of its addresses, protocol and ports says.
    #[default]
    Hash,
    /// The one with the least traffic when the flow begins, or begins again after a pause.
    LoadAware,
}

/// Which of the local TEPs that may carry a segment a flow takes; of those of the remote TEP's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Teaming {
    /// The first that is usable: the segment is pinned to the first of all, and the others are there in case that fails.
    FailoverOrder,
    /// The one that the port and VLAN say on which the flow enters the node: all of a workload takes the same.
    SourcePort,
    /// The one that the source MAC address says. Routed flows have that of the gateway, and take the one of the port and VLAN.
    SourceMac,
    /// Any of the TEP group.
    Group(Placement),
}

/// TEPs of another node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RemoteTepGroup {
    /// Name of the group.
    pub name: String,
    /// Addresses, at most [`MAX_TEP_GROUP`], each of this group alone.
    pub teps: Vec<IpAddr>,
}

/// The BFD sessions between the node's TEPs and those of other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bfd {
    /// Milliseconds between two packets of a session that is up, in both directions; 50 to 60,000.
    pub interval_ms: u16,
    /// Packets in a row that may be missing before a session goes down, 2 to 16.
    pub multiplier: u8,
}

/// When a TEP without a BFD session that is up is left, and when it is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TepHighAvailability {
    /// Seconds for which all sessions are down before the TEP is faulty, 0 to 60.
    pub failover_timeout_s: u16,
    /// Whether a TEP that was faulty for its sessions is tried again by itself.
    pub auto_recovery: bool,
    /// Seconds from the fault to the first try, 300 to 3,600.
    pub auto_recovery_initial_wait_s: u16,
    /// Most seconds between two tries, 3,600 to 86,400.
    pub auto_recovery_max_backoff_s: u32,
}

/// Encapsulation of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encapsulation {
    /// RFC 8926, UDP port 6081.
    #[default]
    Geneve,
    /// RFC 7348, UDP port 4789.
    Vxlan,
}

impl std::fmt::Display for Encapsulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Geneve => "Geneve",
            Self::Vxlan => "VXLAN",
        })
    }
}

/// How broadcast, unknown unicast and multicast reach the other nodes of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Replication {
    /// The sending node makes one copy for each remote TEP.
    #[default]
    Source,
    /// Not replicated to other nodes.
    None,
}

/// An overlay segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// The name.
    pub name: String,
    /// The virtual network identifier, unique in the node.
    pub vni: Vni,
    /// Encapsulation towards other nodes.
    pub encapsulation: Encapsulation,
    /// The local TEPs that may carry it, of both families, the preferred ones first; empty on a node without TEPs.
    pub teps: Vec<TepIndex>,
    /// Which of them a flow takes.
    pub teaming: Teaming,
    /// Largest layer-3 packet of its workloads in bytes.
    pub mtu: u16,
    /// The gateway it is connected to, if any.
    pub gateway: Option<GatewayIndex>,
    /// The gateway's addresses on it; empty without a gateway.
    pub gateway_addresses: Vec<IpNet>,
    /// How broadcast, unknown unicast and multicast are replicated.
    pub replication: Replication,
    /// Remote TEPs that replication reaches: those of the segment's workloads and those named in the document, without repetition.
    pub remote_teps: Vec<IpAddr>,
}

/// A workload on a segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// The name.
    pub name: String,
    /// The segment that it is on.
    pub segment: SegmentIndex,
    /// Its MAC address, unique on the segment.
    pub mac: MacAddr,
    /// Its addresses, unique on the segment.
    pub addresses: Vec<IpAddr>,
    /// Where it is.
    pub location: Location,
}

/// Where a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Location {
    /// On a port of this node, tagged with a VLAN if one is given.
    Port {
        /// The port.
        port: PortIndex,
        /// The VLAN that its frames carry.
        vlan: Option<VlanId>,
    },
    /// Behind the TEP of another node.
    RemoteTep(IpAddr),
}

/// A logical gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gateway {
    /// The name.
    pub name: String,
    /// Tier-0 or tier-1 and what only that tier has.
    pub tier: Tier,
    /// Static routes.
    pub static_routes: Vec<StaticRoute>,
    /// Neighbours on its interfaces that BFD watches, at most [`MAX_BFD_PEERS`].
    pub bfd_peers: Vec<BfdPeer>,
}

/// A neighbour on an interface of a tier-0 that single-hop BFD watches (RFC 5881).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BfdPeer {
    /// Its address.
    pub address: IpAddr,
    /// The interface's address in the same subnet.
    pub local: IpAddr,
    /// Position in [`Tier::Tier0::interfaces`] of the same gateway.
    pub interface: u16,
    /// Milliseconds between two packets of a session that is up, in both directions; 50 to 60,000.
    pub interval_ms: u16,
    /// Packets in a row that may be missing before the session goes down, 2 to 16.
    pub multiplier: u8,
}

/// What distinguishes the tiers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "tier", rename_all = "kebab-case")]
pub enum Tier {
    /// Connects to the physical network.
    Tier0 {
        /// Interfaces on uplinks; only on the edge that has them.
        interfaces: Vec<UplinkInterface>,
        /// The segment between the distributed router and the service routers.
        transit: Option<Transit>,
    },
    /// Connects segments, and through its link a tier-0.
    Tier1 {
        /// The link to a tier-0, if any.
        link: Option<RouterLink>,
    },
}

/// The link of a tier-1 to a tier-0. Both ends are distributed: no packet leaves the node for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RouterLink {
    /// The tier-0.
    pub tier0: GatewayIndex,
    /// Addresses of the tier-0's end, the source of its ICMP errors towards the tier-1.
    pub tier0_addresses: Vec<IpNet>,
    /// Addresses of the tier-1's end.
    pub tier1_addresses: Vec<IpNet>,
}

/// An interface of a tier-0 on an uplink.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UplinkInterface {
    /// The name.
    pub name: String,
    /// The uplink, or the team of uplinks.
    pub uplink: UplinkIndex,
    /// VLAN, if tagged.
    pub vlan: Option<VlanId>,
    /// Addresses and subnets.
    pub addresses: Vec<IpNet>,
    /// Largest IP packet in bytes.
    pub mtu: u16,
}

/// The segment between the distributed router of a tier-0 (on every node) and its service routers (on edges).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transit {
    /// Its virtual network identifier, unique in the node together with those of the segments.
    pub vni: Vni,
    /// Its encapsulation.
    pub encapsulation: Encapsulation,
    /// The local TEPs that may carry it, of both families, the preferred ones first; empty on a node without TEPs.
    pub teps: Vec<TepIndex>,
    /// Which of them a flow takes.
    pub teaming: Teaming,
    /// The service routers, at most [`MAX_ECMP`]; the one whose `edge` is the node's own name runs here.
    pub service_routers: Vec<ServiceRouter>,
}

/// A service router of a tier-0 on an edge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceRouter {
    /// Name of the edge node.
    pub edge: String,
    /// MAC address on the transit segment.
    pub mac: MacAddr,
    /// Address on the transit segment, one of each family at most; source of its ICMP errors towards the overlay.
    pub addresses: Vec<IpAddr>,
    /// TEP of the edge.
    pub tep: IpAddr,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StaticRoute {
    /// Destination.
    pub prefix: IpNet,
    /// Next hops of equal cost, 1 to [`MAX_ECMP`]; empty: packets are discarded (a blackhole route).
    pub next_hops: Vec<NextHop>,
}

/// A next hop of a static route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NextHop {
    /// Its address.
    pub address: IpAddr,
    /// Where it is reached.
    pub via: Via,
}

/// Where a next hop is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Position in [`Tier::Tier0::interfaces`] of the same gateway.
    Interface(u16),
    /// A segment connected to the same gateway.
    Segment(SegmentIndex),
}
