//! What a node answers of its uplinks: LAGs, and its host switch.

use serde::{Deserialize, Serialize};

/// A LAG.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lag {
    /// Name.
    pub name: String,
    /// `up` if enough of its links carry traffic, otherwise `down`.
    pub state: String,
    /// `active`: LACP speaks first. `passive`: it waits for the other end.
    pub mode: String,
    /// `slow` or `fast`: how often the other end is to send LACPDUs.
    pub timeout: String,
    /// What of a frame says which link it takes, as in the node document.
    pub load_balancing: String,
    /// Links that have to carry traffic for the LAG to be up.
    pub min_links: u8,
    /// MAC address of what is on the LAG.
    pub mac: String,
    /// MAC address that LACP knows this node by.
    pub system: String,
    /// Number of the LAG in LACP.
    pub key: u16,
    /// Whom its links lead to; none while there is nobody.
    pub partner: Option<LagPartner>,
    /// Its links, in the order of LACP's numbers.
    pub links: Vec<LagLink>,
    /// Frames of the slow protocols that were refused; reasons that did not occur are left out.
    pub refused: Vec<LagRefusal>,
}

/// The other end of a LAG.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LagPartner {
    /// MAC address that LACP knows it by.
    pub system: String,
    /// Its priority.
    pub priority: u16,
    /// Number of the LAG there.
    pub key: u16,
}

/// A link of a LAG.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LagLink {
    /// Name of the port.
    pub port: String,
    /// `up` or `down`.
    pub link: String,
    /// Whether it carries traffic.
    pub active: bool,
    /// State of the Receive machine: `current`, `expired`, `defaulted` or `port-disabled` (IEEE 802.1AX-2014 section 6.4.12).
    pub receive: String,
    /// State of the Mux machine: `detached`, `waiting`, `attached` or `collecting-distributing` (section 6.4.15).
    pub mux: String,
    /// What the Selection logic says: `selected`, `standby` or `unselected` (section 6.4.8).
    pub selected: String,
    /// Why it is left out, and what to do; empty: it is not, or its link is down, or nobody is heard.
    pub reason: String,
    /// MAC address that LACP knows the other end of the link by; all zeros while nobody is heard.
    pub partner_system: String,
    /// Number of the LAG there.
    pub partner_key: u16,
    /// Number of the port there.
    pub partner_port: u16,
    /// Seconds since an LACPDU was accepted; none: never.
    pub last_received_s: Option<u64>,
    /// LACPDUs sent.
    pub sent: u64,
    /// LACPDUs received and accepted.
    pub received: u64,
    /// Of those, the ones of another partner than the LAG's.
    pub other_partner: u64,
    /// LACPDUs of this node itself.
    pub loopbacks: u64,
    /// Markers received.
    pub markers: u64,
    /// Markers that were not answered because there were too many.
    pub markers_withheld: u64,
    /// Times that it began to carry traffic.
    pub activations: u64,
    /// Times that it ceased to.
    pub deactivations: u64,
}

/// Frames that were refused for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LagRefusal {
    /// Why, in one sentence.
    pub reason: String,
    /// Frames.
    pub frames: u64,
}

/// The host switch of a node: its uplinks, and what is on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostSwitch {
    /// Name of the node.
    pub node: String,
    /// Encapsulation of segments that do not say theirs: `GENEVE` or `VXLAN`.
    pub encap: String,
    /// VLAN of TEPs that do not say theirs.
    pub transport_vlan: Option<u16>,
    /// MTU of TEPs that do not say theirs; none: that of the port.
    pub mtu: Option<u16>,
    /// Its uplinks.
    pub uplinks: Vec<HostUplink>,
    /// The teamings of the uplink profile, its own first.
    pub teamings: Vec<HostTeaming>,
    /// The node's own TEPs.
    pub teps: Vec<HostTep>,
}

/// An uplink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostUplink {
    /// Name.
    pub name: String,
    /// The port or LAG.
    pub port: String,
    /// The physical ports: the links of the LAG, or the port itself.
    pub links: Vec<String>,
    /// Those of them that carry traffic.
    pub active_links: Vec<String>,
    /// Largest layer-3 packet in bytes.
    pub mtu: u16,
    /// `up` or `down`.
    pub state: String,
}

/// A teaming.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTeaming {
    /// Name; that of the profile's own is `default-teaming`.
    pub name: String,
    /// The policy, as in the node document.
    pub policy: String,
    /// Uplinks that carry traffic.
    pub active: Vec<String>,
    /// Uplinks that take over.
    pub standby: Vec<String>,
    /// With `failover-order`, the uplink that carries what follows the teaming now; empty: none works, or the policy spreads.
    pub uplink: String,
}

/// A TEP and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTep {
    /// Name.
    pub name: String,
    /// Address and prefix length.
    pub address: String,
    /// The uplink that it is on now.
    pub uplink: String,
    /// The teaming that it follows; empty: it is on one uplink.
    pub teaming: String,
    /// VLAN.
    pub vlan: Option<u16>,
    /// Largest outer packet in bytes.
    pub mtu: u16,
    /// `up` or `down`.
    pub state: String,
}
