//! TCP between pairs of nodes in both directions, measured by iperf3.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::Stage;
use super::report::Report;
use crate::error::{LabError, Result, While};
use crate::program::{finish_within, run_within};

/// What a measurement may take beyond its own seconds.
const MARGIN_S: u64 = 10;
/// Bits a second below which a path does not count as carrying traffic.
const LEAST_RATE: f64 = 1e6;

/// What retransmissions are in a lab, said below the table where there were some.
const ABOUT_RETRANSMISSIONS: &str = "retransmissions: frames that found the ring of a port full while its node waited for one of the cores that \
     everything here shares";

pub(super) fn check(stage: &Stage<'_>, report: &mut Report, progress: &mut impl FnMut(&str)) {
    let has_ports = stage.lab.port_kind().is_some();
    for [from, to] in &stage.script.throughput {
        for (sender, receiver, reverse) in [(from, to, false), (to, from, true)] {
            progress(&format!("TCP from {sender} to {receiver}"));
            let measured = measure(stage, from, to, reverse);
            if has_ports && measured.as_ref().is_ok_and(|measured| measured.retransmissions > Some(0)) {
                report.note(ABOUT_RETRANSMISSIONS);
            }
            report.add(format!("TCP {sender} → {receiver}"), measured.map(|measured| measured.to_string()));
        }
    }
}

/// What iperf3 found.
#[derive(Debug)]
struct Measured {
    /// Bits a second that arrived.
    rate: f64,
    /// Segments that TCP sent again, where the system tells.
    retransmissions: Option<u64>,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} Mb/s", self.rate / 1e6)?;
        match self.retransmissions {
            None => Ok(()),
            Some(1) => f.write_str(", 1 retransmission"),
            Some(count) => write!(f, ", {count} retransmissions"),
        }
    }
}

/// `to` listens and `from` connects; reversed, `to` sends.
fn measure(stage: &Stage<'_>, from: &str, to: &str, reverse: bool) -> Result<Measured> {
    let address = stage.node(to)?.addresses().next();
    let address = address.ok_or_else(|| LabError::Step(format!("{to} has no address")))?.to_string();
    let limit = Duration::from_secs(u64::from(stage.settings.seconds) + MARGIN_S);
    let server = listen(stage, to)?;
    let mut client = stage.lab.command(from, "iperf3");
    client.args(["--json", "--connect-timeout", "3000", "--time", &stage.settings.seconds.to_string()]);
    client.args(reverse.then_some("--reverse")).args(["--client", &address]);
    let result = run_within(&mut client, limit);
    // A server that served its one client ends by itself.
    finish_within(server, Duration::from_secs(2))?;
    judge(&result?.stdout)
}

/// A server for one client, once it listens.
fn listen(stage: &Stage<'_>, node: &str) -> Result<Child> {
    let mut command = stage.lab.command(node, "iperf3");
    command.args(["--server", "--one-off", "--forceflush"]);
    let mut server = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .doing(|| format!("starting iperf3 in {node}"))?;
    let output = server.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
    // Its standard output closes when it ends, so this ends with it at the latest.
    if output.map_while(std::result::Result::ok).any(|line| line.contains("Server listening")) {
        return Ok(server);
    }
    let ended = finish_within(server, Duration::from_secs(2))?;
    Err(LabError::Step(format!("iperf3 in {node} does not listen: {}", ended.stderr)))
}

/// From the JSON of the client.
fn judge(text: &str) -> Result<Measured> {
    let unreadable = || LabError::Step(format!("iperf3 wrote no result: {}", text.trim()));
    let value: Value = serde_json::from_str(text).map_err(|_| unreadable())?;
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        return Err(LabError::Step(format!("iperf3: {error}")));
    }
    let rate =
        value.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64).ok_or_else(unreadable)?;
    if rate < LEAST_RATE {
        return Err(LabError::Step(format!("only {rate:.0} bit/s arrived")));
    }
    Ok(Measured { rate, retransmissions: value.pointer("/end/sum_sent/retransmits").and_then(Value::as_u64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_what_arrived() {
        let text = r#"{"end": {"sum_sent": {"bits_per_second": 9e8, "retransmits": 3}, "sum_received": {"bits_per_second": 8e8}}}"#;
        assert_eq!(judge(text).unwrap().to_string(), "800 Mb/s, 3 retransmissions");
        let one = text.replace("\"retransmits\": 3", "\"retransmits\": 1");
        assert_eq!(judge(&one).unwrap().to_string(), "800 Mb/s, 1 retransmission");
        let untold = text.replace(", \"retransmits\": 3", "");
        assert_eq!(judge(&untold).unwrap().to_string(), "800 Mb/s");
    }

    #[test]
    fn errors_and_silence_fail() {
        for (text, problem) in [
            (r#"{"error": "unable to connect"}"#, "unable to connect"),
            (r#"{"end": {"sum_received": {"bits_per_second": 0}}}"#, "only 0 bit/s"),
            (r#"{"end": {}}"#, "no result"),
            ("", "no result"),
        ] {
            assert!(judge(text).unwrap_err().to_string().contains(problem), "{text}");
        }
    }
}
