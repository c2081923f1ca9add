//! LAGs and the host switch.

use serde::Serialize;
use sluice_control::{HostSwitch, HostTeaming, HostTep, HostUplink, Lag, LagLink, LagPartner, LagRefusal};
use sluice_intent::plan::{self, PortIndex, TeamingPolicy, UplinkIndex};
use sluice_protocols::Timestamp;
use sluice_protocols::lacp::{MuxState, PortView, ReceiveState, Selected};

use super::ports::{carrier, encapsulation, state};
use super::{Node, running};
use crate::control::lags::exclusion_in_words;
use crate::control::neighbors::timestamp;

pub(super) fn lags(node: &Node) -> anyhow::Result<Vec<Lag>> {
    let running = running(node)?;
    let now = timestamp(running.clock);
    let lag = |(position, planned): (usize, &plan::Lag)| {
        let (view, refusals, key, names) = node.lags.view(&planned.name)?;
        let name = |number: &u16| names.get(number).map_or_else(String::new, |name| (*name).to_owned());
        let refused = refusals.iter().filter(|(_, frames)| *frames > 0);
        Some(Lag {
            name: planned.name.clone(),
            state: state(view.up),
            mode: word(&planned.activity),
            timeout: word(&planned.timeout),
            load_balancing: word(&planned.load_balancing),
            min_links: planned.min_links,
            mac: running.mac(&node.plan, node.plan.lag_port(position)).to_string(),
            system: node.lags.system().unwrap_or_default().to_string(),
            key,
            partner: view.partner.map(|partner| LagPartner {
                system: partner.system.to_string(),
                priority: partner.system_priority,
                key: partner.key,
            }),
            links: view.ports.iter().map(|port| link(port, name(&port.port), now)).collect(),
            refused: refused
                .map(|(reason, frames)| LagRefusal { reason: reason.to_string(), frames })
                .collect(),
        })
    };
    Ok(node.plan.lags.iter().enumerate().filter_map(lag).collect())
}

fn link(view: &PortView, port: String, now: Timestamp) -> LagLink {
    let receive = match view.receive {
        ReceiveState::PortDisabled => "port-disabled",
        ReceiveState::Expired => "expired",
        ReceiveState::Defaulted => "defaulted",
        ReceiveState::Current => "current",
    };
    let mux = match view.mux {
        MuxState::Detached => "detached",
        MuxState::Waiting => "waiting",
        MuxState::Attached => "attached",
        MuxState::CollectingDistributing => "collecting-distributing",
    };
    let selected = match view.selected {
        Selected::Unselected => "unselected",
        Selected::Selected => "selected",
        Selected::Standby => "standby",
    };
    let counters = view.counters;
    LagLink {
        port,
        link: state(view.megabits.is_some()),
        active: view.active,
        receive: receive.to_owned(),
        mux: mux.to_owned(),
        selected: selected.to_owned(),
        reason: view.exclusion.map_or_else(String::new, exclusion_in_words),
        partner_system: view.partner.system.to_string(),
        partner_key: view.partner.key,
        partner_port: view.partner.port,
        last_received_s: view.last_received.map(|last| now.since(last).as_secs()),
        sent: counters.sent,
        received: counters.received,
        other_partner: counters.other_partner,
        loopbacks: counters.loopbacks,
        markers: counters.markers,
        markers_withheld: counters.markers_withheld,
        activations: counters.activations,
        deactivations: counters.deactivations,
    }
}

/// A value as in the node document.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

pub(super) fn host_switch(node: &Node) -> anyhow::Result<HostSwitch> {
    running(node)?;
    let plan = &node.plan;
    let profile = plan.uplink_profile.as_ref();
    let teamings =
        profile.iter().flat_map(|profile| std::iter::once(&profile.teaming).chain(&profile.named_teamings));
    Ok(HostSwitch {
        node: plan.name.clone(),
        encap: encapsulation(profile.map(|profile| profile.encapsulation).unwrap_or_default()),
        transport_vlan: profile.and_then(|profile| profile.transport_vlan).map(|vlan| vlan.get()),
        mtu: profile.and_then(|profile| profile.mtu),
        uplinks: plan
            .uplinks
            .iter()
            .filter(|uplink| !plan.is_team(uplink.port))
            .map(|uplink| host_uplink(node, uplink))
            .collect(),
        teamings: teamings.map(|teaming| host_teaming(node, teaming)).collect(),
        teps: plan.teps.iter().map(|tep| host_tep(node, tep)).collect(),
    })
}

fn host_uplink(node: &Node, uplink: &plan::Uplink) -> HostUplink {
    let plan = &node.plan;
    let (links, active) = match plan.logical_port(uplink.port) {
        Some(logical) => {
            let position = uplink.port.index() - plan.ports.len();
            let active = node.dataplane.as_ref().map_or(0, |running| running.active.get(position));
            (logical.members().to_vec(), active)
        }
        None => (vec![uplink.port], u32::from(node.links.is_up(uplink.port))),
    };
    let name = |port: &PortIndex| plan.port_name(*port).to_owned();
    let carries = |(position, _): &(usize, &PortIndex)| active & (1 << *position) != 0;
    HostUplink {
        name: uplink.name.clone(),
        port: plan.port_name(uplink.port).to_owned(),
        active_links: links.iter().enumerate().filter(carries).map(|(_, port)| name(port)).collect(),
        links: links.iter().map(name).collect(),
        mtu: plan.port_mtu(uplink.port),
        state: state(node.links.is_up(uplink.port)),
    }
}

fn host_teaming(node: &Node, teaming: &plan::UplinkTeaming) -> HostTeaming {
    let plan = &node.plan;
    let name = |uplink: &UplinkIndex| plan.uplinks[uplink.index()].name.clone();
    let works = |uplink: &&UplinkIndex| node.links.is_up(plan.uplinks[uplink.index()].port);
    // A team knows better: it does without an uplink that flaps.
    let team =
        plan.teams.iter().position(|team| team.name == teaming.name).map(|number| plan.team_port(number));
    let uplink = match (team, teaming.policy) {
        (Some(team), _) if node.links.is_up(team) => uplink_of(node, team),
        (None, TeamingPolicy::FailoverOrder) => {
            teaming.active.iter().chain(&teaming.standby).find(works).map_or_else(String::new, name)
        }
        _ => String::new(),
    };
    HostTeaming {
        name: teaming.name.clone(),
        policy: word(&teaming.policy),
        active: teaming.active.iter().map(name).collect(),
        standby: teaming.standby.iter().map(name).collect(),
        uplink,
    }
}

fn host_tep(node: &Node, tep: &plan::Tep) -> HostTep {
    let uplink = &node.plan.uplinks[tep.uplink.index()];
    let teaming = if node.plan.is_team(uplink.port) { uplink.name.clone() } else { String::new() };
    HostTep {
        name: tep.name.clone(),
        address: tep.address.to_string(),
        uplink: uplink_of(node, uplink.port),
        teaming,
        vlan: tep.vlan.map(|vlan| vlan.get()),
        mtu: tep.mtu,
        state: state(node.links.is_up(uplink.port)),
    }
}

/// The uplink on a port, or the one that a team is on now.
pub(super) fn uplink_of(node: &Node, port: PortIndex) -> String {
    let on = carrier(node, port);
    let uplink = node.plan.uplinks.iter().find(|uplink| uplink.port == on);
    uplink.map_or_else(String::new, |uplink| uplink.name.clone())
}
