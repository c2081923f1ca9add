//! A small exact-match table for keys of 32 bits, read twice for every tunnel packet.

/// Open addressing with linear probing, at most half full; built once. The key 0 stands for a free slot and is never found.
#[derive(Debug)]
pub(crate) struct ExactTable<V> {
    slots: Box<[(u32, V)]>,
    shift: u32,
}

impl<V: Copy + Default> ExactTable<V> {
    /// Builds the table; of equal keys the first wins, and the key 0 is left out.
    pub(crate) fn build(entries: &[(u32, V)]) -> Self {
        let bits = (entries.len().max(2) * 2).next_power_of_two().trailing_zeros();
        let mut table = Self { slots: vec![(0, V::default()); 1 << bits].into(), shift: 32 - bits };
        for (key, value) in entries {
            let slot = table.probe(*key);
            if table.slots[slot].0 == 0 {
                table.slots[slot] = (*key, *value);
            }
        }
        table
    }

    /// The value of `key`.
    #[inline(always)]
    pub(crate) fn get(&self, key: u32) -> Option<V> {
        let (found, value) = *self.slots.get(self.first_slot(key))?;
        if found == key && key != 0 { Some(value) } else { self.get_further(key) }
    }

    #[cold]
    fn get_further(&self, key: u32) -> Option<V> {
        let (found, value) = self.slots[self.probe(key)];
        (found == key && key != 0).then_some(value)
    }

    #[inline(always)]
    fn first_slot(&self, key: u32) -> usize {
        (key.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    /// The slot that holds `key`, or the free one where it would stand.
    fn probe(&self, key: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.first_slot(key) & mask;
        while self.slots[slot].0 != 0 && self.slots[slot].0 != key {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_map(entries in prop::collection::hash_map(1u32..300, any::<u16>(), 0..200), probes in prop::collection::vec(0u32..400, 0..100)) {
            let list: Vec<_> = entries.iter().map(|(key, value)| (*key, *value)).collect();
            let table = ExactTable::build(&list);
            for probe in probes {
                prop_assert_eq!(table.get(probe), entries.get(&probe).copied());
            }
        }
    }
}
