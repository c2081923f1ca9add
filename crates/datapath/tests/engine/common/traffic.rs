//! Random packets for a plan: of every kind, from and to its own addresses most of the time, and sometimes broken.

mod bfd;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_intent::plan::{Encapsulation, Location, Plan, PortIndex, TepIndex, Tier};
use sluice_wire::MacAddr;
use sluice_wire::checksum::PseudoHeader;

use super::bytes::{self, IpHeader};
use super::dice::Dice;
use super::node::port_mac;

/// Draws packets for one plan.
pub(crate) struct Traffic<'a> {
    plan: &'a Plan,
    /// Addresses of the plan and some of nobody.
    v4: Vec<IpAddr>,
    v6: Vec<IpAddr>,
    macs: Vec<MacAddr>,
}

/// What a frame needs to know of where it is sent from.
struct Sender {
    mac: MacAddr,
    addresses: Vec<IpAddr>,
    /// Who routes for it.
    router: MacAddr,
}

/// Flags and offsets of IPv4: whole packets, fragments, and such as reach to the end of the longest datagram or beyond it.
const FRAGMENTS: [u16; 14] =
    [0, 0x4000, 0, 0x4000, 0, 0x2000, 0x0010, 0x2010, 0xc000, 0x8000, 0x1fff, 0x3fff, 0x1f60, 0x3f48];
/// Lists of IPv4 options: for all fragments and for the first alone, source routes, and wrong ones.
const OPTIONS: [&[u8]; 10] = [
    &[1, 1, 1, 0],
    &[148, 4, 0, 0],
    &[131, 3, 4, 0],
    &[7, 1, 0, 0],
    &[7, 7, 4, 1],
    &[0, 9, 9, 9],
    &[7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0, 0],
    &[1, 136, 4, 0, 9, 1, 7, 3, 4, 130, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0],
    &[
        68, 36, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 148, 4, 0, 0,
    ],
    &[0, 148, 4, 0],
];
const BROADCAST: MacAddr = MacAddr([0xff; 6]);
const MULTICAST: MacAddr = MacAddr([1, 0, 0x5e, 0, 0, 5]);
const STRANGER: MacAddr = MacAddr([0x02, 0xee, 0, 0, 0, 1]);

