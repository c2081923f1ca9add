//! A blocking client of the control socket. Nothing it does lasts longer than its timeout, except a capture.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::{Answer, Reply, Request};

/// How long a node gets for an answer if nobody says otherwise: far more than any takes, so that one that is stuck is told apart.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

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
        source: io::Error,
    },
    /// A node listens, and this user may not use its socket.
    #[error(
        "this user may not use the control socket {path}; run the command as root, or as the user or in the group that the socket belongs to"
    )]
    Permission {
        /// The socket.
        path: PathBuf,
    },
    /// Somebody listens and does not answer in time.
    #[error(
        "the node on {path} did not answer within {} s; look whether its process still runs and what its log says, or wait longer with \
         --timeout", timeout.as_secs_f64()
    )]
    Timeout {
        /// The socket.
        path: PathBuf,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// The connection broke.
    #[error("the node closed the connection: {0}; its log says why")]
    Closed(io::Error),
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

/// Whether a socket is not just what a node that died left behind. One that must not be opened, or that has no room for another connection,
/// belongs to a living node. Never waits.
pub fn is_alive(socket: &Path) -> bool {
    let attempt = || {
        let socket_of_node = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket_of_node.set_nonblocking(true)?;
        socket_of_node.connect(&SockAddr::unix(socket)?)
    };
    match attempt() {
        Ok(()) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound),
    }
}

/// A connection to a node.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    path: PathBuf,
    timeout: Duration,
}

impl Client {
    /// Connects to the socket of a node, with [`DEFAULT_TIMEOUT`].
    ///
    /// # Errors
    ///
    /// As of [`Client::connect_within`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        Self::connect_within(path, DEFAULT_TIMEOUT)
    }

    /// Connects to the socket of a node. `timeout`, more than 0, is for connecting, and then for each request from its first byte to the
    /// last of its answer.
    ///
    /// # Errors
    ///
    /// [`ClientError::Connect`] where nobody listens, [`ClientError::Permission`] where the user may not, [`ClientError::Timeout`] where somebody does and takes no connection.
    pub fn connect_within(path: &Path, timeout: Duration) -> Result<Self, ClientError> {
        let connected = || {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            // On Linux it limits connecting as well (unix(7) waits for room in the queue of connections).
            socket.set_write_timeout(Some(timeout))?;
            socket.connect(&SockAddr::unix(path)?)?;
            Ok(socket)
        };
        match connected() {
            Ok(socket) => {
                Ok(Self { stream: BufReader::new(UnixStream::from(socket)), path: path.to_owned(), timeout })
            }
            Err(error) if is_timeout(&error) => Err(ClientError::Timeout { path: path.to_owned(), timeout }),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Err(ClientError::Permission { path: path.to_owned() })
            }
            Err(source) => Err(ClientError::Connect { path: path.to_owned(), source }),
        }
    }

    /// Asks, and waits for the answer. That of a capture comes when it ends, and is waited for without a limit.
    ///
    /// # Errors
    ///
    /// [`ClientError::Timeout`], after which the connection is of no more use; a node that breaks off; what the node refuses.
    pub fn ask(&mut self, request: &Request) -> Result<Answer, ClientError> {
        let end = Instant::now() + self.timeout;
        let mut line = serde_json::to_string(request).map_err(ClientError::Answer)?;
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).map_err(|error| self.broken(error))?;
        let end = (!matches!(request, Request::StartCapture { .. })).then_some(end);
        let reply = self.read_line(end).map_err(|error| self.broken(error))?;
        match serde_json::from_slice(&reply).map_err(ClientError::Answer)? {
            Reply::Answer(answer) => Ok(answer),
            Reply::Error(message) => Err(ClientError::Refused(message)),
        }
    }

    /// What ends this client's requests while another thread waits in [`Client::ask`].
    ///
    /// # Errors
    ///
    /// The system has no file descriptor left.
    pub fn requests_end(&self) -> io::Result<RequestsEnd> {
        self.stream.get_ref().try_clone().map(RequestsEnd)
    }

    /// The bytes up to the end of the line, however small the pieces are in which they come.
    fn read_line(&mut self, end: Option<Instant>) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.get_ref().set_read_timeout(left)?;
            let bytes = match self.stream.fill_buf() {
                Ok([]) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let newline = bytes.iter().position(|byte| *byte == b'\n');
            let used = newline.map_or(bytes.len(), |position| position + 1);
            line.extend_from_slice(&bytes[..used]);
            self.stream.consume(used);
            if newline.is_some() {
                return Ok(line);
            }
        }
    }

    fn broken(&self, error: io::Error) -> ClientError {
        if is_timeout(&error) {
            ClientError::Timeout { path: self.path.clone(), timeout: self.timeout }
        } else {
            ClientError::Closed(error)
        }
    }
}

/// A timeout of a socket is told as an operation that would wait.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
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
    pub fn close(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use std::os::unix::net::UnixListener;

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);

    fn assert_times_out(result: Result<impl std::fmt::Debug, ClientError>, path: &Path) {
        let said = result.unwrap_err().to_string();
        let expected =
            format!("the node on {} did not answer within 0.2 s; look whether its process", path.display());
        assert!(said.starts_with(&expected), "{said}");
    }

    #[test]
    fn a_node_that_is_silent_or_slow_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = Client::connect_within(&path, SHORT).unwrap();
        assert_times_out(client.ask(&Request::GetStatus), &path);

        // Bytes that come all the time do not make it wait longer.
        let mut client = Client::connect_within(&path, SHORT).unwrap();
        let _silent = listener.accept().unwrap();
        let (mut slow, _) = listener.accept().unwrap();
        let (stop, stopped) = std::sync::mpsc::channel();
        let drip = std::thread::spawn(move || {
            let pause = SHORT / 10;
            while stopped.recv_timeout(pause) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = slow.write_all(b" ");
            }
        });
        assert_times_out(client.ask(&Request::GetStatus), &path);
        stop.send(()).unwrap();
        drip.join().unwrap();
    }

    #[test]
    fn a_request_that_nobody_reads_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let mut client = Client::connect_within(&path, SHORT).unwrap();
        let document = "#".repeat(16 << 20);
        assert_times_out(client.ask(&Request::Apply { document, file: "large.yaml".into() }), &path);
    }

    #[test]
    fn a_node_that_takes_no_connection_is_given_up_and_counts_as_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.sock");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            match Client::connect_within(&path, SHORT) {
                Ok(client) => waiting.push(client),
                Err(error) => break error,
            }
            assert!(waiting.len() < 10, "a queue of none has little room");
        };
        assert_times_out(Err::<(), _>(refused), &path);
        assert!(is_alive(&path));
        drop(listener);
        assert!(!is_alive(&path), "what is left of a node is not alive");
        assert!(!is_alive(&folder.path().join("none.sock")));
        assert!(matches!(Client::connect(&path), Err(ClientError::Connect { .. })));
    }
}
