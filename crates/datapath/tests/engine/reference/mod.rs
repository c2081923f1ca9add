//! A plain model of the logical network, to compare the engine with.
//!
//! It knows the plan, the ports' MAC addresses and the neighbours, and works a packet through them with owned copies and linear scans: no
//! snapshot, no flow key, no cache. It is written from the RFCs and the documentation of the plan and the engine, and shares with the
//! engine only the number types of `sluice_wire` and its checksum.
//!
//! Where the engine may choose (a next hop of equal cost, by a hash of its own), the model yields every outcome that is right; whoever
//! compares takes the one that matches, and holds the engine to it for the rest of the flow.

mod forward;
mod packet;
mod respond;
mod route;
mod tunnel;

use std::collections::HashMap;
use std::net::IpAddr;

use sluice_datapath::drops::DropReason;
use sluice_datapath::neighbor::NeighborKey;
use sluice_datapath::punt::{Entry, PuntKind};
use sluice_intent::plan::{Plan, PortIndex};
use sluice_wire::MacAddr;

use packet::Frame;

/// What the outcome of a packet depends on.
#[derive(Clone)]
pub(crate) struct Reference {
    pub(crate) plan: Plan,
    /// MAC addresses of the plan's ports.
    pub(crate) macs: Vec<MacAddr>,
    pub(crate) neighbors: HashMap<NeighborKey, MacAddr>,
    /// Choices that the engine has made: for a flow and some ways, which of them.
    pub(crate) chosen: HashMap<(Flow, Ways), usize>,
    /// Source ports and flow labels of the outer headers of a flow.
    pub(crate) entropy: HashMap<Flow, (u16, Option<u32>)>,
}

/// What a packet is assigned to one of several ways by: all packets with the same value go the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Flow {
    addresses: Option<(IpAddr, IpAddr)>,
    protocol: u8,
    ports: (u16, u16),
}

/// What a flow chooses from: it chooses alike wherever it has the same choice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ways {
    /// So many next hops of equal cost.
    EqualCost(usize),
    /// Tunnels between these TEPs. Where the TEP follows from where flows come from, and not from the flow: that place and the source MAC address.
    Tunnels(Vec<(IpAddr, IpAddr)>, Option<(Ingress, MacAddr)>),
}

impl Ways {
    fn count(&self) -> usize {
        match self {
            Self::EqualCost(count) => *count,
            Self::Tunnels(pairs, _) => pairs.len(),
        }
    }
}

/// What became of a packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sent: Vec<Sent>,
    pub(crate) punted: Vec<(PuntKind, Entry, Vec<u8>)>,
    /// Reasons that are counted.
    pub(crate) drops: Vec<DropReason>,
    /// Ways taken of several: the flow, what there was, which.
    pub(crate) taken: Vec<(Flow, Ways, usize)>,
}

/// A frame that leaves.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) port: PortIndex,
    pub(crate) frame: Vec<u8>,
    /// Fields of the outer headers that the engine fills with the flow's entropy; 0 in `frame`.
    pub(crate) outer: Option<Outer>,
}

/// Where the entropy of a tunnel packet stands.
#[derive(Clone, Debug)]
pub(crate) struct Outer {
    flow: Flow,
    /// Offset of the UDP source port.
    source_port: usize,
    /// Offset of the first word of an outer IPv6 header.
    label: Option<usize>,
}

/// Where a packet entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ingress {
    Workload {
        segment: usize,
        port: PortIndex,
        vlan: u16,
    },
    Tunnel {
        segment: usize,
    },
    Transit {
        gateway: usize,
    },
    Uplink {
        interface: Option<(usize, usize)>,
        port: PortIndex,
        vlan: u16,
    },
    /// The gateway itself sends it.
    Gateway,
    /// The segment's proxy sends it.
    Proxy,
}

/// A packet on its way.
#[derive(Clone, Debug)]
struct Arrived {
    ingress: Ingress,
    entry: Entry,
    frame: Frame,
    /// The frame carried a tag.
    tagged: bool,
    /// Traffic class of the outer header.
    outer_class: Option<u8>,
    /// The frame as it came in.
    raw: Vec<u8>,
}

