//! The node document as it is written: its sections, fields, defaults and ranges.
//!
//! These types are the format. Their serde attributes read and write it, their doc comments and ranges become the JSON Schema
//! ([`crate::schema`]), and the schema in turn judges the shape of every document that is read. What needs more than one field
//! to judge (names that refer to each other, subnets that overlap) is the business of the checks behind [`crate::parse`].
//!
//! Tools that make documents fill in a [`Document`] and write it with [`Document::to_yaml`].

pub(crate) mod addresses;
mod availability;
mod gateways;
mod names;
mod overlay;
mod ports;
mod uplinks;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sluice_wire::MacAddr;

use crate::plan::{
    DEFAULT_ROUTER_MAC, HugePages, MAX_CORES, MAX_GATEWAYS, MAX_PORTS, MAX_REMOTE_TEP_GROUPS, MAX_SEGMENTS,
    MAX_TEPS, MAX_WORKLOADS, Role,
};

pub(crate) use addresses::{AddressSchema, SubnetSchema};
pub use availability::{Bfd, TepHighAvailability};
pub use gateways::{
    BfdPeer, Gateway, Interface, NextHop, RouterLink, ServiceRouter, StaticRoute, TierNumber, Transit,
};
pub use names::{InterfaceName, Name, NameError, PciAddress};
pub use overlay::{RemoteTepGroup, Segment, Tep, TepGroup, Workload};
pub use ports::{Port, PortKindName};
pub use uplinks::{Lag, NamedTeaming, Teaming, Uplink, UplinkProfile};

/// Desired state of one node: its ports, tunnel endpoints, segments, workloads and gateways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Document {
    /// Version of the document's format.
    pub version: Version,
    /// Name of the node. Edges are named by it in `service-routers`.
    pub name: Name,
    /// What the node is for.
    pub role: Role,
    /// MAC address that every distributed router answers with. The same on all nodes.
    #[serde(default = "default_router_mac")]
    pub router_mac: MacAddr,
    /// Cores, rings, packet memory and the flow cache.
    #[serde(default)]
    pub dataplane: Dataplane,
    /// Physical and virtual ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PORTS))]
    pub ports: Vec<Port>,
    /// Ports that are one link together, by LACP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PORTS))]
    pub lags: Vec<Lag>,
    /// Names under which TEPs and tier-0 interfaces use ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PORTS))]
    pub uplinks: Vec<Uplink>,
    /// How the node uses its uplinks. Without it TEPs and tier-0 interfaces name theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_profile: Option<UplinkProfile>,
    /// The node's own tunnel endpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_TEPS))]
    pub teps: Vec<Tep>,
    /// Spreads flows over the node's TEPs. Without it each segment is pinned to one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tep_group: Option<TepGroup>,
    /// TEPs of other nodes that belong together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_REMOTE_TEP_GROUPS))]
    pub remote_tep_groups: Vec<RemoteTepGroup>,
    /// Watches the tunnels to other nodes with BFD. Without it only link states tell of failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bfd: Option<Bfd>,
    /// Takes TEPs out of use that no other node is reached from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tep_high_availability: Option<TepHighAvailability>,
    /// Overlay segments that the node spans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_SEGMENTS))]
    pub segments: Vec<Segment>,
    /// Workloads on the segments, those of this node and those behind the TEPs of other nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_WORKLOADS))]
    pub workloads: Vec<Workload>,
    /// Tier-0 and tier-1 gateways.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_GATEWAYS))]
    pub gateways: Vec<Gateway>,
}

/// Version of the format: the number 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Version;

impl TryFrom<u64> for Version {
    type Error = &'static str;

    fn try_from(number: u64) -> Result<Self, Self::Error> {
        if number == 1 { Ok(Self) } else { Err("the only version of the node document is 1") }
    }
}

impl From<Version> for u64 {
    fn from(_: Version) -> Self {
        1
    }
}

impl JsonSchema for Version {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "enum": [1] })
    }
}

