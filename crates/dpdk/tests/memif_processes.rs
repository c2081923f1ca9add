//! Shared-memory ports between two processes, each with its own EAL: the other one sends back what it gets. Once with ordinary
//! pages, and once more without copying where this machine has huge pages free.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use sluice_dpdk::{
    Eal, EalOptions, HugePages, Mbuf, MemifRole, MemifSettings, MemoryBacking, Mempool, Port, PortConfig,
    PortKind, Queues,
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["echo", socket, links, frames] => {
            echo(Path::new(socket), links.parse().unwrap(), frames.parse().unwrap());
        }
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

fn start_link(
    eal: &Eal,
    pool: &Mempool,
    socket: &Path,
    id: u32,
    role: MemifRole,
    zero_copy: bool,
) -> (Port, Queues) {
    let settings = MemifSettings { zero_copy, ..MemifSettings::new(socket, id, role) };
    let mut port = Port::new(eal, &format!("link{id}"), &PortKind::Memif(settings)).unwrap();
    port.configure(&PortConfig::new(pool.clone())).unwrap();
    let queues = port.start().unwrap_or_else(|error| panic!("{error}"));
    (port, queues)
}

/// Sends back every frame with its bytes inverted behind the first 14, `count` of them on all links together.
fn echo(socket: &Path, count_of_links: u32, count: usize) {
    let eal = common::start_eal();
    let pool = common::small_pool(&eal, "packets");
    let mut links: Vec<(Port, Queues)> =
        (0..count_of_links).map(|id| start_link(&eal, &pool, socket, id, MemifRole::Server, false)).collect();
    println!("ready");
    let mut returned = 0;
    let mut batch: ArrayVec<Mbuf, 64> = ArrayVec::new();
    common::wait_for("frames to return", || {
        for (_, queues) in &mut links {
            queues.receive[0].receive(&mut batch);
            for mbuf in &mut batch {
                mbuf.data_mut()[14..].iter_mut().for_each(|byte| *byte = !*byte);
            }
            while !batch.is_empty() {
                returned += queues.transmit[0].transmit(&mut batch);
            }
        }
        returned == count
    });
    // The other side goes first, when it has everything.
    common::wait_for("the other side to leave", || links.iter().all(|(port, _)| !port.link().unwrap().up));
}

fn exchange(huge: bool) {
    let huge_pages = if huge { HugePages::Required } else { HugePages::Off };
    let eal = match Eal::init(EalOptions { memory_mebibytes: 64, huge_pages, ..Default::default() }) {
        Ok(eal) => eal,
        Err(error) if huge => return println!("two processes, without copying: skipped, since {error}"),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(matches!(eal.memory_backing(), MemoryBacking::HugePages { .. }), huge);
    let pool = common::small_pool(&eal, "packets");
    let frames = common::frames(2000, 1500);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock");
    let mut peer = start_peer(&socket, 2, 3 * frames.len());

    // The driver closes EAL's descriptors when a link without copying connects: a second link and a restart are the proof that
    // they are whole again.
    let mut links: Vec<(Port, Queues)> =
        (0..2).map(|id| start_link(&eal, &pool, &socket, id, MemifRole::Client, huge)).collect();
    for (port, queues) in &mut links {
        common::wait_for_link(port);
        send_and_return(queues, &pool, &frames);
        let statistics = port.statistics().unwrap();
        assert_eq!((statistics.transmitted_packets, statistics.received_packets), (2000, 2000));
    }
    let (mut port, queues) = links.remove(0);
    drop(queues);
    port.stop().unwrap();
    // The server takes the link again once it has seen it go.
    let mut queues = None;
    common::wait_for("the link to restart", || {
        queues = port.start().ok();
        let up = queues.is_some() && came_up(&port);
        if !up {
            queues = None;
            port.stop().unwrap();
        }
        up
    });
    let mut queues = queues.unwrap();
    send_and_return(&mut queues, &pool, &frames);

    if huge {
        let other = common::small_pool(&eal, "other");
        let mut batch: ArrayVec<Mbuf, 4> = ArrayVec::new();
        let mut chain = other.allocate_with(&frames[0]).unwrap();
        chain.append(other.allocate_with(&frames[1]).unwrap()).unwrap();
        batch.push(chain);
        assert_eq!(queues.transmit[0].transmit(&mut batch), 0);
        assert_eq!((batch.len(), queues.transmit[0].unfit_packets()), (0, 1), "a descriptor has one segment");
    }
    drop((queues, port, links));
    assert!(peer.0.wait().unwrap().success(), "the echoing process failed");
    if huge {
        println!("two processes, without copying, {}: ok", eal.memory_backing());
    }
}

/// Whether the link comes up within a second.
fn came_up(port: &Port) -> bool {
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        if port.link().unwrap().up {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

fn start_peer(socket: &Path, links: u32, frames: usize) -> Peer {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("echo").arg(socket).args([links.to_string(), frames.to_string()]).stdout(Stdio::piped());
    let mut peer = Peer(command.spawn().unwrap());
    // A server refuses who comes before it has started, and a client asks once.
    let mut line = String::new();
    BufReader::new(peer.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    peer
}

/// Sends the frames and checks that each comes back inverted, in order.
fn send_and_return(queues: &mut Queues, pool: &Mempool, frames: &[Vec<u8>]) {
    let inverted = |frame: &Vec<u8>| -> Vec<u8> {
        frame[..14].iter().copied().chain(frame[14..].iter().map(|byte| !byte)).collect()
    };
    for chunk in frames.chunks(250) {
        common::send_all(&mut queues.transmit[0], pool, chunk);
        let returned = common::receive_frames(&mut queues.receive[0], chunk.len());
        assert_eq!(returned, chunk.iter().map(inverted).collect::<Vec<_>>());
    }
}
