//! A new document: validated first, then taken whole or not at all.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;

use sluice_control::Applied;
use sluice_datapath::snapshot::{PortFacts, Snapshot};
use sluice_intent::plan::{HugePages, Plan, PortKind};

use super::node::{Closing, Node, Setup, compile, in_force};
use crate::dataplane::Rings;

/// Reads a document, puts it in force, and waits until every worker decides by it. Where it is refused the log says so. What takes long with a large
/// document runs beside the control thread, which goes on to send what others wait for.
pub(super) async fn apply(
    node: &RefCell<Node>,
    read: impl FnOnce() -> anyhow::Result<Plan> + Send + 'static,
) -> anyhow::Result<Applied> {
    let plan = tokio::task::spawn_blocking(read).await?.map(Arc::new);
    let applied = match plan {
        Ok(plan) => take(node, plan).await,
        Err(error) => Err(error),
    };
    let mut applied = applied.inspect_err(|error| refused(&node.borrow(), error))?;
    let behind = in_force(node, applied.generation).await;
    applied.changes.extend(behind.iter().map(|core| {
        format!("the worker on core {core} has not taken it: it does not go on; end sluiced and start it again if it stays so")
    }));
    Ok(applied)
}

/// Compiles a checked document beside the control thread, where the data plane does not have to be started for it, and takes it.
async fn take(node: &RefCell<Node>, plan: Arc<Plan>) -> anyhow::Result<Applied> {
    loop {
        let wanted = node.borrow().compilation(&plan)?;
        let Some(wanted) = wanted else { return node.borrow_mut().start_with(plan) };
        let base = wanted.base;
        let snapshot = tokio::task::spawn_blocking(move || wanted.run()).await??;
        let mut node = node.borrow_mut();
        // Another document came, or the data plane was restarted, while this one was compiled.
        if node.base() == base {
            return Ok(node.take(snapshot));
        }
    }
}

/// A compilation that is to be done.
struct Compilation {
    plan: Arc<Plan>,
    facts: Vec<PortFacts>,
    /// What it follows.
    base: Base,
}

/// What a snapshot is compiled for: the generation before it, and how often the data plane was started by then.
type Base = (u64, u32);

impl Compilation {
    fn run(self) -> anyhow::Result<Arc<Snapshot>> {
        compile(&self.plan, &self.facts, self.base.0 + 1)
    }
}

/// Says in the log that a document was refused.
fn refused(node: &Node, error: &anyhow::Error) {
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
    /// What is to be compiled for a document that is swapped under the workers; none where the data plane has to be started for it: what concerns ports,
    /// cores, rings, the size of tables or the numbers of logical ports, and where it does not run.
    fn compilation(&self, plan: &Arc<Plan>) -> anyhow::Result<Option<Compilation>> {
        if plan.name != self.plan.name {
            anyhow::bail!(
                "the document is for node '{}' and this node is '{}'; apply it there, or start sluiced with it",
                plan.name,
                self.plan.name
            );
        }
        self.fixed.check(plan)?;
        let running = self.dataplane.as_ref().filter(|_| !needs_restart(&self.plan, plan));
        Ok(running.map(|dataplane| Compilation {
            plan: Arc::clone(plan),
            facts: dataplane.facts(plan),
            base: self.base(),
        }))
    }

    fn base(&self) -> Base {
        (self.snapshot.generation(), self.restarts)
    }

    /// Hands a compiled document to the workers, who lose no packet for it.
    fn take(&mut self, snapshot: Arc<Snapshot>) -> Applied {
        let (generation, plan) = (snapshot.generation(), Arc::clone(snapshot.plan_arc()));
        let changes = differences(&self.plan, &plan);
        let flow_cache = plan.dataplane.flow_cache.enabled;
        if flow_cache != self.plan.dataplane.flow_cache.enabled {
            self.set_flow_cache(flow_cache);
        }
        self.install(snapshot);
        Applied { generation, changes }
    }

    /// Starts the workers anew with a checked document, and opens the ports that changed. On failure everything stays as it was. A data plane that
    /// does not run is started.
    fn start_with(&mut self, plan: Arc<Plan>) -> anyhow::Result<Applied> {
        let mut changes = differences(&self.plan, &plan);
        let (generation, flow_cache) = (self.snapshot.generation() + 1, plan.dataplane.flow_cache.enabled);
        changes.push(
            match self.dataplane {
                Some(_) => "the data plane was restarted, since ports, LAGs, teamings, cores, rings or tables changed",
                None => "the data plane, which did not run, was started",
            }
            .to_owned(),
        );
        let rings = Rings { rx: plan.dataplane.rx_ring_size, tx: plan.dataplane.tx_ring_size };
        let setup = Setup { plan, rings, flow_cache, profile: self.profile, generation };
        self.reopen(&setup, Closing::Changed)?;
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
    old.ports != new.ports || fixed(old) != fixed(new) || renumbered(old, new)
}

/// Whether a LAG or team has a number that another one had: neighbours and sessions are known by the numbers of ports.
fn renumbered(old: &Plan, new: &Plan) -> bool {
    let logical = |plan: &Plan| plan.port_indices().skip(plan.ports.len());
    logical(old)
        .zip(logical(new))
        .any(|(old_port, new_port)| old.port_name(old_port) != new.port_name(new_port))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    /// A node with a teaming by the name of `default-teaming`, and more.
    fn plan(lags: &str, named: &str) -> Plan {
        let port =
            |name| format!("  - {{name: {name}, kind: memif, socket: /run/{name}.sock, role: server}}\n");
        let ports: String = ["p0", "p1", "p2", "p3"].map(port).concat();
        let teaming = "policy: failover-order, active: [uplink-1], standby: [uplink-2]";
        let document = format!(
            "version: 1\nname: edge-1\nrole: edge\nports:\n{ports}{lags}uplinks:\n  - {{name: uplink-1, port: p0}}\n  - {{name: uplink-2, port: p1}}\n\
             uplink-profile:\n  teaming: {{{teaming}}}\n{named}teps:\n  - {{name: tep-1, address: 172.16.1.10/24}}\n"
        )
        .replace("TEAMING", teaming);
        sluice_intent::parse(&document, "node.yaml")
            .unwrap_or_else(|problems| panic!("{problems}\n{document}"))
    }

    #[test]
    fn what_gives_a_logical_port_another_number_needs_a_restart() {
        let lag = "lags:\n  - {name: lag-1, ports: [p2, p3]}\n";
        let north = "  named-teamings:\n    - {name: north, TEAMING}\n";
        let [plain, named, lagged] = [plan("", ""), plan("", north), plan(lag, "")];
        assert!(!needs_restart(&plain, &named) && !needs_restart(&named, &plain), "it is behind the others");
        assert!(needs_restart(&plain, &lagged), "LAGs are before teamings");
        assert!(!needs_restart(&plain, &plain));
    }
}
