//! How a LAG is configured, and what is wrong with a configuration.

use std::collections::BTreeSet;

use sluice_wire::MacAddr;

/// A LAG of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagConfig {
    /// The node's MAC address for LACP: one for all of its LAGs.
    pub system: MacAddr,
    /// The node's priority; of two systems the one with the lower number decides which links stand by. 32,768.
    pub system_priority: u16,
    /// The LAG's key: another one for every LAG of the node; not 0.
    pub key: u16,
    /// LACP_Activity: send LACPDUs without being spoken to. On.
    pub active: bool,
    /// LACP_Timeout: ask the other end for an LACPDU every second, and miss it after 3 s; otherwise every 30 s, and 90 s.
    /// Off.
    pub fast: bool,
    /// Links that carry traffic at most, 1 to 32; others stand by. 32.
    pub max_links: usize,
    /// Active links that the LAG needs to be up, 1 to [`LagConfig::max_links`]. With fewer it is out of sync on all of them, so that the other end,
    /// which may need fewer, does not go on sending. 1.
    pub min_links: usize,
    /// Its ports, 1 to 32.
    pub ports: Vec<PortConfig>,
}

/// A port of a LAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The node's number of the port, below 65,535. LACP calls it by the next number, since 0 is none there.
    pub port: u16,
    /// The port's own MAC address, from which its frames come.
    pub mac: MacAddr,
    /// The port's priority; those with lower numbers come first where there are too many links. 32,768.
    pub priority: u16,
}

impl PortConfig {
    /// A port of the usual priority.
    pub const fn new(port: u16, mac: MacAddr) -> Self {
        Self { port, mac, priority: 0x8000 }
    }
}

impl LagConfig {
    /// Ports that a LAG can have.
    pub const MAX_PORTS: usize = 32;

    /// An active LAG of these ports with the usual numbers.
    pub const fn new(system: MacAddr, key: u16, ports: Vec<PortConfig>) -> Self {
        Self {
            system,
            system_priority: 0x8000,
            key,
            active: true,
            fast: false,
            max_links: Self::MAX_PORTS,
            min_links: 1,
            ports,
        }
    }

    pub(super) fn check(&self) -> Result<(), LagError> {
        let mut ports = BTreeSet::new();
        if !self.system.is_unicast() {
            return Err(LagError::System(self.system));
        }
        if self.key == 0 {
            return Err(LagError::Key);
        }
        if self.ports.is_empty() || self.ports.len() > Self::MAX_PORTS {
            return Err(LagError::Ports(self.ports.len()));
        }
        if !(1..=Self::MAX_PORTS).contains(&self.max_links) {
            return Err(LagError::MaxLinks(self.max_links));
        }
        if !(1..=self.max_links).contains(&self.min_links) {
            return Err(LagError::MinLinks { min: self.min_links, max: self.max_links });
        }
        match self.ports.iter().find(|port| port.port == u16::MAX || !ports.insert(port.port)) {
            Some(port) => Err(LagError::Port(port.port)),
            None => Ok(()),
        }
    }
}

/// A configuration that no LAG can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LagError {
    /// The system's MAC address names no station.
    #[error("{0} cannot be the MAC address of an LACP system: give the address of one station")]
    System(MacAddr),
    /// The key is 0.
    #[error("the key of a LAG cannot be 0: give each LAG another number from 1 on")]
    Key,
    /// No port, or too many.
    #[error("a LAG has 1 to 32 ports, not {0}")]
    Ports(usize),
    /// A port is given twice, or has no number in LACP.
    #[error("port {0} is in the LAG twice, or has a number that LACP has no room for")]
    Port(u16),
    /// The greatest number of links is out of its range.
    #[error("a LAG carries traffic on 1 to 32 links at most, not {0}")]
    MaxLinks(usize),
    /// The least number of links is out of its range.
    #[error("a LAG of at most {max} links cannot need {min} of them: give a number from 1 to {max}")]
    MinLinks {
        /// The least number.
        min: usize,
        /// The greatest number.
        max: usize,
    },
}
