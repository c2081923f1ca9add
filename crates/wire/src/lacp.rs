//! LACPDUs (IEEE 802.1AX-2014 §6.4.2), version 1.
//!
//! The information on Actor, Partner and Collector stands at fixed places in every version. So a packet of a higher
//! version is read as one of version 1, and what that version added behind the Collector's information is left aside
//! (§6.4.2.4, §6.4.12). Version, TLV types and reserved octets are not looked at, as the standard asks; lengths are,
//! as it allows.

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::MacAddr;
use crate::error::{Layer, WireError};
use crate::slow_protocols::{self, PDU_LEN};

const VERSION: u8 = 1;

const ACTOR: (u8, u8) = (1, 20);
const PARTNER: (u8, u8) = (2, 20);
const COLLECTOR: (u8, u8) = (3, 16);

/// State of a port (IEEE 802.1AX-2014 §6.4.2.3 m).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LacpState(u8);

impl LacpState {
    /// No bit.
    pub const EMPTY: Self = Self(0);
    /// LACP_Activity: Active LACP; clear for Passive.
    pub const ACTIVITY: Self = Self(0x01);
    /// LACP_Timeout: Short Timeout, which asks for fast transmission; clear for Long.
    pub const TIMEOUT: Self = Self(0x02);
    /// Aggregation: the link may be aggregated; clear for Individual.
    pub const AGGREGATION: Self = Self(0x04);
    /// Synchronization: the port is attached to the right aggregator.
    pub const SYNCHRONIZATION: Self = Self(0x08);
    /// Collecting: frames that come in on the link are taken.
    pub const COLLECTING: Self = Self(0x10);
    /// Distributing: frames are sent on the link.
    pub const DISTRIBUTING: Self = Self(0x20);
    /// Defaulted: the port works with a partner that an administrator wrote down, not with one that it heard.
    pub const DEFAULTED: Self = Self(0x40);
    /// Expired: the port has not heard its partner in time.
    pub const EXPIRED: Self = Self(0x80);

    /// The bits with their names, from the lowest on.
    const NAMES: [(Self, &'static str); 8] = [
        (Self::ACTIVITY, "activity"),
        (Self::TIMEOUT, "timeout"),
        (Self::AGGREGATION, "aggregation"),
        (Self::SYNCHRONIZATION, "synchronization"),
        (Self::COLLECTING, "collecting"),
        (Self::DISTRIBUTING, "distributing"),
        (Self::DEFAULTED, "defaulted"),
        (Self::EXPIRED, "expired"),
    ];

    /// The state of these bits.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// All of `bits` are set.
    pub const fn contains(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// The state with `bits` set too.
    #[must_use]
    pub const fn and(self, bits: Self) -> Self {
        Self(self.0 | bits.0)
    }

    /// The state with `bits` set or clear.
    #[must_use]
    pub const fn with(self, bits: Self, set: bool) -> Self {
        if set { self.and(bits) } else { Self(self.0 & !bits.0) }
    }
}

impl fmt::Display for LacpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (_, name) in Self::NAMES.iter().filter(|(bit, _)| self.contains(*bit)) {
            write!(f, "{separator}{name}")?;
            separator = ",";
        }
        if self.0 == 0 { f.write_str("no state") } else { Ok(()) }
    }
}

/// What an LACPDU says of a port: the sender's own (Actor), or what it heard of the receiver's (Partner).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortInfo {
    /// Priority of the system; the lower one decides.
    pub system_priority: u16,
    /// The system's MAC address.
    pub system: MacAddr,
    /// The key: ports of one key may be aggregated.
    pub key: u16,
    /// Priority of the port; the lower one goes first.
    pub port_priority: u16,
    /// The port's number.
    pub port: u16,
    /// The port's state.
    pub state: LacpState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PortTlv {
    kind: u8,
    length: u8,
    system_priority: U16,
    system: MacAddr,
    key: U16,
    port_priority: U16,
    port: U16,
    state: u8,
    reserved: [u8; 3],
}

impl PortTlv {
    fn new((kind, length): (u8, u8), info: &PortInfo) -> Self {
        Self {
            kind,
            length,
            system_priority: info.system_priority.into(),
            system: info.system,
            key: info.key.into(),
            port_priority: info.port_priority.into(),
            port: info.port.into(),
            state: info.state.bits(),
            reserved: [0; 3],
        }
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            system_priority: self.system_priority.get(),
            system: self.system,
            key: self.key.get(),
            port_priority: self.port_priority.get(),
            port: self.port.get(),
            state: LacpState::from_bits(self.state),
        }
    }
}

