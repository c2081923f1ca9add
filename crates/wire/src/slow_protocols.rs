//! Slow protocols (IEEE 802.3 annex 57A): the frames that LACP and its marker protocol travel in.
//!
//! A subtype is the first octet behind an Ethernet header with [`crate::EtherType::SLOW_PROTOCOLS`]. No bridge forwards
//! the frames: they go from one end of a link to the other.

use crate::MacAddr;
use crate::error::{Layer, WireError};
use crate::lacp::LacpPacket;
use crate::marker::MarkerPacket;

/// Whom the frames are for: the Slow Protocols Multicast address.
pub const MULTICAST: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x02]);

/// Octets of an LACPDU or Marker PDU behind the Ethernet header (IEEE 802.1AX-2014 §6.4.2.3, §6.5.3.3).
pub const PDU_LEN: usize = 110;

/// Subtype of LACP.
pub(crate) const LACP: u8 = 1;

/// Subtype of the marker protocol.
pub(crate) const MARKER: u8 = 2;

/// What a frame of the slow protocols carries.
#[derive(Clone, Copy, Debug)]
pub enum SlowProtocol<'a> {
    /// An LACPDU.
    Lacp(&'a LacpPacket),
    /// A Marker PDU or the response to one.
    Marker(&'a MarkerPacket),
    /// A protocol that this crate does not read, such as OAM (3) or OSSP (10).
    Other {
        /// The subtype.
        subtype: u8,
    },
}

impl<'a> SlowProtocol<'a> {
    /// What the payload of an Ethernet frame of the slow protocols is.
    ///
    /// # Errors
    ///
    /// [`crate::Problem::Truncated`] for no octet at all, and those of [`LacpPacket::parse`] and
    /// [`MarkerPacket::parse`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (subtype, _) = Layer::SlowProtocols.header::<u8>(bytes)?;
        match *subtype {
            LACP => LacpPacket::parse(bytes).map(Self::Lacp),
            MARKER => MarkerPacket::parse(bytes).map(Self::Marker),
            subtype => Ok(Self::Other { subtype }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Problem;
    use crate::arbitrary::octets;

    #[test]
    fn subtypes() {
        let parse = |subtype: u8| {
            let mut bytes = [0; PDU_LEN];
            bytes[..4].copy_from_slice(&[subtype, 1, 1, if subtype == LACP { 20 } else { 16 }]);
            (bytes[24 - 1], bytes[44 - 1]) = (20, 16);
            match SlowProtocol::parse(&bytes) {
                Ok(SlowProtocol::Lacp(_)) => "LACP",
                Ok(SlowProtocol::Marker(_)) => "marker",
                Ok(SlowProtocol::Other { subtype: other }) if other == subtype => "other",
                Ok(_) | Err(_) => "refused",
            }
        };
        assert_eq!([0, 1, 2, 3, 255].map(parse), ["other", "LACP", "marker", "other", "other"]);
        let error = SlowProtocol::parse(&[]).unwrap_err();
        assert_eq!(error, Layer::SlowProtocols.error(Problem::Truncated { needed: 1, available: 0 }));
    }

    proptest! {
        #[test]
        fn short_frames_of_known_subtypes_are_refused(subtype in 1u8..3, rest in octets(0..PDU_LEN - 1)) {
            let bytes = [&[subtype][..], &rest].concat();
            prop_assert!(SlowProtocol::parse(&bytes).is_err());
        }
    }
}
