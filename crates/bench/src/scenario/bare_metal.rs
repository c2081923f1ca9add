//! `bme-1` and `bme-2`: the bare-metal document's test cases. A tester sends UDP flows to the workloads, which send every packet back;
//! RFC 2544's throughput for each frame size, and what it costs.
//!
//! The edge handles each frame of the tester twice: encapsulated on its way to the workloads, decapsulated on its way back.

use sluice_trial::message::Load;
use sluice_trial::topology::Topology;

use crate::error::{BenchError, Result};
use crate::line_rate::{self, DocumentRow, FrameBytes, LinkSpeed};
use crate::measure::{Case, Ceiling, Directions, Sample};
use crate::profile;
use crate::report::{
    Chart, Column, FrameFaults, Latency, Report, Row, Section, Series, Table, marks, median,
};
use crate::scenario::{BARE_METAL, Scenario};
use crate::search::LimitedBy;
use crate::search::latency::{SHARES, load_points};
use crate::search::throughput::Verdict;
use crate::session::{ABOVE_CEILING, Session};
use crate::subject::{NO_CYCLES, Subject};

pub(crate) const ONE: Scenario = Scenario {
    name: "bme-1",
    title: "One uplink, one downlink",
    about: "One uplink, one downlink: RFC 2544 throughput and latency by frame size",
    reproduces: Some((BARE_METAL, "Test Case Scenario 1: Single Uplink/Single Downlink, Table 2")),
    network: Topology::ONE,
    sizes: &[256, 512, 1024, 1500],
    examples: "Examples:
  sluice bench bme-1 --quick --html report.html
  sluice bench bme-1 --full --output bme-1.json
  sluice bench bme-1 --repeat 3 --reset-state --output after.json
  sluice bench bme-1 --sizes 64,imix-fdio --encapsulation vxlan",
    searches: true,
    mebibytes: 256 + 4 * 64,
    own: None,
    run: |session, report| {
        report.note("The copy of the document at hand has lost the sizes of its Table 2. That its rows are those of 256, 512, 1024 and 1500 bytes, with one more between them, is assumed.");
        run(session, report, &PUBLISHED_ONE)
    },
};

pub(crate) const TWO: Scenario = Scenario {
    name: "bme-2",
    title: "Two uplinks, a LAG of two downlinks",
    about: "Two uplinks that share the load by ECMP, a LAG of two downlinks: throughput and latency by frame size",
    reproduces: Some((BARE_METAL, "Test Scenario 2: Two Uplinks/Two Downlinks in LAG, Table 3")),
    network: Topology { uplinks: 2, downlinks: 2, lag: true, paths: 2, ..Topology::ONE },
    sizes: &[128, 256, 512, 1024, 1500],
    examples: "Examples:
  sluice bench bme-2 --quick --html report.html
  sluice bench bme-2 --full --output bme-2.json",
    searches: true,
    mebibytes: 256 + 6 * 64,
    own: None,
    run: |session, report| {
        report.note("The downlinks are a LAG, as in the document: LACP with the generator, one TEP, flows spread by the hash of MAC addresses, IP addresses and ports.");
        run(session, report, &PUBLISHED_TWO)
    },
};

/// What a document's table says of a size.
struct Published {
    bytes: u32,
    /// What the tester sends, Gb/s.
    throughput: f64,
    /// What the edge sends into the tunnel, Gb/s; not published for every row.
    egress: Option<f64>,
    /// The most of what it says of 28 cores: CPU use in percent, millions of packets a second and core.
    cpu: Option<(f64, f64)>,
}

/// Table 2. The copy at hand has five rows and no sizes; the first, second, fourth and fifth are taken for the four sizes of the test.
const PUBLISHED_ONE: [Published; 4] = [
    Published { bytes: 256, throughput: 79.8, egress: Some(89.4), cpu: None },
    Published { bytes: 512, throughput: 89.5, egress: Some(95.1), cpu: None },
    Published { bytes: 1024, throughput: 94.7, egress: Some(97.6), cpu: None },
    Published { bytes: 1500, throughput: 95.7, egress: Some(98.2), cpu: None },
];

