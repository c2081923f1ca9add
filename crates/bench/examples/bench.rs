//! The smallest program that mounts the bench's command; its own tests run it.

use std::process::ExitCode;

use clap::Parser;
use sluice_bench::BenchArguments;

#[derive(Parser)]
enum Program {
    /// Measure how fast a node forwards.
    Bench(BenchArguments),
}

fn main() -> ExitCode {
    let Program::Bench(arguments) = Program::parse();
    sluice_bench::run(arguments).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}
