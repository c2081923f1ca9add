//! What a node answers of failures: TEP groups, BFD sessions, alarms.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// TEPs of a node, this one or another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TnTepGroup {
    /// Name of the node, or of the group in the document; empty: a TEP of another node that is in no group.
    pub node: String,
    /// Whether it is this node.
    pub local: bool,
    /// Number of the group; none: the node's TEPs are no group, or it is another node's.
    pub id: Option<u32>,
    /// `hash` or `load-aware`; none: the node's TEPs are no group, or it is another node's.
    pub placement: Option<String>,
    /// Its TEPs.
    pub teps: Vec<TnTep>,
}

/// A TEP of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TnTep {
    /// Name; empty: a TEP of another node.
    pub name: String,
    /// Address.
    pub address: IpAddr,
    /// Of this node: `healthy`, `suspect` (none of its BFD sessions is up, for less than the failover timeout) or `faulty`. Of another node:
    /// `up` if tunnels lead to it that are in use, otherwise `down`.
    pub state: String,
    /// Why it is faulty; empty otherwise.
    pub reason: String,
    /// Seconds until it is tried again; none: it is not faulty, comes back by itself, or only by hand.
    pub retry_s: Option<u64>,
    /// Pairs of it and a TEP of the other side.
    pub pairs: u32,
    /// Those of them that are usable.
    pub pairs_usable: u32,
}

/// BFD sessions with the TEPs of other nodes and with neighbours on interfaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BfdSessions {
    /// The sessions, by address.
    pub sessions: Vec<BfdSession>,
    /// Packets that were received and refused; reasons that did not occur are left out.
    pub refused: Vec<BfdRefusal>,
}

/// BFD packets that were refused for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BfdRefusal {
    /// Why, in one sentence.
    pub reason: String,
    /// Packets.
    pub packets: u64,
}

/// A BFD session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BfdSession {
    /// The local TEP, or the gateway's interface, as `t0/to-router`.
    pub tep: String,
    /// Its address.
    pub local: IpAddr,
    /// The remote TEP, or the neighbour.
    pub remote: IpAddr,
    /// `GENEVE` or `VXLAN`; empty with a neighbour.
    pub encap: String,
    /// `Up`, `Init`, `Down` or `AdminDown`.
    pub state: String,
    /// Seconds in that state.
    pub since_s: u64,
    /// The state that the other end last told.
    pub remote_state: String,
    /// Why it is not up, or last was not.
    pub diagnostic: String,
    /// What the other end last gave as its reason.
    pub remote_diagnostic: String,
    /// This end's number of the session.
    pub local_discriminator: u32,
    /// The other end's; 0 while it is not known.
    pub remote_discriminator: u32,
    /// Longest time between two packets of this end, in milliseconds; none while it sends none.
    pub transmit_interval_ms: Option<u64>,
    /// Time without a packet after which it goes down, in milliseconds; none while nothing is heard.
    pub detection_time_ms: Option<u64>,
    /// Packets sent.
    pub sent: u64,
    /// Packets received and accepted.
    pub received: u64,
    /// Times that it came up.
    pub ups: u64,
    /// Times that it was up and went down.
    pub downs: u64,
    /// Whether the pair of TEPs, or the neighbour, is used for traffic, as far as this session says.
    pub usable: bool,
}

/// Something that is wrong now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// The kind, as `tep-faulty`.
    pub kind: String,
    /// What it concerns, as the name of a TEP.
    pub object: String,
    /// Seconds since it was raised.
    pub since_s: u64,
    /// What is wrong, in one sentence.
    pub description: String,
}
