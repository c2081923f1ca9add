//! Says what the JSON Schema found in one sentence that a person can act on.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;
use sluice_wire::MacAddr;

use crate::schema::SCHEMA;
use crate::suggest::did_you_mean;

/// Characters of a value that a message shows.
const SHOWN: usize = 40;

/// What is wrong by `error`, and what to change.
pub(super) fn sentence(error: &ValidationError<'_>, root: &Value) -> String {
    let instance = error.instance().as_ref();
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { .. } => "holds unknown fields; remove them".to_owned(),
        ValidationErrorKind::Type { kind } => wrong_type(instance, kind, error),
        ValidationErrorKind::Required { property } => missing(error, property),
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().map(|options| options.iter().map(show).collect());
            not_among(instance, options.unwrap_or_default())
        }
        ValidationErrorKind::OneOfNotValid { .. } => {
            let branches = error.schema_path().as_str();
            let branches = SCHEMA.pointer(branches).and_then(Value::as_array);
            let options = branches.into_iter().flatten().filter_map(|branch| branch.get("const")).map(show);
            not_among(instance, options.collect())
        }
        ValidationErrorKind::Minimum { .. } | ValidationErrorKind::Maximum { .. } => {
            out_of_range(instance, error)
        }
        ValidationErrorKind::MaxItems { limit } => {
            let length = instance.as_array().map_or(0, Vec::len);
            format!("has {length} entries; at most {limit} are possible, so remove {}", length as u64 - limit)
        }
        ValidationErrorKind::MinItems { limit } => match instance.as_array().map_or(0, Vec::len) {
            0 => format!("is empty; give at least {limit}"),
            1 => format!("has one entry; give at least {limit}"),
            length => format!("has {length} entries; give at least {limit}"),
        },
        ValidationErrorKind::FalseSchema => foreign_field(error, root),
        _ => wrong_form(instance, error),
    }
}

