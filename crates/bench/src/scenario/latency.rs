//! `latency`: what each feature of a node adds to the time of a request and its response.
//!
//! ```text
//!   cases     the ways from a client to a server, and what their differences are the cost of
//!   network   the lab with all of them at once; clients run one at a time, case after case, round after round
//!   ends      client and server: this program again, inside the lab
//!   capture   dumpcap at the points of a case        merge   captures into the time of each leg        results   the report
//! ```
//!
//! Limits: IPv4; one transaction at a time; everything shares the cores of one machine, so the differences say more than the sums.

mod capture;
mod cases;
mod ends;
mod merge;
mod network;
mod results;

use std::path::PathBuf;

use clap::{Args, Command, FromArgMatches};
use sluice_lab::PortKind;
use sluice_trial::traffic::Encapsulation;

use sluice_trial::topology::Topology;

use crate::arguments::ScenarioArguments;
use crate::command::headings;
use crate::environment::{Core, Port};
use crate::error::{BenchError, Result};
use crate::machine::Realtime;
use crate::report::{self, Report, Section};
use crate::scenario::{Own, Scenario};
use crate::session::Session;
use cases::CASES;
use ends::{Kind, MESSAGE_BYTES};
use merge::Breakdown;
use network::{Network, Settings};
use results::Results;

pub(crate) use ends::{EndArguments, run as run_end};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "latency",
    title: "Added latency",
    about: "What VXLAN and distributed routing add to a request and its response",
    reproduces: Some((
        "How much latency does NSX add? [Part 2 – VXLAN & Distributed Logical Routers]",
        "the three scenarios, by netperf TCP_RR of 1,024 bytes",
    )),
    network: Topology::ONE,
    sizes: &[],
    examples: "Examples:
  sluice bench latency
  sluice bench latency --pcap --html latency.html
  sluice bench latency --encapsulation geneve --repeat 15
  sluice bench latency --pcap client.pcap underlay-1.pcap underlay-2.pcap server.pcap",
    searches: false,
    mebibytes: 0,
    own: Some(&OWN),
    run,
};

/// Its arguments and its document.
const OWN: Own = Own {
    meaningless: &[
        "sizes",
        "families",
        "directions",
        "outer",
        "full",
        "trial_s",
        "loss_tolerance",
        "retries",
        "reset_state",
        "accept_foreign",
        "minimum_rate",
        "link_speed",
        "zero_copy",
        "generator",
    ],
    arguments,
    document: Some(document),
};

/// Arguments of this scenario alone.
#[derive(Args, Debug)]
#[command(next_help_heading = headings::OWN)]
struct LatencyArguments {
    /// Capture at several points and merge the captures into the time of each leg; with FILES, only merge these, in the order in which requests
    /// pass them.
    #[arg(long, value_name = "FILES", num_args = 0..)]
    pcap: Option<Vec<PathBuf>>,
    /// Most transactions of a trial.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    transactions: u64,
    /// Kind of the nodes' ports [default: af_xdp where the kernel allows it].
    #[arg(long, value_name = "KIND")]
    port_kind: Option<PortKind>,
}

/// Longest trial under the real-time scheduler, milliseconds: beyond, the kernel takes the cores away from the nodes for a while.
const LONGEST_MS: u64 = 700;
/// Transactions that are captured.
const CAPTURED: u64 = 2_000;

fn arguments(command: Command) -> Command {
    let command = command
        .mut_arg("encapsulation", |argument| argument.default_value("vxlan"))
        .mut_arg("generator_cores", |argument| {
            argument.help("Core of the clients, and of the node beside them")
        })
        .mut_arg("device_cores", |argument| {
            argument.help("Core of the servers, and of the node beside them")
        });
    LatencyArguments::augment_args(command)
}

fn own(arguments: &ScenarioArguments) -> Result<LatencyArguments> {
    LatencyArguments::from_arg_matches(&arguments.matches)
        .map_err(|error| BenchError::Arguments(error.to_string()))
}

