//! Shared-memory ports with a peer that breaks the protocol, by mistake or on purpose: it is refused and told why, nothing of it gets
//! through, nothing of ours is lost, and the next peer is served.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use common::raw::{
    self, COOKIE, Channel, Client, Descriptor, FROM_CLIENT, Heard, Listener, Memory, NEXT, RingAt, Server,
    VERSION,
};
use common::wait_for;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{ftruncate, pipe};
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

/// What a rogue writes into a ring, and how many of its packets are counted as errors.
struct Wrong {
    what: &'static str,
    descriptors: Vec<Descriptor>,
}

fn wrong_descriptors(length: usize) -> Vec<Wrong> {
    let end = length as u32;
    let one = |what, descriptor| Wrong { what, descriptors: vec![descriptor] };
    let good = Descriptor { flags: 0, region: 0, length: 64, offset: end - 64 };
    let chained = Descriptor { flags: NEXT, ..good };
    let mut wrong = vec![
        one("an unknown region", Descriptor { region: 1, ..good }),
        one("the last region that there can be", Descriptor { region: u16::MAX, ..good }),
        one("one octet behind the end", Descriptor { offset: end - 63, ..good }),
        one("at the end", Descriptor { offset: end, ..good }),
        one("far behind the end", Descriptor { offset: u32::MAX, ..good }),
        one("no octets", Descriptor { length: 0, ..good }),
        one("more octets than there are", Descriptor { length: end + 1, offset: 0, ..good }),
        one("most octets that can be said", Descriptor { length: u32::MAX, ..good }),
        one("a sum that wraps around", Descriptor { length: u32::MAX - 31, offset: 64, ..good }),
        one("more octets than any packet has", Descriptor { length: 65_536, offset: 0, ..good }),
        Wrong {
            what: "a chain of empty slots",
            descriptors: vec![Descriptor { length: 0, ..chained }, Descriptor { length: 0, ..good }],
        },
        Wrong {
            what: "a chain that leads nowhere",
            descriptors: vec![chained, chained, Descriptor { region: 9, ..good }],
        },
        Wrong {
            what: "a chain that is too long in all",
            descriptors: vec![
                Descriptor { length: 60_000, offset: 0, ..chained },
                Descriptor { length: 60_000, offset: 0, ..good },
            ],
        },
    ];
    wrong.push(Wrong { what: "a chain without end", descriptors: vec![chained; usize::from(SLOTS)] });
    wrong
}

#[test]
fn descriptors_that_lead_nowhere_are_counted_and_the_packets_around_them_arrive() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    let ring = client.to_server;
    wait_for("the link", || bench.is_up());
    for (number, Wrong { what, descriptors }) in
        wrong_descriptors(client.memory.length()).into_iter().enumerate()
    {
        let head = ring.head(&client.memory);
        for (at, descriptor) in (0..).zip(&descriptors) {
            ring.write(&client.memory, head.wrapping_add(at), *descriptor);
        }
        let head = head.wrapping_add(descriptors.len() as u16);
        ring.set_head(&client.memory, head);
        wait_for("the slots to come back", || {
            assert_eq!(bench.receive(), Vec::<Vec<u8>>::new(), "{what}");
            ring.tail(&client.memory) == head
        });
        assert_eq!(bench.errors().0, number as u64 + 1, "{what}");
        assert_eq!(bench.pool.in_use(), 0, "{what}");
        client.send(what.as_bytes());
        wait_for("a good packet", || bench.receive() == [what.as_bytes()]);
    }
    assert!(bench.is_up(), "a wrong packet is no broken ring");
    drop(client);
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}

