//! What the integration tests share: an EAL without huge pages, frames to send and waiting for an event with a limit.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod raw;

use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use sluice_dpdk::{Eal, EalOptions, HugePages, Mbuf, Mempool, MempoolConfig, Port, RxQueue, TxQueue};

/// How long an event may take before the test fails.
const LIMIT: Duration = Duration::from_secs(20);

/// An EAL that runs for any user on any machine.
pub(crate) fn start_eal() -> Eal {
    let options = EalOptions { memory_mebibytes: 192, huge_pages: HugePages::Off, ..Default::default() };
    Eal::init(options).expect("the EAL starts without privileges and huge pages")
}

/// A pool of 4,095 mbufs.
pub(crate) fn small_pool(eal: &Eal, name: &str) -> Mempool {
    Mempool::new(eal, name, MempoolConfig { count: 4095, cache: 64, ..Default::default() })
        .expect("a small pool fits")
}

/// Frames of different lengths and content: 60 bytes up to `longest`.
pub(crate) fn frames(count: usize, longest: usize) -> Vec<Vec<u8>> {
    let frame = |index: usize| {
        let length = 60 + (index * 37) % (longest - 59);
        let mut bytes: Vec<u8> = (0..length).map(|at| (at * 7 + index * 13) as u8).collect();
        // To everybody, from a local address, with an EtherType for local experiments (IEEE 802, section 9.2.4).
        bytes[..14].copy_from_slice(&[255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        bytes[14..18].copy_from_slice(&(index as u32).to_be_bytes());
        bytes
    };
    (0..count).map(frame).collect()
}

/// Repeats `event` until it is true, and fails when it takes too long.
pub(crate) fn wait_for(what: &str, mut event: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !event() {
        assert!(Instant::now() < end, "waited {LIMIT:?} for {what}");
        std::thread::yield_now();
    }
}

/// Waits until the port's link is up.
pub(crate) fn wait_for_link(port: &Port) {
    wait_for("the link", || port.link().expect("drivers tell their link").up);
}

/// Sends all frames in order, a burst of 32 at a time.
pub(crate) fn send_all(queue: &mut TxQueue, pool: &Mempool, frames: &[Vec<u8>]) {
    for chunk in frames.chunks(32) {
        let mut batch: ArrayVec<Mbuf, 32> = ArrayVec::new();
        batch.extend(chunk.iter().map(|frame| pool.allocate_with(frame).expect("the pool is large enough")));
        wait_for("room to send", || {
            queue.transmit(&mut batch);
            batch.is_empty()
        });
    }
}

/// Receives until `count` frames of the tests' EtherType have come; others (a kernel's own) are left out.
pub(crate) fn receive_frames(queue: &mut RxQueue, count: usize) -> Vec<Vec<u8>> {
    let mut received = Vec::new();
    wait_for("frames", || {
        let mut batch: ArrayVec<Mbuf, 32> = ArrayVec::new();
        queue.receive(&mut batch);
        let ours = batch.iter().map(Mbuf::to_vec).filter(|frame| frame.get(12..14) == Some(&[0x88, 0xb5]));
        received.extend(ours);
        received.len() >= count
    });
    received
}
