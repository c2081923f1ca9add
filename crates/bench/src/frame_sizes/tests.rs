use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> FrameSizes {
    text.parse().unwrap()
}

fn faults(text: &str) -> Vec<SizeFault> {
    text.parse::<FrameSizes>().unwrap_err().faults
}

fn sequence(text: &str) -> Vec<u32> {
    parse(text).genome().sequence().collect()
}

#[test]
fn named_mixes_have_the_averages_that_they_are_known_for() {
    let average = |text| (parse(text).genome().average() * 100.0).round() / 100.0;
    assert_eq!(average("imix-simple"), 361.83);
    assert_eq!((7.0 * 40.0 + 4.0 * 576.0 + 1_500.0) / 12.0, 340.333_333_333_333_3, "of its IP packets");
    assert_eq!(average("imix-fdio"), 353.83);
    assert_eq!(average("imix-sd-wan") - 46.0, 417.0, "of payload behind UDP, IPv4 and Ethernet");
    assert_eq!(parse("imix-simple").genome().sequence().len(), 12);
    assert_eq!(parse("imix-fdio").genome().sequence().len(), 48);
    assert_eq!(parse("imix-sd-wan").genome().sequence().len(), 32);
    let genome = parse("imix-sd-wan").genome();
    assert_eq!((genome.shortest(), genome.longest()), (82, 1_346));
}

#[test]
fn a_mix_is_sent_without_runs_that_can_be_avoided() {
    assert_eq!(parse("imix-simple").genome().to_string(), "abaabacababa(b=594,c=1518)");
    assert_eq!(sequence("imix:3a3g"), [64, 1_518, 64, 1_518, 64, 1_518]);
    assert_eq!(sequence("imix:5ab").iter().filter(|&&bytes| bytes == 128).count(), 1);
}

#[test]
fn letters_are_those_of_the_rfc_unless_they_have_a_size() {
    assert_eq!(sequence("imix:abcdefghij"), [64, 128, 256, 512, 1_024, 1_280, 1_518, 2_112, 9_000, 16_000]);
    assert_eq!(sequence("imix:ab(a=100)"), [100, 128]);
    assert_eq!(sequence("imix:A(A=777)"), [777]);
    let mut example = sequence("imix:abcc(a=64,b=570,c=1518)");
    example.sort_unstable();
    assert_eq!(example, [64, 570, 1_518, 1_518]);
    assert_eq!(sequence("594"), [594]);
}

#[test]
fn a_genome_prints_what_is_not_standard() {
    assert_eq!(parse("imix:aaaaab(a=64,b=570)").to_string(), "imix:5ab(b=570)");
    assert_eq!(parse("imix:2a1b").to_string(), "imix:aab");
    assert_eq!(parse("1518").genome().to_string(), "a(a=1518)");
    assert_eq!(format!("{:>13}|", parse("imix-simple")), "  imix-simple|");
}

#[test]
fn everything_wrong_is_said_at_once() {
    assert_eq!(
        faults("imix:az(a=63,b=64,a=x)"),
        [
            SizeFault::NoFrame { bytes: 63 },
            SizeFault::Unreadable("a=x".into()),
            SizeFault::NoSize('z'),
            SizeFault::Unused('b'),
        ]
    );
    assert_eq!(
        "imix:zzq".parse::<FrameSizes>().unwrap_err().to_string(),
        "frame sizes \"imix:zzq\": the letter z has no size: add (z=…); the letter q has no size: add (q=…)"
    );
    assert_eq!(faults("imix:aa(a=64,a=65)"), [SizeFault::TwoSizes('a')]);
}

#[test]
fn what_is_no_size_is_refused() {
    for text in ["", "abc", "64 ", "-64", "64.5", "imix", "imix-none", "IMIX:a"] {
        assert_eq!(faults(text), [SizeFault::Unknown], "{text}");
    }
    for (text, bytes) in [("63", 63), ("0", 0), ("65558", 65_558), ("99999999999", 99_999_999_999)] {
        assert_eq!(faults(text), [SizeFault::NoFrame { bytes }]);
    }
    assert_eq!(faults("imix:"), [SizeFault::Empty]);
    assert_eq!(faults("imix:4097a"), [SizeFault::TooLong]);
    assert_eq!(parse("imix:4096a").genome().sequence().len(), 4_096);
    for text in ["imix:0a", "imix:3", "imix:a-b", "imix:ä", "imix:99999999999999999999a"] {
        assert!(matches!(faults(text)[0], SizeFault::Unreadable(_)), "{text}");
    }
    for text in ["imix:a(a=64", "imix:a()", "imix:a(ä=64)", "imix:a(aa=64)", "imix:a(a=64)b"] {
        assert!(matches!(faults(text)[0], SizeFault::Unreadable(_)), "{text}");
    }
}

