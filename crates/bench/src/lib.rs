//! `sluice bench`: how fast a node forwards, alone and beside its peers.
//!
//! ```text
//!   bench (sleeps) ──JSON lines──▶ sluice-generator, core 0 ══ 2 × memif ══ sluiced, core 1        (or Open vSwitch, or an echo)
//!        └────────control socket / ovs-appctl: cycles, hits, drops───────────────┘
//! ```
//!
//! This crate starts the processes, gives the orders and reads the counters; packets pass only through the generator and what it
//! measures. It knows nothing of DPDK, so that `sluice` mounts [`BenchArguments`] without linking it. What it shares with the generator
//! (`sluice-generator`) is the crate `sluice-trial`.
//!
//! ```text
//!   command ─▶ session ─▶ scenario ─▶ subject, device ─▶ measure ─▶ generator      searches over trials of what is measured
//!                            └──────▶ report ◀──────────────┘                      which knows none of the others
//! ```

#![forbid(unsafe_code)]

mod arguments;
mod bench;
pub mod command;
mod device;
mod document;
pub mod environment;
mod error;
pub mod frame_sizes;
mod generator;
pub mod line_rate;
mod machine;
mod measure;
mod process;
mod profile;
pub mod report;
mod scenario;
pub mod search;
mod session;
mod stored;
mod subject;

pub use command::{BenchArguments, run};
pub use error::{BenchError, Result};
