//! A rewrite as bytes, and its replay on a packet.

use sluice_intent::plan::{Encapsulation, PortIndex};
use sluice_wire::{EtherType, MacAddr};

use super::{Egress, Ethernet, Header, Rewrite};
use crate::buffer::PacketBuffer;
use crate::parse::{OUTER_ECN, Parsed};
use crate::snapshot::{Snapshot, Tunnel};

/// Longest header that is put in front: Ethernet, tag, IPv6, UDP, tunnel header, inner Ethernet.
pub(crate) const MAX_PUSH: usize = 14 + 4 + 40 + 8 + 8 + 14;

/// Why a rewrite cannot be replayed on a packet: the packet goes to the slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The time to live would run out on the way.
    TtlExpired,
    /// Longer than the MTU of where it goes.
    TooBig,
    /// The outer header says that congestion was met, and the inner cannot carry that on (RFC 6040 section 4.2).
    Unmarkable,
    /// The buffer has no room for the headers.
    NoRoom,
}

/// The outer headers of a compiled rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outer {
    None,
    V4,
    V6,
}

/// What happens to the frame's own header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inner {
    /// The frame stays as it is.
    Kept,
    /// The frame gets or loses a tag.
    Retagged,
    /// A new Ethernet header before an IPv4 packet.
    V4,
    /// A new Ethernet header before an IPv6 packet.
    V6,
    /// A new Ethernet header before something else.
    Other,
}

/// A rewrite as bytes. The first cache line holds what each packet needs and a new Ethernet header; longer headers reach into the second,
/// which processors fetch along with the first of an aligned pair.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub(crate) struct Compiled {
    outer: Outer,
    inner: Inner,
    /// Taken from the time to live.
    hops: u8,
    /// Least time to live with which a packet passes.
    least_ttl: u8,
    /// Bytes put in front.
    push: u8,
    /// Where the outer IP header begins in the pushed bytes.
    outer_network: u8,
    /// Where the MAC addresses of a frame that gets or loses a tag belong in the pushed bytes.
    stations: u8,
    pub(crate) port: PortIndex,
    mtu: u16,
    /// Sum over the outer IPv4 header without length, traffic class and checksum.
    outer_sum: u32,
    /// Which use of its slot in the table this is.
    pub(super) epoch: u32,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    header: [u8; MAX_PUSH],
}

const _: () = assert!(size_of::<Compiled>() == 128);

impl Compiled {
    /// Compiles a rewrite of the snapshot.
    pub(crate) fn new(rewrite: &Rewrite, snapshot: &Snapshot) -> Self {
        let mut writer = Writer { bytes: [0; MAX_PUSH], length: 0, stations: 0 };
        let (mut outer, mut outer_network, mut outer_sum) = (Outer::None, 0, 0);
        let port = match rewrite.egress {
            Egress::Port { port, vlan } => {
                writer.inner_ethernet(rewrite.ethernet, vlan);
                port
            }
            Egress::Tunnel { tunnel, destination, .. } => {
                let tunnel = snapshot.tunnel(tunnel);
                let v4 = tunnel.remote.is_ipv4();
                let ethertype = if v4 { EtherType::IPV4 } else { EtherType::IPV6 };
                writer.ethernet(destination, tunnel.source_mac, tunnel.vlan, ethertype);
                outer_network = writer.length;
                outer = if v4 { Outer::V4 } else { Outer::V6 };
                outer_sum = writer.outer_ip(tunnel);
                writer.tunnel(tunnel);
                writer.inner_ethernet(rewrite.ethernet, 0);
                tunnel.port
            }
        };
        let hops = rewrite.ethernet.header().map_or(0, |header| header.hops);
        Self {
            outer,
            inner: match rewrite.ethernet {
                Ethernet::Kept => Inner::Kept,
                Ethernet::Retagged => Inner::Retagged,
                Ethernet::New(Header { ethertype: EtherType::IPV4, .. }) => Inner::V4,
                Ethernet::New(Header { ethertype: EtherType::IPV6, .. }) => Inner::V6,
                Ethernet::New(_) => Inner::Other,
            },
            hops,
            least_ttl: if hops > 0 { hops.saturating_add(1) } else { 0 },
            push: writer.length as u8,
            outer_network: outer_network as u8,
            stations: writer.stations as u8,
            port,
            mtu: rewrite.mtu,
            outer_sum,
            epoch: 0,
            packets: 0,
            bytes: 0,
            header: writer.bytes,
        }
    }

