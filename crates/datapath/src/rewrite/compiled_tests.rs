use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use sluice_wire::checksum;

use super::*;
use crate::buffer::{HEADROOM, HeapBuffer};
use crate::flow::{FlowKey, IPV6, NOT_IP};
use crate::parse::TAGGED;
use crate::rewrite::EqualCost;
use crate::snapshot::{IngressId, PortFacts, TunnelId};

const TO: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const FROM: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const OLD: MacAddr = MacAddr([2, 9, 9, 9, 9, 9]);

/// A snapshot with tunnels over IPv4 and IPv6.
static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| {
    let mut runner = TestRunner::deterministic();
    loop {
        let plan = sluice_intent::testing::arbitrary_plan().new_tree(&mut runner).unwrap().current();
        let facts = vec![PortFacts { mac: FROM }; plan.ports.len()];
        let snapshot = Snapshot::compile(plan.into(), &facts, 1, 1).unwrap();
        let (v4, v6): (Vec<_>, Vec<_>) =
            snapshot.tunnels().iter().partition(|tunnel| tunnel.remote.is_ipv4());
        if !v4.is_empty() && !v6.is_empty() {
            return snapshot;
        }
    }
});

/// To a port, with a new Ethernet header.
fn to_port(vlan: u16, ethertype: EtherType, hops: u8, mtu: u16) -> Compiled {
    let header = Header { destination: TO, source: FROM, ethertype, hops };
    let egress = Egress::Port { port: PortIndex(0), vlan };
    let rewrite = Rewrite {
        ingress: IngressId(0),
        ethernet: Ethernet::New(header),
        egress,
        mtu,
        neighbor: None,
        equal_cost: EqualCost::default(),
    };
    Compiled::new(&rewrite, &SNAPSHOT)
}

