//! From where a packet enters to where it leaves: switch, gateways, tunnels.

use std::net::IpAddr;

use sluice_datapath::drops::DropReason;
use sluice_datapath::punt::{Entry, PuntKind};
use sluice_intent::plan::{Location, PortIndex, Replication, Role, Tier};
use sluice_wire::MacAddr;

use super::packet::{Frame, Ip, decapsulated_ecn, lower_ttl, set_ecn};
use super::route::{Leaving, To, Verdict, addresses_of, is_martian_source};
use super::tunnel::Overlay;
use super::{Arrived, Ingress, Run};
use crate::common::bytes::{self, ARP, IPV4, IPV6};

/// Takes the tag off a frame: the VLAN (none without a tag), and the frame without it.
fn untag(frame: &[u8]) -> Result<(Option<u16>, Vec<u8>), DropReason> {
    let is_tag = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
    if frame.len() < 14 {
        return Err(DropReason::Truncated);
    }
    if !is_tag(12) {
        return Ok((None, frame.to_vec()));
    }
    if frame.len() < 18 {
        return Err(DropReason::Truncated);
    }
    if is_tag(16) {
        return Err(DropReason::UnsupportedTags);
    }
    let vlan = u16::from_be_bytes([frame[14], frame[15]]) & 0xfff;
    Ok((Some(vlan), [&frame[..12], &frame[16..]].concat()))
}

