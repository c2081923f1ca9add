//! Logical ports at a worker: which member a frame leaves through, and whose a frame is that a member received.
//!
//! ```text
//! engine ─→ LAG ──── hash of the frame → bucket ─→ member ─┐
//!    │                                                     ├─→ transmit queue of a physical port
//!    └────→ team ─── the one active member ──────→ port ───┘   (a member of a team may be a LAG)
//!
//! physical port ─→ LACP, markers ──→ control thread
//!        ├── its LAG does not use it ──→ dropped        ┌─ the VLAN is a team's, and it is on another member: dropped
//!        └── engine, as the LAG's, or as the team's ────┘
//! ```
//!
//! Which members carry traffic the control thread says by one store for each logical port ([`ActiveMembers`]). A LAG has 256 buckets, each with
//! a member for its own; while that carries nothing, its buckets are dealt out to those that do. So only the flows of a member that fails
//! move, and they come back with it. Ports that are no members never come here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrayvec::ArrayVec;
use sluice_datapath::link_hash::link_hash;
use sluice_intent::plan::{LoadBalancing, LogicalPort, MAX_PORTS, Plan, PortIndex, Tier};
use sluice_wire::EtherType;
use sluice_wire::slow_protocols::MULTICAST;

/// Buckets of a LAG.
const BUCKETS: usize = 256;
/// A bucket that no member takes.
const NOBODY: u8 = u8::MAX;

/// Which members of each logical port carry traffic, one bit each. Written by the control thread, read by the workers.
#[derive(Debug, Default)]
pub(crate) struct ActiveMembers(Box<[AtomicU32]>);

impl ActiveMembers {
    /// Of a LAG none yet, of a team the first.
    pub(crate) fn new(plan: &Plan) -> Self {
        let lags = plan.lags.iter().map(|_| AtomicU32::new(0));
        Self(lags.chain(plan.teams.iter().map(|_| AtomicU32::new(1))).collect())
    }

    /// The members of the logical port at this position, LAGs before teams.
    #[inline]
    pub(crate) fn get(&self, position: usize) -> u32 {
        self.0.get(position).map_or(0, |members| members.load(Ordering::Relaxed))
    }

    /// Has these members carry traffic, from each worker's next frame on.
    pub(crate) fn set(&self, position: usize, members: u32) {
        if let Some(entry) = self.0.get(position) {
            entry.store(members, Ordering::Relaxed);
        }
    }
}

/// Whose a received frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The engine's, as if this port had received it.
    Port(PortIndex),
    /// The control thread's: LACP or a marker.
    SlowProtocols,
    /// Nobody's: the link carries no traffic.
    Nobody,
}

/// The logical ports of a plan; see the [module](self). Each worker has its own.
#[derive(Debug, Default)]
pub(crate) struct LogicalPorts {
    physical: usize,
    seed: u64,
    active: Arc<ActiveMembers>,
    /// By logical port.
    outbound: Box<[Outbound]>,
    /// By physical port; none for those that are no members.
    inbound: Box<[Option<Inbound>]>,
}

#[derive(Debug)]
enum Outbound {
    Lag(Buckets),
    Team(Box<[PortIndex]>),
}

/// How the frames of a LAG are spread.
#[derive(Debug)]
struct Buckets {
    fields: LoadBalancing,
    /// Its physical ports.
    members: Box<[u8]>,
    /// The active members that the buckets were dealt out to.
    dealt: u32,
    /// The physical port of each.
    ports: Box<[u8; BUCKETS]>,
}

/// What a physical port is a member of.
#[derive(Debug)]
struct Inbound {
    /// Its LAG, and the bit that it is there.
    lag: Option<Membership>,
    /// The LAG, or the port itself: what is on it without a team.
    base: PortIndex,
    /// The teams that the base is a member of, by the VLANs that are theirs, sorted.
    teams: Box<[(u16, PortIndex, Membership)]>,
}

/// A bit of a logical port.
#[derive(Clone, Copy, Debug)]
struct Membership {
    position: usize,
    bit: u32,
}