/// Cores, rings, packet memory and the flow cache of the data path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Dataplane {
    /// Cores of the workers. Without it the node takes half of the machine's cores, at least one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_CORES), inner(range(max = 1023)), extend("examples" = [[2, 3]]))]
    pub cores: Vec<u16>,
    /// Descriptors in the rings of every queue.
    pub ring_size: RingSize,
    /// The flow cache of each worker.
    pub flow_cache: FlowCache,
    /// Longest sleep of an idle worker in microseconds; 0 polls without sleeping.
    #[schemars(range(max = 1_000_000))]
    pub idle_sleep_us: u32,
    /// Packet memory of the node in MiB.
    #[schemars(range(min = 32, max = 1_048_576))]
    pub memory_mib: u32,
    /// Whether packet memory is in huge pages.
    pub huge_pages: HugePages,
}

impl Default for Dataplane {
    fn default() -> Self {
        Self {
            cores: Vec::new(),
            ring_size: RingSize::default(),
            flow_cache: FlowCache::default(),
            idle_sleep_us: 100,
            memory_mib: 256,
            huge_pages: HugePages::Auto,
        }
    }
}

/// Descriptors in the rings of every queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RingSize {
    /// Receive descriptors of a queue.
    #[schemars(extend("enum" = [512, 1024, 2048, 4096]))]
    pub rx: u16,
    /// Transmit descriptors of a queue.
    #[schemars(extend("enum" = [512, 1024, 2048, 4096]))]
    pub tx: u16,
}

impl Default for RingSize {
    fn default() -> Self {
        Self { rx: 512, tx: 512 }
    }
}

/// The flow cache of each worker: an exact-match table of forwarding decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FlowCache {
    /// Whether decisions are cached at all.
    pub enabled: bool,
    /// Flows that the cache of a worker holds, a power of two.
    #[schemars(range(min = 1024, max = 16_777_216))]
    pub size: u32,
    /// Seconds without a packet after which a flow is forgotten.
    #[schemars(range(min = 1))]
    pub idle_timeout_s: u16,
}

impl Default for FlowCache {
    fn default() -> Self {
        Self { enabled: true, size: 262_144, idle_timeout_s: 60 }
    }
}

/// A document could not be written as text. Only possible where a path in it is not UTF-8.
#[derive(Debug, thiserror::Error)]
#[error("the node document cannot be written: {0}")]
pub struct WriteError(String);

impl From<serde_json::Error> for WriteError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<serde_saphyr::ser::Error> for WriteError {
    fn from(error: serde_saphyr::ser::Error) -> Self {
        Self(error.to_string())
    }
}

impl Document {
    /// A document with nothing but its name and role.
    pub fn new(name: Name, role: Role) -> Self {
        Self {
            version: Version,
            name,
            role,
            router_mac: DEFAULT_ROUTER_MAC,
            dataplane: Dataplane::default(),
            ports: Vec::new(),
            lags: Vec::new(),
            uplinks: Vec::new(),
            uplink_profile: None,
            teps: Vec::new(),
            tep_group: None,
            remote_tep_groups: Vec::new(),
            bfd: None,
            tep_high_availability: None,
            segments: Vec::new(),
            workloads: Vec::new(),
            gateways: Vec::new(),
        }
    }

    /// The document as YAML, defaults written out.
    ///
    /// # Errors
    ///
    /// [`WriteError`] where the path of a socket or file is not UTF-8.
    pub fn to_yaml(&self) -> Result<String, WriteError> {
        serde_saphyr::to_string(self).map_err(WriteError::from)
    }

    /// The document as indented JSON, defaults written out.
    ///
    /// # Errors
    ///
    /// [`WriteError`] where the path of a socket or file is not UTF-8.
    pub fn to_json(&self) -> Result<String, WriteError> {
        serde_json::to_string_pretty(self).map_err(WriteError::from)
    }
}

fn default_router_mac() -> MacAddr {
    DEFAULT_ROUTER_MAC
}
