//! BFD packets of neighbours on a tier-0's interfaces: told from what else is for the node's own addresses.
//!
//! Only neighbours that the document names, and only over one hop: a packet that a router has forwarded has a lower time to live than it was
//! sent with, and nobody can send more (RFC 5881 section 5, RFC 5082). Everything further is for the control thread to judge.

use sluice_wire::{IpProtocol, udp};

use crate::parse::Parsed;
use crate::snapshot::{IngressKind, Snapshot};

/// What a packet for the node's own address is to BFD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// From a neighbour that is watched.
    Watched,
    /// It says so, and was forwarded by somebody.
    Forwarded,
    /// Something else.
    None,
}

/// Judges a packet that came in at `from`.
pub(crate) fn claim(snapshot: &Snapshot, from: IngressKind, parsed: &Parsed) -> Claim {
    let IngressKind::Uplink { interface: Some(_), vlan } = from else { return Claim::None };
    let key = &parsed.key;
    if !key.is_ip() || key.protocol() != IpProtocol::UDP || key.ports().1 != udp::port::BFD {
        return Claim::None;
    }
    let (neighbor, local) = (key.source(), key.destination());
    let mut watched = snapshot.bfd_neighbors().iter();
    match watched
        .any(|bfd| bfd.neighbor.address == neighbor && bfd.local == local && bfd.neighbor.vlan == vlan)
    {
        false => Claim::None,
        true if parsed.ttl < 255 => Claim::Forwarded,
        true => Claim::Watched,
    }
}
