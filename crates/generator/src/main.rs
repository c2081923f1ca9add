//! The traffic generator of the benches.
//!
//! One process, one core, two shared-memory (memif) ports. As `traffic` it is the server of both links and plays the tester on the
//! uplink and the host on the downlink; as `echo` it is the client, forwards each frame to the other port unread, and so shows what
//! the generator and the links themselves can do. Orders and answers are the JSON lines of `sluice_bench::message`; it ends when its
//! input does.
//!
//! ```text
//!   stdin ─▶ orders ─▶ Station ── ports 0 (uplink), 1 (downlink)
//!                        ├─ trial: Sender, Receiver ─ SequenceWindow
//!                        └─ neighbors: answers to ARP and neighbour solicitations, in trials and between them
//! ```

#![forbid(unsafe_code)]

mod echo;
mod links;
mod neighbors;
mod receiver;
mod sender;
mod sequence;
mod station;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};

use clap::{Args, Parser, ValueEnum};
use sluice_bench::message::{Answer, Command};
use sluice_dpdk::{Eal, EalOptions, HugePages};

/// Sends and counts packets on two shared-memory ports, under the orders that come as JSON lines on standard input.
#[derive(Parser)]
#[command(version)]
enum Arguments {
    /// Send test traffic: the server of both links.
    Traffic {
        #[command(flatten)]
        common: Common,
        /// Receive queues of each port; at most as many as the peer has transmit queues.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
        receive_queues: u16,
    },
    /// Forward every frame to the other port: the client of both links.
    Echo {
        #[command(flatten)]
        common: Common,
        /// Lend the packet memory itself instead of copying.
        #[arg(long)]
        zero_copy: bool,
    },
}

#[derive(Args)]
struct Common {
    /// The memif socket; link 0 is the uplink, link 1 the downlink.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// The core to run on.
    #[arg(long)]
    core: usize,
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
        Arguments::Traffic { common, receive_queues } => {
            let eal = start_eal(&common)?;
            station::run(&eal, &common.socket, receive_queues, orders())
        }
        Arguments::Echo { common, zero_copy } => {
            let eal = start_eal(&common)?;
            echo::run(&eal, &common.socket, zero_copy, orders())
        }
    }
}

fn start_eal(common: &Common) -> anyhow::Result<Eal> {
    let huge_pages = match common.huge_pages {
        Pages::Auto => HugePages::Automatic,
        Pages::Off => HugePages::Off,
    };
    let options = EalOptions {
        memory_mebibytes: 64,
        huge_pages,
        main_core: Some(common.core),
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
