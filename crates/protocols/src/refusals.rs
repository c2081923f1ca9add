//! What was received and refused, counted by reason: the same for every protocol.

use std::marker::PhantomData;

/// Why something that was received is refused: an enumeration without data.
pub trait Reason: Copy + 'static {
    /// Every reason, in the order of [`Self::position`].
    const ALL: &'static [Self];

    /// Its place in [`Self::ALL`].
    fn position(self) -> usize;
}

/// What was refused, counted by reason. `COUNT` is the number of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusals<R, const COUNT: usize>([u64; COUNT], PhantomData<R>);

impl<R, const COUNT: usize> Default for Refusals<R, COUNT> {
    fn default() -> Self {
        Self([0; COUNT], PhantomData)
    }
}

impl<R: Reason, const COUNT: usize> Refusals<R, COUNT> {
    /// How many were refused for `reason`.
    pub fn count(&self, reason: R) -> u64 {
        self.0[reason.position()]
    }

    /// How many were refused for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each reason with how many it was of.
    pub fn iter(&self) -> impl Iterator<Item = (R, u64)> {
        R::ALL.iter().map(|reason| (*reason, self.count(*reason)))
    }

    pub(crate) fn add(&mut self, reason: R) {
        self.0[reason.position()] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bfd, lacp};

    fn check<R: Reason, const COUNT: usize>() {
        let mut refusals = Refusals::<R, COUNT>::default();
        for (times, reason) in R::ALL.iter().enumerate() {
            (0..times).for_each(|_| refusals.add(*reason));
        }
        let counts: Vec<_> = refusals.iter().map(|(_, count)| count).collect();
        assert_eq!(counts, (0..R::ALL.len() as u64).collect::<Vec<_>>());
        assert_eq!(refusals.total(), counts.iter().sum::<u64>());
    }

    #[test]
    fn every_reason_has_a_counter_of_its_own() {
        check::<bfd::Refusal, { bfd::Refusal::ALL.len() }>();
        check::<lacp::Refusal, { lacp::Refusal::ALL.len() }>();
    }
}
