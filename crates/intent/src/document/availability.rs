//! How failures of tunnels and TEPs are noticed, and what follows from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Watches the tunnels between the node's TEPs and those of other nodes with BFD sessions, one for each pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Bfd {
    /// Milliseconds between two packets of a session that is up, and the least that are wanted of the other node.
    #[schemars(range(min = 50, max = 60_000))]
    pub interval_ms: u16,
    /// Packets in a row that may be missing before the session goes down.
    #[schemars(range(min = 2, max = 16))]
    pub multiplier: u8,
}

impl Default for Bfd {
    fn default() -> Self {
        Self { interval_ms: 1000, multiplier: 3 }
    }
}

/// Takes a TEP out of use when all of its BFD sessions are down, and puts it back into use with care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TepHighAvailability {
    /// Seconds for which all BFD sessions of a TEP are down before the TEP is faulty.
    #[schemars(range(max = 60))]
    pub failover_timeout_s: u16,
    /// Whether a TEP that was faulty for its sessions is tried again by itself.
    pub auto_recovery: bool,
    /// Seconds from the fault to the first try.
    #[schemars(range(min = 300, max = 3600))]
    pub auto_recovery_initial_wait_s: u16,
    /// Most seconds between two tries; the time doubles from one to the next.
    #[schemars(range(min = 3600, max = 86_400))]
    pub auto_recovery_max_backoff_s: u32,
}

impl Default for TepHighAvailability {
    fn default() -> Self {
        Self {
            failover_timeout_s: 5,
            auto_recovery: true,
            auto_recovery_initial_wait_s: 300,
            auto_recovery_max_backoff_s: 86_400,
        }
    }
}
