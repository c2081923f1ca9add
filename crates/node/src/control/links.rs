//! Link states of the ports, polled every few milliseconds, and what follows from a change: LAGs and teams do without a member that is down, TEPs
//! on a link that is down are left at once, the neighbours there are asked for again. Each change is logged once.
//!
//! ```text
//! physical port ─→ LAG ─→ team ─→ TEPs, neighbours
//!        └────────────────────────────↑
//! ```

use std::sync::atomic::Ordering;

use sluice_datapath::snapshot::Snapshot;
use sluice_intent::plan::{LogicalPort, Plan, PortIndex, PortKind};

use super::alarms::{AlarmKind, Alarms};
use super::lags::Lags;
use super::neighbors::{Neighbors, timestamp};
use super::teams::Teams;
use super::teps::Teps;
use crate::dataplane::{Dataplane, OpenPort};

/// Megabits a second of a link whose speed nobody knows: links of a LAG have one speed, and all that are alike have this one.
const SOME_SPEED: u32 = 10_000;

/// Link states by port, logical ports behind the physical ones.
#[derive(Default)]
pub(super) struct Links {
    /// Those that were seen last; none: not seen yet.
    seen: Vec<Option<bool>>,
    /// Those that were told; none: nothing was told yet of what is on the port.
    told: Vec<Option<bool>>,
}

/// Who is told of a link.
pub(super) struct Listeners<'a> {
    pub(super) lags: &'a mut Lags,
    pub(super) teams: &'a mut Teams,
    pub(super) teps: &'a mut Teps,
    pub(super) neighbors: &'a mut Neighbors,
}

impl Links {
    /// Looks at every port, and tells LAGs, teams, TEPs and neighbours what changed.
    pub(super) fn poll(&mut self, dataplane: &Dataplane, snapshot: &Snapshot, listeners: &mut Listeners<'_>) {
        let plan = snapshot.plan();
        self.seen.resize(plan.port_count(), None);
        if self.told.is_empty() {
            end_alarms_of_others(plan, &mut listeners.teps.alarms);
        }
        self.told.resize(plan.port_count(), None);
        for (number, open) in dataplane.ports.iter().enumerate() {
            let port = PortIndex(number as u16);
            let link = open.port.link().ok();
            let up = link.is_some_and(|link| link.up);
            if self.seen[number].replace(up) != Some(up) {
                note(dataplane, number, up, link.is_some_and(|link| link.gone));
            }
            if self.told[number].replace(up) == Some(up) {
                continue;
            }
            review_uplinks(plan, port, up, &mut listeners.teps.alarms);
            if plan.lag_of(port).is_some() {
                let megabits = up.then(|| speed(open, plan, port));
                let (alarms, now) = (&mut listeners.teps.alarms, timestamp(dataplane.clock));
                listeners.lags.link_state((plan, port), megabits, &dataplane.active, alarms, now);
            } else {
                listeners.tell(port, up, snapshot, dataplane);
            }
        }
        self.poll_logical(dataplane, snapshot, listeners);
        while let Some(team) = listeners.teams.next_moved() {
            listeners.neighbors.announce(team, dataplane.clock);
        }
    }

    /// LAGs, and then teams, which they may be in.
    fn poll_logical(&mut self, dataplane: &Dataplane, snapshot: &Snapshot, listeners: &mut Listeners<'_>) {
        let (plan, now) = (snapshot.plan(), timestamp(dataplane.clock));
        for port in plan.port_indices().skip(plan.ports.len()) {
            let position = port.index() - plan.ports.len();
            let alarms = &mut listeners.teps.alarms;
            let logical = plan.logical_port(port);
            let up = match logical {
                Some(LogicalPort::Lag(lag)) => listeners.lags.is_up(lag, now),
                Some(LogicalPort::Team(_)) => {
                    let number = position - plan.lags.len();
                    if number == 0 {
                        listeners.teams.advance(plan, &dataplane.active, alarms, now);
                    }
                    Some(listeners.teams.is_up(plan, number))
                }
                None => None,
            };
            let Some(up) = up else { continue };
            let name = plan.port_name(port);
            if self.seen[port.index()].replace(up) != Some(up) {
                tracing::info!(port = name, link = if up { "up" } else { "down" }, "link state");
                if let Some(LogicalPort::Lag(lag)) = logical {
                    listeners.lags.note_state(lag, up, alarms);
                }
            }
            if self.told[port.index()].replace(up) != Some(up) {
                listeners.tell(port, up, snapshot, dataplane);
            }
        }
    }

