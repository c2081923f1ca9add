//! UDP (RFC 768).

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::PseudoHeader;
use crate::error::{Layer, Problem, WireError};

/// Octets of the header.
pub const HEADER_LEN: usize = 8;

/// Destination ports that name a protocol.
pub mod port {
    /// Geneve (RFC 8926 §3.3).
    pub const GENEVE: u16 = 6081;
    /// VXLAN (RFC 7348 §5).
    pub const VXLAN: u16 = 4789;
    /// BFD control packets over a single hop (RFC 5881 §4).
    pub const BFD: u16 = 3784;
}

/// The header, as it stands in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct UdpHeader {
    source_port: U16,
    destination_port: U16,
    length: U16,
    checksum: U16,
}

impl UdpHeader {
    /// The header at the start of `datagram`, and what follows it. No field is checked.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    #[inline]
    pub fn ref_from_prefix(datagram: &[u8]) -> Result<(&Self, &[u8]), WireError> {
        Layer::Udp.header(datagram)
    }

    /// As [`UdpHeader::ref_from_prefix`], to be changed in place.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`].
    #[inline]
    pub fn mut_from_prefix(datagram: &mut [u8]) -> Result<(&mut Self, &mut [u8]), WireError> {
        Layer::Udp.header_mut(datagram)
    }

    /// The sender's port; 0 where it expects no answer.
    pub fn source_port(&self) -> u16 {
        self.source_port.get()
    }

    /// The receiver's port.
    pub fn destination_port(&self) -> u16 {
        self.destination_port.get()
    }

    /// Octets of the datagram, header included.
    pub fn length(&self) -> u16 {
        self.length.get()
    }

    /// The checksum; 0 where there is none.
    pub fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// Changes the sender's port. The checksum is the caller's.
    pub fn set_source_port(&mut self, port: u16) {
        self.source_port.set(port);
    }

    /// Changes the receiver's port. The checksum is the caller's.
    pub fn set_destination_port(&mut self, port: u16) {
        self.destination_port.set(port);
    }

    /// Changes the length. The checksum is the caller's.
    pub fn set_length(&mut self, length: u16) {
        self.length.set(length);
    }

    /// Changes the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        self.checksum.set(checksum);
    }
}

/// A checked view of a datagram: header and payload.
///
/// The fields of the header are reached through it by dereference.
#[derive(Clone, Copy, Debug)]
pub struct UdpView<'a> {
    header: &'a UdpHeader,
    datagram: &'a [u8],
    payload: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// The datagram at the start of `bytes`; octets beyond its length are left out.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`], and [`Problem::Length`] where the length is less than the header.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, _) = UdpHeader::ref_from_prefix(bytes)?;
        let length = usize::from(header.length());
        if length < HEADER_LEN {
            return Err(Layer::Udp.length("length", length));
        }
        let (datagram, _) = Layer::Udp.split(bytes, length)?;
        Ok(Self { header, datagram, payload: datagram.get(HEADER_LEN..).unwrap_or_default() })
    }

    /// What the datagram carries.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The header, for as long as the packet itself lives.
    pub const fn header(&self) -> &'a UdpHeader {
        self.header
    }

    /// The checksum is right, or absent where the network protocol allows it.
    ///
    /// # Errors
    ///
    /// [`Problem::Checksum`].
    pub fn verify_checksum(&self, pseudo: PseudoHeader) -> Result<(), WireError> {
        if pseudo.verify_udp(self.datagram) { Ok(()) } else { Err(Layer::Udp.error(Problem::Checksum)) }
    }
}

impl core::ops::Deref for UdpView<'_> {
    type Target = UdpHeader;

    fn deref(&self) -> &UdpHeader {
        self.header
    }
}

/// A UDP header, owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Udp {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Octets that follow the header, at most 65,527.
    pub payload_len: u16,
    /// The checksum as it shall be written: 0 for none, or what [`PseudoHeader::udp`] gives for the whole
    /// datagram.
    pub checksum: u16,
}

