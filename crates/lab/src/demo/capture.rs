//! Frames on the underlay, captured while workloads exchange echoes and judged by tshark, which this project did not write.
//!
//! A node that runs sluiced captures on a port of its data path (`sluice start capture`); a plain Linux node with dumpcap.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Stage;
use super::echo::echo;
use super::report::Report;
use crate::error::{LabError, Result, While};
use crate::program::{finish_within, run_within};
use crate::topology::{Capture, Encapsulation};

/// Frames of a capture.
const FRAMES: &str = "400";
/// Until the capture must have its frames.
const LIMIT: Duration = Duration::from_secs(20);
/// What tshark is asked for, one column each.
const FIELDS: [&str; 7] = [
    "geneve.vni",
    "vxlan.vni",
    "_ws.malformed",
    "ip.checksum.status",
    "udp.checksum.status",
    "icmp.checksum.status",
    "icmpv6.checksum.status",
];
/// tshark's numbers for the state of a checksum.
const CHECKSUM_BAD: &str = "0";
const CHECKSUM_GOOD: &str = "1";

pub(super) fn check(stage: &Stage<'_>, report: &mut Report, progress: &mut impl FnMut(&str)) {
    let Some(capture) = &stage.script.capture else { return };
    let what = format!("frames on {} of {}", capture.interface, capture.node);
    if Command::new("tshark").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        report.cannot(what, "tshark is not installed");
        return;
    }
    progress(&format!("capturing on {} of {}", capture.interface, capture.node));
    let file = stage.lab.state().file("capture.pcap");
    report.add(
        what,
        record(stage, capture, &file).and_then(|()| read(&file)).and_then(|text| judge(&text, capture)),
    );
}

/// Captures while echoes go between all workloads and the tester, until there are enough frames.
fn record(stage: &Stage<'_>, capture: &Capture, file: &Path) -> Result<()> {
    let begun = Instant::now();
    let mut child = start(stage, capture, file)?;
    let workloads = &stage.script.workloads;
    let running = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_none());
    let pairs = workloads
        .iter()
        .flat_map(|from| workloads.iter().chain([&stage.script.tester]).map(move |to| (from, to)));
    let mut rounds = pairs.clone();
    while running(&mut child) && begun.elapsed() < LIMIT {
        let Some((from, to)) = rounds.next() else {
            rounds = pairs.clone();
            continue;
        };
        let node = stage.node(to)?;
        // Whether echoes are answered was judged before; here they only make frames.
        for address in node.addresses().filter(|_| from != to) {
            let _ = echo(stage, from, address);
        }
    }
    let ended = finish_within(child, LIMIT.saturating_sub(begun.elapsed()))?;
    if ended.success { Ok(()) } else { Err(LabError::Step(format!("the capture failed: {}", ended.stderr))) }
}

fn start(stage: &Stage<'_>, capture: &Capture, file: &Path) -> Result<Child> {
    let mut command = if stage.node(&capture.node)?.document.is_some() {
        let mut command = Command::new(stage.sluice());
        command.arg("--socket").arg(stage.lab.socket(&capture.node)).args(["start", "capture", "interface"]);
        command.arg(&capture.interface).arg("file").arg(file).args(["count", FRAMES]);
        command
    } else {
        let mut command = stage.lab.command(&capture.node, "dumpcap");
        command.args(["-q", "-c", FRAMES, "-i", &capture.interface, "-w"]).arg(file);
        command
    };
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    spawned.doing(|| format!("starting the capture with {}", command.get_program().display()))
}

