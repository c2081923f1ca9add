//! Link aggregation: which links of a LAG carry traffic, agreed with the other end by LACP (IEEE 802.1AX-2014 clause 6.4).
//!
//! A LAG of a node's uplink profile is a [`Lag`]. The node hands in the frames of the slow protocols that its ports
//! receive and the states of their links, sends the frames that come out, and gives traffic only to the ports that are
//! said to be active. Its control thread is the only caller.
//!
//! ```text
//!            ┌ Receive ─ whom the other end is; in time? ┐
//!  LACPDU ───┤                                           ├─ Selection ─ which links belong together ─┐
//!            └ Marker: answered                          ┘                                          │
//!  LACPDU ←── Transmit, at most 3 a second ←── Periodic, every 1 s or 30 s ←── Mux: wait, attach, carry traffic
//! ```
//!
//! The machines are those of the standard: Receive (§6.4.12), Periodic (§6.4.13), Selection (§6.4.14), Mux with coupled
//! control (§6.4.15), Transmit (§6.4.16), churn detection (§6.4.17), and the responder of the marker protocol (§6.5.4).
//! What it leaves to the implementation:
//!
//! - A LAG is one aggregator. Its links all lead to one partner with one key, and have one speed. Which, where links
//!   differ: those of the aggregate that carries traffic already; else those that make the most bandwidth, with the
//!   better port as tie-break. A link that differs is left out and told ([`Action::Excluded`]).
//! - More links than [`LagConfig::max_links`] stand by, in the order of priority of the system that decides: the one
//!   with the lower priority number and address.
//! - A link whose other end wants it Individual can be the aggregate alone. A link whose other end does not speak LACP
//!   carries nothing.
//! - Fewer active links than [`LagConfig::min_links`]: the LAG as a whole counts as down, which is for the node to act
//!   on. LACP goes on, so that the other end keeps its links.
//! - A link on which this system hears itself is left out until 90 s have passed without that.
//! - A link that goes down or stops carrying traffic more than [`crate::damping::DOWNS`] times within
//!   [`crate::damping::WINDOW`] is left out until [`crate::damping::QUIET`] has passed without that. LACP goes on, so that
//!   the other end does not use it either.
//! - The first LACPDU of a link goes out when the link comes up, not a period later.
//!
//! Limits: version 1 (no conversation-sensitive distribution), no independent control of collecting and distributing, no
//! markers of our own: flows that move to another link are not held back until the first one is drained.

use std::time::Duration;

use sluice_wire::MacAddr;
use sluice_wire::lacp::PortInfo;

use crate::Timestamp;

mod config;
mod lag;
mod port;
mod refusal;
mod selection;

pub use config::{LagConfig, LagError, PortConfig};
pub use lag::Lag;
pub use refusal::{Refusal, Refusals};

/// Fast_Periodic_Time: between LACPDUs where the other end asks for fast ones; also what the rate limit is over.
pub const FAST_PERIODIC: Duration = Duration::from_secs(1);
/// Slow_Periodic_Time: between LACPDUs otherwise.
pub const SLOW_PERIODIC: Duration = Duration::from_secs(30);
/// Short_Timeout_Time: after which an end that asked for fast LACPDUs misses them.
pub const SHORT_TIMEOUT: Duration = Duration::from_secs(3);
/// Long_Timeout_Time: after which any other end misses them.
pub const LONG_TIMEOUT: Duration = Duration::from_secs(90);
/// Aggregate_Wait_Time: how long a link waits for others that come up with it.
pub const AGGREGATE_WAIT: Duration = Duration::from_secs(2);
/// Churn_Detection_Time: how long the ends may take to agree.
pub const CHURN_DETECTION: Duration = Duration::from_secs(60);

