//! A worker's transmit side: frames by port until a batch is full or the loop ends, punted packets within their limits, and copies for a
//! running capture.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrayvec::ArrayVec;
use rtrb::Producer;
use sluice_datapath::buffer::{BATCH, Transmit};
use sluice_datapath::drops::DropReason;
use sluice_datapath::profile::{Profile, Stage, Unprofiled};
use sluice_datapath::punt::{Entry, Punt, PuntKind};
use sluice_dpdk::{Mbuf, Mempool, TxQueue, cycles};
use sluice_intent::plan::PortIndex;

use super::logical_ports::{LogicalPorts, Owner};
use super::message::{Capture, Captured, Punted};
use super::punt_limits::{PuntLimits, may_be_answer};
use super::{CycleClock, WorkerCounters};

/// One port's transmit queue, with the frames that wait for it.
#[derive(Default)]
pub(crate) struct PortIo {
    /// None until the worker is given it.
    pub(crate) queue: Option<TxQueue>,
    pub(crate) waiting: ArrayVec<Mbuf, BATCH>,
}

/// A worker's transmit side, see the [module](self), and what it tells of its stages.
pub(crate) struct WorkerIo<P = Unprofiled> {
    pub(crate) profile: P,
    ports: Vec<PortIo>,
    logical: Box<LogicalPorts>,
    /// Ports with frames waiting, one bit each.
    touched: u32,
    /// Ports whose link the control thread last saw down, one bit each.
    links_down: Arc<AtomicU32>,
    discarded: ArrayVec<Mbuf, BATCH>,
    pool: Mempool,
    punts: Producer<Punted>,
    /// BFD and LACP have a ring of their own, so that nothing else can be in their way.
    bfd: Producer<Punted>,
    limits: PuntLimits,
    clock: CycleClock,
    capture: Option<Capture>,
    counters: Arc<WorkerCounters>,
}

impl WorkerIo {
    /// Without a profile; `ports` in the order of the plan's. The rings are that of BFD and LACP and, before it, that of all other packets.
    pub(crate) fn new(
        ports: Vec<PortIo>,
        logical: Box<LogicalPorts>,
        links_down: Arc<AtomicU32>,
        pool: Mempool,
        [punts, bfd]: [Producer<Punted>; 2],
        clock: CycleClock,
        counters: Arc<WorkerCounters>,
    ) -> Self {
        let limits = PuntLimits::new(ports.len());
        Self {
            profile: Unprofiled,
            ports,
            logical,
            links_down,
            touched: 0,
            discarded: ArrayVec::new(),
            pool,
            punts,
            bfd,
            limits,
            clock,
            capture: None,
            counters,
        }
    }
}

impl<P: Profile> WorkerIo<P> {
    /// The same with another profile, and the one that it had.
    pub(crate) fn with_profile<Q>(self, profile: Q) -> (WorkerIo<Q>, P) {
        let Self {
            profile: old,
            ports,
            logical,
            touched,
            links_down,
            discarded,
            pool,
            punts,
            bfd,
            limits,
            clock,
            capture,
            counters,
        } = self;
        let io = WorkerIo {
            profile,
            ports,
            logical,
            touched,
            links_down,
            discarded,
            pool,
            punts,
            bfd,
            limits,
            clock,
            capture,
            counters,
        };
        (io, old)
    }

    /// Takes other logical ports, and leaves those that it had.
    pub(crate) fn exchange_logical_ports(&mut self, logical: &mut Box<LogicalPorts>) {
        std::mem::swap(&mut self.logical, logical);
    }

    /// Whether what a physical port receives is to go through [`Self::take_in`].
    pub(crate) fn is_member(&self, port: PortIndex) -> bool {
        self.logical.is_member(port)
    }

