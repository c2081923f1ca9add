//! Receives: out of the slots of a ring into packets of a pool.
//!
//! A burst is two passes over up to 32 slots. The first reads descriptors and asks for the lines that they lead to, which the peer's core
//! has written and still holds; the second copies. So the core waits for one such line a burst and not for each.

use std::ptr::NonNull;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::LONGEST_PACKET;
use super::attachment::{Attachment, Counters, FromControl, SharedStatus, Side};
use super::copy::{self, Access, copy_lines, whole_lines};
use super::ring::NEXT;
use crate::ffi::{self, MbufHeader};
use crate::{Mbuf, Mempool};

/// Slots of a pass.
const CHUNK: usize = 32;

/// The receiving end of a queue of a memif.
#[derive(Debug)]
pub(crate) struct Receiver {
    control: FromControl,
    link: Option<Box<Attachment>>,
    /// Slots read since the connection began.
    next: u16,
    /// Slots filled since then, when last looked.
    filled: u16,
    pool: Mempool,
    /// Longest packet that fits a buffer of the pool.
    room: usize,
    counters: Arc<Counters>,
    status: SharedStatus,
}

/// What a slot that is out of the ordinary held.
enum Odd {
    Packet(Mbuf),
    Refused,
    /// The rest of it is not there yet.
    Unfinished,
    NoMemory,
}

impl Receiver {
    pub(super) fn new(
        control: FromControl,
        pool: Mempool,
        counters: Arc<Counters>,
        status: SharedStatus,
    ) -> Self {
        let room = usize::from(pool.config().data_room - ffi::HEADROOM);
        Self { control, link: None, next: 0, filled: 0, pool, room, counters, status }
    }

    /// Appends what waits, as far as the batch has room, and returns how many.
    #[inline]
    pub(crate) fn receive<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>) -> usize {
        if self.control.has_changed() {
            self.follow();
        }
        let already = batch.len();
        // SAFETY: the array has room for so many more; the first `received` of them are then packets that we own.
        unsafe {
            let spare = batch.as_mut_ptr().add(already);
            let received = self.receive_into(spare, N - already);
            batch.set_len(already + received);
            received
        }
    }

    /// Takes up a new connection, or lets go of one.
    #[cold]
    fn follow(&mut self) {
        self.link = self.control.follow(self.link.take());
        let Some(link) = &mut self.link else { return };
        (self.next, self.filled) = (0, 0);
        link.ring.mask_events();
        match link.side {
            Side::Server => link.ring.set_tail(0),
            Side::Client(_) => link.ring.set_head(link.ring.slots()),
            Side::Lender => link.lent.post(&link.ring, &self.pool, 0),
        }
    }

    /// Writes up to `room` packets to `to` and returns how many.
    ///
    /// # Safety
    /// There is room for so many at `to`.
    unsafe fn receive_into(&mut self, to: *mut Mbuf, room: usize) -> usize {
        let Some(mut link) = self.link.take() else { return 0 };
        if usize::from(self.filled.wrapping_sub(self.next)) < room && !self.look(&link) {
            self.status.report_broken(link.connection);
            self.control.give_back(link);
            return 0;
        }
        let first = self.next;
        let mut received = 0;
        while received < room && self.next != self.filled {
            let waiting = usize::from(self.filled.wrapping_sub(self.next));
            let count = waiting.min(room - received).min(CHUNK);
            // SAFETY: there is room for `count` more behind those received.
            let taken = unsafe {
                let to = to.add(received);
                match link.side {
                    Side::Lender => link.lent.take(&link.ring, self.next, to, count),
                    _ => self.copy_chunk(&link, to, count),
                }
            };
            self.next = self.next.wrapping_add(taken as u16);
            received += taken;
            if taken == count {
                continue;
            }
            match self.take_odd(&link) {
                Odd::Packet(packet) => {
                    // SAFETY: `received` is below `room`, since fewer than `count` were taken.
                    unsafe { to.add(received).write(packet) };
                    received += 1;
                }
                Odd::Refused => self.counters.errors.add(1),
                Odd::Unfinished => {
                    // The rest may have come since, however much there is room for.
                    let before = self.filled;
                    if !self.look(&link) {
                        self.status.report_broken(link.connection);
                    }
                    if self.filled == before {
                        break;
                    }
                }
                Odd::NoMemory => break,
            }
        }
        // A peer without a buffer sends nothing, so that it is the pool that has to be looked at.
        if self.next != first || (matches!(link.side, Side::Lender) && link.lent.is_short(self.next)) {
            self.give_slots_back(&mut link, first);
        }
        if self.next != first {
            self.counters.packets.add(received as u64);
            // SAFETY: the first `received` were written.
            let bytes = (0..received).map(|at| unsafe { (*to.add(at)).len() } as u64).sum();
            self.counters.bytes.add(bytes);
        }
        self.link = Some(link);
        received
    }

    /// Looks how far the peer is. One that is further than there are slots, or went back, broke the ring: nothing of it is to be believed.
    #[inline]
    fn look(&mut self, link: &Attachment) -> bool {
        let filled = if matches!(link.side, Side::Server) { link.ring.head() } else { link.ring.tail() };
        let new = filled.wrapping_sub(self.next);
        let sound = new <= link.ring.slots() && new >= self.filled.wrapping_sub(self.next);
        if sound {
            self.filled = filled;
        }
        sound
    }

    /// Copies the packets of `count` slots, or of as many as are of one slot, sound, and have memory to go to.
    ///
    /// # Safety
    /// There is room for `count` at `to`; `count` is at most [`CHUNK`].
    unsafe fn copy_chunk(&mut self, link: &Attachment, to: *mut Mbuf, count: usize) -> usize {
        let mut sources = [(NonNull::dangling(), 0usize); CHUNK];
        let mut sound = 0;
        for source in &mut sources[..count] {
            let descriptor = link.ring.descriptor(self.next.wrapping_add(sound as u16));
            let length = descriptor.length as usize;
            let lines = whole_lines(length);
            let region = link.ring.memory().get(usize::from(descriptor.region));
            let start = region.and_then(|region| region.at(descriptor.offset as usize, lines));
            let Some(start) =
                start.filter(|_| descriptor.flags & NEXT == 0 && lines <= self.room && length != 0)
            else {
                break;
            };
            copy::prefetch_first(start.as_ptr(), length, Access::Read);
            *source = (start, length);
            sound += 1;
        }
        // SAFETY: there is room for so many pointers.
        if sound == 0 || unsafe { ffi::sluice_mbuf_take(self.pool.raw(), to.cast(), sound as u32) } != 0 {
            self.counters.no_mbuf.add(u64::from(sound != 0));
            return 0;
        }
        for (at, (source, length)) in sources[..sound].iter().enumerate() {
            if let Some((next, length)) = sources[..sound].get(at + 1) {
                copy::prefetch_rest(next.as_ptr(), *length, Access::Read);
            }
            // SAFETY: the pool gave `sound` mbufs that nobody else has. Source and destination have the packet's length, rounded up to
            // whole lines: the first was checked above, the second is the room of the pool's buffers.
            unsafe {
                let header = to.cast::<*mut MbufHeader>().add(at).read();
                MbufHeader::begin(header, *length);
                let data = (*header).buffer.add(usize::from(ffi::HEADROOM));
                copy_lines(data, source.as_ptr(), *length);
            }
        }
        sound
    }

    /// Takes one packet that is in several slots, ends at the end of its region, does not fit one buffer, or is none.
    #[cold]
    fn take_odd(&mut self, link: &Attachment) -> Odd {
        let waiting = self.filled.wrapping_sub(self.next);
        let Some(slots) = (0..waiting)
            .find(|at| link.ring.descriptor(self.next.wrapping_add(*at)).flags & NEXT == 0)
            .map(|last| last + 1)
        else {
            if waiting < link.ring.slots() {
                return Odd::Unfinished;
            }
            // A packet without end.
            self.next = self.filled;
            return Odd::Refused;
        };
        let Some(first) = self.pool.allocate() else {
            self.counters.no_mbuf.add(1);
            return Odd::NoMemory;
        };
        let nothing = Gathered { packet: None, last: first, left: LONGEST_PACKET };
        let packet = (0..slots)
            .try_fold(nothing, |gathered, at| gathered.add(link, self.next.wrapping_add(at), &self.pool));
        self.next = self.next.wrapping_add(slots);
        match packet.and_then(Gathered::finish) {
            Some(packet) if !packet.is_empty() => Odd::Packet(packet),
            _ => Odd::Refused,
        }
    }

    /// Gives the slots from `first` on back to the peer.
    #[inline]
    fn give_slots_back(&mut self, link: &mut Attachment, first: u16) {
        match link.side {
            Side::Server => link.ring.set_tail(self.next),
            Side::Client(buffers) => {
                let read = self.next.wrapping_sub(first);
                for at in 0..read {
                    link.ring.fill(first.wrapping_add(at), 0, 0, buffers.length);
                }
                link.ring.set_head(self.next.wrapping_add(link.ring.slots()));
            }
            Side::Lender => link.lent.post(&link.ring, &self.pool, self.next),
        }
    }
}

