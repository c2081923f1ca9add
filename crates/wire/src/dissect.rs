//! One line about a frame, for people: traces and logs.
//!
//! ```text
//! 02:00:00:00:00:0a > 02:00:00:00:00:0b VLAN 100 | IPv4 10.0.0.1 > 10.0.0.2 ttl 64 | UDP 40000 > 53, 20 octets
//! ```
//!
//! Every layer that this crate knows is shown, within tunnels too. A layer that cannot be read is named with
//! its problem and ends the line. The text is for eyes; nothing shall parse it.
//!
//! Checksums that do not match are pointed out. Those of packets on their way to a NIC that completes them do
//! not.

use core::fmt::{self, Display, Formatter};

use crate::arp::{ArpOperation, ArpPacket};
use crate::bfd::BfdPacket;
use crate::checksum::PseudoHeader;
use crate::ethernet::EthernetView;
use crate::geneve::GeneveView;
use crate::icmpv4::{Icmpv4, Icmpv4View};
use crate::icmpv6::{Icmpv6, Icmpv6View};
use crate::ipv4::Ipv4View;
use crate::ipv6::Ipv6View;
use crate::marker::MarkerKind;
use crate::neighbor::{NeighborMessage, NeighborOption, NeighborView};
use crate::slow_protocols::SlowProtocol;
use crate::tcp::TcpView;
use crate::udp::{self, UdpView};
use crate::vxlan::VxlanView;
use crate::{EtherType, IpProtocol, Vni, WireError};

/// Packets within packets that are shown: tunnels, IP in IP, and what ICMP errors quote.
const MAX_DEPTH: u8 = 4;

/// A one-line summary of the Ethernet frame in `frame`, whatever its octets are.
pub fn dissect(frame: &[u8]) -> impl Display {
    fmt::from_fn(move |f| Summary { f, depth: 0 }.ethernet(frame))
}

/// What one line is written with.
struct Summary<'a, 'b> {
    f: &'a mut Formatter<'b>,
    depth: u8,
}

impl Summary<'_, '_> {
    fn ethernet(&mut self, bytes: &[u8]) -> fmt::Result {
        let view = match EthernetView::parse(bytes) {
            Ok(view) => view,
            Err(error) => return self.malformed(error),
        };
        write!(self.f, "{} > {}", view.source(), view.destination())?;
        for tag in [view.outer_tag(), view.inner_tag()].into_iter().flatten() {
            write!(self.f, " VLAN {}", tag.id)?;
            if tag.priority > 0 {
                write!(self.f, " priority {}", tag.priority)?;
            }
        }
        self.network(view.ether_type(), view.payload())
    }

    fn network(&mut self, ether_type: EtherType, bytes: &[u8]) -> fmt::Result {
        self.f.write_str(" | ")?;
        match ether_type {
            EtherType::IPV4 => self.ipv4(Ipv4View::parse(bytes)),
            EtherType::IPV6 => self.ipv6(Ipv6View::parse(bytes)),
            EtherType::ARP => self.arp(bytes),
            EtherType::SLOW_PROTOCOLS => self.slow_protocols(bytes),
            length if length.is_length() => write!(self.f, "802.3, {} octets", bytes.len()),
            other => write!(self.f, "{other}, {} octets", bytes.len()),
        }
    }

