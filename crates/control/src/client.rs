//! A blocking client of the control socket.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::{Answer, Reply, Request};

/// Why a node gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no node answers on {path}: {source}; start one with 'sluiced --config FILE', or name another socket with --socket"
    )]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the node closed the connection: {0}; its log says why")]
    Closed(std::io::Error),
    /// The node speaks another version of the protocol.
    #[error("the node's answer could not be read: {0}; use the sluice that came with it")]
    Answer(serde_json::Error),
    /// The node refused.
    #[error("{0}")]
    Refused(String),
}

/// Directory of the control sockets: `$SLUICE_RUN_DIR`, otherwise `/run/sluice`.
pub fn run_directory() -> PathBuf {
    std::env::var_os("SLUICE_RUN_DIR").map_or_else(|| PathBuf::from("/run/sluice"), PathBuf::from)
}

/// The socket of the node with this name.
pub fn default_socket(node: &str) -> PathBuf {
    run_directory().join(format!("{node}.sock"))
}

/// A connection to a node.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the socket of a node.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path)
            .map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, request: &Request) -> Result<Answer, ClientError> {
        let mut line = serde_json::to_string(request).map_err(ClientError::Answer)?;
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).map_err(ClientError::Closed)?;
        let mut reply = String::new();
        let read = self.stream.read_line(&mut reply).map_err(ClientError::Closed)?;
        if read == 0 {
            return Err(ClientError::Closed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        match serde_json::from_str(&reply).map_err(ClientError::Answer)? {
            Reply::Answer(answer) => Ok(answer),
            Reply::Error(message) => Err(ClientError::Refused(message)),
        }
    }

    /// What ends this client's requests while another thread waits in [`Client::ask`].
    ///
    /// # Errors
    ///
    /// The system has no file descriptor left.
    pub fn requests_end(&self) -> std::io::Result<RequestsEnd> {
        self.stream.get_ref().try_clone().map(RequestsEnd)
    }
}

/// The sending side of a connection, from [`Client::requests_end`].
#[derive(Debug)]
pub struct RequestsEnd(UnixStream);

impl RequestsEnd {
    /// Closes the sending side of the connection: nothing more will be asked, and a running capture ends with its answer.
    ///
    /// # Errors
    ///
    /// The connection is closed already.
    pub fn close(&self) -> std::io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}
