//! BFD sessions: each rule of the protocol, what holds whatever happens, and tables of sessions that talk to each other.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod conversation;
mod intervals;
mod path_state;
mod properties;
#[path = "../support/random.rs"]
mod random;
mod simulation;
mod support;
