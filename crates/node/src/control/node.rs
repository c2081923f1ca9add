//! The state of a node and what changes it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_datapath::counters::{LogicalCounters, Traffic};
use sluice_datapath::engine::Installation;
use sluice_datapath::neighbor::NeighborTable;
use sluice_datapath::punt::{Entry, PuntKind};
use sluice_datapath::snapshot::{PortFacts, Snapshot};
use sluice_dpdk::Eal;
use sluice_intent::plan::Plan;
use sluice_protocols::Timestamp;

use super::apply::Fixed;
use super::capture::Captures;
use super::lags::Lags;
use super::links::{Links, Listeners};
use super::neighbors::{Neighbors, timestamp};
use super::teams::Teams;
use super::teps::Teps;
use crate::dataplane::{BFD_RING, Dataplane, Kept, PUNT_RING, Rings};
use crate::worker::{ActiveMembers, Command, Retired};

/// Ticks between two looks at the links and whether the workers go on.
const LINK_TICKS: u32 = 4;
/// Between two looks at whether a snapshot is in force.
const GLANCE: Duration = Duration::from_millis(1);

/// The time between two looks at LACP's timers after which they get another look before they act.
const HELD_UP: Duration = Duration::from_millis(20);

/// Packets and bytes that tunnels carried, by VNI, local and remote TEP.
pub(super) type TunnelTotals = HashMap<(u32, IpAddr, IpAddr), (u64, u64)>;

/// Why the data plane does not run, and since when.
pub(super) struct Failure {
    pub(super) since: Instant,
    /// What failed and what to do.
    pub(super) reason: String,
}

/// What the data plane is opened with.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) plan: Arc<Plan>,
    pub(super) rings: Rings,
    pub(super) flow_cache: bool,
    pub(super) profile: bool,
    pub(super) generation: u64,
}

/// Which ports a restart closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// All of them.
    Every,
    /// Those that are not the same afterwards.
    Changed,
}

/// A node.
pub(super) struct Node {
    pub(super) eal: Eal,
    pub(super) plan: Arc<Plan>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) neighbors: Neighbors,
    pub(super) links: Links,
    pub(super) lags: Lags,
    pub(super) teams: Teams,
    /// When LACP's timers were last looked at, and whether they were given another look then.
    lacp_looked: (Timestamp, bool),
    pub(super) teps: Teps,
    pub(super) captures: Captures,
    // After everything that may hold packets: its pool is freed last.
    pub(super) dataplane: Option<Dataplane>,
    /// Why there is none.
    pub(super) failure: Option<Failure>,
    /// Rings after the next restart.
    pub(super) next_rings: Rings,
    /// Whether decisions are cached, as last set.
    pub(super) flow_cache: bool,
    /// Whether cycles are attributed to stages, as last set.
    pub(super) profile: bool,
    pub(super) retired_tunnels: TunnelTotals,
    pub(super) started: Instant,
    /// Samples of the previous `get dataplane cpu stats`, by core.
    pub(super) cpu_samples: HashMap<u16, super::answers::CpuSample>,
    /// What of the document holds for as long as the process runs.
    pub(super) fixed: Fixed,
    pub(super) restarts: u32,
    ticks: u32,
}

impl Node {
    /// Opens the ports of a plan and starts forwarding.
    pub(super) fn start(eal: Eal, plan: Plan) -> anyhow::Result<Self> {
        let rings = Rings { rx: plan.dataplane.rx_ring_size, tx: plan.dataplane.tx_ring_size };
        let plan = Arc::new(plan);
        let mut dataplane = Dataplane::open(&eal, &plan, rings, 0, &mut Kept::default())?;
        let snapshot = compile(&plan, &dataplane.facts(&plan), 1)?;
        let mut neighbors = Neighbors::new(seed(&plan.name));
        neighbors.configure(&snapshot, &dataplane);
        let mut teps = Teps::new()?;
        teps.configure(&snapshot, dataplane.clock);
        let mut lags = Lags::default();
        lags.configure(&plan, &dataplane, &mut teps.alarms, timestamp(dataplane.clock));
        dataplane.start(&eal, &snapshot, &Arc::new(NeighborTable::default()))?;
        log_ports(&dataplane);
        let mut node = Self {
            fixed: Fixed::of(&plan),
            flow_cache: plan.dataplane.flow_cache.enabled,
            profile: false,
            links: Links::default(),
            lags,
            teams: Teams::default(),
            lacp_looked: Default::default(),
            teps,
            captures: Captures::default(),
            retired_tunnels: TunnelTotals::new(),
            started: Instant::now(),
            cpu_samples: HashMap::new(),
            restarts: 0,
            ticks: 0,
            next_rings: rings,
            dataplane: Some(dataplane),
            failure: None,
            eal,
            plan,
            snapshot,
            neighbors,
        };
        node.look_at_links();
        Ok(node)
    }

