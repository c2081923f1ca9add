//! One session: the state variables of RFC 5880 §6.8.1 and what received packets, time and configuration do to them.
//!
//! It knows neither timers nor other sessions; [`super::sessions`] sees to those.

use std::time::Duration;

use sluice_wire::bfd::{Bfd, BfdDiagnostic, BfdPacket, BfdState};

use super::{Concatenated, Path, Refusal, SessionConfig, SessionCounters, SessionView};
use crate::Timestamp;

/// The least interval of sending while a session is not up, in microseconds (RFC 5880 §6.8.3).
const SLOW: u32 = 1_000_000;

/// What the other end last told.
#[derive(Clone, Copy, Debug)]
struct Remote {
    state: BfdState,
    diagnostic: BfdDiagnostic,
    discriminator: u32,
    min_rx: u32,
    desired_min_tx: u32,
    detect_multiplier: u8,
    demand: bool,
}

/// A poll sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Poll {
    Idle,
    /// Packets carry Poll until one with Final comes.
    Running,
    /// As before, and an interval changed meanwhile, so that another sequence follows.
    RunningAgain,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) from: BfdState,
    pub(super) to: BfdState,
}

/// What an accepted packet leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    pub(super) change: Option<Change>,
    /// The packet is to be answered with Final.
    pub(super) answer: bool,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) path: Path,
    pub(super) discriminator: u32,
    pub(super) source_port: u16,
    config: SessionConfig,
    state: BfdState,
    since: Timestamp,
    diagnostic: BfdDiagnostic,
    remote: Remote,
    /// The other end's last packet said AdminDown: it left on purpose, however long ago that was.
    remote_left: bool,
    /// What packets tell: bfd.DesiredMinTxInterval and bfd.RequiredMinRxInterval, in microseconds.
    desired_min_tx: u32,
    required_min_rx: u32,
    /// What is done: behind those until a poll sequence has told the other end (RFC 5880 §6.8.3).
    tx_in_use: u32,
    rx_in_use: u32,
    poll: Poll,
    /// The path is not known to be down.
    path_up: bool,
    /// When the other end was last heard; none once a detection time has passed since.
    heard: Option<Timestamp>,
    pub(super) last_sent: Timestamp,
    /// The session is removed, and goes on to tell so until this moment.
    pub(super) leaving: Option<Timestamp>,
    pub(super) counters: SessionCounters,
}

impl Session {
    pub(super) fn new(
        path: Path,
        config: SessionConfig,
        discriminator: u32,
        source_port: u16,
        now: Timestamp,
    ) -> Self {
        let remote = Remote {
            state: BfdState::Down,
            diagnostic: BfdDiagnostic::NONE,
            discriminator: 0,
            min_rx: 1,
            desired_min_tx: 0,
            detect_multiplier: 0,
            demand: false,
        };
        let (state, diagnostic) = match config.enabled {
            true => (BfdState::Down, BfdDiagnostic::NONE),
            false => (BfdState::AdminDown, BfdDiagnostic::ADMINISTRATIVELY_DOWN),
        };
        let desired_min_tx = microseconds(config.desired_min_tx).max(SLOW);
        let required_min_rx = microseconds(config.required_min_rx);
        Self {
            path,
            discriminator,
            source_port,
            config,
            state,
            since: now,
            diagnostic,
            remote,
            remote_left: false,
            desired_min_tx,
            required_min_rx,
            tx_in_use: desired_min_tx,
            rx_in_use: required_min_rx,
            poll: Poll::Idle,
            path_up: true,
            heard: None,
            last_sent: now,
            leaving: None,
            counters: SessionCounters::default(),
        }
    }

    /// The packet to be sent now; with Final in answer to Poll.
    pub(super) fn packet(&self, answer: bool) -> Bfd {
        Bfd {
            state: self.state,
            diagnostic: self.diagnostic,
            // Never both: the answer is no part of a poll sequence (RFC 5880 §6.5).
            poll_flag: !answer && self.poll != Poll::Idle,
            final_flag: answer,
            control_plane_independent: false,
            demand: false,
            detect_multiplier: self.config.detect_multiplier,
            my_discriminator: self.discriminator,
            your_discriminator: self.remote.discriminator,
            desired_min_tx: self.desired_min_tx,
            required_min_rx: self.required_min_rx,
            required_min_echo_rx: 0,
        }
    }

