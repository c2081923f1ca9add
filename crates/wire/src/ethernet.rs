//! Ethernet II frames with up to two VLAN tags (IEEE 802.3 §3, IEEE 802.1Q §9).
//!
//! ```text
//!  0        6       12        16        20
//! +--------+--------+---------+---------+------+---------
//! | dst    | src    | tag 1 ? | tag 2 ? | type | payload
//! +--------+--------+---------+---------+------+---------
//! ```
//!
//! Limits: a third tag is not read; the frame's type is then a VLAN type and its payload begins with that
//! tag. Frames carry no preamble and no frame check sequence, as NICs deliver them.

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Layer, WireError};
use crate::{EtherType, MacAddr, VlanId};

/// Octets of an Ethernet header without tags.
pub const HEADER_LEN: usize = 14;

/// Octets that one VLAN tag adds.
pub const TAG_LEN: usize = 4;

/// VLAN tags that [`EthernetView::parse`] reads.
pub const MAX_TAGS: usize = 2;

/// The untagged header, as it stands in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct EthernetHeader {
    destination: MacAddr,
    source: MacAddr,
    ether_type: U16,
}

impl EthernetHeader {
    /// The header at the start of `frame`, and what follows it.
    ///
    /// # Errors
    ///
    /// [`crate::Problem::Truncated`].
    #[inline]
    pub fn ref_from_prefix(frame: &[u8]) -> Result<(&Self, &[u8]), WireError> {
        Layer::Ethernet.header(frame)
    }

    /// As [`EthernetHeader::ref_from_prefix`], to be changed in place.
    ///
    /// # Errors
    ///
    /// [`crate::Problem::Truncated`].
    #[inline]
    pub fn mut_from_prefix(frame: &mut [u8]) -> Result<(&mut Self, &mut [u8]), WireError> {
        Layer::Ethernet.header_mut(frame)
    }

    /// The station, or group of stations, that the frame is for.
    pub const fn destination(&self) -> MacAddr {
        self.destination
    }

    /// The station that sent the frame.
    pub const fn source(&self) -> MacAddr {
        self.source
    }

    /// What follows the addresses: a VLAN tag, or the payload's protocol.
    pub fn first_type(&self) -> EtherType {
        EtherType(self.ether_type.get())
    }

    /// Changes the station that the frame is for.
    pub fn set_destination(&mut self, destination: MacAddr) {
        self.destination = destination;
    }

    /// Changes the station that the frame comes from.
    pub fn set_source(&mut self, source: MacAddr) {
        self.source = source;
    }
}

/// What follows a VLAN type: tag control information and the next type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TagHeader {
    control: U16,
    ether_type: U16,
}

/// A VLAN tag (IEEE 802.1Q §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// [`EtherType::VLAN`], or [`EtherType::SERVICE_VLAN`] for the outer tag of QinQ.
    pub ether_type: EtherType,
    /// Priority code point, 0 to 7.
    pub priority: u8,
    /// The frame may be dropped before others.
    pub drop_eligible: bool,
    /// The VLAN.
    pub id: VlanId,
}

impl VlanTag {
    /// An 802.1Q tag of priority 0.
    pub const fn new(id: VlanId) -> Self {
        Self { ether_type: EtherType::VLAN, priority: 0, drop_eligible: false, id }
    }

    fn parse(ether_type: EtherType, control: u16) -> Result<Self, WireError> {
        let id = VlanId::new(control & 0x0fff)
            .map_err(|error| Layer::Vlan.field("VLAN identifier", u32::from(error.0)))?;
        Ok(Self { ether_type, priority: (control >> 13) as u8, drop_eligible: control & 0x1000 != 0, id })
    }

    fn control(&self) -> Result<u16, WireError> {
        if self.priority > 7 {
            return Err(Layer::Vlan.field("priority", u32::from(self.priority)));
        }
        Ok(u16::from(self.priority) << 13 | u16::from(self.drop_eligible) << 12 | self.id.get())
    }
}

/// A checked view of a frame: its header, its tags, its payload.
#[derive(Clone, Copy, Debug)]
pub struct EthernetView<'a> {
    header: &'a EthernetHeader,
    tags: [Option<VlanTag>; MAX_TAGS],
    ether_type: EtherType,
    payload: &'a [u8],
}

