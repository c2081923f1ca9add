//! Packet I/O: DPDK's ports, packet memory, cores and clock behind a safe interface.
//!
//! ```text
//!   node, bench ──▶ Eal ─▶ Mempool ─▶ Port ─▶ RxQueue / TxQueue ──▶ Mbuf
//!                                                  │ one call a burst
//!                   csrc/shim.c (a few dozen C functions) ──▶ libdpdk and its poll-mode drivers
//! ```
//!
//! **Who touches what.** The control thread owns [`Eal`], [`Mempool`]s and [`Port`]s. Starting a port hands out its queues, and each
//! queue has exactly one owner, usually a worker thread that has called [`pin_to_core`] and holds a [`WorkerRegistration`]. A packet
//! is an [`Mbuf`], an owning pointer of 8 bytes; dropping it gives its memory back.
//!
//! **Why it is sound.** This is the only crate of the project with `unsafe`. What Rust reads of a packet is a mirror of the first 80
//! bytes of `struct rte_mbuf`, of which the C shim asserts every offset and size when it is compiled. A port cannot stop while
//! a queue of it is held elsewhere, and its memory pool outlives it.
//!
//! **Limits.** One EAL a process, once in its life. x86-64 Linux. A virtual machine behind vhost, and a memif peer
//! that is lent packet memory, are trusted with that memory. What a memif peer can do otherwise, [`memif`] says.

#![deny(unsafe_op_in_unsafe_fn)]

mod allocations;
mod cores;
mod eal;
mod engine_buffer;
mod error;
mod ffi;
mod huge_pages;
mod log;
mod mbuf;
mod memif;
mod mempool;
mod port;
mod queue;
mod statistics;

pub use allocations::{CountingAllocator, heap_allocations};
pub use cores::{CoreSet, WorkerRegistration, cycles, pin_to_core};
pub use eal::{Eal, EalOptions, HugePages, MemoryBacking};
pub use error::{CoreError, EalError, MbufError, MempoolError, PortError};
pub use log::{LogLevel, LogSink};
pub use mbuf::Mbuf;
pub use mempool::{Mempool, MempoolConfig};
pub use port::{MemifRole, MemifSettings, PciIdentity, Port, PortConfig, PortInfo, PortKind, Queues};
pub use queue::{RxQueue, TxQueue};
pub use statistics::{ExtendedStatistic, Link, Statistics};
