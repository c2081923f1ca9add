//! Which stages of the data path a worker's cycles go to.
//!
//! ```text
//! rx ─→ parse ─→ flow-cache ─→ rewrite ─→ tx              a time stamp a batch
//!                                └─ miss: ingress ─→ switch, tier-1, tier-0, ecmp, neighbor, tunnel ─→ compile ─→ insert
//!                                                                                                      a time stamp a packet
//! ```
//!
//! The engine and whoever drives it say [`Profile::enter`] where one stage ends and the next begins. [`Unprofiled`] does nothing with that, so
//! that the compiler leaves it out; a [`Profiler`] reads a counter of cycles there. Which of the two it is, is a matter of types: a worker runs
//! the one program or the other. A profiler belongs to one worker, which alone writes its [`StageCounters`]; anybody reads them.
//!
//! The datapath has no clock: the counter is its owner's, behind [`CycleCounter`].
//!
//! Limits: a time stamp has a cost, which the cycles contain and which is told beside them ([`StageCounters::time_stamp_cycles`]). The processor
//! executes out of order, so that some cycles of a stage may be found in its neighbours.

mod stage;

use std::sync::Arc;

use crate::counters::Counter;
pub use stage::Stage;

/// Stages, and [`Stage::Other`].
const SLOTS: usize = Stage::ALL.len() + 1;
/// Rows of time stamps that their cost is the median of.
const CALIBRATION_ROWS: usize = 33;
/// Time stamps of a row, an even number.
const CALIBRATION_ROW: u64 = 64;

/// Is told where a stage ends and the next begins. The default does nothing and costs nothing.
pub trait Profile {
    /// Cycles from here on belong to `stage`, which takes `packets` more. Returns the stage that they belonged to, for whoever is in the middle
    /// of it. Where that is the same one, it just goes on.
    #[inline(always)]
    fn enter(&mut self, stage: Stage, packets: usize) -> Stage {
        let _ = (stage, packets);
        Stage::Other
    }

    /// What was entered last turns out to be `stage`, and to take `packets` more.
    #[inline(always)]
    fn amend(&mut self, stage: Stage, packets: usize) {
        let _ = (stage, packets);
    }

    /// A loop of the worker ends, which took so many cycles. One without work is idle: what was told of it is forgotten.
    #[inline(always)]
    fn end_loop(&mut self, work: bool, cycles: u64) {
        let _ = (work, cycles);
    }
}

/// No profile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unprofiled;

impl Profile for Unprofiled {}

/// Where a profiler reads cycles: the time-stamp counter of the processor, or a count that a test keeps.
pub trait CycleCounter {
    /// Cycles since some moment; never fewer than before on the same core.
    fn cycles(&self) -> u64;
}

/// What a worker counted of one stage while it was profiled.
#[derive(Debug, Default)]
pub struct StageCounter {
    /// Cycles, those of the time stamps among them.
    pub cycles: Counter,
    /// Packets that passed the stage, each as often as it did.
    pub packets: Counter,
    /// Time stamps whose cost the cycles contain: how often the stage was left.
    pub time_stamps: Counter,
}

/// What a worker counts by stage while it is profiled. Written by the worker at the end of each of its loops.
#[derive(Debug, Default)]
pub struct StageCounters {
    stages: [StageCounter; Stage::ALL.len()],
    /// Cycles of the loops that found work. What the stages leave of them is attributed to none: the loop itself, commands, housekeeping and the
    /// profile's own sums.
    pub busy_cycles: Counter,
    /// What one time stamp costs in cycles, as measured when the profile began. It is taken off nowhere.
    pub time_stamp_cycles: Counter,
}

impl StageCounters {
    /// The counter of a stage; none for [`Stage::Other`].
    pub fn stage(&self, stage: Stage) -> Option<&StageCounter> {
        self.stages.get(stage as usize)
    }
}

