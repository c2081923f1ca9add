//! The directory of one lab: who claimed it, the identity of its init, its topology, sockets and logs.
//!
//! ```text
//! /run/sluice/lab/NAME/          ($XDG_RUNTIME_DIR/sluice/lab/NAME for an ordinary user)
//!   claim.json       the process that brings the lab up
//!   init.json        pid and start time of the lab's init
//!   settings.json    what init was asked to do
//!   topology.yaml    the document
//!   status.json      written by init: state of each node, kind of the data path's ports
//!   init.log         standard error of init
//!   nodes/NODE.yaml  node documents as given to sluiced
//!   run/NODE.sock    control sockets
//!   log/NODE.log     output of sluiced
//! ```
//!
//! Every change of who owns the directory happens under a lock on its parent directory, held for moments, and by `down` until
//! init has ended.
//! Uses no port of the machine: everything that listens does so inside the lab's namespaces or on a socket in this directory.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result, While};
use crate::namespaces::NamespaceFiles;
use crate::process::ProcessIdentity;

/// Seconds that init gets for an orderly end: each sluiced may take five after SIGTERM.
const STOP_WAIT: Duration = Duration::from_secs(8);

/// The kind of the ports on which sluiced reaches the lab's veth interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum PortKind {
    /// AF_XDP sockets; need the right to load an XDP program.
    AfXdp,
    /// AF_PACKET sockets.
    AfPacket,
}

impl PortKind {
    /// As written in a node document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AfXdp => "af_xdp",
            Self::AfPacket => "af_packet",
        }
    }
}

/// Attempts to remove a directory into which somebody still writes.
const REMOVE_ATTEMPTS: usize = 100;

/// What init is asked to do, beside the topology.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The `sluiced` program; none when no node runs it.
    pub(crate) sluiced: Option<PathBuf>,
    /// Port kind that was asked for; none: probe.
    pub(crate) port_kind: Option<PortKind>,
    /// Milliseconds that all sluiced together get to answer on their sockets.
    pub(crate) ready_timeout_ms: u64,
}

/// What init says about the lab.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Status {
    /// Whether everything is built and every sluiced answered.
    pub(crate) ready: bool,
    /// Whether the lab has its own user namespace.
    pub(crate) user_namespace: bool,
    /// Kind of the data path's ports and why; none without sluiced nodes.
    pub(crate) port_kind: Option<(PortKind, String)>,
    /// Where the namespaces of each node are found, once they exist.
    pub(crate) namespaces: BTreeMap<String, NamespaceFiles>,
    /// The nodes that run sluiced.
    pub(crate) daemons: Vec<DaemonStatus>,
}

/// State of one sluiced.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DaemonStatus {
    /// Node name.
    pub(crate) node: String,
    /// Pid inside the lab's PID namespace.
    pub(crate) inner_pid: i32,
    /// How it ended, if it did.
    pub(crate) ended: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    by: ProcessIdentity,
}

/// The directory of one lab.
#[derive(Clone, Debug)]
pub(crate) struct StateDirectory {
    base: PathBuf,
    name: String,
}

impl StateDirectory {
    /// The directory of the lab of this name, of the calling user. Nothing is created.
    pub(crate) fn of(name: &str) -> Result<Self> {
        if !valid_name(name) {
            return Err(LabError::Name(name.into()));
        }
        Ok(Self { base: base()?, name: name.into() })
    }