impl<'a> EthernetView<'a> {
    /// The frame in `bytes`.
    ///
    /// # Errors
    ///
    /// [`crate::Problem::Truncated`] within the header or a tag, and [`crate::Problem::Field`] for the
    /// reserved VLAN identifier 4095.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, mut payload) = EthernetHeader::ref_from_prefix(bytes)?;
        let mut ether_type = header.first_type();
        let mut tags = [None; MAX_TAGS];
        for slot in &mut tags {
            if !ether_type.is_vlan() {
                break;
            }
            let (tag, rest) = Layer::Vlan.header::<TagHeader>(payload)?;
            *slot = Some(VlanTag::parse(ether_type, tag.control.get())?);
            ether_type = EtherType(tag.ether_type.get());
            payload = rest;
        }
        Ok(Self { header, tags, ether_type, payload })
    }

    /// The station, or group of stations, that the frame is for.
    pub const fn destination(&self) -> MacAddr {
        self.header.destination()
    }

    /// The station that sent the frame.
    pub const fn source(&self) -> MacAddr {
        self.header.source()
    }

    /// The outermost tag.
    pub const fn outer_tag(&self) -> Option<VlanTag> {
        let [outer, _] = self.tags;
        outer
    }

    /// The tag behind the outermost one (QinQ).
    pub const fn inner_tag(&self) -> Option<VlanTag> {
        let [_, inner] = self.tags;
        inner
    }

    /// The protocol of the payload; a length where [`EtherType::is_length`].
    pub const fn ether_type(&self) -> EtherType {
        self.ether_type
    }

    /// Octets of the header with its tags: where the payload begins.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + TAG_LEN * self.tags.iter().flatten().count()
    }

    /// What follows the header and its tags, padding of short frames included.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An Ethernet header with its tags, outermost first, owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ethernet {
    /// The station, or group of stations, that the frame is for.
    pub destination: MacAddr,
    /// The station that the frame comes from.
    pub source: MacAddr,
    /// The VLAN tags; absent ones are skipped.
    pub tags: [Option<VlanTag>; MAX_TAGS],
    /// The protocol of the payload.
    pub ether_type: EtherType,
}

impl Ethernet {
    /// Octets that [`Ethernet::emit`] writes.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + TAG_LEN * self.tags.iter().flatten().count()
    }

    /// Writes the header and its tags at the start of `buffer`; returns [`Ethernet::header_len`].
    ///
    /// # Errors
    ///
    /// [`crate::Problem::BufferTooSmall`], and [`crate::Problem::Field`] for a priority above 7 or a tag
    /// whose type is no VLAN type.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let mut tags = self.tags.iter().flatten();
        let mut tag = tags.next();
        let first_type = tag.map_or(self.ether_type, |tag| tag.ether_type);
        let header = EthernetHeader {
            destination: self.destination,
            source: self.source,
            ether_type: U16::new(first_type.0),
        };
        let room = Layer::Ethernet.room(buffer, self.header_len())?;
        let mut written = Layer::Ethernet.write(room, &[header.as_bytes()])?;
        while let Some(current) = tag {
            if !current.ether_type.is_vlan() {
                return Err(Layer::Vlan.field("tag type", u32::from(current.ether_type.0)));
            }
            tag = tags.next();
            let next_type = tag.map_or(self.ether_type, |next| next.ether_type);
            let header =
                TagHeader { control: U16::new(current.control()?), ether_type: U16::new(next_type.0) };
            written +=
                Layer::Vlan.write(room.get_mut(written..).unwrap_or_default(), &[header.as_bytes()])?;
        }
        Ok(written)
    }
}

