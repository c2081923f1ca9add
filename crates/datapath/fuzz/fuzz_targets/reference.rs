//! Traffic that the fuzzer composes from the addresses of a plan: the engine with and without its cache, and the reference, agree on every
//! packet. Neighbours and the plan change in between.
//!
//! The input is a list of 16-bit numbers, 40 for each step.

#![no_main]

#[path = "../../tests/engine/common/mod.rs"]
#[allow(dead_code)]
mod common;
#[path = "../../tests/engine/reference/mod.rs"]
mod reference;
#[path = "../../tests/engine/trio.rs"]
mod trio;

use common::dice::Dice;
use common::plans;
use common::traffic::Traffic;
use libfuzzer_sys::fuzz_target;
use sluice_wire::MacAddr;
use trio::Trio;

/// Numbers that one step takes.
const NUMBERS: usize = 40;

fuzz_target!(|data: &[u8]| {
    let numbers: Vec<u16> = data.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
    let both = [plans::edge(), plans::host()];
    let mut current = numbers.first().map_or(0, |number| usize::from(number % 2));
    let mut trio = Trio::new(&both[current]);
    for numbers in numbers.chunks(NUMBERS).take(200) {
        match numbers {
            [0xfffe, neighbor, mac, ..] => {
                let mac = (mac % 4 > 0).then(|| MacAddr([2, 0xdf, 0, 0, 0, *mac as u8]));
                trio.set_neighbor(usize::from(neighbor % 32), mac);
            }
            [0xffff, ..] => {
                current = 1 - current;
                trio.install(&both[current]);
            }
            _ => {
                let (port, frame) = Traffic::new(&both[current]).frame(&mut Dice::new(numbers));
                let twice = [frame.clone(), frame.clone()];
                let compared = trio.receive(port, &[frame]).and_then(|()| trio.receive(port, &twice));
                if let Err(difference) = compared {
                    panic!("{difference}");
                }
            }
        }
    }
});
