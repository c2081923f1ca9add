//! Peers that come in numbers, leave, or say nothing; queues that nobody polls.

use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::ftruncate;
use sluice_dpdk::MemifRole;

use crate::common::raw::{
    self, Channel, Client, Descriptor, Heard, Listener, Memory, RingAt, Server, VERSION,
};
use crate::common::wait_for;
use crate::descriptors::{Wrong, wrong_descriptors};
use crate::handshake::up_to_rings;
use crate::{Bench, ID, SLOTS, SLOTS_LOG2, holdings};

#[test]
fn those_who_say_nothing_are_sent_away_and_those_who_leave_are_forgotten() {
    let mut bench = Bench::new(MemifRole::Server);
    let mute = Client::prepare(&bench.socket, SLOTS_LOG2);
    let stuck = Client::prepare(&bench.socket, SLOTS_LOG2);
    up_to_rings(&stuck);
    // The port has a client, if one that does not go on.
    let second = Client::prepare(&bench.socket, SLOTS_LOG2);
    second.channel.send(&raw::init(VERSION, ID, 0), &[]);
    assert!(second.channel.hear_reason().unwrap().contains("id 3 is connected already"));
    for silent in [mute, stuck] {
        assert_eq!(silent.channel.hear_reason().unwrap(), "the peer does not answer");
    }
    drop(second);
    for steps in 0..4 {
        let leaver = Client::prepare(&bench.socket, SLOTS_LOG2);
        if steps > 0 {
            leaver.say(&raw::init(VERSION, ID, 0), None);
        }
        if steps > 1 {
            leaver.say(&raw::add_region(0, 4096), Some(leaver.memory.file.as_fd()));
        }
        if steps > 2 {
            leaver.channel.send(&raw::message(8, &[]), &[]);
        }
        drop(leaver);
        wait_for("it to be forgotten", || holdings() == bench.has);
    }
    bench.serve_a_good_client();
}

#[test]
fn a_second_client_is_refused_and_the_first_goes_on() {
    let mut bench = Bench::new(MemifRole::Server);
    let first = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    wait_for("the link", || bench.is_up());
    for _ in 0..20 {
        let second = Client::prepare(&bench.socket, SLOTS_LOG2);
        second.channel.send(&raw::init(VERSION, ID, 0), &[]);
        assert!(second.channel.hear_reason().unwrap().contains("connected already"));
    }
    first.send(b"still here");
    wait_for("its packet", || bench.receive() == [b"still here"]);
    drop(first);
    bench.wait_for_nothing_left();
}

#[test]
fn a_storm_of_clients_keeps_no_good_one_out() {
    let mut bench = Bench::new(MemifRole::Server);
    let mut storm: Vec<Channel> = Vec::new();
    let begun = Instant::now();
    for _ in 0..300 {
        storm.push(Channel::to(&bench.socket));
    }
    let good = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "it did not have to wait for the others to be sent away"
    );
    good.send(b"through");
    wait_for("its packet", || bench.receive() == [b"through"]);
    let crowded = storm.iter().filter(|channel| channel.hear_reason().unwrap().contains("too many clients"));
    assert!(crowded.count() >= 200, "only so many are heard at a time");
    drop((storm, good));
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}

