//! Where a packet's cycles go: a node's own attribution of its workers' cycles to stages, during a trial.

use std::time::Duration;

use sluice_control::CoreStages;
use sluice_trial::message::Load;

use crate::error::Result;
use crate::measure::{Case, Measuring, Sample};
use crate::report::{Chart, Column, Row, Section, Series, Table, median};
use crate::subject::Node;

/// Stages that receive and send, or look for packets; the others forward.
const INPUT_OUTPUT: [&str; 4] = ["rx", "empty-polls", "tx", "free"];
/// Cycles a packet up to which a stage took nothing.
const NOTHING: f64 = 0.05;
/// What the stages leave of the busy cycles.
const OTHER: &str = "other";

/// Cycles a packet by stage, of one case: of each trial.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile {
    pub(crate) case: String,
    /// In the order in which a packet passes them; those that took nothing are left out.
    pub(crate) stages: Vec<(String, Vec<f64>)>,
    /// Cycles a packet that its time stamps cost, which are in the stages.
    pub(crate) time_stamps: Vec<f64>,
    /// Cycles a packet of the stages that forward, less what their time stamps cost.
    pub(crate) forwarding: Vec<f64>,
}

/// Cycles a packet by stage, of one trial.
#[derive(Default)]
struct Attribution {
    stages: Vec<(String, f64)>,
    time_stamps: f64,
    forwarding: f64,
}

impl Attribution {
    fn of(cores: &[CoreStages]) -> Self {
        let of_rx = |core: &CoreStages| -> u64 {
            core.stages.iter().filter(|stage| stage.stage == "rx").map(|stage| stage.packets).sum()
        };
        let packets = cores.iter().map(of_rx).sum::<u64>().max(1) as f64;
        let mut sum = Self::default();
        for core in cores {
            for stage in &core.stages {
                sum.add(&stage.stage, stage.cycles as f64 / packets);
                let stamps = stage.time_stamps * core.time_stamp_cycles;
                sum.time_stamps += stamps as f64 / packets;
                if !INPUT_OUTPUT.contains(&stage.stage.as_str()) {
                    sum.forwarding += stage.cycles.saturating_sub(stamps) as f64 / packets;
                }
            }
            sum.add(OTHER, core.other_cycles as f64 / packets);
        }
        sum
    }

    fn add(&mut self, name: &str, cycles: f64) {
        match self.stages.iter_mut().find(|(stage, _)| stage == name) {
            Some((_, sum)) => *sum += cycles,
            None => self.stages.push((name.to_owned(), cycles)),
        }
    }

    /// Cycles of a stage; none where no packet came there.
    fn cycles(&self, name: &str) -> f64 {
        self.stages.iter().find(|(stage, _)| stage == name).map_or(0.0, |(_, cycles)| *cycles)
    }
}

impl Profile {
    /// Profiles a node under the highest rate of a case, in so many trials.
    pub(crate) fn of(node: &mut Node, case: &Case, measuring: &Measuring, trials: usize) -> Result<Self> {
        let trials = (0..trials).map(|_| attribution(node, case, measuring)).collect::<Result<Vec<_>>>()?;
        Ok(Self::of_trials(case.to_string(), &trials))
    }

    fn of_trials(case: String, trials: &[Attribution]) -> Self {
        let mut stages: Vec<(String, Vec<f64>)> = Vec::new();
        for (name, _) in trials.iter().flat_map(|trial| &trial.stages) {
            if stages.iter().all(|(stage, _)| stage != name) {
                stages.push((name.clone(), trials.iter().map(|trial| trial.cycles(name)).collect()));
            }
        }
        stages.retain(|(_, cycles)| median(cycles.iter().copied()).is_some_and(|cycles| cycles > NOTHING));
        Self {
            case,
            stages,
            time_stamps: trials.iter().map(|trial| trial.time_stamps).collect(),
            forwarding: trials.iter().map(|trial| trial.forwarding).collect(),
        }
    }

    /// Cycles of a stage; none where no packet came there.
    fn stage(&self, name: &str) -> Option<&[f64]> {
        self.stages.iter().find(|(stage, _)| stage == name).map(|(_, cycles)| cycles.as_slice())
    }

    /// Cycles of all stages together, of each trial.
    fn all(&self) -> impl Iterator<Item = f64> {
        (0..self.time_stamps.len()).map(|trial| self.stages.iter().map(|(_, cycles)| cycles[trial]).sum())
    }
}

/// One profile, repeated while other programs take the cores.
fn attribution(node: &mut Node, case: &Case, measuring: &Measuring) -> Result<Attribution> {
    let (mut sample, mut cores) = profiled(node, case, measuring)?;
    for _ in 1..measuring.tries() {
        if !sample.is_disturbed() {
            break;
        }
        (sample, cores) = profiled(node, case, measuring)?;
    }
    Ok(Attribution::of(&cores))
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
    let cases: Vec<&str> = profiles.iter().map(|profile| profile.case.as_str()).collect();
    let column = |case: &&str| Column::measured(case, case, "cycles").digits(1).lower_is_better();
    let mut table = Table::new([Column::label("stage", "stage")]).columns(cases.iter().map(column));
    let mut chart = Chart::cycles_by_stage("Cycles a packet by stage", &cases)
        .caption("Cycles of the node's workers by what they were spent on, divided by all packets.");
    for name in names {
        let row = Row::new().label("stage", name);
        table.push(profiles.iter().fold(row, |row, profile| match profile.stage(name) {
            Some(cycles) => row.measured(&profile.case, cycles.iter().copied()),
            None => row.not_measured(&profile.case, "no packet came there"),
        }));
        let values = profiles.iter().map(|profile| median(profile.stage(name)?.iter().copied()));
        chart = chart.series(Series::measured(name, values));
    }
    let all = Row::new().label("stage", "all");
    table.push(profiles.iter().fold(all, |row, profile| row.measured(&profile.case, profile.all())));
    let stamps = Row::new().label("stage", "time stamps within");
    table.push(
        profiles
            .iter()
            .fold(stamps, |row, profile| row.measured(&profile.case, profile.time_stamps.iter().copied())),
    );
    Section::new("stages", "Where the cycles go")
        .text("Attributed by the node while it was profiled. The profile's own time stamps are in the stages; the last row says how much they are.")
        .table(table)
        .chart(chart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Cell;

    #[test]
    fn stages_of_all_cases_stand_side_by_side() {
        let profile = |case: &str, stages: &[(&str, f64)]| {
            let trial = |factor: f64| Attribution {
                stages: stages.iter().map(|(stage, cycles)| ((*stage).to_owned(), cycles * factor)).collect(),
                ..Attribution::default()
            };
            Profile::of_trials(case.into(), &[1.0, 2.0, 0.5].map(trial))
        };
        let cached = profile("cached", &[("rx", 50.0), ("parse", 20.0), ("tx", 60.0), ("other", 3.0)]);
        let decided = profile("decided", &[("rx", 50.0), ("tier-0", 90.0), ("tx", 61.0)]);
        let table = section(&[cached, decided]).table.unwrap();
        let names: Vec<String> = table.rows.iter().map(|row| table.key(row)).collect();
        assert_eq!(names, ["rx", "parse", "tx", "other", "tier-0", "all", "time stamps within"]);
        assert_eq!(table.rows[1].cells["decided"].measured(), None);
        assert_eq!(table.rows[5].cells["decided"].measured(), Some(201.0));
        let Cell::Measured { samples, .. } = &table.rows[5].cells["decided"] else { panic!("measured") };
        assert_eq!(samples, &[201.0, 402.0, 100.5], "those of each trial");
    }
}
