//! VXLAN (RFC 7348 §5): the header between UDP and the inner Ethernet frame.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Vni;
use crate::error::{Layer, WireError};

/// Octets of the header.
pub const HEADER_LEN: usize = 8;

/// The flag I: the VNI is valid.
const VNI_VALID: u8 = 0x08;

/// The header, as it stands in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VxlanHeader {
    flags: u8,
    reserved: [u8; 3],
    vni: [u8; 3],
    reserved_last: u8,
}

impl VxlanHeader {
    /// The header at the start of `bytes`, and what follows it. No field is checked.
    ///
    /// # Errors
    ///
    /// [`crate::Problem::Truncated`].
    #[inline]
    pub fn ref_from_prefix(bytes: &[u8]) -> Result<(&Self, &[u8]), WireError> {
        Layer::Vxlan.header(bytes)
    }

    /// The segment of the inner frame; `None` for 0, which names no segment.
    pub fn vni(&self) -> Option<Vni> {
        Vni::from_octets(self.vni).ok()
    }

    /// The flag I is set: the VNI is valid.
    pub const fn is_vni_valid(&self) -> bool {
        self.flags & VNI_VALID != 0
    }
}

/// A checked view of a VXLAN header and the Ethernet frame behind it.
///
/// The fields of the header are reached through it by dereference.
#[derive(Clone, Copy, Debug)]
pub struct VxlanView<'a> {
    header: &'a VxlanHeader,
    payload: &'a [u8],
}

impl<'a> VxlanView<'a> {
    /// The header at the start of `bytes`, which is the payload of UDP. Reserved bits are ignored, as the RFC
    /// asks.
    ///
    /// # Errors
    ///
    /// [`crate::Problem::Truncated`], and [`crate::Problem::Field`] where the flag I is not set.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, payload) = VxlanHeader::ref_from_prefix(bytes)?;
        if !header.is_vni_valid() {
            return Err(Layer::Vxlan.field("flags without I", u32::from(header.flags)));
        }
        Ok(Self { header, payload })
    }

    /// The inner Ethernet frame.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

impl core::ops::Deref for VxlanView<'_> {
    type Target = VxlanHeader;

    fn deref(&self) -> &VxlanHeader {
        self.header
    }
}

/// A VXLAN header, owned. Reserved bits are written as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vxlan {
    /// The segment; `None` is written as 0.
    pub vni: Option<Vni>,
}

impl Vxlan {
    /// Octets that [`Vxlan::emit`] writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header at the start of `buffer`; returns [`HEADER_LEN`].
    ///
    /// # Errors
    ///
    /// [`crate::Problem::BufferTooSmall`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let header = VxlanHeader {
            flags: VNI_VALID,
            reserved: [0; 3],
            vni: self.vni.map_or([0; 3], Vni::octets),
            reserved_last: 0,
        };
        Layer::Vxlan.write(buffer, &[header.as_bytes()])
    }
}

impl From<VxlanView<'_>> for Vxlan {
    fn from(view: VxlanView<'_>) -> Self {
        Self { vni: view.vni() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Problem;
    use crate::arbitrary::octets;

    #[test]
    fn header_by_hand() {
        let bytes = [0x08, 0, 0, 0, 0x00, 0x13, 0x89, 0, 0xaa, 0xbb];
        let view = VxlanView::parse(&bytes).unwrap();
        assert_eq!((view.vni(), view.payload()), (Some(Vni::new(5001).unwrap()), &[0xaa, 0xbb][..]));
        let mut out = [0xff; 8];
        assert_eq!(Vxlan::from(view).emit(&mut out), Ok(8));
        assert_eq!(out, bytes[..8]);
    }

    #[test]
    fn vni_without_its_flag() {
        let error = VxlanView::parse(&[0xf7, 0, 0, 0, 0, 0, 1, 0]).unwrap_err();
        assert_eq!(error, Layer::Vxlan.field("flags without I", 0xf7));
        let short = VxlanView::parse(&[8, 0, 0, 0, 0, 0, 1]).unwrap_err();
        assert_eq!(short.problem, Problem::Truncated { needed: 8, available: 7 });
    }

    proptest! {
        #[test]
        fn reserved_bits_are_ignored_and_not_sent_on(bytes in octets(8..20)) {
            match VxlanView::parse(&bytes) {
                Ok(view) => {
                    prop_assert!(bytes[0] & 8 != 0);
                    prop_assert_eq!(view.payload(), &bytes[8..]);
                    let mut out = [0; 8];
                    Vxlan::from(view).emit(&mut out).unwrap();
                    prop_assert_eq!(out, [8, 0, 0, 0, bytes[4], bytes[5], bytes[6], 0]);
                }
                Err(_) => prop_assert!(bytes[0] & 8 == 0),
            }
        }
    }
}
