//! The receiving side of a stream: every frame is counted by its sequence number, every 17th compared byte for byte.
//!
//! With several cores, a frame and its copy may come to different ones. Each core counts what it receives; which numbers these were is told
//! behind the trial ([`Receipts`]), and copies on other cores are taken off then. Their latencies and paths stay in the trial's, and order is judged on each
//! core.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_trial::message::StreamCounts;
use sluice_trial::topology::{FLOWS, MOST_PATHS};
use sluice_trial::traffic::tag::{self, Tag};
use sluice_trial::traffic::{Expected, Stream, TrafficError};

use crate::latency::Latencies;
use crate::sender::place;
use crate::sequence::{Numbers, Record, Seen, SequenceWindow};

/// One in so many frames is compared; it has no common factor with the number of flows, so that each flow's turn comes.
const COMPARE_EVERY: u32 = 17;

/// What has to come back of a stream, the same for all cores.
pub(crate) struct Returning {
    streams: Vec<Stream>,
    expected: Expected,
    /// By size and flow.
    templates: Vec<Vec<Vec<u8>>>,
    /// Bytes of frames by size.
    lengths: Vec<usize>,
    /// Sizes of successive frames of a sender.
    pattern: Vec<u8>,
    /// The sender of each flow.
    senders: Vec<u8>,
    /// Flows of each sender.
    flows: Vec<u32>,
    tag: usize,
    counts_paths: bool,
}

impl Returning {
    /// Makes the frames that are expected: a stream for each size, which sizes follow each other, and the sender of each flow.
    pub(crate) fn new(
        streams: &[Stream],
        pattern: &[u8],
        senders: Vec<u8>,
        expected: Expected,
        counts_paths: bool,
    ) -> Result<Self, TrafficError> {
        let returned = |stream: &Stream| (0..FLOWS).map(|flow| stream.returned(flow, expected)).collect();
        let templates = streams.iter().map(returned).collect::<Result<Vec<Vec<Vec<u8>>>, TrafficError>>()?;
        Ok(Self {
            lengths: templates.iter().map(|frames| frames.first().map_or(0, Vec::len)).collect(),
            templates,
            tag: streams.first().map_or(0, |stream| stream.returned_tag(expected)),
            streams: streams.to_vec(),
            pattern: pattern.to_vec(),
            flows: flows_of(&senders),
            senders,
            expected,
            counts_paths,
        })
    }

    /// Place among the sizes of a sender's frame of this number.
    #[inline]
    fn size(&self, sender: usize, sequence: u32) -> usize {
        match &self.pattern[..] {
            [only] => usize::from(*only),
            pattern => {
                let flows = self.flows[sender];
                usize::from(pattern[place(pattern.len(), sequence % flows, sequence / flows)])
            }
        }
    }
}

/// How many flows each sender has.
fn flows_of(senders: &[u8]) -> Vec<u32> {
    let mut flows = vec![0; senders.iter().max().map_or(0, |most| usize::from(*most) + 1)];
    for sender in senders {
        flows[usize::from(*sender)] += 1;
    }
    flows
}

/// Counts the packets of a stream on one core.
pub(crate) struct Receiver {
    returning: Arc<Returning>,
    trial: u8,
    /// Place of the stream among those of the trial.
    stream: usize,
    /// One for each sender.
    windows: Vec<SequenceWindow>,
    /// Highest sequence number of each flow: only within a flow order matters.
    latest: Vec<u32>,
    until_compared: u32,
    pub(crate) latencies: Option<Latencies>,
    /// Sequence number and cycles of each frame, where they are asked for; its memory is taken before the trial.
    pub(crate) arrivals: Vec<(u32, u64)>,
    /// Frames by the path that they came over.
    pub(crate) paths: [u64; MOST_PATHS as usize],
}

impl Receiver {
    /// Nothing received yet. `is_alone` says that no other core receives frames of the stream.
    pub(crate) fn new(
        returning: Arc<Returning>,
        stream: usize,
        senders: usize,
        latencies: Option<Latencies>,
        is_alone: bool,
    ) -> Self {
        let window = if is_alone { SequenceWindow::new } else { SequenceWindow::recorded };
        Self {
            trial: returning.streams.first().map_or(0, Stream::trial),
            returning,
            stream,
            windows: (0..senders).map(|_| window()).collect(),
            latest: vec![0; usize::from(FLOWS)],
            until_compared: 1,
            latencies,
            arrivals: Vec::new(),
            paths: [0; MOST_PATHS as usize],
        }
    }

    /// Place of its stream among those of the trial.
    pub(crate) const fn stream(&self) -> usize {
        self.stream
    }

    /// Nothing is sent any more.
    pub(crate) fn end_sending(&mut self) {
        self.windows.iter_mut().for_each(SequenceWindow::end_sending);
    }

