//! The desired state of one node: the document that a person writes (or the manager sends) and its checked form, the plan.
//!
//! Sits right of `wire` and left of everything that acts on intent: the engine compiles a [`plan::Plan`] into its tables,
//! the node opens the ports that it names. Nothing downstream of the plan checks again what the plan guarantees.
//!
//! ```text
//! text ─ source ─→ tree with positions ─ shape ─→ draft ─ check ─→ plan
//!        YAML, JSON                      schema,         meaning,
//!                                        repairs         names
//!                  └──────── problems, all of them at once ───────┘
//! ```
//!
//! A document that is wrong in several places yields every [`problem::Problem`] at once, each with its line:
//!
//! ```
//! let text = "version: 1\nname: host-1\nrole: hosts\nportz: []\n";
//! let problems = sluice_intent::parse(text, "node.yaml").unwrap_err();
//! assert_eq!(
//!     problems.to_string().lines().next(),
//!     Some("node.yaml:3: role: 'hosts' is not one of 'host', 'edge', 'branch'; did you mean 'host'?")
//! );
//! assert_eq!(problems.problems().len(), 2);
//! ```

#![forbid(unsafe_code)]

mod check;
pub mod document;
mod draft;
pub mod plan;
pub mod problem;
mod schema;
mod shape;
mod source;
mod suggest;
#[cfg(feature = "testing")]
pub mod testing;

use std::io::Read;

use document::{Document, WriteError};
use plan::Plan;
use problem::{Findings, Problems};
pub use schema::schema;
use serde_json::Value;

/// Largest text of a document in bytes.
pub const MAX_TEXT: usize = 64 * 1024 * 1024;

/// Reads a node document, YAML or JSON, and checks it. `file` is its name in messages.
///
/// # Errors
///
/// Every problem of the document.
pub fn parse(text: &str, file: &str) -> Result<Plan, Problems> {
    if text.len() > MAX_TEXT {
        return Err(too_large(file));
    }
    if let Some(offset) = text.find('\0') {
        let line = 1 + text[..offset].matches('\n').count();
        let message =
            format!("line {line} holds a zero byte, so this is no text file; give a YAML or JSON document");
        return Err(Problems::of_file(file, message));
    }
    let mut findings = Findings::default();
    let tree = match source::read(text, &mut findings) {
        Ok(tree) => tree,
        Err(source::Malformed { position, message }) => {
            match position {
                Some(position) => findings.report_at(position, problem::Path::root(), message),
                None => findings.report(problem::Path::root(), message),
            }
            return Err(Problems::new(file, findings));
        }
    };
    let plan = plan_of(tree.value(), &mut findings);
    findings.locate(|path| Some(tree.position(path)));
    plan.ok_or_else(|| Problems::new(file, findings))
}

/// [`parse`] for bytes that may not be UTF-8. A byte order mark of UTF-8 is passed over.
///
/// # Errors
///
/// Every problem of the document.
pub fn parse_bytes(bytes: &[u8], file: &str) -> Result<Plan, Problems> {
    if bytes.len() > MAX_TEXT {
        return Err(too_large(file));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text, file),
        Err(_) if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) => {
            Err(Problems::of_file(file, "the file is UTF-16; save it as UTF-8"))
        }
        Err(error) => {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
            let message = format!(
                "the file is not UTF-8: line {line} holds a byte that is no character; save it as UTF-8"
            );
            Err(Problems::of_file(file, message))
        }
    }
}

/// Reads the file at `path` and parses it. No more than [`MAX_TEXT`] bytes are read.
///
/// # Errors
///
/// Every problem of the document, or why the file cannot be read.
pub fn load(path: &std::path::Path) -> Result<Plan, Problems> {
    let file = path.display().to_string();
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) => parse_bytes(&bytes, &file),
        Err(error) => Err(Problems::of_file(&file, format!("the file cannot be read: {error}"))),
    }
}

impl Document {
    /// The plan of a document that was made by a program. `file` is its name in messages, which tell no lines.
    ///
    /// # Errors
    ///
    /// Every problem of the document.
    pub fn plan(&self, file: &str) -> Result<Plan, Problems> {
        let value = serde_json::to_value(self)
            .map_err(|error| Problems::of_file(file, WriteError::from(error).to_string()))?;
        let mut findings = Findings::default();
        plan_of(value, &mut findings).ok_or_else(|| Problems::new(file, findings))
    }
}

/// From the bare value of a document to its plan. Without a plan there is at least one finding.
fn plan_of(mut value: Value, findings: &mut Findings) -> Option<Plan> {
    let repairs = shape::judge(&mut value, findings);
    // What is no mapping of sections is reported by its shape.
    let Value::Object(sections) = value else { return None };
    let draft = draft::draft(sections, &repairs, findings);
    let plan = check::check(&draft, findings);
    findings.map_paths(|path| repairs.as_written(path));
    plan
}

fn too_large(file: &str) -> Problems {
    let message =
        format!("the file is larger than {} MiB; a node document is never that large", MAX_TEXT >> 20);
    Problems::of_file(file, message)
}
