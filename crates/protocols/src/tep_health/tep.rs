//! One TEP: its state, and what inputs and time do to it.

use std::time::Duration;

use super::{Action, Cause, FIRST_CONTACT, Health, Recovery, TepHealthConfig, TepId, TepInputs, TepView};
use crate::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Healthy,
    Suspect,
    Faulty {
        cause: Cause,
        /// It is healthy as soon as it works.
        own: bool,
        retry: Option<Timestamp>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Tep {
    id: TepId,
    inputs: TepInputs,
    /// A session was up since there are sessions.
    heard: bool,
    state: State,
    since: Timestamp,
    /// When it last recovered; none if its next fault counts as the first.
    recovered: Option<Timestamp>,
    backoff: Option<Duration>,
    faults: u64,
}

impl Tep {
    pub(super) const fn new(id: TepId, inputs: TepInputs, now: Timestamp) -> Self {
        Self {
            id,
            inputs,
            heard: inputs.sessions_up > 0,
            state: State::Healthy,
            since: now,
            recovered: None,
            backoff: None,
            faults: 0,
        }
    }

    pub(super) const fn set_inputs(&mut self, inputs: TepInputs) {
        self.inputs = inputs;
        self.heard = inputs.sessions > 0 && (self.heard || inputs.sessions_up > 0);
    }

    pub(super) const fn is_faulty(&self) -> bool {
        matches!(self.state, State::Faulty { .. })
    }

    /// Why it cannot be used, sessions aside.
    const fn lost(&self) -> Option<Cause> {
        if !self.inputs.has_address {
            Some(Cause::NoAddress)
        } else if !self.inputs.link_up {
            Some(Cause::LinkDown)
        } else {
            None
        }
    }

    /// It has sessions, and none of them is up.
    const fn is_silent(&self, config: &TepHealthConfig) -> bool {
        config.enabled && self.inputs.sessions > 0 && self.inputs.sessions_up == 0
    }

    pub(super) const fn works(&self, config: &TepHealthConfig) -> bool {
        self.lost().is_none() && !self.is_silent(config)
    }

    /// Takes the state that inputs and time lead to. Returns what is to be told.
    pub(super) fn evaluate(&mut self, config: &TepHealthConfig, now: Timestamp) -> Option<Action> {
        match self.state {
            State::Healthy | State::Suspect => self.evaluate_used(config, now),
            State::Faulty { own: true, .. } if self.works(config) => Some(self.recover(Recovery::Own, now)),
            State::Faulty { cause, own, retry: Some(at) } if at <= now => {
                if self.works(config) {
                    return Some(self.recover(Recovery::Automatic, now));
                }
                let backoff = config.next_backoff(self.backoff);
                let retry = now.after(backoff);
                self.backoff = Some(backoff);
                self.state = State::Faulty { cause, own, retry: Some(retry) };
                Some(Action::RecoveryFailed { tep: self.id, retry })
            }
            State::Faulty { .. } => None,
        }
    }

    fn evaluate_used(&mut self, config: &TepHealthConfig, now: Timestamp) -> Option<Action> {
        if let Some(cause) = self.lost() {
            return Some(self.fail(cause, config, now));
        }
        match (self.is_silent(config), self.state) {
            (true, State::Healthy) => self.go(State::Suspect, now),
            (false, State::Suspect) => self.go(State::Healthy, now),
            _ => {}
        }
        let over = self.suspicion_ends(config).is_some_and(|end| end <= now);
        over.then(|| self.fail(Cause::SessionsDown, config, now))
    }

    fn suspicion_ends(&self, config: &TepHealthConfig) -> Option<Timestamp> {
        let timeout = config.failover_timeout;
        let timeout = if self.heard { timeout } else { timeout.max(FIRST_CONTACT) };
        (self.state == State::Suspect).then(|| self.since.after(timeout))
    }

    fn fail(&mut self, cause: Cause, config: &TepHealthConfig, now: Timestamp) -> Action {
        // Suspicion is not health: what counts is for how long it was used before that began.
        let used_until = if self.state == State::Suspect { self.since } else { now };
        let needed = self.backoff.unwrap_or(config.initial_wait);
        let steady = self.recovered.is_none_or(|recovered| used_until.since(recovered) >= needed);
        if steady {
            self.backoff = None;
        }
        let own = !config.enabled || steady && cause != Cause::SessionsDown;
        let retry = (!own && config.auto_recovery).then(|| {
            let backoff = config.next_backoff(self.backoff);
            self.backoff = Some(backoff);
            now.after(backoff)
        });
        self.faults += 1;
        self.go(State::Faulty { cause, own, retry }, now);
        Action::Faulty { tep: self.id, cause, retry }
    }

    /// Ends the fault. The caller saw that the TEP works, or that it no longer matters.
    pub(super) fn recover(&mut self, recovery: Recovery, now: Timestamp) -> Action {
        self.go(State::Healthy, now);
        self.recovered = Some(now);
        if matches!(recovery, Recovery::Manual | Recovery::Configuration) {
            (self.recovered, self.backoff) = (None, None);
        }
        Action::Recovered { tep: self.id, recovery }
    }

    /// Another profile holds from now on.
    pub(super) fn reconfigured(&mut self, config: &TepHealthConfig, now: Timestamp) -> Option<Action> {
        let State::Faulty { cause, own, retry } = self.state else { return None };
        if !config.enabled && self.works(config) {
            return Some(self.recover(Recovery::Configuration, now));
        }
        let own = !config.enabled || own && cause != Cause::SessionsDown;
        let retry = match retry {
            _ if own || !config.auto_recovery => None,
            Some(retry) => Some(retry),
            None => {
                let backoff = self.backoff.unwrap_or_else(|| config.next_backoff(None));
                self.backoff = Some(backoff);
                Some(now.after(backoff))
            }
        };
        self.state = State::Faulty { cause, own, retry };
        None
    }

    pub(super) fn next_event(&self, config: &TepHealthConfig) -> Option<Timestamp> {
        match self.state {
            State::Faulty { retry, .. } => retry,
            _ => self.suspicion_ends(config),
        }
    }

    fn go(&mut self, state: State, now: Timestamp) {
        (self.state, self.since) = (state, now);
    }

    pub(super) fn view(&self, config: &TepHealthConfig) -> TepView {
        let (health, retry) = match self.state {
            State::Healthy => (Health::Healthy, None),
            State::Suspect => (Health::Suspect, None),
            State::Faulty { cause, retry, .. } => (Health::Faulty(cause), retry),
        };
        TepView {
            tep: self.id,
            health,
            since: self.since,
            inputs: self.inputs,
            works: self.works(config),
            retry,
            backoff: self.backoff,
            faults: self.faults,
        }
    }
}
