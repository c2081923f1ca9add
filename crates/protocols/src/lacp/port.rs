//! One port of a LAG: its variables and all of its machines but the Selection logic.
//!
//! Names in quotation marks are those of IEEE 802.1AX-2014 clause 6.4.

use std::time::Duration;

use sluice_wire::lacp::{Lacp, LacpState, PortInfo};

use super::{
    AGGREGATE_WAIT, CHURN_DETECTION, Exclusion, FAST_PERIODIC, LONG_TIMEOUT, LagConfig, MuxState, PortConfig,
    PortCounters, PortView, ReceiveState, SHORT_TIMEOUT, SLOW_PERIODIC, Selected,
};
use crate::Timestamp;
use crate::damping::Damper;
use crate::rate::RateLimit;

/// LACPDUs at most in any [`FAST_PERIODIC`] (§6.4.16).
const BURST: usize = 3;

/// Markers that are answered in a second, so that a port stays below the ten frames that the slow protocols may send
/// together (IEEE 802.3 annex 57A.4).
const MARKERS_PER_SECOND: u32 = 5;

/// The Periodic machine (§6.4.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Periodic {
    None,
    Fast(Timestamp),
    Slow(Timestamp),
}

/// Churn detection for one side (§6.4.17).
#[derive(Clone, Copy, Debug, Default)]
struct Churn {
    since: Option<Timestamp>,
    churning: bool,
}

impl Churn {
    /// `settled`: the side is in sync, or need not be.
    fn observe(&mut self, settled: bool, now: Timestamp) {
        if settled {
            *self = Self::default();
        } else if let Some(since) = self.since {
            self.churning |= since.after(CHURN_DETECTION) <= now;
        } else {
            self.since = Some(now);
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.since.filter(|_| !self.churning).map(|since| since.after(CHURN_DETECTION))
    }
}

/// What of a port is told to the caller when it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) active: bool,
    pub(super) exclusion: Option<Exclusion>,
    pub(super) actor_churn: bool,
    pub(super) partner_churn: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) config: PortConfig,
    /// Speed of the link in megabits a second; none while it is down.
    pub(super) megabits: Option<u32>,
    pub(super) actor: PortInfo,
    pub(super) partner: PortInfo,
    pub(super) receive: ReceiveState,
    /// "current_while_timer"
    current_while: Option<Timestamp>,
    periodic: Periodic,
    pub(super) selected: Selected,
    pub(super) mux: MuxState,
    /// "wait_while_timer"; in the past once it has expired.
    pub(super) wait_while: Option<Timestamp>,
    /// "NTT": need to transmit.
    need_to_transmit: bool,
    /// When the last LACPDUs were sent, the oldest first.
    sent: [Option<Timestamp>; BURST],
    /// Until when the link counts as looped back.
    looped: Option<Timestamp>,
    damper: Damper,
    pub(super) exclusion: Option<Exclusion>,
    actor_churn: Churn,
    partner_churn: Churn,
    pub(super) told: Told,
    marker_limit: RateLimit,
    last_received: Option<Timestamp>,
    pub(super) counters: PortCounters,
}

impl Port {
    /// A port whose link is down: "INITIALIZE", then "PORT_DISABLED".
    pub(super) fn new(lag: &LagConfig, config: PortConfig) -> Self {
        let actor = actor_of(lag, &config);
        let mut port = Self {
            config,
            megabits: None,
            actor,
            partner: PortInfo::default(),
            receive: ReceiveState::PortDisabled,
            current_while: None,
            periodic: Periodic::None,
            selected: Selected::Unselected,
            mux: MuxState::Detached,
            wait_while: None,
            need_to_transmit: false,
            sent: [None; BURST],
            looped: None,
            damper: Damper::default(),
            exclusion: None,
            actor_churn: Churn::default(),
            partner_churn: Churn::default(),
            told: Told::default(),
            marker_limit: RateLimit::default(),
            last_received: None,
            counters: PortCounters::default(),
        };
        port.record_default();
        port
    }

