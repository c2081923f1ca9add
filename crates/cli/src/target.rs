//! Which node is asked: the socket that was named, or the only one whose socket is in the run directory.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use sluice_control::{Answer, Client, Request, default_socket, run_directory};

use crate::arguments::NodeArguments;
use crate::error::CliError;

/// Environment variable that names the socket.
const SOCKET_VARIABLE: &str = "SLUICE_SOCKET";

/// A node, found anew for each request, so that a restart of it is not noticed.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    arguments: NodeArguments,
}

impl Target {
    pub(crate) fn new(arguments: NodeArguments) -> Self {
        Self { arguments }
    }

    /// Connects to the node.
    pub(crate) fn connect(&self) -> Result<Client, CliError> {
        Ok(Client::connect(&self.socket()?)?)
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
            if name.is_empty() || name.contains('/') {
                return Err(CliError::usage(format!(
                    "'{name}' is no name of a node; give a path with --socket instead"
                )));
            }
            return Ok(default_socket(name));
        }
        match std::env::var_os(SOCKET_VARIABLE) {
            Some(socket) if !socket.is_empty() => Ok(socket.into()),
            _ => only_socket(&run_directory()),
        }
    }
}

/// The only socket of the directory that somebody listens on.
fn only_socket(directory: &Path) -> Result<PathBuf, CliError> {
    let sockets = sockets(directory).map_err(|source| {
        CliError::system(format!("cannot look for nodes in {}", directory.display()), source)
    })?;
    if let [only] = sockets.as_slice() {
        return Ok(only.clone());
    }
    let alive: Vec<_> = sockets.iter().filter(|socket| listens(socket)).cloned().collect();
    match alive.as_slice() {
        [only] => Ok(only.clone()),
        [] if sockets.is_empty() => Err(CliError::NoNode(directory.to_owned())),
        [] => Err(CliError::NobodyListens(directory.display().to_string())),
        several => {
            let names: Vec<_> = several.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
            Err(CliError::SeveralNodes(names.join(", ")))
        }
    }
}

/// The control sockets in a directory, by name. A directory that is not there holds none.
fn sockets(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut sockets = Vec::new();
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "sock") && entry.file_type()?.is_socket() {
            sockets.push(path);
        }
    }
    sockets.sort();
    Ok(sockets)
}

/// Whether a socket is not just what a node that died left behind. One that must not be opened belongs to a living node.
fn listens(socket: &Path) -> bool {
    match UnixStream::connect(socket) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::ConnectionRefused,
    }
}
