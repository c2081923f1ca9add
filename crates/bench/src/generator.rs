//! A traffic generator process, or one that echoes, at the other end of its JSON lines.

use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command as Program};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use sluice_trial::message::{Answer, Command, Forwarded, TrialOrder, TrialResult};

use crate::error::{BenchError, Result, While};
use crate::process::{Interrupt, LOOK, Process};
use crate::subject::NamedMacs;

/// How long an answer may take beyond the time that the order itself takes.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A generator.
#[derive(Debug)]
pub(crate) struct Generator {
    input: ChildStdin,
    answers: Receiver<String>,
    process: Process,
    interrupt: Interrupt,
    memory: String,
    dpdk: String,
    cycles_per_second: u64,
}

impl Generator {
    /// Starts the program and waits until its ports are there.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        folder: &Path,
        interrupt: &Interrupt,
        set_up: impl FnOnce(&mut Program),
    ) -> Result<Self> {
        let mut process = Process::start(name, program, folder, true, set_up)?;
        let (input, answers) = process.lines()?;
        let mut generator = Self {
            input,
            answers,
            process,
            interrupt: interrupt.clone(),
            memory: String::new(),
            dpdk: String::new(),
            cycles_per_second: 0,
        };
        match generator.answer(Duration::ZERO)? {
            Answer::Started { memory, cycles_per_second, dpdk } => {
                generator.memory = memory;
                dpdk.trim_start_matches("DPDK ").clone_into(&mut generator.dpdk);
                generator.cycles_per_second = cycles_per_second;
                Ok(generator)
            }
            other => Err(generator.unexpected(&other)),
        }
    }

    /// What its packet memory is in.
    pub(crate) fn memory(&self) -> &str {
        &self.memory
    }

    /// Version of the DPDK that it runs on.
    pub(crate) fn dpdk(&self) -> &str {
        &self.dpdk
    }

    /// Cycles of the time stamp counter a second.
    pub(crate) fn cycles_per_second(&self) -> u64 {
        self.cycles_per_second
    }

    /// The process.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Waits until both links are up.
    pub(crate) fn wait_for_links(&mut self, limit: Duration) -> Result<()> {
        let timeout_ms = limit.as_millis() as u64;
        match self.order(&Command::WaitForLinks { timeout_ms }, limit)? {
            Answer::LinksUp => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Finds out the MAC addresses of a device that is no node.
    pub(crate) fn find_device(&mut self, macs: &NamedMacs, limit: Duration) -> Result<()> {
        let command = Command::FindDevice {
            macs: macs.links.clone(),
            router: macs.router,
            timeout_ms: limit.as_millis() as u64,
        };
        match self.order(&command, limit)? {
            Answer::Device { .. } => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Runs a trial.
    pub(crate) fn trial(&mut self, order: &TrialOrder) -> Result<TrialResult> {
        let limit = Duration::from_millis(order.duration_ms);
        match self.order(&Command::Trial(order.clone()), limit)? {
            Answer::Trial(result) if result.interrupted => Err(BenchError::Interrupted),
            Answer::Trial(result) => Ok(result),
            other => Err(self.unexpected(&other)),
        }
    }

    /// What an echo has forwarded.
    pub(crate) fn forwarded(&mut self) -> Result<Forwarded> {
        match self.order(&Command::GetForwarded, Duration::ZERO)? {
            Answer::Forwarded(forwarded) => Ok(forwarded),
            other => Err(self.unexpected(&other)),
        }
    }

    fn order(&mut self, command: &Command, expected: Duration) -> Result<Answer> {
        let mut line = serde_json::to_string(command)
            .map_err(std::io::Error::from)
            .during(|| "writing an order".into())?;
        line.push('\n');
        if self.input.write_all(line.as_bytes()).is_err() {
            return Err(self.process.failed("it has ended"));
        }
        self.answer(expected)
    }

    fn answer(&mut self, expected: Duration) -> Result<Answer> {
        let end = Instant::now() + expected + ANSWER_LIMIT;
        let line = loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Disconnected) => {
                    self.interrupt.check()?;
                    return Err(self.process.failed("it has ended"));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() > end => {
                    return Err(self.process.failed("it does not answer"));
                }
                Err(RecvTimeoutError::Timeout) => self.interrupt.check()?,
            }
        };
        match serde_json::from_str(&line) {
            Ok(Answer::Failed { message }) => {
                self.interrupt.check()?;
                Err(self.process.failed(message))
            }
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.process.failed(format!("its answer cannot be read ({error}): {line}"))),
        }
    }

    fn unexpected(&self, answer: &Answer) -> BenchError {
        self.process.failed(format!("this was not asked: {answer:?}"))
    }
}
