//! The control channels of all memif ports of the process: one thread that listens, connects, and connects again.
//!
//! The thread sleeps until a socket has something, or a client is to try again. Ports are registered when they start and taken out when they
//! stop, under one lock; workers never take it.

mod peers;
mod sockets;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::Pid;

use super::MemifError;
use super::attachment::{SharedStatus, ToQueue};
use super::layout::Demand;
use crate::{CoreSet, LogLevel, MemifRole, Mempool, log};
use peers::Peer;

/// Between two attempts of a client.
const RETRY: Duration = Duration::from_millis(50);
/// Between two looks whether queues have let go of a connection that is over.
const COLLECT: Duration = Duration::from_millis(250);
/// How long a peer may take to come to an agreement.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// How long a port that lent packet memory waits, when it stops, for its peer to have let go of it.
const FAREWELL_LIMIT: Duration = Duration::from_millis(100);
/// How long a listener rests when a client cannot be accepted, for want of descriptors or memory: the client waits there, and asks on.
const REST: Duration = Duration::from_millis(100);
/// Clients that may be connected without having said for which port.
const MOST_NAMELESS: usize = 32;
/// A port's troubles are told at most so often: a peer may bring about others all the time.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Sockets that are looked at in one turn.
const EVENTS: usize = 16;
/// The number of the event that ends the thread's sleep.
const WAKE: u64 = 0;

static CONTROL: Mutex<Option<Arc<Control>>> = Mutex::new(None);

/// A port as the control thread knows it.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) name: String,
    pub(super) socket: PathBuf,
    pub(super) id: u32,
    pub(super) role: MemifRole,
    pub(super) zero_copy: bool,
    /// Rings as a client of as many queues would have them.
    pub(super) demand: Demand,
    /// The ways to the queues.
    pub(super) receive: Vec<ToQueue>,
    pub(super) transmit: Vec<ToQueue>,
    pub(super) status: SharedStatus,
    /// Where packets come from that may be in the hands of a peer: it is here until they are back.
    pub(super) _pool: Mempool,
}

/// The thread and what it works on.
#[derive(Debug)]
pub(super) struct Control {
    epoll: Epoll,
    wake: Arc<EventFd>,
    state: Mutex<State>,
}

/// All ports, listeners and peers. Numbers of ports, and of sockets in the epoll set, come from one sequence and are never used again.
#[derive(Debug, Default)]
struct State {
    ports: BTreeMap<u64, Port>,
    listeners: BTreeMap<u64, Listener>,
    peers: BTreeMap<u64, Peer>,
    last_number: u64,
}

#[derive(Debug)]
struct Port {
    registration: Registration,
    /// The peer that it talks to.
    peer: Option<u64>,
    /// When a client is to try.
    next_attempt: Instant,
    /// When to look whether the queues have let go of the last connection.
    collect: Option<Instant>,
    /// What was last said of it in the log, so that it is said once.
    trouble: Option<String>,
    /// When something was last said.
    told: Option<Instant>,
}

/// A socket on which servers listen.
#[derive(Debug)]
struct Listener {
    path: PathBuf,
    socket: OwnedFd,
    file: sockets::Identity,
    /// When it is to accept again, if it rests.
    rests_until: Option<Instant>,
    /// Whether the last client could not be accepted.
    troubled: bool,
}

impl State {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl Control {
    /// The one of this process, started if it does not run. Its thread runs on these cores.
    ///
    /// # Errors
    /// What the system refuses.
    pub(super) fn start(cores: &CoreSet) -> io::Result<Arc<Self>> {
        let mut running = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(control) = &*running {
            return Ok(Arc::clone(control));
        }
        let control = Self::spawn(cores)?;
        *running = Some(Arc::clone(&control));
        Ok(control)
    }

    /// What ends the thread's sleep.
    pub(super) fn wake(&self) -> Arc<EventFd> {
        Arc::clone(&self.wake)
    }

    fn spawn(cores: &CoreSet) -> io::Result<Arc<Self>> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        epoll.add(&*wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        let control = Arc::new(Self { epoll, wake, state: Mutex::default() });
        let (worker, cores) = (Arc::clone(&control), cores.clone());
        std::thread::Builder::new().name("memif".to_owned()).spawn(move || {
            // The thread that starts the first port may be pinned to a core that it polls on.
            let mut set = CpuSet::new();
            if cores.as_slice().iter().all(|core| set.set(*core).is_ok()) {
                let _ = sched_setaffinity(Pid::from_raw(0), &set);
            }
            worker.run();
        })?;
        Ok(control)
    }

