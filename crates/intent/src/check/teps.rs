//! Tunnel endpoints of the node, and what may be said of those of others.

use std::collections::HashMap;
use std::net::IpAddr;

use sluice_wire::Vni;

use super::addresses::{family, require_interface, require_routable, reserved_in, same_family};
use super::{Scope, each};
use crate::document::Tep;
use crate::draft::Slot;
use crate::plan::{self, ENCAPSULATION_RESERVE, MIN_IPV6_MTU, Teaming, TepIndex, UplinkIndex};
use crate::problem::{Findings, Path};

pub(super) fn check(scope: &Scope<'_>, findings: &mut Findings) -> Vec<Option<plan::Tep>> {
    let mut addresses = HashMap::new();
    each(&scope.draft.teps, |index, tep| {
        let path = || Path::entry("teps", index);
        let address = tep.address.addr();
        require_interface(tep.address, &path().field("address"), findings);
        let first = *addresses.entry(address).or_insert(index);
        if first != index {
            let message =
                format!("{address} is also the address of {}; give each TEP its own", named(scope, first));
            findings.report(path().field("address"), message);
        }
        check_gateway(tep, path().field("gateway"), findings);
        let uplink = scope.uplinks.resolve(tep.uplink.as_str(), path().field("uplink"), findings)?;
        let mtu = mtu_on(scope, uplink, tep.mtu, path().field("mtu"), findings)?;
        if address.is_ipv6() && mtu < MIN_IPV6_MTU {
            let message = format!("{mtu} is less than IPv6 needs; give {MIN_IPV6_MTU} or more");
            findings.report(path().field("mtu"), message);
        }
        Some(plan::Tep {
            name: tep.name.to_string(),
            address: tep.address,
            gateway: tep.gateway,
            uplink: UplinkIndex(u16::try_from(uplink).ok()?),
            vlan: tep.vlan.filter(|vlan| !vlan.is_untagged()),
            mtu,
        })
    })
}

pub(super) fn named(scope: &Scope<'_>, tep: usize) -> String {
    scope.draft.teps.get(tep).map(|tep| format!("TEP '{}'", tep.name)).unwrap_or_default()
}

fn check_gateway(tep: &Tep, path: Path, findings: &mut Findings) {
    let Some(gateway) = tep.gateway else { return };
    let subnet = tep.address.trunc();
    if !require_routable(gateway, &path, findings) {
        return;
    }
    let message = if gateway == tep.address.addr() {
        format!("{gateway} is the TEP's own address; give the address of the next hop")
    } else if !subnet.contains(&gateway) {
        format!("{gateway} is not in the TEP's subnet {subnet}; give the address of a next hop in it")
    } else if let Some(what) = reserved_in(tep.address, gateway) {
        format!("{gateway} is {what} of {subnet}; give the address of the next hop")
    } else {
        return;
    };
    findings.report(path, message);
}

/// The MTU of what is on an uplink: the one that is given, noted where it exceeds the port's, or the port's.
pub(super) fn mtu_on(
    scope: &Scope<'_>,
    uplink: usize,
    given: Option<u16>,
    path: Path,
    findings: &mut Findings,
) -> Option<u16> {
    let uplink = scope.draft.uplinks.get(uplink)?;
    let port = scope.draft.ports.get(scope.ports.find(uplink.port.as_str())?)?;
    let mtu = given.unwrap_or(port.mtu);
    if mtu > port.mtu {
        let message = format!(
            "{mtu} is above the MTU {} of port '{}'; lower it, or raise that of the port",
            port.mtu, port.name
        );
        findings.report(path, message);
    }
    Some(mtu)
}

/// What a segment or transit segment says of its TEPs.
pub(super) struct Wanted<'a> {
    /// The TEP that it is pinned to by name.
    pub(super) pin: Option<&'a str>,
    pub(super) vni: Vni,
    pub(super) mtu: u16,
    /// The remote TEPs that it reaches.
    pub(super) remotes: &'a [IpAddr],
}

/// The local TEPs that may carry a segment, the preferred ones first, and which of them a flow takes.
pub(super) struct Carriers {
    pub(super) teps: Vec<TepIndex>,
    pub(super) teaming: Teaming,
    /// Those that must leave room for the encapsulation: of `teps`, the ones that are more than a stopgap.
    pub(super) required: usize,
}

impl Carriers {
    /// No TEP.
    pub(super) fn none() -> Self {
        Self { teps: Vec::new(), teaming: Teaming::FailoverOrder, required: 0 }
    }

    /// The TEP that it is pinned to.
    pub(super) fn first(&self) -> Option<TepIndex> {
        self.teps.first().copied()
    }

    /// Those that must leave room for the encapsulation.
    pub(super) fn required(&self) -> &[TepIndex] {
        &self.teps[..self.required]
    }
}

