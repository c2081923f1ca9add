//! `peers`: the same work on a node and on its peers, in turn, A B C A B C, while the others stand still.
//!
//! What is compared was measured in the same round of the same run: a ratio is the median of the rounds' ratios, so that a machine that is
//! slower for a while is slower for all. Nothing is compared across kinds of ports: there is a node on each of them.
//!
//! ```text
//!   memif, Geneve   sluice       ovs-dpdk   testpmd-io   echo
//!   veth, VXLAN     sluice-veth  linux-vxlan
//! ```
//!
//! A peer that cannot run here is left out, and the report says why.

use std::ops::Range;
use std::path::Path;

use serde_json::json;
use sluice_trial::topology::Topology;
use sluice_trial::traffic::{Encapsulation, Expected};

use crate::environment::Port;
use crate::error::{BenchError, Result};
use crate::measure::{Case, Ceiling, Directions, Sample};
use crate::report::{
    Axis, Cell, Chart, Column, OutputFile, Report, Row, Section, Series, Table, marks, median,
};
use crate::scenario::Scenario;
use crate::session::Session;
use crate::subject::{Echo, Node, PEERS, PeerPorts, Setting, Subject, Variant, Veth};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "peers",
    title: "The same work on a node and on its peers",
    about: "The same packets through a node, Open vSwitch with DPDK, testpmd and Linux, in turn: rates, cycles, ratios",
    reproduces: None,
    network: Topology::ONE,
    sizes: &[64],
    examples: "Examples:
  sluice bench peers
  sluice bench peers --repeat 15 --html peers.html
  sluice bench peers --direction both --sizes 64,1500",
    // Node, Open vSwitch, testpmd; four generators and an echo. What is on veths uses none.
    searches: false,
    mebibytes: 256 + 512 + 256 + 5 * 64,
    own: None,
    run,
};

/// Where the rows are written for programs that only want them, in a folder that has one for it.
const ROWS: &str = "target/bench/peers.json";
/// Rows whose rate is that of less work.
const UNCHANGED: &str = "forwards frames unread and unchanged: the work of the ports alone";
/// Why a device has no cycles.
const NO_CYCLES: &str = "it forwards in the generator's own time, or received nothing";

/// Devices on one kind of ports.
struct Group {
    ports: PeerPorts,
    /// Places of its devices; the first one is a node.
    devices: Range<usize>,
}

/// A device and its trials by case.
struct Measured<'a> {
    name: &'static str,
    expected: Expected,
    samples: &'a [Vec<Sample>],
}

fn run(session: &mut Session<'_>, report: &mut Report) -> Result<()> {
    let rows =
        Path::new(ROWS).parent().filter(|folder| folder.is_dir()).map(|_| OutputFile::check(Path::new(ROWS)));
    let rows = rows.transpose()?;
    session.needs_shared_memory()?;
    let cases = session.cases(&[Directions::Encap, Directions::Decap, Directions::Both], report)?;
    // Dropped behind the devices on it.
    let mut veth = None;
    let mut devices = start_on_memif(session, report)?;
    let mut groups = vec![Group { ports: PeerPorts::SharedMemory, devices: 0..devices.len() }];
    match start_on_veth(session, report, &mut veth) {
        Ok(more) => {
            let first = devices.len();
            devices.extend(more);
            groups.push(Group { ports: PeerPorts::Veth, devices: first..devices.len() });
        }
        Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
        Err(error) => report.warn(format!("nothing was measured on veths: {error}")),
    }
    report.environment.ports = groups.iter().map(|group| port(group, &devices)).collect();
    for group in groups.iter().rev() {
        session.describe(devices[group.devices.start].as_mut(), report);
    }
    let mut subjects: Vec<&mut dyn Subject> = devices.iter_mut().map(|device| device.as_mut() as _).collect();
    let samples = session.in_turn(&mut subjects, &cases)?;
    let measured: Vec<Measured<'_>> = devices
        .iter()
        .zip(&samples)
        .map(|(device, samples)| Measured { name: device.name(), expected: device.expected(), samples })
        .collect();
    for device in &measured {
        for (case, samples) in cases.iter().zip(device.samples) {
            report.check_frames(&format!("{} {case}", device.name), &Sample::faults(samples));
        }
    }
    let sections: Vec<Section> =
        groups.into_iter().map(|group| section(group.ports, &cases, &measured[group.devices])).collect();
    let tables: Vec<&Table> = sections.iter().filter_map(|section| section.table.as_ref()).collect();
    if let Some(rows) = rows {
        rows.write(&format!("{:#}\n", plain_rows(&tables)))?;
    }
    report.result(sentence(&tables));
    for section in sections {
        report.section(section);
    }
    Ok(())
}

