//! The interactive shell: the commands of `sluice`, a line each, with history and completion.
//!
//! It asks the node anew for each line, so it outlives restarts of the node. `vrf N` stays in a VRF until `exit`.

mod complete;

use std::fs;
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{ColorMode, CompletionType, Config, Editor};
use sluice_control::{Answer, Request};

use crate::arguments::{NodeCommand, ShellCommand};
use crate::error::CliError;
use crate::line::{self, View};
use crate::parse::{Parsed, shell_line};
use crate::target::Target;
use crate::{execute, output};
use complete::Assistant;

/// Lines that are remembered.
const HISTORY: usize = 1000;
/// Commands of `sluice` that the shell does not have, since they need the process for themselves or make no sense in it.
const OUTSIDE: [&str; 3] = ["lab", "bench", "completion"];

/// Reads and does lines until `exit` or the end of input.
pub(crate) fn run(target: &Target, json: bool) -> Result<(), CliError> {
    let mut shell = Shell::new(target.clone(), json);
    let mut editor = editor(target)?;
    let history = history_file();
    if let Some(file) = &history {
        // There is none at the first start, and a home that cannot be written to costs the history and nothing else.
        let _ = file.parent().map(fs::create_dir_all);
        let _ = editor.load_history(file);
    }
    loop {
        match editor.readline(&shell.prompt()) {
            Ok(line) => {
                if !line.trim().is_empty() && editor.add_history_entry(line.trim()).map_err(terminal)? {
                    // At once: Ctrl-C may end the shell while it waits for the node.
                    let _ = history.as_ref().map(|file| editor.append_history(file));
                }
                match shell.handle(&line) {
                    Ok(Next::Line) => {}
                    Ok(Next::End) => break,
                    Err(error) => error.tell_in_shell(),
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        }
    }
    Ok(())
}

struct Shell {
    target: Target,
    json: bool,
    /// Name of the node, once it has answered.
    name: Option<String>,
    /// The VRF that the shell is in, and the name of its gateway.
    vrf: Option<(u16, String)>,
}

/// What follows a line.
enum Next {
    Line,
    End,
}

impl Shell {
    fn new(target: Target, json: bool) -> Self {
        let mut shell = Self { target, json, name: None, vrf: None };
        if let Err(error) = shell.learn_name() {
            error.tell_in_shell();
        }
        shell
    }

    fn learn_name(&mut self) -> Result<(), CliError> {
        match self.target.ask(&Request::GetStatus)? {
            Answer::Status(status) => self.name = Some(status.name),
            _ => return Err(CliError::OtherAnswer),
        }
        Ok(())
    }

    fn prompt(&self) -> String {
        let name = self.name.as_deref().unwrap_or("sluice");
        match &self.vrf {
            Some((vrf, router)) => format!("{name}(vrf {vrf}: {router})> "),
            None => format!("{name}> "),
        }
    }

    fn handle(&mut self, line: &str) -> Result<Next, CliError> {
        let (mut words, mut view) = line::split(line::words(line)?)?;
        // A multicall command has no options of its own.
        let typed = words.len();
        words.retain(|word| word != "--json");
        view.json |= self.json || words.len() < typed;
        let Some(first) = words.first_mut() else { return Ok(Next::Line) };
        if first == "?" {
            "help".clone_into(first);
        }
        if OUTSIDE.contains(&first.as_str()) {
            return Err(CliError::usage(format!(
                "this is not for the shell; leave it with 'exit' and run 'sluice {}'",
                words.join(" ")
            )));
        }
        let Parsed::Line(line) = shell_line(&words)? else { return Ok(Next::Line) };
        self.execute(line.command, &view)
    }

    fn execute(&mut self, command: ShellCommand, view: &View) -> Result<Next, CliError> {
        match command {
            ShellCommand::Exit if self.vrf.take().is_none() => return Ok(Next::End),
            ShellCommand::Exit => {}
            ShellCommand::Node(NodeCommand::Vrf { vrf, command: None }) => {
                self.vrf = Some((vrf, execute::router_of_vrf(vrf, &self.target)?));
            }
            ShellCommand::Node(command) => {
                let vrf = self.vrf.as_ref().map(|(vrf, _)| *vrf);
                execute::node(command, &self.target, vrf, view)?;
                if self.name.is_none() {
                    self.learn_name()?;
                }
            }
            ShellCommand::Local(command) => execute::local(&command, view)?,
        }
        Ok(Next::Line)
    }
}

fn editor(target: &Target) -> Result<Editor<Assistant, FileHistory>, CliError> {
    let colour = if output::Screen::of_stdout().colour { ColorMode::Enabled } else { ColorMode::Disabled };
    let config = Config::builder()
        .max_history_size(HISTORY)
        .map_err(terminal)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .color_mode(colour)
        .build();
    let mut editor = Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(Assistant::new(target.clone())));
    Ok(editor)
}

/// The file of the history (XDG Base Directory Specification: state that is not worth a backup).
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME") {
        Some(state) if !state.is_empty() => PathBuf::from(state),
        _ => std::env::home_dir()?.join(".local/state"),
    };
    Some(state.join("sluice/history"))
}

fn terminal(error: ReadlineError) -> CliError {
    CliError::system("cannot read from the terminal", std::io::Error::other(error))
}