impl Udp {
    /// Octets that [`Udp::emit`] writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header at the start of `buffer`; returns [`HEADER_LEN`].
    ///
    /// # Errors
    ///
    /// [`Problem::BufferTooSmall`], and [`Problem::Length`] where header and payload exceed 65,535 octets.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let length = HEADER_LEN + usize::from(self.payload_len);
        let header = UdpHeader {
            source_port: U16::new(self.source_port),
            destination_port: U16::new(self.destination_port),
            length: U16::new(u16::try_from(length).map_err(|_| Layer::Udp.length("length", length))?),
            checksum: U16::new(self.checksum),
        };
        Layer::Udp.write(buffer, &[header.as_bytes()])
    }
}

impl From<UdpView<'_>> for Udp {
    fn from(view: UdpView<'_>) -> Self {
        Self {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            payload_len: view.length() - HEADER_LEN as u16,
            checksum: view.checksum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary::octets;

    /// 10.0.0.1:4000 → 10.0.0.2:53, "hi": words 0a00 0001 0a00 0002 0011 000a | 0fa0 0035 000a 6869 add up to
    /// 8c66.
    const DATAGRAM: [u8; 10] = [0x0f, 0xa0, 0x00, 0x35, 0x00, 0x0a, 0x73, 0x99, b'h', b'i'];

    fn pseudo() -> PseudoHeader {
        PseudoHeader::ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
    }

    #[test]
    fn fields_and_checksum() {
        let padded = [&DATAGRAM[..], &[0xee; 4]].concat();
        let view = UdpView::parse(&padded).unwrap();
        assert_eq!((view.source_port(), view.destination_port(), view.length()), (4000, 53, 10));
        assert_eq!((view.payload(), view.checksum()), (&b"hi"[..], 0x7399));
        assert_eq!(view.verify_checksum(pseudo()), Ok(()));
        assert_eq!(pseudo().udp(&DATAGRAM), 0x7399);
        let mut wrong = DATAGRAM;
        wrong[9] ^= 0x10;
        assert_eq!(
            UdpView::parse(&wrong).unwrap().verify_checksum(pseudo()),
            Err(Layer::Udp.error(Problem::Checksum))
        );
    }

    #[test]
    fn refused_datagrams() {
        let with_length = |length: u8| {
            let mut bytes = DATAGRAM;
            bytes[5] = length;
            UdpView::parse(&bytes).map(|_| ()).unwrap_err().problem
        };
        assert_eq!(with_length(7), Problem::Length { field: "length", value: 7 });
        assert_eq!(with_length(0), Problem::Length { field: "length", value: 0 });
        assert_eq!(with_length(11), Problem::Truncated { needed: 11, available: 10 });
        assert_eq!(
            UdpView::parse(&DATAGRAM[..7]).unwrap_err().problem,
            Problem::Truncated { needed: 8, available: 7 }
        );
    }

    #[test]
    fn refused_headers() {
        let header = Udp { source_port: 1, destination_port: 2, payload_len: 65_528, checksum: 0 };
        assert_eq!(header.emit(&mut [0; 8]), Err(Layer::Udp.length("length", 65_536)));
        assert!(Udp { payload_len: 0, ..header }.emit(&mut [0; 7]).is_err());
    }

    proptest! {
        #[test]
        fn accepted_datagrams_emit_the_same_bytes(mut bytes in octets(0..60), plausible: bool) {
            if plausible && bytes.len() >= 8 {
                bytes[4] = 0;
            }
            if let Ok(view) = UdpView::parse(&bytes) {
                let mut out = [0; 8];
                prop_assert_eq!(Udp::from(view).emit(&mut out), Ok(8));
                prop_assert_eq!(&out[..], &bytes[..8]);
                prop_assert_eq!(view.payload(), &bytes[8..usize::from(view.length())]);
            }
        }

        #[test]
        fn changes_in_place(words: [u16; 4]) {
            let mut bytes = DATAGRAM;
            let (header, _) = UdpHeader::mut_from_prefix(&mut bytes).unwrap();
            header.set_source_port(words[0]);
            header.set_destination_port(words[1]);
            header.set_length(words[2]);
            header.set_checksum(words[3]);
            prop_assert_eq!(&bytes[..8], &words.map(u16::to_be_bytes).concat()[..]);
        }
    }
}
