//! Arbitrary frames at the ports of an edge that has a bit of everything: nothing panics, and every packet and buffer ends once (which the
//! node checks for each batch).
//!
//! The input is a list of frames: port, length in two bytes, content.

#![no_main]

#[path = "../../tests/engine/common/mod.rs"]
#[allow(dead_code)]
mod common;

use std::cell::RefCell;

use common::node::Node;
use common::plans;
use libfuzzer_sys::fuzz_target;
use sluice_datapath::time::Timestamp;
use sluice_intent::plan::PortIndex;

thread_local! {
    /// Memory for an engine is taken once; installing the plan anew makes every input start with empty tables.
    static NODE: RefCell<Node> = RefCell::new(resolved());
}

fn resolved() -> Node {
    let plan = plans::edge();
    let mut node = Node::new(&plan, true);
    let keys = plans::neighbors(&plan).into_iter().enumerate();
    let all: Vec<_> =
        keys.map(|(number, key)| (key, (number % 5 != 4).then(|| plans::neighbor_mac(number)))).collect();
    node.set_neighbors(&all);
    node
}

fn frames(mut data: &[u8]) -> Vec<(PortIndex, &[u8])> {
    let mut frames = Vec::new();
    while let Some((&[port, high, low], rest)) = data.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([high, low])).min(rest.len());
        let (frame, rest) = rest.split_at(length);
        frames.push((PortIndex(u16::from(port % 5)), frame));
        data = rest;
    }
    frames
}

fuzz_target!(|data: &[u8]| {
    NODE.with_borrow_mut(|node| {
        node.now = Timestamp::from_secs(node.now.as_secs() + 1);
        node.install(&plans::edge());
        let received = node.counters.received.get();
        let frames = frames(data);
        for (port, frame) in &frames {
            // Once decided, twice replayed where it can be.
            let first = node.receive_one(*port, frame);
            let again = node.receive(*port, &[frame, frame]);
            // Only the limit of ICMP errors may make a difference.
            if first.discarded.is_empty() && first.punted.is_empty() && !again[0].sent.is_empty() {
                assert_eq!(first, again[0]);
                assert_eq!(again[0].sent.len(), again[1].sent.len());
            }
        }
        assert_eq!(node.counters.received.get() - received, 3 * frames.len() as u64);
        node.engine.housekeeping(node.now);
    });
});
