//! The table of sessions: which one a packet is for, and when each of them is due.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use sluice_wire::bfd::{BfdPacket, PACKET_LEN};

use super::session::{Change, Session};
use super::wheel::{TimerId, Wheel, begin_of, tick_from, tick_of};
use super::{
    Action, Concatenated, PORT, Path, Received, Refusal, Refusals, SessionConfig, SessionError, SessionView,
    SessionsConfig, TTL,
};
use crate::Timestamp;
use crate::random::Random;

/// The first source port of sessions, and how many there are (RFC 5881 §4).
const SOURCE_PORTS: (u16, u16) = (49_152, 16_384);

/// What the first packets of sessions that are made together are spread over.
const SPREAD: Duration = Duration::from_secs(1);

/// The timers of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Transmit,
    Detect,
}

/// The BFD sessions of a node.
///
/// Every call may leave actions, which the caller takes with [`Sessions::next_action`] before the next call. `now` never
/// goes back.
///
/// ```
/// use std::time::Duration;
/// use sluice_protocols::Timestamp;
/// use sluice_protocols::bfd::{Action, Path, SessionConfig, Sessions, SessionsConfig, Via};
///
/// let mut sessions = Sessions::new(SessionsConfig::default());
/// let via = Via::Tunnel { vni: None };
/// let path = Path { via, local: "192.0.2.1".parse()?, remote: "192.0.2.2".parse()? };
/// sessions.add(path, SessionConfig::every(Duration::from_millis(300), 3), Timestamp::from_secs(1))?;
/// let due = sessions.next_event().expect("the first packet is due within a second");
/// assert!(due <= Timestamp::from_secs(2));
/// sessions.advance(due);
/// assert!(matches!(sessions.next_action(), Some(Action::Send { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sessions {
    config: SessionsConfig,
    slots: Vec<Option<Session>>,
    free: Vec<u32>,
    /// Sessions that are on their way out.
    leaving: BTreeSet<u32>,
    by_path: BTreeMap<Path, u32>,
    by_discriminator: HashMap<u32, u32>,
    wheel: Wheel,
    /// Timers that expired in the call of [`Sessions::advance`] that is under way.
    expired: Vec<TimerId>,
    actions: VecDeque<Action>,
    refusals: Refusals,
    random: Random,
}

impl Sessions {
    /// A table without sessions.
    pub fn new(config: SessionsConfig) -> Self {
        Self {
            config,
            slots: Vec::new(),
            free: Vec::new(),
            leaving: BTreeSet::new(),
            by_path: BTreeMap::new(),
            by_discriminator: HashMap::new(),
            wheel: Wheel::new(),
            expired: Vec::new(),
            actions: VecDeque::new(),
            refusals: Refusals::default(),
            random: Random::new(config.seed),
        }
    }

    /// Makes a session, in the state Down. Where the table is full it takes the place of one that was removed.
    ///
    /// # Errors
    ///
    /// Every [`SessionError`] but [`SessionError::Unknown`].
    pub fn add(&mut self, path: Path, config: SessionConfig, now: Timestamp) -> Result<(), SessionError> {
        config.check()?;
        if path.local.is_ipv4() != path.remote.is_ipv4() {
            return Err(SessionError::Family);
        }
        match self.find(&path) {
            Ok(_) => return Err(SessionError::Exists),
            Err(Some(leaving)) => self.drop_session(leaving),
            Err(None) => {}
        }
        if self.by_path.len() >= self.config.sessions {
            // It has said that it ends when it was removed.
            let leaving = self.leaving.first().copied().ok_or(SessionError::Full(self.config.sessions))?;
            self.drop_session(leaving);
        }
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        let discriminator = self.new_discriminator();
        let source_port = SOURCE_PORTS.0 + (index % u32::from(SOURCE_PORTS.1)) as u16;
        let session = Session::new(path, config, discriminator, source_port, now);
        let first = session.transmit_interval();
        if index as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[index as usize] = Some(session);
        self.by_path.insert(path, index);
        self.by_discriminator.insert(discriminator, index);
        self.wheel.start_at(tick_of(now));
        if let Some(interval) = first {
            let latest = now.after(SPREAD.min(Duration::from_micros(interval.into())));
            let tick = self.random.between(tick_from(now), tick_of(latest));
            self.wheel.set(timer_id(index, Timer::Transmit), tick);
        }
        Ok(())
    }

    /// Changes how a session works. It stays up, unless the new configuration switches it off.
    ///
    /// # Errors
    ///
    /// [`SessionError::Interval`], [`SessionError::Multiplier`] and [`SessionError::Unknown`].
    pub fn update(&mut self, path: &Path, config: SessionConfig, now: Timestamp) -> Result<(), SessionError> {
        config.check()?;
        let index = self.find(path).map_err(|_| SessionError::Unknown)?;
        self.change(index, now, |session| session.configure(config, now));
        Ok(())
    }

