//! `flow-cache`: what the flow cache saves. The bare-metal document: up to 75 % of the cycles.
//!
//! Two nodes with the same document, but for the cache, forward the same packets in turn.

use sluice_trial::topology::Topology;

use crate::error::Result;
use crate::measure::{Directions, Sample};
use crate::profile::{self, Profile};
use crate::report::{Chart, Column, Report, Row, Section, Series, Table, marks, median};
use crate::scenario::{BARE_METAL, Scenario};
use crate::session::Session;
use crate::subject::{Node, Subject, Variant};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "flow-cache",
    title: "What the flow cache saves",
    about: "The same packets with the flow cache and without: cycles a packet, packets a second",
    reproduces: Some((BARE_METAL, "Flow Cache: reduces CPU cycles by as much as 75 %")),
    network: Topology::ONE,
    sizes: &[64],
    examples: "Examples:
  sluice bench flow-cache
  sluice bench flow-cache --sizes 64,512 --family ipv6",
    searches: false,
    mebibytes: 2 * 256 + 2 * 64,
    own: None,
    run,
};

const DIRECTIONS: [Directions; 3] = [Directions::Encap, Directions::Decap, Directions::Both];
/// What the document says is saved, percent.
const PUBLISHED: f64 = 75.0;

fn run(session: &mut Session<'_>, report: &mut Report) -> Result<()> {
    session.needs_shared_memory()?;
    let topology = session.topology();
    let cases = session.cases(&DIRECTIONS, report)?;
    let ceilings = session.ceilings(&topology, &cases, report)?;
    let setting = &session.bench.setting;
    let mut on = Node::start(setting, Variant { name: "flow-cache-on", ..Variant::new(topology) })?;
    on.pause();
    let off = Variant { name: "flow-cache-off", flow_cache: false, ..Variant::new(topology) };
    let mut off = Node::start(setting, off)?;
    session.describe(&mut on, report);
    session.describe(&mut off, report);
    let samples = session.in_turn(&mut [&mut on, &mut off], &cases)?;
    on.resume();
    let profiles_on = session.profile(&mut on, &cases)?;
    on.pause();
    off.resume();
    let profiles_off = session.profile(&mut off, &cases)?;
    off.pause();

    let mut table = Table::new([
        Column::label("case", "case"),
        Column::measured("on", "with", "cycles/packet").lower_is_better(),
        Column::measured("off", "without", "cycles/packet").lower_is_better(),
        Column::measured("saved", "saved", "%").digits(1).higher_is_better(),
        Column::measured("on-forwarding", "forwarding, with", "cycles/packet").lower_is_better(),
        Column::measured("off-forwarding", "without", "cycles/packet").lower_is_better(),
        Column::measured("saved-forwarding", "saved", "%").digits(1).higher_is_better(),
        Column::document("document", "saved", "%"),
        Column::measured("on-mpps", "with", "Mpps").digits(2).higher_is_better(),
        Column::measured("off-mpps", "without", "Mpps").digits(2).higher_is_better(),
        Column::measured("hits", "hits", "%").digits(2),
        Column::measured("ceiling", "ceiling", "Mpps").digits(2),
    ]);
    let (mut names, mut with, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (case, ceiling)) in cases.iter().zip(&ceilings).enumerate() {
        let [on, off] = [&samples[0][at], &samples[1][at]];
        let saved =
            Sample::cycles(on).into_iter().zip(Sample::cycles(off)).map(|(on, off)| (1.0 - on / off) * 100.0);
        let forwarding = |profiles: &[Profile]| {
            profiles.get(at).map(|profile| profile.forwarding.clone()).unwrap_or_default()
        };
        let (on_forwarding, off_forwarding) = (forwarding(&profiles_on), forwarding(&profiles_off));
        let pairs = on_forwarding.iter().zip(&off_forwarding);
        let saved_forwarding: Vec<f64> = pairs.map(|(on, off)| (1.0 - on / off) * 100.0).collect();
        let hits = on.iter().filter_map(|sample| Some(sample.counters.hit_rate()? * 100.0));
        names.push(case.to_string());
        with.push(median(Sample::cycles(on)));
        without.push(median(Sample::cycles(off)));
        let row = Row::new()
            .label("case", case)
            .measured("on", Sample::cycles(on))
            .measured("off", Sample::cycles(off))
            .measured("saved", saved)
            .measured("on-forwarding", on_forwarding)
            .measured("off-forwarding", off_forwarding)
            .measured("saved-forwarding", saved_forwarding)
            .document("document", PUBLISHED)
            .measured("on-mpps", on.iter().map(Sample::mpps))
            .mark_if(ceiling.limits(on), marks::LIMITED_BY_GENERATOR)
            .measured("off-mpps", off.iter().map(Sample::mpps))
            .mark_if(ceiling.limits(off), marks::LIMITED_BY_GENERATOR)
            .measured("hits", hits)
            .measured("ceiling", ceiling.mpps.iter().copied());
        table.push(row);
        for samples in [on, off] {
            report.check_frames(&case.to_string(), &Sample::faults(samples));
        }
    }
    let least = ["saved", "saved-forwarding"].map(|column| least(&table, column));
    let chart = Chart::bars("Cycles a packet", names, crate::report::Axis::new("cycles a packet", ""))
        .series(Series::measured("with the flow cache", with))
        .series(Series::measured("without", without))
        .caption("Receiving and sending over shared memory included, which the flow cache saves nothing of.");
    report.section(
        Section::new("flow-cache", "With the flow cache and without")
            .text("Cycles of polls that found packets, by trials in turn. Forwarding is the part of them that a profile attributes to stages other than receiving and sending, of which a cache can save nothing; what the profile's own time stamps cost in these stages is taken off. Without the cache they are many.")
            .table(table)
            .chart(chart),
    );
    report.section(profile::section(&named(profiles_on, profiles_off)));
    if let [Some(least), Some(forwarding)] = least {
        report.result(format!(
            "In the case where it saves least, the flow cache saves {forwarding:.0} % of the cycles of forwarding, and {least:.0} % of all cycles of a packet, ports included."
        ));
    }
    Ok(())
}

/// Profiles of both nodes, named after them.
fn named(on: Vec<Profile>, off: Vec<Profile>) -> Vec<Profile> {
    let with = on.into_iter().map(|profile| Profile { case: format!("{}, with", profile.case), ..profile });
    let without =
        off.into_iter().map(|profile| Profile { case: format!("{}, without", profile.case), ..profile });
    with.zip(without).flat_map(|(with, without)| [with, without]).collect()
}

/// The least number of a column.
fn least(table: &Table, column: &str) -> Option<f64> {
    let saved = table.rows.iter().filter_map(|row| row.cells.get(column)?.measured());
    saved.min_by(f64::total_cmp)
}
