//! TEP groups: the node's own, and those of other nodes.

use std::collections::HashMap;

use super::addresses::{family, require_routable};
use super::{Scope, each, teps};
use crate::draft::Slot;
use crate::plan::{self, MAX_TEP_GROUP};
use crate::problem::{Findings, Path};

/// The node's own group: TEPs enough to choose from, and not too many.
pub(super) fn check_own(scope: &Scope<'_>, findings: &mut Findings) -> Option<plan::TepGroup> {
    let Slot::Present(group) = &scope.draft.tep_group else { return None };
    let path = || Path::root().field("tep-group");
    let of_family = |v4: bool| scope.local_teps().filter(|(_, address)| address.is_ipv4() == v4).count();
    let counts = [(of_family(true), "IPv4"), (of_family(false), "IPv6")];
    if counts.iter().all(|(count, _)| *count < 2) && !scope.teps.incomplete() {
        let message = "a group needs two TEPs of one family to choose from; add TEPs, or remove the group";
        findings.report(path(), message);
    }
    for (count, family) in counts.iter().filter(|(count, _)| *count > MAX_TEP_GROUP) {
        let message = format!(
            "the group has {count} {family} TEPs, and a group has at most {MAX_TEP_GROUP}; remove some"
        );
        findings.report(path(), message);
    }
    if group.rebalance && group.placement != plan::Placement::LoadAware {
        let message = "flows are moved by their load; set placement to 'load-aware', or remove this";
        findings.report(path().field("rebalance"), message);
    }
    Some(plan::TepGroup { id: group.id, placement: group.placement, rebalance: group.rebalance })
}

/// The groups of other nodes: no address twice, none of this node's, each group of one family.
pub(super) fn check_remote(scope: &Scope<'_>, findings: &mut Findings) -> Vec<Option<plan::RemoteTepGroup>> {
    let mut groups = HashMap::new();
    each(&scope.draft.remote_tep_groups, |index, group| {
        for (position, address) in group.teps.iter().enumerate() {
            let path = Path::entry("remote-tep-groups", index).field("teps").index(position);
            if !require_routable(*address, &path, findings) {
                continue;
            }
            let first = groups.entry(*address).or_insert_with(|| group.name.to_string());
            let again = group.teps[..position].contains(address);
            let message = if again || *first != group.name.as_str() {
                let whose = if again { "this group".to_owned() } else { format!("group '{first}'") };
                format!("{address} is already a TEP of {whose}; give each TEP once")
            } else if let Some((local, _)) = scope.local_teps().find(|(_, local)| local == address) {
                let own = teps::named(scope, local);
                format!("{address} is the address of this node's own {own}; give the TEPs of another node")
            } else if group.teps[0].is_ipv4() != address.is_ipv4() {
                let (this, first) = (family(*address), family(group.teps[0]));
                format!(
                    "{address} is {this}, but the group begins with {first}; give one group for each family"
                )
            } else {
                continue;
            };
            findings.report(path, message);
        }
        Some(plan::RemoteTepGroup { name: group.name.to_string(), teps: group.teps.clone() })
    })
}
