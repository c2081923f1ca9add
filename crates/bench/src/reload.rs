//! `sluice bench reload`: documents swapped in under a node that forwards as fast as it can, and what that costs.
//!
//! Each round has a trial without swaps and one in which another thread applies one document after the other. The threads are left to the
//! ordinary scheduler: the node's control thread, which compiles the documents, must get its share of the two cores.
//!
//! Whenever another thread has the generator's core, it reads nothing, and the node finds its ring full. The node counts those packets under a
//! reason of their own; they are shown apart from what was lost in the node, which must be nothing.

mod table;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::Serialize;
use sluice_control::{Answer, Client, Request};

use crate::bench::{Bench, progress};
use crate::command::ReloadArguments;
use crate::error::{BenchError, Result};
use crate::machine::{Conditions, Realtime};
use crate::measure::{Case, Directions, Sample, median};
use crate::subject::{Node, Subject, Variant};
use crate::topology::Topology;
use crate::traffic::Family;

/// Memory of the processes in huge pages, MiB: the node and its generator.
const MEBIBYTES: u64 = 256 + 64;
/// Milliseconds of a trial, unless the command line says otherwise.
const TRIAL_MS: u64 = 1_000;
/// Bytes of the frames, with frame check sequence: the smallest.
const SIZE: u32 = 64;
/// Share of the highest rate that a round is tried at, behind the highest itself.
const BELOW: f64 = 0.5;
/// The node's drop reason for a packet that found the ring of its port full.
const RING_FULL: &str = "transmit-ring-full";
/// Rounds after which too few swaps were possible.
const MOST_ROUNDS: usize = 200;

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ReloadReport {
    pub(crate) conditions: Conditions,
    pub(crate) case: String,
    /// Documents that were in force before their trial ended.
    pub(crate) swaps: usize,
    /// From the request until every worker decided with the new document, milliseconds.
    pub(crate) swap_ms: Times,
    /// At the highest rate, and at a share of it.
    pub(crate) rates: Vec<Rate>,
    /// Packets that the node dropped, by reason, in the whole run.
    pub(crate) drops: Vec<(String, u64)>,
}

/// Some durations, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Times {
    pub(crate) median: f64,
    pub(crate) longest: f64,
}

/// Trials at one rate, with swaps and without.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Rate {
    pub(crate) name: &'static str,
    pub(crate) swaps: usize,
    pub(crate) plain: Totals,
    pub(crate) swapping: Totals,
    /// Packets a second with swaps in proportion to those without, the median of the rounds.
    pub(crate) ratio: Option<f64>,
}

/// What became of the packets of some trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Totals {
    /// Million packets a second, median.
    pub(crate) mpps: f64,
    pub(crate) sent: u64,
    /// Sent, taken by the node, and neither sent back nor refused by a full ring.
    pub(crate) lost: u64,
    /// Packets that found the generator's ring full when the node sent them back.
    pub(crate) ring_full: u64,
    pub(crate) wrong: u64,
    pub(crate) duplicates: u64,
    pub(crate) reordered: u64,
}

impl Totals {
    fn of(trials: &[Trial]) -> Self {
        let samples = || trials.iter().map(|trial| &trial.sample);
        let ring_full = trials.iter().map(|trial| trial.ring_full).sum();
        let sum = |count: fn(&crate::message::StreamCounts) -> u64| {
            samples().map(|sample| sample.result.sum(count)).sum::<u64>()
        };
        let sent = sum(|stream| stream.sent);
        Self {
            mpps: median(samples().map(rate)).unwrap_or(0.0) / 1e6,
            sent,
            lost: sent.saturating_sub(sum(|stream| stream.received)).saturating_sub(ring_full),
            ring_full,
            wrong: sum(|stream| stream.wrong),
            duplicates: sum(|stream| stream.duplicates),
            reordered: sum(|stream| stream.reordered),
        }
    }

    fn is_clean(&self) -> bool {
        (self.lost, self.wrong, self.duplicates, self.reordered) == (0, 0, 0, 0)
    }
}

/// A trial, and what the generator's rings refused in it.
struct Trial {
    sample: Sample,
    ring_full: u64,
}

fn rate(sample: &Sample) -> f64 {
    sample.result.packets_per_second()
}