impl Run<'_> {
    /// A frame that came in at a port.
    pub(super) fn receive(&mut self, port: PortIndex, raw: &[u8]) {
        if let Err(reason) = self.try_receive(port, raw) {
            self.drop(reason);
        }
    }

    fn try_receive(&mut self, port: PortIndex, raw: &[u8]) -> Result<(), DropReason> {
        let (tag, bytes) = untag(raw)?;
        let ingress = self.attached(port, tag.unwrap_or(0)).ok_or(DropReason::UnknownVlan)?;
        let own = match ingress {
            Ingress::Uplink { .. } => self.reference.macs[port.index()],
            _ => self.plan.router_mac,
        };
        if matches!(ingress, Ingress::Uplink { .. }) && bytes[..6] == [0; 6] {
            return Err(DropReason::NotForThisNode);
        }
        let frame = Frame::parse(&bytes, Some(own))?;
        let arrived = Arrived {
            ingress,
            entry: Entry::Port(port),
            frame,
            tagged: tag.is_some(),
            outer_class: None,
            raw: raw.to_vec(),
        };
        match ingress {
            Ingress::Uplink { interface, port, vlan } => self.enter_uplink(arrived, interface, port, vlan),
            Ingress::Workload { segment, .. } => {
                self.enter_segment(&arrived, segment);
                Ok(())
            }
            _ => unreachable!("ports have workloads and uplinks only"),
        }
    }

    /// What a port and VLAN (0: untagged) belong to.
    fn attached(&self, port: PortIndex, vlan: u16) -> Option<Ingress> {
        let plan = self.plan;
        let of_workload = plan.workloads.iter().find_map(|workload| match workload.location {
            Location::Port { port: at, vlan: tag } if (at, tag.map_or(0, u16::from)) == (port, vlan) => {
                Some(Ingress::Workload { segment: workload.segment.index(), port, vlan })
            }
            _ => None,
        });
        let of_interface = || {
            plan.gateways.iter().enumerate().find_map(|(gateway, planned)| {
                let Tier::Tier0 { interfaces, .. } = &planned.tier else { return None };
                let number = interfaces.iter().position(|interface| {
                    plan.uplinks[interface.uplink.index()].port == port
                        && interface.vlan.map_or(0, u16::from) == vlan
                })?;
                Some(Ingress::Uplink { interface: Some((gateway, number)), port, vlan })
            })
        };
        let of_tep = || {
            let here = |tep: &sluice_intent::plan::Tep| {
                plan.uplinks[tep.uplink.index()].port == port && tep.vlan.map_or(0, u16::from) == vlan
            };
            plan.teps.iter().any(here).then_some(Ingress::Uplink { interface: None, port, vlan })
        };
        of_workload.or_else(of_interface).or_else(of_tep)
    }

    fn enter_uplink(
        &mut self,
        arrived: Arrived,
        interface: Option<(usize, usize)>,
        port: PortIndex,
        vlan: u16,
    ) -> Result<(), DropReason> {
        let ours = arrived.frame.destination == self.reference.macs[port.index()];
        let ip = arrived.frame.ip.clone();
        let for_tep = ip.as_ref().filter(|ip| ours && self.is_for_tep(ip, port, vlan));
        if for_tep.is_some_and(|ip| self.carries_bfd(ip, arrived.frame.packet())) {
            self.punt(PuntKind::Bfd, &arrived);
            return Ok(());
        }
        if let Some(ip) = for_tep
            && let Some(inner) = self.decapsulate(ip, arrived.frame.packet())
        {
            let (ingress, inner, class) = inner?;
            return self.leave_tunnel(&arrived, ingress, &inner, class);
        }
        if is_neighbor_protocol(&arrived.frame) {
            let kind = if ip.is_some() { PuntKind::NeighborDiscovery } else { PuntKind::Arp };
            self.punt(kind, &arrived);
            return Ok(());
        }
        if !ours {
            return Err(DropReason::NotForThisNode);
        }
        let ip = ip.ok_or(DropReason::NoService)?;
        if self.is_for_tep(&ip, port, vlan) {
            self.deliver(&arrived, &ip, None, Vec::new());
            return Ok(());
        }
        let (gateway, number) = interface.ok_or(DropReason::NotForThisNode)?;
        let Tier::Tier0 { interfaces, .. } = &self.plan.gateways[gateway].tier else {
            unreachable!("interfaces are a tier-0's")
        };
        let arrival = addresses_of(&interfaces[number].addresses);
        self.through_gateways(&arrived, &ip, gateway, arrival);
        Ok(())
    }

    fn leave_tunnel(
        &mut self,
        outer: &Arrived,
        ingress: Ingress,
        inner: &[u8],
        class: u8,
    ) -> Result<(), DropReason> {
        let own = match ingress {
            Ingress::Transit { gateway } => self.own_service_router(gateway).map(|router| router.mac),
            _ => Some(self.plan.router_mac),
        };
        if matches!(ingress, Ingress::Transit { .. }) && inner[..6] == [0; 6] {
            return Err(DropReason::NotForThisNode);
        }
        if matches!(inner[12..14], [0x81, 0x00] | [0x88, 0xa8]) {
            return Err(DropReason::InnerTag);
        }
        let frame = Frame::parse(inner, own)?;
        let arrived = Arrived { ingress, frame, tagged: false, outer_class: Some(class), ..outer.clone() };
        let ip = arrived.frame.ip.clone();
        if let Some(ip) = &ip
            && decapsulated_ecn(ip.class, class).is_none()
        {
            return Err(DropReason::CongestionUnmarkable);
        }
        match ingress {
            Ingress::Transit { gateway } => {
                if Some(arrived.frame.destination) != own {
                    return Err(DropReason::NotForThisNode);
                }
                let ip = ip.ok_or(DropReason::NoService)?;
                let arrival = self.own_service_router(gateway).map(|router| router.addresses.clone());
                self.through_gateways(&arrived, &ip, gateway, arrival.unwrap_or_default());
            }
            Ingress::Tunnel { segment } => self.enter_segment(&arrived, segment),
            _ => unreachable!("tunnels end in segments"),
        }
        Ok(())
    }

    /// A frame on a segment.
    fn enter_segment(&mut self, arrived: &Arrived, segment: usize) {
        // IEEE 802.3 section 3.2.3: the first bit of a source address is 0.
        if arrived.frame.source.octets()[0] & 1 != 0 {
            return self.drop(DropReason::GroupSource);
        }
        // IEEE 802.1Q section 8.6.3 and its table of reserved addresses: not relayed.
        let destination = arrived.frame.destination.octets();
        if destination[..5] == [0x01, 0x80, 0xc2, 0, 0] && destination[5] < 16 {
            return self.drop(DropReason::ReservedAddress);
        }
        if is_neighbor_protocol(&arrived.frame) {
            return self.segment_neighbor(arrived, segment);
        }
        let planned = &self.plan.segments[segment];
        let gateway = planned.gateway.filter(|_| !planned.gateway_addresses.is_empty());
        match gateway {
            Some(gateway) if arrived.frame.destination == self.plan.router_mac => {
                let Some(ip) = arrived.frame.ip.clone() else { return self.drop(DropReason::NoService) };
                let arrival = addresses_of(&planned.gateway_addresses);
                if self.gateway_addresses(segment).contains(&ip.destination) {
                    return self.deliver(arrived, &ip, Some(gateway.index()), arrival);
                }
                self.through_gateways(arrived, &ip, gateway.index(), arrival);
            }
            _ => self.switch(arrived, segment),
        }
    }

    /// Forwards a frame to the owner of its destination MAC address, or to all.
    pub(super) fn switch(&mut self, arrived: &Arrived, segment: usize) {
        let destination = arrived.frame.destination;
        if destination == MacAddr([0; 6]) {
            return self.drop(DropReason::Malformed);
        }
        match self.workload_with(segment, destination) {
            Some(location) => {
                if let Err(reason) = self.bridge(arrived, segment, location) {
                    match reason {
                        Unbridged::Drop(reason) => self.drop(reason),
                        Unbridged::Resolve(key) => self.punt(PuntKind::Resolve(key), arrived),
                    }
                }
            }
            None => self.replicate(arrived, segment),
        }
    }

    fn workload_with(&self, segment: usize, mac: MacAddr) -> Option<Location> {
        let mut workloads = self.plan.workloads.iter();
        workloads
            .find(|workload| workload.segment.index() == segment && workload.mac == mac)
            .map(|workload| workload.location)
    }

    /// A copy to every local workload and every remote TEP of the segment; from a tunnel to local workloads only.
    fn replicate(&mut self, arrived: &Arrived, segment: usize) {
        let planned = &self.plan.segments[segment];
        let of_segment = self.plan.workloads.iter().filter(|workload| workload.segment.index() == segment);
        let local = of_segment
            .map(|workload| workload.location)
            .filter(|place| matches!(place, Location::Port { .. }));
        let mut places: Vec<Location> = local.collect();
        if planned.replication == Replication::Source {
            let nodes = planned.remote_teps.iter().map(|tep| self.same_node(*tep)[0]);
            let mut nodes: Vec<IpAddr> = nodes.collect();
            let mut seen = std::collections::HashSet::new();
            nodes.retain(|node| seen.insert(*node));
            places.extend(nodes.into_iter().map(Location::RemoteTep));
        }
        let mut copies = 0;
        for place in places {
            match self.bridge(arrived, segment, place) {
                Ok(()) => copies += 1,
                Err(Unbridged::Drop(DropReason::TooBig)) => {
                    copies += 1;
                    self.drop(DropReason::TooBig);
                }
                Err(Unbridged::Resolve(_)) => self.drop(DropReason::NeighborUnreachable),
                // Where it came from, from a tunnel into a tunnel, or out of reach.
                Err(Unbridged::Drop(_)) => {}
            }
        }
        if copies == 0 {
            self.drop(DropReason::NoReceiver);
        }
    }

    /// Sends the frame to one place of its segment.
    fn bridge(&mut self, arrived: &Arrived, segment: usize, place: Location) -> Result<(), Unbridged> {
        let frame = &arrived.frame;
        let mut payload = frame.payload.clone();
        if let (Some(ip), Some(class)) = (&frame.ip, arrived.outer_class)
            && let Some(ecn) = decapsulated_ecn(ip.class, class)
            && ecn != ip.class & 3
        {
            set_ecn(&mut payload, ecn);
        }
        // A frame whose tag changes is written anew, without its padding.
        let written = |payload: &[u8], anew: bool| {
            let end = if anew { frame.packet().len() } else { payload.len() };
            bytes::ethernet(frame.destination, frame.source, frame.ethertype, &payload[..end])
        };
        match place {
            Location::Port { port, vlan } => {
                let vlan = vlan.map_or(0, u16::from);
                if matches!(arrived.ingress, Ingress::Workload { port: at, vlan: tag, .. } if (at, tag) == (port, vlan))
                {
                    return Err(Unbridged::Drop(DropReason::Hairpin));
                }
                let frame = written(&payload, arrived.tagged || vlan != 0);
                self.send(port, bytes::on_vlan(frame, vlan), None);
            }
            Location::RemoteTep(remote) => {
                let overlay = Overlay::of_segment(&self.plan.segments[segment]);
                if matches!(arrived.ingress, Ingress::Tunnel { .. })
                    && !self.tunnels(&overlay, remote).is_empty()
                {
                    return Err(Unbridged::Drop(DropReason::SplitHorizon));
                }
                let tunnel = self.tunnel(arrived, &frame.flow(), &overlay, remote);
                let tunnel = tunnel.ok_or(Unbridged::Drop(DropReason::NoReceiver))?;
                let next = self.neighbor(&tunnel.next_hop).ok_or(Unbridged::Resolve(tunnel.next_hop))?;
                let inner = written(&payload, arrived.tagged);
                if inner.len() - 14 > tunnel.inner_mtu() {
                    return Err(Unbridged::Drop(DropReason::TooBig));
                }
                let class = frame.ip.as_ref().map_or(0, |ip| ip.class);
                self.encapsulate(&tunnel, next, &inner, class, &frame.flow());
            }
        }
        Ok(())
    }

    /// Bridges a frame that the node itself sends on a segment.
    pub(super) fn send_on_segment(&mut self, arrived: &Arrived, segment: usize) {
        let Some(location) = self.workload_with(segment, arrived.frame.destination) else {
            return self.drop(DropReason::NoReceiver);
        };
        if let Err(reason) = self.bridge(arrived, segment, location) {
            match reason {
                Unbridged::Drop(reason) => self.drop(reason),
                // Such a frame has no place where it could be fed in again.
                Unbridged::Resolve(_) => self.drop(DropReason::NeighborUnreachable),
            }
        }
    }

    /// A packet that a gateway of this node is to forward.
    fn through_gateways(&mut self, arrived: &Arrived, ip: &Ip, gateway: usize, arrival: Vec<IpAddr>) {
        match self.route(arrived, ip, gateway, arrival) {
            Verdict::Leave(leaving) => self.forward(arrived, ip, &leaving),
            Verdict::Resolve(key) => self.punt(PuntKind::Resolve(key), arrived),
            Verdict::Deliver { gateway, arrival } => self.deliver(arrived, ip, Some(gateway), arrival),
            Verdict::Refuse { error, reason, gateway, arrival } => {
                self.refuse(arrived, ip, error, reason, gateway, &arrival)
            }
            Verdict::Drop(reason) => self.drop(reason),
        }
    }

    /// A packet that a gateway of this node sends.
    pub(super) fn originate(&mut self, gateway: usize, packet: &[u8]) {
        let nobody = MacAddr([0; 6]);
        let ethertype = if packet[0] >> 4 == 4 { IPV4 } else { IPV6 };
        let raw = bytes::ethernet(nobody, nobody, ethertype, packet);
        let frame = match Frame::parse(&raw, None) {
            Ok(frame) => frame,
            Err(reason) => return self.drop(reason),
        };
        let entry = Entry::Gateway(sluice_intent::plan::GatewayIndex(gateway as u16));
        let Some(ip) = frame.ip.clone() else { unreachable!("gateways send IP") };
        let arrived =
            Arrived { ingress: Ingress::Gateway, entry, frame, tagged: false, outer_class: None, raw };
        match self.route(&arrived, &ip, gateway, Vec::new()) {
            Verdict::Leave(leaving) => self.forward(&arrived, &ip, &leaving),
            Verdict::Resolve(key) => self.punt(PuntKind::Resolve(key), &arrived),
            Verdict::Drop(reason) | Verdict::Refuse { reason, .. } => self.drop(reason),
            Verdict::Deliver { .. } => self.drop(DropReason::NoReceiver),
        }
    }

    /// Sends a packet that the gateways forward, in fragments if it must be.
    fn forward(&mut self, arrived: &Arrived, ip: &Ip, leaving: &Leaving) {
        let mut packet = arrived.frame.packet().to_vec();
        if packet.len() > leaving.mtu && !self.may_fragment(&packet) {
            let mtu = leaving.mtu as u16;
            return self.refuse_too_big(arrived, ip, mtu, leaving.gateway, &leaving.arrival);
        }
        lower_ttl(&mut packet, leaving.hops);
        if let Some(ecn) = arrived.outer_class.and_then(|class| decapsulated_ecn(ip.class, class))
            && ecn != ip.class & 3
        {
            set_ecn(&mut packet, ecn);
        }
        let flow = arrived.frame.flow();
        for packet in self.fragments(packet, leaving.mtu) {
            let class = if ip.is_v6() { packet[0] << 4 | packet[1] >> 4 } else { packet[1] };
            let frame =
                bytes::ethernet(leaving.destination, leaving.source, arrived.frame.ethertype, &packet);
            match &leaving.to {
                To::Port(port, vlan) => self.send(*port, bytes::on_vlan(frame, *vlan), None),
                To::Tunnel(tunnel, next) => self.encapsulate(tunnel, *next, &frame, class, &flow),
            }
        }
    }

    /// Whether the gateways of this node answer for the segment's gateway when asked through a tunnel: hosts leave that to the
    /// node of the asker, which has the same gateway.
    pub(super) fn answers_tunnels(&self) -> bool {
        self.plan.role != Role::Host
    }
}

/// Why a frame did not get to a place.
pub(super) enum Unbridged {
    Drop(DropReason),
    Resolve(sluice_datapath::neighbor::NeighborKey),
}

/// ARP, or neighbour discovery in a message that is whole.
fn is_neighbor_protocol(frame: &Frame) -> bool {
    match &frame.ip {
        Some(ip) => matches!(ip.icmpv6, Some(133..=137)),
        None => frame.ethertype == ARP,
    }
}

/// Whether a packet may have this source when it is for the node itself: link-local ones may.
pub(super) fn is_deliverable(ip: &Ip) -> bool {
    !is_martian_source(ip.source)
}
