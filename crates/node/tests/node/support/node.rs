//! A running `sluiced`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_control::{
    Answer, Applied, Client, ClientError, FlowCacheStats, PhysicalPortStats, Request, Status,
};
use tempfile::TempDir;

use super::wait_for;

/// Answers that are one variant: the value in it.
macro_rules! answer {
    ($node:expr, $request:expr, $variant:ident) => {
        match $node.ask($request) {
            sluice_control::Answer::$variant(value) => value,
            other => panic!("asked for {}, and got {other:?}", stringify!($variant)),
        }
    };
}
pub(crate) use answer;

/// The program under test.
pub(crate) fn sluiced() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluiced"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).env_remove("SLUICE_LOG").env_remove("SLUICE_RUN_DIR");
    command
}

/// A node, killed when the test ends; its log is shown where the test fails.
pub(crate) struct Node {
    child: Child,
    folder: TempDir,
    /// How much is in its log.
    log: String,
}

/// Starts the node of the document in a folder.
fn launch(folder: &Path, log: &str) -> Child {
    let path = |name: &str| folder.join(name);
    let mut command = sluiced();
    command.env("SLUICE_LOG", log);
    command.arg("--config").arg(path("node.yaml")).arg("--socket").arg(path("node.sock"));
    command.stderr(File::create(path("log")).unwrap()).spawn().unwrap()
}

impl Node {
    /// Starts a node and waits until it answers.
    pub(crate) fn start(document: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("node.yaml"), document).unwrap();
        Self::start_in(folder)
    }

    /// Starts the node of the document `node.yaml` in a folder, with its socket and its log there.
    pub(crate) fn start_in(folder: TempDir) -> Self {
        Self::start_logging(folder, "info")
    }

    /// The same with this much in its log.
    pub(crate) fn start_logging(folder: TempDir, log: &str) -> Self {
        let mut node = Self::spawn(folder, log);
        node.wait_until_ready();
        node
    }

    /// Starts it and waits for nothing.
    pub(crate) fn spawn(folder: TempDir, log: &str) -> Self {
        let child = launch(folder.path(), log);
        Self { child, folder, log: log.to_owned() }
    }

    /// Waits until it answers.
    pub(crate) fn wait_until_ready(&mut self) {
        wait_for("the node's first answer", || {
            if let Some(ended) = self.child.try_wait().unwrap() {
                // The driver of packet sockets numbers groups of queues by process and interface, which two nodes of one network may then
                // share. The next process has another number.
                assert!(self.log().contains("could not set PACKET_FANOUT"), "the node ended: {ended:?}");
                self.child = launch(self.folder.path(), &self.log);
            }
            self.try_ask(&Request::GetStatus).ok()
        });
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder of its document.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn document(&self) -> PathBuf {
        self.folder().join("node.yaml")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder().join("node.sock")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder().join("log")).unwrap()
    }

    /// Asks over a connection of its own.
    pub(crate) fn try_ask(&self, request: &Request) -> Result<Answer, ClientError> {
        Client::connect(&self.socket())?.ask(request)
    }

    /// Asks what must be answered.
    pub(crate) fn ask(&self, request: &Request) -> Answer {
        self.try_ask(request).unwrap_or_else(|error| panic!("{request:?}: {error}"))
    }

    /// Asks what must be refused; returns the sentence.
    pub(crate) fn refused(&self, request: &Request) -> String {
        match self.try_ask(request) {
            Err(ClientError::Refused(sentence)) => sentence,
            other => panic!("{request:?} was not refused: {other:?}"),
        }
    }

    pub(crate) fn status(&self) -> Status {
        answer!(self, &Request::GetStatus, Status)
    }

    pub(crate) fn apply(&self, document: &str) -> Applied {
        answer!(self, &apply(document), Applied)
    }

    /// State of a port's link.
    pub(crate) fn link(&self, name: &str) -> String {
        let ports = answer!(self, &Request::GetPhysicalPorts, PhysicalPorts);
        ports.into_iter().find(|port| port.name == name).unwrap().link
    }

    pub(crate) fn wait_for_link(&self, name: &str, state: &str) {
        wait_for(&format!("the link of {name} to be {state}"), || (self.link(name) == state).then_some(()));
    }

    /// Packets dropped for a reason.
    pub(crate) fn drops(&self, reason: &str) -> u64 {
        let drops = answer!(self, &Request::GetDrops, Drops);
        drops.iter().find(|drop| drop.reason == reason).map_or(0, |drop| drop.packets)
    }

    pub(crate) fn port_statistics(&self, name: &str) -> PhysicalPortStats {
        answer!(self, &Request::GetPhysicalPortStats { name: name.into() }, PhysicalPortStats)
    }

    /// The flow cache of the only worker.
    pub(crate) fn flow_cache(&self) -> FlowCacheStats {
        let mut workers = answer!(self, &Request::GetFlowCacheStats, FlowCacheStats);
        assert_eq!(workers.len(), 1, "the tests' nodes have one worker");
        workers.remove(0)
    }

    /// Waits until the next hops of all tunnels are resolved.
    pub(crate) fn wait_for_tunnels(&self, mut meanwhile: impl FnMut()) {
        wait_for("tunnels to be up", || {
            meanwhile();
            let tunnels = answer!(self, &Request::GetTunnelPorts, TunnelPorts);
            (!tunnels.is_empty() && tunnels.iter().all(|tunnel| tunnel.state == "up")).then_some(())
        });
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid() as i32), signal).unwrap();
    }

    /// Ends the node as an operator does, and waits for it.
    pub(crate) fn terminate(&mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.wait_for_end()
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        wait_for("the node's end", || self.child.try_wait().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the node:\n{}", self.log());
        }
        // Ended already in tests of the end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The request for a document.
pub(crate) fn apply(document: &str) -> Request {
    Request::Apply { document: document.to_owned(), file: "new.yaml".to_owned() }
}
