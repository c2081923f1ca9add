//! The lab with its servers, and clients that are run in it one at a time.
//!
//! ```text
//!   core of the clients           core of the servers
//!     client    blocks              server    blocks          priority 20
//!     host-1    polls               host-2    polls           priority 10
//! ```
//!
//! A frame wakes the end that waits for it, which takes its core from the node that polls there and gives it back when it waits again. The nodes
//! poll in every case, also in those that do not pass them, so that no core ever idles and wakes slowly: only the way differs. Between trials they are
//! stopped, and leave the cores to the machine. Where the real-time scheduler is not allowed, there are no priorities; nodes sleep for short times
//! instead, which every number contains.
//!
//! Whatever ends this process, the lab goes down: on the ways out that there are in Rust because this is dropped, and otherwise by the
//! guard, a process that waits for the end of a pipe.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_lab::{Lab, PortKind, ProcessIdentity, Topology, UpOptions};
use sluice_trial::traffic::Encapsulation;

use super::cases::{CASES, Case, PORT};
use super::ends::{Kind, READY, Trial};
use crate::command::ENDS;
use crate::error::{BenchError, Result, While};
use crate::machine::{Raised, Realtime};
use crate::process::{Interrupt, Process};
use crate::scenario::guarded::Guarded;

const TOPOLOGY: &str = include_str!("topology.yaml");
/// Real-time priority of the ends, above that of the nodes: they are what measures.
const END_PRIORITY: u8 = 20;
/// Longest sleep of an idle node under the ordinary scheduler, µs. A node that polled without end would leave the ends their core only for every
/// other slice of the scheduler, milliseconds later.
pub(super) const IDLE_SLEEP_US: u32 = 50;

/// What the lab depends on.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) encapsulation: Encapsulation,
    /// Core of the clients and of the node beside them, and that of the servers.
    pub(super) cores: [u16; 2],
    /// Kind of the nodes' ports; none: what the lab finds to work.
    pub(super) port_kind: Option<PortKind>,
    pub(super) sluiced: Option<PathBuf>,
    pub(super) realtime: Realtime,
    /// Folder for logs.
    pub(super) folder: PathBuf,
    pub(super) interrupt: Interrupt,
}

/// The topology document.
///
/// # Errors
///
/// [`BenchError::Arguments`] without an encapsulation.
pub(super) fn document(
    encapsulation: Encapsulation,
    [client_core, server_core]: [u16; 2],
    realtime: Realtime,
) -> Result<String> {
    let encapsulation = match encapsulation {
        Encapsulation::Vxlan => "vxlan",
        Encapsulation::Geneve => "geneve",
        Encapsulation::None => {
            return Err(BenchError::Arguments(
                "latency measures what an overlay adds: --encapsulation is vxlan or geneve".into(),
            ));
        }
    };
    let idle_sleep_us = if realtime.is_on() { 0 } else { IDLE_SLEEP_US };
    Ok(TOPOLOGY
        .replace("ENCAPSULATION", encapsulation)
        .replace("IDLE_SLEEP", &idle_sleep_us.to_string())
        .replace("CLIENT_CORE", &client_core.to_string())
        .replace("SERVER_CORE", &server_core.to_string()))
}

/// The lab, up and with its servers.
pub(super) struct Network {
    settings: Settings,
    program: PathBuf,
    /// Before the lab, so that they are ended before it.
    servers: Vec<Process>,
    lab: Lab,
    nodes: Nodes,
    _guarded: Guarded,
}

impl Network {
    /// Builds the lab and starts a server for each case.
    ///
    /// # Errors
    ///
    /// [`BenchError::Lab`] where namespaces cannot be made or a node does not start. Everything is removed again.
    pub(super) fn up(settings: Settings, mut progress: impl FnMut(&str)) -> Result<Self> {
        let program = std::env::current_exe().during(|| "looking for the running program".into())?;
        let text = document(settings.encapsulation, settings.cores, settings.realtime)?;
        let guarded = Guarded::new(format!("bench-latency-{}", std::process::id()), &program)?;
        let options = UpOptions {
            name: Some(guarded.lab().to_owned()),
            sluiced: settings.sluiced.clone(),
            port_kind: settings.port_kind,
            ..UpOptions::new(Topology::parse("bench-latency", &text)?)
        };
        let lab = Lab::up(options, &mut progress)?;
        let nodes = Nodes::of(&lab)?;
        let mut network = Self { settings, program, servers: Vec::new(), lab, nodes, _guarded: guarded };
        for case in CASES {
            progress(&format!("starting the server of {}", case.name));
            network.settings.interrupt.check()?;
            let server = network.start_server(case)?;
            network.servers.push(server);
        }
        Ok(network)
    }

    /// The kind of the nodes' ports and why it was chosen.
    pub(super) fn port_kind(&self) -> Option<(PortKind, String)> {
        self.lab.port_kind()
    }

    /// The lab, to capture in.
    pub(super) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Measures some transactions of a case. The nodes run under the real-time scheduler meanwhile, where that is allowed.
    ///
    /// # Errors
    ///
    /// [`BenchError::Process`] with what the client says, where a transaction fails; [`BenchError::Interrupted`].
    pub(super) fn measure(
        &self,
        case: &Case,
        kind: Kind,
        transactions: u64,
        milliseconds: u64,
    ) -> Result<Trial> {
        self.settings.interrupt.check()?;
        let kind_name = match kind {
            Kind::RequestResponse => "request-response",
            Kind::ConnectRequestResponse => "connect-request-response",
        };
        let arguments = [
            ["--server", &case.server_address().to_string()],
            ["--kind", kind_name],
            ["--transactions", &transactions.to_string()],
            ["--milliseconds", &milliseconds.to_string()],
            ["--core", &self.settings.cores[0].to_string()],
        ];
        let words = std::iter::once("client").chain(arguments.iter().flatten().copied());
        let mut text = String::new();
        let running = self.nodes.run(self.settings.realtime);
        let mut client = self.start("latency-client", case.client, words)?;
        if let Some(mut output) = client.child().stdout.take() {
            output.read_to_string(&mut text).during(|| "reading what the client measured".into())?;
        }
        drop(running);
        self.settings.interrupt.check()?;
        serde_json::from_str(&text)
            .map_err(|_| client.failed(format!("the transactions of {} ({}) failed", case.name, kind.name())))
    }

