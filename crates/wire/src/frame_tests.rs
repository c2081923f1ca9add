//! Built frames, read by the parsers: every length, next protocol and checksum that the builder fills in.

use super::*;
use crate::ethernet::EthernetView;
use crate::geneve::{GeneveOption, GeneveView};
use crate::icmpv4::Icmpv4View;
use crate::icmpv6::Icmpv6View;
use crate::ipv4::Ipv4View;
use crate::ipv6::Ipv6View;
use crate::neighbor::NeighborView;
use crate::tcp::TcpView;
use crate::udp::UdpView;
use crate::vxlan::VxlanView;
use crate::{Problem, Vni};

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0a]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0b]);
const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

#[test]
fn qinq_ipv4_udp() {
    let outer = VlanTag { ether_type: EtherType::SERVICE_VLAN, ..VlanTag::new(VlanId::new(10).unwrap()) };
    let frame = FrameBuilder::new()
        .ethernet(A, B)
        .tag(outer)
        .vlan(VlanId::new(20).unwrap())
        .ipv4(A4, B4)
        .udp(4000, 53)
        .payload(b"hello")
        .build()
        .unwrap();
    let ethernet = EthernetView::parse(&frame).unwrap();
    assert_eq!((ethernet.source(), ethernet.destination()), (A, B));
    assert_eq!((ethernet.outer_tag(), ethernet.inner_tag().unwrap().id.get()), (Some(outer), 20));
    assert_eq!(ethernet.ether_type(), EtherType::IPV4);
    let ip = Ipv4View::parse(ethernet.payload()).unwrap();
    assert_eq!(ip.verify_checksum(), Ok(()));
    assert_eq!((ip.protocol(), ip.total_len()), (IpProtocol::UDP, 33));
    let udp = UdpView::parse(ip.payload()).unwrap();
    assert_eq!(udp.verify_checksum(ip.pseudo_header()), Ok(()));
    assert_ne!(udp.checksum(), 0);
    assert_eq!((udp.source_port(), udp.destination_port(), udp.payload()), (4000, 53, &b"hello"[..]));
}

#[test]
fn ipv6_extensions_tcp() {
    let fragment = Fragment { offset: 0, more_fragments: false, identification: 3 };
    let frame = FrameBuilder::new()
        .ipv6(A6, B6)
        .extension(IpProtocol::HOP_BY_HOP, &[5, 2, 0, 0, 1, 0])
        .fragment(fragment)
        .tcp(1, 2, TcpFlags::SYN)
        .payload(&[7; 3])
        .build()
        .unwrap();
    let ip = Ipv6View::parse(&frame).unwrap();
    assert_eq!((ip.extension_header_count(), ip.fragment()), (2, Some(fragment)));
    assert_eq!(ip.upper_layer(), IpProtocol::TCP);
    let tcp = TcpView::parse(ip.upper_payload()).unwrap();
    assert_eq!(tcp.verify_checksum(ip.pseudo_header()), Ok(()));
    assert_eq!((tcp.flags(), tcp.payload()), (TcpFlags::SYN, &[7; 3][..]));
}

#[test]
fn tunnels_carry_whole_frames() {
    let inner = FrameBuilder::new().ethernet(B, A).ipv6(B6, A6).udp(1, 2).build().unwrap();
    let mut header = Geneve::new(Vni::new(5001).unwrap());
    header.push_option(GeneveOption { class: 0x0104, kind: 0x80, data: &[1, 2, 3, 4] }).unwrap();
    let outer = FrameBuilder::new().ethernet(A, B).ipv4(A4, B4);

    let geneve = outer.clone().geneve(50_000, header).ethernet(B, A).ipv6(B6, A6).udp(1, 2).build().unwrap();
    let udp = UdpView::parse(&geneve[34..]).unwrap();
    assert_eq!((udp.source_port(), udp.destination_port(), udp.checksum()), (50_000, 6081, 0));
    let view = GeneveView::parse(udp.payload()).unwrap();
    assert_eq!((view.protocol(), view.payload()), (EtherType::TRANSPARENT_ETHERNET, &inner[..]));
    assert_eq!(Geneve::from(view), header);

    let vxlan = outer
        .udp(50_001, 4789)
        .vxlan_header(Vxlan { vni: Vni::new(7).ok() })
        .payload(&inner)
        .build()
        .unwrap();
    let ip = Ipv4View::parse(&vxlan[14..]).unwrap();
    let udp = UdpView::parse(ip.payload()).unwrap();
    assert_eq!(udp.verify_checksum(ip.pseudo_header()), Ok(()));
    let view = VxlanView::parse(udp.payload()).unwrap();
    assert_eq!((view.vni(), view.payload()), (Vni::new(7).ok(), &inner[..]));
}

