//! `sluice bench peers`: a node and Open vSwitch with DPDK do the same work in turn, A B A B, while the other one stands still.

use std::process::ExitCode;

use crate::bench::{Bench, progress};
use crate::command::PeersArguments;
use crate::error::{Result, While};
use crate::measure::{Case, Directions, Sample, median};
use crate::rows::{PeerRow, Row, peers_table};
use crate::subject::{Echo, Node, OpenVswitch, Subject, Variant};
use crate::topology::Topology;

/// Memory of the processes in huge pages, MiB: node, Open vSwitch, echo and their generators.
const MEBIBYTES: u64 = 256 + 512 + 4 * 64;
/// Bytes of the frames, with frame check sequence: the smallest.
const SIZE: u32 = 64;

/// Runs the bench, prints its result and writes its rows.
pub(crate) fn run(arguments: &PeersArguments) -> Result<ExitCode> {
    let bench = Bench::new(&arguments.common, MEBIBYTES, false)?;
    let rounds = usize::from(arguments.rounds);
    let directions = [Directions::Encap, Directions::Decap, Directions::Both];
    let case = |family| directions.map(|directions| Case::at_least(directions, family, SIZE));
    let cases: Vec<Case> =
        arguments.families.iter().copied().flat_map(case).collect::<std::result::Result<_, _>>()?;

    let mut node = Node::start(&bench.setting, Variant::new(Topology::default()))?;
    node.pause();
    let mut open_vswitch = OpenVswitch::start(&bench.setting)?;
    open_vswitch.pause();
    let mut echo = Echo::start(&bench.setting, &Topology::default())?;
    let mut subjects: [&mut dyn Subject; 3] = [&mut node, &mut open_vswitch, &mut echo];
    let progress = progress(rounds * cases.len() * subjects.len());
    let samples = bench.in_turn(&mut subjects, &cases, rounds, &progress)?;
    progress.finish_and_clear();

    let mut rows = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let [ours, theirs, echo] = [&samples[0][at], &samples[1][at], &samples[2][at]];
        let floor = Row::new(case, subjects[2].name(), echo, None);
        let row = |subject: &dyn Subject, samples| Row::new(case, subject.name(), samples, Some(floor.mpps));
        rows.push(row(subjects[0], ours).with_ratio(ratio(ours, theirs)));
        rows.push(row(subjects[1], theirs));
        rows.push(floor);
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

/// Cycles of the one device in proportion to those of the other: the median of the rounds, each of which had the same machine.
fn ratio(ours: &[Sample], theirs: &[Sample]) -> Option<f64> {
    let cycles = |sample: &Sample| sample.counters.cycles_per_packet();
    median(ours.iter().zip(theirs).filter_map(|(ours, theirs)| Some(cycles(ours)? / cycles(theirs)?)))
}

fn write(path: &std::path::Path, rows: &serde_json::Value) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).during(|| format!("creating {}", folder.display()))?;
    }
    std::fs::write(path, format!("{rows:#}\n")).during(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::TrialResult;
    use crate::subject::Counters;

    fn sample(cycles: u64) -> Sample {
        let result = TrialResult { sending_ns: 1, ..TrialResult::default() };
        Sample {
            result,
            counters: Counters { packets: 10, busy_cycles: 10 * cycles, heap_allocations: None, cache: None },
            busy: 1.0,
            cores: 1,
        }
    }

    #[test]
    fn the_ratio_is_that_of_rounds_not_of_medians() {
        // The machine was twice as slow in the second round, for both.
        let (ours, theirs) = ([200, 400, 210].map(sample), [400, 800, 300].map(sample));
        assert_eq!(ratio(&ours, &theirs), Some(0.5));
        assert_eq!(ratio(&[], &[]), None);
    }

    #[test]
    fn rows_are_written_where_no_folder_is_yet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/peers.json");
        write(&path, &serde_json::json!([{"case": "x"}])).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()[0]["case"], "x");
    }
}