impl<'a> Traffic<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let mut all: Vec<IpAddr> =
            plan.workloads.iter().flat_map(|workload| workload.addresses.clone()).collect();
        all.extend(plan.segments.iter().flat_map(|segment| &segment.gateway_addresses).map(|net| net.addr()));
        for gateway in &plan.gateways {
            match &gateway.tier {
                Tier::Tier0 { interfaces, transit } => {
                    for net in interfaces.iter().flat_map(|interface| &interface.addresses) {
                        all.push(net.addr());
                        all.extend(net.hosts().skip(199).take(1));
                    }
                    let routers = transit.iter().flat_map(|transit| &transit.service_routers);
                    all.extend(routers.flat_map(|router| router.addresses.clone()));
                }
                Tier::Tier1 { link } => {
                    let ends =
                        link.iter().flat_map(|link| link.tier0_addresses.iter().chain(&link.tier1_addresses));
                    all.extend(ends.map(|net| net.addr()));
                }
            }
            all.extend(
                gateway
                    .static_routes
                    .iter()
                    .map(|route| route.prefix.hosts().next().unwrap_or(route.prefix.addr())),
            );
        }
        all.extend(plan.teps.iter().map(|tep| tep.address.addr()));
        // Nobody's: behind the default route, on a segment, broadcast, multicast, loopback, link-local, unspecified.
        let nobodys = [
            "198.18.0.1",
            "10.1.0.200",
            "10.2.0.200",
            "10.1.0.255",
            "10.1.0.0",
            "255.255.255.255",
            "224.0.0.5",
            "127.0.0.1",
            "169.254.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "2001:db8:ffff::1",
            "2001:db8:1::200",
            "ff02::1",
            "ff02::1:ff00:10",
            "::1",
            "fe80::1",
            "fe80::50:56ff:fe56:4452",
            "::",
        ];
        all.extend(nobodys.iter().map(|text| text.parse::<IpAddr>().expect("an address")));
        let (v4, v6) = all.into_iter().partition(IpAddr::is_ipv4);
        let mut macs: Vec<MacAddr> = plan.workloads.iter().map(|workload| workload.mac).collect();
        macs.extend([BROADCAST, MULTICAST, STRANGER, MacAddr([0; 6]), plan.router_mac]);
        // Spanning tree, LLDP, and the first address behind the reserved ones.
        macs.extend([0x00, 0x0e, 0x10].map(|last| MacAddr([0x01, 0x80, 0xc2, 0, 0, last])));
        Self { plan, v4, v6, macs }
    }

    /// A frame and the port that it comes in at.
    pub(crate) fn frame(&self, dice: &mut Dice<'_>) -> (PortIndex, Vec<u8>) {
        let (port, frame) = match dice.below(4) {
            0 => self.workload_frame(dice),
            1 => self.uplink_frame(dice),
            2 => self.tunnel_frame(dice),
            _ if self.plan.uplinks.is_empty() || dice.once_in(2) => self.workload_frame(dice),
            _ => self.tunnel_frame(dice),
        };
        (port, broken(frame, dice))
    }

    fn workload_frame(&self, dice: &mut Dice<'_>) -> (PortIndex, Vec<u8>) {
        let locals: Vec<_> =
            self.plan.workloads.iter().filter(|w| matches!(w.location, Location::Port { .. })).collect();
        let Some(workload) = dice.pick(&locals) else { return self.uplink_frame(dice) };
        let Location::Port { port, vlan } = workload.location else {
            unreachable!("only local ones were kept")
        };
        let frame = self.by(&sender(workload, self.plan.router_mac), dice);
        (port, self.with_tag(frame, vlan.map_or(0, u16::from), dice))
    }

    fn with_tag(&self, frame: Vec<u8>, vlan: u16, dice: &mut Dice<'_>) -> Vec<u8> {
        if frame.len() < 14 {
            return frame;
        }
        match dice.below(32) {
            31 => frame,
            30 => bytes::tagged(&frame, bytes::VLAN, 0xa000),
            29 => bytes::tagged(&frame, bytes::VLAN, 999),
            28 => bytes::tagged(&bytes::tagged(&frame, bytes::VLAN, vlan), 0x88a8, 7),
            27 => bytes::tagged(&frame, 0x88a8, 0x6000 | vlan),
            _ => bytes::on_vlan(frame, vlan),
        }
    }

    /// From the physical network: to a gateway's interface, or to the port of TEPs.
    fn uplink_frame(&self, dice: &mut Dice<'_>) -> (PortIndex, Vec<u8>) {
        if dice.once_in(16)
            && let Some(frame) = self.neighbor_bfd_frame(dice)
        {
            return frame;
        }
        let mut places: Vec<(usize, u16)> = Vec::new();
        for gateway in &self.plan.gateways {
            if let Tier::Tier0 { interfaces, .. } = &gateway.tier {
                places.extend(interfaces.iter().map(|i| (i.uplink.index(), i.vlan.map_or(0, u16::from))));
            }
        }
        places.extend(self.plan.teps.iter().map(|tep| (tep.uplink.index(), tep.vlan.map_or(0, u16::from))));
        let Some((uplink, vlan)) = dice.pick(&places) else { return (PortIndex(0), self.random(dice)) };
        let port = self.plan.uplinks[uplink].port;
        let outside =
            ["198.18.0.1", "198.18.7.7", "2001:db8:ffff::1"].map(|text| text.parse().expect("an address"));
        let sender = Sender { mac: STRANGER, addresses: outside.to_vec(), router: port_mac(port.index()) };
        let frame = self.by(&sender, dice);
        (port, self.with_tag(frame, vlan, dice))
    }

    fn tunnel_frame(&self, dice: &mut Dice<'_>) -> (PortIndex, Vec<u8>) {
        if !self.plan.teps.is_empty() && dice.once_in(12) {
            return self.bfd_frame(dice);
        }
        let mut ends: Vec<(u32, Encapsulation, Option<TepIndex>, Option<usize>)> = Vec::new();
        let numbered = self.plan.segments.iter().enumerate();
        ends.extend(
            numbered
                .map(|(number, s)| (s.vni.into(), s.encapsulation, s.teps.first().copied(), Some(number))),
        );
        let mut routers = Vec::new();
        for gateway in &self.plan.gateways {
            if let Tier::Tier0 { transit: Some(transit), .. } = &gateway.tier {
                let pinned = transit.teps.first().copied();
                ends.push((transit.vni.into(), transit.encapsulation, pinned, None));
                routers.extend(transit.service_routers.iter().map(|router| router.mac));
            }
        }
        let (Some((vni, encapsulation, pinned, segment)), false) =
            (dice.pick(&ends), self.plan.teps.is_empty())
        else {
            return self.uplink_frame(dice);
        };
        let remote = self.plan.workloads.iter().filter(|w| segment == Some(w.segment.index()));
        let remote: Vec<_> = remote.filter(|w| matches!(w.location, Location::RemoteTep(_))).collect();
        let sender = match (dice.pick(&remote), segment) {
            (Some(workload), _) => sender(workload, self.plan.router_mac),
            (None, Some(_)) => {
                Sender { mac: STRANGER, addresses: self.some_addresses(dice), router: self.plan.router_mac }
            }
            (None, None) => {
                let router = dice.pick(&routers).unwrap_or(self.plan.router_mac);
                Sender { mac: self.plan.router_mac, addresses: self.some_addresses(dice), router }
            }
        };
        let mut inner = self.by(&sender, dice);
        if dice.once_in(50) && inner.len() >= 14 {
            inner = bytes::tagged(&inner, bytes::VLAN, 5);
        }
        if dice.once_in(12) {
            // Behind the frame, but in the datagram.
            inner.extend([0xa5; 9]);
        }
        self.encapsulated(&inner, vni, encapsulation, pinned, dice)
    }

    fn encapsulated(
        &self,
        inner: &[u8],
        vni: u32,
        encapsulation: Encapsulation,
        pinned: Option<TepIndex>,
        dice: &mut Dice<'_>,
    ) -> (PortIndex, Vec<u8>) {
        let tep = &self.plan.teps[pinned.map_or(0, TepIndex::index)];
        let local = tep.address.addr();
        let remotes = self.remote_teps(local.is_ipv4());
        let remote = dice.pick(&remotes).unwrap_or(local);
        let geneve = (encapsulation == Encapsulation::Geneve) != dice.once_in(60);
        let vni = if dice.once_in(60) { vni + 7 } else { vni };
        let payload = if geneve {
            let options =
                [&[][..], &[1, 2, 3, 0], &[1, 2, 3, 1, 9, 9, 9, 9], &[1, 2, 0x83, 0], &[1, 2, 3, 9]];
            let options = if dice.once_in(8) { options[dice.below(options.len())] } else { &[] };
            let flags = if dice.once_in(40) { [0x80, 0x40, 0x3f][dice.below(3)] } else { 0 };
            let protocol = if dice.once_in(60) { 0x0800 } else { 0x6558 };
            let mut payload = bytes::geneve(vni, flags, protocol, options, inner);
            if dice.once_in(80) {
                payload[0] |= [0x40, 0x3f][dice.below(2)];
            }
            payload
        } else {
            bytes::vxlan(
                vni,
                if dice.once_in(40) { 0x10 } else { 0x08 | (dice.number() as u8 & 0xf0) },
                inner,
            )
        };
        self.tunnelled(&payload, geneve, tep, remote, dice)
    }

    /// A tunnel packet from a TEP to one of the plan.
    fn tunnelled(
        &self,
        payload: &[u8],
        geneve: bool,
        tep: &sluice_intent::plan::Tep,
        remote: IpAddr,
        dice: &mut Dice<'_>,
    ) -> (PortIndex, Vec<u8>) {
        let local = tep.address.addr();
        let datagram = bytes::udp(0xc000 | dice.number(), if geneve { 6081 } else { 4789 }, payload);
        let datagram = with_other_length_or_checksum(datagram, remote, local, dice);
        let class = if dice.once_in(3) { dice.number() as u8 } else { 0 };
        let header = IpHeader { class, ..IpHeader::new(17) };
        let mut packet = ip_with_extras(header, remote, local, datagram, dice);
        if dice.once_in(80) {
            packet[10] ^= 0x10;
        }
        let port = self.plan.uplinks[tep.uplink.index()].port;
        let mac = if dice.once_in(80) { STRANGER } else { port_mac(port.index()) };
        let ethertype = if local.is_ipv4() { bytes::IPV4 } else { bytes::IPV6 };
        let frame = bytes::ethernet(mac, STRANGER, ethertype, &packet);
        (port, self.with_tag(frame, tep.vlan.map_or(0, u16::from), dice))
    }

    fn remote_teps(&self, v4: bool) -> Vec<IpAddr> {
        let of_segments = self.plan.segments.iter().flat_map(|segment| segment.remote_teps.clone());
        let of_routers = self.plan.gateways.iter().flat_map(|gateway| match &gateway.tier {
            Tier::Tier0 { transit: Some(transit), .. } => {
                transit.service_routers.iter().map(|r| r.tep).collect()
            }
            _ => Vec::new(),
        });
        let mut all: Vec<IpAddr> = of_segments.chain(of_routers).filter(|tep| tep.is_ipv4() == v4).collect();
        all.push(if v4 {
            Ipv4Addr::new(172, 31, 0, 1).into()
        } else {
            Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9).into()
        });
        all
    }

    fn some_addresses(&self, dice: &mut Dice<'_>) -> Vec<IpAddr> {
        dice.pick(&self.v4).into_iter().chain(dice.pick(&self.v6)).collect()
    }

    /// An untagged frame that somebody sends.
    fn by(&self, sender: &Sender, dice: &mut Dice<'_>) -> Vec<u8> {
        let mut frame = self.rightly_by(sender, dice);
        if dice.once_in(40) && frame.len() >= 14 {
            let group = [MULTICAST, BROADCAST][dice.below(2)];
            frame[6..12].copy_from_slice(&group.octets());
        }
        frame
    }

    fn rightly_by(&self, sender: &Sender, dice: &mut Dice<'_>) -> Vec<u8> {
        match dice.below(16) {
            13 => return self.arp(sender, dice),
            14 => return self.neighbor_discovery(sender, dice),
            15 => {
                let ethertype = [0x88cc, 0x0050, 0x8847, 0x0801][dice.below(4)];
                let length = dice.below(100);
                return bytes::ethernet(
                    self.destination_mac(sender, dice),
                    sender.mac,
                    ethertype,
                    &vec![7; length],
                );
            }
            _ => {}
        }
        let v6 = dice.once_in(2);
        let own =
            sender.addresses.iter().copied().filter(|address| address.is_ipv6() == v6).collect::<Vec<_>>();
        let anybody = if v6 { &self.v6 } else { &self.v4 };
        let source = if dice.once_in(12) {
            dice.pick(anybody)
        } else {
            dice.pick(&own).or_else(|| dice.pick(anybody))
        };
        let (Some(source), Some(destination)) = (source, dice.pick(anybody)) else {
            return self.random(dice);
        };
        let header = IpHeader {
            ttl: [64, 1, 2, 3, 255, 0][dice.below(6)],
            class: if dice.once_in(3) { dice.number() as u8 } else { 0 },
            identification: dice.number(),
            fragment: FRAGMENTS[dice.below(FRAGMENTS.len())],
            ..IpHeader::new(17)
        };
        let length = self.payload_length(v6, dice);
        let packet = upper(header, source, destination, length, dice);
        let ethertype = if v6 { bytes::IPV6 } else { bytes::IPV4 };
        let mut frame = bytes::ethernet(self.destination_mac(sender, dice), sender.mac, ethertype, &packet);
        if dice.once_in(6) {
            // Ethernet padding, of any content.
            let length = frame.len().max(60);
            frame.resize(length, 0xa5);
        }
        frame
    }

    /// Mostly short; sometimes around an MTU of the plan.
    fn payload_length(&self, v6: bool, dice: &mut Dice<'_>) -> usize {
        if !dice.once_in(6) {
            return dice.below(90);
        }
        let mut mtus = vec![576, 1280, 1500, 1450, 1430];
        mtus.extend(self.plan.segments.iter().map(|segment| usize::from(segment.mtu)));
        mtus.extend(
            self.plan.teps.iter().flat_map(|tep| [50, 70].map(|overhead| usize::from(tep.mtu) - overhead)),
        );
        for gateway in &self.plan.gateways {
            if let Tier::Tier0 { interfaces, .. } = &gateway.tier {
                mtus.extend(interfaces.iter().map(|interface| usize::from(interface.mtu)));
            }
        }
        let mtu = dice.pick(&mtus).unwrap_or(1500);
        (mtu + [0, 1, 9, 700][dice.below(4)]).saturating_sub(if v6 { 48 } else { 28 })
    }

    fn destination_mac(&self, sender: &Sender, dice: &mut Dice<'_>) -> MacAddr {
        if dice.below(4) < 3 { sender.router } else { dice.pick(&self.macs).unwrap_or(sender.router) }
    }

    fn arp(&self, sender: &Sender, dice: &mut Dice<'_>) -> Vec<u8> {
        let v4 = |address: Option<IpAddr>| match address {
            Some(IpAddr::V4(v4)) => v4,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let target = v4(dice.pick(&self.v4));
        let own = v4(sender.addresses.iter().copied().find(IpAddr::is_ipv4));
        let asker = [own, Ipv4Addr::UNSPECIFIED, target][dice.below(6) % 3];
        let operation = if dice.once_in(5) { 2 } else { 1 };
        let mut packet = bytes::arp(operation, (sender.mac, asker), (MacAddr([0; 6]), target));
        if dice.once_in(20) {
            packet[dice.below(8)] ^= 1;
        }
        let destination = if dice.once_in(4) { self.destination_mac(sender, dice) } else { BROADCAST };
        bytes::ethernet(destination, sender.mac, bytes::ARP, &packet)
    }

    fn neighbor_discovery(&self, sender: &Sender, dice: &mut Dice<'_>) -> Vec<u8> {
        let v6 = |address: Option<IpAddr>| match address {
            Some(IpAddr::V6(v6)) => v6,
            _ => Ipv6Addr::UNSPECIFIED,
        };
        let target = v6(dice.pick(&self.v6));
        let own = v6(sender.addresses.iter().copied().find(IpAddr::is_ipv6));
        let source = [own, Ipv6Addr::UNSPECIFIED, target][dice.below(6) % 3];
        let [.., a, b, c] = target.octets();
        let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
        let destination = if dice.once_in(4) { target } else { group };
        let link_layer = [&[1, 1][..], &sender.mac.octets()].concat();
        let options: &[u8] = match dice.below(8) {
            0 => &[],
            1 => &[14, 1, 0, 0, 0, 0, 0, 0],
            2 => &[1, 0, 0, 0, 0, 0, 0, 0],
            3 => &[1, 2, 0, 0, 0, 0, 0, 0],
            _ => &link_layer,
        };
        let kind = [135, 135, 135, 136, 133, 137][dice.below(6)];
        let code = u8::from(dice.once_in(20));
        let body = bytes::neighbor_body(target, options);
        let mut message = bytes::icmp(source.into(), destination.into(), kind, code, [0; 4], &body);
        if dice.once_in(20) {
            message[2] ^= 1;
        }
        let ttl = if dice.once_in(20) { [64, 254][dice.below(2)] } else { 255 };
        let packet =
            bytes::ip(&IpHeader { ttl, ..IpHeader::new(58) }, source.into(), destination.into(), &message);
        let mac = MacAddr([0x33, 0x33, 0xff, a, b, c]);
        let mac = if dice.once_in(4) { self.destination_mac(sender, dice) } else { mac };
        bytes::ethernet(mac, sender.mac, bytes::IPV6, &packet)
    }

    fn random(&self, dice: &mut Dice<'_>) -> Vec<u8> {
        (0..dice.below(120)).map(|_| dice.number() as u8).collect()
    }
}

