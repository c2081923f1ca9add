//! What every scenario that measures devices needs: set-up, trials in turn, progress.

use std::cell::Cell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sluice_trial::ports::PortName;
use tempfile::TempDir;

use crate::arguments::ScenarioArguments;
use crate::command::CommonArguments;
use crate::error::{BenchError, Result, While};
use crate::machine::{HugePages, Realtime, check_cores, check_each_core};
use crate::measure::{Case, Measuring, Sample};
use crate::process::Interrupt;
use crate::scenario::Scenario;
use crate::subject::{Links, NamedPorts, Setting, Subject};

/// Length of a trial, milliseconds, and with `--quick`: short enough that the kernel lets a real-time thread have its core for all of it.
const TRIAL_MS: [u64; 2] = [300, 150];
/// Trials of a case, and the same with `--quick`; where a scenario searches: searches.
const REPEAT: [u16; 2] = [5, 2];
/// Searches of a case: one may take minutes.
const SEARCHES: u16 = 1;

/// A bench that is set up.
pub(crate) struct Bench {
    pub(crate) setting: Setting,
    pub(crate) measuring: Measuring,
    /// Trials of each case; of a scenario that searches, searches.
    pub(crate) repeat: usize,
    /// Whether a signal came when there were results already.
    pub(crate) interrupted: Cell<bool>,
    // Given back when the processes have ended.
    _folder: TempDir,
    _huge_pages: Option<HugePages>,
}

/// The ports that were named, of both ends.
fn named_ports(arguments: &CommonArguments, is_external: bool) -> Result<Option<NamedPorts>> {
    let CommonArguments { uplinks, downlinks, device_uplinks, device_downlinks, .. } = arguments;
    if uplinks.is_empty() {
        return match is_external {
            false => Ok(None),
            true => Err(BenchError::Arguments(
                "an external device stands between ports: name those of the generator with --uplink and --downlink".into(),
            )),
        };
    }
    let all: Vec<&PortName> =
        [uplinks, downlinks, device_uplinks, device_downlinks].into_iter().flatten().collect();
    let twice = all.iter().enumerate().find(|(at, port)| all[..*at].contains(port));
    if let Some((_, port)) = twice {
        return Err(BenchError::Arguments(format!(
            "{port} is named twice: every end of a link is a port of its own"
        )));
    }
    if is_external && !device_uplinks.is_empty() {
        return Err(BenchError::Arguments(
            "the ports of an external device are its own: leave out --device-uplink and --device-downlink"
                .into(),
        ));
    }
    if !is_external && (uplinks.len(), downlinks.len()) != (device_uplinks.len(), device_downlinks.len()) {
        return Err(BenchError::Arguments(
            "each --uplink needs its --device-uplink, each --downlink its --device-downlink: the ports at the other ends".into(),
        ));
    }
    let links = |uplinks: &[PortName], downlinks: &[PortName]| Links {
        uplinks: uplinks.to_vec(),
        downlinks: downlinks.to_vec(),
    };
    Ok(Some(NamedPorts {
        generator: links(uplinks, downlinks),
        device: (!is_external).then(|| links(device_uplinks, device_downlinks)),
    }))
}

impl Bench {
    /// Checks the arguments, makes a folder and reserves as much memory in huge pages as the scenario takes, where that is allowed.
    pub(crate) fn new(arguments: &ScenarioArguments, scenario: &Scenario) -> Result<Self> {
        let ScenarioArguments { quick, device, common: arguments, .. } = arguments;
        let is_external = device.is_external();
        let device_cores = if is_external { Vec::new() } else { arguments.device_cores.clone() };
        if is_external {
            check_each_core(&arguments.generator_cores)?;
        } else {
            check_cores(&arguments.generator_cores, &device_cores)?;
        }
        let ports = named_ports(arguments, is_external)?;
        let interrupt = Interrupt::watch()?;
        let folder = tempfile::Builder::new()
            .prefix("sluice-bench-")
            .tempdir()
            .during(|| "creating a folder".into())?;
        let huge_pages = if arguments.no_huge_pages { None } else { HugePages::reserve(scenario.mebibytes) };
        let setting = Setting {
            folder: folder.path().to_owned(),
            generator_cores: arguments.generator_cores.clone(),
            device_cores,
            huge_pages: huge_pages.is_some(),
            zero_copy: arguments.zero_copy,
            generator: arguments.generator.clone(),
            sluiced: arguments.sluiced.clone(),
            interrupt,
            ports,
            namespaces: None,
        };
        let quick = usize::from(*quick);
        let repeat = if scenario.searches { SEARCHES } else { REPEAT[quick] };
        let measuring = Measuring {
            trial_ms: arguments.trial_ms.unwrap_or(TRIAL_MS[quick]),
            realtime: Realtime::new(!arguments.no_realtime),
        };
        Ok(Self {
            setting,
            measuring,
            repeat: usize::from(arguments.repeat.unwrap_or(repeat)),
            interrupted: Cell::new(false),
            _folder: folder,
            _huge_pages: huge_pages,
        })
    }

    /// Measures every case on every subject in turn, as often as `rounds` says; the others stand still meanwhile, and stay so at the end.
    /// The trials by subject and case; those until a signal came, if there was a round before it.
    pub(crate) fn in_turn(
        &self,
        subjects: &mut [&mut dyn Subject],
        cases: &[Case],
        rounds: usize,
        progress: &ProgressBar,
    ) -> Result<Vec<Vec<Vec<Sample>>>> {
        let mut all = vec![vec![Vec::new(); cases.len()]; subjects.len()];
        for subject in subjects.iter() {
            subject.pause();
        }
        for round in 0..rounds {
            for (at, case) in cases.iter().enumerate() {
                for (subject, samples) in subjects.iter_mut().zip(&mut all) {
                    progress.set_message(format!("{} {case}", subject.name()));
                    subject.resume();
                    match self.measuring.sample(*subject, case) {
                        Ok(sample) => samples[at].push(sample),
                        Err(BenchError::Interrupted) if round > 0 => {
                            self.interrupted.set(true);
                            return Ok(all);
                        }
                        Err(error) => return Err(error),
                    }
                    subject.pause();
                    progress.inc(1);
                }
            }
        }
        Ok(all)
    }
}

/// A progress bar on standard error, which does not show where that is no terminal.
pub(crate) fn progress(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} % {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