    /// The interval of periodic packets in microseconds; `None` where none are to be sent (RFC 5880 §6.8.7).
    pub(super) fn transmit_interval(&self) -> Option<u32> {
        let on_demand = self.remote.demand && self.state == BfdState::Up && self.remote.state == BfdState::Up;
        let none = self.remote.min_rx == 0 || on_demand && self.poll == Poll::Idle;
        (self.may_begin() && !none).then(|| self.tx_in_use.max(self.remote.min_rx))
    }

    /// The passive role sends nothing before it hears the other end (RFC 5880 §6.1).
    pub(super) fn may_begin(&self) -> bool {
        !self.config.passive || self.remote.discriminator != 0
    }

    /// The soonest and the latest that a packet follows the one before, in hundredths of the interval (RFC 5880 §6.8.7).
    pub(super) fn jitter(&self) -> (u64, u64) {
        (75, if self.config.detect_multiplier == 1 { 90 } else { 100 })
    }

    /// The time without a packet after which the other end counts as not heard (RFC 5880 §6.8.4).
    fn detection_time(&self) -> Duration {
        let interval = self.rx_in_use.max(self.remote.desired_min_tx);
        Duration::from_micros(u64::from(interval) * u64::from(self.remote.detect_multiplier))
    }

    /// When the other end counts as not heard, if no packet comes; `None` if it does so already.
    pub(super) fn detection_deadline(&self) -> Option<Timestamp> {
        self.heard.map(|heard| heard.after(self.detection_time()))
    }

    /// The rest of RFC 5880 §6.8.6, for a packet that is well-formed and for this session.
    pub(super) fn receive(&mut self, packet: &BfdPacket, now: Timestamp) -> Result<Accepted, Refusal> {
        if !self.path_up {
            return Err(Refusal::PathDown);
        }
        self.remote = Remote {
            state: packet.state(),
            diagnostic: packet.diagnostic(),
            discriminator: packet.my_discriminator(),
            min_rx: packet.required_min_rx(),
            desired_min_tx: packet.desired_min_tx(),
            detect_multiplier: packet.detect_multiplier(),
            demand: packet.demand(),
        };
        self.remote_left = packet.state() == BfdState::AdminDown;
        if packet.final_flag() {
            self.poll_answered();
        }
        if self.state == BfdState::AdminDown {
            return Err(Refusal::AdminDown);
        }
        self.heard = Some(now);
        self.counters.received += 1;
        self.counters.last_received = Some(now);
        let change =
            self.next_state(packet.state()).and_then(|(to, diagnostic)| self.go(to, diagnostic, now));
        Ok(Accepted { change, answer: packet.poll_flag() })
    }

    /// The state that hearing `remote` leads to, if it is another one.
    fn next_state(&self, remote: BfdState) -> Option<(BfdState, BfdDiagnostic)> {
        use BfdState::{AdminDown, Down, Init, Up};
        match (self.state, remote) {
            (Down, Down) => Some((Init, self.diagnostic)),
            (Down, Init) | (Init, Init | Up) => Some((Up, BfdDiagnostic::NONE)),
            (Init | Up, AdminDown) | (Up, Down) => {
                Some((Down, BfdDiagnostic::NEIGHBOR_SIGNALED_SESSION_DOWN))
            }
            _ => None,
        }
    }

    /// The detection time has passed (RFC 5880 §6.8.4).
    pub(super) fn detection_expired(&mut self, now: Timestamp) -> Option<Change> {
        self.heard = None;
        self.remote.discriminator = 0;
        self.remote.state = BfdState::Down;
        self.remote.demand = false;
        match self.state {
            BfdState::Init | BfdState::Up => {
                self.go(BfdState::Down, BfdDiagnostic::CONTROL_DETECTION_TIME_EXPIRED, now)
            }
            BfdState::AdminDown | BfdState::Down => None,
        }
    }

    /// Takes another configuration, which was checked.
    pub(super) fn configure(&mut self, config: SessionConfig, now: Timestamp) -> Option<Change> {
        self.config = config;
        let change = match (config.enabled, self.state) {
            (true, BfdState::AdminDown) => self.go(BfdState::Down, BfdDiagnostic::NONE, now),
            (false, _) => self.go(BfdState::AdminDown, BfdDiagnostic::ADMINISTRATIVELY_DOWN, now),
            (true, _) => None,
        };
        self.set_intervals();
        change
    }

    /// The session is removed. It leaves the table when the other end has had a detection time to hear of it.
    pub(super) fn leave(&mut self, now: Timestamp) -> Option<Change> {
        let theirs = self.transmit_interval().map_or(0, u64::from) * u64::from(self.config.detect_multiplier);
        let known = self.remote.discriminator != 0;
        self.leaving = Some(now.after(Duration::from_micros(if known { theirs } else { 0 })));
        self.go(BfdState::AdminDown, BfdDiagnostic::ADMINISTRATIVELY_DOWN, now)
    }

