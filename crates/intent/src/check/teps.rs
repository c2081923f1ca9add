//! Tunnel endpoints of the node, and what may be said of those of others.

use std::collections::HashMap;
use std::net::IpAddr;

use super::addresses::{family, require_interface, require_routable, reserved_in, same_family};
use super::{Scope, each};
use crate::document::Tep;
use crate::draft::Slot;
use crate::plan::{self, ENCAPSULATION_RESERVE, MIN_IPV6_MTU, TepIndex, UplinkIndex};
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
        let uplink = check_uplink(scope, index, tep, path().field("uplink"), findings)?;
        let mtu = scope.mtu_of_tep(index, tep)?;
        check_mtu(scope, uplink, mtu, path().field("mtu"), findings);
        if address.is_ipv6() && mtu < MIN_IPV6_MTU {
            let message = format!("{mtu} is less than IPv6 needs; give {MIN_IPV6_MTU} or more");
            findings.report(path().field("mtu"), message);
        }
        Some(plan::Tep {
            name: tep.name.to_string(),
            address: tep.address,
            gateway: tep.gateway,
            uplink: UplinkIndex(u16::try_from(uplink).ok()?),
            vlan: scope.vlan_of_tep(tep),
            mtu,
        })
    })
}

/// The uplink that carries the TEP, or the team. That nothing says which one is noted.
fn check_uplink(
    scope: &Scope<'_>,
    index: usize,
    tep: &Tep,
    path: Path,
    findings: &mut Findings,
) -> Option<usize> {
    match &tep.uplink {
        Some(name) => scope.uplinks.resolve(name.as_str(), path, findings),
        None => {
            if matches!(scope.draft.uplink_profile, Slot::Absent) {
                let message = "nothing says which uplink carries the TEP; name one, or add an uplink-profile";
                findings.report(path, message);
            }
            scope.uplink_of_tep(index, tep)
        }
    }
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

/// Notes an MTU that is above that of what the uplink is on.
pub(super) fn check_mtu(scope: &Scope<'_>, uplink: usize, mtu: u16, path: Path, findings: &mut Findings) {
    if let Some((what, most)) = scope.mtu_of_uplink(uplink).filter(|(_, most)| mtu > *most) {
        let message = format!("{mtu} is above the MTU {most} of {what}; lower it, or raise that of the port");
        findings.report(path, message);
    }
}

/// The local TEP of something that is pinned to one (`name`), or that reaches `remotes`: the one that is named, or the first of
/// the family of the remote TEPs, or the first.
pub(super) fn pinned(
    scope: &Scope<'_>,
    name: Option<&str>,
    remotes: &[IpAddr],
    path: Path,
    findings: &mut Findings,
) -> Option<TepIndex> {
    let position = match name {
        Some(name) => scope.teps.resolve(name, path, findings)?,
        None => {
            let reaches = |address| remotes.first().is_none_or(|remote| same_family(*remote, address));
            let first = scope.local_teps().find(|(_, address)| reaches(*address));
            first.or_else(|| scope.local_teps().next())?.0
        }
    };
    u16::try_from(position).ok().map(TepIndex)
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

/// The TEPs that may carry what has `tep` for its own: that one where it is pinned, or any of its family in the group.
pub(super) fn carrying(scope: &Scope<'_>, pinned: bool, tep: Option<TepIndex>) -> Vec<TepIndex> {
    let Some(tep) = tep else { return Vec::new() };
    let own = scope.draft.teps.get(tep.index()).map(|tep| tep.address.addr());
    let Some(own) = own.filter(|_| !pinned && scope.has_group()) else { return vec![tep] };
    let same = scope.local_teps().filter(|(_, address)| same_family(*address, own));
    same.filter_map(|(index, _)| u16::try_from(index).ok().map(TepIndex)).collect()
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
    for index in teps.iter().map(|tep| tep.index()) {
        let Some(tep) = scope.draft.teps.get(index) else { continue };
        let Some(outer) = scope.mtu_of_tep(index, tep) else { continue };
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
