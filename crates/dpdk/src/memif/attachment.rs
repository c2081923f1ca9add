//! What the control thread hands a queue for the time of one connection, and how it gets it back.
//!
//! ```text
//!   control thread ──Change::Attach, Change::Detach──▶ queue (any thread, at its next burst)
//!                  ◀──────────── Attachment ──────────
//! ```
//!
//! So a ring is never unmapped under the hands of a worker, and a worker never waits for the control thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};

use super::layout::Buffers;
use super::ring::Ring;

/// Changes that may wait for a queue: it is polled all the time, or nobody minds.
const CHANGES: usize = 4;

/// One queue's part of a connection.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) ring: Ring,
    /// Which side this is, and what it has to know of the buffers.
    pub(super) side: Side,
    /// Wakes a peer that sleeps.
    pub(super) events: OwnedFd,
}

/// Which side of the connection a queue is on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    /// The descriptors say where buffers are.
    Server,
    /// Every slot has its own buffer.
    Client(Buffers),
    /// Slots lead to packets in memory that the server sees.
    Lender,
}

/// What a queue is told.
#[derive(Debug)]
pub(super) enum Change {
    Attach(Box<Attachment>),
    Detach,
}

/// The control thread's end.
#[derive(Debug)]
pub(super) struct ToQueue {
    changes: Producer<Change>,
    returned: Consumer<Box<Attachment>>,
}

/// The queue's end.
#[derive(Debug)]
pub(super) struct FromControl {
    changes: Consumer<Change>,
    returned: Producer<Box<Attachment>>,
}

/// Both ends of the way to a queue.
pub(super) fn channel() -> (ToQueue, FromControl) {
    let (changes, taken) = RingBuffer::new(CHANGES);
    let (given_back, returned) = RingBuffer::new(CHANGES);
    (ToQueue { changes, returned }, FromControl { changes: taken, returned: given_back })
}

impl ToQueue {
    /// Frees what came back; whether the queue can be told of another connection and of its end.
    pub(super) fn is_ready(&mut self) -> bool {
        while self.returned.pop().is_ok() {}
        self.changes.slots() >= 2
    }

    /// Tells the queue of a connection. The caller has asked whether it can.
    pub(super) fn attach(&mut self, attachment: Attachment) {
        let _ = self.changes.push(Change::Attach(Box::new(attachment)));
    }

    /// Tells the queue that the connection is over.
    pub(super) fn detach(&mut self) {
        let _ = self.changes.push(Change::Detach);
        while self.returned.pop().is_ok() {}
    }
}

impl FromControl {
    /// What is new, if something is.
    #[inline(always)]
    pub(super) fn change(&mut self) -> Option<Change> {
        if self.changes.is_empty() { None } else { self.changes.pop().ok() }
    }

    /// Gives back what is not used any more.
    pub(super) fn give_back(&mut self, attachment: Box<Attachment>) {
        // Were there no room, it would be freed here: an unmapping in a worker, which harms nothing but its pace.
        let _ = self.returned.push(attachment);
    }
}

/// What a queue counts. Written by its owner only.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counters {
    pub(super) packets: Count,
    pub(super) bytes: Count,
    /// Packets that were no good: descriptors that lead nowhere, empty ones, ones that fit no ring.
    pub(super) errors: Count,
    /// Bursts, or packets, that had to wait for memory of the pool.
    pub(super) no_mbuf: Count,
}

/// A number that one thread writes and others read.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    #[inline(always)]
    pub(super) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a port and its queues know of the connection.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// Whether frames can pass.
    pub(super) up: AtomicBool,
    /// Whether the peer broke the rules of a ring.
    pub(super) broken: AtomicBool,
}

impl Status {
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire) && !self.broken.load(Ordering::Acquire)
    }
}

/// What of the status concerns a queue.
pub(super) type SharedStatus = Arc<Status>;
