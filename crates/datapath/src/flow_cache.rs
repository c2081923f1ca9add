//! The flow cache: an exact-match table of fixed size from flow key to rewrite.
//!
//! Owned by one worker. An entry is one cache line: seven words of key, and one word with the rewrite and the second in which the flow
//! was last seen. Two entries make a bucket, and a key may stand in either of two buckets, four places in all; a new flow may move
//! one resident to its other bucket. Where all of that is full, the flow that was silent longest makes room.
//!
//! A flow that has been silent for the idle timeout counts as gone wherever it is met: ageing costs a packet nothing, and no
//! timer walks the table.
//!
//! ```text
//! hash ─┬─ low bits ────→ bucket [entry|entry]   which of the two is tried first: the top bit of the hash
//!       └─ middle bits ─→ bucket [entry|entry]
//! ```

use memmap2::MmapMut;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::flow::FlowKey;
use crate::prefetch::prefetch;
use crate::rewrite::table::RewriteRef;

/// Most flows that a cache holds.
pub const MAX_SIZE: usize = 1 << 24;

/// Key, then `last seen << 48 | rewrite`. All zero: free (no key of a packet has all words 0, see [`FlowCache::insert`]).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Entry([u64; 8]);

impl Entry {
    const FREE: Self = Self([0; 8]);

    #[inline(always)]
    fn holds(&self, key: &FlowKey) -> bool {
        let [a, b, c, d, e, f, g, _] = self.0;
        let k = &key.0;
        (a ^ k[0]) | (b ^ k[1]) | (c ^ k[2]) | (d ^ k[3]) | (e ^ k[4]) | (f ^ k[5]) | (g ^ k[6]) == 0
    }

    fn is_free(&self) -> bool {
        self.0[7] == 0
    }

    fn last_seen(&self) -> u16 {
        (self.0[7] >> 48) as u16
    }

    fn key(&self) -> FlowKey {
        let [a, b, c, d, e, f, g, _] = self.0;
        FlowKey([a, b, c, d, e, f, g])
    }
}

/// What became of a new flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It took a free place, or its own old one.
    Free,
    /// It took the place of a flow that was silent for the idle timeout.
    Expired,
    /// It took the place of a live flow.
    Evicted,
}

/// The flow cache; see the [module](self).
pub(crate) struct FlowCache {
    memory: MmapMut,
    /// Buckets less one; buckets are a power of two.
    mask: usize,
    idle_timeout: u16,
}

/// A second that stands for "never" is left out of the count, so that an entry's last word is never 0.
fn stamp(second: u64) -> u16 {
    (second % 0xffff) as u16 + 1
}

/// Seconds between two stamps, the later one first.
fn age(now: u16, then: u16) -> u16 {
    if now >= then { now - then } else { 0xffff - then + now }
}

impl FlowCache {
    /// A cache for `size` flows (a power of two from 2 to [`MAX_SIZE`]), in huge pages where the system offers them.
    pub(crate) fn new(size: usize, idle_timeout: u16) -> std::io::Result<Self> {
        let size = size.next_power_of_two().clamp(2, MAX_SIZE);
        let memory = MmapMut::map_anon(size * size_of::<Entry>())?;
        #[cfg(target_os = "linux")]
        if let Err(error) = memory.advise(memmap2::Advice::HugePage) {
            // A kernel without transparent huge pages: slower with millions of flows, not wrong.
            if error.raw_os_error() != Some(22) {
                return Err(error);
            }
        }
        Ok(Self { memory, mask: size / 2 - 1, idle_timeout })
    }

    /// Flows that it holds at most.
    pub(crate) fn size(&self) -> usize {
        (self.mask + 1) * 2
    }

    #[inline(always)]
    fn entries(&self) -> &[Entry] {
        // The mapping is page-aligned and a whole number of entries long.
        <[Entry]>::ref_from_bytes(&self.memory).unwrap_or(&[])
    }