    /// Takes what a member of logical ports received, and returns what is the engine's, with the port that it is to count as received on.
    #[inline]
    pub(crate) fn take_in(&mut self, port: PortIndex, packet: Mbuf) -> Option<(PortIndex, Mbuf)> {
        match self.logical.owner(port, packet.data()) {
            Owner::Port(owner) => Some((owner, packet)),
            Owner::SlowProtocols => {
                let punt = Punt { kind: PuntKind::SlowProtocols, entry: Entry::Port(port) };
                self.counters.engine.received.add(1);
                self.counters.engine.punts[punt.kind.index()].add(1);
                self.punt(punt, packet);
                None
            }
            Owner::Nobody => {
                self.counters.engine.received.add(1);
                self.counters.engine.count_drop(DropReason::InactiveLink);
                self.discard(DropReason::InactiveLink, packet);
                None
            }
        }
    }

    /// Has a frame wait for a physical port.
    #[inline(always)]
    fn enqueue(&mut self, port: usize, buffer: Mbuf) -> Result<(), Mbuf> {
        let Some(io) = self.ports.get_mut(port) else { return Err(buffer) };
        io.waiting.push(buffer);
        self.touched |= 1 << port;
        if io.waiting.is_full() {
            self.send_waiting(port);
        }
        Ok(())
    }

    /// Sends through a member of a logical port.
    #[inline(never)]
    fn transmit_logical(&mut self, port: PortIndex, buffer: Mbuf) {
        let buffer = match self.logical.member(port, buffer.data()) {
            Some(member) => match self.enqueue(member, buffer) {
                Ok(()) => return,
                Err(buffer) => buffer,
            },
            None => buffer,
        };
        self.counters.engine.count_drop(DropReason::PortDown);
        self.discard(DropReason::PortDown, buffer);
    }

    /// Sends a frame of the control thread.
    pub(crate) fn send(&mut self, port: PortIndex, packet: Mbuf) {
        self.transmit(port, packet);
    }

    /// Sends by this queue.
    pub(crate) fn set_queue(&mut self, port: PortIndex, queue: TxQueue) {
        self.flush();
        if let Some(io) = self.ports.get_mut(port.index()) {
            io.queue = Some(queue);
        }
    }

    /// The queues of all ports that have one.
    pub(crate) fn into_queues(self) -> Vec<(PortIndex, TxQueue)> {
        let ports = self.ports.into_iter().enumerate();
        ports.filter_map(|(number, io)| Some((PortIndex(number as u16), io.queue?))).collect()
    }

    /// Starts, replaces or ends a capture.
    pub(crate) fn set_capture(&mut self, capture: Option<Capture>) -> Option<Capture> {
        std::mem::replace(&mut self.capture, capture)
    }

    /// Copies received frames if they are being captured.
    #[inline]
    pub(crate) fn capture_received(&mut self, port: PortIndex, batch: &[Mbuf]) {
        if let Some(capture) = &mut self.capture
            && capture.port == port
            && capture.received
        {
            batch.iter().for_each(|packet| keep(capture, copy(&self.pool, packet)));
        }
    }

    /// Sends what is waiting and frees what was discarded.
    #[inline]
    pub(crate) fn flush(&mut self) {
        while self.touched != 0 {
            let port = self.touched.trailing_zeros() as usize;
            self.touched &= self.touched - 1;
            self.send_waiting(port);
        }
        if !self.discarded.is_empty() {
            self.free_discarded();
        }
    }

    #[inline]
    fn free_discarded(&mut self) {
        let outer = self.profile.enter(Stage::Free, self.discarded.len());
        Mbuf::free_bulk(&mut self.discarded);
        self.profile.enter(outer, 0);
    }

    #[inline]
    fn send_waiting(&mut self, port: usize) {
        let Some(io) = self.ports.get_mut(port) else { return };
        let offered = io.waiting.len();
        // All that waited went when the batch was full.
        if offered == 0 {
            return;
        }
        let outer = self.profile.enter(Stage::Transmit, 0);
        let capture =
            self.capture.as_mut().filter(|capture| capture.port.index() == port && capture.transmitted);
        let sent = match (&mut io.queue, capture) {
            (Some(queue), None) => queue.transmit(&mut io.waiting),
            (Some(queue), Some(capture)) => transmit_captured(queue, &mut io.waiting, capture, &self.pool),
            (None, _) => 0,
        };
        self.counters.transmitted.add(sent as u64);
        if sent < offered {
            self.drop_unsent(port, offered - sent);
        }
        self.profile.amend(Stage::Transmit, sent);
        self.profile.enter(outer, 0);
    }

