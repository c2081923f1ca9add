//! The messages of a memif's control channel, version 2.0: 128 octets each, numbers in the byte order of the machine.
//!
//! ```text
//!   server                                            client
//!     │ ◀────────────────────── connects ──────────────│
//!     │ Hello: what it can do ────────────────────────▶│
//!     │ ◀── Init: which interface ─────────────────────│   Acknowledge
//!     │ ◀── AddRegion: shared memory, a file with it ──│   Acknowledge each
//!     │ ◀── AddRing: where a ring lies, an event file ─│   Acknowledge each
//!     │ ◀── Connect ───────────────────────────────────│
//!     │ Connected ────────────────────────────────────▶│
//!     │ ◀──────── Disconnect, at any time ────────────▶│
//! ```

use super::MemifError;

/// Octets of every message.
pub(super) const MESSAGE_BYTES: usize = 128;
/// Version 2.0, the only one that is spoken.
pub(super) const VERSION: u16 = 2 << 8;
/// Longest name, and longest reason.
const NAME_BYTES: usize = 32;
const REASON_BYTES: usize = 96;
const SECRET_BYTES: usize = 24;
/// Flag of a ring that goes from the client to the server.
const FROM_CLIENT: u16 = 1;
/// Mode of an interface that carries Ethernet frames.
pub(super) const ETHERNET: u8 = 0;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// The last message is accepted.
    Acknowledge,
    /// What the server can do.
    Hello(Hello),
    /// Which interface the client is for.
    Init {
        /// Version that the client speaks.
        version: u16,
        /// Number of the interface.
        id: u32,
        /// What it carries.
        mode: u8,
        /// The client's program.
        name: String,
    },
    /// Memory; its file comes with the message.
    AddRegion {
        /// Its number.
        index: u16,
        /// Octets of it.
        size: u64,
    },
    /// A ring; the file of its events comes with the message.
    AddRing(RingPlace),
    /// All has been said.
    Connect {
        /// The client's interface.
        name: String,
    },
    /// Frames may come.
    Connected {
        /// The server's interface.
        name: String,
    },
    /// The connection ends.
    Disconnect {
        /// Why.
        reason: String,
    },
}

/// What a server can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    /// The server's program.
    pub(super) name: String,
    /// Oldest version that it speaks.
    pub(super) oldest: u16,
    /// Newest version that it speaks.
    pub(super) newest: u16,
    /// Highest number of a region.
    pub(super) last_region: u16,
    /// Highest number of a ring to the client.
    pub(super) last_to_client: u16,
    /// Highest number of a ring to the server.
    pub(super) last_to_server: u16,
    /// Slots of the largest ring, log₂.
    pub(super) ring_size_log2: u8,
}

/// Where a ring lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RingPlace {
    /// Whether it goes from the client to the server.
    pub(super) from_client: bool,
    /// Its number in its direction.
    pub(super) index: u16,
    /// The region that it is in.
    pub(super) region: u16,
    /// Octets in front of it there.
    pub(super) offset: u32,
    /// Its slots, log₂.
    pub(super) size_log2: u8,
    /// Octets of private headers in front of each packet.
    pub(super) private_header: u16,
}

/// Writes the fields of a message one behind the other.
struct Writer {
    bytes: [u8; MESSAGE_BYTES],
    at: usize,
}

impl Writer {
    fn new(kind: u16) -> Self {
        Self { bytes: [0; MESSAGE_BYTES], at: 0 }.raw(&kind.to_ne_bytes())
    }

    fn raw(mut self, octets: &[u8]) -> Self {
        self.bytes[self.at..self.at + octets.len()].copy_from_slice(octets);
        self.at += octets.len();
        self
    }

