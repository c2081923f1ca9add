//! Which addresses may stand where.

use std::net::IpAddr;

use ipnet::IpNet;
use sluice_wire::MacAddr;

use crate::problem::{Findings, Path};

/// «IPv4» or «IPv6».
pub(super) fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Both are of the same family.
pub(super) fn same_family(left: IpAddr, right: IpAddr) -> bool {
    left.is_ipv4() == right.is_ipv4()
}

/// An IPv6 link-local address (RFC 4291 section 2.5.6). IPv4 link-local addresses are ordinary ones here: transit segments and
/// router links use them.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Notes an address that no single interface can have.
pub(super) fn require_unicast(address: IpAddr, path: &Path, findings: &mut Findings) -> bool {
    let what = match address {
        _ if address.is_unspecified() => "the unspecified address",
        _ if address.is_multicast() => "a multicast address",
        _ if address.is_loopback() => "a loopback address",
        IpAddr::V4(address) if address.is_broadcast() => "the broadcast address",
        IpAddr::V4(address) if address.octets()[0] == 0 => "an address of 'this network' (0.0.0.0/8)",
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => "an IPv4-mapped IPv6 address",
        _ => return true,
    };
    findings.report(path.clone(), format!("{address} is {what}; give the address of one interface"));
    false
}

/// Notes an address that is not [`require_unicast`] or is link-local.
pub(super) fn require_routable(address: IpAddr, path: &Path, findings: &mut Findings) -> bool {
    if is_link_local(address) {
        let message = format!("{address} is a link-local address; give a global or unique local one");
        findings.report(path.clone(), message);
        return false;
    }
    require_unicast(address, path, findings)
}

/// Why the address cannot be that of an interface in the subnet: it is its network or broadcast address, or in IPv6 the anycast
/// address of its routers (RFC 4291 section 2.6.1). Subnets of one or two addresses have none of these (RFC 3021, RFC 6164).
pub(super) fn reserved_in(subnet: IpNet, address: IpAddr) -> Option<&'static str> {
    if subnet.max_prefix_len() - subnet.prefix_len() < 2 {
        return None;
    }
    match (address == subnet.network(), address == subnet.broadcast(), address.is_ipv4()) {
        (true, _, true) => Some("the network address"),
        (true, _, false) => Some("the subnet-router anycast address"),
        (_, true, true) => Some("the broadcast address"),
        _ => None,
    }
}

/// Notes what cannot be the address and subnet of an interface of the node.
pub(super) fn require_interface(address: IpNet, path: &Path, findings: &mut Findings) -> bool {
    if !require_routable(address.addr(), path, findings) {
        return false;
    }
    if address.prefix_len() == 0 {
        findings.report(
            path.clone(),
            format!("{address} spans all addresses; give the prefix length of the subnet"),
        );
        return false;
    }
    if let Some(what) = reserved_in(address, address.addr()) {
        let message = format!(
            "{} is {what} of {}; give another address of the subnet",
            address.addr(),
            address.trunc()
        );
        findings.report(path.clone(), message);
        return false;
    }
    true
}

/// Notes a MAC address that cannot be the source of a frame.
pub(super) fn require_unicast_mac(mac: MacAddr, path: Path, findings: &mut Findings) -> bool {
    if mac.is_unicast() {
        return true;
    }
    let what = match (mac.is_broadcast(), mac.is_multicast()) {
        (true, _) => "the broadcast address",
        (_, true) => "a multicast address (the lowest bit of its first octet is set)",
        _ => "no address",
    };
    findings.report(path, format!("{mac} is {what}; give the MAC address of one interface"));
    false
}
