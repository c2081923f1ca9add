//! Tunnels: what is accepted from them, and what is sent through them.

use std::net::IpAddr;

use sluice_datapath::drops::DropReason;
use sluice_datapath::neighbor::NeighborKey;
use sluice_intent::plan::{Encapsulation, Location, PortIndex, Teaming, TepIndex, Tier};
use sluice_wire::MacAddr;
use sluice_wire::checksum::verify;

use super::packet::Ip;
use super::{Arrived, Flow, Ingress, Outer, Run, Ways};
use crate::common::bytes;

const GENEVE_PORT: u16 = 6081;
const VXLAN_PORT: u16 = 4789;

/// Where a tunnel ends, the inner frame, and the outer traffic class.
pub(super) type Decapsulated = (Ingress, Vec<u8>, u8);

/// What a tunnel needs to know of a segment or transit segment.
#[derive(Clone)]
pub(super) struct Overlay {
    vni: u32,
    encapsulation: Encapsulation,
    teps: Vec<TepIndex>,
    teaming: Teaming,
}

impl Overlay {
    pub(super) fn of_segment(segment: &sluice_intent::plan::Segment) -> Self {
        let sluice_intent::plan::Segment { vni, encapsulation, teaming, .. } = *segment;
        Self { vni: vni.into(), encapsulation, teps: segment.teps.clone(), teaming }
    }

    pub(super) fn of_transit(transit: &sluice_intent::plan::Transit) -> Self {
        let sluice_intent::plan::Transit { vni, encapsulation, teaming, .. } = *transit;
        Self { vni: vni.into(), encapsulation, teps: transit.teps.clone(), teaming }
    }
}

/// A way to a remote TEP.
#[derive(Clone, Debug)]
pub(super) struct Tunnel {
    vni: u32,
    encapsulation: Encapsulation,
    local: IpAddr,
    remote: IpAddr,
    port: PortIndex,
    vlan: u16,
    /// Largest outer IP packet.
    mtu: usize,
    pub(super) next_hop: NeighborKey,
}

impl Tunnel {
    /// Largest layer-3 packet of an inner frame: what outer IP, UDP, tunnel and inner Ethernet header leave.
    pub(super) fn inner_mtu(&self) -> usize {
        let ip = if self.remote.is_ipv4() { 20 } else { 40 };
        self.mtu.saturating_sub(ip + 8 + 8 + 14)
    }
}