#[test]
fn geneve_protocol_follows_the_inner_packet() {
    let frame = FrameBuilder::new()
        .ipv4(A4, B4)
        .geneve(1, Geneve::new(Vni::MIN))
        .ipv6(A6, B6)
        .payload(&[0; 4])
        .build()
        .unwrap();
    assert_eq!(GeneveView::parse(&frame[28..]).unwrap().protocol(), EtherType::IPV6);
}

#[test]
fn icmp_messages_cover_their_payload() {
    let echo = Icmpv4::EchoRequest { identifier: 1, sequence: 2 };
    let frame = FrameBuilder::new().ipv4(A4, B4).icmpv4(echo).payload(b"odd").build().unwrap();
    let ip = Ipv4View::parse(&frame).unwrap();
    assert_eq!(ip.protocol(), IpProtocol::ICMP);
    assert_eq!(Icmpv4View::parse(ip.payload()).unwrap().verify_checksum(), Ok(()));

    let echo = Icmpv6::EchoReply { identifier: 1, sequence: 2 };
    let frame = FrameBuilder::new().ipv6(A6, B6).icmpv6(echo).payload(b"odd").build().unwrap();
    let ip = Ipv6View::parse(&frame).unwrap();
    assert_eq!(ip.upper_layer(), IpProtocol::ICMPV6);
    assert_eq!(Icmpv6View::parse(ip.upper_payload()).unwrap().verify_checksum(ip.pseudo_header()), Ok(()));

    let message = NeighborMessage::NeighborSolicitation { target: B6 };
    let options = [NeighborOption::SourceLinkLayer(A), NeighborOption::Mtu(1500)];
    let frame = FrameBuilder::new().ipv6(A6, B6).neighbor(message, &options).build().unwrap();
    let ip = Ipv6View::parse(&frame).unwrap();
    let view = NeighborView::parse(ip.upper_payload()).unwrap();
    assert_eq!((view.message(), view.options().collect::<Vec<_>>()), (message, options.to_vec()));
    assert_eq!(Icmpv6View::parse(ip.upper_payload()).unwrap().verify_checksum(ip.pseudo_header()), Ok(()));
}

#[test]
fn declared_protocols_stand_where_nothing_known_follows() {
    let header = Ipv4::new(A4, B4, IpProtocol::ESP);
    let frame = FrameBuilder::new().ipv4_header(header).payload(&[0; 8]).build().unwrap();
    assert_eq!(Ipv4View::parse(&frame).unwrap().protocol(), IpProtocol::ESP);
    let header = Ipv6::new(A6, B6, IpProtocol::ESP);
    let frame = FrameBuilder::new()
        .ipv6_header(header)
        .extension(IpProtocol::ROUTING, &[0; 6])
        .payload(&[0; 8])
        .build()
        .unwrap();
    let view = Ipv6View::parse(&frame).unwrap();
    assert_eq!((view.next_header(), view.upper_layer()), (IpProtocol::ROUTING, IpProtocol::ESP));
    let frame =
        FrameBuilder::new().ethernet(A, B).ether_type(EtherType::LLDP).payload(&[0; 8]).build().unwrap();
    assert_eq!(EthernetView::parse(&frame).unwrap().ether_type(), EtherType::LLDP);
}

#[test]
fn frames_that_cannot_be_built() {
    let error = |builder: FrameBuilder| builder.build().unwrap_err();
    let ethernet = FrameBuilder::new().ethernet(A, B);
    let tag = VlanId::new(1).unwrap();
    assert_eq!(error(FrameBuilder::new().vlan(tag)), FrameError::NoEthernetHeader);
    assert_eq!(error(ethernet.clone().ipv4(A4, B4).vlan(tag)), FrameError::NoEthernetHeader);
    assert_eq!(error(ethernet.clone().vlan(tag).vlan(tag).vlan(tag)), FrameError::NoEthernetHeader);
    assert_eq!(error(ethernet.clone().udp(1, 2)), FrameError::NoIpHeader(Layer::Udp));
    assert_eq!(
        error(ethernet.clone().ipv6(A6, B6).payload(&[0; 65_536])),
        FrameError::TooLong { layer: Layer::Ipv6, len: 65_536 }
    );
    let long = error(ethernet.clone().ipv4(A4, B4).payload(&[0; 65_516]));
    let problem = Problem::Length { field: "total length", value: 65_536 };
    assert_eq!(long, FrameError::Header(WireError { layer: Layer::Ipv4, problem }));
    let option = NeighborOption::Other { kind: 1, data: &[1] };
    let odd = error(ethernet.ipv6(A6, B6).neighbor(NeighborMessage::RouterSolicitation, &[option]));
    assert!(matches!(odd, FrameError::Header(WireError { layer: Layer::NeighborDiscovery, .. })));
}
