//! The sending side of a stream on one link: templates made before the trial, a copy of their headers for each packet in it.

use std::ops::Range;

use arrayvec::ArrayVec;
use sluice_dpdk::{Mbuf, Mempool, TxQueue};
use sluice_trial::message::Load;
use sluice_trial::traffic::tag::{STAMP_AT, STAMP_BYTES, TAG_BYTES, stamp};
use sluice_trial::traffic::{Stream, TrafficError};

use crate::clock::{Clock, tick};
use crate::ports::BURST;

/// Octets of a cache line.
const LINE: usize = 64;
/// Cache lines that hold all headers and the tag of the longest stack.
const MOST_LINES: usize = 3;
/// Fraction bits of the time between two packets.
const FRACTION: u32 = 16;

/// Packet memory of one core for one side of the edge.
///
/// Its buffers are zero but for the cache lines that headers were copied into, so that payloads are zeros if every packet overwrites
/// as many.
pub(crate) struct SendPool {
    pub(crate) pool: Mempool,
    lines: usize,
}

impl SendPool {
    /// A pool that was just made.
    pub(crate) const fn new(pool: Mempool) -> Self {
        Self { pool, lines: 1 }
    }
}

/// The beginning of a flow's frames.
#[repr(align(64))]
struct Template([u8; LINE * MOST_LINES]);

/// The frames of one size.
struct Shape {
    frame_bytes: usize,
    templates: Vec<Template>,
}

/// Sends the packets of some flows of a stream on one link.
pub(crate) struct Sender {
    link: usize,
    /// Place of the stream among those of the trial.
    stream: usize,
    shapes: Vec<Shape>,
    /// Shapes of successive packets, over and over.
    pattern: Vec<u8>,
    /// Where the changing part of the tag goes.
    stamp: Range<usize>,
    /// Octets that its headers and tag take.
    head: usize,
    flow: usize,
    /// Times that every flow had its turn.
    rounds: u32,
    sequence: u32,
    pace: Pace,
    /// Packets that the port took.
    sent: u64,
    /// Whether what finds no room is sent as soon as there is some. Nothing of a burst is.
    keeps_waiting: bool,
    waiting: ArrayVec<Mbuf, BURST>,
}

/// When packets are to be sent. Times are cycles since the trial's start with [`FRACTION`] bits behind the point.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    Most,
    Rate { next: u64, interval: u64, first: u64 },
    Burst { left: u64 },
}

impl Sender {
    /// Makes the templates of `flows`, none of which may be missing, for a trial's streams of each size and the shares of its load.
    pub(crate) fn new(
        link: usize,
        stream: usize,
        sizes: &[Stream],
        pattern: &[u8],
        flows: &[u16],
        load: Load,
    ) -> Result<Self, TrafficError> {
        let shape = |stream: &Stream| {
            let mut frame_bytes = 0;
            let template = |flow: &u16| {
                let frame = stream.sent(*flow)?;
                frame_bytes = frame.len();
                let mut template = Template([0; LINE * MOST_LINES]);
                let head = &frame[..frame.len().min(LINE * MOST_LINES)];
                template.0[..head.len()].copy_from_slice(head);
                Ok(template)
            };
            let templates = flows.iter().map(template).collect::<Result<_, TrafficError>>()?;
            Ok(Shape { frame_bytes, templates })
        };
        let shapes = sizes.iter().map(shape).collect::<Result<Vec<_>, TrafficError>>()?;
        let tag = sizes.first().map_or(0, Stream::sent_tag);
        Ok(Self {
            link,
            stream,
            shapes,
            pattern: pattern.to_vec(),
            stamp: tag + STAMP_AT..tag + TAG_BYTES,
            head: tag + TAG_BYTES,
            flow: 0,
            rounds: 0,
            sequence: 0,
            sent: 0,
            keeps_waiting: !matches!(load, Load::Burst { .. }),
            pace: match load {
                Load::Most => Pace::Most,
                Load::Rate { .. } => Pace::Rate { next: 0, interval: 0, first: 0 },
                Load::Burst { frames } => Pace::Burst { left: frames },
            },
            waiting: ArrayVec::new(),
        })
    }