fn packet(v6: bool, ttl: u8, class: u8, payload: usize) -> Vec<u8> {
    if v6 {
        let mut packet = vec![0x60 | class >> 4, class << 4, 0, 0, 0, payload as u8, 59, ttl];
        packet.resize(40 + payload, 7);
        return packet;
    }
    let mut packet =
        vec![0x45, class, 0, 20 + payload as u8, 0, 0, 0, 0, ttl, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let sum = checksum::checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.resize(20 + payload, 7);
    packet
}

fn ethernet(destination: MacAddr, source: MacAddr, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
    [&destination.octets()[..], &source.octets(), &ethertype.0.to_be_bytes(), packet].concat()
}

fn ethertype(v6: bool) -> EtherType {
    if v6 { EtherType::IPV6 } else { EtherType::IPV4 }
}

fn flags(flags: u8) -> FlowKey {
    FlowKey([0, 0, 0, 0, 0, u64::from(flags), 0])
}

/// What parsing an untagged frame around `packet` leaves.
fn parsed(v6: bool, packet: &[u8]) -> Parsed {
    let length = packet.len() as u16;
    let ttl = packet[if v6 { 7 } else { 8 }];
    let key = flags(if v6 { IPV6 } else { 0 });
    Parsed { key, network: 14, end: 14 + length, network_length: length, ttl, ..Parsed::default() }
}

/// The frame after the replay, or why there was none; then the frame must be unchanged.
fn replay(compiled: &Compiled, frame: &[u8], parsed: &Parsed) -> Result<Vec<u8>, Refused> {
    let mut buffer = HeapBuffer::new(frame, 0);
    let result = compiled.replay(&mut buffer, parsed, 0x1234_5678_9abc_def0);
    if result.is_err() {
        assert_eq!(buffer.data(), frame, "unchanged on refusal");
    }
    result.map(|length| {
        assert_eq!(length, buffer.data().len());
        buffer.data().to_vec()
    })
}

#[test]
fn the_time_to_live_must_outlast_the_hops() {
    for v6 in [false, true] {
        for hops in 0..=3 {
            let compiled = to_port(0, ethertype(v6), hops, 1500);
            for ttl in 0..=5 {
                let packet = packet(v6, ttl, 0, 10);
                let result =
                    replay(&compiled, &ethernet(OLD, OLD, ethertype(v6), &packet), &parsed(v6, &packet));
                let expected = if hops == 0 || ttl > hops {
                    Ok(ethernet(TO, FROM, ethertype(v6), &self::packet(v6, ttl - hops, 0, 10)))
                } else {
                    Err(Refused::TtlExpired)
                };
                assert_eq!(result, expected, "v6 {v6}, time to live {ttl}, {hops} hops");
            }
        }
    }
}

#[test]
fn the_mtu_is_of_the_packet_without_padding() {
    let packet = packet(false, 64, 0, 26);
    let padded = [ethernet(OLD, OLD, EtherType::IPV4, &packet), vec![0xee; 30]].concat();
    let fits = replay(&to_port(0, EtherType::IPV4, 1, 46), &padded, &parsed(false, &packet)).unwrap();
    assert_eq!(fits.len(), 14 + 46, "padding is not carried on");
    let refused = replay(&to_port(0, EtherType::IPV4, 1, 45), &padded, &parsed(false, &packet));
    assert_eq!(refused, Err(Refused::TooBig));
}

/// Tags come off with the old header and go on with the new one.
#[test]
fn vlans_in_and_out() {
    let packet = packet(false, 64, 0, 10);
    let tag =
        |frame: &[u8], vlan: u16| [&frame[..12], &[0x81, 0], &vlan.to_be_bytes(), &frame[12..]].concat();
    let untagged_in = ethernet(OLD, OLD, EtherType::IPV4, &packet);
    let untagged_out = ethernet(TO, FROM, EtherType::IPV4, &packet);
    for (vlan_in, vlan_out) in [(0, 0), (0, 100), (100, 0), (100, 200)] {
        let frame = if vlan_in == 0 { untagged_in.clone() } else { tag(&untagged_in, vlan_in) };
        let (network, marks) = if vlan_in == 0 { (14, 0) } else { (18, TAGGED) };
        let parsed = Parsed { network, marks, ..parsed(false, &packet) };
        let expected = if vlan_out == 0 { untagged_out.clone() } else { tag(&untagged_out, vlan_out) };
        assert_eq!(replay(&to_port(vlan_out, EtherType::IPV4, 0, 1500), &frame, &parsed), Ok(expected));
    }
}

/// RFC 6040 section 4.2, figure 4, by inner and outer field: Not-ECT, ECT(1), ECT(0), CE.
#[test]
fn ecn_after_decapsulation() {
    const DROP: u8 = 0xff;
    let table = [[0, 0, 0, DROP], [1, 1, 1, 3], [2, 1, 2, 3], [3, 3, 3, 3]];
    for v6 in [false, true] {
        for (inner, row) in table.iter().enumerate() {
            for (outer, expected) in row.iter().enumerate() {
                let packet = packet(v6, 64, 0xb8 | inner as u8, 10);
                let parsed = Parsed { marks: outer as u8, ..parsed(v6, &packet) };
                let frame = ethernet(OLD, OLD, ethertype(v6), &packet);
                let result = replay(&to_port(0, ethertype(v6), 1, 1500), &frame, &parsed);
                let right = match *expected {
                    DROP => Err(Refused::Unmarkable),
                    ecn => Ok(ethernet(TO, FROM, ethertype(v6), &self::packet(v6, 63, 0xb8 | ecn, 10))),
                };
                assert_eq!(result, right, "v6 {v6}, inner {inner}, outer {outer}");
                assert_eq!(is_unmarkable(&frame, &parsed), *expected == DROP);
                // A packet that is refused for its time to live keeps its mark as it was.
                let dying = self::packet(v6, 1, 0xb8 | inner as u8, 10);
                let refused = replay(
                    &to_port(0, ethertype(v6), 1, 1500),
                    &ethernet(OLD, OLD, ethertype(v6), &dying),
                    &Parsed { ttl: 1, ..parsed },
                );
                assert_eq!(refused, Err(Refused::TtlExpired));
            }
        }
    }
    let other = Parsed {
        key: flags(NOT_IP),
        network: 14,
        end: 24,
        network_length: 10,
        marks: 3,
        ..Parsed::default()
    };
    assert!(!is_unmarkable(&[0; 24], &other), "what is not IP has no such field");
}

#[test]
fn no_room_for_the_headers() {
    struct Tight(Vec<u8>);
    impl PacketBuffer for Tight {
        fn data(&self) -> &[u8] {
            &self.0
        }
        fn data_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
        fn reframe(&mut self, pop: usize, push: usize, keep: usize) -> Option<&mut [u8]> {
            (push <= pop && pop + keep <= self.0.len()).then(|| {
                self.0.truncate(pop + keep);
                self.0.drain(..pop - push);
                self.0.as_mut_slice()
            })
        }
        fn extend_back(&mut self, _: usize) -> Option<&mut [u8]> {
            None
        }
    }
    // One router on the way, and a mark to carry over: neither is to be seen in the packet that is refused.
    let packet = packet(false, 64, 2, 10);
    let frame = ethernet(OLD, OLD, EtherType::IPV4, &packet);
    let mut buffer = Tight(frame.clone());
    let parsed = Parsed { marks: 3, ..parsed(false, &packet) };
    let result = to_port(100, EtherType::IPV4, 1, 1500).replay(&mut buffer, &parsed, 0);
    assert_eq!((result, buffer.0), (Err(Refused::NoRoom), frame));
}

// The longest encapsulation fits the headroom.
const _: () = assert!(MAX_PUSH <= HEADROOM);

proptest! {
    /// Through every tunnel of a snapshot: lengths, checksum, traffic class and entropy of the outer headers.
    #[test]
    fn outer_headers_are_consistent(payload in 0usize..200, class: u8, flow_hash: u64, v6: bool) {
        let packet = packet(v6, 64, class, payload);
        for number in 0..SNAPSHOT.tunnels().len() as u32 {
            let tunnel = SNAPSHOT.tunnel(TunnelId(number)).clone();
            let header = Header { destination: TO, source: FROM, ethertype: ethertype(v6), hops: 1 };
            let egress = Egress::Tunnel { tunnel: TunnelId(number), own: TunnelId(number), destination: TO };
            let rewrite = Rewrite { ingress: IngressId(0), ethernet: Ethernet::New(header), egress, mtu: 1500, neighbor: None, equal_cost: EqualCost::default() };
            let mut buffer = HeapBuffer::new(&ethernet(OLD, OLD, ethertype(v6), &packet), 0);
            Compiled::new(&rewrite, &SNAPSHOT).replay(&mut buffer, &parsed(v6, &packet), flow_hash).unwrap();
            let outer = &buffer.data()[if tunnel.vlan == 0 { 14 } else { 18 }..];
            let (outer_class, length, udp) = if tunnel.remote.is_ipv4() {
                prop_assert!(checksum::verify(&outer[..20]));
                (outer[1], usize::from(u16::from_be_bytes([outer[2], outer[3]])), &outer[20..])
            } else {
                let length = 40 + usize::from(u16::from_be_bytes([outer[4], outer[5]]));
                (outer[0] << 4 | outer[1] >> 4, length, &outer[40..])
            };
            prop_assert_eq!(outer_class, class, "copied to the outer header");
            prop_assert_eq!(length, outer.len());
            prop_assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
            prop_assert_eq!(u16::from_be_bytes([udp[0], udp[1]]), entropy_port(flow_hash));
            prop_assert!(entropy_port(flow_hash) >= 49_152);
            let inner = ethernet(TO, FROM, ethertype(v6), &self::packet(v6, 63, class, payload));
            prop_assert_eq!(&udp[16..], &inner[..]);
        }
    }

    /// The checksum that a lowered time to live leaves is the one of the whole header, bit for bit (RFC 1624 section 3).
    #[test]
    fn checksums_stay_canonical(identification: u16, ttl in 4u8..=255, hops in 1u8..4) {
        let mut before = packet(false, ttl, 0, 0);
        let mut after = packet(false, ttl - hops, 0, 0);
        for packet in [&mut before, &mut after] {
            packet[4..6].copy_from_slice(&identification.to_be_bytes());
            packet[10..12].fill(0);
            let sum = checksum::checksum(packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let sent = replay(&to_port(0, EtherType::IPV4, hops, 1500), &ethernet(OLD, OLD, EtherType::IPV4, &before), &parsed(false, &before));
        prop_assert_eq!(&sent.unwrap()[14..], &after[..]);
    }
}
