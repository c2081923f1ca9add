//! The one-line summary: one line for any octets, within tunnels too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_wire::dissect;

fuzz_target!(|data: &[u8]| {
    check(data);
    // Every layer that the summary knows, reached by a start in front of the same octets.
    if let [first, rest @ ..] = data {
        let starts: [&[u8]; 4] = [&[0x08, 0x00], &[0x86, 0xdd], &[0x08, 0x06], &[0x81, 0x00]];
        let start = starts[usize::from(*first) % starts.len()];
        check(&[&[2; 12], start, rest].concat());
    }
});

fn check(data: &[u8]) {
    let line = dissect(data).to_string();
    assert!(!line.is_empty() && !line.contains('\n'));
    // Sixteen names of 40 octets for each of up to six packets within packets are far below this.
    assert!(line.len() < 64 * 1024);
}
