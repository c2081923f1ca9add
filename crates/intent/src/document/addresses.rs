//! How IP addresses and subnets describe themselves in the schema.
//!
//! The standard library and `ipnet` read them; `format` names are ours, because JSON Schema has only one for each family. The
//! validator of this crate knows them, others take them as a remark.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Name of the format of an IPv4 or IPv6 address.
pub(crate) const ADDRESS_FORMAT: &str = "ip";
/// Name of the format of an IPv4 or IPv6 address with a prefix length.
pub(crate) const SUBNET_FORMAT: &str = "ip-with-prefix-length";

/// Stands for [`std::net::IpAddr`] in the schema.
pub(crate) struct AddressSchema;

impl JsonSchema for AddressSchema {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "IpAddress".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "an IPv4 or IPv6 address",
            "type": "string",
            "format": ADDRESS_FORMAT,
            "examples": ["172.16.1.20"],
        })
    }
}

/// Stands for [`ipnet::IpNet`] in the schema.
pub(crate) struct SubnetSchema;

impl JsonSchema for SubnetSchema {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "IpSubnet".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "an IPv4 or IPv6 address with a prefix length",
            "type": "string",
            "format": SUBNET_FORMAT,
            "examples": ["172.16.1.10/24"],
        })
    }
}
