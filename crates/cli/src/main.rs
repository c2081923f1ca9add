//! `sluice`: the command line of a node.
//!
//! Sits on the control socket of `sluiced` (`sluice-control`), reads node documents with `sluice-intent`, and mounts the labs of
//! `sluice-lab`. It holds no state and no packet passes through it. What is typed goes one way:
//!
//! ```text
//! arguments ─┐                                              ┌─ execute ─ show ─┐
//!            ├─ line ──── arguments ── command ─────────────┤                  ├─ output
//! shell ─────┘  words,    the tree of  with its view        └─ apply, capture ─┘
//!               filters   commands
//! ```

#![forbid(unsafe_code)]

mod apply;
mod arguments;
mod capture;
mod error;
mod execute;
mod line;
mod output;
mod parse;
mod shell;
mod show;
mod suggest;
mod target;

use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;

use clap_complete::{Shell, generate};
use serde_json::Value;

use arguments::{Command, CommandLine, CompletionShell, tree};
use error::CliError;
use line::View;
use output::Output;
use target::Target;

fn main() -> ExitCode {
    let arguments: Result<Vec<_>, _> =
        std::env::args_os().skip(1).map(std::ffi::OsString::into_string).collect();
    let result = match arguments {
        Ok(arguments) => run(arguments),
        Err(argument) => {
            Err(CliError::usage(format!("the argument {} is not UTF-8", argument.to_string_lossy())))
        }
    };
    result.unwrap_or_else(|error| {
        error.tell();
        ExitCode::from(error.exit_code())
    })
}

fn run(arguments: Vec<String>) -> Result<ExitCode, CliError> {
    let (words, mut view) = line::from_arguments(arguments)?;
    let line = match parse::command_line(words)? {
        parse::Parsed::Line(line) => line,
        parse::Parsed::Told(code) => return Ok(ExitCode::from(code)),
    };
    view.json |= line.json;
    let target = Target::new(line.node);
    match line.command {
        None if stdin().is_terminal() && stdout().is_terminal() => shell::run(&target, view.json)?,
        None => {
            return Err(CliError::usage(
                "no command is given, and the interactive shell needs a terminal; 'sluice help' lists the commands",
            ));
        }
        // Before anything starts a thread: namespaces are a matter of the whole process.
        Some(Command::Lab(arguments)) => return Ok(sluice_lab::run(arguments)?),
        Some(Command::Bench(arguments)) => return Ok(sluice_bench::run(arguments)?),
        Some(Command::Node(command)) => execute::node(command, &target, None, &view)?,
        Some(Command::Local(command)) => execute::local(&command, &view)?,
        Some(Command::Completion { shell }) => completion(shell)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn completion(shell: CompletionShell) -> Result<(), CliError> {
    let shell = match shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut tree::<CommandLine>(), "sluice", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    output::print(&Output::sentence(script, Value::Null), &View::default())
}