fn cores(arguments: &ScenarioArguments) -> Result<[u16; 2]> {
    match (&arguments.common.generator_cores[..], &arguments.common.device_cores[..]) {
        ([client], [server]) => Ok([*client, *server]),
        _ => Err(BenchError::Arguments(
            "latency takes one core for the clients and one for the servers: name one with --generator-cores and one with --device-cores"
                .into(),
        )),
    }
}

fn document(arguments: &ScenarioArguments) -> Result<String> {
    network::document(
        arguments.encapsulation,
        cores(arguments)?,
        Realtime::new(!arguments.common.no_realtime),
    )
}

fn run(session: &mut Session<'_>, report: &mut Report) -> Result<()> {
    let own = own(session.arguments)?;
    match own.pcap.as_deref() {
        Some(files @ [_, ..]) => merge_files(files, report),
        captured => measure(session, report, &own, captured.is_some()),
    }
}

/// Captures that somebody has taken.
fn merge_files(files: &[PathBuf], report: &mut Report) -> Result<()> {
    report.reproduces = None;
    report.traffic = report::Traffic::default();
    report.environment.cores = Vec::new();
    report.environment.scheduler = None;
    if files.len() < 2 {
        return Err(BenchError::Arguments(
            "two captures at least are needed, in the order in which requests pass their points".into(),
        ));
    }
    let points = files.iter().map(|file| merge::read(file)).collect::<Result<Vec<_>>>()?;
    let name = |file: &PathBuf| file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let (breakdown, counts) = merge::merge(&points, &files.iter().map(name).collect::<Vec<_>>());
    let Some(breakdown) = breakdown else {
        return Err(BenchError::Arguments(format!(
            "nothing can be told from these captures: {}",
            counts.sentence()
        )));
    };
    report.note("The files' times are taken to be of one clock, as those of one machine are.");
    let section = results::legs("legs", "The time of each leg", &breakdown);
    report.section(section.chart(results::stacked([("transaction", &breakdown)])));
    report.result(format!(
        "{} transactions took {:.1} µs (median) at the first point.",
        counts.transactions, breakdown.whole.latency.p50
    ));
    Ok(())
}

fn measure(
    session: &mut Session<'_>,
    report: &mut Report,
    own: &LatencyArguments,
    capture: bool,
) -> Result<()> {
    let cores = cores(session.arguments)?;
    let realtime = session.bench.measuring.realtime;
    let milliseconds = session.bench.measuring.trial_ms;
    if realtime.is_on() && milliseconds > LONGEST_MS {
        return Err(BenchError::Arguments(format!(
            "under the real-time scheduler a trial lasts at most {LONGEST_MS} ms; ask for more of them with --repeat, or add --no-realtime"
        )));
    }
    let settings = Settings {
        encapsulation: session.arguments.encapsulation,
        cores,
        port_kind: own.port_kind,
        sluiced: session.bench.setting.sluiced.clone(),
        realtime,
        folder: session.bench.setting.folder.clone(),
        interrupt: session.bench.setting.interrupt.clone(),
    };
    session.message("building the lab");
    let network = Network::up(settings, |step| session.message(step))?;
    describe(session, report, own, &network, cores)?;
    let captures = if capture { CASES.len() } else { 0 };
    session.steps(CASES.len() * Kind::ALL.len() * session.bench.repeat + captures);
    let mut results = Results::default();
    let measured = rounds(session, own, &network, &mut results);
    results.tell(report);
    measured?;
    if capture { captured(session, report, own, &network) } else { Ok(()) }
}

/// Every case once in each round.
fn rounds(
    session: &mut Session<'_>,
    own: &LatencyArguments,
    network: &Network,
    results: &mut Results,
) -> Result<()> {
    let (repeat, milliseconds) = (session.bench.repeat, session.bench.measuring.trial_ms);
    for round in 1..=repeat {
        for kind in Kind::ALL {
            for case in CASES {
                session.message(format!("round {round} of {repeat}: {} {}", case.name, kind.name()));
                results.push(case, kind, network.measure(case, kind, own.transactions, milliseconds)?);
                session.step();
            }
        }
    }
    Ok(())
}

