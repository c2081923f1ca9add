//! Which link of a LAG a frame takes: a hash over headers of the finished frame.
//!
//! Called by whoever sends ([`link_hash`]), once for each frame that leaves through a LAG. It reads what the frame begins with, as it is on
//! the wire: of a tunnel packet the outer headers, whose UDP source port tells inner flows apart. The frames of one flow have one
//! hash, so that none overtakes another; fragments have that of their addresses.

use sluice_intent::plan::LoadBalancing;
use sluice_wire::EtherType;

use crate::flow::mix;

/// Odd constants with no pattern: the first digits of the fractional parts of the square roots of 11, 13 and 17.
const K0: u64 = 0x510e_527f_ade6_82d1;
const K1: u64 = 0x9b05_688c_2b3e_6c1f;
const K2: u64 = 0x1f83_d9ab_fb41_bd6b;

/// The low 48 bits of a word: a MAC address that was loaded little-endian.
const MAC: u64 = 0xffff_ffff_ffff;

const IPV4: [u8; 2] = EtherType::IPV4.0.to_be_bytes();
const IPV6: [u8; 2] = EtherType::IPV6.0.to_be_bytes();
const VLAN: [u8; 2] = EtherType::VLAN.0.to_be_bytes();
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The hash of a frame that is to leave through a LAG, over the fields that `fields` names; every bit of it is as good as any other. What a
/// frame does not have counts as 0. `seed` makes nodes choose differently.
#[inline]
pub fn link_hash(fields: LoadBalancing, frame: &[u8], seed: u64) -> u64 {
    let Some(ethernet) = frame.first_chunk::<14>() else { return 0 };
    let word = |at: usize| ethernet[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let (destination, source) = (word(0) & MAC, word(4) >> 16);
    let layers = || Layers::of(frame, [ethernet[12], ethernet[13]]);
    match fields {
        LoadBalancing::SourceMac => mix(source ^ seed, K0),
        LoadBalancing::DestinationMac => mix(destination ^ seed, K0),
        LoadBalancing::SourceAndDestinationMac => mix(source ^ seed, destination ^ K0),
        LoadBalancing::SourceAndDestinationIpAndVlan => {
            let layers = layers();
            mix(layers.addresses ^ seed, u64::from(layers.vlan) ^ K1)
        }
        LoadBalancing::SourceAndDestinationMacIpAndPort => {
            let layers = layers();
            let macs = mix(source ^ seed, destination ^ K0);
            mix(macs ^ layers.addresses, u64::from(layers.ports) ^ K1)
        }
    }
}

/// What lies behind the MAC addresses; 0 for what is not there.
struct Layers {
    vlan: u16,
    /// A hash of both IP addresses.
    addresses: u64,
    /// Both ports of TCP and UDP, as they lie in memory.
    ports: u32,
}

impl Layers {
    #[inline]
    fn of(frame: &[u8], ethertype: [u8; 2]) -> Self {
        let tag = (ethertype == VLAN).then(|| frame.get(14..).and_then(<[u8]>::first_chunk::<4>)).flatten();
        let (vlan, ethertype, network) = match tag {
            Some([high, low, inner @ ..]) => (u16::from_be_bytes([high & 0xf, *low]), *inner, 18),
            None => (0, ethertype, 14),
        };
        let packet = frame.get(network..).unwrap_or_default();
        let (addresses, transport) = match ethertype {
            IPV4 => ipv4(packet),
            IPV6 => ipv6(packet),
            _ => (0, None),
        };
        let ports = transport.and_then(|at| packet.get(at..)?.first_chunk());
        Self { vlan, addresses, ports: ports.map_or(0, |ports| u32::from_le_bytes(*ports)) }
    }
}

/// A hash of the addresses of an IPv4 packet, and where its ports begin if it has any: not in fragments.
#[inline]
fn ipv4(packet: &[u8]) -> (u64, Option<usize>) {
    let Some(header) = packet.first_chunk::<20>() else { return (0, None) };
    let addresses = header.last_chunk().map_or(0, |both| u64::from_le_bytes(*both));
    let whole = (header[6] & 0x3f) | header[7] == 0;
    let has_ports = whole && matches!(header[9], TCP | UDP);
    (mix(addresses, K2), has_ports.then_some(usize::from(header[0] & 0xf) * 4))
}

/// A hash of the addresses of an IPv6 packet, and where its ports begin if it has any directly behind its header.
#[inline]
fn ipv6(packet: &[u8]) -> (u64, Option<usize>) {
    let Some(header) = packet.first_chunk::<40>() else { return (0, None) };
    let word = |at: usize| header[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let addresses = mix(word(8) ^ K0, word(16) ^ K1) ^ mix(word(24) ^ K1, word(32) ^ K2);
    (addresses, matches!(header[6], TCP | UDP).then_some(40))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use sluice_wire::frame::FrameBuilder;
    use sluice_wire::{MacAddr, VlanId};

    use super::*;

    const ALL: [LoadBalancing; 5] = [
        LoadBalancing::SourceMac,
        LoadBalancing::DestinationMac,
        LoadBalancing::SourceAndDestinationMac,
        LoadBalancing::SourceAndDestinationIpAndVlan,
        LoadBalancing::SourceAndDestinationMacIpAndPort,
    ];

    #[derive(Clone, Copy)]
    struct Frame {
        macs: (u8, u8),
        vlan: Option<u16>,
        addresses: (&'static str, &'static str),
        ports: (u16, u16),
    }

    const V4: Frame = Frame { macs: (1, 2), vlan: None, addresses: ("10.0.0.1", "10.0.0.2"), ports: (3, 4) };
    const V6: Frame = Frame { addresses: ("2001:db8::1", "2001:db8::2"), ..V4 };

    fn built(frame: Frame) -> Vec<u8> {
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        let mut built = FrameBuilder::new().ethernet(mac(frame.macs.0), mac(frame.macs.1));
        if let Some(vlan) = frame.vlan {
            built = built.vlan(VlanId::new(vlan).unwrap());
        }
        built = match (frame.addresses.0.parse().unwrap(), frame.addresses.1.parse().unwrap()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => built.ipv4(source, destination),
            (IpAddr::V6(source), IpAddr::V6(destination)) => built.ipv6(source, destination),
            _ => panic!("two families"),
        };
        built.udp(frame.ports.0, frame.ports.1).build().unwrap()
    }

    /// Which modes tell two frames apart, in the order of [`ALL`].
    fn told_apart(one: Frame, other: Frame) -> [bool; 5] {
        let (one, other) = (built(one), built(other));
        ALL.map(|fields| link_hash(fields, &one, 7) != link_hash(fields, &other, 7))
    }

    #[test]
    fn each_mode_has_its_fields_and_no_others() {
        let no = false;
        for base in [V4, V6, Frame { vlan: Some(9), ..V4 }, Frame { vlan: Some(9), ..V6 }] {
            assert_eq!(told_apart(base, base), [false; 5]);
            assert_eq!(told_apart(base, Frame { macs: (8, 2), ..base }), [true, no, true, no, true]);
            assert_eq!(told_apart(base, Frame { macs: (1, 8), ..base }), [no, true, true, no, true]);
            assert_eq!(told_apart(base, Frame { vlan: Some(10), ..base }), [no, no, no, true, no]);
            assert_eq!(told_apart(base, Frame { ports: (8, 4), ..base }), [no, no, no, no, true]);
            assert_eq!(told_apart(base, Frame { ports: (3, 8), ..base }), [no, no, no, no, true]);
        }
        for (base, source, destination) in [(V4, "10.0.0.8", "10.0.0.9"), (V6, "2001:db8::8", "2001:db8::9")]
        {
            let addresses = (source, base.addresses.1);
            assert_eq!(told_apart(base, Frame { addresses, ..base }), [no, no, no, true, true]);
            let addresses = (base.addresses.0, destination);
            assert_eq!(told_apart(base, Frame { addresses, ..base }), [no, no, no, true, true]);
        }
    }

    #[test]
    fn a_fragment_takes_the_link_of_every_other_one() {
        let mut first = built(V4);
        first[14 + 6] |= 0x20;
        let mut second = built(Frame { ports: (0x1234, 0x5678), ..V4 });
        second[14 + 7] = 3;
        for fields in ALL {
            assert_eq!(link_hash(fields, &first, 7), link_hash(fields, &second, 7), "{fields:?}");
        }
    }

    #[test]
    fn nothing_that_ends_early_is_read_past_its_end() {
        for base in [V4, V6, Frame { vlan: Some(9), ..V6 }] {
            let frame = built(base);
            for length in 0..frame.len() {
                for fields in ALL {
                    link_hash(fields, &frame[..length], 7);
                }
            }
        }
    }

    #[test]
    fn flows_spread_evenly_over_any_number_of_links() {
        for links in 2..=16u64 {
            let mut counts = vec![0u64; links as usize];
            for port in 0..8_000 {
                let frame = built(Frame { ports: (port, 6081), ..V4 });
                let hash = link_hash(LoadBalancing::default(), &frame, 7);
                counts[((u128::from(hash) * u128::from(links)) >> 64) as usize] += 1;
            }
            let mean = 8_000 / links;
            assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 4), "{links}: {counts:?}");
        }
    }
}
