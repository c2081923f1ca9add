//! `apply`: checks a document here first, so that every mistake shows at once and without a node, then gives it to the node.

use std::fs::File;
use std::io::{self, Read, stdin};
use std::path::{Path, PathBuf};

use serde_json::json;
use sluice_control::Request;
use sluice_intent::plan::{Plan, Role};
use sluice_intent::{MAX_TEXT, parse_bytes};

use crate::error::CliError;
use crate::output::Output;
use crate::show::show;
use crate::target::Target;

/// The file name that stands for standard input.
const STANDARD_INPUT: &str = "-";

pub(crate) fn apply(file: &Path, dry_run: bool, target: &Target) -> Result<Output, CliError> {
    let (bytes, name) = read(file)?;
    let plan = parse_bytes(&bytes, &name).map_err(CliError::Document)?;
    if dry_run {
        return Ok(valid(&plan, &name));
    }
    // What parse_bytes accepts is UTF-8.
    let document = String::from_utf8_lossy(&bytes).into_owned();
    show(&target.ask(&Request::Apply { document, file: name })?)
}

/// The bytes of the document, one more than there may be at most, and its name in messages.
fn read(file: &Path) -> Result<(Vec<u8>, String), CliError> {
    let limited = |source: &mut dyn Read| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        source.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let (bytes, name) = if file == Path::new(STANDARD_INPUT) {
        (limited(&mut stdin().lock()), "standard input".to_owned())
    } else {
        (File::open(file).and_then(|mut file| limited(&mut file)), file.display().to_string())
    };
    match bytes {
        Ok(bytes) => Ok((bytes, name)),
        Err(source) => Err(CliError::ReadDocument { file: PathBuf::from(name), source }),
    }
}

fn valid(plan: &Plan, name: &str) -> Output {
    let role = match plan.role {
        Role::Host => "host",
        Role::Edge => "edge",
        Role::Branch => "branch",
    };
    let counts = [
        ("port", plan.ports.len()),
        ("TEP", plan.teps.len()),
        ("segment", plan.segments.len()),
        ("workload", plan.workloads.len()),
        ("gateway", plan.gateways.len()),
    ];
    let counts = counts.map(|(what, count)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
    Output::sentence(
        format!("{name} is valid: {role} {} with {}", plan.name, counts.join(", ")),
        json!({ "valid": true, "name": plan.name, "role": role }),
    )
}
