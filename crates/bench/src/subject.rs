//! What is measured: a node, a peer, or an echo, each with a generator of its own at the other end of its ports.

mod echo;
mod external;
mod linux;
mod node;
mod open_vswitch;
mod testpmd;
mod veth;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use echo::Echo;
pub(crate) use external::{External, NamedMacs, requirements};
pub(crate) use node::{Node, Variant};
pub(crate) use veth::{Namespaces, Veth};

use crate::error::{BenchError, Result};
use crate::generator::Generator;
use crate::process::{Interrupt, Process, find};
use sluice_trial::ports::PortName;
use sluice_trial::topology::Topology;
use sluice_trial::traffic::Expected;

/// Something that does the work of a node, and is measured beside it: a file of its own here, and a line in [`PEERS`].
pub(crate) struct Peer {
    /// Its name in tables and files.
    pub(crate) name: &'static str,
    /// What its ports are: it is compared with a node on the same ones.
    pub(crate) ports: PeerPorts,
    /// Starts it and its generator, and waits until its links are up. Where it cannot run, for want of a program, a privilege or
    /// something of the kernel, the error says so and is shown; the others are measured all the same.
    pub(crate) start: fn(&Setting, &Topology) -> Result<Box<dyn Subject>>,
}

/// Ports between a peer and its generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerPorts {
    /// memif: shared memory of two processes.
    SharedMemory,
    /// Pairs of virtual Ethernet interfaces, with the kernel between them.
    Veth,
}

/// Every peer.
pub(crate) const PEERS: &[Peer] = &[open_vswitch::PEER, testpmd::PEER, linux::PEER];

/// How long links may take to come up.
const LINKS_LIMIT: Duration = Duration::from_secs(10);

/// What a bench gives to everything that it starts.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Folder for sockets, documents and logs; a subject makes one of its own in it.
    pub(crate) folder: PathBuf,
    /// Cores of the generator.
    pub(crate) generator_cores: Vec<u16>,
    /// Cores of what is measured.
    pub(crate) device_cores: Vec<u16>,
    /// Whether huge pages may be used.
    pub(crate) huge_pages: bool,
    /// Whether clients lend their packet memory instead of copying.
    pub(crate) zero_copy: bool,
    pub(crate) generator: Option<PathBuf>,
    pub(crate) sluiced: Option<PathBuf>,
    pub(crate) interrupt: Interrupt,
    /// Ports that were named; without, shared memory.
    pub(crate) ports: Option<NamedPorts>,
    /// Network namespaces in which both ends run; without, that of the bench.
    pub(crate) namespaces: Option<Namespaces>,
}

/// Ports that are connected by cables or by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPorts {
    pub(crate) generator: Links,
    /// None of a device that the bench does not start.
    pub(crate) device: Option<Links>,
}

/// The ports of one end of all links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    pub(crate) uplinks: Vec<PortName>,
    pub(crate) downlinks: Vec<PortName>,
}

impl Links {
    /// Interfaces of one shared-memory socket: the uplinks from 0 on, then the downlinks.
    pub(crate) fn of_socket(socket: &Path, topology: &Topology) -> Self {
        let memif = |id: usize| PortName::Memif { socket: socket.to_owned(), id: id as u32 };
        let uplinks = usize::from(topology.uplinks);
        Self {
            uplinks: (0..uplinks).map(memif).collect(),
            downlinks: (uplinks..topology.links()).map(memif).collect(),
        }
    }

    /// As arguments of a generator.
    fn arguments(&self) -> Vec<String> {
        let named = |flag: &str, ports: &[PortName]| -> Vec<String> {
            ports.iter().flat_map(|port| [flag.to_owned(), port.to_string()]).collect()
        };
        [named("--uplink", &self.uplinks), named("--downlink", &self.downlinks)].concat()
    }
}

impl Setting {
    /// A folder for one subject.
    fn folder_of(&self, subject: &str) -> Result<PathBuf> {
        use crate::error::While;
        let folder = self.folder.join(subject);
        std::fs::create_dir_all(&folder).during(|| format!("creating {}", folder.display()))?;
        Ok(folder)
    }

    /// Both ends of all links of a topology: those that were named, or shared memory in `folder`.
    ///
    /// # Errors
    ///
    /// [`BenchError::Ports`] where the topology needs another number of ports than were named, [`BenchError::Arguments`] where those of
    /// the device were not.
    fn both_ends(&self, folder: &Path, topology: &Topology) -> Result<[Links; 2]> {
        let NamedPorts { generator, device } = self.links(folder, topology)?;
        match device {
            Some(device) => Ok([generator, device]),
            None => Err(BenchError::Arguments("the device's ports are not the bench's to use".into())),
        }
    }