    /// Distances for so many packets a second. The first packet is sent after `share` of one, 0 to 1, so that not all senders send at
    /// the same moments.
    pub(crate) fn set_rate(&mut self, packets_per_second: f64, share: f64, clock: Clock) {
        if matches!(self.pace, Pace::Rate { .. }) {
            let cycles = clock.cycles_per_second() as f64 / packets_per_second;
            let interval = (cycles * f64::from(1 << FRACTION)) as u64;
            let first = (interval as f64 * share) as u64;
            self.pace = Pace::Rate { next: first, interval, first };
        }
    }

    /// From now on a packet that finds no room is not sent later: what is sent stays at the rate whatever was before.
    pub(crate) fn drop_what_finds_no_room(&mut self) {
        self.keeps_waiting = false;
    }

    /// The link that packets go out on.
    pub(crate) const fn link(&self) -> usize {
        self.link
    }

    /// Place of its stream among those of the trial.
    pub(crate) const fn stream(&self) -> usize {
        self.stream
    }

    /// Packets that the port took.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Packets that were to be sent in so many cycles.
    pub(crate) fn intended(&self, cycles: u64) -> u64 {
        match self.pace {
            Pace::Most => self.sent,
            Pace::Rate { interval, first, .. } => {
                // As many as are due when the last cycle begins: what the last round sends.
                let last = cycles.saturating_sub(1) << FRACTION;
                last.checked_sub(first).map_or(0, |time| time / interval.max(1) + 1)
            }
            // Each packet of a burst is offered once, and numbered.
            Pace::Burst { left } => u64::from(self.sequence) + left,
        }
    }

    /// Sends what is due `elapsed` cycles after the start, at most one burst: packets first that found no room before. Returns how many
    /// the port took.
    #[inline]
    pub(crate) fn send(&mut self, now: u64, elapsed: u64, queue: &mut TxQueue, pool: &mut SendPool) -> usize {
        if self.waiting.is_empty() {
            let lines = self.head.div_ceil(LINE).max(pool.lines);
            pool.lines = lines;
            // One copy of a known length for each of the three, since a call of memcpy costs more than the copy.
            match lines {
                1 => self.fill::<1>(now, elapsed, &pool.pool),
                2 => self.fill::<2>(now, elapsed, &pool.pool),
                _ => self.fill::<MOST_LINES>(now, elapsed, &pool.pool),
            }
            if self.waiting.is_empty() {
                return 0;
            }
        }
        let taken = queue.transmit(&mut self.waiting);
        self.sent += taken as u64;
        if !self.keeps_waiting {
            Mbuf::free_bulk(&mut self.waiting);
        }
        taken
    }

    /// Whether it has times to keep.
    pub(crate) const fn has_rate(&self) -> bool {
        matches!(self.pace, Pace::Rate { .. })
    }

    /// Whether it sends a burst and no more.
    pub(crate) const fn is_burst(&self) -> bool {
        matches!(self.pace, Pace::Burst { .. })
    }

    /// Whether a burst is out.
    pub(crate) const fn is_done(&self) -> bool {
        matches!(self.pace, Pace::Burst { left: 0 })
    }

    /// Frees the packets that found no room.
    pub(crate) fn discard(&mut self) {
        Mbuf::free_bulk(&mut self.waiting);
    }

    #[inline]
    fn fill<const LINES: usize>(&mut self, now: u64, elapsed: u64, pool: &Mempool) {
        let due = self.pace.due(elapsed);
        if due == 0 {
            return;
        }
        pool.allocate_bulk(&mut self.waiting, due);
        let start = now.wrapping_sub(elapsed);
        for packet in &mut self.waiting {
            let shape = match &self.pattern[..] {
                [only] => *only,
                pattern => pattern[place(pattern.len(), self.flow as u32, self.rounds)],
            };
            let shape = &self.shapes[usize::from(shape)];
            let Some(bytes) = packet.set_len(shape.frame_bytes.max(LINE * LINES)) else { continue };
            bytes[..LINE * LINES].copy_from_slice(&shape.templates[self.flow].0[..LINE * LINES]);
            let time = self.pace.take(start, now);
            let stamped: &mut [u8; STAMP_BYTES] = match (&mut bytes[self.stamp.clone()]).try_into() {
                Ok(octets) => octets,
                Err(_) => continue,
            };
            *stamped = stamp(self.sequence, tick(time));
            packet.truncate(shape.frame_bytes);
            self.sequence = self.sequence.wrapping_add(1);
            self.flow += 1;
            if self.flow == shape.templates.len() {
                self.flow = 0;
                self.rounds = self.rounds.wrapping_add(1);
            }
        }
    }
}

