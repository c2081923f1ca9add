//! What the property tests of several modules generate.

use proptest::collection::SizeRange;
use proptest::prelude::*;

use crate::MacAddr;
use crate::bfd::{Bfd, BfdDiagnostic, BfdState};
use crate::lacp::{Lacp, LacpState, PortInfo};
use crate::marker::{Marker, MarkerKind};

/// Random octets, as many as `len` says.
pub(crate) fn octets(len: impl Into<SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), len)
}

/// A MAC address, of any class.
fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

/// A BFD control packet that every check of reception lets pass.
pub(crate) fn bfd() -> impl Strategy<Value = Bfd> {
    let state = prop::sample::select(vec![BfdState::AdminDown, BfdState::Down, BfdState::Init, BfdState::Up]);
    let flags = any::<[bool; 4]>();
    (state, flags, 0u8..32, 1u8.., 1u32.., any::<[u32; 4]>()).prop_map(
        |(state, flags, diagnostic, detect_multiplier, my_discriminator, numbers)| Bfd {
            state,
            diagnostic: BfdDiagnostic::from_bits(diagnostic),
            poll_flag: flags[0],
            final_flag: flags[1],
            control_plane_independent: flags[2],
            demand: flags[3],
            detect_multiplier,
            my_discriminator,
            your_discriminator: if state >= BfdState::Init { numbers[0].max(1) } else { numbers[0] },
            desired_min_tx: numbers[1],
            required_min_rx: numbers[2],
            required_min_echo_rx: numbers[3],
        },
    )
}

/// What an LACPDU says of a port.
fn port_info() -> impl Strategy<Value = PortInfo> {
    (mac(), any::<[u16; 4]>(), any::<u8>()).prop_map(|(system, numbers, state)| PortInfo {
        system_priority: numbers[0],
        system,
        key: numbers[1],
        port_priority: numbers[2],
        port: numbers[3],
        state: LacpState::from_bits(state),
    })
}

/// An LACPDU.
pub(crate) fn lacp() -> impl Strategy<Value = Lacp> {
    (port_info(), port_info(), any::<u16>()).prop_map(|(actor, partner, collector_max_delay)| Lacp {
        actor,
        partner,
        collector_max_delay,
    })
}

/// A marker or a response.
pub(crate) fn marker() -> impl Strategy<Value = Marker> {
    let kind = prop::sample::select(vec![MarkerKind::Marker, MarkerKind::Response]);
    (kind, any::<u16>(), mac(), any::<u32>()).prop_map(
        |(kind, requester_port, requester_system, requester_transaction)| Marker {
            kind,
            requester_port,
            requester_system,
            requester_transaction,
        },
    )
}
