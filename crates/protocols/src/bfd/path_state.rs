//! Whether a path is used: what follows from the state of its session.
//!
//! ```text
//!             Init, and not Up for FIRST_CONTACT          never Up again ──┐
//!   used ──────────────────────────────────────────→ left ←────────────────┘
//!    │ ↖─────────────────── Up ───────────────────────╯ ↑
//!    ╰───────────────────── no longer Up ───────────────╯
//! ```
//!
//! - **Up**: the path is used, unless it is held (below).
//! - **Not Up, and was before**: it is left, also where the other end says that it is administratively down.
//! - **Never Up**: it is used, since the other end may have no BFD. But where that is heard and the session is not Up [`FIRST_CONTACT`] later, the
//!   path is open in one direction only and is left; so is, where it is known that the other end has BFD, a path that nothing was heard of for
//!   as long. Only Up ends that: an other end that falls silent altogether is no better than before.
//! - **Held**: a session that goes down too often ([`crate::damping`]) has its path left until it has been quiet. What it loses by
//!   [`Sessions::path_down`](super::Sessions::path_down) is the link's fault and does not count.
//!
//! It is told of each change of the session's state, and says when it wants to be called next.

use sluice_wire::bfd::{BfdDiagnostic, BfdState};

use super::SessionView;
use crate::Timestamp;
use crate::damping::Damper;
pub use crate::tep_health::FIRST_CONTACT;

/// Why a path is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathFault {
    /// Its session was up and is down, for this reason.
    Down(BfdDiagnostic),
    /// Its session has not come up since its link did.
    NotBack,
    /// The other end is heard and does not hear this one.
    OneWay,
    /// The other end was heard and fell silent, and the session has never been up.
    FellSilent,
    /// Nothing was ever heard of the other end, which is known to have BFD.
    NeverHeard,
    /// Its session goes down again and again.
    Flapping,
}

/// Whether a path is used, see the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathState {
    fault: Option<PathFault>,
    /// The other end is known to have BFD.
    expected: bool,
    /// When the session is to be up at the latest.
    overdue: Option<Timestamp>,
    damper: Damper,
}

impl PathState {
    /// A path that is used. `expected`: the other end is known to have BFD, so that its session has to come up.
    pub fn new(expected: bool, now: Timestamp) -> Self {
        Self { expected, overdue: expected.then(|| now.after(FIRST_CONTACT)), ..Self::default() }
    }

    /// Why it is not used; `None` while it is.
    pub const fn fault(&self) -> Option<PathFault> {
        self.fault
    }

    /// It is used.
    pub const fn is_usable(&self) -> bool {
        self.fault.is_none()
    }

    /// The state of its session was `from`, and is now as `session` says.
    pub fn session_changed(&mut self, from: BfdState, session: &SessionView, now: Timestamp) {
        if from == BfdState::Up && session.diagnostic != BfdDiagnostic::PATH_DOWN {
            self.damper.went_down(now);
        }
        match session.state {
            BfdState::Up => {
                self.overdue = None;
                self.fault = self.held();
            }
            _ if from == BfdState::Up => {
                self.overdue = None;
                self.fault = self.held().or(Some(PathFault::Down(session.diagnostic)));
            }
            BfdState::Init if self.is_usable() && self.overdue.is_none() => {
                self.overdue = Some(now.after(FIRST_CONTACT));
            }
            // Nothing that leads away from a fault, or to one before its time.
            _ => {}
        }
    }

    /// The other end turns out to have BFD: another session with its node is up. This one has to come up as well, if it is not.
    pub fn expect(&mut self, session: &SessionView, now: Timestamp) {
        if !self.expected && self.is_usable() && session.state != BfdState::Up {
            self.overdue.get_or_insert(now.after(FIRST_CONTACT));
        }
        self.expected = true;
    }

    /// The link of the path is up again: if it is not used, its session has to come up.
    pub fn link_is_back(&mut self, now: Timestamp) {
        if !self.is_usable() {
            self.overdue.get_or_insert(now.after(FIRST_CONTACT));
        }
    }

    /// When [`PathState::advance`] is to be called next; `None` while there is nothing to wait for.
    pub fn next_event(&self) -> Option<Timestamp> {
        self.overdue.into_iter().chain(self.damper.deadline()).min()
    }

    /// Does what is due at `now`, and returns whether there is something to tell. Afterwards [`PathState::next_event`] is later than `now`.
    pub fn advance(&mut self, session: &SessionView, now: Timestamp) -> bool {
        let before = self.fault;
        self.damper.advance(now);
        if before == Some(PathFault::Flapping) && !self.damper.is_held() {
            let down = || PathFault::Down(session.counters.last_down_diagnostic);
            self.fault = (session.state != BfdState::Up).then(down);
        }
        let overdue = self.overdue.take_if(|due| *due <= now).is_some() && session.state != BfdState::Up;
        // Who took leave before the session was up has no BFD any more.
        let gone = self.is_usable() && !self.expected && session.remote_left;
        if overdue && !gone && self.fault != Some(PathFault::Flapping) {
            self.fault = Some(match session.state {
                _ if session.counters.ups > 0 => PathFault::NotBack,
                BfdState::Init => PathFault::OneWay,
                _ if session.counters.last_received.is_some() => PathFault::FellSilent,
                _ => PathFault::NeverHeard,
            });
        }
        overdue && !gone || self.fault != before
    }

    fn held(&self) -> Option<PathFault> {
        self.damper.is_held().then_some(PathFault::Flapping)
    }
}
