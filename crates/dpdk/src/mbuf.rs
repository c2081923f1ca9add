//! One packet: an owning pointer of 8 bytes to DPDK's `rte_mbuf`, read and changed in place without calls.
//!
//! ```text
//!   ┌ header 128 ┬ headroom ┬──────── data ────────┬ tailroom ┐
//!   └ rte_mbuf   ┴──────────┴ data() = len() bytes ┴──────────┘
//!                     ◀─ replace_front() ─▶ extend_back(), truncate() ▶  reframe(): both ends
//! ```
//!
//! A packet has one segment unless a driver chained several (frames larger than a buffer). What works on bytes works on the first
//! segment; [`Mbuf::linearize`] makes it the only one. Workers touch nothing else of a packet; one packet has one owner.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::fmt;
use std::ptr::NonNull;

use arrayvec::ArrayVec;

use crate::ffi::{self, MbufHeader, RawMempool};
use crate::{MbufError, Mempool};

/// A packet, or an empty buffer for one. Dropping it gives the buffer back to its pool.
#[repr(transparent)]
pub struct Mbuf(NonNull<MbufHeader>);

// The receive and transmit bursts hand arrays of Mbuf to C as arrays of pointers.
const _: () = assert!(size_of::<Mbuf>() == size_of::<*mut MbufHeader>() && size_of::<Option<Mbuf>>() == 8);

// SAFETY: an Mbuf is the only owner of its buffer, and a pool takes buffers back from any thread.
unsafe impl Send for Mbuf {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Mbuf {}

impl Mbuf {
    /// The bytes of the packet; of its first segment if it has several.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let header = self.header();
        // SAFETY: DPDK keeps data_off + data_len within the buffer, as does every method here. The memory was zeroed by the kernel
        // when it was mapped, so that all of it is initialised, and it is ours while the mbuf is.
        unsafe {
            let start = header.buffer.add(usize::from(header.data_offset));
            std::slice::from_raw_parts(start, usize::from(header.data_length))
        }
    }