#[test]
fn buffers_that_lead_nowhere_take_no_packet() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    wait_for("the link", || bench.is_up());
    let before = client.memory.read(0, client.memory.length());
    let end = client.memory.length() as u32;
    let good = Descriptor { flags: 0, region: 0, length: 2048, offset: client.buffers as u32 };
    let wrong = [
        Descriptor { region: 1, ..good },
        Descriptor { offset: end, ..good },
        Descriptor { offset: end - 64, length: 65, ..good },
        Descriptor { length: 0, ..good },
        Descriptor { offset: u32::MAX, length: u32::MAX, ..good },
    ];
    client.to_client.set_head(&client.memory, 1);
    for (number, descriptor) in wrong.into_iter().enumerate() {
        client.to_client.write(&client.memory, 0, descriptor);
        wait_for("the packet to be dropped", || {
            bench.send(&[0xaa; 100]);
            bench.errors().1 > number as u64
        });
        assert_eq!(client.to_client.tail(&client.memory), 0);
    }
    client.to_client.write(&client.memory, 0, Descriptor { flags: 0, region: 0, length: 0, offset: 0 });
    let ring = client.to_client.offset;
    let after = client.memory.read(0, client.memory.length());
    let others = |octets: &[u8]| [&octets[..ring], &octets[client.buffers..]].concat();
    // The flags say that the server polls its ring.
    assert_eq!(others(&after)[8..], others(&before)[8..], "nothing was written anywhere");
    // A buffer that is as long as the packet, to the octet, at the very end.
    client.to_client.write(&client.memory, 0, Descriptor { length: 100, offset: end - 100, ..good });
    assert!(bench.send(&[0xaa; 100]));
    assert_eq!(client.memory.read(end as usize - 100, 100), [0xaa; 100]);
    drop(client);
    bench.wait_for_nothing_left();
}

#[test]
fn a_packet_whose_end_comes_later_waits_however_small_the_batch() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    let (ring, memory) = (client.to_server, &client.memory);
    memory.write(client.buffers, b"firstsecond");
    let first = Descriptor { flags: NEXT, region: 0, length: 5, offset: client.buffers as u32 };
    let second = Descriptor { flags: 0, length: 6, offset: first.offset + 5, ..first };
    ring.write(memory, 0, first);
    ring.set_head(memory, 1);
    wait_for("the link", || bench.is_up());
    let mut batch: ArrayVec<Mbuf, 1> = ArrayVec::new();
    for _ in 0..100 {
        assert_eq!(bench.queues.receive[0].receive(&mut batch), 0);
    }
    ring.write(memory, 1, second);
    ring.set_head(memory, 2);
    wait_for("the packet", || bench.queues.receive[0].receive(&mut batch) == 1);
    assert_eq!(batch[0].data(), b"firstsecond");
    batch.clear();
    drop(client);
    bench.wait_for_nothing_left();
}

#[test]
fn a_ring_that_breaks_its_rules_ends_the_connection_and_nothing_is_read() {
    const REASON: &str = "more is in it than it has slots for";
    let mut bench = Bench::new(MemifRole::Server);
    for (before, head) in [(0, SLOTS + 1), (0, u16::MAX), (3, 2), (3, 3 + SLOTS + 1)] {
        let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
        for _ in 0..before {
            client.send(b"fine");
        }
        let mut received = Vec::new();
        wait_for("good packets", || {
            received.extend(bench.receive());
            received.len() == before
        });
        wait_for("the link", || bench.is_up());
        client.to_server.set_head(&client.memory, head);
        wait_for("the link to go down", || {
            assert_eq!(bench.receive(), Vec::<Vec<u8>>::new(), "{head}");
            !bench.is_up()
        });
        // Putting it right is too late.
        client.to_server.set_head(&client.memory, before as u16 + 1);
        assert_eq!(bench.receive(), Vec::<Vec<u8>>::new());
        assert!(client.channel.hear_reason().unwrap().contains(REASON));
        drop(client);
        bench.wait_for_nothing_left();
    }
    // The same of the ring that packets are sent to.
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    wait_for("the link", || bench.is_up());
    client.to_client.set_head(&client.memory, SLOTS + 1);
    wait_for("the link to go down", || {
        assert!(!bench.send(b"for nobody"));
        !bench.is_up()
    });
    assert!(client.channel.hear_reason().unwrap().contains(REASON));
    drop(client);
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}

