//! Moves flows from loaded TEPs to others, where flows are placed by load and the document asks for it (`rebalance`).
//!
//! A flow is placed before anybody knows what it will carry. Those that become large may so have one TEP in common while another carries
//! next to nothing. Therefore each worker looks every [`INTERVAL`] at what its rewrites carried meanwhile, and turns the one whose move evens
//! the TEPs out most to another tunnel of its group. The flows that share the rewrite (those of a workload to one next hop) move with it, the
//! flow cache stays as it is, and a packet that overtakes others on the way is the price, once for a move.
//!
//! A move takes what is moved from one TEP, which keeps `rest`, to another, which has `there`. Squares of loads sum up to less exactly where
//! `there` is less than `rest`, so moves end. Asking for more than that keeps flows that are about even where they are.

use std::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayVec;
use sluice_intent::plan::{MAX_TEP_GROUP, Placement, Teaming};

use super::{Ledger, State};
use crate::snapshot::{TunnelGroup, TunnelId};
use crate::tep_load::Counted;

/// Nanoseconds between two looks: several round trips of a connection that fills queues on its way.
const INTERVAL: u64 = 500_000_000;
/// Bytes in an interval below which nothing is worth a move: 1 Mb/s.
const LEAST: u64 = 62_500;

/// What is to be moved.
struct Move {
    slot: usize,
    to: TunnelId,
    /// By how much the sum of the squares of the loads falls, halved.
    gain: f64,
}

impl State {
    /// Looks, if it is time, and moves one rewrite at most. Of several workers one moves at a time.
    pub(super) fn rebalance(&mut self) {
        let counted = Counted::by(&self.snapshot, &self.workers, self.now);
        if self.now.nanos_since(self.loads.looked()) < INTERVAL {
            return;
        }
        let turn = (self.now.as_nanos() / INTERVAL) as usize % self.workers.len().max(1);
        let is_own = |worker| Arc::ptr_eq(worker, &self.counters);
        let best = self.workers.get(turn).is_some_and(is_own).then(|| self.best_move(counted)).flatten();
        self.loads.look(counted);
        self.rewrites.forget_carried();
        if let Some(Move { slot, to, .. }) = best {
            let Self { snapshot, counters, logical, rewrites, neighbors, .. } = self;
            let ledger = Ledger { snapshot, counters, logical };
            rewrites.turn(slot, to, snapshot, neighbors, |rewrite, compiled| ledger.add(rewrite, compiled));
        }
    }

    fn best_move(&self, counted: Counted<'_>) -> Option<Move> {
        let large = self.rewrites.carried().filter(|(_, _, bytes)| *bytes >= LEAST);
        let moves = large.filter_map(|(slot, own, bytes)| self.move_of(slot, own, bytes as f64, counted));
        moves.max_by(|left, right| left.gain.total_cmp(&right.gain))
    }

    /// The best move of a rewrite that carried so many bytes through a tunnel.
    fn move_of(&self, slot: usize, own: TunnelId, bytes: f64, counted: Counted<'_>) -> Option<Move> {
        let snapshot = &self.snapshot;
        let from = snapshot.tunnel(own);
        let group = snapshot.tunnel_group(from.group);
        if group.teaming != Teaming::Group(Placement::LoadAware) {
            return None;
        }
        let remotes = self.carried_to(group, counted);
        // What others carry at both ends of a tunnel.
        let others = |id: TunnelId| {
            let tunnel = snapshot.tunnel(id);
            let remote =
                remotes.iter().find(|(remote, _)| *remote == tunnel.remote).map_or(0.0, |found| found.1);
            let shared = u8::from(tunnel.tep == from.tep) + u8::from(tunnel.remote == from.remote);
            self.loads.carried_by_tep(tunnel.tep, counted) + remote - f64::from(shared) * bytes
        };
        let usable = |id: &TunnelId| snapshot.tunnel_states().is_usable(snapshot.tunnel(*id));
        let (there, to) = group
            .tunnels()
            .filter(usable)
            .map(|id| (others(id), id))
            .min_by(|(left, _), (right, _)| left.total_cmp(right))?;
        let falls = others(own) - there;
        (falls > bytes / 2.0).then_some(Move { slot, to, gain: falls * bytes })
    }

    /// What went to each remote TEP of a group since the last look.
    fn carried_to(
        &self,
        group: &TunnelGroup,
        counted: Counted<'_>,
    ) -> ArrayVec<(IpAddr, f64), MAX_TEP_GROUP> {
        let mut remotes: ArrayVec<(IpAddr, f64), MAX_TEP_GROUP> = ArrayVec::new();
        for tunnel in group.tunnels().map(|id| self.snapshot.tunnel(id)) {
            let bytes = self.loads.carried_by_pair(tunnel.pair, counted);
            match remotes.iter_mut().find(|(remote, _)| *remote == tunnel.remote) {
                Some((_, all)) => *all += bytes,
                None => remotes.push((tunnel.remote, bytes)),
            }
        }
        remotes
    }
}
