//! The event files of rings: a client makes them and both sides write to them, to wake a peer that sleeps.
//!
//! A worker writes here, and what it writes to comes from another process: it must not be anything that can make it wait. Pipes, sockets and
//! ordinary files are refused when they are offered. An event file keeps a writer waiting if its count is full and it was switched to
//! blocking, which the other process can do as well: it is switched back in front of every write. A peer that fills and switches it again
//! between these two calls could hold up a worker; peers that poll, as all fast ones do, are never written to.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::S_IFMT;
use nix::sys::stat::fstat;
use nix::unistd::write;

/// Whether a file may be an event file: one of the kernel's that are of no type, as no pipe, socket, device or file on a disk is.
///
/// # Errors
/// EINVAL for all others, and what the system refuses.
pub(super) fn check(file: BorrowedFd<'_>) -> Result<(), Errno> {
    if fstat(file)?.st_mode & S_IFMT != 0 {
        return Err(Errno::EINVAL);
    }
    set_nonblocking(file)
}

/// Wakes a peer that waits for events: system calls, for peers that do not poll.
#[cold]
pub(super) fn wake(events: &OwnedFd) {
    // A full counter wakes it as well.
    let _ = set_nonblocking(events.as_fd()).and_then(|()| write(events, &1u64.to_ne_bytes()));
}

fn set_nonblocking(file: BorrowedFd<'_>) -> Result<(), Errno> {
    fcntl(file, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use nix::sys::eventfd::{EfdFlags, EventFd};
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::unistd::pipe;

    use super::*;

    #[test]
    fn only_event_files_are_accepted_and_none_keeps_the_writer_waiting() {
        let (_reader, writer) = pipe().unwrap();
        let memory = memfd_create(c"test", MFdFlags::MFD_CLOEXEC).unwrap();
        assert_eq!(check(writer.as_fd()), Err(Errno::EINVAL));
        assert_eq!(check(memory.as_fd()), Err(Errno::EINVAL));

        let blocking = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap();
        blocking.write(u64::MAX - 1).unwrap();
        let file = OwnedFd::from(blocking);
        check(file.as_fd()).unwrap();
        fcntl(&file, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        wake(&file);
        let mut count = [0; 8];
        nix::unistd::read(&file, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), u64::MAX - 1, "it was full, and nobody waited");
    }
}
