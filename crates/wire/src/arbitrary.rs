//! What the property tests of several modules generate.

use proptest::collection::SizeRange;
use proptest::prelude::*;

/// Random octets, as many as `len` says.
pub(crate) fn octets(len: impl Into<SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), len)
}
