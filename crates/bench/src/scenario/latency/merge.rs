//! Captures of several points merged: how long each transaction took from point to point.
//!
//! ```text
//!   client ▶ point 0 ──▶ point 1 ──▶ … ──▶ point n ▶ server      request: one segment, the same at every point
//!          ◀ point 0 ◀── point 1 ◀── … ◀── point n ◀             response: acknowledges the request
//! ```
//!
//! A TCP segment is known again by its addresses, ports, sequence and acknowledgment numbers, flags and length; a VXLAN or Geneve header
//! around it, VLAN tags, MAC addresses and the time to live do not matter. What cannot be told for certain is left out and counted: segments that
//! a point did not see, that a point saw twice (sent again, or captured twice), or whose times do not go the way.
//!
//! All files must have times of one clock. Frames may be cut off behind the TCP header. pcap and pcapng are read; frames are Ethernet.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::net::IpAddr;
use std::path::Path;

use hdrhistogram::Histogram;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, TsResolution};
use sluice_wire::ethernet::EthernetView;
use sluice_wire::geneve::GeneveHeader;
use sluice_wire::ipv4::Ipv4View;
use sluice_wire::ipv6::Ipv6View;
use sluice_wire::tcp::TcpHeader;
use sluice_wire::udp::{self, UdpHeader};
use sluice_wire::vxlan::VxlanHeader;
use sluice_wire::{EtherType, IpProtocol};

use super::ends::{histogram, microseconds};
use crate::error::{BenchError, Result};
use crate::report::Latency;

/// First octets of a pcapng file: the type of its section header.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Frames within frames that are looked into.
const MAX_DEPTH: u8 = 3;

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flow {
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
}

impl Flow {
    fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// What a segment is known by, at every point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Segment {
    flow: Flow,
    sequence: u32,
    acknowledgment: u32,
    flags: u16,
    /// Octets of data.
    length: u32,
}

/// What was captured at one point.
#[derive(Debug, Default)]
pub(super) struct Point {
    /// Segments with data and their times, nanoseconds.
    segments: Vec<(Segment, u64)>,
    /// Frames that are something else.
    others: u64,
}

/// Time between two points, of all transactions.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    /// From where to where.
    pub(super) name: String,
    pub(super) latency: Latency,
    /// Mean, µs. The means of all legs add up to that of the whole.
    pub(super) mean: f64,
}

/// The legs of all transactions that were seen at every point.
#[derive(Clone, Debug)]
pub(super) struct Breakdown {
    /// Requests, the server, responses; in the order of their times.
    pub(super) legs: Vec<Leg>,
    /// From the request to the response at the first point.
    pub(super) whole: Leg,
    pub(super) counts: Counts,
}

/// What became of the segments with data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Requests with their responses, both seen at every point.
    pub(super) transactions: u64,
    /// Segments that at least one point did not see.
    pub(super) missed: u64,
    /// Segments that one point saw more than once.
    pub(super) repeated: u64,
    /// Segments whose times neither grow nor shrink from point to point.
    pub(super) disordered: u64,
    /// Segments seen at every point that are neither a request with its response nor a response with its request.
    pub(super) unpaired: u64,
    /// Frames that are no TCP segment with data, at all points together.
    pub(super) others: u64,
}

impl Counts {
    /// What was not matched, in words.
    pub(super) fn sentence(&self) -> String {
        let Self { transactions, missed, repeated, disordered, unpaired, others } = self;
        format!(
            "{transactions} transactions matched. Not matched: {missed} segments not seen at every point, {repeated} seen more than \
             once, {disordered} with times against the order of the points, {unpaired} without their request or response. {others} frames \
             were no TCP segments with data."
        )
    }
}

/// Reads the captured frames of a file.
///
/// # Errors
///
/// [`BenchError::Capture`] where the file cannot be read, is no capture, or not of Ethernet.
pub(super) fn read(path: &Path) -> Result<Point> {
    let wrong = |reason: String| BenchError::Capture { path: path.to_owned(), reason };
    let mut file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut magic = [0; 4];
    file.read_exact(&mut magic).map_err(|_| wrong("it is empty".into()))?;
    file.rewind().map_err(|error| wrong(error.to_string()))?;
    let mut point = Point::default();
    let input = BufReader::new(file);
    let read = if magic == PCAPNG { read_pcapng(input, &mut point) } else { read_pcap(input, &mut point) };
    read.map_err(wrong)?;
    Ok(point)
}

