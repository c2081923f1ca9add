//! What the option lists of several headers have in common.
//!
//! IPv4 (RFC 791 §3.1) and TCP (RFC 9293 §3.2) share one encoding: a kind of 0 ends the list, a kind of 1
//! fills, every other kind is followed by a length that counts both octets. [`OptionBytes`] is the room that
//! an owned header has for its options; Geneve uses it too.

use core::fmt;
use core::ops::Deref;

use crate::error::{Layer, Problem, WireError};

/// Ends an option list.
const END: u8 = 0;
/// Fills between options; has no length octet.
const NO_OPERATION: u8 = 1;

/// One option of an IPv4 or TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// The option's kind; 1 is padding.
    pub kind: u8,
    /// What follows kind and length; empty for padding.
    pub data: &'a [u8],
    /// Where the option's kind stands, in octets from the first option, for a rewrite in place.
    pub offset: usize,
}

/// The options of an IPv4 or TCP header in their order, padding (kind 1) among them, the end marker not.
///
/// A malformed option is the last item.
#[derive(Clone, Debug)]
pub struct RawOptions<'a> {
    layer: Layer,
    rest: &'a [u8],
    offset: usize,
}

impl<'a> RawOptions<'a> {
    pub(crate) const fn new(layer: Layer, options: &'a [u8]) -> Self {
        Self { layer, rest: options, offset: 0 }
    }

    /// The option at the start of what is left, and what is left behind it. `None` for an option that is cut
    /// short.
    fn split(&self) -> Option<(RawOption<'a>, &'a [u8])> {
        let (kind, length) = match *self.rest {
            [NO_OPERATION, ..] => (NO_OPERATION, 1),
            [kind, length, ..] if length >= 2 => (kind, usize::from(length)),
            _ => return None,
        };
        let (option, rest) = self.rest.split_at_checked(length)?;
        let data = option.get(2..).unwrap_or_default();
        Some((RawOption { kind, data, offset: self.offset }, rest))
    }
}

impl<'a> Iterator for RawOptions<'a> {
    type Item = Result<RawOption<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.rest, [] | [END, ..]) {
            return None;
        }
        let Some((option, rest)) = self.split() else {
            self.rest = &[];
            return Some(Err(self.layer.error(Problem::Option { offset: self.offset })));
        };
        self.offset += self.rest.len() - rest.len();
        self.rest = rest;
        Some(Ok(option))
    }
}

/// Options of an owned header: whole 32-bit words, at most `CAPACITY` octets, kept in place.
#[derive(Clone, Copy)]
pub struct OptionBytes<const CAPACITY: usize> {
    bytes: [u8; CAPACITY],
    length: usize,
}

/// Octets that are no option list of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{length} octets of options do not fit: at most {capacity}, in whole 32-bit words")]
pub struct OptionBytesError {
    /// Octets that were given.
    pub length: usize,
    /// Octets that the header has room for.
    pub capacity: usize,
}

impl<const CAPACITY: usize> OptionBytes<CAPACITY> {
    /// No options.
    pub const EMPTY: Self = Self { bytes: [0; CAPACITY], length: 0 };

    /// The options in `bytes`, which are not looked into.
    ///
    /// # Errors
    ///
    /// [`OptionBytesError`] where they are more than `CAPACITY` octets or not whole 32-bit words.
    pub fn new(bytes: &[u8]) -> Result<Self, OptionBytesError> {
        let mut options = Self::EMPTY;
        options.extend(bytes)?;
        Ok(options)
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    ///
    /// [`OptionBytesError`] as for [`OptionBytes::new`]; the options are then as they were.
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), OptionBytesError> {
        let length = self.length + bytes.len();
        let error = OptionBytesError { length, capacity: CAPACITY };
        let room = self.bytes.get_mut(self.length..length).ok_or(error)?;
        if !length.is_multiple_of(4) {
            return Err(error);
        }
        room.copy_from_slice(bytes);
        self.length = length;
        Ok(())
    }

    /// The options that a header whose lengths are checked was found to have: they always fit.
    pub(crate) fn of_checked_header(bytes: &[u8]) -> Self {
        debug_assert!(bytes.len() <= CAPACITY && bytes.len().is_multiple_of(4));
        Self::new(bytes).unwrap_or(Self::EMPTY)
    }
}

impl<const CAPACITY: usize> Default for OptionBytes<CAPACITY> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const CAPACITY: usize> Deref for OptionBytes<CAPACITY> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl<const CAPACITY: usize> PartialEq for OptionBytes<CAPACITY> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<const CAPACITY: usize> Eq for OptionBytes<CAPACITY> {}

impl<const CAPACITY: usize> fmt::Debug for OptionBytes<CAPACITY> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", &**self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Kind, data and offset of an option, or the offset of a malformed one.
    type Item = Result<(u8, Vec<u8>, usize), usize>;

    fn read(options: &[u8]) -> Vec<Item> {
        RawOptions::new(Layer::Tcp, options)
            .map(|item| match item {
                Ok(option) => Ok((option.kind, option.data.to_vec(), option.offset)),
                Err(WireError { problem: Problem::Option { offset }, .. }) => Err(offset),
                Err(other) => panic!("{other}"),
            })
            .collect()
    }

    #[test]
    fn padding_options_and_the_end() {
        assert_eq!(
            read(&[1, 2, 4, 0x05, 0xb4, 4, 2, 0, 3, 3, 7]),
            [Ok((1, vec![], 0)), Ok((2, vec![0x05, 0xb4], 1)), Ok((4, vec![], 5))]
        );
    }

    #[test]
    fn malformed_options_end_the_list() {
        assert_eq!(read(&[2]), [Err(0)], "no length");
        assert_eq!(read(&[1, 2, 1, 1]), [Ok((1, vec![], 0)), Err(1)], "length below 2");
        assert_eq!(read(&[2, 0, 1, 1]), [Err(0)], "length 0 would never end");
        assert_eq!(read(&[8, 10, 0, 0]), [Err(0)], "longer than what is there");
    }

    #[test]
    fn capacity_and_whole_words() {
        let mut options = OptionBytes::<8>::new(&[1; 4]).unwrap();
        assert_eq!(options.extend(&[2; 3]), Err(OptionBytesError { length: 7, capacity: 8 }));
        assert_eq!(options.extend(&[2; 8]), Err(OptionBytesError { length: 12, capacity: 8 }));
        assert_eq!(*options, [1; 4]);
        options.extend(&[2; 4]).unwrap();
        assert_eq!(*options, [1, 1, 1, 1, 2, 2, 2, 2]);
    }

    proptest! {
        #[test]
        fn every_item_lies_within_the_list(bytes in prop::collection::vec(0u8..8, 0..44)) {
            let mut next = 0;
            for option in RawOptions::new(Layer::Ipv4, &bytes).flatten() {
                prop_assert_eq!(option.offset, next);
                prop_assert_eq!(option.kind, bytes[next]);
                next += if option.kind == 1 { 1 } else { option.data.len() + 2 };
            }
            prop_assert!(next <= bytes.len());
        }
    }
}