#[test]
fn descriptors_that_change_while_they_are_read_harm_nobody() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    wait_for("the link", || bench.is_up());
    let length = client.memory.length() as u32;
    let stop = std::sync::atomic::AtomicBool::new(false);
    let received = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (ring, memory) = (client.to_server, &client.memory);
            let mut random = 1u32;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let lengths = [0, 1, 60, 3000, 65_535, u32::MAX];
                let descriptor = Descriptor {
                    flags: (random >> 28) as u16 & NEXT,
                    region: u16::from(random >> 16 & 15 == 0),
                    length: lengths[(random >> 20) as usize % lengths.len()],
                    offset: [0, length - 60, length, u32::MAX][(random >> 8) as usize % 4],
                };
                ring.write(memory, (random >> 4) as u16, descriptor);
                // As full as a ring may be: every slot is read while it changes.
                ring.set_head(memory, ring.tail(memory).wrapping_add(SLOTS));
            }
        });
        let mut received = 0u64;
        wait_for("packets and errors enough", || {
            let mut batch: ArrayVec<Mbuf, 32> = ArrayVec::new();
            received += bench.queues.receive[0].receive(&mut batch) as u64;
            for packet in &batch {
                assert!(!packet.is_empty() && packet.len() <= 65_535);
            }
            received > 5_000 && bench.errors().0 > 5_000 || !bench.is_up()
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().unwrap();
        received
    });
    assert_eq!(bench.port.statistics().unwrap().received_packets, received);
    drop(client);
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}

/// Says something wrong; the client has been greeted.
type Script = fn(&Client);

/// Says all that comes before the first ring.
fn up_to_rings(client: &Client) {
    client.say(&raw::init(VERSION, ID, 0), None);
    client.say(&raw::add_region(0, client.memory.length() as u64), Some(client.memory.file.as_fd()));
}

fn offer_rings(client: &Client, rings: &[(u16, u16, u16, u32, u8)]) {
    up_to_rings(client);
    for (flags, index, region, offset, size_log2) in rings {
        client.say(
            &raw::add_ring(*flags, *index, *region, *offset, *size_log2, 0),
            Some(raw::events().as_fd()),
        );
    }
    client.channel.send(&raw::connect_message(), &[]);
}

