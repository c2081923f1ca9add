//! Which TEPs and tunnels are usable: BFD sessions over the tunnels and the health of the node's TEPs (`sluice-protocols`), joined with the
//! snapshot and the workers.
//!
//! ```text
//! links ────────────────┐                        ┌─→ pair of TEPs usable or not ──┐
//! BFD packets ─→ sessions ─→ changes of state ───┤                                ├─→ TunnelStates of the snapshot, alarms
//!                  │                             └─→ health of TEPs ─→ TEP ───────┘
//!                  └─→ packets to send, by the first worker
//! ```
//!
//! There is a session for each pair of TEPs that tunnels lead between, where the document has `bfd`. What follows from its state:
//!
//! - **Up**: the pair is used.
//! - **Not up, and was before**: it is not used, also where the other node says that it is administratively down. Where no pair of a group is
//!   usable flows stay where they are, so that a node that ends BFD on purpose is still reached.
//! - **Never up**: it is used. The other node may have no BFD. But where that answers for [`FIRST_CONTACT`] without hearing this node, the
//!   path is open in one direction only, and the pair is not used.
//!
//! A TEP's sessions count for its health once the other node was heard and has not said that it ends BFD.
//!
//! Only the control thread comes here. Time is that of the data plane's clock.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use sluice_datapath::neighbor::NeighborTable;
use sluice_datapath::snapshot::Snapshot;
use sluice_intent::plan::{Plan, PortIndex, TepIndex};
use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{self, Path, Refusals, SessionError, SessionView, Sessions, SessionsConfig, Via};
use sluice_protocols::tep_health::{
    self, Cause, FIRST_CONTACT, Recovery, TepHealth, TepHealthConfig, TepHealthError, TepId, TepInputs,
    TepView,
};
use sluice_wire::bfd::{BfdState, PACKET_LEN};

use super::alarms::{AlarmKind, Alarms};
use super::bfd_frames::{self, Outer};
use super::neighbors::timestamp;
use super::watched::{self, Route, Wanted, Watched, Watches, is_of_neighbor, object};
use crate::dataplane::Dataplane;
use crate::worker::{Command, CycleClock, Punted};

/// The time between two looks at the timers after which sessions are given another look before they go down.
const HELD_UP: Duration = Duration::from_millis(20);

/// A packet that a session wants to send.
struct Outgoing {
    path: Path,
    source_port: u16,
    payload: [u8; PACKET_LEN],
}

/// The state of TEPs and tunnels, see the [module](self).
pub(super) struct Teps {
    sessions: Sessions,
    health: TepHealth,
    pub(super) alarms: Alarms,
    /// Numbers of the TEPs in `health`: a name keeps its number from document to document.
    ids: BTreeMap<String, TepId>,
    watched: HashMap<Path, Watched>,
    /// Of paths that the last document took away: their sessions still say so.
    leaving: HashMap<Path, Route>,
    outgoing: Vec<Outgoing>,
    /// When paths whose session is to come up are to be looked at again, soonest first.
    overdue: VecDeque<(Timestamp, Path)>,
    /// Names of ports whose link was seen down.
    links_down: HashSet<String>,
    /// Every TEP of the node is faulty.
    isolated: bool,
    /// Sessions changed since the health was last told.
    changed: bool,
    /// When the timers were last looked at.
    looked: Timestamp,
    /// They were given another look then.
    waited: bool,
}

impl Teps {
    /// None yet.
    pub(super) fn new() -> Result<Self, TepHealthError> {
        // Discriminators that nobody can guess: this state is random.
        let seed = RandomState::new().hash_one("discriminators");
        Ok(Self {
            sessions: Sessions::new(SessionsConfig { seed, ..SessionsConfig::default() }),
            health: TepHealth::new(TepHealthConfig::default())?,
            alarms: Alarms::default(),
            ids: BTreeMap::new(),
            watched: HashMap::new(),
            leaving: HashMap::new(),
            outgoing: Vec::new(),
            overdue: VecDeque::new(),
            links_down: HashSet::new(),
            isolated: false,
            changed: false,
            looked: Timestamp::default(),
            waited: false,
        })
    }

    /// Takes the TEPs and pairs of a new snapshot, and tells it what is known of them, before any worker has it.
    pub(super) fn configure(&mut self, snapshot: &Snapshot, clock: CycleClock) {
        let now = timestamp(clock);
        self.configure_sessions(snapshot, now);
        self.configure_health(snapshot.plan(), now);
        self.take_session_actions(snapshot, now);
        self.tell_health(snapshot.plan(), now);
        self.take_health_actions(snapshot, now);
        self.tell(snapshot);
    }

