//! From a frame to its flow key: the first stage of the data path.
//!
//! Every packet passes here: [`usual`] takes the usual shapes at fixed offsets, and the rest of this module everything else. It finds where the packet enters ([`IngressId`]), strips tunnels that end at this node in thought (the bytes stay),
//! checks what must hold before anything is forwarded, and leaves the positions that a rewrite needs.

mod bfd;
mod extensions;
mod recent;
mod usual;

use std::net::IpAddr;

use sluice_intent::plan::{Encapsulation, PortIndex};
use sluice_wire::checksum::PseudoHeader;
use sluice_wire::{EtherType, IpProtocol};

use crate::drops::DropReason;
use crate::flow::{FRAGMENT, FlowKey, IPV6, MANY_EXTENSIONS, NOT_IP, PRIORITY_TAG, TUNNEL_BFD};
use crate::snapshot::tunnel::vni_key;
use crate::snapshot::{Ingress, IngressId, IngressKind, PortIngress, Snapshot};
pub(crate) use extensions::upper_layer;
pub(crate) use recent::RecentTunnels;
use usual::Destination;

/// A packet's flow and where its headers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// The flow.
    pub(crate) key: FlowKey,
    /// Where the layer-3 header of the (inner) frame begins.
    pub(crate) network: u16,
    /// Where that frame ends: what follows belongs to the outer frame.
    pub(crate) end: u16,
    /// Bytes of the layer-3 packet, Ethernet padding left out; up to the end of the frame if it is not IP.
    pub(crate) network_length: u16,
    /// Time to live or hop limit; 255 if the packet is not IP.
    pub(crate) ttl: u8,
    /// [`TAGGED`], and the ECN field (RFC 3168 section 5) of the outer header; 0 if the packet came in no tunnel.
    pub(crate) marks: u8,
}

/// The ECN field in [`Parsed::marks`].
pub(crate) const OUTER_ECN: u8 = 3;
/// In [`Parsed::marks`]: there is an 802.1Q tag between the Ethernet header of the frame and the layer-3 header.
pub(crate) const TAGGED: u8 = 4;

impl Parsed {
    /// Where the layer-3 header begins.
    #[inline(always)]
    pub(crate) fn network(&self) -> usize {
        usize::from(self.network)
    }

    /// Where the Ethernet header of the (inner) frame begins.
    #[inline(always)]
    pub(crate) fn frame(&self) -> usize {
        // The bit is worth the length of a tag.
        usize::from(self.network).saturating_sub(14 + usize::from(self.marks & TAGGED))
    }
}

/// UDP port of Geneve (RFC 8926 section 3.3), in wire order.
const GENEVE_PORT: [u8; 2] = 6081u16.to_be_bytes();
/// UDP port of VXLAN (RFC 7348 section 5), in wire order.
const VXLAN_PORT: [u8; 2] = 4789u16.to_be_bytes();
const UDP: u8 = IpProtocol::UDP.0;
const TCP: u8 = IpProtocol::TCP.0;
const ICMPV6: u8 = IpProtocol::ICMPV6.0;
/// UDP and tunnel header: what a tunnel packet's datagram is never shorter than.
const TUNNEL_HEADERS: usize = 8 + 8;
/// Longest IPv4 datagram, a reassembled one as well (RFC 791 section 3.1).
const MAX_DATAGRAM: usize = 65_535;
const MAC: u64 = 0xffff_ffff_ffff;

/// Where the packets of a batch come in, looked up once for all of them.
pub(crate) struct Entrance<'a> {
    snapshot: &'a Snapshot,
    port: &'a PortIngress,
    untagged: Option<(Destination, &'a Ingress)>,
}

impl<'a> Entrance<'a> {
    /// The entrance at `port`; none where the snapshot has no such port.
    pub(crate) fn of(snapshot: &'a Snapshot, port: PortIndex) -> Option<Self> {
        let port = snapshot.port(port)?;
        let untagged =
            port.untagged.map(|id| (Destination::of(id, snapshot.ingress(id)), snapshot.ingress(id)));
        Some(Self { snapshot, port, untagged })
    }

    /// Parses a frame that came in here into `parsed`, which is undefined on error.
    #[inline(always)]
    pub(crate) fn parse(
        &self,
        data: &[u8],
        recent: &mut RecentTunnels,
        parsed: &mut Parsed,
    ) -> Result<(), DropReason> {
        if let Some((at, _)) = self.untagged
            && usual::parse(self, at, data, recent, parsed)
        {
            return Ok(());
        }
        *parsed = parse_any(self.snapshot, self.port, data)?;
        Ok(())
    }
}