/// The ports of a group, for the report.
fn port(group: &Group, devices: &[Box<dyn Subject>]) -> Port {
    let names: Vec<&str> = devices[group.devices.clone()].iter().map(|device| device.name()).collect();
    let kind = match group.ports {
        PeerPorts::SharedMemory => "memif (shared memory)",
        PeerPorts::Veth => "veth, AF_XDP at the generator and the node, ordinary pages",
    };
    Port { name: names.join(", "), kind: kind.into(), mbps: None }
}

/// The node, every peer on shared memory that can run here, and an echo.
fn start_on_memif(session: &Session<'_>, report: &mut Report) -> Result<Vec<Box<dyn Subject>>> {
    let (setting, topology) = (&session.bench.setting, session.topology());
    let mut devices: Vec<Box<dyn Subject>> = vec![Box::new(Node::start(setting, Variant::new(topology))?)];
    start_peers(session, report, PeerPorts::SharedMemory, &topology, &mut devices)?;
    devices.push(Box::new(Echo::start(setting, &topology)?));
    pause(&devices);
    Ok(devices)
}

/// A node on veths and every peer on them that can run here. Kernels have VXLAN where many have no Geneve.
fn start_on_veth(
    session: &Session<'_>,
    report: &mut Report,
    veth: &mut Option<Veth>,
) -> Result<Vec<Box<dyn Subject>>> {
    let topology = Topology { encapsulation: Encapsulation::Vxlan, ..session.topology() };
    session.message("making veths");
    let setting: Setting =
        veth.insert(Veth::new(&session.bench.setting, "sluice-veth")?).setting(&session.bench.setting);
    let variant = Variant { name: "sluice-veth", ..Variant::new(topology) };
    let mut devices: Vec<Box<dyn Subject>> = vec![Box::new(Node::start(&setting, variant)?)];
    start_peers(session, report, PeerPorts::Veth, &topology, &mut devices)?;
    Ok(devices)
}

/// Starts the peers on one kind of ports; everything stands still afterwards.
fn start_peers(
    session: &Session<'_>,
    report: &mut Report,
    ports: PeerPorts,
    topology: &Topology,
    devices: &mut Vec<Box<dyn Subject>>,
) -> Result<()> {
    pause(devices);
    for peer in PEERS.iter().filter(|peer| peer.ports == ports) {
        session.message(format!("starting {}", peer.name));
        match (peer.start)(&session.bench.setting, topology) {
            Ok(device) => devices.push(device),
            Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
            Err(BenchError::NoProgram { name, remedy, .. }) => {
                report.warn(format!("{} was not measured: {name} is not there; {remedy}", peer.name));
            }
            Err(error) => report.warn(format!("{} was not measured: {error}", peer.name)),
        }
        pause(devices);
    }
    Ok(())
}

fn pause(devices: &[Box<dyn Subject>]) {
    for device in devices {
        device.pause();
    }
}

