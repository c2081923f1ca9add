//! The topology document as it is written. Nothing here is checked beyond its shape; [`super::check`] does that.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The document. Nodes and links are read one by one, so that each can tell its own error.
#[derive(Deserialize)]
pub(super) struct Document {
    pub(super) version: u32,
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) nodes: Vec<Value>,
    #[serde(default)]
    pub(super) links: Vec<Value>,
    #[serde(default)]
    pub(super) demonstration: Option<Value>,
}

/// A node: one network namespace.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct NodeDocument {
    pub(super) name: String,
    #[serde(default)]
    pub(super) interfaces: Vec<InterfaceDocument>,
    #[serde(default)]
    pub(super) bridges: Vec<BridgeDocument>,
    #[serde(default)]
    pub(super) vxlans: Vec<VxlanDocument>,
    #[serde(default)]
    pub(super) routes: Vec<RouteDocument>,
    #[serde(default)]
    pub(super) sysctls: BTreeMap<String, Value>,
    #[serde(default)]
    pub(super) sluiced: Option<Value>,
}

/// One end of a link.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct InterfaceDocument {
    pub(super) name: String,
    #[serde(default)]
    pub(super) mac: Option<String>,
    #[serde(default)]
    pub(super) addresses: Vec<String>,
}

/// A Linux bridge.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct BridgeDocument {
    pub(super) name: String,
    pub(super) members: Vec<String>,
    #[serde(default)]
    pub(super) mac: Option<String>,
    #[serde(default)]
    pub(super) mtu: Option<u16>,
    #[serde(default)]
    pub(super) addresses: Vec<String>,
}

/// A VXLAN device of the kernel with fixed remote endpoints.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct VxlanDocument {
    pub(super) name: String,
    pub(super) vni: u32,
    pub(super) local: String,
    pub(super) remotes: Vec<String>,
    #[serde(default)]
    pub(super) mtu: Option<u16>,
}

/// A static route.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RouteDocument {
    pub(super) prefix: String,
    pub(super) via: String,
}

/// A veth pair.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct LinkDocument {
    pub(super) ends: Vec<String>,
    #[serde(default)]
    pub(super) mtu: Option<u16>,
    #[serde(default)]
    pub(super) rate: Option<String>,
    #[serde(default)]
    pub(super) offloads: Option<bool>,
}
