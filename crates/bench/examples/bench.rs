//! The smallest program that mounts the bench's command; its own tests run it.

use std::process::ExitCode;

use clap::Parser;
use sluice_bench::BenchArguments;
use sluice_lab::LabArguments;

#[derive(Parser)]
enum Program {
    /// Measure how fast a node forwards.
    Bench(BenchArguments),
    /// The networks that it measures in.
    Lab(LabArguments),
}

fn main() -> ExitCode {
    let result = match Program::parse() {
        Program::Bench(arguments) => sluice_bench::run(arguments).map_err(|error| error.to_string()),
        Program::Lab(arguments) => sluice_lab::run(arguments).map_err(|error| error.to_string()),
    };
    result.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}
