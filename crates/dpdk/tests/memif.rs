//! Shared-memory ports: both sides in one process, traffic both ways, several queues.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;

use std::os::fd::AsRawFd;

use arrayvec::ArrayVec;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};
use sluice_dpdk::{Mbuf, MemifRole, MemifSettings, Port, PortConfig, PortKind};

#[test]
fn both_sides_carry_every_frame_in_order_and_give_every_buffer_back() {
    let eal = common::start_eal();
    let pool = common::small_pool(&eal, "memif");
    let folder = tempfile::tempdir().unwrap();
    let side = |name: &str, socket: &str, role| {
        let settings =
            MemifSettings { ring_size_log2: 9, ..MemifSettings::new(folder.path().join(socket), 7, role) };
        let mut port = Port::new(&eal, name, &PortKind::Memif(settings)).unwrap();
        let config =
            PortConfig { receive_queues: 2, transmit_queues: 2, mtu: 2000, ..PortConfig::new(pool.clone()) };
        port.configure(&config).unwrap();
        port
    };
    // What a server that was killed leaves behind is not in the way of the next.
    let killed = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(killed.as_raw_fd(), &UnixAddr::new(&folder.path().join("memif.sock")).unwrap()).unwrap();
    drop(killed);
    let mut server = side("server", "memif.sock", MemifRole::Server);
    let mut client = side("client", "memif.sock", MemifRole::Client);
    let (mut at_server, mut at_client) = (server.start().unwrap(), client.start().unwrap());
    common::wait_for_link(&server);
    common::wait_for_link(&client);
    // Each queue takes its ring up when it is first used; then the client offers buffers to the server.
    for queue in at_client.receive.iter_mut().chain(&mut at_server.receive) {
        assert_eq!(queue.receive(&mut ArrayVec::<Mbuf, 1>::new()), 0);
    }

    let frames = common::frames(300, 2000);
    for queue in 0..2 {
        common::send_all(&mut at_server.transmit[queue], &pool, &frames);
        assert_eq!(common::receive_frames(&mut at_client.receive[queue], frames.len()), frames);
        common::send_all(&mut at_client.transmit[queue], &pool, &frames);
        assert_eq!(common::receive_frames(&mut at_server.receive[queue], frames.len()), frames);
    }
    assert_eq!(server.statistics().unwrap().transmitted_packets, 600);
    assert_eq!(client.statistics().unwrap().received_packets, 600);

    // A full ring leaves the rest in the batch, in order.
    let mut sent = 0;
    let mut batch: ArrayVec<Mbuf, 64> = ArrayVec::new();
    loop {
        while let Some(mbuf) =
            (!batch.is_full()).then(|| pool.allocate_with(&frames[(sent + batch.len()) % 300])).flatten()
        {
            batch.push(mbuf);
        }
        match at_server.transmit[0].transmit(&mut batch) {
            0 => break,
            count => sent += count,
        }
        assert!(sent <= 512, "a ring of 512 takes no more");
    }
    assert_eq!(batch[0].data(), frames[sent % 300]);
    let received = common::receive_frames(&mut at_client.receive[0], sent);
    assert!(received.iter().enumerate().all(|(index, frame)| *frame == frames[index % 300]));
    Mbuf::free_bulk(&mut batch);

    // A packet in two segments arrives as one.
    let mut long = pool.allocate_with(&frames[5]).unwrap();
    long.append(pool.allocate_with(&frames[6]).unwrap()).unwrap();
    batch.push(long);
    assert_eq!(at_server.transmit[1].transmit(&mut batch), 1);
    let whole = common::receive_frames(&mut at_client.receive[1], 1);
    assert_eq!(whole, [[frames[5].as_slice(), frames[6].as_slice()].concat()]);

    // The client restarts, as it does when the server was gone.
    drop(at_client);
    client.stop().unwrap();
    common::wait_for("the link to go down", || !server.link().unwrap().up);
    let mut at_client = client.start().unwrap();
    common::wait_for_link(&client);
    common::wait_for_link(&server);
    common::send_all(&mut at_client.transmit[0], &pool, &frames[..50]);
    assert_eq!(common::receive_frames(&mut at_server.receive[0], 50), frames[..50]);

    // A peer that goes away takes the link down.
    drop(at_client);
    client.stop().unwrap();
    drop(client);
    common::wait_for("the link to go down", || !server.link().unwrap().up);
    drop(at_server);
    server.stop().unwrap();
    drop(server);
    assert_eq!(pool.in_use(), 0);
}
