//! IPv4 headers by hand, changed in place, and in round trips.

use proptest::prelude::*;

use super::*;
use crate::arbitrary::octets;

/// 10.0.0.1 → 10.0.0.2, UDP, 28 octets with a router alert option and 4 octets of payload, then 2 of padding.
/// Its checksum is left to [`fixed`].
const ROUTER_ALERT: [u8; 30] = [
    0x46, 0xb9, 0x00, 0x1c, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 10, 0, 0, 1, 10, 0, 0, 2, 0x94,
    0x04, 0, 0, 1, 2, 3, 4, 0xee, 0xee,
];

/// The packet with its checksum made right, so that a wrong byte elsewhere is what a test sees.
fn fixed(mut bytes: Vec<u8>) -> Vec<u8> {
    let header_len = usize::from(bytes[0] & 0x0f) * 4;
    bytes[10..12].fill(0);
    let checksum = checksum::checksum(&bytes[..header_len]);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

#[test]
fn fields_options_and_padding() {
    let bytes = fixed(ROUTER_ALERT.to_vec());
    let view = Ipv4View::parse(&bytes).unwrap();
    assert_eq!((view.version(), view.header_len(), view.total_len()), (4, 24, 28));
    assert_eq!((view.dscp(), view.ecn()), (Dscp::EXPEDITED, Ecn::Capable1));
    assert_eq!((view.identification(), view.ttl(), view.protocol()), (0x1234, 64, IpProtocol::UDP));
    assert!(view.dont_fragment() && !view.is_fragment());
    assert_eq!((view.source(), view.destination()), (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)));
    assert_eq!(view.payload(), [1, 2, 3, 4], "the frame's padding is no payload");
    assert_eq!(view.verify_checksum(), Ok(()));
    let options: Vec<_> = view.options().map(Result::unwrap).collect();
    assert_eq!(
        (options.len(), options[0].kind, options[0].data),
        (1, option_kind::ROUTER_ALERT, &[0, 0][..])
    );
}

#[test]
fn a_known_checksum() {
    // The usual example header: 4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7; without b861 the words add
    // up to 2479c, with the carry 479e, whose complement is b861.
    let header = Ipv4 {
        payload_len: 0x73 - 20,
        ..Ipv4::new(Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::new(192, 168, 0, 199), IpProtocol::UDP)
    };
    let mut bytes = [0; 20];
    assert_eq!(header.emit(&mut bytes), Ok(20));
    assert_eq!(bytes[..12], [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61]);
}

#[test]
fn wrong_checksum_is_seen() {
    let mut bytes = fixed(ROUTER_ALERT.to_vec());
    bytes[22] ^= 1;
    let view = Ipv4View::parse(&bytes).unwrap();
    assert_eq!(view.verify_checksum(), Err(Layer::Ipv4.error(Problem::Checksum)), "options are covered too");
}

#[test]
fn fragments() {
    let mut bytes = ROUTER_ALERT;
    for (field, more, offset, fragment) in [
        (0x2000u16, true, 0, true),
        (0x2003, true, 24, true),
        (0x1fff, false, 65_528, true),
        (0x4000, false, 0, false),
    ] {
        bytes[6..8].copy_from_slice(&field.to_be_bytes());
        let view = Ipv4View::parse(&bytes).unwrap();
        assert_eq!(
            (view.more_fragments(), view.fragment_offset(), view.is_fragment()),
            (more, offset, fragment)
        );
    }
}

#[test]
fn refused_packets() {
    let with = |at: usize, value: u8| {
        let mut bytes = ROUTER_ALERT;
        bytes[at] = value;
        Ipv4View::parse(&bytes).map(|_| ()).unwrap_err().problem
    };
    assert_eq!(with(0, 0x66), Problem::Version(6));
    assert_eq!(with(0, 0x44), Problem::Length { field: "header length", value: 16 });
    assert_eq!(with(3, 23), Problem::Length { field: "total length", value: 23 });
    assert_eq!(with(3, 31), Problem::Truncated { needed: 31, available: 30 });
    assert_eq!(
        Ipv4View::parse(&ROUTER_ALERT[..19]).unwrap_err().problem,
        Problem::Truncated { needed: 20, available: 19 }
    );
}

#[test]
fn quoted_packets_may_end_early() {
    assert!(Ipv4View::parse(&ROUTER_ALERT[..26]).is_err());
    let view = Ipv4View::parse_quoted(&ROUTER_ALERT[..26]).unwrap();
    assert_eq!((view.payload(), view.total_len()), (&[1, 2][..], 28));
    assert_eq!(Ipv4::from(view).payload_len, 4);
    assert!(Ipv4View::parse_quoted(&ROUTER_ALERT[..23]).is_err(), "the header must be complete");
}