impl From<EthernetView<'_>> for Ethernet {
    fn from(view: EthernetView<'_>) -> Self {
        Self {
            destination: view.destination(),
            source: view.source(),
            tags: view.tags,
            ether_type: view.ether_type,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Problem;
    use crate::arbitrary::octets;

    const DESTINATION: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x0b]);
    const SOURCE: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x0a]);

    /// Addresses, then a service tag (priority 5, drop eligible, VLAN 100), then a customer tag (VLAN 4094),
    /// IPv4.
    const QINQ: [u8; 24] = [
        0x02, 0, 0, 0, 0, 0x0b, 0x02, 0, 0, 0, 0, 0x0a, 0x88, 0xa8, 0xb0, 0x64, 0x81, 0x00, 0x0f, 0xfe, 0x08,
        0x00, 0xaa, 0xbb,
    ];

    #[test]
    fn untagged() {
        let bytes = [&QINQ[..12], &[0x86, 0xdd, 1, 2, 3]].concat();
        let view = EthernetView::parse(&bytes).unwrap();
        assert_eq!((view.destination(), view.source()), (DESTINATION, SOURCE));
        assert_eq!((view.ether_type(), view.header_len()), (EtherType::IPV6, 14));
        assert_eq!((view.outer_tag(), view.payload()), (None, &[1, 2, 3][..]));
    }

    #[test]
    fn qinq() {
        let view = EthernetView::parse(&QINQ).unwrap();
        let outer = VlanTag {
            ether_type: EtherType::SERVICE_VLAN,
            priority: 5,
            drop_eligible: true,
            id: VlanId::new(100).unwrap(),
        };
        assert_eq!(view.outer_tag(), Some(outer));
        assert_eq!(view.inner_tag(), Some(VlanTag::new(VlanId::MAX)));
        assert_eq!((view.ether_type(), view.header_len()), (EtherType::IPV4, 22));
        assert_eq!(view.payload(), [0xaa, 0xbb]);
        let mut out = [0; 22];
        assert_eq!(Ethernet::from(view).emit(&mut out), Ok(22));
        assert_eq!(out, QINQ[..22]);
    }

    #[test]
    fn third_tag_is_payload() {
        let mut bytes = QINQ;
        bytes[20..22].copy_from_slice(&[0x81, 0x00]);
        let view = EthernetView::parse(&bytes).unwrap();
        assert_eq!((view.ether_type(), view.payload()), (EtherType::VLAN, &[0xaa, 0xbb][..]));
    }

    #[test]
    fn refused_frames() {
        let problem = |bytes: &[u8]| EthernetView::parse(bytes).map(|_| ()).unwrap_err();
        assert_eq!(
            problem(&QINQ[..13]),
            Layer::Ethernet.error(Problem::Truncated { needed: 14, available: 13 })
        );
        assert_eq!(problem(&QINQ[..21]), Layer::Vlan.error(Problem::Truncated { needed: 4, available: 3 }));
        let mut reserved = QINQ;
        reserved[19] = 0xff;
        assert_eq!(problem(&reserved), Layer::Vlan.field("VLAN identifier", 4095));
    }

    #[test]
    fn refused_headers() {
        let tag = VlanTag::new(VlanId::MAX);
        let header = Ethernet {
            destination: DESTINATION,
            source: SOURCE,
            tags: [Some(tag), None],
            ether_type: EtherType::ARP,
        };
        let small = header.emit(&mut [0; 17]).unwrap_err();
        assert_eq!(small.problem, Problem::BufferTooSmall { needed: 18, available: 17 });
        let priority = Ethernet { tags: [Some(VlanTag { priority: 8, ..tag }), None], ..header };
        assert_eq!(priority.emit(&mut [0; 18]), Err(Layer::Vlan.field("priority", 8)));
        let wrong_type =
            Ethernet { tags: [Some(VlanTag { ether_type: EtherType::IPV4, ..tag }), None], ..header };
        assert_eq!(wrong_type.emit(&mut [0; 18]), Err(Layer::Vlan.field("tag type", 0x0800)));
    }

    fn tag() -> impl Strategy<Value = VlanTag> {
        (any::<bool>(), 0u8..8, any::<bool>(), 0u16..4095).prop_map(
            |(service, priority, drop_eligible, id)| VlanTag {
                ether_type: if service { EtherType::SERVICE_VLAN } else { EtherType::VLAN },
                priority,
                drop_eligible,
                id: VlanId::new(id).unwrap(),
            },
        )
    }

    proptest! {
        #[test]
        fn emitted_headers_parse_as_they_were(
            destination: [u8; 6], source: [u8; 6],
            first in prop::option::of(tag()), second in prop::option::of(tag()),
            ether_type: u16, payload in octets(0..20),
        ) {
            prop_assume!(!EtherType(ether_type).is_vlan());
            let (first, second) = if first.is_none() { (second, None) } else { (first, second) };
            let header = Ethernet {
                destination: MacAddr(destination),
                source: MacAddr(source),
                tags: [first, second],
                ether_type: EtherType(ether_type),
            };
            let mut bytes = vec![0; header.header_len()];
            prop_assert_eq!(header.emit(&mut bytes), Ok(header.header_len()));
            bytes.extend_from_slice(&payload);
            let view = EthernetView::parse(&bytes).unwrap();
            prop_assert_eq!(view.payload(), &payload[..]);
            prop_assert_eq!(view.header_len(), header.header_len());
            prop_assert_eq!(Ethernet::from(view), header);
        }

        #[test]
        fn any_bytes_are_refused_or_emitted_again(mut bytes in octets(0..40), tagged: bool) {
            if tagged && bytes.len() > 20 {
                bytes[12..14].copy_from_slice(&[0x81, 0x00]);
            }
            if let Ok(view) = EthernetView::parse(&bytes) {
                let mut out = vec![0; view.header_len()];
                Ethernet::from(view).emit(&mut out).unwrap();
                prop_assert_eq!([&out[..], view.payload()].concat(), bytes);
            }
        }
    }
}
