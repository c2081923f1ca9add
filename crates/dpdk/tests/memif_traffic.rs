//! Shared-memory ports under all that packets can be: every size, several segments, several slots, the smallest and the largest rings,
//! counters that wrap around, pools that run out, and peers that come and go under traffic.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use arrayvec::ArrayVec;
use common::wait_for;
use sluice_dpdk::{
    Eal, Mbuf, MemifRole, MemifSettings, Mempool, MempoolConfig, Port, PortConfig, PortKind, Queues, RxQueue,
    TxQueue,
};

static EAL: OnceLock<(Eal, Mempool)> = OnceLock::new();
static TURN: Mutex<()> = Mutex::new(());

/// A place to meet; tests take turns.
struct Place {
    eal: &'static Eal,
    pool: &'static Mempool,
    socket: PathBuf,
    _folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Place {
    fn new() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (eal, pool) = EAL.get_or_init(|| {
            let eal = common::start_eal();
            let pool = common::small_pool(&eal, "traffic");
            (eal, pool)
        });
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("memif.sock");
        Self { eal, pool, socket, _folder: folder, _turn: turn }
    }

    fn port(&self, role: MemifRole, ring_size_log2: u8, buffer_bytes: u16) -> Port {
        self.port_of(role, ring_size_log2, buffer_bytes, self.pool)
    }

    fn port_of(&self, role: MemifRole, ring_size_log2: u8, buffer_bytes: u16, pool: &Mempool) -> Port {
        let settings =
            MemifSettings { ring_size_log2, buffer_bytes, ..MemifSettings::new(&self.socket, 1, role) };
        let name = format!("{role:?}").to_lowercase();
        let mut port = Port::new(self.eal, &name, &PortKind::Memif(settings)).unwrap();
        port.configure(&PortConfig { mtu: 68, ..PortConfig::new(pool.clone()) }).unwrap();
        port
    }

    /// Both sides, connected and each with its rings.
    fn pair(&self, ring_size_log2: u8, buffer_bytes: u16) -> [(Port, Queues); 2] {
        let mut sides = [MemifRole::Server, MemifRole::Client].map(|role| {
            let mut port = self.port(role, ring_size_log2, buffer_bytes);
            let queues = port.start().unwrap();
            (port, queues)
        });
        for (port, _) in &sides {
            common::wait_for_link(port);
        }
        // Rings are taken up when they are first used.
        for (_, queues) in &mut sides {
            assert_eq!(queues.receive[0].receive(&mut ArrayVec::<Mbuf, 1>::new()), 0);
        }
        sides
    }

    /// A packet of these octets in segments of at most so many.
    fn packet(&self, octets: &[u8], segment: usize) -> Mbuf {
        let mut segments = octets.chunks(segment).map(|octets| self.pool.allocate_with(octets).unwrap());
        let mut packet = segments.next().unwrap();
        segments.for_each(|segment| packet.append(segment).unwrap());
        packet
    }
}

fn octets(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(31) ^ at >> 8 ^ length) as u8).collect()
}

/// Sends one packet and receives it, both with a batch of one, and compares all octets.
fn pass(place: &Place, from: &mut TxQueue, to: &mut RxQueue, length: usize, segment: usize) {
    let octets = octets(length);
    let mut batch: ArrayVec<Mbuf, 1> = ArrayVec::new();
    batch.push(place.packet(&octets, segment));
    wait_for("room", || from.transmit(&mut batch) == 1);
    wait_for("the packet", || to.receive(&mut batch) == 1);
    assert_eq!(batch[0].len(), length);
    assert!(batch[0].to_vec() == octets, "{length} octets in segments of {segment}");
}

