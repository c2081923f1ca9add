//! How a client lays out the memory that it gives a server: rings first, then the buffers of every slot where packets are copied.
//!
//! ```text
//!   region 0   │ ring │ ring │ … │ buffer │ buffer │ buffer │ …
//!   region 1…  │ packet memory, where it is lent: descriptors lead to mbufs │
//! ```

use std::os::fd::OwnedFd;

use super::MemifError;
use super::lent::LentMemory;
use super::message::RingPlace;
use super::region::Region;
use super::ring::{Descriptor, Memory, Ring};

/// Buffers begin so far apart, or a multiple of it: all of them in one set of a core's first-level cache, which so keeps few of them. That is
/// wanted: what one core wrote the other reads soon, and a line comes faster from a cache further out than from deep inside the other core.
/// With buffers spread over all sets (2,112 bytes apart) a node took 1.7 times the cycles for a frame of 64 bytes, with 2,048 between as many
/// and 1.3 times, by the direction.
const STRIDE: usize = 4096;

/// What a client offers.
#[derive(Debug)]
pub(super) struct Layout {
    /// The file of each region.
    pub(super) files: Vec<OwnedFd>,
    pub(super) memory: Memory,
    /// Rings to the server, by number, then those to the client.
    pub(super) places: Vec<RingPlace>,
    /// Their buffers, in the same order.
    pub(super) buffers: Vec<Option<Buffers>>,
}

/// The buffers of a ring that belongs to them: slot by slot, `stride` apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffers {
    /// Octets in front of the first one in region 0.
    pub(super) offset: u32,
    pub(super) stride: u32,
    /// Octets that each holds.
    pub(super) length: u32,
}

impl Buffers {
    /// Octets in front of the buffer of a slot in region 0; `slot` is smaller than the number of slots.
    #[inline(always)]
    pub(super) fn offset_of(&self, slot: u16) -> u32 {
        self.offset + u32::from(slot) * self.stride
    }
}

/// What a layout is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) to_server: u16,
    pub(super) to_client: u16,
    pub(super) size_log2: u8,
    pub(super) buffer_bytes: u16,
}

impl Layout {
    /// Makes the memory and the rings in it, with the buffers of each slot; `lent` is packet memory that takes the place of buffers.
    ///
    /// # Errors
    /// More than 4 GiB, and what the system refuses.
    pub(super) fn new(demand: &Demand, lent: Option<LentMemory>) -> Result<Self, MemifError> {
        let slots = 1usize << demand.size_log2;
        let rings = usize::from(demand.to_server) + usize::from(demand.to_client);
        let ring_octets = Ring::octets_apart(demand.size_log2);
        let first_buffer = (rings * ring_octets).next_multiple_of(STRIDE);
        let stride = usize::from(demand.buffer_bytes).next_multiple_of(STRIDE);
        let octets = first_buffer + if lent.is_some() { 0 } else { rings * slots * stride };
        if octets > u32::MAX as usize {
            return Err(MemifError::TooMuchMemory);
        }
        let (file, region) = Region::create(octets)?;
        let (mut files, mut regions) = (vec![file], vec![region]);
        let copies = lent.is_none();
        for (file, region) in lent.into_iter().flatten() {
            files.push(file);
            regions.push(region);
        }
        let memory: Memory = regions.into();
        let directions = (0..demand.to_server).map(|index| (true, index));
        let directions = directions.chain((0..demand.to_client).map(|index| (false, index)));
        let place = |(number, (from_client, index)): (usize, (bool, u16))| RingPlace {
            from_client,
            index,
            region: 0,
            offset: (number * ring_octets) as u32,
            size_log2: demand.size_log2,
            private_header: 0,
        };
        let places: Vec<RingPlace> = directions.enumerate().map(place).collect();
        let buffers = |number: usize| Buffers {
            offset: (first_buffer + number * slots * stride) as u32,
            stride: stride as u32,
            length: demand.buffer_bytes.into(),
        };
        let buffers: Vec<Option<Buffers>> =
            (0..rings).map(|number| copies.then(|| buffers(number))).collect();
        for (place, buffers) in places.iter().zip(&buffers) {
            describe(&Ring::create(&memory, place)?, *buffers);
        }
        Ok(Self { files, memory, places, buffers })
    }
}

/// Points every descriptor to the buffer of its slot.
fn describe(ring: &Ring, buffers: Option<Buffers>) {
    let Some(buffers) = buffers else { return };
    for slot in 0..ring.slots() {
        let (offset, length) = (buffers.offset_of(slot), buffers.length);
        ring.set_descriptor(slot, Descriptor { flags: 0, region: 0, length, offset, metadata: 0 });
    }
}