    /// As [`Setting::both_ends`], also where the device's ends are nobody's business.
    ///
    /// # Errors
    ///
    /// [`BenchError::Ports`] where the topology needs another number of ports than were named.
    fn links(&self, folder: &Path, topology: &Topology) -> Result<NamedPorts> {
        let Some(ports) = &self.ports else {
            let links = Links::of_socket(&folder.join("memif.sock"), topology);
            return Ok(NamedPorts { generator: links.clone(), device: Some(links) });
        };
        let needed = (usize::from(topology.uplinks), usize::from(topology.downlinks));
        let ends = [("generator", Some(&ports.generator)), ("device", ports.device.as_ref())];
        for (end, links) in ends.into_iter().filter_map(|(end, links)| Some((end, links?))) {
            let named = (links.uplinks.len(), links.downlinks.len());
            if named != needed {
                return Err(BenchError::Ports { end, needed, named });
            }
        }
        Ok(ports.clone())
    }

    /// Starts a traffic generator on its end of the links.
    fn start_traffic(
        &self,
        folder: &Path,
        links: &Links,
        topology: &Topology,
        receive_queues: u16,
    ) -> Result<Generator> {
        let namespace = self.namespaces.as_ref().map(|namespaces| namespaces.generator.as_path());
        let (program, before) = entering(namespace, self.generator_program()?);
        Generator::start("sluice-generator", &program, folder, &self.interrupt, |command| {
            command.args(before).arg("traffic").args(links.arguments());
            command.args(["--cores", &list(&self.generator_cores)]);
            command.args([
                "--encapsulation",
                topology.encapsulation.name(),
                "--outer",
                topology.outer.name(),
            ]);
            command.args(["--paths", &topology.paths.to_string()]);
            command.args(topology.lag.then_some("--lag"));
            command.args(["--receive-queues", &receive_queues.to_string()]).args(self.pages());
        })
    }

    /// How to run a program on the device's end of the links: what to start, and the arguments before the program's own.
    fn on_device_end(&self, program: PathBuf) -> (PathBuf, Vec<OsString>) {
        entering(self.namespaces.as_ref().map(|namespaces| namespaces.device.as_path()), program)
    }

    /// The core of a device that has one.
    pub(crate) fn device_core(&self) -> u16 {
        self.device_cores.first().copied().unwrap_or_default()
    }

    fn generator_program(&self) -> Result<PathBuf> {
        find(
            "sluice-generator",
            self.generator.as_deref(),
            "build it with `cargo build --release -p sluice-generator`, or name it with --generator",
        )
    }

    fn pages(&self) -> [&'static str; 2] {
        ["--huge-pages", if self.huge_pages { "auto" } else { "off" }]
    }
}

/// How to run a program in a network namespace, where there is one: what to start, and the arguments before the program's own. The
/// process is the program's.
fn entering(namespace: Option<&Path>, program: PathBuf) -> (PathBuf, Vec<OsString>) {
    match namespace {
        None => (program, Vec::new()),
        Some(path) => {
            let mut option = OsString::from("--net=");
            option.push(path);
            ("nsenter".into(), vec![option, program.into()])
        }
    }
}

/// What a scenario measures that measures any device.
pub(crate) enum Device {
    /// A node, which the bench has started.
    Node(Box<Node>),
    /// A device of somebody else's.
    External(External),
}

impl Device {
    /// As trials see it.
    pub(crate) fn subject(&mut self) -> &mut dyn Subject {
        match self {
            Self::Node(node) => node.as_mut(),
            Self::External(external) => external,
        }
    }

    /// The node, for what only a node can do.
    pub(crate) fn node(&mut self) -> Option<&mut Node> {
        match self {
            Self::Node(node) => Some(node),
            Self::External(_) => None,
        }
    }
}

/// Numbers with commas between them.
pub(crate) fn list(numbers: &[u16]) -> String {
    numbers.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

/// Why a device has no cycles.
pub(crate) const NO_CYCLES: &str = "the device does not tell its cycles, or received nothing";

/// What a subject has counted, since some moment in the past.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    /// Packets received.
    pub(crate) packets: u64,
    /// Cycles of polls that found packets.
    pub(crate) busy_cycles: u64,
    /// Heap allocations of the forwarding threads; `None` for a subject that does not count them.
    pub(crate) heap_allocations: Option<u64>,
    /// Packets whose decision was cached, and those that had to be decided; `None` for a subject without a cache.
    pub(crate) cache: Option<(u64, u64)>,
}

