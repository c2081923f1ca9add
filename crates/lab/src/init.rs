//! The lab's init: PID 1 of its PID namespace, ancestor of everything in the lab.
//!
//! Started in two steps, both this same program: `launch` moves itself into new namespaces and starts `run` as their first
//! process, then ends, so that nothing of the caller's is an ancestor of the lab. The kernel kills everything in the lab when
//! init ends, however it ends, and frees the namespaces with the links between them.
//!
//! Limits: init restarts nothing. A sluiced that ends stays ended and `sluice lab status` says how.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, dup2_stdout, setsid};
use serde_json::{Map, Value};
use sluice_control::Request;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal as Watch, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use crate::error::{LabError, Result, While};
use crate::event::Event;
use crate::namespaces::NodeNamespaces;
use crate::process::ProcessIdentity;
use crate::state::{DaemonStatus, PortKind, Settings, StateDirectory, Status};
use crate::topology::{Node, Topology, with_port_kind};
use crate::{namespaces, network, probe};

/// Between two attempts to connect to a control socket. That a socket is there cannot be waited for, only tried.
const CONNECT_INTERVAL: Duration = Duration::from_millis(20);
/// What a sluiced gets after SIGTERM before SIGKILL.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// Lines of a log that are shown when a sluiced fails.
const LOG_LINES: usize = 15;

/// The hidden arguments with which the program starts itself: the command that mounts [`crate::LabArguments`] is `lab`.
/// `claimant` is the pid of whoever brings the lab up.
pub(crate) fn arguments(step: &str, state: &StateDirectory, claimant: i32) -> Vec<String> {
    let state = state.path().display().to_string();
    ["lab", step, &state, &claimant.to_string()].map(String::from).to_vec()
}

/// First step: new namespaces, and init in them.
pub(crate) fn launch(state: &StateDirectory, claimant: i32) -> Result<()> {
    // Away from the caller's terminal, whose Ctrl-C is not for the lab. Fails for a session leader, which is away already.
    let _ = setsid();
    let user_namespace = match namespaces::enter_new_lab() {
        Ok(user_namespace) => user_namespace,
        Err(error) => return Event::Failed { why: error.to_string() }.tell(),
    };
    // Nothing is written to the directory here: this process is not recorded, so `down` could not wait for it.
    let mut init = Command::new("/proc/self/exe");
    init.arg0("sluice").args(arguments("run-init", state, claimant)).stdin(Stdio::null()).current_dir("/");
    init.args(user_namespace.then_some("--user-namespace"));
    init.spawn().doing(|| "starting the lab's init".into())?;
    Ok(())
}

/// Second step: PID 1. Returns when the lab was told to end; the process must end then.
pub(crate) fn run(state: &StateDirectory, claimant: i32, user_namespace: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .doing(|| "starting init".into())?;
    runtime.block_on(async {
        // A PID 1 without a handler would not see SIGTERM, and from its record on it must.
        let terminate = signal(SignalKind::terminate()).doing(|| "watching for SIGTERM".into())?;
        let child = signal(SignalKind::child()).doing(|| "watching for ended processes".into())?;
        // Before anything is made, so that whatever is made can be found.
        state.record_init(claimant)?;
        let result = Init::new(state, user_namespace)?.live(terminate, child).await;
        if let Err(error) = &result {
            // When nobody listens any more, the log still has it.
            let _ = Event::Failed { why: error.to_string() }.tell();
        }
        result
    })
}

struct Init<'a> {
    state: &'a StateDirectory,
    topology: Topology,
    settings: Settings,
    status: Status,
    /// In the order of the topology's nodes.
    namespaces: Vec<NodeNamespaces>,
}

impl<'a> Init<'a> {
    fn new(state: &'a StateDirectory, user_namespace: bool) -> Result<Self> {
        let lost =
            |file: &str| LabError::Step(format!("{} is missing or unreadable", state.file(file).display()));
        let path = state.file("topology.yaml").display().to_string();
        Ok(Self {
            state,
            topology: Topology::load(&path)?,
            settings: state.read("settings.json").ok_or_else(|| lost("settings.json"))?,
            status: Status { user_namespace, ..Status::default() },
            namespaces: Vec::new(),
        })
    }

