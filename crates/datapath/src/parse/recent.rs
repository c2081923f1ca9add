//! The tunnels that packets came in a moment ago.
//!
//! Whether the outer addresses are those of TEPs, and which segment a VNI is, takes three look-ups; a packet's outer headers nearly always
//! equal those of another shortly before. Each worker's engine has one such table; it is emptied with every new snapshot.

use super::usual::{Destination, Tunnel};
use crate::snapshot::IngressId;

/// A power of two. 64 entries of a cache line each take an eighth of a usual first-level cache.
const SIZE: usize = 64;

/// The tunnels that packets came in a moment ago; see the [module](self).
pub(crate) struct RecentTunnels([Entry; SIZE]);

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Entry {
    /// All 0 where there is none, which no packet's is: its UDP port is not 0.
    tunnel: Tunnel,
    inner: Destination,
}

impl RecentTunnels {
    /// None yet.
    pub(crate) fn new() -> Self {
        let nowhere = Destination { id: IngressId(0), mac: 0, layer3: 0 };
        Self([Entry { tunnel: Tunnel::default(), inner: nowhere }; SIZE])
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// The ingress of what is inside the tunnel, if it was remembered.
    #[inline(always)]
    pub(super) fn find(&self, tunnel: Tunnel) -> Option<Destination> {
        let entry = &self.0[place(tunnel)];
        (entry.tunnel == tunnel).then_some(entry.inner)
    }

    /// Remembers a tunnel, in the place of another if need be.
    pub(super) fn remember(&mut self, tunnel: Tunnel, inner: Destination) {
        self.0[place(tunnel)] = Entry { tunnel, inner };
    }
}

/// Many remote TEPs to one VNI, and many VNIs from one TEP, spread alike: both end up in the high bits of the product.
#[inline(always)]
fn place(tunnel: Tunnel) -> usize {
    let mixed = (tunnel.addresses ^ tunnel.header.rotate_left(7)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - SIZE.trailing_zeros())) as usize
}
