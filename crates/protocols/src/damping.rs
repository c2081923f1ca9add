//! Damping of links that flap: one that goes down too often stays out of use until it has been quiet for a while.
//!
//! Who uses a link tells its [`Damper`] whenever it goes down, and does not use it while that holds it. A link that goes down
//! now and then is used again at once.

use std::time::Duration;

use crate::Timestamp;

/// How often a link may go down within [`WINDOW`].
pub const DOWNS: usize = 3;
/// The time over which links that go down are counted.
pub const WINDOW: Duration = Duration::from_secs(10);
/// How long a link that went down too often has to be quiet before it is used again.
pub const QUIET: Duration = Duration::from_secs(10);

/// Watches one link; see the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damper {
    /// When the link went down last, the oldest first.
    downs: [Option<Timestamp>; DOWNS],
    held_until: Option<Timestamp>,
}

impl Damper {
    /// The link went down, also while it is held: it was not quiet then.
    pub fn went_down(&mut self, now: Timestamp) {
        let too_often = self.downs[0].is_some_and(|oldest| now.since(oldest) < WINDOW);
        self.downs.rotate_left(1);
        self.downs[DOWNS - 1] = Some(now);
        if too_often || self.is_held() {
            self.held_until = Some(now.after(QUIET));
        }
    }

    /// Lets the link go that has been quiet until `now`.
    pub fn advance(&mut self, now: Timestamp) {
        if self.held_until.is_some_and(|until| until <= now) {
            *self = Self::default();
        }
    }

    /// The link is not to be used.
    pub const fn is_held(&self) -> bool {
        self.held_until.is_some()
    }

    /// When a link that is held may be used again, if it is quiet until then.
    pub const fn deadline(&self) -> Option<Timestamp> {
        self.held_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000_000 + milliseconds * 1_000_000)
    }

    #[test]
    fn a_link_that_goes_down_four_times_in_ten_seconds_is_held_until_it_is_quiet() {
        let mut damper = Damper::default();
        for time in [0, 3_000, 6_000] {
            damper.went_down(at(time));
            assert!(!damper.is_held(), "three times are allowed");
        }
        damper.went_down(at(9_999));
        assert_eq!(damper.deadline(), Some(at(19_999)));
        damper.advance(at(15_000));
        damper.went_down(at(15_000));
        damper.advance(at(24_999));
        assert!(damper.is_held(), "it was not quiet");
        damper.advance(at(25_000));
        assert_eq!(damper, Damper::default(), "and begins anew");
    }

    #[test]
    fn a_link_that_goes_down_now_and_then_is_never_held() {
        let mut damper = Damper::default();
        for time in 0..100 {
            damper.went_down(at(time * 3_334));
            assert!(!damper.is_held());
        }
    }
}
