//! The engine of one worker: batches in, rewritten packets out.
//!
//! ```text
//! process ─→ parse all ─→ look all up ─→ replay each ──────────────→ Transmit::transmit
//!            (prefetch     (prefetch          └ miss (miss.rs): decide, cache, replay
//!             buckets)      rewrites)              └ slow path (slow.rs): answer, replicate, punt or drop
//! ```
//!
//! Each worker owns an engine; nothing in it is shared but the snapshot and the neighbours, which are immutable, and the counters,
//! which only it writes. Nothing here allocates, locks or blocks once the engine is made.

mod miss;
mod rebalance;
mod slow;

use std::sync::Arc;

use arrayvec::ArrayVec;
use sluice_intent::plan::{GatewayIndex, PortIndex};

use self::rebalance::Look;
use crate::buffer::{BATCH, PacketBuffer, Transmit};
use crate::counters::{EngineCounters, LogicalCounters};
use crate::drops::DropReason;
use crate::flow_cache::FlowCache;
use crate::neighbor::NeighborTable;
use crate::parse::{Entrance, Parsed, RecentTunnels};
use crate::pipeline::View;
use crate::profile::Stage;
use crate::rewrite::compiled::Compiled;
use crate::rewrite::table::{RewriteRef, RewriteTable};
use crate::rewrite::{Egress, Rewrite};
use crate::snapshot::{RouterId, Snapshot};
use crate::tep_load::{Counted, TepLoads};
use crate::time::Timestamp;
use crate::token_bucket::TokenBucket;

/// ICMP errors that a worker sends in a second at most, and in one burst (RFC 1812 section 4.3.2.8).
const ERRORS_PER_SECOND: u64 = 1000;
/// Cache entries and rewrites that one call of [`Engine::housekeeping`] looks at.
const HOUSEKEEPING_STEP: usize = 1024;

/// Seconds of silence after which a flow that was placed by load is placed anew: more than the ways to any node differ by, so that nothing of
/// it is overtaken.
const PAUSE: u16 = 2;

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

/// A snapshot and what each worker has of its own for it. The control thread makes it, so that the worker need not, and takes back what
/// it replaced.
pub struct Installation {
    snapshot: Arc<Snapshot>,
    logical: Arc<LogicalCounters>,
    rewrites: RewriteTable,
    loads: TepLoads,
}

impl Installation {
    /// A snapshot to be installed, with counters made for it.
    pub fn new(snapshot: Arc<Snapshot>, logical: Arc<LogicalCounters>) -> Self {
        let loads = TepLoads::new(snapshot.pair_traffic().len());
        let rewrites = RewriteTable::new(rebalances(&snapshot));
        Self { snapshot, logical, rewrites, loads }
    }

    /// The snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Ends one that was replaced: adds what it carried since housekeeping last looked to its counters, and returns those.
    pub fn settle(self) -> (Arc<Snapshot>, Arc<LogicalCounters>) {
        for (rewrite, compiled) in self.rewrites.iter() {
            account(&self.logical, rewrite, compiled);
        }
        (self.snapshot, self.logical)
    }
}

/// The engine of one worker; see the [module](self).
pub struct Engine {
    state: State,
    scratch: Box<[Prepared; BATCH]>,
}

/// What the stages share.
struct State {
    snapshot: Arc<Snapshot>,
    neighbors: Arc<NeighborTable>,
    cache: FlowCache,
    cache_enabled: bool,
    idle_timeout: u16,
    rewrites: RewriteTable,
    recent: RecentTunnels,
    counters: Arc<EngineCounters>,
    logical: Arc<LogicalCounters>,
    errors: TokenBucket,
    /// The version of the tunnels' states that the rewrites follow.
    tunnel_states: u32,
    /// Version of the states of next hops that the rewrites are those of.
    next_hops: u32,
    loads: TepLoads,
    look: Look,
    /// What every worker of the node counts, this one among them.
    workers: Arc<[Arc<EngineCounters>]>,
    swept: usize,
    live_flows: usize,
    now: Timestamp,
}

/// What the stages leave for each other of one packet.
#[derive(Clone, Copy)]
struct Prepared {
    parsed: Parsed,
    flow_hash: u64,
    table_hash: u64,
    outcome: Outcome,
    /// Why the packet is dropped, where the outcome is that.
    reason: DropReason,
}

/// How far a packet came in the first two stages: the bits of a [`RewriteRef`], or one of the constants. One word, because it is
/// written and read for every packet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Outcome(u64);

impl Outcome {
    const MISS: Self = Self(u64::MAX);
    const DROP: Self = Self(u64::MAX - 1);