/// Processor time of the control thread, in clock ticks.
fn control_ticks() -> u64 {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let stat = |folder: PathBuf| fs::read_to_string(folder.join("stat")).ok();
    let stat = threads.filter_map(stat).find(|stat| stat.contains("(memif)")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// The process has the descriptors that it has, and not one more, until this is dropped.
struct NoMoreDescriptors {
    /// Every descriptor that could be had.
    fill: Vec<fs::File>,
    /// The limits before, soft and hard.
    before: (u64, u64),
}

impl NoMoreDescriptors {
    fn now() -> Self {
        let before = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let open = fs::read_dir("/proc/self/fd").unwrap();
        let number =
            |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<u64>().ok();
        let highest = open.filter_map(number).max().unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, highest + 3, before.1).unwrap();
        let fill = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
        Self { fill, before }
    }
}

impl Drop for NoMoreDescriptors {
    fn drop(&mut self) {
        self.fill.clear();
        setrlimit(Resource::RLIMIT_NOFILE, self.before.0, self.before.1).unwrap();
    }
}

#[test]
fn without_descriptors_a_client_waits_and_nothing_spins() {
    let mut bench = Bench::new(MemifRole::Server);
    let waiting = Channel::unconnected();
    let before = control_ticks();
    let nothing_left = NoMoreDescriptors::now();
    waiting.connect(&bench.socket);
    // Time that passes is what is measured here: half a second of spinning would be fifty ticks.
    std::thread::sleep(Duration::from_millis(500));
    drop(nothing_left);
    let after = control_ticks();
    assert_eq!(waiting.hear(), Heard::Hello, "accepted as soon as there is a descriptor");
    drop(waiting);
    assert!(after - before < 10, "{} ticks", after - before);
    bench.serve_a_good_client();
}

#[test]
fn a_port_whose_queues_are_not_polled_keeps_two_connections_and_not_more() {
    let mut bench = Bench::new(MemifRole::Server);
    for _ in 0..2 {
        drop(Client::connect(&bench.socket, ID, SLOTS_LOG2));
        wait_for("the link to go down", || !bench.is_up());
    }
    let with_two = holdings();
    assert_eq!(with_two.1, bench.has.1 + 2);
    for _ in 0..10 {
        let third = Client::prepare(&bench.socket, SLOTS_LOG2);
        third.channel.send(&raw::init(VERSION, ID, 0), &[]);
        assert!(third.channel.hear_reason().unwrap().contains("nobody polls them"));
    }
    // The second one's channel may have been open still when they were counted; ten that stay would be more.
    wait_for("those who came in vain to be forgotten", || {
        let (files, mappings) = holdings();
        files <= with_two.0 && mappings == with_two.1
    });
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}

#[test]
fn a_rogue_server_is_left_and_a_good_one_found_again() {
    let mut bench = Bench::new(MemifRole::Client);
    let listener = Listener::at(&bench.socket);
    type Script = fn(&Channel);
    let faults: [(&str, Script); 6] = [
        ("0x0300", |channel| channel.send(&raw::hello(0x300, 0x300, 255, 14), &[])),
        ("kind 0", |channel| channel.send(&[0; 128], &[])),
        ("1 octets", |channel| channel.send(&[1], &[])),
        ("does not belong", |channel| channel.send(&raw::connected(), &[])),
        ("does not belong", |channel| {
            channel.send(&raw::hello(VERSION, VERSION, 0, 14), &[]);
            channel.send(&raw::hello(VERSION, VERSION, 0, 14), &[]);
        }),
        ("2 files", |channel| {
            let file = raw::events();
            channel.send(&raw::hello(VERSION, VERSION, 0, 14), &[file.as_fd(), file.as_fd()]);
        }),
    ];
    for (reason, script) in faults {
        let channel = listener.accept();
        script(&channel);
        let told = channel.hear_reason();
        assert!(told.as_ref().is_some_and(|told| told.contains(reason)), "{reason}: {told:?}");
        assert!(!bench.is_up());
    }
    let silent = listener.accept();
    assert_eq!(silent.hear_reason().unwrap(), "the peer does not answer");
    drop(silent);

    // A ring that is broken by the server, each way and in both directions.
    let breaks: [fn(&Server); 3] = [
        |server| server.to_client.set_tail(&server.regions[0], SLOTS + 1),
        |server| server.to_client.set_tail(&server.regions[0], u16::MAX),
        |server| server.to_server.set_tail(&server.regions[0], 100),
    ];
    for script in breaks {
        let server = Server::accept(&listener, 14);
        assert_eq!(server.to_client.slots(), SLOTS);
        wait_for("the link", || bench.is_up());
        script(&server);
        wait_for("the link to go down", || {
            assert_eq!(bench.receive(), Vec::<Vec<u8>>::new());
            bench.send(b"test");
            !bench.is_up()
        });
        assert!(server.channel.hear_reason().unwrap().contains("more is in it"));
    }

    // Descriptors that lead nowhere, and then a good one.
    let server = Server::accept(&listener, 14);
    wait_for("buffers", || {
        bench.receive();
        server.to_client.head(&server.regions[0]) == SLOTS
    });
    let wrong = wrong_descriptors(server.regions[0].length());
    for (number, Wrong { what, descriptors }) in wrong.into_iter().enumerate() {
        let tail = server.to_client.tail(&server.regions[0]);
        let kept: Vec<Descriptor> =
            (0..SLOTS).map(|at| server.to_client.read(&server.regions[0], tail.wrapping_add(at))).collect();
        for (at, descriptor) in (0..).zip(&descriptors) {
            server.to_client.write(&server.regions[0], tail.wrapping_add(at), *descriptor);
        }
        let tail_then = tail.wrapping_add(descriptors.len() as u16);
        server.to_client.set_tail(&server.regions[0], tail_then);
        wait_for("the slots to come back", || {
            assert_eq!(bench.receive(), Vec::<Vec<u8>>::new(), "{what}");
            server.to_client.head(&server.regions[0]) == tail_then.wrapping_add(SLOTS)
        });
        assert_eq!(bench.errors().0, number as u64 + 1, "{what}");
        for (at, descriptor) in (0..).zip(kept) {
            server.to_client.write(&server.regions[0], tail.wrapping_add(at), descriptor);
        }
        server.send(what.as_bytes());
        wait_for("a good packet", || bench.receive() == [what.as_bytes()]);
    }
    drop((server, listener));
    bench.wait_for_nothing_left();
}

#[test]
fn a_port_that_is_dropped_while_it_connects_leaves_nothing() {
    let Bench { socket, port, queues, _folder, _turn, .. } = Bench::new(MemifRole::Client);
    let listener = Listener::at(&socket);
    let channel = listener.accept();
    channel.send(&raw::hello(VERSION, VERSION, 255, 14), &[]);
    assert_eq!(channel.hear(), Heard::Other(3));
    channel.send(&raw::acknowledge(), &[]);
    drop((queues, port));
    assert_eq!(channel.hear_reason().unwrap(), "the port stops");
}

#[test]
fn rings_that_others_lay_out_side_by_side_are_taken() {
    // Two slots a ring: 160 octets, so that the second does not begin on a cache line.
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, 1);
    assert_eq!(client.to_client, RingAt { offset: 160, size_log2: 1 });
    wait_for("the link", || bench.is_up());
    for number in 0..100u8 {
        client.send(&[number; 60]);
        wait_for("its packet", || bench.receive() == [[number; 60]]);
    }
    drop(client);
    bench.wait_for_nothing_left();
}

#[test]
fn memory_is_of_the_peer_as_long_as_it_is_used() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    // Memory that was not sealed is now: what a peer cuts off would end this process.
    assert!(ftruncate(&client.memory.file, 0).is_err());
    // A peer that has unmapped and closed everything but the socket can still be read from.
    let Client { channel, memory, to_server, .. } = client;
    let copy = Memory::of(memory.file.try_clone().unwrap());
    drop(memory);
    copy.write(4096, b"late");
    to_server.write(&copy, 0, Descriptor { flags: 0, region: 0, length: 4, offset: 4096 });
    to_server.set_head(&copy, 1);
    drop(copy);
    wait_for("its packet", || bench.receive() == [b"late"]);
    drop(channel);
    bench.wait_for_nothing_left();
}
