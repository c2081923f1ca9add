//! Link aggregation: each rule of the protocol, what holds whatever happens, LAGs that talk to each other, and what an
//! independent program reads in the frames.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod conversation;
mod frames;
mod properties;
#[path = "../support/random.rs"]
mod random;
mod selection;
mod simulation;
mod support;
