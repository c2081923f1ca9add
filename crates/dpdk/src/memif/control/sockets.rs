//! The Unix sockets of the control channels. None of these calls waits.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    accept4, bind, connect, listen as listen_on, recvmsg, sendmsg, socket,
};

use crate::memif::MemifError;
use crate::memif::message::{MESSAGE_BYTES, Message};

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 64;
/// Most files that the kernel lets go with a message (`SCM_MAX_FD`). There is room for all: of more than there is room for the first ones
/// would be ours without our knowing of them.
const MOST_FILES: usize = 253;

fn flags() -> SockFlag {
    SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC
}

/// A socket that listens at a path, in place of one that a process left behind which did not end in order.
///
/// # Errors
/// EADDRINUSE where somebody listens or the file is no socket, and what else the system refuses.
pub(super) fn listen(path: &Path) -> Result<(OwnedFd, Identity), Errno> {
    let address = UnixAddr::new(path)?;
    let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags(), None)?;
    let bound = match bind(listener.as_raw_fd(), &address) {
        Err(Errno::EADDRINUSE) if is_left_behind(path, &address) => {
            fs::remove_file(path).map_err(|_| Errno::EADDRINUSE)?;
            bind(listener.as_raw_fd(), &address)
        }
        bound => bound,
    };
    bound?;
    listen_on(&listener, Backlog::new(BACKLOG)?)?;
    Ok((listener, Identity::of(path).ok_or(Errno::ENOENT)?))
}

/// Which file a socket's is: another process may have put its own at the same path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|file| Self(file.dev(), file.ino()))
    }

    /// Removes the file if it is still this one.
    pub(super) fn remove(&self, path: &Path) {
        if Self::of(path).as_ref() == Some(self) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether nobody listens on a socket any more. It is asked with another type of socket, to which the kernel answers without connecting.
fn is_left_behind(path: &Path, address: &UnixAddr) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let Ok(probe) = socket(AddressFamily::Unix, SockType::Stream, flags(), None) else { return false };
    is_socket && connect(probe.as_raw_fd(), address) == Err(Errno::ECONNREFUSED)
}

/// The next client of a listener.
pub(super) fn accept(listener: RawFd) -> Result<OwnedFd, Errno> {
    let accepted = accept4(listener, flags())?;
    // SAFETY: the kernel has just given it to us, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(accepted) })
}

/// A connection to a server; an error if none listens or it has no room now.
pub(super) fn reach(path: &Path) -> Result<OwnedFd, Errno> {
    let client = socket(AddressFamily::Unix, SockType::SeqPacket, flags(), None)?;
    connect(client.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(client)
}

/// Sends a message, with a file where one belongs to it.
pub(super) fn send(socket: &OwnedFd, message: &Message, file: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let octets = message.encode();
    let files: Vec<RawFd> = file.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&files)];
    let control = if files.is_empty() { &[][..] } else { &rights[..] };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&octets)], control, flags, None).map(|_| ())
}

/// The next message, if there is one, and the file that came with it.
///
/// # Errors
/// A peer that is gone, and what is no message.
pub(super) fn receive(socket: &OwnedFd) -> Result<Option<(Message, Option<OwnedFd>)>, MemifError> {
    let mut octets = [0; MESSAGE_BYTES + 1];
    let mut control = nix::cmsg_space!([RawFd; MOST_FILES]);
    let mut buffers = [IoSliceMut::new(&mut octets)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let received = match recvmsg::<()>(socket.as_fd().as_raw_fd(), &mut buffers, Some(&mut control), flags) {
        Ok(received) => received,
        Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let mut files = Vec::new();
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(rights) = message {
            // SAFETY: the kernel has just made these descriptors for us.
            files.extend(rights.into_iter().map(|file| unsafe { OwnedFd::from_raw_fd(file) }));
        }
    }
    if files.len() > 1 {
        return Err(MemifError::Files(files.len()));
    }
    match received.bytes {
        0 => Err(Errno::ECONNRESET.into()),
        length => Ok(Some((Message::decode(&octets[..length])?, files.pop()))),
    }
}

/// Waits until the peer has closed its end too, or until this has taken too long.
pub(super) fn wait_for_end(socket: &OwnedFd, limit: Duration) {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now()).as_millis();
        if left == 0 {
            return;
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, timeout) {
            // What it says yet does not matter.
            Ok(1..) if receive(socket).is_ok() => {}
            Err(Errno::EINTR) => {}
            _ => return,
        }
    }
}
