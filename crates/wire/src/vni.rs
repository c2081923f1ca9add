//! Virtual network identifiers: the segment that an overlay frame belongs to.
//!
//! Geneve (RFC 8926 §3.4) and VXLAN (RFC 7348 §5) both carry 24 bits. Zero names no segment here: a tunnel
//! that is left unconfigured sends it, so a segment with that number would be reached by accident.

use core::fmt;

/// A virtual network identifier, 1 to 16,777,215.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "u32", into = "u32")
)]
pub struct Vni(u32);

/// A number that is no [`Vni`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("VNI {0} is out of range: a VNI is a number from 1 to 16777215")]
pub struct VniError(
    /// The number that was refused.
    pub u32,
);

impl Vni {
    /// The least identifier, 1.
    pub const MIN: Self = Self(1);

    /// The greatest identifier, 2²⁴ − 1.
    pub const MAX: Self = Self(0x00ff_ffff);

    /// The identifier `value`.
    ///
    /// # Errors
    ///
    /// [`VniError`] for 0 and for numbers of more than 24 bits.
    pub const fn new(value: u32) -> Result<Self, VniError> {
        if value >= Self::MIN.0 && value <= Self::MAX.0 { Ok(Self(value)) } else { Err(VniError(value)) }
    }

    /// The identifier in three octets in the order of the wire.
    ///
    /// # Errors
    ///
    /// [`VniError`] where the octets are all zero.
    pub const fn from_octets([a, b, c]: [u8; 3]) -> Result<Self, VniError> {
        Self::new(u32::from_be_bytes([0, a, b, c]))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The three octets in the order of the wire.
    pub const fn octets(self) -> [u8; 3] {
        let [_, a, b, c] = self.0.to_be_bytes();
        [a, b, c]
    }
}

impl TryFrom<u32> for Vni {
    type Error = VniError;

    fn try_from(value: u32) -> Result<Self, Self::Error> {
        Self::new(value)
    }
}

impl From<Vni> for u32 {
    fn from(vni: Vni) -> Self {
        vni.0
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vni({})", self.0)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Vni {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Vni".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "integer",
            "description": "Virtual network identifier",
            "minimum": Self::MIN.0,
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
        assert_eq!(Vni::new(0), Err(VniError(0)));
        assert_eq!(Vni::new(1), Ok(Vni::MIN));
        assert_eq!(Vni::new(16_777_215), Ok(Vni::MAX));
        assert_eq!(Vni::new(16_777_216), Err(VniError(16_777_216)));
        assert_eq!(Vni::from_octets([0, 0, 0]), Err(VniError(0)));
        assert_eq!(Vni::new(0x01_02_03).unwrap().octets(), [1, 2, 3]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_as_number() {
        assert_eq!(serde_json::to_string(&Vni::new(5001).unwrap()).unwrap(), "5001");
        assert_eq!(serde_json::from_str::<Vni>("5001").unwrap().get(), 5001);
        assert!(serde_json::from_str::<Vni>("0").is_err());
        assert!(serde_json::from_str::<Vni>("16777216").is_err());
    }

    #[cfg(feature = "schema")]
    #[test]
    fn schema_says_the_range() {
        let schema = schemars::schema_for!(Vni);
        assert_eq!(schema.get("minimum"), Some(&serde_json::json!(1)));
        assert_eq!(schema.get("maximum"), Some(&serde_json::json!(16_777_215)));
    }

    proptest! {
        #[test]
        fn exactly_the_range_is_accepted(value: u32) {
            prop_assert_eq!(Vni::new(value).is_ok(), (1..1 << 24).contains(&value));
        }

        #[test]
        fn octets_round_trip(value in 1u32..1 << 24) {
            let vni = Vni::new(value).unwrap();
            prop_assert_eq!(Vni::from_octets(vni.octets()), Ok(vni));
            prop_assert_eq!(u32::from(vni), value);
        }
    }
}
