//! LACP on the LAGs of the document: the state machines of `sluice-protocols`, joined with ports, workers and alarms.
//!
//! ```text
//! links ──────────────┐                    ┌─→ active members, which the workers read
//! LACPDUs, markers ───┼─→ a Lag for each ──┼─→ state of the LAG's own link, which TEPs and neighbours follow
//! time ───────────────┘                    ├─→ frames to send, by the first worker
//!                                          └─→ alarms
//! ```
//!
//! A LAG and its ports are known by their names: whatever keeps its name goes on as it is when a new document comes, and when the data plane is
//! built anew. Only the control thread comes here. Time is that of the data plane's clock.

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_intent::plan::{self, LacpActivity, LacpTimeout, Plan, PortIndex};
use sluice_protocols::Timestamp;
use sluice_protocols::lacp::{Action, Exclusion, Lag, LagConfig, LagError, LagView, PortConfig, Refusals};
use sluice_wire::MacAddr;

use super::alarms::{AlarmKind, Alarms};
use crate::dataplane::Dataplane;
use crate::worker::{ActiveMembers, Command};

/// How long the two ends may take to agree on the links of a LAG before it is told as down: until then it is not known.
const AGREEMENT: Duration = Duration::from_secs(5);

/// The LAGs of a node, see the [module](self).
#[derive(Default)]
pub(super) struct Lags {
    /// The MAC address that LACP knows the node by: that of the first port that ever was in a LAG. It stays as it is when that port goes.
    system: Option<MacAddr>,
    running: BTreeMap<String, Running>,
    /// LACP's numbers of the ports: a name keeps its number from document to document.
    numbers: BTreeMap<String, u16>,
    outgoing: Vec<(PortIndex, Vec<u8>)>,
}

/// A LAG.
struct Running {
    lag: Lag,
    /// LACP's number of the LAG.
    key: u16,
    /// Since when it is known by this name.
    since: Timestamp,
    /// It has been up.
    was_up: bool,
    /// Its ports with LACP's numbers, in the order of the document.
    ports: Vec<Link>,
}

/// A port of a LAG.
struct Link {
    number: u16,
    port: PortIndex,
    name: String,
    /// The link works.
    up: bool,
    excluded: Option<Exclusion>,
    /// The ends have not agreed for long: this one, and the other, is not in sync.
    churning: [bool; 2],
}

impl Lags {
    /// The MAC address that LACP knows the node by, once it has a LAG.
    pub(super) fn system(&self) -> Option<MacAddr> {
        self.system
    }

    /// Takes the LAGs of a plan, and says which of their members carry traffic, before any worker has it.
    pub(super) fn configure(
        &mut self,
        plan: &Plan,
        dataplane: &Dataplane,
        alarms: &mut Alarms,
        now: Timestamp,
    ) {
        self.outgoing.clear();
        let gone = |name: &&String| plan.lags.iter().all(|lag| lag.name != **name);
        let gone: Vec<String> = self.running.keys().filter(gone).cloned().collect();
        for name in gone {
            for kind in [AlarmKind::LagDown, AlarmKind::LagDegraded] {
                alarms.clear(kind, &name, "the node no longer has the LAG");
            }
            let Some(mut running) = self.running.remove(&name) else { continue };
            running.lag.leave();
            while let Some(action) = running.lag.next_action() {
                if let Action::Send { port, frame } = action {
                    self.outgoing.extend(port_of(&self.numbers, plan, port).map(|port| (port, frame)));
                }
            }
            for link in running.ports {
                link.clear_alarms(alarms, "the port is no longer in the LAG");
            }
        }
        for (position, planned) in plan.lags.iter().enumerate() {
            if let Err(error) = self.configure_lag(plan, planned, dataplane, alarms, now) {
                tracing::error!(lag = planned.name, "{error}");
            }
            self.take_actions(plan, position, &dataplane.active, alarms);
        }
        self.numbers.retain(|name, _| plan.ports.iter().any(|port| port.name == *name));
    }

