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
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::eventfd::EventFd;
use rtrb::{Consumer, Producer, RingBuffer};

use super::layout::Buffers;
use super::lent;
use super::ring::Ring;

/// Changes that may wait for a queue, and attachments that may wait to be freed: those of two connections. A queue that is not polled gets
/// no third.
const CHANGES: usize = 4;

/// One queue's part of a connection.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) ring: Ring,
    /// Which side this is, and what it has to know of the buffers.
    pub(super) side: Side,
    /// Wakes a peer that sleeps.
    pub(super) events: OwnedFd,
    /// Packets in the hands of the peer, where it is lent packet memory. They come back with the attachment, to be freed when the peer has
    /// had time to let go of them.
    pub(super) lent: lent::Slots,
    /// Number of the connection.
    pub(super) connection: u64,
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
    /// Attachments that have not come back.
    out: usize,
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
    (ToQueue { changes, returned, out: 0 }, FromControl { changes: taken, returned: given_back })
}

impl ToQueue {
    /// Frees what came back; whether the queue can be told of another connection and of its end.
    pub(super) fn is_ready(&mut self) -> bool {
        self.has_let_go();
        self.changes.slots() >= 2
    }

    /// Frees what came back; whether that is all.
    pub(super) fn has_let_go(&mut self) -> bool {
        while self.returned.pop().is_ok() {
            self.out -= 1;
        }
        self.out == 0
    }

    /// Tells the queue of a connection. The caller has asked whether it can.
    pub(super) fn attach(&mut self, attachment: Attachment) {
        self.out += usize::from(self.changes.push(Change::Attach(Box::new(attachment))).is_ok());
    }

    /// Tells the queue that the connection is over.
    pub(super) fn detach(&mut self) {
        let _ = self.changes.push(Change::Detach);
    }
}

impl FromControl {
    /// Whether something is new.
    #[inline(always)]
    pub(super) fn has_changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// What there is to use now, in place of what was used until now. Of a connection that is over already nothing is seen.
    #[cold]
    pub(super) fn follow(&mut self, mut link: Option<Box<Attachment>>) -> Option<Box<Attachment>> {
        while let Ok(change) = self.changes.pop() {
            let new = match change {
                Change::Attach(new) => Some(new),
                Change::Detach => None,
            };
            if let Some(old) = std::mem::replace(&mut link, new) {
                self.give_back(old);
            }
        }
        link
    }

    /// Gives back what is not used any more.
    #[cold]
    pub(super) fn give_back(&mut self, attachment: Box<Attachment>) {
        // There is room for as many as there can be; without a port they are freed here.
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
#[derive(Debug)]
pub(super) struct Status {
    /// Number of the connection over which frames can pass; 0 for none.
    up: AtomicU64,
    /// Number of the last connection whose peer broke the rules of a ring.
    broken: AtomicU64,
    /// Ends the control thread's sleep.
    wake: Arc<EventFd>,
}

impl Status {
    /// Of a port that has no connection.
    pub(super) fn new(wake: Arc<EventFd>) -> Self {
        Self { up: AtomicU64::new(0), broken: AtomicU64::new(0), wake }
    }

    /// Whether frames can pass.
    pub(super) fn is_up(&self) -> bool {
        let up = self.up.load(Ordering::Acquire);
        up != 0 && up != self.broken.load(Ordering::Acquire)
    }

    /// Whether the queues have the rings of a connection, or are about to have them.
    pub(super) fn is_attached(&self) -> bool {
        self.up.load(Ordering::Acquire) != 0
    }

    /// Frames can pass over this connection from now on.
    pub(super) fn set_up(&self, connection: u64) {
        self.up.store(connection, Ordering::Release);
    }

    /// No frames can pass from now on; whether they could.
    pub(super) fn set_down(&self) -> bool {
        self.up.swap(0, Ordering::AcqRel) != 0
    }

    /// Says that the peer of this connection broke the rules of a ring: the control thread will end it. Numbers of connections only grow, so
    /// that a queue which is late does not speak of a newer one.
    #[cold]
    pub(super) fn report_broken(&self, connection: u64) {
        if self.broken.fetch_max(connection, Ordering::AcqRel) < connection {
            let _ = self.wake.write(1);
        }
    }

    /// Whether this connection is to be ended.
    pub(super) fn is_broken(&self, connection: u64) -> bool {
        self.broken.load(Ordering::Acquire) == connection
    }
}

/// What of the status concerns a queue.
pub(super) type SharedStatus = Arc<Status>;
