//! From words to a command, with the node CLI's answer to what is none.

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::arguments::{CommandLine, ShellLine, tree};
use crate::error::CliError;
use crate::suggest::nearest;

/// What became of the words.
#[derive(Debug)]
pub(crate) enum Parsed<T> {
    /// A command.
    Line(T),
    /// Help or what is wrong was printed; the exit code.
    Told(u8),
}

/// The arguments of the process.
pub(crate) fn command_line(words: Vec<String>) -> Result<Parsed<CommandLine>, CliError> {
    parse::<CommandLine>(std::iter::once("sluice".to_owned()).chain(words.iter().cloned()), &words)
}

/// The words of a line of the shell.
pub(crate) fn shell_line(words: &[String]) -> Result<Parsed<ShellLine>, CliError> {
    parse::<ShellLine>(words.iter().cloned(), words)
}

fn parse<T: Parser>(
    arguments: impl Iterator<Item = impl Into<OsString> + Clone>,
    words: &[String],
) -> Result<Parsed<T>, CliError> {
    let parsed =
        tree::<T>().try_get_matches_from(arguments).and_then(|matches| T::from_arg_matches(&matches));
    match parsed {
        Ok(line) => Ok(Parsed::Line(line)),
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
            let typed = up_to_wrong_word(&error, words);
            Err(CliError::CommandNotFound { nearest: nearest(&tree::<T>(), words), typed })
        }
        Err(error) => {
            // That the reader of the help went away is no error.
            let _ = error.print().and_then(|()| std::io::stdout().flush());
            Ok(Parsed::Told(u8::try_from(error.exit_code()).unwrap_or(1)))
        }
    }
}

/// The typed words up to the one that is no command.
fn up_to_wrong_word(error: &clap::Error, words: &[String]) -> String {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else {
        return words.join(" ");
    };
    let end = words.iter().position(|word| word == wrong).map_or(words.len(), |position| position + 1);
    words.get(..end).unwrap_or(words).join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        let words = crate::line::words(line).unwrap();
        match command_line(words) {
            Err(error) => error.to_string(),
            Ok(parsed) => panic!("{line}: {parsed:?}"),
        }
    }

    #[test]
    fn the_tree_of_commands_is_consistent() {
        tree::<CommandLine>().debug_assert();
        tree::<ShellLine>().debug_assert();
    }

    #[test]
    fn every_command_has_examples_that_are_commands() {
        fn walk(command: &clap::Command, path: &str) {
            for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
                let path = format!("{path} {}", child.get_name());
                // The lab's own commands are documented by the lab.
                let inner = child.has_subcommands() && child.get_name() != "lab";
                let help = child.get_after_help().map(ToString::to_string).unwrap_or_default();
                if inner {
                    walk(child, &path);
                } else {
                    assert!(help.contains("Examples:"), "{path} has no examples");
                }
                for line in help.lines().filter_map(|line| line.strip_prefix("  sluice ")) {
                    let example =
                        line.split("  ").next().unwrap().split(" > ").next().unwrap().replace("...", "00");
                    let (words, _) = crate::line::from_arguments(
                        crate::line::words(&format!("'{example}'"))
                            .unwrap_or_else(|_| vec![example.replace('\'', "")]),
                    )
                    .unwrap();
                    let line = CommandLine::try_parse_from(std::iter::once("sluice".to_owned()).chain(words));
                    assert!(line.is_ok(), "{path}: sluice {example}: {}", line.unwrap_err());
                }
            }
        }
        walk(&tree::<CommandLine>(), "sluice");
    }

    #[test]
    fn the_nearest_command_is_named() {
        assert_eq!(
            refused("get dataplan cpu"),
            "Command not found: 'get dataplan'; the nearest is 'get dataplane cpu'; 'help' lists the commands"
        );
        assert_eq!(refused("xyzzy"), "Command not found: 'xyzzy'; 'help' lists the commands");
    }
}
