//! `forward`: one node as fast as it can, every direction and family by itself and both directions at once.

use sluice_trial::topology::Topology;

use crate::error::Result;
use crate::measure::{Case, Ceiling, Directions, Sample};
use crate::profile;
use crate::report::{Axis, Cell, Chart, Column, Report, Row, Section, Series, Table, marks, median};
use crate::scenario::Scenario;
use crate::session::Session;
use crate::subject::{Echo, Node, Subject, Variant};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "forward",
    title: "The highest rate of one node",
    about: "One node as fast as it can: packets and bits a second, loss, cycles and allocations a packet",
    reproduces: None,
    network: Topology::ONE,
    sizes: &[64, 128, 256, 512, 1024, 1500],
    examples: "Examples:
  sluice bench forward --quick
  sluice bench forward --direction encap --family ipv4,ipv6 --sizes 64,512
  sluice bench forward --show-document > edge.yaml",
    searches: false,
    mebibytes: 256 + 3 * 64,
    own: None,
    run,
};

/// Share of the highest rate at which nothing should be lost.
const CHECK: f64 = 0.8;

fn run(session: &mut Session<'_>, report: &mut Report) -> Result<()> {
    let topology = session.topology();
    let cases = session.cases(&[Directions::Encap, Directions::Decap, Directions::Both], report)?;
    let (mut node, samples) = beside_an_echo(session, &topology, &cases)?;
    session.describe(&mut node, report);
    session.steps(cases.len());
    let mut measured = Vec::new();
    for (case, (ours, echoed)) in cases.iter().zip(samples[0].iter().zip(&samples[1])) {
        session.message(format!("{case}: loss below the highest rate"));
        let rate = median(ours.iter().map(|sample| sample.result.packets_per_second())).unwrap_or_default();
        let mut checks = Vec::new();
        while checks.len() < session.bench.repeat && !session.is_interrupted() {
            checks.push(session.bench.measuring.at_rate(&mut node, case, rate * CHECK)?);
        }
        report.check_frames(&case.to_string(), &Sample::faults(ours.iter().chain(&checks)));
        measured.push(Measured { case, ours, echoed, checks });
        session.step();
    }
    report.section(section(&measured));
    if session.arguments.profile {
        report.section(profile::section(&session.profile(&mut node, &cases)?));
    }
    session.tell_drops(&mut node, report)?;
    if let Some(first) = report.sections.first().and_then(|section| section.table.as_ref()?.rows.first()) {
        let of = |column: &str| first.cells.get(column).and_then(Cell::measured);
        if let (Some(case), Some(mpps), Some(cycles)) = (measured.first(), of("mpps"), of("cycles")) {
            report.result(format!(
                "{}: {mpps:.1} million packets a second, {cycles:.0} cycles a packet.",
                case.case
            ));
        }
    }
    Ok(())
}

/// A node, and its trials and an echo's: in turn, or one after the other where they need the same ports.
fn beside_an_echo(
    session: &mut Session<'_>,
    topology: &Topology,
    cases: &[Case],
) -> Result<(Node, [Vec<Vec<Sample>>; 2])> {
    if session.needs_shared_memory().is_err() {
        let mut echo = Echo::start(&session.bench.setting, topology)?;
        let echoed = session.in_turn(&mut [&mut echo], cases)?.swap_remove(0);
        drop(echo);
        let mut node = Node::start(&session.bench.setting, Variant::new(*topology))?;
        let ours = session.in_turn(&mut [&mut node], cases)?.swap_remove(0);
        node.resume();
        return Ok((node, [ours, echoed]));
    }
    let mut node = Node::start(&session.bench.setting, Variant::new(*topology))?;
    node.pause();
    let mut echo = Echo::start(&session.bench.setting, topology)?;
    let mut samples = session.in_turn(&mut [&mut node, &mut echo], cases)?;
    drop(echo);
    node.resume();
    let echoed = samples.swap_remove(1);
    Ok((node, [samples.swap_remove(0), echoed]))
}

/// All trials of one case.
struct Measured<'a> {
    case: &'a Case,
    ours: &'a [Sample],
    echoed: &'a [Sample],
    /// Below the highest rate.
    checks: Vec<Sample>,
}

fn section(measured: &[Measured<'_>]) -> Section {
    let mut table = Table::new([
        Column::label("case", "case"),
        Column::measured("mpps", "forwarded", "Mpps").digits(2).higher_is_better(),
        Column::measured("gbps", "forwarded", "Gb/s").digits(2).higher_is_better(),
        Column::measured("loss", "loss", "%").digits(3),
        Column::measured("loss-at-check", "loss at 80 %", "%").digits(4).lower_is_better(),
        Column::measured("cycles", "cycles", "/packet").digits(0).lower_is_better(),
        Column::measured("allocations", "allocations", "/packet").digits(6).lower_is_better(),
        Column::measured("hits", "cache hits", "%").digits(2),
        Column::measured("busy", "busy", "%").digits(0),
        Column::measured("ceiling", "ceiling", "Mpps").digits(2),
    ]);
    let (mut names, mut ours, mut ceilings) = (Vec::new(), Vec::new(), Vec::new());
    for one in measured {
        table.push(row(one));
        let of = |samples: &[Sample]| median(samples.iter().map(Sample::mpps));
        names.push(one.case.to_string());
        ours.push(of(one.ours));
        ceilings.push(of(one.echoed));
    }
    let chart = Chart::bars("Packets a second", names, Axis::new("forwarded", "Mpps"))
        .series(Series::measured("node", ours))
        .series(Series::measured("generator and links alone (echo)", ceilings))
        .caption("Where both bars are as long, generator and links are the limit, not the node.");
    Section::new("forward", "The highest rate")
        .text("Frames that came back while frames were being sent, all directions together. Cycles are those of polls that found packets, receiving and sending included.")
        .table(table)
        .chart(chart)
}

fn row(one: &Measured<'_>) -> Row {
    let limited = Ceiling::of(one.echoed).limits(one.ours);
    let all = |of: fn(&Sample) -> Option<f64>| one.ours.iter().filter_map(of);
    let bits = one.case.bits();
    Row::new()
        .label("case", one.case)
        .measured("mpps", one.ours.iter().map(Sample::mpps))
        .mark_if(limited, marks::LIMITED_BY_GENERATOR)
        .measured("gbps", one.ours.iter().map(|sample| sample.mpps() * bits / 1e3))
        .measured("loss", one.ours.iter().map(|sample| sample.result.loss() * 100.0))
        .measured("loss-at-check", one.checks.iter().map(|check| check.result.loss() * 100.0))
        .measured("cycles", Sample::cycles(one.ours))
        .measured("allocations", all(|sample| sample.counters.allocations_per_packet()))
        .measured("hits", all(|sample| Some(sample.counters.hit_rate()? * 100.0)))
        .measured("busy", one.ours.iter().map(|sample| sample.busy.min(1.0) * 100.0))
        .measured("ceiling", one.echoed.iter().map(Sample::mpps))
}
