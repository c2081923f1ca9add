//! The command line: `sluice lab up|status|exec|link|loss|down|demo|faults`.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{LabError, Result};
use crate::faults::flight::SenderArguments;
use crate::interrupt::Interrupts;
use crate::lab::{Lab, LabStatus, UpOptions};
use crate::state::{PortKind, StateDirectory};
use crate::topology::Topology;
use crate::{demo, exec, faults, init};

/// Build, use and remove networks in network namespaces.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  sluice lab demo                               build the demonstration, measure it, remove it
  sluice lab up                                 build it and leave it up
  sluice lab status                             its nodes and their control sockets
  sluice lab exec web-1 -- ping -c 3 192.0.2.10 run a program in a node
  sluice lab link tor uplink down               cut a link; `up` restores addresses and routes
  sluice lab faults cut-link                    break something on purpose, and measure what it costs
  sluice lab down                               remove it")]
pub struct LabArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Build a lab and wait until it is ready.
    Up(UpArguments),
    /// List the labs that are up.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the nodes of a lab: state, interfaces, addresses, control sockets.
    Status {
        #[command(flatten)]
        which: Which,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a program in a node; its exit code is this command's.
    #[command(after_help = "Examples:
  sluice lab exec web-1 -- ping -c 3 192.0.2.10
  sluice lab exec host-1 -- ethtool -S fp-eth0")]
    Exec {
        #[command(flatten)]
        which: Which,
        /// The node.
        node: String,
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<String>,
    },
    /// Set an interface of a node up or down; up gives it back its addresses and routes.
    #[command(after_help = "Examples:
  sluice lab link tor uplink down
  sluice lab link tor uplink up")]
    Link {
        #[command(flatten)]
        which: Which,
        /// The node.
        node: String,
        /// The interface.
        interface: String,
        /// What it becomes.
        state: LinkState,
    },
    /// Have an interface of the kernel lose a share of what it receives, at random.
    #[command(after_help = "Examples:
  sluice lab loss tor uplink 30
  sluice lab loss tor uplink 0                  nothing any more")]
    Loss {
        #[command(flatten)]
        which: Which,
        /// The node.
        node: String,
        /// The interface.
        interface: String,
        /// Percent; 100 is everything.
        #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
        percent: u8,
    },
    /// Remove a lab, also what is left of one that died.
    Down {
        #[command(flatten)]
        which: Which,
    },
    /// Build a lab, prove that it carries traffic, and remove it.
    Demo {
        #[command(flatten)]
        up: UpArguments,
        /// Seconds of each throughput measurement.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=60))]
        seconds: u16,
        /// The `sluice` program that queries nodes [default: beside the running program, else in PATH].
        #[arg(long, value_name = "PATH")]
        sluice: Option<PathBuf>,
    },
    /// Break links, paths and nodes on purpose, measure what that costs, and compare it with what it may cost.
    #[command(after_help = faults_help())]
    Faults {
        /// What to break [default: everything].
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Times that each is broken.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
        repeat: u16,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Leave nodes and probes to the ordinary scheduler, also where the real-time one is allowed.
        #[arg(long)]
        no_realtime: bool,
        /// The sluiced program [default: beside the running program, else in PATH].
        #[arg(long, value_name = "PATH")]
        sluiced: Option<PathBuf>,
        /// Kind of the ports on veth interfaces [default: af_xdp where the kernel allows it].
        #[arg(long, value_name = "KIND")]
        port_kind: Option<PortKind>,
    },
    #[command(hide = true)]
    SendProbe(SenderArguments),
    #[command(hide = true)]
    ReceiveProbe,
    #[command(hide = true)]
    LaunchInit { state: PathBuf, claimant: i32 },
    #[command(hide = true)]
    RunInit {
        state: PathBuf,
        claimant: i32,
        #[arg(long)]
        user_namespace: bool,
    },
}

#[derive(Args, Debug)]
struct UpArguments {
    /// A built-in topology (demo, linux, tep, edges) or the path of a YAML file.
    #[arg(long, default_value = "demo", value_name = "NAME|FILE")]
    topology: String,
    /// Name of the lab [default: that of the topology].
    #[arg(long)]
    name: Option<String>,
    /// The sluiced program [default: beside the running program, else in PATH].
    #[arg(long, value_name = "PATH")]
    sluiced: Option<PathBuf>,
    /// Kind of the ports on veth interfaces [default: af_xdp where the kernel allows it].
    #[arg(long, value_name = "KIND")]
    port_kind: Option<PortKind>,
    /// Seconds that the nodes get to become ready.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=600))]
    ready_timeout: u16,
}

/// The lab that is meant where none is named and none is up.
const DEFAULT_NAME: &str = "demo";