/// What was told of a stage in the loop that runs.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    cycles: u64,
    packets: u64,
    time_stamps: u64,
}

/// Adds up cycles by stage.
#[derive(Debug)]
pub struct Profiler<C> {
    counter: C,
    counters: Arc<StageCounters>,
    tallies: [Tally; SLOTS],
    current: Stage,
    /// The counter when `current` was entered.
    since: u64,
}

impl<C: CycleCounter> Profiler<C> {
    /// A profiler that adds to `counters`.
    pub fn new(counter: C, counters: Arc<StageCounters>) -> Self {
        let since = counter.cycles();
        Self { counter, counters, tallies: [Tally::default(); SLOTS], current: Stage::Other, since }
    }

    /// Measures what a time stamp costs. Takes some dozen microseconds; called where the profiler is used, before the first packet.
    pub fn calibrate(&mut self) {
        let row = |_| {
            let start = self.counter.cycles();
            for _ in 0..CALIBRATION_ROW / 2 {
                std::hint::black_box(&mut *self).enter(Stage::Rewrite, 0);
                std::hint::black_box(&mut *self).enter(Stage::Other, 0);
            }
            self.counter.cycles().wrapping_sub(start) / CALIBRATION_ROW
        };
        let mut rows: [u64; CALIBRATION_ROWS] = std::array::from_fn(row);
        rows.sort_unstable();
        self.counters.time_stamp_cycles.set(rows[CALIBRATION_ROWS / 2]);
        self.tallies = [Tally::default(); SLOTS];
    }
}

impl<C: CycleCounter> Profile for Profiler<C> {
    #[inline]
    fn enter(&mut self, stage: Stage, packets: usize) -> Stage {
        self.tallies[stage as usize].packets += packets as u64;
        if stage == self.current {
            return stage;
        }
        let now = self.counter.cycles();
        let left = &mut self.tallies[self.current as usize];
        left.cycles += now.wrapping_sub(self.since);
        left.time_stamps += 1;
        self.since = now;
        std::mem::replace(&mut self.current, stage)
    }

    #[inline]
    fn amend(&mut self, stage: Stage, packets: usize) {
        self.current = stage;
        self.tallies[stage as usize].packets += packets as u64;
    }

    fn end_loop(&mut self, work: bool, cycles: u64) {
        if work {
            // First, so that a reader finds no more in the stages than here.
            self.counters.busy_cycles.add(cycles);
            for (counter, tally) in self.counters.stages.iter().zip(&self.tallies) {
                counter.cycles.add(tally.cycles);
                counter.packets.add(tally.packets);
                counter.time_stamps.add(tally.time_stamps);
            }
        }
        self.tallies = [Tally::default(); SLOTS];
    }
}

/// So that the control thread can make a profiler, and get it back to free it.
impl<P: Profile> Profile for Box<P> {
    #[inline]
    fn enter(&mut self, stage: Stage, packets: usize) -> Stage {
        P::enter(self, stage, packets)
    }

    #[inline]
    fn amend(&mut self, stage: Stage, packets: usize) {
        P::amend(self, stage, packets);
    }

