//! A lab as its users see it: bring it up, look at it, run programs in its nodes, take it down.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{LabError, Result, While};
use crate::event::Event;
use crate::interrupt::Interrupts;
use crate::process::ProcessIdentity;
use crate::state::{self, PortKind, Settings, StateDirectory, Status};
use crate::topology::{Node, Topology, with_port_kind};
use crate::{init, network, program};

/// How a lab is brought up.
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// What to build.
    pub topology: Topology,
    /// Name of the lab; none: that of the topology.
    pub name: Option<String>,
    /// The `sluiced` program; none: beside the launcher, else in `PATH`.
    pub sluiced: Option<PathBuf>,
    /// Kind of the data path's ports; none: AF_XDP where it works, else AF_PACKET.
    pub port_kind: Option<PortKind>,
    /// What all sluiced together get until they answer on their sockets.
    pub ready_timeout: Duration,
    /// A program that mounts the lab's command as `lab`; none: the running program.
    pub launcher: Option<PathBuf>,
}

impl UpOptions {
    /// The usual: name of the topology, `sluiced` where it is found, ports as they work, half a minute to get ready.
    pub fn new(topology: Topology) -> Self {
        let ready_timeout = Duration::from_secs(30);
        Self { topology, name: None, sluiced: None, port_kind: None, ready_timeout, launcher: None }
    }
}

/// A lab that is up. Dropping it changes nothing; [`Lab::down`] takes it down.
#[derive(Clone, Debug)]
pub struct Lab {
    state: StateDirectory,
    topology: Topology,
    launcher: PathBuf,
}

/// What [`Lab::status`] found.
#[derive(Clone, Debug, Serialize)]
pub struct LabStatus {
    /// Name of the lab.
    pub name: String,
    /// Name of its topology.
    pub topology: String,
    /// Its init.
    pub init: ProcessIdentity,
    /// Whether everything was built and every sluiced answered.
    pub ready: bool,
    /// Whether it has its own user namespace.
    pub user_namespace: bool,
    /// Kind of the data path's ports; none without nodes that run sluiced.
    pub port_kind: Option<PortKind>,
    /// Why that kind.
    pub port_kind_reason: Option<String>,
    /// The directory with its sockets and logs.
    pub directory: PathBuf,
    /// Its nodes, in the order of the topology.
    pub nodes: Vec<NodeStatus>,
}

/// One node of a lab.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// `linux` or `sluiced`.
    pub kind: &'static str,
    /// `up`, or how its sluiced ended.
    pub state: String,
    /// Pid of its sluiced, outside the lab.
    pub pid: Option<i32>,
    /// Control socket of its sluiced.
    pub socket: Option<PathBuf>,
    /// Log of its sluiced.
    pub log: Option<PathBuf>,
    /// Its interfaces as the kernel has them now, the loopback left out.
    pub interfaces: Vec<InterfaceStatus>,
}

/// One interface of a node.
#[derive(Clone, Debug, Serialize)]
pub struct InterfaceStatus {
    /// Kernel name.
    pub name: String,
    /// Whether it is administratively up.
    pub up: bool,
    /// Largest layer-3 packet in bytes.
    pub mtu: u64,
    /// MAC address.
    pub mac: String,
    /// Addresses with prefix lengths, link-local ones left out.
    pub addresses: Vec<String>,
}

impl Lab {
    /// Builds a lab and waits until every sluiced answers on its control socket. Remains of a lab of this name that died are
    /// removed first; when building fails everything is removed again. `progress` hears of every step.
    ///
    /// # Errors
    /// [`LabError::AlreadyUp`], [`LabError::NoNodeDaemon`], [`LabError::Build`] with the last lines of the log at fault.
    pub fn up(options: UpOptions, progress: impl FnMut(&str)) -> Result<Self> {
        Self::up_guarded(options, &Interrupts::default(), progress)
    }

