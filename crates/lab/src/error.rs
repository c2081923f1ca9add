//! What can go wrong in a lab, each said in one sentence (or, for a topology, one line for each problem).

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// An error of a lab.
#[derive(Debug, Error)]
pub enum LabError {
    /// The topology document is not right; every problem that was found is listed.
    #[error("the topology {origin} has {} problem(s):\n  {}", problems.len(), problems.join("\n  "))]
    Topology {
        /// Name or path of the document.
        origin: String,
        /// One sentence for each problem, opened by the path of the field.
        problems: Vec<String>,
    },
    /// The topology is neither built in nor a readable file.
    #[error("there is no topology '{0}': give one of {1}, or the path of a YAML file")]
    UnknownTopology(String, String),
    /// No directory for run-time state.
    #[error(
        "there is no directory for the lab's state: set XDG_RUNTIME_DIR to a directory of your own, or run as root"
    )]
    NoRuntimeDirectory,
    /// The name of a lab cannot be used.
    #[error("'{0}' cannot name a lab: use 1 to 32 of a-z, 0-9 and '-', and begin with a letter")]
    Name(String),
    /// A lab of that name runs already.
    #[error(
        "lab '{0}' is up already (process {1}); take it down with `sluice lab down --name {0}` or choose another --name"
    )]
    AlreadyUp(String, i32),
    /// No lab of that name runs.
    #[error("lab '{0}' is not up; `sluice lab up` brings it up")]
    NotUp(String),
    /// Several labs run and none was named.
    #[error("several labs are up ({0}): say which with --name")]
    Ambiguous(String),
    /// The lab has no such node.
    #[error("lab '{lab}' has no node '{node}'; its nodes are {nodes}")]
    UnknownNode {
        /// The lab.
        lab: String,
        /// What was asked for.
        node: String,
        /// What there is.
        nodes: String,
    },
    /// An interface whose frames the kernel does not receive.
    #[error(
        "{interface} of node '{node}' is a port of its data path, which receives before the kernel could lose anything; have the other end lose what \
         it receives ({other_end}), or name an interface of the kernel on the way here"
    )]
    DataPathInterface {
        /// The node.
        node: String,
        /// What was asked for.
        interface: String,
        /// The interface at the other end of its link, with its node.
        other_end: String,
    },
    /// The node has no such interface.
    #[error("node '{node}' has no interface '{interface}'; its interfaces are {interfaces}")]
    UnknownInterface {
        /// The node.
        node: String,
        /// What was asked for.
        interface: String,
        /// What there is.
        interfaces: String,
    },
    /// `sluiced` was not found.
    #[error(
        "the topology has nodes that run sluiced, and it was found neither beside {0} nor in PATH: build it, or give --sluiced PATH"
    )]
    NoNodeDaemon(PathBuf),
    /// Namespaces cannot be created here.
    #[error(
        "the kernel refused to create namespaces ({0}): run as root, or allow user namespaces to ordinary users (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
    )]
    Namespaces(nix::Error),
    /// The lab could not be built.
    #[error("lab '{lab}' could not be built: {message}")]
    Build {
        /// The lab.
        lab: String,
        /// What failed.
        message: String,
    },
    /// A process did not end although it was killed.
    #[error(
        "process {0} of the lab did not end within {1} s after SIGKILL; look at /proc/{0}/stack and run `sluice lab down` again"
    )]
    NotGone(i32, u64),
    /// A program failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Program {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// An operation of the system failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A SIGINT or SIGTERM arrived; everything was taken down.
    #[error("interrupted; the lab was taken down")]
    Interrupted,
    /// A step of the demonstration could not be judged.
    #[error("{0}")]
    Step(String),
}

/// Result of an operation of a lab.
pub type Result<T> = std::result::Result<T, LabError>;

/// Adds to an error of the system what was being done.
pub(crate) trait While<T> {
    /// Says what was being done; the closure runs only on failure.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> While<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| LabError::System { what: what(), source: error.into() })
    }
}
