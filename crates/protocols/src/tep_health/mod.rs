//! TEP high availability: which tunnel endpoints of a node can be used, and when one that failed is trusted again.
//!
//! A node with several TEPs moves what is bound to a TEP to another one when it is faulty. The node tells of each TEP
//! whether it has an address, whether its link is up, and how many of its BFD sessions ([`crate::bfd`]) are; what comes
//! out are the faults and their ends. Its control thread is the only caller.
//!
//! ```text
//!            all sessions down                     failover_timeout
//!   Healthy ───────────────────→ Suspect ─────────────────────────────→ Faulty
//!     ↑  ↖─── a session is up ──────╯                                   ↑   │
//!     │ ╰──────── no address, link down: at once ───────────────────────╯   │
//!     ╰── it works, and: the cause was address or link; or a try of the auto-recovery; or no other is used; or by hand ──╯
//! ```
//!
//! A TEP *works* when it has an address, its link is up, and, if it has BFD sessions, at least one of them is up.
//!
//! - **Faults**: without address or link a TEP is faulty at once. Without any session that is up, it is after
//!   [`TepHealthConfig::failover_timeout`]; silence that is shorter changes nothing. Sessions none of which has
//!   been up yet have at least [`FIRST_CONTACT`] to come up.
//! - **Recovery on its own**: a TEP that lost its address or link is healthy again as soon as it works.
//! - **Auto-recovery** after silent sessions: the TEP is tried [`TepHealthConfig::initial_wait`] after the fault. If it
//!   does not work then, it is tried again after twice that time, and so on up to [`TepHealthConfig::max_backoff`].
//!   Between tries it stays faulty even if it works, so that nothing moves back and forth.
//! - **No other**: where every TEP of the node is faulty the first one that works is used again at once, unless auto-recovery is off: there is
//!   none that flows could stay with meanwhile. Its back-off is not forgotten: if it fails again soon, the next one is twice as long.
//! - **Damping**: a TEP that fails again before it was healthy for as long as it last had to wait goes on with twice that
//!   time, whatever the cause is. The first time it has to wait [`TepHealthConfig::initial_wait`].
//! - **By hand** ([`TepHealth::recover`]): at once, if it works; the next fault counts as the first.
//! - **Switched off** ([`TepHealthConfig::enabled`]): sessions do not count, and nothing waits.
//!
//! A node all of whose TEPs are faulty is isolated while none of them works. One that works and only waits for its recovery reaches other
//! nodes: what is bound to the TEPs of a node none of which is used stays where it is, for nowhere is better.
//!
//! Limits: at most 65,536 TEPs, by their numbers. Where what was bound to a faulty TEP goes is for the node to choose.

use std::time::Duration;

use crate::Timestamp;

mod config;
mod health;
mod tep;

pub use config::{TepHealthConfig, TepHealthError};
pub use health::TepHealth;

/// How long the first sessions of a TEP have to come up at the least: BFD begins with a packet a second.
pub const FIRST_CONTACT: Duration = Duration::from_secs(10);

/// The node's number of a TEP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TepId(pub u16);

/// What is known of a TEP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TepInputs {
    /// It has an IP address.
    pub has_address: bool,
    /// Its link, or the LAG that it is on, is up.
    pub link_up: bool,
    /// BFD sessions that it has.
    pub sessions: usize,
    /// Of those, the ones that are up.
    pub sessions_up: usize,
}

/// Why a TEP is faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It has no IP address.
    NoAddress,
    /// Its link is down.
    LinkDown,
    /// None of its BFD sessions is up.
    SessionsDown,
}

/// The state of a TEP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// It is used.
    Healthy,
    /// It is used still; none of its BFD sessions is up.
    Suspect,
    /// It is not used.
    Faulty(Cause),
}

/// How a fault ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// What was lost, an address or a link, is there again.
    Own,
    /// A try of the auto-recovery found it working.
    Automatic,
    /// It works, and no TEP of the node was used.
    NoOther,
    /// Somebody asked for it.
    Manual,
    /// It was removed, or TEP high availability was switched off.
    Configuration,
}

/// What the caller of [`TepHealth`] is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A TEP is faulty: raise the alarm, and move what is bound to it.
    Faulty {
        /// The TEP.
        tep: TepId,
        /// Why.
        cause: Cause,
        /// When the auto-recovery tries it; `None` where it comes back on its own, or by hand only.
        retry: Option<Timestamp>,
    },
    /// The auto-recovery found that a TEP does not work yet.
    RecoveryFailed {
        /// The TEP.
        tep: TepId,
        /// When it is tried again.
        retry: Timestamp,
    },
    /// A TEP is no longer faulty: clear the alarm. It can be used, unless it was removed.
    Recovered {
        /// The TEP.
        tep: TepId,
        /// How.
        recovery: Recovery,
    },
    /// All TEPs of the node are faulty and none works from now on, or one does again. For an alarm; comes after what led to it.
    Isolated(bool),
}

/// A TEP for people and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TepView {
    /// The TEP.
    pub tep: TepId,
    /// Its state.
    pub health: Health,
    /// When it came to that state.
    pub since: Timestamp,
    /// What is known of it.
    pub inputs: TepInputs,
    /// It has what it needs; if it is faulty all the same it waits for its recovery.
    pub works: bool,
    /// When the auto-recovery tries it.
    pub retry: Option<Timestamp>,
    /// How long it waited last, or waits now, for the auto-recovery; `None` if the next fault counts as the first.
    pub backoff: Option<Duration>,
    /// Times that it was faulty.
    pub faults: u64,
}

impl TepView {
    /// The TEP is used.
    pub const fn is_usable(&self) -> bool {
        !matches!(self.health, Health::Faulty(_))
    }
}
