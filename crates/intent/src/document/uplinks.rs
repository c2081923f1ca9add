//! LAGs, uplinks and the uplink profile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sluice_wire::{MacAddr, VlanId};

use super::names::Name;
use crate::plan::{
    Encapsulation, LacpActivity, LacpTimeout, LoadBalancing, MAX_MTU, MAX_NAMED_TEAMINGS, MAX_PORTS,
    MIN_LAG_PORTS, MIN_MTU, TeamingPolicy,
};

/// A link aggregation group: ports that are one link together, agreed with the other end by LACP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lag {
    /// Name of the LAG, which no port has.
    pub name: Name,
    /// Names of its ports, which nothing else uses.
    #[schemars(length(min = MIN_LAG_PORTS, max = MAX_PORTS), extend("examples" = [["fp-eth0", "fp-eth1"]]))]
    pub ports: Vec<Name>,
    /// MAC address instead of that of its first port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<MacAddr>,
    /// Whether LACP speaks first.
    #[serde(default)]
    pub activity: LacpActivity,
    /// How often the other end is to send LACPDUs, and when it is missed.
    #[serde(default)]
    pub timeout: LacpTimeout,
    /// What of a frame says which link it takes.
    #[serde(default)]
    pub load_balancing: LoadBalancing,
    /// Links that have to carry traffic for the LAG to be up.
    #[serde(default = "default_min_links")]
    #[schemars(range(min = 1, max = MAX_PORTS))]
    pub min_links: u8,
}

/// A name under which TEPs and tier-0 interfaces use a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Uplink {
    /// Name of the uplink.
    pub name: Name,
    /// Name of the port or LAG. It has one uplink at most.
    pub port: Name,
}

/// How the node uses its uplinks, and defaults of what is on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UplinkProfile {
    /// The teaming of TEPs that name no uplink.
    pub teaming: Teaming,
    /// Further teamings, which tier-0 interfaces and segments name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NAMED_TEAMINGS))]
    pub named_teamings: Vec<NamedTeaming>,
    /// VLAN of TEPs that do not say theirs; without it, or 0, untagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport_vlan: Option<VlanId>,
    /// MTU of TEPs that do not say theirs. Default: that of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_MTU, max = MAX_MTU))]
    pub mtu: Option<u16>,
    /// Encapsulation of segments and transit segments that do not say theirs.
    #[serde(default)]
    pub encapsulation: Encapsulation,
}

/// Which uplinks carry traffic, and which take over when one fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Teaming {
    /// How uplinks are chosen.
    pub policy: TeamingPolicy,
    /// Names of the uplinks that carry traffic, in order.
    #[schemars(length(min = 1, max = MAX_PORTS), extend("examples" = [["uplink-1", "uplink-2"]]))]
    pub active: Vec<Name>,
    /// `failover-order`: names of the uplinks that take over when all active ones have failed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PORTS), extend("examples" = [["uplink-2"]]))]
    pub standby: Vec<Name>,
}

/// A teaming with a name, for tier-0 interfaces and segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NamedTeaming {
    /// Name of the teaming.
    pub name: Name,
    /// How uplinks are chosen.
    pub policy: TeamingPolicy,
    /// Names of the uplinks that carry traffic, in order.
    #[schemars(length(min = 1, max = MAX_PORTS), extend("examples" = [["uplink-1"]]))]
    pub active: Vec<Name>,
    /// `failover-order`: names of the uplinks that take over when all active ones have failed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PORTS), extend("examples" = [["uplink-2"]]))]
    pub standby: Vec<Name>,
}

impl NamedTeaming {
    /// The teaming without its name.
    pub fn teaming(&self) -> Teaming {
        Teaming { policy: self.policy, active: self.active.clone(), standby: self.standby.clone() }
    }
}

fn default_min_links() -> u8 {
    1
}
