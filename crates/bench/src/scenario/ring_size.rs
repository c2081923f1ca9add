//! `ring-size`: the longest burst that rings of each size take without loss. The bare-metal document raises them to 4,096.
//!
//! Back-to-back frames (RFC 2544 section 26.4, RFC 9004): bursts as fast as the generator can send, into a node with rings of one size
//! after the other.

use sluice_trial::topology::Topology;

use crate::device::UnderTest;
use crate::error::Result;
use crate::measure::{Directions, Sample};
use crate::report::{Axis, Cell, Chart, Column, Report, Row, Section, Series, Table, marks, median};
use crate::scenario::{BARE_METAL, Scenario};
use crate::search::back_to_back::Verdict;
use crate::session::Session;
use crate::subject::{Node, Variant};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "ring-size",
    title: "Bursts that rings of each size take",
    about: "Rings of 512 to 4,096 descriptors against bursts: where loss begins",
    reproduces: Some((BARE_METAL, "Performance Tuning: ring size")),
    network: Topology::ONE,
    sizes: &[64],
    examples: "Examples:
  sluice bench ring-size
  sluice bench ring-size --sizes 64,1500",
    searches: false,
    mebibytes: 256 + 64,
    own: None,
    run,
};

const RING_SIZES: [u16; 4] = [512, 1024, 2048, 4096];
/// Bursts of the loss curve.
const CURVE: [u64; 8] = [256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768];

fn run(session: &mut Session<'_>, report: &mut Report) -> Result<()> {
    let topology = session.topology();
    let cases = session.cases(&[Directions::Encap], report)?;
    session.steps(cases.len() * RING_SIZES.len());
    let mut table = Table::new([
        Column::label("size", "size").unit("B"),
        Column::label("ring", "ring").unit("descriptors"),
        Column::measured("burst", "longest burst", "frames").higher_is_better(),
        Column::measured("least", "least", "frames"),
        Column::measured("most", "most", "frames"),
        Column::measured("pace", "pace", "Mpps").digits(1),
        Column::measured("rate", "forwarded", "Mpps").digits(1).higher_is_better(),
        Column::measured("ceiling", "ceiling", "Mpps").digits(1),
    ]);
    let mut charts = Vec::new();
    let ceilings = session.ceilings(&topology, &cases, report)?;
    for (case, ceiling) in cases.iter().zip(&ceilings) {
        let frames = Axis::new("frames in a burst", "").logarithmic();
        let mut chart = Chart::lines(
            &format!("Loss by length of a burst, {} B", case.sizes),
            frames,
            Axis::new("loss", "%"),
        );
        for ring_size in RING_SIZES {
            let name = ring_name(ring_size);
            let mut node =
                Node::start(&session.bench.setting, Variant { name, ring_size, ..Variant::new(topology) })?;
            if ring_size == RING_SIZES[0] {
                session.describe(&mut node, report);
            }
            let trials = (0..session.bench.repeat).map(|_| session.bench.measuring.sample(&mut node, case));
            let trials = trials.collect::<Result<Vec<Sample>>>()?;
            let rate = median(trials.iter().map(|trial| trial.result.packets_per_second()));
            let mut device = UnderTest::new(&mut node, case, session.bench.measuring);
            let (paces, verdict) = session.longest_burst(
                &mut device,
                rate.unwrap_or_default(),
                format!("rings of {ring_size}, {case}"),
            )?;
            let row = row(&case.sizes, ring_size, &verdict, &paces)
                .measured("rate", trials.iter().map(Sample::mpps))
                .mark_if(ceiling.limits(&trials), marks::LIMITED_BY_GENERATOR)
                .measured("ceiling", ceiling.mpps.iter().copied());
            table.push(row);
            session.message(format!("rings of {ring_size}: loss by length of a burst"));
            chart = chart.series(Series::points(&ring_size.to_string(), curve(&mut device)?));
            session.step();
        }
        charts.push(chart.caption(
            "Share of the frames of one burst that did not come back, by the size of the node's rings.",
        ));
    }
    if let (Some(first), Some(last)) = (table.rows.first(), table.rows.last()) {
        let burst = |row: &Row| row.cells.get("burst").and_then(Cell::measured);
        if let (Some(first), Some(last)) = (burst(first), burst(last)) {
            report.result(format!(
                "Rings of {} take bursts of {first:.0} frames without loss, rings of {} bursts of {last:.0}.",
                RING_SIZES[0],
                RING_SIZES[RING_SIZES.len() - 1]
            ));
        }
    }
    let section = Section::new("ring-size", "The longest burst without loss")
        .text("Average of the longest bursts of several searches. While a burst is sent, at the pace of the generator, nothing is received: what the node forwards meanwhile waits in its transmit ring, what it has not come to in its receive ring. So this is what both rings hold, and no buffer time follows from it.")
        .table(table);
    report.section(charts.into_iter().fold(section, Section::chart));
    Ok(())
}

fn row(sizes: &impl std::fmt::Display, ring_size: u16, verdict: &Verdict, paces: &[f64]) -> Row {
    let row = Row::new()
        .label("size", sizes)
        .label("ring", ring_size)
        .measured("pace", paces.iter().map(|pace| pace / 1e6));
    let (bursts, mark) = match verdict {
        Verdict::BelowMinimum { .. } => return row.not_measured("burst", "loss at the shortest burst"),
        Verdict::Found(bursts) => (bursts, None),
        Verdict::AtLeast { bursts, .. } => (bursts, Some(marks::LIMITED_BY_SEARCH)),
    };
    let row = row.average("burst", bursts.lengths.iter().map(|frames| *frames as f64));
    let row = match mark {
        Some(mark) => row.mark(mark),
        None => row,
    };
    row.value("least", bursts.least as f64).value("most", bursts.most as f64)
}

/// Loss in percent by frames of a burst: the mean of a few bursts.
fn curve(device: &mut UnderTest<'_>) -> Result<Vec<(f64, f64)>> {
    const BURSTS: u32 = 5;
    let mut points = Vec::new();
    for frames in CURVE {
        let mut lost = 0.0;
        for _ in 0..BURSTS {
            lost += device.burst_loss(frames)?;
        }
        points.push((frames as f64, lost / f64::from(BURSTS) * 100.0));
    }
    Ok(points)
}

fn ring_name(ring_size: u16) -> &'static str {
    match ring_size {
        512 => "ring-512",
        1024 => "ring-1024",
        2048 => "ring-2048",
        _ => "ring-4096",
    }
}
