//! What a worker counts. One writer, the worker; readers never stop it.
//!
//! Every counter is written with a plain store by its only writer and read with a plain load by anybody, so a reader may see one
//! counter of a packet and not yet another.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sluice_intent::plan::MAX_TEPS;

use crate::drops::DropReason;
use crate::punt::PuntKind;
use crate::snapshot::Snapshot;

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Adds to the count. Only the owner of the counter calls this: two writers would lose counts.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Sets a gauge. Only the owner calls this.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

/// Packets and bytes.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Packets.
    pub packets: Counter,
    /// Bytes of their frames, without preamble, frame check sequence and gap.
    pub bytes: Counter,
}

/// What one worker counts for as long as it runs.
#[derive(Debug)]
pub struct EngineCounters {
    drops: Box<[Counter]>,
    /// Packets handed to the control thread, in the order of [`PuntKind::index`].
    pub punts: [Counter; PuntKind::COUNT],
    /// Packets that the engine was given.
    pub received: Counter,
    /// ICMP errors that were not sent because enough had been for now (RFC 1812 section 4.3.2.8). The packets that they were about are
    /// counted as dropped, as those are whose senders were told.
    pub errors_suppressed: Counter,
    /// Packets whose decision was in the flow cache, also if an earlier packet of the same batch has put it there.
    pub cache_hits: Counter,
    /// Packets that had to be decided.
    pub cache_misses: Counter,
    /// Flows put into the cache.
    pub cache_insertions: Counter,
    /// Live flows that had to make room for others.
    pub cache_evictions: Counter,
    /// Decisions that were not cached because the table of rewrites was full.
    pub cache_skips: Counter,
    /// Flows in the cache, by the last complete count.
    pub cache_flows: Counter,
    /// Flows that the cache holds at most.
    pub cache_size: Counter,
    /// Rewrites in use.
    pub rewrites: Counter,
    /// Bytes of inner frames that each local TEP sent, by the TEP's number: up to date within milliseconds.
    pub tep_bytes: [Counter; MAX_TEPS],
    /// Bytes that flows counted in advance when they were placed on each local TEP by load.
    pub(crate) tep_expected: [Counter; MAX_TEPS],
}

impl Default for EngineCounters {
    fn default() -> Self {
        Self {
            drops: DropReason::ALL.iter().map(|_| Counter::default()).collect(),
            punts: Default::default(),
            received: Counter::default(),
            errors_suppressed: Counter::default(),
            cache_hits: Counter::default(),
            cache_misses: Counter::default(),
            cache_insertions: Counter::default(),
            cache_evictions: Counter::default(),
            cache_skips: Counter::default(),
            cache_flows: Counter::default(),
            cache_size: Counter::default(),
            rewrites: Counter::default(),
            tep_bytes: [const { Counter::new() }; MAX_TEPS],
            tep_expected: [const { Counter::new() }; MAX_TEPS],
        }
    }
}

impl EngineCounters {
    /// Packets dropped for a reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize].get()
    }

    /// Counts a dropped packet. Only the worker that owns the counters calls this.
    #[inline]
    pub fn count_drop(&self, reason: DropReason) {
        self.drops[reason as usize].add(1);
    }
}

/// What one worker counts for the logical network of one snapshot.
#[derive(Debug)]
pub struct LogicalCounters {
    /// What entered, by ingress.
    pub(crate) ingress: Box<[Traffic]>,
    /// What left through each of [`Snapshot::tunnels`].
    pub tunnels: Box<[Traffic]>,
}

impl LogicalCounters {
    /// Zeroed counters for a snapshot.
    pub fn new(snapshot: &Snapshot) -> Self {
        let zeroed = |count| (0..count).map(|_| Traffic::default()).collect();
        Self { ingress: zeroed(snapshot.ingresses().count()), tunnels: zeroed(snapshot.tunnels().len()) }
    }
}
