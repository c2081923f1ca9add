//! Packet memory: every operation on a packet against the same operation on a plain vector, and the pool's accounting.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::sync::OnceLock;

use arrayvec::ArrayVec;
use proptest::prelude::*;
use sluice_dpdk::{
    CoreError, Eal, Mbuf, MbufError, Mempool, MempoolConfig, MempoolError, WorkerRegistration, cycles,
};

fn eal() -> &'static Eal {
    static EAL: OnceLock<Eal> = OnceLock::new();
    EAL.get_or_init(common::start_eal)
}

/// Headroom and data room of the pools here, bytes.
const HEADROOM: usize = 128;
const ROOM: usize = 2048;

#[derive(Debug, Clone)]
enum Operation {
    ReplaceFront { pop: usize, push: usize },
    Reframe { pop: usize, push: usize, keep: usize },
    ExtendBack(usize),
    Truncate(usize),
    SetLen(usize),
    Write { at: usize, byte: u8 },
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        (0..300usize, 0..300usize).prop_map(|(pop, push)| Operation::ReplaceFront { pop, push }),
        (0..300usize, 0..300usize, 0..1500usize).prop_map(|(pop, push, keep)| Operation::Reframe {
            pop,
            push,
            keep
        }),
        (0..700usize).prop_map(Operation::ExtendBack),
        (0..2200usize).prop_map(Operation::Truncate),
        (0..2300usize).prop_map(Operation::SetLen),
        (0..2200usize, any::<u8>()).prop_map(|(at, byte)| Operation::Write { at, byte }),
    ]
}

/// A packet as a vector of bytes somewhere in a buffer of fixed size.
struct Model {
    bytes: Vec<u8>,
    headroom: usize,
}

impl Model {
    fn tailroom(&self) -> usize {
        HEADROOM + ROOM - self.headroom - self.bytes.len()
    }

    /// Applies the operation to both; new bytes are filled with `fill`.
    fn apply(&mut self, mbuf: &mut Mbuf, operation: &Operation, fill: u8) {
        match *operation {
            Operation::ReplaceFront { pop, push } => {
                let possible = pop <= self.bytes.len() && push <= self.headroom + pop;
                let opened = mbuf.replace_front(pop, push);
                assert_eq!(opened.as_ref().map(|space| space.len()), possible.then_some(push));
                if let Some(space) = opened {
                    space.fill(fill);
                    self.headroom = self.headroom + pop - push;
                    self.bytes.splice(..pop, std::iter::repeat_n(fill, push));
                }
            }
            Operation::Reframe { pop, push, keep } => {
                let possible = pop + keep <= self.bytes.len() && push <= self.headroom + pop;
                let packet = mbuf.reframe(pop, push, keep);
                assert_eq!(packet.as_ref().map(|packet| packet.len()), possible.then_some(push + keep));
                if let Some(packet) = packet {
                    packet[..push].fill(fill);
                    self.headroom = self.headroom + pop - push;
                    self.bytes.truncate(pop + keep);
                    self.bytes.splice(..pop, std::iter::repeat_n(fill, push));
                }
            }
            Operation::ExtendBack(count) => {
                let possible = count <= self.tailroom();
                let opened = mbuf.extend_back(count);
                assert_eq!(opened.as_ref().map(|space| space.len()), possible.then_some(count));
                if let Some(space) = opened {
                    space.fill(fill);
                    self.bytes.extend(std::iter::repeat_n(fill, count));
                }
            }
            Operation::Truncate(length) => {
                mbuf.truncate(length);
                self.bytes.truncate(length);
            }
            Operation::SetLen(length) => {
                let old = self.bytes.len();
                let possible = length <= old + self.tailroom();
                let bytes = mbuf.set_len(length);
                assert_eq!(bytes.is_some(), possible);
                if let Some(bytes) = bytes {
                    bytes[old.min(length)..].fill(fill);
                    self.bytes.resize(length, fill);
                }
            }
            Operation::Write { at, byte } => {
                if let Some(place) = self.bytes.get_mut(at) {
                    *place = byte;
                    mbuf.data_mut()[at] = byte;
                }
            }
        }
        self.check(mbuf);
    }

