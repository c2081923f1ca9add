//! BFD control packets (RFC 5880 §4.1), without authentication.
//!
//! The packet is the payload of UDP (RFC 5881 §4). [`BfdPacket::parse`] makes every check of reception (RFC 5880 §6.8.6)
//! that needs the packet alone; those that need a session are the session's.

use core::fmt;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Layer, Problem, WireError};

/// Octets of a control packet without authentication.
pub const PACKET_LEN: usize = 24;

const VERSION: u8 = 1;

const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const CONTROL_PLANE_INDEPENDENT: u8 = 0x08;
const AUTHENTICATION: u8 = 0x04;
const DEMAND: u8 = 0x02;
const MULTIPOINT: u8 = 0x01;

/// State of a session (RFC 5880 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum BfdState {
    /// Taken down by an administrator.
    AdminDown = 0,
    /// The session is down, or has just been made.
    Down = 1,
    /// The other system is heard, and does not hear this one yet.
    Init = 2,
    /// Both systems hear each other.
    Up = 3,
}

impl BfdState {
    const fn from_flags(flags: u8) -> Self {
        match flags >> 6 {
            0 => Self::AdminDown,
            1 => Self::Down,
            2 => Self::Init,
            _ => Self::Up,
        }
    }
}

impl fmt::Display for BfdState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AdminDown => "AdminDown",
            Self::Down => "Down",
            Self::Init => "Init",
            Self::Up => "Up",
        })
    }
}

/// Why the sender's session last left the state Up, or is not Up (RFC 5880 §4.1); below 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BfdDiagnostic(u8);

impl BfdDiagnostic {
    /// No diagnostic.
    pub const NONE: Self = Self(0);
    /// No control packet came within the detection time.
    pub const CONTROL_DETECTION_TIME_EXPIRED: Self = Self(1);
    /// The echo function failed.
    pub const ECHO_FUNCTION_FAILED: Self = Self(2);
    /// The other system said that its session is down.
    pub const NEIGHBOR_SIGNALED_SESSION_DOWN: Self = Self(3);
    /// The forwarding plane was reset.
    pub const FORWARDING_PLANE_RESET: Self = Self(4);
    /// The path failed.
    pub const PATH_DOWN: Self = Self(5);
    /// A path that this one is a part of failed.
    pub const CONCATENATED_PATH_DOWN: Self = Self(6);
    /// The session was taken down by an administrator.
    pub const ADMINISTRATIVELY_DOWN: Self = Self(7);
    /// A path that this one is a part of failed in the other direction.
    pub const REVERSE_CONCATENATED_PATH_DOWN: Self = Self(8);

    /// The diagnostic with the number `bits`; bits above the lowest five are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0x1f)
    }

    /// The number, below 32.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

impl fmt::Display for BfdDiagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::NONE => "no diagnostic",
            Self::CONTROL_DETECTION_TIME_EXPIRED => "control detection time expired",
            Self::ECHO_FUNCTION_FAILED => "echo function failed",
            Self::NEIGHBOR_SIGNALED_SESSION_DOWN => "neighbor signaled session down",
            Self::FORWARDING_PLANE_RESET => "forwarding plane reset",
            Self::PATH_DOWN => "path down",
            Self::CONCATENATED_PATH_DOWN => "concatenated path down",
            Self::ADMINISTRATIVELY_DOWN => "administratively down",
            Self::REVERSE_CONCATENATED_PATH_DOWN => "reverse concatenated path down",
            Self(other) => return write!(f, "diagnostic {other}"),
        })
    }
}

/// What the checks of reception (RFC 5880 §6.8.6) say of a packet that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BfdProblem {
    /// The packet is authenticated, and no session of this implementation uses that.
    #[error("the packet is authenticated, and no session uses authentication")]
    Authenticated,
    /// The detection time multiplier is zero.
    #[error("the detection time multiplier is zero")]
    ZeroDetectMultiplier,
    /// The multipoint bit is set, which is reserved.
    #[error("the multipoint bit is set")]
    Multipoint,
    /// My Discriminator is zero.
    #[error("My Discriminator is zero")]
    ZeroMyDiscriminator,
    /// Your Discriminator is zero and the state is neither Down nor AdminDown.
    #[error("Your Discriminator is zero in state {0}")]
    ZeroYourDiscriminator(BfdState),
}

/// The packet, as it stands behind the UDP header. Only [`BfdPacket::parse`] makes one, so it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BfdPacket {
    version_diagnostic: u8,
    state_flags: u8,
    detect_multiplier: u8,
    length: u8,
    my_discriminator: U32,
    your_discriminator: U32,
    desired_min_tx: U32,
    required_min_rx: U32,
    required_min_echo_rx: U32,
}

impl BfdPacket {
    /// The packet at the start of `bytes`, which is the payload of UDP.
    ///
    /// # Errors
    ///
    /// [`Problem::Truncated`], also where the packet's own length goes beyond `bytes`; [`Problem::Version`];
    /// [`Problem::Length`] where that length is below [`PACKET_LEN`]; [`Problem::Bfd`] for the other checks.
    pub fn parse(bytes: &[u8]) -> Result<&Self, WireError> {
        let (packet, _) = Layer::Bfd.header::<Self>(bytes)?;
        let version = packet.version_diagnostic >> 5;
        if version != VERSION {
            return Err(Layer::Bfd.error(Problem::Version(version)));
        }
        let length = usize::from(packet.length);
        if length < PACKET_LEN {
            return Err(Layer::Bfd.length("length", length));
        }
        Layer::Bfd.split(bytes, length)?;
        match packet.problem() {
            Some(problem) => Err(Layer::Bfd.error(Problem::Bfd(problem))),
            None => Ok(packet),
        }
    }

