//! Which tunnel of a group a flow has for its own.
//!
//! In failover order, by source and by hash the choice follows from the flow alone, so that it is the same on every worker and after every
//! change. By load it depends on the moment: whoever decides remembers it for as long as the flow lives.

use sluice_intent::plan::{Placement, Teaming};

use super::View;
use crate::flow::FlowKey;
use crate::snapshot::tunnel::FromTep;
use crate::snapshot::{IngressKind, TunnelGroup, TunnelGroupId, TunnelId};

/// Makes the choice of a local TEP independent of that of an equal-cost path by the same flow's hash: first digits of the fractional part of
/// the square root of 11.
const LOCAL: u64 = 0x510e_527f_ade6_82d1;
/// The same for remote TEPs, of 13.
const REMOTE: u64 = 0x9b05_688c_2b3e_6c1f;

/// The flow's own tunnel. None only if the group is empty, which no compiled group is.
pub(super) fn own_tunnel(view: View<'_>, key: &FlowKey, id: TunnelGroupId) -> Option<TunnelId> {
    let group = view.snapshot.tunnel_group(id);
    let seed = view.snapshot.seed();
    let by_hash = || group.locals.get(key.way(seed ^ LOCAL, group.locals.len()));
    let from = match group.teaming {
        Teaming::FailoverOrder => group.locals.first(),
        Teaming::SourcePort => by_number(group, source_port(view, key)),
        Teaming::SourceMac => by_number(group, source_mac(key).unwrap_or_else(|| source_port(view, key))),
        Teaming::Group(Placement::Hash) => by_hash(),
        Teaming::Group(Placement::LoadAware) => least_loaded(view, group).or_else(by_hash),
    }?;
    Some(from.tunnel(key.way(seed ^ REMOTE, from.count())))
}

/// One number after the other is on one TEP after the other.
fn by_number(group: &TunnelGroup, number: u64) -> Option<&FromTep> {
    group.locals.get(number.checked_rem(group.locals.len() as u64)? as usize)
}

/// The port and VLAN on which the flow enters the node, where a workload is, otherwise the place where it does.
fn source_port(view: View<'_>, key: &FlowKey) -> u64 {
    match view.snapshot.ingress(key.ingress()).kind {
        IngressKind::Workload { port, vlan, .. } => u64::from(port.0) + u64::from(vlan),
        _ => u64::from(key.ingress().0),
    }
}

/// The source MAC address, where the flow has one.
fn source_mac(key: &FlowKey) -> Option<u64> {
    Some(key.source_mac().to_u64()).filter(|mac| *mac != 0)
}

fn least_loaded<'a>(view: View<'_>, group: &'a TunnelGroup) -> Option<&'a FromTep> {
    let loads = view.loads.filter(|_| group.locals.len() > 1)?;
    let usable = |tep| view.snapshot.tunnel_states().is_tep_usable(tep);
    let least = loads.least(group.locals.iter().map(|from| from.tep).filter(|tep| usable(*tep)))?;
    group.locals.iter().find(|from| from.tep == least)
}
