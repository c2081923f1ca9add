//! Geneve headers: what is accepted is emitted again octet by octet but for what is reserved, and options
//! that are pushed one by one give the same header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::geneve::{Geneve, GeneveView};
use sluice_wire::options::OptionBytes;

fuzz_target!(|data: &[u8]| {
    let Ok(view) = GeneveView::parse(data) else { return };
    assert_eq!(view.header_len() + view.payload().len(), data.len());
    let header = Geneve::from(view);
    let mut out = [0; 260];
    let written = header.emit(&mut out).expect("an accepted header can be emitted");
    assert_eq!(written, view.header_len());
    out[1] |= data[1] & 0x3f;
    out[7] = data[7];
    assert_eq!(out[..written], data[..written]);

    let mut pushed = Geneve { options: OptionBytes::EMPTY, critical: false, ..header };
    for option in view.options() {
        pushed.push_option(option).expect("options of an accepted header fit into one");
    }
    assert_eq!(pushed.critical, view.options().any(|option| option.is_critical()));
    let mut again = [0; 260];
    assert_eq!(pushed.emit(&mut again), Ok(written));
    let again = GeneveView::parse(&again).expect("an emitted header is accepted");
    assert!(again.options().eq(view.options()));
});
