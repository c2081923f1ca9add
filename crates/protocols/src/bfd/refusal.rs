//! Why a received packet is refused, and how many were.

use sluice_wire::bfd::BfdProblem;
use sluice_wire::{Problem, WireError};

use crate::refusals::Reason;

/// Why a packet was refused. A refused packet changes no session's state and does not count as heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// It is for another UDP port.
    #[error("the packet is not for the port of BFD control packets")]
    Port,
    /// Its TTL or hop limit is not 255: it may come from afar (RFC 5881 §5).
    #[error("the packet's TTL or hop limit is not 255")]
    Ttl,
    /// It is shorter than it has to be, or than it says.
    #[error("the packet is cut short")]
    Truncated,
    /// Its version is not 1.
    #[error("the packet's version is not 1")]
    Version,
    /// Its length field is below that of a packet.
    #[error("the packet's length field is too small")]
    Length,
    /// Its detection time multiplier is zero.
    #[error("the packet's detection time multiplier is zero")]
    DetectMultiplier,
    /// Its multipoint bit is set.
    #[error("the packet's multipoint bit is set")]
    Multipoint,
    /// Its My Discriminator is zero.
    #[error("the packet's own discriminator is zero")]
    MyDiscriminator,
    /// Its Your Discriminator is zero, although the sender says that it heard us.
    #[error("the packet names no session in a state that needs one")]
    YourDiscriminator,
    /// It is authenticated, and the session is not.
    #[error("the packet is authenticated, which no session is")]
    Authenticated,
    /// No session has its Your Discriminator.
    #[error("no session has the packet's discriminator")]
    UnknownDiscriminator,
    /// It names no session, and none watches the path that it came.
    #[error("no session watches the path that the packet came")]
    UnknownPath,
    /// It came another way than the path of the session that it names.
    #[error("the packet came another way than its session's path")]
    OtherPath,
    /// The session's path is known to be down.
    #[error("the session's path is known to be down")]
    PathDown,
    /// The session is switched off (RFC 5880 §6.8.6).
    #[error("the session is administratively down")]
    AdminDown,
    /// A checksum of the packet, or of what carries it, does not hold.
    #[error("a checksum does not hold")]
    Checksum,
    /// It is not what carries BFD: no UDP datagram in IP, or none in the tunnel.
    #[error("the packet is no BFD packet in UDP and IP")]
    Malformed,
    /// It came through a tunnel, and its inner addresses are not those of the tunnel.
    #[error("the packet's inner addresses are not those of its tunnel")]
    InnerAddress,
    /// It came through a tunnel, and its inner frame is for somebody else.
    #[error("the packet's inner MAC address is neither this end's nor the one that is reserved for BFD")]
    InnerMac,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 19] = [
        Self::Port,
        Self::Ttl,
        Self::Truncated,
        Self::Version,
        Self::Length,
        Self::DetectMultiplier,
        Self::Multipoint,
        Self::MyDiscriminator,
        Self::YourDiscriminator,
        Self::Authenticated,
        Self::UnknownDiscriminator,
        Self::UnknownPath,
        Self::OtherPath,
        Self::PathDown,
        Self::AdminDown,
        Self::Checksum,
        Self::Malformed,
        Self::InnerAddress,
        Self::InnerMac,
    ];
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        match error.problem {
            Problem::Version(_) => Self::Version,
            Problem::Length { .. } => Self::Length,
            Problem::Bfd(BfdProblem::ZeroDetectMultiplier) => Self::DetectMultiplier,
            Problem::Bfd(BfdProblem::Multipoint) => Self::Multipoint,
            Problem::Bfd(BfdProblem::ZeroMyDiscriminator) => Self::MyDiscriminator,
            Problem::Bfd(BfdProblem::ZeroYourDiscriminator(_)) => Self::YourDiscriminator,
            Problem::Bfd(BfdProblem::Authenticated) => Self::Authenticated,
            _ => Self::Truncated,
        }
    }
}

impl Reason for Refusal {
    const ALL: &'static [Self] = &Self::ALL;

    fn position(self) -> usize {
        self as usize
    }
}

/// Refused packets, counted by reason.
pub type Refusals = crate::refusals::Refusals<Refusal, { Refusal::ALL.len() }>;
