//! Tab completion: words of commands, values of arguments, and names that only the node knows.

use clap::{Arg, Command};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper, Result};
use sluice_control::{Answer, Request};

use crate::arguments::{CAPTURE_DIRECTIONS, CAPTURE_OPTIONS, ShellLine, tree};
use crate::target::Target;

/// The line editor's helper.
pub(super) struct Assistant {
    target: Target,
    commands: Command,
    files: FilenameCompleter,
}

/// What may stand at the cursor.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// One of these words.
    Words(Vec<String>),
    /// The name of a gateway.
    Router,
    /// The number of a VRF.
    Vrf,
    /// The name of a workload on this node.
    Workload,
    /// The name of a port.
    Port,
    /// A file.
    File,
}

impl Assistant {
    pub(super) fn new(target: Target) -> Self {
        Self { target, commands: tree::<ShellLine>(), files: FilenameCompleter::new() }
    }

    /// Names that the node knows; none where it does not answer, since completion is no place for errors.
    fn names(&self, next: Next) -> Vec<String> {
        match next {
            Next::Words(words) => words,
            Next::File => Vec::new(),
            Next::Router | Next::Vrf => match self.target.ask(&Request::GetLogicalRouters) {
                Ok(Answer::LogicalRouters(routers)) if next == Next::Router => {
                    routers.into_iter().map(|router| router.name).collect()
                }
                Ok(Answer::LogicalRouters(routers)) => {
                    routers.into_iter().map(|router| router.vrf.to_string()).collect()
                }
                _ => Vec::new(),
            },
            Next::Workload => match self.target.ask(&Request::GetWorkloads) {
                Ok(Answer::Workloads(workloads)) => {
                    let here = workloads.into_iter().filter(|workload| workload.port.is_some());
                    here.map(|workload| workload.name).collect()
                }
                _ => Vec::new(),
            },
            Next::Port => match self.target.ask(&Request::GetPhysicalPorts) {
                Ok(Answer::PhysicalPorts(ports)) => ports.into_iter().map(|port| port.name).collect(),
                _ => Vec::new(),
            },
        }
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, context: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let typed = line.get(..position).unwrap_or(line);
        let start = typed.rfind([' ', '\t', '|']).map_or(0, |before| before + 1);
        let (before, word) = typed.split_at(start);
        let next = next(&self.commands, before, word);
        if next == Next::File {
            return self.files.complete(line, position, context);
        }
        let mut names = self.names(next);
        names.retain(|name| name.starts_with(word));
        names.sort();
        names.dedup();
        let pairs = names.into_iter().map(|name| Pair { replacement: format!("{name} "), display: name });
        Ok((start, pairs.collect()))
    }
}

impl Highlighter for Assistant {}
impl Validator for Assistant {}
impl Helper for Assistant {}

impl Hinter for Assistant {
    type Hint = String;
}

/// What may follow the words before the cursor. `word` is the one at the cursor, as far as it is typed.
fn next(root: &Command, before: &str, word: &str) -> Next {
    if let Some((_, filter)) = before.rsplit_once('|') {
        let filters = if filter.trim().is_empty() { words(["find", "json"]) } else { Vec::new() };
        return Next::Words(filters);
    }
    let mut typed: Vec<_> = before.split_whitespace().collect();
    let help = typed.first() == Some(&"help");
    if help {
        typed.remove(0);
    }
    let (mut command, mut positionals, mut value_of) = (root, Vec::new(), None);
    for word in typed {
        if value_of.take().is_some() {
            continue;
        }
        if let Some(child) = command.find_subcommand(word) {
            (command, positionals) = (child, Vec::new());
        } else if let Some(option) = word.strip_prefix("--") {
            value_of = option_of(command, option).filter(|option| option.get_action().takes_values());
        } else {
            positionals.push(word);
        }
    }
    if let Some(option) = value_of {
        return Next::Words(values(option));
    }
    if word.starts_with('-') {
        let options = command.get_arguments().filter_map(|option| option.get_long());
        return Next::Words(options.chain(["json"]).map(|option| format!("--{option}")).collect());
    }
    after(command, &positionals, help, command.get_name() == root.get_name())
}