fn read_pcap(input: impl Read, point: &mut Point) -> std::result::Result<(), String> {
    let mut reader = PcapReader::new(input).map_err(|error| format!("it is no pcap file: {error}"))?;
    let header = reader.header();
    ethernet_only(header.datalink)?;
    let unit = if header.ts_resolution == TsResolution::NanoSecond { 1 } else { 1_000 };
    // The raw packet: the reader refuses others that are longer than what was kept of them.
    while let Some(packet) = reader.next_raw_packet() {
        let packet = packet.map_err(|error| error.to_string())?;
        point.add(&packet.data, u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_frac) * unit);
    }
    Ok(())
}

fn read_pcapng(input: impl Read, point: &mut Point) -> std::result::Result<(), String> {
    let mut reader = PcapNgReader::new(input).map_err(|error| format!("it is no pcapng file: {error}"))?;
    let mut units: Vec<u64> = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.map_err(|error| error.to_string())? {
            // Interfaces are counted anew in each section.
            Block::SectionHeader(_) => units.clear(),
            Block::InterfaceDescription(interface) => {
                ethernet_only(interface.linktype)?;
                let resolution = interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfTsResol(value) => Some(*value),
                    _ => None,
                });
                units.push(nanoseconds_a_unit(resolution)?);
            }
            Block::EnhancedPacket(packet) => {
                let unit = units.get(packet.interface_id as usize).ok_or("a frame is of no interface")?;
                // The reader takes every unit for a nanosecond.
                let units = u64::try_from(packet.timestamp.as_nanos()).unwrap_or(u64::MAX);
                point.add(&packet.data, units.saturating_mul(*unit));
            }
            _ => {}
        }
    }
    Ok(())
}

fn ethernet_only(link: DataLink) -> std::result::Result<(), String> {
    if link == DataLink::ETHERNET { Ok(()) } else { Err(format!("its frames are {link:?}, not Ethernet")) }
}

/// The meaning of pcapng's `if_tsresol`: a negative power of ten, by default microseconds.
fn nanoseconds_a_unit(resolution: Option<u8>) -> std::result::Result<u64, String> {
    match resolution.unwrap_or(6) {
        digits @ 0..=9 => Ok(10_u64.pow(9 - u32::from(digits))),
        other => Err(format!("its times have the unit {other:#x}; microseconds or nanoseconds are needed")),
    }
}

impl Point {
    fn add(&mut self, frame: &[u8], at: u64) {
        match ethernet(frame, 0) {
            Some(segment) if segment.length > 0 => self.segments.push((segment, at)),
            _ => self.others += 1,
        }
    }
}

/// The innermost TCP segment of a frame.
fn ethernet(frame: &[u8], depth: u8) -> Option<Segment> {
    let view = EthernetView::parse(frame).ok()?;
    network(view.ether_type(), view.payload(), depth)
}

fn network(ether_type: EtherType, bytes: &[u8], depth: u8) -> Option<Segment> {
    match ether_type {
        EtherType::IPV4 => {
            let view = Ipv4View::parse_quoted(bytes).ok().filter(|view| !view.is_fragment())?;
            let length = view.total_len() - view.header_len();
            let ends = [view.source().into(), view.destination().into()];
            transport(view.protocol(), ends, view.payload(), length, depth)
        }
        EtherType::IPV6 => {
            let view = Ipv6View::parse_quoted(bytes).ok().filter(|view| view.fragment().is_none())?;
            let headers = view.payload().len() - view.upper_payload().len();
            let length = usize::from(view.payload_len()).checked_sub(headers)?;
            let ends = [view.source().into(), view.destination().into()];
            transport(view.upper_layer(), ends, view.upper_payload(), length, depth)
        }
        _ => None,
    }
}

