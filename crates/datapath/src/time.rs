//! Time as the engine sees it: an argument.
//!
//! The engine has no clock. The worker reads one once per batch and passes it in, so that tests and simulations choose it.

/// A moment on a clock that never goes back, in nanoseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(u64);

impl Timestamp {
    /// A moment `nanoseconds` after the clock's start.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// A moment `milliseconds` after the clock's start.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds * 1_000_000)
    }

    /// A moment `seconds` after the clock's start.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000_000)
    }

    /// Nanoseconds since the clock's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds since the clock's start.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Nanoseconds from `earlier` to this moment; 0 if `earlier` is later.
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
