//! The outer headers of tunnel packets.

use sluice_wire::checksum::PseudoHeader;

use super::*;

/// Tunnel packets of an encapsulation over a family of addresses.
#[derive(Clone, Copy, Debug)]
struct Tunnel {
    v6: bool,
    geneve: bool,
}

const TUNNELS: [Tunnel; 4] = [
    Tunnel { v6: false, geneve: true },
    Tunnel { v6: false, geneve: false },
    Tunnel { v6: true, geneve: true },
    Tunnel { v6: true, geneve: false },
];

impl Tunnel {
    /// TEPs of the plan of a host: the remote one and the local one.
    fn ends(self) -> (IpAddr, IpAddr) {
        if self.v6 {
            (address("2001:db8:16::2"), address("2001:db8:16::1"))
        } else {
            (address("172.16.0.2"), address("172.16.0.1"))
        }
    }

    /// Source and destination of the inner frame, on a segment with this encapsulation, and where that leaves.
    fn stations(self) -> (MacAddr, MacAddr, (PortIndex, u16)) {
        if self.geneve {
            (workload_mac(2), workload_mac(0), (ACCESS, 0))
        } else {
            (workload_mac(5), workload_mac(4), (ACCESS, 102))
        }
    }

    fn datagram(self, inner: &[u8]) -> Vec<u8> {
        if self.geneve {
            bytes::udp(50_000, 6081, &bytes::geneve(plans::GENEVE_VNI, 0, 0x6558, &[], inner))
        } else {
            bytes::udp(50_000, 4789, &bytes::vxlan(plans::VXLAN_VNI, 0x08, inner))
        }
    }

    fn frame(self, datagram: &[u8]) -> Vec<u8> {
        let (remote, local) = self.ends();
        let packet = bytes::ip(&IpHeader::new(17), remote, local, datagram);
        bytes::ethernet(port_mac(1), STRANGER, ethertype(&packet), &packet)
    }

    /// Frames to send through it: something that is not IP; and on a port without VLAN, where padding is kept, a short packet in a long frame.
    fn inner_frames(self) -> Vec<Vec<u8>> {
        let (source, destination, (_, vlan)) = self.stations();
        let mut all = vec![bytes::ethernet(destination, source, 0x88b5, &[9; 81])];
        if vlan == 0 {
            let datagram = bytes::udp(1, 2, &[]);
            let header = IpHeader::new(17);
            let packet = bytes::ip(&header, address("10.1.0.12"), address("10.1.0.10"), &datagram);
            let mut padded = bytes::ethernet(destination, source, bytes::IPV4, &packet);
            padded.resize(95, 9);
            all.push(padded);
        }
        all
    }

    /// The inner frame arrives as it is.
    fn delivers(self, done: &Done, inner: &[u8]) {
        let (.., (port, vlan)) = self.stations();
        assert_eq!(done.sent, [(port, bytes::on_vlan(inner.to_vec(), vlan))], "{self:?}");
    }
}

fn tunnels_with_frames() -> impl Iterator<Item = (Tunnel, Vec<u8>)> {
    TUNNELS.into_iter().flat_map(|tunnel| tunnel.inner_frames().into_iter().map(move |inner| (tunnel, inner)))
}

/// RFC 768: the length is that of header and data; in a tunnel packet it covers the tunnel header, and the inner frame ends where it does.
#[test]
fn the_udp_length_of_a_tunnel_packet_counts() {
    for (tunnel, inner) in tunnels_with_frames() {
        let mut node = node(&plans::host());
        let datagram = tunnel.datagram(&inner);
        let right = datagram.len() as u16;
        let with = |length: u16| {
            let mut datagram = datagram.clone();
            datagram[4..6].copy_from_slice(&length.to_be_bytes());
            tunnel.frame(&datagram)
        };
        tunnel.delivers(&node.receive_one(FABRIC, &with(right)), &inner);
        for wrong in [0, 7, 8, 9, 15, right + 1, 65_535] {
            dropped(&node.receive_one(FABRIC, &with(wrong)), DropReason::Malformed);
        }
        dropped(&node.receive_one(FABRIC, &with(16)), DropReason::Truncated);
        tunnel.delivers(&node.receive_one(FABRIC, &with(60)), &inner[..60 - 16]);
        tunnel.delivers(&node.receive_one(FABRIC, &with(right - 1)), &inner[..inner.len() - 1]);
    }
}

/// What is behind the datagram is no part of the inner frame, also where that is answered here.
#[test]
fn an_arp_packet_that_the_datagram_cuts_short_is_malformed() {
    let (asker, nobody) = (workload_mac(2), MacAddr([0; 6]));
    let question = bytes::arp(1, (asker, [10, 1, 0, 12].into()), (nobody, [10, 1, 0, 1].into()));
    let inner = bytes::ethernet(MacAddr([0xff; 6]), asker, bytes::ARP, &question);
    let tunnel = TUNNELS[0];
    let mut datagram = tunnel.datagram(&inner);
    assert_eq!(edge().receive_one(FABRIC, &tunnel.frame(&datagram)).sent.len(), 1);
    datagram[5] -= 1;
    dropped(&edge().receive_one(FABRIC, &tunnel.frame(&datagram)), DropReason::Malformed);
}

