//! How many packets of each kind a worker hands to the control thread, so that a storm of one kind leaves the others their share.
//!
//! ARP and neighbour discovery to this node's MAC address are limited apart from those to a group: answers to the node's own questions come
//! that way, and everything that the stations of a link ask each other the other way. BFD has a limit for each address that it comes from, and LACP for
//! each link, so that one that is out of its mind, or is forged, takes nothing from the others. The two share a ring.

use sluice_datapath::punt::{Entry, Punt, PuntKind};
use sluice_datapath::time::Timestamp;
use sluice_datapath::token_bucket::TokenBucket;
use sluice_intent::plan::MAX_BFD_PACKETS;
use sluice_wire::ethernet::EthernetView;

/// Packets of ARP and of neighbour discovery to a group, in a second.
const GROUP_A_SECOND: u64 = 2_000;
/// ARP and neighbour discovery packets to one station, in a second: the answers of as many neighbours.
const DIRECTED_A_SECOND: u64 = 10_000;
/// Packets that wait for a next hop to be known, in a second.
const RESOLVE_A_SECOND: u64 = 10_000;

/// BFD packets in a second: of 10,000 sessions at 300 ms, and some more; a document with sessions that would need more is refused. And of them at once,
/// less than the ring holds.
const BFD_A_SECOND: u64 = MAX_BFD_PACKETS as u64;
const BFD_AT_ONCE: u64 = 2_000;
/// Of those, the ones from one address: of sessions at 50 ms with each TEP that a node can have, and some more.
const BFD_OF_ONE_A_SECOND: u64 = 2_000;
/// Limits that addresses are distributed over.
const SOURCES: usize = 1_024;

/// LACPDUs and markers of one link in a second: five times the ten that IEEE 802.3 annex 57A.4 allows, since both are sent twice at times.
const SLOW_PROTOCOLS_A_SECOND: u64 = 50;

/// The limits of one worker.
#[derive(Debug)]
pub(crate) struct PuntLimits {
    arp: TokenBucket,
    neighbor_discovery: TokenBucket,
    directed: TokenBucket,
    resolve: TokenBucket,
    bfd: TokenBucket,
    bfd_by_source: Box<[TokenBucket]>,
    /// By port.
    slow_protocols: Box<[TokenBucket]>,
}

impl PuntLimits {
    pub(crate) fn new(ports: usize) -> Self {
        Self {
            arp: limit(GROUP_A_SECOND),
            neighbor_discovery: limit(GROUP_A_SECOND),
            directed: limit(DIRECTED_A_SECOND),
            resolve: limit(RESOLVE_A_SECOND),
            bfd: TokenBucket::full(BFD_A_SECOND, BFD_AT_ONCE),
            bfd_by_source: (0..SOURCES).map(|_| limit(BFD_OF_ONE_A_SECOND)).collect(),
            slow_protocols: (0..ports).map(|_| limit(SLOW_PROTOCOLS_A_SECOND)).collect(),
        }
    }

    /// Whether one more packet may go to the control thread at `now`.
    pub(crate) fn allow(&mut self, punt: &Punt, frame: &[u8], now: Timestamp) -> bool {
        match punt.kind {
            kind if may_be_answer(kind, frame) => self.directed.take(now),
            PuntKind::Arp => self.arp.take(now),
            PuntKind::NeighborDiscovery => self.neighbor_discovery.take(now),
            PuntKind::Resolve(_) => self.resolve.take(now),
            // What one address sends too much of takes nothing from the limit of all.
            PuntKind::Bfd => self.bfd_by_source[place_of(frame)].take(now) && self.bfd.take(now),
            PuntKind::SlowProtocols => match punt.entry {
                Entry::Port(port) => {
                    self.slow_protocols.get_mut(port.index()).is_some_and(|limit| limit.take(now))
                }
                Entry::Gateway(_) => false,
            },
        }
    }
}

