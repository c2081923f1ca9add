//! From typed text to words and from words to a command with its filters: `get dataplane | find ring`.
//!
//! ```text
//! line ── words ──→ get dataplane | find ring ── split ──→ command: get dataplane
//!                                                          view:    lines with 'ring'
//! ```
//!
//! A shell's own `|` never arrives here, so a whole line may be given as one quoted argument, or the pipe with its filter, or the pipe alone.

use crate::error::CliError;

/// How an answer is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// As JSON.
    pub(crate) json: bool,
    /// Words that every shown line or row has, case aside.
    pub(crate) find: Vec<String>,
}

impl View {
    /// Whether a line is shown.
    pub(crate) fn shows(&self, line: &str) -> bool {
        let line = line.to_lowercase();
        self.find.iter().all(|word| line.contains(&word.to_lowercase()))
    }
}

/// The words of a line. Quotes and `\` keep spaces and pipes together, as in a shell; a pipe outside of them is a word of its own.
pub(crate) fn words(line: &str) -> Result<Vec<String>, CliError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' => words.extend(word.take()),
            '|' => {
                words.extend(word.take());
                words.push("|".to_owned());
            }
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some(next) if next == character => break,
                        Some(next) => word.push(next),
                        None => {
                            return Err(CliError::usage(format!(
                                "a quote ({character}) is opened and not closed; close it"
                            )));
                        }
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(characters.next()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The words before the first pipe, and the view that those after it ask for.
pub(crate) fn split(words: Vec<String>) -> Result<(Vec<String>, View), CliError> {
    let mut parts = words.split(|word| word == "|").map(<[String]>::to_vec);
    let command = parts.next().unwrap_or_default();
    let mut view = View::default();
    for filter in parts {
        match filter.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["json"] => view.json = true,
            ["find", sought @ ..] if !sought.is_empty() => view.find.push(sought.join(" ")),
            ["find"] => return Err(CliError::usage("'| find' needs the word to find after it")),
            [] => return Err(CliError::usage("nothing follows the '|'; add 'json' or 'find WORD'")),
            other => {
                return Err(CliError::usage(format!(
                    "'| {}' is no filter; they are '| json' and '| find WORD'",
                    other.join(" ")
                )));
            }
        }
    }
    if command.is_empty() && view != View::default() {
        return Err(CliError::usage("no command stands before the '|'"));
    }
    Ok((command, view))
}

/// Arguments of the process as words: the first one that is no option may be a whole line, one that begins with a pipe a filter.
///
/// Arguments of `lab` are left alone, since they may hold a program's own.
pub(crate) fn from_arguments(arguments: Vec<String>) -> Result<(Vec<String>, View), CliError> {
    let Some(position) = command_position(&arguments) else { return Ok((arguments, View::default())) };
    let mut split_up = arguments;
    let rest = split_up.split_off(position + 1);
    if let Some(first) = split_up.pop() {
        if first.contains([' ', '\t', '|']) {
            split_up.extend(words(&first)?);
        } else {
            split_up.push(first);
        }
    }
    if split_up.get(position).is_some_and(|command| command == "lab") {
        split_up.extend(rest);
        return Ok((split_up, View::default()));
    }
    for argument in rest {
        if argument.trim_start().starts_with('|') {
            split_up.extend(words(&argument)?);
        } else {
            split_up.push(argument);
        }
    }
    split(split_up)
}

/// Where the first argument stands that is neither an option nor the value of one.
fn command_position(arguments: &[String]) -> Option<usize> {
    let mut position = 0;
    loop {
        match arguments.get(position)?.as_str() {
            "--node" | "--socket" | "--timeout" => position += 2,
            option if option.starts_with('-') => position += 1,
            _ => return Some(position),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn view(json: bool, find: &[&str]) -> View {
        View { json, find: owned(find) }
    }

    #[test]
    fn quotes_keep_words_together() {
        let cases: [(&str, &[&str]); 7] = [
            ("  get \t status ", &["get", "status"]),
            ("get dataplane|find ring", &["get", "dataplane", "|", "find", "ring"]),
            ("apply 'my node.yaml'", &["apply", "my node.yaml"]),
            (r#"a"b c"d 'x|y'"#, &["ab cd", "x|y"]),
            (r"apply my\ node.yaml", &["apply", "my node.yaml"]),
            ("find ''", &["find", ""]),
            ("", &[]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        assert!(words("find 'ring").unwrap_err().to_string().contains("not closed"));
    }

    #[test]
    fn filters_follow_the_pipe() {
        let split = |line| split(words(line).unwrap()).map_err(|error| error.to_string());
        assert_eq!(split("get status"), Ok((owned(&["get", "status"]), view(false, &[]))));
        assert_eq!(split("get status | json"), Ok((owned(&["get", "status"]), view(true, &[]))));
        assert_eq!(
            split("get status | find a b | find c | json"),
            Ok((owned(&["get", "status"]), view(true, &["a b", "c"])))
        );
        for (line, message) in [
            ("get status |", "nothing follows"),
            ("get status | find", "needs the word"),
            ("get status | grep x", "'| grep x' is no filter"),
            ("get status | json x", "'| json x' is no filter"),
            ("| json", "no command stands before"),
        ] {
            assert!(split(line).unwrap_err().contains(message), "{line}");
        }
    }

    #[test]
    fn a_line_may_be_one_argument_or_many() {
        let expected = (owned(&["--node", "edge-1", "get", "status"]), view(false, &["up"]));
        let arguments: [&[&str]; 7] = [
            &["--node", "edge-1", "get", "status", "| find up"],
            &["--node", "edge-1", "get", "status", "|find up"],
            &["--node", "edge-1", "get status", " | find 'up'"],
            &["--node", "edge-1", "get status | find up"],
            &["--node", "edge-1", "get status", "|", "find", "up"],
            &["--node", "edge-1", "get", "status", "|", "find", "up"],
            &["--node", "edge-1", "get status|find up"],
        ];
        for arguments in arguments {
            assert_eq!(from_arguments(owned(arguments)).unwrap(), expected, "{arguments:?}");
        }
        // Only the first word may be a line: a file may have spaces and pipes in its name.
        let file = owned(&["apply", "my | node.yaml"]);
        assert_eq!(from_arguments(file.clone()).unwrap(), (file, view(false, &[])));
    }

    #[test]
    fn programs_in_a_lab_keep_their_arguments() {
        let exec = owned(&["--json", "lab", "exec", "vm-1", "sh", "-c", "ls | wc", "|"]);
        assert_eq!(from_arguments(exec.clone()).unwrap(), (exec, view(false, &[])));
    }

    #[test]
    fn find_looks_past_case() {
        assert!(view(false, &["RING", "512"]).shows("Rx_ring_size : 512"));
        assert!(!view(false, &["ring", "1024"]).shows("Rx_ring_size : 512"));
    }
}