/// Parses whatever it is.
#[inline(never)]
fn parse_any(snapshot: &Snapshot, port: &PortIngress, data: &[u8]) -> Result<Parsed, DropReason> {
    let ethertype = bytes_at(data, 12).ok_or(DropReason::Truncated)?;
    if EtherType(u16::from_be_bytes(ethertype)).is_vlan() {
        return parse_tagged(snapshot, port, data);
    }
    let ingress = port.untagged.ok_or(DropReason::UnknownVlan)?;
    parse_frame::<true>(snapshot, ingress, data, 0, 14, ethertype)
}

/// Parses a frame as if it had entered at `ingress`: for packets that this node makes itself.
pub(crate) fn parse_at(snapshot: &Snapshot, ingress: IngressId, data: &[u8]) -> Result<Parsed, DropReason> {
    let ethertype = bytes_at(data, 12).ok_or(DropReason::Truncated)?;
    parse_frame::<false>(snapshot, ingress, data, 0, 14, ethertype)
}

fn parse_tagged(snapshot: &Snapshot, port: &PortIngress, data: &[u8]) -> Result<Parsed, DropReason> {
    let tag: [u8; 2] = bytes_at(data, 14).ok_or(DropReason::Truncated)?;
    let ethertype: [u8; 2] = bytes_at(data, 16).ok_or(DropReason::Truncated)?;
    if EtherType(u16::from_be_bytes(ethertype)).is_vlan() {
        return Err(DropReason::UnsupportedTags);
    }
    let vlan = u16::from_be_bytes(tag) & 0xfff;
    // VLAN 0: only the priority is meant (IEEE 802.1Q section 6.9.1).
    let ingress = if vlan == 0 { port.untagged } else { port.tagged.get(&vlan).copied() };
    let mut parsed =
        parse_frame::<true>(snapshot, ingress.ok_or(DropReason::UnknownVlan)?, data, 0, 18, ethertype)?;
    if vlan == 0 && parsed.frame() == 0 {
        parsed.key.0[5] |= u64::from(PRIORITY_TAG);
    }
    Ok(parsed)
}

/// `OUTER`: the frame may end a tunnel.
#[inline(always)]
fn parse_frame<const OUTER: bool>(
    snapshot: &Snapshot,
    id: IngressId,
    data: &[u8],
    frame: usize,
    network: usize,
    ethertype: [u8; 2],
) -> Result<Parsed, DropReason> {
    let ingress = snapshot.ingress(id);
    let destination = u64::from_le_bytes(bytes_at(data, frame).ok_or(DropReason::Truncated)?) & MAC;
    let source = u64::from_le_bytes(bytes_at(data, frame + 4).ok_or(DropReason::Truncated)?) >> 16;
    let routed = destination == ingress.mac;
    let mut parsed = Parsed {
        network: network as u16,
        end: u16::try_from(data.len()).unwrap_or(u16::MAX),
        ttl: 255,
        marks: if network - frame == 18 { TAGGED } else { 0 },
        ..Parsed::default()
    };
    parsed.key.0[4] = u64::from(id.0);
    if !(routed && ingress.layer3) {
        // In the key, no MAC address stands for this node's.
        if destination == 0
            && matches!(ingress.kind, IngressKind::Uplink { .. } | IngressKind::Transit { .. })
        {
            return Err(DropReason::NotForThisNode);
        }
        parsed.key.0[5] = destination << 16;
        parsed.key.0[6] = source << 16;
    }
    match EtherType(u16::from_be_bytes(ethertype)) {
        EtherType::IPV4 => parse_ipv4::<OUTER>(snapshot, ingress, routed, data, parsed),
        EtherType::IPV6 => parse_ipv6::<OUTER>(snapshot, ingress, routed, data, parsed),
        other if !OUTER && other.is_vlan() => Err(DropReason::InnerTag),
        other => {
            parsed.key.0[5] |= u64::from(NOT_IP);
            parsed.key.0[6] |= u64::from(other.0);
            parsed.network_length = (data.len() - network.min(data.len())) as u16;
            Ok(parsed)
        }
    }
}