    /// Removes a session. For a detection time it goes on to tell the other end that it is administratively down.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unknown`].
    pub fn remove(&mut self, path: &Path, now: Timestamp) -> Result<(), SessionError> {
        let index = self.find(path).map_err(|_| SessionError::Unknown)?;
        self.leaving.insert(index);
        self.change(index, now, |session| session.leave(now));
        if self.slots[index as usize].as_ref().and_then(|session| session.leaving) <= Some(now) {
            self.drop_session(index);
        }
        Ok(())
    }

    /// A UDP datagram came in for the port of BFD.
    ///
    /// # Errors
    ///
    /// Why it was refused, which is counted too.
    pub fn receive(&mut self, received: &Received, payload: &[u8], now: Timestamp) -> Result<(), Refusal> {
        let result = self.accept(received, payload, now);
        if let Err(reason) = result {
            self.refusals.add(reason);
        }
        result
    }

    /// Counts a packet that was refused before it could be handed in.
    pub fn refuse(&mut self, reason: Refusal) {
        self.refusals.add(reason);
    }

    /// The paths that `which` says are known to be down: a link went down, or the node lost an address. Their sessions
    /// go down at once, with the diagnostic Path Down, and hear nothing until [`Sessions::path_up`].
    pub fn path_down(&mut self, which: impl Fn(&Path) -> bool, now: Timestamp) {
        self.set_paths(which, false, now);
    }

    /// The paths that `which` says are no longer known to be down.
    pub fn path_up(&mut self, which: impl Fn(&Path) -> bool, now: Timestamp) {
        self.set_paths(which, true, now);
    }

    /// Tells the other end of `path` that a path which continues it failed, or works again (RFC 5880 §6.8.17). The
    /// session stays up; one that is not has a reason of its own to tell and is left alone.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unknown`].
    pub fn concatenated(
        &mut self,
        path: &Path,
        failure: Option<Concatenated>,
        now: Timestamp,
    ) -> Result<(), SessionError> {
        let index = self.find(path).map_err(|_| SessionError::Unknown)?;
        if self.slots[index as usize].as_mut().is_some_and(|session| session.set_concatenated(failure)) {
            self.transmit(index, false, now);
        }
        Ok(())
    }

    /// Does what is due at `now`. Afterwards [`Sessions::next_event`] is later than `now`.
    pub fn advance(&mut self, now: Timestamp) {
        let mut expired = std::mem::take(&mut self.expired);
        self.wheel.expire(tick_of(now), &mut expired);
        for timer in expired.drain(..) {
            match timer_of(timer) {
                (index, Timer::Transmit) => self.transmit_due(index, now),
                (index, Timer::Detect) => self.detection_due(index, now),
            }
        }
        self.expired = expired;
    }

    /// When [`Sessions::advance`] is to be called next; `None` while there is nothing to wait for. Rarely there is nothing
    /// to be done at that moment.
    pub fn next_event(&self) -> Option<Timestamp> {
        self.wheel.next().map(begin_of)
    }

    /// Takes the next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The session of a path.
    pub fn get(&self, path: &Path) -> Option<SessionView> {
        let index = self.find(path).ok()?;
        self.slots[index as usize].as_ref().map(Session::view)
    }