    /// Forgets what belongs to ports that close.
    pub(super) fn forget_ports(&mut self) {
        self.leaving.clear();
        self.outgoing.clear();
    }

    fn configure_sessions(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let plan = snapshot.plan();
        let mut before = std::mem::take(&mut self.watched);
        let mut full = None;
        for (path, Wanted { watches, route, config }) in watched::wanted(snapshot) {
            let result = match before.contains_key(&path) {
                true => self.sessions.update(&path, config, now),
                false => self.sessions.add(path, config, now),
            };
            match result {
                Ok(()) => {
                    let old = before.remove(&path);
                    let (usable, overdue) =
                        old.map_or_else(|| (true, self.expect(&path, now)), |old| (old.usable, old.overdue));
                    self.watched.insert(path, Watched { watches, route, usable, overdue });
                }
                Err(error @ SessionError::Full(_)) => full = Some(error),
                Err(error) => tracing::error!(local = %path.local, remote = %path.remote, "{error}"),
            }
        }
        if let Some(error) = full {
            tracing::warn!("not everything is watched: {error}");
        }
        self.leaving.clear();
        for (path, gone) in before {
            // It is there, since it was watched.
            let _ = self.sessions.remove(&path, now);
            self.alarms.clear(alarm_kind(&path), &object(&path), "it is no longer watched");
            self.leaving.insert(path, gone.route);
        }
        self.changed = true;
        let down = self.addresses_on(plan, |port| self.is_down(plan, port));
        let (links_down, isolated) = (&self.links_down, self.isolated);
        let is_down = |port: u16| links_down.contains(plan.port_name(PortIndex(port)));
        let lost = |path: &Path| match path.via {
            Via::Link(link) => isolated || is_down(link.port),
            Via::Tunnel { .. } => down.contains(&path.local),
        };
        self.sessions.path_down(lost, now);
    }

    /// Begins to wait for a session with a neighbour: the document says that it answers.
    fn expect(&mut self, path: &Path, now: Timestamp) -> Option<Timestamp> {
        is_of_neighbor(path).then(|| {
            self.overdue.push_back((now.after(FIRST_CONTACT), *path));
            now
        })
    }

    fn configure_health(&mut self, plan: &Plan, now: Timestamp) {
        let config = plan.tep_high_availability.map_or_else(TepHealthConfig::default, |profile| {
            let seconds = |seconds: u32| Duration::from_secs(seconds.into());
            TepHealthConfig {
                enabled: true,
                failover_timeout: seconds(profile.failover_timeout_s.into()),
                auto_recovery: profile.auto_recovery,
                initial_wait: seconds(profile.auto_recovery_initial_wait_s.into()),
                max_backoff: seconds(profile.auto_recovery_max_backoff_s),
            }
        });
        if let Err(error) = self.health.configure(config, now) {
            tracing::error!("{error}");
        }
        let gone: Vec<_> =
            self.ids.keys().filter(|name| plan.teps.iter().all(|tep| tep.name != **name)).cloned().collect();
        for name in gone {
            if let Some(id) = self.ids.remove(&name) {
                // It is there, since it has a number.
                let _ = self.health.remove(id, now);
                self.alarms.clear(AlarmKind::TepFaulty, &name, "the node no longer has the TEP");
            }
        }
        for tep in &plan.teps {
            if !self.ids.contains_key(&tep.name) {
                let free = |id: &u16| self.ids.values().all(|taken| taken.0 != *id);
                let id = (0..=u16::MAX).find(free).unwrap_or_default();
                self.ids.insert(tep.name.clone(), TepId(id));
            }
        }
    }

    /// Tells a snapshot which TEPs and pairs are usable.
    fn tell(&self, snapshot: &Snapshot) {
        for (number, tep) in snapshot.plan().teps.iter().enumerate() {
            let usable = self.health_of(&tep.name).is_none_or(|view| view.is_usable());
            snapshot.set_tep(TepIndex(number as u16), usable);
        }
        self.watched.values().for_each(|watched| tell(snapshot, watched));
    }

    /// A port came up or went down.
    pub(super) fn link_state(&mut self, port: PortIndex, up: bool, snapshot: &Snapshot, clock: CycleClock) {
        let now = timestamp(clock);
        let plan = snapshot.plan();
        let name = plan.port_name(port);
        let locals = self.addresses_on(plan, |other| other == port);
        let here = |path: &Path| match path.via {
            Via::Link(link) => link.port == port.0,
            Via::Tunnel { .. } => locals.contains(&path.local),
        };
        if up {
            let withdrawn = self.isolated;
            self.links_down.remove(name);
            self.sessions.path_up(|path| here(path) && !(withdrawn && is_of_neighbor(path)), now);
        } else {
            self.links_down.insert(name.to_owned());
        }
        // First the TEPs: one store turns all that goes through them.
        self.tell_health(plan, now);
        self.take_health_actions(snapshot, now);
        if !up {
            self.sessions.path_down(here, now);
        }
        self.take_session_actions(snapshot, now);
    }

