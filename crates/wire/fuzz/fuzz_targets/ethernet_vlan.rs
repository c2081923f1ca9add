//! Ethernet frames with tags: what is accepted is emitted again octet by octet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::ethernet::{Ethernet, EthernetHeader, EthernetView};

fuzz_target!(|data: &[u8]| {
    let Ok(view) = EthernetView::parse(data) else { return };
    assert_eq!(view.header_len() + view.payload().len(), data.len());
    assert!(view.inner_tag().is_none() || view.outer_tag().is_some());

    let header = Ethernet::from(view);
    let mut out = [0; 22];
    let written = header.emit(&mut out).expect("an accepted header can be emitted");
    assert_eq!(written, view.header_len());
    assert_eq!(out[..written], data[..written]);
    assert!(header.emit(&mut out[..written - 1]).is_err());

    let mut changed = data.to_vec();
    let (raw, _) = EthernetHeader::mut_from_prefix(&mut changed).expect("the header is there");
    raw.set_destination(view.source());
    raw.set_source(view.destination());
    let swapped = EthernetView::parse(&changed).expect("addresses do not matter to the parser");
    assert_eq!((swapped.source(), swapped.destination()), (view.destination(), view.source()));
    assert_eq!(swapped.payload(), view.payload());
});
