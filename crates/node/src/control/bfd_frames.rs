//! BFD packets as they are on the wire: between neighbours, and through tunnels.
//!
//! ```text
//! Ethernet │ IP, TTL 255 │ UDP 3784 │ BFD
//! Ethernet │ IP, TEP to TEP │ UDP 6081 or 4789 │ Geneve (O bit) or VXLAN, VNI 0 │ Ethernet │ IP, TTL 255 │ UDP 3784 │ BFD
//! ```
//!
//! Geneve follows RFC 9521 section 4: control packets have the O bit; the addresses of the inner IP header are those of the TEPs, which are what
//! is watched. VXLAN follows RFC 8971 section 4: the inner destination is a loopback address, which nothing routes, and the inner frame is for
//! the MAC address that is reserved for BFD there. RFC 9521 wants the MAC address of the far end in Geneve, which nothing tells a node whose
//! tunnels are routed: that reserved address stands for it there too. From others both are accepted, in either encapsulation. VNI 0, which no segment can have, stands for the tunnel itself:
//! both RFCs leave the number to the operator.

use std::net::{IpAddr, Ipv4Addr};

use sluice_datapath::punt::Entry;
use sluice_intent::plan::{Encapsulation, PortIndex};
use sluice_protocols::bfd::{PORT, Path, Received, Refusal, TTL, Via};
use sluice_protocols::neighbor::Link;
use sluice_wire::bfd::PACKET_LEN;
use sluice_wire::ethernet::EthernetView;
use sluice_wire::frame::{FrameBuilder, FrameError};
use sluice_wire::geneve::{Geneve, GeneveView};
use sluice_wire::ipv4::{Ipv4, Ipv4View};
use sluice_wire::ipv6::{Ipv6, Ipv6View};
use sluice_wire::udp::{UdpView, port};
use sluice_wire::vxlan::{Vxlan, VxlanView};
use sluice_wire::{Dscp, EtherType, IpProtocol, MacAddr, Vni, WireError};

/// Whom the inner frame is for (RFC 8971 section 4 and its registration with IANA).
const INNER_DESTINATION: MacAddr = MacAddr([0x00, 0x00, 0x5e, 0x00, 0x52, 0x02]);

/// The path of packets between two TEPs.
pub(super) const fn path(local: IpAddr, remote: IpAddr) -> Path {
    Path { via: Via::Tunnel { vni: None }, local, remote }
}

/// What the outer frame is sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outer {
    pub(super) source: MacAddr,
    pub(super) next_hop: MacAddr,
    /// Transport VLAN; untagged without.
    pub(super) vlan: Option<sluice_wire::VlanId>,
    /// That of the tunnel; none between neighbours, where packets go as they are.
    pub(super) encapsulation: Option<Encapsulation>,
}

/// The whole frame of a packet.
pub(super) fn build(
    outer: &Outer,
    path: &Path,
    source_port: u16,
    payload: &[u8; PACKET_LEN],
) -> Result<Vec<u8>, FrameError> {
    let mut frame = FrameBuilder::new().ethernet(outer.source, outer.next_hop);
    if let Some(vlan) = outer.vlan {
        frame = frame.vlan(vlan);
    }
    let Some(encapsulation) = outer.encapsulation else {
        return ip(frame, path.local, path.remote, TTL).udp(source_port, PORT).payload(payload).build();
    };
    frame = ip(frame, path.local, path.remote, 64);
    let (frame, destination) = match encapsulation {
        Encapsulation::Geneve => {
            let header = Geneve { vni: None, control: true, ..Geneve::new(Vni::MIN) };
            (frame.geneve(source_port, header), path.remote)
        }
        Encapsulation::Vxlan => (frame.vxlan(source_port, Vxlan { vni: None }), loopback(path.remote)),
    };
    let frame = ip(frame.ethernet(outer.source, INNER_DESTINATION), path.local, destination, TTL);
    frame.udp(source_port, PORT).payload(payload).build()
}

