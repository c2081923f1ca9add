//! Arguments that scenarios have in common.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgMatches, Args, ValueEnum};
use sluice_trial::topology::{Side, Topology};
use sluice_trial::traffic::{Encapsulation, Family};
use sluice_wire::MacAddr;

use crate::command::{CommonArguments, headings};
use crate::error::{BenchError, Result};
use crate::frame_sizes::FrameSizes;
use crate::line_rate::LinkSpeed;
use crate::measure::{Case, Directions};
use crate::search::{Accepted, Conditions, Preparation};
use crate::subject::NamedMacs;

/// Seconds of a trial, with `--quick` and without, and with `--full`: those of the bare-metal document.
const TRIAL_S: [f64; 3] = [0.3, 1.0, 90.0];

/// Arguments of a scenario.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScenarioArguments {
    /// Frame sizes, bytes with the frame check sequence, or mixes: imix-simple, imix-fdio, imix-sd-wan, imix:abcc(a=64,b=570,c=1518)
    /// [default: the scenario's].
    #[arg(long, value_name = "SIZES", help_heading = headings::TRAFFIC)]
    pub(crate) sizes: Option<SizeList>,
    /// Families of the workloads' packets.
    #[arg(long = "family", value_delimiter = ',', value_enum, default_value = "ipv4", help_heading = headings::TRAFFIC)]
    pub(crate) families: Vec<Family>,
    /// Directions, of a scenario that has several [default: each of them].
    #[arg(long = "direction", value_delimiter = ',', value_enum, help_heading = headings::TRAFFIC)]
    pub(crate) directions: Vec<Directions>,
    /// What carries workloads' frames between TEPs.
    #[arg(long, value_enum, default_value = "geneve", help_heading = headings::TRAFFIC)]
    pub(crate) encapsulation: Encapsulation,
    /// Family of the TEPs.
    #[arg(long, value_enum, default_value = "ipv4", help_heading = headings::TRAFFIC)]
    pub(crate) outer: Family,
    /// Short trials, coarse bounds.
    #[arg(long, conflicts_with = "full", help_heading = headings::TRIALS)]
    pub(crate) quick: bool,
    /// The document's own trials of 90 seconds, with three retries.
    #[arg(long, help_heading = headings::TRIALS)]
    pub(crate) full: bool,
    /// Seconds of each trial of a search [default: 1, with --quick 0.3, with --full 90].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = headings::TRIALS)]
    pub(crate) trial_s: Option<f64>,
    /// Share of the frames that may be lost at the throughput, percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.01, value_parser = percent, help_heading = headings::TRIALS)]
    pub(crate) loss_tolerance: f64,
    /// How often a rate that fails is tried again [default: 1, with --full 3].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=100), help_heading = headings::TRIALS)]
    pub(crate) retries: Option<u32>,
    /// Lowest rate of a search, percent of the highest.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent, help_heading = headings::TRIALS)]
    pub(crate) minimum_rate: f64,
    /// Make the node forget its flows before each trial of a search, in place of showing it each flow (ramp-up).
    #[arg(long, help_heading = headings::TRIALS)]
    pub(crate) reset_state: bool,
    /// Frames of others that a trial of a search bears, such as the protocols of a switch; more of them end the search.
    #[arg(long, value_name = "FRAMES", default_value_t = 0, help_heading = headings::TRIALS)]
    pub(crate) accept_foreign: u64,
    /// Speed of a link, Gb/s: the highest rate of a search, and what line-rate utilization is of.
    #[arg(long, value_name = "GBPS", default_value_t = 100.0, value_parser = positive, help_heading = headings::TRAFFIC)]
    pub(crate) link_speed: f64,
    /// Attribute the node's cycles to stages, in trials of their own.
    #[arg(long, help_heading = headings::TRIALS)]
    pub(crate) profile: bool,
    /// Print the node document that is run (of an external device, what it has to be set up with), and nothing else.
    #[arg(long, help_heading = headings::REPORT)]
    pub(crate) show_document: bool,
    /// Write the report as a page that any browser shows.
    #[arg(long, value_name = "FILE", help_heading = headings::REPORT)]
    pub(crate) html: Option<PathBuf>,
    /// Write the report as JSON, for `sluice bench compare` and `show`.
    #[arg(long, value_name = "FILE", help_heading = headings::REPORT)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) device: DeviceArguments,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
    /// All of the command line, for the arguments that only one scenario has.
    #[arg(skip)]
    pub(crate) matches: ArgMatches,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceKind {
    /// A node that the bench starts.
    Node,
    /// A device that stands between the ports of --uplink and --downlink, such as a router of yours: nothing is started there, and nothing is
    /// told of its cycles. With --show-document: what it has to be set up with.
    External,
}

