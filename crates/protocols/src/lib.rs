//! Protocol state machines of a node, free of input, output, clocks and threads.
//!
//! Each machine is a value that is told what happened and when: a frame came in, a link went down, a moment passed.
//! What is to be done comes out of a queue of actions. So one thread of the node can run them all beside the data
//! path, and tests and simulations can run hours of protocol in milliseconds, the same way every time.
//!
//! ```text
//!  frames, link states, configuration ─┐                 ┌─ frames to send
//!  packets that wait for something ────┼→ state machine ─┼─ what changed
//!  the time ───────────────────────────┘                 └─ packets to go on, or to discard
//! ```
//!
//! | module | protocol |
//! |---|---|
//! | [`bfd`] | bidirectional forwarding detection (RFC 5880, RFC 5881) |
//! | [`damping`] | keeps links that flap out of use until they are quiet |
//! | [`lacp`] | link aggregation: LACP and the marker responder (IEEE 802.1AX-2014) |
//! | [`neighbor`] | address resolution: ARP (RFC 826) and neighbour discovery (RFC 4861) |
//! | [`tep_health`] | TEP high availability: faults of TEPs, and when they are trusted again |
//!
//! The crate knows packet formats and nothing of the data path, the configuration document, or DPDK.

#![forbid(unsafe_code)]

pub mod bfd;
pub mod damping;
pub mod lacp;
pub mod neighbor;
mod random;
mod rate;
mod refusals;
pub mod tep_health;
mod time;

pub use time::Timestamp;