/// Where the limit of the IP address is that a frame comes from.
fn place_of(frame: &[u8]) -> usize {
    let Ok(ethernet) = EthernetView::parse(frame) else { return 0 };
    let packet = ethernet.payload();
    let source = match packet.first().map(|octet| octet >> 4) {
        Some(4) => packet.get(12..16),
        _ => packet.get(8..24),
    };
    let mix = |hash: u64, octet: &u8| (hash ^ u64::from(*octet)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = source.into_iter().flatten().fold(0, mix);
    // The high bits depend on every octet.
    (hash >> (u64::BITS - SOURCES.ilog2())) as usize
}

/// An ARP or neighbour discovery packet to one station: what answers to questions of this node look like.
pub(crate) fn may_be_answer(kind: PuntKind, frame: &[u8]) -> bool {
    let to_group = frame.first().is_none_or(|octet| octet & 1 == 1);
    !to_group && matches!(kind, PuntKind::Arp | PuntKind::NeighborDiscovery)
}

/// So many packets a second, a tenth of them at once.
fn limit(a_second: u64) -> TokenBucket {
    TokenBucket::full(a_second, (a_second / 10).max(1))
}

#[cfg(test)]
mod tests {
    use sluice_intent::plan::PortIndex;

    use super::*;

    const TO_ALL: [u8; 6] = [0xff; 6];
    const TO_US: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn punt(kind: PuntKind, port: u16) -> Punt {
        Punt { kind, entry: Entry::Port(PortIndex(port)) }
    }

    /// A frame with an IPv4 packet of this host, or an IPv6 packet.
    fn from(host: u8, version: u8) -> Vec<u8> {
        let mut frame = vec![0; 64];
        frame[12..14].copy_from_slice(if version == 4 { &[8, 0] } else { &[0x86, 0xdd] });
        frame[14] = version << 4;
        frame[if version == 4 { 29 } else { 37 }] = host;
        frame
    }

    /// Packets that pass in ten seconds, of so many a second.
    fn passes(limits: &mut PuntLimits, punt: Punt, frame: &[u8], a_second: u64) -> u64 {
        let at = |number| Timestamp::from_nanos(1_000_000_000_000 + number * 1_000_000_000 / a_second);
        (0..10 * a_second).filter(|number| limits.allow(&punt, frame, at(*number))).count() as u64
    }

    #[test]
    fn storms_are_limited_and_what_is_below_the_limit_passes() {
        for (kind, frame, limit) in [
            (PuntKind::Arp, &TO_ALL[..], 2_000),
            (PuntKind::NeighborDiscovery, &TO_ALL, 2_000),
            (PuntKind::Arp, &TO_US, 10_000),
            (PuntKind::NeighborDiscovery, &TO_US, 10_000),
            (PuntKind::Bfd, &from(1, 4), 2_000),
            (PuntKind::SlowProtocols, &TO_ALL, 50),
        ] {
            let passed = passes(&mut PuntLimits::new(2), punt(kind, 0), frame, 97_000);
            assert!((10 * limit..=10 * limit + limit / 10).contains(&passed), "{kind:?}: {passed}");
            assert_eq!(passes(&mut PuntLimits::new(2), punt(kind, 0), frame, limit / 2), 10 * limit / 2);
        }
    }

    #[test]
    fn a_storm_of_one_kind_address_or_link_leaves_the_others_their_share() {
        for version in [4, 6] {
            let mut limits = PuntLimits::new(2);
            let [forged, own] = [from(1, version), from(2, version)];
            let storm =
                [(PuntKind::Arp, &TO_ALL[..]), (PuntKind::Bfd, &forged), (PuntKind::SlowProtocols, &TO_ALL)];
            let others = [(PuntKind::Bfd, &own[..], 1), (PuntKind::SlowProtocols, &TO_ALL, 100)];
            for millisecond in 0..10_000 {
                let now = Timestamp::from_nanos(1_000_000_000_000 + millisecond * 1_000_000);
                for (kind, frame) in storm {
                    for _ in 0..97 {
                        limits.allow(&punt(kind, 0), frame, now);
                    }
                }
                for (kind, frame, every) in others {
                    assert!(millisecond % every > 0 || limits.allow(&punt(kind, 1), frame, now), "{kind:?}");
                }
            }
        }
    }

    #[test]
    fn many_addresses_together_have_a_limit_as_well() {
        let mut limits = PuntLimits::new(2);
        let frames: Vec<Vec<u8>> = (0..100).map(|host| from(host, 4)).collect();
        let at = |number: u64| Timestamp::from_nanos(1_000_000_000_000 + number * 10_000);
        let punt = punt(PuntKind::Bfd, 0);
        let passed =
            (0..100_000).filter(|number| limits.allow(&punt, &frames[*number as usize % 100], at(*number)));
        assert!((50_000..=52_000).contains(&passed.count()), "of 100,000 in a second");
    }

    #[test]
    fn only_what_is_for_one_station_may_be_an_answer() {
        assert!(may_be_answer(PuntKind::Arp, &TO_US) && may_be_answer(PuntKind::NeighborDiscovery, &TO_US));
        assert!(!may_be_answer(PuntKind::Arp, &TO_ALL) && !may_be_answer(PuntKind::Arp, &[]));
        assert!(!may_be_answer(PuntKind::NeighborDiscovery, &[0x33, 0x33, 0, 0, 0, 1]));
    }
}
