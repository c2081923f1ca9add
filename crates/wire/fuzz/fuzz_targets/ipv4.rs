//! IPv4 packets: what is accepted is emitted again octet by octet but for the checksum, which is then right;
//! changes in place keep a right checksum right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::ipv4::{Ipv4, Ipv4Header, Ipv4View};

fuzz_target!(|data: &[u8]| {
    if let Ok(view) = Ipv4View::parse(data) {
        assert_eq!(view.header_len() + view.payload().len(), view.total_len());
        assert!(view.total_len() <= data.len());
        check(view, data);
    }
    if let Ok(view) = Ipv4View::parse_quoted(data) {
        assert!(view.header_len() + view.payload().len() <= data.len());
        check(view, data);
    }
});

fn check(view: Ipv4View<'_>, data: &[u8]) {
    let header = Ipv4::from(view);
    let mut out = [0; 60];
    let written = header.emit(&mut out).expect("an accepted header can be emitted");
    assert_eq!(written, view.header_len());
    assert_eq!(out[..10], data[..10]);
    assert_eq!(out[12..written], data[12..written]);
    let emitted = Ipv4View::parse_quoted(&out[..written]).expect("an emitted header is accepted");
    assert_eq!(emitted.verify_checksum(), Ok(()));
    assert_eq!(Ipv4::from(emitted), header);
    // ffff and 0 are the same sum; only one of them is ever computed.
    if view.verify_checksum().is_ok() && view.checksum() != 0xffff {
        assert_eq!(out[..written], data[..written]);
    }

    let mut end = 0;
    for option in view.options().flatten() {
        assert_eq!(option.offset, end);
        end += if option.kind == 1 { 1 } else { option.data.len() + 2 };
    }
    assert!(end <= view.option_bytes().len());

    let (raw, _) = Ipv4Header::mut_from_prefix(&mut out).expect("the header is there");
    assert_eq!(raw.lower_ttl(1), header.ttl > 1);
    raw.set_source(header.destination);
    raw.set_length_and_identification(u16::MAX, header.identification.wrapping_add(1));
    let changed = Ipv4View::parse_quoted(&out[..written]).expect("the header is still one");
    assert_eq!(changed.verify_checksum(), Ok(()));
}
