//! The command language: what can be typed, as arguments of `sluice` and as lines of the interactive shell.
//!
//! One tree of commands serves both. The words are those of the node CLI of NSX, so that its users find everything where they expect it.

mod capture;
mod get;
mod trace;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

pub(crate) use capture::{CAPTURE_DIRECTIONS, CAPTURE_OPTIONS, CaptureOptions};
pub(crate) use get::{CpuPart, DataplanePart, FlowCachePart, Get, PortPart, RouterTable};
pub(crate) use trace::Trace;

const EXAMPLES: &str = "\
Examples:
  sluice get dataplane                          the only node that runs here
  sluice --node edge-1 get logical-switches     the node of this name
  sluice 'get dataplane | find ring'            only lines with a word
  sluice get neighbor --json                    for programs
  sluice apply edge.yaml                        take a new node document
  sluice                                        the interactive shell

Which node: --socket, --node, the variable SLUICE_SOCKET, otherwise the only node that runs
here. Sockets are looked for in $SLUICE_RUN_DIR, or in /run/sluice if that is not set, and
in the labs that are up.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage. NO_COLOR=1 turns colours off.";

/// Heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// The tree of commands, without a `help` below each of them: that of the root explains all.
pub(crate) fn tree<T: CommandFactory>() -> clap::Command {
    fn below(command: clap::Command) -> clap::Command {
        command.mut_subcommands(|child| below(child.disable_help_subcommand(true)))
    }
    below(T::command())
}

/// The command line of a Sluice node: look at it, configure it, follow packets through it; and labs on one machine.
///
/// Without a command, on a terminal, it is an interactive shell.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, after_help = EXAMPLES, subcommand_help_heading = "Commands")]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub(crate) node: NodeArguments,
    /// Answer as JSON
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// What to do; the interactive shell if left out.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Which node is asked.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NodeArguments {
    /// Name of the node to ask, NAME or LAB/NAME
    #[arg(id = "target-node", long = "node", value_name = "NAME", global = true, help_heading = GLOBAL)]
    pub(crate) name: Option<String>,
    /// Control socket of the node to ask
    #[arg(
        id = "target-socket",
        long = "socket",
        value_name = "PATH",
        global = true,
        help_heading = GLOBAL,
        conflicts_with = "target-node"
    )]
    pub(crate) socket: Option<PathBuf>,
    /// How long the node gets for each answer [default: 10]
    #[arg(
        id = "target-timeout",
        long = "timeout",
        value_name = "SECONDS",
        global = true,
        help_heading = GLOBAL,
        value_parser = clap::value_parser!(u32).range(1..=86_400)
    )]
    pub(crate) timeout: Option<u32>,
}

impl NodeArguments {
    /// How long the node gets for each answer.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.map_or(sluice_control::DEFAULT_TIMEOUT, |seconds| Duration::from_secs(seconds.into()))
    }
}

/// A line of the interactive shell.
#[derive(Debug, Parser)]
#[command(multicall = true, subcommand_help_heading = "Commands", disable_version_flag = true)]
pub(crate) struct ShellLine {
    #[command(subcommand)]
    pub(crate) command: ShellCommand,
}

/// What a line of the shell asks for.
#[derive(Debug, Subcommand)]
pub(crate) enum ShellCommand {
    #[command(flatten)]
    Node(NodeCommand),
    #[command(flatten)]
    Local(LocalCommand),
    /// Leave the VRF, or the shell
    #[command(visible_alias = "quit")]
    Exit,
}

/// What `sluice` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Node(NodeCommand),
    #[command(flatten)]
    Local(LocalCommand),
    /// Print the completion script of a shell
    #[command(after_help = "Examples:
  sluice completion bash > /etc/bash_completion.d/sluice
  sluice completion zsh > ~/.zfunc/_sluice
  sluice completion fish > ~/.config/fish/completions/sluice.fish")]
    Completion {
        /// The shell
        shell: CompletionShell,
    },
    /// Build, use and remove networks in network namespaces
    #[command(after_help = "Examples:
  sluice lab demo                        build the demonstration, measure it, remove it
  sluice lab up --topology demo          build a lab and leave it up
  sluice lab status                      its nodes and their control sockets
  sluice lab exec web-1 -- ping 192.0.2.10
                                         run a program in a node")]
    Lab(sluice_lab::LabArguments),
    /// Measure a node, or other data planes beside it
    #[command(after_help = "Examples:
  sluice bench --list                    the scenarios, and which document each reproduces
  sluice bench bme-1 --quick --html report.html
                                         throughput and latency by frame size, as a page
  sluice bench peers                     the same work on Open vSwitch with DPDK and others, side by side
  sluice bench compare a.json b.json     what changed beyond noise")]
    Bench(sluice_bench::BenchArguments),
}

/// What is asked of a node.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Show a part of the node's state
    #[command(after_help = "Examples:
  sluice get dataplane
  sluice get route t0
  sluice 'get tunnel-ports | find down'
  sluice get physical-port fp-eth0 stats --json")]
    Get {
        #[command(subcommand)]
        what: Get,
    },
    /// Show the tables of the gateway with this VRF; in the shell, stay in it
    #[command(after_help = "Examples:
  sluice vrf 1 get route
  sluice vrf 1 get forwarding

