//! Random documents and plans that pass every check, for property and differential tests.
//!
//! A document is drawn in two steps. Proptest draws `Choices`, which are small numbers and flags and so shrink well. The
//! builder then turns any choices into a valid document, giving out addresses, VLANs and identifiers so that none collide.

mod build;
mod routing;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::document::{Document, Name};
use crate::plan::{Encapsulation, Plan, Replication, Role};

/// A valid document of any role: segments of both families with local and remote workloads, TEPs of both families with and
/// without VLAN, tier-1 gateways with and without link, a tier-0 with uplink interfaces, transit segment and ECMP static routes.
pub fn arbitrary_document() -> impl Strategy<Value = Document> {
    prop_oneof![Just(Role::Host), Just(Role::Edge), Just(Role::Branch)].prop_flat_map(arbitrary_document_of)
}

/// [`arbitrary_document`] of one role.
pub fn arbitrary_document_of(role: Role) -> impl Strategy<Value = Document> {
    choices().prop_map(move |choices| build::document(role, &choices))
}

/// The plan of an [`arbitrary_document`].
pub fn arbitrary_plan() -> impl Strategy<Value = Plan> {
    arbitrary_document().prop_map(plan)
}

/// The plan of an [`arbitrary_document_of`] a role.
pub fn arbitrary_plan_of(role: Role) -> impl Strategy<Value = Plan> {
    arbitrary_document_of(role).prop_map(plan)
}

/// # Panics
///
/// Where the builder made a document that the checks refuse, which is a mistake in one of the two.
fn plan(document: Document) -> Plan {
    document.plan("generated").unwrap_or_else(|problems| panic!("{problems}\n{document:#?}"))
}

/// What a document is built from. Numbers that choose among things are taken modulo how many there are.
#[derive(Clone, Debug)]
struct Choices {
    name: Name,
    base_vni: u32,
    uplinks: usize,
    jumbo: bool,
    workload_ports: usize,
    teps: Vec<TepChoice>,
    /// Whether the TEPs are a group where there are enough of them, and those of other nodes are.
    groups: (bool, bool),
    tier0: Option<Tier0Choice>,
    tier1s: Vec<Tier1Choice>,
    segments: Vec<SegmentChoice>,
}

/// Which families something has. Neither means IPv4.
#[derive(Clone, Copy, Debug)]
struct Families {
    v4: bool,
    v6: bool,
}

impl Families {
    fn v4(self) -> bool {
        self.v4 || !self.v6
    }
}

#[derive(Clone, Debug)]
struct TepChoice {
    v6: bool,
    uplink: usize,
    vlan: Option<u16>,
    gateway: bool,
}

#[derive(Clone, Debug)]
struct Tier0Choice {
    interfaces: Vec<InterfaceChoice>,
    transit: Option<TransitChoice>,
    routes: Vec<RouteChoice>,
}

#[derive(Clone, Debug)]
struct InterfaceChoice {
    tagged: bool,
    families: Families,
}

#[derive(Clone, Debug)]
struct TransitChoice {
    encapsulation: Encapsulation,
    tep: usize,
    named: bool,
    families: Families,
    other_edges: usize,
}

#[derive(Clone, Debug)]
struct Tier1Choice {
    linked: bool,
    families: Families,
    routes: Vec<RouteChoice>,
}

#[derive(Clone, Debug)]
struct RouteChoice {
    v6: bool,
    bits: u128,
    length: u8,
    next_hops: Vec<usize>,
}

#[derive(Clone, Debug)]
struct SegmentChoice {
    encapsulation: Encapsulation,
    tep: usize,
    named: bool,
    mtu: usize,
    gateway: Option<usize>,
    families: Families,
    replication: Replication,
    remote_teps: usize,
    workloads: Vec<WorkloadChoice>,
}

#[derive(Clone, Debug)]
struct WorkloadChoice {
    remote: Option<usize>,
    tagged: bool,
    addresses: usize,
    link_local: bool,
}

fn choices() -> impl Strategy<Value = Choices> {
    // Names of digits, or like numbers and truth values of YAML, must survive being written and read.
    let name = prop_oneof!["[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,12}", "true|null|off|0x10|1e3|12|1_000|0o7"]
        .prop_map(|text| text.parse().expect("the pattern yields names"));
    let groups = (any::<bool>(), any::<bool>());
    let head = (name, 1u32..16_000_000, 1usize..=3, any::<bool>(), 1usize..=6, groups);
    let rest = (
        vec(tep(), 0..=3),
        proptest::option::weighted(0.8, tier0()),
        vec(tier1(), 0..=3),
        vec(segment(), 1..=6),
    );
    (head, rest).prop_map(
        |((name, base_vni, uplinks, jumbo, workload_ports, groups), (teps, tier0, tier1s, segments))| {
            Choices { name, base_vni, uplinks, jumbo, workload_ports, teps, groups, tier0, tier1s, segments }
        },
    )
}

fn families() -> impl Strategy<Value = Families> {
    (any::<bool>(), any::<bool>()).prop_map(|(v4, v6)| Families { v4, v6 })
}

fn encapsulation() -> impl Strategy<Value = Encapsulation> {
    prop_oneof![Just(Encapsulation::Geneve), Just(Encapsulation::Vxlan)]
}

fn tep() -> impl Strategy<Value = TepChoice> {
    (any::<bool>(), 0usize..8, proptest::option::of(0u16..=4094), any::<bool>())
        .prop_map(|(v6, uplink, vlan, gateway)| TepChoice { v6, uplink, vlan, gateway })
}

fn route() -> impl Strategy<Value = RouteChoice> {
    (any::<bool>(), any::<u128>(), 0u8..=128, vec(0usize..64, 0..=8))
        .prop_map(|(v6, bits, length, next_hops)| RouteChoice { v6, bits, length, next_hops })
}

fn tier0() -> impl Strategy<Value = Tier0Choice> {
    let interface =
        (any::<bool>(), families()).prop_map(|(tagged, families)| InterfaceChoice { tagged, families });
    let transit = (encapsulation(), 0usize..8, any::<bool>(), families(), 0usize..=3).prop_map(
        |(encapsulation, tep, named, families, other_edges)| TransitChoice {
            encapsulation,
            tep,
            named,
            families,
            other_edges,
        },
    );
    (vec(interface, 0..=4), proptest::option::weighted(0.7, transit), vec(route(), 0..=5))
        .prop_map(|(interfaces, transit, routes)| Tier0Choice { interfaces, transit, routes })
}

fn tier1() -> impl Strategy<Value = Tier1Choice> {
    (any::<bool>(), families(), vec(route(), 0..=3)).prop_map(|(linked, families, routes)| Tier1Choice {
        linked,
        families,
        routes,
    })
}

fn segment() -> impl Strategy<Value = SegmentChoice> {
    let workload = (proptest::option::of(0usize..4), any::<bool>(), 0usize..=2, any::<bool>()).prop_map(
        |(remote, tagged, addresses, link_local)| WorkloadChoice { remote, tagged, addresses, link_local },
    );
    let head =
        (encapsulation(), 0usize..8, any::<bool>(), 0usize..4, proptest::option::weighted(0.8, 0usize..8));
    let replication = prop_oneof![3 => Just(Replication::Source), 1 => Just(Replication::None)];
    (head, families(), replication, 0usize..=3, vec(workload, 0..=5)).prop_map(
        |((encapsulation, tep, named, mtu, gateway), families, replication, remote_teps, workloads)| {
            SegmentChoice {
                encapsulation,
                tep,
                named,
                mtu,
                gateway,
                families,
                replication,
                remote_teps,
                workloads,
            }
        },
    )
}