    /// Changes the packet and returns the new length of its frame. On refusal it is unchanged.
    #[inline(always)]
    pub(crate) fn replay<B: PacketBuffer>(
        &self,
        buffer: &mut B,
        parsed: &Parsed,
        flow_hash: u64,
    ) -> Result<usize, Refused> {
        if parsed.network_length > self.mtu {
            return Err(Refused::TooBig);
        }
        if parsed.ttl < self.least_ttl {
            return Err(Refused::TtlExpired);
        }
        if parsed.marks & ECT_1 != 0 {
            return self.replay_marked(buffer, parsed, flow_hash);
        }
        self.replay_by_kind(buffer, parsed, flow_hash)
    }

    /// Replays on a packet whose outer header has an ECN field that the inner one must get.
    #[cold]
    fn replay_marked<B: PacketBuffer>(
        &self,
        buffer: &mut B,
        parsed: &Parsed,
        flow_hash: u64,
    ) -> Result<usize, Refused> {
        let before = carry_congestion(buffer, parsed)?;
        let result = self.replay_by_kind(buffer, parsed, flow_hash);
        if result.is_err()
            && let (Some(header), Some(before)) = (inner_header(buffer, parsed), before)
        {
            *header = before;
        }
        result
    }

    /// The usual kinds by name: what is constant in each is decided here, once.
    #[inline(always)]
    fn replay_by_kind<B: PacketBuffer>(
        &self,
        buffer: &mut B,
        parsed: &Parsed,
        flow_hash: u64,
    ) -> Result<usize, Refused> {
        match (self.inner, self.outer) {
            (Inner::V4, Outer::None) => self.replay_as(Inner::V4, Outer::None, buffer, parsed, flow_hash),
            (Inner::V4, Outer::V4) => self.replay_as(Inner::V4, Outer::V4, buffer, parsed, flow_hash),
            (Inner::V6, Outer::None) => self.replay_as(Inner::V6, Outer::None, buffer, parsed, flow_hash),
            (Inner::V6, Outer::V4) => self.replay_as(Inner::V6, Outer::V4, buffer, parsed, flow_hash),
            (inner, outer) => self.replay_as(inner, outer, buffer, parsed, flow_hash),
        }
    }

    #[inline(always)]
    fn replay_as<B: PacketBuffer>(
        &self,
        inner: Inner,
        outer: Outer,
        buffer: &mut B,
        parsed: &Parsed,
        flow_hash: u64,
    ) -> Result<usize, Refused> {
        let push = usize::from(self.push);
        let (mut traffic_class, mut stations) = (0, None);
        // What surrounds the kept bytes in the frame goes: old headers and, behind a packet with a length of its own, padding.
        let (pop, keep) = if inner == Inner::Kept {
            let frame = (parsed.frame(), usize::from(parsed.end).saturating_sub(parsed.frame()));
            if outer != Outer::None {
                if frame.1 > 14 + usize::from(self.mtu) {
                    return Err(Refused::TooBig);
                }
                traffic_class = bridged_traffic_class(parsed, buffer.data());
            }
            frame
        } else if inner == Inner::Retagged {
            traffic_class = bridged_traffic_class(parsed, buffer.data());
            stations = buffer.data().get(parsed.frame()..).and_then(<[u8]>::first_chunk::<12>).copied();
            // The EtherType stays with the packet.
            (parsed.network() - 2, usize::from(parsed.network_length) + 2)
        } else {
            (parsed.network(), usize::from(parsed.network_length))
        };
        let data = buffer.reframe(pop, push, keep).ok_or(Refused::NoRoom)?;
        match inner {
            Inner::V4 => traffic_class = patch_ipv4(data.get_mut(push..), self.hops),
            Inner::V6 => traffic_class = patch_ipv6(data.get_mut(push..), self.hops),
            Inner::Other | Inner::Kept | Inner::Retagged => {}
        }
        self.write_header(data, push, outer != Outer::None);
        if let Some(stations) = stations
            && let Some(place) = data.get_mut(usize::from(self.stations)..).and_then(<[u8]>::first_chunk_mut)
        {
            *place = stations;
        }
        match outer {
            Outer::None => {}
            Outer::V4 => self.patch_outer_v4(data, traffic_class, flow_hash),
            Outer::V6 => self.patch_outer_v6(data, traffic_class, flow_hash),
        }
        Ok(data.len())
    }

    /// Copies of a constant length are a few moves; the usual lengths are named so that they are constant.
    #[inline(always)]
    fn write_header(&self, data: &mut [u8], push: usize, tunnel: bool) {
        #[inline(always)]
        fn copy<const N: usize>(data: &mut [u8], header: &[u8; MAX_PUSH]) {
            if let (Some(to), Some(from)) = (data.first_chunk_mut::<N>(), header.first_chunk::<N>()) {
                *to = *from;
            }
        }
        match push {
            14 if !tunnel => copy::<14>(data, &self.header),
            64 if tunnel => copy::<64>(data, &self.header),
            50 if tunnel => copy::<50>(data, &self.header),
            84 if tunnel => copy::<84>(data, &self.header),
            _ => {
                for (to, from) in data.iter_mut().zip(&self.header[..push.min(MAX_PUSH)]) {
                    *to = *from;
                }
            }
        }
    }

