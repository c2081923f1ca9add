//! What the node answers: ARP, neighbour discovery, echo, ICMP errors; and fragmentation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_datapath::drops::DropReason;
use sluice_datapath::punt::PuntKind;
use sluice_intent::plan::{BfdPeer, Location};
use sluice_wire::MacAddr;
use sluice_wire::checksum::{PseudoHeader, checksum, verify};

use super::forward::is_deliverable;
use super::packet::{Frame, ICMP, ICMPV6, Ip, TCP, UDP, is_icmpv6_error};
use super::route::{addresses_of, is_link_local, link_local_of};
use super::{Arrived, Ingress, Run};
use crate::common::bytes::{self, ARP, IPV6};

/// Errors that gateways send.
#[derive(Clone, Copy, Debug)]
pub(super) enum IcmpError {
    NoRoute,
    HostUnreachable,
    PortUnreachable,
    ProtocolUnreachable,
    TimeExceeded,
    TooBig(u16),
}

impl IcmpError {
    /// Type, code and the four bytes behind the checksum: RFC 792 and RFC 1191, or RFC 4443.
    fn header(self, v6: bool) -> (u8, u8, [u8; 4]) {
        match (self, v6) {
            (Self::NoRoute, false) => (3, 0, [0; 4]),
            (Self::HostUnreachable, false) => (3, 1, [0; 4]),
            (Self::ProtocolUnreachable, false) => (3, 2, [0; 4]),
            (Self::PortUnreachable, false) => (3, 3, [0; 4]),
            (Self::TimeExceeded, false) => (11, 0, [0; 4]),
            (Self::TooBig(mtu), false) => (3, 4, [0, 0, (mtu >> 8) as u8, mtu as u8]),
            (Self::NoRoute, true) => (1, 0, [0; 4]),
            (Self::HostUnreachable, true) => (1, 3, [0; 4]),
            (Self::PortUnreachable, true) => (1, 4, [0; 4]),
            (Self::ProtocolUnreachable, true) => (4, 1, [0, 0, 0, 6]),
            (Self::TimeExceeded, true) => (3, 0, [0; 4]),
            (Self::TooBig(mtu), true) => (2, 0, [0, 0, (mtu >> 8) as u8, mtu as u8]),
        }
    }
}

/// Who has an address, as far as this node says.
enum Owner {
    Is(MacAddr, bool),
    AskTheSegment,
    AnsweredElsewhere,
}