    /// From its path, as init receives it.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        match (path.parent(), path.file_name().and_then(|name| name.to_str())) {
            (Some(base), Some(name)) if valid_name(name) => Ok(Self { base: base.into(), name: name.into() }),
            _ => Err(LabError::Name(path.display().to_string())),
        }
    }

    /// Name of the lab.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The directory itself.
    pub(crate) fn path(&self) -> PathBuf {
        self.base.join(&self.name)
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Control socket of a node's sluiced.
    pub(crate) fn socket(&self, node: &str) -> PathBuf {
        self.file("run").join(format!("{node}.sock"))
    }

    /// Log of a node's sluiced.
    pub(crate) fn log(&self, node: &str) -> PathBuf {
        self.file("log").join(format!("{node}.log"))
    }

    /// The lab's init, if it was recorded and runs.
    pub(crate) fn init(&self) -> Option<ProcessIdentity> {
        self.read::<ProcessIdentity>("init.json").filter(|init| init.is_alive())
    }

    /// Reads one of the directory's JSON files; none when it is absent or cut short by a crash.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&fs::read(self.file(name)).ok()?).ok()
    }

    /// Writes one of the directory's JSON files so that a reader sees the old or the new one.
    pub(crate) fn write<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        let (path, new) = (self.file(name), self.file(&format!("{name}.new")));
        let text = serde_json::to_vec(value).map_err(io::Error::from);
        text.and_then(|text| fs::write(&new, text))
            .and_then(|()| fs::rename(&new, &path))
            .doing(|| format!("writing {}", path.display()))
    }

    /// Takes the directory for a new lab; what a dead lab left behind is removed first.
    ///
    /// # Errors
    /// [`LabError::AlreadyUp`] when the lab runs or another process brings it up right now.
    pub(crate) fn claim(&self) -> Result<()> {
        let _lock = self.lock()?;
        if let Some(owner) = self.owner() {
            return Err(LabError::AlreadyUp(self.name.clone(), owner.pid));
        }
        self.remove()?;
        let path = self.path();
        let create = |path: &Path| DirBuilder::new().mode(0o755).create(path);
        create(&path).doing(|| format!("creating {}", path.display()))?;
        for directory in ["nodes", "run", "log"] {
            create(&path.join(directory)).doing(|| format!("creating {}/{directory}", path.display()))?;
        }
        self.write("claim.json", &Claim { by: ProcessIdentity::of_self()? })
    }

    /// Init records itself, only into a directory whose claimant still brings the lab up: after a `down` in between there is
    /// none, or another's.
    pub(crate) fn record_init(&self, claimant: i32) -> Result<()> {
        let _lock = self.lock()?;
        match self.read::<Claim>("claim.json") {
            Some(claim) if claim.by.pid == claimant && claim.by.is_alive() => {
                self.write("init.json", &ProcessIdentity::of_self()?)
            }
            _ => Err(LabError::NotUp(self.name.clone())),
        }
    }

    /// Ends the lab, whatever is left of it, and removes the directory. False when there was nothing.
    pub(crate) fn tear_down(&self) -> Result<bool> {
        if !self.path().exists() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        if let Some(init) = self.init() {
            init.end(STOP_WAIT)?;
        }
        self.remove()?;
        Ok(true)
    }

    /// The process that owns the directory: init, or before there is one, whoever brings the lab up.
    fn owner(&self) -> Option<ProcessIdentity> {
        self.init()
            .or_else(|| self.read::<Claim>("claim.json").map(|claim| claim.by).filter(|by| by.is_alive()))
    }

    /// Removes the directory. Whoever brings the lab up may still write into it until it finds itself without a claim, so a
    /// file that appears meanwhile is removed by another attempt.
    fn remove(&self) -> Result<()> {
        let attempt = || match fs::remove_dir_all(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        let mut result = attempt();
        for _ in 0..REMOVE_ATTEMPTS {
            if !matches!(&result, Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty) {
                break;
            }
            result = attempt();
        }
        result.doing(|| format!("removing {}", self.path().display()))
    }

    fn lock(&self) -> Result<File> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.base)
            .doing(|| format!("creating {}", self.base.display()))?;
        let base = File::open(&self.base).doing(|| format!("opening {}", self.base.display()))?;
        flock(&base, FlockOperation::LockExclusive).doing(|| format!("locking {}", self.base.display()))?;
        Ok(base)
    }
}

/// The labs of the calling user that have a directory, sorted.
pub(crate) fn all() -> Result<Vec<StateDirectory>> {
    let base = base()?;
    let mut labs: Vec<_> = match fs::read_dir(&base) {
        Ok(entries) => entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| valid_name(name))
            .map(|name| StateDirectory { base: base.clone(), name })
            .collect(),
        Err(_) => Vec::new(),
    };
    labs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(labs)
}

/// Whether a name can be that of a lab or a node: it becomes part of file names and of socket paths, which are short.
pub(crate) fn valid_name(name: &str) -> bool {
    name.len() <= 32
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// `/run/sluice/lab` for root, below `$XDG_RUNTIME_DIR` for anybody else.
fn base() -> Result<PathBuf> {
    let user = nix::unistd::geteuid();
    if user.is_root() {
        return Ok("/run/sluice/lab".into());
    }
    let from_session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let candidates = from_session.into_iter().chain([PathBuf::from(format!("/run/user/{user}"))]);
    candidates
        .filter(|path| path.is_absolute() && fs::metadata(path).is_ok_and(|m| m.uid() == user.as_raw()))
        .map(|path| path.join("sluice/lab"))
        .next()
        .ok_or(LabError::NoRuntimeDirectory)
}
