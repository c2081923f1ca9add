//! Ports that stay open while the data plane is built anew around them.
//!
//! ```text
//!   Dataplane ──take_apart──▶ Kept ──retain(plan)──▶ Kept: ports that are the same ──Dataplane::open──▶ Dataplane
//!                                                      the others close
//! ```
//!
//! A port stays if nothing of it changes: its entry in the document, its number of queues, the size of its rings and the pool that it receives
//! into. Its device runs on: a TAP interface keeps its settings, a memif its connection. Frames that come meanwhile wait in its ring.

use sluice_dpdk::{Eal, Mempool, Queues};
use sluice_intent::plan::{Plan, Port};

use super::{Dataplane, OpenPort, Rings, cores, has_huge_pages, memory};
use crate::worker::{Receiver, WorkerQueues};

/// Open ports without workers, and the packet memory that they share. See the [module](self).
#[derive(Default)]
pub(crate) struct Kept {
    // Ports hold their pool: dropped in this order.
    ports: Vec<(OpenPort, Queues)>,
    memory: Option<(Mempool, Rings, u16)>,
}

impl Kept {
    /// The pool that every port receives into; none if there is no port.
    pub(super) fn pool(&self) -> Option<&Mempool> {
        self.memory.as_ref().map(|(pool, ..)| pool)
    }

    /// Whether this port is among them.
    pub(super) fn has(&self, planned: &Port) -> bool {
        self.ports.iter().any(|(open, _)| open.planned == *planned)
    }

    /// Closes every port that a plan does not have just so.
    pub(crate) fn retain(&mut self, eal: &Eal, plan: &Plan, rings: Rings) {
        let fits = self.memory.as_ref().is_some_and(|(pool, old_rings, old_workers)| {
            let workers = cores(plan).map_or(0, |cores| cores.len() as u16);
            *old_rings == rings
                && *old_workers == workers
                && memory::suffices(pool.config(), plan, rings, workers, has_huge_pages(eal))
        });
        let same = |open: &OpenPort| plan.ports.contains(&open.planned);
        let there = |open: &OpenPort| !open.port.link().is_ok_and(|link| link.gone);
        self.ports.retain(|(open, _)| fits && same(open) && there(open));
        if self.ports.is_empty() {
            self.memory = None;
        }
    }

    /// The ports of a plan in its order: those that are kept, and `opened` in between.
    pub(super) fn join(&mut self, plan: &Plan, opened: Vec<(OpenPort, Queues)>) -> Vec<(OpenPort, Queues)> {
        self.memory = None;
        let mut all = std::mem::take(&mut self.ports);
        all.iter_mut().for_each(|(open, _)| open.stayed = true);
        all.extend(opened);
        all.sort_by_key(|(open, _)| plan.ports.iter().position(|planned| *planned == open.planned));
        all
    }
}

impl Dataplane {
    /// Stops the workers and takes their queues back. Nothing is kept where a worker is held up, the core of which is returned: the ports that
    /// it has queues of stay open, and are of no use.
    pub(crate) fn take_apart(mut self) -> (Kept, Option<u16>) {
        let workers = self.cores.len();
        let stopped = match self.stop_workers() {
            Ok(stopped) => stopped,
            Err(core) => return (Kept::default(), Some(core)),
        };
        let mut queues = std::mem::take(&mut self.queues);
        queues.resize_with(self.ports.len(), || Queues { receive: Vec::new(), transmit: Vec::new() });
        collect(stopped, &mut queues);
        let whole = |open: &OpenPort, queues: &Queues| {
            (queues.receive.len(), queues.transmit.len()) == (usize::from(open.queues), workers)
        };
        let ports = std::mem::take(&mut self.ports).into_iter().zip(queues);
        let ports: Vec<_> = ports.filter(|(open, queues)| whole(open, queues)).collect();
        let memory = (!ports.is_empty()).then(|| (self.pool.clone(), self.rings, workers as u16));
        (Kept { ports, memory }, None)
    }
}

/// Puts the workers' queues together by port, in their order.
fn collect(stopped: Vec<WorkerQueues>, ports: &mut [Queues]) {
    for worker in stopped {
        for Receiver { port, queue, .. } in worker.receive {
            if let Some(queues) = ports.get_mut(port.index()) {
                queues.receive.push(queue);
            }
        }
        for (port, queue) in worker.transmit {
            if let Some(queues) = ports.get_mut(port.index()) {
                queues.transmit.push(queue);
            }
        }
    }
    for queues in ports {
        queues.receive.sort_by_key(sluice_dpdk::RxQueue::queue);
        queues.transmit.sort_by_key(sluice_dpdk::TxQueue::queue);
    }
}
