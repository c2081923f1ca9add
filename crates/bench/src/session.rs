//! A scenario that runs: set-up, progress, interruption, and what becomes of its report.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use sluice_trial::message::Load;
use sluice_trial::ports::PortName;
use sluice_trial::topology::{FLOWS, Topology};
use sluice_trial::traffic::Encapsulation;

use crate::arguments::ScenarioArguments;
use crate::bench::{Bench, progress};
use crate::device::UnderTest;
use crate::document::{NodeSettings, RING_SIZE};
use crate::environment::{Core, Environment, Port};
use crate::error::{BenchError, Result};
use crate::measure::{Case, Ceiling, Directions, Sample};
use crate::profile::Profile;
use crate::report::{self, ImixPart, Latency, OutputFile, Report, html, median, terminal};
use crate::scenario::{Choice, Scenario};
use crate::search::latency::SHARES;
use crate::search::{Invalid, Progress, SearchError, back_to_back, throughput};
use crate::subject::{Device, Echo, External, Links, Node, Subject, Variant, requirements};

/// Units of the progress bar for each step of a scenario.
const STEP: u64 = 1_000;
/// Trials of an echo.
const CEILING_TRIALS: u32 = 3;
/// A search may go so far beyond what an echo reached: other programs may have been in its way.
pub(crate) const ABOVE_CEILING: f64 = 1.25;
/// The shortest burst that is searched for, whose pace is taken for that of all: shorter ones are over before the generator is at its pace; and the
/// longest, several times what the largest rings hold.
const BURSTS: [u64; 2] = [512, 65_536];
/// Paces that are measured at most, and searches that begin with each.
const PACES: u32 = 4;
/// Exit code of a process that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// What a scenario works with.
pub(crate) struct Session<'a> {
    pub(crate) arguments: &'a ScenarioArguments,
    pub(crate) bench: Bench,
    scenario: &'static Scenario,
    bar: ProgressBar,
    done: u64,
}

