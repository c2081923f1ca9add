//! A node that runs the bench's document.

use std::path::PathBuf;
use std::time::Duration;

use sluice_control::{Answer, Client, CoreStages, Request};
use sluice_trial::topology::Topology;

use super::{Counters, LINKS_LIMIT, Setting, Subject};
use crate::document::{NodeSettings, RING_SIZE};
use crate::error::{BenchError, Result, While};
use crate::generator::Generator;
use crate::process::{Interrupt, Process, find};

/// How long the node may take to start.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long next hops may take to be resolved.
const NEIGHBOR_LIMIT: Duration = Duration::from_secs(10);

/// What differs between nodes of one bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// Its name in tables, and of its folder.
    pub(crate) name: &'static str,
    pub(crate) topology: Topology,
    pub(crate) ring_size: u16,
    pub(crate) flow_cache: bool,
}

impl Variant {
    /// A node of a topology, with all else as usual.
    pub(crate) const fn new(topology: Topology) -> Self {
        Self { name: "sluice", topology, ring_size: RING_SIZE, flow_cache: true }
    }
}

/// How the node is started, and started again.
#[derive(Debug)]
struct Launch {
    program: PathBuf,
    /// Arguments of the program before the node's own.
    before: Vec<std::ffi::OsString>,
    folder: PathBuf,
    interrupt: Interrupt,
}

impl Launch {
    fn control(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    fn config(&self) -> PathBuf {
        self.folder.join("edge.yaml")
    }

    fn start(&self) -> Result<Process> {
        Process::start("sluiced", &self.program, &self.folder, false, |command| {
            command.args(&self.before).arg("--config").arg(self.config()).arg("--socket").arg(self.control());
        })
    }

    fn connect(&self, process: &mut Process) -> Result<Client> {
        let what = "it answered on its control socket";
        process.wait_for(what, START_LIMIT, &self.interrupt, || Client::connect(&self.control()).ok())
    }
}

/// The node and its generator.
#[derive(Debug)]
pub(crate) struct Node {
    variant: Variant,
    settings: NodeSettings,
    text: String,
    client: Client,
    launch: Launch,
    process: Process,
    generator: Generator,
}

impl Node {
    /// Starts both and waits until the node has resolved its next hops.
    pub(crate) fn start(setting: &Setting, variant: Variant) -> Result<Self> {
        let Variant { name, topology, ring_size, flow_cache } = variant;
        let folder = setting.folder_of(name)?;
        let [tester, device] = setting.both_ends(&folder, &topology)?;
        let settings = NodeSettings {
            topology,
            uplinks: device.uplinks,
            downlinks: device.downlinks,
            cores: setting.device_cores.clone(),
            huge_pages: setting.huge_pages,
            zero_copy: setting.zero_copy,
            ring_size,
            flow_cache,
            more: false,
        };
        let text = settings.document()?;
        let program = find(
            "sluiced",
            setting.sluiced.as_deref(),
            "build it with `cargo build --release -p sluice-node`, or name it with --sluiced",
        )?;
        let (program, before) = setting.on_device_end(program);
        let launch = Launch { program, before, folder, interrupt: setting.interrupt.clone() };
        let config = launch.config();
        std::fs::write(&config, &text).during(|| format!("writing {}", config.display()))?;
        let queues = setting.device_cores.len() as u16;
        let mut generator = setting.start_traffic(&launch.folder, &tester, &topology, queues)?;
        let mut process = launch.start()?;
        let mut client = launch.connect(&mut process)?;
        generator.wait_for_links(LINKS_LIMIT)?;
        process.wait_for("its next hops were resolved", NEIGHBOR_LIMIT, &setting.interrupt, || {
            resolved(&mut client, &topology).then_some(())
        })?;
        Ok(Self { variant, settings, text, client, launch, process, generator })
    }

    /// A document with another logical network than the node was started with, and that one.
    pub(crate) fn documents(&self) -> Result<[String; 2]> {
        let more = NodeSettings { more: true, ..self.settings.clone() };
        Ok([more.document()?, self.text.clone()])
    }

    /// Gives it a document whose default routes have so many next hops, and waits until they are resolved.
    pub(crate) fn set_paths(&mut self, paths: u8) -> Result<()> {
        let topology = Topology { paths, ..self.settings.topology };
        let settings = NodeSettings { topology, ..self.settings.clone() };
        self.apply(&settings.document()?)?;
        let client = &mut self.client;
        self.process.wait_for("its next hops were resolved", NEIGHBOR_LIMIT, &self.launch.interrupt, || {
            resolved(client, &topology).then_some(())
        })
    }

    /// Begins to attribute its workers' cycles to stages, from zero, or ends it.
    pub(crate) fn set_profile(&mut self, enabled: bool) -> Result<()> {
        match self.ask(&Request::SetProfile { enabled })? {
            Answer::Done(_) => Ok(()),
            _ => Err(self.process.failed("it cannot be profiled")),
        }
    }