/// The TEPs of a segment: the one that is named, and in case that fails those with room enough; or all, those of the first remote TEP's family
/// first, begun at another one by each VNI.
pub(super) fn carriers(
    scope: &Scope<'_>,
    wanted: &Wanted<'_>,
    path: Path,
    findings: &mut Findings,
) -> Carriers {
    let own = match wanted.pin {
        Some(name) => scope.teps.resolve(name, path, findings),
        None => None,
    };
    let own_family = own.and_then(|own| scope.draft.teps.get(own)).map(|tep| tep.address.addr());
    let like = own_family.or_else(|| wanted.remotes.first().copied());
    let family = |like: Option<IpAddr>, same: bool| -> Vec<usize> {
        let fits = |address: &IpAddr| like.is_none_or(|like| same_family(like, *address)) == same;
        let mut positions: Vec<usize> =
            scope.local_teps().filter(|(_, address)| fits(address)).map(|(position, _)| position).collect();
        let begin = (u32::from(wanted.vni) as usize).checked_rem(positions.len()).unwrap_or_default();
        positions.rotate_left(begin);
        positions
    };
    let mut positions = family(like, true);
    // Of the other family, only what reaches a remote TEP of that has any.
    let others = if like.is_some() { family(like, false) } else { Vec::new() };
    let teaming = match &scope.draft.tep_group {
        Slot::Present(group) if wanted.pin.is_none() => Teaming::Group(group.placement),
        _ => Teaming::FailoverOrder,
    };
    let mut required = positions.len();
    if wanted.pin.is_some() {
        let room = wanted.mtu.saturating_add(ENCAPSULATION_RESERVE);
        positions.retain(|position| Some(*position) != own && outer_mtu(scope, *position) >= Some(room));
        positions.splice(0..0, own);
        required = usize::from(own.is_some());
    }
    positions.extend(others);
    let teps: Vec<_> =
        positions.into_iter().filter_map(|position| u16::try_from(position).ok().map(TepIndex)).collect();
    Carriers { required: required.min(teps.len()), teps, teaming }
}

/// The MTU of a TEP: its own, or that of its port.
fn outer_mtu(scope: &Scope<'_>, tep: usize) -> Option<u16> {
    let tep = scope.draft.teps.get(tep)?;
    let uplink = scope.draft.uplinks.get(scope.uplinks.find(tep.uplink.as_str())?);
    let port = uplink.and_then(|uplink| scope.draft.ports.get(scope.ports.find(uplink.port.as_str())?));
    tep.mtu.or(port.map(|port| port.mtu))
}

/// Notes what cannot be the TEP of another node that is reached from the local TEP `from`.
pub(super) fn check_remote(
    scope: &Scope<'_>,
    remote: IpAddr,
    from: Option<TepIndex>,
    path: &Path,
    findings: &mut Findings,
) {
    if !require_routable(remote, path, findings) {
        return;
    }
    if let Some((local, _)) = scope.local_teps().find(|(_, address)| *address == remote) {
        let message = format!(
            "{remote} is the address of this node's own {}; give the TEP of another node",
            named(scope, local)
        );
        findings.report(path.clone(), message);
        return;
    }
    let local = from.and_then(|tep| scope.draft.teps.get(tep.index()));
    match local {
        // A TEP that could not be read may be the one that reaches it.
        None if scope.teps.incomplete() => {}
        // A pin to a TEP that does not exist is reported where it stands.
        None if scope.draft.teps.len() > 0 => {}
        None => {
            let message = format!("{remote} cannot be reached: the node has no TEPs; add one to teps");
            findings.report(path.clone(), message);
        }
        Some(local) if !same_family(local.address.addr(), remote) => {
            let message = format!(
                "{remote} is {}, but the local TEP '{}' is {}; give a remote TEP of that family, or pin to another TEP",
                family(remote),
                local.name,
                family(local.address.addr())
            );
            findings.report(path.clone(), message);
        }
        Some(_) => {}
    }
}

/// Notes every TEP whose MTU does not leave room for the encapsulation of packets of `mtu` bytes.
pub(super) fn check_reserve(
    scope: &Scope<'_>,
    teps: &[TepIndex],
    mtu: u16,
    what: &str,
    path: Path,
    findings: &mut Findings,
) {
    for position in teps.iter().map(|tep| tep.index()) {
        let (Some(tep), Some(outer)) = (scope.draft.teps.get(position), outer_mtu(scope, position)) else {
            continue;
        };
        let needed = u32::from(mtu) + u32::from(ENCAPSULATION_RESERVE);
        if u32::from(outer) < needed {
            let message = format!(
                "{what} is {mtu}, but TEP '{}' carries {outer} bytes and encapsulation takes {ENCAPSULATION_RESERVE}; raise \
                 the MTU of the TEP and its port to {needed}, or lower this one to {}",
                tep.name,
                outer.saturating_sub(ENCAPSULATION_RESERVE)
            );
            findings.report(path.clone(), message);
        }
    }
}