    async fn live(mut self, mut terminate: Watch, mut child: Watch) -> Result<()> {
        self.build()?;
        let (mut terminated, result) = tokio::select! {
            result = self.wait_for_daemons() => (false, result),
            _ = terminate.recv() => (true, Ok(())),
        };
        result?;
        if !terminated {
            self.status.ready = true;
            self.save()?;
            Event::Ready.tell()?;
            // The one who brought the lab up reads to the end of the events and goes on.
            let null = File::options().write(true).open("/dev/null").doing(|| "opening /dev/null".into())?;
            dup2_stdout(null).doing(|| "closing the events".into())?;
        }
        while !terminated {
            tokio::select! {
                _ = child.recv() => self.reap()?,
                _ = terminate.recv() => terminated = true,
            }
        }
        self.stop(&mut child).await
    }

    /// Namespaces, links and processes.
    fn build(&mut self) -> Result<()> {
        namespaces::prepare_mounts()?;
        let count = self.topology.nodes.len();
        Event::Step { what: format!("creating {count} nodes and {} links", self.topology.links.len()) }
            .tell()?;
        for node in &self.topology.nodes {
            let namespaces = NodeNamespaces::create()?;
            self.status.namespaces.insert(node.name.clone(), namespaces.files());
            self.namespaces.push(namespaces);
        }
        self.save()?;
        network::build(&self.topology, &self.namespaces, ProcessIdentity::of_self()?)?;
        if self.topology.daemons().next().is_none() {
            return Ok(());
        }
        let (kind, why) = probe::port_kind(self.settings.port_kind, &self.state.path());
        self.status.port_kind = Some((kind, why));
        for (node, namespaces) in self.topology.nodes.iter().zip(&self.namespaces) {
            let Some(document) = &node.document else { continue };
            Event::Step { what: format!("starting sluiced of {} on {} ports", node.name, kind.as_str()) }
                .tell()?;
            let inner_pid = self.start(node, document, kind, namespaces)?;
            self.status.daemons.push(DaemonStatus { node: node.name.clone(), inner_pid, ended: None });
        }
        self.save()
    }

    /// Starts sluiced in its node; its pid in the lab.
    fn start(
        &self,
        node: &Node,
        document: &Map<String, Value>,
        kind: PortKind,
        namespaces: &NodeNamespaces,
    ) -> Result<i32> {
        let path = self.state.file("nodes").join(format!("{}.yaml", node.name));
        let text = serde_saphyr::to_string(&with_port_kind(document, kind)).map_err(|error| {
            LabError::Step(format!("writing the document of node {}: {error}", node.name))
        })?;
        fs::write(&path, text).doing(|| format!("writing {}", path.display()))?;
        let Some(sluiced) = &self.settings.sluiced else {
            return Err(LabError::Step("the settings name no sluiced program".into()));
        };
        let log = File::create(self.state.log(&node.name))
            .doing(|| format!("creating the log of {}", node.name))?;
        let errors = log.try_clone().doing(|| format!("opening the log of {}", node.name))?;
        let mut command = Command::new(sluiced);
        command.arg("--config").arg(&path).arg("--socket").arg(self.state.socket(&node.name));
        // Every interface of a lab has one XDP program; libxdp's dispatcher of several, which not every kernel loads, would only fill
        // the log with its failures.
        command.env("LIBXDP_SKIP_DISPATCHER", "1");
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = namespaces.inside(move || {
            command.spawn().doing(|| format!("starting {}", command.get_program().display()))
        })?;
        // Not waited for here: init reaps every process of the lab in one place.
        Ok(child.id().cast_signed())
    }