/// Arguments about what is measured.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = headings::DEVICE)]
pub(crate) struct DeviceArguments {
    /// What is measured.
    #[arg(long = "device", value_name = "KIND", value_enum, default_value = "node")]
    pub(crate) kind: DeviceKind,
    /// MAC address of an external device's port on an uplink, once for each uplink [default: it is asked for].
    #[arg(long = "device-uplink-mac", value_name = "MAC")]
    pub(crate) uplink_macs: Vec<MacAddr>,
    /// MAC address of an external device's port on a downlink, once for each downlink [default: it is asked for].
    #[arg(long = "device-downlink-mac", value_name = "MAC")]
    pub(crate) downlink_macs: Vec<MacAddr>,
    /// MAC address of an external device's gateway on the segments, which workloads behind a tunnel send to.
    #[arg(long = "device-router-mac", value_name = "MAC")]
    pub(crate) router_mac: Option<MacAddr>,
}

impl DeviceArguments {
    /// Names of the arguments in the program.
    pub(crate) const NAMES: [&'static str; 4] = ["kind", "uplink_macs", "downlink_macs", "router_mac"];

    /// Whether the device is not a node that the bench starts.
    pub(crate) fn is_external(&self) -> bool {
        self.kind == DeviceKind::External
    }

    /// MAC addresses that were named, of a device with so many links.
    ///
    /// # Errors
    ///
    /// More of them than links, of a side of which not all or none are named.
    pub(crate) fn macs(&self, topology: &Topology) -> Result<NamedMacs> {
        let side = |side: Side, macs: &[MacAddr], links: u8| match macs.len() {
            0 => Ok(vec![None; usize::from(links)]),
            count if count == usize::from(links) => Ok(macs.iter().copied().map(Some).collect()),
            count => Err(BenchError::Arguments(format!(
                "--device-{side}-mac names {count} MAC addresses, and there are {links} {side}s: name one for each, or none"
            ))),
        };
        let uplinks = side(Side::Uplink, &self.uplink_macs, topology.uplinks)?;
        let downlinks = side(Side::Downlink, &self.downlink_macs, topology.downlinks)?;
        Ok(NamedMacs { links: [uplinks, downlinks].concat(), router: self.router_mac })
    }

    /// Refuses what contradicts itself.
    pub(crate) fn check(&self, scenario: &str, takes_devices: bool) -> Result<()> {
        let names_macs =
            self.router_mac.is_some() || !self.uplink_macs.is_empty() || !self.downlink_macs.is_empty();
        let wrong = match self.kind {
            DeviceKind::Node if names_macs => {
                "a node has the MAC addresses of its document: name others with --device external alone"
                    .into()
            }
            DeviceKind::External if !takes_devices => format!(
                "{scenario} asks a node what only a node knows: leave out --device external, or run bme-1, bme-2 or rfc2544"
            ),
            _ => return Ok(()),
        };
        Err(BenchError::Arguments(wrong))
    }
}

impl ScenarioArguments {
    /// How long a trial of a search sends.
    pub(crate) fn trial(&self) -> Duration {
        let [quick, usual, full] = TRIAL_S;
        let otherwise = if self.quick {
            quick
        } else if self.full {
            full
        } else {
            usual
        };
        Duration::from_secs_f64(self.trial_s.unwrap_or(otherwise))
    }

    /// Repetitions of a rate that fails.
    pub(crate) fn retries(&self) -> u32 {
        self.retries.unwrap_or(if self.full { 3 } else { 1 })
    }

    /// How close a search's bounds come, as a share of the highest rate.
    pub(crate) fn resolution(&self) -> f64 {
        if self.quick { 0.01 } else { 0.002 }
    }

