//! The state of a node and what changes it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_datapath::counters::{LogicalCounters, Traffic};
use sluice_datapath::engine::Installation;
use sluice_datapath::neighbor::NeighborTable;
use sluice_datapath::snapshot::Snapshot;
use sluice_dpdk::Eal;
use sluice_intent::plan::Plan;

use super::apply::Fixed;
use super::capture::Captures;
use super::links::Links;
use super::neighbors::Neighbors;
use crate::dataplane::{Dataplane, Rings};
use crate::worker::{Command, Retired};

/// Ticks between two looks at the links and whether the workers go on.
const LINK_TICKS: u32 = 20;
/// Between two looks at whether a snapshot is in force.
const GLANCE: Duration = Duration::from_millis(1);

/// Packets and bytes that a tunnel carried under snapshots that are gone.
pub(super) type TunnelTotals = HashMap<(u32, IpAddr), (u64, u64)>;

/// A node.
pub(super) struct Node {
    pub(super) eal: Eal,
    pub(super) plan: Arc<Plan>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) neighbors: Neighbors,
    pub(super) links: Links,
    pub(super) captures: Captures,
    // After everything that may hold packets: its pool is freed last.
    pub(super) dataplane: Option<Dataplane>,
    /// Rings after the next restart.
    pub(super) next_rings: Rings,
    /// Whether decisions are cached, as last set.
    pub(super) flow_cache: bool,
    pub(super) retired_tunnels: TunnelTotals,
    pub(super) started: Instant,
    /// Samples of the previous `get dataplane cpu stats`, by core.
    pub(super) cpu_samples: HashMap<u16, super::answers::CpuSample>,
    /// What of the document holds for as long as the process runs.
    pub(super) fixed: Fixed,
    restarts: u32,
    ticks: u32,
}

impl Node {
    /// Opens the ports of a plan and starts forwarding.
    pub(super) fn start(eal: Eal, plan: Plan) -> anyhow::Result<Self> {
        let rings = Rings { rx: plan.dataplane.rx_ring_size, tx: plan.dataplane.tx_ring_size };
        let plan = Arc::new(plan);
        let mut dataplane = Dataplane::open(&eal, &plan, rings, 0)?;
        let snapshot = compile(&plan, &dataplane, 1)?;
        let mut neighbors = Neighbors::new(seed(&plan.name));
        neighbors.configure(&snapshot, &dataplane);
        dataplane.start(&eal, &snapshot, &Arc::new(NeighborTable::default()))?;
        log_ports(&dataplane);
        Ok(Self {
            fixed: Fixed::of(&plan),
            flow_cache: plan.dataplane.flow_cache.enabled,
            links: Links::default(),
            captures: Captures::default(),
            retired_tunnels: TunnelTotals::new(),
            started: Instant::now(),
            cpu_samples: HashMap::new(),
            restarts: 0,
            ticks: 0,
            next_rings: rings,
            dataplane: Some(dataplane),
            eal,
            plan,
            snapshot,
            neighbors,
        })
    }

    /// Looks at the rings from the workers and the timers.
    pub(super) fn tick(&mut self) {
        let Some(dataplane) = &mut self.dataplane else { return };
        let now = Instant::now();
        for (number, worker) in dataplane.workers.iter_mut().enumerate() {
            while let Ok(retired) = worker.retired.pop() {
                if let Retired::Installation(replaced) = retired {
                    let (snapshot, logical) = replaced.settle();
                    add_totals(&mut self.retired_tunnels, &snapshot, &logical);
                }
            }
            // Bounded, so that a flood of punted packets cannot keep the control thread from its timers.
            for _ in 0..crate::dataplane::PUNT_RING {
                let Ok(punted) = worker.punts.pop() else { break };
                self.neighbors.punted(number, punted, dataplane.clock);
            }
        }
        self.ticks = self.ticks.wrapping_add(1);
        dataplane.connect_clients(now);
        if self.ticks.is_multiple_of(LINK_TICKS) {
            dataplane.workers.iter_mut().for_each(|worker| worker.advance(now));
            self.links.poll(dataplane, &mut self.neighbors);
        }
        self.neighbors.advance(dataplane);
        self.captures.collect(dataplane);
    }

    /// Makes every worker decide with a new snapshot from its next batch on. [`in_force`] waits until all do.
    pub(super) fn install(&mut self, snapshot: Arc<Snapshot>) {
        self.plan = Arc::clone(snapshot.plan_arc());
        self.snapshot = snapshot;
        let Some(dataplane) = &mut self.dataplane else { return };
        for worker in &mut dataplane.workers {
            let logical = Arc::new(LogicalCounters::new(&self.snapshot));
            worker.logical = Arc::clone(&logical);
            let installation = Installation::new(Arc::clone(&self.snapshot), logical);
            worker.deliver(Command::Install(Box::new(installation)));
        }
        self.neighbors.configure(&self.snapshot, dataplane);
    }

