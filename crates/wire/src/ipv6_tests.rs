//! IPv6 headers and chains of extension headers, by hand and in round trips.

use proptest::prelude::*;

use super::*;
use crate::arbitrary::octets;

const SOURCE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const DESTINATION: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// A packet whose first extension header (or upper layer) is `next_header`, with `payload` behind the header.
fn packet(next_header: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let header = Ipv6 { payload_len: payload.len() as u16, ..Ipv6::new(SOURCE, DESTINATION, next_header) };
    let mut bytes = vec![0; 40];
    header.emit(&mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

fn problem(bytes: &[u8]) -> Problem {
    Ipv6View::parse(bytes).map(|_| ()).unwrap_err().problem
}

#[test]
fn fields_by_hand() {
    // Version 6, traffic class b9 (DSCP 46, ECT(1)), flow label 12345, payload of 2, UDP, hop limit 255.
    let mut bytes = vec![0x6b, 0x91, 0x23, 0x45, 0, 2, 17, 255];
    bytes.extend_from_slice(&SOURCE.octets());
    bytes.extend_from_slice(&DESTINATION.octets());
    bytes.extend_from_slice(&[0xaa, 0xbb, 0xee]);
    let view = Ipv6View::parse(&bytes).unwrap();
    assert_eq!((view.version(), view.dscp(), view.ecn()), (6, Dscp::EXPEDITED, Ecn::Capable1));
    assert_eq!((view.flow_label(), view.hop_limit()), (0x12345, 255));
    assert_eq!((view.source(), view.destination()), (SOURCE, DESTINATION));
    assert_eq!((view.upper_layer(), view.upper_layer_offset()), (IpProtocol::UDP, 40));
    assert_eq!((view.upper_payload(), view.extension_header_count()), (&[0xaa, 0xbb][..], 0));
    let mut out = [0; 40];
    Ipv6::from(view).emit(&mut out).unwrap();
    assert_eq!(out, bytes[..40]);
}

/// Hop-by-hop (router alert), routing (type 2, 24 octets), AH (16 octets), first fragment, destination
/// options (16 octets), UDP.
fn long_chain() -> Vec<u8> {
    let mut chain = vec![43, 0, 5, 2, 0, 0, 1, 0];
    chain.extend_from_slice(&[51, 2, 2, 0]);
    chain.extend_from_slice(&[0; 20]);
    chain.extend_from_slice(&[44, 2, 0, 0]);
    chain.extend_from_slice(&[1; 12]);
    chain.extend_from_slice(&[60, 0, 0, 1, 0xde, 0xad, 0xbe, 0xef]);
    chain.extend_from_slice(&[17, 1, 1, 12]);
    chain.extend_from_slice(&[0; 12]);
    chain.extend_from_slice(&[0x55; 9]);
    packet(IpProtocol::HOP_BY_HOP, &chain)
}

#[test]
fn every_extension_header_is_walked() {
    let bytes = long_chain();
    let view = Ipv6View::parse(&bytes).unwrap();
    assert_eq!(view.extension_header_count(), 5);
    assert_eq!((view.upper_layer(), view.upper_layer_offset()), (IpProtocol::UDP, 40 + 8 + 24 + 16 + 8 + 16));
    assert_eq!(view.upper_payload(), [0x55; 9]);
    assert_eq!(
        view.fragment(),
        Some(Fragment { offset: 0, more_fragments: true, identification: 0xdead_beef })
    );
    let walked: Vec<_> = view
        .extension_headers()
        .map(|header| header.map(|header| (header.protocol.0, header.body.len())).unwrap())
        .collect();
    assert_eq!(walked, [(0, 6), (43, 22), (51, 14), (44, 6), (60, 14)]);
}

#[test]
fn extension_headers_emit_the_same_bytes() {
    let bytes = long_chain();
    let view = Ipv6View::parse(&bytes).unwrap();
    let mut out = vec![0; bytes.len()];
    let mut at = Ipv6::from(view).emit(&mut out).unwrap();
    for header in view.extension_headers() {
        at += header.unwrap().emit(&mut out[at..]).unwrap();
    }
    assert_eq!(at, view.upper_layer_offset());
    assert_eq!(out[..at], bytes[..at]);
}

#[test]
fn walk_ends_at_a_later_fragment_and_at_esp() {
    // Offset 1448, the last fragment of a packet whose first header behind it is destination options.
    let bytes = packet(IpProtocol::FRAGMENT, &[60, 0, 0x05, 0xa8, 0, 0, 0, 7, 0xff, 0xff, 0xff]);
    let view = Ipv6View::parse(&bytes).unwrap();
    assert_eq!(view.fragment(), Some(Fragment { offset: 1448, more_fragments: false, identification: 7 }));
    assert_eq!((view.upper_layer(), view.upper_payload()), (IpProtocol::DESTINATION_OPTIONS, &[0xff; 3][..]));
    assert_eq!(view.extension_header_count(), 1);

    let bytes = packet(IpProtocol::ESP, &[0; 20]);
    let view = Ipv6View::parse(&bytes).unwrap();
    assert_eq!((view.upper_layer(), view.upper_layer_offset()), (IpProtocol::ESP, 40));
}

#[test]
fn atomic_fragments() {
    assert!(Fragment { offset: 0, more_fragments: false, identification: 9 }.is_atomic());
    assert!(!Fragment { offset: 8, more_fragments: false, identification: 9 }.is_atomic());
    assert!(!Fragment { offset: 0, more_fragments: true, identification: 9 }.is_atomic());
    let mut out = [0; 8];
    let fragment = Fragment { offset: 1448, more_fragments: true, identification: 0x0102_0304 };
    assert_eq!(fragment.emit(IpProtocol::TCP, &mut out), Ok(8));
    assert_eq!(out, [6, 0, 0x05, 0xa9, 1, 2, 3, 4]);
    let odd = Fragment { offset: 4, ..fragment };
    assert_eq!(odd.emit(IpProtocol::TCP, &mut out), Err(Layer::Ipv6.field("fragment offset", 4)));
}

#[test]
fn chain_length_is_bounded() {
    let options =
        |count: usize| packet(IpProtocol::DESTINATION_OPTIONS, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(count));
    let mut eight = options(8);
    let last = eight.len() - 8;
    eight[last] = 59;
    assert_eq!(Ipv6View::parse(&eight).unwrap().extension_header_count(), 8);
    assert_eq!(problem(&options(9)), Problem::TooManyExtensionHeaders);
}

#[test]
fn refused_packets() {
    let whole = packet(IpProtocol::UDP, &[1, 2, 3]);
    assert_eq!(problem(&whole[..39]), Problem::Truncated { needed: 40, available: 39 });
    assert_eq!(problem(&whole[..42]), Problem::Truncated { needed: 43, available: 42 });
    assert_eq!(Ipv6View::parse_quoted(&whole[..42]).unwrap().upper_payload(), [1, 2]);
    let mut version = whole;
    version[0] = 0x45;
    assert_eq!(problem(&version), Problem::Version(4));

    let cut = packet(IpProtocol::ROUTING, &[17, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(problem(&cut), Problem::Truncated { needed: 16, available: 8 });
    assert_eq!(problem(&packet(IpProtocol::ROUTING, &[17])), Problem::Truncated { needed: 2, available: 1 });
    let late = packet(IpProtocol::DESTINATION_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(problem(&late), Problem::HopByHopNotFirst);
    assert_eq!(
        problem(&packet(IpProtocol::AH, &[17, 0, 0, 0, 0, 0, 0, 0])),
        Problem::Length { field: "AH", value: 8 }
    );
}

#[test]
fn refused_headers() {
    let header = Ipv6::new(SOURCE, DESTINATION, IpProtocol::UDP);
    let label = Ipv6 { flow_label: 1 << 20, ..header };
    assert_eq!(label.emit(&mut [0; 40]), Err(Layer::Ipv6.field("flow label", 1 << 20)));
    assert!(header.emit(&mut [0; 39]).is_err());
    let extension = |protocol, len: usize| {
        let body = vec![0; len];
        ExtensionHeader { protocol, next_header: IpProtocol::UDP, body: &body }.emit(&mut [0; 3000])
    };
    assert_eq!(extension(IpProtocol::DESTINATION_OPTIONS, 7), Err(Layer::Ipv6.length("extension header", 9)));
    assert_eq!(extension(IpProtocol::DESTINATION_OPTIONS, 2046), Ok(2048));
    assert_eq!(
        extension(IpProtocol::DESTINATION_OPTIONS, 2054),
        Err(Layer::Ipv6.length("extension header", 2056))
    );
    assert_eq!(extension(IpProtocol::AH, 6), Err(Layer::Ipv6.length("extension header", 8)));
    assert_eq!(extension(IpProtocol::FRAGMENT, 14), Err(Layer::Ipv6.length("fragment header", 16)));
    assert_eq!(extension(IpProtocol::UDP, 6), Err(Layer::Ipv6.field("extension header", 17)));
}

#[test]
fn changes_in_place() {
    let mut bytes = packet(IpProtocol::UDP, &[]);
    let (header, _) = Ipv6Header::mut_from_prefix(&mut bytes).unwrap();
    assert!(!header.lower_hop_limit(64) && header.lower_hop_limit(2));
    header.set_source(DESTINATION);
    header.set_destination(SOURCE);
    header.set_payload_len(9);
    header.set_ecn(Ecn::CongestionExperienced);
    let view = Ipv6View::parse_quoted(&bytes).unwrap();
    let expected = Ipv6 {
        hop_limit: 62,
        ecn: Ecn::CongestionExperienced,
        payload_len: 9,
        ..Ipv6::new(DESTINATION, SOURCE, IpProtocol::UDP)
    };
    assert_eq!(Ipv6::from(view), expected);
}

/// Chains of extension headers that lead somewhere: protocols and bodies.
fn chain() -> impl Strategy<Value = Vec<(IpProtocol, Vec<u8>)>> {
    let header = (0u8..4, 0usize..4, any::<[u8; 32]>()).prop_map(|(kind, units, bytes)| match kind {
        0 => (IpProtocol::ROUTING, bytes[..units * 8 + 6].to_vec()),
        1 => (IpProtocol::DESTINATION_OPTIONS, bytes[..units * 8 + 6].to_vec()),
        2 => (IpProtocol::AH, bytes[..units * 4 + 10].to_vec()),
        _ => (IpProtocol::FRAGMENT, [&[0, bytes[0] & 1][..], &bytes[2..6]].concat()),
    });
    prop::collection::vec(header, 0..=usize::from(MAX_EXTENSION_HEADERS))
}

proptest! {
    #[test]
    fn emitted_chains_parse_as_they_were(
        chain in chain(), addresses: [[u8; 16]; 2], label in 0u32..1 << 20, class: u8, hop_limit: u8,
        upper in octets(0..30), padding in 0usize..9,
    ) {
        let protocols = chain.iter().map(|(protocol, _)| *protocol);
        let nexts: Vec<_> = protocols.skip(1).chain([IpProtocol::TCP]).collect();
        let first = chain.first().map_or(IpProtocol::TCP, |(protocol, _)| *protocol);
        let mut extensions = Vec::new();
        for ((protocol, body), next) in chain.iter().zip(&nexts) {
            let header = ExtensionHeader { protocol: *protocol, next_header: *next, body };
            let mut out = vec![0; header.header_len()];
            header.emit(&mut out).unwrap();
            extensions.extend_from_slice(&out);
        }
        let header = Ipv6 {
            hop_limit,
            dscp: Dscp::from_traffic_class(class),
            ecn: Ecn::from_traffic_class(class),
            flow_label: label,
            payload_len: (extensions.len() + upper.len()) as u16,
            ..Ipv6::new(addresses[0].into(), addresses[1].into(), first)
        };
        let mut bytes = vec![0; 40];
        header.emit(&mut bytes).unwrap();
        bytes.extend_from_slice(&extensions);
        bytes.extend_from_slice(&upper);
        bytes.resize(bytes.len() + padding, 0xee);

        let view = Ipv6View::parse(&bytes).unwrap();
        prop_assert_eq!(Ipv6::from(view), header);
        prop_assert_eq!(usize::from(view.extension_header_count()), chain.len());
        prop_assert_eq!((view.upper_layer(), view.upper_payload()), (IpProtocol::TCP, &upper[..]));
        prop_assert_eq!(view.upper_layer_offset(), 40 + extensions.len());
        let walked = view.extension_headers().map(Result::unwrap);
        let walked: Vec<_> = walked.map(|header| (header.protocol, header.body.to_vec())).collect();
        prop_assert_eq!(walked, chain);
    }

    #[test]
    fn any_bytes_are_refused_or_emitted_again(mut bytes in octets(0..200), next in 0usize..6) {
        if bytes.len() >= 48 && next > 0 {
            bytes[0] = 0x60;
            bytes[4] = 0;
            bytes[6] = [0, 0, 43, 44, 51, 60][next];
            bytes[41] &= 3;
        }
        for view in [Ipv6View::parse(&bytes), Ipv6View::parse_quoted(&bytes)].into_iter().flatten() {
            let mut out = vec![0; bytes.len()];
            let mut at = Ipv6::from(view).emit(&mut out).unwrap();
            for header in view.extension_headers() {
                let header = header.unwrap();
                let room = &mut out[at..];
                header.emit(room).unwrap();
                if header.protocol == IpProtocol::FRAGMENT {
                    // Its second octet is reserved; everything else is as it was read.
                    room[1] = bytes[at + 1];
                }
                at += header.header_len();
            }
            prop_assert_eq!(at, view.upper_layer_offset());
            prop_assert_eq!(&out[..at], &bytes[..at]);
            prop_assert!(bytes[at..].starts_with(view.upper_payload()));
        }
    }
}