    /// Finds out which links are up, so that nobody is told of one that nobody has looked at yet.
    fn look_at_links(&mut self) {
        let Self { links, lags, teams, teps, neighbors, .. } = self;
        if let Some(dataplane) = &self.dataplane {
            links.poll(dataplane, &self.snapshot, &mut Listeners { lags, teams, teps, neighbors });
        }
    }

    /// Looks at the rings from the workers and the timers. The core of a worker that has ended by itself: nobody polls its queues any more.
    pub(super) fn tick(&mut self) -> Option<u16> {
        let dataplane = self.dataplane.as_mut()?;
        let now = Instant::now();
        for (number, worker) in dataplane.workers.iter_mut().enumerate() {
            while let Ok(retired) = worker.retired.pop() {
                if let Retired::Installation(replaced) = retired {
                    let (snapshot, logical) = replaced.settle();
                    add_totals(&mut self.retired_tunnels, &snapshot, &logical);
                }
            }
            // Bounded, so that a flood of punted packets cannot keep the control thread from its timers.
            for _ in 0..BFD_RING {
                let Ok(punted) = worker.bfd.pop() else { break };
                match (punted.punt.kind, punted.punt.entry) {
                    (PuntKind::SlowProtocols, Entry::Port(port)) => {
                        let (plan, alarms) = (self.snapshot.plan(), &mut self.teps.alarms);
                        let (frame, now) = (punted.packet.data(), timestamp(dataplane.clock));
                        self.lags.receive((plan, port), frame, &dataplane.active, alarms, now);
                    }
                    _ => self.teps.punted(&punted, &self.snapshot, dataplane.clock),
                }
            }
            for _ in 0..PUNT_RING {
                let Ok(punted) = worker.punts.pop() else { break };
                self.neighbors.punted(number, punted, dataplane.clock);
            }
        }
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(LINK_TICKS) {
            dataplane.workers.iter_mut().for_each(|worker| worker.advance(now));
            let Self { links, lags, teams, teps, neighbors, .. } = self;
            links.poll(dataplane, &self.snapshot, &mut Listeners { lags, teams, teps, neighbors });
        }
        let now = timestamp(dataplane.clock);
        let (looked, waited) = self.lacp_looked;
        // What held this thread up may have held up the workers too: they are given a moment to hand over what came meanwhile. Once only.
        let waits = !waited && now.since(looked) > HELD_UP;
        self.lacp_looked = (now, waits);
        if !waits {
            let (plan, alarms) = (self.snapshot.plan(), &mut self.teps.alarms);
            self.lags.advance(plan, &dataplane.active, alarms, now);
        }
        self.lags.send(dataplane);
        self.teps.advance(&self.snapshot, self.neighbors.table(), dataplane);
        self.neighbors.advance(dataplane, &mut self.teps.alarms);
        self.captures.collect(dataplane);
        dataplane.ended_worker()
    }