/// One packet's way through the model.
struct Run<'a> {
    reference: &'a Reference,
    plan: &'a Plan,
    /// Ways to take of several, where the flow has not been seen yet.
    script: Vec<usize>,
    asked: usize,
    widths: Vec<usize>,
    outcome: Outcome,
}

impl Reference {
    pub(crate) fn new(plan: &Plan, macs: Vec<MacAddr>) -> Self {
        let (neighbors, chosen, entropy) = Default::default();
        Self { plan: plan.clone(), macs, neighbors, chosen, entropy }
    }

    /// Every right outcome of a frame that comes in at a port.
    pub(crate) fn outcomes(&self, port: PortIndex, frame: &[u8]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let mut script = Vec::new();
        loop {
            let mut run = Run {
                reference: self,
                plan: &self.plan,
                script,
                asked: 0,
                widths: Vec::new(),
                outcome: Outcome::default(),
            };
            run.receive(port, frame);
            let Run { outcome, widths, script: used, .. } = run;
            outcomes.push(outcome);
            let Some(next) = following(used, &widths) else { return outcomes };
            script = next;
        }
    }

    /// Takes note of what the engine chose, or tells what is wrong with it: the entropy of one frame.
    pub(crate) fn check_entropy(&mut self, outer: &Outer, frame: &mut [u8]) -> Result<(), String> {
        let at = outer.source_port;
        let Some(port) = frame.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]])) else {
            return Err("too short for a tunnel packet".into());
        };
        if port < 49_152 {
            return Err(format!("outer source port {port} is not in the dynamic range"));
        }
        frame[at..at + 2].fill(0);
        let label = outer.label.map(|at| {
            let word = u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
            frame[at..at + 4].copy_from_slice(&(word & !0xf_ffff).to_be_bytes());
            word & 0xf_ffff
        });
        let (first_port, first_label) = self.entropy.entry(outer.flow.clone()).or_insert((port, label));
        *first_label = first_label.or(label);
        if *first_port != port || label.is_some_and(|label| *first_label != Some(label)) {
            return Err(format!("{:?} had source port {first_port}, now {port}", outer.flow));
        }
        Ok(())
    }
}

/// The script after this one, in the order of counting; none after the last.
fn following(mut script: Vec<usize>, widths: &[usize]) -> Option<Vec<usize>> {
    script.resize(widths.len(), 0);
    while let Some(last) = script.pop() {
        if last + 1 < widths[script.len()] {
            script.push(last + 1);
            return Some(script);
        }
    }
    None
}

impl Run<'_> {
    /// One of several next hops, the same for all packets of the flow.
    fn choose<T: Clone>(&mut self, flow: &Flow, hops: &[T]) -> Option<T> {
        let chosen = self.choose_of(flow, Ways::EqualCost(hops.len()));
        hops.get(chosen).cloned()
    }

    /// The position of one of several ways, the same for all packets of the flow.
    fn choose_of(&mut self, flow: &Flow, ways: Ways) -> usize {
        let count = ways.count();
        let already = self
            .outcome
            .taken
            .iter()
            .find(|(other, of, _)| (other, of) == (flow, &ways))
            .map(|taken| taken.2);
        let known = already.or_else(|| self.reference.chosen.get(&(flow.clone(), ways.clone())).copied());
        let way = match (known, count) {
            (Some(way), _) => way,
            (None, 0 | 1) => 0,
            (None, _) => {
                let way = self.script.get(self.asked).copied().unwrap_or(0);
                self.asked += 1;
                self.widths.push(count);
                way
            }
        };
        if count > 1 {
            self.outcome.taken.push((flow.clone(), ways, way));
        }
        way
    }

    fn drop(&mut self, reason: DropReason) {
        self.outcome.drops.push(reason);
    }

    fn punt(&mut self, kind: PuntKind, arrived: &Arrived) {
        self.outcome.punted.push((kind, arrived.entry, arrived.raw.clone()));
    }

    fn send(&mut self, port: PortIndex, frame: Vec<u8>, outer: Option<Outer>) {
        self.outcome.sent.push(Sent { port, frame, outer });
    }

    fn neighbor(&self, key: &NeighborKey) -> Option<MacAddr> {
        self.reference.neighbors.get(key).copied()
    }
}
