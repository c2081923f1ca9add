//! Ports on the kernel's interfaces: AF_PACKET and AF_XDP on a veth pair, TAP and vhost, in a network namespace of their own. Once as
//! whoever runs the test (where that may make namespaces), and once as the root of a new user namespace, as an ordinary user would.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::net::UdpSocket;
use std::process::Command;

use sluice_dpdk::{Eal, Mempool, MempoolConfig, Port, PortConfig, PortError, PortKind, Queues};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("privileged") => inside(true),
        Some("user") => inside(false),
        _ => {
            in_namespaces("-n", "privileged");
            in_namespaces("-Urn", "user");
        }
    }
}

fn in_namespaces(which: &str, part: &str) {
    if !Command::new("unshare").args([which, "true"]).output().is_ok_and(|output| output.status.success()) {
        println!("unshare {which}: skipped, since this user may not make such namespaces here");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let status = Command::new("unshare").arg(which).arg(program).arg(part).status().unwrap();
    assert!(status.success(), "unshare {which}: {status}");
}

fn inside(privileged: bool) {
    ip("link set lo up");
    let eal = common::start_eal();
    let pool = common::small_pool(&eal, "packets");
    af_packet(&eal, &pool);
    println!("af_packet ({}): ok", if privileged { "privileged" } else { "user namespace" });
    tap(&eal, &pool);
    println!("tap: ok");
    vhost(&eal, &pool);
    println!("vhost: ok");
    if privileged {
        af_xdp(&eal);
        println!("af_xdp: ok");
    }
    assert_eq!(pool.in_use(), 0, "every port gave its buffers back");
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

fn start(eal: &Eal, pool: &Mempool, name: &str, kind: &PortKind) -> (Port, Queues) {
    let mut port = Port::new(eal, name, kind).unwrap_or_else(|error| panic!("{error}"));
    port.configure(&PortConfig::new(pool.clone())).unwrap_or_else(|error| panic!("{error}"));
    let queues = port.start().unwrap_or_else(|error| panic!("{error}"));
    (port, queues)
}

fn veth_pair() {
    ip("link add left type veth peer name right");
    for end in ["left", "right"] {
        ip(&format!("link set {end} address 02:00:00:00:01:0{} up", if end == "left" { 1 } else { 2 }));
    }
}

/// Sends frames from each port to the other and checks that all arrive, whole and in order.
fn exchange(pool: &Mempool, left: &mut Queues, right: &mut Queues, frames: &[Vec<u8>]) {
    for burst in frames.chunks(100) {
        common::send_all(&mut left.transmit[0], pool, burst);
        assert_eq!(common::receive_frames(&mut right.receive[0], burst.len()), burst);
        common::send_all(&mut right.transmit[0], pool, burst);
        assert_eq!(common::receive_frames(&mut left.receive[0], burst.len()), burst);
    }
}

fn af_packet(eal: &Eal, pool: &Mempool) {
    veth_pair();
    let kind = |interface: &str| PortKind::AfPacket {
        interface: interface.into(),
        queues: 1,
        slot_bytes: 2048,
        slots: 512,
    };
    let (left_port, mut left) = start(eal, pool, "left", &kind("left"));
    let (right_port, mut right) = start(eal, pool, "right", &kind("right"));
    common::wait_for_link(&left_port);
    assert_eq!(left_port.info().unwrap().driver, "net_af_packet");
    assert_eq!(right_port.info().unwrap().mac, [2, 0, 0, 0, 1, 2]);
    exchange(pool, &mut left, &mut right, &common::frames(400, 1500));
    assert!(left_port.statistics().unwrap().transmitted_packets >= 400);

    // The kernel knows better than the driver whether a link is up.
    ip("link set right down");
    common::wait_for("the carrier to go", || !left_port.link().unwrap().up);
    assert!(!left_port.link().unwrap().gone && !right_port.link().unwrap().up);
    ip("link set right up");
    common::wait_for("the carrier to come", || left_port.link().unwrap().up && right_port.link().unwrap().up);

    // A configuration change: the port goes and comes while the other one stays.
    drop((left, left_port));
    let (left_port, mut left) = start(eal, pool, "left", &kind("left"));
    exchange(pool, &mut left, &mut right, &common::frames(50, 1500));
    ip("link delete left");
    let link = left_port.link().unwrap();
    assert!(!link.up && link.gone, "{link:?}");
    veth_pair();
    assert!(left_port.link().unwrap().gone, "another interface of the same name");
    drop((left, left_port, right, right_port));
    ip("link delete left");
    let error = Port::new(eal, "left", &kind("left")).unwrap_err();
    assert!(matches!(error, PortError::NoInterface { .. }), "{error}");
}

/// The same interfaces are opened again and again, and neither sockets nor packet memory are lost by it.
fn af_xdp(eal: &Eal) {
    veth_pair();
    let pool = &Mempool::new(eal, "shared", MempoolConfig { count: 4095, ..Default::default() }).unwrap();
    let kind = |interface: &str| PortKind::AfXdp { interface: interface.into(), queues: 1 };
    let sockets = || {
        let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.filter(|link| link.to_str().is_some_and(|link| link.starts_with("socket:"))).count()
    };
    let before = sockets();
    for _ in 0..8 {
        let (left_port, mut left) = start(eal, pool, "left", &kind("left"));
        let (right_port, mut right) = start(eal, pool, "right", &kind("right"));
        common::wait_for_link(&left_port);
        assert_eq!(left_port.info().unwrap().driver, "net_af_xdp");
        exchange(pool, &mut left, &mut right, &common::frames(300, 1500));
        drop((left, left_port, right, right_port));
        assert_eq!(pool.in_use(), 0, "packets were copied, and all came back");
        assert_eq!(sockets(), before, "every socket was closed");
    }
    ip("link delete left");
}

/// A UDP datagram over IPv4 and Ethernet; the UDP checksum is 0, which RFC 768 lets a sender leave out.
fn datagram(ethernet: [u8; 12], payload: &[u8]) -> Vec<u8> {
    let (ip_length, udp_length) = (28 + payload.len() as u16, 8 + payload.len() as u16);
    let mut header = vec![0x45, 0];
    header.extend(ip_length.to_be_bytes());
    header.extend([0, 1, 0, 0, 64, 17, 0, 0, 198, 51, 100, 2, 198, 51, 100, 1]);
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    let mut frame = [&ethernet[..], &[8, 0], &header].concat();
    for field in [5000, 4000, udp_length, 0] {
        frame.extend(u16::to_be_bytes(field));
    }
    frame.extend(payload);
    frame
}

/// Frames between a TAP port and the kernel's own UDP, both ways.
fn tap(eal: &Eal, pool: &Mempool) {
    let (port, mut queues) = start(eal, pool, "tap", &PortKind::Tap { interface: "sluicetap".into() });
    ip("address add 198.51.100.1/24 dev sluicetap");
    ip("link set sluicetap up");
    ip("neighbour replace 198.51.100.2 lladdr 02:00:00:00:02:02 dev sluicetap");
    let socket = UdpSocket::bind("198.51.100.1:4000").unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();

    socket.send_to(b"from the kernel", "198.51.100.2:5000").unwrap();
    let mut tap_mac = [0; 6];
    common::wait_for("the kernel's datagram", || {
        let mut batch = arrayvec::ArrayVec::<_, 32>::new();
        queues.receive[0].receive(&mut batch);
        batch.iter().any(|mbuf| {
            let frame = mbuf.data();
            let ours =
                frame.len() == 57 && frame[..6] == [2, 0, 0, 0, 2, 2] && frame[42..] == *b"from the kernel";
            if ours {
                tap_mac.copy_from_slice(&frame[6..12]);
            }
            ours
        })
    });
    assert_eq!(tap_mac, port.info().unwrap().mac);

    let ethernet: [u8; 12] = [&tap_mac[..], &[2, 0, 0, 0, 2, 2]].concat().try_into().unwrap();
    common::send_all(&mut queues.transmit[0], pool, &[datagram(ethernet, b"to the kernel")]);
    let mut bytes = [0; 100];
    let (length, sender) = socket.recv_from(&mut bytes).unwrap();
    assert_eq!((&bytes[..length], sender.to_string().as_str()), (&b"to the kernel"[..], "198.51.100.2:5000"));
}

/// A vhost port without a virtual machine: it makes its socket, waits with the link down, takes nothing, and cleans up.
fn vhost(eal: &Eal, pool: &Mempool) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vm0.sock");
    let (port, mut queues) = start(eal, pool, "vm0", &PortKind::Vhost { socket: socket.clone(), queues: 2 });
    assert!(socket.exists());
    assert!(!port.link().unwrap().up);
    let mut batch = arrayvec::ArrayVec::<_, 4>::new();
    batch.push(pool.allocate_with(&common::frames(1, 100)[0]).unwrap());
    assert_eq!(queues.transmit[0].transmit(&mut batch), 0);
    assert_eq!(batch.len(), 1, "the packet is still ours");
    drop((queues, port));
    assert!(!socket.exists(), "the socket is removed with its port");
}
