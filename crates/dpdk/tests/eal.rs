//! Starts of the EAL with different options, each in a process of its own, since a process has one.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::process::Command;
use std::sync::Mutex;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use sluice_dpdk::{
    CoreSet, Eal, EalError, EalOptions, HugePages, LogLevel, MemoryBacking, Port, PortKind,
    WorkerRegistration,
};

const SCENARIOS: &[(&str, fn())] = &[
    ("huge pages are used where there are enough", automatic_huge_pages),
    ("without a main core the thread stays free", free_main_thread),
    ("a main core pins the thread", pinned_main_thread),
    ("the log goes to the program", log_reaches_the_program),
    ("a refusal says why and what to do", refusal_is_explained),
    ("a dropped EAL does not start again", dropped_eal_stays_down),
    ("ports come and go beside registered workers", hot_plug_with_workers),
];

fn main() {
    if let Some(wanted) = std::env::args().nth(1).filter(|argument| argument.contains(' ')) {
        let (_, scenario) =
            SCENARIOS.iter().find(|(name, _)| *name == wanted).expect("a scenario of the list");
        return scenario();
    }
    for (name, _) in SCENARIOS {
        let status = Command::new(std::env::current_exe().unwrap()).arg(name).status().unwrap();
        assert!(status.success(), "{name}: {status}");
        println!("{name}: ok");
    }
}

/// Ordinary pages, little memory.
fn plain() -> EalOptions {
    EalOptions { memory_mebibytes: 64, huge_pages: HugePages::Off, ..Default::default() }
}

fn allowed_cores() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap()).collect()
}

/// MiB of free huge pages of 2 MiB that nobody has reserved.
fn free_huge_mebibytes() -> u64 {
    let read = |file: &str| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{file}");
        std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    2 * read("free_hugepages").saturating_sub(read("resv_hugepages"))
}

fn automatic_huge_pages() {
    let before = free_huge_mebibytes();
    let eal = Eal::init(EalOptions { memory_mebibytes: 64, ..Default::default() }).unwrap();
    // Others may take or give back pages meanwhile: only a clear case decides.
    match before {
        0 => assert_eq!(eal.memory_backing(), MemoryBacking::OrdinaryPages),
        512.. => assert!(matches!(eal.memory_backing(), MemoryBacking::HugePages { .. })),
        _ => {}
    }
    let pool = common::small_pool(&eal, "pool");
    assert_eq!(pool.allocate_with(b"works").unwrap().data(), b"works");
    println!("memory: {} ({before} MiB of huge pages were free)", eal.memory_backing());
}

fn free_main_thread() {
    let before = allowed_cores();
    let _eal = Eal::init(plain()).unwrap();
    assert_eq!(allowed_cores(), before);
}

fn pinned_main_thread() {
    let core = *CoreSet::available().as_slice().last().unwrap();
    let _eal = Eal::init(EalOptions { main_core: Some(core), ..plain() }).unwrap();
    assert_eq!(allowed_cores(), [core]);
}

fn log_reaches_the_program() {
    static LINES: Mutex<Vec<(LogLevel, String)>> = Mutex::new(Vec::new());
    let log = Box::new(|level, text: &str| LINES.lock().unwrap().push((level, text.to_owned())));
    let _eal = Eal::init(EalOptions { log_level: LogLevel::Debug, log: Some(log), ..plain() }).unwrap();
    let lines = LINES.lock().unwrap();
    assert!(
        lines
            .iter()
            .any(|(level, text)| *level == LogLevel::Info && text.starts_with("EAL: Detected CPU lcores"))
    );
    assert!(lines.iter().any(|(level, _)| *level == LogLevel::Debug));
    assert!(lines.iter().all(|(_, text)| !text.is_empty() && !text.contains('\n')));
}

fn refusal_is_explained() {
    // More than any address space has.
    let error = Eal::init(EalOptions { memory_mebibytes: 1 << 30, ..plain() }).unwrap_err();
    assert!(matches!(error, EalError::Refused { .. }));
    let sentence = error.to_string();
    assert!(sentence.starts_with("packet I/O (the DPDK EAL) did not start: EAL: "), "{sentence}");
    assert!(sentence.contains("; "), "{sentence}");
    println!("{sentence}");
    assert!(matches!(Eal::init(plain()), Err(EalError::AlreadyStarted)), "the process has had its start");
}

fn dropped_eal_stays_down() {
    drop(Eal::init(plain()).unwrap());
    assert!(matches!(Eal::init(plain()), Err(EalError::AlreadyStarted)));
}

fn hot_plug_with_workers() {
    let eal = Eal::init(plain()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kind = PortKind::Pcap { receive: None, transmit: folder.path().join("out.pcap") };
    std::thread::scope(|scope| {
        let (registered, wait_registered) = std::sync::mpsc::channel();
        let (done, wait_done) = std::sync::mpsc::channel::<()>();
        let eal = &eal;
        scope.spawn(move || {
            let _registration = WorkerRegistration::new(eal).unwrap();
            registered.send(()).unwrap();
            let _ = wait_done.recv();
        });
        wait_registered.recv().unwrap();
        for round in 0..20 {
            let port = Port::new(eal, &format!("port{}", round % 2), &kind).unwrap();
            assert_eq!(port.id(), Some(0), "the number of a removed port is free again");
        }
        drop(done);
    });
}