    /// Which numbers were received; none where no other core receives frames of the stream.
    pub(crate) fn take_receipts(&mut self) -> Option<Receipts> {
        let senders = self.windows.iter_mut().map(SequenceWindow::take_record).collect::<Option<Vec<_>>>()?;
        Some(Receipts { stream: self.stream, returning: Arc::clone(&self.returning), senders })
    }

    /// Takes a frame that came in at `now`; false if it is none of this stream.
    #[inline]
    pub(crate) fn take(&mut self, frame: &[u8], now: u64, counts: &mut StreamCounts) -> bool {
        let Some(Tag { trial, flow, sequence, time }) = frame.get(self.returning.tag..).and_then(tag::read)
        else {
            return false;
        };
        if trial != self.trial {
            counts.stale += 1;
            return true;
        }
        let sender = usize::from(self.returning.senders[usize::from(flow)]);
        let size = self.returning.size(sender, sequence);
        if frame.len() != self.returning.lengths[size] {
            return false;
        }
        let latest = &mut self.latest[usize::from(flow)];
        match self.windows[sender].see(sequence) {
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
        if let Some(latencies) = &mut self.latencies {
            latencies.record(time, now);
        }
        if self.arrivals.len() < self.arrivals.capacity() {
            self.arrivals.push((sequence, now));
        }
        if self.returning.counts_paths {
            // The fifth octet of a router's MAC address begins with its path.
            let path = frame.get(4).map_or(0, |octet| usize::from(octet >> 4));
            self.paths[path % usize::from(MOST_PATHS)] += 1;
        }
        self.until_compared -= 1;
        if self.until_compared == 0 {
            self.until_compared = COMPARE_EVERY;
            self.compare(frame, flow, size, counts);
        }
        true
    }

    fn compare(&self, frame: &[u8], flow: u16, size: usize, counts: &mut StreamCounts) {
        let template = &self.returning.templates[size][usize::from(flow)];
        let stream = &self.returning.streams[size];
        counts.compared += 1;
        counts.wrong += u64::from(!stream.is_as_expected(frame, template, self.returning.expected));
    }
}

/// The numbers of a stream's frames that one core received.
pub(crate) struct Receipts {
    stream: usize,
    returning: Arc<Returning>,
    /// By sender.
    senders: Vec<Record>,
}

impl Receipts {
    /// Takes off the sums of all cores' counts, by stream, what came to several of them: all but the first one is a duplicate.
    pub(crate) fn take_duplicates_off(all: Vec<Self>, counts: &mut [StreamCounts]) {
        let mut numbers: BTreeMap<(usize, usize), Numbers> = BTreeMap::new();
        let (mut sending, mut settling) = (Vec::new(), Vec::new());
        for Self { stream, returning, senders } in all {
            for (sender, [early, late]) in senders.into_iter().enumerate() {
                sending.push((stream, sender, Arc::clone(&returning), early));
                settling.push((stream, sender, Arc::clone(&returning), late));
            }
        }
        for (records, while_sending) in [(sending, 1), (settling, 0)] {
            for (stream, sender, returning, received) in records {
                let counts = &mut counts[stream];
                numbers.entry((stream, sender)).or_default().take_in(received, |sequence| {
                    let bytes = returning.lengths[returning.size(sender, sequence)];
                    counts.received -= 1;
                    counts.received_while_sending -= while_sending;
                    counts.received_bytes -= bytes as u64;
                    counts.duplicates += 1;
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_trial::topology::Topology;
    use sluice_trial::traffic::tag::{STAMP_AT, TAG_BYTES, stamp};
    use sluice_trial::traffic::{Direction, Family};

    use super::*;

    fn stream(direction: Direction, family: Family, bytes: usize) -> Stream {
        Stream::new(Topology::default(), direction, family, bytes).unwrap()
    }

    fn receiver(streams: &[Stream], pattern: &[u8]) -> Receiver {
        let senders = vec![0; usize::from(FLOWS)];
        let returning = Returning::new(streams, pattern, senders, Expected::Routed, false).unwrap();
        Receiver::new(Arc::new(returning), 0, 1, Some(Latencies::new().unwrap()), true)
    }

    /// Counts of a core that receives some numbers while frames are sent, and some afterwards.
    fn counted(receiver: &mut Receiver, sizes: &[Stream], numbers: [&[u32]; 2]) -> StreamCounts {
        let mut counts = StreamCounts::new(Direction::Encap);
        let take = |receiver: &mut Receiver, numbers: &[u32], counts: &mut StreamCounts| {
            for number in numbers {
                assert!(receiver.take(
                    &numbered(&sizes[PATTERN[*number as usize % 3]], 3, *number),
                    0,
                    counts
                ));
            }
        };
        take(receiver, numbers[0], &mut counts);
        counts.received_while_sending = counts.received;
        receiver.end_sending();
        take(receiver, numbers[1], &mut counts);
        counts
    }

    const PATTERN: [usize; 3] = [0, 1, 1];

    #[test]
    fn a_copy_that_comes_to_another_core_is_a_duplicate() {
        let sizes = [stream(Direction::Encap, Family::Ipv4, 60), stream(Direction::Encap, Family::Ipv4, 600)];
        let senders = vec![0; usize::from(FLOWS)];
        let pattern = PATTERN.map(|size| size as u8);
        let returning = Arc::new(Returning::new(&sizes, &pattern, senders, Expected::Routed, false).unwrap());
        let numbers = |range: std::ops::Range<u32>| range.collect::<Vec<_>>();
        let cores = [
            // 49 comes twice to this core.
            [numbers(0..50), [numbers(90..100), vec![49]].concat()],
            // 40 to 49 while frames are sent, and then 10 and 95, come to both.
            [numbers(40..80), vec![95, 10]],
        ];
        let mut sum = StreamCounts { sent: 100, ..StreamCounts::new(Direction::Encap) };
        let mut receipts = Vec::new();
        for [sending, settling] in &cores {
            let mut receiver = Receiver::new(Arc::clone(&returning), 0, 1, None, false);
            sum.add(&counted(&mut receiver, &sizes, [sending, settling]));
            receipts.extend(receiver.take_receipts());
        }
        assert_eq!((sum.received, sum.received_while_sending, sum.duplicates), (102, 90, 1));
        Receipts::take_duplicates_off(receipts, std::slice::from_mut(&mut sum));
        assert_eq!((sum.received, sum.received_while_sending, sum.lost()), (90, 80, 10));
        assert_eq!(sum.duplicates, 1 + 10 + 2);
        let lengths = [110, 650, 650];
        let once = [numbers(0..80), numbers(90..100)].concat();
        let bytes: u64 = once.iter().map(|number| lengths[*number as usize % 3]).sum();
        assert_eq!(sum.received_bytes, bytes);
    }

    fn numbered(stream: &Stream, flow: u16, sequence: u32) -> Vec<u8> {
        let mut frame = stream.returned(flow, Expected::Routed).unwrap();
        let at = stream.returned_tag(Expected::Routed);
        frame[at + STAMP_AT..at + TAG_BYTES].copy_from_slice(&stamp(sequence, 0));
        frame
    }

    #[test]
    fn loss_duplicates_late_and_wrong_frames_are_told_apart() {
        let stream = stream(Direction::Encap, Family::Ipv4, 60);
        let mut receiver = receiver(&[stream], &[0]);
        let mut counts = StreamCounts { sent: 100, ..StreamCounts::new(Direction::Encap) };
        // Number 7 is lost, 20 comes twice, 30 behind 31 of another flow, 36 behind 46 of its own, 35 was routed once too often.
        let order = [(0..7), (8..21), (20..30), (31..32), (30..31), (32..36), (37..47), (36..37), (47..100)];
        for sequence in order.into_iter().flatten() {
            let mut frame = numbered(&stream, (sequence % 10) as u16, sequence);
            if sequence == 35 {
                frame[64 + 8] = 62;
            }
            assert!(receiver.take(&frame, 0, &mut counts));
        }
        assert_eq!((counts.received, counts.lost()), (99, 1));
        assert_eq!((counts.duplicates, counts.reordered, counts.too_late), (1, 1, 0));
        assert_eq!((counts.compared, counts.wrong), (6, 1));
        assert_eq!(counts.received_bytes, 99 * 110);
    }

    #[test]
    fn frames_of_others_are_not_taken() {
        let mine = stream(Direction::Decap, Family::Ipv6, 80);
        let mut receiver = receiver(&[mine], &[0]);
        let mut counts = StreamCounts::new(Direction::Decap);
        let other = stream(Direction::Decap, Family::Ipv4, 80);
        assert!(!receiver.take(&other.returned(0, Expected::Routed).unwrap(), 0, &mut counts));
        assert!(!receiver.take(&mine.sent(0).unwrap(), 0, &mut counts));
        assert!(!receiver.take(&[], 0, &mut counts));
        assert_eq!(counts, StreamCounts::new(Direction::Decap));
        let of_another_trial = mine.in_trial(7).returned(0, Expected::Routed).unwrap();
        assert!(receiver.take(&of_another_trial, 0, &mut counts));
        assert_eq!(counts, StreamCounts { stale: 1, ..StreamCounts::new(Direction::Decap) });
    }

    #[test]
    fn frames_have_the_size_of_their_number() {
        let sizes = [stream(Direction::Encap, Family::Ipv4, 60), stream(Direction::Encap, Family::Ipv4, 600)];
        let mut receiver = receiver(&sizes, &[0, 1, 1]);
        let mut counts = StreamCounts::new(Direction::Encap);
        for sequence in 0..6 {
            let size = [0, 1, 1][sequence as usize % 3];
            assert!(receiver.take(&numbered(&sizes[size], 3, sequence), 0, &mut counts));
            assert!(!receiver.take(&numbered(&sizes[1 - size], 3, sequence), 0, &mut counts));
        }
        assert_eq!((counts.received, counts.received_bytes), (6, 2 * 110 + 4 * 650));
    }
}
