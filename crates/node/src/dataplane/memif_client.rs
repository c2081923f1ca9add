//! The client side of a memif: connected to its server whenever there is one.
//!
//! ```text
//!            greeted: start, queues to the workers
//!   Asking ─────────────────────────────────────────▶ Running
//!     ▲ ▲                                                │ link down: workers let go of the queues
//!     │ └── no greeting, or none listens                 ▼
//!     └─────────────────────────── stopped ────────── Releasing
//! ```
//!
//! The driver connects once, when the port starts, and its connect would wait for a server that listens but does not run. So the server is asked
//! first, without waiting: one that lives greets whoever connects (memif's HELLO). All of it happens on the control thread, a step at a time;
//! an attempt costs a few system calls, five times a second at most.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, socket};
use sluice_intent::plan::PortIndex;

use super::OpenPort;
use super::workers::{WorkerHandle, hand_out};
use crate::worker::Command;

/// Between two attempts.
const RETRY: Duration = Duration::from_millis(200);
/// How long a server may take to greet, and to accept after that.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// How long a client that does not copy holds the control thread up for a server that has greeted and then does not accept. It accepts in less
/// than a millisecond.
const ACCEPT_LIMIT: Duration = Duration::from_millis(100);
/// How long a link is down before its queues are taken from the workers: the driver ends the connection on a thread of its own, which says
/// so first and cleans up then.
const SETTLING: Duration = Duration::from_millis(100);

/// The connection of a port to its server.
pub(crate) struct MemifClient {
    socket: PathBuf,
    state: State,
    /// Whether it has been told that the server refuses.
    complained: bool,
}

enum State {
    /// Asks the server from then on, or waits for its greeting.
    Asking { next: Instant, asked: Option<OwnedFd> },
    /// The port runs. Its link has been down since.
    Running { down_since: Option<Instant>, was_up: bool },
    /// The workers were told to let go of the queues.
    Releasing,
}

impl MemifClient {
    /// For a port that is configured and not started.
    pub(super) fn new(socket: PathBuf, now: Instant) -> Self {
        Self { socket, state: State::Asking { next: now, asked: None }, complained: false }
    }

    /// Takes the next step, if it is time.
    pub(super) fn advance(
        &mut self,
        number: PortIndex,
        open: &mut OpenPort,
        workers: &mut [WorkerHandle],
        now: Instant,
    ) {
        match &mut self.state {
            State::Asking { next, asked } => {
                if ask(&self.socket, next, asked, now) {
                    self.state = self.start(number, open, workers, now);
                }
            }
            State::Running { down_since, was_up } => {
                if open.port.link().is_ok_and(|link| link.up) {
                    (*down_since, *was_up, self.complained) = (None, true, false);
                    return;
                }
                let since = *down_since.get_or_insert(now);
                let patience = if *was_up { SETTLING } else { ANSWER_LIMIT };
                if now.saturating_duration_since(since) < patience {
                    return;
                }
                if !*was_up {
                    self.complain(
                        open,
                        "it does not accept; both sides need the same id, and as many queues",
                    );
                }
                workers.iter_mut().for_each(|worker| worker.deliver(Command::Release(number)));
                self.state = State::Releasing;
            }
            State::Releasing => {
                if open.port.stop().is_ok() {
                    self.state = State::Asking { next: now + RETRY, asked: None };
                }
            }
        }
    }

    fn start(
        &mut self,
        number: PortIndex,
        open: &mut OpenPort,
        workers: &mut [WorkerHandle],
        now: Instant,
    ) -> State {
        match open.port.start_within(ACCEPT_LIMIT) {
            Ok(queues) => {
                hand_out(workers, [(number, false, queues)]);
                State::Running { down_since: Some(now), was_up: false }
            }
            Err(error) => {
                self.complain(open, &error.to_string());
                State::Asking { next: now + RETRY, asked: None }
            }
        }
    }

    /// Says once that the server is there and of no use.
    fn complain(&mut self, open: &OpenPort, why: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            let (port, socket) = (open.port.name(), self.socket.display());
            tracing::warn!(port, %socket, why, "the memif server refuses; trying again until it does not");
        }
    }
}

/// Asks whether a server lives. True: it has greeted.
fn ask(path: &Path, next: &mut Instant, asked: &mut Option<OwnedFd>, now: Instant) -> bool {
    let Some(waiting) = asked else {
        if now >= *next {
            *asked = reach(path);
            *next = now + if asked.is_some() { ANSWER_LIMIT } else { RETRY };
        }
        return false;
    };
    let mut greeting = [0; 128];
    let heard = recv(waiting.as_raw_fd(), &mut greeting, MsgFlags::MSG_DONTWAIT);
    if heard == Err(Errno::EAGAIN) && now < *next {
        return false;
    }
    (*asked, *next) = (None, now + RETRY);
    heard.is_ok_and(|length| length > 0)
}

/// A connection to the socket, if somebody listens and has room for it.
fn reach(path: &Path) -> Option<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).ok()?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path).ok()?).ok()?;
    Some(socket)
}
