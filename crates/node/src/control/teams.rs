//! Failover teams: which of its uplinks a team is on.
//!
//! A team is on the first of its uplinks that works, and goes back to it when it works again. An uplink that goes down more than three times in ten
//! seconds counts as one that does not work until it has been quiet for ten ([`sluice_protocols::damping`]). A team without any uplink that
//! works stays where it is, so that there is always exactly one.
//!
//! What moved is announced again, so that the switches learn the way. Only the control thread comes here.

use std::collections::BTreeMap;

use sluice_intent::plan::{Plan, PortIndex};
use sluice_protocols::Timestamp;
use sluice_protocols::damping::Damper;

use super::alarms::{AlarmKind, Alarms};
use crate::worker::ActiveMembers;

/// What is known of the ports and LAGs that teams are on, by name.
#[derive(Default)]
pub(super) struct Teams {
    bases: BTreeMap<String, Base>,
    /// Teams that are on another uplink than before, and were not announced yet.
    moved: Vec<PortIndex>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Base {
    up: bool,
    damper: Damper,
}

impl Base {
    fn works(&self) -> bool {
        self.up && !self.damper.is_held()
    }
}

impl Teams {
    /// Takes the teams of a plan, and says on which uplink each is as far as that is known, before any worker has the plan.
    pub(super) fn configure(&mut self, plan: &Plan, active: &ActiveMembers, alarms: &mut Alarms) {
        let used = |name: &str| {
            plan.teams.iter().flat_map(|team| &team.ports).any(|port| plan.port_name(*port) == name)
        };
        self.bases.retain(|name, base| {
            if !used(name) && base.damper.is_held() {
                alarms.clear(AlarmKind::LinkFlapping, name, "no team is on it any more");
            }
            used(name)
        });
        self.place(plan, active);
        self.moved.clear();
    }

    /// A port or LAG came up or went down.
    pub(super) fn link_state(
        &mut self,
        (plan, port): (&Plan, PortIndex),
        up: bool,
        alarms: &mut Alarms,
        now: Timestamp,
    ) {
        if !plan.teams.iter().any(|team| team.ports.contains(&port)) {
            return;
        }
        let name = plan.port_name(port);
        let base = self.bases.entry(name.to_owned()).or_default();
        if base.up && !up {
            base.damper.went_down(now);
        }
        base.up = up;
        if base.damper.is_held() {
            let sentence = format!(
                "uplink port '{name}' goes down and comes up again and again; teamings with another uplink do without it until it has been quiet for 10 \
                 seconds: look at its cable and at the other end"
            );
            alarms.raise(AlarmKind::LinkFlapping, name, sentence);
        }
    }

    /// Lets go of uplinks that are quiet, and puts each team on the first uplink that works.
    pub(super) fn advance(
        &mut self,
        plan: &Plan,
        active: &ActiveMembers,
        alarms: &mut Alarms,
        now: Timestamp,
    ) {
        for (name, base) in self.bases.iter_mut().filter(|(_, base)| base.damper.is_held()) {
            base.damper.advance(now);
            if !base.damper.is_held() {
                let sentence = format!("uplink port '{name}' has been quiet for 10 seconds");
                alarms.clear(AlarmKind::LinkFlapping, name, &sentence);
            }
        }
        self.place(plan, active);
    }

    fn place(&mut self, plan: &Plan, active: &ActiveMembers) {
        for (number, team) in plan.teams.iter().enumerate() {
            let position = plan.lags.len() + number;
            let base = |port: &PortIndex| self.bases.get(plan.port_name(*port));
            let first =
                |what: fn(&Base) -> bool| team.ports.iter().position(|port| base(port).is_some_and(what));
            // An uplink that flaps is worse than another, and better than none.
            let Some(first) = first(Base::works).or_else(|| first(|base| base.up)) else { continue };
            if active.get(position) == 1 << first {
                continue;
            }
            active.set(position, 1 << first);
            self.moved.push(plan.team_port(number));
            let uplink = &plan.uplinks[team.uplinks[first].index()].name;
            tracing::info!(teaming = team.name, uplink, "what follows the teaming is on this uplink now");
        }
    }

    /// Whether any uplink of the team at this position is up.
    pub(super) fn is_up(&self, plan: &Plan, number: usize) -> bool {
        let up = |port: &PortIndex| self.bases.get(plan.port_name(*port)).is_some_and(|base| base.up);
        plan.teams.get(number).is_some_and(|team| team.ports.iter().any(up))
    }

    /// Takes a team that moved.
    pub(super) fn next_moved(&mut self) -> Option<PortIndex> {
        self.moved.pop()
    }
}
