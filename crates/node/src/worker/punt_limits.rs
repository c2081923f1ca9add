//! How many packets of each kind a worker hands to the control thread, so that a storm of one kind leaves the others their share.
//!
//! ARP and neighbour discovery to this node's MAC address are limited apart from those to a group: answers to the node's own questions come
//! that way, and everything that the stations of a link ask each other the other way. BFD has a limit of its own, and shares a ring with LACP alone.

use sluice_datapath::punt::PuntKind;
use sluice_datapath::time::Timestamp;
use sluice_datapath::token_bucket::TokenBucket;
use sluice_intent::plan::MAX_BFD_PACKETS;

/// Packets of each kind in a second; of ARP and neighbour discovery those to a group.
const A_SECOND: [u64; PuntKind::COUNT] = [2_000, 2_000, 10_000, BFD_A_SECOND, SLOW_PROTOCOLS_A_SECOND];

/// BFD packets in a second: of 10,000 sessions at 300 ms, and some more. A document with sessions that would need more is refused.
const BFD_A_SECOND: u64 = MAX_BFD_PACKETS as u64;

/// LACPDUs and markers in a second: the ten that IEEE 802.3 annex 57A.4 allows a link, for more links than a node has.
const SLOW_PROTOCOLS_A_SECOND: u64 = 500;

/// ARP and neighbour discovery packets to one station, in a second: the answers of as many neighbours.
const DIRECTED_A_SECOND: u64 = 10_000;

/// The limits of one worker.
#[derive(Debug)]
pub(crate) struct PuntLimits {
    kinds: [TokenBucket; PuntKind::COUNT],
    directed: TokenBucket,
}

impl PuntLimits {
    pub(crate) fn new() -> Self {
        Self { kinds: A_SECOND.map(limit), directed: limit(DIRECTED_A_SECOND) }
    }

    /// Whether one more packet may go to the control thread at `now`.
    pub(crate) fn allow(&mut self, kind: PuntKind, frame: &[u8], now: Timestamp) -> bool {
        let limit =
            if may_be_answer(kind, frame) { &mut self.directed } else { &mut self.kinds[kind.index()] };
        limit.take(now)
    }
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
    use super::*;

    const TO_ALL: [u8; 6] = [0xff; 6];
    const TO_US: [u8; 6] = [2, 0, 0, 0, 0, 1];

    /// Packets that pass in ten seconds, of so many a second.
    fn passes(limits: &mut PuntLimits, kind: PuntKind, frame: &[u8], a_second: u64) -> u64 {
        let at = |number| Timestamp::from_nanos(1_000_000_000_000 + number * 1_000_000_000 / a_second);
        (0..10 * a_second).filter(|number| limits.allow(kind, frame, at(*number))).count() as u64
    }

    #[test]
    fn storms_are_limited_and_what_is_below_the_limit_passes() {
        for (kind, frame, limit) in [
            (PuntKind::Arp, TO_ALL, 2_000),
            (PuntKind::NeighborDiscovery, TO_ALL, 2_000),
            (PuntKind::Arp, TO_US, 10_000),
            (PuntKind::NeighborDiscovery, TO_US, 10_000),
            (PuntKind::Bfd, TO_US, 50_000),
            (PuntKind::SlowProtocols, TO_ALL, 500),
        ] {
            let passed = passes(&mut PuntLimits::new(), kind, &frame, 97_000);
            assert!((10 * limit..=10 * limit + limit / 10).contains(&passed), "{kind:?}: {passed}");
            assert_eq!(passes(&mut PuntLimits::new(), kind, &frame, limit / 2), 10 * limit / 2);
        }
    }

    #[test]
    fn a_storm_of_one_kind_leaves_bfd_its_share() {
        let mut limits = PuntLimits::new();
        assert!(passes(&mut limits, PuntKind::Arp, &TO_ALL, 97_000) < 97_000);
        assert_eq!(passes(&mut limits, PuntKind::Bfd, &TO_US, 40_000), 400_000);
    }

    #[test]
    fn only_what_is_for_one_station_may_be_an_answer() {
        assert!(may_be_answer(PuntKind::Arp, &TO_US) && may_be_answer(PuntKind::NeighborDiscovery, &TO_US));
        assert!(!may_be_answer(PuntKind::Arp, &TO_ALL) && !may_be_answer(PuntKind::Arp, &[]));
        assert!(!may_be_answer(PuntKind::NeighborDiscovery, &[0x33, 0x33, 0, 0, 0, 1]));
    }
}