impl Run<'_> {
    /// The addresses of a segment's gateway there, with the link-local one.
    pub(super) fn gateway_addresses(&self, segment: usize) -> Vec<IpAddr> {
        let planned = &self.plan.segments[segment];
        if planned.gateway.is_none() || planned.gateway_addresses.is_empty() {
            return Vec::new();
        }
        let mut addresses = addresses_of(&planned.gateway_addresses);
        addresses.push(link_local_of(self.plan.router_mac));
        addresses
    }

    /// ARP or neighbour discovery on a segment: answered, ignored, or switched like any other frame.
    pub(super) fn segment_neighbor(&mut self, arrived: &Arrived, segment: usize) {
        let reply = match &arrived.frame.ip {
            None => self.answer_arp(arrived, segment),
            Some(ip) => self.answer_solicitation(arrived, ip, segment),
        };
        match reply {
            Err(reason) => self.drop(reason),
            Ok(Some(frame)) => self.send_back(arrived, &frame),
            Ok(None) => {
                let for_gateway = !self.gateway_addresses(segment).is_empty();
                if for_gateway && arrived.frame.destination == self.plan.router_mac {
                    return self.drop(DropReason::Consumed);
                }
                self.switch(arrived, segment);
            }
        }
    }

    /// RFC 826; the reply, if there is one from here.
    fn answer_arp(&self, arrived: &Arrived, segment: usize) -> Result<Option<Vec<u8>>, DropReason> {
        let packet = arrived.frame.payload.get(..28).ok_or(DropReason::Malformed)?;
        if packet[..6] != [0, 1, 8, 0, 6, 4] {
            return Err(DropReason::Malformed);
        }
        if packet[6..8] != [0, 1] {
            return Ok(None);
        }
        let v4 = |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
        let (asker, asker_address, target) =
            (MacAddr(packet[8..14].try_into().expect("6 bytes")), v4(14), v4(24));
        match self.owner(arrived.ingress, segment, target.into(), asker_address.into()) {
            Owner::AskTheSegment => Ok(None),
            Owner::AnsweredElsewhere => Err(DropReason::Consumed),
            Owner::Is(mac, _) => {
                let packet = bytes::arp(2, (mac, target), (asker, asker_address));
                Ok(Some(bytes::ethernet(asker, mac, ARP, &packet)))
            }
        }
    }

    /// RFC 4861 sections 7.1.1 and 7.2.4.
    fn answer_solicitation(
        &self,
        arrived: &Arrived,
        ip: &Ip,
        segment: usize,
    ) -> Result<Option<Vec<u8>>, DropReason> {
        if ip.icmpv6 != Some(135) || ip.upper != 40 {
            return Ok(None);
        }
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (ip.source, ip.destination) else {
            return Ok(None);
        };
        let message = &arrived.frame.packet()[40..];
        let target = valid_solicitation(message, ip.ttl, source, destination).ok_or(DropReason::Malformed)?;
        let (mac, router) = match self.owner(arrived.ingress, segment, target.into(), source.into()) {
            Owner::AskTheSegment => return Ok(None),
            Owner::AnsweredElsewhere => return Err(DropReason::Consumed),
            Owner::Is(mac, router) => (mac, router),
        };
        let detection = source.is_unspecified();
        let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let to = if detection { all_nodes } else { source };
        let flags = 0x20 | if router { 0x80 } else { 0 } | if detection { 0 } else { 0x40 };
        let option = [&[2, 1][..], &mac.octets()].concat();
        let body = bytes::neighbor_body(target, &option);
        let message = bytes::icmp(target.into(), to.into(), 136, 0, [flags, 0, 0, 0], &body);
        let header = bytes::IpHeader { ttl: 255, ..bytes::IpHeader::new(58) };
        let packet = bytes::ip(&header, target.into(), to.into(), &message);
        // To all nodes as well the frame goes to the one that asked (RFC 6085).
        Ok(Some(bytes::ethernet(arrived.frame.source, mac, IPV6, &packet)))
    }

    fn owner(&self, from: Ingress, segment: usize, target: IpAddr, asker: IpAddr) -> Owner {
        let tunnel = matches!(from, Ingress::Tunnel { .. });
        if self.gateway_addresses(segment).contains(&target) {
            if tunnel && !self.answers_tunnels() {
                return Owner::AnsweredElsewhere;
            }
            return Owner::Is(self.plan.router_mac, true);
        }
        // Announcements (RFC 5227 section 3) are for all; what another node sent on was not answered there.
        if tunnel || asker == target {
            return Owner::AskTheSegment;
        }
        let known = self
            .plan
            .workloads
            .iter()
            .find(|w| w.segment.index() == segment && w.addresses.contains(&target));
        let Some(known) = known else { return Owner::AskTheSegment };
        let itself = match (known.location, from) {
            (Location::Port { port, vlan }, Ingress::Workload { port: at, vlan: tag, .. }) => {
                (port, vlan.map_or(0, u16::from)) == (at, tag)
            }
            _ => false,
        };
        if itself { Owner::AskTheSegment } else { Owner::Is(known.mac, false) }
    }

    /// Sends a frame without tags back to where the packet came from.
    fn send_back(&mut self, arrived: &Arrived, frame: &[u8]) {
        match arrived.ingress {
            Ingress::Workload { port, vlan, .. } | Ingress::Uplink { port, vlan, .. } => {
                self.send(port, bytes::on_vlan(frame.to_vec(), vlan), None);
            }
            Ingress::Tunnel { segment } => match Frame::parse(frame, Some(self.plan.router_mac)) {
                Ok(parsed) => {
                    let reply = Arrived {
                        ingress: Ingress::Proxy,
                        frame: parsed,
                        outer_class: None,
                        ..arrived.clone()
                    };
                    self.send_on_segment(&reply, segment);
                }
                Err(reason) => self.drop(reason),
            },
            Ingress::Transit { .. } | Ingress::Gateway | Ingress::Proxy => self.drop(DropReason::NoService),
        }
    }

    /// A packet for the node itself: `gateway` is the one that has the address; none for a TEP.
    pub(super) fn deliver(
        &mut self,
        arrived: &Arrived,
        ip: &Ip,
        gateway: Option<usize>,
        arrival: Vec<IpAddr>,
    ) {
        if !is_deliverable(ip) {
            return self.drop(DropReason::MartianSource);
        }
        if ip.fragment || ip.many_extensions {
            return self.drop(DropReason::NoService);
        }
        let packet = arrived.frame.packet();
        if gateway.is_some() && self.is_bfd_neighbor(arrived, ip) {
            return match ip.ttl {
                255 => self.punt(PuntKind::Bfd, arrived),
                _ => self.drop(DropReason::BfdForwarded),
            };
        }
        match (echo_request(packet, ip), ip.protocol) {
            (Some(false), _) => self.drop(DropReason::BadChecksum),
            (None, ICMP | ICMPV6) => self.drop(DropReason::NoService),
            (None, protocol) => {
                let known = protocol == UDP || protocol == TCP;
                let error = if known { IcmpError::PortUnreachable } else { IcmpError::ProtocolUnreachable };
                match gateway {
                    Some(gateway) => {
                        self.refuse(arrived, ip, error, DropReason::NoService, gateway, &arrival)
                    }
                    None => self.drop(DropReason::NoService),
                }
            }
            (Some(true), _) => {
                let reply = echo_reply(packet, ip);
                let on_link = ip.is_v6() && (is_link_local(ip.source) || is_link_local(ip.destination));
                match gateway {
                    Some(gateway) if !on_link => self.originate(gateway, &reply),
                    _ => {
                        let frame = &arrived.frame;
                        let back = bytes::ethernet(frame.source, frame.destination, frame.ethertype, &reply);
                        self.send_back(arrived, &back);
                    }
                }
            }
        }
    }

    /// UDP to port 3784 from a neighbour that is watched, on its interface, to the address that it is watched from.
    fn is_bfd_neighbor(&self, arrived: &Arrived, ip: &Ip) -> bool {
        let Ingress::Uplink { interface: Some((gateway, number)), .. } = arrived.ingress else {
            return false;
        };
        let mut peers = self.plan.gateways[gateway].bfd_peers.iter();
        let between = (ip.source, ip.destination);
        let watched =
            |peer: &BfdPeer| usize::from(peer.interface) == number && (peer.address, peer.local) == between;
        ip.protocol == UDP && ip.ports.1 == 3784 && peers.any(watched)
    }

    pub(super) fn refuse_too_big(
        &mut self,
        arrived: &Arrived,
        ip: &Ip,
        mtu: u16,
        gateway: usize,
        arrival: &[IpAddr],
    ) {
        self.refuse(arrived, ip, IcmpError::TooBig(mtu), DropReason::TooBig, gateway, arrival);
    }

    /// Drops a packet and tells its sender, where that may be (RFC 1812 section 4.3.2.7, RFC 4443 section 2.4 e).
    pub(super) fn refuse(
        &mut self,
        arrived: &Arrived,
        ip: &Ip,
        error: IcmpError,
        reason: DropReason,
        gateway: usize,
        arrival: &[IpAddr],
    ) {
        self.drop(reason);
        let source = arrival.iter().find(|address| address.is_ipv6() == ip.is_v6());
        if let Some(source) = source
            && may_be_told(arrived, ip, error)
        {
            let message = error_message(error, *source, ip.source, arrived.frame.packet());
            self.originate(gateway, &message);
        }
    }

    pub(super) fn may_fragment(&self, packet: &[u8]) -> bool {
        packet[0] >> 4 == 4 && packet[6] & 0x40 == 0
    }

    /// The packet, or its fragments if it is longer than `mtu` (RFC 791 section 3.2, "An Example Fragmentation Procedure").
    pub(super) fn fragments(&self, packet: Vec<u8>, mtu: usize) -> Vec<Vec<u8>> {
        if packet.len() <= mtu {
            return vec![packet];
        }
        let header_length = usize::from(packet[0] & 0x0f) * 4;
        let blocks = (mtu - header_length) / 8;
        let (data, rest) = packet[header_length..].split_at(blocks * 8);
        let field = u16::from_be_bytes([packet[6], packet[7]]);
        let first = fragment(packet[..header_length].to_vec(), field | 0x2000, data);
        // The more-fragments flag stays, the offset moves on.
        let rest = fragment(header_of_the_others(&packet[..header_length]), field + blocks as u16, rest);
        let mut all = vec![first];
        all.extend(self.fragments(rest, mtu));
        all
    }
}

