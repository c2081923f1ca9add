//! LAGs, the uplink profile and failover teams: ports that stand for several.
//!
//! A *logical port* has members and no device of its own. Its [`PortIndex`] is one behind those of [`Plan::ports`]: first the LAGs,
//! then the teams. What uses a port (an uplink, and through it TEPs and tier-0 interfaces) does not ask which of both it is;
//! whoever needs the device asks [`Plan::logical_port`] first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sluice_wire::{MacAddr, VlanId};

use super::{Encapsulation, Plan, PortIndex, UplinkIndex};

/// Least links of a LAG.
pub const MIN_LAG_PORTS: usize = 2;
/// Most named teamings of an uplink profile.
pub const MAX_NAMED_TEAMINGS: usize = 32;
/// Name of the profile's own teaming, beside those that the document names.
pub const DEFAULT_TEAMING: &str = "default-teaming";

/// Ports that are one link together (IEEE 802.1AX).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lag {
    /// The name, no port has it.
    pub name: String,
    /// Its physical ports, at least [`MIN_LAG_PORTS`], none of them used otherwise.
    pub ports: Vec<PortIndex>,
    /// MAC address instead of that of its first port.
    pub mac: Option<MacAddr>,
    /// Whether LACP speaks first.
    pub activity: LacpActivity,
    /// How soon LACP misses the other end.
    pub timeout: LacpTimeout,
    /// Which link a frame takes.
    pub load_balancing: LoadBalancing,
    /// Links that have to carry traffic for the LAG to be up, 1 to as many as it has.
    pub min_links: u8,
    /// Largest layer-3 packet in bytes, that of all of its ports.
    pub mtu: u16,
}

/// Whether LACP speaks without being spoken to (LACP_Activity).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LacpActivity {
    /// It does.
    #[default]
    Active,
    /// It waits for the other end.
    Passive,
}

/// How often the other end is to send LACPDUs, and when it is missed (LACP_Timeout).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LacpTimeout {
    /// Every 30 seconds; missed after 90.
    #[default]
    Slow,
    /// Every second; missed after 3.
    Fast,
}

/// What of a frame says which link of a LAG it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadBalancing {
    /// Its source MAC address.
    SourceMac,
    /// Its destination MAC address.
    DestinationMac,
    /// Both MAC addresses.
    SourceAndDestinationMac,
    /// Both IP addresses and the VLAN.
    SourceAndDestinationIpAndVlan,
    /// Both MAC addresses, both IP addresses, and the ports of TCP and UDP.
    #[default]
    SourceAndDestinationMacIpAndPort,
}

/// Uplinks of which one carries everything, in the order in which they take over. Only those that something uses are in the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Team {
    /// Name of its teaming.
    pub name: String,
    /// The uplinks, at least two, each of a port or a LAG. The first one that works carries everything.
    pub uplinks: Vec<UplinkIndex>,
    /// Ports of those uplinks, in the same order.
    pub ports: Vec<PortIndex>,
    /// Largest layer-3 packet in bytes that all of them carry.
    pub mtu: u16,
}

/// How the node uses its uplinks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UplinkProfile {
    /// The teaming of whatever names neither uplink nor teaming; its name is [`DEFAULT_TEAMING`].
    pub teaming: UplinkTeaming,
    /// The teamings that the document names.
    pub named_teamings: Vec<UplinkTeaming>,
    /// VLAN of TEPs that do not say theirs.
    pub transport_vlan: Option<VlanId>,
    /// MTU of TEPs that do not say theirs.
    pub mtu: Option<u16>,
    /// Encapsulation of segments that do not say theirs.
    pub encapsulation: Encapsulation,
}

/// Which uplinks carry what, and which take over when one fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UplinkTeaming {
    /// The name.
    pub name: String,
    /// How uplinks are chosen.
    pub policy: TeamingPolicy,
    /// Uplinks that carry traffic, in order, at least one.
    pub active: Vec<UplinkIndex>,
    /// Uplinks that take over when all active ones have failed, in order. Only with [`TeamingPolicy::FailoverOrder`].
    pub standby: Vec<UplinkIndex>,
}

/// How a teaming chooses uplinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TeamingPolicy {
    /// The first one that works, active ones before those that stand by.
    FailoverOrder,
    /// All active ones; each port of a workload takes one of them.
    LoadBalanceSourceId,
    /// All active ones; each MAC address of a workload takes one of them.
    LoadBalanceSourceMac,
}