    #[inline(always)]
    fn patch_outer_v4(&self, data: &mut [u8], traffic_class: u8, flow_hash: u64) {
        let network = usize::from(self.outer_network);
        let length = (data.len() - network) as u16;
        let Some(header) = data.get_mut(network..).and_then(<[u8]>::first_chunk_mut::<28>) else { return };
        let sum = self.outer_sum + u32::from(length) + u32::from(traffic_class);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        header[1] = traffic_class;
        [header[2], header[3]] = length.to_be_bytes();
        [header[10], header[11]] = (!(sum as u16)).to_be_bytes();
        [header[20], header[21]] = entropy_port(flow_hash).to_be_bytes();
        [header[24], header[25]] = (length - 20).to_be_bytes();
    }

    #[inline(always)]
    fn patch_outer_v6(&self, data: &mut [u8], traffic_class: u8, flow_hash: u64) {
        let network = usize::from(self.outer_network);
        let length = (data.len() - network - 40) as u16;
        let Some(header) = data.get_mut(network..).and_then(<[u8]>::first_chunk_mut::<48>) else { return };
        // The flow label carries the entropy as well (RFC 6438 section 3).
        let label = (evened(flow_hash) >> 40) as u32 & 0xf_ffff;
        let first = 6 << 28 | u32::from(traffic_class) << 20 | label;
        [header[0], header[1], header[2], header[3]] = first.to_be_bytes();
        [header[4], header[5]] = length.to_be_bytes();
        [header[40], header[41]] = entropy_port(flow_hash).to_be_bytes();
        [header[44], header[45]] = length.to_be_bytes();
    }
}

/// The two ECN codepoints that a tunnel carries over to the inner header, ECT(1) and CE, have this bit (RFC 3168 section 5).
const ECT_1: u8 = 1;

/// The outer UDP source port: 14 bits of the inner flow's hash in the dynamic range (RFC 7348 section 5, RFC 8926 section 3.3).
#[inline(always)]
pub(crate) const fn entropy_port(flow_hash: u64) -> u16 {
    0xc000 | (evened(flow_hash) >> 50) as u16
}

/// The flow's hash multiplied once more, for its high bits: in the hash itself, neighbouring ports leave a pattern in some bits.
#[inline(always)]
const fn evened(flow_hash: u64) -> u64 {
    flow_hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Takes `hops` from the time to live, keeps the checksum (RFC 1624), and returns the traffic class. The packet was parsed: the header is there.
#[inline(always)]
fn patch_ipv4(packet: Option<&mut [u8]>, hops: u8) -> u8 {
    let Some(header) = packet.and_then(<[u8]>::first_chunk_mut::<20>) else { return 0 };
    if hops > 0 {
        header[8] = header[8].wrapping_sub(hops);
        // The time to live is the high byte of its word: taking n from it adds n << 8 to the complement of the sum.
        let sum = u32::from(u16::from_be_bytes([header[10], header[11]])) + (u32::from(hops) << 8);
        // The carry comes around; and 0xffff, which no header sums to, is the other zero (RFC 1624 section 3).
        [header[10], header[11]] = ((sum + u32::from(sum >= 0xffff)) as u16).to_be_bytes();
    }
    header[1]
}

#[inline(always)]
fn patch_ipv6(packet: Option<&mut [u8]>, hops: u8) -> u8 {
    let Some(header) = packet.and_then(<[u8]>::first_chunk_mut::<40>) else { return 0 };
    header[7] = header[7].wrapping_sub(hops);
    header[0] << 4 | header[1] >> 4
}

/// Traffic class of a bridged packet; 0 if it is not IP.
#[inline(always)]
fn bridged_traffic_class(parsed: &Parsed, data: &[u8]) -> u8 {
    let first = data.get(parsed.network()..).and_then(<[u8]>::first_chunk::<2>);
    match first {
        Some([first, second]) if parsed.key.is_ip() => {
            if parsed.key.is_ipv6() {
                first << 4 | second >> 4
            } else {
                *second
            }
        }
        _ => 0,
    }
}

/// Whether congestion was met on the way of a packet through a tunnel that is not ECN-capable: it must be dropped, whatever it is for (RFC 6040
/// section 4.2).
pub(crate) fn is_unmarkable(data: &[u8], parsed: &Parsed) -> bool {
    let header = data.get(parsed.network()..).and_then(<[u8]>::first_chunk::<2>);
    let shift = if parsed.key.is_ipv6() { 4 } else { 0 };
    let met = parsed.marks & OUTER_ECN == 3 && parsed.key.is_ip();
    met && header.is_some_and(|header| header[1] >> shift & 3 == 0)
}

/// The beginning of the inner IP header.
fn inner_header<'a, B: PacketBuffer>(buffer: &'a mut B, parsed: &Parsed) -> Option<&'a mut [u8; 20]> {
    buffer.data_mut().get_mut(parsed.network()..)?.first_chunk_mut()
}

