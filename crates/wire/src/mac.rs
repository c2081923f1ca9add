//! MAC addresses (IEEE 802, EUI-48).
//!
//! The newtype is the address as it stands in a frame, so header structs hold it without conversion.

use core::fmt;
use core::str::FromStr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A 48-bit MAC address, in the order of the wire.
///
/// Written as six two-digit hexadecimal octets with colons, in lower case; read with colons or hyphens, in
/// either case.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `ff:ff:ff:ff:ff:ff`: every station of the segment.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// `00:00:00:00:00:00`: no address. Never a valid source or destination.
    pub const ZERO: Self = Self([0; 6]);

    /// The six octets in the order of the wire.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// The address is [`MacAddr::BROADCAST`].
    pub const fn is_broadcast(self) -> bool {
        self.to_u64() == 0xffff_ffff_ffff
    }

    /// The group bit is set: a multicast address, the broadcast address among them.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 0x01 != 0
    }

    /// The address names one station: the group bit is clear and the address is not all zeros. Only such an
    /// address may be the source of a frame.
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && self.to_u64() != 0
    }

    /// The local bit is set: given by an administrator or a program, not by the maker of the interface.
    pub const fn is_local(self) -> bool {
        self.0[0] & 0x02 != 0
    }

    /// The address as a number below 2⁴⁸, its first octet the most significant.
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address whose number is `value`; bits above the lowest 48 are ignored.
    pub const fn from_u64(value: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
        Self([a, b, c, d, e, f])
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(octets: [u8; 6]) -> Self {
        Self(octets)
    }
}

impl From<MacAddr> for [u8; 6] {
    fn from(mac: MacAddr) -> Self {
        mac.0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a MAC address: expected six two-digit hexadecimal octets such as 02:50:56:56:44:52")]
pub struct MacAddrError;

impl FromStr for MacAddr {
    type Err = MacAddrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut octets = [0; 6];
        let mut parts = text.split(separator);
        for octet in &mut octets {
            let part = parts.next().ok_or(MacAddrError)?;
            // from_str_radix alone would accept "+f".
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(MacAddrError);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| MacAddrError)?;
        }
        match parts.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(MacAddrError),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for MacAddr {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for MacAddr {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = MacAddr;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a MAC address such as 02:50:56:56:44:52")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<MacAddr, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for MacAddr {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MacAddr".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "MAC address: six two-digit hexadecimal octets",
            "pattern": "^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$|^([0-9a-fA-F]{2}-){5}[0-9a-fA-F]{2}$",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn classes_of_addresses() {
        let unicast = MacAddr([0x00, 0x50, 0x56, 0x00, 0x00, 0x01]);
        assert!(unicast.is_unicast() && !unicast.is_multicast() && !unicast.is_local());
        let local = MacAddr([0x02, 0x50, 0x56, 0x56, 0x44, 0x52]);
        assert!(local.is_unicast() && local.is_local());
        assert!(MacAddr([0x01, 0, 0x5e, 0, 0, 1]).is_multicast());
        assert!(MacAddr::BROADCAST.is_multicast() && MacAddr::BROADCAST.is_broadcast());
        assert!(!MacAddr::ZERO.is_unicast() && !MacAddr::ZERO.is_multicast());
    }

    #[test]
    fn text_forms() {
        let mac = MacAddr([0x02, 0x50, 0x56, 0x56, 0x44, 0x52]);
        assert_eq!(mac.to_string(), "02:50:56:56:44:52");
        assert_eq!("02-50-56-56-44-52".parse(), Ok(mac));
        assert_eq!("FF:ff:FF:ff:FF:ff".parse(), Ok(MacAddr::BROADCAST));
    }

    #[test]
    fn texts_that_are_no_address() {
        for text in [
            "",
            "02",
            "02:50:56:56:44",
            "02:50:56:56:44:52:00",
            "2:50:56:56:44:52",
            "02:50-56:56:44:52",
            "+2:50:56:56:44:52",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(MacAddrError), "{text:?}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_as_text() {
        let mac = MacAddr([0x02, 0x50, 0x56, 0x56, 0x44, 0x52]);
        assert_eq!(serde_json::to_string(&mac).unwrap(), "\"02:50:56:56:44:52\"");
        assert_eq!(serde_json::from_str::<MacAddr>("\"02:50:56:56:44:52\"").unwrap(), mac);
        assert!(serde_json::from_str::<MacAddr>("\"02:50\"").is_err());
    }

    #[cfg(feature = "schema")]
    #[test]
    fn schema_is_of_text() {
        let schema = schemars::schema_for!(MacAddr);
        assert_eq!(schema.get("type"), Some(&serde_json::json!("string")));
        assert!(schema.get("pattern").is_some());
    }

    proptest! {
        #[test]
        fn text_and_number_round_trip(octets: [u8; 6]) {
            let mac = MacAddr(octets);
            prop_assert_eq!(mac.to_string().parse(), Ok(mac));
            prop_assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
            prop_assert!(mac.to_u64() < 1 << 48);
        }

        #[test]
        fn number_order_is_address_order(left: [u8; 6], right: [u8; 6]) {
            let (left, right) = (MacAddr(left), MacAddr(right));
            prop_assert_eq!(left.cmp(&right), left.to_u64().cmp(&right.to_u64()));
        }

        #[test]
        fn any_text_is_accepted_or_refused(text in ".{0,24}") {
            if let Ok(mac) = text.parse::<MacAddr>() {
                prop_assert_eq!(mac.to_string(), text.to_lowercase().replace('-', ":"));
            }
        }
    }
}
