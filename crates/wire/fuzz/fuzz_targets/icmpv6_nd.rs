//! ICMPv6 messages and neighbour discovery: a message keeps its meaning when it is emitted, and its checksum
//! is right.
#![no_main]

use std::net::Ipv6Addr;

use libfuzzer_sys::fuzz_target;
use sluice_wire::checksum::PseudoHeader;
use sluice_wire::icmpv6::{HEADER_LEN, Icmpv6, Icmpv6View};
use sluice_wire::ipv6::Ipv6View;
use sluice_wire::neighbor::NeighborView;

fuzz_target!(|data: &[u8]| {
    check(data);
    // Neighbour discovery has five of 256 types and only code 0; a start of it is made from the same octets.
    if let [first, rest @ ..] = data {
        let mut message = vec![133 + first % 4, 0, 0, 0];
        message.extend_from_slice(rest);
        check(&message);
    }
});

fn check(data: &[u8]) {
    let pseudo = PseudoHeader::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
    if let Ok(view) = Icmpv6View::parse(data) {
        assert_eq!(view.payload(), &data[HEADER_LEN..]);
        if view.is_error() {
            let _ = Ipv6View::parse_quoted(view.payload());
        }
        let message = Icmpv6::from(view);
        let mut out = vec![0; data.len()];
        assert_eq!(message.emit(view.payload(), pseudo, &mut out), Ok(data.len()));
        let emitted = Icmpv6View::parse(&out).expect("an emitted message is accepted");
        assert_eq!(emitted.verify_checksum(pseudo), Ok(()));
        assert_eq!(Icmpv6::from(emitted), message);
    }
    if let Ok(view) = NeighborView::parse(data) {
        let options: Vec<_> = view.options().collect();
        let mut out = vec![0; data.len()];
        assert_eq!(view.message().emit(&options, pseudo, &mut out), Ok(data.len()));
        let emitted = NeighborView::parse(&out).expect("an emitted message is accepted");
        assert_eq!(emitted.message(), view.message());
        assert!(emitted.options().eq(options));
        let emitted = Icmpv6View::parse(&out).expect("neighbour discovery is ICMPv6");
        assert_eq!(emitted.verify_checksum(pseudo), Ok(()));
    }
}
