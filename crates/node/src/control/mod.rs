//! The control thread: everything that is not forwarding packets.
//!
//! One thread, one event loop: a tick every millisecond for the rings from the workers and the timers of the protocols, the control
//! socket, and signals. Its state is a [`node::Node`]; whatever takes longer than a moment is a task of its own.

mod alarms;
mod answers;
mod apply;
mod bfd_frames;
mod bfd_refused;
mod capture;
mod conflicts;
mod faults;
mod lags;
mod links;
mod neighbors;
mod node;
mod socket;
mod teams;
mod teps;
mod tracing_packets;
mod watched;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use sluice_dpdk::{Eal, EalOptions, HugePages};
use sluice_intent::plan::{self, Plan, PortKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tokio::time::MissedTickBehavior;

use node::Node;

/// Time between two looks at the workers' rings and the timers.
const TICK: Duration = Duration::from_millis(1);

/// How a node is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node document.
    pub config: PathBuf,
    /// The control socket; by default that of the node's name in the run directory.
    pub socket: Option<PathBuf>,
}

/// How a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every worker has stopped and every port is closed.
    InOrder,
    /// A device holds a worker up, on the core of this number. The process is to end without waiting for anything that the worker may have.
    WithoutWorker(u16),
}

/// Runs a node until it is told to end.
pub fn run(options: &Options) -> anyhow::Result<Ended> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("no event loop")?;
    let tasks = LocalSet::new();
    let ended = tasks.block_on(&runtime, serve(options));
    // A document that is still being read, from a pipe perhaps, is not waited for.
    runtime.shutdown_background();
    ended
}

fn read_document(path: &std::path::Path) -> anyhow::Result<Plan> {
    let text = std::fs::read(path).with_context(|| {
        format!("{} cannot be read; name the node document with --config", path.display())
    })?;
    sluice_intent::parse_bytes(&text, &path.display().to_string())
        .map_err(|problems| anyhow::anyhow!("{problems}"))
}

fn start_eal(plan: &Plan) -> anyhow::Result<Eal> {
    let pci = |port: &plan::Port| match &port.kind {
        PortKind::Pci { address } => Some(address.clone()),
        _ => None,
    };
    let options = EalOptions {
        memory_mebibytes: plan.dataplane.memory_mib,
        huge_pages: match plan.dataplane.huge_pages {
            plan::HugePages::Auto => HugePages::Automatic,
            plan::HugePages::Required => HugePages::Required,
            plan::HugePages::Off => HugePages::Off,
        },
        pci_devices: plan.ports.iter().filter_map(pci).collect(),
        log: Some(Box::new(|level, line| tracing::debug!(target: "dpdk", ?level, "{line}"))),
        ..EalOptions::default()
    };
    let eal = Eal::init(options)?;
    tracing::info!(memory = %eal.memory_backing(), "packet memory");
    Ok(eal)
}

async fn serve(options: &Options) -> anyhow::Result<Ended> {
    // Before anything else: a signal that comes while the node starts is kept until it runs. A document may be a pipe that nobody writes, so
    // that reading it can be ended.
    let mut hang_up = signal(SignalKind::hangup())?;
    let plan = read_document(&options.config)?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let eal = start_eal(&plan)?;
    let path = options.socket.clone().unwrap_or_else(|| sluice_control::default_socket(&plan.name));
    let listener = socket::listen(&path)?;
    // A node that does not start leaves no socket.
    let node = Node::start(eal, plan).inspect_err(|_| drop(std::fs::remove_file(&path)))?;
    let node = Rc::new(RefCell::new(node));
    let accept = tokio::task::spawn_local(socket::accept(listener, Rc::clone(&node)));
    tracing::info!(socket = %path.display(), "ready");
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ended = loop {
        tokio::select! {
            _ = ticks.tick() => {
                if let Some(core) = node.borrow_mut().tick() {
                    break Err(worker_ended(core));
                }
            }
            _ = hang_up.recv() => {
                tokio::task::spawn_local(reload(options.config.clone(), Rc::clone(&node)));
            }
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
        }
    };
    tracing::info!("stopping");
    accept.abort();
    drop(std::fs::remove_file(&path));
    let left = node.borrow_mut().stop();
    ended?;
    Ok(left.map_or(Ended::InOrder, Ended::WithoutWorker))
}

/// Why a node ends whose worker did: nobody polls the worker's queues, and what it had in hand is lost.
fn worker_ended(core: u16) -> anyhow::Error {
    tracing::error!(core, "the worker has ended, which is a defect; sluiced ends with it");
    anyhow::anyhow!(
        "the worker on core {core} has ended, which is a defect; report what was said before, and start sluiced again"
    )
}

/// Takes the document again, after SIGHUP. A wrong one changes nothing.
async fn reload(config: PathBuf, node: Rc<RefCell<Node>>) {
    // A refusal is in the log already.
    if let Ok(applied) = apply::apply(&node, move || read_document(&config)).await {
        tracing::info!(generation = applied.generation, changes = ?applied.changes, "document taken");
    }
}
