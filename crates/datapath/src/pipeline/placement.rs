//! Which tunnel of a group a flow has for its own.
//!
//! In failover order, by source and by hash the choice follows from the flow alone, so that it is the same on every worker and after every
//! change. By load it depends on the moment: whoever decides remembers it for as long as the flow lives, also where the decision has to be made
//! again ([`View::kept`]). Where it could not be remembered, the hash decides ([`View::loads`] is none).

use arrayvec::ArrayVec;
use sluice_intent::plan::{MAX_TEPS, Placement, Teaming};

use super::View;
use crate::flow::{self, FlowKey};
use crate::snapshot::tunnel::FromTep;
use crate::snapshot::{IngressKind, TunnelGroup, TunnelGroupId, TunnelId};
use crate::tep_load::{LoadsNow, RemoteLoads};

/// Makes the choice of a local TEP independent of that of an equal-cost path by the same flow's hash: first digits of the fractional part of
/// the square root of 11.
const LOCAL: u64 = 0x510e_527f_ade6_82d1;
/// The same for remote TEPs, of 13.
const REMOTE: u64 = 0x9b05_688c_2b3e_6c1f;
/// Loads below one full packet are none: what remains of a flow that ended long ago decides nothing.
const NONE: f64 = 1_500.0;

/// The flow's own tunnel. None only if the group is empty, which no compiled group is.
pub(super) fn own_tunnel(view: View<'_>, key: &FlowKey, id: TunnelGroupId) -> Option<TunnelId> {
    let group = view.snapshot.tunnel_group(id);
    let seed = view.snapshot.seed();
    let by_hash = || group.locals.get(key.way(seed ^ LOCAL, group.locals.len()));
    let from = match group.teaming {
        Teaming::FailoverOrder => group.locals.first(),
        Teaming::SourcePort => by_source(group, source_port(view, key)),
        Teaming::SourceMac => by_source(group, source_mac(key).unwrap_or_else(|| source_port(view, key))),
        Teaming::Group(Placement::Hash) => by_hash(),
        Teaming::Group(Placement::LoadAware) => {
            if let Some(kept) = kept(view, group) {
                return Some(kept);
            }
            let usable = |id: &TunnelId| view.snapshot.tunnel_states().is_usable(view.snapshot.tunnel(*id));
            let companion = |loads: LoadsNow<'_>| {
                let (group, tunnel) = loads.companion?;
                (group == id).then_some(tunnel).filter(usable)
            };
            let least = |loads| least_loaded(view, loads, key, group);
            match view.loads.and_then(|loads| companion(loads).or_else(|| least(loads))) {
                Some(least) => return Some(least),
                None => by_hash(),
            }
        }
    }?;
    Some(from.tunnel(key.way(seed ^ REMOTE, from.count())))
}

/// The tunnel that a flow which goes on has had so far. Also where that is not usable at the moment: another one stands in for it then, as for
/// flows that were not decided again.
fn kept(view: View<'_>, group: &TunnelGroup) -> Option<TunnelId> {
    let kept = view.kept?;
    group.tunnels().find(|id| {
        let tunnel = view.snapshot.tunnel(*id);
        (tunnel.local, tunnel.remote) == kept
    })
}

/// The same TEP for all with the same hash. VLANs and MAC addresses are given out in steps of any size: their remainders would tell few of them
/// apart.
fn by_source(group: &TunnelGroup, hash: u64) -> Option<&FromTep> {
    group.locals.get(flow::way(hash, group.locals.len()))
}

/// Hash of the port and VLAN on which the flow enters the node, where a workload is. Elsewhere many enter by one place: that of the source.
fn source_port(view: View<'_>, key: &FlowKey) -> u64 {
    match view.snapshot.ingress(key.ingress()).kind {
        IngressKind::Workload { port, vlan, .. } => {
            flow::number_hash(u64::from(port.0) << 16 | u64::from(vlan))
        }
        _ => key.source_hash(),
    }
}

/// Hash of the source MAC address, where the flow has one.
fn source_mac(key: &FlowKey) -> Option<u64> {
    Some(key.source_mac().to_u64()).filter(|mac| *mac != 0).map(flow::number_hash)
}

/// The usable tunnel whose two ends are least loaded together, which is the least loaded local TEP and the least loaded remote one where all
/// pairs are usable; of equals the one that the flow's hash, other on every node, comes to first. None where no tunnel is usable.
fn least_loaded(view: View<'_>, loads: LoadsNow<'_>, key: &FlowKey, group: &TunnelGroup) -> Option<TunnelId> {
    let snapshot = view.snapshot;
    let remotes = RemoteLoads::of(snapshot, group, |pair| loads.of_pair(pair));
    let locals: ArrayVec<f64, MAX_TEPS> = group.locals.iter().map(|from| loads.of_tep(from.tep)).collect();
    let load = |local: usize, id: TunnelId| {
        locals[local].max(NONE) + remotes.get(snapshot.tunnel(id).remote).max(NONE)
    };
    let all = || {
        let of = |(local, from): (usize, &FromTep)| {
            let from = *from;
            (0..from.count()).map(move |position| (local, from.tunnel(position)))
        };
        group.locals.iter().enumerate().flat_map(of)
    };
    let first = key.way(snapshot.seed() ^ LOCAL, all().count());
    let in_turn = all().cycle().skip(first).take(all().count());
    let usable = in_turn.filter(|(_, id)| snapshot.tunnel_states().is_usable(snapshot.tunnel(*id)));
    usable
        .map(|(local, id)| (load(local, id), id))
        .min_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, id)| id)
}
