//! The smallest program that mounts the lab's command; the lab's own tests run it.

use std::process::ExitCode;

use clap::Parser;
use sluice_lab::LabArguments;

#[derive(Parser)]
enum Program {
    /// Build, use and remove networks in network namespaces.
    Lab(LabArguments),
}

fn main() -> ExitCode {
    let Program::Lab(arguments) = Program::parse();
    sluice_lab::run(arguments).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}
