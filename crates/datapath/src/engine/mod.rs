//! The engine of one worker: batches in, rewritten packets out.
//!
//! ```text
//! process ─→ parse all ─→ look all up ─→ replay each ──────────────→ Transmit::transmit
//!            (prefetch     (prefetch          └ miss: slow path (slow.rs): decide, cache, replay,
//!             buckets)      rewrites)                 answer, replicate, punt or drop
//! ```
//!
//! Each worker owns an engine; nothing in it is shared but the snapshot and the neighbours, which are immutable, and the counters,
//! which only it writes. Nothing here allocates, locks or blocks once the engine is made.

mod slow;

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluice_intent::plan::{GatewayIndex, PortIndex};

use crate::buffer::{BATCH, PacketBuffer, Transmit};
use crate::counters::{EngineCounters, LogicalCounters};
use crate::drops::DropReason;
use crate::flow_cache::FlowCache;
use crate::neighbor::NeighborTable;
use crate::parse::{self, Parsed};
use crate::pipeline::View;
use crate::rewrite::compiled::Compiled;
use crate::rewrite::table::{RewriteRef, RewriteTable};
use crate::rewrite::{Egress, Rewrite};
use crate::snapshot::{RouterId, Snapshot};
use crate::time::Timestamp;
use slow::TokenBucket;

/// ICMP errors that a worker sends in a second at most, and in one burst (RFC 1812 section 4.3.2.8).
const ERRORS_PER_SECOND: u64 = 1000;
/// Cache entries and rewrites that one call of [`Engine::housekeeping`] looks at.
const HOUSEKEEPING_STEP: usize = 1024;

/// What an engine is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Whether decisions are cached.
    pub flow_cache: bool,
    /// Flows that the cache holds, a power of two up to [`crate::flow_cache::MAX_SIZE`].
    pub flow_cache_size: usize,
    /// Seconds without a packet after which a flow is forgotten.
    pub idle_timeout: u16,
}

/// The engine of one worker; see the [module](self).
pub struct Engine {
    state: State,
    scratch: Box<Scratch>,
}

/// What the stages share.
struct State {
    snapshot: Arc<Snapshot>,
    neighbors: Arc<NeighborTable>,
    cache: FlowCache,
    cache_enabled: bool,
    idle_timeout: u16,
    rewrites: RewriteTable,
    counters: Arc<EngineCounters>,
    logical: Arc<LogicalCounters>,
    errors: TokenBucket,
    swept: usize,
    live_flows: usize,
    now: Timestamp,
}

/// What the stages leave for each other, by position in the batch.
struct Scratch {
    parsed: [Parsed; BATCH],
    flow_hash: [u64; BATCH],
    table_hash: [u64; BATCH],
    outcome: [Outcome; BATCH],
}

/// How far a packet came in the first two stages.
#[derive(Clone, Copy)]
enum Outcome {
    Hit(RewriteRef),
    Miss,
    Drop(DropReason),
}

impl Engine {
    /// An engine for a snapshot. Allocates all the memory it will ever use; fails only where the system has none to give.
    pub fn new(
        config: EngineConfig,
        snapshot: Arc<Snapshot>,
        neighbors: Arc<NeighborTable>,
        counters: Arc<EngineCounters>,
        logical: Arc<LogicalCounters>,
    ) -> std::io::Result<Self> {
        let cache = FlowCache::new(config.flow_cache_size, config.idle_timeout)?;
        counters.cache_size.set(cache.size() as u64);
        let state = State {
            snapshot,
            neighbors,
            cache,
            cache_enabled: config.flow_cache,
            idle_timeout: config.idle_timeout,
            rewrites: RewriteTable::new(),
            counters,
            logical,
            errors: TokenBucket::full(ERRORS_PER_SECOND),
            swept: 0,
            live_flows: 0,
            now: Timestamp::default(),
        };
        let scratch = Box::new(Scratch {
            parsed: [Parsed::default(); BATCH],
            flow_hash: [0; BATCH],
            table_hash: [0; BATCH],
            outcome: [Outcome::Miss; BATCH],
        });
        Ok(Self { state, scratch })
    }

    /// Takes a new snapshot, with counters made for it, from the next packet on. Returns what was replaced, so that its memory is given back elsewhere.
    pub fn install(
        &mut self,
        snapshot: Arc<Snapshot>,
        logical: Arc<LogicalCounters>,
    ) -> (Arc<Snapshot>, Arc<LogicalCounters>) {
        let state = &mut self.state;
        let old = Arc::clone(&state.logical);
        state.rewrites.clear(|rewrite, compiled| account(&old, rewrite, compiled));
        (std::mem::replace(&mut state.snapshot, snapshot), std::mem::replace(&mut state.logical, logical))
    }

    /// Takes a new table of neighbours, from the next packet on. Returns the one that was replaced.
    pub fn set_neighbors(&mut self, neighbors: Arc<NeighborTable>) -> Arc<NeighborTable> {
        let state = &mut self.state;
        let logical = &state.logical;
        state
            .rewrites
            .drop_stale_neighbors(&neighbors, |rewrite, compiled| account(logical, rewrite, compiled));
        std::mem::replace(&mut state.neighbors, neighbors)
    }

