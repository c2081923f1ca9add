//! ARP packets: what is accepted is emitted again octet by octet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::arp::{Arp, ArpPacket, PACKET_LEN};

fuzz_target!(|data: &[u8]| {
    let Ok(packet) = ArpPacket::parse(data) else { return };
    let mut out = [0; PACKET_LEN];
    assert_eq!(Arp::from(packet).emit(&mut out), Ok(PACKET_LEN));
    assert_eq!(out, data[..PACKET_LEN]);
});