/// One line for each frame.
fn read(file: &Path) -> Result<String> {
    let mut command = Command::new("tshark");
    // Preferences of whoever runs this must not change the verdict.
    command.env("WIRESHARK_CONFIG_DIR", file.with_file_name("wireshark"));
    command.arg("-r").arg(file).args(["-T", "fields", "-E", "separator=/t", "-E", "aggregator=,"]);
    for protocol in ["ip", "udp"] {
        command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let ended = run_within(&mut command, Duration::from_secs(30))?;
    if ended.success {
        Ok(ended.stdout)
    } else {
        Err(LabError::Step(format!("tshark failed: {}", ended.stderr)))
    }
}

/// Every virtual network that was named is seen and no other; nothing is malformed and no checksum bad; inner and outer IPv4
/// checksums were really there to be judged.
fn judge(text: &str, capture: &Capture) -> Result<String> {
    let problem = |text: String| Err(LabError::Step(text));
    let (mut seen, mut tunnelled, mut inner_ipv4) = (BTreeSet::new(), 0, 0);
    for (number, line) in text.lines().enumerate() {
        let columns: Vec<Vec<&str>> =
            line.split('\t').map(|c| c.split(',').filter(|v| !v.is_empty()).collect()).collect();
        let [geneve, vxlan, malformed, checksums @ ..] = columns.as_slice() else {
            return problem(format!("tshark wrote '{line}'"));
        };
        let frame = number + 1;
        if !malformed.is_empty() {
            return problem(format!("frame {frame} is malformed"));
        }
        if checksums.iter().flatten().any(|status| *status == CHECKSUM_BAD) {
            return problem(format!("frame {frame} has a bad checksum"));
        }
        let (wanted, other) = match capture.encapsulation {
            Encapsulation::Geneve => (geneve, vxlan),
            Encapsulation::Vxlan => (vxlan, geneve),
        };
        if !other.is_empty() {
            return problem(format!("frame {frame} has another encapsulation"));
        }
        tunnelled += usize::from(!wanted.is_empty());
        seen.extend(wanted.iter().filter_map(|vni| parse_number(vni)));
        let good =
            checksums.first().map_or(0, |ip| ip.iter().filter(|status| **status == CHECKSUM_GOOD).count());
        inner_ipv4 += usize::from(!wanted.is_empty() && good >= 2);
    }
    if seen != capture.vnis.iter().copied().collect() {
        return problem(format!("virtual networks {seen:?} were seen instead of {:?}", capture.vnis));
    }
    if inner_ipv4 == 0 {
        return problem(format!("tshark judged no inner IPv4 checksum in {tunnelled} tunnelled frames"));
    }
    let name = if capture.encapsulation == Encapsulation::Geneve { "Geneve" } else { "VXLAN" };
    Ok(format!("{tunnelled} {name} frames, virtual networks {seen:?}, no bad checksum"))
}

/// tshark prints some fields in decimal and some in hexadecimal.
fn parse_number(text: &str) -> Option<u32> {
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |digits| u32::from_str_radix(digits, 16).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(lines: &[&str]) -> Result<String> {
        let capture = Capture {
            node: "host-1".into(),
            interface: "fp-eth0".into(),
            encapsulation: Encapsulation::Geneve,
            vnis: vec![5001, 5002],
        };
        judge(&lines.join("\n"), &capture)
    }

    const WEB: &str = "0x001389\t\t\t1,1\t1\t1\t";
    const DB: &str = "5002\t\t\t1\t3\t\t1";
    const ARP: &str = "\t\t\t\t\t\t";

    #[test]
    fn right_frames_pass() {
        let found = judged(&[WEB, DB, ARP]).unwrap();
        assert!(found.starts_with("2 Geneve frames, virtual networks {5001, 5002}"), "{found}");
    }

    #[test]
    fn wrong_frames_fail() {
        for (lines, problem) in [
            (vec![WEB], "instead of"),
            (vec![WEB, DB, "5003\t\t\t1,1\t1\t1\t"], "instead of"),
            (vec![WEB, DB, "5001\t\t\t1,1\t0\t1\t"], "frame 3 has a bad checksum"),
            (vec![WEB, DB, "5001\t\t\t1,0\t1\t1\t"], "frame 3 has a bad checksum"),
            (vec![WEB, "\t5001\t\t1,1\t1\t1\t"], "frame 2 has another encapsulation"),
            (vec![WEB, DB, "5001\t\tmalformed\t1,1\t1\t1\t"], "frame 3 is malformed"),
            (vec!["5001\t\t\t1\t1\t\t1", DB], "no inner IPv4 checksum"),
            (vec!["5001"], "tshark wrote"),
        ] {
            let error = judged(&lines).unwrap_err().to_string();
            assert!(error.contains(problem), "{lines:?}: {error}");
        }
    }
}
