//! The receive and transmit queues of a started port: one owner each, one call a burst.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::ffi::{self, RawMempool};
use crate::memif::{Receiver, Running, Transmitter};
use crate::port::Started;
use crate::{Mbuf, Mempool};

/// A receive queue. It may move to another thread but not be shared; the port cannot stop while it exists.
#[derive(Debug)]
pub struct RxQueue {
    number: u16,
    source: Source,
}

/// A transmit queue. It may move to another thread but not be shared; the port cannot stop while it exists.
#[derive(Debug)]
pub struct TxQueue {
    number: u16,
    sink: Sink,
}

#[derive(Debug)]
enum Source {
    Device(DeviceRxQueue),
    Memif { receiver: Box<Receiver>, _running: Arc<Running> },
}

#[derive(Debug)]
enum Sink {
    Device(DeviceTxQueue),
    Memif { transmitter: Box<Transmitter>, _running: Arc<Running> },
}

impl RxQueue {
    pub(crate) fn of_device(queue: DeviceRxQueue) -> Self {
        Self { number: queue.queue, source: Source::Device(queue) }
    }

    pub(crate) fn of_memif(number: u16, receiver: Receiver, running: Arc<Running>) -> Self {
        Self { number, source: Source::Memif { receiver: Box::new(receiver), _running: running } }
    }

    /// Number of the queue within its port.
    pub fn queue(&self) -> u16 {
        self.number
    }

    /// Packets lost because the pool that they were to be copied into was empty.
    pub fn uncopied_packets(&self) -> u64 {
        match &self.source {
            Source::Device(queue) => queue.uncopied,
            Source::Memif { .. } => 0,
        }
    }

    /// Appends waiting packets to `batch`, as many as it has room for, and returns how many. Never waits.
    #[inline]
    pub fn receive<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>) -> usize {
        match &mut self.source {
            Source::Device(queue) => queue.receive(batch),
            Source::Memif { receiver, .. } => receiver.receive(batch),
        }
    }
}

impl TxQueue {
    pub(crate) fn of_device(queue: DeviceTxQueue) -> Self {
        Self { number: queue.queue, sink: Sink::Device(queue) }
    }

    pub(crate) fn of_memif(number: u16, transmitter: Transmitter, running: Arc<Running>) -> Self {
        Self { number, sink: Sink::Memif { transmitter: Box::new(transmitter), _running: running } }
    }

    /// Number of the queue within its port.
    pub fn queue(&self) -> u16 {
        self.number
    }

    /// Packets dropped because they were none that the port can send: of another pool or in several segments with
    /// [`crate::PortConfig::one_pool`]; in several segments with [`crate::MemifSettings::zero_copy`]; longer than a whole ring of shared memory.
    pub fn unfit_packets(&self) -> u64 {
        match &self.sink {
            Sink::Device(queue) => queue.unfit,
            Sink::Memif { transmitter, .. } => transmitter.unfit_packets(),
        }
    }

    /// Sends the packets in front of `batch` as far as the queue has room, and returns how many. Those that are left move to the
    /// front, in order: the caller tries again or drops them ([`Mbuf::free_bulk`]).
    #[inline]
    pub fn transmit<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>) -> usize {
        match &mut self.sink {
            Sink::Device(queue) => queue.transmit(batch),
            Sink::Memif { transmitter, .. } => transmitter.transmit(batch),
        }
    }
}

/// A receive queue of a device.
#[derive(Debug)]
pub(crate) struct DeviceRxQueue {
    port: u16,
    queue: u16,
    /// Pool that packets are copied into, where those that the driver receives are not to leave it.
    copied_into: Option<Mempool>,
    uncopied: u64,
    _started: Arc<Started>,
    _not_sync: PhantomData<Cell<()>>,
}

/// A transmit queue of a device.
#[derive(Debug)]
pub(crate) struct DeviceTxQueue {
    port: u16,
    queue: u16,
    /// The pool that all packets must come from: where the driver gives buffers back without looking, or the peer reads them itself.
    only_pool: Option<*const RawMempool>,
    unfit: u64,
    _started: Arc<Started>,
    _not_sync: PhantomData<Cell<()>>,
}

// SAFETY: a queue may be polled from any thread, one at a time; the pointer is only compared, never followed.
unsafe impl Send for DeviceTxQueue {}