    /// Says at the other ends of all links that this one gives its LAGs up. See [`Lag::leave`].
    pub(super) fn leave(&mut self, plan: &Plan, active: &ActiveMembers, alarms: &mut Alarms) {
        for (position, planned) in plan.lags.iter().enumerate() {
            if let Some(running) = self.running.get_mut(&planned.name) {
                running.lag.leave();
                self.take_actions(plan, position, active, alarms);
            }
        }
    }

    fn configure_lag(
        &mut self,
        plan: &Plan,
        planned: &plan::Lag,
        dataplane: &Dataplane,
        alarms: &mut Alarms,
        now: Timestamp,
    ) -> Result<(), LagError> {
        let mut links = Vec::new();
        let mut configs = Vec::new();
        for port in &planned.ports {
            let name = plan.port_name(*port).to_owned();
            let number = self.number_of(&name);
            configs.push(PortConfig::new(number, dataplane.mac(plan, *port)));
            links.push(Link { number, port: *port, name, up: false, excluded: None, churning: [false; 2] });
        }
        let first = configs.first().map(|port| port.mac).unwrap_or_default();
        let system = *self.system.get_or_insert(first);
        let key_before = self.running.get(&planned.name).map(|running| running.key);
        let is_free = |key: &u16| self.running.values().all(|running| running.key != *key);
        let key = key_before.or_else(|| (1..).find(is_free)).unwrap_or(1);
        let config = LagConfig {
            active: planned.activity == LacpActivity::Active,
            fast: planned.timeout == LacpTimeout::Fast,
            min_links: planned.min_links.into(),
            ..LagConfig::new(system, key, configs)
        };
        let Some(running) = self.running.get_mut(&planned.name) else {
            let lag = Lag::new(config)?;
            let running = Running { lag, key, since: now, was_up: false, ports: links };
            self.running.insert(planned.name.clone(), running);
            return Ok(());
        };
        running.lag.configure(config, now)?;
        for old in std::mem::take(&mut running.ports) {
            match links.iter_mut().find(|link| link.number == old.number) {
                Some(link) => *link = Link { port: link.port, ..old },
                None => old.clear_alarms(alarms, "the port is no longer in the LAG"),
            }
        }
        running.ports = links;
        Ok(())
    }

    /// LACP's number of a port.
    fn number_of(&mut self, name: &str) -> u16 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let free = |number: &u16| self.numbers.values().all(|taken| taken != number);
        let number = (0..u16::MAX).find(free).unwrap_or_default();
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The link of a member came up with this speed in megabits a second, or went down.
    pub(super) fn link_state(
        &mut self,
        (plan, port): (&Plan, PortIndex),
        megabits: Option<u32>,
        active: &ActiveMembers,
        alarms: &mut Alarms,
        now: Timestamp,
    ) {
        self.tell((plan, port), active, alarms, |lag, link| {
            link.up = megabits.is_some();
            lag.link_state(link.number, megabits, now);
        });
    }

    /// A member received a frame of the slow protocols.
    pub(super) fn receive(
        &mut self,
        (plan, port): (&Plan, PortIndex),
        frame: &[u8],
        active: &ActiveMembers,
        alarms: &mut Alarms,
        now: Timestamp,
    ) {
        self.tell((plan, port), active, alarms, |lag, link| {
            if let Err(reason) = lag.receive(link.number, frame, now) {
                tracing::debug!(port = link.name, "a frame of the slow protocols was refused: {reason}");
            }
        });
    }

    /// Tells the LAG of a port something.
    fn tell(
        &mut self,
        (plan, port): (&Plan, PortIndex),
        active: &ActiveMembers,
        alarms: &mut Alarms,
        what: impl FnOnce(&mut Lag, &mut Link),
    ) {
        let Some(position) = plan.lag_of(port) else { return };
        let Some(running) = self.running.get_mut(&plan.lags[position].name) else { return };
        if let Some(link) = running.ports.iter_mut().find(|link| link.port == port) {
            what(&mut running.lag, link);
        }
        self.take_actions(plan, position, active, alarms);
    }

