//! The command line: `sluice bench forward`, `sluice bench peers` and `sluice bench reload`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::error::Result;
use crate::measure::Directions;
use crate::traffic::Family;
use crate::{forward, peers, reload};

/// Measure how fast a node forwards.
#[derive(Args, Debug)]
pub struct BenchArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// A node between two shared-memory ports: packets and bits a second, loss, cycles a packet.
    #[command(after_help = "Examples:
  sluice bench forward --quick
  sluice bench forward --direction encap --family ipv4 --sizes 64,512
  sluice bench forward --json")]
    Forward(ForwardArguments),
    /// The same work on a node and on Open vSwitch with DPDK, in turn, side by side.
    #[command(after_help = "Examples:
  sluice bench peers
  sluice bench peers --rounds 5 --family ipv4 --output peers.json")]
    Peers(PeersArguments),
    /// A node that gets a new document again and again while it forwards as fast as it can: not one packet may be lost because of it.
    #[command(after_help = "Examples:
  sluice bench reload
  sluice bench reload --swaps 20 --json")]
    Reload(ReloadArguments),
}

#[derive(Args, Debug)]
pub(crate) struct ForwardArguments {
    /// Directions, by default each of them.
    #[arg(long = "direction", value_delimiter = ',', value_enum)]
    pub(crate) directions: Vec<Directions>,
    /// Families of the workloads' packets, by default both.
    #[arg(long = "family", value_delimiter = ',', value_enum)]
    pub(crate) families: Vec<Family>,
    /// Bytes of workloads' frames with their frame check sequence, 64 to 1518 [default: 64,128,256,512,1024,1500].
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(64..=1518))]
    pub(crate) sizes: Vec<u16>,
    /// Only 64, 512 and 1500 bytes of IPv4, two short trials each.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print the node document that the bench runs, and nothing else.
    #[arg(long)]
    pub(crate) show_document: bool,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Args, Debug)]
pub(crate) struct PeersArguments {
    /// Rounds, in each of which every case is measured once on each device.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) rounds: u16,
    /// Families of the workloads' packets.
    #[arg(long = "family", value_delimiter = ',', value_enum, default_value = "ipv4")]
    pub(crate) families: Vec<Family>,
    /// File that the rows are written to.
    #[arg(long, value_name = "FILE", default_value = "target/bench/peers.json")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ReloadArguments {
    /// Documents to be swapped in at each of two rates.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) swaps: u16,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Args, Debug)]
pub(crate) struct CommonArguments {
    /// Cores of the generator.
    #[arg(long, value_delimiter = ',', value_name = "CORES", default_values_t = [0u16])]
    pub(crate) generator_cores: Vec<u16>,
    /// Cores of what is measured.
    #[arg(long, value_delimiter = ',', value_name = "CORES", default_values_t = [1u16])]
    pub(crate) device_cores: Vec<u16>,
    /// Milliseconds of each trial [default: 300].
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub(crate) trial_ms: Option<u64>,
    /// Trials of each case, of which the median is shown [default: 5].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) repeat: Option<u16>,
    /// Let nodes lend their packet memory to the generator instead of copying (memif zero-copy; needs huge pages).
    #[arg(long)]
    pub(crate) zero_copy: bool,
    /// Use no huge pages, and reserve none.
    #[arg(long)]
    pub(crate) no_huge_pages: bool,
    /// Leave the measured threads to the ordinary scheduler, also where the real-time one is allowed.
    #[arg(long)]
    pub(crate) no_realtime: bool,
    /// The sluiced program [default: beside the running program, else in PATH].
    #[arg(long, value_name = "PATH")]
    pub(crate) sluiced: Option<PathBuf>,
    /// The sluice-generator program [default: beside the running program, else in PATH].
    #[arg(long, value_name = "PATH")]
    pub(crate) generator: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command. The exit code is 1 where frames came back that are wrong, or a swap cost a packet.
///
/// # Errors
///
/// One sentence on what failed. Everything that was started has been ended by then.
pub fn run(arguments: BenchArguments) -> Result<ExitCode> {
    match arguments.action {
        Action::Forward(arguments) => forward::run(&arguments),
        Action::Peers(arguments) => peers::run(&arguments),
        Action::Reload(arguments) => reload::run(&arguments),
    }
}