impl Run<'_> {
    /// The tunnel that a flow takes to the node with this TEP.
    pub(super) fn tunnel(
        &mut self,
        arrived: &Arrived,
        flow: &Flow,
        overlay: &Overlay,
        remote: IpAddr,
    ) -> Option<Tunnel> {
        let tunnels = self.tunnels(overlay, remote);
        let pairs = tunnels.iter().map(|tunnel| (tunnel.local, tunnel.remote)).collect();
        let by_source = matches!(overlay.teaming, Teaming::SourcePort | Teaming::SourceMac);
        let source = by_source.then_some((arrived.ingress, arrived.frame.source));
        let chosen = self.choose_of(flow, Ways::Tunnels(pairs, source));
        tunnels.into_iter().nth(chosen)
    }

    /// All that there are: from each TEP of the right family that may carry it, in failover order from the first that has a way; to the TEP or all
    /// of its group.
    pub(super) fn tunnels(&self, overlay: &Overlay, remote: IpAddr) -> Vec<Tunnel> {
        let teps = overlay.teps.iter().map(|tep| &self.plan.teps[tep.index()]);
        let mut tunnels = Vec::new();
        for tep in teps.filter(|tep| tep.address.addr().is_ipv4() == remote.is_ipv4()) {
            if overlay.teaming == Teaming::FailoverOrder && !tunnels.is_empty() {
                break;
            }
            let remotes = self.same_node(remote).into_iter();
            tunnels.extend(remotes.filter_map(|remote| self.tunnel_between(overlay, tep, remote)));
        }
        tunnels
    }

    /// The TEPs of the node that has this one.
    pub(super) fn same_node(&self, remote: IpAddr) -> Vec<IpAddr> {
        let group = self.plan.remote_tep_groups.iter().find(|group| group.teps.contains(&remote));
        group.map_or(vec![remote], |group| group.teps.clone())
    }

    fn tunnel_between(
        &self,
        overlay: &Overlay,
        tep: &sluice_intent::plan::Tep,
        remote: IpAddr,
    ) -> Option<Tunnel> {
        let Overlay { vni, encapsulation, .. } = *overlay;
        let address = if tep.address.contains(&remote) { remote } else { tep.gateway? };
        let port = self.plan.uplinks[tep.uplink.index()].port;
        let vlan = tep.vlan.map_or(0, u16::from);
        Some(Tunnel {
            vni,
            encapsulation,
            local: tep.address.addr(),
            remote,
            port,
            vlan,
            mtu: usize::from(tep.mtu),
            next_hop: NeighborKey { port, vlan, address },
        })
    }

    /// Sends an inner frame through a tunnel whose next hop has this MAC address.
    pub(super) fn encapsulate(
        &mut self,
        tunnel: &Tunnel,
        next_hop: MacAddr,
        inner: &[u8],
        class: u8,
        flow: &Flow,
    ) {
        let (udp_port, payload) = match tunnel.encapsulation {
            Encapsulation::Geneve => (GENEVE_PORT, bytes::geneve(tunnel.vni, 0, 0x6558, &[], inner)),
            Encapsulation::Vxlan => (VXLAN_PORT, bytes::vxlan(tunnel.vni, 0x08, inner)),
        };
        let header = bytes::IpHeader { class, fragment: 0x4000, ..bytes::IpHeader::new(17) };
        let packet = bytes::ip(&header, tunnel.local, tunnel.remote, &bytes::udp(0, udp_port, &payload));
        assert!(packet.len() <= tunnel.mtu, "the model sends no outer packet that the TEP's MTU forbids");
        let ethertype = if tunnel.remote.is_ipv4() { bytes::IPV4 } else { bytes::IPV6 };
        let source = self.reference.macs[tunnel.port.index()];
        let frame = bytes::on_vlan(bytes::ethernet(next_hop, source, ethertype, &packet), tunnel.vlan);
        let network = frame.len() - packet.len();
        let (ip, label) = if tunnel.remote.is_ipv4() { (20, None) } else { (40, Some(network)) };
        self.send(tunnel.port, frame, Some(Outer { flow: flow.clone(), source_port: network + ip, label }));
    }

    fn is_local_tep(&self, address: IpAddr, port: PortIndex, vlan: u16) -> bool {
        let here = |tep: &sluice_intent::plan::Tep| {
            tep.address.addr() == address
                && self.plan.uplinks[tep.uplink.index()].port == port
                && tep.vlan.map_or(0, u16::from) == vlan
        };
        self.plan.teps.iter().any(here)
    }

    fn is_remote_tep(&self, address: IpAddr) -> bool {
        if self.plan.teps.iter().any(|tep| tep.address.addr() == address) {
            return false;
        }
        let of_segment = self.plan.segments.iter().any(|segment| segment.remote_teps.contains(&address));
        let of_workload =
            self.plan.workloads.iter().any(|workload| workload.location == Location::RemoteTep(address));
        let of_router = self.plan.gateways.iter().any(|gateway| match &gateway.tier {
            Tier::Tier0 { transit: Some(transit), .. } => {
                transit.service_routers.iter().any(|router| router.tep == address)
            }
            _ => false,
        });
        let of_group = self.plan.remote_tep_groups.iter().any(|group| group.teps.contains(&address));
        of_segment || of_workload || of_router || of_group
    }

    /// Whether a packet to this node's MAC address is for a TEP on the uplink that it came in on.
    pub(super) fn is_for_tep(&self, ip: &Ip, port: PortIndex, vlan: u16) -> bool {
        self.is_local_tep(ip.destination, port, vlan)
    }

    /// Whether a packet to a TEP of this node is BFD of the tunnel itself: VNI 0, in Geneve the O bit, UDP to port 3784 inside.
    pub(super) fn carries_bfd(&self, ip: &Ip, packet: &[u8]) -> bool {
        if ip.protocol != 17 || ip.many_extensions || ip.fragment || !self.is_remote_tep(ip.source) {
            return false;
        }
        let Ok(payload) = datagram(ip, &packet[ip.upper..]) else { return false };
        if payload[4..7] != [0, 0, 0] {
            return false;
        }
        let frame = match ip.ports.1 {
            GENEVE_PORT
                if payload[0] >> 6 == 0 && payload[1] & 0x80 != 0 && payload[2..4] == [0x65, 0x58] =>
            {
                let Ok(options) = geneve_options(payload) else { return false };
                &payload[8 + options..]
            }
            VXLAN_PORT if payload[0] & 0x08 != 0 => &payload[8..],
            _ => return false,
        };
        has_bfd(frame)
    }

    /// What a packet to a TEP of this node carries; none for what is no tunnel packet.
    pub(super) fn decapsulate(&self, ip: &Ip, packet: &[u8]) -> Option<Result<Decapsulated, DropReason>> {
        if ip.protocol != 17 || ip.many_extensions {
            return None;
        }
        if ip.fragment {
            return Some(Err(DropReason::OuterFragment));
        }
        let encapsulation = match ip.ports.1 {
            GENEVE_PORT => Encapsulation::Geneve,
            VXLAN_PORT => Encapsulation::Vxlan,
            _ => return None,
        };
        if !self.is_remote_tep(ip.source) {
            return Some(Err(DropReason::UnknownTep));
        }
        let inner = datagram(ip, &packet[ip.upper..]).and_then(|payload| self.accept(encapsulation, payload));
        Some(inner.map(|(ingress, frame)| (ingress, frame, ip.class)))
    }

    /// Checks a tunnel header and what follows it.
    fn accept(&self, encapsulation: Encapsulation, payload: &[u8]) -> Result<(Ingress, Vec<u8>), DropReason> {
        let header = payload.get(..8).ok_or(DropReason::Truncated)?;
        let mut length = 8;
        match encapsulation {
            Encapsulation::Geneve => {
                length += check_geneve(payload)?;
                if header[2..4] != [0x65, 0x58] {
                    return Err(DropReason::TunnelPayload);
                }
            }
            Encapsulation::Vxlan if header[0] & 0x08 == 0 => return Err(DropReason::VxlanFlags),
            Encapsulation::Vxlan => {}
        }
        let vni = u32::from_be_bytes([0, header[4], header[5], header[6]]);
        let ingress = self.ingress_of(vni, encapsulation).ok_or(DropReason::UnknownVni)?;
        let frame = &payload[length..];
        if frame.len() < 14 {
            return Err(DropReason::Truncated);
        }
        Ok((ingress, frame.to_vec()))
    }

    fn ingress_of(&self, vni: u32, encapsulation: Encapsulation) -> Option<Ingress> {
        let same = |other: sluice_wire::Vni, kind| (u32::from(other), kind) == (vni, encapsulation);
        let segment = self.plan.segments.iter().position(|segment| same(segment.vni, segment.encapsulation));
        let transit = (0..self.plan.gateways.len()).find(|gateway| {
            let transit = self.transit(*gateway).filter(|transit| same(transit.vni, transit.encapsulation));
            transit.is_some() && self.own_service_router(*gateway).is_some()
        });
        let segment = segment.map(|segment| Ingress::Tunnel { segment });
        segment.or_else(|| transit.map(|gateway| Ingress::Transit { gateway }))
    }
}

