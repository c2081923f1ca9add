//! `ecmp`: how evenly a tier-0 gateway spreads flows over 1 to 8 equal paths, and what that costs.
//!
//! One node; its default routes get one next hop more from document to document, round after round. The workloads send to the tester;
//! the generator plays a router on each path, and knows by a frame's destination MAC address which one was taken.

use sluice_trial::topology::{MOST_PATHS, Topology};

use crate::error::Result;
use crate::measure::{Case, Ceiling, Directions, Sample};
use crate::report::{Axis, Chart, Column, Report, Row, Section, Series, Table, marks, median};
use crate::scenario::{BARE_METAL, Scenario};
use crate::session::Session;
use crate::subject::{Node, Variant};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "ecmp",
    title: "Equal-cost paths",
    about: "1 to 8 equal-cost next hops: how evenly flows spread, and what it costs",
    reproduces: Some((BARE_METAL, "ECMP Routing: a maximum of eight paths, hashed by 5-tuple")),
    network: Topology { paths: MOST_PATHS, ..Topology::ONE },
    sizes: &[64],
    examples: "Examples:
  sluice bench ecmp
  sluice bench ecmp --family ipv6 --html ecmp.html",
    searches: false,
    mebibytes: 256 + 64,
    own: None,
    run,
};

fn run(session: &mut Session<'_>, report: &mut Report) -> Result<()> {
    let topology = session.topology();
    let cases = session.cases(&[Directions::Decap], report)?;
    let ceilings = session.ceilings(&topology, &cases, report)?;
    let mut node = Node::start(&session.bench.setting, Variant::new(topology))?;
    session.describe(&mut node, report);
    session.steps(cases.len() * session.bench.repeat * usize::from(MOST_PATHS));
    for (case, ceiling) in cases.iter().zip(&ceilings) {
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); usize::from(MOST_PATHS)];
        for _ in 0..session.bench.repeat {
            for paths in 1..=MOST_PATHS {
                session.message(format!("{case}: {paths} paths"));
                node.set_paths(paths)?;
                let sample = session.bench.measuring.sample(&mut node, case)?;
                samples[usize::from(paths) - 1].push(sample);
                session.step();
            }
        }
        for (paths, samples) in (1..).zip(&samples) {
            report.check_frames(&format!("{case}, {paths} paths"), &Sample::faults(samples));
        }
        report.section(section(case, ceiling, &samples));
    }
    if let Some(ratio) = report.sections.first().and_then(cost_of_all) {
        report.result(format!("Eight paths cost {:+.1} % of the cycles of one.", (ratio - 1.0) * 100.0));
    }
    Ok(())
}

fn section(case: &Case, ceiling: &Ceiling, samples: &[Vec<Sample>]) -> Section {
    let mut table = Table::new([
        Column::label("paths", "paths"),
        Column::measured("mpps", "forwarded", "Mpps").digits(2).higher_is_better(),
        Column::measured("cycles", "cycles", "/packet").digits(1).lower_is_better(),
        Column::measured("ratio", "of one path's", "").digits(3).lower_is_better(),
        Column::measured("least", "least used", "%").digits(1),
        Column::measured("most", "most used", "%").digits(1),
        Column::calculated("even", "even", "%").digits(1),
        Column::measured("imbalance", "most / even", "").digits(2).lower_is_better(),
    ]);
    let one = samples.first().map(|samples| Sample::cycles(samples)).unwrap_or_default();
    let (mut names, mut least_used, mut most_used) = (Vec::new(), Vec::new(), Vec::new());
    for (paths, samples) in (1..).zip(samples) {
        let shares: Vec<Vec<f64>> =
            samples.iter().filter_map(|sample| shares(&sample.result.paths, paths)).collect();
        let of = |pick: fn(f64, f64) -> f64, from: f64| -> Vec<f64> {
            shares.iter().map(|shares| shares.iter().copied().fold(from, pick)).collect()
        };
        let (least, most) = (of(f64::min, f64::INFINITY), of(f64::max, 0.0));
        let even = 100.0 / paths as f64;
        names.push(paths.to_string());
        least_used.push(median(least.iter().copied()));
        most_used.push(median(most.iter().copied()));
        let row = Row::new()
            .label("paths", paths)
            .measured("mpps", samples.iter().map(Sample::mpps))
            .mark_if(ceiling.limits(samples), marks::LIMITED_BY_GENERATOR)
            .measured("cycles", Sample::cycles(samples))
            .measured(
                "ratio",
                Sample::cycles(samples).into_iter().zip(&one).map(|(cycles, one)| cycles / one),
            )
            .measured("imbalance", most.iter().map(|most| most / even))
            .measured("least", least)
            .measured("most", most)
            .calculated("even", even);
        table.push(row);
    }
    let chart = Chart::bars("Share of the least and of the most used path", names, Axis::new("share", "%"))
        .series(Series::measured("least used", least_used))
        .series(Series::measured("most used", most_used))
        .caption(
            "1,280 flows; a hash spreads flows, not packets, so that some paths carry more than others.",
        );
    Section::new(&format!("ecmp-{}", case.sizes), &format!("Spread and cost, frames of {} bytes", case.sizes))
        .text("Every path's share of the frames that came back to the tester, and the cycles of a packet in proportion to those with one path, the median of the rounds' ratios.")
        .table(table)
        .chart(chart)
}

/// Percent of the frames on each of the paths that there are.
fn shares(paths: &[u64], count: usize) -> Option<Vec<f64>> {
    let total: u64 = paths.iter().sum();
    (total > 0).then(|| paths.iter().take(count).map(|path| *path as f64 * 100.0 / total as f64).collect())
}

/// Cycles with all paths in proportion to those with one.
fn cost_of_all(section: &Section) -> Option<f64> {
    section.table.as_ref()?.rows.last()?.cells.get("ratio")?.measured()
}