const FAULTS: &[(&str, &str, Script)] = &[
    ("another version", "0x0300", |client| client.channel.send(&raw::init(0x300, ID, 0), &[])),
    ("another mode", "mode 1", |client| client.channel.send(&raw::init(VERSION, ID, 1), &[])),
    ("another id", "no port has id 4", |client| client.channel.send(&raw::init(VERSION, ID + 1, 0), &[])),
    ("garbage", "kind 23130", |client| client.channel.send(&[0x5a; 128], &[])),
    ("half a message", "64 octets", |client| client.channel.send(&raw::init(VERSION, ID, 0)[..64], &[])),
    ("two messages in one", "129 octets", |client| client.channel.send(&[3; 256], &[])),
    ("a server's message", "does not belong", |client| client.channel.send(&raw::hello(512, 512, 0, 4), &[])),
    ("a region before its name", "does not belong", |client| {
        client.channel.send(&raw::add_region(0, 4096), &[client.memory.file.as_fd()]);
    }),
    ("a file with a name", "does not belong", |client| {
        client.channel.send(&raw::init(VERSION, ID, 0), &[client.memory.file.as_fd()]);
    }),
    ("a region without its file", "does not belong", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        client.channel.send(&raw::add_region(0, 4096), &[]);
    }),
    ("a region with two files", "2 files", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        let file = client.memory.file.as_fd();
        client.channel.send(&raw::add_region(0, 4096), &[file, file]);
    }),
    ("a region with more files than fit anywhere", "253 files", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        client.channel.send(&raw::add_region(0, 4096), &[client.memory.file.as_fd(); 253]);
    }),
    ("a region out of turn", "out of turn", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        client.channel.send(&raw::add_region(1, 4096), &[client.memory.file.as_fd()]);
    }),
    ("300 regions", "out of turn", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        for index in 0..256 {
            client.say(&raw::add_region(index, 4096), Some(client.memory.file.as_fd()));
        }
        client.channel.send(&raw::add_region(256, 4096), &[client.memory.file.as_fd()]);
    }),
    ("a region larger than its file", "region 0 cannot be used (ENXIO", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        let length = client.memory.length() as u64 + 1;
        client.say(&raw::add_region(0, length), Some(client.memory.file.as_fd()));
        client.channel.send(&raw::connect_message(), &[]);
    }),
    ("a region of nothing", "region 0 cannot be used", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        client.say(&raw::add_region(0, 0), Some(client.memory.file.as_fd()));
        client.channel.send(&raw::connect_message(), &[]);
    }),
    ("a region that could be cut off", "region 0 could be cut off", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        let file = memfd_create(c"raw", MFdFlags::empty()).unwrap();
        ftruncate(&file, 4096).unwrap();
        client.say(&raw::add_region(0, 4096), Some(file.as_fd()));
        client.channel.send(&raw::connect_message(), &[]);
    }),
    ("a region in a pipe", "region 0", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        client.say(&raw::add_region(0, 4096), Some(pipe().unwrap().1.as_fd()));
        client.channel.send(&raw::connect_message(), &[]);
    }),
    ("a ring without its file", "does not belong", |client| {
        up_to_rings(client);
        client.channel.send(&raw::add_ring(FROM_CLIENT, 0, 0, 0, 4, 0), &[]);
    }),
    ("a ring with private headers", "private headers of 16 octets", |client| {
        up_to_rings(client);
        client.channel.send(&raw::add_ring(FROM_CLIENT, 0, 0, 0, 4, 16), &[raw::events().as_fd()]);
    }),
    ("a ring twice", "number of another", |client| {
        up_to_rings(client);
        client.say(&raw::add_ring(FROM_CLIENT, 0, 0, 0, 4, 0), Some(raw::events().as_fd()));
        client.channel.send(&raw::add_ring(FROM_CLIENT, 0, 0, 0, 4, 0), &[raw::events().as_fd()]);
    }),
    ("a ring of a number that there is not", "number of another", |client| {
        up_to_rings(client);
        client.channel.send(&raw::add_ring(FROM_CLIENT, 256, 0, 0, 4, 0), &[raw::events().as_fd()]);
    }),
    ("events that may keep one waiting", "events of ring 0", |client| {
        up_to_rings(client);
        client.say(&raw::add_ring(FROM_CLIENT, 0, 0, 0, 4, 0), Some(pipe().unwrap().1.as_fd()));
        let ring = raw::add_ring(0, 0, 0, client.to_client.offset as u32, 4, 0);
        client.say(&ring, Some(raw::events().as_fd()));
        client.channel.send(&raw::connect_message(), &[]);
    }),
    ("a ring that is none", "ring 0 is not where", |client| {
        offer_rings(client, &[(1, 0, 0, 8192, 4), (0, 0, 0, 0, 4)])
    }),
    ("a ring between two descriptors", "ring 0 is not where", |client| {
        client.memory.write(8, &COOKIE.to_ne_bytes());
        offer_rings(client, &[(1, 0, 0, 8, 3), (0, 0, 0, 0, 4)]);
    }),
    ("a ring that is too large for its region", "ring 0 is not where", |client| {
        client.memory.write(8192, &COOKIE.to_ne_bytes());
        offer_rings(client, &[(1, 0, 0, 8192, 14), (0, 0, 0, 384, 4)]);
    }),
    ("a ring at the end of its region", "ring 0 is not where", |client| {
        let end = client.memory.length() - 256;
        client.memory.write(end, &COOKIE.to_ne_bytes());
        offer_rings(client, &[(1, 0, 0, end as u32, 4), (0, 0, 0, 384, 4)]);
    }),
    ("a ring of more slots than numbers", "ring 0 is not where", |client| {
        offer_rings(client, &[(1, 0, 0, 0, 255), (0, 0, 0, 384, 4)])
    }),
    ("a ring in an unknown region", "ring 0 is not where", |client| {
        offer_rings(client, &[(1, 0, 7, 0, 4), (0, 0, 0, 384, 4)])
    }),
    ("no rings", "0 rings to the client", |client| offer_rings(client, &[])),
    ("a ring too many", "2 rings to the server", |client| {
        offer_rings(client, &[(1, 0, 0, 0, 4), (1, 1, 0, 0, 4), (0, 0, 0, 384, 4)]);
    }),
    ("rings with a gap", "1 rings to the server", |client| {
        offer_rings(client, &[(1, 1, 0, 0, 4), (0, 0, 0, 384, 4)])
    }),
];

