//! The command that looks most like what was typed.

use clap::Command;

/// The command nearest to the typed words, none if nothing is near. What follows the command's own words is left out.
pub(crate) fn nearest(root: &Command, typed: &[String]) -> Option<String> {
    let mut command = root;
    let mut path = Vec::new();
    let mut corrected = false;
    for word in typed {
        let Some((child, exact)) = nearest_child(command, &word.to_lowercase()) else { break };
        corrected |= !exact;
        path.push(child.get_name());
        command = child;
    }
    match typed.first() {
        Some(first) if path.is_empty() => path_with(root, &first.to_lowercase()),
        _ => corrected.then(|| path.join(" ")),
    }
}

/// The child with this name, or the one whose name is nearest and near enough.
fn nearest_child<'c>(command: &'c Command, word: &str) -> Option<(&'c Command, bool)> {
    if let Some(child) = command.find_subcommand(word) {
        return Some((child, true));
    }
    let children = command.get_subcommands().filter(|child| !child.is_hide_set());
    let distances = children.map(|child| (strsim::damerau_levenshtein(word, child.get_name()), child));
    let (distance, child) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= (child.get_name().len() / 3).max(1)).then_some((child, false))
}

/// The shortest command that ends in a word: `get status` for `status`.
fn path_with(root: &Command, word: &str) -> Option<String> {
    root.get_subcommands().filter(|child| !child.is_hide_set()).find_map(|child| {
        let inner = match child.find_subcommand(word) {
            Some(found) => Some(found.get_name().to_owned()),
            None => path_with(child, word),
        };
        inner.map(|inner| format!("{} {inner}", child.get_name()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{CommandLine, tree};

    fn near(line: &str) -> Option<String> {
        nearest(&tree::<CommandLine>(), &crate::line::words(line).unwrap())
    }

    #[test]
    fn misspelt_commands_are_found_at_every_depth() {
        for (typed, meant) in [
            ("get dataplan", "get dataplane"),
            ("gt status", "get status"),
            ("get logical-swithces", "get logical-switches"),
            ("get dataplane flowcache stats", "get dataplane flow-cache stats"),
            ("set dataplane ringsize rx 512", "set dataplane ring-size"),
            ("versoin", "version"),
            ("start captur interface fp-eth0 file a", "start capture interface"),
        ] {
            assert_eq!(near(typed).as_deref(), Some(meant), "{typed}");
        }
    }

    #[test]
    fn a_forgotten_first_word_is_found() {
        assert_eq!(near("status").as_deref(), Some("get status"));
        assert_eq!(near("segments").as_deref(), Some("get logical-switches"));
        assert_eq!(near("flow-cache stats").as_deref(), Some("get dataplane flow-cache"));
    }

    #[test]
    fn what_is_like_nothing_gets_no_advice() {
        assert_eq!(near("xyzzy"), None);
        assert_eq!(near("get weather"), None);
    }
}
