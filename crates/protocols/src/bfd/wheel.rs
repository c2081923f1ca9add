//! A hashed timing wheel: timers whose setting, clearing and expiry cost the same however many there are.
//!
//! Time is divided into ticks of 1 ms. A slot holds, as a doubly linked list through one array, the timers whose tick is
//! the slot's number modulo the number of slots; a bit for each slot says whether it holds any. Nothing is allocated once
//! the array has its size. Timers further ahead than the wheel has slots (65 s) are passed over once in each turn.
//!
//! Only the sessions come here. What a timer means, and whether it still matters, is theirs to know.

use std::time::Duration;

use crate::Timestamp;

/// How long a tick is.
pub(super) const TICK: Duration = Duration::from_millis(1);

const SLOTS: usize = 1 << 16;

/// No timer.
const NONE: u32 = u32::MAX;

/// The number of a timer, chosen by the caller: small numbers, without gaps.
pub(super) type TimerId = u32;

/// The tick that `at` lies in.
pub(super) fn tick_of(at: Timestamp) -> u64 {
    at.as_nanos() / TICK.as_nanos() as u64
}

/// The first tick that does not begin before `at`.
pub(super) fn tick_from(at: Timestamp) -> u64 {
    at.as_nanos().div_ceil(TICK.as_nanos() as u64)
}

/// When `tick` begins.
pub(super) fn begin_of(tick: u64) -> Timestamp {
    Timestamp::from_nanos(tick.saturating_mul(TICK.as_nanos() as u64))
}

#[derive(Clone, Copy, Debug)]
struct Node {
    previous: u32,
    next: u32,
    /// The tick of expiry; `None` while the timer is not set.
    tick: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Wheel {
    /// The first timer of each slot.
    heads: Box<[u32]>,
    /// A bit for each slot that holds a timer.
    occupied: Box<[u64]>,
    nodes: Vec<Node>,
    /// The first tick whose timers have not expired.
    cursor: u64,
    /// Timers that are set.
    set: usize,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self {
            heads: vec![NONE; SLOTS].into(),
            occupied: vec![0; SLOTS / 64].into(),
            nodes: Vec::new(),
            cursor: 0,
            set: 0,
        }
    }

    /// The tick that the timer is set to.
    pub(super) fn tick(&self, timer: TimerId) -> Option<u64> {
        self.nodes.get(timer as usize).and_then(|node| node.tick)
    }

    /// Sets the timer, which may be set already, to expire at `tick`, or at the next one if that has passed.
    pub(super) fn set(&mut self, timer: TimerId, tick: u64) {
        self.clear(timer);
        let index = timer as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, Node { previous: NONE, next: NONE, tick: None });
        }
        let tick = tick.max(self.cursor);
        let slot = slot_of(tick);
        let next = self.heads[slot];
        self.nodes[index] = Node { previous: NONE, next, tick: Some(tick) };
        if next != NONE {
            self.nodes[next as usize].previous = timer;
        }
        self.heads[slot] = timer;
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.set += 1;
    }

    /// Clears the timer; it does not expire.
    pub(super) fn clear(&mut self, timer: TimerId) {
        let Some(node) = self.nodes.get_mut(timer as usize) else { return };
        let Some(tick) = node.tick.take() else { return };
        let Node { previous, next, .. } = *node;
        let slot = slot_of(tick);
        match previous {
            NONE => self.heads[slot] = next,
            previous => self.nodes[previous as usize].next = next,
        }
        if next != NONE {
            self.nodes[next as usize].previous = previous;
        }
        if self.heads[slot] == NONE {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        self.set -= 1;
    }

    /// Appends to `expired` the timers that are set to `now` or before, and clears them.
    pub(super) fn expire(&mut self, now: u64, expired: &mut Vec<TimerId>) {
        while let Some(tick) = self.next().filter(|tick| *tick <= now) {
            let mut timer = self.heads[slot_of(tick)];
            while timer != NONE {
                let Node { next, tick, .. } = self.nodes[timer as usize];
                if tick.is_some_and(|tick| tick <= now) {
                    self.clear(timer);
                    expired.push(timer);
                }
                timer = next;
            }
            self.cursor = tick + 1;
        }
        self.cursor = self.cursor.max(now.saturating_add(1));
    }

    /// When [`Wheel::expire`] is to be called next, never later than a timer expires; `None` while no timer is set. It
    /// may find nothing to do where the timers of a slot are of a later turn of the wheel.
    pub(super) fn next(&self) -> Option<u64> {
        if self.set == 0 {
            return None;
        }
        let first = slot_of(self.cursor);
        let words = self.occupied.len();
        // The word of the first slot is looked at twice: from that slot on, and at the end the part before it.
        let word_of = |step: usize| {
            let word = self.occupied[(first / 64 + step) % words];
            match step {
                0 => word & (u64::MAX << (first % 64)),
                _ => word,
            }
        };
        (0..=words).find_map(|step| match word_of(step) {
            0 => None,
            word => {
                let slot = (first / 64 + step) % words * 64 + word.trailing_zeros() as usize;
                Some(self.cursor + (slot.wrapping_sub(first) % SLOTS) as u64)
            }
        })
    }

    /// Timers are not set before `tick` from now on. For an empty wheel, whose cursor may be far behind.
    pub(super) fn start_at(&mut self, tick: u64) {
        if self.set == 0 {
            self.cursor = self.cursor.max(tick);
        }
    }
}

