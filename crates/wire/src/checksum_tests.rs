//! The checksum against a naive 16-bit loop, against known packets, and its incremental forms against the
//! whole sum.

use proptest::prelude::*;

use super::*;
use crate::arbitrary::octets;

/// RFC 1071 §1 as it is written: words one by one, carries taken in at once.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    !(sum as u16)
}

#[test]
fn example_of_rfc_1071() {
    // §3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::new().add_bytes(&bytes).fold(), 0xddf2);
    assert_eq!(checksum(&bytes), !0xddf2);
}

#[test]
fn example_of_rfc_1624() {
    // §4: a word 5555 becomes 3285 under the checksum dd2f; the sum is then 0000, not ffff.
    assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn empty_and_zero_input() {
    assert_eq!(checksum(&[]), 0xffff);
    assert_eq!(checksum(&[0; 64]), 0xffff);
    assert_eq!(checksum(&[0xff; 64]), 0);
}

#[test]
fn ipv4_header_by_hand() {
    // 4500 003c 1c46 4000 4006 b1e6 ac10 0a63 ac10 0a0c: the words but b1e6 add up to 4e19 with carries.
    let header = [
        0x45, 0, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 0x06, 0xb1, 0xe6, 0xac, 0x10, 0x0a, 0x63, 0xac, 0x10,
        0x0a, 0x0c,
    ];
    assert!(verify(&header));
    let mut zeroed = header;
    zeroed[10..12].fill(0);
    assert_eq!(checksum(&zeroed), 0xb1e6);
}

#[test]
fn udp_zero_rule() {
    let ipv4 = PseudoHeader::ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let ipv6 = PseudoHeader::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    let no_checksum = [0x10, 0, 0x20, 0, 0, 9, 0, 0, 0x55];
    assert!(ipv4.verify_udp(&no_checksum));
    assert!(!ipv6.verify_udp(&no_checksum));

    // The last word is chosen so that everything before it needs a sum of ffff, whose complement is 0.
    let mut datagram = [0x10, 0, 0x20, 0, 0, 10, 0, 0, 0, 0];
    let missing = ipv4.sum(IpProtocol::UDP, 10).add_bytes(&datagram).checksum();
    datagram[8..].copy_from_slice(&missing.to_be_bytes());
    assert_eq!(ipv4.udp(&datagram), 0xffff);
    datagram[6..8].copy_from_slice(&[0xff, 0xff]);
    assert!(ipv4.verify_udp(&datagram));
    assert!(!ipv4.verify_udp(&datagram[..7]), "shorter than its header");
}

#[test]
fn udp_without_a_checksum_stays_without() {
    assert_eq!(Delta::NONE.replace_u16(1, 2).apply_udp(0), 0);
    // The example of RFC 1624, whose result 0 is written as ffff.
    let delta = Delta::NONE.replace_u16(0x5555, 0x3285);
    assert_eq!((delta.apply(0xdd2f), delta.apply_udp(0xdd2f)), (0, 0xffff));
}

proptest! {
    #[test]
    fn same_as_the_naive_loop(bytes in octets(0..2000)) {
        prop_assert_eq!(checksum(&bytes), naive(&bytes));
    }

    #[test]
    fn extreme_words_carry_as_the_naive_loop(
        words in prop::collection::vec(prop_oneof![Just(0xffu8), Just(0), Just(0xfe)], 0..3000),
    ) {
        prop_assert_eq!(checksum(&words), naive(&words));
    }

    #[test]
    fn parts_add_up(bytes in octets(0..300), at in 0usize..150) {
        let at = (at * 2).min(bytes.len() & !1);
        let (left, right) = bytes.split_at(at);
        prop_assert_eq!(Sum::new().add_bytes(left).add_bytes(right).checksum(), naive(&bytes));
    }

    #[test]
    fn words_are_bytes(word: u16, double: u32) {
        let bytes = [&word.to_be_bytes()[..], &double.to_be_bytes()[..]].concat();
        prop_assert_eq!(Sum::new().add_u16(word).add_u32(double).fold(), !naive(&bytes));
    }

    #[test]
    fn transport_checksums_verify(
        source: [u8; 4], destination: [u8; 4], payload in octets(20..200), flip in 0usize..1600,
    ) {
        let pseudo = PseudoHeader::ipv4(source.into(), destination.into());
        let mut segment = payload.clone();
        let value = pseudo.tcp(&segment);
        segment[16..18].copy_from_slice(&value.to_be_bytes());
        prop_assert!(pseudo.verify_tcp(&segment));
        prop_assert_eq!(pseudo.tcp(&segment), value, "the field itself is ignored");
        // The naive sum over a pseudo header written out.
        let length = (segment.len() as u16).to_be_bytes();
        let mut whole = [&source[..], &destination[..], &[0, 6], &length].concat();
        whole.extend_from_slice(&segment);
        prop_assert_eq!(naive(&whole), 0);
        // One flipped bit is always seen.
        let bit = flip % (segment.len() * 8);
        segment[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!pseudo.verify_tcp(&segment));
    }

    #[test]
    fn icmpv6_over_the_long_pseudo_header(
        source: [u8; 16], destination: [u8; 16], payload in octets(8..100),
    ) {
        let pseudo = PseudoHeader::ipv6(source.into(), destination.into());
        let mut message = payload.clone();
        let value = pseudo.icmpv6(&message);
        message[2..4].copy_from_slice(&value.to_be_bytes());
        prop_assert!(pseudo.verify_icmpv6(&message));
        let length = (message.len() as u32).to_be_bytes();
        let mut whole = [&source[..], &destination[..], &length, &[0, 0, 0, 58]].concat();
        whole.extend_from_slice(&message);
        prop_assert_eq!(naive(&whole), 0);
    }

    #[test]
    fn udp_never_computes_zero(source: [u8; 16], destination: [u8; 16], payload in octets(8..100)) {
        let pseudo = PseudoHeader::ipv6(source.into(), destination.into());
        let mut datagram = payload.clone();
        let value = pseudo.udp(&datagram);
        prop_assert_ne!(value, 0);
        datagram[6..8].copy_from_slice(&value.to_be_bytes());
        prop_assert!(pseudo.verify_udp(&datagram));
    }

    /// The first octet is never 0, as in every IP header: all-zero data has two representations of its sum.
    #[test]
    fn incremental_is_the_whole_sum(
        mut bytes in octets(40..80), word: u16, double: u32, address: [u8; 16],
    ) {
        bytes[0] |= 0x40;
        let before = naive(&bytes);
        let at = |bytes: &[u8], from: usize| [bytes[from], bytes[from + 1]];
        let old_word = u16::from_be_bytes(at(&bytes, 2));
        let old_double = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        let old_address: [u8; 16] = bytes[8..24].try_into().unwrap();

        bytes[2..4].copy_from_slice(&word.to_be_bytes());
        prop_assert_eq!(update_u16(before, old_word, word), naive(&bytes));
        let one = naive(&bytes);
        bytes[4..8].copy_from_slice(&double.to_be_bytes());
        prop_assert_eq!(update_u32(one, old_double, double), naive(&bytes));
        bytes[8..24].copy_from_slice(&address);

        let addresses = Delta::NONE.replace_ipv6(old_address.into(), address.into());
        let all = Delta::NONE.replace_u16(old_word, word).replace_u32(old_double, double).and(addresses);
        prop_assert_eq!(all.apply(before), naive(&bytes));
    }

    #[test]
    fn lowering_the_ttl_is_the_whole_sum(mut header in octets(20), ttl: u8, hops: u8) {
        prop_assume!(ttl >= hops);
        header[0] = 0x45;
        header[8] = ttl;
        header[10..12].fill(0);
        let before = naive(&header);
        header[8] -= hops;
        prop_assert_eq!(lower_ttl(before, hops), naive(&header));
    }
}