    fn arp(&mut self, bytes: &[u8]) -> fmt::Result {
        let packet = match ArpPacket::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => return self.malformed(error),
        };
        let (sender, target) = (packet.sender_address(), packet.target_address());
        match packet.operation() {
            ArpOperation::REQUEST => write!(self.f, "ARP who has {target}? {sender} asks"),
            ArpOperation::REPLY => write!(self.f, "ARP {sender} is at {}", packet.sender_mac()),
            ArpOperation(other) => write!(self.f, "ARP operation {other}, {sender} > {target}"),
        }
    }

    fn slow_protocols(&mut self, bytes: &[u8]) -> fmt::Result {
        match SlowProtocol::parse(bytes) {
            Ok(SlowProtocol::Lacp(packet)) => {
                let (actor, partner) = (packet.actor(), packet.partner());
                write!(self.f, "LACP {} port {} {}", actor.system, actor.port, actor.state)?;
                write!(self.f, " > {} port {} {}", partner.system, partner.port, partner.state)
            }
            Ok(SlowProtocol::Marker(packet)) => {
                let kind = if packet.kind() == MarkerKind::Marker { "marker" } else { "marker response" };
                let (system, port) = (packet.requester_system(), packet.requester_port());
                write!(self.f, "{kind} {} of {system} port {port}", packet.requester_transaction())
            }
            Ok(SlowProtocol::Other { subtype }) => {
                write!(self.f, "slow protocol {subtype}, {} octets", bytes.len())
            }
            Err(error) => self.malformed(error),
        }
    }

    fn ipv4(&mut self, parsed: Result<Ipv4View<'_>, WireError>) -> fmt::Result {
        let view = match parsed {
            Ok(view) => view,
            Err(error) => return self.malformed(error),
        };
        write!(self.f, "IPv4 {} > {} ttl {}", view.source(), view.destination(), view.ttl())?;
        self.checksum(view.verify_checksum())?;
        if view.is_fragment() {
            let (offset, more) = (u32::from(view.fragment_offset()), view.more_fragments());
            self.fragment(u32::from(view.identification()), offset, more)?;
        }
        if view.fragment_offset() > 0 {
            return self.unread(view.protocol(), view.payload());
        }
        let complete = !view.is_fragment() && view.payload().len() == view.total_len() - view.header_len();
        self.transport(view.protocol(), view.payload(), complete.then(|| view.pseudo_header()))
    }

    fn ipv6(&mut self, parsed: Result<Ipv6View<'_>, WireError>) -> fmt::Result {
        let view = match parsed {
            Ok(view) => view,
            Err(error) => return self.malformed(error),
        };
        write!(self.f, "IPv6 {} > {} hop limit {}", view.source(), view.destination(), view.hop_limit())?;
        let mut routed = false;
        for header in view.extension_headers().flatten() {
            write!(self.f, ", {}", header.protocol)?;
            routed |= header.protocol == IpProtocol::ROUTING;
        }
        let fragment = view.fragment().filter(|fragment| !fragment.is_atomic());
        if let Some(fragment) = fragment {
            self.fragment(fragment.identification, u32::from(fragment.offset), fragment.more_fragments)?;
            if fragment.offset > 0 {
                return self.unread(view.upper_layer(), view.upper_payload());
            }
        }
        // Behind a routing header the checksum is over the final destination, which this line does not look
        // for.
        let whole = fragment.is_none() && view.payload().len() == usize::from(view.payload_len());
        let pseudo = (whole && !routed).then(|| view.pseudo_header());
        self.transport(view.upper_layer(), view.upper_payload(), pseudo)
    }

    fn fragment(&mut self, identification: u32, offset: u32, more: bool) -> fmt::Result {
        write!(self.f, ", fragment {identification} at {offset}{}", if more { "+" } else { "" })
    }

    /// `pseudo` is absent where the octets are not the whole segment, whose checksum says nothing then.
    fn transport(&mut self, protocol: IpProtocol, bytes: &[u8], pseudo: Option<PseudoHeader>) -> fmt::Result {
        self.f.write_str(" | ")?;
        let result = match (protocol, pseudo) {
            (IpProtocol::TCP | IpProtocol::UDP, None) => return self.ports(protocol, bytes),
            (IpProtocol::UDP, Some(pseudo)) => UdpView::parse(bytes).map(|view| self.udp(view, pseudo)),
            (IpProtocol::TCP, Some(pseudo)) => TcpView::parse(bytes).map(|view| self.tcp(view, pseudo)),
            (IpProtocol::ICMP, _) => Icmpv4View::parse(bytes).map(|view| self.icmpv4(view, pseudo.is_some())),
            (IpProtocol::ICMPV6, _) => Icmpv6View::parse(bytes).map(|view| self.icmpv6(view, bytes, pseudo)),
            (IpProtocol::IPV4, _) => Ok(self.nested(|inner| inner.ipv4(Ipv4View::parse(bytes)))),
            (IpProtocol::IPV6, _) => Ok(self.nested(|inner| inner.ipv6(Ipv6View::parse(bytes)))),
            (IpProtocol::ESP, _) => Ok(self.esp(bytes)),
            (other, _) => Ok(write!(self.f, "{other}, {} octets", bytes.len())),
        };
        result.unwrap_or_else(|error| self.malformed(error))
    }

    /// What the middle of a payload is of.
    fn unread(&mut self, protocol: IpProtocol, bytes: &[u8]) -> fmt::Result {
        write!(self.f, " | {protocol}, {} octets", bytes.len())
    }

    /// The ports of a segment that is not whole.
    fn ports(&mut self, protocol: IpProtocol, bytes: &[u8]) -> fmt::Result {
        match bytes {
            [a, b, c, d, ..] => {
                let (source, destination) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
                write!(self.f, "{protocol} {source} > {destination}")
            }
            _ => write!(self.f, "{protocol}, {} octets", bytes.len()),
        }
    }

    fn esp(&mut self, bytes: &[u8]) -> fmt::Result {
        match bytes.first_chunk::<4>() {
            Some(spi) => write!(self.f, "ESP SPI 0x{:08x}, {} octets", u32::from_be_bytes(*spi), bytes.len()),
            None => write!(self.f, "ESP, {} octets", bytes.len()),
        }
    }

    fn udp(&mut self, view: UdpView<'_>, pseudo: PseudoHeader) -> fmt::Result {
        let payload = view.payload();
        write!(self.f, "UDP {} > {}, {} octets", view.source_port(), view.destination_port(), payload.len())?;
        // An absent checksum is the rule under tunnels over IPv6 (RFC 6935), and no error to point out.
        if view.checksum() != 0 {
            self.checksum(view.verify_checksum(pseudo))?;
        }
        match view.destination_port() {
            udp::port::GENEVE => self.geneve(payload),
            udp::port::VXLAN => self.vxlan(payload),
            udp::port::BFD => self.bfd(payload),
            _ => Ok(()),
        }
    }

    fn tcp(&mut self, view: TcpView<'_>, pseudo: PseudoHeader) -> fmt::Result {
        write!(
            self.f,
            "TCP {} > {} {} seq {}, {} octets",
            view.source_port(),
            view.destination_port(),
            view.flags(),
            view.sequence(),
            view.payload().len()
        )?;
        self.checksum(view.verify_checksum(pseudo))
    }

    fn icmpv4(&mut self, view: Icmpv4View<'_>, whole: bool) -> fmt::Result {
        match Icmpv4::from(view) {
            Icmpv4::EchoRequest { identifier, sequence } => {
                write!(self.f, "ICMP echo request {identifier} seq {sequence}")
            }
            Icmpv4::EchoReply { identifier, sequence } => {
                write!(self.f, "ICMP echo reply {identifier} seq {sequence}")
            }
            Icmpv4::DestinationUnreachable { code, next_hop_mtu: 0 } => {
                write!(self.f, "ICMP destination unreachable code {code}")
            }
            Icmpv4::DestinationUnreachable { code, next_hop_mtu } => {
                write!(self.f, "ICMP destination unreachable code {code} mtu {next_hop_mtu}")
            }
            Icmpv4::Redirect { gateway, .. } => write!(self.f, "ICMP redirect to {gateway}"),
            Icmpv4::TimeExceeded { code } => write!(self.f, "ICMP time exceeded code {code}"),
            Icmpv4::ParameterProblem { pointer, .. } => write!(self.f, "ICMP parameter problem at {pointer}"),
            Icmpv4::Other { kind, code, .. } => write!(self.f, "ICMP type {kind} code {code}"),
        }?;
        if whole {
            self.checksum(view.verify_checksum())?;
        }
        if !view.is_error() {
            return Ok(());
        }
        self.f.write_str(" | quotes ")?;
        self.nested(|inner| inner.ipv4(Ipv4View::parse_quoted(view.payload())))
    }

    fn icmpv6(&mut self, view: Icmpv6View<'_>, message: &[u8], pseudo: Option<PseudoHeader>) -> fmt::Result {
        if view.is_neighbor_discovery()
            && let Ok(neighbor) = NeighborView::parse(message)
        {
            self.neighbor(neighbor)?;
        } else {
            self.icmpv6_message(Icmpv6::from(view))?;
        }
        if let Some(pseudo) = pseudo {
            self.checksum(view.verify_checksum(pseudo))?;
        }
        if !view.is_error() {
            return Ok(());
        }
        self.f.write_str(" | quotes ")?;
        self.nested(|inner| inner.ipv6(Ipv6View::parse_quoted(view.payload())))
    }

    fn icmpv6_message(&mut self, message: Icmpv6) -> fmt::Result {
        match message {
            Icmpv6::DestinationUnreachable { code } => {
                write!(self.f, "ICMPv6 destination unreachable code {code}")
            }
            Icmpv6::PacketTooBig { mtu } => write!(self.f, "ICMPv6 packet too big mtu {mtu}"),
            Icmpv6::TimeExceeded { code } => write!(self.f, "ICMPv6 time exceeded code {code}"),
            Icmpv6::ParameterProblem { code, pointer } => {
                write!(self.f, "ICMPv6 parameter problem code {code} at {pointer}")
            }
            Icmpv6::EchoRequest { identifier, sequence } => {
                write!(self.f, "ICMPv6 echo request {identifier} seq {sequence}")
            }
            Icmpv6::EchoReply { identifier, sequence } => {
                write!(self.f, "ICMPv6 echo reply {identifier} seq {sequence}")
            }
            Icmpv6::Other { kind, code, .. } => write!(self.f, "ICMPv6 type {kind} code {code}"),
        }
    }

    fn neighbor(&mut self, view: NeighborView<'_>) -> fmt::Result {
        match view.message() {
            NeighborMessage::RouterSolicitation => write!(self.f, "ICMPv6 router solicitation"),
            NeighborMessage::RouterAdvertisement(router) => {
                write!(self.f, "ICMPv6 router advertisement for {} s", router.router_lifetime)
            }
            NeighborMessage::NeighborSolicitation { target } => write!(self.f, "ICMPv6 who has {target}?"),
            NeighborMessage::NeighborAdvertisement(neighbor) => {
                write!(self.f, "ICMPv6 neighbour advertisement of {}", neighbor.target)
            }
        }?;
        for option in view.options() {
            match option {
                NeighborOption::SourceLinkLayer(mac) => write!(self.f, " from {mac}"),
                NeighborOption::TargetLinkLayer(mac) => write!(self.f, " at {mac}"),
                NeighborOption::Mtu(mtu) => write!(self.f, " mtu {mtu}"),
                NeighborOption::PrefixInformation(prefix) => {
                    write!(self.f, " prefix {}/{}", prefix.prefix, prefix.prefix_len)
                }
                NeighborOption::Other { kind, .. } => write!(self.f, " option {kind}"),
            }?;
        }
        Ok(())
    }

    fn geneve(&mut self, bytes: &[u8]) -> fmt::Result {
        self.f.write_str(" | ")?;
        let view = match GeneveView::parse(bytes) {
            Ok(view) => view,
            Err(error) => return self.malformed(error),
        };
        write!(self.f, "Geneve VNI {}", view.vni().map_or(0, Vni::get))?;
        if view.is_control() {
            self.f.write_str(" control")?;
        }
        for option in view.options() {
            let critical = if option.is_critical() { " critical" } else { "" };
            write!(self.f, " option {:04x}:{:02x}{critical}", option.class, option.kind)?;
        }
        self.tunnelled(view.protocol(), view.payload())
    }

    fn vxlan(&mut self, bytes: &[u8]) -> fmt::Result {
        self.f.write_str(" | ")?;
        let view = match VxlanView::parse(bytes) {
            Ok(view) => view,
            Err(error) => return self.malformed(error),
        };
        write!(self.f, "VXLAN VNI {}", view.vni().map_or(0, Vni::get))?;
        self.tunnelled(EtherType::TRANSPARENT_ETHERNET, view.payload())
    }

    fn bfd(&mut self, bytes: &[u8]) -> fmt::Result {
        self.f.write_str(" | ")?;
        let packet = match BfdPacket::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => return self.malformed(error),
        };
        let (mine, yours) = (packet.my_discriminator(), packet.your_discriminator());
        write!(self.f, "BFD {} 0x{mine:08x} > 0x{yours:08x}, {}", packet.state(), packet.diagnostic())?;
        let flags = [(packet.poll_flag(), " poll"), (packet.final_flag(), " final")];
        flags.iter().filter(|(set, _)| *set).try_for_each(|(_, name)| self.f.write_str(name))
    }

    fn tunnelled(&mut self, ether_type: EtherType, bytes: &[u8]) -> fmt::Result {
        self.nested(|inner| match ether_type {
            EtherType::TRANSPARENT_ETHERNET => {
                inner.f.write_str(" | ")?;
                inner.ethernet(bytes)
            }
            other => inner.network(other, bytes),
        })
    }

    fn nested(&mut self, write: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        if self.depth == MAX_DEPTH {
            return self.f.write_str(" ...");
        }
        self.depth += 1;
        let result = write(self);
        self.depth -= 1;
        result
    }

    fn checksum(&mut self, verified: Result<(), WireError>) -> fmt::Result {
        if verified.is_ok() { Ok(()) } else { self.f.write_str(" (wrong checksum)") }
    }

    fn malformed(&mut self, error: WireError) -> fmt::Result {
        write!(self.f, "malformed {error}")
    }
}

#[cfg(test)]
#[path = "dissect_tests.rs"]
mod tests;
