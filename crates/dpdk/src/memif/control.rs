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
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::Pid;

use super::attachment::{SharedStatus, ToQueue};
use super::layout::Demand;
use crate::{CoreSet, MemifRole};
use peers::Peer;

/// Between two attempts of a client.
const RETRY: Duration = Duration::from_millis(50);
/// How long a peer may take to come to an agreement.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// Sockets that are looked at in one turn.
const EVENTS: usize = 16;
/// The number of the event that ends the thread's sleep.
const WAKE: u64 = 0;

static CONTROL: OnceLock<Result<Arc<Control>, String>> = OnceLock::new();

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
}

/// The thread and what it works on.
#[derive(Debug)]
pub(super) struct Control {
    epoll: Epoll,
    wake: EventFd,
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
    /// What was last said of it in the log, so that it is said once.
    trouble: Option<String>,
}

/// A socket on which servers listen.
#[derive(Debug)]
struct Listener {
    path: PathBuf,
    socket: OwnedFd,
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
        let started = CONTROL.get_or_init(|| Self::spawn(cores).map_err(|error| error.to_string()));
        started.clone().map_err(io::Error::other)
    }

    fn spawn(cores: &CoreSet) -> io::Result<Arc<Self>> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        epoll.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
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
                let socket = sockets::listen(&registration.socket)?;
                let number = state.number();
                self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
                state.listeners.insert(number, Listener { path: registration.socket.clone(), socket });
            }
        }
        let number = state.number();
        state.ports.insert(number, Port { registration, peer: None, next_attempt: now, trouble: None });
        drop(state);
        let _ = self.wake.write(1);
        Ok(number)
    }

    /// Takes a port out: its peer is told, and the socket goes with the last server on it. Its queues are gone already.
    pub(super) fn unregister(&self, number: u64) {
        let mut state = self.lock();
        let Some(port) = state.ports.get(&number) else { return };
        if let Some(peer) = port.peer {
            self.disconnect(&mut state, peer, "the port stops");
        }
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
                    let _ = std::fs::remove_file(&listener.path);
                }
            }
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
                Err(_) => return,
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
        let Some(next) = attempts.chain(deadlines).min() else { return EpollTimeout::NONE };
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
        let listener = state.listeners.get(&number).map(|listener| listener.socket.as_raw_fd());
        match listener {
            Some(socket) => {
                // One that is gone by now, or one more than there may be: the next comes with the next event.
                if let Ok(socket) = sockets::accept(socket) {
                    self.greet(&mut state, number, socket);
                }
            }
            None => self.listen_to(&mut state, number),
        }
    }

    /// Lets clients try whose time has come, and ends conversations that last too long.
    fn attempt(&self, now: Instant) {
        let mut state = self.lock();
        let late = |peer: &Peer| peer.deadline().is_some_and(|deadline| deadline <= now);
        let silent: Vec<u64> =
            state.peers.iter().filter(|(_, peer)| late(peer)).map(|(number, _)| *number).collect();
        for number in silent {
            self.fail(&mut state, number, &super::MemifError::Silent);
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