    /// Takes another configuration. A port that is another one for its partner is selected anew.
    pub(super) fn configure(&mut self, lag: &LagConfig, config: PortConfig) {
        let kept = LacpState::SYNCHRONIZATION
            .and(LacpState::COLLECTING)
            .and(LacpState::DISTRIBUTING)
            .and(LacpState::DEFAULTED)
            .and(LacpState::EXPIRED);
        let mut actor = actor_of(lag, &config);
        actor.state = actor.state.and(LacpState::from_bits(self.actor.state.bits() & kept.bits()));
        let identity = |info: &PortInfo| PortInfo { state: LacpState::EMPTY, ..*info };
        if identity(&actor) != identity(&self.actor) {
            self.selected = Selected::Unselected;
        }
        self.need_to_transmit |= actor != self.actor;
        (self.actor, self.config) = (actor, config);
    }

    /// The link is up with a speed, or down. A changed speed is another link.
    pub(super) fn set_link(&mut self, megabits: Option<u32>, now: Timestamp) {
        if megabits == self.megabits {
            return;
        }
        // What was active is counted when it stops being so.
        if megabits.is_none() && !self.is_active() {
            self.damper.went_down(now);
        }
        // "PORT_DISABLED"
        self.megabits = None;
        self.receive = ReceiveState::PortDisabled;
        self.current_while = None;
        self.looped = None;
        self.selected = Selected::Unselected;
        self.set_partner(LacpState::SYNCHRONIZATION, false);
        if megabits.is_some() {
            self.megabits = megabits;
            self.expired(now);
        }
    }

    /// The link is up.
    pub(super) fn is_enabled(&self) -> bool {
        self.megabits.is_some()
    }

    /// The other end is known, so that the link may be selected.
    pub(super) fn is_eligible(&self) -> bool {
        self.is_enabled() && self.looped.is_none() && !self.has(LacpState::DEFAULTED)
    }

    /// It went down too often.
    pub(super) const fn is_damped(&self) -> bool {
        self.damper.is_held()
    }

    pub(super) fn is_looped(&self) -> bool {
        self.looped.is_some()
    }

    pub(super) const fn is_active(&self) -> bool {
        matches!(self.mux, MuxState::CollectingDistributing)
    }

    pub(super) fn is_attached(&self) -> bool {
        matches!(self.mux, MuxState::Attached | MuxState::CollectingDistributing)
    }

    fn has(&self, bits: LacpState) -> bool {
        self.actor.state.contains(bits)
    }

    fn set_actor(&mut self, bits: LacpState, set: bool) {
        self.actor.state = self.actor.state.with(bits, set);
    }

    fn set_partner(&mut self, bits: LacpState, set: bool) {
        self.partner.state = self.partner.state.with(bits, set);
    }

    /// This system heard itself on the link.
    pub(super) fn loop_back(&mut self, now: Timestamp) {
        self.counters.loopbacks += 1;
        self.looped = Some(now.after(LONG_TIMEOUT));
        self.selected = Selected::Unselected;
    }

    /// "CURRENT": an LACPDU of the other end.
    pub(super) fn receive(&mut self, pdu: &Lacp, now: Timestamp) {
        self.counters.received += 1;
        self.last_received = Some(now);
        if !same_port(&pdu.actor, &self.partner) {
            self.selected = Selected::Unselected;
        }
        self.update_need_to_transmit(&pdu.partner);
        self.record(pdu);
        self.current_while =
            Some(now.after(if self.has(LacpState::TIMEOUT) { SHORT_TIMEOUT } else { LONG_TIMEOUT }));
        self.set_actor(LacpState::EXPIRED, false);
        self.receive = ReceiveState::Current;
    }

    /// A marker; whether it is to be answered.
    pub(super) fn receive_marker(&mut self, now: Timestamp) -> bool {
        self.counters.markers += 1;
        let passes = self.marker_limit.pass(MARKERS_PER_SECOND, now);
        self.counters.markers_withheld += u64::from(!passes);
        passes
    }

    /// "update_NTT": the other end does not know what this one is.
    fn update_need_to_transmit(&mut self, seen: &PortInfo) {
        let told = LacpState::ACTIVITY
            .and(LacpState::TIMEOUT)
            .and(LacpState::SYNCHRONIZATION)
            .and(LacpState::AGGREGATION);
        let differs = (seen.state.bits() ^ self.actor.state.bits()) & told.bits() != 0;
        self.need_to_transmit |= differs || !same_port(seen, &self.actor);
    }