impl Counters {
    /// What was counted since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let cache = match (self.cache, before.cache) {
            (Some(now), Some(then)) => Some((now.0.saturating_sub(then.0), now.1.saturating_sub(then.1))),
            _ => None,
        };
        Self {
            packets: self.packets.saturating_sub(before.packets),
            busy_cycles: self.busy_cycles.saturating_sub(before.busy_cycles),
            heap_allocations: self
                .heap_allocations
                .zip(before.heap_allocations)
                .map(|(now, then)| now.saturating_sub(then)),
            cache,
        }
    }

    /// Heap allocations a packet; `None` without packets or where they are not counted.
    pub(crate) fn allocations_per_packet(&self) -> Option<f64> {
        let allocations = self.heap_allocations?;
        (self.packets > 0).then(|| allocations as f64 / self.packets as f64)
    }

    /// Busy cycles a packet; `None` without packets.
    pub(crate) fn cycles_per_packet(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.busy_cycles as f64 / self.packets as f64)
    }

    /// Hits of all packets, 0 to 1; `None` without a cache or packets.
    pub(crate) fn hit_rate(&self) -> Option<f64> {
        let (hits, misses) = self.cache?;
        (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
    }
}

/// Something between the two links of a generator.
pub(crate) trait Subject {
    /// Its name in tables and files.
    fn name(&self) -> &'static str;

    /// The generator at the other end.
    fn generator(&mut self) -> &mut Generator;

    /// The threads of the generator that send and receive.
    fn generator_threads(&mut self) -> Vec<u32> {
        let process = self.generator().process();
        let mut threads = process.threads("generator-");
        threads.push(process.pid());
        threads
    }

    /// Makes it forget what it knows of flows.
    ///
    /// # Errors
    ///
    /// For subjects that cannot.
    fn reset_state(&mut self) -> Result<()> {
        Err(BenchError::Search(format!("{} cannot be made to forget its flows", self.name())))
    }

    /// How frames come back.
    fn expected(&self) -> Expected {
        Expected::Routed
    }

    /// What it has counted; nothing of what does not tell its cycles.
    fn counters(&mut self) -> Result<Counters> {
        Ok(Counters::default())
    }

    /// Packets dropped since the start by reason, where it tells.
    fn drops(&mut self) -> Result<Vec<(String, u64)>> {
        Ok(Vec::new())
    }

    /// The threads that forward, of a subject that has threads of its own. They run under the real-time scheduler during trials where that is
    /// allowed.
    fn forwarding_threads(&self) -> Vec<u32> {
        Vec::new()
    }

    /// The node document that it runs, where it runs one.
    fn document(&self) -> Option<&str> {
        None
    }

    /// The processes that take time while others are measured: its own and its generator's.
    fn processes(&self) -> Vec<&Process>;

    /// Takes it off its core while others are measured.
    fn pause(&self) {
        self.processes().into_iter().for_each(Process::pause);
    }

    /// Lets it go on.
    fn resume(&self) {
        self.processes().into_iter().for_each(Process::resume);
    }
}

#[cfg(test)]
impl Setting {
    /// A setting of which a test names what matters to it.
    fn for_tests() -> Self {
        Self {
            folder: PathBuf::new(),
            generator_cores: vec![0],
            device_cores: vec![1],
            huge_pages: false,
            zero_copy: false,
            generator: None,
            sluiced: None,
            interrupt: Interrupt::watch().unwrap(),
            ports: None,
            namespaces: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_in_the_namespace_that_there_is() {
        let (program, before) = entering(None, "/usr/bin/x".into());
        assert_eq!((program, before), ("/usr/bin/x".into(), vec![]));
        let (program, before) = entering(Some(Path::new("/proc/7/ns/net")), "/usr/bin/x".into());
        assert_eq!(program, Path::new("nsenter"));
        assert_eq!(before, ["--net=/proc/7/ns/net", "/usr/bin/x"]);
    }

    #[test]
    fn cycles_and_hits_are_of_the_time_between_two_readings() {
        let before =
            Counters { packets: 100, busy_cycles: 50_000, heap_allocations: Some(7), cache: Some((90, 10)) };
        let after = Counters {
            packets: 1_100,
            busy_cycles: 250_000,
            heap_allocations: Some(9),
            cache: Some((1_080, 20)),
        };
        let between = after.since(&before);
        assert_eq!(between.cycles_per_packet(), Some(200.0));
        assert_eq!(between.hit_rate(), Some(0.99));
        assert_eq!(between.allocations_per_packet(), Some(0.002));
        let nothing = after.since(&after);
        assert_eq!((nothing.cycles_per_packet(), nothing.hit_rate()), (None, None));
    }
}