    /// [`Lab::up`], and a signal takes the lab down from the moment on that it exists.
    pub(crate) fn up_guarded(
        options: UpOptions,
        interrupts: &Interrupts,
        progress: impl FnMut(&str),
    ) -> Result<Self> {
        let topology = options.topology;
        let state = StateDirectory::of(options.name.as_deref().unwrap_or(&topology.name))?;
        let launcher = launcher(options.launcher)?;
        let sluiced = match topology.daemons().next() {
            Some(_) => Some(find_sluiced(options.sluiced, &launcher)?),
            None => None,
        };
        let ready_timeout_ms = u64::try_from(options.ready_timeout.as_millis()).unwrap_or(u64::MAX);
        let settings = Settings { sluiced, port_kind: options.port_kind, ready_timeout_ms };
        state.claim()?;
        interrupts.guard(&state);
        let lab = Self { state, topology, launcher };
        match lab.start(&settings, progress) {
            Ok(()) => Ok(lab),
            Err(error) => {
                interrupts.settle();
                lab.state.tear_down()?;
                Err(error)
            }
        }
    }

    /// The running lab of this name.
    ///
    /// # Errors
    /// [`LabError::NotUp`] when there is none.
    pub fn open(name: &str) -> Result<Self> {
        let state = StateDirectory::of(name)?;
        if state.init().is_none() {
            return Err(LabError::NotUp(name.into()));
        }
        let topology = Topology::load(&state.file("topology.yaml").display().to_string())?;
        Ok(Self { state, topology, launcher: launcher(None)? })
    }

    /// Takes the lab of this name down, whatever is left of it. False when there was nothing.
    ///
    /// # Errors
    /// [`LabError::NotGone`] when a process survives SIGKILL; [`LabError::System`] when files cannot be removed.
    pub fn down(name: &str) -> Result<bool> {
        StateDirectory::of(name)?.tear_down()
    }

    /// Names of the labs of the calling user that are up or left something behind, sorted.
    ///
    /// # Errors
    /// [`LabError::NoRuntimeDirectory`].
    pub fn names() -> Result<Vec<String>> {
        Ok(state::all()?.iter().map(|state| state.name().to_string()).collect())
    }

    /// Name of the lab.
    pub fn name(&self) -> &str {
        self.state.name()
    }

    /// What it was built from.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Control socket of a node's sluiced.
    pub fn socket(&self, node: &str) -> PathBuf {
        self.state.socket(node)
    }

    /// The kind of the data path's ports and why it was chosen; none without nodes that run sluiced.
    pub fn port_kind(&self) -> Option<(PortKind, String)> {
        self.state.read::<Status>("status.json")?.port_kind
    }

    /// The document of a node as its sluiced was given it; none of a node that runs no sluiced.
    ///
    /// # Errors
    /// [`LabError::UnknownNode`].
    pub fn document(&self, node: &str) -> Result<Option<Map<String, Value>>> {
        let kind = self.port_kind().map(|(kind, _)| kind);
        let document = self.node(node)?.document.as_ref();
        Ok(document.zip(kind).map(|(document, kind)| with_port_kind(document, kind)))
    }

