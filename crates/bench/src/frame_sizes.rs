//! Which frame sizes a trial sends: one, or a mix (IMIX) whose exact sequence is named by its genome (RFC 6985).
//!
//! Sizes are those of RFC 2544: of the frame, with its frame check sequence. A genome is a sequence of letters, a size each:
//!
//! ```text
//!   64                                  frames of 64 bytes
//!   imix:aaafg                          the letters of RFC 6985 section 4: three of 64, one of 1280, one of 1518
//!   imix:28a16b4c(a=64,b=570,c=1518)    sizes of one's own, and numbers for runs (sections 5 and 6)
//!   imix-simple, imix-fdio, imix-sd-wan
//! ```
//!
//! | name | frames | average |
//! |---|---|---|
//! | `imix-simple` | 7 × 64, 4 × 594, 1 × 1518: IP packets of 40, 576 and 1,500 bytes, averaging 340.3; the shortest is padded | 361.8 |
//! | `imix-fdio` | 28 × 64, 16 × 570, 4 × 1518, as FD.io measures | 353.8 |
//! | `imix-sd-wan` | 17 × 82, 9 × 594, 6 × 1346: UDP payloads of 36, 548 and 1,300 bytes in IPv4, averaging 417 | 463.0 |
//!
//! The SD-WAN document says that its mix averages a payload of 417 bytes, and no more. Here payload is what an application hands to UDP,
//! as for the document's other profile, 1,300 bytes; the 46 bytes of UDP, IPv4 and Ethernet come on top. The sizes are ours: IP
//! packets of 64 bytes, which have room for a test packet in IPv6 as well, of 576 bytes, and the document's large packet.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::line_rate::{ETHERNET_HEADER, FRAME_CHECK_SEQUENCE, LONGEST_FRAME, SHORTEST_FRAME};

/// The letters of RFC 6985 section 4. Its `z`, the MTU of the path, has no size of its own and is to be given one.
const STANDARD_SIZES: [(char, u32); 10] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1_024),
    ('f', 1_280),
    ('g', 1_518),
    ('h', 2_112),
    ('i', 9_000),
    ('j', 16_000),
];
/// Most frames of a genome.
const LONGEST_GENOME: usize = 4_096;
/// From this length on a run of equal letters is printed with its number.
const SHORTEST_RUN: usize = 4;

/// What is wrong with frame sizes: all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("frame sizes \"{text}\": {}", .faults.iter().map(SizeFault::to_string).collect::<Vec<_>>().join("; "))]
pub struct FrameSizesError {
    /// What was written.
    pub text: String,
    /// What is wrong, at least one thing.
    pub faults: Vec<SizeFault>,
}

/// One thing that is wrong with frame sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeFault {
    /// Neither a number nor a name.
    #[error(
        "write a size, imix-simple, imix-fdio, imix-sd-wan, or imix: and a genome, as imix:aab(a=64,b=1518)"
    )]
    Unknown,
    /// A part of a genome that cannot be read.
    #[error("\"{0}\" is neither a letter with a number before it nor (a=64,…)")]
    Unreadable(String),
    /// No letter at all.
    #[error("the genome has no letter")]
    Empty,
    /// More frames than a genome may have.
    #[error("the genome has more than {LONGEST_GENOME} frames")]
    TooLong,
    /// A letter without a size.
    #[error("the letter {0} has no size: add ({0}=…)")]
    NoSize(char),
    /// A letter with two sizes.
    #[error("the letter {0} has two sizes")]
    TwoSizes(char),
    /// A size for a letter that does not occur.
    #[error("the letter {0} has a size but does not occur")]
    Unused(char),
    /// A size that no frame has.
    #[error(
        "{bytes} bytes is no size of a frame: with its frame check sequence it has {SHORTEST_FRAME} to {LONGEST_FRAME}"
    )]
    NoFrame {
        /// The size.
        bytes: u64,
    },
    /// A size that is less than what the test writes into a frame.
    #[error("a frame of {bytes} bytes is too short for a test packet, which takes {shortest}")]
    TooShort {
        /// The size.
        bytes: u32,
        /// The least that works.
        shortest: u32,
    },
    /// A size that does not pass a link.
    #[error("a frame of {bytes} bytes is too long for an MTU of {mtu}, which allows {longest}")]
    AboveMtu {
        /// The size.
        bytes: u32,
        /// Longest IP packet, bytes.
        mtu: u32,
        /// Longest frame, bytes.
        longest: u32,
    },
}

/// A mix that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Simple,
    Fdio,
    SdWan,
}

impl Named {
    const ALL: [Self; 3] = [Self::Simple, Self::Fdio, Self::SdWan];

