//! Packet memory as the engine sees it.
//!
//! The engine does no I/O: whoever polls the ports (`sluice-node` with DPDK's mbufs, tests with [`HeapBuffer`]) hands it buffers
//! that implement [`PacketBuffer`] and gets them back through [`Transmit`]. All calls are static, so that the compiler sees
//! through to the memory.

use sluice_intent::plan::PortIndex;

use crate::drops::DropReason;
use crate::profile::Profile;
use crate::punt::Punt;

/// Packets that a batch holds at most.
pub const BATCH: usize = 64;

/// Bytes in front of a received frame that the engine may use: enough for the longest encapsulation.
pub const HEADROOM: usize = 128;

/// A contiguous packet with room in front and behind.
pub trait PacketBuffer: Sized {
    /// The frame.
    fn data(&self) -> &[u8];

    /// The frame, to change.
    fn data_mut(&mut self) -> &mut [u8];

    /// Keeps the `keep` bytes behind the first `pop`, puts `push` bytes of undefined content in front of them, and returns the whole new
    /// frame. `None`, and nothing changed, if the frame is shorter than `pop + keep` or the headroom shorter than what is missing.
    fn reframe(&mut self, pop: usize, push: usize, keep: usize) -> Option<&mut [u8]>;

    /// Removes `pop` bytes from the front, puts `push` bytes of undefined content in their place, and returns the whole frame.
    /// `None`, and nothing changed, if the frame is shorter than `pop` or the headroom shorter than what is missing.
    fn replace_front(&mut self, pop: usize, push: usize) -> Option<&mut [u8]> {
        let keep = self.data().len().checked_sub(pop)?;
        self.reframe(pop, push, keep)
    }

    /// Cuts the frame to `length` bytes; does nothing if it is not longer.
    fn truncate(&mut self, length: usize) {
        let _ = self.reframe(0, 0, length);
    }

    /// Adds `count` bytes of undefined content at the end and returns them; `None`, and nothing changed, if they do not fit.
    fn extend_back(&mut self, count: usize) -> Option<&mut [u8]>;
}

/// What the engine needs of its surroundings while it processes a batch. As a [`Profile`] they are told which stage it is in.
pub trait Transmit<B: PacketBuffer>: Profile {
    /// Takes a frame that leaves through `port`.
    fn transmit(&mut self, port: PortIndex, buffer: B);

    /// Takes a frame that the control thread must see.
    fn punt(&mut self, punt: Punt, buffer: B);

    /// Takes a frame that is dropped; it has been counted already.
    fn discard(&mut self, reason: DropReason, buffer: B);

    /// An empty buffer with at least [`HEADROOM`] bytes in front; `None` when there is no memory left.
    fn allocate(&mut self) -> Option<B>;
}

/// A buffer on the heap: for tests, traces and packets that the control thread makes.
#[derive(Clone, Debug)]
pub struct HeapBuffer {
    storage: Vec<u8>,
    start: usize,
    end: usize,
}

impl HeapBuffer {
    /// A copy of `frame` with [`HEADROOM`] bytes in front and `tailroom` bytes behind.
    pub fn new(frame: &[u8], tailroom: usize) -> Self {
        let mut storage = vec![0; HEADROOM + frame.len() + tailroom];
        storage[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
        Self { storage, start: HEADROOM, end: HEADROOM + frame.len() }
    }
}

impl PacketBuffer for HeapBuffer {
    fn data(&self) -> &[u8] {
        &self.storage[self.start..self.end]
    }

    fn data_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.end]
    }

    fn reframe(&mut self, pop: usize, push: usize, keep: usize) -> Option<&mut [u8]> {
        let kept = self.start + pop;
        if kept + keep > self.end || push > kept {
            return None;
        }
        (self.start, self.end) = (kept - push, kept + keep);
        Some(self.data_mut())
    }

    fn extend_back(&mut self, count: usize) -> Option<&mut [u8]> {
        let end = self.end + count;
        if end > self.storage.len() {
            return None;
        }
        let start = core::mem::replace(&mut self.end, end);
        Some(&mut self.storage[start..end])
    }
}
