//! Where a packet's cycles go: a node's own attribution of its workers' cycles to stages, during a trial.

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_control::CoreStages;

use crate::error::Result;
use crate::measure::{Case, Measuring, Sample};
use crate::message::Load;
use crate::report::{Chart, Column, Row, Section, Series, Table};
use crate::subject::Node;

/// Stages that receive and send, or look for packets; the others forward.
const INPUT_OUTPUT: [&str; 4] = ["rx", "empty-polls", "tx", "free"];
/// What the stages leave of the busy cycles.
const OTHER: &str = "other";

/// Cycles a packet by stage, of one case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile {
    pub(crate) case: String,
    /// In the order in which a packet passes them; those that took nothing are left out.
    pub(crate) stages: Vec<(String, f64)>,
    /// Cycles a packet that its time stamps cost, which are in the stages.
    pub(crate) time_stamps: f64,
    /// Cycles a packet of the stages that forward, less what their time stamps cost.
    pub(crate) forwarding: f64,
}

impl Profile {
    /// Profiles a node under the highest rate of a case.
    pub(crate) fn of(node: &mut Node, case: &Case, measuring: &Measuring) -> Result<Self> {
        let (mut sample, mut cores) = profiled(node, case, measuring)?;
        for _ in 1..measuring.tries() {
            if !sample.is_disturbed() {
                break;
            }
            (sample, cores) = profiled(node, case, measuring)?;
        }
        let of_rx = |stages: &[sluice_control::StageStats]| -> u64 {
            stages.iter().filter(|stage| stage.stage == "rx").map(|stage| stage.packets).sum()
        };
        let packets = cores.iter().map(|core| of_rx(&core.stages)).sum::<u64>().max(1) as f64;
        let mut stages: Vec<(String, f64)> = Vec::new();
        let mut add = |name: &str, cycles: u64| match stages.iter_mut().find(|(stage, _)| stage == name) {
            Some((_, sum)) => *sum += cycles as f64 / packets,
            None => stages.push((name.to_owned(), cycles as f64 / packets)),
        };
        let (mut time_stamps, mut forwarding) = (0, 0);
        for core in &cores {
            for stage in &core.stages {
                add(&stage.stage, stage.cycles);
                let stamps = stage.time_stamps * core.time_stamp_cycles;
                time_stamps += stamps;
                if !INPUT_OUTPUT.contains(&stage.stage.as_str()) {
                    forwarding += stage.cycles.saturating_sub(stamps);
                }
            }
            add(OTHER, core.other_cycles);
        }
        stages.retain(|(_, cycles)| *cycles > 0.05);
        Ok(Self {
            case: case.to_string(),
            stages,
            time_stamps: time_stamps as f64 / packets,
            forwarding: forwarding as f64 / packets,
        })
    }
}

/// One trial at the highest rate, and the stages of the node meanwhile.
fn profiled(node: &mut Node, case: &Case, measuring: &Measuring) -> Result<(Sample, Vec<CoreStages>)> {
    node.set_profile(true)?;
    let duration = Duration::from_millis(measuring.trial_ms);
    let sample = measuring.trial(node, case, Load::Most, duration, false);
    let cores = node.stages();
    node.set_profile(false)?;
    Ok((sample?, cores?))
}

/// A table and a chart of some profiles.
pub(crate) fn section(profiles: &[Profile]) -> Section {
    let mut names: Vec<&str> = Vec::new();
    for (stage, _) in profiles.iter().flat_map(|profile| &profile.stages) {
        if !names.contains(&stage.as_str()) {
            names.push(stage);
        }
    }
    let mut columns = vec![Column::label("stage", "stage")];
    let keys: Vec<String> = profiles.iter().map(|profile| profile.case.clone()).collect();
    columns
        .extend(keys.iter().map(|case| Column::measured(case, case, "cycles").digits(1).lower_is_better()));
    let mut table = Table::new(columns);
    let mut chart = Chart::cycles_by_stage("Cycles a packet by stage", &keys)
        .caption("Cycles of the node's workers by what they were spent on, divided by all packets.");
    for name in names {
        let cycles: BTreeMap<&str, Option<f64>> = profiles
            .iter()
            .map(|profile| {
                let stage = profile.stages.iter().find(|(stage, _)| stage == name);
                (profile.case.as_str(), stage.map(|(_, cycles)| *cycles))
            })
            .collect();
        let row = Row::new().label("stage", name);
        table.push(keys.iter().fold(row, |row, case| match cycles[case.as_str()] {
            Some(cycles) => row.value(case, cycles),
            None => row.not_measured(case, "no packet came there"),
        }));
        let values: Vec<Option<f64>> = keys.iter().map(|case| cycles[case.as_str()]).collect();
        chart = chart.series(Series::measured(name, values));
    }
    let all = Row::new().label("stage", "all");
    table.push(profiles.iter().fold(all, |row, profile| {
        row.value(&profile.case, profile.stages.iter().map(|(_, cycles)| cycles).sum())
    }));
    let stamps = Row::new().label("stage", "time stamps within");
    table.push(profiles.iter().fold(stamps, |row, profile| row.value(&profile.case, profile.time_stamps)));
    Section::new("stages", "Where the cycles go")
        .text("Attributed by the node while it was profiled. The profile's own time stamps are in the stages; the last row says how much they are.")
        .table(table)
        .chart(chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_of_all_cases_stand_side_by_side() {
        let profile = |case: &str, stages: &[(&str, f64)]| Profile {
            case: case.into(),
            stages: stages.iter().map(|(stage, cycles)| ((*stage).to_owned(), *cycles)).collect(),
            time_stamps: 0.5,
            forwarding: 20.0,
        };
        let cached = profile("cached", &[("rx", 50.0), ("parse", 20.0), ("tx", 60.0), ("other", 3.0)]);
        let decided = profile("decided", &[("rx", 50.0), ("tier-0", 90.0), ("tx", 61.0)]);
        let table = section(&[cached, decided]).table.unwrap();
        let names: Vec<String> = table.rows.iter().map(|row| table.key(row)).collect();
        assert_eq!(names, ["rx", "parse", "tx", "other", "tier-0", "all", "time stamps within"]);
        assert_eq!(table.rows[1].cells["decided"].measured(), None);
        assert_eq!(table.rows[5].cells["decided"].measured(), Some(201.0));
    }
}
