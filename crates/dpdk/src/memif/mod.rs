//! Shared-memory ports (memif): the driver for ports between processes of one machine, which speaks the memif protocol, version 2.0.
//!
//! ```text
//!   Port ──▶ port.rs ──▶ control.rs: one thread a process ──message.rs, conversation.rs──▶ the peer, over a Unix socket
//!                             │ attachment.rs: rings of a connection, to the queues and back
//!   worker ──▶ receiver.rs, transmitter.rs ──ring.rs, region.rs, copy.rs──▶ shared memory
//!                                          ├─lent.rs: without copying
//!                                          └─events.rs: wakes a peer that sleeps
//! ```
//!
//! **Why not DPDK's.** Between two cores what costs is not the copy but the lines that have to change cores. This driver asks for the lines
//! of a whole burst before it copies the first packet, for writing where they are to be written; lays buffers out so that lines leave the
//! caches of the core that wrote them ([`layout`]), in huge pages; and fills and frees packets without a call for each. In one run, 64-byte
//! frames in both directions through a node: 115 cycles a packet and 16.8 Mpps, where DPDK's net_memif on both sides took 161 and 12.1.
//! It also connects again by itself, as often as a peer comes and goes, without taking the queues from the workers.
//!
//! **Peers** are this driver, DPDK's net_memif, and whatever else speaks the protocol. What a peer writes is never trusted. Descriptors are
//! read once and checked against the memory that was agreed upon; one that leads nowhere costs its packet. A ring whose counters go back, or
//! further than it has slots, ends the connection. Packets are copied out before anybody looks at them, and not an octet more than a packet
//! is copied in. Memory is taken only if it cannot be cut off, event files only if they are some, and a client that says nothing is sent away.
//! What is left to a hostile peer: packet memory that is lent ([`crate::MemifSettings::zero_copy`]) is in its hands altogether, other packets
//! and the pool's own records included; a file in huge pages, which need not be sealed, can be cut off and ends this process when it is read;
//! and [`events`] tells what a peer that sleeps could do.
//!
//! **Who writes what.** The client writes a ring's head, the server its tail, each through one queue; descriptors belong to whose turn it is
//! by these counters. A queue has its rings alone, from the attachment until it gives it back; the control thread makes and frees them.
//! The status is written by the control thread, but for the number of a broken connection. Counters are written by their queue.
//!
//! **When a peer is gone** the queues let go at their next burst, and the control thread unmaps. Packets that were lent are freed then too, and
//! not before the peer was told and had time to let go of them: a port that lends waits for that when it stops, up to 100 ms.
//!
//! **Limits.** Ethernet mode, no secrets, no private headers; polled, no interrupts; 2¹⁴ slots, 256 queues each way, 65,535 octets a packet,
//! 4 GiB a port; sockets with a path. A queue that is not polled keeps the memory of two connections, and its port takes no third.

mod attachment;
mod control;
mod conversation;
mod copy;
mod events;
mod layout;
mod lent;
mod message;
mod port;
mod receiver;
mod region;
mod ring;
mod transmitter;

pub(crate) use port::{MemifPort, Running};
pub(crate) use receiver::Receiver;
pub(crate) use transmitter::Transmitter;

/// Most octets of a packet.
const LONGEST_PACKET: usize = u16::MAX as usize;

/// Why two sides do not come together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MemifError {
    /// A message of another length.
    #[error("a message of {0} octets came, and all have 128: the peer speaks another protocol")]
    MessageLength(usize),
    /// A message that this version does not have.
    #[error("a message of kind {0} came, which memif 2.0 does not have")]
    MessageKind(u16),
    /// A message that does not belong there.
    #[error("a message came that does not belong there: {0}")]
    Order(&'static str),
    /// Another version.
    #[error("the peer speaks memif {0:#06x}, and this is 0x0200 (2.0)")]
    Version(u16),
    /// A mode other than Ethernet.
    #[error("the peer asks for mode {0}, and this port carries Ethernet frames (mode 0)")]
    Mode(u8),
    /// No port of this number.
    #[error("no port has id {0} on this socket: both sides need the same id")]
    UnknownId(u32),
    /// The port has a peer.
    #[error("the port with id {0} is connected already")]
    Busy(u32),
    /// The port's queues have the last connection still.
    #[error("the queues of the port with id {0} have not let go of the last connection: nobody polls them")]
    Unpolled(u32),
    /// Rings that do not fit the queues of the port.
    #[error(
        "the client has {offered} rings {direction}, and this side has {queues} queues: give both sides as many queues"
    )]
    Queues {
        /// Rings of the client.
        offered: u16,
        /// Their direction, as `to the server`.
        direction: &'static str,
        /// Queues here.
        queues: u16,
    },
    /// A ring that is not inside its memory, or is none.
    #[error("ring {0} is not where the client says")]
    Ring(u16),
    /// Memory that cannot be used.
    #[error("region {index} cannot be used ({source})")]
    Region {
        /// Its number.
        index: u16,
        /// The system's reason.
        source: nix::errno::Errno,
    },
    /// Events that cannot be written to without waiting.
    #[error("the events of ring {index} cannot be used ({source}): they must be an event file")]
    Events {
        /// Number of the ring.
        index: u16,
        /// The system's reason.
        source: nix::errno::Errno,
    },
    /// Memory that could be taken away.
    #[error(
        "region {0} could be cut off while it is in use: its file is to be sealed against it, or in huge pages"
    )]
    Unsealed(u16),
    /// Private headers in front of packets.
    #[error(
        "ring {index} has private headers of {octets} octets in front of packets, and this side knows none"
    )]
    PrivateHeaders {
        /// Number of the ring.
        index: u16,
        /// Octets of each.
        octets: u16,
    },
    /// Files that do not belong to a message.
    #[error("a message came with {0} files, and at most one belongs to any")]
    Files(usize),
    /// A ring that breaks its rules.
    #[error("a ring says that more is in it than it has slots for, or less than before")]
    BrokenRing,
    /// More clients than can be heard at a time.
    #[error("too many clients have connected that do not say which port they are for")]
    Crowd,
    /// More than descriptors can tell.
    #[error("the rings and buffers take more than 4 GiB: use fewer queues, or smaller rings or buffers")]
    TooMuchMemory,
    /// Packet memory cannot be lent.
    #[error("packet memory is in no files that could be shared: start with huge pages, or let the port copy")]
    NoMemoryFiles,
    /// The peer ended it.
    #[error("the peer says: {0}")]
    Refused(String),
    /// The peer is gone, or the system refuses.
    #[error("the connection ended ({0})")]
    System(#[from] nix::errno::Errno),
    /// The server's socket cannot be reached.
    #[error("the server cannot be reached ({0})")]
    Unreachable(nix::errno::Errno),
    /// The peer does not answer.
    #[error("the peer does not answer")]
    Silent,
}
