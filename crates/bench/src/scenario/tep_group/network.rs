//! The lab `tep`, and one measurement in it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use sluice_control::{Answer, Client, Request};
use sluice_lab::iperf::{self, Measured, Span, Stream};
use sluice_lab::{Lab, PortKind, Topology, UpOptions};

use crate::error::{BenchError, Result, While};
use crate::process::{Interrupt, LOOK};
use crate::scenario::guarded::Guarded;

/// The workloads, in the order of the document's.
pub(super) const WORKLOADS: [&str; 4] = ["vm-1", "vm-2", "vm-3", "vm-4"];
/// Where the iperf3 of the physical network is.
const TARGET: &str = "target";
const EDGE: &str = "edge-1";
/// Ports of the edge's TEPs.
const UPLINKS: [&str; 2] = ["fp-eth0", "fp-eth1"];
/// What each uplink carries, megabits a second, as the topology says.
pub(super) const RATE_MBPS: u64 = 50;
/// How long the workloads may take to reach the target with new documents.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// Which TEP a flow takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placing {
    /// No group: each segment has one TEP.
    Single,
    /// By the hash of its addresses and ports.
    Hash,
    /// The least loaded.
    LoadAware,
}

impl Placing {
    /// All, in the order in which they are measured.
    pub(super) const ALL: [Self; 3] = [Self::Single, Self::Hash, Self::LoadAware];

    /// As tables show it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Single => "no group",
            Self::Hash => "group, by hash",
            Self::LoadAware => "group, load-aware",
        }
    }

    /// The document of a node that places its flows so.
    fn document(self, mut document: Map<String, Value>) -> String {
        document.remove("bfd");
        match self {
            Self::Single => {
                document.remove("tep-group");
                document.remove("remote-tep-groups");
                pin(&mut document);
            }
            Self::Hash => {
                drop(document.insert("tep-group".into(), json!({"id": 293_888, "placement": "hash"})))
            }
            Self::LoadAware => {
                drop(document.insert("tep-group".into(), json!({"id": 293_888, "placement": "load-aware"})))
            }
        }
        // YAML is what the node reads, and JSON a part of it.
        Value::Object(document).to_string()
    }
}

/// Pins every segment and transit segment to the first TEP: without a group the other would carry some of them.
fn pin(document: &mut Map<String, Value>) {
    let list = |value: &mut Value| value.as_array_mut().map(std::mem::take).unwrap_or_default();
    let pinned = |mut segment: Value| {
        segment["tep"] = json!("tep-1");
        segment
    };
    if let Some(segments) = document.get_mut("segments") {
        *segments = list(segments).into_iter().map(pinned).collect();
    }
    let gateways = document.get_mut("gateways").and_then(Value::as_array_mut).into_iter().flatten();
    for transit in gateways.filter_map(|gateway| gateway.get_mut("transit")) {
        *transit = pinned(transit.take());
    }
}

/// What the lab depends on.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Kind of the nodes' ports; none: what the lab finds to work.
    pub(super) port_kind: Option<PortKind>,
    pub(super) sluiced: Option<PathBuf>,
    pub(super) interrupt: Interrupt,
    /// Whether the target sends.
    pub(super) reverse: bool,
    pub(super) span: Span,
    /// Priority of the nodes under the real-time scheduler; none: the ordinary one.
    pub(super) realtime: Option<u8>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    /// The streams, in the order of [`WORKLOADS`].
    pub(super) streams: Vec<Measured>,
    /// Bytes that each of the edge's uplinks carried in the direction of the streams.
    pub(super) uplinks: [u64; 2],
    /// Bits a second that both carried together while all streams ran.
    pub(super) carried: f64,
}

/// The topology.
///
/// # Errors
///
/// None: it is a part of the program.
pub(super) fn topology() -> Result<Topology> {
    Ok(Topology::load("tep")?)
}

/// The lab, up.
pub(super) struct Network {
    settings: Settings,
    lab: Lab,
    _guarded: Guarded,
}

impl Network {
    /// Builds the lab.
    ///
    /// # Errors
    ///
    /// [`BenchError::Lab`] where namespaces cannot be made or a node does not start. Everything is removed again.
    pub(super) fn up(settings: Settings, progress: impl FnMut(&str)) -> Result<Self> {
        let program = std::env::current_exe().during(|| "looking for the running program".into())?;
        let guarded = Guarded::new(format!("bench-tep-{}", std::process::id()), &program)?;
        let options = UpOptions {
            name: Some(guarded.lab().to_owned()),
            sluiced: settings.sluiced.clone(),
            port_kind: settings.port_kind,
            ..UpOptions::new(topology()?)
        };
        let lab = Lab::up(options, progress)?;
        if let Some(priority) = settings.realtime {
            lab.set_realtime(priority)?;
        }
        Ok(Self { settings, lab, _guarded: guarded })
    }

    /// The kind of the nodes' ports and why it was chosen.
    pub(super) fn port_kind(&self) -> Option<(PortKind, String)> {
        self.lab.port_kind()
    }

    /// The topology document.
    pub(super) fn source(&self) -> &str {
        &self.lab.topology().source
    }