    fn u16(self, value: u16) -> Self {
        self.raw(&value.to_ne_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.raw(&value.to_ne_bytes())
    }

    /// A text that ends with a zero octet; what is too long is cut off.
    fn text(mut self, text: &str, field: usize) -> Self {
        let end = self.at + field;
        let length = text.floor_char_boundary(field - 1);
        self = self.raw(&text.as_bytes()[..length]);
        self.at = end;
        self
    }
}

/// Reads the fields of a message one behind the other.
struct Reader<'a> {
    bytes: &'a [u8; MESSAGE_BYTES],
    at: usize,
}

impl Reader<'_> {
    fn raw<const N: usize>(&mut self) -> [u8; N] {
        let octets = self.bytes[self.at..].first_chunk().copied().unwrap_or([0; N]);
        self.at += N;
        octets
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.raw())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.raw())
    }

    /// A text for people: what could pass for another line of a log, or for orders to a terminal, is not let in.
    fn text<const N: usize>(&mut self) -> String {
        let octets: [u8; N] = self.raw();
        let text = String::from_utf8_lossy(octets.split(|octet| *octet == 0).next().unwrap_or_default());
        text.replace(char::is_control, "\u{fffd}")
    }
}

impl Message {
    /// As it is sent.
    pub(super) fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let writer = match self {
            Self::Acknowledge => Writer::new(1),
            Self::Hello(hello) => Writer::new(2)
                .text(&hello.name, NAME_BYTES)
                .u16(hello.oldest)
                .u16(hello.newest)
                .u16(hello.last_region)
                .u16(hello.last_to_client)
                .u16(hello.last_to_server)
                .raw(&[hello.ring_size_log2]),
            Self::Init { version, id, mode, name } => Writer::new(3)
                .u16(*version)
                .u32(*id)
                .raw(&[*mode])
                .raw(&[0; SECRET_BYTES])
                .text(name, NAME_BYTES),
            Self::AddRegion { index, size } => Writer::new(4).u16(*index).raw(&size.to_ne_bytes()),
            Self::AddRing(place) => Writer::new(5)
                .u16(if place.from_client { FROM_CLIENT } else { 0 })
                .u16(place.index)
                .u16(place.region)
                .u32(place.offset)
                .raw(&[place.size_log2])
                .u16(place.private_header),
            Self::Connect { name } => Writer::new(6).text(name, NAME_BYTES),
            Self::Connected { name } => Writer::new(7).text(name, NAME_BYTES),
            Self::Disconnect { reason } => Writer::new(8).u32(0).text(reason, REASON_BYTES),
        };
        writer.bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// Messages of another length or an unknown kind.
    pub(super) fn decode(octets: &[u8]) -> Result<Self, MemifError> {
        let bytes: &[u8; MESSAGE_BYTES] =
            octets.try_into().map_err(|_| MemifError::MessageLength(octets.len()))?;
        let mut reader = Reader { bytes, at: 0 };
        Ok(match reader.u16() {
            1 => Self::Acknowledge,
            2 => Self::Hello(Hello {
                name: reader.text::<NAME_BYTES>(),
                oldest: reader.u16(),
                newest: reader.u16(),
                last_region: reader.u16(),
                last_to_client: reader.u16(),
                last_to_server: reader.u16(),
                ring_size_log2: reader.raw::<1>()[0],
            }),
            3 => {
                let (version, id, [mode]) = (reader.u16(), reader.u32(), reader.raw());
                reader.raw::<SECRET_BYTES>();
                Self::Init { version, id, mode, name: reader.text::<NAME_BYTES>() }
            }
            4 => Self::AddRegion { index: reader.u16(), size: u64::from_ne_bytes(reader.raw()) },
            5 => Self::AddRing(RingPlace {
                from_client: reader.u16() & FROM_CLIENT != 0,
                index: reader.u16(),
                region: reader.u16(),
                offset: reader.u32(),
                size_log2: reader.raw::<1>()[0],
                private_header: reader.u16(),
            }),
            6 => Self::Connect { name: reader.text::<NAME_BYTES>() },
            7 => Self::Connected { name: reader.text::<NAME_BYTES>() },
            8 => {
                reader.u32();
                Self::Disconnect { reason: reader.text::<REASON_BYTES>() }
            }
            kind => return Err(MemifError::MessageKind(kind)),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes is read or refused, and what was read means the same when it is written and read again.
        #[test]
        fn any_octets_are_read_or_refused(kind in 0u16..12, rest in proptest::collection::vec(any::<u8>(), 120..130)) {
            let octets = [&kind.to_ne_bytes()[..], &rest].concat();
            match Message::decode(&octets) {
                Ok(message) => {
                    let again = Message::decode(&message.encode()).unwrap();
                    // A text that had to be repaired may have become too long for its field.
                    prop_assert_eq!(std::mem::discriminant(&again), std::mem::discriminant(&message));
                    if matches!(message, Message::AddRegion { .. } | Message::AddRing(_)) {
                        prop_assert_eq!(again, message);
                    }
                }
                Err(MemifError::MessageLength(length)) => prop_assert!(length == octets.len() && length != 128),
                Err(error) => prop_assert_eq!(error, MemifError::MessageKind(kind)),
            }
        }
    }

    fn every_message() -> Vec<Message> {
        let name = "edge-1".to_owned();
        vec![
            Message::Acknowledge,
            Message::Hello(Hello {
                name: name.clone(),
                oldest: VERSION,
                newest: VERSION,
                last_region: 255,
                last_to_client: 7,
                last_to_server: 8,
                ring_size_log2: 14,
            }),
            Message::Init { version: VERSION, id: 0x1234_5678, mode: ETHERNET, name: name.clone() },
            Message::AddRegion { index: 3, size: 0x1234_5678_9abc },
            Message::AddRing(RingPlace {
                from_client: true,
                index: 2,
                region: 1,
                offset: 0x40_0080,
                size_log2: 11,
                private_header: 3,
            }),
            Message::Connect { name: name.clone() },
            Message::Connected { name },
            Message::Disconnect { reason: "the port stops".to_owned() },
        ]
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for message in every_message() {
            assert_eq!(Message::decode(&message.encode()).unwrap(), message);
        }
    }

    /// The layout of the public protocol, packed, little-endian here.
    #[test]
    fn fields_lie_where_other_programs_look_for_them() {
        let at = |message: usize, at: usize, octets: &[u8]| {
            assert_eq!(&every_message()[message].encode()[at..at + octets.len()], octets, "{message}");
        };
        at(1, 0, &[2, 0]);
        at(1, 34, &[0, 2, 0, 2, 255, 0, 7, 0, 8, 0, 14]);
        at(2, 0, &[3, 0, 0, 2, 0x78, 0x56, 0x34, 0x12, 0]);
        at(2, 33, b"edge-1\0");
        at(3, 0, &[4, 0, 3, 0, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0]);
        at(4, 0, &[5, 0, 1, 0, 2, 0, 1, 0, 0x80, 0, 0x40, 0, 11, 3, 0]);
        at(7, 6, b"the port stops\0");
    }

    #[test]
    fn what_is_no_message_is_refused_and_long_texts_are_cut() {
        assert_eq!(Message::decode(&[1; 127]), Err(MemifError::MessageLength(127)));
        assert_eq!(Message::decode(&[9; 128]), Err(MemifError::MessageKind(0x0909)));
        let forged = Message::Disconnect { reason: "end\nnode: all is well\u{1b}[2J".to_owned() };
        let shown = "end\u{fffd}node: all is well\u{fffd}[2J".to_owned();
        assert_eq!(Message::decode(&forged.encode()).unwrap(), Message::Disconnect { reason: shown });
        let long = Message::Connect { name: "é".repeat(40) };
        assert_eq!(Message::decode(&long.encode()).unwrap(), Message::Connect { name: "é".repeat(15) });
    }
}
