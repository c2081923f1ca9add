//! The node's own addresses on one link, and which addresses are neighbours there.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use ipnet::{IpNet, Ipv6Net};
use sluice_wire::MacAddr;

use super::{Interface, Link};
use crate::Timestamp;
use crate::rate::RateLimit;

/// The least time between two defences of an address (DEFEND_INTERVAL of RFC 5227 §1.1).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// The own addresses on a link.
#[derive(Debug, Default)]
pub(super) struct Presence {
    owned: Vec<Owned>,
    /// How many requests are answered.
    pub(super) answers: RateLimit,
}

/// An own address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    net: IpNet,
    /// The MAC address of its interface.
    pub(super) mac: MacAddr,
    defended: Option<Timestamp>,
}

impl Owned {
    /// The address.
    pub(super) fn address(&self) -> IpAddr {
        self.net.addr()
    }
}

impl Presence {
    /// The presence on every link that one of `interfaces` is on.
    pub(super) fn on_links(interfaces: Vec<Interface>) -> BTreeMap<Link, Self> {
        let mut links = BTreeMap::<Link, Self>::new();
        for Interface { link, mac, mut addresses } in interfaces {
            if !addresses.iter().any(|net| is_link_local(net.addr())) {
                addresses.push(link_local(mac));
            }
            let presence = links.entry(link).or_default();
            for net in addresses {
                if !presence.owns(net.addr()) {
                    presence.owned.push(Owned { net, mac, defended: None });
                }
            }
        }
        links
    }

    /// Continues from `old`, what was configured before. Whether there is something that `old` had not announced: a
    /// new address, or one with another MAC address.
    pub(super) fn inherit(&mut self, old: &Self) -> bool {
        self.answers = old.answers;
        let mut news = false;
        for owned in &mut self.owned {
            match old.owned.iter().find(|other| other.address() == owned.address()) {
                Some(other) => {
                    owned.defended = other.defended;
                    news |= owned.mac != other.mac;
                }
                None => news = true,
            }
        }
        news
    }

    /// The own addresses.
    pub(super) fn owned(&self) -> &[Owned] {
        &self.owned
    }

    /// The MAC address of the own address `address`; `None` if it is not ours.
    pub(super) fn owner(&self, address: IpAddr) -> Option<MacAddr> {
        self.owned.iter().find(|owned| owned.address() == address).map(|owned| owned.mac)
    }

    /// `address` is an own address.
    pub(super) fn owns(&self, address: IpAddr) -> bool {
        self.owner(address).is_some()
    }

    /// `mac` is that of an own interface on the link.
    pub(super) fn has_mac(&self, mac: MacAddr) -> bool {
        self.owned.iter().any(|owned| owned.mac == mac)
    }

    /// `address` can be a neighbour: another station's, and on a subnet of the link.
    pub(super) fn is_on_link(&self, address: IpAddr) -> bool {
        self.could_be_neighbor(address) && self.owned.iter().any(|owned| is_host_of(owned.net, address))
    }

    /// `address` can be a next hop that the configuration names, on a subnet of the link or not: it is another
    /// station's, and an own address exists to ask from.
    pub(super) fn could_be_neighbor(&self, address: IpAddr) -> bool {
        is_unicast(address) && !self.owns(address) && self.source_for(address).is_some()
    }

    /// The own address to ask for `target` from (RFC 4861 §7.2.2, RFC 5227 §2.1.1): one on its subnet, or else a
    /// link-local one for IPv6 and the first for IPv4.
    pub(super) fn source_for(&self, target: IpAddr) -> Option<&Owned> {
        let same_family = || self.owned.iter().filter(|owned| owned.address().is_ipv4() == target.is_ipv4());
        same_family()
            .find(|owned| owned.net.contains(&target))
            .or_else(|| same_family().find(|owned| target.is_ipv4() || is_link_local(owned.address())))
    }

    /// The own address `address` if it is to be defended at `now`, which it is at most once in
    /// [`DEFEND_INTERVAL`].
    pub(super) fn defend(&mut self, address: IpAddr, now: Timestamp) -> Option<Owned> {
        let owned = self.owned.iter_mut().find(|owned| owned.address() == address)?;
        if owned.defended.is_some_and(|last| now.since(last) < DEFEND_INTERVAL) {
            return None;
        }
        owned.defended = Some(now);
        Some(*owned)
    }
}

