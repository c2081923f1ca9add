//! The engine works on DPDK's packets in place.

use sluice_datapath::buffer::PacketBuffer;

use crate::Mbuf;

impl PacketBuffer for Mbuf {
    #[inline]
    fn data(&self) -> &[u8] {
        Self::data(self)
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        Self::data_mut(self)
    }

    #[inline]
    fn reframe(&mut self, pop: usize, push: usize, keep: usize) -> Option<&mut [u8]> {
        Self::reframe(self, pop, push, keep)
    }

    #[inline]
    fn extend_back(&mut self, count: usize) -> Option<&mut [u8]> {
        Self::extend_back(self, count)
    }
}