    /// Tells everything again, since a new document may have other things on each port. Where its logical ports are others too, these are looked
    /// at anew.
    pub(super) fn follow(&mut self, old: &Plan, new: &Plan) {
        if (&old.lags, &old.teams) != (&new.lags, &new.teams) {
            self.seen.truncate(new.ports.len());
        }
        self.told.clear();
    }

    /// Whether the port's link was up when last seen.
    pub(super) fn is_up(&self, port: PortIndex) -> bool {
        self.seen.get(port.index()) == Some(&Some(true))
    }
}

impl Listeners<'_> {
    /// Tells of a port that things may be on: one that is in no LAG.
    fn tell(&mut self, port: PortIndex, up: bool, snapshot: &Snapshot, dataplane: &Dataplane) {
        let clock = dataplane.clock;
        let alarms = &mut self.teps.alarms;
        self.teams.link_state((snapshot.plan(), port), up, alarms, timestamp(clock));
        // First the TEPs: what went through them is turned elsewhere before its next hop is lost.
        self.teps.link_state(port, up, snapshot, clock);
        self.neighbors.link_state(port, up, clock);
    }
}

/// Ends the alarms of uplinks that the plan does not have.
fn end_alarms_of_others(plan: &Plan, alarms: &mut Alarms) {
    let of_uplinks = alarms.open().filter(|(kind, ..)| *kind == AlarmKind::UplinkDown);
    let gone = of_uplinks.filter(|(_, name, _)| !plan.uplinks.iter().any(|uplink| uplink.name == *name));
    let gone: Vec<String> = gone.map(|(_, name, _)| name.to_owned()).collect();
    for name in gone {
        alarms.clear(AlarmKind::UplinkDown, &name, "the node no longer has the uplink");
    }
}

/// Raises or ends the alarm of each uplink that is this port. Those that are LAGs have alarms of their own.
fn review_uplinks(plan: &Plan, port: PortIndex, up: bool, alarms: &mut Alarms) {
    for uplink in plan.uplinks.iter().filter(|uplink| uplink.port == port) {
        let name = &uplink.name;
        if up {
            alarms.clear(AlarmKind::UplinkDown, name, &format!("uplink '{name}' is up again"));
        } else {
            let sentence = format!(
                "uplink '{name}' is down, since the link of port '{}' is; what can takes other uplinks: look at its cable and at the other end",
                plan.port_name(port)
            );
            alarms.raise(AlarmKind::UplinkDown, name, sentence);
        }
    }
}

/// Says in the log, and tells the workers, that the link of a physical port changed.
fn note(dataplane: &Dataplane, number: usize, up: bool, gone: bool) {
    let name = dataplane.ports[number].port.name();
    if gone {
        let remedy = "make it again, then 'restart service dataplane'";
        tracing::warn!(port = name, link = "down", remedy, "link state: the interface is gone");
    } else {
        tracing::info!(port = name, link = if up { "up" } else { "down" }, "link state");
    }
    let bit = 1 << number;
    if up {
        dataplane.links_down.fetch_and(!bit, Ordering::Relaxed);
    } else {
        dataplane.links_down.fetch_or(bit, Ordering::Relaxed);
    }
}

/// Speed of a link that is up in megabits a second. Only drivers of network cards know it.
fn speed(open: &OpenPort, plan: &Plan, port: PortIndex) -> u32 {
    let known = || open.port.link().ok().and_then(|link| link.megabits_per_second);
    match plan.ports[port.index()].kind {
        PortKind::Pci { .. } => known().unwrap_or(SOME_SPEED),
        _ => SOME_SPEED,
    }
}
