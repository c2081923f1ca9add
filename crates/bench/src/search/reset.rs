//! Reset (RFC 2544 section 26.6, RFC 6201): how long forwarding is interrupted when the device, or a part of it, is reset.
//!
//! Frames are sent at a constant rate, no higher than the throughput, from before the reset until the device forwards again. RFC 6201
//! has two ways to get the time, and both are given, since they err differently:
//!
//! ```text
//!   sent      │││││││││││││││││││││││
//!   received  │││││││             │││││
//!                   A             B        by time stamps   B − A
//!                    ·············         by loss          frames lost / rate
//! ```
//!
//! Loss counts every frame that is missing, wherever it went missing; time stamps see the longest silence alone, and include a silence
//! in which the device held frames and lost none.

use std::time::Duration;

use super::Impossible;
use super::error::Faults;

/// Most frames: one bit each is kept, 1 GiB in all.
const MOST_FRAMES: u64 = 1 << 33;

/// A frame that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number, from 0, in the order of sending.
    pub sequence: u64,
    /// When it came, on a clock that only goes forward.
    pub at: Duration,
}

/// An interruption of forwarding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interruption {
    /// Frames that never came back.
    pub lost: u64,
    /// Of these, frames sent between the last before and the first behind the silence.
    pub lost_in_silence: u64,
    /// Frames that came back more than once.
    pub duplicates: u64,
    /// Frames that came behind later ones.
    pub reordered: u64,
    /// The reset time by loss.
    pub by_loss: Duration,
    /// The reset time by time stamps: the longest silence. Even without a reset it is as long as the gap between two frames.
    pub by_time_stamps: Duration,
    /// How finely both are known: the gap between two frames.
    pub frame_gap: Duration,
}

/// Why there is no reset time.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ResetError {
    /// Settings that no sequence of frames can have.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// A frame has a number that was not sent.
    #[error("a frame came back with number {sequence}, but only {sent} frames were sent")]
    NeverSent {
        /// Its number.
        sequence: u64,
        /// Frames sent.
        sent: u64,
    },
    /// A time stamp is earlier than the one before.
    #[error(
        "the clock went backwards by {by:?}, at frame {sequence}; let nothing set the time during a test"
    )]
    ClockWentBackwards {
        /// Number of the frame.
        sequence: u64,
        /// How far.
        by: Duration,
    },
    /// No frame came back.
    #[error("no frame came back, before or after the reset; check first that the device forwards")]
    NothingReceived,
    /// The interruption has no beginning.
    #[error(
        "the first {lost} frames did not come back; start sending well before the reset, at a rate that the device sustains"
    )]
    NotForwardingBefore {
        /// Frames.
        lost: u64,
    },
    /// The interruption has no end.
    #[error("the last {lost} frames did not come back; send until the device forwards again")]
    NotForwardingAgain {
        /// Frames.
        lost: u64,
    },
}

/// The interruption in a sequence of frames that came back, in the order of their arrival, of `sent` frames sent at a constant rate.
///
/// # Errors
///
/// [`ResetError`].
pub fn interruption(
    frames_per_second: f64,
    sent: u64,
    arrivals: impl IntoIterator<Item = Arrival>,
) -> Result<Interruption, ResetError> {
    let mut faults = Faults::default();
    faults.rate("rate", frames_per_second);
    faults.count("number of frames", sent, MOST_FRAMES);
    faults.finish()?;

    let mut seen = Seen::new(sent);
    let mut silence: Option<(Arrival, Arrival)> = None;
    let mut last: Option<Arrival> = None;
    let (mut received, mut duplicates, mut reordered, mut highest) = (0, 0, 0, 0);
    for arrival in arrivals {
        let Arrival { sequence, at } = arrival;
        if sequence >= sent {
            return Err(ResetError::NeverSent { sequence, sent });
        }
        if let Some(by) = last.and_then(|last| last.at.checked_sub(at)).filter(|by| !by.is_zero()) {
            return Err(ResetError::ClockWentBackwards { sequence, by });
        }
        if !seen.insert(sequence) {
            duplicates += 1;
            continue;
        }
        received += 1;
        reordered += u64::from(sequence < highest);
        highest = highest.max(sequence);
        if let Some(last) = last
            && silence.is_none_or(|(before, behind)| at - last.at > behind.at - before.at)
        {
            silence = Some((last, arrival));
        }
        last = Some(arrival);
    }
    if received == 0 {
        return Err(ResetError::NothingReceived);
    }
    let lost_in_silence =
        silence.map_or(0, |(before, behind)| seen.missing(before.sequence + 1, behind.sequence));
    let (head, tail) = (seen.first(), sent - 1 - highest);
    if tail > 0 && tail >= lost_in_silence {
        return Err(ResetError::NotForwardingAgain { lost: tail });
    }
    if head > 0 && head >= lost_in_silence {
        return Err(ResetError::NotForwardingBefore { lost: head });
    }
    let lost = sent - received;
    Ok(Interruption {
        lost,
        lost_in_silence,
        duplicates,
        reordered,
        by_loss: Duration::from_secs_f64(lost as f64 / frames_per_second),
        by_time_stamps: silence.map_or(Duration::ZERO, |(before, behind)| behind.at - before.at),
        frame_gap: Duration::from_secs_f64(1.0 / frames_per_second),
    })
}

