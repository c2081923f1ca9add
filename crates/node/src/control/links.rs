//! Link states of the ports, polled every few milliseconds, and what follows from a change: TEPs on a link that is down are left at once, the
//! neighbours there are asked for again. Each change is logged once.

use std::sync::atomic::Ordering;

use sluice_datapath::snapshot::Snapshot;
use sluice_intent::plan::PortIndex;

use super::neighbors::Neighbors;
use super::teps::Teps;
use crate::dataplane::Dataplane;

/// The link states that were seen last, by port; none: not seen yet.
#[derive(Default)]
pub(super) struct Links(Vec<Option<bool>>);

impl Links {
    /// Looks at every port, and tells TEPs and neighbours what changed.
    pub(super) fn poll(
        &mut self,
        dataplane: &Dataplane,
        snapshot: &Snapshot,
        teps: &mut Teps,
        neighbors: &mut Neighbors,
    ) {
        self.0.resize(dataplane.ports.len(), None);
        for (number, (open, seen)) in dataplane.ports.iter().zip(&mut self.0).enumerate() {
            let link = open.port.link().ok();
            let up = link.is_some_and(|link| link.up);
            if seen.replace(up) == Some(up) {
                continue;
            }
            let port = open.port.name();
            if link.is_some_and(|link| link.gone) {
                let remedy = "make it again, then 'restart service dataplane'";
                tracing::warn!(port, link = "down", remedy, "link state: the interface is gone");
            } else {
                tracing::info!(port, link = if up { "up" } else { "down" }, "link state");
            }
            let bit = 1 << number;
            if up {
                dataplane.links_down.fetch_and(!bit, Ordering::Relaxed);
            } else {
                dataplane.links_down.fetch_or(bit, Ordering::Relaxed);
            }
            // First the TEPs: what went through them is turned elsewhere before its next hop is lost.
            teps.link_state(PortIndex(number as u16), up, snapshot, dataplane.clock);
            neighbors.link_state(PortIndex(number as u16), up, dataplane.clock);
        }
    }

    /// Whether the port's link was up when last seen.
    pub(super) fn is_up(&self, port: PortIndex) -> bool {
        self.0.get(port.index()) == Some(&Some(true))
    }
}
