//! Does what a command asks for: one request to the node, its answer printed.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use serde_json::json;
use sluice_control::{Answer, Request, RingDirection};

use crate::arguments::{
    CaptureOf, CpuPart, DataplanePart, Direction, FlowCachePart, Get, LocalCommand, NodeCommand, PortPart,
    Restart, RouterTable, Service, Set, SetDataplane, SetTep, Start, Switch, VrfCommand,
};
use crate::error::CliError;
use crate::line::View;
use crate::output::{Output, print};
use crate::show::show;
use crate::target::Target;
use crate::{apply, capture};

/// Does what needs no node.
pub(crate) fn local(command: &LocalCommand, view: &View) -> Result<(), CliError> {
    let output = match command {
        LocalCommand::Schema => {
            let schema = sluice_intent::schema();
            Output::sentence(format!("{schema:#}"), schema)
        }
        LocalCommand::Version => {
            let version = env!("CARGO_PKG_VERSION");
            Output::sentence(format!("sluice {version}"), json!({ "version": version }))
        }
    };
    print(&output, view)
}

/// Asks a node. `vrf` is the VRF that the shell is in.
pub(crate) fn node(
    command: NodeCommand,
    target: &Target,
    vrf: Option<u16>,
    view: &View,
) -> Result<(), CliError> {
    let answer = match command {
        NodeCommand::Get { what } => get(what, target, vrf)?,
        NodeCommand::Vrf { vrf, command: Some(VrfCommand::Get { table }) } => {
            router_table(table, vrf, target)?
        }
        NodeCommand::Vrf { vrf, command: None } => {
            return Err(CliError::usage(format!(
                "'vrf {vrf}' alone enters the VRF in the shell; here say what to show, as 'vrf {vrf} get route'"
            )));
        }
        NodeCommand::Set { what: Set::Dataplane { what } } => target.ask(&setting(&what)?)?,
        NodeCommand::Set { what: Set::Tep { name, what: SetTep::Recover } } => {
            target.ask(&Request::RecoverTep { name })?
        }
        NodeCommand::Restart { what: Restart::Service { service: Service::Dataplane { yes } } } => {
            if !yes {
                confirm(
                    "Restarting the data plane closes and opens all ports; traffic is interrupted. Restart?",
                )?;
            }
            target.ask(&Request::RestartDataplane)?
        }
        NodeCommand::Apply { file, dry_run } => return print(&apply::apply(&file, dry_run, target)?, view),
        NodeCommand::Start { what: Start::Capture { of: CaptureOf::Interface(options) } } => {
            capture::capture(&options.request()?, target)?
        }
        NodeCommand::Trace { packet } => target.ask(&Request::Trace(packet.packet()?))?,
    };
    print(&show(&answer)?, view)
}

/// Checks that the node has a VRF.
pub(crate) fn router_of_vrf(vrf: u16, target: &Target) -> Result<String, CliError> {
    let Answer::LogicalRouters(routers) = target.ask(&Request::GetLogicalRouters)? else {
        return Err(CliError::OtherAnswer);
    };
    match routers.iter().find(|router| router.vrf == vrf) {
        Some(router) => Ok(router.name.clone()),
        None => {
            let known: Vec<_> =
                routers.iter().map(|router| format!("{} ({})", router.vrf, router.name)).collect();
            Err(CliError::NoVrf { vrf, known: known.join(", ") })
        }
    }
}

fn get(what: Get, target: &Target, vrf: Option<u16>) -> Result<Answer, CliError> {
    let request = match what {
        Get::Dataplane { part } => match part {
            None => Request::GetDataplane,
            Some(DataplanePart::Cpu { part: CpuPart::Stats }) => Request::GetCpuStats,
            Some(DataplanePart::FlowCache { part: FlowCachePart::Config }) => Request::GetFlowCacheConfig,
            Some(DataplanePart::FlowCache { part: FlowCachePart::Stats }) => Request::GetFlowCacheStats,
            Some(DataplanePart::Stages) => Request::GetStages,
        },
        Get::LogicalSwitches => Request::GetLogicalSwitches,
        Get::Workloads => Request::GetWorkloads,
        Get::LogicalRouters => Request::GetLogicalRouters,
        Get::Route { router } => match (router, vrf) {
            (None, Some(vrf)) => return router_table(RouterTable::Route, vrf, target),
            (router, _) => Request::GetRoute { router },
        },
        Get::Forwarding { router } => match (router, vrf) {
            (None, Some(vrf)) => return router_table(RouterTable::Forwarding, vrf, target),
            (router, _) => Request::GetForwarding { router },
        },
        Get::PhysicalPorts => Request::GetPhysicalPorts,
        Get::PhysicalPort { name, what: PortPart::Stats } => Request::GetPhysicalPortStats { name },
        Get::Vteps => Request::GetVteps,
        Get::TunnelPorts { what: None | Some(PortPart::Stats) } => Request::GetTunnelPorts,
        Get::TnTepGroups => Request::GetTnTepGroups,
        Get::BfdSessions => Request::GetBfdSessions,
        Get::Alarms => Request::GetAlarms,
        Get::HostSwitches => Request::GetHostSwitches,
        Get::Lags => Request::GetLags,
        Get::Neighbor => Request::GetNeighbor,
        Get::Drops => Request::GetDrops,
        Get::Status => Request::GetStatus,
    };
    target.ask(&request)
}

/// A table of the gateway with this VRF. Gateways may share a name (a service router and its distributed router), VRFs they do not.
fn router_table(table: RouterTable, vrf: u16, target: &Target) -> Result<Answer, CliError> {
    let router = Some(router_of_vrf(vrf, target)?);
    let request = match table {
        RouterTable::Route => Request::GetRoute { router },
        RouterTable::Forwarding => Request::GetForwarding { router },
    };
    let mut answer = target.ask(&request)?;
    match &mut answer {
        Answer::Routes(routers) => routers.retain(|router| router.vrf == vrf),
        Answer::Forwarding(routers) => routers.retain(|router| router.vrf == vrf),
        _ => return Err(CliError::OtherAnswer),
    }
    Ok(answer)
}

fn setting(what: &SetDataplane) -> Result<Request, CliError> {
    Ok(match what {
        SetDataplane::RingSize { direction, size } => Request::SetRingSize {
            direction: match direction {
                Direction::Rx => RingDirection::Rx,
                Direction::Tx => RingDirection::Tx,
            },
            size: size.parse().map_err(|_| {
                CliError::usage(format!("'{size}' is no ring size; give 512, 1024, 2048 or 4096"))
            })?,
        },
        SetDataplane::FlowCache { state } => {
            Request::SetFlowCache { enabled: matches!(state, Switch::Enabled) }
        }
        SetDataplane::Profile { state } => Request::SetProfile { enabled: matches!(state, Switch::Enabled) },
    })
}

/// Asks on the terminal. Without one there is nobody to ask.
fn confirm(question: &str) -> Result<(), CliError> {
    if !stdin().is_terminal() {
        return Err(CliError::usage(
            "this needs a confirmation and there is no terminal to ask on; add --yes",
        ));
    }
    let mut answer = String::new();
    write!(stderr(), "{question} [y/N] ")
        .and_then(|()| stdin().lock().read_line(&mut answer))
        .map_err(|source| CliError::system("cannot ask on the terminal", source))?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CliError::NotConfirmed),
    }
}
