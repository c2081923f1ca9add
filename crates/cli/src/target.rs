//! Which node is asked: the socket that was named, the node of the name that was given, or the only one that runs.
//!
//! Nodes are found by their sockets: `NAME.sock` in the run directory, and `LAB/run/NAME.sock` in the directory of the labs.

use std::fs::{DirEntry, metadata, read_dir};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use sluice_control::{Answer, Client, Request, is_alive, run_directory};

use crate::arguments::NodeArguments;
use crate::error::CliError;

/// Environment variable that names the socket.
const SOCKET_VARIABLE: &str = "SLUICE_SOCKET";

/// A node, found anew for each request, so that a restart of it is not noticed.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    arguments: NodeArguments,
}

/// A socket that is a node's, or was.
#[derive(Clone, Debug)]
struct Found {
    lab: Option<String>,
    name: String,
    socket: PathBuf,
}

impl Found {
    /// As `--node` takes it.
    fn label(&self) -> String {
        match &self.lab {
            Some(lab) => format!("{lab}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl Target {
    pub(crate) fn new(arguments: NodeArguments) -> Self {
        Self { arguments }
    }

    /// Connects to the node.
    pub(crate) fn connect(&self) -> Result<Client, CliError> {
        Ok(Client::connect_within(&self.socket()?, self.arguments.timeout())?)
    }

    /// Asks the node on a connection of its own.
    pub(crate) fn ask(&self, request: &Request) -> Result<Answer, CliError> {
        Ok(self.connect()?.ask(request)?)
    }

    fn socket(&self) -> Result<PathBuf, CliError> {
        if let Some(socket) = &self.arguments.socket {
            return Ok(socket.clone());
        }
        if let Some(name) = &self.arguments.name {
            return named(name);
        }
        match std::env::var_os(SOCKET_VARIABLE) {
            Some(socket) if !socket.is_empty() => Ok(socket.into()),
            _ => only(),
        }
    }
}

/// The socket of the node of this name, which may have that of its lab before it.
fn named(label: &str) -> Result<PathBuf, CliError> {
    let (lab, name) = label.split_once('/').map_or((None, label), |(lab, name)| (Some(lab), name));
    let plain = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains('/');
    if !plain(name) || !lab.is_none_or(plain) {
        return Err(CliError::usage(format!(
            "'{label}' is no name of a node, which is NAME or LAB/NAME; give a path with --socket instead"
        )));
    }
    let mut found = nodes()?;
    let known = found.clone();
    found.retain(|node| node.name == name && (lab.is_none() || node.lab.as_deref() == lab));
    match choose(&found) {
        Choice::One(socket) => Ok(socket),
        Choice::None => Err(CliError::NoNodeOfName { name: label.to_owned(), known: labels(&alive(&known)) }),
        Choice::Several(several) => {
            let way = |node: &Found| match node.lab {
                Some(_) => format!("--node {}", node.label()),
                None => format!("--socket {}", node.socket.display()),
            };
            let ways = several.iter().map(way).collect::<Vec<_>>().join(", ");
            Err(CliError::SeveralOfName { name: name.to_owned(), ways })
        }
    }
}

/// The socket of the only node that runs.
fn only() -> Result<PathBuf, CliError> {
    let found = nodes()?;
    match choose(&found) {
        Choice::One(socket) => Ok(socket),
        Choice::None if found.is_empty() => Err(CliError::NoNode(run_directory())),
        Choice::None => Err(CliError::NobodyListens(labels(&found))),
        Choice::Several(several) => Err(CliError::SeveralNodes(labels(&several))),
    }
}

enum Choice {
    None,
    One(PathBuf),
    Several(Vec<Found>),
}

/// The only one, or the only one of which somebody listens.
fn choose(found: &[Found]) -> Choice {
    if let [only] = found {
        return Choice::One(only.socket.clone());
    }
    let alive = alive(found);
    match alive.as_slice() {
        [] => Choice::None,
        [only] => Choice::One(only.socket.clone()),
        _ => Choice::Several(alive),
    }
}

fn alive(found: &[Found]) -> Vec<Found> {
    found.iter().filter(|node| is_alive(&node.socket)).cloned().collect()
}

fn labels(found: &[Found]) -> String {
    found.iter().map(Found::label).collect::<Vec<_>>().join(", ")
}

/// Every node that has a socket: those of the run directory, then those of labs.
fn nodes() -> Result<Vec<Found>, CliError> {
    let directory = run_directory();
    let mut all = nodes_in(&directory, None).map_err(|source| {
        CliError::system(format!("cannot look for nodes in {}", directory.display()), source)
    })?;
    for labs in lab_directories() {
        let mut names: Vec<String> = entries(&labs)
            .unwrap_or_default()
            .iter()
            .filter_map(|lab| lab.file_name().into_string().ok())
            .collect();
        names.sort();
        for lab in names {
            // A lab that goes down right now is no error.
            all.extend(nodes_in(&labs.join(&lab).join("run"), Some(&lab)).unwrap_or_default());
        }
    }
    Ok(all)
}

/// Where labs have their directories: those of root, and those of this user, or of every user for root; only below the run directory where
/// that is named.
fn lab_directories() -> Vec<PathBuf> {
    let mut all = vec![run_directory().join("lab")];
    if std::env::var_os("SLUICE_RUN_DIR").is_some() {
        return all;
    }
    let user = metadata("/proc/self").map_or(0, |process| process.uid());
    let sessions = if user == 0 {
        let sessions = entries(Path::new("/run/user")).unwrap_or_default();
        sessions.iter().map(DirEntry::path).collect()
    } else {
        let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        vec![named.unwrap_or_else(|| PathBuf::from(format!("/run/user/{user}")))]
    };
    all.extend(sessions.iter().map(|session| session.join("sluice/lab")));
    all
}

/// The nodes whose control sockets are in a directory, by name.
fn nodes_in(directory: &Path, lab: Option<&str>) -> io::Result<Vec<Found>> {
    let mut nodes = Vec::new();
    for entry in entries(directory)? {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "sock")
            && entry.file_type()?.is_socket()
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            nodes.push(Found { lab: lab.map(str::to_owned), name: name.to_owned(), socket: path });
        }
    }
    nodes.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(nodes)
}

/// What is in a directory. One that is not there holds nothing.
fn entries(directory: &Path) -> io::Result<Vec<DirEntry>> {
    match read_dir(directory) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
