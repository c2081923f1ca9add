//! LAGs, uplinks, the uplink profile, and who uses which VLAN of them.

use std::collections::HashMap;

use super::addresses::require_unicast_mac;
use super::{Scope, each};
use crate::document::{Lag, Name, Teaming};
use crate::plan::{self, DEFAULT_TEAMING, PortIndex, TeamingPolicy, UplinkIndex};
use crate::problem::{Findings, Path};

pub(super) fn check_lags(scope: &Scope<'_>, findings: &mut Findings) -> Vec<Option<plan::Lag>> {
    let mut used = HashMap::new();
    each(&scope.draft.lags, |index, lag| {
        let path = || Path::entry("lags", index);
        if let Some(mac) = lag.mac {
            require_unicast_mac(mac, path().field("mac"), findings);
        }
        if let Some(port) = scope.ports.find(lag.name.as_str()) {
            let message = format!(
                "'{}' is also the name of ports[{port}]; uplinks name both, so give the LAG another name",
                lag.name
            );
            findings.report(path().field("name"), message);
        }
        if usize::from(lag.min_links) > lag.ports.len() {
            let (needed, ports) = (lag.min_links, lag.ports.len());
            let message =
                format!("the LAG has {ports} ports and would need {needed} links; give {ports} at most");
            findings.report(path().field("min-links"), message);
        }
        let ports = lag_ports(scope, lag, &path(), &mut used, findings);
        let (first, _) = ports.first()?;
        Some(plan::Lag {
            name: lag.name.to_string(),
            mtu: scope.draft.ports.get(*first)?.mtu,
            ports: ports.into_iter().map(|(_, port)| port).collect(),
            mac: lag.mac,
            activity: lag.activity,
            timeout: lag.timeout,
            load_balancing: lag.load_balancing,
            min_links: lag.min_links,
        })
    })
}

/// The ports of a LAG that exist. Those that are in one already, and those that carry less or more than the first, are noted.
fn lag_ports(
    scope: &Scope<'_>,
    lag: &Lag,
    path: &Path,
    used: &mut HashMap<usize, Name>,
    findings: &mut Findings,
) -> Vec<(usize, PortIndex)> {
    let mut ports: Vec<(usize, PortIndex)> = Vec::new();
    for (position, name) in lag.ports.iter().enumerate() {
        let path = path.clone().field("ports").index(position);
        let Some(port) = scope.ports.resolve(name.as_str(), path.clone(), findings) else { continue };
        if let Some(other) = used.insert(port, lag.name.clone()) {
            let whose = if other == lag.name { "this LAG".to_owned() } else { format!("LAG '{other}'") };
            findings.report(path, format!("port '{name}' is already in {whose}; a port is in one LAG, once"));
            continue;
        }
        let first = ports.first().and_then(|(first, _)| scope.draft.ports.get(*first));
        if let (Some(first), Some(this)) = (first, scope.draft.ports.get(port))
            && first.mtu != this.mtu
        {
            let message = format!(
                "port '{name}' has the MTU {} and port '{}' {}; the ports of a LAG have one MTU, so give them the same",
                this.mtu, first.name, first.mtu
            );
            findings.report(path, message);
        }
        ports.extend(u16::try_from(port).ok().map(|number| (port, PortIndex(number))));
    }
    ports
}

/// The LAG that a port is in.
pub(super) fn lag_with<'d>(scope: &Scope<'d>, port: &str) -> Option<&'d str> {
    let mut lags = scope.draft.lags.iter();
    lags.find(|(_, lag)| lag.ports.iter().any(|name| name.as_str() == port)).map(|(_, lag)| lag.name.as_str())
}

pub(super) fn check_uplinks(scope: &Scope<'_>, findings: &mut Findings) -> Vec<Option<plan::Uplink>> {
    let mut used = HashMap::new();
    let mut uplinks = each(&scope.draft.uplinks, |index, uplink| {
        let path = Path::entry("uplinks", index).field("port");
        let name = uplink.port.as_str();
        let base = match scope.lags.find(name).filter(|_| scope.ports.find(name).is_none()) {
            Some(lag) => scope.draft.ports.len() + lag,
            None if scope.lags.incomplete() && scope.ports.find(name).is_none() => return None,
            None => scope.ports.resolve(name, path.clone(), findings)?,
        };
        if let Some(lag) = lag_with(scope, name) {
            let message =
                format!("port '{name}' is a link of LAG '{lag}'; name the LAG, or take the port out of it");
            findings.report(path.clone(), message);
        }
        let first = *used.entry(base).or_insert(index);
        if first != index {
            let other = scope.draft.uplinks.get(first).map(|uplink| uplink.name.as_str()).unwrap_or_default();
            let what = scope.describe_base(base).map_or_else(|| format!("'{name}'"), |(what, _)| what);
            let message =
                format!("{what} already has the uplink '{other}'; a port has one uplink, so use that one");
            findings.report(path, message);
        }
        Some(plan::Uplink { name: uplink.name.to_string(), port: PortIndex(u16::try_from(base).ok()?) })
    });
    // One for each team, on the logical ports behind those of the LAGs.
    let first = scope.draft.ports.len() + scope.draft.lags.len();
    for (position, team) in scope.teamings.iter().filter(|teaming| teaming.team.is_some()).enumerate() {
        let port = u16::try_from(first + position).ok().map(PortIndex);
        uplinks.push(port.map(|port| plan::Uplink { name: team.name.to_owned(), port }));
    }
    uplinks
}