    fn check(&self, mbuf: &Mbuf) {
        assert_eq!(mbuf.data(), self.bytes);
        assert_eq!(mbuf.len(), self.bytes.len());
        assert_eq!(mbuf.is_empty(), self.bytes.is_empty());
        assert_eq!((mbuf.headroom(), mbuf.tailroom()), (self.headroom, self.tailroom()));
        assert_eq!(mbuf.segments(), 1);
    }
}

fn model_pool() -> &'static Mempool {
    static POOL: OnceLock<Mempool> = OnceLock::new();
    POOL.get_or_init(|| common::small_pool(eal(), "model"))
}

proptest! {
    #[test]
    fn a_packet_behaves_like_a_vector(
        bytes in proptest::collection::vec(any::<u8>(), 0..1800),
        operations in proptest::collection::vec(operation(), 1..60),
    ) {
        let mut mbuf = model_pool().allocate_with(&bytes).expect("the pool has buffers");
        let mut model = Model { bytes, headroom: HEADROOM };
        model.check(&mbuf);
        for (index, operation) in operations.iter().enumerate() {
            model.apply(&mut mbuf, operation, index as u8);
        }
        prop_assert_eq!(mbuf.to_vec(), model.bytes);
    }

    #[test]
    fn a_chain_reads_linearizes_and_truncates_like_a_vector(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..900), 2..5),
        cut in 0..4000usize,
        linearize_first: bool,
    ) {
        let whole = parts.concat();
        let mut mbufs = parts.iter().map(|part| model_pool().allocate_with(part).expect("the pool has buffers"));
        let mut packet = mbufs.next().expect("at least two parts");
        for tail in mbufs {
            packet.append(tail).expect("a few segments");
        }
        prop_assert_eq!(packet.segments() as usize, parts.len());
        prop_assert_eq!(packet.to_vec(), whole.clone());
        prop_assert!(packet.extend_back(1).is_none() && packet.set_len(1).is_none());
        if linearize_first {
            let length = whole.len();
            let expected = if length <= ROOM { Ok(()) } else {
                Err(MbufError::DoesNotFit { length, segments: parts.len() as u16 })
            };
            prop_assert_eq!(packet.linearize(), expected);
            if expected.is_ok() {
                prop_assert_eq!(packet.data(), whole.as_slice());
            }
        }
        packet.truncate(cut);
        prop_assert_eq!(packet.to_vec(), whole[..cut.min(whole.len())].to_vec());
        let copy = packet.duplicate(model_pool());
        prop_assert_eq!(copy.map(|copy| copy.to_vec()), (packet.len() <= ROOM).then(|| packet.to_vec()));
    }
}