#[test]
fn faults_of_the_handshake_are_refused_with_their_reason() {
    let mut bench = Bench::new(MemifRole::Server);
    bench.serve_a_good_client();
    for (what, reason, script) in FAULTS {
        let client = Client::prepare(&bench.socket, SLOTS_LOG2);
        script(&client);
        let told = client.channel.hear_reason();
        assert!(told.as_ref().is_some_and(|told| told.contains(reason)), "{what}: {told:?}");
        assert!(!bench.is_up(), "{what}");
        drop(client);
        wait_for(&format!("what is left behind: {what}"), || holdings() == bench.has);
    }
    bench.serve_a_good_client();
}

#[test]
fn a_connected_client_that_says_more_is_cut_off() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    wait_for("the link", || bench.is_up());
    client.channel.send(&raw::add_region(1, 4096), &[client.memory.file.as_fd()]);
    assert!(client.channel.hear_reason().unwrap().contains("does not belong"));
    drop(client);
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}

#[test]
fn those_who_say_nothing_are_sent_away_and_those_who_leave_are_forgotten() {
    let mut bench = Bench::new(MemifRole::Server);
    let mute = Client::prepare(&bench.socket, SLOTS_LOG2);
    let stuck = Client::prepare(&bench.socket, SLOTS_LOG2);
    up_to_rings(&stuck);
    // The port has a client, if one that does not go on.
    let second = Client::prepare(&bench.socket, SLOTS_LOG2);
    second.channel.send(&raw::init(VERSION, ID, 0), &[]);
    assert!(second.channel.hear_reason().unwrap().contains("id 3 is connected already"));
    for silent in [mute, stuck] {
        assert_eq!(silent.channel.hear_reason().unwrap(), "the peer does not answer");
    }
    drop(second);
    for steps in 0..4 {
        let leaver = Client::prepare(&bench.socket, SLOTS_LOG2);
        if steps > 0 {
            leaver.say(&raw::init(VERSION, ID, 0), None);
        }
        if steps > 1 {
            leaver.say(&raw::add_region(0, 4096), Some(leaver.memory.file.as_fd()));
        }
        if steps > 2 {
            leaver.channel.send(&raw::message(8, &[]), &[]);
        }
        drop(leaver);
        wait_for("it to be forgotten", || holdings() == bench.has);
    }
    bench.serve_a_good_client();
}

#[test]
fn a_second_client_is_refused_and_the_first_goes_on() {
    let mut bench = Bench::new(MemifRole::Server);
    let first = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    wait_for("the link", || bench.is_up());
    for _ in 0..20 {
        let second = Client::prepare(&bench.socket, SLOTS_LOG2);
        second.channel.send(&raw::init(VERSION, ID, 0), &[]);
        assert!(second.channel.hear_reason().unwrap().contains("connected already"));
    }
    first.send(b"still here");
    wait_for("its packet", || bench.receive() == [b"still here"]);
    drop(first);
    bench.wait_for_nothing_left();
}

#[test]
fn a_storm_of_clients_keeps_no_good_one_out() {
    let mut bench = Bench::new(MemifRole::Server);
    let mut storm: Vec<Channel> = Vec::new();
    let begun = Instant::now();
    for _ in 0..300 {
        storm.push(Channel::to(&bench.socket));
    }
    let good = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "it did not have to wait for the others to be sent away"
    );
    good.send(b"through");
    wait_for("its packet", || bench.receive() == [b"through"]);
    let crowded = storm.iter().filter(|channel| channel.hear_reason().unwrap().contains("too many clients"));
    assert!(crowded.count() >= 200, "only so many are heard at a time");
    drop((storm, good));
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}

