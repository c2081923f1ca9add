//! IPv6 packets: offsets lie within the packet, and header and extension headers are emitted again octet by
//! octet but for what is reserved.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::IpProtocol;
use sluice_wire::ipv6::{HEADER_LEN, Ipv6, Ipv6View, MAX_EXTENSION_HEADERS};

fuzz_target!(|data: &[u8]| {
    // Random octets rarely lead through a chain; a start that does is made from the same octets.
    check(data);
    if let [next, rest @ ..] = data {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, [0, 43, 44, 51, 60, 17][usize::from(*next) % 6], 64];
        packet.extend_from_slice(&[0xfd; 32]);
        packet.extend_from_slice(rest);
        packet[4..6].copy_from_slice(&(rest.len() as u16).to_be_bytes());
        check(&packet);
    }
});

fn check(data: &[u8]) {
    if let Ok(view) = Ipv6View::parse(data) {
        assert_eq!(view.payload().len(), usize::from(view.payload_len()));
        emit_again(view, data);
    }
    if let Ok(view) = Ipv6View::parse_quoted(data) {
        emit_again(view, data);
    }
}

fn emit_again(view: Ipv6View<'_>, data: &[u8]) {
    assert!(view.upper_layer_offset() >= HEADER_LEN);
    assert_eq!(view.upper_layer_offset() + view.upper_payload().len(), HEADER_LEN + view.payload().len());
    assert!(data[view.upper_layer_offset()..].starts_with(view.upper_payload()));
    assert!(view.extension_header_count() <= MAX_EXTENSION_HEADERS);

    let mut out = vec![0; view.upper_layer_offset()];
    let mut at = Ipv6::from(view).emit(&mut out).expect("an accepted header can be emitted");
    let mut fragment = None;
    let mut count = 0;
    for header in view.extension_headers() {
        let header = header.expect("the headers of an accepted packet are well-formed");
        header.emit(&mut out[at..]).expect("an accepted extension header can be emitted");
        if header.protocol == IpProtocol::FRAGMENT {
            out[at + 1] = data[at + 1];
            fragment = fragment.or(header.fragment());
        }
        at += header.header_len();
        count += 1;
    }
    assert_eq!((at, fragment, count), (out.len(), view.fragment(), view.extension_header_count()));
    assert_eq!(out, data[..at]);
    let ended = view.fragment().is_some_and(|_| true) || !view.upper_layer().is_ipv6_extension();
    assert!(ended, "the walk ends at an upper layer or behind a fragment header");
}
