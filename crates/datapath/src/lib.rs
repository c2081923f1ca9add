//! The engine: batches of packets through parse, flow cache, logical pipeline and rewrite.
//!
//! ```text
//! frames ─→ parse ─→ flow_cache ──hit─→ rewrite ─→ Transmit
//!                        └─miss─→ pipeline (decide) ─→ rewrite, cached
//!                                     └─→ respond (ARP, ND, ICMP), replicate, punt, drop
//! ```
//!
//! No I/O, no threads, no clock: buffers, time and the transmit side are arguments ([`buffer`], [`time`]). A [`snapshot::Snapshot`] is
//! compiled from a plan of `sluice-intent`; an [`engine::Engine`] belongs to one worker. Sits right of `wire` and `intent`; `sluice-node`
//! drives it with DPDK's packets.
//!
//! Limits: 65,536 rewrites and 16,777,216 flows a worker; outer packets must come whole and with at least
//! [`buffer::HEADROOM`] bytes of headroom.

#![deny(unsafe_code)]

pub mod buffer;
pub mod counters;
pub mod drops;
pub mod engine;
pub mod flow;
pub mod flow_cache;
pub mod link_hash;
mod lpm;
pub mod neighbor;
mod parse;
mod pipeline;
mod prefetch;
pub mod profile;
pub mod punt;
mod respond;
mod rewrite;
pub mod snapshot;
mod tep_load;
pub mod time;
pub mod token_bucket;
pub mod trace;
