//! Properties over random documents: valid ones pass and survive being written and read; mutilated ones never panic.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the exemption for tests does not reach.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use sluice_intent::document::Document;
use sluice_intent::plan::{
    Encapsulation, Location, Plan, Replication, StaticRoute, Tier, Transit, UplinkInterface, Via,
};
use sluice_intent::testing::{arbitrary_document, arbitrary_plan};

fn plan(document: &Document) -> Plan {
    document.plan("generated").unwrap_or_else(|problems| panic!("{problems}"))
}

/// What the plan promises its readers, looked up again.
fn assert_promises(plan: &Plan) {
    for uplink in &plan.uplinks {
        assert!(uplink.port.index() < plan.ports.len());
    }
    for tep in &plan.teps {
        assert!(tep.mtu <= plan.ports[plan.uplinks[tep.uplink.index()].port.index()].mtu);
        assert!(tep.vlan.is_none_or(|vlan| !vlan.is_untagged()));
    }
    for segment in &plan.segments {
        assert_eq!(segment.teps.is_empty(), plan.teps.is_empty());
        let distinct: std::collections::HashSet<_> = segment.teps.iter().collect();
        assert_eq!(distinct.len(), segment.teps.len());
        assert_eq!(segment.gateway.is_none(), segment.gateway_addresses.is_empty());
        let remotes: std::collections::HashSet<_> = segment.remote_teps.iter().collect();
        assert_eq!(remotes.len(), segment.remote_teps.len());
        if let Some(tep) = segment.teps.first().map(|tep| &plan.teps[tep.index()]) {
            assert!(segment.mtu + 200 <= tep.mtu);
            assert!(remotes.iter().all(|remote| remote.is_ipv4() == tep.address.addr().is_ipv4()));
        }
    }
    for workload in &plan.workloads {
        let segment = &plan.segments[workload.segment.index()];
        if let Location::RemoteTep(remote) = workload.location {
            assert_eq!(segment.remote_teps.contains(&remote), segment.replication == Replication::Source);
        }
    }
    for (index, gateway) in plan.gateways.iter().enumerate() {
        for hop in gateway.static_routes.iter().flat_map(|route| &route.next_hops) {
            let link_local =
                matches!(hop.address, std::net::IpAddr::V6(address) if address.is_unicast_link_local());
            let subnets = match (hop.via, &gateway.tier) {
                (Via::Interface(interface), Tier::Tier0 { interfaces, .. }) => {
                    &interfaces[usize::from(interface)].addresses
                }
                (Via::Segment(segment), _) => {
                    let segment = &plan.segments[segment.index()];
                    assert_eq!(segment.gateway.unwrap().index(), index);
                    &segment.gateway_addresses
                }
                (Via::Interface(_), Tier::Tier1 { .. }) => panic!("a tier-1 has no interfaces"),
            };
            assert!(link_local || subnets.iter().any(|subnet| subnet.contains(&hop.address)));
        }
    }
}

/// The schema as other tools read it, without our formats.
static SCHEMA: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&sluice_intent::schema()).unwrap());