    /// The same, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let length = usize::from(self.header().data_length);
        self.window(0, length)
    }

    /// Bytes of the packet in all segments.
    #[inline]
    pub fn len(&self) -> usize {
        self.header().packet_length as usize
    }

    /// Whether the packet has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes free in front of the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.header().data_offset)
    }

    /// Bytes free behind the data of the first segment.
    #[inline]
    pub fn tailroom(&self) -> usize {
        let header = self.header();
        usize::from(header.buffer_length) - usize::from(header.data_offset) - usize::from(header.data_length)
    }

    /// Segments that the packet is in, 1 for nearly all.
    #[inline]
    pub fn segments(&self) -> u16 {
        self.header().segments
    }

    /// DPDK's number of the port that received the packet; 65,535 for one made here or received from shared memory.
    #[inline]
    pub fn port(&self) -> u16 {
        self.header().port
    }

    /// The hash that the NIC spread flows by (RSS), where it gave one.
    #[inline]
    pub fn rss_hash(&self) -> Option<u32> {
        let header = self.header();
        (header.offload_flags & ffi::RX_RSS_HASH != 0).then_some(header.rss_hash)
    }

    /// Removes `pop` bytes in front, opens `push` bytes in their place and returns those, to be filled (they hold whatever was
    /// there). `None`, and nothing changed, if the first segment has fewer than `pop` bytes or the headroom is too small.
    #[inline]
    pub fn replace_front(&mut self, pop: usize, push: usize) -> Option<&mut [u8]> {
        let header = self.header_mut();
        let offset = usize::from(header.data_offset) + pop;
        if pop > usize::from(header.data_length) || push > offset {
            return None;
        }
        // The end of the data stays where it is, inside a buffer of at most 65,535 bytes, so that nothing here is cut off.
        header.data_offset = (offset - push) as u16;
        header.data_length = (usize::from(header.data_length) - pop + push) as u16;
        header.packet_length = (header.packet_length as usize - pop + push) as u32;
        Some(self.window(0, push))
    }

    /// Keeps the `keep` bytes behind the first `pop`, opens `push` bytes in front of them, and returns the whole packet as it is then (the new
    /// bytes hold whatever was there). `None`, and nothing changed, if the packet is shorter than `pop + keep`, the headroom is too small, or the
    /// packet has several segments.
    #[inline]
    pub fn reframe(&mut self, pop: usize, push: usize, keep: usize) -> Option<&mut [u8]> {
        let header = self.header_mut();
        let kept = usize::from(header.data_offset) + pop;
        if pop + keep > usize::from(header.data_length) || push > kept || header.segments != 1 {
            return None;
        }
        // Both ends lie in front of the old end of the data or at it, inside a buffer of at most 65,535 bytes: nothing here is cut off.
        header.data_offset = (kept - push) as u16;
        header.data_length = (push + keep) as u16;
        header.packet_length = (push + keep) as u32;
        Some(self.window(0, push + keep))
    }

    /// Opens `count` bytes behind the data and returns them, to be filled (they hold whatever was there). `None`, and nothing
    /// changed, if the tailroom is too small or the packet has several segments.
    #[inline]
    pub fn extend_back(&mut self, count: usize) -> Option<&mut [u8]> {
        if self.segments() != 1 || count > self.tailroom() {
            return None;
        }
        let header = self.header_mut();
        let old = usize::from(header.data_length);
        header.data_length = (old + count) as u16;
        header.packet_length = u32::from(header.data_length);
        Some(self.window(old, count))
    }

    /// Makes the packet `length` bytes long, from where its data begins, and returns them (new ones hold whatever was there). `None`,
    /// and nothing changed, if the buffer is too small or the packet has several segments.
    #[inline]
    pub fn set_len(&mut self, length: usize) -> Option<&mut [u8]> {
        if self.segments() != 1 || length > usize::from(self.header().data_length) + self.tailroom() {
            return None;
        }
        let header = self.header_mut();
        header.data_length = length as u16;
        header.packet_length = length as u32;
        Some(self.window(0, length))
    }

    /// Cuts the packet off behind `length` bytes. A packet that is not longer stays as it is.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        if length >= self.len() {
            return;
        }
        if self.segments() == 1 {
            let header = self.header_mut();
            header.data_length = length as u16;
            header.packet_length = length as u32;
        } else {
            // SAFETY: the chain is ours, and it is longer than `length`.
            unsafe { ffi::sluice_mbuf_truncate_chain(self.0.as_ptr(), length as u32) };
        }
    }

    /// Moves all bytes into the first segment.
    ///
    /// # Errors
    /// [`MbufError::DoesNotFit`], and nothing changed, if its tailroom is too small.
    #[inline]
    pub fn linearize(&mut self) -> Result<(), MbufError> {
        if self.segments() == 1 {
            return Ok(());
        }
        // SAFETY: the chain is ours.
        match unsafe { ffi::sluice_mbuf_linearize(self.0.as_ptr()) } {
            0 => Ok(()),
            _ => Err(MbufError::DoesNotFit { length: self.len(), segments: self.segments() }),
        }
    }

    /// Chains `tail` behind this packet, without copying. Gives it back if the packet would have more than 65,535 segments.
    pub fn append(&mut self, tail: Mbuf) -> Result<(), Mbuf> {
        let fits = u32::from(self.segments()) + u32::from(tail.segments()) <= u32::from(u16::MAX)
            && self.len().checked_add(tail.len()).is_some_and(|length| length <= u32::MAX as usize);
        // SAFETY: both chains are ours. On success `tail` belongs to this one and is forgotten here.
        if fits && unsafe { ffi::sluice_mbuf_chain(self.0.as_ptr(), tail.0.as_ptr()) } == 0 {
            std::mem::forget(tail);
            return Ok(());
        }
        Err(tail)
    }

    /// A copy of the bytes of all segments.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        // SAFETY: `bytes` has room for the whole packet.
        unsafe { ffi::sluice_mbuf_read(self.0.as_ptr(), bytes.as_mut_ptr(), self.len() as u32) };
        bytes
    }

    /// A new packet of `pool` with the same bytes, in one segment; `None` if the pool is empty or its buffers are too small.
    pub fn duplicate(&self, pool: &Mempool) -> Option<Mbuf> {
        let mut copy = pool.allocate()?;
        let space = copy.extend_back(self.len())?;
        if self.segments() == 1 {
            space.copy_from_slice(self.data());
        } else {
            // SAFETY: `space` has as many bytes as the packet.
            unsafe { ffi::sluice_mbuf_read(self.0.as_ptr(), space.as_mut_ptr(), self.len() as u32) };
        }
        Some(copy)
    }

    /// Asks the processor to fetch the header and the first 128 bytes of a packet just received, without waiting and without
    /// reading the header first: it goes by where a fresh mbuf's data lies. A packet that lies elsewhere only gains less.
    #[inline(always)]
    pub fn prefetch_headers(&self) {
        let header: *const i8 = self.0.as_ptr().cast();
        let data = header.wrapping_add(size_of::<MbufHeader>() + usize::from(ffi::HEADROOM));
        // SAFETY: a prefetch is a hint; it reads nothing and does not fault, whatever the address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(header);
            _mm_prefetch::<_MM_HINT_T0>(data);
            _mm_prefetch::<_MM_HINT_T0>(data.wrapping_add(64));
        }
    }

    /// Gives all buffers of a batch back with one call.
    #[inline]
    pub fn free_bulk<const N: usize>(batch: &mut ArrayVec<Mbuf, N>) {
        Self::free_front(batch, batch.len());
    }

    /// Takes the first `count` packets out of a batch and gives their buffers back: without a look at each by DPDK where all are plain ones
    /// of one pool.
    #[inline]
    pub(crate) fn free_front<const N: usize>(batch: &mut ArrayVec<Mbuf, N>, count: usize) {
        let total = batch.len();
        let Some(sent) = batch.get(..count).filter(|sent| !sent.is_empty()) else { return };
        let pool = sent[0].header().pool;
        let plain = sent.iter().all(|packet| packet.is_plain_mbuf_of(pool));
        // SAFETY: the batch forgets all of its packets first. The first `count` then belong to DPDK, the rest, moved bit by bit, to the batch
        // again. Plain packets are as a pool wants them.
        unsafe {
            batch.set_len(0);
            let first = batch.as_mut_ptr();
            if plain {
                ffi::sluice_mbuf_put(pool, first.cast(), count as u32);
            } else {
                ffi::sluice_mbuf_free_bulk(first.cast(), count as u32);
            }
            std::ptr::copy(first.add(count), first, total - count);
            batch.set_len(total - count);
        }
    }

    /// Bytes of each segment, in order.
    pub(crate) fn segment_data(&self) -> impl Iterator<Item = &[u8]> {
        let mut next = self.0.as_ptr();
        std::iter::from_fn(move || {
            // SAFETY: the segments of a packet that we hold: each lies in its buffer, and the last leads to none.
            let header = unsafe { next.as_ref() }?;
            next = header.next;
            // SAFETY: as in `data`.
            Some(unsafe {
                let start = header.buffer.add(usize::from(header.data_offset));
                std::slice::from_raw_parts(start, usize::from(header.data_length))
            })
        })
    }

    /// Whether a queue that gives buffers back without looking (MBUF_FAST_FREE) may send this one.
    #[inline]
    pub(crate) fn is_plain_mbuf_of(&self, pool: *const RawMempool) -> bool {
        let header = self.header();
        std::ptr::eq(header.pool, pool)
            && header.segments == 1
            && header.references == 1
            && header.offload_flags & ffi::FOREIGN_BUFFER == 0
    }

    #[inline(always)]
    fn header(&self) -> &MbufHeader {
        // SAFETY: the pointer came from DPDK, points to a live mbuf that we own, and shim.c has checked the layout.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    fn header_mut(&mut self) -> &mut MbufHeader {
        // SAFETY: as in `header`; `&mut self` makes this the only access.
        unsafe { self.0.as_mut() }
    }

    /// `length` bytes of the first segment, `start` bytes behind where its data begins. The caller has checked that they are in it.
    #[inline(always)]
    fn window(&mut self, start: usize, length: usize) -> &mut [u8] {
        let header = self.header();
        debug_assert!(start + length <= usize::from(header.data_length));
        // SAFETY: within the segment's data, which lies in the buffer; initialised as in `data`; `&mut self` makes it exclusive.
        unsafe {
            let first = header.buffer.add(usize::from(header.data_offset) + start);
            std::slice::from_raw_parts_mut(first, length)
        }
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: we own the mbuf, and nobody uses it after its drop.
        unsafe { ffi::sluice_mbuf_free(self.0.as_ptr()) };
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Mbuf")
            .field("len", &self.len())
            .field("segments", &self.segments())
            .field("headroom", &self.headroom())
            .field("port", &self.port())
            .finish_non_exhaustive()
    }
}
