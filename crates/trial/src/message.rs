//! What the bench tells a traffic generator and what it answers: one JSON object a line, on the generator's standard input and output.
//!
//! The generator speaks first, with [`Answer::Started`]; from then on each [`Command`] gets one answer. It ends when its input ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluice_wire::MacAddr;

use crate::traffic::{Direction, Expected, Family};

/// What a generator is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Wait until both links are up: [`Answer::LinksUp`].
    WaitForLinks {
        /// Give up after this long, milliseconds.
        timeout_ms: u64,
    },
    /// Find out the MAC addresses of a device that is no node: [`Answer::Device`].
    FindDevice {
        /// By link, uplinks first: those that are known. The others are asked for, by ARP and neighbour solicitation.
        macs: Vec<Option<MacAddr>>,
        /// That of its router on the segments, if it is another one than a node's.
        router: Option<MacAddr>,
        /// Give up after this long, milliseconds.
        timeout_ms: u64,
    },
    /// Send and count: [`Answer::Trial`].
    Trial(TrialOrder),
    /// What was forwarded since the start, of a process that echoes: [`Answer::Forwarded`].
    GetForwarded,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialOrder {
    /// Directions, one stream of packets each; [`Direction::Loop`] stands alone.
    pub directions: Vec<Direction>,
    /// Family of the workloads' packets.
    pub family: Family,
    /// Bytes of workloads' frames, without frame check sequence: the sizes of successive frames, over and over; at most
    /// [`MOST_SIZES`].
    pub frame_bytes: Vec<usize>,
    /// How frames are to come back.
    pub expected: Expected,
    /// How many are sent, and how fast.
    pub load: Load,
    /// How long to send, milliseconds.
    pub duration_ms: u64,
    /// Whether each frame's latency is recorded.
    pub latency: bool,
    /// Whether each frame's arrival is told; of a trial with one sender (one direction, link and core) and at most [`MOST_ARRIVALS`].
    #[serde(default)]
    pub arrivals: bool,
}

/// Longest sequence of sizes: that of the longest genome.
pub const MOST_SIZES: usize = 4096;

/// Most frames whose arrivals are told.
pub const MOST_ARRIVALS: u64 = 1_000_000;

/// A trial is over when nothing has come back for so long: longer than other programs hold a core of a shared machine.
pub const QUIET: Duration = Duration::from_millis(200);
/// The same once every frame has come back: there may still be copies of some.
pub const COMPLETE_QUIET: Duration = Duration::from_millis(5);
/// Longest wait for that, from the moment when sending has ended.
pub const SETTLING_LIMIT: Duration = Duration::from_secs(1);

/// What a trial offers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// In each direction as many frames as the ports take.
    Most,
    /// Frames at equal distances in each direction. What a port has no room for is sent as soon as it has, or not at all in the trial's time.
    Rate {
        /// Frames a second.
        packets_per_second: f64,
    },
    /// So many frames, one right after the other, and no more. What a port has no room for is lost.
    Burst {
        /// Frames, all directions together.
        frames: u64,
    },
}

/// What a generator answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub enum Answer {
    /// The ports are there and wait for their peer (or, of a process that echoes, are connected).
    Started {
        /// What its packet memory is taken from, for people.
        memory: String,
        /// Cycles of the time stamp counter a second.
        cycles_per_second: u64,
        /// Version of DPDK.
        dpdk: String,
    },
    /// Both links are up.
    LinksUp,
    /// The device's MAC addresses, by link: from now on, trials send to these.
    Device {
        /// Of uplinks, then of downlinks.
        macs: Vec<MacAddr>,
    },
    /// The result of a trial.
    Trial(TrialResult),
    /// What was forwarded.
    Forwarded(Forwarded),
    /// Why a command failed, in one sentence.
    Failed {
        /// The sentence.
        message: String,
    },
}

/// What an echoing process has forwarded since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarded {
    /// Packets received.
    pub packets: u64,
    /// Cycles of the loops that received packets.
    pub busy_cycles: u64,
}

/// Counts of one trial; by default one in which nothing was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// How long packets were sent, nanoseconds.
    pub sending_ns: u64,
    /// Counts by direction, in the order of the command.
    pub streams: Vec<StreamCounts>,
    /// From the moment when a frame was to be sent until it was received, all directions together; none where it was not recorded
    /// or nothing came back.
    pub latency: Option<Latency>,
    /// Sequence number and time of each frame that came back, nanoseconds since the start of the trial, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrivals: Vec<(u32, u64)>,
    /// Frames that came back to the tester over each path, of an edge with several.
    pub paths: Vec<u64>,
    /// Whether a link was seen down.
    pub link_down: bool,
    /// By how much the time stamp counter and the system's monotonic clock differ on how long the trial was, nanoseconds.
    pub clock_difference_ns: i64,
    /// Frames that were of no stream and no neighbour resolution.
    pub foreign: u64,
    /// ARP requests and neighbour solicitations that were answered.
    pub neighbor_requests: u64,
    /// Whether a signal ended the trial before its time.
    pub interrupted: bool,
}

/// Counts of one direction of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCounts {
    /// The direction.
    pub direction: Direction,
    /// Frames that were to be sent; at the highest rate those that the port took.
    pub intended: u64,
    /// Frames that the port took.
    pub sent: u64,
    /// Frames of this stream that came back while packets were being sent, each once.
    pub received_while_sending: u64,
    /// Frames of this stream that came back, each once.
    pub received: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Frames that came back once more.
    pub duplicates: u64,
    /// Frames that came back behind later ones of their flow.
    pub reordered: u64,
    /// Frames so late that they cannot be told from duplicates; they count as lost.
    pub too_late: u64,
    /// Frames of an earlier trial, which came when the wire was thought to be quiet; they were lost then.
    pub stale: u64,
    /// Frames compared with what they should be.
    pub compared: u64,
    /// Frames among those that were not what they should be.
    pub wrong: u64,
}

