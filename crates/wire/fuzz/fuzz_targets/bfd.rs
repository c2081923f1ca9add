//! BFD control packets: what is accepted passes every check of reception and is emitted again octet by octet, its
//! length aside.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::bfd::{Bfd, BfdPacket, BfdState, PACKET_LEN};

fuzz_target!(|data: &[u8]| {
    let Ok(packet) = BfdPacket::parse(data) else { return };
    assert!(packet.detect_multiplier() > 0 && packet.my_discriminator() != 0);
    assert!(packet.your_discriminator() != 0 || packet.state() < BfdState::Init);
    let mut out = [0; PACKET_LEN];
    assert_eq!(Bfd::from(packet).emit(&mut out), Ok(PACKET_LEN));
    assert!(usize::from(data[3]) >= PACKET_LEN && usize::from(data[3]) <= data.len());
    out[3] = data[3];
    assert_eq!(out, data[..PACKET_LEN]);
});