/// A fragment with this field of flags and offset.
fn fragment(mut header: Vec<u8>, field: u16, data: &[u8]) -> Vec<u8> {
    let total = (header.len() + data.len()) as u16;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[6..8].copy_from_slice(&field.to_be_bytes());
    header[10..12].fill(0);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header, data.to_vec()].concat()
}

/// "Selectively copy the internet header": without the options that have no copied flag (RFC 791 section 3.1).
fn header_of_the_others(header: &[u8]) -> Vec<u8> {
    let mut copied = header[..20].to_vec();
    let mut at = 20;
    while at < header.len() && header[at] != 0 {
        let length = if header[at] == 1 { 1 } else { usize::from(header[at + 1]) };
        if header[at] >= 128 {
            copied.extend(&header[at..at + length]);
        }
        at += length;
    }
    while !copied.len().is_multiple_of(4) {
        copied.push(0);
    }
    copied[0] = 0x40 + (copied.len() / 4) as u8;
    copied
}

/// The target of a solicitation that RFC 4861 section 7.1.1 calls valid.
fn valid_solicitation(
    message: &[u8],
    hop_limit: u8,
    source: Ipv6Addr,
    destination: Ipv6Addr,
) -> Option<Ipv6Addr> {
    let octets: [u8; 16] = message.get(8..24)?.try_into().ok()?;
    let target = Ipv6Addr::from(octets);
    let mut options = &message[24..];
    let mut has_link_layer_address = false;
    while !options.is_empty() {
        let length = usize::from(*options.get(1)?) * 8;
        has_link_layer_address |= options[0] == 1;
        options = options.get(length..).filter(|_| length > 0)?;
    }
    let [.., a, b, c] = target.octets();
    let solicited_node =
        Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    let detection = source.is_unspecified();
    let right = hop_limit == 255
        && message[1] == 0
        && PseudoHeader::ipv6(source, destination).verify_icmpv6(message)
        && !target.is_multicast()
        && !(detection && (destination != solicited_node || has_link_layer_address));
    right.then_some(target)
}