    #[inline]
    fn end_loop(&mut self, work: bool, cycles: u64) {
        P::end_loop(self, work, cycles);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counts on by ten at each look.
    #[derive(Default)]
    struct Steps(Cell<u64>);

    impl CycleCounter for Steps {
        fn cycles(&self) -> u64 {
            self.0.replace(self.0.get() + 10)
        }
    }

    fn counts(counters: &StageCounters, stage: Stage) -> (u64, u64, u64) {
        let counter = counters.stage(stage).expect("a stage");
        (counter.cycles.get(), counter.packets.get(), counter.time_stamps.get())
    }

    #[test]
    fn cycles_belong_to_the_stage_that_was_entered_last() {
        let counters = Arc::new(StageCounters::default());
        let mut profiler = Profiler::new(Steps::default(), Arc::clone(&counters));
        assert_eq!(profiler.enter(Stage::Parse, 7), Stage::Other);
        assert_eq!(profiler.enter(Stage::Rewrite, 0), Stage::Parse);
        let outer = profiler.enter(Stage::Transmit, 5);
        profiler.enter(outer, 0);
        profiler.amend(Stage::Rewrite, 6);
        assert_eq!(profiler.enter(Stage::Other, 0), Stage::Rewrite);
        assert_eq!(counts(&counters, Stage::Parse), (0, 0, 0), "told at the end of the loop");
        profiler.end_loop(true, 100);
        assert_eq!(counts(&counters, Stage::Parse), (10, 7, 1));
        assert_eq!(counts(&counters, Stage::Rewrite), (20, 6, 2));
        assert_eq!(counts(&counters, Stage::Transmit), (10, 5, 1));
        assert_eq!(counters.busy_cycles.get(), 100);
        assert!(counters.stage(Stage::Other).is_none());
    }

    #[test]
    fn idle_loops_count_for_nothing_and_empty_polls_for_themselves() {
        let counters = Arc::new(StageCounters::default());
        let mut profiler = Profiler::new(Steps::default(), Arc::clone(&counters));
        profiler.enter(Stage::Receive, 0);
        profiler.amend(Stage::EmptyPolls, 0);
        profiler.enter(Stage::Other, 0);
        profiler.end_loop(false, 30);
        assert_eq!((counts(&counters, Stage::EmptyPolls), counters.busy_cycles.get()), ((0, 0, 0), 0));
        // Of four ports, the third of which has something, as a worker polls them.
        for found in [0, 0, 3, 0] {
            profiler.enter(Stage::Receive, 0);
            if found == 0 {
                profiler.amend(Stage::EmptyPolls, 0);
                continue;
            }
            profiler.amend(Stage::Receive, found);
            let outer = profiler.enter(Stage::Parse, found);
            profiler.enter(outer, 0);
            profiler.amend(Stage::Other, 0);
        }
        profiler.enter(Stage::Other, 0);
        profiler.end_loop(true, 30);
        assert_eq!(counts(&counters, Stage::EmptyPolls), (30, 0, 3));
        assert_eq!(counts(&counters, Stage::Receive), (10, 3, 1));
    }

    #[test]
    fn a_stage_that_is_entered_again_goes_on() {
        let counters = Arc::new(StageCounters::default());
        let mut profiler = Profiler::new(Steps::default(), Arc::clone(&counters));
        profiler.enter(Stage::Rewrite, 1);
        assert_eq!(profiler.enter(Stage::Rewrite, 2), Stage::Rewrite);
        profiler.enter(Stage::Other, 0);
        profiler.end_loop(true, 30);
        assert_eq!(counts(&counters, Stage::Rewrite), (10, 3, 1));
    }

    #[test]
    fn the_cost_of_a_time_stamp_is_measured_and_counts_for_no_stage() {
        let counters = Arc::new(StageCounters::default());
        let mut profiler = Profiler::new(Steps::default(), Arc::clone(&counters));
        profiler.calibrate();
        assert_eq!(counters.time_stamp_cycles.get(), 10, "a time stamp is one look at the counter");
        profiler.enter(Stage::Parse, 1);
        profiler.enter(Stage::Other, 0);
        profiler.end_loop(true, 20);
        for stage in Stage::ALL {
            let expected = if *stage == Stage::Parse { (10, 1, 1) } else { (0, 0, 0) };
            assert_eq!(counts(&counters, *stage), expected, "{}", stage.name());
        }
    }

    #[test]
    fn every_stage_has_a_name_of_its_own_and_its_place() {
        let names: std::collections::BTreeSet<_> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        assert_eq!(names.len(), Stage::ALL.len());
        assert!(Stage::ALL.iter().enumerate().all(|(place, stage)| *stage as usize == place));
        assert_eq!(Stage::Other as usize, Stage::ALL.len());
    }
}
