//! Any bytes are either a document, whose plan then exists, or yield at least one problem. Nothing panics, and nothing takes long.
//!
//! `cargo +nightly fuzz run parse corpus/parse ../tests/bad ../../../examples`, in the folder of this crate's `Cargo.toml`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(problems) = sluice_intent::parse_bytes(bytes, "fuzz") {
        assert!(!problems.problems().is_empty());
        assert!(!problems.to_string().is_empty());
    }
});
