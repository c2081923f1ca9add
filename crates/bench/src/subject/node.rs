//! A node that runs the bench's document.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_control::{Answer, Client, Request};
use sluice_intent::document::Document;
use sluice_intent::plan;

use super::{Counters, LINKS_LIMIT, Setting, Subject};
use crate::error::{BenchError, Result, While};
use crate::generator::Generator;
use crate::process::{Process, find};
use crate::topology::{
    HOST_TEP, TESTER_IPV4, TESTER_IPV6, WORKLOADS, workload_ipv4, workload_ipv6, workload_mac,
};

/// The document as it is kept.
const DOCUMENT: &str = include_str!("../../documents/edge.yaml");
/// How long the node may take to start.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long next hops may take to be resolved.
const NEIGHBOR_LIMIT: Duration = Duration::from_secs(10);

/// The node and its generator.
#[derive(Debug)]
pub(crate) struct Node {
    client: Client,
    control: PathBuf,
    text: String,
    process: Process,
    generator: Generator,
    core: u16,
}

/// The document that a node runs, as YAML.
///
/// # Errors
///
/// None for paths that are UTF-8.
pub(crate) fn document(socket: &Path, core: u16, huge_pages: bool, zero_copy: bool) -> Result<String> {
    let wrong = |error: &dyn std::fmt::Display| BenchError::Document(error.to_string());
    let mut document: Document = serde_saphyr::from_str(DOCUMENT).map_err(|error| wrong(&error))?;
    document.dataplane.cores = vec![core];
    document.dataplane.huge_pages = if huge_pages { plan::HugePages::Auto } else { plan::HugePages::Off };
    for port in &mut document.ports {
        port.socket = Some(socket.to_owned());
        port.zero_copy = zero_copy.then_some(true);
    }
    document.to_yaml().map_err(|error| wrong(&error))
}

impl Node {
    /// Starts both and waits until the node has resolved its next hops.
    pub(crate) fn start(setting: &Setting) -> Result<Self> {
        let folder = setting.folder_of("sluice")?;
        let (memif, control, config) =
            (folder.join("memif.sock"), folder.join("control.sock"), folder.join("edge.yaml"));
        let core = setting.cores[1];
        let text = document(&memif, core, setting.huge_pages, setting.zero_copy)?;
        std::fs::write(&config, &text).during(|| format!("writing {}", config.display()))?;
        let mut generator = setting.start_traffic(&folder, &memif, 1)?;
        let program = find(
            "sluiced",
            setting.sluiced.as_deref(),
            "build it with `cargo build --release -p sluice-node`, or name it with --sluiced",
        )?;
        let mut process = Process::start("sluiced", &program, &folder, false, |command| {
            command.arg("--config").arg(&config).arg("--socket").arg(&control);
        })?;
        let what = "it answered on its control socket";
        let mut client =
            process.wait_for(what, START_LIMIT, &setting.interrupt, || Client::connect(&control).ok())?;
        generator.wait_for_links(LINKS_LIMIT)?;
        process.wait_for("its next hops were resolved", NEIGHBOR_LIMIT, &setting.interrupt, || {
            resolved(&mut client).then_some(())
        })?;
        Ok(Self { client, control, text, process, generator, core })
    }

    /// A document with another logical network than the node was started with, and that one.
    pub(crate) fn documents(&self) -> Result<[String; 2]> {
        Ok([with_more(&self.text)?, self.text.clone()])
    }

    /// Another connection to the node's control socket.
    pub(crate) fn another_client(&self) -> Result<Client> {
        Ok(Client::connect(&self.control)?)
    }
}

/// The same document with a workload and a route more, to which no packet goes.
fn with_more(text: &str) -> Result<String> {
    let wrong = |error: &dyn std::fmt::Display| BenchError::Document(error.to_string());
    let mut other: Document = serde_saphyr::from_str(text).map_err(|error| wrong(&error))?;
    let mut workload = other.workloads.first().cloned().ok_or_else(|| wrong(&"it has no workload"))?;
    workload.name = "vm-more".to_owned().try_into().map_err(|error| wrong(&error))?;
    workload.mac = workload_mac(WORKLOADS);
    workload.addresses = vec![workload_ipv4(WORKLOADS).into(), workload_ipv6(WORKLOADS).into()];
    other.workloads.push(workload);
    let routes = other.gateways.first_mut().map(|gateway| &mut gateway.static_routes);
    if let Some(routes) = routes
        && let Some(mut route) = routes.first().cloned()
    {
        route.prefix = "203.0.113.0/24".parse().map_err(|error| wrong(&error))?;
        routes.push(route);
    }
    other.to_yaml().map_err(|error| wrong(&error))
}

/// Whether all next hops have a MAC address.
fn resolved(client: &mut Client) -> bool {
    let Ok(Answer::Neighbors(neighbors)) = client.ask(&Request::GetNeighbor) else { return false };
    let hops: [std::net::IpAddr; 3] = [TESTER_IPV4.into(), TESTER_IPV6.into(), HOST_TEP.into()];
    hops.iter().all(|hop| neighbors.iter().any(|entry| entry.address == *hop && !entry.mac.is_empty()))
}

