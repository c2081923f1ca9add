//! ICMP messages: a message keeps its meaning when it is emitted, and its checksum is then right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::Layer;
use sluice_wire::icmpv4::{HEADER_LEN, IcmpHeader, Icmpv4, Icmpv4View};
use sluice_wire::ipv4::Ipv4View;

fuzz_target!(|data: &[u8]| {
    let Ok(view) = Icmpv4View::parse(data) else { return };
    assert_eq!(view.payload(), &data[HEADER_LEN..]);
    if view.is_error() {
        let _ = Ipv4View::parse_quoted(view.payload());
    }

    let message = Icmpv4::from(view);
    let mut out = vec![0; data.len()];
    assert_eq!(message.emit(view.payload(), &mut out), Ok(data.len()));
    let emitted = Icmpv4View::parse(&out).expect("an emitted message is accepted");
    assert_eq!(emitted.verify_checksum(), Ok(()));
    assert_eq!(Icmpv4::from(emitted), message);
    assert_eq!((emitted.kind(), emitted.code()), (view.kind(), view.code()));

    let (raw, _) = IcmpHeader::mut_from_prefix(Layer::Icmpv4, &mut out).expect("the header is there");
    raw.set_identifier(!raw.identifier());
    let changed = Icmpv4View::parse(&out).expect("the message is still one");
    // All zeros have two sums, and only then the incremental one is the other.
    assert!(changed.verify_checksum().is_ok() || out.iter().all(|octet| *octet == 0));
});
