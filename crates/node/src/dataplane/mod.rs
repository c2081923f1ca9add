//! The data plane of a node: its ports, its packet memory and its workers, from start to stop.
//!
//! Owned by the control thread. Opening it takes the plan's ports; starting it hands every worker its queues and its engine. It can be taken
//! apart and built anew around ports that stay open ([`Kept`]): their devices run on meanwhile, with nobody polling them.

mod kept;
mod memory;
mod ports;
mod workers;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use sluice_datapath::neighbor::NeighborTable;
use sluice_datapath::snapshot::{PortFacts, Snapshot};
use sluice_dpdk::{CoreSet, Eal, MemoryBacking, Mempool, MempoolError, Port, PortInfo};
use sluice_intent::plan::{self, Plan, PortIndex, PortKind};
use sluice_wire::MacAddr;

use crate::worker::{ActiveMembers, CycleClock, LogicalPorts, StartError, WorkerQueues};
pub(crate) use kept::Kept;
pub(crate) use workers::{BFD_RING, PUNT_RING, WorkerHandle};

/// Why the data plane could not be opened. Each is one sentence with its remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataplaneError {
    /// A port, or packet memory. The sentence has its cause in it, so that none is told twice.
    #[error("{0}")]
    Device(String),
    /// A core that this machine does not have or this process may not use.
    #[error(
        "dataplane.cores: core {core} does not exist or is not allowed here: the cores of this process are {available}"
    )]
    Core {
        /// The core.
        core: u16,
        /// Those that exist.
        available: String,
    },
    /// Fewer queues than workers.
    #[error(
        "port '{port}' offers {offered} transmit queues, but there are {workers} workers, each of which needs its own: \
         name at most {offered} cores in dataplane.cores, or give the device more queues"
    )]
    Queues {
        /// The port.
        port: String,
        /// Queues of the device.
        offered: u16,
        /// Workers.
        workers: u16,
    },
    /// Too little packet memory for the rings.
    #[error(
        "dataplane.memory-mib: the rings of the ports need {needed} packet buffers, but {memory_mib} MiB hold {available}: \
         set it to at least {remedy_mib}, or use smaller rings"
    )]
    Memory {
        /// Buffers that the rings hold.
        needed: u32,
        /// Buffers that fit.
        available: u32,
        /// Configured memory.
        memory_mib: u32,
        /// Memory that would do.
        remedy_mib: u32,
    },
    /// Memory for the tables of a worker, or its thread.
    #[error("a worker could not be started: {0}; free memory or lower dataplane.flow-cache.size")]
    Worker(String),
    /// The thread of a worker could not be made ready. The sentence has its remedy in it.
    #[error("the worker on core {core} could not be started: {source}")]
    Thread {
        /// The core.
        core: u16,
        /// Why, and what to do.
        source: StartError,
    },
}

impl From<sluice_dpdk::PortError> for DataplaneError {
    fn from(error: sluice_dpdk::PortError) -> Self {
        Self::Device(error.to_string())
    }
}

impl From<MempoolError> for DataplaneError {
    fn from(error: MempoolError) -> Self {
        Self::Device(error.to_string())
    }
}

impl From<std::io::Error> for DataplaneError {
    fn from(error: std::io::Error) -> Self {
        Self::Worker(error.to_string())
    }
}

/// Settings that the CLI may change until the next restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rings {
    pub(crate) rx: u16,
    pub(crate) tx: u16,
}

/// An open port.
pub(crate) struct OpenPort {
    /// What it was opened for.
    planned: plan::Port,
    pub(crate) port: Port,
    pub(crate) info: PortInfo,
    pub(crate) mac: MacAddr,
    /// Receive queues.
    pub(crate) queues: u16,
    /// Whether it was open before the data plane was.
    pub(crate) stayed: bool,
}

/// Ports, packet memory and workers.
pub(crate) struct Dataplane {
    // Workers hold queues, ports hold pools: dropped in this order.
    pub(crate) workers: Vec<WorkerHandle>,
    pub(crate) ports: Vec<OpenPort>,
    /// Of the ports that run, until the workers start.
    queues: Vec<sluice_dpdk::Queues>,
    pub(crate) pool: Mempool,
    pub(crate) cores: Vec<u16>,
    pub(crate) rings: Rings,
    pub(crate) clock: CycleClock,
    /// Ports whose link was last seen down, one bit each, for the workers: why a port takes nothing.
    pub(crate) links_down: Arc<AtomicU32>,
    /// Members of the logical ports that carry traffic.
    pub(crate) active: Arc<ActiveMembers>,
}

impl Dataplane {
    /// Everything that can be told without opening anything: that the cores may be used, that memory suffices, and that what the ports are made
    /// on exists.
    pub(crate) fn check(eal: &Eal, plan: &Plan, rings: Rings) -> Result<(), DataplaneError> {
        let workers = cores(plan)?.len() as u16;
        memory::shared_pool(plan, rings, workers, has_huge_pages(eal))?;
        plan.ports.iter().try_for_each(|port| ports::check(port, workers))
    }