impl LogicalPorts {
    /// Those of a plan, with the members that `active` says at any time. `seed` makes nodes spread flows differently.
    pub(crate) fn new(plan: &Plan, active: Arc<ActiveMembers>, seed: u64) -> Self {
        let physical = plan.ports.len();
        let outbound = plan.port_indices().skip(physical).filter_map(|port| {
            Some(match plan.logical_port(port)? {
                LogicalPort::Lag(lag) => Outbound::Lag(Buckets::new(lag.load_balancing, &lag.ports)),
                LogicalPort::Team(team) => Outbound::Team(team.ports.clone().into()),
            })
        });
        let inbound = (0..physical as u16).map(|port| Inbound::of(plan, PortIndex(port)));
        Self { physical, seed, active, outbound: outbound.collect(), inbound: inbound.collect() }
    }

    /// Whether what a physical port receives has to be looked at here.
    pub(crate) fn is_member(&self, port: PortIndex) -> bool {
        self.inbound.get(port.index()).is_some_and(Option::is_some)
    }

    /// The physical port that a frame leaves through; none while no member carries traffic.
    #[inline]
    pub(crate) fn member(&mut self, port: PortIndex, frame: &[u8]) -> Option<usize> {
        let mut position = port.index().checked_sub(self.physical)?;
        if let Outbound::Team(members) = self.outbound.get(position)? {
            let member = members.get(self.active.get(position).trailing_zeros() as usize)?.index();
            match member.checked_sub(self.physical) {
                None => return Some(member),
                Some(lag) => position = lag,
            }
        }
        let active = self.active.get(position);
        match self.outbound.get_mut(position)? {
            Outbound::Lag(buckets) => buckets.choose(active, frame, self.seed),
            // A team has no teams.
            Outbound::Team(_) => None,
        }
    }

    /// Whose a frame is that a physical port received.
    #[inline]
    pub(crate) fn owner(&self, port: PortIndex, frame: &[u8]) -> Owner {
        let Some(Some(inbound)) = self.inbound.get(port.index()) else { return Owner::Port(port) };
        if let Some(lag) = inbound.lag {
            if is_slow_protocols(frame) {
                return Owner::SlowProtocols;
            }
            if !self.is_active(lag) {
                return Owner::Nobody;
            }
        }
        if inbound.teams.is_empty() {
            return Owner::Port(inbound.base);
        }
        let vlan = vlan_of(frame);
        match inbound.teams.binary_search_by_key(&vlan, |(vlan, ..)| *vlan) {
            Err(_) => Owner::Port(inbound.base),
            Ok(found) => {
                let (_, team, membership) = inbound.teams[found];
                if self.is_active(membership) { Owner::Port(team) } else { Owner::Nobody }
            }
        }
    }

    fn is_active(&self, Membership { position, bit }: Membership) -> bool {
        self.active.get(position) & bit != 0
    }
}

impl Inbound {
    fn of(plan: &Plan, port: PortIndex) -> Option<Self> {
        let bit = |members: &[PortIndex], port| members.iter().position(|member| *member == port);
        let lag = plan.lag_of(port).and_then(|position| {
            Some(Membership { position, bit: 1 << bit(&plan.lags[position].ports, port)? })
        });
        let base = lag.map_or(port, |lag| plan.lag_port(lag.position));
        let mut teams = Vec::new();
        for (number, team) in plan.teams.iter().enumerate() {
            let Some(place) = bit(&team.ports, base) else { continue };
            let membership = Membership { position: plan.lags.len() + number, bit: 1 << place };
            let team = plan.team_port(number);
            teams.extend(vlans_on(plan, team).into_iter().map(|vlan| (vlan, team, membership)));
        }
        teams.sort_unstable_by_key(|(vlan, ..)| *vlan);
        (lag.is_some() || !teams.is_empty()).then(|| Self { lag, base, teams: teams.into() })
    }
}