/// Carries ECT(1) or CE of the outer header over to the inner one (RFC 6040 section 4.2): both bits are set that the outer has
/// set; CE on a packet that is not ECN-capable cannot be carried. Returns the inner header as it was, if there is one.
fn carry_congestion<B: PacketBuffer>(buffer: &mut B, parsed: &Parsed) -> Result<Option<[u8; 20]>, Refused> {
    if !parsed.key.is_ip() {
        return Ok(None);
    }
    let Some(header) = inner_header(buffer, parsed) else { return Ok(None) };
    let unchanged = *header;
    let shift = if parsed.key.is_ipv6() { 4 } else { 0 };
    let inner = header[1] >> shift & 3;
    let result = match (inner, parsed.marks & OUTER_ECN) {
        (0, 3) => return Err(Refused::Unmarkable),
        (0, _) => 0,
        (3, _) | (_, 3) => 3,
        (_, outer) => outer,
    };
    let before = u16::from_be_bytes([header[0], header[1]]);
    header[1] = header[1] & !(3 << shift) | result << shift;
    if !parsed.key.is_ipv6() {
        // RFC 1624 equation 3.
        let after = u16::from_be_bytes([header[0], header[1]]);
        let sum =
            u32::from(!u16::from_be_bytes([header[10], header[11]])) + u32::from(!before) + u32::from(after);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        [header[10], header[11]] = (!(sum as u16)).to_be_bytes();
    }
    Ok(Some(unchanged))
}

/// Builds the pushed bytes front to back.
struct Writer {
    bytes: [u8; MAX_PUSH],
    length: usize,
    stations: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
    }

    fn ethernet(&mut self, destination: MacAddr, source: MacAddr, vlan: u16, ethertype: EtherType) {
        self.put(&destination.octets());
        self.put(&source.octets());
        if vlan != 0 {
            self.put(&EtherType::VLAN.0.to_be_bytes());
            self.put(&vlan.to_be_bytes());
        }
        self.put(&ethertype.0.to_be_bytes());
    }

    /// The header of the frame itself.
    fn inner_ethernet(&mut self, ethernet: Ethernet, vlan: u16) {
        match ethernet {
            Ethernet::Kept => {}
            Ethernet::New(header) => self.ethernet(header.destination, header.source, vlan, header.ethertype),
            Ethernet::Retagged => {
                self.stations = self.length;
                self.put(&[0; 12]);
                if vlan != 0 {
                    self.put(&EtherType::VLAN.0.to_be_bytes());
                    self.put(&vlan.to_be_bytes());
                }
            }
        }
    }

    /// The outer IP header with the variable fields 0; returns the sum over an IPv4 header.
    fn outer_ip(&mut self, tunnel: &Tunnel) -> u32 {
        const HOP_LIMIT: u8 = 64;
        const UDP: u8 = 17;
        let start = self.length;
        match (tunnel.local, tunnel.remote) {
            (std::net::IpAddr::V4(local), std::net::IpAddr::V4(remote)) => {
                // Don't fragment; an atomic packet needs no identification (RFC 6864 section 4.1).
                self.put(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, HOP_LIMIT, UDP, 0, 0]);
                self.put(&local.octets());
                self.put(&remote.octets());
                let header = &self.bytes[start..self.length];
                header.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum()
            }
            (std::net::IpAddr::V6(local), std::net::IpAddr::V6(remote)) => {
                self.put(&[0x60, 0, 0, 0, 0, 0, UDP, HOP_LIMIT]);
                self.put(&local.octets());
                self.put(&remote.octets());
                0
            }
            // A tunnel is made with ends of one family only.
            _ => 0,
        }
    }

    /// The UDP header (checksum 0: RFC 8926 section 3.3, RFC 6936) and the tunnel header.
    fn tunnel(&mut self, tunnel: &Tunnel) {
        let (port, flags) = match tunnel.encapsulation {
            Encapsulation::Geneve => (6081u16, [0, 0, 0x65, 0x58]),
            Encapsulation::Vxlan => (4789u16, [0x08, 0, 0, 0]),
        };
        self.put(&[0, 0]);
        self.put(&port.to_be_bytes());
        self.put(&[0, 0, 0, 0]);
        self.put(&flags);
        let [_, a, b, c] = u32::from(tunnel.vni).to_be_bytes();
        self.put(&[a, b, c, 0]);
    }
}

#[cfg(test)]
#[path = "compiled_tests.rs"]
mod tests;