/// A port that stands for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogicalPort<'a> {
    /// A LAG, whose active links share the frames.
    Lag(&'a Lag),
    /// A failover team, one of whose ports carries everything.
    Team(&'a Team),
}

impl<'a> LogicalPort<'a> {
    /// The ports that it stands for: physical ones, or in a team also LAGs.
    pub fn members(self) -> &'a [PortIndex] {
        match self {
            Self::Lag(lag) => &lag.ports,
            Self::Team(team) => &team.ports,
        }
    }

    /// Its name.
    pub fn name(self) -> &'a str {
        match self {
            Self::Lag(lag) => &lag.name,
            Self::Team(team) => &team.name,
        }
    }
}

impl Plan {
    /// How many ports there are, physical and logical.
    pub fn port_count(&self) -> usize {
        self.ports.len() + self.lags.len() + self.teams.len()
    }

    /// Every port, the physical ones first.
    pub fn port_indices(&self) -> impl Iterator<Item = PortIndex> + use<> {
        (0..self.port_count() as u16).map(PortIndex)
    }

    /// The port of the LAG at `position` of [`Plan::lags`].
    pub fn lag_port(&self, position: usize) -> PortIndex {
        PortIndex((self.ports.len() + position) as u16)
    }

    /// The port of the team at `position` of [`Plan::teams`].
    pub fn team_port(&self, position: usize) -> PortIndex {
        PortIndex((self.ports.len() + self.lags.len() + position) as u16)
    }

    /// What a port stands for; none if it is a physical one, or none of this plan.
    pub fn logical_port(&self, port: PortIndex) -> Option<LogicalPort<'_>> {
        let position = port.index().checked_sub(self.ports.len())?;
        let lag = self.lags.get(position).map(LogicalPort::Lag);
        lag.or_else(|| self.teams.get(position - self.lags.len().min(position)).map(LogicalPort::Team))
    }

    /// Whether a port stands for the uplinks of a teaming.
    pub fn is_team(&self, port: PortIndex) -> bool {
        matches!(self.logical_port(port), Some(LogicalPort::Team(_)))
    }

    /// The LAG that a physical port is in, by its position.
    pub fn lag_of(&self, port: PortIndex) -> Option<usize> {
        self.lags.iter().position(|lag| lag.ports.contains(&port))
    }

    /// Name of a port, physical or logical; empty if there is none.
    pub fn port_name(&self, port: PortIndex) -> &str {
        match self.logical_port(port) {
            Some(logical) => logical.name(),
            None => self.ports.get(port.index()).map_or("", |port| &port.name),
        }
    }

    /// Largest layer-3 packet of a port, physical or logical, in bytes; 0 if there is none.
    pub fn port_mtu(&self, port: PortIndex) -> u16 {
        match self.logical_port(port) {
            Some(LogicalPort::Lag(lag)) => lag.mtu,
            Some(LogicalPort::Team(team)) => team.mtu,
            None => self.ports.get(port.index()).map_or(0, |port| port.mtu),
        }
    }

    /// The port of a name: a physical one or a LAG, which never share names.
    pub fn port_of_name(&self, name: &str) -> Option<PortIndex> {
        let lags = self.lags.iter().map(|lag| &lag.name);
        let position =
            self.ports.iter().map(|port| &port.name).chain(lags).position(|other| other == name)?;
        Some(PortIndex(position as u16))
    }

    /// The physical port whose MAC address a port has unless the document gives it another: its own, or that of its first member.
    pub fn first_port(&self, port: PortIndex) -> PortIndex {
        let first = |port: PortIndex| {
            self.logical_port(port).and_then(|logical| logical.members().first().copied()).unwrap_or(port)
        };
        // Members of a team may be LAGs, those of a LAG are physical.
        first(first(port))
    }

    /// The MAC address that the document gives a port, or the LAG that a team begins with.
    pub fn port_mac(&self, port: PortIndex) -> Option<MacAddr> {
        match self.logical_port(port) {
            Some(LogicalPort::Lag(lag)) => lag.mac.or_else(|| self.port_mac(*lag.ports.first()?)),
            Some(LogicalPort::Team(team)) => self.port_mac(*team.ports.first()?),
            None => self.ports.get(port.index())?.mac,
        }
    }
}