    /// A command that runs `program` inside a node, to which arguments and redirections are added as usual.
    pub fn command(&self, node: &str, program: &str) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(["lab", "exec", "--name", self.name(), node, "--", program]);
        command
    }

    /// Sets an interface of a node up or down. The kernel forgets the IPv6 addresses of an interface that goes down and the routes
    /// through it; with `up` it gets those of the topology again.
    ///
    /// # Errors
    /// [`LabError::UnknownNode`], [`LabError::UnknownInterface`], or [`LabError::Step`] with what `ip` says.
    pub fn set_link(&self, node: &str, interface: &str, up: bool) -> Result<()> {
        let node = self.node(node)?;
        self.find_interface(node, interface)?;
        let (state, lines) = match up {
            true => ("up", network::set_up(node, interface)),
            false => ("down", vec![format!("link set dev {interface} down")]),
        };
        let mut command = self.command(&node.name, "ip");
        program::run(command.args(["-batch", "-"]), &(lines.join("\n") + "\n")).map(drop).map_err(|error| {
            let why = match error {
                LabError::Program { stderr, .. } => stderr,
                other => other.to_string(),
            };
            LabError::Step(format!("{interface} of node '{}' could not be set {state}: {why}", node.name))
        })
    }

    fn find_interface(&self, node: &Node, interface: &str) -> Result<()> {
        let there = self.interfaces(node).unwrap_or_default();
        if interface == "lo" || there.iter().any(|candidate| candidate.name == interface) {
            return Ok(());
        }
        Err(LabError::UnknownInterface {
            node: node.name.clone(),
            interface: interface.into(),
            interfaces: there.iter().map(|there| there.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Has every sluiced run under the real-time scheduler (SCHED_FIFO) with a priority, and what runs through [`Lab::at_priority`] as well: for
    /// measuring on a machine whose cores others want. Nodes that never sleep would take their cores for good; see `idle-sleep-us` of the node
    /// document.
    ///
    /// # Errors
    /// [`LabError::Program`] where that is not allowed: it takes root.
    pub fn set_realtime(&self, priority: u8) -> Result<()> {
        for pid in self.status()?.nodes.iter().filter_map(|node| node.pid) {
            let mut command = Command::new("chrt");
            command.args(["--all-tasks", "--fifo", "--pid", &priority.to_string(), &pid.to_string()]);
            program::run(&mut command, "")?;
        }
        Ok(())
    }

    /// [`Lab::command`] under the real-time scheduler with a priority, or the ordinary one without. Only for programs that sleep while they wait.
    pub fn at_priority(&self, priority: Option<u8>, node: &str, program: &str) -> Command {
        let Some(priority) = priority else { return self.command(node, program) };
        let mut command = self.command(node, "chrt");
        command.args(["--fifo", &priority.to_string(), program]);
        command
    }

    /// Has an interface of a node lose a share of what it receives, percent, at random; all with 100, nothing any more with 0. The interface must
    /// be one of the kernel's: a port of a data path receives before that.
    ///
    /// A program of classic BPF on the interface's ingress drops what it draws from the kernel's random numbers, which needs neither netem nor a
    /// packet filter.
    ///
    /// # Errors
    /// [`LabError::UnknownNode`], [`LabError::UnknownInterface`], [`LabError::DataPathInterface`], or [`LabError::Program`] with what `tc` says.
    pub fn set_loss(&self, node: &str, interface: &str, percent: u8) -> Result<()> {
        let node = self.node(node)?;
        self.find_interface(node, interface)?;
        self.topology.check_kernel_receives(node, interface)?;
        let node = &node.name;
        let run = |lines: &str| program::run(self.command(node, "tc").args(["-batch", "-"]), lines).map(drop);
        let classifier =
            program::run(self.command(node, "tc").args(["qdisc", "show", "dev", interface]), "")?;
        if classifier.contains("clsact") {
            run(&format!("qdisc del dev {interface} clsact\n"))?;
        }
        match network::loss(interface, percent) {
            Some(lines) => run(&lines),
            None => Ok(()),
        }
    }

    /// The lab as it is now.
    ///
    /// # Errors
    /// [`LabError::NotUp`] when it went away.
    pub fn status(&self) -> Result<LabStatus> {
        let not_up = || LabError::NotUp(self.name().into());
        let init = self.state.init().ok_or_else(not_up)?;
        let status: Status = self.state.read("status.json").ok_or_else(not_up)?;
        let nodes = self.topology.nodes.iter().map(|node| self.node_status(node, init, &status)).collect();
        let (port_kind, port_kind_reason) = status.port_kind.unzip();
        Ok(LabStatus {
            name: self.name().into(),
            topology: self.topology.name.clone(),
            init,
            ready: status.ready,
            user_namespace: status.user_namespace,
            port_kind,
            port_kind_reason,
            directory: self.state.path(),
            nodes,
        })
    }

    pub(crate) fn state(&self) -> &StateDirectory {
        &self.state
    }

    /// The node of this name, or which nodes there are.
    pub(crate) fn node(&self, name: &str) -> Result<&Node> {
        self.topology.node(name).ok_or_else(|| LabError::UnknownNode {
            lab: self.name().into(),
            node: name.into(),
            nodes: self.topology.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Hands over to init and follows it until it is ready.
    fn start(&self, settings: &Settings, mut progress: impl FnMut(&str)) -> Result<()> {
        let failed = |message: String| LabError::Build { lab: self.name().into(), message };
        let path = self.state.file("topology.yaml");
        fs::write(&path, &self.topology.source).doing(|| format!("writing {}", path.display()))?;
        self.state.write("settings.json", settings)?;
        let own = ProcessIdentity::of_self()?.pid;
        let path = self.state.file("init.log");
        let log = fs::File::create(&path).doing(|| format!("creating {}", path.display()))?;
        let mut command = Command::new(&self.launcher);
        command
            .args(init::arguments("launch-init", &self.state, own))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Init inherits it: the caller's would stay open for as long as the lab runs.
            .stderr(log);
        let mut child = command.spawn().doing(|| format!("starting {}", self.launcher.display()))?;
        let events = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
        let mut end = None;
        for line in events.map_while(std::result::Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Event::Step { what }) => progress(&what),
                Ok(Event::Ready) => end = Some(Ok(())),
                Ok(Event::Failed { why }) => end = Some(Err(failed(why))),
                Err(_) => end = Some(Err(failed(format!("its init wrote '{line}' instead of an event")))),
            }
        }
        // The launcher ends by itself; the pipe closes once init, too, has let go of it.
        child.wait().doing(|| "waiting for the launcher".into())?;
        end.unwrap_or_else(|| {
            let log = fs::read_to_string(self.state.file("init.log")).unwrap_or_default();
            Err(failed(format!(
                "its init ended early{}{}",
                if log.is_empty() { "" } else { ": " },
                log.trim()
            )))
        })
    }

    fn node_status(&self, node: &Node, init: ProcessIdentity, status: &Status) -> NodeStatus {
        let daemon = status.daemons.iter().find(|daemon| daemon.node == node.name);
        let runs = node.document.is_some();
        NodeStatus {
            name: node.name.clone(),
            kind: if runs { "sluiced" } else { "linux" },
            state: match daemon {
                Some(daemon) => daemon.ended.clone().unwrap_or_else(|| "up".into()),
                None if runs => "not started".into(),
                None => "up".into(),
            },
            pid: daemon
                .filter(|daemon| daemon.ended.is_none())
                .and_then(|daemon| outer_pid(init, daemon.inner_pid)),
            socket: runs.then(|| self.state.socket(&node.name)),
            log: runs.then(|| self.state.log(&node.name)),
            interfaces: self.interfaces(node).unwrap_or_default(),
        }
    }

    /// The interfaces of a node as `ip` shows them; none when the node is not built yet.
    fn interfaces(&self, node: &Node) -> Option<Vec<InterfaceStatus>> {
        let text =
            program::run(self.command(&node.name, "ip").args(["-json", "address", "show"]), "").ok()?;
        let interfaces: Vec<Value> = serde_json::from_str(&text).ok()?;
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
        let list =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let read = |interface: &Value| InterfaceStatus {
            name: text(interface, "ifname"),
            up: list(interface, "flags").iter().any(|flag| flag == "UP"),
            mtu: interface.get("mtu").and_then(Value::as_u64).unwrap_or_default(),
            mac: text(interface, "address"),
            addresses: list(interface, "addr_info")
                .iter()
                .filter(|address| text(address, "scope") == "global")
                .map(|address| format!("{}/{}", text(address, "local"), address["prefixlen"]))
                .collect(),
        };
        Some(interfaces.iter().filter(|interface| text(interface, "ifname") != "lo").map(read).collect())
    }
}

/// The program that is started again with hidden arguments.
fn launcher(given: Option<PathBuf>) -> Result<PathBuf> {
    given.map_or_else(|| env::current_exe().doing(|| "finding the running program".into()), Ok)
}

/// `sluiced` as given, beside the launcher, or in `PATH`.
fn find_sluiced(given: Option<PathBuf>, launcher: &Path) -> Result<PathBuf> {
    let missing = || LabError::NoNodeDaemon(launcher.parent().unwrap_or(launcher).into());
    let path = env::var_os("PATH").unwrap_or_default();
    let found = match given {
        Some(given) => given.is_file().then_some(given),
        None => {
            let directories = launcher.parent().map(PathBuf::from).into_iter().chain(env::split_paths(&path));
            directories.map(|directory| directory.join("sluiced")).find(|program| program.is_file())
        }
    };
    // Init works elsewhere than the caller.
    found.ok_or_else(missing)?.canonicalize().doing(|| "resolving the path of sluiced".into())
}

/// The pid, in the caller's PID namespace, of the process that the lab of this init numbers `inner`.
fn outer_pid(init: ProcessIdentity, inner: i32) -> Option<i32> {
    let namespace = fs::read_link(format!("/proc/{}/ns/pid", init.pid)).ok()?;
    let inner = inner.to_string();
    fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .find(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            pids.and_then(|pids| pids.split_whitespace().last()) == Some(&inner)
                && fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|other| other == namespace)
        })
}
