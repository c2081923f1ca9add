//! The scripted demonstration: a lab is brought up, every claim about its traffic is checked from outside with the system's own
//! tools, and the lab is taken down, whatever happened.
//!
//! What is checked is said by the topology's `demonstration`. Each check becomes one row of the final table; a failed one does
//! not keep the others from running. Every step is bounded in time and in packets.

mod capture;
mod echo;
mod report;
mod segments;
mod throughput;
mod trace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::command::say;
use crate::error::{LabError, Result};
use crate::interrupt::Interrupts;
use crate::lab::{Lab, UpOptions};
use crate::topology::{Demonstration, Node};
use report::Report;

/// How the demonstration is run.
pub(crate) struct Settings {
    /// Seconds of each throughput measurement.
    pub(crate) seconds: u16,
    /// The `sluice` program; none: beside the running program, else in `PATH`.
    pub(crate) sluice: Option<PathBuf>,
}

/// What every check sees.
struct Stage<'a> {
    lab: &'a Lab,
    script: &'a Demonstration,
    settings: &'a Settings,
}

impl Stage<'_> {
    /// A node that the script names; the topology's checks made sure that there is one.
    fn node(&self, name: &str) -> Result<&Node> {
        self.lab.node(name)
    }

    /// The `sluice` program.
    fn sluice(&self) -> PathBuf {
        let beside =
            || Some(std::env::current_exe().ok()?.with_file_name("sluice")).filter(|path| path.is_file());
        self.settings.sluice.clone().or_else(beside).unwrap_or_else(|| Path::new("sluice").into())
    }
}

/// Runs the demonstration; success only if every check passed.
pub(crate) fn run(
    options: UpOptions,
    settings: &Settings,
    interrupts: &Interrupts,
    mut progress: impl FnMut(&str),
) -> Result<ExitCode> {
    let Some(script) = options.topology.demonstration.clone() else {
        let name = &options.topology.name;
        return Err(LabError::Step(format!(
            "the topology '{name}' has no demonstration: add one, or use the topology demo"
        )));
    };
    let lab = Lab::up_guarded(options, interrupts, &mut progress)?;
    let mut report = Report::default();
    perform(&Stage { lab: &lab, script: &script, settings }, &mut report, &mut progress);
    interrupts.settle();
    progress("taking the lab down");
    let down = Lab::down(lab.name());
    interrupts.release();
    say(&report);
    down?;
    Ok(if report.all_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn perform(stage: &Stage<'_>, report: &mut Report, progress: &mut impl FnMut(&str)) {
    echo::check(stage, report, progress);
    trace::check(stage, report, progress);
    segments::check(stage, report, progress);
    capture::check(stage, report, progress);
    throughput::check(stage, report, progress);
}