/// Place in a pattern of sizes of the packet of a sender's flow, by its place among them, after so many rounds of all flows. It moves on by one
/// with every round: otherwise a flow might have the same few sizes always.
#[inline]
pub(crate) const fn place(pattern: usize, flow: u32, rounds: u32) -> usize {
    (flow as usize + rounds as usize) % pattern
}

impl Pace {
    /// Packets that may be sent now, at most a burst.
    #[inline]
    fn due(&self, elapsed: u64) -> usize {
        match *self {
            Self::Most => BURST,
            Self::Burst { left } => left.min(BURST as u64) as usize,
            Self::Rate { next, interval, .. } => {
                let now = elapsed << FRACTION;
                if next > now {
                    return 0;
                }
                // A full burst is told without a division: that is when there is no time for one.
                let most = BURST as u64 - 1;
                if next.saturating_add(interval.saturating_mul(most)) <= now {
                    BURST
                } else {
                    ((now - next) / interval) as usize + 1
                }
            }
        }
    }

    /// Counts one packet, and says when it was to be sent.
    #[inline]
    fn take(&mut self, start: u64, now: u64) -> u64 {
        match self {
            Self::Most => now,
            Self::Burst { left } => {
                *left -= 1;
                now
            }
            Self::Rate { next, interval, .. } => {
                let time = start.wrapping_add(*next >> FRACTION);
                *next = next.saturating_add(*interval);
                time
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_due_at_equal_distances() {
        let mut pace = Pace::Rate { next: 0, interval: 2000 << FRACTION, first: 0 };
        assert_eq!(pace.due(0), 1);
        assert_eq!(pace.take(100, 0), 100);
        assert_eq!(pace.due(1_999), 0);
        assert_eq!(pace.due(2_000), 1);
        assert_eq!(pace.due(7_999), 3);
        assert_eq!(pace.due(2_000 * 64), BURST, "never more than a burst");
        let times: Vec<u64> = (0..3).map(|_| pace.take(100, 9_000)).collect();
        assert_eq!(times, [2_100, 4_100, 6_100], "by when they were to be sent");
    }

    #[test]
    fn every_flow_has_every_size() {
        for pattern in [2, 12, 32, 48] {
            let mut seen = vec![false; pattern];
            for round in 0..pattern as u32 {
                seen[place(pattern, 7, round)] = true;
            }
            assert!(seen.iter().all(|seen| *seen), "flow 7 with a pattern of {pattern}");
        }
    }

    #[test]
    fn what_was_to_be_sent_is_what_was_due() {
        const CYCLES: u64 = 600_000_000;
        for (rate, share) in [
            (22_083.4, 0.0),
            (18_910.2, 0.0),
            (20_000.0, 0.0),
            (22_083.333_333, 0.0),
            (20_000.0, 0.25),
            (999_983.0, 0.5),
            (3.5, 0.9),
        ] {
            let mut sender =
                Sender::new(0, 0, &[], &[], &[], Load::Rate { packets_per_second: 1.0 }).unwrap();
            sender.set_rate(rate, share, Clock::new(2_000_000_000));
            let (mut sent, mut elapsed) = (0, 0);
            while elapsed < CYCLES {
                sent += take(&mut sender.pace, elapsed);
                elapsed += 977_003;
            }
            sent += take(&mut sender.pace, CYCLES - 1);
            assert_eq!(sent, sender.intended(CYCLES), "{rate} a second");
        }
    }

    /// Takes everything that is due.
    fn take(pace: &mut Pace, elapsed: u64) -> u64 {
        let mut taken = 0;
        loop {
            let due = pace.due(elapsed);
            for _ in 0..due {
                pace.take(0, elapsed);
            }
            taken += due as u64;
            if due == 0 {
                return taken;
            }
        }
    }

    #[test]
    fn a_burst_ends() {
        let mut pace = Pace::Burst { left: 65 };
        for expected in [64, 1, 0] {
            let due = pace.due(0);
            assert_eq!(due, expected);
            for _ in 0..due {
                pace.take(0, 7);
            }
        }
    }
}