#[test]
fn every_buffer_comes_back_to_its_pool_whatever_way_it_is_dropped() {
    let config = MempoolConfig { count: 255, cache: 0, ..Default::default() };
    let pool = Mempool::new(eal(), "accounts", config.clone()).unwrap();
    assert_eq!((pool.available(), pool.in_use()), (255, 0));

    let mut batch: ArrayVec<Mbuf, 256> = ArrayVec::new();
    assert_eq!(pool.allocate_bulk(&mut batch, 200), 200);
    assert_eq!(pool.allocate_bulk(&mut batch, 56), 0, "the pool has 55 left: all or none");
    assert_eq!(pool.allocate_bulk(&mut batch, 57), 0, "the batch has room for 56");
    assert_eq!(pool.allocate_bulk(&mut batch, 55), 55);
    assert!(pool.allocate().is_none() && pool.allocate_with(b"x").is_none());
    assert_eq!((pool.available(), pool.in_use()), (0, 255));

    batch.truncate(100);
    assert_eq!(pool.in_use(), 100);
    let mut head = batch.pop().unwrap();
    head.append(batch.pop().unwrap()).unwrap();
    drop(head);
    assert_eq!(pool.in_use(), 98);
    Mbuf::free_bulk(&mut batch);
    Mbuf::free_bulk(&mut batch);
    assert_eq!((batch.len(), pool.in_use()), (0, 0));

    assert!(pool.allocate_with(&[0; ROOM]).is_some());
    assert!(pool.allocate_with(&[0; ROOM + 1]).is_none(), "longer than a buffer");
    assert_eq!(pool.in_use(), 0, "a buffer that is too small is given back");

    // A name is free again once the pool is, and not while a packet keeps the pool.
    assert!(matches!(Mempool::new(eal(), "accounts", config.clone()), Err(MempoolError::Exists(_))));
    drop(pool);
    let pool = Mempool::new(eal(), "accounts", config.clone()).expect("the name is free again");
    let mut kept = pool.allocate_with(b"outlives its pool").unwrap();
    drop(pool);
    assert!(matches!(Mempool::new(eal(), "accounts", config), Err(MempoolError::Exists(_))));
    kept.data_mut()[0] = b'O';
    assert_eq!(kept.data(), b"Outlives its pool");
}

#[test]
fn pools_that_cannot_be_are_refused_with_a_remedy() {
    let refused =
        |name: &str, config: MempoolConfig| Mempool::new(eal(), name, config).unwrap_err().to_string();
    let sentence = refused("no spaces", MempoolConfig::default());
    assert!(sentence.contains("`no spaces` cannot name a memory pool"), "{sentence}");
    let sentence = refused("cache", MempoolConfig { count: 100, cache: 90, ..Default::default() });
    assert!(sentence.contains("100 mbufs, a cache of 90"), "{sentence}");
    let sentence = refused("large", MempoolConfig { count: 1_000_000, ..Default::default() });
    assert!(sentence.contains("MiB and packet memory is used up"), "{sentence}");
}

#[test]
fn registered_threads_have_their_own_cache_and_number() {
    let pool = Mempool::new(eal(), "caches", MempoolConfig { count: 1023, cache: 128, ..Default::default() })
        .unwrap();
    let work = || {
        let registration = WorkerRegistration::new(eal()).unwrap();
        assert!(
            matches!(WorkerRegistration::new(eal()), Err(CoreError::Register { .. })),
            "registered already"
        );
        for _ in 0..1000 {
            let mut batch: ArrayVec<Mbuf, 64> = ArrayVec::new();
            assert_eq!(pool.allocate_bulk(&mut batch, 64), 64);
            Mbuf::free_bulk(&mut batch);
        }
        registration.lcore()
    };
    std::thread::scope(|scope| {
        let (first, second) = (scope.spawn(work), scope.spawn(work));
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert!(first != u32::MAX && second != u32::MAX);
    });
    assert_eq!((pool.available(), pool.in_use()), (1023, 0), "caches count as available");
    // The number is given back when the registration ends.
    let again = || {
        let lcores = (0..300).map(|_| WorkerRegistration::new(eal()).unwrap().lcore());
        assert!(lcores.clone().all(|lcore| lcore < 128));
        lcores.count()
    };
    assert_eq!(std::thread::spawn(again).join().unwrap(), 300);
}

#[test]
fn the_clock_runs_at_the_stated_frequency() {
    let (hertz, start, wall) = (eal().cycles_per_second(), cycles(), std::time::Instant::now());
    while wall.elapsed().as_millis() < 50 {
        std::hint::spin_loop();
    }
    let measured = (cycles() - start) as f64 / wall.elapsed().as_secs_f64();
    assert!((measured / hertz as f64 - 1.0).abs() < 0.05, "{measured} against {hertz}");
}