/// Table 3, on 28 cores.
const PUBLISHED_TWO: [Published; 5] = [
    Published { bytes: 128, throughput: 29.8, egress: None, cpu: Some((94.0, 1.4)) },
    Published { bytes: 256, throughput: 135.7, egress: None, cpu: Some((94.0, 2.4)) },
    Published { bytes: 512, throughput: 161.4, egress: None, cpu: Some((94.0, 1.4)) },
    Published { bytes: 1024, throughput: 184.7, egress: None, cpu: Some((94.0, 1.7)) },
    Published { bytes: 1500, throughput: 189.6, egress: None, cpu: Some((90.0, 0.8)) },
];

/// What was measured of one size.
struct Measured {
    case: Case,
    frame: FrameBytes,
    ceiling: Ceiling,
    searches: Vec<Search>,
}

/// One search for the throughput, and what was measured with what it found.
struct Search {
    verdict: Verdict,
    /// Frames a second at which no more than the tolerated share was lost, and the trial at it.
    throughput: Option<(f64, Sample)>,
    /// Share of the throughput, and the trial at it.
    latencies: Vec<(f64, Sample)>,
    /// What was lost at the lowest rate, where that was too much.
    below: Option<String>,
    /// Trials that were repeated because another program had one of the cores.
    disturbed: u32,
}

fn run(session: &mut Session<'_>, report: &mut Report, published: &[Published]) -> Result<()> {
    let topology = session.topology();
    let cases = session.cases(&[Directions::Loop], report)?;
    session.steps(cases.len() * session.bench.repeat);
    let speed = session.arguments.link()?;
    let (mut device, ceilings) = session.start_device(&topology, &cases, report)?;
    let mut measured: Vec<Measured> = Vec::new();
    for (case, ceiling) in cases.into_iter().zip(ceilings) {
        let frame = FrameBytes::new(case.genome.average())?;
        let maximum = maximum(&topology, speed, frame, &ceiling)?;
        let mut one = Measured { frame, ceiling, searches: Vec::new(), case };
        let outcome = searches(session, device.subject(), &mut one, maximum);
        if !one.searches.is_empty() {
            report.check_frames(&one.case.to_string(), &one.faults());
            measured.push(one);
            fill(report, &measured, &topology, speed, published)?;
        }
        outcome?;
    }
    let searches = measured.iter().flat_map(|one| &one.searches);
    Session::tell_disturbed(searches.map(|search| search.disturbed).sum(), report);
    if let Some(node) = device.node().filter(|_| session.arguments.profile) {
        let cases: Vec<Case> = measured.iter().map(|one| one.case.clone()).collect();
        let profiles = session.profile(node, &cases)?;
        report.section(profile::section(&profiles));
    }
    Ok(())
}

/// The highest rate that is tried: that of the line, or what generator and links can do and a little more.
fn maximum(topology: &Topology, link: LinkSpeed, frame: FrameBytes, ceiling: &Ceiling) -> Result<f64> {
    let all = |links: u8| LinkSpeed::new(link.bits_per_second() * f64::from(links));
    let tunnel = line_rate::Encapsulation::of(topology)?.encapsulated(frame)?;
    let line = all(topology.uplinks)?
        .frames_per_second(frame)
        .min(all(topology.downlinks)?.frames_per_second(tunnel));
    Ok((ceiling.rate() * ABOVE_CEILING).min(line))
}

/// All searches of a case. What was found before an error stays.
fn searches(
    session: &mut Session<'_>,
    device: &mut dyn Subject,
    one: &mut Measured,
    maximum: f64,
) -> Result<()> {
    for _ in 0..session.bench.repeat {
        let search = search(session, device, &one.case, maximum)?;
        one.searches.push(search);
        session.step();
    }
    Ok(())
}

