//! The traffic generator of the benches.
//!
//! One process, one core or several, DPDK ports of any kind. As `traffic` it plays the tester on the uplinks and the host on the
//! downlinks (over shared memory it is the server); as `echo` it forwards each frame to the other side unread, and so shows what
//! the generator and the links themselves can do. Orders and answers are the JSON lines of `sluice_trial::message`; it ends when its
//! input does.
//!
//! ```text
//!   stdin ─▶ orders ─▶ Station ─ Plan: the frames of a trial ─▶ a Lane for each core ── its queue of every port
//!                                                                 ├─ Sender, Receiver ─ SequenceWindow, Latencies
//!                                                                 ├─ Settling: when the wire is quiet, for all cores
//!                                                                 ├─ Reflector: workloads that send back what they get
//!                                                                 └─ neighbors: ARP and neighbour solicitations
//! ```

#![forbid(unsafe_code)]

mod aggregation;
mod clock;
mod echo;
mod lane;
mod latency;
mod neighbors;
mod plan;
mod ports;
mod receiver;
mod reflector;
mod sender;
mod sequence;
mod settling;
mod station;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};

use clap::{Args, Parser, ValueEnum};
use sluice_dpdk::{Eal, EalOptions, HugePages};
use sluice_trial::message::{Answer, Command};
use sluice_trial::ports::PortName;
use sluice_trial::topology::{MOST_DOWNLINKS, MOST_PATHS, Topology};
use sluice_trial::traffic::{Encapsulation, Family};

use crate::station::Equipment;

/// Sends and counts packets on DPDK ports, under the orders that come as JSON lines on standard input.
#[derive(Parser)]
#[command(version)]
enum Arguments {
    /// Send test traffic.
    #[command(after_help = "Examples:
  sluice-generator traffic --uplink memif:/run/bench.sock:0 --downlink memif:/run/bench.sock:1 --cores 0
  sluice-generator traffic --uplink pci:0000:3b:00.0 --downlink pci:0000:3b:00.1 --cores 2,3,4 --encapsulation vxlan")]
    Traffic {
        #[command(flatten)]
        common: Common,
        /// What carries workloads' frames on the downlinks.
        #[arg(long, value_enum, default_value = "geneve")]
        encapsulation: Encapsulation,
        /// Family of the TEPs.
        #[arg(long, value_enum, default_value = "ipv4")]
        outer: Family,
        /// Speak LACP on the downlinks, which are one LAG.
        #[arg(long)]
        lag: bool,
        /// Routers on the uplinks that the generator plays [default: one on each].
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=i64::from(MOST_PATHS)))]
        paths: Option<u8>,
        /// Receive queues of each port, at least one for each core; at most as many as a shared-memory peer has transmit queues.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
        receive_queues: u16,
    },
    /// Forward every frame to the other side.
    Echo {
        #[command(flatten)]
        common: Common,
        /// Lend the packet memory itself instead of copying (shared memory, with huge pages).
        #[arg(long)]
        zero_copy: bool,
    },
}

#[derive(Args)]
struct Common {
    /// A port on the side of the tester: pci:ADDRESS, memif:SOCKET:ID, af_xdp:INTERFACE, af_packet:INTERFACE, tap:INTERFACE or
    /// vhost:SOCKET.
    #[arg(long = "uplink", value_name = "PORT", required = true, num_args = 1..=usize::from(MOST_PATHS))]
    uplinks: Vec<PortName>,
    /// A port on the side of the workloads.
    #[arg(long = "downlink", value_name = "PORT", required = true, num_args = 1..=usize::from(MOST_DOWNLINKS))]
    downlinks: Vec<PortName>,
    /// The cores to run on; an echo has one.
    #[arg(long, value_delimiter = ',', required = true, value_name = "CORES")]
    cores: Vec<usize>,
    /// Whether packet memory is in huge pages.
    #[arg(long, value_enum, default_value = "auto")]
    huge_pages: Pages,
}

#[derive(Clone, Copy, ValueEnum)]
enum Pages {
    Auto,
    Off,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // To the bench in its own terms, to a person as a sentence.
            let _ = tell(&Answer::Failed { message: format!("{error:#}") });
            eprintln!("sluice-generator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments {
        Arguments::Traffic { common, encapsulation, outer, lag, paths, receive_queues } => {
            let (uplinks, downlinks) = (common.uplinks.len() as u8, common.downlinks.len() as u8);
            let paths = paths.unwrap_or(uplinks);
            anyhow::ensure!(
                (1..=MOST_PATHS).contains(&uplinks) && (1..=MOST_DOWNLINKS).contains(&downlinks),
                "there are 1 to {MOST_PATHS} uplinks and 1 to {MOST_DOWNLINKS} downlinks"
            );
            anyhow::ensure!(
                (uplinks..=MOST_PATHS).contains(&paths),
                "{uplinks} uplinks have {uplinks} to {MOST_PATHS} paths, not {paths}"
            );
            let eal = start_eal(&common)?;
            let topology =
                Topology { uplinks, downlinks, lag, paths, encapsulation, outer, ..Topology::default() };
            let Common { uplinks, downlinks, cores, .. } = common;
            station::run(&eal, &Equipment { uplinks, downlinks, topology, cores, receive_queues }, orders())
        }
        Arguments::Echo { common, zero_copy } => {
            let eal = start_eal(&common)?;
            echo::run(&eal, &common.uplinks, &common.downlinks, zero_copy, orders())
        }
    }
}

fn start_eal(common: &Common) -> anyhow::Result<Eal> {
    let huge_pages = match common.huge_pages {
        Pages::Auto => HugePages::Automatic,
        Pages::Off => HugePages::Off,
    };
    let ports: Vec<PortName> = common.uplinks.iter().chain(&common.downlinks).cloned().collect();
    let options = EalOptions {
        memory_mebibytes: ports::memory_mebibytes(&ports, common.cores.len()),
        huge_pages,
        main_core: common.cores.first().copied(),
        pci_devices: ports::pci_devices(&ports),
        ..EalOptions::default()
    };
    Ok(Eal::init(options)?)
}

/// The orders, read by a thread of their own; the channel closes when the input ends or is no order.
fn orders() -> Receiver<Command> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let sent = serde_json::from_str(&line).map(|command| sender.send(command).is_ok());
            match sent {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    eprintln!("sluice-generator: this is no order: {error}");
                    return;
                }
            }
        }
    });
    receiver
}

/// Writes one answer.
fn tell(answer: &Answer) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(answer)?;
    line.push('\n');
    let mut output = std::io::stdout().lock();
    output.write_all(line.as_bytes())?;
    Ok(output.flush()?)
}
