//! Summaries of frames that the builder makes, and of octets that nobody meant as a frame.

use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::arbitrary::octets;
use crate::arp::Arp;
use crate::bfd::{Bfd, BfdDiagnostic, BfdState};
use crate::frame::FrameBuilder;
use crate::geneve::{Geneve, GeneveOption};
use crate::ipv4::Ipv4;
use crate::ipv6::Fragment;
use crate::lacp::{Lacp, LacpState, PortInfo};
use crate::marker::{Marker, MarkerKind};
use crate::tcp::TcpFlags;
use crate::vxlan::Vxlan;
use crate::{MacAddr, VlanId};

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0a]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0b]);
const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const ETHERNET: &str = "02:00:00:00:00:0a > 02:00:00:00:00:0b";

fn summary(frame: &FrameBuilder) -> String {
    dissect(&frame.build().unwrap()).to_string()
}

fn ethernet() -> FrameBuilder {
    FrameBuilder::new().ethernet(A, B)
}

#[test]
fn plain_layers() {
    let vlan = ethernet().vlan(VlanId::new(100).unwrap());
    assert_eq!(
        summary(&vlan.ipv4(A4, B4).udp(40_000, 53).payload(&[0; 20])),
        format!("{ETHERNET} VLAN 100 | IPv4 10.0.0.1 > 10.0.0.2 ttl 64 | UDP 40000 > 53, 20 octets")
    );
    assert_eq!(
        summary(&ethernet().ipv6(A6, B6).tcp(1, 2, TcpFlags::SYN.and(TcpFlags::ACK))),
        format!(
            "{ETHERNET} | IPv6 2001:db8::1 > 2001:db8::2 hop limit 64 | TCP 1 > 2 SYN,ACK seq 0, 0 octets"
        )
    );
    assert_eq!(
        summary(&ethernet().arp(Arp::request(A, A4, B4))),
        format!("{ETHERNET} | ARP who has 10.0.0.2? 10.0.0.1 asks")
    );
    assert_eq!(summary(&ethernet().payload(&[1])), format!("{ETHERNET} | 0x88b5, 1 octets"));
}

#[test]
fn protocols_of_links_and_paths() {
    let bfd = Bfd {
        state: BfdState::Up,
        diagnostic: BfdDiagnostic::NONE,
        poll_flag: true,
        final_flag: false,
        control_plane_independent: false,
        demand: false,
        detect_multiplier: 3,
        my_discriminator: 0x11,
        your_discriminator: 0x22,
        desired_min_tx: 300_000,
        required_min_rx: 300_000,
        required_min_echo_rx: 0,
    };
    let packet = ethernet().ipv4(A4, B4).udp(49_152, 3784).bfd(bfd);
    let bfd_summary = "BFD Up 0x00000011 > 0x00000022, no diagnostic poll";
    assert_eq!(summary(&packet).rsplit(" | ").next(), Some(bfd_summary));

    let actor = PortInfo { system: A, port: 1, state: LacpState::ACTIVITY, ..PortInfo::default() };
    assert_eq!(
        summary(&ethernet().lacp(Lacp { actor, ..Lacp::default() })),
        format!("{ETHERNET} | LACP {A} port 1 activity > 00:00:00:00:00:00 port 0 no state")
    );
    let marker =
        Marker { kind: MarkerKind::Marker, requester_port: 1, requester_system: A, requester_transaction: 9 };
    assert_eq!(summary(&ethernet().marker(marker)), format!("{ETHERNET} | marker 9 of {A} port 1"));
    assert_eq!(
        summary(&ethernet().marker(marker.response())),
        format!("{ETHERNET} | marker response 9 of {A} port 1")
    );
    let other = ethernet().ether_type(EtherType::SLOW_PROTOCOLS).payload(&[3, 0]);
    assert_eq!(summary(&other), format!("{ETHERNET} | slow protocol 3, 2 octets"));
}

#[test]
fn tunnels() {
    let mut header = Geneve::new(Vni::new(5001).unwrap());
    header.push_option(GeneveOption { class: 0x0104, kind: 0x80, data: &[0; 4] }).unwrap();
    let inner = |outer: FrameBuilder| {
        summary(&outer.ethernet(B, A).ipv4(B4, A4).icmpv4(Icmpv4::EchoRequest { identifier: 7, sequence: 1 }))
    };
    let inner_text =
        "02:00:00:00:00:0b > 02:00:00:00:00:0a | IPv4 10.0.0.2 > 10.0.0.1 ttl 64 | ICMP echo request 7 seq 1";
    assert_eq!(
        inner(ethernet().ipv4(A4, B4).geneve(50_000, header)),
        format!(
            "{ETHERNET} | IPv4 10.0.0.1 > 10.0.0.2 ttl 64 | UDP 50000 > 6081, 58 octets | Geneve VNI 5001 option \
             0104:80 critical | {inner_text}"
        )
    );
    assert_eq!(
        inner(ethernet().ipv6(A6, B6).vxlan(50_000, Vxlan { vni: Vni::new(9).ok() })),
        format!(
            "{ETHERNET} | IPv6 2001:db8::1 > 2001:db8::2 hop limit 64 | UDP 50000 > 4789, 50 octets | VXLAN VNI 9 | \
             {inner_text}"
        )
    );
}

