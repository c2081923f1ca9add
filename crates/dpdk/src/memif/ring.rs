//! A ring in shared memory: descriptors of buffers, and two counters that say how far each side is.
//!
//! ```text
//!   octet 0        64       128
//!         ┌────────┬────────┬──────────────┬──────────────┬───
//!         │ head … │ tail … │ descriptor 0 │ descriptor 1 │ …    16 octets each, 2ⁿ of them
//!         └────────┴────────┴──────────────┴──────────────┴───
//!   from the client: it fills slots and moves head; the server reads them and moves tail
//!   to the client:   it offers empty buffers and moves head; the server fills them and moves tail
//! ```
//!
//! Counters run on over the end of the ring and wrap at 2¹⁶. Each is written by one side, on a cache line of its own where the ring lies on
//! the boundary of one; it need not, since rings of two slots that lie one behind the other, as other programs make them, do not.

use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use super::MemifError;
use super::message::RingPlace;
use super::region::Region;

/// What a ring begins with.
const COOKIE: u32 = 0x03e3_1f20;
/// Flag of a ring whose reader polls it and wants no events.
const EVENTS_MASKED: u16 = 1;
/// Flag of a descriptor whose packet goes on in the next one.
pub(super) const NEXT: u16 = 1;
/// Most slots of a ring, log₂.
pub(super) const MOST_SLOTS_LOG2: u8 = 14;
/// Octets of a cache line.
pub(super) const LINE: usize = 64;

/// The shared memory of a connection, by the number of the region.
pub(super) type Memory = Arc<[Region]>;

/// What a ring begins with, in memory. The peer may write to any octet of it at any time, which only atomics and cells allow.
#[repr(C, align(16))]
struct Header {
    cookie: AtomicU32,
    flags: AtomicU16,
    head: AtomicU16,
    rest: UnsafeCell<[u8; 56]>,
    tail: AtomicU16,
    end: UnsafeCell<[u8; 62]>,
}

/// Where a buffer lies and how much is in it.
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) flags: u16,
    pub(super) region: u16,
    /// Octets of the packet; of the buffer while it is empty.
    pub(super) length: u32,
    /// Octets in front of the buffer in its region.
    pub(super) offset: u32,
    pub(super) metadata: u32,
}

const _: () = assert!(size_of::<Header>() == 128 && size_of::<Descriptor>() == 16);
const _: () = assert!(align_of::<Header>() == align_of::<Descriptor>());

/// One side's view of a ring. Its owner keeps to what its side may write.
#[derive(Debug)]
pub(super) struct Ring {
    header: NonNull<Header>,
    descriptors: NonNull<Descriptor>,
    mask: u16,
    /// Keeps the memory mapped.
    memory: Memory,
}

// SAFETY: the pointers lead into `memory`, which may be used from any thread; one thread at a time has the ring.
unsafe impl Send for Ring {}

impl Ring {
    /// Octets of a ring of so many slots, up to where the next may begin.
    pub(super) fn octets(size_log2: u8) -> usize {
        size_of::<Header>() + (size_of::<Descriptor>() << size_log2)
    }

    /// As [`Self::octets`], where the next ring is to begin on a cache line of its own.
    pub(super) fn octets_apart(size_log2: u8) -> usize {
        Self::octets(size_log2).next_multiple_of(LINE)
    }

    /// The ring that a message tells of.
    ///
    /// # Errors
    /// A place that is not inside the memory, or where no ring lies.
    pub(super) fn at(memory: &Memory, place: &RingPlace) -> Result<Self, MemifError> {
        let ring = Self::view(memory, place)?;
        let cookie = ring.header().cookie.load(Ordering::Acquire);
        if cookie == COOKIE { Ok(ring) } else { Err(MemifError::Ring(place.index)) }
    }

    /// Makes a ring where there is none yet.
    ///
    /// # Errors
    /// A place that is not inside the memory.
    pub(super) fn create(memory: &Memory, place: &RingPlace) -> Result<Self, MemifError> {
        let ring = Self::view(memory, place)?;
        ring.header().cookie.store(COOKIE, Ordering::Release);
        Ok(ring)
    }

    fn view(memory: &Memory, place: &RingPlace) -> Result<Self, MemifError> {
        let wrong = MemifError::Ring(place.index);
        if place.size_log2 > MOST_SLOTS_LOG2 || !(place.offset as usize).is_multiple_of(align_of::<Header>())
        {
            return Err(wrong);
        }
        let region = memory.get(usize::from(place.region));
        let start = region.and_then(|region| region.at(place.offset as usize, Self::octets(place.size_log2)));
        let header: NonNull<Header> = start.ok_or(wrong)?.cast();
        // SAFETY: `start` is followed by the header and all descriptors.
        let descriptors = unsafe { header.add(1) }.cast();
        Ok(Self {
            header,
            descriptors,
            mask: ((1u32 << place.size_log2) - 1) as u16,
            memory: Arc::clone(memory),
        })
    }

    /// Slots.
    #[inline(always)]
    pub(super) fn slots(&self) -> u16 {
        self.mask + 1
    }

    /// The memory that buffers are in.
    #[inline(always)]
    pub(super) fn memory(&self) -> &[Region] {
        &self.memory
    }

