//! The test's end of a pair of interfaces: a raw socket, and the stations that answer there.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use sluice_wire::arp::{Arp, ArpOperation, ArpPacket};
use sluice_wire::ethernet::EthernetView;
use sluice_wire::frame::FrameBuilder;
use sluice_wire::{EtherType, MacAddr};

use super::LIMIT;

/// How long one look at the socket waits.
const GLANCE: Duration = Duration::from_millis(10);

/// A raw socket on one interface.
pub(crate) struct Link {
    socket: OwnedFd,
    /// Stations that answer ARP requests whenever something is received.
    stations: Vec<(Ipv4Addr, MacAddr)>,
}

impl Link {
    /// The test's end of the node's port `port`.
    pub(crate) fn open(port: &str) -> Self {
        Self::on(&format!("{port}-peer"))
    }

    /// An interface.
    pub(crate) fn on(name: &str) -> Self {
        let family = AddressFamily::Packet;
        let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll).unwrap();
        let mut interfaces = getifaddrs().unwrap().filter(|interface| interface.interface_name == name);
        let address = interfaces.find_map(|interface| interface.address?.as_link_addr().copied()).unwrap();
        bind(socket.as_raw_fd(), &address).unwrap();
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::milliseconds(GLANCE.as_millis() as i64))
            .unwrap();
        // A user namespace's root has to do with the default.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &(16 << 20));
        Self { socket, stations: Vec::new() }
    }

    /// Answers ARP requests for an address from now on.
    pub(crate) fn answer_for(&mut self, address: Ipv4Addr, mac: MacAddr) {
        self.stations.retain(|(other, _)| *other != address);
        self.stations.push((address, mac));
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        assert_eq!(send(self.socket.as_raw_fd(), frame, MsgFlags::empty()), Ok(frame.len()));
    }

    /// The next frame, if it is there already.
    pub(crate) fn waiting(&self) -> Option<Vec<u8>> {
        let mut buffer = [0; 2048];
        let length = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT).ok()?;
        Some(buffer[..length].to_vec())
    }

    /// The next frame, if there is one soon. ARP requests to the stations are answered, and not returned.
    pub(crate) fn glance(&self) -> Option<Vec<u8>> {
        let mut buffer = [0; 2048];
        let end = Instant::now() + GLANCE;
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) if self.answer(&buffer[..length]) => {}
                Ok(length) => return Some(buffer[..length].to_vec()),
                Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => {}
                Err(error) => panic!("receiving: {error}"),
            }
            if Instant::now() >= end {
                return None;
            }
        }
    }

    /// The first frame that `wanted` has something to say about; others are left out.
    pub(crate) fn expect<T>(&self, what: &str, mut wanted: impl FnMut(&[u8]) -> Option<T>) -> T {
        let end = Instant::now() + LIMIT;
        let mut others = Vec::new();
        while Instant::now() < end {
            let Some(frame) = self.glance() else { continue };
            if let Some(found) = wanted(&frame) {
                return found;
            }
            others.push(sluice_wire::dissect(&frame).to_string());
        }
        panic!("waited {LIMIT:?} for {what}; came: {others:#?}");
    }

    /// Waits for an ARP request for an address, and does not answer it. Returns who asked.
    pub(crate) fn expect_arp_request(&self, target: Ipv4Addr) -> Arp {
        self.expect(&format!("an ARP request for {target}"), |frame| {
            let arp = arp(frame)?;
            (arp.operation == ArpOperation::REQUEST && arp.target_address == target).then_some(arp)
        })
    }

    fn answer(&self, frame: &[u8]) -> bool {
        let Some(request) = arp(frame).filter(|arp| arp.operation == ArpOperation::REQUEST) else {
            return false;
        };
        let Some((_, mac)) = self.stations.iter().find(|(own, _)| *own == request.target_address) else {
            return false;
        };
        self.send(&arp_frame(*mac, request.sender_mac, request.reply(*mac)));
        true
    }
}

/// The ARP packet of a frame.
pub(crate) fn arp(frame: &[u8]) -> Option<Arp> {
    let ethernet =
        EthernetView::parse(frame).ok().filter(|ethernet| ethernet.ether_type() == EtherType::ARP)?;
    ArpPacket::parse(ethernet.payload()).ok().map(Arp::from)
}

/// A frame with an ARP packet, padded to the shortest frame.
pub(crate) fn arp_frame(source: MacAddr, destination: MacAddr, packet: Arp) -> Vec<u8> {
    FrameBuilder::new().ethernet(source, destination).arp(packet).payload(&[0; 18]).build().unwrap()
}
