//! The command line: what `sluice bench` measures, and what it does with reports of earlier runs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use sluice_trial::ports::PortName;

use crate::error::Result;
use crate::report::compare::LEAST_CHANGE;
use crate::scenario::latency::{self, EndArguments};
use crate::scenario::{self, Choice};
use crate::{session, stored};

/// Name of the hidden command that runs the ends of the latency scenario.
pub(crate) const ENDS: &str = "latency-end";

/// Measure how fast a node forwards.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true, subcommand_negates_reqs = true)]
pub struct BenchArguments {
    /// List the scenarios and what they reproduce.
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand, Debug)]
enum Action {
    #[command(flatten)]
    Scenario(Box<Choice>),
    /// What changed between two reports of one scenario beyond noise; the exit code is 1 where something became worse.
    #[command(after_help = "Examples:
  sluice bench compare before.json after.json
  sluice bench compare before.html after.html --least-change 5 --json")]
    Compare(CompareArguments),
    /// A report of an earlier run, shown again.
    #[command(after_help = "Examples:
  sluice bench show report.json
  sluice bench show report.json --html report.html")]
    Show(ShowArguments),
    #[command(name = ENDS, hide = true)]
    LatencyEnd(EndArguments),
}

#[derive(Args, Debug)]
pub(crate) struct CompareArguments {
    /// The report that the other is judged by, as --json or --html wrote it.
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// The report that is judged.
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// Least change that is told, percent.
    #[arg(long, value_name = "PERCENT", default_value_t = LEAST_CHANGE, value_parser = percentage)]
    pub(crate) least_change: f64,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArguments {
    /// The report, as --json or --html wrote it.
    pub(crate) report: PathBuf,
    /// Write a page to this file as well.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CommonArguments {
    /// Cores of the generator.
    #[arg(long, value_delimiter = ',', value_name = "CORES", default_values_t = [0u16], help_heading = headings::MACHINE)]
    pub(crate) generator_cores: Vec<u16>,
    /// Cores of what is measured.
    #[arg(long, value_delimiter = ',', value_name = "CORES", default_values_t = [1u16], help_heading = headings::MACHINE)]
    pub(crate) device_cores: Vec<u16>,
    /// A port of the generator on the side of the tester, once for each uplink: pci:ADDRESS, af_xdp:INTERFACE, af_packet:INTERFACE,
    /// tap:INTERFACE, vhost:SOCKET or memif:SOCKET:ID [default: shared memory for all ports].
    #[arg(long = "uplink", value_name = "PORT", requires = "downlinks", help_heading = headings::PORTS)]
    pub(crate) uplinks: Vec<PortName>,
    /// A port of the generator on the side of the workloads, once for each downlink.
    #[arg(long = "downlink", value_name = "PORT", requires = "uplinks", help_heading = headings::PORTS)]
    pub(crate) downlinks: Vec<PortName>,
    /// The node's port at the other end of an uplink, in the same order.
    #[arg(long = "device-uplink", value_name = "PORT", requires_all = ["uplinks", "device_downlinks"], help_heading = headings::PORTS)]
    pub(crate) device_uplinks: Vec<PortName>,
    /// The node's port at the other end of a downlink, in the same order.
    #[arg(long = "device-downlink", value_name = "PORT", requires_all = ["uplinks", "device_uplinks"], help_heading = headings::PORTS)]
    pub(crate) device_downlinks: Vec<PortName>,
    /// Milliseconds of each trial at the highest rate [default: 300, with --quick 150].
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=60_000), help_heading = headings::TRIALS)]
    pub(crate) trial_ms: Option<u64>,
    /// Trials of each case, or searches where a scenario searches; the median is shown [default: 5, with --quick 2; 1 search].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=100), help_heading = headings::TRIALS)]
    pub(crate) repeat: Option<u16>,
    /// Let nodes lend their packet memory to the generator instead of copying (memif zero-copy; needs huge pages).
    #[arg(long, help_heading = headings::MACHINE)]
    pub(crate) zero_copy: bool,
    /// Use no huge pages, and reserve none.
    #[arg(long, help_heading = headings::MACHINE)]
    pub(crate) no_huge_pages: bool,
    /// Leave the measured threads to the ordinary scheduler, also where the real-time one is allowed.
    #[arg(long, help_heading = headings::MACHINE)]
    pub(crate) no_realtime: bool,
    /// The sluiced program [default: beside the running program, else in PATH].
    #[arg(long, value_name = "PATH", help_heading = headings::MACHINE)]
    pub(crate) sluiced: Option<PathBuf>,
    /// The sluice-generator program [default: beside the running program, else in PATH].
    #[arg(long, value_name = "PATH", help_heading = headings::MACHINE)]
    pub(crate) generator: Option<PathBuf>,
    /// The report on standard output as JSON, in place of tables.
    #[arg(long, help_heading = headings::REPORT)]
    pub(crate) json: bool,
}

/// Headings of the help, under which arguments stand together wherever they are defined.
pub(crate) mod headings {
    pub(crate) const TRAFFIC: &str = "Traffic";
    pub(crate) const TRIALS: &str = "Trials and searches";
    pub(crate) const OWN: &str = "This scenario alone";
    pub(crate) const REPORT: &str = "Report";
    pub(crate) const PORTS: &str = "Ports";
    pub(crate) const DEVICE: &str = "Another device than a node";
    pub(crate) const MACHINE: &str = "Machine and programs";
}

/// Runs the command. The exit code is 1 where frames came back that are wrong, a swap cost a packet, or a comparison found something worse.
///
/// # Errors
///
/// One sentence on what failed. Everything that was started has been ended by then.
pub fn run(arguments: BenchArguments) -> Result<ExitCode> {
    let Some(action) = arguments.action else {
        print!("{}", scenario::list());
        return Ok(ExitCode::SUCCESS);
    };
    match action {
        Action::Scenario(choice) => session::run(&choice),
        Action::Compare(arguments) => stored::compare(&arguments),
        Action::Show(arguments) => stored::show(&arguments),
        Action::LatencyEnd(arguments) => latency::run_end(&arguments).map(|()| ExitCode::SUCCESS),
    }
}

/// A percentage from 0 to 100.
fn percentage(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("a number of percent from 0 to 100".into()),
    }
}