fn sender(workload: &sluice_intent::plan::Workload, router: MacAddr) -> Sender {
    Sender { mac: workload.mac, addresses: workload.addresses.clone(), router }
}

/// An IP packet with some upper-layer protocol in it.
fn upper(
    header: IpHeader,
    source: IpAddr,
    destination: IpAddr,
    length: usize,
    dice: &mut Dice<'_>,
) -> Vec<u8> {
    let v6 = source.is_ipv6();
    let payload = vec![0x5a; length];
    let (own, echo) = if v6 { (58, 128) } else { (1, 8) };
    let ports = [4000, 4001, 53, 6081, 4789];
    let (from, to) = (ports[dice.below(5)], ports[dice.below(5)]);
    let (protocol, message) = match dice.below(8) {
        0 | 1 => (17, bytes::udp(from, to, &payload)),
        2 => (6, bytes::tcp(from, to, &payload)),
        3 | 4 => (own, bytes::icmp(source, destination, echo, 0, [0, 1, 0, 2], &payload)),
        5 => {
            let kind = [0, 3, 11, 129, 1, 2, 8, 137, 13, 128][dice.below(10)];
            (own, bytes::icmp(source, destination, kind, u8::from(dice.once_in(3)), [0; 4], &payload))
        }
        6 => ([47, 50, 58, 1, 89][dice.below(5)], payload),
        _ => (17, bytes::udp(from, to, &payload)),
    };
    let mut message = message;
    if dice.once_in(20) && message.len() > 3 {
        message[2] ^= 0x20;
    }
    if dice.once_in(30) {
        message.truncate(dice.below(10));
    }
    let mut packet = ip_with_extras(IpHeader { protocol, ..header }, source, destination, message, dice);
    if dice.once_in(25) {
        // The checksum of an IPv4 header, an address of IPv6.
        packet[10] ^= 0x01;
    }
    packet
}