/// A packet that is put together out of several slots.
struct Gathered {
    packet: Option<Mbuf>,
    last: Mbuf,
    /// Octets that it may still grow: so no peer takes more of a pool than a packet needs.
    left: usize,
}

impl Gathered {
    /// Adds what is in a slot, if its descriptor leads anywhere, the packet stays as short as packets are, and memory suffices.
    fn add(mut self, link: &Attachment, slot: u16, pool: &Mempool) -> Option<Self> {
        let descriptor = link.ring.descriptor(slot);
        self.left = self.left.checked_sub(descriptor.length as usize)?;
        let region = link.ring.memory().get(usize::from(descriptor.region))?;
        let start = region.at(descriptor.offset as usize, descriptor.length as usize)?;
        let mut done = 0;
        while done < descriptor.length as usize {
            let count = self.last.tailroom().min(descriptor.length as usize - done);
            if count == 0 {
                let full = std::mem::replace(&mut self.last, pool.allocate()?);
                self.packet = Some(chain(self.packet, full)?);
                continue;
            }
            let space = self.last.extend_back(count)?;
            // SAFETY: the source was checked to be in its region, the destination is as long as what is copied.
            unsafe { space.as_mut_ptr().copy_from_nonoverlapping(start.as_ptr().add(done), count) };
            done += count;
        }
        Some(self)
    }

    fn finish(self) -> Option<Mbuf> {
        chain(self.packet, self.last)
    }
}

/// `last` behind `packet`; none if it is longer than any packet may be.
fn chain(packet: Option<Mbuf>, last: Mbuf) -> Option<Mbuf> {
    let Some(mut packet) = packet else { return Some(last) };
    packet.append(last).ok()?;
    Some(packet)
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // The peer may still write to what it was lent: the control thread frees it, when the peer was told.
        if let Some(link) = self.link.take() {
            self.control.give_back(link);
        }
    }
}