`get logical-routers` lists the VRFs. In the shell, `vrf 1` enters the VRF and `exit` leaves it.")]
    Vrf {
        /// Number of the VRF
        vrf: u16,
        #[command(subcommand)]
        command: Option<VrfCommand>,
    },
    /// Change a setting of the node
    #[command(after_help = "Examples:
  sluice set dataplane ring-size rx 1024
  sluice set dataplane flow-cache disabled
  sluice set dataplane profile enabled
  sluice set tep tep-1 recover")]
    Set {
        #[command(subcommand)]
        what: Set,
    },
    /// Restart a service of the node
    #[command(after_help = "Examples:
  sluice restart service dataplane
  sluice restart service dataplane --yes")]
    Restart {
        #[command(subcommand)]
        what: Restart,
    },
    /// Give the node a new document; it is taken whole or not at all
    #[command(after_help = "Examples:
  sluice apply edge.yaml
  sluice apply --dry-run edge.yaml       only check it; needs no node
  generate-document | sluice apply -

Every mistake in the document is listed, each with its line. `sluice schema` prints what a document may hold.")]
    Apply {
        /// The node document, YAML or JSON; - reads standard input
        file: PathBuf,
        /// Only check the document
        #[arg(long)]
        dry_run: bool,
    },
    /// Start something that runs for a while
    #[command(after_help = "Examples:
  sluice start capture interface fp-eth0 file uplink.pcap
  sluice start capture interface fp-eth0 file uplink.pcap count 1000 direction input")]
    Start {
        #[command(subcommand)]
        what: Start,
    },
    /// Follow one packet through the pipeline and tell what each stage does with it
    #[command(after_help = "Examples:
  sluice trace from vm-1 to 10.10.30.10
  sluice trace from vm-1 to 192.0.2.10 --protocol tcp --port 443
  sluice trace uplink fp-eth1 --source 192.0.2.10 --destination 10.10.20.10
  sluice trace frame fp-eth1 020000000101020000000202080045...

The packet is only thought through: nothing is sent, and no counter changes.")]
    Trace {
        #[command(subcommand)]
        packet: Trace,
    },
}

/// What needs no node.
#[derive(Debug, Subcommand)]
pub(crate) enum LocalCommand {
    /// Print the JSON Schema of the node document
    #[command(after_help = "Examples:
  sluice schema > node.schema.json

Editors with a YAML language server check and complete a document that begins with
  # yaml-language-server: $schema=node.schema.json")]
    Schema,
    /// Print the version of this program
    #[command(after_help = "Examples:
  sluice version
  sluice get status     the version of the node, among others")]
    Version,
}

/// What `vrf N` can show.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum VrfCommand {
    /// Show a table of the gateway
    #[command(after_help = "Examples:
  sluice vrf 1 get route")]
    Get {
        /// The table
        table: RouterTable,
    },
}

/// What can be set.
#[derive(Debug, Subcommand)]
pub(crate) enum Set {
    /// Settings of the data plane
    #[command(after_help = "Examples:
  sluice set dataplane ring-size tx 2048
  sluice set dataplane flow-cache enabled
  sluice set dataplane profile enabled")]
    Dataplane {
        #[command(subcommand)]
        what: SetDataplane,
    },
    /// A TEP of the node
    #[command(after_help = "Examples:
  sluice set tep tep-1 recover
  sluice get tn-tep-groups")]
    Tep {
        /// Name of the TEP
        name: String,
        /// What with it
        what: SetTep,
    },
}

/// What can be done with a TEP.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SetTep {
    /// Use it again now, though it was faulty; it must work
    Recover,
}

/// Settings of the data plane.
#[derive(Debug, Subcommand)]
pub(crate) enum SetDataplane {
    /// Descriptors of the receive or transmit rings, from the next restart of the data plane on
    #[command(after_help = "Examples:
  sluice set dataplane ring-size rx 1024
  sluice restart service dataplane")]
    RingSize {
        /// Receive or transmit rings
        direction: Direction,
        /// Descriptors of each ring
        #[arg(value_parser = ["512", "1024", "2048", "4096"])]
        size: String,
    },
    /// Turn the flow cache on or off, at once
    #[command(after_help = "Examples:
  sluice set dataplane flow-cache disabled")]
    FlowCache {
        /// Whether decisions are cached
        state: Switch,
    },
    /// Attribute the workers' cycles to stages from now on, from zero, or stop doing so; traffic goes on
    #[command(after_help = "Examples:
  sluice set dataplane profile enabled
  sluice get dataplane stages
  sluice set dataplane profile disabled")]
    Profile {
        /// Whether cycles are attributed
        state: Switch,
    },
}

/// Receive or transmit.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Direction {
    /// Receive rings
    Rx,
    /// Transmit rings
    Tx,
}

/// On or off.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Switch {
    /// On
    Enabled,
    /// Off
    Disabled,
}

/// What can be restarted.
#[derive(Debug, Subcommand)]
pub(crate) enum Restart {
    /// A service of the node
    Service {
        #[command(subcommand)]
        service: Service,
    },
}

/// Services of a node.
#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    /// The data plane: closes and opens all ports; traffic is interrupted
    #[command(after_help = "Examples:
  sluice restart service dataplane --yes")]
    Dataplane {
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// What can be started.
#[derive(Debug, Subcommand)]
pub(crate) enum Start {
    /// Copy the frames of a port into a pcap file
    Capture {
        #[command(subcommand)]
        of: CaptureOf,
    },
}

/// What frames are copied of.
#[derive(Debug, Subcommand)]
pub(crate) enum CaptureOf {
    /// A port, until `count` frames are written or Ctrl-C
    #[command(
        override_usage = "sluice start capture interface <PORT> file <FILE> [count <N>] [direction input|output|dual] [--overwrite]",
        after_help = "Examples:
  sluice start capture interface fp-eth0 file uplink.pcap
  sluice start capture interface fp-eth0 direction output count 100 file /tmp/out.pcap"
    )]
    Interface(CaptureOptions),
}

/// Shells that completion scripts are made for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CompletionShell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}
