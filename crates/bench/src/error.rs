//! What can go wrong in a bench, each in one sentence.

use std::path::PathBuf;

/// An error of a bench.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A program is missing.
    #[error("the program {name} was found neither beside {beside} nor in PATH: {remedy}")]
    NoProgram {
        /// The program.
        name: &'static str,
        /// Where the running program is.
        beside: PathBuf,
        /// What to do.
        remedy: &'static str,
    },
    /// Something of the system failed.
    #[error("{action} failed: {source}")]
    System {
        /// What was done.
        action: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A process that was started ended or did not do its part.
    #[error("{process}: {reason}{log}")]
    Process {
        /// The process.
        process: &'static str,
        /// What happened.
        reason: String,
        /// The end of its log, on lines of its own; empty if there is none.
        log: String,
    },
    /// The node's control socket.
    #[error(transparent)]
    Control(#[from] sluice_control::ClientError),
    /// The node's document.
    #[error("the bench's node document: {0}")]
    Document(String),
    /// Arguments that contradict what can be done.
    #[error("{0}")]
    Arguments(String),
    /// Sizes that no frame has.
    #[error(transparent)]
    FrameSizes(#[from] crate::frame_sizes::FrameSizesError),
    /// Numbers that no line has.
    #[error(transparent)]
    LineRate(#[from] crate::line_rate::LineRateError),
    /// A search without a result.
    #[error("{0}")]
    Search(String),
    /// Frames that cannot be sent.
    #[error(transparent)]
    Traffic(#[from] sluice_trial::traffic::TrafficError),
    /// Too few cores.
    #[error(
        "core {core} cannot be used: the generator and what is measured need cores of their own that exist; name them with --generator-cores and --device-cores"
    )]
    Core {
        /// The core.
        core: u16,
    },
    /// Another number of ports than a topology needs.
    #[error(
        "this needs {} uplinks and {} downlinks; for the {end} {} and {} were named", needed.0, needed.1, named.0, named.1
    )]
    Ports {
        /// Whose ports.
        end: &'static str,
        /// Uplinks and downlinks that are needed.
        needed: (usize, usize),
        /// Uplinks and downlinks that were named.
        named: (usize, usize),
    },
    /// The node took too long to swap documents.
    #[error(
        "only {swaps} documents were in force in time in {rounds} trials: let the trials last longer with --trial-ms"
    )]
    TooFewSwaps {
        /// Documents that were.
        swaps: usize,
        /// Trials.
        rounds: usize,
    },
    /// The lab that something is measured in.
    #[error(transparent)]
    Lab(#[from] sluice_lab::LabError),
    /// A file of captured frames.
    #[error("the capture {path}: {reason}")]
    Capture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A report cannot be written or read.
    #[error(transparent)]
    Report(#[from] crate::report::FileError),
    /// Reports that cannot be compared.
    #[error(transparent)]
    Compare(#[from] crate::report::compare::DifferentScenarios),
    /// SIGINT or SIGTERM came.
    #[error("interrupted: everything that was started has been ended")]
    Interrupted,
}

/// Result of the bench.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Says during what an operation of the system failed.
pub(crate) trait While<T> {
    fn during(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<std::io::Error>> While<T> for std::result::Result<T, E> {
    fn during(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| BenchError::System { action: action(), source: source.into() })
    }
}