#[inline(always)]
fn parse_ipv4<const OUTER: bool>(
    snapshot: &Snapshot,
    ingress: &Ingress,
    routed: bool,
    data: &[u8],
    mut parsed: Parsed,
) -> Result<Parsed, DropReason> {
    let network = parsed.network();
    let header: &[u8; 20] = data.get(network..).and_then(<[u8]>::first_chunk).ok_or(DropReason::Truncated)?;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if network + total > data.len() {
        return Err(DropReason::Truncated);
    }
    let header_length = if header[0] == 0x45 { 20 } else { check_ipv4_options(data, network, routed)? };
    if total < header_length {
        return Err(DropReason::Malformed);
    }
    if routed && header_length == 20 && !checksum_holds(header) {
        return Err(DropReason::BadChecksum);
    }
    parsed.network_length = total as u16;
    parsed.ttl = header[8];
    let protocol = header[9];
    // More fragments, or an offset.
    let fragment = (header[6] & 0x3f) | header[7] != 0;
    parsed.key.0[0] = u64::from_le_bytes([
        header[12], header[13], header[14], header[15], header[16], header[17], header[18], header[19],
    ]);
    parsed.key.0[4] |= u64::from(protocol) << 24;
    if fragment {
        let offset = usize::from(u16::from_be_bytes([header[6] & 0x1f, header[7]])) * 8;
        if offset + total > MAX_DATAGRAM {
            return Err(DropReason::Malformed);
        }
        parsed.key.0[5] |= u64::from(FRAGMENT);
    } else if protocol == UDP || protocol == TCP {
        if total < header_length + 8 {
            return Err(DropReason::Truncated);
        }
        let ports: [u8; 4] = bytes_at(data, network + header_length).ok_or(DropReason::Truncated)?;
        if OUTER && ingress.layer3 && routed && protocol == UDP {
            let destination = (parsed.key.0[0] >> 32) as u32;
            if let Some(encapsulation) = tunnel_port(ports)
                && ingress.teps_v4.contains(&destination)
            {
                if !snapshot.is_remote_tep_v4(parsed.key.0[0] as u32) {
                    return Err(DropReason::UnknownTep);
                }
                let (udp, end) = (network + header_length, network + total);
                let data = tunnel_datagram(data, udp, end, &parsed.key)?;
                if bfd::is_bfd(encapsulation, data, udp) {
                    parsed.key.0[5] |= u64::from(TUNNEL_BFD);
                    return Ok(parsed);
                }
                return parse_tunnel(snapshot, encapsulation, data, udp, header[1]);
            }
        }
        parsed.key.0[4] |= u64::from(u32::from_le_bytes(ports)) << 32;
    }
    if fragment
        && OUTER
        && routed
        && protocol == UDP
        && ingress.teps_v4.contains(&((parsed.key.0[0] >> 32) as u32))
    {
        return Err(DropReason::OuterFragment);
    }
    Ok(parsed)
}