/// Which frames came back, a bit each.
struct Seen(Vec<u64>);

impl Seen {
    fn new(frames: u64) -> Self {
        // No more than MOST_FRAMES, so that it fits.
        Self(vec![0; frames.div_ceil(64) as usize])
    }

    /// Marks a frame; `false` if it was marked.
    fn insert(&mut self, frame: u64) -> bool {
        let (word, bit) = (&mut self.0[(frame / 64) as usize], 1 << (frame % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn contains(&self, frame: u64) -> bool {
        self.0[(frame / 64) as usize] & (1 << (frame % 64)) != 0
    }

    /// Frames in a range that are not marked.
    fn missing(&self, from: u64, to: u64) -> u64 {
        (from..to).filter(|&frame| !self.contains(frame)).count() as u64
    }

    /// The first that is marked, of at least one.
    fn first(&self) -> u64 {
        let empty = self.0.iter().take_while(|word| **word == 0).count();
        empty as u64 * 64 + self.0.get(empty).map_or(0, |word| u64::from(word.trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 1_000.0;

    fn arrival(sequence: u64) -> Arrival {
        Arrival { sequence, at: Duration::from_millis(sequence + 3) }
    }

    fn arrivals(frames: impl IntoIterator<Item = u64>) -> Vec<Arrival> {
        frames.into_iter().map(arrival).collect()
    }

    #[test]
    fn both_methods_agree_on_a_clean_interruption() {
        let result = interruption(RATE, 10_000, arrivals((0..2_000).chain(3_500..10_000))).unwrap();
        assert_eq!((result.lost, result.lost_in_silence), (1_500, 1_500));
        assert_eq!(result.by_loss, Duration::from_millis(1_500));
        assert_eq!(result.by_time_stamps, Duration::from_millis(1_501), "from the last frame to the first");
        assert_eq!(result.frame_gap, Duration::from_millis(1));
    }

    #[test]
    fn loss_elsewhere_shows_in_one_method_alone() {
        let frames = (0..2_000).chain(3_000..10_000).filter(|frame| frame % 1_000 != 7);
        let result = interruption(RATE, 10_000, arrivals(frames)).unwrap();
        assert_eq!((result.lost, result.lost_in_silence), (1_009, 1_000));
        assert_eq!(result.by_loss, Duration::from_millis(1_009));
        assert_eq!(result.by_time_stamps, Duration::from_millis(1_001));
    }

    #[test]
    fn a_device_that_holds_frames_back_loses_time_but_nothing_else() {
        let mut frames = arrivals(0..1_000);
        for frame in &mut frames[400..600] {
            frame.at = Duration::from_millis(603);
        }
        let result = interruption(RATE, 1_000, frames).unwrap();
        assert_eq!((result.lost, result.by_loss), (0, Duration::ZERO));
        assert_eq!(result.by_time_stamps, Duration::from_millis(603 - 402));
    }

    #[test]
    fn duplicates_and_reordering_are_counted_and_change_nothing() {
        let clean = arrivals((0..200).chain(300..500));
        let mut disturbed = clean.clone();
        disturbed.insert(11, disturbed[10]);
        let (a, b) = (disturbed[50].sequence, disturbed[51].sequence);
        (disturbed[50].sequence, disturbed[51].sequence) = (b, a);
        let (clean, disturbed) =
            (interruption(RATE, 500, clean).unwrap(), interruption(RATE, 500, disturbed).unwrap());
        assert_eq!((disturbed.duplicates, disturbed.reordered), (1, 1));
        assert_eq!((clean.lost, clean.by_time_stamps), (disturbed.lost, disturbed.by_time_stamps));
    }

    #[test]
    fn an_interruption_needs_a_beginning_and_an_end() {
        assert_eq!(interruption(RATE, 10, []), Err(ResetError::NothingReceived));
        assert_eq!(
            interruption(RATE, 500, arrivals(0..200)),
            Err(ResetError::NotForwardingAgain { lost: 300 })
        );
        assert_eq!(
            interruption(RATE, 500, arrivals(200..500)),
            Err(ResetError::NotForwardingBefore { lost: 200 })
        );
        // A few frames that were still on their way are no reason to doubt a long interruption.
        assert_eq!(interruption(RATE, 500, arrivals((0..200).chain(400..498))).unwrap().lost, 202);
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        assert_eq!(
            interruption(RATE, 10, arrivals([0, 1, 10])),
            Err(ResetError::NeverSent { sequence: 10, sent: 10 })
        );
        let backwards = [arrival(5), Arrival { sequence: 6, at: Duration::from_millis(1) }];
        assert_eq!(
            interruption(RATE, 10, backwards),
            Err(ResetError::ClockWentBackwards { sequence: 6, by: Duration::from_millis(7) })
        );
        let Err(ResetError::Impossible(error)) = interruption(0.0, 0, []) else {
            panic!("no rate, no frame")
        };
        assert_eq!(error.faults.len(), 2);
    }

    #[test]
    fn a_bit_is_kept_for_each_frame() {
        let mut seen = Seen::new(130);
        assert!(seen.insert(129) && seen.insert(70) && !seen.insert(70));
        assert_eq!((seen.first(), seen.missing(69, 130)), (70, 59));
    }
}
