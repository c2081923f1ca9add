//! The JSON Schema of the node document, made from the types in [`crate::document`], and the validator built from it.

use std::net::IpAddr;
use std::sync::LazyLock;

use ipnet::IpNet;
use jsonschema::Validator;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::Value;

use crate::document::Document;
use crate::document::addresses::{ADDRESS_FORMAT, SUBNET_FORMAT};

/// The JSON Schema (draft 2020-12) of the node document, with descriptions, defaults, ranges and examples.
pub fn schema() -> Value {
    SCHEMA.clone()
}

pub(crate) static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(without_null));
    let mut schema = settings.into_generator().into_root_schema_for::<Document>();
    schema.insert("title".to_owned(), "Sluice node document".into());
    schema.to_value()
});

/// The validator of [`struct@SCHEMA`].
///
/// # Panics
///
/// Never, as long as the types yield a valid schema, which a test of this module asserts.
pub(crate) static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    jsonschema::options()
        .should_validate_formats(true)
        .with_format(ADDRESS_FORMAT, |text: &str| text.parse::<IpAddr>().is_ok())
        .with_format(SUBNET_FORMAT, |text: &str| text.parse::<IpNet>().is_ok())
        .build(&SCHEMA)
        .expect("the schema generated from the document's types is valid")
});

/// Removes `null` from optional fields: a field that is absent is left out, not written as null.
fn without_null(schema: &mut schemars::Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.shift_remove("default");
    }
    let branch = match object.get_mut("anyOf") {
        Some(Value::Array(branches)) => {
            branches.retain(|branch| branch.get("type").is_none_or(|name| name != "null"));
            if branches.len() == 1 { branches.pop() } else { None }
        }
        _ => None,
    };
    if let Some(Value::Object(branch)) = branch {
        object.shift_remove("anyOf");
        for (keyword, value) in branch {
            object.entry(keyword).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_described() {
        fn walk(schema: &Value, path: &str, missing: &mut Vec<String>) {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
            for (name, field) in properties {
                if field.get("description").is_none() {
                    missing.push(format!("{path}.{name}"));
                }
            }
        }
        let schema = schema();
        let mut missing = Vec::new();
        walk(&schema, "", &mut missing);
        for (name, definition) in schema["$defs"].as_object().unwrap() {
            walk(definition, name, &mut missing);
        }
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn the_schema_is_valid_and_knows_no_null() {
        jsonschema::meta::validate(&SCHEMA).unwrap();
        assert!(VALIDATOR.is_valid(&serde_json::json!({ "version": 1, "name": "n", "role": "host" })));
        assert!(!SCHEMA.to_string().contains("null"));
    }
}
