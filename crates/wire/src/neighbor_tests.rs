//! Neighbour discovery messages by hand and in round trips.

use proptest::prelude::*;

use super::*;
use crate::arbitrary::octets;
use crate::icmpv6::Icmpv6View;
use crate::{MacAddr, Problem};

const MAC: MacAddr = MacAddr([0x02, 0x50, 0x56, 0x56, 0x44, 0x52]);
const TARGET: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0x50, 0x56ff, 0xfe56, 0x4452);

fn pseudo() -> PseudoHeader {
    PseudoHeader::ipv6(TARGET, solicited_node(TARGET))
}

#[test]
fn solicited_node_address() {
    assert_eq!(solicited_node(TARGET).to_string(), "ff02::1:ff56:4452");
}

#[test]
fn neighbor_solicitation_by_hand() {
    let mut bytes = vec![135, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(&TARGET.octets());
    bytes.extend_from_slice(&[1, 1, 0x02, 0x50, 0x56, 0x56, 0x44, 0x52]);
    let view = NeighborView::parse(&bytes).unwrap();
    assert_eq!(view.message(), NeighborMessage::NeighborSolicitation { target: TARGET });
    let options: Vec<_> = view.options().collect();
    assert_eq!(options, [NeighborOption::SourceLinkLayer(MAC)]);

    let mut out = [0xff; 32];
    assert_eq!(view.message().emit(&options, pseudo(), &mut out), Ok(32));
    assert_eq!(Icmpv6View::parse(&out).unwrap().verify_checksum(pseudo()), Ok(()));
    out[2..4].fill(0);
    assert_eq!(out, bytes[..]);
}

#[test]
fn neighbor_advertisement_flags() {
    let advertisement =
        NeighborAdvertisement { router: true, solicited: false, override_cache: true, target: TARGET };
    let message = NeighborMessage::NeighborAdvertisement(advertisement);
    let mut out = [0; 32];
    assert_eq!(message.emit(&[NeighborOption::TargetLinkLayer(MAC)], pseudo(), &mut out), Ok(32));
    assert_eq!((out[0], out[4], &out[24..26]), (136, 0xa0, &[2, 1][..]));
    assert_eq!(NeighborMessage::from(NeighborView::parse(&out).unwrap()), message);
}

#[test]
fn router_advertisement_by_hand() {
    // Hop limit 64, M and O, lifetime 1800 s, reachable 30000 ms, retransmit 1000 ms; MTU 1500; 2001:db8::/64
    // on link and autonomous for 86400 s, preferred for 14400 s; then an option of a type of its own.
    let mut bytes = vec![134, 0, 0, 0, 64, 0xc0, 0x07, 0x08, 0, 0, 0x75, 0x30, 0, 0, 0x03, 0xe8];
    bytes.extend_from_slice(&[5, 1, 0, 0, 0, 0, 0x05, 0xdc]);
    bytes.extend_from_slice(&[3, 4, 64, 0xc0, 0, 0x01, 0x51, 0x80, 0, 0, 0x38, 0x40, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[25, 1, 1, 2, 3, 4, 5, 6]);
    let view = NeighborView::parse(&bytes).unwrap();
    let router = RouterAdvertisement {
        hop_limit: 64,
        managed: true,
        other_configuration: true,
        router_lifetime: 1800,
        reachable_time: 30_000,
        retransmit_timer: 1000,
    };
    assert_eq!(view.message(), NeighborMessage::RouterAdvertisement(router));
    let prefix = PrefixInformation {
        prefix: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0),
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_lifetime: 86_400,
        preferred_lifetime: 14_400,
    };
    let options: Vec<_> = view.options().collect();
    let expected = [
        NeighborOption::Mtu(1500),
        NeighborOption::PrefixInformation(prefix),
        NeighborOption::Other { kind: 25, data: &[1, 2, 3, 4, 5, 6] },
    ];
    assert_eq!(options, expected);
    let mut out = vec![0; bytes.len()];
    assert_eq!(view.message().emit(&options, pseudo(), &mut out), Ok(bytes.len()));
    out[2..4].fill(0);
    assert_eq!(out, bytes);
}

#[test]
fn known_options_of_another_length() {
    // A link-layer address of 64 bits: not one of Ethernet.
    let mut bytes = vec![133, 0, 0, 0, 0, 0, 0, 0, 1, 2];
    bytes.extend_from_slice(&[9; 14]);
    let view = NeighborView::parse(&bytes).unwrap();
    assert_eq!(view.options().collect::<Vec<_>>(), [NeighborOption::Other { kind: 1, data: &[9; 14] }]);
}

#[test]
fn refused_messages() {
    let problem = |bytes: &[u8]| NeighborView::parse(bytes).map(|_| ()).unwrap_err().problem;
    assert_eq!(problem(&[128, 0, 0, 0, 0, 0, 0, 0]), Problem::Field { field: "type", value: 128 });
    assert_eq!(problem(&[133, 1, 0, 0, 0, 0, 0, 0]), Problem::Field { field: "code", value: 1 });
    assert_eq!(problem(&[133, 0, 0]), Problem::Truncated { needed: 8, available: 3 });
    assert_eq!(problem(&[135, 0, 0, 0, 0, 0, 0, 0, 0]), Problem::Truncated { needed: 16, available: 1 });
    assert_eq!(problem(&[134, 0, 0, 0, 0, 0, 0, 0, 0]), Problem::Truncated { needed: 8, available: 1 });
    let options = |options: &[u8]| problem(&[&[133, 0, 0, 0, 0, 0, 0, 0], options].concat());
    assert_eq!(options(&[25, 0, 0, 0, 0, 0, 0, 0]), Problem::Option { offset: 0 });
    assert_eq!(options(&[25, 1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0]), Problem::Option { offset: 8 });
    assert_eq!(options(&[25, 1, 0, 0, 0, 0, 0, 0, 1]), Problem::Option { offset: 8 });
}

#[test]
fn refused_options() {
    let emit = |option: NeighborOption<'_>| {
        NeighborMessage::RouterSolicitation.emit(&[option], pseudo(), &mut [0; 16])
    };
    assert!(matches!(
        emit(NeighborOption::Other { kind: 9, data: &[0; 5] }).unwrap_err().problem,
        Problem::Length { field: "option", value: 7 }
    ));
    assert!(matches!(
        emit(NeighborOption::Other { kind: 9, data: &[0; 2046] }).unwrap_err().problem,
        Problem::Length { field: "option", value: 2048 }
    ));
    assert!(matches!(
        emit(NeighborOption::Other { kind: 9, data: &[0; 14] }).unwrap_err().problem,
        Problem::BufferTooSmall { needed: 16, available: 8 }
    ));
    assert_eq!(emit(NeighborOption::Mtu(9000)), Ok(16));
}

proptest! {
    #[test]
    fn accepted_messages_keep_their_meaning(
        mut bytes in octets(0..90), kind in 132u8..138, units in 0u8..3,
    ) {
        if bytes.len() >= 26 {
            bytes[0] = kind;
            bytes[1] = 0;
            for length in [9, 17, 25] {
                bytes[length] = units;
            }
        }
        if let Ok(view) = NeighborView::parse(&bytes) {
            let options: Vec<_> = view.options().collect();
            let mut out = vec![0; bytes.len()];
            prop_assert_eq!(view.message().emit(&options, pseudo(), &mut out), Ok(bytes.len()));
            let again = NeighborView::parse(&out).unwrap();
            prop_assert_eq!(again.message(), view.message());
            prop_assert_eq!(again.options().collect::<Vec<_>>(), options);
            prop_assert_eq!(Icmpv6View::parse(&out).unwrap().verify_checksum(pseudo()), Ok(()));
        }
    }
}
