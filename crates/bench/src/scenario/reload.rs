//! `reload`: documents swapped in under a node that forwards as fast as it can, and what that costs.
//!
//! Each round has a trial without swaps and one in which another thread applies one document after the other. The threads are left to the
//! ordinary scheduler: the node's control thread, which compiles the documents, must get its share of the two cores.
//!
//! Whenever another thread has the generator's core, it reads nothing, and the node finds its ring full. The node counts those packets under a
//! reason of their own; they are shown apart from what was lost in the node, which must be nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Command, FromArgMatches};

use sluice_trial::topology::Topology;

use crate::command::headings;
use crate::error::{BenchError, Result};
use crate::machine::Realtime;
use crate::measure::{Case, Ceiling, Directions, Sample};
use crate::report::{Axis, Chart, Column, Report, Row, Section, Series, Table, marks, median};
use crate::scenario::{Own, Scenario};
use crate::session::Session;
use crate::subject::{Node, Subject, Variant};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "reload",
    title: "New documents at full load",
    about: "A new document again and again while the node forwards as fast as it can: what it costs, and that no packet is lost",
    reproduces: None,
    network: Topology::ONE,
    sizes: &[64],
    examples: "Examples:
  sluice bench reload
  sluice bench reload --swaps 20 --html reload.html
  sluice bench reload --direction encap --sizes 512 --json",
    searches: false,
    mebibytes: 256 + 64,
    own: Some(&OWN),
    run,
};

/// Its arguments.
const OWN: Own = Own {
    meaningless: &[
        "full",
        "trial_s",
        "loss_tolerance",
        "retries",
        "minimum_rate",
        "reset_state",
        "accept_foreign",
        "link_speed",
        "profile",
        "repeat",
    ],
    arguments: |command: Command| {
        ReloadArguments::augment_args(command).mut_arg("trial_ms", |argument| {
            argument.help("Milliseconds of each trial [default: 1000, with --quick 500]")
        })
    },
    document: None,
};

/// Arguments of this scenario alone.
#[derive(Args, Debug)]
#[command(next_help_heading = headings::OWN)]
struct ReloadArguments {
    /// Documents to be swapped in at each of two rates [default: 100, with --quick 20].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    swaps: Option<u16>,
}

/// Milliseconds of a trial and documents at each rate, unless the command line says otherwise, and with `--quick`.
const USUAL: [(u64, u16); 2] = [(1_000, 100), (500, 20)];
/// Share of the highest rate that a round is tried at, behind the highest itself.
const BELOW: f64 = 0.5;
/// The node's drop reason for a packet that found the ring of its port full.
const RING_FULL: &str = "transmit-ring-full";
/// Rounds after which too few swaps were possible.
const MOST_ROUNDS: usize = 200;

fn run(session: &mut Session<'_>, report: &mut Report) -> Result<()> {
    let arguments = session.arguments;
    let own = ReloadArguments::from_arg_matches(&arguments.matches)
        .map_err(|error| BenchError::Arguments(error.to_string()))?;
    let (trial_ms, swaps) = USUAL[usize::from(arguments.quick)];
    let swaps = usize::from(own.swaps.unwrap_or(swaps));
    let topology = session.topology();
    let cases = session.cases(&[Directions::Both, Directions::Encap, Directions::Decap], report)?;
    // Without a choice, both directions at once.
    let cases = session.only_if_unchosen(cases, Directions::Both);
    // Of a generator that nobody disturbs.
    let ceilings = session.ceilings(&topology, &cases, report)?;
    let measuring = &mut session.bench.measuring;
    measuring.trial_ms = arguments.common.trial_ms.unwrap_or(trial_ms);
    measuring.realtime = Realtime::new(false);
    report.traffic.trial_s = Some(measuring.trial_ms as f64 / 1e3);
    report.traffic.trials = None;
    report.environment.scheduler = Some("ordinary".into());
    let mut node = Node::start(&session.bench.setting, Variant::new(topology))?;
    session.describe(&mut node, report);
    session.steps(cases.len() * 2 * swaps);
    let mut rates = Vec::new();
    let outcome = cases
        .iter()
        .zip(&ceilings)
        .try_for_each(|(case, ceiling)| measure(session, &mut node, (case, ceiling), swaps, &mut rates));
    rates.retain(|rate: &Rate| !rate.swapping.is_empty());
    tell(report, &rates);
    outcome?;
    session.tell_drops(&mut node, report)
}

