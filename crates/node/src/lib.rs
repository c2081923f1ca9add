//! `sluiced`: one node of the overlay.
//!
//! ```text
//! main ─→ control::run ── control thread: documents, neighbours, statistics, control socket, signals
//!            │ commands ↓   ↑ punted packets, retired tables      (rings, one pair for each worker)
//!            └─ dataplane: ports and workers ── worker threads: receive → engine → transmit
//! ```
//!
//! [`dataplane`] opens the ports of a plan and starts the workers; [`worker`] is what runs on their cores; [`control`] is everything else. The
//! EAL is started once in the life of the process, ports and workers as often as the data plane is restarted.

#![forbid(unsafe_code)]

pub mod control;
mod dataplane;
mod worker;
