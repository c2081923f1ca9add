//! The rewrites in use by one worker, each once.
//!
//! Flows share rewrites: 1,280 flows to 20 workloads need 20. A flow cache entry holds a [`RewriteRef`]; freeing a slot moves its
//! epoch on, so that every entry that still names it misses, whatever the slot holds next. A change of a neighbour costs one walk over a
//! word for each rewrite, none over the flows; a new snapshot brings a table of its own, whose epochs begin behind those of the old.

use std::sync::Arc;

use hashbrown::HashMap;

use super::compiled::Compiled;
use super::uses::{TepAddresses, Uses};
use super::{Egress, EqualCost, Rewrite};
use crate::neighbor::{NeighborId, NeighborTable};
use crate::prefetch::prefetch;
use crate::snapshot::{Snapshot, Tunnel, TunnelId};

/// Rewrites that a worker holds at most. When all are in use, further decisions are replayed without being cached.
pub(crate) const CAPACITY: usize = 1 << 16;

/// Rewrites that are turned to other tunnels in one go, which takes a worker about 100 µs; each further one costs its flows a decision.
const TURNED_AT_ONCE: usize = 1024;

const INDEX_BITS: u32 = 20;
const EPOCH_BITS: u32 = 28;
const EPOCH_MASK: u32 = (1 << EPOCH_BITS) - 1;

/// A use of a slot: its number and the epoch of the use, in 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RewriteRef(u64);

impl RewriteRef {
    /// As the low 48 bits of a word.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// From the low 48 bits of a word.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << (INDEX_BITS + EPOCH_BITS)) - 1))
    }

    fn new(index: usize, epoch: u32) -> Self {
        Self(index as u64 | u64::from(epoch) << INDEX_BITS)
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }

    #[inline]
    pub(super) fn epoch(self) -> u32 {
        (self.0 >> INDEX_BITS) as u32
    }
}

/// What a rewrite has carried through its flows' own tunnel.
#[derive(Clone, Copy)]
pub(crate) struct Carried {
    pub(crate) rewrite: RewriteRef,
    pub(crate) own: TunnelId,
    pub(crate) bytes: u64,
}

/// The rewrites in use; see the [module](self).
pub(crate) struct RewriteTable {
    slots: Vec<Compiled>,
    /// What each slot was compiled from; `None`: free.
    sources: Vec<Option<Rewrite>>,
    /// The neighbour of each, for [`Self::drop_stale_neighbors`].
    neighbors: Vec<Option<NeighborId>>,
    /// Second of the last use that housekeeping saw.
    used: Vec<u64>,
    /// Bytes since [`Self::take_carried`], as far as [`Self::collect`] has taken them; empty where nobody asks.
    carried: Vec<u64>,
    /// Somebody asks.
    reckons: bool,
    uses: Uses,
    free: Vec<u32>,
    /// Where the next call of [`Self::collect`] begins.
    collected: usize,
    /// Epoch of slots that were never freed.
    first_epoch: u32,
    /// The latest epoch of any slot; grows with every slot that is freed.
    latest_epoch: u32,
    index: HashMap<Rewrite, u32, foldhash::fast::RandomState>,
}

impl RewriteTable {
    /// An empty table with memory for all rewrites it may ever hold, so that packets never allocate. `reckons`: what each carries is asked for.
    pub(crate) fn new(reckons: bool) -> Self {
        Self {
            slots: Vec::with_capacity(CAPACITY),
            sources: Vec::with_capacity(CAPACITY),
            neighbors: Vec::with_capacity(CAPACITY),
            used: Vec::with_capacity(CAPACITY),
            carried: Vec::with_capacity(if reckons { CAPACITY } else { 0 }),
            reckons,
            uses: Uses::new(CAPACITY),
            free: Vec::with_capacity(CAPACITY),
            collected: 0,
            first_epoch: 0,
            latest_epoch: 0,
            // Twice the capacity: removals leave tombstones, which are cleared in place while the map is half empty.
            index: HashMap::with_capacity_and_hasher(CAPACITY * 2, foldhash::fast::RandomState::default()),
        }
    }