/// The fields that the mapping that `error` is about may have.
pub(super) fn known_fields(error: &ValidationError<'_>) -> Vec<&'static str> {
    let properties = schema_of(error).and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    properties.into_iter().flat_map(|fields| fields.keys()).map(String::as_str).collect()
}

/// A field of an unknown name.
pub(super) fn unknown_field(name: &str, known: &[&str]) -> String {
    let hint = did_you_mean(name, known.iter().copied());
    let hint = if hint.is_empty() { "; remove it".to_owned() } else { hint };
    format!("no field of this name is known{hint} (known here: {})", known.join(", "))
}

/// The schema that holds the keyword that `error` violates.
fn schema_of(error: &ValidationError<'_>) -> Option<&'static Value> {
    let (schema, _keyword) = error.schema_path().as_str().rsplit_once('/')?;
    SCHEMA.pointer(schema)
}

fn wrong_type(instance: &Value, kind: &TypeKind, error: &ValidationError<'_>) -> String {
    if instance.is_null() {
        return "has no value; give it one, or remove the line".to_owned();
    }
    let what = match instance {
        Value::Bool(_) => "a truth value",
        Value::Number(number) if number.is_f64() => "a number with a fraction, or too large",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping of fields",
        Value::Null => "nothing",
    };
    let shown = if instance.is_array() || instance.is_object() {
        format!("this is {what}")
    } else {
        format!("{} is {what}", show(instance))
    };
    let TypeKind::Single(expected) = kind else { return format!("{shown}, which is not possible here") };
    let numeric = instance.as_str().is_some_and(|text| text.parse::<u64>().is_ok());
    let wanted = match expected {
        JsonType::Integer | JsonType::Number if numeric => "but a number belongs here; remove the quotes",
        JsonType::Integer | JsonType::Number => "but a whole number belongs here",
        JsonType::Boolean => "but true or false belongs here",
        JsonType::Array => "but a list belongs here",
        JsonType::Object => "but fields belong here, each on its own line as 'name: value'",
        JsonType::String if !instance.is_array() && !instance.is_object() => {
            "but text belongs here; put it in quotes"
        }
        _ => "but text belongs here",
    };
    let example = match (expected, example(schema_of(error))) {
        (JsonType::Array, Some(example)) => format!(", as {example}"),
        (JsonType::Array, None) => "; begin each entry with '- '".to_owned(),
        _ => String::new(),
    };
    format!("{shown}, {wanted}{example}")
}

fn missing(error: &ValidationError<'_>, property: &Value) -> String {
    let name = property.as_str().unwrap_or_default();
    // What a kind of port needs stands in a branch of the schema that describes no fields.
    let kind =
        error.schema_path().as_str().contains("/then/").then(|| error.instance().get("kind")).flatten();
    let whose =
        kind.and_then(Value::as_str).map(|kind| format!(" of a port of kind '{kind}'")).unwrap_or_default();
    format!("the field '{name}'{whose} is missing; add it")
}

fn not_among(instance: &Value, options: Vec<String>) -> String {
    let shown = show(instance);
    match options.as_slice() {
        [only] => format!("{shown} is not possible here; the only value is {only}"),
        _ => {
            let names = options.iter().map(|option| option.trim_matches('\''));
            let hint = instance.as_str().map(|text| did_you_mean(text, names)).unwrap_or_default();
            format!("{shown} is not one of {}{hint}", options.join(", "))
        }
    }
}

fn out_of_range(instance: &Value, error: &ValidationError<'_>) -> String {
    let limit = |keyword| schema_of(error).and_then(|schema| schema.get(keyword));
    let range = match (limit("minimum"), limit("maximum")) {
        (Some(min), Some(max)) => format!("give a number from {min} to {max}"),
        (Some(min), None) => format!("give {min} or more"),
        (None, Some(max)) => format!("give {max} or less"),
        (None, None) => "give another number".to_owned(),
    };
    format!("{instance} is out of range; {range}")
}

/// A field that belongs to other kinds of ports.
fn foreign_field(error: &ValidationError<'_>, root: &Value) -> String {
    let pointer = error.instance_path().as_str();
    let port = pointer.rsplit_once('/').and_then(|(port, _)| root.pointer(port));
    let kind = port.and_then(|port| port.get("kind")).and_then(Value::as_str).unwrap_or_default();
    format!("a port of kind '{kind}' has no such field; remove it, or correct the kind")
}

/// Text that is not of the form that the schema asks for.
fn wrong_form(instance: &Value, error: &ValidationError<'_>) -> String {
    let shown = show(instance);
    let schema = schema_of(error);
    if schema.and_then(|schema| schema.get("pattern")) == Some(&mac_pattern()) {
        return format!("{shown} is not a MAC address; write six two-digit octets, as 02:50:56:56:44:52");
    }
    let title = schema.and_then(|schema| schema.get("title")).and_then(Value::as_str);
    let rule = schema.and_then(|schema| schema.get("description")).and_then(Value::as_str);
    match (title, error.kind()) {
        (Some(title), ValidationErrorKind::Format { .. }) => {
            let example = example(schema).unwrap_or_default();
            format!("{shown} is not {title}; write it as {example}")
        }
        (Some(title), _) => format!("{shown} is not {title}; {}", rule.unwrap_or("write it another way")),
        (None, ValidationErrorKind::MaxLength { limit }) => {
            format!("{shown} is longer than {limit} characters; shorten it")
        }
        (None, ValidationErrorKind::MinLength { .. }) => {
            "is empty; give it a value, or remove the line".to_owned()
        }
        _ => format!("{shown} is not possible here ({})", error.kind().keyword()),
    }
}

fn mac_pattern() -> Value {
    let mut generator = schemars::SchemaGenerator::default();
    let schema = <MacAddr as schemars::JsonSchema>::json_schema(&mut generator);
    schema.get("pattern").cloned().unwrap_or_default()
}

/// The first example of a schema, as it would be written.
fn example(schema: Option<&Value>) -> Option<String> {
    let example = schema?.get("examples")?.get(0)?;
    Some(example.as_str().map_or_else(|| example.to_string(), str::to_owned))
}

/// A value as a message shows it: text in quotes, cut where it is long.
fn show(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let cut: String =
        text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(SHOWN).collect();
    let more = if text.chars().nth(SHOWN).is_some() { "…" } else { "" };
    if value.is_string() { format!("'{cut}{more}'") } else { format!("{cut}{more}") }
}
