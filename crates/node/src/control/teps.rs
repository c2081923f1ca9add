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
//! There is a session for each pair of TEPs that tunnels lead between, where the document has `bfd`, and for each neighbour that it names.
//! Whether a path is used follows from its session: [`sluice_protocols::bfd::PathState`]. Where no pair of a group is usable flows stay where they are, so that a node that
//! ends BFD on purpose is still reached.
//!
//! A TEP's sessions count for its health once the other node was heard, unless the last that was heard is that it ends BFD.
//!
//! What changes for a TEP is told to the workers at once, what changes for paths once a tick: thousands that fail together are one announcement.
//!
//! Only the control thread comes here. Time is that of the data plane's clock.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

use sluice_datapath::neighbor::NeighborTable;
use sluice_datapath::snapshot::Snapshot;
use sluice_intent::plan::{Plan, PortIndex, TepIndex};
use sluice_protocols::Timestamp;
use sluice_protocols::bfd::{
    self, Path, PathState, Refusal, Refusals, SessionError, SessionView, Sessions, SessionsConfig, Via,
};
use sluice_protocols::tep_health::{
    self, Recovery, TepHealth, TepHealthConfig, TepHealthError, TepId, TepInputs, TepView,
};
use sluice_wire::bfd::{BfdState, PACKET_LEN};

