//! Processes that are told apart by pid *and* start time, and signalled through a pidfd.
//!
//! A pid alone may have been given to another process since it was recorded. Nothing in this crate signals a process by name,
//! and none by a pid whose start time differs from the recorded one.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result, While};

/// Seconds that a process gets to vanish after SIGKILL.
const KILL_WAIT_S: u64 = 10;

/// A process, identified for as long as the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessIdentity {
    /// Process id in the PID namespace of the `/proc` that was read.
    pub pid: i32,
    /// Start time in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub start_time: u64,
}

impl ProcessIdentity {
    /// The process with this pid, if there is one.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Self { pid, start_time: start_time(&stat)? })
    }

    /// The calling process, as `/proc` numbers it. In a new PID namespace with the old `/proc` this is the outer pid.
    pub(crate) fn of_self() -> Result<Self> {
        let link = fs::read_link("/proc/self").doing(|| "reading /proc/self".into())?;
        link.to_str().and_then(|pid| pid.parse().ok()).and_then(Self::of).ok_or_else(|| {
            LabError::Step(
                "/proc does not show the calling process; mount the proc file system on /proc".into(),
            )
        })
    }

    /// Whether the process runs (a zombie that nobody has waited for does not).
    pub fn is_alive(self) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.pid)) else { return false };
        start_time(&stat) == Some(self.start_time) && !matches!(state(&stat), Some('Z' | 'X'))
    }

    /// Waits until the process has ended; false when it still runs after `patience`.
    pub(crate) fn wait_for_end(self, patience: Duration) -> bool {
        self.open().is_none_or(|pidfd| wait(&pidfd, patience))
    }

    /// A pidfd, only if it is of this very process.
    fn open(self) -> Option<OwnedFd> {
        let pidfd = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        self.is_alive().then_some(pidfd)
    }

    /// Sends SIGTERM, waits for the end, and after `patience` sends SIGKILL and waits again. A process that is gone is no error.
    ///
    /// # Errors
    /// [`LabError::NotGone`] when it survives SIGKILL for ten seconds.
    pub(crate) fn end(self, patience: Duration) -> Result<()> {
        let Some(pidfd) = self.open() else { return Ok(()) };
        // A refused signal shows in the wait below; a process that just ended refuses too.
        let _ = pidfd_send_signal(&pidfd, Signal::TERM);
        if !patience.is_zero() && wait(&pidfd, patience) {
            return Ok(());
        }
        let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        if wait(&pidfd, Duration::from_secs(KILL_WAIT_S)) {
            Ok(())
        } else {
            Err(LabError::NotGone(self.pid, KILL_WAIT_S))
        }
    }
}

/// Waits until the process behind a pidfd has ended; false when it still runs after `patience`.
fn wait(pidfd: &OwnedFd, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Field 22 of `/proc/PID/stat`. The second field, the program's name, may hold spaces and parentheses, so fields are counted
/// from the last `)`.
fn start_time(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Field 3 of `/proc/PID/stat`.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn name_with_parentheses_does_not_shift_fields() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        assert_eq!(start_time(stat), Some(987_654));
        assert_eq!(state(stat), Some('S'));
    }

    #[test]
    fn another_start_time_is_another_process() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let real = ProcessIdentity::of(child.id().cast_signed()).unwrap();
        let reused = ProcessIdentity { start_time: real.start_time + 1, ..real };
        assert!(real.is_alive());
        assert!(!reused.is_alive());
        reused.end(Duration::ZERO).unwrap();
        assert!(real.is_alive(), "a process with another start time was killed");
        real.end(Duration::from_secs(5)).unwrap();
        assert!(!real.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn own_identity_is_found() {
        let own = ProcessIdentity::of_self().unwrap();
        assert_eq!(own.pid, std::process::id().cast_signed());
        assert!(own.is_alive());
    }
}
