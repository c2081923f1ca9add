//! The edge lists its segments: `sluice get logical-switches` over its control socket.

use std::process::Command;
use std::time::Duration;

use super::Stage;
use super::report::Report;
use crate::error::{LabError, Result};
use crate::program::run_within;
use crate::topology::LogicalSwitches;

pub(super) fn check(stage: &Stage<'_>, report: &mut Report, progress: &mut impl FnMut(&str)) {
    let Some(switches) = &stage.script.logical_switches else { return };
    progress(&format!("logical switches of {}", switches.node));
    report.add(format!("get logical-switches of {}", switches.node), list(stage, switches));
}

fn list(stage: &Stage<'_>, switches: &LogicalSwitches) -> Result<String> {
    let mut command = Command::new(stage.sluice());
    command.arg("--socket").arg(stage.lab.socket(&switches.node)).args(["get", "logical-switches"]);
    let ended = run_within(&mut command, Duration::from_secs(10))?;
    if !ended.success {
        return Err(LabError::Step(format!("`sluice get logical-switches` failed: {}", ended.stderr)));
    }
    missing(&ended.stdout, &switches.names)
}

/// Names stand as words of their own, whatever the table's borders are.
fn missing(text: &str, names: &[String]) -> Result<String> {
    let words: Vec<_> = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).collect();
    let missing: Vec<_> = names.iter().filter(|name| !words.contains(&name.as_str())).cloned().collect();
    if missing.is_empty() {
        Ok(names.join(", "))
    } else {
        Err(LabError::Step(format!("not listed: {}", missing.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_words() {
        let names = ["web".to_string(), "db".to_string()];
        assert!(missing("│ web │ 5001 │\n│ db │ 5002 │", &names).is_ok());
        let error = missing("│ web-tier │ 5001 │\n│ db │", &names).unwrap_err();
        assert_eq!(error.to_string(), "not listed: web");
    }
}