/// Which lab.
#[derive(Args, Debug)]
struct Which {
    /// Name of the lab [default: that of the topology, else the only one that is up].
    #[arg(long)]
    name: Option<String>,
    /// The topology that the lab was built from.
    #[arg(long, value_name = "NAME|FILE")]
    topology: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LinkState {
    Up,
    Down,
}

/// Runs the command. The process must have one thread (namespaces are a matter of the whole process) and must have mounted
/// [`LabArguments`] as its subcommand `lab` (the lab's init is this same program).
///
/// # Errors
/// [`LabError`], to be printed on standard error with exit code 1.
pub fn run(arguments: LabArguments) -> Result<ExitCode> {
    match arguments.action {
        Action::Up(arguments) => up(arguments)?,
        Action::List { json } => list(json)?,
        Action::Status { which, json } => status(&Lab::open(&which.lab()?)?.status()?, json),
        Action::Exec { which, node, program } => {
            return Ok(exec::run(&Lab::open(&which.lab()?)?, &node, &program)?.into());
        }
        Action::Link { which, node, interface, state } => {
            let up = matches!(state, LinkState::Up);
            Lab::open(&which.lab()?)?.set_link(&node, &interface, up)?;
            say(format_args!("{interface} of {node} is {}", if up { "up" } else { "down" }));
        }
        Action::Loss { which, node, interface, percent } => {
            Lab::open(&which.lab()?)?.set_loss(&node, &interface, percent)?;
            match percent {
                0 => say(format_args!("{interface} of {node} loses nothing any more")),
                _ => say(format_args!("{interface} of {node} loses {percent} % of what it receives")),
            }
        }
        Action::Down { which } => down(&which.lab()?)?,
        Action::Demo { up, seconds, sluice } => return demonstrate(up, seconds, sluice),
        Action::Faults { names, repeat, json, no_realtime, sluiced, port_kind } => {
            let interrupts = Interrupts::watch()?;
            let options =
                |topology| UpOptions { sluiced: sluiced.clone(), port_kind, ..UpOptions::new(topology) };
            let settings = faults::Settings { names, repeat, json, realtime: !no_realtime };
            return with_spinner(|progress| faults::run(options, &settings, &interrupts, progress));
        }
        Action::SendProbe(arguments) => faults::flight::send(&arguments)?,
        Action::ReceiveProbe => faults::flight::receive()?,
        Action::LaunchInit { state, claimant } => init::launch(&StateDirectory::at(&state)?, claimant)?,
        Action::RunInit { state, claimant, user_namespace } => {
            init::run(&StateDirectory::at(&state)?, claimant, user_namespace)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl UpArguments {
    fn options(self) -> Result<UpOptions> {
        Ok(UpOptions {
            name: self.name,
            sluiced: self.sluiced,
            port_kind: self.port_kind,
            ready_timeout: Duration::from_secs(self.ready_timeout.into()),
            ..UpOptions::new(Topology::load(&self.topology)?)
        })
    }
}

impl Which {
    fn lab(&self) -> Result<String> {
        match (&self.name, &self.topology) {
            (Some(name), _) => Ok(name.clone()),
            (None, Some(topology)) => Ok(Topology::load(topology)?.name),
            (None, None) => match Lab::names()?.as_slice() {
                [] => Ok(DEFAULT_NAME.into()),
                [only] => Ok(only.clone()),
                several => Err(LabError::Ambiguous(several.join(", "))),
            },
        }
    }
}

fn up(arguments: UpArguments) -> Result<()> {
    let interrupts = Interrupts::watch()?;
    let options = arguments.options()?;
    let lab = with_spinner(|progress| Lab::up_guarded(options, &interrupts, progress))?;
    interrupts.release();
    let (nodes, daemons) = (lab.topology().nodes.len(), lab.topology().daemons().count());
    say(format_args!("lab '{}' is up: {nodes} nodes, {daemons} of them run sluiced", lab.name()));
    if let Some((kind, why)) = lab.port_kind() {
        say(format_args!("ports are {}: {why}", kind.as_str()));
    }
    say("try:");
    let named = lab.name() != DEFAULT_NAME || Lab::names()?.len() > 1;
    for line in suggestions(&lab, &own_name(), named) {
        say(format_args!("  {line}"));
    }
    Ok(())
}

/// What can be broken, below the help.
fn faults_help() -> String {
    format!(
        "Faults:\n{}\nExamples:\n  sluice lab faults\n  sluice lab faults cut-link black-hole --repeat 10\n  sluice lab faults kill-node --json",
        faults::list()
    )
}

/// The running program as the user wrote it.
fn own_name() -> String {
    std::env::args().next().unwrap_or_else(|| "sluice".into())
}

/// Three commands for a lab that just came up: look at traffic, look at a node, take it down. Where its name does not go without saying they have it.
fn suggestions(lab: &Lab, program: &str, named: bool) -> [String; 3] {
    let (topology, name) = (lab.topology(), lab.name());
    let which = if named { format!(" --name {name}") } else { String::new() };
    let traffic = topology.demonstration.as_ref().and_then(|script| {
        let tester = topology.node(&script.tester)?.addresses().next()?;
        Some(format!("{} -- ping -c 3 {tester}", script.workloads.first()?))
    });
    let traffic = traffic.or_else(|| Some(format!("{} -- ip address", topology.nodes.first()?.name)));
    let edge =
        topology.demonstration.as_ref().and_then(|script| Some(&script.logical_switches.as_ref()?.node));
    let node = edge.or_else(|| Some(&topology.daemons().next()?.0.name));
    let lab_of_node = if named { format!("{name}/") } else { String::new() };
    [
        traffic.map_or_else(String::new, |traffic| format!("{program} lab exec{which} {traffic}")),
        node.map_or_else(
            || format!("{program} lab status{which}"),
            |node| format!("{program} --node {lab_of_node}{node} get logical-routers"),
        ),
        format!("{program} lab down{which}"),
    ]
}

fn list(json: bool) -> Result<()> {
    let labs = Lab::names()?.iter().map(|name| Lab::open(name)?.status()).collect::<Result<Vec<_>>>()?;
    if json {
        let labs = labs.iter().map(
            |lab| serde_json::json!({"name": lab.name, "topology": lab.topology, "nodes": lab.nodes.len()}),
        );
        say(serde_json::Value::from_iter(labs));
        return Ok(());
    }
    if labs.is_empty() {
        say("no lab is up; build one with 'sluice lab up'");
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["lab", "topology", "nodes"]);
    for lab in &labs {
        table.add_row([&lab.name, &lab.topology, &lab.nodes.len().to_string()]);
    }
    say(table);
    Ok(())
}

fn down(name: &str) -> Result<()> {
    let found = with_spinner(|mut progress| {
        progress(&format!("taking lab '{name}' down"));
        Lab::down(name)
    })?;
    say(format_args!("lab '{name}' {}", if found { "is down" } else { "was not up" }));
    Ok(())
}

fn demonstrate(arguments: UpArguments, seconds: u16, sluice: Option<PathBuf>) -> Result<ExitCode> {
    let interrupts = Interrupts::watch()?;
    let options = arguments.options()?;
    let settings = demo::Settings { seconds, sluice };
    with_spinner(|progress| demo::run(options, &settings, &interrupts, progress))
}

/// A line on the terminal that shows the step in progress; a line for each step where standard error is no terminal.
fn with_spinner<T>(work: impl FnOnce(Box<dyn FnMut(&str)>) -> Result<T>) -> Result<T> {
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::new_spinner().with_style(style);
    let (line, terminal) = (bar.clone(), stderr().is_terminal());
    let result = work(Box::new(move |step| {
        if !terminal {
            // Nobody may read it.
            let _ = writeln!(stderr(), "{step}");
        }
        line.enable_steady_tick(Duration::from_millis(200));
        line.set_message(step.to_string());
    }));
    bar.finish_and_clear();
    result
}

fn status(status: &LabStatus, json: bool) {
    if json {
        say(serde_json::to_string_pretty(status).unwrap_or_default());
        return;
    }
    let kind = match (&status.port_kind, &status.port_kind_reason) {
        (Some(kind), Some(why)) => format!(", ports {} ({why})", kind.as_str()),
        _ => String::new(),
    };
    let state = if status.ready { "up" } else { "being built" };
    let user = if status.user_namespace { " in a user namespace" } else { "" };
    say(format_args!(
        "lab {} ({}): {state}{user}, init is process {}{kind}",
        status.name, status.topology, status.init.pid
    ));
    say(table(status));
}

/// A line for the user. One who reads no further, as `head`, is no error.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(stdout(), "{text}");
}

fn table(status: &LabStatus) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "node",
        "kind",
        "state",
        "pid",
        "interface",
        "addresses",
        "socket",
    ]);
    if stdin().is_terminal() && stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    for node in &status.nodes {
        let up = |up| if up { "" } else { " (down)" };
        let interfaces = node
            .interfaces
            .iter()
            .map(|i| format!("{}{} mtu {}", i.name, up(i.up), i.mtu))
            .collect::<Vec<_>>();
        let addresses = node.interfaces.iter().map(|i| i.addresses.join(" ")).collect::<Vec<_>>();
        table.add_row([
            node.name.clone(),
            node.kind.into(),
            node.state.clone(),
            node.pid.map_or(String::new(), |pid| pid.to_string()),
            interfaces.join("\n"),
            addresses.join("\n"),
            node.socket.as_ref().map_or(String::new(), |path| path.display().to_string()),
        ]);
    }
    table
}
