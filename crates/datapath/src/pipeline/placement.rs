//! Which tunnel of a group a flow has for its own.
//!
//! By hash the choice follows from the flow alone, so that it is the same on every worker and after every change. By load it depends on
//! the moment: whoever decides remembers it for as long as the flow lives.

use sluice_intent::plan::Placement;

use super::View;
use crate::flow::FlowKey;
use crate::snapshot::{TunnelGroupId, TunnelId};

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
    let from = match (group.placement, view.loads) {
        (Placement::LoadAware, Some(loads)) if group.locals.len() > 1 => {
            let usable = |tep| view.snapshot.tunnel_states().is_tep_usable(tep);
            let least = loads.least(group.locals.iter().map(|from| from.tep).filter(|tep| usable(*tep)));
            least.and_then(|tep| group.locals.iter().find(|from| from.tep == tep)).or_else(by_hash)
        }
        _ => by_hash(),
    }?;
    Some(from.tunnel(key.way(seed ^ REMOTE, from.count())))
}
