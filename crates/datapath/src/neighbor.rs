//! Neighbours: the MAC addresses of next hops on the underlay and on uplinks.
//!
//! The control thread resolves them (ARP, neighbour discovery) and publishes an immutable table; each worker takes the newest
//! before every batch. A rewrite remembers the neighbour that it was made with, so that a change strikes exactly the rewrites
//! that used it, before the next packet: no flow is ever replayed with a stale address.

use std::collections::VecDeque;
use std::net::IpAddr;

use arrayvec::ArrayVec;
use hashbrown::{HashMap, HashSet};
use sluice_intent::plan::PortIndex;
use sluice_wire::MacAddr;

/// Which neighbour: its address and the link that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeighborKey {
    /// The port.
    pub port: PortIndex,
    /// VLAN on that port; 0: untagged.
    pub vlan: u16,
    /// Its address.
    pub address: IpAddr,
}

/// A neighbour with a certain MAC address: each change of that makes a new one, and no number is ever used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeighborId(pub(crate) u64);

/// Losses that a table remembers one by one.
const JOURNAL: usize = 64;

/// The neighbours that are known at a moment.
#[derive(Clone, Debug, Default)]
pub struct NeighborTable {
    version: u64,
    neighbors: HashMap<NeighborKey, (NeighborId, MacAddr), foldhash::fast::RandomState>,
    live: HashSet<u64, foldhash::fast::RandomState>,
    /// The last losses, each with the version that it led to.
    lost: VecDeque<(u64, NeighborId)>,
    /// The version up to which losses were forgotten.
    forgotten: u64,
}

impl NeighborTable {
    /// Counts the changes since the table was empty.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Sets the neighbour's MAC address; `None` forgets it.
    pub fn set(&mut self, key: NeighborKey, mac: Option<MacAddr>) {
        let known = self.neighbors.get(&key).copied();
        if known.map(|(_, mac)| mac) == mac {
            return;
        }
        self.version += 1;
        if let Some((id, _)) = known {
            self.live.remove(&id.0);
            self.neighbors.remove(&key);
            if self.lost.len() == JOURNAL
                && let Some((version, _)) = self.lost.pop_front()
            {
                self.forgotten = version;
            }
            self.lost.push_back((self.version, id));
        }
        if let Some(mac) = mac {
            self.live.insert(self.version);
            self.neighbors.insert(key, (NeighborId(self.version), mac));
        }
    }

    /// The neighbour's MAC address, if it is resolved.
    pub fn resolve(&self, key: &NeighborKey) -> Option<(NeighborId, MacAddr)> {
        self.neighbors.get(key).copied()
    }

    /// Whether the neighbour still has the MAC address that it had under this number.
    pub(crate) fn is_live(&self, id: NeighborId) -> bool {
        self.live.contains(&id.0)
    }

    /// The numbers that ended since an earlier version of this table; none if those are no longer remembered one by one.
    pub(crate) fn lost_since(&self, version: u64) -> Option<ArrayVec<NeighborId, JOURNAL>> {
        let later = self.lost.iter().filter(|(at, _)| *at > version).map(|(_, id)| *id);
        (version >= self.forgotten).then(|| later.collect())
    }

    /// The resolved neighbours.
    pub fn iter(&self) -> impl Iterator<Item = (&NeighborKey, MacAddr)> {
        self.neighbors.iter().map(|(key, (_, mac))| (key, *mac))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> NeighborKey {
        NeighborKey {
            port: PortIndex(0),
            vlan: 0,
            address: std::net::Ipv4Addr::from(0xc000_0200 + number).into(),
        }
    }

    fn mac(number: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, number])
    }

    #[test]
    fn only_changes_count_and_each_makes_a_new_number() {
        let mut table = NeighborTable::default();
        table.set(key(1), None);
        assert_eq!(table.version(), 0);
        table.set(key(1), Some(mac(1)));
        let (first, _) = table.resolve(&key(1)).unwrap();
        table.set(key(1), Some(mac(1)));
        assert_eq!((table.version(), table.is_live(first)), (1, true));
        table.set(key(1), None);
        assert_eq!((table.version(), table.resolve(&key(1)), table.is_live(first)), (2, None, false));
        table.set(key(1), Some(mac(1)));
        let (second, _) = table.resolve(&key(1)).unwrap();
        assert!(second != first && table.is_live(second) && !table.is_live(first));
        assert_eq!(table.lost_since(0).unwrap()[..], [first]);
        assert_eq!(table.lost_since(2).unwrap()[..], []);
    }

    #[test]
    fn what_comes_and_goes_leaves_nothing_behind() {
        let mut table = NeighborTable::default();
        for number in 0..10_000 {
            table.set(key(number), Some(mac(1)));
            table.set(key(number), None);
        }
        let sizes = (table.neighbors.len(), table.live.len(), table.lost.len());
        assert_eq!(sizes, (0, 0, JOURNAL));
        assert!(table.neighbors.capacity() < 100 && table.live.capacity() < 100);
        assert_eq!(table.lost_since(19_000), None, "more was lost since than is remembered");
        assert_eq!(table.lost_since(19_998).unwrap().len(), 1);
    }
}
