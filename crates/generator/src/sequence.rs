//! Tells frames that are lost, doubled or late apart by their sequence numbers, in constant memory.
//!
//! As the anti-replay window of IPsec (RFC 4303 section 3.4.3): one bit for each of the last numbers, behind the highest one seen.

/// Sequence numbers that are remembered; 64 Ki cover many times what two rings and a node can hold.
const WINDOW: u32 = 1 << 16;
const WORDS: usize = (WINDOW / 64) as usize;

/// What is known of a frame by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The first of its number, behind none that is later.
    InOrder,
    /// The first of its number, behind a later one.
    Late,
    /// Not the first of its number.
    Again,
    /// So far behind that nothing is remembered of it.
    TooLate,
}

/// Numbers seen, of those from 0 up.
pub(crate) struct SequenceWindow {
    /// One more than the highest number seen.
    next: u32,
    bits: Box<[u64; WORDS]>,
}

impl SequenceWindow {
    /// Nothing seen.
    pub(crate) fn new() -> Self {
        Self { next: 0, bits: Box::new([0; WORDS]) }
    }

    /// Takes a number.
    #[inline]
    pub(crate) fn see(&mut self, number: u32) -> Seen {
        if number >= self.next {
            self.open(number);
            self.set(number);
            return Seen::InOrder;
        }
        if self.next - number > WINDOW - 64 {
            return Seen::TooLate;
        }
        if self.is_set(number) {
            return Seen::Again;
        }
        self.set(number);
        Seen::Late
    }

    /// Moves the window up to `number`, and forgets what leaves it: whole words, so that the last 64 of the window are not used.
    #[inline]
    fn open(&mut self, number: u32) {
        let first = self.next.div_ceil(64);
        let last = number / 64;
        if last >= first {
            let count = (last - first + 1).min(WORDS as u32);
            for word in last + 1 - count..=last {
                self.bits[word as usize % WORDS] = 0;
            }
        }
        self.next = number.saturating_add(1);
    }

    #[inline]
    fn set(&mut self, number: u32) {
        self.bits[(number / 64) as usize % WORDS] |= 1 << (number % 64);
    }

    #[inline]
    fn is_set(&self, number: u32) -> bool {
        self.bits[(number / 64) as usize % WORDS] & 1 << (number % 64) != 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_in_order_are_each_seen_once() {
        let mut window = SequenceWindow::new();
        for number in 0..300_000 {
            assert_eq!(window.see(number), Seen::InOrder);
        }
        assert_eq!(window.see(299_999), Seen::Again);
        assert_eq!(window.see(299_999 - 60_000), Seen::Again);
        assert_eq!(window.see(0), Seen::TooLate);
    }

    #[test]
    fn a_gap_may_be_filled_later() {
        let mut window = SequenceWindow::new();
        assert_eq!(window.see(5), Seen::InOrder);
        assert_eq!(window.see(200), Seen::InOrder);
        assert_eq!(window.see(63), Seen::Late);
        assert_eq!(window.see(63), Seen::Again);
        assert_eq!(window.see(10 * WINDOW), Seen::InOrder);
        assert_eq!(window.see(10 * WINDOW - 40_000), Seen::Late, "what was there before was forgotten");
        assert_eq!(window.see(200), Seen::TooLate);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set_of_numbers(numbers in prop::collection::vec(0u32..200_000, 1..400)) {
            let (mut window, mut seen, mut highest) = (SequenceWindow::new(), HashSet::new(), None);
            for number in numbers {
                let verdict = window.see(number);
                let expected = match highest {
                    Some(highest) if number <= highest => {
                        if highest + 1 - number > WINDOW - 64 {
                            Seen::TooLate
                        } else if seen.contains(&number) {
                            Seen::Again
                        } else {
                            Seen::Late
                        }
                    }
                    _ => Seen::InOrder,
                };
                prop_assert_eq!(verdict, expected);
                if expected != Seen::TooLate {
                    seen.insert(number);
                    highest = highest.max(Some(number));
                }
            }
        }
    }
}