/// Runs a scenario, prints its report and writes the files that were asked for. The exit code is 1 where the report complains of
/// something, 130 after an interruption.
///
/// # Errors
///
/// One sentence on what failed. What was measured before it has been printed and written by then, as an incomplete report.
pub(crate) fn run(choice: &Choice) -> Result<ExitCode> {
    let Choice { scenario, arguments } = choice;
    scenario.check(arguments)?;
    if arguments.show_document {
        let document = match scenario.own.and_then(|own| own.document) {
            Some(document) => document(arguments)?,
            None if arguments.device.is_external() => requirements(&shown(scenario, arguments).topology),
            None => shown(scenario, arguments).document()?,
        };
        print!("{document}");
        return Ok(ExitCode::SUCCESS);
    }
    let outputs = Outputs::check(arguments)?;
    let bench = Bench::new(arguments, scenario)?;
    let mut report = begin(scenario, arguments, &bench);
    let mut session = Session { arguments, bench, scenario, bar: progress(STEP as usize), done: 0 };
    let outcome = (scenario.run)(&mut session, &mut report).and_then(|()| match session.is_interrupted() {
        true => Err(BenchError::Interrupted),
        false => Ok(()),
    });
    session.bar.finish_and_clear();
    match &outcome {
        Ok(()) => report.finish(),
        Err(error) => report.interrupt(error.to_string()),
    }
    let written = outputs.write(&report, arguments.common.json);
    match outcome {
        Err(BenchError::Interrupted) => {
            eprintln!("{}", BenchError::Interrupted);
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(error) => Err(error),
        Ok(()) if written.is_err() => written.map(|()| ExitCode::FAILURE),
        Ok(()) if report.has_errors() => Ok(ExitCode::FAILURE),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

/// The node of the scenario's topology, for whoever wants to run it by hand.
fn shown(scenario: &Scenario, arguments: &ScenarioArguments) -> NodeSettings {
    let topology = arguments.topology(&scenario.network);
    let links = Links::of_socket(Path::new("/run/sluice/bench.sock"), &topology);
    NodeSettings {
        topology,
        uplinks: links.uplinks,
        downlinks: links.downlinks,
        cores: arguments.common.device_cores.clone(),
        huge_pages: !arguments.common.no_huge_pages,
        zero_copy: arguments.common.zero_copy,
        ring_size: RING_SIZE,
        flow_cache: true,
        more: false,
    }
}

/// A report that says under which conditions it begins.
fn begin(scenario: &Scenario, arguments: &ScenarioArguments, bench: &Bench) -> Report {
    let mut report = Report::start(scenario.name, scenario.title);
    if let Some((document, part)) = scenario.reproduces {
        report = report.reproduces(document, part);
    }
    let mut environment = Environment::gather();
    let cores = |numbers: &[u16], role: &str| -> Vec<Core> {
        numbers.iter().map(|core| Core { core: *core, role: role.to_owned() }).collect()
    };
    environment.cores =
        [cores(&bench.setting.generator_cores, "generator"), cores(&bench.setting.device_cores, "device")]
            .concat();
    let scheduler = if bench.measuring.realtime.is_on() { "real-time" } else { "ordinary" };
    environment.scheduler = Some(scheduler.to_owned());
    let traffic = report::Traffic {
        flows: Some(FLOWS.into()),
        trial_s: Some(if scenario.searches {
            arguments.trial().as_secs_f64()
        } else {
            bench.measuring.trial_ms as f64 / 1e3
        }),
        trials: (!scenario.searches).then_some(bench.repeat as u32),
        searches: scenario.searches.then_some(bench.repeat as u32),
        loss_tolerance: scenario.searches.then_some(arguments.loss_tolerance / 100.0),
        description: Some(format!(
            "UDP over {}, {}; nothing is random",
            arguments.families.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "),
            match arguments.encapsulation {
                Encapsulation::None => "without a tunnel".to_owned(),
                tunnel => format!("{tunnel} between TEPs over {}", arguments.outer),
            }
        )),
        ..report::Traffic::default()
    };
    report.in_environment(environment).with_traffic(traffic)
}

/// Where a report goes beside the terminal.
struct Outputs {
    html: Option<OutputFile>,
    json: Option<OutputFile>,
}

impl Outputs {
    /// Before anything is measured: a file that cannot be written is known now, not in an hour.
    fn check(arguments: &ScenarioArguments) -> Result<Self> {
        let check = |path: Option<&Path>| path.map(OutputFile::check).transpose();
        Ok(Self { html: check(arguments.html.as_deref())?, json: check(arguments.output.as_deref())? })
    }

    /// Files first: a terminal that is gone must not cost them. All that fails is told.
    fn write(&self, report: &Report, as_json: bool) -> Result<()> {
        let mut failures = Vec::new();
        let files = [(&self.html, html::page as fn(&Report) -> String), (&self.json, Report::to_json)];
        for (file, text) in files {
            match file.as_ref().map(|file| (file, file.write(&text(report)))) {
                Some((file, Ok(()))) => eprintln!("written to {}", file.path().display()),
                Some((_, Err(error))) => failures.push(error.to_string()),
                None => {}
            }
        }
        let text = if as_json {
            report.to_json() + "\n"
        } else {
            terminal::render(report, terminal::Screen::of_stdout())
        };
        let mut output = std::io::stdout().lock();
        if let Err(error) = output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
            failures.push(format!("writing to standard output failed: {error}"));
        }
        if failures.is_empty() { Ok(()) } else { Err(BenchError::Arguments(failures.join("; "))) }
    }
}

impl Session<'_> {
    /// The cases of the scenario, or of the sizes that were named. Tells the report of their frames, and the progress of as many steps.
    pub(crate) fn cases(&mut self, directions: &[Directions], report: &mut Report) -> Result<Vec<Case>> {
        let cases = self.arguments.cases(directions, self.scenario.sizes)?;
        let mut seen = Vec::new();
        for case in &cases {
            if seen.contains(&case.sizes) {
                continue;
            }
            seen.push(case.sizes.clone());
            let genome = &case.genome;
            let sizes: std::collections::BTreeSet<u32> = genome.sequence().collect();
            for bytes in &sizes {
                let weight = genome.sequence().filter(|size| size == bytes).count() as u32;
                if sizes.len() > 1 {
                    report.traffic.imix.push(ImixPart { frame_bytes: *bytes, weight });
                } else {
                    report.traffic.frame_bytes.push(*bytes);
                }
            }
            if sizes.len() > 1 {
                report.note(format!(
                    "{}: genome {genome}, {:.1} bytes on average",
                    case.sizes,
                    genome.average()
                ));
            }
        }
        self.steps(cases.len());
        Ok(cases)
    }

    /// The scenario's network, with the tunnels that were asked for.
    pub(crate) fn topology(&self) -> Topology {
        self.arguments.topology(&self.scenario.network)
    }

    /// Cases of one kind of directions, unless the command line chose some.
    pub(crate) fn only_if_unchosen(&self, cases: Vec<Case>, directions: Directions) -> Vec<Case> {
        let is_chosen = !self.arguments.directions.is_empty();
        cases.into_iter().filter(|case| is_chosen || case.directions == directions).collect()
    }

    /// What a node dropped in the whole run; nothing after a signal.
    pub(crate) fn tell_drops(&self, node: &mut Node, report: &mut Report) -> Result<()> {
        let drops = if self.is_interrupted() { Vec::new() } else { node.drops()? };
        for (reason, packets) in drops {
            report.note(format!("dropped by the node in the whole run: {reason} {packets}"));
        }
        Ok(())
    }

    /// Whether a signal came when there were results already: nothing more is to be measured, and these are to be told.
    pub(crate) const fn is_interrupted(&self) -> bool {
        self.bench.interrupted.get()
    }

    /// For scenarios whose subjects are all there at once.
    ///
    /// # Errors
    ///
    /// Where ports were named: only one subject can have them.
    pub(crate) fn needs_shared_memory(&self) -> Result<()> {
        match self.bench.setting.ports {
            None => Ok(()),
            Some(_) => Err(BenchError::Arguments(
                "this scenario measures several devices in turn, each on ports of its own: it works over shared memory alone, without --uplink and --downlink".into(),
            )),
        }
    }

    /// Measures every case on every subject in turn, at the highest rate. The trials by subject and case.
    pub(crate) fn in_turn(
        &mut self,
        subjects: &mut [&mut dyn Subject],
        cases: &[Case],
    ) -> Result<Vec<Vec<Vec<Sample>>>> {
        self.bar.set_length((subjects.len() * cases.len() * self.bench.repeat) as u64);
        self.bar.set_position(0);
        self.bench.in_turn(subjects, cases, self.bench.repeat, &self.bar)
    }

    /// Profiles a node under each case; none after a signal.
    pub(crate) fn profile(&self, node: &mut Node, cases: &[Case]) -> Result<Vec<Profile>> {
        if self.is_interrupted() {
            return Ok(Vec::new());
        }
        let of = |case: &Case| {
            self.message(format!("{case}: cycles by stage"));
            Profile::of(node, case, &self.bench.measuring, self.bench.repeat)
        };
        cases.iter().map(of).collect()
    }

    /// How many steps the scenario has.
    pub(crate) fn steps(&mut self, steps: usize) {
        self.bar.set_length(STEP * steps as u64);
        self.done = 0;
    }

    /// One step is done.
    pub(crate) fn step(&mut self) {
        self.done += STEP;
        self.bar.set_position(self.done);
    }

    /// What is going on.
    pub(crate) fn message(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
    }

    /// Tells the conditions of a subject: its ports, its document, the clock.
    pub(crate) fn describe(&self, subject: &mut dyn Subject, report: &mut Report) {
        let environment = &mut report.environment;
        environment.cycles_per_second = Some(subject.generator().cycles_per_second());
        environment.packet_memory = Some(subject.generator().memory().to_owned());
        environment.dpdk = Some(subject.generator().dpdk().to_owned());
        if let Some(text) = subject.document() {
            let (name, text) = (subject.name().to_owned(), text.to_owned());
            report.documents.push(report::Document { name, text });
        }
        if report.environment.ports.is_empty() {
            report.environment.ports = match &self.bench.setting.ports {
                None => vec![Port { name: "all".into(), kind: "memif (shared memory)".into(), mbps: None }],
                Some(ports) => {
                    let all = ports.generator.uplinks.iter().chain(&ports.generator.downlinks);
                    let port = |port: &PortName| {
                        let name = port.to_string();
                        let kind = name.split(':').next().unwrap_or_default().to_owned();
                        Port { name, kind, mbps: None }
                    };
                    all.map(port).collect()
                }
            };
        }
    }

    /// What generator and links can do in each case: an echo, which ends before anything else starts, since both may need the same ports. Told to the
    /// report.
    pub(crate) fn ceilings(
        &self,
        topology: &Topology,
        cases: &[Case],
        report: &mut Report,
    ) -> Result<Vec<Ceiling>> {
        let mut echo = Echo::start(&self.bench.setting, topology)?;
        cases.iter().map(|case| self.ceiling_and_latency(&mut echo, case, report)).collect()
    }

    /// Starts the device that is measured, and what limits a result with it in each case. Of a node that is what comes back from an echo in its
    /// place. Nothing can be put in the place of an external device: there it is what the ports of the generator take.
    pub(crate) fn start_device(
        &self,
        topology: &Topology,
        cases: &[Case],
        report: &mut Report,
    ) -> Result<(Device, Vec<Ceiling>)> {
        if !self.arguments.device.is_external() {
            let ceilings = self.ceilings(topology, cases, report)?;
            let mut node = Box::new(Node::start(&self.bench.setting, Variant::new(*topology))?);
            self.describe(node.as_mut(), report);
            return Ok((Device::Node(node), ceilings));
        }
        self.message("looking for the device");
        let macs = self.arguments.device.macs(topology)?;
        let mut external = External::start(&self.bench.setting, topology, &macs)?;
        self.describe(&mut external, report);
        report.note("The device is not the bench's own: it tells no cycles. The ceiling is what the ports of the generator take, whatever comes back; what the generator could receive, and how long frames are under way without the device, is not known.");
        let mut ceilings = Vec::new();
        for case in cases {
            self.message(format!("{case}: what the generator can send"));
            let trials = (0..CEILING_TRIALS).map(|_| self.bench.measuring.sample(&mut external, case));
            let ceiling = Ceiling::of_sending(&trials.collect::<Result<Vec<_>>>()?);
            report.generator.ceiling_mpps.push((format!("{case}, sending"), ceiling.rate() / 1e6));
            ceilings.push(ceiling);
        }
        Ok((Device::External(external), ceilings))
    }

    /// What comes back from an echo in a case.
    fn ceiling(&self, echo: &mut dyn Subject, case: &Case) -> Result<Ceiling> {
        self.message(format!("{case}: what generator and links can do"));
        let trials = (0..CEILING_TRIALS).map(|_| self.bench.measuring.sample(echo, case));
        let trials = trials.collect::<Result<Vec<_>>>()?;
        Ok(Ceiling::of(&trials))
    }

    /// What comes back from an echo in a case, and how long a frame is under way at a tenth of that. Both are told to the report; its own latency is
    /// that of the first case.
    fn ceiling_and_latency(
        &self,
        echo: &mut dyn Subject,
        case: &Case,
        report: &mut Report,
    ) -> Result<Ceiling> {
        let ceiling = self.ceiling(echo, case)?;
        let load = Load::Rate {
            packets_per_second: ceiling.rate() * SHARES[0] / case.directions.streams().len() as f64,
        };
        let measuring = self.bench.measuring;
        let trial =
            measuring.calm_trial(echo, case, load, Duration::from_millis(measuring.trial_ms), true)?;
        report.generator.ceiling_mpps.push((case.to_string(), ceiling.rate() / 1e6));
        let latency = trial.result.latency.map(Latency::from);
        report.generator.own_latency = report.generator.own_latency.or(latency);
        Ok(ceiling)
    }

    /// Searches for a subject's throughput in a case, and returns the trials with it.
    pub(crate) fn throughput<'s>(
        &self,
        subject: &'s mut dyn Subject,
        case: &'s Case,
        maximum: f64,
    ) -> Result<(throughput::Throughput, UnderTest<'s>)> {
        let settings = throughput::Settings {
            minimum: maximum * self.arguments.minimum_rate / 100.0,
            maximum,
            resolution: maximum * self.arguments.resolution(),
            loss_tolerance: self.arguments.loss_tolerance / 100.0,
            trial: self.arguments.trial(),
            retries: self.arguments.retries(),
            conditions: self.arguments.conditions(),
        };
        let name = subject.name();
        let mut device = UnderTest::new(subject, case, self.bench.measuring);
        let mut observe = self.observer(format!("{name} {case} throughput"));
        let found = throughput::search(&settings, &mut device, &mut observe)?;
        drop(observe);
        Ok((found, device))
    }

    /// Searches for the longest burst that a subject takes without loss, at the pace of the generator, with a throughput that is known: how
    /// fast bursts were, frames a second of each, and what was found. On a machine that became slower since its pace was measured no burst is sent
    /// back to back: then the pace is measured anew and the search begins again, up to [`PACES`] times in all.
    pub(crate) fn longest_burst(
        &self,
        device: &mut UnderTest<'_>,
        throughput: f64,
        what: String,
    ) -> Result<(Vec<f64>, back_to_back::Verdict)> {
        let [minimum, maximum] = BURSTS;
        let quick = self.arguments.quick;
        let mut searches = 0;
        loop {
            searches += 1;
            let paces = device.set_burst_pace(minimum)?;
            let pace = median(paces.iter().copied()).unwrap_or_default();
            let settings = back_to_back::Settings {
                minimum,
                maximum,
                resolution: if quick { 128 } else { 16 },
                repetitions: if quick { 3 } else { 10 },
                maximum_frame_rate: pace,
                throughput: throughput.min(pace),
                conditions: self.arguments.conditions(),
            };
            match back_to_back::search(&settings, device, &mut self.observer(what.clone())) {
                Err(SearchError::Invalid { reason: Invalid::BurstTooSlow { .. }, .. })
                    if searches < PACES => {}
                found => return Ok((paces, found?.verdict)),
            }
        }
    }

    /// Says how many trials were repeated because of others.
    pub(crate) fn tell_disturbed(trials: u32, report: &mut Report) {
        if trials > 0 {
            report.note(format!(
                "trials with loss that were repeated because another program had one of the cores meanwhile: {trials}"
            ));
        }
    }

    /// Shows what a search is doing.
    pub(crate) fn observer(&self, what: String) -> impl FnMut(&Progress) + '_ {
        let began = Instant::now();
        let overhead = UnderTest::overhead(self.arguments.conditions().preparation);
        move |progress| {
            self.bar.set_position(self.done + (progress.share() * STEP as f64) as u64);
            let bounds = match (progress.lower, progress.upper) {
                (Some(lower), Some(upper)) => format!(", between {} and {}", mega(lower), mega(upper)),
                (Some(lower), None) => format!(", at least {}", mega(lower)),
                (None, Some(upper)) => format!(", below {}", mega(upper)),
                (None, None) => String::new(),
            };
            let left = time_left(progress, began.elapsed(), overhead).as_secs_f64();
            self.bar.set_message(format!("{what}: {}{bounds}, at most {left:.0} s", progress.traffic));
        }
    }
}