    fn is_down(&self, plan: &Plan, port: PortIndex) -> bool {
        self.links_down.contains(plan.port_name(port))
    }

    /// Addresses of the TEPs on some ports.
    fn addresses_on(&self, plan: &Plan, wanted: impl Fn(PortIndex) -> bool) -> Vec<IpAddr> {
        let on = |tep: &&sluice_intent::plan::Tep| wanted(plan.uplinks[tep.uplink.index()].port);
        plan.teps.iter().filter(on).map(|tep| tep.address.addr()).collect()
    }

    /// Takes a BFD packet that a worker handed over.
    pub(super) fn punted(&mut self, punted: &Punted, snapshot: &Snapshot, clock: CycleClock) {
        let Some((received, payload)) = bfd_frames::read(punted.packet.data(), punted.punt.entry) else {
            tracing::debug!("a BFD packet is damaged, or not from whom it says");
            return;
        };
        let now = timestamp(clock);
        if let Err(reason) = self.sessions.receive(&received, payload, now) {
            tracing::debug!(source = %received.source, "a BFD packet was refused: {reason}");
        }
        self.take_session_actions(snapshot, now);
    }

    /// Lets the timers act, and sends what sessions want to send. What was received is to be handed in before.
    pub(super) fn advance(
        &mut self,
        snapshot: &Snapshot,
        neighbors: &NeighborTable,
        dataplane: &mut Dataplane,
    ) {
        let now = timestamp(dataplane.clock);
        // Once only: on a thread that is always late they have to act all the same.
        self.waited = !self.waited && now.since(self.looked) > HELD_UP;
        self.looked = now;
        // What held this thread up may have held up the workers too: they are given a moment to hand over what came meanwhile.
        if !self.waited {
            self.sessions.advance(now);
        }
        self.take_session_actions(snapshot, now);
        while let Some((_, path)) = self.overdue.pop_front_if(|(due, _)| *due <= now) {
            self.review_overdue(&path, snapshot, now);
        }
        if std::mem::take(&mut self.changed) {
            self.tell_health(snapshot.plan(), now);
        }
        self.health.advance(now);
        self.take_health_actions(snapshot, now);
        self.send(neighbors, dataplane);
    }

    /// Tells the other ends of all sessions that this one ends (AdminDown, RFC 5880 section 6.8.16), once: they use other paths at once then, where
    /// they would find out after a detection time.
    pub(super) fn leave(&mut self, neighbors: &NeighborTable, dataplane: &mut Dataplane) {
        let now = timestamp(dataplane.clock);
        for path in self.watched.keys() {
            if let Err(error) = self.sessions.remove(path, now) {
                tracing::debug!(remote = %path.remote, "{error}");
            }
        }
        while let Some(action) = self.sessions.next_action() {
            if let bfd::Action::Send { path, source_port, payload } = action {
                self.outgoing.push(Outgoing { path, source_port, payload });
            }
        }
        self.send(neighbors, dataplane);
    }

    fn send(&mut self, neighbors: &NeighborTable, dataplane: &mut Dataplane) {
        for Outgoing { path, source_port, payload } in self.outgoing.drain(..) {
            let watched = self.watched.get(&path).map(|watched| watched.route);
            let Some(route) = watched.or_else(|| self.leaving.get(&path).copied()) else { continue };
            // Until the next hop is known nothing can be sent, and the session says so by not being up.
            let Some((_, next_hop)) = neighbors.resolve(&route.next_hop) else { continue };
            let outer = Outer { next_hop, ..route.outer };
            let frame = match bfd_frames::build(&outer, &path, source_port, &payload) {
                Ok(frame) => frame,
                Err(error) => {
                    tracing::error!(remote = %path.remote, "a BFD packet cannot be built: {error}");
                    continue;
                }
            };
            let Some(packet) = dataplane.pool.allocate_with(&frame) else { continue };
            if let Some(worker) = dataplane.workers.first_mut() {
                worker.command(Command::Transmit { port: route.port, packet });
            }
        }
    }

