//! Any frames, packets, link states and pauses: the resolver keeps its limits, every packet meets one fate, and nothing panics.
//!
//! The input is a list of steps: a byte that says which, a byte for the pause before it, and for a frame its length and bytes.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use sluice_protocols::Timestamp;
use sluice_protocols::neighbor::{Action, Interface, Link, NeighborKey, Resolver, ResolverConfig};
use sluice_wire::MacAddr;

const NEIGHBORS: usize = 16;
const WAITING: usize = 8;
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

struct Run {
    resolver: Resolver<u32>,
    now: Timestamp,
    given: u32,
    ended: u32,
}

impl Run {
    fn new() -> Self {
        let config = ResolverConfig { neighbors: NEIGHBORS, waiting_in_all: WAITING, ..ResolverConfig::default() };
        Self { resolver: Resolver::new(config), now: Timestamp::from_secs(1), given: 0, ended: 0 }
    }

    fn configure(&mut self, more: bool) {
        let addresses = ["192.0.2.1/24", "2001:db8::1/64", "fe80::1/64"].map(|text| text.parse().expect("a prefix"));
        let link = Link::untagged(0);
        let interface = Interface { link, mac: MAC, addresses: addresses[..if more { 3 } else { 1 }].to_vec() };
        let keep = NeighborKey { link, address: "192.0.2.2".parse().expect("an address") };
        self.resolver.configure(vec![interface], if more { vec![keep] } else { Vec::new() }, self.now);
    }

    /// Carries out a step; none when the input is at its end.
    fn step(&mut self, input: &mut &[u8]) -> Option<()> {
        let (kind, pause) = (take(input)?, take(input)?);
        self.now = self.now.after(Duration::from_millis(u64::from(pause) * u64::from(pause)));
        let link = Link::untagged(u16::from(kind >> 7));
        match kind % 8 {
            0..=2 => {
                let length = usize::from(take(input)?).min(input.len());
                let (frame, rest) = input.split_at(length);
                *input = rest;
                self.resolver.receive(link, frame, self.now);
            }
            3 => {
                self.given += 1;
                let address = [192, 0, 2, take(input)?].into();
                self.resolver.resolve(NeighborKey { link, address }, self.given, self.now);
            }
            4 => self.resolver.link_state(0, take(input)? & 1 == 0, self.now),
            5 => self.resolver.forget(NeighborKey { link, address: [192, 0, 2, take(input)?].into() }, self.now),
            6 => self.configure(take(input)? & 1 == 0),
            _ => self.resolver.poll(self.now),
        }
        Some(())
    }

    fn check(&mut self) {
        let mut actions = 0;
        while let Some(action) = self.resolver.next_action() {
            actions += 1;
            match action {
                Action::Release { .. } | Action::Discard { .. } => self.ended += 1,
                Action::Send { frame, .. } => assert!((14..=1514).contains(&frame.len())),
                _ => {}
            }
        }
        assert!(actions <= 8 * (NEIGHBORS + WAITING) + 64, "{actions} actions of one step");
        // A kept neighbour always finds a place.
        assert!(self.resolver.neighbor_count() <= NEIGHBORS + 1);
        assert!(self.resolver.waiting_count() <= WAITING);
        assert_eq!(self.given - self.ended, self.resolver.waiting_count() as u32, "each packet meets one fate");
    }
}

fn take(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = bytes;
    let mut run = Run::new();
    run.resolver.link_state(0, true, run.now);
    run.configure(true);
    run.check();
    while run.step(&mut input).is_some() {
        run.check();
    }
});
