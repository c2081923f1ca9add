//! `rfc2544`: the tests of RFC 2544, and what later documents made of them, for any frame sizes and directions.
//!
//! Throughput (section 26.1), frame loss rate (26.3), back-to-back frames (26.4, RFC 9004), reset (26.6, RFC 6201); the non-drop and
//! partial drop rates of the Multiple Loss Ratio search (RFC 9971), and the maximum receive rate (RFC 2285).

use std::time::{Duration, Instant};

use crate::device::UnderTest;
use crate::error::{BenchError, Result};
use crate::measure::{Case, Directions, NEAR_CEILING};
use crate::message::Load;
use crate::report::{Chart, Column, Report, Row, Section, Series, Table, marks};
use crate::scenario::Scenario;
use crate::search::multiple_loss_ratio::{self, Ending, GoalResult};
use crate::search::throughput::Verdict;
use crate::search::{LimitedBy, back_to_back, frame_loss, maximum_receive_rate, reset};
use crate::session::{ABOVE_CEILING, Session};
use crate::subject::{Echo, Node, Variant};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "rfc2544",
    title: "RFC 2544 and its successors",
    about: "Throughput, non-drop and partial drop rate, maximum receive rate, frame loss, bursts, reset",
    reproduces: None,
    sizes: &[64, 1500],
    examples: "Examples:
  sluice bench rfc2544 --quick
  sluice bench rfc2544 --sizes imix-simple,imix-fdio,imix-sd-wan --direction both
  sluice bench rfc2544 --full --html rfc2544.html",
    searches: true,
    mebibytes: 256 + 3 * 64,
    own: None,
    run,
};

/// Frames a second of the reset test: one every 100 µs.
const RESET_RATE: f64 = 10_000.0;
/// How long frames are sent before the reset, and from before to behind it.
const RESET_TIMES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(8)];

/// What was measured of one case.
struct Measured {
    case: Case,
    ceiling: f64,
    throughput: Verdict,
    maximum: maximum_receive_rate::MaximumReceiveRate,
    goals: Vec<GoalResult>,
    losses: Vec<frame_loss::FrameLoss>,
    bursts: back_to_back::Verdict,
    disturbed: u32,
}

fn run(session: &mut Session<'_>, report: &mut Report) -> Result<()> {
    let topology = session.arguments.topology();
    let cases =
        session.cases(&[Directions::Both, Directions::Encap, Directions::Decap, Directions::Loop], report)?;
    // Without a choice, both directions at once.
    let cases = session.only_if_unchosen(cases, Directions::Both);
    session.steps(cases.len() * 5 + 1);
    // The echo has ended by the time that the node starts, since both may need the same ports.
    let mut echo = Echo::start(&session.bench.setting, &topology)?;
    for case in &cases {
        let ceiling = session.ceiling(&mut echo, case)?;
        report.generator.ceiling_mpps.push((case.to_string(), ceiling / 1e6));
    }
    drop(echo);
    let mut node = Node::start(&session.bench.setting, Variant::new(topology))?;
    session.describe(&mut node, report);
    let mut measured = Vec::new();
    for (at, case) in cases.into_iter().enumerate() {
        let ceiling = report.generator.ceiling_mpps[at].1 * 1e6;
        measured.push(measure(session, &mut node, case, ceiling)?);
        fill(report, &measured);
    }
    if let Some(one) = measured.first() {
        report.section(after_a_reset(session, &mut node, &one.case)?);
        session.step();
    }
    let disturbed: u32 = measured.iter().map(|one| one.disturbed).sum();
    Session::tell_disturbed(disturbed, report);
    Ok(())
}