    /// The sessions in the order of their paths.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> {
        let sessions = self.by_path.values().filter_map(|index| self.slots[*index as usize].as_ref());
        sessions.filter(|session| session.leaving.is_none()).map(Session::view)
    }

    /// Packets that were refused.
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// The session of a path. The error is one that is on its way out.
    fn find(&self, path: &Path) -> Result<u32, Option<u32>> {
        let index = *self.by_path.get(path).ok_or(None)?;
        let leaves = self.slots[index as usize].as_ref().is_some_and(|session| session.leaving.is_some());
        if leaves { Err(Some(index)) } else { Ok(index) }
    }

    fn accept(&mut self, received: &Received, payload: &[u8], now: Timestamp) -> Result<(), Refusal> {
        if received.destination_port != PORT {
            return Err(Refusal::Port);
        }
        if received.ttl != TTL {
            return Err(Refusal::Ttl);
        }
        let packet = BfdPacket::parse(payload)?;
        let path = Path { via: received.via, local: received.destination, remote: received.source };
        let index = match packet.your_discriminator() {
            0 => *self.by_path.get(&path).ok_or(Refusal::UnknownPath)?,
            discriminator => {
                *self.by_discriminator.get(&discriminator).ok_or(Refusal::UnknownDiscriminator)?
            }
        };
        let Some(session) = &mut self.slots[index as usize] else { return Err(Refusal::UnknownPath) };
        if session.path != path {
            return Err(Refusal::OtherPath);
        }
        let interval = session.transmit_interval();
        let accepted = session.receive(packet, now);
        let interval_changed = session.transmit_interval() != interval;
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(reason) => {
                if interval_changed {
                    self.schedule(index, now);
                }
                return Err(reason);
            }
        };
        self.watch(index, now);
        self.report(index, accepted.change);
        if accepted.answer {
            self.transmit(index, true, now);
        }
        if accepted.change.is_some() {
            self.transmit(index, false, now);
        }
        if accepted.change.is_some() || interval_changed {
            self.schedule(index, now);
        }
        Ok(())
    }

    fn set_paths(&mut self, which: impl Fn(&Path) -> bool, up: bool, now: Timestamp) {
        let indices: Vec<_> =
            self.by_path.iter().filter(|(path, _)| which(path)).map(|(_, index)| *index).collect();
        for index in indices {
            self.change(index, now, |session| session.set_path(up, now));
        }
    }

    /// Changes a session, reports and tells what became of it, and sees to its timers.
    fn change(&mut self, index: u32, now: Timestamp, change: impl FnOnce(&mut Session) -> Option<Change>) {
        let Some(session) = &mut self.slots[index as usize] else { return };
        let change = change(session);
        self.report(index, change);
        if change.is_some() {
            self.transmit(index, false, now);
        }
        self.watch(index, now);
        self.schedule(index, now);
    }

    fn report(&mut self, index: u32, change: Option<Change>) {
        let (Some(Change { from, to }), Some(session)) = (change, &self.slots[index as usize]) else {
            return;
        };
        let (diagnostic, remote_diagnostic) = session.diagnostics();
        let path = session.path;
        self.actions.push_back(Action::StateChanged { path, from, to, diagnostic, remote_diagnostic });
    }

    /// Sends a packet, unless this end is not to begin.
    fn transmit(&mut self, index: u32, answer: bool, now: Timestamp) {
        let Some(session) = &mut self.slots[index as usize] else { return };
        if !answer && !session.may_begin() {
            return;
        }
        let mut payload = [0; PACKET_LEN];
        // The buffer has the packet's length, so that nothing can be refused.
        let _ = session.packet(answer).emit(&mut payload);
        if !answer {
            session.last_sent = now;
        }
        session.counters.sent += 1;
        let (path, source_port) = (session.path, session.source_port);
        self.actions.push_back(Action::Send { path, source_port, payload });
    }

    fn transmit_due(&mut self, index: u32, now: Timestamp) {
        let Some(session) = &self.slots[index as usize] else { return };
        let leaves = session.leaving.is_some_and(|until| until <= now);
        self.transmit(index, false, now);
        if leaves {
            self.drop_session(index);
        } else {
            self.schedule(index, now);
        }
    }

    /// Sets the timer of the next periodic packet, counted from the last one.
    fn schedule(&mut self, index: u32, now: Timestamp) {
        let Some(session) = &self.slots[index as usize] else { return };
        let timer = timer_id(index, Timer::Transmit);
        let Some(interval) = session.transmit_interval() else {
            match session.leaving {
                Some(_) => self.drop_session(index),
                None => self.wheel.clear(timer),
            }
            return;
        };
        let (least, most) = session.jitter();
        let part = |hundredths: u64| {
            session.last_sent.after(Duration::from_nanos(u64::from(interval) * hundredths * 10))
        };
        let first = tick_from(part(least).max(now));
        let tick = self.random.between(first, tick_of(part(most)));
        self.wheel.set(timer, tick);
    }

    /// Sees to it that the detection timer expires no later than the detection time. A timer that is set sooner stays:
    /// a packet that comes in then costs no change of the wheel.
    fn watch(&mut self, index: u32, now: Timestamp) {
        let Some(session) = &self.slots[index as usize] else { return };
        let timer = timer_id(index, Timer::Detect);
        match session.detection_deadline() {
            None => self.wheel.clear(timer),
            Some(deadline) => {
                let tick = tick_from(deadline.max(now));
                if self.wheel.tick(timer).is_none_or(|set| set > tick) {
                    self.wheel.set(timer, tick);
                }
            }
        }
    }

    fn detection_due(&mut self, index: u32, now: Timestamp) {
        let Some(session) = &mut self.slots[index as usize] else { return };
        match session.detection_deadline() {
            Some(deadline) if deadline <= now => {
                let change = session.detection_expired(now);
                self.report(index, change);
                if change.is_some() {
                    self.transmit(index, false, now);
                }
                self.schedule(index, now);
            }
            _ => self.watch(index, now),
        }
    }

    fn drop_session(&mut self, index: u32) {
        let Some(session) = self.slots[index as usize].take() else { return };
        self.leaving.remove(&index);
        self.by_path.remove(&session.path);
        self.by_discriminator.remove(&session.discriminator);
        self.wheel.clear(timer_id(index, Timer::Transmit));
        self.wheel.clear(timer_id(index, Timer::Detect));
        self.free.push(index);
    }

    fn new_discriminator(&mut self) -> u32 {
        loop {
            let discriminator = (self.random.next() >> 32) as u32;
            if discriminator != 0 && !self.by_discriminator.contains_key(&discriminator) {
                return discriminator;
            }
        }
    }
}

fn timer_id(index: u32, timer: Timer) -> TimerId {
    index * 2 + u32::from(timer == Timer::Detect)
}

fn timer_of(id: TimerId) -> (u32, Timer) {
    (id / 2, if id.is_multiple_of(2) { Timer::Transmit } else { Timer::Detect })
}
