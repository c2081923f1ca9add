//! Descriptors that lead nowhere, rings whose counters break the rules.

use arrayvec::ArrayVec;
use sluice_dpdk::{Mbuf, MemifRole};

use crate::common::raw::{Client, Descriptor, NEXT};
use crate::common::wait_for;
use crate::{Bench, ID, SLOTS, SLOTS_LOG2};

/// What a rogue writes into a ring, and how many of its packets are counted as errors.
pub(crate) struct Wrong {
    pub(crate) what: &'static str,
    pub(crate) descriptors: Vec<Descriptor>,
}

pub(crate) fn wrong_descriptors(length: usize) -> Vec<Wrong> {
    let end = length as u32;
    let one = |what, descriptor| Wrong { what, descriptors: vec![descriptor] };
    let good = Descriptor { flags: 0, region: 0, length: 64, offset: end - 64 };
    let chained = Descriptor { flags: NEXT, ..good };
    let mut wrong = vec![
        one("an unknown region", Descriptor { region: 1, ..good }),
        one("the last region that there can be", Descriptor { region: u16::MAX, ..good }),
        one("one octet behind the end", Descriptor { offset: end - 63, ..good }),
        one("at the end", Descriptor { offset: end, ..good }),
        one("far behind the end", Descriptor { offset: u32::MAX, ..good }),
        one("no octets", Descriptor { length: 0, ..good }),
        one("more octets than there are", Descriptor { length: end + 1, offset: 0, ..good }),
        one("most octets that can be said", Descriptor { length: u32::MAX, ..good }),
        one("a sum that wraps around", Descriptor { length: u32::MAX - 31, offset: 64, ..good }),
        one("more octets than any packet has", Descriptor { length: 65_536, offset: 0, ..good }),
        Wrong {
            what: "a chain of empty slots",
            descriptors: vec![Descriptor { length: 0, ..chained }, Descriptor { length: 0, ..good }],
        },
        Wrong {
            what: "a chain that leads nowhere",
            descriptors: vec![chained, chained, Descriptor { region: 9, ..good }],
        },
        Wrong {
            what: "a chain that is too long in all",
            descriptors: vec![
                Descriptor { length: 60_000, offset: 0, ..chained },
                Descriptor { length: 60_000, offset: 0, ..good },
            ],
        },
    ];
    wrong.push(Wrong { what: "a chain without end", descriptors: vec![chained; usize::from(SLOTS)] });
    wrong
}

#[test]
fn descriptors_that_lead_nowhere_are_counted_and_the_packets_around_them_arrive() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    let ring = client.to_server;
    wait_for("the link", || bench.is_up());
    for (number, Wrong { what, descriptors }) in
        wrong_descriptors(client.memory.length()).into_iter().enumerate()
    {
        let head = ring.head(&client.memory);
        for (at, descriptor) in (0..).zip(&descriptors) {
            ring.write(&client.memory, head.wrapping_add(at), *descriptor);
        }
        let head = head.wrapping_add(descriptors.len() as u16);
        ring.set_head(&client.memory, head);
        wait_for("the slots to come back", || {
            assert_eq!(bench.receive(), Vec::<Vec<u8>>::new(), "{what}");
            ring.tail(&client.memory) == head
        });
        assert_eq!(bench.errors().0, number as u64 + 1, "{what}");
        assert_eq!(bench.pool.in_use(), 0, "{what}");
        client.send(what.as_bytes());
        wait_for("a good packet", || bench.receive() == [what.as_bytes()]);
    }
    assert!(bench.is_up(), "a wrong packet is no broken ring");
    drop(client);
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}

#[test]
fn buffers_that_lead_nowhere_take_no_packet() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    wait_for("the link", || bench.is_up());
    let before = client.memory.read(0, client.memory.length());
    let end = client.memory.length() as u32;
    let good = Descriptor { flags: 0, region: 0, length: 2048, offset: client.buffers as u32 };
    let wrong = [
        Descriptor { region: 1, ..good },
        Descriptor { offset: end, ..good },
        Descriptor { offset: end - 64, length: 65, ..good },
        Descriptor { length: 0, ..good },
        Descriptor { offset: u32::MAX, length: u32::MAX, ..good },
    ];
    client.to_client.set_head(&client.memory, 1);
    for (number, descriptor) in wrong.into_iter().enumerate() {
        client.to_client.write(&client.memory, 0, descriptor);
        wait_for("the packet to be dropped", || {
            bench.send(&[0xaa; 100]);
            bench.errors().1 > number as u64
        });
        assert_eq!(client.to_client.tail(&client.memory), 0);
    }
    client.to_client.write(&client.memory, 0, Descriptor { flags: 0, region: 0, length: 0, offset: 0 });
    let ring = client.to_client.offset;
    let after = client.memory.read(0, client.memory.length());
    let others = |octets: &[u8]| [&octets[..ring], &octets[client.buffers..]].concat();
    // The flags say that the server polls its ring.
    assert_eq!(others(&after)[8..], others(&before)[8..], "nothing was written anywhere");
    // A buffer that is as long as the packet, to the octet, at the very end.
    client.to_client.write(&client.memory, 0, Descriptor { length: 100, offset: end - 100, ..good });
    assert!(bench.send(&[0xaa; 100]));
    assert_eq!(client.memory.read(end as usize - 100, 100), [0xaa; 100]);
    drop(client);
    bench.wait_for_nothing_left();
}

