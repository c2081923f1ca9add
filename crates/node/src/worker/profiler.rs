//! A worker's profile: cycles of the time-stamp counter, by stage.

use sluice_datapath::profile::{self, CycleCounter};

/// Adds the cycles of a worker up by stage.
pub(crate) type Profiler = profile::Profiler<TimeStampCounter>;

/// The time-stamp counter of the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeStampCounter;

impl CycleCounter for TimeStampCounter {
    #[inline(always)]
    fn cycles(&self) -> u64 {
        sluice_dpdk::cycles()
    }
}
