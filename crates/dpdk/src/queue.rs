//! The receive and transmit queues of a started port: one owner each, one call a burst.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::ffi::{self, RawMempool};
use crate::port::Started;
use crate::Mbuf;

/// A receive queue. It may move to another thread but not be shared; the port cannot stop while it exists.
#[derive(Debug)]
pub struct RxQueue {
    port: u16,
    queue: u16,
    _started: Arc<Started>,
    _not_sync: PhantomData<Cell<()>>,
}

/// A transmit queue. It may move to another thread but not be shared; the port cannot stop while it exists.
#[derive(Debug)]
pub struct TxQueue {
    port: u16,
    queue: u16,
    /// The pool that all packets must come from, if the driver gives buffers back without looking.
    fast_free_pool: Option<*const RawMempool>,
    unfit: u64,
    _started: Arc<Started>,
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: a queue may be polled from any thread, one at a time; the pointer is only compared, never followed.
unsafe impl Send for TxQueue {}

impl RxQueue {
    pub(crate) fn new(port: u16, queue: u16, started: Arc<Started>) -> Self {
        Self { port, queue, _started: started, _not_sync: PhantomData }
    }

    /// DPDK's number of the port, as in [`Mbuf::port`].
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Number of the queue within its port.
    pub fn queue(&self) -> u16 {
        self.queue
    }

    /// Appends waiting packets to `batch`, as many as it has room for, and returns how many. Never waits.
    #[inline]
    pub fn receive<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>) -> usize {
        let filled = batch.len();
        let room = (N - filled).min(usize::from(u16::MAX)) as u16;
        if room == 0 {
            return 0;
        }
        // SAFETY: the array has room for `room` more pointers; the driver writes those it returns, each a packet whose only owner
        // we become; the port runs while `_started` exists, and `&mut self` makes this thread the queue's only one.
        unsafe {
            let spare = batch.as_mut_ptr().add(filled);
            let received = usize::from(ffi::sluice_receive(self.port, self.queue, spare.cast(), room));
            batch.set_len(filled + received);
            received
        }
    }
}

impl TxQueue {
    pub(crate) fn new(port: u16, queue: u16, fast_free_pool: Option<*const RawMempool>, started: Arc<Started>) -> Self {
        Self { port, queue, fast_free_pool, unfit: 0, _started: started, _not_sync: PhantomData }
    }

    /// DPDK's number of the port, as in [`Mbuf::port`].
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Number of the queue within its port.
    pub fn queue(&self) -> u16 {
        self.queue
    }

    /// Packets dropped because they broke the promise of [`crate::PortConfig::one_pool`]: of another pool or in several segments.
    pub fn unfit_packets(&self) -> u64 {
        self.unfit
    }

    /// Sends the packets in front of `batch` as far as the queue has room, and returns how many. Those that are left move to the
    /// front, in order: the caller tries again or drops them ([`Mbuf::free_bulk`]).
    #[inline]
    pub fn transmit<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>) -> usize {
        if let Some(pool) = self.fast_free_pool
            && !batch.iter().all(|mbuf| mbuf.is_plain_mbuf_of(pool))
        {
            self.drop_unfit(batch, pool);
        }
        let count = batch.len();
        if count == 0 {
            return 0;
        }
        let offered = count.min(usize::from(u16::MAX)) as u16;
        // SAFETY: the first `offered` elements are packets that we own. The driver becomes the owner of those it says it sent; it
        // is not trusted to say a number in range. The rest moves to the front bit by bit, so that each has one owner again.
        // Should a driver panic the process ends, since panics do not cross from C.
        unsafe {
            let first = batch.as_mut_ptr();
            let sent = usize::from(ffi::sluice_transmit(self.port, self.queue, first.cast(), offered)).min(count);
            batch.set_len(count - sent);
            if sent < count {
                std::ptr::copy(first.add(sent), first, count - sent);
            }
            sent
        }
    }

    #[cold]
    fn drop_unfit<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>, pool: *const RawMempool) {
        let before = batch.len();
        batch.retain(|mbuf| mbuf.is_plain_mbuf_of(pool));
        self.unfit += (before - batch.len()) as u64;
    }
}