/// Time that a search still takes, if it needs as many trials as it may: of sending, and of what precedes and follows it. How long that is shows in the
/// trials so far; before the first one it is as expected.
fn time_left(progress: &Progress, elapsed: Duration, expected: Duration) -> Duration {
    let besides = match progress.trials_done {
        0 => expected,
        done => elapsed.saturating_sub(progress.sending_done) / done,
    };
    progress.sending_left + besides * progress.trials_left
}

fn mega(rate: f64) -> String {
    format!("{:.2} M", rate / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Phase, Preparation, Traffic};

    #[test]
    fn an_estimate_includes_what_precedes_and_follows_sending() {
        let [milliseconds, seconds] = [Duration::from_millis, Duration::from_secs];
        let progress = |trials_done, trials_left| Progress {
            phase: Phase::Narrowing,
            traffic: Traffic::Burst { frames: 1 },
            lower: None,
            upper: None,
            trials_done,
            trials_left,
            sending_done: seconds(1) * trials_done,
            sending_left: seconds(1) * trials_left,
        };
        let expected = UnderTest::overhead(Preparation::RampUp);
        assert_eq!(expected, milliseconds(245));
        assert_eq!(time_left(&progress(0, 10), milliseconds(3), expected), milliseconds(12_450));
        // Four trials took 1.5 s each.
        assert_eq!(time_left(&progress(4, 6), seconds(6), expected), seconds(9));
        // A clock that lags by a little makes no time negative.
        assert_eq!(time_left(&progress(4, 6), milliseconds(3_999), expected), seconds(6));
    }
}