fn measure(session: &mut Session<'_>, node: &mut Node, case: Case, ceiling: f64) -> Result<Measured> {
    let (quick, trial) = (session.arguments.quick, session.arguments.trial());
    let highest = ceiling * ABOVE_CEILING;
    let (found, device) = session.throughput(node, &case, highest)?;
    let mut disturbed = device.disturbed;
    session.step();
    let throughput = match found.verdict {
        Verdict::Found { throughput, .. } => throughput,
        Verdict::AtLeastMaximum => highest,
        Verdict::BelowMinimum { .. } => highest * session.arguments.minimum_rate / 100.0,
    };

    let mut device = UnderTest::new(node, &case, session.bench.measuring);
    let minimum = highest * session.arguments.minimum_rate / 100.0;
    let goals = if quick {
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
    session.step();

    let (_, bursts) = session.longest_burst(&mut device, throughput, format!("{case} bursts"))?;
    disturbed += device.disturbed;
    session.step();
    Ok(Measured {
        ceiling,
        throughput: found.verdict,
        maximum,
        goals: rates.goals,
        losses: losses.losses,
        bursts,
        disturbed,
        case,
    })
}

fn fill(report: &mut Report, measured: &[Measured]) {
    report.sections.clear();
    report.section(rates(measured));
    report.section(loss(measured));
    report.section(bursts(measured));
    let sentence = |one: &Measured| {
        let goal = one.goals.first().filter(|goal| goal.ending == Ending::Regular)?;
        let (lower, upper) = goal.relevant_lower_bound.zip(goal.relevant_upper_bound)?;
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
        let near = |rate: f64| rate > NEAR_CEILING * one.ceiling;
        let row = Row::new().label("case", &one.case);
        let row = match one.throughput {
            Verdict::Found { throughput, upper, limited_by } => row
                .value("throughput", throughput / 1e6)
                .mark_if(limited_by == LimitedBy::Sender || near(throughput), marks::LIMITED_BY_GENERATOR)
                .value("throughput-upper", upper / 1e6),
            Verdict::AtLeastMaximum => {
                row.value("throughput", one.ceiling * ABOVE_CEILING / 1e6).mark(marks::LIMITED_BY_SEARCH)
            }
            Verdict::BelowMinimum { .. } => row.not_measured("throughput", marks::BELOW_MINIMUM),
        };
        let row = ["ndr", "pdr"]
            .into_iter()
            .zip(&one.goals)
            .fold(row, |row, (key, goal)| bounds(row, key, goal, near));
        let highest = &one.maximum.highest;
        table.push(
            row.value("maximum", highest.forwarded / 1e6)
                .mark_if(one.maximum.without_loss || near(highest.forwarded), marks::LIMITED_BY_GENERATOR)
                .value("at-load", highest.offered / 1e6)
                .value("ceiling", one.ceiling / 1e6),
        );
    }
    Section::new("rates", "Rates")
        .text("Throughput: the highest rate with no more than the tolerated loss in a trial. NDR and PDR: the bounds between which the rate lies at which half of the trials lose nothing, and no more than 0.5 %; conditional is the rate to expect at the lower bound. Maximum received: whatever is lost.")
        .table(table)
}

/// Both bounds of a goal.
fn bounds(row: Row, key: &str, goal: &GoalResult, near: impl Fn(f64) -> bool) -> Row {
    let mark = match goal.ending {
        Ending::AtLeastMaximum => Some(marks::LIMITED_BY_GENERATOR),
        Ending::LimitReached => Some("the search was ended by its limits"),
        Ending::Regular if goal.limited_by == Some(LimitedBy::Sender) => Some(marks::LIMITED_BY_GENERATOR),
        Ending::Regular if goal.relevant_lower_bound.is_some_and(near) => Some(marks::LIMITED_BY_GENERATOR),
        Ending::Regular | Ending::BelowMinimum => None,
    };
    let million = |rate: Option<f64>| rate.map(|rate| rate / 1e6);
    let row = row.value_or(key, million(goal.relevant_lower_bound), marks::BELOW_MINIMUM);
    let row = match mark {
        Some(mark) => row.mark(mark),
        None => row,
    };
    row.value_or(
        &format!("{key}-upper"),
        million(goal.relevant_upper_bound),
        "not even the highest rate failed",
    )
    .value_or(&format!("{key}-conditional"), million(goal.conditional_throughput), marks::BELOW_MINIMUM)
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
        for frame_loss::FrameLoss { percent, trial } in &one.losses {
            let offered = trial.counted.sent as f64 / trial.sending.as_secs_f64().max(1e-9) / 1e6;
            points.push((offered, trial.loss_ratio() * 100.0));
            table.push(
                Row::new()
                    .label("case", &one.case)
                    .label("percent", percent)
                    .value("load", offered)
                    .value("loss", trial.loss_ratio() * 100.0)
                    .mark_if(
                        trial.lost() > 0 && trial.limited_by() == LimitedBy::Sender,
                        marks::LIMITED_BY_GENERATOR,
                    ),
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
            back_to_back::Verdict::BelowMinimum { .. } => {
                table.push(row.not_measured("burst", "loss at the shortest burst"));
                continue;
            }
            back_to_back::Verdict::Found(bursts) => (bursts, false),
            back_to_back::Verdict::AtLeast { bursts, .. } => (bursts, true),
        };
        table.push(
            row.value("burst", bursts.average)
                .mark_if(at_least, marks::LIMITED_BY_SEARCH)
                .value("deviation", bursts.standard_deviation),
        );
    }
    Section::new("bursts", "Back-to-back frames")
        .text("The longest burst without loss, the average of several searches. While a burst is sent nothing is received, so that it has to fit into the node's receive and transmit rings; no buffer time follows from it.")
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
        .text(format!("The node's process is killed with SIGKILL and started again at once, while {RESET_RATE:.0} frames a second are sent, {took} s in all: memory, ports and neighbours anew. A frame that finds no link is lost, and none is sent later than it was to be."))
        .table(table))
}