    /// Opens and starts the ports of a plan that are not open yet, for the `restarts`th time, and takes those that are. On failure `kept` is
    /// as before. Nothing is received until [`Self::start`].
    pub(crate) fn open(
        eal: &Eal,
        plan: &Plan,
        rings: Rings,
        restarts: u32,
        kept: &mut Kept,
    ) -> Result<Self, DataplaneError> {
        let cores = cores(plan)?;
        let workers = cores.len() as u16;
        let pool = match kept.pool() {
            Some(pool) => pool.clone(),
            None => {
                let config = memory::shared_pool(plan, rings, workers, has_huge_pages(eal))?;
                Mempool::new(eal, &format!("packets-{restarts}"), config)?
            }
        };
        let mut opened = Vec::new();
        for planned in plan.ports.iter().filter(|planned| !kept.has(planned)) {
            opened.push(ports::open(eal, planned, pool.clone(), rings, workers)?);
        }
        let (ports, queues): (Vec<OpenPort>, _) = kept.join(plan, opened).into_iter().unzip();
        let clock = CycleClock::new(eal.cycles_per_second());
        let is_down = |open: &OpenPort| !open.port.link().is_ok_and(|link| link.up);
        let down = ports.iter().enumerate().filter(|(_, open)| is_down(open));
        let links_down = Arc::new(AtomicU32::new(down.fold(0, |bits, (number, _)| bits | 1 << number)));
        let active = Arc::new(ActiveMembers::new(plan));
        Ok(Self { workers: Vec::new(), ports, queues, pool, cores, rings, clock, links_down, active })
    }

    /// What the plan does not say of the ports.
    pub(crate) fn facts(&self, plan: &Plan) -> Vec<PortFacts> {
        plan.port_indices().map(|port| PortFacts { mac: self.mac(plan, port) }).collect()
    }

    /// The MAC address of a port, physical or logical.
    pub(crate) fn mac(&self, plan: &Plan, port: PortIndex) -> MacAddr {
        let device = || self.ports.get(plan.first_port(port).index()).map(|open| open.mac);
        plan.port_mac(port).or_else(device).unwrap_or_default()
    }

    /// Logical ports for a worker that is to decide with this snapshot.
    pub(crate) fn logical_ports(&self, snapshot: &Snapshot) -> Box<LogicalPorts> {
        Box::new(LogicalPorts::new(snapshot.plan(), Arc::clone(&self.active), snapshot.seed()))
    }

    /// Starts the workers.
    pub(crate) fn start(
        &mut self,
        eal: &Eal,
        snapshot: &Arc<Snapshot>,
        neighbors: &Arc<NeighborTable>,
    ) -> Result<(), DataplaneError> {
        let engines = self.cores.iter().map(|_| Arc::default()).collect();
        let Self { pool, links_down, active, clock, .. } = self;
        let common = workers::Common { pool, links_down, active, clock: *clock, engines: &engines };
        for (position, core) in self.cores.iter().enumerate() {
            let share = |port: &OpenPort| workers::share(port.queues, self.cores.len(), position);
            let polled = self.ports.iter().map(share).sum();
            let handle = workers::start(eal, (position, *core), polled, snapshot, neighbors, &common)?;
            self.workers.push(handle);
        }
        let ports = snapshot.plan().ports.iter().enumerate().zip(std::mem::take(&mut self.queues));
        let running = ports.map(|((number, planned), queues)| {
            (PortIndex(number as u16), matches!(planned.kind, PortKind::Pci { .. }), queues)
        });
        workers::hand_out(&mut self.workers, running);
        Ok(())
    }

    /// A worker that does not go on, as after a call into a driver that does not return.
    pub(crate) fn held_up_worker(&self) -> Option<u16> {
        self.workers.iter().find(|worker| !worker.goes_on()).map(|worker| worker.core)
    }

    /// A worker that ended though nobody told it to.
    pub(crate) fn ended_worker(&self) -> Option<u16> {
        self.workers.iter().find(|worker| worker.has_ended()).map(|worker| worker.core)
    }

    /// Stops the workers and waits for them; the ports close when the data plane is dropped. The core of one that is held up and did not end:
    /// the ports that it has queues of stay open.
    pub(crate) fn stop(&mut self) -> Option<u16> {
        self.stop_workers().err()
    }

    /// The queues that the workers had, or the core of a worker that is held up.
    fn stop_workers(&mut self) -> Result<Vec<WorkerQueues>, u16> {
        let stopped: Vec<_> =
            self.workers.drain(..).map(|mut worker| worker.stop().ok_or(worker.core)).collect();
        stopped.into_iter().collect()
    }
}

impl Drop for Dataplane {
    fn drop(&mut self) {
        self.stop();
    }
}

fn has_huge_pages(eal: &Eal) -> bool {
    matches!(eal.memory_backing(), MemoryBacking::HugePages { .. })
}

/// The workers' cores: those of the document, or half of those that this process may use, from the last one down, so that core 0 is left
/// to the rest of the machine.
fn cores(plan: &Plan) -> Result<Vec<u16>, DataplaneError> {
    let available = CoreSet::available();
    let planned = &plan.dataplane.cores;
    if let Some(core) = planned.iter().find(|core| !available.contains(usize::from(**core))) {
        return Err(DataplaneError::Core { core: *core, available: available.to_string() });
    }
    if !planned.is_empty() {
        return Ok(planned.clone());
    }
    let all = available.as_slice();
    let half = (all.len() / 2).max(1);
    Ok(all[all.len() - half..].iter().map(|core| *core as u16).collect())
}
