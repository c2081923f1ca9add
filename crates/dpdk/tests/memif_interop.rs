//! Shared-memory ports with a driver that is not ours: DPDK's net_memif in `dpdk-testpmd`, which sends every frame back where it came from.
//! It is server and client, with one and two queues, and comes and goes: now it ends in order, now it is killed.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use arrayvec::ArrayVec;
use nix::sched::sched_getaffinity;
use nix::unistd::Pid;
use sluice_dpdk::{Mbuf, MemifRole, MemifSettings, Mempool, Port, PortConfig, PortKind, Queues};

const PROGRAM: &str = "dpdk-testpmd";

/// A process that we started. It is gone when this is.
struct Testpmd(Child);

impl Testpmd {
    /// Starts one whose only port is the other side of ours.
    fn start(ours: MemifRole, socket: &Path, queues: u16) -> Self {
        let cores = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let core = (0..1024).find(|core| cores.is_set(*core).unwrap_or(false)).unwrap();
        let role = if ours == MemifRole::Server { "client" } else { "server" };
        let socket = socket.display();
        let mut command = Command::new(PROGRAM);
        // Both of its threads on one core: this runs beside ours on small machines too.
        command.arg(format!("--lcores=0@{core},1@{core}"));
        command.args([
            "--main-lcore=0",
            "--no-huge",
            "--no-shconf",
            "--no-pci",
            "--no-telemetry",
            "-m",
            "128",
        ]);
        let device = format!("net_memif0,role={role},id=5,socket={socket},socket-abstract=no,rsize=8");
        command.args(["--iova-mode=va", "--vdev", &device, "--"]);
        // What waits when it starts is not to be thrown away.
        command.arg("--no-flush-rx");
        command.args(["--auto-start", "--forward-mode=io", "--port-topology=loop", "--no-mlockall"]);
        command.args(["--total-num-mbufs=4096", &format!("--rxq={queues}"), &format!("--txq={queues}")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Ends it as its user would, with the enter key.
    fn end(mut self) {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}: {said}");
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Frames of every size that a queue's buffers take in one slot, and some that take several.
fn frames(connection: u8) -> Vec<Vec<u8>> {
    let lengths = (60..=1518).step_by(3).chain([2047, 2048, 2049, 3000, 4096, 5000]);
    let frame = |(index, length): (usize, usize)| {
        let mut octets: Vec<u8> = (0..length).map(|at| (at * 7 + index * 13) as u8).collect();
        octets[..14].copy_from_slice(&[255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        octets[14] = connection;
        octets
    };
    lengths.enumerate().map(frame).collect()
}

/// Sends each frame on each queue and checks that it comes back on the same one, in order, octet by octet.
fn send_and_return(queues: &mut Queues, pool: &Mempool, connection: u8) {
    let frames = frames(connection);
    for (transmit, receive) in queues.transmit.iter_mut().zip(&mut queues.receive) {
        for chunk in frames.chunks(32) {
            let mut batch: ArrayVec<Mbuf, 32> = ArrayVec::new();
            for frame in chunk {
                let mut segments = frame.chunks(2048).map(|octets| pool.allocate_with(octets).unwrap());
                let mut packet = segments.next().unwrap();
                segments.for_each(|segment| packet.append(segment).unwrap());
                batch.push(packet);
            }
            common::wait_for("room to send", || {
                transmit.transmit(&mut batch);
                batch.is_empty()
            });
            let returned = common::receive_frames(receive, chunk.len());
            for (returned, sent) in returned.iter().zip(chunk) {
                assert!(returned == sent, "{} octets came for {}", returned.len(), sent.len());
            }
            assert_eq!(returned.len(), chunk.len());
        }
    }
}

#[test]
fn frames_come_back_from_dpdks_driver_in_both_roles_however_often_it_comes_and_goes() {
    if Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("skipped: {PROGRAM} is not installed (Debian's package `dpdk` has it)");
        return;
    }
    let eal = common::start_eal();
    let pool = common::small_pool(&eal, "interop");
    let folder = tempfile::tempdir().unwrap();
    for role in [MemifRole::Server, MemifRole::Client] {
        for count in [1, 2] {
            let socket = folder.path().join(format!("{role:?}{count}.sock"));
            let settings = MemifSettings { ring_size_log2: 8, ..MemifSettings::new(&socket, 5, role) };
            let mut port = Port::new(&eal, &format!("{role:?}{count}"), &PortKind::Memif(settings)).unwrap();
            let config =
                PortConfig { receive_queues: count, transmit_queues: count, ..PortConfig::new(pool.clone()) };
            port.configure(&config).unwrap();
            let mut queues = port.start().unwrap();
            for connection in 0..3 {
                let testpmd = Testpmd::start(role, &socket, count);
                common::wait_for_link(&port);
                send_and_return(&mut queues, &pool, connection);
                // It is killed with frames on the way, or ends in order with none.
                if connection == 1 {
                    let mut batch: ArrayVec<Mbuf, 32> = ArrayVec::new();
                    pool.allocate_bulk(&mut batch, 32);
                    batch.iter_mut().for_each(|packet| packet.extend_back(60).unwrap().fill(0));
                    queues.transmit[0].transmit(&mut batch);
                    drop(testpmd);
                    if role == MemifRole::Client {
                        // Its next server does not start on what it leaves behind.
                        fs::remove_file(&socket).unwrap();
                    }
                } else {
                    testpmd.end();
                }
                common::wait_for("the link to go down", || !port.link().unwrap().up);
            }
            drop((queues, port));
            assert_eq!(pool.in_use(), 0);
        }
    }
}