    const fn name(self) -> &'static str {
        match self {
            Self::Simple => "imix-simple",
            Self::Fdio => "imix-fdio",
            Self::SdWan => "imix-sd-wan",
        }
    }

    /// Sizes and how many of each.
    const fn weights(self) -> [(u32, usize); 3] {
        match self {
            Self::Simple => [(64, 7), (594, 4), (1_518, 1)],
            Self::Fdio => [(64, 28), (570, 16), (1_518, 4)],
            Self::SdWan => [(82, 17), (594, 9), (1_346, 6)],
        }
    }

    fn genome(self) -> Genome {
        let sizes = ('a'..).zip(self.weights()).map(|(letter, (bytes, _))| (letter, bytes)).collect();
        let weights = ('a'..).zip(self.weights()).map(|(letter, (_, count))| (letter, count));
        Genome { letters: interleaved(weights.collect()), sizes }
    }
}

/// Which frame sizes a trial sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FrameSizes(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Fixed(u32),
    Named(Named),
    Genome(Genome),
}

impl FrameSizes {
    /// Frames of one size.
    ///
    /// # Errors
    ///
    /// For a size that no frame has.
    pub fn fixed(bytes: u32) -> Result<Self, FrameSizesError> {
        bytes.to_string().parse()
    }

    /// The exact sequence that is sent, over and over: what a report has to state. Of a mix that was given by a genome, this is that
    /// genome's frames in an order that spreads each size evenly.
    pub fn genome(&self) -> Genome {
        match &self.0 {
            Kind::Fixed(bytes) => Genome { letters: vec!['a'], sizes: BTreeMap::from([('a', *bytes)]) },
            Kind::Named(named) => named.genome(),
            Kind::Genome(genome) => genome.interleaved(),
        }
    }

    /// Refuses sizes that a test cannot send. `shortest` is the shortest frame, with its frame check sequence, that holds a test packet;
    /// `mtu` the longest IP packet that passes the links, without a VLAN tag.
    ///
    /// # Errors
    ///
    /// For all sizes that are too short or too long.
    pub fn check(&self, shortest: u32, mtu: u32) -> Result<(), FrameSizesError> {
        let longest = mtu.saturating_add(ETHERNET_HEADER + FRAME_CHECK_SEQUENCE);
        let mut faults = Vec::new();
        for bytes in self.genome().sizes.into_values() {
            if bytes < shortest {
                faults.push(SizeFault::TooShort { bytes, shortest });
            }
            if bytes > longest {
                faults.push(SizeFault::AboveMtu { bytes, mtu, longest });
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(FrameSizesError { text: self.to_string(), faults }) }
    }
}

impl fmt::Display for FrameSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Fixed(bytes) => f.pad(&bytes.to_string()),
            Kind::Named(named) => f.pad(named.name()),
            Kind::Genome(genome) => f.pad(&format!("imix:{genome}")),
        }
    }
}

impl FromStr for FrameSizes {
    type Err = FrameSizesError;

    fn from_str(text: &str) -> Result<Self, FrameSizesError> {
        let failed = |faults| FrameSizesError { text: text.into(), faults };
        if let Some(named) = Named::ALL.into_iter().find(|named| named.name() == text) {
            return Ok(Self(Kind::Named(named)));
        }
        if let Some(genome) = text.strip_prefix("imix:") {
            return Genome::parse(genome).map(|genome| Self(Kind::Genome(genome))).map_err(failed);
        }
        let bytes = text.parse().map_err(|_| failed(vec![SizeFault::Unknown]))?;
        size(bytes).map(|bytes| Self(Kind::Fixed(bytes))).map_err(|fault| failed(vec![fault]))
    }
}

impl TryFrom<String> for FrameSizes {
    type Error = FrameSizesError;

    fn try_from(text: String) -> Result<Self, FrameSizesError> {
        text.parse()
    }
}

impl From<FrameSizes> for String {
    fn from(sizes: FrameSizes) -> Self {
        sizes.to_string()
    }
}

/// A sequence of frame sizes (RFC 6985), at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genome {
    letters: Vec<char>,
    /// Of the letters that occur, and no others.
    sizes: BTreeMap<char, u32>,
}

impl Genome {
    /// The sizes in order, bytes.
    pub fn sequence(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.letters.iter().map(|letter| self.sizes[letter])
    }

    /// The shortest size, bytes.
    pub fn shortest(&self) -> u32 {
        self.sequence().min().unwrap_or(SHORTEST_FRAME)
    }

    /// The longest size, bytes.
    pub fn longest(&self) -> u32 {
        self.sequence().max().unwrap_or(SHORTEST_FRAME)
    }

    /// The average size, bytes.
    pub fn average(&self) -> f64 {
        self.sequence().map(f64::from).sum::<f64>() / self.letters.len() as f64
    }

    /// The same frames in an order that spreads each size as evenly as can be.
    #[must_use]
    pub fn interleaved(&self) -> Self {
        let mut counts = BTreeMap::new();
        for &letter in &self.letters {
            *counts.entry(letter).or_insert(0) += 1;
        }
        Self { letters: interleaved(counts.into_iter().collect()), sizes: self.sizes.clone() }
    }

