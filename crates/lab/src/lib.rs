//! Labs: whole networks on one machine, in network namespaces, described by one YAML document.
//!
//! `sluice lab up` builds a topology: veth links with MTU and rate, addresses, routes and kernel parameters, plain Linux nodes
//! (routers, workloads) and nodes that run `sluiced`. The demonstration, the tests and the benches use it. It works as root, and
//! as an ordinary user inside a user namespace that it makes.
//!
//! Who does what:
//!
//! - [`topology`] reads and checks the document; nothing downstream checks again.
//! - `state` is the directory of one lab; `process` identifies processes by pid and start time.
//! - `init` is the lab's own PID 1, ancestor of everything in it; `namespaces`, `network` and `probe` build what it owns.
//! - [`lab`] is what others call: bring up, look, run something inside, take down.
//! - [`command`] is the command line over it, `demo` the scripted demonstration, `faults` what is broken on
//!   purpose and what that costs.
//!
//! The library starts *the running program* again with hidden arguments of the command, so a program that uses it mounts
//! [`LabArguments`] as its subcommand `lab` and calls [`run`] while it still has one thread.

#![forbid(unsafe_code)]

pub mod command;
mod demo;
mod error;
mod event;
mod exec;
mod faults;
mod init;
mod interrupt;
pub mod iperf;
pub mod lab;
mod namespaces;
mod network;
mod probe;
mod process;
mod program;
mod state;
pub mod topology;

pub use command::{LabArguments, run};
pub use error::{LabError, Result};
pub use lab::{Lab, UpOptions};
pub use process::ProcessIdentity;
pub use state::PortKind;
pub use topology::Topology;