    /// Rewrites in use.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The slot of a rewrite, compiled now if it is new. `None` if the table is full.
    pub(crate) fn intern(
        &mut self,
        rewrite: &Rewrite,
        snapshot: &Snapshot,
        second: u64,
    ) -> Option<RewriteRef> {
        if let Some(index) = self.index.get(rewrite) {
            let index = *index as usize;
            return Some(RewriteRef::new(index, self.slots[index].epoch));
        }
        let mut compiled = Compiled::new(rewrite, snapshot);
        let index = match self.free.pop() {
            Some(index) => {
                let index = index as usize;
                compiled.epoch = self.slots[index].epoch;
                self.slots[index] = compiled;
                index
            }
            None if self.slots.len() < CAPACITY => {
                compiled.epoch = self.first_epoch;
                self.slots.push(compiled);
                self.sources.push(None);
                self.neighbors.push(None);
                self.used.push(second);
                if self.reckons {
                    self.carried.push(0);
                }
                self.slots.len() - 1
            }
            None => return None,
        };
        self.sources[index] = Some(*rewrite);
        self.neighbors[index] = rewrite.neighbor;
        self.used[index] = second;
        if let Some(carried) = self.carried.get_mut(index) {
            *carried = 0;
        }
        self.uses.begin(index, self.slots[index].epoch, rewrite);
        self.index.insert(*rewrite, index as u32);
        Some(RewriteRef::new(index, self.slots[index].epoch))
    }

    /// The rewrite, if the slot is still in that use.
    #[inline]
    pub(crate) fn get(&mut self, reference: RewriteRef) -> Option<&mut Compiled> {
        // Not Option::filter, which the compiler makes two tests of.
        match self.slots.get_mut(reference.index()) {
            Some(slot) if slot.epoch == reference.epoch() => Some(slot),
            _ => None,
        }
    }

    /// What the rewrite was compiled from, if the slot is still in that use.
    pub(crate) fn source(&self, reference: RewriteRef) -> Option<Rewrite> {
        let slot = self.slots.get(reference.index())?;
        if slot.epoch == reference.epoch() { self.sources[reference.index()] } else { None }
    }

    /// Bytes that the rewrite has carried and housekeeping has not taken.
    pub(crate) fn pending(&self, reference: RewriteRef) -> u64 {
        let slot = self.slots.get(reference.index());
        slot.filter(|slot| slot.epoch == reference.epoch()).map_or(0, |slot| slot.bytes)
    }

    /// The TEPs between which the flows of a use of a slot had their own tunnel, also after the use has ended; see [`Uses`].
    pub(crate) fn own_teps(&self, reference: RewriteRef, snapshot: &Snapshot) -> Option<TepAddresses> {
        self.uses.own_teps(reference, snapshot)
    }