/// The packet, as it stands behind the Ethernet header. Only [`LacpPacket::parse`] makes one, so its lengths are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LacpPacket {
    subtype: u8,
    version: u8,
    actor: PortTlv,
    partner: PortTlv,
    collector_type: u8,
    collector_length: u8,
    collector_max_delay: U16,
    collector_reserved: [u8; 12],
    /// The terminator and reserved octets, or what a higher version has here.
    rest: [u8; 52],
}

impl LacpPacket {
    /// The LACPDU at the start of `bytes`, which is the payload of an Ethernet frame.
    ///
    /// # Errors
    ///
    /// [`crate::Problem::Truncated`]; [`crate::Problem::Field`] for another subtype; [`crate::Problem::Length`] where
    /// the length of a TLV is not the one of its information.
    pub fn parse(bytes: &[u8]) -> Result<&Self, WireError> {
        let (packet, _) = Layer::Lacp.header::<Self>(bytes)?;
        if packet.subtype != slow_protocols::LACP {
            return Err(Layer::Lacp.field("subtype", packet.subtype.into()));
        }
        let lengths = [
            ("actor information length", packet.actor.length, ACTOR.1),
            ("partner information length", packet.partner.length, PARTNER.1),
            ("collector information length", packet.collector_length, COLLECTOR.1),
        ];
        match lengths.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(packet),
            Some((field, found, _)) => Err(Layer::Lacp.length(field, found.into())),
        }
    }

    /// The sender's version of the protocol.
    pub const fn version(&self) -> u8 {
        self.version
    }

    /// The sender's port.
    pub fn actor(&self) -> PortInfo {
        self.actor.info()
    }

    /// The receiver's port as the sender last heard of it.
    pub fn partner(&self) -> PortInfo {
        self.partner.info()
    }

    /// How long the sender's frame collector may hold a frame, in tens of microseconds.
    pub fn collector_max_delay(&self) -> u16 {
        self.collector_max_delay.get()
    }
}

/// An LACPDU, owned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lacp {
    /// The sender's port.
    pub actor: PortInfo,
    /// The receiver's port as the sender last heard of it.
    pub partner: PortInfo,
    /// How long the sender's frame collector may hold a frame, in tens of microseconds.
    pub collector_max_delay: u16,
}

impl Lacp {
    /// Octets that [`Lacp::emit`] writes.
    pub const fn packet_len(&self) -> usize {
        PDU_LEN
    }

    /// Writes the LACPDU, of version 1, at the start of `buffer`; returns [`PDU_LEN`].
    ///
    /// # Errors
    ///
    /// [`crate::Problem::BufferTooSmall`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let packet = LacpPacket {
            subtype: slow_protocols::LACP,
            version: VERSION,
            actor: PortTlv::new(ACTOR, &self.actor),
            partner: PortTlv::new(PARTNER, &self.partner),
            collector_type: COLLECTOR.0,
            collector_length: COLLECTOR.1,
            collector_max_delay: self.collector_max_delay.into(),
            collector_reserved: [0; 12],
            rest: [0; 52],
        };
        Layer::Lacp.write(buffer, &[packet.as_bytes()])
    }
}

