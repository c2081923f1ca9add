//! Checks what a document means and resolves its names: from the draft to the plan.
//!
//! Each submodule checks one section and returns it in the form of the plan, with a gap wherever it noted a problem or the
//! draft has one. All of them run, whatever the others found. A plan comes out only if there were no problems, and then no list
//! has a gap, so that positions in the draft are positions in the plan.

mod addresses;
mod availability;
mod dataplane;
mod gateways;
mod names;
mod ports;
mod routes;
mod segments;
mod subnets;
mod teamings;
mod tep_groups;
mod teps;
mod transit;
mod uplinks;
mod workloads;

use std::collections::HashSet;

use names::Table;
use teamings::Teaming;

use crate::draft::{Draft, List, Slot};
use crate::plan::Plan;
use crate::problem::{Findings, Path};

/// What every check needs: the draft and the names in it.
struct Scope<'d> {
    draft: &'d Draft,
    ports: Table<'d>,
    lags: Table<'d>,
    uplinks: Table<'d>,
    /// The profile's own teaming, then those with names.
    teamings: Vec<Teaming<'d>>,
    /// Those with names.
    teaming_names: Table<'d>,
    teps: Table<'d>,
    segments: Table<'d>,
    gateways: Table<'d>,
    /// For each gateway, the segments connected to it.
    attached: Vec<Vec<usize>>,
}

impl<'d> Scope<'d> {
    fn new(draft: &'d Draft, findings: &mut Findings) -> Self {
        macro_rules! table {
            ($noun:literal, $section:literal, $list:expr) => {{
                let names = $list.iter().map(|(index, entry)| (index, entry.name.as_str()));
                Table::new($noun, $section, names, &$list.broken_names, $list.incomplete(), findings)
            }};
        }
        // Nothing refers to these by name: their tables are only made to find names that occur twice.
        table!("workload", "workloads", draft.workloads);
        table!("group", "remote-tep-groups", draft.remote_tep_groups);
        let uplinks = table!("uplink", "uplinks", draft.uplinks);
        let teamings = teamings::resolve(draft, &uplinks);
        let mut scope = Self {
            draft,
            ports: table!("port", "ports", draft.ports),
            lags: table!("LAG", "lags", draft.lags),
            teaming_names: teaming_names(draft, &teamings, findings),
            uplinks,
            teamings,
            teps: table!("TEP", "teps", draft.teps),
            segments: table!("segment", "segments", draft.segments),
            gateways: table!("gateway", "gateways", draft.gateways),
            attached: vec![Vec::new(); draft.gateways.len()],
        };
        for (index, segment) in draft.segments.iter() {
            let gateway = segment.gateway.as_ref().and_then(|name| scope.gateways.find(name.as_str()));
            if let Some(gateway) = gateway {
                scope.attached[gateway].push(index);
            }
        }
        scope
    }

    /// The tier-1 gateways linked to the tier-0 at `index`.
    fn linked(&self, index: usize) -> impl Iterator<Item = usize> {
        self.draft.gateways.iter().filter_map(move |(position, gateway)| match &gateway.link {
            Slot::Present(link) if self.gateways.find(link.tier0.as_str()) == Some(index) => Some(position),
            _ => None,
        })
    }

    /// The node's own TEPs by address and position.
    fn local_teps(&self) -> impl Iterator<Item = (usize, std::net::IpAddr)> {
        self.draft.teps.iter().map(|(index, tep)| (index, tep.address.addr()))
    }
}

/// The names of teamings, each once: that none occurs twice is checked with the profile.
fn teaming_names<'d>(draft: &'d Draft, teamings: &[Teaming<'d>], findings: &mut Findings) -> Table<'d> {
    let mut seen = HashSet::new();
    let named = teamings.iter().skip(1).enumerate().map(|(position, teaming)| (position, teaming.name));
    let names = named.filter(|(_, name)| seen.insert(*name));
    let broken = matches!(draft.uplink_profile, Slot::Broken);
    Table::new("teaming", "named-teamings", names, &[], broken, findings)
}

/// Runs every check. A plan comes back only where `findings` is and stays empty.
pub(crate) fn check(draft: &Draft, findings: &mut Findings) -> Option<Plan> {
    let scope = &Scope::new(draft, findings);
    let dataplane = dataplane::check(scope, findings);
    let ports = ports::check(scope, findings);
    let lags = uplinks::check_lags(scope, findings);
    let uplinks = uplinks::check_uplinks(scope, findings);
    let uplink_profile = uplinks::check_profile(scope, findings);
    let teps = teps::check(scope, findings);
    let tep_group = tep_groups::check_own(scope, findings);
    let remote_tep_groups = tep_groups::check_remote(scope, findings);
    let bfd = availability::check_bfd(scope, findings);
    let tep_high_availability = availability::check_teps(scope, findings);
    segments::check_vnis(scope, findings);
    let reach = segments::reach(scope, findings);
    let segments = segments::check(scope, &reach, findings);
    let workloads = workloads::check(scope, &reach, findings);
    let gateways = gateways::check(scope, findings);
    uplinks::check_vlans(scope, findings);
    subnets::check(scope, findings);
    if !findings.is_empty() {
        return None;
    }
    let assemble = || {
        Some(Plan {
            name: draft.name.as_ref()?.to_string(),
            role: draft.role?,
            dataplane: dataplane?,
            ports: complete(ports)?,
            lags: complete(lags)?,
            uplinks: complete(uplinks)?,
            teams: complete(uplinks::teams(scope))?,
            uplink_profile,
            teps: complete(teps)?,
            tep_group,
            remote_tep_groups: complete(remote_tep_groups)?,
            bfd,
            tep_high_availability,
            segments: complete(segments)?,
            workloads: complete(workloads)?,
            gateways: complete(gateways)?,
            router_mac: draft.router_mac?,
        })
    };
    let plan = assemble();
    match &plan {
        Some(plan) => availability::check_capacity(plan, findings),
        None => findings.report(
            Path::root(),
            "a part of the document could not be read, without a reason that could be told",
        ),
    }
    plan.filter(|_| findings.is_empty())
}

/// The list, where it has no gap.
fn complete<T>(list: Vec<Option<T>>) -> Option<Vec<T>> {
    list.into_iter().collect()
}

/// Applies `check` to every entry that could be read, keeping the gaps.
fn each<T, U>(list: &List<T>, mut check: impl FnMut(usize, &T) -> Option<U>) -> Vec<Option<U>> {
    (0..list.len()).map(|index| list.get(index).and_then(|entry| check(index, entry))).collect()
}