    #[inline(always)]
    fn entries_mut(&mut self) -> &mut [Entry] {
        <[Entry]>::mut_from_bytes(&mut self.memory).unwrap_or(&mut [])
    }

    /// The four places of a key, in the order in which they are tried.
    #[inline(always)]
    fn places(&self, hash: u64) -> [usize; 4] {
        let first = hash as usize & self.mask;
        let second = (hash >> 24) as usize & self.mask;
        let side = (hash >> 63) as usize;
        [first * 2 + side, first * 2 + (side ^ 1), second * 2 + side, second * 2 + (side ^ 1)]
    }

    /// Brings the cache line that most likely holds the key on its way.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(entry) = self.entries().get(self.places(hash)[0]) {
            prefetch(entry);
        }
    }

    /// The rewrite of a flow; marks the flow as seen.
    #[inline(always)]
    pub(crate) fn lookup(&mut self, key: &FlowKey, hash: u64, second: u64) -> Option<RewriteRef> {
        let now = stamp(second);
        let idle_timeout = self.idle_timeout;
        let places = self.places(hash);
        let entries = self.entries_mut();
        for place in places {
            let entry = entries.get_mut(place)?;
            if entry.holds(key) {
                let seen = entry.last_seen();
                if seen != now {
                    // Free entries have the stamp 0, which no second has.
                    if seen == 0 || age(now, seen) > idle_timeout {
                        return None;
                    }
                    // Written once a second, not once a packet: the line stays clean.
                    entry.0[7] = entry.0[7] & 0xffff_ffff_ffff | u64::from(now) << 48;
                }
                return Some(RewriteRef::from_bits(entry.0[7]));
            }
        }
        None
    }

    /// Stores a flow, in place of its own stale entry if there is one.
    pub(crate) fn insert(&mut self, key: &FlowKey, hash: u64, rewrite: RewriteRef, second: u64, hash_of: impl Fn(&FlowKey) -> u64) -> Inserted {
        let now = stamp(second);
        let timeout = self.idle_timeout;
        let places = self.places(hash);
        let [a, b, c, d, e, f, g] = key.0;
        let new = Entry([a, b, c, d, e, f, g, rewrite.to_bits() | u64::from(now) << 48]);
        let own = places.into_iter().find(|place| self.entries()[*place].holds(key) && !self.entries()[*place].is_free());
        let free = || places.into_iter().find(|place| self.entries()[*place].is_free());
        if let Some(place) = own.or_else(free) {
            self.entries_mut()[place] = new;
            return Inserted::Free;
        }
        let oldest = |places: [usize; 4]| places.into_iter().max_by_key(|place| age(now, self.entries()[*place].last_seen()));
        let Some(victim) = oldest(places) else { return Inserted::Evicted };
        if age(now, self.entries()[victim].last_seen()) > timeout {
            self.entries_mut()[victim] = new;
            return Inserted::Expired;
        }
        for place in places {
            let resident = self.entries()[place];
            let elsewhere = self.places(hash_of(&resident.key())).into_iter();
            if let Some(free) = elsewhere.into_iter().find(|other| self.entries()[*other].is_free()) {
                self.entries_mut()[free] = resident;
                self.entries_mut()[place] = new;
                return Inserted::Free;
            }
        }
        self.entries_mut()[victim] = new;
        Inserted::Evicted
    }

    /// Frees the entries from `start` on, at most `count`, that have been silent for the idle timeout, and counts the live ones
    /// among them.
    pub(crate) fn sweep(&mut self, start: usize, count: usize, second: u64) -> usize {
        let (now, timeout) = (stamp(second), self.idle_timeout);
        let mut live = 0;
        for entry in self.entries_mut().iter_mut().skip(start).take(count) {
            if entry.is_free() {
                continue;
            }
            if age(now, entry.last_seen()) > timeout {
                *entry = Entry::FREE;
            } else {
                live += 1;
            }
        }
        live
    }
}