/// An IP header between addresses of one family, as network control (RFC 4594 section 3.1).
fn ip(frame: FrameBuilder, source: IpAddr, destination: IpAddr, ttl: u8) -> FrameBuilder {
    let dscp = Dscp::NETWORK_CONTROL;
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.ipv4_header(Ipv4 { ttl, dscp, ..Ipv4::new(source, destination, IpProtocol::UDP) })
        }
        (source, destination) => {
            let (source, destination) = (v6(source), v6(destination));
            frame.ipv6_header(Ipv6 {
                hop_limit: ttl,
                dscp,
                ..Ipv6::new(source, destination, IpProtocol::UDP)
            })
        }
    }
}

fn v6(address: IpAddr) -> std::net::Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// The loopback address of a family; of IPv6 one of the range that RFC 8971 section 4 names.
fn loopback(of: IpAddr) -> IpAddr {
    match of {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(),
    }
}

/// Whether UDP over IPv6 has a checksum: tunnels may go without (RFC 6935), others not (RFC 8200 section 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksum {
    Required,
    MayBeAbsent,
}

/// A UDP datagram in IP.
struct Datagram<'a> {
    source: IpAddr,
    destination: IpAddr,
    ttl: u8,
    udp: UdpView<'a>,
}

impl<'a> Datagram<'a> {
    fn of(frame: EthernetView<'a>, checksum: Checksum) -> Result<Self, Refusal> {
        let malformed = |_: WireError| Refusal::Malformed;
        let damaged = |_: WireError| Refusal::Checksum;
        match frame.ether_type() {
            EtherType::IPV4 => {
                let packet = Ipv4View::parse(frame.payload()).map_err(malformed)?;
                packet.verify_checksum().map_err(damaged)?;
                let udp = UdpView::parse(packet.payload()).map_err(malformed)?;
                udp.verify_checksum(packet.pseudo_header()).map_err(damaged)?;
                let (source, destination) = (packet.source().into(), packet.destination().into());
                Ok(Self { source, destination, ttl: packet.ttl(), udp })
            }
            EtherType::IPV6 => {
                let packet = Ipv6View::parse(frame.payload()).map_err(malformed)?;
                let udp = UdpView::parse(packet.upper_payload()).map_err(malformed)?;
                if checksum == Checksum::Required || udp.checksum() != 0 {
                    udp.verify_checksum(packet.pseudo_header()).map_err(damaged)?;
                }
                let (source, destination) = (packet.source().into(), packet.destination().into());
                Ok(Self { source, destination, ttl: packet.hop_limit(), udp })
            }
            _ => Err(Refusal::Malformed),
        }
    }
}

/// The link of a port and VLAN; 0: untagged.
pub(super) fn link(port: PortIndex, vlan: u16) -> Link {
    Link::new(port.0, sluice_wire::VlanId::new(vlan).unwrap_or(sluice_wire::VlanId::UNTAGGED))
}

/// Why a packet is refused, and who sent it, where that is known.
pub(super) type Refused = (Refusal, Option<IpAddr>);

/// The packet in a frame that a worker took for BFD, and where it came from. `own_mac`: the MAC address of this end of a path that is watched.
pub(super) fn read(
    frame: &[u8],
    entry: Entry,
    own_mac: impl Fn(&Path) -> Option<MacAddr>,
) -> Result<(Received, &[u8]), Refused> {
    let nobody = |reason: Refusal| (reason, None);
    let ethernet = EthernetView::parse(frame).map_err(|_| nobody(Refusal::Malformed))?;
    let outer = Datagram::of(ethernet, Checksum::MayBeAbsent).map_err(nobody)?;
    let refused = |reason: Refusal| (reason, Some(outer.source));
    if outer.udp.destination_port() == PORT {
        return read_plain(ethernet, entry).map_err(refused);
    }
    let inner = inner_frame(&outer).map_err(refused)?;
    let datagram = Datagram::of(inner, Checksum::Required).map_err(refused)?;
    let destination = match datagram.destination.to_canonical().is_loopback() {
        true => outer.destination,
        false => datagram.destination,
    };
    // Whoever is inside has to be who is outside: the path that is watched is that of the tunnel.
    if (datagram.source, destination) != (outer.source, outer.destination) {
        return Err(refused(Refusal::InnerAddress));
    }
    let own = own_mac(&path(destination, datagram.source));
    if inner.destination() != INNER_DESTINATION && own.is_some_and(|own| inner.destination() != own) {
        return Err(refused(Refusal::InnerMac));
    }
    let received = Received {
        via: Via::Tunnel { vni: None },
        source: datagram.source,
        destination,
        destination_port: datagram.udp.destination_port(),
        ttl: datagram.ttl,
    };
    Ok((received, datagram.udp.payload()))
}

