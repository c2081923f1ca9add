//! What the flow cache has no answer for: a flow that begins, one that has to be decided again, and a packet that its rewrite does not fit.
//!
//! Where flows are placed by load, a decision depends on the moment. A flow keeps its pair of TEPs all the same for as long as it sends, since
//! a packet on another way might overtake others: what its rewrite refuses is sent as its rewrite says ([`Known::Live`]), and where the rewrite
//! has gone, with a snapshot, a neighbour or a next hop, the cache still tells which TEPs it had ([`Known::Sending`]). Only a flow that begins,
//! or begins again after [`PAUSE`], is placed.

use sluice_intent::plan::PortIndex;
use sluice_wire::IpProtocol;

use super::slow::{Slow, replay};
use super::{PAUSE, Prepared, State};
use crate::buffer::{PacketBuffer, Transmit};
use crate::drops::DropReason;
use crate::flow::FlowKey;
use crate::flow_cache::Inserted;
use crate::parse::Parsed;
use crate::pipeline::trace::Profiled;
use crate::pipeline::{Decision, View, decide};
use crate::profile::{Profile, Stage};
use crate::punt::Entry;
use crate::rewrite::compiled::is_unmarkable;
use crate::rewrite::table::RewriteRef;
use crate::rewrite::uses::TepAddresses;
use crate::rewrite::{Egress, Rewrite};
use crate::snapshot::Tunnel;
use crate::tep_load::{Beginning, Counted, LoadsNow};

/// What the flow cache knows of a flow on the slow path.
enum Known {
    /// Its rewrite.
    Live(RewriteRef, Rewrite),
    /// It sends, and its rewrite is gone: the TEPs that it had.
    Sending(TepAddresses),
    /// Nothing, or that it paused for so long that nothing of it is on its way any more.
    Beginning,
}

