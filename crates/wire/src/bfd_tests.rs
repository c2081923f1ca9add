//! BFD control packets by hand, each check of reception, and properties of arbitrary ones.

use proptest::prelude::*;

use super::*;
use crate::arbitrary::{bfd, octets};

/// Up, "neighbor signaled session down", Poll and C, multiplier 3, 0x01020304 > 0x0a0b0c0d, 300 ms, 50 ms, no echo.
const PACKET: [u8; 24] = [
    0x23, 0xe8, 3, 24, 1, 2, 3, 4, 0x0a, 0x0b, 0x0c, 0x0d, 0x00, 0x04, 0x93, 0xe0, 0x00, 0x00, 0xc3, 0x50, 0,
    0, 0, 0,
];

fn with(at: usize, value: u8) -> [u8; 24] {
    let mut bytes = PACKET;
    bytes[at] = value;
    bytes
}

fn problem(bytes: &[u8]) -> Problem {
    let error = BfdPacket::parse(bytes).unwrap_err();
    assert_eq!(error.layer, Layer::Bfd);
    error.problem
}

#[test]
fn packet_by_hand() {
    let fields = Bfd {
        state: BfdState::Up,
        diagnostic: BfdDiagnostic::NEIGHBOR_SIGNALED_SESSION_DOWN,
        poll_flag: true,
        final_flag: false,
        control_plane_independent: true,
        demand: false,
        detect_multiplier: 3,
        my_discriminator: 0x0102_0304,
        your_discriminator: 0x0a0b_0c0d,
        desired_min_tx: 300_000,
        required_min_rx: 50_000,
        required_min_echo_rx: 0,
    };
    assert_eq!(Bfd::from(BfdPacket::parse(&PACKET).unwrap()), fields);
    let mut out = [0xff; 30];
    assert_eq!(fields.emit(&mut out), Ok(fields.packet_len()));
    assert_eq!(out[..24], PACKET);
    assert_eq!(
        fields.emit(&mut [0; 23]).unwrap_err().problem,
        Problem::BufferTooSmall { needed: 24, available: 23 }
    );
}

#[test]
fn lengths_and_versions() {
    assert_eq!(problem(&PACKET[..23]), Problem::Truncated { needed: 24, available: 23 });
    assert_eq!(problem(&with(0, 0x03)), Problem::Version(0));
    assert_eq!(problem(&with(0, 0x43)), Problem::Version(2));
    assert_eq!(problem(&with(3, 23)), Problem::Length { field: "length", value: 23 });
    assert_eq!(problem(&with(3, 25)), Problem::Truncated { needed: 25, available: 24 });
    let longer = [&with(3, 26)[..], &[0; 2]].concat();
    assert_eq!(Bfd::from(BfdPacket::parse(&longer).unwrap()), Bfd::from(BfdPacket::parse(&PACKET).unwrap()));
}

#[test]
fn every_other_check_of_reception() {
    assert_eq!(problem(&with(2, 0)), Problem::Bfd(BfdProblem::ZeroDetectMultiplier));
    assert_eq!(problem(&with(1, 0xe9)), Problem::Bfd(BfdProblem::Multipoint));
    assert_eq!(problem(&with(1, 0xec)), Problem::Bfd(BfdProblem::Authenticated));
    let mut mine = PACKET;
    mine[4..8].fill(0);
    assert_eq!(problem(&mine), Problem::Bfd(BfdProblem::ZeroMyDiscriminator));
    let yours = |state: u8| {
        let mut bytes = with(1, state << 6);
        bytes[8..12].fill(0);
        BfdPacket::parse(&bytes).map(|packet| packet.state()).map_err(|error| error.problem)
    };
    assert_eq!(yours(0), Ok(BfdState::AdminDown));
    assert_eq!(yours(1), Ok(BfdState::Down));
    assert_eq!(yours(2), Err(Problem::Bfd(BfdProblem::ZeroYourDiscriminator(BfdState::Init))));
    assert_eq!(yours(3), Err(Problem::Bfd(BfdProblem::ZeroYourDiscriminator(BfdState::Up))));
}

#[test]
fn errors_and_names_are_for_people() {
    let error = BfdPacket::parse(&with(1, 0xec)).unwrap_err();
    assert_eq!(error.to_string(), "BFD: the packet is authenticated, and no session uses authentication");
    assert_eq!(BfdDiagnostic::PATH_DOWN.to_string(), "path down");
    assert_eq!(BfdDiagnostic::from_bits(0xff).to_string(), "diagnostic 31");
    assert_eq!(BfdState::AdminDown.to_string(), "AdminDown");
}

proptest! {
    #[test]
    fn emitted_packets_parse_as_they_were(packet in bfd(), rest in octets(0..20)) {
        let mut bytes = [0; 24];
        prop_assert_eq!(packet.emit(&mut bytes), Ok(24));
        let bytes = [&bytes[..], &rest].concat();
        prop_assert_eq!(Bfd::from(BfdPacket::parse(&bytes).unwrap()), packet);
    }

    #[test]
    fn accepted_packets_emit_the_same_bytes(mut bytes in octets(0..40), plausible: bool) {
        if plausible && bytes.len() >= 24 {
            (bytes[0], bytes[1]) = (0x20 | bytes[0] & 0x1f, bytes[1] & !0x05);
            (bytes[2], bytes[3]) = (bytes[2].max(1), 24);
        }
        if let Ok(packet) = BfdPacket::parse(&bytes) {
            let mut out = [0; 24];
            Bfd::from(packet).emit(&mut out).unwrap();
            // The length may count octets that a later revision puts behind.
            prop_assert!(bytes[3] >= 24 && usize::from(bytes[3]) <= bytes.len());
            out[3] = bytes[3];
            prop_assert_eq!(&out[..], &bytes[..24]);
        }
    }
}