    fn start_server(&self, case: &Case) -> Result<Process> {
        let (port, core) = (PORT.to_string(), self.settings.cores[1].to_string());
        let mut server =
            self.start("latency-server", case.server, ["server", "--port", &port, "--core", &core])?;
        let mut line = String::new();
        if let Some(output) = server.child().stdout.take() {
            BufReader::new(output).read_line(&mut line).during(|| "waiting for the server".into())?;
        }
        if line.trim_end() == READY { Ok(server) } else { Err(server.failed("it takes no connections")) }
    }

    /// Starts one of the ends in a node of the lab.
    fn start<'a>(
        &self,
        name: &'static str,
        node: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<Process> {
        let mut command = if self.settings.realtime.is_on() {
            let mut command = self.lab.command(node, "chrt");
            command.args(["-f", &END_PRIORITY.to_string()]).arg(&self.program);
            command
        } else {
            self.lab.command(node, &self.program.display().to_string())
        };
        command.args(["bench", ENDS]).args(arguments);
        let folder = self.settings.folder.join(node);
        std::fs::create_dir_all(&folder).during(|| format!("creating {}", folder.display()))?;
        start(name, &command, &folder)
    }
}

/// Starts a command of the lab as a process that ends with this one.
pub(super) fn start(name: &'static str, command: &Command, folder: &Path) -> Result<Process> {
    let arguments: Vec<&OsStr> = command.get_args().collect();
    Process::start(name, Path::new(command.get_program()), folder, true, |process| {
        process.args(arguments);
    })
}

/// The processes of the lab's nodes. Stopped unless something is measured.
struct Nodes {
    processes: Vec<ProcessIdentity>,
    /// Their worker threads.
    workers: Vec<u32>,
}

impl Nodes {
    fn of(lab: &Lab) -> Result<Self> {
        let pids: Vec<i32> = lab.status()?.nodes.into_iter().filter_map(|node| node.pid).collect();
        let workers = pids.iter().filter_map(|pid| u32::try_from(*pid).ok());
        let workers = workers.flat_map(|pid| crate::process::threads(pid, "worker-")).collect();
        let nodes = Self { processes: pids.into_iter().filter_map(ProcessIdentity::of).collect(), workers };
        nodes.signal(Signal::SIGSTOP);
        Ok(nodes)
    }

    /// Lets them run until the guard is dropped, in real time where that is allowed; and this process above them, which otherwise had no core to go on with.
    fn run(&self, realtime: Realtime) -> Running<'_> {
        let own = realtime.raise_to(END_PRIORITY, [std::process::id()]);
        self.signal(Signal::SIGCONT);
        let workers = realtime.raise(self.workers.iter().copied());
        Running { _stopped: Stopped(self), _workers: workers, _own: own }
    }

    fn signal(&self, signal: Signal) {
        for process in self.processes.iter().filter(|process| process.is_alive()) {
            // One that ended since is told by the client that misses it.
            let _ = kill(Pid::from_raw(process.pid), signal);
        }
    }
}

impl Drop for Nodes {
    /// A process that is stopped would not end before it is killed.
    fn drop(&mut self) {
        self.signal(Signal::SIGCONT);
    }
}

/// Nodes that run; dropped in this order.
struct Running<'a> {
    _stopped: Stopped<'a>,
    _workers: Raised,
    _own: Raised,
}

/// Stops nodes when it is dropped.
struct Stopped<'a>(&'a Nodes);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::SIGSTOP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topology_is_right_and_has_all_that_the_cases_need() {
        for (encapsulation, name) in [(Encapsulation::Vxlan, "vxlan"), (Encapsulation::Geneve, "geneve")] {
            let text = document(encapsulation, [3, 4], Realtime::new(false)).unwrap();
            let topology = Topology::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
            assert!(text.contains(&format!("encapsulation: {name}")));
            for (node, core) in [("host-1", 3), ("host-2", 4)] {
                let document = topology.node(node).unwrap().document.as_ref().unwrap();
                assert_eq!(document["dataplane"]["cores"], serde_json::json!([core]));
                assert_eq!(document["dataplane"]["idle-sleep-us"], IDLE_SLEEP_US);
            }
            for case in CASES {
                let server = topology.node(case.server).unwrap();
                assert_eq!(server.address(false), Some(case.server_address().ip()), "{}", case.name);
                for (node, interface) in case.points() {
                    let node = topology.node(node).unwrap();
                    assert!(node.interfaces.iter().any(|own| own.name == interface), "{}", case.name);
                }
            }
            assert!(topology.links.iter().all(|link| !link.offloads), "all ends are alike");
        }
    }

    #[test]
    fn without_an_overlay_there_is_nothing_to_measure() {
        let sentence = document(Encapsulation::None, [0, 1], Realtime::new(false)).unwrap_err().to_string();
        assert!(sentence.contains("vxlan or geneve"), "{sentence}");
    }
}