/// Whether the packet is an echo request, and its checksum right. Behind an extension header none is looked for.
fn echo_request(packet: &[u8], ip: &Ip) -> Option<bool> {
    let message = &packet[ip.upper..];
    match (ip.source, ip.destination) {
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let echo =
                ip.protocol == ICMPV6 && ip.upper == 40 && message.len() >= 8 && message[..2] == [128, 0];
            echo.then(|| PseudoHeader::ipv6(source, destination).verify_icmpv6(message))
        }
        _ => {
            let echo = ip.protocol == ICMP && message.len() >= 8 && message[..2] == [8, 0];
            echo.then(|| verify(message))
        }
    }
}

/// RFC 792, RFC 4443 section 4.2: addresses change places, and the type changes.
fn echo_reply(packet: &[u8], ip: &Ip) -> Vec<u8> {
    let mut reply = packet.to_vec();
    let kind = if ip.is_v6() { 129 } else { 0 };
    let message = &packet[ip.upper..];
    let rest = [message[4], message[5], message[6], message[7]];
    let message = bytes::icmp(ip.destination, ip.source, kind, 0, rest, &message[8..]);
    reply[ip.upper..].copy_from_slice(&message);
    if ip.is_v6() {
        reply[7] = 64;
        reply[8..24].copy_from_slice(&packet[24..40]);
        reply[24..40].copy_from_slice(&packet[8..24]);
    } else {
        reply[8] = 64;
        reply[12..16].copy_from_slice(&packet[16..20]);
        reply[16..20].copy_from_slice(&packet[12..16]);
        reply[10..12].fill(0);
        let sum = checksum(&reply[..ip.upper]);
        reply[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    reply
}

/// RFC 1812 section 4.3.2.7 for IPv4, RFC 4443 section 2.4 (e) for IPv6.
fn may_be_told(arrived: &Arrived, ip: &Ip, error: IcmpError) -> bool {
    let unicast = |address: IpAddr| match address {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified() || v4.is_loopback() || v4.is_multicast() || v4.is_broadcast())
        }
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast()),
    };
    // (e.3) to (e.5) leave out what is too big for the way to a group.
    let of_group = ip.is_v6() && ip.destination.is_multicast() && matches!(error, IcmpError::TooBig(_));
    if !unicast(ip.source) || !(unicast(ip.destination) || of_group) {
        return false;
    }
    let to_group = arrived.frame.destination.is_multicast();
    if to_group && !(ip.is_v6() && matches!(error, IcmpError::TooBig(_))) {
        return false;
    }
    let packet = arrived.frame.packet();
    if ip.is_v6() {
        return is_icmpv6_error(packet) == Some(false);
    }
    if u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff != 0 {
        return false;
    }
    let query = |kind: &u8| matches!(kind, 0 | 8 | 9 | 10 | 13..=18);
    ip.protocol != ICMP || packet.get(ip.upper).is_some_and(query)
}

/// The error about a packet: at most 576 bytes in IPv4 (RFC 1812 section 4.3.2.3), the least MTU in IPv6 (RFC 4443 section 2.4 c).
fn error_message(error: IcmpError, from: IpAddr, to: IpAddr, about: &[u8]) -> Vec<u8> {
    let v6 = from.is_ipv6();
    let (kind, code, rest) = error.header(v6);
    let room = if v6 { 1280 - 40 - 8 } else { 576 - 20 - 8 };
    let message = bytes::icmp(from, to, kind, code, rest, &about[..about.len().min(room)]);
    // Precedence «internetwork control» (RFC 1812 section 4.3.2.5).
    let protocol = if v6 { ICMPV6 } else { ICMP };
    let header = bytes::IpHeader { class: 0xc0, fragment: 0x4000, ..bytes::IpHeader::new(protocol) };
    bytes::ip(&header, from, to, &message)
}