#[inline(always)]
fn parse_ipv6<const OUTER: bool>(
    snapshot: &Snapshot,
    ingress: &Ingress,
    routed: bool,
    data: &[u8],
    mut parsed: Parsed,
) -> Result<Parsed, DropReason> {
    let network = parsed.network();
    let header: &[u8; 40] = data.get(network..).and_then(<[u8]>::first_chunk).ok_or(DropReason::Truncated)?;
    if header[0] >> 4 != 6 {
        return Err(DropReason::Malformed);
    }
    let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if network + total > data.len() {
        return Err(DropReason::Truncated);
    }
    parsed.network_length = total as u16;
    parsed.ttl = header[7];
    for word in 0..4 {
        parsed.key.0[word] = bytes_at(header, 8 + word * 8).map_or(0, u64::from_le_bytes);
    }
    parsed.key.0[5] |= u64::from(IPV6);
    let (mut protocol, mut transport) = (header[6], network + 40);
    if extensions::is_extension(protocol) {
        let walked = extensions::walk(data, network, total, protocol)?;
        if walked.count > 1 {
            parsed.key.0[5] |= u64::from(MANY_EXTENSIONS);
            return Ok(parsed);
        }
        if walked.fragment {
            let destination = u128::from(parsed.key.0[2]) | u128::from(parsed.key.0[3]) << 64;
            if OUTER && routed && walked.protocol == UDP && ingress.teps_v6.contains(&destination) {
                return Err(DropReason::OuterFragment);
            }
            parsed.key.0[4] |= u64::from(walked.protocol) << 24;
            parsed.key.0[5] |= u64::from(FRAGMENT);
            return Ok(parsed);
        }
        (protocol, transport) = (walked.protocol, walked.transport);
    }
    parsed.key.0[4] |= u64::from(protocol) << 24;
    let end = network + total;
    if protocol == UDP || protocol == TCP {
        if transport + 8 > end {
            return Err(DropReason::Truncated);
        }
        let ports: [u8; 4] = bytes_at(data, transport).ok_or(DropReason::Truncated)?;
        if OUTER && ingress.layer3 && routed && protocol == UDP {
            let address =
                |low: usize| u128::from(parsed.key.0[low]) | u128::from(parsed.key.0[low + 1]) << 64;
            if let Some(encapsulation) = tunnel_port(ports)
                && ingress.teps_v6.contains(&address(2))
            {
                if !snapshot.is_remote_tep_v6(address(0)) {
                    return Err(DropReason::UnknownTep);
                }
                let traffic_class = header[0] << 4 | header[1] >> 4;
                let data = tunnel_datagram(data, transport, end, &parsed.key)?;
                if bfd::is_bfd(encapsulation, data, transport) {
                    parsed.key.0[5] |= u64::from(TUNNEL_BFD);
                    return Ok(parsed);
                }
                return parse_tunnel(snapshot, encapsulation, data, transport, traffic_class);
            }
        }
        parsed.key.0[4] |= u64::from(u32::from_le_bytes(ports)) << 32;
    } else if protocol == ICMPV6 {
        let [kind]: [u8; 1] =
            bytes_at(data, transport).filter(|_| transport < end).ok_or(DropReason::Truncated)?;
        parsed.key.0[6] |= u64::from(kind);
    }
    Ok(parsed)
}

/// The frame up to the end of the datagram at `udp`, of a tunnel packet with the key `outer` that ends at `end`, if the UDP header says
/// what is right.
#[inline(always)]
fn tunnel_datagram<'a>(
    data: &'a [u8],
    udp: usize,
    end: usize,
    outer: &FlowKey,
) -> Result<&'a [u8], DropReason> {
    let [_, _, _, _, high, low, checksum @ ..]: [u8; 8] = bytes_at(data, udp).ok_or(DropReason::Truncated)?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length < TUNNEL_HEADERS || udp + length > end {
        return Err(DropReason::Malformed);
    }
    let data = data.get(..udp + length).ok_or(DropReason::Truncated)?;
    // Tunnels may go without, over IPv6 as well (RFC 6935); a checksum that is there is to hold (RFC 8926 section 3.3, RFC 7348 section 5).
    if checksum != [0, 0] && !udp_checksum_holds(outer, &data[udp..]) {
        return Err(DropReason::BadChecksum);
    }
    Ok(data)
}

#[inline(never)]
fn udp_checksum_holds(key: &FlowKey, datagram: &[u8]) -> bool {
    let pseudo_header = match (key.source(), key.destination()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => PseudoHeader::ipv4(source, destination),
        (IpAddr::V6(source), IpAddr::V6(destination)) => PseudoHeader::ipv6(source, destination),
        // A key has addresses of one family.
        _ => return false,
    };
    pseudo_header.verify_udp(datagram)
}

/// Parses the frame inside a tunnel whose UDP header begins at `udp` and ends with the data.
#[inline(always)]
fn parse_tunnel(
    snapshot: &Snapshot,
    encapsulation: Encapsulation,
    data: &[u8],
    udp: usize,
    traffic_class: u8,
) -> Result<Parsed, DropReason> {
    let header: [u8; 8] = bytes_at(data, udp + 8).ok_or(DropReason::Truncated)?;
    let mut frame = udp + TUNNEL_HEADERS;
    match encapsulation {
        Encapsulation::Geneve => {
            if header[0] != 0 || header[1] != 0 {
                frame += check_geneve(header, data, frame)?;
            }
            if [header[2], header[3]] != EtherType::TRANSPARENT_ETHERNET.0.to_be_bytes() {
                return Err(DropReason::TunnelPayload);
            }
        }
        // The other flags and the reserved fields are ignored on receipt (RFC 7348 section 5).
        Encapsulation::Vxlan if header[0] & 0x08 == 0 => return Err(DropReason::VxlanFlags),
        Encapsulation::Vxlan => {}
    }
    let vni = u32::from_be_bytes([0, header[4], header[5], header[6]]);
    let ingress = snapshot.tunnel_ingress(vni_key(vni, encapsulation)).ok_or(DropReason::UnknownVni)?;
    let ethertype = bytes_at(data, frame + 12).ok_or(DropReason::Truncated)?;
    let mut parsed = parse_frame::<false>(snapshot, ingress, data, frame, frame + 14, ethertype)?;
    parsed.marks |= traffic_class & OUTER_ECN;
    Ok(parsed)
}