/// What may follow a command and its arguments so far.
fn after(command: &Command, positionals: &[&str], help: bool, first: bool) -> Next {
    let children = command.get_subcommands().filter(|child| !child.is_hide_set());
    let mut children: Vec<_> = children.map(|child| child.get_name().to_owned()).collect();
    if first && !help {
        children.push("help".to_owned());
    }
    if help {
        return Next::Words(children);
    }
    let arguments: Vec<_> = command.get_positionals().collect();
    match (arguments.get(positionals.len()), arguments.last()) {
        (Some(argument), _) if argument.get_id() == "words" => Next::Words(words(CAPTURE_OPTIONS)),
        (Some(argument), _) => match argument.get_id().as_str() {
            "router" => Next::Router,
            "vrf" => Next::Vrf,
            "workload" => Next::Workload,
            "port" | "name" => Next::Port,
            "file" => Next::File,
            _ => Next::Words(values(argument).into_iter().chain(children).collect()),
        },
        (None, Some(argument)) if argument.get_id() == "words" => match positionals.last() {
            Some(&"file") => Next::File,
            Some(&"direction") => Next::Words(words(CAPTURE_DIRECTIONS)),
            Some(&"count") => Next::Words(Vec::new()),
            _ => Next::Words(words(CAPTURE_OPTIONS)),
        },
        _ => Next::Words(children),
    }
}

fn option_of<'c>(command: &'c Command, long: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|option| option.get_long() == Some(long))
}

fn values(argument: &Arg) -> Vec<String> {
    argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(before: &str, word: &str) -> Next {
        next(&tree::<ShellLine>(), before, word)
    }

    fn offered(before: &str, word: &str) -> Vec<String> {
        match at(before, word) {
            Next::Words(mut words) => {
                words.retain(|offer| offer.starts_with(word));
                words.sort();
                words
            }
            other => panic!("{before}{word}: {other:?}"),
        }
    }

    #[test]
    fn commands_are_offered_at_every_depth() {
        assert_eq!(offered("", "s"), ["schema", "set", "start"]);
        assert_eq!(offered("get ", "log"), ["logical-routers", "logical-switches"]);
        assert_eq!(offered("get dataplane ", ""), ["cpu", "flow-cache", "stages"]);
        assert_eq!(offered("set dataplane flow-cache ", ""), ["disabled", "enabled"]);
        assert_eq!(offered("set dataplane ring-size rx ", ""), ["1024", "2048", "4096", "512"]);
        assert_eq!(offered("trace from vm-1 ", ""), ["to"]);
        assert_eq!(offered("vrf 1 ", ""), ["get"]);
        assert_eq!(offered("vrf 1 get ", ""), ["forwarding", "route"]);
        assert_eq!(offered("get status ", ""), Vec::<String>::new());
        assert_eq!(offered("help get dataplane ", "f"), ["flow-cache"]);
        assert!(offered("", "").contains(&"exit".to_owned()));
    }

    #[test]
    fn options_filters_and_values_are_offered() {
        assert_eq!(offered("get drops | ", ""), ["find", "json"]);
        assert_eq!(offered("get drops | find ", ""), Vec::<String>::new());
        assert_eq!(offered("trace from vm-1 to 10.0.0.1 --protocol ", ""), ["icmp", "tcp", "udp"]);
        assert_eq!(offered("trace from vm-1 to 10.0.0.1 ", "--p"), ["--port", "--protocol"]);
        assert_eq!(offered("get status ", "--"), ["--json"]);
    }

    #[test]
    fn names_and_files_are_offered_where_they_stand() {
        assert_eq!(at("get route ", ""), Next::Router);
        assert_eq!(at("get gateways ", ""), Next::Words(Vec::new()));
        assert_eq!(at("vrf ", ""), Next::Vrf);
        assert_eq!(at("get physical-port ", "fp"), Next::Port);
        assert_eq!(offered("get physical-port fp-eth0 ", ""), ["stats"]);
        assert_eq!(at("trace uplink ", ""), Next::Port);
        assert_eq!(at("trace frame ", ""), Next::Port);
        assert_eq!(at("trace from ", "vm"), Next::Workload);
        assert_eq!(at("get forwarding ", ""), Next::Router);
        assert_eq!(at("apply ", "ed"), Next::File);
        assert_eq!(at("start capture interface ", ""), Next::Port);
        assert_eq!(offered("start capture interface fp-eth0 ", ""), ["count", "direction", "file"]);
        assert_eq!(at("start capture interface fp-eth0 file ", ""), Next::File);
        assert_eq!(
            offered("start capture interface fp-eth0 file a direction ", ""),
            ["dual", "input", "output"]
        );
    }
}
