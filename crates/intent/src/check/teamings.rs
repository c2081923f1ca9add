//! Which uplinks carry what: teamings resolved before anything is checked, so that every check may ask.
//!
//! Positions of uplinks are those of the document; behind them comes one for each failover team that something uses. A *base* is
//! what an uplink of the document is on: the position of a port, or behind those that of a LAG.

use sluice_wire::VlanId;

use super::Scope;
use super::names::Table;
use crate::document::{Interface, Tep, UplinkProfile};
use crate::draft::{Draft, Slot};
use crate::plan::{DEFAULT_TEAMING, Encapsulation, TeamingPolicy};

/// A teaming, as far as its uplinks are known.
pub(super) struct Teaming<'d> {
    pub(super) name: &'d str,
    pub(super) policy: TeamingPolicy,
    pub(super) active: Vec<usize>,
    pub(super) standby: Vec<usize>,
    /// Position among the uplinks of the team that it makes; none if nothing uses it, or there is nothing to fail over to.
    pub(super) team: Option<usize>,
}

impl Teaming<'_> {
    /// The uplinks in the order in which they take over.
    pub(super) fn order(&self) -> impl Iterator<Item = usize> {
        self.active.iter().chain(&self.standby).copied()
    }

    /// The uplink, or the team, that carries what one uplink at a time is to carry.
    fn carrier(&self) -> Option<usize> {
        self.team.or_else(|| self.order().next())
    }
}

/// The profile's own teaming, then those with names; empty without a profile that could be read.
pub(super) fn resolve<'d>(draft: &'d Draft, uplinks: &Table<'d>) -> Vec<Teaming<'d>> {
    let Slot::Present(profile) = &draft.uplink_profile else { return Vec::new() };
    let named = profile.named_teamings.iter().map(|named| (named.name.as_str(), named.teaming()));
    let all = std::iter::once((DEFAULT_TEAMING, profile.teaming.clone())).chain(named);
    let mut next = draft.uplinks.len();
    all.enumerate()
        .map(|(position, (name, teaming))| {
            let known = |names: &[crate::document::Name]| {
                names.iter().filter_map(|name| uplinks.find(name.as_str())).collect::<Vec<_>>()
            };
            let (active, standby) = (known(&teaming.active), known(&teaming.standby));
            let used = if position == 0 { has_free_teps(draft) } else { has_interfaces(draft, name) };
            let makes_team =
                used && teaming.policy == TeamingPolicy::FailoverOrder && active.len() + standby.len() > 1;
            let team = makes_team.then_some(next);
            next += usize::from(makes_team);
            Teaming { name, policy: teaming.policy, active, standby, team }
        })
        .collect()
}

fn has_free_teps(draft: &Draft) -> bool {
    draft.teps.iter().any(|(_, tep)| tep.uplink.is_none())
}

fn has_interfaces(draft: &Draft, teaming: &str) -> bool {
    let mut interfaces =
        draft.gateways.iter().flat_map(|(_, gateway)| gateway.interfaces.iter().map(|(_, one)| one));
    interfaces.any(|interface| interface.teaming.as_ref().is_some_and(|name| name.as_str() == teaming))
}

