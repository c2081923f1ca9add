//! Shared-memory ports with a peer that breaks the protocol, by mistake or on purpose: it is refused and told why, nothing of it gets
//! through, nothing of ours is lost, and the next peer is served.
//!
//! | file | what the peer does wrong |
//! |---|---|
//! | [`descriptors`] | what it writes into rings |
//! | [`handshake`] | what it says before it is connected, and after |
//! | [`connections`] | that it comes, goes, or stays silent |

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../common/mod.rs"]
mod common;
mod connections;
mod descriptors;
mod handshake;

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use arrayvec::ArrayVec;
use common::raw::{Client, Descriptor};
use common::wait_for;
use sluice_dpdk::{Eal, Mbuf, MemifRole, MemifSettings, Mempool, Port, PortConfig, PortKind, Queues};

static PROCESS: OnceLock<Process> = OnceLock::new();
static TURN: Mutex<()> = Mutex::new(());

const ID: u32 = 3;
const SLOTS_LOG2: u8 = 4;
const SLOTS: u16 = 1 << SLOTS_LOG2;

/// What the tests share.
struct Process {
    eal: Eal,
    pool: Mempool,
    /// Descriptors and mappings without a port.
    has: (usize, usize),
}

/// One port under test. Tests take turns, since they count what the process has.
struct Bench {
    pool: &'static Mempool,
    socket: PathBuf,
    port: Port,
    queues: Queues,
    /// Descriptors and mappings with a port that has no peer.
    has: (usize, usize),
    _folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// Descriptors that the process has open, and mappings of shared memory.
fn holdings() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mappings = maps.lines().filter(|line| line.contains("/memfd:")).count();
    (fs::read_dir("/proc/self/fd").unwrap().count(), mappings)
}

impl Process {
    fn start() -> Self {
        let eal = common::start_eal();
        let pool = common::small_pool(&eal, "rogue");
        // The control thread starts with the first port, and stays.
        let folder = tempfile::tempdir().unwrap();
        let settings = MemifSettings::new(folder.path().join("memif.sock"), 0, MemifRole::Server);
        drop(Port::new(&eal, "first", &PortKind::Memif(settings)).unwrap());
        Self { eal, pool, has: holdings() }
    }
}

impl Bench {
    fn new(role: MemifRole) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let Process { eal, pool, has } = PROCESS.get_or_init(Process::start);
        wait_for("peers of the test before to be forgotten", || holdings() == *has);
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("memif.sock");
        let settings = MemifSettings { ring_size_log2: SLOTS_LOG2, ..MemifSettings::new(&socket, ID, role) };
        let mut port = Port::new(eal, "port", &PortKind::Memif(settings)).unwrap();
        port.configure(&PortConfig::new(pool.clone())).unwrap();
        let queues = port.start().unwrap();
        let mut bench = Self { pool, socket, port, queues, has: *has, _folder: folder, _turn: turn };
        bench.has.0 += usize::from(role == MemifRole::Server);
        bench
    }

    fn is_up(&self) -> bool {
        self.port.link().unwrap().up
    }

    /// What one burst brings.
    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut batch: ArrayVec<Mbuf, 32> = ArrayVec::new();
        self.queues.receive[0].receive(&mut batch);
        batch.iter().map(Mbuf::to_vec).collect()
    }

    /// Sends one packet; whether it was taken.
    fn send(&mut self, packet: &[u8]) -> bool {
        let mut batch: ArrayVec<Mbuf, 1> = ArrayVec::new();
        batch.push(self.pool.allocate_with(packet).unwrap());
        self.queues.transmit[0].transmit(&mut batch) == 1
    }

    fn errors(&self) -> (u64, u64) {
        let statistics = self.port.statistics().unwrap();
        (statistics.receive_errors, statistics.transmit_errors)
    }

    /// Waits until nothing of any peer is left.
    fn wait_for_nothing_left(&mut self) {
        wait_for("the link to go down", || !self.is_up());
        wait_for("files and memory to be given back", || {
            self.receive();
            self.queues.transmit[0].transmit(&mut ArrayVec::<Mbuf, 1>::new());
            holdings() == self.has
        });
        assert_eq!(self.pool.in_use(), 0);
    }

    /// A good client comes, both sides hear each other, and when it has left the process has what it had before.
    fn serve_a_good_client(&mut self) {
        let client = Client::connect(&self.socket, ID, SLOTS_LOG2);
        wait_for("the link", || self.is_up());
        client.send(b"good morning");
        wait_for("its packet", || self.receive() == [b"good morning"]);
        let at = client.buffers as u32;
        let buffer = Descriptor { flags: 0, region: 0, length: 2048, offset: at };
        client.to_client.write(&client.memory, 0, buffer);
        client.to_client.set_head(&client.memory, 1);
        wait_for("room", || self.send(b"good evening"));
        assert_eq!(client.to_client.tail(&client.memory), 1);
        assert_eq!(client.to_client.read(&client.memory, 0), Descriptor { length: 12, ..buffer });
        // What is behind the packet, which was of another one, is not shown.
        assert_eq!(client.memory.read(client.buffers, 64), [&b"good evening"[..], &[0; 52]].concat());
        drop(client);
        self.wait_for_nothing_left();
    }
}