const fn slot_of(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_of_moments() {
        let at = Timestamp::from_nanos(5_000_001);
        assert_eq!((tick_of(at), tick_from(at)), (5, 6));
        assert_eq!(tick_from(begin_of(6)), 6);
        assert_eq!(tick_of(begin_of(6)), 6);
    }

    #[test]
    fn timers_of_later_turns_wait_for_theirs() {
        let mut wheel = Wheel::new();
        let turn = SLOTS as u64;
        wheel.set(0, 10);
        wheel.set(1, 10 + turn);
        let mut expired = Vec::new();
        wheel.expire(10, &mut expired);
        assert_eq!(expired, [0]);
        assert_eq!(wheel.next(), Some(10 + turn));
        wheel.expire(9 + turn, &mut expired);
        assert_eq!(expired, [0]);
        wheel.expire(10 + turn, &mut expired);
        assert_eq!((expired, wheel.next()), (vec![0, 1], None));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, u64),
        Clear(u32),
        Expire(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let ahead = prop_oneof![0u64..300, 0u64..300_000];
        prop_oneof![
            5 => (0u32..20, ahead.clone()).prop_map(|(timer, ahead)| Step::Set(timer, ahead)),
            1 => (0u32..20).prop_map(Step::Clear),
            3 => ahead.prop_map(Step::Expire),
        ]
    }

    proptest! {
        #[test]
        fn expires_what_a_sorted_map_would(steps in prop::collection::vec(step(), 1..200), start in 0u64..200_000) {
            let mut wheel = Wheel::new();
            let mut model = BTreeMap::new();
            let mut now = start;
            wheel.start_at(now);
            for step in steps {
                match step {
                    Step::Set(timer, ahead) => {
                        wheel.set(timer, now + 1 + ahead);
                        model.insert(timer, now + 1 + ahead);
                    }
                    Step::Clear(timer) => {
                        wheel.clear(timer);
                        model.remove(&timer);
                    }
                    Step::Expire(ahead) => {
                        now += ahead;
                        let mut expired = Vec::new();
                        wheel.expire(now, &mut expired);
                        expired.sort_unstable();
                        let due: Vec<_> = model.iter().filter(|(_, tick)| **tick <= now).map(|(t, _)| *t).collect();
                        model.retain(|_, tick| *tick > now);
                        prop_assert_eq!(expired, due);
                        prop_assert!(wheel.next().is_none_or(|next| next > now));
                    }
                }
                for timer in 0..20 {
                    prop_assert_eq!(wheel.tick(timer), model.get(&timer).copied());
                }
                let first = model.values().min().copied();
                prop_assert_eq!(wheel.next().is_some(), first.is_some());
                prop_assert!(wheel.next() <= first);
            }
        }
    }
}