    /// What holds for every trial of a search. A node keeps flows: before each trial every flow has a few packets, or none is known. Frames
    /// that come a trial too late, because another program had the node's core for long, were lost in theirs and are nothing in this one.
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions {
            preparation: if self.reset_state { Preparation::ResetState } else { Preparation::RampUp },
            accepted: Accepted { stale: true, foreign: self.accept_foreign, ..Accepted::default() },
            ..Conditions::default()
        }
    }

    /// The speed of a link.
    ///
    /// # Errors
    ///
    /// None for the speeds that the command line lets through.
    pub(crate) fn link(&self) -> Result<LinkSpeed> {
        LinkSpeed::new(self.link_speed * 1e9).map_err(|error| BenchError::Arguments(error.to_string()))
    }

    /// A network with the tunnels that were asked for.
    pub(crate) fn topology(&self, network: &Topology) -> Topology {
        Topology { encapsulation: self.encapsulation, outer: self.outer, ..*network }
    }

    /// A case for each direction that the scenario has and that was asked for, each family and each size, all of them checked.
    ///
    /// # Errors
    ///
    /// [`BenchError::Arguments`] with everything that is wrong.
    pub(crate) fn cases(&self, directions: &[Directions], sizes: &[u32]) -> Result<Vec<Case>> {
        let mut wrong: Vec<String> = Vec::new();
        for unknown in self.directions.iter().filter(|direction| !directions.contains(direction)) {
            wrong.push(format!("this scenario has no direction `{unknown}`"));
        }
        let is_asked =
            |direction: &&Directions| self.directions.is_empty() || self.directions.contains(direction);
        let mut cases = Vec::new();
        for (family, direction) in self
            .families
            .iter()
            .flat_map(|family| directions.iter().filter(is_asked).map(|direction| (*family, *direction)))
        {
            let of_family: Vec<_> = match &self.sizes {
                None => sizes.iter().map(|bytes| Case::at_least(direction, family, *bytes)).collect(),
                Some(SizeList(named)) => {
                    named.iter().map(|sizes| Case::new(direction, family, sizes.clone())).collect()
                }
            };
            for case in of_family {
                match case {
                    Ok(case) => cases.push(case),
                    Err(error) => wrong.push(error.to_string()),
                }
            }
        }
        wrong.dedup();
        if wrong.is_empty() { Ok(cases) } else { Err(BenchError::Arguments(wrong.join("; "))) }
    }
}

/// Sizes and mixes with commas between them, as on a command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SizeList(Vec<FrameSizes>);

impl FromStr for SizeList {
    type Err = String;

    /// Commas within the parentheses of a genome are a part of it. All that is wrong is told at once.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mut depth = 0;
        let parts = text.split(|character| {
            depth += i32::from(character == '(') - i32::from(character == ')');
            character == ',' && depth == 0
        });
        let (sizes, wrong): (Vec<_>, Vec<_>) =
            parts.map(str::parse::<FrameSizes>).partition(std::result::Result::is_ok);
        if wrong.is_empty() {
            return Ok(Self(sizes.into_iter().flatten().collect()));
        }
        let wrong = wrong.into_iter().filter_map(std::result::Result::err).map(|error| error.to_string());
        Err(wrong.collect::<Vec<_>>().join("; "))
    }
}

fn positive(text: &str) -> std::result::Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "a number is expected".to_owned())?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("it has to be above 0".into()) }
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "a number is expected".to_owned())?;
    if (0.0..100.0).contains(&number) { Ok(number) } else { Err("it has to be from 0 to below 100".into()) }
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let number = positive(text)?;
    if (0.01..=600.0).contains(&number) {
        Ok(number)
    } else {
        Err("a trial lasts 0.01 to 600 seconds".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_apart_by_commas_outside_of_a_genome() {
        let list: SizeList = "64,imix:abcc(a=64,b=570,c=1518),imix-fdio,1500".parse().unwrap();
        assert_eq!(list.0.len(), 4);
        assert_eq!(list.0[1].genome().sequence().len(), 4);
        let sentence = "64,huge,63".parse::<SizeList>().unwrap_err();
        assert!(sentence.contains("huge") && sentence.contains("63"), "{sentence}");
    }
}