/// A table with a row for each device and case. The first device is a node.
fn section(ports: PeerPorts, cases: &[Case], devices: &[Measured<'_>]) -> Section {
    let mut table = Table::new([
        Column::label("case", "case"),
        Column::label("device", "device"),
        Column::measured("mpps", "forwarded", "Mpps").digits(2).higher_is_better(),
        Column::measured("loss", "loss", "%").digits(2),
        Column::measured("cycles_per_packet", "cycles", "/packet").digits(0).lower_is_better(),
        Column::measured("busy", "busy", "%").digits(0),
        Column::measured("of-rate", "node's rate, of its", "").digits(2).higher_is_better(),
        Column::measured("of-cycles", "node's cycles, of its", "").digits(2).lower_is_better(),
    ]);
    let mut chart = Chart::bars("Packets a second", cases, Axis::new("forwarded", "Mpps"));
    for device in devices {
        let rates = device.samples.iter().map(|samples| median(samples.iter().map(Sample::mpps)));
        chart = chart.series(Series::measured(device.name, rates));
    }
    let echo = devices.iter().find(|device| device.name == "echo");
    for (at, case) in cases.iter().enumerate() {
        let echoed = echo.map_or(&[][..], |echo| &echo.samples[at]);
        for (place, device) in devices.iter().enumerate() {
            let node = (place > 0).then(|| &devices[0].samples[at][..]);
            table.push(row(case, device, &device.samples[at], node, echoed));
        }
    }
    let (key, heading, text) = match ports {
        PeerPorts::SharedMemory => (
            "peers",
            "Side by side on shared memory (memif)",
            "testpmd and the echo forward frames unread: what ports, links and generator can do. A node is to reach 0.75 of testpmd's rate with both directions at once.",
        ),
        PeerPorts::Veth => (
            "peers-veth",
            "Side by side on virtual Ethernet (veth)",
            "VXLAN. Every frame passes the kernel on its way to and from the generator, for all devices. Linux forwards on the generator's core, whose time it shares, and leaves the device's core idle; the node has that core to itself: the rates are what the machine does with each, not the work of a packet.",
        ),
    };
    Section::new(key, heading)
        .text(format!("Medians of the rounds. The last two columns are the node's rate and cycles in proportion to those of the device, the median of the rounds' ratios. Cycles are those of polls that found packets, receiving and sending included. {text}"))
        .table(table)
        .chart(chart)
}

/// A row; `node` are the trials of the node on the same ports, none for the node itself.
fn row(
    case: &Case,
    device: &Measured<'_>,
    samples: &[Sample],
    node: Option<&[Sample]>,
    echo: &[Sample],
) -> Row {
    let cycles = |sample: &Sample| sample.counters.cycles_per_packet();
    let tells_cycles = samples.iter().any(|sample| cycles(sample).is_some());
    let limited = tells_cycles && !std::ptr::eq(samples, echo) && Ceiling::of(echo).limits(samples);
    let row = Row::new()
        .label("case", case)
        .label("device", device.name)
        .measured("mpps", samples.iter().map(Sample::mpps))
        .mark_if(limited, marks::LIMITED_BY_GENERATOR)
        .mark_if(device.expected == Expected::Unchanged, UNCHANGED)
        .measured("loss", samples.iter().map(|sample| sample.result.loss() * 100.0));
    let row = if tells_cycles {
        row.measured("cycles_per_packet", samples.iter().filter_map(cycles))
            .measured("busy", samples.iter().map(|sample| sample.busy.min(1.0) * 100.0))
    } else {
        row.not_measured("cycles_per_packet", NO_CYCLES).not_measured("busy", NO_CYCLES)
    };
    let Some(node) = node else {
        return row.not_measured("of-rate", "this is the node").not_measured("of-cycles", "this is the node");
    };
    let pairs = || node.iter().zip(samples);
    let row = row.measured("of-rate", pairs().map(|(node, other)| node.mpps() / other.mpps()));
    let of_cycles: Vec<f64> =
        pairs().filter_map(|(node, other)| Some(cycles(node)? / cycles(other)?)).collect();
    if of_cycles.is_empty() {
        row.not_measured("of-cycles", NO_CYCLES)
    } else {
        row.measured("of-cycles", of_cycles)
    }
}

fn label<'a>(row: &'a Row, column: &str) -> &'a str {
    match row.cells.get(column) {
        Some(Cell::Label { text }) => text,
        _ => "",
    }
}

fn number(row: &Row, column: &str) -> Option<f64> {
    row.cells.get(column).and_then(Cell::measured)
}

/// Rows with case, device, packets a second and cycles, and nothing else.
fn plain_rows(tables: &[&Table]) -> serde_json::Value {
    let row = |row: &Row| {
        json!({
            "case": label(row, "case"),
            "device": label(row, "device"),
            "mpps": number(row, "mpps"),
            "cycles_per_packet": number(row, "cycles_per_packet"),
        })
    };
    tables.iter().flat_map(|table| &table.rows).map(row).collect()
}

