//! Running the system's network programs: `ip` and `tc` in batch mode, `ethtool` once for each interface.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::{LabError, Result, While};
use crate::process::ProcessIdentity;

/// Runs a program to its end with `input` on standard input; its standard output, or an error with its standard error.
pub(crate) fn run(command: &mut Command, input: &str) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.doing(|| format!("starting {program} (is it installed?)"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that fails early closes its input; its exit status says more than the broken pipe.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().doing(|| format!("waiting for {program}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    Err(LabError::Program {
        command: [program].into_iter().chain(arguments).collect::<Vec<_>>().join(" "),
        status: output.status.to_string(),
        stderr: explain(&String::from_utf8_lossy(&output.stderr), input),
    })
}

/// How a program ended that had a limited time.
pub(crate) struct Ended {
    /// Whether its exit code was 0; false also when it had to be ended.
    pub(crate) success: bool,
    /// What it wrote to standard output.
    pub(crate) stdout: String,
    /// What it wrote to standard error, and that it was ended, if it was.
    pub(crate) stderr: String,
}

/// Runs a program that gets at most `limit`, then SIGTERM and two seconds later SIGKILL.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<Ended> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    finish_within(spawned.doing(|| format!("starting {}", command.get_program().display()))?, limit)
}

/// [`run_within`] for a program that runs already; standard output that was taken from the child is left to the taker.
pub(crate) fn finish_within(mut child: Child, limit: Duration) -> Result<Ended> {
    let stdout = read_all(child.stdout.take());
    let stderr = read_all(child.stderr.take());
    let process = ProcessIdentity::of(child.id().cast_signed());
    let in_time = process.is_none_or(|process| process.wait_for_end(limit));
    if let Some(process) = process.filter(|_| !in_time) {
        process.end(Duration::from_secs(2))?;
    }
    let status = child.wait().doing(|| "waiting for a program".into())?;
    let text = |reader: JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
    };
    let (stdout, mut stderr) = (text(stdout), text(stderr));
    if !in_time {
        stderr.push_str(&format!(" (ended after {} s)", limit.as_secs()));
    }
    Ok(Ended { success: in_time && status.success(), stdout, stderr: stderr.trim().replace('\n', "; ") })
}

fn read_all(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is what there is to show.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// `ip -batch` or `tc -batch`; nothing is run for no lines.
pub(crate) fn batch(program: &str, lines: &[String]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    run(Command::new(program).args(["-batch", "-"]), &(lines.join("\n") + "\n")).map(drop)
}

/// Adds the line of the batch that a message as "Command failed -:3" means.
fn explain(stderr: &str, input: &str) -> String {
    let failed =
        stderr.rsplit_once("Command failed -:").and_then(|(_, rest)| rest.trim().parse::<usize>().ok());
    match failed.and_then(|line| input.lines().nth(line.checked_sub(1)?)) {
        Some(line) => format!("{} at `{line}`", stderr.trim().replace('\n', "; ")),
        None => stderr.trim().replace('\n', "; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_batch_names_its_line() {
        let error = batch("ip", &["link show dev lo".into(), "link show dev no-such-if".into()]).unwrap_err();
        assert!(error.to_string().contains("at `link show dev no-such-if`"), "{error}");
    }

    #[test]
    fn program_is_ended_at_its_limit() {
        let begun = std::time::Instant::now();
        let ended = run_within(
            Command::new("sh").args(["-c", "echo begun; exec sleep 30"]),
            Duration::from_millis(300),
        )
        .unwrap();
        assert!(!ended.success && begun.elapsed() < Duration::from_secs(10));
        assert_eq!(ended.stdout, "begun\n");
        assert!(ended.stderr.contains("ended after"), "{}", ended.stderr);
    }

    #[test]
    fn missing_program_is_named() {
        let error = run(&mut Command::new("sluice-no-such-program"), "").unwrap_err();
        assert!(error.to_string().contains("starting sluice-no-such-program (is it installed?)"), "{error}");
    }
}
