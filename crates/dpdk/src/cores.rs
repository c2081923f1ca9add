//! Cores, threads and the time-stamp counter: what a worker thread does before its first packet.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::marker::PhantomData;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::{CoreError, Eal, ffi};

/// Cores of this machine, as Linux numbers them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreSet(Vec<usize>);

impl CoreSet {
    /// The cores on which this process may run: what `taskset`, systemd's `AllowedCPUs=` or a container left of those that are online.
    ///
    /// It is the main thread's affinity, since the others are pinned to cores of their own. An EAL that is started with a main core narrows
    /// it to that core: ask before.
    pub fn available() -> Self {
        let Ok(allowed) = sched_getaffinity(Pid::this()) else { return Self(Vec::new()) };
        Self((0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).collect())
    }

    /// Whether `core` is one of them.
    pub fn contains(&self, core: usize) -> bool {
        self.0.contains(&core)
    }

    /// The cores, ascending.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for CoreSet {
    /// As Linux writes lists of cores: `0-3,8`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for run in self.0.chunk_by(|left, right| left + 1 == *right) {
            match run {
                [one] => write!(formatter, "{separator}{one}")?,
                [first, .., last] => write!(formatter, "{separator}{first}-{last}")?,
                [] => {}
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Pins the calling thread to one core.
///
/// # Errors
/// [`CoreError::Unknown`] names the cores there are.
pub fn pin_to_core(core: usize) -> Result<(), CoreError> {
    let unknown = || CoreError::Unknown { core, available: CoreSet::available() };
    let mut set = CpuSet::new();
    set.set(core).map_err(|_| unknown())?;
    match sched_setaffinity(Pid::from_raw(0), &set) {
        Ok(()) => Ok(()),
        Err(Errno::EINVAL) => Err(unknown()),
        Err(errno) => Err(CoreError::Pin { core, source: errno.into() }),
    }
}

/// The time-stamp counter. Divide by [`Eal::cycles_per_second`] for seconds.
#[inline(always)]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and Linux leaves it enabled for user space.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Makes the calling thread known to DPDK, so that memory pools keep a cache for it; without, each allocation takes the pool's
/// shared ring. Ends when dropped, on the same thread.
#[derive(Debug)]
pub struct WorkerRegistration {
    lcore: u32,
    _eal: Eal,
    /// Neither Send nor Sync: the registration belongs to the thread that made it.
    _thread: PhantomData<(Cell<()>, *const ())>,
}

impl WorkerRegistration {
    /// Registers the calling thread.
    ///
    /// # Errors
    /// [`CoreError::Register`] if the thread is registered already or DPDK has no room for more threads (about 127).
    pub fn new(eal: &Eal) -> Result<Self, CoreError> {
        if ffi::sluice_lcore_id() != u32::MAX {
            return Err(CoreError::Register { source: io::Error::from(io::ErrorKind::AlreadyExists) });
        }
        // SAFETY: the EAL runs, since `eal` exists, and this thread is unknown to it.
        match unsafe { ffi::sluice_thread_register() } {
            0 => Ok(Self { lcore: ffi::sluice_lcore_id(), _eal: eal.clone(), _thread: PhantomData }),
            error => Err(CoreError::Register { source: io::Error::from_raw_os_error(-error) }),
        }
    }

    /// DPDK's number for this thread. It is not the number of the core that the thread runs on.
    pub fn lcore(&self) -> u32 {
        self.lcore
    }
}

impl Drop for WorkerRegistration {
    fn drop(&mut self) {
        // SAFETY: this thread was registered by `new`, is the same (the type is not Send), and the EAL still runs.
        unsafe { ffi::sluice_thread_unregister() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_written_as_linux_does() {
        assert_eq!(CoreSet(vec![0, 1, 2, 3, 8]).to_string(), "0-3,8");
        assert_eq!(CoreSet(vec![5]).to_string(), "5");
    }

    #[test]
    fn pinning_moves_the_thread_and_an_unknown_core_names_those_there_are() {
        let core = CoreSet::available().as_slice()[0];
        pin_to_core(core).unwrap();
        assert_eq!(nix::sched::sched_getcpu().unwrap(), core);
        for missing in [900, 5000] {
            let sentence = pin_to_core(missing).unwrap_err().to_string();
            assert!(sentence.contains(&format!("core {missing}")), "{sentence}");
            assert!(sentence.contains(&format!("are {}", CoreSet::available())), "{sentence}");
        }
    }

    #[test]
    fn the_cycle_counter_runs() {
        let first = cycles();
        std::hint::black_box((0..10_000u64).sum::<u64>());
        assert!(cycles() > first);
    }
}
