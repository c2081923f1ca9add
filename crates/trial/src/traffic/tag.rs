//! What every frame of a trial says of itself, in the first octets of its UDP payload.
//!
//! ```text
//!   mark 1 │ trial 1 │ flow 2 │ sequence 4 │ time 4 │ balance 2
//! ```
//!
//! The balance makes the ones' complement sum of sequence number, time and balance zero (RFC 1071), so that a template's UDP checksum
//! stays right whatever is written into the three, and a frame that was changed on its way is known.

use crate::topology::FLOWS;

/// First octet of every payload.
pub const MARK: u8 = 0x51;
/// Octets of a tag.
pub const TAG_BYTES: usize = 14;
/// Where in the tag its changing part begins.
pub const STAMP_AT: usize = 4;
/// Octets of the changing part: sequence number, time and balance.
pub const STAMP_BYTES: usize = TAG_BYTES - STAMP_AT;
/// Cycles of the time stamp counter in one unit of a tag's time, a power of two: 32 bits then last for half a minute.
pub const CYCLES_PER_TICK: u64 = 16;

/// What a payload says of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Number of the trial.
    pub trial: u8,
    /// The flow, from 0 to [`FLOWS`].
    pub flow: u16,
    /// Number of the frame among those of its sender.
    pub sequence: u32,
    /// When it was to be sent: the sender's time stamp counter in units of [`CYCLES_PER_TICK`], modulo 2³².
    pub time: u32,
}

/// The beginning of a tag, which does not change within a flow.
pub const fn head(trial: u8, flow: u16) -> [u8; STAMP_AT] {
    let flow = flow.to_be_bytes();
    [MARK, trial, flow[0], flow[1]]
}

/// The rest of a tag.
#[inline]
pub const fn stamp(sequence: u32, time: u32) -> [u8; STAMP_BYTES] {
    let (sequence, time_octets, balance) =
        (sequence.to_be_bytes(), time.to_be_bytes(), balance(sequence, time).to_be_bytes());
    [
        sequence[0],
        sequence[1],
        sequence[2],
        sequence[3],
        time_octets[0],
        time_octets[1],
        time_octets[2],
        time_octets[3],
        balance[0],
        balance[1],
    ]
}

/// The tag in the octets from the mark on; `None` where they are of no trial.
#[inline]
pub fn read(octets: &[u8]) -> Option<Tag> {
    let octets: &[u8; TAG_BYTES] = octets.first_chunk()?;
    let [mark, trial, flow @ ..] = *octets.first_chunk::<4>()?;
    let sequence = u32::from_be_bytes(*octets[4..].first_chunk()?);
    let time = u32::from_be_bytes(*octets[8..].first_chunk()?);
    let stated = u16::from_be_bytes(*octets[12..].first_chunk()?);
    let flow = u16::from_be_bytes(flow);
    (mark == MARK && stated == balance(sequence, time) && flow < FLOWS).then_some(Tag {
        trial,
        flow,
        sequence,
        time,
    })
}

/// The complement of the ones' complement sum of both numbers.
#[inline]
const fn balance(sequence: u32, time: u32) -> u16 {
    // Carries past 32 bits and past 16 bits come back at the bottom.
    let sum = sequence as u64 + time as u64;
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluice_wire::checksum;

    use super::*;

    proptest! {
        #[test]
        fn a_stamp_adds_nothing_to_a_checksum(sequence: u32, time: u32) {
            prop_assert_eq!(checksum::checksum(&stamp(sequence, time)), 0);
        }

        #[test]
        fn what_was_written_is_read(trial: u8, flow in 0..FLOWS, sequence: u32, time: u32) {
            let octets = [&head(trial, flow)[..], &stamp(sequence, time)].concat();
            prop_assert_eq!(read(&octets), Some(Tag { trial, flow, sequence, time }));
            prop_assert_eq!(read(&octets[..TAG_BYTES - 1]), None);
        }

        #[test]
        fn a_changed_bit_of_the_stamp_is_seen(sequence: u32, time: u32, at in STAMP_AT..TAG_BYTES, bit in 0u8..8) {
            let mut octets = [&head(1, 2)[..], &stamp(sequence, time)].concat();
            octets[at] ^= 1u8 << bit;
            prop_assert_eq!(read(&octets), None);
        }

        #[test]
        fn no_octets_break_the_reader(octets in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(tag) = read(&octets) {
                prop_assert!(tag.flow < FLOWS && octets[0] == MARK);
            }
        }
    }
}