    /// The path is known to be down, or no longer.
    pub(super) fn set_path(&mut self, up: bool, now: Timestamp) -> Option<Change> {
        self.path_up = up;
        match self.state {
            BfdState::Init | BfdState::Up if !up => {
                self.heard = None;
                self.remote.discriminator = 0;
                self.go(BfdState::Down, BfdDiagnostic::PATH_DOWN, now)
            }
            BfdState::Down if !up => {
                self.diagnostic = BfdDiagnostic::PATH_DOWN;
                None
            }
            _ => None,
        }
    }

    /// A path that continues this one failed, or works again. Returns whether packets say something else from now on.
    pub(super) fn set_concatenated(&mut self, failure: Option<Concatenated>) -> bool {
        let diagnostic = match failure {
            Some(Concatenated::Down) => BfdDiagnostic::CONCATENATED_PATH_DOWN,
            Some(Concatenated::ReverseDown) => BfdDiagnostic::REVERSE_CONCATENATED_PATH_DOWN,
            None => BfdDiagnostic::NONE,
        };
        // A session that is not up has a reason of its own to tell.
        let tells = self.state == BfdState::Up && self.diagnostic != diagnostic;
        if tells {
            self.diagnostic = diagnostic;
        }
        tells
    }

    /// Goes to a state, if it is another one.
    fn go(&mut self, to: BfdState, diagnostic: BfdDiagnostic, now: Timestamp) -> Option<Change> {
        let from = self.state;
        if from == to {
            return None;
        }
        self.state = to;
        self.since = now;
        self.diagnostic = diagnostic;
        if to == BfdState::Up {
            self.counters.ups += 1;
            self.counters.last_up = Some(now);
        }
        if from == BfdState::Up {
            self.counters.downs += 1;
            self.counters.last_down = Some(now);
            self.counters.last_down_diagnostic = diagnostic;
        }
        if to != BfdState::Up {
            self.poll = Poll::Idle;
        }
        self.set_intervals();
        Some(Change { from, to })
    }

    /// Takes the intervals of state and configuration. While the session is up, the other end has to know before it
    /// hears less often, and before it is expected to send more often (RFC 5880 §6.8.3).
    fn set_intervals(&mut self) {
        let up = self.state == BfdState::Up;
        let desired = microseconds(self.config.desired_min_tx);
        let desired = if up { desired } else { desired.max(SLOW) };
        let required = microseconds(self.config.required_min_rx);
        let unchanged = desired == self.desired_min_tx && required == self.required_min_rx;
        (self.desired_min_tx, self.required_min_rx) = (desired, required);
        if !up {
            (self.tx_in_use, self.rx_in_use) = (desired, required);
        } else if !unchanged {
            self.tx_in_use = self.tx_in_use.min(desired);
            self.rx_in_use = self.rx_in_use.max(required);
            self.poll = if self.poll == Poll::Idle { Poll::Running } else { Poll::RunningAgain };
        }
    }

    fn poll_answered(&mut self) {
        match self.poll {
            Poll::Idle => {}
            Poll::RunningAgain => self.poll = Poll::Running,
            Poll::Running => {
                self.poll = Poll::Idle;
                (self.tx_in_use, self.rx_in_use) = (self.desired_min_tx, self.required_min_rx);
            }
        }
    }

    pub(super) fn diagnostics(&self) -> (BfdDiagnostic, BfdDiagnostic) {
        (self.diagnostic, self.remote.diagnostic)
    }

    pub(super) fn view(&self) -> SessionView {
        SessionView {
            path: self.path,
            state: self.state,
            since: self.since,
            remote_state: self.remote.state,
            remote_left: self.remote_left,
            local_discriminator: self.discriminator,
            remote_discriminator: self.remote.discriminator,
            diagnostic: self.diagnostic,
            remote_diagnostic: self.remote.diagnostic,
            config: self.config,
            transmit_interval: self
                .transmit_interval()
                .map(|interval| Duration::from_micros(interval.into())),
            detection_time: self.heard.map(|_| self.detection_time()),
            polling: self.poll != Poll::Idle,
            counters: self.counters,
        }
    }
}

/// An interval of a configuration that was checked, in microseconds.
fn microseconds(interval: Duration) -> u32 {
    u32::try_from(interval.as_micros()).unwrap_or(u32::MAX)
}