    fn take_session_actions(&mut self, snapshot: &Snapshot, now: Timestamp) {
        while let Some(action) = self.sessions.next_action() {
            match action {
                bfd::Action::Send { path, source_port, payload } => {
                    self.outgoing.push(Outgoing { path, source_port, payload });
                }
                bfd::Action::StateChanged { path, from, to, diagnostic, .. } => {
                    tracing::debug!(local = %path.local, remote = %path.remote, %from, %to, %diagnostic, "BFD session");
                    self.changed = true;
                    self.review(&path, snapshot, now);
                }
            }
        }
    }

    /// Looks at a session whose state changed.
    fn review(&mut self, path: &Path, snapshot: &Snapshot, now: Timestamp) {
        let (Some(view), Some(watched)) = (self.sessions.get(path), self.watched.get_mut(path)) else {
            return;
        };
        let reason = match (view.state, view.counters.ups) {
            (BfdState::Init, 0) => {
                if watched.overdue.is_none() {
                    watched.overdue = Some(now);
                    self.overdue.push_back((now.after(FIRST_CONTACT), *path));
                }
                return;
            }
            (BfdState::Up, _) | (_, 0) => None,
            _ => Some(view.diagnostic.to_string()),
        };
        watched.overdue = None;
        self.set_usable(path, snapshot, reason);
    }

    /// Looks at a path whose session was to come up a while ago.
    fn review_overdue(&mut self, path: &Path, snapshot: &Snapshot, now: Timestamp) {
        let since = self.watched.get(path).and_then(|watched| watched.overdue);
        if since.is_some_and(|since| since.after(FIRST_CONTACT) <= now) {
            let heard = self.sessions.get(path).is_some_and(|view| view.counters.last_received.is_some());
            let reason =
                if heard { "it is heard, and does not hear this node" } else { "it has never answered" };
            self.set_usable(path, snapshot, Some(reason.to_owned()));
        }
    }

    /// Says whether what a session watches is usable; `reason`: why it is not.
    fn set_usable(&mut self, path: &Path, snapshot: &Snapshot, reason: Option<String>) {
        let Some(watched) = self.watched.get_mut(path) else { return };
        watched.usable = reason.is_none();
        tell(snapshot, watched);
        let Path { local, remote, .. } = path;
        let what = if is_of_neighbor(path) { "neighbour" } else { "TEP" };
        match reason {
            Some(reason) => {
                let others = if is_of_neighbor(path) { "next hops" } else { "TEPs" };
                let sentence = format!(
                    "{what} {remote} is not reached from {local} ({reason}); flows take other {others} where there are any: look at the path between \
                     them"
                );
                self.alarms.raise(alarm_kind(path), &object(path), sentence);
            }
            None => {
                let sentence = format!("{what} {remote} is reached from {local} again");
                self.alarms.clear(alarm_kind(path), &object(path), &sentence);
            }
        }
    }

    /// The node reaches no other node, or does again. Neighbours that watch it are told by their sessions, so that they send it nothing that it
    /// could not forward.
    fn set_isolated(&mut self, isolated: bool, snapshot: &Snapshot, now: Timestamp) {
        let plan = snapshot.plan();
        self.isolated = isolated;
        if isolated {
            self.sessions.path_down(is_of_neighbor, now);
            let withdrawn = self.watched.keys().any(is_of_neighbor);
            let so = if withdrawn {
                ", and its BFD sessions with neighbours are down, so that they use others"
            } else {
                ""
            };
            let sentence =
                format!("every TEP of the node is faulty: it reaches no other node{so}; look at its uplinks");
            self.alarms.raise(AlarmKind::NodeIsolated, &plan.name, sentence);
        } else {
            let down = &self.links_down;
            let is_up = |port: u16| !down.contains(plan.port_name(PortIndex(port)));
            self.sessions.path_up(|path| matches!(path.via, Via::Link(link) if is_up(link.port)), now);
            self.alarms.clear(AlarmKind::NodeIsolated, &plan.name, "a TEP of the node works again");
        }
    }

    /// Tells the health of the TEPs what is known of links and sessions.
    fn tell_health(&mut self, plan: &Plan, now: Timestamp) {
        let mut counts: HashMap<IpAddr, (usize, usize)> = HashMap::new();
        for view in self.sessions.sessions().filter(counts_for_health) {
            let (all, up) = counts.entry(view.path.local).or_default();
            *all += 1;
            *up += usize::from(view.state == BfdState::Up);
        }
        for tep in &plan.teps {
            let Some(id) = self.ids.get(&tep.name) else { continue };
            let (sessions, sessions_up) = counts.get(&tep.address.addr()).copied().unwrap_or_default();
            let link_up = !self.is_down(plan, plan.uplinks[tep.uplink.index()].port);
            // Addresses are the document's: there is no TEP without one.
            let inputs = TepInputs { has_address: true, link_up, sessions, sessions_up };
            self.health.set(*id, inputs, now);
        }
    }

