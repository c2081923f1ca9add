//! Geneve headers by hand and in round trips.

use proptest::prelude::*;

use super::*;
use crate::arbitrary::octets;

/// VNI 5001, flags O and C, 12 octets of options: class 0104 type 80 (critical) with 4 octets, class 0103
/// type 01 without data; then two octets of an inner frame.
const WITH_OPTIONS: [u8; 22] = [
    0x03, 0xc0, 0x65, 0x58, 0x00, 0x13, 0x89, 0, // fixed part
    0x01, 0x04, 0x80, 0x01, 0xde, 0xad, 0xbe, 0xef, 0x01, 0x03, 0x01, 0x00, // options
    0xaa, 0xbb,
];

#[test]
fn fields_and_options() {
    let view = GeneveView::parse(&WITH_OPTIONS).unwrap();
    assert_eq!((view.version(), view.options_len(), view.header_len()), (0, 12, 20));
    assert!(view.is_control() && view.has_critical_options());
    assert_eq!((view.protocol(), view.vni()), (EtherType::TRANSPARENT_ETHERNET, Vni::new(5001).ok()));
    assert_eq!(view.payload(), [0xaa, 0xbb]);
    let options: Vec<_> = view.options().collect();
    let expected = [
        GeneveOption { class: 0x0104, kind: 0x80, data: &[0xde, 0xad, 0xbe, 0xef] },
        GeneveOption { class: 0x0103, kind: 0x01, data: &[] },
    ];
    assert_eq!(options, expected);
    assert!(options[0].is_critical() && !options[1].is_critical());
}

#[test]
fn options_are_pushed() {
    let mut header = Geneve { control: true, ..Geneve::new(Vni::new(5001).unwrap()) };
    header.push_option(GeneveOption { class: 0x0104, kind: 0x80, data: &[0xde, 0xad, 0xbe, 0xef] }).unwrap();
    assert!(header.critical);
    header.push_option(GeneveOption { class: 0x0103, kind: 0x01, data: &[] }).unwrap();
    let mut out = [0xff; 20];
    assert_eq!(header.emit(&mut out), Ok(20));
    assert_eq!(out, WITH_OPTIONS[..20]);
    assert_eq!(Geneve::from(GeneveView::parse(&WITH_OPTIONS).unwrap()), header);
    assert!(header.emit(&mut [0; 19]).is_err());
}

#[test]
fn options_that_do_not_fit() {
    let mut header = Geneve::new(Vni::MIN);
    let option = |data| GeneveOption { class: 1, kind: 1, data };
    assert_eq!(header.push_option(option(&[0; 128])), Err(GeneveOptionError::Data(128)));
    assert_eq!(header.push_option(option(&[0; 3])), Err(GeneveOptionError::Data(3)));
    header.push_option(option(&[1; 124])).unwrap();
    header.push_option(option(&[2; 116])).unwrap();
    let full = header;
    assert_eq!(header.options.len(), 248);
    let error = header.push_option(option(&[3; 4])).unwrap_err();
    assert_eq!(error, GeneveOptionError::Options(OptionBytesError { length: 256, capacity: 252 }));
    assert_eq!(header, full, "no half of an option stays behind");
    header.push_option(option(&[])).unwrap();
    let mut out = [0; 260];
    assert_eq!(header.emit(&mut out), Ok(260));
    assert_eq!(GeneveView::parse(&out).unwrap().options().count(), 3);
}

#[test]
fn vni_zero_names_no_segment() {
    let bytes = [0, 0x80, 0x08, 0x00, 0, 0, 0, 0];
    let view = GeneveView::parse(&bytes).unwrap();
    assert_eq!((view.vni(), view.protocol()), (None, EtherType::IPV4));
    let mut out = [0xff; 8];
    Geneve::from(view).emit(&mut out).unwrap();
    assert_eq!(out, bytes);
}

#[test]
fn refused_headers() {
    let problem = |bytes: &[u8]| GeneveView::parse(bytes).map(|_| ()).unwrap_err().problem;
    assert_eq!(problem(&WITH_OPTIONS[..7]), Problem::Truncated { needed: 8, available: 7 });
    assert_eq!(problem(&WITH_OPTIONS[..19]), Problem::Truncated { needed: 12, available: 11 });
    let with = |at: usize, value: u8| {
        let mut bytes = WITH_OPTIONS;
        bytes[at] = value;
        problem(&bytes)
    };
    assert_eq!(with(0, 0x43), Problem::Version(1));
    assert_eq!(with(11, 3), Problem::Option { offset: 0 }, "ends in the inner frame");
    assert_eq!(with(19, 1), Problem::Option { offset: 8 });
}

proptest! {
    #[test]
    fn pushed_options_are_read_as_they_were(
        vni in prop::option::of(1u32..1 << 24), protocol: u16, control: bool,
        options in prop::collection::vec((any::<u16>(), any::<u8>(), octets(0..40)), 0..5),
        payload in octets(0..20),
    ) {
        let vni = vni.map(|vni| Vni::new(vni).unwrap());
        let mut header = Geneve { vni, protocol: EtherType(protocol), control, ..Geneve::new(Vni::MIN) };
        let options: Vec<_> = options
            .iter()
            .map(|&(class, kind, ref data)| GeneveOption { class, kind, data: &data[..data.len() & !3] })
            .collect();
        for option in &options {
            header.push_option(*option).unwrap();
        }
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes).unwrap();
        bytes.extend_from_slice(&payload);
        let view = GeneveView::parse(&bytes).unwrap();
        prop_assert_eq!(view.options().collect::<Vec<_>>(), &options[..]);
        prop_assert_eq!(view.has_critical_options(), options.iter().any(GeneveOption::is_critical));
        prop_assert_eq!(view.payload(), &payload[..]);
        prop_assert_eq!(Geneve::from(view), header);
    }

    #[test]
    fn any_bytes_are_refused_or_emitted_again(mut bytes in octets(0..60), words in 0u8..8) {
        if bytes.len() > 12 {
            bytes[0] = words;
            bytes[11] &= 3;
        }
        if let Ok(view) = GeneveView::parse(&bytes) {
            let mut out = vec![0; view.header_len()];
            Geneve::from(view).emit(&mut out).unwrap();
            // Reserved bits are not sent on.
            out[1] |= bytes[1] & 0x3f;
            out[7] = bytes[7];
            prop_assert_eq!([&out[..], view.payload()].concat(), bytes);
        }
    }
}