    /// Gives every node its document and measures all streams at once.
    ///
    /// # Errors
    ///
    /// [`BenchError::Control`] where a node refuses its document, [`BenchError::Lab`] where a stream fails, [`BenchError::Interrupted`].
    pub(super) fn measure(&mut self, placing: Placing) -> Result<Run> {
        self.apply(placing)?;
        self.wait_until_ready()?;
        let reverse = self.settings.reverse;
        let streams = WORKLOADS.map(|from| Stream { from, to: TARGET, reverse });
        let edge = Edge { socket: self.lab.socket(EDGE), reverse };
        let before = edge.carried()?;
        let span = self.settings.span;
        let (streams, carried) = std::thread::scope(|scope| {
            let middle = scope.spawn(|| edge.rate_in_the_middle(span));
            let streams = iperf::measure(&self.lab, &streams, span);
            (streams, middle.join())
        });
        self.settings.interrupt.check()?;
        let (streams, after) = (streams?, edge.carried()?);
        let carried = carried.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let uplinks = [0, 1].map(|uplink| after[uplink] - before[uplink]);
        Ok(Run { streams, uplinks, carried })
    }

    fn apply(&self, placing: Placing) -> Result<()> {
        for (node, _) in self.lab.topology().daemons() {
            let Some(document) = self.lab.document(&node.name)? else { continue };
            let document = placing.document(document);
            let mut client = Client::connect(&self.lab.socket(&node.name))?;
            match client.ask(&Request::Apply { document, file: format!("{}.yaml", node.name) })? {
                Answer::Applied(_) => {}
                _ => return Err(BenchError::Document(format!("{} did not apply it", node.name))),
            }
        }
        Ok(())
    }

    /// Until each workload reaches the target: next hops are asked for first.
    fn wait_until_ready(&self) -> Result<()> {
        let address = self.lab.topology().node(TARGET).and_then(|node| node.address(false));
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        let deadline = Instant::now() + READY_LIMIT;
        for workload in WORKLOADS {
            loop {
                self.settings.interrupt.check()?;
                let mut ping = self.lab.command(workload, "ping");
                ping.args(["-c", "1", "-W", "1", &address]).stdout(Stdio::null()).stderr(Stdio::null());
                if ping.status().during(|| "starting ping".into())?.success() {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(BenchError::Document(format!("{workload} does not reach {address}")));
                }
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }
}

/// Bytes that are more than connections take to be set up.
const BEGUN: u64 = 256 * 1024;
/// Seconds at either end of the streams that do not count for what they carry together: each begins and ends at a moment of its own.
const RAGGED_S: u16 = 1;

/// The edge, whose uplinks are limited.
struct Edge {
    socket: PathBuf,
    reverse: bool,
}

impl Edge {
    /// Bits a second that both uplinks carry while all streams of a span run.
    fn rate_in_the_middle(&self, span: Span) -> Result<f64> {
        let seconds = |seconds: u16| Duration::from_secs(seconds.into());
        self.wait_for_streams()?;
        std::thread::sleep(seconds(span.omitted + RAGGED_S));
        let (before, begun) = (self.carried()?, Instant::now());
        std::thread::sleep(seconds(span.seconds.saturating_sub(2 * RAGGED_S).max(1)));
        let (after, elapsed) = (self.carried()?, begun.elapsed());
        let bytes = after.iter().sum::<u64>() - before.iter().sum::<u64>();
        Ok(bytes as f64 * 8.0 / elapsed.as_secs_f64())
    }

    /// Until the streams have begun: on a busy machine their programs take a while to start.
    fn wait_for_streams(&self) -> Result<()> {
        let (before, deadline) = (self.carried()?.iter().sum::<u64>(), Instant::now() + READY_LIMIT);
        while self.carried()?.iter().sum::<u64>() < before + BEGUN && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Bytes that each uplink has carried in the direction of the streams.
    fn carried(&self) -> Result<[u64; 2]> {
        let mut client = Client::connect(&self.socket)?;
        let mut bytes = [0; 2];
        for (bytes, port) in bytes.iter_mut().zip(UPLINKS) {
            match client.ask(&Request::GetPhysicalPortStats { name: port.into() })? {
                Answer::PhysicalPortStats(counted) if self.reverse => *bytes = counted.tx_bytes,
                Answer::PhysicalPortStats(counted) => *bytes = counted.rx_bytes,
                _ => return Err(BenchError::Document(format!("{EDGE} does not say what {port} carries"))),
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use sluice_intent::plan::Teaming;

    use super::*;

    #[test]
    fn every_document_is_one_that_the_node_takes() {
        let topology = topology().unwrap();
        for (node, document) in topology.daemons() {
            // The lab says of which kind its ports are.
            let mut document = document.clone();
            for port in document["ports"].as_array_mut().unwrap() {
                port["kind"] = json!("af_packet");
            }
            for placing in Placing::ALL {
                let text = placing.document(document.clone());
                let plan =
                    sluice_intent::parse(&text, &node.name).unwrap_or_else(|error| panic!("{error:?}"));
                assert_eq!(plan.tep_group.is_some(), placing != Placing::Single, "{}", node.name);
                assert!(plan.bfd.is_none());
                let pinned = plan.segments[0].teaming == Teaming::FailoverOrder;
                assert_eq!(pinned, placing == Placing::Single, "{}", node.name);
            }
        }
    }

    #[test]
    fn the_topology_limits_the_two_uplinks_of_the_edge_alone() {
        let topology = topology().unwrap();
        let limited: Vec<u64> = topology.links.iter().filter_map(|link| link.rate).collect();
        assert_eq!(limited, [RATE_MBPS * 1_000_000; 2]);
        assert!(WORKLOADS.iter().all(|workload| topology.node(workload).is_some()));
        let edge = topology.node(EDGE).unwrap();
        assert!(UPLINKS.iter().all(|port| edge.interfaces.iter().any(|interface| interface.name == *port)));
    }
}
