//! The control socket of a node: what can be asked of `sluiced`, what it answers, and a client.
//!
//! A Unix stream socket. The client sends one [`Request`] as a line of JSON, the node answers with one [`Reply`] as a line of JSON, and either side
//! may then close or go on. Field names are those of the node CLI. Used by `sluice-node` (server), `sluice-cli` and the lab (clients);
//! knows nothing of packets.

#![forbid(unsafe_code)]

mod answer;
mod availability;
mod client;
mod request;
mod uplinks;

pub use answer::*;
pub use availability::*;
pub use client::{
    Client, ClientError, DEFAULT_TIMEOUT, RequestsEnd, default_socket, is_alive, run_directory,
};
pub use request::*;
pub use uplinks::*;