    /// Reads `aab(a=64,b=1518)`.
    fn parse(text: &str) -> Result<Self, Vec<SizeFault>> {
        let mut faults = Vec::new();
        let (sequence, list) = match text.split_once('(') {
            None => (text, None),
            Some((sequence, rest)) => (sequence, Some(rest)),
        };
        let letters = parse_letters(sequence, &mut faults);
        let own = list.map_or_else(BTreeMap::new, |list| parse_sizes(list, &mut faults));
        let mut sizes = BTreeMap::new();
        for &letter in &letters {
            match own.get(&letter).copied().or_else(|| standard_size(letter)) {
                Some(bytes) => drop(sizes.insert(letter, bytes)),
                None if faults.contains(&SizeFault::NoSize(letter)) => {}
                None => faults.push(SizeFault::NoSize(letter)),
            }
        }
        faults.extend(
            own.keys().filter(|letter| !letters.contains(letter)).map(|&letter| SizeFault::Unused(letter)),
        );
        if faults.is_empty() { Ok(Self { letters, sizes }) } else { Err(faults) }
    }
}

impl fmt::Display for Genome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for run in self.letters.chunk_by(|a, b| a == b) {
            if run.len() >= SHORTEST_RUN {
                write!(f, "{}{}", run.len(), run[0])?;
            } else {
                run.iter().try_for_each(|letter| write!(f, "{letter}"))?;
            }
        }
        let mut separator = '(';
        for (&letter, &bytes) in &self.sizes {
            if standard_size(letter) != Some(bytes) {
                write!(f, "{separator}{letter}={bytes}")?;
                separator = ',';
            }
        }
        if separator == ',' { f.write_str(")") } else { Ok(()) }
    }
}

/// Each letter as often as its weight, spread evenly: every letter saves up its weight in each step, and the one that has most pays for a
/// place.
fn interleaved(weights: Vec<(char, usize)>) -> Vec<char> {
    let total: usize = weights.iter().map(|(_, weight)| weight).sum();
    let mut saved: Vec<i64> = vec![0; weights.len()];
    let mut letters = Vec::with_capacity(total);
    for _ in 0..total {
        let mut richest = 0;
        for (index, (_, weight)) in weights.iter().enumerate() {
            saved[index] += *weight as i64;
            if saved[index] > saved[richest] {
                richest = index;
            }
        }
        saved[richest] -= total as i64;
        letters.push(weights[richest].0);
    }
    letters
}

fn standard_size(letter: char) -> Option<u32> {
    STANDARD_SIZES.iter().find(|(standard, _)| *standard == letter).map(|(_, bytes)| *bytes)
}

/// Letters, each with the length of its run before it or without one.
fn parse_letters(text: &str, faults: &mut Vec<SizeFault>) -> Vec<char> {
    let mut letters = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let count = if number.is_empty() { Some(1) } else { number.parse().ok().filter(|&count| count > 0) };
        let letter = behind.chars().next().filter(char::is_ascii_alphabetic);
        let (Some(count), Some(letter)) = (count, letter) else {
            faults.push(SizeFault::Unreadable(rest.into()));
            return letters;
        };
        if count > LONGEST_GENOME - letters.len() {
            faults.push(SizeFault::TooLong);
            return letters;
        }
        letters.extend(std::iter::repeat_n(letter, count));
        rest = &behind[1..];
    }
    if letters.is_empty() {
        faults.push(SizeFault::Empty);
    }
    letters
}

/// What stands behind the opening parenthesis: `a=64,b=1518)`.
fn parse_sizes(text: &str, faults: &mut Vec<SizeFault>) -> BTreeMap<char, u32> {
    let mut sizes = BTreeMap::new();
    let Some(list) = text.strip_suffix(')') else {
        faults.push(SizeFault::Unreadable(format!("({text}")));
        return sizes;
    };
    for part in list.split(',') {
        let Some((letter, bytes)) = parse_assignment(part) else {
            faults.push(SizeFault::Unreadable(part.into()));
            continue;
        };
        match size(bytes) {
            Ok(bytes) if sizes.insert(letter, bytes).is_some() => faults.push(SizeFault::TwoSizes(letter)),
            Ok(_) => {}
            Err(fault) => {
                // It has a size, if a bad one: that it has none is not worth another fault.
                sizes.insert(letter, SHORTEST_FRAME);
                faults.push(fault);
            }
        }
    }
    sizes
}

/// `a=64`.
fn parse_assignment(text: &str) -> Option<(char, u64)> {
    let (name, bytes) = text.split_once('=')?;
    let letter = name.chars().next().filter(|letter| letter.is_ascii_alphabetic() && name.len() == 1)?;
    Some((letter, bytes.parse().ok()?))
}

fn size(bytes: u64) -> Result<u32, SizeFault> {
    match u32::try_from(bytes) {
        Ok(size) if (SHORTEST_FRAME..=LONGEST_FRAME).contains(&size) => Ok(size),
        _ => Err(SizeFault::NoFrame { bytes }),
    }
}

#[cfg(test)]
mod tests;