/// One search, and latencies at shares of what it found.
fn search(session: &Session<'_>, subject: &mut dyn Subject, case: &Case, maximum: f64) -> Result<Search> {
    let (found, device) = session.throughput(subject, case, maximum)?;
    let rate = match found.verdict {
        Verdict::Found { throughput, .. } => Some(throughput),
        Verdict::AtLeastMaximum => Some(maximum),
        Verdict::BelowMinimum { .. } => None,
    };
    let below = found.trials.last().filter(|_| rate.is_none()).map(|trial| {
        format!(
            "{}: of {} frames {} were not sent in time and {} did not come back",
            marks::BELOW_MINIMUM,
            trial.intended,
            trial.unsent,
            trial.counted.sent - trial.counted.received
        )
    });
    let throughput = rate.and_then(|rate| {
        let sample = device.sample_at(rate)?.clone();
        // At the highest rate that was allowed what was sent is told, which may be a little less.
        let sent = sample.result.sent() as f64 * 1e9 / sample.result.sending_ns.max(1) as f64;
        let is_highest = matches!(found.verdict, Verdict::AtLeastMaximum);
        Some((if is_highest { sent } else { rate }, sample))
    });
    let disturbed = device.disturbed;
    let mut latencies = Vec::new();
    if let Some(rate) = rate {
        let points = load_points(rate, &SHARES).map_err(|error| BenchError::Search(error.to_string()))?;
        for point in points {
            session.message(format!("{case}: latency at {:.0} %", point.share * 100.0));
            let load = Load::Rate { packets_per_second: point.frames_per_second };
            let trial =
                session.bench.measuring.calm_trial(subject, case, load, session.arguments.trial(), true)?;
            latencies.push((point.share, trial));
        }
    }
    Ok(Search { verdict: found.verdict, throughput, latencies, below, disturbed })
}

impl Measured {
    fn faults(&self) -> FrameFaults {
        let at_throughput = self.found().map(|(_, sample)| sample);
        let latencies = self.searches.iter().flat_map(|search| &search.latencies).map(|(_, sample)| sample);
        Sample::faults(at_throughput.chain(latencies))
    }

    /// The throughputs that were found, frames a second, and the trials at them.
    fn found(&self) -> impl Iterator<Item = (f64, &Sample)> {
        self.searches.iter().filter_map(|search| search.throughput.as_ref()).map(|(rate, one)| (*rate, one))
    }

    /// The throughput, frames a second: the median.
    fn rate(&self) -> Option<f64> {
        median(self.found().map(|(rate, _)| rate))
    }

    /// Cycles a packet at the throughput.
    fn cycles(&self) -> Vec<f64> {
        self.found().filter_map(|(_, sample)| sample.counters.cycles_per_packet()).collect()
    }

    /// Why there is no throughput.
    fn below(&self) -> &str {
        self.searches.iter().find_map(|search| search.below.as_deref()).unwrap_or(marks::BELOW_MINIMUM)
    }
}

/// Puts what is known so far into the report: after each size, so that an interrupted run shows the sizes before.
fn fill(
    report: &mut Report,
    measured: &[Measured],
    topology: &Topology,
    link: LinkSpeed,
    published: &[Published],
) -> Result<()> {
    report.sections.clear();
    report.section(throughput(measured, topology, link, published)?);
    report.section(latency(measured));
    let tells = measured.iter().any(|one| !one.cycles().is_empty());
    if tells || measured.iter().all(|one| one.rate().is_none()) {
        report.section(sizing(measured, report.environment.cycles_per_second.unwrap_or(0) as f64)?);
    }
    let sentence = |one: &Measured| {
        let rate = one.rate()?;
        let gbps = one.frame.layer_1_bits_per_second(rate) / 1e9;
        Some(format!("{gbps:.1} Gb/s ({:.2} Mpps) of frames of {} bytes", rate / 1e6, one.case.sizes))
    };
    let sentences: Vec<String> = [measured.first(), measured.last().filter(|_| measured.len() > 1)]
        .into_iter()
        .flatten()
        .filter_map(sentence)
        .collect();
    if !sentences.is_empty() {
        let all = sentences.join(", ");
        report.result(format!(
            "{all}: there and back again through one node, with no more than the tolerated loss."
        ));
    }
    Ok(())
}

