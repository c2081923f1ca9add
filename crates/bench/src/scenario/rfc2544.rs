//! `rfc2544`: the tests of RFC 2544, and what later documents made of them, for any frame sizes and directions.
//!
//! Throughput (section 26.1), frame loss rate (26.3), back-to-back frames (26.4, RFC 9004), reset (26.6, RFC 6201); the non-drop and
//! partial drop rates of the Multiple Loss Ratio search (RFC 9971), and the maximum receive rate (RFC 2285).

use std::time::{Duration, Instant};

use sluice_trial::message::Load;

use sluice_trial::topology::Topology;

use crate::device::UnderTest;
use crate::error::{BenchError, Result};
use crate::measure::{Case, Ceiling, Directions};
use crate::report::{Chart, Column, Report, Row, Section, Series, Table, marks, median};
use crate::scenario::Scenario;
use crate::search::multiple_loss_ratio::{self, Ending, GoalResult};
use crate::search::throughput::Verdict;
use crate::search::{LimitedBy, Trial, back_to_back, frame_loss, maximum_receive_rate, reset};
use crate::session::{ABOVE_CEILING, Session};
use crate::subject::{Node, Subject};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "rfc2544",
    title: "RFC 2544 and its successors",
    about: "Throughput, non-drop and partial drop rate, maximum receive rate, frame loss, bursts, reset",
    reproduces: None,
    network: Topology::ONE,
    sizes: &[64, 1500],
    examples: "Examples:
  sluice bench rfc2544 --quick
  sluice bench rfc2544 --sizes imix-simple,imix-fdio,imix-sd-wan --direction both
  sluice bench rfc2544 --full --html rfc2544.html
  sluice bench rfc2544 --device external --encapsulation none --show-document
  sluice bench rfc2544 --device external --encapsulation none --uplink af_packet:eth1 --downlink af_packet:eth2",
    searches: true,
    mebibytes: 256 + 3 * 64,
    own: None,
    run,
};

/// Frames a second of the reset test: one every 100 µs.
const RESET_RATE: f64 = 10_000.0;
/// How long frames are sent before the reset, and from before to behind it.
const RESET_TIMES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(8)];

/// Why there is no rate that failed.
const NOTHING_FAILED: &str = "not even the highest rate failed";

/// What was measured of one case.
struct Measured {
    case: Case,
    ceiling: Ceiling,
    rounds: Vec<Round>,
    /// Of several searches already.
    bursts: Option<back_to_back::Verdict>,
}

/// One search by each method.
struct Round {
    throughput: Verdict,
    maximum: maximum_receive_rate::MaximumReceiveRate,
    goals: Vec<GoalResult>,
    losses: Vec<frame_loss::FrameLoss>,
    disturbed: u32,
}

/// Searches of a round.
const METHODS: usize = 4;

fn run(session: &mut Session<'_>, report: &mut Report) -> Result<()> {
    let topology = session.topology();
    let cases =
        session.cases(&[Directions::Both, Directions::Encap, Directions::Decap, Directions::Loop], report)?;
    // Without a choice, both directions at once.
    let cases = session.only_if_unchosen(cases, Directions::Both);
    session.steps(cases.len() * (session.bench.repeat * METHODS + 1) + 1);
    let (mut device, ceilings) = session.start_device(&topology, &cases, report)?;
    let mut measured: Vec<Measured> = Vec::new();
    for (case, ceiling) in cases.into_iter().zip(ceilings) {
        let mut one = Measured { case, ceiling, rounds: Vec::new(), bursts: None };
        let outcome = measure(session, device.subject(), &mut one);
        if !one.rounds.is_empty() {
            measured.push(one);
            fill(report, &measured);
        }
        outcome?;
    }
    if let Some((one, node)) = measured.first().zip(device.node()) {
        report.section(after_a_reset(session, node, &one.case)?);
        session.step();
    }
    let rounds = measured.iter().flat_map(|one| &one.rounds);
    Session::tell_disturbed(rounds.map(|round| round.disturbed).sum(), report);
    Ok(())
}

/// All searches of a case. What was found before an error stays.
fn measure(session: &mut Session<'_>, subject: &mut dyn Subject, one: &mut Measured) -> Result<()> {
    for _ in 0..session.bench.repeat {
        let round = round(session, subject, &one.case, &one.ceiling)?;
        one.rounds.push(round);
    }
    let throughputs = one.rounds.iter().map(|round| one.passed(round, session.arguments.minimum_rate));
    let throughput = median(throughputs).unwrap_or_default();
    let mut device = UnderTest::new(subject, &one.case, session.bench.measuring);
    let (_, bursts) = session.longest_burst(&mut device, throughput, format!("{} bursts", one.case))?;
    one.bursts = Some(bursts);
    session.step();
    Ok(())
}

