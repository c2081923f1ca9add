//! TEP groups, BFD sessions and alarms.

use std::collections::HashMap;
use std::net::IpAddr;

use sluice_control::{Alarm, BfdRefusal, BfdSession, BfdSessions, TnTep, TnTepGroup};
use sluice_datapath::snapshot::Snapshot;
use sluice_intent::plan::{Placement, Plan, Tep, TepIndex, Tier};
use sluice_protocols::bfd::SessionView;
use sluice_protocols::tep_health::Health;

use super::ports::encapsulation;
use super::{Node, running};
use crate::control::faults::reason_of_tep;
use crate::control::neighbors::timestamp;

/// A pair of TEPs, and whether tunnels between them are used.
struct Pair {
    local: IpAddr,
    remote: IpAddr,
    usable: bool,
}

/// The pairs of a snapshot. All tunnels of a pair are alike in what matters here.
fn pairs(snapshot: &Snapshot) -> Vec<Pair> {
    let mut pairs: Vec<Option<Pair>> = snapshot.tep_pairs().iter().map(|_| None).collect();
    for tunnel in snapshot.tunnels() {
        pairs[tunnel.pair.index()].get_or_insert_with(|| Pair {
            local: tunnel.local,
            remote: tunnel.remote,
            usable: snapshot.tunnel_states().is_usable(tunnel),
        });
    }
    pairs.into_iter().flatten().collect()
}

fn count<'a>(pairs: impl Iterator<Item = &'a Pair>) -> (u32, u32) {
    pairs.fold((0, 0), |(all, usable), pair| (all + 1, usable + u32::from(pair.usable)))
}

pub(super) fn groups(node: &Node) -> anyhow::Result<Vec<TnTepGroup>> {
    let now = timestamp(running(node)?.clock);
    let plan = &node.plan;
    let pairs = pairs(&node.snapshot);
    let own = |tep: &Tep| {
        let address = tep.address.addr();
        let (pairs, pairs_usable) = count(pairs.iter().filter(|pair| pair.local == address));
        let view = node.teps.health_of(&tep.name);
        let state = match view.map_or(Health::Healthy, |view| view.health) {
            Health::Healthy => "healthy",
            Health::Suspect => "suspect",
            Health::Faulty(_) => "faulty",
        };
        let reason = view.as_ref().map_or("", reason_of_tep);
        let retry = view.and_then(|view| view.retry);
        TnTep {
            name: tep.name.clone(),
            address,
            state: state.to_owned(),
            reason: reason.to_owned(),
            retry_s: retry.map(|retry| retry.since(now).as_secs()),
            pairs,
            pairs_usable,
        }
    };
    let remote = |address: IpAddr| {
        let (pairs, pairs_usable) = count(pairs.iter().filter(|pair| pair.remote == address));
        let state = if pairs_usable > 0 { "up" } else { "down" };
        TnTep {
            name: String::new(),
            address,
            state: state.to_owned(),
            reason: String::new(),
            retry_s: None,
            pairs,
            pairs_usable,
        }
    };
    let placement = |placement: Placement| match placement {
        Placement::Hash => "hash".to_owned(),
        Placement::LoadAware => "load-aware".to_owned(),
    };
    let mut groups = Vec::new();
    if !plan.teps.is_empty() {
        groups.push(TnTepGroup {
            node: plan.name.clone(),
            local: true,
            id: plan.tep_group.map(|group| group.id),
            placement: plan.tep_group.map(|group| placement(group.placement)),
            teps: plan.teps.iter().map(own).collect(),
        });
    }
    let other =
        |node: String, teps: Vec<TnTep>| TnTepGroup { node, local: false, id: None, placement: None, teps };
    for group in &plan.remote_tep_groups {
        groups.push(other(group.name.clone(), group.teps.iter().copied().map(remote).collect()));
    }
    let grouped = |address| plan.remote_tep_groups.iter().any(|group| group.teps.contains(&address));
    let mut alone: Vec<_> = pairs.iter().map(|pair| pair.remote).filter(|remote| !grouped(*remote)).collect();
    alone.sort();
    alone.dedup();
    groups.extend(alone.into_iter().map(|address| other(String::new(), vec![remote(address)])));
    Ok(groups)
}

/// The interface that has an address, with its gateway, as `t0/to-router`.
fn interface_of(plan: &Plan, address: IpAddr) -> String {
    let interfaces = plan.gateways.iter().filter_map(|gateway| match &gateway.tier {
        Tier::Tier0 { interfaces, .. } => Some((gateway, interfaces)),
        Tier::Tier1 { .. } => None,
    });
    let mut all = interfaces.flat_map(|(gateway, all)| all.iter().map(move |interface| (gateway, interface)));
    let found = all.find(|(_, interface)| interface.addresses.iter().any(|own| own.addr() == address));
    found.map_or_else(String::new, |(gateway, interface)| format!("{}/{}", gateway.name, interface.name))
}

pub(super) fn bfd_sessions(node: &Node) -> anyhow::Result<BfdSessions> {
    let now = timestamp(running(node)?.clock);
    let plan = &node.plan;
    // There are thousands of sessions.
    let local = |tep: TepIndex| plan.teps[tep.index()].address.addr();
    let pairs: HashMap<_, _> =
        node.snapshot.tep_pairs().iter().map(|pair| ((local(pair.tep), pair.remote), pair)).collect();
    let session = |(view, usable): (SessionView, bool)| {
        let path = view.path;
        let tep = plan.teps.iter().position(|tep| tep.address.addr() == path.local);
        let pair = pairs.get(&(path.local, path.remote)).filter(|_| tep.is_some());
        let milliseconds = |duration: std::time::Duration| duration.as_millis() as u64;
        BfdSession {
            tep: tep.map_or_else(|| interface_of(plan, path.local), |tep| plan.teps[tep].name.clone()),
            local: path.local,
            remote: path.remote,
            encap: pair.map_or_else(String::new, |pair| encapsulation(pair.encapsulation)),
            state: view.state.to_string(),
            since_s: now.since(view.since).as_secs(),
            remote_state: view.remote_state.to_string(),
            diagnostic: view.diagnostic.to_string(),
            remote_diagnostic: view.remote_diagnostic.to_string(),
            local_discriminator: view.local_discriminator,
            remote_discriminator: view.remote_discriminator,
            transmit_interval_ms: view.transmit_interval.map(milliseconds),
            detection_time_ms: view.detection_time.map(milliseconds),
            sent: view.counters.sent,
            received: view.counters.received,
            ups: view.counters.ups,
            downs: view.counters.downs,
            usable,
        }
    };
    let refused = node.teps.refusals();
    let refused = refused.iter().filter(|(_, packets)| *packets > 0);
    Ok(BfdSessions {
        sessions: node.teps.sessions().map(session).collect(),
        refused: refused
            .map(|(reason, packets)| BfdRefusal { reason: reason.to_string(), packets })
            .collect(),
    })
}

pub(super) fn alarms(node: &Node) -> Vec<Alarm> {
    let alarm =
        |(kind, object, open): (crate::control::alarms::AlarmKind, &str, &crate::control::alarms::Alarm)| {
            Alarm {
                kind: kind.name().to_owned(),
                object: object.to_owned(),
                since_s: open.since.elapsed().as_secs(),
                description: open.description.clone(),
            }
        };
    node.teps.alarms.open().map(alarm).collect()
}
