//! The node daemon.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use sluice_dpdk::CountingAllocator;
use sluice_node::control::{Ended, Options, run};
use tracing_subscriber::EnvFilter;

/// Workers tell how often they allocate.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Runs one node of the overlay: a host, an edge or a branch, as its document says.
///
/// Ends on SIGTERM or SIGINT; takes the document again on SIGHUP. Talk to it with `sluice`.
#[derive(Parser)]
#[command(
    name = "sluiced",
    version,
    after_help = "Examples:\n  sluiced --config edge-1.yaml\n  sluiced --config edge-1.yaml --socket /tmp/edge-1.sock --log-format json\n\nEnvironment:\n  SLUICE_LOG      what is logged: error, warn, info (default), debug, trace, or a filter by target\n  SLUICE_RUN_DIR  where control sockets are made, /run/sluice by default"
)]
struct Arguments {
    /// The node document, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The control socket; by default the node's name in the run directory.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// How log lines are written to standard error.
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_env("SLUICE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr);
    match arguments.log_format {
        LogFormat::Text => log.with_target(false).init(),
        LogFormat::Json => log.json().init(),
    }
    if let Some(feature) = missing_feature() {
        eprintln!(
            "sluiced: this processor has no {feature}; sluiced is built for x86-64-v3 (Haswell, Zen and later)"
        );
        return ExitCode::FAILURE;
    }
    match run(&Options { config: arguments.config, socket: arguments.socket }) {
        Ok(Ended::InOrder) => ExitCode::SUCCESS,
        Ok(Ended::WithoutWorker(core)) => {
            eprintln!(
                "sluiced: a device holds up the worker on core {core}, which did not end; its ports were left as they are"
            );
            // The C library would wait for the file that the worker writes to.
            signal_hook::low_level::exit(1)
        }
        Err(error) => {
            eprintln!("sluiced: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The first of the instruction sets that the data path is compiled for and that this processor does not have.
#[cfg(target_arch = "x86_64")]
fn missing_feature() -> Option<&'static str> {
    let features = [
        ("AVX2", std::is_x86_feature_detected!("avx2")),
        ("BMI2", std::is_x86_feature_detected!("bmi2")),
        ("SSE4.2", std::is_x86_feature_detected!("sse4.2")),
    ];
    features.into_iter().find(|(_, present)| !present).map(|(name, _)| name)
}

/// Other processors have whatever the compiler was told to use.
#[cfg(not(target_arch = "x86_64"))]
fn missing_feature() -> Option<&'static str> {
    None
}