    /// The client's counter.
    #[inline(always)]
    pub(super) fn head(&self) -> u16 {
        self.header().head.load(Ordering::Acquire)
    }

    /// The server's counter.
    #[inline(always)]
    pub(super) fn tail(&self) -> u16 {
        self.header().tail.load(Ordering::Acquire)
    }

    /// Moves the client's counter: all that was written before it is seen by who sees it.
    #[inline(always)]
    pub(super) fn set_head(&self, head: u16) {
        self.header().head.store(head, Ordering::Release);
    }

    /// Moves the server's counter, as [`Self::set_head`].
    #[inline(always)]
    pub(super) fn set_tail(&self, tail: u16) {
        self.header().tail.store(tail, Ordering::Release);
    }

    /// Says that this side polls the ring.
    pub(super) fn mask_events(&self) {
        self.header().flags.store(EVENTS_MASKED, Ordering::Relaxed);
    }

    /// Whether the reader sleeps and is to be woken.
    #[inline(always)]
    pub(super) fn wants_events(&self) -> bool {
        self.header().flags.load(Ordering::Relaxed) & EVENTS_MASKED == 0
    }

    /// The descriptor of a slot, read once: the peer may change it at any time.
    #[inline(always)]
    pub(super) fn descriptor(&self, slot: u16) -> Descriptor {
        // SAFETY: within the descriptors.
        unsafe { self.pointer(slot).read_volatile() }
    }

    /// Writes the whole descriptor of a slot.
    #[inline(always)]
    pub(super) fn set_descriptor(&self, slot: u16, descriptor: Descriptor) {
        // SAFETY: within the descriptors.
        unsafe { self.pointer(slot).write_volatile(descriptor) };
    }

    /// Writes flags and length of a slot's descriptor, with the region that it has.
    #[inline(always)]
    pub(super) fn fill(&self, slot: u16, flags: u16, region: u16, length: u32) {
        let first = u64::from(flags) | u64::from(region) << 16 | u64::from(length) << 32;
        // SAFETY: within the descriptors, the first half of one; aligned to 16.
        unsafe { self.pointer(slot).cast::<u64>().write_volatile(first) };
    }

    /// Fetches the line of a slot's descriptor, to write it.
    #[inline(always)]
    pub(super) fn prefetch_to_write(&self, slot: u16) {
        prefetch_to_write(self.pointer(slot).cast());
    }

    #[inline(always)]
    fn pointer(&self, slot: u16) -> *mut Descriptor {
        // SAFETY: masked to the number of descriptors.
        unsafe { self.descriptors.as_ptr().add(usize::from(slot & self.mask)) }
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: it lies in `memory`, aligned; all of it is atomics and cells, so that the peer may write to it meanwhile.
        unsafe { self.header.as_ref() }
    }
}

/// Fetches the line at an address, which is to be read.
#[inline(always)]
pub(super) fn prefetch(address: *const i8) {
    // SAFETY: a hint, which neither reads nor faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
}

/// Fetches the line at an address for this core alone, which is to be written: without it each store to a line that the peer has read
/// waits for the peer's core to give it up.
#[inline(always)]
pub(super) fn prefetch_to_write(address: *const i8) {
    // SAFETY: a hint, which neither writes nor faults.
    unsafe { _mm_prefetch::<_MM_HINT_ET0>(address) };
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// A region of so many octets, however large the pages are that it is in.
    fn memory(octets: usize) -> Memory {
        let (file, _) = Region::create(octets).unwrap();
        Arc::new([Region::of_file(file.as_fd(), octets as u64).unwrap()])
    }

    fn place(offset: u32, size_log2: u8) -> RingPlace {
        RingPlace { from_client: true, index: 3, region: 0, offset, size_log2, private_header: 0 }
    }

    #[test]
    fn a_ring_is_found_where_it_was_made_and_nowhere_else() {
        let memory = memory(Ring::octets(4) + 128);
        let made = Ring::create(&memory, &place(128, 4)).unwrap();
        let found = Ring::at(&memory, &place(128, 4)).unwrap();
        assert_eq!(found.slots(), 16);
        let descriptor = Descriptor { flags: NEXT, region: 0, length: 60, offset: 4096, metadata: 0 };
        made.set_descriptor(17, descriptor);
        assert_eq!(found.descriptor(1), descriptor, "slots wrap around");
        found.fill(1, 0, 0, 99);
        assert_eq!(made.descriptor(1), Descriptor { flags: 0, length: 99, ..descriptor });
        made.set_head(u16::MAX);
        found.set_tail(5);
        assert_eq!((found.head(), made.tail()), (u16::MAX, 5));
        assert!(made.wants_events());
        found.mask_events();
        assert!(!made.wants_events());

        let wrong = [place(0, 4), place(128, 5), place(192, 4), place(64, 4), place(120, 4), place(136, 3)];
        let wrong = wrong.into_iter().chain([place(128, 15), place(u32::MAX - 15, 0)]);
        for place in wrong.chain([RingPlace { region: 1, ..place(128, 4) }]) {
            assert_eq!(Ring::at(&memory, &place).unwrap_err(), MemifError::Ring(3), "{place:?}");
        }
    }
}
