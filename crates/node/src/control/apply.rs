//! A new document: validated first, then taken whole or not at all.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;

use sluice_control::Applied;
use sluice_intent::plan::{HugePages, Plan, PortKind};

use super::node::{Closing, Node, Setup, compile, in_force};
use crate::dataplane::Rings;

/// Puts a checked document in force, and waits until every worker decides by it. Where it is refused the log says so.
pub(super) async fn apply(node: &RefCell<Node>, plan: Plan) -> anyhow::Result<Applied> {
    let applied = node.borrow_mut().apply(plan);
    let mut applied = applied.inspect_err(|error| refused(&node.borrow(), error))?;
    let behind = in_force(node, applied.generation).await;
    applied.changes.extend(behind.iter().map(|core| {
        format!("the worker on core {core} has not taken it: it does not go on; end sluiced and start it again if it stays so")
    }));
    Ok(applied)
}

/// Says in the log that a document was refused.
pub(super) fn refused(node: &Node, error: &anyhow::Error) {
    let state = match node.dataplane {
        Some(_) => "nothing has changed",
        None => "the data plane does not run",
    };
    tracing::error!("the document was refused, {state}: {error:#}");
}

/// What packet I/O takes from the document once, when the process starts.
pub(super) struct Fixed {
    memory_mib: u32,
    huge_pages: HugePages,
    pci: Vec<String>,
}

impl Fixed {
    pub(super) fn of(plan: &Plan) -> Self {
        let pci = |kind: &PortKind| match kind {
            PortKind::Pci { address } => Some(address.clone()),
            _ => None,
        };
        Self {
            memory_mib: plan.dataplane.memory_mib,
            huge_pages: plan.dataplane.huge_pages,
            pci: plan.ports.iter().filter_map(|port| pci(&port.kind)).collect(),
        }
    }

    /// Refuses a document that needs another process.
    fn check(&self, plan: &Plan) -> anyhow::Result<()> {
        let wanted = Self::of(plan);
        let mut differ = Vec::new();
        if wanted.memory_mib != self.memory_mib {
            differ.push(format!("dataplane.memory-mib ({} here)", self.memory_mib));
        }
        if wanted.huge_pages != self.huge_pages {
            differ.push(format!("dataplane.huge-pages ('{}' here)", word(self.huge_pages)));
        }
        differ.extend(
            wanted.pci.iter().filter(|address| !self.pci.contains(address)).map(|address| {
                format!("the PCI device {address} (not among the ports that it started with)")
            }),
        );
        if differ.is_empty() {
            return Ok(());
        }
        anyhow::bail!(
            "what a process takes when it starts cannot change while it runs: {}; nothing has changed: end sluiced and start it again \
             with this document",
            differ.join(", ")
        )
    }
}

/// As in the document.
fn word(huge_pages: HugePages) -> &'static str {
    match huge_pages {
        HugePages::Auto => "auto",
        HugePages::Required => "required",
        HugePages::Off => "off",
    }
}

impl Node {
    /// Hands a checked document to the workers. What concerns the logical network is swapped under them without losing a packet; what concerns
    /// ports, cores, rings or the size of tables starts the workers anew and opens the ports that changed. On failure everything stays as it
    /// was. A data plane that does not run is started.
    fn apply(&mut self, plan: Plan) -> anyhow::Result<Applied> {
        let plan = Arc::new(plan);
        let mut changes = differences(&self.plan, &plan);
        if plan.name != self.plan.name {
            anyhow::bail!(
                "the document is for node '{}' and this node is '{}'; apply it there, or start sluiced with it",
                plan.name,
                self.plan.name
            );
        }
        self.fixed.check(&plan)?;
        let (generation, flow_cache) = (self.snapshot.generation() + 1, plan.dataplane.flow_cache.enabled);
        match &self.dataplane {
            Some(dataplane) if !needs_restart(&self.plan, &plan) => {
                let snapshot = compile(&plan, dataplane, generation)?;
                if flow_cache != self.plan.dataplane.flow_cache.enabled {
                    self.set_flow_cache(flow_cache);
                }
                self.install(snapshot);
            }
            running => {
                let said = match running {
                    Some(_) => "the data plane was restarted, since ports, cores, rings or tables changed",
                    None => "the data plane, which did not run, was started",
                };
                let rings = Rings { rx: plan.dataplane.rx_ring_size, tx: plan.dataplane.tx_ring_size };
                let setup = Setup { plan, rings, flow_cache, profile: self.profile, generation };
                self.reopen(&setup, Closing::Changed)?;
                changes.push(said.to_owned());
            }
        }
        Ok(Applied { generation, changes })
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
    part("lags", compare(&old.lags, &new.lags, |lag| &lag.name));
    part("uplinks", compare(&old.uplinks, &new.uplinks, |uplink| &uplink.name));
    part("uplink-profile", (0, 0, usize::from(old.uplink_profile != new.uplink_profile)));
    part("teps", compare(&old.teps, &new.teps, |tep| &tep.name));
    part("tep-group", (0, 0, usize::from(old.tep_group != new.tep_group)));
    part("remote-tep-groups", compare(&old.remote_tep_groups, &new.remote_tep_groups, |group| &group.name));
    part("bfd", (0, 0, usize::from(old.bfd != new.bfd)));
    let high_availability = old.tep_high_availability != new.tep_high_availability;
    part("tep-high-availability", (0, 0, usize::from(high_availability)));
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
