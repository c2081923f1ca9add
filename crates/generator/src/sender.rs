//! The sending side of one stream: templates made before the trial, one copy of 128 bytes a packet in it.

use arrayvec::ArrayVec;
use sluice_bench::message::StreamCounts;
use sluice_bench::topology::FLOWS;
use sluice_bench::traffic::{Stream, TrafficError, sequence_octets};
use sluice_dpdk::{Mbuf, Mempool, TxQueue};

use crate::links::BURST;

/// Octets of a frame that differ from zero, and a little more: all headers and the tag of the longest stack end before.
const HEADER_BYTES: usize = 128;

/// The beginning of a flow's frames.
#[repr(align(64))]
struct Template([u8; HEADER_BYTES]);

/// Sends the packets of a stream.
pub(crate) struct Sender {
    templates: Vec<Template>,
    frame_bytes: usize,
    /// Where sequence numbers go.
    sequence_at: usize,
    flow: usize,
    sequence: u32,
    waiting: ArrayVec<Mbuf, BURST>,
}

impl Sender {
    /// Makes the templates.
    pub(crate) fn new(stream: &Stream) -> Result<Self, TrafficError> {
        let mut frame_bytes = 0;
        let template = |flow| {
            let frame = stream.sent(flow)?;
            frame_bytes = frame.len();
            let mut template = Template([0; HEADER_BYTES]);
            let head = &frame[..frame.len().min(HEADER_BYTES)];
            template.0[..head.len()].copy_from_slice(head);
            Ok(template)
        };
        let templates = (0..FLOWS).map(template).collect::<Result<_, TrafficError>>()?;
        let sequence_at = stream.sent_tag() + 4;
        Ok(Self { templates, frame_bytes, sequence_at, flow: 0, sequence: 0, waiting: ArrayVec::new() })
    }

    /// Sends up to `most` packets, those first that found no room before. Returns how many the port took.
    #[inline]
    pub(crate) fn send(
        &mut self,
        most: usize,
        queue: &mut TxQueue,
        pool: &Mempool,
        counts: &mut StreamCounts,
    ) -> usize {
        if self.waiting.is_empty() {
            self.fill(most.min(BURST), pool);
        }
        let sent = queue.transmit(&mut self.waiting);
        counts.sent += sent as u64;
        sent
    }

    /// Frees the packets that found no room.
    pub(crate) fn discard(&mut self) {
        Mbuf::free_bulk(&mut self.waiting);
    }

    #[inline]
    fn fill(&mut self, count: usize, pool: &Mempool) {
        pool.allocate_bulk(&mut self.waiting, count);
        for packet in &mut self.waiting {
            // Always the whole header area, so that what lies behind a short frame is never of another stream: payloads are zeros.
            let Some(bytes) = packet.set_len(self.frame_bytes.max(HEADER_BYTES)) else { continue };
            bytes[..HEADER_BYTES].copy_from_slice(&self.templates[self.flow].0);
            bytes[self.sequence_at..self.sequence_at + 8].copy_from_slice(&sequence_octets(self.sequence));
            packet.truncate(self.frame_bytes);
            self.sequence = self.sequence.wrapping_add(1);
            self.flow = if self.flow + 1 == self.templates.len() { 0 } else { self.flow + 1 };
        }
    }
}
