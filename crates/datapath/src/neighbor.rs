//! Neighbours: the MAC addresses of next hops on the underlay and on uplinks.
//!
//! The control thread resolves them (ARP, neighbour discovery) and publishes an immutable table; each worker takes the newest
//! before every batch. A rewrite remembers the neighbour that it was made with, so that a change strikes exactly the rewrites
//! that used it, before the next packet: no flow is ever replayed with a stale address.

use std::net::IpAddr;

use hashbrown::HashMap;
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

/// A neighbour that has been resolved at least once. Numbers are never used for another neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeighborId(pub(crate) u32);

/// The neighbours that are known at a moment.
#[derive(Clone, Debug, Default)]
pub struct NeighborTable {
    version: u64,
    ids: HashMap<NeighborKey, NeighborId, foldhash::fast::RandomState>,
    addresses: Vec<Option<MacAddr>>,
}

impl NeighborTable {
    /// Counts the changes since the table was empty.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Sets the neighbour's MAC address; `None` forgets it.
    pub fn set(&mut self, key: NeighborKey, mac: Option<MacAddr>) {
        let next = NeighborId(self.addresses.len() as u32);
        let id = match self.ids.get(&key) {
            Some(id) => *id,
            None if mac.is_none() => return,
            None => {
                self.ids.insert(key, next);
                self.addresses.push(None);
                next
            }
        };
        let address = &mut self.addresses[id.0 as usize];
        if *address != mac {
            *address = mac;
            self.version += 1;
        }
    }

    /// The neighbour's MAC address, if it is resolved.
    pub fn resolve(&self, key: &NeighborKey) -> Option<(NeighborId, MacAddr)> {
        let id = *self.ids.get(key)?;
        Some((id, self.mac(id)?))
    }

    /// The MAC address of a neighbour, if it is resolved.
    pub(crate) fn mac(&self, id: NeighborId) -> Option<MacAddr> {
        self.addresses.get(id.0 as usize).copied().flatten()
    }

    /// The resolved neighbours.
    pub fn iter(&self) -> impl Iterator<Item = (&NeighborKey, MacAddr)> {
        self.ids.iter().filter_map(|(key, id)| Some((key, self.mac(*id)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_count_and_numbers_stay() {
        let mut table = NeighborTable::default();
        let key = NeighborKey { port: PortIndex(0), vlan: 0, address: "192.0.2.1".parse().unwrap() };
        table.set(key, None);
        assert_eq!(table.version(), 0);
        table.set(key, Some(MacAddr([2, 0, 0, 0, 0, 1])));
        let (id, _) = table.resolve(&key).unwrap();
        table.set(key, Some(MacAddr([2, 0, 0, 0, 0, 1])));
        assert_eq!(table.version(), 1);
        table.set(key, None);
        assert_eq!((table.version(), table.resolve(&key), table.mac(id)), (2, None, None));
        table.set(key, Some(MacAddr([2, 0, 0, 0, 0, 2])));
        assert_eq!(table.resolve(&key), Some((id, MacAddr([2, 0, 0, 0, 0, 2]))));
    }
}
