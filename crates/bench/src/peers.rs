//! `sluice bench peers`: a node and Open vSwitch with DPDK do the same work in turn, A B A B, while the other one stands still.

use std::process::ExitCode;

use crate::bench::{Bench, progress};
use crate::command::PeersArguments;
use crate::error::{Result, While};
use crate::measure::{Case, Directions, Sample};
use crate::report::{PeerRow, Row, peers_table};
use crate::subject::{Echo, Node, OpenVswitch, Subject};

/// Memory of the processes in huge pages, MiB: node, Open vSwitch, echo and their generators.
const MEBIBYTES: u64 = 256 + 512 + 4 * 64;
/// Bytes of the frames, with frame check sequence: the smallest.
const SIZE: usize = 64;

/// Runs the bench, prints its result and writes its rows.
pub(crate) fn run(arguments: &PeersArguments) -> Result<ExitCode> {
    let bench = Bench::new(&arguments.common, MEBIBYTES, false)?;
    let rounds = usize::from(arguments.rounds);
    let directions = [Directions::Encap, Directions::Decap, Directions::Both];
    let case = |family| directions.map(|directions| Case { directions, family, size: SIZE });
    let cases: Vec<Case> = arguments.families.iter().copied().flat_map(case).collect();

    let mut node = Node::start(&bench.setting)?;
    node.pause();
    let mut open_vswitch = OpenVswitch::start(&bench.setting)?;
    open_vswitch.pause();
    let mut echo = Echo::start(&bench.setting)?;
    echo.pause();
    let mut subjects: [&mut dyn Subject; 3] = [&mut node, &mut open_vswitch, &mut echo];

    let progress = progress(rounds * cases.len() * subjects.len());
    let mut samples: Vec<Vec<Vec<Sample>>> = vec![vec![Vec::new(); cases.len()]; subjects.len()];
    for _ in 0..rounds {
        for (subject, samples) in subjects.iter_mut().zip(&mut samples) {
            subject.resume();
            for (case, samples) in cases.iter().zip(samples) {
                progress.set_message(format!("{} {case}", subject.name()));
                samples.push(bench.measuring.sample(*subject, case)?);
                progress.inc(1);
            }
            subject.pause();
        }
    }
    progress.finish_and_clear();

    let mut rows = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let ceiling = Row::new(case, subjects[2].name(), &samples[2][at], None);
        for (subject, samples) in subjects.iter().zip(&samples).take(2) {
            rows.push(Row::new(case, subject.name(), &samples[at], Some(ceiling.mpps)));
        }
        rows.push(ceiling);
    }
    let conditions = bench.conditions(subjects[0], rounds);
    let peers: Vec<PeerRow> = rows.iter().map(PeerRow::from).collect();
    write(&arguments.output, &serde_json::json!(peers))?;
    if arguments.common.json {
        println!("{:#}", serde_json::json!({ "conditions": conditions, "rows": rows }));
    } else {
        print!("{}", peers_table(&conditions, &rows));
        println!("rows written to {}", arguments.output.display());
    }
    Ok(if rows.iter().all(|row| row.wrong == 0) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(path: &std::path::Path, rows: &serde_json::Value) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).during(|| format!("creating {}", folder.display()))?;
    }
    std::fs::write(path, format!("{rows:#}\n")).during(|| format!("writing {}", path.display()))
}
