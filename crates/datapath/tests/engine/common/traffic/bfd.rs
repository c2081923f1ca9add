//! Random BFD packets: of tunnels, and of neighbours on interfaces.

use std::net::Ipv4Addr;

use sluice_intent::plan::{PortIndex, Tier};
use sluice_wire::MacAddr;

use super::{STRANGER, Traffic, ip_with_extras};
use crate::common::bytes::{self, IpHeader};
use crate::common::dice::Dice;
use crate::common::node::port_mac;

impl Traffic<'_> {
    /// BFD of a neighbour on an interface that is watched, or nearly.
    pub(super) fn neighbor_bfd_frame(&self, dice: &mut Dice<'_>) -> Option<(PortIndex, Vec<u8>)> {
        let gateway = self.plan.gateways.iter().find(|gateway| !gateway.bfd_peers.is_empty())?;
        let Tier::Tier0 { interfaces, .. } = &gateway.tier else { return None };
        let peer = &gateway.bfd_peers[dice.below(gateway.bfd_peers.len())];
        let other = dice.below(12);
        let interface = if other == 0 { dice.below(interfaces.len()) } else { peer.interface.into() };
        let port = self.plan.uplinks[interfaces[interface].uplink.index()].port;
        let mut once_wrong = |right: u16, wrong: u16| if dice.once_in(6) { wrong } else { right };
        let datagram = bytes::udp(50_000, once_wrong(3784, 4784), &[0x20; 24]);
        let header = IpHeader {
            ttl: once_wrong(255, 254) as u8,
            fragment: once_wrong(0, 0x2000),
            ..IpHeader::new(once_wrong(17, 6) as u8)
        };
        let packet = ip_with_extras(header, peer.address, peer.local, datagram, dice);
        let ethertype = if peer.address.is_ipv4() { bytes::IPV4 } else { bytes::IPV6 };
        let frame = bytes::ethernet(port_mac(port.index()), STRANGER, ethertype, &packet);
        let vlan = interfaces[interface].vlan.map_or(0, u16::from);
        Some((port, self.with_tag(frame, vlan, dice)))
    }

    /// BFD of a tunnel itself, and what is nearly that.
    pub(super) fn bfd_frame(&self, dice: &mut Dice<'_>) -> (PortIndex, Vec<u8>) {
        let tep = &self.plan.teps[dice.below(self.plan.teps.len())];
        let local = tep.address.addr();
        let remote = dice.pick(&self.remote_teps(local.is_ipv4())).unwrap_or(local);
        let mut once_wrong = |right: u16, wrong: u16| if dice.once_in(12) { wrong } else { right };
        let datagram = bytes::udp(50_000, once_wrong(3784, 3785), &[0x20; 24]);
        let fragment = once_wrong(0, 0x2000);
        let vni = once_wrong(0, 1);
        let flags = once_wrong(0x80, 0);
        let protocol = once_wrong(0x6558, 0x0800);
        let vlan = once_wrong(0, 5);
        let header = IpHeader { ttl: 255, fragment, ..IpHeader::new(once_wrong(17, 6) as u8) };
        let (source, destination) = if dice.once_in(4) {
            (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::LOCALHOST.into())
        } else {
            (remote, local)
        };
        let packet = ip_with_extras(header, source, destination, datagram, dice);
        let ethertype = if source.is_ipv4() { bytes::IPV4 } else { bytes::IPV6 };
        let inner = bytes::ethernet(MacAddr([0, 0, 0x5e, 0, 0x52, 2]), STRANGER, ethertype, &packet);
        let mut inner = bytes::on_vlan(inner, vlan);
        if dice.once_in(12) {
            inner.truncate(dice.below(inner.len()));
        }
        let geneve = dice.once_in(2);
        let payload = if geneve {
            let options = [&[][..], &[1, 2, 3, 0], &[1, 2, 0x83, 0]];
            let options = if dice.once_in(4) { options[dice.below(options.len())] } else { &[] };
            bytes::geneve(vni.into(), flags as u8, protocol, options, &inner)
        } else {
            bytes::vxlan(vni.into(), if flags == 0 { 0 } else { 0x08 }, &inner)
        };
        self.tunnelled(&payload, geneve, tep, remote, dice)
    }
}