    /// Its workers' cycles by stage.
    pub(crate) fn stages(&mut self) -> Result<Vec<CoreStages>> {
        match self.ask(&Request::GetStages)? {
            Answer::Stages(stages) => Ok(stages.cores),
            _ => Err(self.process.failed("it does not tell its stages")),
        }
    }

    /// Kills the node's process after a while and starts it again at once, while `work` has the generator. The node is as new
    /// afterwards.
    pub(crate) fn while_restarting<T: Send>(
        &mut self,
        after: Duration,
        work: impl FnOnce(&mut Generator) -> Result<T> + Send,
    ) -> Result<T> {
        let Self { generator, process, launch, .. } = self;
        let (result, started) = std::thread::scope(|scope| {
            let working = scope.spawn(|| work(generator));
            std::thread::sleep(after);
            process.kill();
            let started = launch.start();
            (working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), started)
        });
        self.process = started?;
        self.client = self.launch.connect(&mut self.process)?;
        result
    }

    /// An answer, or why there is none: a node that has ended says more than its socket does.
    fn ask(&mut self, request: &Request) -> Result<Answer> {
        self.client.ask(request).map_err(|error| match self.process.end() {
            Some(status) => self.process.failed(format!("it ended while it was measured ({status})")),
            None => error.into(),
        })
    }

    fn apply(&mut self, document: &str) -> Result<()> {
        apply(document, |request| self.ask(request))
    }

    /// Gives it documents while trials run, over a connection of its own to the node's control socket.
    pub(crate) fn swapper(&self) -> Result<Swapper> {
        let client = Client::connect(&self.launch.control())?;
        Ok(Swapper { client, documents: self.documents()?, next: 0 })
    }
}

/// Swaps a node's document for another one and back again.
pub(crate) struct Swapper {
    client: Client,
    documents: [String; 2],
    /// Place of the document whose turn it is.
    next: usize,
}

impl Swapper {
    /// Gives the node the document whose turn it is; returns when every worker decides with it.
    pub(crate) fn swap(&mut self) -> Result<()> {
        let Self { client, documents, next } = self;
        let document = &documents[*next];
        *next = 1 - *next;
        apply(document, |request| Ok(client.ask(request)?))
    }
}

/// Has a node take a document; `ask` carries the request there and the answer back.
fn apply(document: &str, ask: impl FnOnce(&Request) -> Result<Answer>) -> Result<()> {
    match ask(&Request::Apply { document: document.to_owned(), file: "edge.yaml".into() })? {
        Answer::Applied(_) => Ok(()),
        _ => Err(BenchError::Document("the node did not apply it".into())),
    }
}

/// Whether all next hops have a MAC address.
fn resolved(client: &mut Client, topology: &Topology) -> bool {
    let Ok(Answer::Neighbors(neighbors)) = client.ask(&Request::GetNeighbor) else { return false };
    let routers = (0..topology.paths)
        .flat_map(|path| [topology.router_ipv4(path).into(), topology.router_ipv6(path).into()]);
    let hosts = (0..topology.teps()).map(|downlink| topology.host_tep(downlink));
    let mut hops = routers.chain(hosts);
    hops.all(|hop| neighbors.iter().any(|entry| entry.address == hop && !entry.mac.is_empty()))
}

impl Subject for Node {
    fn name(&self) -> &'static str {
        self.variant.name
    }

    fn generator(&mut self) -> &mut Generator {
        &mut self.generator
    }

    fn counters(&mut self) -> Result<Counters> {
        let Answer::CpuStats(cores) = self.ask(&Request::GetCpuStats)? else {
            return Err(self.process.failed("it does not tell its cycles"));
        };
        let Answer::FlowCacheStats(caches) = self.ask(&Request::GetFlowCacheStats)? else {
            return Err(self.process.failed("it does not tell its flow cache's counts"));
        };
        Ok(Counters {
            packets: cores.iter().map(|core| core.rx_packets).sum(),
            busy_cycles: cores.iter().map(|core| core.busy_cycles).sum(),
            heap_allocations: Some(cores.iter().map(|core| core.heap_allocations).sum()),
            cache: Some((
                caches.iter().map(|cache| cache.hits).sum(),
                caches.iter().map(|cache| cache.misses).sum(),
            )),
        })
    }

    fn drops(&mut self) -> Result<Vec<(String, u64)>> {
        match self.ask(&Request::GetDrops)? {
            Answer::Drops(drops) => Ok(drops.into_iter().map(|drop| (drop.reason, drop.packets)).collect()),
            _ => Err(self.process.failed("it does not tell its drops")),
        }
    }

    fn forwarding_threads(&self) -> Vec<u32> {
        self.process.threads("worker-")
    }

    /// A new document makes every flow be decided again.
    fn reset_state(&mut self) -> Result<()> {
        let [other, own] = self.documents()?;
        self.apply(&other)?;
        self.apply(&own)
    }

    fn document(&self) -> Option<&str> {
        Some(&self.text)
    }

    fn processes(&self) -> Vec<&Process> {
        vec![&self.process, self.generator.process()]
    }
}