impl State {
    /// A packet whose flow was not in the cache, or whose rewrite did not fit it.
    #[cold]
    #[inline(never)]
    pub(super) fn miss<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        port: PortIndex,
        packet: &Prepared,
        buffer: B,
        io: &mut T,
    ) {
        self.take_miss(port, packet, buffer, io);
        // Its batch is being replayed.
        io.enter(Stage::Rewrite, 0);
    }

    /// The same, and leaves the profile in whichever stage came last.
    #[inline(always)]
    fn take_miss<B: PacketBuffer, T: Transmit<B>>(
        &mut self,
        port: PortIndex,
        packet: &Prepared,
        mut buffer: B,
        io: &mut T,
    ) {
        let known = self.known(packet, io);
        if let Known::Live(reference, _) = known
            && let Some(port) = self.replay_cached(reference, packet, &mut buffer, io)
        {
            return io.transmit(port, buffer);
        }
        io.enter(Stage::Ingress, 1);
        let Prepared { parsed, flow_hash, table_hash, .. } = *packet;
        self.counters.cache_misses.add(1);
        if is_unmarkable(buffer.data(), &parsed) {
            return self.discard(DropReason::CongestionUnmarkable, buffer, io);
        }
        let slow = Slow { entry: Entry::Port(port), parsed, flow_hash, buffer };
        let kept = match known {
            // What this packet cannot take, the others of its flow can: they stay where they are.
            Known::Live(reference, rewrite) => return self.forward(&rewrite, Some(reference), slow, io),
            Known::Sending(teps) => Some(teps),
            Known::Beginning => None,
        };
        let view = self.placing_view(&parsed.key, table_hash, kept);
        let by_load = view.loads.is_some();
        if let Decision::Forward(rewrite) = decide(view, &parsed.key, None, &mut Profiled(io)) {
            let is_new = by_load && kept.is_none_or(|kept| self.own_teps(&rewrite) != Some(kept));
            let cached = self.remember(&rewrite, &parsed.key, table_hash, io);
            if let Some(reference) = cached.filter(|_| is_new) {
                self.count_in_advance(&rewrite, reference, &slow);
            }
            return self.forward(&rewrite, cached, slow, io);
        }
        // What a router further on would say, a packet that does not live until there is not told.
        let decision = decide(self.view(), &parsed.key, slow.ttl(), &mut Profiled(io));
        io.enter(Stage::Answer, 1);
        self.carry_out(decision, slow, io);
    }

    /// Whether flows are placed by the loads of TEPs.
    pub(super) fn is_placing_by_load(&self) -> bool {
        self.snapshot.pair_traffic().len() > 0
    }

    /// What the flow cache knows of a packet's flow. A flow that begins with a burst is decided for its first packet, and by now the others find
    /// it.
    fn known(&mut self, packet: &Prepared, profile: &mut impl Profile) -> Known {
        if !self.cache_enabled {
            return Known::Beginning;
        }
        profile.enter(Stage::FlowCache, 0);
        let (key, hash, second) = (&packet.parsed.key, packet.table_hash, self.now.as_secs());
        let Some((reference, silent)) = self.cache.find(key, hash, second) else { return Known::Beginning };
        let by_load = self.is_placing_by_load();
        let paused = by_load && silent > PAUSE;
        let Some(rewrite) = self.rewrites.source(reference) else {
            let teps =
                if by_load && !paused { self.rewrites.own_teps(reference, &self.snapshot) } else { None };
            return teps.map_or(Known::Beginning, Known::Sending);
        };
        match rewrite.egress {
            Egress::Tunnel { own, .. } if paused && self.snapshot.is_placed_by_load(own) => Known::Beginning,
            _ => {
                if silent > 0 {
                    self.cache.mark(key, hash, second);
                }
                Known::Live(reference, rewrite)
            }
        }
    }

    /// What a decision that will be remembered may depend on: with the loads of the TEPs, where flows are placed by them. Without, where it could
    /// not be remembered or soon would be forgotten, because the rewrites or the flow cache are full: the flow would be placed by the load of
    /// another moment again and again.
    fn placing_view(&self, key: &FlowKey, table_hash: u64, kept: Option<TepAddresses>) -> View<'_> {
        let second = self.now.as_secs();
        let by_load = self.is_placing_by_load()
            && self.cache_enabled
            && !self.rewrites.is_full()
            && !self.cache.is_crowded(key, table_hash, second, hash_of(self.snapshot.seed()));
        let loads = by_load.then(|| {
            let counted = Counted::by(&self.snapshot, &self.workers, self.now);
            let pending = |reference| self.rewrites.pending(reference);
            LoadsNow {
                known: &self.loads,
                counted,
                companion: self.loads.companion(key.ends(), counted, pending),
            }
        });
        View { kept, loads, ..self.view() }
    }

    /// Replays a flow's rewrite on a packet, and returns the port that it leaves through; none if it does not fit the packet. Counts as a hit.
    fn replay_cached<B: PacketBuffer>(
        &mut self,
        reference: RewriteRef,
        packet: &Prepared,
        buffer: &mut B,
        profile: &mut impl Profile,
    ) -> Option<PortIndex> {
        let rewrite = self.rewrites.get(reference)?;
        profile.enter(Stage::Rewrite, 0);
        let port = replay(rewrite, buffer, &packet.parsed, packet.flow_hash).ok()?;
        profile.amend(Stage::Rewrite, 1);
        self.counters.cache_hits.add(1);
        Some(port)
    }

    /// Puts a decision into the cache, if it is on and the rewrite has room.
    fn remember(
        &mut self,
        rewrite: &Rewrite,
        key: &FlowKey,
        table_hash: u64,
        profile: &mut impl Profile,
    ) -> Option<RewriteRef> {
        if !self.cache_enabled {
            return None;
        }
        profile.enter(Stage::Compile, 1);
        let second = self.now.as_secs();
        let Some(reference) = self.rewrites.intern(rewrite, &self.snapshot, second) else {
            self.counters.cache_skips.add(1);
            return None;
        };
        profile.enter(Stage::Insert, 1);
        let hash_of = hash_of(self.snapshot.seed());
        self.counters.cache_insertions.add(1);
        if self.cache.insert(key, table_hash, reference, second, hash_of) == Inserted::Evicted {
            self.counters.cache_evictions.add(1);
        }
        Some(reference)
    }

    /// The TEPs of a rewrite's own tunnel.
    fn own_teps(&self, rewrite: &Rewrite) -> Option<TepAddresses> {
        let Egress::Tunnel { own, .. } = rewrite.egress else { return None };
        let tunnel = self.snapshot.tunnel(own);
        Some((tunnel.local, tunnel.remote))
    }

    /// Counts what a flow that was placed by load is expected to send.
    fn count_in_advance<B: PacketBuffer>(
        &mut self,
        rewrite: &Rewrite,
        reference: RewriteRef,
        first: &Slow<B>,
    ) {
        let Egress::Tunnel { own, .. } = rewrite.egress else { return };
        let Tunnel { group, tep, pair, .. } = *self.snapshot.tunnel(own);
        let flow = Beginning {
            ends: first.parsed.key.ends(),
            tunnel: own,
            group,
            tep,
            pair,
            rewrite: reference,
            length: first.parsed.network_length,
            opens: opens_connection(first.buffer.data(), &first.parsed),
        };
        let counted = Counted::by(&self.snapshot, &self.workers, self.now);
        let pending = |reference| self.rewrites.pending(reference);
        self.loads.place(flow, counted, &self.counters, pending);
    }
}

/// Whether a packet opens a TCP connection or accepts one: it has the SYN bit (RFC 9293 section 3.1). Behind an IPv6 extension header it is not
/// looked for.
fn opens_connection(data: &[u8], parsed: &Parsed) -> bool {
    const SYN: u8 = 2;
    let tcp = IpProtocol::TCP.0;
    let Some(packet) = data.get(parsed.network()..).filter(|_| parsed.key.protocol().0 == tcp) else {
        return false;
    };
    let flags = match parsed.key.is_ipv6() {
        true if packet.get(6) == Some(&tcp) => packet.get(40 + 13),
        true => None,
        false => packet.first().and_then(|first| packet.get(usize::from(first & 15) * 4 + 13)),
    };
    flags.is_some_and(|flags| flags & SYN != 0)
}

/// The hash of a flow in the cache.
fn hash_of(seed: u64) -> impl Fn(&FlowKey) -> u64 {
    move |key| key.table_hash(key.flow_hash(seed))
}
