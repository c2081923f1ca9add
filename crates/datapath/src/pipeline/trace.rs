//! What the pipeline did with a packet, step by step, for the operator who asks.

use sluice_wire::MacAddr;

use crate::neighbor::NeighborKey;
use crate::snapshot::router::Route;
use crate::snapshot::segment::{Addresses, Place};
use crate::snapshot::{IngressKind, RouterId, SegmentId};

/// Sees the steps of a decision.
pub(crate) trait Tracer {
    /// Takes a step; the closure is not called where nobody looks.
    fn step(&mut self, step: impl FnOnce() -> Step);
}

/// Nobody looks: costs nothing.
pub(crate) struct Silent;

impl Tracer for Silent {
    #[inline(always)]
    fn step(&mut self, _: impl FnOnce() -> Step) {}
}

/// Keeps every step.
#[derive(Default)]
pub(crate) struct Recorder(pub(crate) Vec<Step>);

impl Tracer for Recorder {
    fn step(&mut self, step: impl FnOnce() -> Step) {
        self.0.push(step());
    }
}

/// A step of a decision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Where the packet entered.
    Ingress(IngressKind),
    /// A router looked up the destination.
    Route { router: RouterId, arrival: Addresses, route: Option<Route> },
    /// One of several equal ways was chosen by the flow's hash.
    EqualCost { chosen: usize, of: usize },
    /// A next hop on an uplink was looked up.
    Neighbor { key: NeighborKey, mac: Option<MacAddr> },
    /// A segment's switch found the destination.
    Switch { segment: SegmentId, destination: MacAddr, place: Place },
    /// A segment's switch sends copies to all.
    Replicate { segment: SegmentId },
}
