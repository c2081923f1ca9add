//! TCP segments by hand, changed in place, and in round trips.

use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::arbitrary::octets;

/// 40000 → 443, SYN with the options of a common client: MSS 1460, SACK permitted, timestamps, padding, scale
/// 7.
const SYN: [u8; 40] = [
    0x9c, 0x40, 0x01, 0xbb, 0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0, 0, 0,
    0, // fixed part
    2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7,
];

#[test]
fn fields_and_options() {
    let bytes = [&SYN[..], b"data"].concat();
    let view = TcpView::parse(&bytes).unwrap();
    assert_eq!((view.source_port(), view.destination_port()), (40000, 443));
    assert_eq!((view.sequence(), view.acknowledgment()), (0x0102_0304, 0));
    assert_eq!((view.header_len(), view.flags(), view.window()), (40, TcpFlags::SYN, 64240));
    assert_eq!(view.payload(), b"data");
    let options: Vec<_> = view.options().map(|option| TcpOption::from(option.unwrap())).collect();
    let expected = [
        TcpOption::MaximumSegmentSize(1460),
        TcpOption::SackPermitted,
        TcpOption::Timestamps { value: 9, echo: 0 },
        TcpOption::NoOperation,
        TcpOption::WindowScale(7),
    ];
    assert_eq!(options, expected);
    let mut out = [0; 40];
    assert_eq!(Tcp::from(view).emit(&mut out), Ok(40));
    assert_eq!(out, SYN);
}

#[test]
fn options_of_a_wrong_length_have_no_meaning() {
    let option = |kind, data: &'static [u8]| TcpOption::from(RawOption { kind, data, offset: 0 });
    assert!(matches!(option(2, &[1]), TcpOption::Other(_)));
    assert!(matches!(option(8, &[0; 7]), TcpOption::Other(_)));
    assert!(matches!(option(5, &[0; 12]), TcpOption::Other(_)));
    assert_eq!(option(5, &[0; 8]), TcpOption::Sack(&[0; 8]));
}

#[test]
fn flags_by_name() {
    assert_eq!(TcpFlags::SYN.and(TcpFlags::ACK).to_string(), "SYN,ACK");
    assert_eq!(TcpFlags::default().to_string(), "none");
    assert_eq!(TcpFlags::from_bits(0xffff).bits(), 0x1ff);
    assert!(TcpFlags::from_bits(0x12).contains(TcpFlags::ACK) && !TcpFlags::ACK.contains(TcpFlags::SYN));
}

#[test]
fn known_checksum() {
    // 10.0.0.1 → 10.0.0.2 without payload: the words of pseudo header and header, added up one by one.
    let header = Tcp::new(1, 2, TcpFlags::ACK);
    let mut bytes = [0; 20];
    header.emit(&mut bytes).unwrap();
    let pseudo = PseudoHeader::ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let value = pseudo.tcp(&bytes);
    let words = [0x0a00u32, 1, 0x0a00, 2, 6, 20, 1, 2, 0x5010, 0xffff];
    let sum: u32 = words.iter().sum();
    assert_eq!(u32::from(!value), (sum & 0xffff) + (sum >> 16));
    bytes[16..18].copy_from_slice(&value.to_be_bytes());
    assert_eq!(TcpView::parse(&bytes).unwrap().verify_checksum(pseudo), Ok(()));
    bytes[4] ^= 1;
    assert!(TcpView::parse(&bytes).unwrap().verify_checksum(pseudo).is_err());
}

#[test]
fn refused_segments() {
    let with_offset = |octet: u8| {
        let mut bytes = SYN;
        bytes[12] = octet;
        TcpView::parse(&bytes).map(|_| ()).unwrap_err().problem
    };
    assert_eq!(with_offset(0x40), Problem::Length { field: "data offset", value: 16 });
    assert_eq!(with_offset(0xb0), Problem::Truncated { needed: 44, available: 40 });
    assert_eq!(
        TcpView::parse(&SYN[..19]).unwrap_err().problem,
        Problem::Truncated { needed: 20, available: 19 }
    );
    let header = Tcp::from(TcpView::parse(&SYN).unwrap());
    assert!(header.emit(&mut [0; 39]).is_err());
}

proptest! {
    #[test]
    fn accepted_segments_emit_the_same_bytes(mut bytes in octets(0..90), plausible: bool) {
        if plausible && bytes.len() >= 60 {
            bytes[12] |= 0x50;
        }
        if let Ok(view) = TcpView::parse(&bytes) {
            let mut out = vec![0; view.header_len()];
            prop_assert_eq!(Tcp::from(view).emit(&mut out), Ok(view.header_len()));
            // The three reserved bits are not sent on.
            out[12] |= bytes[12] & 0x0e;
            prop_assert_eq!(&[&out[..], view.payload()].concat(), &bytes);
            for option in view.options().flatten() {
                let _: TcpOption<'_> = option.into();
                prop_assert!(option.offset + option.data.len() <= view.option_bytes().len());
            }
        }
    }

    #[test]
    fn emitted_headers_parse_as_they_were(
        words: [u16; 5], numbers: [u32; 2], flags in 0u16..512, options in octets(0..=40),
    ) {
        let header = Tcp {
            sequence: numbers[0],
            acknowledgment: numbers[1],
            window: words[2],
            checksum: words[3],
            urgent_pointer: words[4],
            options: OptionBytes::new(&options[..options.len() & !3]).unwrap(),
            ..Tcp::new(words[0], words[1], TcpFlags::from_bits(flags))
        };
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes).unwrap();
        prop_assert_eq!(Tcp::from(TcpView::parse(&bytes).unwrap()), header);
    }

    #[test]
    fn changed_ports_keep_the_checksum(source: u16, destination: u16, rest: [u8; 40]) {
        let pseudo = PseudoHeader::ipv4(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
        let mut bytes = [&SYN[..], &rest].concat();
        let value = pseudo.tcp(&bytes);
        let (header, _) = TcpHeader::mut_from_prefix(&mut bytes).unwrap();
        header.set_checksum(value);
        header.set_source_port(source);
        header.set_destination_port(destination);
        let view = TcpView::parse(&bytes).unwrap();
        prop_assert_eq!((view.source_port(), view.destination_port()), (source, destination));
        prop_assert_eq!(view.verify_checksum(pseudo), Ok(()));
    }
}
