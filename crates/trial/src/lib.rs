//! What a trial is: the part of `sluice bench` that the bench and its traffic generator share.
//!
//! ```text
//!   sluice-bench ──────▶ sluice-trial ◀────── sluice-generator
//!                          topology   the network that is measured: links, addresses, flows
//!                          traffic    frames that are sent, and what has to come back
//!                          ports      ports as they are named on a command line
//!                          message    orders and answers, a line of JSON each
//! ```
//!
//! Pure: no I/O, no clock, no DPDK, and nothing of how results are searched for or shown.

#![forbid(unsafe_code)]

pub mod message;
pub mod ports;
pub mod topology;
pub mod traffic;
