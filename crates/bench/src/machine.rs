//! What a bench does to the machine that it runs on: huge pages, and who may have the cores.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{BenchError, Result};

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";
/// Moves memory together.
const COMPACT_MEMORY: &str = "/proc/sys/vm/compact_memory";
/// Real-time priority of measured threads.
const PRIORITY: u8 = 10;
/// Forgets files that can be read again.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Checks that all cores exist and that none is named twice.
pub(crate) fn check_cores(generator: &[u16], device: &[u16]) -> Result<()> {
    check_each_core(&[generator, device].concat())?;
    if generator.is_empty() || device.is_empty() { Err(BenchError::Core { core: 0 }) } else { Ok(()) }
}

/// Checks that there is a core, that all exist and that none is named twice.
pub(crate) fn check_each_core(cores: &[u16]) -> Result<()> {
    let mut seen = std::collections::BTreeSet::new();
    for core in cores {
        let exists = std::path::Path::new(&format!("/sys/devices/system/cpu/cpu{core}")).is_dir();
        if !exists || !seen.insert(core) {
            return Err(BenchError::Core { core: *core });
        }
    }
    if cores.is_empty() { Err(BenchError::Core { core: 0 }) } else { Ok(()) }
}

/// How long some threads have waited for a core so far because another one had it (`/proc/PID/schedstat`); zero where the kernel does not tell.
pub(crate) fn waited_for_core(threads: &[u32]) -> Duration {
    let of_thread = |thread: &u32| {
        let text = fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Duration::from_nanos(threads.iter().filter_map(of_thread).sum())
}

/// Huge pages that were reserved for the bench; given back when dropped.
#[derive(Debug)]
pub(crate) struct HugePages {
    before: Option<u64>,
}

impl HugePages {
    /// Makes sure that so much memory is free in huge pages of 2 MiB, if this process may; none if that cannot be had. Without, everything
    /// still works.
    pub(crate) fn reserve(mebibytes: u64) -> Option<Self> {
        let wanted = mebibytes.div_ceil(2);
        let total = || fs::read_to_string(HUGE_PAGES).ok()?.trim().parse::<u64>().ok();
        let before = total()?;
        let mut reserved = Self { before: None };
        // Where files fill the memory, the kernel finds room for huge pages only behind one of these (proc_sys_vm(5)).
        for make_room in [None, Some(COMPACT_MEMORY), Some(DROP_CACHES)] {
            if free() >= wanted {
                break;
            }
            if let Some(file) = make_room {
                fs::write(file, "1").ok()?;
            }
            fs::write(HUGE_PAGES, (total()? + wanted - free()).to_string()).ok()?;
            reserved.before = Some(before);
        }
        (free() >= wanted).then_some(reserved)
    }
}

/// Huge pages of 2 MiB that nobody uses or has been promised.
fn free() -> u64 {
    meminfo("HugePages_Free:").saturating_sub(meminfo("HugePages_Rsvd:"))
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // The kernel gives back what nobody uses; it is as it was once the processes have ended.
            let _ = fs::write(HUGE_PAGES, before.to_string());
        }
    }
}

fn meminfo(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Runs threads under the real-time scheduler (SCHED_FIFO) for the time of a trial, so that nothing else of a shared machine takes
/// their cores. Through chrt, and only where that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Realtime(bool);

impl Realtime {
    /// Finds out whether it is allowed, if it is wanted at all.
    pub(crate) fn new(wanted: bool) -> Self {
        Self(wanted && chrt(&["-f", &PRIORITY.to_string(), "true"]))
    }

    /// Whether threads are raised.
    pub(crate) const fn is_on(self) -> bool {
        self.0
    }

    /// Raises threads until the guard is dropped.
    pub(crate) fn raise(self, threads: impl IntoIterator<Item = u32>) -> Raised {
        self.raise_to(PRIORITY, threads)
    }

    /// Raises threads to a priority, 1 to 99, until the guard is dropped. Those of [`Realtime::raise`] give way to higher ones.
    pub(crate) fn raise_to(self, priority: u8, threads: impl IntoIterator<Item = u32>) -> Raised {
        let mut raised = Raised(Vec::new());
        for thread in threads.into_iter().filter(|_| self.0) {
            if chrt(&["-f", "-p", &priority.to_string(), &thread.to_string()]) {
                raised.0.push(thread);
            }
        }
        raised
    }
}

/// Threads under the real-time scheduler.
#[derive(Debug)]
pub(crate) struct Raised(Vec<u32>);

impl Drop for Raised {
    fn drop(&mut self) {
        for thread in &self.0 {
            chrt(&["-o", "-p", "0", &thread.to_string()]);
        }
    }
}

fn chrt(arguments: &[&str]) -> bool {
    let mut command = Command::new("chrt");
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_is_not_enough() {
        assert!(check_cores(&[0], &[0]).is_err() && check_cores(&[0], &[]).is_err());
        let sentence = check_cores(&[0], &[9999]).unwrap_err().to_string();
        assert!(sentence.contains("core 9999") && sentence.contains("--device-cores"), "{sentence}");
    }

    #[test]
    fn the_machine_can_be_read() {
        assert_eq!(meminfo("NoSuchField:"), 0);
        assert!(meminfo("MemTotal:") > 0);
    }
}