/// Sometimes with options or extension headers.
fn ip_with_extras(
    mut header: IpHeader,
    source: IpAddr,
    destination: IpAddr,
    payload: Vec<u8>,
    dice: &mut Dice<'_>,
) -> Vec<u8> {
    let mut payload = payload;
    // Long packets more often: they are fragmented, or their senders told.
    if dice.once_in(if payload.len() > 500 { 2 } else { 8 }) {
        if source.is_ipv4() {
            header.options = OPTIONS[dice.below(OPTIONS.len())].to_vec();
        } else {
            for _ in 0..[1, 2, 3, 9][dice.below(4)] {
                let protocol = [60, 0, 44, 44, 43, 51][dice.below(6)];
                let mut extension = vec![header.protocol, 0, 0, 0, 0, 0, 0, 0];
                match protocol {
                    // Whole, the first, one of the others, the last of the longest packet, one beyond it.
                    44 => {
                        let field = [0, 1, 8, 0xfa80, 0xfff8][dice.below(5)];
                        extension[2..4].copy_from_slice(&u16::to_be_bytes(field));
                    }
                    51 => extension[1] = 1,
                    _ => {}
                }
                let more = if protocol == 51 { 4 } else { 0 };
                extension.extend(vec![0; more]);
                payload = [extension, payload].concat();
                header.protocol = protocol;
            }
        }
    }
    bytes::ip(&header, source, destination, &payload)
}

