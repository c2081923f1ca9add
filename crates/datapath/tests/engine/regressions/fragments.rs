//! Fragments: where they may lie, what is in them, and what becomes of the packet if one is lost.

use arrayvec::ArrayVec;
use sluice_datapath::buffer::{BATCH, HeapBuffer, PacketBuffer, Transmit};
use sluice_datapath::profile::Profile;
use sluice_datapath::punt::Punt;

use super::*;

/// From the first workload to one behind two tier-1s and a tier-0, on a segment with an MTU of 1400.
fn routed(header: &IpHeader, payload: &[u8]) -> Vec<u8> {
    bytes::ip(header, address("10.1.0.10"), address("10.2.0.10"), payload)
}

/// The IP packets that were sent in VLAN 102.
fn packets(done: &Done) -> Vec<&[u8]> {
    done.sent.iter().map(|(_, frame)| &frame[18..]).collect()
}

fn field(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[6], packet[7]])
}

/// RFC 791 section 3.2: puts fragments together to the packet that they are of; the header is that of the first.
fn reassembled(fragments: &[&[u8]]) -> Vec<u8> {
    let (mut data, mut header) = (Vec::new(), Vec::new());
    for (number, fragment) in fragments.iter().enumerate() {
        let length = usize::from(fragment[0] & 0xf) * 4;
        assert!(fragment.len() <= 1400 && verify(&fragment[..length]));
        assert_eq!(usize::from(u16::from_be_bytes([fragment[2], fragment[3]])), fragment.len());
        assert_eq!(field(fragment) & 0x2000 != 0, number + 1 < fragments.len(), "more fragments");
        assert_eq!(usize::from(field(fragment) & 0x1fff) * 8, data.len(), "they follow each other");
        if number == 0 {
            header = fragment[..length].to_vec();
        }
        data.extend(&fragment[length..]);
    }
    let total = (header.len() + data.len()) as u16;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[6..8].fill(0);
    header[10..12].fill(0);
    let sum = sluice_wire::checksum::checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header, data].concat()
}

/// RFC 791 section 3.1: the length of a datagram has 16 bits, so nothing of it lies beyond 65,535 bytes.
#[test]
fn a_fragment_beyond_the_longest_datagram_is_malformed() {
    let mut node = edge();
    let payload = [7; 1450];
    let header = |fragment| IpHeader { fragment, ..IpHeader::new(17) };
    for beyond in [0x1fff, 0x3fff, 0x1f50] {
        let header = header(beyond);
        let packet = routed(&header, &payload);
        dropped(&node.receive_one(ACCESS, &from_workload(&packet)), DropReason::Malformed);
        let bridged = bytes::ethernet(workload_mac(1), workload_mac(0), bytes::IPV4, &packet);
        dropped(&node.receive_one(ACCESS, &bridged), DropReason::Malformed);
        let inner = remote_packet(header.clone(), "10.1.0.11", 1450);
        dropped(&node.receive_one(FABRIC, &from_remote(&inner, 0)), DropReason::Malformed);
        let inbound = bytes::ip(&header, address("198.18.0.1"), address("10.1.0.10"), &payload);
        dropped(&node.receive_one(UPLINK, &from_physical_network(&inbound)), DropReason::Malformed);
    }
    // The last that fit: 8000 blocks, a header, and the data.
    let last = 65_535 - 8000 * 8 - 20;
    let done = node.receive_one(ACCESS, &from_workload(&routed(&header(8000), &vec![7; last])));
    let fields: Vec<u16> = packets(&done).into_iter().map(field).collect();
    assert_eq!(fields, [0x2000 | 8000, 8000 + 1376 / 8]);
    let done = node.receive_one(ACCESS, &from_workload(&routed(&header(8000), &vec![7; last + 1])));
    dropped(&done, DropReason::Malformed);
}

/// RFC 791 section 3.2: more follows the last piece of a fragment that more follows.
#[test]
fn pieces_of_a_fragment_have_its_place() {
    let header = IpHeader { fragment: 0x2000 | 100, ..IpHeader::new(17) };
    let done = edge().receive_one(ACCESS, &from_workload(&routed(&header, &[7; 1440])));
    let fields: Vec<u16> = packets(&done).into_iter().map(field).collect();
    assert_eq!(fields, [0x2000 | 100, 0x2000 | (100 + 1376 / 8)]);
}

/// RFC 8200 section 4.5: the same for the payload length of IPv6.
#[test]
fn an_ipv6_fragment_beyond_the_longest_packet_is_malformed() {
    let mut node = edge();
    let fragment = |length: usize| {
        let header = [&[17, 0][..], &64_000u16.to_be_bytes(), &[0, 0, 0, 1]].concat();
        let payload = [header, vec![7; length]].concat();
        bytes::ip(&IpHeader::new(44), address("2001:db8:1::10"), address("2001:db8:1::11"), &payload)
    };
    for (length, passes) in [(1535, true), (1536, false)] {
        let packet = fragment(length);
        let bridged = bytes::ethernet(workload_mac(1), workload_mac(0), bytes::IPV6, &packet);
        let done = node.receive_one(ACCESS, &bridged);
        if passes {
            assert_eq!(done.sent.len(), 1, "{done:?}");
        } else {
            dropped(&done, DropReason::Malformed);
            dropped(&node.receive_one(ACCESS, &from_workload(&packet)), DropReason::Malformed);
        }
    }
}

