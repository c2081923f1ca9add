//! The flow cache: an exact-match table of fixed size from flow key to rewrite.
//!
//! Owned by one worker. An entry is one cache line: seven words of key, and one word with the rewrite and the second in which the flow
//! was last seen. Two entries make a bucket, and a key may stand in either of two buckets, four places in all; a new flow may move
//! one resident to its other bucket. Where all of that is full, the flow that was silent longest makes room.
//!
//! A flow that has been silent for the idle timeout counts as gone wherever it is met: ageing costs a packet nothing, and no
//! timer walks the table. Where flows are placed by load ([`FlowCache::set_pause`]), a shorter silence already brings a flow to the slow
//! path, which finds out whether it is to be placed anew.
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

    /// Marks the flow as seen; its rewrite, unless it had been silent for longer than `longest`.
    #[inline(always)]
    fn seen(&mut self, now: u16, longest: u16) -> Option<RewriteRef> {
        let seen = self.last_seen();
        if seen != now {
            // Free entries have the stamp 0, which no second has.
            if seen == 0 || age(now, seen) > longest {
                return None;
            }
            // Written once a second, not once a packet: the line stays clean.
            self.0[7] = self.0[7] & 0xffff_ffff_ffff | u64::from(now) << 48;
        }
        Some(self.rewrite())
    }

    fn rewrite(&self) -> RewriteRef {
        RewriteRef::from_bits(self.0[7])
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

/// Where a new flow can go.
enum Room {
    /// A free place, or the flow's own old one.
    Free(usize),
    /// The place of a flow that was silent for the idle timeout.
    Expired(usize),
    /// The place of a live flow, which goes to its other bucket.
    Moved { resident: usize, to: usize },
    /// The place of a live flow, which has to go: of those in the way the one that was silent longest.
    Evicted(usize),
}

/// The four places of a key, in the order in which they are tried.
#[inline(always)]
fn places(hash: u64, mask: usize) -> [usize; 4] {
    let first = hash as usize & mask;
    let second = (hash >> 24) as usize & mask;
    let side = (hash >> 63) as usize;
    [first * 2 + side, first * 2 + (side ^ 1), second * 2 + side, second * 2 + (side ^ 1)]
}

/// The first of them: where nearly every flow stands.
#[inline(always)]
fn first_place(hash: u64, mask: usize) -> usize {
    (hash as usize & mask) * 2 + (hash >> 63) as usize
}

/// The flow cache during one batch: its memory is looked up once, and time stands still.
pub(crate) struct Table<'a> {
    entries: &'a mut [Entry],
    mask: usize,
    /// Seconds of silence after which a flow is not found.
    longest: u16,
    now: u16,
}

impl Table<'_> {
    /// Brings the cache line that most likely holds the key on its way.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(entry) = self.entries.get(first_place(hash, self.mask)) {
            prefetch(entry);
        }
    }

    /// The rewrite of a flow; marks the flow as seen. None if it was silent for longer than the idle timeout, or a [pause](FlowCache::set_pause).
    #[inline(always)]
    pub(crate) fn lookup(&mut self, key: &FlowKey, hash: u64) -> Option<RewriteRef> {
        let entry = self.entries.get_mut(first_place(hash, self.mask))?;
        // Nearly always: a flow stands elsewhere only if another one held this place when it came.
        if entry.holds(key) { entry.seen(self.now, self.longest) } else { self.lookup_elsewhere(key, hash) }
    }

    #[cold]
    #[inline(never)]
    fn lookup_elsewhere(&mut self, key: &FlowKey, hash: u64) -> Option<RewriteRef> {
        let [_, others @ ..] = places(hash, self.mask);
        for place in others {
            let entry = self.entries.get_mut(place)?;
            if entry.holds(key) {
                return entry.seen(self.now, self.longest);
            }
        }
        None
    }
}