/// The failover teams that something uses.
pub(super) fn teams(scope: &Scope<'_>) -> Vec<Option<plan::Team>> {
    let teams = scope.teamings.iter().filter(|teaming| teaming.team.is_some());
    let team = |teaming: &super::teamings::Teaming<'_>| {
        let ports = teaming.team.map(|uplink| scope.bases(uplink)).unwrap_or_default();
        let port = |base: usize| u16::try_from(base).ok().map(PortIndex);
        Some(plan::Team {
            name: teaming.name.to_owned(),
            uplinks: positions(teaming.order()),
            ports: ports.into_iter().filter_map(port).collect(),
            mtu: scope.mtu_of_uplink(teaming.team?)?.1,
        })
    };
    teams.map(team).collect()
}

fn positions(uplinks: impl Iterator<Item = usize>) -> Vec<UplinkIndex> {
    uplinks.filter_map(|uplink| u16::try_from(uplink).ok().map(UplinkIndex)).collect()
}

pub(super) fn check_profile(scope: &Scope<'_>, findings: &mut Findings) -> Option<plan::UplinkProfile> {
    let profile = scope.profile()?;
    let path = || Path::root().field("uplink-profile");
    check_teaming(scope, &profile.teaming, &path().field("teaming"), findings);
    let mut names = HashMap::new();
    for (position, named) in profile.named_teamings.iter().enumerate() {
        let path = path().field("named-teamings").index(position);
        let first = *names.entry(&named.name).or_insert(position);
        if first != position {
            let message = format!(
                "'{}' is also the name of named-teamings[{first}]; give each teaming its own name",
                named.name
            );
            findings.report(path.clone().field("name"), message);
        } else if named.name.as_str() == DEFAULT_TEAMING {
            let message =
                format!("'{DEFAULT_TEAMING}' is how the profile's own teaming is called; give another name");
            findings.report(path.clone().field("name"), message);
        } else if [&scope.ports, &scope.lags].iter().any(|names| names.find(named.name.as_str()).is_some()) {
            let message =
                format!("'{}' is also the name of a port or LAG; give the teaming another name", named.name);
            findings.report(path.clone().field("name"), message);
        }
        check_teaming(scope, &named.teaming(), &path, findings);
    }
    let mut teamings = scope.teamings.iter().map(|teaming| plan::UplinkTeaming {
        name: teaming.name.to_owned(),
        policy: teaming.policy,
        active: positions(teaming.active.iter().copied()),
        standby: positions(teaming.standby.iter().copied()),
    });
    Some(plan::UplinkProfile {
        teaming: teamings.next()?,
        named_teamings: teamings.collect(),
        transport_vlan: profile.transport_vlan.filter(|vlan| !vlan.is_untagged()),
        mtu: profile.mtu,
        encapsulation: profile.encapsulation,
    })
}

fn check_teaming(scope: &Scope<'_>, teaming: &Teaming, path: &Path, findings: &mut Findings) {
    let mut seen: HashMap<&Name, String> = HashMap::new();
    for (field, uplinks) in [("active", &teaming.active), ("standby", &teaming.standby)] {
        for (position, name) in uplinks.iter().enumerate() {
            let path = path.clone().field(field).index(position);
            scope.uplinks.resolve(name.as_str(), path.clone(), findings);
            if let Some(first) = seen.get(name) {
                findings.report(
                    path,
                    format!("uplink '{name}' is already given at {first}; name each uplink once"),
                );
            } else {
                seen.insert(name, format!("{field}[{position}]"));
            }
        }
    }
    if teaming.policy != TeamingPolicy::FailoverOrder && !teaming.standby.is_empty() {
        let message =
            "only 'failover-order' has uplinks that stand by; add them to active, or change the policy";
        findings.report(path.clone().field("standby"), message);
    }
}

/// Notes a VLAN of a port or LAG that one thing uses by the uplink itself and another by a team that the uplink is in, or by another team:
/// nothing could tell whose a frame is.
pub(super) fn check_vlans(scope: &Scope<'_>, findings: &mut Findings) {
    let teps = scope.draft.teps.iter().filter_map(|(index, tep)| {
        let path = Path::entry("teps", index);
        Some((format!("TEP '{}'", tep.name), scope.uplink_of_tep(index, tep)?, scope.vlan_of_tep(tep), path))
    });
    let interfaces = scope.draft.gateways.iter().flat_map(|(number, gateway)| {
        gateway.interfaces.iter().filter_map(move |(position, interface)| {
            let path = Path::entry("gateways", number).field("interfaces").index(position);
            let owner = format!("interface '{}' of '{}'", interface.name, gateway.name);
            let vlan = interface.vlan.filter(|vlan| !vlan.is_untagged());
            Some((owner, scope.uplink_of_interface(interface)?, vlan, path))
        })
    });
    let mut users: HashMap<_, (usize, String)> = HashMap::new();
    for (owner, uplink, vlan, path) in teps.chain(interfaces) {
        for base in scope.bases(uplink) {
            let (first, other) = users.entry((base, vlan)).or_insert((uplink, owner.clone()));
            if *first == uplink {
                continue;
            }
            let what = scope.describe_base(base).map(|(what, _)| what).unwrap_or_default();
            let vlan = vlan.map_or_else(|| "untagged".to_owned(), |vlan| format!("with VLAN {vlan}"));
            let message = format!(
                "{what} {vlan} is already used by {other}, by way of '{}' and not of '{}'; give this one another VLAN, or \
                 the same uplink or teaming",
                scope.uplink_name(*first),
                scope.uplink_name(uplink)
            );
            findings.report(path.field("vlan"), message);
            break;
        }
    }
}