    fn take_health_actions(&mut self, snapshot: &Snapshot, now: Timestamp) {
        while let Some(action) = self.health.next_action() {
            match action {
                tep_health::Action::Faulty { tep, cause, .. } => self.set_tep(tep, snapshot, Some(cause)),
                tep_health::Action::Recovered { tep, recovery } => {
                    if recovery != Recovery::Own {
                        tracing::debug!(tep = tep.0, ?recovery, "the TEP is tried again");
                    }
                    self.set_tep(tep, snapshot, None);
                }
                tep_health::Action::RecoveryFailed { tep, .. } => {
                    tracing::debug!(tep = tep.0, "the TEP does not work yet");
                }
                tep_health::Action::Isolated(isolated) => self.set_isolated(isolated, snapshot, now),
            }
        }
    }

    /// A TEP is faulty, or no longer.
    fn set_tep(&mut self, id: TepId, snapshot: &Snapshot, fault: Option<Cause>) {
        let Some(name) = self.ids.iter().find(|(_, other)| **other == id).map(|(name, _)| name) else {
            return;
        };
        let Some(number) = snapshot.plan().teps.iter().position(|tep| tep.name == *name) else { return };
        snapshot.set_tep(TepIndex(number as u16), fault.is_none());
        match fault {
            Some(cause) => {
                let sentence = format!(
                    "TEP '{name}' is faulty: {}; its flows take other TEPs where there are any",
                    cause_in_words(cause)
                );
                self.alarms.raise(AlarmKind::TepFaulty, name, sentence);
            }
            None => {
                let sentence = format!("TEP '{name}' is used again");
                self.alarms.clear(AlarmKind::TepFaulty, name, &sentence);
            }
        }
    }

    /// Uses a faulty TEP again, now, because somebody asks for it.
    pub(super) fn recover(
        &mut self,
        name: &str,
        snapshot: &Snapshot,
        clock: CycleClock,
    ) -> anyhow::Result<()> {
        let names = || self.ids.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let Some(id) = self.ids.get(name).copied() else {
            anyhow::bail!("there is no TEP '{name}'; this node has {}", names());
        };
        let now = timestamp(clock);
        let result = self.health.recover(id, now);
        self.take_health_actions(snapshot, now);
        result.map_err(|error| match error {
            TepHealthError::NotFaulty(_) => {
                anyhow::anyhow!("TEP '{name}' is not faulty: there is nothing to recover")
            }
            TepHealthError::NotWorking(_) => anyhow::anyhow!(
                "TEP '{name}' does not work yet: it needs a link that is up and a BFD session that is up; 'get tn-tep-groups' and 'get bfd-sessions' say \
                 what is missing"
            ),
            other => other.into(),
        })
    }

    /// The sessions in the order of their paths, and whether each one's pair is usable.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (SessionView, bool)> {
        let usable = |view: &SessionView| self.watched.get(&view.path).is_none_or(|watched| watched.usable);
        self.sessions.sessions().map(move |view| (view, usable(&view)))
    }

    /// Received packets that were refused.
    pub(super) fn refusals(&self) -> Refusals {
        self.sessions.refusals()
    }

    /// The health of the TEP of this name.
    pub(super) fn health_of(&self, name: &str) -> Option<TepView> {
        self.ids.get(name).and_then(|id| self.health.get(*id))
    }
}

/// Tells a snapshot what is known of a path.
fn tell(snapshot: &Snapshot, watched: &Watched) {
    match watched.watches {
        Watches::Pair(pair) => snapshot.set_pair(pair, watched.usable),
        Watches::NextHop(next_hop) => snapshot.set_next_hop(next_hop, watched.usable),
    }
}

const fn alarm_kind(path: &Path) -> AlarmKind {
    if is_of_neighbor(path) { AlarmKind::NeighborDown } else { AlarmKind::TunnelDown }
}

/// Why a TEP is faulty, for people.
pub(super) const fn cause_in_words(cause: Cause) -> &'static str {
    match cause {
        Cause::NoAddress => "it has no address",
        Cause::LinkDown => "its link is down",
        Cause::SessionsDown => "none of its BFD sessions is up",
    }
}

/// Whether a session says something about its TEP: what has never been answered may have nobody to answer it.
fn counts_for_health(view: &SessionView) -> bool {
    view.counters.last_received.is_some() && view.remote_state != BfdState::AdminDown
}
