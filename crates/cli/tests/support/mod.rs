//! A node without a data path for the tests: it listens on a control socket, notes what it is asked, and answers what a test wants.

#![allow(dead_code, reason = "every test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

pub(crate) mod answers;
pub(crate) mod recorded;

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{Shutdown, shutdown};
use sluice_control::{Reply, Request};

/// Longest wait for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What the node does with a request.
pub(crate) enum Reaction {
    /// Answers.
    Reply(Box<Reply>),
    /// Sends this line.
    Line(&'static str),
    /// Hangs up.
    Close,
    /// Answers when the client has closed its sending side.
    ReplyAtEnd(Box<Reply>),
    /// Never answers.
    Silence,
}

/// What happened on the socket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A request arrived.
    Request,
    /// The client closed its sending side.
    End,
}

/// A node that runs until it is dropped.
pub(crate) struct FakeNode {
    pub(crate) socket: PathBuf,
    pub(crate) events: Receiver<Event>,
    requests: Arc<Mutex<Vec<Request>>>,
    ended: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl FakeNode {
    /// Listens on `NAME.sock` in a directory and answers like an edge.
    pub(crate) fn start(directory: &Path, name: &str) -> Self {
        Self::reacting(directory, name, |request| Reaction::Reply(Box::new(answers::reply(request))))
    }

    /// Listens on `NAME.sock` in a directory and does with every request what the function says.
    pub(crate) fn reacting(
        directory: &Path,
        name: &str,
        react: impl Fn(&Request) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let socket = directory.join(format!("{name}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        let (requests, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (sender, events) = channel();
        let (noted, stop) = (requests.clone(), ended.clone());
        let listener = thread::spawn(move || {
            let react = Arc::new(react);
            for stream in listener.try_clone().unwrap().incoming() {
                if stop.load(Ordering::SeqCst) {
                    return hang_up(listener);
                }
                let (react, noted, sender) = (react.clone(), noted.clone(), sender.clone());
                thread::spawn(move || serve(stream.unwrap(), &*react, &noted, &sender));
            }
        });
        Self { socket, events, requests, ended, listener: Some(listener) }
    }

    /// What was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(&self.socket);
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
    }
}

/// Closes a listener at once: a process that another thread starts right now has a copy of it for a moment.
pub(crate) fn hang_up(listener: UnixListener) {
    shutdown(listener.as_raw_fd(), Shutdown::Both).unwrap();
}

/// Serves one connection. That the client hung up ends it and is no error of the node.
fn serve(
    stream: UnixStream,
    react: &dyn Fn(&Request) -> Reaction,
    noted: &Mutex<Vec<Request>>,
    events: &Sender<Event>,
) {
    let mut writer = stream.try_clone().unwrap();
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let request: Request = serde_json::from_str(&line).unwrap();
        let reaction = react(&request);
        noted.lock().unwrap().push(request);
        let _ = events.send(Event::Request);
        let reply = match reaction {
            Reaction::Reply(reply) => serde_json::to_string(&reply).unwrap(),
            Reaction::Line(line) => line.to_owned(),
            Reaction::Close => return,
            Reaction::ReplyAtEnd(reply) => {
                assert!(lines.next().is_none_or(|line| line.is_err()), "no request follows a capture");
                let _ = events.send(Event::End);
                serde_json::to_string(&reply).unwrap()
            }
            Reaction::Silence => {
                let _ = lines.next();
                let _ = events.send(Event::End);
                // Open for as long as the test runs: hanging up would be an answer of a kind.
                std::mem::forget(writer);
                return;
            }
        };
        let _ = writeln!(writer, "{reply}");
    }
}

/// `sluice` with a run directory of its own and nothing of the tester's environment that matters to it.
pub(crate) fn sluice(run_directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.env("SLUICE_RUN_DIR", run_directory).env("XDG_STATE_HOME", run_directory).env("TERM", "xterm");
    for variable in ["SLUICE_SOCKET", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

/// What a run of `sluice` came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output of a run that must have succeeded and told nothing else.
    pub(crate) fn succeeded(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }

    /// Standard error of a run that must have failed with this code and answered nothing.
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        self.stderr
    }
}

/// Runs a command to its end.
pub(crate) fn ran(command: &mut Command) -> Ran {
    Ran::new(command.output().unwrap())
}

/// Runs `sluice` with the words of a line.
pub(crate) fn run(run_directory: &Path, line: &str) -> Ran {
    ran(sluice(run_directory).args(line.split_whitespace()))
}