/// One search by each method, but for bursts.
fn round(
    session: &mut Session<'_>,
    subject: &mut dyn Subject,
    case: &Case,
    ceiling: &Ceiling,
) -> Result<Round> {
    let trial = session.arguments.trial();
    let ceiling = ceiling.rate();
    let highest = ceiling * ABOVE_CEILING;
    let (found, device) = session.throughput(subject, case, highest)?;
    let disturbed = device.disturbed;
    session.step();

    let mut device = UnderTest::new(subject, case, session.bench.measuring);
    let minimum = highest * session.arguments.minimum_rate / 100.0;
    let goals = if session.arguments.quick {
        multiple_loss_ratio::Settings::quick(minimum, highest)
    } else {
        multiple_loss_ratio::Settings::ndr_and_pdr(minimum, highest)
    };
    let goals = multiple_loss_ratio::Settings { conditions: session.arguments.conditions(), ..goals };
    let rates = multiple_loss_ratio::search(
        &goals,
        &mut device,
        &mut session.observer(format!("{case} NDR and PDR")),
    )?;
    session.step();

    let settings = maximum_receive_rate::Settings {
        trial,
        conditions: session.arguments.conditions(),
        ..maximum_receive_rate::Settings::ten_loads(highest)
    };
    let maximum = maximum_receive_rate::search(
        &settings,
        &mut device,
        &mut session.observer(format!("{case} maximum receive rate")),
    )?;
    session.step();

    let settings = frame_loss::Settings {
        trial,
        conditions: session.arguments.conditions(),
        ..frame_loss::Settings::rfc_2544(ceiling)
    };
    let losses =
        frame_loss::search(&settings, &mut device, &mut session.observer(format!("{case} frame loss")))?;
    let disturbed = disturbed + device.disturbed;
    session.step();
    Ok(Round { throughput: found.verdict, maximum, goals: rates.goals, losses: losses.losses, disturbed })
}

impl Measured {
    /// The highest rate that a search may try, frames a second.
    fn highest(&self) -> f64 {
        self.ceiling.rate() * ABOVE_CEILING
    }

    /// The highest rate that a round knows to pass, frames a second; where none passed, the lowest that was tried.
    fn passed(&self, round: &Round, minimum_percent: f64) -> f64 {
        match round.throughput {
            Verdict::Found { throughput, .. } => throughput,
            Verdict::AtLeastMaximum => self.highest(),
            Verdict::BelowMinimum { .. } => self.highest() * minimum_percent / 100.0,
        }
    }

    /// Numbers of the rounds that have them, millions a second.
    fn mega(&self, rate: impl Fn(&Round) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().filter_map(rate).map(|rate| rate / 1e6).collect()
    }
}

fn fill(report: &mut Report, measured: &[Measured]) {
    report.sections.clear();
    report.section(rates(measured));
    report.section(loss(measured));
    report.section(bursts(measured));
    let sentence = |one: &Measured| {
        let goals = || one.rounds.iter().filter_map(|round| round.goals.first());
        if goals().any(|goal| goal.ending != Ending::Regular) {
            return None;
        }
        let lower = median(goals().filter_map(|goal| goal.relevant_lower_bound))?;
        let upper = median(goals().filter_map(|goal| goal.relevant_upper_bound))?;
        Some(format!("{}: NDR from {:.2} to {:.2} Mpps", one.case, lower / 1e6, upper / 1e6))
    };
    let sentences: Vec<String> = measured.iter().filter_map(sentence).collect();
    if !sentences.is_empty() {
        report.result(format!("{}.", sentences.join("; ")));
    }
}

