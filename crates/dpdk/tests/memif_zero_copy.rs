//! A client that lends its packet memory, with a server made by hand: what is lent comes back, whenever the peer goes, and a pool that runs
//! out is waited for. Needs huge pages; without them there is nothing to try, which is said.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::path::Path;

use arrayvec::ArrayVec;
use common::raw::{Heard, Listener, Server};
use common::wait_for;
use sluice_dpdk::{
    Eal, EalOptions, HugePages, Mbuf, MemifRole, MemifSettings, Mempool, MempoolConfig, Port, PortConfig,
    PortKind, Queues,
};

const SLOTS_LOG2: u8 = 5;
const SLOTS: u16 = 1 << SLOTS_LOG2;

fn port(eal: &Eal, socket: &Path, pool: &Mempool) -> Port {
    let settings = MemifSettings {
        zero_copy: true,
        ring_size_log2: SLOTS_LOG2,
        ..MemifSettings::new(socket, 0, MemifRole::Client)
    };
    let mut port = Port::new(eal, "lender", &PortKind::Memif(settings)).unwrap();
    port.configure(&PortConfig::new(pool.clone())).unwrap();
    port
}

fn receive(queues: &mut Queues) -> Vec<Vec<u8>> {
    let mut batch: ArrayVec<Mbuf, 32> = ArrayVec::new();
    queues.receive[0].receive(&mut batch);
    batch.iter().map(Mbuf::to_vec).collect()
}

fn send(queues: &mut Queues, pool: &Mempool, octets: &[u8]) -> bool {
    let mut batch: ArrayVec<Mbuf, 1> = ArrayVec::new();
    batch.push(pool.allocate_with(octets).unwrap());
    queues.transmit[0].transmit(&mut batch) == 1
}

/// A server that has taken the port's offer, and the port its rings.
fn connect(listener: &Listener, port: &Port, queues: &mut Queues) -> Server {
    let server = Server::accept(listener, 14);
    common::wait_for_link(port);
    queues.receive[0].receive(&mut ArrayVec::<Mbuf, 1>::new());
    queues.transmit[0].transmit(&mut ArrayVec::<Mbuf, 1>::new());
    server
}

fn main() {
    let options = EalOptions { memory_mebibytes: 64, huge_pages: HugePages::Required, ..Default::default() };
    let eal = match Eal::init(options) {
        Ok(eal) => eal,
        Err(error) => return println!("memory that is lent: skipped, since {error}"),
    };
    let pool = common::small_pool(&eal, "lent");
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock");
    packets_pass_and_what_the_peer_had_comes_back_when_it_dies(&eal, &pool, &socket);
    println!("a peer that dies with packets in its hands: ok");
    what_is_lent_is_not_used_again_before_the_peer_is_told(&eal, &pool, &socket);
    println!("a port that stops with packets in its peer's hands: ok");
    a_pool_that_was_empty_is_looked_at_again(&eal, &socket);
    println!("a pool smaller than the ring, and empty at first: ok");
}

fn packets_pass_and_what_the_peer_had_comes_back_when_it_dies(eal: &Eal, pool: &Mempool, socket: &Path) {
    let listener = Listener::at(socket);
    let mut port = port(eal, socket, pool);
    let mut queues = port.start().unwrap();
    for round in 0..20u32 {
        let server = connect(&listener, &port, &mut queues);
        let rings = &server.regions[0];
        assert_eq!(server.to_client.head(rings), SLOTS, "every slot has a packet to be filled");
        assert_eq!(pool.in_use(), u32::from(SLOTS));
        server.send(&round.to_be_bytes());
        wait_for("the packet", || receive(&mut queues) == [round.to_be_bytes()]);
        for number in 0..3u32 {
            assert!(send(&mut queues, pool, &[round, number].map(u32::to_be_bytes).concat()));
        }
        // The server reads our memory itself.
        assert_eq!(server.to_server.head(rings), 3);
        let descriptor = server.to_server.read(rings, 2);
        let memory = &server.regions[usize::from(descriptor.region)];
        let packet = memory.read(descriptor.offset as usize, descriptor.length as usize);
        assert_eq!(packet, [round, 2].map(u32::to_be_bytes).concat());
        // One is read, two are not: it dies.
        server.to_server.set_tail(rings, 1);
        send(&mut queues, pool, &[0; 60]);
        assert_eq!(pool.in_use(), u32::from(SLOTS) + 3);
        drop(server);
        wait_for("everything to come back", || {
            assert_eq!(receive(&mut queues), Vec::<Vec<u8>>::new());
            queues.transmit[0].transmit(&mut ArrayVec::<Mbuf, 1>::new());
            pool.in_use() == 0
        });
    }
    drop((queues, port));
    assert_eq!(pool.in_use(), 0);
}

fn what_is_lent_is_not_used_again_before_the_peer_is_told(eal: &Eal, pool: &Mempool, socket: &Path) {
    let listener = Listener::at(socket);
    let mut port = port(eal, socket, pool);
    let mut queues = port.start().unwrap();
    let server = connect(&listener, &port, &mut queues);
    drop(queues);
    assert_eq!(pool.in_use(), u32::from(SLOTS), "the peer may write to them still");
    std::thread::scope(|scope| {
        let peer = scope.spawn(move || {
            // While it can still be writing they are not free; then it lets go.
            assert_eq!(server.channel.hear(), Heard::Disconnect("the port stops".to_owned()));
            let lent = pool.in_use();
            drop(server);
            lent
        });
        port.stop().unwrap();
        assert_eq!(peer.join().unwrap(), u32::from(SLOTS));
    });
    assert_eq!(pool.in_use(), 0);
}

fn a_pool_that_was_empty_is_looked_at_again(eal: &Eal, socket: &Path) {
    let config = MempoolConfig { count: 15, cache: 0, ..Default::default() };
    let pool = Mempool::new(eal, "scarce", config).unwrap();
    let listener = Listener::at(socket);
    let mut port = port(eal, socket, &pool);
    let mut queues = port.start().unwrap();
    let mut held: ArrayVec<Mbuf, 15> = ArrayVec::new();
    assert_eq!(pool.allocate_bulk(&mut held, 15), 15);
    let server = connect(&listener, &port, &mut queues);
    let rings = &server.regions[0];
    assert_eq!(server.to_client.head(rings), 0, "there is no packet to be filled");
    held.truncate(5);
    wait_for("packets to be filled", || {
        receive(&mut queues);
        server.to_client.head(rings) == 10
    });
    // All that there is goes to the application, which has it for a while.
    for round in 0..100u8 {
        let free = server.to_client.head(rings).wrapping_sub(server.to_client.tail(rings));
        (0..free).for_each(|_| server.send(&[round; 60]));
        let mut batch: ArrayVec<Mbuf, 32> = ArrayVec::new();
        wait_for("what was sent", || {
            queues.receive[0].receive(&mut batch);
            batch.len() == usize::from(free)
        });
        assert!(batch.iter().all(|packet| packet.data() == [round; 60]));
        assert_eq!(
            server.to_client.head(rings),
            server.to_client.tail(rings),
            "nothing is left to be filled"
        );
        drop(batch);
        wait_for("packets to be filled", || {
            receive(&mut queues);
            server.to_client.head(rings) != server.to_client.tail(rings)
        });
    }
    drop((held, queues, port));
    assert_eq!(pool.in_use(), 0);
}