    /// Takes a port in: a server listens from now on, a client tries at once.
    ///
    /// # Errors
    /// A socket that cannot be made, because somebody listens on it or the folder is not ours to write.
    pub(super) fn register(&self, registration: Registration) -> Result<u64, Errno> {
        let mut state = self.lock();
        let now = Instant::now();
        if let MemifRole::Server = registration.role {
            let on_it = |listener: &Listener| listener.path == registration.socket;
            let same = |port: &Port| {
                port.registration.role == MemifRole::Server
                    && port.registration.socket == registration.socket
                    && port.registration.id == registration.id
            };
            if state.ports.values().any(same) {
                return Err(Errno::EEXIST);
            }
            if !state.listeners.values().any(on_it) {
                let path = registration.socket.clone();
                let (socket, file) = sockets::listen(&path)?;
                let number = state.number();
                if let Err(errno) = self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, number)) {
                    file.remove(&path);
                    return Err(errno);
                }
                let listener = Listener { path, socket, file, rests_until: None, troubled: false };
                state.listeners.insert(number, listener);
            }
        }
        let number = state.number();
        state.ports.insert(
            number,
            Port { registration, peer: None, next_attempt: now, collect: None, trouble: None, told: None },
        );
        drop(state);
        let _ = self.wake.write(1);
        Ok(number)
    }

    /// Takes a port out: its peer is told, and the socket goes with the last server on it. Its queues are gone already.
    pub(super) fn unregister(&self, number: u64) {
        let mut state = self.lock();
        let Some(port) = state.ports.get(&number) else { return };
        let peer = port.peer.and_then(|peer| self.disconnect(&mut state, peer, "the port stops"));
        let Some(port) = state.ports.remove(&number) else { return };
        let path = &port.registration.socket;
        let is_server =
            |other: &Port| other.registration.role == MemifRole::Server && other.registration.socket == *path;
        if port.registration.role == MemifRole::Server && !state.ports.values().any(is_server) {
            let gone: Vec<u64> = state
                .listeners
                .iter()
                .filter(|(_, listener)| listener.path == *path)
                .map(|(number, _)| *number)
                .collect();
            for number in gone {
                if let Some(listener) = state.listeners.remove(&number) {
                    let _ = self.epoll.delete(&listener.socket);
                    listener.file.remove(&listener.path);
                }
            }
        }
        drop(state);
        // What was lent goes back to its pool with the port.
        if let Some(peer) = peer
            && port.registration.zero_copy
        {
            peer.wait_for_end(FAREWELL_LIMIT);
        }
    }

    fn run(&self) {
        let mut events = [EpollEvent::empty(); EVENTS];
        loop {
            let timeout = self.timeout();
            let count = match self.epoll.wait(&mut events, timeout) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                // Nothing that this thread does can make it so; it would spin.
                Err(errno) => {
                    let text = format!(
                        "shared-memory ports connect no more: waiting for their sockets failed ({errno})"
                    );
                    return log::tell(LogLevel::Error, &text);
                }
            };
            for event in &events[..count] {
                self.handle(event.data());
            }
            self.attempt(Instant::now());
        }
    }

    /// How long the thread may sleep.
    fn timeout(&self) -> EpollTimeout {
        let state = self.lock();
        let waiting = |port: &&Port| port.peer.is_none() && port.registration.role == MemifRole::Client;
        let attempts = state.ports.values().filter(waiting).map(|port| port.next_attempt);
        let deadlines = state.peers.values().filter_map(Peer::deadline);
        let rests = state.listeners.values().filter_map(|listener| listener.rests_until);
        let collections = state.ports.values().filter_map(|port| port.collect);
        let Some(next) = attempts.chain(deadlines).chain(rests).chain(collections).min() else {
            return EpollTimeout::NONE;
        };
        // Rounded up: a millisecond early would be a turn for nothing.
        let left = next.saturating_duration_since(Instant::now()).as_millis() + 1;
        EpollTimeout::try_from(left.min(60_000) as i32).unwrap_or(EpollTimeout::ZERO)
    }

    fn handle(&self, number: u64) {
        if number == WAKE {
            let _ = self.wake.read();
            return;
        }
        let mut state = self.lock();
        let Some(listener) = state.listeners.get_mut(&number) else {
            return self.listen_to(&mut state, number);
        };
        match sockets::accept(listener.socket.as_raw_fd()) {
            Ok(socket) => {
                listener.troubled = false;
                self.greet(&mut state, number, socket);
            }
            // One that is gone by now.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => {}
            Err(errno) => self.rest(listener, number, errno),
        }
    }

    /// Lets a listener rest which cannot accept: there would be an event all the time.
    fn rest(&self, listener: &mut Listener, number: u64, errno: Errno) {
        listener.rests_until = Some(Instant::now() + REST);
        let _ = self.epoll.modify(&listener.socket, &mut EpollEvent::new(EpollFlags::empty(), number));
        if !std::mem::replace(&mut listener.troubled, true) {
            let path = listener.path.display();
            log::tell(
                LogLevel::Warning,
                &format!("memif socket {path}: a client cannot be accepted ({errno})"),
            );
        }
    }

    /// Lets clients try whose time has come, listeners accept that have rested, frees what queues gave back, and ends conversations that
    /// last too long and connections whose rings a queue found broken.
    fn attempt(&self, now: Instant) {
        let mut state = self.lock();
        for (number, listener) in &mut state.listeners {
            if listener.rests_until.is_some_and(|end| end <= now) {
                listener.rests_until = None;
                let mut event = EpollEvent::new(EpollFlags::EPOLLIN, *number);
                let _ = self.epoll.modify(&listener.socket, &mut event);
            }
        }
        let broken = |port: &Port| port.peer.filter(|peer| port.registration.status.is_broken(*peer));
        let broken: Vec<u64> = state.ports.values().filter_map(broken).collect();
        for number in broken {
            self.fail(&mut state, number, &MemifError::BrokenRing);
        }
        for port in state.ports.values_mut().filter(|port| port.collect.is_some_and(|due| due <= now)) {
            port.collect = (!port.have_queues_let_go()).then(|| now + COLLECT);
        }
        let late = |peer: &Peer| peer.deadline().is_some_and(|deadline| deadline <= now);
        let silent: Vec<u64> =
            state.peers.iter().filter(|(_, peer)| late(peer)).map(|(number, _)| *number).collect();
        for number in silent {
            self.fail(&mut state, number, &MemifError::Silent);
        }
        let due = |port: &Port| {
            port.registration.role == MemifRole::Client && port.peer.is_none() && port.next_attempt <= now
        };
        let due: Vec<u64> =
            state.ports.iter().filter(|(_, port)| due(port)).map(|(number, _)| *number).collect();
        for number in due {
            self.connect(&mut state, number, now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
