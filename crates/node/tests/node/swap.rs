//! A new document costs no packet, and is in force when its reply is there; settings and profiles cost none either.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use sluice_control::Request;

use crate::forwarding::Ends;
use crate::support::documents::{
    self, DB_1, PORTS, ROUTER_MAC, TEP_A, TEP_B, WEB_1, WEB_2, WEB_2_LINE, changed,
};
use crate::support::frames::{datagram, number, routed, tunnelled};
use crate::support::network::in_network;
use crate::support::node::{Node, answer};
use crate::support::{LIMIT, wait_for};

/// Documents that are applied.
const SWAPS: usize = 100;
/// Packets under way at most: the rings of the ports hold more, so that none is lost but by the node.
const WINDOW: u64 = 128;
/// Packets that must have come through with one document before the next is applied.
const BETWEEN: u64 = 20;

/// A document that was applied: where web-2 is from then on, and which packets are certain to have met it.
struct Swap {
    remote: Ipv4Addr,
    /// Number of the first packet that was sent after the reply.
    from: u64,
}

/// A numbered stream from web-1, as it is sent and received.
#[derive(Default)]
struct Stream {
    sent: AtomicU64,
    received: AtomicU64,
    stop: AtomicBool,
}

impl Stream {
    /// Sends until it is told to stop; 16 packets a millisecond at most.
    fn send(&self, ends: &Ends, frame: impl Fn(u64) -> Vec<u8>) {
        while !self.stop.load(SeqCst) {
            for _ in 0..16 {
                let next = self.sent.load(SeqCst);
                if next - self.received.load(SeqCst) >= WINDOW {
                    break;
                }
                // Counted first: what is not counted yet has not been sent.
                self.sent.store(next + 1, SeqCst);
                ends.web_1.send(&frame(next));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Receives what `read` makes of frames until everything that was sent has come, or nothing more comes.
    fn receive<T>(&self, read: impl Fn() -> Option<T>) -> Vec<T> {
        let mut all = Vec::new();
        let mut last = std::time::Instant::now();
        while last.elapsed() < LIMIT {
            if let Some(packet) = read() {
                all.push(packet);
                self.received.store(all.len() as u64, SeqCst);
                last = std::time::Instant::now();
            }
            if self.stop.load(SeqCst) && all.len() as u64 >= self.sent.load(SeqCst) {
                // A second copy of a packet would be right behind it.
                all.extend(read());
                break;
            }
        }
        all
    }

    fn wait_for(&self, number: u64) {
        wait_for("packets to come through", || (self.received.load(SeqCst) >= number).then_some(()));
    }
}

/// Applies A and B in turn, and notes what holds for which packets: from the reply's to the last that had come through at the next request.
fn swap(node: &Node, stream: &Stream, documents: &[(Ipv4Addr, String); 2]) -> Vec<(Swap, u64)> {
    let mut swaps: Vec<(Swap, u64)> = Vec::new();
    for (remote, document) in documents.iter().rev().cycle().take(SWAPS) {
        if let Some((_, until)) = swaps.last_mut() {
            *until = stream.received.load(SeqCst);
        }
        let applied = node.apply(document);
        assert_eq!(applied.changes, ["workloads: 1 changed"]);
        let from = stream.sent.load(SeqCst);
        swaps.push((Swap { remote: *remote, from }, u64::MAX));
        stream.wait_for(from + BETWEEN);
    }
    stream.stop.store(true, SeqCst);
    swaps
}

#[test]
fn a_hundred_documents_lose_no_packet_and_are_in_force_at_their_reply() {
    in_network("swap::a_hundred_documents_lose_no_packet_and_are_in_force_at_their_reply", &PORTS, || {
        let ends = Ends::with_stations();
        let node = ends.node();
        let a = documents::on_interfaces();
        let b = changed(&a, WEB_2_LINE, &WEB_2_LINE.replace("172.16.1.20", "172.16.1.21"));
        let documents = [(TEP_A.0, a), (TEP_B.0, b)];
        let stream = Stream::default();
        let frame = |number: u64| datagram(WEB_1, WEB_2.1, WEB_2.0, &number.to_be_bytes());
        let (swaps, packets) = std::thread::scope(|scope| {
            scope.spawn(|| stream.send(&ends, frame));
            let swaps = scope.spawn(|| {
                let guard = StopOnPanic(&stream);
                let swaps = swap(&node, &stream, &documents);
                drop(guard);
                swaps
            });
            let packets = stream.receive(|| {
                let outer = tunnelled(&ends.underlay.glance()?)?;
                Some((number(&outer.inner)?, outer.remote))
            });
            (swaps.join().unwrap(), packets)
        });

        let sent = stream.sent.load(SeqCst);
        let numbers: Vec<u64> = packets.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (0..sent).collect::<Vec<_>>(), "every packet once, in order");
        assert_eq!(swaps.len(), SWAPS);
        for (swap, until) in &swaps {
            let bound = (*until).min(sent);
            assert!(bound >= swap.from + BETWEEN, "each document carried packets");
            let wrong =
                packets[swap.from as usize..bound as usize].iter().find(|(_, remote)| *remote != swap.remote);
            assert_eq!(
                wrong, None,
                "sent after the reply (from packet {} on) and not to {}",
                swap.from, swap.remote
            );
        }
        assert_eq!(node.status().generation, 1 + SWAPS as u64);
        println!("{sent} packets, {SWAPS} documents");
    });
}

/// Ends the stream where the thread that applies documents fails, so that the test ends.
struct StopOnPanic<'a>(&'a Stream);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, SeqCst);
    }
}

/// Changes the node twenty times under a stream between two of its workloads: every packet comes once, in order, as it should be.
fn change_under_way(change: impl Fn(&Node, usize) + Sync) {
    let ends = Ends::with_stations();
    let node = ends.node();
    let stream = Stream::default();
    let frame = |number: u64| datagram(WEB_1, ROUTER_MAC, DB_1.0, &number.to_be_bytes());
    let frames = std::thread::scope(|scope| {
        scope.spawn(|| stream.send(&ends, frame));
        scope.spawn(|| {
            let _guard = StopOnPanic(&stream);
            for number in 0..20 {
                change(&node, number);
                stream.wait_for(stream.sent.load(SeqCst) + BETWEEN);
            }
        });
        stream.receive(|| ends.db_1.glance())
    });
    let sent = stream.sent.load(SeqCst);
    let expected: Vec<Vec<u8>> = (0..sent).map(|number| routed(&frame(number), ROUTER_MAC, DB_1.1)).collect();
    assert_eq!(frames.len(), expected.len());
    assert!(frames == expected, "every packet once, in order, as it should be");
}

#[test]
fn documents_that_change_nothing_and_settings_lose_no_packet() {
    in_network("swap::documents_that_change_nothing_and_settings_lose_no_packet", &PORTS, || {
        let on = documents::on_interfaces();
        let off = changed(&on, "flow-cache: {", "flow-cache: {enabled: false, ");
        change_under_way(|node, number| {
            node.apply(if number % 2 == 0 { &on } else { &off });
        });
    });
}

#[test]
fn profiles_that_begin_and_end_lose_no_packet() {
    in_network("swap::profiles_that_begin_and_end_lose_no_packet", &PORTS, || {
        // Begun, begun anew, ended, and ended once more.
        change_under_way(|node, number| {
            answer!(node, &Request::SetProfile { enabled: number % 4 < 2 }, Done);
        });
    });
}