    /// Turns the flow cache on or off.
    pub fn enable_flow_cache(&mut self, enabled: bool) {
        self.state.cache_enabled = enabled;
    }

    /// The snapshot in use.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.state.snapshot
    }

    /// Processes a batch that came in on `port` at `now`. The batch is empty afterwards.
    #[inline]
    pub fn process<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        port: PortIndex,
        batch: &mut ArrayVec<B, BATCH>,
        now: Timestamp,
        io: &mut T,
    ) {
        let Self { state, scratch } = self;
        state.now = now;
        let seed = state.snapshot.seed();
        let mut table = state.cache.table(now.as_secs());
        for (position, buffer) in batch.iter().enumerate() {
            let parsed = &mut scratch.parsed[position];
            match parse::parse(&state.snapshot, port, buffer.data(), parsed) {
                Ok(()) => {
                    let flow_hash = parsed.key.flow_hash(seed);
                    let table_hash = parsed.key.table_hash(flow_hash);
                    table.prefetch(table_hash);
                    scratch.flow_hash[position] = flow_hash;
                    scratch.table_hash[position] = table_hash;
                    scratch.outcome[position] = Outcome::Miss;
                }
                Err(reason) => scratch.outcome[position] = Outcome::Drop(reason),
            }
        }
        if state.cache_enabled {
            for position in 0..batch.len() {
                if let Outcome::Miss = scratch.outcome[position]
                    && let Some(found) =
                        table.lookup(&scratch.parsed[position].key, scratch.table_hash[position])
                {
                    state.rewrites.prefetch(found);
                    scratch.outcome[position] = Outcome::Hit(found);
                }
            }
        }
        let mut hits = 0;
        let received = batch.len();
        for (position, mut buffer) in batch.drain(..).enumerate() {
            let (parsed, flow_hash) = (&scratch.parsed[position], scratch.flow_hash[position]);
            match scratch.outcome[position] {
                Outcome::Hit(reference) => {
                    if let Some(rewrite) = state.rewrites.get(reference)
                        && rewrite.replay(&mut buffer, parsed, flow_hash).is_ok()
                    {
                        hits += 1;
                        rewrite.packets += 1;
                        rewrite.bytes += buffer.data().len() as u64;
                        io.transmit(rewrite.port, buffer);
                    } else {
                        state.miss(port, parsed, flow_hash, scratch.table_hash[position], buffer, io);
                    }
                }
                Outcome::Miss => {
                    state.miss(port, parsed, flow_hash, scratch.table_hash[position], buffer, io)
                }
                Outcome::Drop(reason) => state.discard(reason, buffer, io),
            }
        }
        state.counters.received.add(received as u64);
        state.counters.cache_hits.add(hits);
    }

    /// Sends a packet that a gateway of this node originates: an Ethernet frame whose MAC addresses do not matter.
    pub fn originate<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        gateway: GatewayIndex,
        buffer: B,
        now: Timestamp,
        io: &mut T,
    ) {
        self.state.now = now;
        self.state.originate(RouterId(gateway.0), buffer, io);
    }

    /// Brings the shared counters up to date and forgets what is out of use, a bounded part at each call. Workers call it every few
    /// milliseconds, between batches.
    pub fn housekeeping(&mut self, now: Timestamp) {
        let state = &mut self.state;
        let (second, logical) = (now.as_secs(), &state.logical);
        state.rewrites.collect(
            HOUSEKEEPING_STEP,
            second,
            u64::from(state.idle_timeout),
            |rewrite, compiled| {
                account(logical, rewrite, compiled);
            },
        );
        state.live_flows += state.cache.sweep(state.swept, HOUSEKEEPING_STEP, second);
        state.swept += HOUSEKEEPING_STEP;
        if state.swept >= state.cache.size() {
            state.counters.cache_flows.set(state.live_flows as u64);
            (state.swept, state.live_flows) = (0, 0);
        }
        state.counters.rewrites.set(state.rewrites.len() as u64);
    }
}

impl State {
    fn view(&self) -> View<'_> {
        View { snapshot: &self.snapshot, neighbors: &self.neighbors }
    }

    fn discard<B: PacketBuffer, T: Transmit<B>>(&self, reason: DropReason, buffer: B, io: &mut T) {
        self.counters.count_drop(reason);
        io.discard(reason, buffer);
    }
}

/// Adds what a rewrite carried to the counters of the logical network.
fn account(logical: &LogicalCounters, rewrite: &Rewrite, compiled: &Compiled) {
    let add = |traffic: Option<&crate::counters::Traffic>| {
        if let Some(traffic) = traffic {
            traffic.packets.add(compiled.packets);
            traffic.bytes.add(compiled.bytes);
        }
    };
    add(logical.ingress.get(rewrite.ingress.0 as usize));
    if let Egress::Tunnel { tunnel, .. } = rewrite.egress {
        add(logical.tunnels.get(tunnel.0 as usize));
    }
}