/// Both rates of a case. What was measured before an error stays in `rates`.
fn measure(
    session: &mut Session<'_>,
    node: &mut Node,
    (case, ceiling): (&Case, &Ceiling),
    swaps: usize,
    rates: &mut Vec<Rate>,
) -> Result<()> {
    session.message(format!("{case}: the highest rate"));
    let highest = session.bench.measuring.sample(node, case)?.result.packets_per_second();
    for (name, limit) in [("the highest", None), ("half of it", Some(highest * BELOW))] {
        let mut rate = Rate::new((case, ceiling), name, limit);
        let outcome = rate.run(session, node, swaps);
        rates.push(rate);
        outcome?;
    }
    Ok(())
}

/// Rounds at one rate, each a trial without swaps and one with.
struct Rate {
    case: Case,
    ceiling: Ceiling,
    name: &'static str,
    /// Packets a second; the highest rate without.
    limit: Option<f64>,
    plain: Vec<Trial>,
    swapping: Vec<Trial>,
    /// From the request until every worker decided with the new document, of those that were in force before their trial ended.
    times: Vec<Duration>,
}

/// A trial, and what the generator's rings refused in it.
struct Trial {
    sample: Sample,
    ring_full: u64,
}

impl Trial {
    fn mpps(&self) -> f64 {
        self.sample.mpps()
    }

    /// Sent, taken by the node, and neither sent back nor refused by a full ring.
    fn lost(&self) -> u64 {
        self.sample.result.lost().saturating_sub(self.ring_full)
    }
}

impl Rate {
    fn new((case, ceiling): (&Case, &Ceiling), name: &'static str, limit: Option<f64>) -> Self {
        let (case, ceiling) = (case.clone(), ceiling.clone());
        Self { case, ceiling, name, limit, plain: Vec::new(), swapping: Vec::new(), times: Vec::new() }
    }

    /// As many rounds as so many documents need.
    fn run(&mut self, session: &mut Session<'_>, node: &mut Node, swaps: usize) -> Result<()> {
        while self.times.len() < swaps {
            let done = self.times.len();
            if self.plain.len() == MOST_ROUNDS {
                return Err(BenchError::TooFewSwaps { swaps: done, rounds: MOST_ROUNDS });
            }
            session.message(format!("{}, {} rate: {done} of {swaps} documents", self.case, self.name));
            let plain = self.trial(session, node)?;
            self.plain.push(plain);
            let (trial, times) = while_swapping(node, swaps - done, |node| self.trial(session, node))?;
            self.swapping.push(trial);
            self.times.extend(times);
            (done..self.times.len()).for_each(|_| session.step());
        }
        Ok(())
    }

    fn trial(&self, session: &Session<'_>, node: &mut Node) -> Result<Trial> {
        let measuring = session.bench.measuring;
        let before = ring_full(node)?;
        let sample = match self.limit {
            None => measuring.sample(node, &self.case),
            Some(limit) => measuring.at_rate(node, &self.case, limit),
        };
        Ok(Trial { sample: sample?, ring_full: ring_full(node)?.saturating_sub(before) })
    }

    fn label(&self) -> String {
        format!("{}, {}", self.case, self.name)
    }
}

/// One trial during which documents are applied in turn, `most` at most; how long each took that was in force before the trial ended.
fn while_swapping(
    node: &mut Node,
    most: usize,
    trial: impl FnOnce(&mut Node) -> Result<Trial>,
) -> Result<(Trial, Vec<Duration>)> {
    let mut swapper = node.swapper()?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            let mut times = Vec::new();
            for _ in 0..most {
                let start = Instant::now();
                swapper.swap()?;
                if over.load(Ordering::Acquire) {
                    break;
                }
                times.push(start.elapsed());
            }
            Ok::<_, BenchError>(times)
        });
        let trial = trial(node);
        over.store(true, Ordering::Release);
        let times = swapping.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((trial?, times?))
    })
}