/// Sometimes with a checksum, right or wrong, or with a length that is not its own.
fn with_other_length_or_checksum(
    mut datagram: Vec<u8>,
    source: IpAddr,
    destination: IpAddr,
    dice: &mut Dice<'_>,
) -> Vec<u8> {
    let own = datagram.len() as u16;
    match dice.below(16) {
        13 => {
            let lengths = [0, 7, 8, 9, 15, 16, 17, 60, own - 1, own - 9, own.wrapping_add(1), u16::MAX];
            let length = lengths[dice.below(lengths.len())];
            datagram[4..6].copy_from_slice(&length.to_be_bytes());
        }
        kind @ (14 | 15) => {
            let pseudo_header = match (source, destination) {
                (IpAddr::V4(source), IpAddr::V4(destination)) => PseudoHeader::ipv4(source, destination),
                (IpAddr::V6(source), IpAddr::V6(destination)) => PseudoHeader::ipv6(source, destination),
                _ => return datagram,
            };
            let sum = pseudo_header.udp(&datagram) ^ if kind == 14 { 0 } else { 1 << dice.below(16) };
            datagram[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {}
    }
    datagram
}

/// Rarely cut short, or with a few bytes changed.
fn broken(mut frame: Vec<u8>, dice: &mut Dice<'_>) -> Vec<u8> {
    match dice.below(24) {
        22 => frame.truncate(dice.below(120)),
        23 if !frame.is_empty() => {
            for _ in 0..=dice.below(2) {
                let at = dice.below(frame.len().min(120));
                frame[at] ^= 1 << dice.below(8);
            }
        }
        _ => {}
    }
    frame
}
