//! What the pipeline did with a packet, step by step, for the operator who asks; and where its stages begin, for a profile.

use std::net::IpAddr;

use sluice_wire::MacAddr;

use crate::neighbor::NeighborKey;
use crate::profile::{Profile, Stage};
use crate::snapshot::router::Route;
use crate::snapshot::segment::{Addresses, Place};
use crate::snapshot::{IngressKind, RouterId, SegmentId};

/// Sees the steps of a decision.
pub(crate) trait Tracer {
    /// Takes a step; the closure is not called where nobody looks.
    fn step(&mut self, step: impl FnOnce() -> Step);

    /// A stage begins.
    #[inline(always)]
    fn enter(&mut self, _: Stage) {}
}

/// Nobody looks: costs nothing.
pub(crate) struct Silent;

impl Tracer for Silent {
    #[inline(always)]
    fn step(&mut self, _: impl FnOnce() -> Step) {}
}

/// Tells a profile of the stages. Nobody looks at the steps.
pub(crate) struct Profiled<'a, P>(pub(crate) &'a mut P);

impl<P: Profile> Tracer for Profiled<'_, P> {
    #[inline(always)]
    fn step(&mut self, _: impl FnOnce() -> Step) {}

    #[inline(always)]
    fn enter(&mut self, stage: Stage) {
        self.0.enter(stage, 1);
    }
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
    /// One of several tunnels was chosen; `replaced`: in the place of the flow's own, which is not usable.
    Tunnel { local: IpAddr, remote: IpAddr, of: usize, replaced: bool },
    /// A next hop on an uplink was looked up.
    Neighbor { key: NeighborKey, mac: Option<MacAddr> },
    /// A segment's switch found the destination.
    Switch { segment: SegmentId, destination: MacAddr, place: Place },
    /// A segment's switch sends copies to all.
    Replicate { segment: SegmentId },
}
