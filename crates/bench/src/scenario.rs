//! Scenarios: the documents' experiments by name.
//!
//! A scenario is one file in `scenario/`, which runs trials and fills a [`Report`], and a line in [`ALL`]; command line, set-up,
//! progress, interruption, tables, JSON and pages are the same for all and live elsewhere.
//!
//! ```text
//!   command ─▶ session::run ─▶ (Scenario.run)(Session) ─▶ Report ─▶ terminal, JSON, page
//!                                 ├─ subject: nodes, echoes, peers
//!                                 └─ device: searches over a subject's trials
//! ```

mod bare_metal;
mod ecmp;
mod flow_cache;
mod forward;
mod guarded;
pub(crate) mod latency;
mod peers;
mod reload;
mod rfc2544;
mod ring_size;
mod tep_group;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use sluice_trial::topology::Topology;

use crate::arguments::{DeviceArguments, ScenarioArguments};
use crate::error::{BenchError, Result};
use crate::report::Report;
use crate::session::Session;

/// Every scenario, in the order in which they are listed.
pub(crate) const ALL: &[&Scenario] = &[
    &bare_metal::ONE,
    &bare_metal::TWO,
    &flow_cache::SCENARIO,
    &ring_size::SCENARIO,
    &ecmp::SCENARIO,
    &forward::SCENARIO,
    &latency::SCENARIO,
    &tep_group::SCENARIO,
    &peers::SCENARIO,
    &rfc2544::SCENARIO,
    &reload::SCENARIO,
];

/// An experiment that can be repeated.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// Its name on the command line and in reports.
    pub(crate) name: &'static str,
    /// Heading of its reports.
    pub(crate) title: &'static str,
    /// What it measures, in a line.
    pub(crate) about: &'static str,
    /// The document that it reproduces, and which part of it.
    pub(crate) reproduces: Option<(&'static str, &'static str)>,
    /// How many links and paths its nodes have; the tunnels are the command line's.
    pub(crate) network: Topology,
    /// Sizes of frames, unless the command line names some; with the frame check sequence.
    pub(crate) sizes: &'static [u32],
    /// Command lines to begin with.
    pub(crate) examples: &'static str,
    /// Whether it searches for rates, in trials of `--trial-s` with a tolerated loss, which can be done with any device; else its trials are
    /// those of `--trial-ms`, at the highest rate, and it asks nodes what they count.
    pub(crate) searches: bool,
    /// Packet memory of everything that it starts, in huge pages, MiB.
    pub(crate) mebibytes: u64,
    /// What it has that others do not; most have nothing.
    pub(crate) own: Option<&'static Own>,
    /// Runs the trials. What was measured before an error stays in the report.
    pub(crate) run: fn(&mut Session<'_>, &mut Report) -> Result<()>,
}

impl Scenario {
    /// Refuses arguments that say nothing here, or contradict what it measures.
    ///
    /// # Errors
    ///
    /// [`BenchError::Arguments`], with what to leave out.
    pub(crate) fn check(&self, arguments: &ScenarioArguments) -> Result<()> {
        if let Some(own) = self.own {
            own.check(&self.command(), &arguments.matches)?;
        }
        arguments.device.check(self.name, self.searches)
    }

    /// Its command, with the arguments of all scenarios and its own.
    fn command(&self) -> Command {
        let mut command = ScenarioArguments::augment_args(Command::new(self.name));
        if !self.searches {
            let hide = |command: Command, name: &str| command.mut_arg(name, |argument| argument.hide(true));
            command = DeviceArguments::NAMES.into_iter().fold(command, hide);
        }
        if let Some(own) = self.own {
            command = own.add_to(command);
        }
        // Behind the arguments, whose own description would take its place.
        command.about(self.about).long_about(None).after_help(self.examples)
    }
}

/// What a scenario has that others do not.
#[derive(Debug)]
pub(crate) struct Own {
    /// Arguments of scenarios, by their names in the program, that say nothing here: they are hidden, and refused.
    pub(crate) meaningless: &'static [&'static str],
    /// Adds arguments to those that all have; the scenario finds them in [`ScenarioArguments::matches`].
    pub(crate) arguments: fn(Command) -> Command,
    /// The document that `--show-document` prints, where it is not that of the usual node.
    pub(crate) document: Option<fn(&ScenarioArguments) -> Result<String>>,
}

impl Own {
    /// Its arguments beside those of all scenarios that say something here.
    fn add_to(&self, command: Command) -> Command {
        let hide = |command: Command, name: &&str| command.mut_arg(name, |argument| argument.hide(true));
        (self.arguments)(self.meaningless.iter().fold(command, hide))
    }

    /// Refuses arguments that say nothing here.
    fn check(&self, command: &Command, matches: &ArgMatches) -> Result<()> {
        let given = |name: &&&str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let flag = |name: &&str| {
            let argument = command.get_arguments().find(|argument| argument.get_id() == *name)?;
            argument.get_long().map(|long| format!("--{long}"))
        };
        let given: Vec<String> = self.meaningless.iter().filter(given).filter_map(flag).collect();
        if given.is_empty() {
            return Ok(());
        }
        Err(BenchError::Arguments(format!("{} says nothing here: leave it out", given.join(", "))))
    }
}

/// The bare-metal document.
pub(crate) const BARE_METAL: &str = "VMware NSX Bare Metal Edge Performance";

/// A scenario that was chosen on the command line, with its arguments.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) scenario: &'static Scenario,
    pub(crate) arguments: ScenarioArguments,
}

/// The scenarios with what they reproduce, for people.
pub(crate) fn list() -> String {
    let mut text = String::new();
    for scenario in ALL {
        text.push_str(&format!("{:12}{}\n", scenario.name, scenario.about));
        if let Some((document, part)) = scenario.reproduces {
            text.push_str(&format!("{:12}reproduces {document}: {part}\n", ""));
        }
    }
    text.push_str("\nsluice bench NAME --help says more; so do compare and show\n");
    text
}

fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().copied().find(|scenario| scenario.name == name)
}

impl FromArgMatches for Choice {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let chosen = matches.subcommand().and_then(|(name, matches)| Some((named(name)?, matches)));
        let Some((scenario, matches)) = chosen else {
            return Err(clap::Error::new(clap::error::ErrorKind::InvalidSubcommand));
        };
        let arguments =
            ScenarioArguments { matches: matches.clone(), ..ScenarioArguments::from_arg_matches(matches)? };
        Ok(Self { scenario, arguments })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Choice {
    fn augment_subcommands(command: Command) -> Command {
        ALL.iter().fold(command, |command, scenario| command.subcommand(scenario.command()))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        named(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_a_command_that_says_what_it_does() {
        let command = Choice::augment_subcommands(Command::new("bench"));
        command.clone().debug_assert();
        for scenario in ALL {
            let matches = command.clone().get_matches_from(["bench", scenario.name, "--quick"]);
            let choice = Choice::from_arg_matches(&matches).unwrap();
            assert_eq!(choice.scenario.name, scenario.name);
            assert!(choice.arguments.quick);
            assert!(scenario.examples.contains(&format!("sluice bench {}", scenario.name)));
            assert!(!scenario.about.is_empty() && !scenario.title.is_empty());
            let own = command.find_subcommand(scenario.name).unwrap();
            assert_eq!(own.get_about().unwrap().to_string(), scenario.about, "in the list and in its help");
            assert!(own.get_long_about().is_none());
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
