//! Longest-prefix match: a poptrie (Asai and Ohara, SIGCOMM 2015) over 6-bit strides.
//!
//! Built once by the snapshot compiler and never changed; read by the logical pipeline. One structure serves both families: keys
//! are addresses aligned to the left of 128 bits. A node is 24 bytes: which of its 64 slots have a child, where a run of equal
//! results begins, and where its children and results start in the two arrays.

use std::net::IpAddr;

use ipnet::IpNet;

/// Bits that one node consumes.
const STRIDE: u32 = 6;

/// A longest-prefix match table for one address family. Values are indices below 2³² − 1.
#[derive(Debug)]
pub(crate) struct Lpm {
    nodes: Vec<Node>,
    results: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    children: u64,
    runs: u64,
    first_child: u32,
    first_result: u32,
}

/// No prefix covers the slot.
const NONE: u32 = u32::MAX;

impl Lpm {
    /// Builds the table; of equal prefixes the last one given wins.
    pub(crate) fn build(prefixes: impl IntoIterator<Item = (IpNet, u32)>) -> Self {
        let mut rules: Vec<Rule> = prefixes
            .into_iter()
            .map(|(prefix, value)| Rule {
                bits: left_aligned(prefix.network()),
                length: u32::from(prefix.prefix_len()),
                value,
            })
            .collect();
        // A stable sort by length lets longer prefixes, and later equals, overwrite shorter ones slot by slot.
        rules.sort_by_key(|rule| rule.length);
        let mut table = Self { nodes: vec![Node::default()], results: Vec::new() };
        table.fill(0, 0, &rules, NONE);
        table
    }

    /// The value of the longest prefix that covers `address`.
    #[inline]
    pub(crate) fn lookup(&self, address: IpAddr) -> Option<u32> {
        let bits = left_aligned(address);
        let mut node = self.nodes.first()?;
        let mut depth = 0;
        loop {
            let slot = slot_of(bits, depth);
            let below = 2u64.wrapping_shl(slot).wrapping_sub(1);
            if node.children >> slot & 1 == 0 {
                let rank = (node.runs & below).count_ones();
                let value = *self.results.get((node.first_result + rank) as usize - 1)?;
                return (value != NONE).then_some(value);
            }
            let rank = (node.children & below).count_ones();
            node = self.nodes.get((node.first_child + rank) as usize - 1)?;
            depth += STRIDE;
        }
    }

    /// Fills `node`, which stands at `depth` bits, from the rules that lie in it, `inherited` being what covers all of it.
    fn fill(&mut self, node: usize, depth: u32, rules: &[Rule], inherited: u32) {
        let mut values = [inherited; 64];
        let mut deeper: [Vec<Rule>; 64] = std::array::from_fn(|_| Vec::new());
        for rule in rules {
            let slot = slot_of(rule.bits, depth) as usize;
            if rule.length > depth + STRIDE {
                deeper[slot].push(*rule);
                continue;
            }
            let span = 1usize << (depth + STRIDE - rule.length.max(depth));
            values[slot..(slot + span).min(64)].fill(rule.value);
        }
        let mut entry = Node { first_result: self.results.len() as u32, ..Node::default() };
        let mut previous = None;
        for slot in 0..64 {
            if !deeper[slot].is_empty() {
                entry.children |= 1 << slot;
            } else if previous != Some(values[slot]) {
                entry.runs |= 1 << slot;
                self.results.push(values[slot]);
                previous = Some(values[slot]);
            }
        }
        entry.first_child = self.nodes.len() as u32;
        let children = entry.children.count_ones() as usize;
        self.nodes.resize(self.nodes.len() + children, Node::default());
        self.nodes[node] = entry;
        let occupied = deeper.iter().enumerate().filter(|(_, rules)| !rules.is_empty());
        for (position, (slot, rules)) in occupied.enumerate() {
            self.fill(entry.first_child as usize + position, depth + STRIDE, rules, values[slot]);
        }
    }
}

#[derive(Clone, Copy)]
struct Rule {
    bits: u128,
    length: u32,
    value: u32,
}

/// The six bits of `bits` that follow the first `depth`; beyond the end of the address they are 0.
#[inline]
fn slot_of(bits: u128, depth: u32) -> u32 {
    (bits.checked_shl(depth).unwrap_or(0) >> (128 - STRIDE)) as u32
}

#[inline]
fn left_aligned(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => u128::from(v6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(prefixes: &[(IpNet, u32)], address: IpAddr) -> Option<u32> {
        let covering = prefixes.iter().enumerate().filter(|(_, (prefix, _))| prefix.contains(&address));
        covering
            .max_by_key(|(position, (prefix, _))| (prefix.prefix_len(), *position))
            .map(|(_, (_, value))| *value)
    }

    fn v4_prefix() -> impl Strategy<Value = IpNet> {
        // Few distinct high bits, so that prefixes nest and collide.
        (0u32..16, any::<u32>(), 0u8..=32).prop_map(|(high, low, length)| {
            IpNet::new_assert(IpAddr::V4((high << 28 | low & 0x0300_00ff).into()), length).trunc()
        })
    }

    fn v6_prefix() -> impl Strategy<Value = IpNet> {
        (0u128..4, any::<u128>(), 0u8..=128).prop_map(|(high, low, length)| {
            IpNet::new_assert(IpAddr::V6((high << 126 | low & (0xff << 60 | 0xff)).into()), length).trunc()
        })
    }

    proptest! {
        #[test]
        fn agrees_with_a_linear_scan_v4(prefixes in prop::collection::vec(v4_prefix(), 0..60), probes in prop::collection::vec(any::<u32>(), 1..40)) {
            let numbered: Vec<_> = prefixes.into_iter().zip(0..).collect();
            let table = Lpm::build(numbered.iter().copied());
            let near = numbered.iter().flat_map(|(prefix, _)| [prefix.network(), prefix.broadcast()]);
            for address in probes.into_iter().map(|probe| IpAddr::V4(probe.into())).chain(near) {
                prop_assert_eq!(table.lookup(address), plain(&numbered, address), "{}", address);
            }
        }

        #[test]
        fn agrees_with_a_linear_scan_v6(prefixes in prop::collection::vec(v6_prefix(), 0..60), probes in prop::collection::vec(any::<u128>(), 1..40)) {
            let numbered: Vec<_> = prefixes.into_iter().zip(0..).collect();
            let table = Lpm::build(numbered.iter().copied());
            let near = numbered.iter().flat_map(|(prefix, _)| [prefix.network(), prefix.broadcast()]);
            for address in probes.into_iter().map(|probe| IpAddr::V6(probe.into())).chain(near) {
                prop_assert_eq!(table.lookup(address), plain(&numbered, address), "{}", address);
            }
        }
    }

    #[test]
    fn an_empty_table_knows_no_route() {
        assert_eq!(Lpm::build([]).lookup("10.0.0.1".parse().unwrap()), None);
    }
}