impl StreamCounts {
    /// Nothing counted yet.
    pub const fn new(direction: Direction) -> Self {
        Self {
            direction,
            intended: 0,
            sent: 0,
            received_while_sending: 0,
            received: 0,
            received_bytes: 0,
            duplicates: 0,
            reordered: 0,
            too_late: 0,
            stale: 0,
            compared: 0,
            wrong: 0,
        }
    }

    /// Frames that were sent and did not come back.
    pub const fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Adds what another core counted of the same direction.
    pub fn add(&mut self, other: &Self) {
        let Self { direction: _, intended, sent, received_while_sending, received, received_bytes, .. } =
            other;
        self.intended += intended;
        self.sent += sent;
        self.received_while_sending += received_while_sending;
        self.received += received;
        self.received_bytes += received_bytes;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.too_late += other.too_late;
        self.stale += other.stale;
        self.compared += other.compared;
        self.wrong += other.wrong;
    }
}

/// Latencies of one trial, nanoseconds, to three digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Frames that were measured.
    pub frames: u64,
    /// The least.
    pub minimum: f64,
    /// The mean.
    pub mean: f64,
    /// 50th percentile.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// The most.
    pub maximum: f64,
}

impl TrialResult {
    /// Frames sent in all directions.
    pub fn sent(&self) -> u64 {
        self.sum(|stream| stream.sent)
    }

    /// Frames lost in all directions.
    pub fn lost(&self) -> u64 {
        self.sum(StreamCounts::lost)
    }

    /// Lost frames of all sent, 0 to 1; 0 if none was sent.
    pub fn loss(&self) -> f64 {
        let sent = self.sent();
        if sent == 0 { 0.0 } else { self.lost() as f64 / sent as f64 }
    }

    /// Frames that came back each second while packets were being sent, in all directions.
    pub fn packets_per_second(&self) -> f64 {
        if self.sending_ns == 0 {
            return 0.0;
        }
        self.sum(|stream| stream.received_while_sending) as f64 * 1e9 / self.sending_ns as f64
    }

    /// Adds one number of all streams.
    pub fn sum(&self, count: impl Fn(&StreamCounts) -> u64) -> u64 {
        self.streams.iter().map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> TrialResult {
        let counts = |direction, sent, received, received_while_sending| StreamCounts {
            sent,
            received,
            received_while_sending,
            ..StreamCounts::new(direction)
        };
        TrialResult {
            sending_ns: 500_000_000,
            streams: vec![
                counts(Direction::Encap, 1_000, 990, 900),
                counts(Direction::Decap, 3_000, 3_000, 2_600),
            ],
            latency: Some(Latency { frames: 990, minimum: 8.0, maximum: 4e6, ..Latency::default() }),
            arrivals: vec![(0, 5), (1, 7)],
            paths: vec![3],
            link_down: false,
            clock_difference_ns: -3,
            foreign: 2,
            neighbor_requests: 1,
            interrupted: false,
        }
    }

    #[test]
    fn rate_is_of_the_time_of_sending_and_loss_of_all_frames() {
        let result = result();
        assert_eq!(result.packets_per_second(), 7_000.0);
        assert_eq!((result.sent(), result.lost()), (4_000, 10));
        assert_eq!(result.loss(), 0.0025);
    }

    #[test]
    fn nothing_sent_is_nothing_lost() {
        let empty = TrialResult { sending_ns: 0, streams: Vec::new(), ..result() };
        assert_eq!((empty.loss(), empty.packets_per_second()), (0.0, 0.0));
        let mut sum = StreamCounts::new(Direction::Loop);
        for counts in result().streams {
            sum.add(&counts);
        }
        assert_eq!((sum.direction, sum.sent, sum.received, sum.lost()), (Direction::Loop, 4_000, 3_990, 10));
        let duplicated = StreamCounts { sent: 5, received: 6, ..StreamCounts::new(Direction::Encap) };
        assert_eq!(duplicated.lost(), 0);
    }

    #[test]
    fn messages_survive_their_line() {
        let order = TrialOrder {
            directions: vec![Direction::Encap, Direction::Decap],
            family: Family::Ipv6,
            frame_bytes: vec![76, 80],
            expected: Expected::Routed,
            load: Load::Rate { packets_per_second: 1_000.5 },
            duration_ms: 250,
            latency: true,
            arrivals: true,
        };
        let find = Command::FindDevice {
            macs: vec![None, Some(MacAddr([2, 0, 0, 0, 0, 1]))],
            router: Some(MacAddr::BROADCAST),
            timeout_ms: 5,
        };
        let wait = Command::WaitForLinks { timeout_ms: 5 };
        for command in [wait, find, Command::Trial(order), Command::GetForwarded] {
            let line = serde_json::to_string(&command).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Command>(&line).unwrap(), command);
        }
        let answer = Answer::Trial(result());
        let line = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<Answer>(&line).unwrap(), answer);
        assert!(line.starts_with(r#"{"answer":"trial","sending_ns":500000000,"#), "{line}");
        assert!(serde_json::from_str::<Command>(r#"{"command":"trial","sizes":1}"#).is_err());
    }
}
