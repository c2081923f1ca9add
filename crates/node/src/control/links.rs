//! Link states of the ports, polled a few dozen times a second, and what follows from a change.

use sluice_intent::plan::{Plan, PortIndex};

use super::neighbors::Neighbors;
use crate::dataplane::Dataplane;

/// The link states that were seen last, by port.
#[derive(Default)]
pub(super) struct Links(Vec<bool>);

impl Links {
    /// Looks at every port, and tells the neighbours what changed.
    pub(super) fn poll(&mut self, dataplane: &Dataplane, plan: &Plan, neighbors: &mut Neighbors) {
        self.0.resize(dataplane.ports.len(), false);
        for (number, (open, seen)) in dataplane.ports.iter().zip(&mut self.0).enumerate() {
            let up = open.port.link().is_ok_and(|link| link.up);
            if up == *seen {
                continue;
            }
            *seen = up;
            let name = plan.ports.get(number).map_or("", |port| port.name.as_str());
            tracing::info!(port = name, link = if up { "up" } else { "down" }, "link state");
            neighbors.link_state(PortIndex(number as u16), up, dataplane.clock);
        }
    }

    /// Whether the port's link was up when last seen.
    pub(super) fn is_up(&self, port: PortIndex) -> bool {
        self.0.get(port.index()).copied().unwrap_or(false)
    }
}