/// The flow cache; see the [module](self).
pub(crate) struct FlowCache {
    memory: MmapMut,
    /// Buckets less one; buckets are a power of two.
    mask: usize,
    idle_timeout: u16,
    /// Seconds of silence after which [`Table::lookup`] does not find a flow.
    longest: u16,
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
        Ok(Self { memory, mask: size / 2 - 1, idle_timeout, longest: idle_timeout })
    }

    /// Has [`Table::lookup`] find flows only after so many seconds of silence at most; none: up to the idle timeout.
    pub(crate) fn set_pause(&mut self, pause: Option<u16>) {
        self.longest = self.idle_timeout.min(pause.unwrap_or(u16::MAX));
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

    fn places(&self, hash: u64) -> [usize; 4] {
        places(hash, self.mask)
    }

    /// The cache as one batch sees it. Not inlined: what the compiler knows of the memory's alignment it would check for every packet.
    #[inline(never)]
    pub(crate) fn table(&mut self, second: u64) -> Table<'_> {
        let (mask, longest) = (self.mask, self.longest);
        Table { entries: self.entries_mut(), mask, longest, now: stamp(second) }
    }

    /// The rewrite of a flow that is not gone, and the seconds that it has been silent for.
    pub(crate) fn find(&self, key: &FlowKey, hash: u64, second: u64) -> Option<(RewriteRef, u16)> {
        let entry = &self.entries()[self.own_place(key, hash)?];
        let silent = age(stamp(second), entry.last_seen());
        (silent <= self.idle_timeout).then(|| (entry.rewrite(), silent))
    }

    /// Marks a flow as seen, after however much silence.
    pub(crate) fn mark(&mut self, key: &FlowKey, hash: u64, second: u64) {
        if let Some(place) = self.own_place(key, hash) {
            self.entries_mut()[place].seen(stamp(second), u16::MAX);
        }
    }

    /// Whether a new flow would have to take the place of one that has sent within a pause.
    pub(crate) fn is_crowded(
        &self,
        key: &FlowKey,
        hash: u64,
        second: u64,
        hash_of: impl Fn(&FlowKey) -> u64,
    ) -> bool {
        let now = stamp(second);
        match self.room(key, hash, now, hash_of) {
            Room::Evicted(victim) => age(now, self.entries()[victim].last_seen()) <= self.longest,
            _ => false,
        }
    }

    fn own_place(&self, key: &FlowKey, hash: u64) -> Option<usize> {
        let holds = |place: &usize| self.entries()[*place].holds(key) && !self.entries()[*place].is_free();
        self.places(hash).into_iter().find(holds)
    }

    /// Where a flow goes.
    fn room(&self, key: &FlowKey, hash: u64, now: u16, hash_of: impl Fn(&FlowKey) -> u64) -> Room {
        let (entries, places) = (self.entries(), self.places(hash));
        let free = |places: [usize; 4]| places.into_iter().find(|place| entries[*place].is_free());
        if let Some(place) = self.own_place(key, hash).or_else(|| free(places)) {
            return Room::Free(place);
        }
        let silent = |place: usize| age(now, entries[place].last_seen());
        // The last one of equals.
        let oldest = |a, b| if silent(b) >= silent(a) { b } else { a };
        let victim = places.into_iter().fold(places[0], oldest);
        if silent(victim) > self.idle_timeout {
            return Room::Expired(victim);
        }
        for resident in places {
            if let Some(to) = free(self.places(hash_of(&entries[resident].key()))) {
                return Room::Moved { resident, to };
            }
        }
        Room::Evicted(victim)
    }

    /// Stores a flow, in place of its own stale entry if there is one.
    pub(crate) fn insert(
        &mut self,
        key: &FlowKey,
        hash: u64,
        rewrite: RewriteRef,
        second: u64,
        hash_of: impl Fn(&FlowKey) -> u64,
    ) -> Inserted {
        let now = stamp(second);
        let [a, b, c, d, e, f, g] = key.0;
        let new = Entry([a, b, c, d, e, f, g, rewrite.to_bits() | u64::from(now) << 48]);
        let room = self.room(key, hash, now, hash_of);
        let entries = self.entries_mut();
        let (place, inserted) = match room {
            Room::Free(place) => (place, Inserted::Free),
            Room::Expired(place) => (place, Inserted::Expired),
            Room::Moved { resident, to } => {
                entries[to] = entries[resident];
                (resident, Inserted::Free)
            }
            Room::Evicted(place) => (place, Inserted::Evicted),
        };
        entries[place] = new;
        inserted
    }

    /// Frees the entries from `start` on, at most `count`, that have been silent for longer than the idle timeout, and counts the live ones
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const TIMEOUT: u16 = 10;
    /// Shortly before stamps begin anew.
    const START: u64 = 0xffff - 20;

    fn key(number: u16) -> FlowKey {
        FlowKey([u64::from(number), 0, 0, 0, 7, 0, 0])
    }

    fn hash(key: &FlowKey) -> u64 {
        key.table_hash(key.flow_hash(1))
    }

    fn reference(number: u32) -> RewriteRef {
        RewriteRef::from_bits(u64::from(number))
    }

    /// What the cache holds, each key once.
    fn contents(cache: &FlowCache) -> HashMap<FlowKey, RewriteRef> {
        let mut all = HashMap::new();
        for entry in cache.entries().iter().filter(|entry| !entry.is_free()) {
            assert!(
                all.insert(entry.key(), RewriteRef::from_bits(entry.0[7])).is_none(),
                "a flow has one entry"
            );
        }
        all
    }

    /// A flow cache as a map without places.
    #[derive(Default)]
    struct Model {
        flows: HashMap<FlowKey, (RewriteRef, u64)>,
        second: u64,
    }

    impl Model {
        fn is_live(&self, key: &FlowKey) -> bool {
            self.flows.get(key).is_some_and(|(_, seen)| self.second - seen <= u64::from(TIMEOUT))
        }

        /// The one flow that is no longer in the cache, if there is one.
        fn missing(&mut self, cache: &FlowCache) -> Option<(FlowKey, u64)> {
            let held = contents(cache);
            let gone: Vec<FlowKey> =
                self.flows.keys().filter(|key| !held.contains_key(*key)).copied().collect();
            assert!(gone.len() <= 1, "a new flow takes the place of one other at most");
            gone.first().map(|key| (*key, self.flows.remove(key).expect("it was a key of the model").1))
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Lookup(u16),
        Insert(u16, u32),
        Wait(u64),
        Sweep,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u16..40).prop_map(Step::Lookup),
            8 => (0u16..40, any::<u32>()).prop_map(|(key, rewrite)| Step::Insert(key, rewrite)),
            2 => (1u64..8).prop_map(Step::Wait),
            1 => Just(Step::Sweep),
        ]
    }

    fn insert(cache: &mut FlowCache, model: &mut Model, key: FlowKey, rewrite: RewriteRef) {
        let places = cache.places(hash(&key));
        let full = |places: [usize; 4]| places.iter().all(|place| !cache.entries()[*place].is_free());
        let residents: Vec<FlowKey> = places.iter().map(|place| cache.entries()[*place].key()).collect();
        let movable = residents.iter().any(|resident| !full(cache.places(hash(resident))));
        let (known, crowded) = (model.flows.contains_key(&key), full(places));
        let result = cache.insert(&key, hash(&key), rewrite, model.second, hash);
        model.flows.insert(key, (rewrite, model.second));
        let idle = |seen: u64| model.second - seen;
        let gone = {
            let mut before = Model { flows: model.flows.clone(), second: model.second };
            let gone = before.missing(cache);
            model.flows = before.flows;
            gone
        };
        match (result, gone) {
            (Inserted::Free, None) => {
                assert!(known || !crowded || movable, "there was room, or room was made")
            }
            (Inserted::Expired, Some((_, seen))) => assert!(idle(seen) > u64::from(TIMEOUT) && crowded),
            (Inserted::Evicted, Some((gone, seen))) => {
                assert!(idle(seen) <= u64::from(TIMEOUT) && crowded && !movable && !known);
                assert!(residents.contains(&gone), "one of those in its way");
                let others = residents.iter().filter_map(|resident| model.flows.get(resident));
                assert!(
                    others.map(|(_, other)| idle(*other)).all(|other| other <= idle(seen)),
                    "the one silent longest"
                );
            }
            (result, gone) => panic!("{result:?} with {gone:?} gone"),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(size in 0u32..5, steps in prop::collection::vec(step(), 1..200)) {
            let mut cache = FlowCache::new(2 << size, TIMEOUT).unwrap();
            let mut model = Model { second: START, ..Model::default() };
            for step in steps {
                match step {
                    Step::Lookup(number) => {
                        let key = key(number);
                        let found = cache.table(model.second).lookup(&key, hash(&key));
                        let live = model.is_live(&key);
                        prop_assert_eq!(found, model.flows.get(&key).filter(|_| live).map(|(rewrite, _)| *rewrite));
                        let second = model.second;
                        if let Some((_, seen)) = model.flows.get_mut(&key).filter(|_| live) {
                            *seen = second;
                        }
                    }
                    Step::Insert(number, rewrite) => insert(&mut cache, &mut model, key(number), reference(rewrite)),
                    Step::Wait(seconds) => model.second += seconds,
                    Step::Sweep => {
                        let live: Vec<FlowKey> = model.flows.keys().filter(|key| model.is_live(key)).copied().collect();
                        prop_assert_eq!(cache.sweep(0, cache.size(), model.second), live.len());
                        model.flows.retain(|key, _| live.contains(key));
                    }
                }
                let held: HashMap<_, _> = model.flows.iter().map(|(key, (rewrite, _))| (*key, *rewrite)).collect();
                prop_assert_eq!(contents(&cache), held);
            }
        }
    }

    /// Idle and live on either side of the timeout, across the second in which stamps begin anew.
    #[test]
    fn a_flow_lives_for_the_idle_timeout() {
        for start in (0xffff - 15)..=0xffff {
            let mut cache = FlowCache::new(16, TIMEOUT).unwrap();
            let last = start + u64::from(TIMEOUT);
            cache.insert(&key(1), hash(&key(1)), reference(9), start, hash);
            cache.insert(&key(2), hash(&key(2)), reference(8), start, hash);
            assert_eq!(cache.table(last).lookup(&key(1), hash(&key(1))), Some(reference(9)));
            assert_eq!(cache.table(last + 1).lookup(&key(2), hash(&key(2))), None);
            assert_eq!(
                cache.table(last + 1).lookup(&key(1), hash(&key(1))),
                Some(reference(9)),
                "it was seen since"
            );
        }
    }

    /// A flow that paused is not looked up, but found with how long it was silent; marked, it is looked up again.
    #[test]
    fn a_flow_that_paused_is_found_but_not_looked_up() {
        let mut cache = FlowCache::new(16, TIMEOUT).unwrap();
        let (key, hash_of_key) = (key(1), hash(&key(1)));
        cache.set_pause(Some(2));
        cache.insert(&key, hash_of_key, reference(9), START, hash);
        assert_eq!(cache.table(START + 2).lookup(&key, hash_of_key), Some(reference(9)));
        let later = START + 5;
        assert_eq!(cache.table(later).lookup(&key, hash_of_key), None);
        assert_eq!(cache.find(&key, hash_of_key, later), Some((reference(9), 3)), "not marked by that");
        cache.mark(&key, hash_of_key, later);
        assert_eq!(cache.table(later + 2).lookup(&key, hash_of_key), Some(reference(9)));
        assert_eq!(cache.find(&key, hash_of_key, later + 3 + u64::from(TIMEOUT)), None, "gone");
        cache.set_pause(None);
        let last = later + 2 + u64::from(TIMEOUT);
        assert_eq!(cache.table(last).lookup(&key, hash_of_key), Some(reference(9)));
    }

    /// Crowded: every place is taken by a flow that sends, and none of those can go elsewhere.
    #[test]
    fn a_flow_is_crowded_out_only_by_flows_that_send() {
        let mut cache = FlowCache::new(2, TIMEOUT).unwrap();
        cache.set_pause(Some(2));
        let crowded = |cache: &FlowCache, number, second| {
            cache.is_crowded(&key(number), hash(&key(number)), second, hash)
        };
        for number in 0..2 {
            assert!(!crowded(&cache, number, 100));
            cache.insert(&key(number), hash(&key(number)), reference(1), 100, hash);
        }
        assert!(!crowded(&cache, 1, 100), "it has a place of its own");
        assert!(crowded(&cache, 2, 102));
        assert!(!crowded(&cache, 2, 103), "both have paused");
        assert_eq!(cache.insert(&key(2), hash(&key(2)), reference(1), 103, hash), Inserted::Evicted);
    }

    #[test]
    fn sweeps_add_up() {
        let mut cache = FlowCache::new(64, TIMEOUT).unwrap();
        for number in 0..20 {
            cache.insert(&key(number), hash(&key(number)), reference(1), 100 + u64::from(number), hash);
        }
        let live = |second| (0..20).filter(|number| second - (100 + number) <= u64::from(TIMEOUT)).count();
        for second in [119, 121, 129] {
            let counted: usize = (0..64).step_by(8).map(|start| cache.sweep(start, 8, second)).sum();
            assert_eq!((counted, contents(&cache).len()), (live(second), live(second)));
        }
        assert_eq!(live(129), 1, "the flow of second 119 is the last");
    }

    /// The key of all zeros is like any other, and no entry of an empty cache is taken for it.
    #[test]
    fn the_key_of_zeros_is_not_found_in_an_empty_cache() {
        let mut cache = FlowCache::new(2, TIMEOUT).unwrap();
        let zero = FlowKey::default();
        for second in [0, 1, 0xfffe, 0xffff] {
            assert_eq!(cache.table(second).lookup(&zero, hash(&zero)), None);
        }
        assert_eq!(cache.insert(&zero, hash(&zero), reference(0), 5, hash), Inserted::Free);
        assert_eq!(cache.table(5).lookup(&zero, hash(&zero)), Some(reference(0)));
    }
}
