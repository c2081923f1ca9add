//! UDP datagrams: what is accepted is emitted again octet by octet; computed checksums verify and are never
//! 0.
#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use sluice_wire::checksum::PseudoHeader;
use sluice_wire::udp::{HEADER_LEN, Udp, UdpHeader, UdpView};

fuzz_target!(|data: &[u8]| {
    let Ok(view) = UdpView::parse(data) else { return };
    let length = usize::from(view.length());
    assert_eq!(view.payload(), &data[HEADER_LEN..length]);
    let mut out = data[..length].to_vec();
    assert_eq!(Udp::from(view).emit(&mut out), Ok(HEADER_LEN));
    assert_eq!(out, data[..length]);

    let pseudo = PseudoHeader::ipv4(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    let checksum = pseudo.udp(&out);
    assert_ne!(checksum, 0);
    UdpHeader::mut_from_prefix(&mut out).expect("the header is there").0.set_checksum(checksum);
    let view = UdpView::parse(&out).expect("the checksum does not matter to the parser");
    assert_eq!(view.verify_checksum(pseudo), Ok(()));
});
