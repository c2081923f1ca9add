//! ICMP echo between the tester and every workload in both directions, and between every two workloads, in IPv4 and IPv6.

use std::net::IpAddr;
use std::time::Duration;

use super::Stage;
use super::report::Report;
use crate::error::{LabError, Result};
use crate::program::run_within;

/// Requests of a measurement; every one must be answered.
const COUNT: &str = "20";
/// Seconds until the first answer, while addresses are resolved for the first time.
const FIRST_ANSWER_S: &str = "5";

pub(super) fn check(stage: &Stage<'_>, report: &mut Report, progress: &mut impl FnMut(&str)) {
    let workloads = &stage.script.workloads;
    let tester = &stage.script.tester;
    let outward = workloads.iter().map(|workload| (workload, tester));
    let inward = workloads.iter().map(|workload| (tester, workload));
    let between = workloads
        .iter()
        .enumerate()
        .flat_map(|(i, from)| workloads[i + 1..].iter().map(move |to| (from, to)));
    for (from, to) in outward.chain(inward).chain(between) {
        progress(&format!("echo from {from} to {to}"));
        report.add(format!("echo {from} → {to}"), pair(stage, from, to));
    }
}

/// Both families; "IPv4 0.21 ms, IPv6 0.25 ms".
fn pair(stage: &Stage<'_>, from: &str, to: &str) -> Result<String> {
    let mut found = Vec::new();
    for v6 in [false, true] {
        let family = if v6 { "IPv6" } else { "IPv4" };
        let Some(address) = stage.node(to)?.address(v6) else {
            return Err(LabError::Step(format!("{to} has no {family} address")));
        };
        let average = echo(stage, from, address)?;
        found.push(format!("{family} {average:.3} ms"));
    }
    Ok(found.join(", "))
}

/// The average round trip in milliseconds of [`COUNT`] requests.
pub(super) fn echo(stage: &Stage<'_>, from: &str, to: IpAddr) -> Result<f64> {
    let to = to.to_string();
    let ping = |arguments: &[&str]| {
        let mut command = stage.lab.command(from, "ping");
        run_within(command.args(["-n", "-q"]).args(arguments).arg(&to), Duration::from_secs(15))
    };
    let first = ping(&["-c", "1", "-w", FIRST_ANSWER_S])?;
    if !first.success {
        return Err(LabError::Step(format!(
            "{to} did not answer within {FIRST_ANSWER_S} s {}",
            first.stderr
        )));
    }
    let ended = ping(&["-c", COUNT, "-i", "0.01", "-W", "2"])?;
    let result = parse(&ended.stdout);
    let (sent, received, average) = result.ok_or_else(|| {
        LabError::Step(format!("ping to {to} said '{}' {}", ended.stdout.trim(), ended.stderr))
    })?;
    if received != sent {
        return Err(LabError::Step(format!("{to} answered {received} of {sent} requests")));
    }
    Ok(average)
}

/// Requests sent, answers received, average round trip in milliseconds, from the summary that `ping -q` prints.
fn parse(text: &str) -> Option<(u32, u32, f64)> {
    let counts = text.lines().find(|line| line.contains("packets transmitted"))?;
    let mut counts = counts.split(',').filter_map(|part| part.split_whitespace().next()?.parse().ok());
    let times = text.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = "));
    let average = times.and_then(|times| times.split('/').nth(1)?.parse().ok()).unwrap_or(f64::NAN);
    Some((counts.next()?, counts.next()?, average))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_is_read() {
        let text = "PING 192.0.2.10 (192.0.2.10) 56(84) bytes of data.\n\n--- 192.0.2.10 ping statistics ---\n\
                    20 packets transmitted, 20 received, 0% packet loss, time 203ms\n\
                    rtt min/avg/max/mdev = 0.024/0.031/0.094/0.015 ms\n";
        assert_eq!(parse(text), Some((20, 20, 0.031)));
    }

    #[test]
    fn loss_and_errors_are_read() {
        let text = "20 packets transmitted, 18 received, +2 errors, 10% packet loss, time 1ms\n\
                    rtt min/avg/max/mdev = 1.0/2.5/3.0/0.1 ms";
        assert_eq!(parse(text), Some((20, 18, 2.5)));
        let (sent, received, average) =
            parse("3 packets transmitted, 0 received, 100% packet loss, time 9ms").unwrap();
        assert_eq!((sent, received), (3, 0));
        assert!(average.is_nan());
        assert_eq!(parse("ping: connect: Network is unreachable"), None);
    }
}
