//! Why a received frame is refused, and how many were.

/// Why a frame of the slow protocols was refused. A refused frame has no effect but those that are told here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The port is not one of the LAG.
    #[error("the port is not one of the LAG")]
    UnknownPort,
    /// It is no frame of the slow protocols to their address.
    #[error("the frame is none of the slow protocols")]
    OtherFrame,
    /// It is malformed.
    #[error("the frame is malformed")]
    Malformed,
    /// It is of another slow protocol than LACP and markers.
    #[error("the frame is of another slow protocol")]
    OtherProtocol,
    /// The sender gives a system address that names no station.
    #[error("the sender's system is no MAC address of a station")]
    System,
    /// The port's link is down: the frame is a late one.
    #[error("the port's link is down")]
    LinkDown,
    /// This system sent it. The link is left out from now on: [`super::Exclusion::Loopback`].
    #[error("this system sent the frame itself")]
    Loopback,
    /// It answers a marker, and none was sent.
    #[error("the frame answers a marker that was not sent")]
    UnexpectedResponse,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::UnknownPort,
        Self::OtherFrame,
        Self::Malformed,
        Self::OtherProtocol,
        Self::System,
        Self::LinkDown,
        Self::Loopback,
        Self::UnexpectedResponse,
    ];
}

/// Refused frames of a LAG, counted by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::ALL.len()]);

impl Refusals {
    /// Frames refused for `reason`.
    pub const fn count(&self, reason: Refusal) -> u64 {
        self.0[reason as usize]
    }

    /// Frames refused for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each reason with its number of frames.
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