/// Captures of every case, merged.
fn captured(
    session: &mut Session<'_>,
    report: &mut Report,
    own: &LatencyArguments,
    network: &Network,
) -> Result<()> {
    let mut breakdowns: Vec<(&str, Breakdown)> = Vec::new();
    let setting = session.bench.setting.clone();
    let mut failure = Ok(());
    for case in CASES {
        session.message(format!("capturing {}", case.name));
        let count = own.transactions.min(CAPTURED);
        match capture::record(network, case, count, &setting.folder, &setting.interrupt) {
            Ok((Some(breakdown), _)) => breakdowns.push((case.name, breakdown)),
            Ok((None, counts)) => report.warn(format!("{}: {}", case.name, counts.sentence())),
            Err(error) => {
                failure = Err(error);
                break;
            }
        }
        session.step();
    }
    let chart = results::stacked(breakdowns.iter().map(|(name, breakdown)| (*name, breakdown)));
    if !breakdowns.is_empty() {
        report.section(
            Section::new("breakdown", "Where the time goes")
                .text("Request and response captured where the kernel sees them: at the workloads' interfaces and in the middle. All points have the clock of this machine. The whole begins and ends at the client's interface, so the client's own time is not in it; capturing itself takes time.")
                .chart(chart),
        );
    }
    for (name, breakdown) in &breakdowns {
        let key = format!("legs-{}", name.replace([' ', ','], "-"));
        report.section(results::legs(&key, &format!("Legs: {name}"), breakdown));
    }
    failure
}

/// Under which conditions it is measured.
fn describe(
    session: &Session<'_>,
    report: &mut Report,
    own: &LatencyArguments,
    network: &Network,
    [client_core, server_core]: [u16; 2],
) -> Result<()> {
    let encapsulation = match session.arguments.encapsulation {
        Encapsulation::Geneve => "Geneve",
        _ => "VXLAN",
    };
    report.traffic = report::Traffic {
        flows: Some(1),
        trial_s: Some(session.bench.measuring.trial_ms as f64 / 1e3),
        trials: u32::try_from(session.bench.repeat).ok(),
        description: Some(format!(
            "TCP over IPv4, {MESSAGE_BYTES} bytes each way, one transaction at a time (at most {} a trial), {encapsulation} between TEPs over IPv4",
            own.transactions
        )),
        ..report::Traffic::default()
    };
    let role = |core, role: &str| Core { core, role: role.to_owned() };
    report.environment.cores =
        vec![role(client_core, "clients and host-1"), role(server_core, "servers and host-2")];
    if let Some((kind, why)) = network.port_kind() {
        let (name, kind) = ("all of the nodes".to_owned(), format!("{} on veth: {why}", kind.as_str()));
        report.environment.ports = vec![Port { name, kind, mbps: None }];
    }
    report.documents.push(report::Document { name: "lab".into(), text: document(session.arguments)? });
    report.note(format!(
        "Client and host-1 share core {client_core}, server and host-2 core {server_core}: every transaction includes the changes between the end and the node on \
         each core. On hosts with cores for both the sums are smaller; the differences are what is compared."
    ));
    if session.bench.measuring.realtime.is_on() {
        report.note(
            "Nodes and ends run under the real-time scheduler, the ends above the nodes. Nodes poll without sleep in every case, also in those that do \
             not pass them, so that cores never idle.",
        );
    } else {
        report.warn(format!(
            "Without the real-time scheduler nodes sleep up to {} µs where they find nothing, so that ends get their cores. These sleeps are in every number \
             of a case with nodes, and other work on the machine is in all: run as root, without --no-realtime, to compare with the document.",
            network::IDLE_SLEEP_US
        ));
    }
    Ok(())
}