#[test]
fn packets_of_every_size_pass_whole_in_any_number_of_segments_and_slots() {
    let place = Place::new();
    for buffer_bytes in [64, 100, 2048] {
        let [(server, mut at_server), (client, mut at_client)] = place.pair(10, buffer_bytes);
        let long = [9000, 16_000, 40_000, 65_535];
        for length in (1..=2300).chain(long) {
            for segment in if length < 300 { vec![2048, 7] } else { vec![2048, 1000] } {
                pass(&place, &mut at_client.transmit[0], &mut at_server.receive[0], length, segment);
                pass(&place, &mut at_server.transmit[0], &mut at_client.receive[0], length, segment);
            }
        }
        // More than any packet has is dropped and counted, and is not in the way of the next.
        for queues in [&mut at_server, &mut at_client] {
            let mut batch: ArrayVec<Mbuf, 2> = ArrayVec::new();
            batch.push(place.packet(&octets(65_536), 2048));
            assert_eq!((queues.transmit[0].transmit(&mut batch), batch.len()), (0, 0));
            assert_eq!(queues.transmit[0].unfit_packets(), 1);
        }
        pass(&place, &mut at_client.transmit[0], &mut at_server.receive[0], 60, 60);
        drop((at_server, at_client, server, client));
        assert_eq!(place.pool.in_use(), 0);
    }
}

#[test]
fn long_packets_find_room_in_a_ring_that_is_nearly_full() {
    let place = Place::new();
    // 16 slots of 64 octets: a packet of 900 octets takes 15 of them, so that each has to wait for the one in front.
    let [(server, mut at_server), (client, mut at_client)] = place.pair(4, 64);
    for (from, to) in [
        (&mut at_client.transmit[0], &mut at_server.receive[0]),
        (&mut at_server.transmit[0], &mut at_client.receive[0]),
    ] {
        let (mut sent, mut received) = (0, 0);
        let lengths = [900, 64, 130, 1024, 1, 640];
        let mut waiting: ArrayVec<Mbuf, 8> = ArrayVec::new();
        wait_for("all packets", || {
            while !waiting.is_full() && sent < 3000 {
                waiting.push(place.packet(&octets(lengths[sent % lengths.len()]), 2048));
                sent += 1;
            }
            from.transmit(&mut waiting);
            let mut batch: ArrayVec<Mbuf, 1> = ArrayVec::new();
            to.receive(&mut batch);
            for packet in &batch {
                assert!(packet.to_vec() == octets(lengths[received % lengths.len()]), "packet {received}");
                received += 1;
            }
            received == 3000
        });
    }
    drop((at_server, at_client, server, client));
    assert_eq!(place.pool.in_use(), 0);
}

#[test]
fn counters_wrap_around_on_the_smallest_and_on_the_largest_rings() {
    let place = Place::new();
    for size_log2 in [1, 2, 10, 14] {
        let [(server, mut at_server), (client, mut at_client)] = place.pair(size_log2, 64);
        for (from, to) in [
            (&mut at_client.transmit[0], &mut at_server.receive[0]),
            (&mut at_server.transmit[0], &mut at_client.receive[0]),
        ] {
            const PACKETS: u32 = 140_000;
            let (mut next, mut expected) = (0u32, 0u32);
            let mut batch: ArrayVec<Mbuf, 48> = ArrayVec::new();
            let mut received: ArrayVec<Mbuf, 40> = ArrayVec::new();
            wait_for("all packets", || {
                while !batch.is_full() && next < PACKETS {
                    batch.push(place.pool.allocate_with(&next.to_be_bytes()).unwrap());
                    next += 1;
                }
                from.transmit(&mut batch);
                to.receive(&mut received);
                for packet in &received {
                    assert_eq!(packet.data(), expected.to_be_bytes());
                    expected += 1;
                }
                Mbuf::free_bulk(&mut received);
                expected == PACKETS
            });
        }
        assert_eq!(server.statistics().unwrap().received_packets, 140_000);
        drop((at_server, at_client, server, client));
        assert_eq!(place.pool.in_use(), 0);
    }
}

#[test]
fn an_empty_pool_makes_packets_wait_and_loses_none() {
    let place = Place::new();
    let config = MempoolConfig { count: 7, cache: 0, ..Default::default() };
    let small = Mempool::new(place.eal, "small", config).unwrap();
    let mut server = place.port_of(MemifRole::Server, 6, 2048, &small);
    let mut client = place.port(MemifRole::Client, 6, 2048);
    let (mut at_server, mut at_client) = (server.start().unwrap(), client.start().unwrap());
    common::wait_for_link(&server);
    common::wait_for_link(&client);
    let frames = common::frames(50, 1000);
    common::send_all(&mut at_client.transmit[0], place.pool, &frames);
    let mut held: ArrayVec<Mbuf, 64> = ArrayVec::new();
    wait_for("as many as there is memory for", || {
        at_server.receive[0].receive(&mut held);
        held.len() == 7
    });
    assert_eq!(at_server.receive[0].receive(&mut held), 0);
    assert!(server.statistics().unwrap().no_mbuf > 0);
    let mut received: Vec<Vec<u8>> = Vec::new();
    wait_for("the rest", || {
        received.extend(held.drain(..).map(|packet| packet.to_vec()));
        at_server.receive[0].receive(&mut held);
        received.len() == frames.len()
    });
    assert_eq!(received, frames);
    drop((at_server, at_client, server, client));
    assert_eq!((small.in_use(), place.pool.in_use()), (0, 0));
}