/// Packets that found the ring of a port full since the node started.
fn ring_full(node: &mut Node) -> Result<u64> {
    let drops = node.drops()?;
    Ok(drops.iter().filter(|(reason, _)| reason == RING_FULL).map(|(_, packets)| packets).sum())
}

/// Everything that was measured: tables, a chart, and a complaint of whatever a swap cost.
fn tell(report: &mut Report, rates: &[Rate]) {
    for rate in rates {
        let label = rate.label();
        for (trials, what) in
            [(&rate.plain, "without swaps"), (&rate.swapping, "while documents were swapped")]
        {
            let samples = trials.iter().map(|trial| &trial.sample);
            report.check_frames(&format!("{label}, {what}"), &Sample::faults(samples));
        }
        let lost: u64 = rate.swapping.iter().map(Trial::lost).sum();
        if lost > 0 {
            report.complain(format!("{label}: {lost} packets were lost while documents were swapped"));
        }
    }
    if rates.is_empty() {
        return;
    }
    report.section(packets(rates));
    report.section(in_force(rates));
    let swaps: usize = rates.iter().map(|rate| rate.times.len()).sum();
    let lost: u64 = rates.iter().flat_map(|rate| &rate.swapping).map(Trial::lost).sum();
    report
        .result(format!("{swaps} documents were swapped in under load, and {lost} packets lost meanwhile."));
}

fn packets(rates: &[Rate]) -> Section {
    let mut table = Table::new([
        Column::label("case", "case"),
        Column::label("rate", "rate"),
        Column::label("documents", "documents"),
        Column::measured("mpps", "forwarded", "Mpps").digits(2).higher_is_better(),
        Column::measured("ratio", "of the rate without", "%").digits(1).higher_is_better(),
        Column::measured("sent", "sent", ""),
        Column::measured("lost", "lost", "").lower_is_better(),
        Column::measured("ring-full", "ring full", ""),
        Column::measured("ceiling", "ceiling", "Mpps").digits(2),
    ]);
    let (mut names, mut without, mut with) = (Vec::new(), Vec::new(), Vec::new());
    for rate in rates {
        table.push(row(rate, "none", &rate.plain).not_measured("ratio", "this is the rate without"));
        let pairs = rate.swapping.iter().zip(&rate.plain);
        let ratios = pairs.map(|(with, without)| with.mpps() / without.mpps() * 100.0);
        table.push(row(rate, "swapped in", &rate.swapping).measured("ratio", ratios));
        names.push(rate.label());
        without.push(rate.plain.iter().map(Trial::mpps).collect::<Vec<_>>());
        with.push(rate.swapping.iter().map(Trial::mpps).collect::<Vec<_>>());
    }
    let chart = Chart::bars("Packets a second", names, Axis::new("forwarded", "Mpps"))
        .series(Series::trials("without swaps", without.iter().map(Vec::as_slice)))
        .series(Series::trials("while documents are swapped", with.iter().map(Vec::as_slice)))
        .caption("Neighbouring documents differ, so that each swap makes every flow be decided again.");
    Section::new("reload", "With new documents and without")
        .text("Rounds with swaps and without take turns; packets are counted over all of them. Lost: of those that the node took. Ring full: the generator did not read, because another thread had its core.")
        .table(table)
        .chart(chart)
}

