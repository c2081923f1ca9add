//! The two halves of the octet that IPv4 calls type of service and IPv6 traffic class: DSCP and ECN.

use core::fmt;

/// A differentiated services code point (RFC 2474 §3), 0 to 63.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "u8", into = "u8")
)]
pub struct Dscp(u8);

/// A number that is no [`Dscp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("DSCP {0} is out of range: a code point is a number from 0 to 63")]
pub struct DscpError(
    /// The number that was refused.
    pub u8,
);

impl Dscp {
    /// Best effort, CS0.
    pub const DEFAULT: Self = Self(0);
    /// Expedited forwarding (RFC 3246).
    pub const EXPEDITED: Self = Self(46);
    /// CS6, network control (RFC 4594 §3.1): BFD, BGP.
    pub const NETWORK_CONTROL: Self = Self(48);

    /// The code point `value`.
    ///
    /// # Errors
    ///
    /// [`DscpError`] for numbers above 63.
    pub const fn new(value: u8) -> Result<Self, DscpError> {
        if value < 64 { Ok(Self(value)) } else { Err(DscpError(value)) }
    }

    /// The code point within a type of service or traffic class octet.
    pub const fn from_traffic_class(octet: u8) -> Self {
        Self(octet >> 2)
    }

    /// The octet of this code point and `ecn`.
    pub const fn traffic_class(self, ecn: Ecn) -> u8 {
        self.0 << 2 | ecn as u8
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<u8> for Dscp {
    type Error = DscpError;

    fn try_from(value: u8) -> Result<Self, Self::Error> {
        Self::new(value)
    }
}

impl From<Dscp> for u8 {
    fn from(dscp: Dscp) -> Self {
        dscp.0
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dscp({})", self.0)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Dscp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Dscp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "integer",
            "description": "Differentiated services code point",
            "minimum": 0,
            "maximum": 63,
        })
    }
}

/// Explicit congestion notification (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: the endpoints do not speak ECN.
    #[default]
    NotCapable = 0,
    /// ECT(1).
    Capable1 = 1,
    /// ECT(0).
    Capable0 = 2,
    /// CE: a router on the way was congested.
    CongestionExperienced = 3,
}

impl Ecn {
    /// The notification within a type of service or traffic class octet.
    pub const fn from_traffic_class(octet: u8) -> Self {
        match octet & 3 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::CongestionExperienced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_is_its_two_halves() {
        for octet in 0..=255 {
            let (dscp, ecn) = (Dscp::from_traffic_class(octet), Ecn::from_traffic_class(octet));
            assert_eq!((dscp.get(), ecn as u8), (octet / 4, octet % 4));
            assert_eq!(dscp.traffic_class(ecn), octet);
        }
    }

    #[test]
    fn exactly_six_bits_are_accepted() {
        for value in 0..=255 {
            assert_eq!(Dscp::new(value).map(u8::from).ok(), (value < 64).then_some(value));
        }
    }

    #[cfg(feature = "schema")]
    #[test]
    fn schema_says_the_range() {
        let schema = schemars::schema_for!(Dscp);
        assert_eq!(schema.get("minimum"), Some(&serde_json::json!(0)));
        assert_eq!(schema.get("maximum"), Some(&serde_json::json!(63)));
    }
}
