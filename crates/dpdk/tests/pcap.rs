//! Capture-file ports: what goes in comes out byte by byte; the life of a port; and what it says when something is missing.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::path::Path;
use std::sync::{Mutex, OnceLock};

use arrayvec::ArrayVec;
use sluice_dpdk::{
    Eal, EalError, EalOptions, Mbuf, MemifRole, MemifSettings, Mempool, MempoolConfig, Port, PortConfig,
    PortError, PortKind,
};

fn eal() -> &'static Eal {
    static EAL: OnceLock<Eal> = OnceLock::new();
    EAL.get_or_init(common::start_eal)
}

/// Creating a device and asking why it failed are two steps: tests of this process take turns.
fn turn() -> std::sync::MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Writes a capture file (draft-ietf-opsawg-pcap, Ethernet, microseconds).
fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut bytes: Vec<u8> = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for frame in frames {
        let length = frame.len() as u32;
        for word in [1, 0, length, length] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).unwrap();
}

fn read_capture(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    frames
}

fn capture_kind(receive: &Path, transmit: &Path) -> PortKind {
    PortKind::Pcap { receive: Some(receive.to_owned()), transmit: transmit.to_owned() }
}

#[test]
fn frames_pass_from_file_to_file_byte_by_byte() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    let frames = common::frames(500, 1500);
    write_capture(&input, &frames);
    let pool = common::small_pool(eal(), "files");
    {
        let mut port = Port::new(eal(), "files", &capture_kind(&input, &output)).unwrap();
        port.configure(&PortConfig::new(pool.clone())).unwrap();
        let mut queues = port.start().unwrap();
        let mut forwarded = 0;
        common::wait_for("the whole file", || {
            let mut batch: ArrayVec<Mbuf, 64> = ArrayVec::new();
            queues.receive[0].receive(&mut batch);
            assert!(batch.iter().all(|mbuf| Some(mbuf.port()) == port.id()));
            forwarded += queues.transmit[0].transmit(&mut batch);
            assert!(batch.is_empty(), "a file takes every frame");
            forwarded == frames.len()
        });
        let statistics = port.statistics().unwrap();
        let bytes: usize = frames.iter().map(Vec::len).sum();
        assert_eq!((statistics.received_packets, statistics.transmitted_packets), (500, 500));
        assert_eq!((statistics.received_bytes, statistics.transmitted_bytes), (bytes as u64, bytes as u64));
        let extended = port.extended_statistics().unwrap();
        assert_eq!(extended.iter().find(|counter| counter.name == "rx_good_packets").unwrap().value, 500);
        assert_eq!(
            extended.iter().find(|counter| counter.name == "tx_q0_bytes").unwrap().value,
            bytes as u64
        );
    }
    assert_eq!(read_capture(&output), frames);
    assert_eq!(pool.in_use(), 0, "the port gave every buffer back");
}

#[test]
fn a_batch_is_filled_behind_what_it_holds_and_only_to_its_room() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    let frames = common::frames(20, 200);
    write_capture(&input, &frames);
    let pool = common::small_pool(eal(), "batch");
    let mut port = Port::new(eal(), "batch", &capture_kind(&input, &folder.path().join("out.pcap"))).unwrap();
    port.configure(&PortConfig::new(pool.clone())).unwrap();
    let mut queues = port.start().unwrap();
    let mut batch: ArrayVec<Mbuf, 8> = ArrayVec::new();
    batch.push(pool.allocate_with(b"first").unwrap());
    assert_eq!(queues.receive[0].receive(&mut batch), 7);
    assert_eq!(queues.receive[0].receive(&mut batch), 0, "the batch is full");
    assert_eq!(batch[0].data(), b"first");
    assert!((1..8).all(|at| batch[at].data() == frames[at - 1]));
    assert_eq!(queues.transmit[0].transmit(&mut ArrayVec::<Mbuf, 8>::new()), 0);
}

#[test]
fn a_port_stops_only_when_its_queues_came_back_and_may_start_again() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    write_capture(&input, &common::frames(3, 100));
    let pool = common::small_pool(eal(), "life");
    let config = PortConfig::new(pool.clone());
    let mut port = Port::new(eal(), "life", &capture_kind(&input, &output)).unwrap();
    let sentence = port.start().unwrap_err().to_string();
    assert!(sentence.contains("`life` is not configured"), "{sentence}");
    port.configure(&config).unwrap();
    let queues = port.start().unwrap();
    assert!(matches!(port.start(), Err(PortError::State { state: "started already", .. })));
    assert!(matches!(port.stop(), Err(PortError::QueuesInUse(_))));
    assert!(matches!(port.configure(&config), Err(PortError::State { state: "started", .. })));
    drop(queues);
    port.stop().unwrap();
    port.stop().unwrap();
    port.configure(&config).unwrap();

    // The device outlives its port until the worker's queues are gone, and its name is free after that.
    let mut queues = port.start().unwrap();
    drop(port);
    assert!(matches!(Port::new(eal(), "life", &capture_kind(&input, &output)), Err(PortError::Exists(_))));
    let mut batch: ArrayVec<Mbuf, 8> = ArrayVec::new();
    assert_eq!(queues.receive[0].receive(&mut batch), 3);
    Mbuf::free_bulk(&mut batch);
    drop(queues);
    Port::new(eal(), "life", &capture_kind(&input, &output)).expect("the name is free again");
}