/// The frame within a tunnel packet.
fn inner_frame<'a>(outer: &Datagram<'a>) -> Result<EthernetView<'a>, Refusal> {
    let tunnel = outer.udp.payload();
    let inner = match outer.udp.destination_port() {
        port::GENEVE => GeneveView::parse(tunnel).map(|geneve| geneve.payload()),
        port::VXLAN => VxlanView::parse(tunnel).map(|vxlan| vxlan.payload()),
        _ => return Err(Refusal::Malformed),
    };
    inner.and_then(EthernetView::parse).map_err(|_| Refusal::Malformed)
}

/// The packet of a neighbour.
fn read_plain(ethernet: EthernetView<'_>, entry: Entry) -> Result<(Received, &[u8]), Refusal> {
    let Entry::Port(port) = entry else { return Err(Refusal::Malformed) };
    let datagram = Datagram::of(ethernet, Checksum::Required)?;
    let vlan = ethernet.outer_tag().map_or(0, |tag| tag.id.get());
    let received = Received {
        via: Via::Link(link(port, vlan)),
        source: datagram.source,
        destination: datagram.destination,
        destination_port: datagram.udp.destination_port(),
        ttl: datagram.ttl,
    };
    Ok((received, datagram.udp.payload()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    const ENTRY: Entry = Entry::Port(PortIndex(3));
    const PAYLOAD: [u8; PACKET_LEN] = [7; PACKET_LEN];

    /// Of a path that is not watched.
    fn nobody(_: &Path) -> Option<MacAddr> {
        None
    }

    fn outer(encapsulation: Encapsulation) -> Outer {
        let (source, next_hop) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        Outer { source, next_hop, vlan: None, encapsulation: Some(encapsulation) }
    }

    fn paths() -> [Path; 2] {
        let path = |local: &str, remote: &str| path(local.parse().unwrap(), remote.parse().unwrap());
        [path("172.16.0.1", "172.16.0.2"), path("2001:db8::1", "2001:db8::2")]
    }

    #[test]
    fn the_other_end_reads_what_is_sent() {
        for path in paths() {
            for encapsulation in [Encapsulation::Geneve, Encapsulation::Vxlan] {
                for vlan in [None, Some(sluice_wire::VlanId::new(120).unwrap())] {
                    let outer = Outer { vlan, ..outer(encapsulation) };
                    let frame = build(&outer, &path, 50_000, &PAYLOAD).unwrap();
                    let (received, payload) = read(&frame, ENTRY, nobody).unwrap();
                    let expected = Received {
                        via: path.via,
                        source: path.local,
                        destination: path.remote,
                        destination_port: 3784,
                        ttl: 255,
                    };
                    assert_eq!((received, payload), (expected, &PAYLOAD[..]));
                }
            }
        }
    }

    #[test]
    fn neighbors_read_what_is_sent_without_a_tunnel() {
        for Path { local, remote, .. } in paths() {
            for vlan in [0, 120] {
                let path = Path { via: Via::Link(link(PortIndex(3), vlan)), local, remote };
                let vlan = sluice_wire::VlanId::new(vlan).ok().filter(|vlan| !vlan.is_untagged());
                let outer = Outer { encapsulation: None, vlan, ..outer(Encapsulation::Geneve) };
                let frame = build(&outer, &path, 50_000, &PAYLOAD).unwrap();
                let (received, payload) = read(&frame, ENTRY, nobody).unwrap();
                assert_eq!((received.via, received.source, received.destination), (path.via, local, remote));
                assert_eq!((received.destination_port, received.ttl, payload), (3784, 255, &PAYLOAD[..]));
                let mut damaged = frame.clone();
                *damaged.last_mut().unwrap() ^= 1;
                let refused = Err((Refusal::Checksum, None));
                assert_eq!(read(&damaged, ENTRY, nobody), refused, "the UDP checksum");
            }
        }
    }

    #[test]
    fn geneve_has_the_o_bit_and_vxlan_a_destination_that_is_not_routed() {
        let [v4, _] = paths();
        let frame = build(&outer(Encapsulation::Geneve), &v4, 50_000, &PAYLOAD).unwrap();
        let tunnel = &frame[14 + 20 + 8..];
        assert_eq!(tunnel[..8], [0, 0x80, 0x65, 0x58, 0, 0, 0, 0]);
        let frame = build(&outer(Encapsulation::Vxlan), &v4, 50_000, &PAYLOAD).unwrap();
        let tunnel = &frame[14 + 20 + 8..];
        assert_eq!(tunnel[..8], [0x08, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(tunnel[8..14], [0, 0, 0x5e, 0, 0x52, 2]);
        assert_eq!(tunnel[8 + 14 + 16..][..4], [127, 0, 0, 1]);
    }

    #[test]
    fn what_is_damaged_or_from_somebody_else_is_not_read() {
        let [v4, _] = paths();
        let right = build(&outer(Encapsulation::Geneve), &v4, 50_000, &PAYLOAD).unwrap();
        let damaged_at = |at: usize| {
            let mut frame = right.clone();
            frame[at] ^= 1;
            frame
        };
        let last = right.len() - 1;
        let refused = |frame: &[u8]| read(frame, ENTRY, nobody).unwrap_err();
        let sender = Some(v4.local);
        assert_eq!(refused(&damaged_at(last)), (Refusal::Checksum, sender), "the inner UDP checksum");
        let inner = 14 + 20 + 8 + 8;
        assert_eq!(refused(&damaged_at(inner + 14 + 15)), (Refusal::Checksum, sender), "the inner source");
        assert_eq!(refused(&damaged_at(inner + 12)), (Refusal::Malformed, sender), "no IP");
        assert_eq!(refused(&right[..last]), (Refusal::Malformed, None), "cut short");
        // The same from another TEP, with checksums that hold.
        let stranger = [172, 16, 0, 3].into();
        let other =
            build(&outer(Encapsulation::Geneve), &path(stranger, v4.remote), 50_000, &PAYLOAD).unwrap();
        let mut forged = other[..inner].to_vec();
        forged.extend(&right[inner..]);
        assert!(read(&other, ENTRY, nobody).is_ok());
        assert_eq!(
            refused(&forged),
            (Refusal::InnerAddress, Some(stranger)),
            "inner and outer source differ"
        );
    }

    #[test]
    fn the_inner_frame_is_for_this_end_or_for_bfd() {
        const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
        let at = 14 + 20 + 8 + 8;
        let [v4, _] = paths();
        let own_mac = |watched: &Path| (*watched == path(v4.remote, v4.local)).then_some(OWN);
        for encapsulation in [Encapsulation::Geneve, Encapsulation::Vxlan] {
            let mut frame = build(&outer(encapsulation), &v4, 50_000, &PAYLOAD).unwrap();
            assert_eq!(frame[at..at + 6], INNER_DESTINATION.0);
            assert!(read(&frame, ENTRY, own_mac).is_ok());
            frame[at..at + 6].copy_from_slice(&OWN.0);
            assert!(read(&frame, ENTRY, own_mac).is_ok(), "{encapsulation:?}");
            for other in [MacAddr([2, 0, 0, 0, 0, 3]), MacAddr::BROADCAST] {
                frame[at..at + 6].copy_from_slice(&other.0);
                assert_eq!(read(&frame, ENTRY, own_mac), Err((Refusal::InnerMac, Some(v4.local))));
            }
        }
    }
}