/// RFC 791 section 3.1 and RFC 1812 section 5.2.6: options with the copied flag are in every fragment, the others in the first.
#[test]
fn a_packet_with_options_is_fragmented() {
    const RECORD_ROUTE: [u8; 7] = [7, 7, 4, 0, 0, 0, 0];
    const ROUTER_ALERT: [u8; 4] = [148, 4, 0, 0];
    const STREAM: [u8; 4] = [136, 4, 0, 9];
    let lists: [(Vec<u8>, Vec<u8>); 4] = [
        (vec![1, 1, 1, 0], vec![]),
        ([&RECORD_ROUTE[..], &ROUTER_ALERT, &[0]].concat(), ROUTER_ALERT.to_vec()),
        (
            [&[1][..], &STREAM, &RECORD_ROUTE, &[0x85, 3, 9], &[1]].concat(),
            [&STREAM[..], &[0x85, 3, 9], &[0]].concat(),
        ),
        ([&[0][..], &ROUTER_ALERT[1..], &ROUTER_ALERT].concat(), vec![]),
    ];
    let payload: Vec<u8> = (0..3000).map(|number| number as u8).collect();
    for (options, copied) in lists {
        for length in [1400, 1440, 2999, 3000] {
            let header = IpHeader { options: options.clone(), identification: 77, ..IpHeader::new(17) };
            let done = edge().receive_one(ACCESS, &from_workload(&routed(&header, &payload[..length])));
            let fragments = packets(&done);
            assert!(fragments.len() >= 2, "{done:?}");
            let whole = routed(&IpHeader { ttl: 61, ..header }, &payload[..length]);
            assert_eq!(reassembled(&fragments), whole);
            for fragment in &fragments[1..] {
                assert_eq!(fragment[20..usize::from(fragment[0] & 0xf) * 4], copied);
            }
        }
    }
    let refused = IpHeader { options: vec![1, 1, 1, 0], fragment: 0x4000, ..IpHeader::new(17) };
    let done = edge().receive_one(ACCESS, &from_workload(&routed(&refused, &payload[..1400])));
    assert_eq!(icmp(&done), (3, 4));
}

/// A buffer that has room in front only if it was received.
struct Cramped {
    buffer: HeapBuffer,
    received: bool,
}

impl PacketBuffer for Cramped {
    fn data(&self) -> &[u8] {
        self.buffer.data()
    }

    fn data_mut(&mut self) -> &mut [u8] {
        self.buffer.data_mut()
    }

    fn reframe(&mut self, pop: usize, push: usize, keep: usize) -> Option<&mut [u8]> {
        if self.received || push <= pop { self.buffer.reframe(pop, push, keep) } else { None }
    }

    fn extend_back(&mut self, count: usize) -> Option<&mut [u8]> {
        self.buffer.extend_back(count)
    }
}

#[derive(Default)]
struct Outside {
    sent: usize,
    discarded: Vec<DropReason>,
}

impl Profile for Outside {}

impl Transmit<Cramped> for Outside {
    fn transmit(&mut self, _: PortIndex, _: Cramped) {
        self.sent += 1;
    }

    fn punt(&mut self, _: Punt, _: Cramped) {}

    fn discard(&mut self, reason: DropReason, _: Cramped) {
        self.discarded.push(reason);
    }

    fn allocate(&mut self) -> Option<Cramped> {
        Some(Cramped { buffer: HeapBuffer::new(&[], 2048), received: false })
    }
}

/// A packet of which a fragment could not leave is dropped, for the reason that held the fragment up.
#[test]
fn a_fragment_that_cannot_leave_is_a_dropped_packet() {
    let mut node = edge();
    let packet = bytes::ip(
        &IpHeader::new(17),
        address("10.1.0.10"),
        address("10.2.0.11"),
        &bytes::udp(1, 2, &[0; 1450]),
    );
    let mut batch: ArrayVec<Cramped, BATCH> = ArrayVec::new();
    batch.push(Cramped { buffer: HeapBuffer::new(&from_workload(&packet), 0), received: true });
    let mut outside = Outside::default();
    node.engine.process(ACCESS, &mut batch, node.now, &mut outside);
    assert_eq!(node.drops(), [(DropReason::NoBuffer, 1)]);
    assert_eq!((outside.sent, outside.discarded), (0, vec![DropReason::NoBuffer; 2]), "fragment and packet");
}