#[test]
fn nesting_is_bounded() {
    let mut frame = ethernet();
    for _ in 0..20 {
        frame = frame.ipv4(A4, B4);
    }
    let text = summary(&frame);
    assert_eq!(text.matches("IPv4").count(), 5, "{text}");
    assert!(text.ends_with(" ..."), "{text}");
}

#[test]
fn fragments_are_not_read_into() {
    let first = Ipv4 { more_fragments: true, identification: 9, ..Ipv4::new(A4, B4, IpProtocol::UDP) };
    assert_eq!(
        summary(&ethernet().ipv4_header(first).udp(1, 2).payload(&[0; 8])),
        format!("{ETHERNET} | IPv4 10.0.0.1 > 10.0.0.2 ttl 64, fragment 9 at 0+ | UDP 1 > 2")
    );
    let last = Ipv4 { more_fragments: false, fragment_offset: 16, ..first };
    assert_eq!(
        summary(&ethernet().ipv4_header(last).payload(&[0; 8])),
        format!("{ETHERNET} | IPv4 10.0.0.1 > 10.0.0.2 ttl 64, fragment 9 at 16 | UDP, 8 octets")
    );
    let fragment = Fragment { offset: 1448, more_fragments: false, identification: 5 };
    let text = summary(&ethernet().ipv6(A6, B6).fragment(fragment).payload(&[0; 8]));
    assert!(text.ends_with("hop limit 64, fragment, fragment 5 at 1448 | 253, 8 octets"), "{text}");
}

#[test]
fn errors_quote_their_packet() {
    let quoted = FrameBuilder::new().ipv4(B4, A4).udp(5, 6).payload(&[0; 100]).build().unwrap();
    let message = Icmpv4::DestinationUnreachable { code: 4, next_hop_mtu: 1450 };
    assert_eq!(
        summary(&ethernet().ipv4(A4, B4).icmpv4(message).payload(&quoted[..28])),
        format!(
            "{ETHERNET} | IPv4 10.0.0.1 > 10.0.0.2 ttl 64 | ICMP destination unreachable code 4 mtu 1450 | quotes \
             IPv4 10.0.0.2 > 10.0.0.1 ttl 64 | UDP 5 > 6"
        )
    );
}

#[test]
fn neighbour_discovery() {
    let message = NeighborMessage::NeighborSolicitation { target: B6 };
    let frame = ethernet().ipv6(A6, crate::neighbor::solicited_node(B6));
    let text = summary(&frame.neighbor(message, &[NeighborOption::SourceLinkLayer(A)]));
    assert!(text.ends_with("| ICMPv6 who has 2001:db8::2? from 02:00:00:00:00:0a"), "{text}");
}

#[test]
fn wrong_checksums_are_pointed_out() {
    let mut frame = ethernet().ipv4(A4, B4).udp(1, 2).payload(b"x").build().unwrap();
    frame[22] = 63;
    *frame.last_mut().unwrap() ^= 1;
    assert_eq!(
        dissect(&frame).to_string(),
        format!(
            "{ETHERNET} | IPv4 10.0.0.1 > 10.0.0.2 ttl 63 (wrong checksum) | UDP 1 > 2, 1 octets (wrong checksum)"
        )
    );
}

#[test]
fn malformed_layers_are_named() {
    assert_eq!(dissect(&[1, 2]).to_string(), "malformed Ethernet: truncated: 14 octets needed, 2 present");
    let frame = ethernet().ipv4(A4, B4).tcp(1, 2, TcpFlags::SYN).build().unwrap();
    assert_eq!(
        dissect(&frame[..40]).to_string(),
        format!("{ETHERNET} | malformed IPv4: truncated: 40 octets needed, 26 present")
    );
    let geneve = ethernet().ipv4(A4, B4).udp(1, 6081).payload(&[0x40; 8]);
    let text = summary(&geneve);
    assert!(text.ends_with("| malformed Geneve: version 1 is not known"), "{text}");
}

proptest! {
    #[test]
    fn any_octets_are_one_line(bytes in octets(0..200), start in 0usize..4) {
        let start: &[u8] = match start {
            0 => &[],
            1 => &[0x08, 0x00, 0x45, 0, 0, 60],
            2 => &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 60],
            _ => &[0x81, 0x00, 0, 1],
        };
        let frame = [&[2; 12][..], start, &bytes].concat();
        let text = dissect(&frame).to_string();
        prop_assert!(!text.is_empty() && !text.contains('\n'));
    }
}
