//! Numbers that look random and follow from a seed.

/// The sequence SplitMix64. It spreads times and numbers and keeps no secret.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `least` to `most`, both included; `least` where that is more than `most`.
    pub(crate) const fn between(&mut self, least: u64, most: u64) -> u64 {
        let range = most.saturating_sub(least) as u128 + 1;
        // The upper half of the product spreads evenly, without a division.
        least + ((self.next() as u128 * range) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_used_to_their_ends() {
        let mut random = Random::new(1);
        let mut seen = [0; 4];
        for _ in 0..1000 {
            seen[random.between(10, 13) as usize - 10] += 1;
        }
        assert!(seen.iter().all(|count| (200..300).contains(count)), "{seen:?}");
        assert_eq!(random.between(7, 7), 7);
        assert_eq!(random.between(7, 3), 7);
        assert!(random.between(0, u64::MAX) != random.between(0, u64::MAX));
    }
}
