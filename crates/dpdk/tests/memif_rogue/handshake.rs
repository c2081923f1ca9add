//! Messages that are wrong, out of turn, or without their files.

use std::os::fd::AsFd;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::{ftruncate, pipe};
use sluice_dpdk::MemifRole;

use crate::common::raw::{self, COOKIE, Client, FROM_CLIENT, VERSION};
use crate::common::wait_for;
use crate::{Bench, ID, SLOTS_LOG2, holdings};

/// Says something wrong; the client has been greeted.
type Script = fn(&Client);

/// Says all that comes before the first ring.
pub(crate) fn up_to_rings(client: &Client) {
    client.say(&raw::init(VERSION, ID, 0), None);
    client.say(&raw::add_region(0, client.memory.length() as u64), Some(client.memory.file.as_fd()));
}

fn offer_rings(client: &Client, rings: &[(u16, u16, u16, u32, u8)]) {
    up_to_rings(client);
    for (flags, index, region, offset, size_log2) in rings {
        client.say(
            &raw::add_ring(*flags, *index, *region, *offset, *size_log2, 0),
            Some(raw::events().as_fd()),
        );
    }
    client.channel.send(&raw::connect_message(), &[]);
}

const FAULTS: &[(&str, &str, Script)] = &[
    ("another version", "0x0300", |client| client.channel.send(&raw::init(0x300, ID, 0), &[])),
    ("another mode", "mode 1", |client| client.channel.send(&raw::init(VERSION, ID, 1), &[])),
    ("another id", "no port has id 4", |client| client.channel.send(&raw::init(VERSION, ID + 1, 0), &[])),
    ("garbage", "kind 23130", |client| client.channel.send(&[0x5a; 128], &[])),
    ("half a message", "64 octets", |client| client.channel.send(&raw::init(VERSION, ID, 0)[..64], &[])),
    ("two messages in one", "129 octets", |client| client.channel.send(&[3; 256], &[])),
    ("a server's message", "does not belong", |client| client.channel.send(&raw::hello(512, 512, 0, 4), &[])),
    ("a region before its name", "does not belong", |client| {
        client.channel.send(&raw::add_region(0, 4096), &[client.memory.file.as_fd()]);
    }),
    ("a file with a name", "does not belong", |client| {
        client.channel.send(&raw::init(VERSION, ID, 0), &[client.memory.file.as_fd()]);
    }),
    ("a region without its file", "does not belong", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        client.channel.send(&raw::add_region(0, 4096), &[]);
    }),
    ("a region with two files", "2 files", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        let file = client.memory.file.as_fd();
        client.channel.send(&raw::add_region(0, 4096), &[file, file]);
    }),
    ("a region with more files than fit anywhere", "253 files", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        client.channel.send(&raw::add_region(0, 4096), &[client.memory.file.as_fd(); 253]);
    }),
    ("a region out of turn", "out of turn", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        client.channel.send(&raw::add_region(1, 4096), &[client.memory.file.as_fd()]);
    }),
    ("300 regions", "out of turn", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        for index in 0..256 {
            client.say(&raw::add_region(index, 4096), Some(client.memory.file.as_fd()));
        }
        client.channel.send(&raw::add_region(256, 4096), &[client.memory.file.as_fd()]);
    }),
    ("a region larger than its file", "region 0 cannot be used (ENXIO", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        let length = client.memory.length() as u64 + 1;
        client.say(&raw::add_region(0, length), Some(client.memory.file.as_fd()));
        client.channel.send(&raw::connect_message(), &[]);
    }),
    ("a region of nothing", "region 0 cannot be used", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        client.say(&raw::add_region(0, 0), Some(client.memory.file.as_fd()));
        client.channel.send(&raw::connect_message(), &[]);
    }),
    ("a region that could be cut off", "region 0 could be cut off", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        let file = memfd_create(c"raw", MFdFlags::empty()).unwrap();
        ftruncate(&file, 4096).unwrap();
        client.say(&raw::add_region(0, 4096), Some(file.as_fd()));
        client.channel.send(&raw::connect_message(), &[]);
    }),
    ("a region in a pipe", "region 0", |client| {
        client.say(&raw::init(VERSION, ID, 0), None);
        client.say(&raw::add_region(0, 4096), Some(pipe().unwrap().1.as_fd()));
        client.channel.send(&raw::connect_message(), &[]);
    }),
    ("a ring without its file", "does not belong", |client| {
        up_to_rings(client);
        client.channel.send(&raw::add_ring(FROM_CLIENT, 0, 0, 0, 4, 0), &[]);
    }),
    ("a ring with private headers", "private headers of 16 octets", |client| {
        up_to_rings(client);
        client.channel.send(&raw::add_ring(FROM_CLIENT, 0, 0, 0, 4, 16), &[raw::events().as_fd()]);
    }),
    ("a ring twice", "number of another", |client| {
        up_to_rings(client);
        client.say(&raw::add_ring(FROM_CLIENT, 0, 0, 0, 4, 0), Some(raw::events().as_fd()));
        client.channel.send(&raw::add_ring(FROM_CLIENT, 0, 0, 0, 4, 0), &[raw::events().as_fd()]);
    }),
    ("a ring of a number that there is not", "number of another", |client| {
        up_to_rings(client);
        client.channel.send(&raw::add_ring(FROM_CLIENT, 256, 0, 0, 4, 0), &[raw::events().as_fd()]);
    }),
    ("events that may keep one waiting", "events of ring 0", |client| {
        up_to_rings(client);
        client.say(&raw::add_ring(FROM_CLIENT, 0, 0, 0, 4, 0), Some(pipe().unwrap().1.as_fd()));
        let ring = raw::add_ring(0, 0, 0, client.to_client.offset as u32, 4, 0);
        client.say(&ring, Some(raw::events().as_fd()));
        client.channel.send(&raw::connect_message(), &[]);
    }),
    ("a ring that is none", "ring 0 is not where", |client| {
        offer_rings(client, &[(1, 0, 0, 8192, 4), (0, 0, 0, 0, 4)])
    }),
    ("a ring between two descriptors", "ring 0 is not where", |client| {
        client.memory.write(8, &COOKIE.to_ne_bytes());
        offer_rings(client, &[(1, 0, 0, 8, 3), (0, 0, 0, 0, 4)]);
    }),
    ("a ring that is too large for its region", "ring 0 is not where", |client| {
        client.memory.write(8192, &COOKIE.to_ne_bytes());
        offer_rings(client, &[(1, 0, 0, 8192, 14), (0, 0, 0, 384, 4)]);
    }),
    ("a ring at the end of its region", "ring 0 is not where", |client| {
        let end = client.memory.length() - 256;
        client.memory.write(end, &COOKIE.to_ne_bytes());
        offer_rings(client, &[(1, 0, 0, end as u32, 4), (0, 0, 0, 384, 4)]);
    }),
    ("a ring of more slots than numbers", "ring 0 is not where", |client| {
        offer_rings(client, &[(1, 0, 0, 0, 255), (0, 0, 0, 384, 4)])
    }),
    ("a ring in an unknown region", "ring 0 is not where", |client| {
        offer_rings(client, &[(1, 0, 7, 0, 4), (0, 0, 0, 384, 4)])
    }),
    ("no rings", "0 rings to the client", |client| offer_rings(client, &[])),
    ("a ring too many", "2 rings to the server", |client| {
        offer_rings(client, &[(1, 0, 0, 0, 4), (1, 1, 0, 0, 4), (0, 0, 0, 384, 4)]);
    }),
    ("rings with a gap", "1 rings to the server", |client| {
        offer_rings(client, &[(1, 1, 0, 0, 4), (0, 0, 0, 384, 4)])
    }),
];

#[test]
fn faults_of_the_handshake_are_refused_with_their_reason() {
    let mut bench = Bench::new(MemifRole::Server);
    bench.serve_a_good_client();
    for (what, reason, script) in FAULTS {
        let client = Client::prepare(&bench.socket, SLOTS_LOG2);
        script(&client);
        let told = client.channel.hear_reason();
        assert!(told.as_ref().is_some_and(|told| told.contains(reason)), "{what}: {told:?}");
        assert!(!bench.is_up(), "{what}");
        drop(client);
        wait_for(&format!("what is left behind: {what}"), || holdings() == bench.has);
    }
    bench.serve_a_good_client();
}

#[test]
fn a_connected_client_that_says_more_is_cut_off() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    wait_for("the link", || bench.is_up());
    client.channel.send(&raw::add_region(1, 4096), &[client.memory.file.as_fd()]);
    assert!(client.channel.hear_reason().unwrap().contains("does not belong"));
    drop(client);
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}
