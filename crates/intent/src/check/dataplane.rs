//! The node itself: its router MAC address, cores and flow cache.

use std::collections::HashMap;

use super::Scope;
use super::addresses::require_unicast_mac;
use crate::plan;
use crate::problem::{Findings, Path};

pub(super) fn check(scope: &Scope<'_>, findings: &mut Findings) -> Option<plan::Dataplane> {
    if let Some(mac) = scope.draft.router_mac {
        require_unicast_mac(mac, Path::root().field("router-mac"), findings);
    }
    let dataplane = scope.draft.dataplane.as_ref()?;
    let path = || Path::root().field("dataplane");

    let mut seen = HashMap::new();
    for (index, core) in dataplane.cores.iter().enumerate() {
        if let Some(first) = seen.insert(core, index) {
            let message = format!("core {core} is already given at cores[{first}]; name each core once");
            findings.report(path().field("cores").index(index), message);
        }
    }
    let size = dataplane.flow_cache.size;
    if !size.is_power_of_two() {
        let (above, below) = (size.next_power_of_two(), size.next_power_of_two() / 2);
        let message = format!("{size} is not a power of two; give {below} or {above}");
        findings.report(path().field("flow-cache").field("size"), message);
    }
    Some(plan::Dataplane {
        cores: dataplane.cores.clone(),
        rx_ring_size: dataplane.ring_size.rx,
        tx_ring_size: dataplane.ring_size.tx,
        flow_cache: plan::FlowCache {
            enabled: dataplane.flow_cache.enabled,
            size,
            idle_timeout_s: dataplane.flow_cache.idle_timeout_s,
        },
        idle_sleep_us: dataplane.idle_sleep_us,
        memory_mib: dataplane.memory_mib,
        huge_pages: dataplane.huge_pages,
    })
}