impl From<&LacpPacket> for Lacp {
    fn from(packet: &LacpPacket) -> Self {
        Self {
            actor: packet.actor(),
            partner: packet.partner(),
            collector_max_delay: packet.collector_max_delay(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Problem;
    use crate::arbitrary::{lacp, octets};

    /// Actor 02:..:0a, priority 0x8000, key 7, port 1 of priority 0xff, active, fast, aggregatable, in sync; partner
    /// 02:..:0b, everything else of it the same but its port 2 and its state, defaulted; the collector waits 50 × 10 µs.
    const PACKET: [u8; 58] = [
        1, 1, 1, 20, 0x80, 0, 2, 0, 0, 0, 0, 0x0a, 0, 7, 0, 0xff, 0, 1, 0x0f, 0, 0, 0, 2, 20, 0x80, 0, 2, 0,
        0, 0, 0, 0x0b, 0, 7, 0, 0xff, 0, 2, 0x40, 0, 0, 0, 3, 16, 0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];

    fn whole() -> [u8; PDU_LEN] {
        let mut bytes = [0; PDU_LEN];
        bytes[..58].copy_from_slice(&PACKET);
        bytes
    }

    #[test]
    fn packet_by_hand() {
        let state = LacpState::ACTIVITY.and(LacpState::TIMEOUT).and(LacpState::AGGREGATION);
        let actor = PortInfo {
            system_priority: 0x8000,
            system: MacAddr([2, 0, 0, 0, 0, 0x0a]),
            key: 7,
            port_priority: 0xff,
            port: 1,
            state: state.and(LacpState::SYNCHRONIZATION),
        };
        let system = MacAddr([2, 0, 0, 0, 0, 0x0b]);
        let partner = PortInfo { system, port: 2, state: LacpState::DEFAULTED, ..actor };
        let fields = Lacp { actor, partner, collector_max_delay: 50 };
        assert_eq!(Lacp::from(LacpPacket::parse(&whole()).unwrap()), fields);
        let mut out = [0xff; PDU_LEN];
        assert_eq!(fields.emit(&mut out), Ok(fields.packet_len()));
        assert_eq!(out, whole());
        assert!(fields.emit(&mut out[1..]).is_err());
    }

    #[test]
    fn later_versions_are_read_as_version_1() {
        let mut bytes = whole();
        bytes[1] = 2;
        // Port Algorithm TLV (§6.4.2.4.1), then the terminator.
        bytes[58..64].copy_from_slice(&[4, 6, 0, 0x80, 0xc2, 1]);
        let packet = LacpPacket::parse(&bytes).unwrap();
        assert_eq!(packet.version(), 2);
        assert_eq!(Lacp::from(packet), Lacp::from(LacpPacket::parse(&whole()).unwrap()));
    }

    #[test]
    fn refused_packets() {
        let refused = |at: usize| {
            let mut bytes = whole();
            bytes[at] += 2;
            LacpPacket::parse(&bytes).unwrap_err()
        };
        assert_eq!(refused(0), Layer::Lacp.field("subtype", 3));
        assert_eq!(refused(3), Layer::Lacp.length("actor information length", 22));
        assert_eq!(refused(23), Layer::Lacp.length("partner information length", 22));
        assert_eq!(refused(43), Layer::Lacp.length("collector information length", 18));
        let short = LacpPacket::parse(&whole()[..109]).unwrap_err();
        assert_eq!(short.problem, Problem::Truncated { needed: 110, available: 109 });
    }

    #[test]
    fn states_for_people() {
        assert_eq!(
            LacpState::from_bits(0x3d).to_string(),
            "activity,aggregation,synchronization,collecting,distributing"
        );
        assert_eq!(LacpState::EMPTY.to_string(), "no state");
        let state = LacpState::from_bits(0x0c).with(LacpState::SYNCHRONIZATION, false);
        assert_eq!(state, LacpState::AGGREGATION);
        assert!(!state.contains(LacpState::AGGREGATION.and(LacpState::ACTIVITY)));
    }

    proptest! {
        #[test]
        fn emitted_packets_parse_as_they_were(packet in lacp(), padding in octets(0..20)) {
            let mut bytes = [0; PDU_LEN];
            prop_assert_eq!(packet.emit(&mut bytes), Ok(PDU_LEN));
            let bytes = [&bytes[..], &padding].concat();
            prop_assert_eq!(Lacp::from(LacpPacket::parse(&bytes).unwrap()), packet);
        }

        #[test]
        fn what_is_not_to_be_checked_does_not_matter(packet in lacp(), noise in octets(PDU_LEN)) {
            let mut bytes = [0; PDU_LEN];
            packet.emit(&mut bytes).unwrap();
            for at in [1, 2, 19, 20, 21, 22, 39, 40, 41, 42].into_iter().chain(46..PDU_LEN) {
                bytes[at] = noise[at];
            }
            prop_assert_eq!(Lacp::from(LacpPacket::parse(&bytes).unwrap()), packet);
        }

        #[test]
        fn any_bytes_are_refused_or_read(mut bytes in octets(0..130), plausible: bool) {
            if plausible && bytes.len() >= PDU_LEN {
                (bytes[0], bytes[3], bytes[23], bytes[43]) = (1, 20, 20, 16);
            }
            match LacpPacket::parse(&bytes) {
                Ok(packet) => {
                    let mut out = [0; PDU_LEN];
                    Lacp::from(packet).emit(&mut out).unwrap();
                    prop_assert_eq!(&out[4..19], &bytes[4..19]);
                    prop_assert_eq!(&out[24..39], &bytes[24..39]);
                    prop_assert_eq!(&out[44..46], &bytes[44..46]);
                }
                Err(_) => prop_assert!(!plausible || bytes.len() < PDU_LEN),
            }
        }
    }
}
