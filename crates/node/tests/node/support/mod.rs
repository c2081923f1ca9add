//! What the tests share.

pub(crate) mod documents;
pub(crate) mod frames;
pub(crate) mod link;
pub(crate) mod network;
pub(crate) mod node;

use std::time::{Duration, Instant};

/// How long an event may take before the test fails: far more than it needs on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Looks every millisecond until there is something, and fails when that takes too long.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "waited {LIMIT:?} for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
