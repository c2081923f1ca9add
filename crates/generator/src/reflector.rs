//! The workloads: each frame that reaches one goes back to the tester who sent it, as the virtual machines of a throughput test do.
//!
//! Addresses are exchanged in place, outer and inner ones, and so are the inner UDP ports; a one's complement sum does not depend on
//! the order of its terms, so that every checksum stays right. The outer source port keeps the entropy of the flow.

use sluice_trial::topology::{Side, Topology};
use sluice_trial::traffic::tag::MARK;
use sluice_trial::traffic::{ETHERNET_BYTES, Encapsulation, Expected, Family, Stream};
use sluice_wire::MacAddr;

/// Where what is exchanged stands in frames that reach the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reflector {
    trial: u8,
    /// As they came, where the edge only echoes.
    unchanged: bool,
    /// First octet of the outer addresses, and octets of one; none without outer headers.
    outer: Option<(usize, usize)>,
    inner_mac: usize,
    /// The gateway of the workloads.
    router: MacAddr,
    inner: (usize, usize),
    udp: usize,
    tag: usize,
}

impl Reflector {
    /// For the frames of one trial.
    pub(crate) fn new(topology: &Topology, stream: &Stream, expected: Expected) -> Self {
        let addresses = |family: Family, ip: usize| match family {
            Family::Ipv4 => (ip + 12, 4),
            Family::Ipv6 => (ip + 8, 16),
        };
        let inner_mac = stream.outer_bytes(Side::Downlink);
        let ip = inner_mac + ETHERNET_BYTES;
        let unchanged = expected == Expected::Unchanged;
        Self {
            trial: stream.trial(),
            unchanged,
            outer: (topology.encapsulation != Encapsulation::None)
                .then(|| addresses(topology.outer, ETHERNET_BYTES)),
            inner_mac,
            router: topology.edge.router,
            inner: addresses(stream.family(), ip),
            udp: ip + stream.family().header_bytes(),
            tag: stream.tag_on(if unchanged { Side::Uplink } else { Side::Downlink }),
        }
    }

    /// Makes a frame that reached a workload the one that it sends back; false for frames of no such trial, which stay as they are.
    #[inline]
    pub(crate) fn turn(&self, frame: &mut [u8]) -> bool {
        if frame.len() < self.tag + 2 || frame[self.tag] != MARK || frame[self.tag + 1] != self.trial {
            return false;
        }
        if self.unchanged {
            return true;
        }
        exchange::<6>(frame, 0);
        if let Some((at, octets)) = self.outer {
            exchange_addresses(frame, at, octets);
            // From the workload that it was for, to its gateway.
            frame.copy_within(self.inner_mac..self.inner_mac + 6, self.inner_mac + 6);
            frame[self.inner_mac..self.inner_mac + 6].copy_from_slice(&self.router.0);
        }
        exchange_addresses(frame, self.inner.0, self.inner.1);
        exchange::<2>(frame, self.udp);
        true
    }
}

#[inline]
fn exchange_addresses(frame: &mut [u8], at: usize, octets: usize) {
    if octets == 4 { exchange::<4>(frame, at) } else { exchange::<16>(frame, at) }
}

/// Exchanges two neighbouring fields of `N` octets each, of which the first begins at `at`.
#[inline]
fn exchange<const N: usize>(frame: &mut [u8], at: usize) {
    if let Some((first, rest)) = frame[at..].split_first_chunk_mut::<N>()
        && let Some(second) = rest.first_chunk_mut::<N>()
    {
        std::mem::swap(first, second);
    }
}

#[cfg(test)]
mod tests {
    use sluice_trial::traffic::Direction;

    use super::*;

    const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

    /// What reaches a workload by way of the edge, turned round, is what a workload sends: of the same flow, routed once before.
    #[test]
    fn what_is_turned_is_what_a_workload_sends() {
        for encapsulation in [Encapsulation::Geneve, Encapsulation::Vxlan, Encapsulation::None] {
            for (outer, family) in FAMILIES.into_iter().flat_map(|outer| FAMILIES.map(|inner| (outer, inner)))
            {
                let topology = Topology { encapsulation, outer, downlinks: 2, ..Topology::default() };
                let stream = |direction| Stream::new(topology, direction, family, 100).unwrap();
                let reflector = Reflector::new(&topology, &stream(Direction::Loop), Expected::Routed);
                for flow in [0, 1, 77, 1279] {
                    let mut frame = stream(Direction::Encap).returned(flow, Expected::Routed).unwrap();
                    assert!(reflector.turn(&mut frame), "{topology:?} {family}");
                    let mut sent = stream(Direction::Decap).sent(flow).unwrap();
                    let ttl = stream(Direction::Decap).outer_bytes(Side::Downlink)
                        + ETHERNET_BYTES
                        + if family == Family::Ipv4 { 8 } else { 7 };
                    assert_eq!((frame[ttl], sent[ttl]), (63, 64));
                    sent[ttl] = 63;
                    if family == Family::Ipv4 {
                        let header = ttl - 8..ttl + 12;
                        assert!(sluice_wire::checksum::verify(&frame[header]));
                        sent[ttl + 2..ttl + 4].copy_from_slice(&frame[ttl + 2..ttl + 4]);
                    }
                    assert_eq!(frame, sent, "{topology:?} {family}");
                }
            }
        }
    }

    #[test]
    fn what_is_of_no_trial_stays_as_it_is() {
        let topology = Topology::default();
        let stream = Stream::new(topology, Direction::Loop, Family::Ipv4, 60).unwrap().in_trial(9);
        let reflector = Reflector::new(&topology, &stream, Expected::Routed);
        let encap = Stream::new(topology, Direction::Encap, Family::Ipv4, 60).unwrap();
        let mut frame = encap.in_trial(8).returned(4, Expected::Routed).unwrap();
        let before = frame.clone();
        assert!(!reflector.turn(&mut frame));
        assert_eq!(frame, before);
        assert!(!reflector.turn(&mut [0; 60]));
        assert!(!reflector.turn(&mut []));
        let mut frame = stream.sent(4).unwrap();
        assert!(Reflector::new(&topology, &stream, Expected::Unchanged).turn(&mut frame));
        assert_eq!(frame, stream.sent(4).unwrap());
    }
}
