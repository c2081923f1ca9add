//! The route from the first workload to the tester, hop by hop: the gateways must be there, in their order, and nothing else.

use std::net::IpAddr;
use std::time::Duration;

use super::Stage;
use super::report::Report;
use crate::error::{LabError, Result};
use crate::program::run_within;
use crate::topology::Hop;

pub(super) fn check(stage: &Stage<'_>, report: &mut Report, progress: &mut impl FnMut(&str)) {
    if stage.script.hops.is_empty() {
        return;
    }
    let Some(from) = stage.script.workloads.first() else { return };
    for v6 in [false, true] {
        let family = if v6 { "IPv6" } else { "IPv4" };
        progress(&format!("{family} route from {from} to {}", stage.script.tester));
        report.add(format!("{family} route {from} → {}", stage.script.tester), trace(stage, from, v6));
    }
}

fn trace(stage: &Stage<'_>, from: &str, v6: bool) -> Result<String> {
    let tester = stage.node(&stage.script.tester)?;
    let address =
        tester.address(v6).ok_or_else(|| LabError::Step("the tester has no address of the family".into()))?;
    let mut command = stage.lab.command(from, "traceroute");
    // One probe at a time, so that no router's limit for ICMP errors comes into play.
    command.args(["-n", "-q", "1", "-N", "1", "-w", "2", "-m", "10"]).arg(address.to_string());
    let ended = run_within(&mut command, Duration::from_secs(30))?;
    if !ended.success {
        return Err(LabError::Step(format!("traceroute failed: {}", ended.stderr)));
    }
    judge(&parse(&ended.stdout), &stage.script.hops)
}

/// The answering address of each hop; none where nobody answered.
fn parse(text: &str) -> Vec<Option<IpAddr>> {
    let hop = |line: &str| {
        let mut words = line.split_whitespace();
        words.next()?.parse::<u8>().ok()?;
        Some(words.next().and_then(|address| address.parse().ok()))
    };
    text.lines().filter_map(hop).collect()
}

/// Every hop belongs to the current stage or begins the next one, and the last stage is reached.
fn judge(found: &[Option<IpAddr>], expected: &[Hop]) -> Result<String> {
    let text = |hop: &Option<IpAddr>| hop.map_or("*".to_string(), |address| address.to_string());
    let path = found.iter().map(text).collect::<Vec<_>>().join(" → ");
    let mut reached = 0;
    for hop in found {
        let belongs = |index: usize| {
            let stage: Option<&Hop> = expected.get(index);
            stage.is_some_and(|stage| hop.is_some_and(|hop| stage.addresses.contains(&hop)))
        };
        if belongs(reached) {
            reached += 1;
        } else if reached == 0 || !belongs(reached - 1) {
            let next = expected.get(reached).map_or("the end", |stage| &stage.name);
            return Err(LabError::Step(format!("{} where {next} was expected: {path}", text(hop))));
        }
    }
    match expected.get(reached) {
        None => Ok(path),
        Some(missing) => Err(LabError::Step(format!("{} did not answer: {path}", missing.name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops() -> Vec<Hop> {
        let hop = |name: &str, addresses: &[&str]| Hop {
            name: name.into(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        };
        vec![
            hop("tier-1", &["10.10.10.1"]),
            hop("tier-0", &["100.64.0.0", "169.254.0.2"]),
            hop("tor", &["198.51.100.1"]),
            hop("tester", &["192.0.2.10"]),
        ]
    }

    fn judged(text: &str) -> Result<String> {
        judge(&parse(text), &hops())
    }

    #[test]
    fn expected_route_passes_with_one_or_two_hops_at_tier_0() {
        let head =
            "traceroute to 192.0.2.10 (192.0.2.10), 10 hops max, 60 byte packets\n 1  10.10.10.1  0.3 ms\n";
        let tail = " 4  198.51.100.1  0.1 ms\n 5  192.0.2.10  0.2 ms\n";
        for middle in [" 2  100.64.0.0  0.2 ms\n 3  169.254.0.2  0.2 ms\n", " 2  169.254.0.2  0.2 ms\n"] {
            assert!(judged(&format!("{head}{middle}{tail}")).is_ok());
        }
    }

    #[test]
    fn missing_silent_foreign_and_unordered_hops_fail() {
        let cases = [
            (
                " 1  10.10.10.1  1 ms\n 2  198.51.100.1  1 ms\n 3  192.0.2.10  1 ms\n",
                "where tier-0 was expected",
            ),
            (" 1  *\n 2  100.64.0.0  1 ms\n", "* where tier-1 was expected"),
            (" 1  10.10.10.1  1 ms\n 2  203.0.113.9  1 ms\n", "203.0.113.9 where tier-0 was expected"),
            (" 1  100.64.0.0  1 ms\n 2  10.10.10.1  1 ms\n", "100.64.0.0 where tier-1 was expected"),
            (" 1  10.10.10.1  1 ms\n 2  100.64.0.0  1 ms\n", "tor did not answer"),
            ("", "tier-1 did not answer"),
        ];
        for (text, problem) in cases {
            let error = judged(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
