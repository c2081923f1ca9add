//! Answers to the control socket's requests.

mod dataplane;
mod logical;
mod ports;
mod teps;
mod uplinks;

use anyhow::Context;
use sluice_control::{Answer, DataplaneState, Request, RingDirection, Status};
use sluice_intent::plan::Role;

use super::node::{Failure, Node};
use super::tracing_packets;
pub(super) use dataplane::CpuSample;
pub(super) use logical::segment_of;

/// Descriptors that a ring may have.
const RING_SIZES: [u16; 4] = [512, 1024, 2048, 4096];

/// Answers a request at once. Those that take a while are answered by [`super::apply`] and [`super::capture`].
pub(super) fn answer(node: &mut Node, request: Request) -> anyhow::Result<Answer> {
    Ok(match request {
        Request::GetStatus => Answer::Status(status(node)),
        Request::GetDataplane => Answer::Dataplane(dataplane::dataplane(node)?),
        Request::GetCpuStats => Answer::CpuStats(dataplane::cpu_stats(node)?),
        Request::GetFlowCacheConfig => Answer::FlowCacheConfig(dataplane::flow_cache_config(node)),
        Request::GetFlowCacheStats => Answer::FlowCacheStats(dataplane::flow_cache_stats(node)?),
        Request::GetStages => Answer::Stages(dataplane::stages(node)?),
        Request::GetLogicalSwitches => Answer::LogicalSwitches(logical::switches(node)),
        Request::GetWorkloads => Answer::Workloads(logical::workloads(node)),
        Request::GetLogicalRouters => Answer::LogicalRouters(logical::routers(node)),
        Request::GetRoute { router } => Answer::Routes(logical::routes(node, router.as_deref())?),
        Request::GetForwarding { router } => {
            Answer::Forwarding(logical::forwarding(node, router.as_deref())?)
        }
        Request::GetPhysicalPorts => Answer::PhysicalPorts(ports::physical_ports(node)?),
        Request::GetPhysicalPortStats { name } => Answer::PhysicalPortStats(ports::statistics(node, &name)?),
        Request::GetHostSwitches => Answer::HostSwitches(vec![uplinks::host_switch(node)?]),
        Request::GetLags => Answer::Lags(uplinks::lags(node)?),
        Request::GetVteps => Answer::Vteps(ports::vteps(node)?),
        Request::GetTunnelPorts => Answer::TunnelPorts(ports::tunnel_ports(node)),
        Request::GetTnTepGroups => Answer::TnTepGroups(teps::groups(node)?),
        Request::GetBfdSessions => Answer::BfdSessions(teps::bfd_sessions(node)?),
        Request::GetAlarms => Answer::Alarms(teps::alarms(node)),
        Request::GetNeighbor => Answer::Neighbors(ports::neighbors(node)),
        Request::GetDrops => Answer::Drops(dataplane::drops(node)?),
        Request::SetRingSize { direction, size } => Answer::Done(set_ring_size(node, direction, size)?),
        Request::SetFlowCache { enabled } => {
            node.set_flow_cache(enabled);
            let state = if enabled { "enabled" } else { "disabled: every packet is decided afresh" };
            Answer::Done(format!("the flow cache is {state}"))
        }
        Request::SetProfile { enabled } => {
            running(node)?;
            node.set_profile(enabled);
            Answer::Done(match enabled {
                true => {
                    "the profile is enabled: 'get dataplane stages' shows the cycles from now on".to_owned()
                }
                false => "the profile is disabled: 'get dataplane stages' shows what it counted".to_owned(),
            })
        }
        Request::RecoverTep { name } => {
            let clock = running(node)?.clock;
            node.teps.recover(&name, &node.snapshot, clock)?;
            Answer::Done(format!("TEP '{name}' is used again"))
        }
        Request::RestartDataplane => {
            node.restart()?;
            Answer::Done("the data plane was restarted".to_owned())
        }
        Request::Trace(packet) => Answer::Trace(tracing_packets::trace(node, packet)?),
        Request::Apply { .. } | Request::StartCapture { .. } => {
            anyhow::bail!("this takes a while and is answered on a connection of its own")
        }
    })
}

fn status(node: &Node) -> Status {
    let role = match node.plan.role {
        Role::Host => "host",
        Role::Edge => "edge",
        Role::Branch => "branch",
    };
    Status {
        name: node.plan.name.clone(),
        role: role.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_s: node.started.elapsed().as_secs(),
        generation: node.snapshot.generation(),
        dataplane: match &node.failure {
            None => DataplaneState::Running,
            Some(Failure { since, reason }) => {
                DataplaneState::NotRunning { for_s: since.elapsed().as_secs(), reason: reason.clone() }
            }
        },
    }
}

fn set_ring_size(node: &mut Node, direction: RingDirection, size: u16) -> anyhow::Result<String> {
    if !RING_SIZES.contains(&size) {
        anyhow::bail!("a ring has 512, 1024, 2048 or 4096 descriptors, not {size}");
    }
    let (ring, name) = match direction {
        RingDirection::Rx => (&mut node.next_rings.rx, "receive"),
        RingDirection::Tx => (&mut node.next_rings.tx, "transmit"),
    };
    *ring = size;
    Ok(format!(
        "{name} rings will have {size} descriptors after 'restart service dataplane'; to keep that, write it into the node document"
    ))
}

/// The data plane, which is there unless a restart failed.
fn running(node: &Node) -> anyhow::Result<&crate::dataplane::Dataplane> {
    node.dataplane.as_ref().context("the data plane is not running; 'restart service dataplane' starts it")
}

/// An identifier that follows from a kind and a name, the same on every node.
fn uuid(kind: &str, name: &str) -> String {
    let namespace = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, kind.as_bytes());
    uuid::Uuid::new_v5(&namespace, name.as_bytes()).to_string()
}
