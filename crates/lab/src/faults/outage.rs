//! From the numbers that came to what was lost and for how long.

use std::ops::Range;

use super::flight::{FLOWS, Flight, RATE};

/// What a part of a flight lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Outage {
    /// Packets that were sent.
    pub(super) sent: u64,
    /// Packets that did not come.
    pub(super) lost: u64,
    /// The longest time in which everything of one flow was lost, milliseconds: of a multiple of its packets' distance.
    pub(super) longest_ms: u64,
    /// By how much the latest packet was sent too late, milliseconds; 0 where all were in time.
    pub(super) late_ms: f64,
}

impl Outage {
    /// Of the packets with these numbers.
    pub(super) fn of(flight: &Flight, numbers: Range<u64>) -> Self {
        let numbers = numbers.start.min(flight.packets)..numbers.end.min(flight.packets);
        let came = |number: u64| flight.received.binary_search(&number).is_ok();
        let longest = (0..FLOWS).map(|flow| {
            let (mut run, mut longest) = (0, 0);
            for number in numbers.clone().filter(|number| number % FLOWS == flow) {
                run = if came(number) { 0 } else { run + 1 };
                longest = longest.max(run);
            }
            longest
        });
        let late = flight.late.iter().filter(|(number, _)| numbers.contains(number)).map(|(_, late)| *late);
        Self {
            sent: numbers.end.saturating_sub(numbers.start),
            lost: numbers.clone().filter(|number| !came(*number)).count() as u64,
            longest_ms: longest.max().unwrap_or(0) * FLOWS * 1_000 / RATE,
            late_ms: late.fold(0.0, f64::max),
        }
    }

    /// Both parts together.
    pub(super) fn and(self, other: &Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            lost: self.lost + other.lost,
            longest_ms: self.longest_ms.max(other.longest_ms),
            late_ms: self.late_ms.max(other.late_ms),
        }
    }

    /// From each event of a flight to the next, or to its end.
    pub(super) fn after_each(flight: &Flight) -> Vec<Self> {
        let ends = flight.marks.iter().skip(1).copied().chain([flight.packets]);
        flight.marks.iter().zip(ends).map(|(start, end)| Self::of(flight, *start..end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(lost: &[u64]) -> Flight {
        let received = (0..100).filter(|number| !lost.contains(number)).collect();
        Flight { packets: 100, marks: vec![10, 50], late: vec![(12, 7.5), (60, 20.0)], received }
    }

    #[test]
    fn the_longest_outage_is_that_of_one_flow() {
        // Two of flow 0 in a row, then one came, then three of flow 2 in a row; others of flow 1 one by one.
        let lost = [12, 16, 22, 26, 30, 13, 21];
        let outage = Outage::of(&flight(&lost), 10..50);
        assert_eq!(outage, Outage { sent: 40, lost: 7, longest_ms: 12, late_ms: 7.5 });
        assert_eq!(Outage::of(&flight(&[]), 0..10), Outage { sent: 10, ..Outage::default() });
    }

    #[test]
    fn events_part_a_flight() {
        let parts = Outage::after_each(&flight(&[5, 20, 24, 99]));
        assert_eq!(parts.len(), 2, "what was before the first event is not judged");
        assert_eq!((parts[0].sent, parts[0].lost, parts[0].longest_ms), (40, 2, 8));
        assert_eq!((parts[1].sent, parts[1].lost, parts[1].late_ms), (50, 1, 20.0));
    }
}