/// RFC 8926 section 3.3, RFC 7348 section 5, and RFC 6935 for none over IPv6.
#[test]
fn the_udp_checksum_of_a_tunnel_packet_holds_if_there_is_one() {
    for (tunnel, inner) in tunnels_with_frames() {
        let mut node = node(&plans::host());
        let datagram = tunnel.datagram(&inner);
        let pseudo_header = match tunnel.ends() {
            (IpAddr::V4(from), IpAddr::V4(to)) => PseudoHeader::ipv4(from, to),
            (IpAddr::V6(from), IpAddr::V6(to)) => PseudoHeader::ipv6(from, to),
            _ => unreachable!("both ends are of one family"),
        };
        let with = |checksum: u16| {
            let mut datagram = datagram.clone();
            datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
            tunnel.frame(&datagram)
        };
        let right = pseudo_header.udp(&datagram);
        for accepted in [0, right] {
            tunnel.delivers(&node.receive_one(FABRIC, &with(accepted)), &inner);
        }
        for wrong in [right ^ 1, right ^ 0x8000, right.swap_bytes()] {
            dropped(&node.receive_one(FABRIC, &with(wrong)), DropReason::BadChecksum);
        }
        let mut damaged = with(right);
        *damaged.last_mut().expect("a frame is not empty") ^= 4;
        dropped(&node.receive_one(FABRIC, &damaged), DropReason::BadChecksum);
    }
}

/// A checksum is the business of the packet's receiver (RFC 1122 section 4.1.3.4): routers do not look at it.
#[test]
fn the_udp_checksum_of_a_packet_that_passes_through_is_not_looked_at() {
    let mut node = edge();
    for port in [4789, 6081] {
        let mut datagram = bytes::udp(1, port, &[0; 40]);
        datagram[4..8].copy_from_slice(&[0, 9, 0xba, 0xad]);
        for (port, frame) in [
            (
                ACCESS,
                from_workload(&bytes::ip(
                    &IpHeader::new(17),
                    address("10.1.0.10"),
                    address("10.2.0.10"),
                    &datagram,
                )),
            ),
            (
                UPLINK,
                from_physical_network(&bytes::ip(
                    &IpHeader::new(17),
                    address("198.18.0.1"),
                    address("10.2.0.10"),
                    &datagram,
                )),
            ),
        ] {
            let done = node.receive_one(port, &frame);
            assert_eq!(done.sent[0].1[18 + 20..], datagram, "{done:?}");
        }
    }
}

/// RFC 9521 section 4, RFC 8971 section 4.
#[test]
fn bfd_of_the_tunnel_itself_is_the_control_threads() {
    for tunnel in TUNNELS {
        let (remote, local) = tunnel.ends();
        let inner = |port: u16| {
            let header = IpHeader { ttl: 255, ..IpHeader::new(17) };
            let packet = bytes::ip(&header, remote, local, &bytes::udp(50_000, port, &[0x20; 24]));
            bytes::ethernet(MacAddr([0, 0, 0x5e, 0, 0x52, 2]), STRANGER, ethertype(&packet), &packet)
        };
        let datagram = |vni: u32, control: bool, inner: &[u8]| match tunnel.geneve {
            true => {
                let flags = if control { 0x80 } else { 0 };
                bytes::udp(50_000, 6081, &bytes::geneve(vni, flags, 0x6558, &[], inner))
            }
            false => bytes::udp(50_000, 4789, &bytes::vxlan(vni, 0x08, inner)),
        };
        let mut node = node(&plans::host());
        let mut receive = |datagram: &[u8]| node.receive_one(FABRIC, &tunnel.frame(datagram));

        let done = receive(&datagram(0, true, &inner(3784)));
        let kinds: Vec<_> = done.punted.iter().map(|(punt, _)| punt.kind).collect();
        assert_eq!((kinds, done.sent.len()), (vec![PuntKind::Bfd], 0), "{tunnel:?}");
        // Another port; without the O bit; for a segment. In VXLAN there is nothing but the VNI that marks control packets.
        let other_port = receive(&datagram(0, true, &inner(3785)));
        dropped(&other_port, if tunnel.geneve { DropReason::GeneveControl } else { DropReason::UnknownVni });
        if tunnel.geneve {
            dropped(&receive(&datagram(0, false, &inner(3784))), DropReason::UnknownVni);
            dropped(&receive(&datagram(plans::GENEVE_VNI, true, &inner(3784))), DropReason::GeneveControl);
        }
    }
}
