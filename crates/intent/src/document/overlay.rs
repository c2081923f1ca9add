//! Tunnel endpoints, segments and workloads.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sluice_wire::{MacAddr, VlanId, Vni};

use super::names::Name;
use super::{AddressSchema, SubnetSchema};
use crate::plan::{Encapsulation, MAX_MTU, MAX_TEP_GROUP, MIN_MTU, Placement, Replication};

/// A tunnel endpoint of this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tep {
    /// Name of the TEP.
    pub name: Name,
    /// Address and prefix length.
    #[schemars(with = "SubnetSchema")]
    pub address: IpNet,
    /// Next hop to TEPs outside the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AddressSchema>")]
    pub gateway: Option<IpAddr>,
    /// Name of the uplink that carries it. Default: what the teaming of the uplink profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<Name>,
    /// Transport VLAN; 0: frames are untagged. Default: that of the uplink profile, else untagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<VlanId>,
    /// Largest outer IP packet in bytes, at least 200 above the MTU of the segments that use the TEP. Default: that of the uplink profile, else
    /// the port's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_MTU, max = MAX_MTU))]
    pub mtu: Option<u16>,
}

/// The node's TEPs as one group: flows of segments that are not pinned to a TEP are spread over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TepGroup {
    /// Number of the group in listings.
    #[schemars(range(min = 1))]
    pub id: u32,
    /// Which TEP of the group a flow takes.
    pub placement: Placement,
    /// With `load-aware`: move flows that turn out large, once each, from a loaded TEP to one that carries less. Packets may overtake others then.
    pub rebalance: bool,
}

impl Default for TepGroup {
    fn default() -> Self {
        Self { id: 1, placement: Placement::default(), rebalance: false }
    }
}

/// TEPs of another node: what is sent to one of them may be sent to any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RemoteTepGroup {
    /// Name of the group, as that of the node.
    pub name: Name,
    /// Addresses of its TEPs.
    #[schemars(with = "Vec<AddressSchema>", length(min = 1, max = MAX_TEP_GROUP), extend("examples" = [["172.16.1.20", "172.16.1.21"]]))]
    pub teps: Vec<IpAddr>,
}

/// An overlay segment: one layer-2 network over all the nodes that it spans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Segment {
    /// Name of the segment.
    pub name: Name,
    /// Virtual network identifier, its own among all segments and transit segments.
    pub vni: Vni,
    /// Encapsulation towards other nodes. Default: that of the uplink profile, else Geneve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encapsulation: Option<Encapsulation>,
    /// Name of the local TEP that the segment is pinned to. Default: any of the TEP group; without a group, segments are spread over the TEPs
    /// by their VNI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tep: Option<Name>,
    /// Name of the teaming whose uplinks carry the segment: it takes the TEPs on those, in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teaming: Option<Name>,
    /// Largest layer-3 packet of its workloads in bytes.
    #[serde(default = "default_mtu")]
    #[schemars(range(min = MIN_MTU, max = MAX_MTU))]
    pub mtu: u16,
    /// Name of the gateway that it is connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Name>,
    /// Addresses of the gateway on the segment, each with the prefix length of its subnet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<SubnetSchema>", length(max = 16), extend("examples" = [["10.10.20.1/24"]]))]
    pub gateway_addresses: Vec<IpNet>,
    /// How broadcast, unknown unicast and multicast reach other nodes.
    #[serde(default)]
    pub replication: Replication,
    /// Remote TEPs that replication reaches besides those of the segment's workloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<AddressSchema>", extend("examples" = [["172.16.1.20"]]))]
    pub remote_teps: Vec<IpAddr>,
}

/// A workload on a segment. It is either on a port of this node (`port`, `vlan`) or behind another node (`remote-tep`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Workload {
    /// Name of the workload.
    pub name: Name,
    /// Name of the segment that it is on.
    pub segment: Name,
    /// Its MAC address, its own on the segment.
    pub mac: MacAddr,
    /// Its addresses, its own on the segment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<AddressSchema>", length(max = 64), extend("examples" = [["10.10.20.10"]]))]
    pub addresses: Vec<IpAddr>,
    /// Name of the port of this node that it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Name>,
    /// VLAN that its frames carry on the port; without it, or 0, they are untagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<VlanId>,
    /// Address of the other node's TEP that it is behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AddressSchema>")]
    pub remote_tep: Option<IpAddr>,
}

fn default_mtu() -> u16 {
    1500
}
