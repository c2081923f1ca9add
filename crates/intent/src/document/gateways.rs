//! Tier-0 and tier-1 gateways: interfaces, transit segment, links and static routes.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sluice_wire::{MacAddr, VlanId, Vni};

use super::names::Name;
use super::{AddressSchema, SubnetSchema};
use crate::plan::{Encapsulation, MAX_BFD_PEERS, MAX_ECMP, MAX_INTERFACES, MAX_MTU, MIN_MTU};

/// A logical gateway. Tier-0 gateways have `interfaces` and `transit`, tier-1 gateways `link`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Gateway {
    /// Name of the gateway.
    pub name: Name,
    /// 0 connects to the physical network; 1 connects segments, and through its link a tier-0.
    pub tier: TierNumber,
    /// Tier-0 on an edge or branch: interfaces on uplinks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_INTERFACES))]
    pub interfaces: Vec<Interface>,
    /// Tier-0: the segment between the distributed router, on every node, and the service routers, on edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transit: Option<Transit>,
    /// Tier-1: the link to a tier-0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<RouterLink>,
    /// Static routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub static_routes: Vec<StaticRoute>,
    /// Tier-0 on an edge or branch: neighbours on its interfaces that BFD watches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_BFD_PEERS))]
    pub bfd_peers: Vec<BfdPeer>,
}

/// A neighbour on an interface that is watched by single-hop BFD (RFC 5881): static routes leave it out while it is not reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BfdPeer {
    /// Its address, in the subnet of an interface.
    #[schemars(with = "AddressSchema")]
    pub address: IpAddr,
    /// Milliseconds between two packets while the session is up, and the least that are wanted of the neighbour.
    #[serde(default = "BfdPeer::default_interval_ms")]
    #[schemars(range(min = 50, max = 60_000))]
    pub interval_ms: u16,
    /// Packets in a row that may be missing before the session goes down.
    #[serde(default = "BfdPeer::default_multiplier")]
    #[schemars(range(min = 2, max = 16))]
    pub multiplier: u8,
}

impl BfdPeer {
    const fn default_interval_ms() -> u16 {
        500
    }

    const fn default_multiplier() -> u8 {
        3
    }
}

/// Tier of a gateway: the number 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub enum TierNumber {
    /// Connects to the physical network.
    Zero,
    /// Connects segments, and through its link a tier-0.
    One,
}

impl TryFrom<u64> for TierNumber {
    type Error = &'static str;

    fn try_from(number: u64) -> Result<Self, Self::Error> {
        match number {
            0 => Ok(Self::Zero),
            1 => Ok(Self::One),
            _ => Err("the tier of a gateway is 0 or 1"),
        }
    }
}

impl From<TierNumber> for u64 {
    fn from(tier: TierNumber) -> Self {
        match tier {
            TierNumber::Zero => 0,
            TierNumber::One => 1,
        }
    }
}

impl JsonSchema for TierNumber {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TierNumber".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "enum": [0, 1] })
    }
}

/// An interface of a tier-0 gateway on an uplink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Interface {
    /// Name of the interface, its own in the gateway.
    pub name: Name,
    /// Name of the uplink. Either this or `teaming`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<Name>,
    /// Name of the teaming that says which uplink carries it, and which one when that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teaming: Option<Name>,
    /// VLAN; without it, or 0, frames are untagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<VlanId>,
    /// Addresses, each with the prefix length of its subnet.
    #[schemars(with = "Vec<SubnetSchema>", length(min = 1, max = 16), extend("examples" = [["192.0.2.2/24"]]))]
    pub addresses: Vec<IpNet>,
    /// Largest IP packet in bytes. Default: the port's MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_MTU, max = MAX_MTU))]
    pub mtu: Option<u16>,
}

/// The segment between the distributed router of a tier-0 and its service routers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Transit {
    /// Virtual network identifier, its own among all segments and transit segments.
    pub vni: Vni,
    /// Encapsulation towards other nodes. Default: that of the uplink profile, else Geneve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encapsulation: Option<Encapsulation>,
    /// Name of the local TEP that it is pinned to. Default: the first of the family of the service routers' TEPs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tep: Option<Name>,
    /// The service routers. The one whose `edge` is this node's own name runs here.
    #[schemars(length(min = 1, max = MAX_ECMP))]
    pub service_routers: Vec<ServiceRouter>,
}

/// A service router of a tier-0 on an edge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ServiceRouter {
    /// Name of the edge node.
    pub edge: Name,
    /// MAC address on the transit segment.
    pub mac: MacAddr,
    /// Addresses on the transit segment, one of each family at most.
    #[schemars(with = "Vec<AddressSchema>", length(min = 1, max = 2), extend("examples" = [["169.254.0.2"]]))]
    pub addresses: Vec<IpAddr>,
    /// Address of the edge's TEP.
    #[schemars(with = "AddressSchema")]
    pub tep: IpAddr,
}

/// The link of a tier-1 to a tier-0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RouterLink {
    /// Name of the tier-0 gateway.
    #[serde(rename = "tier-0")]
    pub tier0: Name,
    /// Addresses of the tier-0's end, each with the prefix length of its subnet.
    #[serde(rename = "tier-0-addresses", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<SubnetSchema>", length(max = 4), extend("examples" = [["100.64.0.0/31"]]))]
    pub tier0_addresses: Vec<IpNet>,
    /// Addresses of the tier-1's end, in the same subnets.
    #[serde(rename = "tier-1-addresses", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<SubnetSchema>", length(max = 4), extend("examples" = [["100.64.0.1/31"]]))]
    pub tier1_addresses: Vec<IpNet>,
}

/// A static route: to next hops of equal cost, or discarding (`blackhole`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StaticRoute {
    /// Destination.
    #[schemars(with = "SubnetSchema")]
    pub prefix: IpNet,
    /// Next hops of equal cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_ECMP))]
    pub next_hops: Vec<NextHop>,
    /// Discard what matches; then there are no next hops.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blackhole: bool,
}

/// A next hop of a static route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NextHop {
    /// Its address.
    #[schemars(with = "AddressSchema")]
    pub address: IpAddr,
    /// Name of the gateway's interface, or of a segment connected to the gateway, behind which it is. Default: the one whose
    /// subnet has the address. A link-local address needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Name>,
}
