//! A small exact-match table for keys of 32 bits, read once per tunnel packet.

/// Open addressing with linear probing, at most half full; built once.
#[derive(Debug)]
pub(crate) struct ExactTable<V> {
    slots: Box<[Option<(u32, V)>]>,
    shift: u32,
}

impl<V: Copy> ExactTable<V> {
    /// Builds the table; of equal keys the first wins.
    pub(crate) fn build(entries: &[(u32, V)]) -> Self {
        let bits = (entries.len().max(2) * 2).next_power_of_two().trailing_zeros();
        let mut table = Self { slots: vec![None; 1 << bits].into(), shift: 32 - bits };
        for (key, value) in entries {
            let slot = table.probe(*key);
            table.slots[slot].get_or_insert((*key, *value));
        }
        table
    }

    /// The value of `key`.
    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<V> {
        self.slots[self.probe(key)].map(|(_, value)| value)
    }

    /// The slot that holds `key`, or the free one where it would stand.
    #[inline]
    fn probe(&self, key: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = (key.wrapping_mul(0x9e37_79b1) >> self.shift) as usize & mask;
        while self.slots[slot & mask].as_ref().is_some_and(|(other, _)| *other != key) {
            slot += 1;
        }
        slot & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_map(entries in prop::collection::hash_map(0u32..300, any::<u16>(), 0..200), probes in prop::collection::vec(0u32..400, 0..100)) {
            let list: Vec<_> = entries.iter().map(|(key, value)| (*key, *value)).collect();
            let table = ExactTable::build(&list);
            for probe in probes {
                prop_assert_eq!(table.get(probe), entries.get(&probe).copied());
            }
        }
    }
}