/// Checks a Geneve header that is not the plain one and returns the length of its options.
#[cold]
fn check_geneve(header: [u8; 8], data: &[u8], options: usize) -> Result<usize, DropReason> {
    if header[0] >> 6 != 0 {
        return Err(DropReason::GeneveVersion);
    }
    if header[1] & 0x80 != 0 {
        return Err(DropReason::GeneveControl);
    }
    check_geneve_options(header, data, options)
}

/// Checks the options of a Geneve header and returns their length.
fn check_geneve_options(header: [u8; 8], data: &[u8], options: usize) -> Result<usize, DropReason> {
    let length = usize::from(header[0] & 0x3f) * 4;
    let mut rest = data.get(options..options + length).ok_or(DropReason::Truncated)?;
    while let Some(option) = rest.first_chunk::<4>() {
        // No option is understood yet, so each critical one is unknown.
        if option[2] & 0x80 != 0 {
            return Err(DropReason::GeneveCriticalOption);
        }
        rest = rest.get(4 + usize::from(option[3] & 0x1f) * 4..).ok_or(DropReason::Malformed)?;
    }
    Ok(length)
}

#[inline(always)]
fn tunnel_port([_, _, high, low]: [u8; 4]) -> Option<Encapsulation> {
    match [high, low] {
        GENEVE_PORT => Some(Encapsulation::Geneve),
        VXLAN_PORT => Some(Encapsulation::Vxlan),
        _ => None,
    }
}

/// The header length of an IPv4 packet with options (or with another version, which is refused).
#[cold]
fn check_ipv4_options(data: &[u8], network: usize, routed: bool) -> Result<usize, DropReason> {
    let [first] = bytes_at(data, network).ok_or(DropReason::Truncated)?;
    let length = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || length < 20 {
        return Err(DropReason::Malformed);
    }
    let header = data.get(network..network + length).ok_or(DropReason::Truncated)?;
    if routed && !sluice_wire::checksum::verify(header) {
        return Err(DropReason::BadChecksum);
    }
    let mut options = &header[20..];
    while let Some((kind, rest)) = options.split_first() {
        match kind {
            0 => break,
            1 => options = rest,
            131 | 137 if routed => return Err(DropReason::SourceRouted),
            _ => {
                let length = usize::from(*rest.first().ok_or(DropReason::Malformed)?);
                if length < 2 {
                    return Err(DropReason::Malformed);
                }
                options = options.get(length..).ok_or(DropReason::Malformed)?;
            }
        }
    }
    Ok(length)
}

/// Whether the Internet checksum over a header without options holds (RFC 1071): whether the header, as a number to the base 2¹⁶, is a multiple of
/// 2¹⁶ − 1 but not 0. Since 2⁶⁴ leaves the remainder 1 as well, eight bytes are added at once, and the order of bytes does not matter.
#[inline(always)]
fn checksum_holds(header: &[u8; 20]) -> bool {
    /// The inverse of 2¹⁶ − 1 modulo 2⁶⁴. The product with it of a multiple of 2¹⁶ − 1 is the quotient; that of any other number is above every
    /// quotient.
    const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
    const LARGEST_QUOTIENT: u64 = u64::MAX / 0xffff;
    let word = |at: usize| header[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let (sum, carry) = word(0).overflowing_add(word(8));
    let last = header.last_chunk().map_or(0, |word| u64::from(u32::from_le_bytes(*word)));
    // No carry is lost: the last summand is below 2³², so that the sum wraps around to a small number if it does.
    let (sum, again) = sum.overflowing_add(last + u64::from(carry));
    let sum = sum.wrapping_add(u64::from(again));
    // 0 becomes the largest number of all.
    sum.wrapping_mul(INVERSE).wrapping_sub(1) < LARGEST_QUOTIENT
}

/// `N` bytes at `offset`, if they are there.
#[inline(always)]
fn bytes_at<const N: usize>(data: &[u8], offset: usize) -> Option<[u8; N]> {
    data.get(offset..)?.first_chunk().copied()
}
