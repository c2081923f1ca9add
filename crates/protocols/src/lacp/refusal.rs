//! Why a received frame is refused, and how many were.

use crate::refusals::Reason;

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

impl Reason for Refusal {
    const ALL: &'static [Self] = &Self::ALL;

    fn position(self) -> usize {
        self as usize
    }
}

/// Refused frames of a LAG, counted by reason.
pub type Refusals = crate::refusals::Refusals<Refusal, { Refusal::ALL.len() }>;
