//! Every document in `tests/bad` against the whole text of its problems, in the `.expected` file beside it.
//!
//! After a change of the messages, `UPDATE_EXPECTED=1 cargo test -p sluice-intent --test bad_documents` writes the files anew;
//! read their difference before keeping it.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the exemption for tests does not reach.

use std::path::{Path, PathBuf};

fn bad_documents() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_none_or(|extension| extension != "expected"));
    paths.sort();
    paths
}

#[test]
fn every_bad_document_yields_its_problems() {
    let update = std::env::var_os("UPDATE_EXPECTED").is_some();
    let mut differing = Vec::new();
    let paths = bad_documents();
    for path in &paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let problems = match sluice_intent::parse_bytes(&std::fs::read(path).unwrap(), name) {
            Ok(_) => panic!("{name} passes every check"),
            Err(problems) => format!("{problems}\n"),
        };
        let expected_path = path.with_extension("expected");
        if update {
            std::fs::write(&expected_path, &problems).unwrap();
        }
        let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
        if problems != expected {
            differing.push(format!("{name} yields\n{problems}instead of\n{expected}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert!(paths.len() >= 30, "only {} bad documents were found", paths.len());
}

#[test]
fn every_problem_has_a_line_and_a_sentence() {
    for path in bad_documents() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = std::fs::read(&path).unwrap();
        let Ok(text) = std::str::from_utf8(&bytes) else { continue };
        let lines = text.lines().count();
        for problem in sluice_intent::parse(text, &name).unwrap_err().problems() {
            let Some(position) = problem.position else {
                assert!(problem.path.steps().is_empty(), "{name}: {problem:?}");
                continue;
            };
            assert!((1..=lines + 1).contains(&position.line), "{name}: {problem:?}");
            assert!(!problem.message.contains('\n') && problem.message.len() < 400, "{name}: {problem:?}");
        }
    }
}