/// For each peer that does the same work the node's cycles in proportion to its, case by case; for those that forward unchanged the
/// rates.
fn sentence(tables: &[&Table]) -> String {
    let rows = || tables.iter().flat_map(|table| &table.rows);
    let mut names: Vec<&str> = Vec::new();
    for row in rows().filter(|row| number(row, "of-rate").is_some() && label(row, "device") != "echo") {
        if !names.contains(&label(row, "device")) {
            names.push(label(row, "device"));
        }
    }
    let of_peer = |name: &&str| {
        let (mut rates, mut cycles) = (Vec::new(), Vec::new());
        let mut unchanged = false;
        for row in rows().filter(|row| label(row, "device") == *name) {
            let case = label(row, "case");
            rates.extend(number(row, "of-rate").map(|ratio| format!("{ratio:.2} ({case})")));
            cycles.extend(number(row, "of-cycles").map(|ratio| format!("{ratio:.2} ({case})")));
            unchanged |= matches!(row.cells.get("mpps"), Some(Cell::Measured { marks, .. }) if marks.iter().any(|mark| mark == UNCHANGED));
        }
        if unchanged || cycles.is_empty() {
            format!("reaches {} of {name}'s rate", rates.join(", "))
        } else {
            format!("needs {} of {name}'s cycles a packet", cycles.join(", "))
        }
    };
    match names.iter().map(of_peer).collect::<Vec<_>>() {
        peers if peers.is_empty() => "No peer could be measured.".into(),
        peers => format!("The node {}.", peers.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use sluice_trial::message::{StreamCounts, TrialResult};
    use sluice_trial::traffic::{Direction, Family};

    use super::*;
    use crate::subject::Counters;

    fn sample(cycles: u64) -> Sample {
        let counts = StreamCounts { received_while_sending: 80, ..StreamCounts::new(Direction::Encap) };
        let result = TrialResult { sending_ns: cycles, streams: vec![counts], ..TrialResult::default() };
        let counters =
            Counters { packets: 10, busy_cycles: 10 * cycles, heap_allocations: None, cache: None };
        Sample { result, counters, busy: 1.0, cores: 1, waited: std::time::Duration::ZERO }
    }

    #[test]
    fn the_ratio_is_that_of_rounds_not_of_medians() {
        // The machine was twice as slow in the second round, for both.
        let (node, peer) = ([200, 400, 210].map(sample), [400, 800, 300].map(sample));
        let echo = [100, 200, 100].map(sample);
        let case = Case::at_least(Directions::Both, Family::Ipv4, 64).unwrap();
        let samples = [vec![node.to_vec()], vec![peer.to_vec()], vec![peer.to_vec()], vec![echo.to_vec()]];
        let devices: Vec<_> = ["sluice", "peer", "reader", "echo"]
            .into_iter()
            .zip(&samples)
            .map(|(name, samples)| {
                let unread = matches!(name, "reader" | "echo");
                let expected = if unread { Expected::Unchanged } else { Expected::Routed };
                Measured { name, expected, samples }
            })
            .collect();
        let table = section(PeerPorts::SharedMemory, &[case], &devices).table.unwrap();
        assert_eq!(table.rows[1].cells["of-cycles"].measured(), Some(0.5));
        assert_eq!(table.rows[0].cells["of-cycles"].measured(), None, "of itself nothing is told");
        let marks = |row: usize| match &table.rows[row].cells["mpps"] {
            Cell::Measured { marks, .. } => marks.contains(&UNCHANGED.to_owned()),
            _ => false,
        };
        assert_eq!([marks(0), marks(1), marks(2), marks(3)], [false, false, true, true]);
        assert_eq!(
            sentence(&[&table]),
            "The node needs 0.50 (both IPv4 64) of peer's cycles a packet; reaches 2.00 (both IPv4 64) of reader's rate."
        );
        let rows = plain_rows(&[&table]);
        assert_eq!(rows[1]["device"], "peer");
        assert_eq!(rows[1]["cycles_per_packet"], 400.0);
    }

    #[test]
    fn on_veths_there_is_no_echo_and_perhaps_no_peer() {
        let samples = vec![vec![sample(200), sample(210)]];
        let node = Measured { name: "sluice-veth", expected: Expected::Routed, samples: &samples };
        let case = Case::at_least(Directions::Encap, Family::Ipv6, 80).unwrap();
        let section = section(PeerPorts::Veth, &[case], &[node]);
        let table = section.table.unwrap();
        assert!(table.rows[0].cells["busy"].measured().is_some());
        assert_eq!((section.key.as_str(), table.rows.len()), ("peers-veth", 1));
        assert_eq!(sentence(&[&table]), "No peer could be measured.");
    }

    #[test]
    fn who_tells_no_cycles_has_a_rate_alone() {
        let silent = Sample { counters: Counters::default(), busy: 0.0, ..sample(400) };
        let samples = [vec![vec![sample(200)]], vec![vec![silent]]];
        let devices: Vec<_> = ["sluice-veth", "kernel"]
            .into_iter()
            .zip(&samples)
            .map(|(name, samples)| Measured { name, expected: Expected::Routed, samples })
            .collect();
        let case = Case::at_least(Directions::Decap, Family::Ipv4, 64).unwrap();
        let table = section(PeerPorts::Veth, &[case], &devices).table.unwrap();
        for column in ["cycles_per_packet", "busy", "of-cycles"] {
            assert!(matches!(table.rows[1].cells[column], Cell::NotMeasured { .. }), "{column}");
        }
        let no_mark =
            matches!(&table.rows[1].cells["mpps"], Cell::Measured { marks, .. } if marks.is_empty());
        assert!(no_mark, "nobody knows that the generator was the limit");
        assert_eq!(sentence(&[&table]), "The node reaches 2.00 (decap IPv4 64) of kernel's rate.");
    }
}