fn rates(measured: &[Measured]) -> Section {
    let mut table = Table::new([
        Column::label("case", "case"),
        Column::measured("throughput", "throughput", "Mpps").digits(3).higher_is_better(),
        Column::measured("throughput-upper", "fails at", "Mpps").digits(3),
        Column::measured("ndr", "NDR from", "Mpps").digits(3).higher_is_better(),
        Column::measured("ndr-upper", "to", "Mpps").digits(3),
        Column::measured("ndr-conditional", "conditional", "Mpps").digits(3).higher_is_better(),
        Column::measured("pdr", "PDR from", "Mpps").digits(3).higher_is_better(),
        Column::measured("pdr-upper", "to", "Mpps").digits(3),
        Column::measured("pdr-conditional", "conditional", "Mpps").digits(3).higher_is_better(),
        Column::measured("maximum", "maximum received", "Mpps").digits(3).higher_is_better(),
        Column::measured("at-load", "at a load of", "Mpps").digits(3),
        Column::measured("ceiling", "ceiling", "Mpps").digits(3),
    ]);
    for one in measured {
        let row = Row::new().label("case", &one.case);
        let row = throughput(row, one);
        let row =
            ["ndr", "pdr"].into_iter().enumerate().fold(row, |row, (goal, key)| bounds(row, key, goal, one));
        let maximum = one.mega(|round| Some(round.maximum.highest.forwarded));
        let limited = one.rounds.iter().any(|round| round.maximum.without_loss)
            || median(maximum.iter().copied()).is_some_and(|mega| one.ceiling.is_near(mega * 1e6));
        table.push(
            row.measured("maximum", maximum)
                .mark_if(limited, marks::LIMITED_BY_GENERATOR)
                .measured("at-load", one.mega(|round| Some(round.maximum.highest.offered)))
                .measured("ceiling", one.ceiling.mpps.iter().copied()),
        );
    }
    Section::new("rates", "Rates")
        .text("Throughput: the highest rate with no more than the tolerated loss in a trial. NDR and PDR: the bounds between which the rate lies at which half of the trials lose nothing, and no more than 0.5 %; conditional is the rate to expect at the lower bound. Maximum received: whatever is lost.")
        .table(table)
}

/// The throughput, and the lowest rate that failed.
fn throughput(row: Row, one: &Measured) -> Row {
    let found = one.mega(|round| match round.throughput {
        Verdict::Found { throughput, .. } => Some(throughput),
        Verdict::AtLeastMaximum => Some(one.highest()),
        Verdict::BelowMinimum { .. } => None,
    });
    let failed = one.mega(|round| match round.throughput {
        Verdict::Found { upper, .. } => Some(upper),
        _ => None,
    });
    let verdicts = || one.rounds.iter().map(|round| &round.throughput);
    let by_sender = |it: &Verdict| matches!(it, Verdict::Found { limited_by: LimitedBy::Sender, .. });
    let near = median(found.iter().copied()).is_some_and(|mega| one.ceiling.is_near(mega * 1e6));
    if found.is_empty() {
        return row.not_measured("throughput", marks::BELOW_MINIMUM);
    }
    let row = row
        .found("throughput", found, one.rounds.len())
        .mark_if(near || verdicts().any(by_sender), marks::LIMITED_BY_GENERATOR)
        .mark_if(verdicts().any(|it| *it == Verdict::AtLeastMaximum), marks::LIMITED_BY_SEARCH);
    row.known("throughput-upper", failed, NOTHING_FAILED)
}

/// Both bounds of a goal, by its place among those of the search.
fn bounds(row: Row, key: &str, goal: usize, one: &Measured) -> Row {
    let goals = || one.rounds.iter().filter_map(|round| round.goals.get(goal));
    let bound = |of: fn(&GoalResult) -> Option<f64>| one.mega(|round| of(round.goals.get(goal)?));
    let lower = bound(|goal| goal.relevant_lower_bound);
    let near = median(lower.iter().copied()).is_some_and(|mega| one.ceiling.is_near(mega * 1e6));
    let limited = |goal: &GoalResult| {
        let by_sender = goal.limited_by == Some(LimitedBy::Sender);
        goal.ending == Ending::AtLeastMaximum || goal.ending == Ending::Regular && (by_sender || near)
    };
    let tell = |row: Row, key: &str, numbers: Vec<f64>, reason: &str| match numbers.is_empty() {
        true => row.not_measured(key, reason),
        false => row.found(key, numbers, one.rounds.len()),
    };
    let row = tell(row, key, lower, marks::BELOW_MINIMUM)
        .mark_if(goals().any(limited), marks::LIMITED_BY_GENERATOR)
        .mark_if(
            goals().any(|goal| goal.ending == Ending::LimitReached),
            "the search was ended by its limits",
        );
    let row = tell(row, &format!("{key}-upper"), bound(|goal| goal.relevant_upper_bound), NOTHING_FAILED);
    let conditional = bound(|goal| goal.conditional_throughput);
    tell(row, &format!("{key}-conditional"), conditional, marks::BELOW_MINIMUM)
}

