//! A new document: validated first, then taken whole or not at all.

use std::fmt::Debug;
use std::sync::Arc;

use sluice_control::Applied;
use sluice_intent::plan::Plan;

use super::node::{Node, compile};
use crate::dataplane::Rings;

impl Node {
    /// Puts a checked document in force. What concerns the logical network is swapped under the running workers without losing a packet; what
    /// concerns ports, cores or memory closes the ports and opens them again. On failure everything stays as it was.
    pub(super) fn apply(&mut self, plan: Plan) -> anyhow::Result<Applied> {
        let plan = Arc::new(plan);
        let mut changes = differences(&self.plan, &plan);
        if plan.name != self.plan.name {
            anyhow::bail!(
                "the document is for node '{}' and this node is '{}'; apply it there, or start sluiced with it",
                plan.name,
                self.plan.name
            );
        }
        if needs_restart(&self.plan, &plan) {
            let rings = Rings { rx: plan.dataplane.rx_ring_size, tx: plan.dataplane.tx_ring_size };
            self.restart(&plan, rings, plan.dataplane.flow_cache.enabled)?;
            changes.push("the data plane was restarted, since ports, cores or memory changed".to_owned());
        } else if let Some(dataplane) = &self.dataplane {
            let snapshot = compile(&plan, dataplane, self.snapshot.generation() + 1)?;
            let enabled = plan.dataplane.flow_cache.enabled;
            if enabled != self.plan.dataplane.flow_cache.enabled {
                self.set_flow_cache(enabled);
            }
            self.install(snapshot);
        }
        Ok(Applied { generation: self.snapshot.generation(), changes })
    }
}

/// Whether the change concerns what only a restart of the data plane can change.
fn needs_restart(old: &Plan, new: &Plan) -> bool {
    let fixed = |plan: &Plan| {
        let mut dataplane = plan.dataplane.clone();
        dataplane.flow_cache.enabled = true;
        dataplane
    };
    old.ports != new.ports || fixed(old) != fixed(new)
}

/// What is different, one sentence for each part of the document.
fn differences(old: &Plan, new: &Plan) -> Vec<String> {
    let mut changes = Vec::new();
    let mut part = |what: &str, (added, removed, changed): (usize, usize, usize)| {
        let counts = [(added, "added"), (removed, "removed"), (changed, "changed")];
        let said: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, verb)| format!("{count} {verb}"))
            .collect();
        if !said.is_empty() {
            changes.push(format!("{what}: {}", said.join(", ")));
        }
    };
    part("ports", compare(&old.ports, &new.ports, |port| &port.name));
    part("uplinks", compare(&old.uplinks, &new.uplinks, |uplink| &uplink.name));
    part("teps", compare(&old.teps, &new.teps, |tep| &tep.name));
    part("segments", compare(&old.segments, &new.segments, |segment| &segment.name));
    part("workloads", compare(&old.workloads, &new.workloads, |workload| &workload.name));
    part("gateways", compare(&old.gateways, &new.gateways, |gateway| &gateway.name));
    part("dataplane", (0, 0, usize::from(old.dataplane != new.dataplane)));
    part("router-mac", (0, 0, usize::from(old.router_mac != new.router_mac)));
    part("role", (0, 0, usize::from(old.role != new.role)));
    changes
}

/// Items added, removed and changed, told apart by name.
fn compare<T: PartialEq + Debug>(
    old: &[T],
    new: &[T],
    name: impl Fn(&T) -> &String,
) -> (usize, usize, usize) {
    let before: std::collections::HashMap<&String, &T> = old.iter().map(|item| (name(item), item)).collect();
    let kept: Vec<bool> =
        new.iter().filter_map(|item| before.get(name(item)).map(|old| *old == item)).collect();
    (new.len() - kept.len(), old.len() - kept.len(), kept.iter().filter(|same| !**same).count())
}
