//! `tep-group`: what a group of two TEPs carries, against one TEP.
//!
//! ```text
//!   network   the lab `tep`, its nodes with the documents of each way of placing flows in turn
//!   results   the report
//! ```
//!
//! Each round measures four TCP streams at once without a group, by hash and by load, one after the other, so that a factor is that of two
//! measurements of the same round. What limits is the edge's uplinks, which the lab limits; BFD is off, so that a machine whose cores are
//! busy does not take tunnels out of use meanwhile.

mod network;
mod results;

use clap::{Args, Command, FromArgMatches};
use sluice_lab::PortKind;
use sluice_lab::iperf::Span;
use sluice_trial::topology::Topology;

use crate::arguments::ScenarioArguments;
use crate::command::headings;
use crate::environment::Port;
use crate::error::{BenchError, Result};
use crate::report::{self, Report};
use crate::scenario::{Own, Scenario};
use crate::session::Session;
use network::{Network, Placing, Settings};
use results::Results;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "tep-group",
    title: "TEP groups",
    about: "What two TEPs in a group carry, against one: four streams of TCP by iperf3",
    reproduces: Some((
        "More performance through NSX Edge TEP groups?",
        "four workloads send to a target at once, without TEP groups and with them",
    )),
    network: Topology::ONE,
    sizes: &[],
    examples: "Examples:
  sluice bench tep-group
  sluice bench tep-group --repeat 10 --html tep-group.html
  sluice bench tep-group --reverse --quick
  sluice bench tep-group --full                      100 seconds each, as the document",
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
        "encapsulation",
        "loss_tolerance",
        "retries",
        "reset_state",
        "accept_foreign",
        "minimum_rate",
        "link_speed",
        "zero_copy",
        "generator",
        "trial_ms",
        "generator_cores",
        "device_cores",
        "uplinks",
        "downlinks",
        "device_uplinks",
        "device_downlinks",
        "kind",
        "uplink_macs",
        "downlink_macs",
        "no_huge_pages",
        "profile",
    ],
    arguments,
    document: Some(|_| Ok(network::topology()?.source)),
};

/// Arguments of this scenario alone.
#[derive(Args, Debug)]
#[command(next_help_heading = headings::OWN)]
struct TepGroupArguments {
    /// The target sends, and the workloads receive.
    #[arg(long)]
    reverse: bool,
    /// Kind of the nodes' ports [default: af_xdp where the kernel allows it].
    #[arg(long, value_name = "KIND")]
    port_kind: Option<PortKind>,
}

/// Seconds of each measurement, with `--quick` and without, and with `--full`: the document's.
const SECONDS: [u16; 3] = [4, 10, 100];
/// Seconds before each that do not count.
const OMITTED_S: u16 = 2;
/// Bytes that each stream has on its way at most: the four of them, with what the system adds for its own use, fit into the queue of one limited
/// uplink (50 ms and the bucket, 376 kB), so that each case fills its uplinks and none loses what it has to send again.
const WINDOW: u32 = 64 * 1024;
/// Real-time priority of the nodes, which sleep when there is nothing to do.
const PRIORITY: u8 = 10;

fn arguments(command: Command) -> Command {
    let command = command
        .mut_arg("trial_s", |argument| {
            argument.help("Seconds of each measurement [default: 10, with --quick 4, with --full 100]")
        })
        .mut_arg("show_document", |argument| {
            argument.help("Print the lab, whose nodes get their groups taken away and changed for each way of placing, and no BFD")
        })
        .mut_arg("full", |argument| argument.help("The document's own 100 seconds"))
        .mut_arg("quick", |argument| argument.help("Short measurements, and few"))
        .mut_arg("repeat", |argument| argument.help("Rounds [default: 5, with --quick 2]"));
    TepGroupArguments::augment_args(command)
}

