//! Which tunnel the flows of a rewrite had for their own, also when the rewrite has gone.
//!
//! A flow cache entry names a use of a slot in the [table](super::table). When that has ended, with a neighbour, a next hop or a new snapshot,
//! its flows are decided again; those that were placed by load keep their TEPs then ([`crate::pipeline`]). So the latest two uses of each
//! slot are remembered, and those of the snapshot before: a flow is forgotten that sends nothing while its slot is used twice more, or two
//! snapshots come.

use std::net::IpAddr;
use std::sync::Arc;

use super::table::RewriteRef;
use super::{Egress, Rewrite};
use crate::snapshot::{Snapshot, Tunnel, TunnelId};

/// The local and the remote TEP of a tunnel: what it is known by in every snapshot.
pub(crate) type TepAddresses = (IpAddr, IpAddr);

/// A use of a slot and the tunnel that its flows had for their own.
#[derive(Clone, Copy)]
struct Use {
    epoch: u32,
    own: Option<TunnelId>,
}

/// What is remembered of the uses of slots; see the [module](self).
pub(super) struct Uses {
    /// The latest two of each slot, the last one first.
    slots: Vec<[Use; 2]>,
    before: Option<Before>,
}

/// What remains of the snapshot before.
struct Before {
    slots: Vec<[Use; 2]>,
    tunnels: Arc<[Tunnel]>,
}

impl Uses {
    /// None yet, with memory for so many slots.
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: Vec::with_capacity(slots), before: None }
    }

    /// Takes note of a use that begins, or whose tunnel has changed.
    pub(super) fn begin(&mut self, index: usize, epoch: u32, rewrite: &Rewrite) {
        let own = match rewrite.egress {
            Egress::Tunnel { own, .. } => Some(own),
            Egress::Port { .. } => None,
        };
        let latest = Use { epoch, own };
        match self.slots.get_mut(index) {
            Some([last, _]) if last.epoch == epoch => *last = latest,
            Some(uses) => *uses = [latest, uses[0]],
            None => self.slots.push([latest, Use { epoch, own: None }]),
        }
    }

    /// The TEPs of the tunnel that the flows of a use had for their own.
    pub(super) fn own_teps(&self, reference: RewriteRef, snapshot: &Snapshot) -> Option<TepAddresses> {
        let now = own(&self.slots, reference).map(|own| snapshot.tunnel(own));
        let before = || {
            let before = self.before.as_ref()?;
            before.tunnels.get(own(&before.slots, reference)?.0 as usize)
        };
        let tunnel = now.or_else(before)?;
        Some((tunnel.local, tunnel.remote))
    }

    /// Takes over from those of another snapshot, that with these tunnels. What that one had from the one before it stays there.
    pub(super) fn succeed(&mut self, other: &mut Self, tunnels: Arc<[Tunnel]>) {
        self.before = Some(Before { slots: std::mem::take(&mut other.slots), tunnels });
    }
}

fn own(slots: &[[Use; 2]], reference: RewriteRef) -> Option<TunnelId> {
    let uses = slots.get(reference.index())?;
    uses.iter().find(|one| one.epoch == reference.epoch())?.own
}
