//! The Selection logic: which ports form the aggregate, and which of them stand by (IEEE 802.1AX-2014 §6.4.14).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sluice_wire::lacp::LacpState;

use super::port::Port;
use super::{Exclusion, LagConfig, Partner, Selected};

/// What the links of an aggregate have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) partner: Partner,
    megabits: u32,
    /// The port, where its other end does not let it be aggregated.
    individual: Option<u16>,
}

impl Group {
    /// The group that the port would belong to; `None` while its other end is not known.
    fn of(port: &Port) -> Option<Self> {
        let megabits = port.megabits.filter(|_| port.is_eligible())?;
        let partner = Partner {
            system_priority: port.partner.system_priority,
            system: port.partner.system,
            key: port.partner.key,
        };
        let aggregatable = port.partner.state.contains(LacpState::AGGREGATION);
        Some(Self { partner, megabits, individual: (!aggregatable).then_some(port.config.port) })
    }

    /// Why a port of this group is not in the aggregate of `chosen`.
    fn exclusion(&self, chosen: &Self) -> Exclusion {
        if self.partner != chosen.partner {
            Exclusion::OtherPartner { system: self.partner.system, key: self.partner.key }
        } else if self.megabits != chosen.megabits {
            Exclusion::Speed { megabits: self.megabits }
        } else {
            Exclusion::Individual
        }
    }
}

/// Chooses the aggregate and selects its ports. Returns whether any port's selection changed.
pub(super) fn select(config: &LagConfig, ports: &mut [Port], aggregate: &mut Option<Group>) -> bool {
    let mut groups = BTreeMap::<Group, Vec<usize>>::new();
    // A link that flaps is worse than another, and better than none.
    let spared = ports.iter().any(|port| !port.is_damped() && Group::of(port).is_some());
    for (index, port) in ports.iter().enumerate() {
        if let Some(group) = Group::of(port).filter(|_| !(spared && port.is_damped())) {
            groups.entry(group).or_default().push(index);
        }
    }
    for (group, members) in &mut groups {
        members.sort_by_key(|index| rank(config, &group.partner, &ports[*index]));
    }
    *aggregate = choose(config, ports, &groups, *aggregate);
    let members = aggregate.as_ref().and_then(|group| groups.get(group)).map_or(&[][..], Vec::as_slice);
    let mut changed = false;
    for (index, port) in ports.iter_mut().enumerate() {
        let wanted = match members.iter().position(|member| *member == index) {
            None => Selected::Unselected,
            Some(place) if place < config.max_links => Selected::Selected,
            Some(_) => Selected::Standby,
        };
        port.exclusion = match (Group::of(port), aggregate.as_ref()) {
            _ if port.is_looped() => Some(Exclusion::Loopback),
            _ if port.is_damped() && wanted == Selected::Unselected => Some(Exclusion::Flapping),
            (Some(group), Some(chosen)) if group != *chosen => Some(group.exclusion(chosen)),
            _ => None,
        };
        // What was unselected for a change of its partner has to be detached before it is selected again.
        let detaching = port.selected == Selected::Unselected && port.mux != super::MuxState::Detached;
        if port.selected != wanted && !detaching {
            port.selected = wanted;
            changed = true;
        }
    }
    changed
}

/// The aggregate that is: the one that it was while a port of it is attached, else the one with the most bandwidth.
fn choose(
    config: &LagConfig,
    ports: &[Port],
    groups: &BTreeMap<Group, Vec<usize>>,
    aggregate: Option<Group>,
) -> Option<Group> {
    let attached =
        |index: &usize| ports[*index].is_attached() && ports[*index].selected != Selected::Unselected;
    let kept =
        aggregate.filter(|group| groups.get(group).is_some_and(|members| members.iter().any(attached)));
    kept.or_else(|| {
        let best = groups.iter().max_by_key(|(group, members)| {
            let links = members.len().min(config.max_links) as u64;
            let first = members.first().map(|index| rank(config, &group.partner, &ports[*index]));
            (links * u64::from(group.megabits), links, Reverse(first))
        });
        best.map(|(group, _)| *group)
    })
}

/// The order of ports where there are more than may be used: by the priority that the deciding system gives them (§6.4.14
/// has both ends come to one order).
fn rank(config: &LagConfig, partner: &Partner, port: &Port) -> (u16, u16, u16) {
    let ours = (config.system_priority, config.system);
    let decider = if ours <= (partner.system_priority, partner.system) { &port.actor } else { &port.partner };
    (decider.port_priority, decider.port, port.config.port)
}
