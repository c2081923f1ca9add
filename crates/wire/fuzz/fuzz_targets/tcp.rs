//! TCP segments: what is accepted is emitted again octet by octet but for the reserved bits; options lie
//! within the header; changed ports keep a right checksum right.
#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use sluice_wire::checksum::PseudoHeader;
use sluice_wire::tcp::{Tcp, TcpHeader, TcpOption, TcpView};

fuzz_target!(|data: &[u8]| {
    let Ok(view) = TcpView::parse(data) else { return };
    assert_eq!(view.header_len() + view.payload().len(), data.len());
    let mut out = data.to_vec();
    let written = Tcp::from(view).emit(&mut out).expect("an accepted header can be emitted");
    assert_eq!(written, view.header_len());
    out[12] |= data[12] & 0x0e;
    assert_eq!(out, data);

    let mut end = 0;
    for option in view.options().flatten() {
        assert_eq!(option.offset, end);
        end += if option.kind == 1 { 1 } else { option.data.len() + 2 };
        let _ = TcpOption::from(option);
    }
    assert!(end <= view.option_bytes().len());

    let pseudo = PseudoHeader::ipv4(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    let checksum = pseudo.tcp(&out);
    let (raw, _) = TcpHeader::mut_from_prefix(&mut out).expect("the header is there");
    raw.set_checksum(checksum);
    raw.set_source_port(!raw.source_port());
    raw.set_destination_port(raw.destination_port().wrapping_add(1));
    let view = TcpView::parse(&out).expect("ports do not matter to the parser");
    assert_eq!(view.verify_checksum(pseudo), Ok(()));
});