    /// "recordPDU"
    fn record(&mut self, pdu: &Lacp) {
        let theirs = pdu.actor.state;
        let maintained = theirs.contains(LacpState::ACTIVITY)
            || self.has(LacpState::ACTIVITY) && pdu.partner.state.contains(LacpState::ACTIVITY);
        let matches = same_port(&pdu.partner, &self.actor) || !theirs.contains(LacpState::AGGREGATION);
        let in_sync = theirs.contains(LacpState::SYNCHRONIZATION) && matches && maintained;
        self.partner = pdu.actor;
        self.set_partner(LacpState::SYNCHRONIZATION, in_sync);
        self.set_actor(LacpState::DEFAULTED, false);
    }

    /// "recordDefault": nothing is assumed of the other end but that it wants what this end wants.
    fn record_default(&mut self) {
        let state = LacpState::EMPTY.with(LacpState::TIMEOUT, self.has(LacpState::TIMEOUT));
        self.partner = PortInfo { state, ..PortInfo::default() };
        self.set_actor(LacpState::DEFAULTED, true);
    }

    /// "EXPIRED"
    fn expired(&mut self, now: Timestamp) {
        self.receive = ReceiveState::Expired;
        self.set_partner(LacpState::SYNCHRONIZATION, false);
        self.set_partner(LacpState::TIMEOUT, true);
        self.current_while = Some(now.after(SHORT_TIMEOUT));
        self.set_actor(LacpState::EXPIRED, true);
    }

    /// What the timers of the Receive machine and of loops say at `now`.
    pub(super) fn expire(&mut self, now: Timestamp) {
        if self.looped.is_some_and(|until| until <= now) {
            self.looped = None;
        }
        self.damper.advance(now);
        if self.current_while.is_none_or(|until| until > now) {
            return;
        }
        match self.receive {
            ReceiveState::Current => self.expired(now),
            _ => {
                // "DEFAULTED"
                self.receive = ReceiveState::Defaulted;
                self.current_while = None;
                self.selected = Selected::Unselected;
                self.record_default();
                self.set_actor(LacpState::EXPIRED, false);
            }
        }
    }

    /// A step of the Mux machine, if there is one to take. `enough`: as many links are attached as the LAG needs; with fewer none is in sync, so
    /// that the other end does without them as well.
    pub(super) fn step_mux(&mut self, ready: bool, enough: bool, now: Timestamp) -> bool {
        let selected = self.selected == Selected::Selected;
        let in_sync = self.partner.state.contains(LacpState::SYNCHRONIZATION);
        let next = match self.mux {
            MuxState::Detached if self.selected != Selected::Unselected => MuxState::Waiting,
            MuxState::Waiting if self.selected == Selected::Unselected => MuxState::Detached,
            MuxState::Waiting if selected && ready => MuxState::Attached,
            MuxState::Attached if !selected => MuxState::Detached,
            MuxState::Attached if in_sync && enough => MuxState::CollectingDistributing,
            MuxState::CollectingDistributing if !selected || !in_sync || !enough => MuxState::Attached,
            MuxState::Attached if self.has(LacpState::SYNCHRONIZATION) != enough => {
                self.set_actor(LacpState::SYNCHRONIZATION, enough);
                self.need_to_transmit = true;
                return true;
            }
            _ => return false,
        };
        self.counters.activations += u64::from(next == MuxState::CollectingDistributing);
        if self.is_active() {
            self.counters.deactivations += 1;
            // What other links lack is not this one's fault.
            if !selected || !in_sync {
                self.damper.went_down(now);
            }
        }
        self.mux = next;
        self.wait_while = (next == MuxState::Waiting).then(|| now.after(AGGREGATE_WAIT));
        let active = next == MuxState::CollectingDistributing;
        self.set_actor(LacpState::SYNCHRONIZATION, active || enough && next == MuxState::Attached);
        self.set_actor(LacpState::COLLECTING.and(LacpState::DISTRIBUTING), active);
        self.need_to_transmit |= next != MuxState::Waiting;
        true
    }

    /// The Periodic machine.
    pub(super) fn run_periodic(&mut self, now: Timestamp) {
        let spoken = self.has(LacpState::ACTIVITY) || self.partner.state.contains(LacpState::ACTIVITY);
        if !self.is_enabled() || !spoken {
            self.periodic = Periodic::None;
            self.need_to_transmit = false;
            return;
        }
        let fast = self.partner.state.contains(LacpState::TIMEOUT);
        let (due, restart) = match self.periodic {
            Periodic::None => (true, true),
            Periodic::Fast(at) => (at <= now, at <= now || !fast),
            Periodic::Slow(at) => (at <= now || fast, at <= now || fast),
        };
        self.need_to_transmit |= due;
        if restart {
            self.periodic = match fast {
                true => Periodic::Fast(now.after(FAST_PERIODIC)),
                false => Periodic::Slow(now.after(SLOW_PERIODIC)),
            };
        }
    }

