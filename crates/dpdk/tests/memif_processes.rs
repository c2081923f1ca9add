//! Shared-memory ports between two processes, each with its own EAL: the other one sends back what it gets. Once with ordinary
//! pages, and once more without copying where this machine has huge pages free.

mod common;

use std::path::Path;
use std::process::{Child, Command};

use arrayvec::ArrayVec;
use sluice_dpdk::{
    Eal, EalOptions, HugePages, Mbuf, MemifRole, MemifSettings, MemoryBacking, Port, PortConfig, PortKind, Queues,
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["echo", socket, frames] => echo(Path::new(socket), frames.parse().unwrap()),
        ["exchange", pages] => exchange(pages == "huge"),
        _ => {
            run_again(&["exchange", "ordinary"]);
            println!("two processes, ordinary pages: ok");
            run_again(&["exchange", "huge"]);
        }
    }
}

fn run_again(arguments: &[&str]) {
    let status = Command::new(std::env::current_exe().unwrap()).args(arguments).status().unwrap();
    assert!(status.success(), "{arguments:?}: {status}");
}

/// Ends a process that we started, whatever happens.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_port(eal: &Eal, socket: &Path, role: MemifRole, zero_copy: bool) -> (Port, Queues, sluice_dpdk::Mempool) {
    let pool = common::small_pool(eal, "packets");
    let settings = MemifSettings { zero_copy, ..MemifSettings::new(socket, 0, role) };
    let mut port = Port::new(eal, "link", &PortKind::Memif(settings)).unwrap();
    port.configure(&PortConfig::new(pool.clone())).unwrap();
    let queues = port.start().unwrap();
    (port, queues, pool)
}

/// Sends back every frame with its bytes inverted behind the first 14, `count` of them.
fn echo(socket: &Path, count: usize) {
    let eal = common::start_eal();
    let (port, mut queues, _pool) = start_port(&eal, socket, MemifRole::Server, false);
    let mut returned = 0;
    let mut batch: ArrayVec<Mbuf, 64> = ArrayVec::new();
    common::wait_for("frames to return", || {
        let waiting = batch.len();
        queues.receive[0].receive(&mut batch);
        for mbuf in &mut batch[waiting..] {
            mbuf.data_mut()[14..].iter_mut().for_each(|byte| *byte = !*byte);
        }
        returned += queues.transmit[0].transmit(&mut batch);
        returned == count
    });
    // The other side goes first, when it has everything.
    common::wait_for("the other side to leave", || !port.link().unwrap().up);
}

fn exchange(huge: bool) {
    let huge_pages = if huge { HugePages::Required } else { HugePages::Off };
    let eal = match Eal::init(EalOptions { memory_mebibytes: 64, huge_pages, ..Default::default() }) {
        Ok(eal) => eal,
        Err(error) if huge => return println!("two processes, without copying: skipped, since {error}"),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(matches!(eal.memory_backing(), MemoryBacking::HugePages { .. }), huge);
    let frames = common::frames(2000, 1500);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock");
    let peer = Command::new(std::env::current_exe().unwrap()).arg("echo").arg(&socket).arg(frames.len().to_string()).spawn();
    let mut peer = Peer(peer.unwrap());
    common::wait_for("the socket", || socket.exists());

    let (mut port, mut queues, pool) = start_port(&eal, &socket, MemifRole::Client, huge);
    common::wait_for_link(&port);
    let inverted = |frame: &Vec<u8>| -> Vec<u8> { frame[..14].iter().copied().chain(frame[14..].iter().map(|byte| !byte)).collect() };
    for chunk in frames.chunks(250) {
        common::send_all(&mut queues.transmit[0], &pool, chunk);
        let returned = common::receive_frames(&mut queues.receive[0], chunk.len());
        assert!(returned.iter().eq(chunk.iter().map(inverted).collect::<Vec<_>>().iter()));
    }
    let statistics = port.statistics().unwrap();
    assert_eq!((statistics.transmitted_packets, statistics.received_packets), (2000, 2000));
    drop(queues);
    port.stop().unwrap();
    drop(port);
    assert!(peer.0.wait().unwrap().success(), "the echoing process failed");
    if huge {
        println!("two processes, without copying, {}: ok", eal.memory_backing());
    }
}