    /// Waits until every sluiced answers on its socket.
    async fn wait_for_daemons(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_millis(self.settings.ready_timeout_ms);
        for index in 0..self.status.daemons.len() {
            let node = self.status.daemons[index].node.clone();
            Event::Step { what: format!("waiting for sluiced of {node}") }.tell()?;
            let waited = timeout_at(deadline, self.wait_for(&node)).await;
            let why = match waited {
                Ok(None) => continue,
                Ok(Some(why)) => why,
                Err(_) => {
                    format!("did not answer on its socket within {} ms", self.settings.ready_timeout_ms)
                }
            };
            let log = last_lines(&self.state.log(&node));
            return Err(LabError::Step(format!("sluiced of node {node} {why}; its last words:\n{log}")));
        }
        Ok(())
    }

    /// None once the node answers, which it does when its ports are open; how it ended when its process did before.
    async fn wait_for(&mut self, node: &str) -> Option<String> {
        let socket = self.state.socket(node);
        let mut again = interval(CONNECT_INTERVAL);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            again.tick().await;
            if answers(&socket).await.is_ok() {
                return None;
            }
            // A status that cannot be saved shows again when everything is ready.
            let _ = self.reap();
            let daemon = self.status.daemons.iter().find(|daemon| daemon.node == node);
            if let Some(ended) = daemon.and_then(|daemon| daemon.ended.clone()) {
                return Some(ended);
            }
        }
    }

    /// Collects every process that has ended, also those whose parents ended before them.
    fn reap(&mut self) -> Result<()> {
        let mut ended = HashMap::new();
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => {
                    ended.insert(pid.as_raw(), format!("ended with code {code}"))
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    ended.insert(pid.as_raw(), format!("was ended by {signal}"))
                }
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => break,
                Ok(_) | Err(Errno::EINTR) => None,
                Err(error) => return Err(error).doing(|| "waiting for processes of the lab".into()),
            };
        }
        let mut changed = false;
        for daemon in &mut self.status.daemons {
            if let Some(how) = ended.remove(&daemon.inner_pid).filter(|_| daemon.ended.is_none()) {
                daemon.ended = Some(how);
                changed = true;
            }
        }
        if changed { self.save() } else { Ok(()) }
    }

    /// SIGTERM to every sluiced, SIGKILL to those that still run five seconds later. Whatever else runs dies with init.
    async fn stop(mut self, child: &mut Watch) -> Result<()> {
        let deadline = Instant::now() + STOP_PATIENCE;
        self.signal_running(Signal::SIGTERM);
        while self.running().next().is_some() {
            if timeout_at(deadline, child.recv()).await.is_err() {
                self.signal_running(Signal::SIGKILL);
                break;
            }
            self.reap()?;
        }
        Ok(())
    }

    fn running(&self) -> impl Iterator<Item = &DaemonStatus> {
        self.status.daemons.iter().filter(|daemon| daemon.ended.is_none())
    }

    /// Init has not waited for these, so their pids are still theirs.
    fn signal_running(&self, signal: Signal) {
        for daemon in self.running() {
            let _ = kill(Pid::from_raw(daemon.inner_pid), signal);
        }
    }

    fn save(&self) -> Result<()> {
        self.state.write("status.json", &self.status)
    }
}

/// Asks a node who it is and waits for the answer, whatever it says.
async fn answers(socket: &Path) -> io::Result<()> {
    let mut request = serde_json::to_vec(&Request::GetStatus)?;
    request.push(b'\n');
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(&request).await?;
    match BufReader::new(stream).read_until(b'\n', &mut Vec::new()).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// The end of a log, for an error message.
fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    match &lines[lines.len().saturating_sub(LOG_LINES)..] {
        [] => "  (it wrote nothing)".into(),
        last => last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_log_is_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), (1..=100).map(|n| format!("line {n}\n")).collect::<String>()).unwrap();
        let shown = last_lines(file.path());
        assert!(shown.starts_with("  line 86\n") && shown.ends_with("  line 100"), "{shown}");
    }
}
