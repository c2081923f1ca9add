//! What a file may be: bytes, size, byte order marks, aliases, numbers, and the positions of problems in it.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the exemption for tests does not reach.

use std::time::{Duration, Instant};

use sluice_intent::{MAX_TEXT, load, parse, parse_bytes, problem::MAX_PROBLEMS};

const MINIMAL: &str = "version: 1\nname: x\nrole: host\n";

fn sentence(bytes: &[u8]) -> String {
    parse_bytes(bytes, "file").unwrap_err().to_string()
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let text = format!("\u{feff}{MINIMAL}");
    assert_eq!(parse_bytes(text.as_bytes(), "file").unwrap(), parse(MINIMAL, "file").unwrap());
}

#[test]
fn windows_line_ends_and_document_markers() {
    let text = format!("---\r\n{}...\r\n", MINIMAL.replace('\n', "\r\n"));
    assert_eq!(parse(&text, "file").unwrap().name, "x");
}

#[test]
fn a_huge_file_is_refused_without_being_parsed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // Sparse: takes no room on the disk.
    file.as_file().set_len(1 << 40).unwrap();
    let problems = load(file.path()).unwrap_err();
    let expected = "the file is larger than 64 MiB; a node document is never that large";
    assert_eq!(problems.problems()[0].message, expected);
    assert_eq!(sentence(&vec![b' '; MAX_TEXT + 1]), format!("file: {expected}"));
}

#[test]
fn a_missing_file_is_told_with_its_name() {
    let problems = load("no/such/file.yaml".as_ref()).unwrap_err();
    assert!(problems.to_string().starts_with("no/such/file.yaml: the file cannot be read: "), "{problems}");
}

#[test]
fn positions_have_lines_and_columns() {
    let text = "version: 1\nname: x\nrole: host\nsegments:\n  - {name: web, vni: 0}\n";
    let problems = parse(text, "file").unwrap_err();
    let position = problems.problems()[0].position.unwrap();
    assert_eq!((position.line, position.column), (5, 17));
    assert_eq!(problems.problems()[0].path.to_string(), "segments[0].vni");
}

#[test]
fn aliases_repeat_values() {
    let text = format!(
        "{MINIMAL}ports:\n  - {{name: a, kind: tap, interface: a, mtu: &mtu 1400}}\n  - {{name: b, kind: tap, interface: b, mtu: *mtu}}\n"
    );
    assert_eq!(parse(&text, "file").unwrap().ports[1].mtu, 1400);
}

#[test]
fn numbers_of_yaml() {
    let text = |mtu: &str| format!("{MINIMAL}ports: [{{name: a, kind: tap, interface: a, mtu: {mtu}}}]\n");
    for written in ["1400", "0x578", "0o2570", "1400.0", "1.4e3", "+1400"] {
        let plan = parse(&text(written), "file").unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(plan.ports[0].mtu, 1400, "{written}");
    }
    for written in ["-1400", "1400.5", ".inf", ".nan", "1e400", "\"1400\"", "1_400", "99999999999999999999"] {
        assert!(parse(&text(written), "file").is_err(), "{written}");
    }
}

#[test]
fn hostile_texts_are_refused_quickly() {
    let deep = "[".repeat(1_000_000);
    let flat = format!("{MINIMAL}ports: [{}]", "1,".repeat(20_000));
    let keys: String = (0..20_000).map(|number| format!("field-{number}: 1\n")).collect();
    let twice = format!("{MINIMAL}{}", "name: x\n".repeat(20_000));
    let anchors: String =
        (0..2_000).map(|number| format!("  - &a{number} [{}]\n", "x,".repeat(200))).collect();
    for text in [deep, flat, keys, twice, format!("ports:\n{anchors}")] {
        let begin = Instant::now();
        let problems = parse(&text, "file").unwrap_err();
        assert!((1..=MAX_PROBLEMS).contains(&problems.problems().len()));
        // Generous, for loaded machines and builds without optimisation.
        let (took, start) = (begin.elapsed(), text.chars().take(60).collect::<String>());
        assert!(took < Duration::from_secs(60), "{took:?} for {} bytes: {start:?}", text.len());
    }
}

#[test]
fn of_many_problems_the_number_is_told() {
    let ports: String = (0..1_500).map(|_| "  - {name: a}\n").collect();
    let problems = parse(&format!("{MINIMAL}ports:\n{ports}"), "file").unwrap_err();
    assert_eq!((problems.problems().len(), problems.omitted()), (MAX_PROBLEMS, 501));
    assert!(
        problems.to_string().ends_with("and 501 more problems"),
        "1,500 without a kind, and too many ports"
    );
}

#[test]
fn limits_of_sections() {
    let segments = |count: usize| {
        let entries: String = (1..=count).map(|vni| format!("  - {{name: s{vni}, vni: {vni}}}\n")).collect();
        parse(&format!("{MINIMAL}segments:\n{entries}"), "file")
    };
    assert_eq!(segments(4096).unwrap().segments.len(), 4096);
    assert_eq!(
        segments(4097).unwrap_err().to_string(),
        "file:4: segments: has 4097 entries; at most 4096 are possible, so remove 1"
    );
}
