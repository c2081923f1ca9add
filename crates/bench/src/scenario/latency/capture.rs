//! Captures in the lab while a client measures: dumpcap at each point of a case, as far as the kernel sees frames there.
//!
//! A port of a data path takes its frames past the kernel, so the points are the other ends of its links: the workloads' interfaces and those of the
//! router or switch in the middle. Capturing costs time itself; what is captured is not among the trials.
//!
//! Requests and responses are all that is captured, and their number is known: each dumpcap ends by itself once it has written the last of them,
//! however long it was kept from its core before.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cases::Case;
use super::ends::{Kind, WARM_UP};
use super::merge::{self, Breakdown, Counts};
use super::network::{self, Network};
use crate::error::{Result, While};
use crate::process::{Interrupt, Process};

/// What is captured: frames that are long enough for a request or a response, with and without the headers of a tunnel.
const FILTER: &str = "greater 1024";
/// Bytes of each frame that are kept: headers with room for a tunnel's and for options.
const SNAP_BYTES: &str = "192";
/// MiB that wait in the kernel while the nodes leave dumpcap no time.
const BUFFER_MIB: &str = "16";
/// Until a capture has begun.
const BEGIN_LIMIT: Duration = Duration::from_secs(30);
/// Until a capture has its last frame; where one was lost, it is ended then.
const END_LIMIT: Duration = Duration::from_secs(3);
/// Longest time of a captured trial, milliseconds: a bound that is not met.
const MILLISECONDS: u64 = 10_000;

/// Captures some transactions of a case at all its points and merges them; the files stay in `folder`.
///
/// # Errors
///
/// [`crate::BenchError::Process`] where dumpcap is missing or fails, and what measuring and reading files may give.
pub(super) fn record(
    network: &Network,
    case: &Case,
    transactions: u64,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<(Option<Breakdown>, Counts)> {
    let frames = 2 * (WARM_UP as u64 + transactions);
    let mut running = Vec::new();
    for (at, point) in case.points().into_iter().enumerate() {
        running.push(start(network, point, frames, &folder.join(format!("point-{at}")), interrupt)?);
    }
    network.measure(case, Kind::RequestResponse, transactions, MILLISECONDS)?;
    let mut points = Vec::new();
    for (mut dumpcap, file) in running {
        if !dumpcap.ends_within(END_LIMIT, interrupt)? {
            // To the command that entered the node, which passes it on: dumpcap then writes what it has and ends.
            let _ = kill(Pid::from_raw(dumpcap.pid().cast_signed()), Signal::SIGTERM);
            dumpcap.ends_within(END_LIMIT, interrupt)?;
        }
        points.push(merge::read(&file)?);
    }
    Ok(merge::merge(&points, &names(case)))
}

/// What the points are called: interfaces, of the nodes in the middle; there is only one of the ends.
fn names(case: &Case) -> Vec<String> {
    let last = case.points().len() - 1;
    let name = |(at, (node, interface)): (usize, (&str, &str))| match at {
        0 => "client".to_owned(),
        at if at == last => "server".to_owned(),
        _ => format!("{node} {interface}"),
    };
    case.points().into_iter().enumerate().map(name).collect()
}

/// Starts dumpcap and waits until it captures: it has written the head of its file by then.
fn start(
    network: &Network,
    (node, interface): (&str, &str),
    frames: u64,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<(Process, PathBuf)> {
    std::fs::create_dir_all(folder).during(|| format!("creating {}", folder.display()))?;
    let file = folder.join("frames.pcapng");
    let _ = std::fs::remove_file(&file);
    let mut command = network.lab().command(node, "dumpcap");
    command.args(["-q", "-i", interface, "-f", FILTER, "-s", SNAP_BYTES, "-B", BUFFER_MIB]);
    command.args(["-c", &frames.to_string(), "-w"]).arg(&file);
    let mut dumpcap = network::start("dumpcap", &command, folder)?;
    let begun = || std::fs::metadata(&file).is_ok_and(|file| file.len() > 0).then_some(());
    dumpcap.wait_for(
        "it captured (it comes with the package wireshark-common)",
        BEGIN_LIMIT,
        interrupt,
        begun,
    )?;
    Ok((dumpcap, file))
}
