//! Sends: packets into the slots of a ring.
//!
//! As in [`super::receiver`] a burst is two passes: the lines that are to be written are asked for first, for this core alone. The peer
//! has read them since they were last written, so that every store would otherwise wait until its core has given them up.

use std::ptr::NonNull;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::LONGEST_PACKET;
use super::attachment::{Attachment, Counters, FromControl, SharedStatus, Side};
use super::copy::{self, Access, copy_exactly};
use super::events;
use super::lent;
use super::ring::NEXT;
use crate::Mbuf;

/// Packets of a pass.
const CHUNK: usize = 32;

/// The sending end of a queue of a memif.
#[derive(Debug)]
pub(crate) struct Transmitter {
    control: FromControl,
    link: Option<Box<Attachment>>,
    /// Slots filled since the connection began.
    next: u16,
    /// Where the slots end that were free when last looked.
    end: u16,
    /// Packets dropped because the peer cannot see or take them.
    unfit: u64,
    counters: Arc<Counters>,
    status: SharedStatus,
}

/// Where a packet goes.
#[derive(Clone, Copy)]
struct Place {
    start: NonNull<u8>,
    region: u16,
}

/// What became of a packet.
#[derive(PartialEq)]
enum Copied {
    Whole,
    /// There are too few slots now.
    NoRoom,
    /// There will never be enough, or it is empty.
    Never,
}

impl Transmitter {
    pub(super) fn new(control: FromControl, counters: Arc<Counters>, status: SharedStatus) -> Self {
        Self { control, link: None, next: 0, end: 0, unfit: 0, counters, status }
    }

    /// Packets dropped because the peer cannot see the memory they are in, or because they are longer than all slots.
    pub(crate) fn unfit_packets(&self) -> u64 {
        self.unfit
    }

    /// Sends from the front of the batch what there is room for, and returns how many; the rest moves to the front.
    #[inline]
    pub(crate) fn transmit<const N: usize>(&mut self, batch: &mut ArrayVec<Mbuf, N>) -> usize {
        if self.control.has_changed() {
            self.follow();
        }
        let Some(mut link) = self.link.take() else { return 0 };
        let lends = matches!(link.side, Side::Lender);
        let wanted = if lends { usize::from(link.ring.slots()) } else { batch.len() };
        if usize::from(self.end.wrapping_sub(self.next)) < wanted && !self.look(&link) {
            self.status.report_broken(link.connection);
            self.control.give_back(link);
            return 0;
        }
        let before = self.next;
        let sent = if lends { self.lend(&mut link, batch) } else { self.copy(&link, batch) };
        if self.next != before {
            self.publish(&link);
        }
        self.link = Some(link);
        sent
    }

    /// Takes up a new connection, or lets go of one.
    #[cold]
    fn follow(&mut self) {
        self.link = self.control.follow(self.link.take());
        let Some(link) = &self.link else { return };
        (self.next, self.end) = (0, 0);
        match link.side {
            Side::Server => link.ring.set_tail(0),
            Side::Client(_) | Side::Lender => {
                self.end = link.ring.slots();
                link.ring.set_head(0);
            }
        }
    }

    /// Looks how far the peer is. One that is further than there are slots, or went back, broke the ring: nothing of it is to be believed.
    #[inline]
    fn look(&mut self, link: &Attachment) -> bool {
        let end = match link.side {
            Side::Server => link.ring.head(),
            _ => link.ring.tail().wrapping_add(link.ring.slots()),
        };
        let free = end.wrapping_sub(self.next);
        let sound = free <= link.ring.slots() && free >= self.end.wrapping_sub(self.next);
        if sound {
            self.end = end;
        }
        sound
    }

    /// Copies packets into slots, and gives their buffers back.
    #[inline]
    fn copy<const N: usize>(&mut self, link: &Attachment, batch: &mut ArrayVec<Mbuf, N>) -> usize {
        let mut sent = 0;
        while sent < batch.len() && self.next != self.end {
            let chunk = &batch[sent..batch.len().min(sent + CHUNK)];
            let copied = self.copy_chunk(link, chunk);
            sent += copied;
            if copied == chunk.len() || self.next == self.end {
                continue;
            }
            match self.copy_odd(link, &batch[sent]) {
                Copied::Whole => sent += 1,
                Copied::NoRoom => {
                    // More may be free than when last looked, which was enough for packets of one slot.
                    let before = self.end;
                    if !self.look(link) {
                        self.status.report_broken(link.connection);
                    }
                    if self.end == before {
                        break;
                    }
                }
                Copied::Never => self.refuse(batch.remove(sent)),
            }
        }
        Mbuf::free_front(batch, sent);
        sent
    }

    /// Drops a packet that no slots take.
    #[cold]
    fn refuse(&mut self, packet: Mbuf) {
        drop(packet);
        self.unfit += 1;
        self.counters.errors.add(1);
    }