    /// Drops what waits for a port, which took all but `unsent` packets: those that are not there any more were none that it can send.
    #[cold]
    fn drop_unsent(&mut self, port: usize, unsent: usize) {
        let Some(io) = self.ports.get_mut(port) else { return };
        let down = io.queue.is_none() || self.links_down.load(Ordering::Relaxed) & (1 << port) != 0;
        let reason = if down { DropReason::PortDown } else { DropReason::TransmitRingFull };
        (0..io.waiting.len()).for_each(|_| self.counters.engine.count_drop(reason));
        (io.waiting.len()..unsent).for_each(|_| self.counters.engine.count_drop(DropReason::Unsendable));
        if let Some(drops) = self.counters.transmit_drops.get(port) {
            drops.add(unsent as u64);
        }
        Mbuf::free_bulk(&mut io.waiting);
    }
}

/// Sends frames and copies those that the queue took into the capture's ring.
#[cold]
fn transmit_captured(
    queue: &mut TxQueue,
    waiting: &mut ArrayVec<Mbuf, BATCH>,
    capture: &mut Capture,
    pool: &Mempool,
) -> usize {
    let mut copies: ArrayVec<Option<Captured>, BATCH> =
        waiting.iter().map(|packet| copy(pool, packet)).collect();
    let sent = queue.transmit(waiting);
    if sent + waiting.len() < copies.len() {
        // Some were none that the queue can send, and it does not tell which.
        capture.missed.add(sent as u64);
        return sent;
    }
    copies.truncate(sent);
    copies.into_iter().for_each(|copied| keep(capture, copied));
    sent
}

/// A copy of a frame; none if there is no memory for it.
fn copy(pool: &Mempool, packet: &Mbuf) -> Option<Captured> {
    let length = packet.len() as u32;
    packet.duplicate(pool).map(|frame| Captured { cycles: cycles(), length, frame })
}

/// Puts a copy into the capture's ring.
#[cold]
fn keep(capture: &mut Capture, copied: Option<Captured>) {
    if copied.is_none_or(|captured| capture.frames.push(captured).is_err()) {
        capture.missed.add(1);
    }
}

impl<P: Profile> Profile for WorkerIo<P> {
    #[inline(always)]
    fn enter(&mut self, stage: Stage, packets: usize) -> Stage {
        self.profile.enter(stage, packets)
    }

    #[inline(always)]
    fn amend(&mut self, stage: Stage, packets: usize) {
        self.profile.amend(stage, packets);
    }

    #[inline(always)]
    fn end_loop(&mut self, work: bool, cycles: u64) {
        self.profile.end_loop(work, cycles);
    }
}

impl<P: Profile> Transmit<Mbuf> for WorkerIo<P> {
    #[inline]
    fn transmit(&mut self, port: PortIndex, buffer: Mbuf) {
        // Logical ports are behind the physical ones.
        if let Err(buffer) = self.enqueue(port.index(), buffer) {
            self.transmit_logical(port, buffer);
        }
    }

    fn punt(&mut self, punt: Punt, buffer: Mbuf) {
        let ring = match punt.kind {
            PuntKind::Bfd | PuntKind::SlowProtocols => &mut self.bfd,
            _ => &mut self.punts,
        };
        let reason = if !self.limits.allow(&punt, buffer.data(), self.clock.now()) {
            DropReason::PuntLimit
        } else if ring.is_full() {
            DropReason::PuntRingFull
        } else {
            let generation = self.counters.generation.load(Ordering::Relaxed);
            drop(ring.push(Punted { generation, punt, packet: buffer }));
            return;
        };
        if may_be_answer(punt.kind, buffer.data()) {
            self.counters.answers_shed.add(1);
        }
        self.counters.engine.count_drop(reason);
        self.discard(reason, buffer);
    }

    #[inline]
    fn discard(&mut self, _: DropReason, buffer: Mbuf) {
        self.discarded.push(buffer);
        if self.discarded.is_full() {
            self.free_discarded();
        }
    }

    fn allocate(&mut self) -> Option<Mbuf> {
        self.pool.allocate()
    }
}