    /// The Transmit machine: the LACPDU to be sent now.
    pub(super) fn transmit(&mut self, now: Timestamp) -> Option<Lacp> {
        if !self.need_to_transmit || self.permitted().is_some_and(|at| at > now) {
            return None;
        }
        self.need_to_transmit = false;
        self.sent = [self.sent[1], self.sent[2], Some(now)];
        self.counters.sent += 1;
        Some(Lacp { actor: self.actor, partner: self.partner, collector_max_delay: 0 })
    }

    /// The LACPDU of a port that is given up: out of sync, as one that the Mux machine has detached. None while the link is down.
    pub(super) fn farewell(&self) -> Option<Lacp> {
        let mut actor = self.actor;
        for bits in [LacpState::SYNCHRONIZATION, LacpState::COLLECTING, LacpState::DISTRIBUTING] {
            actor.state = actor.state.with(bits, false);
        }
        self.is_enabled().then_some(Lacp { actor, partner: self.partner, collector_max_delay: 0 })
    }

    /// From when on the rate limit lets an LACPDU pass.
    fn permitted(&self) -> Option<Timestamp> {
        // A nanosecond more: the limit holds for intervals that include both of their ends.
        self.sent[0].map(|oldest| oldest.after(FAST_PERIODIC + Duration::from_nanos(1)))
    }

    /// Churn detection. A link that stands by is not in sync and shall not be.
    pub(super) fn observe_churn(&mut self, now: Timestamp) {
        let exempt = !self.is_enabled() || self.selected == Selected::Standby;
        self.actor_churn.observe(exempt || self.has(LacpState::SYNCHRONIZATION), now);
        let partner_in_sync = self.partner.state.contains(LacpState::SYNCHRONIZATION);
        self.partner_churn.observe(exempt || partner_in_sync, now);
    }

    /// What is to be told, if it was not.
    pub(super) const fn news(&self) -> Told {
        Told {
            active: self.is_active(),
            exclusion: self.exclusion,
            actor_churn: self.actor_churn.churning,
            partner_churn: self.partner_churn.churning,
        }
    }

    /// When a timer of the port expires next after `now`.
    pub(super) fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let periodic = match self.periodic {
            Periodic::None => None,
            Periodic::Fast(at) | Periodic::Slow(at) => Some(at),
        };
        let transmit = self.permitted().filter(|_| self.need_to_transmit);
        let churn = [self.actor_churn.deadline(), self.partner_churn.deadline()];
        let damped = self.damper.deadline();
        let timers = [self.current_while, periodic, self.wait_while, self.looped, damped, transmit];
        timers.into_iter().chain(churn).flatten().filter(|at| *at > now).min()
    }

    pub(super) fn view(&self) -> PortView {
        PortView {
            port: self.config.port,
            megabits: self.megabits,
            active: self.is_active(),
            selected: self.selected,
            receive: self.receive,
            mux: self.mux,
            actor: self.actor,
            partner: self.partner,
            exclusion: self.exclusion,
            actor_churn: self.actor_churn.churning,
            partner_churn: self.partner_churn.churning,
            last_received: self.last_received,
            counters: self.counters,
        }
    }
}

/// What the port tells of itself before anything happened to it.
fn actor_of(lag: &LagConfig, config: &PortConfig) -> PortInfo {
    let state =
        LacpState::AGGREGATION.with(LacpState::ACTIVITY, lag.active).with(LacpState::TIMEOUT, lag.fast);
    PortInfo {
        system_priority: lag.system_priority,
        system: lag.system,
        key: lag.key,
        port_priority: config.priority,
        port: config.port.saturating_add(1),
        state,
    }
}

/// Two descriptions are of the same port with the same key and the same wish to be aggregated.
fn same_port(one: &PortInfo, other: &PortInfo) -> bool {
    let identity = |info: &PortInfo| {
        let state = LacpState::from_bits(info.state.bits() & LacpState::AGGREGATION.bits());
        PortInfo { state, ..*info }
    };
    identity(one) == identity(other)
}