    /// Copies the packets in front that are in one segment and fit one slot.
    #[inline]
    fn copy_chunk(&mut self, link: &Attachment, packets: &[Mbuf]) -> usize {
        let room = usize::from(self.end.wrapping_sub(self.next));
        let packets = &packets[..packets.len().min(room)];
        let mut places = [Place { start: NonNull::dangling(), region: 0 }; CHUNK];
        let mut plain = 0;
        for (packet, place) in packets.iter().zip(&mut places) {
            let slot = self.next.wrapping_add(plain as u16);
            let Some(start) = place_of(link, slot, packet) else { break };
            copy::prefetch_first(start.start.as_ptr(), packet.len(), Access::Write);
            if slot & 3 == 0 || plain == 0 {
                link.ring.prefetch_to_write(slot);
            }
            *place = start;
            plain += 1;
        }
        let mut bytes = 0;
        for (at, packet) in packets[..plain].iter().enumerate() {
            let length = packet.len();
            if let Some(next) = packets[..plain].get(at + 1) {
                copy::prefetch_rest(places[at + 1].start.as_ptr(), next.len(), Access::Write);
            }
            // SAFETY: the buffer of the slot has room for the packet, as `place_of` has checked; the packet is in one segment.
            unsafe { copy_exactly(places[at].start.as_ptr(), packet.data().as_ptr(), length) };
            link.ring.fill(self.next.wrapping_add(at as u16), 0, places[at].region, length as u32);
            bytes += length as u64;
        }
        self.next = self.next.wrapping_add(plain as u16);
        self.counters.packets.add(plain as u64);
        self.counters.bytes.add(bytes);
        plain
    }

    /// Copies a packet of several segments, or one that takes several slots.
    #[cold]
    fn copy_odd(&mut self, link: &Attachment, packet: &Mbuf) -> Copied {
        let mut segments = packet.segment_data();
        let (mut slot, mut left) = (self.next, packet.len());
        let mut from: &[u8] = &[];
        if left == 0 || left > LONGEST_PACKET {
            return Copied::Never;
        }
        while left > 0 {
            if slot == self.end {
                let whole_ring = slot.wrapping_sub(self.next) == link.ring.slots();
                return if whole_ring { Copied::Never } else { Copied::NoRoom };
            }
            let Some((place, room)) = buffer_of(link, slot) else { return Copied::Never };
            let mut filled = 0;
            while filled < room && left > 0 {
                while from.is_empty() {
                    let Some(data) = segments.next() else { return Copied::Never };
                    from = data;
                }
                let count = from.len().min(room - filled).min(left);
                // SAFETY: within the buffer, whose length is `room`.
                unsafe { place.start.as_ptr().add(filled).copy_from_nonoverlapping(from.as_ptr(), count) };
                from = &from[count..];
                filled += count;
                left -= count;
            }
            let flags = if left > 0 { NEXT } else { 0 };
            link.ring.fill(slot, flags, place.region, filled as u32);
            slot = slot.wrapping_add(1);
        }
        self.next = slot;
        self.counters.packets.add(1);
        self.counters.bytes.add(packet.len() as u64);
        Copied::Whole
    }

    /// Points slots to packets, which stay there until the peer has read them.
    fn lend<const N: usize>(&mut self, link: &mut Attachment, batch: &mut ArrayVec<Mbuf, N>) -> usize {
        link.lent.reclaim(self.end.wrapping_sub(link.ring.slots()));
        let mut left: ArrayVec<Mbuf, N> = ArrayVec::new();
        let (mut sent, mut bytes) = (0, 0);
        for packet in batch.drain(..) {
            if self.next == self.end {
                left.push(packet);
                continue;
            }
            let Some(descriptor) = lent::descriptor_of(&link.ring, &packet) else {
                self.refuse(packet);
                continue;
            };
            link.ring.set_descriptor(self.next, descriptor);
            bytes += packet.len() as u64;
            link.lent.keep(self.next, packet);
            self.next = self.next.wrapping_add(1);
            sent += 1;
        }
        *batch = left;
        self.counters.packets.add(sent as u64);
        self.counters.bytes.add(bytes);
        sent
    }

    /// Lets the peer see what was sent, and wakes it if it sleeps.
    #[inline]
    fn publish(&self, link: &Attachment) {
        match link.side {
            Side::Server => link.ring.set_tail(self.next),
            _ => link.ring.set_head(self.next),
        }
        if link.ring.wants_events() {
            events::wake(&link.events);
        }
    }
}

impl Drop for Transmitter {
    fn drop(&mut self) {
        // The peer may still read what it was lent: the control thread frees it, when the peer was told.
        if let Some(link) = self.link.take() {
            self.control.give_back(link);
        }
    }
}

/// The buffer of a slot, where the packet is in one segment and fits.
#[inline(always)]
fn place_of(link: &Attachment, slot: u16, packet: &Mbuf) -> Option<Place> {
    let (place, room) = buffer_of(link, slot)?;
    (packet.segments() == 1 && !packet.is_empty() && packet.len() <= room).then_some(place)
}

/// The whole buffer of a slot and its length.
#[inline(always)]
fn buffer_of(link: &Attachment, slot: u16) -> Option<(Place, usize)> {
    match link.side {
        Side::Client(buffers) => {
            let offset = buffers.offset_of(slot & (link.ring.slots() - 1));
            let length = buffers.length as usize;
            let start = link.ring.memory().first()?.at(offset as usize, length)?;
            Some((Place { start, region: 0 }, length))
        }
        _ => {
            let descriptor = link.ring.descriptor(slot);
            let length = descriptor.length as usize;
            let region = link.ring.memory().get(usize::from(descriptor.region))?;
            let start = region.at(descriptor.offset as usize, length).filter(|_| length > 0)?;
            Some((Place { start, region: descriptor.region }, length))
        }
    }
}