    /// Turns the flow cache of every worker on or off.
    pub(super) fn set_flow_cache(&mut self, enabled: bool) {
        self.flow_cache = enabled;
        if let Some(dataplane) = &mut self.dataplane {
            for worker in &mut dataplane.workers {
                worker.deliver(Command::EnableFlowCache(enabled));
            }
        }
    }

    /// Closes all ports and opens those of `plan`. On failure those that were open are opened again, and nothing has changed.
    pub(super) fn restart(&mut self, plan: &Arc<Plan>, rings: Rings, flow_cache: bool) -> anyhow::Result<()> {
        if let Some(core) = self.dataplane.as_ref().and_then(Dataplane::held_up_worker) {
            anyhow::bail!(
                "the worker on core {core} does not go on, a device holds it up most likely, so its ports cannot be closed; nothing has \
                 changed: end sluiced and start it again"
            );
        }
        let old_rings = self.dataplane.as_ref().map_or(rings, |dataplane| dataplane.rings);
        let (old_plan, old_flow_cache) = (Arc::clone(&self.plan), self.flow_cache);
        self.close();
        if let Err(error) = self.open(plan, rings, flow_cache) {
            self.open(&old_plan, old_rings, old_flow_cache).map_err(|second| {
                anyhow::anyhow!(
                    "{error:#}; and the ports that were open could not be opened again: {second:#}"
                )
            })?;
            return Err(error);
        }
        Ok(())
    }

    /// Closes everything, but for the worker on this core and what it has, if a device holds one up.
    fn close(&mut self) -> Option<u16> {
        self.captures.stop();
        self.neighbors.forget();
        let left = self.dataplane.take().and_then(|mut dataplane| dataplane.stop());
        self.cpu_samples.clear();
        self.retired_tunnels.clear();
        left
    }

    fn open(&mut self, plan: &Arc<Plan>, rings: Rings, flow_cache: bool) -> anyhow::Result<()> {
        self.restarts += 1;
        let mut dataplane = Dataplane::open(&self.eal, plan, rings, self.restarts)?;
        let snapshot = compile(plan, &dataplane, self.snapshot.generation() + 1)?;
        self.neighbors.configure(&snapshot, &dataplane);
        dataplane.start(&self.eal, &snapshot, self.neighbors.table())?;
        log_ports(&dataplane);
        self.links = Links::default();
        self.next_rings = rings;
        self.dataplane = Some(dataplane);
        self.plan = Arc::clone(plan);
        self.snapshot = snapshot;
        self.set_flow_cache(flow_cache);
        Ok(())
    }

    /// Stops the workers and closes the ports. The core of a worker that is held up and did not end.
    pub(super) fn stop(&mut self) -> Option<u16> {
        self.close()
    }

    /// What each tunnel of the snapshot carried, under earlier snapshots as well.
    pub(super) fn tunnel_totals(&self) -> TunnelTotals {
        let mut totals = self.retired_tunnels.clone();
        if let Some(dataplane) = &self.dataplane {
            for worker in &dataplane.workers {
                add_totals(&mut totals, &self.snapshot, &worker.logical);
            }
        }
        totals
    }
}

/// Waits until every worker decides with the snapshot of this generation: whoever is told then that it is in force may send at once, and no
/// packet meets the old one. Others are answered meanwhile. Returns the cores whose workers are held up and have not taken it.
pub(super) async fn in_force(node: &RefCell<Node>, generation: u64) -> Vec<u16> {
    loop {
        {
            let node = node.borrow();
            let workers = node.dataplane.iter().flat_map(|dataplane| &dataplane.workers);
            let behind: Vec<_> = workers.filter(|worker| !worker.has_taken(generation)).collect();
            if behind.iter().all(|worker| worker.is_held_up()) {
                return behind.iter().map(|worker| worker.core).collect();
            }
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// Compiles a plan for the ports of a data plane.
pub(super) fn compile(
    plan: &Arc<Plan>,
    dataplane: &Dataplane,
    generation: u64,
) -> anyhow::Result<Arc<Snapshot>> {
    let snapshot = Snapshot::compile(Arc::clone(plan), &dataplane.facts(), generation, seed(&plan.name))?;
    Ok(Arc::new(snapshot))
}

/// The seed of the flow hashes: the same for a node whenever it starts, different from node to node (FNV-1a of its name).
fn seed(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn add_totals(totals: &mut TunnelTotals, snapshot: &Snapshot, logical: &LogicalCounters) {
    for (tunnel, Traffic { packets, bytes }) in snapshot.tunnels().iter().zip(&logical.tunnels) {
        let total = totals.entry((tunnel.vni.get(), tunnel.remote)).or_default();
        *total = (total.0 + packets.get(), total.1 + bytes.get());
    }
}

fn log_ports(dataplane: &Dataplane) {
    for port in &dataplane.ports {
        let (name, driver) = (port.port.name(), &port.info.driver);
        tracing::info!(port = name, %driver, mac = %port.mac, queues = port.queues, "port open");
    }
    tracing::info!(cores = ?dataplane.cores, "workers started");
}