/// The VLANs of what is on a port; 0: untagged.
fn vlans_on(plan: &Plan, port: PortIndex) -> Vec<u16> {
    let here = |uplink: sluice_intent::plan::UplinkIndex| plan.uplinks[uplink.index()].port == port;
    let teps = plan.teps.iter().filter(|tep| here(tep.uplink)).map(|tep| tep.vlan);
    let interfaces = plan.gateways.iter().flat_map(|gateway| match &gateway.tier {
        Tier::Tier0 { interfaces, .. } => interfaces.as_slice(),
        Tier::Tier1 { .. } => &[],
    });
    let interfaces = interfaces.filter(|interface| here(interface.uplink)).map(|interface| interface.vlan);
    let mut vlans: Vec<u16> = teps.chain(interfaces).map(|vlan| vlan.map_or(0, u16::from)).collect();
    vlans.sort_unstable();
    vlans.dedup();
    vlans
}

impl Buckets {
    fn new(fields: LoadBalancing, members: &[PortIndex]) -> Self {
        let members = members.iter().map(|port| port.0 as u8).collect();
        Self { fields, members, dealt: 0, ports: Box::new([NOBODY; BUCKETS]) }
    }

    #[inline]
    fn choose(&mut self, active: u32, frame: &[u8], seed: u64) -> Option<usize> {
        if active != self.dealt {
            self.deal(active);
        }
        let port = self.ports[(link_hash(self.fields, frame, seed) >> 56) as usize];
        (port != NOBODY).then_some(usize::from(port))
    }

    /// Gives each bucket its own member, or another one while that is not active.
    #[cold]
    fn deal(&mut self, active: u32) {
        self.dealt = active;
        let is_active = |position: &usize| active & (1 << *position) != 0;
        // On the stack: a worker never allocates.
        let able: ArrayVec<u8, MAX_PORTS> = self
            .members
            .iter()
            .enumerate()
            .filter(|(position, _)| is_active(position))
            .map(|(_, port)| *port)
            .collect();
        for (bucket, port) in self.ports.iter_mut().enumerate() {
            let (own, round) = (bucket % self.members.len(), bucket / self.members.len());
            let taken =
                if is_active(&own) { self.members.get(own) } else { able.get(round % able.len().max(1)) };
            *port = taken.copied().unwrap_or(NOBODY);
        }
    }
}

/// Whether a frame is one of the slow protocols, to their address and without VLAN tag.
#[inline]
fn is_slow_protocols(frame: &[u8]) -> bool {
    frame.first_chunk() == Some(&MULTICAST.0)
        && frame.get(12..14) == Some(&EtherType::SLOW_PROTOCOLS.0.to_be_bytes())
}