/// Generators that never yield something test nothing about it.
#[test]
fn the_generator_reaches_every_feature() {
    let mut runner = TestRunner::deterministic();
    let plans: Vec<Plan> =
        (0..300).map(|_| arbitrary_plan().new_tree(&mut runner).unwrap().current()).collect();
    let count = |feature: &dyn Fn(&Plan) -> bool| plans.iter().filter(|plan| feature(plan)).count();
    let tier0 = |plan: &Plan, feature: &dyn Fn(&[UplinkInterface], Option<&Transit>) -> bool| {
        plan.gateways.iter().any(|gateway| {
            matches!(&gateway.tier, Tier::Tier0 { interfaces, transit } if feature(interfaces, transit.as_ref()))
        })
    };
    let hops = |plan: &Plan, feature: &dyn Fn(&StaticRoute) -> bool| {
        plan.gateways.iter().any(|gateway| gateway.static_routes.iter().any(feature))
    };
    let own = |plan: &Plan, transit: Option<&Transit>| {
        transit.is_some_and(|transit| transit.service_routers.iter().any(|router| router.edge == plan.name))
    };
    let features: [(&str, usize); 18] = [
        ("IPv6 TEP", count(&|plan| plan.teps.iter().any(|tep| tep.address.addr().is_ipv6()))),
        ("IPv4 TEP", count(&|plan| plan.teps.iter().any(|tep| tep.address.addr().is_ipv4()))),
        ("TEP with VLAN", count(&|plan| plan.teps.iter().any(|tep| tep.vlan.is_some()))),
        ("no TEP", count(&|plan| plan.teps.is_empty())),
        ("VXLAN", count(&|plan| plan.segments.iter().any(|s| s.encapsulation == Encapsulation::Vxlan))),
        ("no replication", count(&|plan| plan.segments.iter().any(|s| s.replication == Replication::None))),
        (
            "segment of two families",
            count(&|plan| plan.segments.iter().any(|s| s.gateway_addresses.len() == 2)),
        ),
        ("remote", count(&|p| p.workloads.iter().any(|w| matches!(w.location, Location::RemoteTep(_))))),
        (
            "local",
            count(&|p| p.workloads.iter().any(|w| matches!(w.location, Location::Port { vlan: None, .. }))),
        ),
        (
            "tagged",
            count(&|p| {
                p.workloads.iter().any(|w| matches!(w.location, Location::Port { vlan: Some(_), .. }))
            }),
        ),
        (
            "linked tier-1",
            count(&|p| p.gateways.iter().any(|g| matches!(g.tier, Tier::Tier1 { link: Some(_) }))),
        ),
        ("interface", count(&|plan| tier0(plan, &|i, _| i.iter().any(|i| i.vlan.is_none())))),
        ("interface with VLAN", count(&|plan| tier0(plan, &|i, _| i.iter().any(|i| i.vlan.is_some())))),
        ("transit to others only", count(&|plan| tier0(plan, &|_, t| t.is_some() && !own(plan, t)))),
        ("own service router", count(&|plan| tier0(plan, &|_, t| own(plan, t)))),
        ("ECMP", count(&|plan| hops(plan, &|route| route.next_hops.len() > 1))),
        ("blackhole", count(&|plan| hops(plan, &|route| route.next_hops.is_empty()))),
        ("IPv6 route", count(&|p| hops(p, &|r| r.prefix.addr().is_ipv6() && !r.next_hops.is_empty()))),
    ];
    for (feature, count) in features {
        assert!(count >= 15, "only {count} of 300 plans have: {feature}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn generated_plans_keep_their_promises(plan in arbitrary_plan()) {
        assert_promises(&plan);
    }

    #[test]
    fn documents_survive_yaml_and_json(document in arbitrary_document()) {
        let expected = plan(&document);
        let yaml = document.to_yaml().unwrap();
        let from_yaml = sluice_intent::parse(&yaml, "yaml");
        prop_assert_eq!(from_yaml.as_ref(), Ok(&expected), "{}", yaml);
        let json = document.to_json().unwrap();
        let from_json = sluice_intent::parse(&json, "json");
        prop_assert_eq!(from_json.as_ref(), Ok(&expected), "{}", json);
        prop_assert_eq!(serde_json::from_str::<Document>(&json).unwrap(), document);
    }

    #[test]
    fn the_schema_accepts_generated_documents(document in arbitrary_document()) {
        let value = serde_json::to_value(&document).unwrap();
        prop_assert!(SCHEMA.is_valid(&value));
    }

    #[test]
    fn mutilated_texts_never_panic(
        document in arbitrary_document(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "\\PC{0,6}"), 1..6),
    ) {
        let mut text: Vec<char> = document.to_yaml().unwrap().chars().collect();
        for (at, length, inserted) in cuts {
            let at = at.index(text.len().max(1)).min(text.len());
            let end = (at + length.index(12)).min(text.len());
            text.splice(at..end, inserted.chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(problems) = sluice_intent::parse(&text, "mutilated") {
            prop_assert!(!problems.problems().is_empty());
            prop_assert!(problems.problems().iter().all(|problem| !problem.message.is_empty()));
        }
    }

    #[test]
    fn mutilated_values_never_panic(
        document in arbitrary_document(),
        changes in proptest::collection::vec((any::<u32>(), 0usize..8), 1..8),
    ) {
        let mut value = serde_json::to_value(&document).unwrap();
        for (number, kind) in changes {
            mutilate(&mut value, number, kind);
        }
        if let Err(problems) = sluice_intent::parse(&value.to_string(), "mutilated") {
            prop_assert!(problems.problems().iter().all(|problem| problem.position.is_some() || value.is_null()));
        }
    }

    #[test]
    fn any_text_is_accepted_or_refused(text in "[\\[\\]{}a-c:,&*!|>'\"# \n\t-]{0,80}") {
        prop_assert!(sluice_intent::parse(&text, "any").is_err());
    }
}

/// Changes one value, found by walking down as `number` says: removes, repeats or replaces it.
fn mutilate(value: &mut serde_json::Value, number: u32, kind: usize) {
    use serde_json::Value;
    let (step, rest) = (number as usize % 7, number / 7);
    match value {
        Value::Object(fields) if rest > 0 && !fields.is_empty() => {
            let key = fields.keys().nth(step % fields.len()).unwrap().clone();
            if rest < 7 && kind == 0 {
                fields.shift_remove(&key);
            } else if rest < 7 && kind == 1 {
                let content = fields.shift_remove(&key).unwrap();
                fields.insert(format!("{key}x"), content);
            } else {
                mutilate(&mut fields[&key], rest, kind);
            }
        }
        Value::Array(items) if rest > 0 && !items.is_empty() => {
            let index = step % items.len();
            if rest < 7 && kind == 2 {
                items.push(items[index].clone());
            } else {
                mutilate(&mut items[index], rest, kind);
            }
        }
        other => {
            *other = match kind {
                3 => Value::Null,
                4 => Value::from(number),
                5 => Value::from("10.1.0.1"),
                6 => serde_json::json!([{}]),
                _ => serde_json::json!({ "name": "x" }),
            };
        }
    }
}