fn throughput(
    measured: &[Measured],
    topology: &Topology,
    link: LinkSpeed,
    published: &[Published],
) -> Result<Section> {
    let mut table = Table::new([
        Column::label("size", "size").unit("B"),
        Column::measured("throughput", "throughput", "Gb/s").digits(2).higher_is_better(),
        Column::document("document-throughput", "throughput", "Gb/s").digits(1),
        Column::measured("frames", "frames", "Mpps").digits(3).higher_is_better(),
        Column::calculated("tunnel-size", "in the tunnel", "B"),
        Column::calculated("egress", "egress", "Gb/s").digits(2),
        Column::document("document-egress", "egress", "Gb/s").digits(1),
        Column::calculated("utilization", "of the line", "%").digits(1),
        Column::calculated("total", "in + out", "Gb/s").digits(2),
        Column::measured("loss", "loss", "%").digits(4).lower_is_better(),
        Column::measured("cpu", "CPU", "%").digits(0),
        Column::measured("core", "a core", "Mpps").digits(2).higher_is_better(),
        Column::measured("cycles", "cycles", "/packet").digits(0).lower_is_better(),
        Column::measured("ceiling", "ceiling", "Mpps").digits(2),
    ]);
    if published.iter().any(|row| row.cpu.is_some()) {
        table = table.columns([
            Column::document("document-cpu", "CPU, up to", "%"),
            Column::document("document-core", "a core, up to", "Mpps").digits(1),
        ]);
    }
    let downlinks = LinkSpeed::new(link.bits_per_second() * f64::from(topology.downlinks))?;
    let (mut ours, mut theirs, mut line, mut sizes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for one in measured {
        let document = published.iter().find(|row| one.case.sizes.to_string() == row.bytes.to_string());
        let (row, gbps) = throughput_row(one, topology, downlinks, document)?;
        table.push(row);
        sizes.push(one.frame.get() as u32);
        ours.push(gbps);
        theirs.push(document.map(|row| row.throughput));
        line.push(link.bits_per_second() * f64::from(topology.uplinks) / 1e9);
    }
    let chart = Chart::throughput_by_size("Throughput by frame size", "Gb/s", sizes)
        .series(Series::measured("measured", ours))
        .series(Series::document("document", theirs))
        .series(Series::calculated("line rate of the uplinks", line))
        .caption("What the tester sends, and gets back from the workloads, at layer 1. The document's machine had 28 cores for packets and 100 Gb/s cards.");
    Ok(Section::new("throughput", "Throughput")
        .text("The highest rate with no more than the tolerated loss, all of it sent back by the workloads. Gb/s are of layer 1, with preamble and gap, as the document counts them. Every frame passes the node twice, and counts twice in what a core does and in cycles a packet. Egress, share of the line and in + out follow from the rate by arithmetic.")
        .table(table)
        .chart(chart))
}

fn throughput_row(
    one: &Measured,
    topology: &Topology,
    downlinks: LinkSpeed,
    document: Option<&Published>,
) -> Result<(Row, Option<f64>)> {
    let mut row =
        Row::new().label("size", &one.case.sizes).measured("ceiling", one.ceiling.mpps.iter().copied());
    if let Some(published) = document {
        row = row.document("document-throughput", published.throughput);
        if let Some(egress) = published.egress {
            row = row.document("document-egress", egress);
        }
        if let Some((cpu, core)) = published.cpu {
            row = row.document("document-cpu", cpu).document("document-core", core);
        }
    }
    let Some(rate) = one.rate() else {
        return Ok((row.not_measured("throughput", one.below()), None));
    };
    let figures = DocumentRow::new(one.frame, rate, line_rate::Encapsulation::of(topology)?, downlinks)?;
    let verdicts = || one.searches.iter().map(|search| &search.verdict);
    let limited = one.ceiling.is_near(rate)
        || verdicts().any(|verdict| matches!(verdict, Verdict::Found { limited_by: LimitedBy::Sender, .. }));
    let tells = !one.cycles().is_empty();
    let of = |number: fn(&Sample) -> f64| one.found().map(move |(_, sample)| number(sample));
    let gbps = one.found().map(|(rate, _)| one.frame.layer_1_bits_per_second(rate) / 1e9).collect();
    let row = row
        .found("throughput", gbps, one.searches.len())
        .mark_if(limited, marks::LIMITED_BY_GENERATOR)
        .mark_if(verdicts().any(|it| *it == Verdict::AtLeastMaximum), marks::LIMITED_BY_SEARCH)
        .measured("frames", one.found().map(|(rate, _)| rate / 1e6))
        .calculated("tunnel-size", figures.encapsulated.get())
        .calculated("egress", figures.egress / 1e9)
        .calculated("utilization", figures.utilization * 100.0)
        .calculated("total", figures.total / 1e9)
        .measured("loss", of(|sample| sample.result.loss() * 100.0))
        .known("cpu", of(|sample| sample.busy * 100.0).filter(|_| tells), NO_CYCLES)
        .known("core", of(packets_a_core).filter(|_| tells), NO_CYCLES)
        .known("cycles", one.cycles(), NO_CYCLES);
    Ok((row, Some(figures.throughput / 1e9)))
}

/// Millions of packets a second that each core of the node received.
fn packets_a_core(sample: &Sample) -> f64 {
    let seconds = sample.result.sending_ns as f64 / 1e9;
    sample.counters.packets as f64 / seconds / sample.cores as f64 / 1e6
}

fn latency(measured: &[Measured]) -> Section {
    let labels = [Column::label("size", "size").unit("B"), Column::label("load", "load")];
    let mut table = Table::new(labels).columns(Latency::columns("latency")).columns([Column::measured(
        "loss", "loss", "%",
    )
    .digits(4)
    .lower_is_better()]);
    let mut chart = Chart::latency_percentiles("Latency at half of the throughput");
    for one in measured {
        for share in SHARES {
            let samples = || {
                let all = one.searches.iter().flat_map(|search| &search.latencies);
                all.filter(move |(of, _)| *of == share).map(|(_, sample)| sample)
            };
            if samples().next().is_none() {
                continue;
            }
            let latencies: Vec<Latency> =
                samples().filter_map(|sample| sample.result.latency.map(Latency::from)).collect();
            let row = Row::new()
                .label("size", &one.case.sizes)
                .label("load", format!("{:.0} %", share * 100.0))
                .latency("latency", &latencies)
                .mark_if(samples().any(Sample::is_disturbed), marks::DISTURBED)
                .measured("loss", samples().map(|sample| sample.result.loss() * 100.0));
            table.push(row);
            if let Some(latency) = Latency::median(&latencies).filter(|_| share == SHARES[1]) {
                chart = chart.series(Series::latency(&format!("{} B", one.case.sizes), &latency));
            }
        }
    }
    Section::new("latency", "Latency")
        .text("From the moment when a frame was to be sent until it came back to the tester: twice through the edge, once through the workload. The generator's own part is not taken off; the report says how long it is.")
        .table(table)
        .chart(chart.caption("Percentiles of the round trip, half of the throughput offered."))
}

fn sizing(measured: &[Measured], hertz: f64) -> Result<Section> {
    let mut table = Table::new([
        Column::label("size", "size").unit("B"),
        Column::measured("cycles", "cycles", "/packet").lower_is_better(),
        Column::calculated("10", "10 Gb/s", "cores"),
        Column::calculated("25", "25 Gb/s", "cores"),
        Column::calculated("100", "100 Gb/s", "cores"),
        Column::calculated("200", "200 Gb/s", "cores"),
    ]);
    for one in measured {
        let mut row = Row::new().label("size", &one.case.sizes).known("cycles", one.cycles(), NO_CYCLES);
        if let Some(cycles) = median(one.cycles()).filter(|_| hertz > 0.0) {
            let needed = line_rate::cores_for_links(one.frame, cycles, hertz)?;
            for (key, (_, cores)) in ["10", "25", "100", "200"].into_iter().zip(needed) {
                row = row.calculated(key, cores as f64);
            }
        }
        table.push(row);
    }
    Ok(Section::new("sizing", "Cores that a link needs")
        .text("Whole cores of this machine's clock for one direction of a link that is full of frames of one size, from the measured cycles a packet; a link that is full both ways needs twice as many.")
        .table(table))
}