/// `length` is that of the whole segment, of which `bytes` may be only the beginning.
fn transport(
    protocol: IpProtocol,
    [source, destination]: [IpAddr; 2],
    bytes: &[u8],
    length: usize,
    depth: u8,
) -> Option<Segment> {
    match protocol {
        IpProtocol::TCP => {
            let (header, _) = TcpHeader::ref_from_prefix(bytes).ok()?;
            Some(Segment {
                flow: Flow {
                    source: (source, header.source_port()),
                    destination: (destination, header.destination_port()),
                },
                sequence: header.sequence(),
                acknowledgment: header.acknowledgment(),
                flags: header.flags().bits(),
                length: u32::try_from(length.checked_sub(header.header_len())?).ok()?,
            })
        }
        IpProtocol::UDP if depth < MAX_DEPTH => {
            let (header, payload) = UdpHeader::ref_from_prefix(bytes).ok()?;
            match header.destination_port() {
                udp::port::VXLAN => ethernet(VxlanHeader::ref_from_prefix(payload).ok()?.1, depth + 1),
                udp::port::GENEVE => {
                    let (header, rest) = GeneveHeader::ref_from_prefix(payload).ok()?;
                    let inner = rest.get(header.options_len()..)?;
                    match header.protocol() {
                        EtherType::TRANSPARENT_ETHERNET => ethernet(inner, depth + 1),
                        other => network(other, inner, depth + 1),
                    }
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Which way a segment goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the first point to the last: from the client.
    Forward,
    Backward,
}

/// Merges captures, given in the order in which requests pass their points; `names` are those of the points. `None` where no transaction was seen at
/// all of them.
pub(super) fn merge(points: &[Point], names: &[String]) -> (Option<Breakdown>, Counts) {
    let (seen, mut counts) = sightings(points);
    let mut legs = vec![histogram(); points.len() * 2 - 1];
    let mut whole = histogram();
    let responses: HashMap<(Flow, u32, u32), &Vec<u64>> = seen
        .iter()
        .filter(|(_, (way, _))| *way == Way::Backward)
        .map(|(segment, (_, times))| ((segment.flow, segment.sequence, segment.acknowledgment), times))
        .collect();
    for (request, (_, out)) in seen.iter().filter(|(_, (way, _))| *way == Way::Forward) {
        let end = request.sequence.wrapping_add(request.length);
        let answer = responses.get(&(request.flow.reversed(), request.acknowledgment, end));
        let Some(back) = answer.filter(|back| back.last() >= out.last()) else { continue };
        counts.transactions += 1;
        let passed: Vec<u64> = out.iter().chain(back.iter().rev()).copied().collect();
        for (leg, times) in legs.iter_mut().zip(passed.windows(2)) {
            leg.saturating_record(times[1] - times[0]);
        }
        whole.saturating_record(passed[passed.len() - 1] - passed[0]);
    }
    counts.unpaired = seen.len() as u64 - 2 * counts.transactions;
    let described = legs.iter().zip(leg_names(names)).filter_map(|(times, name)| leg(name, times));
    let breakdown =
        leg("whole".into(), &whole).map(|whole| Breakdown { legs: described.collect(), whole, counts });
    (breakdown, counts)
}

/// Every segment that all points saw once and in order, its way and its times.
fn sightings(points: &[Point]) -> (HashMap<Segment, (Way, Vec<u64>)>, Counts) {
    // By segment: for each point the times at which it was seen.
    let mut all: HashMap<Segment, BTreeMap<usize, Vec<u64>>> = HashMap::new();
    for (at, point) in points.iter().enumerate() {
        for (segment, time) in &point.segments {
            all.entry(*segment).or_default().entry(at).or_default().push(*time);
        }
    }
    let mut counts = Counts { others: points.iter().map(|point| point.others).sum(), ..Counts::default() };
    let mut seen: Vec<(Segment, Vec<u64>)> = Vec::new();
    // By direction of a connection: how much later the last point saw its segments than the first, all together.
    let mut later: HashMap<Flow, i128> = HashMap::new();
    for (segment, by_point) in all {
        if by_point.values().any(|times| times.len() > 1) {
            counts.repeated += 1;
        } else if by_point.len() < points.len() {
            counts.missed += 1;
        } else {
            let times: Vec<u64> = by_point.into_values().flatten().collect();
            if let [first, .., last] = times[..] {
                *later.entry(segment.flow).or_default() += i128::from(last) - i128::from(first);
                seen.push((segment, times));
            }
        }
    }
    let mut ordered = HashMap::new();
    for (segment, times) in seen {
        let later = later.get(&segment.flow).copied().unwrap_or_default();
        if later > 0 && times.is_sorted() {
            ordered.insert(segment, (Way::Forward, times));
        } else if later < 0 && times.is_sorted_by(|a, b| a >= b) {
            ordered.insert(segment, (Way::Backward, times));
        } else {
            counts.disordered += 1;
        }
    }
    (ordered, counts)
}

fn leg_names(names: &[String]) -> Vec<String> {
    let between = |from: &String, to: &String| format!("{from} ▸ {to}");
    let out = names.windows(2).map(|pair| between(&pair[0], &pair[1]));
    let back = names.windows(2).rev().map(|pair| between(&pair[1], &pair[0]));
    let server = names.last().map(|last| format!("behind {last}"));
    out.chain(server).chain(back).collect()
}

fn leg(name: String, times: &Histogram<u64>) -> Option<Leg> {
    Some(Leg { name, latency: microseconds(times)?, mean: times.mean() / 1e3 })
}

#[cfg(test)]
mod tests;
