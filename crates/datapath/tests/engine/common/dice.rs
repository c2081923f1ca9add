//! Numbers that choose: what proptest or a fuzzer draws, and the traffic generator spends.

/// Numbers drawn in advance; once they are spent, all further ones are 0. The first choice is always the plainest, so that shrinking
/// the numbers towards 0 makes the traffic plain.
#[derive(Debug)]
pub(crate) struct Dice<'a> {
    numbers: &'a [u16],
}

impl<'a> Dice<'a> {
    pub(crate) fn new(numbers: &'a [u16]) -> Self {
        Self { numbers }
    }

    /// The next number.
    pub(crate) fn number(&mut self) -> u16 {
        match self.numbers.split_first() {
            Some((first, rest)) => {
                self.numbers = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.number()) % bound
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// One of several; none of none.
    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        (!items.is_empty()).then(|| items[self.below(items.len())].clone())
    }
}
