//! `sluice bench forward`: one node, every case.

use std::process::ExitCode;

use crate::bench::{Bench, progress};
use crate::command::{CommonArguments, ForwardArguments};
use crate::document::{NodeSettings, RING_SIZE};
use crate::error::Result;
use crate::measure::{Case, Directions, median};
use crate::ports::PortName;
use crate::report::{ForwardReport, Row, forward_table};
use crate::subject::{Echo, Node, Subject, Variant};
use crate::topology::Topology;
use crate::traffic::Family;

/// Memory of the processes in huge pages, MiB: the node, the echo and their generators.
const MEBIBYTES: u64 = 256 + 3 * 64;
/// Share of the highest rate at which nothing should be lost.
const CHECK: f64 = 0.8;
const SIZES: [u16; 6] = [64, 128, 256, 512, 1024, 1500];
const QUICK_SIZES: [u16; 3] = [64, 512, 1500];

/// Runs the bench and prints its result.
pub(crate) fn run(arguments: &ForwardArguments) -> Result<ExitCode> {
    if arguments.show_document {
        print!("{}", shown(&arguments.common).document()?);
        return Ok(ExitCode::SUCCESS);
    }
    let bench = Bench::new(&arguments.common, MEBIBYTES, arguments.quick)?;
    let report = measure(&bench, &cases(arguments))?;
    if arguments.common.json {
        println!("{:#}", serde_json::json!(report));
    } else {
        print!("{}", forward_table(&report));
    }
    Ok(if report.rows.iter().all(|row| row.wrong == 0) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The node of the bench, for whoever wants to run it by hand.
fn shown(arguments: &CommonArguments) -> NodeSettings {
    let memif = |id| vec![PortName::Memif { socket: "/run/sluice/bench.sock".into(), id }];
    NodeSettings {
        topology: Topology::default(),
        uplinks: memif(0),
        downlinks: memif(1),
        cores: arguments.device_cores.clone(),
        huge_pages: !arguments.no_huge_pages,
        zero_copy: arguments.zero_copy,
        ring_size: RING_SIZE,
        flow_cache: true,
        more: false,
    }
}

fn measure(bench: &Bench, cases: &[Case]) -> Result<ForwardReport> {
    let mut node = Node::start(&bench.setting, Variant::new(Topology::default()))?;
    node.pause();
    let mut echo = Echo::start(&bench.setting, &Topology::default())?;
    let progress = progress((2 * bench.repeat + 1) * cases.len());
    let samples = bench.in_turn(&mut [&mut node, &mut echo], cases, bench.repeat, &progress)?;
    drop(echo);
    node.resume();
    let mut rows = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        progress.set_message(format!("loss {case}"));
        let ceiling = median(samples[1][at].iter().map(|sample| sample.result.packets_per_second() / 1e6));
        let row = Row::new(case, node.name(), &samples[0][at], ceiling);
        let rate = row.mpps * 1e6 * CHECK;
        let check = bench.measuring.at_rate(&mut node, case, rate)?;
        rows.push(row.with_check(rate, &check));
        progress.inc(1);
    }
    progress.finish_and_clear();
    let drops = node.drops()?;
    Ok(ForwardReport { conditions: bench.conditions(&mut node, bench.repeat), rows, drops })
}

fn cases(arguments: &ForwardArguments) -> Vec<Case> {
    let or =
        |given: &[u16], otherwise: &[u16]| if given.is_empty() { otherwise.to_vec() } else { given.to_vec() };
    let sizes = or(&arguments.sizes, if arguments.quick { &QUICK_SIZES } else { &SIZES });
    let families = match &arguments.families[..] {
        [] if arguments.quick => vec![Family::Ipv4],
        [] => vec![Family::Ipv4, Family::Ipv6],
        given => given.to_vec(),
    };
    let directions = match &arguments.directions[..] {
        [] => vec![Directions::Encap, Directions::Decap, Directions::Both],
        given => given.to_vec(),
    };
    let mut cases = Vec::new();
    for family in families {
        for directions in &directions {
            let case = |size: &u16| Case { directions: *directions, family, size: usize::from(*size) };
            cases.extend(sizes.iter().map(case));
        }
    }
    cases
}