    /// Makes every worker decide with a new snapshot from its next batch on. [`in_force`] waits until all do.
    pub(super) fn install(&mut self, snapshot: Arc<Snapshot>) {
        self.links.follow(&self.plan, snapshot.plan());
        if let Some(dataplane) = &self.dataplane {
            // Whatever gets their numbers later has links that nobody has seen yet.
            for gone in self.plan.port_indices().skip(snapshot.plan().port_count()) {
                self.neighbors.link_state(gone, false, dataplane.clock);
            }
        }
        self.plan = Arc::clone(snapshot.plan_arc());
        self.snapshot = snapshot;
        let Some(dataplane) = &mut self.dataplane else { return };
        let (plan, now) = (Arc::clone(&self.plan), timestamp(dataplane.clock));
        dataplane.active = Arc::new(ActiveMembers::new(&plan));
        self.lags.configure(&plan, dataplane, &mut self.teps.alarms, now);
        self.teams.configure(&plan, &dataplane.active, &mut self.teps.alarms);
        self.teps.configure(&self.snapshot, dataplane.clock);
        let mut logical_ports: Vec<_> =
            dataplane.workers.iter().map(|_| dataplane.logical_ports(&self.snapshot)).collect();
        for worker in &mut dataplane.workers {
            let logical = Arc::new(LogicalCounters::new(&self.snapshot));
            worker.logical = Arc::clone(&logical);
            let installation = Installation::new(Arc::clone(&self.snapshot), logical);
            // One for each worker was made.
            let Some(logical_ports) = logical_ports.pop() else { break };
            worker.deliver(Command::Install(Box::new(installation), logical_ports));
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

    /// Has every worker attribute its cycles to stages, from zero, or ends that.
    pub(super) fn set_profile(&mut self, enabled: bool) {
        self.profile = enabled;
        if let Some(dataplane) = &mut self.dataplane {
            dataplane.workers.iter_mut().for_each(|worker| worker.set_profile(enabled));
        }
    }

    /// Closes all ports and opens them again. The configuration stays the same.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        let setup = Setup { rings: self.next_rings, ..self.setup() };
        self.reopen(&setup, Closing::Every)
            .inspect_err(|error| tracing::error!("the data plane was not restarted: {error:#}"))
    }

    /// What the data plane runs with, or ran with last.
    fn setup(&self) -> Setup {
        Setup {
            plan: Arc::clone(&self.plan),
            rings: self.dataplane.as_ref().map_or(self.next_rings, |dataplane| dataplane.rings),
            flow_cache: self.flow_cache,
            profile: self.profile,
            generation: self.snapshot.generation(),
        }
    }

    /// Opens the data plane anew. What can be checked is checked first; where something fails after that, the ports that were open are opened
    /// again. On failure nothing has changed, but where even that fails: then the data plane does not run.
    pub(super) fn reopen(&mut self, setup: &Setup, closing: Closing) -> anyhow::Result<()> {
        if let Some(core) = self.dataplane.as_ref().and_then(Dataplane::held_up_worker) {
            anyhow::bail!(
                "the worker on core {core} does not go on, a device holds it up most likely, so its ports cannot be closed; nothing has \
                 changed: end sluiced and start it again"
            );
        }
        self.check(setup)?;
        let before = self.dataplane.is_some().then(|| self.setup());
        let (mut kept, _) = self.take_apart();
        if closing == Closing::Every {
            kept = Kept::default();
        }
        let Err(error) = self.open(setup, &mut kept) else { return Ok(()) };
        let error = match before.map(|before| self.open(&before, &mut kept)) {
            Some(Ok(())) => return Err(error),
            Some(Err(second)) => anyhow::anyhow!(
                "{error:#}; and the ports that were open could not be opened again: {second:#}; the data plane does not run: put that right, \
                 then 'restart service dataplane'"
            ),
            None => error,
        };
        let since = self.failure.take().map_or_else(Instant::now, |failure| failure.since);
        self.failure = Some(Failure { since, reason: format!("{error:#}") });
        Err(error)
    }

    /// Finds what would fail, without closing anything.
    fn check(&self, setup: &Setup) -> anyhow::Result<()> {
        let plan = &setup.plan;
        Dataplane::check(&self.eal, plan, setup.rings)?;
        // Which MAC addresses devices have is known once they are there; nothing depends on which they are.
        let mac = |port| plan.port_mac(port).unwrap_or_default();
        let facts: Vec<_> = plan.port_indices().map(|port| PortFacts { mac: mac(port) }).collect();
        Snapshot::compile(Arc::clone(plan), &facts, setup.generation, seed(&plan.name))?;
        Ok(())
    }

    /// Stops everything that uses ports, and returns those; with them the core of a worker that a device holds up, which is left with what it
    /// has.
    fn take_apart(&mut self) -> (Kept, Option<u16>) {
        self.captures.stop();
        self.neighbors.forget();
        self.teps.forget_ports();
        let apart = self.dataplane.take().map(Dataplane::take_apart).unwrap_or_default();
        self.cpu_samples.clear();
        self.retired_tunnels.clear();
        apart
    }

    /// Opens what is not among `kept`, of which what does not fit is closed. On failure what still fits is in there.
    fn open(&mut self, setup: &Setup, kept: &mut Kept) -> anyhow::Result<()> {
        let Setup { plan, rings, flow_cache, profile, generation } = setup;
        self.restarts += 1;
        kept.retain(&self.eal, plan, *rings);
        let mut dataplane = Dataplane::open(&self.eal, plan, *rings, self.restarts, kept)?;
        let snapshot = self.start_workers(&mut dataplane, plan, *generation);
        let snapshot = match snapshot {
            Ok(snapshot) => snapshot,
            Err(error) => {
                self.neighbors.forget();
                *kept = dataplane.take_apart().0;
                return Err(error);
            }
        };
        log_ports(&dataplane);
        self.links = Links::default();
        self.next_rings = *rings;
        self.dataplane = Some(dataplane);
        self.failure = None;
        self.plan = Arc::clone(plan);
        self.snapshot = snapshot;
        self.look_at_links();
        self.set_flow_cache(*flow_cache);
        if *profile {
            self.set_profile(true);
        }
        Ok(())
    }

    fn start_workers(
        &mut self,
        dataplane: &mut Dataplane,
        plan: &Arc<Plan>,
        generation: u64,
    ) -> anyhow::Result<Arc<Snapshot>> {
        let snapshot = compile(plan, &dataplane.facts(plan), generation)?;
        let now = timestamp(dataplane.clock);
        self.lags.configure(plan, dataplane, &mut self.teps.alarms, now);
        self.teams.configure(plan, &dataplane.active, &mut self.teps.alarms);
        self.neighbors.configure(&snapshot, dataplane);
        self.teps.configure(&snapshot, dataplane.clock);
        dataplane.start(&self.eal, &snapshot, self.neighbors.table())?;
        Ok(snapshot)
    }

    /// Takes leave of the other ends of LAGs and BFD sessions, stops the workers and closes the ports. The core of a worker that is held up and did
    /// not end.
    pub(super) fn stop(&mut self) -> Option<u16> {
        if let Some(dataplane) = &mut self.dataplane {
            self.lags.leave(&self.plan, &dataplane.active, &mut self.teps.alarms);
            self.lags.send(dataplane);
            self.teps.leave(self.neighbors.table(), dataplane);
        }
        self.take_apart().1
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

/// Compiles a plan for the ports that these facts are of.
pub(super) fn compile(
    plan: &Arc<Plan>,
    facts: &[PortFacts],
    generation: u64,
) -> anyhow::Result<Arc<Snapshot>> {
    let snapshot = Snapshot::compile(Arc::clone(plan), facts, generation, seed(&plan.name))?;
    Ok(Arc::new(snapshot))
}

/// The seed of the flow hashes: the same for a node whenever it starts, different from node to node (FNV-1a of its name).
fn seed(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn add_totals(totals: &mut TunnelTotals, snapshot: &Snapshot, logical: &LogicalCounters) {
    for (tunnel, Traffic { packets, bytes }) in snapshot.tunnels().iter().zip(&logical.tunnels) {
        let total = totals.entry((tunnel.vni.get(), tunnel.local, tunnel.remote)).or_default();
        *total = (total.0 + packets.get(), total.1 + bytes.get());
    }
}

fn log_ports(dataplane: &Dataplane) {
    for port in &dataplane.ports {
        let (name, driver) = (port.port.name(), &port.info.driver);
        if port.stayed {
            tracing::info!(port = name, "port stays open");
        } else {
            tracing::info!(port = name, %driver, mac = %port.mac, queues = port.queues, "port open");
        }
    }
    tracing::info!(cores = ?dataplane.cores, "workers started");
}