#[test]
fn ports_that_cannot_be_say_what_is_missing() {
    let _turn = turn();
    let refused = |name: &str, kind: PortKind| Port::new(eal(), name, &kind).unwrap_err().to_string();
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pcap");
    let sentence = refused("a", capture_kind(&missing, &folder.path().join("out.pcap")));
    assert!(sentence.contains("missing.pcap cannot be read (No such file"), "{sentence}");
    let sentence =
        refused("a", PortKind::Pcap { receive: None, transmit: "/no-such-folder/out.pcap".into() });
    assert!(sentence.contains("the folder of /no-such-folder/out.pcap does not exist"), "{sentence}");
    let packet = PortKind::AfPacket { interface: "nothere0".into(), queues: 1, slot_bytes: 2048, slots: 512 };
    let sentence = refused("a", packet);
    assert!(sentence.contains("interface nothere0 does not exist in this network namespace"), "{sentence}");
    let sentence = refused("a", PortKind::AfXdp { interface: "lo,queue_count=9".into(), queues: 1 });
    assert!(sentence.contains("the interface `lo,queue_count=9` cannot be given"), "{sentence}");
    let sentence =
        refused("a", PortKind::AfPacket { interface: "lo".into(), queues: 1, slot_bytes: 3000, slots: 512 });
    assert!(sentence.contains("the slot size is 3000 and must be a power of two"), "{sentence}");
    let sentence = refused("a", PortKind::Pci { address: "ffff:1f:00.0".into() });
    assert!(sentence.contains("there is no PCI device ffff:1f:00.0"), "{sentence}");
    if let Some(device) =
        std::fs::read_dir("/sys/bus/pci/devices").ok().and_then(|mut devices| devices.next())
    {
        let address = device.unwrap().file_name().into_string().unwrap();
        let sentence = refused("a", PortKind::Pci { address: address.clone() });
        assert!(
            sentence.contains(&format!("PCI device {address} was not allowed when packet I/O started")),
            "{sentence}"
        );
    }
    let sentence = refused("a b", PortKind::Tap { interface: "t0".into() });
    assert!(sentence.contains("`a b` cannot name a port"), "{sentence}");
    let mut memif = MemifSettings::new(folder.path().join("s"), 0, MemifRole::Server);
    memif.zero_copy = true;
    let sentence = refused("a", PortKind::Memif(memif.clone()));
    assert!(sentence.contains("only the client side of a memif can"), "{sentence}");
    let client = MemifSettings { role: MemifRole::Client, ..memif.clone() };
    let sentence = refused("a", PortKind::Memif(client));
    assert!(sentence.contains("packet memory is in ordinary pages: start with huge pages"), "{sentence}");
    memif = MemifSettings { zero_copy: false, ring_size_log2: 15, ..memif };
    let sentence = refused("a", PortKind::Memif(memif));
    assert!(sentence.contains("the ring size (log2) is 15 and must be from 1 to 14"), "{sentence}");
}

#[test]
fn configurations_that_cannot_be_name_the_limit() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let kind = PortKind::Pcap { receive: None, transmit: folder.path().join("out.pcap") };
    let mut port = Port::new(eal(), "limits", &kind).unwrap();
    let pool = common::small_pool(eal(), "limits");
    let config = PortConfig::new(pool.clone());
    let mut refused = |config: PortConfig| port.configure(&config).unwrap_err().to_string();
    let sentence = refused(PortConfig { receive_queues: 40_000, ..config.clone() });
    assert!(sentence.contains("receive queues is 40000 and must be from 1 to"), "{sentence}");
    let sentence = refused(PortConfig { mtu: 9000, ..config.clone() });
    assert!(
        sentence.contains("the MTU, for the buffers of its memory pool, is 9000 and must be from 68 to 2026"),
        "{sentence}"
    );
}

#[test]
fn an_info_names_driver_and_limits() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let kind = PortKind::Pcap { receive: None, transmit: folder.path().join("out.pcap") };
    let port = Port::new(eal(), "info", &kind).unwrap();
    let info = port.info().unwrap();
    assert_eq!((info.driver.as_str(), info.device.as_str()), ("net_pcap", "net_pcap_info"));
    assert_eq!((info.pci, info.mtu), (None, 1500));
    assert_ne!(info.mac, [0; 6]);
    assert!(info.max_transmit_queues >= 1 && info.max_frame >= 1518);
}

#[test]
fn the_eal_starts_once_in_a_process() {
    let _turn = turn();
    let _first = eal();
    let error = Eal::init(EalOptions::default()).unwrap_err();
    assert!(matches!(error, EalError::AlreadyStarted));
    assert!(error.to_string().contains("was already started"));
    let error = Mempool::new(eal(), "", MempoolConfig::default()).unwrap_err();
    assert!(error.to_string().contains("use 1 to 25 letters"));
}
