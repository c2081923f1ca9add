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
    fn replace_front(&mut self, pop: usize, push: usize) -> Option<&mut [u8]> {
        Self::replace_front(self, pop, push)?;
        Some(Self::data_mut(self))
    }

    #[inline]
    fn truncate(&mut self, length: usize) {
        Self::truncate(self, length);
    }

    #[inline]
    fn extend_back(&mut self, count: usize) -> Option<&mut [u8]> {
        Self::extend_back(self, count)
    }
}
