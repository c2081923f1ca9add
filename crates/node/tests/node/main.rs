//! Whole-node tests: the real `sluiced`, asked over its control socket and judged by what it does with frames.
//!
//! Nodes with pcap ports need no privileges. Nodes with ports on the kernel's interfaces run in a network namespace of their own, which
//! root makes for itself and an ordinary user through a user namespace; where neither is allowed the test says so. The tests' ends of the
//! interfaces are raw sockets ([`support::link`]), so that frames are judged by nothing that the node shares but `sluice-wire`.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod allocations;
mod apply;
mod bfd;
mod bfd_neighbors;
mod capture;
mod drops;
mod forwarding;
mod held_up;
mod lags;
mod lifecycle;
mod links;
mod memif;
mod mistakes;
mod neighbors;
mod profile;
mod punts;
mod recorded;
mod restart;
mod settings;
mod storm;
mod support;
mod swap;
mod tables;
mod tap;
mod tep_groups;
mod trace;
mod vlan;
mod workers;