/// The VLAN of a frame; 0: untagged.
#[inline]
fn vlan_of(frame: &[u8]) -> u16 {
    match frame.get(12..).and_then(<[u8]>::first_chunk::<4>) {
        Some([high, low, tag @ ..]) if [*high, *low] == EtherType::VLAN.0.to_be_bytes() => {
            u16::from_be_bytes(*tag) & 0xfff
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use std::collections::HashMap;

    use sluice_wire::frame::FrameBuilder;
    use sluice_wire::{MacAddr, VlanId};

    use super::*;

    const PLAN: &str = r#"
version: 1
name: edge-1
role: edge
ports:
  - {name: a, kind: af_packet, interface: a}
  - {name: b, kind: af_packet, interface: b}
  - {name: c, kind: af_packet, interface: c}
  - {name: d, kind: af_packet, interface: d}
  - {name: e, kind: af_packet, interface: e}
lags:
  - {name: lag-1, ports: [b, c, d]}
uplinks:
  - {name: uplink-1, port: lag-1}
  - {name: uplink-2, port: a}
uplink-profile:
  teaming: {policy: failover-order, active: [uplink-1], standby: [uplink-2]}
  transport-vlan: 120
teps:
  - {name: tep-1, address: 172.16.1.10/24}
  - {name: tep-2, address: 172.16.2.10/24, uplink: uplink-1, vlan: 0}
"#;
    const LAG: PortIndex = PortIndex(5);
    const TEAM: PortIndex = PortIndex(6);

    fn ports() -> (LogicalPorts, Arc<ActiveMembers>) {
        let plan = sluice_intent::parse(PLAN, "node.yaml").unwrap();
        let active = Arc::new(ActiveMembers::new(&plan));
        (LogicalPorts::new(&plan, Arc::clone(&active), 7), active)
    }

    fn flow(number: u16) -> Vec<u8> {
        let frame = FrameBuilder::new().ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        frame.ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into()).udp(number, 6081).build().unwrap()
    }

    fn tagged(vlan: u16) -> Vec<u8> {
        let frame = FrameBuilder::new().ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        frame.vlan(VlanId::new(vlan).unwrap()).ipv4([1, 1, 1, 1].into(), [2, 2, 2, 2].into()).build().unwrap()
    }

    fn spread(ports: &mut LogicalPorts) -> Vec<Option<usize>> {
        (0..3000).map(|number| ports.member(LAG, &flow(number))).collect()
    }

    #[test]
    fn only_the_flows_of_a_member_that_fails_move_and_they_come_back() {
        let (mut ports, active) = ports();
        assert!(spread(&mut ports).iter().all(Option::is_none), "no member is active");
        active.set(0, 0b111);
        let all = spread(&mut ports);
        let count = |spread: &[Option<usize>]| {
            let mut counts = HashMap::new();
            spread.iter().for_each(|port| *counts.entry(port.unwrap()).or_insert(0) += 1);
            counts
        };
        let counts = count(&all);
        assert!((1..=3).all(|port| (850..1150).contains(&counts[&port])), "{counts:?}");
        active.set(0, 0b101);
        let without = spread(&mut ports);
        for (before, after) in all.iter().zip(&without) {
            assert!(*after != Some(2) && (*before == Some(2) || before == after), "{before:?} {after:?}");
        }
        let counts = count(&without);
        assert!([1, 3].iter().all(|port| (1350..1650).contains(&counts[port])), "{counts:?}");
        active.set(0, 0b111);
        assert_eq!(spread(&mut ports), all);
    }

    #[test]
    fn a_team_sends_through_its_one_active_member() {
        let (mut ports, active) = ports();
        assert_eq!(ports.member(TEAM, &flow(1)), None, "a LAG without links");
        active.set(0, 0b010);
        assert_eq!(ports.member(TEAM, &flow(1)), Some(2));
        active.set(1, 0b10);
        assert_eq!(ports.member(TEAM, &flow(1)), Some(0));
        assert_eq!(ports.member(PortIndex(7), &flow(1)), None, "no port of the plan");
    }

    #[test]
    fn a_member_hands_in_what_it_receives_while_it_is_active() {
        let (ports, active) = ports();
        let slow = FrameBuilder::new().ethernet(MacAddr([2; 6]), MULTICAST);
        let slow = slow.lacp(sluice_wire::lacp::Lacp::default()).build().unwrap();
        let owners = |ports: &LogicalPorts, port: u16| {
            [&slow, &flow(1), &tagged(120), &tagged(9)].map(|frame| ports.owner(PortIndex(port), frame))
        };
        assert!((0..4).all(|port| ports.is_member(PortIndex(port))) && !ports.is_member(PortIndex(4)));
        assert_eq!(owners(&ports, 4), [Owner::Port(PortIndex(4)); 4], "no member at all");
        assert_eq!(owners(&ports, 2), [Owner::SlowProtocols, Owner::Nobody, Owner::Nobody, Owner::Nobody]);
        active.set(0, 0b010);
        let lag = Owner::Port(LAG);
        assert_eq!(owners(&ports, 2), [Owner::SlowProtocols, lag, Owner::Port(TEAM), lag]);
        assert_eq!(owners(&ports, 3), [Owner::SlowProtocols, Owner::Nobody, Owner::Nobody, Owner::Nobody]);
        let own = Owner::Port(PortIndex(0));
        assert_eq!(owners(&ports, 0), [own, own, Owner::Nobody, own], "the uplink that stands by");
        active.set(1, 0b10);
        assert_eq!(owners(&ports, 0), [own, own, Owner::Port(TEAM), own]);
        assert_eq!(owners(&ports, 2), [Owner::SlowProtocols, lag, Owner::Nobody, lag]);
        assert_eq!(ports.owner(PortIndex(2), &[0; 5]), lag, "the engine refuses what is too short");
    }
}
