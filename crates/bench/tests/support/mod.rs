//! What the tests of whole benches share.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program that mounts the command, after it and what it starts were built like this test. The folder above it holds the others.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.ancestors().nth(2).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "sluice-node", "-p", "sluice-generator", "-p", "sluice-bench"]);
        cargo.args(["--bin", "sluiced", "--bin", "sluice-generator", "--example", "bench"]);
        cargo.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "the programs under test were built");
        profile.join("examples/bench")
    })
}