/// The payload of the UDP datagram in a tunnel packet (RFC 768): long enough for a tunnel header, as long as its header says, and with a
/// checksum that holds, if it has one (RFC 8926 section 3.3; RFC 6935 has none over IPv6 either).
fn datagram<'a>(ip: &Ip, upper: &'a [u8]) -> Result<&'a [u8], DropReason> {
    let length = u16::from_be_bytes([upper[4], upper[5]]);
    let datagram = upper.get(..usize::from(length)).filter(|datagram| datagram.len() >= 8 + 8);
    let datagram = datagram.ok_or(DropReason::Malformed)?;
    if datagram[6..8] != [0, 0] {
        let pseudo_header = match (ip.source, ip.destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => [&from.octets()[..], &to.octets(), &[0, 17]].concat(),
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                [&from.octets()[..], &to.octets(), &[0, 0, 0, 0, 0, 17]].concat()
            }
            _ => unreachable!("a packet has addresses of one family"),
        };
        if !verify(&[&pseudo_header[..], &length.to_be_bytes(), datagram].concat()) {
            return Err(DropReason::BadChecksum);
        }
    }
    Ok(&datagram[8..])
}

/// Checks a Geneve header and returns the length of its options (RFC 8926 sections 3.4 and 3.5).
fn check_geneve(payload: &[u8]) -> Result<usize, DropReason> {
    if payload[0] >> 6 != 0 {
        return Err(DropReason::GeneveVersion);
    }
    if payload[1] & 0x80 != 0 {
        return Err(DropReason::GeneveControl);
    }
    geneve_options(payload)
}

fn geneve_options(payload: &[u8]) -> Result<usize, DropReason> {
    let length = usize::from(payload[0] & 0x3f) * 4;
    let mut options = payload.get(8..8 + length).ok_or(DropReason::Truncated)?;
    while !options.is_empty() {
        // Options are a multiple of four bytes each, as the whole is.
        if options[2] & 0x80 != 0 {
            return Err(DropReason::GeneveCriticalOption);
        }
        options = options.get(4 + usize::from(options[3] & 0x1f) * 4..).ok_or(DropReason::Malformed)?;
    }
    Ok(length)
}

/// Whether a frame is untagged and has UDP to port 3784 in one piece, behind IPv4 without options or IPv6 without extension headers.
fn has_bfd(frame: &[u8]) -> bool {
    let field = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    match frame.get(12..14) {
        Some([0x08, 0x00]) if frame.len() >= 14 + 28 => {
            let whole = field(20) & 0x3fff == 0;
            let fits = (28..=frame.len() - 14).contains(&usize::from(field(16)));
            frame[14] == 0x45 && whole && frame[23] == 17 && fits && field(36) == 3784
        }
        Some([0x86, 0xdd]) if frame.len() >= 14 + 48 => {
            let fits = (8..=frame.len() - 54).contains(&usize::from(field(18)));
            frame[14] >> 4 == 6 && frame[20] == 17 && fits && field(56) == 3784
        }
        _ => false,
    }
}