#[test]
fn refused_headers() {
    let header = Ipv4::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, IpProtocol::TCP);
    let too_long = Ipv4 { payload_len: 65_516, ..header };
    assert_eq!(too_long.emit(&mut [0; 20]), Err(Layer::Ipv4.length("total length", 65_536)));
    let odd = Ipv4 { fragment_offset: 12, ..header };
    assert_eq!(odd.emit(&mut [0; 20]), Err(Layer::Ipv4.field("fragment offset", 12)));
    assert_eq!(
        header.emit(&mut [0; 19]),
        Err(Layer::Ipv4.error(Problem::BufferTooSmall { needed: 20, available: 19 }))
    );
}

#[test]
fn ttl_that_must_not_be_lowered() {
    let mut bytes = fixed(ROUTER_ALERT.to_vec());
    let before = bytes.clone();
    let (header, _) = Ipv4Header::mut_from_prefix(&mut bytes).unwrap();
    assert!(!header.lower_ttl(64));
    assert_eq!(bytes, before);
    let (header, _) = Ipv4Header::mut_from_prefix(&mut bytes).unwrap();
    assert!(header.lower_ttl(63));
    assert_eq!(bytes[8], 1);
    assert_eq!(Ipv4View::parse(&bytes).unwrap().verify_checksum(), Ok(()));
}

fn header() -> impl Strategy<Value = Ipv4> {
    let addresses = (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u8>(), any::<u8>());
    let fragment = (any::<u16>(), any::<[bool; 3]>(), 0u16..8192);
    let rest = (any::<u8>(), 0u16..100, octets(0..=40));
    (addresses, fragment, rest).prop_map(
        |((source, destination, protocol, ttl), fragment, (class, payload_len, options))| {
            let (identification, [reserved_flag, dont_fragment, more_fragments], offset) = fragment;
            Ipv4 {
                ttl,
                dscp: Dscp::from_traffic_class(class),
                ecn: Ecn::from_traffic_class(class),
                identification,
                reserved_flag,
                dont_fragment,
                more_fragments,
                fragment_offset: offset * 8,
                payload_len,
                options: OptionBytes::new(&options[..options.len() & !3]).unwrap(),
                ..Ipv4::new(source.into(), destination.into(), IpProtocol(protocol))
            }
        },
    )
}

proptest! {
    #[test]
    fn emitted_headers_parse_as_they_were(header in header(), padding in 0usize..50) {
        let mut bytes = vec![0x77; header.header_len() + usize::from(header.payload_len) + padding];
        prop_assert_eq!(header.emit(&mut bytes), Ok(header.header_len()));
        let view = Ipv4View::parse(&bytes).unwrap();
        prop_assert_eq!(view.verify_checksum(), Ok(()));
        prop_assert_eq!(view.payload().len(), usize::from(header.payload_len));
        prop_assert_eq!(Ipv4::from(view), header);
        for option in view.options().flatten() {
            prop_assert!(option.offset + option.data.len() <= header.options.len());
        }
    }

    #[test]
    fn any_bytes_are_refused_or_emitted_again(mut bytes in octets(0..90), plausible: bool) {
        if plausible && bytes.len() >= 20 {
            bytes[0] = 0x40 | (bytes[0] & 0x0f);
            bytes[2] = 0;
        }
        for view in [Ipv4View::parse(&bytes), Ipv4View::parse_quoted(&bytes)].into_iter().flatten() {
            let mut out = vec![0; view.header_len()];
            Ipv4::from(view).emit(&mut out).unwrap();
            // The emitted checksum is right; everything else is what was read.
            prop_assert_eq!(&out, &fixed(bytes[..view.header_len()].to_vec()));
        }
    }

    #[test]
    fn changes_in_place_keep_the_checksum(
        header in header(), addresses: [[u8; 4]; 2], words: [u16; 2], class: u8, hops: u8,
    ) {
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes).unwrap();
        let (raw, _) = Ipv4Header::mut_from_prefix(&mut bytes).unwrap();
        let lowered = raw.lower_ttl(hops);
        prop_assert_eq!(lowered, header.ttl > hops);
        raw.set_source(addresses[0].into());
        raw.set_destination(addresses[1].into());
        raw.set_ecn(Ecn::from_traffic_class(class));
        raw.set_length_and_identification(words[0].max(60), words[1]);
        prop_assert_eq!(&bytes, &fixed(bytes.clone()));
        let changed = Ipv4::from(Ipv4View::parse_quoted(&bytes).unwrap());
        let expected = Ipv4 {
            source: addresses[0].into(),
            destination: addresses[1].into(),
            ecn: Ecn::from_traffic_class(class),
            identification: words[1],
            ttl: if lowered { header.ttl - hops } else { header.ttl },
            payload_len: words[0].max(60) - header.header_len() as u16,
            ..header
        };
        prop_assert_eq!(changed, expected);
    }
}
