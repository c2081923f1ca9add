//! Why a received packet is refused, and how many were.

use sluice_wire::bfd::BfdProblem;
use sluice_wire::{Problem, WireError};

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
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 15] = [
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

/// Refused packets, counted by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::ALL.len()]);

impl Refusals {
    /// Packets refused for `reason`.
    pub const fn count(&self, reason: Refusal) -> u64 {
        self.0[reason as usize]
    }

    /// Packets refused for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each reason with its number of packets.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, u64)> {
        Refusal::ALL.into_iter().map(|reason| (reason, self.count(reason)))
    }

    pub(super) fn add(&mut self, reason: Refusal) {
        self.0[reason as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_counter_of_its_own() {
        let mut refusals = Refusals::default();
        for (times, reason) in Refusal::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| refusals.add(reason));
        }
        let counts: Vec<_> = refusals.iter().map(|(_, count)| count).collect();
        assert_eq!(counts, (0..Refusal::ALL.len() as u64).collect::<Vec<_>>());
        assert_eq!(refusals.total(), counts.iter().sum::<u64>());
    }
}