    fn rewrite(self) -> Option<RewriteRef> {
        (self.0 < Self::DROP.0).then(|| RewriteRef::from_bits(self.0))
    }
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
        let (tunnel_states, next_hops) = (snapshot.tunnel_states().version(), snapshot.next_hops().version());
        let workers = Arc::new([Arc::clone(&counters)]);
        let loads = TepLoads::new(snapshot.pair_traffic().len());
        let rewrites = RewriteTable::new(rebalances(&snapshot));
        let state = State {
            snapshot,
            neighbors,
            cache,
            cache_enabled: config.flow_cache,
            idle_timeout: config.idle_timeout,
            rewrites,
            recent: RecentTunnels::new(),
            counters,
            logical,
            errors: TokenBucket::full(ERRORS_PER_SECOND, ERRORS_PER_SECOND),
            tunnel_states,
            next_hops,
            loads,
            look: Look::new(),
            workers,
            swept: 0,
            live_flows: 0,
            now: Timestamp::default(),
        };
        let empty = Prepared {
            parsed: Parsed::default(),
            flow_hash: 0,
            table_hash: 0,
            outcome: Outcome::MISS,
            reason: DropReason::Consumed,
        };
        let mut engine = Self { state, scratch: Box::new([empty; BATCH]) };
        engine.state.set_pause();
        Ok(engine)
    }

    /// Places flows by what these workers carry together, this one among them. Without it, by what this one carries.
    pub fn share_loads(&mut self, workers: Arc<[Arc<EngineCounters>]>) {
        self.state.workers = workers;
    }

    /// Takes a new snapshot with what belongs to it, from the next packet on, and leaves what was replaced: a few moves, however much there is.
    pub fn install(&mut self, next: &mut Installation) {
        let state = &mut self.state;
        next.rewrites.succeed(&mut state.rewrites, Arc::clone(state.snapshot.tunnels_arc()));
        next.loads.succeed(&state.loads);
        state.recent.clear();
        std::mem::swap(&mut state.snapshot, &mut next.snapshot);
        std::mem::swap(&mut state.logical, &mut next.logical);
        std::mem::swap(&mut state.rewrites, &mut next.rewrites);
        std::mem::swap(&mut state.loads, &mut next.loads);
        state.tunnel_states = state.snapshot.tunnel_states().version();
        state.next_hops = state.snapshot.next_hops().version();
        state.look.abandon();
        state.set_pause();
    }

    /// Takes a new table of neighbours, from the next packet on. Returns the one that was replaced.
    pub fn set_neighbors(&mut self, neighbors: Arc<NeighborTable>) -> Arc<NeighborTable> {
        let state = &mut self.state;
        let State { snapshot, counters, logical, rewrites, .. } = state;
        let ledger = Ledger { snapshot, counters, logical };
        let version = state.neighbors.version();
        rewrites.drop_stale_neighbors(&neighbors, version, |rewrite, compiled| ledger.add(rewrite, compiled));
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
        let prepared = &mut scratch[..batch.len()];
        state.now = now;
        if state.snapshot.tunnel_states().version() != state.tunnel_states {
            state.follow_tunnels();
        }
        state.counters.received.add(batch.len() as u64);
        let outer = io.enter(Stage::Parse, batch.len());
        state.prepare(port, batch, prepared);
        if state.cache_enabled {
            io.enter(Stage::FlowCache, batch.len());
            state.look_up(prepared);
        }
        io.enter(Stage::Rewrite, 0);
        let mut hits = 0;
        for (mut buffer, packet) in batch.drain(..).zip(prepared) {
            if let Some(reference) = packet.outcome.rewrite()
                && let Some(rewrite) = state.rewrites.get(reference)
                && let Ok(length) = rewrite.replay(&mut buffer, &packet.parsed, packet.flow_hash)
            {
                hits += 1;
                rewrite.packets += 1;
                rewrite.bytes += length as u64;
                io.transmit(rewrite.port, buffer);
            } else if packet.outcome == Outcome::DROP {
                state.discard(packet.reason, buffer, io);
            } else {
                state.miss(port, packet, buffer, io);
            }
        }
        io.amend(Stage::Rewrite, hits);
        io.enter(outer, 0);
        state.counters.cache_hits.add(hits as u64);
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
        let outer = io.enter(Stage::Answer, 1);
        self.state.originate(RouterId(gateway.0), buffer, io);
        io.enter(outer, 0);
    }

    /// Brings the shared counters up to date and forgets what is out of use, a bounded part at each call. Workers call it every few
    /// milliseconds, between batches.
    pub fn housekeeping(&mut self, now: Timestamp) {
        let second = now.as_secs();
        let state = &mut self.state;
        state.now = now;
        let State { snapshot, counters, logical, rewrites, .. } = state;
        let ledger = Ledger { snapshot, counters, logical };
        let timeout = u64::from(state.idle_timeout);
        rewrites
            .collect(HOUSEKEEPING_STEP, second, timeout, |rewrite, compiled| ledger.add(rewrite, compiled));
        if state.is_placing_by_load() {
            state.loads.keep_up(Counted::by(&state.snapshot, &state.workers, now));
            if rebalances(&state.snapshot) {
                state.rebalance();
            }
        }
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
    /// Parses a batch, and has the cache lines that most likely hold its flows brought on their way.
    #[inline(always)]
    fn prepare<B: PacketBuffer>(&mut self, port: PortIndex, batch: &[B], prepared: &mut [Prepared]) {
        let Self { snapshot, cache, recent, now, .. } = self;
        let Some(entrance) = Entrance::of(snapshot, port) else {
            for packet in prepared {
                (packet.outcome, packet.reason) = (Outcome::DROP, DropReason::UnknownVlan);
            }
            return;
        };
        let seed = snapshot.seed();
        let table = cache.table(now.as_secs());
        for (buffer, packet) in batch.iter().zip(prepared) {
            match entrance.parse(buffer.data(), recent, &mut packet.parsed) {
                Ok(()) => {
                    packet.flow_hash = packet.parsed.key.flow_hash(seed);
                    packet.table_hash = packet.parsed.key.table_hash(packet.flow_hash);
                    packet.outcome = Outcome::MISS;
                    table.prefetch(packet.table_hash);
                }
                Err(reason) => (packet.outcome, packet.reason) = (Outcome::DROP, reason),
            }
        }
    }

    /// Looks up what was parsed, and has the rewrites that were found brought on their way.
    #[inline(always)]
    fn look_up(&mut self, prepared: &mut [Prepared]) {
        let Self { cache, rewrites, now, .. } = self;
        let mut table = cache.table(now.as_secs());
        for packet in prepared {
            if packet.outcome == Outcome::MISS
                && let Some(found) = table.lookup(&packet.parsed.key, packet.table_hash)
            {
                rewrites.prefetch(found);
                packet.outcome = Outcome(found.to_bits());
            }
        }
    }

    /// Turns the rewrites through tunnels that are not usable any more to others, and those that gave way back. Their flows go on as they are
    /// in the cache. A bounded part of them at once; the rest is decided again when it is met.
    #[cold]
    fn follow_tunnels(&mut self) {
        self.tunnel_states = self.snapshot.tunnel_states().version();
        let Self { snapshot, counters, logical, rewrites, neighbors, .. } = self;
        let ledger = Ledger { snapshot, counters, logical };
        let next_hops = snapshot.next_hops().version();
        if std::mem::replace(&mut self.next_hops, next_hops) != next_hops {
            rewrites.drop_equal_cost(snapshot, |rewrite, compiled| ledger.add(rewrite, compiled));
        }
        rewrites.follow_tunnels(snapshot, neighbors, |rewrite, compiled| ledger.add(rewrite, compiled));
    }

    /// Has flows that paused come to the slow path, where they may be placed anew.
    fn set_pause(&mut self) {
        let pause = self.is_placing_by_load().then_some(PAUSE);
        self.cache.set_pause(pause);
    }

    fn ledger(&self) -> Ledger<'_> {
        Ledger { snapshot: &self.snapshot, counters: &self.counters, logical: &self.logical }
    }

    /// What a decision that is not remembered may depend on.
    fn view(&self) -> View<'_> {
        View { snapshot: &self.snapshot, neighbors: &self.neighbors, kept: None, loads: None }
    }

    fn discard<B: PacketBuffer, T: Transmit<B>>(&self, reason: DropReason, buffer: B, io: &mut T) {
        self.counters.count_drop(reason);
        io.discard(reason, buffer);
    }
}

/// Whether flows that turn out large are moved.
fn rebalances(snapshot: &Snapshot) -> bool {
    snapshot.plan().tep_group.is_some_and(|group| group.rebalance)
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

/// What a worker adds traffic to, besides the flow that it is of.
#[derive(Clone, Copy)]
struct Ledger<'a> {
    snapshot: &'a Snapshot,
    counters: &'a EngineCounters,
    logical: &'a LogicalCounters,
}

impl Ledger<'_> {
    /// Adds what a rewrite carried.
    fn add(&self, rewrite: &Rewrite, compiled: &Compiled) {
        account(self.logical, rewrite, compiled);
        if let Egress::Tunnel { tunnel, .. } = rewrite.egress {
            let tunnel = self.snapshot.tunnel(tunnel);
            self.snapshot.pair_traffic().add(tunnel.pair, compiled.bytes);
            if let Some(bytes) = self.counters.tep_bytes.get(tunnel.tep.index()) {
                bytes.add(compiled.bytes);
            }
        }
    }
}
