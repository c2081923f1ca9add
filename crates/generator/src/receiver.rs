//! The receiving side of one stream: every frame is counted by its sequence number, every 17th compared byte for byte.

use sluice_bench::message::StreamCounts;
use sluice_bench::topology::FLOWS;
use sluice_bench::traffic::{Expected, Stream, Tag, TrafficError, read_tag};

use crate::sequence::{Seen, SequenceWindow};

/// One in so many frames is compared; it has no common factor with the number of flows, so that each flow's turn comes.
const COMPARE_EVERY: u32 = 17;

/// Counts the packets of a stream.
pub(crate) struct Receiver {
    stream: Stream,
    expected: Expected,
    templates: Vec<Vec<u8>>,
    frame_bytes: usize,
    tag: usize,
    window: SequenceWindow,
    /// Highest sequence number of each flow: only within a flow order matters.
    latest: Vec<u32>,
    until_compared: u32,
}

impl Receiver {
    /// Makes the frames that are expected.
    pub(crate) fn new(stream: &Stream, expected: Expected) -> Result<Self, TrafficError> {
        let templates: Vec<Vec<u8>> =
            (0..FLOWS).map(|flow| stream.returned(flow, expected)).collect::<Result<_, _>>()?;
        Ok(Self {
            stream: *stream,
            expected,
            frame_bytes: templates.first().map_or(0, Vec::len),
            templates,
            tag: stream.returned_tag(expected),
            window: SequenceWindow::new(),
            latest: vec![0; usize::from(FLOWS)],
            until_compared: 1,
        })
    }

    /// Takes a frame; false if it is none of this stream.
    #[inline]
    pub(crate) fn take(&mut self, frame: &[u8], counts: &mut StreamCounts) -> bool {
        if frame.len() != self.frame_bytes {
            return false;
        }
        let Some(Tag { trial, flow, sequence }) = frame.get(self.tag..).and_then(read_tag) else {
            return false;
        };
        if trial != self.stream.trial() {
            counts.stale += 1;
            return true;
        }
        let latest = &mut self.latest[usize::from(flow)];
        match self.window.see(sequence) {
            Seen::InOrder => *latest = sequence,
            Seen::Late if sequence < *latest => counts.reordered += 1,
            Seen::Late => *latest = sequence,
            Seen::Again => {
                counts.duplicates += 1;
                return true;
            }
            Seen::TooLate => {
                counts.too_late += 1;
                return true;
            }
        }
        counts.received += 1;
        counts.received_bytes += frame.len() as u64;
        self.until_compared -= 1;
        if self.until_compared == 0 {
            self.until_compared = COMPARE_EVERY;
            self.compare(frame, flow, counts);
        }
        true
    }

    fn compare(&self, frame: &[u8], flow: u16, counts: &mut StreamCounts) {
        let template = &self.templates[usize::from(flow)];
        counts.compared += 1;
        counts.wrong += u64::from(!self.stream.is_as_expected(frame, template, self.expected));
    }
}

#[cfg(test)]
mod tests {
    use sluice_bench::traffic::{Direction, Family, sequence_octets};

    use super::*;

    fn numbered(stream: &Stream, flow: u16, sequence: u32) -> Vec<u8> {
        let mut frame = stream.returned(flow, Expected::Routed).unwrap();
        let at = stream.returned_tag(Expected::Routed) + 4;
        frame[at..at + 8].copy_from_slice(&sequence_octets(sequence));
        frame
    }

    #[test]
    fn loss_duplicates_late_and_wrong_frames_are_told_apart() {
        let stream = Stream::new(Direction::Encap, Family::Ipv4, 60).unwrap();
        let mut receiver = Receiver::new(&stream, Expected::Routed).unwrap();
        let mut counts = StreamCounts { sent: 100, ..StreamCounts::new(Direction::Encap) };
        // Number 7 is lost, 20 comes twice, 30 behind 31 of another flow, 36 behind 46 of its own, 35 was routed once too often.
        let order = [(0..7), (8..21), (20..30), (31..32), (30..31), (32..36), (37..47), (36..37), (47..100)];
        for sequence in order.into_iter().flatten() {
            let mut frame = numbered(&stream, (sequence % 10) as u16, sequence);
            if sequence == 35 {
                frame[64 + 8] = 62;
            }
            assert!(receiver.take(&frame, &mut counts));
        }
        assert_eq!((counts.received, counts.lost()), (99, 1));
        assert_eq!((counts.duplicates, counts.reordered, counts.too_late), (1, 1, 0));
        assert_eq!((counts.compared, counts.wrong), (6, 1));
        assert_eq!(counts.received_bytes, 99 * 110);
    }

    #[test]
    fn frames_of_others_are_not_taken() {
        let stream = Stream::new(Direction::Decap, Family::Ipv6, 80).unwrap();
        let mut receiver = Receiver::new(&stream, Expected::Routed).unwrap();
        let mut counts = StreamCounts::new(Direction::Decap);
        let other = Stream::new(Direction::Decap, Family::Ipv4, 80).unwrap();
        assert!(!receiver.take(&other.returned(0, Expected::Routed).unwrap(), &mut counts));
        assert!(!receiver.take(&stream.sent(0).unwrap(), &mut counts));
        assert!(!receiver.take(&[], &mut counts));
        assert_eq!(counts, StreamCounts::new(Direction::Decap));
        assert!(receiver.take(&stream.in_trial(7).returned(0, Expected::Routed).unwrap(), &mut counts));
        assert_eq!(counts, StreamCounts { stale: 1, ..StreamCounts::new(Direction::Decap) });
    }
}
