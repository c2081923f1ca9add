//! `start capture interface IF …`: options are words in any order, as in the node CLI, not flags.

use std::path::PathBuf;

use clap::Args;
use sluice_control::{CaptureDirection, Request};

use crate::error::CliError;

/// The words that introduce an option.
pub(crate) const CAPTURE_OPTIONS: [&str; 3] = ["file", "count", "direction"];
/// The words after `direction`.
pub(crate) const CAPTURE_DIRECTIONS: [&str; 3] = ["input", "output", "dual"];

/// A port and what is captured of it.
#[derive(Args, Debug)]
pub(crate) struct CaptureOptions {
    /// The port
    port: String,
    /// `file FILE` (pcap, written by the node), `count N` frames, `direction input|output|dual` (both if left out)
    #[arg(value_name = "OPTION", required = true)]
    words: Vec<String>,
    /// Replace the file if it is there already
    #[arg(long)]
    pub(crate) overwrite: bool,
}

impl CaptureOptions {
    /// The request to the node. A relative file is one of the directory where `sluice` was started.
    pub(crate) fn request(&self) -> Result<Request, CliError> {
        let (mut file, mut count, mut direction) = (None, None, None);
        let mut words = self.words.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| CliError::usage(missing(word)))?;
            let twice = match word.as_str() {
                "file" => file.replace(PathBuf::from(value)).is_some(),
                "count" => count.replace(parse_count(value)?).is_some(),
                "direction" => direction.replace(parse_direction(value)?).is_some(),
                _ => return Err(CliError::usage(unknown(word))),
            };
            if twice {
                return Err(CliError::usage(format!("'{word}' is given twice; give it once")));
            }
        }
        let file =
            file.ok_or_else(|| CliError::usage("no file is named to capture into; add 'file FILE'"))?;
        let file = std::path::absolute(&file)
            .map_err(|source| CliError::system(format!("the path of {}", file.display()), source))?;
        if !self.overwrite && file.symlink_metadata().is_ok() {
            return Err(CliError::FileExists(file));
        }
        let direction = direction.unwrap_or_default();
        let (interface, overwrite) = (self.port.clone(), self.overwrite);
        Ok(Request::StartCapture { interface, file, count, direction, overwrite })
    }
}

fn unknown(word: &str) -> String {
    format!(
        "'{word}' is no option of a capture; they are 'file FILE', 'count N' and 'direction input|output|dual'"
    )
}

fn missing(word: &str) -> String {
    if CAPTURE_OPTIONS.contains(&word) { format!("'{word}' needs a value after it") } else { unknown(word) }
}

fn parse_count(value: &str) -> Result<u64, CliError> {
    match value.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(CliError::usage(format!("count '{value}' is no number of frames; give 1 or more"))),
    }
}

fn parse_direction(value: &str) -> Result<CaptureDirection, CliError> {
    match value {
        "input" => Ok(CaptureDirection::Input),
        "output" => Ok(CaptureDirection::Output),
        "dual" => Ok(CaptureDirection::Dual),
        _ => Err(CliError::usage(format!("direction '{value}' is none of 'input', 'output' and 'dual'"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &str) -> Result<Request, String> {
        let words = words.split_whitespace().map(str::to_owned).collect();
        let options = CaptureOptions { port: "fp-eth0".into(), words, overwrite: false };
        options.request().map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_that_is_there_is_replaced_only_if_that_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.pcap");
        let options = |overwrite| CaptureOptions {
            port: "fp-eth0".into(),
            words: vec!["file".into(), file.to_str().unwrap().into()],
            overwrite,
        };
        assert!(options(false).request().is_ok());
        std::fs::write(&file, "the only copy").unwrap();
        let error = options(false).request().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{} is there already; name another file, or add --overwrite to replace it",
                file.display()
            )
        );
        assert!(options(true).request().is_ok());
        assert_eq!(std::fs::read(&file).unwrap(), b"the only copy", "the node replaces it, if at all");
    }

    #[test]
    fn options_stand_in_any_order() {
        let expected = Request::StartCapture {
            interface: "fp-eth0".into(),
            file: "/nowhere/a.pcap".into(),
            count: Some(9),
            direction: CaptureDirection::Output,
            overwrite: false,
        };
        assert_eq!(request("file /nowhere/a.pcap count 9 direction output"), Ok(expected.clone()));
        assert_eq!(request("direction output file /nowhere/a.pcap count 9"), Ok(expected));
    }

    #[test]
    fn a_relative_file_is_made_absolute_and_the_rest_has_defaults() {
        let Ok(Request::StartCapture { file, count, direction, .. }) = request("file a.pcap") else {
            panic!("a file is enough");
        };
        assert_eq!(file, std::env::current_dir().unwrap().join("a.pcap"));
        assert_eq!((count, direction), (None, CaptureDirection::Dual));
    }

    #[test]
    fn wrong_words_are_told() {
        let cases = [
            ("count 5", "no file is named"),
            ("file", "'file' needs a value"),
            ("files x", "'files' is no option"),
            ("x", "'x' is no option"),
            ("file a count 0", "count '0' is no number"),
            ("file a count -1", "count '-1' is no number"),
            ("file a direction in", "direction 'in' is none of"),
            ("file a file b", "'file' is given twice"),
        ];
        for (words, message) in cases {
            let error = request(words).unwrap_err();
            assert!(error.contains(message), "{words}: {error}");
        }
    }
}