#[test]
fn sizes_that_a_test_cannot_send_are_named_together() {
    assert!(parse("imix-fdio").check(64, 1_500).is_ok());
    let error = parse("imix:agh").check(82, 1_500).unwrap_err();
    assert_eq!(
        error.faults,
        [
            SizeFault::TooShort { bytes: 64, shortest: 82 },
            SizeFault::AboveMtu { bytes: 2_112, mtu: 1_500, longest: 1_518 },
        ]
    );
    assert!(parse("1519").check(64, 1_500).is_err() && parse("1519").check(64, u32::MAX).is_ok());
    let ipv6 = sluice_trial::traffic::Family::Ipv6.shortest_frame() as u32 + FRAME_CHECK_SEQUENCE;
    assert!(parse("imix-sd-wan").check(ipv6, 1_500).is_ok());
}

#[test]
fn they_are_text_in_a_report() {
    let json = serde_json::to_string(&parse("imix-fdio")).unwrap();
    assert_eq!(json, "\"imix-fdio\"");
    assert_eq!(serde_json::from_str::<FrameSizes>(&json).unwrap(), parse("imix-fdio"));
    assert!(serde_json::from_str::<FrameSizes>("\"63\"").is_err());
}

proptest! {
    #[test]
    fn what_is_printed_reads_as_the_same(
        runs in prop::collection::vec((1..40usize, 0..8usize), 1..30),
        own in prop::collection::vec(prop::option::of(64..2_000u32), 8),
    ) {
        let letters = ['a', 'b', 'g', 'j', 'A', 'Z', 'q', 'z'];
        let mut sizes = BTreeMap::new();
        let mut sequence = Vec::new();
        for (length, index) in runs {
            let letter = letters[index];
            sizes.insert(letter, own[index].or_else(|| standard_size(letter)).unwrap_or(777));
            sequence.extend(std::iter::repeat_n(letter, length));
        }
        let profile = FrameSizes(Kind::Genome(Genome { letters: sequence, sizes }));
        prop_assert_eq!(&parse(&profile.to_string()), &profile);
    }

    #[test]
    fn fixed_sizes_round_trip(bytes in SHORTEST_FRAME..=LONGEST_FRAME) {
        let sizes = FrameSizes::fixed(bytes).unwrap();
        prop_assert_eq!(sizes.to_string(), bytes.to_string());
        prop_assert_eq!(sizes.genome().average(), f64::from(bytes));
        prop_assert_eq!(parse(&bytes.to_string()), sizes);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(imix:)?[0-9a-z(=,)ä]{0,30}") {
        if let Ok(sizes) = text.parse::<FrameSizes>() {
            prop_assert_eq!(parse(&sizes.to_string()), sizes);
        }
    }

    #[test]
    fn interleaving_spreads_evenly(weights in prop::collection::vec(1..50usize, 1..8)) {
        let weights: Vec<(char, usize)> = ('a'..).zip(weights).collect();
        let total: usize = weights.iter().map(|(_, weight)| weight).sum();
        let letters = interleaved(weights.clone());
        prop_assert_eq!(letters.len(), total);
        for (letter, weight) in &weights {
            prop_assert_eq!(letters.iter().filter(|&at| at == letter).count(), *weight);
            // In any beginning of the sequence a letter is within a few frames of its share.
            let mut seen = 0.0;
            for (index, at) in letters.iter().enumerate() {
                seen += f64::from(u8::from(at == letter));
                let share = (index + 1) as f64 * *weight as f64 / total as f64;
                prop_assert!((seen - share).abs() < weights.len() as f64, "{} {} of {}", letter, seen, share);
            }
        }
    }
}
