//! The examples of the reference are what the program prints: every console block of `docs/cli.md` is run and compared. They are answered as
//! a real node answered ([`support::recorded`]).
//!
//! With `SLUICE_UPDATE_DOCS=1` the blocks are written anew instead.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{FakeNode, Reaction, recorded, sluice};

/// A line of the reference, or a command in it with what it is said to print.
enum Part {
    Line(String),
    Example { line: usize, command: String, expected: String },
}

fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut in_console = false;
    for (position, line) in text.lines().enumerate() {
        let output = in_console && line != "```";
        in_console = line == "```console" || output;
        match (output, line.strip_prefix("$ "), parts.last_mut()) {
            (true, Some(command), _) => {
                let command = command.to_owned();
                parts.push(Part::Example { line: position + 1, command, expected: String::new() });
            }
            (true, None, Some(Part::Example { expected, .. })) => expected.push_str(&format!("{line}\n")),
            _ => parts.push(Part::Line(line.to_owned())),
        }
    }
    parts
}

/// What a shell prints for the command, both outputs in one.
fn printed(command: &str, run_directory: &Path, folder: &Path) -> String {
    let program = sluice(run_directory);
    let directory = Path::new(program.get_program()).parent().unwrap();
    let mut shell = Command::new("bash");
    for (variable, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(variable, value),
            None => shell.env_remove(variable),
        };
    }
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let output = shell
        .env("PATH", path)
        .current_dir(folder)
        .args(["-c", &format!("{{ {command}\n}} 2>&1 </dev/null")])
        .output()
        .unwrap();
    // As it would be outside of a test.
    String::from_utf8(output.stdout).unwrap().replace(run_directory.to_str().unwrap(), "/run/sluice")
}

#[test]
fn examples_are_what_is_printed() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let file = root.join("docs/cli.md");
    let directory = tempfile::tempdir().unwrap();
    let _node = FakeNode::reacting(directory.path(), "edge-1", |request| {
        Reaction::Reply(Box::new(recorded::reply(request)))
    });
    // Where the reader stands: the node's document and the examples.
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(root.join("crates/cli/tests/fixtures/edge-1.yaml"), folder.path().join("edge-1.yaml"))
        .unwrap();
    std::os::unix::fs::symlink(root.join("examples"), folder.path().join("examples")).unwrap();
    let update = std::env::var_os("SLUICE_UPDATE_DOCS").is_some();
    let (mut examples, mut updated) = (0, String::new());
    for part in parts(&std::fs::read_to_string(&file).unwrap()) {
        match part {
            Part::Line(line) => updated.push_str(&format!("{line}\n")),
            Part::Example { line, command, expected } => {
                let printed = printed(&command, directory.path(), folder.path());
                assert!(update || printed == expected, "docs/cli.md:{line}: $ {command}\n{printed}");
                updated.push_str(&format!("$ {command}\n{printed}"));
                examples += 1;
            }
        }
    }
    assert!(examples > 20, "only {examples} examples were found");
    if update {
        std::fs::write(&file, updated).unwrap();
    }
}