impl<'d> Scope<'d> {
    /// The uplink profile, where there is one that could be read.
    pub(super) fn profile(&self) -> Option<&'d UplinkProfile> {
        match &self.draft.uplink_profile {
            Slot::Present(profile) => Some(profile),
            Slot::Absent | Slot::Broken => None,
        }
    }

    /// The teaming of a name that the document gives.
    pub(super) fn teaming(&self, name: &str) -> Option<&Teaming<'d>> {
        self.teamings.iter().skip(1).find(|teaming| teaming.name == name)
    }

    /// The uplink that carries the TEP at `index`, or the team: the one that it names, or what the profile's teaming says.
    pub(super) fn uplink_of_tep(&self, index: usize, tep: &Tep) -> Option<usize> {
        if let Some(name) = &tep.uplink {
            return self.uplinks.find(name.as_str());
        }
        let teaming = self.teamings.first()?;
        if teaming.policy == TeamingPolicy::FailoverOrder {
            return teaming.carrier();
        }
        let before = self.draft.teps.iter().take_while(|(position, _)| *position < index);
        let number = before.filter(|(_, tep)| tep.uplink.is_none()).count();
        teaming.active.get(number.checked_rem(teaming.active.len())?).copied()
    }

    /// The uplink that carries a tier-0 interface, or the team.
    pub(super) fn uplink_of_interface(&self, interface: &Interface) -> Option<usize> {
        match (&interface.uplink, &interface.teaming) {
            (Some(name), _) => self.uplinks.find(name.as_str()),
            (None, Some(name)) => self.teaming(name.as_str())?.carrier(),
            (None, None) => None,
        }
    }

    /// The VLAN of a TEP: its own, or the transport VLAN of the profile; none if it is untagged.
    pub(super) fn vlan_of_tep(&self, tep: &Tep) -> Option<VlanId> {
        let transport = || self.profile().and_then(|profile| profile.transport_vlan);
        tep.vlan.or_else(transport).filter(|vlan| !vlan.is_untagged())
    }

    /// The encapsulation of a segment: its own, or that of the profile.
    pub(super) fn encapsulation(&self, own: Option<Encapsulation>) -> Encapsulation {
        own.or_else(|| self.profile().map(|profile| profile.encapsulation)).unwrap_or_default()
    }

    /// The team whose uplink stands at this position, behind those of the document.
    fn team_at(&self, uplink: usize) -> Option<&Teaming<'d>> {
        self.teamings.iter().find(|teaming| teaming.team == Some(uplink))
    }

    /// Whether what is on `own` is carried by the uplink of the document at `uplink`, now or in case another fails.
    pub(super) fn shares_uplink(&self, own: usize, uplink: usize) -> bool {
        own == uplink || self.team_at(own).is_some_and(|team| team.order().any(|member| member == uplink))
    }

    /// What is said of an uplink: its name, or that of its teaming.
    pub(super) fn uplink_name(&self, uplink: usize) -> &'d str {
        match self.team_at(uplink) {
            Some(team) => team.name,
            None => self.draft.uplinks.get(uplink).map_or("", |uplink| uplink.name.as_str()),
        }
    }

    /// What an uplink is on, of a team what each of its uplinks is on.
    pub(super) fn bases(&self, uplink: usize) -> Vec<usize> {
        let base = |uplink: usize| {
            let port = self.draft.uplinks.get(uplink)?.port.as_str();
            let lag = || self.lags.find(port).map(|lag| self.draft.ports.len() + lag);
            self.ports.find(port).or_else(lag)
        };
        match self.team_at(uplink) {
            Some(team) => team.order().filter_map(base).collect(),
            None => base(uplink).into_iter().collect(),
        }
    }

    /// What is said of a base, and its MTU: that of a LAG is that of its ports.
    pub(super) fn describe_base(&self, base: usize) -> Option<(String, u16)> {
        if let Some(port) = self.draft.ports.get(base) {
            return Some((format!("port '{}'", port.name), port.mtu));
        }
        let lag = self.draft.lags.get(base.checked_sub(self.draft.ports.len())?)?;
        let mut ports = lag.ports.iter().filter_map(|name| self.ports.find(name.as_str()));
        let mtu = ports.find_map(|port| self.draft.ports.get(port))?.mtu;
        Some((format!("LAG '{}'", lag.name), mtu))
    }

    /// The smallest MTU among what an uplink is on, and what has it.
    pub(super) fn mtu_of_uplink(&self, uplink: usize) -> Option<(String, u16)> {
        let bases = self.bases(uplink);
        bases.into_iter().filter_map(|base| self.describe_base(base)).min_by_key(|(_, mtu)| *mtu)
    }

    /// The MTU of the TEP at `index`: its own, that of the profile, or the most that its uplink carries.
    pub(super) fn mtu_of_tep(&self, index: usize, tep: &Tep) -> Option<u16> {
        let profile = || self.profile().and_then(|profile| profile.mtu);
        let uplink = || self.uplink_of_tep(index, tep).and_then(|uplink| self.mtu_of_uplink(uplink));
        tep.mtu.or_else(profile).or_else(|| uplink().map(|(_, mtu)| mtu))
    }
}