fn loss(measured: &[Measured]) -> Section {
    let mut table = Table::new([
        Column::label("case", "case"),
        Column::label("percent", "load, % of the highest"),
        Column::measured("load", "load", "Mpps").digits(3),
        Column::measured("loss", "loss", "%").digits(4).lower_is_better(),
    ]);
    let mut chart = Chart::loss_by_load("Loss by offered load", "Mpps");
    for one in measured {
        let mut points = Vec::new();
        let losses = || one.rounds.iter().flat_map(|round| &round.losses);
        let mut steps: Vec<u32> = losses().map(|loss| loss.percent).collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        steps.dedup();
        for percent in steps {
            let trials = || losses().filter(move |loss| loss.percent == percent).map(|loss| &loss.trial);
            let offered: Vec<f64> = trials().map(|trial| trial.offered_load() / 1e6).collect();
            let lost: Vec<f64> = trials().map(|trial| trial.loss_ratio() * 100.0).collect();
            points.extend(median(offered.iter().copied()).zip(median(lost.iter().copied())));
            let by_sender = |trial: &Trial| trial.lost() > 0 && trial.limited_by() == LimitedBy::Sender;
            table.push(
                Row::new()
                    .label("case", &one.case)
                    .label("percent", percent)
                    .measured("load", offered)
                    .measured("loss", lost)
                    .mark_if(trials().any(by_sender), marks::LIMITED_BY_GENERATOR),
            );
        }
        points.reverse();
        chart = chart.series(Series::points(&one.case.to_string(), points));
    }
    Section::new("frame-loss", "Frame loss rate")
        .text("From the ceiling down in steps of 10 %, until two trials in a row lose nothing. What the generator could not send counts as lost.")
        .table(table)
        .chart(chart.caption("Share of the frames that were to be sent and did not come back."))
}

fn bursts(measured: &[Measured]) -> Section {
    let mut table = Table::new([
        Column::label("case", "case"),
        Column::measured("burst", "longest burst", "frames").higher_is_better(),
        Column::measured("deviation", "deviation", "frames"),
    ]);
    for one in measured {
        let row = Row::new().label("case", &one.case);
        let (bursts, at_least) = match &one.bursts {
            None => continue,
            Some(back_to_back::Verdict::BelowMinimum { .. }) => {
                table.push(row.not_measured("burst", "loss at the shortest burst"));
                continue;
            }
            Some(back_to_back::Verdict::Found(bursts)) => (bursts, false),
            Some(back_to_back::Verdict::AtLeast { bursts, .. }) => (bursts, true),
        };
        table.push(
            row.average("burst", bursts.lengths.iter().map(|frames| *frames as f64))
                .mark_if(at_least, marks::LIMITED_BY_SEARCH)
                .value("deviation", bursts.standard_deviation),
        );
    }
    Section::new("bursts", "Back-to-back frames")
        .text("The longest burst without loss, the average of several searches. While a burst is sent nothing is received, so that it has to fit into the device's receive and transmit rings; no buffer time follows from it.")
        .table(table)
}

/// The node is killed and started again while frames are sent.
fn after_a_reset(session: &Session<'_>, node: &mut Node, case: &Case) -> Result<Section> {
    session.message("reset: the node is killed and started again");
    let one_way = Case { directions: Directions::Encap, ..case.clone() };
    let started = Instant::now();
    let load = Load::Rate { packets_per_second: RESET_RATE };
    let measuring = session.bench.measuring;
    let arrivals = node.while_restarting(RESET_TIMES[0], |generator| {
        measuring.arrivals(generator, &one_way, load, RESET_TIMES[1])
    })?;
    let sent = arrivals.sum(|stream| stream.intended);
    let arrived = arrivals.arrivals.iter().map(|(sequence, nanoseconds)| reset::Arrival {
        sequence: u64::from(*sequence),
        at: Duration::from_nanos(*nanoseconds),
    });
    let found = reset::interruption(RESET_RATE, sent, arrived)
        .map_err(|error| BenchError::Search(error.to_string()))?;
    let mut table = Table::new([
        Column::label("reset", "reset"),
        Column::measured("stamps", "by time stamps", "ms").digits(1).lower_is_better(),
        Column::measured("loss", "by loss", "ms").digits(1).lower_is_better(),
        Column::measured("lost", "lost", "frames"),
        Column::measured("again", "duplicated", "frames"),
    ]);
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
    table.push(
        Row::new()
            .label("reset", "the process is killed")
            .value("stamps", milliseconds(found.by_time_stamps))
            .value("loss", milliseconds(found.by_loss))
            .value("lost", found.lost as f64)
            .value("again", found.duplicates as f64),
    );
    let took = started.elapsed().as_secs();
    Ok(Section::new("reset", "Reset")
        .text(format!("The node's process is killed with SIGKILL and started again at once, while {RESET_RATE:.0} frames a second are sent, {took} s in all: memory, ports and neighbours anew. It is one reset: how much another one would differ is not known. A frame that finds no link is lost, and none is sent later than it was to be."))
        .table(table))
}