fn seconds(arguments: &ScenarioArguments) -> u16 {
    let [quick, usual, full] = SECONDS;
    let otherwise = match (arguments.quick, arguments.full) {
        (true, _) => quick,
        (_, true) => full,
        _ => usual,
    };
    // Whole seconds are what iperf3 takes; the command line lets 600 through at most.
    arguments.trial_s.map_or(otherwise, |seconds| seconds.ceil() as u16)
}

fn run(session: &mut Session<'_>, report: &mut Report) -> Result<()> {
    let own = TepGroupArguments::from_arg_matches(&session.arguments.matches)
        .map_err(|error| BenchError::Arguments(error.to_string()))?;
    let realtime = session.bench.measuring.realtime.is_on().then_some(PRIORITY);
    let span = Span { seconds: seconds(session.arguments), omitted: OMITTED_S, window: Some(WINDOW) };
    let settings = Settings {
        port_kind: own.port_kind,
        sluiced: session.bench.setting.sluiced.clone(),
        interrupt: session.bench.setting.interrupt.clone(),
        reverse: own.reverse,
        span,
        realtime,
    };
    session.message("building the lab");
    let mut network = Network::up(settings, |step| session.message(step))?;
    describe(session, report, &own, &network, span);
    tell_scheduler(report, realtime);
    let rounds = session.bench.repeat;
    session.steps(rounds * Placing::ALL.len());
    let mut results = Results::default();
    let measured = measure(session, &mut network, &mut results);
    results.tell(report);
    measured
}

fn measure(session: &mut Session<'_>, network: &mut Network, results: &mut Results) -> Result<()> {
    let rounds = session.bench.repeat;
    for round in 1..=rounds {
        let mut measured = Vec::new();
        for placing in Placing::ALL {
            session.message(format!("round {round} of {rounds}: {}", placing.name()));
            measured.push(network.measure(placing)?);
            session.step();
        }
        results.push(measured);
    }
    Ok(())
}

/// Under which conditions it is measured.
fn describe(
    session: &Session<'_>,
    report: &mut Report,
    own: &TepGroupArguments,
    network: &Network,
    span: Span,
) {
    let way =
        if own.reverse { "from the target to four workloads" } else { "from four workloads to the target" };
    report.traffic = report::Traffic {
        flows: Some(4),
        trial_s: Some(span.seconds.into()),
        trials: u32::try_from(session.bench.repeat).ok(),
        description: Some(format!(
            "TCP by iperf3, {way} at once; the first {} s of each do not count; at most {} KiB of each on the way, so that queues do not overflow; Geneve between TEPs over IPv4",
            span.omitted,
            WINDOW / 1024
        )),
        ..report::Traffic::default()
    };
    report.environment.cores = Vec::new();
    if let Some((kind, why)) = network.port_kind() {
        let (name, kind) = ("all of the nodes".to_owned(), format!("{} on veth: {why}", kind.as_str()));
        report.environment.ports = vec![Port { name, kind, mbps: None }];
    }
    report.documents.push(report::Document { name: "lab".into(), text: network.source().to_owned() });
    report.note(format!(
        "Each of the edge's two uplinks carries {} Mb/s of layer 2, by a token bucket of the kernel beside it, so that three nodes, iperf3 and \
         everything else are far from what this machine's cores can do. The document's carry 2.5 Gb/s. Nothing else is limited.",
        network::RATE_MBPS
    ));
}

/// What other programs on the machine can do to the numbers.
fn tell_scheduler(report: &mut Report, realtime: Option<u8>) {
    if realtime.is_some() {
        report.note(
            "Nodes run under the real-time scheduler. iperf3 does not: it polls while a queue is full, and would keep the nodes from their cores. On a busy machine it is held up, \
             and an uplink is idle meanwhile.",
        );
    } else {
        report.warn(
            "Without the real-time scheduler other programs on the machine hold up the nodes, and queues run empty meanwhile: run as root, without --no-realtime.",
        );
    }
}
