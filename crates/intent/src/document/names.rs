//! Names in the document: text with a pattern, so that they can stand in commands, metrics and paths without quoting.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A text that is not of the form that its type asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {noun}; {rule}")]
pub struct NameError {
    text: String,
    noun: &'static str,
    rule: &'static str,
}

macro_rules! pattern_text {
    ($(#[$doc:meta])* $name:ident, $title:literal, $rule:literal, $pattern:literal, $max:literal, $example:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::try_from(text.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                let valid: fn(&str) -> bool = $valid;
                if !text.is_empty() && text.len() <= $max && valid(&text) {
                    Ok(Self(text))
                } else {
                    Err(NameError { text, noun: $title, rule: $rule })
                }
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "title": $title,
                    "description": $rule,
                    "type": "string",
                    "pattern": $pattern,
                    "maxLength": $max,
                    "examples": [$example],
                })
            }
        }
    };
}

pattern_text!(
    /// A name: a letter, digit or `_`, then letters, digits and `_ . : / -`; at most 128 characters.
    Name,
    "a name",
    "a name is 1 to 128 letters, digits and _ . : / -, the first a letter, a digit or _",
    "^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$",
    128,
    "uplink-1",
    |text| {
        let first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        text.bytes().next().is_some_and(first)
            && text.bytes().all(|byte| first(byte) || matches!(byte, b'.' | b':' | b'/' | b'-'))
    }
);

pattern_text!(
    /// The name of a kernel interface: at most 15 characters, without spaces, `/` and `:`.
    InterfaceName,
    "the name of a kernel interface",
    "the name of a kernel interface is 1 to 15 letters, digits and _ . @ -, the first a letter, a digit or _",
    "^[A-Za-z0-9_][A-Za-z0-9_.@-]*$",
    15,
    "eth1",
    |text| {
        let first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        text.bytes().next().is_some_and(first)
            && text.bytes().all(|byte| first(byte) || matches!(byte, b'.' | b'@' | b'-'))
    }
);

pattern_text!(
    /// A PCI address with its domain, in lower case, as `0000:19:00.0`.
    PciAddress,
    "a PCI address",
    "a PCI address is domain:bus:device.function in lower-case hexadecimal digits",
    "^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]$",
    12,
    "0000:19:00.0",
    |text| {
        text.len() == 12
            && text.bytes().enumerate().all(|(position, byte)| match position {
                4 | 7 => byte == b':',
                10 => byte == b'.',
                11 => matches!(byte, b'0'..=b'7'),
                _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            })
    }
);