    /// Lets the timers act.
    pub(super) fn advance(
        &mut self,
        plan: &Plan,
        active: &ActiveMembers,
        alarms: &mut Alarms,
        now: Timestamp,
    ) {
        for (position, planned) in plan.lags.iter().enumerate() {
            let Some(running) = self.running.get_mut(&planned.name) else { continue };
            if running.lag.next_event().is_some_and(|due| due <= now) {
                running.lag.advance(now);
                self.take_actions(plan, position, active, alarms);
            }
        }
    }

    /// Sends what is to be sent.
    pub(super) fn send(&mut self, dataplane: &mut Dataplane) {
        for (port, frame) in self.outgoing.drain(..) {
            let Some(packet) = dataplane.pool.allocate_with(&frame) else { continue };
            if let Some(worker) = dataplane.workers.first_mut() {
                worker.command(Command::Transmit { port, packet });
            }
        }
    }

    fn take_actions(&mut self, plan: &Plan, position: usize, active: &ActiveMembers, alarms: &mut Alarms) {
        let planned = &plan.lags[position];
        let Some(running) = self.running.get_mut(&planned.name) else { return };
        // First of all: what a link no longer carries goes elsewhere at once.
        active.set(position, running.active_members());
        while let Some(action) = running.lag.next_action() {
            match action {
                Action::Send { port, frame } => {
                    self.outgoing.extend(port_of(&self.numbers, plan, port).map(|port| (port, frame)));
                }
                Action::PortChanged { port, active } => {
                    if let Some(link) = running.ports.iter().find(|link| link.number == port) {
                        let state = if active { "carries traffic" } else { "carries no traffic" };
                        tracing::info!(lag = planned.name, port = link.name, "the link {state}");
                    }
                }
                // Read when links are looked at.
                Action::StateChanged { up } => running.was_up |= up,
                Action::Excluded { port, reason } => {
                    if let Some(link) = running.ports.iter_mut().find(|link| link.number == port) {
                        link.excluded = reason;
                        link.review(&planned.name, alarms);
                    }
                }
                Action::Churn { port, side, churning } => {
                    if let Some(link) = running.ports.iter_mut().find(|link| link.number == port) {
                        link.churning[side as usize] = churning;
                        link.review(&planned.name, alarms);
                    }
                }
            }
        }
        running.review(&planned.name, alarms);
    }

    /// Whether a LAG of the plan is up; none while that is not known, because its ends may still come to agree.
    pub(super) fn is_up(&self, planned: &plan::Lag, now: Timestamp) -> Option<bool> {
        let running = self.running.get(&planned.name)?;
        let waits = !running.was_up && now.since(running.since) < AGREEMENT;
        let unknown = !running.lag.is_up() && waits && running.ports.iter().any(|link| link.up);
        (!unknown).then(|| running.lag.is_up())
    }

    /// Raises the alarm of a LAG that is down now, or ends it.
    pub(super) fn note_state(&self, planned: &plan::Lag, up: bool, alarms: &mut Alarms) {
        let name = &planned.name;
        if up {
            alarms.clear(AlarmKind::LagDown, name, &format!("LAG '{name}' is up again"));
            return;
        }
        let active = self.running.get(name).map_or(0, |running| running.lag.active_ports().count());
        let sentence = format!(
            "LAG '{name}' is down: {active} of its {} links carry traffic, and it needs {}; look at 'get lags' for what its links miss",
            planned.ports.len(),
            planned.min_links
        );
        alarms.raise(AlarmKind::LagDown, name, sentence);
    }

    /// Everything about the LAG of this name, its key, and the names of its ports by LACP's numbers.
    pub(super) fn view(&self, name: &str) -> Option<(LagView, Refusals, u16, BTreeMap<u16, &str>)> {
        let running = self.running.get(name)?;
        let names = running.ports.iter().map(|link| (link.number, link.name.as_str())).collect();
        Some((running.lag.view(), running.lag.refusals(), running.key, names))
    }
}