    fn problem(&self) -> Option<BfdProblem> {
        if self.detect_multiplier == 0 {
            Some(BfdProblem::ZeroDetectMultiplier)
        } else if self.has(MULTIPOINT) {
            Some(BfdProblem::Multipoint)
        } else if self.my_discriminator() == 0 {
            Some(BfdProblem::ZeroMyDiscriminator)
        } else if self.your_discriminator() == 0 && self.state() >= BfdState::Init {
            Some(BfdProblem::ZeroYourDiscriminator(self.state()))
        } else if self.has(AUTHENTICATION) {
            Some(BfdProblem::Authenticated)
        } else {
            None
        }
    }

    const fn has(&self, flag: u8) -> bool {
        self.state_flags & flag != 0
    }

    /// The state of the sender's session.
    pub const fn state(&self) -> BfdState {
        BfdState::from_flags(self.state_flags)
    }

    /// Why the sender's session is not up, or last was not.
    pub const fn diagnostic(&self) -> BfdDiagnostic {
        BfdDiagnostic::from_bits(self.version_diagnostic)
    }

    /// Poll (P): the sender wants an answer with Final.
    pub const fn poll_flag(&self) -> bool {
        self.has(POLL)
    }

    /// Final (F): the sender answers Poll.
    pub const fn final_flag(&self) -> bool {
        self.has(FINAL)
    }

    /// Control plane independent (C): the sender's BFD goes on while its control plane restarts.
    pub const fn control_plane_independent(&self) -> bool {
        self.has(CONTROL_PLANE_INDEPENDENT)
    }

    /// Demand (D): the sender wants no periodic packets.
    pub const fn demand(&self) -> bool {
        self.has(DEMAND)
    }

    /// How many missing packets of the sender mean that it failed; at least 1.
    pub const fn detect_multiplier(&self) -> u8 {
        self.detect_multiplier
    }

    /// The sender's number of the session; never 0.
    pub fn my_discriminator(&self) -> u32 {
        self.my_discriminator.get()
    }

    /// The receiver's number of the session; 0 while the sender does not know it.
    pub fn your_discriminator(&self) -> u32 {
        self.your_discriminator.get()
    }

    /// The least interval that the sender wants to send at, jitter aside; in microseconds.
    pub fn desired_min_tx(&self) -> u32 {
        self.desired_min_tx.get()
    }

    /// The least interval that the sender can receive at, in microseconds; 0: it wants no periodic packets.
    pub fn required_min_rx(&self) -> u32 {
        self.required_min_rx.get()
    }

    /// The least interval of echo packets that the sender can return, in microseconds; 0: it returns none.
    pub fn required_min_echo_rx(&self) -> u32 {
        self.required_min_echo_rx.get()
    }
}

/// A control packet, owned. The fields are those of [`BfdPacket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bfd {
    /// The state of the sender's session.
    pub state: BfdState,
    /// Why the sender's session is not up, or last was not.
    pub diagnostic: BfdDiagnostic,
    /// Poll (P).
    pub poll_flag: bool,
    /// Final (F); never together with Poll.
    pub final_flag: bool,
    /// Control plane independent (C).
    pub control_plane_independent: bool,
    /// Demand (D).
    pub demand: bool,
    /// How many missing packets of the sender mean that it failed; at least 1.
    pub detect_multiplier: u8,
    /// The sender's number of the session; never 0.
    pub my_discriminator: u32,
    /// The receiver's number of the session; 0 while the sender does not know it.
    pub your_discriminator: u32,
    /// The least interval that the sender wants to send at, in microseconds.
    pub desired_min_tx: u32,
    /// The least interval that the sender can receive at, in microseconds.
    pub required_min_rx: u32,
    /// The least interval of echo packets that the sender can return, in microseconds; 0: none.
    pub required_min_echo_rx: u32,
}

impl Bfd {
    /// Octets that [`Bfd::emit`] writes.
    pub const fn packet_len(&self) -> usize {
        PACKET_LEN
    }

    /// Writes the packet at the start of `buffer`; returns [`PACKET_LEN`].
    ///
    /// # Errors
    ///
    /// [`Problem::BufferTooSmall`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let flags = [
            (self.poll_flag, POLL),
            (self.final_flag, FINAL),
            (self.control_plane_independent, CONTROL_PLANE_INDEPENDENT),
            (self.demand, DEMAND),
        ];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0, |bits, (_, flag)| bits | flag);
        let packet = BfdPacket {
            version_diagnostic: VERSION << 5 | self.diagnostic.bits(),
            state_flags: (self.state as u8) << 6 | flags,
            detect_multiplier: self.detect_multiplier,
            length: PACKET_LEN as u8,
            my_discriminator: self.my_discriminator.into(),
            your_discriminator: self.your_discriminator.into(),
            desired_min_tx: self.desired_min_tx.into(),
            required_min_rx: self.required_min_rx.into(),
            required_min_echo_rx: self.required_min_echo_rx.into(),
        };
        Layer::Bfd.write(buffer, &[packet.as_bytes()])
    }
}

impl From<&BfdPacket> for Bfd {
    fn from(packet: &BfdPacket) -> Self {
        Self {
            state: packet.state(),
            diagnostic: packet.diagnostic(),
            poll_flag: packet.poll_flag(),
            final_flag: packet.final_flag(),
            control_plane_independent: packet.control_plane_independent(),
            demand: packet.demand(),
            detect_multiplier: packet.detect_multiplier(),
            my_discriminator: packet.my_discriminator(),
            your_discriminator: packet.your_discriminator(),
            desired_min_tx: packet.desired_min_tx(),
            required_min_rx: packet.required_min_rx(),
            required_min_echo_rx: packet.required_min_echo_rx(),
        }
    }
}

#[cfg(test)]
#[path = "bfd_tests.rs"]
mod tests;