/// Runs the bench and prints its result. The exit code is 1 where a swap cost a packet.
pub(crate) fn run(arguments: &ReloadArguments) -> Result<ExitCode> {
    let mut bench = Bench::new(&arguments.common, MEBIBYTES, false)?;
    bench.measuring.trial_ms = arguments.common.trial_ms.unwrap_or(TRIAL_MS);
    bench.measuring.realtime = Realtime::new(false);
    let case = Case::at_least(Directions::Both, Family::Ipv4, SIZE)?;
    let mut node = Node::start(&bench.setting, Variant::new(Topology::default()))?;
    let highest = bench.measuring.sample(&mut node, &case)?;
    let progress = progress(2 * usize::from(arguments.swaps));
    let mut times = Vec::new();
    let mut rates = Vec::new();
    for (name, limit) in [("highest", None), ("half of it", Some(rate(&highest) * BELOW))] {
        let rounds = Rounds { bench: &bench, case: &case, limit, wanted: usize::from(arguments.swaps) };
        progress.set_message(format!("{name} rate"));
        let (rate, applied) = rounds.run(&mut node, name, &progress)?;
        rates.push(rate);
        times.extend(applied);
    }
    progress.finish_and_clear();
    let milliseconds = |time: &Duration| time.as_secs_f64() * 1e3;
    let report = ReloadReport {
        conditions: bench.conditions(&mut node, rates.len()),
        case: case.to_string(),
        swaps: times.len(),
        swap_ms: Times {
            median: median(times.iter().map(milliseconds)).unwrap_or(0.0),
            longest: times.iter().map(milliseconds).fold(0.0, f64::max),
        },
        drops: node.drops()?,
        rates,
    };
    if arguments.common.json {
        println!("{:#}", serde_json::json!(report));
    } else {
        print!("{}", table::reload_table(&report));
    }
    let clean = report.rates.iter().all(|rate| rate.swapping.is_clean());
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Rounds at one rate, each a trial without swaps and one with.
struct Rounds<'a> {
    bench: &'a Bench,
    case: &'a Case,
    /// Packets a second; the highest rate without.
    limit: Option<f64>,
    /// Documents to be swapped in.
    wanted: usize,
}

impl Rounds<'_> {
    /// As many rounds as the documents need; how long each document took.
    fn run(
        &self,
        node: &mut Node,
        name: &'static str,
        progress: &ProgressBar,
    ) -> Result<(Rate, Vec<Duration>)> {
        let (mut plain, mut swapping, mut times) = (Vec::new(), Vec::new(), Vec::new());
        while times.len() < self.wanted {
            if plain.len() == MOST_ROUNDS {
                return Err(BenchError::TooFewSwaps { swaps: times.len(), rounds: MOST_ROUNDS });
            }
            plain.push(self.trial(node)?);
            let (trial, applied) = while_swapping(node, self.wanted - times.len(), |node| self.trial(node))?;
            swapping.push(trial);
            progress.inc(applied.len() as u64);
            times.extend(applied);
        }
        let ratios =
            swapping.iter().zip(&plain).map(|(with, without)| rate(&with.sample) / rate(&without.sample));
        let (ratio, swaps) = (median(ratios), times.len());
        let (plain, swapping) = (Totals::of(&plain), Totals::of(&swapping));
        Ok((Rate { name, swaps, plain, swapping, ratio }, times))
    }

    fn trial(&self, node: &mut Node) -> Result<Trial> {
        let before = ring_full(node)?;
        let sample = match self.limit {
            None => self.bench.measuring.sample(node, self.case),
            Some(limit) => self.bench.measuring.at_rate(node, self.case, limit),
        };
        Ok(Trial { sample: sample?, ring_full: ring_full(node)?.saturating_sub(before) })
    }
}

/// One trial during which documents are applied in turn, `most` at most; how long each took that was in force before the trial ended.
fn while_swapping(
    node: &mut Node,
    most: usize,
    trial: impl FnOnce(&mut Node) -> Result<Trial>,
) -> Result<(Trial, Vec<Duration>)> {
    let documents = node.documents()?;
    let mut client = node.another_client()?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut times = Vec::new();
            for document in documents.iter().cycle().take(most) {
                let start = Instant::now();
                apply(&mut client, document)?;
                if over.load(Ordering::Acquire) {
                    break;
                }
                times.push(start.elapsed());
            }
            Ok::<_, BenchError>(times)
        });
        let trial = trial(node);
        over.store(true, Ordering::Release);
        let times = swapper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((trial?, times?))
    })
}

/// Packets that found the ring of a port full since the node started.
fn ring_full(node: &mut Node) -> Result<u64> {
    let drops = node.drops()?;
    Ok(drops.iter().filter(|(reason, _)| reason == RING_FULL).map(|(_, packets)| packets).sum())
}

fn apply(client: &mut Client, document: &str) -> Result<()> {
    let request = Request::Apply { document: document.to_owned(), file: "edge.yaml".into() };
    match client.ask(&request)? {
        Answer::Applied(_) => Ok(()),
        _ => Err(BenchError::Document("the node did not apply it".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{StreamCounts, TrialResult};
    use crate::subject::Counters;
    use crate::traffic::Direction;

    #[test]
    fn what_is_lost_is_what_was_sent_and_did_not_come_back() {
        let trial = |sent, received, ring_full| {
            let result = TrialResult {
                sending_ns: 1_000_000,
                streams: vec![StreamCounts { sent, received, ..StreamCounts::new(Direction::Encap) }],
                foreign: 0,
                ..TrialResult::default()
            };
            Trial {
                sample: Sample {
                    result,
                    counters: Counters::default(),
                    busy: 1.0,
                    cores: 1,
                    waited: Duration::ZERO,
                },
                ring_full,
            }
        };
        let totals = Totals::of(&[trial(100, 100, 0), trial(50, 45, 2)]);
        assert_eq!((totals.sent, totals.lost, totals.ring_full, totals.is_clean()), (150, 3, 2, false));
        assert!(Totals::of(&[trial(100, 98, 2)]).is_clean());
    }
}