    /// Whether no further rewrite can be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.len() == CAPACITY
    }

    /// Brings the rewrite's cache lines on their way.
    #[inline]
    pub(crate) fn prefetch(&self, reference: RewriteRef) {
        if let Some(slot) = self.slots.get(reference.index()) {
            prefetch(slot);
        }
    }

    /// Takes over from the table of another snapshot, that with these tunnels: no reference into that one leads anywhere in this one, which
    /// must be new; it still tells which TEPs flows had.
    pub(crate) fn succeed(&mut self, other: &mut Self, tunnels: Arc<[Tunnel]>) {
        self.first_epoch = other.latest_epoch.wrapping_add(1) & EPOCH_MASK;
        self.latest_epoch = self.first_epoch;
        self.uses.succeed(&mut other.uses, tunnels);
    }

    /// Every rewrite in use, with what it counted since housekeeping last took that.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Rewrite, &Compiled)> {
        self.sources.iter().zip(&self.slots).filter_map(|(rewrite, slot)| Some((rewrite.as_ref()?, slot)))
    }

    /// Frees the rewrites with neighbours that were lost since `version` of their table. `retire` sees each with its counts.
    pub(crate) fn drop_stale_neighbors(
        &mut self,
        neighbors: &NeighborTable,
        version: u64,
        mut retire: impl FnMut(&Rewrite, &Compiled),
    ) {
        // Few are lost at a time, and comparing numbers that lie side by side is fast even where there are many rewrites.
        let few = neighbors.lost_since(version).filter(|lost| lost.len() <= 8);
        for index in 0..self.slots.len() {
            let Some(id) = self.neighbors[index] else { continue };
            let lost = few.as_ref().map_or_else(|| !neighbors.is_live(id), |few| few.contains(&id));
            if lost {
                if let Some(rewrite) = &self.sources[index] {
                    retire(rewrite, &self.slots[index]);
                }
                self.release(index);
            }
        }
    }

    /// Frees the rewrites to next hops that cannot be reached, and those of flows whose own next hop is reached again: these flows are decided
    /// again. `retire` sees each with its counts.
    pub(crate) fn drop_equal_cost(
        &mut self,
        snapshot: &Snapshot,
        mut retire: impl FnMut(&Rewrite, &Compiled),
    ) {
        let is_reachable = |id| snapshot.next_hops().is_reachable(id);
        for index in 0..self.slots.len() {
            let Some(rewrite) = self.sources[index] else { continue };
            let EqualCost { taken, own } = rewrite.equal_cost;
            let lost = taken.is_some_and(|taken| !is_reachable(taken));
            if lost || own != taken && own.is_some_and(is_reachable) {
                retire(&rewrite, &self.slots[index]);
                self.release(index);
            }
        }
    }

    /// Turns every rewrite whose tunnel changed with the states of the snapshot's tunnels to the one that is right now. Where that needs more than
    /// new headers, and beyond [`TURNED_AT_ONCE`], the rewrite is freed: its flows are decided again. `retire` sees each with its counts.
    pub(crate) fn follow_tunnels(
        &mut self,
        snapshot: &Snapshot,
        neighbors: &NeighborTable,
        mut retire: impl FnMut(&Rewrite, &Compiled),
    ) {
        let mut turned = 0;
        for index in 0..self.slots.len() {
            let Some(rewrite) = self.sources[index] else { continue };
            let Egress::Tunnel { tunnel, own, .. } = rewrite.egress else { continue };
            let right = snapshot.usable_tunnel(own);
            if right == tunnel {
                continue;
            }
            retire(&rewrite, &self.slots[index]);
            match through(&rewrite, own, right, snapshot, neighbors) {
                Some(turned_rewrite) if turned < TURNED_AT_ONCE => {
                    turned += 1;
                    self.replace(index, turned_rewrite, snapshot);
                }
                _ => self.release(index),
            }
        }
    }

    /// Slots that have ever been used.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// What the rewrite in a slot has carried through its own tunnel since this was last asked; none if it goes through no tunnel, or another.
    pub(crate) fn take_carried(&mut self, index: usize) -> Option<Carried> {
        let bytes = std::mem::take(self.carried.get_mut(index)?);
        match self.sources.get(index)?.as_ref()?.egress {
            Egress::Tunnel { tunnel, own, .. } if tunnel == own => {
                let rewrite = RewriteRef::new(index, self.slots[index].epoch);
                Some(Carried { rewrite, own, bytes })
            }
            _ => None,
        }
    }

    /// Gives a rewrite another tunnel of its group for its own, and its flows with it. Where that needs more than new headers, or the slot is
    /// in another use by now, nothing is done. `retire` sees what it was with its counts.
    pub(crate) fn turn(
        &mut self,
        reference: RewriteRef,
        own: TunnelId,
        snapshot: &Snapshot,
        neighbors: &NeighborTable,
        mut retire: impl FnMut(&Rewrite, &Compiled),
    ) {
        let Some(rewrite) = self.source(reference) else { return };
        if let Some(turned) = through(&rewrite, own, own, snapshot, neighbors) {
            retire(&rewrite, &self.slots[reference.index()]);
            self.replace(reference.index(), turned, snapshot);
        }
    }

    /// Puts another rewrite in the place of one: every reference to the slot leads to the new one.
    fn replace(&mut self, index: usize, rewrite: Rewrite, snapshot: &Snapshot) {
        let mut compiled = Compiled::new(&rewrite, snapshot);
        compiled.epoch = self.slots[index].epoch;
        self.slots[index] = compiled;
        if let Some(old) = self.sources[index].replace(rewrite) {
            self.forget(&old, index);
        }
        self.neighbors[index] = rewrite.neighbor;
        self.uses.begin(index, self.slots[index].epoch, &rewrite);
        // Another slot may have come to the same one before.
        self.index.entry(rewrite).or_insert(index as u32);
    }

    /// Takes a rewrite out of the index, if that leads to this slot.
    fn forget(&mut self, rewrite: &Rewrite, index: usize) {
        if self.index.get(rewrite) == Some(&(index as u32)) {
            self.index.remove(rewrite);
        }
    }

    /// Takes the counts of the next `step` rewrites, and frees those among them that no packet has used for `timeout` seconds: no live flow
    /// names them.
    pub(crate) fn collect(
        &mut self,
        step: usize,
        second: u64,
        timeout: u64,
        mut count: impl FnMut(&Rewrite, &Compiled),
    ) {
        let start = if self.collected < self.slots.len() { self.collected } else { 0 };
        let end = (start + step).min(self.slots.len());
        self.collected = end;
        for index in start..end {
            let (slot, source) = (&mut self.slots[index], &self.sources[index]);
            let Some(rewrite) = source else { continue };
            if slot.packets > 0 {
                count(rewrite, slot);
                if let Some(carried) = self.carried.get_mut(index) {
                    *carried += slot.bytes;
                }
                (slot.packets, slot.bytes) = (0, 0);
                self.used[index] = second;
            } else if second.saturating_sub(self.used[index]) > timeout {
                self.release(index);
            }
        }
    }

    /// Ends the use of a slot: every reference to it is void from now on.
    fn release(&mut self, index: usize) {
        if let Some(rewrite) = self.sources[index].take() {
            let slot = &mut self.slots[index];
            self.latest_epoch = self.latest_epoch.wrapping_add(1) & EPOCH_MASK;
            slot.epoch = self.latest_epoch;
            self.neighbors[index] = None;
            self.forget(&rewrite, index);
            self.free.push(index as u32);
        }
    }
}

