//! VLAN identifiers (IEEE 802.1Q §9.6).
//!
//! 0 means "no VLAN, priority only" on the wire and "untagged" in configuration; 4095 is reserved by the
//! standard and refused here.

use core::fmt;

/// A VLAN identifier, 0 to 4094.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "u16", into = "u16")
)]
pub struct VlanId(u16);

/// A number that is no [`VlanId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("VLAN {0} is out of range: a VLAN identifier is a number from 0 (untagged) to 4094")]
pub struct VlanIdError(
    /// The number that was refused.
    pub u16,
);

impl VlanId {
    /// 0: the frame belongs to no VLAN (priority tag, or no tag at all).
    pub const UNTAGGED: Self = Self(0);

    /// The greatest identifier, 4094.
    pub const MAX: Self = Self(4094);

    /// The identifier `value`.
    ///
    /// # Errors
    ///
    /// [`VlanIdError`] for 4095, which is reserved, and for greater numbers.
    pub const fn new(value: u16) -> Result<Self, VlanIdError> {
        if value <= Self::MAX.0 { Ok(Self(value)) } else { Err(VlanIdError(value)) }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The identifier is [`VlanId::UNTAGGED`].
    pub const fn is_untagged(self) -> bool {
        self.0 == 0
    }
}

impl TryFrom<u16> for VlanId {
    type Error = VlanIdError;

    fn try_from(value: u16) -> Result<Self, Self::Error> {
        Self::new(value)
    }
}

impl From<VlanId> for u16 {
    fn from(vlan: VlanId) -> Self {
        vlan.0
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VlanId({})", self.0)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for VlanId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "VlanId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "integer",
            "description": "VLAN identifier; 0 is untagged",
            "minimum": 0,
            "maximum": Self::MAX.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits() {
        assert_eq!(VlanId::new(0), Ok(VlanId::UNTAGGED));
        assert_eq!(VlanId::new(4094), Ok(VlanId::MAX));
        assert_eq!(VlanId::new(4095), Err(VlanIdError(4095)));
        assert!(VlanId::default().is_untagged() && !VlanId::MAX.is_untagged());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_as_number() {
        assert_eq!(serde_json::to_string(&VlanId::new(100).unwrap()).unwrap(), "100");
        assert_eq!(serde_json::from_str::<VlanId>("100").unwrap().get(), 100);
        assert!(serde_json::from_str::<VlanId>("4095").is_err());
    }

    #[cfg(feature = "schema")]
    #[test]
    fn schema_says_the_range() {
        let schema = schemars::schema_for!(VlanId);
        assert_eq!(schema.get("minimum"), Some(&serde_json::json!(0)));
        assert_eq!(schema.get("maximum"), Some(&serde_json::json!(4094)));
    }

    proptest! {
        #[test]
        fn exactly_the_range_is_accepted(value: u16) {
            prop_assert_eq!(VlanId::new(value).map(u16::from).ok(), (value < 4095).then_some(value));
        }
    }
}