#[test]
fn a_packet_whose_end_comes_later_waits_however_small_the_batch() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    let (ring, memory) = (client.to_server, &client.memory);
    memory.write(client.buffers, b"firstsecond");
    let first = Descriptor { flags: NEXT, region: 0, length: 5, offset: client.buffers as u32 };
    let second = Descriptor { flags: 0, length: 6, offset: first.offset + 5, ..first };
    ring.write(memory, 0, first);
    ring.set_head(memory, 1);
    wait_for("the link", || bench.is_up());
    let mut batch: ArrayVec<Mbuf, 1> = ArrayVec::new();
    for _ in 0..100 {
        assert_eq!(bench.queues.receive[0].receive(&mut batch), 0);
    }
    ring.write(memory, 1, second);
    ring.set_head(memory, 2);
    wait_for("the packet", || bench.queues.receive[0].receive(&mut batch) == 1);
    assert_eq!(batch[0].data(), b"firstsecond");
    batch.clear();
    drop(client);
    bench.wait_for_nothing_left();
}

#[test]
fn a_ring_that_breaks_its_rules_ends_the_connection_and_nothing_is_read() {
    const REASON: &str = "more is in it than it has slots for";
    let mut bench = Bench::new(MemifRole::Server);
    for (before, head) in [(0, SLOTS + 1), (0, u16::MAX), (3, 2), (3, 3 + SLOTS + 1)] {
        let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
        for _ in 0..before {
            client.send(b"fine");
        }
        let mut received = Vec::new();
        wait_for("good packets", || {
            received.extend(bench.receive());
            received.len() == before
        });
        wait_for("the link", || bench.is_up());
        client.to_server.set_head(&client.memory, head);
        wait_for("the link to go down", || {
            assert_eq!(bench.receive(), Vec::<Vec<u8>>::new(), "{head}");
            !bench.is_up()
        });
        // Putting it right is too late.
        client.to_server.set_head(&client.memory, before as u16 + 1);
        assert_eq!(bench.receive(), Vec::<Vec<u8>>::new());
        assert!(client.channel.hear_reason().unwrap().contains(REASON));
        drop(client);
        bench.wait_for_nothing_left();
    }
    // The same of the ring that packets are sent to.
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    wait_for("the link", || bench.is_up());
    client.to_client.set_head(&client.memory, SLOTS + 1);
    wait_for("the link to go down", || {
        assert!(!bench.send(b"for nobody"));
        !bench.is_up()
    });
    assert!(client.channel.hear_reason().unwrap().contains(REASON));
    drop(client);
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}

#[test]
fn descriptors_that_change_while_they_are_read_harm_nobody() {
    let mut bench = Bench::new(MemifRole::Server);
    let client = Client::connect(&bench.socket, ID, SLOTS_LOG2);
    wait_for("the link", || bench.is_up());
    let length = client.memory.length() as u32;
    let stop = std::sync::atomic::AtomicBool::new(false);
    let received = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (ring, memory) = (client.to_server, &client.memory);
            let mut random = 1u32;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let lengths = [0, 1, 60, 3000, 65_535, u32::MAX];
                let descriptor = Descriptor {
                    flags: (random >> 28) as u16 & NEXT,
                    region: u16::from(random >> 16 & 15 == 0),
                    length: lengths[(random >> 20) as usize % lengths.len()],
                    offset: [0, length - 60, length, u32::MAX][(random >> 8) as usize % 4],
                };
                ring.write(memory, (random >> 4) as u16, descriptor);
                // As full as a ring may be: every slot is read while it changes.
                ring.set_head(memory, ring.tail(memory).wrapping_add(SLOTS));
            }
        });
        let mut received = 0u64;
        wait_for("packets and errors enough", || {
            let mut batch: ArrayVec<Mbuf, 32> = ArrayVec::new();
            received += bench.queues.receive[0].receive(&mut batch) as u64;
            for packet in &batch {
                assert!(!packet.is_empty() && packet.len() <= 65_535);
            }
            received > 5_000 && bench.errors().0 > 5_000 || !bench.is_up()
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().unwrap();
        received
    });
    assert_eq!(bench.port.statistics().unwrap().received_packets, received);
    drop(client);
    bench.wait_for_nothing_left();
    bench.serve_a_good_client();
}
