//! TCP between nodes of a lab, measured by iperf3: one stream, or several at once.
//!
//! iperf3 runs under the ordinary scheduler always: it polls while a queue is full, and under the real-time scheduler keeps nodes of the same
//! priority, and everything else, from their cores.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::error::{LabError, Result, While};
use crate::lab::Lab;
use crate::program::{Ended, finish_within};

/// What a measurement may take beyond its own seconds.
const MARGIN_S: u64 = 15;
/// What a connection may take, milliseconds: a first packet and three that are sent again, since streams that were there before may fill a
/// limited link.
const CONNECT_TIMEOUT_MS: &str = "8000";
/// Bits a second below which a path does not count as carrying traffic.
const LEAST_RATE: f64 = 1e6;
/// Port of the first server of a measurement; each stream has a server of its own.
const PORT: u16 = 5201;

/// A stream of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream<'a> {
    /// The node that connects, and sends unless the stream is reversed.
    pub from: &'a str,
    /// The node that listens, at its first address.
    pub to: &'a str,
    /// Whether the node that listens sends.
    pub reverse: bool,
}

/// How streams are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Seconds that count.
    pub seconds: u16,
    /// Seconds before them, in which connections come to their rate.
    pub omitted: u16,
    /// Bytes that a stream may have on its way at most; none: what the system lets it have.
    pub window: Option<u32>,
}

/// What iperf3 found of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Bits a second that arrived.
    pub rate: f64,
    /// Segments that TCP sent again, where the system tells.
    pub retransmissions: Option<u64>,
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

/// Measures streams at the same time, in their order. Everything that it starts has ended when it returns.
///
/// # Errors
/// [`LabError::UnknownNode`]; [`LabError::Step`] where a node has no address, or iperf3 does not run, fails or has nothing arrive.
pub fn measure(lab: &Lab, streams: &[Stream<'_>], span: Span) -> Result<Vec<Measured>> {
    let limit = Duration::from_secs(u64::from(span.seconds) + u64::from(span.omitted) + MARGIN_S);
    let (mut servers, mut clients) = (Vec::new(), Vec::new());
    let mut start = || {
        for (stream, port) in streams.iter().zip(PORT..) {
            servers.push(listen(lab, stream.to, port)?);
        }
        for (stream, port) in streams.iter().zip(PORT..) {
            clients.push(connect(lab, stream, port, span)?);
        }
        Ok(())
    };
    let started = start();
    let patience = if started.is_ok() { limit } else { Duration::ZERO };
    let ended: Vec<Result<Ended>> =
        clients.into_iter().map(|client| finish_within(client, patience)).collect();
    for server in servers {
        // A server that served its one client ends by itself.
        finish_within(server, Duration::from_secs(2).min(patience))?;
    }
    started?;
    ended.into_iter().map(|ended| judge(&ended?.stdout)).collect()
}

fn connect(lab: &Lab, stream: &Stream<'_>, port: u16, span: Span) -> Result<Child> {
    let address = lab.node(stream.to)?.addresses().next();
    let address = address.ok_or_else(|| LabError::Step(format!("{} has no address", stream.to)))?.to_string();
    lab.node(stream.from)?;
    let mut client = lab.command(stream.from, "iperf3");
    client.args(["--json", "--connect-timeout", CONNECT_TIMEOUT_MS, "--port", &port.to_string()]);
    client.args(["--time", &span.seconds.to_string(), "--omit", &span.omitted.to_string()]);
    client.args(span.window.iter().flat_map(|bytes| ["--window".to_owned(), bytes.to_string()]));
    client.args(stream.reverse.then_some("--reverse")).args(["--client", &address]);
    client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    client.spawn().doing(|| format!("starting iperf3 in {}", stream.from))
}

/// A server for one client, once it listens.
fn listen(lab: &Lab, node: &str, port: u16) -> Result<Child> {
    let mut command = lab.command(node, "iperf3");
    command.args(["--server", "--one-off", "--forceflush", "--port", &port.to_string()]);
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