use super::alarms::{AlarmKind, Alarms};
use super::bfd_frames::{self, Outer};
use super::bfd_refused::BfdRefused;
use super::faults::{self, alarm_kind, fault_of_tep, object};
use super::neighbors::timestamp;
use super::watched::{self, Paths, Route, Wanted, Watched, is_of_neighbor};
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
    paths: Paths,
    /// Of paths that the last document took away: their sessions still say so.
    leaving: HashMap<Path, Route>,
    outgoing: Vec<Outgoing>,
    refused: BfdRefused,
    /// Names of ports whose link was seen down.
    links_down: HashSet<String>,
    /// Every TEP of the node is faulty, and none works.
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
            paths: Paths::default(),
            leaving: HashMap::new(),
            outgoing: Vec::new(),
            refused: BfdRefused::default(),
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
        let names: HashSet<&str> = plan.port_indices().map(|port| plan.port_name(port)).collect();
        self.links_down.retain(|name| names.contains(name.as_str()));
        let wanted = watched::wanted(snapshot);
        // First what goes: what comes may need the places.
        let mut before = self.remove_unwanted(&wanted, now);
        let (all, mut without) = (wanted.len(), 0);
        for (path, Wanted { watches, route, config }) in wanted {
            let old = before.remove(&path);
            let result = match old {
                Some(_) => self.sessions.update(&path, config, now),
                None => self.sessions.add(path, config, now),
            };
            match result {
                Ok(()) => {
                    let new = || PathState::new(self.paths.is_expected(&path), now);
                    let state = old.map_or_else(new, |old| old.state);
                    self.paths.insert(path, Watched { watches, route, state });
                }
                Err(SessionError::Full(_)) => without += 1,
                Err(error) => tracing::error!(local = %path.local, remote = %path.remote, "{error}"),
            }
        }
        self.paths.forget_others();
        self.note_unwatched(&plan.name, all, without);
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

    /// Ends the sessions of paths that are no longer to be watched, and returns what was known of the others.
    fn remove_unwanted(&mut self, wanted: &HashMap<Path, Wanted>, now: Timestamp) -> HashMap<Path, Watched> {
        let mut before = self.paths.take();
        self.leaving.clear();
        before.retain(|path, gone| {
            if wanted.contains_key(path) {
                return true;
            }
            // It is there, since it was watched.
            let _ = self.sessions.remove(path, now);
            for kind in [alarm_kind(path), AlarmKind::PathFlapping] {
                self.alarms.clear(kind, &object(path), "it is no longer watched");
            }
            self.leaving.insert(*path, gone.route);
            false
        });
        before
    }

    /// Raises the alarm of paths without a session, or ends it.
    fn note_unwatched(&mut self, node: &str, all: usize, without: usize) {
        if without == 0 {
            self.alarms.clear(AlarmKind::BfdSessionsFull, node, "every path has a BFD session again");
            return;
        }
        let sentence = format!(
            "{without} of {all} paths have no BFD session, since a node has at most {}: they are used whether they work or not; have fewer TEPs or \
             bfd-peers",
            all - without
        );
        self.alarms.raise(AlarmKind::BfdSessionsFull, node, sentence);
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
    fn tell(&mut self, snapshot: &Snapshot) {
        for (number, tep) in snapshot.plan().teps.iter().enumerate() {
            let usable = self.health_of(&tep.name).is_none_or(|view| view.is_usable());
            snapshot.set_tep(TepIndex(number as u16), usable);
        }
        self.paths.tell_all(snapshot);
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
        let mut returned = false;
        if up {
            let withdrawn = self.isolated;
            returned = self.links_down.remove(name);
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
        let paths: Vec<_> = self.paths.keys().filter(|path| here(path)).copied().collect();
        for path in paths {
            if returned {
                self.paths.change(&path, |state| {
                    state.link_is_back(now);
                    false
                });
            } else if !up && !is_of_neighbor(&path) {
                self.alarms.clear(AlarmKind::TunnelDown, &object(&path), "the link of its own TEP is down");
            }
        }
        self.paths.tell_changes(snapshot);
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
        let now = timestamp(clock);
        let own_mac = |path: &Path| self.paths.get(path).map(|watched| watched.route.outer.source);
        match bfd_frames::read(punted.packet.data(), punted.punt.entry, own_mac) {
            Ok((received, payload)) => {
                if let Err(reason) = self.sessions.receive(&received, payload, now) {
                    let path =
                        Path { via: received.via, local: received.destination, remote: received.source };
                    if self.is_bad(&path, reason, snapshot.plan()) {
                        self.note_refused(reason, Some(received.source), snapshot.plan(), now);
                    }
                }
            }
            Err((reason, source)) => {
                self.sessions.refuse(reason);
                self.note_refused(reason, source, snapshot.plan(), now);
            }
        }
        self.take_session_actions(snapshot, now);
    }

    /// Whether a packet of a path that its session refused should not have been sent: it is nobody's fault where this node ended the session, does
    /// not watch tunnels, or lost what it knew of the session and the other node has not noticed yet.
    fn is_bad(&self, path: &Path, reason: Refusal, plan: &Plan) -> bool {
        let watches = is_of_neighbor(path) || plan.bfd.is_some();
        match reason {
            Refusal::PathDown | Refusal::AdminDown => false,
            Refusal::UnknownPath => watches,
            Refusal::UnknownDiscriminator => {
                let session = self.sessions.get(path);
                watches && session.is_none_or(|session| session.state == BfdState::Up)
            }
            _ => true,
        }
    }

    fn note_refused(&mut self, reason: Refusal, source: Option<IpAddr>, plan: &Plan, now: Timestamp) {
        tracing::debug!(?source, "a BFD packet was refused: {reason}");
        if let Some(sentence) = self.refused.note(reason, source, now) {
            self.alarms.raise(AlarmKind::BfdRefused, &plan.name, sentence);
        }
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
        while let Some(path) = self.paths.next_due(now) {
            let Some(session) = self.sessions.get(&path) else { break };
            if self.paths.change(&path, |state| state.advance(&session, now)) {
                self.tell_people(&path, snapshot.plan());
            }
        }
        self.paths.tell_changes(snapshot);
        if std::mem::take(&mut self.changed) {
            self.tell_health(snapshot.plan(), now);
        }
        self.health.advance(now);
        self.take_health_actions(snapshot, now);
        if self.refused.ends(now) {
            let sentence = "no more BFD packets are refused than now and then";
            self.alarms.clear(AlarmKind::BfdRefused, &snapshot.plan().name, sentence);
        }
        self.send(neighbors, dataplane);
    }

    /// Tells the other ends of all sessions that this one ends (AdminDown, RFC 5880 section 6.8.16), once: they use other paths at once then, where
    /// they would find out after a detection time.
    pub(super) fn leave(&mut self, neighbors: &NeighborTable, dataplane: &mut Dataplane) {
        let now = timestamp(dataplane.clock);
        for path in self.paths.keys() {
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
            let watched = self.paths.get(&path).map(|watched| watched.route);
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
                    self.review(&path, from, snapshot.plan(), now);
                }
            }
        }
    }

    /// Looks at a session whose state was `from`.
    fn review(&mut self, path: &Path, from: BfdState, plan: &Plan, now: Timestamp) {
        let Some(session) = self.sessions.get(path) else { return };
        if session.state == BfdState::Up && !is_of_neighbor(path) {
            let group = plan.remote_tep_groups.iter().find(|group| group.teps.contains(&path.remote));
            let node = group.map_or(std::slice::from_ref(&path.remote), |group| &group.teps);
            self.paths.expect(node, &self.sessions, now);
        }
        let changed = self.paths.change(path, |state| {
            let before = state.fault();
            state.session_changed(from, &session, now);
            state.fault() != before
        });
        if changed {
            self.tell_people(path, plan);
        }
    }

    /// Raises or ends the alarms of a path.
    fn tell_people(&mut self, path: &Path, plan: &Plan) {
        let Some(Watched { route, state, .. }) = self.paths.get(path) else { return };
        // What its own link takes from a TEP is told once, of the TEP.
        let alone = is_of_neighbor(path) || !self.is_down(plan, route.port);
        faults::tell(path, state.fault(), alone, &mut self.alarms);
    }

    /// The node reaches no other node, or does again. Neighbours that watch it are told by their sessions, so that they send it nothing that it
    /// could not forward.
    fn set_isolated(&mut self, isolated: bool, snapshot: &Snapshot, now: Timestamp) {
        let plan = snapshot.plan();
        self.isolated = isolated;
        if isolated {
            self.sessions.path_down(is_of_neighbor, now);
            let withdrawn = self.paths.keys().any(is_of_neighbor);
            let so = if withdrawn {
                ", and its BFD sessions with neighbours are down, so that they use others"
            } else {
                ""
            };
            let sentence = format!(
                "every TEP of the node is faulty, and none works: it reaches no other node{so}; look at its uplinks"
            );
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
                tep_health::Action::Faulty { tep, .. } => self.set_tep(tep, snapshot, false),
                tep_health::Action::Recovered { tep, recovery } => {
                    if recovery != Recovery::Own {
                        tracing::debug!(tep = tep.0, ?recovery, "the TEP is tried again");
                    }
                    self.set_tep(tep, snapshot, true);
                }
                tep_health::Action::RecoveryFailed { tep, .. } => {
                    tracing::debug!(tep = tep.0, "the TEP does not work yet");
                }
                tep_health::Action::Isolated(isolated) => self.set_isolated(isolated, snapshot, now),
            }
        }
        self.review_faults();
    }

    /// Says of the TEPs that are faulty whether they work meanwhile.
    fn review_faults(&mut self) {
        for (name, id) in &self.ids {
            let Some(view) = self.health.get(*id) else { continue };
            if let Some(sentence) = fault_of_tep(name, &view) {
                self.alarms.revise(AlarmKind::TepFaulty, name, sentence);
            }
        }
    }

    /// A TEP is faulty, or no longer.
    fn set_tep(&mut self, id: TepId, snapshot: &Snapshot, usable: bool) {
        let Some(name) = self.ids.iter().find(|(_, other)| **other == id).map(|(name, _)| name) else {
            return;
        };
        let Some(number) = snapshot.plan().teps.iter().position(|tep| tep.name == *name) else { return };
        snapshot.set_tep(TepIndex(number as u16), usable);
        let fault = self.health.get(id).and_then(|view| fault_of_tep(name, &view));
        match fault.filter(|_| !usable) {
            Some(sentence) => self.alarms.raise(AlarmKind::TepFaulty, name, sentence),
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
        let usable =
            |view: &SessionView| self.paths.get(&view.path).is_none_or(|watched| watched.state.is_usable());
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

/// Whether a session says something about its TEP: what has never been answered may have nobody to answer it, and who took leave is not lost.
fn counts_for_health(view: &SessionView) -> bool {
    view.counters.last_received.is_some() && !view.remote_left
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn paths_without_a_session_are_told_until_all_have_one() {
        let mut teps = Teps::new().unwrap();
        let told = |teps: &Teps| teps.alarms.open().map(|(_, _, alarm)| alarm.description.clone()).next();
        teps.note_unwatched("edge-1", 20_000, 3_616);
        let sentence = "3616 of 20000 paths have no BFD session, since a node has at most 16384: ";
        assert!(told(&teps).is_some_and(|told| told.starts_with(sentence)));
        teps.note_unwatched("edge-1", 16_384, 0);
        assert_eq!(told(&teps), None);
    }
}