/// The link-local address of the interface with `mac`: modified EUI-64 (RFC 4291 appendix A).
fn link_local(mac: MacAddr) -> IpNet {
    let [a, b, c, d, e, f] = mac.octets();
    let interface = [a ^ 0x02, b, c, 0xff, 0xfe, d, e, f];
    let bits = 0xfe80 << 112 | u128::from(u64::from_be_bytes(interface));
    // 64 is a valid prefix length, so the alternative is never taken.
    let net = Ipv6Net::new(Ipv6Addr::from_bits(bits), 64).unwrap_or_default();
    IpNet::V6(net)
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

fn is_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_multicast() || address.is_unspecified() || address.is_loopback() || broadcast)
}

/// A station of the subnet `net` may have `address`: not for the subnet's own address and its broadcast address, which
/// subnets of 31 and 32 bits do not have (RFC 3021).
fn is_host_of(net: IpNet, address: IpAddr) -> bool {
    let reserved = match net {
        IpNet::V4(net) => {
            net.prefix_len() < 31 && [net.network(), net.broadcast()].map(IpAddr::V4).contains(&address)
        }
        IpNet::V6(_) => false,
    };
    net.contains(&address) && !reserved
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([0x02, 0x50, 0x56, 0x56, 0x44, 0x52]);
    const OTHER: MacAddr = MacAddr([0x02, 0x50, 0x56, 0x56, 0x44, 0x53]);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn presence(mac: MacAddr, addresses: &[&str]) -> Presence {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let link = Link::untagged(0);
        Presence::on_links(vec![Interface { link, mac, addresses }]).remove(&link).unwrap()
    }

    #[test]
    fn link_local_address_from_the_mac() {
        let derived = presence(MAC, &["192.0.2.1/24"]);
        assert_eq!(derived.owner(ip("fe80::50:56ff:fe56:4452")), Some(MAC));
        let given = presence(MAC, &["fe80::1/64"]);
        assert!(given.owns(ip("fe80::1")) && !given.owns(ip("fe80::50:56ff:fe56:4452")));
    }

    #[test]
    fn neighbors_are_on_a_subnet_and_somebody_else() {
        let presence = presence(MAC, &["192.0.2.1/24", "198.51.100.0/31", "2001:db8::1/64"]);
        for (address, on_link) in [
            ("192.0.2.2", true),
            ("192.0.2.1", false),
            ("192.0.2.0", false),
            ("192.0.2.255", false),
            ("192.0.3.1", false),
            ("198.51.100.1", true),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("2001:db8::2", true),
            ("2001:db8:0:1::2", false),
            ("fe80::2", true),
            ("ff02::1", false),
            ("::", false),
            ("::1", false),
        ] {
            assert_eq!(presence.is_on_link(ip(address)), on_link, "{address}");
        }
        assert!(presence.could_be_neighbor(ip("203.0.113.1")));
    }

    #[test]
    fn questions_come_from_the_best_own_address() {
        let both = presence(MAC, &["192.0.2.1/24", "198.51.100.1/24", "2001:db8::1/64"]);
        for (target, source) in [
            ("198.51.100.7", "198.51.100.1"),
            ("203.0.113.1", "192.0.2.1"),
            ("2001:db8::9", "2001:db8::1"),
            ("fe80::9", "fe80::50:56ff:fe56:4452"),
            ("2001:db8:9::9", "fe80::50:56ff:fe56:4452"),
        ] {
            assert_eq!(both.source_for(ip(target)).map(Owned::address), Some(ip(source)), "{target}");
        }
        assert!(presence(MAC, &[]).source_for(ip("192.0.2.2")).is_none());
    }

    #[test]
    fn news_are_new_addresses_and_new_macs() {
        let old = presence(MAC, &["192.0.2.1/24", "192.0.2.9/24", "fe80::1/64"]);
        assert!(!presence(MAC, &["192.0.2.1/24", "fe80::1/64"]).inherit(&old));
        assert!(presence(MAC, &["192.0.2.2/24", "fe80::1/64"]).inherit(&old));
        assert!(presence(OTHER, &["192.0.2.1/24", "fe80::1/64"]).inherit(&old));
    }

    #[test]
    fn defence_is_limited_and_remembered() {
        let mut old = presence(MAC, &["192.0.2.1/24"]);
        assert!(old.defend(ip("192.0.2.1"), Timestamp::from_secs(1)).is_some());
        assert!(old.defend(ip("192.0.2.7"), Timestamp::from_secs(1)).is_none());
        let mut new = presence(MAC, &["192.0.2.1/24"]);
        new.inherit(&old);
        assert!(new.defend(ip("192.0.2.1"), Timestamp::from_secs(10)).is_none());
        assert!(new.defend(ip("192.0.2.1"), Timestamp::from_secs(11)).is_some());
    }
}
