//! Moves flows from loaded TEPs to others, where flows are placed by load and the document asks for it (`rebalance`).
//!
//! A flow is placed before anybody knows what it will carry. Those that become large may so have one TEP in common while another carries
//! next to nothing. Therefore each worker looks every [`INTERVAL`] at what its rewrites carried meanwhile, and turns the one whose move evens
//! the TEPs out most to another tunnel of its group. The flows that share the rewrite (those of a workload to one next hop) move with it, the
//! flow cache stays as it is, and a packet that overtakes others on the way is the price, once for a move.
//!
//! A move takes what is moved from one TEP, which keeps `rest`, to another, which has `there`. Squares of loads sum up to less exactly where
//! `there` is less than `rest`, so moves end. Asking for more than that keeps flows that are about even where they are.
//!
//! A look is spread over many calls of housekeeping, with packets in between: first what the pairs of TEPs carried, [`STEP`] at a time, then
//! the rewrites, as many at a time or as weigh [`WEIGHED`] tunnels.

use sluice_intent::plan::{MAX_TEPS, Placement, Teaming, TepIndex};

use super::{Ledger, State};
use crate::rewrite::table::{Carried, RewriteRef};
use crate::snapshot::{Snapshot, TunnelId};
use crate::tep_load::{Counted, RemoteLoads, TepLoads};

/// Nanoseconds between two looks: several round trips of a connection that fills queues on its way.
const INTERVAL: u64 = 500_000_000;
/// Bytes in an interval below which nothing is worth a move: 1 Mb/s.
const LEAST: u64 = 62_500;
/// Pairs of TEPs or rewrites that one call goes over at most.
const STEP: usize = 1024;
/// Tunnels that one call compares before it leaves further rewrites to the next.
const WEIGHED: usize = 512;

/// A look at what was carried.
pub(super) struct Look {
    /// The interval in which it began.
    interval: u64,
    stage: Stage,
    /// It is this worker's turn to move something: of several workers one does at a time.
    turn: bool,
    /// Bytes that each local TEP sent between the beginning of the look before and that of this one.
    teps: [f64; MAX_TEPS],
    best: Option<Move>,
}

/// How far a look has come.
enum Stage {
    /// The pair that is next.
    Pairs(usize),
    /// The slot of the rewrite that is next.
    Rewrites(usize),
    Over,
}

/// What is to be moved.
struct Move {
    rewrite: RewriteRef,
    to: TunnelId,
    /// By how much the sum of the squares of the loads falls, halved.
    gain: f64,
}

impl Look {
    pub(super) fn new() -> Self {
        Self { interval: 0, stage: Stage::Over, turn: false, teps: [0.0; MAX_TEPS], best: None }
    }

    /// Ends a look at a snapshot that was replaced.
    pub(super) fn abandon(&mut self) {
        (self.stage, self.best) = (Stage::Over, None);
    }
}

impl State {
    /// Goes on with a look, or begins one if it is time; at its end, moves one rewrite at most.
    pub(super) fn rebalance(&mut self) {
        let interval = self.now.as_nanos() / INTERVAL;
        match self.look.stage {
            Stage::Over if interval != self.look.interval => self.begin_look(interval),
            Stage::Over => {}
            Stage::Pairs(first) => {
                let counted = Counted::by(&self.snapshot, &self.workers, self.now);
                let next = self.loads.look_at_pairs(first, STEP, counted);
                self.look.stage = next.map_or(Stage::Rewrites(0), Stage::Pairs);
            }
            Stage::Rewrites(first) => match self.look_at_rewrites(first) {
                Some(next) => self.look.stage = Stage::Rewrites(next),
                None => self.end_look(),
            },
        }
    }

    fn begin_look(&mut self, interval: u64) {
        let turn = interval as usize % self.workers.len().max(1);
        let is_own = |worker| std::sync::Arc::ptr_eq(worker, &self.counters);
        let counted = Counted::by(&self.snapshot, &self.workers, self.now);
        self.look = Look {
            interval,
            stage: Stage::Pairs(0),
            turn: self.workers.get(turn).is_some_and(is_own),
            teps: self.loads.look_at_teps(counted),
            best: None,
        };
    }

    /// Weighs the moves of rewrites from a slot on, and begins to reckon anew what they carry; the slot that is next, none after the last.
    fn look_at_rewrites(&mut self, first: usize) -> Option<usize> {
        let Self { snapshot, loads, rewrites, look, .. } = self;
        let (mut next, mut weighed) = (first, 0);
        while next < (first + STEP).min(rewrites.slots()) && weighed < WEIGHED {
            if let Some(carried) = rewrites.take_carried(next).filter(|carried| carried.bytes >= LEAST)
                && look.turn
            {
                let group = snapshot.tunnel_group(snapshot.tunnel(carried.own).group);
                weighed += group.tunnels().count();
                let better = |found: &Move| look.best.as_ref().is_none_or(|best| found.gain > best.gain);
                if let Some(found) = move_of(snapshot, loads, &look.teps, carried).filter(better) {
                    look.best = Some(found);
                }
            }
            next += 1;
        }
        (next < rewrites.slots()).then_some(next)
    }

    fn end_look(&mut self) {
        self.look.stage = Stage::Over;
        if let Some(Move { rewrite, to, .. }) = self.look.best.take() {
            let Self { snapshot, counters, logical, rewrites, neighbors, .. } = self;
            let ledger = Ledger { snapshot, counters, logical };
            rewrites.turn(rewrite, to, snapshot, neighbors, |rewrite, compiled| {
                ledger.add(rewrite, compiled);
            });
        }
    }
}

/// The best move of a rewrite that carried so much. `teps`: what each local TEP did.
fn move_of(snapshot: &Snapshot, loads: &TepLoads, teps: &[f64; MAX_TEPS], carried: Carried) -> Option<Move> {
    let Carried { rewrite, own, bytes } = carried;
    let bytes = bytes as f64;
    let from = snapshot.tunnel(own);
    let group = snapshot.tunnel_group(from.group);
    if group.teaming != Teaming::Group(Placement::LoadAware) {
        return None;
    }
    let remotes = RemoteLoads::of(snapshot, group, |pair| loads.carried_by_pair(pair));
    let by_tep = |tep: TepIndex| teps.get(tep.index()).copied().unwrap_or_default();
    // What others carry at both ends of a tunnel.
    let others = |id: TunnelId| {
        let tunnel = snapshot.tunnel(id);
        let shared = u8::from(tunnel.tep == from.tep) + u8::from(tunnel.remote == from.remote);
        by_tep(tunnel.tep) + remotes.get(tunnel.remote) - f64::from(shared) * bytes
    };
    let usable = |id: &TunnelId| snapshot.tunnel_states().is_usable(snapshot.tunnel(*id));
    let (there, to) = group
        .tunnels()
        .filter(usable)
        .map(|id| (others(id), id))
        .min_by(|(left, _), (right, _)| left.total_cmp(right))?;
    let falls = others(own) - there;
    (falls > bytes / 2.0).then_some(Move { rewrite, to, gain: falls * bytes })
}
