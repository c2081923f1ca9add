//! What can go wrong, each in one sentence that says what to do next, and the exit code that tells it to scripts.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use sluice_control::ClientError;
use sluice_intent::problem::Problems;

/// Exit code of what was refused or failed.
const FAILED: u8 = 1;
/// Exit code of wrong usage.
const USAGE: u8 = 2;

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// What was typed means nothing.
    #[error("{0}")]
    Usage(String),
    /// No command of that name.
    #[error("Command not found: '{typed}'{}; 'help' lists the commands", nearest.as_ref().map_or(String::new(), |nearest| format!("; the nearest is '{nearest}'")))]
    CommandNotFound {
        /// What was typed, as far as it was read.
        typed: String,
        /// The command that looks most like it.
        nearest: Option<String>,
    },
    /// There is no socket.
    #[error(
        "no node runs here: there is no control socket in {0}, and no lab is up; start one with 'sluiced --config FILE', or name a socket with --socket"
    )]
    NoNode(PathBuf),
    /// There are sockets, and nobody listens on any.
    #[error(
        "no node runs here: nobody listens on the control sockets of {0}; start one with 'sluiced --config FILE'"
    )]
    NobodyListens(String),
    /// There is more than one node.
    #[error("several nodes run here: {0}; say which with --node NAME")]
    SeveralNodes(String),
    /// No node of the name.
    #[error(
        "no node '{name}' runs here, {}; start one with 'sluiced --config FILE', or name a socket with --socket",
        if known.is_empty() { "nor any other".to_owned() } else { format!("only {known}") }
    )]
    NoNodeOfName {
        /// What was asked for.
        name: String,
        /// The nodes that run.
        known: String,
    },
    /// Nodes of several labs have the name.
    #[error("several nodes are called '{name}'; say which with one of {ways}")]
    SeveralOfName {
        /// The name.
        name: String,
        /// How to name each.
        ways: String,
    },
    /// The node gave no answer.
    #[error(transparent)]
    Node(#[from] ClientError),
    /// The node answered something else.
    #[error("the node answered another question than it was asked; use the sluice that came with it")]
    OtherAnswer,
    /// The node has no gateway with this VRF.
    #[error("there is no VRF {vrf}; the node has {}", if known.is_empty() { "no gateways" } else { known })]
    NoVrf {
        /// What was asked for.
        vrf: u16,
        /// The VRFs that there are.
        known: String,
    },
    /// The document is wrong in at least one place. A line for each problem, so that editors find the places.
    #[error("{file} is not valid; to be changed:\n{0}", file = .0.file())]
    Document(Problems),
    /// The document cannot be read.
    #[error("{file} cannot be read: {source}; name a node document, or - for standard input")]
    ReadDocument {
        /// Its name.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A capture would replace a file.
    #[error("{0} is there already; name another file, or add --overwrite to replace it")]
    FileExists(PathBuf),
    /// The user did not agree.
    #[error("not restarted")]
    NotConfirmed,
    /// An operation of the system failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A lab could not do it.
    #[error(transparent)]
    Lab(#[from] sluice_lab::LabError),
    /// A measurement could not be made.
    #[error(transparent)]
    Bench(#[from] sluice_bench::BenchError),
}

impl CliError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> Self {
        Self::System { what: what.into(), source }
    }

    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_)
            | Self::CommandNotFound { .. }
            | Self::SeveralNodes(_)
            | Self::SeveralOfName { .. } => USAGE,
            _ => FAILED,
        }
    }

    /// Tells it on standard error, after `error:`, or after `%` where nobody answers to the words.
    pub(crate) fn tell(&self) {
        match self {
            Self::CommandNotFound { .. } => tell("%", self),
            _ => tell("error:", self),
        }
    }

    /// Tells it in the shell, after `%` like the node CLI.
    pub(crate) fn tell_in_shell(&self) {
        tell("%", self);
    }
}

fn tell(mark: &str, message: &impl Display) {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    anstream::eprintln!("{style}{mark}{style:#} {message}");
}