/// A rewrite through a tunnel as one through another of the same group; none where that needs more than new headers, or its next hop is not
/// known.
fn through(
    rewrite: &Rewrite,
    own: TunnelId,
    tunnel: TunnelId,
    snapshot: &Snapshot,
    neighbors: &NeighborTable,
) -> Option<Rewrite> {
    let Egress::Tunnel { tunnel: before, .. } = rewrite.egress else { return None };
    let (before, after) = (snapshot.tunnel(before), snapshot.tunnel(tunnel));
    let (neighbor, destination) = neighbors.resolve(&after.next_hop)?;
    let egress = Egress::Tunnel { tunnel, own, destination };
    (before.inner_mtu() == after.inner_mtu()).then_some(Rewrite {
        egress,
        neighbor: Some(neighbor),
        ..*rewrite
    })
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use sluice_intent::plan::PortIndex;
    use sluice_wire::{EtherType, MacAddr};

    use super::*;
    use crate::buffer::{HeapBuffer, PacketBuffer};
    use crate::neighbor::NeighborKey;
    use crate::parse::Parsed;
    use crate::rewrite::{Egress, EqualCost, Ethernet, Header};
    use crate::snapshot::{IngressId, PortFacts};

    const TIMEOUT: u64 = 10;
    /// Neighbours that the rewrites of a test use.
    const NEIGHBORS: u8 = 4;

    /// Any: the rewrites of these tests go to ports, for which none is looked at.
    static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| {
        let mut runner = TestRunner::deterministic();
        let plan = sluice_intent::testing::arbitrary_plan().new_tree(&mut runner).unwrap().current();
        let facts = vec![PortFacts { mac: MacAddr([2, 0, 0, 0, 0, 1]) }; plan.ports.len()];
        Snapshot::compile(plan.into(), &facts, 1, 1).unwrap()
    });

    fn mac(neighbor: u8, version: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, neighbor, version])
    }

    fn key(neighbor: u8) -> NeighborKey {
        NeighborKey { port: PortIndex(0), vlan: 0, address: [192, 0, 2, neighbor].into() }
    }

    /// The rewrite to a neighbour as it is now, for one of several ingresses; none while it is unknown.
    fn rewrite(neighbors: &NeighborTable, neighbor: u8, ingress: u32) -> Option<Rewrite> {
        let (id, destination) = neighbors.resolve(&key(neighbor))?;
        let header = Header { destination, source: mac(99, 0), ethertype: EtherType::IPV4, hops: 0 };
        let egress = Egress::Port { port: PortIndex(0), vlan: 0 };
        Some(Rewrite {
            ingress: IngressId(ingress),
            ethernet: Ethernet::New(header),
            egress,
            mtu: 1500,
            neighbor: Some(id),
            equal_cost: EqualCost::default(),
        })
    }

    /// The destination MAC address that the rewrite writes.
    fn written(compiled: &Compiled) -> MacAddr {
        let mut frame = vec![0; 14 + 20];
        frame[14] = 0x45;
        let mut buffer = HeapBuffer::new(&frame, 0);
        let parsed = Parsed { network: 14, end: 34, network_length: 20, ttl: 64, ..Parsed::default() };
        compiled.replay(&mut buffer, &parsed, 0).unwrap();
        MacAddr(*buffer.data().first_chunk().unwrap())
    }

    #[derive(Clone, Debug)]
    enum Step {
        Intern { neighbor: u8, ingress: u32 },
        Use(usize),
        Neighbor { neighbor: u8, version: Option<u8> },
        Collect(u64),
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            10 => (0..NEIGHBORS, 0u32..3).prop_map(|(neighbor, ingress)| Step::Intern { neighbor, ingress }),
            4 => (0usize..64).prop_map(Step::Use),
            4 => (0..NEIGHBORS, prop::option::of(0u8..3)).prop_map(|(neighbor, version)| Step::Neighbor { neighbor, version }),
            2 => (0u64..8).prop_map(Step::Collect),
            1 => Just(Step::Clear),
        ]
    }

    /// Puts a new table in the place of one, as a new snapshot does; packets that the old one counted.
    fn replace(table: &mut RewriteTable) -> u64 {
        let mut next = RewriteTable::new(false);
        next.succeed(table, Arc::new([]));
        std::mem::replace(table, next).iter().map(|(_, compiled)| compiled.packets).sum()
    }

    /// A use of a slot that was given out.
    struct Given {
        reference: RewriteRef,
        rewrite: Rewrite,
        live: bool,
        packets: u64,
        used: u64,
    }

    proptest! {
        /// Every reference leads to the rewrite that it was given out for, or nowhere; what a slot counted is taken over once.
        #[test]
        fn references_never_lead_to_another_rewrite(steps in prop::collection::vec(step(), 1..120)) {
            let (mut table, mut neighbors, mut given, mut second) = (RewriteTable::new(false), NeighborTable::default(), Vec::<Given>::new(), 100);
            let (mut sent, mut counted) = (0, 0);
            for neighbor in 0..NEIGHBORS {
                neighbors.set(key(neighbor), Some(mac(neighbor, 0)));
            }
            for step in steps {
                match step {
                    Step::Intern { neighbor, ingress } => {
                        let Some(rewrite) = rewrite(&neighbors, neighbor, ingress) else { continue };
                        let reference = table.intern(&rewrite, &SNAPSHOT, second).expect("there is room");
                        match given.iter().find(|given| given.live && given.rewrite == rewrite) {
                            Some(known) => prop_assert_eq!(known.reference, reference),
                            None => given.push(Given { reference, rewrite, live: true, packets: 0, used: second }),
                        }
                    }
                    Step::Use(number) => {
                        let count = given.len().max(1);
                        if let Some(given) = given.get_mut(number % count)
                            && let Some(compiled) = table.get(given.reference)
                        {
                            compiled.packets += 1;
                            (sent, given.packets) = (sent + 1, given.packets + 1);
                        }
                    }
                    Step::Neighbor { neighbor, version } => {
                        let before = neighbors.version();
                        neighbors.set(key(neighbor), version.map(|version| mac(neighbor, version)));
                        table.drop_stale_neighbors(&neighbors, before, |_, compiled| counted += compiled.packets);
                        for given in &mut given {
                            given.live &= given.rewrite.neighbor.is_some_and(|id| neighbors.is_live(id));
                        }
                    }
                    Step::Collect(seconds) => {
                        second += seconds;
                        // The first call may begin behind the slots that were looked at last.
                        for _ in 0..2 {
                            table.collect(CAPACITY, second, TIMEOUT, |_, compiled| counted += compiled.packets);
                        }
                        for given in given.iter_mut().filter(|given| given.live) {
                            if given.packets > 0 {
                                (given.packets, given.used) = (0, second);
                            } else {
                                given.live = second - given.used <= TIMEOUT;
                            }
                        }
                    }
                    Step::Clear => {
                        counted += replace(&mut table);
                        given.iter_mut().for_each(|given| given.live = false);
                    }
                }
                prop_assert_eq!(table.len(), given.iter().filter(|given| given.live).count());
                for given in &given {
                    let found = table.get(given.reference).map(|compiled| written(compiled));
                    let expected = given.rewrite.ethernet.header().map(|header| header.destination).filter(|_| given.live);
                    prop_assert_eq!(found, expected);
                }
            }
            counted += replace(&mut table);
            prop_assert_eq!(counted, sent);
        }
    }

    #[test]
    fn a_full_table_takes_no_more_until_something_goes() {
        let (mut neighbors, mut table) = (NeighborTable::default(), RewriteTable::new(false));
        neighbors.set(key(1), Some(mac(1, 0)));
        for ingress in 0..CAPACITY as u32 {
            assert!(table.intern(&rewrite(&neighbors, 1, ingress).unwrap(), &SNAPSHOT, 0).is_some());
        }
        let one_more = rewrite(&neighbors, 1, CAPACITY as u32).unwrap();
        assert_eq!(table.intern(&one_more, &SNAPSHOT, 0), None);
        assert!(table.intern(&rewrite(&neighbors, 1, 5).unwrap(), &SNAPSHOT, 0).is_some(), "known ones stay");
        replace(&mut table);
        assert_eq!((table.len(), table.intern(&one_more, &SNAPSHOT, 0).is_some()), (0, true));
    }
}