/// Descriptors and mappings of shared memory that the process has.
fn holdings() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mappings = maps.lines().filter(|line| line.contains("/memfd:")).count();
    (fs::read_dir("/proc/self/fd").unwrap().count(), mappings)
}

/// Sends back what comes until it is told to stop, and drops what does not go.
fn echo(queues: &mut Queues, stop: &AtomicBool) {
    let mut batch: ArrayVec<Mbuf, 32> = ArrayVec::new();
    while !stop.load(Ordering::Relaxed) {
        if queues.receive[0].receive(&mut batch) == 0 {
            std::thread::yield_now();
        }
        queues.transmit[0].transmit(&mut batch);
        Mbuf::free_bulk(&mut batch);
    }
}

/// Sends numbers of this connection and takes back what the peer returns of them: in order, and of no other connection.
fn exchange(place: &Place, queues: &mut Queues, connection: u32, enough: usize) {
    let (mut number, mut last, mut returned) = (0u32, None, 0);
    let mut batch: ArrayVec<Mbuf, 32> = ArrayVec::new();
    wait_for("enough to come back", || {
        for _ in 0..16 {
            let packet = [connection.to_be_bytes(), number.to_be_bytes()].concat();
            batch.push(place.pool.allocate_with(&packet).unwrap());
            number += 1;
        }
        queues.transmit[0].transmit(&mut batch);
        Mbuf::free_bulk(&mut batch);
        queues.receive[0].receive(&mut batch);
        for packet in batch.drain(..) {
            let (of, number) = packet.data().split_at(4);
            assert_eq!(of, connection.to_be_bytes(), "a packet of another connection");
            let number = u32::from_be_bytes(number.try_into().unwrap());
            assert!(last.is_none_or(|last| number > last), "{number} behind {last:?}");
            last = Some(number);
            returned += 1;
        }
        returned >= enough
    });
}

/// One side stays and returns what it gets, the other comes and goes a hundred times with packets on the way both ways.
fn flap(stays: MemifRole, comes_and_goes: MemifRole) {
    let place = Place::new();
    let mut stayer = place.port(stays, 6, 2048);
    let mut at_stayer = stayer.start().unwrap();
    // Once, so that all that is made once is there.
    let mut flapper = place.port(comes_and_goes, 6, 2048);
    drop(flapper.start().unwrap());
    flapper.stop().unwrap();
    let has = holdings();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| echo(&mut at_stayer, &stop));
        for connection in 0..100 {
            let mut queues = flapper.start().unwrap();
            common::wait_for_link(&flapper);
            exchange(&place, &mut queues, connection, 200);
            // In the middle of it.
            drop(queues);
            flapper.stop().unwrap();
        }
        wait_for("everything of a hundred connections to be given back", || holdings() == has);
        stop.store(true, Ordering::Relaxed);
        echo.join().unwrap();
    });
    drop((at_stayer, stayer, flapper));
    assert_eq!(place.pool.in_use(), 0);
}

#[test]
fn a_client_that_comes_and_goes_a_hundred_times_leaves_nothing() {
    flap(MemifRole::Server, MemifRole::Client);
}

#[test]
fn a_server_that_comes_and_goes_a_hundred_times_leaves_nothing() {
    flap(MemifRole::Client, MemifRole::Server);
}

#[test]
fn a_socket_that_another_program_has_put_there_stays() {
    let place = Place::new();
    let mut server = place.port(MemifRole::Server, 6, 2048);
    drop(server.start().unwrap());
    fs::remove_file(&place.socket).unwrap();
    fs::write(&place.socket, "another's").unwrap();
    server.stop().unwrap();
    assert_eq!(fs::read(Path::new(&place.socket)).unwrap(), b"another's");
}