impl Running {
    /// Raises or ends the alarm of a LAG that does without some of its links. One that is down has an alarm of its own.
    fn review(&self, name: &str, alarms: &mut Alarms) {
        let down: Vec<&str> =
            self.ports.iter().filter(|link| !link.up).map(|link| link.name.as_str()).collect();
        if down.is_empty() || !self.lag.is_up() {
            let sentence = format!("LAG '{name}' no longer does without some of its links");
            alarms.clear(AlarmKind::LagDegraded, name, &sentence);
            return;
        }
        let sentence = format!(
            "LAG '{name}' does without {} of its {} links, which {} down ({}): look at the cable and at the other end",
            down.len(),
            self.ports.len(),
            if down.len() == 1 { "is" } else { "are" },
            down.join(", ")
        );
        alarms.raise(AlarmKind::LagDegraded, name, sentence);
    }

    /// The members that carry traffic, one bit each.
    fn active_members(&self) -> u32 {
        let position = |number| self.ports.iter().position(|link| link.number == number);
        self.lag.active_ports().filter_map(position).fold(0, |members, position| members | 1 << position)
    }
}

impl Link {
    /// Raises or ends the alarms of the link.
    fn review(&self, lag: &str, alarms: &mut Alarms) {
        let Self { name, excluded, churning, .. } = self;
        let flapping = *excluded == Some(Exclusion::Flapping);
        if flapping {
            let sentence = format!(
                "port '{name}' goes down and comes up again and again; LAG '{lag}' does without it until it has been quiet for 10 seconds, or no other link \
                 works: look at its cable and at the other end"
            );
            alarms.raise(AlarmKind::LinkFlapping, name, sentence);
        } else {
            alarms.clear(
                AlarmKind::LinkFlapping,
                name,
                &format!("port '{name}' has been quiet for 10 seconds, or there is no other link"),
            );
        }
        match excluded.filter(|_| !flapping).map(exclusion_in_words).or_else(|| churn_in_words(*churning)) {
            Some(reason) => {
                alarms.raise(
                    AlarmKind::LinkExcluded,
                    name,
                    format!("port '{name}' is left out of LAG '{lag}': {reason}"),
                );
            }
            None => alarms.clear(
                AlarmKind::LinkExcluded,
                name,
                &format!("port '{name}' is no longer left out of LAG '{lag}'"),
            ),
        }
    }

    /// Ends the alarms of a link that is none any more.
    fn clear_alarms(&self, alarms: &mut Alarms, sentence: &str) {
        for kind in [AlarmKind::LinkExcluded, AlarmKind::LinkFlapping] {
            alarms.clear(kind, &self.name, sentence);
        }
    }
}

/// The port of a plan that has this number; none: the plan does not have it any more. It need not be in a LAG.
fn port_of(numbers: &BTreeMap<String, u16>, plan: &Plan, number: u16) -> Option<PortIndex> {
    let (name, _) = numbers.iter().find(|(_, known)| **known == number)?;
    let position = plan.ports.iter().position(|port| port.name == *name)?;
    Some(PortIndex(position as u16))
}

/// Why a link is left out, and what to do.
pub(super) fn exclusion_in_words(exclusion: Exclusion) -> String {
    match exclusion {
        Exclusion::OtherPartner { system, key } => format!(
            "it leads to system {system} key {key}, the LAG's other links to another; plug it in where they are, or take it out of the LAG"
        ),
        Exclusion::Speed { megabits } => {
            format!("its speed of {megabits} Mbit/s is not that of the other links; give all links one speed")
        }
        Exclusion::Individual => {
            "the other end does not aggregate it; make it part of the LAG there".to_owned()
        }
        Exclusion::Loopback => {
            "this node hears itself on it; look for a cable or a switch that leads back".to_owned()
        }
        Exclusion::Flapping => "it goes down and comes up again and again".to_owned(),
    }
}

/// Why a link does not come to carry traffic, if it does not: `[actor, partner]` are not in sync.
fn churn_in_words(churning: [bool; 2]) -> Option<String> {
    let reason = match churning {
        [_, true] => {
            "the other end has not agreed for a minute; look whether it speaks LACP and has the link in its LAG"
        }
        [true, false] => "this end has nothing to aggregate it with",
        [false, false] => return None,
    };
    Some(reason.to_owned())
}