/// Processor time of the control thread, in clock ticks.
fn control_ticks() -> u64 {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let stat = |folder: PathBuf| fs::read_to_string(folder.join("stat")).ok();
    let stat = threads.filter_map(stat).find(|stat| stat.contains("(memif)")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn without_descriptors_a_client_waits_and_nothing_spins() {
    let mut bench = Bench::new(MemifRole::Server);
    let waiting = Channel::unconnected();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let highest = fs::read_dir("/proc/self/fd").unwrap();
    let highest =
        highest.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u64>().ok()).max().unwrap();
    // Holes below the highest are filled, so that not one more can be had.
    let mut fill = Vec::new();
    setrlimit(Resource::RLIMIT_NOFILE, highest + 1, hard).unwrap();
    while let Ok(file) = fs::File::open("/dev/null") {
        fill.push(file);
    }
    // Two places, to read the thread's clock with.
    fill.truncate(fill.len() - 2);
    let before = control_ticks();
    fill.extend([fs::File::open("/dev/null").unwrap(), fs::File::open("/dev/null").unwrap()]);
    waiting.connect(&bench.socket);
    // Time that passes is what is measured here: half a second of spinning would be fifty ticks.
    std::thread::sleep(Duration::from_millis(500));
    drop(fill);
    let after = control_ticks();
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    assert_eq!(waiting.hear(), Heard::Hello, "accepted as soon as there is a descriptor");
    drop(waiting);
    assert!(after - before < 10, "{} ticks", after - before);
    bench.serve_a_good_client();
}

#[test]
fn a_port_whose_queues_are_not_polled_keeps_two_connections_and_not_more() {
    let mut bench = Bench::new(MemifRole::Server);
    for _ in 0..2 {
        drop(Client::connect(&bench.socket, ID, SLOTS_LOG2));
        wait_for("the link to go down", || !bench.is_up());
    }
    let with_two = holdings();
    assert_eq!(with_two.1, bench.has.1 + 2);
    for _ in 0..10 {
        let third = Client::prepare(&bench.socket, SLOTS_LOG2);
        third.channel.send(&raw::init(VERSION, ID, 0), &[]);
        assert!(third.channel.hear_reason().unwrap().contains("nobody polls them"));
    }
    wait_for("those who came in vain to be forgotten", || holdings() == with_two);
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}

#[test]
fn a_rogue_server_is_left_and_a_good_one_found_again() {
    let mut bench = Bench::new(MemifRole::Client);
    let listener = Listener::at(&bench.socket);
    type Script = fn(&Channel);
    let faults: [(&str, Script); 6] = [
        ("0x0300", |channel| channel.send(&raw::hello(0x300, 0x300, 255, 14), &[])),
        ("kind 0", |channel| channel.send(&[0; 128], &[])),
        ("1 octets", |channel| channel.send(&[1], &[])),
        ("does not belong", |channel| channel.send(&raw::connected(), &[])),
        ("does not belong", |channel| {
            channel.send(&raw::hello(VERSION, VERSION, 0, 14), &[]);
            channel.send(&raw::hello(VERSION, VERSION, 0, 14), &[]);
        }),
        ("2 files", |channel| {
            let file = raw::events();
            channel.send(&raw::hello(VERSION, VERSION, 0, 14), &[file.as_fd(), file.as_fd()]);
        }),
    ];
    for (reason, script) in faults {
        let channel = listener.accept();
        script(&channel);
        let told = channel.hear_reason();
        assert!(told.as_ref().is_some_and(|told| told.contains(reason)), "{reason}: {told:?}");
        assert!(!bench.is_up());
    }
    let silent = listener.accept();
    assert_eq!(silent.hear_reason().unwrap(), "the peer does not answer");
    drop(silent);

    // A ring that is broken by the server, each way and in both directions.
    let breaks: [fn(&Server); 3] = [
        |server| server.to_client.set_tail(&server.regions[0], SLOTS + 1),
        |server| server.to_client.set_tail(&server.regions[0], u16::MAX),
        |server| server.to_server.set_tail(&server.regions[0], 100),
    ];
    for script in breaks {
        let server = Server::accept(&listener, 14);
        assert_eq!(server.to_client.slots(), SLOTS);
        wait_for("the link", || bench.is_up());
        script(&server);
        wait_for("the link to go down", || {
            assert_eq!(bench.receive(), Vec::<Vec<u8>>::new());
            bench.send(b"test");
            !bench.is_up()
        });
        assert!(server.channel.hear_reason().unwrap().contains("more is in it"));
    }

    // Descriptors that lead nowhere, and then a good one.
    let server = Server::accept(&listener, 14);
    wait_for("buffers", || {
        bench.receive();
        server.to_client.head(&server.regions[0]) == SLOTS
    });
    let wrong = wrong_descriptors(server.regions[0].length());
    for (number, Wrong { what, descriptors }) in wrong.into_iter().enumerate() {
        let tail = server.to_client.tail(&server.regions[0]);
        let kept: Vec<Descriptor> =
            (0..SLOTS).map(|at| server.to_client.read(&server.regions[0], tail.wrapping_add(at))).collect();
        for (at, descriptor) in (0..).zip(&descriptors) {
            server.to_client.write(&server.regions[0], tail.wrapping_add(at), *descriptor);
        }
        let tail_then = tail.wrapping_add(descriptors.len() as u16);
        server.to_client.set_tail(&server.regions[0], tail_then);
        wait_for("the slots to come back", || {
            assert_eq!(bench.receive(), Vec::<Vec<u8>>::new(), "{what}");
            server.to_client.head(&server.regions[0]) == tail_then.wrapping_add(SLOTS)
        });
        assert_eq!(bench.errors().0, number as u64 + 1, "{what}");
        for (at, descriptor) in (0..).zip(kept) {
            server.to_client.write(&server.regions[0], tail.wrapping_add(at), descriptor);
        }
        server.send(what.as_bytes());
        wait_for("a good packet", || bench.receive() == [what.as_bytes()]);
    }
    drop((server, listener));
    bench.wait_for_nothing_left();
}

#[test]
fn a_port_that_is_dropped_while_it_connects_leaves_nothing() {
    let Bench { socket, port, queues, _folder, _turn, .. } = Bench::new(MemifRole::Client);
    let listener = Listener::at(&socket);
    let channel = listener.accept();
    channel.send(&raw::hello(VERSION, VERSION, 255, 14), &[]);
    assert_eq!(channel.hear(), Heard::Other(3));
    channel.send(&raw::acknowledge(), &[]);
    drop((queues, port));
    assert_eq!(channel.hear_reason().unwrap(), "the port stops");
}

#[test]
fn rings_that_others_lay_out_side_by_side_are_taken() {
    // Two slots a ring: 160 octets, so that the second does not begin on a cache line.
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, 1);
    assert_eq!(client.to_client, RingAt { offset: 160, size_log2: 1 });
    wait_for("the link", || bench.is_up());
    for number in 0..100u8 {
        client.send(&[number; 60]);
        wait_for("its packet", || bench.receive() == [[number; 60]]);
    }
    drop(client);
    bench.wait_for_nothing_left();
}

#[test]
fn memory_is_of_the_peer_as_long_as_it_is_used() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    // Memory that was not sealed is now: what a peer cuts off would end this process.
    assert!(ftruncate(&client.memory.file, 0).is_err());
    // A peer that has unmapped and closed everything but the socket can still be read from.
    let Client { channel, memory, to_server, .. } = client;
    let copy = Memory::of(memory.file.try_clone().unwrap());
    drop(memory);
    copy.write(4096, b"late");
    to_server.write(&copy, 0, Descriptor { flags: 0, region: 0, length: 4, offset: 4096 });
    to_server.set_head(&copy, 1);
    drop(copy);
    wait_for("its packet", || bench.receive() == [b"late"]);
    drop(channel);
    bench.wait_for_nothing_left();
}
