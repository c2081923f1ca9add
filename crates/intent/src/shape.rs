//! Judges the shape of a document by its JSON Schema and repairs what can be repaired.
//!
//! A mistake in one place must not hide mistakes elsewhere. So a field of an unknown name is taken for the known one that it
//! resembles, or left out; and an entry that cannot be read at all (a segment without a VNI) is marked broken, so that the
//! checks leave it alone and do not blame those who refer to it. Everything else is checked as if nothing had happened.

mod phrase;

use std::collections::{HashMap, HashSet};

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use serde_json::Value;

use crate::problem::{Findings, MAX_PROBLEMS, Path, Step};
use crate::schema::VALIDATOR;
use crate::suggest;

/// Rounds in which misnamed fields are looked for: a misnamed section may hold misnamed fields.
const RENAME_ROUNDS: usize = 4;

/// What [`judge`] found out about the parts of a document.
///
/// A part is a section, an entry of a section, or in a gateway one of its interfaces, its static routes, its transit segment or
/// its link.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    /// Parts that cannot be read.
    broken: HashSet<Path>,
    /// Fields that were renamed, by their new path, with the name that was written.
    renamed: HashMap<Path, String>,
}

impl Repairs {
    /// The part at `path` cannot be read.
    pub(crate) fn broken(&self, path: &Path) -> bool {
        self.broken.contains(path)
    }

    /// `path` with the names of fields that were written.
    pub(crate) fn as_written(&self, path: &Path) -> Path {
        let mut repaired = Path::root();
        path.steps().iter().fold(Path::root(), |written, step| {
            repaired = std::mem::take(&mut repaired).step(step.clone());
            match self.renamed.get(&repaired) {
                Some(name) => written.field(name.clone()),
                None => written.step(step.clone()),
            }
        })
    }
}

/// Judges `value`, notes what is wrong with its shape, and leaves out fields that are not known.
pub(crate) fn judge(value: &mut Value, findings: &mut Findings) -> Repairs {
    let mut repairs = Repairs::default();
    for _ in 0..RENAME_ROUNDS {
        if !repair_names(value, &mut repairs, findings) {
            break;
        }
    }
    let mut foreign = Vec::new();
    for error in VALIDATOR.iter_errors(value) {
        let path = path_of(&error, value);
        match error.kind() {
            // Only reachable where repairs have run out of rounds.
            ValidationErrorKind::AdditionalProperties { .. } => {
                repairs.broken.insert(part(&path));
            }
            ValidationErrorKind::FalseSchema => foreign.push(path.clone()),
            // The list is too long or too short, but what is in it can be checked.
            ValidationErrorKind::MaxItems { .. } | ValidationErrorKind::MinItems { .. } => {}
            _ => {
                repairs.broken.insert(part(&path));
            }
        }
        findings.report_with(|| (path, phrase::sentence(&error, value)));
    }
    for path in foreign {
        remove(value, &path);
    }
    repairs
}

/// The fields of unknown names in one mapping.
struct Misnamed {
    /// The mapping.
    parent: Path,
    /// Each name, with the known one that it resembles.
    fields: HashMap<String, Option<String>>,
}

/// Renames or removes the fields with unknown names and notes them; returns whether any was renamed.
fn repair_names(value: &mut Value, repairs: &mut Repairs, findings: &mut Findings) -> bool {
    let mut misnamed = Vec::new();
    for error in VALIDATOR.iter_errors(value) {
        let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() else { continue };
        let parent = path_of(&error, value);
        let known = phrase::known_fields(&error);
        let absent: Vec<_> =
            known.iter().copied().filter(|field| error.instance().get(*field).is_none()).collect();
        let mut fields = HashMap::new();
        for (position, name) in unexpected.iter().enumerate() {
            // A mapping of a thousand misspelt names is no document; looking for what they mean would take long.
            let meant = (position < MAX_PROBLEMS)
                .then(|| suggest::nearest(name, absent.iter().copied()))
                .flatten()
                .map(str::to_owned);
            findings
                .report_with(|| (parent.clone().field(name.clone()), phrase::unknown_field(name, &known)));
            fields.insert(name.clone(), meant);
        }
        misnamed.push(Misnamed { parent, fields });
    }
    let mut renamed = false;
    for Misnamed { parent, fields: mut unknown } in misnamed {
        let Some(Value::Object(fields)) = lookup(value, &parent) else { continue };
        let written = std::mem::take(fields);
        for (name, content) in written {
            match unknown.remove(&name) {
                None => {
                    fields.insert(name, content);
                }
                // Of several fields that resemble the same one, the first is taken for it.
                Some(Some(meant)) if !fields.contains_key(&meant) => {
                    fields.insert(meant.clone(), content);
                    repairs.renamed.insert(parent.clone().field(meant), name);
                    renamed = true;
                }
                Some(_) => {}
            }
        }
    }
    renamed
}

/// The path of the value that `error` is about.
fn path_of(error: &ValidationError<'_>, root: &Value) -> Path {
    let mut path = Path::root();
    let mut value = Some(root);
    for segment in error.instance_path().iter() {
        let text = match segment {
            LocationSegment::Property(name) => name.into_owned(),
            LocationSegment::Index(index) => index.to_string(),
        };
        // A field may be named like a position, so the value decides which of the two it is.
        match (value, text.parse::<usize>()) {
            (Some(Value::Array(items)), Ok(index)) => {
                value = items.get(index);
                path = path.index(index);
            }
            (current, _) => {
                value = current.and_then(|current| current.get(&text));
                path = path.field(text);
            }
        }
    }
    path
}

/// The smallest part of the document around `path` that can be left out.
fn part(path: &Path) -> Path {
    let steps = path.steps();
    let field = |position: usize| match steps.get(position) {
        Some(Step::Field(name)) => Some(name.as_ref()),
        _ => None,
    };
    let length = match (field(0), field(2)) {
        (Some("gateways"), Some("transit" | "link")) => 3,
        (Some("gateways"), Some("interfaces" | "static-routes" | "bfd-peers")) => 4,
        (Some("ports" | "lags" | "uplinks" | "teps" | "segments" | "workloads" | "gateways"), _) => 2,
        _ => 1,
    };
    path.leading(length)
}

fn lookup<'v>(value: &'v mut Value, path: &Path) -> Option<&'v mut Value> {
    path.steps().iter().try_fold(value, |value, step| match step {
        Step::Field(name) => value.get_mut(name.as_ref()),
        Step::Index(index) => value.get_mut(*index),
    })
}

fn remove(value: &mut Value, path: &Path) {
    let Some((Step::Field(name), around)) = path.steps().split_last() else { return };
    if let Some(Value::Object(fields)) = lookup(value, &path.leading(around.len())) {
        fields.shift_remove(name.as_ref());
    }
}