fn row(rate: &Rate, documents: &str, trials: &[Trial]) -> Row {
    let mpps = median(trials.iter().map(Trial::mpps)).unwrap_or_default();
    // A rate that was asked for is limited by nobody.
    let near = rate.limit.is_none() && rate.ceiling.is_near(mpps * 1e6);
    let sum = |count: fn(&Trial) -> u64| trials.iter().map(count).sum::<u64>() as f64;
    Row::new()
        .label("case", &rate.case)
        .label("rate", rate.name)
        .label("documents", documents)
        .measured("mpps", trials.iter().map(Trial::mpps))
        .mark_if(near, marks::LIMITED_BY_GENERATOR)
        .value("sent", sum(|trial| trial.sample.result.sent()))
        .value("lost", sum(Trial::lost))
        .value("ring-full", sum(|trial| trial.ring_full))
        .measured("ceiling", rate.ceiling.mpps.iter().copied())
}

fn in_force(rates: &[Rate]) -> Section {
    let mut table = Table::new([
        Column::label("case", "case"),
        Column::label("rate", "rate"),
        Column::measured("swaps", "documents", ""),
        Column::measured("median", "in force after", "ms").digits(1).lower_is_better(),
        Column::measured("longest", "at the longest", "ms").digits(1).lower_is_better(),
    ]);
    for rate in rates {
        let milliseconds = || rate.times.iter().map(|time| time.as_secs_f64() * 1e3);
        table.push(
            Row::new()
                .label("case", &rate.case)
                .label("rate", rate.name)
                .value("swaps", rate.times.len() as f64)
                .measured("median", milliseconds())
                .value_or("longest", milliseconds().reduce(f64::max), "no document was in force in time"),
        );
    }
    Section::new("in-force", "How long a document takes")
        .text("From the request until every worker decides with the new document, of the documents that were in force before their trial ended.")
        .table(table)
}

#[cfg(test)]
mod tests {
    use sluice_trial::message::{StreamCounts, TrialResult};
    use sluice_trial::traffic::{Direction, Family};

    use super::*;
    use crate::subject::Counters;

    fn trial(sent: u64, received: u64, ring_full: u64) -> Trial {
        let counts = StreamCounts {
            sent,
            received,
            received_while_sending: received,
            ..StreamCounts::new(Direction::Encap)
        };
        let result = TrialResult { sending_ns: 1_000, streams: vec![counts], ..TrialResult::default() };
        let counters = Counters::default();
        Trial { sample: Sample { result, counters, busy: 1.0, cores: 1, waited: Duration::ZERO }, ring_full }
    }

    fn told(plain: Vec<Trial>, swapping: Vec<Trial>) -> Report {
        let case = Case::at_least(Directions::Encap, Family::Ipv4, 64).unwrap();
        let times = [7, 9, 8].map(Duration::from_millis).to_vec();
        let rate =
            Rate { plain, swapping, times, ..Rate::new((&case, &Ceiling::of(&[])), "the highest", None) };
        let mut report = Report::start("reload", "t");
        tell(&mut report, &[rate]);
        report
    }

    #[test]
    fn what_is_lost_is_what_was_sent_and_did_not_come_back() {
        let report =
            told(vec![trial(100, 100, 0), trial(50, 40, 5)], vec![trial(100, 100, 0), trial(50, 45, 2)]);
        let [packets, in_force] = [0, 1].map(|at| report.sections[at].table.clone().unwrap());
        let of = |row: usize, column: &str| packets.rows[row].cells[column].measured();
        assert_eq!([of(0, "sent"), of(0, "lost"), of(0, "ring-full")], [Some(150.0), Some(5.0), Some(5.0)]);
        assert_eq!([of(1, "sent"), of(1, "lost"), of(1, "ring-full")], [Some(150.0), Some(3.0), Some(2.0)]);
        assert_eq!(
            (of(0, "ratio"), of(1, "ratio")),
            (None, Some(106.25)),
            "the median of the rounds' ratios"
        );
        assert_eq!(in_force.rows[0].cells["median"].measured(), Some(8.0));
        assert_eq!(in_force.rows[0].cells["longest"].measured(), Some(9.0));
        assert!(report.has_errors(), "a swap cost packets");
    }

    #[test]
    fn a_full_ring_and_loss_without_swaps_are_no_fault_of_a_swap() {
        assert!(!told(vec![trial(100, 90, 0)], vec![trial(100, 98, 2)]).has_errors());
    }
}
