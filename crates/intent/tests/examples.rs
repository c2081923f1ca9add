//! The examples that users start from pass every check, and the schema accepts them.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the exemption for tests does not reach.

use std::path::{Path, PathBuf};

use sluice_intent::plan::{Location, Plan, Replication, Tier, Via};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn accepted_by_schema(text: &str) -> bool {
    let value: serde_json::Value = serde_saphyr::from_str(text).unwrap();
    jsonschema::is_valid(&sluice_intent::schema(), &value)
}

/// The YAML blocks of a Markdown text that are whole documents.
fn documents_in(markdown: &str) -> Vec<String> {
    let blocks = markdown.split("```yaml\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks.filter(|block| block.contains("version: 1")).collect()
}

fn load_example(name: &str) -> Plan {
    sluice_intent::load(&repository().join("examples").join(name))
        .unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn every_example_file_passes() {
    let mut count = 0;
    for entry in std::fs::read_dir(repository().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        sluice_intent::load(&path).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(accepted_by_schema(&text), "{}", path.display());
        count += 1;
    }
    assert!(count >= 3, "only {count} examples were found");
}

#[test]
fn every_document_in_the_reference_passes() {
    let text = std::fs::read_to_string(repository().join("docs/node-document.md")).unwrap();
    let documents = documents_in(&text);
    assert!(documents.len() >= 2, "only {} documents were found", documents.len());
    for document in documents {
        sluice_intent::parse(&document, "docs/node-document.md")
            .unwrap_or_else(|problems| panic!("{problems}"));
        assert!(accepted_by_schema(&document));
    }
}

#[test]
fn the_reference_names_every_field() {
    fn fields(schema: &serde_json::Value, into: &mut Vec<String>) {
        if let Some(properties) = schema["properties"].as_object() {
            into.extend(properties.keys().cloned());
        }
    }
    let schema = sluice_intent::schema();
    let mut names = Vec::new();
    fields(&schema, &mut names);
    schema["$defs"].as_object().unwrap().values().for_each(|definition| fields(definition, &mut names));
    let text = std::fs::read_to_string(repository().join("docs/node-document.md")).unwrap();
    let missing: Vec<_> = names.iter().filter(|name| !text.contains(&format!("`{name}`"))).collect();
    assert!(names.len() > 60, "the schema has only {} fields", names.len());
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
fn the_host_example_in_the_plan() {
    let plan = load_example("host.yaml");
    assert_eq!(plan.teps[0].mtu, 1700, "the port's MTU is the default");
    assert_eq!(plan.dataplane.rx_ring_size, 512);
    assert_eq!(plan.dataplane.flow_cache.size, 262_144);
    assert_eq!(plan.dataplane.flow_cache.idle_timeout_s, 60);
    assert_eq!((plan.dataplane.idle_sleep_us, plan.dataplane.memory_mib), (100, 256));
    assert_eq!(plan.router_mac, sluice_intent::plan::DEFAULT_ROUTER_MAC);
    let segment = &plan.segments[0];
    assert_eq!(segment.teps[0].index(), 0);
    assert_eq!(segment.remote_teps, ["172.16.1.20".parse::<std::net::IpAddr>().unwrap()]);
    assert!(matches!(plan.workloads[0].location, Location::Port { port, vlan: None } if port.index() == 1));
}

#[test]
fn the_large_example_in_the_plan() {
    let plan = load_example("everything.yaml");
    let [web, database, isolated, storage] = plan.segments.as_slice() else { panic!("four segments") };
    let remote = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
    assert_eq!(web.remote_teps, [remote("172.16.1.30"), remote("172.16.1.20")]);
    assert_eq!(database.remote_teps, [remote("2001:db8:1::20")]);
    assert_eq!((isolated.replication, isolated.teps[0].index()), (Replication::None, 0));
    assert_eq!(storage.gateway.unwrap().index(), 0);
    assert_eq!(plan.teps[1].mtu, 1700);

    let Tier::Tier0 { interfaces, transit: Some(transit) } = &plan.gateways[0].tier else { panic!("tier 0") };
    assert_eq!(interfaces[0].vlan.unwrap().get(), 100);
    assert_eq!(transit.service_routers.len(), 2);
    let routes = &plan.gateways[0].static_routes;
    assert_eq!(
        routes[0].next_hops.iter().map(|hop| hop.via).collect::<Vec<_>>(),
        [Via::Interface(0), Via::Interface(1)]
    );
    assert_eq!(routes[1].next_hops[0].via, Via::Interface(0));
    assert_eq!(routes[2].next_hops, []);
    let Tier::Tier1 { link: Some(link) } = &plan.gateways[1].tier else { panic!("tier 1") };
    assert_eq!(link.tier0.index(), 0);
    let hop = plan.gateways[1].static_routes[0].next_hops[0];
    assert!(matches!(hop.via, Via::Segment(segment) if segment.index() == 1));
}
