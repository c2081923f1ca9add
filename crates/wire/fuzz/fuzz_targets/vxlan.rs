//! VXLAN headers: what is accepted keeps its VNI and its payload, reserved bits aside.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::vxlan::{HEADER_LEN, Vxlan, VxlanView};

fuzz_target!(|data: &[u8]| {
    let Ok(view) = VxlanView::parse(data) else { return };
    assert_eq!(view.payload(), &data[HEADER_LEN..]);
    let mut out = [0; HEADER_LEN];
    assert_eq!(Vxlan::from(view).emit(&mut out), Ok(HEADER_LEN));
    assert_eq!(out, [0x08, 0, 0, 0, data[4], data[5], data[6], 0]);
});