impl DeviceRxQueue {
    pub(crate) fn new(port: u16, queue: u16, copied_into: Option<Mempool>, started: Arc<Started>) -> Self {
        Self { port, queue, copied_into, uncopied: 0, _started: started, _not_sync: PhantomData }
    }

    /// Appends waiting packets to `batch`, as many as it has room for, and returns how many. Never waits.
    #[inline]
    fn receive<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>) -> usize {
        let room = N - batch.len();
        if self.copied_into.is_some() {
            self.receive_copies(batch, room)
        } else {
            self.receive_originals(batch, room)
        }
    }

    /// Receives from a driver whose packets are not to leave it.
    #[cold]
    fn receive_copies<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>, room: usize) -> usize {
        let mut originals: ArrayVec<Mbuf, N> = ArrayVec::new();
        self.receive_originals(&mut originals, room);
        let filled = batch.len();
        for original in &originals {
            match self.copied_into.as_ref().and_then(|pool| original.duplicate(pool)) {
                Some(copy) => batch.push(copy),
                None => self.uncopied += 1,
            }
        }
        Mbuf::free_bulk(&mut originals);
        batch.len() - filled
    }

    /// `room` is what the batch has, at most.
    #[inline]
    fn receive_originals<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>, room: usize) -> usize {
        let filled = batch.len();
        let room = room.min(usize::from(u16::MAX)) as u16;
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

impl DeviceTxQueue {
    pub(crate) fn new(
        port: u16,
        queue: u16,
        only_pool: Option<*const RawMempool>,
        started: Arc<Started>,
    ) -> Self {
        Self { port, queue, only_pool, unfit: 0, _started: started, _not_sync: PhantomData }
    }

    /// Sends the packets in front of `batch` as far as the queue has room, and returns how many. Those that are left move to the
    /// front, in order: the caller tries again or drops them ([`Mbuf::free_bulk`]).
    #[inline]
    fn transmit<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>) -> usize {
        if let Some(pool) = self.only_pool
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
            let sent =
                usize::from(ffi::sluice_transmit(self.port, self.queue, first.cast(), offered)).min(count);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Eal, EalOptions, HugePages, Mempool, MempoolConfig, Port, PortConfig, PortKind};

    /// No virtual driver offers MBUF_FAST_FREE: the check that makes it safe is tried on a queue that claims to have it.
    #[test]
    fn a_queue_for_one_pool_sends_only_plain_packets_of_that_pool() {
        let huge_pages = HugePages::Off;
        let eal = Eal::init(EalOptions { memory_mebibytes: 64, huge_pages, ..Default::default() }).unwrap();
        let config = MempoolConfig { count: 255, cache: 0, ..Default::default() };
        let own = Mempool::new(&eal, "own", config.clone()).unwrap();
        let other = Mempool::new(&eal, "other", config).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kind = PortKind::Pcap { receive: None, transmit: folder.path().join("out.pcap") };
        let mut port = Port::new(&eal, "file", &kind).unwrap();
        port.configure(&PortConfig { one_pool: true, ..PortConfig::new(own.clone()) }).unwrap();
        let mut queues = port.start().unwrap();
        let Sink::Device(device) = &mut queues.transmit[0].sink else { unreachable!("a file is a device") };
        assert_eq!(device.only_pool, None, "the driver does not offer it");
        device.only_pool = Some(own.raw());

        let mut batch: ArrayVec<Mbuf, 8> = ArrayVec::new();
        let mut chain = own.allocate_with(b"chain").unwrap();
        chain.append(own.allocate_with(b"ed").unwrap()).unwrap();
        batch.extend([own.allocate_with(b"first").unwrap(), other.allocate_with(b"foreign").unwrap(), chain]);
        batch.push(own.allocate_with(b"second").unwrap());
        assert_eq!(queues.transmit[0].transmit(&mut batch), 2);
        assert_eq!((batch.len(), queues.transmit[0].unfit_packets()), (0, 2));
        assert_eq!(port.statistics().unwrap().transmitted_bytes, 11);
        assert_eq!(
            (own.in_use(), other.in_use()),
            (0, 0),
            "what was not sent was given back to its own pool"
        );
    }

    #[test]
    fn queues_and_packets_may_move_to_a_worker() {
        fn moves<T: Send>() {}
        moves::<RxQueue>();
        moves::<TxQueue>();
        moves::<Mbuf>();
    }
}