impl Subject for Node {
    fn name(&self) -> &'static str {
        "sluice"
    }

    fn generator(&mut self) -> &mut Generator {
        &mut self.generator
    }

    fn counters(&mut self) -> Result<Counters> {
        let Answer::CpuStats(cores) = self.client.ask(&Request::GetCpuStats)? else {
            return Err(self.process.failed("it does not tell its cycles"));
        };
        let Answer::FlowCacheStats(caches) = self.client.ask(&Request::GetFlowCacheStats)? else {
            return Err(self.process.failed("it does not tell its flow cache's counts"));
        };
        Ok(Counters {
            packets: cores.iter().map(|core| core.rx_packets).sum(),
            busy_cycles: cores.iter().map(|core| core.busy_cycles).sum(),
            heap_allocations: Some(cores.iter().map(|core| core.heap_allocations).sum()),
            cache: Some((
                caches.iter().map(|cache| cache.hits).sum(),
                caches.iter().map(|cache| cache.misses).sum(),
            )),
        })
    }

    fn drops(&mut self) -> Result<Vec<(String, u64)>> {
        match self.client.ask(&Request::GetDrops)? {
            Answer::Drops(drops) => Ok(drops.into_iter().map(|drop| (drop.reason, drop.packets)).collect()),
            _ => Err(self.process.failed("it does not tell its drops")),
        }
    }

    fn forwarding_thread(&self) -> Option<u32> {
        self.process.thread(&format!("worker-{}", self.core))
    }

    fn pause(&self) {
        self.process.pause();
        self.generator.process().pause();
    }

    fn resume(&self) {
        self.process.resume();
        self.generator.process().resume();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sluice_intent::plan::{Location, MemifRole, PortKind};

    use super::*;
    use crate::topology::*;

    #[test]
    fn the_document_is_a_plan_of_the_topology() {
        let text = document(Path::new("/tmp/x.sock"), 3, false, false).unwrap();
        let plan = sluice_intent::parse(&text, "edge.yaml").unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(plan.dataplane.cores, [3]);
        assert_eq!(plan.dataplane.huge_pages, plan::HugePages::Off);
        assert_eq!(plan.router_mac, ROUTER_MAC);
        assert_eq!(plan.ports[0].mac, Some(UPLINK_MAC));
        assert_eq!(plan.ports[1].mac, Some(DOWNLINK_MAC));
        for (id, port) in (0..).zip(&plan.ports) {
            let socket = "/tmp/x.sock".into();
            assert_eq!(port.kind, PortKind::Memif { socket, id, role: MemifRole::Client, zero_copy: false });
        }
        assert_eq!(plan.teps[0].address.addr(), EDGE_TEP);
        assert_eq!((plan.segments.len(), plan.segments[0].vni), (1, VNI));
        assert_eq!(plan.workloads.len(), usize::from(WORKLOADS));
        for workload in 0..WORKLOADS {
            let addresses: BTreeSet<std::net::IpAddr> =
                [workload_ipv4(workload).into(), workload_ipv6(workload).into()].into();
            let entry = plan.workloads.iter().find(|entry| entry.mac == workload_mac(workload)).unwrap();
            assert_eq!(entry.addresses.iter().copied().collect::<BTreeSet<_>>(), addresses);
            assert_eq!(entry.location, Location::RemoteTep(HOST_TEP.into()));
        }
        let hops: Vec<_> =
            plan.gateways[0].static_routes.iter().map(|route| route.next_hops[0].address).collect();
        assert_eq!(
            hops.iter().copied().collect::<BTreeSet<_>>(),
            BTreeSet::from([TESTER_IPV4.into(), TESTER_IPV6.into()])
        );
    }

    #[test]
    fn the_other_document_differs_in_the_logical_network_alone() {
        let text = document(Path::new("/tmp/x.sock"), 1, false, false).unwrap();
        let plan = |text: &str| {
            sluice_intent::parse(text, "edge.yaml").unwrap_or_else(|problems| panic!("{problems}"))
        };
        let (one, other) = (plan(&text), plan(&with_more(&text).unwrap()));
        assert_eq!((&one.ports, &one.dataplane), (&other.ports, &other.dataplane));
        assert_eq!(other.workloads.len(), one.workloads.len() + 1);
        assert_eq!(other.gateways[0].static_routes.len(), one.gateways[0].static_routes.len() + 1);
    }

    #[test]
    fn the_document_is_whole_as_it_is_kept() {
        let plan =
            sluice_intent::parse(DOCUMENT, "edge.yaml").unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(plan.name, "bench-edge");
        let lent = document(Path::new("/tmp/x.sock"), 1, true, true).unwrap();
        let plan = sluice_intent::parse(&lent, "edge.yaml").unwrap();
        assert!(plan.ports.iter().all(|port| matches!(port.kind, PortKind::Memif { zero_copy: true, .. })));
    }
}