/// What the caller of a [`Lag`] is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a frame.
    Send {
        /// The port to send it on, without VLAN tag.
        port: u16,
        /// The whole Ethernet frame.
        frame: Vec<u8>,
    },
    /// A port takes and is given traffic from now on, or no longer.
    PortChanged {
        /// The port.
        port: u16,
        /// It collects and distributes.
        active: bool,
    },
    /// The LAG has enough active ports from now on, or no longer.
    StateChanged {
        /// It has at least [`LagConfig::min_links`].
        up: bool,
    },
    /// A port whose link works and whose other end speaks LACP is left out of the LAG, or no longer. For an alarm.
    Excluded {
        /// The port.
        port: u16,
        /// Why; `None` where it no longer is.
        reason: Option<Exclusion>,
    },
    /// The two ends of a link do not agree for [`CHURN_DETECTION`], or do so again. For an alarm.
    Churn {
        /// The port.
        port: u16,
        /// The end that does not come into sync.
        side: Side,
        /// It does not.
        churning: bool,
    },
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// This system.
    Actor,
    /// The other end.
    Partner,
}

/// Why a link that works is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exclusion {
    /// It leads to another system, or to another aggregate of it, than the LAG's other links: it is plugged in wrongly.
    OtherPartner {
        /// Whom it leads to.
        system: MacAddr,
        /// The key there.
        key: u16,
    },
    /// Its speed differs from that of the LAG's other links.
    Speed {
        /// Its speed in megabits a second.
        megabits: u32,
    },
    /// The other end refuses to aggregate it, and the LAG has another link.
    Individual,
    /// This system hears itself on it: it is looped back.
    Loopback,
    /// It went down too often ([`crate::damping`]): it stays out until it has been quiet for a while.
    Flapping,
}

/// State of the Receive machine (§6.4.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiveState {
    /// The link is down.
    PortDisabled,
    /// The other end was not heard in time; it has 3 s more.
    Expired,
    /// The other end is not heard.
    Defaulted,
    /// The other end is heard in time.
    Current,
}

/// State of the Mux machine with coupled control (§6.4.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MuxState {
    /// Not part of the aggregate.
    Detached,
    /// Chosen; waits for others that come up with it, or stands by.
    Waiting,
    /// Part of the aggregate; waits for the other end.
    Attached,
    /// Carries traffic.
    CollectingDistributing,
}

/// What the Selection logic says of a port (§6.4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selected {
    /// It does not belong to the aggregate.
    Unselected,
    /// It belongs to it.
    Selected,
    /// It would belong to it, if there were not enough links already.
    Standby,
}

/// The other end of the aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partner {
    /// Priority of the system.
    pub system_priority: u16,
    /// The system's MAC address.
    pub system: MacAddr,
    /// The key there.
    pub key: u16,
}

/// A LAG for people and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagView {
    /// It has enough active ports.
    pub up: bool,
    /// Whom its links lead to; `None` while there is nobody.
    pub partner: Option<Partner>,
    /// Its ports in the order of their numbers.
    pub ports: Vec<PortView>,
}

/// A port of a LAG for people and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortView {
    /// The port.
    pub port: u16,
    /// Speed of its link in megabits a second; `None` while it is down.
    pub megabits: Option<u32>,
    /// It takes and is given traffic.
    pub active: bool,
    /// What the Selection logic says.
    pub selected: Selected,
    /// State of the Receive machine.
    pub receive: ReceiveState,
    /// State of the Mux machine.
    pub mux: MuxState,
    /// What this end tells.
    pub actor: PortInfo,
    /// What the other end last told, or what is assumed of it.
    pub partner: PortInfo,
    /// Why it is left out, if it is.
    pub exclusion: Option<Exclusion>,
    /// This end does not come into sync.
    pub actor_churn: bool,
    /// The other end does not come into sync.
    pub partner_churn: bool,
    /// When an LACPDU was last accepted.
    pub last_received: Option<Timestamp>,
    /// What it has done.
    pub counters: PortCounters,
}

/// What a port of a LAG has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// LACPDUs sent.
    pub sent: u64,
    /// LACPDUs received and accepted.
    pub received: u64,
    /// Of those, the ones of another partner than the LAG's.
    pub other_partner: u64,
    /// LACPDUs of this system itself.
    pub loopbacks: u64,
    /// Markers received.
    pub markers: u64,
    /// Markers that were not answered because there were too many.
    pub markers_withheld: u64,
    /// Times that it became active.
    pub activations: u64,
    /// Times that it was active and no longer was.
    pub deactivations: u64,
}
