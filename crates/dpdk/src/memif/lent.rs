//! Packet memory that a client lends to its server: nothing is copied on this side, the server reads and writes our packets.
//!
//! Every file that EAL's memory is in becomes a region. A slot that is filled holds its packet until the server has read it; a slot that is
//! offered holds the packet that the server will fill.

use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::NonNull;

use arrayvec::ArrayVec;

use super::MemifError;
use super::region::Region;
use super::ring::{Descriptor, NEXT, Ring};
use crate::ffi::{self, RawMemoryFile};
use crate::{Mbuf, Mempool};

/// Most files that EAL's memory is in: one a page size and NUMA node, a few when it grows.
const MOST_FILES: usize = 64;

/// Packet memory: files and where they are mapped.
pub(super) type LentMemory = Vec<(OwnedFd, Region)>;

/// The memory of all pools that there are now.
///
/// # Errors
/// Memory that is in no files: ordinary pages.
pub(super) fn packet_memory() -> Result<LentMemory, MemifError> {
    let none = RawMemoryFile { base: std::ptr::null_mut(), length: 0, file: -1, reserved: 0 };
    let mut files = [none; MOST_FILES];
    // SAFETY: the array has as many elements as are stated.
    let count = unsafe { ffi::sluice_memory_files(files.as_mut_ptr(), MOST_FILES as u32) };
    let count = usize::try_from(count).map_err(|_| MemifError::NoMemoryFiles)?;
    let lend = |file: &RawMemoryFile| {
        let duplicate = ffi::sluice_file_duplicate(file.file);
        let base = NonNull::new(file.base).filter(|_| duplicate >= 0 && file.length > 0);
        let base = base.ok_or(MemifError::NoMemoryFiles)?;
        // SAFETY: the descriptor was just made and has no other owner; EAL's memory stays while a pool and with it a port do.
        Ok(unsafe { (OwnedFd::from_raw_fd(duplicate), Region::lend(base, file.length)) })
    };
    files[..count].iter().map(lend).collect()
}

/// Where a packet of one segment lies in the regions; none if the peer cannot see it.
#[inline]
pub(super) fn descriptor_of(ring: &Ring, packet: &Mbuf) -> Option<Descriptor> {
    if packet.segments() != 1 || packet.is_empty() {
        return None;
    }
    let (region, offset) = locate(ring, packet.data().as_ptr())?;
    Some(Descriptor { flags: 0, region, length: packet.len() as u32, offset, metadata: 0 })
}

fn locate(ring: &Ring, address: *const u8) -> Option<(u16, u32)> {
    ring.memory().iter().enumerate().skip(1).find_map(|(number, region)| {
        let base = region.at(0, 0)?;
        let offset = (address as usize).checked_sub(base.as_ptr() as usize)?;
        (offset < region.length()).then_some((number as u16, u32::try_from(offset).ok()?))
    })
}

/// The packets of a ring's slots.
#[derive(Debug, Default)]
pub(super) struct Slots {
    packets: Box<[Option<Mbuf>]>,
    /// Slots behind the last that holds one, counted as the ring counts.
    end: u16,
    /// The first that may hold one.
    start: u16,
}

impl Slots {
    /// None yet.
    pub(super) fn of(ring: &Ring) -> Self {
        Self { packets: (0..ring.slots()).map(|_| None).collect(), end: 0, start: 0 }
    }

    #[inline]
    fn slot(&mut self, at: u16) -> &mut Option<Mbuf> {
        let mask = self.packets.len() - 1;
        &mut self.packets[usize::from(at) & mask]
    }

    /// Whether fewer packets are offered than there are slots: the pool had no more.
    #[inline]
    pub(super) fn is_short(&self, next: u16) -> bool {
        usize::from(self.end.wrapping_sub(next)) < self.packets.len()
    }

    /// Offers an empty packet in every slot up to one ring behind `next`, as far as there is memory.
    pub(super) fn post(&mut self, ring: &Ring, pool: &Mempool, next: u16) {
        let limit = next.wrapping_add(ring.slots());
        while self.end != limit {
            let end = self.end;
            let slot = self.slot(end);
            if slot.is_none() {
                *slot = pool.allocate();
            }
            let Some(packet) = slot else { break };
            let Some((region, offset)) = locate(ring, packet.data().as_ptr()) else { break };
            let length = packet.tailroom() as u32;
            ring.set_descriptor(end, Descriptor { flags: 0, region, length, offset, metadata: 0 });
            self.end = end.wrapping_add(1);
        }
        ring.set_head(self.end);
    }

    /// Takes the packets that the peer has filled, `count` of them from slot `next` on, as far as each is whole in its slot.
    ///
    /// # Safety
    /// There is room for `count` at `to`.
    pub(super) unsafe fn take(&mut self, ring: &Ring, next: u16, to: *mut Mbuf, count: usize) -> usize {
        for at in 0..count {
            let slot = next.wrapping_add(at as u16);
            let descriptor = ring.descriptor(slot);
            let whole = |packet: &mut Mbuf| {
                descriptor.flags & NEXT == 0
                    && descriptor.length > 0
                    && packet.set_len(descriptor.length as usize).is_some()
            };
            let Some(packet) = self.slot(slot).take_if(whole) else { return at };
            // SAFETY: the caller has room for it.
            unsafe { to.add(at).write(packet) };
        }
        count
    }

    /// Keeps a packet in a slot while the peer reads it.
    #[inline]
    pub(super) fn keep(&mut self, slot: u16, packet: Mbuf) {
        *self.slot(slot) = Some(packet);
        self.end = slot.wrapping_add(1);
    }

    /// Frees the packets that the peer has read: those in front of slot `read`.
    pub(super) fn reclaim(&mut self, read: u16) {
        let mut freed: ArrayVec<Mbuf, 64> = ArrayVec::new();
        while self.start != read && self.start != self.end {
            let start = self.start;
            freed.extend(self.slot(start).take());
            self.start = start.wrapping_add(1);
            if freed.is_full() {
                Mbuf::free_bulk(&mut freed);
            }
        }
        Mbuf::free_bulk(&mut freed);
    }
}
