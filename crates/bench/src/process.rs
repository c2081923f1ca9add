//! Processes of a bench: found beside the running program, logged to a file, paused while others are measured, ended with the bench.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{BenchError, Result, While};

/// How long a process gets to end after SIGTERM.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Pause between two looks at something that is awaited.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// Lines of a log that an error shows.
const LOG_LINES: usize = 8;

/// Set by SIGINT and SIGTERM.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the signals do not end the process but are told here.
    pub(crate) fn watch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .during(|| "watching for signals".into())?;
        }
        Ok(Self(flag))
    }

    /// An error once a signal came.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(()) }
    }
}

/// The path of a program: given, beside the running one, in the folder above (where test and example programs find it), or in PATH.
pub(crate) fn find(name: &'static str, given: Option<&Path>, remedy: &'static str) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let running = std::env::current_exe().during(|| "looking for the running program".into())?;
    let folders: Vec<PathBuf> = running.ancestors().skip(1).take(2).map(Path::to_owned).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates =
        folders.iter().cloned().chain(std::env::split_paths(&path)).map(|folder| folder.join(name));
    let found = candidates.into_iter().find(|candidate| candidate.is_file());
    found.ok_or_else(|| BenchError::NoProgram {
        name,
        beside: folders.into_iter().next().unwrap_or_default(),
        remedy,
    })
}

/// A process that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    /// Whether it has ended and was waited for.
    waited_for: AtomicBool,
    log: PathBuf,
}

impl Process {
    /// Starts a program, whose standard error goes to a file of its own in `folder`, its standard output too unless it is piped. Should
    /// this process be killed, it ends as well.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        folder: &Path,
        piped: bool,
        set_up: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).during(|| format!("creating {}", log.display()))?;
        let errors = file.try_clone().during(|| format!("opening {}", log.display()))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(program).stderr(errors);
        if piped {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        } else {
            command.stdin(Stdio::null()).stdout(file);
        }
        set_up(&mut command);
        let child = command.spawn().during(|| format!("starting {} (through setpriv)", program.display()))?;
        Ok(Self { name, child, waited_for: AtomicBool::new(false), log })
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As the standard library has it.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The input of a process that was started with pipes, and the lines of its output, read by a thread of their own.
    pub(crate) fn lines(&mut self) -> Result<(ChildStdin, Receiver<String>)> {
        let (Some(input), Some(output)) = (self.child.stdin.take(), self.child.stdout.take()) else {
            return Err(self.failed("it has no pipes"));
        };
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok((input, lines))
    }

    /// An error that shows the end of the process's log.
    pub(crate) fn failed(&self, reason: impl Into<String>) -> BenchError {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
        let log = last.iter().map(|line| format!("\n  | {line}")).collect();
        BenchError::Process { process: self.name, reason: reason.into(), log }
    }

    /// Repeats `event` until it gives something; an error when the process ends, the time is up or a signal came.
    pub(crate) fn wait_for<T>(
        &mut self,
        what: &str,
        limit: Duration,
        interrupt: &Interrupt,
        mut event: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let end = Instant::now() + limit;
        loop {
            if let Some(value) = event() {
                return Ok(value);
            }
            interrupt.check()?;
            if let Some(status) = self.end() {
                return Err(self.failed(format!("it ended ({status}) before {what}")));
            }
            if Instant::now() > end {
                return Err(self.failed(format!("{what} took longer than {} s", limit.as_secs())));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// How it ended, if it has.
    pub(crate) fn end(&mut self) -> Option<std::process::ExitStatus> {
        let status = self.child.try_wait().ok().flatten();
        self.waited_for.fetch_or(status.is_some(), Ordering::Relaxed);
        status
    }

    /// Ends it at once, by SIGKILL. It is waited for when this is dropped: until then its number is no other's.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Waits until the process has ended by itself; false when it still runs after `limit`. An error when a signal came.
    pub(crate) fn ends_within(&mut self, limit: Duration, interrupt: &Interrupt) -> Result<bool> {
        let end = Instant::now() + limit;
        while self.end().is_none() {
            interrupt.check()?;
            if Instant::now() > end {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }

    /// Stops the process where it is, so that it takes no time of what is measured.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// The threads of the process whose names begin with `prefix`.
    pub(crate) fn threads(&self, prefix: &str) -> Vec<u32> {
        threads(self.pid(), prefix)
    }

    fn signal(&self, signal: Signal) {
        // One that ended is a zombie until it is waited for, so that its number is not another's; behind that nothing is sent to it.
        if self.waited_for.load(Ordering::Relaxed) {
            return;
        }
        let _ = kill(Pid::from_raw(self.pid().cast_signed()), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // End of input is what ends a generator; the others end by the signal.
        drop(self.child.stdin.take());
        // One that was waited for has lost its number, which may be another's by now.
        if self.end().is_some() {
            return;
        }
        self.resume();
        self.signal(Signal::SIGTERM);
        let end = Instant::now() + END_LIMIT;
        while Instant::now() < end {
            if self.end().is_some() {
                return;
            }
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The threads of a process whose names begin with `prefix`.
pub(crate) fn threads(pid: u32, prefix: &str) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let named = |task: std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        name.starts_with(prefix).then(|| task.file_name().to_str()?.parse().ok())?
    };
    tasks.filter_map(named).collect()
}

/// Runs a program to its end; its standard output, or an error with its standard error.
pub(crate) fn run(name: &'static str, command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().during(|| format!("starting {name}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    let reason = format!("`{name} {}` failed: {message}", arguments.join(" "));
    Err(BenchError::Process { process: name, reason, log: String::new() })
}
