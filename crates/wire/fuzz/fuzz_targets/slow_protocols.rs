//! LACPDUs and Marker PDUs: what is accepted keeps its fields when it is emitted again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::lacp::{Lacp, LacpPacket};
use sluice_wire::marker::{Marker, MarkerPacket};
use sluice_wire::slow_protocols::{PDU_LEN, SlowProtocol};

fuzz_target!(|data: &[u8]| {
    let mut out = [0; PDU_LEN];
    match SlowProtocol::parse(data) {
        Ok(SlowProtocol::Lacp(packet)) => {
            let fields = Lacp::from(packet);
            assert_eq!(fields.emit(&mut out), Ok(PDU_LEN));
            assert_eq!(LacpPacket::parse(&out).map(Lacp::from), Ok(fields));
            for fields in [4..19, 24..39, 44..46] {
                assert_eq!(out[fields.clone()], data[fields]);
            }
        }
        Ok(SlowProtocol::Marker(packet)) => {
            let fields = Marker::from(packet);
            assert_eq!(fields.emit(&mut out), Ok(PDU_LEN));
            assert_eq!(MarkerPacket::parse(&out).map(Marker::from), Ok(fields));
            assert_eq!(out[2..16], data[2..16]);
        }
        Ok(SlowProtocol::Other { subtype }) => assert_eq!(subtype, data[0]),
        Err(_) => assert!(data.len() < PDU_LEN || matches!(data[0], 1 | 2)),
    }
});
