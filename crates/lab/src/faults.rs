//! Faults: a lab is brought up, links are cut, paths swallow packets, nodes are killed, and what that costs is measured from outside.
//!
//! ```text
//!   flight      numbered packets at a constant rate between two nodes: this program again, inside the lab
//!   outage      from what came to what was lost, for how long, and beside which event
//!   network     the lab with its nodes' sessions, and what is broken and mended in it
//!   scenarios   the faults, each by its name          report   the table, and JSON
//! ```
//!
//! Everything that is broken is mended again within its scenario, and what that costs is measured as well. Labs are taken down whatever
//! happens.

pub(crate) mod flight;
mod network;
mod outage;
mod report;
mod scenarios;

use std::process::ExitCode;

use crate::command::say;
use crate::error::{LabError, Result};
use crate::interrupt::Interrupts;
use crate::lab::{Lab, UpOptions};
use crate::topology::Topology;
use network::Network;
use report::Report;
use scenarios::{ALL, Scenario};

/// What is to be broken.
pub(crate) struct Settings {
    /// Names of scenarios; none: all.
    pub(crate) names: Vec<String>,
    /// How often each is repeated.
    pub(crate) repeat: u16,
    /// Whether the report is JSON.
    pub(crate) json: bool,
    /// Whether nodes and probes run under the real-time scheduler where that is allowed.
    pub(crate) realtime: bool,
}

/// Real-time priority of nodes and probes.
const PRIORITY: u8 = 10;

/// Runs the scenarios; success only if every one met what is asked of it. `options` are those of each lab, but for topology and name.
pub(crate) fn run(
    options: impl Fn(Topology) -> UpOptions,
    settings: &Settings,
    interrupts: &Interrupts,
    mut progress: impl FnMut(&str),
) -> Result<ExitCode> {
    let chosen = chosen(&settings.names)?;
    let mut report = Report::default();
    let mut topologies: Vec<&str> = chosen.iter().map(|scenario| scenario.topology).collect();
    topologies.dedup();
    for topology in topologies {
        let of_topology: Vec<&Scenario> =
            chosen.iter().copied().filter(|scenario| scenario.topology == topology).collect();
        let topology = Topology::load(topology)?;
        let options = UpOptions { name: Some(format!("faults-{}", topology.name)), ..options(topology) };
        let lab = Lab::up_guarded(options, interrupts, &mut progress)?;
        let broken = break_all(&lab, &of_topology, settings, &mut report, &mut progress);
        interrupts.settle();
        progress("taking the lab down");
        let down = Lab::down(lab.name());
        interrupts.release();
        broken?;
        down?;
    }
    say(if settings.json { report.to_json() } else { report.to_string() });
    Ok(if report.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn break_all(
    lab: &Lab,
    scenarios: &[&Scenario],
    settings: &Settings,
    report: &mut Report,
    progress: &mut impl FnMut(&str),
) -> Result<()> {
    let realtime = (settings.realtime && lab.set_realtime(PRIORITY).is_ok()).then_some(PRIORITY);
    report.set_realtime(realtime.is_some());
    let (repeat, mut network) = (settings.repeat, Network::new(lab, realtime));
    for scenario in scenarios {
        for round in 1..=repeat {
            progress(&format!("{} ({round} of {repeat})", scenario.name));
            network.wait_until_whole()?;
            for row in (scenario.run)(&mut network)? {
                report.add(scenario.name, row);
            }
        }
    }
    Ok(())
}

/// The scenarios of these names, in the order of all.
fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if let Some(unknown) = names.iter().find(|name| ALL.iter().all(|scenario| scenario.name != **name)) {
        let all = ALL.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
        return Err(LabError::Step(format!("there is no fault '{unknown}': there are {all}")));
    }
    let is_chosen = |scenario: &&Scenario| names.is_empty() || names.iter().any(|name| name == scenario.name);
    Ok(ALL.iter().filter(is_chosen).collect())
}

/// Names and what they are, for the help.
pub(crate) fn list() -> String {
    ALL.iter().map(|scenario| format!("  {:12} {}\n", scenario.name, scenario.about)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_have_topologies_and_unknown_ones_are_refused_with_all_names() {
        for scenario in ALL {
            Topology::load(scenario.topology).unwrap();
            assert!(list().contains(scenario.about));
        }
        assert_eq!(chosen(&[]).unwrap().len(), ALL.len());
        assert_eq!(chosen(&["flap".into()]).unwrap()[0].name, "flap");
        let error = chosen(&["flop".into()]).unwrap_err().to_string();
        assert!(error.contains("'flop'") && error.contains("cut-link"), "{error}");
    }
}
