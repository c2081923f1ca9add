//! Tells frames that are lost, doubled or late apart by their sequence numbers, in constant memory.
//!
//! As the anti-replay window of IPsec (RFC 4303 section 3.4.3): one bit for each of the last numbers, behind the highest one seen.
//!
//! Where several cores receive frames of one sender, each has a window of its own and a *record*: a bit for every number that it received
//! (a second of 10 million frames takes 1.2 MiB a core). What leaves the window goes there, 64 numbers at a time, so that nothing is shared while
//! frames come; behind the trial the records of all cores tell which numbers came to several of them.

/// Sequence numbers that are remembered; 64 Ki cover many times what two rings and a node can hold.
const WINDOW: u32 = 1 << 16;
const WORDS: usize = (WINDOW / 64) as usize;
/// Words of a record that get memory together: 512 Ki numbers.
const CHUNK: usize = 8192;

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
    recording: Option<Recording>,
}

/// The numbers of a window's whole life.
struct Recording {
    /// Those of the window that are recorded already, in its places.
    recorded: Box<[u64; WORDS]>,
    record: Record,
    /// Place in the record of what comes now.
    phase: usize,
}

/// Numbers that were received while frames were being sent, and afterwards.
pub(crate) type Record = [Numbers; 2];

/// A set of numbers, a bit for each.
#[derive(Default)]
pub(crate) struct Numbers(Vec<Option<Box<[u64]>>>);

impl Numbers {
    fn add(&mut self, word: usize, bits: u64) {
        let (chunk, place) = (word / CHUNK, word % CHUNK);
        if chunk >= self.0.len() {
            self.0.resize_with(chunk + 1, || None);
        }
        self.0[chunk].get_or_insert_with(|| vec![0; CHUNK].into())[place] |= bits;
    }

    /// Takes in those of another set; `twice` is told each number that was there already.
    pub(crate) fn take_in(&mut self, other: Self, mut twice: impl FnMut(u32)) {
        if other.0.len() > self.0.len() {
            self.0.resize_with(other.0.len(), || None);
        }
        for (chunk, (own, other)) in self.0.iter_mut().zip(other.0).enumerate() {
            let (Some(own), Some(more)) = (&mut *own, &other) else {
                *own = own.take().or(other);
                continue;
            };
            for (word, (own, more)) in own.iter_mut().zip(more).enumerate() {
                let mut both = *own & more;
                while both != 0 {
                    twice(((chunk * CHUNK + word) * 64) as u32 + both.trailing_zeros());
                    both &= both - 1;
                }
                *own |= more;
            }
        }
    }
}

impl SequenceWindow {
    /// Nothing seen.
    pub(crate) fn new() -> Self {
        Self { next: 0, bits: Box::new([0; WORDS]), recording: None }
    }

    /// Nothing seen, and all that is will be recorded.
    pub(crate) fn recorded() -> Self {
        let recorded = Box::new([0; WORDS]);
        Self { recording: Some(Recording { recorded, record: Record::default(), phase: 0 }), ..Self::new() }
    }

    /// What is seen from now on was not received while frames were being sent.
    pub(crate) fn end_sending(&mut self) {
        self.record_all();
        if let Some(recording) = &mut self.recording {
            recording.phase = 1;
        }
    }

    /// All that was seen, of a window that is recorded; nothing is seen any more.
    pub(crate) fn take_record(&mut self) -> Option<Record> {
        self.record_all();
        self.recording.take().map(|recording| recording.record)
    }

    fn record_all(&mut self) {
        let newest = self.newest_word();
        let (Some(recording), Some(newest)) = (&mut self.recording, newest) else { return };
        for word in newest.saturating_sub(WORDS - 1)..=newest {
            recording.note(word, self.bits[word % WORDS]);
        }
    }

    /// The word of the highest number seen.
    const fn newest_word(&self) -> Option<usize> {
        if self.next == 0 { None } else { Some((self.next - 1) as usize / 64) }
    }

    /// Records what is about to leave the window because these words come into it.
    #[cold]
    fn record_leaving(&mut self, words: std::ops::RangeInclusive<u32>) {
        let newest = self.newest_word();
        let (Some(recording), Some(newest)) = (&mut self.recording, newest) else { return };
        for word in words {
            let place = word as usize % WORDS;
            // The latest word up to the newest one that has this place.
            let back = newest.wrapping_sub(place) % WORDS;
            if let Some(leaving) = newest.checked_sub(back) {
                recording.note(leaving, self.bits[place]);
            }
            recording.recorded[place] = 0;
        }
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
            if self.recording.is_some() {
                self.record_leaving(last + 1 - count..=last);
            }
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

impl Recording {
    /// Notes what is new of a word.
    fn note(&mut self, word: usize, bits: u64) {
        let recorded = &mut self.recorded[word % WORDS];
        let new = bits & !*recorded;
        *recorded |= bits;
        if new != 0 {
            self.record[self.phase].add(word, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

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

    /// What is in a set of numbers: everything that is there twice when it meets a set of all.
    fn listed(numbers: Numbers) -> BTreeSet<u32> {
        let (mut all, mut found) = (Numbers::default(), BTreeSet::new());
        (0..numbers.0.len() * CHUNK).for_each(|word| all.add(word, u64::MAX));
        all.take_in(numbers, |number| assert!(found.insert(number)));
        found
    }

    proptest! {
        #[test]
        fn a_record_has_every_number_once_in_its_time(
            early in prop::collection::vec(0u32..300_000, 0..400),
            late in prop::collection::vec(0u32..1_300_000, 0..200),
        ) {
            let mut window = SequenceWindow::recorded();
            let mut expected = [BTreeSet::new(), BTreeSet::new()];
            for (phase, numbers) in [early, late].into_iter().enumerate() {
                for number in numbers {
                    if matches!(window.see(number), Seen::InOrder | Seen::Late) {
                        expected[phase].insert(number);
                    }
                }
                if phase == 0 {
                    window.end_sending();
                }
            }
            let record = window.take_record().unwrap();
            prop_assert_eq!(record.map(listed), expected);
        }

        #[test]
        fn sets_of_numbers_tell_what_they_have_in_common(
            sets in prop::collection::vec(prop::collection::btree_set(0u32..2_000_000, 0..60), 2..5),
            common in prop::collection::btree_set(0u32..2_000_000, 0..20),
        ) {
            let (mut all, mut twice, mut seen) = (Numbers::default(), Vec::new(), BTreeSet::new());
            let mut expected = Vec::new();
            for set in sets.iter().map(|set| set | &common) {
                expected.extend(set.intersection(&seen).copied());
                seen.extend(&set);
                let mut numbers = Numbers::default();
                set.iter().for_each(|number| numbers.add(*number as usize / 64, 1 << (number % 64)));
                all.take_in(numbers, |number| twice.push(number));
            }
            prop_assert_eq!(twice, expected);
            prop_assert_eq!(listed(all), seen);
        }

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
